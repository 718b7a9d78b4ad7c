/*-------------------------------------------------------------------------
 *
 * rose_memnode.h
 *	  Nodes of the tree over a memtable's list.  For rose_memtree.c and
 *	  rose_memahead.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMNODE_H
#define ROSE_MEMNODE_H

#include "memtable/rose_memtree.h"

#define ROSE_MEMTREE_FANOUT 40

typedef struct RoseMemNodeShared
{
	uint32		count;			/* 0: items; write_lock, lock-free readers */
	uint8		level;			/* 4: constant; 0 = leaf */
	bool		leftmost;		/* 5: constant; first node of its level */
	bool		wide;			/* 6: constant, the same for all nodes of a tree */
	uint8		unused;			/* 7 */
	RoseArenaPtr right;			/* 8: next node of the level, 0 = none;
								 * write_lock, lock-free readers */
	uint32		padding;		/* 12 */

	/* write_lock, lock-free readers */
	uint64		prefix[ROSE_MEMTREE_FANOUT];	/* 16: first words */
	RoseArenaPtr entry[ROSE_MEMTREE_FANOUT];

	/*
	 * As many again: children, if it is an inner node; then, if it is wide, the second
	 * words of prefixes (node_second).
	 */
	RoseArenaPtr child[FLEXIBLE_ARRAY_MEMBER];
} RoseMemNodeShared;

#define NODE_CHILDREN_SIZE	(ROSE_MEMTREE_FANOUT * sizeof(RoseArenaPtr))
#define NODE_SECOND_SIZE	(ROSE_MEMTREE_FANOUT * sizeof(uint64))

StaticAssertDecl(offsetof(RoseMemNodeShared, child) % sizeof(uint64) == 0 &&
				 NODE_CHILDREN_SIZE % sizeof(uint64) == 0,
				 "second words must be aligned");

static inline RoseMemNodeShared *
node_at(RoseArenaPtr ptr)
{
	return rose_arena_at(ptr);
}

static inline uint64 *
node_second(const RoseMemNodeShared *node)
{
	return (uint64 *) ((char *) node->child + (node->level > 0 ? NODE_CHILDREN_SIZE : 0));
}

static inline int
node_count(const RoseMemNodeShared *node)
{
	int			count = *(const volatile uint32 *) &node->count;

	pg_read_barrier();			/* then the items */
	return count;
}

/* How many of the first n items are before the target, 'from' of them for sure. */
extern int	rose_memtree_items_before(const RoseMemNodeShared *node, int from, int n,
									  const RoseMemTarget *target);

#endif							/* ROSE_MEMNODE_H */
