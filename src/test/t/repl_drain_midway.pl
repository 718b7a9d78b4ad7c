# A worker is to stop in the middle of a transaction of the upstream, whose batch has others before it: all of the batch is given up, and
# all of it comes again.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", "rose.batch_interval = '20s'");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }

up('CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE a, b; INSERT INTO a VALUES (0)');
sql('CREATE TABLE a (id int PRIMARY KEY) USING rose; CREATE TABLE b (id int PRIMARY KEY) USING rose');
subscribe($upstream, $node);
my $locker = RoseTest::Session->new($node);
my $draining = RoseTest::Session->new($node);

foreach my $n (1 .. 3)
{
	my $worker = sql('SELECT pid FROM rose.stat_subscription');

	# The worker waits with the first one in hand while the others come.
	$locker->run('BEGIN; LOCK TABLE a');
	up("INSERT INTO a VALUES ($n); DELETE FROM a WHERE id = $n - 1");
	up("BEGIN; INSERT INTO b SELECT g FROM generate_series($n * 1000000, $n * 1000000 + 200000) g; COMMIT");
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE pid = $worker AND NOT granted") or die 'it does not wait';
	$draining->start("SELECT rose.alter_subscription('s', refresh => true)");
	select undef, undef, undef, 1;
	$locker->run('ROLLBACK');
	$draining->finish;
	wait_for_apply($upstream, $node);
	is(table_hash($node, $_), table_hash($upstream, $_), "$n: $_") foreach qw(a b);
	isnt(sql('SELECT pid FROM rose.stat_subscription'), $worker, "$n: by another worker");
}
$_->end foreach $locker, $draining;
crash_and_restart($node);
wait_for_apply($upstream, $node);
is(table_hash($node, $_), table_hash($upstream, $_), "after a crash: $_") foreach qw(a b);

$node->stop;
$upstream->stop;
done_testing();
