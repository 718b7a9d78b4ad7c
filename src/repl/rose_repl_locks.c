/*-------------------------------------------------------------------------
 *
 * rose_repl_locks.c
 *	  Waiting for tables that somebody else has locked, or rows, and seeing who waits for whom.
 *
 * A batch holds locks, so it waits for another one where the server's deadlock detector
 * sees it: in the queue, but for some seconds at a time, between which the upstream hears
 * from us, and whoever wants something of the worker is served.  For that the batch may have to be given up: the worker
 * ends, and the next one, which begins at once, has no lock and no batch in hand.  It makes durable all that was applied
 * before, ends or reads the subscription anew if that was asked for, and else comes back to the same transaction.  By
 * then nothing precedes it (solo_lsn), so requests for an epoch are served where it waits.
 *
 * With durability "local" rows of others' transactions in progress are waited for in the same way.  A deadlock that the
 * detector finds here ends like that, too: the batch is given up, and what it was in the way of goes on.
 *
 * Who writes an epoch holds no lock that others may wait for, and tries again
 * and again (rose_epoch.c).  Either says which relation it waits for:
 * rose.stat_subscription.waiting_for.
 *
 * A backend that waits until the worker has done something waits for no lock, so the server
 * sees no deadlock if the worker needs one that the backend's transaction holds.  It
 * asks here now and then.
 *
 * Locking: rose_repl_shared->lock, for moments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "lsm/write/rose_blind_beside.h"
#include "repl/rose_lock_slice.h"
#include "repl/rose_repl_internal.h"

/* A batch is in a lock's queue for so long at a time. */
#define ROSE_LOCK_SLICE_MS		3000

/* ---------------------------------------------------------------------
 * A batch
 */

/* InvalidOid: for none.  alone: whoever has it locked is in the way. */
static void
note_waiting(Oid relid, bool alone)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->waiting.relid = relid;
	rose_apply.shared->waiting.alone = alone;
	rose_apply.shared->waiting.for_epoch = false;
	rose_apply.shared->waiting.since = OidIsValid(relid) ? GetCurrentTimestamp() : 0;
	LWLockRelease(&rose_repl_shared->lock);
}

/* Nobody else writes it. */
void
rose_repl_lock_note_waiting(Oid relid)
{
	if (rose_apply.shared->waiting.relid != relid)
		note_waiting(relid, true);
}

/* What a batch waits for. */
typedef struct BatchWait
{
	RoseLockSlice slice;
	XLogRecPtr	lsn;			/* commit of the upstream's transaction that wants it; invalid: of none */
} BatchWait;

/* ---------------------------------------------------------------------
 * A batch that is in the way
 */

/*
 * Other transactions come before the one that waits, and nobody sees them, because they are in its batch.  (Transactions in progress,
 * of which parts have come, would have to come again, so for their sake these wait; one that was prepared is kept, and would not.)
 */
static bool
hides_others(const BatchWait *wait)
{
	bool		kept = rose_streamed_is_prepared();

	/* as if those who wait for them could wait for ever */
	if (ROSE_STOP_POINT_SKIPS("batch-hides"))
		return false;
	return !XLogRecPtrIsInvalid(wait->lsn) && rose_apply.batch.first != wait->lsn &&
		rose_apply.progress.streams == (kept ? 1 : 0) && (kept || !rose_streamed_is_replayed());
}

/* What is asked for can be served only without this batch. */
static bool
is_in_the_way(BatchWait *wait)
{
	RoseReplSubShared *shared = rose_apply.shared;
	bool		durable;

	(void) rose_flight_poll();
	if (rose_apply.sub->logged)
		rose_logged_flush();
	durable = !rose_apply.epochs.dirty && rose_apply.epochs.flight == 0;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (durable)
		shared->epoch_served = shared->epoch_asked;
	wait->slice.patient = shared->drain || shared->reload || shared->epoch_served < shared->epoch_asked;
	LWLockRelease(&rose_repl_shared->lock);
	/* an epoch that somebody writes needs us no more than he does */
	if (wait->slice.patient && (rose_apply.epochs.flight == 0 || rose_flight_is_left()))
		return true;
	/* who holds the lock for a moment is waited for */
	return !wait->slice.cut && (hides_others(wait) || rose_copies_wait_for_worker());
}

/* The worker ends, and the next one goes on right away (handle_error in rose_repl_worker.c). */
static void
give_way(const BatchWait *wait)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->solo_lsn = XLogRecPtrIsInvalid(wait->lsn) ? rose_apply.remote.commit_lsn : wait->lsn;
	LWLockRelease(&rose_repl_shared->lock);
	rose_apply.giving_way = true;
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 wait->slice.deadlocked ?
			 errmsg("rose subscription \"%s\" gives up the batch that waits for a row of table \"%s\", as it is part of a deadlock",
					rose_apply.sub->name, get_rel_name(wait->slice.relid)) :
			 errmsg("rose subscription \"%s\" gives up the batch that waits for table \"%s\", to serve what does not need it",
					rose_apply.sub->name, get_rel_name(wait->slice.relid))));
}

void
rose_repl_lock_take_up(void)
{
	XLogRecPtr *solo = &rose_apply.epochs.solo_lsn;
	XLogRecPtr	lsn;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	lsn = rose_apply.shared->solo_lsn;
	rose_apply.shared->solo_lsn = InvalidXLogRecPtr;
	LWLockRelease(&rose_repl_shared->lock);
	if (lsn >= rose_apply.progress.applied_lsn && (XLogRecPtrIsInvalid(*solo) || lsn < *solo))
		*solo = lsn;
}

static void
wait_in_slices(BatchWait *wait)
{
	wait->slice.ms = ROSE_LOCK_SLICE_MS;
	note_waiting(wait->slice.relid, false);
	while (!rose_lock_slice_wait(&wait->slice))
	{
		rose_apply_keep_alive();
		if (wait->slice.deadlocked || is_in_the_way(wait))
			give_way(wait);
	}
	note_waiting(InvalidOid, false);
}

void
rose_repl_lock_table(Oid relid, LOCKMODE mode)
{
	BatchWait	wait = {.slice = {.relid = relid,.mode = mode}};

	wait.lsn = rose_apply.remote.open ? rose_apply.remote.commit_lsn : InvalidXLogRecPtr;

	if (!ConditionalLockRelationOid(relid, mode))
		wait_in_slices(&wait);
}

bool
rose_repl_lock_try(Oid relid, LOCKMODE mode, int ms)
{
	RoseLockSlice slice = {.relid = relid, .mode = mode, .ms = ms};

	if (ConditionalLockRelationOid(relid, mode))
		return true;
	return ms > 0 && rose_lock_slice_wait(&slice);
}

/* Somebody holds a row that the batch is to write (rose_blind_wait_hook). */
static void
wait_for_row(RoseTree *tree, const RoseBlindRow *row, TransactionId xwait)
{
	BatchWait	wait = {.slice = {.relid = RelationGetRelid(tree->rel),.xid = xwait}};

	wait.lsn = row->origin != 0 ? (XLogRecPtr) row->origin : rose_apply.remote.commit_lsn;

	wait_in_slices(&wait);
}

void
rose_repl_lock_await_rows(void)
{
	rose_blind_wait_hook = wait_for_row;
}

/* ---------------------------------------------------------------------
 * Who waits for whom
 */

/* For whom a process waits; 0: a prepared transaction. */
static List *
blockers_of(int pid)
{
	ArrayType  *array = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(pid)));
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	List	   *result = NIL;

	for (int i = 0; i < n; i++)
		result = list_append_unique_int(result, ((int32 *) ARR_DATA_PTR(array))[i]);
	return result;
}

/* Does one of these processes wait for a lock of this one, or for somebody who does? */
static bool
waits_for_lock_of(List *waiting, int pid)
{
	for (int i = 0; i < list_length(waiting); i++)
	{
		waiting = list_concat_unique_int(waiting, blockers_of(list_nth_int(waiting, i)));
		if (list_member_int(waiting, pid))
			return true;
	}
	return false;
}

bool
rose_repl_waits_for_us(int pid)
{
	return waits_for_lock_of(list_make1_int(pid), MyProcPid);
}

/* Those who keep others from reading a relation, or wait for that; or all who have it locked. */
static List *
lockers_of(Oid relid, bool all, List *pids)
{
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->locktag.locktag_type == LOCKTAG_RELATION &&
			lock->locktag.locktag_field1 == MyDatabaseId &&
			lock->locktag.locktag_field2 == relid &&
			((lock->holdMask & (all ? ~0 : LOCKBIT_ON(AccessExclusiveLock))) != 0 ||
			 lock->waitLockMode == AccessExclusiveLock))
			pids = list_append_unique_int(pids, lock->pid);
	}
	return pids;
}

/*
 * Do the subscription's processes wait for this one?  Those who wait may have got on
 * meanwhile: then the request fails in vain, and no more.
 */
bool
rose_repl_request_is_hopeless(Oid subid)
{
	RoseReplSubShared *entry;
	List	   *pids = NIL;
	int			worker = 0;
	int			spiller = 0;
	Oid			relids[2] = {InvalidOid, InvalidOid};

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL)
	{
		worker = entry->pid;
		spiller = entry->flight.pid;
		relids[0] = entry->waiting.relid;
		relids[1] = entry->flight.blocked.relid;
	}
	LWLockRelease(&rose_repl_shared->lock);

	if (worker != 0)
		pids = list_append_unique_int(pids, worker);
	if (spiller != 0)
		pids = list_append_unique_int(pids, spiller);
	for (int i = 0; i < lengthof(relids); i++)
	{
		if (OidIsValid(relids[i]))
			pids = lockers_of(relids[i], false, pids);
	}
	return list_member_int(pids, MyProcPid) || waits_for_lock_of(pids, MyProcPid);
}

/* ---------------------------------------------------------------------
 * What is said of it
 */

/* REQUIRES: lock.  What the subscription's processes wait for; an epoch's counts for more. */
static RoseReplWaitShared
find_wait(const RoseReplSubShared *entry)
{
	const RoseReplWaitShared none = {0};

	if (entry == NULL)
		return none;
	return OidIsValid(entry->flight.blocked.relid) ? entry->flight.blocked : entry->waiting;
}

Oid
rose_repl_held_up_by(Oid subid, bool *for_epoch)
{
	RoseReplWaitShared wait;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	wait = find_wait(rose_repl_entry(MyDatabaseId, subid));
	LWLockRelease(&rose_repl_shared->lock);
	*for_epoch = wait.for_epoch;
	return wait.relid;
}

/* Those who keep the worker waiting, and are none of the subscription. */
static void
add_lockers(StringInfo out, const RoseReplWaitShared *wait, int worker, int spiller)
{
	List	   *pids = worker != 0 && !wait->for_epoch ? blockers_of(worker) : NIL;
	int			n = 0;
	ListCell   *lc;

	pids = lockers_of(wait->relid, wait->alone, pids);
	foreach(lc, pids)
	{
		int			pid = lfirst_int(lc);

		if (pid != 0 && (pid == worker || pid == spiller))
			continue;
		appendStringInfoString(out, n++ == 0 ? ", which is locked by " : ", ");
		if (pid == 0)
			appendStringInfoString(out, "a prepared transaction");
		else
			appendStringInfo(out, "process %d", pid);
	}
}

char *
rose_repl_describe_wait(Oid subid)
{
	RoseReplSubShared *entry;
	RoseReplWaitShared wait;
	int			worker = 0;
	int			spiller = 0;
	char	   *relname;
	StringInfoData out;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	wait = find_wait(entry);
	if (entry != NULL)
	{
		worker = entry->pid;
		spiller = entry->flight.pid;
	}
	LWLockRelease(&rose_repl_shared->lock);
	relname = OidIsValid(wait.relid) ? get_rel_name(wait.relid) : NULL;
	if (relname == NULL)
		return NULL;
	initStringInfo(&out);
	appendStringInfo(&out, "It waits for \"%s\"",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(wait.relid)), relname));
	add_lockers(&out, &wait, worker, spiller);
	appendStringInfoChar(&out, '.');
	return out.data;
}
