/*-------------------------------------------------------------------------
 *
 * rose_pieces.h
 *	  C2 as readers see it: its pieces, one after the other.
 *
 * The components of level 2 stand at the end of the manifest.  They have
 * disjoint key ranges, in ascending order, so that a key is in one of them at
 * most.  Which one is decided by their greatest keys alone: a piece whose first
 * versions have moved to the piece before it still has its old least key.
 *
 * Backend-local; the caller holds a pin from before it read the manifest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PIECES_H
#define ROSE_PIECES_H

#include "lsm/tree/rose_tree.h"

/* The fields are for reading. */
typedef struct RosePieces
{
	RoseTree   *tree;
	MemoryContext context;		/* of components that the table does not know any more */
	uint64		version;		/* of the manifest that they are from */
	int			first;			/* index of the first piece in it */
	int			n;
	const RoseComponentEntryDisk *entries;	/* ascending; borrowed */
	RoseComponent *own[ROSE_MAX_COMPONENTS];	/* opened in context; mostly NULL */
} RosePieces;

/* Index of the first component of level 2; the number of components if there is none. */
static inline int
rose_manifest_first_piece(const RoseManifest *manifest)
{
	int			first = manifest->ncomponents;

	while (first > 0 && manifest->components[first - 1].level == 2)
		first--;
	return first;
}

/* entries: those of the manifest from its first piece on; they must stay in place. */
extern void rose_pieces_init(RosePieces *pieces, RoseTree *tree,
							 const RoseManifest *manifest,
							 const RoseComponentEntryDisk *entries,
							 MemoryContext context);

extern RoseComponent *rose_pieces_component(RosePieces *pieces, int i);

/*
 * The first piece that may have a version whose first ncols key columns are
 * equal to key's or greater (greater: only greater); n if there is none.  Earlier
 * pieces have none.
 */
extern int	rose_pieces_find(RosePieces *pieces, const Datum *key, int ncols, bool greater);

#endif							/* ROSE_PIECES_H */
