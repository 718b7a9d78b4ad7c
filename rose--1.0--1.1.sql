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
