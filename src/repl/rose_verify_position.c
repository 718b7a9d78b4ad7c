/*-------------------------------------------------------------------------
 *
 * rose_verify_position.c
 *	  A backend has the worker stand still where it takes its snapshots: its side of rose_verify_hold.c.
 *
 * One backend at a time; others wait for their turn.  Who waits here hears of a
 * subscription that will not get anywhere, of a deadlock with its worker, of a
 * cancel and of the deadline, whichever comes first.
 *
 * Locking: rose_repl_shared->lock, never while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "repl/rose_owner.h"
#include "repl/rose_repair.h"
#include "repl/rose_repl_internal.h"

/* Between two looks, if no latch is set. */
#define ROSE_POSITION_NAP_MS	10

/* What the subscription's worker is, or is not; error if it will not get anywhere. */
static void
require_worker(const RoseSubscription *sub, const RoseReplSnapshot *snapshot, bool known, const char *what)
{
	if (known && snapshot->blocked[0] != '\0' && !snapshot->looks_again)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s: rose subscription \"%s\" is blocked: %s", what, sub->name, snapshot->blocked),
				 errhint("See last_error in rose.stat_subscription, which says what to do.")));
	if (!known || (snapshot->pid == 0 && snapshot->status == ROSE_REPL_STOPPED && !sub->enabled))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s: rose subscription \"%s\" has no worker", what, sub->name),
				 errhint("Enable it with rose.alter_subscription(..., enabled => true).")));
}

/* The server does not see a deadlock with the worker: nobody waits for a lock of its. */
static void
require_no_deadlock(const RoseSubscription *sub, const char *what)
{
	static TimestampTz looked = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(looked, now, DeadlockTimeout))
		return;
	looked = now;
	if (rose_repl_request_is_hopeless(sub->subid))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("cannot %s while the worker of rose subscription \"%s\" waits for a lock that this transaction holds, or somebody who waits for it",
						what, sub->name),
				 errhint("Do this in a transaction that has locked no table of the subscription.")));
}

void
rose_verify_position_nap(const RoseSubscription *sub, TimestampTz deadline, const char *what, const char *why)
{
	RoseReplSnapshot snapshot;
	bool		known;
	char	   *waits;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROSE_POSITION_NAP_MS,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	known = rose_repl_get(sub->subid, &snapshot);
	require_worker(sub, &snapshot, known, what);
	require_no_deadlock(sub, what);
	if (GetCurrentTimestamp() <= deadline)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("timed out while trying to %s, of rose subscription \"%s\"", what, sub->name),
			 why != NULL ? errdetail_internal("%s", why) :
			 (waits = rose_repl_describe_wait(sub->subid)) != NULL ? errdetail_internal("%s", waits) :
			 rose_owner_may_see_error(&snapshot) ? errdetail("Its last error was: %s", snapshot.last_error) : 0));
}

/* Ask, if it is our turn. */
static bool
ask(Oid subid)
{
	RoseReplSubShared *entry;
	bool		asked;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	asked = entry != NULL && entry->hold.pid == 0;
	if (asked)
	{
		entry->hold.pid = MyProcPid;
		entry->hold.latch = MyLatch;
		entry->hold.lsn = InvalidXLogRecPtr;
		entry->hold.stood_us = 0;
		entry->hold.state = ROSE_HOLD_ASKED;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return asked;
}

static RoseHoldState
state_of(Oid subid)
{
	RoseReplSubShared *entry;
	RoseHoldState state = ROSE_HOLD_LAPSED;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL && entry->hold.pid == MyProcPid)
		state = entry->hold.state;
	LWLockRelease(&rose_repl_shared->lock);
	return state;
}

void
rose_verify_position_begin(const RoseSubscription *sub, TimestampTz deadline)
{
	RoseHoldState state;

	rose_repl_require_shared();
	while (!ask(sub->subid))
		rose_verify_position_nap(sub, deadline, "have the worker stop for a moment", "Another session does so, and has it stand still.");
	while ((state = state_of(sub->subid)) != ROSE_HOLD_STANDS)
	{
		rose_verify_position_nap(sub, deadline, "have the worker stop for a moment", NULL);
		if (state == ROSE_HOLD_LAPSED)
		{
			/* the next worker does it */
			(void) rose_verify_position_end(sub->subid, NULL);
			while (!ask(sub->subid))
				rose_verify_position_nap(sub, deadline, "have the worker stop for a moment", "Another session does so, and has it stand still.");
		}
	}
}

bool
rose_verify_position_go(const RoseSubscription *sub, XLogRecPtr lsn)
{
	RoseReplSubShared *entry;
	bool		stands;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, sub->subid);
	stands = entry != NULL && entry->hold.pid == MyProcPid && entry->hold.state == ROSE_HOLD_STANDS;
	if (stands)
	{
		entry->hold.lsn = lsn;
		entry->hold.stood_us = GetCurrentTimestamp() - entry->hold.since;
		entry->hold.state = ROSE_HOLD_GOES;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return stands;
}

bool
rose_verify_position_wait(const RoseSubscription *sub, TimestampTz deadline)
{
	RoseHoldState state;

	while ((state = state_of(sub->subid)) == ROSE_HOLD_GOES)
		rose_verify_position_nap(sub, deadline, "have the worker reach the upstream's position", NULL);
	return state == ROSE_HOLD_REACHED;
}

/* The state moves from REACHED to REPAIRS; false: the worker does not stand still there any more. */
static bool
ask_to_repair(Oid subid, dsm_handle changes)
{
	RoseReplSubShared *entry;
	bool		stands;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	stands = entry != NULL && entry->hold.pid == MyProcPid && entry->hold.state == ROSE_HOLD_REACHED;
	if (stands)
	{
		entry->hold.changes = changes;
		entry->hold.state = ROSE_HOLD_REPAIRS;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return stands;
}

bool
rose_verify_position_repair(const RoseSubscription *sub, TimestampTz deadline, dsm_handle changes)
{
	RoseHoldState state;
	RoseReplSnapshot snapshot;

	if (!ask_to_repair(sub->subid, changes))
		return false;
	while ((state = state_of(sub->subid)) == ROSE_HOLD_REPAIRS)
		rose_verify_position_nap(sub, deadline, "have the worker repair rows",
								 "The worker may still do so.");
	if (state == ROSE_HOLD_REPAIRED)
		return true;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the worker of rose subscription \"%s\" has ended while it repaired rows", sub->name),
			 rose_repl_get(sub->subid, &snapshot) && rose_owner_may_see_error(&snapshot) ?
			 errdetail("Its last error was: %s", snapshot.last_error) : 0,
			 errhint("See with rose.verify whether it was done.")));
	return false;				/* keep compiler quiet */
}

bool
rose_verify_position_end(Oid subid, int64 *stood_us)
{
	RoseReplSubShared *entry;
	bool		reached = false;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL && entry->hold.pid == MyProcPid)
	{
		reached = entry->hold.state == ROSE_HOLD_REACHED || entry->hold.state == ROSE_HOLD_REPAIRED;
		if (stood_us != NULL)
			*stood_us = entry->hold.stood_us + (reached ? GetCurrentTimestamp() - entry->hold.since : 0);
		entry->hold.state = ROSE_HOLD_NONE;
		entry->hold.pid = 0;
		entry->hold.latch = NULL;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return reached;
}
