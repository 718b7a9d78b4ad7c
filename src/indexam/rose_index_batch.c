/*-------------------------------------------------------------------------
 *
 * rose_index_batch.c
 *	  Entries of an index whose rows are looked up together.  See rose_index_batch.h.
 *
 * Batches are of 1, 2, 8, 32 ... entries, so that who wants one row pays for one, and who
 * stops somewhere has paid for four times as many at most.  Each asks every component anew, and finds the more rows in a leaf
 * the more it looks for, so they are to be few.  The first one is no batch: its entry
 * is given out as it comes, and its row looked up when it is fetched.  That is also what is
 * done for a while where most rows turn out to be in memory, since lookups of many leave these
 * to single ones (rose_lookup_many.c).
 *
 * Rows are looked up before they are fetched, with the scan's snapshot, which must be an
 * MVCC one: it sees the same row at any time.  Who wants to change or lock the row gets
 * its TID, and finds out then what has become of it, however long it was before that it was read.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/read/rose_lookup_cache.h"
#include "indexam/rose_index_batch.h"

/* Bytes of entries' keys, about, in a batch; of their columns alone, half of it at most. */
#define KEY_BYTES_MAX	(512 * 1024)

/* A batch is followed by one so many times as large. */
#define GROWTH			4

/* A batch of so many rows tells where rows are; and that for so many times as many. */
#define TELLING_ROWS	8
#define ROWS_TOLD_OF	16

void
rose_index_batch_init(RoseIndexBatch *batch, RoseTree *index, RoseTree *table,
					  MemoryContext context)
{
	memset(batch, 0, sizeof(*batch));
	batch->index = index;
	batch->table = table;
	batch->context = context;
	batch->width = rose_schema_key_width(index->schema);
	batch->size = 1;
}

void
rose_index_batch_free(RoseIndexBatch *batch)
{
	if (batch->many != NULL)
		rose_lookup_cache_give_many(batch->table, batch->many);
}

void
rose_index_batch_end(RoseIndexBatch *batch)
{
	if (batch->many != NULL)
		rose_lookup_many_end(batch->many);
	batch->looked_up = false;
}

void
rose_index_batch_drop(RoseIndexBatch *batch, int size)
{
	batch->n = batch->next = 0;
	batch->last = false;
	if (size > 0)
		batch->size = size;
}

/* ---- taken ---- */

bool
rose_index_batch_begin(RoseIndexBatch *batch, ScanDirection direction, bool may_be_single)
{
	rose_index_batch_drop(batch, 0);
	batch->max = batch->size;
	if (may_be_single && batch->singles > 0)
	{
		batch->singles--;
		return false;
	}
	if (may_be_single && batch->max == 1)
	{
		batch->size = 2;
		return false;
	}
	batch->direction = direction;
	batch->looked_up = false;
	return true;
}

/* Make room for the entries, the first of which has come: most ranges of lookups end without one. */
static void
make_room(RoseIndexBatch *batch)
{
	if (batch->many == NULL)
	{
		batch->many = rose_lookup_cache_take_many(batch->table, batch->context);
		batch->keys_context = AllocSetContextCreate(batch->context, "rose index batch",
													ALLOCSET_DEFAULT_SIZES);
	}
	batch->max = Min(batch->max, rose_lookup_many_max(batch->many));
	batch->max = Min(batch->max, KEY_BYTES_MAX / 2 / (batch->width * sizeof(Datum)));
	rose_lookup_many_want(batch->many, batch->wanted);
	batch->size = batch->max * GROWTH;
	MemoryContextReset(batch->keys_context);
	batch->keys = MemoryContextAlloc(batch->keys_context, batch->max * batch->width * sizeof(Datum));
	rose_lookup_many_begin(batch->many, batch->max);
}

void
rose_index_batch_add(RoseIndexBatch *batch, const Datum *key, const Datum *row_key)
{
	Assert(!rose_index_batch_is_full(batch));
	if (batch->n == 0)
		make_room(batch);
	rose_key_copy(batch->index->schema, batch->keys + batch->n * batch->width, key,
				  batch->keys_context);
	rose_lookup_many_add(batch->many, row_key);
	batch->n++;
}

bool
rose_index_batch_is_full(const RoseIndexBatch *batch)
{
	if (batch->n == 0)
		return false;			/* who finds none in it takes the range to have ended */
	return batch->n == batch->max ||
		MemoryContextMemAllocated(batch->keys_context, false) > KEY_BYTES_MAX;
}

void
rose_index_batch_look_up(RoseIndexBatch *batch, Snapshot snapshot)
{
	if (batch->n < 2)
		return;
	batch->looked_up = true;
	if (rose_lookup_many_run(batch->many, snapshot) >= batch->n / 2 || batch->n < TELLING_ROWS)
		return;
	batch->singles = batch->n * ROWS_TOLD_OF;
	batch->size = TELLING_ROWS;
}

/* ---- given out ---- */

const RoseRow *
rose_index_batch_next(RoseIndexBatch *batch)
{
	Assert(rose_index_batch_has_entry(batch));
	batch->entry.key = batch->keys + batch->next * batch->width;
	batch->next++;
	return &batch->entry;
}

const RoseRow *
rose_index_batch_row(RoseIndexBatch *batch, ItemPointer tid)
{
	return batch->looked_up ? rose_lookup_many_row(batch->many, batch->next - 1, tid) : NULL;
}

const Datum *
rose_index_batch_row_key(const RoseIndexBatch *batch)
{
	return rose_lookup_many_key(batch->many, batch->next - 1);
}
