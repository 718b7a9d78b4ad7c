# What a session keeps of lookups between its transactions (lsm/read/rose_lookup_cache.c): how much, and not beyond what it refers to. The answers are held against heap's
# by read_kept_lookups.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap keeps nothing' if $ENV{ROSE_STANDIN};

my $node = rose_node('kept_memory', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 2');
my $kept = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'rose lookups'";
my $session;

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub fresh
{
	my ($columns) = @_;

	$session->end if $session;
	sql("DROP TABLE IF EXISTS t; CREATE TABLE t ($columns) USING rose; INSERT INTO t SELECT g, g % 10, 'row ' || g FROM generate_series(1, 1000) g");
	sql("SELECT rose.spill('t'); SELECT rose.merge('t')");
	$session = RoseTest::Session->new($node);
	return;
}

# A statement that fails, on purpose.
sub fails
{
	my ($statement) = @_;

	eval { $session->run($statement) };
	like($session->{err}, qr/ERROR/, "fails: $statement");
	$session->{err} = '';
	return;
}

sub kept_is
{
	my ($n, $what) = @_;

	is($session->run($kept), $n, "$what: is kept of $n tables");
	return;
}

sub row_is
{
	my ($id, $row) = @_;

	is($session->run("SELECT v, t FROM t WHERE id = $id"), $row, "row $id is $row");
	return;
}

# Runs are merged, so that all components are others.
sub replace
{
	my ($id) = @_;

	sql("UPDATE t SET v = v + 10 WHERE id = $id");
	sql("SELECT rose.spill('t'); SELECT rose.merge('t')");
	return;
}

my $columns = 'id int PRIMARY KEY, v int, t text';

# --- how a transaction ends
fresh($columns);
row_is(5, '5|row 5');
kept_is(1, 'a lookup');
$session->run('UPDATE t SET v = 6 WHERE id = 5');
kept_is(1, 'an update');
$session->run('BEGIN; SELECT FROM t WHERE id = 5; ROLLBACK');
kept_is(0, 'rolled back');
row_is(5, '6|row 5');
fails('SELECT v / 0 FROM t WHERE id = 5');
kept_is(0, 'failed');
$session->run('SELECT count(*) FROM t');
kept_is(0, 'a scan');
row_is(5, '6|row 5');
$session->run("BEGIN; UPDATE t SET v = 7 WHERE id = 5; PREPARE TRANSACTION 'p'");
kept_is(0, 'prepared');
$session->run("COMMIT PREPARED 'p'");
row_is(5, '7|row 5');
$session->run('BEGIN; SAVEPOINT a');
fails('SELECT v / 0 FROM t WHERE id = 5');
$session->run('ROLLBACK TO a; SELECT FROM t WHERE id = 6; COMMIT');
kept_is(1, 'a subtransaction failed');
$session->run('DISCARD ALL');
row_is(6, '6|row 6');

# --- an error in the middle of a lookup, in memory or on its way to the components
stop_points_create($node);
my $keeper = RoseTest::Session->new($node);
$session->run("UPDATE t SET v = 8 WHERE id = 7");
foreach my $id (7, 8)
{
	$keeper->run("SELECT stop_at('lookup-listed', 'error', 'client')");
	$session->run('BEGIN; SAVEPOINT a');
	$id == 7 ? $session->run("SELECT FROM t WHERE id = 7") : fails("SELECT FROM t WHERE id = $id");
	$keeper->run('SELECT stop_clear()');
	$session->run('ROLLBACK TO a');
	row_is(7, '8|row 7');
	row_is(8, '8|row 8');
	$session->run('COMMIT');
	kept_is(1, "a lookup of $id that stopped");
	row_is(8, '8|row 8');
}
$keeper->end;

# --- what it refers to is replaced while it is used
$session->run('BEGIN; SELECT FROM t WHERE id = 9');
replace(9);
row_is(9, '19|row 9');
$session->run('COMMIT');
kept_is(0, 'components were replaced');
row_is(9, '19|row 9');

# --- ... in a transaction that does not use it
kept_is(1, 'before a scan');
replace(10);
is($session->run('SELECT sum(v) FROM t'), 4523, 'a scan finds other components');
row_is(10, '10|row 10');
kept_is(1, 'after a scan');
foreach my $column (1 .. 6)
{
	sql("ALTER TABLE t ADD c$column int DEFAULT $column");
	is($session->run("SELECT sum(v), sum(c$column) FROM t"), '4523|' . 1000 * $column, "a scan finds $column columns more");
	row_is(10 + $column, $column . '|row ' . (10 + $column)) if $column < 6;
	is($session->run("UPDATE t SET c$column = 0 WHERE id = 500 RETURNING v, c$column"), '0|0', 'an update');
	$session->run("UPDATE t SET c$column = $column WHERE id = 500");
	kept_is(1, "$column columns more");
}

# --- what is replaced is not kept for a session that rests
fresh($columns);
$session->run("UPDATE t SET v = 9 WHERE id = $_") foreach 1 .. 3;
row_is(2, '9|row 2');
replace(4);
sql('UPDATE t SET v = 0 WHERE id = 1');
is(sql("SELECT replaced_bytes FROM rose.space('t')"), 0, 'a session that rests keeps no component');
$session->run('BEGIN; SELECT 1');
replace(5);
sql('UPDATE t SET v = 0 WHERE id = 1');
is(sql("SELECT replaced_bytes FROM rose.space('t')"), 0, 'nor does one that does something else');
$session->run('COMMIT');
row_is(5, '15|row 5');

# --- lookups of many keys, for scans of an index
my $of_many = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'rose lookup of many'";
fresh($columns);
sql('CREATE INDEX t_v ON t (v)');
$session->run('SET enable_seqscan = off; SET enable_sort = off');
is($session->run('SELECT count(t), min(id) FROM t WHERE v = 3'), '100|3', 'rows by an index');
is($session->run($of_many), 1, 'what has looked them up is kept');
is($session->run("SELECT count(t), max(t) FROM t WHERE v BETWEEN 4 AND 5"), '200|row 995', 'other rows by it');
is($session->run($of_many), 1, 'it is the only one');
replace(3);
is($session->run('SELECT count(t), min(id) FROM t WHERE v = 13'), '1|3', 'a row in other components');
is($session->run('SELECT count(t), min(id) FROM t WHERE v = 3'), '99|13', 'and those that are left');
is($session->run($of_many), 1, 'one is kept');
$session->run('BEGIN; SELECT count(t) FROM t WHERE v = 3; ROLLBACK');
is($session->run($of_many), 0, 'none is after a transaction that was rolled back');

# --- how much
my $bytes = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name ~ '^rose (lookup|key reader|component cursor|leaf|partial|page reader)'";
fresh($columns);
$session->run("UPDATE t SET t = repeat(md5(id::text), 100000) WHERE id = 1");
is($session->run('SELECT length(t) FROM t WHERE id = 1'), 3200000, 'a large value, in memory');
cmp_ok($session->run("SELECT coalesce(($bytes), 0)"), '<', 300000, 'which is not kept');
sql("SELECT rose.spill('t'); SELECT rose.merge('t')");
is($session->run('SELECT length(t) FROM t WHERE id = 1'), 3200000, 'a large value, in a component');
is($session->run('SELECT length(t) FROM t WHERE id = 1'), 3200000, '... again');
cmp_ok($session->run("SELECT coalesce(($bytes), 0)"), '<', 300000, 'which is not kept');

foreach my $run (1 .. 12)
{
	sql("UPDATE t SET v = 77, t = 'x' WHERE id = $run * 10; SELECT rose.spill('t')");
}
$session->run("SELECT FROM t WHERE id = $_ * 10") foreach 1 .. 8;
kept_is(1, 'a few runs');
$session->run('BEGIN; ' . join('', map { "SELECT FROM t WHERE id = $_ * 10; " } 1 .. 12) . 'COMMIT');
kept_is(0, 'many runs');
row_is($_ * 10, '77|x') foreach 1, 12;

sql("CREATE TABLE many$_ (id int PRIMARY KEY, v int) USING rose; INSERT INTO many$_ SELECT g, $_ FROM generate_series(1, 100) g; SELECT rose.spill('many$_')") foreach 1 .. 20;
foreach my $round (1 .. 2)
{
	is(join(' ', map { $session->run("SELECT v FROM many$_ WHERE id = 50") } 1 .. 20), join(' ', 1 .. 20), 'many tables');
	kept_is(8, 'many tables');
	is($session->run('SELECT ' . join(' + ', map { "(SELECT v FROM many$_ WHERE id = 50)" } 1 .. 20)), 210, 'many tables in one transaction');
	kept_is(8, 'many tables in one transaction');
}

# --- a file that begins anew, and its components with it
$session->run(<<'SQL');
BEGIN;
CREATE TABLE anew (id int PRIMARY KEY, v int, t text) USING rose;
INSERT INTO anew SELECT g, 1, 'before ' || g FROM generate_series(1, 1000) g;
SELECT rose.spill('anew')
SQL
foreach my $turn (2 .. 4)
{
	is($session->run('SELECT v FROM anew WHERE id = 500'), $turn - 1, 'a row');
	is($session->run('UPDATE anew SET v = v WHERE id = 501 RETURNING v'), $turn - 1, 'another one');
	$session->run("TRUNCATE anew; INSERT INTO anew SELECT g, $turn, 'turn $turn' FROM generate_series(1, 1000) g; SELECT rose.spill('anew')");
	is($session->run('SELECT v FROM anew WHERE id = 500'), $turn, 'its successor in a file that begins anew');
	is($session->run('UPDATE anew SET v = v WHERE id = 502 RETURNING v'), $turn, 'and that of another one');
}
$session->run('COMMIT');
is($session->run('SELECT v FROM anew WHERE id = 500'), 4, 'afterwards');

# --- the entry in the registry goes, and comes again
$session->run('UPDATE anew SET v = 5 WHERE id = 500');
sql("SELECT rose.spill(c) FROM (VALUES ('anew'::regclass), ('t')) v (c)");
sql("ALTER SYSTEM SET rose.idle_table_timeout = '100ms'; SELECT pg_reload_conf()");
ok($node->poll_query_until('postgres', 'SELECT tables = 0 FROM rose.stat_memory'), 'nobody uses any table');
is($session->run('SELECT v FROM anew WHERE id = 500'), 5, 'a lookup after that');
is($session->run('UPDATE anew SET v = 6 WHERE id = 501 RETURNING v'), 6, 'an update');
sql('UPDATE anew SET v = 7 WHERE id = 500');
is($session->run('SELECT v FROM anew WHERE id = 500'), 7, 'it is seen what others do');
is(sql("SELECT count(*) FROM rose.check('anew')"), 0, 'the table is sound');

$session->end;
$node->stop;
done_testing();
