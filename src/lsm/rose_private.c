/*-------------------------------------------------------------------------
 *
 * rose_private.c
 *	  Private runs after their transaction has ended.
 *
 * A private run has the rows of one top-level transaction.  Readers judge its
 * rows as they judge those in C0.  When the transaction has
 *
 *	  aborted	  the run is dropped
 *	  committed	  and no subtransaction wrote rows: it is an ordinary run from now on,
 *				  by a change of its manifest entry alone
 *	  committed	  otherwise: it may be merged, which drops rows of aborted
 *				  subtransactions
 *
 * While the transaction goes on, its runs are joined: by the worker, or by itself where no
 * worker can.
 *
 * Locking: ROSE_LOCK_SPILL while entries are changed; ROSE_LOCK_MERGE while runs are joined.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_private.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lsm/rose_altered.h"
#include "lsm/rose_merge.h"
#include "lsm/rose_picker.h"
#include "lsm/rose_spill.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

RosePrivateState
rose_private_state(const RoseComponentEntryDisk *entry)
{
	TransactionId owner = XidFromFullTransactionId(FullTransactionIdFromU64(entry->owner_xid));

	Assert(entry->flags & ROSE_COMPONENT_PRIVATE);
	if (TransactionIdIsCurrentTransactionId(owner) || TransactionIdIsInProgress(owner))
		return ROSE_PRIVATE_OPEN;
	return TransactionIdDidCommit(owner) ? ROSE_PRIVATE_COMMITTED : ROSE_PRIVATE_ABORTED;
}

bool
rose_component_mergeable(const RoseComponentEntryDisk *entry)
{
	if (entry->state != ROSE_COMPONENT_LIVE)
		return false;
	return !(entry->flags & ROSE_COMPONENT_PRIVATE) ||
		rose_private_state(entry) == ROSE_PRIVATE_COMMITTED;
}

static bool
has_private_runs(const RoseManifest *manifest)
{
	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].flags & ROSE_COMPONENT_PRIVATE)
			return true;
	return false;
}

/* Decide on one private run. */
static void
settle_run(RoseTable *table, int index, RoseManifestEdit *edit)
{
	const RoseComponentEntryDisk *entry = &table->manifest.components[index];
	RoseComponentEntryDisk *update;

	switch (rose_private_state(entry))
	{
		case ROSE_PRIVATE_OPEN:
			return;
		case ROSE_PRIVATE_ABORTED:
			edit->remove[edit->nremove++] = entry->id;
			return;
		case ROSE_PRIVATE_COMMITTED:
			break;
	}
	/* a pending one is still the property of its epoch */
	if (entry->state != ROSE_COMPONENT_LIVE ||
		rose_component_info(rose_table_component(table, index))->nwriters > 0)
		return;
	update = &edit->update[edit->nupdate++];
	*update = *entry;
	update->flags &= ~ROSE_COMPONENT_PRIVATE;
	update->owner_xid = 0;
}

void
rose_settle_private_runs(RoseTable *table)
{
	RoseManifestEdit *edit;
	const RoseManifest *manifest = rose_table_manifest(table);

	if (!has_private_runs(manifest) ||
		!ConditionalLockPage(table->rel, ROSE_LOCK_SPILL, ExclusiveLock))
		return;

	edit = palloc0(sizeof(RoseManifestEdit));
	manifest = rose_table_manifest(table);
	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].flags & ROSE_COMPONENT_PRIVATE)
			settle_run(table, i, edit);
	if (edit->nremove > 0 || edit->nupdate > 0)
	{
		rose_manifest_apply(table->rel, &table->shared->store, edit);
		if (edit->nupdate > 0)
			rose_store_settle(table->rel, &table->shared->store);
	}
	pfree(edit);
	UnlockPage(table->rel, ROSE_LOCK_SPILL, ExclusiveLock);
}

/* ---- what one's own transaction has spilled ---- */

/* All of them, for want of room in the manifest. */
static void
pick_all_own_runs(RoseTable *table, uint64 own_xid, RosePickResult *pick)
{
	const RoseManifest *manifest = rose_table_manifest(table);

	memset(pick, 0, sizeof(*pick));
	pick->owner_xid = own_xid;
	for (int i = 0; i < manifest->ncomponents; i++)
		if ((manifest->components[i].flags & ROSE_COMPONENT_PRIVATE) &&
			manifest->components[i].owner_xid == own_xid &&
			manifest->components[i].state == ROSE_COMPONENT_LIVE)
			pick->inputs[pick->ninputs++] = manifest->components[i].id;
	pick->merge = pick->ninputs > 1;
}

static bool
pick_own_runs(RoseTable *table, uint64 own_xid, RosePickResult *pick)
{
	RosePickInput input;
	bool		blocked[ROSE_MAX_COMPONENTS];

	rose_pick_input(table, &input, blocked);
	*pick = rose_pick_merge(&input);
	if ((!pick->merge || pick->owner_xid != own_xid) && !rose_spill_has_room(table))
		pick_all_own_runs(table, own_xid, pick);
	return pick->merge && pick->owner_xid == own_xid;
}

/* False: there is nothing to join. */
static bool
join_own_runs(RoseTable *table, uint64 own_xid)
{
	RosePickResult pick;
	RoseMerge  *merge;

	if (!pick_own_runs(table, own_xid, &pick))
		return false;
	merge = rose_merge_begin(table, &pick, false);
	if (merge == NULL)
		return false;
	(void) rose_merge_step(merge, table, 0);
	rose_merge_end(merge, table);
	return true;
}

/* May what has been written before ALTER TABLE be put together with what comes after it? */
static bool
is_joinable(RoseTable *table)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose join schemas",
												  ALLOCSET_SMALL_SIZES);
	RoseSpillSchemas schemas;
	bool		joinable;

	if (!rose_altered_schemas(table, context, &schemas, &joinable))
		joinable = false;
	MemoryContextDelete(context);
	return joinable;
}

/*
 * A worker that was merging the table when we locked it cannot go on, and keeps the lock.  It
 * gives way when somebody waits for that, and loses what it has; so wait only if it is time.
 */
void
rose_join_own_runs(RoseTable *table)
{
	uint64		own_xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());

	if (own_xid == 0 || !is_joinable(table))
		return;
	if (!ConditionalLockPage(table->rel, ROSE_LOCK_MERGE, ExclusiveLock))
	{
		if (rose_table_manifest(table)->ncomponents < ROSE_MAX_COMPONENTS / 2)
			return;
		LockPage(table->rel, ROSE_LOCK_MERGE, ExclusiveLock);
	}
	while (join_own_runs(table, own_xid))
		;
	UnlockPage(table->rel, ROSE_LOCK_MERGE, ExclusiveLock);
}
