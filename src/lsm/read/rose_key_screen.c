/*-------------------------------------------------------------------------
 *
 * rose_key_screen.c
 *	  Which of many keys may be in a table?  See rose_key_screen.h.
 *
 * Memtables come first, and a view is taken before the reading section of C0
 * ends: what leaves a memtable after the look is in a component that the view lists.
 *
 * A false alarm costs a look at the key; a key that is there is never denied.  Row locks
 * and rows of aborted transactions count as being there, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_key_screen.h"

/* The keys that a component's range and filter do not rule out. */
static void
screen_component(RoseTree *tree, RoseComponent *component, const Datum *const *keys,
				 const uint64 *prefixes, const uint64 *hashes, int n, bool *maybe)
{
	const RoseComponentInfo *info = rose_component_info(component);
	uint64		least = rose_key_prefix(tree->schema, info->min_key);
	uint64		greatest = rose_key_prefix(tree->schema, info->max_key);
	int			which[ROSE_SCREEN_MAX];
	int			nleft = 0;

	for (int i = 0; i < n; i++)
	{
		which[nleft] = i;
		nleft += !maybe[i] && prefixes[i] >= least && prefixes[i] <= greatest;
	}
	if (nleft > 0)
		rose_filter_ask_many(component, tree->rel, keys, hashes, which, nleft, maybe);
}

void
rose_key_screen(RoseTree *tree, const Datum *const *keys, const uint64 *prefixes,
				const uint64 *hashes, int n, bool ascending, bool *maybe,
				bool *in_memory, RoseMemSpot *hints)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseView   *view;

	Assert(n <= ROSE_SCREEN_MAX && tree->schema->nkeys > 0);
	memset(maybe, false, n * sizeof(bool));
	rose_c0_read_begin(c0);
	rose_c0_probe(c0, tree->schema, keys, n, ascending, maybe, hints);
	view = rose_view_take(tree);
	rose_c0_read_end(c0);
	if (in_memory != NULL)
		memcpy(in_memory, maybe, n * sizeof(bool));

	for (int i = 0; i < view->manifest.ncomponents; i++)
		if (rose_component_readable(rose_view_entry(view, i)))
			screen_component(tree, rose_view_component(view, i), keys, prefixes, hashes, n,
							 maybe);
	rose_view_release(view);
}
