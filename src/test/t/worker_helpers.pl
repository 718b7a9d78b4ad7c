# Several workers of one database: two tables are spilled at once, and merged at once; what a worker that is killed leaves
# undone, another one does; rose.max_merge_workers holds; helpers give way to other databases.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('helpers', "rose.memtable_size = '4MB'", "rose.spill_interval = '100ms'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'fsync = off');
my $control;

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub set
{
	sql("ALTER SYSTEM SET $_") for @_;
	sql('SELECT pg_reload_conf()');
	return;
}

# From a state in which no worker runs, let so many come.
sub workers
{
	my ($n) = @_;

	set('rose.max_merge_workers = 0');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'") or die 'a worker goes on';
	set("rose.max_merge_workers = $n") if $n > 0;
	return;
}

# What runs do workers hold, or spill?  "table helper" of each.
sub working
{
	my ($state) = @_;

	return sql("SELECT string_agg(relname || ' ' || helper, ',' ORDER BY relname) FROM rose.stat_worker WHERE state = '$state'");
}

sub until_waiting
{
	my ($n) = @_;

	return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
}

# Runs that are due for a merge into C1 and too large for one worker to take them along.
sub make_runs
{
	my (@tables) = @_;

	foreach my $table (@tables)
	{
		sql("CREATE TABLE $table (id int PRIMARY KEY, t text) USING rose");
		sql("INSERT INTO $table SELECT g * 4 + $_, md5((g * 4 + $_)::text) FROM generate_series(1, 12000) g; SELECT rose.spill('$table')") for 0 .. 3;
	}
	return;
}

sub runs { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind = 'run'") }

sub until_merged
{
	my ($table) = @_;

	return $node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('$table') WHERE kind = 'run'");
}

sub check_rows
{
	my ($table, $what) = @_;

	is(sql("SELECT count(*), sum(id), count(*) FILTER (WHERE t = md5(id::text)) FROM $table"), '48000|1152168000|48000', "$what: rows of $table");
	is(sql("SELECT count(*) FROM rose.check('$table')"), 0, "$what: rose.check of $table");
	return;
}

my $locks = "SELECT count(DISTINCT relation), count(DISTINCT pid) FROM pg_locks WHERE locktype = 'page' AND granted AND relation IN ('a'::regclass, 'b'::regclass)";

# ---- merges of two tables
make_runs('a', 'b');
is(runs('a') . runs('b'), '44', 'runs of two tables');
$control = RoseTest::Session->new($node);
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
workers(3);
ok(until_waiting(2), 'two workers are about to make a step of a merge');
like(working('merging') . working('idle'), qr/^$/, '... between two steps');
is(sql($locks), '2|2', 'each has the lock of another table');
is(sql("SELECT string_agg(helper::text, ',' ORDER BY helper) FROM rose.stat_worker WHERE datname = 'postgres' AND pid IS NOT NULL"), '0,1', 'a helper has come');

# ---- a helper is killed
is(sql("SELECT pg_terminate_backend(pid) FROM rose.stat_worker WHERE helper = 1"), 't', 'the helper is killed');
ok($node->poll_query_until('postgres', "SELECT count(DISTINCT relation) = 1 FROM pg_locks WHERE locktype = 'page' AND granted AND relation IN ('a'::regclass, 'b'::regclass)"), 'its lock is free');
$control->run("SELECT go_on('merge-paused')");
ok(until_merged('a') && until_merged('b'), 'both tables are merged');
check_rows($_, 'after the death of a helper') for 'a', 'b';

# ---- the first one is killed
workers(0);
sql('DROP TABLE a, b');
make_runs('a', 'b');
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
workers(2);
ok(until_waiting(2), 'two workers again');
is(sql($locks), '2|2', '... with a table each');
is(sql("SELECT pg_terminate_backend(pid) FROM rose.stat_worker WHERE helper = 0 AND pid IS NOT NULL"), 't', 'the first one is killed');
$control->run("SELECT go_on('merge-paused')");
ok(until_merged('a') && until_merged('b'), 'both tables are merged');
check_rows($_, 'after the death of the first') for 'a', 'b';

# ---- only one may run
workers(0);
sql('DROP TABLE a, b');
make_runs('a', 'b');
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
workers(1);
ok(until_waiting(1), 'one worker');
is(sql($locks), '2|1', '... merges both tables in turns');
is(sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'"), 1, 'no more than may be');
$control->run("SELECT go_on('merge-paused')");
ok(until_merged('a') && until_merged('b'), 'both tables are merged');
check_rows($_, 'by one worker') for 'a', 'b';

# ---- who has asked for help and dies is followed by a first worker, which may rest, not by its helper
workers(0);
sql('DROP TABLE a, b');
make_runs('a', 'b');
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
workers(1);
ok(until_waiting(1), 'one worker, who has asked for help');
$control->run("SELECT stop_at('worker-ending', 'wait', 'worker', 0, 0)");
my $asker = sql('SELECT pid FROM rose.stat_worker WHERE pid IS NOT NULL');
is(sql("SELECT pg_terminate_backend($asker, 60000)"), 't', '... is killed');
ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.stat_worker WHERE pid <> $asker)"), 'there is another one');
is(sql("SELECT string_agg(helper::text, ',') FROM rose.stat_worker WHERE pid <> $asker"), 0, '... the first one again');
$control->run("SELECT go_on('worker-ending'), go_on('merge-paused')");
ok(until_merged('a') && until_merged('b'), 'both tables are merged');
check_rows($_, 'after the death of who has asked') for 'a', 'b';

# ---- small merges are not worth another process
workers(0);
sql('DROP TABLE a, b');
foreach my $table ('a', 'b')
{
	sql("CREATE TABLE $table (id int PRIMARY KEY) USING rose");
	sql("INSERT INTO $table VALUES ($_); SELECT rose.spill('$table')") for 1 .. 8;
}
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 0)");
workers(3);
ok(until_waiting(1), 'a worker with small merges');
is(sql($locks), '2|1', '... takes them all');
$control->run("SELECT go_on('merge-paused')");

# ---- spills of two tables
workers(0);
sql("CREATE TABLE $_ (id int PRIMARY KEY, t text) USING rose; INSERT INTO $_ SELECT g, md5(g::text) FROM generate_series(1, 5000) g") for 'x', 'y';
sql('CREATE DATABASE other');
rose_create($node, 'other');
$node->safe_psql('other', 'CREATE TABLE t (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('spill-written', 'wait', 'worker', 0, 2)");
workers(2);
ok(until_waiting(2), 'two workers spill');
like(working('spilling'), qr/^x [01],y [01]$/, '... a table each');
my $first = sql("SELECT relname FROM rose.stat_worker WHERE datname = 'postgres' AND state = 'spilling' AND helper = 0");

# ---- the helper has always something to do, and gives way to another database all the same
is(sql("SELECT pg_cancel_backend(pid) FROM rose.stat_worker WHERE helper = 1"), 't', 'the helper goes on');
sql('CREATE TABLE busy (id int PRIMARY KEY) USING rose');
my $script = $node->basedir . '/writes.sql';
append_to_file($script, "INSERT INTO busy SELECT (random() * 1e9)::int FROM generate_series(1, 10) ON CONFLICT DO NOTHING;\n\\sleep 20 ms\n");
my ($out, $err) = ('', '');
my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-T', $PostgreSQL::Test::Utils::timeout_default + 60, '-f', $script, $node->connstr('postgres') ],
	'>', \$out, '2>', \$err);
ok($node->poll_query_until('postgres', "SELECT spills > 2 FROM rose.stat_worker WHERE helper = 1"), 'it spills again and again');
$node->safe_psql('other', 'INSERT INTO t VALUES (1)');
ok($node->poll_query_until('other', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind = 'memtable' AND rows > 0)"), 'another database is maintained');
is(sql("SELECT relname FROM rose.stat_worker WHERE datname = 'postgres' AND state = 'spilling' AND helper = 0"), $first, 'by a worker in the place of the helper');
$control->run("SELECT go_on('spill-written')");
$pgbench->signal('TERM');	# INT may be ignored, if who started the tests is in the background
$pgbench->finish;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('x') WHERE kind = 'memtable' AND rows > 0)
	AND NOT EXISTS (SELECT FROM rose.components('y') WHERE kind = 'memtable' AND rows > 0)"), 'both tables are spilled');
is(sql("SELECT (SELECT count(*) FROM x WHERE t = md5(id::text)), (SELECT count(*) FROM y WHERE t = md5(id::text))"), '5000|5000', 'their rows');

$control->end;
$node->stop;
done_testing();
