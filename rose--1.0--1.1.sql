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
