/*-------------------------------------------------------------------------
 *
 * rose_class_row.c
 *	  A table's row in pg_class, kept from changes of others to the end of the
 *	  transaction.
 *
 * GRANT and its like change a table's row in pg_class without a lock on the
 * table.  Of two transactions that do, the second one fails ("tuple
 * concurrently updated").  A primary key of a heap table does not get into their way,
 * because core overwrites what it changes in that row in place, and takes turns with
 * them by a lock on the tuple (README.tuplock of heap).  A rose table gets a new
 * file, and its row another version.  So here we wait for those that have begun,
 * and have those that come wait for us: they too lock the tuple before they
 * look which version is the valid one, and get the lock when ours is.
 *
 * Locking.  That tuple lock has to be held until others can see what we have committed,
 * and core has read its invalidation messages out: longer than transactions hold tuple
 * locks.  So the session holds it, and it is released last of all.  A prepared
 * transaction does not keep it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "tableam/rose_tableam.h"

/* What core calls InplaceUpdateTupleLock, since its minor releases of November 2024. */
#define TUPLE_LOCK_MODE ExclusiveLock

/* Tuple locks that the session holds for this transaction; in TopMemoryContext. */
static LOCKTAG *held = NULL;
static int	nheld = 0;
static int	held_size = 0;

static void
hold_tuple(Relation pg_class, const ItemPointerData *tid)
{
	if (nheld == held_size)
	{
		int			size = Max(16, 2 * held_size);

		held = held == NULL ? MemoryContextAlloc(TopMemoryContext, size * sizeof(LOCKTAG)) :
			repalloc(held, size * sizeof(LOCKTAG));
		held_size = size;
	}
	SET_LOCKTAG_TUPLE(held[nheld],
					  pg_class->rd_lockInfo.lockRelId.dbId,
					  pg_class->rd_lockInfo.lockRelId.relId,
					  ItemPointerGetBlockNumber(tid),
					  ItemPointerGetOffsetNumber(tid));
	(void) LockAcquire(&held[nheld], TUPLE_LOCK_MODE, true, false);
	nheld++;
}

static void
release_last(void)
{
	nheld--;
	(void) LockRelease(&held[nheld], TUPLE_LOCK_MODE, true);
}

/* The row's newest version that we know; *own: this transaction has written it. */
static ItemPointerData
newest_known(Oid relid, bool *own)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	ItemPointerData tid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	tid = tuple->t_self;
	*own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	ReleaseSysCache(tuple);
	return tid;
}

/* Wait for who has changed the row and not ended yet.  False: that has become the valid one. */
static bool
wait_for_changes(Relation pg_class, ItemPointer tid)
{
	TupleTableSlot *slot = table_slot_create(pg_class, NULL);
	SnapshotData snapshot;
	bool		valid;

	for (;;)
	{
		InitDirtySnapshot(snapshot);
		valid = table_tuple_fetch_row_version(pg_class, tid, &snapshot, slot);
		ExecClearTuple(slot);
		if (!valid || !TransactionIdIsValid(snapshot.xmax))
			break;
		XactLockTableWait(snapshot.xmax, pg_class, tid, XLTW_Update);
	}
	ExecDropSingleTupleTableSlot(slot);
	return valid;
}

void
rose_class_row_lock(Relation rel)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);

	for (;;)
	{
		bool		own;
		ItemPointerData tid = newest_known(RelationGetRelid(rel), &own);

		/* nobody else sees it; and if it is rolled back, another table's row may get its place */
		if (own)
			break;
		hold_tuple(pg_class, &tid);
		if (wait_for_changes(pg_class, &tid))
			break;
		release_last();
		CHECK_FOR_INTERRUPTS();
		AcceptInvalidationMessages();
	}
	AcceptInvalidationMessages();	/* what was changed in place */
	table_close(pg_class, RowExclusiveLock);
}

/* An abort has released the locks of the session already. */
static void
release_all(ResourceReleasePhase phase, bool commit, bool top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !top_level)
		return;
	while (commit && nheld > 0)
		release_last();
	nheld = 0;
}

void
rose_class_row_define_callbacks(void)
{
	RegisterResourceReleaseCallback(release_all, NULL);
}
