/*-------------------------------------------------------------------------
 *
 * rose_node_scan.c
 *	  Rose Scan: rows of a table, taken from it in batches.
 *
 * Batches have what the snapshot sees, in the ranges of the key (rose_node_keys.c).  Of a batch some rows
 * are looked at together: filters select among them (rose_node_quals.c), then columns are decoded
 * (rose_node_column.c), then rows are given out one by one, if the residual conditions hold.  The first
 * rows that are looked at are few, for who wants no more of them.  Rows of which filters could not say for many at a time whether
 * they are selected (an error may come of one) are asked one by one, when they are given out.  Where a query wants the first rows of an
 * order, those behind them are left out before other columns are decoded (rose_node_first.c).
 *
 * The slot.  The scan's slot is one of a rose table, which takes system columns, and other versions that
 * EvalPlanQual brings.  What the plan uses is put there before expressions look at it, and what it does not use is NULL.
 * Where the result is nothing but columns, they go to the result's slot at once.
 *
 * Values by reference are those of the batch, and good until the next row is asked for.
 *
 * EvalPlanQual gives another version of a row, or fetches one: that is for core's ExecScan, with all
 * conditions as expressions.
 *
 * Forward only: core puts a Material node above for who turns, or marks a place.  Backend-local; locks are
 * those of lsm/read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/sysattr.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/rel.h"

#include "util/rose_mask.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"
#include "scan/rose_node.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_choice.h"
#include "scan/rose_node_distinct.h"
#include "scan/rose_node_state.h"

/* Rows to look at first, and how many times as many next. */
#define FIRST_STEP		64
#define STEP_FACTOR		4

/* Values of a vector's columns, together, at most: they are to stay in the cache. */
#define VECTOR_VALUES	5120

static const CustomExecMethods scan_exec_methods;

static Node *
scan_create(CustomScan *plan)
{
	RoseNodeScan *scan = palloc0(sizeof(RoseNodeScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &scan_exec_methods;
#ifdef ROSE_HAVE_CUSTOM_SLOT_OPS
	scan->css.slotOps = &rose_slot_ops;
#endif
	return (Node *) scan;
}

/* ---- begin: columns ---- */

/* Members of a set made by pull_varattnos. */
#define SYSTEM(attno)	((attno) - FirstLowInvalidHeapAttributeNumber)

/* The user columns in such a set, by attribute number. */
static Bitmapset *
user_columns(const Bitmapset *members, TupleDesc desc)
{
	bool		whole = bms_is_member(SYSTEM(0), members);
	Bitmapset  *columns = NULL;

	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if ((whole || bms_is_member(SYSTEM(attno), members)) &&
			!TupleDescAttr(desc, attno - 1)->attisdropped)
			columns = bms_add_member(columns, attno);
	}
	return columns;
}

/* WHERE CURRENT OF asks a portal's scan where it is; the portal must have a name that one can know, and one process. */
static bool
may_be_current_of(const RoseNodeScan *scan)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible &&
		!scan->css.ss.ps.plan->parallel_aware;
}

static void
note_system_columns(RoseNodeScan *scan, const Bitmapset *members)
{
	scan->wants_tid = bms_is_member(SYSTEM(SelfItemPointerAttributeNumber), members) ||
		may_be_current_of(scan);
	scan->wants_version = bms_is_member(SYSTEM(MinTransactionIdAttributeNumber), members) ||
		bms_is_member(SYSTEM(MinCommandIdAttributeNumber), members) ||
		bms_is_member(SYSTEM(MaxTransactionIdAttributeNumber), members) ||
		bms_is_member(SYSTEM(MaxCommandIdAttributeNumber), members);
}

static RoseNodeColumns *
columns_of(const Bitmapset *attnos, int max_rows)
{
	RoseNodeColumns *columns = rose_node_columns_create(bms_num_members(attnos), max_rows);
	int			attno = -1;

	while ((attno = bms_next_member(attnos, attno)) >= 0)
		rose_node_columns_add(columns, attno, attno - 1);
	return columns;
}

/* Is the result nothing but columns? */
static bool
result_is_columns(const Plan *plan)
{
	ListCell   *cell;

	foreach(cell, plan->targetlist)
	{
		const Var  *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varattno <= 0)
			return false;
	}
	return true;
}

static RoseNodeColumns *
columns_of_result(const Plan *plan, int max_rows)
{
	RoseNodeColumns *columns = rose_node_columns_create(list_length(plan->targetlist), max_rows);
	ListCell   *cell;

	foreach(cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		rose_node_columns_add(columns, ((Var *) entry->expr)->varattno, entry->resno - 1);
	}
	return columns;
}

static int
vector_rows(int ncolumns)
{
	int			rows = Min(ROSE_NODE_VECTOR_ROWS, VECTOR_VALUES / Max(ncolumns, 1));

	return Min(Max(rows, FIRST_STEP), rose_node_vector_rows);
}

/* Columns of many rows, where the first of an order are wanted: what these have besides is decoded for few. */
static Bitmapset *
columns_of_many(const RoseNodeScan *scan, List *filters, const Bitmapset *first)
{
	Plan	   *plan = scan->css.ss.ps.plan;
	Bitmapset  *members = NULL;

	pull_varattnos((Node *) plan->qual, ((Scan *) plan)->scanrelid, &members);
	pull_varattnos((Node *) filters, ((Scan *) plan)->scanrelid, &members);
	return bms_union(user_columns(members, RelationGetDescr(scan->css.ss.ss_currentRelation)), first);
}

/* What filters need, if they may have to be asked of rows one by one. */
static RoseNodeColumns *
columns_of_open(const RoseNodeScan *scan, List *filters)
{
	const Plan *plan = scan->css.ss.ps.plan;
	Bitmapset  *members = NULL;

	pull_varattnos((Node *) filters, ((const Scan *) plan)->scanrelid, &members);
	return columns_of(user_columns(members, RelationGetDescr(scan->css.ss.ss_currentRelation)), scan->max_step);
}

/* first: those by which the first rows are found; NULL: all rows are given out. */
static void
find_columns(RoseNodeScan *scan, List *filters, const Bitmapset *first)
{
	Plan	   *plan = scan->css.ss.ps.plan;
	Index		relid = ((Scan *) plan)->scanrelid;
	TupleDesc	desc = RelationGetDescr(scan->css.ss.ss_currentRelation);
	Bitmapset  *members = NULL;
	Bitmapset  *early;
	Bitmapset  *late;

	pull_varattnos((Node *) plan->qual, relid, &members);
	early = user_columns(members, desc);
	pull_varattnos((Node *) plan->targetlist, relid, &members);
	late = bms_difference(user_columns(members, desc), early);
	note_system_columns(scan, members);
	pull_varattnos((Node *) filters, relid, &members);
	scan->used = bms_union(user_columns(members, desc), first);
	scan->many = first == NULL ? scan->used : columns_of_many(scan, filters, first);
	scan->max_step = vector_rows(bms_num_members(scan->many));

	scan->open = columns_of_open(scan, filters);
	scan->early = columns_of(early, scan->max_step);
	scan->direct = plan->qual == NIL && scan->css.ss.ps.ps_ProjInfo != NULL &&
		scan->css.ss.ps.state->es_epq_active == NULL && result_is_columns(plan);
	scan->late = scan->direct ? columns_of_result(plan, scan->max_step) :
		columns_of(late, scan->max_step);
}

/* ---- begin ---- */

/* Is there anything among these conditions that is dearer than to compare a word?  Not if one may fail: it is asked of all rows. */
static bool
calls(const List *filters, Index relid)
{
	bool		any = false;
	ListCell   *cell;

	foreach(cell, filters)
	{
		if (rose_node_quals_computes(lfirst(cell), relid))
			return false;
		any |= rose_node_quals_calls(lfirst(cell), relid);
	}
	return any;
}

/* Which of the rows are wanted; the columns that say so. */
static Bitmapset *
begin_first(RoseNodeScan *scan, List *filters)
{
	CustomScan *plan = castNode(CustomScan, scan->css.ss.ps.plan);
	List	   *columns = list_copy_tail(plan->custom_private, ROSE_NODE_PRIVATE);
	Bitmapset  *attnos = NULL;

	/* of the versions that EvalPlanQual brings all are */
	if (columns == NIL || scan->css.ss.ps.state->es_epq_active != NULL)
		return NULL;
	scan->first = rose_node_first_create(columns, list_nth(plan->custom_exprs, ROSE_NODE_LIMIT), &scan->css.ss);
	/* residual conditions are asked of all rows, whatever they do */
	scan->screens = plan->scan.plan.qual == NIL && (filters == NIL || calls(filters, plan->scan.scanrelid));
	for (int i = 0; i < list_length(columns); i += ROSE_FIRST_PRIVATE)
		attnos = bms_add_member(attnos, list_nth_int(columns, i + ROSE_FIRST_ATTNO));
	return attnos;
}

#ifndef ROSE_HAVE_CUSTOM_SLOT_OPS
/* Core has made a virtual slot, and expressions for that. */
static void
take_table_slot(ScanState *ss, EState *estate)
{
	ExecInitScanTupleSlot(estate, ss, RelationGetDescr(ss->ss_currentRelation), &rose_slot_ops);
	ss->ps.subPlan = NIL;		/* those of the expressions */
	ExecAssignScanProjectionInfo(ss);
	ss->ps.qual = ExecInitQual(ss->ps.plan->qual, &ss->ps);
}
#endif

static void
scan_begin(CustomScanState *css, EState *estate, int eflags)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	List	   *keys = list_nth(plan->custom_exprs, ROSE_NODE_KEYS);
	List	   *filters = list_nth(plan->custom_exprs, ROSE_NODE_FILTERS);

#ifndef ROSE_HAVE_CUSTOM_SLOT_OPS
	take_table_slot(&css->ss, estate);
#endif
	find_columns(scan, filters, begin_first(scan, filters));
	scan->ordered = list_nth_int(plan->custom_private, ROSE_NODE_ORDERED) != 0;
	if (keys != NIL)
		scan->keys = rose_node_keys_create(&css->ss, keys);
	if (filters != NIL)
		scan->filters = rose_node_quals_create(filters, &css->ss.ps);
	if (estate->es_epq_active != NULL)
		scan->checks = ExecInitQual(list_concat_copy(keys, filters), &css->ss.ps);
}

/* ---- batches ---- */

/* Would the scan push too much else out of the cache?  The limit is heap's. */
static bool
is_bulk(const RoseNodeScan *scan)
{
	return scan->keys == NULL &&
		RelationGetNumberOfBlocks(scan->css.ss.ss_currentRelation) > NBuffers / 4;
}

static void
begin_batches(RoseNodeScan *scan, const RoseKeyQuals *keys)
{
	EState	   *estate = scan->css.ss.ps.state;
	RoseBatchRequest request = {0};

	request.keys = keys;
	request.columns = scan->many;
	request.intervals = scan->intervals;
	request.ordered = scan->ordered || scan->intervals != NULL ||
		estate->es_snapshot != rose_scan_any_order;
	request.bulk = is_bulk(scan);
	request.named = scan->wants_tid;
	scan->batches = rose_batches_begin(scan->tree, estate->es_snapshot, &request);
}

/* Before the first row, and when the scan is to begin anew. */
static void
make_ready(RoseNodeScan *scan)
{
	Relation	rel = scan->css.ss.ss_currentRelation;
	MemoryContext old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);
	const RoseKeyQuals *keys = NULL;

	if (scan->tree == NULL)
		scan->tree = rose_tree_open(rel);
	if (scan->filters != NULL)
		rose_node_quals_start(scan->filters);
	if (scan->first != NULL)
		rose_node_first_start(scan->first);
	if (scan->keys != NULL)
	{
		keys = rose_node_keys_evaluate(scan->keys, scan->tree->schema);
		pgstat_count_index_scan(rose_node_keys_index(scan->keys));
	}
	else
		pgstat_count_heap_scan(rel);
	scan->intervals = rose_node_parallel_intervals(scan);
	if (scan->batches == NULL)
		begin_batches(scan, keys);
	else
		rose_batches_rescan(scan->batches, keys, scan->intervals);
	scan->batch.nrows = 0;
	scan->at = 0;
	scan->rows.n = scan->taken = 0;
	scan->step = Min(FIRST_STEP, scan->max_step);
	scan->ready = true;
	MemoryContextSwitchTo(old);
}

/* So many rows were read: as a plain scan counts them, or one of the key's index. */
static void
count_rows(const RoseNodeScan *scan, int64 n)
{
	Relation	rel = scan->css.ss.ss_currentRelation;

	if (scan->keys == NULL)
	{
		pgstat_count_index_tuples(rel, n);	/* for a table these are rows of scans */
		return;
	}
	pgstat_count_index_tuples(rose_node_keys_index(scan->keys), n);
	rose_pgstat_count_heap_fetches(rel, n);
}

/* ---- selection ---- */

/* Among rows [first, first + n) of the batch; false: no row is selected. */
static bool
select_rows(RoseNodeScan *scan, int first, int n)
{
	RoseNodeRows *rows = &scan->rows;
	uint64		mask[ROSE_MASK_WORDS(ROSE_NODE_VECTOR_ROWS)];
	int			there = n;
	int			left = n;
	int			behind = 0;

	if (scan->batch.include != NULL || scan->filters != NULL || scan->screens)
		left = there = rose_mask_part(scan->batch.include, scan->batch.nrows, first, n, mask);
	if (scan->screens && there > 0)
	{
		behind = rose_node_first_screen(scan->first, &scan->batch, first, n, mask);
		left = there - behind;
		scan->behind += behind;
	}
	scan->is_open = false;
	if (scan->filters != NULL && left > 0)
	{
		left = rose_node_quals_narrow(scan->filters, &scan->batch, first, n, mask);
		scan->is_open = rose_node_quals_is_open(scan->filters);
	}
	count_rows(scan, there);
	InstrCountFiltered2(&scan->css.ss, there - behind - left);	/* core adds up those of workers */

	rows->batch = &scan->batch;
	rows->first = first;
	rows->all = left == n;
	rows->n = left;
	if (!rows->all)
		(void) rose_mask_list(mask, n, first, rows->rows);
	return rows->n > 0;
}

/* The next rows that keys and filters select, as far as filters could say, at least one; false: there are none. */
static bool
next_rows(RoseNodeScan *scan)
{
	if (unlikely(!scan->ready))
		make_ready(scan);
	scan->open->loaded = scan->early->loaded = scan->late->loaded = false;
	scan->taken = 0;
	scan->rows.n = 0;
	for (;;)
	{
		int			first = scan->at;
		int			n;

		CHECK_FOR_INTERRUPTS();
		if (first >= scan->batch.nrows)
		{
			scan->at = 0;
			scan->batch.nrows = 0;
			if (!rose_batches_next(scan->batches, &scan->batch))
				return false;
			first = 0;
		}
		n = Min(scan->step, scan->batch.nrows - first);
		scan->step = Min(scan->step * STEP_FACTOR, scan->max_step);
		scan->at = first + n;
		if (select_rows(scan, first, n))
			return true;
	}
}

bool
rose_node_scan_count(RoseNodeScan *scan, uint64 *rows)
{
	if (scan->filters != NULL || scan->keys != NULL || scan->css.ss.ps.qual != NULL)
		return false;
	if (!scan->ready)
		make_ready(scan);
	if (!rose_batches_count(scan->batches, rows))
		return false;
	count_rows(scan, (int64) *rows);
	return true;
}

/* ---- rows ---- */

/* Do filters select the i-th row at hand, which is open?  What they look at is NULL in the slot then, as what nobody looks at. */
static bool
ask_filters(RoseNodeScan *scan, int i)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	bool		selected;

	rose_node_columns_put(scan->open, &scan->rows, i, slot->tts_values, slot->tts_isnull);
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	selected = rose_node_quals_ask(scan->filters);
	for (int c = 0; c < scan->open->ncolumns; c++)
		slot->tts_isnull[scan->open->columns[c].target] = true;
	if (!selected)
		InstrCountFiltered2(&scan->css.ss, 1);
	return selected;
}

/* Have the slot show the i-th row at hand, as far as residual conditions look at it; false: filters do not select it. */
static bool
show_row(RoseNodeScan *scan, int i)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	if (unlikely(!rose_slot_takes_values(slot)))
		rose_slot_open_values(slot, scan->tree);
	if (unlikely(scan->is_open) && !ask_filters(scan, i))
		return false;
	if (scan->wants_tid)
		rose_batch_tid(&scan->batch, rose_node_rows_at(&scan->rows, i), &slot->tts_tid);
	if (unlikely(scan->wants_version))
	{
		RoseVersion version = {0};

		rose_batch_version(&scan->batch, rose_node_rows_at(&scan->rows, i), &version);
		rose_slot_set_version(slot, &version);
	}
	if (scan->early->ncolumns > 0)
		rose_node_columns_put(scan->early, &scan->rows, i, slot->tts_values, slot->tts_isnull);
	return true;
}

/* Of the rows at hand keep those for which open filters and the residual conditions are true. */
static void
keep_passing(RoseNodeScan *scan)
{
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	RoseNodeRows *rows = &scan->rows;
	int			n = 0;

	while (scan->taken < rows->n)
	{
		int			row = rose_node_rows_at(rows, scan->taken);

		ResetExprContext(econtext);
		if (!show_row(scan, scan->taken++))
			continue;
		econtext->ecxt_scantuple = scan->css.ss.ss_ScanTupleSlot;
		if (ExecQual(scan->css.ss.ps.qual, econtext))
			rows->rows[n++] = (uint16) row; /* not behind the one that was looked at */
		else
			InstrCountFiltered1(&scan->css.ss, 1);
	}
	rows->all = rows->all && n == rows->n;
	rows->n = n;
	scan->is_open = false;
}

bool
rose_node_scan_next_passing(RoseNodeScan *scan)
{
	while (next_rows(scan))
	{
		if (scan->css.ss.ps.qual != NULL || scan->is_open)
			keep_passing(scan);
		if (scan->rows.n > 0)
			return true;
	}
	return false;
}

/* The next rows to be given out one by one, whether all conditions have selected them already or not; false: there are none. */
static bool
more_rows(RoseNodeScan *scan)
{
	RoseNodeRows *rows = &scan->rows;

	if (scan->first == NULL)
		return next_rows(scan);
	do
	{
		int			n;

		if (!rose_node_scan_next_passing(scan))
		{
			rose_node_first_end(scan->first);
			return false;
		}
		n = rows->n;
		rose_node_first_keep(scan->first, rows);
		scan->behind += n - rows->n;
	} while (rows->n == 0);
	/* there are others than those of which columns were decoded */
	scan->early->loaded = scan->late->loaded = false;
	scan->taken = 0;
	return true;
}

/* Have the slot show the next row that filters select, as far as residual conditions look at it; false: there is none. */
static bool
next_row(RoseNodeScan *scan)
{
	do
	{
		if (scan->taken >= scan->rows.n && !more_rows(scan))
		{
			ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
			return false;
		}
	} while (!show_row(scan, scan->taken++));
	return true;
}

/* Put the other columns of the row that was taken last to where the result is made of them. */
static void
complete_row(RoseNodeScan *scan, TupleTableSlot *slot)
{
	if (scan->late->ncolumns > 0)
		rose_node_columns_put(scan->late, &scan->rows, scan->taken - 1, slot->tts_values,
							  slot->tts_isnull);
}

/* Rows whose result is columns. */
static TupleTableSlot *
exec_direct(RoseNodeScan *scan)
{
	TupleTableSlot *result = scan->css.ss.ps.ps_ResultTupleSlot;

	if (!next_row(scan))
		return ExecClearTuple(result);
	if (unlikely(!rose_slot_takes_values(result)))
	{
		ExecClearTuple(result);
		ExecStoreVirtualTuple(result);
	}
	complete_row(scan, result);
	return result;
}

static TupleTableSlot *
exec_checked(RoseNodeScan *scan)
{
	ScanState  *ss = &scan->css.ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;
	ProjectionInfo *projection = ss->ps.ps_ProjInfo;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	ResetExprContext(econtext);
	while (next_row(scan))
	{
		econtext->ecxt_scantuple = slot;
		if (scan->first != NULL || ss->ps.qual == NULL || ExecQual(ss->ps.qual, econtext))
		{
			complete_row(scan, slot);
			return projection ? ExecProject(projection) : slot;
		}
		InstrCountFiltered1(ss, 1);
		ResetExprContext(econtext);
		CHECK_FOR_INTERRUPTS();
	}
	return projection ? ExecClearTuple(projection->pi_state.resultslot) : slot;
}

/* ---- EvalPlanQual ---- */

/* A table that is not rechecked is scanned as ever, but core looks at its residual conditions. */
static TupleTableSlot *
next_of_unchecked(ScanState *ss)
{
	RoseNodeScan *scan = (RoseNodeScan *) ss;

	if (next_row(scan))
		complete_row(scan, ss->ss_ScanTupleSlot);
	return ss->ss_ScanTupleSlot;
}

/* Another version of a row: what we would have checked of it.  Core checks the rest. */
static bool
recheck(ScanState *ss, TupleTableSlot *slot)
{
	ExprContext *econtext = ss->ps.ps_ExprContext;

	slot_getallattrs(slot);
	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(((RoseNodeScan *) ss)->checks, econtext);
}

static TupleTableSlot *
scan_exec(CustomScanState *css)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;

	if (unlikely(css->ss.ps.state->es_epq_active != NULL))
		return ExecScan(&css->ss, next_of_unchecked, recheck);
	return scan->direct ? exec_direct(scan) : exec_checked(scan);
}

/* ---- rescan, end ---- */

static void
scan_rescan(CustomScanState *css)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;

	scan->ready = false;
	scan->rows.n = scan->taken = 0;
	ExecScanReScan(&css->ss);
}

static void
scan_end(CustomScanState *css)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;

	if (scan->batches != NULL)
		rose_batches_end(scan->batches);
	if (scan->keys != NULL)
		rose_node_keys_end(scan->keys);
}

static const CustomExecMethods scan_exec_methods = {
	.CustomName = "Rose Scan",
	.BeginCustomScan = scan_begin,
	.ExecCustomScan = scan_exec,
	.EndCustomScan = scan_end,
	.ReScanCustomScan = scan_rescan,
	.EstimateDSMCustomScan = rose_node_parallel_estimate,
	.InitializeDSMCustomScan = rose_node_parallel_share,
	.ReInitializeDSMCustomScan = rose_node_parallel_restart,
	.InitializeWorkerCustomScan = rose_node_parallel_join,
	.ShutdownCustomScan = rose_node_parallel_leave,
	.ExplainCustomScan = rose_node_explain_scan,
};

const CustomScanMethods rose_node_scan_methods = {
	.CustomName = "Rose Scan",
	.CreateCustomScanState = scan_create,
};

void
rose_node_register(void)
{
	RegisterCustomScanMethods(&rose_node_scan_methods);
	RegisterCustomScanMethods(&rose_node_agg_methods);
	RegisterCustomScanMethods(&rose_node_choice_methods);
	RegisterCustomScanMethods(&rose_node_distinct_methods);
}
