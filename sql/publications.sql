-- Publications that would have rose tables, whose changes are not decoded: named ones are refused, and those that are
-- taken unnamed get a warning, whichever was there first.
SET client_min_messages = error;
CREATE PUBLICATION regress_rose_named;
CREATE TABLE pub_heap (id int PRIMARY KEY) USING heap;
CREATE TABLE pub_rose (id int PRIMARY KEY) USING rose;
CREATE TABLE pub_parted (id int) PARTITION BY RANGE (id);
CREATE TABLE pub_part PARTITION OF pub_parted FOR VALUES FROM (0) TO (10) USING heap;
RESET client_min_messages;

-- named
ALTER PUBLICATION regress_rose_named ADD TABLE pub_rose;
ALTER PUBLICATION regress_rose_named ADD TABLE pub_heap;
ALTER TABLE pub_heap SET ACCESS METHOD rose;
ALTER PUBLICATION regress_rose_named DROP TABLE pub_heap;
ALTER TABLE pub_heap SET ACCESS METHOD rose;
ALTER TABLE pub_heap SET ACCESS METHOD heap;

-- partitions of one that is named
ALTER PUBLICATION regress_rose_named ADD TABLE pub_parted;
CREATE TABLE pub_part_2 PARTITION OF pub_parted FOR VALUES FROM (10) TO (20) USING rose;
CREATE TABLE pub_part_3 (id int) USING rose;
ALTER TABLE pub_parted ATTACH PARTITION pub_part_3 FOR VALUES FROM (20) TO (30);
ALTER TABLE pub_part SET ACCESS METHOD rose;
CREATE TABLE pub_sub (id int) PARTITION BY RANGE (id);
CREATE TABLE pub_part_4 PARTITION OF pub_sub FOR VALUES FROM (30) TO (40) USING rose;
ALTER TABLE pub_parted ATTACH PARTITION pub_sub FOR VALUES FROM (30) TO (40);
CREATE TABLE pub_part_5 PARTITION OF pub_parted FOR VALUES FROM (50) TO (60) USING heap;
ALTER PUBLICATION regress_rose_named SET TABLE pub_parted;
ALTER PUBLICATION regress_rose_named DROP TABLE pub_parted;
DROP TABLE pub_part_2;
CREATE TABLE pub_part_2 PARTITION OF pub_parted FOR VALUES FROM (10) TO (20) USING rose;

-- all tables of a schema
CREATE SCHEMA pub_schema;
SET client_min_messages = error;
CREATE PUBLICATION regress_rose_schema FOR TABLES IN SCHEMA pub_schema;
RESET client_min_messages;
CREATE TABLE pub_schema.t (id int) USING rose;
CREATE TABLE pub_schema.h (id int) USING heap;
CREATE UNLOGGED TABLE pub_schema.u (id int) USING rose;
CREATE TABLE pub_schema.made USING rose AS SELECT 1 AS id;
CREATE MATERIALIZED VIEW pub_schema.v USING rose AS SELECT 1 AS id;
ALTER TABLE pub_rose SET SCHEMA pub_schema;
ALTER TABLE pub_schema.h SET ACCESS METHOD rose;
ALTER PUBLICATION regress_rose_schema ADD TABLES IN SCHEMA public;
DROP PUBLICATION regress_rose_schema;
CREATE TABLE pub_schema.t_2 (id int) USING rose;

-- who may create tables in a schema need not be able to look them up
CREATE ROLE regress_rose_maker;
GRANT CREATE ON SCHEMA pub_schema TO regress_rose_maker;
GRANT ALL ON SCHEMA public TO regress_rose_maker;
SET ROLE regress_rose_maker;
CREATE TABLE pub_schema.made_heap (id int) USING heap;
CREATE TABLE pub_schema.made_as USING heap AS SELECT 1 AS id;
CREATE TABLE pub_moved (id int) USING heap;
ALTER TABLE pub_moved SET SCHEMA pub_schema;
RESET ROLE;
CREATE PUBLICATION regress_rose_schema FOR TABLES IN SCHEMA pub_schema;
SET ROLE regress_rose_maker;
CREATE TABLE pub_schema.made_rose (id int) USING rose;
RESET ROLE;
DROP PUBLICATION regress_rose_schema;
DROP OWNED BY regress_rose_maker;
DROP ROLE regress_rose_maker;

-- all tables
CREATE PUBLICATION regress_rose_all FOR ALL TABLES;
CREATE TABLE pub_later (id int) USING rose;
CREATE TABLE pub_heap_later (id int) USING heap;
ALTER TABLE pub_heap_later SET ACCESS METHOD rose;
DROP PUBLICATION regress_rose_all;
CREATE TABLE pub_last (id int) USING rose;

SET client_min_messages = error;
DROP PUBLICATION regress_rose_named;
DROP SCHEMA pub_schema CASCADE;
DROP TABLE pub_heap, pub_parted, pub_later, pub_heap_later, pub_last;
