# A table that is in the order of another version of a collation: what is refused, what is not, and the ways out of
# it: REINDEX, also when it is rolled back or the server dies in its midst; CLUSTER, VACUUM FULL, another key. Keys that are equal by
# the new version and were not are no way to lose a row: REINDEX says so and leaves the table as it was, and without its
# key the table has all rows.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no order of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('other_order', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	"rose.debug_piece_size = '8kB'", 'restart_after_crash = on');
stop_points_create($node);
my $icu_locale = icu_locale($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub files_of { return map { sql("SELECT pg_relation_filepath('$_')") } @_ }

# The collation gets another locale in the catalog, as an update would bring it, and the metapages say that rows were sorted by another version.
sub restart_with
{
	my ($locale, @tables) = @_;
	my @files = files_of(@tables);

	sql("UPDATE pg_collation SET $icu_locale = '$locale' WHERE collname = '" . ($locale =~ /ks-level/ ? 'folding' : 'changing') . "'");
	forget_collations($node, @files);
	return;
}

my $refused = qr/table "\w+" is sorted by other versions of collations than the server has\s.*using version "1\.2\.3", but the server has version "[\d.]+".*HINT:  Use REINDEX TABLE public\.\w+/s;
my ($now, $then) = ('en-US', 'en-US-u-kn-true');
my $log = -s $node->logfile;

sql("CREATE COLLATION changing (PROVIDER = icu, LOCALE = '$now')");

# --- what can be said of a table that is not read

sub plain_table
{
	my ($table) = @_;

	return sql("DROP TABLE IF EXISTS $table; CREATE TABLE $table (k text COLLATE changing PRIMARY KEY, v int) USING rose; INSERT INTO $table SELECT 'k' || g, g FROM generate_series(1, 2000) g; SELECT rose.merge('$table'); INSERT INTO $table SELECT 'm' || g, g FROM generate_series(1, 500) g");
}

plain_table($_) foreach qw(t u moved clustered);
sql('CREATE TABLE numbers (id int PRIMARY KEY, k text COLLATE changing) USING rose; INSERT INTO numbers VALUES (1, $$a$$)');
sql("INSERT INTO u VALUES ('z', 0); BEGIN; INSERT INTO t VALUES ('prepared', 1), ('prepared too', 1); DELETE FROM t WHERE k = 'm1'; PREPARE TRANSACTION 'one'");
restart_with($then, qw(t u moved clustered));
is(sql('SELECT count(*) FROM numbers'), 1, 'a key without a collation is not concerned');
foreach my $statement ("SELECT v FROM u WHERE k = 'k1'", "INSERT INTO u VALUES ('new', 0)", "UPDATE u SET v = 1 WHERE k = 'k1'", 'DELETE FROM u',
	'COPY u TO STDOUT', "SELECT rose.spill('u')", "SELECT rose.merge('u')", 'SELECT * FROM u TABLESAMPLE SYSTEM (50)', 'ALTER TABLE u ALTER v TYPE bigint')
{
	like(error_of($node, $statement), $refused, "refused: $statement");
}
foreach my $statement ('ANALYZE u', 'VACUUM u', 'EXPLAIN SELECT * FROM u', 'SELECT * FROM rose.stat_space', 'SELECT * FROM rose.stat_merge_progress', 'SELECT * FROM rose.stat_components', 'ALTER TABLE u RENAME v TO w', 'ALTER TABLE u RENAME w TO v')
{
	unlike(error_of($node, $statement), qr/ERROR/, "not refused: $statement");
}
like(sql("SELECT c::text FROM rose.check('u') c"), qr/rows are sorted by other versions of collations/, 'rose.check says it');
like(error_of($node, 'REINDEX TABLE CONCURRENTLY u'), qr/ERROR:.*concurrently/i, 'not concurrently');
is(sql("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 0, 'and nothing is left of that');
command_ok([ 'pg_dump', '--schema-only', '-f', '/dev/null', $node->connstr('postgres') ], 'pg_dump --schema-only');

# the first to touch the table adds a column
$node->restart;
like(error_of($node, 'BEGIN; ALTER TABLE u ADD COLUMN undone int DEFAULT 7; SELECT count(*) FROM u'), $refused, 'within ALTER TABLE'); like(error_of($node, 'SELECT count(*) FROM u'), $refused, 'and after');
sql('ALTER TABLE u ADD COLUMN added int DEFAULT 7');
like(error_of($node, 'SELECT count(*) FROM u'), $refused, 'refused after ALTER TABLE was the first to come');
sql('BEGIN; ALTER TABLE u ADD COLUMN gone int; REINDEX TABLE u; ROLLBACK');
like(error_of($node, 'SELECT count(*) FROM u'), $refused, 'REINDEX was rolled back');
is(sql("BEGIN; REINDEX TABLE u; SELECT count(*), sum(v), sum(added) FROM u; UPDATE u SET v = v; ROLLBACK"), '2501|2126250|17507', 'read before it is rolled back');
like(error_of($node, 'SELECT count(*) FROM u'), $refused, 'rolled back again');
like(error_of($node, "SET lock_timeout = '100ms'; REINDEX TABLE t"), qr/lock timeout/, 'REINDEX waits for a prepared transaction');
my $reader = RoseTest::Session->new($node);
$reader->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_snapshot()");
sql("COMMIT PREPARED 'one'");
$node->command_ok([ 'reindexdb', '-d', $node->connstr('postgres') ], 'reindexdb');
is(sql('SELECT count(*), sum(v), sum(added) FROM u'), '2501|2126250|17507', 'the table is whole');
is(sql("SELECT count(*) FROM t"), 2501, 'with what was prepared');
is($reader->run('SELECT count(*) FROM t'), 2500, 'which an older snapshot does not see');
is($reader->run("SELECT v FROM t WHERE k = 'm1'"), 1, 'nor what it has deleted');
$reader->end;
is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "$_: rose.check") foreach qw(t u);
$node->restart;
is(sql('SELECT count(*), sum(v), sum(added) FROM u'), '2501|2126250|17507', 'whole after a restart');

# what works without reading it
is(sql('CLUSTER clustered USING clustered_pkey; SELECT count(*), sum(v) FROM clustered'), '2500|2126250', 'CLUSTER sorts, too');
sql('TRUNCATE moved; INSERT INTO moved VALUES (1)');
is(sql('SELECT count(*) FROM moved'), 1, 'an emptied table is as new');
restart_with($now, qw(t u moved clustered));
sql('DROP TABLE moved');
is(sql('VACUUM FULL clustered; SELECT count(*), sum(v) FROM clustered'), "2500|2126250", 'VACUUM FULL sorts, too');
is(sql('ALTER TABLE u DROP CONSTRAINT u_pkey; SELECT count(*), sum(v) FROM u'), '2501|2126250', 'the key can be dropped');
is(sql('ALTER TABLE t ALTER k TYPE text COLLATE "C"; SELECT count(*), sum(v) FROM t'), '2501|2126251', 'or get another collation');

# --- the order may be the same: only the version is noted then, and what was in memory comes back
plain_table($_) foreach qw(t);
sql("INSERT INTO t VALUES ('late', 1)");
my ($file) = files_of('t');
restart_with($now, 't');
like(error_of($node, 'SELECT count(*) FROM t'), $refused, 'the same order, but who knows');
sql('REINDEX TABLE t');
is((files_of('t'))[0], $file, 'the file is the same');
is(sql("SELECT count(*), sum(v) FROM t"), '2501|2126251', 'with what is in memory');
$node->restart;
is(sql("SELECT v FROM t WHERE k = 'late'"), 1, 'after a restart');

# --- crashes in the midst of it
foreach my $point (qw(resort-needed resort-sorted resort-piece resort-written))
{
	plain_table('t');
	restart_with($then, 't');
	my $session = RoseTest::Session->new($node);
	$session->run("SELECT stop_at('$point', 'crash')");
	error_of($node, 'REINDEX TABLE t');
	wait_until_up($node);
	like(error_of($node, 'SELECT count(*) FROM t'), $refused, "$point: the old file after a crash");
	sql('REINDEX TABLE t');
	is(sql("SELECT count(*), sum(v) FROM t"), '2500|2126250', "$point: whole after REINDEX");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$point: rose.check");
	restart_with($now, 't');
	sql('REINDEX TABLE t');
}

# --- equal keys

my $duplicate = qr/could not create unique index "\w+_pkey"\nDETAIL:  Key \(k\)=\(\w+\) is duplicated\.\nHINT:  .*Drop the primary key/;

sql("CREATE COLLATION folding (PROVIDER = icu, LOCALE = 'en-US-u-ks-level3', DETERMINISTIC = false)");

# Where the two rows are: on disk together, on disk apart, one in memory, both in memory.
my %cases = (
	together => "INSERT INTO %s VALUES ('abc', 1), ('ABC', 2); SELECT rose.merge('%s')",
	apart => "INSERT INTO %s VALUES ('abc', 1); SELECT rose.merge('%s'); INSERT INTO %s VALUES ('ABC', 2); SELECT rose.spill('%s')",
	one => "INSERT INTO %s VALUES ('abc', 1); SELECT rose.merge('%s'); INSERT INTO %s VALUES ('ABC', 2)",
	memory => "INSERT INTO %s VALUES ('abc', 1), ('ABC', 2)",
	forgotten => "INSERT INTO %s VALUES ('ABC', 2), ('abc', 1); SELECT rose.merge('%s'); UPDATE %s SET v = v; SELECT rose.merge('%s'); SELECT rose.merge('%s')");

foreach my $case (sort keys %cases)
{
	sql("CREATE TABLE $case (k text COLLATE folding PRIMARY KEY, v int) USING rose; INSERT INTO $case SELECT 'k' || g, g FROM generate_series(1, 500) g");
	sql("SELECT rose.merge('$case')") if $case ne 'memory';
	sql($cases{$case} =~ s/%s/$case/gr);
}
restart_with('en-US-u-ks-level2', keys %cases);
foreach my $case (sort keys %cases)
{
	like(error_of($node, "SELECT * FROM $case"), $refused, "$case: refused");
	like(error_of($node, "REINDEX TABLE $case"), $duplicate, "$case: two rows with one key");
	like(error_of($node, "SELECT * FROM $case"), $refused, "$case: the table is as it was");
	like(error_of($node, "VACUUM FULL $case"), qr/could not create unique index/, "$case: VACUUM FULL finds the same");
	is(sql("ALTER TABLE $case DROP CONSTRAINT ${case}_pkey; SELECT count(*), sum(v) FROM $case"), '502|125253', "$case: all rows without the key");
	like(error_of($node, "ALTER TABLE $case ADD PRIMARY KEY (k)"), qr/could not create unique index/, "$case: no key yet");
	is(sql("DELETE FROM $case WHERE k = 'aBc' AND v = 2; ALTER TABLE $case ADD PRIMARY KEY (k); SELECT v FROM $case WHERE k = 'aBC'"), 1, "$case: one has gone");
	is(sql("SELECT count(*) FROM rose.check('$case')"), 0, "$case: rose.check");
}

# Equal keys of rows that are deleted do no harm, nor does one that was written in another way and deleted; but what a row was
# called before cannot be told from another row.
restart_with('en-US-u-ks-level3');
sql(<<'SQL');
CREATE TABLE deleted (k text COLLATE folding PRIMARY KEY, v int) USING rose;
INSERT INTO deleted VALUES ('abc', 1), ('def', 2);
SELECT rose.merge('deleted');
INSERT INTO deleted VALUES ('DEF', 3);
DELETE FROM deleted WHERE k = 'abc';
INSERT INTO deleted VALUES ('ABC', 4);
DELETE FROM deleted WHERE k = 'def';
SELECT rose.spill('deleted');
UPDATE deleted SET v = 5 WHERE k = 'DEF';
CREATE TABLE renamed (k text COLLATE folding PRIMARY KEY, v int) USING rose;
INSERT INTO renamed VALUES ('abc', 1);
SELECT rose.merge('renamed');
SQL
restart_with('en-US-u-ks-level2', qw(deleted renamed));
sql('REINDEX TABLE deleted; REINDEX TABLE renamed');
is(sql("SELECT string_agg(k || v, ' ' ORDER BY v) FROM deleted"), 'ABC4 DEF5', 'what is deleted is no row');
is(sql("SELECT v FROM deleted WHERE k = 'aBC'"), 4, 'found by its equal');
is(sql("SELECT count(*) FROM rose.check('deleted')"), 0, 'rose.check');
sql("UPDATE renamed SET k = 'ABC', v = 2");
restart_with('en-US-u-ks-level2', 'renamed');
like(error_of($node, 'REINDEX TABLE renamed'), $duplicate, 'a name from before: perhaps a row');
is(sql("ALTER TABLE renamed DROP CONSTRAINT renamed_pkey; SELECT string_agg(k || v, ' ' ORDER BY v) FROM renamed"), 'abc1 ABC2', 'so it is shown');

# --- an index in another order: VACUUM cannot spill it, so the commit log is still needed

sub frozen_at { return sql(q{SELECT relfrozenxid FROM pg_class WHERE relname = 'indexed'}) }

sql('CREATE TABLE indexed (id int PRIMARY KEY, k text COLLATE changing) USING rose; CREATE INDEX indexed_k ON indexed (k)');
sql("INSERT INTO indexed SELECT g, 'k' || g FROM generate_series(1, 100) g; SELECT rose.spill('indexed_k'); INSERT INTO indexed SELECT g, 'm' || g FROM generate_series(101, 200) g");
sql("UPDATE pg_collation SET $icu_locale = CASE $icu_locale WHEN '$now' THEN '$then' ELSE '$now' END WHERE collname = 'changing'");
forget_collations($node, [ files_of('indexed_k'), 1 ]);
my $frozen = frozen_at();
sql('SELECT pg_current_xact_id()') foreach 1 .. 3;
like(error_of($node, 'VACUUM indexed'), qr/WARNING:  index "indexed_k" is sorted by other versions/, 'VACUUM says that an index is in another order');
is(frozen_at(), $frozen, '... and relfrozenxid stays where it is');
is(sql("SELECT coalesce(sum(rows), 0) FROM rose.components('indexed') WHERE kind = 'memtable'"), 0, '... though the table is spilled');
sql('REINDEX TABLE indexed');
sql('VACUUM indexed');
isnt(frozen_at(), $frozen, 'it advances after REINDEX');
is(sql("SELECT count(*) FROM rose.check('indexed')"), 0, '... and the index has its entries');

is(scalar(() = slurp_file($node->logfile, $log) =~ /TRAP:|PANIC:/g), 0, 'nothing died');
done_testing();
