
# The end of a transaction does not fail because the shared memory of a table that goes with it cannot be freed then: that
# is done later, and a table that comes after it has nothing of it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

# no worker before the end: one that is just started looks at once for what was left
my $node = rose_node('later', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'autovacuum = off');
stop_points_create($node);

my $session = RoseTest::Session->new($node);
my $control = RoseTest::Session->new($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub in_use { return sql('SELECT tables FROM rose.stat_memory') }

my $pid = $session->run('SELECT pg_backend_pid()');
my $log = -s $node->logfile;
my $n = 0;

# Statements after which a table is gone; the last one is the transaction's end.
foreach my $case (
	[ 'a table that is not made after all', 'BEGIN; CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1)', 'ROLLBACK' ],
	[ 'one that is not made by a subtransaction', 'BEGIN; SAVEPOINT a; CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1)', 'ROLLBACK TO a; COMMIT' ],
	[ 'a table that is dropped', 'CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1); BEGIN; DROP TABLE t', 'COMMIT' ],
	[ 'a file that is replaced', 'CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1); BEGIN; TRUNCATE t', 'COMMIT; DROP TABLE t' ])
{
	my ($what, $before, $end) = @$case;

	$session->run($before);
	$control->run("SELECT stop_at('registry-dropping', 'error', 'client')");
	$session->run($end);
	is($control->run("SELECT stop_hits('registry-dropping')"), ++$n && 1, "$what: its memory cannot be freed");
	$control->run('SELECT stop_clear()');
	is($session->run('SELECT pg_backend_pid()'), $pid, "$what: the session goes on");
	cmp_ok(in_use(), '>=', 1, "$what: the entry is left");
	$session->run('CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (2)');
	is($session->run('SELECT id FROM t'), 2, "$what: the next one has its own rows");
	$session->run('DROP TABLE t');
}
my $told = () = slurp_file($node->logfile, $log) =~ /shared memory of a rose table that is gone could not be freed yet/g;
is($told, $n, 'it is logged');

sql('ALTER SYSTEM SET rose.max_merge_workers = 3');
sql("ALTER SYSTEM SET rose.spill_interval = '10ms'");
$node->reload;
ok($node->poll_query_until('postgres', 'SELECT tables = 0 FROM rose.stat_memory'), 'workers find what was left');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $pid), 1, 'no process has failed');
$session->end;
$control->end;
$node->stop;
done_testing();
