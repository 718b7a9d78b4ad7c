/*-------------------------------------------------------------------------
 *
 * rose_verify_hold.c
 *	  The worker stands still, so that a backend's snapshots here and upstream are of one position.
 *
 * Where a snapshot of the upstream stands in its WAL is known when it is there (the consistent point
 * of a slot), and by then a worker that keeps up is past it.  So it stands still twice:
 *
 * 1 ASKED, STANDS: between two upstream transactions, with all before committed, while the
 * upstream makes the slot.  Its position is still to come, for whatever was applied
 * was in WAL before.
 * 2 GOES, REACHED: the worker goes on to that position, as usual, commits what comes before it and nothing
 * else, and stands still until the backend has taken its snapshot here.
 * 3 REPAIRS, REPAIRED: instead of going on, it writes first what the backend says (rose_repair_apply.c).
 *
 * The upstream hears from it meanwhile.  Nobody is waited for longer than ROSE_HOLD_PATIENCE_MS: then
 * the state is LAPSED, the worker has gone on, and the backend begins anew.  So does it if
 * the worker has ended.  The backend believes nothing that the state does not say in the end, under the lock:
 * who says LAPSED does so before a row changes.
 *
 * This is the worker's side; the backend's is rose_verify_position.c.  Which snapshots those are is rose_verify.c's.
 *
 * Locking: rose_repl_shared->lock, never while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "util/rose_stop_point.h"
#include "repl/rose_repair.h"
#include "repl/rose_repl_internal.h"

/* The worker stands still for no longer than this. */
#define ROSE_HOLD_PATIENCE_MS	5000

/* Between two looks, if no latch is set. */
#define ROSE_HOLD_LOOK_MS		10

/* Where it is to stand still; invalid: nowhere. */
static XLogRecPtr going_to = InvalidXLogRecPtr;

void		(*rose_verify_hold_repair) (RoseReplSubShared *shared) = NULL;

/* REQUIRES: lock exclusive. */
static void
set_state(RoseHoldShared *hold, RoseHoldState state)
{
	hold->state = state;
	if (hold->latch != NULL)
		SetLatch(hold->latch);
}

/* Begin to stand still; false: nobody asks for that any more. */
static bool
begin_standing(RoseHoldShared *hold, RoseHoldState from, RoseHoldState as)
{
	bool		wanted;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	wanted = hold->state == from;
	if (wanted)
	{
		hold->since = GetCurrentTimestamp();
		set_state(hold, as);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return wanted;
}

/* Is it over?  Then also where to go. */
static bool
is_released(RoseReplSubShared *shared, RoseHoldState as)
{
	bool		released;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (shared->hold.state == as &&
		(shared->drain || shared->reload ||
		 TimestampDifferenceExceeds(shared->hold.since, GetCurrentTimestamp(), ROSE_HOLD_PATIENCE_MS)))
		set_state(&shared->hold, ROSE_HOLD_LAPSED);
	released = shared->hold.state != as;
	going_to = shared->hold.state == ROSE_HOLD_GOES ? shared->hold.lsn : InvalidXLogRecPtr;
	LWLockRelease(&rose_repl_shared->lock);
	return released;
}

/* Looked at without the lock: who has asked just now is seen at the next opportunity. */
static bool
is_asked(const RoseReplSubShared *shared)
{
	return *(const volatile RoseHoldState *) &shared->hold.state == ROSE_HOLD_ASKED;
}

bool
rose_verify_hold_is_due(const RoseReplSubShared *shared, XLogRecPtr lsn)
{
	return unlikely(is_asked(shared)) || unlikely(!XLogRecPtrIsInvalid(going_to) && lsn >= going_to);
}

void
rose_verify_hold_stand(RoseReplSubShared *shared, void (*keep_alive) (void))
{
	bool		asked = is_asked(shared);
	RoseHoldState as = asked ? ROSE_HOLD_STANDS : ROSE_HOLD_REACHED;

	going_to = InvalidXLogRecPtr;
	if (!begin_standing(&shared->hold, asked ? ROSE_HOLD_ASKED : ROSE_HOLD_GOES, as))
		return;
	ROSE_STOP_POINT("verify-standing");
	while (!is_released(shared, as))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROSE_HOLD_LOOK_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (keep_alive != NULL)
			keep_alive();
	}
	if (as == ROSE_HOLD_REACHED)
		rose_verify_hold_repair(shared);
	/* it may have been set for something else */
	SetLatch(MyLatch);
}
