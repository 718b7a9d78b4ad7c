/*-------------------------------------------------------------------------
 *
 * rose_merge_now.c
 *	  Everything that a table has, merged in this process: for rose.merge().
 *
 * What is committed is taken out of private runs first, so that nothing that can be
 * merged is left.
 *
 * Locking: ROSE_LOCK_MERGE, waited for, to the end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_foreign.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/merge/rose_merge_internal.h"
#include "lsm/merge/rose_settle.h"
#include "lsm/merge/rose_spill.h"

/*
 * All that may be merged.  Past a private run newer versions may go, because they are not
 * of its keys, but for those of its versions that are aborted; past a pending run they
 * may not, nor past one that has committed rows as well.  What a run is, is asked once:
 * it may be another in the next moment.
 */
static void
pick_everything(RoseTree *tree, RosePickResult *pick)
{
	bool		incomplete = rose_tree_is_incomplete(tree);
	const RoseManifest *manifest = rose_tree_manifest(tree);

	memset(pick, 0, sizeof(*pick));
	pick->merge = true;
	pick->thorough = true;
	pick->target_level = !incomplete && rose_merge_pass_possible(manifest) ? 2 : 1;
	pick->sift = pick->target_level == 2 && rose_sift_is_due(tree, true) == ROSE_SIFT_DUE;
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		RosePrivateState state = ROSE_PRIVATE_COMMITTED;

		if (entry->level > pick->target_level)
			break;
		if (entry->flags & ROSE_COMPONENT_PRIVATE)
			state = rose_private_state(tree, entry);
		if (entry->state != ROSE_COMPONENT_LIVE || state == ROSE_PRIVATE_PARTLY)
			pick->ninputs = 0;
		else if (state == ROSE_PRIVATE_COMMITTED)
			pick->inputs[pick->ninputs++] = entry->id;
	}
}

/* What has committed comes out of private runs that cannot be merged as a whole.  REQUIRES: ROSE_LOCK_MERGE. */
static void
split_private_runs(RoseTree *tree)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	RosePickResult *pick = palloc0(sizeof(RosePickResult));
	uint32		ids[ROSE_MAX_COMPONENTS];
	int			n = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].state == ROSE_COMPONENT_LIVE &&
			(manifest->components[i].flags & ROSE_COMPONENT_OWNERS) &&
			rose_private_state(tree, &manifest->components[i]) == ROSE_PRIVATE_PARTLY)
			ids[n++] = manifest->components[i].id;
	for (int i = 0; i < n; i++)
	{
		RoseMerge  *merge;

		pick->merge = true;
		pick->kind = ROSE_PICK_SPLIT;
		pick->ninputs = 1;
		pick->inputs[0] = ids[i];
		merge = rose_merge_begin(tree, pick, false);
		if (merge == NULL)
			continue;
		(void) rose_merge_step(merge, tree, 0);
		rose_merge_end(merge, tree);
	}
	pfree(pick);
}

/*
 * A worker that merges the table ends first, or gives way to us: the lock is
 * waited for before anything is picked.
 */
static void
merge_components(RoseTree *tree, bool alone)
{
	RosePickResult *pick = palloc(sizeof(RosePickResult));
	RoseMerge  *merge;
	LOCKTAG		lock;

	(void) rose_merge_lock(tree, false, &lock);
	rose_settle_private_runs(tree);
	split_private_runs(tree);
	if (alone)
		rose_pin_renew(tree->locator);	/* it has met nothing that is settled only now */
	pick_everything(tree, pick);
	merge = rose_merge_begin(tree, pick, false);
	if (merge != NULL)
	{
		merge->alone = alone;
		(void) rose_merge_step(merge, tree, 0);
		rose_merge_end(merge, tree);
	}
	rose_merge_unlock(&lock, false);
	pfree(pick);
}

void
rose_merge_all(RoseTree *tree, bool alone)
{
	rose_foreign_refuse_change(RelationGetRelationName(tree->rel));
	if (rose_altered_before_commit(tree))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot merge table \"%s\" in a transaction that has altered its columns",
						RelationGetRelationName(tree->rel)),
				 errdetail("If the transaction were rolled back, what it has dropped would be missing."),
				 errhint("Commit first.")));
	if (!rose_spill_has_room(tree))
		merge_components(tree, alone);
	(void) rose_spill(tree, InvalidOid, 0);
	merge_components(tree, alone);
}
