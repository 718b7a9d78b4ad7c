/*-------------------------------------------------------------------------
 *
 * rose_repl_launcher.c
 *	  Starts the workers of subscriptions and keeps them running.
 *
 * The launcher is a static worker of the server.  After a start or a crash it visits
 * every database once, by a short-lived "starter" that enters the subscriptions it finds
 * into shared memory.  From then on it only looks at shared memory: an entry that is
 * wanted, has no worker and whose start time has come, gets one.  Workers tell by their
 * start time when they want to be started again.
 *
 * Locking: rose_repl_shared->lock, for moments.  What a worker does is
 * rose_repl_worker.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "util/rose_background_settings.h"
#include "repl/rose_repair.h"
#include "repl/rose_repl_internal.h"

/* Looks at the entries at least this often. */
#define ROSE_LAUNCHER_NAP_MS	10000
/* A worker that was asked for has this long to show up. */
#define ROSE_START_TIMEOUT_MS	30000

static void
init_worker(BackgroundWorker *worker, const char *function, const char *name)
{
	memset(worker, 0, sizeof(BackgroundWorker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, "rose", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker->bgw_name, name, BGW_MAXLEN);
	strlcpy(worker->bgw_type, name, BGW_MAXLEN);
}

void
rose_repl_register(void)
{
	BackgroundWorker worker;

	rose_epoch_committed_hook = rose_subscription_epoch_committed;
	rose_local_writes_register();
	rose_repair_apply_register();
	if (rose_max_subscriptions == 0 || IsBinaryUpgrade)
		return;
	init_worker(&worker, "rose_repl_launcher_main", "rose replication launcher");
	worker.bgw_restart_time = 5;
	RegisterBackgroundWorker(&worker);
}

static bool
start_worker(BackgroundWorker *worker, BackgroundWorkerHandle **handle)
{
	worker->bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(worker, handle))
		return true;
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no free background worker for rose replication"),
			 errhint("Increase max_worker_processes.")));
	return false;
}

/* ---------------------------------------------------------------------
 * Visiting databases
 */

/*
 * Enter a subscription, if it is to run.  Whoever changes or drops it thinks that no
 * worker runs, and none must start before that has ended; then the launcher is woken, and
 * the database visited again.
 */
static void
enter_subscription(Oid subid)
{
	bool		locked = rose_subscription_try_lock(subid);
	RoseSubscription *sub = locked ? rose_subscription_get(subid) : NULL;
	RoseReplSubShared *entry = NULL;

	/* one that is disabled has its position recorded, if its worker could not do that before the server went down */
	if (locked && (sub == NULL || (!sub->enabled && sub->durable_lsn == sub->row_lsn)))
		return;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (!locked)
		rose_repl_shared->passed_over = true;
	else
	{
		entry = rose_repl_entry(MyDatabaseId, subid);
		if (entry == NULL)
			entry = rose_repl_entry_make(MyDatabaseId, subid, sub->name);
		if (entry != NULL)
			entry->wanted = true;
	}
	LWLockRelease(&rose_repl_shared->lock);
	if (locked && entry == NULL)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("rose subscription \"%s\" does not run: all places are taken", sub->name),
				 errhint("Increase rose.max_subscriptions and restart the server.")));
}

/* The starter: enters the subscriptions of one database. */
void
rose_repl_starter_main(Datum arg)
{
	ListCell   *lc;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	rose_background_settings_fix();

	StartTransactionCommand();
	if (!OidIsValid(get_extension_oid("rose", true)))
		proc_exit(0);
	foreach(lc, rose_subscription_list())
		enter_subscription(((RoseSubscription *) lfirst(lc))->subid);
	CommitTransactionCommand();
	proc_exit(0);
}

/* Databases that can be connected to, in TopMemoryContext. */
static List *
list_databases(void)
{
	List	   *result = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old;

		if (!db->datallowconn)
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		result = lappend_oid(result, db->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return result;
}

/* True if all could be visited, and all of their subscriptions looked at. */
static bool
visit_databases(void)
{
	List	   *databases = list_databases();
	ListCell   *lc;
	bool		complete = true;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_repl_shared->passed_over = false;
	LWLockRelease(&rose_repl_shared->lock);

	foreach(lc, databases)
	{
		BackgroundWorker worker;
		BackgroundWorkerHandle *handle;

		init_worker(&worker, "rose_repl_starter_main", "rose replication starter");
		worker.bgw_main_arg = ObjectIdGetDatum(lfirst_oid(lc));
		if (!start_worker(&worker, &handle))
		{
			complete = false;
			break;
		}
		if (WaitForBackgroundWorkerShutdown(handle) == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		pfree(handle);
	}
	list_free(databases);
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	complete = complete && !rose_repl_shared->passed_over;
	LWLockRelease(&rose_repl_shared->lock);
	return complete;
}

/* ---------------------------------------------------------------------
 * Keeping workers running
 */

/*
 * Take one entry that is due, and mark it as being started; false: none.  *next: when
 * to look again.
 */
static bool
take_due_entry(BackgroundWorker *worker, TimestampTz *next)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		found = false;

	*next = TimestampTzPlusMilliseconds(now, ROSE_LAUNCHER_NAP_MS);
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < rose_max_subscriptions && !found; i++)
	{
		RoseReplSubShared *entry = &rose_repl_shared->subs[i];

		if (!OidIsValid(entry->dbid) || entry->pid != 0 || !rose_repl_needs_worker(entry))
			continue;
		if (entry->start_time > now)
		{
			*next = Min(*next, entry->start_time);
			continue;
		}
		init_worker(worker, "rose_repl_worker_main", "rose replication worker");
		snprintf(worker->bgw_name, BGW_MAXLEN, "rose replication worker for \"%s\"", entry->name);
		worker->bgw_main_arg = ObjectIdGetDatum(entry->subid);
		memcpy(worker->bgw_extra, &entry->dbid, sizeof(entry->dbid));
		entry->start_time = TimestampTzPlusMilliseconds(now, ROSE_START_TIMEOUT_MS);
		found = true;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return found;
}

static void
launcher_detach(int code, Datum arg)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_repl_shared->launcher_pid = 0;
	rose_repl_shared->launcher_latch = NULL;
	LWLockRelease(&rose_repl_shared->lock);
}

static void
launcher_attach(void)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_repl_shared->launcher_pid = MyProcPid;
	rose_repl_shared->launcher_latch = MyLatch;
	LWLockRelease(&rose_repl_shared->lock);
	before_shmem_exit(launcher_detach, 0);
}

void
rose_repl_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	rose_background_settings_fix();
	launcher_attach();

	for (;;)
	{
		BackgroundWorker worker;
		BackgroundWorkerHandle *handle;
		TimestampTz next;
		int			rc;

		CHECK_FOR_INTERRUPTS();
		if (!rose_repl_shared->scanned)
			rose_repl_shared->scanned = visit_databases();
		while (take_due_entry(&worker, &next))
		{
			if (start_worker(&worker, &handle))
				pfree(handle);
		}

		rc = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					   TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next) + 1,
					   PG_WAIT_EXTENSION);
		if (rc & WL_LATCH_SET)
			ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}
