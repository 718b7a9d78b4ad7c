/*-------------------------------------------------------------------------
 *
 * rose_hooks.c
 *	  Core's hooks that rose uses, and what each is for.
 *
 *	  get_relation_info_hook, set_rel_pathlist_hook, create_upper_paths_hook	what the planner is told about rose tables
 *	  object_access_hook		files that are dropped with their table; primary
 *								keys that are dropped; TRUNCATE of a table that a
 *								subscription feeds; options of tables; foreign servers
 *								that are subscriptions; constraints
 *	  ProcessUtility_hook		what has to be known before a command or done at
 *								its end; options of tables
 *	  ExecutorStart_hook, ExecutorRun_hook	snapshots that are declared to garbage collection
 *	  ProcessUtility_hook, ExecutorStart_hook	statements that read in real time
 *	  ProcessUtility_hook, ExecutorRun_hook, ExecutorFinish_hook	what is being run, for the
 *								snapshots that the transaction itself has open
 *	  planner_hook, ExecutorRun_hook, ExecutorFinish_hook	statements that use ctids
 *	  planner_hook				SCROLL cursors
 *	  ExecutorEnd_hook			rows that nobody reads any more (since 17)
 *
 * Policy and mechanism are elsewhere: here is only who is called when.
 *
 * No locks of its own.  Each hook calls the one that was there before; what it finds out
 * is told to the module that needs it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_index.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_tid.h"
#include "lsm/rose_index_file.h"
#include "lsm/rose_transaction.h"
#include "indexam/rose_indexam.h"
#include "indexam/rose_or.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl.h"
#include "repl/rose_subscription_server.h"
#include "tableam/rose_exact_statement.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_table_options.h"
#include "tableam/rose_tableam.h"
#include "scan/rose_node.h"
#include "rose_concurrently.h"
#include "rose_constraint_ddl.h"
#include "rose_ddl_notes.h"
#include "rose_extension.h"
#include "rose_hooks.h"
#include "rose_partition_ddl.h"
#include "rose_publications.h"

static get_relation_info_hook_type prev_get_relation_info_hook = NULL;
static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;
static create_upper_paths_hook_type prev_create_upper_paths_hook = NULL;
static object_access_hook_type prev_object_access_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;
static ExecutorStart_hook_type prev_executor_start_hook = NULL;
static planner_hook_type prev_planner_hook = NULL;
static ExecutorRun_hook_type prev_executor_run_hook = NULL;
static ExecutorFinish_hook_type prev_executor_finish_hook = NULL;
#ifdef ROSE_SCANS_END_UNDER_ROWS
static ExecutorEnd_hook_type prev_executor_end_hook = NULL;
#endif

/* ---- the planner ---- */

/* How many rows a partial index has: core asks its pg_class, which only VACUUM and ANALYZE know to fill. */
static void
count_partial(const RelOptInfo *rel, IndexOptInfo *info)
{
	Relation	index = index_open(info->indexoid, NoLock);

	if (rose_relation_has_tree(index))
		info->tuples = Min(rel->tuples,
						   rose_table_estimate_rows(rose_tree_open_any_order(index)));
	index_close(index, NoLock);
}

static void
rose_get_relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	Relation	relation;

	if (prev_get_relation_info_hook)
		prev_get_relation_info_hook(root, relid, inhparent, rel);

	/* a build of an index asks with inhparent set, whatever the table is */
	relation = table_open(relid, NoLock);
	if (RELKIND_HAS_TABLE_AM(relation->rd_rel->relkind) && rose_relation_is_rose(relation))
	{
		ListCell   *cell;

		/* one process makes plain scans (rose_node_parallel.c has the others), and builds the key */
		rel->rel_parallel_workers = 0;
		foreach(cell, rel->indexlist)
		{
			IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
			bool		primary = index->indexoid == rose_primary_key_index(relation);

			if (rose_rekey_is_pending(relid, index->indexoid, primary))
			{
				rel->indexlist = foreach_delete_current(rel->indexlist, cell);
				continue;
			}
			if (index->indpred != NIL)
				count_partial(rel, index);
			rose_primary_key_plan(relation, index, primary);
		}
	}
	table_close(relation, NoLock);
}

static void
rose_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_set_rel_pathlist_hook)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL)
		return;
	rose_node_add_paths(root, rel, rte);
	rose_or_add_paths(root, rel);
}

static void
rose_create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
						RelOptInfo *output, void *extra)
{
	if (prev_create_upper_paths_hook)
		prev_create_upper_paths_hook(root, stage, input, output, extra);
	if (stage == UPPERREL_GROUP_AGG)
		rose_node_add_aggregate_paths(root, input, output, extra);
}

static PlannedStmt *
rose_planner(Query *query, const char *source, int options, ParamListInfo params)
{
	bool		before = rose_node_plans_scroll;
	PlannedStmt *stmt;

	rose_node_plans_scroll = (options & CURSOR_OPT_SCROLL) != 0;
	PG_TRY();
	{
		stmt = rose_exact_statement_plan(prev_planner_hook ? prev_planner_hook : standard_planner,
										 query, source, options, params);
	}
	PG_FINALLY();
	{
		rose_node_plans_scroll = before;
	}
	PG_END_TRY();
	return stmt;
}

/* ---- dropped objects ---- */

/* The relation, if it is a rose table and still there; else NULL. */
static Relation
open_rose_table(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL || (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel)))
		return rel;
	RelationClose(rel);
	return NULL;
}

static void
note_dropped_index(Relation index, bool concurrently)
{
	Relation	heap;

	if (rose_relation_is_secondary_index(index))
	{
		if (concurrently)
			rose_index_file_dropped_late(index);
		else
			rose_index_file_dropped(index);
	}
	if (!index->rd_index->indisprimary)
		return;
	heap = open_rose_table(index->rd_index->indrelid);
	if (heap == NULL)
		return;
	rose_rekey_note_dropped(RelationGetRelid(heap));
	RelationClose(heap);
}

static void
note_dropped_relation(Oid relid, const ObjectAccessDrop *drop)
{
	bool		concurrently = drop != NULL &&
		(drop->dropflags & PERFORM_DELETION_CONCURRENTLY) != 0;
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	/* what another session has of its temporary tables is in its own memory */
	if (RELATION_IS_OTHER_TEMP(rel))
	{
		RelationClose(rel);
		return;
	}
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		note_dropped_index(rel, concurrently);
	else if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel))
		rose_transaction_file_dropped(rose_file_name(rel));
	RelationClose(rel);
}

/* ---- TRUNCATE, which replication workers do without asking ---- */

static void
check_truncate(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		is_rose;

	if (rel == NULL)
		return;
	is_rose = RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);
	RelationClose(rel);
	if (is_rose)
		rose_repl_check_truncate(relid);
}

/* ---- made indexes ---- */

/* An index of a rose table; pg_index: its row there. */
static void
check_created_index_of(Relation heap, Relation index, HeapTuple pg_index, bool internal)
{
	rose_index_file_taken_over(index);
	if (!rose_concurrently_is_reindex())
		rose_index_ddl_check_created(heap, index, internal);
	rose_concurrently_check_created(heap, index, pg_index);
}

/* The catalog rows are not visible to others, nor in the caches, yet. */
static void
check_created_index(Oid indexid, bool internal)
{
	Relation	pg_index;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	HeapTuple	copy;
	Relation	heap;
	Relation	index;

	pg_index = table_open(IndexRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_index_indexrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(indexid));
	scan = systable_beginscan(pg_index, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	copy = HeapTupleIsValid(tuple) ? heap_copytuple(tuple) : NULL;
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	if (copy == NULL || ((Form_pg_index) GETSTRUCT(copy))->indisprimary)
		return;					/* not an index, or a primary key's */

	heap = open_rose_table(((Form_pg_index) GETSTRUCT(copy))->indrelid);
	if (heap == NULL)
		return;
	index = RelationIdGetRelation(indexid);
	check_created_index_of(heap, index, copy, internal);
	RelationClose(index);
	RelationClose(heap);
}

/* What workers have failed on may have been changed.  Those that lock it out wait for the end of the transaction. */
static void
note_altered_relation(Oid relid)
{
	Relation	rel;

	if (relid < FirstNormalObjectId || !RELKIND_HAS_TABLE_AM(get_rel_relkind(relid)))
		return;
	rel = open_rose_table(relid);
	if (rel == NULL)
		return;
	rose_registry_end_pauses(rose_file_name(rel));
	RelationClose(rel);
}

static void
rose_object_access(ObjectAccessType access, Oid classid, Oid objectid, int subid, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classid, objectid, subid, arg);
	if (access == OAT_FUNCTION_EXECUTE)
	{
		rose_declared_note_start();
		return;
	}
	rose_constraint_ddl_note(access, classid, objectid, subid);
	rose_partition_ddl_note(access, classid, objectid, arg);
	if (classid == ForeignServerRelationId && subid == 0)
		rose_subscription_server_note(access, objectid);
	if (classid != RelationRelationId)
		return;
	if (access == OAT_POST_ALTER)
		note_altered_relation(objectid);
	if (subid != 0)
		return;
	if (access == OAT_DROP)
		note_dropped_relation(objectid, arg);
	else if (access == OAT_POST_CREATE)
	{
		check_created_index(objectid,
							arg != NULL && ((ObjectAccessPostCreate *) arg)->is_internal);
		rose_table_options_note_created(objectid);
	}
	else if (access == OAT_POST_ALTER)
	{
		rose_index_ddl_check_moved(objectid);
		rose_table_options_note_altered(objectid);
	}
	else if (access == OAT_TRUNCATE)
		check_truncate(objectid);
}

/* ---- commands ---- */

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

/* ---- queries ---- */

/* Long before the transaction reads a rose table, perhaps: it may dump others first. */
static void
rose_executor_start(QueryDesc *query, int eflags)
{
	rose_snapshot_declare();
	rose_declared_note_start();
	rose_realtime_start_query(query, eflags);
	if (prev_executor_start_hook)
		prev_executor_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	rose_slot_note_plans(query->planstate);
}

static void
run_query(QueryDesc *query, ScanDirection direction, uint64 count ROSE_RUN_ONCE_PARAM)
{
	RoseDeclaredRun run;

	rose_declared_run_begin(&run, query);
	if (prev_executor_run_hook)
		prev_executor_run_hook(query, direction, count ROSE_RUN_ONCE_ARG);
	else
		standard_ExecutorRun(query, direction, count ROSE_RUN_ONCE_ARG);
	rose_declared_run_end(&run, count != 0);
}

/*
 * Does a query take rows in whatever order?  Not if it may turn; nor if it locks or changes
 * rows, since those that do so for the same rows had better meet them in one order.
 */
static bool
takes_any_order(const QueryDesc *query)
{
	const PlannedStmt *stmt = query->plannedstmt;

	return (query->estate->es_top_eflags & EXEC_FLAG_BACKWARD) == 0 &&
		stmt->commandType == CMD_SELECT && !stmt->hasModifyingCTE && stmt->rowMarks == NIL;
}

/* A statement can be within another one, and a cursor's goes on from time to time. */
static void
rose_executor_run(QueryDesc *query, ScanDirection direction, uint64 count ROSE_RUN_ONCE_PARAM)
{
	bool		before = rose_tid_exact;
	Snapshot	any_order_before = rose_scan_any_order;
	int			outer = rose_own_snapshots_enter_query(query->snapshot, false);

	rose_tid_exact = rose_exact_statement_is_marked(query->plannedstmt);
	rose_scan_any_order = takes_any_order(query) ? query->estate->es_snapshot : NULL;
	PG_TRY();
	{
		run_query(query, direction, count ROSE_RUN_ONCE_ARG);
	}
	PG_FINALLY();
	{
		rose_tid_exact = before;
		rose_scan_any_order = any_order_before;
		rose_own_snapshots_leave(outer);
	}
	PG_END_TRY();
}

static void
finish_query(QueryDesc *query)
{
	if (prev_executor_finish_hook)
		prev_executor_finish_hook(query);
	else
		standard_ExecutorFinish(query);
}

/* What WITH has to change, and nobody has read, is done now. */
static void
rose_executor_finish(QueryDesc *query)
{
	bool		before = rose_tid_exact;
	int			outer = rose_own_snapshots_enter_query(query->snapshot, true);

	rose_tid_exact = rose_exact_statement_is_marked(query->plannedstmt);
	PG_TRY();
	{
		finish_query(query);
	}
	PG_FINALLY();
	{
		rose_tid_exact = before;
		rose_own_snapshots_leave(outer);
	}
	PG_END_TRY();
}

#ifdef ROSE_SCANS_END_UNDER_ROWS
/* A scan that ends would fetch, for its slot, all that it has at hand and not read yet. */
static void
rose_executor_end(QueryDesc *query)
{
	rose_slot_clear_list(query->estate->es_tupleTable);
	if (prev_executor_end_hook)
		prev_executor_end_hook(query);
	else
		standard_ExecutorEnd(query);
}
#endif

void
rose_hooks_install(void)
{
	prev_get_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = rose_get_relation_info;
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rose_set_rel_pathlist;
	prev_create_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = rose_create_upper_paths;
	prev_object_access_hook = object_access_hook;
	object_access_hook = rose_object_access;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = rose_process_utility;
	prev_executor_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = rose_executor_start;
	prev_planner_hook = planner_hook;
	planner_hook = rose_planner;
	prev_executor_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = rose_executor_run;
	prev_executor_finish_hook = ExecutorFinish_hook;
	ExecutorFinish_hook = rose_executor_finish;
#ifdef ROSE_SCANS_END_UNDER_ROWS
	prev_executor_end_hook = ExecutorEnd_hook;
	ExecutorEnd_hook = rose_executor_end;
#endif
	rose_own_snapshots_watch_functions();
}
