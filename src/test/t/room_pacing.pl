
# Writers that are faster than spills and merges: they are slowed down, not stopped; the
# worker spills, not they; and nothing is lost.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('pacing', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'synchronous_commit = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub memory { return sql("SELECT $_[0] FROM rose.stat_memory") }

is(memory('total_bytes BETWEEN 4000000 AND 4194304, used_bytes, write_delays, write_delay_ms, writer_spills'), 't|0|0|0|0', 'an idle server');

# Two sessions write far more than fits memory: single rows, and many at a time.
sql("CREATE TABLE t (id bigint PRIMARY KEY, a int, b text) USING rose");
sql("CREATE TABLE small (id int PRIMARY KEY) USING rose");
my $single = "DO 'BEGIN FOR i IN 1..40000 LOOP INSERT INTO t VALUES ((i * 7919) % 40009, i, repeat(md5(i::text), 2)); IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END'";
my $many = "INSERT INTO t SELECT 100000 + (g * 7919) % 80021, g, repeat(md5(g::text), 2) FROM generate_series(1, 80000) g";
my @sessions = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $_ ]) } ($single, $many);
ok($_->finish, 'a session has written its rows') foreach @sessions;

is(sql('SELECT count(*), count(DISTINCT id), sum(a) FROM t'), join('|', 120000, 120000, 40000 * 40001 / 2 + 80000 * 80001 / 2), 'all rows are there');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
# With the worker a few times at most, when a busy machine does not let it run for a second; all by themselves a dozen.
cmp_ok(memory('writer_spills'), '<', 5, 'writers did not have to spill');
cmp_ok(sql("SELECT count(*) FROM rose.components('t') WHERE kind <> 'memtable'"), '>', 0, 'the worker did');

# The worker is held in the middle of a spill: writers get slower, before they stop.
my $control = RoseTest::Session->new($node);
my $before = memory('write_delays');
$control->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
my $writer = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
	'-c', "DO 'BEGIN FOR i IN 1..40000 LOOP INSERT INTO t VALUES (-i, i, repeat(md5(i::text), 2)); IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END'" ]);
$node->poll_query_until('postgres', "SELECT write_delays > $before + 10 AND write_delay_ms > 0 FROM rose.stat_memory") or fail('no delays');
is(sql('INSERT INTO small VALUES (1) RETURNING id'), 1, 'a table without a part in it takes rows');
$control->run("SELECT go_on('spill-planned')");
ok($writer->finish, 'a writer that was slowed down comes to its end');
is(sql('SELECT count(*) FROM t WHERE id < 0'), 40000, 'all its rows are there');
$control->end;
sql('DELETE FROM t WHERE id < 0');

# A wait can be interrupted: a writer is cancelled, who could not go on before the worker has spilled.
sql('UPDATE t SET a = 0');
$control = RoseTest::Session->new($node);
$control->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '300ms'; UPDATE t SET a = 1");
$control->run("SELECT go_on('spill-planned')");
$control->end;
like($err, qr/canceling statement due to statement timeout/, 'a writer is cancelled');
is(sql('SELECT min(a), max(a), count(*) FROM t'), '0|0|120000', 'and leaves nothing');

# A writer who keeps the worker from the table does not wait for it.
$before = memory('write_delays');
my $spills = memory('writer_spills');
sql("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; UPDATE t SET a = 3; COMMIT");
is(memory('write_delays'), $before, 'a transaction that locked the table is not slowed down');
cmp_ok(memory('writer_spills'), '>', $spills, 'it spills by itself');
is(sql('SELECT min(a), max(a), count(*) FROM t'), '3|3|120000', 'all is written');

# A restore: one transaction fills memory with tables that nobody else sees yet.
sql(join("\n", 'BEGIN;',
		(map { "CREATE TABLE load_$_ (id int PRIMARY KEY, a bigint, b text) USING rose; INSERT INTO load_$_ SELECT g, g, 'row ' || g FROM generate_series(1, 4000) g;" } 1 .. 20),
		'TRUNCATE small; INSERT INTO small SELECT generate_series(1, 1000);', 'COMMIT;'));
is(sql(join(' UNION ', map { "SELECT count(*), sum(a) FROM load_$_" } 1 .. 20)), '4000|8002000', 'one transaction loads many new tables');
is(sql('SELECT count(*) FROM small'), 1000, 'and one that it has truncated');
is(sql(join(' + ', map { "(SELECT count(*) FROM rose.check('load_$_'))" } 1 .. 20) =~ s/^/SELECT /r), 0, 'rose.check');
sql(join('; ', map { "DROP TABLE load_$_" } 1 .. 20));

# Without a worker writers spill by themselves.
sql('ALTER SYSTEM SET rose.max_merge_workers = 0');
sql('SELECT pg_reload_conf()');
$node->restart;
sql("CREATE TABLE alone (id bigint PRIMARY KEY, b text) USING rose");
sql("INSERT INTO alone SELECT g, repeat(md5(g::text), 2) FROM generate_series(1, 60000) g");
is(sql('SELECT count(alone) FROM alone'), 60000, 'no worker: all rows are there');
cmp_ok(memory('writer_spills'), '>', 0, 'the writer has spilled');

# Spills without end: who spills merges before there are as many components as there can be.
sub fill_up
{
	my ($from) = @_;

	my ($rc, $out, $err) = $node->psql('postgres', "DO 'BEGIN FOR i IN $from .. $from + 80 LOOP INSERT INTO full_up VALUES (i); COMMIT; PERFORM rose.spill(''full_up''); COMMIT; END LOOP; END'");
	is("$rc $err", '0 ', 'who spills merges, too');
	cmp_ok(sql("SELECT count(*) FROM rose.components('full_up')"), '<=', 64, 'and there are not too many components');
	return;
}

sql('CREATE TABLE full_up (id int PRIMARY KEY) USING rose');
fill_up(1);
sql('VACUUM full_up');
is(sql('SELECT count(*) FROM full_up'), 81, 'all rows are there');
sql("SELECT rose.merge('full_up')");
is(sql("SELECT count(*) FROM rose.components('full_up') WHERE kind <> 'memtable'"), 1, 'rose.merge makes one of them');
fill_up(101);
my $rows = sql('SELECT count(*) FROM full_up');
is($rows, 162, 'and these');
sql("ALTER SYSTEM SET rose.spill_interval = '10ms'");
sql('ALTER SYSTEM SET rose.max_merge_workers = 1');
sql('SELECT pg_reload_conf()');
ok($node->poll_query_until('postgres', "SELECT count(*) < 8 AND count(*) FILTER (WHERE kind = 'memtable' AND rows > 0) = 0 FROM rose.components('full_up')"),
	'a worker merges before it spills');
is(sql('SELECT count(*) FROM full_up'), $rows, 'with all rows');
is(sql("SELECT count(*) FROM rose.check('full_up')"), 0, 'rose.check');

$node->stop;
done_testing();
