/*-------------------------------------------------------------------------
 *
 * rose_worker_shared.c
 *	  Settings, registration and shared memory of background maintenance.
 *
 * The shared memory has a slot for each database that has, or recently had, a worker, and
 * for each helper as long as it runs, under one lock that is held for moments.
 *
 * What workers do is in rose_maintainer.c, when they are started in rose_launcher.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "memtable/rose_pressure.h"
#include "lsm/merge/rose_spill.h"
#include "worker/rose_worker_internal.h"

/* Restart a launcher that died after this many seconds. */
#define LAUNCHER_RESTART_SECONDS	5

RoseWorkerShared *rose_workers = NULL;
int			rose_max_merge_workers = 3;

void
rose_worker_define_settings(void)
{
	DefineCustomIntVariable("rose.max_merge_workers",
							"Sets how many workers can spill and merge rose tables of all databases at the same time.",
							"A database has several if no other one waits for a worker. Each takes one of max_worker_processes. Zero turns background maintenance off.",
							&rose_max_merge_workers,
							3,
							0,
							ROSE_WORKER_SLOTS,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);
}

bool
rose_worker_memory_short(void)
{
	return rose_pressure_reached(ROSE_MARK_SPILL);
}

Size
rose_worker_shmem_size(void)
{
	return MAXALIGN(sizeof(RoseWorkerShared));
}

void
rose_worker_shmem_init(bool found)
{
	bool		exists;

	rose_workers = ShmemInitStruct("rose workers", sizeof(RoseWorkerShared), &exists);
	if (!exists)
	{
		memset(rose_workers, 0, sizeof(RoseWorkerShared));
		rose_workers->tranche = LWLockNewTrancheId();
		LWLockInitialize(&rose_workers->lock, rose_workers->tranche);
	}
	LWLockRegisterTranche(rose_workers->tranche, "RoseWorkers");
}

/* ---- slots ---- */

static bool
has_helpers(Oid dbid)
{
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (rose_workers->slots[i].info.dbid == dbid && rose_workers->slots[i].info.helper > 0)
			return true;
	return false;
}

/* A slot that nobody needs, cleared, or NULL. */
static RoseWorkerSlotShared *
spare_slot(void)
{
	RoseWorkerSlotShared *spare = NULL;

	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		RoseWorkerSlotShared *slot = &rose_workers->slots[i];

		if (slot->state == ROSE_WORKER_STOPPED &&
			(spare == NULL || slot->state_since < spare->state_since) &&
			!(OidIsValid(slot->info.dbid) && has_helpers(slot->info.dbid)))
			spare = slot;		/* a free one has never been changed */
	}
	if (spare != NULL)
		memset(spare, 0, sizeof(*spare));
	return spare;
}

RoseWorkerSlotShared *
rose_worker_slot(Oid dbid, bool make)
{
	RoseWorkerSlotShared *slot;

	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (rose_workers->slots[i].info.dbid == dbid && rose_workers->slots[i].info.helper == 0)
			return &rose_workers->slots[i];
	slot = make ? spare_slot() : NULL;
	if (slot != NULL)
		slot->info.dbid = dbid;
	return slot;
}

static bool
is_helper_taken(Oid dbid, int helper)
{
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (rose_workers->slots[i].info.dbid == dbid && rose_workers->slots[i].info.helper == helper)
			return true;
	return false;
}

RoseWorkerSlotShared *
rose_worker_make_helper_slot(Oid dbid)
{
	RoseWorkerSlotShared *slot = spare_slot();
	int			helper = 1;

	while (is_helper_taken(dbid, helper))
		helper++;
	if (slot != NULL)
	{
		slot->info.dbid = dbid;
		slot->info.helper = helper;
	}
	return slot;
}

int
rose_worker_count(void)
{
	int			n = 0;

	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		n += rose_workers->slots[i].state != ROSE_WORKER_STOPPED;
	return n;
}

void
rose_worker_stopped(RoseWorkerSlotShared *slot)
{
	if (slot->info.helper > 0)
	{
		memset(slot, 0, sizeof(*slot));
		return;
	}
	slot->state = ROSE_WORKER_STOPPED;
	slot->state_since = GetCurrentTimestamp();
	slot->info.pid = 0;
	slot->info.work = ROSE_WORK_NONE;
	slot->info.work_relid = InvalidOid;
	slot->latch = NULL;
	slot->idle = slot->merging = false;
}

/* Is one there for this database, or about to be?  REQUIRES: lock. */
static bool
worker_comes(Oid dbid, const RoseWorkerSlotShared *slot)
{
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (rose_workers->slots[i].info.dbid == dbid &&
			rose_workers->slots[i].state != ROSE_WORKER_STOPPED)
			return rose_max_merge_workers > 0;
	return slot != NULL && rose_worker_count() < rose_max_merge_workers;
}

/* Wake all workers of a database; false: none runs.  REQUIRES: lock. */
static bool
wake_workers(Oid dbid)
{
	bool		told = false;

	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
	{
		RoseWorkerSlotShared *slot = &rose_workers->slots[i];

		if (slot->info.dbid == dbid && slot->state == ROSE_WORKER_RUNNING && slot->latch != NULL)
		{
			SetLatch(slot->latch);
			told = true;
		}
	}
	return told;
}

/*
 * RoseRequestSpillHook: memory is short, for a writer of this database.  False if it had
 * better help itself: workers are turned off, or all are busy with other databases.
 */
static bool
request_spill(Oid dbid)
{
	RoseWorkerSlotShared *slot;
	bool		told = false;
	bool		comes;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	slot = rose_worker_slot(dbid, true);
	if (slot != NULL)
	{
		slot->spill_requested = true;
		told = wake_workers(dbid);
	}
	comes = worker_comes(dbid, slot);

	/*
	 * There is no worker, or other databases may hold the memory: the
	 * launcher sees to it.  Not woken without need: writers ask often, and it takes
	 * their core for a moment.
	 */
	if (rose_workers->launcher != NULL && (!told || rose_worker_memory_short()))
		SetLatch(rose_workers->launcher);
	LWLockRelease(&rose_workers->lock);
	return comes;
}

void
rose_worker_register(void)
{
	BackgroundWorker worker;

	/* nothing may change files under pg_upgrade */
	if (IsBinaryUpgrade)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = LAUNCHER_RESTART_SECONDS;
	strlcpy(worker.bgw_name, "rose maintenance launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "rose maintenance launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "rose", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "rose_launcher_main", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);

	rose_request_spill_hook = request_spill;
}

int
rose_worker_list(RoseWorkerInfo *items)
{
	int			n = 0;

	if (rose_workers == NULL)
		return 0;
	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_SLOTS; i++)
		if (OidIsValid(rose_workers->slots[i].info.dbid))
			items[n++] = rose_workers->slots[i].info;
	LWLockRelease(&rose_workers->lock);
	return n;
}
