/*-------------------------------------------------------------------------
 *
 * rose_hooks.c
 *	  Core's hooks that rose uses, and what each is for: those of planner and executor are here.
 *
 *	  get_relation_info_hook, set_rel_pathlist_hook, create_upper_paths_hook	what the planner is told about rose tables
 *	  object_access_hook		rose_objects_hook.c
 *	  ProcessUtility_hook		rose_commands_hook.c
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
#include "access/table.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/rel.h"

#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_tid.h"
#include "indexam/rose_index_settings.h"
#include "indexam/rose_indexam.h"
#include "indexam/rose_or.h"
#include "repl/rose_realtime.h"
#include "tableam/rose_exact_statement.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"
#include "scan/rose_node.h"
#include "rose_commands_hook.h"
#include "rose_hooks.h"
#include "rose_objects_hook.h"

static get_relation_info_hook_type prev_get_relation_info_hook = NULL;
static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;
static create_upper_paths_hook_type prev_create_upper_paths_hook = NULL;
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

			/* one that somebody only thinks of has no file that could be asked for anything */
			if (index->hypothetical || rose_rekey_is_pending(relid, index->indexoid, primary) || rose_index_settings_differ(index->indexoid))
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
	rose_objects_hook_install();
	rose_commands_hook_install();
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
