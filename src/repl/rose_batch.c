/*-------------------------------------------------------------------------
 *
 * rose_batch.c
 *	  Batches: upstream transactions gathered into one local transaction.
 *
 * A batch begins with the first change that follows the last one, and ends only
 * between upstream transactions, so that readers always see a state that the upstream
 * had.  Everything it wrote becomes visible at once when it commits; the commit is
 * asynchronous, as its rows are not durable here before their epoch anyway.  If they are logged, it says the
 * position, and is as the subscription's synchronous_commit says (rose_logged.c).
 *
 * applied_lsn moves together with the commit: nothing can interrupt between the two.
 * A worker that replaces this one goes on from there as long as the server,
 * and with it the memtables, lives.
 *
 * Locking: what the local transaction holds.  When a batch ends is rose_stream.c's to
 * say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_conflicts.h"
#include "repl/rose_repl_internal.h"

/* What ending a batch costs is an average over about so many; one that was held up counts for no more than this. */
#define COST_WEIGHT		8
#define COST_MAX_US		5000

/* A batch that is waited for is as old, when it ends, as so many times what that costs: so ends cost a fifth at most. */
#define ASKED_FACTOR	4

/* For so long after somebody has read in real time, others are expected. */
#define WANTED_MS		1000

/* What may take long: so much of the upstream's WAL is between the first change of a transaction and its commit. */
#define LARGE_BYTES		(128 * 1024)

/* Counts as they were when the open batch began. */
static RoseReplProgress before_batch;

int64
rose_batch_asked_us(void)
{
	return ASKED_FACTOR * rose_apply.batch.cost_us;
}

/* Leaves the message context current. */
void
rose_batch_ensure(void)
{
	if (!rose_apply.batch.open)
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		if (unlikely(rose_apply.owner_doubtful))
			rose_repl_check_owner();
		rose_apply.batch.open = true;
		rose_apply.batch.start = GetCurrentTimestamp();
		rose_apply.batch.first = rose_apply.remote.commit_lsn;
		before_batch = rose_apply.progress;
	}
	MemoryContextSwitchTo(rose_apply.message_context);
}

/* Ends of batches that gathered rows or none cost about the same; the rows themselves are not counted. */
static void
learn_cost(TimestampTz begun)
{
	int64	   *cost = &rose_apply.batch.cost_us;

	*cost += (Min(GetCurrentTimestamp() - begun, COST_MAX_US) - *cost) / COST_WEIGHT;
}

void
rose_batch_commit(void)
{
	bool		wrote;
	TimestampTz begun;

	if (!rose_apply.batch.open)
		return;
	rose_gather_write();
	rose_relmap_count_rows();
	rose_table_error_end_with_batch();
	begun = GetCurrentTimestamp();
	rose_relmap_close_all();
	PopActiveSnapshot();
	wrote = TransactionIdIsValid(GetTopTransactionIdIfAny());

	HOLD_INTERRUPTS();
	if (rose_apply.sub->logged)
		rose_logged_commit(rose_apply.batch.reached_lsn, rose_apply.batch.reached.time, wrote);
	else
		CommitTransactionCommand();
	rose_apply.batch.open = false;
	rose_apply.epochs.dirty |= wrote;
	rose_apply.progress.applied_lsn = rose_apply.batch.reached_lsn;
	rose_apply.progress.last_commit = rose_apply.batch.reached;
	rose_apply.progress.batches++;
	/* who waits for the position finds them counted; raise no error */
	rose_relmap_flush_counts(true);
	rose_conflicts_keep();
	rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);
	rose_realtime_note_ended(&rose_apply.shared->realtime);
	RESUME_INTERRUPTS();

	rose_conflicts_report();
	rose_repl_stats_report(rose_apply.remote.durable_at_once);
	learn_cost(begun);
	MemoryContextSwitchTo(rose_apply.message_context);
}

/* Has somebody read in real time just now, and is the batch worth its end? */
static bool
is_wanted(TimestampTz now)
{
	TimestampTz asked = (TimestampTz) pg_atomic_read_u64(&rose_apply.shared->realtime.asked_at);

	if (ROSE_STOP_POINT_SKIPS("batch-unwanted"))
		return true;
	return asked != 0 && !TimestampDifferenceExceeds(asked, now, WANTED_MS) &&
		now - rose_apply.batch.start >= rose_batch_asked_us();
}

bool
rose_batch_goes_first(StringInfoData message, XLogRecPtr start, TimestampTz now)
{
	char		type;

	if (!rose_apply.batch.open || rose_apply.remote.open || !is_wanted(now))
		return false;
	type = pq_getmsgbyte(&message);
	return type == LOGICAL_REP_MSG_STREAM_COMMIT || type == LOGICAL_REP_MSG_COMMIT_PREPARED ||
		(type == LOGICAL_REP_MSG_BEGIN && (XLogRecPtr) pq_getmsgint64(&message) > start + LARGE_BYTES);
}

/* As when the batch began, but for what happened beside it. */
static void
restore_progress(void)
{
	RoseReplProgress now = rose_apply.progress;

	rose_apply.progress = before_batch;
	rose_apply.progress.epoch = now.epoch;
	rose_apply.progress.epochs = now.epochs;
	rose_apply.progress.durable_lsn = now.durable_lsn;
	rose_apply.progress.confirmed_lsn = now.confirmed_lsn;
	rose_apply.progress.spill_waits = now.spill_waits;
	rose_apply.progress.spill_wait_ms = now.spill_wait_ms;
	rose_apply.progress.streams = now.streams;
	rose_apply.progress.stream_bytes = now.stream_bytes;
}

/* Give up what the open batch did; the stream has to be read again from applied_lsn. */
void
rose_batch_abort(void)
{
	if (!rose_apply.batch.open)
		return;
	rose_gather_forget();
	rose_relmap_close_all();
	AbortOutOfAnyTransaction();
	rose_apply.batch.open = false;
	rose_realtime_note_ended(&rose_apply.shared->realtime);
	rose_apply.remote.open = false;
	restore_progress();
	/* or it would be taken for applied, as no batch is open any more */
	rose_apply.batch.reached_lsn = rose_apply.progress.applied_lsn;
	rose_apply.batch.reached = rose_apply.progress.last_commit;
	rose_relmap_flush_counts(false);
	rose_conflicts_forget();
	rose_relmap_forget();
	MemoryContextSwitchTo(rose_apply.message_context);
}
