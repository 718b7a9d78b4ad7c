-- What rose refuses, and the words it does it with.
CREATE TABLE r (id int PRIMARY KEY, a int, b text) USING rose;
INSERT INTO r SELECT i, i, 'b' || i FROM generate_series(1, 10) i;

-- secondary indexes and unique constraints
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
SET rose.read_mode = 'fast';
SET rose.read_mode = 'snapshot';
SET rose.memtable_size = '1GB';
SET rose.max_tables = 10;
SET rose.batch_interval = 'soon';
SET rose.no_such_setting = 1;
ALTER TABLE r SET (rose.something = 1);
ALTER TABLE r SET (fillfactor = 50);
ALTER TABLE r SET (nonsense = 1);

-- all of that did no harm
SELECT count(*), sum(a) FROM r;
SELECT * FROM rose.check('r');
DROP TABLE r, parted, h, long_key, plain_heap;
DROP SCHEMA mixed CASCADE;
