-- Rose Aggregate with more groups than there is room for: rows of groups that do not fit go to tapes, and each group is given out once. The same as row by row, and as of heap. (Without ICU the answer is in rose_spill_1.out.)
SET client_min_messages = warning;
SET extra_float_digits = 1;
SET max_parallel_workers_per_gather = 0;
SELECT EXISTS (SELECT FROM pg_collation WHERE collname = 'en-x-icu') AS has_icu \gset
\if :has_icu
CREATE COLLATION rsp_nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION rsp_nocase FROM "C";
\endif
CREATE TABLE rsp (id int PRIMARY KEY, i8 int8, i2 int2, t text, n numeric, p char(12), f float8, r float4, g uuid, y bytea, d date, ts timestamp, u bool, ci text COLLATE rsp_nocase, c int, big text) USING rose;
ALTER TABLE rsp SET (autovacuum_enabled = off);
CREATE TABLE rsp_heap (LIKE rsp INCLUDING ALL) USING heap;
-- groups are far apart, with five rows or so each; equal values that look different; sums of floats that depend on the order
INSERT INTO rsp_heap SELECT i, k * 1000000007::int8, k % 3000, CASE WHEN k % 97 > 0 THEN repeat('text ', k % 9) || k END, CASE WHEN k % 89 > 0 THEN (k / 7.0)::numeric(20, 3) + (ARRAY['0', '0.0', '0.0000'])[i % 3 + 1]::numeric END,
	CASE WHEN k % 83 > 0 THEN 'p' || k END, CASE k % 500 WHEN 0 THEN 'NaN' WHEN 1 THEN CASE WHEN i % 2 = 0 THEN '0' ELSE '-0' END ELSE k::text END::float8, (k / 3.0)::float4, md5(k::text)::uuid, decode(md5(k::text), 'hex'),
	date '2020-01-01' + k % 2500, timestamp '2020-01-01' + k * interval '1 hour', CASE WHEN k % 5 > 0 THEN k % 2 = 0 END, CASE WHEN i % 2 = 0 THEN 'name ' ELSE 'NAME ' END || k,
	CASE WHEN i % 11 > 0 THEN i * 7919 % 17011 END, CASE WHEN k % 1000 = 0 THEN repeat('large ' || k, 2000) ELSE 'small' || k END
	FROM (SELECT i, i * 7919 % 17011 % 3500 AS k FROM generate_series(1, 17000) i) x;
INSERT INTO rsp SELECT * FROM rsp_heap WHERE id <= 13000;
SELECT rose.merge('rsp');
INSERT INTO rsp SELECT * FROM rsp_heap WHERE id > 13000;
ANALYZE rsp;
ANALYZE rsp_heap;
CREATE FUNCTION rsp_said(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	said text[];
BEGIN
	EXECUTE 'SELECT array_agg(x::text ' || CASE WHEN query ~ 'ORDER BY' THEN '' ELSE 'ORDER BY x::text' END || ') FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[SQLSTATE, SQLERRM];
END $$;
CREATE FUNCTION rsp_plan(query text, options text = 'COSTS off, ANALYZE, BUFFERS off, TIMING off, SUMMARY off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
-- what is said of batches, memory and disk, in kB, with so much for work_mem; nothing, if there was room
CREATE FUNCTION rsp_spilled(query text, work text, OUT batches int, OUT memory int, OUT disk int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('work_mem', work, true);
	SELECT max(substring(line FROM '^ *Batches: (\d+)')::int), max(substring(line FROM 'Group Memory: (\d+) kB')::int), max(substring(line FROM '^ *Disk Usage: (\d+) kB')::int) INTO batches, memory, disk FROM rsp_plan(query) line;
END $$;
-- a query of @: in little memory, from tapes, in vectors of this size or that; by core; of heap. Answers how many rows there are
CREATE FUNCTION rsp_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	heap text[];
	said text[];
	spilled record;
BEGIN
	SET LOCAL work_mem = '4MB';
	SET LOCAL enable_sort = off;
	heap := rsp_said(replace(query, '@', 'rsp_heap'));
	SET LOCAL rose.enable_aggregate = off;
	said := rsp_said(replace(query, '@', 'rsp'));
	SET LOCAL rose.enable_aggregate = on;
	IF said IS DISTINCT FROM heap THEN
		RAISE EXCEPTION '% by rows', query;
	END IF;
	SET LOCAL work_mem = '64kB';
	SET LOCAL enable_sort = on;
	PERFORM set_config('rose.vector_rows', CASE WHEN length(query) % 2 = 0 THEN '2048' ELSE '97' END, true);
	said := rsp_said(replace(query, '@', 'rsp'));
	IF said IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\n%\n%', query, (SELECT array_agg(x) FROM (SELECT unnest(said) EXCEPT SELECT unnest(heap) LIMIT 5) y (x)), (SELECT array_agg(x) FROM (SELECT unnest(heap) EXCEPT SELECT unnest(said) LIMIT 5) y (x));
	END IF;
	SET LOCAL rose.vector_rows = 2048;
	spilled := rsp_spilled(replace(query, '@', 'rsp'), '64kB');
	IF (spilled.batches > 1 AND spilled.memory > 0 AND spilled.disk > 0) IS NOT TRUE THEN
		RAISE EXCEPTION '% was not on tapes', query;
	END IF;
	RETURN coalesce(array_length(said, 1), 0);
END $$;

-- each kind of key, and several; what aggregates take
SELECT keys, rsp_same('SELECT ' || keys || ', count(*), count(c), sum(c), avg(c), min(c), max(id), bool_or(u), max(t COLLATE "C"), min(t COLLATE "C"), bit_and(i2) FROM @ GROUP BY ' || keys)
	FROM unnest(ARRAY['i8', 'i2', 't', 'n', 'p', 'r', 'g', 'y', 'd', 'ts', 'u, t', 'n, p', 't, i8, u', 'big', 'i8 % 2999', 'lower(t)', 'upper(t), n + 1', 'i2 + 1', 'date_trunc(''hour'', ts)', 'id % 5, c']) keys;
SELECT rsp_same('SELECT f + 0, count(*), min(id) FROM @ GROUP BY f');
-- of equal values that which came first
SELECT rsp_same('SELECT n, count(*) FROM @ GROUP BY n'), rsp_same('SELECT n, t, max(c) FROM @ GROUP BY t, n');
-- FILTERs, expressions, numerics, wide sums, floats to the bit
SELECT rsp_same('SELECT i8, count(*) FILTER (WHERE u), sum(c) FILTER (WHERE c > 100), count(t) FILTER (WHERE id % 3 = 0), sum(length(t) * 2), max(c + id) FROM @ GROUP BY i8');
SELECT rsp_same('SELECT i8, sum(n), avg(n), min(n), max(n), sum(n * 2 + 1) FILTER (WHERE u), sum(i8), avg(i8) FROM @ GROUP BY i8');
SELECT rsp_same('SELECT t, sum(CASE WHEN id % 7 = 0 THEN 1e16 WHEN id % 7 = 1 THEN -1e16 ELSE f END) FROM @ WHERE f <> ''NaN'' GROUP BY t'), rsp_same('SELECT t, sum(r), avg(r), avg(f), max(f), min(r) FROM @ GROUP BY t');
-- HAVING, expressions over aggregates, order and limits, also behind what is found first
SELECT rsp_same('SELECT i8, count(*) + 1, sum(c) / 2 FROM @ GROUP BY i8 HAVING count(*) > 4');
SELECT rsp_same('SELECT i8, count(*) FROM @ GROUP BY i8 ORDER BY count(*) DESC, i8 LIMIT 10'), rsp_same('SELECT t, count(c) FROM @ GROUP BY t ORDER BY count(c), t DESC LIMIT 10 OFFSET 5'), rsp_same('SELECT t, i8, min(id) FROM @ GROUP BY t, i8 ORDER BY min(id) LIMIT 10');
SELECT rsp_same('SELECT count(*), sum(n), max(k) FROM (SELECT i8 AS k, count(*) AS n FROM @ GROUP BY i8 OFFSET 0) x');
-- a group that has most rows beside those of few
SELECT rsp_same('SELECT CASE WHEN id % 3 > 0 THEN -1 ELSE i8 END, count(*), sum(c), min(t COLLATE "C") FROM @ GROUP BY 1');
-- distinct values
SELECT rsp_same('SELECT count(DISTINCT i8) FROM @'), rsp_same('SELECT count(DISTINCT t), max(t) IS NULL FROM @'), rsp_same('SELECT i2 % 10, count(DISTINCT n), count(*) FROM @ GROUP BY i2 % 10'), rsp_same('SELECT d, count(DISTINCT t), min(id), sum(c) FROM @ GROUP BY d'),
	rsp_same('SELECT u, count(DISTINCT p) FROM @ GROUP BY u HAVING count(DISTINCT p) > 1'), rsp_same('SELECT sum(DISTINCT i2), avg(DISTINCT i2) FROM @');
-- errors are core's
SELECT rsp_same('SELECT i8, sum(1 / (c - 7)) FROM @ WHERE c <> 7 GROUP BY i8');
CREATE FUNCTION rsp_error(query text) RETURNS text LANGUAGE sql AS $$
	SELECT array_to_string(rsp_said(query), ': ') FROM set_config('work_mem', '64kB', true)
$$;
SELECT rsp_error('SELECT i8, sum(1 / (id - 16999)) FROM rsp GROUP BY i8');
SELECT rsp_error('SELECT f, sum(f * 1e305) FROM rsp GROUP BY f');
-- by a collation that takes different texts for one, core puts parts together
SET work_mem = '64kB';
SELECT count(*), sum(n), min(n), max(n) FROM (SELECT lower(ci) AS k, count(*) AS n FROM rsp GROUP BY ci) x;
RESET work_mem;
SELECT count(*), sum(n), min(n), max(n) FROM (SELECT lower(ci) AS k, count(*) AS n FROM rsp_heap GROUP BY ci) x;
SELECT count(*) FROM (SELECT ci FROM rsp GROUP BY ci) x;

-- plans: that groups do not fit is known
SET work_mem = '64kB';
EXPLAIN (COSTS off) SELECT t, count(*) FROM rsp GROUP BY t ORDER BY count(*) DESC LIMIT 10;
-- 16 may sort what an aggregate wants distinct before it
DO $$ BEGIN PERFORM set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate'; END $$;
EXPLAIN (COSTS off) SELECT count(DISTINCT t) FROM rsp;
DO $$ BEGIN PERFORM set_config(name, 'on', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate'; END $$;
RESET work_mem;
-- or not: estimates are far too low
CREATE TABLE rsp_wrong (id int PRIMARY KEY, k int8, t text) USING rose;
ALTER TABLE rsp_wrong SET (autovacuum_enabled = off);
INSERT INTO rsp_wrong SELECT i, 1, 'x' FROM generate_series(1, 40000) i;
ANALYZE rsp_wrong;
UPDATE rsp_wrong SET k = id * 7919::int8 % 40009 / 2, t = 'a text of some length ' || id * 7919::int8 % 40009 / 2;
SET work_mem = '64kB';
SELECT count(*), sum(n), min(n), max(n), sum(k), count(DISTINCT t) FROM (SELECT k, t, count(*) AS n FROM rsp_wrong GROUP BY k, t OFFSET 0) x;
-- memory: what may be taken is, and no more, whatever was expected; batches are divided anew where they do not fit
SELECT kb, table_name, s.batches > kb / 64 AS batches, CASE WHEN s.memory NOT BETWEEN kb AND kb * 2.2 THEN s.memory END AS memory, s.disk > 100 AS disk
	FROM unnest(ARRAY[64, 100, 256]) kb, unnest(ARRAY['rsp', 'rsp_wrong']) table_name, rsp_spilled('SELECT t, count(*), max(t COLLATE "C") FROM ' || table_name || ' GROUP BY t', kb || 'kB') s;
SELECT s.batches > 40 AS batches, s.memory > 140 AS memory FROM rsp_spilled('SELECT k, t, count(*) FROM rsp_wrong GROUP BY k, t', '64kB') s;
SET work_mem = '64kB';
-- what is divided anew is divided otherwise: a row of 40,000 is written some times, not as often as there are batches of its partition
SELECT written BETWEEN 400 AND 1500 AS written FROM (SELECT max(substring(line FROM 'temp read=\d+ written=(\d+)')::int) AS written FROM rsp_plan('SELECT k, t, count(*) FROM rsp_wrong GROUP BY k, t', 'COSTS off, ANALYZE, BUFFERS, TIMING off, SUMMARY off') line) x;
SELECT line FROM (SELECT regexp_replace(btrim(line), '\d+', 'N', 'g') FROM rsp_plan('SELECT t, count(*) FROM rsp GROUP BY t') line) x (line) WHERE line ~ 'Chosen|Finalized|Flushes|Group Memory|Batches|Disk';
RESET work_mem;
SELECT line FROM rsp_plan('SELECT i8, count(*) FROM rsp GROUP BY i8') line WHERE line ~ 'Batches: [2-9]|Disk|Flushes: [1-9]';

-- again and again: parameters that change, and those that do not
SET enable_memoize = off;
SET enable_material = off;
SET work_mem = '64kB';
SELECT lo, count(*), sum(n), sum(s) FROM generate_series(-1, 17000, 5000) lo, LATERAL (SELECT t, count(*) AS n, sum(c) AS s FROM rsp WHERE id > lo GROUP BY t) x GROUP BY lo ORDER BY lo;
SELECT lo, (SELECT count(*) + sum(n) FROM (SELECT t, n, count(*) AS n FROM rsp WHERE id > lo GROUP BY t, n OFFSET 0) x (t, k, n)), (SELECT count(DISTINCT t) FROM rsp WHERE id > lo) FROM generate_series(-1, 17000, 5000) lo;
SELECT a.x, b.* FROM generate_series(1, 3) a (x), LATERAL (SELECT count(*), sum(n) FROM (SELECT t, count(*) AS n FROM rsp GROUP BY t OFFSET 0) y) b;
-- some are given out, and then it begins anew
SELECT lo, count(*) FROM generate_series(1, 3) lo, LATERAL (SELECT t, count(*) AS n FROM rsp WHERE id > lo GROUP BY t LIMIT 1700) x GROUP BY lo ORDER BY lo;
RESET enable_memoize;
RESET enable_material;

-- files go with cursors, transactions, errors and cancels
CREATE FUNCTION rsp_files() RETURNS bool LANGUAGE sql AS $$
	SELECT count(*) > 0 FROM pg_ls_tmpdir() WHERE name LIKE 'pgsql_tmp' || pg_backend_pid() || '.%'
$$;
BEGIN;
DECLARE rsp_c CURSOR FOR SELECT t, count(*) FROM rsp GROUP BY t;
MOVE 5 IN rsp_c;
SELECT rsp_files();
MOVE 1000 IN rsp_c;
SAVEPOINT s;
MOVE 1000 IN rsp_c;
ROLLBACK TO s;
MOVE 10000 IN rsp_c;
CLOSE rsp_c;
SELECT rsp_files();
DECLARE rsp_c CURSOR FOR SELECT t, count(*) FROM rsp GROUP BY t;
MOVE 5 IN rsp_c;
ROLLBACK;
SELECT rsp_files();
BEGIN;
DECLARE rsp_c CURSOR FOR SELECT t, count(*) FROM rsp GROUP BY t;
MOVE 5 IN rsp_c;
SAVEPOINT s;
-- a group of a later batch
SELECT count(1 / (n - 1000)) FROM (SELECT t, sum(CASE WHEN id % 4000 = 0 THEN 1000 END) AS n FROM rsp GROUP BY t OFFSET 0) x;
ROLLBACK TO s;
SELECT rsp_files();
COMMIT;
SELECT rsp_files();
SELECT count(pg_cancel_backend(pg_backend_pid())) FROM (SELECT t, count(*) AS n FROM rsp GROUP BY t OFFSET 3000) x;
SELECT rsp_files();
-- no more of the disk than may be taken
SET temp_file_limit = '128kB';
\set VERBOSITY sqlstate
SELECT count(*), sum(n) FROM (SELECT t, p, count(*) AS n FROM rsp GROUP BY t, p OFFSET 0) x;
\set VERBOSITY default
SELECT rsp_files();
RESET temp_file_limit;
SELECT count(*), sum(n) FROM (SELECT t, p, count(*) AS n FROM rsp GROUP BY t, p OFFSET 0) x;
DROP TABLE rsp, rsp_heap, rsp_wrong;
DROP COLLATION rsp_nocase;
DROP FUNCTION rsp_said, rsp_plan, rsp_spilled, rsp_same, rsp_error, rsp_files;
