/*-------------------------------------------------------------------------
 *
 * rose_launcher.c
 *	  Starts a worker for each database in which there is something to do.
 *
 * It looks at the registry now and then, and when a writer who is short of
 * memory wakes it.  Nothing in the write path has to tell it anything: old or
 * large C0s and switched manifests show in the registry.  After a start of the
 * server the registry is empty, so a worker visits each database once and
 * opens its rose tables.
 *
 * The launcher has no database and no merge to do; it takes locks in
 * rose_workers for moments only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/rose_worker_internal.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "lsm/rose_spill.h"
#include "lsm/rose_table.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* Milliseconds between two looks at the registry. */
#define LAUNCHER_NAP_MS			1000

/* A worker that died is not started again for so long, in ms. */
#define RESTART_DELAY_MS		5000

/* A worker that is registered but never showed up is given up after this, in ms. */
#define STARTING_TIMEOUT_MS		60000

/* Databases looked at; more than that have tables in use only in strange places. */
#define MAX_DATABASES			1024

/* Handles of workers that this launcher started, by slot. */
static BackgroundWorkerHandle *handles[ROSE_WORKER_SLOTS];

/* Databases to be visited once. */
static List *to_visit = NIL;

static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	rose_workers->launcher = NULL;
	LWLockRelease(&rose_workers->lock);
}

static void
list_databases(void)
{
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;
	MemoryContext old;

	StartTransactionCommand();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		if (!database->datallowconn)
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		to_visit = lappend_oid(to_visit, database->oid);
		MemoryContextSwitchTo(old);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

static bool
database_exists(Oid dbid)
{
	bool		exists;

	StartTransactionCommand();
	exists = SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(dbid));
	CommitTransactionCommand();
	return exists;
}

/* ---- starting ---- */

/* Take a slot for a new worker; false if the database has one, or must wait.  */
static bool
claim_slot(Oid dbid, bool visit, int *index)
{
	RoseWorkerSlotShared *slot;
	TimestampTz now = GetCurrentTimestamp();
	int			nrunning = 0;
	bool		claimed = false;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		nrunning += rose_workers->slots[i].state != ROSE_WORKER_STOPPED;
	slot = nrunning < rose_max_merge_workers ? rose_worker_slot(dbid, true) : NULL;
	if (slot != NULL && slot->state == ROSE_WORKER_STOPPED && slot->not_before <= now)
	{
		slot->state = ROSE_WORKER_STARTING;
		slot->state_since = now;
		slot->visit = slot->visit || visit;
		*index = slot - rose_workers->slots;
		claimed = true;
	}
	LWLockRelease(&rose_workers->lock);
	return claimed;
}

static void
slot_stopped(int index, int delay_ms)
{
	RoseWorkerSlotShared *slot = &rose_workers->slots[index];
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (slot->state != ROSE_WORKER_STOPPED)
	{
		slot->state = ROSE_WORKER_STOPPED;
		slot->state_since = now;
		slot->info.pid = 0;
		slot->latch = NULL;
		slot->not_before = TimestampTzPlusMilliseconds(now, delay_ms);
	}
	LWLockRelease(&rose_workers->lock);
}

static void
register_worker(Oid dbid, int index)
{
	BackgroundWorker worker;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		registered;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;	/* we see to it */
	snprintf(worker.bgw_name, BGW_MAXLEN, "rose maintenance worker for database %u", dbid);
	strlcpy(worker.bgw_type, "rose maintenance worker", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "rose", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "rose_maintainer_main", BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(dbid);
	worker.bgw_notify_pid = MyProcPid;

	if (handles[index] != NULL)
		pfree(handles[index]);
	handles[index] = NULL;
	registered = RegisterDynamicBackgroundWorker(&worker, &handles[index]);
	MemoryContextSwitchTo(old);
	if (registered)
		return;
	slot_stopped(index, RESTART_DELAY_MS);
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not start a rose maintenance worker: all worker processes are in use"),
			 errhint("You might need to increase max_worker_processes.")));
}

/* False: try again later. */
static bool
start_worker(Oid dbid, bool visit)
{
	int			index;

	if (!database_exists(dbid))
	{
		rose_registry_drop_database(dbid);
		LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
		for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
			if (rose_workers->slots[i].info.dbid == dbid &&
				rose_workers->slots[i].state == ROSE_WORKER_STOPPED)
				memset(&rose_workers->slots[i], 0, sizeof(RoseWorkerSlotShared));
		LWLockRelease(&rose_workers->lock);
		return true;
	}
	if (!claim_slot(dbid, visit, &index))
		return false;
	register_worker(dbid, index);
	return true;
}

/* ---- looking around ---- */

/*
 * Is there something that a worker of this database could do?  A request counts here, too: a
 * worker that was about to end may have been told and did not hear it.
 */
static bool
needs_worker(const RoseRegistryDatabase *database, bool memory_short)
{
	RoseWorkerSlotShared *slot;
	bool		needed;

	if (database->ntails >= ROSE_TAILS_MANY)
		return true;
	if (database->first_write != 0 &&
		(memory_short ||
		 TimestampDifferenceExceeds(database->first_write, GetCurrentTimestamp(),
									rose_spill_interval)))
		return true;
	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	slot = rose_worker_slot(database->dbid, false);
	needed = slot == NULL || slot->activity != database->activity || slot->visit ||
		(slot->spill_requested && database->first_write != 0);
	LWLockRelease(&rose_workers->lock);
	return needed;
}

/* Notice workers that ended without saying so, or never started. */
static void
check_workers(void)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		RoseWorkerSlotShared *slot = &rose_workers->slots[i];
		RoseWorkerState state;
		TimestampTz since;
		pid_t		pid;

		LWLockAcquire(&rose_workers->lock, LW_SHARED);
		state = slot->state;
		since = slot->state_since;
		LWLockRelease(&rose_workers->lock);
		if (state == ROSE_WORKER_STOPPED)
			continue;
		if (handles[i] != NULL)
		{
			if (GetBackgroundWorkerPid(handles[i], &pid) == BGWH_STOPPED)
				slot_stopped(i, RESTART_DELAY_MS);
		}
		else if (state == ROSE_WORKER_STARTING &&
				 TimestampDifferenceExceeds(since, now, STARTING_TIMEOUT_MS))
			slot_stopped(i, RESTART_DELAY_MS);
	}
}

static void
look_around(void)
{
	static RoseRegistryDatabase *databases = NULL;
	bool		memory_short = rose_worker_memory_short();
	int			n;

	if (databases == NULL)
		databases = MemoryContextAlloc(TopMemoryContext,
									   MAX_DATABASES * sizeof(RoseRegistryDatabase));
	check_workers();
	n = rose_registry_databases(databases, MAX_DATABASES);
	for (int i = 0; i < n; i++)
		if (needs_worker(&databases[i], memory_short))
			(void) start_worker(databases[i].dbid, false);
	while (to_visit != NIL && start_worker(linitial_oid(to_visit), true))
		to_visit = list_delete_first(to_visit);
}

void
rose_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(launcher_exit, (Datum) 0);
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	rose_workers->launcher = MyLatch;
	LWLockRelease(&rose_workers->lock);
	list_databases();

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		look_around();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LAUNCHER_NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}
