/*-------------------------------------------------------------------------
 *
 * rose_node_group_columns.c
 *	  Columns of the rows that a Rose Aggregate with groups has at hand.
 *
 * Each column is decoded once, whoever takes it: keys, aggregates.  Of selected rows only, one after the other, with NULLs,
 * since rows are taken together with their groups.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "scan/rose_node_group.h"

/* Of so many rows less than one is selected: these are picked. */
#define PICK_BELOW		32

int
rose_node_group_columns_add(RoseNodeGroupColumns *columns, TupleDesc desc, AttrNumber attno,
							RoseNodeAggFilter *filter)
{
	RoseNodeGroupColumn *column;

	for (int i = 0; i < columns->ncolumns; i++)
	{
		if (columns->columns[i].attno == attno && columns->columns[i].filter == filter)
			return i;
	}
	column = &columns->columns[columns->ncolumns];
	column->attno = attno;
	column->filter = filter;
	column->length = -1;
	if (attno > 0 && TupleDescAttr(desc, attno - 1)->attbyval)
		column->length = TupleDescAttr(desc, attno - 1)->attlen;
	column->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	column->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	return columns->ncolumns++;
}

void
rose_node_group_columns_start(RoseNodeGroupColumns *columns, const RoseNodeRows *rows)
{
	columns->rows = rows;
	rose_node_agg_filters_evaluate(columns->filters, rows);
	for (int i = 0; i < columns->ncolumns; i++)
		columns->columns[i].loaded = false;
}

/* Of rows from the first selected one to the last. */
static bool
decode(RoseNodeGroupColumn *column, const RoseNodeRows *rows, int first, int n)
{
	bool		null;

	if (column->length < 0)
		null = rose_batch_datums(rows->batch, column->attno, first, n, (Datum *) column->values,
								 column->nulls);
	else
		null = rose_batch_words(rows->batch, column->attno, first, n, column->values,
								column->nulls);
	if (rows->n < n)
	{
		for (int i = 0; i < rows->n; i++)
		{
			int			at = rows->rows[i] - first;

			column->values[i] = column->values[at];
			column->nulls[i] = column->nulls[at];
		}
	}
	return null;
}

/* Rows that the column's filter leaves out have NULL. */
static void
filter_rows(RoseNodeGroupColumn *column, const RoseNodeRows *rows)
{
	const bool *fails = rose_node_agg_filter_fails(column->filter);

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
	int			first = rose_node_rows_at(rows, 0);
	int			n = rose_node_rows_at(rows, rows->n - 1) - first + 1;
	bool		null;

	if (column->loaded)
		return column;
	if (column->attno == 0)
	{
		memset(column->values, 0, rows->n * sizeof(int64));
		memset(column->nulls, false, rows->n * sizeof(bool));
		null = false;
	}
	else if (rows->n * PICK_BELOW < n)
	{
		rose_batch_pick(rows->batch, column->attno, rows->rows, rows->n, (Datum *) column->values,
						column->nulls);
		rose_node_agg_words_of_datums(column->values, rows->n, column->length);
		null = true;
	}
	else
		null = decode(column, rows, first, n);
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
