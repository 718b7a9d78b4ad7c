/*-------------------------------------------------------------------------
 *
 * rose_make_room.c
 *	  Room in C0: who spills what when memory is short.
 *
 * As a rule a background worker spills, and a writer that finds no room waits for it.
 * But there are tables that no worker can spill: their writer's transaction has made them
 * or locked them against everybody, or there is no worker.  That transaction may be idle
 * for hours, or prepared, while all other writers of the cluster need the memory.  So a
 * writer does not leave such a table with more than its share
 * (rose_make_room_keep_share): it spills it as it writes, the sooner, the fuller memory
 * is.  What it has written itself goes to a private run then, and nothing is carried
 * over.
 *
 * Shares get smaller as memory fills up, so that they do not add up to all of it
 * (ROSE_SHARE_LOCKED and others in rose_pressure.h): after two transactions with a
 * quarter each there are sixteen with a 64th, then others with a 256th, and when an
 * eighth is left, with a 1024th, which is as good as nothing in a small arena.
 *
 * A writer also spills a table whose tail log is mostly of what its own transaction has
 * superseded (rose_c0_supersede), whoever else may: there is little to write down, and
 * nobody else hurries.
 *
 * Who finds no room for long, because nobody may spill what is there, or because it is in
 * pieces that are too short, writes past memory (rose_direct.c).  So a write always ends.
 *
 * Temporary tables have memory of their own (rose_local_room.c).
 *
 * Locking: no LWLock is held by callers; spills take what they need.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "store/rose_store.h"
#include "store/rose_tail.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_local_room.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_write_stats.h"

/* So many tables that were made or locked: time to look whether they take much together. */
#define ROOM_MANY_TABLES	16

/* On whose behalf the replication worker writes. */
static Oid	WriteSubid = InvalidOid;
static uint64 WriteEpoch = 0;

RoseWaitForEpochHook rose_wait_for_epoch_hook = NULL;

/* How often this process has napped since it wrote anything. */
static int	VainWaits = 0;

/* Naps before a row is written past memory; after that, others of the same process do not wait again for a while. */
#define ROOM_NAPS_BEFORE_DIRECT	1000
#define ROOM_DIRECT_MS			5000
static TimestampTz DirectUntil = 0;

/* Of this transaction: the table that was looked at last, and locked ones since the last spill of all. */
static const RoseTree *LastTable = NULL;
static int	LockedTables = 0;

void
rose_make_room_set_epoch(Oid subid, uint64 epoch)
{
	WriteSubid = subid;
	WriteEpoch = epoch;
}

void
rose_make_room_found(void)
{
	VainWaits = 0;
}

void
rose_make_room_end_transaction(void)
{
	VainWaits = 0;
	LastTable = NULL;
	LockedTables = 0;
}

/* Nobody else can do anything with it. */
static bool
is_locked(RoseTree *tree)
{
	return CheckRelationLockedByMe(tree->rel, AccessExclusiveLock, false);
}

/* ---- spills of this process ---- */

/* What this transaction has written there goes to a private run: else it would only be carried over. */
static bool
spill_locked(RoseTree *tree)
{
	if (!rose_spill_own(tree, InvalidOid, 0))
		return false;
	rose_write_stats_count_own_spill();
	rose_tidy_own_runs(tree, false);
	return true;
}

/* Spill a table that nobody else may, or to which no worker comes. */
static bool
spill_here(RoseTree *tree, bool worker)
{
	if (is_locked(tree))
		return spill_locked(tree);
	/* a worker merges meanwhile what there is too much of */
	if (!(worker ? rose_spill_if_room(tree) : rose_spill(tree, InvalidOid, 0)))
		return false;
	rose_write_stats_count_own_spill();
	if (!worker)
		rose_tidy_own_runs(tree, false);
	return true;
}

/* Spill another table, if this transaction has locked it against everybody; any: or if nobody has. */
static bool
spill_other(const RoseRegistryItem *item, bool any)
{
	Relation	rel = rose_tree_relation_at_rest(item->relid, item->locator);
	bool		spilled = false;

	if (rel == NULL)
		return false;
	if (CheckRelationLockedByMe(rel, AccessExclusiveLock, false))
		spilled = spill_locked(rose_tree_open(rel));
	else if (any)
		spilled = spill_here(rose_tree_open(rel), false);
	relation_close(rel, AccessShareLock);
	return spilled;
}

static int
compare_c0_bytes(const void *a, const void *b)
{
	const RoseRegistryItem *x = a;
	const RoseRegistryItem *y = b;

	return x->c0_bytes > y->c0_bytes ? -1 : x->c0_bytes < y->c0_bytes;
}

/* The trees of a database, those with most in C0 first. */
static RoseRegistryItem *
list_by_c0_bytes(Oid dbid, int *n)
{
	int			most = rose_registry_list(dbid, NULL, 0);
	RoseRegistryItem *items = palloc(Max(most, 1) * sizeof(RoseRegistryItem));

	*n = Min(most, rose_registry_list(dbid, items, most));
	qsort(items, *n, sizeof(RoseRegistryItem), compare_c0_bytes);
	return items;
}

/*
 * Spill other tables of at least so many bytes that no worker can, the largest first: all
 * of them, or until one was.
 */
static bool
spill_others(Oid dbid, Size worth, bool any, bool all)
{
	int			n;
	RoseRegistryItem *items = list_by_c0_bytes(dbid, &n);
	bool		spilled = false;

	for (int i = 0; i < n && (all || !spilled) && items[i].c0_bytes >= worth; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(items[i].fed_by) && !items[i].other_order &&
			spill_other(&items[i], any))
			spilled = true;
	}
	pfree(items);
	return spilled;
}

/*
 * For the replication worker, which finds no room in this tree: spill that, and all that
 * its subscription feeds that have more.  In a large transaction others of its tables and their
 * indexes may have all the memory, and nobody else may spill them.  What has less would
 * only become many small runs.
 */
static bool
spill_fed(RoseTree *tree)
{
	Size		bytes = rose_c0_bytes(&tree->shared->c0);
	int			n;
	RoseRegistryItem *items = list_by_c0_bytes(rose_locator_db(tree->locator), &n);
	bool		spilled = rose_spill(tree, WriteSubid, WriteEpoch);

	for (int i = 0; i < n && items[i].c0_bytes > bytes; i++)
	{
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		if (items[i].fed_by != WriteSubid || items[i].other_order)
			continue;
		rel = rose_tree_relation_of(items[i].relid, items[i].locator);
		if (rel == NULL)
			continue;
		spilled |= rose_spill(rose_tree_open(rel), WriteSubid, WriteEpoch);
		relation_close(rel, AccessShareLock);
	}
	pfree(items);
	return spilled;
}

/* ---- shares ---- */

/* What a table may have that only its writer can spill. */
static RoseShare
share_of_locked(void)
{
	if (!rose_pressure_reached(ROSE_MARK_LOCKED_LESS))
		return ROSE_SHARE_LOCKED;
	if (!rose_pressure_reached(ROSE_MARK_SHORT))
		return ROSE_SHARE_LOCKED_LESS;
	return rose_pressure_reached(ROSE_MARK_LOCKED_NOTHING) ? ROSE_SHARE_LOCKED_NOTHING :
		ROSE_SHARE_LOCKED_SHORT;
}

/*
 * Many tables with a few rows each, as of a restore in one transaction, take no less than
 * one.  Their indexes come with them.
 */
static void
note_table(RoseTree *tree)
{
	bool		full;

	if (tree == LastTable || tree->rel->rd_rel->relkind == RELKIND_INDEX)
		return;
	LastTable = tree;
	if (!is_locked(tree))
		return;
	full = rose_pressure_reached(ROSE_MARK_LOCKED_NOTHING);
	/* what is written when memory is nearly full does not stay */
	if (!full || LockedTables > 0)
		LockedTables++;
	if (!rose_pressure_reached(ROSE_MARK_LOCKED_LESS) || LockedTables < (full ? 2 : ROOM_MANY_TABLES))
		return;
	LockedTables = 0;
	(void) spill_others(rose_locator_db(tree->locator), 1, false, true);
}

void
rose_make_room_keep_share(RoseTree *tree, bool worker)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	Size		bytes = rose_c0_bytes(c0);
	Size		withdrawn = rose_c0_withdrawn_bytes(c0);

	if (OidIsValid(tree->shared->fed_by))
		return;
	note_table(tree);
	if (bytes >= rose_pressure_share(share_of_locked()) && (!worker || is_locked(tree)))
		(void) spill_here(tree, worker);
	else if (withdrawn >= bytes / 2 &&
			 withdrawn >= rose_pressure_share(ROSE_SHARE_SUPERSEDED) &&
			 rose_spill_if_room(tree))
		rose_write_stats_count_own_spill();
}

/* ---- no room ---- */

/* Is it worth trying again? */
static bool
has_room(RoseTree *tree)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	bool		has_segment;

	rose_c0_write_begin(c0);
	has_segment = rose_tail_has_segment(&tree->shared->store);
	rose_c0_write_end(c0);
	return has_segment && rose_arena_has_refused();
}

static void
report_no_room(RoseTree *tree)
{
	if (pg_atomic_read_u32(&tree->shared->store.ntails) >= ROSE_MAX_TAILS - ROSE_TAILS_RESERVE)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has too many tail log segments",
						RelationGetRelationName(tree->rel)),
				 errdetail("Its memtables could not be spilled in time."),
				 errhint("Look in the server log for what keeps them from being spilled, or call rose.spill() for the table.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("no room in the shared memory of rose tables"),
			 errdetail("%zu of %zu bytes are in use by versions that could not be spilled in time; there is no room for %zu bytes in one piece.",
					   rose_arena_used_bytes(), rose_arena_total_bytes(),
					   rose_arena_refused_bytes()),
			 errhint("Look in the server log for what keeps them from being spilled, or increase rose.memtable_size.")));
}

static void
nap(void)
{
	const int	wait_ms = 2;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 wait_ms, rose_wait_event_pacing());
	ResetLatch(MyLatch);
}

/* Spill what only we can, or, where no worker comes, what we can. */
static bool
spill_something(RoseTree *tree, bool worker)
{
	return (OidIsValid(WriteSubid) ? spill_fed(tree) : spill_here(tree, worker)) ||
		spill_others(rose_locator_db(tree->locator), rose_pressure_share(ROSE_SHARE_WORTH_SPILL),
					 !worker, false);
}

/*
 * Have the next write go past memory, if it was waited for long enough, or lately.  Not
 * yet: false.
 */
static bool
go_past_memory(RoseTree *tree, bool worker, int waits)
{
	TimestampTz now = GetCurrentTimestamp();

	if (OidIsValid(WriteSubid) || (waits < ROOM_NAPS_BEFORE_DIRECT && now >= DirectUntil) ||
		!rose_direct_begin(tree, worker))
		return false;
	if (now >= DirectUntil)
		DirectUntil = TimestampTzPlusMilliseconds(now, ROOM_DIRECT_MS);
	return true;
}

/*
 * C0's arena is full, or C0 has no memtable left to write to, or the table too many tail
 * segments: have the worker spill what is largest, or this table for its segments, and
 * wait for that, long enough for the spill of a large C0 on a busy disk.  Now and then
 * try our own, in case nobody else comes.  No worker comes to a table that we have locked
 * against everybody.
 *
 * A spill may free nothing, because it carries a few rows over, and what is free may go
 * to others or not be in one piece.  So naps are counted until something was written, and
 * only at first are we back at once.
 */
void
rose_make_room(RoseTree *tree)
{
	const int	max_waits = 30000;
	const int	own_turn = 500;
	const int	ask_every = 10;
	bool		locked = is_locked(tree);
	bool		worker = false;
	int			first = VainWaits;

	ROSE_STOP_POINT("write-no-room");	/* no lock */
	if (tree->local)
	{
		rose_local_room_make(tree);
		return;
	}
	if (OidIsValid(WriteSubid))
	{
		if ((rose_wait_for_epoch_hook && rose_wait_for_epoch_hook()) || spill_fed(tree))
			return;
	}
	for (int waits = first; waits < max_waits; waits++)
	{
		CHECK_FOR_INTERRUPTS();
		if (waits > 0)
			nap();
		if (waits == first || waits % ask_every == 0)
			worker = rose_request_spill_hook != NULL &&
				rose_request_spill_hook(rose_locator_db(tree->locator));
		if (((!worker || locked || waits % own_turn == own_turn - 1) &&
			 spill_something(tree, worker)) ||
			(waits > 0 && (has_room(tree) || go_past_memory(tree, worker, waits))))
		{
			VainWaits = waits + 1;
			return;
		}
	}
	VainWaits = 0;
	report_no_room(tree);
}
