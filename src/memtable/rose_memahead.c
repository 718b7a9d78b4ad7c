/*-------------------------------------------------------------------------
 *
 * rose_memahead.c
 *	  Walks over a memtable: entries, and the leaves that name them, are fetched ahead.
 *
 * Only the processor's cache is changed.  Where the writer changes nodes meanwhile, a
 * little too much is fetched, or too little.  What is looked at, and not only fetched, are
 * items below the count of their own node.
 *
 * Locking: a reading section.  The writer never frees a node.
 *
 * What this does not do: walk; that goes by the list (rose_memlist.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_memahead.h"
#include "memtable/rose_memnode.h"

/* Most bytes of a row to fetch. */
#define AHEAD_ROW_BYTES 120

/* Entries lie close together if so many of them take so many units each, on average. */
#define AHEAD_DENSE_SAMPLE 8
#define AHEAD_DENSE_UNITS (512 / ROSE_ARENA_UNIT)

/* Such entries are fetched so many at a time. */
#define AHEAD_SOME 4

/* Others are fetched so many leaves ahead; to do so still earlier was slower. */
#define AHEAD_FAR 1

/* Leaves themselves are fetched before that. */
#define AHEAD_LEAVES 8

/* Fetch entries from..to of a leaf, without 'to'. */
static void
ahead_fetch(const RoseMemNodeShared *leaf, int from, int to, int row_bytes)
{
	int			end = (MAXALIGN(sizeof(RoseMemEntryShared)) +
					   Min(row_bytes, AHEAD_ROW_BYTES) - 1) / ROSE_ARENA_UNIT;

	/* the lines from the one that an entry begins in to the one that it ends in */
	for (int i = from; i < to; i++)
	{
		RoseArenaPtr entry = rose_arena_link_read(&leaf->entry[i]);

		for (int at = 0; at < end; at += 64 / ROSE_ARENA_UNIT)
			rose_arena_prefetch(entry + at);
		rose_arena_prefetch(entry + end);
	}
}

/*
 * Do the entries of a leaf lie close together, as those do that were written in their
 * order?  The first few will do, which are in one piece of memory.
 */
static bool
are_dense(const RoseMemNodeShared *leaf)
{
	int			last = Min(node_count(leaf), AHEAD_DENSE_SAMPLE) - 1;
	RoseArenaPtr from = rose_arena_link_read(&leaf->entry[0]);
	RoseArenaPtr to = rose_arena_link_read(&leaf->entry[Max(last, 0)]);

	return to >= from && to - from <= last * AHEAD_DENSE_UNITS;
}

/* Some entries of the next leaf, for the next few steps; with the last ones all that it has left. */
static void
ahead_fetch_some(RoseMemAhead *ahead)
{
	const RoseMemNodeShared *next = node_at(ahead->some);
	int			n = node_count(next);
	int			from = Min(ahead->at, n);
	int			to;

	ahead->due = Min(ahead->at + AHEAD_SOME, ahead->count);
	to = ahead->due == ahead->count ? n : Min(ahead->due, n);
	if (ahead->forward)
		ahead_fetch(next, from, to, ahead->row_bytes);
	else
		ahead_fetch(next, n - to, n - from, ahead->row_bytes);
}

/*
 * The leaf that is so many steps ahead, by the inner node that names it, since links from
 * one leaf to the next could only be followed one after the other; or 0.  Forward it may
 * be one of the next inner node's.
 */
static RoseArenaPtr
ahead_leaf(const RoseMemAhead *ahead, int steps)
{
	const RoseMemNodeShared *parent = node_at(ahead->parent);
	int			count = node_count(parent);
	int			index = ahead->index + (ahead->forward ? steps : -steps);

	if (index >= count && parent->right != 0)
	{
		index -= count;
		parent = node_at(rose_arena_link_read(&parent->right));
		count = node_count(parent);
	}
	return index >= 0 && index < count ? rose_arena_link_read(&parent->child[index]) : 0;
}

/* Fetch what ahead_fetch will look at. */
static inline void
ahead_fetch_leaf(RoseArenaPtr leaf)
{
	if (leaf == 0)
		return;
	rose_arena_prefetch(leaf);
	for (Size at = offsetof(RoseMemNodeShared, entry); at < offsetof(RoseMemNodeShared, child); at += 64)
		rose_arena_prefetch(leaf + at / ROSE_ARENA_UNIT);
}

/* Fetch what ahead_leaf will look at. */
static inline void
ahead_fetch_parent(RoseArenaPtr parent)
{
	if (parent == 0)
		return;
	rose_arena_prefetch(parent);
	for (Size at = 0; at < NODE_CHILDREN_SIZE; at += 64)
		rose_arena_prefetch(parent + (offsetof(RoseMemNodeShared, child) + at) / ROSE_ARENA_UNIT);
}

static void
ahead_fetch_entries(const RoseMemAhead *ahead, int steps)
{
	RoseArenaPtr leaf = ahead_leaf(ahead, steps);

	if (leaf != 0)
		ahead_fetch(node_at(leaf), 0, node_count(node_at(leaf)), ahead->row_bytes);
}

/*
 * The walk comes to a leaf: fetch entries of one that follows, and leaves further ahead.
 *
 * Entries that lie anywhere are fetched together: a processor waits for many pages of the
 * table of pages at a time only if it is asked for them with little else in between.
 * Those that are close together cost nothing but the bytes, which come while others are
 * looked at: a few are fetched at a time.
 */
static void
ahead_enter(RoseMemAhead *ahead)
{
	RoseArenaPtr leaf = ahead_leaf(ahead, 0);

	ahead->at = 0;
	ahead->some = 0;
	if (leaf == 0)
	{
		ahead->parent = 0;
		return;
	}
	ahead->count = ahead->due = node_count(node_at(leaf));
	ahead_fetch_leaf(ahead_leaf(ahead, AHEAD_LEAVES));
	if (ahead->index == 0 && ahead->forward)
		ahead_fetch_parent(node_at(ahead->parent)->right);
	/* asked of the leaf at hand, which is in the cache */
	if (are_dense(node_at(leaf)))
		ahead->some = ahead_leaf(ahead, 1);
	else
		ahead_fetch_entries(ahead, AHEAD_FAR);
	if (ahead->some != 0)
		ahead_fetch_some(ahead);
}

/* Begin where ahead->index is of ahead->parent, which is 0 if there is but one leaf. */
static void
ahead_begin(RoseMemAhead *ahead)
{
	if (ahead->parent == 0)
		return;
	for (int steps = 1; steps < AHEAD_LEAVES; steps++)
		ahead_fetch_leaf(ahead_leaf(ahead, steps));
	for (int steps = 0; steps < AHEAD_FAR; steps++)
		ahead_fetch_entries(ahead, steps);
	ahead_enter(ahead);
}

void
rose_memahead_start(const RoseMemtableShared *memtable, RoseMemAhead *ahead)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->tree);

	ahead->parent = 0;
	ahead->index = 0;
	ahead->forward = true;
	while (node_at(ptr)->level > 0)
	{
		ahead->parent = ptr;
		ptr = rose_arena_link_read(&node_at(ptr)->child[0]);
	}
	ahead_begin(ahead);
}

void
rose_memahead_at(const RoseMemtableShared *memtable, RoseMemAhead *ahead, bool forward,
				 const RoseMemTarget *target)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->tree);
	int			nbefore;

	ahead->parent = 0;
	ahead->forward = forward;
	while (node_at(ptr)->level > 0)
	{
		const RoseMemNodeShared *node = node_at(ptr);

		ahead->parent = ptr;
		ahead->index = rose_memtree_items_before(node, 1, node_count(node), target) - 1;
		ptr = rose_arena_link_read(&node->child[ahead->index]);
	}
	ROSE_STOP_POINT("walk-descended");	/* in a reading section */
	ahead_begin(ahead);
	if (ahead->parent == 0)
		return;

	/*
	 * By its own count: ahead->count is of the leaf that the inner node names there by now.
	 * In slots behind a leaf's items there is whatever the memory had before.
	 */
	nbefore = rose_memtree_items_before(node_at(ptr), 0, node_count(node_at(ptr)), target);
	ahead->at = forward ? nbefore : Max(ahead->count - 1 - nbefore, 0);
	if (ahead->some != 0)
		ahead_fetch_some(ahead);
}

/* On to the next leaf.  Backward a walk ends with its inner node. */
static void
ahead_next_leaf(RoseMemAhead *ahead)
{
	ahead->index += ahead->forward ? 1 : -1;
	if (ahead->index < 0)
		ahead->parent = 0;
	else if (ahead->index >= node_count(node_at(ahead->parent)))
	{
		ahead->parent = rose_arena_link_read(&node_at(ahead->parent)->right);
		ahead->index = 0;
	}
	if (ahead->parent != 0)
		ahead_enter(ahead);
}

/* If the writer changes nodes meanwhile, we fetch a little too early or late. */
void
rose_memahead_due(RoseMemAhead *ahead)
{
	if (ahead->some != 0 && ahead->at < ahead->count)
		ahead_fetch_some(ahead);
	else
		ahead_next_leaf(ahead);
}
