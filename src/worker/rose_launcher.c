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
 * There may be more databases than workers.  Then workers that have had their time end
 * (rose_maintainer_slot.c), and the database that has waited longest is next.  Helpers of
 * databases that have a worker already are started only if no database waits, and end
 * first.
 *
 * The launcher has no database and no merge to do; it takes locks in rose_workers for
 * moments only.  It also has the registry let go of tables that nobody uses.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
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

#include "store/rose_store.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_spill.h"
#include "worker/rose_worker_internal.h"

/* Milliseconds between two looks at the registry. */
#define LAUNCHER_NAP_MS			1000

/* A worker that died is not started again for so long, in ms. */
#define RESTART_DELAY_MS		5000

/* A worker that is registered but never showed up is given up after this, in ms. */
#define STARTING_TIMEOUT_MS		60000

/* That there are no processes for workers is logged this often, in ms. */
#define TELL_AGAIN_MS			(10 * 60 * 1000)

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

typedef enum ClaimResult
{
	CLAIM_TAKEN,
	CLAIM_NOT_NOW,				/* the database has its first worker, or had one just now */
	CLAIM_ALL_TAKEN				/* as many workers run as may */
} ClaimResult;

/* Take a slot for a new worker. */
static ClaimResult
claim_slot(Oid dbid, bool visit, int *index)
{
	RoseWorkerSlotShared *slot;
	TimestampTz now = GetCurrentTimestamp();
	bool		all_taken;
	ClaimResult result = CLAIM_NOT_NOW;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	all_taken = rose_worker_count() >= rose_max_merge_workers;
	slot = rose_worker_slot(dbid, !all_taken);
	if (all_taken)
	{
		if (slot == NULL || slot->state == ROSE_WORKER_STOPPED)
			result = CLAIM_ALL_TAKEN;
	}
	else if (slot != NULL && slot->state == ROSE_WORKER_STOPPED && slot->not_before <= now)
	{
		slot->state = ROSE_WORKER_STARTING;
		slot->state_since = now;
		slot->visit = slot->visit || visit;
		*index = slot - rose_workers->slots;
		result = CLAIM_TAKEN;
	}
	LWLockRelease(&rose_workers->lock);
	return result;
}

static void
slot_stopped(int index, int delay_ms)
{
	RoseWorkerSlotShared *slot = &rose_workers->slots[index];
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (slot->state != ROSE_WORKER_STOPPED)
	{
		RoseWorkerSlotShared *database = rose_worker_slot(slot->info.dbid, false);
		bool		helper = slot->info.helper > 0;

		rose_worker_stopped(slot);
		if (!helper)
			slot->not_before = TimestampTzPlusMilliseconds(now, delay_ms);
		else if (database != NULL)
		{
			database->no_help_before = TimestampTzPlusMilliseconds(now, delay_ms);
			database->look_again = now;
		}
	}
	LWLockRelease(&rose_workers->lock);
}

/* It is tried again and again, and told once, and then now and then. */
static void
report_no_process(void)
{
	static TimestampTz told = 0;
	TimestampTz now = GetCurrentTimestamp();
	bool		tell = told == 0 || TimestampDifferenceExceeds(told, now, TELL_AGAIN_MS);

	if (tell)
		told = now;
	ereport(tell ? LOG : DEBUG1,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not start a rose maintenance worker: all worker processes are in use"),
			 errdetail("This is logged every %d minutes at most.", TELL_AGAIN_MS / 60000),
			 errhint("You might need to increase max_worker_processes.")));
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
	memcpy(worker.bgw_extra, &index, sizeof(index));
	worker.bgw_notify_pid = MyProcPid;

	if (handles[index] != NULL)
		pfree(handles[index]);
	handles[index] = NULL;
	registered = RegisterDynamicBackgroundWorker(&worker, &handles[index]);
	MemoryContextSwitchTo(old);
	if (registered)
		return;
	slot_stopped(index, RESTART_DELAY_MS);
	report_no_process();
}

/* The database is gone: so is what we know of it. */
static void
forget_database(Oid dbid)
{
	rose_registry_drop_database(dbid);
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (rose_workers->slots[i].info.dbid == dbid &&
			rose_workers->slots[i].state == ROSE_WORKER_STOPPED)
			memset(&rose_workers->slots[i], 0, sizeof(RoseWorkerSlotShared));
	LWLockRelease(&rose_workers->lock);
}

static ClaimResult
start_worker(Oid dbid, bool visit)
{
	int			index;
	ClaimResult result;

	if (!database_exists(dbid))
	{
		forget_database(dbid);
		return CLAIM_TAKEN;
	}
	result = claim_slot(dbid, visit, &index);
	if (result == CLAIM_TAKEN)
		register_worker(dbid, index);
	return result;
}

/*
 * Take a slot for a helper that this database's workers have asked for; -1: there is to be
 * none.  If the one that asked has died, it would not be a helper: the first one comes first.
 */
static int
claim_helper_slot(RoseWorkerSlotShared *database)
{
	RoseWorkerSlotShared *slot = NULL;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (database->help_wanted && database->state != ROSE_WORKER_STOPPED &&
		rose_worker_count() < rose_max_merge_workers &&
		database->no_help_before <= GetCurrentTimestamp())
		slot = rose_worker_make_helper_slot(database->info.dbid);
	if (slot != NULL)
	{
		database->help_wanted = false;
		slot->state = ROSE_WORKER_STARTING;
		slot->state_since = GetCurrentTimestamp();
	}
	LWLockRelease(&rose_workers->lock);
	return slot == NULL ? -1 : slot - rose_workers->slots;
}

static void
start_helpers(void)
{
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		int			index;

		/* read without the lock: a request that is missed is met by the next look */
		if (!rose_workers->slots[i].help_wanted)
			continue;
		index = claim_helper_slot(&rose_workers->slots[i]);
		if (index >= 0)
			register_worker(rose_workers->slots[index].info.dbid, index);
	}
}

/* ---- looking around ---- */

/*
 * Is there something that a worker of this database could do?  A request counts here,
 * too: a worker that was about to end may have been told and did not hear it.
 */
static bool
needs_worker(const RoseRegistryDatabase *database, bool memory_short)
{
	RoseWorkerSlotShared *slot;
	TimestampTz now = GetCurrentTimestamp();
	bool		needed;

	if (database->ntails >= ROSE_TAILS_MANY ||
		(memory_short && database->first_write != 0) ||
		rose_spill_is_due(0, database->first_common_write, ROSE_OPTION_UNSET, now) ||
		rose_spill_is_due(ROSE_SPILL_SMALL, database->first_large_write, ROSE_OPTION_UNSET, now) ||
		(database->due_at != 0 && database->due_at < now) || database->options_stale)
		return true;
	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	slot = rose_worker_slot(database->dbid, false);
	needed = slot == NULL || slot->activity != database->activity ||
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

/* A database that needs a worker. */
typedef struct Candidate
{
	Oid			dbid;
	bool		visit;
	TimestampTz since;			/* its last one ended; 0 = it had none */
} Candidate;

static Candidate *candidates = NULL;	/* MAX_DATABASES of them */
static int	ncandidates;

static void
add_candidate(Oid dbid, bool visit)
{
	RoseWorkerSlotShared *slot;
	Candidate  *candidate;

	for (int i = 0; i < ncandidates; i++)
		if (candidates[i].dbid == dbid)
		{
			candidates[i].visit |= visit;
			return;
		}
	if (ncandidates == MAX_DATABASES)
		return;
	candidate = &candidates[ncandidates++];
	candidate->dbid = dbid;
	candidate->visit = visit;
	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	slot = rose_worker_slot(dbid, false);
	candidate->since = slot != NULL ? slot->state_since : 0;
	LWLockRelease(&rose_workers->lock);
}

static int
compare_candidates(const void *a, const void *b)
{
	TimestampTz x = ((const Candidate *) a)->since;
	TimestampTz y = ((const Candidate *) b)->since;

	return x < y ? -1 : x > y;
}

/* Databases in which something waited when their worker ended. */
static void
add_waiting(void)
{
	TimestampTz now = GetCurrentTimestamp();
	Oid			waiting[ROSE_WORKER_SLOTS];
	int			n = 0;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		const RoseWorkerSlotShared *slot = &rose_workers->slots[i];

		if (OidIsValid(slot->info.dbid) && slot->info.helper == 0 &&
			slot->state == ROSE_WORKER_STOPPED &&
			slot->look_again <= now && (slot->look_again != 0 || slot->visit))
			waiting[n++] = slot->info.dbid;
	}
	LWLockRelease(&rose_workers->lock);
	for (int i = 0; i < n; i++)
		add_candidate(waiting[i], false);
}

static void
find_candidates(void)
{
	static RoseRegistryDatabase *databases = NULL;
	bool		memory_short = rose_worker_memory_short();
	ListCell   *cell;
	int			n;

	if (databases == NULL)
	{
		databases = MemoryContextAlloc(TopMemoryContext,
									   MAX_DATABASES * sizeof(RoseRegistryDatabase));
		candidates = MemoryContextAlloc(TopMemoryContext, MAX_DATABASES * sizeof(Candidate));
	}
	ncandidates = 0;
	n = rose_registry_databases(databases, MAX_DATABASES, ROSE_SPILL_SMALL);
	for (int i = 0; i < n; i++)
		if (needs_worker(&databases[i], memory_short))
			add_candidate(databases[i].dbid, false);
	add_waiting();
	foreach(cell, to_visit)
		add_candidate(lfirst_oid(cell), true);
}

/*
 * Start workers, first for those who have waited longest.  If all are taken, the others
 * have to end when they have had their time.
 */
static void
look_around(void)
{
	bool		wanted = false;

	check_workers();
	find_candidates();
	qsort(candidates, ncandidates, sizeof(Candidate), compare_candidates);
	for (int i = 0; i < ncandidates; i++)
	{
		ClaimResult result = start_worker(candidates[i].dbid, candidates[i].visit);

		if (result == CLAIM_TAKEN)
			to_visit = list_delete_oid(to_visit, candidates[i].dbid);
		wanted |= result == CLAIM_ALL_TAKEN;
	}
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	rose_workers->wanted = wanted && rose_max_merge_workers > 0;
	LWLockRelease(&rose_workers->lock);
	if (!wanted)
		start_helpers();
}

/* ---- idle tables ---- */

/* RoseRegistryForgotten: that a table is not in the registry any more is nothing to be looked after. */
static void
note_forgotten(Oid dbid, uint64 activity)
{
	RoseWorkerSlotShared *slot;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	slot = rose_worker_slot(dbid, false);
	if (slot != NULL)
		slot->activity -= activity;
	LWLockRelease(&rose_workers->lock);
}

static void
forget_idle_tables(void)
{
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();
	int			place = 0;

	if (!TimestampDifferenceExceeds(last, now, rose_idle_table_timeout))
		return;
	last = now;
	while (rose_registry_forget_idle(&place, rose_max_merge_workers > 0, note_forgotten))
		CHECK_FOR_INTERRUPTS();
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
		forget_idle_tables();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LAUNCHER_NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}
