-- Rose Aggregate with GROUP BY: least and greatest texts. The same as row by row, and as of heap, whatever state the table is in.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE TABLE rgt (a int, b int, k int, t text, c text COLLATE "C", v varchar(30), long text, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rgt SET (autovacuum_enabled = off);
CREATE TABLE rgt_heap (LIKE rgt INCLUDING ALL) USING heap;
CREATE PROCEDURE rgt_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rgt');
	EXECUTE replace(statement, '@', 'rgt_heap');
END $$;
CREATE FUNCTION rgt_said(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	EXECUTE 'SELECT count(*) || '' '' || md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")) FROM (' || query || ') x' INTO said;
	RETURN said;
END $$;
CREATE FUNCTION rgt_plan(query text, options text = 'COSTS off') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
CREATE FUNCTION rgt_same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	vectors text := rgt_said(replace(query, '@', 'rgt'));
	parts text;
	rows text;
	heap text := rgt_said(replace(query, '@', 'rgt_heap'));
BEGIN
	IF NOT EXISTS (SELECT FROM rgt_plan(replace(query, '@', 'rgt')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.aggregate_memory = '4kB';
	parts := rgt_said(replace(query, '@', 'rgt'));
	SET LOCAL rose.aggregate_memory = -1;
	SET LOCAL rose.enable_aggregate = off;
	rows := rgt_said(replace(query, '@', 'rgt'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors IS DISTINCT FROM rows OR vectors IS DISTINCT FROM parts OR vectors IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %\nparts %', query, vectors, rows, heap, parts;
	END IF;
	RETURN vectors;
END $$;
-- by the first column of the key, in which order they come, in runs; and by another one, which is hashed
CREATE FUNCTION rgt_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || min(rgt_same) FROM (SELECT rgt_same('SELECT ' || keys || ', ' || list || ' FROM @' || cond || ' GROUP BY ' || keys)
		FROM unnest(ARRAY['a', 'k', 'a, k']) keys, unnest(ARRAY['min(t), max(t)', 'min(c), max(c), count(*)', 'min(v), max(v), sum(b)', 'min(long), max(long), min(t)', 'max(t) FILTER (WHERE b % 3 = 0), min(c) FILTER (WHERE t IS NULL)', 'min(t || b), max(substr(long, 1, 40)), count(long || t), min(upper(v)) FILTER (WHERE b > 20)']) list,
			unnest(ARRAY['', ' WHERE length(t) > 5 OR b > 50']) cond) x
$$;
CALL rgt_both($$INSERT INTO @ SELECT i % 8, i / 8, i * 7 % 11, CASE WHEN i % 7 > 0 AND i % 8 <> 5 THEN substr(md5(i::text), 1, i % 33) END, chr(65 + i * 31 % 58) || i, repeat(chr(97 + i % 26), i % 30),
	CASE WHEN i % 40 = 0 THEN repeat(md5(i::text), 200) ELSE 'short ' || i * 7919 % 2003 END FROM generate_series(1, 2500) i$$);
ANALYZE rgt;
SELECT rgt_all_same();
SELECT rose.merge('rgt');
SELECT rgt_all_same() IS NOT NULL;
CALL rgt_both($$UPDATE @ SET t = 'zz' || t, c = NULL, long = '' WHERE a = 3 AND b % 5 = 0$$);
CALL rgt_both($$DELETE FROM @ WHERE a = 4 AND b % 5 < 3$$);
SELECT rose.spill('rgt');
CALL rgt_both($$UPDATE @ SET v = 'W' || a WHERE b < 20$$);
SELECT rgt_all_same() IS NOT NULL;
SET rose.vector_rows = 7;
SELECT rgt_all_same() IS NOT NULL;
RESET rose.vector_rows;
EXPLAIN (COSTS off) SELECT k, min(t), max(long) FROM rgt GROUP BY k;
-- rows that are passed on
SET rose.aggregate_sample = 0;
CREATE TABLE rgt_many (id int PRIMARY KEY, k int, t text) USING rose;
ALTER TABLE rgt_many ALTER k SET (n_distinct = 50);
INSERT INTO rgt_many SELECT i, i * 7919 % 15013, 'text ' || i FROM generate_series(1, 30000) i;
ANALYZE rgt_many;
SELECT count(*) FROM rgt_plan('SELECT k, min(t), max(t) FROM rgt_many GROUP BY k', 'ANALYZE, COSTS off, TIMING off, SUMMARY off') line WHERE line ~ 'Groups: .*passed=[1-9]';
SELECT rgt_said('SELECT k, min(t), max(t) FROM rgt_many GROUP BY k') AS vectors \gset
SET rose.enable_aggregate = off;
SELECT rgt_said('SELECT k, min(t), max(t) FROM rgt_many GROUP BY k') = :'vectors' AS same;
RESET rose.enable_aggregate;
RESET rose.aggregate_sample;
DROP TABLE rgt, rgt_heap, rgt_many;
DROP FUNCTION rgt_said, rgt_plan, rgt_same, rgt_all_same;
DROP PROCEDURE rgt_both;
