# Processes that wait or die at chosen places: stages of spills, merges, epochs and
# recovery (stop points; see util/rose_stop_point.h).
#
# What a session could lose is compared with what it was told, and rose.check
# finds nothing. Races between sessions alone are isolation specs, stop_*.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $node = rose_node('stop', "rose.spill_interval = '1h'", 'restart_after_crash = on', "deadlock_timeout = '100ms'",
	# row locks are not logged then
	'max_prepared_transactions = 0');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# A table with $runs runs more and something in memory, all values $v.
sub fill
{
	my ($table, $v, $runs) = @_;

	return sql("DO 'BEGIN FOR i IN 1..$runs LOOP UPDATE $table SET v = $v; COMMIT; PERFORM rose.spill(''$table''); COMMIT; END LOOP; UPDATE $table SET v = $v; END'");
}

# '' if all rows of the table have this value and nothing is wrong with it.
sub problem
{
	my ($table, $v) = @_;
	my $rows = sql("SELECT count(*), min(v), max(v), count(DISTINCT id) FROM $table");
	return "rows: $rows" if $rows ne "1000|$v|$v|1000";
	my $looked_up = sql("SET enable_seqscan = off; SELECT v FROM $table WHERE id = 500");
	return "looked up: $looked_up" if $looked_up ne $v;
	return sql("SELECT c::text FROM rose.check('$table') c");
}

sub create { return sql("CREATE TABLE $_[0] (id int PRIMARY KEY, v int, pad text DEFAULT repeat('x', 50)) USING rose; INSERT INTO $_[0] SELECT g, 0 FROM generate_series(1, 1000) g") }

# The server restarts itself after a crash; wait until it has.
sub wait_for_restart
{
	my ($since) = @_;

	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $since);
	wait_until_up($node);
	return;
}

# 0: whatever is done is done by the session under test
sub set_workers
{
	my ($n) = @_;

	sql("ALTER SYSTEM SET rose.max_merge_workers = $n");
	sql('SELECT pg_reload_conf()');
	return;
}

sub set_spill_interval
{
	my ($time) = @_;

	sql("ALTER SYSTEM SET rose.spill_interval = '$time'");
	sql('SELECT pg_reload_conf()');
	return;
}

# --- a client that fails or dies at each stage of a spill and of a merge
set_workers(0);
create('t');
my $v = 0;
foreach my $stage (qw(spill-frozen spill-writer-met spill-planned spill-carried spill-written spill-finished spill-freed merge-begun merge-read merge-built merge-published))
{
	foreach my $action (qw(error terminate crash))
	{
		fill('t', ++$v, 2);
		my $log = -s $node->logfile;
		my $open = RoseTest::Session->new($node);
		$open->run("BEGIN; UPDATE t SET v = -1 WHERE id % 10 = 0");
		sql("SELECT stop_at('$stage', '$action')");
		my ($rc) = $node->psql('postgres', "SELECT rose.merge('t')");
		isnt($rc, 0, "rose.merge ends at $stage: $action");
		wait_for_restart($log) if $action eq 'crash';
		$open->end;
		is(problem('t', $v), '', "nothing is lost at $stage: $action");
		sql("SELECT rose.merge('t')");
		is(problem('t', $v), '', 'nor by the next spill and merge');
	}
}
foreach my $stage (qw(manifest-switched spill-published))
{
	fill('t', ++$v, 2);
	my $log = -s $node->logfile;
	sql("SELECT stop_at('$stage', 'crash')");
	my ($rc) = $node->psql('postgres', "SELECT rose.merge('t')");
	wait_for_restart($log);
	is(problem('t', $v), '', "nothing is lost at $stage: crash");
}

# --- the same for the worker, whose merges outlive transactions
set_workers(3);
foreach my $stage (qw(merge-begun merge-paused merge-read merge-built))
{
	foreach my $action (qw(terminate crash))
	{
		my $log = -s $node->logfile;
		sql("UPDATE t SET v = " . ++$v);
		sql("SELECT stop_at('$stage', '$action', 'worker')");
		# ended by the crash, perhaps
		$node->psql('postgres', "DO 'BEGIN FOR i IN 1..12 LOOP UPDATE t SET v = $v; COMMIT; PERFORM rose.spill(''t''); COMMIT; END LOOP; END'");
		if ($action eq 'crash')
		{
			wait_for_restart($log);
		}
		else
		{
			ok($node->poll_query_until('postgres', "SELECT stop_hits('$stage') = 1"), "the worker dies at $stage");
		}
		is(problem('t', $v), '', "nothing is lost when the worker dies at $stage: $action");
	}
}

# Regions of components that were never finished are used again, whoever died.
sql("SELECT rose.merge('t')") for 1 .. 3;
my $size = sql("SELECT pg_relation_size('t')");
foreach my $n (1 .. 12)
{
	sql("UPDATE t SET v = " . ++$v);
	sql("SELECT stop_at('" . ($n % 2 ? 'merge-built' : 'spill-finished') . "', '" . ($n % 4 > 1 ? 'error' : 'terminate') . "', 'client')");
	$node->psql('postgres', "SELECT rose.merge('t')");
}
sql("SELECT rose.merge('t')");
is(problem('t', $v), '', 'the table is well');
cmp_ok(sql("SELECT pg_relation_size('t')"), '<=', $size + 4 * 16 * 8192, 'its file has not grown by what was given up');

# --- DDL while the worker is between two steps of a merge
foreach my $ddl ("TRUNCATE d", "DROP TABLE d", "ALTER TABLE d ALTER v TYPE bigint", "ALTER TABLE d DROP COLUMN pad", "VACUUM FULL d",
	"BEGIN; TRUNCATE d; ROLLBACK", "BEGIN; TRUNCATE d; INSERT INTO d SELECT g, 1 FROM generate_series(1, 1000) g; SAVEPOINT s; TRUNCATE d; ROLLBACK TO s; COMMIT")
{
	foreach my $stage (qw(merge-paused merge-built))
	{
		my $ctl = RoseTest::Session->new($node);

		sql("SELECT stop_clear()");
		create('d');
		$ctl->run("SELECT stop_at('$stage', 'wait', 'worker')");
		fill('d', 1, 12);
		wait_for_stop($node);
		# At merge-built the worker holds its table lock, and is told to let go.
		sql($ddl);
		# so that a new file has components of the same names
		sql("INSERT INTO d SELECT g, 1 FROM generate_series(1, 1000) g") if $ddl =~ /^TRUNCATE/;
		fill('d', 1, 12) if $ddl !~ /^DROP/;
		$ctl->run("SELECT go_on('$stage')");
		$ctl->end;
		if ($ddl =~ /^DROP/)
		{
			ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), "$ddl at $stage: the merge gives up");
			next;
		}
		is(problem('d', 1), '', "$ddl at $stage");
		fill('d', 2, 12);
		sql("SELECT rose.merge('d')");
		is(problem('d', 2), '', "$ddl at $stage: merges go on");
		sql("DROP TABLE d");
	}
}

# --- TRUNCATE and DROP between the stages of a worker's spill, which lets go of the table
foreach my $ddl ("TRUNCATE d", "DROP TABLE d", "BEGIN; TRUNCATE d; ROLLBACK", "BEGIN; DROP TABLE d; ROLLBACK")
{
	foreach my $stage (qw(spill-frozen spill-planned spill-carried spill-written spill-finished spill-freed))
	{
		my $ctl = RoseTest::Session->new($node);
		my $open = RoseTest::Session->new($node);

		create('d');
		create('other');
		$ctl->run("SELECT stop_at('$stage', 'wait', 'worker')");
		# What another transaction has in the memtable is carried over.
		$open->run('BEGIN; UPDATE other SET v = 1 WHERE id % 10 = 0');
		sql("INSERT INTO d SELECT g, 0 FROM generate_series(1001, 1010) g; DELETE FROM d WHERE id > 1000");
		set_spill_interval('10ms');
		wait_for_stop($node);
		sql($ddl);
		set_spill_interval('1h');
		$ctl->run("SELECT go_on('$stage')");
		$_->end foreach $ctl, $open;
		is(problem('other', 0), '', "$ddl at $stage: another table");
		if ($ddl =~ /^TRUNCATE/)
		{
			is(sql("SELECT count(*) FROM d"), 0, "$ddl at $stage: no row is left");
			sql("INSERT INTO d SELECT g, 0 FROM generate_series(1, 1000) g");
		}
		if ($ddl !~ /^DROP/)
		{
			is(problem('d', 0), '', "$ddl at $stage");
			fill('d', 1, 2);
			sql("SELECT rose.merge('d')");
			is(problem('d', 1), '', "$ddl at $stage: spills and merges go on");
			sql('DROP TABLE d');
		}
		sql('DROP TABLE other');
	}
}

# --- places for tables are asked for while a merge is between two steps: its table keeps its own, since
# it has claimed components, and no place that the merge writes into comes to belong to another table
$node->append_conf('postgresql.conf', 'rose.max_tables = 16');
set_workers(1);					# whose merges are counted
$node->restart;
{
	my $ctl = RoseTest::Session->new($node);

	my $begun =
	  "SELECT coalesce(c1_merge_done, c2_merge_done) > 0, building_bytes FROM rose.stat_merge_progress JOIN rose.stat_space USING (relid) WHERE relid = 'e'::regclass";

	# All garbage for longer than a step takes, so there is no output after the first one.
	foreach my $garbage (300_000, 1_000_000, 3_000_000, 3_000_000)
	{
		sql("DROP TABLE IF EXISTS e; CREATE TABLE e (id int PRIMARY KEY, v int) USING rose");
		sql("INSERT INTO e SELECT g, 1 FROM generate_series(1, $garbage + 1000) g; SELECT rose.spill('e')");
		$ctl->run("SELECT stop_at('merge-paused', 'wait', 'worker', 1)");
		sql("DELETE FROM e WHERE id <= $garbage");
		sql("INSERT INTO e VALUES ($garbage + 1000 + $_, 1); SELECT rose.spill('e')") foreach 1 .. 8;
		wait_for_stop($node);
		last if sql("SELECT sum(rows) FROM rose.components('e') WHERE kind <> 'memtable'") > $garbage && sql($begun) eq 't|0';
		# the machine is too fast, or the first step was that of another merge
		$ctl->run("SELECT go_on('merge-paused')");
	}
	is(sql($begun), 't|0', 'a merge has begun, its output has not');
	sql("CREATE TABLE place_$_ (id int PRIMARY KEY) USING rose") foreach 1 .. 16;
	# These have changes in memory, so that all others would have to give up their places.
	sql("INSERT INTO place_$_ VALUES (1)") foreach 1 .. 16;
	sql("DROP TABLE place_1");
	cmp_ok(sql("SELECT raw_bytes FROM rose.stat_merge_progress WHERE relid = 'e'::regclass"), '>', 0, 'its entry stays, with what was counted');
	$ctl->run("SELECT stop_at('merge-built', 'wait', 'worker'), go_on('merge-paused')");
	wait_for_stop($node);
	my $merges = sql("SELECT merges FROM rose.stat_worker WHERE datname = 'postgres'");
	# A spill must not get the regions of an output that is not published yet.
	sql("INSERT INTO e SELECT g, 1 FROM generate_series(-$_ * 1000, -$_ * 1000 + 900) g; SELECT rose.spill('e')") foreach 1 .. 5;
	my $before = sql('SELECT count(*), sum(id), sum(v) FROM e');
	$ctl->run("SELECT go_on('merge-built')");
	$ctl->end;
	ok($node->poll_query_until('postgres', "SELECT merges > $merges FROM rose.stat_worker WHERE datname = 'postgres'"), 'the worker merges');
	is(sql('SELECT count(*), sum(id), sum(v) FROM e'), $before, 'the rows are the same');
	is(sql("SELECT c::text FROM rose.check('e') c"), '', 'rose.check');
	is(join('', map { sql("SELECT c::text FROM rose.check('place_$_') c") } 2 .. 16), '', 'rose.check of the others');
	sql("DROP TABLE place_$_") foreach 2 .. 16;
	sql("DROP TABLE e");
}
$node->append_conf('postgresql.conf', 'rose.max_tables = 4096');
set_workers(3);
$node->restart;

# --- a first writer while another process is still recovering the table
create('r');
sql("SELECT rose.spill('r')");
sql("UPDATE r SET v = 1");
# a worker would visit the table first
set_workers(0);
foreach my $how (qw(restart crash))
{
	my ($ctl, $late, $writer);

	$how eq 'crash' ? crash_and_restart($node) : $node->restart;
	$ctl = RoseTest::Session->new($node);
	$ctl->run("SELECT stop_at('recover-judged', 'wait', 'client')");
	$late = RoseTest::Session->new($node);
	$late->start("SELECT 'sum ' || sum(v) FROM r");
	wait_for_stop($node);
	# Nothing but C0 knows of the lock; a second recovery would lose it.
	$writer = RoseTest::Session->new($node);
	$writer->run("BEGIN; SELECT FROM r WHERE id = 1 FOR UPDATE; INSERT INTO r VALUES (1001, 1)");
	$ctl->run("SELECT go_on('recover-judged')");
	is($late->finish, 'sum 1000', "$how: the late reader sees what is committed");
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE r SET v = 2 WHERE id = 1");
	like($err, qr/lock timeout/, "$how: the lock of the first writer holds");
	$writer->run("ROLLBACK");
	is(problem('r', 1), '', "$how: the table is well");
	$_->end foreach $ctl, $late, $writer;
}

# --- a crash in the middle of recovery
$node->restart;
my $log = -s $node->logfile;
sql("SELECT stop_at('recover-settled', 'crash')");
$node->psql('postgres', 'SELECT count(*) FROM r');
wait_for_restart($log);
is(problem('r', 1), '', 'a crash in recovery is recovered from');
$node->stop;

# --- epochs: a replica that dies around the commit of one
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '100ms'", 'restart_after_crash = off');
my @sides = qw(left_side right_side);

stop_points_create($replica);
foreach my $table (@sides)
{
	$upstream->safe_psql('postgres', "CREATE TABLE $table (id int PRIMARY KEY, n bigint); INSERT INTO $table SELECT g, 0 FROM generate_series(1, 100) g");
	$replica->safe_psql('postgres', "CREATE TABLE $table (id int PRIMARY KEY, n bigint) USING rose");
}
$upstream->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE left_side, right_side');
subscribe($upstream, $replica);

sub expected_sums { return join '|', map { $_ * 100 * $_[0] } -1, 1 }
sub sums { return $replica->safe_psql('postgres', 'SELECT (SELECT sum(n) FROM left_side), (SELECT sum(n) FROM right_side)') }

my $n = 0;

# Epochs that the apply worker writes itself, and those that are in flight beside it.
foreach my $size ('1MB', '0')
{
	$replica->safe_psql('postgres', "ALTER SYSTEM SET rose.background_spill_size = '$size'");
	$replica->safe_psql('postgres', 'SELECT pg_reload_conf()');

	# stage, whether the epoch is committed by then, and the arrivals to let pass
	foreach my $case ([ 'spill-published', 0, 0 ], [ 'spill-published', 0, 1 ], [ 'epoch-spilled', 0, 0 ], [ 'epoch-committed', 1, 0 ],
		[ 'epoch-settled', 1, 0 ], [ 'epoch-settled', 1, 1 ])
	{
		my ($stage, $committed, $skip) = @$case;
		my $old = $n;

		$n++;
		$upstream->safe_psql('postgres', 'BEGIN; UPDATE left_side SET n = n - 1; UPDATE right_side SET n = n + 1; COMMIT');
		wait_for_apply($upstream, $replica);
		$replica->safe_psql('postgres', "SELECT stop_at('$stage', 'crash', 'worker', $skip)");
		$replica->psql('postgres', "SELECT rose.spill('left_side')");
		usleep(100_000) while -e $replica->data_dir . '/postmaster.pid';
		$replica->{_pid} = undef;

		start_without_replication($replica);
		is(sums(), expected_sums($committed ? $n : $old), "a crash at $stage, $skip before it: all tables are " . ($committed ? 'behind the epoch' : 'before it'));
		is($replica->safe_psql('postgres', "SELECT count(*) FROM rose.components('left_side') WHERE state ~ 'pending'"), 0, 'nothing is pending');
		replication_again($replica);
		wait_for_apply($upstream, $replica);
		$replica->safe_psql('postgres', "SELECT rose.spill('left_side')");
		is(sums(), expected_sums($n), 'then the stream goes on');
		is($replica->safe_psql('postgres', "SELECT c::text FROM rose.check('left_side') c UNION ALL SELECT c::text FROM rose.check('right_side') c"), '', 'rose.check');
	}

	# The worker alone dies, and its successor goes on with what it finds.
	foreach my $stage (qw(epoch-frozen spill-finished epoch-spilled epoch-committed))
	{
		$n++;
		$upstream->safe_psql('postgres', 'BEGIN; UPDATE left_side SET n = n - 1; UPDATE right_side SET n = n + 1; COMMIT');
		wait_for_apply($upstream, $replica);
		$replica->safe_psql('postgres', "SELECT stop_at('$stage', 'terminate', 'worker')");
		is($replica->safe_psql('postgres', "SELECT rose.spill('left_side'); SELECT stop_hits('$stage')"), "\n1", "rose.spill outlives a worker that ends at $stage");
		is(sums(), expected_sums($n), 'no row is lost or doubled');
		is($replica->safe_psql('postgres', "SELECT count(*) FROM rose.components('left_side') WHERE state ~ 'pending'"), 0, 'nothing is pending');
		is($replica->safe_psql('postgres', "SELECT c::text FROM rose.check('left_side') c UNION ALL SELECT c::text FROM rose.check('right_side') c"), '', 'rose.check');
	}
}

# --- a row that is put together of two versions, which a merge folds into one meanwhile
$upstream->safe_psql('postgres', q{
	CREATE TABLE torn (id int PRIMARY KEY, a int, b int, doc text);
	ALTER TABLE torn ALTER doc SET STORAGE EXTERNAL;
	INSERT INTO torn SELECT g, 0, 0, repeat(md5(g::text), 100) FROM generate_series(1, 3) g;
	ALTER PUBLICATION p ADD TABLE torn});
$replica->safe_psql('postgres', 'CREATE TABLE torn (id int PRIMARY KEY, a int, b int, doc text) USING rose');
$replica->safe_psql('postgres', "SELECT rose.alter_subscription('s', refresh => true)");
$replica->safe_psql('postgres', "SELECT rose.wait_for_sync('s', $timeout)");
foreach my $last ('', ', another transaction sees the first version')
{
	my $old = RoseTest::Session->new($replica);
	my $ctl = RoseTest::Session->new($replica);
	my $reader = RoseTest::Session->new($replica);

	$replica->safe_psql('postgres', "SELECT rose.spill('torn'); SELECT rose.merge('torn')");
	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM torn') if $last ne '';
	$upstream->safe_psql('postgres', 'UPDATE torn SET a = a + 1');
	$upstream->safe_psql('postgres', 'UPDATE torn SET b = b + 1');
	my $lsn = $upstream->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	$replica->safe_psql('postgres', "SELECT rose.wait_for_lsn('s', '$lsn', $timeout)");
	my $query = 'SELECT id, a, b, md5(doc) FROM torn WHERE id = 2';
	my $expected = $upstream->safe_psql('postgres', $query);

	$ctl->run("SELECT stop_at('lookup-partial', 'wait', 'client')");
	$reader->start("SET enable_seqscan = off; $query");
	wait_for_stop($replica);
	$replica->safe_psql('postgres', "SELECT rose.spill('torn'); SELECT rose.merge('torn')");
	is($replica->safe_psql('postgres', "SELECT count(*) FROM rose.components('torn') WHERE kind = 'memtable'"), 0, 'nothing is in memory');
	$ctl->run("SELECT go_on('lookup-partial')");
	is($reader->finish, $expected, "spilled and merged between two versions of a row$last");
	$_->end foreach $old, $ctl, $reader;
}

# --- the same while an epoch's runs are published already, but its memtable is still there
sub set_replica
{
	my ($setting) = @_;

	$replica->safe_psql('postgres', "ALTER SYSTEM SET $setting");
	$replica->safe_psql('postgres', 'SELECT pg_reload_conf()');
	return;
}

set_replica('rose.max_merge_workers = 0');
$replica->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM rose.stat_worker WHERE pid IS NOT NULL');
foreach my $change ("doc = doc || 'x'", ('a = a + 1', 'b = b + 1') x 3, 'a = a + 1')
{
	$replica->safe_psql('postgres', "SELECT rose.spill('torn')");
	$upstream->safe_psql('postgres', "UPDATE torn SET $change");
	wait_for_apply($upstream, $replica);
}
my $rows = 'SELECT id, a, b, md5(doc) FROM torn ORDER BY id';
my $docs = 'SELECT (SELECT md5(doc) FROM torn WHERE id = g) FROM generate_series(1, 3) g';
my $runs = "SELECT count(*) FROM rose.components('torn') WHERE kind = 'run'";
my $ctl = RoseTest::Session->new($replica);
my $spill = RoseTest::Session->new($replica);

$ctl->run("SELECT stop_at('epoch-settled', 'wait', 'worker', 2)");
$spill->start("SELECT rose.spill('torn')");
wait_for_stop($replica);
my $nruns = $replica->safe_psql('postgres', $runs);
is($replica->safe_psql('postgres', "$runs AND state <> 'live'"), 0, 'an epoch is published');
set_replica('rose.max_merge_workers = 3');
$replica->poll_query_until('postgres', "SELECT ($runs) < $nruns") or fail('no merge came');
is($replica->safe_psql('postgres', "SELECT count(*) FROM rose.components('torn') WHERE kind = 'memtable'"), 1, 'merged, and its memtable is still there');
is($replica->safe_psql('postgres', $rows), $upstream->safe_psql('postgres', $rows), 'a scan has the large value of the run, and not the one before');
is($replica->safe_psql('postgres', "SET enable_seqscan = off; $rows"), $upstream->safe_psql('postgres', $rows), 'so has an index scan');
is($replica->safe_psql('postgres', "SET enable_seqscan = off; $docs"), $upstream->safe_psql('postgres', $docs), 'and lookups');
$ctl->run("SELECT go_on('epoch-settled')");
$spill->finish;
$_->end foreach $ctl, $spill;
is($replica->safe_psql('postgres', $rows), $upstream->safe_psql('postgres', $rows), 'and all afterwards');

$replica->stop;
$upstream->stop;
done_testing();
