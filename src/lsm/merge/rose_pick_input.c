/*-------------------------------------------------------------------------
 *
 * rose_pick_input.c
 *	  What the picker is given: a table's manifest and the state around it.
 *
 * So that the picker can be a pure function, everything that it goes by is read here,
 * without locks: sizes, states of private runs, the horizon, C0's share.  What is merged
 * is decided by rose_picker.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_memtable.h"
#include "store/rose_manifest.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/merge/rose_backlog.h"
#include "lsm/merge/rose_picker.h"
#include "lsm/merge/rose_tidy.h"

static RosePickPartly
partly(const RosePrivateOwners *owners)
{
	return owners->ncommitted + owners->naborted >= owners->nopen ? ROSE_PICK_HALF : ROSE_PICK_PARTLY;
}

/*
 * The manifest comes first: what is found to be in progress then was so when all of these
 * components were there already.
 */
void
rose_pick_input(RoseTree *tree, RosePickInput *input, RosePickFlags *flags)
{
	bool		incomplete = rose_tree_is_incomplete(tree);
	const RoseManifest *manifest = rose_tree_manifest(tree);

	memset(input, 0, sizeof(*input));
	memset(flags, 0, sizeof(*flags));
	input->incomplete = incomplete;
	input->c0_size = rose_pick_c0_size(tree->local);
	input->ncomponents = manifest->ncomponents;
	input->components = manifest->components;
	input->blocked = flags->blocked;
	input->partly = flags->partly;
	input->horizon = rose_horizon_oldest(tree->rel);
	input->min_ratio = ROSE_PICK_MIN_RATIO;
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];
		RosePrivateOwners owners;
		RosePrivateState state;

		flags->blocked[i] = entry->state != ROSE_COMPONENT_LIVE;
		if ((entry->flags & ROSE_COMPONENT_PRIVATE) == 0)
			continue;
		state = rose_private_owners(tree, entry, &owners);
		flags->blocked[i] = flags->blocked[i] || state != ROSE_PRIVATE_COMMITTED;
		if (state == ROSE_PRIVATE_PARTLY)
			flags->partly[i] = partly(&owners);
	}
}
