/*-------------------------------------------------------------------------
 *
 * rose_table_error.c
 *	  Errors of tables, and tables that are paused: what rose.subscription_rel says of them,
 *	  and what the worker does about it.
 *
 * An error that comes from one table's definition or data stops the stream before the
 * upstream transaction at which it was raised, or, if the subscription says so, pauses that
 * table while the others go on.  Neither loses a change: a stream that stops confirms nothing, and for a
 * table that is paused the slot is not moved past the position at which it was.  So the upstream keeps
 * its WAL from there on, and the table can go on with it (rose_sql_pause.c).
 *
 * "Stops" takes two workers.  The first to meet the error tells the next one of the position, which has an epoch end
 * before that transaction (solo_lsn): so when it fails again, all that comes before
 * is durable, and nothing was given up.  Then the table's row says so, and the subscription is blocked, in one moment.  The worker waits,
 * without a connection, for a reason to try again.  That it is over is said in one moment as well: with the batch that has the transaction.
 *
 * What an upstream keeps for paused tables is limited (rose.max_paused_wal_size); a table
 * that needs more is let go, and its state says so.
 *
 * Locking: none but those of the rows' table, for moments.  The worker writes these rows
 * while it runs, others when it is drained.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/walreceiver.h"
#include "storage/latch.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "util/rose_stop_point.h"
#include "repl/rose_repl_internal.h"

/* A subscription that has stopped tries again after so long, */
#define ROSE_STOPPED_RETRY_MS	30000
/* and looks this often whether it should do so sooner. */
#define ROSE_STOPPED_LOOK_MS	200

/* What the last error's text may take of the subscription's, beside what to do. */
#define ROSE_STOPPED_WHY_LENGTH	(ROSE_REPL_ERROR_LENGTH - 500)

/* ---------------------------------------------------------------------
 * Whose error it is
 */

/*
 * May an error of this class pass by itself?  Then it is nobody's fault, wherever it
 * was raised, and the worker just tries again.
 */
bool
rose_table_error_may_pass(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INVALID_TRANSACTION_STATE:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_CONFIG_FILE_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return true;
		default:
			return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
	}
}

/* Where it was raised decides: while a change was converted or checked. */
Oid
rose_table_error_at_fault(int sqlerrcode)
{
	if (rose_table_error_may_pass(sqlerrcode) || rose_apply.blame.beside)
		return InvalidOid;
	return rose_apply.blame.certain && rose_apply.blame.rel != NULL ? rose_apply.blame.rel->relid : InvalidOid;
}

bool
rose_table_error_stops(void)
{
	return !rose_apply.sub->pause_on_error &&
		rose_apply.progress.applied_lsn >= rose_apply.remote.commit_lsn;
}

/* ---------------------------------------------------------------------
 * What is said about it
 */

char *
rose_table_error_explain(const char *why)
{
	int			len = pg_mbcliplen(why, strlen(why), ROSE_STOPPED_WHY_LENGTH);
	XLogRecPtr	lsn = rose_apply.remote.commit_lsn;

	return psprintf("stopped at the transaction committed at %X/%X, by an error of table \"%s.%s\": %.*s%s;"
					" hint: Put the cause right here, and it goes on without a copy."
					"  Or call rose.alter_subscription(..., skip_lsn => '%X/%X'), which passes over the table's changes in that transaction,"
					" or rose.pause_table, so that the other tables go on.",
					LSN_FORMAT_ARGS(lsn), rose_apply.blame.rel->remote.nspname,
					rose_apply.blame.rel->remote.relname, len, why, why[len] != '\0' ? "..." : "",
					LSN_FORMAT_ARGS(lsn));
}

/* REQUIRES: a transaction. */
static void
set_table(Oid relid, const char *state, const char *message, const char *error_code)
{
	RoseSubscriptionTable *table = rose_subscription_find_table(rose_subscription_tables(rose_apply.sub->subid), relid);

	if (table != NULL)
		rose_subscription_set_table(rose_apply.sub->subid, relid, state, table->sync_lsn,
									message, error_code, rose_apply.remote.commit_lsn);
}

void
rose_table_error_pause(Oid relid, const char *message, const char *error_code)
{
	rose_repl_local_begin();
	set_table(relid, ROSE_REL_PAUSED, message, error_code);
	rose_repl_local_commit();
}

void
rose_table_error_come_back(void)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->solo_lsn = rose_apply.remote.commit_lsn;
	LWLockRelease(&rose_repl_shared->lock);
}

bool
rose_table_error_stop(Oid relid, const char *message, const char *error_code)
{
	ROSE_STOP_POINT("table-error-stops");
	rose_repl_local_begin();
	set_table(relid, ROSE_REL_FAILED, message, error_code);
	if (!rose_repl_block_with(rose_apply.shared, ROSE_BLOCKED_TABLE_ERROR, GetTopFullTransactionId()))
	{
		AbortOutOfAnyTransaction();
		return false;
	}
	ROSE_STOP_POINT("table-error-noted");
	rose_repl_local_commit();
	rose_repl_settle_reason(rose_apply.shared, true);
	return true;
}

/*
 * It is tried again in any case.  In error is one that could not be copied for a reason of
 * its own.
 */
void
rose_table_error_record_copy(Oid relid, const char *message, int sqlerrcode)
{
	bool		passes = rose_table_error_may_pass(sqlerrcode);
	RoseSubscriptionTable *table;

	rose_repl_local_begin();
	table = rose_subscription_find_table(rose_subscription_tables(rose_apply.sub->subid), relid);
	if (table != NULL && rose_subscription_table_waits(table))
		rose_subscription_set_table(rose_apply.sub->subid, relid, passes ? ROSE_REL_INIT : ROSE_REL_ERROR,
									InvalidXLogRecPtr, message, unpack_sql_state(sqlerrcode),
									InvalidXLogRecPtr);
	rose_repl_local_commit();
	rose_copy_places_note_failure(relid, passes);
}

/* ---------------------------------------------------------------------
 * Waiting for the cause to be put right
 */

/* A type, a domain's constraint or a function has changed. */
static bool code_changed = false;

static void
note_code_change(Datum arg, int cacheid, uint32 hash)
{
	code_changed = true;
}

static void
watch_code(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterSyscacheCallback(TYPEOID, note_code_change, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, note_code_change, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, note_code_change, (Datum) 0);
	registered = true;
}

/* What the transaction itself did to tables that has been given up is no reason to try again. */
void
rose_table_error_undone(void)
{
	(void) rose_relmap_tables_changed();
	code_changed = false;
}

/* Somebody wants something of the worker: the next one sees to it. */
static bool
is_asked(void)
{
	const RoseReplSubShared *shared = rose_apply.shared;
	bool		asked;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	asked = shared->drain || shared->reload || shared->epoch_served < shared->epoch_asked;
	LWLockRelease(&rose_repl_shared->lock);
	return asked;
}

/*
 * Altering a table is a reason to try again at once, for that is how most causes are put
 * right.  Types and functions change for other reasons as well, so for those not
 * more often than after any other error.
 */
void
rose_table_error_wait(void)
{
	TimestampTz begun = GetCurrentTimestamp();

	for (;;)
	{
		TimestampTz now;

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ROSE_STOPPED_LOOK_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		AcceptInvalidationMessages();
		now = GetCurrentTimestamp();
		if (rose_relmap_tables_changed() || is_asked() ||
			(code_changed && TimestampDifferenceExceeds(begun, now, wal_retrieve_retry_interval)) ||
			TimestampDifferenceExceeds(begun, now, ROSE_STOPPED_RETRY_MS))
			return;
	}
}

/* ---------------------------------------------------------------------
 * What earlier workers and backends have left
 */

static void
lower(XLogRecPtr *lsn, XLogRecPtr to)
{
	if (XLogRecPtrIsInvalid(*lsn) || to < *lsn)
		*lsn = to;
}

/*
 * In the transaction of the batch that has them, so who sees that the position is applied sees that the tables are well.  Those
 * whose changes were passed over have said so themselves (rose_relmap_end_passed).
 */
void
rose_table_error_end_with_batch(void)
{
	XLogRecPtr	failed = rose_apply.stops.failed_lsn;
	ListCell   *lc;

	if (XLogRecPtrIsInvalid(failed) || rose_apply.batch.reached_lsn <= failed)
		return;
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (rose_subscription_table_is_live(table) && !XLogRecPtrIsInvalid(table->error_lsn) &&
			table->error_lsn < rose_apply.batch.reached_lsn)
			rose_subscription_set_table(rose_apply.sub->subid, table->relid, ROSE_REL_READY, table->sync_lsn,
										NULL, NULL, InvalidXLogRecPtr);
	}
}

/* REQUIRES: a transaction. */
static void
read_stops(void)
{
	RoseApplyStops *stops = &rose_apply.stops;
	Oid			subid = rose_apply.sub->subid;
	ListCell   *lc;

	memset(stops, 0, sizeof(*stops));
	foreach(lc, rose_subscription_tables(subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_PAUSED) == 0 && !XLogRecPtrIsInvalid(table->error_lsn))
			lower(&stops->held_lsn, table->error_lsn);
		if (!rose_subscription_table_is_live(table) || XLogRecPtrIsInvalid(table->error_lsn))
			continue;
		if (table->error_lsn >= rose_apply.progress.applied_lsn)
			lower(&stops->failed_lsn, table->error_lsn);
		else
			/* it was put right, or there was nothing to pass over */
			rose_subscription_set_table(subid, table->relid, ROSE_REL_READY, table->sync_lsn,
										NULL, NULL, InvalidXLogRecPtr);
	}
}

void
rose_table_error_take_up(void)
{
	watch_code();
	rose_repl_local_begin();
	read_stops();
	rose_repl_local_commit();
	if (!XLogRecPtrIsInvalid(rose_apply.stops.failed_lsn))
		rose_apply.epochs.solo_lsn = rose_apply.stops.failed_lsn;
}

void
rose_table_error_lose(XLogRecPtr lsn, const char *why)
{
	Oid			subid = rose_apply.sub->subid;
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_PAUSED) != 0 || XLogRecPtrIsInvalid(table->error_lsn) ||
			table->error_lsn >= lsn)
			continue;
		ereport(LOG,
				(errmsg("rose subscription \"%s\": paused table \"%s.%s\" cannot go on, but has to be copied again",
						rose_apply.sub->name, table->remote.nspname, table->remote.relname),
				 errdetail_internal("%s", why)));
		rose_subscription_set_table(subid, table->relid, ROSE_REL_ERROR, table->sync_lsn, why,
									unpack_sql_state(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
									table->error_lsn);
	}
	read_stops();
	/* before the slot is moved */
	ForceSyncCommit();
}

static void
look_at_held_wal(void)
{
	XLogRecPtr	held = rose_apply.stops.held_lsn;
	XLogRecPtr	end = rose_apply.progress.upstream_lsn;
	uint64		limit = (uint64) Max(rose_max_paused_wal_size, 0) * 1024 * 1024;

	if (XLogRecPtrIsInvalid(held) || rose_max_paused_wal_size < 0 ||
		end <= held || end - held <= limit)
		return;
	rose_repl_local_begin();
	rose_table_error_lose(end - limit,
						  psprintf("it was paused for more of the upstream's WAL than rose.max_paused_wal_size (%d MB); have it copied again with rose.alter_subscription(..., resync => ...)",
								   rose_max_paused_wal_size));
	rose_repl_local_commit();
}

void
rose_table_error_look(void)
{
	XLogRecPtr	failed = rose_apply.stops.failed_lsn;

	if (!XLogRecPtrIsInvalid(failed) && rose_apply.progress.applied_lsn > failed)
	{
		ROSE_STOP_POINT("table-error-passed");
		ereport(LOG,
				(errmsg("rose subscription \"%s\" has gone on past the transaction committed at %X/%X",
						rose_apply.sub->name, LSN_FORMAT_ARGS(failed))));
		rose_table_error_take_up();
	}
	look_at_held_wal();
}
