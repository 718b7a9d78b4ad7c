-- Rose Scan: conditions on texts as filters, asked once for values that come again. The same rows as by the plain scans, and as of heap.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE TABLE rtf_heap (id int PRIMARY KEY, few text, many text, v varchar(20), c char(8), gaps text, long text) USING heap;
CREATE TABLE rtf (LIKE rtf_heap INCLUDING ALL) USING rose;
CREATE PROCEDURE rtf_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rtf');
	EXECUTE replace(statement, '@', 'rtf_heap');
END $$;
CALL rtf_both($$INSERT INTO @ SELECT i, (ARRAY['', 'red', 'Red', 'green', 'gr_en', '100%', E'back\\slash'])[1 + i * 7 % 11 % 7], md5(i::text), 'v' || i % 40, (ARRAY['a', 'a ', 'b', 'ab'])[1 + i % 4],
	CASE WHEN i % 9 > 0 THEN 'x' || i % 60 END, CASE WHEN i % 50 = 0 THEN repeat(md5(i::text), 300) ELSE 'short' || i % 3 END FROM generate_series(1, 3000) i$$);
ANALYZE rtf;
CREATE FUNCTION rtf_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rtf_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE query INTO said;
	RETURN said;
EXCEPTION WHEN invalid_escape_sequence OR invalid_regular_expression OR division_by_zero THEN
	RETURN SQLERRM;
END $$;
-- by filters, without an aggregate of ours, without any, and heap's
CREATE FUNCTION rtf_same(cond text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM rtf WHERE ' || cond;
	filters text := rtf_said(query);
	others text[];
BEGIN
	IF cond !~ '~|LIKE \(|\\''$' AND NOT EXISTS (SELECT FROM rtf_plan(query) line WHERE line ~ '(Vectorized Filter|One-Time Filter)') THEN
		RAISE EXCEPTION 'no filter: %', cond;
	END IF;
	SET LOCAL rose.vector_rows = 7;
	others := others || rtf_said(query);
	RESET rose.vector_rows;
	SET LOCAL rose.enable_aggregate = off;
	others := others || rtf_said(query);
	SET LOCAL rose.enable_scan = off;
	others := others || rtf_said(query);
	SET LOCAL rose.enable_scan = on;
	SET LOCAL rose.enable_aggregate = on;
	others := others || rtf_said(replace(query, 'rtf', 'rtf_heap'));
	IF others IS DISTINCT FROM array_fill(filters, ARRAY[4]) THEN
		RAISE EXCEPTION E'%\nfilters %\nothers %', cond, filters, others;
	END IF;
	RETURN filters;
END $$;
CREATE TABLE rtf_conditions (n serial, cond text);
INSERT INTO rtf_conditions (cond) SELECT col || ' ' || op FROM unnest(ARRAY['few', 'many', 'v', 'gaps', 'long']) col,
	unnest(ARRAY['= ''red''', '<> ''''', '< ''n''', '>= ''x5''', 'LIKE ''%e%''', 'NOT LIKE ''%e%''', 'LIKE ''r_d''', 'ILIKE ''RED%''', '~ ''^[a-m]''', '!~* ''R''', 'LIKE ''%\%''', '= NULL::text', 'LIKE (SELECT ''%1%'')']) op;
INSERT INTO rtf_conditions (cond) SELECT unnest(ARRAY['''red'' = few', '''n'' > few', 'c = ''a''', 'c <> ''b  ''', 'c LIKE ''a%''', 'c >= ''ab''', 'few ^@ ''gr''', 'NOT (gaps LIKE ''%1%'')', '(gaps LIKE ''%1%'') IS NOT TRUE', '(gaps = ''x1'') IS UNKNOWN',
	'few <> '''' AND gaps LIKE ''%1'' AND many LIKE ''%a%''', 'few = ''red'' OR gaps IS NULL OR many < ''2''', 'NOT (few = ''red'' AND gaps <> ''x7'')', 'id % 3 = 0 AND few <> ''''', 'id > 2000 AND many LIKE ''%00%''', 'id = 77 OR long LIKE ''%a0a%''', 'few = ''red'' AND few = ''green''']);
CREATE FUNCTION rtf_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || sum(split_part(rtf_same, ' ', 1)::int) FROM (SELECT rtf_same(cond) FROM rtf_conditions) x
$$;
SELECT rtf_all_same();
SELECT rose.spill('rtf');
SELECT rtf_all_same();
CALL rtf_both($$UPDATE @ SET few = 'changed', gaps = NULL WHERE id % 10 = 3$$);
SELECT rtf_all_same();
SELECT rose.merge('rtf');
SELECT rtf_all_same();
-- what fails does so for rows that come to it, and for no other
SELECT rtf_same(cond) FROM unnest(ARRAY['few LIKE ''a\''', 'gaps LIKE ''no'' AND few LIKE ''r\''', 'few = ''red'' OR few LIKE ''gr\''', 'few = ''none'' OR id < 0 AND few LIKE ''r\''']) cond;
-- nor for rows that nobody has asked for yet: what may fail for a row is asked row by row
CREATE TABLE rtf_late_heap (id int PRIMARY KEY, t text, p text) USING heap;
CREATE TABLE rtf_late (LIKE rtf_late_heap INCLUDING ALL) USING rose;
INSERT INTO rtf_late_heap SELECT i, CASE WHEN i BETWEEN 10000 AND 10010 THEN 'x' || i WHEN i = 10020 THEN 'abc' ELSE 'w' END, CASE WHEN i = 10020 THEN '(\' ELSE '^x' END FROM generate_series(1, 20000) i;
INSERT INTO rtf_late SELECT * FROM rtf_late_heap;
ANALYZE rtf_late_heap, rtf_late;
CREATE FUNCTION rtf_first(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	first text;
BEGIN
	OPEN c NO SCROLL FOR EXECUTE query;
	FETCH c INTO first;
	CLOSE c;
	RETURN first;
EXCEPTION WHEN invalid_escape_sequence OR invalid_regular_expression THEN
	RETURN SQLERRM;
END $$;
CREATE VIEW rtf_late_said AS SELECT cond, rtf_first(replace(first, '@t', 'rtf_late_heap')) AS heap, rtf_first(replace(first, '@t', 'rtf_late')) AS rose,
	rtf_said(replace(few, '@t', 'rtf_late_heap')) AS heap_few, rtf_said(replace(few, '@t', 'rtf_late')) AS rose_few
	FROM unnest(ARRAY['t LIKE ''x%'' OR t LIKE ''ab\''', 't LIKE ''x%'' OR p ILIKE ''(\''', 't LIKE ''x%'' OR NOT t NOT LIKE ''ab\''', 't LIKE ''x%'' OR t LIKE ''abc\\''',
		't LIKE ''x%'' OR t = ''abc'' AND ''x'' ~ p', 't LIKE ''x%'' OR ''(x'' LIKE p', 't ^@ ''x'' OR p LIKE (SELECT ''(\'')']) cond,
	LATERAL (SELECT 'SELECT id FROM @t WHERE ' || cond AS first, 'SELECT string_agg(id::text, '','') FROM (SELECT id FROM @t WHERE ' || cond || ' LIMIT 3) x' AS few) queries;
SELECT * FROM rtf_late_said;
SELECT rose.spill('rtf_late');
SELECT rose.merge('rtf_late');
SELECT count(*) FILTER (WHERE (heap, heap_few) IS DISTINCT FROM (rose, rose_few)) AS differ FROM rtf_late_said;
EXPLAIN (COSTS off) SELECT id FROM rtf_late WHERE t LIKE '%x\\' AND p NOT LIKE '\%' AND t ILIKE 'W%' AND p ^@ '^';
EXPLAIN (COSTS off) SELECT id FROM rtf_late WHERE t LIKE 'x\' AND p ILIKE '(\' AND t ~ 'x' AND t LIKE p AND 'x' LIKE p;
SELECT rtf_plan($$SELECT id FROM rtf_late WHERE t LIKE repeat('a', $$ || n || ')') ~ 'Vectorized' AS filter FROM unnest(ARRAY[256, 257]) n OFFSET 0;
DROP VIEW rtf_late_said;
DROP TABLE rtf_late, rtf_late_heap;
DROP FUNCTION rtf_first;
-- plans
EXPLAIN (COSTS off, VERBOSE) SELECT id, many FROM rtf WHERE few <> '' AND many LIKE '%7%' AND length(many) > 5 AND id > 10;
-- what may fail does not come before what is asked row by row; a comparison may
EXPLAIN (COSTS off) SELECT id FROM rtf WHERE many > gaps AND few <> '';
EXPLAIN (COSTS off) SELECT id FROM rtf WHERE many > gaps AND few LIKE '%e%';
PREPARE rtf_p (text, text) AS SELECT count(*), min(id) FROM rtf WHERE few LIKE $1 AND gaps <> $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE rtf_p ('%e%', 'x1');
EXECUTE rtf_p ('%e%', 'x1');
EXECUTE rtf_p ('r%', 'x2');
EXECUTE rtf_p (NULL, 'x2');
EXECUTE rtf_p ('100\%', NULL);
RESET plan_cache_mode;
SELECT p, n FROM unnest(ARRAY['r%', NULL, '%e%', '100\%']) p, LATERAL (SELECT count(*) AS n FROM rtf WHERE few LIKE p OFFSET 0) x;
SELECT p, n FROM unnest(ARRAY['r%', NULL, '%e%', '100\%']) p, LATERAL (SELECT count(*) AS n FROM rtf_heap WHERE few LIKE p OFFSET 0) x;
-- another role sees its rows, and no function is asked of others
CREATE ROLE rtf_user;
GRANT SELECT ON rtf TO rtf_user;
ALTER TABLE rtf ENABLE ROW LEVEL SECURITY;
CREATE POLICY rtf_own ON rtf USING (few <> 'red' AND length(many) = 32);
SET ROLE rtf_user;
EXPLAIN (COSTS off) SELECT count(*) FROM rtf WHERE v LIKE '%7%' AND gaps = 'x7';
SELECT count(*) FROM rtf WHERE v LIKE '%7%' AND gaps = 'x7';
RESET ROLE;
SELECT count(*) FROM rtf_heap WHERE v LIKE '%7%' AND gaps = 'x7' AND few <> 'red';
DEALLOCATE rtf_p;
DROP TABLE rtf, rtf_heap, rtf_conditions;
DROP PROCEDURE rtf_both;
DROP FUNCTION rtf_plan, rtf_said, rtf_same, rtf_all_same;
DROP ROLE rtf_user;
