/*-------------------------------------------------------------------------
 *
 * rose_maintainer_slot.c
 *	  The maintenance worker's slot in shared memory: what launcher and views
 *	  learn of it.
 *
 * Which tables failed is remembered here by this process, without bound; only those on which a worker
 * ended are in the slot.
 *
 * Locking: rose_workers->lock, for moments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/rose_maintainer_internal.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#define FAILURE_PAUSE_MS		60000	/* leave a table alone after an error */
#define CANCEL_PAUSE_MS			1000	/* ... after a cancel: somebody else wants it */
#define RESTART_PAUSE_MS		5000	/* before the worker is started again */
#define LOOK_AGAIN_MS			30000	/* ... if only something that waits is left */

/* A worker that others wait for keeps its merges for so long, and for twice as long next time. */
#define MERGES_SLICE_MS			300000
#define MERGES_SLICE_SHORT_MS	20000	/* if memory is short */
#define MAX_PREEMPTED			8

/* Tables that this worker failed on and got over. */
typedef struct Failure
{
	Oid			relid;			/* hash key */
	TimestampTz until;			/* leave it alone until then */
} Failure;

static HTAB *failures = NULL;

static RoseWorkerSlotShared *my_slot = NULL;

/*
 * Merges hold session locks, which core releases by itself only if the process
 * ends within a transaction.
 */
static void
maintainer_exit(int code, Datum arg)
{
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (my_slot->info.pid == MyProcPid)
	{
		my_slot->state = ROSE_WORKER_STOPPED;
		my_slot->state_since = GetCurrentTimestamp();
		my_slot->info.pid = 0;
		my_slot->info.work = ROSE_WORK_NONE;
		my_slot->info.work_relid = InvalidOid;
		my_slot->latch = NULL;
		/* an error that rose_maintainer_note_error did not see: no database, no connection */
		if (code != 0 && my_slot->not_before < my_slot->state_since)
			my_slot->not_before = TimestampTzPlusMilliseconds(my_slot->state_since,
															  RESTART_PAUSE_MS);
	}
	if (rose_workers->launcher != NULL)
		SetLatch(rose_workers->launcher);
	LWLockRelease(&rose_workers->lock);
}

/* Take over the slot that the launcher made; false if it is no longer meant for us. */
bool
rose_maintainer_attach(Oid dbid, bool *visit)
{
	bool		attached = false;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot = rose_worker_slot(dbid, false);
	if (my_slot != NULL && my_slot->state == ROSE_WORKER_STARTING)
	{
		my_slot->state = ROSE_WORKER_RUNNING;
		my_slot->state_since = GetCurrentTimestamp();
		my_slot->info.pid = MyProcPid;
		my_slot->info.started = my_slot->state_since;
		my_slot->latch = MyLatch;
		*visit = my_slot->visit;
		attached = true;
	}
	LWLockRelease(&rose_workers->lock);
	if (attached)
		before_shmem_exit(maintainer_exit, (Datum) 0);
	return attached;
}

void
rose_maintainer_count(bool spill)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (spill)
		my_slot->info.spills++;
	else
		my_slot->info.merges++;
	LWLockRelease(&rose_workers->lock);
}

void
rose_maintainer_show_work(RoseWorkerWork work, Oid relid)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->info.work = work;
	my_slot->info.work_relid = relid;
	LWLockRelease(&rose_workers->lock);
}

/* REQUIRES: lock exclusive. */
static void
note_failure_shared(Oid relid, TimestampTz until)
{
	RoseWorkerFailure *oldest = &my_slot->failures[0];

	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
	{
		RoseWorkerFailure *failure = &my_slot->failures[i];

		if (failure->relid == relid)
		{
			oldest = failure;
			break;
		}
		if (failure->until < oldest->until)
			oldest = failure;
	}
	oldest->relid = relid;
	oldest->until = until;
}

static void
note_failure_here(Oid relid, TimestampTz until)
{
	Failure    *failure;

	if (failures == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(Failure);
		failures = hash_create("rose table failures", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	failure = hash_search(failures, &relid, HASH_ENTER, NULL);
	failure->until = until;
}

void
rose_maintainer_note_error(const ErrorData *error, bool ends)
{
	bool		cancel = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = TimestampTzPlusMilliseconds(now, cancel ? CANCEL_PAUSE_MS :
													FAILURE_PAUSE_MS);
	Oid			relid;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	relid = my_slot->info.work_relid;
	if (!cancel)
	{
		my_slot->info.error_time = now;
		my_slot->info.error_relid = relid;
		strlcpy(my_slot->info.error, error->message ? error->message : "",
				ROSE_WORKER_ERROR_LEN);
	}
	if (ends)
	{
		note_failure_shared(relid, until);
		my_slot->not_before = TimestampTzPlusMilliseconds(now, CANCEL_PAUSE_MS);
	}
	LWLockRelease(&rose_workers->lock);
	if (!ends)
		note_failure_here(relid, until);
}

bool
rose_maintainer_failed_lately(Oid relid)
{
	TimestampTz now = GetCurrentTimestamp();
	const Failure *failure = failures == NULL ? NULL :
		hash_search(failures, &relid, HASH_FIND, NULL);
	bool		failed = failure != NULL && failure->until > now;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
		if (my_slot->failures[i].relid == relid && my_slot->failures[i].until > now)
			failed = true;
	LWLockRelease(&rose_workers->lock);
	return failed;
}

/* Written by this process only. */
Oid
rose_maintainer_work_relid(void)
{
	return my_slot->info.work_relid;
}

bool
rose_maintainer_take_request(void)
{
	bool		requested;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	requested = my_slot->spill_requested;
	my_slot->spill_requested = false;
	LWLockRelease(&rose_workers->lock);
	return requested;
}

void
rose_maintainer_note_visited(void)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->visit = false;
	LWLockRelease(&rose_workers->lock);
}

void
rose_maintainer_note_idle(uint64 activity)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->activity = activity;
	LWLockRelease(&rose_workers->lock);
}

/* ---- other databases ---- */

/*
 * Merges that are given up have to be done again, so they have more time than the rest, and the
 * more the more often it happened: each of them is done in the end.
 */
RoseWorkerTurn
rose_maintainer_turn(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		memory_short = rose_worker_memory_short();
	RoseWorkerTurn turn = ROSE_TURN_FREE;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	if (rose_workers->wanted)
	{
		int64		limit = (int64) (memory_short ? MERGES_SLICE_SHORT_MS : MERGES_SLICE_MS) <<
			my_slot->preempted;
		TimestampTz since = my_slot->info.started;

		if (now >= since + limit * 1000)
			turn = ROSE_TURN_END;
		else if (now >= since + (int64) ROSE_WORKER_SLICE_MS * 1000)
			turn = ROSE_TURN_OVER;
		else
			turn = ROSE_TURN_WANTED;
	}
	LWLockRelease(&rose_workers->lock);
	return turn;
}

void
rose_maintainer_leave(bool waiting, bool unfinished, bool gives_up)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (unfinished)
		my_slot->look_again = now;
	else if (waiting)
		my_slot->look_again = TimestampTzPlusMilliseconds(now, LOOK_AGAIN_MS);
	my_slot->preempted = gives_up ? Min(my_slot->preempted + 1, MAX_PREEMPTED) : 0;
	LWLockRelease(&rose_workers->lock);
}
