/*-------------------------------------------------------------------------
 *
 * rose_repl_request.c
 *	  What backends ask of the replication workers.
 *
 * What a transaction asks for (a new, changed or dropped subscription) takes effect
 * when it commits, by the end-of-transaction callback, which cannot fail: whatever
 * needs room was reserved before.  Tables are let go right before.  A drain and an epoch are asked for and waited
 * for at once; a drain is undone if the transaction then aborts.  What was asked for in
 * a subtransaction that aborts is taken back with it.
 *
 * Locking: rose_repl_shared->lock, never while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "util/rose_stop_point.h"
#include "repl/rose_repl_internal.h"

typedef enum RosePendingKind
{
	ROSE_PENDING_RESERVED,
	ROSE_PENDING_CHANGED,
	ROSE_PENDING_REWOUND,
	ROSE_PENDING_ACCEPTED,
	ROSE_PENDING_DROPPED,
	ROSE_PENDING_DRAINED,
	ROSE_PENDING_LET_GO
} RosePendingKind;

typedef struct RosePending
{
	RosePendingKind kind;
	Oid			subid;
	Oid			relid;			/* to be let go, else invalid */
	SubTransactionId level;		/* that asked for it, or the parent of one that has committed */
} RosePending;

static List *pending = NIL;		/* of RosePending, in TopMemoryContext */

/* ---------------------------------------------------------------------
 * Requests that take effect at the end of the transaction
 */

/* Nothing is applied beyond the state row. */
static void
forget_positions(RoseReplSubShared *entry)
{
	RoseReplProgress *progress = &entry->progress;

	SpinLockAcquire(&entry->mutex);
	progress->received_lsn = progress->applied_lsn = progress->durable_lsn =
		progress->confirmed_lsn = InvalidXLogRecPtr;
	memset(&progress->last_commit, 0, sizeof(progress->last_commit));
	progress->fresh_time = 0;
	SpinLockRelease(&entry->mutex);
}

/* REQUIRES: lock exclusive.  The transaction committed. */
static void
pending_commit(const RosePending *item, RoseReplSubShared *entry)
{
	switch (item->kind)
	{
		case ROSE_PENDING_RESERVED:
			entry->reserved_by = 0;
			break;
		case ROSE_PENDING_CHANGED:
			/* which may have put right why tables could not be copied */
			entry->wanted = true;
			entry->reload = true;
			entry->retry_copies = true;
			entry->start_time = 0;
			rose_repl_unblock(entry, false);
			if (entry->latch != NULL)
				SetLatch(entry->latch);
			break;
		case ROSE_PENDING_REWOUND:
			forget_positions(entry);
			break;
		case ROSE_PENDING_ACCEPTED:
			rose_repl_unblock(entry, true);
			break;
		case ROSE_PENDING_DROPPED:
			rose_repl_entry_free(entry);
			break;
		case ROSE_PENDING_DRAINED:
		case ROSE_PENDING_LET_GO:
			break;
	}
}

/* REQUIRES: lock exclusive.  The transaction aborted. */
static void
pending_abort(const RosePending *item, RoseReplSubShared *entry)
{
	if (item->kind == ROSE_PENDING_RESERVED && entry->reserved_by == MyProcPid)
		rose_repl_entry_free(entry);
	else if (item->kind == ROSE_PENDING_DRAINED)
	{
		entry->drain = false;
		entry->wanted = true;
		entry->start_time = 0;
	}
}

/*
 * That nobody feeds a table any more is in its file for good, whatever becomes of the
 * transaction; so that comes when little can keep it from committing.
 */
static void
let_tables_go(void)
{
	ListCell   *lc;

	PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, pending)
	{
		RosePending *item = lfirst(lc);

		if (item->kind == ROSE_PENDING_LET_GO)
			rose_repl_unfeed(item->relid, item->subid);
	}
	PopActiveSnapshot();
}

static void
end_of_transaction(XactEvent event, void *arg)
{
	bool		commit = event == XACT_EVENT_COMMIT;
	ListCell   *lc;

	if (pending == NIL)
		return;
	if (event == XACT_EVENT_PRE_COMMIT)
		let_tables_go();
	if (event == XACT_EVENT_PRE_PREPARE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has changed a rose subscription")));
	if (!commit && event != XACT_EVENT_ABORT)
		return;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	foreach(lc, pending)
	{
		RosePending *item = lfirst(lc);
		RoseReplSubShared *entry = rose_repl_entry(MyDatabaseId, item->subid);

		if (entry == NULL)
			continue;
		if (commit)
			pending_commit(item, entry);
		else
			pending_abort(item, entry);
	}
	rose_repl_wake_launcher();
	LWLockRelease(&rose_repl_shared->lock);

	list_free_deep(pending);
	pending = NIL;
}

static void
end_of_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	ListCell   *lc;

	if (pending == NIL ||
		(event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB))
		return;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	foreach(lc, pending)
	{
		RosePending *item = lfirst(lc);
		RoseReplSubShared *entry = rose_repl_entry(MyDatabaseId, item->subid);

		if (item->level != mine)
			continue;
		item->level = parent;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			continue;
		if (entry != NULL)
			pending_abort(item, entry);
		pending = foreach_delete_current(pending, lc);
	}
	rose_repl_wake_launcher();
	LWLockRelease(&rose_repl_shared->lock);
}

static void
pending_add(RosePendingKind kind, Oid subid, Oid relid)
{
	static bool registered = false;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	RosePending *item = palloc(sizeof(RosePending));

	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		registered = true;
	}
	item->kind = kind;
	item->subid = subid;
	item->relid = relid;
	item->level = GetCurrentSubTransactionId();
	pending = lappend(pending, item);
	MemoryContextSwitchTo(old);
}

void
rose_repl_reserve(Oid subid, const char *name)
{
	RoseReplSubShared *entry;
	bool		made = false;

	rose_repl_require_shared();
	pending_add(ROSE_PENDING_RESERVED, subid, InvalidOid);
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry == NULL)
	{
		entry = rose_repl_entry_make(MyDatabaseId, subid, name);
		made = entry != NULL;
	}
	if (made)
		entry->reserved_by = MyProcPid;
	LWLockRelease(&rose_repl_shared->lock);

	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("all %d places for rose subscriptions are taken", rose_max_subscriptions),
				 errhint("Increase rose.max_subscriptions and restart the server.")));
}

void
rose_repl_changed_at_commit(Oid subid)
{
	pending_add(ROSE_PENDING_CHANGED, subid, InvalidOid);
}

void
rose_repl_rewound_at_commit(Oid subid)
{
	pending_add(ROSE_PENDING_REWOUND, subid, InvalidOid);
}

void
rose_repl_accepted_at_commit(Oid subid)
{
	pending_add(ROSE_PENDING_ACCEPTED, subid, InvalidOid);
}

void
rose_repl_dropped_at_commit(Oid subid)
{
	pending_add(ROSE_PENDING_DROPPED, subid, InvalidOid);
}

void
rose_repl_unfeed_at_commit(Oid relid, Oid subid)
{
	/* nothing is left to wait for then */
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	pending_add(ROSE_PENDING_LET_GO, subid, relid);
}

/* ---------------------------------------------------------------------
 * Requests that are waited for
 */

typedef struct RequestWait
{
	TimestampTz deadline;
	const char *what;			/* for errors: "to ..." */
	TimestampTz error_time;		/* of the worker's last error that was seen */
	int			nerrors;		/* seen while waiting */
	bool		may_see;		/* the caller may read errors, which have values of any table */
	Oid			subid;
	TimestampTz looked;			/* for a deadlock */
	TimestampTz held_up;		/* since when a table that somebody has locked was seen to hold it up; 0: none does */
	bool		told;			/* the caller knows of that */
	int			sqlerrcode;		/* of what is returned as a failure */
} RequestWait;

/* Who is held up by a lock that he does not see is told after so long: most are gone by then. */
#define ROSE_REQUEST_TELL_MS	3000

static void
begin_wait(RequestWait *wait, Oid subid, const char *what, int timeout_s)
{
	wait->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												 timeout_s * INT64CONST(1000));
	wait->what = what;
	wait->error_time = -1;
	wait->nerrors = 0;
	wait->subid = subid;
	wait->looked = GetCurrentTimestamp();
	wait->held_up = 0;
	wait->told = false;
	wait->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	wait->may_see = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/*
 * A worker that fails again and again will not do what was asked: why, or NULL.
 * REQUIRES: lock.
 */
static char *
worker_failure(RequestWait *wait, const RoseReplSubShared *entry)
{
	if (wait->error_time != -1 && entry->last_error_time != wait->error_time)
		wait->nerrors++;
	wait->error_time = entry->last_error_time;
	if (wait->nerrors < 3)
		return NULL;
	if (!wait->may_see)
		return psprintf("the replication worker cannot %s", wait->what);
	return psprintf("the replication worker cannot %s: %s", wait->what, entry->last_error);
}

/* The server does not see a deadlock with the worker: nobody waits for a lock of its. */
static bool
is_deadlock(RequestWait *wait)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(wait->looked, now, DeadlockTimeout))
		return false;
	wait->looked = now;
	if (!rose_repl_request_is_hopeless(wait->subid))
		return false;
	wait->sqlerrcode = ERRCODE_T_R_DEADLOCK_DETECTED;
	return true;
}

/*
 * An epoch cannot be written while somebody has a table locked that has changes for it, and nothing can be served that needs it.  So
 * the caller is told of that, and his lock_timeout counts as if he waited for the lock.  True: it has passed.
 */
static bool
is_held_up(RequestWait *wait)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		for_epoch;

	if (!OidIsValid(rose_repl_held_up_by(wait->subid, &for_epoch)) || !for_epoch)
	{
		wait->held_up = 0;
		return false;
	}
	if (wait->held_up == 0)
		wait->held_up = now;
	if (LockTimeout > 0 && TimestampDifferenceExceeds(wait->held_up, now, LockTimeout))
	{
		wait->sqlerrcode = ERRCODE_LOCK_NOT_AVAILABLE;
		return true;
	}
	if (!wait->told && (TimestampDifferenceExceeds(wait->held_up, now, ROSE_REQUEST_TELL_MS) ||
						ROSE_STOP_POINT_SKIPS("request-is-patient")))
	{
		char	   *why = rose_repl_describe_wait(wait->subid);

		wait->told = true;
		ereport(NOTICE,
				(errmsg("the replication worker cannot %s yet", wait->what),
				 why != NULL ? errdetail_internal("%s", why) : 0));
	}
	return false;
}

/* Sleep for a little; why not to wait any longer, or NULL. */
static char *
wait_a_little(RequestWait *wait)
{
	int			rc;

	rc = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10L,
				   PG_WAIT_EXTENSION);
	if (rc & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (is_deadlock(wait))
		return psprintf("the replication worker cannot %s while it waits for a lock that this transaction holds, or somebody who waits for it",
						wait->what);
	if (is_held_up(wait))
		return psprintf("the replication worker cannot %s within lock_timeout", wait->what);
	if (GetCurrentTimestamp() <= wait->deadline)
		return NULL;
	return psprintf("timed out while waiting for the replication worker to %s", wait->what);
}

static void
report_failure(const RequestWait *wait, const char *failure)
{
	bool		deadlock = wait->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED;
	char	   *why = wait->held_up != 0 && !deadlock ? rose_repl_describe_wait(wait->subid) : NULL;

	ereport(ERROR,
			(errcode(wait->sqlerrcode),
			 errmsg_internal("%s", failure),
			 why != NULL ? errdetail_internal("%s", why) : 0,
			 deadlock ?
			 errhint("Do this in a transaction that has locked no table of the subscription.") :
			 why != NULL ?
			 errhint("The table has changes that have to be made durable first.  End the transaction that has it locked, with pg_terminate_backend() or ROLLBACK PREPARED if need be.") :
			 errhint("See last_error in rose.stat_subscription and the server log.")));
}

/*
 * A worker that is told to end applies nothing while it waits for a table.  So it is not told before it can.
 */
static void
wait_until_not_held_up(RequestWait *wait)
{
	bool		for_epoch;

	while (OidIsValid(rose_repl_held_up_by(wait->subid, &for_epoch)) && for_epoch)
	{
		char	   *failure = wait_a_little(wait);

		if (failure != NULL)
			report_failure(wait, failure);
	}
}

static void
cancel_drain(int code, Datum arg)
{
	RoseReplSubShared *entry;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, DatumGetObjectId(arg));
	if (entry != NULL)
		entry->drain = false;
	LWLockRelease(&rose_repl_shared->lock);
}

/* Ask once; false: there is nothing to drain. */
static bool
ask_to_drain(Oid subid)
{
	RoseReplSubShared *entry;
	bool		running;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	running = entry != NULL && (entry->wanted || entry->pid != 0);
	if (running)
	{
		entry->drain = true;
		entry->drained = false;
		entry->start_time = 0;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
		rose_repl_wake_launcher();
	}
	LWLockRelease(&rose_repl_shared->lock);
	return running;
}

/* The worker has stopped after a drain; then the request is over. */
static bool
is_drained(Oid subid, RequestWait *wait, char **failure)
{
	RoseReplSubShared *entry;
	bool		done;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL)
		*failure = worker_failure(wait, entry);
	done = entry == NULL || (entry->drained && entry->pid == 0);
	if (entry != NULL && done)
		entry->drain = false;
	LWLockRelease(&rose_repl_shared->lock);
	return done;
}

static void
wait_until_drained(Oid subid, RequestWait *wait)
{
	char	   *failure = NULL;

	while (!is_drained(subid, wait, &failure))
	{
		if (failure == NULL)
			failure = wait_a_little(wait);
		if (failure != NULL)
			report_failure(wait, failure);
	}
}

/*
 * If the calling transaction aborts, the worker starts again.
 */
void
rose_repl_drain(Oid subid, int timeout_s)
{
	RequestWait wait;

	rose_repl_require_shared();
	begin_wait(&wait, subid, "stop", timeout_s);
	wait_until_not_held_up(&wait);
	if (!ask_to_drain(subid))
		return;
	pending_add(ROSE_PENDING_DRAINED, subid, InvalidOid);

	PG_ENSURE_ERROR_CLEANUP(cancel_drain, ObjectIdGetDatum(subid));
	{
		wait_until_drained(subid, &wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(cancel_drain, ObjectIdGetDatum(subid));
}

/* Ask once for an epoch; 0: no worker runs, and one that stopped in good order left nothing. */
static uint64
ask_for_epoch(Oid subid)
{
	RoseReplSubShared *entry;
	uint64		ticket = 0;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL && (entry->wanted || entry->pid != 0))
	{
		ticket = ++entry->epoch_asked;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
		else
		{
			/* one that failed would wait before its next try */
			entry->start_time = 0;
			rose_repl_wake_launcher();
		}
	}
	LWLockRelease(&rose_repl_shared->lock);
	return ticket;
}

static bool
is_served(Oid subid, uint64 ticket, RequestWait *wait, char **failure)
{
	RoseReplSubShared *entry;
	bool		served;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	served = entry == NULL || (!entry->wanted && entry->pid == 0) ||
		entry->epoch_served >= ticket;
	if (!served)
		*failure = worker_failure(wait, entry);
	LWLockRelease(&rose_repl_shared->lock);
	return served;
}

/* What went wrong, or NULL. */
static char *
spill(RequestWait *wait, int timeout_s)
{
	uint64		ticket;
	char	   *failure = NULL;

	rose_repl_require_shared();
	begin_wait(wait, wait->subid, "commit an epoch", timeout_s);
	ticket = ask_for_epoch(wait->subid);
	while (ticket != 0 && failure == NULL && !is_served(wait->subid, ticket, wait, &failure))
	{
		if (failure == NULL)
			failure = wait_a_little(wait);
	}
	return failure;
}

char *
rose_repl_try_spill(Oid subid, int timeout_s)
{
	RequestWait wait = {.subid = subid};

	return spill(&wait, timeout_s);
}

void
rose_repl_spill(Oid subid, int timeout_s)
{
	RequestWait wait = {.subid = subid};
	char	   *failure = spill(&wait, timeout_s);

	if (failure != NULL)
		report_failure(&wait, failure);
}
