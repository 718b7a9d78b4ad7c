-- A stand-in for the extension: heap under the name of rose.
--
-- The answers of a rose table must equal heap's. With this file in place of
-- CREATE EXTENSION, the same tests, demo and benchmark run on heap and on
-- built-in logical replication, unchanged: that is how expected output is made
-- and how the harness itself is tested (ROSE_STANDIN=1). Nothing else uses it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dblink;
CREATE SCHEMA rose;
CREATE ACCESS METHOD rose TYPE TABLE HANDLER heap_tableam_handler;

-- Puts the rows into key order, when nobody is in the way: answers that depend on
-- the order of the rows in the file then show themselves.
CREATE FUNCTION rose.spill(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	index regclass := (SELECT indexrelid FROM pg_index WHERE indrelid = relation AND indisprimary);
BEGIN
	IF index IS NOT NULL THEN
		EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', relation);
		EXECUTE format('CLUSTER %s USING %s', relation, (SELECT quote_ident(relname) FROM pg_class WHERE oid = index));
	END IF;
EXCEPTION WHEN lock_not_available OR object_in_use OR feature_not_supported THEN
	NULL;
END $$;
CREATE FUNCTION rose.merge(relation regclass) RETURNS void LANGUAGE sql AS 'SELECT rose.spill(relation)';
CREATE FUNCTION rose.check(relation regclass, OUT blkno bigint, OUT msg text) RETURNS SETOF record
LANGUAGE sql AS 'SELECT NULL::bigint, NULL::text WHERE false';

CREATE FUNCTION rose.create_subscription(name text, conninfo text, publications text[], "binary" boolean DEFAULT true)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM public.dblink(conninfo,
		format('SELECT pg_create_logical_replication_slot(%L, %L)::text', name, 'pgoutput')) AS t(slot text);
	EXECUTE format('CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION %s WITH (create_slot = false, slot_name = %I, binary = %s)',
		name, conninfo,
		(SELECT string_agg(quote_ident(p), ', ') FROM unnest(publications) AS p), name, "binary"::text);
END $$;

CREATE FUNCTION rose.drop_subscription(name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	conninfo text := (SELECT subconninfo FROM pg_subscription WHERE subname = name);
BEGIN
	EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', name);
	EXECUTE format('ALTER SUBSCRIPTION %I SET (slot_name = NONE)', name);
	EXECUTE format('DROP SUBSCRIPTION %I', name);
	PERFORM 1 FROM public.dblink(conninfo,
		format('SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = %L AND active', name)) AS t(x boolean);
	PERFORM 1 FROM public.dblink(conninfo, format('SELECT pg_drop_replication_slot(%L)::text', name)) AS t(x text);
END $$;

CREATE FUNCTION rose.wait_for_sync(name text, timeout_seconds int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + timeout_seconds * interval '1 second';
BEGIN
	WHILE EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r') LOOP
		IF clock_timestamp() > deadline THEN
			RAISE 'timed out waiting for subscription "%"', name;
		END IF;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;

CREATE FUNCTION rose.wait_for_lsn(name text, lsn pg_lsn, timeout_seconds int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + timeout_seconds * interval '1 second';
	conninfo text := (SELECT subconninfo FROM pg_subscription WHERE subname = name);
	reached pg_lsn;
BEGIN
	LOOP
		SELECT r INTO reached FROM public.dblink(conninfo,
			format('SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %L', name)) AS t(r pg_lsn);
		EXIT WHEN reached >= lsn;
		IF clock_timestamp() > deadline THEN
			RAISE 'timed out waiting for subscription "%"', name;
		END IF;
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;

CREATE VIEW rose.stat_subscription AS
SELECT subid, subname, CASE WHEN pid IS NULL THEN 'stopped' ELSE 'streaming' END AS state,
	received_lsn, latest_end_lsn AS applied_lsn, latest_end_lsn AS durable_lsn, latest_end_lsn AS confirmed_lsn,
	(received_lsn - latest_end_lsn)::bigint AS lag_bytes,
	(extract(epoch FROM now() - latest_end_time) * 1000)::bigint AS lag_ms,
	(SELECT sum(n_tup_ins)::bigint FROM pg_stat_user_tables) AS inserts,
	(SELECT sum(n_tup_upd)::bigint FROM pg_stat_user_tables) AS updates,
	(SELECT sum(n_tup_del)::bigint FROM pg_stat_user_tables) AS deletes,
	0::bigint AS old_row_reads, NULL::text AS last_error
FROM pg_stat_subscription WHERE relid IS NULL;

CREATE VIEW rose.stat_components AS
SELECT NULL::oid AS relid, NULL::text AS kind, NULL::bigint AS bytes WHERE false;
RESET client_min_messages;
