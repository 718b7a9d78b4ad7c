-- Rose Scan by several processes: plans, and the same rows as by one, with and without the leader.
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 2;
-- for the most part what core makes of their rows
SET rose.enable_aggregate = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET rose.interval_leaves = 1;
CREATE TABLE rpl (k int PRIMARY KEY, g int, v int, t text) USING rose;
INSERT INTO rpl SELECT i, i % 14, i % 1000, 't' || i % 20 FROM generate_series(1, 60000) i;
SELECT rose.merge('rpl');
ANALYZE rpl;

-- core's rule, by what the table would take without compression; its option
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
SET min_parallel_table_scan_size = '256kB';
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
ALTER TABLE rpl SET (parallel_workers = 1);
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
ALTER TABLE rpl SET (parallel_workers = 0);
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
ALTER TABLE rpl RESET (parallel_workers);
SET rose.enable_scan = off;
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
RESET rose.enable_scan;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
SET max_parallel_workers_per_gather = 2;

-- filters, groups, key ranges, the order of keys, joins
CREATE TABLE rpl_queries (n serial, q text);
INSERT INTO rpl_queries (q) VALUES
	('SELECT count(*), sum(v), min(t) FROM rpl WHERE v > 900 AND t LIKE ''t1%'''), ('SELECT g, count(*), sum(v) FROM rpl GROUP BY g ORDER BY g'),
	('SELECT sum(v), count(*) FROM rpl WHERE k BETWEEN 20000 AND 45000 AND g = 3'), ('SELECT sum(v) FROM rpl WHERE k IN (1, 30000, 59999, 60001) OR g = 15'),
	('SELECT k, v FROM rpl WHERE v = 77 ORDER BY k'), ('SELECT k, t FROM rpl WHERE v > 998 AND k > 30000 ORDER BY k LIMIT 5'),
	('SELECT count(*), sum(a.v) FROM rpl a JOIN rpl b ON a.k = b.k + 30000 WHERE b.v < 500');
CREATE FUNCTION rpl_answers() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	answer text;
BEGIN
	FOR query IN SELECT q FROM rpl_queries ORDER BY n LOOP
		EXECUTE 'SELECT array_agg(x)::text FROM (' || query || ') x' INTO answer;
		RETURN NEXT left(answer, 100) || ' ' || md5(answer);
	END LOOP;
END $$;
EXPLAIN (COSTS off) SELECT count(*), sum(v), min(t) FROM rpl WHERE v > 900 AND t LIKE 't1%';
EXPLAIN (COSTS off) SELECT g, count(*), sum(v) FROM rpl GROUP BY g ORDER BY g;
EXPLAIN (COSTS off) SELECT sum(v), count(*) FROM rpl WHERE k BETWEEN 20000 AND 45000 AND g = 3;
EXPLAIN (COSTS off) SELECT k, v FROM rpl WHERE v = 77 ORDER BY k;
EXPLAIN (COSTS off) SELECT count(*), sum(a.v) FROM rpl a JOIN rpl b ON a.k = b.k + 30000 WHERE b.v < 500;
CREATE TEMP TABLE rpl_serial (n bigint, a text);
SET max_parallel_workers_per_gather = 0;
INSERT INTO rpl_serial SELECT row_number() OVER (), a FROM rpl_answers() a;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION rpl_differ() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT p.a FROM (SELECT row_number() OVER () n, a FROM rpl_answers() a) p JOIN rpl_serial s USING (n) WHERE p.a <> s.a
$$;
SELECT count(*) FROM rpl_serial;
SELECT rpl_differ();
SET parallel_leader_participation = off;
SELECT rpl_differ();
RESET parallel_leader_participation;

-- what is in memory, and the transaction's own
BEGIN;
UPDATE rpl SET v = v + 1 WHERE k % 10 = 3;
SAVEPOINT s;
DELETE FROM rpl WHERE g = 5;
INSERT INTO rpl SELECT 100000 + i, 20, i, 'own' FROM generate_series(1, 5000) i;
SELECT count(*), sum(v), min(t) FROM rpl;
SELECT g, count(*), sum(v) FROM rpl WHERE g > 11 OR g < 6 GROUP BY g ORDER BY g;
SET LOCAL parallel_leader_participation = off;
SELECT count(*), sum(v), min(t) FROM rpl;
ROLLBACK TO s;
SELECT count(*), sum(v), min(t) FROM rpl;
SET LOCAL max_parallel_workers_per_gather = 0;
SELECT count(*), sum(v), min(t) FROM rpl;
ROLLBACK;

-- what was done is said of all processes together
CREATE FUNCTION rpl_analyze(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) ' || query;
END $$;
CREATE FUNCTION rpl_leaves(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) ' || query INTO plan;
	RETURN substring(plan FROM 'leaves=(\d+)');
END $$;
SET parallel_leader_participation = off;
SELECT replace(line, '.00 ', ' ') FROM rpl_analyze('SELECT count(*), sum(v) FROM rpl WHERE v >= 900') line;
SET parallel_leader_participation = on;
SET max_parallel_workers_per_gather = 0;
SELECT rpl_leaves('SELECT sum(v) FROM rpl WHERE g > 2') AS leaves \gset
SET max_parallel_workers_per_gather = 2;
SELECT rpl_leaves('SELECT sum(v) FROM rpl WHERE g > 2') >= :leaves AS all_leaves;
-- a scan that begins anew, and one that ends early
SET enable_material = off;
SELECT replace(regexp_replace(line, 'Launched: \d', 'Launched: N'), '.00 ', ' ') FROM rpl_analyze('SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*) FROM rpl WHERE v >= 900) s ON true') line
	WHERE line !~ 'Parallel|Rows Removed|Partial|Vector';
SELECT * FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*), sum(v) FROM rpl WHERE v >= 900) s ON true;
SELECT * FROM (VALUES (1), (2)) v(x) LEFT JOIN (SELECT k FROM rpl WHERE v >= 900 ORDER BY k LIMIT 2) s ON true;
SELECT count(*) FROM (SELECT 1 FROM rpl WHERE v > 10 LIMIT 100) s;
RESET enable_material;

-- aggregates of many rows at a time; rows that need not be read are counted by one process
SET rose.enable_aggregate = on;
EXPLAIN (COSTS off) SELECT count(*), sum(v), min(k) FROM rpl WHERE v > 100 HAVING count(*) > 3;
SELECT count(*), sum(v), min(k) FROM rpl WHERE v > 100 HAVING count(*) > 3;
EXPLAIN (COSTS off) SELECT t, count(*), sum(v) FROM rpl GROUP BY t;
SELECT t, count(*), sum(v) FROM rpl GROUP BY t ORDER BY t LIMIT 3;
EXPLAIN (COSTS off) SELECT count(*) FROM rpl;
SELECT count(*) FROM rpl;
SELECT rpl_differ();
SET parallel_leader_participation = off;
SELECT count(*), sum(v), min(k) FROM rpl WHERE v > 100;
SELECT count(*), sum(v), min(k) FROM rpl WHERE v > 10000;
SELECT count(*) FROM (SELECT t, g, count(*), sum(v) FROM rpl GROUP BY t, g) s;
RESET parallel_leader_participation;
SET rose.enable_aggregate = off;

-- no key; partitions
CREATE TABLE rpl_nokey (a int, b text) USING rose;
INSERT INTO rpl_nokey SELECT i % 100, 'b' || i FROM generate_series(1, 40000) i;
ANALYZE rpl_nokey;
EXPLAIN (COSTS off) SELECT count(*), min(b), sum(a) FROM rpl_nokey;
SELECT count(*), min(b), sum(a) FROM rpl_nokey;
SELECT rose.spill('rpl_nokey');
SELECT count(*), min(b), sum(a) FROM rpl_nokey;
CREATE TABLE rpl_parts (k int PRIMARY KEY, v int) PARTITION BY HASH (k);
CREATE TABLE rpl_parts0 PARTITION OF rpl_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose;
CREATE TABLE rpl_parts1 PARTITION OF rpl_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING rose;
INSERT INTO rpl_parts SELECT i, i % 100 FROM generate_series(1, 60000) i;
ANALYZE rpl_parts;
EXPLAIN (COSTS off) SELECT count(*), sum(v) FROM rpl_parts;
SELECT count(*), sum(v) FROM rpl_parts;

-- not by several: names of rows, changes, locks, functions that may not be called there
EXPLAIN (COSTS off) SELECT ctid FROM rpl WHERE v = 5;
EXPLAIN (COSTS off) SELECT k FROM rpl WHERE v = 5 FOR SHARE;
EXPLAIN (COSTS off) DELETE FROM rpl WHERE v = 5;
CREATE FUNCTION rpl_restricted(int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS 'BEGIN RETURN $1; END';
EXPLAIN (COSTS off) SELECT count(*) FROM rpl WHERE v = nextval('rpl_queries_n_seq');
EXPLAIN (COSTS off) SELECT count(*) FROM rpl WHERE rpl_restricted(v) = 5;
EXPLAIN (COSTS off) SELECT * FROM rpl WHERE k = 5;

DROP TABLE rpl, rpl_queries, rpl_serial, rpl_nokey, rpl_parts;
DROP FUNCTION rpl_answers, rpl_differ, rpl_analyze, rpl_leaves, rpl_restricted;
