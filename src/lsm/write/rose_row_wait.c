/*-------------------------------------------------------------------------
 *
 * rose_row_wait.c
 *	  Waiting for a transaction that holds a row: who changes it, or has locked it.
 *
 * Who waits queues up at a heavyweight tuple lock, named by the key's hash, as heap's
 * waiters do: first come, first served.  Transactions that hold a lock on the row already
 * do not queue, or two of them could wait for each other.
 *
 * Whether there is somebody to wait for is rose_conflict.c's to say.  Waiting for who has
 * written a value of a unique index is in rose_unique.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat.h"
#include "lsm/write/rose_row_wait.h"

static LOCKMODE
queue_lock_mode(LockTupleMode mode)
{
	switch (mode)
	{
		case LockTupleKeyShare:
			return AccessShareLock;
		case LockTupleShare:
			return RowShareLock;
		case LockTupleNoKeyExclusive:
			return ExclusiveLock;
		case LockTupleExclusive:
			return AccessExclusiveLock;
	}
	return AccessExclusiveLock;
}

/* Name of a key for the lock manager: keys whose hashes collide share a line. */
static void
queue_name(RoseTree *tree, const RoseRowTarget *target, ItemPointer tid)
{
	uint64		hash = tree->schema->nkeys == 0 ? (uint64) DatumGetInt64(target->key[0]) :
		rose_key_hash(tree->schema, target->key);

	ItemPointerSet(tid, (BlockNumber) (hash >> 16), (OffsetNumber) ((hash & 0x7FFF) + 1));
}

/* Get in line; false if that would mean to wait and policy says not to. */
static bool
enter(RoseTree *tree, RoseRowTarget *target, LockTupleMode mode,
	  LockWaitPolicy policy)
{
	if (target->queued)
		return true;
	target->queue_mode = queue_lock_mode(mode);
	queue_name(tree, target, &target->queue_tid);
	if (policy == LockWaitBlock)
		LockTuple(tree->rel, &target->queue_tid, target->queue_mode);
	else if (!rose_try_lock_tuple(tree->rel, &target->queue_tid, target->queue_mode,
								  policy == LockWaitError))
		return false;
	target->queued = true;
	return true;
}

void
rose_row_wait_leave(RoseTree *tree, RoseRowTarget *target)
{
	if (target->queued)
		UnlockTuple(tree->rel, &target->queue_tid, target->queue_mode);
	target->queued = false;
}

void
rose_row_wait(RoseTree *tree, RoseRowTarget *target, LockTupleMode mode,
			  const RoseConflict *conflict, XLTW_Oper what)
{
	if (!conflict->locker)
		(void) enter(tree, target, mode, LockWaitBlock);
	XactLockTableWait(conflict->xwait, tree->rel, &target->tid, what);
}

bool
rose_row_wait_by_policy(RoseTree *tree, RoseRowTarget *target, LockTupleMode mode,
						const RoseConflict *conflict, LockWaitPolicy policy)
{
	if (policy == LockWaitBlock)
	{
		rose_row_wait(tree, target, mode, conflict, XLTW_Lock);
		return true;
	}
	if ((conflict->locker || enter(tree, target, mode, policy)) &&
		rose_try_wait_for_xact(conflict->xwait, policy == LockWaitError))
		return true;
	if (policy == LockWaitError)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on row in relation \"%s\"",
						RelationGetRelationName(tree->rel))));
	return false;
}
