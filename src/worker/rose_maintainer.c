/*-------------------------------------------------------------------------
 *
 * rose_maintainer.c
 *	  A maintenance worker of one database: spills and merges its rose
 *	  tables.
 *
 * Spills come first: C0s that are old, or, when memory is short, the largest; before them
 * those whose tail log has many segments.  Merges run in steps of a fraction of a second,
 * each in a transaction of its own, several merges taking turns, so that a small merge
 * does not wait for a large one.  A table that is locked against us is left for later.
 *
 * A database may have several workers: its first one, and helpers that come when one of
 * them finds more to do than it can just now.  All do the same, each with tables of its
 * own choice.  What keeps them apart are the locks of a table: who finds ROSE_LOCK_MERGE
 * or ROSE_LOCK_SPILL taken turns to another table, and looks again later.  So nobody's
 * work depends on who else is there, and what a worker leaves behind when it dies is
 * found by the others, or by the first worker, which is started for it.
 *
 * While it is not behind, it lets writers have the core (util/rose_gentle.h): a write
 * must not wait for a stretch of a merge; and it lets queries have the disk between the
 * steps of its merges (rose_maintainer_rest.c).
 *
 * The worker ends when it has had nothing to do for a while, after it has given free room
 * at the end of files back.  If another database waits for a worker, it ends when it has
 * had its time (rose_maintainer_turn), whatever is left to do.
 *
 * A table that it failed on is left alone for a minute, and its merges are given up, so
 * that broken tables do not keep it from the others; nor do locked ones, which it comes
 * back to.  If it ends meanwhile, another one comes in a while.  Only an error outside of
 * a table's work, or in the cleaning up after one, ends it; the launcher starts it again.
 *
 * It tells core that it is like an autovacuum worker: then DROP DATABASE and
 * the like terminate it instead of failing, and a lock request that waits for
 * it for deadlock_timeout cancels what it does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "util/rose_background_settings.h"
#include "util/rose_gentle.h"
#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "store/rose_pin.h"
#include "store/rose_space.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_picker.h"
#include "worker/rose_maintainer_internal.h"

#define IDLE_EXIT_MS			10000	/* end after so long without work */
#define SWEEP_INTERVAL_MS		60000
/* Free room at the end of a file that is given back: so many blocks, and this share of the file. */
#define TRUNCATE_MIN_BLOCKS		1000
#define TRUNCATE_MIN_FRACTION	8

#define RESPILL_PAUSE_MS		1000	/* for a table that could not be spilled, or had nothing */

static bool runs_many = false;

/* ---- sharing the core ---- */

/* While neither memory nor runs fill up, writers go first (see rose_gentle.h). */
static bool
has_slack(void)
{
	return !runs_many && !rose_worker_memory_short();
}

static void
note_backlog(void)
{
	runs_many = false;
	for (int i = 0; i < rose_maintainer_nitems; i++)
		if (rose_maintainer_runs(&rose_maintainer_items[i]) > ROSE_PICK_SLACK_RUNS)
			runs_many = true;
}

/* ---- spills ---- */

/*
 * Not if somebody else spills it just now; what is left then is due later.  The lock is
 * kept from the look to the end of the spill: another worker that waited for it would
 * cancel the spill after deadlock_timeout.
 */
static bool
spill_alone(RoseTree *tree)
{
	bool		spilled;

	if (!ConditionalLockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock))
		return false;
	spilled = rose_spill_if_room(tree);
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	return spilled;
}

static bool
spill_table(const RoseRegistryItem *item)
{
	RoseTableNote *note = rose_maintainer_note(item->locator);
	RoseTree   *tree = rose_maintainer_begin(ROSE_WORK_SPILL, item->relid);
	bool		spilled = tree != NULL && spill_alone(tree);

	rose_maintainer_end();
	if (spilled)
	{
		note->freed = true;		/* tail segments */
		rose_maintainer_count(true);
	}
	else
		note->spill_after = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RESPILL_PAUSE_MS);
	return spilled;
}

/* Is it our business, and not too early? */
static bool
may_spill(const RoseRegistryItem *item, TimestampTz now)
{
	return !OidIsValid(item->fed_by) && !item->other_order &&
		(item->first_write != 0 || item->ntails >= ROSE_TAILS_MANY) &&
		rose_maintainer_note(item->locator)->spill_after <= now &&
		!rose_maintainer_leaves_alone(item, ROSE_PAUSE_SPILLS);
}

/*
 * The table to spill now, or NULL: one whose tail log has too many segments, the largest
 * if memory is short, else the oldest that is due.  *others: bytes that are due in
 * others.
 */
static const RoseRegistryItem *
choose_spill(bool memory_short, uint64 *others)
{
	TimestampTz now = GetCurrentTimestamp();
	const RoseRegistryItem *best = NULL;

	*others = 0;
	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		const RoseRegistryItem *item = &rose_maintainer_items[i];

		if (!may_spill(item, now))
			continue;
		if (item->ntails >= ROSE_TAILS_MANY)
			return item;
		if (!memory_short &&
			!rose_spill_is_due(item->c0_bytes, item->first_write, item->spill_interval, now))
			continue;
		*others += item->c0_bytes;
		if (best == NULL ||
			(memory_short ? item->c0_bytes > best->c0_bytes :
			 item->first_write < best->first_write))
			best = item;
	}
	if (best != NULL)
		*others -= best->c0_bytes;
	return best;
}

/*
 * Read the options of a table in whose intervals something may have changed while nobody
 * has opened it; false if there is none.
 */
static bool
read_changed_options(void)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		const RoseRegistryItem *item = &rose_maintainer_items[i];
		bool		opened;

		if (!item->options_stale || !may_spill(item, now))
			continue;
		opened = rose_maintainer_begin(ROSE_WORK_OPEN, item->relid) != NULL;
		rose_maintainer_end();
		if (!opened)
			rose_maintainer_note(item->locator)->spill_after =
				TimestampTzPlusMilliseconds(now, RESPILL_PAUSE_MS);
		return true;
	}
	return false;
}

static bool
do_spill(void)
{
	bool		memory_short = rose_worker_memory_short();
	bool		requested = rose_maintainer_take_request();
	const RoseRegistryItem *item;
	uint64		others;

	item = choose_spill(memory_short || requested, &others);
	if (item == NULL)
		return false;
	if (others > rose_pressure_share(ROSE_SHARE_HELP))
		(void) rose_maintainer_ask_for_help();
	return spill_table(item);
}

/* ---- errors ---- */

/*
 * After an error: leave that table alone, and go on.  What is rethrown ends the process,
 * and with it everything that it holds.
 */
static void
get_over_error(MemoryContext context)
{
	Oid			relid = rose_maintainer_work_relid();
	ErrorData  *error;
	bool		cancel;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	cancel = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	if (!OidIsValid(relid) && !cancel)
		PG_RE_THROW();
	HOLD_INTERRUPTS();
	EmitErrorReport();
	rose_maintainer_note_error(error, false);
	rose_maintainer_abort();
	rose_maintainer_cost_end(false);
	rose_merge_begin_failed();
	/* who cancels waits for a lock of ours, and that may be a merge's */
	if (!rose_maintainer_give_merges_up(cancel ? InvalidOid : relid))
		PG_RE_THROW();
	FlushErrorState();
	RESUME_INTERRUPTS();
	FreeErrorData(error);
}

/* Do a piece of work, in which errors may be met; it says whether there was something to do. */
static bool
attempt(bool (*work) (void))
{
	MemoryContext context = CurrentMemoryContext;
	static bool worked;			/* static: PG_TRY must not clobber it */

	PG_TRY();
	{
		worked = work();
	}
	PG_CATCH();
	{
		get_over_error(context);
		worked = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return worked;
}

/* ---- space ---- */

static const RoseRegistryItem *truncated;

/* An attempt's work. */
static bool
truncate_table(void)
{
	RoseTree   *tree = rose_maintainer_begin(ROSE_WORK_TRUNCATE, truncated->relid);

	if (tree != NULL)
		rose_space_give_back(tree->rel, &tree->shared->store,
							 Max(TRUNCATE_MIN_BLOCKS,
								 RelationGetNumberOfBlocks(tree->rel) / TRUNCATE_MIN_FRACTION));
	rose_maintainer_end();
	return true;
}

/* Who goes on writing needs the room again; so do this when nobody has for a while. */
static void
give_space_back(void)
{
	rose_maintainer_list_tables();
	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		RoseTableNote *note = rose_maintainer_note(rose_maintainer_items[i].locator);

		CHECK_FOR_INTERRUPTS();
		if (!note->freed || rose_maintainer_leaves_alone(&rose_maintainer_items[i], ROSE_PAUSE_MERGES))
			continue;
		note->freed = false;
		truncated = &rose_maintainer_items[i];
		(void) attempt(truncate_table);
	}
}

/* ---- the worker ---- */

static uint64
database_activity(void)
{
	static RoseRegistryDatabase databases[1024];
	int			n = rose_registry_databases(databases, lengthof(databases), 0);

	for (int i = 0; i < n; i++)
		if (databases[i].dbid == MyDatabaseId)
			return databases[i].activity;
	return 0;
}

static RoseWorkerTurn turn;

/* One piece of work; false if there is nothing to do now. */
static bool
work_once(void)
{
	CHECK_FOR_INTERRUPTS();
	if (read_changed_options())
		return true;
	if (turn == ROSE_TURN_OVER)
		return do_spill() || rose_maintainer_merge_step(false, false);
	return do_spill() || rose_maintainer_visit_step() ||
		rose_maintainer_merge_step(true, turn == ROSE_TURN_FREE && !rose_worker_memory_short());
}

/* Its time is over, as others wait: is it to end just now? */
static bool
must_leave(void)
{
	if (turn == ROSE_TURN_END)
		return true;
	return turn == ROSE_TURN_OVER && !rose_maintainer_merges_can_go_on();
}

/* What nobody will tell of when it can be done. */
static bool
is_waiting(void)
{
	return rose_maintainer_has_unvisited() || rose_maintainer_has_merges() ||
		rose_maintainer_waits_for_private() || rose_maintainer_was_kept_out();
}

static void
look_after_process(void)
{
	static TimestampTz swept = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (TimestampDifferenceExceeds(swept, now, SWEEP_INTERVAL_MS))
	{
		rose_maintainer_sweep();
		swept = now;
	}
}

/* Until there is nothing more to do, or others wait. */
static void
maintain(void)
{
	TimestampTz idle_since = GetCurrentTimestamp();
	bool		busy = true;
	bool		was_idle = false;

	for (;;)
	{
		uint64		activity = database_activity();
		TimestampTz now = GetCurrentTimestamp();

		look_after_process();
		rose_maintainer_list_tables();
		note_backlog();
		turn = rose_maintainer_turn();
		if (must_leave())
			break;
		busy = attempt(work_once);
		if (busy)
		{
			if (was_idle)
				rose_maintainer_note_busy();
			was_idle = false;
			idle_since = GetCurrentTimestamp();
			continue;
		}

		if (rose_maintainer_is_resting())
		{
			idle_since = now;
			rose_maintainer_rest();
			continue;
		}

		/* merges that wait are left undone, should this process die */
		rose_maintainer_note_idle(activity, !rose_maintainer_has_merges());
		was_idle = true;
		if (turn == ROSE_TURN_WANTED && !rose_maintainer_has_merges())
			break;
		if (rose_maintainer_has_merges() ||
			(!rose_maintainer_is_helper() && rose_maintainer_waits_for_private()))
			idle_since = now;
		if (TimestampDifferenceExceeds(idle_since, now, IDLE_EXIT_MS))
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	rose_maintainer_leave(is_waiting(), busy, rose_maintainer_merges_can_go_on());
	give_space_back();
	ROSE_STOP_POINT("worker-ending");	/* no transaction */
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
	rose_background_settings_fix();
}

void
rose_maintainer_main(Datum arg)
{
	MemoryContext context = CurrentMemoryContext;
	static bool visit;			/* static: PG_TRY must not clobber it */
	int			slot;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	memcpy(&slot, MyBgworkerEntry->bgw_extra, sizeof(slot));
	if (!rose_maintainer_attach(DatumGetObjectId(arg), slot, &visit))
		return;
	connect_database(DatumGetObjectId(arg));
	rose_gentle_begin(has_slack);
	rose_pin_keep_nothing();

	PG_TRY();
	{
		if (visit)
			rose_maintainer_begin_visit();
		rose_maintainer_list_tables();
		if (rose_maintainer_nitems > 0 || rose_maintainer_has_unvisited())
			maintain();
		else if (visit)
			rose_maintainer_note_visited();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		rose_maintainer_note_error(error, true);
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}
