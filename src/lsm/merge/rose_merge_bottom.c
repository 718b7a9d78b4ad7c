/*-------------------------------------------------------------------------
 *
 * rose_merge_bottom.c
 *	  Does a merge reach the bottom of the tree, and what may its output forget there?
 *
 * Only what stands below nothing may drop tombstones, and forget sequence numbers and
 * transaction ids (rose_forget.h).  Reads a manifest and the horizons; takes no lock.
 *
 * It does not decide on single versions, which is rose_gc.c's, nor drop anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/merge/rose_forget.h"
#include "lsm/merge/rose_merge_internal.h"

static bool
is_input(const RoseMerge *merge, uint32 id)
{
	for (int i = 0; i < merge->ninputs; i++)
		if (merge->inputs[i].entry.id == id)
			return true;
	return false;
}

/*
 * Can it have no older versions of what is left to be merged?  Parts of C1 that the merge
 * has made have other keys: outputs end between keys, and go up.
 */
static bool
is_own(const RoseMerge *merge, const RoseComponentEntryDisk *entry)
{
	for (int i = 0; i < merge->parts.nmade; i++)
		if (merge->parts.made[i] == entry->id)
			return true;
	return is_input(merge, entry->id) || (merge->kind->takes_c2 && entry->level == 2);
}

bool
rose_merge_at_bottom(const RoseMerge *merge, RoseTree *tree)
{
	bool		incomplete = rose_tree_is_incomplete(tree);
	const RoseManifest *manifest = rose_tree_manifest(tree);
	int			newest = 0;

	if (incomplete)
		return false;
	while (newest < manifest->ncomponents &&
		   !is_input(merge, manifest->components[newest].id))
		newest++;
	for (int i = newest; i < manifest->ncomponents; i++)
		if (!is_own(merge, &manifest->components[i]))
			return false;
	return true;
}

/*
 * What an output of these sources may forget: the xid to store, 0 = nothing.  *settled:
 * since when all of them are.
 */
uint64
rose_merge_may_forget(RoseTree *tree, const RoseComponentEntryDisk *const *sources, int nsources,
					  bool bottom, uint64 *settled)
{
	RoseForgetInput input = {.nsources = nsources, .bottom = bottom};
	TransactionId xmin;

	*settled = ROSE_SETTLED_BEFORE_ALL;
	for (int i = 0; i < nsources; i++)
	{
		uint64		since = rose_settled_since(&tree->shared->store, sources[i]->id);

		input.sources[i] = sources[i];
		if (since == ROSE_UNSETTLED || (sources[i]->flags & ROSE_COMPONENT_PRIVATE))
			*settled = ROSE_UNSETTLED;
		else if (*settled != ROSE_UNSETTLED)
			*settled = Max(*settled, since);
	}
	input.settled = *settled;
	/* in this order: who takes a pin after the look at pins has a newer snapshot or counts here */
	input.horizon = rose_horizon_ended(tree->rel);
	input.oldest_pin = rose_pin_oldest(tree->locator, &xmin);
	input.pinned_xmin = TransactionIdIsValid(xmin) ?
		U64FromFullTransactionId(rose_full_xid(xmin)) : 0;
	return rose_forget_xid(&input);
}

bool
rose_merge_could_forget(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	uint64		settled;

	return entry->max_seq != ROSE_SEQ_OLDEST && rose_merge_may_forget(tree, &entry, 1, true, &settled) != 0;
}
