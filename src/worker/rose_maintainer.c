/*-------------------------------------------------------------------------
 *
 * rose_maintainer.c
 *	  The maintenance worker of one database: spills and merges its rose
 *	  tables.
 *
 * Spills come first: C0s that are old, or, when memory is short, the largest.
 * Merges run in steps of a fraction of a second, each in a transaction of its
 * own, several merges taking turns, so that a small merge does not wait for a
 * large one.  A table that is locked against us is left for later.
 *
 * The worker ends when it has had nothing to do for a while, and at any error;
 * the launcher starts it again.  A table that it failed on is left alone for a
 * minute, so that one broken table does not keep it from the others.
 *
 * It tells core that it is like an autovacuum worker: then DROP DATABASE and
 * the like terminate it instead of failing, and a lock request that waits for
 * it for deadlock_timeout cancels what it does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/rose_worker_internal.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "lsm/rose_face.h"
#include "lsm/rose_maintain.h"
#include "lsm/rose_private.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "util/rose_stop_point.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define MERGE_STEP_MS			100 /* longest transaction of a merge, about */
#define NAP_MS					500 /* between two looks when there is nothing to do */
#define IDLE_EXIT_MS			10000	/* end after so long without work */
#define SWEEP_INTERVAL_MS		60000
#define FAILURE_PAUSE_MS		60000	/* leave a table alone after an error */
#define CANCEL_PAUSE_MS			1000	/* ... after a cancel: somebody else wants it */
#define RESPILL_PAUSE_MS		1000	/* for a table that could not be spilled, or had nothing */
#define RESTART_PAUSE_MS		5000	/* before the worker is started again */
#define RECHECK_MS				5000	/* look again at a table that waits for something */

/* Merges that take turns, in all and of one table. */
#define MAX_MERGES				4
#define MAX_MERGES_OF_TABLE		2

/* What this worker remembers of a table. */
typedef struct TableNote
{
	RelFileLocator locator;		/* hash key */
	uint64		manifest_version;	/* as of the last look for merges */
	TimestampTz look_again;		/* look at the latest then; 0 = when it changes */
	TimestampTz spill_after;	/* do not spill it earlier */
	bool		open_private;	/* has private runs of transactions in progress */
} TableNote;

typedef struct ActiveMerge
{
	RoseMerge  *merge;
	Oid			relid;
	TimestampTz wait_until;		/* nothing can be done before */
} ActiveMerge;

static RoseWorkerSlotShared *my_slot = NULL;
static HTAB *notes = NULL;
static ActiveMerge merges[MAX_MERGES];
static int	nmerges = 0;
static int	next_merge = 0;
static Oid	current_relid = InvalidOid; /* table at hand, for error reports */
static RoseRegistryItem *items = NULL;	/* tables, as of the last look */
static int	nitems = 0;

/* ---- shared state ---- */

/*
 * Merges hold session locks, which core releases by itself only if the process
 * ends within a transaction.
 */
static void
maintainer_exit(int code, Datum arg)
{
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (my_slot->info.pid == MyProcPid)
	{
		my_slot->state = ROSE_WORKER_STOPPED;
		my_slot->state_since = GetCurrentTimestamp();
		my_slot->info.pid = 0;
		my_slot->info.merge_relid = InvalidOid;
		my_slot->latch = NULL;
		/* an error that note_error did not see: no database, no connection */
		if (code != 0 && my_slot->not_before < my_slot->state_since)
			my_slot->not_before = TimestampTzPlusMilliseconds(my_slot->state_since,
															  RESTART_PAUSE_MS);
	}
	if (rose_workers->launcher != NULL)
		SetLatch(rose_workers->launcher);
	LWLockRelease(&rose_workers->lock);
}

/* Take over the slot that the launcher made; false if it is no longer meant for us. */
static bool
attach_slot(Oid dbid, bool *visit)
{
	bool		attached = false;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot = rose_worker_slot(dbid, false);
	if (my_slot != NULL && my_slot->state == ROSE_WORKER_STARTING)
	{
		my_slot->state = ROSE_WORKER_RUNNING;
		my_slot->state_since = GetCurrentTimestamp();
		my_slot->info.pid = MyProcPid;
		my_slot->info.started = my_slot->state_since;
		my_slot->latch = MyLatch;
		*visit = my_slot->visit;
		attached = true;
	}
	LWLockRelease(&rose_workers->lock);
	if (attached)
		before_shmem_exit(maintainer_exit, (Datum) 0);
	return attached;
}

static void
count_done(bool spill)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (spill)
		my_slot->info.spills++;
	else
		my_slot->info.merges++;
	LWLockRelease(&rose_workers->lock);
}

static void
show_merge(const ActiveMerge *active)
{
	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->info.merge_relid = active ? active->relid : InvalidOid;
	if (active)
	{
		my_slot->info.merge_level = rose_merge_target_level(active->merge);
		rose_merge_progress(active->merge, &my_slot->info.merge_done,
							&my_slot->info.merge_total);
	}
	LWLockRelease(&rose_workers->lock);
}

/* Remember the error that ends this worker, and whose it is. */
static void
note_error(const ErrorData *error)
{
	bool		cancel = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	TimestampTz now = GetCurrentTimestamp();
	RoseWorkerFailure *oldest = &my_slot->failures[0];

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	if (!cancel)
	{
		my_slot->info.error_time = now;
		my_slot->info.error_relid = current_relid;
		strlcpy(my_slot->info.error, error->message ? error->message : "",
				ROSE_WORKER_ERROR_LEN);
	}
	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
	{
		RoseWorkerFailure *failure = &my_slot->failures[i];

		if (failure->relid == current_relid)
		{
			oldest = failure;
			break;
		}
		if (failure->until < oldest->until)
			oldest = failure;
	}
	oldest->relid = current_relid;
	oldest->until = TimestampTzPlusMilliseconds(now, cancel ? CANCEL_PAUSE_MS :
												FAILURE_PAUSE_MS);
	my_slot->not_before = TimestampTzPlusMilliseconds(now, CANCEL_PAUSE_MS);
	LWLockRelease(&rose_workers->lock);
}

static bool
failed_lately(Oid relid)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		failed = false;

	LWLockAcquire(&rose_workers->lock, LW_SHARED);
	for (int i = 0; i < ROSE_WORKER_FAILURES; i++)
		if (my_slot->failures[i].relid == relid && my_slot->failures[i].until > now)
			failed = true;
	LWLockRelease(&rose_workers->lock);
	return failed;
}

/* ---- tables ---- */

static void
list_tables(void)
{
	static int	size = 0;

	for (;;)
	{
		nitems = rose_registry_list(MyDatabaseId, items, size);
		if (nitems <= size)
			return;
		size = nitems * 2;
		if (items)
			pfree(items);
		items = MemoryContextAllocHuge(TopMemoryContext, size * sizeof(RoseRegistryItem));
	}
}

static TableNote *
note_of(RelFileLocator locator)
{
	TableNote  *note;
	bool		found;

	note = hash_search(notes, &locator, HASH_ENTER, &found);
	if (!found)
	{
		memset(note, 0, sizeof(*note));
		note->locator = locator;
		note->manifest_version = PG_UINT64_MAX; /* look at it */
	}
	return note;
}

/*
 * Open a table without waiting for a lock; NULL if that is not possible now,
 * or the relation does not have that file any more.
 */
static Relation
open_table(Oid relid, RelFileLocator locator)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	rel = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ?
		try_relation_open(relid, NoLock) : NULL;
	if (rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
		rose_relation_is_rose(rel) &&
		RelFileLocatorEquals(rose_rel_locator(rel), locator))
		return rel;
	if (rel != NULL)
		relation_close(rel, NoLock);
	UnlockRelationOid(relid, AccessShareLock);
	return NULL;
}

static void
begin_work(Oid relid)
{
	current_relid = relid;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
end_work(Relation rel)
{
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	current_relid = InvalidOid;
}

/* ---- spills ---- */

static bool
spill_table(const RoseRegistryItem *item)
{
	TableNote  *note = note_of(item->locator);
	Relation	rel;
	bool		spilled = false;

	begin_work(item->relid);
	rel = open_table(item->relid, item->locator);
	if (rel != NULL)
		spilled = rose_spill(rose_table_open(rel), InvalidOid, 0);
	end_work(rel);
	if (spilled)
		count_done(true);
	else
		note->spill_after = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RESPILL_PAUSE_MS);
	return spilled;
}

/* The table to spill now, or NULL: the largest if memory is short, else the oldest that is due. */
static const RoseRegistryItem *
choose_spill(bool memory_short)
{
	TimestampTz now = GetCurrentTimestamp();
	const RoseRegistryItem *best = NULL;

	for (int i = 0; i < nitems; i++)
	{
		const RoseRegistryItem *item = &items[i];

		if (OidIsValid(item->fed_by) || item->first_write == 0 ||
			note_of(item->locator)->spill_after > now || failed_lately(item->relid))
			continue;
		if (!memory_short &&
			!TimestampDifferenceExceeds(item->first_write, now, rose_spill_interval))
			continue;
		if (best == NULL ||
			(memory_short ? item->c0_bytes > best->c0_bytes :
			 item->first_write < best->first_write))
			best = item;
	}
	return best;
}

static bool
do_spill(void)
{
	bool		memory_short = rose_worker_memory_short();
	bool		requested;
	const RoseRegistryItem *item;

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	requested = my_slot->spill_requested;
	my_slot->spill_requested = false;
	LWLockRelease(&rose_workers->lock);

	item = choose_spill(memory_short || requested);
	return item != NULL && spill_table(item);
}

/* ---- merges ---- */

static int
merges_of_table(RelFileLocator locator)
{
	int			n = 0;

	for (int i = 0; i < nmerges; i++)
		n += RelFileLocatorEquals(rose_merge_locator(merges[i].merge), locator);
	return n;
}

/* What merges under way read is not to be picked again, nor gone past. */
static void
find_busy(const RoseManifest *manifest, bool *busy)
{
	memset(busy, 0, ROSE_MAX_COMPONENTS * sizeof(bool));
	for (int i = 0; i < manifest->ncomponents; i++)
		for (int j = 0; j < nmerges; j++)
			if (rose_merge_uses(merges[j].merge, &manifest->components[i]))
				busy[i] = true;
}

/* Their transactions end without the manifest being switched. */
static bool
has_open_private(const RoseManifest *manifest)
{
	for (int i = 0; i < manifest->ncomponents; i++)
		if ((manifest->components[i].flags & ROSE_COMPONENT_PRIVATE) &&
			rose_private_state(&manifest->components[i]) == ROSE_PRIVATE_OPEN)
			return true;
	return false;
}

/* Begin a merge of this table if one is due; false if not. */
static bool
pick_and_begin(RoseTable *table, TableNote *note, Oid relid)
{
	RosePickInput input;
	RosePickResult pick;
	bool		blocked[ROSE_MAX_COMPONENTS];
	bool		busy[ROSE_MAX_COMPONENTS];
	RoseMerge  *merge;
	const RoseManifest *manifest;

	rose_settle_private_runs(table);
	manifest = rose_table_manifest(table);
	note->open_private = has_open_private(manifest);
	note->look_again = note->open_private ?
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS) : 0;

	rose_pick_input(table, &input, blocked);
	find_busy(&table->manifest, busy);
	input.busy = busy;
	pick = rose_pick_merge(&input);
	if (!pick.merge)
		return false;
	note->look_again = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS);
	merge = rose_merge_begin(table, &pick, true);
	if (merge == NULL)
		return false;
	merges[nmerges].merge = merge;
	merges[nmerges].relid = relid;
	merges[nmerges].wait_until = 0;
	nmerges++;
	return true;
}

static bool
look_at_table(const RoseRegistryItem *item)
{
	TableNote  *note = note_of(item->locator);
	Relation	rel;
	bool		begun = false;

	begin_work(item->relid);
	rel = open_table(item->relid, item->locator);
	if (rel != NULL)
	{
		note->manifest_version = item->manifest_version;
		begun = pick_and_begin(rose_table_open(rel), note, item->relid);
	}
	end_work(rel);
	return begun;
}

/* Look for a merge to begin; true if one was begun. */
static bool
find_merge(void)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < nitems && nmerges < MAX_MERGES; i++)
	{
		TableNote  *note = note_of(items[i].locator);

		if (note->manifest_version == items[i].manifest_version &&
			(note->look_again == 0 || note->look_again > now))
			continue;
		if (merges_of_table(items[i].locator) >= MAX_MERGES_OF_TABLE ||
			failed_lately(items[i].relid))
			continue;
		if (look_at_table(&items[i]))
			return true;
	}
	return false;
}

static void
forget_merge(int index)
{
	/* the outcome makes another merge due, or not: look again */
	note_of(rose_merge_locator(merges[index].merge))->manifest_version = PG_UINT64_MAX;
	memmove(&merges[index], &merges[index + 1], (nmerges - index - 1) * sizeof(ActiveMerge));
	nmerges--;
}

/* One step of one merge; false if it has to wait. */
static bool
step_merge(int index)
{
	ActiveMerge *active = &merges[index];
	RoseMergeProgress progress = ROSE_MERGE_WAIT;
	TimestampTz now = GetCurrentTimestamp();
	RoseMerge  *merge = active->merge;
	Relation	rel;

	if (active->wait_until > now)
		return false;
	ROSE_STOP_POINT("merge-paused");	/* between two steps: no transaction */
	begin_work(active->relid);
	rel = open_table(active->relid, rose_merge_locator(merge));
	if (rel != NULL)
	{
		RoseTable  *table = rose_table_open(rel);

		progress = rose_merge_step(merge, table, MERGE_STEP_MS);
		show_merge(active);
		if (progress == ROSE_MERGE_DONE)
		{
			forget_merge(index);
			rose_merge_end(merge, table);
		}
	}
	else if (ConditionalLockRelationOid(active->relid, AccessShareLock))
	{
		/* nobody keeps us out, so that file is gone */
		UnlockRelationOid(active->relid, AccessShareLock);
		forget_merge(index);
		rose_merge_end(merge, NULL);
		progress = ROSE_MERGE_MORE;
	}
	end_work(rel);

	if (progress == ROSE_MERGE_DONE)
		count_done(false);
	if (progress == ROSE_MERGE_WAIT)
		active->wait_until = TimestampTzPlusMilliseconds(now, NAP_MS);
	return progress != ROSE_MERGE_WAIT;
}

static bool
do_merge_step(void)
{
	bool		worked = find_merge();

	for (int i = 0; i < nmerges && !worked; i++)
	{
		next_merge = (next_merge + 1) % nmerges;
		worked = step_merge(next_merge);
	}
	if (nmerges == 0)
		show_merge(NULL);
	return worked;
}

/* ---- the worker ---- */

/* Open every rose table of the database, so that the registry knows it. */
static void
visit_tables(void)
{
	List	   *relids = NIL;
	ListCell   *cell;
	Oid			am;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "rose visit",
												  ALLOCSET_DEFAULT_SIZES);

	StartTransactionCommand();
	am = get_table_am_oid("rose", true);
	if (OidIsValid(am))
	{
		Relation	rel = table_open(RelationRelationId, AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
		HeapTuple	tuple;

		while ((tuple = systable_getnext(scan)) != NULL)
		{
			Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);
			MemoryContext old = MemoryContextSwitchTo(context);

			if (class->relam == am && RELKIND_HAS_TABLE_AM(class->relkind) &&
				class->relpersistence != RELPERSISTENCE_TEMP)
				relids = lappend_oid(relids, class->oid);
			MemoryContextSwitchTo(old);
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	CommitTransactionCommand();

	foreach(cell, relids)
	{
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		if (failed_lately(lfirst_oid(cell)))
			continue;
		begin_work(lfirst_oid(cell));
		rel = try_relation_open(lfirst_oid(cell), AccessShareLock);
		if (rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
			rose_relation_is_rose(rel))
			(void) rose_table_open(rel);
		end_work(rel);
	}
	MemoryContextDelete(context);

	LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
	my_slot->visit = false;
	LWLockRelease(&rose_workers->lock);
}

static uint64
database_activity(void)
{
	static RoseRegistryDatabase databases[1024];
	int			n = rose_registry_databases(databases, lengthof(databases));

	for (int i = 0; i < n; i++)
		if (databases[i].dbid == MyDatabaseId)
			return databases[i].activity;
	return 0;
}

static bool
waits_for_something(void)
{
	HASH_SEQ_STATUS scan;
	TableNote  *note;
	bool		waits = nmerges > 0;

	hash_seq_init(&scan, notes);
	while ((note = hash_seq_search(&scan)) != NULL)
		waits = waits || note->open_private;
	return waits;
}

static void
maintain(void)
{
	TimestampTz idle_since = GetCurrentTimestamp();
	TimestampTz swept = 0;

	for (;;)
	{
		uint64		activity = database_activity();
		TimestampTz now = GetCurrentTimestamp();

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (TimestampDifferenceExceeds(swept, now, SWEEP_INTERVAL_MS))
		{
			begin_work(InvalidOid);
			(void) rose_registry_sweep(MyDatabaseId);
			end_work(NULL);
			swept = now;
		}

		list_tables();
		if (do_spill() || do_merge_step())
		{
			idle_since = GetCurrentTimestamp();
			continue;
		}

		/* nothing to do as of 'activity' */
		LWLockAcquire(&rose_workers->lock, LW_EXCLUSIVE);
		my_slot->activity = activity;
		LWLockRelease(&rose_workers->lock);
		if (waits_for_something())
			idle_since = now;
		if (TimestampDifferenceExceeds(idle_since, now, IDLE_EXIT_MS))
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/* To core, be an autovacuum worker (see the top of this file). */
static void
give_way_to_others(void)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= PROC_IS_AUTOVACUUM;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

static void
connect_database(Oid dbid)
{
	BackgroundWorkerInitializeConnectionByOid(dbid, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	give_way_to_others();
	SetConfigOption("search_path", "", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("idle_in_transaction_session_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET,
					PGC_S_OVERRIDE);
}

void
rose_maintainer_main(Datum arg)
{
	MemoryContext context = CurrentMemoryContext;
	static bool visit;			/* static: PG_TRY must not clobber it */
	HASHCTL		info = {0};

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (!attach_slot(DatumGetObjectId(arg), &visit))
		return;
	connect_database(DatumGetObjectId(arg));

	info.keysize = sizeof(RelFileLocator);
	info.entrysize = sizeof(TableNote);
	notes = hash_create("rose table notes", 128, &info, HASH_ELEM | HASH_BLOBS);

	PG_TRY();
	{
		if (visit)
			visit_tables();
		list_tables();
		if (nitems > 0)
			maintain();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		note_error(error);
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}
