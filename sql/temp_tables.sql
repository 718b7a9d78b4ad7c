-- Temporary tables: a session's own, written to its local buffers, gone at its end.
SET default_table_access_method = rose;
CREATE TEMP TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10) g;
UPDATE t SET v = v || 'u' WHERE id < 4;
DELETE FROM t WHERE id = 5;
SELECT rose.spill('t');
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (3, 'again');
INSERT INTO t VALUES (3, 'again'), (11, 'new') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v RETURNING *;
SELECT persistence, access_method = 'rose' AS of_rose FROM (
	SELECT c.relpersistence AS persistence, a.amname AS access_method FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 't'::regclass) s;

-- subtransactions
BEGIN;
INSERT INTO t VALUES (20, 'kept');
SAVEPOINT s;
INSERT INTO t VALUES (21, 'rolled back');
UPDATE t SET v = 'rolled back' WHERE id = 1;
SELECT rose.spill('t');
SELECT id, v FROM t WHERE id IN (1, 20, 21) ORDER BY id;
ROLLBACK TO s;
SELECT id, v FROM t WHERE id IN (1, 20, 21) ORDER BY id;
COMMIT;
SELECT id, v FROM t WHERE id IN (1, 20, 21) ORDER BY id;
BEGIN;
DELETE FROM t;
SELECT rose.merge('t');
ROLLBACK;
SELECT count(*) FROM t;
SELECT * FROM rose.check('t');

-- ON COMMIT
CREATE TEMP TABLE kept (id int PRIMARY KEY) ON COMMIT PRESERVE ROWS;
CREATE TEMP TABLE emptied (id int PRIMARY KEY, v text) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE emptied_without_key (id int, v text) ON COMMIT DELETE ROWS;
BEGIN;
CREATE TEMP TABLE dropped (id int PRIMARY KEY) ON COMMIT DROP;
INSERT INTO dropped VALUES (1);
INSERT INTO kept VALUES (1);
INSERT INTO emptied SELECT g, 'v' FROM generate_series(1, 1000) g;
INSERT INTO emptied_without_key SELECT g, 'v' FROM generate_series(1, 1000) g;
SELECT rose.spill('emptied');
INSERT INTO emptied SELECT g, 'v' FROM generate_series(1001, 2000) g;
SELECT (SELECT count(*) FROM dropped), (SELECT count(*) FROM kept), (SELECT count(*) FROM emptied), (SELECT count(*) FROM emptied_without_key);
COMMIT;
SELECT * FROM dropped;
SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM emptied), (SELECT count(*) FROM emptied_without_key), pg_relation_size('emptied');
BEGIN;
INSERT INTO emptied VALUES (1, 'once');
INSERT INTO emptied VALUES (2000, 'once') RETURNING *;
SELECT * FROM emptied ORDER BY id;
SELECT * FROM rose.check('emptied');
COMMIT;
INSERT INTO emptied VALUES (1, 'gone at once');
SELECT * FROM emptied;
-- one that has no rows is not touched
SELECT pg_relation_filenode('emptied') AS filenode \gset
BEGIN;
INSERT INTO kept VALUES (2);
COMMIT;
SELECT pg_relation_filenode('emptied') = :filenode AS same_file;
SELECT conname FROM pg_constraint WHERE conrelid = 'emptied'::regclass AND contype = 'p';
SELECT * FROM rose.check('emptied');

-- TRUNCATE
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (1, 'other');
SELECT * FROM t;
ROLLBACK;
SELECT count(*) FROM t;
BEGIN;
CREATE TEMP TABLE made (id int PRIMARY KEY);
INSERT INTO made VALUES (1), (2);
TRUNCATE made;
INSERT INTO made VALUES (2), (3);
SAVEPOINT s;
TRUNCATE made;
INSERT INTO made VALUES (9);
ROLLBACK TO s;
SELECT * FROM made ORDER BY id;
COMMIT;
SELECT * FROM made ORDER BY id;

-- other ways to make them
CREATE TEMP TABLE selected AS SELECT g AS id, 'x' || g AS v FROM generate_series(1, 5) g;
SELECT * INTO TEMP selected_into FROM selected;
CREATE TEMP TABLE alike (LIKE t INCLUDING ALL);
INSERT INTO alike SELECT * FROM t;
SELECT (SELECT count(*) FROM selected), (SELECT count(*) FROM selected_into), (SELECT count(*) FROM alike);
CREATE TEMP TABLE child (more int) INHERITS (selected);
INSERT INTO child VALUES (6, 'child', 1);
SELECT tableoid::regclass, * FROM selected ORDER BY id;
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TEMP TABLE temporary_child () INHERITS (parent);
INSERT INTO parent VALUES (1, 'parent');
INSERT INTO temporary_child VALUES (2, 'child');
SELECT tableoid::regclass, * FROM parent ORDER BY id;
UPDATE parent SET v = v || '!' RETURNING *;
CREATE TEMP TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TEMP TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TEMP TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO parts SELECT g, 'v' FROM generate_series(0, 18) g;
UPDATE parts SET id = 19 WHERE id = 3;
SELECT tableoid::regclass, count(*) FROM parts GROUP BY 1 ORDER BY 1;
CREATE TABLE permanent_parts (id int) PARTITION BY RANGE (id);
CREATE TEMP TABLE refused PARTITION OF permanent_parts FOR VALUES FROM (0) TO (1);
COPY made FROM stdin;
10
11
\.
SELECT count(*) FROM made;

-- foreign keys
CREATE TEMP TABLE referencing (id int PRIMARY KEY, made int REFERENCES made ON DELETE CASCADE);
INSERT INTO referencing VALUES (1, 10), (2, 11);
INSERT INTO referencing VALUES (3, 12);
DELETE FROM made WHERE id = 10;
SELECT * FROM referencing;

-- changes
ALTER TABLE t ADD COLUMN n int DEFAULT 7;
ALTER TABLE t ALTER COLUMN v TYPE varchar(100);
ALTER TABLE t RENAME COLUMN v TO w;
SELECT * FROM t WHERE id < 3 ORDER BY id;
ALTER TABLE t ALTER COLUMN n TYPE bigint USING n * 2;
ALTER TABLE t DROP CONSTRAINT t_pkey;
INSERT INTO t VALUES (1, 'twice', 1);
ALTER TABLE t ADD PRIMARY KEY (id);
DELETE FROM t WHERE w = 'twice';
ALTER TABLE t ADD PRIMARY KEY (id);
ALTER TABLE t SET (rose.filter_bits = 5);
ALTER TABLE t SET ACCESS METHOD heap;
ALTER TABLE t SET ACCESS METHOD rose;
ALTER TABLE t SET LOGGED;
VACUUM t;
ANALYZE t;
VACUUM FULL t;
CLUSTER t USING t_pkey;
REINDEX TABLE t;
SELECT count(*), sum(n) FROM t;
SELECT * FROM rose.check('t');

-- secondary indexes
CREATE INDEX t_n ON t (n, w);
CREATE TEMP TABLE indexed (id int PRIMARY KEY, v int) ON COMMIT DELETE ROWS;
CREATE INDEX indexed_v ON indexed (v);
UPDATE t SET n = id % 3;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id, n FROM t WHERE n = 1;
SELECT id, n FROM t WHERE n = 1 ORDER BY id;
BEGIN;
INSERT INTO indexed SELECT g, g % 10 FROM generate_series(1, 1000) g;
SELECT count(*) FROM indexed WHERE v = 3;
SELECT * FROM rose.check('indexed');
COMMIT;
BEGIN;
SELECT count(*) FROM indexed WHERE v = 3;
INSERT INTO indexed VALUES (1, 3);
SELECT * FROM indexed WHERE v = 3;
SELECT * FROM rose.check('indexed');
COMMIT;
RESET enable_seqscan;
SELECT * FROM rose.check('t');

-- a materialized view's differences are in temporary tables
CREATE MATERIALIZED VIEW viewed USING heap AS SELECT id, v FROM parent;
CREATE UNIQUE INDEX ON viewed (id);
INSERT INTO parent VALUES (7, 'new');
REFRESH MATERIALIZED VIEW CONCURRENTLY viewed;
SELECT * FROM viewed ORDER BY id;

-- prepared transactions and parallel workers cannot have them
BEGIN;
INSERT INTO made VALUES (77);
PREPARE TRANSACTION 'refused';
CREATE FUNCTION count_made() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN (SELECT count(*) FROM made); END';
SELECT count_made();

-- more rows than there is memory for; other tables are spilled for them
CREATE TEMP TABLE large (id int PRIMARY KEY, v text);
CREATE TEMP TABLE large_too (v text);
INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 60000) g;
BEGIN;
INSERT INTO large_too SELECT v FROM large;
INSERT INTO large SELECT g, md5(g::text) FROM generate_series(60001, 120000) g;
UPDATE large SET v = 'x' WHERE id % 10 = 0;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE v = 'x'), sum(id) FROM large;
SELECT count(*), count(DISTINCT v) FROM large_too;
SELECT * FROM rose.check('large');
SELECT coalesce(sum(bytes), 0) <= 8 * 1024 * 1024 AS bounded FROM rose.stat_components WHERE kind = 'memtable' AND relid IN ('large'::regclass, 'large_too'::regclass);

-- a cursor goes on when its rows have been written and merged
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM large ORDER BY id;
FETCH 2 FROM c;
DELETE FROM large WHERE id > 3;
SELECT rose.merge('large');
FETCH 2 FROM c;
MOVE FORWARD 100000 IN c;
FETCH 1 FROM c;
TRUNCATE large;
ROLLBACK;

-- the end of all
SELECT count(*) > 10 AS some FROM pg_class WHERE relpersistence = 't' AND pg_my_temp_schema() = relnamespace;
DISCARD TEMP;
SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND pg_my_temp_schema() = relnamespace;
CREATE TEMP TABLE t (id int PRIMARY KEY);
SELECT * FROM t;
DROP TABLE t;
SELECT * FROM parent;
DROP TABLE permanent_parts;
DROP MATERIALIZED VIEW viewed;
DROP TABLE parent;
DROP FUNCTION count_made;
