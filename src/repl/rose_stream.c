/*-------------------------------------------------------------------------
 *
 * rose_stream.c
 *	  The loop that reads the stream and decides when batches and epochs end.
 *
 * Policy lives here: a batch ends between upstream transactions when all that has come is
 * in it and it is worth its commit, or when rose.batch_interval has passed; an epoch
 * follows when rose.spill_interval has passed, the arena fills, or somebody asked.  What is confirmed
 * to the upstream is what the state row says, flushed, or the origin of a subscription that is logged, and nothing else: so the slot is
 * never ahead of the replica, whatever is lost here, and a slot that is ahead is not ours
 * any more (rose_upstream_identity.c).  While nothing of ours happens, the row is moved
 * now and then.
 *
 * The stream itself tells only how far the upstream has sent.  A second, small
 * connection asks once a second for the end of its WAL, so that the lag in bytes is
 * real; without it (no free walsender) the lag counts from what was received.
 *
 * Locking: none is held while it waits for the upstream, unless a batch is open.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "postmaster/walwriter.h"
#include "replication/walreceiver.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat/rose_compat_repl.h"
#include "util/rose_stop_point.h"
#include "lsm/merge/rose_spill.h"
#include "repl/rose_prepared.h"
#include "repl/rose_repl_internal.h"

/*
 * A batch that has all that the upstream has sent ends after so long, so that readers see
 * it; or after so many times what its end costs, which bounds what commits cost
 * altogether.
 */
#define ROSE_BATCH_LINGER_US	2000
#define ROSE_BATCH_COST_FACTOR	20
/* The upstream is asked for the end of its WAL this often, */
#define ROSE_MONITOR_MS			1000
/* and again after a failure no sooner than this. */
#define ROSE_MONITOR_RETRY_MS	30000
/* The stream waits no longer for an answer. */
#define ROSE_MONITOR_PATIENCE_MS	2000

/*
 * A stream that flows is left alone for a while after all of it was read, so that the
 * next look finds many messages: one system call reads them all, and the upstream need
 * not wake us for each.  For so long, but for less if so much comes meanwhile that the
 * upstream may have found the socket's buffers full.
 */
#define ROSE_GATHER_US			500
#define ROSE_GATHER_MIN_US		100
#define ROSE_GATHER_MESSAGES	320
#define ROSE_GATHER_BYTES		(128 * 1024)

/* Messages between two looks at the clock. */
#define ROSE_MESSAGES_PER_LOOK	64

/* However fast messages come, other things get their turn after so long. */
#define ROSE_CHORES_MS			20

/*
 * While there is nothing to make durable, the state row follows the upstream after so
 * long, or so much of its WAL.
 */
#define ROSE_RECORD_IDLE_MS		10000
#define ROSE_RECORD_IDLE_BYTES	(16 * 1024 * 1024)

/* A table that is to get a column, and that somebody has locked, is tried again after so long. */
#define ROSE_ADD_RETRY_MS		100

/* While an epoch keeps the stream waiting, the upstream hears from us this often. */
#define ROSE_KEEP_ALIVE_MS		1000

typedef struct Stream
{
	WalReceiverConn *conn;
	WaitEventSet *waits;		/* latch, postmaster and the socket; NULL before the first wait */
	pgsocket	socket;			/* in waits */
	TimestampTz heard;			/* when the last message came, about */
	bool		pinged;			/* a reply was requested since */
	long		gather_us;		/* for how long it is left alone */
	XLogRecPtr	heard_lsn;		/* greatest position that the upstream told on this connection */
	TimestampTz recorded;		/* when the state row was last moved without an epoch */
	TimestampTz told;			/* when the last feedback was sent */
	XLogRecPtr	told_received;
	XLogRecPtr	told_durable;
	XLogRecPtr	told_applied;
} Stream;

static Stream *current = NULL;	/* NULL: none runs */
static WalReceiverConn *streaming = NULL;	/* current's connection */
static WalReceiverConn *monitor = NULL;
static TimestampTz monitor_next = 0;

/* ---------------------------------------------------------------------
 * Positions
 */

/*
 * Between upstream transactions, with no batch open, everything up to reached_lsn is
 * applied; and durable as well if no epoch is outstanding, so that what does not concern
 * our tables never holds the slot.
 */
static void
settle_positions(void)
{
	RoseReplProgress *progress = &rose_apply.progress;

	if (rose_apply.sub->logged)
		rose_logged_look();
	if (rose_apply.remote.open || rose_apply.batch.open)
		return;
	progress->applied_lsn = Max(progress->applied_lsn, rose_apply.batch.reached_lsn);
	if (!rose_apply.epochs.dirty && rose_apply.epochs.flight == 0)
		progress->durable_lsn = Max(progress->durable_lsn, progress->applied_lsn);
	if (progress->heard_time != 0 &&
		progress->applied_lsn >= Max(progress->upstream_lsn, progress->received_lsn))
		progress->fresh_time = progress->upstream_time +
			Max(progress->asked_time - progress->heard_time, 0);
}

/*
 * What was made durable by an epoch is in the state row.  Elsewhere durable_lsn just
 * follows the upstream, so the row has to follow, before the upstream is told.
 */
static void
record_idle(Stream *stream, TimestampTz now, bool asked)
{
	XLogRecPtr	durable = rose_apply.progress.durable_lsn;

	if (rose_apply.remote.open || rose_apply.batch.open || rose_apply.copies.here || rose_apply.epochs.dirty ||
		rose_apply.epochs.flight != 0 || durable <= rose_apply.epochs.recorded_lsn)
		return;
	if (!asked && durable - rose_apply.epochs.recorded_lsn < ROSE_RECORD_IDLE_BYTES &&
		!TimestampDifferenceExceeds(stream->recorded, now, ROSE_RECORD_IDLE_MS))
		return;
	rose_epoch_record_idle();
	stream->recorded = now;
}

/* The slot may be moved so far: what is durable here, but not past what tables that are paused, or being copied, wait for. */
static XLogRecPtr
confirmable_lsn(const Stream *stream)
{
	XLogRecPtr	held = rose_apply.stops.held_lsn;
	XLogRecPtr	lsn = Min(rose_apply.epochs.recorded_lsn, stream->heard_lsn);

	lsn = Min(lsn, rose_apply.copies.hold);
	return XLogRecPtrIsInvalid(held) ? lsn : Min(lsn, held);
}

/*
 * A server that shuts down waits until what it has sent is confirmed or, of those who
 * confirm nothing, written.  So while paused tables hold the slot, we say where it is to stand once, and
 * nothing of that from then on.
 */
static void
tell(Stream *stream, bool request_reply)
{
	RoseReplProgress *progress = &rose_apply.progress;
	XLogRecPtr	confirmable = confirmable_lsn(stream);
	bool		held = confirmable < Min(rose_apply.epochs.recorded_lsn, stream->heard_lsn);
	bool		told = stream->told_durable >= confirmable;

	stream->told_received = Max(stream->told_received,
								Min(Max(progress->received_lsn, progress->applied_lsn),
									stream->heard_lsn));
	stream->told_durable = Max(stream->told_durable, confirmable);
	stream->told_applied = Max(stream->told_applied,
							   Min(progress->applied_lsn, stream->heard_lsn));
	rose_upstream_feedback(stream->conn, stream->told_received,
						   held && told ? InvalidXLogRecPtr : stream->told_durable,
						   stream->told_applied, request_reply);
}

/* asked: the upstream waits for it. */
static void
send_feedback(Stream *stream, TimestampTz now, bool force, bool asked, bool request_reply)
{
	RoseReplProgress *progress = &rose_apply.progress;
	bool		news;

	settle_positions();
	record_idle(stream, now, asked);
	news = confirmable_lsn(stream) > stream->told_durable ||
		progress->applied_lsn > stream->told_applied ||
		TimestampDifferenceExceeds(stream->told, now, wal_receiver_status_interval * 1000);
	if (!force && wal_receiver_status_interval <= 0)
	{
		/* the upstream asks when it wants to know, but who waits here looks at this */
		rose_repl_publish(rose_apply.shared, rose_apply.status, progress);
		return;
	}
	if (!force && !news)
		return;

	/*
	 * A slot never goes back, whatever we say; neither do we.  And as long as the
	 * upstream may be another one, its slot, by which that is seen, stays where it is.
	 */
	if (!XLogRecPtrIsInvalid(rose_apply.start.expected.lsn))
	{
		rose_upstream_feedback(stream->conn, InvalidXLogRecPtr, InvalidXLogRecPtr,
							   InvalidXLogRecPtr, request_reply);
		stream->told = now;
		return;
	}
	tell(stream, request_reply);
	stream->told = now;
	progress->confirmed_lsn = stream->told_durable;
	rose_repl_publish(rose_apply.shared, rose_apply.status, progress);
}

static void
keep_alive(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TimestampDifferenceExceeds(current->told, now, ROSE_KEEP_ALIVE_MS))
		send_feedback(current, now, true, false, false);
}

/* ---------------------------------------------------------------------
 * Messages
 */

static void
note_received(Stream *stream, XLogRecPtr lsn, TimestampTz send_time)
{
	RoseReplProgress *progress = &rose_apply.progress;

	stream->heard_lsn = Max(stream->heard_lsn, lsn);
	progress->received_lsn = Max(progress->received_lsn, lsn);
	progress->upstream_time = send_time;
	progress->heard_time = stream->heard;
}

/*
 * For how long the open batch still gathers, if more is there to be read, and if it is to
 * come first.
 */
static int64
batch_wait_us(TimestampTz now, bool more)
{
	int64		all = (int64) rose_batch_interval * 1000;

	if (!more)
		all = Min(all, Max(ROSE_BATCH_LINGER_US,
						   ROSE_BATCH_COST_FACTOR * rose_apply.batch.cost_us));
	/* as if each were too dear */
	if (ROSE_STOP_POINT_SKIPS("batch-ends"))
		all = INT64CONST(3600000000);
	if (rose_realtime_is_asked(&rose_apply.shared->realtime))
		all = Min(all, rose_batch_asked_us());
	return rose_apply.batch.start + all - now;
}

/* Upstream transactions gathered for long enough, or enough of them? */
static void
maybe_end_batch(TimestampTz now, bool more)
{
	if (!rose_apply.batch.open || rose_apply.remote.open)
		return;
	rose_realtime_note_complete(&rose_apply.shared->realtime);
	/* now may be a little earlier than the batch */
	if (rose_batch_interval == 0 || batch_wait_us(now, more) <= 0 || rose_epoch_memory_is_due())
		rose_batch_commit();
}

static RoseApplyResult
handle_message(Stream *stream, char *data, int len)
{
	StringInfoData s = {data, len, -1, 0};
	RoseApplyResult result = ROSE_APPLY_GO_ON;
	char		type = pq_getmsgbyte(&s);
	bool		was_in_remote = rose_apply.remote.open;

	if (type == 'w')
	{
		XLogRecPtr	start = pq_getmsgint64(&s);
		XLogRecPtr	end = pq_getmsgint64(&s);
		TimestampTz send_time = pq_getmsgint64(&s);

		note_received(stream, Max(start, end), send_time);
		rose_apply.progress.received_bytes += len;
		if (!was_in_remote && rose_batch_goes_first(s, start, stream->heard))
			rose_batch_commit();
		result = rose_apply_message(&s);
		if (was_in_remote && !rose_apply.remote.open && result == ROSE_APPLY_GO_ON)
			maybe_end_batch(stream->heard, true);
	}
	else if (type == 'k')
	{
		XLogRecPtr	end = pq_getmsgint64(&s);
		TimestampTz send_time = pq_getmsgint64(&s);
		bool		reply = pq_getmsgbyte(&s);

		rose_upstream_identity_check_end(end);
		note_received(stream, end, send_time);
		if (!rose_apply.remote.open)
			rose_apply.batch.reached_lsn = Max(rose_apply.batch.reached_lsn, end);
		if (reply)
		{
			rose_epoch_upstream_asks(stream->heard);
			send_feedback(stream, stream->heard, true, true, false);
		}
	}
	return result;
}

/*
 * A message of a streamed transaction that has committed, from its file.  The socket is left
 * alone meanwhile.
 */
static RoseApplyResult
replay_message(Stream *stream)
{
	RoseApplyResult result = rose_apply_replay();

	if (!rose_apply.remote.open && result == ROSE_APPLY_GO_ON)
		maybe_end_batch(stream->heard, true);
	return result;
}

/*
 * Everything that can be read without waiting, or as much as it can before there may
 * be something else to do (*more); *ended: the upstream closed the stream; *nmessages:
 * how many there were.
 */
static RoseApplyResult
read_available(Stream *stream, pgsocket *fd, bool *more, bool *ended, int *nmessages)
{
	char	   *data = NULL;
	int			len = 1;
	TimestampTz begun = 0;
	RoseApplyResult result;

	*nmessages = 0;
	while (rose_streamed_is_replayed() || (len = walrcv_receive(stream->conn, &data, fd)) > 0)
	{
		bool		look = (*nmessages)++ % ROSE_MESSAGES_PER_LOOK == 0;
		bool		was_open = rose_apply.batch.open;

		CHECK_FOR_INTERRUPTS();
		if (look)
			stream->heard = GetCurrentTimestamp();
		if (*nmessages == 1)
			begun = stream->heard;
		stream->pinged = false;
		MemoryContextSwitchTo(rose_apply.message_context);
		result = rose_streamed_is_replayed() ? replay_message(stream) : handle_message(stream, data, len);
		if (result == ROSE_APPLY_RESTART)
			return ROSE_APPLY_RESTART;
		MemoryContextReset(rose_apply.message_context);
		if ((look || was_open) && !rose_apply.batch.open && rose_epoch_is_due(stream->heard))
			break;
		if (look && TimestampDifferenceExceeds(begun, stream->heard, ROSE_CHORES_MS))
			break;
	}
	*more = len > 0;
	*ended = len < 0;
	return ROSE_APPLY_GO_ON;
}

/* ---------------------------------------------------------------------
 * The end of the upstream's WAL
 */

WalReceiverConn *
rose_stream_side_connection(void)
{
	if (monitor == NULL)
	{
		monitor = rose_upstream_connect(rose_apply.sub);
		rose_upstream_identity_check_monitor(monitor);
	}
	return monitor;
}

static void
end_patience(void)
{
	disable_timeout(STATEMENT_TIMEOUT, true);
	/* it may have come when the answer was there */
	if (get_timeout_indicator(STATEMENT_TIMEOUT, true))
		QueryCancelPending = false;
}

/*
 * A failure here is no reason to stop: it is reported and tried again later.  No answer for a
 * while is one, too; a process that stands still, or a network, must not keep the stream
 * waiting that another one sends.
 */
static void
ask_monitor(TimestampTz now)
{
	volatile XLogRecPtr lsn = InvalidXLogRecPtr;

	if (now < monitor_next || rose_apply.batch.open || rose_apply.remote.open)
		return;
	StartTransactionCommand();
	enable_timeout_after(STATEMENT_TIMEOUT, ROSE_MONITOR_PATIENCE_MS);
	PG_TRY();
	{
		lsn = rose_upstream_wal_end(rose_stream_side_connection());
		end_patience();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		end_patience();
		MemoryContextSwitchTo(rose_apply.message_context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_CONNECTION_FAILURE && edata->sqlerrcode != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		StartTransactionCommand();
		ereport(LOG,
				(errmsg("rose subscription \"%s\" cannot ask for the end of the upstream's WAL: %s",
						rose_apply.sub->name, edata->message)));
	}
	PG_END_TRY();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);

	if (XLogRecPtrIsInvalid(lsn) && monitor != NULL)
	{
		rose_upstream_disconnect(monitor);
		monitor = NULL;
	}
	if (!XLogRecPtrIsInvalid(lsn))
	{
		rose_apply.progress.upstream_lsn = Max(rose_apply.progress.upstream_lsn, lsn);
		rose_apply.progress.asked_time = GetCurrentTimestamp();
		settle_positions();
		rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);
	}
	monitor_next = TimestampTzPlusMilliseconds(now, XLogRecPtrIsInvalid(lsn) ?
											   ROSE_MONITOR_RETRY_MS : ROSE_MONITOR_MS);
}

/* ---------------------------------------------------------------------
 * The loop
 */

/* Milliseconds until there is something to do but to read. */
static long
wait_time(TimestampTz now)
{
	long		ms = ROSE_MONITOR_MS;

	if (rose_apply.batch.open && !rose_apply.remote.open)
		ms = Max(batch_wait_us(now, false) + 999, 1000) / 1000;
	else if (rose_apply.epochs.dirty && rose_apply.sub->logged)
		/* until somebody has flushed what is committed */
		ms = Min(ms, WalWriterDelay);
	else if (rose_apply.epochs.dirty && !rose_apply.batch.open && rose_apply.epochs.flight == 0)
		ms = Min(ms, TimestampDifferenceMilliseconds(now,
													 TimestampTzPlusMilliseconds(rose_apply.epochs.last,
																				 rose_spill_interval)) + 1);
	return ms;
}

/* Nothing came for a while: is the upstream still there? */
static void
check_silence(Stream *stream, TimestampTz now)
{
	bool		ping = false;
	/* nobody has listened while this process copied a table */
	TimestampTz heard = Max(stream->heard, rose_apply.copies.here_ended);

	if (wal_receiver_timeout > 0)
	{
		if (TimestampDifferenceExceeds(heard, now, wal_receiver_timeout))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("the upstream was silent for longer than wal_receiver_timeout")));
		ping = !stream->pinged &&
			TimestampDifferenceExceeds(heard, now, wal_receiver_timeout / 2);
	}
	if (ping)
	{
		stream->pinged = true;
		send_feedback(stream, now, true, false, true);
	}
}

static void
watch_socket(Stream *stream, pgsocket fd)
{
	if (stream->waits != NULL && stream->socket == fd)
		return;
	if (stream->waits != NULL)
		FreeWaitEventSet(stream->waits);
	stream->waits = rose_create_wait_event_set(TopMemoryContext, 3);
	AddWaitEventToSet(stream->waits, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(stream->waits, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(stream->waits, WL_SOCKET_READABLE, fd, NULL, NULL);
	stream->socket = fd;
}

/* Wait for data; an open batch that lingers in vain is committed. */
static void
wait_for_data(Stream *stream, pgsocket fd)
{
	WaitEvent	event;
	int			n;

	watch_socket(stream, fd);
	n = WaitEventSetWait(stream->waits, wait_time(GetCurrentTimestamp()), &event, 1,
						 WAIT_EVENT_LOGICAL_APPLY_MAIN);
	if (n == 0)
	{
		if (!rose_apply.remote.open)
			rose_batch_commit();
		check_silence(stream, GetCurrentTimestamp());
	}
	else if (event.events & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* What was prepared, and is committed, and will not be sent again. */
static void
forget_prepared(void)
{
	if (!rose_prepared_may_be_confirmed(GetCurrentTimestamp()))
		return;
	rose_repl_local_begin();
	rose_prepared_forget_confirmed(rose_apply.sub->subid, rose_apply.progress.confirmed_lsn);
	rose_repl_local_commit();
}

/* What has to be done now and then, between messages.  True: the worker is to end. */
static bool
do_chores(Stream *stream)
{
	if (rose_streamed_is_replayed())
		keep_alive();
	if (rose_repl_serve_requests())
	{
		/* so that the next worker need not ask for the last transaction again */
		send_feedback(stream, GetCurrentTimestamp(), true, false, false);
		return true;
	}
	ask_monitor(GetCurrentTimestamp());
	while (!rose_apply.remote.open &&
		   rose_verify_hold_is_due(rose_apply.shared, Max(rose_apply.progress.applied_lsn, rose_apply.batch.reached_lsn)))
	{
		rose_batch_commit();
		rose_verify_hold_stand(rose_apply.shared, rose_apply.keep_alive);
	}
	if (!rose_apply.remote.open && !rose_apply.batch.open)
	{
		rose_repl_look_at_owner();
		if (rose_relmap_tables_changed())
		{
			rose_epoch_feed_tables();
			rose_epoch_doubt_strays();
		}
		rose_epoch_let_go(GetCurrentTimestamp());
		rose_epoch_catch_up(GetCurrentTimestamp());
		rose_table_error_look();
		if (rose_copies_look(GetCurrentTimestamp()))
			return true;
		rose_repl_stats_report_left(GetCurrentTimestamp());
		forget_prepared();
	}
	send_feedback(stream, GetCurrentTimestamp(), false, false, false);
	return false;
}

/* All of it was read: leave it alone for a while. */
static void
gather(Stream *stream, int nmessages, uint64 nbytes)
{
	if (nmessages > ROSE_GATHER_MESSAGES || nbytes > ROSE_GATHER_BYTES)
		stream->gather_us = Max(stream->gather_us / 2, ROSE_GATHER_MIN_US);
	else
		stream->gather_us = Min(stream->gather_us * 2, ROSE_GATHER_US);
	pg_usleep(stream->gather_us);
}

static RoseApplyResult
stream_loop(Stream *stream)
{
	for (;;)
	{
		uint64		received_before = rose_apply.progress.received_bytes;
		pgsocket	fd = PGINVALID_SOCKET;
		int			nmessages;
		bool		more;
		bool		ended;
		bool		due;

		if (read_available(stream, &fd, &more, &ended, &nmessages) == ROSE_APPLY_RESTART)
			return ROSE_APPLY_RESTART;
		if (ended)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("the upstream ended the stream")));

		maybe_end_batch(GetCurrentTimestamp(), more);
		due = !rose_apply.batch.open && rose_epoch_is_due(GetCurrentTimestamp());
		if (due)
			rose_epoch_begin_in_time();
		if (do_chores(stream))
			return ROSE_APPLY_GO_ON;
		if (due || more)
			continue;
		if (nmessages > 0)
			gather(stream, nmessages,
				   rose_apply.progress.received_bytes - received_before);
		else
			wait_for_data(stream, fd);
	}
}

/* Columns that the upstream has added are added here, while the stream waits.  False: the worker is to end. */
static bool
take_columns_along(Stream *stream)
{
	while (rose_added_are_wanted())
	{
		Oid			locked = rose_added_try(rose_repl_lock_try);

		rose_repl_lock_note_waiting(locked);
		if (!OidIsValid(locked))
			break;
		keep_alive();
		if (do_chores(stream))
		{
			rose_repl_lock_note_waiting(InvalidOid);
			rose_added_forget();
			return false;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROSE_ADD_RETRY_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Text is what every upstream and every type can do.  The next worker has to know as
 * well: if the stream cannot be started again at once (the upstream still sends a
 * large transaction to the old one), it would find out in the same way, for ever.
 */
static void
choose_format(void)
{
	bool		binary;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->text_needed |= rose_apply.format.text_needed;
	rose_apply.format.text_needed = rose_apply.shared->text_needed;
	LWLockRelease(&rose_repl_shared->lock);
	/* what is kept until it is committed has to be readable then, whatever the columns here are by that time */
	binary = rose_apply.sub->binary && !rose_apply.sub->two_phase && !rose_apply.format.text_needed;

	if (rose_apply.sub->binary && rose_apply.format.binary && !binary)
		ereport(LOG,
				(errmsg("rose subscription \"%s\" goes on with values in text format",
						rose_apply.sub->name),
				 errdetail("A column is not of the same built-in type on both sides, or that type has no binary format.")));
	rose_apply.format.binary = binary;
}

/* Positions of another connection may be of another server. */
static void
begin_stream(Stream *stream)
{
	RoseReplProgress *progress = &rose_apply.progress;

	rose_upstream_require_options(stream->conn, rose_apply.sub);
	stream->heard_lsn = rose_upstream_identity_check(stream->conn, true);
	progress->received_lsn = progress->applied_lsn;
	progress->upstream_lsn = stream->heard_lsn;
	rose_apply.batch.reached_lsn = progress->applied_lsn;
	rose_apply.batch.reached = progress->last_commit;
	if (rose_apply.sub->two_phase)
	{
		rose_repl_local_begin();
		ROSE_STOP_POINT("stream-begins");
		rose_apply.start.elsewhere_lsn = rose_upstream_take_over_prepared(stream->conn, rose_apply.sub);
		rose_repl_local_commit();
	}
	rose_upstream_start(stream->conn, rose_apply.sub,
						XLogRecPtrIsInvalid(rose_apply.start.expected.lsn) ? progress->applied_lsn :
						rose_apply.start.expected.lsn, rose_apply.format.binary);
	stream->heard = stream->recorded = GetCurrentTimestamp();
}

void
rose_stream_give_up(void)
{
	rose_apply.keep_alive = NULL;
	current = NULL;
	if (streaming != NULL)
		rose_upstream_disconnect(streaming);
	if (monitor != NULL)
		rose_upstream_disconnect(monitor);
	streaming = monitor = NULL;
}

void
rose_stream_run(void)
{
	RoseApplyResult result;

	rose_prepared_take_up();
	do
	{
		Stream		stream = {0};

		rose_apply.remote.open = false;
		rose_streamed_forget();
		choose_format();
		stream.conn = streaming = rose_upstream_connect(rose_apply.sub);
		begin_stream(&stream);
		stream.gather_us = ROSE_GATHER_US;
		current = &stream;
		rose_apply.keep_alive = keep_alive;
		rose_apply.status = ROSE_REPL_STREAMING;
		rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);

		result = stream_loop(&stream);
		if (result == ROSE_APPLY_RESTART)
		{
			if (rose_apply.remote.open)
			{
				rose_apply.epochs.solo_lsn = rose_apply.remote.commit_lsn;
				rose_batch_abort();
				if (!take_columns_along(&stream))
					result = ROSE_APPLY_GO_ON;
			}
			else
				/* by a description of a transaction in progress */
				rose_batch_commit();
		}
		rose_apply.keep_alive = NULL;
		current = NULL;
		if (stream.waits != NULL)
			FreeWaitEventSet(stream.waits);
		streaming = NULL;
		rose_upstream_disconnect(stream.conn);
	} while (result == ROSE_APPLY_RESTART);
	rose_streamed_forget();
}
