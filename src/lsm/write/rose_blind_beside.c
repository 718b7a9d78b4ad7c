/*-------------------------------------------------------------------------
 *
 * rose_blind_beside.c
 *	  Blind writes beside others who write to the table.
 *
 * Of one key's versions that are not aborted, order of numbers is order of commits.  So a blind write
 * must not come above a version in progress of somebody else, nor above a row lock that it conflicts
 * with; and it repeats those that it does not conflict with.  Others wait for a batch's rows by themselves.
 *
 * As a rule there is nobody else, and then nothing is asked but the number of the newest transaction that has
 * written to the table: whoever writes or locks rows notes his before, in the same writing section of C0
 * (rose_write.c).  If that one and all before it have ended, it stays so until the blind writer's section ends.
 *
 * Else it is done as by any writer who changes a row (rose_modify.c): look at the key with its partition lock held,
 * write if nobody has written it since.  But what has ended is not looked at, so nothing is read but memory and
 * private runs.  Some rows are taken together.  If somebody holds one, what comes before it is written, and
 * all locks are let go of while his transaction is waited for.
 *
 * Locking: key-partition locks, several in ascending order; within them a writing section of C0.
 *
 * What this does not do: know how the apply worker waits (rose_blind_wait_hook).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"

#include "util/rose_stop_point.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/write/rose_blind_below.h"
#include "lsm/write/rose_blind_beside.h"
#include "lsm/write/rose_conflict.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_unique.h"
#include "lsm/write/rose_write.h"

/* Rows that are looked at and written together; as many LWLocks are held. */
#define BESIDE_ROWS		16

RoseBlindWaitHook rose_blind_wait_hook = NULL;

/* What was found out once holds for ever. */
static uint64 ended = 0;

uint64
rose_blind_ended(void)
{
	return ended;
}

bool
rose_blind_has_others(RoseTree *tree)
{
	uint64		newest = *(const volatile uint64 *) &tree->shared->newest_writer;

	if (likely(newest < ended))
		return false;
	ended = rose_horizon_running();
	return newest >= ended;
}

static LockTupleMode
mode_of(RoseOp op)
{
	return op == ROSE_OP_TOMBSTONE ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/* Rows on their way in, and locks of others that are repeated above them. */
typedef struct BesideBatch
{
	RoseTree   *tree;
	const RoseVersion *stamp;
	const RoseBlindRow *rows;
	int			nrows;			/* that nobody else holds */
	TransactionId xwait;		/* who holds the next one; invalid: there is none */
	int			npartitions;
	int			partitions[BESIDE_ROWS];
	int			at[BESIDE_ROWS];	/* of rows, among the versions */
	int			nversions;
	int			maxversions;
	RoseNewVersion *versions;
} BesideBatch;

static RoseNewVersion *
add_version(BesideBatch *batch)
{
	if (batch->nversions == batch->maxversions)
	{
		batch->maxversions *= 2;
		batch->versions = repalloc(batch->versions, batch->maxversions * sizeof(RoseNewVersion));
	}
	return &batch->versions[batch->nversions++];
}

/* A row, and the locks that go above it. */
static void
add_row(BesideBatch *batch, const RoseBlindRow *row, const RoseConflict *conflict)
{
	Size		width = rose_schema_key_width(batch->tree->schema) * sizeof(Datum);
	RoseNewVersion *version;

	batch->at[batch->nrows++] = batch->nversions;
	if (row->op == ROSE_OP_LOCK && conflict->locked)
		return;					/* it is held already */
	version = add_version(batch);
	version->version = *batch->stamp;
	version->version.op = row->op;
	version->version.present = row->present;
	version->version.lockmode = row->op == ROSE_OP_LOCK ? (uint8) mode_of(row->op) : 0;
	version->row = row->row;
	memcpy(version->key, row->key, width);
	for (int i = 0; i < conflict->nlocks; i++)
	{
		version = add_version(batch);
		version->version = conflict->locks[i];
		version->row = rose_new_version_form_key_row(batch->tree, row->key);
		memcpy(version->key, row->key, width);
	}
}

static void
lock_partitions(BesideBatch *batch, int n)
{
	for (int i = 0; i < n; i++)
		batch->partitions[i] = rose_partition_of_key(batch->tree, batch->rows[i].key);
	batch->npartitions = rose_partition_sort(batch->partitions, n);
	for (int i = 0; i < batch->npartitions; i++)
		rose_partition_lock(batch->partitions[i]);
}

static void
unlock_partitions(BesideBatch *batch)
{
	for (int i = batch->npartitions - 1; i >= 0; i--)
		rose_partition_unlock(batch->partitions[i]);
}

/* Up to n rows, to before the first that somebody else holds.  REQUIRES: their partition locks. */
static void
look_at_rows(BesideBatch *batch, int n)
{
	batch->nrows = batch->nversions = 0;
	batch->xwait = InvalidTransactionId;
	for (int i = 0; i < n; i++)
	{
		const RoseBlindRow *row = &batch->rows[i];
		RoseConflict conflict;

		rose_conflict_check_blind(batch->tree, row->key, mode_of(row->op), &conflict);
		if (conflict.result != TM_Ok)
		{
			batch->xwait = conflict.xwait;
			return;
		}
		add_row(batch, row, &conflict);
	}
}

/* One attempt to write up to n rows.  below: what was there is looked at, too, and holds if they are written. */
static RoseMemPrepared
try_rows(BesideBatch *batch, int n, uint8 *below, const RoseOwnRules *rules)
{
	RoseMemPrepared written = ROSE_MEM_PREPARED;
	RoseC0Look	look;

	lock_partitions(batch, n);
	rose_write_look(batch->tree, &look);
	look_at_rows(batch, n);
	if (unlikely(below != NULL) && batch->nrows > 0)
		rose_blind_look_below(batch->tree, batch->rows, batch->nrows, below);
	ROSE_STOP_POINT("blind-looked");	/* under partition locks */
	if (batch->nversions > 0)
		written = rose_write_blind_beside(batch->tree, batch->versions, batch->nversions, &look, rules);
	unlock_partitions(batch);
	return written;
}

static void
wait_for(RoseTree *tree, const RoseBlindRow *row, TransactionId xwait)
{
	ROSE_STOP_POINT("blind-waits");	/* no lock */
	if (rose_blind_wait_hook != NULL)
		rose_blind_wait_hook(tree, row, xwait);
	else
		rose_unique_wait(tree, xwait);
}

int
rose_blind_write_beside(RoseTree *tree, const RoseVersion *stamp, const RoseBlindRow *rows, int n,
						uint64 *seqs, uint8 *below, const RoseOwnRules *rules)
{
	BesideBatch batch = {.tree = tree, .stamp = stamp, .maxversions = BESIDE_ROWS};
	int			done = 0;
	int			together = BESIDE_ROWS;

	batch.versions = palloc(batch.maxversions * sizeof(RoseNewVersion));
	while (done < n)
	{
		RoseMemPrepared written;

		CHECK_FOR_INTERRUPTS();
		batch.rows = rows + done;
		written = try_rows(&batch, Min(together, n - done), below != NULL ? below + done : NULL, rules);
		if (written == ROSE_MEM_PREPARED)
		{
			for (int i = 0; seqs != NULL && i < batch.nrows; i++)
				seqs[done + i] = batch.versions[batch.at[i]].version.seq;
			done += batch.nrows;
			if (TransactionIdIsValid(batch.xwait))
				wait_for(tree, &rows[done], batch.xwait);
		}
		else if (written == ROSE_MEM_NO_ROOM && together == 1)
			break;
		else if (written == ROSE_MEM_NO_ROOM)
			together = 1;		/* what there is room for */
	}
	pfree(batch.versions);
	return done;
}
