/*-------------------------------------------------------------------------
 *
 * rose_node_column.c
 *	  The columns that a node takes from batches.
 *
 * Columns are decoded when a row is there that somebody wants, for all rows that were selected with
 * it: those between the first and the last of them, or, if these are few among many, one by one.
 *
 * Values by reference point to where the batch has them.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "scan/rose_node_column.h"

/* Of so many rows less than one is given out: these are picked. */
#define PICK_BELOW		32

RoseNodeColumns *
rose_node_columns_create(int ncolumns, int max_rows)
{
	RoseNodeColumns *columns = palloc0(offsetof(RoseNodeColumns, columns) +
									   ncolumns * sizeof(RoseNodeColumn));

	columns->context = CurrentMemoryContext;
	columns->max_rows = max_rows;
	return columns;
}

void
rose_node_columns_add(RoseNodeColumns *columns, AttrNumber attno, int target)
{
	RoseNodeColumn *column = &columns->columns[columns->ncolumns++];

	column->attno = attno;
	column->target = target;
}

static void
make_room(RoseNodeColumns *columns, RoseNodeColumn *column)
{
	if (column->values != NULL)
		return;
	column->values = MemoryContextAlloc(columns->context, columns->max_rows * sizeof(Datum));
	column->nulls = MemoryContextAlloc(columns->context, columns->max_rows * sizeof(bool));
}

void
rose_node_columns_load(RoseNodeColumns *columns, const RoseNodeRows *rows)
{
	int			first = rose_node_rows_at(rows, 0);
	int			n = rose_node_rows_at(rows, rows->n - 1) - first + 1;
	bool		pick = rows->n * PICK_BELOW < n;

	Assert(n <= columns->max_rows);
	for (int c = 0; c < columns->ncolumns; c++)
	{
		RoseNodeColumn *column = &columns->columns[c];

		make_room(columns, column);
		if (pick)
			rose_batch_pick(rows->batch, column->attno, rows->rows, rows->n, column->values,
							column->nulls);
		else
			(void) rose_batch_datums(rows->batch, column->attno, first, n, column->values,
									 column->nulls);
	}
	columns->first = pick ? -1 : first;
	columns->loaded = true;
}

/* ---- a column alone ---- */

void
rose_node_column_words_of_datums(int64 *values, int n, int length)
{
	for (int i = 0; i < n; i++)
	{
		if (length == sizeof(int32))
			values[i] = (int32) values[i];
		else if (length == sizeof(int16))
			values[i] = (int16) values[i];
		else if (length == sizeof(int8))
			values[i] = (int8) values[i];
	}
}

bool
rose_node_column_words(const RoseNodeRows *rows, AttrNumber attno, int length, int64 *values, bool *nulls)
{
	int			first = rose_node_rows_at(rows, 0);
	int			n = rose_node_rows_at(rows, rows->n - 1) - first + 1;
	bool		null;

	if (rose_node_column_is_picked(rows->n, n, length))
	{
		rose_batch_pick(rows->batch, attno, rows->rows, rows->n, (Datum *) values, nulls);
		rose_node_column_words_of_datums(values, rows->n, length);
		return true;
	}
	if (length < 0)
		null = rose_batch_datums(rows->batch, attno, first, n, (Datum *) values, nulls);
	else
		null = rose_batch_words(rows->batch, attno, first, n, values, nulls);
	if (rows->n < n)
	{
		const int64 *all = values - first;

		for (int i = 0; i < rows->n; i++)
			values[i] = all[rows->rows[i]];
		for (int i = 0; i < rows->n && null; i++)
			nulls[i] = nulls[rows->rows[i] - first];
	}
	return null;
}

const Datum *
rose_node_column_codes(const RoseNodeRows *rows, AttrNumber attno, uint16 *codes, int *nentries)
{
	int			first = rose_node_rows_at(rows, 0);
	int			n = rose_node_rows_at(rows, rows->n - 1) - first + 1;
	const Datum *entries;

	if (rose_node_column_is_picked(rows->n, n, -1))
		return NULL;
	entries = rose_batch_codes(rows->batch, attno, first, n, codes, nentries);
	for (int i = 0; i < rows->n && entries != NULL && rows->n < n; i++)
		codes[i] = codes[rows->rows[i] - first];
	return entries;
}
