# The file says how its bytes are to be read, whatever the catalog says just then: ALTER TABLE as the
# first to touch a table after a restart or in a copied database, ALTER TABLE that is rolled back after the
# table was spilled or merged, and a rewrite for which memory is too short.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no tail log' if $ENV{ROSE_STANDIN};

my $node = rose_node('layout', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	'max_prepared_transactions = 5', 'restart_after_crash = on');
my $db = 'postgres';

# The answer, or the error, which is none that a test waits for. A server that crashes fails the rest of its checks only.
sub sql
{
	my ($rc, $out, $err) = $node->psql($db, $_[0], on_error_stop => 1);

	return $out if $rc == 0;
	wait_until_up($node) if $rc == 2;
	diag($err);
	return $err;
}
sub same { my ($query, $want, $name) = @_; return is(sql($query), $want, $name) }
sub check { return same("SELECT count(*) FROM rose.check('$_[0]')", 0, "$_[1]: rose.check") }

# What a table of this kind has after what was done to it below.
my $want = '1000|999';

# Rows in components, some of them deleted and updated in C0 only.
sub fill
{
	my ($table, $key) = @_;

	sql(<<"SQL");
CREATE TABLE $table (a text, k $key PRIMARY KEY, v int) USING rose;
INSERT INTO $table SELECT 'x', (g * 7 % 2000)::$key, 0 FROM generate_series(0, 1999) g;
SELECT rose.merge('$table');
DELETE FROM $table WHERE k::text::int % 2 = 0;
UPDATE $table SET v = 1 WHERE k::text::int > 1;
SQL
	return;
}

sub content
{
	my ($table, $name) = @_;

	same("SELECT count(*), sum(v) FROM $table", $want, "$name: rows");
	same("SELECT count(*), count(DISTINCT k), sum(k::text::int) FROM $table", '1000|1000|1000000', "$name: keys");
	check($table, $name);
	return;
}

# --- the first touch is an ALTER TABLE that changes the key's type
my %changes = (
	text_int => ['text', 'int USING k::int'],
	int_text => ['int', 'text USING k::text'],
	int_big => ['int', 'bigint'],
	big_int => ['bigint', 'int'],
	text_c => ['text', 'text COLLATE "C"'],
	int_numeric => ['int', 'numeric'],
	int_float => ['int', 'float4 USING k::float4'],
);
foreach my $name (sort keys %changes)
{
	fill($name, $changes{$name}[0]);
	fill("undone_$name", $changes{$name}[0]);
}
fill('other_column', 'int');
fill('two_columns', 'int');
fill('no_key_any_more', 'int');
fill('key_column_gone', 'float8');
fill('emptied', 'int');
sql("CREATE TABLE keyless (a int, b text, c int) USING rose; INSERT INTO keyless SELECT g, g::text, g FROM generate_series(1, 1000) g;
	DELETE FROM keyless WHERE a % 2 = 0");

sub alter_all
{
	my ($where) = @_;

	foreach my $name (sort keys %changes)
	{
		sql("BEGIN; ALTER TABLE undone_$name ALTER k TYPE $changes{$name}[1]; ROLLBACK");
		content("undone_$name", "$where: change of type $name undone");
		sql("ALTER TABLE $name ALTER k TYPE $changes{$name}[1]");
		content($name, "$where: change of type $name");
	}
	sql('ALTER TABLE other_column ALTER a TYPE bigint USING length(a)');
	content('other_column', "$where: change of another column's type");
	sql('ALTER TABLE two_columns ALTER a TYPE int USING length(a), ALTER v TYPE numeric, ADD COLUMN n int DEFAULT 7, ALTER k TYPE text');
	content('two_columns', "$where: changes of all columns");
	same('SELECT count(*) FROM two_columns WHERE n = 7 AND a = 1', 1000, "$where: new values");
	sql('ALTER TABLE no_key_any_more DROP CONSTRAINT no_key_any_more_pkey');
	content('no_key_any_more', "$where: key dropped");
	sql('ALTER TABLE key_column_gone DROP COLUMN k');
	same('SELECT count(*), sum(v) FROM key_column_gone', $want, "$where: key column dropped");
	sql('BEGIN; ALTER TABLE emptied ALTER k TYPE text; TRUNCATE emptied; ROLLBACK');
	content('emptied', "$where: TRUNCATE undone");
	sql('ALTER TABLE keyless ALTER b TYPE int USING b::int, DROP COLUMN a');
	same('SELECT count(*), sum(b), sum(c) FROM keyless', '500|250000|250000', "$where: without key");
	return;
}

sql('CREATE DATABASE template_db TEMPLATE postgres');
$db = 'template_db';
alter_all('copied database');
$db = 'postgres';
crash_and_restart($node);
alter_all('after a crash');

$node->append_conf('postgresql.conf', "rose.memtable_size = '4MB'\n");
sql("SELECT rose.spill(oid) FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'rose')");
$node->restart;

# --- rolled back after the table was spilled or merged by its new columns
sub rolled_back
{
	my ($name, $alter, $work) = @_;

	sql(<<"SQL");
CREATE TABLE $name (k int PRIMARY KEY, v int, w text) USING rose;
INSERT INTO $name SELECT g, g, 'w' || g FROM generate_series(1, 1000) g;
SELECT rose.spill('$name');
INSERT INTO $name SELECT g, g, 'w' || g FROM generate_series(1001, 2000) g;
SQL
	$node->psql($db, "BEGIN; ALTER TABLE $name $alter; $work; ROLLBACK", on_error_stop => 0);
	same("SELECT count(*), sum(v), sum(length(w)) FROM $name", '2000|2001000|8893', "$name: rows");
	same("SELECT v, w FROM $name WHERE k = 1500", '1500|w1500', "$name: one row");
	check($name, "$name, what was left over");
	sql("ALTER TABLE $name ADD COLUMN again text DEFAULT 'again'");
	same("SELECT count(*) FROM $name WHERE again = 'again'", 2000, "$name: another column in the same place");
	check($name, "$name, another column where what was left over has one");
	sql("SELECT rose.merge('$name')");
	same("SELECT count(*), sum(v), sum(length(w)) FROM $name WHERE again = 'again'", '2000|2001000|8893', "$name: merged");
	check($name, $name);
	return;
}

rolled_back('dropped_spilled', 'DROP COLUMN w', "SELECT rose.spill('dropped_spilled')");
rolled_back('dropped_merged', 'DROP COLUMN w', "SELECT rose.merge('dropped_merged')");
rolled_back('dropped_clustered', 'DROP COLUMN w', "CLUSTER dropped_clustered USING dropped_clustered_pkey");
rolled_back('added_spilled', 'ADD COLUMN n int DEFAULT 5', "SELECT rose.spill('added_spilled')");
rolled_back('added_merged', 'ADD COLUMN n int DEFAULT 5', "SELECT rose.merge('added_merged')");
rolled_back('added_clustered', 'ADD COLUMN n int DEFAULT 5', "CLUSTER added_clustered USING added_clustered_pkey");
rolled_back('added_filled', 'ADD COLUMN n int DEFAULT 5',
	"INSERT INTO added_filled SELECT g, 0, repeat('x', 500), g FROM generate_series(2001, 40000) g");
rolled_back('added_updated', 'ADD COLUMN n int DEFAULT 5',
	"UPDATE added_updated SET n = k; UPDATE added_updated SET w = repeat('x', 5000)");
rolled_back('retyped', 'ALTER v TYPE float4', "SELECT rose.spill('retyped'); SELECT rose.merge('retyped')");

# --- made and altered in one transaction
foreach my $key ('', 'PRIMARY KEY')
{
	my $name = $key ? 'new_keyed' : 'new_keyless';

	sql("BEGIN; CREATE TABLE $name (k int $key, w text) USING rose; ALTER TABLE $name ALTER k TYPE bigint; INSERT INTO $name VALUES (1, 'w'); COMMIT");
	same("SELECT k, w FROM $name", '1|w', "$name: altered before it was opened");
}

# --- and committed
sql("CREATE TABLE committed (k int PRIMARY KEY, w text) USING rose; INSERT INTO committed SELECT g, 'w' FROM generate_series(1, 2000) g");
sql("BEGIN; ALTER TABLE committed ADD COLUMN n int DEFAULT 5; INSERT INTO committed SELECT g, repeat('x', 500), 6 FROM generate_series(2001, 40000) g;
	SELECT rose.spill('committed'); COMMIT");
same('SELECT count(*), sum(n) FROM committed', '40000|238000', 'added and filled in one transaction');
sql('ALTER TABLE committed ALTER w TYPE varchar, ADD COLUMN m int DEFAULT 1');
sql("INSERT INTO committed VALUES (0, 'w', 0, 0); SELECT rose.spill('committed'), rose.merge('committed')");
same('SELECT count(*), sum(n), sum(m) FROM committed', '40001|238000|40000', 'spilled after a change of type that rewrites nothing');
check('committed', 'committed');

# --- a rewrite for which memory is too short: the old table may have to go to disk
foreach my $end (qw(ROLLBACK COMMIT))
{
	my $name = lc "full_$end";
	sql("CREATE TABLE $name (k int PRIMARY KEY, v int, w text) USING rose; ALTER TABLE $name ADD COLUMN n int DEFAULT 5;
		INSERT INTO $name SELECT g, g, repeat('x', 1000), 6 FROM generate_series(1, 2000) g; UPDATE $name SET v = v + 1 WHERE k % 2 = 0");
	sql("BEGIN; ALTER TABLE $name ALTER v TYPE text, ALTER n TYPE text; $end");
	same("SELECT count(*), sum(v::int), sum(n::int), sum(length(w)) FROM $name", '2000|2002000|12000|2000000', "$name: rows");
	$node->restart;
	same("SELECT count(*), sum(v::int), sum(n::int), sum(length(w)) FROM $name", '2000|2002000|12000|2000000', "$name: rows after a restart");
	check($name, $name);
}

# --- rows of the transaction itself, on both sides of an ALTER TABLE
sql("CREATE TABLE own (k int PRIMARY KEY, v int) USING rose; INSERT INTO own SELECT g, 0 FROM generate_series(1, 1000) g");
sql(<<'SQL');
BEGIN;
UPDATE own SET v = 1 WHERE k % 2 = 0;
SAVEPOINT s;
ALTER TABLE own ADD COLUMN n int DEFAULT 3;
UPDATE own SET n = 4 WHERE k % 4 = 0;
SELECT rose.spill('own');
SAVEPOINT t;
ALTER TABLE own ALTER v TYPE text;
SELECT rose.spill('own');
ROLLBACK TO t;
SELECT rose.spill('own');
UPDATE own SET v = v + 1 WHERE k = 1000;
COMMIT;
SQL
same('SELECT count(*), sum(v), sum(n) FROM own', '1000|501|3250', 'own rows');
sql("SELECT rose.merge('own')");
same('SELECT count(*), sum(v), sum(n) FROM own', '1000|501|3250', 'own rows, merged');
check('own', 'own');
crash_and_restart($node);
same('SELECT count(*), sum(v), sum(n) FROM own', '1000|501|3250', 'own rows after a crash');

# A prepared transaction's rows, recovered before and carried over after an ALTER of another column.
sql("CREATE TABLE prepared (k int PRIMARY KEY, v int) USING rose; INSERT INTO prepared VALUES (1, 1)");
sql("BEGIN; ALTER TABLE prepared ADD COLUMN n text DEFAULT 'n'; INSERT INTO prepared VALUES (2, 2, 'two'); PREPARE TRANSACTION 'p'");
crash_and_restart($node);
sql("COMMIT PREPARED 'p'; SELECT rose.spill('prepared')");
same('SELECT count(*), sum(v), string_agg(n, \',\' ORDER BY k) FROM prepared', '2|3|n,two', 'a prepared transaction that added a column');

done_testing();
