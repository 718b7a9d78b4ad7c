/*-------------------------------------------------------------------------
 *
 * rose_commands_hook.c
 *	  The hook on commands: what has to be known before one is run, or done at its end.
 *
 * ALTER TABLE that changes what a table is, and its options; commands that remove or move a database's files; what is being
 * run, for the snapshots that the transaction itself has open, and for those that are declared to garbage collection;
 * statements that read in real time.
 *
 * Policy and mechanism are elsewhere: here is only who is called when.  One lock is taken: of a database, before core
 * takes it (run_database_command).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/syscache.h"

#include "util/rose_stop_point.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_tid.h"
#include "lsm/rose_index_file.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl.h"
#include "tableam/rose_table_options.h"
#include "tableam/rose_tableam.h"
#include "rose_commands_hook.h"
#include "rose_concurrently.h"
#include "rose_ddl_notes.h"
#include "rose_extension.h"
#include "rose_publications.h"

static ProcessUtility_hook_type prev_process_utility_hook = NULL;

/* ---- before a command ---- */

/* Does the command give tables an access method (other than rose, which needs no TOAST table)? */
static bool
sets_access_method(const AlterTableStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_SetAccessMethod &&
			(cmd->name == NULL || strcmp(cmd->name, "rose") != 0))
			return true;
	}
	return false;
}

/*
 * ALTER TABLE that changes what a table is: not while a subscription feeds it, and not
 * behind the back of a publication.  Who changes the name meanwhile is met by the worker,
 * which looks again.
 */
static void
check_altered_table(const AlterTableStmt *stmt)
{
	ListCell   *cell;

	rose_row_types_check_altered(stmt);
	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);
		Oid			relid;

		if (cmd->subtype != AT_SetAccessMethod && cmd->subtype != AT_SetUnLogged)
			continue;
		relid = RangeVarGetRelid(stmt->relation, NoLock, true);
		if (!OidIsValid(relid))
			continue;
		rose_repl_check_alter(relid, cmd->subtype == AT_SetUnLogged);
		if (cmd->subtype == AT_SetAccessMethod &&
			strcmp(cmd->name != NULL ? cmd->name : default_table_access_method, "rose") == 0)
			rose_publications_check_table(relid);
	}
}

/* WITH NO DATA does not run the query, whose condition refuses any other refresh. */
static void
check_refresh(const RefreshMatViewStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);

	if (stmt->skipData && OidIsValid(relid))
		rose_repl_check_refresh(relid);
}

static void
before_command(Node *stmt)
{
	if (IsA(stmt, AlterTableStmt))
		check_altered_table((AlterTableStmt *) stmt);
	else if (IsA(stmt, RefreshMatViewStmt))
		check_refresh((RefreshMatViewStmt *) stmt);
	else
		rose_publications_check_command(stmt);
}

/* Name of the database whose files the command removes or moves, or NULL. */
static const char *
database_of_command(Node *stmt)
{
	ListCell   *cell;

	if (IsA(stmt, DropdbStmt))
		return ((DropdbStmt *) stmt)->dbname;
	if (!IsA(stmt, AlterDatabaseStmt))
		return NULL;
	foreach(cell, ((AlterDatabaseStmt *) stmt)->options)
	{
		if (strcmp(lfirst_node(DefElem, cell)->defname, "tablespace") == 0)
			return ((AlterDatabaseStmt *) stmt)->dbname;
	}
	return NULL;
}

/* SET TRANSACTION SNAPSHOT: the name of the snapshot, or NULL. */
static const char *
imported_snapshot(Node *stmt)
{
	VariableSetStmt *set = (VariableSetStmt *) stmt;

	if (!IsA(stmt, VariableSetStmt) || set->kind != VAR_SET_MULTI ||
		strcmp(set->name, "TRANSACTION SNAPSHOT") != 0)
		return NULL;
	return strVal(&linitial_node(A_Const, set->args)->val);
}

static void
call_process_utility(PlannedStmt *pstmt, const char *query, bool read_only,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion)
{
	if (prev_process_utility_hook)
		prev_process_utility_hook(pstmt, query, read_only, context, params, env, dest, completion);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, completion);
}

/* The same in a database that the extension is not in. */
static void
call_missing_extension(PlannedStmt *pstmt, const char *query, bool read_only,
					   ProcessUtilityContext context, ParamListInfo params,
					   QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion)
{
	MemoryContext outer = CurrentMemoryContext;

	PG_TRY();
	{
		call_process_utility(pstmt, query, read_only, context, params, env, dest, completion);
	}
	PG_CATCH();
	{
		rose_extension_rethrow(outer);
	}
	PG_END_TRY();
}

static void
run_command(PlannedStmt *pstmt, const char *query, bool read_only,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *env,
			DestReceiver *dest, QueryCompletion *completion)
{
	bool		concurrently = rose_concurrently_enter(pstmt->utilityStmt);
	int			outer = rose_own_snapshots_enter_command(pstmt->utilityStmt, context);
	int			outer_indexes = rose_index_ddl_enter_command(pstmt->utilityStmt);
	int			outer_keys = rose_rekey_enter_notes();
	List	   *outer_notes = rose_ddl_notes_enter();
	RoseOptionsCommand options;

	rose_table_options_begin(&options);
	PG_TRY();
	{
		rose_concurrently_check(pstmt->utilityStmt);
		rose_rekey_begin_command(pstmt->utilityStmt);
		pstmt = rose_table_options_take(&options, rose_extension_take(pstmt));
		if (rose_extension_is_missed(pstmt->utilityStmt))
			call_missing_extension(pstmt, query, read_only, context, params, env, dest,
								   completion);
		else
			call_process_utility(pstmt, query, read_only, context, params, env, dest,
								 completion);
		rose_table_options_end(&options);
		rose_rekey_end_command();
		rose_ddl_notes_check();
	}
	PG_FINALLY();
	{
		rose_table_options_leave(&options);
		rose_concurrently_leave(concurrently);
		rose_ddl_notes_leave(outer_notes);
		rose_rekey_leave_notes(outer_keys);
		rose_index_ddl_leave_command(outer_indexes);
		rose_own_snapshots_leave(outer);
	}
	PG_END_TRY();
}

/* The tablespace that a database's files are in; InvalidOid: there is no such database. */
static Oid
tablespace_of_database(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	Oid			tablespace;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	tablespace = ((Form_pg_database) GETSTRUCT(tuple))->dattablespace;
	ReleaseSysCache(tuple);
	return tablespace;
}

/* Lock a database as core will, but for the session; InvalidOid: there is none of that name. */
static Oid
lock_database(const char *name)
{
	for (;;)
	{
		Oid			database = get_database_oid(name, true);

		if (!OidIsValid(database))
			return InvalidOid;
		LockSharedObjectForSession(DatabaseRelationId, database, 0, AccessExclusiveLock);
		/* it may have been dropped or renamed meanwhile */
		if (get_database_oid(name, true) == database)
			return database;
		UnlockSharedObjectForSession(DatabaseRelationId, database, 0, AccessExclusiveLock);
	}
}

/*
 * Run a command that removes or moves a database's files, and forget what we know of them
 * before we let sessions in, which core does before it returns.  A move to where the
 * files are is none: then core has not made sure that nobody is in the database.  What is
 * forgotten may have to be mapped, and is before: when core is done it is late to fail.
 */
static void
run_database_command(const char *name, PlannedStmt *pstmt, const char *query, bool read_only,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion)
{
	/* the statement may be freed: a move ends the transaction */
	bool		drops = IsA(pstmt->utilityStmt, DropdbStmt);
	volatile Oid database = lock_database(name);
	Oid			tablespace;

	PG_TRY();
	{
		if (drops && OidIsValid(database))
			rose_repl_check_drop_database(database);
		tablespace = tablespace_of_database(database);
		rose_registry_reach_all();
		run_command(pstmt, query, read_only, context, params, env, dest, completion);
		ROSE_STOP_POINT("database-moved");
		if (OidIsValid(database) && (drops || tablespace_of_database(database) != tablespace))
			rose_registry_drop_database(database);
		if (OidIsValid(database) && drops)
			rose_repl_forget_database(database);
	}
	PG_FINALLY();
	{
		if (OidIsValid(database))
			UnlockSharedObjectForSession(DatabaseRelationId, database, 0, AccessExclusiveLock);
	}
	PG_END_TRY();
}

/* Run a command under which rose tables ask for TOAST tables. */
static void
run_leaving_command(PlannedStmt *pstmt, const char *query, bool read_only,
					ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion)
{
	bool		old = rose_toast_wanted(true);

	PG_TRY();
	{
		run_command(pstmt, query, read_only, context, params, env, dest, completion);
	}
	PG_FINALLY();
	{
		(void) rose_toast_wanted(old);
	}
	PG_END_TRY();
}

static void
rose_process_utility(PlannedStmt *pstmt, const char *query, bool read_only,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		of_client = context == PROCESS_UTILITY_TOPLEVEL;
	bool		in_transaction = !IsA(stmt, TransactionStmt);
	const char *snapshot = imported_snapshot(stmt);
	RangeVar   *published = rose_publications_table_of(stmt);
	const char *database = NULL;

	rose_realtime_start_command(stmt);
	rose_declared_note_command(of_client, stmt);
	if (in_transaction)
	{
		rose_snapshot_declare();
		before_command(stmt);
		if (!RecoveryInProgress())
			database = database_of_command(stmt);
	}

	if (IsA(stmt, AlterTableStmt) && sets_access_method((AlterTableStmt *) stmt))
		run_leaving_command(pstmt, query, read_only, context, params, env, dest, completion);
	else if (database != NULL)
		run_database_command(database, pstmt, query, read_only, context, params, env, dest, completion);
	else
		run_command(pstmt, query, read_only, context, params, env, dest, completion);

	rose_declared_end_command(of_client);
	/* the statement may have been freed by a command that ends transactions */
	if (snapshot != NULL)
		rose_tid_note_import(snapshot);
	if (in_transaction)
	{
		/* imported, and still open where it came from, as we hope */
		rose_snapshot_declare();
		rose_index_file_note_dropped();
		if (published != NULL)
			rose_publications_check_member(published);
	}
}

void
rose_commands_hook_install(void)
{
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = rose_process_utility;
}
