/*-------------------------------------------------------------------------
 *
 * rose_copies.c
 *	  Which tables of a subscription are copied, when, and how the stream takes them in.
 *
 * The subscription's worker decides.  Tables that wait for a copy are looked at together, before
 * one byte of them is copied, so that whatever is wrong with some is known at once.
 * Then each is copied by itself (rose_copy_worker.c), a few at a time, while the stream goes on
 * with those that are there.  When there is no process for that, the worker copies one itself,
 * between two batches; the stream stays connected, and goes on before the next one.
 *
 * A table that is copied has everything up to a position of its own, and by then the stream
 * is further.  So the stream goes back to the earliest of these positions
 * (rose_rewind.c), for all that are copied at once: when nothing is copied any more, or one
 * has waited for long enough.  That is for longer while the upstream has sent parts of transactions in
 * progress, which it would have to send again.  Until it does, their changes are skipped, and the upstream keeps
 * them: while a table is copied or waits, no later position is confirmed than that
 * which was when its copy began (RoseApplyCopies.hold).
 *
 * As long as no table has changes to be applied there is nothing to stream for, and the worker
 * waits for the copies.  Then the stream begins at the earliest position.
 *
 * Locking: none while it waits.  A table's row is written by who copies it as long as it has a
 * place (rose_copy_places.c), and by the worker else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "replication/walreceiver.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_chunks.h"
#include "repl/rose_old_rows.h"
#include "repl/rose_repl_internal.h"

/* Tables are looked at again after so long, whatever is heard of them. */
#define ROSE_COPIES_LOOK_MS		1000
/* While it waits for copies, the worker sees to requests this often. */
#define ROSE_COPIES_NAP_MS		50
/* When there was no process for a copy, it is asked for again after so long. */
#define ROSE_NO_PROCESS_MS		5000
/* After a copy that failed in this process, the stream has at least so long. */
#define ROSE_HERE_FAILED_MS		5000
/* While a copy is made here, the upstream hears from us, and requests are looked at, about this often. */
#define ROSE_HERE_LOOK_MS		200
/*
 * While parts of transactions in progress are here, tables that are copied wait for so long; each time that it was in
 * vain for twice as long, up to an hour.
 */
#define ROSE_OPEN_PATIENCE_MS	60000
#define ROSE_OPEN_PATIENCE_MAX	6

/* What the rows of the tables say. */
typedef struct Look
{
	List	   *due;			/* to be copied now */
	List	   *abandoned;		/* nobody copies them, though their rows say so */
	List	   *not_worth_it;	/* there are pieces of them, for which the upstream need keep no more WAL */
	int			running;		/* or to run */
	Oid			copying[ROSE_MAX_COPIES];
	int			ncopied;
	XLogRecPtr	hold;			/* see RoseApplyCopies */
	bool		live;			/* the changes of some are applied */
	TimestampTz next;			/* when the next one is due; 0: none waits for that */
} Look;

/* ---------------------------------------------------------------------
 * Looking
 */

static bool
is_running(const Look *look, Oid relid)
{
	for (int i = 0; i < look->running; i++)
	{
		if (look->copying[i] == relid)
			return true;
	}
	return false;
}

/*
 * What there is of an interrupted copy is kept while it is likely to go on, and the upstream need not keep more WAL for it than for a paused table.
 */
static bool
are_worth_it(const RoseSubscriptionTable *table)
{
	const RoseReplProgress *progress = &rose_apply.progress;
	XLogRecPtr	end = Max(progress->upstream_lsn, progress->received_lsn);

	return strcmp(table->state, ROSE_REL_ERROR) != 0 &&
		(rose_max_paused_wal_size < 0 || end <= table->pieces_lsn ||
		 end - table->pieces_lsn <= (uint64) rose_max_paused_wal_size * 1024 * 1024);
}

static void
look_at_waiting(Look *look, const RoseSubscriptionTable *table, TimestampTz now)
{
	bool		copying = strcmp(table->state, ROSE_REL_COPYING) == 0;
	TimestampTz due = rose_copy_places_due(table->relid);
	MemoryContext old;

	/* as long as they are there */
	if (!XLogRecPtrIsInvalid(table->pieces_lsn))
		look->hold = Min(look->hold, table->pieces_lsn);
	if (is_running(look, table->relid))
	{
		look->hold = Min(look->hold, table->sync_lsn);
		return;
	}
	old = MemoryContextSwitchTo(rose_apply.message_context);
	if (!XLogRecPtrIsInvalid(table->pieces_lsn) && !are_worth_it(table))
		look->not_worth_it = lappend_oid(look->not_worth_it, table->relid);
	if (due <= now)
		look->due = lappend_oid(look->due, table->relid);
	else
	{
		look->next = look->next == 0 ? due : Min(look->next, due);
		if (copying)
			look->abandoned = lappend_oid(look->abandoned, table->relid);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Who leaves his place has written the row before, so places are looked at before rows;
 * and who takes one is this process.
 */
static void
look_at_tables(Look *look)
{
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *lc;

	memset(look, 0, sizeof(*look));
	look->hold = PG_UINT64_MAX;
	look->running = rose_copy_places_taken(look->copying);
	rose_repl_local_begin();
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		look->live |= rose_subscription_table_is_live(table);
		if (rose_subscription_table_waits(table))
			look_at_waiting(look, table, now);
		if (strcmp(table->state, ROSE_REL_COPIED) != 0)
			continue;
		look->ncopied++;
		look->hold = Min(look->hold, table->sync_lsn);
	}
	rose_repl_local_commit();
}

/* How often transactions in progress were received anew for tables that were copied, since none was, or was to be. */
static void
set_anew(int n)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->received_anew = n;
	LWLockRelease(&rose_repl_shared->lock);
}

static int
get_anew(void)
{
	int			n;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	n = rose_apply.shared->received_anew;
	LWLockRelease(&rose_repl_shared->lock);
	return n;
}

/* What the stream, and the next look, have to know. */
static void
remember(const Look *look)
{
	RoseApplyCopies *copies = &rose_apply.copies;
	TimestampTz now = GetCurrentTimestamp();

	copies->outstanding = look->running > 0 || look->ncopied > 0 || look->due != NIL || look->next != 0;
	if (look->running == 0 && look->ncopied == 0 && look->due == NIL)
		set_anew(0);
	copies->hold = look->hold;
	if (look->ncopied == 0)
		copies->copied = 0;
	else if (copies->copied == 0)
		copies->copied = now;
	copies->look = TimestampTzPlusMilliseconds(now, ROSE_COPIES_LOOK_MS);
}

/* ---------------------------------------------------------------------
 * Before copies begin
 */

static void
check_table(WalReceiverConn *conn, Oid relid)
{
	PG_TRY();
	{
		rose_repl_local_begin();
		rose_copy_check(conn, relid);
		rose_repl_local_commit();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(rose_apply.message_context);
		edata = CopyErrorData();
		/* of the connection, for one, there is more to be said than of a table */
		if (rose_table_error_may_pass(edata->sqlerrcode) &&
			edata->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(rose_apply.message_context);
		rose_table_error_record_copy(relid, rose_repl_form_message(edata), edata->sqlerrcode);
	}
	PG_END_TRY();
}

/* Whatever is wrong with some of them, on either side, is known before the first is copied. */
static void
check_tables(List *relids)
{
	WalReceiverConn *conn = rose_upstream_connect(rose_apply.sub);
	ListCell   *lc;

	(void) rose_upstream_identity_check(conn, false);
	foreach(lc, relids)
	{
		CHECK_FOR_INTERRUPTS();
		check_table(conn, lfirst_oid(lc));
	}
	rose_upstream_disconnect(conn);
}

/* ---------------------------------------------------------------------
 * Beginning and ending copies
 */

static void
set_state(List *relids, const char *state)
{
	ListCell   *lc;

	if (relids == NIL)
		return;
	rose_repl_local_begin();
	foreach(lc, relids)
		rose_subscription_set_state_of_table(rose_apply.sub->subid, lfirst_oid(lc), state);
	rose_repl_local_commit();
}

/* From the next look on, the upstream need not keep what they lack.  Those that somebody merges are kept for that long. */
static void
forget_pieces(const Look *look)
{
	ListCell   *lc;

	if (look->not_worth_it == NIL)
		return;
	rose_repl_local_begin();
	foreach(lc, look->not_worth_it)
	{
		RoseChunks *chunks = rose_chunks_get(rose_apply.sub->subid, lfirst_oid(lc));

		if (chunks == NULL)
			continue;
		if (!OidIsValid(chunks->made) || ConditionalLockRelationOid(chunks->made, AccessExclusiveLock))
			rose_chunks_forget(rose_apply.sub->subid, lfirst_oid(lc));
	}
	ForceSyncCommit();
	rose_repl_local_commit();
}

static bool
has_broken(void)
{
	bool		result = false;
	ListCell   *lc;

	rose_repl_local_begin();
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
		result |= ((RoseSubscriptionTable *) lfirst(lc))->broken;
	rose_repl_local_commit();
	return result;
}

/*
 * The rows of such a table are of several positions, and a change could not be applied to them.  One that is paused waits until it is resumed.
 * REQUIRES: nothing is applied.
 */
static void
copy_broken_again(void)
{
	Oid			subid = rose_apply.sub->subid;
	ListCell   *lc;

	if (!has_broken())
		return;
	/* what it has is in its file, as for any table that is to be copied again */
	rose_epoch_commit();
	rose_repl_local_begin();
	foreach(lc, rose_subscription_tables(subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (!table->broken || !rose_subscription_table_is_live(table))
			continue;
		rose_chunks_forget(subid, table->relid);
		rose_subscription_set_table(subid, table->relid, ROSE_REL_INIT, InvalidXLogRecPtr, NULL, NULL, InvalidXLogRecPtr);
		rose_old_rows_note(subid, table->relid, InvalidXLogRecPtr);
	}
	rose_repl_local_commit();
}

/*
 * Its row says from where on the upstream must keep WAL, before the copy's slot
 * is made; that slot stands later.  False: there is no place.
 */
static bool
claim(Oid relid, uint64 *ticket)
{
	if (!rose_copy_places_take(relid, ticket))
		return false;
	rose_repl_local_begin();
	rose_subscription_set_copying(rose_apply.sub->subid, relid, rose_apply.epochs.recorded_lsn);
	rose_repl_local_commit();
	rose_apply.copies.hold = Min(rose_apply.copies.hold, rose_apply.epochs.recorded_lsn);
	return true;
}

/* A process of its own; false: there is no place for it, or no process. */
static bool
start_copier(Oid relid)
{
	uint64		ticket;

	if (!claim(relid, &ticket))
		return false;
	if (rose_copy_worker_start(relid, ticket, false))
		return true;
	rose_copy_places_give_back(ticket);
	rose_apply.copies.no_process = GetCurrentTimestamp();
	return false;
}

/* As many as may be copied at a time; false: it cannot be done by other processes. */
static bool
start_copiers(const Look *look)
{
	int			n = 0;

	/* asking writes the table's row */
	if (look->due != NIL &&
		!TimestampDifferenceExceeds(rose_apply.copies.no_process, GetCurrentTimestamp(), ROSE_NO_PROCESS_MS))
		return look->running > 0;
	while (n < list_length(look->due) && look->running + n < rose_max_copy_workers &&
		   start_copier(list_nth_oid(look->due, n)))
		n++;
	/* with no processes at all it is this one's turn, and nobody helps */
	rose_copy_places_set_waiting(list_length(look->due) - n);
	return look->due == NIL || look->running + n > 0;
}

/* Somebody wants something of the worker that must not wait for a copy. */
static bool
must_end(void)
{
	const RoseReplSubShared *shared = rose_apply.shared;
	bool		result;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	result = shared->drain || shared->reload;
	LWLockRelease(&rose_repl_shared->lock);
	return result;
}

/* What was asked for is served: nothing is applied that is not durable. */
static void
serve_requests(void)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->epoch_served = rose_apply.shared->epoch_asked;
	LWLockRelease(&rose_repl_shared->lock);
}

static void
show_status(RoseReplStatus status)
{
	rose_apply.status = status;
	rose_repl_publish(rose_apply.shared, status, &rose_apply.progress);
}

/*
 * In this process.  Nothing is applied meanwhile; what was before is made durable, so that no memory is held and
 * whoever asks for an epoch need not wait.
 */
static void
copy_here(Oid relid)
{
	RoseApplyCopies *copies = &rose_apply.copies;
	RoseReplStatus status = rose_apply.status;
	TimestampTz begun;
	uint64		ticket;

	rose_epoch_commit();
	if (must_end() || !claim(relid, &ticket))
		return;
	begun = GetCurrentTimestamp();
	copies->here = true;
	show_status(ROSE_REPL_COPYING);
	copies->here_failed = !rose_copy_worker_here(relid, ticket);
	copies->here = false;
	show_status(status);
	copies->here_ended = GetCurrentTimestamp();
	copies->here_next = copies->here_ended +
		(copies->here_failed ? ROSE_HERE_FAILED_MS * INT64CONST(1000) : copies->here_ended - begun);
	/* there may be one for the next */
	copies->no_process = 0;
}

/*
 * Between two copies that are made here the stream catches up, or at least has as long as the copy has taken.
 */
static bool
stream_has_had_its_turn(void)
{
	const RoseApplyCopies *copies = &rose_apply.copies;
	const RoseReplProgress *progress = &rose_apply.progress;

	if (GetCurrentTimestamp() >= copies->here_next)
		return true;
	return !copies->here_failed && progress->asked_time > copies->here_ended &&
		progress->applied_lsn >= Max(progress->upstream_lsn, progress->received_lsn);
}

void
rose_copies_breathe(void)
{
	static TimestampTz looked = 0;
	TimestampTz now;

	if (!rose_apply.copies.here)
		return;
	now = GetCurrentTimestamp();
	if (!TimestampDifferenceExceeds(looked, now, ROSE_HERE_LOOK_MS))
		return;
	looked = now;
	rose_apply_keep_alive();
	serve_requests();
	if (must_end())
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("the copy was given up because the subscription is to be changed, or its worker to start over")));
}

/* ---------------------------------------------------------------------
 * Taking them in
 */

/*
 * Who waits for a position looks at this one, and then whether the tables are there: so
 * it goes back first.
 */
static void
move_to(XLogRecPtr lsn)
{
	RoseReplProgress *progress = &rose_apply.progress;

	if (lsn == progress->applied_lsn)
		return;
	progress->applied_lsn = progress->durable_lsn = lsn;
	memset(&progress->last_commit, 0, sizeof(progress->last_commit));
	progress->fresh_time = 0;
	rose_apply.batch.reached_lsn = lsn;
	rose_apply.batch.reached = progress->last_commit;
	rose_repl_publish(rose_apply.shared, rose_apply.status, progress);
}

static List *
copied_among(List *tables)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_COPIED) == 0)
			result = lappend(result, table);
	}
	return result;
}

static XLogRecPtr
earliest_of(List *tables)
{
	XLogRecPtr	result = PG_UINT64_MAX;
	ListCell   *lc;

	foreach(lc, tables)
		result = Min(result, ((RoseSubscriptionTable *) lfirst(lc))->sync_lsn);
	return result;
}

/*
 * Where the stream begins with tables that were copied, the earliest of them at that position.  If no other table is live, nobody
 * needs what comes before.  But a copy has not waited for all that were prepared before its position: one that began late, and was
 * prepared soon, is in no copy, and a slot of that kind says no more of it than that it has committed.  So what is prepared is received from the
 * slot's position on.
 */
static XLogRecPtr
beginning_of(const Look *look, XLogRecPtr copied, XLogRecPtr applied)
{
	RoseUpstreamSlot slot;

	if (look->live)
		return Min(copied, applied);
	if (!rose_apply.sub->two_phase ||
		!rose_upstream_find_slot(rose_stream_side_connection(), rose_apply.sub->slot_name, &slot) || !slot.two_phase)
		return copied;
	return Min(copied, Max(applied, slot.confirmed_lsn));
}

/* REQUIRES: no open batch. */
static void
take_in(const Look *look)
{
	RoseSubscription *sub = rose_apply.sub;
	XLogRecPtr	applied;
	XLogRecPtr	lsn;
	List	   *tables;
	List	   *copied;
	int			ncopied;
	ListCell   *lc;

	ROSE_STOP_POINT("copies-looked");
	/* the state row says how far the others are, in case this fails */
	rose_epoch_commit();
	applied = rose_apply.progress.applied_lsn;
	rose_apply.progress.durable_lsn = applied;
	if (applied > rose_apply.epochs.row_lsn)
		rose_epoch_record_idle();

	rose_repl_local_begin();
	tables = rose_subscription_tables(sub->subid);
	/* not those of the look: others may have been copied since, of earlier positions */
	copied = copied_among(tables);
	if (copied == NIL)
	{
		rose_repl_local_commit();
		return;
	}
	ncopied = list_length(copied);
	lsn = beginning_of(look, earliest_of(copied), applied);
	move_to(lsn);
	if (lsn != applied)
		rose_rewind_to(sub, rose_apply.progress.epoch, applied, tables, copied, lsn);
	foreach(lc, copied)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		rose_subscription_set_table(sub->subid, table->relid, ROSE_REL_READY, table->sync_lsn,
									NULL, NULL, InvalidXLogRecPtr);
	}
	ForceSyncCommit();
	ROSE_STOP_POINT("copies-taken-in");
	rose_repl_local_commit();
	rose_epoch_note_row(lsn);
	if (rose_apply.progress.streams > 0)
		set_anew(get_anew() + 1);
	ereport(LOG,
			(errmsg("rose subscription \"%s\" goes on at %X/%X with tables that were copied: %d",
					sub->name, LSN_FORMAT_ARGS(lsn), ncopied)));
}

/*
 * None is copied any more, or one has waited for others that may take for long.  Transactions in progress of which parts
 * are here come again from their beginnings, so for their sake those that have failed are waited for, too.
 */
static bool
is_time(const Look *look)
{
	bool		open = rose_apply.progress.streams > 0;
	int64		patience = rose_copied_patience;

	if (look->ncopied == 0)
		return false;
	if (look->running == 0 && look->due == NIL && !(open && look->next != 0))
		return true;
	if (open)
		patience = Max(patience, (int64) ROSE_OPEN_PATIENCE_MS << Min(get_anew(), ROSE_OPEN_PATIENCE_MAX));
	return TimestampDifferenceExceeds(rose_apply.copies.copied, GetCurrentTimestamp(), (int) patience);
}

/* ---------------------------------------------------------------------
 * Before the stream, and beside it
 */

/* False: there is nothing to wait for, or the stream has something to do. */
static bool
wait_for_copies(const Look *look, long nap_ms)
{
	if (must_end() || look->live || is_time(look) || (look->running == 0 && look->due == NIL))
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 nap_ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	rose_repl_look_at_owner();
	serve_requests();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	return true;
}

/*
 * Whoever has changed the subscription may have put right why tables could not be copied: so they wait as if they had
 * not been tried.
 */
static void
retry_failed(void)
{
	List	   *failed = NIL;
	ListCell   *lc;

	if (!rose_repl_retries_copies(rose_apply.sub->subid))
		return;
	rose_repl_forget_retries(rose_apply.sub->subid);
	rose_repl_local_begin();
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_ERROR) == 0 && rose_subscription_table_waits(table))
			failed = lappend_oid(failed, table->relid);
	}
	foreach(lc, failed)
		rose_subscription_set_state_of_table(rose_apply.sub->subid, lfirst_oid(lc), ROSE_REL_INIT);
	rose_repl_local_commit();

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	/* or it was changed again, which the next worker sees to */
	if (!rose_apply.shared->reload)
		rose_apply.shared->retry_copies = false;
	LWLockRelease(&rose_repl_shared->lock);
}

bool
rose_copies_before_stream(void)
{
	Look		look;
	bool		here;

	retry_failed();
	copy_broken_again();
	look_at_tables(&look);
	if (look.due != NIL)
	{
		check_tables(look.due);
		rose_repl_publish(rose_apply.shared, ROSE_REPL_COPYING, &rose_apply.progress);
	}
	do
	{
		MemoryContextReset(rose_apply.message_context);
		(void) rose_copy_places_changed();
		look_at_tables(&look);
		set_state(look.abandoned, ROSE_REL_INIT);
		forget_pieces(&look);
		remember(&look);
		/* beside a stream, if there is something to stream for */
		here = !start_copiers(&look) && !look.live;
		if (here)
			copy_here(linitial_oid(look.due));
		if (look.due != NIL)
		{
			look_at_tables(&look);
			remember(&look);
		}
	} while (wait_for_copies(&look, here ? 0 : ROSE_COPIES_NAP_MS));
	if (must_end())
		return false;
	if (is_time(&look))
	{
		take_in(&look);
		look_at_tables(&look);
		remember(&look);
	}
	return true;
}

bool
rose_copies_look(TimestampTz now)
{
	Look		look;

	if (!rose_apply.copies.outstanding ||
		(!rose_copy_places_changed() && now < rose_apply.copies.look))
		return false;
	look_at_tables(&look);
	set_state(look.abandoned, ROSE_REL_INIT);
	forget_pieces(&look);
	remember(&look);
	if (!start_copiers(&look) && stream_has_had_its_turn())
	{
		copy_here(linitial_oid(look.due));
		look_at_tables(&look);
		remember(&look);
	}
	if (!is_time(&look))
		return false;
	take_in(&look);
	rose_apply.copies.starting_over = true;
	return true;
}

bool
rose_copies_wait_for_worker(void)
{
	if (!rose_apply.copies.outstanding || rose_apply.progress.streams > 0 || !rose_copy_places_changed())
		return false;
	return copied_among(rose_subscription_tables(rose_apply.sub->subid)) != NIL;
}

void
rose_copies_end(void)
{
	List	   *copying = NIL;
	ListCell   *lc;

	rose_copy_places_clear();
	if (rose_apply.sub == NULL)
		return;
	rose_repl_local_begin();
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_COPYING) == 0)
			copying = lappend_oid(copying, table->relid);
	}
	foreach(lc, copying)
		rose_subscription_set_state_of_table(rose_apply.sub->subid, lfirst_oid(lc), ROSE_REL_INIT);
	rose_repl_local_commit();
}
