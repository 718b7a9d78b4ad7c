-- ADD PRIMARY KEY: all rows go to a new file, in the order of the new key, whatever they are and wherever they were
SET default_table_access_method = rose;
CREATE TABLE nk (a int, b text, gone int, c numeric, d bytea, e name, f uuid);
ALTER TABLE nk DROP COLUMN gone;
CREATE FUNCTION nk_rows(int, int) RETURNS TABLE (a int, b text, c numeric, d bytea, e name, f uuid) LANGUAGE sql AS
$$ SELECT (i * 7919) % 10007, CASE WHEN i % 11 > 0 THEN 'b' || i % 13 END, CASE WHEN i % 3 > 0 THEN i / 7.0 END, CASE WHEN i % 500 = 0 THEN decode(repeat(md5(i::text), 600), 'hex') END,
	('n' || i)::name, md5(i::text)::uuid FROM generate_series($1, $2) i $$;
INSERT INTO nk SELECT * FROM nk_rows(1, 3000);
SELECT 1 FROM rose.spill('nk');
ALTER TABLE nk ADD COLUMN g int DEFAULT 7, ADD COLUMN h text;
INSERT INTO nk SELECT *, 8, 'h' FROM nk_rows(3001, 4000);
SELECT 1 FROM rose.spill('nk');
UPDATE nk SET g = 9, b = b || '!' WHERE a % 50 = 0;
DELETE FROM nk WHERE a % 70 = 1;
CREATE TABLE nk_heap USING heap AS TABLE nk;
CREATE FUNCTION nk_same() RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT count(*) FROM nk) || ' rows, ' || (SELECT count(*) FROM (TABLE nk EXCEPT ALL TABLE nk_heap) x) || ' others, ' || (SELECT count(*) FROM (TABLE nk_heap EXCEPT ALL TABLE nk) x) || ' missing, ' ||
	(SELECT count(*) FROM rose.check('nk')) || ' problems' $$;
SELECT nk_same();
ALTER TABLE nk ADD PRIMARY KEY (a);
SELECT nk_same();
SELECT count(*) FROM (SELECT a < lag(a) OVER () AS wrong FROM (SELECT a FROM nk ORDER BY a) s) o WHERE wrong;
SELECT a, b, length(d), g, h FROM nk WHERE a BETWEEN 90 AND 110 ORDER BY a;
UPDATE nk SET h = 'new' WHERE a BETWEEN 100 AND 300;
UPDATE nk_heap SET h = 'new' WHERE a BETWEEN 100 AND 300;

-- in place of another one, of several columns and other types, with temporary files
SET maintenance_work_mem = '1MB';
ALTER TABLE nk DROP CONSTRAINT nk_pkey, ADD PRIMARY KEY (e, a);
SELECT nk_same();
SELECT string_agg(e, ' ' ORDER BY n) FROM (SELECT e, row_number() OVER () AS n FROM (SELECT e FROM nk ORDER BY e, a LIMIT 5) x) y;
ALTER TABLE nk DROP CONSTRAINT nk_pkey, ADD PRIMARY KEY (f);
SELECT nk_same();
ALTER TABLE nk DROP CONSTRAINT nk_pkey;
SELECT nk_same();
RESET maintenance_work_mem;
ALTER TABLE nk ALTER a DROP NOT NULL, ALTER e DROP NOT NULL, ALTER f DROP NOT NULL;

-- what is wrong with a key is told, wherever it is
ALTER TABLE nk ADD PRIMARY KEY (b);
ALTER TABLE nk ADD PRIMARY KEY (a, c);
INSERT INTO nk (a, e) VALUES (7919, 'again');
INSERT INTO nk_heap (a, e) VALUES (7919, 'again');
UPDATE nk SET g = 7, h = NULL WHERE g IS NULL OR a = 7919;
UPDATE nk_heap SET g = 7, h = NULL WHERE g IS NULL OR a = 7919;
ALTER TABLE nk ADD PRIMARY KEY (a);
ALTER TABLE nk ADD PRIMARY KEY (g);
SELECT nk_same();
INSERT INTO nk (a, b) VALUES (10, repeat('x', 3000));
DELETE FROM nk WHERE b IS NULL;
DELETE FROM nk_heap WHERE b IS NULL;
ALTER TABLE nk ADD PRIMARY KEY (b, a);
DELETE FROM nk WHERE length(b) > 2000;
ALTER TABLE nk ADD PRIMARY KEY (b, a);
SELECT nk_same();

-- rows of the transaction itself, of its subtransactions, and what was rolled back
ALTER TABLE nk DROP CONSTRAINT nk_pkey, ALTER b DROP NOT NULL;
BEGIN;
INSERT INTO nk SELECT * FROM nk_rows(20001, 20010);
SAVEPOINT s1;
INSERT INTO nk SELECT * FROM nk_rows(20011, 20020);
DELETE FROM nk WHERE a % 9 = 0;
ROLLBACK TO s1;
SAVEPOINT s2;
UPDATE nk SET g = 100 WHERE a % 100 = 7;
SAVEPOINT s3;
ALTER TABLE nk ADD PRIMARY KEY (e);
UPDATE nk SET g = g + 1 WHERE e IN ('n20001', 'n5');
INSERT INTO nk SELECT * FROM nk_rows(5, 5) ON CONFLICT (e) DO UPDATE SET g = nk.g + 1000;
SELECT count(*), sum(g) FROM nk;
ROLLBACK TO s3;
SELECT count(*), sum(g) FROM nk;
SAVEPOINT s4;
ALTER TABLE nk ADD PRIMARY KEY (e);
DELETE FROM nk WHERE e IN ('n20001', 'n7');
RELEASE s4;
SELECT count(*), sum(g) FROM nk;
COMMIT;
SELECT count(*), sum(g) FROM nk;
SELECT count(*) FROM rose.check('nk');
SELECT 1 FROM rose.spill('nk');
SELECT 1 FROM rose.merge('nk');
SELECT count(*), sum(g) FROM nk;
SELECT count(*) FROM rose.check('nk');

-- of a row in pg_class that is the transaction's own, nobody else has to be kept out
CREATE TABLE nk_own (a int, b int);
BEGIN;
SAVEPOINT s;
ALTER TABLE nk_own ADD c int;
ALTER TABLE nk_own ADD PRIMARY KEY (a);
ROLLBACK TO s;
SELECT mode FROM pg_locks WHERE locktype = 'tuple' AND relation = 'pg_class'::regclass AND pid = pg_backend_pid();
ALTER TABLE nk_own ADD PRIMARY KEY (a);
SELECT mode FROM pg_locks WHERE locktype = 'tuple' AND relation = 'pg_class'::regclass AND pid = pg_backend_pid();
ROLLBACK;
DROP TABLE nk_own;

-- no rows, one row, and secondary indexes
CREATE TABLE nk_few (a int, b int);
CREATE INDEX nk_few_b ON nk_few (b);
ALTER TABLE nk_few ADD PRIMARY KEY (a);
ALTER TABLE nk_few DROP CONSTRAINT nk_few_pkey;
INSERT INTO nk_few VALUES (1, 2);
ALTER TABLE nk_few ADD PRIMARY KEY (a);
SET enable_seqscan = off;
SELECT * FROM nk_few WHERE b = 2;
SELECT count(*) FROM rose.check('nk_few');
RESET enable_seqscan;
DROP TABLE nk, nk_heap, nk_few;
DROP FUNCTION nk_rows, nk_same;
