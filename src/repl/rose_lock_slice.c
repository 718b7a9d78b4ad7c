/*-------------------------------------------------------------------------
 *
 * rose_lock_slice.c
 *	  Waiting for somebody else's lock for a limited time, where the server's deadlock detector sees it.
 *
 * The end of a slice is a cancel that the process sends itself, and not the server's own timeout of a lock: that is told by the
 * same signal as a cancel of somebody's, who must not go unheard, whenever it comes.
 *
 * Locking: none but what is waited for.
 *
 * What this does not do: what becomes of what waits when its slice is over (rose_repl_locks.c, rose_replace.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_lock_slice.h"
#include "repl/rose_repl_internal.h"

/* The detector looks once in each slice: so late, or in the middle of a shorter one. */
#define ROSE_LOCK_DETECTOR_MS	1000
/* Whether somebody wants something meanwhile is looked at this often. */
#define ROSE_LOCK_LOOK_MS		100

static TimeoutId look_timeout = MAX_TIMEOUTS;	/* not registered yet */
static volatile sig_atomic_t slice_over = false;	/* whatever for */
static volatile sig_atomic_t slice_cut = false; /* as something is asked for */
static volatile sig_atomic_t canceled = false;	/* by somebody, since the slice began or before */
static volatile sig_atomic_t patient = false;	/* there is something that cannot be served */
static TimestampTz slice_ends;

static bool
is_asked(void)
{
	const volatile RoseReplSubShared *shared = rose_apply.shared;

	return shared->drain || shared->reload || shared->epoch_served < shared->epoch_asked;
}

/*
 * A handler of signals.  Who asks for something sets the latch, but a process in a lock's queue goes on waiting: so the wait
 * is canceled.  The place in the queue goes with it, so not in vain.
 */
static void
look_whether_over(void)
{
	if (!patient && is_asked())
		slice_cut = true;
	else if (GetCurrentTimestamp() < slice_ends)
		return;
	slice_over = true;
	QueryCancelPending = true;
	InterruptPending = true;
}

/* A handler of signals. */
static void
note_cancel(SIGNAL_ARGS)
{
	canceled = true;
	StatementCancelHandler(postgres_signal_arg);
}

void
rose_lock_slice_watch_cancels(void)
{
	pqsignal(SIGINT, note_cancel);
}

static void
begin_slice(const RoseLockSlice *slice)
{
	if (look_timeout == MAX_TIMEOUTS)
		look_timeout = RegisterTimeout(USER_TIMEOUT, look_whether_over);
	slice_over = slice_cut = false;
	patient = slice->patient;
	canceled = false;
	if (QueryCancelPending)
		canceled = true;
	/* as if its time were over as soon as it is looked at */
	slice_ends = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
											 ROSE_STOP_POINT_SKIPS("slice-is-long") ? 0 : slice->ms);
	DeadlockTimeout = Min(DeadlockTimeout, Min(ROSE_LOCK_DETECTOR_MS, Max(slice->ms / 2, 1)));
	enable_timeout_every(look_timeout,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ROSE_LOCK_LOOK_MS),
						 ROSE_LOCK_LOOK_MS);
}

static void
end_slice(int deadlock_timeout)
{
	disable_timeout(look_timeout, false);
	/* it may have come when the lock was there; another one is left to who looks next */
	if (slice_over && !canceled)
		QueryCancelPending = false;
	DeadlockTimeout = deadlock_timeout;
}

/* Has the error at hand ended a slice, and nothing else? */
static bool
is_end_of_slice(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_QUERY_CANCELED && slice_over && !canceled;
}

static void
wait_for_it(const RoseLockSlice *slice)
{
	if (TransactionIdIsValid(slice->xid))
		XactLockTableWait(slice->xid, NULL, NULL, XLTW_None);
	else
		LockRelationOid(slice->relid, slice->mode);
}

/* A slice ends as an error, and that takes a subtransaction to survive. */
bool
rose_lock_slice_wait(RoseLockSlice *slice)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			deadlock_timeout = DeadlockTimeout;
	volatile bool got = true;

	slice->deadlocked = false;
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		begin_slice(slice);
		wait_for_it(slice);
		end_slice(deadlock_timeout);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		end_slice(deadlock_timeout);
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		slice->deadlocked = edata->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED && TransactionIdIsValid(slice->xid);
		if (!slice->deadlocked && !is_end_of_slice(edata->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		FreeErrorData(edata);
		got = false;
	}
	PG_END_TRY();
	slice->cut = slice_cut;
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return got;
}
