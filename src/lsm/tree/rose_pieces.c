/*-------------------------------------------------------------------------
 *
 * rose_pieces.c
 *	  C2 as readers see it: its pieces, one after the other.  See
 *	  rose_pieces.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_pieces.h"

void
rose_pieces_init(RosePieces *pieces, RoseTree *tree, const RoseManifest *manifest,
				 const RoseComponentEntryDisk *entries, MemoryContext context)
{
	pieces->tree = tree;
	pieces->context = context;
	pieces->version = manifest->version;
	pieces->first = rose_manifest_first_piece(manifest);
	pieces->n = manifest->ncomponents - pieces->first;
	pieces->entries = entries;
	memset(pieces->own, 0, pieces->n * sizeof(RoseComponent *));
}

/* The table's cached manifest may be newer; then our pin keeps the blocks. */
RoseComponent *
rose_pieces_component(RosePieces *pieces, int i)
{
	RoseTree   *tree = pieces->tree;

	Assert(i >= 0 && i < pieces->n);
	if (tree->manifest_valid && tree->manifest.version == pieces->version)
		return rose_tree_component(tree, pieces->first + i);
	if (pieces->own[i] == NULL)
		pieces->own[i] = rose_component_open(tree->rel, tree->schema,
											 &pieces->entries[i], pieces->context);
	return pieces->own[i];
}

int
rose_pieces_find(RosePieces *pieces, const Datum *key, int ncols, bool greater)
{
	int			lo = 0;
	int			hi = pieces->n;

	while (lo < hi)
	{
		int			middle = (lo + hi) / 2;
		const RoseComponentInfo *info =
			rose_component_info(rose_pieces_component(pieces, middle));
		int			cmp = rose_key_compare(pieces->tree->schema, info->max_key, key, ncols);

		if (greater ? cmp > 0 : cmp >= 0)
			hi = middle;
		else
			lo = middle + 1;
	}
	return lo;
}
