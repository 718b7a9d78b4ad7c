/*-------------------------------------------------------------------------
 *
 * rose_epoch_runs.c
 *	  What a subscription's epoch does with the tables that it feeds: freeze, spill to pending
 *	  runs, publish.
 *
 * A fed table's memtables are frozen by its subscription alone.  Its runs are pending until the epoch's position
 * is committed; then they become live, all at once for a reader, and their memtables are freed.
 *
 * Locking: ROSE_LOCK_SPILL while a table's memtables are spilled or its manifest is changed, not while they are frozen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_epoch_runs.h"

#include "lsm/merge/rose_own_runs.h"
#include "lsm/merge/rose_spill_internal.h"
#include "lsm/tree/rose_registry.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "util/rose_stop_point.h"

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
 */
static void
freeze_for_epoch(RoseTreeShared *shared, void *arg)
{
	EpochFreeze *freeze = arg;
	RoseC0Shared *c0 = &shared->c0;

	if (shared->fed_by != freeze->subid)
		return;
	(void) rose_spill_freeze_active(shared);
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		RoseMemtableShared *memtable = &c0->memtables[slot];

		if (memtable->state != ROSE_MEMTABLE_FROZEN || memtable->pending_epoch != 0)
			continue;
		memtable->frozen_for = freeze->epoch;
		freeze->nbytes += memtable->nbytes;
	}
	if (c0->active >= 0 && c0->memtables[c0->active].nentries > 0)
		freeze->stuck = true;
	LWLockRelease(&c0->write_lock);
}

bool
rose_epoch_freeze(Oid subid, uint64 epoch, uint64 *nbytes)
{
	EpochFreeze freeze = {subid, epoch, 0, false};

	rose_registry_visit(MyDatabaseId, freeze_for_epoch, &freeze);
	*nbytes = freeze.nbytes;
	return !freeze.stuck;
}

/* Oldest memtable that waits for its spill in this epoch, or -1. */
static int
oldest_frozen_for(RoseC0Shared *c0, uint64 epoch)
{
	int			slot;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	slot = rose_spill_oldest_frozen(c0);
	if (slot >= 0 && c0->memtables[slot].frozen_for != epoch)
		slot = -1;
	LWLockRelease(&c0->write_lock);
	return slot;
}

bool
rose_epoch_spill(RoseTree *tree, Oid subid, uint64 epoch)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	const RoseSpillSchemas schemas = {.committed = tree->schema,.open = tree->schema};	/* applied by nobody who alters */
	bool		spilled = false;
	int			slot;

	if (tree->shared->fed_by != subid)
		return false;
	rose_tidy_full_manifest(tree);
	LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	while ((slot = oldest_frozen_for(c0, epoch)) >= 0)
	{
		rose_spill_memtable(tree, &schemas, slot, subid, epoch, 0);
		spilled = true;
	}
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	return spilled;
}

/* An epoch takes earlier ones with it, whose positions it is behind. */
static bool
is_settled(uint64 of_epoch, uint64 epoch)
{
	return of_epoch != 0 && of_epoch <= epoch;
}

/*
 * Tail segments that nothing needs when this epoch's memtables are gone: none
 * as long as an older memtable is left.  REQUIRES: write_lock.
 */
static uint32
epoch_tail_segment(const RoseC0Shared *c0, uint64 epoch)
{
	uint64		upto = 0;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (is_settled(c0->memtables[slot].pending_epoch, epoch))
			upto = Max(upto, c0->memtables[slot].tail_segment);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (c0->memtables[slot].state == ROSE_MEMTABLE_FROZEN &&
			!is_settled(c0->memtables[slot].pending_epoch, epoch) &&
			c0->memtables[slot].tail_segment <= upto)
			return 0;
	return (uint32) upto;
}

static void
free_memtables(RoseC0Shared *c0, uint64 epoch)
{
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	LWLockAcquire(&c0->reclaim_lock, LW_EXCLUSIVE);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		if (is_settled(c0->memtables[slot].pending_epoch, epoch))
			rose_c0_free_memtable(c0, slot);
	}
	LWLockRelease(&c0->reclaim_lock);
	LWLockRelease(&c0->write_lock);
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
	LWLockAcquire(&c0->write_lock, LW_SHARED);
	edit->drop_tails_upto = epoch_tail_segment(c0, epoch);
	LWLockRelease(&c0->write_lock);

	HOLD_INTERRUPTS();
	if (edit->nupdate > 0 || edit->drop_tails_upto != 0)
		rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	ROSE_STOP_POINT("epoch-settled");
	free_memtables(c0, epoch);
	RESUME_INTERRUPTS();
	if (edit->nupdate > 0)
		rose_store_settle(tree->rel, &tree->shared->store);
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	pfree(manifest);
	pfree(edit);
}
