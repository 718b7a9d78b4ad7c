# What releases after 15 have brought to SQL: heap and rose tables answer the same, and what rose does not have is refused as such.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in is heap itself' if $ENV{ROSE_STANDIN};

plan skip_all => 'nothing here is of before 17' if PostgreSQL::Test::Cluster->new('release')->pg_version < 17;

my $node = rose_node('newer', 'autovacuum = off');

# Each in databases of its own: since which release, what, and the statements
my @cases = (
	[ 17, 'MERGE', <<'SQL' ],
CREATE TABLE r (id int PRIMARY KEY, v int, t text);
CREATE TABLE src (id int, v int);
INSERT INTO r SELECT g, g, 't' || g FROM generate_series(1, 5) g;
INSERT INTO r VALUES (101, 1, 'a'), (102, 2, 'b');
INSERT INTO src VALUES (3, 33), (4, -1), (50, 50);
SELECT rose.spill('r') FROM pg_class WHERE oid = 'r'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose');
MERGE INTO r USING src s ON r.id = s.id WHEN MATCHED AND s.v < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 'merged')
	WHEN NOT MATCHED BY SOURCE AND r.id > 100 THEN UPDATE SET t = 'orphan' RETURNING merge_action(), r.id, r.v, r.t;
WITH m AS (MERGE INTO r USING src s ON r.id = s.id WHEN MATCHED THEN UPDATE SET v = r.v + 1 RETURNING r.*) SELECT * FROM m ORDER BY 1;
MERGE INTO r USING src s ON r.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DO NOTHING RETURNING merge_action(), r.id;
TABLE r ORDER BY 1;
SQL
	[ 17, 'access methods of partitioned tables', <<'SQL' ],
CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) USING AM;
RESET default_table_access_method;
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
ALTER TABLE p SET ACCESS METHOD heap;
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
SELECT c.relname, a.amname = 'AM' FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 'p1';
ALTER TABLE p SET ACCESS METHOD DEFAULT;
ALTER TABLE p2 SET ACCESS METHOD AM;
INSERT INTO p SELECT g, g FROM generate_series(0, 19) g;
ALTER TABLE p1 SET ACCESS METHOD DEFAULT;
SELECT sum(v), count(*) FROM p;
CREATE TABLE idp (id int GENERATED ALWAYS AS IDENTITY, k int, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
CREATE TABLE idp1 PARTITION OF idp FOR VALUES IN (1) USING AM;
INSERT INTO idp (k) VALUES (1), (1) RETURNING *;
SQL
	[ 17, 'COPY', <<'SQL' ],
CREATE TABLE c (id int PRIMARY KEY, v int, t text);
COPY c FROM PROGRAM 'printf "1\t1\ta\n2\tbad\tb\n3\t2\tc\nbad\t2\tc\n"' WITH (ON_ERROR ignore);
TABLE c ORDER BY 1;
CREATE MATERIALIZED VIEW m AS SELECT id, v FROM c;
CREATE UNIQUE INDEX ON m (id);
INSERT INTO c VALUES (9, 9);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
TABLE m ORDER BY 1;
SQL
	[ 18, 'RETURNING of what was and what is', <<'SQL' ],
CREATE TABLE r (id int PRIMARY KEY, v int, t text);
INSERT INTO r SELECT g, g, 't' || g FROM generate_series(1, 5) g RETURNING old.*, new.*;
INSERT INTO r VALUES (1, 10, 'x'), (9, 9, 'y') ON CONFLICT (id) DO UPDATE SET v = r.v + excluded.v RETURNING old.v, new.v, old, new, r;
UPDATE r SET v = v * 2, id = id + 100 WHERE id < 3 RETURNING old.id, new.id, old.v, new.v, old IS NULL, new.*;
DELETE FROM r WHERE id > 8 AND id < 100 RETURNING old.*, new.v;
INSERT INTO r VALUES (3, 0, 'z') ON CONFLICT DO NOTHING RETURNING old.id, new.id;
BEGIN; UPDATE r SET v = 0 WHERE id = 3; UPDATE r SET v = v + 1 WHERE id = 3 RETURNING old.v, new.v; DELETE FROM r WHERE id = 3 RETURNING old.v; ROLLBACK;
UPDATE r SET v = s.v FROM r s WHERE r.id = s.id + 1 RETURNING r.id, old.v, new.v, s.v;
SELECT rose.merge('r') FROM pg_class WHERE oid = 'r'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose');
MERGE INTO r USING (VALUES (3, 33), (4, -1)) s (id, v) ON r.id = s.id WHEN MATCHED AND s.v < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v RETURNING merge_action(), old.id, old.v, new.id, new.v, new.t;
TABLE r ORDER BY 1;
SQL
	[ 18, 'columns that are not stored', <<'SQL' ],
CREATE TABLE v (id int PRIMARY KEY, a int, v int GENERATED ALWAYS AS (a * 2), w text GENERATED ALWAYS AS ('x' || a) VIRTUAL NOT NULL, c int, s int GENERATED ALWAYS AS (a + 1) STORED, CHECK (v < 1000));
INSERT INTO v (id, a, c) SELECT g, g % 7, g FROM generate_series(1, 4000) g;
ANALYZE v;
INSERT INTO v (id, a) VALUES (10000, 600);
INSERT INTO v (id, a) VALUES (10001, NULL);
INSERT INTO v (id, v) VALUES (10002, 1);
SELECT v, w, count(*), sum(v), max(s) FROM v WHERE v > 2 GROUP BY v, w ORDER BY 1;
SELECT count(DISTINCT v), sum(v), avg(v) FROM v;
SELECT * FROM v WHERE v = 6 AND w = 'x3' ORDER BY id LIMIT 2;
SELECT v FROM v WHERE id = 3;
UPDATE v SET a = a + 1 WHERE v = 4 AND id < 20 RETURNING old.v, new.v, old.w, new.w;
DELETE FROM v WHERE w = 'x5' AND id < 20 RETURNING v, w;
ALTER TABLE v ALTER v SET EXPRESSION AS (a * 3);
SELECT sum(v), sum(s) FROM v;
ALTER TABLE v ADD COLUMN later int GENERATED ALWAYS AS (id + a) VIRTUAL;
SELECT sum(later), count(later) FROM v;
ALTER TABLE v ALTER a TYPE bigint;
ALTER TABLE v DROP COLUMN w;
SELECT sum(v), sum(later) FROM v;
CREATE INDEX ON v (v);
ALTER TABLE v ADD UNIQUE (v);
CREATE INDEX ON v ((a * 3));
SET enable_seqscan = off;
SELECT id FROM v WHERE v = 9 AND id < 30 ORDER BY 1;
RESET enable_seqscan;
SELECT x.id, y.v FROM v x LEFT JOIN v y ON x.id = y.id + 3999 WHERE x.id > 3996 ORDER BY 1;
CREATE TABLE p (id int, a int, v int GENERATED ALWAYS AS (a * 2)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p (v GENERATED ALWAYS AS (a * 5)) FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT g, g FROM generate_series(0, 19) g;
SELECT tableoid::regclass, sum(v), count(*) FROM p GROUP BY 1 ORDER BY 1;
UPDATE p SET id = id + 10 WHERE id = 5 RETURNING old.v, new.v, new.tableoid::regclass;
CREATE TEMP TABLE t (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id * 2));
INSERT INTO t SELECT generate_series(1, 10);
SELECT sum(v) FROM t;
SQL
	[ 18, 'constraints', <<'SQL' ],
CREATE TABLE n (id int PRIMARY KEY, a int);
INSERT INTO n VALUES (1, NULL), (2, 2);
ALTER TABLE n ADD CONSTRAINT n_a NOT NULL a NOT VALID;
INSERT INTO n VALUES (3, NULL);
SELECT count(*) FROM n WHERE a IS NULL;
SELECT count(*) FROM n WHERE a IS NOT NULL;
SELECT a, count(*) FROM n GROUP BY a ORDER BY a;
ALTER TABLE n VALIDATE CONSTRAINT n_a;
ALTER TABLE n DROP CONSTRAINT n_pkey;
ALTER TABLE n ADD PRIMARY KEY (a);
UPDATE n SET a = 1 WHERE id = 1;
ALTER TABLE n VALIDATE CONSTRAINT n_a;
ALTER TABLE n ADD PRIMARY KEY (a);
TABLE n ORDER BY a;
CREATE TABLE e (id int PRIMARY KEY, a int CHECK (a > 0) NOT ENFORCED, r int REFERENCES n (a) NOT ENFORCED);
INSERT INTO e VALUES (1, -1, 99);
ALTER TABLE e ALTER CONSTRAINT e_r_fkey ENFORCED;
DELETE FROM e;
ALTER TABLE e ALTER CONSTRAINT e_r_fkey ENFORCED;
INSERT INTO e VALUES (1, -1, 99);
INSERT INTO e VALUES (1, -1, 1);
TABLE e;
CREATE TABLE h (id int4range, at daterange, PRIMARY KEY (id, at WITHOUT OVERLAPS)) USING heap;
INSERT INTO h VALUES ('[1,2)', '[2020-01-01,2021-01-01)');
CREATE TABLE f (id int PRIMARY KEY, r int4range, at daterange, FOREIGN KEY (r, PERIOD at) REFERENCES h (id, PERIOD at));
INSERT INTO f VALUES (1, '[1,2)', '[2020-02-01,2020-03-01)');
INSERT INTO f VALUES (2, '[1,2)', '[2020-02-01,2022-03-01)');
DELETE FROM h;
UPDATE f SET at = '[2019-01-01,2020-02-01)';
TABLE f;
SQL
	[ 18, 'plans', <<'SQL' ],
CREATE TABLE j (id int PRIMARY KEY, a int, b int, UNIQUE (a));
INSERT INTO j SELECT g, g, g % 10 FROM generate_series(1, 4000) g;
ANALYZE j;
SELECT count(*) FROM j x JOIN j y USING (id) WHERE x.b = 3 AND y.a > 100;
SELECT count(*) FROM j WHERE id = 1 OR id = 7 OR id = 900;
SELECT count(*) FROM j WHERE (id = 1 OR id = 7) AND (a = 7 OR b = 7);
SELECT b, a, count(*) FROM j WHERE id IN (1, 2) GROUP BY id, b, a ORDER BY 1, 2;
SELECT a, b, count(*) FROM j WHERE b = 3 AND a < 100 GROUP BY a, b ORDER BY 1;
SELECT count(*) FROM j WHERE EXISTS (SELECT FROM j s WHERE s.b = j.a);
SELECT DISTINCT b, a % 2 FROM j ORDER BY 2, 1 LIMIT 5;
SELECT array_agg(a ORDER BY b, a) FILTER (WHERE a < 15), count(DISTINCT b) FROM j;
SELECT b, string_agg(a::text, ',' ORDER BY a DESC), count(DISTINCT a % 3) FROM j WHERE a < 30 GROUP BY b ORDER BY b;
SELECT b, count(*) FROM j WHERE b = 5 GROUP BY b HAVING count(*) > 1;
SELECT b, count(*) FROM j WHERE b = 50 GROUP BY b;
SQL
);

foreach my $case (@cases)
{
	my ($since, $what, $sql) = @$case;
	my %said;

	next if $node->pg_version < $since;
	foreach my $am (qw(heap rose))
	{
		$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $am");
		$node->safe_psql('postgres', "CREATE DATABASE $am");
		$node->safe_psql($am, 'CREATE EXTENSION rose');
		my ($rc, $out, $err) = $node->psql($am, "\\set VERBOSITY terse\nSET client_min_messages = warning;\nSET default_table_access_method = $am;\n" . $sql =~ s/\bAM\b/$am/gr, on_error_stop => 0);
		# rose.spill, and rose.merge, say an empty line
		$said{$am} = join "\n", grep { $_ ne '' } split(/\n/, $out), map { s/^psql:<stdin>:\d+: //r } split /\n/, $err;
	}
	is($said{rose}, $said{heap}, "$since: $what");
	unlike($said{heap}, qr/syntax error/, "$since: $what are known");
}

if ($node->pg_version >= 18)
{
	$node->safe_psql('postgres', 'CREATE DATABASE keys');
	$node->safe_psql('keys', 'CREATE EXTENSION rose; CREATE TABLE other (id int4range, at daterange, PRIMARY KEY (id, at WITHOUT OVERLAPS)); CREATE TABLE plain (id int4range, at daterange) USING rose');
	foreach my $refused (
		[ 'CREATE TABLE k (id int4range, at daterange, PRIMARY KEY (id, at WITHOUT OVERLAPS)) USING rose', qr/primary key of rose table "k" cannot be WITHOUT OVERLAPS/ ],
		[ 'CREATE TABLE k (LIKE other INCLUDING ALL) USING rose', qr/primary key of rose table "k" cannot be WITHOUT OVERLAPS/ ],
		[ 'ALTER TABLE plain ADD PRIMARY KEY (id, at WITHOUT OVERLAPS)', qr/primary key of rose table "plain" cannot be WITHOUT OVERLAPS/ ],
		[ 'ALTER TABLE plain ADD UNIQUE (id, at WITHOUT OVERLAPS)', qr/those of type gist are not built yet/ ],
		[ 'ALTER TABLE other SET ACCESS METHOD rose', qr/primary key of rose table "\w+" cannot be WITHOUT OVERLAPS/ ])
	{
		my ($sql, $pattern) = @$refused;

		like(($node->psql('keys', $sql))[2], $pattern, $sql);
	}
}
$node->stop;
done_testing();
