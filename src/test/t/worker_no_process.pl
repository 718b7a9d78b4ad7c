
# A server whose worker processes are all taken: the launcher goes on trying to start workers, but does not fill the log with
# that; and it starts one when it can.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

# The launchers of replication (core's and ours) and of maintenance are three processes, and there is one more.
my $node = rose_node('no_process', 'max_worker_processes = 4', 'max_parallel_workers = 1', 'rose.max_merge_workers = 0',
	"rose.spill_interval = '10ms'", 'log_min_messages = debug1');
sub sql { return $node->safe_psql('postgres', $_[0]) }

my $control = RoseTest::Session->new($node);
my $parallel = RoseTest::Session->new($node);
$parallel->run(always_parallel($node));
$parallel->start('SELECT pg_sleep(1000)');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'a parallel query has the last one');

my $log = -s $node->logfile;
sql("ALTER SYSTEM SET rose.max_merge_workers = 2");
$node->reload;
sql('CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1)');
my $said = 'could not start a rose maintenance worker: all worker processes are in use';
my $tries = 3;
wait_for_log_count($tries);
my $text = slurp_file($node->logfile, $log);
is(scalar(() = $text =~ /LOG: .*$said/g), 1, 'it is logged once');
cmp_ok(scalar(() = $text =~ /DEBUG: .*$said/g), '>=', $tries - 1, 'and tried again');
like($text, qr/$said.*DETAIL: .*HINT: .*max_worker_processes/s, 'with what to do');

sql("SELECT pg_cancel_backend(leader_pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker'");
eval { $parallel->finish };
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_components WHERE kind = 'memtable' AND rows > 0"), 'a worker comes when there is a process');
$parallel->end;
$control->end;
$node->stop;
done_testing();

sub wait_for_log_count
{
	my ($n) = @_;

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if scalar(() = slurp_file($node->logfile, $log) =~ /$said/g) >= $n;
		select(undef, undef, undef, 0.1);
	}
	return;
}
