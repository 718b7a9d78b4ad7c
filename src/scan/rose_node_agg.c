/*-------------------------------------------------------------------------
 *
 * rose_node_agg.c
 *	  Rose Aggregate: partial states of aggregates over the rows of a Rose Scan.
 *
 * It takes rows from the scan below many at a time, columns and not tuples: the scan's filters and residual
 * conditions have selected them, and each column that an aggregate takes is decoded once; of expressions
 * see rose_node_expr.c.  At the end it
 * gives out one row of states, for core's Finalize Aggregate above; of no rows it gives out none.  With GROUP BY it is
 * another one: rose_node_group.c.
 *
 * Rows of a table at rest are counted without reading any.
 *
 * Rows come in the order in which the scan would give them out, so sums of floats are those of a plain plan.
 *
 * Forward only, and the result is not kept: who rescans has it made again.  Backend-local; locks are those of
 * lsm/read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/rel.h"

#include "vector/rose_vec_agg.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_expr.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_project.h"
#include "scan/rose_node_state.h"

/* A column that aggregates take, or an expression. */
typedef struct AggColumn
{
	AttrNumber	attno;			/* 0: none */
	RoseNodeExpr *expr;			/* or NULL; with neither, rows that the filter leaves are counted */
	int			length;			/* of a column's value; -1: it is by reference */
	RoseNodeExpr *filter;		/* or NULL */
	bool		needs_values;	/* more than extremes, by one of the states */
} AggColumn;

typedef struct RoseNodeAgg
{
	CustomScanState css;		/* first */
	RoseNodeScan *scan;
	bool		done;

	int			ncolumns;
	AggColumn  *columns;
	RoseNodeExprSet *exprs;
	int64	   *values;			/* of a column */
	bool	   *nulls;
	const int64 *loaded;		/* of the one at hand, without NULLs: values, or those of an expression */

	int			nstates;
	RoseNodeAggState *states;
} RoseNodeAgg;

static const CustomExecMethods agg_exec_methods;

static Node *
agg_create(CustomScan *plan)
{
	RoseNodeAgg *agg;

	if (rose_node_group_is(plan))
		return rose_node_group_create(plan);
	agg = palloc0(sizeof(RoseNodeAgg));
	NodeSetTag(agg, T_CustomScanState);
	agg->css.methods = &agg_exec_methods;
	return (Node *) agg;
}

/* ---- begin ---- */

static int
add_column(RoseNodeAgg *agg, RoseNodeAggKind kind, const Node *argument, RoseNodeExpr *filter)
{
	bool		takes_decimals = rose_node_agg_takes_decimals(kind, argument);
	TupleDesc	desc = RelationGetDescr(agg->scan->css.ss.ss_currentRelation);
	AggColumn  *column = &agg->columns[agg->ncolumns];
	AttrNumber	attno = 0;
	RoseNodeExpr *expr = NULL;

	if (takes_decimals)
		expr = rose_node_exprs_add_decimals(agg->exprs, argument, filter);
	else if (argument != NULL && IsA(argument, Var))
		attno = ((const Var *) argument)->varattno;
	else if (argument != NULL)
		expr = rose_node_exprs_add(agg->exprs, argument, filter);
	for (int i = 0; i < agg->ncolumns; i++)
	{
		if (agg->columns[i].attno == attno && agg->columns[i].expr == expr && agg->columns[i].filter == filter)
			return i;
	}
	column->attno = attno;
	column->expr = expr;
	column->filter = filter;
	column->length = -1;
	column->needs_values = attno == 0 || filter != NULL;
	if (attno > 0 && TupleDescAttr(desc, attno - 1)->attbyval)
		column->length = TupleDescAttr(desc, attno - 1)->attlen;
	return agg->ncolumns++;
}

static void
add_state(RoseNodeAgg *agg, const Aggref *aggref)
{
	RoseNodeAggState *state = &agg->states[agg->nstates++];
	const Node *argument;
	RoseNodeExpr *filter;

	state->kind = rose_node_agg_kind(aggref, &argument);
	if (state->kind == ROSE_AGG_NONE)
		elog(ERROR, "aggregate function %u is not known to Rose Aggregate", aggref->aggfnoid);
	state->room = rose_node_agg_room(state->kind);
	state->column = -1;
	filter = rose_node_exprs_add_filter(agg->exprs, aggref->aggfilter);
	if (argument == NULL && filter == NULL)
		return;
	state->column = add_column(agg, state->kind, argument, filter);
	if (argument == NULL)
		return;
	if (state->kind != ROSE_AGG_COUNT && agg->columns[state->column].expr != NULL)
		agg->columns[state->column].expr->wants_values = true;
	state->type = linitial_oid(aggref->aggargtypes);
	agg->columns[state->column].needs_values |= !rose_node_agg_state_needs_extremes(state);
	if (ROSE_AGG_IS_OF_TEXT(state->kind))
		rose_node_text_set_order(&state->order, aggref->inputcollid, state->kind == ROSE_AGG_MAX_TEXT);
	state->memory = palloc0(sizeof(RoseNodeAggMemory));
	state->memory->parent = CurrentMemoryContext;
}

static void
agg_begin(CustomScanState *css, EState *estate, int eflags)
{
	RoseNodeAgg *agg = (RoseNodeAgg *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	PlanState  *child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	ListCell   *cell;

	css->custom_ps = list_make1(child);
	agg->scan = (RoseNodeScan *) castNode(CustomScanState, child);
	agg->exprs = rose_node_exprs_create(&css->ss.ps, agg->scan->css.ss.ss_currentRelation);
	agg->columns = palloc(list_length(plan->custom_scan_tlist) * sizeof(AggColumn));
	agg->states = palloc0(list_length(plan->custom_scan_tlist) * sizeof(RoseNodeAggState));
	foreach(cell, plan->custom_scan_tlist)
		add_state(agg, castNode(Aggref, lfirst_node(TargetEntry, cell)->expr));
	agg->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	agg->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
}

/* ---- rows ---- */

/* Rows that the column's filter leaves out have NULL; nulls is of rows from first on, or, first < 0, of the selected ones. */
static void
filter_rows(RoseNodeAgg *agg, const AggColumn *column, int first)
{
	const RoseNodeRows *rows = &agg->scan->rows;

	if (column->filter == NULL)
		return;
	for (int i = 0; i < rows->n; i++)
		agg->nulls[first < 0 ? i : rose_node_rows_at(rows, i) - first] |= column->filter->nulls[i];
}

/* How many rows the column's filter leaves. */
static int
count_filtered(RoseNodeAgg *agg, const AggColumn *column)
{
	const RoseNodeRows *rows = &agg->scan->rows;
	const bool *fails = column->filter->nulls;
	int			n = 0;

	for (int i = 0; i < rows->n; i++)
		n += fails[i] ? 0 : 1;
	return n;
}

/* Values of an expression, that are there already. */
static int
load_expr(RoseNodeAgg *agg, const RoseNodeExpr *expr)
{
	int			n = agg->scan->rows.n;

	if (!expr->any_null)
	{
		agg->loaded = expr->values;
		return n;
	}
	memcpy(agg->values, expr->values, n * sizeof(int64));
	return rose_vec_keep(agg->values, expr->nulls, n);
}

/* Decode the column of the selected rows; values of NULLs are left out.  Returns how many are left, which are loaded. */
static int
load_column(RoseNodeAgg *agg, const AggColumn *column)
{
	const RoseNodeRows *rows = &agg->scan->rows;
	int			first = rose_node_rows_at(rows, 0);
	int			n = rose_node_rows_at(rows, rows->n - 1) - first + 1;
	bool		null;

	agg->loaded = agg->values;
	if (column->expr != NULL)
		return load_expr(agg, column->expr);
	if (column->attno == 0)
		return count_filtered(agg, column);
	if (rose_node_column_is_picked(rows->n, n, column->length))
	{
		rose_batch_pick(rows->batch, column->attno, rows->rows, rows->n, (Datum *) agg->values,
						agg->nulls);
		rose_node_column_words_of_datums(agg->values, rows->n, column->length);
		filter_rows(agg, column, -1);
		return rose_vec_keep(agg->values, agg->nulls, rows->n);
	}
	if (column->length < 0)
		null = rose_batch_datums(rows->batch, column->attno, first, n, (Datum *) agg->values,
								 agg->nulls);
	else
		null = rose_batch_words(rows->batch, column->attno, first, n, agg->values, agg->nulls);
	filter_rows(agg, column, first);
	null |= column->filter != NULL;
	if (rows->n < n)
		return rose_vec_keep_rows(agg->values, agg->nulls, rows->rows, first, rows->n);
	return null ? rose_vec_keep(agg->values, agg->nulls, n) : n;
}

/* The column's values, of which n are not NULL and loaded. */
static void
take_column(RoseNodeAgg *agg, RoseNodeAggState *state, const AggColumn *column, int n)
{
	const RoseNodeExpr *expr = column->expr;

	if (ROSE_AGG_IS_OF_NUMERIC(state->kind) && expr->decimals != NULL)
		rose_node_agg_state_take_decimals(state, expr->decimals, expr->values, expr->any_null ? expr->nulls : NULL,
										  agg->scan->rows.n);
	else
		rose_node_agg_state_take(state, agg->loaded, n);
}

/* A column of which extremes are enough, if they are known without its values. */
static bool
take_extremes(RoseNodeAgg *agg, int c)
{
	const RoseNodeRows *rows = &agg->scan->rows;
	const AggColumn *column = &agg->columns[c];
	int64		min;
	int64		max;

	if (column->needs_values || column->length < 0 || !rows->all ||
		!rose_batch_extremes(rows->batch, column->attno, rows->first, rows->n, &min, &max))
		return false;
	for (int i = 0; i < agg->nstates; i++)
	{
		if (agg->states[i].column == c)
			rose_node_agg_state_take_extremes(&agg->states[i], min, max, rows->n);
	}
	return true;
}

/* The scan's selected rows. */
static void
take_rows(RoseNodeAgg *agg)
{
	ExprContext *econtext = agg->css.ss.ps.ps_ExprContext;

	ResetExprContext(econtext);
	rose_node_exprs_evaluate(agg->exprs, &agg->scan->rows);
	for (int c = 0; c < agg->ncolumns; c++)
	{
		MemoryContext old;
		int			n;

		if (take_extremes(agg, c))
			continue;
		n = load_column(agg, &agg->columns[c]);
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		for (int i = 0; i < agg->nstates; i++)
		{
			if (agg->states[i].column == c)
				take_column(agg, &agg->states[i], &agg->columns[c], n);
		}
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < agg->nstates; i++)
	{
		if (agg->states[i].column < 0)
			agg->states[i].n += agg->scan->rows.n;
	}
}

/* All states count rows: perhaps the scan knows how many there are. */
static bool
count_unread(RoseNodeAgg *agg, uint64 *rows)
{
	Instrumentation *instrument = agg->scan->css.ss.ps.instrument;
	bool		counted;

	if (agg->ncolumns > 0)
		return false;
	if (instrument != NULL)
		InstrStartNode(instrument);
	counted = rose_node_scan_count(agg->scan, rows);
	if (instrument != NULL)
		InstrStopNode(instrument, counted ? (double) *rows : 0);
	return counted;
}

/* False: there was no row. */
static bool
take_all(RoseNodeAgg *agg)
{
	bool		any = false;
	uint64		rows;

	for (int i = 0; i < agg->nstates; i++)
	{
		rose_node_agg_state_reset(&agg->states[i]);
		if (agg->states[i].memory != NULL)
			rose_node_text_forget(agg->states[i].memory, NULL);
	}
	if (count_unread(agg, &rows))
	{
		for (int i = 0; i < agg->nstates; i++)
			agg->states[i].n = (int64) rows;
		return rows > 0;
	}
	while (rose_node_agg_next_rows(agg->scan))
	{
		any = true;
		take_rows(agg);
	}
	return any;
}

/* ---- the row of states ---- */

static void
emit(RoseNodeAgg *agg, TupleTableSlot *slot)
{
	MemoryContext memory = agg->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(memory);

	for (int i = 0; i < agg->nstates; i++)
		slot->tts_values[i] = rose_node_agg_state_emit(&agg->states[i], agg->states[i].room, &slot->tts_isnull[i]);
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}

static TupleTableSlot *
agg_exec(CustomScanState *css)
{
	RoseNodeAgg *agg = (RoseNodeAgg *) css;
	ScanState  *ss = &css->ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	ExecClearTuple(slot);
	ResetExprContext(ss->ps.ps_ExprContext);
	if (agg->done || !take_all(agg))
	{
		agg->done = true;
		return ss->ps.ps_ProjInfo ? ExecClearTuple(ss->ps.ps_ProjInfo->pi_state.resultslot) : slot;
	}
	agg->done = true;
	emit(agg, slot);
	return rose_node_project(ss, slot);
}

static void
agg_rescan(CustomScanState *css)
{
	RoseNodeAgg *agg = (RoseNodeAgg *) css;
	PlanState  *child = &agg->scan->css.ss.ps;

	agg->done = false;
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	rose_node_exprs_reset(agg->exprs);
	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child, css->ss.ps.chgParam);
	ExecReScan(child);
}

static void
agg_end(CustomScanState *css)
{
	ExecEndNode(&((RoseNodeAgg *) css)->scan->css.ss.ps);
}

static const CustomExecMethods agg_exec_methods = {
	.CustomName = "Rose Aggregate",
	.BeginCustomScan = agg_begin,
	.ExecCustomScan = agg_exec,
	.EndCustomScan = agg_end,
	.ReScanCustomScan = agg_rescan,
	.ExplainCustomScan = rose_node_explain_agg,
};

const CustomScanMethods rose_node_agg_methods = {
	.CustomName = "Rose Aggregate",
	.CreateCustomScanState = agg_create,
};
