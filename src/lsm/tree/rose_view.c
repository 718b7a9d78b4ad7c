/*-------------------------------------------------------------------------
 *
 * rose_view.c
 *	  Views of a tree: memtables, manifest and components as of one moment.
 *
 * The newest view is the tree's cached copy of the manifest: store.manifest_version tells
 * whether it is still right.  It outlives transactions.  A view that was replaced stays
 * while somebody holds it; and what it has opened, if the new manifest does not list it,
 * moves to a memory context that goes at the end of the transaction.
 *
 * A view takes the manifest first from memory, then from the metapage; so a pin is needed
 * from before, and it is told which components the transaction may have met (rose_pin.c).
 *
 * Locking: a reading section of C0, by the caller of rose_view_take; the metapage's lock
 * for reading it.
 *
 * What this does not do: know what is in a memtable, or keep one from being freed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_pin.h"
#include "lsm/tree/rose_view.h"

/* ---- making and replacing ---- */

MemoryContext
rose_view_retired_context(RoseTree *tree)
{
	tree->replaced++;
	if (tree->retired == NULL)
		tree->retired = AllocSetContextCreate(tree->context, "rose retired",
											  ALLOCSET_SMALL_SIZES);
	return tree->retired;
}

static Size
manifest_size(const RoseManifest *manifest)
{
	return offsetof(RoseManifest, components) +
		manifest->ncomponents * sizeof(RoseComponentEntryDisk);
}

static RoseView *
view_create(RoseTree *tree, const RoseManifest *manifest, uint64 seen)
{
	Size		size = MAXALIGN(offsetof(RoseView, manifest) + manifest_size(manifest));
	RoseView   *view = MemoryContextAllocZero(tree->context, size +
											  manifest->ncomponents * sizeof(RoseComponent *));

	tree->grown = true;
	view->tree = tree;
	view->schema = tree->schema;
	view->first_piece = rose_manifest_first_piece(manifest);
	view->seen = seen;
	view->components = (RoseComponent **) ((char *) view + size);
	memcpy(&view->manifest, manifest, manifest_size(manifest));
	return view;
}

/* Index of a component in the view's manifest, or -1. */
static int
find_entry(const RoseView *view, uint32 id)
{
	for (int i = 0; i < view->manifest.ncomponents; i++)
		if (view->manifest.components[i].id == id)
			return i;
	return -1;
}

/*
 * The tree's newest view becomes an old one.  What it has opened goes to its successor,
 * or, if that does not list it, or is NULL, it stays until the end of the transaction.
 */
static void
replace_view(RoseTree *tree, RoseView *view)
{
	RoseView   *old = tree->view;

	if (old != NULL)
	{
		MemoryContext retired = rose_view_retired_context(tree);

		for (int i = 0; i < old->manifest.ncomponents; i++)
		{
			int			at = view == NULL ? -1 : find_entry(view, old->manifest.components[i].id);

			if (old->components[i] == NULL)
				continue;
			if (at >= 0)
				view->components[at] = old->components[i];
			else
				rose_component_retire(old->components[i], retired);
		}
		if (old->refcount > 0 || old->lent)
			dlist_push_head(&tree->old_views, &old->node);
		else
			pfree(old);
	}
	tree->view = view;
}

void
rose_view_forget(RoseTree *tree)
{
	replace_view(tree, NULL);
}

/* The newest view, with the manifest as of now. */
static RoseView *
look(RoseTree *tree)
{
	uint64		seen = pg_atomic_read_u64(&tree->shared->store.manifest_version);
	RoseManifest fresh;

	if (tree->view != NULL && tree->view->seen == seen)
	{
		if (unlikely(tree->looked_in != tree->pinned_in))
			rose_pin_use_cached(tree->locator, tree->view->manifest.newest_owner);
		tree->looked_in = tree->pinned_in;
		return tree->view;
	}

	/*
	 * If it is switched once more after the look at the counter, we read a
	 * newer one than we think, and read it again next time.
	 */
	pg_read_barrier();
	rose_manifest_read(tree->rel, &fresh);
	replace_view(tree, view_create(tree, &fresh, seen));
	tree->looked_in = tree->pinned_in;
	return tree->view;
}

RoseView *
rose_view_glance(RoseTree *tree)
{
	RoseView   *view = look(tree);

	view->lent = true;
	return view;
}

RoseView *
rose_view_present(RoseTree *tree)
{
	tree->kept_in = tree->pinned_in;
	return rose_view_glance(tree);
}

const RoseManifest *
rose_tree_manifest(RoseTree *tree)
{
	return &rose_view_glance(tree)->manifest;
}

bool
rose_view_is_held(RoseTree *tree)
{
	dlist_iter	iter;

	if (tree->kept_in == tree->pinned_in || (tree->view != NULL && tree->view->refcount > 0))
		return true;
	dlist_foreach(iter, &tree->old_views)
	{
		if (dlist_container(RoseView, node, iter.cur)->refcount > 0)
			return true;
	}
	return false;
}

/* ---- memtables ---- */

/* One that is being born may be missed: what is in it is written after the look. */
static void
list_memtables(const RoseC0Shared *c0, uint64 *ids)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		ids[slot] = rose_c0_memtable_id(c0, slot);
}

RoseView *
rose_view_take(RoseTree *tree)
{
	RoseView   *view = look(tree);
	uint64		memtables[ROSE_MAX_MEMTABLES];

	ROSE_STOP_POINT("view-listing");	/* in a reading section */
	list_memtables(&tree->shared->c0, memtables);
	if (memcmp(memtables, view->memtables, sizeof(memtables)) != 0)
	{
		if (view->refcount > 0)
		{
			replace_view(tree, view_create(tree, &view->manifest, view->seen));
			view = tree->view;
		}
		memcpy(view->memtables, memtables, sizeof(memtables));
	}
	view->refcount++;
	return view;
}

void
rose_view_hold(RoseView *view)
{
	Assert(view->refcount > 0);
	view->refcount++;
}

void
rose_view_release(RoseView *view)
{
	Assert(view->refcount > 0);
	if (--view->refcount > 0 || view->lent || view == view->tree->view)
		return;
	dlist_delete(&view->node);
	pfree(view);
}

void
rose_view_end_transaction(RoseTree *tree)
{
	if (tree->view != NULL)
	{
		tree->view->refcount = 0;
		tree->view->lent = false;
	}
	while (!dlist_is_empty(&tree->old_views))
		pfree(dlist_container(RoseView, node, dlist_pop_head_node(&tree->old_views)));
	if (tree->retired != NULL)
		MemoryContextDelete(tree->retired);
	tree->retired = NULL;
}

/* ---- components ---- */

/* One that some view has opened; NULL if none has. */
static RoseComponent *
find_open(RoseTree *tree, const RoseSchema *schema, uint32 id)
{
	dlist_iter	iter;
	int			i;

	if (tree->view != NULL && tree->view->schema == schema &&
		(i = find_entry(tree->view, id)) >= 0 && tree->view->components[i] != NULL)
		return tree->view->components[i];
	dlist_foreach(iter, &tree->old_views)
	{
		RoseView   *view = dlist_container(RoseView, node, iter.cur);

		if (view->schema == schema && (i = find_entry(view, id)) >= 0 &&
			view->components[i] != NULL)
			return view->components[i];
	}
	return NULL;
}

/* What the newest manifest lists stays open beyond the transaction. */
static RoseComponent *
open_component(RoseTree *tree, const RoseSchema *schema, const RoseComponentEntryDisk *entry)
{
	RoseComponent *component = find_open(tree, schema, entry->id);
	int			i = -1;

	if (component != NULL)
		return component;
	tree->grown = true;
	if (tree->view != NULL && tree->view->schema == schema)
		i = find_entry(tree->view, entry->id);
	if (i < 0)
		return rose_component_open(tree->rel, schema, entry, rose_view_retired_context(tree));
	tree->view->components[i] = rose_component_open(tree->rel, schema,
													rose_view_entry(tree->view, i),
													tree->context);
	return tree->view->components[i];
}

RoseComponent *
rose_view_component(RoseView *view, int i)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(view, i);

	if (unlikely(view->components[i] == NULL))
		view->components[i] = open_component(view->tree, view->schema, entry);
	return view->components[i];
}

RoseComponent *
rose_view_component_of(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	return open_component(tree, tree->schema, entry);
}

int
rose_view_find_piece(RoseView *view, const Datum *key, int ncols, bool greater)
{
	int			lo = view->first_piece;
	int			hi = view->manifest.ncomponents;

	while (lo < hi)
	{
		int			middle = (lo + hi) / 2;
		const RoseComponentInfo *info = rose_component_info(rose_view_component(view, middle));
		int			cmp = rose_key_compare(view->schema, info->max_key, key, ncols);

		if (greater ? cmp > 0 : cmp >= 0)
			hi = middle;
		else
			lo = middle + 1;
	}
	return lo;
}
