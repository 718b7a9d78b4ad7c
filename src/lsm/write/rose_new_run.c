/*-------------------------------------------------------------------------
 *
 * rose_new_run.c
 *	  A run that a writer has built comes into the manifest.
 *
 * A bulk load and a write past memory both end with a private run of their transaction in
 * front of all components.  It is finished first, which writes and may wait for the disk;
 * publishing it is one switch of the manifest, for which the caller may hold a writing
 * section of C0.  Statistics are told afterwards, outside of it.
 *
 * Locking: that of rose_manifest_apply.  Why the run may come in front is the caller's to
 * know.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/write/rose_new_run.h"

void
rose_new_run_finish(RoseNewRun *run, RoseTree *tree, RoseComponentBuilder *builder,
					uint64 next_seq)
{
	RoseComponentEntryDisk built;

	rose_component_builder_finish(builder, &built);
	run->tree = tree;
	run->edit = palloc0(sizeof(RoseManifestEdit));
	run->entry = rose_edit_add(run->edit, &built);
	run->entry->level = 0;
	run->entry->state = ROSE_COMPONENT_LIVE;
	run->edit->next_seq = next_seq;
}

void
rose_new_run_publish(RoseNewRun *run)
{
	rose_manifest_apply(run->tree->rel, &run->tree->shared->store, run->edit);
}

/* It is published: merges are to know how much has come. */
void
rose_new_run_note(const RoseNewRun *run)
{
	rose_merge_stats_came(&run->tree->shared->merge_stats, run->entry);
}
