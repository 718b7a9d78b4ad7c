/*-------------------------------------------------------------------------
 *
 * rose_repl_state.c
 *	  Shared state of the replication consumer: one entry a subscription.
 *
 * Responsible for the array of subscriptions that have, or should have, a worker,
 * for their progress and for counts by table, and for the settings.  Nothing here is
 * durable: after a crash the launcher fills the array from the catalogs again.
 * What backends ask of workers is in rose_repl_request.c.
 *
 * Locking.  rose_repl_shared->lock: membership of the array, the requests and the
 * last error.  An entry's mutex: its progress, which only its worker writes, and its status with
 * the reason that blocks it, so that nobody sees the one without the other.
 * tables_lock: the counts by table.  None is held while waiting for anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_repl_internal.h"

/* Conflicts of a table are reported so often at most. */
#define ROSE_REPL_REPORT_MS		(60 * 1000)

/* Tables whose changes are counted; more of them just go uncounted. */
#define ROSE_REPL_COUNTED_TABLES	2048

RoseReplShared *rose_repl_shared = NULL;
int			rose_batch_interval = 200;
int			rose_background_spill_size = 1024;
int			rose_max_subscriptions = 16;
int			rose_max_paused_wal_size = 10240;
int			rose_max_copy_workers = 2;
int			rose_copy_piece_size = 256 * 1024;
int			rose_copied_patience = 60 * 1000;

static HTAB *rose_repl_tables = NULL;
static RoseReplSubShared *attached = NULL;
static int	restart_delay_ms = -1;

/* ---------------------------------------------------------------------
 * Settings and shared memory
 */

void
rose_repl_define_settings(void)
{
	DefineCustomIntVariable("rose.batch_interval",
							"Sets how long upstream transactions of a backlog are gathered into one local transaction.",
							"When all that the upstream has sent is read, they are committed after some milliseconds. Zero commits each upstream transaction by itself.",
							&rose_batch_interval,
							200, 0, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.background_spill_size",
							"Sets how much a subscription's memtables must hold for a process of their own to write them to disk.",
							"Less than that is written by the worker that applies the changes.",
							&rose_background_spill_size,
							1024, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.max_paused_wal_size",
							"Sets how much WAL an upstream keeps for paused tables of a subscription.",
							"Tables that have been paused for longer have to be copied again. -1 means that it keeps all.",
							&rose_max_paused_wal_size,
							10240, -1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.max_copy_workers",
							"Sets how many processes copy tables of a subscription at a time, beside the stream.",
							"Zero has the subscription's worker copy them itself, one after the other, and stream in between.",
							&rose_max_copy_workers,
							2, 0, ROSE_MAX_COPIES,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.copy_piece_size",
							"Sets in pieces of which size large tables are copied.",
							"What is there of a copy that was interrupted is not read again. Zero has each table copied as one.",
							&rose_copy_piece_size,
							256 * 1024, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.debug_copied_patience",
							"Sets how long a table that is copied waits for others, before the stream takes it in.",
							"For tests of rose.",
							&rose_copied_patience,
							60 * 1000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.max_subscriptions",
							"Sets how many subscriptions the server can run at a time.",
							NULL,
							&rose_max_subscriptions,
							16, 0, 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
}

static Size
shared_size(void)
{
	return add_size(offsetof(RoseReplShared, subs),
					mul_size(rose_max_subscriptions, sizeof(RoseReplSubShared)));
}

Size
rose_repl_shmem_size(void)
{
	return add_size(shared_size(),
					hash_estimate_size(ROSE_REPL_COUNTED_TABLES,
									   sizeof(RoseReplTableShared)));
}

void
rose_repl_shmem_init(bool found)
{
	bool		have;
	HASHCTL		ctl = {0};

	rose_repl_shared = ShmemInitStruct("rose replication", shared_size(), &have);
	if (!have)
	{
		int			tranche = LWLockNewTrancheId();

		memset(rose_repl_shared, 0, shared_size());
		LWLockInitialize(&rose_repl_shared->lock, tranche);
		LWLockInitialize(&rose_repl_shared->tables_lock, tranche);
		for (int i = 0; i < rose_max_subscriptions; i++)
		{
			SpinLockInit(&rose_repl_shared->subs[i].mutex);
			rose_realtime_init(&rose_repl_shared->subs[i].realtime);
		}
	}
	LWLockRegisterTranche(rose_repl_shared->lock.tranche, "rose_replication");

	ctl.keysize = sizeof(RoseReplTableKey);
	ctl.entrysize = sizeof(RoseReplTableShared);
	rose_repl_tables = ShmemInitHash("rose replicated tables",
									 ROSE_REPL_COUNTED_TABLES, ROSE_REPL_COUNTED_TABLES,
									 &ctl, HASH_ELEM | HASH_BLOBS);
}

void
rose_repl_require_shared(void)
{
	if (rose_repl_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rose is not loaded at server start"),
				 errhint("Add rose to shared_preload_libraries and restart the server.")));
}

/* ---------------------------------------------------------------------
 * Entries
 */

RoseReplSubShared *
rose_repl_entry(Oid dbid, Oid subid)
{
	for (int i = 0; i < rose_max_subscriptions; i++)
	{
		RoseReplSubShared *entry = &rose_repl_shared->subs[i];

		if (entry->dbid == dbid && entry->subid == subid)
			return entry;
	}
	return NULL;
}

RoseReplSubShared *
rose_repl_entry_make(Oid dbid, Oid subid, const char *name)
{
	RoseReplSubShared *entry = rose_repl_entry(InvalidOid, InvalidOid);

	if (entry == NULL)
		return NULL;
	entry->dbid = dbid;
	entry->subid = subid;
	strlcpy(entry->name, name, NAMEDATALEN);
	entry->reserved_by = 0;
	entry->wanted = false;
	entry->start_time = 0;
	entry->pid = 0;
	entry->latch = NULL;
	entry->reload = entry->retry_copies = entry->drain = entry->drained = entry->text_needed = false;
	entry->epoch_asked = entry->epoch_served = 0;
	memset(&entry->flight, 0, sizeof(entry->flight));
	memset(&entry->waiting, 0, sizeof(entry->waiting));
	memset(&entry->hold, 0, sizeof(entry->hold));
	entry->solo_lsn = InvalidXLogRecPtr;
	memset(entry->copies, 0, sizeof(entry->copies));
	entry->copy_tickets = entry->copies_ended = entry->copied_rows = 0;
	entry->received_anew = 0;
	entry->copies_waiting = 0;
	entry->last_error_time = 0;
	entry->last_error_owner = InvalidOid;
	entry->last_error[0] = '\0';
	SpinLockAcquire(&entry->mutex);
	entry->blocked[0] = '\0';
	entry->blocked_xid = InvalidTransactionId;
	entry->reason_xid = InvalidFullTransactionId;
	entry->status = ROSE_REPL_STOPPED;
	memset(&entry->progress, 0, sizeof(RoseReplProgress));
	SpinLockRelease(&entry->mutex);
	return entry;
}

void
rose_repl_entry_free(RoseReplSubShared *entry)
{
	entry->dbid = entry->subid = InvalidOid;
	entry->wanted = false;
	entry->reserved_by = 0;
}

int
rose_repl_count_running(Oid dbid)
{
	int			n = 0;

	if (rose_repl_shared == NULL)
		return 0;
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	for (int i = 0; i < rose_max_subscriptions; i++)
	{
		const RoseReplSubShared *entry = &rose_repl_shared->subs[i];

		if (entry->dbid == dbid && (entry->wanted || entry->pid != 0))
			n++;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return n;
}

void
rose_repl_forget_database(Oid dbid)
{
	if (rose_repl_shared == NULL)
		return;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < rose_max_subscriptions; i++)
	{
		RoseReplSubShared *entry = &rose_repl_shared->subs[i];

		if (entry->dbid != dbid)
			continue;
		entry->wanted = entry->drain = false;
		/* a worker on its way in fails, and frees it */
		if (entry->pid == 0)
			rose_repl_entry_free(entry);
	}
	LWLockRelease(&rose_repl_shared->lock);
}

/* REQUIRES: lock.  A worker is to run: for good, or to drain. */
bool
rose_repl_needs_worker(const RoseReplSubShared *entry)
{
	return entry->wanted || (entry->drain && !entry->drained);
}

void
rose_repl_wake_launcher(void)
{
	if (rose_repl_shared->launcher_latch != NULL)
		SetLatch(rose_repl_shared->launcher_latch);
}

/* ---------------------------------------------------------------------
 * Why a subscription is blocked
 */

static bool
is_blocked_for(const RoseReplSubShared *entry, const char *reason)
{
	return strcmp(entry->blocked, reason) == 0;
}

/* REQUIRES: mutex.  NULL: nothing does any more. */
static void
set_reason(RoseReplSubShared *entry, const char *reason, FullTransactionId xid)
{
	strlcpy(entry->blocked, reason != NULL ? reason : "", ROSE_BLOCKED_LENGTH);
	entry->blocked_xid = XidFromFullTransactionId(xid);
	entry->reason_xid = xid;
}

/* REQUIRES: mutex.  What rows of the catalog say, too, until something else happens than that a worker looks. */
static bool
reason_is_kept(const RoseReplSubShared *entry)
{
	return is_blocked_for(entry, ROSE_BLOCKED_TABLE_ERROR) || is_blocked_for(entry, ROSE_BLOCKED_BEHIND);
}

/* REQUIRES: mutex.  The worker has come past what blocked the last one: of a table's error, its stream has. */
static bool
is_past_reason(const RoseReplSubShared *entry, RoseReplStatus status, const RoseReplProgress *progress)
{
	if (is_blocked_for(entry, ROSE_BLOCKED_TABLE_ERROR))
		return status == ROSE_REPL_STREAMING &&
			(XLogRecPtrIsInvalid(rose_apply.stops.failed_lsn) || progress->applied_lsn > rose_apply.stops.failed_lsn);
	return status == ROSE_REPL_STREAMING || (status == ROSE_REPL_COPYING && !reason_is_kept(entry));
}

void
rose_repl_unblock(RoseReplSubShared *entry, bool accepted)
{
	SpinLockAcquire(&entry->mutex);
	if (entry->blocked[0] != '\0')
		entry->status = ROSE_REPL_STARTING;
	if (accepted || !is_blocked_for(entry, ROSE_BLOCKED_BEHIND))
		set_reason(entry, NULL, InvalidFullTransactionId);
	SpinLockRelease(&entry->mutex);
}

bool
rose_repl_block_with(RoseReplSubShared *entry, const char *reason, FullTransactionId xid)
{
	bool		anew;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	anew = entry->reload;
	if (!anew)
	{
		SpinLockAcquire(&entry->mutex);
		/* one that stands is not taken back for a moment */
		if (!is_blocked_for(entry, reason))
			set_reason(entry, reason, xid);
		entry->status = ROSE_REPL_BLOCKED;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(&rose_repl_shared->lock);
	return !anew;
}

void
rose_repl_settle_reason(RoseReplSubShared *entry, bool committed)
{
	SpinLockAcquire(&entry->mutex);
	if (TransactionIdIsValid(entry->blocked_xid))
	{
		if (!committed)
		{
			set_reason(entry, NULL, InvalidFullTransactionId);
			entry->status = ROSE_REPL_ERROR;
		}
		entry->blocked_xid = InvalidTransactionId;
	}
	SpinLockRelease(&entry->mutex);
}

/* ---------------------------------------------------------------------
 * A worker's side
 */

/* REQUIRES: lock exclusive.  blocked: the reason, or NULL. */
static void
note_error(RoseReplSubShared *entry, const char *message, const char *blocked)
{
	int			len = pg_mbcliplen(message, strlen(message), ROSE_REPL_ERROR_LENGTH - 1);

	memcpy(entry->last_error, message, len);
	entry->last_error[len] = '\0';
	entry->last_error_time = GetCurrentTimestamp();
	entry->last_error_owner = rose_apply.sub != NULL ? rose_apply.sub->owner : InvalidOid;
	SpinLockAcquire(&entry->mutex);
	if (blocked != NULL)
	{
		set_reason(entry, blocked, InvalidFullTransactionId);
		entry->status = ROSE_REPL_BLOCKED;
	}
	else
	{
		if (!reason_is_kept(entry))
			set_reason(entry, NULL, InvalidFullTransactionId);
		entry->status = entry->reload ? ROSE_REPL_STARTING : ROSE_REPL_ERROR;
	}
	SpinLockRelease(&entry->mutex);
}

/* REQUIRES: lock exclusive.  The worker ends: what its last state was is all that is known until another one comes. */
static void
leave_status(RoseReplSubShared *entry)
{
	bool		comes = rose_repl_needs_worker(entry);

	SpinLockAcquire(&entry->mutex);
	/* who was told that the reason is gone is not told anything before there was another look */
	if (entry->status != ROSE_REPL_ERROR && entry->status != ROSE_REPL_BLOCKED &&
		!(comes && entry->status == ROSE_REPL_STARTING))
		entry->status = ROSE_REPL_STOPPED;
	SpinLockRelease(&entry->mutex);
}

static void
detach(int code, Datum arg)
{
	RoseReplSubShared *entry = attached;
	bool		reported = restart_delay_ms >= 0;
	int			delay = reported ? restart_delay_ms : wal_retrieve_retry_interval;

	/* it ended in the middle of that transaction, which is over by now */
	if (TransactionIdIsValid(entry->blocked_xid))
		rose_repl_settle_reason(entry, TransactionIdDidCommit(entry->blocked_xid));
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	/* FATAL, which the worker does not catch: whoever waits for it must hear of that */
	if (!reported && IsInitProcessingMode())
		note_error(entry, "the worker could not connect to its database; see the server log", NULL);
	entry->pid = 0;
	entry->latch = NULL;
	memset(&entry->waiting, 0, sizeof(entry->waiting));
	rose_realtime_note_ended(&entry->realtime);
	/* who has it stand still must not wait for it */
	if (entry->hold.state != ROSE_HOLD_NONE)
	{
		entry->hold.state = ROSE_HOLD_LAPSED;
		if (entry->hold.latch != NULL)
			SetLatch(entry->hold.latch);
	}
	/* what it failed by may have been put right since it read the subscription */
	entry->start_time = delay == 0 || (reported && entry->reload) ? 0 :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay);
	leave_status(entry);
	if (IsInitProcessingMode() && !rose_repl_needs_worker(entry))
		rose_repl_entry_free(entry);
	rose_repl_wake_launcher();
	LWLockRelease(&rose_repl_shared->lock);
	attached = NULL;
}

/*
 * This process becomes the worker of the subscription.  However it ends, the
 * entry is free for another one after wal_retrieve_retry_interval, or after
 * the delay that rose_repl_publish or rose_repl_report_error last said.
 */
RoseReplSubShared *
rose_repl_attach(Oid dbid, Oid subid)
{
	RoseReplSubShared *entry;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	entry = rose_repl_entry(dbid, subid);
	if (entry != NULL && entry->pid == 0 && rose_repl_needs_worker(entry))
	{
		entry->pid = MyProcPid;
		entry->latch = MyLatch;
		attached = entry;
	}
	LWLockRelease(&rose_repl_shared->lock);

	if (attached != NULL)
		before_shmem_exit(detach, 0);
	return attached;
}

/* STOPPED: the worker ends in good order, and may be started at once. */
void
rose_repl_publish(RoseReplSubShared *entry, RoseReplStatus status,
				  const RoseReplProgress *progress)
{
	SpinLockAcquire(&entry->mutex);
	if (entry->blocked[0] != '\0' && is_past_reason(entry, status, progress))
		set_reason(entry, NULL, InvalidFullTransactionId);
	entry->status = status;
	entry->progress = *progress;
	SpinLockRelease(&entry->mutex);
	if (status == ROSE_REPL_STOPPED)
		restart_delay_ms = 0;
}

void
rose_repl_report_error(RoseReplSubShared *entry, const char *message, const char *blocked,
					   int retry_ms)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	/* why it failed as it was is no reason that it is blocked as it is now */
	note_error(entry, message, entry->reload ? NULL : blocked);
	LWLockRelease(&rose_repl_shared->lock);
	restart_delay_ms = retry_ms;
}

void
rose_repl_restart_after(int ms)
{
	restart_delay_ms = ms;
}

/* REQUIRES: tables_lock exclusive.  NULL: there is no room. */
static RoseReplTableShared *
enter_table(Oid subid, Oid relid)
{
	RoseReplTableKey key = {MyDatabaseId, subid, relid};
	bool		found;
	RoseReplTableShared *table;

	/* as if there were that many */
	if (ROSE_STOP_POINT_SKIPS("table-counts-room"))
		return NULL;
	table = hash_search(rose_repl_tables, &key, HASH_ENTER_NULL, &found);
	if (table != NULL && !found)
	{
		memset(&table->counts, 0, sizeof(table->counts));
		memset(&table->retry, 0, sizeof(table->retry));
		memset(&table->conflicts, 0, sizeof(table->conflicts));
		table->unreported = 0;
		table->reported = 0;
		table->counts.relid = relid;
	}
	return table;
}

void
rose_repl_add_table_counts(Oid subid, const RoseReplTableCounts *counts)
{
	RoseReplTableShared *table;

	LWLockAcquire(&rose_repl_shared->tables_lock, LW_EXCLUSIVE);
	table = enter_table(subid, counts->relid);
	if (table != NULL)
	{
		table->counts.inserts += counts->inserts;
		table->counts.updates += counts->updates;
		table->counts.deletes += counts->deletes;
		table->counts.truncates += counts->truncates;
		table->counts.partials += counts->partials;
		table->counts.incomplete += counts->incomplete;
		table->counts.copied += counts->copied;
	}
	LWLockRelease(&rose_repl_shared->tables_lock);
}

bool
rose_repl_add_conflicts(Oid subid, Oid relid, const RoseReplConflicts *found, uint64 *unreported)
{
	RoseReplTableShared *table;
	bool		report = false;

	LWLockAcquire(&rose_repl_shared->tables_lock, LW_EXCLUSIVE);
	table = enter_table(subid, relid);
	if (table != NULL)
	{
		for (int i = 0; i < ROSE_CONFLICT_KINDS; i++)
		{
			table->conflicts.counts[i] += found->counts[i];
			table->unreported += found->counts[i];
		}
		if (table->conflicts.first.kind == ROSE_CONFLICT_NONE)
			table->conflicts.first = found->first;
		table->conflicts.last = found->last;
		report = table->reported == 0 ||
			TimestampDifferenceExceeds(table->reported, found->last.time, ROSE_REPL_REPORT_MS);
		*unreported = table->unreported;
		if (report)
		{
			table->unreported = 0;
			table->reported = found->last.time;
		}
	}
	LWLockRelease(&rose_repl_shared->tables_lock);
	return report;
}

void
rose_repl_set_table_retry(Oid subid, Oid relid, const RoseReplRetry *retry)
{
	RoseReplTableShared *table;

	LWLockAcquire(&rose_repl_shared->tables_lock, LW_EXCLUSIVE);
	table = enter_table(subid, relid);
	if (table != NULL)
		table->retry = *retry;
	LWLockRelease(&rose_repl_shared->tables_lock);
}

void
rose_repl_forget_retries(Oid subid)
{
	HASH_SEQ_STATUS status;
	RoseReplTableShared *table;

	LWLockAcquire(&rose_repl_shared->tables_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, rose_repl_tables);
	while ((table = hash_seq_search(&status)) != NULL)
	{
		if (table->key.dbid == MyDatabaseId && table->key.subid == subid)
			memset(&table->retry, 0, sizeof(table->retry));
	}
	LWLockRelease(&rose_repl_shared->tables_lock);
}

/* ---------------------------------------------------------------------
 * Looking at it
 */

bool
rose_repl_retries_copies(Oid subid)
{
	const RoseReplSubShared *entry;
	bool		result;

	rose_repl_require_shared();
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	result = entry != NULL && entry->retry_copies;
	LWLockRelease(&rose_repl_shared->lock);
	return result;
}

/* REQUIRES: lock. */
static void
entry_snapshot(RoseReplSubShared *entry, RoseReplSnapshot *out)
{
	out->subid = entry->subid;
	out->pid = entry->pid;
	SpinLockAcquire(&entry->mutex);
	out->status = entry->status;
	out->progress = entry->progress;
	strlcpy(out->blocked, entry->blocked, ROSE_BLOCKED_LENGTH);
	out->blocked_xid = entry->blocked_xid;
	out->reason_xid = entry->reason_xid;
	SpinLockRelease(&entry->mutex);
	out->progress.copied_rows = entry->copied_rows;
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
		out->progress.copied_rows += OidIsValid(entry->copies[i].relid) ? entry->copies[i].done_rows + entry->copies[i].rows : 0;
	out->waiting = entry->waiting.relid;
	out->waiting_since = entry->waiting.since;
	if (!OidIsValid(out->waiting))
	{
		out->waiting = entry->flight.blocked.relid;
		out->waiting_since = entry->flight.blocked.since;
	}
	out->last_error_time = entry->last_error_time;
	out->last_error_owner = entry->last_error_owner;
	strlcpy(out->last_error, entry->last_error, ROSE_REPL_ERROR_LENGTH);
}

/* The caller's query sees what it has written.  One that is too old for snapshots to tell is seen by all. */
static bool
query_sees(FullTransactionId xid)
{
	uint64		age = U64FromFullTransactionId(ReadNextFullTransactionId()) - U64FromFullTransactionId(xid);

	return age > MaxTransactionId / 2 || !XidInMVCCSnapshot(XidFromFullTransactionId(xid), GetActiveSnapshot());
}

/*
 * A reason that comes with a row counts with it, for whoever looks at both: from when the row's transaction is seen by
 * snapshots, and in a query (of_query) if its own does.  Not under the lock, for this may read the commit log.
 */
static void
judge_reason(RoseReplSnapshot *out, bool of_query)
{
	if ((TransactionIdIsValid(out->blocked_xid) &&
		 (TransactionIdIsInProgress(out->blocked_xid) || !TransactionIdDidCommit(out->blocked_xid))) ||
		(of_query && FullTransactionIdIsValid(out->reason_xid) && ActiveSnapshotSet() && !query_sees(out->reason_xid)))
	{
		out->blocked[0] = '\0';
		out->status = ROSE_REPL_ERROR;
	}
	out->looks_again = out->status != ROSE_REPL_BLOCKED;
}

int
rose_repl_list(RoseReplSnapshot *out, int max)
{
	int			n = 0;

	rose_repl_require_shared();
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	for (int i = 0; i < rose_max_subscriptions && n < max; i++)
	{
		if (rose_repl_shared->subs[i].dbid == MyDatabaseId)
			entry_snapshot(&rose_repl_shared->subs[i], &out[n++]);
	}
	LWLockRelease(&rose_repl_shared->lock);
	for (int i = 0; i < n; i++)
		judge_reason(&out[i], true);
	return n;
}

bool
rose_repl_get(Oid subid, RoseReplSnapshot *out)
{
	RoseReplSubShared *entry;

	rose_repl_require_shared();
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL)
		entry_snapshot(entry, out);
	LWLockRelease(&rose_repl_shared->lock);
	if (entry != NULL)
		judge_reason(out, false);
	return entry != NULL;
}

/* What is known of a table, as of one moment; false: nothing. */
static bool
copy_table(Oid subid, Oid relid, RoseReplTableShared *out)
{
	RoseReplTableKey key = {MyDatabaseId, subid, relid};
	const RoseReplTableShared *table;

	rose_repl_require_shared();
	LWLockAcquire(&rose_repl_shared->tables_lock, LW_SHARED);
	table = hash_search(rose_repl_tables, &key, HASH_FIND, NULL);
	if (table != NULL)
		*out = *table;
	LWLockRelease(&rose_repl_shared->tables_lock);
	return table != NULL;
}

bool
rose_repl_table_counts(Oid subid, Oid relid, RoseReplTableCounts *out)
{
	RoseReplTableShared table;
	bool		known = copy_table(subid, relid, &table);

	if (known)
		*out = table.counts;
	return known;
}

bool
rose_repl_table_conflicts(Oid subid, Oid relid, RoseReplConflicts *out)
{
	RoseReplTableShared table;
	bool		known = copy_table(subid, relid, &table);

	if (known)
		*out = table.conflicts;
	return known;
}

bool
rose_repl_table_retry(Oid subid, Oid relid, RoseReplRetry *out)
{
	RoseReplTableShared table;
	bool		known = copy_table(subid, relid, &table) && table.retry.next != 0;

	if (known)
		*out = table.retry;
	return known;
}
