/*-------------------------------------------------------------------------
 *
 * rose_node_expr.c
 *	  Expressions of a table's columns, for many rows at a time.
 *
 * They are what a Rose Aggregate takes in the place of columns: arguments of aggregates, keys of groups, and FILTERs.  Core's expressions
 * make them, row by row, and within a row in the order in which core's nodes would; for rows only that the query's conditions have
 * selected, and an argument for those that its FILTER leaves.  So one that fails does so where it does in core's plan.  All look at one slot,
 * and each column is decoded once for all of them.
 *
 * What one of a single column makes of a value is remembered, since values come again: those of a dictionary stand in one place of the page, and
 * many rows have one time, or one number, or times that it does not tell apart (rose_node_time.c).  So it is evaluated for values that a
 * selected row has, and not once a row.  What was made of values is good until parameters change; of what is by reference,
 * until there are other rows.  Where values do not come again, nothing is looked for.
 *
 * Arithmetic is made of all selected rows at once (rose_node_kernel.c), if there is no error; expressions in which there may be one are
 * evaluated row by row.
 *
 * Which ones are taken is said in rose_node_expr_kinds.c.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "scan/rose_node_expr.h"
#include "scan/rose_node_kernel.h"

/* Values that are remembered; a power of 2. */
#define MEMO_BITS		9
#define MEMO_ENTRIES	(1 << MEMO_BITS)

/* After so many questions it is known whether they are worth it; if not, none is asked for so many times rows. */
#define MEMO_SAMPLE		128
#define MEMO_IDLE		32

/* Bytes by reference that are kept for other rows. */
#define MAX_KEPT		(256 * 1024)

/* After so many more vectors with errors, as it seems, than without, an expression is evaluated row by row. */
#define MAX_FAILURES	8

/* ---- begin ---- */

RoseNodeExprSet *
rose_node_exprs_create(PlanState *parent, Relation rel)
{
	RoseNodeExprSet *exprs = palloc0(sizeof(RoseNodeExprSet));
	TupleDesc	desc = RelationGetDescr(rel);

	exprs->context = CurrentMemoryContext;
	exprs->parent = parent;
	exprs->econtext = CreateExprContext(parent->state);
	exprs->slot = ExecInitExtraTupleSlot(parent->state, desc, &TTSOpsVirtual);
	memset(exprs->slot->tts_isnull, true, desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(exprs->slot);
	exprs->econtext->ecxt_scantuple = exprs->slot;
	exprs->kernels = palloc0(sizeof(RoseNodeKernels));
	exprs->results = AllocSetContextCreate(CurrentMemoryContext, "rose aggregate expressions",
										   ALLOCSET_DEFAULT_SIZES);
	return exprs;
}

/* It is to be remembered what it makes of values of this column; 0: it has none, and makes one value. */
static void
make_memo(RoseNodeExprSet *exprs, RoseNodeExpr *expr, AttrNumber attno)
{
	Form_pg_attribute column = attno > 0 ? TupleDescAttr(exprs->slot->tts_tupleDescriptor, attno - 1) : NULL;

	expr->only = attno;
	expr->keeps = column == NULL || column->attbyval;
	if (expr->keeps && !expr->is_filter && !expr->by_value)
		expr->kept = AllocSetContextCreate(exprs->context, "rose aggregate kept values", ALLOCSET_SMALL_SIZES);
	if (column != NULL && column->atttypid == TIMESTAMPOID)
		expr->grain = rose_node_time_grain(expr->expr);
	expr->memo = palloc0(MEMO_ENTRIES * sizeof(RoseNodeExprMemo));
	expr->stamp = 1;
}

/* The columns that it looks at. */
static void
add_columns(RoseNodeExprSet *exprs, RoseNodeExpr *expr)
{
	List	   *vars = rose_node_expr_columns(expr->expr);
	Bitmapset  *own = NULL;
	ListCell   *cell;

	foreach(cell, vars)
		own = bms_add_member(own, lfirst_node(Var, cell)->varattno);
	exprs->attnos = bms_add_members(exprs->attnos, own);
	if (expr->kernel == NULL && bms_membership(own) != BMS_MULTIPLE)
		make_memo(exprs, expr, own != NULL ? bms_singleton_member(own) : 0);
}

/* Those of its kernel, if nothing is left out of them. */
static void
make_arrays(RoseNodeExpr *expr)
{
	if (expr->kernel != NULL && expr->filter == NULL && !expr->is_filter)
	{
		expr->values = expr->kernel->values;
		expr->nulls = expr->kernel->nulls;
		return;
	}
	if (!expr->is_filter)
		expr->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	expr->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
}

static RoseNodeExpr *
add(RoseNodeExprSet *exprs, const Node *node, RoseNodeExpr *filter, bool is_filter, bool takes_decimals)
{
	RoseNodeExpr *expr;

	for (int i = 0; i < exprs->nexprs; i++)
	{
		expr = exprs->exprs[i];
		if (expr->is_filter == is_filter && expr->filter == filter && expr->takes_decimals == takes_decimals &&
			equal(expr->expr, node))
			return expr;
	}
	expr = palloc0(sizeof(RoseNodeExpr));
	expr->expr = node;
	expr->filter = filter;
	expr->is_filter = is_filter;
	expr->takes_decimals = takes_decimals;
	expr->kernel = takes_decimals ? rose_node_kernel_compile_decimal(exprs->kernels, node) :
		rose_node_kernel_compile(exprs->kernels, node);
	if (is_filter)
		expr->state = ExecInitQual(list_make1(unconstify(Node *, node)), exprs->parent);
	else
	{
		expr->state = ExecInitExpr((Expr *) unconstify(Node *, node), exprs->parent);
		get_typlenbyval(exprType(node), &expr->typlen, &expr->by_value);
	}
	make_arrays(expr);
	add_columns(exprs, expr);
	if (exprs->exprs == NULL)
		exprs->exprs = palloc(sizeof(RoseNodeExpr *));
	else
		exprs->exprs = repalloc(exprs->exprs, (exprs->nexprs + 1) * sizeof(RoseNodeExpr *));
	exprs->exprs[exprs->nexprs++] = expr;
	return expr;
}

RoseNodeExpr *
rose_node_exprs_add(RoseNodeExprSet *exprs, const Node *expr, RoseNodeExpr *filter)
{
	return add(exprs, expr, filter, false, false);
}

RoseNodeExpr *
rose_node_exprs_add_decimals(RoseNodeExprSet *exprs, const Node *expr, RoseNodeExpr *filter)
{
	return add(exprs, expr, filter, false, true);
}

RoseNodeExpr *
rose_node_exprs_add_filter(RoseNodeExprSet *exprs, const Expr *filter)
{
	return filter == NULL ? NULL : add(exprs, (const Node *) filter, NULL, true, false);
}

/* All are there. */
static void
make_columns(RoseNodeExprSet *exprs)
{
	MemoryContext old = MemoryContextSwitchTo(exprs->context);
	int			attno = -1;

	exprs->columns = rose_node_columns_create(bms_num_members(exprs->attnos), ROSE_NODE_VECTOR_ROWS);
	while ((attno = bms_next_member(exprs->attnos, attno)) >= 0)
		rose_node_columns_add(exprs->columns, attno, attno - 1);
	MemoryContextSwitchTo(old);
}

/* ---- what is remembered ---- */

static void
forget(RoseNodeExpr *expr)
{
	if (expr->kept != NULL)
		MemoryContextReset(expr->kept);
	if (expr->memo == NULL || ++expr->stamp != 0)
		return;
	memset(expr->memo, 0, MEMO_ENTRIES * sizeof(RoseNodeExprMemo));
	expr->stamp = 1;
}

/* There are other rows. */
static void
start_memo(RoseNodeExpr *expr)
{
	expr->asked = expr->known = 0;
	if (expr->idle > 0)
		expr->idle--;
	if (!expr->keeps || (expr->kept != NULL && MemoryContextMemAllocated(expr->kept, false) > MAX_KEPT))
		forget(expr);
}

/* What stands for the column's value in the slot, and for others of which the same is made; false: nothing does. */
static inline bool
find_place(const RoseNodeExpr *expr, const TupleTableSlot *slot, Datum *place)
{
	*place = (Datum) 0;
	if (expr->only == 0)
		return true;
	*place = slot->tts_values[expr->only - 1];
	if (slot->tts_isnull[expr->only - 1])
		return false;
	if (expr->grain.grain == 0)
		return true;
	if (TIMESTAMP_NOT_FINITE(DatumGetTimestamp(*place)))
		return false;
	*place = Int64GetDatum(rose_node_time_place(expr->grain, DatumGetTimestamp(*place)));
	return true;
}

/* Where the value is, or goes; NULL: it is not looked for. */
static inline RoseNodeExprMemo *
memo_of(RoseNodeExpr *expr, Datum value)
{
	if (expr->idle > 0)
		return NULL;
	if (expr->asked == MEMO_SAMPLE && expr->known < MEMO_SAMPLE / 2)
	{
		expr->idle = MEMO_IDLE;
		return NULL;
	}
	expr->asked++;
	return &expr->memo[(uint64) value * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS)];
}

/* ---- rows ---- */

/* Its word, or Datum; what is by reference goes to the context. */
static int64
compute(RoseNodeExprSet *exprs, RoseNodeExpr *expr, MemoryContext context, bool *null)
{
	Datum		value;
	MemoryContext old;

	if (expr->is_filter)
	{
		*null = !ExecQual(expr->state, exprs->econtext);
		return 0;
	}
	value = ExecEvalExprSwitchContext(expr->state, exprs->econtext, null);
	if (*null || !expr->wants_values)
		return 0;
	if (expr->by_value)
		return expr->typlen == sizeof(int32) ? DatumGetInt32(value) : expr->typlen == sizeof(int16) ? DatumGetInt16(value) :
			expr->typlen == sizeof(int8) ? (int8) value : (int64) value;
	old = MemoryContextSwitchTo(context);
	value = datumCopy(value, false, expr->typlen);
	MemoryContextSwitchTo(old);
	return (int64) value;
}

/* The same, if it is not known. */
static int64
remember(RoseNodeExprSet *exprs, RoseNodeExpr *expr, bool *null)
{
	Datum		value;
	RoseNodeExprMemo *memo;
	int64		result;

	if (!find_place(expr, exprs->slot, &value) || (memo = memo_of(expr, value)) == NULL)
		return compute(exprs, expr, exprs->results, null);
	if (memo->stamp == expr->stamp && memo->value == value)
	{
		expr->known++;
		*null = memo->null;
		return (int64) memo->result;
	}
	result = compute(exprs, expr, expr->kept != NULL ? expr->kept : exprs->results, null);
	memo->value = value;
	memo->result = (Datum) result;
	memo->null = *null;
	memo->stamp = expr->stamp;
	return result;
}

/* Of the i-th selected row, which is in the slot. */
static inline void
evaluate(RoseNodeExprSet *exprs, RoseNodeExpr *expr, int i)
{
	int64		value = 0;
	bool		null = true;

	if (expr->filter == NULL || !expr->filter->nulls[i])
		value = expr->memo != NULL ? remember(exprs, expr, &null) :
			compute(exprs, expr, exprs->results, &null);
	if (!expr->is_filter)
		expr->values[i] = value;
	expr->nulls[i] = null;
	expr->any_null |= null;
}

/* Those that are not done. */
static void
evaluate_rows(RoseNodeExprSet *exprs, const RoseNodeRows *rows)
{
	TupleTableSlot *slot = exprs->slot;

	exprs->columns->loaded = false;
	for (int i = 0; i < rows->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (exprs->columns->ncolumns > 0)
			rose_node_columns_put(exprs->columns, rows, i, slot->tts_values, slot->tts_isnull);
		ResetExprContext(exprs->econtext);
		for (int e = 0; e < exprs->nexprs; e++)
		{
			if (!exprs->exprs[e]->done)
				evaluate(exprs, exprs->exprs[e], i);
		}
	}
}

/* ---- all rows at once ---- */

/* A FILTER leaves out rows for which it is not true. */
static void
take_filter(RoseNodeExpr *expr, int n)
{
	const RoseNodeKernel *kernel = expr->kernel;

	for (int i = 0; i < n; i++)
		expr->nulls[i] = kernel->values[i] == 0;
	expr->any_null = true;
}

/* It is known by now which rows the FILTER leaves out. */
static void
take_filtered(RoseNodeExpr *expr, int n)
{
	const RoseNodeKernel *kernel = expr->kernel;

	for (int i = 0; i < n; i++)
	{
		bool		null = expr->filter->nulls[i] || kernel->nulls[i];

		expr->values[i] = null ? 0 : kernel->values[i];
		expr->nulls[i] = null;
	}
	expr->any_null = kernel->any_null || expr->filter->any_null;
}

/* False: there may be an error in one of its values, or they are no integers. */
static bool
run_kernel(RoseNodeExprSet *exprs, RoseNodeExpr *expr, int n)
{
	RoseNodeKernel *kernel = expr->kernel;

	if (rose_node_kernel_run(exprs->kernels, kernel))
	{
		kernel->failures -= kernel->failures > 0;
		expr->decimals = kernel->is_decimal ? &kernel->decimals : NULL;
	}
	else if (kernel->kind == ROSE_KERNEL_DECIMAL_COLUMN)
		rose_node_kernel_take_datums(exprs->kernels, kernel);
	else
	{
		kernel->failures++;
		return false;
	}
	expr->any_null = kernel->any_null;
	if (expr->is_filter)
		take_filter(expr, n);
	return true;
}

/*
 * Returns how many are done.  Of those that are not there may be errors, and of the others there are none, so it does not show that these are
 * not evaluated row by row with them.  Those of one kernel are done together or not at all: their values may be in its arrays.
 */
static int
run_kernels(RoseNodeExprSet *exprs, const RoseNodeRows *rows)
{
	int			ndone = 0;

	rose_node_kernels_start(exprs->kernels, rows);
	for (int e = 0; e < exprs->nexprs; e++)
	{
		RoseNodeExpr *expr = exprs->exprs[e];

		expr->decimals = NULL;
		if (expr->kernel == NULL || expr->kernel->failures >= MAX_FAILURES)
			continue;
		expr->done = run_kernel(exprs, expr, rows->n);
		ndone += expr->done;
	}
	return ndone;
}

/* ---- both ---- */

void
rose_node_exprs_evaluate(RoseNodeExprSet *exprs, const RoseNodeRows *rows)
{
	int			ndone;

	if (exprs->nexprs == 0)
		return;
	if (exprs->columns == NULL)
		make_columns(exprs);
	MemoryContextReset(exprs->results);
	for (int e = 0; e < exprs->nexprs; e++)
	{
		exprs->exprs[e]->done = false;
		start_memo(exprs->exprs[e]);
	}
	ndone = run_kernels(exprs, rows);
	for (int e = 0; e < exprs->nexprs; e++)
	{
		if (!exprs->exprs[e]->done)
			exprs->exprs[e]->any_null = false;
	}
	if (ndone < exprs->nexprs)
		evaluate_rows(exprs, rows);
	for (int e = 0; e < exprs->nexprs; e++)
	{
		if (exprs->exprs[e]->done && exprs->exprs[e]->filter != NULL)
			take_filtered(exprs->exprs[e], rows->n);
	}
}

void
rose_node_exprs_reset(RoseNodeExprSet *exprs)
{
	for (int e = 0; e < exprs->nexprs; e++)
		forget(exprs->exprs[e]);
}
