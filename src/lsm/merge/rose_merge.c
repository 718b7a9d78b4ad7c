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
 *	- a lock on ROSE_LOCK_MERGE, held by the session: workers share it, and who wants to
 *	merge all there is has it alone
 *	- its claim on its inputs (rose_claims.h), which keeps other workers off them; so they
 *	stay in the manifest, since only merges take live components out; each step checks
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
 * (rose_merge_publish.c).  Only passes have more than one, and several processes may have
 * one each (rose_merge_help).  Passes and merges into C1 may publish several outputs of
 * one stride.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_region_owner.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_merge_internal.h"

/* ---- lock ---- */

static LOCKMODE
lock_mode(bool keep)
{
	return keep ? ShareLock : ExclusiveLock;
}

static void
set_lock_tag(LOCKTAG *tag, const RoseTree *tree)
{
	SET_LOCKTAG_PAGE(*tag, tree->rel->rd_lockInfo.lockRelId.dbId,
					 tree->rel->rd_lockInfo.lockRelId.relId, ROSE_LOCK_MERGE);
}

bool
rose_merge_lock(RoseTree *tree, bool keep, LOCKTAG *tag)
{
	set_lock_tag(tag, tree);
	if (LockAcquire(tag, lock_mode(keep), keep, keep) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (!keep)
		rose_claims_drop(&tree->shared->claims);
	return true;
}

void
rose_merge_unlock(const LOCKTAG *tag, bool keep)
{
	LockRelease(tag, lock_mode(keep), keep);
}

bool
rose_merge_has_waiters(const RoseMerge *merge)
{
	return merge->keep && !merge->unlocked && LockHasWaiters(&merge->lock, lock_mode(true), true);
}

/*
 * Does somebody wait who wants the table for himself?  Core cancels one worker for him,
 * after deadlock_timeout; the others give way by themselves.
 */
static bool
must_give_way(RoseMerge *merge)
{
	TimestampTz now;

	if (!rose_merge_has_waiters(merge))
	{
		merge->unwanted_since = 0;
		return false;
	}
	now = GetCurrentTimestamp();
	if (merge->unwanted_since == 0)
		merge->unwanted_since = now;
	return TimestampDifferenceExceeds(merge->unwanted_since, now, 2 * DeadlockTimeout);
}

bool
rose_merge_give_way(RoseMerge *merge)
{
	if (merge->unlocked || !must_give_way(merge))
		return false;
	rose_merge_unlock(&merge->lock, true);
	merge->unlocked = true;
	return true;
}

bool
rose_merge_is_wanted_alone(RoseTree *tree)
{
	LOCKMODE	mode = lock_mode(true);
	LOCKTAG		tag;
	bool		wanted;

	set_lock_tag(&tag, tree);
	if (LockAcquire(&tag, mode, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	wanted = LockHasWaiters(&tag, mode, false);
	LockRelease(&tag, mode, false);
	return wanted;
}

/*
 * What was picked is claimed, unless others have claimed anything since.  The manifest
 * may have changed as well: that is looked at when the claim stands, so that it cannot
 * change between.
 */
static bool
claim_inputs(RoseMerge *merge, RoseTree *tree, const RosePickResult *pick)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	uint32		ids[ROSE_MAX_COMPONENTS];
	int			n = 0;

	merge->ticket.begun = manifest->newest_owner;
	if (!merge->keep)
		return true;
	for (int i = 0; i < pick->ninputs; i++)
	{
		const RoseComponentEntryDisk *entry = rose_manifest_find(manifest, pick->inputs[i]);

		if (entry != NULL && (!merge->kind->takes_c2 || entry->level < 2))
			ids[n++] = entry->id;
	}
	return rose_claims_begin(&tree->shared->claims, pick->claims, ids, n, merge->kind->takes_c2,
							 manifest->newest_owner, &merge->ticket);
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
end_stride(RoseMerge *merge, RoseTree *tree, bool published)
{
	if (rose_merge_is_shared(merge))
		rose_claims_end_stride(&tree->shared->claims, &merge->ticket, published);
	merge->stride.active = false;
	merge->stride.cursor = NULL;
	merge->stride.row = NULL;
	merge->stride.npieces = 0;
	MemoryContextReset(merge->stride.context);
}

static RoseMergePlanned
begin_stride(RoseMerge *merge, RoseTree *tree)
{
	RoseMergePlanned planned = merge->kind->plan_stride(merge, tree);

	if (planned != ROSE_PLANNED_STRIDE)
		return planned;
	open_sources(merge, tree);
	merge->stride.active = true;
	merge->stride.exhausted = false;
	return planned;
}

/* It can never be published, for what comes before it was not. */
static void
drop_stride(RoseMerge *merge, RoseTree *tree)
{
	merge->nread -= merge->out.nread;
	rose_merge_output_free(merge);
	end_stride(merge, tree, false);
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

	if (merge->ninputs != 1 || input->level == merge->target_level || merge->sift != NULL ||
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
	if (pick->sift && rose_sift_hook != NULL)
		merge->sift = rose_sift_create(context);
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

/* REQUIRES: it is claimed. */
static bool
prepare_merge(RoseMerge *merge, RoseTree *tree, const RosePickResult *pick)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);

	if (!collect_inputs(merge, tree, manifest, pick) ||
		!merge->kind->has_work(merge, tree, manifest) || try_move(merge, tree))
		return false;
	open_inputs(merge, tree);
	ROSE_STOP_POINT("merge-begun");
	return true;
}

/* The pass of which it is a hand; false: it has no stride left. */
static bool
prepare_help(RoseMerge *merge, RoseTree *tree, const uint32 *ids, int nids)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);

	for (int i = 0; i < manifest->ncomponents; i++)
		for (int j = 0; j < nids; j++)
			if (manifest->components[i].id == ids[j] && manifest->components[i].level < 2)
				merge->inputs[merge->ninputs++].entry = manifest->components[i];
	open_inputs(merge, tree);
	if (begin_stride(merge, tree) != ROSE_PLANNED_STRIDE)
		return false;
	ROSE_STOP_POINT("merge-helps");
	return true;
}

/* The lock is held; ids: of the pass to help with, or NULL. */
static RoseMerge *
prepare_or_end(RoseMerge *merge, RoseTree *tree, const RosePickResult *pick, const uint32 *ids, int nids)
{
	bool		prepared;

	beginning = merge->keep ? merge : NULL;
	PG_TRY();
	{
		prepared = ids != NULL ? prepare_help(merge, tree, ids, nids) :
			claim_inputs(merge, tree, pick) && prepare_merge(merge, tree, pick);
	}
	PG_CATCH();
	{
		if (merge->keep)
			rose_claims_end(&tree->shared->claims, &merge->ticket);
		PG_RE_THROW();
	}
	PG_END_TRY();
	beginning = NULL;
	if (prepared)
		return merge;
	if (merge->keep)
		rose_claims_end(&tree->shared->claims, &merge->ticket);
	rose_merge_unlock(&merge->lock, merge->keep);
	MemoryContextDelete(merge->context);
	return NULL;
}

RoseMerge *
rose_merge_begin(RoseTree *tree, const RosePickResult *pick, bool keep)
{
	RoseMerge  *merge = make_merge(tree, pick, keep);

	Assert(!tree->shared->other_order);
	if (!rose_merge_lock(tree, keep, &merge->lock))
	{
		MemoryContextDelete(merge->context);
		return NULL;
	}
	merge = prepare_or_end(merge, tree, pick, NULL, 0);
	if (merge == NULL)
		return NULL;
	merge->stats_slot = rose_merge_stats_begin(&tree->shared->merge_stats, merge->target_level);
	return merge;
}

void
rose_merge_open(RoseMerge *merge, RoseTree *tree)
{
	Assert(rose_merge_is_shared(merge));
	rose_claims_open(&tree->shared->claims, &merge->ticket);
}

RoseMerge *
rose_merge_help(RoseTree *tree)
{
	RosePickResult *pick = palloc0(sizeof(RosePickResult));
	uint32		ids[ROSE_CLAIM_IDS];
	int			nids;
	RoseMerge  *merge;

	Assert(!tree->shared->other_order);
	pick->target_level = 2;
	merge = make_merge(tree, pick, true);
	pfree(pick);
	merge->helps = true;
	merge->stats_slot = -1;
	if (!rose_merge_lock(tree, true, &merge->lock))
	{
		MemoryContextDelete(merge->context);
		return NULL;
	}
	if (!rose_claims_join(&tree->shared->claims, &merge->ticket, ids, &nids))
	{
		rose_merge_unlock(&merge->lock, true);
		MemoryContextDelete(merge->context);
		return NULL;
	}
	return prepare_or_end(merge, tree, NULL, ids, nids);
}

void
rose_merge_begin_failed(void)
{
	if (beginning == NULL)
		return;
	MemoryContextDelete(beginning->context);
	beginning = NULL;
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
		return merge->kind->takes_c2 ? ROSE_MERGE_IN_TURN : ROSE_MERGE_LATER;
	ROSE_STOP_POINT("merge-published");
	if (merge->helps)
		rose_merge_stats_helped(&tree->shared->merge_stats, merge->out.nread);
	rose_merge_output_free(merge);
	if (merge->alone)
		rose_pin_renew(merge->locator);
	return ROSE_MERGE_DONE;
}

/* Its file, claims and sources are still its own. */
static bool
may_go_on(RoseMerge *merge, RoseTree *tree)
{
	if (!is_same_file(merge, tree) || must_give_way(merge) ||
		(merge->keep && !rose_claims_hold(&tree->shared->claims, &merge->ticket)))
		return false;
	if (merge->stride.active && rose_merge_is_shared(merge) &&
		rose_claims_turn(&tree->shared->claims, &merge->ticket) == ROSE_STRIDE_BROKEN)
		drop_stride(merge, tree);
	return rose_merge_sources_unchanged(merge, rose_tree_manifest(tree));
}

/* Before it has come to its end. */
static void
end_sift(RoseMerge *merge, RoseTree *tree)
{
	if (merge->sift->progress == ROSE_SIFT_FAILED)
		rose_sift_in_vain(merge->sift, tree);
	else
		rose_sift_give_up(merge->sift, tree);
	merge->sift = NULL;
}

/*
 * Before the first stride of a pass that sifts the index's table is read: false if that has not come to its end.
 * If it cannot be read, a worker's pass ends, and what is due without it is picked; rose.merge() goes on.
 */
static bool
may_begin_strides(RoseMerge *merge, RoseTree *tree, int budget_ms, RoseMergeProgress *progress)
{
	if (merge->sift == NULL || merge->sift->progress == ROSE_SIFT_READY)
		return true;
	rose_sift_hook(merge->sift, tree, budget_ms);
	if (merge->sift->progress == ROSE_SIFT_MORE)
	{
		ROSE_STOP_POINT("merge-sift-reads");	/* the table is locked to the step's end */
		*progress = ROSE_MERGE_MORE;
		return false;
	}
	*progress = ROSE_MERGE_DONE;
	if (merge->sift->progress != ROSE_SIFT_READY)
	{
		merge->sift->in_step = false;	/* it is no error */
		end_sift(merge, tree);
		if (budget_ms != 0)
			return false;
	}
	ROSE_STOP_POINT("merge-sifts");
	return true;
}

/* A step of limited time also ends with an output, so that others get their turn. */
static RoseMergeProgress
work(RoseMerge *merge, RoseTree *tree, int budget_ms)
{
	for (;;)
	{
		RoseMergePlanned planned = ROSE_PLANNED_STRIDE;
		RoseMergeProgress progress;

		if (!may_go_on(merge, tree))
			return ROSE_MERGE_DONE;
		if (!may_begin_strides(merge, tree, budget_ms, &progress))
			return progress;
		if (!merge->stride.active)
			planned = begin_stride(merge, tree);
		if (planned == ROSE_PLANNED_LATER)
			return ROSE_MERGE_IN_TURN;
		if (planned == ROSE_PLANNED_NOTHING)
			break;
		progress = work_on_output(merge, tree, budget_ms);
		if (progress != ROSE_MERGE_DONE)
			return progress;
		if (merge->stride.exhausted)
			end_stride(merge, tree, true);
		if (merge->stride.exhausted && !merge->kind->takes_c2)
			break;
		if (budget_ms != 0)
			return ROSE_MERGE_MORE;
	}
	if (!merge->helps)
		pg_atomic_fetch_add_u64(&tree->shared->merges, 1);
	if (merge->sift != NULL)
		rose_sift_end(merge->sift, tree);
	merge->sift = NULL;
	return ROSE_MERGE_DONE;
}

RoseMergeProgress
rose_merge_step(RoseMerge *merge, RoseTree *tree, int budget_ms)
{
	RoseMergeProgress progress;

	if (merge->sift != NULL)
		merge->sift->in_step = true;
	progress = work(merge, tree, budget_ms);
	if (merge->sift != NULL)
		merge->sift->in_step = false;
	return progress;
}

void
rose_merge_end(RoseMerge *merge, RoseTree *tree)
{
	/* the shared state that lists the output may be gone */
	if (tree == NULL || !is_same_file(merge, tree))
		rose_region_owner_forget(merge->locator);
	else
	{
		rose_merge_stats_end(&tree->shared->merge_stats, merge->stats_slot);
		if (merge->sift != NULL)
			end_sift(merge, tree);
		if (merge->keep)
			rose_claims_end(&tree->shared->claims, &merge->ticket);
	}
	rose_merge_output_free(merge);
	if (!merge->unlocked)
		rose_merge_unlock(&merge->lock, merge->keep);
	MemoryContextDelete(merge->context);
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
	merge->unlocked = LockAcquire(&merge->lock, lock_mode(true), true, true) == LOCKACQUIRE_NOT_AVAIL;
	return !merge->unlocked;
}

RelFileLocator
rose_merge_locator(const RoseMerge *merge)
{
	return merge->locator;
}
