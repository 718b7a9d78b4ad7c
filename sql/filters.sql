-- Bloom filters in many parts: with a small debug_filter_part little data has what
-- large components have.
SET rose.debug_filter_part = 64;
CREATE TABLE sieve (a int, b text COLLATE "C", c int, PRIMARY KEY (a, b)) USING rose;
CREATE TABLE sieve_heap (LIKE sieve);
INSERT INTO sieve_heap SELECT i / 7, repeat('same ', i % 3) || i, i FROM generate_series(0, 9999, 2) i;
INSERT INTO sieve SELECT * FROM sieve_heap ORDER BY md5(b);
SELECT rose.spill('sieve');
SELECT rose.merge('sieve');
-- each part begins on a page of its own
SELECT blocks > 20 AS many FROM rose.stat_components WHERE relid = 'sieve'::regclass AND kind <> 'memtable';
SELECT * FROM rose.check('sieve');

-- all keys are found, by lookups and by who asks for many
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*), count(s.c), sum(s.c - h.c) FROM sieve_heap h LEFT JOIN sieve s USING (a, b);
SELECT count(*), count(s.c) FROM sieve_heap h LEFT JOIN sieve s ON s.a = h.a AND s.b = h.b || '!';
RESET enable_hashjoin;
RESET enable_mergejoin;
WITH again AS (INSERT INTO sieve SELECT * FROM sieve_heap ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM again;
WITH new AS (INSERT INTO sieve SELECT a, b || '!', -c FROM sieve_heap ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM new;
INSERT INTO sieve SELECT a, b || '?', c FROM sieve_heap WHERE c < 9000 UNION ALL SELECT a, b, c FROM sieve_heap WHERE c = 5000;
COPY sieve FROM stdin;
100	new	1
714	same same 5000	1
\.
\copy sieve FROM PROGRAM 'seq -f "%g,copied,1" 1 2000; echo "714,same same 5000,1"' (DELIMITER ',')
SELECT rose.merge('sieve');
SELECT count(*), sum(c), (SELECT sum(c) FROM sieve WHERE c > 0) FROM sieve;
SELECT * FROM rose.check('sieve');

-- several versions of one key where a part ends; runs of transactions in progress
BEGIN;
INSERT INTO sieve SELECT -i, 'private', i FROM generate_series(1, 300) i;
DECLARE before CURSOR FOR SELECT count(*), sum(c) FROM sieve WHERE a < 0;
UPDATE sieve SET c = c + 1 WHERE a < 0;
SAVEPOINT s;
UPDATE sieve SET c = c + 1 WHERE a < 0 AND a % 3 = 0;
SELECT rose.spill('sieve');
FETCH before;
SELECT count(*), sum(c) FROM sieve WHERE a < 0;
SELECT count(*), count(s.c) FROM generate_series(1, 300) i LEFT JOIN sieve s ON s.a = -i AND s.b = 'private';
SELECT * FROM rose.check('sieve');
ROLLBACK TO s;
SELECT count(*), sum(c) FROM sieve WHERE a < 0;
COMMIT;
SELECT rose.merge('sieve');
SELECT count(*), sum(c) FROM sieve WHERE a < 0;
SELECT * FROM rose.check('sieve');

-- the parts that are there stay as they are
RESET rose.debug_filter_part;
UPDATE sieve SET c = 1 - c WHERE a % 5 = 0;
SELECT rose.spill('sieve');
SELECT count(*), count(s.c) FROM sieve_heap h LEFT JOIN sieve s USING (a, b);
SELECT rose.merge('sieve');
SELECT blocks < 20 AS few FROM rose.stat_components WHERE relid = 'sieve'::regclass AND kind <> 'memtable';
SELECT count(*), count(s.c) FROM sieve_heap h LEFT JOIN sieve s USING (a, b);
SELECT * FROM rose.check('sieve');
DROP TABLE sieve, sieve_heap;

-- few rows, of which parts are written before it is known that they are few
SET rose.debug_filter_part = 16;
CREATE FUNCTION few_rows(rows int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found bigint;
	wrong text;
BEGIN
	CREATE TABLE few (id int PRIMARY KEY, v int) USING rose;
	INSERT INTO few SELECT g, g FROM generate_series(1, rows, 2) g;
	PERFORM rose.spill('few');
	INSERT INTO few SELECT g, g FROM generate_series(2, rows, 2) g;
	PERFORM rose.spill('few');
	PERFORM rose.merge('few');
	SELECT count(*) INTO found FROM generate_series(0, rows + 1) g JOIN few ON few.id = g;
	SELECT string_agg(c::text, ' ') INTO wrong FROM rose.check('few') c;
	DROP TABLE few;
	RETURN CASE WHEN found = rows AND wrong IS NULL THEN 'right' ELSE rows || ': ' || found || ' ' || coalesce(wrong, '') END;
END $$;
SELECT few_rows(rows), count(*) FROM generate_series(1, 100) rows GROUP BY 1;
DROP FUNCTION few_rows;
RESET rose.debug_filter_part;
