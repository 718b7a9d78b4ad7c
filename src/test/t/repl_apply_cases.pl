
# Every kind of change that an upstream can send, applied to rose tables, and
# what happens to changes that do not fit.
#
# A step runs SQL on the upstream; then each table must have the upstream's rows.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
# Little memory, so that large transactions do not fit.
my $replica = rose_node('replica', "rose.memtable_size = '16MB'", "wal_retrieve_retry_interval = '200ms'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub stat_of { return down("SELECT $_[1] FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }

sub caught_up { return wait_for_apply($upstream, $replica, undef, undef, $_[0]) }

sub same
{
	my ($table, $name, $query) = @_;

	$query //= $table;
	is(table_hash($replica, $table), table_hash($upstream, $query), "$name: $table");
	is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$name: rose.check of $table") if $table =~ /^\w+$/;
	return;
}

# step NAME, SQL, TABLE...: the tables must be equal afterwards; also when it is on
# disk, and when it is merged.
sub step
{
	my ($name, $sql, @tables) = @_;

	up($sql);
	caught_up($_) foreach @tables;
	same($_, $name) foreach @tables;
	return;
}

sub on_disk
{
	my ($name, @tables) = @_;

	down("SELECT rose.spill('$tables[0]')");
	same($_, "$name, spilled") foreach @tables;
	down("SELECT rose.merge('$_')") foreach @tables;
	same($_, "$name, merged") foreach @tables;
	return;
}

# --- the tables
my @ddl = (
	'CREATE TABLE plain (id int PRIMARY KEY, a int, b text)',
	'CREATE TABLE multi (x int, y text COLLATE "C", z date, a numeric, PRIMARY KEY (y, x))',
	'CREATE TABLE nokey (a int, b text)',
	'CREATE TABLE toast (id int PRIMARY KEY, n int, big text, big2 text)',
	'CREATE TABLE full_id (id int PRIMARY KEY, n int, big text)',
	'CREATE TABLE wide_key (id text COLLATE "C", k int, n int, big text, more text, PRIMARY KEY (id, k))',
	'CREATE TABLE no_value (id int, a int)',
	'CREATE TABLE no_text (id text, a int)',
	'CREATE TABLE by_index (id int PRIMARY KEY, n int NOT NULL, b text)',
	'CREATE TABLE lists (id int PRIMARY KEY, a int, secret text)',
	'CREATE TABLE filtered (id int PRIMARY KEY, a int)',
	'CREATE TABLE t1 (id int PRIMARY KEY, a int)',
	'CREATE TABLE t2 (id int PRIMARY KEY, a int REFERENCES t1)',
	'CREATE TABLE types (id uuid PRIMARY KEY, a numeric, b timestamptz, c jsonb, d int[], e bytea, f float8, g bool, h interval)',
	'CREATE TABLE moved (a int, gone int, id int PRIMARY KEY, b text)',
	'CREATE TABLE large (id int PRIMARY KEY, a int, b text)',
	'CREATE TABLE wider (id int PRIMARY KEY, a int, r regclass, n smallint)',
	'CREATE TABLE bad1 (id int PRIMARY KEY, a text)',
	'CREATE TABLE bad2 (id int PRIMARY KEY, a text)');
up($_) foreach @ddl;
up('ALTER TABLE moved DROP COLUMN gone');
up('ALTER TABLE toast ALTER big SET STORAGE EXTERNAL, ALTER big2 SET STORAGE EXTERNAL; ALTER TABLE full_id ALTER big SET STORAGE EXTERNAL; ALTER TABLE wide_key ALTER id SET STORAGE EXTERNAL, ALTER big SET STORAGE EXTERNAL, ALTER more SET STORAGE PLAIN');
up("ALTER TABLE $_ REPLICA IDENTITY FULL") foreach qw(full_id no_value no_text);
up('CREATE UNIQUE INDEX by_index_id_n ON by_index (id, n); ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_id_n');
my @whole = qw(plain multi nokey toast full_id by_index t1 t2 types moved large wider bad1 bad2 wide_key no_value no_text);
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @whole) . ', lists (id, a), filtered WHERE (id > 100)');

foreach my $table (@ddl)
{
	$table =~ s/ REFERENCES t1//;
	$table =~ s/, a int\)/, a int, PRIMARY KEY (id))/ if $table =~ /TABLE no_/;
	down("$table USING rose") unless $table =~ /TABLE (moved|lists|wider)/;
}
# other order of columns, one that was dropped, one more of our own
down('CREATE TABLE moved (b text, x int, id int PRIMARY KEY, mine text, a int) USING rose; ALTER TABLE moved DROP COLUMN x');
down('CREATE TABLE wider (id bigint PRIMARY KEY, a bigint, r regclass, n numeric) USING rose');
down('CREATE TABLE lists (id int PRIMARY KEY, a int) USING rose');

# Rows for the initial copy.
up("INSERT INTO plain SELECT g, g, g FROM generate_series(1, 50) g; INSERT INTO filtered SELECT g, g FROM generate_series(91, 110) g;"
	. "INSERT INTO lists VALUES (1, 1, 'secret'); INSERT INTO moved VALUES (1, 1, 'one')");
subscribe($upstream, $replica, undef, q{on_error => 'pause', on_schema_change => 'stop'});
same($_, 'copy') foreach @whole[ 0 .. 8 ];
same('lists', 'copy of a column list', '(SELECT id, a FROM lists)');
same('filtered', 'copy with a row filter', '(SELECT * FROM filtered WHERE id > 100)');
same('(SELECT a, id, b FROM moved)', 'copy with other columns', '(SELECT a, id, b FROM moved)');

# --- the ordinary changes
step('inserts', "INSERT INTO plain SELECT g, g, 'new' FROM generate_series(51, 200) g; INSERT INTO multi SELECT g % 7, 'k' || g, '2026-01-01', g FROM generate_series(1, 300) g", qw(plain multi));
step('updates', "UPDATE plain SET a = a + 1, b = NULL WHERE id % 3 = 0; UPDATE multi SET a = NULL WHERE x = 3", qw(plain multi));
step('deletes', "DELETE FROM plain WHERE id % 5 = 0; DELETE FROM multi WHERE x = 4", qw(plain multi));
step('key changes', "UPDATE plain SET id = id + 1000 WHERE id % 2 = 0; UPDATE multi SET y = y || 'x', x = x + 1 WHERE x < 2", qw(plain multi));
step('keys that change places', "BEGIN; UPDATE plain SET id = -1 WHERE id = 1; UPDATE plain SET id = 1 WHERE id = 3; UPDATE plain SET id = 3 WHERE id = -1; COMMIT", 'plain');
step('delete and insert of one key', "BEGIN; DELETE FROM plain WHERE id = 7; INSERT INTO plain VALUES (7, 7, 'again'); DELETE FROM plain WHERE id = 7; INSERT INTO plain VALUES (7, 8, 'and again'); COMMIT", 'plain');
step('savepoints', "BEGIN; INSERT INTO plain VALUES (5000, 1, 'a'); SAVEPOINT s; UPDATE plain SET a = 99; ROLLBACK TO s; UPDATE plain SET b = 's' WHERE id = 5000;"
	  . " SAVEPOINT s2; DELETE FROM plain WHERE id = 11; RELEASE s2; COMMIT", 'plain');
step('rolled back', 'BEGIN; DELETE FROM plain; ROLLBACK', 'plain');
on_disk('ordinary changes', qw(plain multi));
step('changes of what is on disk', "UPDATE plain SET b = 'later' WHERE id % 11 = 0; DELETE FROM plain WHERE id % 13 = 0; INSERT INTO plain SELECT g, 0, '' FROM generate_series(2000, 2100) g", 'plain');
on_disk('changes of what is on disk', 'plain');
step('no key, inserts', "INSERT INTO nokey SELECT g % 3, 'x' FROM generate_series(1, 100) g", 'nokey');
on_disk('no key', 'nokey');

# --- values that the upstream does not send again
my $wide = "(SELECT string_agg(md5(g::text || %s), '') FROM generate_series(1, 200) g)";
my $wide_a = sprintf($wide, "id::text || 'a'");
my $wide_b = sprintf($wide, "id::text || 'b'");
step('wide rows', "INSERT INTO toast SELECT id, 0, $wide_a, $wide_b FROM generate_series(1, 20) id", 'toast');
step('unchanged wide values', 'UPDATE toast SET n = n + 1 WHERE id % 2 = 0', 'toast');
is(stat_of('toast', 'partials'), 10, 'became PARTIAL versions');
on_disk('unchanged wide values', 'toast');
step('two PARTIALs of one key', "BEGIN; UPDATE toast SET n = 10 WHERE id = 1; UPDATE toast SET n = 11 WHERE id = 1; COMMIT; UPDATE toast SET n = n + 1 WHERE id IN (1, 2)", 'toast');
down("SELECT rose.spill('toast')");
up('UPDATE toast SET n = n + 100 WHERE id <= 4');
caught_up();
down("SELECT rose.spill('toast')");
up("UPDATE toast SET big = 'small now' WHERE id = 2; UPDATE toast SET big2 = NULL WHERE id = 3; UPDATE toast SET n = -1 WHERE id IN (2, 3)");
caught_up();
down("SELECT rose.spill('toast')");
step('PARTIALs of one key in memory and three runs', 'UPDATE toast SET n = n * 2 WHERE id <= 4', 'toast');
on_disk('several PARTIALs of one key', 'toast');
step('PARTIAL after delete and insert', "BEGIN; DELETE FROM toast WHERE id = 5; INSERT INTO toast SELECT id, 5, $wide_b, $wide_a FROM generate_series(5, 5) id; UPDATE toast SET n = 6 WHERE id = 5; COMMIT", 'toast');
on_disk('PARTIAL after delete and insert', 'toast');
is(down('SELECT old_row_reads FROM rose.stat_subscription'), 0, 'no old row was read so far');
step('key change with unchanged wide values', 'UPDATE toast SET id = id + 100 WHERE id IN (6, 7)', 'toast');
is(down('SELECT old_row_reads FROM rose.stat_subscription'), 2, 'such old rows are read');
step('the same after a change in the same transaction', 'BEGIN; UPDATE toast SET n = 77 WHERE id = 8; UPDATE toast SET id = 108 WHERE id = 8; COMMIT', 'toast');
is(down('SELECT old_row_reads FROM rose.stat_subscription'), 3, 'and counted');
on_disk('key changes with unchanged wide values', 'toast');

# --- replica identity
step('identity full', "INSERT INTO full_id SELECT id, 0, $wide_a FROM generate_series(1, 10) id; UPDATE full_id SET n = 1 WHERE id < 4; UPDATE full_id SET id = id + 20 WHERE id < 3; DELETE FROM full_id WHERE id = 5", 'full_id');
is(stat_of('full_id', 'partials') . ' ' . down('SELECT old_row_reads FROM rose.stat_subscription'), '0 3', 'the old row is on the wire: nothing is read, no PARTIAL');
step('identity by index', "INSERT INTO by_index SELECT g, g, 'x' FROM generate_series(1, 10) g; UPDATE by_index SET b = 'y' WHERE id < 5; UPDATE by_index SET n = n + 100 WHERE id = 6; UPDATE by_index SET id = 60 WHERE id = 6; DELETE FROM by_index WHERE id = 7", 'by_index');

# --- large values in the key: unchanged, they come with the old row only
my $long = "repeat(md5(g::text), 60)";
step('wide keys', "INSERT INTO wide_key SELECT $long, g, 0, $wide_a, repeat('x', 300) FROM (SELECT g, g AS id FROM generate_series(1, 9) g) s", 'wide_key');
step('updates of rows with wide keys', "UPDATE wide_key SET n = 1 WHERE k < 5; UPDATE wide_key SET big = 'b' WHERE k IN (2, 6); BEGIN; UPDATE wide_key SET n = 2 WHERE k = 3; UPDATE wide_key SET n = n + 1; COMMIT", 'wide_key');
step('half of a wide key changes', "UPDATE wide_key SET k = k + 10 WHERE k IN (1, 2); UPDATE wide_key SET id = 'short' WHERE k = 4; UPDATE wide_key SET id = reverse(id), big = 'c' WHERE k = 5; DELETE FROM wide_key WHERE k = 6", 'wide_key');
on_disk('wide keys', 'wide_key');

# --- column lists, row filters
up("INSERT INTO lists VALUES (2, 2, 'secret'); UPDATE lists SET secret = 'more', a = 3 WHERE id = 1; DELETE FROM lists WHERE id = 2; INSERT INTO lists VALUES (4, 4, 'x')");
up("INSERT INTO filtered VALUES (50, 1), (150, 1); UPDATE filtered SET id = 200 WHERE id = 95; UPDATE filtered SET id = 20 WHERE id = 105; UPDATE filtered SET a = -1 WHERE id > 100; DELETE FROM filtered WHERE id = 101");
up("INSERT INTO moved VALUES (2, 2, 'two'); UPDATE moved SET b = 'uno', a = NULL WHERE id = 1");
caught_up();
same('lists', 'column list', '(SELECT id, a FROM lists)');
same('filtered', 'row filter', '(SELECT * FROM filtered WHERE id > 100)');
same('(SELECT a, id, b FROM moved)', 'other columns', '(SELECT a, id, b FROM moved)');
is(down('SELECT count(*) FROM moved WHERE mine IS NOT NULL'), 0, 'a column of our own stays NULL');

# --- types, as text and in binary
my $types = "SELECT md5(g::text)::uuid, g / 3.0, 'epoch'::timestamptz + g * interval '1 hour', jsonb_build_object('n', g), ARRAY[g, NULL], decode(md5(g::text), 'hex'), g / 7.0, g % 2 = 0, g * interval '1 day' FROM generate_series(%d, %d) g";
# How many walsenders there are, and how many of them send values in binary; one that was left is there for a moment.
sub stream_is
{
	my ($expected, $name) = @_;
	my $query = "SELECT count(*), count(*) FILTER (WHERE query ~ 'binary ''true''') FROM pg_stat_activity WHERE backend_type = 'walsender' AND query ~ 'START_REPLICATION'";

	$upstream->poll_query_until('postgres', $query, $expected);
	return is(up($query), $expected, $name);
}

stream_is('1|1', 'the format is binary unless told otherwise');
step('types in binary', 'INSERT INTO types ' . sprintf($types, 21, 40) . "; UPDATE types SET d = NULL, a = 'NaN' WHERE types.g; UPDATE toast SET n = 3 WHERE id = 10", qw(types toast));
down("SELECT rose.alter_subscription('s', binary => false)");
step('types as text', 'INSERT INTO types ' . sprintf($types, 1, 20), 'types');
stream_is('1|0', 'text, as told');
down("SELECT rose.alter_subscription('s', binary => true)");
step('binary again', 'UPDATE types SET a = 1 WHERE NOT types.g', 'types');
stream_is('1|1', 'binary, as told');
step('in one transaction with a type that is not the same here', "BEGIN; UPDATE plain SET a = 17 WHERE id = 11; INSERT INTO wider SELECT g, -g, 'plain', g FROM generate_series(1, 9) g; UPDATE wider SET a = 5 WHERE id = 3; UPDATE plain SET a = 18 WHERE id = 13; COMMIT", qw(plain wider));
stream_is('1|0', 'it takes text');
step('names of relations', "INSERT INTO wider VALUES (10, 0, 'wider', 0)", 'wider');

# --- TRUNCATE
step('rows to truncate', 'INSERT INTO t1 SELECT g, g FROM generate_series(1, 10) g; INSERT INTO t2 SELECT g, g FROM generate_series(1, 10) g', qw(t1 t2));
step('TRUNCATE alone', 'TRUNCATE t2', 't2');
step('after it', 'INSERT INTO t2 VALUES (1, 1)', 't2');
step('TRUNCATE CASCADE', 'TRUNCATE t1 CASCADE', qw(t1 t2));
step('TRUNCATE among changes', "BEGIN; INSERT INTO t1 VALUES (1, 1); UPDATE plain SET a = 0 WHERE id = 7; TRUNCATE t1, t2; INSERT INTO t1 VALUES (2, 2); SAVEPOINT s; INSERT INTO t1 VALUES (3, 3); ROLLBACK TO s; INSERT INTO t1 VALUES (4, 4); UPDATE plain SET b = 'mixed' WHERE id = 7; COMMIT", qw(t1 t2 plain));
is(down('SELECT durable_lsn = applied_lsn FROM rose.stat_subscription'), 't', 'is durable at once');
step('TRUNCATE twice', 'BEGIN; TRUNCATE t1 CASCADE; INSERT INTO t1 VALUES (5, 5); TRUNCATE t1 CASCADE; INSERT INTO t1 VALUES (6, 6); COMMIT; TRUNCATE t2; INSERT INTO t1 VALUES (7, 7)', qw(t1 t2));
is(stat_of('t1', 'truncates'), 4, 'counted');
on_disk('TRUNCATE', qw(t1 t2));
$replica->restart;
same($_, 'after a restart') foreach qw(t1 t2 plain toast);

# --- larger than memory
step('a transaction larger than memory', "INSERT INTO large SELECT g, g, repeat(md5(g::text), 8) FROM generate_series(1, 150000) g", 'large');
step('the same again, with savepoints', "BEGIN; UPDATE large SET a = -a WHERE id % 3 = 0; SAVEPOINT s; UPDATE large SET b = 'gone'; ROLLBACK TO s; DELETE FROM large WHERE id % 7 = 0; INSERT INTO plain VALUES (9000, 1, 'in it'); COMMIT", qw(large plain));
step('and small ones after it', "UPDATE large SET b = 'x' WHERE id < 100; DELETE FROM plain WHERE id = 9000", qw(large plain));
on_disk('larger than memory', 'large');

# --- what does not fit pauses its table, and only that
sub paused
{
	my ($table, $pattern, $name) = @_;

	$replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass")
	  or fail("$name: not paused");
	like(stat_of($table, 'last_error'), $pattern, $name);
	up("INSERT INTO plain SELECT max(id) + 1, 0, 'goes on' FROM plain");
	caught_up('plain');
	same('plain', "$name, the others go on");
	return;
}

sub resynced
{
	my ($table, $name) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	caught_up();
	same($table, "$name, resynced");
	return;
}

step('before', "INSERT INTO bad1 VALUES (1, 'one'); INSERT INTO bad2 VALUES (1, 'one')", qw(bad1 bad2));
down("SELECT rose.spill('bad1')");
down('ALTER TABLE bad1 ALTER a TYPE int USING 1');
up("INSERT INTO bad1 VALUES (2, 'two')");
paused('bad1', qr/invalid input syntax for type integer: "two".*bad1.*key \(2\)/s, 'a value of another type');
down('CREATE ROLE joe');
my $shown = "SET ROLE joe; SELECT state, last_error ~ 'two' FROM rose.stat_subscription_tables WHERE relid = 'bad1'::regclass";
is(down($shown), 'paused|f', 'the message has a value, which is not for everybody');
down('GRANT pg_read_all_stats TO joe');
is(down($shown), 'paused|t', 'but for others');
down("SELECT rose.spill('bad1')");
down('ALTER TABLE bad1 ALTER a TYPE text');
resynced('bad1', 'type put right');
up("ALTER TABLE bad1 ADD COLUMN more int; INSERT INTO bad1 VALUES (3, 'three', 3)");
paused('bad1', qr/has no column "more", which the upstream publishes.*hint: Add the column/s, 'a column that is not here');
down('ALTER TABLE bad1 ADD COLUMN more int');
resynced('bad1', 'column added');
down("ALTER TABLE bad2 ADD COLUMN mine int NOT NULL DEFAULT 5; ALTER TABLE bad2 ALTER mine DROP DEFAULT");
up("INSERT INTO bad2 VALUES (2, 'two')");
paused('bad2', qr/column "mine" is not published by the upstream, and it is NOT NULL without a default/, 'a value of our own that nobody gives');
down('ALTER TABLE bad2 DROP COLUMN mine');
resynced('bad2', 'column dropped');
up('ALTER TABLE bad2 REPLICA IDENTITY FULL; ALTER TABLE nokey REPLICA IDENTITY FULL; UPDATE nokey SET b = 1 WHERE a = 1');
paused('nokey', qr/cannot replicate an UPDATE of table "public.nokey", which has no primary key here.*hint: /s, 'an update without a primary key');
resynced('nokey', 'no key');
up("INSERT INTO bad2 SELECT 3, string_agg(md5(g::text), '') FROM generate_series(1, 200000) g");
paused('bad2', qr/row of \d+ bytes is too large.*bad2.*hint: /s, 'a row that is larger than memory can take');
up('DELETE FROM bad2 WHERE id = 3');
resynced('bad2', 'the row is gone');
# no key of the upstream's, which has rows that have none
step('before', "INSERT INTO no_value VALUES (0, 0), (1, 1); INSERT INTO no_text VALUES ('', 0), ('x', 1)", qw(no_value no_text));
foreach my $table (qw(no_value no_text))
{
	up("ALTER PUBLICATION p SET (publish = 'truncate'); INSERT INTO $table VALUES (NULL, 2)");
	up("ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate'); DELETE FROM $table WHERE id IS NULL");
	paused($table, qr/null value in key column "id".*$table/s, "an old row without a key: $table");
	is(down("SELECT count(*) FROM $table"), 2, 'no other row is deleted');
	resynced($table, 'the same');
	up("INSERT INTO $table VALUES (NULL, 2)");
	paused($table, qr/null value in key column "id".*$table/s, "a key without a value: $table");
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	paused($table, qr/null value in key column "id"/, "a copy of such rows: $table");
	up("DELETE FROM $table WHERE id IS NULL");
	resynced($table, 'keys with values');
	up("UPDATE $table SET id = NULL WHERE a = 1");
	paused($table, qr/null value in key column "id"/, "a key that loses its value: $table");
	up("DELETE FROM $table WHERE id IS NULL");
	resynced($table, 'and is gone');
}
down("SELECT rose.spill('bad2')");
down('ALTER TABLE bad2 DROP CONSTRAINT bad2_pkey');
up("DELETE FROM bad2 WHERE id = 1");
paused('bad2', qr/cannot replicate a DELETE of table "public.bad2", which has no primary key here/, 'a key that is dropped here');
down('DROP TABLE bad2');
step('a table that is dropped here', "INSERT INTO bad2 VALUES (9, '')", 'plain');

$replica->stop;
$upstream->stop;
done_testing();
