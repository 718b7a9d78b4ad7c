-- Secondary indexes: which there may be, what commands do with them, and what they find.
SET client_min_messages = warning;
CREATE TABLE ix (id int PRIMARY KEY, a int, b text COLLATE "C", c numeric, d date) USING rose;
INSERT INTO ix SELECT i, i % 10, 'b' || i % 7, i / 3.0, date '2026-01-01' + i % 5 FROM generate_series(1, 500) i;
INSERT INTO ix VALUES (501, NULL, NULL, NULL, NULL), (502, 3, NULL, NULL, NULL), (503, NULL, 'b1', 1, NULL);

-- none while the setting is off
SET rose.secondary_indexes = off;
CREATE INDEX ix_a ON ix (a);
RESET rose.secondary_indexes;

-- kinds that there are not
CREATE INDEX ix_no ON ix USING hash (a);
CREATE FUNCTION ix_users(int) RETURNS int IMMUTABLE LANGUAGE sql BEGIN ATOMIC SELECT 1 / $1; END;
CREATE UNIQUE INDEX ix_no ON ix (ix_users(a));
CREATE UNIQUE INDEX ix_no ON ix (c) WHERE ix_users(a) > 3;
CREATE UNIQUE INDEX CONCURRENTLY ix_no ON ix (ix_users(a));
DROP FUNCTION ix_users;
ALTER TABLE ix ADD EXCLUDE USING btree (a WITH =);
CREATE INDEX ix_no ON ix (a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d);
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'ix'::regclass;

-- those that there are
CREATE INDEX ix_a ON ix (a);
CREATE INDEX ix_ba ON ix (b DESC, a) INCLUDE (d);
CREATE INDEX ix_c ON ix (c NULLS FIRST);
CREATE INDEX ix_id ON ix (id);
CREATE INDEX ix_many ON ix (a, b DESC NULLS LAST, c, id DESC, d);
SELECT * FROM rose.check('ix');
SELECT * FROM rose.check('ix_ba');

-- found by them, and by a look at all rows
CREATE FUNCTION ix_plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		RETURN NEXT regexp_replace(line, ' \(returns .*\)', '');	-- up to 16
	END LOOP;
END $$;
CREATE FUNCTION ix_same(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	with_index text[];
	without text[];
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_indexonlyscan = on;
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO with_index;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO without;
	IF with_index IS DISTINCT FROM without THEN
		RAISE EXCEPTION '% with index, % without: %', with_index, without, query;
	END IF;
	RETURN coalesce(array_length(without, 1), 0);
END $$;
SET enable_seqscan = off;
SELECT ix_plan('SELECT * FROM ix WHERE b = ''b1'' AND a < 3 ORDER BY a');
SELECT ix_plan('SELECT b, d FROM ix WHERE b > ''b3'' ORDER BY b DESC');
SELECT ix_plan('SELECT a FROM ix ORDER BY a DESC NULLS FIRST LIMIT 3');
SELECT ix_plan('SELECT min(c), max(c) FROM ix');
SELECT min(c), max(c) FROM ix;
SELECT a FROM ix ORDER BY a DESC NULLS FIRST LIMIT 3;
SELECT c FROM ix ORDER BY c NULLS FIRST LIMIT 4;
SELECT b, a, d FROM ix WHERE b >= 'b6' ORDER BY b DESC, a LIMIT 3;
RESET enable_seqscan;
CREATE TABLE ix_queries (q text);
INSERT INTO ix_queries VALUES ('a = 3'), ('a IN (1, 2, 8, NULL)'), ('a IS NULL'), ('a IS NOT NULL AND a < 2'), ('a > 7 AND a <= 9'),
	('b = ''b2'''), ('b = ''b2'' AND a IN (1, 5)'), ('b < ''b2'' AND a > 4'), ('b IS NULL'), ('b IS NULL AND a = 3'), ('(b, a) > (''b5'', 3)'),
	('(b, a) <= (''b1'', 3)'), ('c = 1'), ('c BETWEEN 10 AND 12'), ('c IS NULL'), ('c > 160'), ('a = 5 AND b = ''b0'' AND c < 50'),
	('a = 5 AND b > ''b3'''), ('a = 1 AND b IS NOT NULL AND c >= 100'), ('id < 7'), ('id IN (4, 400)'), ('a = ANY (ARRAY[7, 7, 8])'), ('a < 3::int8'), ('c = 7::int8');
CREATE VIEW ix_all AS SELECT q, ix_same('SELECT * FROM ix WHERE ' || q) AS rows, ix_same('SELECT a, b FROM ix WHERE ' || q) AS entries FROM ix_queries;
SELECT * FROM ix_all;

-- changes, and what is rolled back
BEGIN;
UPDATE ix SET a = a + 1 WHERE id % 3 = 0;
SAVEPOINT s;
DELETE FROM ix WHERE b = 'b2';
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
ROLLBACK TO s;
INSERT INTO ix SELECT i, i % 10, 'b' || i % 7, i / 3.0, NULL FROM generate_series(601, 700) i;
UPDATE ix SET id = id + 1000 WHERE id < 20;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
SELECT * FROM rose.check('ix');
COMMIT;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
BEGIN;
UPDATE ix SET b = NULL, d = NULL;
ROLLBACK;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
SELECT rose.spill('ix'), rose.merge('ix');
UPDATE ix SET c = NULL, d = d + 1 WHERE a = 4;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
SELECT * FROM rose.check('ix');

-- cursors that scroll; merge joins that mark and restore
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
DECLARE cur SCROLL CURSOR FOR SELECT a, b, id FROM ix WHERE a = 2 AND b > 'b2' ORDER BY a, b DESC NULLS LAST, c, id DESC;
FETCH 3 FROM cur;
FETCH BACKWARD 2 FROM cur;
FETCH LAST FROM cur;
FETCH PRIOR FROM cur;
FETCH ABSOLUTE 5 FROM cur;
CLOSE cur;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_nestloop = off;
SET LOCAL enable_material = off;
SELECT count(*), sum(x.id * y.id) FROM ix x JOIN ix y USING (a);
COMMIT;
SELECT count(*), sum(x.id * y.id) FROM ix x JOIN ix y USING (a);

-- cursors that read nothing but entries, and whose rows are changed
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT ix_plan('SELECT a FROM ix WHERE a > 7 ORDER BY a');
DECLARE cur SCROLL CURSOR FOR SELECT a FROM ix WHERE a > 7 ORDER BY a;
FETCH 2 FROM cur;
UPDATE ix SET a = 70, b = 'current' WHERE CURRENT OF cur RETURNING a;
FETCH 2 FROM cur;
FETCH PRIOR FROM cur;
DELETE FROM ix WHERE CURRENT OF cur RETURNING a;
DO $$
DECLARE
	r record;
	looped CURSOR FOR SELECT a FROM ix WHERE a = 9 ORDER BY a;
BEGIN
	FOR r IN looped LOOP
		UPDATE ix SET b = 'loop' WHERE CURRENT OF looped;
	END LOOP;
END $$;
SELECT b, count(*), min(a), max(a) FROM ix WHERE b IN ('current', 'loop') GROUP BY b ORDER BY b;
SELECT * FROM rose.check('ix');
ROLLBACK;

-- made and dropped in transactions
BEGIN;
INSERT INTO ix VALUES (5000, 77, 'own', 0, NULL);
CREATE INDEX ix_own ON ix (b, a);
SELECT ix_same('SELECT * FROM ix WHERE b = ''own''');
SAVEPOINT s;
DROP INDEX ix_own;
ROLLBACK TO s;
UPDATE ix SET a = 78 WHERE id = 5000;
SELECT ix_same('SELECT * FROM ix WHERE b = ''own''');
SELECT * FROM rose.check('ix');
ROLLBACK;
SELECT * FROM rose.check('ix');
BEGIN;
DROP INDEX ix_a, ix_c;
SAVEPOINT s;
REINDEX TABLE ix;
ROLLBACK TO s;
UPDATE ix SET a = a WHERE id = 30;
ROLLBACK;
UPDATE ix SET a = 9 WHERE id = 31;
SELECT * FROM rose.check('ix');
REINDEX TABLE ix;
REINDEX INDEX ix_ba;
REINDEX INDEX CONCURRENTLY ix_ba;
REINDEX TABLE CONCURRENTLY ix;
CREATE INDEX CONCURRENTLY ix_beside ON ix (c DESC, a) INCLUDE (d);
DROP INDEX CONCURRENTLY ix_beside;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
SELECT * FROM rose.check('ix');

-- what rewrites the table or changes its columns
VACUUM ix;
VACUUM FULL ix;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
CLUSTER ix USING ix_pkey;
CLUSTER ix USING ix_a;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE ix_space LOCATION '';
ALTER INDEX ix_a SET TABLESPACE ix_space;
DO 'BEGIN ALTER INDEX ALL IN TABLESPACE pg_default SET TABLESPACE ix_space; EXCEPTION WHEN feature_not_supported THEN RAISE WARNING ''refused''; END';
REINDEX (TABLESPACE ix_space) INDEX ix_a;
ALTER TABLE ix SET TABLESPACE ix_space;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = a + 1 WHERE a = 6;
SELECT * FROM rose.check('ix');
REINDEX (TABLESPACE pg_default) INDEX ix_a;
ALTER TABLE ix SET TABLESPACE pg_default;
DROP TABLESPACE ix_space;
ANALYZE ix;
ALTER TABLE ix ADD e int DEFAULT 5, ALTER a TYPE bigint;
CREATE INDEX ix_e ON ix (e, b);
SELECT ix_same('SELECT * FROM ix WHERE e = 5 AND b = ''b3''');
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
SELECT * FROM rose.check('ix');
ALTER TABLE ix ADD f varchar(10);
UPDATE ix SET f = b WHERE id % 2 = 0;
CREATE INDEX ix_f ON ix (f);
ALTER TABLE ix ALTER f TYPE varchar(20);
ALTER TABLE ix ALTER f TYPE text;
UPDATE ix SET f = 'x' || f WHERE id % 4 = 0;
SELECT ix_same('SELECT * FROM ix WHERE f = ''xb3''');
SELECT * FROM rose.check('ix');
ALTER TABLE ix DROP e;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'ix'::regclass ORDER BY 1;
SELECT * FROM rose.check('ix');

-- another key
ALTER TABLE ix DROP CONSTRAINT ix_pkey;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = 1 WHERE id = 33;
SELECT * FROM rose.check('ix');
ALTER TABLE ix ADD PRIMARY KEY (id);
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = 2 WHERE id = 33;
SELECT * FROM rose.check('ix');

-- other tables
ALTER TABLE ix SET UNLOGGED;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = 3 WHERE id = 33;
SELECT * FROM rose.check('ix');
ALTER TABLE ix SET LOGGED;
ALTER TABLE ix SET ACCESS METHOD heap;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = 4 WHERE id = 33;
ALTER TABLE ix SET ACCESS METHOD rose;
SELECT count(*), sum(rows), sum(entries) FROM ix_all;
UPDATE ix SET a = 5 WHERE id = 33;
SELECT * FROM rose.check('ix');
CREATE TABLE ix_like (LIKE ix INCLUDING ALL) USING rose;
INSERT INTO ix_like SELECT * FROM ix;
SELECT count(*) FROM pg_index WHERE indrelid = 'ix_like'::regclass;
SELECT * FROM rose.check('ix_like');
TRUNCATE ix_like;
SELECT * FROM rose.check('ix_like');
INSERT INTO ix_like SELECT * FROM ix;
BEGIN;
TRUNCATE ix_like;
INSERT INTO ix_like SELECT * FROM ix WHERE a = 5;
SELECT * FROM rose.check('ix_like');
ROLLBACK;
SELECT * FROM rose.check('ix_like');
DROP TABLE ix_like;
BEGIN;
CREATE TABLE ix_like (LIKE ix INCLUDING ALL) USING rose;
INSERT INTO ix_like SELECT * FROM ix;
TRUNCATE ix_like;
INSERT INTO ix_like SELECT * FROM ix WHERE a = 5;
SELECT * FROM rose.check('ix_like');
COMMIT;
SELECT * FROM rose.check('ix_like');
DROP TABLE ix_like;

-- those that there are stay while the setting is off
CREATE TABLE ix_stay (id int PRIMARY KEY, a int, b varchar(10) COLLATE "C") USING rose;
INSERT INTO ix_stay SELECT i, i % 10, 'b' || i % 7 FROM generate_series(1, 100) i;
CREATE INDEX ix_stay_a ON ix_stay (a);
CREATE INDEX ix_stay_b ON ix_stay (b, a);
CREATE TABLE ix_heap (id int PRIMARY KEY, a int) USING heap;
CREATE INDEX ix_heap_a ON ix_heap (a);
CREATE TABLE ix_parted (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
CREATE TABLE ix_parted1 PARTITION OF ix_parted FOR VALUES FROM (0) TO (100) USING rose;
CREATE INDEX ix_parted_a ON ix_parted (a);
SET rose.secondary_indexes = off;
REINDEX INDEX ix_stay_a;
REINDEX TABLE ix_stay;
VACUUM FULL ix_stay;
CLUSTER ix_stay USING ix_stay_pkey;
ALTER TABLE ix_stay ALTER b TYPE varchar(20) COLLATE "C", ADD n serial;
ALTER TABLE ix_stay ALTER a TYPE bigint;
ALTER TABLE ix_parted ALTER a TYPE bigint;
ALTER TABLE ix_stay DROP CONSTRAINT ix_stay_pkey;
ALTER TABLE ix_stay ADD PRIMARY KEY (id);
ALTER TABLE ix_stay SET UNLOGGED;
SELECT ix_same('SELECT * FROM ix_stay WHERE a = 3'), ix_same('SELECT * FROM ix_stay WHERE b = ''b3''');
SELECT * FROM rose.check('ix_stay');
TRUNCATE ix_stay;
INSERT INTO ix_stay SELECT i, i % 10, 'b' || i % 7 FROM generate_series(1, 100) i;
SELECT ix_same('SELECT * FROM ix_stay WHERE a = 3'), ix_same('SELECT * FROM ix_stay WHERE b = ''b3''');
SELECT * FROM rose.check('ix_stay');
-- ... and there are no new ones
CREATE TABLE ix_new (LIKE ix_stay INCLUDING ALL) USING rose;
ALTER TABLE ix_stay ADD UNIQUE (a), ALTER a TYPE int;
ALTER TABLE ix_heap SET ACCESS METHOD rose;
ALTER TABLE ix_heap ALTER a TYPE bigint, SET ACCESS METHOD rose;
CREATE TABLE ix_parted2 PARTITION OF ix_parted FOR VALUES FROM (100) TO (200) USING rose;
CREATE TABLE ix_parted3 (id int PRIMARY KEY, a bigint) USING rose;
ALTER TABLE ix_parted ATTACH PARTITION ix_parted3 FOR VALUES FROM (200) TO (300);
RESET rose.secondary_indexes;
DROP TABLE ix_stay, ix_heap, ix_parted, ix_parted3;

-- partitions
CREATE TABLE ix_part (id int, a int, b text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE ix_part1 PARTITION OF ix_part FOR VALUES FROM (0) TO (100) USING rose;
CREATE TABLE ix_part2 PARTITION OF ix_part FOR VALUES FROM (100) TO (200) USING heap;
INSERT INTO ix_part SELECT i, i % 10, 'b' || i % 3 FROM generate_series(0, 199) i;
CREATE INDEX ix_part_a ON ix_part (a);
CREATE TABLE ix_part3 (id int PRIMARY KEY, a int, b text) USING rose;
INSERT INTO ix_part3 SELECT i, i % 10, 'b' || i % 3 FROM generate_series(200, 299) i;
CREATE INDEX ON ix_part3 (a);
ALTER TABLE ix_part ATTACH PARTITION ix_part3 FOR VALUES FROM (200) TO (300);
DELETE FROM ix_part WHERE id BETWEEN 50 AND 70;
UPDATE ix_part SET id = id - 200, a = 3 WHERE id BETWEEN 250 AND 260;
UPDATE ix_part SET id = id - 100, a = 3 WHERE id BETWEEN 165 AND 170;
SELECT ix_same('SELECT * FROM ix_part WHERE a = 3');
SELECT * FROM rose.check('ix_part1');
SELECT * FROM rose.check('ix_part3');
CREATE UNIQUE INDEX ON ix_part (id, a);

-- without a key; keys and columns of other types
CREATE TABLE ix_bag (a int, n name, f float8, v varchar) USING rose;
INSERT INTO ix_bag SELECT i % 4, 'n' || i % 5, CASE i % 6 WHEN 0 THEN float8 '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' ELSE i END, repeat('v', i % 30) FROM generate_series(1, 200) i;
CREATE INDEX ix_bag_n ON ix_bag (n, f DESC);
CREATE INDEX ix_bag_v ON ix_bag (v varchar_pattern_ops) INCLUDE (f, n);
INSERT INTO ix_bag SELECT * FROM ix_bag WHERE a = 1;
DELETE FROM ix_bag WHERE a = 2;
UPDATE ix_bag SET f = 0 WHERE f = 0 AND a = 0;
SELECT ix_same('SELECT n, f FROM ix_bag WHERE n = ''n2'' AND f < 40'), ix_same('SELECT * FROM ix_bag WHERE v LIKE ''vvvvvvvvvvvvvvvvvvvvvvvvvv%'''),
	ix_same('SELECT v, n, f FROM ix_bag WHERE v ~<=~ ''vvvv''');
SELECT * FROM rose.check('ix_bag');
CREATE INDEX ix_large ON ix_bag (v);
INSERT INTO ix_bag (v) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i;
DROP INDEX ix_bag_v, ix_large;
INSERT INTO ix_bag (v) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i;
CREATE INDEX ix_large ON ix_bag (v);
SELECT * FROM rose.check('ix_bag');
-- conditions behind a column that has none are looked at in each entry, and each row of the key, so they do not make it cheap, as they do for core's btrees since 18
CREATE TABLE ix_behind (few int, many int, pad text, PRIMARY KEY (few, many)) USING rose;
INSERT INTO ix_behind SELECT i % 4, i, repeat('p', 20) FROM generate_series(1, 20000) i;
CREATE INDEX ON ix_behind (few, pad, many);
ANALYZE ix_behind;
CREATE FUNCTION ix_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	IF plan -> 0 -> 'Plan' ->> 'Node Type' !~ 'Index' THEN
		RAISE '%', plan;
	END IF;
	RETURN (plan -> 0 -> 'Plan' ->> 'Total Cost')::float8;
END $$;
SET enable_seqscan = off;
SELECT w, ix_cost('SELECT * FROM ix_behind WHERE ' || w) > ix_cost('SELECT * FROM ix_behind ORDER BY few, pad, many') * 0.1 AS much, ix_cost('SELECT few, many FROM ix_behind WHERE ' || w) > ix_cost('SELECT few, many FROM ix_behind ORDER BY few, many') * 0.1 AS much_of_key
	FROM unnest(ARRAY['many = 77', 'few = 1 AND many = 77', 'few < 2 AND many = 77', 'many > 20000']) w;
RESET enable_seqscan;
SELECT count(*) FROM ix_behind WHERE many = 77;
DROP TABLE ix, ix_part, ix_bag, ix_behind, ix_queries CASCADE;
DROP FUNCTION ix_plan, ix_same, ix_cost;
