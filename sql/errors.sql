-- What rose refuses, and the words it does it with.
CREATE TABLE r (id int PRIMARY KEY, a int, b text) USING rose;
INSERT INTO r SELECT i, i, 'b' || i FROM generate_series(1, 10) i;

-- secondary indexes and unique constraints, while the setting is off
SET rose.secondary_indexes = off;
CREATE INDEX r_a ON r (a);
CREATE UNIQUE INDEX r_a ON r (a);
CREATE INDEX r_a ON r USING hash (a);
CREATE INDEX r_a ON r USING brin (a);
CREATE INDEX r_lower ON r (lower(b));
CREATE INDEX r_part ON r (a) WHERE b IS NULL;
ALTER TABLE r ADD UNIQUE (a);
ALTER TABLE r ADD CONSTRAINT r_excl EXCLUDE USING btree (a WITH =);
CREATE TABLE refused (id int PRIMARY KEY, a int UNIQUE) USING rose;
CREATE TABLE refused (id int PRIMARY KEY, EXCLUDE USING btree (id WITH =)) USING rose;
INSERT INTO r VALUES (1, 1, 'x') ON CONFLICT (a) DO NOTHING;

-- primary keys of a kind that is not supported
CREATE TABLE refused (id int PRIMARY KEY DEFERRABLE) USING rose;

-- concurrently: nothing is left behind
CREATE INDEX CONCURRENTLY r_a ON r (a);
CREATE UNIQUE INDEX CONCURRENTLY ON r (id);
REINDEX TABLE CONCURRENTLY r;
REINDEX INDEX CONCURRENTLY r_pkey;
CREATE SCHEMA mixed;
CREATE TABLE mixed.t (id int PRIMARY KEY) USING rose;
REINDEX SCHEMA CONCURRENTLY mixed;
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10) USING rose;
REINDEX TABLE CONCURRENTLY parted;
SELECT indexrelid::regclass, indisvalid FROM pg_index
 WHERE indrelid IN ('r'::regclass, 'mixed.t'::regclass, 'parted_1'::regclass) ORDER BY indexrelid::regclass::text;
REINDEX TABLE r;
REINDEX SCHEMA mixed;

-- on partitioned tables
CREATE INDEX ON parted (id);
CREATE TABLE uniq (id int, a int, UNIQUE (id)) PARTITION BY RANGE (id);
CREATE TABLE uniq_1 PARTITION OF uniq FOR VALUES FROM (0) TO (10) USING rose;
CREATE TABLE uniq_2 (id int, a int) USING rose;
ALTER TABLE uniq ATTACH PARTITION uniq_2 FOR VALUES FROM (10) TO (20);
DROP TABLE uniq, uniq_2;

-- a heap table with indexes cannot become a rose table
CREATE TABLE h (id int PRIMARY KEY, a int UNIQUE);
ALTER TABLE h SET ACCESS METHOD rose;
ALTER TABLE h DROP CONSTRAINT h_a_key;
ALTER TABLE h SET ACCESS METHOD rose;
RESET rose.secondary_indexes;

-- rewrites of what the transaction changed
BEGIN;
INSERT INTO r VALUES (11, 11, 'b11');
CLUSTER r USING r_pkey;
SELECT count(*) FILTER (WHERE id = 11) FROM r;
ROLLBACK;

-- TIDs are good for a transaction
SELECT id FROM r WHERE ctid = '(0,1)';
BEGIN;
UPDATE r SET a = -1 WHERE ctid = (SELECT ctid FROM r WHERE id = 3) RETURNING *;
ROLLBACK;

-- keys and rows that are too long
CREATE TABLE long_key (k text PRIMARY KEY) USING rose;
INSERT INTO long_key SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i;

-- functions on tables that are not the caller's, or not rose tables
CREATE TABLE plain_heap (id int);
SELECT rose.spill('plain_heap');
SELECT rose.merge('pg_class');
SELECT * FROM rose.check('r_pkey');
SELECT rose.spill('parted');
CREATE ROLE regress_rose_nobody;
SET ROLE regress_rose_nobody;
SELECT rose.spill('r');
SELECT rose.merge('r');
SELECT * FROM rose.check('r');
RESET ROLE;
DROP ROLE regress_rose_nobody;

-- publications: changes of rose tables are not decoded
CREATE PUBLICATION regress_rose_pub FOR TABLE r;
CREATE PUBLICATION regress_rose_pub FOR TABLE plain_heap, ONLY r (id);
SET client_min_messages = error;
CREATE PUBLICATION regress_rose_pub FOR TABLE plain_heap;
ALTER PUBLICATION regress_rose_pub ADD TABLE r;
ALTER PUBLICATION regress_rose_pub SET TABLE plain_heap, r;
ALTER PUBLICATION regress_rose_pub DROP TABLE plain_heap;
SELECT count(*) FROM pg_publication_tables WHERE pubname = 'regress_rose_pub';
DROP PUBLICATION regress_rose_pub;
RESET client_min_messages;

-- settings
SHOW rose.read_mode;
SELECT count(*) FROM pg_settings WHERE name = 'rose.read_mode';
SET rose.read_mode = 'realtime';
SELECT count(*) > 0 FROM r;
SET rose.read_mode = 'fast';
SET rose.read_mode = 'snapshot';
SHOW rose.read_mode;
RESET rose.read_mode;
SET rose.memtable_size = '1GB';
SET rose.max_tables = 10;
SET rose.batch_interval = 'soon';
SET rose.no_such_setting = 1;
ALTER TABLE r SET (rose.something = 1);
ALTER TABLE r SET (fillfactor = 50);
ALTER TABLE r SET (nonsense = 1);

-- row types whose values are keys keep their columns
CREATE TYPE rt AS (x int, y int);
CREATE TYPE rt_outer AS (n int, r rt[]);
CREATE DOMAIN rt_domain AS rt_outer;
CREATE TABLE rt_keyed (c rt PRIMARY KEY, b int) USING rose;
CREATE TABLE rt_heap (c rt PRIMARY KEY, b int) USING heap;
INSERT INTO rt_keyed SELECT ROW(i % 7, i)::rt, i FROM generate_series(1, 100) i;
SELECT rose.spill('rt_keyed');
ALTER TYPE rt ADD ATTRIBUTE z int;
ALTER TYPE rt DROP ATTRIBUTE x CASCADE;
ALTER TYPE rt RENAME ATTRIBUTE y TO why;
SELECT count(*) FROM rt_keyed WHERE c = ROW(5, 5)::rt;
INSERT INTO rt_keyed VALUES (ROW(5, 5)::rt, 0);
SELECT count(*) FROM rose.check('rt_keyed');
ALTER TABLE rt_keyed DROP CONSTRAINT rt_keyed_pkey;
CREATE TABLE rt_indexed (id int PRIMARY KEY, d rt_domain, o rt_outer) USING rose;
CREATE INDEX rt_indexed_d ON rt_indexed (id, d);
CREATE INDEX rt_indexed_i ON rt_indexed (id) INCLUDE (o);
ALTER TYPE rt ADD ATTRIBUTE z int;
ALTER TYPE rt_outer DROP ATTRIBUTE n;
DROP INDEX rt_indexed_d;
ALTER TYPE rt ADD ATTRIBUTE z int;
ALTER TYPE rt_outer DROP ATTRIBUTE n;
CREATE INDEX rt_indexed_row ON rt_indexed ((rt_indexed));
ALTER TABLE rt_indexed ADD e int;
ALTER TABLE rt_indexed DROP o;
DROP INDEX rt_indexed_row;
CREATE TABLE rt_typed OF rt USING rose;
CREATE INDEX rt_typed_row ON rt_typed ((rt_typed));
ALTER TYPE rt DROP ATTRIBUTE z CASCADE;
DROP INDEX rt_typed_row;
CREATE INDEX rt_cast ON rt_indexed ((ROW(id, 1, 2)::rt));
ALTER TYPE rt DROP ATTRIBUTE z CASCADE;
DROP INDEX rt_cast;
ALTER TYPE rt DROP ATTRIBUTE z CASCADE;
ALTER TABLE rt_indexed ADD e int, DROP o;
SELECT c FROM rt_keyed WHERE b = 5;
DROP TABLE rt_keyed, rt_heap, rt_indexed, rt_typed;
DROP DOMAIN rt_domain;
DROP TYPE rt_outer, rt;

-- all of that did no harm
SELECT count(*), sum(a) FROM r;
SELECT * FROM rose.check('r');
DROP TABLE r, parted, h, long_key, plain_heap;
DROP SCHEMA mixed CASCADE;
