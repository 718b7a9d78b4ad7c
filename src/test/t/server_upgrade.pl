# pg_upgrade: tables of all kinds go over to another cluster as they are, by copy and by hard link (there with
# checksums). In the other cluster collations and operator families have other OIDs.
#
# NEW_PG_CONFIG names another release to upgrade to; see the README.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUpgrade;
use Test::More;

plan skip_all => 'the stand-in has no format of its own' if $ENV{ROSE_STANDIN};

my @settings = ("rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'rose.max_merge_workers = 0');
my $tables_of_rose = "pg_class WHERE relkind = 'r' AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose')";
my $problems = "SELECT c.oid::regclass, msg FROM (SELECT oid FROM $tables_of_rose) AS c, LATERAL rose.check(c.oid)";
my @queries = (
	'SELECT count(*), sum(id), sum(v), count(e) FROM plain',
	'SELECT v FROM plain WHERE id = 777',
	'SELECT count(*), sum(b), sum(added) FROM dropped',
	'SELECT count(*), sum(a) FROM keyless',
	'SELECT tableoid::regclass, count(*), sum(v) FROM parted GROUP BY 1 ORDER BY 1',
	"SELECT v FROM parted WHERE k = 'p2' AND n = 150",
	"SELECT count(*), sum(v), min(k), max(k) FROM collated",
	"SELECT v FROM collated WHERE k = 'k00500'",
	"SELECT string_agg(k, ',') FROM (SELECT k FROM mixed_case WHERE k < 'b9' ORDER BY k COLLATE folded) AS x",
	"SELECT v FROM mixed_case WHERE k = 'B7'",
	'SELECT count(*), sum(v) FROM typed',
	"SELECT v FROM typed WHERE m = 'sad' AND p = 5 AND c = ROW(5, 'c5')::pair AND r = 5::reverse_int",
	"SELECT string_agg(r::text, ',') FROM (SELECT r FROM backwards LIMIT 5) AS x",
	'SELECT v FROM backwards WHERE r = 3::reverse_int',
	'SELECT count(*), sum(v) FROM volatile',
	'SELECT id, v, length(w) FROM wide',
	'SELECT count(*), sum(id), sum(v) FROM undone',
	'SELECT v FROM undone WHERE id IN (1, 2, 1500, 7500) ORDER BY id',
	"SELECT string_agg(id || ' ' || v, ',' ORDER BY id) FROM numbered",
	'SELECT count(*), sum(v) FROM keyless_undone',
	"SET enable_seqscan = off; SELECT id, k, v FROM indexed WHERE v = 3 ORDER BY id LIMIT 20",
	"SET enable_seqscan = off; SELECT k, id FROM indexed WHERE k > 'k90' AND k < 'k91' ORDER BY k",
	"SET enable_seqscan = off; SELECT id, k FROM indexed WHERE last_two(id) = 7 AND v > 5",
	"SET enable_seqscan = off; SELECT upper(k), id + v FROM indexed WHERE upper(k) >= 'K98' AND v > 20 ORDER BY upper(k)",
	"SET enable_seqscan = off; SELECT r, v FROM indexed_backwards WHERE r = 7::reverse_int",
	"SET enable_seqscan = off; SELECT count(*), sum(a) FROM indexed_keyless WHERE a > 500",
	"SELECT relname, reloptions FROM pg_class WHERE reloptions::text LIKE '%rose.%' ORDER BY 1");

# An operator family of a user, and a type for it, as extensions have them.
my $types = integer_type('reverse_int', 'reverse', lt => 'int4gt', le => 'int4ge', ge => 'int4le', gt => 'int4lt') . <<'SQL';
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'better' BEFORE 'happy';
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION reverse_cmp(a reverse_int, b reverse_int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS
	$$ BEGIN RETURN CASE WHEN a < b THEN -1 WHEN a > b THEN 1 ELSE 0 END; END $$;
CREATE OPERATOR CLASS reverse_ops DEFAULT FOR TYPE reverse_int USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 reverse_cmp(reverse_int, reverse_int);
CREATE OPERATOR CLASS reverse_hash_ops DEFAULT FOR TYPE reverse_int USING hash AS
	OPERATOR 1 =, FUNCTION 1 reverse_hash(reverse_int), FUNCTION 2 reverse_hash_extended(reverse_int, bigint);
CREATE COLLATION folded (PROVIDER = icu, LOCALE = 'en-US-u-ks-level2', DETERMINISTIC = false);
CREATE COLLATION other (PROVIDER = icu, LOCALE = 'en-US');
SQL

my $tables = <<'SQL';
CREATE TABLE plain (id int PRIMARY KEY, v int, e mood) USING rose WITH (rose.filter_bits = 12, rose.spill_interval = '2h');
INSERT INTO plain SELECT g, g, 'better' FROM generate_series(1, 5000) g;
SELECT rose.merge('plain');
DELETE FROM plain WHERE id % 3 = 0;
UPDATE plain SET v = v + 1 WHERE id % 7 = 0;

CREATE TABLE dropped (gone text, a int PRIMARY KEY, also_gone float8, b int) USING rose;
INSERT INTO dropped SELECT 'x', g, g, g FROM generate_series(1, 1000) g;
SELECT rose.spill('dropped');
ALTER TABLE dropped DROP COLUMN gone, DROP COLUMN also_gone, ADD COLUMN added int DEFAULT 5;
INSERT INTO dropped SELECT g, g, 6 FROM generate_series(1001, 1100) g;

CREATE TABLE keyless (a int, b text) USING rose;
INSERT INTO keyless SELECT g, 'b' || g FROM generate_series(1, 1000) g;
SELECT rose.spill('keyless');
DELETE FROM keyless WHERE a % 2 = 0;

CREATE TABLE parted (k text, n int, v int, PRIMARY KEY (k, n)) PARTITION BY LIST (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN ('p1') USING rose;
CREATE TABLE parted_2 (v int, k text NOT NULL, extra int, n int NOT NULL) USING rose;
ALTER TABLE parted_2 DROP COLUMN extra;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN ('p2');
INSERT INTO parted SELECT 'p' || 1 + g % 2, g, g FROM generate_series(1, 400) g;
SELECT rose.spill('parted_1');
UPDATE parted SET v = v + 1 WHERE n = 150;

CREATE TABLE collated (k text COLLATE other PRIMARY KEY, v int) USING rose;
INSERT INTO collated SELECT 'k' || lpad(g::text, 5, '0'), g FROM generate_series(1, 2000) g;
SELECT rose.merge('collated');
UPDATE collated SET v = 0 WHERE k = 'k00500';

CREATE TABLE mixed_case (k text COLLATE folded PRIMARY KEY, v int) USING rose;
INSERT INTO mixed_case SELECT chr(97 + g % 3) || g, g FROM generate_series(1, 100) g;
SELECT rose.spill('mixed_case');
UPDATE mixed_case SET v = -7 WHERE k = 'B7';

CREATE TABLE typed (m mood, p positive, c pair, r reverse_int, v int, PRIMARY KEY (m, p, c, r)) USING rose;
INSERT INTO typed SELECT CASE g % 2 WHEN 0 THEN 'ok' ELSE 'sad' END::mood, g, ROW(g, 'c' || g)::pair, g::reverse_int, g FROM generate_series(1, 500) g;
SELECT rose.merge('typed');
DELETE FROM typed WHERE m = 'ok';

CREATE TABLE backwards (r reverse_int PRIMARY KEY, v int) USING rose;
INSERT INTO backwards SELECT g::reverse_int, g FROM generate_series(1, 2000) g;
SELECT rose.merge('backwards');
UPDATE backwards SET v = -3 WHERE r = 3::reverse_int;

CREATE UNLOGGED TABLE volatile (k text COLLATE other PRIMARY KEY, v int) USING rose;
INSERT INTO volatile SELECT 'k' || g, g FROM generate_series(1, 500) g;

CREATE TABLE emptied (k text COLLATE other PRIMARY KEY, v int) USING rose;
INSERT INTO emptied VALUES ('a', 1);
CREATE TABLE reindexed (k text COLLATE other PRIMARY KEY, v int) USING rose;
INSERT INTO reindexed VALUES ('b', 1), ('a', 2);

CREATE TABLE wide (id int PRIMARY KEY, v int, w text) USING rose;
INSERT INTO wide VALUES (1, 1, repeat('x', 500000));
SELECT rose.spill('wide');

CREATE TABLE numbered (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v serial) USING rose;
INSERT INTO numbered SELECT FROM generate_series(1, 5);

CREATE TABLE indexed (id int PRIMARY KEY, k text COLLATE other, v int) USING rose;
INSERT INTO indexed SELECT g, 'k' || g, g % 50 FROM generate_series(1, 1000) g;
CREATE INDEX indexed_k ON indexed (k) INCLUDE (v);
CREATE INDEX indexed_v ON indexed (v DESC, id);
CREATE FUNCTION last_two(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 100; END';
CREATE INDEX indexed_two ON indexed (last_two(id)) WHERE v > 3;
CREATE INDEX indexed_upper ON indexed (upper(k), (id + v)) INCLUDE (k) WHERE v IS NOT NULL;
SELECT rose.merge('indexed'), rose.merge('indexed_k');
UPDATE indexed SET v = NULL WHERE id % 10 = 3;
DELETE FROM indexed WHERE id % 10 = 4;
CREATE TABLE indexed_backwards (id int PRIMARY KEY, r reverse_int, v int) USING rose;
CREATE INDEX indexed_backwards_r ON indexed_backwards (r);
INSERT INTO indexed_backwards SELECT g, (g % 20)::reverse_int, g FROM generate_series(1, 100) g;
CREATE TABLE indexed_keyless (a int, b text) USING rose;
CREATE INDEX indexed_keyless_a ON indexed_keyless (a);
INSERT INTO indexed_keyless SELECT g, 'b' || g FROM generate_series(1, 1000) g;
SELECT rose.spill('indexed_keyless_a');

CREATE TABLE undone (id int PRIMARY KEY, v int) USING rose;
INSERT INTO undone SELECT g, 0 FROM generate_series(1, 1000) g;
SELECT rose.merge('undone');
CREATE TABLE keyless_undone (v int) USING rose;
SQL

# Rows of transactions in progress that were spilled, of which one is then committed and one rolled back.
sub leave_private_runs
{
	my ($node) = @_;
	my @sessions = map { RoseTest::Session->new($node) } 1 .. 2;

	foreach my $i (0, 1)
	{
		my ($from, $to) = ($i * 6000 + 1001, $i * 6000 + 7000);

		$sessions[$i]->run("BEGIN; INSERT INTO undone SELECT g, $i FROM generate_series($from, $to) g; UPDATE undone SET v = $i + 7 WHERE id = $i + 1;"
			  . "INSERT INTO keyless_undone SELECT $i + 1 FROM generate_series(1, 6000)");
	}
	$node->safe_psql('postgres', "SELECT rose.spill('undone'); SELECT rose.spill('keyless_undone')");
	$sessions[0]->run('COMMIT');
	$sessions[1]->run('ROLLBACK');
	$_->end foreach @sessions;
	is($node->safe_psql('postgres', "SELECT count(*) > 1 FROM (SELECT * FROM rose.components('undone') UNION ALL SELECT * FROM rose.components('keyless_undone')) AS c WHERE kind = 'private run'"),
		't', 'private runs are left');
	return;
}

sub answers { my ($node) = @_; return join "\n", map { $node->safe_psql('postgres', $_) } @queries; }

foreach my $mode (qw(copy link))
{
	my $old = upgrade_source("old_$mode", settings => \@settings, checksums => $mode eq 'link');
	# indexes that there are come along, whether new ones may be made or not
	my $new = upgrade_target("new_$mode", $old, settings => [ @settings, $mode eq 'link' ? 'rose.secondary_indexes = off' : () ]);

	$old->start;
	rose_create($old, 'postgres');
	$old->safe_psql('postgres', $types);
	$old->safe_psql('postgres', $tables);
	leave_private_runs($old);
	my $want = answers($old);
	my $collation = $old->safe_psql('postgres', "SELECT oid FROM pg_collation WHERE collname = 'other'");
	$old->stop;

	# OIDs that the new cluster gives are others
	$new->start;
	$new->safe_psql('postgres', "SELECT lo_unlink(lo_create(0)) FROM generate_series(1, 500)");
	$new->stop;

	ok(upgrade($old, $new, $mode), "pg_upgrade $mode to " . $new->pg_version) or next;

	$new->start;
	isnt($new->safe_psql('postgres', "SELECT oid FROM pg_collation WHERE collname = 'other'"), $collation, "$mode: the collation has another OID");

	# as first touch, and undone
	my ($rc, $out, $err) = $new->psql('postgres', 'BEGIN; ALTER TABLE collated ALTER k TYPE varchar COLLATE "C", ALTER v TYPE bigint; ROLLBACK');
	like($err, qr/cannot alter table "collated" before it has been read/, "$mode: whose collation it is cannot be told in the midst of ALTER TABLE");
	$new->safe_psql('postgres', "BEGIN; TRUNCATE emptied; INSERT INTO emptied VALUES ('b', 1), ('a', 2); COMMIT; REINDEX TABLE reindexed");
	is($new->safe_psql('postgres', "SELECT v FROM emptied WHERE k = 'a'"), 2, "$mode: TRUNCATE first");
	is($new->safe_psql('postgres', "SELECT v FROM reindexed WHERE k = 'a'"), 2, "$mode: REINDEX first");
	is(answers($new), $want, "$mode: answers");
	is($new->safe_psql('postgres', $problems), '', "$mode: rose.check");

	if ($mode eq 'link')
	{
		($rc, $out, $err) = $new->psql('postgres', 'CREATE INDEX another ON indexed (v)');
		like($err, qr/cannot create index "another" on rose table "indexed"/, "$mode: a new index is refused");
		$new->safe_psql('postgres', 'REINDEX TABLE indexed; REINDEX INDEX indexed_keyless_a');
		is(answers($new), $want, "$mode: answers when indexes were made anew");
	}

	# and it goes on
	$new->safe_psql('postgres', $_) foreach
	  "INSERT INTO plain VALUES (-1, 0, 'ok')",
	  "INSERT INTO collated VALUES ('k00000', 0)",
	  "INSERT INTO volatile VALUES ('k', 0)",
	  "UPDATE backwards SET v = 4 WHERE r = 4::reverse_int",
	  "INSERT INTO parted VALUES ('p1', -1, 0), ('p2', -1, 0)",
	  'INSERT INTO numbered DEFAULT VALUES',
	  "INSERT INTO indexed VALUES (-1, 'k905', 3); UPDATE indexed SET v = 3 WHERE id = 90",
	  'INSERT INTO indexed_keyless VALUES (600)',
	  'INSERT INTO undone SELECT g, 3 FROM generate_series(7001, 7100) g',
	  "SELECT rose.merge(oid) FROM $tables_of_rose";
	is($new->safe_psql('postgres', 'SELECT max(id), max(v) FROM numbered'), '6|6', "$mode: sequences go on");
	($rc, $out, $err) = $new->psql('postgres', "INSERT INTO collated VALUES ('k01000', 0)");
	like($err, qr/duplicate key/, "$mode: a key that is there");
	($rc, $out, $err) = $new->psql('postgres', "INSERT INTO mixed_case VALUES ('A3', 0)");
	like($err, qr/duplicate key/, "$mode: a key that is there in other letters");
	my $then = answers($new);
	crash_and_restart($new);
	is($new->safe_psql('postgres', 'SELECT count(*) FROM volatile'), 0, "$mode: the unlogged table is empty after a crash");
	$new->safe_psql('postgres', "INSERT INTO volatile SELECT 'k' || g, g FROM generate_series(1, 500) g; INSERT INTO volatile VALUES ('k', 0)");
	is(answers($new), $then, "$mode: answers after a crash");
	is($new->safe_psql('postgres', $problems), '', "$mode: rose.check after merges");
	$new->stop;
}

done_testing();
