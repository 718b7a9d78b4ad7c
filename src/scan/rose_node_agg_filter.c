/*-------------------------------------------------------------------------
 *
 * rose_node_agg_filter.c
 *	  FILTER of the aggregates of a Rose Aggregate.
 *
 * All aggregates that it knows but count(*) pass over NULLs.  So a row that an aggregate's FILTER leaves out is one whose value is NULL,
 * and count(*) with a FILTER counts a column that is NULL where the FILTER is not true.  Nothing else of a node knows of it.
 *
 * A FILTER is evaluated by core's expressions, row by row: it may fail, so for rows only that the query's conditions have selected, each
 * once.  Aggregates with the same one share what came of it.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

#include "scan/rose_node_agg.h"
#include "scan/rose_node_column.h"

struct RoseNodeAggFilter
{
	const Node *expr;
	ExprState  *state;
	ExprContext *econtext;
	TupleTableSlot *slot;		/* of the table's rows; what is not looked at is NULL */
	RoseNodeColumns *columns;
	bool		fails[ROSE_NODE_VECTOR_ROWS];	/* of the rows at hand */
};

/* What a row alone does not say, or says only as a whole. */
static bool
is_strange(Node *node, void *nothing)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((const Var *) node)->varlevelsup > 0 || ((const Var *) node)->varattno <= 0;
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_SubLink:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_PlaceHolderVar:
		case T_CurrentOfExpr:
			return true;
		default:
			return expression_tree_walker(node, is_strange, nothing);
	}
}

bool
rose_node_agg_filter_takes(const Expr *filter)
{
	return !is_strange((Node *) unconstify(Expr *, filter), NULL) &&
		!contain_volatile_functions((Node *) unconstify(Expr *, filter));
}

List *
rose_node_agg_filter_columns(const Expr *filter)
{
	return pull_var_clause((Node *) unconstify(Expr *, filter), 0);
}

static RoseNodeColumns *
columns_of(const Expr *filter)
{
	List	   *vars = rose_node_agg_filter_columns(filter);
	RoseNodeColumns *columns = rose_node_columns_create(list_length(vars), ROSE_NODE_VECTOR_ROWS);
	Bitmapset  *added = NULL;
	ListCell   *cell;

	foreach(cell, vars)
	{
		AttrNumber	attno = lfirst_node(Var, cell)->varattno;

		if (bms_is_member(attno, added))
			continue;
		added = bms_add_member(added, attno);
		rose_node_columns_add(columns, attno, attno - 1);
	}
	return columns;
}

static RoseNodeAggFilter *
create(const Expr *expr, PlanState *parent, Relation rel)
{
	RoseNodeAggFilter *filter = palloc0(sizeof(RoseNodeAggFilter));
	TupleDesc	desc = RelationGetDescr(rel);

	filter->expr = (const Node *) expr;
	filter->state = ExecInitQual(list_make1(unconstify(Expr *, expr)), parent);
	filter->econtext = CreateExprContext(parent->state);
	filter->slot = ExecInitExtraTupleSlot(parent->state, desc, &TTSOpsVirtual);
	filter->columns = columns_of(expr);
	memset(filter->slot->tts_isnull, true, desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(filter->slot);
	filter->econtext->ecxt_scantuple = filter->slot;
	return filter;
}

RoseNodeAggFilter *
rose_node_agg_filter_add(List **filters, const Expr *expr, PlanState *parent, Relation rel)
{
	RoseNodeAggFilter *filter;
	ListCell   *cell;

	if (expr == NULL)
		return NULL;
	foreach(cell, *filters)
	{
		filter = lfirst(cell);
		if (equal(filter->expr, expr))
			return filter;
	}
	filter = create(expr, parent, rel);
	*filters = lappend(*filters, filter);
	return filter;
}

static void
evaluate(RoseNodeAggFilter *filter, const RoseNodeRows *rows)
{
	TupleTableSlot *slot = filter->slot;

	filter->columns->loaded = false;
	for (int i = 0; i < rows->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (filter->columns->ncolumns > 0)
			rose_node_columns_put(filter->columns, rows, i, slot->tts_values, slot->tts_isnull);
		ResetExprContext(filter->econtext);
		filter->fails[i] = !ExecQual(filter->state, filter->econtext);
	}
}

void
rose_node_agg_filters_evaluate(List *filters, const RoseNodeRows *rows)
{
	ListCell   *cell;

	foreach(cell, filters)
		evaluate(lfirst(cell), rows);
}

const bool *
rose_node_agg_filter_fails(const RoseNodeAggFilter *filter)
{
	return filter->fails;
}
