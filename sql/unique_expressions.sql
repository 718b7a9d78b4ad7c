-- Unique indexes on expressions, and partial ones.
SET client_min_messages = warning;
SET default_table_access_method = rose;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE ue (id int PRIMARY KEY, email text, name text, active bool DEFAULT true, n int, m mood);
INSERT INTO ue VALUES (1, 'Ann@x', 'ann', true, 1, 'ok'), (2, 'bob@x', 'bob', true, 2, 'sad'), (3, 'BOB@x', 'bob', false, 3, 'ok'), (4, NULL, NULL, NULL, NULL, NULL);
-- built over duplicates
CREATE UNIQUE INDEX ue_email ON ue (lower(email));
CREATE UNIQUE INDEX ue_email ON ue (lower(email)) WHERE active;
CREATE UNIQUE INDEX ue_name ON ue (name);
CREATE UNIQUE INDEX ue_name ON ue (name) WHERE active;
CREATE UNIQUE INDEX ue_sum ON ue ((n % 10), (coalesce(name, '-'))) INCLUDE (email) WHERE n > 0;
CREATE UNIQUE INDEX ue_mood ON ue ((n / 100)) WHERE m = 'happy';
CREATE UNIQUE INDEX ue_one ON ue ((true)) WHERE n = 1000;
CREATE UNIQUE INDEX ue_nn ON ue ((email || '/')) NULLS NOT DISTINCT WHERE NOT active;
-- one by one
INSERT INTO ue VALUES (5, 'ANN@X', 'c', true, 5);
INSERT INTO ue VALUES (5, 'ANN@X', 'c', false, 5);
INSERT INTO ue VALUES (6, 'ANN@X', 'c', false, 6);
INSERT INTO ue VALUES (6, 'z', 'ann', true, 6);
INSERT INTO ue VALUES (6, 'z', 'ann', NULL, 6);
INSERT INTO ue VALUES (7, NULL, 'x7', false, 7), (8, NULL, 'x8', false, 8);
INSERT INTO ue VALUES (7, NULL, 'x7', false, 7);
INSERT INTO ue VALUES (8, NULL, 'x8', false, 8);
INSERT INTO ue VALUES (9, 'n9', 'x7', true, 17);
INSERT INTO ue VALUES (9, 'n9', 'x7', true, -17);
INSERT INTO ue VALUES (10, 'm', 'x10', true, 10, 'happy'), (11, 'm2', 'x11', true, 11, 'happy');
INSERT INTO ue VALUES (10, 'm', 'x10', true, 10, 'happy'), (11, 'm2', 'x11', true, 111, 'happy');
SELECT * FROM ue ORDER BY id;
-- in and out of the predicate
UPDATE ue SET active = true WHERE id = 3;
UPDATE ue SET active = true, email = 'bob3@x', name = 'bob3' WHERE id = 3;
UPDATE ue SET active = false WHERE id = 2;
UPDATE ue SET active = true WHERE id = 2;
UPDATE ue SET email = upper(email) WHERE id < 4;
UPDATE ue SET email = 'ANN@X' WHERE id = 2;
UPDATE ue SET m = 'happy' WHERE id = 1;
UPDATE ue SET n = 1000 WHERE id IN (1, 2);
UPDATE ue SET n = 1000 WHERE id = 1;
UPDATE ue SET n = 1000 + id, name = name || id WHERE id > 1;
UPDATE ue SET n = n + 1, active = active WHERE n < 1000;
UPDATE ue SET id = id + 100 WHERE id < 3;
UPDATE ue SET id = id + 100, email = 'bob@X' WHERE id = 101;
BEGIN; DELETE FROM ue WHERE id = 102; INSERT INTO ue VALUES (202, 'bOB@x', 'bob', true, 4); COMMIT;
BEGIN; DELETE FROM ue WHERE id = 202; SAVEPOINT s; INSERT INTO ue VALUES (203, 'bob@x', 'bob', true, 4); ROLLBACK TO s; INSERT INTO ue VALUES (204, 'boB@x', 'boB', true, 4); COMMIT;
BEGIN; SAVEPOINT s; DELETE FROM ue WHERE id = 204; ROLLBACK TO s; INSERT INTO ue VALUES (205, 'bob@x', 'bob', true, 4); COMMIT;
SELECT * FROM ue ORDER BY id;
SELECT id FROM ue WHERE lower(email) = 'bob@x' AND active;
SELECT * FROM rose.check('ue');
-- errors of expressions come before anything is written
CREATE TABLE ud (id int PRIMARY KEY, n int, k int);
CREATE UNIQUE INDEX ud_div ON ud ((1000 / n)) WHERE k > 0;
INSERT INTO ud VALUES (1, 1, 1), (2, 0, 0), (3, 0, 1);
INSERT INTO ud VALUES (1, 1, 1), (2, 0, 0);
UPDATE ud SET k = 1 WHERE id = 2;
UPDATE ud SET n = 600 WHERE id = 1;
INSERT INTO ud VALUES (3, 999, 1);
INSERT INTO ud VALUES (3, 999, 1) ON CONFLICT DO NOTHING;
UPDATE ud SET n = 0, k = -1 WHERE id = 1;
SELECT * FROM ud ORDER BY id;
-- COPY
COPY ue (id, email, active) FROM stdin;
300	c1	t
301	c2	t
302	C1	t
\.
COPY ue (id, email, active) FROM stdin;
300	c1	t
301	c2	t
302	C1	\N
\.
-- ON CONFLICT
INSERT INTO ue VALUES (400, 'C1', 'x', true) ON CONFLICT DO NOTHING;
INSERT INTO ue VALUES (400, 'C1', 'x', true) ON CONFLICT (lower(email)) WHERE active DO UPDATE SET n = coalesce(ue.n, 0) + 7, name = excluded.name RETURNING *;
INSERT INTO ue VALUES (400, 'C1', 'x', true) ON CONFLICT (lower(email)) DO NOTHING;
INSERT INTO ue VALUES (400, 'C1', 'x', true) ON CONFLICT (name) WHERE active DO UPDATE SET n = 8 RETURNING *;
INSERT INTO ue VALUES (400, 'c2', 'x', true) ON CONFLICT (name) WHERE active DO UPDATE SET n = 9 RETURNING *;
INSERT INTO ue VALUES (400, 'c2', 'y', true) ON CONFLICT (name) WHERE active DO UPDATE SET n = 9 RETURNING *;
-- the arbiter does not hold for the row: an insertion as any other
INSERT INTO ue VALUES (400, 'c1', 'x', false) ON CONFLICT (lower(email)) WHERE active DO NOTHING RETURNING *;
INSERT INTO ue VALUES (400, 'c1', 'x', false) ON CONFLICT (name) WHERE active DO NOTHING RETURNING *;
INSERT INTO ue VALUES (401, 'c1', 'x', false) ON CONFLICT (name) WHERE active DO NOTHING RETURNING *;
INSERT INTO ue VALUES (401, 'c1', 'x', false) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO ue VALUES (402, 'D', 'd', true), (403, 'd', 'e', true) ON CONFLICT (lower(email)) WHERE active DO UPDATE SET n = 1;
INSERT INTO ue VALUES (402, 'D', 'd', true), (403, 'd', 'e', true) ON CONFLICT (lower(email)) WHERE active DO NOTHING RETURNING *;
INSERT INTO ue VALUES (402, 'C1', 'moves', true) ON CONFLICT (lower(email)) WHERE active DO UPDATE SET email = 'C9', id = 999 RETURNING *;
INSERT INTO ue VALUES (404, 'C9', 'out', true) ON CONFLICT (lower(email)) WHERE active DO UPDATE SET active = false RETURNING *;
INSERT INTO ue VALUES (404, 'C9', 'out', true) ON CONFLICT (lower(email)) WHERE active DO UPDATE SET active = false RETURNING *;
MERGE INTO ue USING (VALUES ('c9'), ('cx')) v(e) ON lower(ue.email) = v.e AND ue.active WHEN MATCHED THEN UPDATE SET email = 'cx' WHEN NOT MATCHED THEN INSERT (id, email) VALUES (500, v.e);
SELECT * FROM ue ORDER BY id;
SELECT * FROM rose.check('ue');
-- without a key; REPEATABLE READ; temporary; partitions; ALTER TABLE
CREATE TABLE nk (a text, b int);
CREATE UNIQUE INDEX nk_a ON nk (upper(a)) WHERE b IS NOT NULL;
INSERT INTO nk VALUES ('a', 1), ('A', NULL), ('b', 2);
INSERT INTO nk VALUES ('A', 1);
INSERT INTO nk VALUES ('A', 1) ON CONFLICT (upper(a)) WHERE b IS NOT NULL DO UPDATE SET b = nk.b + 10 RETURNING *;
UPDATE nk SET b = 5 WHERE b IS NULL;
UPDATE nk SET a = 'B' WHERE b = 11;
UPDATE nk SET b = NULL WHERE a = 'b';
UPDATE nk SET a = 'B' WHERE b = 11;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM nk ORDER BY a COLLATE "C"; DELETE FROM nk WHERE a = 'B'; INSERT INTO nk VALUES ('b', 4); INSERT INTO nk VALUES ('B', 4) ON CONFLICT DO NOTHING; COMMIT;
SELECT * FROM nk ORDER BY a COLLATE "C", b;
SELECT * FROM rose.check('nk');
CREATE TEMP TABLE tp (id int PRIMARY KEY, a int, b int);
CREATE UNIQUE INDEX tp_a ON tp (abs(a)) WHERE b > 0;
INSERT INTO tp VALUES (1, 1, 1), (2, -1, 0), (3, 3, 3);
INSERT INTO tp VALUES (4, -1, 1);
UPDATE tp SET b = 1;
INSERT INTO tp VALUES (5, -3, 1) ON CONFLICT (abs(a)) WHERE b > 0 DO UPDATE SET a = excluded.a;
SELECT * FROM tp ORDER BY id;
CREATE TABLE pu (k int, e text, ok bool) PARTITION BY LIST (k);
CREATE TABLE pu1 PARTITION OF pu FOR VALUES IN (1);
CREATE UNIQUE INDEX pu_e ON pu (k, e) WHERE ok;
CREATE TABLE pu2 (LIKE pu);
INSERT INTO pu2 VALUES (2, 'a', true), (2, 'a', true);
ALTER TABLE pu ATTACH PARTITION pu2 FOR VALUES IN (2);
UPDATE pu2 SET ok = false;
ALTER TABLE pu ATTACH PARTITION pu2 FOR VALUES IN (2);
UPDATE pu SET ok = true;
INSERT INTO pu VALUES (1, 'a', true), (2, 'b', true);
INSERT INTO pu VALUES (1, 'a', true), (2, 'b', true) ON CONFLICT (k, e) WHERE ok DO UPDATE SET e = pu.e || '!' RETURNING *;
UPDATE pu SET k = 2 WHERE e = 'a!';
UPDATE pu SET k = 1, e = 'a!' WHERE e = 'b!';
SELECT * FROM pu ORDER BY k, e;
ALTER TABLE nk ADD COLUMN id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
INSERT INTO nk VALUES ('b', 4);
ALTER TABLE nk ALTER a TYPE varchar(10), ALTER b TYPE bigint;
INSERT INTO nk VALUES ('b', 4);
ALTER TABLE nk DROP CONSTRAINT nk_pkey;
INSERT INTO nk VALUES ('b', 4);
REINDEX TABLE nk;
INSERT INTO nk VALUES ('b', 4);
TRUNCATE nk;
INSERT INTO nk VALUES ('b', 4), ('c', 4), ('B', NULL);
INSERT INTO nk VALUES ('b', 4);
CREATE TABLE nk2 (LIKE nk INCLUDING ALL);
INSERT INTO nk2 SELECT a, b FROM nk;
INSERT INTO nk2 SELECT upper(a), b FROM nk;
SELECT pg_get_indexdef('nk_a'::regclass);
ALTER TABLE nk DROP COLUMN b;
INSERT INTO nk VALUES ('b'), ('b');
-- whole rows, generated columns, several at once
CREATE TABLE g (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, c text COLLATE "C");
CREATE UNIQUE INDEX g1 ON g ((b + 1));
CREATE UNIQUE INDEX g2 ON g (lower(c) DESC, a) WHERE c <> '';
CREATE UNIQUE INDEX g3 ON g (left(c, 2)) WHERE a > 10;
INSERT INTO g (id, a, c) SELECT i, i, 'c' || i FROM generate_series(1, 30) i;
INSERT INTO g (id, a, c) SELECT i, i, chr(64 + i) || i FROM generate_series(1, 26) i;
UPDATE g SET a = a + 1;
UPDATE g SET a = 27 - a;
UPDATE g SET a = -a, c = lower(c) WHERE a > 1;
UPDATE g SET c = 'a' || c WHERE id > 20;
INSERT INTO g (id, a, c) VALUES (100, 100, 'ZZ') ON CONFLICT DO NOTHING RETURNING *;
SELECT count(*), sum(a), max(c) FROM g;
SELECT * FROM rose.check('g');
-- beside writers
CREATE UNIQUE INDEX CONCURRENTLY g4 ON g (abs(a)) WHERE c > 'B';
DROP INDEX CONCURRENTLY g4;
CREATE UNIQUE INDEX CONCURRENTLY g4 ON g (abs(a / 10)) WHERE c > 'B';
SELECT indisvalid FROM pg_index WHERE indexrelid = 'g4'::regclass;
DROP INDEX CONCURRENTLY g4;
CREATE UNIQUE INDEX CONCURRENTLY g4 ON g (abs(a)) WHERE c > 'B';
REINDEX INDEX CONCURRENTLY g4;
INSERT INTO g (id, a, c) SELECT 200 + id, -a, 'Zz' || id FROM g WHERE c > 'B' AND id < 4 ORDER BY id;
SELECT * FROM rose.check('g');
-- domains of built-in types, and arrays of them: their conditions are asked before
CREATE DOMAIN ue_code AS text CHECK (VALUE <> '');
CREATE DOMAIN ue_inner AS ue_code COLLATE "C";
CREATE TABLE dm (id int PRIMARY KEY, c ue_inner, a ue_code[]);
CREATE UNIQUE INDEX dm_c ON dm (upper(c)) WHERE c <> 'none';
CREATE UNIQUE INDEX dm_a ON dm (array_length(a, 1), (a[1])) WHERE a IS NOT NULL;
INSERT INTO dm VALUES (1, 'one', '{x}'), (2, 'none', '{x,y}'), (3, 'none', NULL);
INSERT INTO dm VALUES (4, 'ONE', NULL);
INSERT INTO dm VALUES (5, 'two', '{x}') ON CONFLICT (array_length(a, 1), (a[1])) WHERE a IS NOT NULL DO UPDATE SET c = 'Two' RETURNING *;
INSERT INTO dm VALUES (6, 'TWO', '{z}');
ALTER DOMAIN ue_code ADD CHECK (VALUE <> 'three') NOT VALID;
INSERT INTO dm VALUES (7, 'three', NULL);
UPDATE dm SET c = 'four' WHERE upper(c) = 'TWO' RETURNING *;
SELECT * FROM rose.check('dm');
DROP TABLE ue, ud, nk, nk2, pu, g, dm;
DROP DOMAIN ue_inner, ue_code;
