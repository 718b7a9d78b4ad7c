/*-------------------------------------------------------------------------
 *
 * rose_node_group_columns.c
 *	  Columns of the rows that a Rose Aggregate with groups has at hand.
 *
 * Each column is decoded once, whoever takes it: keys, aggregates.  Of selected rows only, one after the other, with NULLs,
 * since rows are taken together with their groups.  Expressions are such columns, too, which are there when there are other rows.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_group.h"

int
rose_node_group_columns_add(RoseNodeGroupColumns *columns, TupleDesc desc, const Node *node,
							bool takes_decimals, RoseNodeExpr *filter)
{
	AttrNumber	attno = 0;
	RoseNodeExpr *expr = NULL;
	RoseNodeGroupColumn *column;

	if (takes_decimals)
		expr = rose_node_exprs_add_decimals(columns->exprs, node, filter);
	else if (node != NULL && IsA(node, Var))
		attno = ((const Var *) node)->varattno;
	else if (node != NULL)
		expr = rose_node_exprs_add(columns->exprs, node, filter);
	for (int i = 0; i < columns->ncolumns; i++)
	{
		column = &columns->columns[i];
		if (column->attno == attno && column->expr == expr && column->filter == filter)
			return i;
	}
	column = &columns->columns[columns->ncolumns];
	column->attno = attno;
	column->expr = expr;
	column->filter = filter;
	column->length = -1;
	if (attno > 0 && TupleDescAttr(desc, attno - 1)->attbyval)
		column->length = TupleDescAttr(desc, attno - 1)->attlen;
	column->values = expr != NULL ? expr->values : palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	column->nulls = expr != NULL ? expr->nulls : palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	column->by_value = true;
	if (node != NULL)
		get_typlenbyval(exprType(node), &column->typlen, &column->by_value);
	return columns->ncolumns++;
}

void
rose_node_group_columns_start(RoseNodeGroupColumns *columns, const RoseNodeRows *rows)
{
	columns->rows = rows;
	rose_node_exprs_evaluate(columns->exprs, rows);
	for (int i = 0; i < columns->ncolumns; i++)
	{
		RoseNodeGroupColumn *column = &columns->columns[i];

		column->loaded = column->expr != NULL;
		if (column->expr == NULL)
			continue;
		column->any_null = column->expr->any_null;
		column->decimals = column->expr->decimals;
	}
}

/* Rows that the column's filter leaves out have NULL. */
static void
filter_rows(RoseNodeGroupColumn *column, const RoseNodeRows *rows)
{
	const bool *fails = column->filter->nulls;

	for (int i = 0; i < rows->n; i++)
		column->nulls[i] |= fails[i];
}

/* Those of NULLs are 0. */
static void
clear_nulls(RoseNodeGroupColumn *column, int n)
{
	for (int i = 0; i < n; i++)
		column->values[i] = column->nulls[i] ? 0 : column->values[i];
}

RoseNodeGroupColumn *
rose_node_group_columns_load(RoseNodeGroupColumns *columns, int number)
{
	RoseNodeGroupColumn *column = &columns->columns[number];
	const RoseNodeRows *rows = columns->rows;
	bool		null;

	if (column->loaded)
		return column;
	if (column->attno == 0)
	{
		memset(column->values, 0, rows->n * sizeof(int64));
		memset(column->nulls, false, rows->n * sizeof(bool));
		null = false;
	}
	else
		null = rose_node_column_words(rows, column->attno, column->length, column->values, column->nulls);
	if (column->filter != NULL)
	{
		filter_rows(column, rows);
		null = true;
	}
	column->any_null = null && memchr(column->nulls, true, rows->n) != NULL;
	if (column->any_null)
		clear_nulls(column, rows->n);
	column->loaded = true;
	return column;
}
