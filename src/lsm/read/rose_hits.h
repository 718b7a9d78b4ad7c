/*-------------------------------------------------------------------------
 *
 * rose_hits.h
 *	  Do the lookups of this backend in a tree find what they look for?
 *
 * The oldest component has nearly all keys, and who looks for a key that exists asks its
 * Bloom filter in vain, for another page that may have to be read.  So queries leave that
 * filter out as long as they keep finding what they look for.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_HITS_H
#define ROSE_HITS_H

#include "lsm/tree/rose_tree.h"

/* So many hits in a row, less some for each miss, and the oldest filter is left out. */
#define ROSE_HITS_BEFORE_TRUST	32
#define ROSE_HITS_PER_MISS		16
#define ROSE_HITS_MAX			256

static inline bool
rose_hits_expected(const RoseTree *tree)
{
	return tree->lookup_hits >= ROSE_HITS_BEFORE_TRUST;
}

/* Found or missed in the oldest component: a miss weighs as much as several hits. */
static inline void
rose_hits_note(RoseTree *tree, bool found)
{
	tree->lookup_hits = found ? Min(tree->lookup_hits + 1, ROSE_HITS_MAX) :
		Max(tree->lookup_hits - ROSE_HITS_PER_MISS, 0);
}

#endif							/* ROSE_HITS_H */
