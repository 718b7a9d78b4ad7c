-- Plans for tables with few rows: rows are looked up by key, because a prepared plan outlives the moment when there are few.
CREATE TABLE small_parent (id int PRIMARY KEY, v text) USING rose;
CREATE TABLE small_pair (a int, b text, v int, PRIMARY KEY (a, b)) USING rose;
CREATE TABLE small_child (id int PRIMARY KEY, parent int NOT NULL REFERENCES small_parent) USING heap;
SET plan_cache_mode = force_generic_plan;
PREPARE one AS SELECT v FROM small_parent WHERE id = $1;
PREPARE pair AS SELECT v FROM small_pair WHERE a = $1 AND b = $2;
PREPARE by_first AS SELECT v FROM small_pair WHERE a = $1;

-- empty, one row in memory, one row on disk, counted by ANALYZE
EXPLAIN (COSTS OFF) EXECUTE one(1);
EXPLAIN (COSTS OFF) EXECUTE pair(1, 'x');
INSERT INTO small_parent VALUES (1, 'one');
INSERT INTO small_pair VALUES (1, 'x', 1);
ANALYZE small_parent, small_pair;
EXPLAIN (COSTS OFF) EXECUTE one(1);
EXPLAIN (COSTS OFF) EXECUTE pair(1, 'x');
EXPLAIN (COSTS OFF) EXECUTE by_first(1);
VACUUM ANALYZE small_parent, small_pair;
EXPLAIN (COSTS OFF) EXECUTE one(1);
EXPLAIN (COSTS OFF) EXECUTE pair(1, 'x');
EXPLAIN (COSTS OFF) EXECUTE by_first(1);

-- all rows are still read without the key
EXPLAIN (COSTS OFF) SELECT * FROM small_parent;
EXPLAIN (COSTS OFF) SELECT * FROM small_parent ORDER BY v;

-- the plan that checks a foreign key is made while there is one row, and kept
RESET plan_cache_mode;
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters('small_parent'::regclass);
DO $$ BEGIN FOR i IN 1..20 LOOP INSERT INTO small_child VALUES (i, 1); END LOOP; END $$;
INSERT INTO small_parent SELECT g, 'x' FROM generate_series(2, 5000) g;
INSERT INTO small_child SELECT g, g FROM generate_series(100, 150) g;
SELECT pg_stat_force_next_flush();
SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'small_parent';

DROP TABLE small_child, small_parent, small_pair;
