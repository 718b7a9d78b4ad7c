/*-------------------------------------------------------------------------
 *
 * rose_mem_batch.c
 *	  Rows of a memtable, copied together in one reading section of C0.
 *
 * Tuples are copied behind each other into one piece of memory, which is used again for
 * the next batch and grows with what batches need.  Keys are taken from them only when
 * somebody asks.  Of rows of which only the first columns are wanted, the values of these
 * are written into arrays, from where rose_rows_attrs takes them.
 *
 * Backend-local.  A batch is freed when its last holder lets go.  While its source lives
 * it belongs to the scan's memory, so that it goes with it after an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_mem_batch.h"
#include "lsm/read/rose_scan.h"

#define ROWS_FIRST		8
#define LIMIT_OF_WALK	64		/* who takes so many rows takes many more */
#define BYTES_FIRST		1024
#define BYTES_MAX		(64 * 1024)
#define OLD_VERSIONS_MAX	8	/* passed one by one, before the rest is skipped */
#define VISIT_MAX		4096	/* entries looked at under one hold of the lock */
#define TAKE_MAX		32		/* entries taken from the memtable together */

static const RoseRowsOps batch_rows_ops;

/* ---- life ---- */

/* How many first columns have the whole key, if all of these can be decoded; else 0. */
static int
count_key_columns(const RoseSchema *schema)
{
	int			n = 0;

	for (int i = 0; i < schema->nkeys; i++)
		n = Max(n, schema->keys[i].def.attno);
	return n <= schema->nfixed_byval ? n : 0;
}

RoseMemBatch *
rose_mem_batch_create(RoseTree *tree, MemoryContext context)
{
	const RoseSchema *schema = tree->schema;
	MemoryContext own = AllocSetContextCreate(context, "rose memtable batch",
											  ALLOCSET_DEFAULT_SIZES);
	RoseMemBatch *batch = MemoryContextAllocZero(own, sizeof(RoseMemBatch));
	int			width = rose_schema_key_width(schema);

	batch->rows.ops = &batch_rows_ops;
	batch->rows.refcount = 1;
	batch->rows.context = own;
	batch->rows.schema = schema;
	batch->rows.plain = true;
	batch->rows.natts = schema->nfixed_byval;
	batch->rows.columns = MemoryContextAllocZero(own, schema->nfixed_byval * sizeof(RoseRowsColumn));
	batch->tree = tree;
	batch->key_columns = count_key_columns(schema);
	batch->limit = ROWS_FIRST;
	batch->refs = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(RoseRow));
	batch->seqs = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint64));
	batch->places = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(RoseArenaPtr));
	batch->prefixes = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint64));
	batch->keys = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * width * sizeof(Datum));
	batch->rows.seqs = batch->seqs;
	batch->rows.prefixes = batch->prefixes;
	batch->capacity = BYTES_FIRST;
	batch->data = MemoryContextAlloc(own, batch->capacity);
	batch->more = AllocSetContextCreate(own, "rose memtable batch, large rows",
										ALLOCSET_SMALL_SIZES);
	return batch;
}

void
rose_mem_batch_abandon(RoseMemBatch *batch)
{
	if (batch == NULL)
		return;
	if (batch->rows.refcount > 1)
	{
		rose_mem_batch_fetch(batch);
		MemoryContextSetParent(batch->rows.context, TopTransactionContext);
	}
	rose_rows_release(&batch->rows);
}

/* ---- filling ---- */

void
rose_mem_batch_start(RoseMemBatch *batch)
{
	Assert(batch->rows.refcount == 1);
	if (batch->more_bytes > 0)
	{
		MemoryContextReset(batch->more);
		batch->more_bytes = 0;
		if (batch->capacity < BYTES_MAX)
		{
			pfree(batch->data);
			batch->capacity = Min(batch->capacity * 4, BYTES_MAX);
			batch->data = MemoryContextAlloc(batch->rows.context, batch->capacity);
		}
	}
	batch->rows.nrows = 0;
	batch->rows.window_rows = 0;
	batch->rows.stamp++;
	batch->used = 0;
	batch->longest = 0;
	batch->at_end = false;
	batch->only_puts = true;
	batch->wanted = false;
	batch->asked = 0;
	batch->pending = false;
	batch->min_seq = PG_UINT64_MAX;
	batch->max_seq = 0;
}

static void *
copy_bytes(RoseMemBatch *batch, const void *bytes, Size size)
{
	char	   *copy;

	if (size <= batch->capacity - batch->used)
	{
		copy = batch->data + batch->used;
		batch->used += Min(MAXALIGN(size), batch->capacity - batch->used);
	}
	else
	{
		copy = MemoryContextAllocHuge(batch->more, size);
		batch->more_bytes += size;
	}
	memcpy(copy, bytes, size);
	return copy;
}

static void
fill_row(RoseMemBatch *batch, int i, const RoseMemEntryRef *entry)
{
	RoseRow    *row = &batch->refs[i];

	row->version = entry->version;
	row->key = NULL;
	row->tuple = NULL;
	if (entry->row)
	{
		row->tuple = copy_bytes(batch, entry->row, entry->row->t_len);
		batch->longest = Max(batch->longest, entry->row->t_len);
	}
	row->rows = NULL;
	row->slot = i;
	row->component = 0;
	row->ordinal = 0;
	if (entry->version.present)
		row->version.present = copy_bytes(batch, entry->version.present,
										  ROSE_PRESENT_BYTES(batch->rows.schema->natts));
}

/* Fill in a row that was put off.  REQUIRES a reading section, and that the memtable is alive. */
static void
copy_pending(RoseMemBatch *batch, int i)
{
	RoseMemEntryRef entry;

	if (!batch->pending || batch->places[i] == 0)
		return;
	rose_memtable_get(batch->mem.c0, batch->rows.schema, batch->places[i], &entry);
	Assert(entry.version.seq == batch->seqs[i]);
	fill_row(batch, i, &entry);
	batch->places[i] = 0;
}

/* Room for the columns that are decoded while the batch is filled. */
static void
start_columns(RoseMemBatch *batch)
{
	for (int c = 0; c < batch->columns; c++)
	{
		RoseRowsColumn *column = &batch->rows.columns[c];

		if (column->values == NULL)
		{
			column->values = MemoryContextAlloc(batch->rows.context, ROSE_MEM_BATCH_ROWS *
												(sizeof(Datum) + sizeof(bool)));
			column->nulls = (bool *) (column->values + ROSE_MEM_BATCH_ROWS);
		}
		column->stamp = batch->rows.stamp;
	}
	if (batch->columns > 0 && batch->values == NULL)
	{
		int			natts = batch->rows.schema->natts;

		batch->values = MemoryContextAlloc(batch->rows.context, natts * (sizeof(Datum) + sizeof(bool)));
		batch->nulls = (bool *) (batch->values + natts);
	}
}

/* Decode the first columns of row i. */
static void
take_columns(RoseMemBatch *batch, int i, MinimalTuple tuple)
{
	const RoseTupleColumn *fixed = batch->rows.schema->tuple_columns;
	RoseRowsColumn *columns = batch->rows.columns;
	int			n = batch->columns;
	const char *data = (const char *) tuple - MINIMAL_TUPLE_OFFSET + tuple->t_hoff;

	if (unlikely((tuple->t_infomask & HEAP_HASNULL) != 0 || HeapTupleHeaderGetNatts(tuple) < n))
	{
		rose_tuple_deform(tuple, batch->rows.schema, n, batch->values, batch->nulls);
		for (int c = 0; c < n; c++)
		{
			columns[c].values[i] = batch->values[c];
			columns[c].nulls[i] = batch->nulls[c];
		}
		return;
	}
	for (int c = 0; c < n; c++)
	{
		columns[c].values[i] = fetch_att(data + fixed[c].offset, true, fixed[c].attlen);
		columns[c].nulls[i] = false;
	}
}

static void
copy_all_pending(RoseMemBatch *batch)
{
	for (int i = 0; i < batch->rows.nrows; i++)
		copy_pending(batch, i);
	batch->pending = false;
}

static void
add_entry(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	int			i = batch->rows.nrows;

	batch->prefixes[i] = entry->prefix;
	batch->seqs[i] = entry->version.seq;
	batch->min_seq = Min(batch->min_seq, entry->version.seq);
	batch->max_seq = Max(batch->max_seq, entry->version.seq);
	if (entry->version.op != ROSE_OP_PUT)
	{
		batch->only_puts = false;
		copy_all_pending(batch);
		batch->columns = 0;
		batch->rows.stamp++;	/* what was decoded does not count */
	}
	if (batch->columns > 0)
		take_columns(batch, i, entry->row);
	if (batch->pending)
		batch->places[i] = entry->ptr;
	else
	{
		fill_row(batch, i, entry);
		batch->places[i] = 0;
	}
	batch->rows.nrows++;
}

/*
 * The same when the memtable was freed.  The version is in another memtable or in a
 * component then, because a snapshot that sees it is in use.
 */
static void
find_pending(RoseMemBatch *batch, int i)
{
	RoseTree   *tree = batch->tree;
	int			natts = batch->rows.schema->natts;
	uint64		seq = batch->seqs[i];
	RoseMemEntryRef entry;
	MinimalTuple formed = NULL;
	const RoseRow *row;
	ItemPointerData tid;

	if (batch->places[i] == 0)
		return;
	rose_tid_assign(tree, NULL, 0, seq, &tid);
	row = rose_lookup_fetch_tid(rose_lookup_cached(tree), &tid, SnapshotAny);
	if (row == NULL)
		elog(ERROR, "version " UINT64_FORMAT " of table \"%s\" is gone",
			 seq, RelationGetRelationName(tree->rel));
	if (row->tuple == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(batch->more);
		Datum	   *values = palloc(natts * sizeof(Datum));
		bool	   *nulls = palloc(natts * sizeof(bool));

		rose_row_deform(row, batch->rows.schema, 1, natts, values, nulls);
		formed = rose_form_minimal_tuple(batch->rows.schema->tupdesc, values, nulls);
		pfree(values);
		pfree(nulls);
		MemoryContextSwitchTo(old);
	}
	entry.version = row->version;
	entry.row = formed != NULL ? formed : row->tuple;
	fill_row(batch, i, &entry);
	batch->places[i] = 0;
	if (formed != NULL)
		pfree(formed);
}

void
rose_mem_batch_fetch(RoseMemBatch *batch)
{
	RoseC0Shared *c0 = batch->mem.c0;
	bool		alive;

	if (!batch->pending)
		return;
	rose_c0_read_begin(c0);
	alive = rose_mem_cursor_alive(&batch->mem);
	if (alive)
		copy_all_pending(batch);
	rose_c0_read_end(c0);
	for (int i = 0; !alive && i < batch->rows.nrows; i++)
		find_pending(batch, i);
	batch->pending = false;
}

/*
 * Does an entry say nothing, because the batch's last row is a newer version of
 * the same key, complete and seen by the snapshot, too?
 */
static bool
entry_is_old(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	const RoseSchema *schema = batch->rows.schema;
	int			last = batch->rows.nrows - 1;
	Datum		key[INDEX_MAX_KEYS];

	if (last < 0 || batch->prefixes[last] != entry->prefix)
		return false;
	copy_pending(batch, last);
	if (batch->refs[last].version.op == ROSE_OP_PARTIAL)
		return false;
	rose_key_from_tuple(schema, entry->row, entry->version.rowid, key);
	return rose_key_compare(schema, rose_mem_batch_row(batch, last)->key, key,
							rose_schema_key_width(schema)) == 0;
}

/*
 * Add what is wanted of n entries.  Returns how many were looked at: fewer if there is no
 * more room, or if the last row has so many old versions that it is better to skip them
 * (*skip).
 */
static int
add_entries(RoseMemBatch *batch, RoseVisibility *vis, const RoseMemEntryRef *entries, int n,
			bool filter, bool newest_only, int *nold, bool *skip)
{
	int			i;

	for (i = 0; i < n && batch->used + batch->more_bytes < BYTES_MAX; i++)
	{
		const RoseMemEntryRef *entry = &entries[i];

		if (entry->version.op == ROSE_OP_LOCK ||
			(filter && !rose_entry_visible_again(vis, entry) && !rose_entry_visible(vis, entry)))
			continue;
		if (!newest_only || !entry_is_old(batch, entry))
		{
			add_entry(batch, entry);
			*nold = 0;
		}
		else if (++*nold == OLD_VERSIONS_MAX)
		{
			*skip = true;
			return i + 1;
		}
	}
	return i;
}

/* The next entries, as many as will do; the cursor goes behind them. */
static int
take_entries(RoseMemCursor *cursor, bool forward, int row_bytes, RoseMemEntryRef *entries, int n)
{
	if (forward)
		return rose_mem_cursor_take(cursor, entries, Min(n, TAKE_MAX), row_bytes);
	rose_mem_cursor_get(cursor, entries);
	(void) rose_mem_cursor_prev(cursor);
	return 1;
}

/* How much of a row will be looked at?  Whole ones are taken to be as long as those before. */
static int
bytes_of_columns(const RoseMemBatch *batch, int columns)
{
	const RoseSchema *schema = batch->rows.schema;

	if (columns == ROSE_MEM_BATCH_ALL)
		return batch->longest_before > 0 ? Min(batch->longest_before, BLCKSZ) : BLCKSZ;
	if (columns == 0)
		return 0;
	return MAXALIGN(SizeofMinimalTupleHeader) + schema->tuple_columns[columns - 1].offset +
		schema->tuple_columns[columns - 1].attlen;
}

void
rose_mem_batch_fill(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
					bool forward, bool filter, int columns, bool on_entry)
{
	int			row_bytes = bytes_of_columns(batch, columns);
	RoseMemEntryRef entries[TAKE_MAX];
	bool		full = !on_entry;
	int			visits = 0;
	int			nold = 0;

	batch->pending = columns != ROSE_MEM_BATCH_ALL;
	batch->columns = Max(columns, 0);
	start_columns(batch);
	batch->mem = *cursor;
	if (forward && on_entry && batch->limit >= LIMIT_OF_WALK)
		rose_mem_cursor_walk(cursor);
	while (!full && cursor->current != 0 && batch->rows.nrows < batch->limit && visits < VISIT_MAX)
	{
		bool		skip = false;
		int			n = take_entries(cursor, forward, row_bytes, entries, batch->limit - batch->rows.nrows);
		int			done = add_entries(batch, vis, entries, n, filter, filter && forward,
									   &nold, &skip);

		visits += n;
		if (skip)
		{
			/* a row that is updated again and again: on to the next key */
			copy_pending(batch, batch->rows.nrows - 1);
			(void) rose_mem_cursor_seek(cursor, rose_mem_batch_row(batch, batch->rows.nrows - 1)->key,
										rose_schema_key_width(batch->rows.schema), 0);
			nold = 0;
		}
		else if (done < n)
		{
			rose_mem_cursor_return_to(cursor, &entries[done]);
			full = true;
		}
	}
	if (batch->rows.nrows > 0)
	{
		copy_pending(batch, 0);
		copy_pending(batch, batch->rows.nrows - 1);
	}
	batch->rows.window_rows = batch->rows.nrows;
	batch->at_end = !on_entry || cursor->current == 0;
	batch->limit = Min(batch->limit * 2, ROSE_MEM_BATCH_ROWS);
}

/* ---- searching ---- */

static bool
row_precedes(RoseMemBatch *batch, int i, const Datum *key, int ncols, const uint64 *prefix,
			 bool after)
{
	int			cmp;

	if (prefix != NULL && batch->prefixes[i] != *prefix)
		return batch->prefixes[i] < *prefix;
	cmp = rose_key_compare(batch->rows.schema, rose_mem_batch_row(batch, i)->key, key, ncols);
	return cmp < 0 || (after && cmp == 0);
}

/* First in steps that double, then by halves. */
int
rose_mem_batch_find(RoseMemBatch *batch, int i, const Datum *key, int ncols,
					const uint64 *prefix, bool after)
{
	int			lo = i;
	int			hi;
	int			step = 1;

	while (lo + step < batch->rows.nrows && row_precedes(batch, lo + step - 1, key, ncols, prefix, after))
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, batch->rows.nrows);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (row_precedes(batch, mid, key, ncols, prefix, after))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ---- batches as rows ---- */

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
	const RoseRow *row = &batch->refs[slot];

	if (key_of_columns(batch, slot, key))
		return;
	if (batch->key_columns == 0 || (batch->pending && batch->places[slot] != 0))
		rose_mem_batch_need(batch, slot);
	rose_key_from_tuple(rows->schema, row->tuple, row->version.rowid, key);
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
	rose_tuple_deform(batch->refs[slot].tuple, rows->schema, to, values, nulls);
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

static int
batch_find(RoseRows *rows, int slot, const Datum *key, int ncols, const uint64 *prefix, bool after)
{
	return rose_mem_batch_find((RoseMemBatch *) rows, slot, key, ncols, prefix, after);
}

static const RoseRowsOps batch_rows_ops = {
	.key = batch_key,
	.version = batch_version,
	.attr = batch_attr,
	.attrs = batch_attrs,
	.column = batch_column,
	.find = batch_find
};
