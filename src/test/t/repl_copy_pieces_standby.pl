
# Copies in pieces from a standby of the primary: several processes read one snapshot of it, and one that is interrupted goes on. Before
# PostgreSQL 16 standbys have no logical slots, which is said.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $primary = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.copy_piece_size = '64kB'", "rose.debug_copied_patience = '1h'", 'rose.max_copy_workers = 3', 'max_worker_processes = 20');
my $rows = 3000;
my $values = "SELECT i, i % 100, repeat('row ' || i, 8) FROM generate_series(1, $rows) i";
stop_points_create($replica);

sub up { return $primary->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

up("CREATE TABLE t (id int PRIMARY KEY, k int, v text); INSERT INTO t $values; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING rose; CREATE INDEX ON t (k)');
$primary->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'standby', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->start;
$primary->wait_for_catchup($standby);
my $subscribe = "SELECT rose.create_subscription('s', \$\$" . $standby->connstr('postgres') . "\$\$, ARRAY['p'])";

if ($primary->pg_version < 16)
{
	like(error_of($replica, $subscribe), qr/logical decoding cannot be used while in recovery/, 'a standby that cannot do it says so');
	is(down('SELECT count(*) FROM rose.stat_subscription'), 0, 'nothing is left of the subscription');
	is(down('SELECT (SELECT count(*) FROM rose.subscription_copy) + (SELECT count(*) FROM t)'), 0, 'nor of a copy');
	$standby->promote;
	down($subscribe);
	down("SELECT rose.wait_for_sync('s', $timeout)");
	is(table_hash($replica, 't'), table_hash($standby, 't'), 'when it is promoted, its table is copied');
	$_->stop foreach $replica, $standby, $primary;
	done_testing();
	exit;
}

# Slots of a standby wait for what its primary says of running transactions.
sub until_down
{
	my ($condition, $what) = @_;

	foreach (1 .. $timeout * 5)
	{
		up('SELECT pg_log_standby_snapshot()');
		return ok(1, $what) if down("SELECT $condition") eq 't';
		usleep(200_000);
	}
	return ok(0, $what);
}
sub synced { return until_down("count(*) = 0 FROM rose.stat_subscription_tables WHERE state <> 'ready'", $_[0]) }
sub same
{
	my ($what) = @_;

	wait_for_apply($primary, $replica);
	is(table_hash($replica, 't'), table_hash($primary, 't'), $what);
	return is(down("SELECT count(*) FROM rose.check('t')"), 0, "$what: nothing is wrong with it");
}
my $stopped = "FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted AND a.backend_type = 'rose replication copier'";
my $control = RoseTest::Session->new($replica);
my $session = RoseTest::Session->new($replica);

$control->run("SELECT stop_at('piece-loaded', 'wait', 'worker', 0, 3)");
$session->start($subscribe);
until_down("count(*) = 3 $stopped", 'three processes copy from a standby');
$session->finish;
up('UPDATE t SET k = k + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 31 = 7');
$control->run("SELECT stop_clear(), go_on('piece-loaded')");
synced('it is copied');
same('a copy from a standby');

$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', 1, 3)");
down("SELECT rose.alter_subscription('s', resync => 't')");
until_down("count(*) > 0 $stopped", 'it is copied again');
up("UPDATE t SET k = k + 1 WHERE id % 3 = 1; DELETE FROM t WHERE id % 31 = 8; INSERT INTO t $values ON CONFLICT DO NOTHING");
my $log = -s $replica->logfile;
down('SELECT pg_terminate_backend(pid) FROM rose.stat_copy_progress WHERE pid IS NOT NULL');
$control->run("SELECT stop_clear(), go_on('piece-committed')");
up("UPDATE t SET id = id + 100000 WHERE id % 101 = 5");
synced('after an interruption');
like(slurp_file($replica->logfile, $log), qr/goes on with the copy of table "t", of which [1-9]/, 'it goes on');
same('an interrupted copy from a standby');
$_->end foreach $control, $session;

$_->stop foreach $replica, $standby, $primary;
done_testing();
