# A worker that has joined private runs does not wait for a spill of the table: it goes on with other things, and publishes
# the joined run later. Who waits for a worker's lock cancels what the worker does after a while, a long spill of another
# worker for instance.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('beside', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub private_runs { return sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'") }

sub until_waiting
{
	my ($n) = @_;

	return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
}

my $control = RoseTest::Session->new($node);
my $spiller = RoseTest::Session->new($node);
my @session = map { RoseTest::Session->new($node) } 0 .. 3;

sql("CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t SELECT g, 0, repeat('x', 200) FROM generate_series(1, 2000) g; SELECT rose.merge('t')");
$control->run("SELECT stop_at('merge-built', 'wait', 'worker')");
$_->run('BEGIN') foreach @session;
foreach my $v (1 .. 6)
{
	$session[$_]->run("UPDATE t SET v = $v, doc = repeat('y', 800) WHERE id % 4 = $_") foreach 0 .. $#session;
	sql("SELECT rose.spill('t')");
}
wait_for_stop($node);
my $before = private_runs();
cmp_ok($before, '>', 2, 'a worker joins private runs');

# A spill holds its lock when the joined run is to be published.
sql('INSERT INTO t VALUES (5000, 0, NULL)');
$control->run("SELECT stop_at('spill-written', 'wait', 'client')");
$spiller->start("SELECT rose.spill('t')");
ok(until_waiting(2), 'a spill is under way');
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker')");
$control->run("SELECT go_on('merge-built')");
ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-paused') = 1"), 'the worker does not wait for it');
is(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND NOT granted"), 0, '... nobody does');
is(private_runs(), $before, 'nothing is published yet');
$control->run("SELECT go_on('spill-written')");
$spiller->finish;
$control->run("SELECT go_on('merge-paused')");
ok($node->poll_query_until('postgres', "SELECT count(*) < $before FROM rose.components('t') WHERE kind = 'private run'"), 'the joined run is published after the spill');
is(sql('SELECT count(*), sum(v) FROM t'), '2001|0', 'nothing is committed');
$session[0]->run('COMMIT');
$session[1]->run('ROLLBACK');
is(sql('SELECT count(*), sum(v) FROM t'), '2001|3000', 'one is');
$_->run('COMMIT') foreach @session[2, 3];
is(sql('SELECT count(*), sum(v) FROM t'), '2001|9000', 'all but one are');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');

$_->end foreach (@session, $spiller, $control);
$node->stop;
done_testing();
