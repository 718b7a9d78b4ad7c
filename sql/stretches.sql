-- Scans that take many rows of a leaf at once, compared with a heap table:
-- several components, versions of one key side by side, snapshots older than
-- parts of a leaf, cursors over spills and merges, changes of direction. Those
-- of Rose Scans are in rose_scan.sql.
SET rose.enable_scan = off;

CREATE TABLE st (id int PRIMARY KEY, a int, t text, n numeric) USING rose;
CREATE TABLE st_heap (LIKE st INCLUDING ALL) USING heap;

-- do the same to both, and compare
CREATE PROCEDURE st_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'st');
	EXECUTE replace(statement, '@', 'st_heap');
END $$;
CREATE FUNCTION st_compared() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN r = h AND r2 = h2 THEN 'same' ELSE format('rose %s %s, heap %s %s', r, r2, h, h2) END
	FROM (SELECT format('%s %s %s %s %s', count(*), count(a), sum(a), sum(id::bigint * a), sum(hashtext(t))) r FROM st) x,
		(SELECT format('%s %s %s %s %s', count(*), count(a), sum(a), sum(id::bigint * a), sum(hashtext(t))) h FROM st_heap) y,
		(SELECT md5(string_agg(s::text, '|' ORDER BY id)) r2 FROM st s) z,
		(SELECT md5(string_agg(s::text, '|' ORDER BY id)) h2 FROM st_heap s) w
$$;
-- by plain scans, and by Rose Scans
CREATE FUNCTION st_same() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	batches text;
	plain text;
BEGIN
	SET rose.enable_scan = on;
	EXECUTE 'SELECT st_compared()' INTO batches;
	SET rose.enable_scan = off;
	EXECUTE 'SELECT st_compared()' INTO plain;
	RETURN CASE WHEN plain = batches THEN plain ELSE format('plain %s, in batches %s', plain, batches) END;
END $$;

CALL st_both($$INSERT INTO @ SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 1000 END,
	CASE WHEN i % 5 = 0 THEN NULL ELSE md5(i::text) END, i / 3.0 FROM generate_series(1, 20000) i$$);
SELECT st_same();
SELECT rose.spill('st');
SELECT rose.merge('st');
SELECT st_same();

-- every 50th row has a newer version, in a run, in another one, in memory
CALL st_both('UPDATE @ SET a = a + 1 WHERE id % 50 = 0');
SELECT st_same();
SELECT rose.spill('st');
SELECT st_same();
CALL st_both('DELETE FROM @ WHERE id % 97 = 0 OR id BETWEEN 5000 AND 5400 OR id > 19990');
SELECT rose.spill('st');
SELECT st_same();
CALL st_both('UPDATE @ SET t = ''new'' WHERE id % 61 = 0');
CALL st_both('INSERT INTO @ SELECT i, 1, ''inserted'' FROM generate_series(-100, 0) i');
CALL st_both('INSERT INTO @ SELECT i, 2, ''inserted'' FROM generate_series(5200, 5205) i');
SELECT st_same();

-- nothing but part of a range, its ends inside of leaves, on newer keys and between them
SET enable_seqscan = off;
SELECT count(*) AS ranges, count(*) FILTER (WHERE r IS DISTINCT FROM h) AS wrong FROM (
	SELECT (SELECT format('%s %s %s', count(*), sum(a), min(t)) FROM st WHERE id BETWEEN lo AND hi) r,
		(SELECT format('%s %s %s', count(*), sum(a), min(t)) FROM st_heap WHERE id BETWEEN lo AND hi) h
	FROM (SELECT lo, lo + len AS hi FROM generate_series(-150, 20100, 137) lo, unnest(ARRAY[0, 1, 3, 49, 50, 51, 700]) len) b) c;
SELECT count(*) AS ranges, count(*) FILTER (WHERE r IS DISTINCT FROM h) AS wrong FROM (
	SELECT (SELECT format('%s %s', count(*), sum(a)) FROM st WHERE id > lo AND id < hi) r,
		(SELECT format('%s %s', count(*), sum(a)) FROM st_heap WHERE id > lo AND id < hi) h
	FROM (SELECT lo, lo + len AS hi FROM generate_series(-150, 20100, 137) lo, unnest(ARRAY[0, 1, 3, 49, 50, 51, 700]) len) b) c;
-- the first and the last of each
SELECT count(*) FILTER (WHERE r IS DISTINCT FROM h) AS wrong FROM (
	SELECT (SELECT array_agg(id) FROM (SELECT id FROM st WHERE id >= lo ORDER BY id LIMIT 5) x) r,
		(SELECT array_agg(id) FROM (SELECT id FROM st_heap WHERE id >= lo ORDER BY id LIMIT 5) x) h
	FROM generate_series(-150, 20100, 137) lo) c;
SELECT count(*) FILTER (WHERE r IS DISTINCT FROM h) AS wrong FROM (
	SELECT (SELECT array_agg(id) FROM (SELECT id FROM st WHERE id <= lo ORDER BY id DESC LIMIT 5) x) r,
		(SELECT array_agg(id) FROM (SELECT id FROM st_heap WHERE id <= lo ORDER BY id DESC LIMIT 5) x) h
	FROM generate_series(-150, 20100, 137) lo) c;
RESET enable_seqscan;

-- a merge join marks and restores, in the middle of leaves and of what is newer
CREATE TABLE st_join (k int, id int, PRIMARY KEY (k, id)) USING rose;
INSERT INTO st_join SELECT i / 7, i FROM generate_series(1, 6000) i;
SELECT rose.spill('st_join');
DELETE FROM st_join WHERE id % 11 = 0;
INSERT INTO st_join SELECT i / 7, -i FROM generate_series(1, 6000, 13) i;
ANALYZE st_join;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM st_join x JOIN st_join y USING (k);
SELECT count(*), sum(x.id), sum(y.id) FROM st_join x JOIN st_join y USING (k);
SELECT sum(n * n) AS count, sum(n * s) AS sum FROM (SELECT count(*) AS n, sum(id) AS s FROM st_join GROUP BY k) x;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;
RESET enable_material;

-- rows that are found by TID, and their system columns, are those that were scanned
SELECT count(*) FROM st x JOIN st y ON x.ctid = y.ctid WHERE x.id <> y.id OR x.xmin <> y.xmin;
SELECT count(*) FROM (SELECT ctid AS tid, id, xmin AS x, tableoid AS o FROM st) x, LATERAL (SELECT * , xmin AS x2 FROM st WHERE ctid = x.tid) y
	WHERE x.id <> y.id OR x.x <> y.x2 OR x.o <> 'st'::regclass;
SELECT count(DISTINCT ctid) = count(*) AS distinct_tids FROM st;
SELECT count(*) FROM st TABLESAMPLE SYSTEM (100);
SELECT count(*), sum(id) FROM st TABLESAMPLE BERNOULLI (100);
SELECT count(*), sum(id) FROM st_heap;

-- a table that updates and deletes what it scans
CALL st_both('UPDATE @ SET a = a + 1 WHERE id % 3 = 0');
CALL st_both('UPDATE @ SET id = id + 100000 WHERE id % 501 = 0');
CALL st_both('DELETE FROM @ WHERE id % 1001 = 0');
SELECT st_same();
SELECT rose.spill('st');
SELECT st_same();

-- cursors: spills and merges under them, both directions, parts of a leaf
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, a FROM st;
DECLARE h SCROLL CURSOR FOR SELECT id, a FROM st_heap ORDER BY id;
MOVE 40 FROM c; MOVE 40 FROM h;
FETCH 3 FROM c; FETCH 3 FROM h;
FETCH BACKWARD 5 FROM c; FETCH BACKWARD 5 FROM h;
FETCH 2 FROM c; FETCH 2 FROM h;
MOVE 700 FROM c; MOVE 700 FROM h;
FETCH BACKWARD 1 FROM c; FETCH BACKWARD 1 FROM h;
FETCH FORWARD 1 FROM c; FETCH FORWARD 1 FROM h;
UPDATE st SET a = -1 WHERE id BETWEEN 690 AND 10000;
FETCH 2 FROM c; FETCH 2 FROM h;
SELECT rose.spill('st');
FETCH 2 FROM c; FETCH 2 FROM h;
MOVE 5000 FROM c; MOVE 5000 FROM h;
FETCH 2 FROM c; FETCH 2 FROM h;
MOVE BACKWARD 5000 FROM c; MOVE BACKWARD 5000 FROM h;
FETCH 2 FROM c; FETCH 2 FROM h;
MOVE FORWARD ALL FROM c; MOVE FORWARD ALL FROM h;
FETCH BACKWARD 2 FROM c; FETCH BACKWARD 2 FROM h;
MOVE BACKWARD ALL FROM c; MOVE BACKWARD ALL FROM h;
FETCH 2 FROM c; FETCH 2 FROM h;
ROLLBACK;
SELECT st_same();

-- a row under a cursor is updated where the cursor is
BEGIN;
DECLARE c CURSOR FOR SELECT id, a FROM st WHERE id > 300 FOR UPDATE;
MOVE 10 FROM c;
FETCH 1 FROM c;
UPDATE st SET a = 4711 WHERE CURRENT OF c;
SELECT id, a FROM st WHERE a = 4711;
FETCH 1 FROM c;
DELETE FROM st WHERE CURRENT OF c;
SELECT count(*) FROM st WHERE id BETWEEN 301 AND 330;
FETCH 1 FROM c;
ROLLBACK;

-- own versions, older and newer than the statement, in all kinds of places
BEGIN;
SAVEPOINT s;
UPDATE st SET a = 0 WHERE id % 11 = 0;
ROLLBACK TO s;
SELECT st_same();
CALL st_both('UPDATE @ SET a = a + 5 WHERE id % 13 = 0');
SELECT st_same();
COMMIT;
SELECT st_same();

-- columns that were added and dropped since
CALL st_both('ALTER TABLE @ DROP COLUMN n');
CALL st_both('ALTER TABLE @ ADD COLUMN d int DEFAULT 7');
CALL st_both('UPDATE @ SET d = 8 WHERE id % 100 = 1');
SELECT st_same();
SELECT sum(d), count(d) FROM st;
SELECT sum(d), count(d) FROM st_heap;
SELECT rose.spill('st');
SELECT rose.merge('st');
SELECT st_same();
SELECT * FROM rose.check('st');
-- few rows of a window are looked at, then all
SELECT sum(length(t)) FROM st WHERE id % 1000 = 1;
SELECT sum(length(t)) FROM st_heap WHERE id % 1000 = 1;
SELECT sum(length(t)) FROM st WHERE id % 1000 = 1 OR id > 10000;
SELECT sum(length(t)) FROM st_heap WHERE id % 1000 = 1 OR id > 10000;

-- text keys, whose order takes a comparison; values on overflow pages
CREATE TABLE st_text (k text, v int, big text, PRIMARY KEY (v, k)) USING rose;
INSERT INTO st_text SELECT 'key ' || i, i / 4, CASE WHEN i % 400 = 0 THEN repeat(md5(i::text), 300) END FROM generate_series(1, 8000) i;
SELECT rose.spill('st_text');
SELECT rose.merge('st_text');
UPDATE st_text SET big = 'small' WHERE v % 100 = 7;
INSERT INTO st_text VALUES ('', 50, NULL), ('zzz', 50, NULL);
SELECT rose.spill('st_text');
DELETE FROM st_text WHERE v = 60;
SELECT count(*), sum(length(big)), sum(length(k)), sum(v) FROM st_text;
SELECT string_agg(k, ',') FROM (SELECT k FROM st_text WHERE v BETWEEN 49 AND 51) x;
SELECT count(*) FROM (SELECT (v, k) < lead((v, k)) OVER () AS ok FROM st_text) x WHERE NOT ok;

-- components that follow each other, with one across their borders
CREATE TABLE st_parts (k int, id int, v int, PRIMARY KEY (k, id)) USING rose;
INSERT INTO st_parts SELECT 2, i, 0 FROM generate_series(1, 1000) i;
SELECT rose.spill('st_parts');
INSERT INTO st_parts SELECT 4, i, 0 FROM generate_series(1, 1000) i;
SELECT rose.spill('st_parts');
INSERT INTO st_parts SELECT 3, i, 0 FROM generate_series(1, 1000) i;
SELECT rose.spill('st_parts');
UPDATE st_parts SET v = 1 WHERE (k, id) > (2, 990) AND (k, id) < (3, 11);
UPDATE st_parts SET v = 2 WHERE (k, id) IN ((2, 1), (3, 1), (4, 1), (4, 1000));
SELECT rose.spill('st_parts');
INSERT INTO st_parts VALUES (1, 1, 5), (5, 1, 5);
DELETE FROM st_parts WHERE (k, id) IN ((3, 1000), (4, 2));
SELECT count(*), sum(v), count(DISTINCT k) FROM st_parts;
SELECT count(*) FROM (SELECT (k, id) < lead((k, id)) OVER () AS ok FROM st_parts) x WHERE NOT ok;
SET enable_seqscan = off;
SELECT k, count(*), sum(v) FROM (SELECT * FROM st_parts WHERE k >= 2 ORDER BY k, id) x GROUP BY k ORDER BY k;
SELECT string_agg(format('%s.%s.%s', k, id, v), ' ') FROM (SELECT * FROM st_parts WHERE (k, id) > (2, 998) ORDER BY k, id LIMIT 5) x;
SELECT string_agg(format('%s.%s.%s', k, id, v), ' ') FROM (SELECT * FROM st_parts WHERE (k, id) < (4, 4) ORDER BY k DESC, id DESC LIMIT 5) x;
SELECT string_agg(format('%s.%s.%s', k, id, v), ' ') FROM (SELECT * FROM st_parts ORDER BY k DESC, id DESC LIMIT 3) x;
SELECT k, count(*) FROM st_parts WHERE k > 2 AND k < 4 GROUP BY k;
SELECT k, count(*) FROM st_parts WHERE k > 3 AND k <= 4 GROUP BY k;
SELECT k, count(*) FROM st_parts WHERE k >= 4 GROUP BY k ORDER BY k;
SELECT count(*) FROM st_parts WHERE k > 5 OR k < 1;
SELECT count(*), sum(v) FROM st_parts WHERE k = 3 AND id >= 1000;
SELECT sum(x.v), count(*) FROM generate_series(0, 6) g, LATERAL (SELECT * FROM st_parts WHERE k = g ORDER BY id DESC LIMIT 2) x;
RESET enable_seqscan;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, id, v FROM st_parts;
MOVE 1000 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
SELECT rose.spill('st_parts');
FETCH 4 FROM c;
MOVE 1990 FROM c;
FETCH 3 FROM c;
FETCH BACKWARD 4 FROM c;
COMMIT;

DROP TABLE st, st_heap, st_text, st_parts, st_join;
DROP PROCEDURE st_both;
DROP FUNCTION st_same;
