-- Rose Choice: groups that fit into memory, or come in order, are finished without core's Finalize Aggregate. The same as with it, as row by row, and as of heap.
SET client_min_messages = warning;
SET rose.enable_scan = on;
SET max_parallel_workers_per_gather = 0;
CREATE TYPE rwh_mood AS ENUM ('sad', 'glad');
CREATE TABLE rwh_heap (id int PRIMARY KEY, k int, f8 float8, f4 float4, num numeric, day date, ts timestamptz, t text, v varchar(20), c char(6), by bytea, u uuid, i2 int2, i4 int4, i8 int8, b bool, m rwh_mood, big text) USING heap;
CREATE TABLE rwh (LIKE rwh_heap INCLUDING ALL) USING rose;
-- as of a large table
SET rose.aggregate_sample = 1000000;
-- of most keys there is one row, or are two; some are equal, and look different
INSERT INTO rwh_heap SELECT i, CASE WHEN i % 50 > 0 THEN i * 7919 % 2003 END, CASE i % 5 WHEN 0 THEN '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' ELSE i / 7.0 END, i % 250 / 3.0, ((i % 400) * 1.5)::numeric(20, 2) * CASE WHEN i % 3 = 0 THEN 1.000 ELSE 1 END,
	date '2020-01-01' + i % 600, timestamptz '2020-01-01 00:00+00' + i * interval '17 min', CASE WHEN i % 7 > 0 THEN 't' || i % 1501 END, 'v' || i % 1103, 'c' || i % 100, decode(md5((i / 2)::text), 'hex'), md5(i::text)::uuid,
	i % 2400, i * 31, i * 10000000000, i % 3 = 0, (ARRAY['sad', 'glad'])[i % 2 + 1]::rwh_mood, CASE WHEN i % 400 = 0 THEN repeat(md5(i::text), 300) ELSE 'small' END FROM generate_series(1, 2500) i;
INSERT INTO rwh SELECT * FROM rwh_heap;
ANALYZE rwh;
CREATE FUNCTION rwh_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE 'SELECT count(*) || '' '' || md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")) FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN division_by_zero OR numeric_value_out_of_range THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION rwh_plan(query text, options text = 'COSTS off, ANALYZE, BUFFERS off, TIMING off, SUMMARY off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
-- who finished the groups
CREATE FUNCTION rwh_finished(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN string_agg(substring(line FROM 'Chosen: \w+|Finalized: \w+'), ' ') FROM rwh_plan(replace(query, '@', 'rwh')) line;
EXCEPTION WHEN division_by_zero OR numeric_value_out_of_range THEN
	RETURN SQLERRM;
END $$;
-- finished here; in parts, by core; begun, and then by rows; by rows; and heap's
CREATE FUNCTION rwh_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	rose text := replace(query, '@', 'rwh');
	here text := rwh_said(rose);
	others text[];
BEGIN
	SET LOCAL rose.aggregate_memory = '4kB';
	others := others || rwh_said(rose);
	SET LOCAL rose.aggregate_memory = '64kB';
	others := others || rwh_said(rose);
	SET LOCAL rose.aggregate_memory = -1;
	SET LOCAL rose.aggregate_sample = 300;
	others := others || rwh_said(rose);
	SET LOCAL rose.aggregate_sample = 1000000;
	SET LOCAL rose.enable_aggregate = off;
	others := others || rwh_said(rose);
	SET LOCAL rose.enable_aggregate = on;
	others := others || rwh_said(replace(query, '@', 'rwh_heap'));
	IF others IS DISTINCT FROM array_fill(here, ARRAY[5]) THEN
		RAISE EXCEPTION E'%\nhere %\nothers %', query, here, others;
	END IF;
	RETURN here;
END $$;
CREATE TABLE rwh_queries (q text);
INSERT INTO rwh_queries SELECT 'SELECT ' || keys || ', ' || list || ' FROM @ ' || cond || ' GROUP BY ' || keys
	FROM unnest(ARRAY['k', 'f8', 'f4', 'num', 'day', 'ts', 't', 'v, b', 'c, m', 'by', 'u', 'i2', 'k + 1, t', 'big, k']) WITH ORDINALITY a(keys, n),
		unnest(ARRAY['count(*), sum(i2), avg(i4), min(k), max(day)', 'sum(i8), avg(i8), sum(num), avg(num), count(t)', 'min(t), max(v), bool_and(b), bit_or(i4), sum(k) FILTER (WHERE b)']) WITH ORDINALITY b(list, m),
		unnest(ARRAY['', 'WHERE i4 % 11 < 3']) WITH ORDINALITY c(cond, l) WHERE (n + m + l) % 2 = 0;
INSERT INTO rwh_queries SELECT unnest(ARRAY['SELECT k, avg(f4), sum(f8), max(f8), min(f4) FROM @ WHERE id < 900 GROUP BY k', 'SELECT t || sum(i4), count(*) * 2 + min(k) FROM @ GROUP BY t HAVING avg(i8) > 10000000000 AND count(*) < 3',
	'SELECT k, 1 / (count(*) - 5) FROM @ GROUP BY k', 'SELECT k FROM @ GROUP BY k HAVING 1 / (count(*) - 1) > 0', 'SELECT k, sum(2147483647 + i4) FROM @ WHERE id > 5 GROUP BY k',
	'SELECT k % 4, rank() OVER (ORDER BY count(*) DESC, k), sum(sum(i2)) OVER (PARTITION BY k % 4 ORDER BY k) FROM @ GROUP BY k', 'SELECT k, count(*) FROM @ WHERE id < 0 GROUP BY k', 'SELECT id / 2, sum(i8) FROM @ GROUP BY id / 2',
	'SELECT lo, k, s FROM generate_series(1, 4) lo, LATERAL (SELECT k % lo AS k, sum(i4) + lo AS s FROM @ WHERE id % 7 > lo GROUP BY k % lo HAVING count(*) > lo * 10) x',
	'SELECT lo, k, s FROM generate_series(1, 3) lo, LATERAL (SELECT k, sum(i8) AS s FROM @ GROUP BY k HAVING count(*) > lo) x', 'SELECT lo, k, s FROM generate_series(1, 3) lo, LATERAL (SELECT k, sum(i8) AS s, count(*) + lo AS c FROM @ GROUP BY k) x']);
-- the first of many groups
INSERT INTO rwh_queries SELECT unnest(ARRAY['SELECT k, count(*) FROM @ GROUP BY k ORDER BY count(*) DESC, k LIMIT 5', 'SELECT c, b, count(t), max(i4) FROM @ GROUP BY c, b ORDER BY count(t), c, b LIMIT 7 OFFSET 3', 'SELECT c, count(*) FILTER (WHERE b) AS n, avg(i8) FROM @ GROUP BY c ORDER BY n DESC, c DESC LIMIT 1',
	'SELECT u, count(*) FROM @ GROUP BY u ORDER BY count(*), u LIMIT 3', 'SELECT v FROM @ GROUP BY v ORDER BY count(*) DESC, v LIMIT 20', 'SELECT m, count(*) FROM @ GROUP BY m ORDER BY 2 DESC, 1 LIMIT 100', 'SELECT c, count(*) FROM @ GROUP BY c ORDER BY count(*) DESC, c OFFSET 90 LIMIT 5',
	'SELECT k, count(*), 1 / (count(*) - 1) FROM @ GROUP BY k ORDER BY count(*) DESC, k LIMIT 5', 'SELECT k, count(*) FROM @ GROUP BY k HAVING 1 / (count(*) - 1) > -1 ORDER BY count(*) DESC, k LIMIT 5', 'SELECT k, count(*), rank() OVER (ORDER BY k) FROM @ GROUP BY k ORDER BY count(*) DESC, k LIMIT 5',
	'SELECT DISTINCT count(*) FROM @ GROUP BY c ORDER BY count(*) DESC LIMIT 2', 'SELECT c, count(*) FROM @ GROUP BY c ORDER BY count(*) + 0 DESC, c LIMIT 5', 'SELECT c, count(*) FROM @ GROUP BY c ORDER BY 2 DESC, 1 FETCH FIRST 3 ROWS ONLY', 'SELECT b, count(*) FROM @ GROUP BY b ORDER BY 2 DESC FETCH FIRST 1 ROWS WITH TIES',
	'SELECT count(*), sum(n) FROM (SELECT c, count(*) AS n FROM @ GROUP BY c ORDER BY count(*) DESC, c LIMIT 50) x', 'SELECT lo, c, n FROM generate_series(1, 3) lo, LATERAL (SELECT c, count(*) AS n FROM @ WHERE i4 % 5 <> lo GROUP BY c ORDER BY n DESC, c LIMIT 2) x',
	'SELECT k, count(*) FROM @ GROUP BY k ORDER BY count(*) DESC, k LIMIT (SELECT 5)', 'SELECT k, count(*) FROM @ GROUP BY k ORDER BY count(*) DESC, k LIMIT 0']);
SELECT count(*), count(DISTINCT rwh_same), min(rwh_same) FILTER (WHERE rwh_same !~ '\d') FROM (SELECT rwh_same(q) FROM rwh_queries) x;
SELECT rwh_finished(q), count(*) FROM rwh_queries GROUP BY 1 ORDER BY 1;
SELECT rose.merge('rwh');
SELECT count(*), count(DISTINCT rwh_same) FROM (SELECT rwh_same(q) FROM rwh_queries) x;
EXPLAIN (COSTS off) SELECT k, count(*), avg(i8) FROM rwh GROUP BY k HAVING count(*) > 1 ORDER BY 2 DESC, 1 LIMIT 3;
SELECT k, count(*), avg(i8) FROM rwh GROUP BY k HAVING count(*) > 1 ORDER BY 2 DESC, 1 LIMIT 3;
SELECT k, count(*), avg(i8) FROM rwh_heap GROUP BY k HAVING count(*) > 1 ORDER BY 2 DESC, 1 LIMIT 3;
SELECT line FROM rwh_plan('SELECT c, b, count(*) FROM rwh GROUP BY c, b ORDER BY count(*) DESC, c LIMIT 3') line WHERE line ~ 'First';
-- also what does not fit; what is equal and has other bytes is core's
SET rose.aggregate_memory = '64kB';
SELECT rwh_finished('SELECT k % 100, count(*) FROM rwh GROUP BY k % 100') AS fits, rwh_finished('SELECT k % 2000, count(*) FROM rwh GROUP BY k % 2000') AS does_not;
SET rose.aggregate_memory = -1;
SELECT rwh_finished('SELECT (i4 % 9)::text::interval, count(*) FROM rwh GROUP BY 1') AS other_bytes;
-- in the order of the key there may be more groups than memory
CREATE TABLE rwh_ordered (a int, b int, n int8, t text, PRIMARY KEY (a, b)) USING rose;
INSERT INTO rwh_ordered SELECT i / 2, i % 2, i, 'text ' || i FROM generate_series(1, 6000) i;
SELECT rose.merge('rwh_ordered');
ANALYZE rwh_ordered;
SET rose.aggregate_memory = '16kB';
SELECT rwh_finished('SELECT a, sum(n), min(t) FROM rwh_ordered GROUP BY a ORDER BY a') AS ordered;
SELECT count(*), sum(s), min(m), bool_and(s = 4 * a + 1 OR a IN (0, 3000)) FROM (SELECT a, sum(n) AS s, min(t) AS m FROM rwh_ordered GROUP BY a ORDER BY a) x;
RESET rose.aggregate_memory;
SELECT a, sum(n), min(t) FROM rwh_ordered GROUP BY a HAVING a % 700 = 5 ORDER BY a;
-- plans that are kept, parameters, cursors
SET plan_cache_mode = force_generic_plan;
PREPARE rwh_p (int, int) AS SELECT k, count(*), sum(i8) FROM rwh WHERE id > $1 GROUP BY k HAVING count(*) > $2 ORDER BY k DESC NULLS LAST LIMIT 3;
EXECUTE rwh_p (3, 1);
EXECUTE rwh_p (2400, 0);
EXECUTE rwh_p (NULL, 0);
EXECUTE rwh_p (0, 100);
ALTER TABLE rwh ADD COLUMN later int;
EXECUTE rwh_p (2400, 0);
RESET plan_cache_mode;
BEGIN;
DECLARE rwh_c SCROLL CURSOR FOR SELECT k, count(*) FROM rwh GROUP BY k ORDER BY k;
FETCH 2 FROM rwh_c;
DELETE FROM rwh WHERE k < 100;
FETCH 2 FROM rwh_c;
FETCH BACKWARD 3 FROM rwh_c;
SAVEPOINT s;
SELECT k, count(*) FROM rwh GROUP BY k ORDER BY k LIMIT 2;
ROLLBACK TO s;
SELECT k, count(*) FROM rwh GROUP BY k ORDER BY k LIMIT 2;
ROLLBACK;
-- who may not execute an aggregate's functions is told so
CREATE ROLE rwh_user;
GRANT SELECT ON rwh TO rwh_user;
BEGIN;
REVOKE EXECUTE ON FUNCTION avg(int4) FROM PUBLIC;
SET LOCAL ROLE rwh_user;
SELECT avg(i4) FROM rwh GROUP BY k;
ROLLBACK;
DROP TABLE rwh, rwh_heap, rwh_queries, rwh_ordered;
DROP FUNCTION rwh_said, rwh_plan, rwh_finished, rwh_same;
DROP TYPE rwh_mood;
DROP ROLE rwh_user;
