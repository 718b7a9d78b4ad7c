/*-------------------------------------------------------------------------
 *
 * rose_merge_kind.h
 *	  What distinguishes one kind of merge from another, in one place.
 *
 *	into C1		runs, and C1 if it is among them, become one component of level 0 or 1, or a few parts of C1
 *	pass		C1, and sometimes runs, go into C2, piece by piece
 *	join		private runs of which nothing has committed become one
 *	split		a private run of which a part has committed becomes an ordinary one and another private one
 *
 * Everything else (locks, steps, sources, the writing of rows) is the same for all, and
 * asks the kind.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_KIND_H
#define ROSE_MERGE_KIND_H

#include "store/rose_manifest.h"
#include "lsm/merge/rose_merge.h"

typedef enum RoseMergePlanned
{
	ROSE_PLANNED_STRIDE,
	ROSE_PLANNED_NOTHING,		/* there is none left */
	ROSE_PLANNED_LATER			/* another process looks for one just now */
} RoseMergePlanned;

typedef struct RoseMergeKind
{
	/*
	 * Rows of transactions in progress stay rows of a private run, one by one.  Without
	 * that all rows of the inputs have committed or aborted: they may go in batches, and
	 * the merge may reach the bottom of the tree.
	 */
	bool		keeps_open;
	bool		compacts;		/* rows that have committed become an ordinary component */
	bool		takes_c2;		/* the pieces of C2 are merged as well, stride by stride, and are no inputs */

	/* May this component be an input, as it is now? */
	bool		(*is_fit) (RoseTree *tree, const RoseComponentEntryDisk *entry);

	/* Would anything be different after it? */
	bool		(*has_work) (const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest);

	/* Say what the next stride reads, and how large outputs are to be. */
	RoseMergePlanned (*plan_stride) (RoseMerge *merge, RoseTree *tree);

	/* An output is about to be written; NULL: nothing is to be noted. */
	void		(*begin_output) (RoseMerge *merge);

	/* May the output end here, but for the key?  NULL: it has all of its stride. */
	bool		(*output_full) (const RoseMerge *merge);

	/*
	 * The output is complete: switch the manifest.  False: a spill is in the way, or
	 * other strides of the pass come first; try again later.
	 */
	bool		(*publish) (RoseMerge *merge, RoseTree *tree);
} RoseMergeKind;

extern const RoseMergeKind *rose_merge_kind_of(const RosePickResult *pick);

#endif							/* ROSE_MERGE_KIND_H */
