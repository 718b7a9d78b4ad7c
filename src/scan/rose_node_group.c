/*-------------------------------------------------------------------------
 *
 * rose_node_group.c
 *	  Rose Aggregate with groups: partial states of aggregates over the rows of a Rose Scan, by group.
 *
 * Rows are taken from the scan below many at a time.  Of their keys words are made (rose_node_group_keys.c), by which each row's
 * group is found, and then each aggregate takes its column's values together with the groups' numbers.  How groups are found
 * depends on the rows at hand: in runs of rows with one key the first is looked up, words that are close to one another are looked up
 * by code, and others are hashed (rose_vec_group.h).
 *
 * What is given out are partial states, for core's Finalize Aggregate above, which takes any number of them for a group.  So memory is
 * bounded without a file: when there is no room for more groups, those that are there are given out, and the table begins empty.
 * Where grouping does not make fewer of them, rows are passed on, each as a state of its own (rose_node_group_pass.c).
 * Where each group is to be given out once, rows of groups that there is no room for go to tapes instead (rose_node_group_spill.c).
 *
 * Where groups are by the first columns of the table's key, and the scan is in its order, a group is complete when the next one
 * comes.  Groups are given out in that order, and one stays.
 *
 * Rows come in the order in which the scan would give them out, so sums of floats are those of a plain plan.  Groups are
 * given out in the order in which their first rows came.
 *
 * Forward only, and the result is not kept.  Backend-local; locks are those of lsm/read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "scan/rose_node.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_group_cells.h"
#include "scan/rose_node_project.h"
#include "scan/rose_node_state.h"
#include "scan/rose_node_top.h"

/* Rows of a run, on average, from which on runs are cheaper than single rows. */
#define RUN_ROWS		32

/* The same, from which on their groups are looked up once a run. */
#define SHORT_RUN_ROWS	2

static const CustomExecMethods group_exec_methods;

bool
rose_node_group_is(const CustomScan *plan)
{
	return plan->custom_private != NIL;
}

Node *
rose_node_group_create(CustomScan *plan)
{
	RoseNodeGroup *group = palloc0(sizeof(RoseNodeGroup));

	NodeSetTag(group, T_CustomScanState);
	group->css.methods = &group_exec_methods;
	return (Node *) group;
}

/* ---- begin ---- */

/* counts: nobody asks what is in it, as it seems. */
static int
add_column(RoseNodeGroup *group, const Node *node, bool takes_decimals, RoseNodeExpr *filter, bool counts)
{
	TupleDesc	desc = RelationGetDescr(group->scan->css.ss.ss_currentRelation);
	int			number = rose_node_group_columns_add(&group->columns, desc, node, takes_decimals, filter);
	RoseNodeExpr *expr = group->columns.columns[number].expr;

	if (expr != NULL && !counts)
		expr->wants_values = true;
	if (!counts && node != NULL)
		group->columns.columns[number].wanted = true;
	return number;
}

/* The first one with the states of the last one: sum and avg have the same ones.  Those of texts may be in different orders. */
static int
find_same(const RoseNodeGroupTable *table)
{
	const RoseNodeGroupAgg *agg = &table->aggs[table->naggs - 1];
	int			first = 0;

	while (table->aggs[first].kind != agg->kind || table->aggs[first].column != agg->column ||
		   table->aggs[first].type != agg->type)
		first++;
	return ROSE_AGG_IS_OF_TEXT(agg->kind) ? table->naggs - 1 : first;
}

static void
add_agg(RoseNodeGroup *group, const Aggref *aggref, int target)
{
	RoseNodeGroupAgg *agg = &group->table.aggs[group->table.naggs++];
	const Node *argument;
	RoseNodeExpr *filter;

	agg->kind = rose_node_agg_kind(aggref, &argument);
	if (agg->kind == ROSE_AGG_NONE)
		elog(ERROR, "aggregate function %u is not known to Rose Aggregate", aggref->aggfnoid);
	agg->target = target;
	agg->column = -1;
	agg->same = group->table.naggs - 1;
	filter = rose_node_exprs_add_filter(group->columns.exprs, aggref->aggfilter);
	if (argument == NULL && filter == NULL)
		return;
	agg->column = add_column(group, argument, rose_node_agg_takes_decimals(agg->kind, argument), filter,
							 agg->kind == ROSE_AGG_COUNT);
	if (argument != NULL)
		agg->type = linitial_oid(aggref->aggargtypes);
	agg->same = find_same(&group->table);
	if (ROSE_AGG_IS_OF_TEXT(agg->kind))
		rose_node_text_set_order(&agg->order, aggref->inputcollid, agg->kind == ROSE_AGG_MAX_TEXT);
}

static void
add_key(RoseNodeGroup *group, const Node *expr, int target)
{
	RoseNodeGroupKey *key = &group->table.keys[group->table.nkeys++];
	const Node *node;

	key->kind = rose_node_group_key_kind(expr, InvalidOid, &node);
	if (key->kind == ROSE_KEY_NONE || group->table.nkeys > ROSE_VEC_GROUP_COLUMNS)
		elog(ERROR, "key of groups is not known to Rose Aggregate");
	key->typlen = get_typlen(exprType(node));
	key->column = add_column(group, node, false, NULL, false);
	key->target = target;
	rose_node_group_key_init(key);
}

static void
make_arrays(RoseNodeGroup *group)
{
	int			n = ROSE_NODE_VECTOR_ROWS;

	group->flags = palloc(n * sizeof(uint32));
	group->hashes = palloc(n * sizeof(uint32));
	group->found = palloc((n + ROSE_VEC_GROUP_SPARE) * sizeof(uint32));
	group->kept = palloc(n * sizeof(uint32));
	group->values = palloc((n + 1) * sizeof(int64));
	group->added = palloc(n * sizeof(uint16));
	group->starts = palloc((n / SHORT_RUN_ROWS + ROSE_VEC_GROUP_RUN_SPARE) * sizeof(uint16));
	group->run_groups = palloc(n / SHORT_RUN_ROWS * sizeof(uint32));
}

static void
group_begin(CustomScanState *css, EState *estate, int eflags)
{
	RoseNodeGroup *group = (RoseNodeGroup *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	PlanState  *child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	int			n = list_length(plan->custom_scan_tlist);
	ListCell   *cell;

	css->custom_ps = list_make1(child);
	group->scan = (RoseNodeScan *) castNode(CustomScanState, child);
	group->ordered = list_nth_int(plan->custom_private, ROSE_GROUP_ORDERED) != 0;
	group->expected = list_nth_int(plan->custom_private, ROSE_GROUP_ESTIMATE);
	group->columns.exprs = rose_node_exprs_create(&css->ss.ps, group->scan->css.ss.ss_currentRelation);
	group->columns.columns = palloc0(n * sizeof(RoseNodeGroupColumn));
	group->table.aggs = palloc0(n * sizeof(RoseNodeGroupAgg));
	group->table.keys = palloc0(n * sizeof(RoseNodeGroupKey));
	foreach(cell, plan->custom_scan_tlist)
	{
		const Node *expr = (Node *) lfirst_node(TargetEntry, cell)->expr;

		if (IsA(expr, Aggref))
			add_agg(group, (const Aggref *) expr, foreach_current_index(cell));
		else
			add_key(group, expr, foreach_current_index(cell));
	}
	make_arrays(group);
	rose_node_group_pass_init(group);
	rose_node_group_table_init(&group->table, rose_node_group_table_limit());
}

/* ---- keys of the rows at hand ---- */

/* The scan's next rows; false: there are none. */
static bool
next_rows(RoseNodeGroup *group)
{
	bool		reading = rose_node_group_spill_is_reading(group);

	group->nrows = group->taken = 0;
	if (group->ended || !(reading ? rose_node_group_spill_next_rows(group) : rose_node_agg_next_rows(group->scan)))
	{
		group->ended = true;
		return false;
	}
	ResetExprContext(group->css.ss.ps.ps_ExprContext);
	if (!reading)
	{
		group->nrows = group->scan->rows.n;
		rose_node_group_columns_start(&group->columns, &group->scan->rows);
	}
	for (int k = 0; k < group->table.nkeys; k++)
		rose_node_group_key_start(&group->table.keys[k]);
	return true;
}

/* Words of rows from group->taken on; returns behind which row there is too much in memory, or to: all of them are there. */
static int
make_keys(RoseNodeGroup *group, int to, Size rest)
{
	RoseNodeGroupTable *table = &group->table;
	int			from = group->taken;
	MemoryContext old = MemoryContextSwitchTo(group->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);

	for (int k = 0; k < table->nkeys; k++)
	{
		RoseNodeGroupKey *key = &table->keys[k];
		RoseNodeGroupColumn *column = rose_node_group_columns_load(&group->columns, key->column);

		to = rose_node_group_key_words(key, column, from, to, rest);
		group->keys.words[k] = (key->words != NULL ? key->words : column->values) + from;
	}
	MemoryContextSwitchTo(old);
	group->keys.nwords = table->nkeys;
	rose_node_group_find_flags(group, from, to);
	return to;
}

/* ---- groups of the rows at hand ---- */

/* Groups of runs that have so many rows on average; -1: they have fewer. */
static int
find_runs(RoseNodeGroup *group, int n, int rows_of_run)
{
	group->nruns = rose_vec_group_runs(&group->keys, n, n / rows_of_run, group->starts);
	if (group->nruns == 0)
		return -1;
	return rose_vec_group_find_some(&group->table.groups, &group->keys, group->starts, group->nruns,
									group->run_groups, group->added);
}

/* Returns how many groups are new. */
static int
find_groups(RoseNodeGroup *group, int n)
{
	RoseVecGroups *groups = &group->table.groups;
	int			nadded = find_runs(group, n, RUN_ROWS);

	if (nadded >= 0)
	{
		group->strategies[group->nruns == 1 ? ROSE_GROUP_ONE : ROSE_GROUP_RUNS]++;
		return nadded;
	}
	nadded = rose_vec_group_find_dense(groups, &group->table.dense, &group->keys, n, group->hashes,
									   group->found, group->added);
	if (nadded >= 0)
	{
		group->strategies[ROSE_GROUP_DENSE]++;
		return nadded;
	}
	group->strategies[ROSE_GROUP_HASHED]++;
	nadded = find_runs(group, n, SHORT_RUN_ROWS);
	if (nadded >= 0)
		return nadded;
	return rose_vec_group_find(groups, &group->keys, n, group->hashes, group->found, group->added);
}

static int
run_end(const RoseNodeGroup *group, int run, int n)
{
	return run + 1 < group->nruns ? group->starts[run + 1] : n;
}

/*
 * The same of rows whose only key is stored as runs, without decoding it; -1: it is not.  Then there are no values to be noted, and
 * added[] says nothing.
 */
static int
find_stored_runs(RoseNodeGroup *group, int n)
{
	const RoseNodeGroupTable *table = &group->table;
	const RoseNodeRows *rows = &group->scan->rows;
	const RoseNodeGroupKey *key = &table->keys[0];
	AttrNumber	attno = group->columns.columns[key->column].attno;
	int			nadded;

	if (table->nkeys > 1 || key->kind != ROSE_KEY_WORD || attno == 0 || rose_node_group_spill_is_reading(group) ||
		!rows->all)
		return -1;
	group->nruns = rose_batch_runs(rows->batch, attno,
								   rows->first + group->taken, n, n / SHORT_RUN_ROWS, group->values,
								   group->starts);
	if (group->nruns == 0)
		return -1;
	group->keys.nwords = 1;
	group->keys.words[0] = group->values;
	group->keys.flags = NULL;
	nadded = rose_vec_group_find(&group->table.groups, &group->keys, group->nruns, group->hashes,
								 group->run_groups, group->added);
	group->strategies[group->nruns == 1 ? ROSE_GROUP_ONE : ROSE_GROUP_RUNS]++;
	return nadded;
}

/* ---- aggregates ---- */

/* One with values of long runs, none of them NULL. */
static void
take_long_runs(RoseNodeGroup *group, RoseNodeGroupAgg *agg, const int64 *values, int n)
{
	MemoryContext memory = group->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(memory);	/* what is detoasted is left there */

	for (int run = 0; run < group->nruns; run++)
	{
		int			start = group->starts[run];
		int			rows = run_end(group, run, n) - start;
		RoseNodeAggState state = {.kind = agg->kind, .type = agg->type, .order = agg->order, .memory = &agg->memory};

		rose_node_cell_load(agg->cells, group->run_groups[run], &state);
		rose_node_agg_state_take(&state, values + start, rows);
		rose_node_cell_store(agg->cells, group->run_groups[run], &state);
	}
	MemoryContextSwitchTo(old);
}

/* The same of any runs; false: it is cheaper row by row. */
static bool
take_runs(RoseNodeGroup *group, RoseNodeGroupAgg *agg, const int64 *values, int n)
{
	if (group->nruns * RUN_ROWS <= n)
		take_long_runs(group, agg, values, n);
	else if (agg->kind == ROSE_AGG_SUM || agg->kind == ROSE_AGG_AVG)
		rose_node_cells_sum_runs(agg->cells, group->run_groups, group->starts, group->nruns, values,
								 n, group->values);
	else
		return false;
	return true;
}

/* Have found tell what is known of runs. */
static void
spread_runs(RoseNodeGroup *group, int n)
{
	if (!group->spread)
		rose_vec_group_spread(group->starts, group->nruns, n, group->run_groups, group->found);
	group->spread = true;
}

/* Rows without a value are left out. */
static void
take_values(RoseNodeGroup *group, RoseNodeGroupAgg *agg, const RoseNodeGroupColumn *column, int from,
			int n)
{
	memcpy(group->values, column->values + from, n * sizeof(int64));
	n = rose_vec_group_keep(group->values, group->kept, group->found, column->nulls + from, n);
	rose_node_cells_take(agg->kind, agg->type, agg->cells, group->kept, group->values, n, &agg->order,
						 &agg->memory);
}

/* One of numerics, with integers that stand for them. */
static void
take_decimals(RoseNodeGroup *group, RoseNodeGroupAgg *agg, const RoseNodeGroupColumn *column, int from, int n)
{
	const int64 *values = column->values + from;
	const bool *nulls = column->any_null ? column->nulls + from : NULL;

	if (group->nruns == 0 || group->nruns * RUN_ROWS > n)
	{
		spread_runs(group, n);
		rose_node_cells_take_decimals(agg->kind, agg->cells, group->table.groups.ngroups, group->found, column->decimals, from,
									  values, nulls, n, &agg->memory);
		return;
	}
	for (int run = 0; run < group->nruns; run++)
	{
		int			start = group->starts[run];

		rose_node_cells_take_decimals(agg->kind, agg->cells + group->run_groups[run] * rose_node_cell_size(agg->kind), 1, NULL,
									  column->decimals, from + start, values + start, nulls != NULL ? nulls + start : NULL,
									  run_end(group, run, n) - start, &agg->memory);
	}
}

/* One that counts rows. */
static void
count_rows(RoseNodeGroup *group, RoseNodeGroupAgg *agg, int n)
{
	if (group->nruns > 0)
		rose_node_cells_count_runs(agg->cells, group->run_groups, group->starts, group->nruns, n);
	else
		rose_node_cells_count(agg->cells, group->found, n);
}

static void
take_aggs(RoseNodeGroup *group, int from, int n)
{
	group->spread = group->nruns == 0;
	for (int a = 0; a < group->table.naggs; a++)
	{
		RoseNodeGroupAgg *agg = &group->table.aggs[a];
		RoseNodeGroupColumn *column;

		if (agg->same != a)
			continue;
		if (agg->column < 0)
		{
			count_rows(group, agg, n);
			continue;
		}
		column = rose_node_group_columns_load(&group->columns, agg->column);
		if (ROSE_AGG_IS_OF_NUMERIC(agg->kind) && column->decimals != NULL)
		{
			take_decimals(group, agg, column, from, n);
			continue;
		}
		if (group->nruns > 0 && !column->any_null &&
			take_runs(group, agg, column->values + from, n))
			continue;
		spread_runs(group, n);
		if (column->any_null)
			take_values(group, agg, column, from, n);
		else
			rose_node_cells_take(agg->kind, agg->type, agg->cells, group->found,
								 column->values + from, n, &agg->order, &agg->memory);
	}
}

/* ---- filling the table ---- */

/* All groups that are complete, or may come in parts, are given out; judged: though there is room. */
static void
flush(RoseNodeGroup *group, bool judged)
{
	group->end = group->table.groups.ngroups - (group->ordered ? 1 : 0);
	group->flushes++;
	rose_node_group_pass_choose(group, judged);
}

/* How many of the rows at hand there is room for, whatever their groups are; 0: for none. */
static int
make_room(RoseNodeGroup *group)
{
	int			n = group->nrows - group->taken;

	if (group->spill != NULL)
		return rose_node_group_table_make_some_room(&group->table, n);
	return rose_node_group_table_make_room(&group->table, n, group->ordered ? 1 : 0) ? n : 0;
}

/* Some of the rows at hand, for which there is room. */
static int
take_rows(RoseNodeGroup *group, int n)
{
	RoseNodeGroupTable *table = &group->table;
	uint32		first = table->groups.ngroups;
	int			from = group->taken;

	if (find_stored_runs(group, n) < 0)
	{
		n = make_keys(group, from + n, rose_node_group_table_rest(table)) - from;
		rose_node_group_table_note(table, &group->columns, first, from, group->added,
								   find_groups(group, n));
	}
	take_aggs(group, from, n);
	return n;
}

/* The same, or all of them, if those without room go to tapes; false: there is no room. */
static bool
take_some(RoseNodeGroup *group)
{
	int			n = rose_node_group_spill_is_writing(group) ? 0 : make_room(group);

	if (n > 0)
		n = take_rows(group, n);
	else if (group->spill == NULL)
		return false;
	else
	{
		if (!rose_node_group_spill_is_writing(group))
			rose_node_group_spill_start(group);
		n = rose_node_group_spill_take(group);
	}
	group->rows_since += n;
	group->rows_seen += n;
	group->taken += n;
	return true;
}

/* Nothing was given out, and nothing will be: another plan is run. */
static void
retreat(RoseNodeGroup *group)
{
	rose_node_group_table_forget(&group->table, group->table.groups.ngroups);
	rose_node_group_spill_reset(group);
	group->nrows = group->taken = 0;
	group->ended = group->retreated = true;
}

/* All rows of the scan, or of the batch, were taken: groups that are there are complete. */
static bool
end_rows(RoseNodeGroup *group)
{
	group->end = group->table.groups.ngroups;
	rose_node_group_spill_finish(group);
	return group->end > 0;
}

/* Have groups to give out, or rows; false: there are none any more. */
static bool
fill(RoseNodeGroup *group)
{
	RoseNodeGroupTable *table = &group->table;

	rose_node_group_table_forget(table, group->end);
	group->at = group->end = 0;
	if (group->ended && rose_node_group_spill_next_batch(group))
		group->ended = false;
	for (;;)
	{
		bool		taken;

		if (group->taken == group->nrows && !next_rows(group))
			return end_rows(group);
		if (group->passing > 0)
		{
			rose_node_group_pass_rows(group);
			return true;
		}
		taken = take_some(group);
		if (rose_node_group_pass_retreats(group, !taken))
		{
			retreat(group);
			return false;
		}
		if (!taken || rose_node_group_pass_judge(group))
		{
			flush(group, taken);
			return true;
		}
		if (group->ordered && table->groups.ngroups > ROSE_GROUP_ORDERED_GROUPS)
		{
			group->end = table->groups.ngroups - 1;
			group->sample = 0;	/* too late to retreat */
			return true;
		}
	}
}

bool
rose_node_group_are_whole(RoseNodeGroup *group)
{
	Instrumentation *instrument = group->css.ss.ps.instrument;

	if (group->ordered)
		return true;
	if (instrument != NULL)
		InstrStartNode(instrument);
	ResetExprContext(group->css.ss.ps.ps_ExprContext);
	(void) fill(group);
	if (instrument != NULL)
		InstrStopNode(instrument, 0);
	return group->ended;
}

/* ---- giving out ---- */

static void
emit(RoseNodeGroup *group, uint32 number, TupleTableSlot *slot)
{
	const RoseNodeGroupTable *table = &group->table;
	MemoryContext memory = group->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(memory);

	for (int k = 0; k < table->nkeys; k++)
	{
		int			target = table->keys[k].target;

		slot->tts_values[target] = rose_node_group_key_value(&table->keys[k], &table->groups, number,
															 k, &slot->tts_isnull[target]);
	}
	for (int a = 0; a < table->naggs; a++)
	{
		const RoseNodeGroupAgg *agg = &table->aggs[a];

		slot->tts_values[agg->target] = rose_node_cell_emit(agg->kind, agg->type, table->aggs[agg->same].cells, number, agg->room,
															&slot->tts_isnull[agg->target]);
	}
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}

/* Groups that nobody wants. */
static void
skip_groups(RoseNodeGroup *group)
{
	const RoseNodeGroupTable *table = &group->table;
	const RoseNodeGroupAgg *agg = table->aggs;

	while (agg->target != group->top_target)
		agg++;
	for (; group->at < group->end; group->at++, group->skipped++)
	{
		if (rose_node_top_wants(group->top, rose_node_cell_number(agg->kind, table->aggs[agg->same].cells, group->at)))
			break;
	}
}

/* Is there something to give out? */
static bool
has_next(RoseNodeGroup *group)
{
	for (;;)
	{
		if (group->top != NULL)
			skip_groups(group);
		if (group->at < group->end || group->passed < group->passed_end)
			return true;
		if (!fill(group))
			return false;
	}
}

static TupleTableSlot *
group_exec(CustomScanState *css)
{
	RoseNodeGroup *group = (RoseNodeGroup *) css;
	ScanState  *ss = &css->ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	ExecClearTuple(slot);
	ResetExprContext(ss->ps.ps_ExprContext);
	if (!has_next(group))
		return ss->ps.ps_ProjInfo ? ExecClearTuple(ss->ps.ps_ProjInfo->pi_state.resultslot) : slot;
	if (group->passed < group->passed_end)
		rose_node_group_pass_emit(group, slot);
	else
		emit(group, group->at++, slot);
	return rose_node_project(ss, slot);
}

static void
group_rescan(CustomScanState *css)
{
	RoseNodeGroup *group = (RoseNodeGroup *) css;
	PlanState  *child = &group->scan->css.ss.ps;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	rose_node_group_table_forget(&group->table, group->table.groups.ngroups);
	rose_node_group_spill_reset(group);
	group->at = group->end = 0;
	group->nrows = group->taken = 0;
	group->ended = false;
	rose_node_exprs_reset(group->columns.exprs);
	rose_node_group_pass_reset(group);
	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child, css->ss.ps.chgParam);
	ExecReScan(child);
}

static void
group_end(CustomScanState *css)
{
	rose_node_group_spill_reset((RoseNodeGroup *) css);
	ExecEndNode(&((RoseNodeGroup *) css)->scan->css.ss.ps);
}

static const CustomExecMethods group_exec_methods = {
	.CustomName = "Rose Aggregate",
	.BeginCustomScan = group_begin,
	.ExecCustomScan = group_exec,
	.EndCustomScan = group_end,
	.ReScanCustomScan = group_rescan,
	.ExplainCustomScan = rose_node_group_explain,
};
