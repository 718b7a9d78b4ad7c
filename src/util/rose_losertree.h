/*-------------------------------------------------------------------------
 *
 * rose_losertree.h
 *	  Loser tree (tournament tree) for merging sorted sources.
 *
 * The tree knows sources only by number.  The caller keeps each source's
 * current row and compares two of them on request.  Replacing the smallest
 * row costs ceil(log2(n)) comparisons, against about twice that for a binary heap.
 *
 *	tree = rose_losertree_create(n, compare, arg, context);
 *	for each source i: if it has no row at all, rose_losertree_set_empty(tree, i)
 *	rose_losertree_build(tree);
 *	while ((i = rose_losertree_winner(tree)) >= 0)
 *	{
 *		use the row of source i;
 *		advance source i;
 *		rose_losertree_advanced(tree, has_row);
 *	}
 *
 * Rows that compare equal come out by ascending source number, so number the
 * sources newest first.  For a backward scan, negate in compare (and renumber
 * if the tie order matters).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOSERTREE_H
#define ROSE_LOSERTREE_H

#include "postgres.h"

typedef struct RoseLoserTree RoseLoserTree;

/* Compare the current rows of sources a and b: <0, 0, >0.  May raise errors. */
typedef int (*RoseSourceCompare) (int a, int b, void *arg);

/* n >= 0 sources, all assumed to have a row.  Allocated in 'context'. */
extern RoseLoserTree *rose_losertree_create(int nsources, RoseSourceCompare compare,
											void *arg, MemoryContext context);
extern void rose_losertree_free(RoseLoserTree *tree);

/* Before build: source i has no row. */
extern void rose_losertree_set_empty(RoseLoserTree *tree, int source);

/* Play all matches.  Call again after any change but advanced(): a seek, a rescan. */
extern void rose_losertree_build(RoseLoserTree *tree);

/* The source with the smallest current row, or -1 when all are exhausted. */
extern int	rose_losertree_winner(const RoseLoserTree *tree);

/* The winner moved on to its next row, or (has_row false) is exhausted. */
extern void rose_losertree_advanced(RoseLoserTree *tree, bool has_row);

/*
 * The runner-up: the source whose current row is smallest but for the winner's, or -1.
 * As long as the winner's next rows sort before it, they can be taken without touching
 * the tree.  Costs up to ceil(log2(n)) comparisons.
 */
extern int	rose_losertree_runner_up(const RoseLoserTree *tree);

/* ---------------------------------------------------------------------
 * The matches alone, for who wants its comparisons inlined: sources 0 .. nsources - 1 all
 * have a row, and node[nsources] is the caller's.  node[0] is the winner after each call;
 * see rose_losertree.c for the others.
 */

/* Does the row of source a come out before that of source b?  They are never equal. */
typedef bool (*RoseSourcePrecedes) (int a, int b, const void *arg);

/* Play the subtree under this node; returns its winner. */
static inline int
rose_matches_play_subtree(int *node, int nsources, int at, RoseSourcePrecedes precedes, const void *arg)
{
	int			left;
	int			right;
	bool		second;

	if (at >= nsources)
		return at - nsources;
	left = rose_matches_play_subtree(node, nsources, 2 * at, precedes, arg);
	right = rose_matches_play_subtree(node, nsources, 2 * at + 1, precedes, arg);
	second = precedes(right, left, arg);
	node[at] = second ? left : right;
	return second ? right : left;
}

/* Play all matches.  There is a source. */
static inline void
rose_matches_play(int *node, int nsources, RoseSourcePrecedes precedes, const void *arg)
{
	node[0] = rose_matches_play_subtree(node, nsources, 1, precedes, arg);
}

/* The winner has another row, or has become one that precedes nothing. */
static pg_attribute_always_inline void
rose_matches_replay(int *node, int nsources, RoseSourcePrecedes precedes, const void *arg)
{
	int			winner = node[0];

	for (int at = (winner + nsources) / 2; at > 0; at /= 2)
	{
		if (precedes(node[at], winner, arg))
		{
			int			loser = winner;

			winner = node[at];
			node[at] = loser;
		}
	}
	node[0] = winner;
}

#endif							/* ROSE_LOSERTREE_H */
