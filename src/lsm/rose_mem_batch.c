/*-------------------------------------------------------------------------
 *
 * rose_mem_batch.c
 *	  Rows of a memtable, copied together under one hold of the C0's reclaim_lock.
 *
 * Tuples are copied behind each other into one piece of memory, which is used
 * again for the next batch and grows with what batches need.  Keys are taken from
 * them only when somebody asks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_mem_batch.h"

#include "utils/memutils.h"

#define ROWS_FIRST		8
#define BYTES_FIRST		1024
#define BYTES_MAX		(64 * 1024)
#define OLD_VERSIONS_MAX	8		/* passed one by one, before the rest is skipped */
#define VISIT_MAX		4096	/* entries looked at under one hold of the lock */

/* ---- life ---- */

RoseMemBatch *
rose_mem_batch_create(const RoseSchema *schema, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose memtable batch",
											  ALLOCSET_DEFAULT_SIZES);
	RoseMemBatch *batch = MemoryContextAllocZero(own, sizeof(RoseMemBatch));
	int			width = rose_schema_key_width(schema);

	batch->refcount = 1;
	batch->context = own;
	batch->schema = schema;
	batch->limit = ROWS_FIRST;
	batch->rows = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(RoseRow));
	batch->prefixes = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint64));
	batch->keys = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * width * sizeof(Datum));
	batch->capacity = BYTES_FIRST;
	batch->data = MemoryContextAlloc(own, batch->capacity);
	batch->more = AllocSetContextCreate(own, "rose memtable batch, large rows",
										ALLOCSET_SMALL_SIZES);
	return batch;
}

void
rose_mem_batch_hold(RoseMemBatch *batch)
{
	batch->refcount++;
}

void
rose_mem_batch_release(RoseMemBatch *batch)
{
	if (batch == NULL)
		return;
	Assert(batch->refcount > 0);
	if (--batch->refcount == 0)
		MemoryContextDelete(batch->context);
}

void
rose_mem_batch_abandon(RoseMemBatch *batch)
{
	if (batch != NULL && batch->refcount > 1)
		MemoryContextSetParent(batch->context, TopTransactionContext);
	rose_mem_batch_release(batch);
}

/* ---- filling ---- */

void
rose_mem_batch_start(RoseMemBatch *batch)
{
	Assert(batch->refcount == 1);
	if (batch->more_bytes > 0)
	{
		MemoryContextReset(batch->more);
		batch->more_bytes = 0;
		if (batch->capacity < BYTES_MAX)
		{
			pfree(batch->data);
			batch->capacity = Min(batch->capacity * 4, BYTES_MAX);
			batch->data = MemoryContextAlloc(batch->context, batch->capacity);
		}
	}
	batch->nrows = 0;
	batch->used = 0;
	batch->at_end = false;
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
add_entry(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	RoseRow    *row = &batch->rows[batch->nrows];

	row->version = entry->version;
	row->key = NULL;
	row->tuple = entry->row ? copy_bytes(batch, entry->row, entry->row->t_len) : NULL;
	row->leaf = NULL;
	row->slot = batch->nrows;
	row->component = 0;
	row->ordinal = 0;
	if (entry->version.present)
		row->version.present = copy_bytes(batch, entry->version.present,
										  ROSE_PRESENT_BYTES(batch->schema->natts));
	batch->min_seq = Min(batch->min_seq, entry->version.seq);
	batch->max_seq = Max(batch->max_seq, entry->version.seq);
	batch->prefixes[batch->nrows++] = entry->prefix;
}

/*
 * Does an entry say nothing, because the batch's last row is a newer version of
 * the same key, complete and seen by the snapshot, too?
 */
static bool
entry_is_old(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	const RoseSchema *schema = batch->schema;
	int			last = batch->nrows - 1;
	Datum		key[INDEX_MAX_KEYS];

	if (last < 0 || batch->prefixes[last] != entry->prefix ||
		batch->rows[last].version.op == ROSE_OP_PARTIAL)
		return false;
	rose_key_from_tuple(schema, entry->row, entry->version.rowid, key);
	return rose_key_compare(schema, rose_mem_batch_row(batch, last)->key, key,
							rose_schema_key_width(schema)) == 0;
}

void
rose_mem_batch_fill(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
					bool forward, bool filter, bool on_entry)
{
	bool		newest_only = filter && forward;
	int			visits = 0;
	int			nold = 0;

	while (on_entry && batch->nrows < batch->limit &&
		   batch->used + batch->more_bytes < BYTES_MAX && visits++ < VISIT_MAX)
	{
		RoseMemEntryRef entry;

		rose_mem_cursor_get(cursor, &entry);
		if (entry.version.op != ROSE_OP_LOCK &&
			(!filter || rose_entry_visible(vis, &entry)))
		{
			if (newest_only && entry_is_old(batch, &entry))
				nold++;
			else
			{
				add_entry(batch, &entry);
				nold = 0;
			}
		}
		if (nold == OLD_VERSIONS_MAX)
		{
			/* a row that is updated again and again: on to the next key */
			on_entry = rose_mem_cursor_seek(cursor, rose_mem_batch_row(batch, batch->nrows - 1)->key,
											rose_schema_key_width(batch->schema), 0);
			nold = 0;
			continue;
		}
		on_entry = forward ? rose_mem_cursor_next(cursor) : rose_mem_cursor_prev(cursor);
	}
	batch->at_end = !on_entry;
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
	cmp = rose_key_compare(batch->schema, rose_mem_batch_row(batch, i)->key, key, ncols);
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

	while (lo + step < batch->nrows && row_precedes(batch, lo + step - 1, key, ncols, prefix, after))
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, batch->nrows);
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
