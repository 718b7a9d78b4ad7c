/*-------------------------------------------------------------------------
 *
 * rose_repl_serve.c
 *	  What backends ask of the worker, served between messages of the stream.
 *
 * An epoch, or its end, before which all must be durable.  What somebody has locked keeps neither the stream nor the worker
 * waiting, as far as it need not.
 *
 * Locking: rose_repl_shared->lock, for moments.
 *
 * Not here: asking (rose_repl_request.c), and what is served while a batch waits for a lock (rose_repl_locks.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "repl/rose_repl_internal.h"

/* Stop with everything applied made durable. */
static void
finish(void)
{
	if (rose_apply.remote.open)
		rose_batch_abort();
	else
		rose_batch_commit();
	rose_epoch_commit();
}

/* Is nothing more to be applied, whatever cannot be made durable yet? */
static bool
is_disabled(void)
{
	RoseSubscription *now;
	bool		result;

	StartTransactionCommand();
	now = rose_subscription_get(rose_apply.sub->subid);
	result = now == NULL || !now->enabled;
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return result;
}

/*
 * The worker is to end, and all must be durable then.  As long as somebody has a table locked that has rows of the epoch that this
 * takes, it applies what needs no such table; so whoever asked for another definition waits for it, and the stream does not.
 */
static bool
may_end(bool drain)
{
	if (rose_apply.remote.open)
		return drain && !rose_flight_is_held_up();
	rose_batch_commit();
	if (rose_apply.epochs.flight == 0)
		rose_epoch_begin();
	return rose_flight_wait_for_writer() || (!drain && is_disabled());
}

/* A request that the epoch in flight is for, or 0. */
static uint64 ticket_in_flight = 0;

static void
note_served(void)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	/* later ones may have been served while a batch waited for a table */
	rose_apply.shared->epoch_served = Max(rose_apply.shared->epoch_served, ticket_in_flight);
	LWLockRelease(&rose_repl_shared->lock);
	ticket_in_flight = 0;
}

/* What was applied before the request must be in it: so not the one in flight already. */
static void
serve_epoch(uint64 ticket)
{
	rose_batch_commit();
	rose_epoch_begin();
	ticket_in_flight = ticket;
	if (rose_apply.epochs.flight == 0)
		note_served();
}

bool
rose_repl_serve_requests(void)
{
	RoseReplSubShared *shared = rose_apply.shared;
	bool		drain;
	bool		reload;
	uint64		asked;
	bool		served;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	drain = shared->drain;
	reload = shared->reload;
	asked = shared->epoch_asked;
	served = shared->epoch_served >= asked;
	LWLockRelease(&rose_repl_shared->lock);

	if ((drain || reload) && may_end(drain))
	{
		finish();
		return true;
	}
	if (rose_flight_poll() && ticket_in_flight != 0)
		note_served();
	else if (!served && !rose_apply.remote.open && rose_apply.epochs.flight == 0)
		serve_epoch(asked);
	return false;
}
