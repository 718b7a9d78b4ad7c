/*-------------------------------------------------------------------------
 *
 * rose_view.h
 *	  A view of a tree: its memtables and its manifest as of one moment, and the
 *	  components that the manifest lists, opened when somebody needs them.
 *
 * A view does not change.  Whoever reads a tree takes one and keeps to it, so it does not
 * matter to him that the manifest is switched meanwhile: components that the view lists
 * stay readable because the transaction's pin is older than the view.  Of memtables a
 * view knows only which ones there were.  They may be freed at any time, and then the
 * reader takes another view.
 *
 * Views are counted.  The tree keeps the newest one, and who takes a view while nothing
 * has changed gets that one.  What a view has opened is shared with all other views of
 * the tree: a component has one handle, which stays until the end of the transaction even
 * if no view lists it any more, because leaves and cursors refer to it.  After an error
 * views are not given back; the end of the top-level transaction, when nobody can have
 * one, makes up for it.
 *
 * The components of level 2, the pieces, stand at the end of the manifest.  They have
 * disjoint key ranges, in ascending order, so that a key is in one of them at
 * most.  Which one is decided by their greatest keys alone: a piece whose first
 * versions have moved to the piece before it still has its old least key.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VIEW_H
#define ROSE_VIEW_H

#include "lib/ilist.h"

#include "store/rose_manifest.h"
#include "lsm/tree/rose_tree.h"

/* The first fields are for reading. */
typedef struct RoseView
{
	RoseTree   *tree;
	const RoseSchema *schema;	/* that its components are opened with */
	int			first_piece;	/* index of the first component of level 2 */
	uint64		memtables[ROSE_MAX_MEMTABLES];	/* ids by slot; 0 = it was free */

	/* private to rose_view.c */
	int			refcount;		/* of holders; the tree is none */
	bool		lent;			/* also to some who do not count */
	uint64		seen;			/* store.manifest_version from before the manifest was read */
	dlist_node	node;			/* among old views of the tree */
	RoseComponent **components; /* as in the manifest; NULL: not opened by this view yet */

	RoseManifest manifest;		/* for reading; allocated with room for its components only */
} RoseView;

/*
 * The view as of now, held.  REQUIRES a reading section of the tree's C0, which makes
 * memtables and manifest one picture: what leaves a memtable is listed by the manifest
 * before.
 */
extern RoseView *rose_view_take(RoseTree *tree);
extern void rose_view_hold(RoseView *view);
extern void rose_view_release(RoseView *view);

/*
 * For who has no use for memtables: the manifest as of now, and its components.  Good
 * until the end of the transaction, without being held.
 */
extern RoseView *rose_view_present(RoseTree *tree);

/* The same for who is done with the components before the transaction does anything else. */
extern RoseView *rose_view_glance(RoseTree *tree);

/* Does anybody hold a view of the tree, or has rose_view_present been asked for one in this transaction? */
extern bool rose_view_is_held(RoseTree *tree);

static inline const RoseComponentEntryDisk *
rose_view_entry(const RoseView *view, int i)
{
	Assert(i >= 0 && i < view->manifest.ncomponents);
	return &view->manifest.components[i];
}

/* By index in the manifest.  Good until the end of the transaction. */
extern RoseComponent *rose_view_component(RoseView *view, int i);

/* Of this entry of any manifest that the transaction's pin covers.  As above, and as long as the tree's schema. */
extern RoseComponent *rose_view_component_of(RoseTree *tree, const RoseComponentEntryDisk *entry);

/*
 * The first piece that may have a version whose first ncols key columns are equal to
 * key's or greater (greater: only greater), as index in the manifest; the number of
 * components if there is none.  Earlier pieces have none.
 */
extern int	rose_view_find_piece(RoseView *view, const Datum *key, int ncols, bool greater);

/* ---- entries of manifests ---- */

/* Is this component to be read?  Pending ones are in a memtable still. */
static inline bool
rose_component_readable(const RoseComponentEntryDisk *entry)
{
	return entry->state == ROSE_COMPONENT_LIVE ||
		(entry->flags & ROSE_COMPONENT_READ_PENDING) != 0;
}

/* Index of the first component of level 2; the number of components if there is none. */
static inline int
rose_manifest_first_piece(const RoseManifest *manifest)
{
	int			first = manifest->ncomponents;

	while (first > 0 && manifest->components[first - 1].level == 2)
		first--;
	return first;
}

/* ---- for rose_tree.c ---- */

/* The schema has been replaced, or the file: forget the newest view. */
extern void rose_view_forget(RoseTree *tree);

/* The transaction is over: nobody holds a view any more, nor what old views had opened.  Raises no error. */
extern void rose_view_end_transaction(RoseTree *tree);

/* Where things go that the tree has replaced, and that may be in use until the end of the transaction. */
extern MemoryContext rose_view_retired_context(RoseTree *tree);

#endif							/* ROSE_VIEW_H */
