-- Tables are marked to be clustered by any index, as heap's are; rows stay in the order of the primary key.
CREATE TABLE clu (id int PRIMARY KEY, a int) USING rose;
CREATE INDEX clu_a ON clu (a);
INSERT INTO clu SELECT i, -i FROM generate_series(1, 10) i;
ALTER TABLE clu CLUSTER ON clu_a;
SELECT indexrelid::regclass, indisclustered FROM pg_index WHERE indrelid = 'clu'::regclass ORDER BY 1;
CLUSTER clu;
SELECT id FROM clu LIMIT 3;
CLUSTER clu USING clu_pkey;
CLUSTER clu USING clu_a;
SELECT indexrelid::regclass, indisclustered FROM pg_index WHERE indrelid = 'clu'::regclass ORDER BY 1;
CREATE TABLE clu_keyless (a int, b int) USING rose;
INSERT INTO clu_keyless SELECT -i, i FROM generate_series(1, 10) i;
CREATE UNIQUE INDEX clu_keyless_a ON clu_keyless (a);
CREATE INDEX clu_keyless_part ON clu_keyless (b) WHERE a > 0;
CLUSTER clu_keyless USING clu_keyless_part;
CLUSTER clu_keyless USING clu_keyless_a;
SELECT b FROM clu_keyless LIMIT 3;
SET enable_seqscan = off;
SELECT b FROM clu_keyless WHERE a = -4;
RESET enable_seqscan;
SELECT count(*) FROM rose.check('clu_keyless');
DROP TABLE clu_keyless;
CREATE TABLE clh (id int PRIMARY KEY, a int) USING heap;
CREATE INDEX clh_a ON clh (a);
CLUSTER clh USING clh_a;
ALTER TABLE clh SET ACCESS METHOD rose;
SELECT amname FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relname = 'clh';
-- of the whole database
ALTER TABLE clu SET WITHOUT CLUSTER;
CLUSTER;
ALTER TABLE clh SET WITHOUT CLUSTER;
CLUSTER;

-- types change, beside an access method that stays; not so one that changes, while the setting is off
SET rose.secondary_indexes = off;
ALTER TABLE clu ALTER COLUMN a TYPE bigint, SET ACCESS METHOD rose;
ALTER TABLE clh SET ACCESS METHOD heap;
ALTER TABLE clh ALTER COLUMN a TYPE bigint, SET ACCESS METHOD rose;
SELECT count(*) FROM rose.check('clu');
DROP TABLE clu, clh;
