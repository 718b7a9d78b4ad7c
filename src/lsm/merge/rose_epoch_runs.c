/*-------------------------------------------------------------------------
 *
 * rose_epoch_runs.c
 *	  What a subscription's epoch does with the tables that it feeds: freeze, spill to pending
 *	  runs, publish.
 *
 * A fed table's memtables are frozen by its subscription alone.  Its runs are pending
 * until the epoch's position is committed; then they become live, all at once for a
 * reader, and their memtables are freed.
 *
 * Locking: ROSE_LOCK_SPILL while a table's memtables are spilled or its manifest is
 * changed, not while they are frozen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_settled.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/merge/rose_spill_internal.h"

typedef struct EpochFreeze
{
	Oid			subid;
	uint64		epoch;
	uint64		nbytes;
	bool		stuck;
} EpochFreeze;

/*
 * Without ROSE_LOCK_SPILL: a fed table's memtables are frozen by its subscription
 * alone, and others who hold that lock do not look at them.
 *
 * The registry's lock is held, so no reading section may be waited for: an active
 * memtable without rows stays until the table is spilled.
 *
 * A table that is being recovered has nothing of the subscription in C0, only a part of
 * its tail log: that may neither become a run by itself nor stand for all of the tail
 * log's segments.
 */
static void
freeze_for_epoch(RoseTreeShared *shared, void *arg)
{
	EpochFreeze *freeze = arg;

	if (!shared->recovered || shared->fed_by != freeze->subid)
		return;
	(void) rose_spill_freeze_active(shared);
	if (!rose_c0_freeze_for(&shared->c0, freeze->epoch, &freeze->nbytes))
		freeze->stuck = true;
}

bool
rose_epoch_freeze(Oid subid, uint64 epoch, uint64 *nbytes)
{
	EpochFreeze freeze = {subid, epoch, 0, false};

	rose_registry_visit(MyDatabaseId, freeze_for_epoch, &freeze);
	*nbytes = freeze.nbytes;
	return !freeze.stuck;
}

bool
rose_epoch_spill(RoseTree *tree, Oid subid, uint64 epoch)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	const RoseSpillSchemas schemas = {.committed = tree->schema, .open = tree->schema};	/* applied by nobody who alters */
	bool		spilled = false;
	RoseSpillTurn turn;
	int			slot;

	if (tree->shared->fed_by != subid)
		return false;
	rose_spill_turn_begin(&turn, tree, true);
	while ((slot = rose_c0_oldest_frozen_for(c0, epoch)) >= 0)
	{
		if (rose_spill_turn_look(&turn) == ROSE_SPILL_LOOK_AGAIN)
			continue;
		rose_spill_memtable(tree, &schemas, slot, subid, epoch, 0);
		spilled = true;
	}
	rose_c0_drop_unused(c0);
	rose_spill_turn_end(&turn);
	return spilled;
}

typedef struct EpochLook
{
	Oid			subid;
	uint64		epoch;
	List	   *relids;
} EpochLook;

static void
look_for_unspilled(RoseTreeShared *shared, void *arg)
{
	EpochLook  *look = arg;

	if (shared->recovered && shared->fed_by == look->subid &&
		rose_c0_oldest_frozen_for(&shared->c0, look->epoch) >= 0)
		look->relids = lappend_oid(look->relids, pg_atomic_read_u32(&shared->relid));
}

List *
rose_epoch_unspilled(Oid subid, uint64 epoch)
{
	EpochLook	look = {subid, epoch, NIL};

	rose_registry_visit(MyDatabaseId, look_for_unspilled, &look);
	return look.relids;
}

/* An epoch takes earlier ones with it, whose positions it is behind. */
static bool
is_settled(uint64 of_epoch, uint64 epoch)
{
	return of_epoch != 0 && of_epoch <= epoch;
}

void
rose_epoch_publish(RoseTree *tree, Oid subid, uint64 epoch)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));
	RoseManifest *manifest = palloc(sizeof(RoseManifest));

	Assert(epoch != 0);
	LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	rose_manifest_read(tree->rel, manifest);
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		if (entry->state != ROSE_COMPONENT_PENDING || entry->subid != subid ||
			!is_settled(entry->epoch, epoch))
			continue;
		rose_edit_make_live(edit, entry);
	}
	edit->drop_tails_upto = rose_c0_covered_tail(c0, epoch);

	HOLD_INTERRUPTS();
	if (edit->nupdate > 0 || edit->drop_tails_upto != 0)
		rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	ROSE_STOP_POINT("epoch-settled");
	rose_c0_retire_covered(c0, epoch);
	RESUME_INTERRUPTS();
	if (edit->nupdate > 0)
		rose_settled_all(tree->rel, &tree->shared->store);
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	pfree(manifest);
	pfree(edit);
}

void
rose_epoch_publish_committed(RoseTree *tree)
{
	Oid			subid = rose_feed_subscription(tree);
	const RoseManifest *manifest = rose_tree_manifest(tree);
	uint64		epoch = 0;

	if (!OidIsValid(subid) || rose_epoch_committed_hook == NULL)
		return;
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		if (entry->state == ROSE_COMPONENT_PENDING && entry->subid == subid &&
			entry->epoch > epoch && rose_epoch_committed_hook(subid, entry->epoch))
			epoch = entry->epoch;
	}
	if (epoch != 0)
		rose_epoch_publish(tree, subid, epoch);
}
