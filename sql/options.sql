-- Options of a table: set, shown, refused, kept.
CREATE VIEW shown AS SELECT relname, amname, reloptions FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE relname LIKE 'opt%' AND relkind IN ('r', 'm') ORDER BY 1;

CREATE TABLE opt (id int PRIMARY KEY, v text) USING rose
	WITH (rose.spill_interval = '5s', rose.filter_bits = 12, autovacuum_enabled = off);
CREATE TABLE opt_as USING rose WITH (rose.codec_effort = low) AS SELECT 1 AS id;
CREATE MATERIALIZED VIEW opt_view USING rose WITH (rose.wal_components) AS SELECT 1 AS id;
DO 'BEGIN EXECUTE ''EXPLAIN ANALYZE CREATE TABLE opt_explained USING rose WITH (rose.codec_effort = low) AS SELECT 1 AS id''; END';
CREATE TABLE opt_quoted (id int) USING rose WITH ("rose.filter_bits" = '7');
CREATE TABLE opt_parted (id int) PARTITION BY RANGE (id);
CREATE TABLE opt_part PARTITION OF opt_parted FOR VALUES FROM (0) TO (10) USING rose WITH (rose.filter_bits = 4);
CREATE TABLE opt_heap PARTITION OF opt_parted FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE opt_like (LIKE opt INCLUDING ALL) USING rose;
CREATE TABLE IF NOT EXISTS opt_like (id int) USING rose WITH (rose.filter_bits = 4);
CREATE SCHEMA opt_schema CREATE TABLE opt_within (id serial) USING rose WITH (rose.filter_bits = 5);
SELECT * FROM shown;
\d+ opt_quoted

-- ALTER TABLE; core's parameters beside them
ALTER TABLE opt SET (rose.codec_effort = high), SET (autovacuum_analyze_threshold = 10, rose.wal_components = off);
ALTER TABLE opt RESET (rose.filter_bits, autovacuum_enabled);
ALTER TABLE opt SET (autovacuum_enabled = off);
ALTER TABLE opt SET (rose.spill_interval = '2min'), ADD COLUMN w int;
ALTER TABLE opt SET (rose.spill_interval = '3min'), SET (autovacuum_enabled = on), DROP COLUMN w;
ALTER TABLE opt SET ("rose.filter_bits" = 9);
ALTER MATERIALIZED VIEW opt_view SET (rose.filter_bits = 5);
ALTER TABLE IF EXISTS opt_nobody SET (rose.filter_bits = 5);
SELECT * FROM shown WHERE relname IN ('opt', 'opt_view');
BEGIN;
ALTER TABLE opt RESET (rose.filter_bits, rose.codec_effort, rose.spill_interval, rose.wal_components);
SAVEPOINT s;
ALTER TABLE opt SET (rose.filter_bits = 20);
INSERT INTO opt VALUES (1, 'x');
SELECT rose.spill('opt');
ROLLBACK TO s;
SELECT * FROM shown WHERE relname = 'opt';
ROLLBACK;
SELECT * FROM shown WHERE relname = 'opt';

-- within a command that changes them
CREATE TABLE optev (id int PRIMARY KEY) USING rose WITH (rose.codec_effort = low);
CREATE FUNCTION opt_trigger() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('opt.within', true) = current_setting('opt.what') THEN RETURN; END IF;
	PERFORM set_config('opt.within', current_setting('opt.what'), true);
	EXECUTE 'ALTER TABLE optev SET (' || current_setting('opt.what') || ')';
END $$;
CREATE EVENT TRIGGER opt_event ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION opt_trigger();
SET opt.what = 'rose.filter_bits = 13';
ALTER TABLE optev SET (rose.spill_interval = '3min');
ALTER TABLE optev SET (autovacuum_analyze_threshold = 10);
ALTER TABLE optev ADD COLUMN x int;
SET opt.what = 'autovacuum_analyze_threshold = 11';
ALTER TABLE optev SET (rose.spill_interval = '4min');
SELECT * FROM shown WHERE relname = 'optev';
DROP EVENT TRIGGER opt_event;
DROP FUNCTION opt_trigger();
DROP TABLE optev;

-- what does not change them
VACUUM FULL opt;
TRUNCATE opt;
REFRESH MATERIALIZED VIEW opt_view;
ALTER TABLE opt ALTER COLUMN id TYPE bigint;
ALTER TABLE opt RENAME TO opt_new;
SELECT * FROM shown WHERE relname IN ('opt_new', 'opt_view');
ALTER TABLE opt_new RENAME TO opt;

-- the lock is that of the parameters
BEGIN;
ALTER TABLE opt SET (rose.filter_bits = 8);
SELECT mode FROM pg_locks WHERE relation = 'opt'::regclass AND pid = pg_backend_pid() ORDER BY 1;
ROLLBACK;

-- the access method comes and goes
ALTER TABLE opt_heap SET (rose.filter_bits = 5);
ALTER TABLE opt_heap SET ACCESS METHOD rose, SET (rose.filter_bits = 5, fillfactor = 70);
SELECT * FROM shown WHERE relname = 'opt_heap';
ALTER TABLE opt_heap SET ACCESS METHOD heap;
ALTER TABLE opt_heap SET ACCESS METHOD rose;
ALTER TABLE opt_heap SET ACCESS METHOD heap, SET (rose.filter_bits = 5);
SELECT * FROM shown WHERE relname = 'opt_heap';

-- refused
CREATE TABLE opt_bad (id int) USING rose WITH (rose.filter_bits = 1);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.filter_bits = many);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.filter_bits);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.spill_interval = '2d');
CREATE TABLE opt_bad (id int) USING rose WITH (rose.codec_effort = extreme);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.wal_components = 5);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.nothing = 5);
CREATE TABLE opt_bad (id int) USING rose WITH (rose.filter_bits = 5, "rose.filter_bits" = 6);
CREATE TABLE opt_bad (id int) USING rose WITH (nosuch.filter_bits = 5);
CREATE TABLE opt_bad (id int) USING heap WITH (rose.filter_bits = 5);
CREATE TABLE opt_bad (id int) PARTITION BY RANGE (id) WITH (rose.filter_bits = 5);
CREATE VIEW opt_bad WITH (rose.filter_bits = 5) AS SELECT 1;
ALTER TABLE opt SET (rose.filter_bits = 25);
ALTER TABLE opt SET (rose.nothing = 5);
ALTER TABLE opt RESET (rose.nothing);
ALTER TABLE opt RESET (rose.filter_bits = 5);
ALTER TABLE opt SET (nothing = 5);
ALTER TABLE opt_parted SET (rose.filter_bits = 5);
ALTER INDEX opt_pkey SET (rose.filter_bits = 5);
CREATE ROLE regress_rose_stranger;
SET ROLE regress_rose_stranger;
ALTER TABLE opt SET (rose.filter_bits = 5);
RESET ROLE;
BEGIN READ ONLY;
ALTER TABLE opt SET (rose.filter_bits = 5);
ROLLBACK;

-- the function; for all partitions of rose
SELECT rose.set_options('opt_parted', spill_interval => '1h', reset => '{filter_bits}');
SELECT rose.set_options('opt', filter_bits => 6, reset => '{spill_interval, rose.codec_effort}');
SELECT rose.set_options('opt', wal_components => true, codec_effort => 'low');
SELECT rose.set_options('opt');
SELECT * FROM shown WHERE relname IN ('opt', 'opt_part', 'opt_heap');
SELECT rose.set_options('opt', filter_bits => 1000);
SELECT rose.set_options('opt', reset => '{nothing}');
SELECT rose.set_options('opt_heap', filter_bits => 5);
SELECT rose.set_options(NULL, filter_bits => 5);
SET ROLE regress_rose_stranger;
SELECT rose.set_options('opt', filter_bits => 5);
RESET ROLE;
DROP ROLE regress_rose_stranger;

-- parameters that mean nothing here
CREATE TABLE opt_unused (id int, v text) USING rose
	WITH (fillfactor = 70, toast_tuple_target = 200, parallel_workers = 2, autovacuum_enabled = on, toast.autovacuum_enabled = off);
ALTER TABLE opt_unused SET (fillfactor = 80), SET (autovacuum_freeze_min_age = 10);
ALTER TABLE opt_unused RESET (fillfactor);
SELECT * FROM shown WHERE relname = 'opt_unused';
CREATE TABLE opt_turned (id int) USING heap WITH (fillfactor = 70);
ALTER TABLE opt_turned SET ACCESS METHOD rose;

-- an event trigger sees what has been set
CREATE FUNCTION tell() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE NOTICE '%: %', tg_tag, (SELECT string_agg(format('%s %s', c.objid::regclass, t.reloptions), ', ') FROM pg_event_trigger_ddl_commands() c JOIN pg_class t ON t.oid = c.objid); END $$;
CREATE EVENT TRIGGER tell ON ddl_command_end EXECUTE FUNCTION tell();
ALTER TABLE opt SET (rose.filter_bits = 11);
ALTER TABLE opt SET (rose.filter_bits = 12, autovacuum_enabled = off);
ALTER TABLE opt RESET (autovacuum_enabled), SET (rose.filter_bits = 13);
CREATE TABLE opt_told (id int) USING rose WITH (rose.filter_bits = 14);
DROP EVENT TRIGGER tell;
DROP FUNCTION tell();

-- within functions, again and again
CREATE FUNCTION set_bits(bits int) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN
	IF bits % 2 = 0 THEN
		ALTER TABLE opt SET (rose.filter_bits = 4);
	ELSE
		ALTER TABLE opt RESET (rose.filter_bits);
	END IF;
	CREATE TABLE opt_mine (id int) USING rose WITH (rose.filter_bits = 3);
	DROP TABLE opt_mine;
END $$;
SELECT set_bits(i) FROM generate_series(1, 4) i;
SELECT * FROM shown WHERE relname IN ('opt', 'opt_mine');
DROP FUNCTION set_bits(int);

-- filters and codecs take what they are told; sizes are compared when there is one version of each row, and nothing else of it
CREATE PROCEDURE settle(tab regclass) LANGUAGE plpgsql AS
$$ BEGIN
	LOOP
		PERFORM rose.merge(tab);
		COMMIT;
		EXIT WHEN (SELECT count(*) = 1 AND max(max_seq) = 1 FROM rose.components(tab));
		-- others' snapshots needed more: until they are gone
		PERFORM pg_sleep(0.3);
		EXECUTE format('UPDATE %s SET id = id', tab);
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE opt_small (id int PRIMARY KEY) USING rose WITH (rose.filter_bits = 2);
CREATE TABLE opt_large (id int PRIMARY KEY) USING rose WITH (rose.filter_bits = 24);
INSERT INTO opt_small SELECT generate_series(1, 50000);
INSERT INTO opt_large SELECT generate_series(1, 50000);
CALL settle('opt_small');
CALL settle('opt_large');
SELECT round(sum(bytes) FILTER (WHERE relname = 'opt_large') * 8 / 50000 - sum(bytes) FILTER (WHERE relname = 'opt_small') * 8 / 50000) BETWEEN 20 AND 24 AS bits_more
	FROM rose.stat_components WHERE relname IN ('opt_small', 'opt_large') AND kind = 'C2';
ALTER TABLE opt_small RESET (rose.filter_bits);
UPDATE opt_small SET id = id;
CALL settle('opt_small');
SELECT round(sum(bytes) FILTER (WHERE relname = 'opt_large') * 8 / 50000 - sum(bytes) FILTER (WHERE relname = 'opt_small') * 8 / 50000) BETWEEN 12 AND 16 AS bits_more
	FROM rose.stat_components WHERE relname IN ('opt_small', 'opt_large') AND kind = 'C2';

CREATE TABLE opt_low (id int PRIMARY KEY, v text) USING rose WITH (rose.codec_effort = low);
CREATE TABLE opt_high (id int PRIMARY KEY, v text) USING rose WITH (rose.codec_effort = high);
INSERT INTO opt_low SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
INSERT INTO opt_high SELECT * FROM opt_low;
CALL settle('opt_low');
CALL settle('opt_high');
SELECT sum(bytes) FILTER (WHERE relname = 'opt_low') > 1.2 * sum(bytes) FILTER (WHERE relname = 'opt_high') AS larger
	FROM rose.stat_components WHERE relname IN ('opt_low', 'opt_high') AND kind = 'C2';
SELECT count(*) FROM opt_low l FULL JOIN opt_high h USING (id, v) WHERE l IS NULL OR h IS NULL;
SELECT count(*) FROM rose.check('opt_low');
SELECT count(*) FROM rose.check('opt_high');

SET client_min_messages = warning;
DROP PROCEDURE settle(regclass);
DROP VIEW shown;
DROP TABLE opt, opt_as, opt_explained, opt_quoted, opt_parted, opt_like, opt_unused, opt_turned, opt_told, opt_small, opt_large, opt_low, opt_high CASCADE;
DROP MATERIALIZED VIEW opt_view;
DROP SCHEMA opt_schema CASCADE;
