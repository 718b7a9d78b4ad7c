-- ADD PRIMARY KEY USING INDEX: the table is sorted by the columns of an index that it has
SET default_table_access_method = rose;
CREATE TABLE ak (a int NOT NULL, b text NOT NULL, c int);
CREATE UNIQUE INDEX ak_ab ON ak (b, a);
CREATE INDEX ak_c ON ak (c);
INSERT INTO ak SELECT g, 'b' || g % 7, g % 5 FROM generate_series(1, 50) g;
SELECT 1 FROM rose.spill('ak');
DELETE FROM ak WHERE a > 45;
ALTER TABLE ak ADD CONSTRAINT ak_key PRIMARY KEY USING INDEX ak_ab;
\d ak
SET enable_seqscan = off;
SELECT a, b FROM ak WHERE b = 'b3' ORDER BY b, a;
SELECT count(*), sum(a) FROM ak WHERE c = 3;
INSERT INTO ak VALUES (3, 'b3', 0);
INSERT INTO ak VALUES (3, 'b3', 0) ON CONFLICT (b, a) DO UPDATE SET c = 77 RETURNING *;
SELECT * FROM ak WHERE c = 77;
SELECT relname FROM rose.trees WHERE relname LIKE 'ak%' ORDER BY 1;
SELECT count(*) FROM rose.check('ak');
EXPLAIN (COSTS off) SELECT * FROM ak WHERE b = 'b3' AND a = 3;

-- in the place of another key, with the same columns, and in a transaction that goes back
CREATE UNIQUE INDEX ak_a ON ak (a) INCLUDE (c);
CREATE UNIQUE INDEX ak_again ON ak (a) INCLUDE (c);
BEGIN;
SAVEPOINT s;
ALTER TABLE ak DROP CONSTRAINT ak_key, ADD PRIMARY KEY USING INDEX ak_a;
INSERT INTO ak VALUES (3, 'new', 0);
ROLLBACK TO s;
SELECT count(*), sum(a) FROM ak WHERE b = 'b3';
INSERT INTO ak VALUES (3, 'new', 0);
ROLLBACK;
ALTER TABLE ak DROP CONSTRAINT ak_key, ADD CONSTRAINT ak_key PRIMARY KEY USING INDEX ak_a;
ALTER TABLE ak DROP CONSTRAINT ak_key, ADD CONSTRAINT ak_key PRIMARY KEY USING INDEX ak_again;
\d ak
SELECT a, c FROM ak WHERE a BETWEEN 3 AND 6 ORDER BY a;
SELECT count(*), sum(a) FROM ak WHERE c = 3;
SELECT count(*) FROM rose.check('ak');

-- who asks before the end of the command
CREATE TABLE ak_parent (a int PRIMARY KEY);
INSERT INTO ak_parent SELECT g FROM generate_series(1, 300) g;
CREATE TABLE ak_child (a int NOT NULL, b int);
CREATE UNIQUE INDEX ak_child_b ON ak_child (b);
INSERT INTO ak_child SELECT g, 301 - g FROM generate_series(1, 300) g;
CREATE FUNCTION ak_look() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE NOTICE 'rows: %, first: %', (SELECT count(*) FROM ak_child WHERE b > 0), (SELECT a FROM ak_child ORDER BY b LIMIT 1); END $$;
CREATE EVENT TRIGGER ak_look ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION ak_look();
ALTER TABLE ak_child ADD PRIMARY KEY USING INDEX ak_child_b, ADD FOREIGN KEY (b) REFERENCES ak_parent, ADD COLUMN d int DEFAULT 5;
ALTER TABLE ak_child DROP CONSTRAINT ak_child_b, ALTER a TYPE bigint, ADD CHECK (d > 0);
DROP EVENT TRIGGER ak_look;
SELECT count(*), min(b), max(b), sum(a) FROM ak_child;
SELECT count(*) FROM rose.check('ak_child');

-- what core refuses, and what we do
CREATE UNIQUE INDEX ak_child_desc ON ak_child (b DESC);
ALTER TABLE ak_child ADD PRIMARY KEY USING INDEX ak_child_desc;
CREATE UNIQUE INDEX ak_child_b ON ak_child (b);
ALTER TABLE ak_child ADD PRIMARY KEY USING INDEX ak_child_b DEFERRABLE;
UPDATE ak_child SET b = NULL WHERE b = 7;
ALTER TABLE ak_child ADD PRIMARY KEY USING INDEX ak_child_b;
UPDATE ak_child SET b = 7 WHERE b IS NULL;
SELECT count(*), sum(b) FROM ak_child WHERE b > 0;

-- temporary ones, partitions, and a key that others refer to
CREATE TEMP TABLE ak_temp AS SELECT g AS a, -g AS b FROM generate_series(1, 20) g;
CREATE UNIQUE INDEX ak_temp_b ON ak_temp (b);
ALTER TABLE ak_temp ADD PRIMARY KEY USING INDEX ak_temp_b;
SELECT * FROM ak_temp WHERE b < -17 ORDER BY b;
CREATE TABLE ak_parts (k int NOT NULL, v int NOT NULL) PARTITION BY LIST (k);
CREATE TABLE ak_part (k int NOT NULL, v int NOT NULL);
INSERT INTO ak_part SELECT 1, g FROM generate_series(20, 1, -1) g;
CREATE UNIQUE INDEX ak_part_vk ON ak_part (v, k);
ALTER TABLE ak_part ADD PRIMARY KEY USING INDEX ak_part_vk;
ALTER TABLE ak_parts ADD PRIMARY KEY (v, k);
ALTER TABLE ak_parts ATTACH PARTITION ak_part FOR VALUES IN (1);
INSERT INTO ak_parts VALUES (1, 7) ON CONFLICT DO NOTHING;
SELECT count(*), sum(v) FROM ak_parts WHERE v < 11;
CREATE TABLE ak_refers (v int, k int, FOREIGN KEY (v, k) REFERENCES ak_part (v, k));
INSERT INTO ak_refers VALUES (21, 1);
INSERT INTO ak_refers VALUES (20, 1);
DELETE FROM ak_part WHERE v = 20;
SELECT count(*) FROM rose.check('ak_part');

-- commands within the command: they do not settle what that has not come to yet
CREATE FUNCTION ak_value() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE IF NOT EXISTS ak_noise (a int); RETURN 7; END $$;
CREATE TABLE ak_within (a int NOT NULL, b int PRIMARY KEY, c int);
CREATE UNIQUE INDEX ak_within_a ON ak_within (a);
CREATE INDEX ak_within_c ON ak_within (c);
INSERT INTO ak_within SELECT g, 100 - g, g % 3 FROM generate_series(1, 50) g;
SET client_min_messages = warning;
ALTER TABLE ak_within DROP CONSTRAINT ak_within_pkey, ADD PRIMARY KEY USING INDEX ak_within_a, ADD COLUMN d int DEFAULT ak_value();
ALTER TABLE ak_within DROP CONSTRAINT ak_within_a, ADD PRIMARY KEY (b), ADD COLUMN e int DEFAULT ak_value();
ALTER TABLE ak_within DROP CONSTRAINT ak_within_pkey, ADD COLUMN f int GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
RESET client_min_messages;
\d ak_within
SELECT count(*), sum(a), sum(d), sum(e), count(DISTINCT f) FROM ak_within WHERE c = 1;
SELECT count(*) FROM rose.check('ak_within');

-- a command that failed has left nothing to do
SELECT pg_relation_filenode('ak_within_c') AS file_before \gset
BEGIN;
SAVEPOINT s;
ALTER TABLE ak_within DROP CONSTRAINT ak_within_pkey, ADD PRIMARY KEY (c);
ROLLBACK TO s;
DO $$ BEGIN ALTER TABLE ak_within DROP CONSTRAINT ak_within_pkey, ADD PRIMARY KEY (d); EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'as it was'; END $$;
SELECT count(*) FROM pg_locks WHERE relation = 'ak_within'::regclass AND mode = 'AccessExclusiveLock';
COMMIT;
SELECT pg_relation_filenode('ak_within_c') = :file_before AS same_file;
DROP TABLE ak_within, ak_noise;
DROP FUNCTION ak_value;
DROP TABLE ak, ak_child, ak_parent, ak_temp, ak_parts, ak_refers;
DROP FUNCTION ak_look;
