/*-------------------------------------------------------------------------
 *
 * rose_losertree.c
 *	  Loser tree.  See rose_losertree.h for use.
 *
 * Node j (1 .. n - 1) of an implicit binary tree holds the loser of the match played
 * there; node 0 holds the overall winner.  The leaves are nodes n .. 2n - 1, leaf n + i
 * being source i.  When the winner moves on, only the matches on its path to the root are
 * played again.
 *
 * Backend-local; no locks.  Rows belong to the caller.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_losertree.h"

struct RoseLoserTree
{
	int			nsources;
	RoseSourceCompare compare;
	void	   *arg;
	bool	   *has_row;		/* [nsources] */
	int		   *node;			/* [Max(nsources, 1)]; see the file header */
};

RoseLoserTree *
rose_losertree_create(int nsources, RoseSourceCompare compare, void *arg,
					  MemoryContext context)
{
	RoseLoserTree *tree = MemoryContextAllocZero(context, sizeof(RoseLoserTree));
	int			i;

	tree->nsources = nsources;
	tree->compare = compare;
	tree->arg = arg;
	tree->has_row = MemoryContextAllocZero(context, Max(nsources, 1) * sizeof(bool));
	tree->node = MemoryContextAllocZero(context, Max(nsources, 1) * sizeof(int));
	for (i = 0; i < nsources; i++)
		tree->has_row[i] = true;
	return tree;
}

void
rose_losertree_free(RoseLoserTree *tree)
{
	pfree(tree->has_row);
	pfree(tree->node);
	pfree(tree);
}

void
rose_losertree_set_empty(RoseLoserTree *tree, int source)
{
	Assert(source >= 0 && source < tree->nsources);
	tree->has_row[source] = false;
}

/* Exhausted sources come last. */
static inline bool
comes_before(int a, int b, const void *arg)
{
	const RoseLoserTree *tree = arg;
	int			order;

	if (!tree->has_row[a])
		return false;
	if (!tree->has_row[b])
		return true;
	order = tree->compare(a, b, tree->arg);
	return order < 0 || (order == 0 && a < b);
}

void
rose_losertree_build(RoseLoserTree *tree)
{
	if (tree->nsources > 0)
		rose_matches_play(tree->node, tree->nsources, comes_before, tree);
}

int
rose_losertree_winner(const RoseLoserTree *tree)
{
	if (tree->nsources == 0 || !tree->has_row[tree->node[0]])
		return -1;
	return tree->node[0];
}

void
rose_losertree_advanced(RoseLoserTree *tree, bool has_row)
{
	Assert(tree->nsources > 0);
	tree->has_row[tree->node[0]] = has_row;
	rose_matches_replay(tree->node, tree->nsources, comes_before, tree);
}

/* The runner-up lost against the winner, so it is on the winner's path. */
int
rose_losertree_runner_up(const RoseLoserTree *tree)
{
	int			best = -1;
	int			node;

	if (tree->nsources < 2)
		return -1;
	for (node = (tree->node[0] + tree->nsources) / 2; node > 0; node /= 2)
	{
		if (best < 0 || comes_before(tree->node[node], best, tree))
			best = tree->node[node];
	}
	return best >= 0 && tree->has_row[best] ? best : -1;
}
