/*-------------------------------------------------------------------------
 *
 * rose_maintainer_slot.c
 *	  The maintenance worker's slot in shared memory: what launcher and views
 *	  learn of it.
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
#include "utils/timestamp.h"

#define FAILURE_PAUSE_MS		60000	/* leave a table alone after an error */
#define CANCEL_PAUSE_MS			1000	/* ... after a cancel: somebody else wants it */
#define RESTART_PAUSE_MS		5000	/* before the worker is started again */

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

/* Remember the error that ends this worker, and on which table. */
void
rose_maintainer_note_error(const ErrorData *error)
{
	bool		cancel = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	TimestampTz now = GetCurrentTimestamp();
	RoseWorkerFailure *oldest = &my_slot->failures[0];
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
	oldest->until = TimestampTzPlusMilliseconds(now, cancel ? CANCEL_PAUSE_MS :
												FAILURE_PAUSE_MS);
	my_slot->not_before = TimestampTzPlusMilliseconds(now, CANCEL_PAUSE_MS);
	LWLockRelease(&rose_workers->lock);
}

bool
rose_maintainer_failed_lately(Oid relid)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		failed = false;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
		if (my_slot->failures[i].relid == relid && my_slot->failures[i].until > now)
			failed = true;
	LWLockRelease(&rose_workers->lock);
	return failed;
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
