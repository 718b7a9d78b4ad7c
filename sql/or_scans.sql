-- Conditions joined by OR, each looked up in an index of its own; and what scans of entries alone cost.
SET client_min_messages = warning;
CREATE TABLE ors (id int PRIMARY KEY, a int, b text COLLATE "C", c int, fill text) USING rose;
CREATE INDEX ors_a ON ors (a);
CREATE INDEX ors_b ON ors (b);
CREATE INDEX ors_ca ON ors (c, a);
INSERT INTO ors SELECT i, i % 1000, 'b' || i % 700, i % 3, repeat(md5(i::text), 3) FROM generate_series(1, 20000) i;
INSERT INTO ors VALUES (20001, NULL, NULL, NULL, NULL), (20002, 3, NULL, NULL, NULL), (20003, NULL, 'b3', NULL, NULL);
ANALYZE ors;

-- chosen where it is cheaper
EXPLAIN (COSTS off) SELECT * FROM ors WHERE a = 1 OR b = 'b3' OR id = 7;
EXPLAIN (COSTS off) SELECT * FROM ors WHERE (a = 1 AND b > 'b2') OR (c = 2 AND a BETWEEN 3 AND 4);
EXPLAIN (COSTS off) SELECT count(*) FROM ors WHERE fill LIKE '%7%' AND (a = 1 OR b = 'b3');
EXPLAIN (COSTS off) SELECT * FROM ors WHERE a = 1 OR fill = 'x';
EXPLAIN (COSTS off) SELECT * FROM ors WHERE a = 1 OR c = 2;
EXPLAIN (COSTS off) SELECT * FROM ors WHERE a = 1 OR b = 'b' || random();
-- not where there are to be no index scans, which 18 no longer says by costs
SET enable_indexscan = off;
EXPLAIN (COSTS off) SELECT * FROM ors WHERE a = 1 OR id = 7;
RESET enable_indexscan;

-- the same rows as by a look at all of them, each once
CREATE FUNCTION ors_same(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	by_index text[];
	by_look text[];
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO by_index;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO by_look;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_indexonlyscan = on;
	IF by_index IS DISTINCT FROM by_look THEN
		RAISE EXCEPTION '% by index, % by a look: %', by_index, by_look, query;
	END IF;
	RETURN coalesce(array_length(by_look, 1), 0);
END $$;
CREATE TABLE ors_queries (n serial, q text);
INSERT INTO ors_queries (q) VALUES ('a = 1 OR a = 2'), ('a = 1 OR a = 1'), ('a = 1 OR b = ''b1'''), ('a = 3 OR b = ''b3'' OR c = 2'), ('a IS NULL OR b IS NULL'),
	('a = 3 OR b IS NULL OR c IS NULL'), ('id < 9 OR id > 19990 OR a = 5'), ('(a = 5 AND c = 1) OR (a = 5 AND c = 2)'), ('(a = 5 OR b = ''b7'') AND (c = 1 OR id = 5)'),
	('(a = 5 OR b = ''b7'') AND fill > ''9'''), ('a IN (1, 2) OR b IN (''b1'', ''b2'') OR id = ANY (ARRAY[1, 701, 1001])'), ('(a > 990 AND a < 993) OR b > ''b98'''),
	('(a, id) < (3, 500) OR b = ''b4'''), ('a = 1 OR a = NULL'), ('a = 1 OR NULL'), ('a = 1 OR false'), ('NOT (a <> 1 AND b <> ''b1'')'), ('(a = 1) IS TRUE OR b = ''b1'''),
	('a = 1 OR (b = ''b1'' AND (c = 0 OR c = 1))'), ('a = 1 OR b = (SELECT ''b3'')'), ('a = 1 OR b IN (SELECT q FROM ors_queries)');
SELECT q, ors_same('SELECT * FROM ors WHERE ' || q) AS rows, ors_same('SELECT ctid IS NOT NULL AS tid, tableoid::regclass, b, id + 1 FROM ors WHERE ' || q) AS columns FROM ors_queries ORDER BY n;

-- parameters, rescans, cursors, changes
SET enable_seqscan = off;
PREPARE ors_get(int, text) AS SELECT count(*), sum(id) FROM ors WHERE a = $1 OR b = $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE ors_get(1, 'b1');
EXECUTE ors_get(1, 'b1');
EXECUTE ors_get(2, NULL);
RESET plan_cache_mode;
SELECT g, x.* FROM generate_series(1, 3) g, LATERAL (SELECT count(*), sum(id) FROM ors WHERE a = g OR b = 'b' || g OFFSET 0) x ORDER BY g;
-- PostgreSQL 18 would leave out a join of a table with itself by its key
DO $$ BEGIN IF current_setting('server_version_num')::int >= 180000 THEN SET enable_self_join_elimination = off; END IF; END $$;
EXPLAIN (COSTS off) SELECT count(*) FROM ors x JOIN ors y ON x.id = y.id AND (y.a = 1 OR y.b = 'b1') WHERE x.a = 4 OR x.b = 'b1';
SELECT count(*) FROM ors x JOIN ors y ON x.id = y.id AND (y.a = 1 OR y.b = 'b1') WHERE x.a = 4 OR x.a = 1;
BEGIN;
DECLARE o CURSOR FOR SELECT id FROM ors WHERE a = 1 OR b = 'b3' FOR UPDATE;
FETCH 2 FROM o;
UPDATE ors SET c = 100 WHERE CURRENT OF o;
FETCH 25 FROM o;
DELETE FROM ors WHERE CURRENT OF o;
SELECT id, a, b, c FROM ors WHERE c = 100;
SELECT count(*) FROM ors WHERE a = 1 OR b = 'b3';
DECLARE o2 CURSOR FOR SELECT id FROM ors WHERE a = 2 OR b = 'b4';
FETCH 1 FROM o2;
UPDATE ors SET c = 200 WHERE CURRENT OF o2;
SELECT id, a, b, c FROM ors WHERE c = 200;
ROLLBACK;
BEGIN;
EXPLAIN (COSTS off) UPDATE ors SET a = 2 WHERE a = 1 OR b = 'b3';
UPDATE ors SET a = 2 WHERE a = 1 OR b = 'b3';
SELECT count(*) FROM ors WHERE a = 1 OR a = 2;
WITH gone AS (DELETE FROM ors WHERE a = 2 OR id = 10 RETURNING *) SELECT count(*) FROM gone;
SELECT count(*) FROM ors WHERE a = 2 OR id = 10;
ROLLBACK;

-- who may see only some rows does not hear of others
CREATE ROLE ors_user;
CREATE FUNCTION ors_leak(int) RETURNS bool LANGUAGE plpgsql STABLE COST 0.0001 AS $$ BEGIN IF $1 = 1 THEN RAISE WARNING 'a row of others'; END IF; RETURN true; END $$;
ALTER TABLE ors ENABLE ROW LEVEL SECURITY;
CREATE POLICY ors_policy ON ors FOR SELECT TO ors_user USING (c <> 1);
GRANT SELECT ON ors TO ors_user;
SET ROLE ors_user;
EXPLAIN (COSTS off) SELECT count(*) FROM ors WHERE (a = 1 AND ors_leak(c)) OR (b = 'b1' AND ors_leak(c)) OR b = 'b9';
SELECT count(*) FROM ors WHERE (a = 1 AND ors_leak(c)) OR (b = 'b1' AND ors_leak(c)) OR b = 'b9';
RESET ROLE;
ALTER TABLE ors DISABLE ROW LEVEL SECURITY;

-- partitions
CREATE TABLE orp (id int, a int, b int) PARTITION BY RANGE (id);
CREATE TABLE orp1 PARTITION OF orp FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE orp2 PARTITION OF orp FOR VALUES FROM (1000) TO (2000) USING heap;
CREATE TABLE orp3 PARTITION OF orp FOR VALUES FROM (2000) TO (3000) USING rose;
CREATE INDEX ON orp (a);
CREATE INDEX ON orp (b);
INSERT INTO orp SELECT i, i % 100, i % 77 FROM generate_series(0, 2999) i;
EXPLAIN (COSTS off) SELECT * FROM orp WHERE a = 1 OR b = 2;
SELECT count(*), sum(id) FROM orp WHERE a = 1 OR b = 2;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET enable_seqscan = on;
SELECT count(*), sum(id) FROM orp WHERE a = 1 OR b = 2;
RESET enable_indexscan;
RESET enable_bitmapscan;

-- entries alone cost what they are, rows by the key what rows are
EXPLAIN (COSTS off) SELECT count(*) FROM ors WHERE a > 100 AND a < 300;		-- also if a worker has merged the table meanwhile
EXPLAIN (COSTS off) SELECT a FROM ors WHERE a < 500 ORDER BY a;
EXPLAIN (COSTS off) SELECT id FROM ors WHERE id < 100;
-- for each row
CREATE FUNCTION ors_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Total Cost')::float8 / (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float8;
END $$;
SELECT ors_cost('SELECT id FROM ors WHERE id < 10000') / ors_cost('SELECT * FROM ors WHERE id < 10000') BETWEEN 0.98 AND 1.02 AS as_rows;
-- what is in an index's tail log, or free in its file, costs nothing
CREATE TABLE ors_costs AS SELECT ors_cost('SELECT a FROM ors ORDER BY a') AS cost;
UPDATE ors SET a = a + 1;
UPDATE ors SET a = a - 1;
SELECT ors_cost('SELECT a FROM ors ORDER BY a') / cost BETWEEN 0.5 AND 1.3 AS as_before FROM ors_costs;
VACUUM FULL ors;
SELECT ors_cost('SELECT a FROM ors ORDER BY a') / cost > 0.5 AS when_merged FROM ors_costs;
DROP TABLE ors_costs;
RESET enable_seqscan;
EXPLAIN (COSTS off) SELECT sum(length(fill)) FROM ors WHERE a > 100 AND a < 900;


-- a table that nobody has analyzed yet is taken to be as large as on heap; then it is known
CREATE TABLE ors_new (id int, t text) USING rose WITH (autovacuum_enabled = off);
CREATE TABLE ors_new_heap (id int, t text) USING heap WITH (autovacuum_enabled = off);
INSERT INTO ors_new VALUES (1, 'x'), (2, 'y');
INSERT INTO ors_new_heap VALUES (1, 'x'), (2, 'y');
EXPLAIN SELECT * FROM ors_new_heap;
EXPLAIN SELECT * FROM ors_new;
ANALYZE ors_new;
EXPLAIN (COSTS off) SELECT * FROM ors_new x JOIN ors_new y USING (id);
DROP TABLE ors_new, ors_new_heap;

-- columns that no child reads, before others that one does: in what is returned, in an arm before, in what is written
CREATE TABLE orw (id int PRIMARY KEY, a text, b text, c int, d int) USING rose;
CREATE INDEX orw_a ON orw (a);
CREATE INDEX orw_c ON orw (c);
INSERT INTO orw SELECT i, 'a' || i, 'b' || i, i, i FROM generate_series(1, 1000) i;
SELECT rose.spill('orw');
ANALYZE orw;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT b, a FROM orw WHERE c = 5 OR (id IN (7, 8) AND d > 0);
SELECT b, a FROM orw WHERE c = 5 OR (id IN (7, 8) AND d > 0);
SELECT count(*), count(a) FROM orw WHERE a = 'a7' OR (id IN (7, 8) AND d > 0);
SELECT d, string_agg(b, ',') FROM orw WHERE c = 5 OR (id IN (7, 8) AND d > 0) GROUP BY d;
UPDATE orw SET b = coalesce(a, 'lost') WHERE c = 5 OR (id IN (7, 8) AND d > 0) RETURNING *;
-- partly in memory
SELECT b, a FROM orw WHERE c = 5 OR (id BETWEEN 6 AND 9 AND d > 0);
RESET enable_seqscan;
DROP TABLE orw;
DROP TABLE orp, ors_queries;
DROP TABLE ors;
DROP FUNCTION ors_same(text), ors_leak(int), ors_cost(text);
DROP ROLE ors_user;
