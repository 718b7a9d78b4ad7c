/*-------------------------------------------------------------------------
 *
 * rose_merge_kind.c
 *	  The kinds of merges.  See rose_merge_kind.h.
 *
 * What a kind does is in rose_merge_c1.c, rose_merge_pass.c and rose_merge_publish.c;
 * here is which of it belongs to which.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_manifest.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/merge/rose_merge_internal.h"

/* ---- which components are fit ---- */

static bool
is_private(const RoseComponentEntryDisk *entry)
{
	return (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
}

/*
 * A join moves rows to the newest input's place, in front of all that stands between: of
 * what has not committed yet, now that all this is there, nobody else can have written
 * newer versions.
 */
static bool
has_nothing_committed(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	RosePrivateState state;

	if (!is_private(entry))
		return false;
	state = rose_private_state(tree, entry);
	return state == ROSE_PRIVATE_OPEN || state == ROSE_PRIVATE_ABORTED;
}

static bool
has_committed_in_part(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	return is_private(entry) && rose_private_state(tree, entry) == ROSE_PRIVATE_PARTLY;
}

/* ---- is there anything to do? ---- */

static bool
are_several(const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest)
{
	return merge->ninputs >= 2;
}

static bool
always(const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest)
{
	return true;
}

/* ---- the kinds ---- */

static const RoseMergeKind into_c1 =
{
	.compacts = true,
	.is_fit = rose_component_mergeable,
	.has_work = rose_merge_c1_has_work,
	.plan_stride = rose_merge_c1_plan,
	.begin_output = rose_merge_c1_begin_output,
	.output_full = rose_merge_c1_output_full,
	.publish = rose_merge_c1_publish
};

static const RoseMergeKind pass =
{
	.compacts = true,
	.takes_c2 = true,
	.is_fit = rose_component_mergeable,
	.has_work = rose_merge_pass_has_work,
	.plan_stride = rose_merge_pass_plan,
	.output_full = rose_merge_pass_output_full,
	.publish = rose_merge_pass_publish
};

static const RoseMergeKind join =
{
	.keeps_open = true,
	.is_fit = has_nothing_committed,
	.has_work = are_several,
	.plan_stride = rose_merge_plan_whole,
	.publish = rose_merge_publish_joined
};

static const RoseMergeKind split =
{
	.keeps_open = true,
	.compacts = true,
	.is_fit = has_committed_in_part,
	.has_work = always,
	.plan_stride = rose_merge_plan_whole,
	.publish = rose_merge_publish_split
};

const RoseMergeKind *
rose_merge_kind_of(const RosePickResult *pick)
{
	switch (pick->kind)
	{
		case ROSE_PICK_JOIN:
			return &join;
		case ROSE_PICK_SPLIT:
			return &split;
		case ROSE_PICK_MERGE:
			break;
	}
	return pick->target_level == 2 ? &pass : &into_c1;
}
