-- Index-only scans of many entries, which are given out of rows in place without a look at their keys: as a heap
-- table has them, in both directions, from marks and after turns, of columns by value and others, with NULLs, in
-- settled components, runs, memory, and several of them in turns.
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET rose.enable_scan = off;
SET rose.enable_aggregate = off;
SET cpu_tuple_cost = 1;

CREATE TABLE en (id int PRIMARY KEY, a bigint, b smallint, c "char", d date, t text COLLATE "C", n name, big text) USING rose;
CREATE TABLE en_heap (LIKE en INCLUDING ALL) USING heap;
CREATE PROCEDURE en_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'en');
	EXECUTE replace(statement, '@', 'en_heap');
END $$;
CALL en_both($$CREATE INDEX @_a ON @ (a)$$);
CALL en_both($$CREATE INDEX @_bd ON @ (b DESC, d) INCLUDE (c, id)$$);
CALL en_both($$CREATE INDEX @_d ON @ (d NULLS FIRST, a)$$);
CALL en_both($$CREATE INDEX @_t ON @ (t, b)$$);
CALL en_both($$CREATE INDEX @_n ON @ (n)$$);
CALL en_both($$CREATE UNIQUE INDEX @_u ON @ (a, id) WHERE a > 0$$);
CALL en_both($$CREATE INDEX @_big ON @ (c, id) INCLUDE (big)$$);

-- the rows of a query, in its order, of both; and that entries alone are read
CREATE FUNCTION en_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	alone bool := false;
	rose text[];
	heap text[];
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || replace(query, '@', 'en') LOOP
		alone := alone OR line ~ 'Index Only Scan';
	END LOOP;
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', replace(query, '@', 'en')) INTO rose;
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', replace(query, '@', 'en_heap')) INTO heap;
	IF NOT alone THEN
		RETURN 'not of entries alone: ' || query;
	ELSIF rose IS NOT DISTINCT FROM heap AND rose IS NOT NULL THEN
		RETURN 'same';
	END IF;
	RETURN format('%s of rose, %s of heap: %s', cardinality(rose), cardinality(heap), query);
END $$;

-- a cursor that turns at places that its seed says; both, in lockstep
CREATE FUNCTION en_turns(query text, seed int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r refcursor;
	h refcursor;
	x record;
	y record;
	steps int := 0;
	forward bool := true;
BEGIN
	OPEN r SCROLL FOR EXECUTE replace(query, '@', 'en');
	OPEN h SCROLL FOR EXECUTE replace(query, '@', 'en_heap');
	WHILE steps < 60 LOOP
		steps := steps + 1;
		seed := (seed * 1103515245::bigint + 12345) % 2147483648;
		FOR i IN 0 .. seed / 65536 % CASE WHEN seed % 3 = 0 THEN 150 ELSE 7 END LOOP
			IF forward THEN
				FETCH NEXT FROM r INTO x;
				FETCH NEXT FROM h INTO y;
			ELSE
				FETCH PRIOR FROM r INTO x;
				FETCH PRIOR FROM h INTO y;
			END IF;
			IF x IS DISTINCT FROM y THEN
				RETURN format('step %s: %s of rose, %s of heap: %s', steps, x, y, query);
			END IF;
		END LOOP;
		forward := seed / 1024 % 5 > 1;
	END LOOP;
	RETURN 'same';
END $$;

CREATE FUNCTION en_all() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT result || ': ' || count(*) FROM (
		SELECT en_same(query) AS result FROM unnest(ARRAY[
			'SELECT a FROM @ WHERE a > -100 ORDER BY a',
			'SELECT a FROM @ WHERE a > -100 ORDER BY a DESC',
			'SELECT a FROM @ WHERE a BETWEEN 200 AND 1900 ORDER BY a',
			'SELECT a FROM @ WHERE a = ANY (''{3,500,500,77,1200,-7}'') ORDER BY a',
			'SELECT a FROM @ ORDER BY a LIMIT 700',
			'SELECT a FROM @ ORDER BY a DESC LIMIT 700',
			'SELECT sum(a), count(*), min(a) FROM @ WHERE a >= 40',
			'SELECT b, d FROM @ WHERE b > 3 ORDER BY b DESC, d',
			'SELECT b, d FROM @ WHERE b > 3 ORDER BY b, d DESC',
			'SELECT b, sum(id), max(c), count(d) FROM @ WHERE b BETWEEN 2 AND 30 GROUP BY b ORDER BY b DESC',
			'SELECT b, sum(id) FROM @ WHERE b < 30 AND d = date ''2026-01-09'' GROUP BY b ORDER BY b DESC',
			'SELECT d, a FROM @ ORDER BY d NULLS FIRST, a',
			'SELECT d, a FROM @ ORDER BY d DESC NULLS LAST, a DESC',
			'SELECT d, sum(a) FROM @ WHERE d IS NULL GROUP BY d',
			'SELECT d, sum(a) FROM @ WHERE d IS NOT NULL AND a % 3 = 1 GROUP BY d ORDER BY d NULLS FIRST',
			'SELECT t, b FROM @ WHERE t > ''t1'' ORDER BY t, b',
			'SELECT t, b FROM @ WHERE t > ''t1'' AND b = 4 ORDER BY t DESC, b DESC',
			'SELECT n FROM @ WHERE n >= ''n'' ORDER BY n',
			'SELECT a, id FROM @ WHERE a > 0 ORDER BY a, id',
			'SELECT c, id, length(big) FROM @ WHERE c >= ''c'' ORDER BY c, id',
			'SELECT id FROM @ WHERE id BETWEEN 100 AND 2500 ORDER BY id',
			'SELECT id FROM @ WHERE id > 100 ORDER BY id DESC',
			'SELECT g, (SELECT sum(a) FROM @ WHERE a BETWEEN g AND g + g % 50) FROM generate_series(1, 1500, 13) g',
			'SELECT g, (SELECT array_agg(a) FROM (SELECT a FROM @ WHERE a >= g ORDER BY a LIMIT 9) x) FROM generate_series(1, 300, 7) g',
			'SELECT g, (SELECT count(b) FROM @ WHERE t = ''t'' || g) FROM generate_series(1, 400, 7) g']) query
		UNION ALL
		SELECT en_turns(query, seed) FROM generate_series(1, 5) seed, unnest(ARRAY[
			'SELECT a FROM @ ORDER BY a',
			'SELECT a FROM @ WHERE a < 1800 ORDER BY a DESC',
			'SELECT b, d FROM @ WHERE b < 25 ORDER BY b DESC, d',
			'SELECT t, b FROM @ ORDER BY t, b',
			'SELECT a, id FROM @ WHERE a > 0 ORDER BY a, id',
			'SELECT id FROM @ ORDER BY id']) query) x
	GROUP BY result
$$;

-- a merge join marks and restores where keys repeat
CREATE FUNCTION en_merged() RETURNS SETOF text LANGUAGE sql
	SET enable_hashjoin = off SET enable_nestloop = off SET enable_sort = off SET enable_material = off AS $$
	SELECT result || ': ' || count(*) FROM (
		SELECT en_same(query) AS result FROM unnest(ARRAY[
			'SELECT count(*), sum(x.a + y.a), sum(x.a * y.a) FROM @ x JOIN @ y ON x.a = y.a',
			'SELECT count(*), sum(hashtext(x.t) + y.b::bigint) FROM @ x JOIN @ y ON x.t = y.t AND y.b < 20',
			'SELECT count(*), sum(x.b * y.b) FROM @ x JOIN @ y ON x.t = y.t AND x.b = y.b',
			'SELECT count(*), sum(x.a - y.a) FROM @ x JOIN @ y ON x.d = y.d AND x.a = y.a']) query) x
	GROUP BY result
$$;

-- in memory, in a component, and with more and more above that
CALL en_both($$INSERT INTO @ SELECT i, CASE WHEN i % 40 = 7 THEN NULL ELSE i * 7919::bigint % 2000 - 50 END, i % 37, chr(97 + i % 5)::"char",
	CASE WHEN i % 9 = 0 THEN NULL ELSE date '2026-01-01' + i % 20 END, CASE WHEN i % 31 = 0 THEN NULL ELSE 't' || i % 400 END,
	'n' || i % 50, CASE WHEN i % 700 = 3 THEN repeat(md5(i::text), 400) END FROM generate_series(1, 4000) i$$);
ANALYZE en;
VACUUM ANALYZE en_heap;
SELECT * FROM en_all();
SELECT * FROM en_merged();
SELECT rose.spill('en');
SELECT rose.merge('en');
SELECT * FROM en_all();
SELECT * FROM en_merged();
CALL en_both('UPDATE @ SET a = a + 3, b = b + 1, t = t || ''x'' WHERE id % 23 = 5');
SELECT * FROM en_all();
SELECT rose.spill('en');
CALL en_both('DELETE FROM @ WHERE id % 19 = 2 OR id BETWEEN 900 AND 1000');
CALL en_both('UPDATE @ SET a = id, d = NULL WHERE id BETWEEN 2000 AND 2300');
SELECT rose.spill('en');
SELECT * FROM en_all();
CALL en_both('UPDATE @ SET a = NULL, t = NULL WHERE id % 67 = 0');
CALL en_both('UPDATE @ SET a = a - 1 WHERE id % 3 = 0');
SELECT * FROM en_all();
SELECT * FROM en_merged();

-- and what the transaction has changed itself, while it reads
BEGIN;
CALL en_both('UPDATE @ SET a = a + 100, b = 7 WHERE id % 10 = 1');
SAVEPOINT s;
CALL en_both('DELETE FROM @ WHERE id % 4 = 1');
SELECT * FROM en_all();
ROLLBACK TO s;
SELECT * FROM en_all();
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT a FROM en WHERE a > 500 ORDER BY a;
FETCH 3 FROM c;
DELETE FROM en WHERE a > 500;
FETCH 3 FROM c;
SELECT rose.spill('en');
COMMIT;
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
CLOSE c;
CALL en_both('DELETE FROM @ WHERE a > 500');
SELECT * FROM en_all();

-- the row under a cursor of entries, far behind the first ones of its range
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM en WHERE a >= 0 ORDER BY a;
MOVE 300 FROM c;
FETCH 1 FROM c;
UPDATE en SET b = -5 WHERE CURRENT OF c;
SELECT a, b FROM en WHERE b = -5;
ROLLBACK;

-- one that reads on in what others may not change unseen
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM en_all();
COMMIT;
SELECT count(*) FROM rose.check('en');

DROP FUNCTION en_all, en_merged, en_same, en_turns;
DROP PROCEDURE en_both;
DROP TABLE en, en_heap;
