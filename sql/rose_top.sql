-- Rose Scans that give out the first rows of an order only: the same rows as by plans that give out all, and as of heap.
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
-- whatever else is cheaper of small tables
SET cpu_tuple_cost = 1;
CREATE TYPE rtp_mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN rtp_small AS int CHECK (VALUE < 1000000);
CREATE TABLE rtp_heap (id int PRIMARY KEY, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, num numeric, t text, v varchar(20), c char(6), d date, ts timestamp, tz timestamptz, ti time, b bool, o oid, m rtp_mood,
	cash money, u uuid, arr int[], dom rtp_small, iv interval, nm name, ch "char", wide text) USING heap;
CREATE TABLE rtp (LIKE rtp_heap INCLUDING ALL) USING rose;
CREATE PROCEDURE rtp_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rtp');
	EXECUTE replace(statement, '@', 'rtp_heap');
END $$;
-- x: pseudorandom, so that no column is in the order of another one
CALL rtp_both($$INSERT INTO @ SELECT id, x % 7, CASE WHEN id % 11 > 0 THEN x % 500 - 250 END, CASE id % 97 WHEN 3 THEN 9223372036854775807 WHEN 4 THEN -9223372036854775808 WHEN 5 THEN NULL ELSE x::int8 * 4000000000 END,
	CASE id % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 0 WHEN 3 THEN '-Infinity' WHEN 4 THEN NULL ELSE ((x % 200 - 100) / 8.0)::real END,
	CASE id % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 0 WHEN 3 THEN 'Infinity' WHEN 4 THEN NULL ELSE ((x % 200 - 100) / 8.0)::float8 END,
	CASE id % 60 WHEN 0 THEN 'NaN' WHEN 1 THEN NULL WHEN 2 THEN 1.0 WHEN 3 THEN 1.00 ELSE (x % 300 - 100) / 8.0 END::numeric, CASE WHEN id % 9 > 0 THEN (ARRAY['', 'red', 'Red', 'gr_en', 'blue', 'green'])[1 + x % 6] END,
	'v' || x % 300, (ARRAY['a', 'a ', 'b', 'ab'])[1 + x % 4], CASE id % 80 WHEN 0 THEN 'infinity' WHEN 1 THEN NULL ELSE date '2000-01-01' + x % 400 END, timestamp '2000-01-01' + x % 900 * interval '1 h',
	CASE WHEN id % 30 > 0 THEN timestamptz '2000-01-01 00:00+00' + x % 900 * interval '1 h' END, time '00:00' + x % 900 * interval '1 min', CASE WHEN id % 5 > 0 THEN x % 2 = 0 END, (x * 13)::oid, (ARRAY['sad', 'ok', 'happy', NULL])[1 + x % 4]::rtp_mood,
	(x % 50)::money, md5(x::text)::uuid, ARRAY[x % 5, id], x % 60, x % 70 * interval '11 h', 'n' || x % 20, chr(65 + x % 26)::"char", CASE WHEN id % 40 = 0 THEN repeat(md5(x::text), 200) ELSE 'short' || x % 9 END
	FROM (SELECT id, hashint4(id) & 1048575 AS x FROM generate_series(1, 1500) id) s$$);
ANALYZE rtp;
CREATE FUNCTION rtp_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rtp_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE 'SELECT count(*) || E''\n'' || string_agg(x::text, E''\n'') FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN division_by_zero OR invalid_row_count_in_limit_clause THEN
	RETURN SQLERRM;
END $$;
-- the first rows alone, in small vectors, all rows, the plain scan's, and heap's
CREATE FUNCTION rtp_same(query text, top bool = true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	mine text := replace(query, '@', 'rtp');
	said text := rtp_said(mine);
	others text[];
BEGIN
	IF top <> EXISTS (SELECT FROM rtp_plan(mine) line WHERE line ~ 'Top Key') THEN
		RAISE EXCEPTION 'plan: % %', mine, (SELECT string_agg(line, E'\n') FROM rtp_plan(mine) line);
	END IF;
	SET LOCAL rose.vector_rows = 7;
	others := others || rtp_said(mine);
	RESET rose.vector_rows;
	SET LOCAL rose.enable_top = off;
	others := others || rtp_said(mine);
	SET LOCAL rose.enable_scan = off;
	others := others || rtp_said(mine);
	SET LOCAL rose.enable_scan = on;
	SET LOCAL rose.enable_top = on;
	others := others || rtp_said(replace(query, '@', 'rtp_heap'));
	IF others IS DISTINCT FROM array_fill(said, ARRAY[4]) THEN
		RAISE EXCEPTION E'%\ntop %\nothers %', query, said, others;
	END IF;
	RETURN split_part(said, E'\n', 1);
END $$;
CREATE TABLE rtp_queries (n serial, q text);
-- each type, each way
INSERT INTO rtp_queries (q) SELECT 'SELECT * FROM @ ORDER BY ' || col || way || ', id LIMIT ' || 1 + length(col || way) % 13
	FROM unnest(ARRAY['i2', 'i4', 'i8', 'f4', 'f8', 'num', 't', 'v', 'c', 'd', 'ts', 'tz', 'ti', 'b', 'o', 'm', 'cash', 'u', 'arr', 'dom', 'iv', 'nm', 'ch', 'wide']) col,
	unnest(ARRAY['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST']) way;
-- the last one is among the zeros, of which none is less
INSERT INTO rtp_queries (q) SELECT 'SELECT id FROM @ ' || cond || ' ORDER BY ' || col || ', i2, id LIMIT ' || rows
	FROM unnest(ARRAY['f4', 'f8', 'f4 DESC', 'f8 DESC']) col, (VALUES ('', 690), ('', 720), ('', 750), ('', 780), ('', 810), ('WHERE v LIKE ''%1%''', 370), ('WHERE v LIKE ''%1%''', 390)) c (cond, rows);
-- or it is a NULL, while others are still to come
INSERT INTO rtp_queries (q) SELECT 'SELECT id FROM @ ORDER BY ' || col || way || ', id LIMIT 64' FROM unnest(ARRAY['i4', 'f8', 'd', 'b', 'tz']) col, unnest(ARRAY['', ' DESC NULLS LAST']) way;
INSERT INTO rtp_queries (q) SELECT unnest(ARRAY[
	'SELECT id, b, t FROM @ ORDER BY b DESC, t, id DESC LIMIT 20', 'SELECT id FROM @ ORDER BY i2, m DESC NULLS LAST, f8, num, id LIMIT 30 OFFSET 11', 'SELECT b, i2, m, c, t, ch, nm, dom, cash, id FROM @ ORDER BY b, i2, m, c, t, ch, nm, dom, cash, id LIMIT 5',
	'SELECT id FROM @ ORDER BY f8, i2 DESC, id LIMIT 60 OFFSET 30', 'SELECT id FROM @ ORDER BY f4 DESC, i2, id LIMIT 700', 'SELECT id FROM @ ORDER BY num, i2, id LIMIT 500', 'SELECT id FROM @ ORDER BY i8 NULLS FIRST, i2, id LIMIT 25', 'SELECT id FROM @ ORDER BY i8 DESC NULLS LAST, i2, id LIMIT 25',
	-- all rows, and more
	'SELECT id FROM @ ORDER BY i4, id LIMIT 1499', 'SELECT id FROM @ ORDER BY i4, id LIMIT 1500', 'SELECT id FROM @ ORDER BY i4, id LIMIT 9000', 'SELECT id FROM @ ORDER BY i4, id LIMIT 3 OFFSET 1498', 'SELECT id FROM @ ORDER BY i4, id LIMIT 3 OFFSET 5000',
	-- by filters, residual conditions, ranges of the key
	'SELECT * FROM @ WHERE t <> '''' ORDER BY ts, id LIMIT 9', 'SELECT t FROM @ WHERE t <> '''' ORDER BY t, id LIMIT 9', 'SELECT * FROM @ WHERE v LIKE ''%7%'' ORDER BY ts DESC, id LIMIT 9', 'SELECT id, t FROM @ WHERE v LIKE ''%7%'' ORDER BY d DESC NULLS LAST, id LIMIT 9',
	'SELECT id FROM @ WHERE v LIKE ''%7%'' ORDER BY f8 NULLS FIRST, i2, id LIMIT 40', 'SELECT id FROM @ WHERE v LIKE ''%7%'' ORDER BY f8 DESC NULLS LAST, i2, id LIMIT 150', 'SELECT id FROM @ WHERE v LIKE ''%7%'' ORDER BY f4, i2, id LIMIT 150', 'SELECT id FROM @ WHERE v LIKE ''%7%'' ORDER BY i4 NULLS FIRST, id LIMIT 3', 'SELECT id FROM @ WHERE v LIKE ''%7%'' ORDER BY i4 NULLS FIRST, id LIMIT 150',
	'SELECT * FROM @ WHERE i2 = 3 AND v LIKE ''v2%'' ORDER BY u, id LIMIT 4', 'SELECT id FROM @ WHERE length(v) = 3 ORDER BY u, id LIMIT 4', 'SELECT id, v FROM @ WHERE length(v) = 3 AND i2 > 2 ORDER BY i8, id LIMIT 4', 'SELECT * FROM @ WHERE id BETWEEN 300 AND 1300 AND i2 <> 5 ORDER BY tz DESC, id LIMIT 14',
	'SELECT * FROM @ WHERE id > 400 AND v LIKE ''%1%'' AND length(t) > 2 ORDER BY ti, id DESC LIMIT 6', 'SELECT id FROM @ WHERE t = ''none'' ORDER BY ti, id LIMIT 6', 'SELECT id FROM @ WHERE i2 = 3 ORDER BY i2, u, id LIMIT 6',
	'SELECT id, v, t FROM @ WHERE i4 BETWEEN 0 AND 10 AND length(v) >= 3 ORDER BY u, id LIMIT 2', 'SELECT v FROM @ WHERE i4 BETWEEN 0 AND 12 AND v || t <> ''none'' ORDER BY ts DESC, id LIMIT 4',
	'SELECT id FROM @ WHERE 10 / (i2 - 6) > -20 ORDER BY u, id LIMIT 3', 'SELECT id FROM @ WHERE EXISTS (SELECT) ORDER BY u, id LIMIT 3', 'SELECT id FROM @ WHERE i4 > (SELECT avg(i4) FROM @) ORDER BY u, id LIMIT 3', 'SELECT x.id FROM @ x WHERE 2 < (SELECT count(*) FROM @ y WHERE y.id IN (x.id + 1, x.id + 3, x.id * 2)) ORDER BY u, id LIMIT 3',
	-- expressions in the result and behind the columns; collations, operators
	'SELECT id % 9, i4 + i2, upper(t) FROM @ ORDER BY v, id LIMIT 8', 'SELECT x FROM @ x ORDER BY v DESC, id LIMIT 8', 'SELECT id FROM @ ORDER BY i2, length(v), id LIMIT 8', 'SELECT id FROM @ ORDER BY t COLLATE "C" DESC, id LIMIT 400', 'SELECT id FROM @ ORDER BY v COLLATE "POSIX", id LIMIT 12',
	'SELECT id FROM @ ORDER BY i4 USING > NULLS LAST, id LIMIT 12', 'SELECT id FROM @ ORDER BY v USING ~<~, id LIMIT 12', 'SELECT id FROM @ ORDER BY c, id LIMIT 12', 'SELECT id, ctid IS NULL, tableoid::regclass IS NULL, xmin IS NULL FROM @ ORDER BY ts DESC, id LIMIT 3',
	-- more than the first: those equal to the last
	'SELECT i2, count(*) FROM (SELECT i2 FROM @ ORDER BY i2 DESC FETCH FIRST 3 ROWS WITH TIES) s GROUP BY i2', 'SELECT count(*), sum(f8 + 0), count(f8) FROM (SELECT f8 FROM @ ORDER BY f8 OFFSET 600 FETCH FIRST 80 ROWS WITH TIES) s', 'SELECT count(*), sum(id) FROM (SELECT id FROM @ ORDER BY num FETCH FIRST 400 ROWS WITH TIES) s',
	'SELECT count(*), sum(id) FROM (SELECT id FROM @ ORDER BY t DESC FETCH FIRST 2 ROWS WITH TIES) s', 'SELECT count(*), sum(id) FROM (SELECT id FROM @ ORDER BY c, b FETCH FIRST 2 ROWS WITH TIES) s',
	-- in the inner side of a loop, and in other queries
	'SELECT i, y.* FROM generate_series(0, 8) i, LATERAL (SELECT id, f8, v FROM @ WHERE i2 = i ORDER BY f8, id LIMIT 3) y ORDER BY 1, f8, id', 'SELECT i, y.* FROM generate_series(0, 8) i, LATERAL (SELECT id, t FROM @ WHERE i4 > i * 20 ORDER BY t DESC, id LIMIT 2) y ORDER BY 1, t DESC, id',
	'SELECT i, (SELECT v FROM @ WHERE v LIKE ''v'' || i || ''%'' ORDER BY ts, id LIMIT 1) FROM generate_series(1, 9) i', 'SELECT id FROM (SELECT id, u FROM @ ORDER BY u, id LIMIT 50) x WHERE id % 2 = 0', 'WITH x AS MATERIALIZED (SELECT id, u FROM @ ORDER BY u, id LIMIT 50) SELECT sum(id) FROM x',
	'(SELECT id FROM @ ORDER BY u, id LIMIT 5) UNION ALL (SELECT id FROM @ ORDER BY u DESC, id LIMIT 5)', 'SELECT * FROM (SELECT id, f8 FROM @ UNION ALL SELECT id + 10000, f8 FROM @) x ORDER BY f8, id LIMIT 9']);
CREATE FUNCTION rtp_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || sum(CASE WHEN said ~ '^\d+$' THEN said::int END) || ' ' || string_agg(said, ' ') FILTER (WHERE said !~ '^\d+$') FROM (SELECT rtp_same(q) AS said FROM rtp_queries) x
$$;
SELECT rtp_all_same();
SELECT rose.spill('rtp');
CALL rtp_both($$UPDATE @ SET i2 = i2 + 1, f8 = -f8, t = 'aaa', u = md5(id::text)::uuid, num = NULL WHERE id % 10 = 3$$);
CALL rtp_both($$DELETE FROM @ WHERE id % 50 = 7$$);
SELECT rtp_all_same();
SELECT rose.merge('rtp');
SELECT rtp_all_same();

-- what EXPLAIN says
EXPLAIN (COSTS off) SELECT * FROM rtp ORDER BY ts, id LIMIT 10;
EXPLAIN (COSTS off) SELECT id FROM rtp WHERE t <> '' ORDER BY t COLLATE "C" DESC NULLS LAST, i4 NULLS FIRST, length(v), id LIMIT 10;
EXPLAIN (COSTS off, VERBOSE) SELECT id FROM rtp x WHERE v LIKE '%7%' ORDER BY d DESC LIMIT 10;
SELECT regexp_replace(line, '\d+', 'N') FROM rtp_plan('SELECT wide FROM rtp WHERE v LIKE ''%7%'' ORDER BY ts LIMIT 3', 'ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off') line WHERE line ~ 'Top|Vector';

-- not where others are wanted, or rows go elsewhere; nor where they come in order, or are too many
SELECT rtp_same(q, false) FROM unnest(ARRAY['SELECT id FROM @ ORDER BY u, id', 'SELECT id FROM @ ORDER BY u, id LIMIT ALL', 'SELECT id FROM @ ORDER BY u, id LIMIT (SELECT 5)', 'SELECT id FROM @ ORDER BY u, id LIMIT 5 OFFSET (SELECT 3)', 'SELECT id FROM @ ORDER BY u, id LIMIT 10001', 'SELECT id FROM @ ORDER BY u, id LIMIT 10 OFFSET 9991',
	'SELECT id FROM @ ORDER BY id LIMIT 10', 'SELECT id FROM @ WHERE i2 = 3 ORDER BY id LIMIT 10', 'SELECT id FROM @ WHERE o = 77 ORDER BY id LIMIT 10', 'SELECT id FROM @ ORDER BY i4 + 1, id LIMIT 10', 'SELECT DISTINCT i2 FROM @ ORDER BY i2 LIMIT 3', 'SELECT DISTINCT ON (i2) i2, id FROM @ ORDER BY i2, id LIMIT 3', 'SELECT i2, count(*) FROM @ GROUP BY i2 ORDER BY i2 LIMIT 3',
	'SELECT i2 FROM @ GROUP BY i2 ORDER BY i2 LIMIT 3', 'SELECT i2 FROM @ GROUP BY GROUPING SETS (i2, ()) ORDER BY i2 LIMIT 3', 'SELECT sum(i2) FROM @ ORDER BY 1 LIMIT 3', 'SELECT id, row_number() OVER (ORDER BY id) FROM @ ORDER BY u, id LIMIT 3', 'SELECT id, generate_series(1, i2) FROM @ ORDER BY i2, id, 2 LIMIT 30', 'SELECT x.id FROM @ x JOIN @ y ON y.id = x.id + 1 ORDER BY x.u, x.id LIMIT 3',
	'SELECT x.id, y.n FROM @ x, generate_series(1, 2) y (n) ORDER BY x.u, x.id, y.n LIMIT 3', 'SELECT i2, i4 FROM @ UNION SELECT i2, i4 FROM @ ORDER BY 1, 2 LIMIT 3', 'SELECT id FROM @ WHERE u IN (SELECT u FROM @ WHERE i2 = 3) ORDER BY i4, id LIMIT 3',
	'SELECT * FROM (SELECT id, v FROM @ UNION ALL SELECT id + 10000, t FROM @) x ORDER BY v DESC NULLS LAST, id LIMIT 9', 'SELECT * FROM (SELECT id, i4 FROM @ UNION ALL SELECT id, i8 FROM @ WHERE i2 < 3) x ORDER BY i4, id LIMIT 9']) q;
SET rose.enable_aggregate = off;
SELECT rtp_same(q, false) FROM unnest(ARRAY['SELECT i2 FROM @ GROUP BY i2 ORDER BY i2 LIMIT 3', 'SELECT i2, i4 FROM @ GROUP BY i2, i4 ORDER BY i2, i4 LIMIT 3', 'SELECT i2, count(*) FROM @ GROUP BY i2 ORDER BY i2 DESC LIMIT 3', 'SELECT DISTINCT i2 FROM @ ORDER BY i2 LIMIT 3']) q;
RESET rose.enable_aggregate;
SELECT line FROM rtp_plan('SELECT id FROM rtp ORDER BY u LIMIT 5 FOR UPDATE') line WHERE line ~ 'Top';
SELECT line FROM rtp_plan('WITH x AS (SELECT id FROM rtp ORDER BY u LIMIT 5 FOR SHARE) SELECT * FROM x') line WHERE line ~ 'Top';
SELECT line FROM rtp_plan('DECLARE c SCROLL CURSOR FOR SELECT id FROM rtp ORDER BY u LIMIT 5') line WHERE line ~ 'Top';
SET rose.enable_top = off;
SELECT line FROM rtp_plan('SELECT id FROM rtp ORDER BY u LIMIT 5') line WHERE line ~ 'Top';
RESET rose.enable_top;
-- of a table without other columns the key is enough
SELECT line FROM rtp_plan('SELECT id FROM rtp WHERE id = 7 ORDER BY u LIMIT 5') line WHERE line ~ 'Top|Scan';

-- each row is asked once, also by conditions that change something
CREATE SEQUENCE rtp_seq;
CREATE TABLE rtp_once AS SELECT id FROM rtp WHERE nextval('rtp_seq') > 0 AND i2 <> 9 ORDER BY u LIMIT 5;
SELECT nextval('rtp_seq') - count(*) AS more FROM rtp WHERE i2 <> 9;
CREATE SEQUENCE rtp_all_seq;
CREATE TABLE rtp_all_once AS SELECT id FROM rtp WHERE nextval('rtp_all_seq') > 0 ORDER BY i4 LIMIT 5;
SELECT nextval('rtp_all_seq') - count(*) AS more FROM rtp;
-- the result is made of rows that are given out: none of those fails
SELECT 10 / (i2 - 5) AS r FROM rtp WHERE i2 IS NOT NULL ORDER BY i2, id LIMIT 3;

-- parameters: limits that are not known to the planner
SET plan_cache_mode = force_generic_plan;
PREPARE rtp_p (int8, int8) AS SELECT id, i4 FROM rtp ORDER BY i4, id LIMIT $1 OFFSET $2;
PREPARE rtp_h (int8, int8) AS SELECT id, i4 FROM rtp_heap ORDER BY i4, id LIMIT $1 OFFSET $2;
PREPARE rtp_i (int, smallint) AS SELECT id, i4 FROM rtp ORDER BY i4, id LIMIT $1 OFFSET $2;
EXPLAIN (COSTS off) EXECUTE rtp_p(3, 2);
EXPLAIN (COSTS off) EXECUTE rtp_i(3, 2);
EXECUTE rtp_p(3, 2);
EXECUTE rtp_h(3, 2);
EXECUTE rtp_i(3, 2::smallint);
EXECUTE rtp_p(0, 2);
EXECUTE rtp_p(2, NULL);
EXECUTE rtp_p(-1, 0);
EXECUTE rtp_p(1, -1);
CREATE TEMP TABLE rtp_all AS EXECUTE rtp_p(NULL, NULL);
SELECT count(*) FROM rtp_all;
DROP TABLE rtp_all;
CREATE TEMP TABLE rtp_all AS EXECUTE rtp_p(9223372036854775807, 5);
SELECT count(*) FROM rtp_all;
CREATE FUNCTION rtp_function(count int, skip int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	SELECT string_agg(id::text, ' ') INTO said FROM (SELECT id FROM rtp ORDER BY u, id LIMIT count OFFSET skip) x;
	RETURN said;
END $$;
SELECT rtp_function(1, 0), rtp_function(4, 1), rtp_function(2, 0), length(rtp_function(NULL, 1400)) > 200 AS rest;
RESET plan_cache_mode;
PREPARE rtp_c (int8) AS SELECT id FROM rtp WHERE i2 = 3 ORDER BY u, id LIMIT $1;
EXPLAIN (COSTS off) EXECUTE rtp_c(3);
DEALLOCATE ALL;

-- cursors, which may turn
BEGIN;
DECLARE rtp_cur CURSOR FOR SELECT id, i4 FROM rtp ORDER BY i4 DESC NULLS LAST, id LIMIT 6;
FETCH 4 FROM rtp_cur;
FETCH BACKWARD 2 FROM rtp_cur;
SELECT rose.spill('rtp');
FETCH ALL FROM rtp_cur;
COMMIT;
-- own writes, and some that were taken back
BEGIN;
CALL rtp_both($$INSERT INTO @ (id, i4, u, t) VALUES (5001, -1000, '00000000-0000-0000-0000-000000000000', ''), (5002, 1000, NULL, 'zzz')$$);
SAVEPOINT s;
CALL rtp_both($$UPDATE @ SET i4 = 2000 - i4, u = NULL WHERE id > 700$$);
SELECT rtp_same('SELECT id, i4 FROM @ ORDER BY i4, id LIMIT 7'), rtp_same('SELECT id, u FROM @ ORDER BY u DESC, id LIMIT 700'), rtp_same('SELECT id FROM @ WHERE v LIKE ''%3%'' ORDER BY i4 DESC NULLS LAST, id LIMIT 20');
ROLLBACK TO s;
SELECT rtp_same('SELECT id, i4 FROM @ ORDER BY i4, id LIMIT 7'), rtp_same('SELECT id, u FROM @ ORDER BY u DESC, id LIMIT 700'), rtp_same('SELECT id FROM @ WHERE v LIKE ''%3%'' ORDER BY i4 DESC NULLS LAST, id LIMIT 20');
ROLLBACK;

-- wide values take no more memory than they may: then all rows are given out
SET work_mem = '64kB';
SELECT rtp_same('SELECT md5(wide) FROM @ ORDER BY wide DESC, id LIMIT 40'), rtp_same('SELECT md5(wide), id FROM @ WHERE id % 40 = 0 ORDER BY wide, id LIMIT 30');
SELECT count(*) FROM rtp_plan('SELECT wide FROM rtp WHERE id % 40 = 0 ORDER BY wide LIMIT 30', 'ANALYZE, COSTS off') line WHERE line ~ 'Removed by Top';
RESET work_mem;

-- rows that a role may not see; functions that would tell of them
CREATE ROLE rtp_reader;
GRANT SELECT ON rtp, rtp_heap TO rtp_reader;
CALL rtp_both($$CREATE POLICY few ON @ USING (i2 = 3 AND v LIKE '%7%')$$);
CALL rtp_both($$ALTER TABLE @ ENABLE ROW LEVEL SECURITY$$);
SET ROLE rtp_reader;
SELECT rtp_same('SELECT id, i4, t FROM @ ORDER BY i4, id LIMIT 5'), rtp_same('SELECT id FROM @ WHERE length(t) > 2 ORDER BY num DESC, id LIMIT 5');
RESET ROLE;
CALL rtp_both($$ALTER TABLE @ DISABLE ROW LEVEL SECURITY$$);
-- an order of the user's: its function is called for nobody but rows that meet the conditions
CREATE FUNCTION rtp_abs_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF $1 < -200 OR $2 < -200 THEN
		RAISE EXCEPTION 'looks at %', least($1, $2);
	END IF;
	RETURN btint4cmp(abs($1), abs($2));
END $$;
CREATE FUNCTION rtp_abs_lt(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT abs($1) < abs($2)';
CREATE FUNCTION rtp_abs_eq(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT abs($1) = abs($2)';
CREATE OPERATOR <| (FUNCTION = rtp_abs_lt, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR =| (FUNCTION = rtp_abs_eq, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS rtp_abs FOR TYPE int USING btree AS OPERATOR 1 <|, OPERATOR 3 =|, FUNCTION 1 rtp_abs_cmp(int, int);
SELECT rtp_same('SELECT id, i4 FROM @ WHERE i4 >= -200 AND v LIKE ''%1%'' ORDER BY i4 USING <|, id LIMIT 9'), rtp_same('SELECT id, i4 FROM @ WHERE length(v) = 3 AND i4 >= -200 ORDER BY i4 USING <|, id LIMIT 90');

-- partitions, whose columns are in other places; no key, few rows
CREATE TABLE rtp_parts (id int, x int, t text) PARTITION BY RANGE (id);
CREATE TABLE rtp_parts1 (gone int, t text, x int, id int) USING rose;
ALTER TABLE rtp_parts1 DROP COLUMN gone;
ALTER TABLE rtp_parts ATTACH PARTITION rtp_parts1 FOR VALUES FROM (0) TO (1000);
CREATE TABLE rtp_parts2 PARTITION OF rtp_parts FOR VALUES FROM (1000) TO (2000) PARTITION BY LIST (x);
CREATE TABLE rtp_parts2a PARTITION OF rtp_parts2 FOR VALUES IN (1, 2, 3) USING rose;
CREATE TABLE rtp_parts2b PARTITION OF rtp_parts2 DEFAULT USING heap;
CREATE TABLE rtp_parts_heap (id int, x int, t text) USING heap;
INSERT INTO rtp_parts_heap SELECT i, (hashint4(i) & 65535) % 9, 't' || (hashint4(i) & 65535) % 50 FROM generate_series(0, 1999) i;
INSERT INTO rtp_parts SELECT * FROM rtp_parts_heap;
ANALYZE rtp_parts;
EXPLAIN (COSTS off) SELECT * FROM rtp_parts ORDER BY t DESC, x, id LIMIT 4;
SELECT * FROM rtp_parts ORDER BY t DESC, x, id LIMIT 4;
SELECT * FROM rtp_parts_heap ORDER BY t DESC, x, id LIMIT 4;
SELECT * FROM rtp_parts WHERE t LIKE '%3%' ORDER BY x, t, id OFFSET 150 LIMIT 3;
SELECT * FROM rtp_parts_heap WHERE t LIKE '%3%' ORDER BY x, t, id OFFSET 150 LIMIT 3;
ALTER TABLE rtp_parts1 ADD CONSTRAINT c CHECK (id >= 0);
ALTER TABLE rtp_parts ADD COLUMN late int DEFAULT 5;
UPDATE rtp_parts SET late = id % 7 WHERE id % 3 = 0;
SELECT id, late FROM rtp_parts ORDER BY late DESC, id DESC LIMIT 3;
SELECT id, late FROM rtp_parts ORDER BY late, id LIMIT 3;

-- several processes
CREATE TABLE rtp_many (k int PRIMARY KEY, x int, t text) USING rose;
INSERT INTO rtp_many SELECT i, hashint4(i) % 1000, 't' || hashint4(i) % 77 FROM generate_series(1, 40000) i;
SELECT rose.merge('rtp_many');
ANALYZE rtp_many;
CREATE TABLE rtp_many_heap USING heap AS TABLE rtp_many;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET rose.interval_leaves = 1;
EXPLAIN (COSTS off) SELECT * FROM rtp_many WHERE t LIKE '%3%' ORDER BY x DESC, k LIMIT 4;
SELECT * FROM rtp_many WHERE t LIKE '%3%' ORDER BY x DESC, k LIMIT 4;
PREPARE rtp_w (int) AS SELECT * FROM rtp_many WHERE t LIKE '%3%' ORDER BY x DESC, k LIMIT $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE rtp_w(4);
SELECT line ~ 'Removed' AS removed FROM rtp_plan('EXECUTE rtp_w(4)', 'ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off') line WHERE line ~ 'by Top';
SET max_parallel_workers_per_gather = 0;
SELECT * FROM rtp_many_heap WHERE t LIKE '%3%' ORDER BY x DESC, k LIMIT 4;
-- of few rows of a large batch, the columns that conditions have seen
EXPLAIN (COSTS off) SELECT * FROM rtp_many WHERE x BETWEEN 500 AND 510 AND length(t) > 2 ORDER BY x DESC, k LIMIT 5;
SELECT * FROM rtp_many WHERE x BETWEEN 500 AND 510 AND length(t) > 2 ORDER BY x DESC, k LIMIT 5;
SELECT * FROM rtp_many_heap WHERE x BETWEEN 500 AND 510 AND length(t) > 2 ORDER BY x DESC, k LIMIT 5;
-- what is volatile and sorted by, is made of all rows
CREATE SEQUENCE rtp_drawn;
EXPLAIN (COSTS off) SELECT k, nextval('rtp_drawn') AS n FROM rtp_many ORDER BY x, n LIMIT 2;
SELECT count(*) FROM (SELECT k, nextval('rtp_drawn') AS n FROM rtp_many ORDER BY x, n LIMIT 2) q;
SELECT last_value FROM rtp_drawn;
DROP SEQUENCE rtp_drawn;
-- nobody asks how texts are compared if there are none
CREATE TABLE rtp_two (k int PRIMARY KEY, c text COLLATE "C", p text COLLATE "POSIX") USING rose;
INSERT INTO rtp_two SELECT k, t, t FROM rtp_many;
ANALYZE rtp_two;
SELECT x FROM (SELECT c AS x FROM rtp_two UNION ALL SELECT p FROM rtp_two) q ORDER BY x LIMIT 0;
PREPARE rtp_none (int) AS SELECT x FROM (SELECT c AS x FROM rtp_two UNION ALL SELECT p FROM rtp_two) q ORDER BY x LIMIT $1;
EXPLAIN (COSTS off) EXECUTE rtp_none(0);
EXECUTE rtp_none(0);
EXECUTE rtp_none(1);
DROP TABLE rtp_two;
-- memory is that of one scan at a time
CREATE TABLE rtp_hash (id int, k text, v int) PARTITION BY HASH (id);
DO $$ BEGIN FOR n IN 0..19 LOOP EXECUTE format('CREATE TABLE rtp_hash_%s PARTITION OF rtp_hash FOR VALUES WITH (MODULUS 20, REMAINDER %s) USING rose', n, n); END LOOP; END $$;
INSERT INTO rtp_hash SELECT g, repeat(md5(g::text), 8), g FROM generate_series(1, 40000) g;
ANALYZE rtp_hash;
BEGIN;
DECLARE rtp_c CURSOR FOR SELECT id, v FROM rtp_hash ORDER BY k LIMIT 1000;
FETCH 1 FROM rtp_c;
SELECT count(*) AS scans, sum(total_bytes) < 20 * 20000 AS little FROM pg_backend_memory_contexts WHERE name = 'rose first rows';
COMMIT;
DROP TABLE rtp_hash;
DROP TABLE rtp_many, rtp_many_heap, rtp_parts, rtp_parts_heap, rtp_all, rtp_once, rtp_all_once, rtp_queries;
DROP OWNED BY rtp_reader;
DROP ROLE rtp_reader;
