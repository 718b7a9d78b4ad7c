/*-------------------------------------------------------------------------
 *
 * rose_sorted_pieces.c
 *	  Versions in order become C2 of a tree that has none.  See rose_sorted_pieces.h.
 *
 * A piece is published when it is full.  Who reads the tree meanwhile would find a part of
 * it, so nobody may.
 *
 * Locking: that of rose_manifest_apply.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_settled.h"
#include "lsm/component/rose_component.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_sorted_pieces.h"

struct RoseSortedPieces
{
	RoseTree   *tree;
	MemoryContext context;
	RoseComponentBuilder *builder;	/* of the piece at hand, or NULL */
	uint64		piece_rows;		/* that it is to have */
	uint64		nrows;			/* that it has */
	uint64		max_xid;
	bool		below;			/* of what others write to the tree meanwhile */
	RoseManifestEdit edit;
};

static RoseSortedPieces *
begin_pieces(RoseTree *tree, uint64 nversions, uint64 nblocks)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose sorted pieces",
												  ALLOCSET_DEFAULT_SIZES);
	RoseSortedPieces *pieces = MemoryContextAllocZero(context, sizeof(RoseSortedPieces));
	uint64		piece_rows = (uint64) ((double) nversions * rose_merge_piece_blocks(nblocks) /
									   Max(nblocks, 1)) + 1;

	pieces->tree = tree;
	pieces->context = context;
	pieces->piece_rows = Min(piece_rows, nversions + 1);
	return pieces;
}

RoseSortedPieces *
rose_sorted_pieces_begin(RoseTree *tree, uint64 nversions, uint64 nblocks, uint64 next_seq,
						 uint64 max_xid)
{
	RoseSortedPieces *pieces = begin_pieces(tree, nversions, nblocks);

	Assert(rose_tree_manifest(tree)->ncomponents == 0);
	pieces->max_xid = max_xid;
	pieces->edit.next_seq = next_seq;
	return pieces;
}

RoseSortedPieces *
rose_sorted_pieces_begin_below(RoseTree *tree, uint64 nversions, uint64 nblocks)
{
	RoseSortedPieces *pieces = begin_pieces(tree, nversions, nblocks);
	const RoseManifest *manifest = rose_tree_manifest(tree);

	Assert(tree->shared->incomplete);
	if (manifest->ncomponents > 0 && manifest->components[manifest->ncomponents - 1].level == 2)
		elog(ERROR, "incomplete index \"%s\" has a component at the bottom",
			 RelationGetRelationName(tree->rel));
	pieces->below = true;
	return pieces;
}

static void
finish_piece(RoseSortedPieces *pieces)
{
	RoseComponentEntryDisk *entry = &pieces->edit.add[0];

	if (pieces->builder == NULL)
		return;
	rose_component_builder_finish(pieces->builder, entry);
	entry->level = 2;
	entry->state = ROSE_COMPONENT_LIVE;
	entry->max_xid = Max(entry->max_xid, pieces->max_xid);
	pieces->edit.nadd = 1;
	rose_manifest_apply(pieces->tree->rel, &pieces->tree->shared->store, &pieces->edit);
	pieces->edit.add_behind = entry->id;
	rose_component_builder_free(pieces->builder);
	pieces->builder = NULL;
	pieces->nrows = 0;
	ROSE_STOP_POINT("resort-piece");
}

void
rose_sorted_pieces_next_key(RoseSortedPieces *pieces)
{
	if (pieces->nrows >= pieces->piece_rows)
		finish_piece(pieces);
}

static RoseComponentBuilder *
builder_at_hand(RoseSortedPieces *pieces)
{
	RoseTree   *tree = pieces->tree;

	if (pieces->builder == NULL)
		pieces->builder = rose_component_builder_create(tree->rel, &tree->shared->store,
														tree->schema, pieces->piece_rows, 0,
														pieces->context);
	return pieces->builder;
}

void
rose_sorted_pieces_add(RoseSortedPieces *pieces, const RoseVersion *version,
					   const Datum *values, const bool *nulls)
{
	rose_component_builder_add_values(builder_at_hand(pieces), version, values, nulls);
	pieces->nrows++;
}

void
rose_sorted_pieces_add_batch(RoseSortedPieces *pieces, const RoseRowBatch *batch)
{
	rose_component_builder_add_batch(builder_at_hand(pieces), batch);
	pieces->nrows += batch->n;
}

void
rose_sorted_pieces_finish(RoseSortedPieces *pieces)
{
	RoseTree   *tree = pieces->tree;

	finish_piece(pieces);
	if (!pieces->below)
	{
		rose_c0_raise_sequence(&tree->shared->c0, pieces->edit.next_seq);
		rose_settled_all(tree->rel, &tree->shared->store);
	}
	MemoryContextDelete(pieces->context);
}
