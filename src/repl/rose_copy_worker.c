/*-------------------------------------------------------------------------
 *
 * rose_copy_worker.c
 *	  One table is copied: by a process of its own, beside the stream, or by the subscription's worker.
 *
 * One connection, one slot, one local transaction, which also says in the table's row
 * that it is copied, and up to which position; of a large table, transactions for pieces of it before that (rose_copy_chunks.c).  What goes wrong is the table's: its
 * row says so, and neither the subscription nor other tables are concerned.
 *
 * The process that copies may be cancelled or ended at any time; the subscription's worker
 * has whoever copies end when it ends itself for a change of the subscription.
 *
 * Locking: the table in RowExclusiveLock, until the local transaction ends.  What comes
 * before and after is rose_copies.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "replication/walreceiver.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_chunks.h"
#include "repl/rose_lock_slice.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

/* What of the system's identifier has room in a slot's name: 16 digits. */
#define SLOT_NAME_SYSTEMS	UINT64CONST(10000000000000000)

/* See wait_in_place. */
#define NOT_NOTED_WAIT_MS	5000

typedef struct CopierArgs
{
	Oid			dbid;
	Oid			subid;
	Oid			relid;
	uint64		ticket;
	bool		helper;
} CopierArgs;

bool
rose_copy_worker_start(Oid relid, uint64 ticket, bool helper)
{
	BackgroundWorker worker = {0};
	CopierArgs	args = {MyDatabaseId, rose_apply.sub->subid, relid, ticket, helper};

	StaticAssertStmt(sizeof(args) <= BGW_EXTRALEN, "a copier's arguments must fit");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "rose", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "rose_repl_copier_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "rose replication copier for \"%s\", table %u",
			 rose_apply.sub->name, relid);
	strlcpy(worker.bgw_type, "rose replication copier", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &args, sizeof(args));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Where the stream will go on with it must not be past, and nobody has got this table another way meanwhile. */
static void
require_place(Oid relid, XLogRecPtr sync_lsn)
{
	RoseSubscriptionTable *table;

	table = rose_subscription_find_table(rose_subscription_tables(rose_apply.sub->subid), relid);
	if (table == NULL || strcmp(table->state, ROSE_REL_COPYING) != 0)
		elog(ERROR, "table %u of subscription %u is not to be copied", relid, rose_apply.sub->subid);
	if (sync_lsn < table->sync_lsn)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream's WAL ends at %X/%X, but the copy has to be of later than %X/%X",
						LSN_FORMAT_ARGS(sync_lsn), LSN_FORMAT_ARGS(table->sync_lsn))));
}

/*
 * Of this server's system, database, subscription and table; and of this try, for the upstream may not have noticed
 * yet that nobody waits any more for the slot of the last one.
 */
static char *
slot_name(Oid relid)
{
	return psprintf("rose_%u_%u_%u_" UINT64_FORMAT "_%x", MyDatabaseId, rose_apply.sub->subid, relid,
					GetSystemIdentifier() % SLOT_NAME_SYSTEMS, (uint32) GetCurrentTimestamp());
}

/*
 * What he is no more by now must not be done in his name: nor can the table help it.  The worker blocks the
 * subscription, and what has become of the table then is tried again.
 */
static void
require_owner(void)
{
	char	   *hint;
	char	   *problem;

	AcceptInvalidationMessages();
	if (!rose_apply.owner_doubtful)
		return;
	problem = rose_owner_problem(rose_apply.sub->owner, &hint);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OPERATOR_INTERVENTION),
				 errmsg("the owner of rose subscription \"%s\", %s", rose_apply.sub->name, problem)));
	if (!rose_apply.sub->limited && !superuser_arg(rose_apply.sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_OPERATOR_INTERVENTION),
				 errmsg("the owner of rose subscription \"%s\" is not a superuser any more", rose_apply.sub->name)));
	/* whoever else has a look in this process says what follows */
	if (rose_apply.copier)
		rose_apply.owner_doubtful = false;
}

/* In the transaction at hand. */
static Relation
open_table(Oid relid)
{
	Relation	rel;

	rose_owner_require_relid(rose_apply.sub, relid);
	rose_copy_places_lock(relid, RowExclusiveLock);
	rel = try_relation_open(relid, RowExclusiveLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table with OID %u does not exist any more", relid)));
	return rel;
}

/* REQUIRES: a transaction. */
static void
ask_source(WalReceiverConn *conn, RoseCopySource *source)
{
	rose_upstream_identity_ask(conn, &source->identity);
	source->has_slot = rose_upstream_find_slot(conn, rose_apply.sub->slot_name, &source->slot);
}

/* What the transaction at hand has said of the copy is there to stay, and what was said of it lives in the message context. */
static RoseChunks *
look_for_pieces(WalReceiverConn *conn, Relation rel, RoseCopyJob *job, XLogRecPtr lsn)
{
	MemoryContext old = MemoryContextSwitchTo(rose_apply.message_context);
	RoseChunks *chunks;
	RoseCopySource source;

	rose_copy_begin(conn, rel, job, true);
	ask_source(conn, &source);
	chunks = rose_copy_chunks_find(conn, rel, job, &source, lsn);
	MemoryContextSwitchTo(old);
	return chunks;
}

/* Returns the table, open in another transaction, in which it gets them. */
static Relation
read_pieces(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, RoseChunks *chunks, XLogRecPtr lsn)
{
	LockRelId	id = rel->rd_lockInfo.lockRelId;

	/* it stays as it is in between, as for other copies */
	LockRelationIdForSession(&id, RowExclusiveLock);
	relation_close(rel, NoLock);
	rose_repl_local_commit();
	rose_copy_chunks_read(conn, id.relId, job, chunks, lsn, rose_copy_worker_start);
	rose_repl_local_begin();
	rel = open_table(id.relId);
	UnlockRelationIdForSession(&id, RowExclusiveLock);
	return rel;
}

static void
copy_and_commit(WalReceiverConn *conn, Oid relid)
{
	RoseReplTableCounts counts = {.relid = relid};
	XLogRecPtr	sync_lsn;
	RoseCopyJob job;
	RoseChunks *chunks;
	Relation	rel;

	rose_repl_local_begin();
	rel = open_table(relid);
	ereport(LOG,
			(errmsg("rose subscription \"%s\" copies table \"%s\"",
					rose_apply.sub->name, RelationGetRelationName(rel))));
	rose_upstream_begin_copy(conn, slot_name(relid), &sync_lsn);
	ROSE_STOP_POINT("copy-snapshot");
	require_place(relid, sync_lsn);
	chunks = look_for_pieces(conn, rel, &job, sync_lsn);
	if (chunks != NULL)
	{
		rel = read_pieces(conn, rel, &job, chunks, sync_lsn);
		counts.copied = rose_copy_chunks_switch(conn, rel, &job, chunks);
		sync_lsn = chunks->first_lsn;
	}
	else
		counts.copied = rose_copy_table(conn, rel, &job);
	relation_close(rel, NoLock);
	ROSE_STOP_POINT("copy-loaded");

	require_owner();
	rose_upstream_identity_check_copied(conn);
	rose_subscription_set_table(rose_apply.sub->subid, relid, ROSE_REL_COPIED, sync_lsn,
								NULL, NULL, InvalidXLogRecPtr);
	rose_repl_stats_count_kept();
	ForceSyncCommit();
	HOLD_INTERRUPTS();
	rose_repl_local_commit();
	rose_copy_places_committed(relid);
	RESUME_INTERRUPTS();
	ROSE_STOP_POINT("copy-committed");
	rose_repl_stats_report(true);
	rose_repl_add_table_counts(rose_apply.sub->subid, &counts);
}

/* For the connection of the copy, too: whose rows they are. */
static void
check_upstream(WalReceiverConn *conn)
{
	StartTransactionCommand();
	require_owner();
	rose_upstream_identity_check_monitor(conn);
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
}

static void
record_error(Oid relid)
{
	ErrorData  *edata;

	MemoryContextSwitchTo(TopMemoryContext);
	edata = CopyErrorData();
	EmitErrorReport();
	FlushErrorState();
	error_context_stack = NULL;
	rose_copy_places_unlock_all();
	MemoryContextSwitchTo(rose_apply.message_context);
	rose_table_error_record_copy(relid, rose_repl_form_message(edata), edata->sqlerrcode);
	FreeErrorData(edata);
}

/* While rows are read. */
static void
breathe(void)
{
	require_owner();
	rose_copies_breathe();
}

/* It must not be tried again at once, also if there was no room to note when it should. */
static void
wait_in_place(Oid relid)
{
	if (rose_copy_places_due(relid) != 0 || rose_apply.keep_alive != NULL)
		return;
	(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, NOT_NOTED_WAIT_MS, PG_WAIT_EXTENSION);
	CHECK_FOR_INTERRUPTS();
}

bool
rose_copy_worker_here(Oid relid, uint64 ticket)
{
	WalReceiverConn *volatile conn = NULL;
	volatile bool copied = false;
	ErrorContextCallback *context = error_context_stack;

	if (!rose_copy_places_enter(relid, ticket))
		return false;
	rose_apply.copies.breathe = breathe;
	PG_TRY();
	{
		conn = rose_upstream_connect(rose_apply.sub);
		check_upstream(conn);
		copy_and_commit(conn, relid);
		copied = true;
	}
	PG_CATCH();
	{
		/* of rows that never came; the next batch would count them */
		rose_repl_stats_forget_kept();
		record_error(relid);
		wait_in_place(relid);
	}
	PG_END_TRY();
	rose_apply.copies.breathe = NULL;
	error_context_stack = context;
	if (conn != NULL)
		rose_upstream_disconnect(conn);
	rose_copy_places_leave();
	return copied;
}

/* What goes wrong is said in the log: who leads does the rest, and says what is wrong with the table. */
static void
help(Oid relid, uint64 ticket)
{
	WalReceiverConn *conn;
	RoseCopySource source;

	if (!rose_copy_places_enter(relid, ticket))
		return;
	rose_apply.copies.breathe = breathe;
	conn = rose_upstream_connect(rose_apply.sub);
	check_upstream(conn);
	rose_repl_local_begin();
	ask_source(conn, &source);
	rose_repl_local_commit();
	rose_copy_chunks_help(conn, relid, &source);
	rose_upstream_disconnect(conn);
	rose_copy_places_leave();
}

/* The process that copies one table, or helps with that. */
void
rose_repl_copier_main(Datum arg)
{
	CopierArgs	args;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	rose_repl_set_up_process(args.dbid);
	rose_lock_slice_watch_cancels();
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	rose_apply.shared = rose_repl_entry(args.dbid, args.subid);
	LWLockRelease(&rose_repl_shared->lock);
	if (rose_apply.shared == NULL)
		proc_exit(0);
	rose_apply.message_context = AllocSetContextCreate(TopMemoryContext, "rose copier",
													   ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(rose_apply.message_context);
	if (rose_repl_load_subscription(args.subid) && rose_apply.sub->enabled)
	{
		/* whether he may is asked at the place, which others wait for */
		rose_repl_become_copier();
		if (args.helper)
			help(args.relid, args.ticket);
		else
			(void) rose_copy_worker_here(args.relid, args.ticket);
	}
	proc_exit(0);
}
