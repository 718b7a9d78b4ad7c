/*-------------------------------------------------------------------------
 *
 * rose_repl_worker.c
 *	  The background worker of one subscription, from start to end.
 *
 * A worker runs as the subscription's owner, if he may have one (rose_owner.c): else it does no more
 * than to put in order what is there already, and the subscription is blocked until he may
 * again.  It puts epochs in order that a predecessor left, copies tables that wait
 * for it and then streams until it is told to stop or to start over, or an error occurs.
 * Any change of the subscription ends the worker in good order (everything durable); the
 * launcher starts the next one.  What becomes of an error that comes from one table is
 * rose_table_error.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/walreceiver.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "util/rose_background_settings.h"
#include "repl/rose_chunks.h"
#include "repl/rose_lock_slice.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

/* A subscription that is blocked looks again after so long. */
#define ROSE_BLOCKED_RETRY_MS	30000

RoseApply	rose_apply;

/* ---------------------------------------------------------------------
 * Errors
 */

/*
 * Who reads a subscription's last error need not be among those who may read a row of a
 * table with row security, which the error may show.  Nor is it known that there is none if
 * that cannot be read, on a full disk for one.
 */
static bool
may_have_row_security(Oid relid)
{
	volatile bool result = true;

	PG_TRY();
	{
		HeapTuple	tuple;

		StartTransactionCommand();
		tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
		result = HeapTupleIsValid(tuple) && ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;
		if (HeapTupleIsValid(tuple))
			ReleaseSysCache(tuple);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(TopMemoryContext);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		result = true;
	}
	PG_END_TRY();
	return result;
}

static char *
discreet_message(Oid relid, const char *error_code)
{
	return psprintf("error %s of table %u, which has row security; see rose.stat_subscription_tables and the server log",
					error_code, relid);
}

/* A reason that cannot be seen again is kept (rose_upstream_identity.c). */
static void
keep_reason(const char *reason)
{
	if (strcmp(reason, ROSE_BLOCKED_BEHIND) != 0)
		return;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rose_subscription_set_blocked(rose_apply.sub->subid, reason);
	ForceSyncCommit();
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* What an upstream says, or sends as a key, need not be text in our encoding; but what is shown, and kept, must be. */
static void
make_text(char *message)
{
	int			len = strlen(message);

	for (int at = 0; at < len; at++)
	{
		at += pg_encoding_verifymbstr(GetDatabaseEncoding(), message + at, len - at);
		if (at < len)
			message[at] = '?';
	}
}

char *
rose_repl_form_message(const ErrorData *edata)
{
	StringInfoData message;

	initStringInfo(&message);
	appendStringInfoString(&message, edata->message);
	if (edata->detail != NULL)
		appendStringInfo(&message, "; %s", edata->detail);
	if (edata->context != NULL)
		appendStringInfo(&message, "; %s", edata->context);
	if (edata->hint != NULL)
		appendStringInfo(&message, "; hint: %s", edata->hint);
	make_text(message.data);
	return message.data;
}

/* For the next worker, which begins with it. */
static void
note_broken(Oid relid)
{
	rose_repl_local_begin();
	rose_chunks_set_broken(rose_apply.sub->subid, relid);
	rose_repl_local_commit();
}

/*
 * A table's error: note it, and have another worker go on at once; or, if nothing can be
 * done before the cause is put right, when that may have happened.
 */
static void
handle_table_error(Oid relid, const char *message, const char *error_code, bool stops)
{
	bool		stopped = false;

	rose_stream_give_up();
	if (rose_apply.sub->pause_on_error)
		rose_table_error_pause(relid, message, error_code);
	else if (stops)
		stopped = rose_table_error_stop(relid, message, error_code);
	else
		rose_table_error_come_back();
	rose_repl_restart_after(0);
	if (stopped)
		rose_table_error_wait();
}

/*
 * A batch that waited for a table was in the way of something else, and is given up.  Nothing is wrong: the next worker
 * goes on at once.
 */
static void
end_for_others(void)
{
	ErrorData  *edata;

	MemoryContextSwitchTo(TopMemoryContext);
	edata = CopyErrorData();
	FlushErrorState();
	error_context_stack = NULL;
	AbortOutOfAnyTransaction();
	/* the slot is free for the next one */
	rose_stream_give_up();
	ereport(LOG, (errmsg_internal("%s", edata->message)));
	rose_repl_restart_after(0);
	proc_exit(0);
}

/* Report the current error and end the process. */
static void
handle_error(void)
{
	ErrorData  *edata;
	char	   *message;
	char	   *shown;
	Oid			relid = rose_apply.blame.rel != NULL ? rose_apply.blame.rel->relid : InvalidOid;
	Oid			at_fault;
	const char *error_code;
	bool		stops;

	MemoryContextSwitchTo(TopMemoryContext);
	edata = CopyErrorData();
	EmitErrorReport();
	FlushErrorState();
	error_context_stack = NULL;
	rose_apply.blame.command = 0;
	at_fault = rose_table_error_at_fault(edata->sqlerrcode);
	stops = OidIsValid(at_fault) && rose_table_error_stops();
	message = rose_repl_form_message(edata);

	AbortOutOfAnyTransaction();
	rose_realtime_note_ended(&rose_apply.shared->realtime);
	rose_table_error_undone();
	error_code = unpack_sql_state(edata->sqlerrcode);
	shown = OidIsValid(relid) && may_have_row_security(relid) ?
		discreet_message(relid, error_code) : message;
	MemoryContextSwitchTo(TopMemoryContext);
	rose_repl_report_error(rose_apply.shared, stops ? rose_table_error_explain(shown) : shown, rose_apply.blocked,
						   rose_apply.blocked != NULL ? ROSE_BLOCKED_RETRY_MS : wal_retrieve_retry_interval);
	if (rose_apply.blocked != NULL)
		keep_reason(rose_apply.blocked);
	if (OidIsValid(at_fault))
		handle_table_error(at_fault, message, error_code, stops);
	if (OidIsValid(rose_apply.copies.broken))
		note_broken(rose_apply.copies.broken);
	proc_exit(1);
}

/* ---------------------------------------------------------------------
 * Start and end
 */

/*
 * Read the subscription, and commit as it says from here on: whoever writes an epoch waits
 * for standbys or does not.  False: there is nothing to do for it.
 */
bool
rose_repl_load_subscription(Oid subid)
{
	MemoryContext old;

	StartTransactionCommand();
	old = MemoryContextSwitchTo(TopMemoryContext);
	rose_apply.sub = rose_subscription_get(subid);
	MemoryContextSwitchTo(old);
	CommitTransactionCommand();
	if (rose_apply.sub == NULL)
		return false;
	SetConfigOption("synchronous_commit", rose_apply.sub->synchronous_commit,
					PGC_BACKEND, PGC_S_OVERRIDE);
	return true;
}

/* Take up where the last worker of this server's life was, or the last epoch. */
static void
take_up(void)
{
	XLogRecPtr	logged = rose_apply.sub->logged ? rose_logged_take_up() : InvalidXLogRecPtr;
	RoseReplSnapshot last;

	if (!rose_repl_get(rose_apply.sub->subid, &last))
		elog(ERROR, "subscription %u has lost its entry", rose_apply.sub->subid);
	rose_apply.progress = last.progress;
	rose_apply.progress.streams = rose_apply.progress.stream_bytes = 0;
	rose_apply.epochs.row_lsn = rose_apply.sub->row_lsn;
	rose_apply.epochs.recorded_lsn = Max(rose_apply.sub->row_lsn, logged);
	if (XLogRecPtrIsInvalid(rose_apply.epochs.recorded_lsn))
	{
		/* nothing was applied yet, or all is to be copied anew from who knows where */
		rose_apply.progress.received_lsn = InvalidXLogRecPtr;
		rose_apply.progress.applied_lsn = InvalidXLogRecPtr;
		rose_apply.progress.durable_lsn = InvalidXLogRecPtr;
		rose_apply.progress.confirmed_lsn = InvalidXLogRecPtr;
		rose_apply.progress.upstream_lsn = InvalidXLogRecPtr;
		memset(&rose_apply.progress.last_commit, 0, sizeof(RoseUpstreamCommit));
		last.progress = rose_apply.progress;
	}
	if (rose_apply.progress.last_commit.lsn < rose_apply.sub->last_commit.lsn)
		rose_apply.progress.last_commit = rose_apply.sub->last_commit;
	rose_apply.progress.epoch = rose_apply.sub->epoch;
	rose_apply.progress.durable_lsn = Max(last.progress.durable_lsn, rose_apply.epochs.recorded_lsn);
	rose_apply.progress.applied_lsn = Max(last.progress.applied_lsn,
										  rose_apply.progress.durable_lsn);
	/* what was logged is flushed with the origin's position */
	rose_apply.epochs.dirty = rose_apply.progress.applied_lsn > rose_apply.sub->durable_lsn &&
		last.progress.batches > 0 && !rose_apply.sub->logged;
	rose_apply.epochs.last = GetCurrentTimestamp();
}

static void
roles_changed(Datum arg, int cacheid, uint32 hash)
{
	rose_apply.owner_doubtful = true;
}

/*
 * Who owns the subscription must be one who may have it now, and not only when he made it.  If he was a superuser then,
 * the upstream need not have asked for a password, so it is to be connected to anew.
 */
void
rose_repl_check_owner(void)
{
	RoseSubscription *sub = rose_apply.sub;
	char	   *hint;
	char	   *problem;

	rose_apply.owner_doubtful = false;
	problem = rose_owner_problem(sub->owner, &hint);
	if (problem != NULL)
		rose_repl_block(ROSE_BLOCKED_OWNER, psprintf("its owner %s", problem), hint);
	if (superuser_arg(sub->owner))
		sub->limited = false;
	if (sub->limited || superuser_arg(sub->owner))
		return;
	rose_apply.giving_way = true;
	ereport(ERROR,
			(errcode(ERRCODE_OPERATOR_INTERVENTION),
			 errmsg("rose subscription \"%s\" starts over, for its owner is not a superuser any more", sub->name)));
}

/* Without it nobody knows what was applied. */
static void
require_origin(void)
{
	if (rose_apply.origin_missing)
		rose_repl_block(ROSE_BLOCKED_ORIGIN_MISSING,
						psprintf("there is no replication origin \"%s\", which would say what has been applied",
								 rose_origin_name(rose_apply.sub->subid)),
						"Have all tables copied again with rose.alter_subscription(..., accept => 'resync').");
}

void
rose_repl_look_at_owner(void)
{
	AcceptInvalidationMessages();
	if (!rose_apply.owner_doubtful)
		return;
	StartTransactionCommand();
	rose_repl_check_owner();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
}

static void
watch_owner(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, roles_changed, (Datum) 0);
	rose_apply.owner_doubtful = true;
}

/*
 * What a transaction has is nothing that a limit of temporary files could make less, and an error would come again.  But who is
 * no superuser does not get more of them by a subscription than he would otherwise.
 */
static void
set_authorization(void)
{
	if (!rose_apply.sub->limited)
		SetConfigOption("temp_file_limit", "-1", PGC_SUSET, PGC_S_OVERRIDE);
	SetSessionAuthorization(rose_apply.sub->owner, !rose_apply.sub->limited);
}

void
rose_repl_become_owner(void)
{
	watch_owner();
	StartTransactionCommand();
	rose_repl_check_owner();
	CommitTransactionCommand();
	set_authorization();
}

void
rose_repl_become_copier(void)
{
	rose_apply.copier = true;
	watch_owner();
	set_authorization();
}

/* Who changes a subscription that has stopped takes the state row's position for that of its tables. */
static void
record_position(void)
{
	RoseReplProgress *progress = &rose_apply.progress;

	if (rose_apply.sub == NULL)
		return;
	progress->durable_lsn = Max(progress->durable_lsn, progress->applied_lsn);
	if (progress->durable_lsn > rose_apply.epochs.row_lsn)
		rose_epoch_record_idle();
}

/* Everything applied is durable: the worker stops, or another one takes over at once. */
static void
end_in_good_order(void)
{
	RoseReplSubShared *shared = rose_apply.shared;
	bool		stay;

	rose_copies_end();
	rose_epoch_commit();
	record_position();
	rose_origin_let_go();
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	stay = shared->drain || rose_apply.sub == NULL ||
		(!rose_apply.sub->enabled && !shared->reload);
	if (stay)
		shared->wanted = false;
	shared->drained = true;
	shared->text_needed = false;
	LWLockRelease(&rose_repl_shared->lock);
	rose_repl_publish(shared, ROSE_REPL_STOPPED, &rose_apply.progress);
}

static void
run(void)
{
	ErrorContextCallback callback = {error_context_stack, rose_apply_error_context, NULL};
	bool		drain;
	uint64		epoch_asked;

	rose_relmap_init(rose_apply.sub->subid);
	take_up();
	rose_epoch_recover();

	/*
	 * Memtables of the last worker, to start with room; and whoever asked for an
	 * epoch gets it even if the upstream cannot be reached.
	 */
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	epoch_asked = rose_apply.shared->epoch_asked;
	LWLockRelease(&rose_repl_shared->lock);
	rose_epoch_commit();
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->epoch_served = epoch_asked;
	drain = rose_apply.shared->drain;
	LWLockRelease(&rose_repl_shared->lock);
	if (rose_apply.sub->enabled && !drain)
	{
		rose_repl_become_owner();
		require_origin();
		if (rose_copies_before_stream())
		{
			rose_table_error_take_up();
			rose_repl_lock_take_up();
			error_context_stack = &callback;
			rose_stream_run();
			error_context_stack = callback.previous;
		}
	}
	if (!rose_apply.copies.starting_over)
		end_in_good_order();
	else
		rose_repl_publish(rose_apply.shared, ROSE_REPL_STOPPED, &rose_apply.progress);
}

/*
 * Connected, with the settings that apply needs.  Not as the owner: if he may not log in,
 * or is gone, nobody would see why there is no worker.
 */
void
rose_repl_set_up_process(Oid dbid)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(dbid, InvalidOid, 0);

	rose_background_settings_fix();
	/* nothing here fires triggers */
	SetConfigOption("session_replication_role", "replica", PGC_SUSET, PGC_S_OVERRIDE);
	/* The upstream sends text in our encoding, whatever the settings of the database or owner say. */
	SetConfigOption("client_encoding", GetDatabaseEncodingName(), PGC_SUSET, PGC_S_OVERRIDE);
}

void
rose_repl_worker_main(Datum arg)
{
	Oid			subid = DatumGetObjectId(arg);
	Oid			dbid;

	memcpy(&dbid, MyBgworkerEntry->bgw_extra, sizeof(dbid));
	/* before it can fail: who waits for the worker must hear of that */
	rose_apply.shared = rose_repl_attach(dbid, subid);
	if (rose_apply.shared == NULL)
		proc_exit(0);
	rose_apply.message_context = AllocSetContextCreate(TopMemoryContext, "rose apply message",
													   ALLOCSET_DEFAULT_SIZES);

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->reload = false;
	LWLockRelease(&rose_repl_shared->lock);

	PG_TRY();
	{
		rose_repl_set_up_process(dbid);
		rose_lock_slice_watch_cancels();
		rose_repl_lock_await_rows();
		if (rose_repl_load_subscription(subid))
			rose_flight_finish_left();
		if (rose_repl_load_subscription(subid))
		{
			rose_apply.status = ROSE_REPL_STARTING;
			ereport(LOG, (errmsg("rose subscription \"%s\" has started", rose_apply.sub->name)));
			run();
		}
		else
			end_in_good_order();
	}
	PG_CATCH();
	{
		if (rose_apply.giving_way)
			end_for_others();
		handle_error();
	}
	PG_END_TRY();
	proc_exit(0);
}
