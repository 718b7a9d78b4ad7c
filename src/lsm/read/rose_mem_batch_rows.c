/*-------------------------------------------------------------------------
 *
 * rose_mem_batch_rows.c
 *	  What is asked of a batch of a memtable's rows, as rows in place
 *	  (lsm/component/rose_rows.h).
 *
 * Columns that were decoded while the batch was filled are taken from there.  Anything else
 * needs the rows, and fetches those that are pending.  How a batch comes to have rows is
 * in rose_mem_batch.c.
 *
 * Backend-local.  No lock is held: fetching takes a reading section.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/read/rose_mem_batch.h"

/* Of so many rows less than one is wanted: its tuple is taken apart for it. */
#define FEW_PART		64

/* From the columns that were decoded while the batch was filled; false: it is not among them. */
static bool
key_of_columns(RoseMemBatch *batch, int slot, Datum *key)
{
	const RoseSchema *schema = batch->rows.schema;

	if (batch->key_columns == 0)
		return false;
	if (slot > 0)
		batch->asked = Max(batch->asked, batch->key_columns);
	if (batch->columns < batch->key_columns)
		return false;
	for (int i = 0; i < schema->nkeys; i++)
		key[i] = batch->rows.columns[schema->keys[i].def.attno - 1].values[slot];
	return true;
}

static void
batch_key(RoseRows *rows, int slot, Datum *key)
{
	RoseMemBatch *batch = (RoseMemBatch *) rows;
	int64		rowid = 0;

	if (key_of_columns(batch, slot, key))
		return;
	if (batch->key_columns == 0 || (batch->pending && batch->places[slot] != 0))
	{
		rose_mem_batch_need(batch, slot);
		rowid = batch->refs[slot].version.rowid;
	}
	rose_key_from_tuple(rows->schema, batch->tuples[slot], rowid, key);
}

static void
batch_version(RoseRows *rows, int slot, RoseVersion *version)
{
	RoseMemBatch *batch = (RoseMemBatch *) rows;

	rose_mem_batch_need(batch, slot);
	*version = batch->refs[slot].version;
}

static Datum
batch_attr(RoseRows *rows, int slot, AttrNumber attno, bool *isnull)
{
	RoseMemBatch *batch = (RoseMemBatch *) rows;

	rose_mem_batch_need(batch, slot);
	return rose_row_getattr(&batch->refs[slot], rows->schema, attno, isnull);
}

static int
batch_attrs(RoseRows *rows, int slot, AttrNumber from, AttrNumber to, Datum *values, bool *nulls)
{
	RoseMemBatch *batch = (RoseMemBatch *) rows;

	/* an aggregate copies the first row of all, whatever it needs */
	if (slot > 0)
		batch->asked = Max(batch->asked, to);
	if (unlikely(batch->pending && batch->places[slot] != 0))
		rose_mem_batch_fetch(batch);
	rose_tuple_deform(batch->tuples[slot], rows->schema, to, values, nulls);
	return to;
}

/* Those that were decoded while the batch was filled. */
static const Datum *
batch_column(RoseRows *rows, AttrNumber attno, int slot, int *n, const bool **nulls)
{
	const RoseRowsColumn *column;

	if (attno == ROSE_ROWS_ROWID || attno > rows->natts ||
		rows->columns[attno - 1].stamp != rows->stamp)
		return NULL;
	column = &rows->columns[attno - 1];
	*n = Min(*n, rows->nrows - slot);
	*nulls = column->nulls + slot;
	return column->values + slot;
}

/* A column of all rows, by slot. */
static const RoseRowsColumn *
need_column(RoseRows *rows, AttrNumber attno, const Bitmapset *also)
{
	const RoseRowsColumn *column = &rows->columns[attno - 1];

	if (column->stamp != rows->stamp)
	{
		rose_mem_batch_fetch((RoseMemBatch *) rows);
		rose_mem_batch_decode((RoseMemBatch *) rows, attno, also);
	}
	return column;
}

/* Are so few rows wanted that their tuples are taken apart sooner than the column is of all rows? */
static inline bool
is_few(const RoseRows *rows, AttrNumber attno, int n)
{
	return rows->columns[attno - 1].stamp != rows->stamp && n * FEW_PART < rows->nrows;
}

static void
get_value(RoseRows *rows, int slot, AttrNumber attno, Datum *value, bool *isnull)
{
	*value = batch_attr(rows, slot, attno, isnull);
	if (*isnull)
		*value = 0;
}

static void
batch_decode(RoseRows *rows, AttrNumber attno, int slot, int n, const Bitmapset *also,
			 Datum *values, bool *nulls)
{
	const RoseRowsColumn *column;

	if (is_few(rows, attno, n))
	{
		for (int i = 0; i < n; i++)
			get_value(rows, slot + i, attno, &values[i], &nulls[i]);
		return;
	}
	column = need_column(rows, attno, also);
	memcpy(values, column->values + slot, n * sizeof(Datum));
	memcpy(nulls, column->nulls + slot, n * sizeof(bool));
}

static void
batch_pick(RoseRows *rows, AttrNumber attno, int slot, const uint16 *offsets, int n,
		   Datum *values, bool *nulls)
{
	const RoseRowsColumn *column;

	if (is_few(rows, attno, n))
	{
		for (int i = 0; i < n; i++)
			get_value(rows, slot + offsets[i], attno, &values[i], &nulls[i]);
		return;
	}
	column = need_column(rows, attno, NULL);
	for (int i = 0; i < n; i++)
	{
		values[i] = column->values[slot + offsets[i]];
		nulls[i] = column->nulls[slot + offsets[i]];
	}
}

static int
batch_find(RoseRows *rows, int slot, const Datum *key, int ncols, const uint64 *prefix, bool after)
{
	return rose_mem_batch_find((RoseMemBatch *) rows, slot, key, ncols, prefix, after);
}

const RoseRowsOps rose_mem_batch_rows = {
	.key = batch_key,
	.version = batch_version,
	.attr = batch_attr,
	.attrs = batch_attrs,
	.column = batch_column,
	.decode = batch_decode,
	.pick = batch_pick,
	.find = batch_find
};
