/*-------------------------------------------------------------------------
 *
 * rose_empty.c
 *	  A temporary table loses its rows, in place: ON COMMIT DELETE ROWS.
 *
 * First memory, then the manifest in one switch, then the file behind the metapage.  An
 * error in between leaves a table of fewer rows, whose transaction fails.  Numbers go on,
 * so that no name of an old row or component comes back.  Where there is nothing, nothing
 * is done: core asks for this at the end of each transaction that has touched some
 * temporary table.
 *
 * What is cut off may be kept for the transaction's own pin; its end is at hand.
 *
 * Locking: what the steps take.  The table is the session's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_manifest.h"
#include "store/rose_space.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_empty.h"

static void
empty_c0(RoseC0Shared *c0)
{
	if (!rose_c0_has_memtables(c0))
		return;
	rose_c0_write_begin(c0);
	rose_c0_clear(c0);
	rose_c0_write_end(c0);
}

static void
empty_manifest(RoseTree *tree)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	RoseManifestEdit *edit;

	if (manifest->ncomponents == 0)
		return;
	edit = palloc0(sizeof(RoseManifestEdit));
	for (int i = 0; i < manifest->ncomponents; i++)
		rose_edit_remove(edit, manifest->components[i].id);
	edit->next_seq = rose_c0_next_sequence(&tree->shared->c0);
	rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);
}

void
rose_empty_local(RoseTree *tree)
{
	Assert(tree->local);
	empty_c0(&tree->shared->c0);
	empty_manifest(tree);
	rose_space_cut_all(tree->rel, &tree->shared->store);
}
