-- Rose Aggregate: sums and averages of numerics. The same as row by row, and as of heap, digit by digit, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE TABLE rnu (a int, b int, n numeric, money numeric(15,2), fine numeric, big numeric, odd numeric, c int, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rnu SET (autovacuum_enabled = off);
CREATE TABLE rnu_heap (LIKE rnu INCLUDING ALL) USING heap;
CREATE PROCEDURE rnu_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rnu');
	EXECUTE replace(statement, '@', 'rnu_heap');
END $$;
CREATE FUNCTION rnu_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rnu_said(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	said text[];
BEGIN
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[SQLSTATE, SQLERRM];
END $$;
-- a query of @: by Rose Aggregate, in much memory and in none; by core's aggregates of the same rows; and of heap
CREATE FUNCTION rnu_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	vectors text[] := rnu_said(replace(query, '@', 'rnu'));
	parts text[];
	rows text[];
	heap text[] := rnu_said(replace(query, '@', 'rnu_heap'));
BEGIN
	IF NOT EXISTS (SELECT FROM rnu_plan(replace(query, '@', 'rnu')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.aggregate_memory = '4kB';
	parts := rnu_said(replace(query, '@', 'rnu'));
	SET LOCAL rose.aggregate_memory = -1;
	SET LOCAL rose.enable_aggregate = off;
	rows := rnu_said(replace(query, '@', 'rnu'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors IS DISTINCT FROM rows OR vectors IS DISTINCT FROM parts OR vectors IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %\nparts %', query, vectors, rows, heap, parts;
	END IF;
	RETURN coalesce(array_length(vectors, 1), 0);
END $$;
CREATE TABLE rnu_queries (n serial, q text);
-- without groups, by the first column of the key, in which order they come, and by another one
INSERT INTO rnu_queries (q)
	SELECT 'SELECT ' || CASE WHEN keys = '' THEN '' ELSE keys || ', ' END || list || ' FROM @' || cond || CASE WHEN keys = '' THEN '' ELSE ' GROUP BY ' || keys END
	FROM unnest(ARRAY['sum(n), avg(n), count(n)', 'sum(money), avg(money), sum(money) * 2, max(c)', 'sum(fine), avg(fine)', 'sum(big), avg(big), sum(n)', 'sum(odd), avg(odd)', 'sum(n) FILTER (WHERE c > 500), avg(odd) FILTER (WHERE a > 3), count(*)']) list,
	unnest(ARRAY['', 'a', 'c % 7']) k (keys_of), LATERAL (SELECT CASE WHEN keys_of = 'c % 7' THEN 'seven' ELSE keys_of END AS keys) k2,
	unnest(ARRAY['', ' WHERE c % 7 <> 3 AND a >= 2', ' WHERE c % 7 < 0']) cond;
CREATE FUNCTION rnu_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || sum(groups) FROM (SELECT rnu_same(q) AS groups FROM rnu_queries ORDER BY n) x
$$;
CALL rnu_both('ALTER TABLE @ ADD COLUMN seven int');
-- few digits; money; more and more digits behind the point; so many before it that few of them fit; what is no number, and what is too long for all of that
CALL rnu_both($$INSERT INTO @ SELECT i % 10, i / 10, CASE WHEN i % 9 > 0 THEN (ARRAY[1, 1.0, 1.000, 0, 0.00, -12345678.901, 10000, 99999999.9999, -0.0001, 120000000])[i % 10 + 1] * (i % 4 - 1) END, (i * 7919 % 100003) / 100.0 - 300,
	CASE i % 6 WHEN 5 THEN 0 ELSE i * (0.1 ^ (i / 100))::numeric(40, 25) END, (ARRAY[9999999999999999, 10000000000000000, -9999999999999999999999999999, 1e28, 1e27 - 0.5, 5e26, 12345678901234567890.1234, -1])[i % 8 + 1] * CASE WHEN i % 3 = 0 THEN -1 ELSE 1 END,
	(ARRAY['NaN', '1.5', 'Infinity', '-Infinity', '1e300', '-1e300', '1e-300', NULL, '7', '0.00000000000000000000'])[CASE WHEN i % 10 IN (1, 2) THEN 2 WHEN i % 10 IN (3, 4) THEN 5 + i % 3 WHEN i % 10 = 5 THEN 3 WHEN i % 10 = 6 THEN 8 WHEN i % 10 = 7 THEN 10 ELSE i / 10 % 10 + 1 END]::numeric,
	i, i % 7 FROM generate_series(1, 2000) i$$);
ANALYZE rnu;
SELECT rnu_all_same();
SELECT rose.merge('rnu');
SELECT rnu_all_same();
CALL rnu_both($$UPDATE @ SET n = -n, big = big / 7, odd = -odd WHERE a = 3 AND c % 5 = 0$$);
CALL rnu_both($$DELETE FROM @ WHERE a = 4 AND c % 5 < 3$$);
SELECT rose.spill('rnu');
CALL rnu_both($$UPDATE @ SET money = NULL WHERE a = 6 AND b < 40$$);
SELECT rnu_all_same();
SET rose.vector_rows = 7;
SELECT rnu_all_same();
RESET rose.vector_rows;
EXPLAIN (COSTS off) SELECT seven, sum(n), avg(money) FROM rnu GROUP BY seven;
-- a sum that does not fit 128 bits of the finest part, and back
CREATE TABLE rnu_long (id int PRIMARY KEY, k int, v numeric) USING rose;
CREATE TABLE rnu_long_heap (LIKE rnu_long INCLUDING ALL) USING heap;
INSERT INTO rnu_long_heap SELECT i, i % 3, CASE WHEN i < 3000 THEN 9e27 WHEN i = 3500 THEN 0.0000000000000001 WHEN i > 3600 AND i < 6600 THEN -9e27 ELSE i END FROM generate_series(1, 8000) i;
INSERT INTO rnu_long SELECT * FROM rnu_long_heap;
ANALYZE rnu_long;
SELECT sum(v), avg(v) FROM rnu_long WHERE id < 3000;
SELECT sum(v), avg(v) FROM rnu_long;
SELECT sum(v), avg(v) FROM rnu_long_heap;
SELECT k, sum(v), avg(v) FROM rnu_long GROUP BY k ORDER BY k;
SELECT k, sum(v), avg(v) FROM rnu_long_heap GROUP BY k ORDER BY k;
-- sums that are no numeric on their way, and are one in the end, or none
CREATE TABLE rnu_huge (id int PRIMARY KEY, k int, v numeric) USING rose;
CREATE TABLE rnu_huge_heap (LIKE rnu_huge INCLUDING ALL) USING heap;
INSERT INTO rnu_huge_heap SELECT i, i % 3, CASE WHEN i % 1000 < 30 THEN (CASE WHEN i < 3000 THEN '' ELSE '-' END || '9e131071')::numeric ELSE i * 0.01 END FROM generate_series(0, 5999) i;
INSERT INTO rnu_huge SELECT * FROM rnu_huge_heap;
ANALYZE rnu_huge;
CREATE FUNCTION rnu_huge_sums() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH query IN ARRAY ARRAY['SELECT sum(v), avg(v) FROM @', 'SELECT k, sum(v), avg(v) FROM @ GROUP BY k', 'SELECT sum(v) FROM @ WHERE id < 3000', 'SELECT sum(v) FROM @ WHERE id < 3000 OR id = 9999', 'SELECT sum(v) FILTER (WHERE id < 1000 OR id >= 5000) FROM @'] LOOP
		RETURN NEXT (SELECT count(*) FROM rnu_plan(replace(query, '@', 'rnu_huge')) line WHERE line ~ 'Rose Aggregate') || ' ' ||
			(rnu_said(replace(query, '@', 'rnu_huge')) = rnu_said(replace(query, '@', 'rnu_huge_heap'))) || ' ' || left(rnu_said(replace(query, '@', 'rnu_huge'))::text, 120);
	END LOOP;
END $$;
SELECT rnu_huge_sums();
INSERT INTO rnu_huge VALUES (9999, 0, 'NaN');
INSERT INTO rnu_huge_heap VALUES (9999, 0, 'NaN');
SET rose.aggregate_memory = '4kB';
SET rose.vector_rows = 7;
SELECT rnu_huge_sums();
RESET rose.vector_rows;
RESET rose.aggregate_memory;
DROP FUNCTION rnu_huge_sums;
DROP TABLE rnu_huge, rnu_huge_heap;
-- rows that are passed on
SET rose.aggregate_sample = 0;
ALTER TABLE rnu_long ALTER v SET (n_distinct = 20), ALTER k SET (n_distinct = 3);
UPDATE rnu_long SET k = id / 2;
UPDATE rnu_long_heap SET k = id / 2;
ANALYZE rnu_long;
SET rose.aggregate_memory = '4kB';
SELECT count(*) FROM rnu_plan('SELECT k, sum(v) FROM rnu_long GROUP BY k', 'ANALYZE, COSTS off, TIMING off, SUMMARY off') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM (SELECT k, sum(v), avg(v) FROM rnu_long GROUP BY k EXCEPT SELECT k, sum(v), avg(v) FROM rnu_long_heap GROUP BY k) x;
RESET rose.aggregate_memory;
RESET rose.aggregate_sample;
DROP TABLE rnu, rnu_heap, rnu_queries, rnu_long, rnu_long_heap;
DROP FUNCTION rnu_plan, rnu_said, rnu_same, rnu_all_same;
DROP PROCEDURE rnu_both;
