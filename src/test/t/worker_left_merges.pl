# What is due is merged in the end, whoever has left it: a helper that fails, dies or has to go while the database's first worker has
# ended, workers that die or cannot be started in their turn, and tables that were locked, or failed, when somebody looked at them.
# Nothing is written meanwhile, so nothing else tells that there is something to do.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

# The launchers of replication (core's and ours) and of maintenance are three processes, and there are two more.
my $node = rose_node('left', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'fsync = off',
	'max_worker_processes = 5', 'max_parallel_workers = 2');
my $control;

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub until_true { return $node->poll_query_until('postgres', "SELECT $_[0]") }

# So many workers may there be.
sub allow
{
	my ($n) = @_;

	sql("ALTER SYSTEM SET rose.max_merge_workers = $n");
	sql('SELECT pg_reload_conf()');
	return;
}

sub no_workers
{
	allow(0);
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'");
	until_true("count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'") or die 'a worker goes on';
	return;
}

# Runs that are due for a merge into C1 and too large for one worker to take both tables' along.
sub make_tables
{
	no_workers();
	$control->end if $control;
	$control = RoseTest::Session->new($node);
	foreach my $table ('a', 'b')
	{
		sql("DROP TABLE IF EXISTS $table; CREATE TABLE $table (id int PRIMARY KEY, t text) USING rose");
		sql("INSERT INTO $table SELECT g * 4 + $_, md5((g * 4 + $_)::text) FROM generate_series(1, 12000) g; SELECT rose.spill('$table')") for 0 .. 3;
	}
	return;
}

sub pid_of { return sql("SELECT pid FROM rose.stat_worker WHERE datname = 'postgres' AND helper = $_[0] AND pid IS NOT NULL") }
sub until_waiting { return until_true("count(*) = $_[0] FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") }
sub until_merged { return until_true("count(*) = 0 FROM rose.components('$_[0]') WHERE kind = 'run'") }

sub check
{
	my ($what) = @_;

	foreach my $table ('a', 'b')
	{
		is(sql("SELECT count(*), sum(id), count(*) FILTER (WHERE t = md5(id::text)) FROM $table"), '48000|1152168000|48000', "$what: rows of $table");
		is(sql("SELECT count(*) FROM rose.check('$table')"), 0, "$what: rose.check of $table");
	}
	return;
}

# A helper has begun a merge and waits at the stop point merge-paused; the first worker found nothing more to do, and has ended.
# Returns the table that is left, and the helper.
sub leave_to_helper
{
	my ($what) = @_;

	make_tables();
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 2)");
	allow(2);
	ok(until_waiting(2), "$what: two workers have begun a merge");
	my $helper = pid_of(1);
	my $left = sql("SELECT relation::regclass FROM pg_locks WHERE locktype = 'page' AND granted AND pid = $helper");
	my $other = $left eq 'a' ? 'b' : 'a';

	sql('SELECT pg_cancel_backend(' . pid_of(0) . ')');
	ok(until_merged($other), "$what: the first one has merged its table");
	ok(until_true("pid IS NULL FROM rose.stat_worker WHERE datname = 'postgres' AND helper = 0"), "$what: ... and has ended");
	cmp_ok(sql("SELECT count(*) FROM rose.components('$left') WHERE kind = 'run'"), '>', 1, "$what: the helper's table is not merged");
	return ($left, $helper);
}

# Workers visit each database once after a start. Two of them are one for each of two then, and there would be no helper.
allow(2);
ok(until_true("count(backend_start) = 2 AND count(pid) = 0 FROM rose.stat_worker WHERE datname IN ('postgres', 'template1')"), 'databases are visited');

# ---- a helper that fails
{
	my ($left) = leave_to_helper('error');

	$control->run("SELECT stop_at('merge-read', 'error', 'worker', 0, 1)");
	$control->run("SELECT go_on('merge-paused')");
	ok(until_true("stop_hits('merge-read') = 1"), 'the helper fails');
	ok(until_merged($left), 'what a helper has failed on is merged');
	check('error');
}

# ---- one that is terminated when there is no process for another one; and the one that comes at last dies, too
{
	my ($left, $helper) = leave_to_helper('deaths');
	my @parallel = map { RoseTest::Session->new($node) } 1 .. 2;
	my $log;

	allow(0);
	sql("SELECT pg_terminate_backend($helper)");
	ok(until_true("count(*) = 0 FROM pg_stat_activity WHERE pid = $helper"), 'the helper is gone');
	foreach (@parallel)
	{
		$_->run(always_parallel($node));
		$_->start('SELECT pg_sleep(1000)');
	}
	ok(until_true("count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'queries have all processes');
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 1)");
	$log = -s $node->logfile;
	allow(2);
	ok($node->wait_for_log(qr/could not start a rose maintenance worker/, $log), 'no worker can be started');
	sql("SELECT pg_cancel_backend(leader_pid) FROM pg_stat_activity WHERE backend_type = 'parallel worker'");
	foreach (@parallel)
	{
		eval { $_->finish };
		$_->end;
	}
	ok(until_waiting(1), 'one comes when there is a process, and begins the merge');
	sql('SELECT pg_terminate_backend(' . pid_of(0) . ')');
	ok(until_merged($left), 'what was left by two workers that died is merged');
	check('deaths');
}

# ---- one that has to go while its table is locked
{
	my ($left, $helper) = leave_to_helper('lowered');
	my $holder = RoseTest::Session->new($node);

	$holder->run("BEGIN; LOCK TABLE $left");
	$control->run("SELECT go_on('merge-paused')");
	allow(0);
	ok(until_true("count(*) = 0 FROM pg_stat_activity WHERE pid = $helper"), 'a helper whose table is locked ends when there are to be fewer');
	allow(2);
	$holder->run('COMMIT');
	$holder->end;
	ok(until_merged($left), 'what it has left is merged');
	check('lowered');
}

# ---- a worker that comes to a locked table, and to one on which it fails
{
	make_tables();
	my $holder = RoseTest::Session->new($node);

	$holder->run('BEGIN; LOCK TABLE a');
	$control->run("SELECT stop_at('merge-read', 'error', 'worker', 0, 1)");
	allow(1);
	ok(until_true("stop_hits('merge-read') = 1"), 'a worker fails on a table, and another table is locked');
	ok(until_true("pid IS NULL FROM rose.stat_worker WHERE datname = 'postgres' AND helper = 0"), '... and it ends');
	$holder->run('COMMIT');
	$holder->end;
	ok(until_merged($_), "$_ is merged after all") for 'a', 'b';
	check('kept out');
}

$control->end;
$node->stop;
done_testing();
