/* rose--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION rose UPDATE TO '1.1'" to load this file. \quit

-- What follows may call what only the library of 1.1 has. A server has the library that was there when it
-- was started, whatever has been installed since.
DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name = 'rose.memtable_size') THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'rose must be loaded via shared_preload_libraries',
			HINT = 'Add rose to shared_preload_libraries in postgresql.conf and restart the server.';
	END IF;
	IF coalesce(pg_catalog.string_to_array(pg_catalog.current_setting('rose.version', true), '.')::pg_catalog.int4[]
			OPERATOR(pg_catalog.<) '{1,1}'::pg_catalog.int4[], true) THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'the server runs a library of rose that is older than version 1.1',
			HINT = 'Restart the server, so that it loads the library that is installed now, and try again.';
	END IF;
END
$$;

-- 1.0 was the name of everything that was built before it was complete, too.
DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_proc
			WHERE oid = pg_catalog.to_regprocedure('rose.merge_progress(pg_catalog.regclass)')
			AND 'failures' OPERATOR(pg_catalog.=) ANY (proargnames)) THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'the extension in this database was made by a build from before version 1.0 was complete',
			HINT = 'Dump the database, and restore the dump into a new one.';
	END IF;
END
$$;

COMMENT ON FUNCTION rose.tableam_handler(internal) IS 'rose table access method handler';
COMMENT ON SEQUENCE rose.subscription_subid_seq IS 'numbers of subscriptions';

-- The schema was the one that the extension is in, or made by a user before. It becomes an object of the extension, so dumps do not have it,
-- but for privileges that are not those of a new one; who owned it still does.
DO $$
DECLARE
	ext pg_catalog.oid := (SELECT oid FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'rose');
	nsp pg_catalog.oid := 'rose'::pg_catalog.regnamespace;
BEGIN
	UPDATE pg_catalog.pg_extension SET extnamespace = 'pg_catalog'::pg_catalog.regnamespace
	WHERE oid OPERATOR(pg_catalog.=) ext;
	DELETE FROM pg_catalog.pg_depend
	WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND objid OPERATOR(pg_catalog.=) ext
	AND refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_depend
			WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND objid OPERATOR(pg_catalog.=) nsp
			AND deptype OPERATOR(pg_catalog.=) 'e') THEN
		ALTER EXTENSION rose ADD SCHEMA rose;
		UPDATE pg_catalog.pg_init_privs SET initprivs = (
			SELECT ARRAY[pg_catalog.format('%1$I=UC/%1$I', rolname)::pg_catalog.aclitem, pg_catalog.format('=U/%I', rolname)::pg_catalog.aclitem]
			FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner WHERE n.oid OPERATOR(pg_catalog.=) nsp)
		WHERE classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND objoid OPERATOR(pg_catalog.=) nsp;
	END IF;
END
$$;

COMMENT ON SCHEMA rose IS 'functions and views of rose';

-- Subscriptions are foreign servers, too: so they have an owner, are in dumps, and keep the extension.

CREATE FUNCTION rose.subscription_validator(text[], oid) RETURNS void
AS 'MODULE_PATHNAME', 'rose_subscription_validator' LANGUAGE C STRICT;
COMMENT ON FUNCTION rose.subscription_validator(text[], oid) IS 'options of servers that are subscriptions';

CREATE FOREIGN DATA WRAPPER rose_subscription VALIDATOR rose.subscription_validator;
COMMENT ON FOREIGN DATA WRAPPER rose_subscription IS 'its servers are subscriptions; change them with rose.alter_subscription only';

-- Those that there are. Servers are not objects of the extension: a dump has them.
DO $$
DECLARE
	sub pg_catalog.record;
	role pg_catalog.name;
BEGIN
	FOR sub IN SELECT * FROM rose.subscription
		WHERE dbid OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	LOOP
		IF EXISTS (SELECT FROM pg_catalog.pg_foreign_server WHERE srvname OPERATOR(pg_catalog.=) sub.subname) THEN
			RAISE EXCEPTION USING
				ERRCODE = 'duplicate_object',
				MESSAGE = pg_catalog.format('foreign server "%s" already exists', sub.subname),
				DETAIL = 'The rose subscription of this name is to have a foreign server of its name.',
				HINT = 'Rename the server with ALTER SERVER ... RENAME TO.';
		END IF;
		EXECUTE pg_catalog.format('CREATE SERVER %I FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications %L, %s"binary" %L, synchronous_commit %L)',
			sub.subname, sub.publications, pg_catalog.format(CASE WHEN sub.slot_name IS NULL THEN '' ELSE 'slot_name %L, ' END, sub.slot_name),
			CASE WHEN sub.binary_format THEN 'true' ELSE 'false' END, sub.synchronous_commit);
		EXECUTE pg_catalog.format('ALTER EXTENSION rose DROP SERVER %I', sub.subname);
		SELECT rolname INTO role FROM pg_catalog.pg_roles WHERE oid OPERATOR(pg_catalog.=) sub.owner;
		-- a subscription whose owner is gone waits for another one: ALTER SERVER ... OWNER TO
		IF FOUND THEN
			EXECUTE pg_catalog.format('ALTER SERVER %I OWNER TO %I', sub.subname, role);
		END IF;
	END LOOP;
END
$$;

CREATE FUNCTION rose.subscription_waits(OUT subid oid, OUT relid oid, OUT since timestamptz)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_subscription_waits';
COMMENT ON FUNCTION rose.subscription_waits()
IS 'this database''s subscriptions that wait for a table or an index that somebody has locked';

CREATE FUNCTION rose.subscription_streams(OUT subid oid, OUT transactions int8, OUT bytes int8, OUT streamed int8)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_subscription_streams';
COMMENT ON FUNCTION rose.subscription_streams()
IS 'this database''s subscriptions, with what they have of transactions in progress, and how many were applied that came so';

-- what becomes of a subscription when a change of a table fails, and other options

CREATE MATERIALIZED VIEW rose.subscription_options (
	subid,
	on_error,							-- stop or pause; stop, if it has no row
	streaming,							-- true, if it has no row
	tables,								-- JSON: names here of the upstream's tables; null: the same ones
	constants,							-- JSON: values of local columns; null: none
	durability,							-- upstream or local; upstream, if it has no row
	on_schema_change,					-- add or stop; add, if it has no row
	origin,								-- any or none; any, if it has no row
	failover,							-- false, if it has no row
	count_conflicts,					-- off, certain or exact; off, if it has no row
	two_phase							-- false, if it has no row
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.text, NULL::pg_catalog.bool, NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.bool, NULL::pg_catalog.text,
	NULL::pg_catalog.bool
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_options_pkey ON rose.subscription_options (subid);
COMMENT ON MATERIALIZED VIEW rose.subscription_options IS 'options of subscriptions that are not as by default; change them with rose.alter_subscription only';
REVOKE ALL ON rose.subscription_options FROM PUBLIC;

CREATE MATERIALIZED VIEW rose.subscription_seen (
	subid, relid,
	remote_natts,						-- the highest number that a column of the upstream's table had
	remote_files,						-- what its rows were in: oid:file of the table, or of its partitions
	published							-- rows of the publications' catalogs by which it was published; with an l: as a list of columns
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.int4, NULL::pg_catalog.text, NULL::pg_catalog.text
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_seen_pkey ON rose.subscription_seen (subid, relid);
COMMENT ON MATERIALIZED VIEW rose.subscription_seen IS 'what the upstream''s tables were like when they were last looked at';
REVOKE ALL ON rose.subscription_seen FROM PUBLIC;

DROP FUNCTION rose.create_subscription(text, text, text[], boolean, boolean, text, boolean, boolean, boolean, text, text);
CREATE FUNCTION rose.create_subscription(
	name text,
	conninfo text,
	publications text[],
	connect boolean DEFAULT true,
	create_slot boolean DEFAULT NULL,
	slot_name text DEFAULT NULL,
	enabled boolean DEFAULT NULL,
	copy_data boolean DEFAULT NULL,
	binary boolean DEFAULT true,
	synchronous_commit text DEFAULT 'off',
	durability text DEFAULT 'upstream',
	on_error text DEFAULT 'stop',
	streaming boolean DEFAULT true,
	tables jsonb DEFAULT NULL,
	constants jsonb DEFAULT NULL,
	on_schema_change text DEFAULT 'add',
	origin text DEFAULT 'any',
	failover boolean DEFAULT false,
	count_conflicts text DEFAULT 'off',
	two_phase boolean DEFAULT false)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_create_subscription';
COMMENT ON FUNCTION rose.create_subscription(text, text, text[], boolean, boolean, text, boolean, boolean, boolean, text, text, text, boolean, jsonb, jsonb, text, text, boolean, text, boolean)
IS 'subscribe to publications of an upstream server; options as in CREATE SUBSCRIPTION';

DROP FUNCTION rose.alter_subscription(text, text, text[], text, boolean, boolean, text, boolean, boolean, regclass, text);
CREATE FUNCTION rose.alter_subscription(
	name text,
	conninfo text DEFAULT NULL,
	publications text[] DEFAULT NULL,
	slot_name text DEFAULT NULL,
	enabled boolean DEFAULT NULL,
	binary boolean DEFAULT NULL,
	synchronous_commit text DEFAULT NULL,
	refresh boolean DEFAULT NULL,
	copy_data boolean DEFAULT NULL,
	resync regclass DEFAULT NULL,
	accept text DEFAULT NULL,
	on_error text DEFAULT NULL,
	skip_lsn pg_lsn DEFAULT NULL,
	streaming boolean DEFAULT NULL,
	tables jsonb DEFAULT NULL,
	durability text DEFAULT NULL,
	on_schema_change text DEFAULT NULL,
	origin text DEFAULT NULL,
	failover boolean DEFAULT NULL,
	count_conflicts text DEFAULT NULL,
	two_phase boolean DEFAULT NULL)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_alter_subscription';
COMMENT ON FUNCTION rose.alter_subscription(text, text, text[], text, boolean, boolean, text, boolean, boolean, regclass, text, text, pg_lsn, boolean, jsonb, text, text, text, boolean, text, boolean)
IS 'change a subscription; what is null stays as it is';

CREATE FUNCTION rose.pause_table(subscription text, relation regclass)
RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_pause_table';
COMMENT ON FUNCTION rose.pause_table(text, regclass)
IS 'apply no more changes of a table; the upstream keeps them';

CREATE FUNCTION rose.resume_table(subscription text, relation regclass)
RETURNS void LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_resume_table';
COMMENT ON FUNCTION rose.resume_table(text, regclass)
IS 'apply what a paused table has missed, and what follows';

-- The functions ask themselves: USAGE of the wrapper is the right to subscribe, and the owner of the server that of the subscription.
GRANT EXECUTE ON FUNCTION rose.drop_subscription(text, boolean) TO PUBLIC;

CREATE OR REPLACE VIEW rose.stat_subscription AS
SELECT s.subid, s.subname, p.pid,
	CASE WHEN s.conninfo IS NULL THEN 'restored'
		WHEN s.enabled OR p.pid IS NOT NULL THEN coalesce(p.state, 'stopped') ELSE 'disabled' END AS state,
	p.received_lsn, p.applied_lsn, coalesce(p.durable_lsn, t.durable_lsn) AS durable_lsn,
	p.confirmed_lsn, p.upstream_lsn, p.lag_bytes, p.lag_ms,
	p.inserts, p.updates, p.deletes, p.truncates, p.old_row_reads, p.skipped,
	p.copied_rows, p.received_bytes, p.transactions, p.batches, p.epochs,
	t.epoch, p.spill_waits, p.spill_wait_ms, p.last_commit_time, p.last_error, p.last_error_time,
	p.blocked_reason,
	w.relid::pg_catalog.regclass AS waiting_for, w.since AS waiting_since,
	-- who writes an epoch does not queue for a lock, and who adds a column, whom everybody is in the way of, hardly does
	coalesce(nullif(pg_catalog.pg_blocking_pids(p.pid), '{}'),
		(SELECT pg_catalog.array_agg(DISTINCT coalesce(l.pid, 0)) FROM pg_catalog.pg_locks l
		WHERE l.locktype = 'relation' AND l.database = s.dbid AND l.relation = w.relid
		AND l.mode = 'AccessExclusiveLock'),
		(SELECT pg_catalog.array_agg(DISTINCT coalesce(l.pid, 0)) FROM pg_catalog.pg_locks l
		WHERE l.locktype = 'relation' AND l.database = s.dbid AND l.relation = w.relid
		AND l.granted AND l.pid IS DISTINCT FROM p.pid)) AS waiting_pids,
	coalesce(o.on_error, 'stop') AS on_error,
	-- the upstream keeps its WAL from there on for paused tables, and that is so much
	h.held_lsn,
	-- positions are what an upstream says: one that means no good must not make this view an error for all
	CASE WHEN pg_catalog.abs(pg_catalog.pg_wal_lsn_diff(p.upstream_lsn, h.held_lsn)) OPERATOR(pg_catalog.<=) 9223372036854775807::pg_catalog.numeric
		THEN pg_catalog.pg_wal_lsn_diff(p.upstream_lsn, h.held_lsn)::pg_catalog.int8 END AS held_bytes,
	coalesce(o.streaming, true) AS streaming,
	-- transactions in progress upstream: how many, what of them is here in files, and how many have come so and were applied
	f.transactions AS stream_transactions, f.bytes AS stream_bytes, f.streamed AS streamed_transactions,
	o.tables::pg_catalog.jsonb AS tables, o.constants::pg_catalog.jsonb AS constants,
	coalesce(o.durability, 'upstream') AS durability, coalesce(o.on_schema_change, 'add') AS on_schema_change,
	coalesce(o.origin, 'any') AS origin, coalesce(o.failover, false) AS failover,
	coalesce(o.count_conflicts, 'off') AS count_conflicts, coalesce(o.two_phase, false) AS two_phase
FROM rose.subscription s
JOIN rose.subscription_state t USING (subid)
LEFT JOIN rose.subscription_progress() p USING (subid)
LEFT JOIN rose.subscription_waits() w USING (subid)
LEFT JOIN rose.subscription_streams() f USING (subid)
LEFT JOIN rose.subscription_options o USING (subid)
CROSS JOIN LATERAL (SELECT pg_catalog.min(r.error_lsn) AS held_lsn FROM rose.subscription_rel r
	WHERE r.subid OPERATOR(pg_catalog.=) s.subid AND r.state OPERATOR(pg_catalog.=) 'paused') h
WHERE s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());

-- tables that are to be copied again, and keep their rows until then

CREATE MATERIALIZED VIEW rose.subscription_old_rows (
	subid,
	relid,
	lsn									-- changes committed before are in the rows; 0/0: not known
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.pg_lsn
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_old_rows_pkey ON rose.subscription_old_rows (subid, relid);
COMMENT ON MATERIALIZED VIEW rose.subscription_old_rows IS 'tables of subscriptions that show the rows of before until their new copy is there';
REVOKE ALL ON rose.subscription_old_rows FROM PUBLIC;

-- changes that did not fit the rows here, if the subscription counts them

CREATE FUNCTION rose.subscription_conflicts(subid oid, relid regclass,
	OUT confl_insert_exists bigint, OUT confl_update_exists bigint,
	OUT confl_update_missing bigint, OUT confl_delete_missing bigint,
	OUT first_conflict text, OUT first_conflict_lsn pg_lsn, OUT first_conflict_time timestamptz, OUT first_conflict_key text,
	OUT last_conflict text, OUT last_conflict_lsn pg_lsn, OUT last_conflict_time timestamptz, OUT last_conflict_key text)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_subscription_conflicts';
COMMENT ON FUNCTION rose.subscription_conflicts(oid, regclass)
IS 'changes of a table that did not fit the rows here, since the server started';

-- tables that are copied in pieces, each of which is there to stay when it is

CREATE MATERIALIZED VIEW rose.subscription_copy (
	subid,
	relid,
	made,								-- the relation that has the pieces; 0: they are the table's by now
	first_lsn,							-- of the earliest of their snapshots, from which on changes are applied
	exact_lsn,							-- of the latest: before that, rows of several positions stand side by side
	upstream,							-- what the upstream's table was like, and what its rows were checked by here:
	demands,							-- pieces of others do not fit
	broken								-- it has to be copied again, as one
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.pg_lsn, NULL::pg_catalog.pg_lsn,
	NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.bool
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_copy_pkey ON rose.subscription_copy (subid, relid);
COMMENT ON MATERIALIZED VIEW rose.subscription_copy IS 'tables of subscriptions that are, or were, copied in pieces';
REVOKE ALL ON rose.subscription_copy FROM PUBLIC;

CREATE MATERIALIZED VIEW rose.subscription_piece (
	subid,
	relid,
	number,								-- from 1
	condition,							-- of its rows, on the upstream: it has values of keys
	lsn,								-- of its snapshot; NULL: it is not there yet
	nrows,
	bytes
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.int4, NULL::rose.secret, NULL::pg_catalog.pg_lsn,
	NULL::pg_catalog.int8, NULL::pg_catalog.int8
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_piece_pkey ON rose.subscription_piece (subid, relid, number);
COMMENT ON MATERIALIZED VIEW rose.subscription_piece IS 'pieces of tables that are being copied: which are there';
REVOKE ALL ON rose.subscription_piece FROM PUBLIC;

-- transactions that are prepared upstream: what they did, until they are committed

CREATE MATERIALIZED VIEW rose.subscription_prepared (
	subid,
	xid,								-- of the upstream
	number,								-- of the piece, from 1; the first one has what is said of the whole; or (0) the slot, of no transaction:
	gid,
	prepare_lsn,
	prepare_time,
	nbytes,								-- -1: it came to another consumer of the slot
	finished_lsn,						-- its changes are applied up to there; NULL: it is prepared
	data								-- messages of the upstream
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.int8, NULL::pg_catalog.int4, NULL::pg_catalog.text, NULL::pg_catalog.pg_lsn,
	NULL::pg_catalog.timestamptz, NULL::pg_catalog.int8, NULL::pg_catalog.pg_lsn, NULL::rose.secret
WHERE rose.refuse_refresh();
CREATE UNIQUE INDEX subscription_prepared_pkey ON rose.subscription_prepared (subid, xid, number);
COMMENT ON MATERIALIZED VIEW rose.subscription_prepared IS 'transactions that are prepared upstream, in pieces';
REVOKE ALL ON rose.subscription_prepared FROM PUBLIC;

CREATE VIEW rose.stat_subscription_prepared AS
SELECT s.subid, s.subname, p.gid, p.xid, p.prepare_lsn, p.prepare_time, p.nbytes AS bytes
FROM rose.subscription s
JOIN rose.subscription_prepared p USING (subid)
WHERE p.number OPERATOR(pg_catalog.=) 1 AND p.finished_lsn IS NULL AND p.nbytes OPERATOR(pg_catalog.>=) 0
AND s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());
COMMENT ON VIEW rose.stat_subscription_prepared IS 'transactions that are prepared upstream, and here until they are committed there';
GRANT SELECT ON rose.stat_subscription_prepared TO PUBLIC;

CREATE OR REPLACE VIEW rose.stat_subscription_tables AS
SELECT s.subid, s.subname, r.relid::pg_catalog.oid AS relid, n.nspname AS schemaname, t.relname,
	CASE WHEN t.oid IS NULL THEN 'dropped' ELSE r.state END AS state, r.sync_lsn,
	coalesce(c.inserts, 0) AS inserts, coalesce(c.updates, 0) AS updates,
	coalesce(c.deletes, 0) AS deletes, coalesce(c.truncates, 0) AS truncates,
	coalesce(c.partials, 0) AS partials, coalesce(c.incomplete_inserts, 0) AS incomplete_inserts,
	coalesce(c.copied_rows, 0) AS copied_rows,
	-- the text may show any row and column: not to those whom privileges or row security keep from some
	CASE WHEN NOT pg_catalog.row_security_active(r.relid)
		AND (pg_catalog.pg_has_role(t.relowner, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
		THEN r.last_error ELSE 'error ' || r.error_code END AS last_error,
	r.error_lsn, pg_catalog.format('%I.%I', r.remote_schema, r.remote_name) AS upstream_relation,
	-- its rows are of before, and all of them will be replaced: of which position they are
	d.lsn AS old_rows_lsn,
	coalesce(f.confl_insert_exists, 0) AS confl_insert_exists, coalesce(f.confl_update_exists, 0) AS confl_update_exists,
	coalesce(f.confl_update_missing, 0) AS confl_update_missing, coalesce(f.confl_delete_missing, 0) AS confl_delete_missing
FROM rose.subscription s
JOIN rose.subscription_rel r USING (subid)
LEFT JOIN rose.subscription_old_rows d ON d.subid OPERATOR(pg_catalog.=) r.subid AND d.relid OPERATOR(pg_catalog.=) r.relid::pg_catalog.oid
LEFT JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) r.relid::pg_catalog.oid
LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace
LEFT JOIN LATERAL rose.subscription_table_counts(r.subid, r.relid) c ON true
LEFT JOIN LATERAL rose.subscription_conflicts(r.subid, r.relid) f ON true
WHERE s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
UNION ALL
SELECT s.subid, s.subname, NULL, NULL, NULL, 'new', NULL, 0, 0, 0, 0, 0, 0, 0, NULL,
	n.first_lsn, pg_catalog.format('%I.%I', n.remote_schema, n.remote_name), NULL, 0, 0, 0, 0
FROM rose.subscription s
JOIN rose.subscription_new n USING (subid)
WHERE s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());

CREATE VIEW rose.stat_subscription_conflicts AS
SELECT s.subid, s.subname, r.relid::pg_catalog.oid AS relid, n.nspname AS schemaname, t.relname,
	f.first_conflict, f.first_conflict_lsn, f.first_conflict_time, f.first_conflict_key,
	f.last_conflict, f.last_conflict_lsn, f.last_conflict_time, f.last_conflict_key
FROM rose.subscription s
JOIN rose.subscription_rel r USING (subid)
JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) r.relid::pg_catalog.oid
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace
CROSS JOIN LATERAL rose.subscription_conflicts(r.subid, r.relid) f
WHERE s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	AND f.last_conflict IS NOT NULL;
COMMENT ON VIEW rose.stat_subscription_conflicts
IS 'tables of this database''s subscriptions with changes that did not fit the rows here: the first and the last of them';
GRANT SELECT ON rose.stat_subscription_conflicts TO PUBLIC;

-- tables that are copied, or wait for it

CREATE FUNCTION rose.copy_progress(OUT subid oid, OUT relid oid, OUT pid integer, OUT phase text,
	OUT rows bigint, OUT bytes bigint, OUT percent double precision, OUT time_left interval,
	OUT started timestamptz, OUT pieces integer, OUT pieces_done integer, OUT workers integer)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_copy_progress';
COMMENT ON FUNCTION rose.copy_progress()
IS 'tables of this database''s subscriptions that are being copied';

CREATE FUNCTION rose.copy_retry(subid oid, relid regclass, OUT failures integer, OUT next_try timestamptz)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_copy_retry';
COMMENT ON FUNCTION rose.copy_retry(oid, regclass)
IS 'how often the copy of a table has failed, and when it is tried again';

CREATE VIEW rose.stat_copy_progress AS
SELECT s.subid, s.subname, r.relid::pg_catalog.oid AS relid, n.nspname AS schemaname, t.relname, r.state,
	p.pid, p.phase, p.rows, p.bytes, p.percent, p.time_left, p.started, f.failures, f.next_try, p.pieces, p.pieces_done, p.workers
FROM rose.subscription s
JOIN rose.subscription_rel r USING (subid)
JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) r.relid::pg_catalog.oid
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace
LEFT JOIN rose.copy_progress() p ON p.subid OPERATOR(pg_catalog.=) r.subid AND p.relid OPERATOR(pg_catalog.=) r.relid::pg_catalog.oid
LEFT JOIN LATERAL rose.copy_retry(r.subid, r.relid) f ON true
WHERE s.dbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
	AND (r.state OPERATOR(pg_catalog.=) ANY ('{init,copying,copied}')
		OR r.state OPERATOR(pg_catalog.=) 'error' AND r.error_lsn IS NULL);
COMMENT ON VIEW rose.stat_copy_progress
IS 'tables of this database''s subscriptions that wait for their copy, or are being copied: how far that is';
GRANT SELECT ON rose.stat_copy_progress TO PUBLIC;

-- what differs from the upstream

CREATE FUNCTION rose.verify(subscription text, relations regclass[] DEFAULT NULL,
	timeout_seconds integer DEFAULT 60, max_keys integer DEFAULT 1000,
	OUT schemaname text, OUT relname text, OUT key text,
	OUT upstream_rows bigint, OUT replica_rows bigint, OUT problem text)
RETURNS SETOF record LANGUAGE c AS 'MODULE_PATHNAME', 'rose_verify';
COMMENT ON FUNCTION rose.verify(text, regclass[], integer, integer)
IS 'compare tables of a subscription with the upstream''s, as both were at one position; one row for each difference';

CREATE FUNCTION rose.repair(subscription text, relation regclass, keys text[] DEFAULT NULL,
	timeout_seconds integer DEFAULT 60, max_keys integer DEFAULT 1000,
	OUT inserted bigint, OUT updated bigint, OUT deleted bigint, OUT repaired text[], OUT complete boolean)
RETURNS record LANGUAGE c AS 'MODULE_PATHNAME', 'rose_repair';
COMMENT ON FUNCTION rose.repair(text, regclass, text[], integer, integer)
IS 'rows of a subscription''s table become as they are upstream: those with these keys, or those that rose.verify finds';
