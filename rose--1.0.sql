/* rose--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION rose" to load this file. \quit

-- The library works only if it was loaded at server start, which defines its settings.
DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name = 'rose.memtable_size') THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'rose must be loaded via shared_preload_libraries',
			HINT = 'Add rose to shared_preload_libraries in postgresql.conf and restart the server.';
	END IF;
END
$$;

-- access method

CREATE FUNCTION rose.tableam_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME', 'rose_tableam_handler'
LANGUAGE C STRICT;

CREATE ACCESS METHOD rose TYPE TABLE HANDLER rose.tableam_handler;

COMMENT ON ACCESS METHOD rose IS 'compressed log-structured table access method';

-- maintenance

CREATE FUNCTION rose.spill(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME', 'rose_sql_spill'
LANGUAGE C STRICT;

COMMENT ON FUNCTION rose.spill(regclass) IS
'write the table''s rows in memory to disk; returns when that is done';

CREATE FUNCTION rose.merge(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME', 'rose_sql_merge'
LANGUAGE C STRICT;

COMMENT ON FUNCTION rose.merge(regclass) IS
'merge everything of the table into its lowest level; returns when that is done';

CREATE FUNCTION rose.detach(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME', 'rose_sql_detach'
LANGUAGE C STRICT;

COMMENT ON FUNCTION rose.detach(regclass) IS
'let a table of a copied database be written to whose subscription is elsewhere';

CREATE FUNCTION rose.set_options(
	relation regclass,
	spill_interval text DEFAULT NULL,
	filter_bits integer DEFAULT NULL,
	codec_effort text DEFAULT NULL,
	wal_components boolean DEFAULT NULL,
	reset text[] DEFAULT '{}')
RETURNS void
AS 'MODULE_PATHNAME', 'rose_sql_set_options'
LANGUAGE C;

COMMENT ON FUNCTION rose.set_options(regclass, text, integer, text, boolean, text[]) IS
'set or reset options of a rose table, or of all partitions of a table';

CREATE FUNCTION rose.check(relation regclass, OUT blkno bigint, OUT msg text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rose_sql_check'
LANGUAGE C STRICT;

COMMENT ON FUNCTION rose.check(regclass) IS
'compare the table''s structure with its rows; one row for each problem found';

-- replication

CREATE SEQUENCE rose.subscription_subid_seq AS integer;

-- A text that superusers can read, and others, even those who may read all data, see as asterisks.
CREATE TYPE rose.secret;

CREATE FUNCTION rose.secret_in(cstring) RETURNS rose.secret
AS 'MODULE_PATHNAME', 'rose_secret_in' LANGUAGE C STRICT STABLE;

CREATE FUNCTION rose.secret_out(rose.secret) RETURNS cstring
AS 'MODULE_PATHNAME', 'rose_secret_out' LANGUAGE C STRICT STABLE;

-- plain: what is moved to a TOAST table could be read there
CREATE TYPE rose.secret (INPUT = rose.secret_in, OUTPUT = rose.secret_out, STORAGE = plain);

COMMENT ON FUNCTION rose.secret_in(cstring) IS 'I/O';
COMMENT ON FUNCTION rose.secret_out(rose.secret) IS 'I/O';
COMMENT ON TYPE rose.secret IS 'text that only superusers can read';

-- Publications, also those of all tables, have no materialized views.  So these are tables in
-- that guise, which only rose's own code writes to.  To refresh one would empty it.
CREATE FUNCTION rose.refuse_refresh() RETURNS boolean
AS 'MODULE_PATHNAME', 'rose_refuse_refresh' LANGUAGE C STRICT VOLATILE;
COMMENT ON FUNCTION rose.refuse_refresh() IS 'an error, so that subscriptions are not lost by a refresh';

CREATE MATERIALIZED VIEW rose.subscription (
	subid,
	subname,
	dbid,								-- the database it was made in
	owner,
	enabled,
	binary_format,
	synchronous_commit,
	slot_name,							-- may be NULL
	publications,
	conninfo
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.name, NULL::pg_catalog.oid, NULL::pg_catalog.oid,
	NULL::pg_catalog.bool, NULL::pg_catalog.bool, NULL::pg_catalog.text, NULL::pg_catalog.name,
	NULL::pg_catalog.text[], NULL::rose.secret
WHERE rose.refuse_refresh();

CREATE UNIQUE INDEX subscription_pkey ON rose.subscription (subid);
CREATE UNIQUE INDEX subscription_dbid_subname_key ON rose.subscription (dbid, subname);

CREATE MATERIALIZED VIEW rose.subscription_rel (
	subid,
	relid,
	state,								-- init, copying, ready or error
	sync_lsn,							-- changes committed before are in the copy
	last_error,
	error_lsn,							-- of a paused table: the first commit that is not applied
	error_code,							-- SQLSTATE of last_error
	remote_relid,						-- the upstream's table, however it is called
	remote_schema,						-- as it was last heard of
	remote_name,
	attnums,							-- columns of this table, by number (NULL: not known yet) ...
	remote_attnums,						-- ... and of the upstream's; negative: of one that is not published any more
	remote_columns						-- as they were last heard of
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.regclass, NULL::pg_catalog.text,
	NULL::pg_catalog.pg_lsn, NULL::pg_catalog.text, NULL::pg_catalog.pg_lsn, NULL::pg_catalog.text,
	NULL::pg_catalog.oid, NULL::pg_catalog.text, NULL::pg_catalog.text,
	NULL::pg_catalog.int2[], NULL::pg_catalog.int2[], NULL::pg_catalog.text[]
WHERE rose.refuse_refresh();

CREATE UNIQUE INDEX subscription_rel_pkey ON rose.subscription_rel (subid, relid);

-- Tables that the upstream publishes and the subscription does not have.
CREATE MATERIALIZED VIEW rose.subscription_new (
	subid,
	remote_relid,
	remote_schema,
	remote_name,
	first_lsn							-- the first commit that is not applied
) USING heap AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.oid, NULL::pg_catalog.text,
	NULL::pg_catalog.text, NULL::pg_catalog.pg_lsn
WHERE rose.refuse_refresh();

CREATE UNIQUE INDEX subscription_new_pkey ON rose.subscription_new (subid, remote_relid);

-- One row a subscription: up to which upstream position everything is durable here.
CREATE MATERIALIZED VIEW rose.subscription_state (
	subid,
	epoch,
	durable_lsn,						-- 0/0: takes the slot's position over when it starts
	system_id,							-- who the upstream is; NULL: not known yet
	timeline,
	upstream_dbid,
	blocked,							-- a reason that the upstream itself cannot take back, or NULL
	commit_lsn,							-- the last transaction before durable_lsn that was sent, by
	commit_xid,							-- which the upstream is known again
	commit_time,
	commit_publications					-- hash of the publications then
) USING heap WITH (fillfactor = 50) AS
SELECT NULL::pg_catalog.oid, NULL::pg_catalog.int8, NULL::pg_catalog.pg_lsn,
	NULL::pg_catalog.text, NULL::pg_catalog.int8, NULL::pg_catalog.oid, NULL::pg_catalog.text,
	NULL::pg_catalog.pg_lsn, NULL::pg_catalog.int8, NULL::pg_catalog.timestamptz, NULL::pg_catalog.int8
WHERE rose.refuse_refresh();

CREATE UNIQUE INDEX subscription_state_pkey ON rose.subscription_state (subid);

COMMENT ON MATERIALIZED VIEW rose.subscription IS 'subscriptions; change them with rose.alter_subscription only';
COMMENT ON MATERIALIZED VIEW rose.subscription_rel IS 'tables of subscriptions';
COMMENT ON MATERIALIZED VIEW rose.subscription_new IS 'tables that an upstream publishes, whose changes are not applied because the subscription does not have them';
COMMENT ON MATERIALIZED VIEW rose.subscription_state IS 'the upstream position up to which a subscription is durable';

REVOKE ALL ON TYPE rose.secret FROM PUBLIC;
REVOKE ALL ON rose.subscription, rose.subscription_rel, rose.subscription_new,
	rose.subscription_state, rose.subscription_subid_seq FROM PUBLIC;

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
	durability text DEFAULT 'upstream')
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_create_subscription';
COMMENT ON FUNCTION rose.create_subscription(text, text, text[], boolean, boolean, text, boolean, boolean, boolean, text, text)
IS 'subscribe to publications of an upstream server; options as in CREATE SUBSCRIPTION';

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
	accept text DEFAULT NULL)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_alter_subscription';
COMMENT ON FUNCTION rose.alter_subscription(text, text, text[], text, boolean, boolean, text, boolean, boolean, regclass, text)
IS 'change a subscription; what is null stays as it is';

CREATE FUNCTION rose.drop_subscription(name text, keep_slot boolean DEFAULT false)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_drop_subscription';
COMMENT ON FUNCTION rose.drop_subscription(text, boolean)
IS 'drop a subscription and its replication slot; the tables keep their rows';

CREATE FUNCTION rose.wait_for_sync(name text, timeout_seconds integer)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_wait_for_sync';
COMMENT ON FUNCTION rose.wait_for_sync(text, integer)
IS 'wait until the initial copy of all tables is done';

CREATE FUNCTION rose.wait_for_lsn(name text, lsn pg_lsn, timeout_seconds integer,
	relation regclass DEFAULT NULL)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'rose_wait_for_lsn';
COMMENT ON FUNCTION rose.wait_for_lsn(text, pg_lsn, integer, regclass)
IS 'wait until everything that the upstream committed before this position is visible here, in all tables or in one';

REVOKE ALL ON FUNCTION
	rose.create_subscription(text, text, text[], boolean, boolean, text, boolean, boolean, boolean, text, text),
	rose.alter_subscription(text, text, text[], text, boolean, boolean, text, boolean, boolean, regclass, text),
	rose.drop_subscription(text, boolean)
FROM PUBLIC;

-- views

CREATE FUNCTION rose.subscription_progress(
	OUT subid oid, OUT pid integer, OUT state text,
	OUT received_lsn pg_lsn, OUT applied_lsn pg_lsn, OUT durable_lsn pg_lsn,
	OUT confirmed_lsn pg_lsn, OUT upstream_lsn pg_lsn,
	OUT lag_bytes bigint, OUT lag_ms bigint,
	OUT inserts bigint, OUT updates bigint, OUT deletes bigint, OUT truncates bigint,
	OUT old_row_reads bigint, OUT skipped bigint, OUT copied_rows bigint,
	OUT received_bytes bigint, OUT transactions bigint, OUT batches bigint,
	OUT epochs bigint, OUT epoch bigint, OUT spill_waits bigint, OUT spill_wait_ms bigint,
	OUT last_commit_time timestamptz,
	OUT last_error text, OUT last_error_time timestamptz, OUT blocked_reason text)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_subscription_progress';
COMMENT ON FUNCTION rose.subscription_progress()
IS 'state and counters of this database''s replication workers';

CREATE VIEW rose.stat_subscription AS
SELECT s.subid, s.subname, p.pid,
	CASE WHEN s.enabled OR p.pid IS NOT NULL THEN coalesce(p.state, 'stopped') ELSE 'disabled' END AS state,
	p.received_lsn, p.applied_lsn, coalesce(p.durable_lsn, t.durable_lsn) AS durable_lsn,
	p.confirmed_lsn, p.upstream_lsn, p.lag_bytes, p.lag_ms,
	p.inserts, p.updates, p.deletes, p.truncates, p.old_row_reads, p.skipped,
	p.copied_rows, p.received_bytes, p.transactions, p.batches, p.epochs,
	t.epoch, p.spill_waits, p.spill_wait_ms, p.last_commit_time, p.last_error, p.last_error_time,
	p.blocked_reason
FROM rose.subscription s
JOIN rose.subscription_state t USING (subid)
LEFT JOIN rose.subscription_progress() p USING (subid)
WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database());
COMMENT ON VIEW rose.stat_subscription
IS 'subscriptions of this database: state, positions, lag and counters';

CREATE FUNCTION rose.subscription_table_counts(subid oid, relid regclass,
	OUT inserts bigint, OUT updates bigint, OUT deletes bigint, OUT truncates bigint,
	OUT partials bigint, OUT incomplete_inserts bigint, OUT copied_rows bigint)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_subscription_table_counts';
COMMENT ON FUNCTION rose.subscription_table_counts(oid, regclass)
IS 'changes that a subscription has applied to a table since its worker started';

CREATE VIEW rose.stat_subscription_tables AS
SELECT s.subid, s.subname, r.relid::pg_catalog.oid AS relid, n.nspname AS schemaname, t.relname,
	r.state, r.sync_lsn,
	coalesce(c.inserts, 0) AS inserts, coalesce(c.updates, 0) AS updates,
	coalesce(c.deletes, 0) AS deletes, coalesce(c.truncates, 0) AS truncates,
	coalesce(c.partials, 0) AS partials, coalesce(c.incomplete_inserts, 0) AS incomplete_inserts,
	coalesce(c.copied_rows, 0) AS copied_rows,
	-- the text may show any row and column: not to those whom privileges or row security keep from some
	CASE WHEN NOT pg_catalog.row_security_active(r.relid)
		AND (pg_catalog.pg_has_role(t.relowner, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
		THEN r.last_error ELSE 'error ' || r.error_code END AS last_error,
	r.error_lsn, pg_catalog.format('%I.%I', r.remote_schema, r.remote_name) AS upstream_relation
FROM rose.subscription s
JOIN rose.subscription_rel r USING (subid)
LEFT JOIN pg_catalog.pg_class t ON t.oid = r.relid::pg_catalog.oid
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
LEFT JOIN LATERAL rose.subscription_table_counts(r.subid, r.relid) c ON true
WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
UNION ALL
SELECT s.subid, s.subname, NULL, NULL, NULL, 'new', NULL, 0, 0, 0, 0, 0, 0, 0, NULL,
	n.first_lsn, pg_catalog.format('%I.%I', n.remote_schema, n.remote_name)
FROM rose.subscription s
JOIN rose.subscription_new n USING (subid)
WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database());
COMMENT ON VIEW rose.stat_subscription_tables
IS 'tables of this database''s subscriptions, and (new) those that only the upstream has: state, counters, and why one is paused';

-- The functions that look at one table return a row of nulls if that is locked in ACCESS EXCLUSIVE
-- mode, or this is a standby.

CREATE VIEW rose.trees AS
SELECT t.oid AS relid, n.nspname AS schemaname, t.relname, h.oid AS tableid
FROM pg_catalog.pg_class t
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = t.oid AND NOT x.indisprimary
JOIN pg_catalog.pg_class h ON h.oid = coalesce(x.indrelid, t.oid)
JOIN pg_catalog.pg_am a ON a.oid = h.relam AND a.amname = 'rose'
WHERE h.relkind IN ('r', 'm')
	AND pg_catalog.has_table_privilege(h.oid, 'SELECT');
COMMENT ON VIEW rose.trees
IS 'rose tables that one may read, and their secondary indexes';

CREATE FUNCTION rose.components(relation regclass,
	OUT kind text, OUT id bigint, OUT state text, OUT rows bigint, OUT tombstones bigint,
	OUT blocks bigint, OUT bytes bigint, OUT raw_bytes bigint, OUT compression double precision,
	OUT min_seq bigint, OUT max_seq bigint, OUT epoch bigint)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_components';
COMMENT ON FUNCTION rose.components(regclass)
IS 'memtables and components of a rose table, newest first';

CREATE VIEW rose.stat_components AS
SELECT t.relid, t.schemaname, t.relname, c.*
FROM rose.trees t
CROSS JOIN LATERAL rose.components(t.relid::pg_catalog.regclass) c;
COMMENT ON VIEW rose.stat_components
IS 'memtables and components of all rose tables that one may read, and of their indexes, newest first';

CREATE FUNCTION rose.space(relation regclass,
	OUT file_bytes bigint, OUT c2_bytes bigint, OUT c1_bytes bigint, OUT run_bytes bigint,
	OUT tail_log_bytes bigint, OUT building_bytes bigint, OUT replaced_bytes bigint,
	OUT free_bytes bigint, OUT end_free_bytes bigint)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_space';
COMMENT ON FUNCTION rose.space(regclass)
IS 'what the file of a rose table is used for; end_free_bytes is the free part at its end';

CREATE VIEW rose.stat_space AS
SELECT t.relid, t.schemaname, t.relname, s.*
FROM rose.trees t
CROSS JOIN LATERAL rose.space(t.relid::pg_catalog.regclass) s;
COMMENT ON VIEW rose.stat_space
IS 'what the files of rose tables and of their indexes are used for';

CREATE FUNCTION rose.memory(
	OUT total_bytes bigint, OUT used_bytes bigint,
	OUT write_delays bigint, OUT write_delay_ms double precision, OUT writer_spills bigint,
	OUT tables integer, OUT table_bytes bigint)
RETURNS record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_memory';
COMMENT ON FUNCTION rose.memory()
IS 'the memory of memtables and of tables in use, and what writers had to wait for it';

CREATE VIEW rose.stat_memory AS SELECT * FROM rose.memory();
COMMENT ON VIEW rose.stat_memory
IS 'the memory of memtables and of tables in use, and what writers had to wait for it';

CREATE FUNCTION rose.merge_progress(relation regclass,
	OUT runs integer, OUT run_raw_bytes bigint, OUT c1_raw_bytes bigint, OUT c2_raw_bytes bigint,
	OUT c1_merge_pid integer, OUT c1_merge_done bigint, OUT c1_merge_total bigint,
	OUT c2_merge_pid integer, OUT c2_merge_done bigint, OUT c2_merge_total bigint,
	OUT raw_bytes bigint, OUT spilled_bytes bigint, OUT read_bytes bigint, OUT written_bytes bigint,
	OUT amplification double precision, OUT ratio double precision, OUT model double precision,
	OUT missing_rows bigint, OUT left_alone_until timestamptz, OUT failures integer)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_merge_progress_of';
COMMENT ON FUNCTION rose.merge_progress(regclass)
IS 'what waits for merges of a rose table, how far they are, and what they have read and written';

CREATE VIEW rose.stat_merge_progress AS
SELECT t.relid, t.schemaname, t.relname, m.*
FROM rose.trees t
CROSS JOIN LATERAL rose.merge_progress(t.relid::pg_catalog.regclass) m;
COMMENT ON VIEW rose.stat_merge_progress
IS 'what waits for merges of rose tables and of their indexes, how far they are, and what they have read and written';

CREATE FUNCTION rose.workers(
	OUT datid oid, OUT helper integer, OUT state text, OUT pid integer, OUT backend_start timestamptz, OUT relid oid,
	OUT spills bigint, OUT merges bigint,
	OUT last_error text, OUT last_error_time timestamptz, OUT last_error_relid oid)
RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_workers_of_databases';
COMMENT ON FUNCTION rose.workers()
IS 'the workers that spill and merge: one a database, and those that help it';

-- A table's name is known in its own database only.
CREATE VIEW rose.stat_worker AS
SELECT w.datid, d.datname, w.helper, w.pid, w.backend_start, w.state,
	w.relid, n.nspname AS schemaname, t.relname,
	w.spills, w.merges, w.last_error, w.last_error_time, w.last_error_relid
FROM rose.workers() w
JOIN pg_catalog.pg_database d ON d.oid = w.datid
LEFT JOIN pg_catalog.pg_class t ON t.oid = w.relid AND d.datname = pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace;
COMMENT ON VIEW rose.stat_worker
IS 'the workers that spill and merge, one a database and those that help it: what they do, have done, and why one failed';

CREATE FUNCTION rose.declared_snapshots() RETURNS SETOF integer
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'rose_declared_snapshots';
COMMENT ON FUNCTION rose.declared_snapshots()
IS 'process ids of transactions for which merges keep only what they see';

CREATE VIEW rose.stat_snapshots AS
SELECT a.datid, a.datname, a.pid, a.xact_start, a.backend_xid, a.backend_xmin,
	a.pid IN (SELECT d FROM rose.declared_snapshots() d) AS declared
FROM pg_catalog.pg_stat_activity a
WHERE a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL;
COMMENT ON VIEW rose.stat_snapshots
IS 'who holds back merges from dropping old versions: since backend_xmin or backend_xid or, if declared, but for what it sees';

GRANT USAGE ON SCHEMA rose TO PUBLIC;
GRANT SELECT ON rose.trees, rose.stat_subscription, rose.stat_subscription_tables, rose.stat_components,
	rose.stat_space, rose.stat_merge_progress, rose.stat_memory, rose.stat_worker, rose.stat_snapshots TO PUBLIC;
