-- Rose Scan: filters of what is made of columns. The same rows and errors as row by row, and as of heap: an error comes for a row that core would
-- come to, and for no other.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE TABLE rfx (a int, b int, c int, s int2, l int8, f float8, r real, n numeric, odd numeric, d date, e date, u bool, t text, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rfx SET (autovacuum_enabled = off);
CREATE TABLE rfx_heap (LIKE rfx INCLUDING ALL) USING heap;
CREATE PROCEDURE rfx_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rfx');
	EXECUTE replace(statement, '@', 'rfx_heap');
END $$;
CREATE FUNCTION rfx_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rfx_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE 'SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, '' '' ORDER BY x::text)), ''none'') FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
-- a query of @: by vectors of several lengths, with and without aggregates, by plain scans, and of heap; what they said
CREATE FUNCTION rfx_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	heap text := rfx_said(replace(query, '@', 'rfx_heap'));
	said text[] := '{}';
BEGIN
	query := replace(query, '@', 'rfx');
	IF NOT EXISTS (SELECT FROM rfx_plan(query) line WHERE line ~ 'Vectorized Filter') OR EXISTS (SELECT FROM rfx_plan(query) line WHERE line ~ '^ *Filter') THEN
		RAISE 'not a vectorized filter: %', query;
	END IF;
	said := said || rfx_said(query);
	SET LOCAL rose.vector_rows = 7;
	said := said || rfx_said(query);
	SET LOCAL rose.vector_rows = 1;
	said := said || rfx_said(query);
	RESET rose.vector_rows;
	SET LOCAL rose.enable_aggregate = off;
	said := said || rfx_said(query);
	SET LOCAL rose.enable_scan = off;
	said := said || rfx_said(query);
	SET LOCAL rose.enable_scan = on;
	SET LOCAL rose.enable_aggregate = on;
	IF said IS DISTINCT FROM array_fill(heap, ARRAY[5]) THEN
		RAISE EXCEPTION E'%\nrose %\nheap %', query, said, heap;
	END IF;
	RETURN CASE WHEN heap ~ ' ' THEN split_part(heap, ' ', 1) ELSE heap END;
END $$;
CREATE TABLE rfx_queries (n serial, q text);
INSERT INTO rfx_queries (q) SELECT replace(f, '?', c) FROM unnest(ARRAY['SELECT a, b FROM @ WHERE ?', 'SELECT count(*), sum(c), max(t) FROM @ WHERE ?']) f, unnest(ARRAY[
	'a % 7 = 3', '7 > a % 20', 'a % 7 <> 3', 'c % 3 IN (1, 2, NULL)', 'c % 3 NOT IN (1, 0)', 'c % 3 NOT IN (1, NULL)', 'a + b > c', 'c = b', 'c / -3 = 1', 'c % -3 = 1', 'c % 1 = 0', 'c / 1 = 4', 'a * 2147483 < 0',
	-- errors, and what keeps rows from them
	'100 / c > 30', '100 % c = 1', 'c <> 0 AND 100 / c > 30', '100 / c > 30 AND c <> 0', 'NOT (c = 0 OR 100 / c <= 30)', 'CASE WHEN c <> 0 THEN 100 / c > 30 ELSE a > 5 END', '(c IS NULL OR c = 0 OR 100 / c > 30) IS NOT TRUE',
	'b > 3 AND c % 3 <> 1', 'CASE WHEN c <> 0 THEN 100 / c > 30 END OR a % 7 = 1', 'odd + 1 > 20 OR a % 7 = 1', '(a % 7 = 1 AND c = 5) OR a = 9', '(c > 3 AND a % 7 = 1) OR a % 7 = 3', 'a % 7 = 1 OR 100 / c = 25', '(a = 5 AND 100 / c = 25) IS UNKNOWN', 'l * l > 5', '(l BETWEEN -100 AND 100 AND l * l > 5) IS NOT FALSE', 's * s = 4', 's / 0 = 1', 'c = -99 AND s / 0 = 1', 'l - a = 5', 'l % -1 = 0', 'l / -1 = 5', '(100 / c) IS NULL',
	-- other types
	'(c % 3 = 1) IS UNKNOWN', '(c + 1) IS NULL', '(c + 1) IS NOT NULL', 'c::int8 % 5 = 2', 'l % 1000 = 7', 'l / 3000000000 = 1', 'f * 2 > 100.5', 'f - 1 = ''NaN''', 'f < r + 1', 'r + f < 10', 'f / r = 2', 'coalesce(f, 1) >= 1', 'n * 2 > 19.5', 'n + 1 IN (2, 3.5)', 'n * n < n', '-n * 0.25 < -2', 'odd + 1 > 2', 'odd * 2 = ''NaN''', 'odd * 1e10 > 5',
	'length(t) % 5 = 2', 'length(t) > a', 'd < e', 'd = e OR a % 9 = 1', 'CASE WHEN a % 2 = 1 THEN d ELSE e END > ''2020-02-01''', 'coalesce(u, a > 50)', 'coalesce(c, 5) = 5', 'coalesce(c % 3, a) = 1', 'a % 7 = (SELECT 3)', 'a % 7 = ANY (ARRAY(SELECT 3))', 'a % 7 = 3 AND b = (SELECT max(c) FROM rfx_heap)', 't LIKE ''xxx%'' AND a % 3 = 1 AND u'
	]) c;
CREATE FUNCTION rfx_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(rfx_same(q), ' ' ORDER BY n) FROM rfx_queries
$$;

-- in memory; merged; with newer versions above
CALL rfx_both($$INSERT INTO @ SELECT i / 10, i % 10, CASE WHEN i % 7 > 0 THEN i % 13 - 3 END, i % 100 - 50, CASE i % 500 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775807 ELSE i * 1000003::int8 END, CASE i % 90 WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-0' ELSE i / 4.0 END,
	CASE WHEN i % 11 > 0 THEN i / 8.0 END, i / 100.0, CASE i % 900 WHEN 1 THEN 'NaN' WHEN 2 THEN 1e40 ELSE i % 50 END, date '2020-01-01' + i % 90, date '2020-01-01' + i % 80, CASE WHEN i % 3 > 0 THEN i % 2 = 0 END, repeat('x', i % 40) FROM generate_series(0, 3999) i$$);
ANALYZE rfx;
SELECT rfx_all_same();
SELECT rose.merge('rfx');
SELECT rfx_all_same();
CALL rfx_both($$UPDATE @ SET c = c + 1, n = n + 0.001 WHERE a % 5 = 2$$);
CALL rfx_both($$DELETE FROM @ WHERE a % 5 = 3$$);
SELECT rfx_all_same();

-- rows that are not there any more, or not to be seen, are never looked at
CALL rfx_both($$UPDATE @ SET c = 7 WHERE c = 0$$);
CALL rfx_both($$DELETE FROM @ WHERE s = 0$$);
SELECT rfx_same('SELECT a FROM @ WHERE 100 / c > 30'), rfx_same('SELECT count(*) FROM @ WHERE 100 / s < 3');
SELECT rose.spill('rfx');
SELECT rfx_same('SELECT a FROM @ WHERE 100 / c > 30'), rfx_same('SELECT count(*) FROM @ WHERE 100 / s < 3');
BEGIN;
CALL rfx_both($$UPDATE @ SET c = 0 WHERE a = 200$$);
SELECT rfx_same('SELECT a FROM @ WHERE 100 / c > 30'), rfx_same('SELECT a FROM @ WHERE a <> 200 AND 100 / c > 30');
ROLLBACK;
SELECT rfx_same('SELECT a FROM @ WHERE 100 / c > 30');
SELECT rose.merge('rfx');
SELECT rfx_same('SELECT a FROM @ WHERE 100 / c > 30'), rfx_same('SELECT count(*) FROM @ WHERE 100 / s < 3');

-- nor are those that nobody comes to: here the row that fails is the last one of those that are looked at together
CREATE TABLE rfx_first (a int PRIMARY KEY, c int, t text) USING rose;
INSERT INTO rfx_first SELECT i, 50 - i, repeat(i::text, 3) FROM generate_series(1, 3000) i;
ANALYZE rfx_first;
EXPLAIN (COSTS off) SELECT a, t FROM rfx_first WHERE 100 / c > 1;
SELECT a, t FROM rfx_first WHERE 100 / c > 2 LIMIT 3;
SELECT a, t FROM rfx_first WHERE 100 / c > 2 LIMIT 30;
BEGIN;
DECLARE rfx_cursor CURSOR FOR SELECT a, c, a + 1 FROM rfx_first WHERE 100 / c >= 25;
FETCH 2 FROM rfx_cursor;
FETCH 2 FROM rfx_cursor;
FETCH 1 FROM rfx_cursor;
ROLLBACK;
-- with a residual condition behind it; by groups, joins and first rows
SELECT a FROM rfx_first WHERE 100 / c > 2 AND md5(t || a) > '8' LIMIT 3;
SELECT a, count(*) FROM rfx_first WHERE a < 49 AND 100 / c > 19 AND md5(t || a) > '0' GROUP BY a ORDER BY a;
SELECT count(*) FROM rfx_first WHERE 100 / c > 2;
SELECT a FROM rfx_first WHERE 100 / c > 2 ORDER BY a LIMIT 2;
EXPLAIN (COSTS off) SELECT a, c FROM rfx_first WHERE 100 / c > 2 AND t LIKE '%1%' ORDER BY c DESC LIMIT 2;
SELECT a, c FROM rfx_first WHERE 100 / c > 2 AND t LIKE '%1%' ORDER BY c DESC LIMIT 2;
SELECT a, c FROM rfx_first WHERE 100 / (c - 1000) > -2 AND t LIKE '%1%' ORDER BY c DESC LIMIT 2;
-- one that is behind the first ones is asked as well
SELECT a, c FROM rfx_first WHERE 100 / (c + 450) > -2000 AND t LIKE '%5%' ORDER BY c DESC LIMIT 2;
SELECT a, c FROM rfx_first WHERE 100 / (c + 450) > -2000 AND t LIKE '%7%' ORDER BY c DESC LIMIT 2;
-- so many rows were removed, one by one or together
SELECT line FROM rfx_plan('SELECT a FROM rfx_first WHERE CASE WHEN c <> 0 THEN 100 / c > 2 ELSE a > 5 END', 'ANALYZE, COSTS off, BUFFERS off, TIMING off, SUMMARY off') line WHERE line ~ 'Removed';
SELECT line FROM rfx_plan('SELECT a FROM rfx_first WHERE c % 7 = 3', 'ANALYZE, COSTS off, BUFFERS off, TIMING off, SUMMARY off') line WHERE line ~ 'Removed';
SELECT line FROM rfx_plan('SELECT count(*) FROM rfx_first WHERE a > 40 AND CASE WHEN c <> 0 THEN 100 / c > 2 ELSE a > 5 END', 'ANALYZE, COSTS off, BUFFERS off, TIMING off, SUMMARY off') line WHERE line ~ 'Removed';

-- what may fail is behind what cannot, and never before what hides rows
EXPLAIN (COSTS off) SELECT * FROM rfx WHERE 100 / c > 3 AND c <> 0 AND a % 7 = 3;
EXPLAIN (COSTS off) SELECT * FROM rfx WHERE md5(t) > '8' AND a % 7 = 3 AND a > 3;
EXPLAIN (COSTS off) SELECT * FROM rfx WHERE abs(b) > 8 AND (a + 1) % 7 = 3;
EXPLAIN (COSTS off) SELECT * FROM rfx WHERE (a + random()::int) % 7 = 3 AND a % 7 = 3;
CREATE VIEW rfx_seen WITH (security_barrier) AS SELECT * FROM rfx_first WHERE c <> 0;
CREATE VIEW rfx_hashed WITH (security_barrier) AS SELECT * FROM rfx_first WHERE md5(c::text) <> md5('0');
EXPLAIN (COSTS off) SELECT a FROM rfx_seen WHERE 100 / c > 30;
EXPLAIN (COSTS off) SELECT a FROM rfx_hashed WHERE 100 / c > 30;
SELECT a FROM rfx_seen WHERE 100 / c > 30;
SELECT a FROM rfx_hashed WHERE 100 / c > 30;
EXPLAIN (COSTS off) SELECT a FROM (SELECT * FROM rfx_first WHERE c > 0 OFFSET 0) x WHERE 100 / c > 30;

-- parameters, and rescans
SET plan_cache_mode = force_generic_plan;
PREPARE rfx_p (int) AS SELECT count(*), sum(a) FROM rfx_first WHERE c % 7 = $1;
SELECT ltrim(p) AS filter FROM rfx_plan('EXECUTE rfx_p (3)') p WHERE p ~ 'Filter';
EXECUTE rfx_p (3);
EXECUTE rfx_p (-3);
EXECUTE rfx_p (NULL);
DEALLOCATE rfx_p;
RESET plan_cache_mode;
SELECT x, y.* FROM generate_series(-1, 2) x, LATERAL (SELECT count(*), min(a) FROM rfx_first WHERE c % 7 = x AND a > 50) y;
SELECT x, (SELECT sum(y.a) FROM rfx_first y WHERE 1000 / y.a = x) FROM generate_series(1, 4) x;
SELECT x.a FROM rfx_first x JOIN rfx_first y ON x.a = y.c + 2000 AND x.a % 50 = y.a % 3 WHERE x.c % 2 = 0 ORDER BY 1;
-- rows are found, changed and returned
UPDATE rfx_first SET t = 'changed' WHERE c % 1000 = -7 RETURNING a, t;
DELETE FROM rfx_first WHERE a % 1000 = 7 AND CASE WHEN c <> 0 THEN 2000 / c > -2 ELSE a > 5 END RETURNING *;
SELECT ctid IS NOT NULL, a FROM rfx_first WHERE a % 1000 = 8 AND CASE WHEN c <> 0 THEN 2000 / c > -2 ELSE a > 5 END FOR UPDATE;
SELECT x FROM rfx_first x WHERE a % 1000 = 8 AND CASE WHEN c <> 0 THEN 2000 / c > -2 ELSE a > 5 END;
SELECT a, t IS NULL, xmin IS NOT NULL FROM rfx_first x WHERE CASE WHEN c <> 0 THEN 2000 / c > 900 ELSE a > 50 END;

-- nor is what columns are compared with evaluated for a row that nobody comes to
SELECT a FROM rfx_first WHERE a % 7 = 1 OR c = (SELECT 1 / count(*) FROM rfx_first WHERE a < 0) LIMIT 1;
SELECT a FROM rfx_first WHERE a % 7 = 1 OR c = (SELECT 1 / count(*) FROM rfx_first WHERE a < 0) LIMIT 2;
SELECT a FROM rfx_first WHERE a = 1 OR c = (SELECT 1 / count(*) FROM rfx_first WHERE a < 0) LIMIT 1;
SELECT a FROM rfx_first WHERE a = 1 OR t LIKE (SELECT (1 / count(*))::text FROM rfx_first WHERE a < 0) LIMIT 1;
SELECT count(*), sum(a) FROM rfx_first WHERE a < 1990 OR c % 11 = (SELECT count(*) FROM rfx_first WHERE a < 0) OR t = (SELECT repeat(max(a)::text, 3) FROM rfx_first);
SET rose.enable_scan = off;
SELECT count(*), sum(a) FROM rfx_first WHERE a < 1990 OR c % 11 = (SELECT count(*) FROM rfx_first WHERE a < 0) OR t = (SELECT repeat(max(a)::text, 3) FROM rfx_first);
SET rose.enable_scan = on;

-- numerics made of integers next to what a word holds, beside constants that are larger, and next to what such constants are taken for
CREATE TABLE rfx_far (a int, l int8, n numeric) USING rose;
INSERT INTO rfx_far SELECT i, CASE part WHEN 0 THEN 9223372036854775807 - i WHEN 1 THEN -9223372036854775807 + i WHEN 2 THEN 4611686018427387903 - i ELSE i - 4611686018427387903 END, (999999999999999000 + i) * (1 - part % 2 * 2) FROM generate_series(0, 3) part, generate_series(0, 499) i;
SELECT rose.merge('rfx_far');
SELECT count(*) FILTER (WHERE l::numeric > 1e30) AS none, count(*) FILTER (WHERE l::numeric < -1e30) AS none, count(*) FROM rfx_far;
SELECT (SELECT count(*) FROM rfx_far WHERE l::numeric > 1e30) AS none, (SELECT count(*) FROM rfx_far WHERE l::numeric < '-Infinity') AS none, (SELECT count(*) FROM rfx_far WHERE l IN (1e30, 9223372036854775807, -9223372036854775807, 4611686018427387903, -4611686018427387903.5)) AS three,
	(SELECT count(*) FROM rfx_far WHERE a >= 0 AND l::numeric >= 9223372036854775798) AS ten, (SELECT count(*) FROM rfx_far WHERE n * 7 > 6999999999999993000) AS n998, (SELECT count(*) FROM rfx_far WHERE n * 7 > 1e40) AS none,
	(SELECT count(*) FROM rfx_far WHERE l BETWEEN -4611686018427387903 AND 4611686018427387903 AND l::numeric IN (4611686018427387903, -4611686018427387902)) AS two;

-- the planner asks of each partition which conditions are filters, and keeps nothing of that
CREATE TABLE rfx_parts (a int, n numeric, m numeric) PARTITION BY LIST (a);
DO $$ BEGIN FOR i IN 1 .. 30 LOOP EXECUTE format('CREATE TABLE rfx_parts_%s PARTITION OF rfx_parts FOR VALUES IN (%s) USING rose', i, i); END LOOP; END $$;
SELECT total_bytes < 3000000 AS little FROM pg_backend_memory_contexts WHERE name = 'MessageContext' AND 0 <= (SELECT count(*) FROM rfx_parts WHERE n * 2 > 5 AND n + m > 3 AND coalesce(n, m) * 2 = 1);

DROP VIEW rfx_seen, rfx_hashed;
DROP TABLE rfx, rfx_heap, rfx_queries, rfx_first, rfx_far, rfx_parts;
DROP PROCEDURE rfx_both;
DROP FUNCTION rfx_plan, rfx_said, rfx_same, rfx_all_same;
