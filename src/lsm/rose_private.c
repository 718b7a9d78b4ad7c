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
 * Locking: ROSE_LOCK_SPILL while entries are changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_private.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"

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
