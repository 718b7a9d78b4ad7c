/*-------------------------------------------------------------------------
 *
 * rose_sorted_pieces.h
 *	  Versions in order become C2 of a tree that has none, in pieces.
 *
 * For who writes a tree anew, in this folder and the rooms above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SORTED_PIECES_H
#define ROSE_SORTED_PIECES_H

#include "postgres.h"

#include "lsm/component/rose_component.h"
#include "lsm/tree/rose_tree.h"

typedef struct RoseSortedPieces RoseSortedPieces;

/*
 * REQUIRES: nobody else writes to the tree, or reads it before the transaction commits.
 * nversions are expected, which take about so many blocks; numbers from next_seq on are
 * not taken; max_xid is at least that of each piece.  Lives in a child of the current
 * context.
 */
extern RoseSortedPieces *rose_sorted_pieces_begin(RoseTree *tree, uint64 nversions,
												  uint64 nblocks, uint64 next_seq,
												  uint64 max_xid);

/*
 * The same beside writers, spills and merges: below all that there is.  REQUIRES: the tree
 * is incomplete (RoseTreeShared), which keeps merges from making a C2; nobody reads it before
 * the last piece is published; all versions are forgotten ones.
 */
extern RoseSortedPieces *rose_sorted_pieces_begin_below(RoseTree *tree, uint64 nversions,
														uint64 nblocks);

/* The versions that come have another key than those before: a piece may end here. */
extern void rose_sorted_pieces_next_key(RoseSortedPieces *pieces);

/* As rose_component_builder_add_values. */
extern void rose_sorted_pieces_add(RoseSortedPieces *pieces, const RoseVersion *version,
								   const Datum *values, const bool *nulls);

/* As rose_component_builder_add_batch. */
extern void rose_sorted_pieces_add_batch(RoseSortedPieces *pieces, const RoseRowBatch *batch);

/* Publishes the last one; the tree's numbers go on from next_seq. */
extern void rose_sorted_pieces_finish(RoseSortedPieces *pieces);

#endif							/* ROSE_SORTED_PIECES_H */
