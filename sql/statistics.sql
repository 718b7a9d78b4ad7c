-- The counters of pg_stat_user_tables and pg_stat_user_indexes are heap's.
CREATE TABLE stat_heap (id int PRIMARY KEY, v int) USING heap;
ALTER TABLE stat_heap SET (autovacuum_enabled = off);
CREATE TABLE stat_rose (id int PRIMARY KEY, v int) USING rose;
ALTER TABLE stat_rose SET (autovacuum_enabled = off);

-- the same statement on both tables
CREATE FUNCTION on_both(statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(statement, 'stat_heap');
	EXECUTE format(statement, 'stat_rose');
END $$;
CREATE VIEW counted AS
SELECT relname AS t, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch, n_tup_ins, n_tup_upd, n_tup_del,
	n_live_tup, n_dead_tup, vacuum_count AS vac, analyze_count AS ana, last_vacuum IS NOT NULL AS vacuumed
FROM pg_stat_user_tables WHERE relname ~ '^stat_(heap|rose)' ORDER BY 1;
CREATE VIEW counted_index AS
SELECT relname AS t, idx_scan, idx_tup_fetch
FROM pg_stat_user_indexes WHERE relname ~ '^stat_(heap|rose)' ORDER BY 1;

-- making the key's index scans a heap table
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters(c.oid) FROM pg_class c WHERE relname ~ '^stat_(heap|rose)';

SELECT on_both('INSERT INTO %I SELECT g, 0 FROM generate_series(1, 1000) g');
SELECT on_both('UPDATE %I SET v = 1 WHERE id <= 100');
SELECT on_both('UPDATE %I SET id = id + 10000 WHERE id <= 5');
SELECT on_both('DELETE FROM %I WHERE id BETWEEN 101 AND 120');
SELECT on_both('INSERT INTO %I VALUES (500, 7), (5000, 7) ON CONFLICT (id) DO UPDATE SET v = excluded.v');
BEGIN;
SELECT on_both('INSERT INTO %I SELECT g, 0 FROM generate_series(2001, 2010) g');
SELECT on_both('DELETE FROM %I WHERE id = 600');
ROLLBACK;
SELECT pg_stat_force_next_flush();
SELECT t, n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup FROM counted;

-- reading
SELECT on_both('ANALYZE %I');
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters(c.oid) FROM pg_class c WHERE relname ~ '^stat_(heap|rose)';
SET enable_bitmapscan = off;
SELECT on_both('SELECT count(v) FROM %I');
SET enable_seqscan = off;
SELECT on_both('SELECT v FROM %I WHERE id = 600');
SELECT on_both('SELECT v FROM %I WHERE id = 6000');
SELECT on_both('SELECT count(v) FROM %I WHERE id BETWEEN 500 AND 519');
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT pg_stat_force_next_flush();
SELECT t, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM counted;
SELECT * FROM counted_index;

-- VACUUM
VACUUM stat_heap;
VACUUM stat_rose;
SELECT pg_stat_force_next_flush();
SELECT t, n_live_tup, n_dead_tup, vac, vacuumed FROM counted;
SELECT relname, reltuples, relpages > 0 AS has_pages FROM pg_class WHERE relname IN ('stat_heap', 'stat_rose') ORDER BY 1;

DROP FUNCTION on_both;
DROP VIEW counted, counted_index;
DROP TABLE stat_heap, stat_rose;
