/*-------------------------------------------------------------------------
 *
 * rose_mem_batch_columns.c
 *	  Columns of a batch of a memtable's rows, as arrays.
 *
 * Of rows of which only the first columns are wanted, the values of these are written into
 * arrays while the batch is filled, from where rose_rows_attrs takes them.  Other columns of all
 * rows are decoded when somebody asks for them together: most are at the same place in all
 * tuples, or right behind what is, and tuples need not be taken apart.
 *
 * Backend-local.  While a batch is filled, its tuples may be in the arena: the caller is in
 * a reading section then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/read/rose_mem_batch.h"

/* ---- while the batch is filled ---- */

/* The column's values are to be put here. */
static RoseRowsColumn *
start_column(RoseMemBatch *batch, int c)
{
	RoseRowsColumn *column = &batch->rows.columns[c];

	if (column->values == NULL)
	{
		column->values = MemoryContextAlloc(batch->rows.context, ROSE_MEM_BATCH_ROWS *
											(sizeof(Datum) + sizeof(bool)));
		column->nulls = (bool *) (column->values + ROSE_MEM_BATCH_ROWS);
	}
	column->stamp = batch->rows.stamp;
	return column;
}

/* Room for a row's columns. */
static void
make_row_values(RoseMemBatch *batch)
{
	int			natts = batch->rows.schema->natts;

	if (batch->values != NULL)
		return;
	batch->values = MemoryContextAlloc(batch->rows.context, natts * (sizeof(Datum) + sizeof(bool)));
	batch->nulls = (bool *) (batch->values + natts);
}

void
rose_mem_batch_start_columns(RoseMemBatch *batch)
{
	for (int c = 0; c < batch->columns; c++)
		(void) start_column(batch, c);
	if (batch->columns > 0)
		make_row_values(batch);
}

/* Does a tuple have all of the first n columns, where tuple_columns says? */
static inline bool
has_columns(MinimalTuple tuple, int n)
{
	return (tuple->t_infomask & HEAP_HASNULL) == 0 && HeapTupleHeaderGetNatts(tuple) >= n;
}

/* Decode the first columns of a row that does not have them where others do. */
static void
take_odd_columns(RoseMemBatch *batch, int i)
{
	RoseRowsColumn *columns = batch->rows.columns;

	rose_tuple_deform(batch->tuples[i], batch->rows.schema, batch->columns,
					  batch->values, batch->nulls);
	for (int c = 0; c < batch->columns; c++)
	{
		columns[c].values[i] = batch->values[c];
		columns[c].nulls[i] = batch->nulls[c];
	}
}

#define TAKE_VALUES(type, to_datum) \
	for (int i = from; i < end; i++) \
		values[i] = to_datum(*(const type *) ((const char *) tuples[i] - MINIMAL_TUPLE_OFFSET + \
											  tuples[i]->t_hoff + offset))

/* A column of rows that have it where it is expected. */
static void
take_column(RoseMemBatch *batch, int c, int from, int end)
{
	const MinimalTuple *tuples = batch->tuples;
	const int32 offset = batch->rows.schema->tuple_columns[c].offset;
	Datum	   *values = batch->rows.columns[c].values;

	switch (batch->rows.schema->tuple_columns[c].attlen)
	{
		case sizeof(char):
			TAKE_VALUES(char, CharGetDatum);
			break;
		case sizeof(int16):
			TAKE_VALUES(int16, Int16GetDatum);
			break;
		case sizeof(int32):
			TAKE_VALUES(int32, Int32GetDatum);
			break;
		default:
			TAKE_VALUES(Datum, (Datum));
	}
	memset(batch->rows.columns[c].nulls + from, false, (end - from) * sizeof(bool));
}

void
rose_mem_batch_take_columns(RoseMemBatch *batch, int from, int to)
{
	while (from < to)
	{
		int			end = from;

		while (end < to && has_columns(batch->tuples[end], batch->columns))
			end++;
		for (int c = 0; c < batch->columns && from < end; c++)
			take_column(batch, c, from, end);
		if (end < to)
			take_odd_columns(batch, end++);
		from = end;
	}
}

/* ---- when all rows are there ---- */

/* Decode a column that is at its place, or the first one behind those that are. */
static void
decode_column(RoseMemBatch *batch, int c)
{
	const RoseSchema *schema = batch->rows.schema;
	RoseRowsColumn *column = &batch->rows.columns[c];

	for (int i = 0; i < batch->rows.nrows; i++)
	{
		if (batch->ops[i] != ROSE_OP_PUT)
			continue;
		if (likely(has_columns(batch->tuples[i], c + 1)))
		{
			column->values[i] = rose_tuple_fetch(batch->tuples[i], schema, c);
			column->nulls[i] = false;
			continue;
		}
		rose_tuple_deform(batch->tuples[i], schema, c + 1, batch->values, batch->nulls);
		column->values[i] = batch->values[c];
		column->nulls[i] = batch->nulls[c];
	}
}

/* Decode these columns (from 1) up to the last one. */
static void
decode_far_columns(RoseMemBatch *batch, const Bitmapset *attnos, AttrNumber upto)
{
	const RoseSchema *schema = batch->rows.schema;

	for (int i = 0; i < batch->rows.nrows; i++)
	{
		int			attno = -1;

		if (batch->ops[i] != ROSE_OP_PUT)
			continue;
		rose_tuple_deform(batch->tuples[i], schema, upto, batch->values, batch->nulls);
		while ((attno = bms_next_member(attnos, attno)) >= 0)
		{
			batch->rows.columns[attno - 1].values[i] = batch->values[attno - 1];
			batch->rows.columns[attno - 1].nulls[i] = batch->nulls[attno - 1];
		}
	}
}

void
rose_mem_batch_decode(RoseMemBatch *batch, AttrNumber attno, const Bitmapset *also)
{
	const RoseSchema *schema = batch->rows.schema;
	Bitmapset  *far = NULL;
	Bitmapset  *wanted = bms_add_member(bms_copy(also), attno);
	AttrNumber	upto = 0;
	int			a;

	Assert(!batch->pending);
	make_row_values(batch);
	for (a = -1; (a = bms_next_member(wanted, a)) >= 0;)
		upto = a;
	batch->asked = Max(batch->asked, upto);
	for (a = -1; (a = bms_next_member(wanted, a)) >= 0;)
	{
		if (batch->rows.columns[a - 1].stamp == batch->rows.stamp)
			continue;
		(void) start_column(batch, a - 1);
		if (rose_tuple_may_fetch(schema, a - 1))
			decode_column(batch, a - 1);
		else
			far = bms_add_member(far, a);
	}
	if (far != NULL)
		decode_far_columns(batch, far, upto);
	bms_free(far);
	bms_free(wanted);
}
