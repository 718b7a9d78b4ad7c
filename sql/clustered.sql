-- By which indexes tables are clustered: that of the primary key only.
CREATE TABLE clu (id int PRIMARY KEY, a int) USING rose;
CREATE INDEX clu_a ON clu (a);
INSERT INTO clu SELECT i, -i FROM generate_series(1, 10) i;
ALTER TABLE clu CLUSTER ON clu_a;
CLUSTER clu USING clu_a;
ALTER TABLE clu CLUSTER ON clu_pkey;
CLUSTER clu;
ALTER TABLE clu SET WITHOUT CLUSTER;
CREATE TABLE clh (id int PRIMARY KEY, a int) USING heap;
CREATE INDEX clh_a ON clh (a);
CLUSTER clh USING clh_a;
ALTER TABLE clh SET ACCESS METHOD rose;
ALTER TABLE clh SET WITHOUT CLUSTER;
ALTER TABLE clh SET ACCESS METHOD rose;
SELECT amname FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relname = 'clh';
CLUSTER;

-- types change, beside an access method that stays; not so one that changes, while the setting is off
SET rose.secondary_indexes = off;
ALTER TABLE clu ALTER COLUMN a TYPE bigint, SET ACCESS METHOD rose;
ALTER TABLE clh SET ACCESS METHOD heap;
ALTER TABLE clh ALTER COLUMN a TYPE bigint, SET ACCESS METHOD rose;
SELECT count(*) FROM rose.check('clu');
DROP TABLE clu, clh;
