-- Aggregates of distinct values over a Rose Aggregate. The same as row by row, and as of heap, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE DOMAIN rdi_domain AS int4 CHECK (value > -1000);
CREATE TABLE rdi (a int, b int, i2 int2, gone text, i8 int8, o oid, d date, ts timestamp, u bool, ch "char", f float8, r float4, n numeric, t text, v varchar(20), p char(8), g uuid, y bytea, j jsonb, dom rdi_domain, iv interval, c int8, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rdi DROP COLUMN gone;
ALTER TABLE rdi SET (autovacuum_enabled = off);
CREATE TABLE rdi_heap (LIKE rdi INCLUDING ALL) USING heap;

-- the same to both
CREATE PROCEDURE rdi_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rdi');
	EXECUTE replace(statement, '@', 'rdi_heap');
END $$;
CREATE FUNCTION rdi_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rdi_said(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	said text[];
BEGIN
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[SQLSTATE, SQLERRM];
END $$;
-- a query of @: by Rose Aggregate, in much memory and in none, as core sorts and as it need not, or had better not have begun; by core's aggregates of the same rows; and of heap
CREATE FUNCTION rdi_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	vectors text[] := rdi_said(replace(query, '@', 'rdi'));
	parts text[];
	others text[];
	rows text[];
	heap text[] := rdi_said(replace(query, '@', 'rdi_heap'));
BEGIN
	IF query !~ '777' AND NOT EXISTS (SELECT FROM rdi_plan(replace(query, '@', 'rdi')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.aggregate_memory = '4kB';
	parts := rdi_said(replace(query, '@', 'rdi'));
	SET LOCAL rose.aggregate_sample = 1000000;
	others := rdi_said(replace(query, '@', 'rdi'));
	SET LOCAL rose.aggregate_memory = -1;
	IF others IS DISTINCT FROM vectors OR rdi_said(replace(query, '@', 'rdi')) IS DISTINCT FROM vectors THEN
		RAISE EXCEPTION E'%\nvectors %\nwith a choice %\nor %', query, vectors, others, rdi_said(replace(query, '@', 'rdi'));
	END IF;
	SET LOCAL rose.aggregate_sample = 300;
	others := rdi_said(replace(query, '@', 'rdi'));
	IF others IS DISTINCT FROM vectors THEN
		RAISE EXCEPTION E'%\nvectors %\nbegun %', query, vectors, others;
	END IF;
	SET LOCAL rose.aggregate_sample = -1;
	SET LOCAL rose.enable_aggregate = off;
	rows := rdi_said(replace(query, '@', 'rdi'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors IS DISTINCT FROM rows OR vectors IS DISTINCT FROM parts OR vectors IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %\nparts %', query, vectors, rows, heap, parts;
	END IF;
	RETURN coalesce(array_length(vectors, 1), 0);
END $$;
CREATE TABLE rdi_queries (n serial, q text);
-- of each type; without groups, by a column, by two, by what is counted itself
INSERT INTO rdi_queries (q)
	SELECT 'SELECT ' || CASE WHEN keys = '' THEN '' ELSE shown || ', ' END || 'count(DISTINCT ' || c || ')' || h.list || ' FROM @' || cond || CASE WHEN keys = '' THEN '' ELSE ' GROUP BY ' || keys END || hav.condition
	FROM unnest(ARRAY['i2', 'i8', 'o', 'd', 'ts', 'u', 'ch', 'f', 'r', 'n', 't', 'v', 'p', 'g', 'y', 'j', 'dom', 'iv', 'a']) c,
	(VALUES ('', ''), ('u, ch', 'u, ch')) k (keys, shown),
	(VALUES ('', ''), (', 1', ' HAVING count(DISTINCT $) > 2')) h (list, cond_of), LATERAL (SELECT list, replace(cond_of, '$', c) AS condition) hav,
	(VALUES (''), (' WHERE c % 7 <> 3 AND a >= 2')) w (cond) WHERE h.list = '' OR w.cond = '' AND c < 'n';
INSERT INTO rdi_queries (q) VALUES ('SELECT sum(DISTINCT i2), avg(DISTINCT i2), count(DISTINCT i2), min(i2), max(i2) FROM @'), ('SELECT u, sum(DISTINCT i8), avg(DISTINCT i8), bit_or(i8), bit_and(i8), max(i8) FROM @ GROUP BY u'),
	('SELECT count(DISTINCT i2) * 2 + 1, CASE WHEN count(DISTINCT i2) > 3 THEN u END FROM @ GROUP BY u'), ('SELECT 100 / (count(DISTINCT i2) - 20) FROM @'), ('SELECT 1 / (count(DISTINCT u) - 2) FROM @ GROUP BY a'),
	('SELECT t, count(DISTINCT i2) AS x FROM @ GROUP BY t ORDER BY x DESC, 1 LIMIT 3'), ('SELECT a FROM @ GROUP BY a HAVING count(DISTINCT u) = (SELECT 2)'),
	('SELECT v::text, count(DISTINCT i2) FROM @ GROUP BY v::text'), ('SELECT count(DISTINCT v::text) FROM @'), ('SELECT rank() OVER (ORDER BY count(DISTINCT i2), a) FROM @ GROUP BY a'),
	('SELECT a, count(DISTINCT i2) FROM @ WHERE u AND a < 777 GROUP BY u, a'), ('SELECT x, (SELECT count(DISTINCT i2) FROM @ WHERE a > x) FROM generate_series(0, 3) x'),
	('SELECT count(DISTINCT u) FROM @ WHERE c + 0 < 50 AND 1 / (c - 8) > 0 AND c < 777');
-- beside others: numbers, sums, averages, what is least, bits; with NULLs only, with FILTER, in expressions and conditions
INSERT INTO rdi_queries (q)
	SELECT 'SELECT ' || CASE WHEN keys = '' THEN '' ELSE keys || ', ' END || list || ' FROM @' || cond || CASE WHEN keys = '' THEN '' ELSE ' GROUP BY ' || keys || hav END
	FROM unnest(ARRAY['count(DISTINCT i2), count(*)', 'count(i2), count(DISTINCT i2), count(c), count(1)', 'sum(i2), avg(i2), sum(a), avg(a), count(DISTINCT t), avg(b) * 2, count(*) - count(DISTINCT t)', 'count(DISTINCT i8), min(t), max(t), min(c), max(ts), min(d), max(o)',
		'bool_and(u), bool_or(u), bit_and(a), bit_or(c), count(DISTINCT v)', 'count(DISTINCT p), count(*) FILTER (WHERE c > 500), sum(i2) FILTER (WHERE u), avg(a) FILTER (WHERE false), max(t) FILTER (WHERE a > 3)', 'sum(DISTINCT i2), sum(i2), min(i2), max(i2), avg(DISTINCT i2)']) list,
	unnest(ARRAY['', 'a', 'u, ch']) keys, unnest(ARRAY['', ' WHERE (c % 7) # 0 <> 3 AND a >= 2', ' WHERE c = 777', ' WHERE c IS NULL AND a < 777']) cond, unnest(ARRAY['', ' HAVING count(*) > 90 AND sum(a) IS NOT NULL']) hav WHERE hav = '' OR keys = 'a' AND cond = '';
INSERT INTO rdi_queries (q) VALUES ('SELECT u, count(*) AS n, count(DISTINCT i2) FROM @ GROUP BY u ORDER BY count(*) DESC, u'), ('SELECT a, rank() OVER (ORDER BY count(*), a), count(DISTINCT u) FROM @ GROUP BY a'), ('SELECT count(*), count(DISTINCT i2) FROM @ HAVING count(*) > 5'), ('SELECT count(*), count(c), count(DISTINCT i2), sum(a), avg(a), min(t) FROM @ WHERE c % 7 < 0'),
	('SELECT x, (SELECT count(*) * 100 + count(DISTINCT i2) FROM @ WHERE a > x) FROM generate_series(0, 3) x'), ('SELECT sum(n), max(m) FROM (SELECT a, count(*) AS n, count(DISTINCT i2) AS m FROM @ GROUP BY a) x'),
	('SELECT y.a, y.n FROM (SELECT a, count(*) AS n, count(DISTINCT i2) AS m FROM @ GROUP BY a) y JOIN generate_series(1, 5) g ON y.a = g WHERE y.m > 2');
-- of expressions
INSERT INTO rdi_queries (q) VALUES ('SELECT count(DISTINCT i2 + 1) FROM @'), ('SELECT count(DISTINCT lower(t)), count(*), sum(i2 * 2), count(t || a) FROM @'), ('SELECT a % 3, count(DISTINCT i2 / 2), min(i2 / 2), avg(b + 1) FROM @ GROUP BY a % 3'),
	('SELECT a % 3 + 1, count(DISTINCT upper(v)), min(t || a), max(d) FROM @ WHERE c > 5 GROUP BY a % 3 HAVING count(DISTINCT upper(v)) > 1'), ('SELECT upper(v), count(DISTINCT upper(v)), count(*) FROM @ GROUP BY upper(v)'),
	('SELECT u, count(DISTINCT CASE WHEN c > 777 THEN i2 END) FROM @ GROUP BY u'), ('SELECT u, count(DISTINCT i2 % 3), sum(DISTINCT i2 % 3) FROM @ GROUP BY u'), ('SELECT count(DISTINCT 10 / (i2 - 4)) FROM @');
CREATE FUNCTION rdi_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || sum(groups) FROM (SELECT rdi_same(q) AS groups FROM rdi_queries ORDER BY n) x
$$;

-- in memory; in a run; merged; merged, with newer versions above
CALL rdi_both($$INSERT INTO @ SELECT i % 10, i / 10, CASE WHEN i % 11 > 0 THEN i / 150 END, i % 13 * 1000000000000, (i % 3 + 2147483646::int8)::oid, date '2020-01-01' + i % 17, timestamp '2020-01-01' + i % 7 * interval '1 day',
	CASE WHEN i % 3 > 0 THEN i % 2 = 0 END, chr(97 + i % 5)::"char", (ARRAY['NaN', '0', '-0', '1.5', '-Infinity', NULL])[i % 6 + 1]::float8, (ARRAY['NaN', '0', '-0', '1.1', NULL])[i % 5 + 1]::float4,
	(ARRAY['1', '1.0', '1.00', '0', '0.000', 'NaN', '-12345678.901', '-12345678.9010', '1e20', NULL])[i % 10 + 1]::numeric, CASE WHEN i % 9 > 0 THEN 'text ' || i % 13 END, 'v' || repeat('x', i % 4), repeat('p', i % 3),
	md5((i % 6)::text)::uuid, substring('\x000102030405'::bytea FROM 1 FOR i % 5), (ARRAY['{"a": 1}', '{"a": 1.0}', '[]', NULL])[i % 4 + 1]::jsonb, i % 9, (ARRAY['1 month', '30 days', '720 h', '1 s'])[i % 4 + 1]::interval,
	CASE WHEN i % 8 > 0 THEN i END FROM generate_series(1, 2000) i$$);
ANALYZE rdi;
SELECT rdi_all_same();
SELECT rose.merge('rdi');
SELECT rdi_all_same();
CALL rdi_both($$UPDATE @ SET t = 'changed', i2 = i2 + 1, f = -f, n = -n WHERE a = 3 AND c % 5 = 0$$);
CALL rdi_both($$DELETE FROM @ WHERE a = 4 AND c % 5 < 3$$);
SELECT rose.spill('rdi');
CALL rdi_both($$UPDATE @ SET c = -c, p = 'pp', v = 'w' WHERE a = 6 AND b < 40$$);
CALL rdi_both($$INSERT INTO @ (a, b) VALUES (-1, 0), (5, 1000), (100, -1)$$);
SELECT rdi_all_same();

-- plans; since 16 core sorts groups by what is distinct, too, instead of the values of each: these are those without that
CREATE PROCEDURE rdi_presorted(value text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config(name, value, false) FROM pg_settings WHERE name = 'enable_presorted_aggregate';
END $$;
CALL rdi_presorted('off');
EXPLAIN (COSTS off) SELECT count(DISTINCT i2) FROM rdi;
EXPLAIN (COSTS off) SELECT t, count(DISTINCT i2), min(i2) FROM rdi WHERE c > 5 GROUP BY t HAVING count(DISTINCT i2) > 1;
EXPLAIN (COSTS off, VERBOSE) SELECT u, count(*), count(DISTINCT i2), sum(a) + 1 FROM rdi GROUP BY u HAVING avg(a) > 1;
CALL rdi_presorted('on');
-- core's: of two values, beside sums whose states are not values, of some rows, in an order, where equal values show how they look, by what it cannot group
SELECT q FROM unnest(ARRAY['count(DISTINCT i2), count(DISTINCT u)', 'count(DISTINCT i2), sum(f)', 'count(DISTINCT i2), sum(i8)', 'count(DISTINCT i2), min(r)', 'count(DISTINCT i2), stddev(i2)', 'count(DISTINCT i2) FILTER (WHERE a > 3)', 'array_agg(DISTINCT i2)',
	'string_agg(DISTINCT t, '','')', 'sum(DISTINCT n)', 'sum(DISTINCT f)', 'max(DISTINCT p)', 'count(DISTINCT rdi)', 'count(DISTINCT (a, u))', 'count(DISTINCT random())']) q
	WHERE EXISTS (SELECT FROM rdi_plan('SELECT ' || q || ' FROM rdi') line WHERE line ~ 'Rose Aggregate');
SELECT q FROM unnest(ARRAY['rdi', 'ROLLUP (u)', 'a, b', 'random()']) q
	WHERE EXISTS (SELECT FROM rdi_plan('SELECT count(DISTINCT i2) FROM rdi GROUP BY ' || q) line WHERE line ~ 'Rose Aggregate');
-- nor if nearly each row is one of its own
SELECT count(*) FROM rdi_plan('SELECT count(DISTINCT c) FROM rdi') line WHERE line ~ 'Rose Aggregate';
-- of no rows
SELECT count(DISTINCT i2), sum(DISTINCT i2) FROM rdi WHERE a > 1000 AND a < 1000 + i2 * 0;

-- far more values than were expected, and more than there is memory for: rows are passed on
CREATE TABLE rdi_many (id int PRIMARY KEY, k int, x int) USING rose;
ALTER TABLE rdi_many ALTER x SET (n_distinct = 100);
INSERT INTO rdi_many SELECT i, i % 3, i * 7919 % 40009 FROM generate_series(1, 40000) i;
SELECT rose.merge('rdi_many');
ANALYZE rdi_many;
SELECT count(DISTINCT x) FROM rdi_many;
SELECT k, count(DISTINCT x), max(x) FROM rdi_many GROUP BY k ORDER BY k;
SELECT k, count(*), count(DISTINCT x), sum(x) FROM rdi_many GROUP BY k ORDER BY k;
-- if they all come once, core need not sort them
CALL rdi_presorted('off');
EXPLAIN (COSTS off) SELECT k, count(*), count(DISTINCT x) FROM rdi_many GROUP BY k;
CALL rdi_presorted('on');
CREATE FUNCTION rdi_chosen(query text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(substring(line FROM 'Chosen: \w+'), ' ') FROM rdi_plan(query, 'ANALYZE, COSTS off, TIMING off, SUMMARY off') line
$$;
SELECT rdi_chosen('SELECT count(DISTINCT x) FROM rdi_many') AS plain, rdi_chosen('SELECT k, count(*), count(DISTINCT x % 4) FROM rdi_many GROUP BY k') AS groups;
SET rose.aggregate_memory = '16kB';
SELECT rdi_chosen('SELECT count(DISTINCT x) FROM rdi_many') AS plain, rdi_chosen('SELECT k, count(*), count(DISTINCT x % 4) FROM rdi_many GROUP BY k') AS groups;
SELECT count(DISTINCT x) FROM rdi_many WHERE id > 0;
SELECT 80018 / count(DISTINCT x) FROM rdi_many;
-- begun, and then by rows
SET rose.aggregate_sample = 5000;
SELECT rdi_chosen('SELECT count(DISTINCT x) FROM rdi_many'), rdi_chosen('SELECT k, count(DISTINCT x) FROM rdi_many GROUP BY k');
SELECT 80018 / count(DISTINCT x) FROM rdi_many;
RESET rose.aggregate_sample;
SELECT lo, n, d FROM generate_series(0, 39000, 13000) lo, LATERAL (SELECT count(*) AS n, count(DISTINCT x) AS d FROM rdi_many WHERE id > lo) s;
SELECT lo, n, d FROM generate_series(39900, 39999, 40) lo, LATERAL (SELECT count(*) AS n, count(DISTINCT x) AS d FROM rdi_many WHERE id > lo) s;
SELECT k, count(DISTINCT x), max(x) FROM rdi_many GROUP BY k ORDER BY k;
SET rose.aggregate_sample = 0;
SELECT k, count(DISTINCT x), max(x) FROM rdi_many GROUP BY k ORDER BY k;
SELECT count(*) FROM rdi_plan('SELECT count(DISTINCT x) FROM rdi_many', 'ANALYZE, COSTS off, TIMING off, SUMMARY off') line WHERE line ~ 'Groups: .*passed=[1-9]';
RESET rose.aggregate_sample;
SELECT count(*) FROM rdi_plan('SELECT count(DISTINCT x % 3000) FROM (SELECT x FROM rdi_many OFFSET 0) s') line WHERE line ~ 'Rose Aggregate';
RESET rose.aggregate_memory;

-- several processes
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
ALTER TABLE rdi_many SET (parallel_workers = 2);
SET rose.interval_leaves = 1;
SET max_parallel_workers_per_gather = 2;
CALL rdi_presorted('off');
EXPLAIN (COSTS off) SELECT k, count(DISTINCT x) FROM rdi_many GROUP BY k;
CALL rdi_presorted('on');
SELECT k, count(DISTINCT x), max(x) FROM rdi_many GROUP BY k ORDER BY k;
SELECT count(DISTINCT x) FROM rdi_many WHERE id % 2 = 0;
SELECT count(*), count(DISTINCT x), avg(k) FROM rdi_many;
RESET max_parallel_workers_per_gather;
-- a plan that is kept, and run again
PREPARE rdi_prepared AS SELECT u, count(DISTINCT i2) FROM rdi WHERE a > $1 GROUP BY u ORDER BY u;
SET plan_cache_mode = force_generic_plan;
EXECUTE rdi_prepared (5);
EXECUTE rdi_prepared (0);
RESET plan_cache_mode;
DROP TABLE rdi, rdi_heap, rdi_queries, rdi_many;
DROP FUNCTION rdi_plan, rdi_said, rdi_same, rdi_all_same, rdi_chosen;
DROP PROCEDURE rdi_both, rdi_presorted;
DROP DOMAIN rdi_domain;
