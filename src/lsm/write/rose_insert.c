/*-------------------------------------------------------------------------
 *
 * rose_insert.c
 *	  Inserts with uniqueness, of one row and of many.
 *
 * An insert looks for its key and links the new row if nobody has written the key since
 * (rose_c0_look).  One row is inserted with its key's partition lock held, so that it
 * rarely has to look again.  Many rows take no lock: they look for all keys together
 * (rose_key_screen.h) and again, one by one, for those that may be there, then link and
 * log what is free in one go, up to a key that somebody else has written meanwhile.
 *
 * Where a table has unique indexes beside that of its key, each row is inserted by itself,
 * with the partition locks of its key and of its values in them (rose_unique_values.h).
 *
 * Never waits for a transaction while it holds a partition lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/read/rose_key_screen.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_insert.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_modify.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_unique.h"
#include "lsm/write/rose_write.h"
#include "lsm/write/rose_write_let_go.h"

#define INSERT_BATCH ROSE_SCREEN_MAX	/* rows linked in one writing section */

/*
 * Look for a live row with the key under its partition lock, waiting for transactions
 * that hold it.  On FREE the partition stays locked, and *look is when that was so.
 */
static RoseInsertResult
lock_free_key(RoseTree *tree, const Datum *key, int partition, bool speculative,
			  RoseC0Look *look)
{
	for (;;)
	{
		TransactionId xwait = InvalidTransactionId;
		RoseKeyState state;

		rose_partition_lock(partition);
		rose_write_look(tree, look);
		state = rose_unique_key_state(tree, key, &xwait);
		if (state == ROSE_KEY_FREE)
			return ROSE_INSERT_OK;
		rose_partition_unlock(partition);
		if (speculative)
			return ROSE_INSERT_CONFLICT;
		if (state == ROSE_KEY_LIVE)
			return ROSE_INSERT_DUPLICATE;
		rose_unique_wait(tree, xwait);
	}
}

/* ---- insert ---- */

/* A row on its way in. */
typedef struct InsertRow
{
	RoseTree   *tree;
	RoseEntries entries;
	RoseUniqueValues *values;	/* of unique ones, and the key; NULL: it has none of these */
	RoseNewVersion *new;
	bool		keyed;			/* the table has a key ... */
	int			partition;		/* ... and this is its partition */
	bool		speculative;
	bool		written;		/* to the table */
	RoseDuplicate *duplicate;
	MemoryContext answer;		/* where that is to be described */
} InsertRow;

/* What the row is to be the only one of. */
static void
plan_row(InsertRow *row)
{
	row->keyed = row->tree->schema->nkeys > 0;
	if (row->keyed)
		row->partition = rose_partition_of_key(row->tree, row->new->key);
	row->values = row->entries.writer != NULL ?
		rose_entries_values(row->entries.writer, row->new) : NULL;
	if (likely(row->values == NULL))
		return;
	if (row->keyed)
		rose_unique_values_add_key(row->values, row->new->key);
	rose_unique_values_settle(row->values);
}

/* Another row is in the way. */
static RoseInsertResult
refuse_row(InsertRow *row, const RoseUniqueValue *taken)
{
	if (row->speculative)
		row->duplicate->indexid = taken->index != NULL ? taken->indexid : InvalidOid;
	else
		rose_unique_value_describe(taken, row->answer, row->duplicate);
	return row->speculative ? ROSE_INSERT_CONFLICT : ROSE_INSERT_DUPLICATE;
}

/* As lock_free_key, for all values that are to be free. */
static RoseInsertResult
lock_free_values(InsertRow *row, RoseC0Look *look)
{
	for (;;)
	{
		TransactionId xwait = InvalidTransactionId;
		RoseUniqueValue *taken;
		RoseKeyState state;

		rose_unique_values_lock(row->values);
		rose_write_look(row->tree, look);
		state = rose_unique_values_look(row->values, &taken, &xwait);
		if (state == ROSE_KEY_FREE)
			return ROSE_INSERT_OK;
		rose_unique_values_unlock(row->values);
		if (rose_unique_value_is_over(taken))
			continue;
		if (row->speculative || state == ROSE_KEY_LIVE)
			return refuse_row(row, taken);
		rose_unique_wait(taken->tree, xwait);
	}
}

static RoseInsertResult
lock_row(InsertRow *row, RoseC0Look *look)
{
	if (unlikely(row->values != NULL))
		return lock_free_values(row, look);
	if (!row->keyed)
		return ROSE_INSERT_OK;
	return lock_free_key(row->tree, row->new->key, row->partition, row->speculative, look);
}

/* The row is written: its entries in unique indexes.  Unlocks. */
static RoseInsertResult
write_unique(InsertRow *row)
{
	RoseUniqueValue *taken;

	ROSE_STOP_POINT("insert-row-written");	/* under the partition locks */
	if (rose_entries_write_unique(row->entries.writer, row->values, row->new, 1, !row->speculative,
								  &taken) != ROSE_KEY_FREE)
		return refuse_row(row, taken);
	rose_unique_values_unlock(row->values);
	return ROSE_INSERT_OK;
}

/* Until the row is in the table, and in its unique indexes, or may not be. */
static RoseInsertResult
write_row(InsertRow *row)
{
	for (;;)
	{
		RoseInsertResult result;
		RoseC0Look	look;
		RoseMemPrepared written;

		CHECK_FOR_INTERRUPTS();
		if (!rose_entries_are_current(row->tree, &row->entries))
		{
			rose_entries_reopen(row->tree, &row->entries);
			plan_row(row);
		}
		result = lock_row(row, &look);
		if (result != ROSE_INSERT_OK)
			return result;
		ROSE_STOP_POINT("insert-row-looked");	/* under the partition locks */
		written = rose_write_versions(row->tree, row->new, 1, row->keyed ? &look : NULL,
									  row->entries.generation, true);
		row->written = written == ROSE_MEM_PREPARED;
		if (unlikely(row->values != NULL))
		{
			if (row->written)
				return write_unique(row);
			rose_unique_values_unlock(row->values);
		}
		else if (row->keyed)
			rose_partition_unlock(row->partition);
		if (row->written)
			return ROSE_INSERT_OK;
		if (written == ROSE_MEM_NO_ROOM)
			rose_make_room(row->tree);
	}
}

/* A row is in: its name, and what has to be checked later. */
static void
name_row(const InsertRow *row, ItemPointer tid)
{
	rose_tid_assign(row->tree, NULL, 0, row->new->version.seq, tid);
	if (unlikely(row->values != NULL))
		(void) rose_unique_values_note_duplicates(row->values, tid);
}

RoseInsertResult
rose_insert(RoseTree *tree, const Datum *values, const bool *nulls, CommandId cid,
			bool speculative, ItemPointer tid, RoseDuplicate *duplicate)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose insert",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	RoseNewVersion new;
	InsertRow	row = {.tree = tree, .new = &new, .speculative = speculative,
	.duplicate = duplicate, .answer = old};
	RoseInsertResult result;

	rose_write_let_go(tree);
	rose_entries_open(tree, &row.entries);
	duplicate->indexid = InvalidOid;
	duplicate->description = NULL;
	rose_new_version_stamp(&new.version, ROSE_OP_PUT, cid);
	new.row = rose_new_version_form_row(tree, values, nulls, new.key);
	plan_row(&row);

	result = write_row(&row);
	if (row.written)
		name_row(&row, tid);
	if (unlikely(row.entries.writer != NULL))
		rose_entries_finish(row.entries.writer, &new, result == ROSE_INSERT_OK ? 1 : 0);
	else
		rose_pace_writes(tree, 1);
	if (result == ROSE_INSERT_OK)
		rose_predicate_written(tree, new.key);
	else if (unlikely(row.written && result == ROSE_INSERT_CONFLICT))
		rose_insert_abort_speculative(tree, tid, cid);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}

void
rose_insert_abort_speculative(RoseTree *tree, ItemPointer tid, CommandId cid)
{
	TM_FailureData tmfd;
	RoseChange	change = {*tid, cid, InvalidSnapshot, false, &tmfd};
	TM_Result	result = rose_delete(tree, &change, false);

	if (result != TM_Ok)
		elog(ERROR, "could not take back a speculative insertion: result %d", (int) result);
}

/* ---- insert many ---- */

/* Rows on their way in, and what is known of their keys. */
typedef struct InsertBatch
{
	int			n;
	bool		ascending;		/* each key is larger than the one before */
	RoseNewVersion versions[INSERT_BATCH];
	const Datum *keys[INSERT_BATCH];
	uint64		prefixes[INSERT_BATCH];
	uint64		hashes[INSERT_BATCH];
	bool		maybe[INSERT_BATCH];	/* see rose_key_screen */
	RoseMemSpot hints[INSERT_BATCH];
} InsertBatch;

typedef struct InsertOrder
{
	const RoseSchema *schema;
	bool		exact;			/* equal prefixes mean equal keys */
	const InsertBatch *batch;
} InsertOrder;

static inline int
compare_keys(const InsertOrder *order, int i, int j)
{
	const InsertBatch *batch = order->batch;

	if (batch->prefixes[i] != batch->prefixes[j])
		return batch->prefixes[i] < batch->prefixes[j] ? -1 : 1;
	if (order->exact)
		return 0;
	return rose_key_compare(order->schema, batch->keys[i], batch->keys[j],
							order->schema->nkeys);
}

static int
insert_order_compare(const void *a, const void *b, void *arg)
{
	int			i = *(const int *) a;
	int			j = *(const int *) b;
	int			cmp = compare_keys(arg, i, j);

	return cmp != 0 ? cmp : i - j;
}

/* Is each key larger than the one before? */
static bool
keys_ascend(const InsertOrder *order)
{
	for (int i = 1; i < order->batch->n; i++)
		if (compare_keys(order, i - 1, i) >= 0)
			return false;
	return true;
}

/* Rows before the first one whose key an earlier row of the batch has. */
static int
rows_before_duplicate(InsertOrder *order)
{
	int			n = order->batch->n;
	int			index[INSERT_BATCH];
	int			result = n;

	for (int i = 0; i < n; i++)
		index[i] = i;
	qsort_arg(index, n, sizeof(int), insert_order_compare, order);
	for (int i = 1; i < n; i++)
		if (compare_keys(order, index[i - 1], index[i]) == 0)
			result = Min(result, index[i]);
	return result;
}

/* Find out about the keys.  Returns how many rows there are before a duplicate. */
static int
look_at_keys(RoseTree *tree, InsertBatch *batch)
{
	InsertOrder order = {tree->schema, rose_key_prefix_exact(tree->schema), batch};

	for (int i = 0; i < batch->n; i++)
	{
		batch->keys[i] = batch->versions[i].key;
		batch->prefixes[i] = rose_key_prefix(tree->schema, batch->keys[i]);
		batch->hashes[i] = rose_key_hash(tree->schema, batch->keys[i]);
	}
	batch->ascending = keys_ascend(&order);
	return batch->ascending ? batch->n : rows_before_duplicate(&order);
}

/*
 * Rows from 'first' to before 'end' whose keys are free; *state and *xwait tell of the
 * next one.
 */
static int
count_free_keys(RoseTree *tree, InsertBatch *batch, int first, int end,
				RoseKeyState *state, TransactionId *xwait)
{
	bool	   *maybe = batch->maybe;

	*state = ROSE_KEY_FREE;
	rose_key_screen(tree, batch->keys + first, batch->prefixes + first,
					batch->hashes + first, end - first, batch->ascending, maybe,
					NULL, batch->hints + first);
	for (int i = 0; i < end - first; i++)
	{
		if (!maybe[i])
			continue;
		*state = rose_unique_key_state(tree, batch->keys[first + i], xwait);
		if (*state != ROSE_KEY_FREE)
			return i;
	}
	return end - first;
}

/* What stopped the next row: its key, if that is not free, or else writing it. */
typedef struct InsertObstacle
{
	RoseKeyState state;
	TransactionId xwait;		/* BUSY */
	RoseMemPrepared written;
} InsertObstacle;

/* Insert rows whose keys differ.  Returns how many went in, in order. */
static int
insert_rows(RoseTree *tree, const RoseEntries *entries, InsertBatch *batch, int first, int end,
			InsertObstacle *obstacle)
{
	RoseNewVersion *versions = batch->versions + first;
	RoseC0Look	look;
	int			free_keys;
	int			done = 0;

	obstacle->state = ROSE_KEY_FREE;
	obstacle->written = ROSE_MEM_PREPARED;
	if (tree->schema->nkeys == 0)
		return rose_write_some_versions(tree, versions, NULL, end - first, NULL,
										entries->generation, &obstacle->written);

	rose_partition_require_hash(tree);
	rose_write_look(tree, &look);
	free_keys = count_free_keys(tree, batch, first, end, &obstacle->state, &obstacle->xwait);
	ROSE_STOP_POINT("insert-looked");	/* no lock */
	if (free_keys > 0)
		done = rose_write_some_versions(tree, versions, batch->hints + first, free_keys,
										&look, entries->generation, &obstacle->written);
	else
		rose_direct_end();		/* nobody waits with what that has locked */
	if (done < free_keys)
		obstacle->state = ROSE_KEY_FREE;
	return done;
}

/* Rows 'first' to before 'end' of a batch are in the table. */
static void
finish_rows(RoseTree *tree, const RoseEntries *entries, const InsertBatch *batch, int first, int end,
			ItemPointer tids)
{
	for (int i = first; i < end; i++)
	{
		rose_tid_assign(tree, NULL, 0, batch->versions[i].version.seq, &tids[i]);
		rose_predicate_written(tree, batch->versions[i].key);
	}
	if (likely(entries->writer == NULL))
		rose_pace_writes(tree, end - first);
	else
		rose_entries_write(entries->writer, batch->versions + first, end - first);
}

static bool
have_unique(const RoseEntries *entries)
{
	return unlikely(entries->writer != NULL && rose_entries_have_unique(entries->writer));
}

/*
 * Insert a batch; *ndone rows went in, all of them unless a key is a duplicate, or there is a
 * unique index since.
 */
static RoseInsertResult
insert_all(RoseTree *tree, RoseEntries *entries, InsertBatch *batch, ItemPointer tids,
		   int *ndone)
{
	int			distinct = tree->schema->nkeys == 0 ? batch->n : look_at_keys(tree, batch);

	*ndone = 0;
	while (*ndone < distinct)
	{
		InsertObstacle obstacle;
		int			done;

		rose_write_let_go(tree);
		if (!rose_entries_are_current(tree, entries))
			rose_entries_reopen(tree, entries);
		if (have_unique(entries))
			return ROSE_INSERT_OK;
		done = insert_rows(tree, entries, batch, *ndone, distinct, &obstacle);
		finish_rows(tree, entries, batch, *ndone, *ndone + done, tids);
		*ndone += done;
		if (*ndone == distinct)
			break;
		if (obstacle.state == ROSE_KEY_LIVE)
			return ROSE_INSERT_DUPLICATE;
		if (obstacle.state == ROSE_KEY_BUSY)
			rose_unique_wait(tree, obstacle.xwait);
		else if (obstacle.written == ROSE_MEM_NO_ROOM)
			rose_make_room(tree);
		CHECK_FOR_INTERRUPTS();
	}
	return distinct == batch->n ? ROSE_INSERT_OK : ROSE_INSERT_DUPLICATE;
}

/*
 * The same with unique indexes, row by row: what is locked with a row are few locks, and
 * who waits for another one does so with what is before it in the indexes.
 */
static RoseInsertResult
insert_each(RoseTree *tree, RoseEntries *entries, InsertBatch *batch, ItemPointer tids,
			int *ndone, RoseDuplicate *duplicate)
{
	InsertRow	row = {.tree = tree, .entries = *entries, .duplicate = duplicate};

	row.answer = MemoryContextGetParent(CurrentMemoryContext);
	for (*ndone = 0; *ndone < batch->n; (*ndone)++)
	{
		RoseInsertResult result;

		row.new = &batch->versions[*ndone];
		plan_row(&row);
		result = write_row(&row);
		*entries = row.entries;
		if (result != ROSE_INSERT_OK)
			return result;
		name_row(&row, &tids[*ndone]);
		rose_entries_write(entries->writer, row.new, 1);
		rose_predicate_written(tree, row.new->key);
	}
	return ROSE_INSERT_OK;
}

/*
 * Memory to insert a batch with, kept from call to call: a COPY would else get and give
 * back a few hundred kB for every thousand rows.  Lives in TopTransactionContext.  An
 * insertion that is begun while another one is under way (a comparison may run any
 * function) has its own.
 */
typedef struct InsertMemory
{
	MemoryContext context;
	MemoryContext rows;			/* reset for each batch */
	InsertBatch *batch;
} InsertMemory;

static InsertMemory kept_memory;
static LocalTransactionId kept_lxid;	/* of its transaction; 0: there is none */
static int	kept_level;			/* nesting level of the transaction that uses it, 0: nobody does */

static InsertMemory
make_memory(void)
{
	InsertMemory memory;

	memory.context = AllocSetContextCreate(TopTransactionContext, "rose insert",
										   ALLOCSET_SMALL_SIZES);
	memory.rows = AllocSetContextCreate(memory.context, "rose insert rows",
										0, 64 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	memory.batch = MemoryContextAlloc(memory.context, sizeof(InsertBatch));
	return memory;
}

static InsertMemory
take_memory(void)
{
	if (kept_lxid != rose_my_lxid())
	{
		kept_memory = make_memory();
		kept_lxid = rose_my_lxid();
		kept_level = 0;
	}
	if (kept_level != 0)
		return make_memory();
	kept_level = GetCurrentTransactionNestLevel();
	return kept_memory;
}

static void
give_back_memory(InsertMemory memory)
{
	if (memory.context == kept_memory.context)
		kept_level = 0;
	else
		MemoryContextDelete(memory.context);
}

/* An insertion of the subtransaction, or of one in it, that is under way has failed. */
void
rose_insert_abort_subtransaction(int level)
{
	if (kept_lxid != rose_my_lxid() || kept_level < level)
		return;
	MemoryContextReset(kept_memory.rows);
	kept_level = 0;
}

RoseInsertResult
rose_insert_many(RoseTree *tree, Datum **values, bool **nulls, int nrows,
				 CommandId cid, ItemPointer tids, int *ndone, RoseDuplicate *duplicate)
{
	InsertMemory memory = take_memory();
	InsertBatch *batch = memory.batch;
	RoseEntries entries;
	MemoryContext old;
	RoseInsertResult result = ROSE_INSERT_OK;
	RoseVersion stamp;

	rose_entries_open(tree, &entries);
	old = MemoryContextSwitchTo(memory.rows);
	*ndone = 0;
	duplicate->indexid = InvalidOid;
	duplicate->description = NULL;
	rose_new_version_stamp(&stamp, ROSE_OP_PUT, cid);
	while (*ndone < nrows && result == ROSE_INSERT_OK)
	{
		int			done;

		batch->n = Min(nrows - *ndone, INSERT_BATCH);
		for (int i = 0; i < batch->n; i++)
		{
			batch->versions[i].version = stamp;
			batch->versions[i].row = rose_new_version_form_row(tree, values[*ndone + i],
															   nulls[*ndone + i],
															   batch->versions[i].key);
		}
		if (have_unique(&entries))
			result = insert_each(tree, &entries, batch, tids + *ndone, &done, duplicate);
		else
			result = insert_all(tree, &entries, batch, tids + *ndone, &done);
		*ndone += done;
		MemoryContextReset(memory.rows);
	}
	if (entries.writer != NULL)
		rose_entries_close(entries.writer);
	MemoryContextSwitchTo(old);
	give_back_memory(memory);
	return result;
}
