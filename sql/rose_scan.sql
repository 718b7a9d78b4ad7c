-- Rose Scan: tables read in batches, with key ranges, filters and residual conditions. The same rows as by the
-- plain scans, and as from heap, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
-- rows, not aggregates of them
SET rose.enable_aggregate = off;
CREATE TABLE rsc (a int, b text COLLATE "C", c int8, gone int, d date, f float8, n numeric, t text, u bool, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rsc DROP COLUMN gone;
CREATE TABLE rsc_heap (LIKE rsc INCLUDING ALL) USING heap;

-- the same to both
CREATE PROCEDURE rsc_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rsc');
	EXECUTE replace(statement, '@', 'rsc_heap');
END $$;
-- a query of @ by Rose Scan, by plain scans, and of heap; 0: all the same, with the order if it says so
CREATE FUNCTION rsc_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	batches text[];
	plain text[];
	heap text[];
	agg text := 'SELECT array_agg(x::text ' || CASE WHEN query ~ 'ORDER BY [^()]*$' THEN '' ELSE 'ORDER BY x::text' END || ') FROM (';
BEGIN
	EXECUTE agg || replace(query, '@', 'rsc') || ') x' INTO batches;
	SET LOCAL rose.enable_scan = off;
	EXECUTE agg || replace(query, '@', 'rsc') || ') x' INTO plain;
	SET LOCAL rose.enable_scan = on;
	EXECUTE agg || replace(query, '@', 'rsc_heap') || ') x' INTO heap;
	IF batches IS DISTINCT FROM plain OR batches IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nbatches %\nplain %\nheap %', query, batches, plain, heap;
	END IF;
	RETURN coalesce(array_length(heap, 1), 0);
END $$;
CREATE FUNCTION rsc_plan(query text, options text = 'VERBOSE off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS off, ' || options || ') ' || query;
END $$;
CREATE TABLE rsc_queries (n serial, q text);
INSERT INTO rsc_queries (q) VALUES
	('SELECT * FROM @'), ('SELECT count(*) FROM @'), ('SELECT a, b FROM @ ORDER BY a, b'), ('SELECT * FROM @ ORDER BY a, b DESC'),
	('SELECT t, t, c, t FROM @ WHERE c % 7 = 3'), ('SELECT b || t, n + 1 FROM @ WHERE t IS NULL OR n IS NULL'),
	('SELECT c FROM @ WHERE a BETWEEN 3 AND 9'), ('SELECT * FROM @ WHERE a >= 5 AND b > ''k5'' AND c < 1000'),
	('SELECT * FROM @ WHERE a = 5 AND b >= ''k5'' AND b < ''k7'''), ('SELECT * FROM @ WHERE a IN (3, 1, 7, 3, NULL) AND b LIKE ''k1%'''),
	('SELECT * FROM @ WHERE (a, b) > (5, ''k3'') AND (a, b) < (8, ''k2'') ORDER BY a, b'), ('SELECT * FROM @ WHERE a > 3.5 AND a < 6.2'),
	('SELECT * FROM @ WHERE a > 5 AND a < 5'), ('SELECT * FROM @ WHERE a = NULL::int'), ('SELECT * FROM @ WHERE a < 100000000000 AND a >= -100000000000'),
	('SELECT * FROM @ WHERE c > 500 AND c <= 900 AND d < ''2020-06-01'''), ('SELECT c FROM @ WHERE c <> 5 AND NOT u'), ('SELECT c FROM @ WHERE u IS NOT TRUE'),
	('SELECT d FROM @ WHERE d >= ''2020-03-01''::timestamp AND d < ''2020-04-01 12:00''::timestamptz'), ('SELECT * FROM @ WHERE c IN (1, 5, 9, 1000, 5)'),
	('SELECT * FROM @ WHERE d IS NULL'), ('SELECT a FROM @ WHERE d IS NOT NULL AND t IS NULL'), ('SELECT f FROM @ WHERE f > 10 AND f < ''NaN'''), ('SELECT * FROM @ WHERE f >= ''NaN'''),
	('SELECT x FROM @ x WHERE x.t > ''5'' AND x.c > 700'), ('SELECT x.a, x FROM @ x'), ('SELECT sum(c), avg(f), max(n), min(t), count(d) FROM @ WHERE c < 800'),
	('SELECT a, count(*), sum(c) FROM @ GROUP BY a'), ('SELECT * FROM @ WHERE c = (SELECT max(c) FROM @)'), ('SELECT * FROM @ WHERE c % 7 = 1 AND c > (SELECT avg(c) FROM @ y WHERE y.a = @.a)'),
	('SELECT * FROM @ WHERE a = ANY (SELECT c FROM @ WHERE c < 9)'), ('SELECT (SELECT count(*) FROM @ y WHERE y.c < x.a) FROM @ x WHERE x.c < 60'),
	('SELECT x.a, y.b FROM @ x JOIN @ y ON x.c = y.c + 1 WHERE x.a < 4'), ('SELECT x.a, y.* FROM (SELECT DISTINCT a FROM @) x, LATERAL (SELECT c, t FROM @ z WHERE z.a > x.a AND z.c < 40 ORDER BY c, a, b LIMIT 3) y'),
	('SELECT * FROM @ x WHERE EXISTS (SELECT 1 FROM @ y WHERE y.c = x.c + 100 AND y.a <> x.a)'), ('SELECT a, b FROM @ WHERE c > 300 ORDER BY a, b LIMIT 7 OFFSET 20'),
	('SELECT x FROM (SELECT a, t FROM @ WHERE c < 300 UNION ALL SELECT a, b FROM @ WHERE c > 900) x'), ('SELECT a FROM @ EXCEPT SELECT a FROM @ WHERE c > 990');
CREATE FUNCTION rsc_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(rsc_same(q)::text, ' ' ORDER BY n) FROM rsc_queries
$$;

-- in memory; in a run; merged; merged, with newer versions above
CALL rsc_both($$INSERT INTO @ SELECT i % 10, 'k' || i / 10, CASE WHEN i % 11 > 0 THEN i END, date '2020-01-01' + i % 365 - CASE WHEN i % 13 = 0 THEN NULL ELSE 0 END,
	CASE i % 50 WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' WHEN 3 THEN 'Infinity' ELSE i / 8.0 END, CASE WHEN i % 17 > 0 THEN i / 3.0 END, CASE WHEN i % 5 > 0 THEN md5(i::text) END,
	CASE WHEN i % 3 > 0 THEN i % 2 = 0 END FROM generate_series(1, 1000) i$$);
ANALYZE rsc;
SELECT rsc_all_same();
SELECT rose.spill('rsc');
SELECT rsc_all_same();
SELECT rose.merge('rsc');
SELECT rsc_all_same();
CALL rsc_both($$UPDATE @ SET t = 'changed', c = c + 300 WHERE a = 3 AND c % 5 = 0$$);
CALL rsc_both($$DELETE FROM @ WHERE a = 4 AND c % 5 < 3$$);
SELECT rsc_all_same();
SELECT rose.spill('rsc');
CALL rsc_both($$UPDATE @ SET c = -c WHERE a = 6 AND b < 'k4'$$);
CALL rsc_both($$INSERT INTO @ (a, b) VALUES (-1, 'first'), (5, 'k33x'), (100, 'last')$$);
SELECT rsc_all_same();

-- a column that older rows do not have; large values, which have pages of their own
ALTER TABLE rsc ADD COLUMN added int DEFAULT 7, ADD COLUMN large text;
ALTER TABLE rsc_heap ADD COLUMN added int DEFAULT 7, ADD COLUMN large text;
CALL rsc_both($$UPDATE @ SET large = repeat(b || c, 4000), added = c WHERE a = 7 AND c % 3 = 0$$);
INSERT INTO rsc_queries (q) VALUES ('SELECT a, added, md5(large) FROM @ WHERE added = 7'), ('SELECT a, length(large) FROM @ WHERE large IS NOT NULL AND c > 100'), ('SELECT added FROM @ WHERE a = 7 AND added > 500');
SELECT rsc_all_same();
SELECT rose.spill('rsc');
SELECT rsc_all_same();
SELECT rose.merge('rsc');
SELECT rsc_all_same();

-- small vectors make no difference
SET rose.vector_rows = 1;
SELECT rsc_all_same();
SET rose.vector_rows = 7;
SELECT rsc_all_same();
SET rose.vector_rows = 64;
SELECT rsc_all_same();
RESET rose.vector_rows;

-- own changes, and what is rolled back
BEGIN;
CALL rsc_both($$UPDATE @ SET c = 5 WHERE a = 8 AND c > 100$$);
SAVEPOINT s;
CALL rsc_both($$DELETE FROM @ WHERE a = 2$$);
CALL rsc_both($$INSERT INTO @ (a, b, c) SELECT i, 'own', i FROM generate_series(1, 20) i$$);
SELECT rsc_all_same();
ROLLBACK TO s;
SELECT rsc_all_same();
ROLLBACK;
SELECT rsc_all_same();

-- plans
EXPLAIN (COSTS off) SELECT c FROM rsc;
EXPLAIN (COSTS off, VERBOSE) SELECT c, t FROM rsc WHERE a BETWEEN 3 AND 9 AND t LIKE '%7%' AND c > 5;
EXPLAIN (COSTS off) SELECT * FROM rsc WHERE a > 3 AND b > 'k5' AND n > 5;
EXPLAIN (COSTS off) SELECT * FROM rsc ORDER BY a, b;
EXPLAIN (COSTS off) SELECT * FROM rsc ORDER BY a DESC, b DESC;
EXPLAIN (COSTS off) SELECT * FROM rsc WHERE a = 5 AND b = 'k7';
EXPLAIN (COSTS off) SELECT * FROM rsc LIMIT 1;
EXPLAIN (COSTS off) SELECT * FROM rsc TABLESAMPLE SYSTEM (10);
EXPLAIN (COSTS off) SELECT count(*) FROM rsc x JOIN rsc y ON x.c = y.a WHERE x.c > 100;
EXPLAIN (COSTS off) SELECT * FROM rsc WHERE a >= 0 AND b LIKE 'k%' AND now() IS NOT NULL;
EXPLAIN (COSTS off) UPDATE rsc SET c = 1 WHERE n > 3;
SELECT replace(line, '.00 ', ' ') FROM rsc_plan($$SELECT count(*) FROM rsc WHERE a >= 0 AND md5(b) > '8' AND c > 500$$, 'ANALYZE, BUFFERS off, TIMING off, SUMMARY off') line;
SET rose.enable_scan = off;
EXPLAIN (COSTS off) SELECT c FROM rsc;
SET rose.enable_scan = on;
SET enable_seqscan = off;
SELECT line FROM rsc_plan('SELECT c FROM rsc') line WHERE line !~ 'Disabled';
RESET enable_seqscan;
SET enable_indexscan = off;
EXPLAIN (COSTS off) SELECT c FROM rsc WHERE a BETWEEN 3 AND 9;
RESET enable_indexscan;

-- parameters: custom and generic plans, unknown to the planner, and those that change with each rescan
PREPARE rsc_p (int, int8, text) AS SELECT count(*), sum(c), min(b) FROM rsc WHERE a >= $1 AND c < $2 AND b > $3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE rsc_p (3, 500, 'k5');
EXECUTE rsc_p (3, 500, 'k5');
EXECUTE rsc_p (7, 900, 'k');
EXECUTE rsc_p (NULL, 900, 'k');
EXECUTE rsc_p (7, NULL, 'k');
ALTER TABLE rsc ADD COLUMN later int;
EXECUTE rsc_p (3, 500, 'k5');
ALTER TABLE rsc DROP COLUMN later;
EXECUTE rsc_p (3, 500, 'k5');
SET plan_cache_mode = force_custom_plan;
EXECUTE rsc_p (3, 500, 'k5');
EXECUTE rsc_p (NULL, 900, 'k');
RESET plan_cache_mode;
SET enable_material = off;
SET enable_memoize = off;
SELECT lo, (SELECT count(*) FROM rsc WHERE a >= lo AND c > 10 * lo), (SELECT count(*) FROM rsc_heap WHERE a >= lo AND c > 10 * lo) FROM generate_series(-1, 12, 4) lo;
SELECT lo, n FROM (VALUES (1), (NULL), (8)) v (lo), LATERAL (SELECT count(*) AS n FROM rsc WHERE a > lo AND c <> lo OFFSET 0) x;
RESET enable_material;
RESET enable_memoize;

-- system columns and whole rows
SELECT tableoid::regclass, count(*), count(DISTINCT ctid), count(DISTINCT (ctid, xmin, xmax, cmin, cmax)) FROM rsc GROUP BY 1;
SELECT count(*) FROM rsc x JOIN rsc y ON x.ctid = y.ctid AND x.a = y.a AND x.b = y.b;
SELECT x, x.xmin <> '0' FROM rsc x WHERE a < 0 OR a > 50 ORDER BY a;
BEGIN;
INSERT INTO rsc (a, b) VALUES (1, 'mine');
SELECT b, xmin::text::int8 = pg_current_xact_id()::text::int8 & x'ffffffff'::int8 AS mine FROM rsc WHERE a = 1 AND n IS NULL AND c IS NULL ORDER BY b DESC LIMIT 2;
ROLLBACK;

-- cursors that turn, and WHERE CURRENT OF
BEGIN;
DECLARE rsc_c SCROLL CURSOR FOR SELECT a, b FROM rsc WHERE n > 300 ORDER BY a, b;
FETCH 2 FROM rsc_c;
FETCH BACKWARD 1 FROM rsc_c;
FETCH LAST FROM rsc_c;
FETCH ABSOLUTE 2 FROM rsc_c;
DECLARE rsc_d CURSOR FOR SELECT a, b FROM rsc WHERE n > 300 AND f > 100;
MOVE 3 FROM rsc_d;
SELECT rsc_plan('SELECT a, b FROM rsc WHERE n > 300 AND f > 100');
FETCH 1 FROM rsc_d;
UPDATE rsc SET t = 'here' WHERE CURRENT OF rsc_d RETURNING a, b, t;
FETCH 1 FROM rsc_d;
DELETE FROM rsc WHERE CURRENT OF rsc_d RETURNING a, b;
DECLARE rsc_e CURSOR FOR SELECT a, b FROM rsc WHERE n > 300 AND f > 100 FOR UPDATE;
MOVE 2 FROM rsc_e;
UPDATE rsc SET t = 'here' WHERE CURRENT OF rsc_e RETURNING a, b, t;
DECLARE rsc_f SCROLL CURSOR FOR SELECT a, b FROM rsc WHERE n > 300 AND f > 100;
MOVE 3 FROM rsc_f;
FETCH PRIOR FROM rsc_f;
UPDATE rsc SET t = 'scrolled' WHERE CURRENT OF rsc_f RETURNING a, b, t;
ROLLBACK;

-- changes of rows that are found so
BEGIN;
CALL rsc_both($$UPDATE @ SET c = x.c + 1, n = n + 1 FROM (SELECT a AS xa, b AS xb, c FROM @ WHERE f > 50) x WHERE a = xa AND b = xb AND @.c > 100$$);
CALL rsc_both($$UPDATE @ SET a = a + 1000 WHERE n > 100 AND c % 2 = 0$$);
CALL rsc_both($$DELETE FROM @ WHERE f > 90 AND c % 3 = 0$$);
CALL rsc_both($$MERGE INTO @ USING (SELECT i % 12 AS ma, 'k' || i AS mb, i AS mc FROM generate_series(1, 400) i) m ON a = ma AND b = mb
	WHEN MATCHED AND c > 200 THEN DELETE WHEN MATCHED THEN UPDATE SET c = mc WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (ma, mb, mc)$$);
CALL rsc_both($$INSERT INTO @ (a, b, c) SELECT a + 5000, b, c FROM @ WHERE n > 30$$);
SELECT rsc_all_same();
ROLLBACK;

-- row security and barriers: a function that leaks sees no hidden row, and hidden rows are no filter's to tell of
CREATE TABLE rsc_secret (id int PRIMARY KEY, owner text, v int, s text) USING rose;
INSERT INTO rsc_secret SELECT i, CASE WHEN i % 2 = 0 THEN 'rsc_user' ELSE 'other' END, i % 10, 'secret' || i FROM generate_series(1, 1000) i;
ANALYZE rsc_secret;
CREATE FUNCTION rsc_leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 % 2 = 1 THEN RAISE 'leaked %', $1; END IF; RETURN true; END $$;
CREATE ROLE rsc_user;
GRANT SELECT ON rsc_secret TO rsc_user;
ALTER TABLE rsc_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON rsc_secret USING (owner = current_user);
CREATE VIEW rsc_barrier WITH (security_barrier) AS SELECT * FROM rsc_secret WHERE md5(s) > '4' AND id % 2 = 0;
GRANT SELECT ON rsc_barrier TO rsc_user;
SET ROLE rsc_user;
EXPLAIN (COSTS off) SELECT * FROM rsc_secret WHERE rsc_leak(id) AND v = 4;
EXPLAIN (COSTS off) SELECT * FROM rsc_secret WHERE rsc_leak(id) AND id BETWEEN 100 AND 900 AND v / (id % 2 - 1) < 5;
SELECT count(*) FROM rsc_secret WHERE rsc_leak(id) AND v = 4;
SELECT count(*) FROM rsc_secret WHERE rsc_leak(id) AND id BETWEEN 100 AND 900 AND v / (id % 2 - 1) < 5;
EXPLAIN (COSTS off) SELECT * FROM rsc_barrier WHERE rsc_leak(id) AND v = 4;
SELECT count(*) FROM rsc_barrier WHERE rsc_leak(id) AND v = 4;
RESET ROLE;

-- partitions, children of other access methods
CREATE TABLE rsc_part (k int, v int, w text, PRIMARY KEY (k)) PARTITION BY RANGE (k);
CREATE TABLE rsc_part1 PARTITION OF rsc_part FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE rsc_part2 PARTITION OF rsc_part FOR VALUES FROM (1000) TO (2000) USING heap;
CREATE TABLE rsc_part3 (w text, gone int, k int NOT NULL, v int) USING rose;
ALTER TABLE rsc_part3 DROP COLUMN gone;
ALTER TABLE rsc_part ATTACH PARTITION rsc_part3 FOR VALUES FROM (2000) TO (3000);
INSERT INTO rsc_part SELECT i, i % 100, 'w' || i FROM generate_series(0, 2999) i;
ANALYZE rsc_part;
EXPLAIN (COSTS off) SELECT count(*) FROM rsc_part WHERE v > 50;
SELECT tableoid::regclass, count(*), sum(v), min(w) FROM rsc_part WHERE v > 50 GROUP BY tableoid ORDER BY tableoid;
EXPLAIN (COSTS off) UPDATE rsc_part SET v = v + 1 WHERE v = 99;
UPDATE rsc_part SET v = v + 1 WHERE v = 99;
DELETE FROM rsc_part WHERE v = 50 AND k < 1000;
UPDATE rsc_part SET k = k - 1000 WHERE v = 50 AND k % 1000 < 200 RETURNING tableoid::regclass, k, v, w;
DELETE FROM rsc_part WHERE v = 100 AND k > 1000;
SELECT count(*), sum(v), sum(k) FROM rsc_part;

-- statistics: rows of a whole scan are a sequential scan's, those of ranges the key's
SELECT pg_stat_force_next_flush();
SELECT seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'rsc_secret' \gset before_
SELECT count(*) FROM rsc_secret WHERE v = 4;
SELECT count(*), min(s) FROM rsc_secret WHERE id BETWEEN 101 AND 500;
SELECT pg_stat_force_next_flush();
SELECT seq_scan - :before_seq_scan AS seq_scan, seq_tup_read - :before_seq_tup_read AS seq_tup_read, idx_scan - :before_idx_scan AS idx_scan,
	idx_tup_fetch - :before_idx_tup_fetch AS idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'rsc_secret';

-- no key, other snapshots, functions that read while they are asked
CREATE TABLE rsc_nokey (x int, y text) USING rose;
INSERT INTO rsc_nokey SELECT i % 50, 'y' || i FROM generate_series(1, 2000) i;
ANALYZE rsc_nokey;
EXPLAIN (COSTS off) SELECT count(*) FROM rsc_nokey WHERE x = 5;
SELECT count(*), min(y) FROM rsc_nokey WHERE x = 5;
CREATE FUNCTION rsc_look(int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM rsc_nokey WHERE x = $1';
SELECT sum(rsc_look(x)) FROM rsc_nokey WHERE x < 2;
SELECT count(*) FROM rsc_nokey WHERE rsc_look(x) = 40 AND x < 3;
DELETE FROM rsc_nokey WHERE x = 7;
SELECT count(*) FROM rsc_nokey;

-- conditions on later columns of the key alone find nothing: the whole table is read, and the index does that in the key's order
CREATE TABLE rsc_later (a int, b int, v int, PRIMARY KEY (a, b)) USING rose;
INSERT INTO rsc_later SELECT i % 200, i / 200, i FROM generate_series(1, 20000) i;
ANALYZE rsc_later;
EXPLAIN (COSTS off) SELECT max(v) FROM rsc_later WHERE b BETWEEN 10 AND 12;
EXPLAIN (COSTS off) SELECT max(v) FROM rsc_later WHERE b = 10 AND v < 2050;
EXPLAIN (COSTS off) SELECT max(v) FROM rsc_later WHERE a = 5 AND b BETWEEN 10 AND 12;
SET rose.enable_scan = off;
EXPLAIN (COSTS off) SELECT max(v) FROM rsc_later WHERE b BETWEEN 10 AND 12;
EXPLAIN (COSTS off) SELECT max(v) FROM rsc_later WHERE a = 5 AND b BETWEEN 10 AND 12;
SET rose.enable_scan = on;
SELECT count(*), max(v) FROM rsc_later WHERE b BETWEEN 10 AND 12;
SELECT count(*), max(v) FROM rsc_later WHERE b = 10 AND v < 2050;

DROP VIEW rsc_barrier;
DROP TABLE rsc_later, rsc, rsc_heap, rsc_secret, rsc_part, rsc_nokey, rsc_queries;
DROP ROLE rsc_user;
DROP FUNCTION rsc_leak, rsc_look, rsc_plan, rsc_same, rsc_all_same;
DROP PROCEDURE rsc_both;
-- days and timestamps
CREATE TABLE rsc_days (id int PRIMARY KEY, d date) USING rose;
CREATE TABLE rsc_days_heap (LIKE rsc_days) USING heap;
INSERT INTO rsc_days_heap SELECT i, CASE WHEN i % 50 > 0 THEN date '1999-12-25' + i % 14 END FROM generate_series(1, 600) i
	UNION ALL SELECT 600 + n, d FROM unnest(ARRAY['infinity', '-infinity', '5874897-12-31', '4713-01-01 BC', '294276-12-31', '294277-01-01']::date[]) WITH ORDINALITY x (d, n);
INSERT INTO rsc_days SELECT * FROM rsc_days_heap;
ANALYZE rsc_days;
EXPLAIN (COSTS off) SELECT id FROM rsc_days WHERE d <= date '2000-02-01' - interval '30 days' AND d <> timestamp '1999-12-30 12:00';
CREATE FUNCTION rsc_days_differ(condition text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	differ bool;
BEGIN
	EXECUTE format('SELECT (SELECT array_agg(id ORDER BY id) FROM rsc_days WHERE %1$s) IS DISTINCT FROM (SELECT array_agg(id ORDER BY id) FROM rsc_days_heap WHERE %1$s)', condition) INTO differ;
	RETURN differ;
END $$;
SELECT count(*), count(*) FILTER (WHERE rsc_days_differ(format(form, op, t))) AS differ FROM unnest(ARRAY['<', '<=', '=', '<>', '>=', '>']) op, unnest(ARRAY['d %s timestamp %L', 'NOT d %s timestamp %L', '(d %s timestamp %L) IS NULL']) form,
	unnest(ARRAY['2000-01-01', '2000-01-01 00:00:00.000001', '1999-12-31 23:59:59.999999', '1999-12-30 12:00', '1990-01-01', 'infinity', '-infinity', '4713-01-01 BC', '294276-12-31 23:59:59.999999']) t;
SELECT rsc_days_differ('d = ANY (ARRAY[''2000-01-01'', ''2000-01-02 12:00'', NULL, ''infinity'']::timestamp[])'), rsc_days_differ('d > ALL (ARRAY[''2000-01-01'', ''2000-01-02 12:00'']::timestamp[])'), rsc_days_differ('timestamp ''2000-01-02 12:00'' >= d');
DROP TABLE rsc_days, rsc_days_heap;
DROP FUNCTION rsc_days_differ;
