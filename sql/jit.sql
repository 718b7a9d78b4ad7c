-- Queries that are compiled (where the server can), which the other tests have switched off: each answer once interpreted, once compiled.
CREATE TABLE jit_rose (id int PRIMARY KEY, a int, b bigint, n numeric, t text, d date, f float8, gone int) USING rose;
INSERT INTO jit_rose SELECT i, i % 97, i * 3, i / 7.0, 'row ' || i % 13, date '2020-01-01' + i % 400, i / 3.0, 0 FROM generate_series(1, 3000) i;
SELECT rose.spill('jit_rose') IS NOT NULL AS spilled;
ALTER TABLE jit_rose DROP gone, ADD later int DEFAULT 7;
UPDATE jit_rose SET b = -b, t = NULL WHERE id % 10 = 3;
DELETE FROM jit_rose WHERE id % 11 = 5;
CREATE INDEX ON jit_rose (a);
ANALYZE jit_rose;
CREATE TABLE jit_answers (compiled bool, no int, answer text);
CREATE FUNCTION jit_ask(compiled bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	queries text[] := ARRAY[
		'SELECT count(*), sum(a), sum(b), max(t), min(d), sum(later) FROM jit_rose WHERE a * 2 + 1 > b % 50 AND t IS NOT NULL',
		'SELECT a, count(*), sum(n), avg(b) FROM jit_rose WHERE n > 10 GROUP BY a ORDER BY a',
		'SELECT count(DISTINCT t), sum(f)::numeric(20, 3) FROM jit_rose WHERE t LIKE ''row 1%''',
		'SELECT r.id, s.t, r.later FROM jit_rose r JOIN jit_rose s ON s.id = r.a + 1 WHERE r.d < ''2020-03-01'' ORDER BY r.id, s.t',
		'SELECT id, b, t, later FROM jit_rose WHERE a = 5 ORDER BY id',
		'SELECT id, t FROM jit_rose WHERE id BETWEEN 100 AND 140',
		'SELECT id, CASE WHEN a > 50 THEN upper(t) ELSE n::text END FROM jit_rose ORDER BY b DESC LIMIT 20'];
	answer text;
BEGIN
	PERFORM set_config('jit', compiled::text, true);
	FOR i IN 1 .. array_length(queries, 1) LOOP
		EXECUTE format('SELECT string_agg(q::text, '';'') FROM (%s) q', queries[i]) INTO answer;
		INSERT INTO jit_answers VALUES (compiled, i, answer);
	END LOOP;
END $$;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT jit_ask(false);
SELECT jit_ask(true);
SET rose.scan_min_rows = 0;
SET cpu_tuple_cost = 1;
SELECT jit_ask(false);
SELECT jit_ask(true);
SELECT no, count(DISTINCT answer) AS answers, min(length(answer)) > 10 AS has_rows, count(*) FROM jit_answers GROUP BY no ORDER BY no;
SET jit = on;
WITH changed AS (UPDATE jit_rose SET a = a + 1, n = n * 2 WHERE later + a % 3 = 8 RETURNING a, n) SELECT count(*), sum(a), sum(n)::numeric(20, 2) FROM changed;
WITH gone AS (DELETE FROM jit_rose WHERE (id * 7) % 5 = 1 RETURNING id) SELECT count(*), sum(id) FROM gone;
SELECT count(*), sum(a), sum(b) FROM jit_rose;
DROP TABLE jit_rose, jit_answers;
DROP FUNCTION jit_ask;
