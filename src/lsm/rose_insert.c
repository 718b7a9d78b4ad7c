/*-------------------------------------------------------------------------
 *
 * rose_insert.c
 *	  Inserts with uniqueness, of one row and of many.
 *
 * An insert holds its key's partition lock from the look for an existing row to
 * the link of the new one.  Many rows take all the partitions of their keys, in
 * ascending order, look for all keys, then link and log what is free in one go.
 *
 * Never waits for a transaction while it holds a partition lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_write_internal.h"

#include "access/xact.h"
#include "lsm/rose_tid.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#define INSERT_BATCH 256		/* rows linked under one write_lock */

/*
 * Look for a live row with the key under its partition lock, waiting for
 * transactions that hold it.  On FREE the partition stays locked.
 */
static RoseInsertResult
lock_free_key(RoseTable *table, const Datum *key, int partition, bool speculative)
{
	for (;;)
	{
		TransactionId xwait = InvalidTransactionId;
		RoseKeyState state;

		rose_write_lock_partition(partition);
		state = rose_write_key_state(table, key, &xwait);
		if (state == ROSE_KEY_FREE)
			return ROSE_INSERT_OK;
		rose_write_unlock_partition(partition);
		if (speculative)
			return ROSE_INSERT_CONFLICT;
		if (state == ROSE_KEY_LIVE)
			return ROSE_INSERT_DUPLICATE;
		XactLockTableWait(xwait, table->rel, NULL, XLTW_None);
	}
}

/* ---- insert ---- */

RoseInsertResult
rose_insert(RoseTable *table, const Datum *values, const bool *nulls, CommandId cid,
			bool speculative, ItemPointer tid)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose insert",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	RoseNewVersion new;
	bool		unique = table->schema->nkeys > 0;
	int			partition = 0;
	RoseInsertResult result = ROSE_INSERT_OK;

	rose_write_stamp(&new.version, ROSE_OP_PUT, cid);
	new.row = rose_write_form_row(table, values, nulls, new.key);
	if (unique)
		partition = rose_write_partition(table, new.key);

	for (;;)
	{
		bool		written;

		if (unique)
		{
			result = lock_free_key(table, new.key, partition, speculative);
			if (result != ROSE_INSERT_OK)
				break;
		}
		written = rose_write_versions(table, &new, 1, true);
		if (unique)
			rose_write_unlock_partition(partition);
		if (written)
		{
			rose_tid_assign(table, NULL, 0, new.version.seq, tid);
			break;
		}
		rose_write_make_room(table);
	}

	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	rose_pace_writes(table, 1);
	return result;
}

void
rose_insert_abort_speculative(RoseTable *table, ItemPointer tid)
{
	TM_FailureData tmfd;
	TM_Result	result;

	result = rose_delete(table, tid, GetCurrentCommandId(true) + 1, InvalidSnapshot, false,
						 false, &tmfd);
	if (result != TM_Ok)
		elog(ERROR, "could not take back a speculative insertion: result %d", (int) result);
}

/* ---- insert many ---- */

typedef struct InsertOrder
{
	RoseTable  *table;
	RoseNewVersion *versions;
} InsertOrder;

static int
insert_order_compare(const void *a, const void *b, void *arg)
{
	const InsertOrder *order = arg;
	const RoseSchema *schema = order->table->schema;
	int			i = *(const int *) a;
	int			j = *(const int *) b;
	int			cmp = rose_key_compare(schema, order->versions[i].key,
									   order->versions[j].key, schema->nkeys);

	return cmp != 0 ? cmp : i - j;
}

/* Is each key larger than the one before? */
static bool
keys_ascend(RoseTable *table, RoseNewVersion *versions, int n)
{
	for (int i = 1; i < n; i++)
		if (rose_key_compare(table->schema, versions[i - 1].key, versions[i].key,
							 table->schema->nkeys) >= 0)
			return false;
	return true;
}

/* Rows before the first one whose key an earlier row of the batch has. */
static int
rows_before_duplicate(RoseTable *table, RoseNewVersion *versions, int n)
{
	InsertOrder order = {table, versions};
	int		   *index = palloc(n * sizeof(int));
	int			result = n;

	for (int i = 0; i < n; i++)
		index[i] = i;
	qsort_arg(index, n, sizeof(int), insert_order_compare, &order);
	for (int i = 1; i < n; i++)
		if (rose_key_compare(table->schema, versions[index[i - 1]].key,
							 versions[index[i]].key, table->schema->nkeys) == 0)
			result = Min(result, index[i]);
	pfree(index);
	return result;
}

static void
lock_partitions(RoseTable *table, RoseNewVersion *versions, int n, bool *locked)
{
	memset(locked, false, ROSE_WRITE_PARTITIONS * sizeof(bool));
	for (int i = 0; i < n; i++)
		locked[rose_write_partition(table, versions[i].key)] = true;
	for (int i = 0; i < ROSE_WRITE_PARTITIONS; i++)
		if (locked[i])
			rose_write_lock_partition(i);
}

static void
unlock_partitions(const bool *locked)
{
	for (int i = ROSE_WRITE_PARTITIONS - 1; i >= 0; i--)
		if (locked[i])
			rose_write_unlock_partition(i);
}

/* Rows in random order: wait for memory once for many of them. */
static void
warm_c0(RoseTable *table, RoseNewVersion *versions, int n)
{
	RoseC0Shared *c0 = &table->shared->c0;
	const Datum *keys[INSERT_BATCH];

	for (int i = 0; i < n; i++)
		keys[i] = versions[i].key;
	LWLockAcquire(&c0->reclaim_lock, LW_SHARED);
	rose_c0_warm(c0, table->schema, keys, n);
	LWLockRelease(&c0->reclaim_lock);
}

/*
 * Insert a batch whose keys differ.  Returns how many went in, in order; *state and
 * *xwait tell what stopped the next one (FREE: no room in C0).
 */
static int
insert_batch(RoseTable *table, RoseNewVersion *versions, int n, RoseKeyState *state,
			 TransactionId *xwait)
{
	bool		locked[ROSE_WRITE_PARTITIONS];
	int			free_keys = n;
	int			done;

	*state = ROSE_KEY_FREE;
	if (table->schema->nkeys == 0)
		return rose_write_some_versions(table, versions, n);

	lock_partitions(table, versions, n, locked);
	for (free_keys = 0; free_keys < n; free_keys++)
	{
		*state = rose_write_key_state(table, versions[free_keys].key, xwait);
		if (*state != ROSE_KEY_FREE)
			break;
	}
	done = free_keys > 0 ? rose_write_some_versions(table, versions, free_keys) : 0;
	unlock_partitions(locked);
	if (done < free_keys)
		*state = ROSE_KEY_FREE;
	return done;
}

/* Insert a batch; *ndone rows went in, all of them unless a key is a duplicate. */
static RoseInsertResult
insert_all(RoseTable *table, RoseNewVersion *versions, int n, ItemPointer tids, int *ndone)
{
	bool		in_order = table->schema->nkeys == 0 || keys_ascend(table, versions, n);
	int			distinct = in_order ? n : rows_before_duplicate(table, versions, n);

	if (!in_order)
		warm_c0(table, versions, distinct);
	*ndone = 0;
	while (*ndone < distinct)
	{
		TransactionId xwait = InvalidTransactionId;
		RoseKeyState state;
		int			done = insert_batch(table, versions + *ndone, distinct - *ndone, &state,
										&xwait);

		for (int i = *ndone; i < *ndone + done; i++)
			rose_tid_assign(table, NULL, 0, versions[i].version.seq, &tids[i]);
		*ndone += done;
		rose_pace_writes(table, done);
		if (*ndone == distinct)
			break;
		if (state == ROSE_KEY_LIVE)
			return ROSE_INSERT_DUPLICATE;
		if (state == ROSE_KEY_BUSY)
			XactLockTableWait(xwait, table->rel, NULL, XLTW_None);
		else
			rose_write_make_room(table);
	}
	return distinct == n ? ROSE_INSERT_OK : ROSE_INSERT_DUPLICATE;
}

/*
 * Memory to insert a batch with, kept from call to call: a COPY would else get and give
 * back a few hundred kB for every thousand rows.  Lives in TopTransactionContext.
 */
typedef struct InsertMemory
{
	LocalTransactionId lxid;
	MemoryContext rows;			/* reset for each batch */
	RoseNewVersion *versions;	/* INSERT_BATCH */
} InsertMemory;

static InsertMemory idle_memory;	/* lxid 0: none, or in use */

static InsertMemory
take_memory(void)
{
	InsertMemory memory = idle_memory;

	idle_memory.lxid = InvalidLocalTransactionId;
	if (memory.lxid != rose_my_lxid())
	{
		memory.lxid = rose_my_lxid();
		memory.rows = AllocSetContextCreate(TopTransactionContext, "rose insert",
											0, 64 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
		memory.versions = MemoryContextAlloc(TopTransactionContext,
											 INSERT_BATCH * sizeof(RoseNewVersion));
	}
	return memory;
}

RoseInsertResult
rose_insert_many(RoseTable *table, Datum **values, bool **nulls, int nrows,
				 CommandId cid, ItemPointer tids, int *ndone)
{
	InsertMemory memory = take_memory();
	MemoryContext old = MemoryContextSwitchTo(memory.rows);
	RoseInsertResult result = ROSE_INSERT_OK;
	RoseVersion stamp;

	*ndone = 0;
	rose_write_stamp(&stamp, ROSE_OP_PUT, cid);
	while (*ndone < nrows && result == ROSE_INSERT_OK)
	{
		int			batch = Min(nrows - *ndone, INSERT_BATCH);
		int			done;

		for (int i = 0; i < batch; i++)
		{
			memory.versions[i].version = stamp;
			memory.versions[i].row = rose_write_form_row(table, values[*ndone + i],
														 nulls[*ndone + i],
														 memory.versions[i].key);
		}
		result = insert_all(table, memory.versions, batch, tids + *ndone, &done);
		*ndone += done;
		MemoryContextReset(memory.rows);
	}
	MemoryContextSwitchTo(old);
	idle_memory = memory;
	return result;
}
