/*-------------------------------------------------------------------------
 *
 * rose_copy_places.c
 *	  Who copies which table of a subscription, how far he is, and when one that failed is due again.
 *
 * A subscription has a few places in shared memory, one for each table that is being
 * copied.  Its worker takes a place and says for whom; the process that copies
 * enters it, and leaves it when it ends, however that comes about.  So a worker that
 * replaces another one knows which copies run.  What came of a copy is in the table's row.
 *
 * A table whose copy has failed is due again after a while, which doubles with each
 * failure.  That is kept with the table's counts, and forgotten when the
 * subscription is changed.
 *
 * Locking: rose_repl_shared->lock for the places, never while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "repl/rose_repl_internal.h"

/* A process that was asked for has this long to show up. */
#define ROSE_COPY_START_MS		30000

/* The first and the longest wait of a table whose copy has failed. */
#define ROSE_COPY_RETRY_MS		5000
#define ROSE_COPY_RETRY_MAX_MS	600000

/* Who copies a table waits for its lock for so long, and then it is the next one's turn. */
#define ROSE_COPY_LOCK_MS		5000

/* Looks again whether copies have ended after so long. */
#define ROSE_COPY_NAP_MS		20

static RoseReplCopyShared *mine = NULL; /* the place that this process has entered */

/* ---------------------------------------------------------------------
 * The worker's side
 */

/* Not a helper's.  REQUIRES: lock. */
static RoseReplCopyShared *
find_place(Oid relid)
{
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		RoseReplCopyShared *place = &rose_apply.shared->copies[i];

		if (place->relid == relid && (place->leader == 0 || !OidIsValid(relid)))
			return place;
	}
	return NULL;
}

/* REQUIRES: lock exclusive.  Somebody was asked for and has not come. */
static void
give_up_late(RoseReplCopyShared *place)
{
	if (OidIsValid(place->relid) && place->pid == 0 &&
		TimestampDifferenceExceeds(place->since, GetCurrentTimestamp(), ROSE_COPY_START_MS))
		place->relid = InvalidOid;
}

int
rose_copy_places_taken(Oid *relids)
{
	int			n = 0;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		RoseReplCopyShared *place = &rose_apply.shared->copies[i];

		give_up_late(place);
		if (OidIsValid(place->relid))
			relids[n++] = place->relid;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return n;
}

static bool
take(Oid relid, uint64 leader, uint64 *ticket)
{
	RoseReplCopyShared *place;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	place = find_place(InvalidOid);
	if (place != NULL)
	{
		memset(place, 0, sizeof(*place));
		place->relid = relid;
		place->leader = leader;
		place->since = GetCurrentTimestamp();
		place->ticket = *ticket = ++rose_apply.shared->copy_tickets;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return place != NULL;
}

bool
rose_copy_places_take(Oid relid, uint64 *ticket)
{
	return take(relid, 0, ticket);
}

bool
rose_copy_places_take_helper(uint64 *ticket)
{
	return take(mine->relid, mine->ticket, ticket);
}

/* REQUIRES: lock. */
static RoseReplCopyShared *
find_ticket(uint64 ticket)
{
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		RoseReplCopyShared *place = &rose_apply.shared->copies[i];

		if (OidIsValid(place->relid) && place->ticket == ticket)
			return place;
	}
	return NULL;
}

void
rose_copy_places_give_back(uint64 ticket)
{
	RoseReplCopyShared *place;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	place = find_ticket(ticket);
	if (place != NULL)
		place->relid = InvalidOid;
	LWLockRelease(&rose_repl_shared->lock);
}

/* Whoever has entered a place is told to end, and nobody enters any more; true: all have left. */
static bool
ask_to_leave(void)
{
	bool		left = true;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		RoseReplCopyShared *place = &rose_apply.shared->copies[i];

		if (OidIsValid(place->relid) && place->pid == 0)
			place->relid = InvalidOid;
		if (!OidIsValid(place->relid) || place->pid == MyProcPid)
			continue;
		left = false;
		if (!place->stopped)
			kill(place->pid, SIGTERM);
		place->stopped = true;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return left;
}

void
rose_copy_places_clear(void)
{
	while (!ask_to_leave())
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ROSE_COPY_NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Something has happened to a copy since the last call. */
bool
rose_copy_places_changed(void)
{
	static uint64 seen = 0;
	uint64		now;
	bool		result;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	now = rose_apply.shared->copies_ended;
	LWLockRelease(&rose_repl_shared->lock);
	result = now != seen;
	seen = now;
	return result;
}

/* ---------------------------------------------------------------------
 * The side of who copies
 */

/*
 * An aborted transaction lets go of a session's locks, too; but nothing does where there is none, and the process's memory of
 * them goes to the next one.
 */
void
rose_copy_places_unlock_all(void)
{
	AbortOutOfAnyTransaction();
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
}

static void
leave(int code, Datum arg)
{
	if (mine == NULL)
		return;
	rose_copy_places_unlock_all();
	/* somebody else has told the process to end in the middle of it */
	if (!mine->stopped && !mine->committed && mine->leader == 0)
		rose_copy_places_note_failure(mine->relid, true);
	rose_copy_places_leave();
}

bool
rose_copy_places_enter(Oid relid, uint64 ticket)
{
	static bool registered = false;
	RoseReplCopyShared *place;

	if (!registered)
		before_shmem_exit(leave, (Datum) 0);
	registered = true;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	place = find_ticket(ticket);
	if (place != NULL && place->relid == relid)
	{
		place->pid = MyProcPid;
		place->since = GetCurrentTimestamp();
		mine = place;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return mine != NULL;
}

static void
lock_context(void *relname)
{
	errcontext("waiting for table \"%s\", which is locked; it will be tried again", (char *) relname);
}

/* In the queue; not for longer than it is another table's turn. */
static void
lock_in_time(Oid relid, LOCKMODE mode)
{
	ErrorContextCallback callback = {error_context_stack, lock_context, get_rel_name(relid)};
	int			lock_timeout = LockTimeout;

	error_context_stack = &callback;
	LockTimeout = ROSE_COPY_LOCK_MS;
	LockRelationOid(relid, mode);
	LockTimeout = lock_timeout;
	error_context_stack = callback.previous;
}

/* The stream does not wait with the worker for a table that somebody has locked, nor do other tables with the process that copies it. */
void
rose_copy_places_lock(Oid relid, LOCKMODE mode)
{
	if (!rose_apply.copies.here)
		lock_in_time(relid, mode);
	else if (!ConditionalLockRelationOid(relid, mode))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" is locked", get_rel_name(relid)),
				 errdetail("It will be tried again.")));
}

void
rose_copy_places_leave(void)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (mine->committed)
		rose_apply.shared->copied_rows += mine->done_rows + mine->rows;
	mine->relid = InvalidOid;
	mine->pid = 0;
	rose_apply.shared->copies_ended++;
	if (rose_apply.shared->latch != NULL)
		SetLatch(rose_apply.shared->latch);
	LWLockRelease(&rose_repl_shared->lock);
	mine = NULL;
}

void
rose_copy_places_expect(int64 rows)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	mine->phase = ROSE_COPY_READING;
	mine->reading_since = GetCurrentTimestamp();
	mine->expected_rows = rows;
	LWLockRelease(&rose_repl_shared->lock);
}

void
rose_copy_places_tell(RoseCopyPhase phase, uint64 rows, uint64 bytes)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	mine->phase = phase;
	mine->rows = rows;
	mine->bytes = bytes;
	LWLockRelease(&rose_repl_shared->lock);
}

struct RoseReplCopyShared *
rose_copy_places_mine(void)
{
	return mine;
}

void
rose_copy_places_set_waiting(int n)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->copies_waiting = n;
	LWLockRelease(&rose_repl_shared->lock);
}

int
rose_copy_places_spare(int most)
{
	int			result;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	result = most - rose_apply.shared->copies_waiting;
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
		result -= OidIsValid(rose_apply.shared->copies[i].relid);
	LWLockRelease(&rose_repl_shared->lock);
	return result;
}

void
rose_copy_places_committed(Oid relid)
{
	const RoseReplRetry none = {0};

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	mine->committed = true;
	LWLockRelease(&rose_repl_shared->lock);
	rose_repl_set_table_retry(rose_apply.sub->subid, relid, &none);
}

/* ---------------------------------------------------------------------
 * Tables that have failed
 */

void
rose_copy_places_note_failure(Oid relid, bool may_pass)
{
	RoseReplRetry retry = {0};
	int64		wait = ROSE_COPY_RETRY_MS;

	(void) rose_repl_table_retry(rose_apply.sub->subid, relid, &retry);
	/* where nobody was to be reached, it does not take longer each time */
	for (int i = 0; i < retry.failures && wait < ROSE_COPY_RETRY_MAX_MS; i++)
		wait *= 2;
	if (!may_pass)
		retry.failures++;
	retry.next = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), Min(wait, ROSE_COPY_RETRY_MAX_MS));
	rose_repl_set_table_retry(rose_apply.sub->subid, relid, &retry);
}

TimestampTz
rose_copy_places_due(Oid relid)
{
	RoseReplRetry retry = {0};

	(void) rose_repl_table_retry(rose_apply.sub->subid, relid, &retry);
	return retry.next;
}

/* ---------------------------------------------------------------------
 * Looking at it
 */

/* What the helpers of this place have of their pieces. */
static void
add_helpers(const RoseReplSubShared *sub, const RoseReplCopyShared *place, RoseReplCopy *copy)
{
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		const RoseReplCopyShared *other = &sub->copies[i];

		if (!OidIsValid(other->relid) || other->pid == 0 || other->leader != place->ticket)
			continue;
		copy->rows += other->rows;
		copy->bytes += other->bytes;
		copy->workers++;
	}
}

static void
describe(const RoseReplSubShared *sub, const RoseReplCopyShared *place, RoseReplCopy *copy)
{
	copy->subid = sub->subid;
	copy->relid = place->relid;
	copy->pid = place->pid;
	copy->phase = place->phase;
	copy->since = place->since;
	copy->reading_since = place->reading_since;
	copy->rows = place->done_rows + place->rows;
	copy->bytes = place->done_bytes + place->bytes;
	copy->expected_rows = place->expected_rows;
	copy->pieces = place->pieces;
	copy->pieces_done = pg_popcount32(place->finished);
	copy->begun_rows = place->begun_rows;
	copy->workers = 1;
	add_helpers(sub, place, copy);
}

int
rose_repl_list_copies(RoseReplCopy *out, int max)
{
	int			n = 0;

	rose_repl_require_shared();
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	for (int i = 0; i < rose_max_subscriptions; i++)
	{
		const RoseReplSubShared *sub = &rose_repl_shared->subs[i];

		for (int j = 0; sub->dbid == MyDatabaseId && j < ROSE_MAX_COPIES && n < max; j++)
		{
			const RoseReplCopyShared *place = &sub->copies[j];

			if (OidIsValid(place->relid) && place->pid != 0 && place->leader == 0)
				describe(sub, place, &out[n++]);
		}
	}
	LWLockRelease(&rose_repl_shared->lock);
	return n;
}
