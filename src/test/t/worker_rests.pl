# Merges of a worker that are in time rest between their steps, as autovacuum does and by its settings, without a transaction or a
# lock on a table: so spills and commands do not wait for a rest, nor does who wants the table for himself. They do not rest when
# merges of the table are late; only when these are behind, several workers share a pass.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('rests', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	"rose.debug_piece_size = '64kB'", 'autovacuum = off', 'fsync = off');
my $control;
my $expected;

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub contents { return sql("SELECT count(*) || ' ' || sum(v) || ' ' || md5(string_agg(id || t, '' ORDER BY id)) FROM t") }

sub set
{
	sql("ALTER SYSTEM SET $_") for @_;
	sql('SELECT pg_reload_conf()');
	return;
}

sub no_workers
{
	set('rose.max_merge_workers = 0');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'") or die 'a worker goes on';
	return;
}

# C2 of many pieces, and a run with so many tombstones that it is to be merged into C2; it is small, so the merge is in time.
sub make_table
{
	no_workers();
	$control->end if $control;
	$control = RoseTest::Session->new($node);
	sql('SELECT stop_clear(); DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING rose');
	sql("INSERT INTO t SELECT g, 0, md5(g::text) FROM generate_series(1, 40000) g; SELECT rose.merge('t')");
	sql("DELETE FROM t WHERE id % 5 < 2; SELECT rose.spill('t')");
	$expected = contents();
	return;
}

# A step costs so much that the rest after it would take hours, or next to nothing.
my @costs = qw(vacuum_cost_page_hit vacuum_cost_page_miss vacuum_cost_page_dirty);

sub long_rests { set("autovacuum_vacuum_cost_delay = '100ms'", 'autovacuum_vacuum_cost_limit = 1', map { "$_ = 10000" } @costs); return }
sub default_rests { set(map { "$_ = DEFAULT" } 'autovacuum_vacuum_cost_delay', 'autovacuum_vacuum_cost_limit', @costs); return }

sub until_resting { return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.stat_worker WHERE state = 'resting')") }
sub until_merged { return $node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind = 'run')") }
sub runs { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind = 'run'") }

# By how much C1 and the runs are more than what makes merges late: a fifth above what makes a pass due, which is R times C0 (rose_pick_urgency).
# Above 1 they are late.
sub lateness
{
	return sql("SELECT (run_raw_bytes + c1_raw_bytes) / (1.2 * greatest(3, sqrt((run_raw_bytes + c1_raw_bytes + c2_raw_bytes) / c0_size)) * c0_size)"
		. " FROM rose.merge_progress('t'), LATERAL (SELECT total_bytes / 2.0 AS c0_size FROM rose.memory()) m");
}

sub check
{
	my ($what) = @_;

	is(contents(), $expected, "$what: rows");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	return;
}

sub begin_rest
{
	my ($what) = @_;

	make_table();
	long_rests();
	set('rose.max_merge_workers = 1');
	ok(until_resting(), "$what: a worker rests");
	cmp_ok(runs('t'), '>', 0, '... and the merge is not done');
	return;
}

# After a start there is a worker for each database once; nobody rests while others wait for theirs.
sql("CREATE TABLE t (id int) USING rose");
set('rose.max_merge_workers = 1');
$node->poll_query_until('postgres', "SELECT count(*) >= (SELECT count(*) FROM pg_database WHERE datallowconn) FROM rose.stat_worker WHERE state IN ('idle', 'stopped')") or die 'a database has no worker';

# ---- what does not wait for a rest
begin_rest('spills');
is(sql("SELECT count(*) FROM pg_locks l JOIN rose.stat_worker w USING (pid) WHERE locktype NOT IN ('page', 'virtualxid')"), 0, 'who rests has no lock but of merges');
is(sql("SELECT count(*) FROM pg_stat_activity a JOIN rose.stat_worker w USING (pid) WHERE xact_start IS NOT NULL"), 0, '... and no transaction');
sql("CREATE TABLE s (id int PRIMARY KEY) USING rose; INSERT INTO s VALUES (1)");
set("rose.spill_interval = '100ms'");
ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.components('s') WHERE kind = 'run')"), 'it spills another table');
set("rose.spill_interval = '1h'");
ok(until_resting(), '... and rests again');
sql("SET statement_timeout = '60s'; ALTER TABLE t ADD COLUMN more int");
cmp_ok(runs('t'), '>', 0, 'a command that changes the table does not wait for it');
my ($run, $rows) = split /\|/, sql("SELECT max(id), sum(rows) FROM rose.components('t') WHERE kind = 'run'");
sql("UPDATE t SET t = t || repeat(md5(t), 8); SELECT rose.spill('t')");
$expected = contents();
ok($node->poll_query_until('postgres', "SELECT coalesce(sum(rows), 0) < $rows FROM rose.components('t') WHERE kind = 'run' AND id <= $run"), 'when merges are late it goes on');
check('when merges are late');

begin_rest('settings');
set('autovacuum_vacuum_cost_delay = 0');
ok(until_merged(), 'without delay it goes on');
check('without delay');

begin_rest('alone');
{
	my $client = RoseTest::Session->new($node);

	# the worker is not cancelled for him
	$client->run("SET deadlock_timeout = '1h'; SET statement_timeout = '60s'");
	is($client->run("SELECT rose.merge('t') IS NOT NULL"), 't', 'who wants the table for himself gets it');
	is(runs('t'), 0, '... and merges it');
	check('alone');
	$client->end;
}

begin_rest('cancel');
{
	my $pid = sql("SELECT pid FROM rose.stat_worker WHERE state = 'resting'");

	my $log = -s $node->logfile;

	is(sql("SELECT pg_cancel_backend($pid)"), 't', 'a cancel');
	ok($node->wait_for_log(qr/canceling statement/, $log), '... is heard');
	ok(until_resting(), '... and the merge begun anew');
	check('cancel');
	is(sql("SELECT pg_terminate_backend($pid)"), 't', 'the end');
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)"), '... of a worker that rests');
	check('end');
}

begin_rest('DROP');
sql("SET statement_timeout = '60s'; DROP TABLE t");
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), 'the merge of a table that is dropped does not rest');

# ---- what a transaction in progress has written is nothing that merges could do
make_table();
{
	my $open = RoseTest::Session->new($node);

	# so that runs are to be merged into C1
	sql("UPDATE t SET v = 1 WHERE id % 5 > 2; SELECT rose.spill('t')");
	$open->run("BEGIN; INSERT INTO t SELECT g, 0, repeat(md5(g::text), 9) FROM generate_series(50001, 65000) g");
	sql("SELECT rose.spill('t')");
	cmp_ok(sql("SELECT sum(rows) FROM rose.components('t') WHERE kind = 'private run'"), '>', 10000, 'private runs that are large');
	long_rests();
	set('rose.max_merge_workers = 1');
	ok(until_resting(), 'a worker rests beside them');
	cmp_ok(runs('t'), '>', 0, '... and the merge is not done');
	$open->run('COMMIT');
	$expected = contents();
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind LIKE '%run')"), 'when it has committed, merges are late');
	check('a transaction that was in progress');
	$open->end;
}

# ---- the same when the table has as many merges as it may have: no other one is looked for, but its end is noticed
begin_rest('two merges');
{
	my $open = RoseTest::Session->new($node);

	sql("SELECT stop_at('merge-begun', 'skip', 'worker', 0, 0)");	# they are counted
	$open->run("BEGIN; INSERT INTO t SELECT g, 0, repeat(md5(g::text), 9) FROM generate_series(50001, 65000) g");
	sql("SELECT rose.spill('t')");
	sql("UPDATE t SET v = 1 WHERE id = 5 * $_ + 2; SELECT rose.spill('t')") for 1 .. 4;
	ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-begun') >= 1"), 'another one is begun');
	sleep 3;					# it has looked at all of them
	ok(until_resting(), '... and the worker rests');
	cmp_ok(sql("SELECT sum(rows) FROM rose.components('t') WHERE kind = 'private run'"), '>', 10000, '... beside private runs that are large');
	$open->run('COMMIT');
	$expected = contents();
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind LIKE '%run')"), 'when the transaction has committed, they are late');
	check('two merges that rest');
	$open->end;
}

# ---- tables that a worker has no place for
no_workers();
sql('DROP TABLE t');			# a merge of it would take a place
for my $i (1 .. 4)
{
	sql("CREATE TABLE place$i (id int PRIMARY KEY, t text) USING rose; INSERT INTO place$i SELECT g, md5(g::text) FROM generate_series(1, 20000) g");
	sql("SELECT rose.merge('place$i'); DELETE FROM place$i WHERE id % 5 < 2; SELECT rose.spill('place$i')");
}
long_rests();
set('rose.max_merge_workers = 1');
my $merging = "SELECT count(DISTINCT relation) FROM pg_locks WHERE locktype = 'page' AND relation::regclass::text";
ok($node->poll_query_until('postgres', "$merging ~ '^place'", 4) && until_resting(), 'a worker rests, and has as many merges as it may have');
sql('CREATE TABLE late (id int PRIMARY KEY) USING rose');
sql("INSERT INTO late SELECT g FROM generate_series($_ * 1000, $_ * 1000 + 99) g; SELECT rose.spill('late')") for 1 .. 5;
is(runs('late'), 5, 'a table for which it has no place waits');
sql("INSERT INTO late SELECT g FROM generate_series($_ * 1000, $_ * 1000 + 99) g; SELECT rose.spill('late')") for 6 .. 20;
ok($node->poll_query_until('postgres', "SELECT count(*) < 12 FROM rose.components('late') WHERE kind = 'run'"), '... until its merges are late: then nobody rests');
is(sql('SELECT count(late) FROM late'), 2000, '... and nothing is lost');
sql('DROP TABLE place1, place2, place3, place4, late');

# ---- when merges rest
make_table();
default_rests();
$control->run("SELECT stop_at('merge-rests', 'wait', 'worker', 0, 1)");
set('rose.max_merge_workers = 1');
ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-rests') = 1"), 'by default, a merge that is in time rests');
$control->run("SELECT go_on('merge-rests')");
ok(until_merged(), '... and goes on');
check('by default');

foreach my $case ([ 'without delay', 'autovacuum_vacuum_cost_delay = 0' ], [ "by VACUUM's delay", 'autovacuum_vacuum_cost_delay = -1' ])
{
	make_table();
	default_rests();
	set($case->[1]);
	$control->run("SELECT stop_at('merge-rests', 'wait', 'worker', 0, 0)");
	set('rose.max_merge_workers = 1');
	ok(until_merged(), "$case->[0]: it is merged");
	is(sql("SELECT stop_hits('merge-rests')"), 0, '... without a rest');
}

make_table();
long_rests();
sql("DELETE FROM t WHERE id % 5 < 4; SELECT rose.spill('t'); UPDATE t SET t = t || repeat(md5(t), 8); SELECT rose.spill('t')");
$expected = contents();
cmp_ok(lateness(), '>', 1.2, 'large runs: merges are late');
$control->run("SELECT stop_at('merge-rests', 'wait', 'worker', 0, 0)");
set('rose.max_merge_workers = 1');
ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-rests') > 0"), '... and the worker comes to rest');
cmp_ok(lateness(), '<=', 1, '... when merges are late no more');
set('autovacuum_vacuum_cost_delay = 0');
$control->run("SELECT go_on('merge-rests')");
ok(until_merged(), '... and all is merged');
check('runs that are large');

# ---- help
make_table();
default_rests();
set('autovacuum_vacuum_cost_delay = 0');
$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
set('rose.max_merge_workers = 3');
wait_for_stop($node);
sleep 2;
is(sql('SELECT count(*) FROM rose.stat_worker WHERE helper > 0'), 0, 'a pass that is in time has no help');
is(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND relation = 't'::regclass"), 1, '... of another worker');
sql("UPDATE t SET v = v + 1 WHERE id % 1000 = 5 * $_ + 2; SELECT rose.spill('t')") for 1 .. 12;
$expected = contents();
$control->run("SELECT stop_at('merge-helps', 'wait', 'worker', 0, 1)");

# step by step, so that the pass is not over before somebody else can be there; he looks after the runs first
my $step = 'merge-read';
foreach (1 .. 12)
{
	$control->run("SELECT go_on('$step'); SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
	wait_for_stop($node);
	# until the other one has come, or stands where this one does, however long he takes to start
	foreach (1 .. 50)
	{
		last if sql("SELECT stop_hits('merge-helps') = 1 OR (SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") eq 't';
		select undef, undef, undef, 0.2;
	}
	last if sql("SELECT stop_hits('merge-helps')") eq '1';
	$step = 'merge-paused';
}
is(sql("SELECT stop_hits('merge-helps')"), 1, '... until merges are behind');
$control->run('SELECT stop_clear()');
$control->run("SELECT go_on('merge-helps'); SELECT go_on('merge-paused')");
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), 'the pass is done');
check('help');

$control->end;
$node->stop;
done_testing();
