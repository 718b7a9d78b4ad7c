/*-------------------------------------------------------------------------
 *
 * rose_maintainer_slot.c
 *	  The maintenance worker's slot in shared memory: what launcher, views and the database's other workers
 *	  learn of it.
 *
 * A database's first worker has the slot of the database.  A helper has one of its own,
 * and finds that of the database when it needs it: that one may be given to another
 * database meanwhile.
 *
 * What a database's first worker fails on is left alone by all, for a time that is kept
 * with the table (tree/rose_pause.h).  Beside that each process remembers what it has
 * failed on itself, for a moment or, where that is the only place for it, for longer:
 * what a helper fails on, in which the first worker may get further, and tables that are
 * not in use.  Those on which a worker ended are in the slot.
 *
 * Locking: rose_workers->lock, for moments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_tree.h"
#include "worker/rose_maintainer_internal.h"

#define FAILURE_PAUSE_MS		60000	/* leave a table alone after an error, if it has no shared entry (see rose_pause.h) */
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
static TimestampTz wanted_since = 0;	/* others wait for a worker; 0 = no */

/* The database's slot; NULL: this is a helper, and there is none any more.  REQUIRES: lock. */
static RoseWorkerSlotShared *
database_slot(void)
{
	return my_slot->info.helper == 0 ? my_slot : rose_worker_slot(MyDatabaseId, false);
}

bool
rose_maintainer_is_helper(void)
{
	return my_slot->info.helper > 0;
}

/* It has left something undone, with an error: somebody has to look again.  REQUIRES: lock exclusive. */
static void
note_failed_exit(TimestampTz now)
{
	RoseWorkerSlotShared *database = database_slot();
	TimestampTz *again;

	if (database == NULL)
		return;
	database->look_again = now;
	/* an error that rose_maintainer_note_error did not see: no database, no connection */
	again = database == my_slot ? &database->not_before : &database->no_help_before;
	if (*again < now)
		*again = TimestampTzPlusMilliseconds(now, RESTART_PAUSE_MS);
}

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
		if (code != 0)
			note_failed_exit(GetCurrentTimestamp());
		rose_worker_stopped(my_slot);
	}
	if (rose_workers->launcher != NULL)
		SetLatch(rose_workers->launcher);
	LWLockRelease(&rose_workers->lock);
}

/* Take over the slot that the launcher made; false if it is no longer meant for us. */
bool
rose_maintainer_attach(Oid dbid, int slot, bool *visit)
{
	bool		attached = false;

	my_slot = &rose_workers->slots[slot];
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (my_slot->info.dbid == dbid && my_slot->state == ROSE_WORKER_STARTING)
	{
		my_slot->state = ROSE_WORKER_RUNNING;
		my_slot->state_since = GetCurrentTimestamp();
		my_slot->info.pid = MyProcPid;
		my_slot->info.started = my_slot->state_since;
		my_slot->latch = MyLatch;
		my_slot->look_again = 0;	/* not before: a start may fail */
		*visit = my_slot->visit;
		attached = true;
	}
	LWLockRelease(&rose_workers->lock);
	if (attached)
		before_shmem_exit(maintainer_exit, (Datum) 0);
	return attached;
}

static void
count_work(RoseWorkerSlotShared *slot, bool spill)
{
	if (spill)
		slot->info.spills++;
	else
		slot->info.merges++;
}

void
rose_maintainer_count(bool spill)
{
	RoseWorkerSlotShared *database;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	database = database_slot();
	count_work(my_slot, spill);
	if (database != NULL && database != my_slot)
		count_work(database, spill);
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
note_failure_shared(RoseWorkerSlotShared *slot, Oid relid, TimestampTz until)
{
	RoseWorkerFailure *oldest = &slot->failures[0];

	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
	{
		RoseWorkerFailure *failure = &slot->failures[i];

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

typedef struct PauseBegun
{
	Oid			relid;
	RosePauseKind kind;
	bool		begun;
} PauseBegun;

static void
begin_pause_of_entry(RoseTreeShared *shared, void *arg)
{
	PauseBegun *pause = arg;

	if (pg_atomic_read_u32(&shared->relid) != pause->relid)
		return;
	rose_pause_begin(&shared->pauses[pause->kind]);
	pause->begun = true;
}

/* Have all workers leave the table alone in what this one does; false: it has no entry, or this is a helper. */
static bool
begin_pause(Oid relid)
{
	PauseBegun	pause = {relid, ROSE_PAUSE_MERGES, false};

	if (!OidIsValid(relid) || rose_maintainer_is_helper())
		return false;
	if (my_slot->info.work == ROSE_WORK_SPILL)
		pause.kind = ROSE_PAUSE_SPILLS;
	rose_registry_visit(MyDatabaseId, begin_pause_of_entry, &pause);
	return pause.begun;
}

void
rose_maintainer_note_error(const ErrorData *error, bool ends)
{
	bool		cancel = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	TimestampTz now = GetCurrentTimestamp();
	Oid			relid = my_slot->info.work_relid;
	bool		kept = !cancel && begin_pause(relid);
	TimestampTz until = TimestampTzPlusMilliseconds(now, cancel || kept ? CANCEL_PAUSE_MS :
													FAILURE_PAUSE_MS);
	RoseWorkerSlotShared *slot;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	slot = database_slot();
	if (slot == NULL)
		slot = my_slot;
	if (!cancel)
	{
		slot->info.error_time = now;
		slot->info.error_relid = relid;
		strlcpy(slot->info.error, error->message ? error->message : "",
				ROSE_WORKER_ERROR_LEN);
	}
	if (ends)
	{
		note_failure_shared(slot, relid, until);
		if (slot == my_slot)
			slot->not_before = TimestampTzPlusMilliseconds(now, CANCEL_PAUSE_MS);
		else
			slot->no_help_before = TimestampTzPlusMilliseconds(now, FAILURE_PAUSE_MS);
	}
	else if (slot != my_slot && !cancel)
		slot->look_again = now; /* the first worker may get further */
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
	const RoseWorkerSlotShared *slot;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	slot = database_slot();
	for (int i = 0; slot != NULL && i < ROSE_WORKER_FAILURES; i++)
		if (slot->failures[i].relid == relid && slot->failures[i].until > now)
			failed = true;
	LWLockRelease(&rose_workers->lock);
	return failed;
}

bool
rose_maintainer_leaves_alone(const RoseRegistryItem *item, RosePauseKind kind)
{
	return item->paused_until[kind] > GetCurrentTimestamp() || rose_maintainer_failed_lately(item->relid);
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
	RoseWorkerSlotShared *slot;
	bool		requested = false;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	slot = database_slot();
	if (slot != NULL)
	{
		requested = slot->spill_requested;
		slot->spill_requested = false;
	}
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

/* A helper does not know what the others are at. */
void
rose_maintainer_note_idle(uint64 activity, bool done)
{
	RoseWorkerSlotShared *database;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	database = database_slot();
	if (database == my_slot && done)
		database->activity = activity;
	if (database != NULL)
		database->help_wanted = false;
	my_slot->idle = true;
	LWLockRelease(&rose_workers->lock);
}

void
rose_maintainer_note_busy(void)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->idle = false;
	LWLockRelease(&rose_workers->lock);
}

/* ---- other workers ---- */

void
rose_maintainer_note_merging(bool merging)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->merging = merging;
	LWLockRelease(&rose_workers->lock);
}

int
rose_maintainer_count_merging(void)
{
	int			n = 0;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		n += rose_workers->slots[i].merging;
	LWLockRelease(&rose_workers->lock);
	return n;
}

/* REQUIRES: lock. */
static bool
wake_idle_worker(void)
{
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		RoseWorkerSlotShared *slot = &rose_workers->slots[i];

		if (slot != my_slot && slot->info.dbid == MyDatabaseId &&
			slot->state == ROSE_WORKER_RUNNING && slot->idle)
		{
			SetLatch(slot->latch);
			return true;
		}
	}
	return false;
}

bool
rose_maintainer_ask_for_help(void)
{
	RoseWorkerSlotShared *slot;
	bool		comes;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	slot = database_slot();
	comes = wake_idle_worker();
	if (!comes && slot != NULL && rose_workers->launcher != NULL)
	{
		slot->help_wanted = true;
		comes = !rose_workers->wanted && rose_worker_count() < rose_max_merge_workers &&
			slot->no_help_before <= GetCurrentTimestamp();
		if (comes)
			SetLatch(rose_workers->launcher);
	}
	LWLockRelease(&rose_workers->lock);
	return comes;
}

/* ---- other databases ---- */

/* Its database is looked after without it, so it begins nothing new, and merges have to end soon. */
static RoseWorkerTurn
helper_turn(TimestampTz now)
{
	if (rose_worker_memory_short() ||
		TimestampDifferenceExceeds(wanted_since, now, ROSE_WORKER_SLICE_MS))
		return ROSE_TURN_END;
	return ROSE_TURN_OVER;
}

/*
 * Merges that are given up have to be done again, so they have more time than the rest,
 * and the more the more often it happened: each of them is done in the end.
 */
static RoseWorkerTurn
first_worker_turn(TimestampTz now, TimestampTz since, int preempted)
{
	int64		limit = (int64) (rose_worker_memory_short() ? MERGES_SLICE_SHORT_MS : MERGES_SLICE_MS) <<
		preempted;

	if (now >= since + limit * 1000)
		return ROSE_TURN_END;
	if (now >= since + (int64) ROSE_WORKER_SLICE_MS * 1000)
		return ROSE_TURN_OVER;
	return ROSE_TURN_WANTED;
}

RoseWorkerTurn
rose_maintainer_turn(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz since;
	int			preempted;
	bool		wanted;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	wanted = rose_workers->wanted ||
		(rose_maintainer_is_helper() && rose_worker_count() > rose_max_merge_workers);
	since = my_slot->info.started;
	preempted = my_slot->preempted;
	LWLockRelease(&rose_workers->lock);
	if (!wanted)
	{
		wanted_since = 0;
		return ROSE_TURN_FREE;
	}
	if (wanted_since == 0)
		wanted_since = now;
	return rose_maintainer_is_helper() ? helper_turn(now) : first_worker_turn(now, since, preempted);
}

/* What a helper gives up is done by the database's first worker: another helper would meet the same fate. */
static void
leave_helper(RoseWorkerSlotShared *database, TimestampTz now, bool waiting, bool unfinished, bool gives_up)
{
	if (unfinished || gives_up)
		database->look_again = now;
	else if (waiting && database->look_again == 0)
		database->look_again = TimestampTzPlusMilliseconds(now, LOOK_AGAIN_MS);
	if (gives_up)
		database->no_help_before = TimestampTzPlusMilliseconds(now, MERGES_SLICE_MS);
}

void
rose_maintainer_leave(bool waiting, bool unfinished, bool gives_up)
{
	TimestampTz now = GetCurrentTimestamp();
	RoseWorkerSlotShared *database;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	database = database_slot();
	if (rose_maintainer_is_helper())
	{
		if (database != NULL)
			leave_helper(database, now, waiting, unfinished, gives_up);
	}
	else
	{
		if (unfinished)
			my_slot->look_again = now;
		else if (waiting)
			my_slot->look_again = TimestampTzPlusMilliseconds(now, LOOK_AGAIN_MS);
		my_slot->preempted = gives_up ? Min(my_slot->preempted + 1, MAX_PREEMPTED) : 0;
	}
	LWLockRelease(&rose_workers->lock);
}
