/*-------------------------------------------------------------------------
 *
 * rose_repl_locks.c
 *	  Waiting for tables that somebody else has locked, and seeing who waits for whom.
 *
 * A batch holds locks, so it waits for another one where the server's deadlock detector
 * sees it: in the queue, but for some seconds at a time, between which the upstream hears
 * from us.  Who writes an epoch holds no lock that others may wait for, and tries again
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
#include "utils/fmgrprotos.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "repl/rose_repl_internal.h"

/* A batch is in a lock's queue for so long at a time; the detector looks once in each. */
#define ROSE_LOCK_SLICE_MS		3000
#define ROSE_LOCK_DETECTOR_MS	1000

/* ---------------------------------------------------------------------
 * A batch
 */

/* InvalidOid: for none. */
static void
note_waiting(Oid relid)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->waiting.relid = relid;
	rose_apply.shared->waiting.since = OidIsValid(relid) ? GetCurrentTimestamp() : 0;
	LWLockRelease(&rose_repl_shared->lock);
}

/*
 * False: not within a slice.  The server's own timeout of a lock ends the wait, as an
 * error, which takes a subtransaction to survive.
 */
static bool
lock_in_slice(Oid relid, LOCKMODE mode)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			lock_timeout = LockTimeout;
	int			deadlock_timeout = DeadlockTimeout;
	volatile bool got = true;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		LockTimeout = ROSE_LOCK_SLICE_MS;
		DeadlockTimeout = Min(DeadlockTimeout, ROSE_LOCK_DETECTOR_MS);
		LockRelationOid(relid, mode);
		LockTimeout = lock_timeout;
		DeadlockTimeout = deadlock_timeout;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		LockTimeout = lock_timeout;
		DeadlockTimeout = deadlock_timeout;
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		FreeErrorData(edata);
		got = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return got;
}

void
rose_repl_lock_table(Oid relid, LOCKMODE mode)
{
	if (ConditionalLockRelationOid(relid, mode))
		return;
	note_waiting(relid);
	while (!lock_in_slice(relid, mode))
		rose_apply_keep_alive();
	note_waiting(InvalidOid);
}

/* ---------------------------------------------------------------------
 * Who waits for whom
 */

/* Does one of these processes wait for a lock of this one, or for somebody who does? */
static bool
waits_for_lock_of(List *waiting, int pid)
{
	for (int i = 0; i < list_length(waiting); i++)
	{
		Datum		pids = DirectFunctionCall1(pg_blocking_pids,
											   Int32GetDatum(list_nth_int(waiting, i)));
		ArrayType  *array = DatumGetArrayTypeP(pids);
		int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

		/* 0: a prepared transaction, which waits for nobody */
		for (int j = 0; j < n; j++)
			waiting = list_append_unique_int(waiting, ((int32 *) ARR_DATA_PTR(array))[j]);
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

/* Those who keep others from reading a relation, or wait for that. */
static List *
lockers_of(Oid relid, List *pids)
{
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->locktag.locktag_type == LOCKTAG_RELATION &&
			lock->locktag.locktag_field1 == MyDatabaseId &&
			lock->locktag.locktag_field2 == relid &&
			((lock->holdMask & LOCKBIT_ON(AccessExclusiveLock)) != 0 ||
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
			pids = lockers_of(relids[i], pids);
	}
	return list_member_int(pids, MyProcPid) || waits_for_lock_of(pids, MyProcPid);
}
