/*-------------------------------------------------------------------------
 *
 * rose_merge.c
 *	  Merges: several components become one, or new pieces of C2.
 *
 * A merge reads its inputs through a merge cursor and writes components. It
 * may run for hours, so it is cut into steps, each in a transaction of its
 * own; between two steps it holds no table lock, no snapshot and no pin.  What
 * keeps it going:
 *
 *	- a lock on ROSE_LOCK_MERGE, held by the session: one process merges a table
 *	- its inputs stay in the manifest, since only merges take live components
 *	out; each step checks
 *	- the owner of its output is listed as being built until it is published
 *	- all its memory, schema included, is its own
 *
 * DROP, TRUNCATE and ALTER do not wait for it: the next step finds another
 * file or another registry entry and gives up.
 *
 * There are four kinds of merges (rose_merge_kind.h).  Those into C1 and passes drop
 * versions that nobody can see and take only committed ones.  Joins and splits go through
 * private runs, row by row, so that transactions of any size and number make few runs.
 *
 * Passes, and merges of all there is, reach the bottom of the tree.  There they forget
 * sequence numbers and transaction ids if all sources of an output allow it
 * (rose_forget.h).
 *
 * All of them work in strides: read what the stride has, write, publish
 * (rose_merge_publish.c).  Only passes have more than one.  Passes and merges into
 * C1 may publish several outputs of one stride.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_region_owner.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_merge_internal.h"

/* ---- lock ---- */

bool
rose_merge_lock(Relation rel, bool keep, LOCKTAG *tag)
{
	SET_LOCKTAG_PAGE(*tag, rel->rd_lockInfo.lockRelId.dbId,
					 rel->rd_lockInfo.lockRelId.relId, ROSE_LOCK_MERGE);
	return LockAcquire(tag, ExclusiveLock, keep, keep) != LOCKACQUIRE_NOT_AVAIL;
}

void
rose_merge_unlock(const LOCKTAG *tag, bool keep)
{
	LockRelease(tag, ExclusiveLock, keep);
}

/* ---- begin ---- */

/*
 * Note the inputs' entries; false if one of them is not what it was when it
 * was picked.  A pass takes C2 along, piece by piece, so that is no input of it.
 *
 * What was picked without the lock holds for that manifest only.  Another process that
 * was merging the table may have published a part of its output since, and have ended
 * before its inputs were used up.  Such a part stands among what was picked, and newer
 * versions must not go past it.
 */
static bool
collect_inputs(RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest,
			   const RosePickResult *pick)
{
	if (pick->version != 0 && pick->version != manifest->version)
		return false;
	for (int i = 0; i < pick->ninputs; i++)
	{
		const RoseComponentEntryDisk *entry = rose_manifest_find(manifest, pick->inputs[i]);

		if (entry == NULL)
			return false;
		if (!merge->kind->is_fit(tree, entry))
			return false;
		if (!merge->kind->takes_c2 || entry->level < 2)
			merge->inputs[merge->ninputs++].entry = *entry;
	}
	return !merge->kind->takes_c2 || rose_merge_pass_possible(manifest);
}

/* A single component that only changes its level need not be rewritten. */
static bool
try_move(RoseMerge *merge, RoseTree *tree)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	const RoseComponentEntryDisk *input = &merge->inputs[0].entry;
	RoseManifestEdit *edit;

	if (merge->ninputs != 1 || input->level == merge->target_level ||
		(input->flags & ROSE_COMPONENT_PRIVATE) || input->ntombstones > 0 ||
		(merge->thorough && !(input->flags & ROSE_COMPONENT_UNIQUE_KEYS)))
		return false;
	if (merge->kind->takes_c2 &&
		(input->id != manifest->components[manifest->ncomponents - 1].id ||
		 (merge->thorough && rose_merge_could_forget(tree, input))))
		return false;
	edit = palloc0(sizeof(RoseManifestEdit));
	rose_edit_update(edit, input)->level = merge->target_level;
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);
	return true;
}

static RoseMerge *
make_merge(RoseTree *tree, const RosePickResult *pick, bool keep)
{
	MemoryContext context = AllocSetContextCreate(keep ? TopMemoryContext : CurrentMemoryContext,
												  "rose merge", ALLOCSET_DEFAULT_SIZES);
	RoseMerge  *merge = MemoryContextAllocZero(context, sizeof(RoseMerge));

	merge->context = context;
	merge->stride.context = AllocSetContextCreate(context, "rose merge stride",
												  ALLOCSET_DEFAULT_SIZES);
	merge->locator = tree->locator;
	merge->incarnation = tree->incarnation;
	merge->keep = keep;
	merge->kind = rose_merge_kind_of(pick);
	merge->target_level = pick->target_level;
	merge->trims = merge->kind->takes_c2;
	merge->thorough = pick->thorough;
	merge->written_by = pick->schema;
	return merge;
}

static void
open_inputs(RoseMerge *merge, RoseTree *tree)
{
	MemoryContext old = MemoryContextSwitchTo(merge->context);

	merge->schema = rose_schema_copy(merge->written_by ? merge->written_by : tree->schema,
									 merge->context);
	merge->strategy = GetAccessStrategy(BAS_BULKREAD);
	for (int i = 0; i < merge->ninputs; i++)
	{
		RoseMergeInput *input = &merge->inputs[i];

		input->component = rose_component_open(tree->rel, merge->schema,
											   &input->entry, merge->context);
		input->from = input->entry.first_ordinal;
		merge->total += input->entry.nrows - input->from;
	}
	merge->written_by = NULL;
	merge->judge = rose_private_judge_create(merge);
	if (merge->kind->takes_c2)
		rose_merge_pass_begin(merge, tree);
	MemoryContextSwitchTo(old);
}

/* A merge that is to be kept while it begins: it has its lock, and no output. */
static RoseMerge *beginning = NULL;

RoseMerge *
rose_merge_begin(RoseTree *tree, const RosePickResult *pick, bool keep)
{
	RoseMerge  *merge = make_merge(tree, pick, keep);
	const RoseManifest *manifest;

	Assert(!tree->shared->other_order);
	if (!rose_merge_lock(tree->rel, keep, &merge->lock))
	{
		MemoryContextDelete(merge->context);
		return NULL;
	}
	if (keep)
		beginning = merge;
	manifest = rose_tree_manifest(tree);
	if (!collect_inputs(merge, tree, manifest, pick) ||
		!merge->kind->has_work(merge, tree, manifest) || try_move(merge, tree))
	{
		beginning = NULL;
		rose_merge_unlock(&merge->lock, keep);
		MemoryContextDelete(merge->context);
		return NULL;
	}
	open_inputs(merge, tree);
	beginning = NULL;
	merge->stats_slot = rose_merge_stats_begin(&tree->shared->merge_stats, merge->target_level);
	ROSE_STOP_POINT("merge-begun");
	return merge;
}

void
rose_merge_begin_failed(void)
{
	if (beginning == NULL)
		return;
	MemoryContextDelete(beginning->context);
	beginning = NULL;
}

/* ---- strides ---- */

static void
open_sources(RoseMerge *merge, RoseTree *tree)
{
	merge->stride.nsources = 0;
	for (int i = 0; i < merge->ninputs; i++)
		if (merge->inputs[i].from < merge->inputs[i].to)
			merge->stride.sources[merge->stride.nsources++] = &merge->inputs[i];
	for (int i = 0; i < merge->stride.npieces; i++)
		merge->stride.sources[merge->stride.nsources++] = &merge->stride.pieces[i];

	merge->stride.cursor = rose_merge_cursor_create(tree->rel, merge->schema, merge->stride.nsources,
													merge->strategy, merge->stride.context);
	merge->stride.nrows = 0;
	merge->stride.nblocks = 0;
	for (int i = 0; i < merge->stride.nsources; i++)
	{
		const RoseMergeInput *source = merge->stride.sources[i];
		uint64		nrows = source->to - source->from;

		rose_merge_cursor_add(merge->stride.cursor, source->component, source->from, source->to);
		merge->stride.nrows += nrows;
		merge->stride.nblocks += (uint64) ((double) source->entry.nblocks * nrows /
										   source->entry.nrows);
	}
}

static void
end_stride(RoseMerge *merge)
{
	merge->stride.active = false;
	merge->stride.cursor = NULL;
	merge->stride.row = NULL;
	merge->stride.npieces = 0;
	MemoryContextReset(merge->stride.context);
}

/* False: there is nothing left to do. */
static bool
begin_stride(RoseMerge *merge, RoseTree *tree)
{
	if (!merge->kind->plan_stride(merge, tree))
		return false;
	open_sources(merge, tree);
	merge->stride.active = true;
	merge->stride.exhausted = false;
	return true;
}

/* ---- steps ---- */

/*
 * An incarnation is never used again, so it stands for the file, too.  The entry may have
 * been evicted and made again while there was no output: what the compactor knows of it
 * is not there any more.
 */
static bool
is_same_file(const RoseMerge *merge, const RoseTree *tree)
{
	return tree->incarnation == merge->incarnation;
}

static void
rebind(RoseMerge *merge, RoseTree *tree)
{
	if (merge->stride.cursor)
		rose_merge_cursor_rebind(merge->stride.cursor, tree->rel);
	if (merge->out.builder)
		rose_component_builder_rebind(merge->out.builder, tree->rel);
	if (merge->out.compactor)
		rose_compactor_rebind(merge->out.compactor, tree->rel);
}

/* Go on with the output at hand, or begin one.  DONE: it is published. */
static RoseMergeProgress
work_on_output(RoseMerge *merge, RoseTree *tree, int budget_ms)
{
	rebind(merge, tree);
	if (!rose_merge_output_is_open(merge))
		rose_merge_output_open(merge, tree);
	if (!merge->out.complete)
	{
		bool		all_read = rose_merge_output_fill(merge, budget_ms);

		rose_merge_stats_progress(&tree->shared->merge_stats, merge->stats_slot,
								  merge->nread, merge->total);
		if (!all_read)
			return ROSE_MERGE_MORE;
		ROSE_STOP_POINT("merge-read");
		rose_merge_output_finish(merge);
		rose_merge_stats_merged(&tree->shared->merge_stats, rose_merge_output_blocks_read(merge),
								merge->out.has_merged ? merge->out.merged.nblocks : 0);
		if (merge->out.compactor)
			rose_merge_stats_missing(&tree->shared->merge_stats,
									 rose_compactor_missing(merge->out.compactor));
		ROSE_STOP_POINT("merge-built");
	}
	if (!merge->kind->publish(merge, tree))
		return ROSE_MERGE_LATER;
	ROSE_STOP_POINT("merge-published");
	rose_merge_output_free(merge);
	if (merge->alone)
		rose_pin_renew(merge->locator);
	return ROSE_MERGE_DONE;
}

/* A step of limited time also ends with an output, so that others get their turn. */
RoseMergeProgress
rose_merge_step(RoseMerge *merge, RoseTree *tree, int budget_ms)
{
	for (;;)
	{
		RoseMergeProgress progress;

		if (!is_same_file(merge, tree) ||
			!rose_merge_sources_unchanged(merge, rose_tree_manifest(tree)))
			return ROSE_MERGE_DONE;
		if (!merge->stride.active && !begin_stride(merge, tree))
			break;
		progress = work_on_output(merge, tree, budget_ms);
		if (progress != ROSE_MERGE_DONE)
			return progress;
		if (merge->stride.exhausted)
			end_stride(merge);
		if (merge->stride.exhausted && !merge->kind->takes_c2)
			break;
		if (budget_ms != 0)
			return ROSE_MERGE_MORE;
	}
	pg_atomic_fetch_add_u64(&tree->shared->merges, 1);
	return ROSE_MERGE_DONE;
}

void
rose_merge_end(RoseMerge *merge, RoseTree *tree)
{
	/* the shared state that lists the output may be gone */
	if (tree == NULL || !is_same_file(merge, tree))
		rose_region_owner_forget(merge->locator);
	else
		rose_merge_stats_end(&tree->shared->merge_stats, merge->stats_slot);
	rose_merge_output_free(merge);
	rose_merge_let_go(merge);
	MemoryContextDelete(merge->context);
}

void
rose_merge_let_go(RoseMerge *merge)
{
	if (!merge->unlocked)
		rose_merge_unlock(&merge->lock, merge->keep);
	merge->unlocked = true;
}

void
rose_merge_lost_lock(RoseMerge *merge)
{
	merge->unlocked = true;
}

bool
rose_merge_lock_again(RoseMerge *merge)
{
	Assert(merge->keep && !merge->unlocked);
	merge->unlocked = LockAcquire(&merge->lock, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL;
	return !merge->unlocked;
}

RelFileLocator
rose_merge_locator(const RoseMerge *merge)
{
	return merge->locator;
}

bool
rose_merge_uses(const RoseMerge *merge, const RoseComponentEntryDisk *entry)
{
	for (int i = 0; i < merge->parts.n; i++)
		if (merge->parts.ids[i] == entry->id)
			return true;
	return rose_merge_is_input(merge, entry->id) || (merge->kind->takes_c2 && entry->level == 2);
}
