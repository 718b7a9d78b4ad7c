/*-------------------------------------------------------------------------
 *
 * rose_merge_publish.c
 *	  How the output of a merge gets into the manifest.
 *
 * A stride of a merge ends with one edit of the manifest: what it has built comes in,
 * what it has read goes out, or is trimmed to what is left of it.  Outputs are made
 * durable before.  In a kept merge, a worker's, others may have changed the manifest
 * since the stride began; ids say what is meant, and an input that has gone ends the
 * merge.
 *
 * Locking: ROSE_LOCK_MERGE of the table, held by the merge, and its claims, which keep
 * others from its sources; the metapage's lock in rose_manifest_apply.
 *
 * What this does not do: choose inputs (rose_picker.c) or write rows
 * (rose_merge_output.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_settled.h"
#include "store/rose_shed.h"
#include "lsm/merge/rose_merge_internal.h"

const RoseComponentEntryDisk *
rose_manifest_find(const RoseManifest *manifest, uint32 id)
{
	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].id == id)
			return &manifest->components[i];
	return NULL;
}

/* An input that was used up has left the manifest. */
static bool
is_gone(const RoseMerge *merge, const RoseMergeInput *input)
{
	return merge->trims && input->from == input->entry.nrows;
}

/*
 * What has been trimmed is what this merge has published.  Another process may have
 * merged the table for a while after an error had cost this one its lock.
 */
static bool
is_unchanged(const RoseMergeInput *input, const RoseManifest *manifest)
{
	const RoseComponentEntryDisk *entry = rose_manifest_find(manifest, input->entry.id);

	return entry != NULL && entry->state == input->entry.state &&
		entry->epoch == input->entry.epoch && entry->first_ordinal == input->from;
}

/*
 * Is what a stride of a pass reads of this input where it was?  Other processes may have
 * strides before it that are not published yet.
 */
static bool
is_still_there(const RoseMerge *merge, const RoseMergeInput *input, const RoseManifest *manifest)
{
	const RoseComponentEntryDisk *entry;

	if (!merge->stride.active || input->from == input->to)
		return true;
	entry = rose_manifest_find(manifest, input->entry.id);
	return entry != NULL && entry->state == input->entry.state &&
		entry->first_ordinal <= input->from;
}

static bool
is_input_unchanged(const RoseMerge *merge, const RoseMergeInput *input, const RoseManifest *manifest)
{
	if (merge->kind->takes_c2)
		return is_still_there(merge, input, manifest);
	return is_gone(merge, input) || is_unchanged(input, manifest);
}

bool
rose_merge_sources_unchanged(const RoseMerge *merge, const RoseManifest *manifest)
{
	for (int i = 0; i < merge->ninputs; i++)
		if (!is_input_unchanged(merge, &merge->inputs[i], manifest))
			return false;
	for (int i = 0; merge->stride.active && i < merge->stride.npieces; i++)
		if (!is_gone(merge, &merge->stride.pieces[i]) && !is_unchanged(&merge->stride.pieces[i], manifest))
			return false;
	return true;
}

static void
remove_inputs(const RoseMerge *merge, RoseManifestEdit *edit)
{
	for (int i = 0; i < merge->ninputs; i++)
		rose_edit_remove(edit, merge->inputs[i].entry.id);
}

static void
add_live(const RoseMerge *merge, RoseManifestEdit *edit, const RoseComponentEntryDisk *built)
{
	RoseComponentEntryDisk *entry = rose_edit_add(edit, built);

	entry->level = merge->target_level;
	entry->state = ROSE_COMPONENT_LIVE;
}

static void
add_output(const RoseMerge *merge, RoseManifestEdit *edit)
{
	if (!merge->out.has_merged)
		return;
	add_live(merge, edit, &merge->out.merged);
	edit->settled = merge->out.settled;
}

void
rose_merge_publish_whole(RoseMerge *merge, RoseTree *tree)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	remove_inputs(merge, edit);
	add_output(merge, edit);
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);
}

/* Nobody has made an ordinary run of a private one meanwhile, or dropped it. */
static bool
are_still_private(const RoseMerge *merge, const RoseManifest *manifest)
{
	for (int i = 0; i < merge->ninputs; i++)
	{
		const RoseComponentEntryDisk *entry = rose_manifest_find(manifest,
																 merge->inputs[i].entry.id);

		if (entry == NULL || (entry->flags & ROSE_COMPONENT_PRIVATE) == 0)
			return false;
	}
	return rose_merge_sources_unchanged(merge, manifest);
}

/*
 * The joined private run must come before all runs that may have an older version of one
 * of its keys, and after those that may have a newer one.  When the join began, nothing
 * of it was committed: so newer versions are only in runs that have come in front since,
 * and, of the same transactions, in private runs in front of the newest input.  It takes
 * the place of that one.  What was rolled back since is in the run as well, and may stand
 * in front of newer versions then: no reader takes any order from it.
 */
static void
switch_joined(RoseMerge *merge, RoseTree *tree)
{
	const RoseComponentEntryDisk *input = &merge->inputs[0].entry;
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	remove_inputs(merge, edit);
	if (merge->out.has_merged)
	{
		RoseComponentEntryDisk *output = rose_edit_add(edit, &merge->out.merged);

		output->level = 0;
		output->state = input->state;
		output->flags |= input->flags & ROSE_COMPONENT_READ_PENDING;
		output->subid = input->subid;
		output->epoch = input->epoch;
		edit->add_behind = ROSE_ADD_AT_NEWEST;
	}
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);
}

/* Both outputs take the input's place, what is in progress in front: it is newer than what is committed. */
static void
switch_split(RoseMerge *merge, RoseTree *tree)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	remove_inputs(merge, edit);
	if (merge->out.has_open)
		add_live(merge, edit, &merge->out.open);
	if (merge->out.has_merged)
		add_live(merge, edit, &merge->out.merged);
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	if (merge->out.has_merged)
		rose_settled_all(tree->rel, &tree->shared->store);
	pfree(edit);
}

/*
 * Spills are kept out, and others who look after private runs.  A spill may take its
 * time, and who waits for a worker's would have it cancelled: so a merge that goes on in
 * steps comes back later.
 */
static bool
publish_private(RoseMerge *merge, RoseTree *tree,
				void (*switch_manifest) (RoseMerge *, RoseTree *))
{
	RoseManifest *manifest;

	if (!merge->keep)
		LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	else if (!ConditionalLockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock))
		return false;
	manifest = palloc(sizeof(RoseManifest));
	rose_manifest_read(tree->rel, manifest);
	ROSE_STOP_POINT("private-judging"); /* no LWLock */
	if (are_still_private(merge, manifest))
		switch_manifest(merge, tree);
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	pfree(manifest);
	return true;
}

bool
rose_merge_publish_joined(RoseMerge *merge, RoseTree *tree)
{
	return publish_private(merge, tree, switch_joined);
}

bool
rose_merge_publish_split(RoseMerge *merge, RoseTree *tree)
{
	return publish_private(merge, tree, switch_split);
}

/* ---- one output of several ---- */

/* What comes before this ordinal of the source is in the outputs, or garbage. */
static uint64
source_position(const RoseMerge *merge, int source)
{
	return rose_merge_cursor_ordinal(merge->stride.cursor, source);
}

/*
 * The oldest source that is left.  The first part of C1 goes to its place even if it has
 * none of its versions: the next ones, which follow, may have, and must come to lie
 * behind all that the merge goes past.
 */
static int
oldest_source_left(const RoseMerge *merge)
{
	int			oldest = merge->stride.nsources - 1;

	while (oldest >= 0 && merge->stride.sources[oldest]->from == merge->stride.sources[oldest]->entry.nrows)
		oldest--;
	return oldest;
}

/* What goes out of the sources, and what those that are left shed. */
static void
edit_sources(const RoseMerge *merge, RoseTree *tree, int place, RoseManifestEdit *edit, List **sheds)
{
	for (int i = 0; i < merge->stride.nsources; i++)
	{
		const RoseMergeInput *source = merge->stride.sources[i];
		uint64		position = source_position(merge, i);

		if (source->from == source->entry.nrows)
			continue;			/* removed when an earlier part was published */
		if (position == source->entry.nrows)
		{
			rose_edit_remove(edit, source->entry.id);
			continue;
		}
		if (position > source->from || i == place)
			rose_edit_trim(edit, source->entry.id, position);
		if (position > source->from && (source->entry.flags & ROSE_COMPONENT_SHRINKS))
			*sheds = lappend(*sheds, rose_component_find_shed(source->component, tree->rel,
															  source->from, position));
	}
}

/* The first part of C1 has no key in common with its oldest input once that is trimmed; the next ones follow it. */
void
rose_merge_publish_part(RoseMerge *merge, RoseTree *tree, uint32 behind)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));
	int			place = behind == 0 && merge->last_output == 0 ? oldest_source_left(merge) : -1;
	List	   *sheds = NIL;
	ListCell   *lc;

	edit_sources(merge, tree, place, edit, &sheds);
	add_output(merge, edit);
	edit->add_behind = merge->last_output != 0 ? merge->last_output : behind;
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);

	for (int i = 0; i < merge->stride.nsources; i++)
		merge->stride.sources[i]->from = source_position(merge, i);
	if (merge->out.has_merged)
		merge->last_output = merge->out.merged.id;
	/* spills have made more components since this was planned: what is left becomes one */
	if (rose_tree_manifest(tree)->ncomponents > ROSE_MERGE_MOST_COMPONENTS)
		merge->stride.cut_rows = merge->stride.least_rows = PG_UINT64_MAX;

	/* the part is published: what fails from here on costs room only, until the sources go */
	ROSE_STOP_POINT("merge-trimmed");
	foreach(lc, sheds)
		rose_shed_hand_over(tree->rel, &tree->shared->store, lfirst(lc));
	if (sheds != NIL)
		ROSE_STOP_POINT("merge-shed");
}
