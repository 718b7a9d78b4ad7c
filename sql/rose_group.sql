-- Rose Aggregate with GROUP BY: groups of many rows at a time. The same as row by row, and as of heap, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
SET extra_float_digits = 1;
CREATE TABLE rgr (a int, b int, i2 int2, gone text, i8 int8, o oid, d date, ts timestamp, u bool, ch "char", f float8, r float4, n numeric, t text, v varchar(20), p char(8), g uuid, y bytea, c int8, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rgr DROP COLUMN gone;
CREATE TABLE rgr_heap (LIKE rgr INCLUDING ALL) USING heap;

-- the same to both
CREATE PROCEDURE rgr_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rgr');
	EXECUTE replace(statement, '@', 'rgr_heap');
END $$;
CREATE FUNCTION rgr_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rgr_said(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	said text[];
BEGIN
	EXECUTE 'SELECT array_agg(x::text ' || CASE WHEN query ~ 'ORDER BY' THEN '' ELSE 'ORDER BY x::text' END || ') FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[SQLSTATE, SQLERRM];
END $$;
-- a query of @: by Rose Aggregate, in much memory and in none; by core's aggregates of the same rows; and of heap
CREATE FUNCTION rgr_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	vectors text[] := rgr_said(replace(query, '@', 'rgr'));
	parts text[];
	rows text[];
	heap text[] := rgr_said(replace(query, '@', 'rgr_heap'));
BEGIN
	IF query !~ '777' AND NOT EXISTS (SELECT FROM rgr_plan(replace(query, '@', 'rgr')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.aggregate_memory = '4kB';
	parts := rgr_said(replace(query, '@', 'rgr'));
	SET LOCAL rose.aggregate_memory = -1;
	SET LOCAL rose.enable_aggregate = off;
	rows := rgr_said(replace(query, '@', 'rgr'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors IS DISTINCT FROM rows OR vectors IS DISTINCT FROM parts OR query !~ '(sum|avg)\([fr]\M' AND vectors IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %\nparts %', query, vectors, rows, heap, parts;
	END IF;
	RETURN coalesce(array_length(vectors, 1), 0);
END $$;
CREATE TABLE rgr_queries (n serial, q text);
-- of equal values that look different any may be shown
INSERT INTO rgr_queries (q)
	SELECT 'SELECT ' || keys[1] || ', ' || list || ' FROM @' || cond || ' GROUP BY ' || coalesce(keys[2], keys[1]) || hav
	FROM (VALUES (ARRAY['i2']), (ARRAY['i8']), (ARRAY['o']), (ARRAY['d']), (ARRAY['ts']), (ARRAY['u']), (ARRAY['ch']), (ARRAY['f + 0', 'f']), (ARRAY['r + 0', 'r']), (ARRAY['trim_scale(n)', 'n']),
		(ARRAY['t']), (ARRAY['v']), (ARRAY['p']), (ARRAY['g']), (ARRAY['y']), (ARRAY['a']), (ARRAY['u, i2, t']), (ARRAY['trim_scale(n), p, d', 'n, p, d']), (ARRAY['v::text', 'v::text'])) k (keys),
	(VALUES ('count(*)', ''), ('count(*), count(c), count(t), sum(a), avg(b), sum(c), min(c), max(i2)', ' HAVING count(*) > 3 AND max(c) IS NOT NULL'), ('bool_and(u), bit_or(a), max(o), min(ts), avg(c)', ''),
		('min(f) + 0, max(r) + 0', '')) l (list, hav), (VALUES (''), (' WHERE (c % 7) # 0 <> 3 AND a >= 2'), (' WHERE c = 777')) w (cond);
INSERT INTO rgr_queries (q) VALUES ('SELECT i2, t FROM @ GROUP BY i2, t'), ('SELECT max(c), i2 FROM @ GROUP BY i2 ORDER BY i2 DESC NULLS FIRST'), ('SELECT a, count(*) FROM @ GROUP BY a ORDER BY a DESC'),
	('SELECT count(*) FROM @ GROUP BY t HAVING t IS NULL OR max(c) > 500'), ('SELECT i2, sum(c) + count(*), i2 * 2, CASE WHEN i2 > 3 THEN max(c) END FROM @ GROUP BY i2'), ('SELECT i2, sum(f), avg(r), sum(r) FROM @ GROUP BY i2'),
	('SELECT t, avg(f) FROM @ GROUP BY t'), ('SELECT i2, rank() OVER (ORDER BY count(*), i2) FROM @ GROUP BY i2'), ('SELECT i2, count(*) FROM @ WHERE u GROUP BY u, i2'), ('SELECT u, count(*) FROM @ GROUP BY 1 ORDER BY count(*), 1 LIMIT 2');
-- FILTER
INSERT INTO rgr_queries (q)
	SELECT 'SELECT ' || keys || ', ' || list || ' FROM @' || cond || ' GROUP BY ' || keys
	FROM unnest(ARRAY['i2', 't', 'a', 'u, ch']) keys, unnest(ARRAY['count(*) FILTER (WHERE c % 2 = 0), count(*), count(*) FILTER (WHERE t > ''text 2''), sum(c) FILTER (WHERE c % 2 = 0), sum(c), sum(c) FILTER (WHERE t > ''text 2'')',
		'avg(c) FILTER (WHERE u), max(c) FILTER (WHERE false), count(t) FILTER (WHERE f > 1 OR u IS NULL), min(ts) FILTER (WHERE length(v) > 2), bool_and(u) FILTER (WHERE n > 1)', 'count(*) FILTER (WHERE c > 0 AND 1 / (c - 8) > 0)']) list,
	unnest(ARRAY['', ' WHERE c <> 8', ' WHERE (c % 7) # 0 <> 3 AND a >= 2', ' WHERE c + 0 < 50 AND c > 0']) cond;
-- expressions: keys of any type, also with the columns that are in them, and as parts of what is shown; failing for a row
INSERT INTO rgr_queries (q)
	SELECT 'SELECT ' || coalesce(keys[2], keys[1]) || ', ' || list || ' FROM @' || cond || ' GROUP BY ' || keys[1]
	FROM (VALUES (ARRAY['i2 + 1']), (ARRAY['a - 1, a']), (ARRAY['i2 % 3, t']), (ARRAY['date_trunc(''week'', ts)', 'date_trunc(''week'', ts) + interval ''1 h''']), (ARRAY['extract(dow FROM ts)']), (ARRAY['date_trunc(''hour'', ts::timestamptz)']),
		(ARRAY['lower(t) COLLATE "C", u']), (ARRAY['length(t), length(v)']), (ARRAY['CASE WHEN i2 > 5 THEN ''x'' WHEN u THEN t END']), (ARRAY['f > 1, f IS NULL']), (ARRAY['n + 1', 'trim_scale(n + 1)']), (ARRAY['f * 2', 'f * 2 + 0, f * 2 > 1']),
		(ARRAY['r - 1', 'r - 1 + 0']), (ARRAY['interval ''1 h'' * a']), (ARRAY['jsonb_build_array(a)']), (ARRAY['g::text, y || y']), (ARRAY['p || v']), (ARRAY['''x''::text, i2', '''x''::text, i2']), (ARRAY['ARRAY[a % 3, i2]']), (ARRAY['d + 1, ch = ''a''']),
		(ARRAY['CASE WHEN a > 4 THEN ''high'' WHEN u THEN ''yes'' END, a % 3']), (ARRAY['coalesce(t, ''none'')']), (ARRAY['(a * 7 + b) % 5, a > 4 AND u, c IS NULL']), (ARRAY['f + a', 'f + a + 0']), (ARRAY['coalesce(i2, a), u', 'u']), (ARRAY['(a * b) / 100, upper(v)', '(a * b) / 100 + 1, upper(v) || ''x'', count(*) * ((a * b) / 100)'])) k (keys),
	(VALUES ('count(*)', ' WHERE c <> 8 AND a >= 2'), ('count(*), sum(c + 1), avg(length(t)), max(a * b), min(i2 - 1) FILTER (WHERE u), sum(CASE WHEN i2 > 5 THEN c END), bool_or(f > 1), sum(a)', '')) l (list, cond);
INSERT INTO rgr_queries (q) VALUES ('SELECT 10 / (i2 - 2), count(*) FROM @ GROUP BY 10 / (i2 - 2)'), ('SELECT 10 / (i2 - 2), count(*) FROM @ WHERE i2 <> 2 GROUP BY 10 / (i2 - 2)'), ('SELECT i2, sum(1 / (c - 8)) FROM @ GROUP BY i2'), ('SELECT i2, sum(1 / (c - 8)) FILTER (WHERE c <> 8), sum(c) FROM @ GROUP BY i2'), ('SELECT i2, sum(a * 1000000000) FROM @ GROUP BY i2'), ('SELECT i2, sum(1 / (c - 8)) FROM @ GROUP BY i2 LIMIT 0'),
	('SELECT a % 4, sum(f * 2), avg(r + 1) FROM @ GROUP BY a % 4'), ('SELECT i2 + 1 FROM @ GROUP BY i2 + 1 HAVING max(c + 1) > 500 AND i2 + 1 < 9 ORDER BY i2 + 1 DESC'), ('SELECT a + 1, a FROM @ GROUP BY a, a + 1 ORDER BY 1 LIMIT 3'),
	('SELECT rank() OVER (ORDER BY i2 % 4), i2 % 4, sum(count(*)) OVER (ORDER BY i2 % 4) FROM @ GROUP BY i2 % 4 ORDER BY 1, 2');
-- all of them, or a quarter: in each of the table's states there are some of every kind of key
CREATE FUNCTION rgr_all_same(quarter int = NULL) RETURNS bool LANGUAGE sql AS $$
	SELECT sum(groups) > count(*) FROM (SELECT rgr_same(q) AS groups FROM rgr_queries WHERE quarter IS NULL OR ascii(md5(q)) % 4 = quarter ORDER BY n) x
$$;

-- in memory; in a run; merged; merged, with newer versions above
CALL rgr_both($$INSERT INTO @ SELECT i % 10, i / 10, CASE WHEN i % 11 > 0 THEN i / 50 END, i % 13 * 1000000000000, (i % 3 + 2147483646::int8)::oid, date '2020-01-01' + i % 17, timestamp '2020-01-01' + i % 7 * interval '1 day',
	CASE WHEN i % 3 > 0 THEN i % 2 = 0 END, chr(97 + i % 5)::"char", (ARRAY['NaN', '0', '-0', '1.5', '-Infinity', NULL])[i % 6 + 1]::float8, (ARRAY['NaN', '0', '-0', '1.1', NULL])[i % 5 + 1]::float4,
	(ARRAY['1', '1.0', '1.00', '0', '0.000', 'NaN', '-12345678.901', '-12345678.9010', '1e20', NULL])[i % 10 + 1]::numeric, CASE WHEN i % 9 > 0 THEN 'text ' || i % 23 END, 'v' || repeat('x', i % 4), repeat('p', i % 3),
	md5((i % 6)::text)::uuid, substring('\x000102030405'::bytea FROM 1 FOR i % 5), CASE WHEN i % 8 > 0 THEN i END FROM generate_series(1, 1000) i$$);
ANALYZE rgr;
SELECT rgr_all_same();
SELECT rose.spill('rgr');
SELECT rgr_all_same(0);
SELECT rose.merge('rgr');
SELECT rgr_all_same(1);
CALL rgr_both($$UPDATE @ SET t = 'changed', i2 = i2 + 1, f = -f WHERE a = 3 AND c % 5 = 0$$);
CALL rgr_both($$DELETE FROM @ WHERE a = 4 AND c % 5 < 3$$);
SELECT rgr_all_same(2);
SELECT rose.spill('rgr');
CALL rgr_both($$UPDATE @ SET c = -c, p = 'pp', v = 'w' WHERE a = 6 AND b < 40$$);
CALL rgr_both($$INSERT INTO @ (a, b) VALUES (-1, 0), (5, 1000), (100, -1)$$);
SELECT rgr_all_same();
SET rose.vector_rows = 1;
SELECT rgr_all_same(3);
SET rose.vector_rows = 7;
SELECT rgr_all_same(0);
RESET rose.vector_rows;

-- own changes, and what is rolled back
BEGIN;
CALL rgr_both($$UPDATE @ SET i2 = 5, t = NULL WHERE a = 8 AND c > 100$$);
SAVEPOINT s;
CALL rgr_both($$DELETE FROM @ WHERE a = 2$$);
CALL rgr_both($$INSERT INTO @ (a, b, c, t) SELECT i, -5, i, 'own' FROM generate_series(1, 20) i$$);
SELECT rgr_all_same(1);
ROLLBACK TO s;
SELECT rgr_all_same(2);
ROLLBACK;
SELECT rgr_all_same(3);

-- a column that older rows do not have
CALL rgr_both($$ALTER TABLE @ ADD COLUMN added text DEFAULT 'older', ADD COLUMN empty int8$$);
CALL rgr_both($$UPDATE @ SET added = 'younger', empty = a WHERE a = 7 AND c % 3 = 0$$);
INSERT INTO rgr_queries (q) VALUES ('SELECT added, count(*), sum(empty) FROM @ GROUP BY added'), ('SELECT empty, added, min(added::text COLLATE "C") IS NULL, count(empty) FROM @ WHERE c = 777 GROUP BY empty, added');
SELECT rgr_all_same();

-- plans
EXPLAIN (COSTS off, VERBOSE) SELECT i2, count(*), sum(c) / 2 FROM rgr WHERE a > 3 AND c > 5 AND length(t) > 3 GROUP BY i2 HAVING max(r) > 1;
EXPLAIN (COSTS off) SELECT t, p, count(*) FROM rgr GROUP BY t, p ORDER BY t, p;
EXPLAIN (COSTS off) SELECT i2 FROM rgr GROUP BY i2;
EXPLAIN (COSTS off, VERBOSE) SELECT date_trunc('day', ts) + interval '1 h', extract(dow FROM ts), sum(a * b) / 2 FROM rgr WHERE a > 3 GROUP BY date_trunc('day', ts), extract(dow FROM ts) HAVING extract(dow FROM ts) > 1;
-- core's
SELECT q FROM unnest(ARRAY['i2 + random()', 'ROLLUP (i2)', 'ROLLUP (i2 + 1)', 'i2, rgr', 'ROW(i2, a)', 'a, b', 'a, b, a + b', 'tableoid', 'rgr IS NULL', '(SELECT y.a FROM rgr y WHERE y.a = rgr.a AND y.b = rgr.b)']) q
	WHERE EXISTS (SELECT FROM rgr_plan('SELECT count(*) FROM rgr GROUP BY ' || q) line WHERE line ~ 'Rose Aggregate');
SELECT q FROM unnest(ARRAY['count(DISTINCT c)', 'sum(c + random())', 'sum(c) FILTER (WHERE random() < 2)', 'count(*) FILTER (WHERE rgr IS NULL)', 'sum(c + 1) FILTER (WHERE random() < 2)', 'max(t || t)', 'string_agg(t, '','')', 'count(rgr)', 'grouping(i2)']) q
	WHERE EXISTS (SELECT FROM rgr_plan('SELECT ' || q || ' FROM rgr GROUP BY i2') line WHERE line ~ 'Rose Aggregate');
SELECT count(*) FROM rgr_plan('SELECT DISTINCT i2 FROM rgr') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rgr_plan('SELECT x.i2, count(*) FROM rgr x JOIN rgr y USING (a) GROUP BY 1') line WHERE line ~ 'Rose Aggregate';
-- without a choice: how groups are found, and what memory does; groups in the order of the key
SET rose.aggregate_sample = 0;
CREATE TABLE rgr_many (a int, b int, runs int, few int, many int, txt text, PRIMARY KEY (a, b)) USING rose;
CREATE TABLE rgr_many_heap (LIKE rgr_many INCLUDING ALL) USING heap;
INSERT INTO rgr_many_heap SELECT i / 100, i % 100, i / 5000, i * 7 % 11, i * 7919 % 10007 * 100003, 'a text of some length ' || i % 2000 FROM generate_series(0, 29999) i;
INSERT INTO rgr_many SELECT * FROM rgr_many_heap;
SELECT rose.merge('rgr_many');
ANALYZE rgr_many;
ANALYZE rgr_many_heap;
CREATE FUNCTION rgr_how(query text, memory text = '-1') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rose.aggregate_memory', memory, true);
	-- in a text of its own: how many vectors there are depends on how much a leaf holds
	RETURN QUERY SELECT regexp_replace(regexp_replace(btrim(line), '=[1-9][\d.]*', '=some', 'g'), '(Flushes): [1-9]\d*', '\1: some') FROM rgr_plan(query, 'COSTS off, ANALYZE, BUFFERS off, TIMING off, SUMMARY off') line
		WHERE line ~ 'Groups:|Flushes|Ordered|Aggregate ' AND line !~ 'HashAggregate .*Batches';
	PERFORM set_config('rose.aggregate_memory', '-1', true);
END $$;
SELECT * FROM rgr_how('SELECT runs, count(*), sum(few) FROM rgr_many GROUP BY runs');
SELECT * FROM rgr_how('SELECT few, count(*), sum(many) FROM rgr_many GROUP BY few');
SELECT * FROM rgr_how('SELECT many % 10, count(*) FROM (SELECT many, count(*) FROM rgr_many WHERE a < 250 GROUP BY many OFFSET 0) x GROUP BY 1');
SELECT * FROM rgr_how('SELECT txt, count(*) FROM rgr_many GROUP BY txt', '64kB');
SELECT * FROM rgr_how('SELECT a, count(*), max(many) FROM rgr_many GROUP BY a');
SELECT * FROM rgr_how('SELECT a, count(*), max(many) FROM rgr_many GROUP BY a', '0');
-- equal values that look different make one state, though core would put several together
CREATE FUNCTION rgr_states(query text) RETURNS text LANGUAGE sql AS $$
	SELECT substring(line FROM 'rows=(\d+)') FROM rgr_plan(query, 'COSTS off, ANALYZE, BUFFERS off, TIMING off, SUMMARY off') line WHERE line ~ 'Rose Aggregate'
$$;
SELECT key, rgr_states('SELECT count(*) FROM rgr GROUP BY ' || key) FROM unnest(ARRAY['f', 'r', 'n', 'p', 't', 'u']) key;
CREATE FUNCTION rgr_many_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	heap text[] := rgr_said(replace(query, '@', 'rgr_many_heap'));
	said text := '';
BEGIN
	FOREACH said IN ARRAY ARRAY['-1', '0', '8kB', '64kB', '256kB'] LOOP
		PERFORM set_config('rose.aggregate_memory', said, true), set_config('rose.aggregate_sample', CASE said WHEN '0' THEN '0' WHEN '8kB' THEN '3000' WHEN '64kB' THEN '1' ELSE '-1' END, true);
		IF rgr_said(replace(query, '@', 'rgr_many')) IS DISTINCT FROM heap THEN
			RAISE EXCEPTION '% in %', query, said;
		END IF;
	END LOOP;
	PERFORM set_config('rose.aggregate_memory', '-1', true), set_config('rose.aggregate_sample', '0', true);
	RETURN array_length(heap, 1);
END $$;
SELECT rgr_many_same(q) FROM unnest(ARRAY['SELECT runs, count(*), sum(few) FROM @ GROUP BY runs', 'SELECT few, count(*), sum(many) FROM @ GROUP BY few', 'SELECT many, count(*), min(a) FROM @ WHERE few <> 3 GROUP BY many',
	'SELECT txt, count(*), avg(b) FROM @ GROUP BY txt', 'SELECT few, txt, count(*) FROM @ WHERE a % 2 = 1 GROUP BY few, txt', 'SELECT a, count(*), max(many) FROM @ GROUP BY a ORDER BY a', 'SELECT a, runs, count(*) FROM @ WHERE b < 50 GROUP BY runs, a',
	'SELECT a, count(*) FROM @ WHERE a BETWEEN 17 AND 230 AND few > 2 GROUP BY a ORDER BY a LIMIT 20']) q;
EXPLAIN (COSTS off) SELECT a, count(*), max(many) FROM rgr_many GROUP BY a ORDER BY a;
EXPLAIN (COSTS off) SELECT b, count(*) FROM rgr_many WHERE a = 7 GROUP BY b;
SELECT a, count(*), max(many) FROM rgr_many GROUP BY a ORDER BY a LIMIT 3;
-- too many groups for it to pay, or for memory
SELECT count(*) FROM rgr_plan('SELECT a, b, count(*) FROM rgr_many GROUP BY a, b') line WHERE line ~ 'Rose Aggregate';
SET work_mem = '64kB';
SELECT count(*) FROM rgr_plan('SELECT txt, count(*) FROM rgr_many GROUP BY txt') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rgr_plan('SELECT a, count(*) FROM rgr_many GROUP BY a') line WHERE line ~ 'Rose Aggregate';
RESET work_mem;

-- the estimate is wrong: no group has a second row, and rows are passed on
CREATE TABLE rgr_wrong (id int PRIMARY KEY, k int8, t text) USING rose;
INSERT INTO rgr_wrong SELECT i, 1, 'x' FROM generate_series(1, 30000) i;
ANALYZE rgr_wrong;
UPDATE rgr_wrong SET k = id * 1000003::int8, t = 'text ' || id;
SELECT * FROM rgr_how('SELECT k, t, count(*) FROM rgr_wrong GROUP BY k, t', '64kB') line WHERE line ~ 'Groups|Flushes';
-- also where there is room for all of them
SELECT * FROM rgr_how('SELECT k, t, count(*) FROM rgr_wrong GROUP BY k, t') line WHERE line ~ 'Groups|Flushes';
SELECT * FROM rgr_how('SELECT k % 1000, count(*) FROM (SELECT k, count(*), avg(id) FROM rgr_wrong WHERE id % 3 > 0 GROUP BY k OFFSET 0) x GROUP BY 1') line WHERE line ~ 'Groups|Flushes';
-- a row that is passed on is a state of each kind
CREATE TABLE rgr_single (id int PRIMARY KEY, k int8, v int, f float8, r float4, u bool) USING rose;
ALTER TABLE rgr_single ALTER k SET (n_distinct = 100);
INSERT INTO rgr_single SELECT id, k % 20000, k % 2000000000, k / 3.0, k / 3.0, k % 2 = 0 FROM rgr_wrong WHERE id % 10 > 0;
INSERT INTO rgr_single (id, k) SELECT id, k % 20000 FROM rgr_wrong WHERE id % 10 = 0;
ANALYZE rgr_single;
SELECT * FROM rgr_how('SELECT k, sum(v), avg(f) FROM rgr_single GROUP BY k') line WHERE line ~ 'Groups|Flushes';
CREATE FUNCTION rgr_single() RETURNS TABLE (n int8, hash text) LANGUAGE sql AS $$
	SELECT count(*), md5(string_agg(x::text, ',' ORDER BY k)) FROM (SELECT k, count(*) AS c, count(v), sum(v), avg(v), min(v), max(v), bit_and(v), bit_or(v), sum(f) AS sf, avg(f) AS af, min(f), max(f),
		sum(r) AS sr, avg(r) AS ar, min(r), max(r), bool_and(u), bool_or(u), sum(k) AS i FROM rgr_single GROUP BY k) x
$$;
CREATE TABLE rgr_answers AS SELECT 1 AS who, * FROM rgr_single();
SET rose.enable_aggregate = off;
INSERT INTO rgr_answers SELECT 0, * FROM rgr_single();
SET rose.enable_aggregate = on;
SET rose.aggregate_memory = '16kB';
INSERT INTO rgr_answers SELECT 2, * FROM rgr_single();
RESET rose.aggregate_memory;
SELECT n, count(*) FROM rgr_answers GROUP BY n, hash;
SET rose.aggregate_memory = '64kB';
SELECT count(*), sum(c), sum(k), min(t), max(t) FROM (SELECT k, t, count(*) AS c FROM rgr_wrong GROUP BY k, t OFFSET 0) x;
SELECT count(*), sum(c), sum(k), min(t), max(t) FROM (SELECT k, t, count(*) AS c FROM rgr_wrong GROUP BY k, t HAVING count(t) = 1 OFFSET 0) x;
RESET rose.aggregate_memory;

-- sums of floats are those of the plain plan, and errors are core's
CREATE TABLE rgr_float (id int PRIMARY KEY, k int, f float8, r float4) USING rose;
INSERT INTO rgr_float SELECT i, i * 7 % 13, CASE i % 5 WHEN 0 THEN 1e16 WHEN 1 THEN -1e16 ELSE i / 7.0 END, i / 3.0 FROM generate_series(1, 3000) i;
ANALYZE rgr_float;
SELECT count(*) FROM rgr_plan('SELECT k, sum(f), avg(f), sum(r), avg(r) FROM rgr_float GROUP BY k') line WHERE line ~ 'Rose Aggregate';
CREATE TABLE rgr_sums AS SELECT k, sum(f), avg(f) AS af, sum(r) AS sr, avg(r) AS ar FROM rgr_float GROUP BY k;
SET rose.enable_aggregate = off;
SELECT count(*) FROM rgr_sums JOIN (SELECT k, sum(f), avg(f) AS af, sum(r) AS sr, avg(r) AS ar FROM rgr_float GROUP BY k) x USING (k, sum, af, sr, ar);
SET rose.enable_aggregate = on;
-- also where groups are given out in parts, and in the order of the key
SET rose.aggregate_memory = '4kB';
SELECT * FROM rgr_how('SELECT k, sum(f), avg(f), sum(r), avg(r) FROM rgr_float GROUP BY k', '4kB') line WHERE line ~ 'Groups|Flushes';
SELECT count(*) FROM rgr_sums JOIN (SELECT k, sum(f), avg(f) AS af, sum(r) AS sr, avg(r) AS ar FROM rgr_float GROUP BY k) x USING (k, sum, af, sr, ar);
CREATE TABLE rgr_ordered (t text, n numeric, id int, f float8, PRIMARY KEY (t, n, id)) USING rose;
INSERT INTO rgr_ordered SELECT CASE WHEN i % 4 > 0 THEN 'text ' || i / 150 ELSE 'x' END, i / 450, i, CASE i % 5 WHEN 0 THEN 1e16 WHEN 1 THEN -1e16 ELSE i / 7.0 END FROM generate_series(1, 9000) i;
SELECT rose.merge('rgr_ordered');
ANALYZE rgr_ordered;
DROP TABLE rgr_sums;
CREATE TABLE rgr_sums AS SELECT t, n, sum(f), count(*) AS c FROM rgr_ordered GROUP BY t, n;
SELECT line FROM rgr_how('SELECT t, n, sum(f), count(*) FROM rgr_ordered GROUP BY t, n', '0') line WHERE line ~ 'Ordered|Flushes';
SET rose.aggregate_memory = 0;
INSERT INTO rgr_sums SELECT t, n, sum(f), count(*) FROM rgr_ordered GROUP BY t, n;
SET rose.enable_aggregate = off;
INSERT INTO rgr_sums SELECT t, n, sum(f), count(*) FROM rgr_ordered GROUP BY t, n;
SELECT count, count(*), sum(c) FROM (SELECT count(*), sum(c) AS c FROM rgr_sums GROUP BY t, n, sum) x GROUP BY count;
RESET rose.aggregate_memory;
SET rose.enable_aggregate = on;
UPDATE rgr_float SET f = 1e308 WHERE k = 5;
SELECT k, sum(f) FROM rgr_float GROUP BY k;
SELECT k, avg(f) FROM rgr_float GROUP BY k;

-- parameters, rescans, cursors
PREPARE rgr_p (int, int8) AS SELECT i2, count(*), sum(c) FROM rgr WHERE a >= $1 AND c < $2 GROUP BY i2 HAVING count(*) > 2 ORDER BY i2 LIMIT 3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE rgr_p (3, 500);
EXECUTE rgr_p (3, 500);
EXECUTE rgr_p (7, 900000);
EXECUTE rgr_p (NULL, 900);
ALTER TABLE rgr ADD COLUMN later int;
EXECUTE rgr_p (3, 500);
ALTER TABLE rgr DROP COLUMN later;
EXECUTE rgr_p (3, 500);
RESET plan_cache_mode;
SET enable_memoize = off;
SET enable_material = off;
EXPLAIN (COSTS off) SELECT lo, s.* FROM generate_series(-1, 12, 4) lo, LATERAL (SELECT t, count(*) FROM rgr WHERE c % 7 > lo GROUP BY t) s;
SELECT lo, count(*), sum(n) FROM generate_series(-1, 12, 4) lo, LATERAL (SELECT t, count(*) AS n FROM rgr WHERE c % 7 > lo GROUP BY t) s GROUP BY lo ORDER BY lo;
SELECT lo, count(*), sum(n) FROM generate_series(-1, 12, 4) lo, LATERAL (SELECT t, count(*) AS n FROM rgr_heap WHERE c % 7 > lo GROUP BY t) s GROUP BY lo ORDER BY lo;
RESET enable_memoize;
RESET enable_material;
BEGIN;
DECLARE rgr_c SCROLL CURSOR FOR SELECT i2, count(*) FROM rgr GROUP BY i2 ORDER BY i2;
FETCH 3 FROM rgr_c;
FETCH BACKWARD 2 FROM rgr_c;
FETCH LAST FROM rgr_c;
ROLLBACK;

-- a choice: by vectors, or by rows where far more groups come than were estimated, before anything was given out; also again and again
RESET rose.aggregate_sample;
CREATE FUNCTION rgr_chosen(query text, memory text = '-1') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rose.aggregate_memory', memory, true);
	-- 18 prints fractions of rows
	RETURN QUERY SELECT regexp_replace(replace(btrim(line), 'rows=0.00', 'rows=0'), '\(actual rows=[1-9].*', '(rows)') FROM rgr_plan(query, 'COSTS off, ANALYZE, BUFFERS off, TIMING off, SUMMARY off') line
		WHERE line ~ 'Chosen|GroupAggregate|HashAggregate|Rose Aggregate';
	PERFORM set_config('rose.aggregate_memory', '-1', true);
END $$;
SELECT * FROM rgr_chosen('SELECT runs, count(*), sum(few) FROM rgr_many GROUP BY runs');
SELECT * FROM rgr_chosen('SELECT k, t, count(*) FROM rgr_wrong GROUP BY k, t');
SELECT * FROM rgr_chosen('SELECT k * interval ''1 s'', count(*) FROM rgr_wrong GROUP BY 1');
SELECT * FROM rgr_chosen('SELECT k, sum(id) FROM rgr_wrong GROUP BY k');
-- in order: with two rows of each group there may be a choice, by what is added up
CREATE TABLE rgr_pairs (a int, b int, c int8, PRIMARY KEY (a, b)) USING rose;
INSERT INTO rgr_pairs SELECT i / 2, i % 2, i FROM generate_series(0, 19999) i;
SELECT rose.merge('rgr_pairs');
ANALYZE rgr_pairs;
ALTER TABLE rgr_pairs ALTER a SET (n_distinct = 100);
ANALYZE rgr_pairs;
SELECT * FROM rgr_chosen('SELECT a, sum(c) FROM rgr_pairs GROUP BY a ORDER BY a LIMIT 1000');
SELECT * FROM rgr_chosen('SELECT a, count(*) FROM rgr_pairs GROUP BY a ORDER BY a LIMIT 1000');
SELECT count(*), sum(s), min(s), bool_and(s = 4 * a + 1), sum(n) FROM (SELECT a, sum(c) AS s, count(*) AS n FROM rgr_pairs GROUP BY a OFFSET 0) x;
-- conditions are asked once of a row where it shows, and subplans are in one plan
CREATE SEQUENCE rgr_seq;
SELECT count(*), sum(n), nextval('rgr_seq') FROM (SELECT k, t, count(*) AS n FROM rgr_wrong WHERE nextval('rgr_seq') > 0 GROUP BY k, t OFFSET 0) x;
SELECT count(*), sum(n), nextval('rgr_seq') FROM (SELECT k, t, count(*) AS n FROM rgr_wrong WHERE (SELECT nextval('rgr_seq') + 0 * k) > 0 GROUP BY k, t OFFSET 0) x;
SELECT count(*) FILTER (WHERE a = b), count(*) FROM (SELECT runs, nextval('rgr_seq') AS a, nextval('rgr_seq') AS b, count(*) FROM rgr_many GROUP BY runs OFFSET 0) x;
SELECT count(*) FROM rgr_plan('SELECT k, count(*) FROM rgr_wrong GROUP BY k HAVING count(*) > ALL (SELECT 0 FROM rgr_float y WHERE y.id = max(rgr_wrong.id))') line WHERE line ~ 'Rose (Aggregate|Choice)';
-- a result that is not what groups are made of, HAVING, windows, parameters that change, a cursor
CREATE FUNCTION rgr_choices(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	first text[];
	said text[];
	sample text;
BEGIN
	FOREACH sample IN ARRAY ARRAY['0', '-1', '1', '500', '9000'] LOOP
		PERFORM set_config('rose.aggregate_sample', sample, true);
		said := rgr_said(query);
		first := coalesce(first, said);
		IF said IS DISTINCT FROM first THEN
			RAISE EXCEPTION '% with %', query, sample;
		END IF;
	END LOOP;
	PERFORM set_config('rose.enable_aggregate', 'off', true);
	IF rgr_said(query) IS DISTINCT FROM first THEN
		RAISE EXCEPTION '%', query;
	END IF;
	PERFORM set_config('rose.enable_aggregate', 'on', true), set_config('rose.aggregate_sample', '-1', true);
	RETURN array_length(first, 1) || ' ' || left(first[1], 40);
END $$;
SELECT * FROM rgr_chosen('SELECT k % 100, count(*) FROM rgr_wrong GROUP BY k % 100');
SELECT * FROM rgr_chosen('SELECT k + 1, sum(id * 2) FROM rgr_wrong GROUP BY k + 1');
-- of hours of a year there are fewer than of times
CREATE TABLE rgr_times (id int PRIMARY KEY, ts timestamp, t text) USING rose;
INSERT INTO rgr_times SELECT i, timestamp '2020-01-01' + i * interval '17 min', repeat('x', i * 7919 % 60) FROM generate_series(1, 30000) i;
ANALYZE rgr_times;
SET rose.aggregate_sample = 0;
SELECT q, EXISTS (SELECT FROM rgr_plan('SELECT count(*) FROM rgr_times GROUP BY ' || q) line WHERE line ~ 'Rose Aggregate') AS vectors
FROM unnest(ARRAY['date_trunc(''Days'', ts)', 'date_trunc(''hour'', ts)', 'ts::date', 'extract(minutes FROM ts)', 'extract(hour FROM ts)::int / 6', 'date_part(''dow'', ts), id % 7', 'CASE WHEN id > 99 THEN ''a'' ELSE ''b'' END', 'length(t)',
	'ts', 'ts + interval ''1 h''', 'date_trunc(''second'', ts)', 'extract(epoch FROM ts)', 'id % 29999']) q;
RESET rose.aggregate_sample;
SELECT rgr_choices(q) FROM unnest(ARRAY['SELECT date_trunc(''month'', ts), extract(dow FROM ts), count(*), sum(id * 2) FROM rgr_times GROUP BY 1, 2', 'SELECT ts::date, avg(length(t)) FROM rgr_times WHERE id % 3 = 1 GROUP BY 1', 'SELECT extract(minute FROM ts), max(id - 1) FROM rgr_times GROUP BY 1',
	'SELECT lo, m, s FROM generate_series(2, 9, 3) lo, LATERAL (SELECT few % lo AS m, sum(many / lo) AS s FROM rgr_many WHERE b > lo GROUP BY few % lo) x', 'SELECT k + 1, sum(id * 2) FROM rgr_wrong GROUP BY k + 1']) q;
SELECT rgr_choices(q) FROM unnest(ARRAY['SELECT k + 1, 7, sum(id) * 2, t || count(*) FROM rgr_wrong WHERE id < 9000 GROUP BY k, t HAVING max(id) % 3 > 0', 'SELECT few, rank() OVER (ORDER BY sum(many), few), max(a) - min(a) FROM rgr_many GROUP BY few',
	'SELECT lo, few, s FROM generate_series(-1, 12, 4) lo, LATERAL (SELECT few, sum(many) AS s FROM rgr_many WHERE b > lo GROUP BY few) x', 'SELECT few, (SELECT sum(s) FROM (SELECT few, sum(many) AS s FROM rgr_many y WHERE y.few < x.few GROUP BY few) z) FROM rgr_many x WHERE a < 3 GROUP BY few',
	'SELECT a, sum(c) + a FROM rgr_pairs WHERE b >= 0 GROUP BY a HAVING count(*) = 2 ORDER BY a DESC LIMIT 7', 'SELECT k, count(*) FROM rgr_wrong WHERE id > 1000000 GROUP BY k', 'SELECT k, count(*) FROM rgr_wrong WHERE 1 / (id - 25000) < 5 GROUP BY k',
	'SELECT k, avg(f), sum(r) FROM rgr_single GROUP BY k']) q;
SET plan_cache_mode = force_generic_plan;
PREPARE rgr_q (int) AS SELECT few, count(*), sum(many) FROM rgr_many WHERE a >= $1 GROUP BY few ORDER BY few LIMIT 2;
EXECUTE rgr_q (3);
ALTER TABLE rgr_many ADD COLUMN later int;
SET rose.aggregate_sample = 700;
EXECUTE rgr_q (290);
EXECUTE rgr_q (3);
RESET plan_cache_mode;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE rgr_d SCROLL CURSOR FOR SELECT few, count(*) FROM rgr_many GROUP BY few ORDER BY few;
FETCH 2 FROM rgr_d;
DELETE FROM rgr_many WHERE few = 3;
FETCH 2 FROM rgr_d;
FETCH BACKWARD 3 FROM rgr_d;
SAVEPOINT s;
UPDATE rgr_many SET few = 0 WHERE few = 4;
SELECT few, count(*) FROM rgr_many GROUP BY few ORDER BY few LIMIT 2;
ROLLBACK TO s;
SELECT few, count(*) FROM rgr_many GROUP BY few ORDER BY few LIMIT 2;
ROLLBACK;
RESET rose.aggregate_sample;

-- large keys; domains and enums; partitions
CREATE DOMAIN rgr_domain AS text CHECK (VALUE <> 'no');
CREATE TYPE rgr_mood AS ENUM ('sad', 'glad');
CREATE TABLE rgr_other (id int PRIMARY KEY, big text, dom rgr_domain, mood rgr_mood) USING rose;
INSERT INTO rgr_other SELECT i, repeat('large ' || i % 3, 4000), 'd' || i % 4, (ARRAY['sad', 'glad'])[i % 2 + 1]::rgr_mood FROM generate_series(1, 900) i;
SELECT rose.merge('rgr_other');
ANALYZE rgr_other;
SELECT md5(big), count(*) FROM rgr_other GROUP BY big ORDER BY 1;
SET rose.aggregate_memory = '64kB';
SELECT md5(big), count(*) FROM rgr_other GROUP BY big ORDER BY 1;
RESET rose.aggregate_memory;
EXPLAIN (COSTS off) SELECT dom, mood, count(*) FROM rgr_other GROUP BY dom, mood;
SELECT dom, mood, count(*) FROM rgr_other GROUP BY dom, mood ORDER BY dom, mood;
CREATE TABLE rgr_parts (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE rgr_part_1 PARTITION OF rgr_parts FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE rgr_part_2 PARTITION OF rgr_parts FOR VALUES FROM (1000) TO (3000) USING rose;
INSERT INTO rgr_parts SELECT i, i % 7 FROM generate_series(0, 2999) i;
ANALYZE rgr_parts;
SELECT v, count(*) FROM rgr_parts GROUP BY v ORDER BY v;
SELECT v, count(*) FROM rgr_part_1 GROUP BY v ORDER BY v;

-- row security: a function that leaks sees no hidden row
CREATE TABLE rgr_secret (id int PRIMARY KEY, owner text, v int) USING rose;
INSERT INTO rgr_secret SELECT i, CASE WHEN i % 2 = 0 THEN 'rgr_user' ELSE 'other' END, i % 10 FROM generate_series(1, 1000) i;
ANALYZE rgr_secret;
CREATE FUNCTION rgr_leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 % 2 = 1 THEN RAISE 'leaked %', $1; END IF; RETURN true; END $$;
CREATE ROLE rgr_user;
GRANT SELECT ON rgr_secret TO rgr_user;
ALTER TABLE rgr_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY rgr_own ON rgr_secret USING (owner = current_user);
SET ROLE rgr_user;
SELECT v, count(*) FROM rgr_secret WHERE rgr_leak(id) GROUP BY v ORDER BY v;
SELECT rgr_leak(id), count(rgr_leak(id)), sum(v + 1) FROM rgr_secret GROUP BY rgr_leak(id);
RESET ROLE;

-- few of few groups, in the order of the key: core's plan reads the rows of these alone
CREATE TABLE rgr_early (k int, b int, v int, PRIMARY KEY (k, b)) USING rose;
INSERT INTO rgr_early SELECT i / 1000, i % 1000, i FROM generate_series(0, 99999) i;
SELECT rose.merge('rgr_early');
ANALYZE rgr_early;
SELECT q, EXISTS (SELECT FROM rgr_plan(q) line WHERE line ~ 'Rose Aggregate') AS vectors
FROM unnest(ARRAY['SELECT k, count(v) FROM rgr_early GROUP BY k ORDER BY k', 'SELECT k, count(v) FROM rgr_early GROUP BY k ORDER BY k LIMIT 1', 'SELECT EXISTS (SELECT FROM rgr_early GROUP BY k HAVING count(v) > 5)']) q;
DROP TABLE rgr_early;
-- keys of which nothing is left to sort by, nor since 16 for core to group by
CREATE TABLE rgr_constant (a int PRIMARY KEY, b int, m money, iv interval) USING rose;
INSERT INTO rgr_constant SELECT i, i % 5, (i % 5)::money, (ARRAY['1 month', '30 days', '2 months'])[i % 3 + 1]::interval FROM generate_series(1, 20000) i;
ANALYZE rgr_constant;
SELECT rgr_plan FROM rgr_plan('SELECT m, count(*) FROM rgr_constant WHERE m = 3::money GROUP BY m') WITH ORDINALITY WHERE btrim(rgr_plan) <> 'Group Key: m' OR ordinality < 8;
SELECT m::numeric, count(*) FROM rgr_constant WHERE m = 3::money GROUP BY m;
SELECT m::numeric, b + 1, count(*), sum(a) FROM rgr_constant WHERE m = 3::money AND b + 1 = 4 GROUP BY m, b + 1;
SELECT m::numeric, count(*) FROM rgr_constant WHERE m = 7::money GROUP BY m;
SELECT count(*) FROM rgr_constant WHERE m = 7::money GROUP BY m HAVING count(*) = 0;
-- all values are equal, and differ
SELECT rgr_choices('SELECT ' || q) FROM unnest(ARRAY['b, count(*) FROM rgr_constant WHERE iv = ''30 days'' GROUP BY iv, b', 'count(*), sum(a) FROM rgr_constant WHERE iv = ''30 days'' GROUP BY iv', 'b, count(DISTINCT a % 50), count(*) FROM rgr_constant WHERE iv = ''30 days'' GROUP BY b, iv',
	'a / 10, count(*) FROM rgr_constant WHERE iv = ''30 days'' GROUP BY a / 10, iv', 'a / 10, max(b) FROM rgr_constant WHERE iv = ''30 days'' AND b = 2 GROUP BY a / 10, b, iv ORDER BY 1 LIMIT 7', 'count(DISTINCT b) FROM rgr_constant WHERE iv = ''30 days'' GROUP BY iv']) q;
SELECT '3'::money::numeric, sum(a) FROM rgr_constant GROUP BY '3'::money;
SET enable_hashagg = off;
SELECT rgr_plan FROM rgr_plan('SELECT ''one'' AS k, b, sum(a) FROM rgr_constant WHERE b = 2 GROUP BY 1, 2') WHERE rgr_plan !~ 'Group Key';
SELECT 'one' AS k, b, sum(a) FROM rgr_constant WHERE b = 2 GROUP BY 1, 2;
SELECT b, sum(a) FROM rgr_constant WHERE b = 7 GROUP BY b;
RESET enable_hashagg;
DROP TABLE rgr_constant;
-- values that are equal and look different, as another key says: what is shown is of the group
CREATE TABLE rgr_forms (a numeric, b int, c int, x numeric, v bpchar, big bpchar, f float8, PRIMARY KEY (a, b, c)) USING rose;
ALTER TABLE rgr_forms SET (autovacuum_enabled = off);
CREATE TABLE rgr_heap_forms (LIKE rgr_forms INCLUDING ALL) USING heap;
CALL rgr_both($$INSERT INTO @_forms SELECT round(i / 500, b), b, i, round((ARRAY[1, 0, -20, 7, NULL])[i % 5 + 1], b), chr(97 + i % 3) || repeat(' ', b), repeat('long ' || i % 3, 700) || repeat(' ', b * 300),
	CASE WHEN b % 2 = 0 THEN -0.0::float8 ELSE 0 END FROM generate_series(1, 4000) i, LATERAL (SELECT i * 7 % 4 AS b) s$$);
ALTER TABLE rgr_forms ALTER big SET (n_distinct = 12);
SELECT rose.merge('rgr_forms');
ANALYZE rgr_forms;
CREATE TABLE rgr_forms_queries AS SELECT q FROM unnest(ARRAY['a, b, count(*) FROM @_forms GROUP BY a, b', 'x, b, count(*) FROM @_forms GROUP BY x, b', 'v, b, sum(c) FROM @_forms GROUP BY v, b', 'b, octet_length(big), md5(big), count(*) FROM @_forms GROUP BY big, b',
	'x, scale(x), count(*) FROM @_forms GROUP BY 1, 2', 'x * 2, b, count(*) FROM @_forms GROUP BY x * 2, b', 'x, v, f, b, count(*) FROM @_forms GROUP BY x, v, f, b', 'f, b, max(c) FROM @_forms GROUP BY f, b',
	'x, b, count(DISTINCT c % 20), count(*) FROM @_forms GROUP BY x, b', 'a, b, x, count(*) FROM @_forms GROUP BY a, b, x', 'x, c % 100, v, count(*) FROM @_forms GROUP BY x, c % 100, v']) q;
SELECT sum(rgr_same('SELECT ' || q)) FROM rgr_forms_queries;
SET rose.aggregate_sample = 0;
SELECT sum(rgr_same('SELECT ' || q)) FROM rgr_forms_queries;
CALL rgr_both('UPDATE @_forms SET x = round(x, 5 - b) WHERE b = 1');
SET rose.vector_rows = 7;
SELECT sum(rgr_same('SELECT ' || q)) FROM rgr_forms_queries;
RESET rose.vector_rows;
RESET rose.aggregate_sample;
SELECT sum(rgr_same('SELECT ' || q)) FROM rgr_forms_queries;
DROP TABLE rgr_forms, rgr_heap_forms, rgr_forms_queries;
DROP TABLE rgr, rgr_heap, rgr_queries, rgr_times, rgr_many, rgr_many_heap, rgr_wrong, rgr_float, rgr_sums, rgr_other, rgr_parts, rgr_secret, rgr_ordered, rgr_single, rgr_answers, rgr_pairs;
DROP SEQUENCE rgr_seq;
DEALLOCATE rgr_q;
DROP FUNCTION rgr_said, rgr_plan, rgr_same, rgr_all_same, rgr_how, rgr_states, rgr_many_same, rgr_leak, rgr_single, rgr_chosen, rgr_choices;
DROP PROCEDURE rgr_both;
DROP DOMAIN rgr_domain;
DROP TYPE rgr_mood;
DROP ROLE rgr_user;
