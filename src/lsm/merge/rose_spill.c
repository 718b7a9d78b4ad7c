/*-------------------------------------------------------------------------
 *
 * rose_spill.c
 *	  Spills: a memtable becomes a run.
 *
 * A spill of one memtable:
 *
 *	1. freeze it, close its tail segment
 *	2. find out about each transaction in it, once (rose_spill_plan.c)
 *	3. copy the versions of transactions in progress into the new memtable,
 *	in writing sections, and log them to the new tail segment if the old one was
 *	logged
 *	4. write the committed versions to a run, those of large transactions in progress
 *	to a private run, all to one (or a few: rose_spill_private.c)
 *	5. publish: one switch of the manifest adds the runs and drops the tail
 *	segments
 *	6. retire the memtable
 *
 * A reader takes its list of sources in a reading section (rose_c0.h): before 6 it
 * finds the memtable, after 5 the run, and in between both, whose versions are
 * the same by sequence number.  A version that is carried over is in two
 * memtables for a while, in the same way.  An error anywhere before 5 leaves
 * the memtable frozen; the next spill takes it again and does not carry over
 * twice.
 *
 * For a subscription's epoch, 6 and the tail segments wait for rose_epoch_publish(), and
 * 1 may come long before the rest, in another process: then the memtable remembers the
 * epoch.
 *
 * Who spills may have altered the table and not committed that; then the rows of others
 * are written by the columns that they had before (rose_altered.h).
 *
 * A manifest that is full takes no run.  So each memtable needs a look at it, under the
 * lock; if there is no room, components are merged first, for which the lock is let go,
 * since who merges takes it for moments (rose_spill_turn_look).
 *
 * Locking: ROSE_LOCK_SPILL throughout the spill of a memtable, so that nobody else frees it:
 * it is read without sections.  Memtables are spilled oldest first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "util/rose_foreign.h"
#include "util/rose_gentle.h"
#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "store/rose_store.h"
#include "store/rose_tail.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/merge/rose_compactor.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/merge/rose_spill_internal.h"
#include "lsm/merge/rose_spill_plan.h"
#include "lsm/merge/rose_spill_private.h"
#include "lsm/merge/rose_tidy.h"

/* Versions carried over in one writing section. */
#define CARRY_BATCH			128

/* Versions between two looks at interrupts. */
#define INTERRUPT_EVERY		1024

/* Room that is left in the manifest: for a spill's runs, and for what a merge publishes. */
#define SPILL_MOST_COMPONENTS	(ROSE_MAX_COMPONENTS - 2 - 4)

RoseRequestSpillHook rose_request_spill_hook = NULL;
int			rose_spill_interval = 30 * 1000;

/* A small C0 waits for so many intervals while memory is not needed. */
#define SPILL_SMALL_INTERVALS	10

void
rose_spill_define_settings(void)
{
	DefineCustomIntVariable("rose.spill_interval",
							"Sets how long rows may stay in memory only before they are written to components.",
							"For replicated rows it bounds the WAL that the upstream retains. Rows are written earlier when memory fills up. Tables with few rows in memory may wait ten times as long.",
							&rose_spill_interval,
							30 * 1000,
							10,
							24 * 3600 * 1000,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
}

bool
rose_spill_is_due(uint64 c0_bytes, TimestampTz first_write, int own_interval, TimestampTz now)
{
	int64		intervals = 1;

	if (first_write == 0)
		return false;
	if (own_interval != ROSE_OPTION_UNSET)
		return now - first_write > own_interval * INT64CONST(1000);
	if (c0_bytes < ROSE_SPILL_SMALL && !rose_pressure_reached(ROSE_MARK_SPILL_SMALL))
		intervals = SPILL_SMALL_INTERVALS;
	return now - first_write > intervals * rose_spill_interval * INT64CONST(1000);
}

typedef struct Spill
{
	RoseTree   *tree;
	const RoseSpillSchemas *schemas;
	RoseC0Shared *c0;
	int			slot;			/* memtable being spilled */
	uint32		tail_segment;	/* newest tail segment of it, 0 = none */
	uint64		next_seq;		/* when it was frozen, or later */
	Oid			subid;
	uint64		epoch;			/* 0: the run is live at once */
	bool		release_now;	/* an epoch's memtable does not wait for the epoch */
	MemoryContext context;		/* of the whole spill */
	MemoryContext entry_context;	/* reset for each version */
	RoseSpillPlan *plan;
	RoseCompactor *run;
	RoseSpillPrivate *private_runs;
} Spill;

/* ---- reading the frozen memtable ---- */

/* An entry as a row; key gets the key's Datums. */
static void
entry_to_row(const RoseSchema *schema, const RoseMemEntryRef *entry, RoseRow *row, Datum *key)
{
	memset(row, 0, sizeof(*row));
	row->version = entry->version;
	row->tuple = entry->row;
	if (schema->nkeys > 0)
		rose_key_from_tuple(schema, entry->row, entry->version.rowid, key);
	else
		key[0] = Int64GetDatum(entry->version.rowid);
	row->key = key;
}

/* ---- carrying over ---- */

typedef struct CarryBatch
{
	int			n;
	RoseArenaPtr entries[CARRY_BATCH];
	RoseSpillOwner *owners[CARRY_BATCH];
} CarryBatch;

/*
 * One version into the new memtable; false if there is no room there or in the tail log.
 * REQUIRES: a writing section.  The version may have been taken back (ABORTED hint) since
 * the plan was made.
 */
static bool
carry_entry(Spill *spill, const RoseMemEntryRef *entry, bool logged)
{
	RoseTree   *tree = spill->tree;
	const RoseSchema *schema = spill->schemas->open;
	RoseStoreShared *store = &tree->shared->store;
	RoseTailRecord record = {.version = entry->version, .row = entry->row};
	RoseMemPending pending;
	Datum		key[INDEX_MAX_KEYS];
	RoseRow		row;

	entry_to_row(schema, entry, &row, key);
	/* or in another memtable already, from a spill that failed */
	if ((entry->hints & ROSE_MEM_HINT_ABORTED) ||
		rose_c0_has_elsewhere(spill->c0, spill->slot, schema, key, entry->version.seq))
		return true;
	logged = logged && (entry->version.op != ROSE_OP_LOCK || rose_tree_logs_locks());
	if (logged &&
		!rose_tail_reserve(tree->rel, store, schema->layout,
						   rose_tail_record_size(schema->natts, &record), true))
		return false;
	if (!rose_c0_prepare(spill->c0, schema, &entry->version, key, entry->row, &pending))
		return false;
	if (logged)
	{
		rose_tail_append(tree->rel, store, schema->layout, &record, 1);
		rose_c0_set_tail_segment(spill->c0, store->tail_last);
	}
	rose_c0_link(spill->c0, &pending);
	return true;
}

/* An owner that the new memtable has no room for goes to the private run. */
static void
carry_batch(Spill *spill, CarryBatch *batch)
{
	const RoseSchema *schema = spill->schemas->open;
	bool		logged = spill->tail_segment != 0;
	MemoryContext old = MemoryContextSwitchTo(spill->entry_context);

	rose_c0_write_begin(spill->c0);
	rose_arena_use_reserve = true;
	PG_TRY();
	{
		for (int i = 0; i < batch->n; i++)
		{
			RoseMemEntryRef entry;

			if (batch->owners[i]->private)
				continue;
			rose_memtable_get(spill->c0, schema, batch->entries[i], &entry);
			if (!carry_entry(spill, &entry, logged))
				rose_spill_plan_make_private(spill->plan, batch->owners[i]);
		}
	}
	PG_FINALLY();
	{
		rose_arena_use_reserve = false;
	}
	PG_END_TRY();
	rose_c0_write_end(spill->c0);
	batch->n = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(spill->entry_context);
}

static void
carry_over(Spill *spill)
{
	RoseMemCursor cursor;
	CarryBatch	batch;
	bool		more;

	if (!rose_spill_plan_carries(spill->plan))
		return;
	batch.n = 0;
	rose_mem_cursor_open(&cursor, spill->c0, spill->schemas->open, spill->slot);
	for (more = rose_mem_cursor_first(&cursor); more; more = rose_mem_cursor_next(&cursor))
	{
		RoseMemEntryRef entry;
		RoseSpillOwner *owner = NULL;

		rose_mem_cursor_get(&cursor, &entry);
		if (rose_spill_plan_fate(spill->plan, &entry, &owner) != ROSE_SPILL_CARRY)
			continue;
		batch.entries[batch.n] = entry.ptr;
		batch.owners[batch.n++] = owner;
		if (batch.n == CARRY_BATCH)
		{
			CHECK_FOR_INTERRUPTS();
			carry_batch(spill, &batch);
		}
	}
	if (batch.n > 0)
		carry_batch(spill, &batch);
}

/* ---- writing runs ---- */

static void
write_runs(Spill *spill)
{
	RoseTree   *tree = spill->tree;
	const RoseSchema *schema = spill->schemas->committed;
	bool		incomplete = rose_tree_is_incomplete(tree);
	bool		bottom = rose_tree_manifest(tree)->ncomponents == 0 && !incomplete;
	MemoryContext old = MemoryContextSwitchTo(spill->entry_context);
	RoseMemCursor cursor;
	uint64		nversions = 0;
	bool		more;

	spill->run = rose_compactor_create(tree->rel, &tree->shared->store, schema,
									   rose_spill_plan_committed(spill->plan),
									   ROSE_BUILD_RUN,
									   rose_horizon_get(tree->rel, spill->context),
									   bottom, spill->context);
	spill->private_runs = rose_spill_private_create(tree, spill->schemas,
													rose_spill_plan_private(spill->plan),
													spill->context);
	rose_mem_cursor_open(&cursor, spill->c0, spill->schemas->open, spill->slot);
	for (more = rose_mem_cursor_first(&cursor); more; more = rose_mem_cursor_next(&cursor))
	{
		RoseMemEntryRef entry;
		RoseSpillOwner *owner = NULL;
		RoseSpillFate fate;
		RoseRow		row;
		Datum		key[INDEX_MAX_KEYS];

		MemoryContextReset(spill->entry_context);
		if (++nversions % INTERRUPT_EVERY == 0)
		{
			CHECK_FOR_INTERRUPTS();
			rose_pin_move_on(tree->locator);	/* reads memory only */
		}
		rose_gentle_row();
		rose_mem_cursor_get(&cursor, &entry);
		fate = rose_spill_plan_fate(spill->plan, &entry, &owner);
		if (fate != ROSE_SPILL_RUN && fate != ROSE_SPILL_PRIVATE)
			continue;
		entry_to_row(spill->schemas->open, &entry, &row, key);
		if (fate == ROSE_SPILL_RUN)
			rose_compactor_add(spill->run, &row);
		else
			rose_spill_private_add(spill->private_runs, &row);
	}
	MemoryContextSwitchTo(old);
}

/* ---- publishing ---- */

static void
mark_entry(const Spill *spill, RoseComponentEntryDisk *entry)
{
	entry->level = 0;
	entry->state = ROSE_COMPONENT_LIVE;
	rose_merge_stats_came(&spill->tree->shared->merge_stats, entry);
	if (spill->epoch == 0)
		return;
	entry->state = ROSE_COMPONENT_PENDING;
	entry->subid = spill->subid;
	entry->epoch = spill->epoch;
	/* its transaction may need the memory long before the epoch is committed */
	if ((entry->flags & ROSE_COMPONENT_PRIVATE) || spill->release_now)
		entry->flags |= ROSE_COMPONENT_READ_PENDING;
}

/*
 * Must the memtable of an epoch go before the epoch is committed?  Pending
 * ones take slots and memory; one slot is for the active memtable, one for the
 * next.
 */
static bool
memory_is_tight(int npending)
{
	return npending >= ROSE_MAX_MEMTABLES - 2 ||
		rose_pressure_reached(ROSE_MARK_SHORT);
}

/*
 * Finish the runs and list them in the edit: private ones first, because their
 * versions are newer than committed ones of the same key.  True if the
 * committed run is pending, so that the memtable must stay.
 */
static bool
finish_runs(Spill *spill, RoseManifestEdit *edit)
{
	RoseComponentEntryDisk entry;
	bool		pending = false;

	edit->nadd = rose_spill_private_finish(spill->private_runs, edit->add);
	for (int i = 0; i < edit->nadd; i++)
		mark_entry(spill, &edit->add[i]);
	if (rose_compactor_finish(spill->run, &entry))
	{
		mark_entry(spill, rose_edit_add(edit, &entry));
		pending = spill->epoch != 0 && !spill->release_now;
	}
	rose_merge_stats_missing(&spill->tree->shared->merge_stats,
							 rose_compactor_missing(spill->run));
	return pending;
}

static void
publish(Spill *spill)
{
	RoseTree   *tree = spill->tree;
	RoseManifestEdit *edit = MemoryContextAllocZero(spill->context, sizeof(RoseManifestEdit));
	bool		pending = finish_runs(spill, edit);

	edit->next_seq = spill->next_seq;
	if (!pending)
		edit->drop_tails_upto = spill->tail_segment;

	/*
	 * A transaction that committed asynchronously may be lost in a crash and its xid
	 * given to another; nothing of it may be in a component then.  But its commit record
	 * was in WAL before the plan found it committed, and the switch comes behind that: if
	 * the one is lost, so is the other.  So no spill waits for the disk, however many
	 * small tables there are.
	 */
	ROSE_STOP_POINT("spill-finished");

	HOLD_INTERRUPTS();
	if (rose_edit_has_components(edit) || edit->drop_tails_upto != 0)
		rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	ROSE_STOP_POINT("spill-published");
	if (pending)
		rose_c0_set_pending(spill->c0, spill->slot, spill->epoch);
	else
		rose_c0_retire(spill->c0, spill->slot);
	RESUME_INTERRUPTS();
	if (rose_edit_has_components(edit))
		rose_settled_all(tree->rel, &tree->shared->store);
}

static void
release_builders(Spill *spill)
{
	rose_spill_private_free(spill->private_runs);
	rose_compactor_free(spill->run);
}

/* ---- one memtable ---- */

void
rose_spill_memtable(RoseTree *tree, const RoseSpillSchemas *schemas, int slot, Oid subid, uint64 epoch,
					uint64 private_xid)
{
	Spill		spill = {0};
	RoseFrozenMemtable frozen;

	spill.tree = tree;
	spill.schemas = schemas;
	spill.c0 = &tree->shared->c0;
	spill.slot = slot;
	spill.subid = subid;
	spill.epoch = epoch;
	spill.context = AllocSetContextCreate(CurrentMemoryContext, "rose spill",
										  ALLOCSET_DEFAULT_SIZES);
	spill.entry_context = AllocSetContextCreate(spill.context, "rose spill entry",
												ALLOCSET_SMALL_SIZES);

	rose_c0_describe_frozen(spill.c0, slot, &frozen);
	spill.tail_segment = frozen.tail_segment;
	spill.next_seq = frozen.next_seq;
	if (epoch != 0 && frozen.frozen_for != 0)
		spill.epoch = frozen.frozen_for;
	spill.release_now = spill.tail_segment == 0 && memory_is_tight(frozen.npending);

	ROSE_STOP_POINT("spill-frozen");
	spill.plan = rose_spill_plan_make(spill.c0, schemas->open, slot, private_xid, spill.context);
	ROSE_STOP_POINT("spill-planned");
	carry_over(&spill);
	ROSE_STOP_POINT("spill-carried");
	write_runs(&spill);
	ROSE_STOP_POINT("spill-written");
	publish(&spill);
	ROSE_STOP_POINT("spill-freed");
	release_builders(&spill);
	MemoryContextDelete(spill.context);
	pg_atomic_fetch_add_u64(&tree->shared->spills, 1);
}

/*
 * Freeze the active memtable; false if it is empty or all slots are taken.
 * All segments there are make this memtable, or older ones, durable.
 */
bool
rose_spill_freeze_active(RoseTreeShared *shared)
{
	RoseC0Shared *c0 = &shared->c0;
	bool		freeze;

	rose_c0_write_begin(c0);
	freeze = rose_c0_may_freeze(c0);
	if (freeze)
	{
		rose_c0_set_tail_segment(c0, rose_tail_close_segment(&shared->store));
		(void) rose_c0_freeze(c0);
	}
	rose_c0_write_end(c0);
	return freeze;
}

/*
 * Segments of which nothing has come to C0, or nothing is left there: no memtable's run
 * takes them along.  True if there were many, and they are gone; a few do no harm.
 */
static bool
drop_idle_tails(RoseTree *tree)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseStoreShared *store = &tree->shared->store;
	bool		drop;

	if (pg_atomic_read_u32(&store->ntails) < ROSE_TAILS_MANY)
		return false;
	rose_c0_write_begin(c0);
	drop = rose_c0_is_empty(c0) && pg_atomic_read_u32(&store->ntails) >= ROSE_TAILS_MANY;
	if (drop)
		rose_tail_drop_all(tree->rel, store, rose_c0_next_sequence(c0));
	rose_c0_write_end(c0);
	return drop;
}

/* ---- room in the manifest ---- */

bool
rose_spill_has_room(RoseTree *tree)
{
	return rose_tree_manifest(tree)->ncomponents <= SPILL_MOST_COMPONENTS;
}

void
rose_spill_turn_begin(RoseSpillTurn *turn, RoseTree *tree, bool tidies)
{
	turn->tree = tree;
	turn->tidies = tidies;
	turn->may_help = tidies && rose_tidy_full_manifest(tree);
	LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
}

/*
 * Others who have looked for room while there was some may have had their turns before us.
 * If nothing can be done about it, there may still be room enough for this one.
 */
RoseSpillRoom
rose_spill_turn_look(RoseSpillTurn *turn)
{
	RoseTree   *tree = turn->tree;

	if (rose_spill_has_room(tree))
		return ROSE_SPILL_ROOM;
	if (!turn->tidies)
		return ROSE_SPILL_NO_ROOM;
	if (!turn->may_help)
		return ROSE_SPILL_ROOM;
	rose_spill_turn_end(turn);
	turn->may_help = rose_tidy_full_manifest(tree);
	LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	return ROSE_SPILL_LOOK_AGAIN;
}

void
rose_spill_turn_end(RoseSpillTurn *turn)
{
	UnlockPage(turn->tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
}

/* ---- all memtables ---- */

/* All that is in C0, or as much as there is room for. */
static bool
spill_memtables(RoseSpillTurn *turn, const RoseSpillSchemas *schemas, Oid subid, uint64 epoch,
				uint64 private_xid)
{
	RoseTree   *tree = turn->tree;
	RoseC0Shared *c0 = &tree->shared->c0;
	bool		frozen = false;
	bool		spilled = false;

	for (;;)
	{
		int			slot = rose_c0_oldest_frozen(c0);

		if (slot >= 0)
		{
			RoseSpillRoom room = rose_spill_turn_look(turn);

			if (room == ROSE_SPILL_NO_ROOM)
				return spilled;
			if (room == ROSE_SPILL_LOOK_AGAIN)
				continue;
			rose_spill_memtable(tree, schemas, slot, subid, epoch, private_xid);
			spilled = true;
			continue;
		}
		if (frozen)
			return spilled;
		frozen = true;
		rose_c0_drop_unused(c0);
		if (!rose_spill_freeze_active(tree->shared))
			return spilled;
	}
}

static bool
spill_c0(RoseTree *tree, Oid subid, uint64 epoch, uint64 private_xid, bool tidies)
{
	Oid			fed_by = tree->shared->fed_by;
	MemoryContext context;
	RoseSpillTurn turn;
	RoseSpillSchemas schemas;
	bool		spilled;

	rose_foreign_refuse_change(RelationGetRelationName(tree->rel));

	/* nothing is in C0, and the tail log is needed */
	if (tree->shared->other_order)
		return false;
	if (OidIsValid(fed_by) && fed_by != subid)
		return false;
	if (!OidIsValid(fed_by))
	{
		/* nobody's epoch: an ordinary spill, whoever asks */
		subid = InvalidOid;
		epoch = 0;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "rose spill schemas",
									ALLOCSET_SMALL_SIZES);
	if (!rose_altered_schemas(tree, context, &schemas))
	{
		MemoryContextDelete(context);
		return false;
	}
	rose_spill_turn_begin(&turn, tree, tidies);
	spilled = spill_memtables(&turn, &schemas, subid, epoch, private_xid);
	if (!OidIsValid(fed_by) && drop_idle_tails(tree))
		spilled = true;
	rose_spill_turn_end(&turn);
	MemoryContextDelete(context);
	return spilled;
}

bool
rose_spill(RoseTree *tree, Oid subid, uint64 epoch)
{
	return spill_c0(tree, subid, epoch, 0, true);
}

bool
rose_spill_if_room(RoseTree *tree)
{
	return rose_spill_has_room(tree) && spill_c0(tree, InvalidOid, 0, 0, false);
}

bool
rose_spill_whole(RoseTree *tree)
{
	return rose_spill_has_room(tree) && spill_c0(tree, InvalidOid, 0, ROSE_SPILL_WHOLE, false);
}

bool
rose_spill_own(RoseTree *tree, Oid subid, uint64 epoch)
{
	FullTransactionId xid = GetTopFullTransactionIdIfAny();

	return spill_c0(tree, subid, epoch, U64FromFullTransactionId(xid), true);
}
