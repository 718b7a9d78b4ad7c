-- Rose Aggregate: aggregates of many rows at a time. The same as row by row, and as of heap, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
SET extra_float_digits = 1;
CREATE TABLE rag (a int, b int2, c int8, gone text, o oid, d date, ts timestamp, tz timestamptz, ti time, m money, f float8, r float4, u bool, t text, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rag DROP COLUMN gone;
CREATE TABLE rag_heap (LIKE rag INCLUDING ALL) USING heap;

-- the same to both
CREATE PROCEDURE rag_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rag');
	EXECUTE replace(statement, '@', 'rag_heap');
END $$;
-- a query of @: by Rose Aggregate, by core's aggregates of the same rows, and of heap unless sums depend on its order
CREATE FUNCTION rag_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE 'SELECT x::text FROM (' || query || ') x' INTO said;
	RETURN coalesce(said, 'no row');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION rag_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rag_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	vectors text := rag_said(replace(query, '@', 'rag'));
	rows text;
	heap text := rag_said(replace(query, '@', 'rag_heap'));
BEGIN
	-- of few rows it costs the same
	IF query !~ '777' AND NOT EXISTS (SELECT FROM rag_plan(replace(query, '@', 'rag')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.enable_aggregate = off;
	rows := rag_said(replace(query, '@', 'rag'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors <> rows OR vectors <> heap AND query !~ '(sum|avg|min|max)\((-|abs\()?[fr]\M' THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %', query, vectors, rows, heap;
	END IF;
	RETURN vectors;
END $$;
CREATE TABLE rag_queries (n serial, q text);
INSERT INTO rag_queries (q)
	SELECT 'SELECT ' || list || ' FROM @' || cond FROM unnest(ARRAY[
		'count(*)', 'count(*), count(c), count(t), count(1)', 'sum(a), sum(b), sum(c), avg(a), avg(b), avg(c)',
		'sum(f), sum(r), avg(f), avg(r)', 'min(f), max(f), min(r), max(r)', 'min(a), max(a), min(b), max(b), min(c), max(c)',
		'min(o), max(o), min(d), max(d), min(ts), max(ts), min(tz), max(tz), min(ti), max(ti), min(m), max(m)',
		'min(t), max(t), count(t)', 'bool_and(u), bool_or(u), every(u), bit_and(a), bit_or(a), bit_and(b), bit_or(b), bit_and(c), bit_or(c)',
		'sum(c) + 1 - count(*), avg(a) * max(b), CASE WHEN count(*) > 3 THEN max(c) END']) list,
	unnest(ARRAY['', ' WHERE c > 500', ' WHERE c % 7 <> 3 AND a >= 2', ' WHERE a BETWEEN 3 AND 6 AND c % 3 <> 1 AND f > 20', ' WHERE c = 777', ' WHERE c < -5000000',
		' WHERE t IS NULL AND a IN (1, 5, 7)', ' HAVING count(*) > 30 AND max(c) > 4', ' HAVING count(*) < 0']) cond;
-- FILTER: of none, some and all aggregates, by columns that others take or nobody, of any type; for rows only that the query selects, and failing for one
INSERT INTO rag_queries (q)
	SELECT 'SELECT ' || list || ' FROM @' || cond FROM unnest(ARRAY[
		'count(*) FILTER (WHERE a > 3), count(*), count(1) FILTER (WHERE c % 2 = 0), sum(c) FILTER (WHERE a > 3), sum(c), sum(c) FILTER (WHERE u), avg(b) FILTER (WHERE t > ''5'')',
		'min(t) FILTER (WHERE t > ''5''), max(t), max(t) FILTER (WHERE length(t) > 40), count(t) FILTER (WHERE t IS NULL), count(*) FILTER (WHERE t IS NULL)',
		'sum(f) FILTER (WHERE r > 20), avg(r) FILTER (WHERE u IS NOT TRUE), min(f) FILTER (WHERE d > ''2020-03-01''), max(m) FILTER (WHERE m < ''5''), bool_or(u) FILTER (WHERE false), count(*) FILTER (WHERE NULL)',
		'sum(a) FILTER (WHERE a > (SELECT 4)), count(*) FILTER (WHERE c > 0 AND 1 / (c - 8) > 0)', 'bit_or(c) FILTER (WHERE CASE WHEN c <> 8 THEN 1 / (c - 8) = 0 END)']) list,
	unnest(ARRAY['', ' WHERE c <> 8', ' WHERE (c % 7) # 0 <> 3 AND a >= 2', ' WHERE a BETWEEN 3 AND 6 AND c % 3 <> 1 AND f > 20', ' WHERE c + 0 < 50 AND c > 0', ' WHERE c = 777',
		' HAVING count(*) FILTER (WHERE c > 5) > 30']) cond;
-- expressions: of any type, of one column and several, alike ones, with FILTER; failing for a row, which the query or a FILTER may leave out
INSERT INTO rag_queries (q)
	SELECT 'SELECT ' || list || ' FROM @' || cond FROM unnest(ARRAY[
		'sum(a * b), sum(b + 1), sum(b + 2), sum(b + 2) FILTER (WHERE a > 3), avg(a - b), sum(c / 3), avg(c % 7), sum(b), sum(1 - a), sum(a + (SELECT 4)), sum(coalesce(c, a)), sum(greatest(a, b)), sum(-c)',
		'sum(length(t)), avg(length(t)), max(length(t)), count(length(t)), min(upper(t)), max(t || a), count(nullif(t, ''x'')), max(CASE WHEN c > 100 THEN ''x'' ELSE t END), min(length(t) + a)',
		'max(ts + interval ''1 day''), min(date_trunc(''month'', ts)), max(date_trunc(''hour'', tz)), min(d + 1), max(d - a), max(extract(hour FROM ts)::int), min(ti + interval ''1 min''), max(m + m), max(date_part(''dow'', ts))',
		'sum(f * 2), sum(f + r), avg(-f), min(f / 3), max(r * r), sum(abs(r)), avg(f::int), max(c::float8), sum(r::float8 - 1)',
		'sum(CASE WHEN a > 3 THEN b WHEN u THEN c ELSE -1 END), count(CASE WHEN u THEN 1 END), count(u OR NULL), bool_and(a > 2), bool_or(c IS NULL), bit_or(a | b), sum((t LIKE ''%a%'')::int), count(a IS NULL OR NULL), count(NULL), sum(1)',
		'sum(b * c), sum(b - c), sum(a % 3), sum(c % (a + 1)), sum(a / nullif(b, 0)), sum(a / b) FILTER (WHERE b <> 0), sum(b::int8 * 3 - a), sum((c % 1000)::int2 + b), avg(f + c), sum(f * r - a), max(f / nullif(r, 0)), sum(a / -1), sum(c % -1), sum(5 - b), max(7 / (a + 1))',
		'count(CASE WHEN a > 3 AND c > 100 OR u THEN 1 END), sum(CASE WHEN NOT u THEN a WHEN t IS NULL THEN 100 ELSE b END), max(CASE WHEN f > 20 THEN ''far'' WHEN d < ''2020-02-01'' THEN ''early'' ELSE t END), sum(CASE WHEN a <> b AND NOT (c <= 5) THEN 1 ELSE 0 END), count(coalesce(c, b)),
			count(*) FILTER (WHERE ts >= ''2019-12-31 23:00'' AND f IS NOT NULL), bool_and(a < b OR c IS NULL), sum(CASE WHEN a > 0 THEN 100 / a END), max(CASE WHEN u AND a > 2 THEN d END), bool_or(r > f), sum(a) FILTER (WHERE NOT u OR c > b), sum(b) FILTER (WHERE a <> 0 AND 20 / a > 3), count(coalesce(t, ''x''))',
		'sum(1 / (c - 8)), count(*)', 'sum(1 / (c - 8)) FILTER (WHERE c <> 8), sum(CASE WHEN c <> 8 THEN 1 / (c - 8) END)', 'sum(a * 1000000000), count(*)', 'sum((b + 32700)::int2)', 'sum(c * 1000000)', 'sum(sqrt(50 - a * b)), count(*)']) list,
	unnest(ARRAY['', ' WHERE c <> 8', ' WHERE (c % 7) # 0 <> 3 AND a >= 2', ' WHERE c + 0 < 50 AND c > 0']) cond;
INSERT INTO rag_queries (q) VALUES ('SELECT sum(b + 1), count(NULL), max(upper(t)) FROM @ WHERE c = 777'), ('SELECT count(*) FROM @ HAVING sum(a + b) > 3'), ('SELECT count(*), sum(1 / (c - 8)) FROM @ LIMIT 0'),
	('SELECT ' || (SELECT string_agg(format('sum(b + %s), sum(b + %s) FILTER (WHERE a > %s)', i, i, i % 10), ', ') FROM generate_series(1, 40) i) || ' FROM @');
CREATE FUNCTION rag_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || count(DISTINCT said) FROM (SELECT rag_same(q) AS said FROM rag_queries ORDER BY n) x
$$;

-- in memory; in a run; merged; merged, with newer versions above
CALL rag_both($$INSERT INTO @ SELECT i % 10, i / 10, CASE WHEN i % 11 > 0 THEN i * CASE i % 4 WHEN 0 THEN 1 WHEN 1 THEN -1000000 WHEN 2 THEN 3 ELSE 9000000000000000 END END,
	CASE WHEN i % 3 > 0 THEN i * 4000000::int8 % 4294967296 END, date '2020-01-01' + i % 365, timestamp '2020-01-01' - i * interval '7 s', timestamptz '2020-01-01 00:00Z' + i * interval '3 h',
	time '00:00' + i * interval '1 min', (i % 17)::numeric::money, CASE WHEN i % 9 > 0 THEN i / 7.0 END, i / 3.0, CASE WHEN i % 3 > 0 THEN i % 2 = 0 END,
	CASE WHEN i % 5 > 0 THEN md5(i::text) END FROM generate_series(1, 1000) i$$);
ANALYZE rag;
SELECT rag_all_same();
SELECT rose.spill('rag');
SELECT rag_all_same();
SELECT rose.merge('rag');
SELECT rag_all_same();
CALL rag_both($$UPDATE @ SET t = 'changed ä€', c = c + 300 WHERE a = 3 AND c % 5 = 0$$);
CALL rag_both($$DELETE FROM @ WHERE a = 4 AND c % 5 < 3$$);
SELECT rag_all_same();
SELECT rose.spill('rag');
CALL rag_both($$UPDATE @ SET c = -c, f = -f, r = -r WHERE a = 6 AND b < 40$$);
CALL rag_both($$INSERT INTO @ (a, b) VALUES (-1, 0), (5, 1000), (100, -1)$$);
SELECT rag_all_same();
-- a column that older rows do not have
CALL rag_both($$ALTER TABLE @ ADD COLUMN added int DEFAULT 7, ADD COLUMN empty float8$$);
CALL rag_both($$UPDATE @ SET added = c % 1000 WHERE a = 7 AND c % 3 = 0$$);
INSERT INTO rag_queries (q) VALUES ('SELECT count(added), sum(added), avg(added), min(added) FROM @'), ('SELECT count(empty), sum(empty), avg(empty), max(empty), count(*) FROM @');
SELECT rag_all_same();
SELECT rag_same('SELECT count(*), (SELECT sum(v) FROM generate_series(1, 3) v WHERE v < max(@.b)) FROM @');
SET rose.vector_rows = 1;
SELECT rag_all_same();
SET rose.vector_rows = 7;
SELECT rag_all_same();
RESET rose.vector_rows;

-- texts: none, empty, long, by bytes and by the database's order; a varchar, which is one
CREATE TABLE rag_text (id int PRIMARY KEY, t text, c text COLLATE "C", v varchar(3000), long text) USING rose;
CREATE TABLE rag_heap_text (LIKE rag_text INCLUDING ALL) USING heap;
INSERT INTO rag_heap_text SELECT i, CASE WHEN i % 7 > 0 THEN substr(md5(i::text), 1, i % 33) END, chr(65 + i * 31 % 58) || i, repeat(chr(97 + i % 26), i % 40), repeat(md5(i::text), 120 - i % 90)
	FROM generate_series(0, 2999) i;
INSERT INTO rag_text SELECT * FROM rag_heap_text ORDER BY id * 7919 % 3000;
ANALYZE rag_text;
CREATE FUNCTION rag_texts() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT md5(rag_same('SELECT ' || list || ' FROM @_text' || cond)) FROM unnest(ARRAY['min(t), max(t)', 'min(c), max(c), max(t), min(id)', 'min(v), max(v)', 'min(long), max(long)', 'sum(length(long)), avg(length(t)), max(length(v)), sum(length(coalesce(t, v)))']) list,
		unnest(ARRAY['', ' WHERE length(t) > 20 OR id > 300', ' WHERE id BETWEEN 500 AND 1700']) cond
$$;
CREATE TABLE rag_texts_said AS SELECT rag_texts() AS said;
SELECT count(*), count(DISTINCT said) FROM rag_texts_said;
SELECT rose.merge('rag_text');
SELECT count(*) FROM ((SELECT rag_texts() EXCEPT TABLE rag_texts_said) UNION ALL (TABLE rag_texts_said EXCEPT SELECT rag_texts())) x;
SELECT rag_same('SELECT min(t), max(t), min(v), max(v) FROM @_text WHERE length(t) > 20');

-- own changes, and what is rolled back
BEGIN;
CALL rag_both($$UPDATE @ SET c = 5 WHERE a = 8 AND c > 100$$);
SAVEPOINT s;
CALL rag_both($$DELETE FROM @ WHERE a = 2$$);
CALL rag_both($$INSERT INTO @ (a, b, c) SELECT i, -5, i FROM generate_series(1, 20) i$$);
SELECT rag_all_same();
ROLLBACK TO s;
SELECT rag_all_same();
ROLLBACK;
SELECT rag_all_same();

-- rows of a table at rest are counted, not read
CREATE FUNCTION rag_leaves() RETURNS text LANGUAGE sql AS $$
	SELECT substring(line FROM 'leaves=\d+') FROM rag_plan('SELECT count(*), count(1) FROM rag', 'COSTS off, ANALYZE, VERBOSE, BUFFERS off, TIMING off, SUMMARY off') line WHERE line ~ 'leaves'
$$;
-- once nobody runs who was there before the rows
CREATE FUNCTION rag_counted_soon() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 1800 LOOP
		IF rag_leaves() = 'leaves=0' THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN false;
END $$;
SELECT rose.merge('rag');
SELECT rag_counted_soon(), rag_same('SELECT count(*) FROM @');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT rag_same('SELECT count(*) FROM @');
ROLLBACK;
BEGIN;
CALL rag_both('DELETE FROM @ WHERE a = 1 AND b = 4');
SELECT rag_leaves() = 'leaves=0' AS counted, rag_same('SELECT count(*) FROM @');
CALL rag_both('INSERT INTO @ (a, b) VALUES (77, 1)');
SELECT rag_same('SELECT count(*) FROM @');
ROLLBACK;
SELECT rag_counted_soon(), rag_same('SELECT count(*) FROM @');
CALL rag_both('UPDATE @ SET c = 3 WHERE a = 9 AND b = 9');
CALL rag_both('DELETE FROM @ WHERE a = 9 AND b = 8');
SELECT rag_same('SELECT count(*) FROM @');
SELECT rose.spill('rag');
SELECT rag_same('SELECT count(*) FROM @');
SELECT rose.merge('rag');
SELECT rag_counted_soon(), rag_same('SELECT count(*) FROM @');

-- plans
EXPLAIN (COSTS off, VERBOSE) SELECT count(*), sum(c) / 2, avg(f) FROM rag WHERE a > 3 AND c > 5 AND length(t) > 3 HAVING max(r) > 1;
EXPLAIN (COSTS off) SELECT count(*) FROM rag;
EXPLAIN (COSTS off, VERBOSE) SELECT count(*) FILTER (WHERE t > 'x'), max(c) FILTER (WHERE a > 3 AND b < 5) FROM rag;
EXPLAIN (COSTS off, VERBOSE) SELECT sum(a * b) + 1, avg(length(t)) FILTER (WHERE u), sum(CASE WHEN u THEN c ELSE 0 END) FROM rag WHERE a > 3;
-- core's
SELECT q FROM unnest(ARRAY['count(DISTINCT c)', 'sum(c + random())', 'sum(a + (SELECT y.b FROM rag y WHERE y.a = rag.a LIMIT 1))', 'count(rag IS NULL)', 'count(a + tableoid::int)', 'sum(c) FILTER (WHERE random() < 2)', 'count(*) FILTER (WHERE rag IS NULL)', 'count(*) FILTER (WHERE a IN (SELECT b FROM rag))', 'sum(c + 1) FILTER (WHERE random() < 2)', 'sum(c ORDER BY a) FILTER (WHERE a > 3)', 'sum(c + 1 ORDER BY a)', 'sum(c ORDER BY a)', 'count(rag)', 'stddev(f)',
	'max(t::char(9))', 'max(t ORDER BY a)', 'percentile_disc(0.5) WITHIN GROUP (ORDER BY f)', 'max(xmin::text::int8)']) q
	WHERE EXISTS (SELECT FROM rag_plan('SELECT ' || q || ' FROM rag') line WHERE line ~ 'Rose Aggregate');
SELECT count(*) FROM rag_plan('SELECT count(*) FROM rag x JOIN rag y USING (a)') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rag_plan('SELECT count(*) FROM rag TABLESAMPLE SYSTEM (10)') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rag_plan('SELECT count(*) FROM rag WHERE now() IS NULL') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rag_plan('SELECT count(*) FROM rag WHERE a = 3 AND b = 5') line WHERE line ~ 'Rose Aggregate';
SELECT count(*) FROM rag_plan('SELECT max(a) FROM rag') line WHERE line ~ 'Rose Aggregate';

-- floats: NaN, infinities, zeros with signs, sums that depend on the order, overflow
CREATE TABLE rag_float (id int PRIMARY KEY, k int, f float8, r float4) USING rose;
CREATE TABLE rag_float_heap (LIKE rag_float INCLUDING ALL) USING heap;
INSERT INTO rag_float_heap SELECT i, i / 300, CASE i / 300 WHEN 0 THEN (ARRAY[1e16, 1, -1e16, 0.1])[i % 4 + 1] WHEN 1 THEN (ARRAY['NaN', '1', '-0', '0']::float8[])[i % 4 + 1]
	WHEN 2 THEN CASE WHEN i % 300 = 200 THEN 'Infinity'::float8 ELSE i END WHEN 3 THEN (ARRAY['-0', '0'])[i % 2 + 1]::float8 WHEN 4 THEN CASE i % 100 WHEN 50 THEN '-Infinity'::float8 WHEN 70 THEN 'Infinity' ELSE 1 END
	WHEN 5 THEN 1e308 WHEN 6 THEN NULL WHEN 7 THEN 3e154 ELSE CASE WHEN i % 300 > 3 THEN -0.0::float8 END END, NULL FROM generate_series(0, 2699) i;
UPDATE rag_float_heap SET r = CASE WHEN k = 5 THEN 3e38 WHEN k = 7 THEN 1e-30 ELSE f END;
INSERT INTO rag_float SELECT * FROM rag_float_heap ORDER BY id;
ANALYZE rag_float;
CREATE FUNCTION rag_floats() RETURNS TABLE (k int, list text, said text) LANGUAGE plpgsql AS $$
DECLARE
	rows text;
	heap text;
	at text;
BEGIN
	FOR k IN SELECT generate_series(-1, 8) LOOP
		FOREACH list IN ARRAY ARRAY['sum(f)', 'avg(f)', 'min(f)', 'max(f)', 'sum(r)', 'avg(r)', 'min(r)', 'max(r)'] LOOP
			at := CASE WHEN k >= 0 THEN format(' WHERE id >= %s AND id < %s', k * 300, (k + 1) * 300) ELSE ' WHERE k IN (0, 3, 8)' END;
			said := rag_said('SELECT ' || list || ' FROM rag_float' || at);
			SET LOCAL rose.enable_aggregate = off;
			rows := rag_said('SELECT ' || list || ' FROM rag_float' || at);
			SET LOCAL rose.enable_aggregate = on;
			heap := rag_said('SELECT ' || list || ' FROM (SELECT * FROM rag_float_heap ORDER BY id) x' || at);
			IF said <> rows OR said <> heap THEN
				RAISE EXCEPTION 'of % %: % % %', k, list, said, rows, heap;
			END IF;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT k, string_agg(said, ' ; ') FROM rag_floats() GROUP BY k ORDER BY k;
SELECT rose.merge('rag_float');
SELECT count(*) FROM rag_floats();

-- integers at their ends: sums of int8 are wider
CREATE TABLE rag_int (id int PRIMARY KEY, c int8, a int, b int2) USING rose;
INSERT INTO rag_int SELECT i, CASE WHEN i % 3 > 0 THEN 9223372036854775807 ELSE -9223372036854775807 - 1 END, CASE WHEN i % 3 > 0 THEN 2147483647 ELSE -2147483648 END, CASE WHEN i % 3 > 0 THEN 32767 ELSE -32768 END FROM generate_series(1, 5000) i;
ANALYZE rag_int;
SELECT sum(c), avg(c), sum(a), avg(a), sum(b), avg(b), min(c), max(c), min(a), max(b) FROM rag_int;
SELECT sum(c), avg(c), sum(a), sum(b) FROM rag_int WHERE c < 0;
SET rose.enable_aggregate = off;
SELECT sum(c), avg(c), sum(a), avg(a), sum(b), avg(b), min(c), max(c), min(a), max(b) FROM rag_int;
SELECT sum(c), avg(c), sum(a), sum(b) FROM rag_int WHERE c < 0;
SET rose.enable_aggregate = on;

-- domains; empty tables
CREATE DOMAIN rag_domain AS int CHECK (VALUE <> 13);
CREATE TABLE rag_other (id int PRIMARY KEY, v rag_domain) USING rose;
INSERT INTO rag_other SELECT i, nullif(i % 100, 13) FROM generate_series(1, 1000) i;
ANALYZE rag_other;
EXPLAIN (COSTS off) SELECT sum(v), max(v), count(v) FROM rag_other;
SELECT sum(v), max(v), count(v) FROM rag_other;
DELETE FROM rag_other;
SELECT count(*), sum(v), max(v), avg(v), count(v) FROM rag_other;
SELECT 1 FROM rag_other HAVING count(*) = 0;

-- parameters, rescans, cursors
PREPARE rag_p (int, int8) AS SELECT count(*), sum(c), avg(f) FROM rag WHERE a >= $1 AND c < $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE rag_p (3, 500);
EXECUTE rag_p (3, 500);
EXECUTE rag_p (7, 900000);
EXECUTE rag_p (NULL, 900);
ALTER TABLE rag ADD COLUMN later int;
EXECUTE rag_p (3, 500);
ALTER TABLE rag DROP COLUMN later;
EXECUTE rag_p (3, 500);
PREPARE rag_e (int, text) AS SELECT sum(b + $1), count(*) FILTER (WHERE a > $1), max($2 || t), count(nullif(tz < now(), $1 > 3)) FROM rag;
EXECUTE rag_e (3, 'x');
EXECUTE rag_e (5, NULL);
SET plan_cache_mode = force_custom_plan;
EXECUTE rag_e (5, NULL);
RESET plan_cache_mode;
SET enable_memoize = off;
SET enable_material = off;
SELECT lo, (SELECT count(*) FROM rag WHERE a >= lo AND c > 10 * lo), (SELECT count(*) FROM rag_heap WHERE a >= lo AND c > 10 * lo) FROM generate_series(-1, 12, 4) lo;
EXPLAIN (COSTS off) SELECT lo, (SELECT sum(b) FROM rag WHERE a >= lo AND c % 7 > lo) FROM generate_series(-1, 12, 4) lo;
SELECT lo, (SELECT sum(b) FROM rag WHERE a >= lo AND c % 7 > lo), (SELECT sum(b) FROM rag_heap WHERE a >= lo AND c % 7 > lo) FROM generate_series(-1, 12, 4) lo;
SELECT lo, n, s FROM (VALUES (1), (NULL), (8)) v (lo), LATERAL (SELECT count(*) AS n, sum(b) AS s FROM rag WHERE a > lo AND c <> lo OFFSET 0) x;
-- what is remembered of values is forgotten when parameters change
SELECT lo, x.*, x IS NOT DISTINCT FROM y AS same FROM (VALUES (1), (NULL), (8), (3)) v (lo), LATERAL (SELECT count(a + lo) AS n, sum(b * lo) AS s, sum(a) FILTER (WHERE a > lo) AS f, max(t || lo) AS t FROM rag OFFSET 0) x,
	LATERAL (SELECT count(a + lo) AS n, sum(b * lo) AS s, sum(a) FILTER (WHERE a > lo) AS f, max(t || lo) AS t FROM rag_heap OFFSET 0) y;
RESET enable_memoize;
RESET enable_material;
BEGIN;
DECLARE rag_c SCROLL CURSOR FOR SELECT count(*), max(c) FROM rag;
FETCH 2 FROM rag_c;
FETCH BACKWARD 1 FROM rag_c;
FETCH FIRST FROM rag_c;
ROLLBACK;
UPDATE rag SET t = (SELECT count(*) FROM rag WHERE c > 0)::text WHERE a = 1 AND b < 3;
SELECT t = (SELECT count(*) FROM rag WHERE c > 0)::text FROM rag WHERE a = 1 AND b < 3;

-- partitions: one of them, and all
CREATE TABLE rag_parts (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE rag_part_1 PARTITION OF rag_parts FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE rag_part_2 PARTITION OF rag_parts FOR VALUES FROM (1000) TO (3000) USING rose;
INSERT INTO rag_parts SELECT i, i % 77 FROM generate_series(0, 2999) i;
ANALYZE rag_parts;
SELECT count(*), sum(v), avg(v), max(v) FROM rag_parts;
SELECT count(*), sum(v), avg(v), max(v) FROM rag_part_1;
SET enable_partitionwise_aggregate = on;
SELECT count(*), sum(v), avg(v), max(v) FROM rag_parts;
RESET enable_partitionwise_aggregate;

-- rights, row security and barriers: a function that leaks sees no hidden row
CREATE TABLE rag_secret (id int PRIMARY KEY, owner text, v int) USING rose;
INSERT INTO rag_secret SELECT i, CASE WHEN i % 2 = 0 THEN 'rag_user' ELSE 'other' END, i % 10 FROM generate_series(1, 1000) i;
ANALYZE rag_secret;
CREATE FUNCTION rag_leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 % 2 = 1 THEN RAISE 'leaked %', $1; END IF; RETURN true; END $$;
CREATE ROLE rag_user;
GRANT SELECT (id, owner) ON rag_secret TO rag_user;
ALTER TABLE rag_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY rag_own ON rag_secret USING (owner = current_user);
SET ROLE rag_user;
SELECT count(*), sum(id) FROM rag_secret;
SELECT count(*), sum(id) FROM rag_secret WHERE rag_leak(id);
SELECT count(rag_leak(id)), count(*) FILTER (WHERE rag_leak(id)), bool_and(rag_leak(id)) FROM rag_secret;
SELECT sum(v) FROM rag_secret;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION sum(int) FROM public;
SET ROLE rag_user;
SELECT sum(id) FROM rag_secret;
RESET ROLE;
GRANT EXECUTE ON FUNCTION sum(int) TO public;

DROP TABLE rag, rag_heap, rag_queries, rag_float, rag_float_heap, rag_int, rag_other, rag_parts, rag_secret;
DROP FUNCTION rag_said, rag_plan, rag_same, rag_all_same, rag_floats, rag_leak, rag_leaves, rag_counted_soon;
DROP PROCEDURE rag_both;
DROP DOMAIN rag_domain;
DROP ROLE rag_user;
