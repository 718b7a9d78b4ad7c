/*-------------------------------------------------------------------------
 *
 * rose_settle.c
 *	  Private runs whose transactions have all ended.
 *
 * When all its transactions have ended, and
 *
 * 	  all aborted	  the run is dropped
 * 	  all committed	  and no subtransaction wrote rows: it is an ordinary run from now on,
 * 					  by a change of its manifest entry alone
 * 	  else			  it may be merged, which drops rows of what aborted
 *
 * Workers do it, and who spills where none can.  Of a temporary table it is done when a
 * transaction first uses it: else each reader would ask what became of its rows' writers
 * until the next spill.
 *
 * Locking: ROSE_LOCK_MERGE, shared with workers that merge the table, and ROSE_LOCK_SPILL
 * from the look at the runs until entries are changed, and a claim (rose_claims.h), so
 * that no merge takes one away in between.  Nothing is waited for: who merges or spills
 * the table settles its runs, or somebody does it later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_settled.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_settle.h"

/* Decide on one private run. */
static void
settle_run(RoseView *view, int index, RoseManifestEdit *edit)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(view, index);
	RoseComponentEntryDisk *update;
	RosePrivateOwners owners;

	switch (rose_private_owners(view->tree, entry, &owners))
	{
		case ROSE_PRIVATE_OPEN:
		case ROSE_PRIVATE_PARTLY:
			return;
		case ROSE_PRIVATE_ABORTED:
			rose_edit_remove(edit, entry->id);
			return;
		case ROSE_PRIVATE_COMMITTED:
			break;
	}
	/* a pending one is still the property of its epoch */
	if (entry->state != ROSE_COMPONENT_LIVE || owners.naborted > 0 ||
		rose_component_info(rose_view_component(view, index))->nwriters > 0)
		return;
	update = rose_edit_update(edit, entry);
	update->flags &= ~(ROSE_COMPONENT_PRIVATE | ROSE_COMPONENT_OWNERS);
	update->owner_xid = 0;
}

/* What is to become of those runs that nobody merges; their ids.  The version of claims is returned. */
static uint64
judge_runs(RoseView *view, RoseManifestEdit *edit, uint32 *ids, int *nids)
{
	RoseTree   *tree = view->tree;
	bool		claimed[ROSE_MAX_COMPONENTS];
	uint64		version = rose_claims_find(&tree->shared->claims, view->manifest.ncomponents,
										   view->manifest.components, claimed);

	*nids = 0;
	for (int i = 0; i < view->manifest.ncomponents; i++)
		if ((rose_view_entry(view, i)->flags & ROSE_COMPONENT_PRIVATE) && !claimed[i])
		{
			settle_run(view, i, edit);
			ids[(*nids)++] = rose_view_entry(view, i)->id;
		}
	ROSE_STOP_POINT("settle-judged");	/* no LWLock */
	return version;
}

/* A merge may have ended since the manifest was seen, before the look at claims. */
static void
change_runs(RoseTree *tree, const RoseManifestEdit *edit, uint64 seen)
{
	if (rose_tree_manifest(tree)->version != seen)
		return;
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	if (edit->nupdate > 0)
		rose_settled_all(tree->rel, &tree->shared->store);
}

static void
change_claimed_runs(RoseTree *tree, const RoseManifestEdit *edit, uint64 seen, RoseTicket *ticket)
{
	PG_TRY();
	{
		change_runs(tree, edit, seen);
	}
	PG_CATCH();
	{
		rose_claims_end(&tree->shared->claims, ticket);
		PG_RE_THROW();
	}
	PG_END_TRY();
	rose_claims_end(&tree->shared->claims, ticket);
}

/* They are claimed for the moment, so that no merge takes them away.  REQUIRES: ROSE_LOCK_MERGE, ROSE_LOCK_SPILL. */
static void
settle_runs(RoseTree *tree)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));
	RoseView   *view = rose_view_glance(tree);
	uint64		seen = view->manifest.version;
	uint32		ids[ROSE_MAX_COMPONENTS];
	int			nids;
	uint64		version = judge_runs(view, edit, ids, &nids);
	RoseTicket	ticket;

	if (rose_edit_has_components(edit) &&
		rose_claims_begin(&tree->shared->claims, version, ids, nids, false, 0, &ticket))
		change_claimed_runs(tree, edit, seen, &ticket);
	pfree(edit);
}

void
rose_settle_private_runs(RoseTree *tree)
{
	if (!rose_manifest_has_private_runs(rose_tree_manifest(tree)) ||
		!ConditionalLockPage(tree->rel, ROSE_LOCK_MERGE, ShareLock))
		return;
	if (ConditionalLockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock))
	{
		settle_runs(tree);
		UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	}
	UnlockPage(tree->rel, ROSE_LOCK_MERGE, ShareLock);
}

void
rose_settle_register(void)
{
	rose_local_use_hook = rose_settle_private_runs;
}
