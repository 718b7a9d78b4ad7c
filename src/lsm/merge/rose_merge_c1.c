/*-------------------------------------------------------------------------
 *
 * rose_merge_c1.c
 *	  Merges into C1, or among runs: one stride over all inputs, into one component or a few parts of C1.
 *
 * A merge into C1 needs as much space as it makes before it can free its inputs, so a
 * large one makes several components, with disjoint key ranges.  Each is published as
 * soon as it is complete: what it has is trimmed off the inputs, and an old part of C1
 * leaves the manifest when it is read to its end.
 *
 * Locking: none of its own; see rose_merge.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "lsm/merge/rose_merge_internal.h"

bool
rose_merge_c1_has_work(const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest)
{
	const RoseComponentEntryDisk *input = &merge->inputs[0].entry;

	if (merge->ninputs != 1)
		return merge->ninputs > 1;
	return input->level != merge->target_level || input->ntombstones > 0 ||
		(input->flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0 ||
		(input->flags & ROSE_COMPONENT_PRIVATE) != 0;
}

/* ---- the stride ---- */

/* How many components should it make? */
static int
count_parts(const RoseMerge *merge, const RoseManifest *manifest)
{
	uint64		nblocks = 0;
	uint64		n;

	if (merge->target_level != 1 || merge->ninputs < 2 ||
		manifest->ncomponents >= ROSE_MERGE_MOST_COMPONENTS)
		return 1;
	for (int i = 0; i < merge->ninputs; i++)
		nblocks += rose_component_rest(&merge->inputs[i].entry, merge->inputs[i].entry.nblocks);
	n = Min(nblocks * BLCKSZ / (rose_merge_least_piece() / 2),
			(uint64) (ROSE_MERGE_MOST_COMPONENTS - manifest->ncomponents));
	return (int) Max(1, Min(n, ROSE_MERGE_MAX_PARTS));
}

RoseMergePlanned
rose_merge_plan_whole(RoseMerge *merge, RoseTree *tree)
{
	for (int i = 0; i < merge->ninputs; i++)
		merge->inputs[i].to = merge->inputs[i].entry.nrows;
	merge->stride.expected_rows = merge->total + 1;
	return ROSE_PLANNED_STRIDE;
}

RoseMergePlanned
rose_merge_c1_plan(RoseMerge *merge, RoseTree *tree)
{
	int			nparts = count_parts(merge, rose_tree_manifest(tree));

	(void) rose_merge_plan_whole(merge, tree);
	merge->trims = nparts > 1;
	merge->stride.expected_rows = merge->total / nparts + 1;
	merge->stride.cut_rows = merge->stride.least_rows = PG_UINT64_MAX;
	if (merge->trims)
	{
		merge->stride.cut_rows = merge->stride.expected_rows * 5 / 4;
		merge->stride.least_rows = merge->stride.expected_rows * 3 / 4;
	}
	return ROSE_PLANNED_STRIDE;
}

/* ---- outputs ---- */

/*
 * Note the old part of C1 that ends first, if it has another one behind it: the last part
 * is no use, it ends where everything does.
 */
void
rose_merge_c1_begin_output(RoseMerge *merge)
{
	int			first = -1;

	merge->parts.old = -1;
	for (int i = 0; i < merge->stride.nsources; i++)
	{
		const RoseMergeInput *source = merge->stride.sources[i];

		if (source->entry.level != merge->target_level || source->from == source->to)
			continue;
		if (first >= 0)
		{
			merge->parts.old = first;
			return;
		}
		first = i;
	}
}

/*
 * Outputs end where an old part of C1 ends if they can: it is freed then.  Not with next
 * to nothing left for another one.
 */
bool
rose_merge_c1_output_full(const RoseMerge *merge)
{
	const RoseMergeStride *stride = &merge->stride;
	int			old = merge->parts.old;

	if (merge->out.nread < stride->least_rows ||
		merge->total - merge->nread < stride->least_rows / 2)
		return false;
	return merge->out.nread >= stride->cut_rows ||
		(old >= 0 &&
		 rose_merge_cursor_ordinal(stride->cursor, old) == stride->sources[old]->to);
}

bool
rose_merge_c1_publish(RoseMerge *merge, RoseTree *tree)
{
	ROSE_STOP_POINT("c1-publishing");
	if (!merge->trims)
	{
		rose_merge_publish_whole(merge, tree);
		return true;
	}
	/* before anybody can see it: the next part goes behind it */
	if (merge->keep && merge->out.has_merged &&
		!rose_claims_add(&tree->shared->claims, &merge->ticket, merge->out.merged.id))
		elog(ERROR, "too many components of table \"%s\" are claimed by merges",
			 RelationGetRelationName(tree->rel));
	rose_merge_publish_part(merge, tree, 0);
	if (merge->out.has_merged)
	{
		/* each part but the last one reads three quarters of its share */
		Assert(merge->parts.nmade < lengthof(merge->parts.made));
		merge->parts.made[merge->parts.nmade++] = merge->out.merged.id;
	}
	return true;
}
