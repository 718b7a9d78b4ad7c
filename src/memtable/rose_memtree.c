/*-------------------------------------------------------------------------
 *
 * rose_memtree.c
 *	  A B-tree over the sorted list of a memtable: one writer, lock-free readers.
 *
 * The list (rose_memlist.c) is the truth, and the tree a way into it.  Its leaves name
 * all entries in the order of the list, each with its key's prefix, so that a search
 * looks at entries themselves only where prefixes are equal.  That is what the tree is
 * for: the entries are scattered over the arena, and to look at one is to wait for
 * memory.  Where one word of a prefix does not hold the whole key, items have both.
 *
 *	  inner node: prefix and entry that a child begins with, and the child
 *	  leaf:		  prefix and entry
 *
 * The first item of an inner node counts as smaller than everything.  Nodes of a level
 * are linked to the right.  Items are never taken out; a node that is full is split, and
 * its upper items go to a new node at its right.  So what a node or a separator covers
 * only ever gets narrower, at its right end.
 *
 * Locking: the writer holds write_lock, readers are in a reading section.  Readers may
 * see a node while its items are shifted or split off, and items whose prefix is of one
 * entry and whose pointer is of its neighbour.  They rely on this only: each slot below
 * any count that a node ever had holds pointers to a complete entry and a complete node
 * of the level below.  So a reader may be led too far to the left, where links to the
 * right and in the end the list help, or too far to the right, which it notices when it
 * looks at the entry that it found, and starts over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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

/* What is put into a node. */
typedef struct TreeItem
{
	uint64		prefix;
	uint64		second;			/* if the node is wide */
	RoseArenaPtr entry;
	RoseArenaPtr child;			/* if it is an inner node */
} TreeItem;

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

/* Wait for the lines of a node together, not one after the other. */
static inline void
node_prefetch(RoseArenaPtr ptr)
{
	for (Size at = 0; at < offsetof(RoseMemNodeShared, child); at += PG_CACHE_LINE_SIZE / 2)
		rose_arena_prefetch(ptr + at / ROSE_ARENA_UNIT);
}

/* ---- searching ---- */

static inline bool
item_is_before(const RoseMemNodeShared *node, int i, const RoseMemTarget *target)
{
	uint64		word = node->prefix[i] & target->prefix.mask[0];

	if (word != target->prefix.word[0])
		return word < target->prefix.word[0];
	if (node->wide)
	{
		word = node_second(node)[i] & target->prefix.mask[1];
		if (word != target->prefix.word[1])
			return word < target->prefix.word[1];
	}
	return rose_memlist_is_before(rose_mementry_at(rose_arena_link_read(&node->entry[i])),
								  target);
}

/* How many of the first n items are before the target, 'from' of them for sure. */
static int
items_before(const RoseMemNodeShared *node, int from, int n, const RoseMemTarget *target)
{
	const uint64 *prefix = node->prefix + from;
	const uint64 word = target->prefix.word[0];
	const uint64 mask = target->prefix.mask[0];
	int			len = n - from;

	/* smaller first words; without branches that nobody can predict */
	while (len > 1)
	{
		int			half = len / 2;

		prefix += (prefix[half - 1] & mask) < word ? half : 0;
		len -= half;
	}
	if (len == 1 && (*prefix & mask) < word)
		prefix++;
	from = prefix - node->prefix;

	/* of those with the same word the rest decides */
	if (from < n && (*prefix & mask) == word)
	{
		while (from < n)
		{
			int			mid = (from + n) / 2;

			if (item_is_before(node, mid, target))
				from = mid + 1;
			else
				n = mid;
		}
	}
	return from;
}

/*
 * Go from a node to the one of its level where the target belongs, and say how
 * many items are before it there.
 */
static RoseMemNodeShared *
move_right(RoseMemNodeShared *node, const RoseMemTarget *target, int *nbefore)
{
	for (;;)
	{
		int			count = node_count(node);
		RoseArenaPtr right;

		*nbefore = items_before(node, node->level > 0 && count > 0 ? 1 : 0, count, target);
		if (*nbefore < count)
			return node;

		/* split off meanwhile, and the parent did not know */
		right = rose_arena_link_read(&node->right);
		if (right == 0 || !item_is_before(node_at(right), 0, target))
			return node;
		node = node_at(right);
	}
}

/* Does the target belong to the last leaf?  Often so where keys only ever grow. */
static inline bool
is_in_last_leaf(const RoseMemNodeShared *leaf, const RoseMemTarget *target)
{
	return node_count(leaf) > 0 && item_is_before(leaf, 0, target);
}

static RoseMemNodeShared *
find_leaf(const RoseMemtableShared *memtable, const RoseMemTarget *target, int *nbefore)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->last_leaf);
	RoseMemNodeShared *node = node_at(ptr);

	if (is_in_last_leaf(node, target))
		return move_right(node, target, nbefore);
	ptr = rose_arena_link_read(&memtable->tree);
	for (;;)
	{
		node_prefetch(ptr);
		node = move_right(node_at(ptr), target, nbefore);
		if (node->level == 0)
			return node;
		ptr = rose_arena_link_read(&node->child[*nbefore - 1]);
	}
}

/*
 * What a leaf, with so many items before the target, leads to.  False if the reader was
 * led too far to the right.
 */
static inline bool
leaf_result(const RoseMemtableShared *memtable, const RoseMemNodeShared *leaf, int nbefore,
			const RoseMemTarget *target, RoseArenaPtr *result)
{
	if (nbefore == 0)
	{
		*result = memtable->head;
		return leaf->leftmost;
	}
	*result = rose_arena_link_read(&leaf->entry[nbefore - 1]);
	return rose_memlist_is_before(rose_mementry_at(*result), target);
}

RoseArenaPtr
rose_memtree_find(const RoseMemtableShared *memtable, const RoseMemTarget *target)
{
	for (;;)
	{
		int			nbefore;
		RoseMemNodeShared *leaf = find_leaf(memtable, target, &nbefore);
		RoseArenaPtr result;

		if (nbefore < node_count(leaf))
			rose_arena_prefetch(leaf->entry[nbefore]);
		if (leaf_result(memtable, leaf, nbefore, target, &result))
			return result;
	}
}

/* The head of an entry and the first columns of its row. */
static inline void
entry_prefetch(RoseArenaPtr ptr)
{
	rose_arena_prefetch(ptr);
	rose_arena_prefetch(ptr + 64 / ROSE_ARENA_UNIT);
}

void
rose_memtree_find_many(const RoseMemtableShared *memtable, const RoseMemTarget *targets,
					   int n, RoseArenaPtr *found, RoseArenaPtr *at)
{
	int			nbefore[ROSE_MEMTREE_MANY];
	RoseArenaPtr root = rose_arena_link_read(&memtable->tree);

	Assert(n <= ROSE_MEMTREE_MANY);
	for (int i = 0; i < n; i++)
		at[i] = root;
	for (int level = node_at(root)->level; level >= 0; level--)
	{
		for (int i = 0; i < n; i++)
		{
			const RoseMemNodeShared *node = node_at(at[i]);
			int			count = node_count(node);

			nbefore[i] = items_before(node, level > 0 ? 1 : 0, count, &targets[i]);
			if (level > 0)
			{
				at[i] = rose_arena_link_read(&node->child[nbefore[i] - 1]);
				node_prefetch(at[i]);
				continue;
			}
			if (nbefore[i] > 0)
				entry_prefetch(node->entry[nbefore[i] - 1]);
			if (nbefore[i] < count)
				entry_prefetch(node->entry[nbefore[i]]);
		}
	}
	/* who was led astray by a writer goes alone */
	for (int i = 0; i < n; i++)
		if (!leaf_result(memtable, node_at(at[i]), nbefore[i], &targets[i], &found[i]))
			found[i] = rose_memtree_find(memtable, &targets[i]);
}

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
rose_memtree_ahead_start(const RoseMemtableShared *memtable, RoseMemAhead *ahead)
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
rose_memtree_ahead_at(const RoseMemtableShared *memtable, RoseMemAhead *ahead, bool forward,
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
		ahead->index = items_before(node, 1, node_count(node), target) - 1;
		ptr = rose_arena_link_read(&node->child[ahead->index]);
	}
	ahead_begin(ahead);
	if (ahead->parent == 0)
		return;
	nbefore = items_before(node_at(ptr), 0, ahead->count, target);
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
rose_memtree_ahead_due(RoseMemAhead *ahead)
{
	if (ahead->some != 0 && ahead->at < ahead->count)
		ahead_fetch_some(ahead);
	else
		ahead_next_leaf(ahead);
}

RoseArenaPtr
rose_memtree_find_last(const RoseMemtableShared *memtable)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->tree);

	for (;;)
	{
		RoseMemNodeShared *node = node_at(ptr);
		int			count = node_count(node);
		RoseArenaPtr right = rose_arena_link_read(&node->right);

		if (right != 0)
			ptr = right;
		else if (node->level > 0)
			ptr = rose_arena_link_read(&node->child[count - 1]);
		else
			return count > 0 ? rose_arena_link_read(&node->entry[count - 1]) : memtable->head;
	}
}

/* Does the target belong into this leaf, between two of its items or at its end, and is there room? */
static bool
is_place(RoseArenaPtr leaf, const RoseMemTarget *target, int *nbefore)
{
	const RoseMemNodeShared *node = node_at(leaf);
	int			count = node->count;

	Assert(node->level == 0);
	if (count == ROSE_MEMTREE_FANOUT)
		return false;
	*nbefore = items_before(node, 0, count, target);
	if (*nbefore == 0)
		return false;
	return *nbefore < count || node->right == 0 ||
		!item_is_before(node_at(node->right), 0, target);
}

RoseArenaPtr
rose_memtree_locate(const RoseMemtableShared *memtable, const RoseMemTarget *target,
					RoseArenaPtr near, RoseMemTreePath *path)
{
	RoseArenaPtr ptr = memtable->last_leaf;
	RoseMemNodeShared *node = node_at(ptr);

	if (near != 0 && is_place(near, target, &path->at[0]))
	{
		path->height = 1;
		path->node[0] = near;
		return node_at(near)->entry[path->at[0] - 1];
	}

	/* one that has room needs no path */
	if (node->count == ROSE_MEMTREE_FANOUT || !is_in_last_leaf(node, target))
	{
		ptr = memtable->tree;
		node = node_at(ptr);
	}
	path->height = node->level + 1;
	for (;;)
	{
		int			nbefore;

		node_prefetch(ptr);
		node = node_at(ptr);
		nbefore = items_before(node, node->level > 0 ? 1 : 0, node->count, target);
		path->node[node->level] = ptr;
		path->at[node->level] = nbefore;
		if (node->level == 0)
		{
			if (nbefore < node->count)
				rose_arena_prefetch(node->entry[nbefore]);
			Assert(nbefore > 0 || node->leftmost);
			return nbefore > 0 ? node->entry[nbefore - 1] : memtable->head;
		}
		ptr = node->child[nbefore - 1];
	}
}

/* ---- growing ---- */

static RoseArenaPtr
make_node(RoseMemtableShared *memtable, int level, bool wide)
{
	Size		size = offsetof(RoseMemNodeShared, child) +
		(level > 0 ? NODE_CHILDREN_SIZE : 0) + (wide ? NODE_SECOND_SIZE : 0);
	RoseArenaPtr ptr = rose_arena_alloc(memtable, size);

	if (ptr != 0)
	{
		memset(node_at(ptr), 0, offsetof(RoseMemNodeShared, prefix));
		node_at(ptr)->level = level;
		node_at(ptr)->wide = wide;
	}
	return ptr;
}

bool
rose_memtree_create(RoseMemtableShared *memtable, bool wide)
{
	RoseArenaPtr root = make_node(memtable, 0, wide);

	if (root == 0)
		return false;
	node_at(root)->leftmost = true;
	memtable->tree = root;
	memtable->last_leaf = root;
	return true;
}

bool
rose_memtree_reserve(RoseMemtableShared *memtable, RoseMemTreePath *path)
{
	bool		wide = node_at(path->node[0])->wide;
	int			level;

	for (level = 0; level < path->height; level++)
	{
		if (node_at(path->node[level])->count < ROSE_MEMTREE_FANOUT)
			return true;
		path->spare[level] = make_node(memtable, level, wide);
		if (path->spare[level] == 0)
			return false;
	}
	/* the root is full as well */
	Assert(level < ROSE_MEMTREE_MAX_LEVELS);
	path->spare[level] = make_node(memtable, level, wide);
	return path->spare[level] != 0;
}

static inline void
set_item(RoseMemNodeShared *node, int i, const TreeItem *item)
{
	*(volatile uint64 *) &node->prefix[i] = item->prefix;
	*(volatile RoseArenaPtr *) &node->entry[i] = item->entry;
	if (node->level > 0)
		*(volatile RoseArenaPtr *) &node->child[i] = item->child;
	if (node->wide)
		*(volatile uint64 *) &node_second(node)[i] = item->second;
}

static inline TreeItem
get_item(const RoseMemNodeShared *node, int i)
{
	TreeItem	item;

	item.prefix = node->prefix[i];
	item.entry = node->entry[i];
	item.child = node->level > 0 ? node->child[i] : 0;
	item.second = node->wide ? node_second(node)[i] : 0;
	return item;
}

static inline void
set_count(RoseMemNodeShared *node, int count)
{
	pg_write_barrier();			/* the items first */
	*(volatile uint32 *) &node->count = count;
}

/* Slots are written one by one, never torn: readers look at them meanwhile. */
static void
insert_item(RoseMemNodeShared *node, int at, const TreeItem *item)
{
	int			count = node->count;

	Assert(count < ROSE_MEMTREE_FANOUT && at <= count);
	/* what the new item points to, and what a slot held before its count */
	pg_write_barrier();
	for (int i = count; i > at; i--)
	{
		TreeItem	moved = get_item(node, i - 1);

		set_item(node, i, &moved);
	}
	set_item(node, at, item);
	set_count(node, count + 1);
}

/*
 * Move the upper half of a full node to a new one at its right, and put the item
 * into the one where it belongs.  Keys that only ever grow leave full nodes behind.
 */
static void
split_node(RoseMemNodeShared *node, RoseArenaPtr right_ptr, int at, const TreeItem *item)
{
	RoseMemNodeShared *right = node_at(right_ptr);
	int			keep = at == ROSE_MEMTREE_FANOUT ? at : ROSE_MEMTREE_FANOUT / 2;
	bool		goes_right = at > keep || keep == ROSE_MEMTREE_FANOUT;

	for (int i = keep; i < ROSE_MEMTREE_FANOUT; i++)
	{
		TreeItem	moved = get_item(node, i);

		set_item(right, i - keep, &moved);
	}
	right->count = ROSE_MEMTREE_FANOUT - keep;
	if (goes_right)
		insert_item(right, at - keep, item);
	right->right = node->right;

	rose_arena_link_publish(&node->right, right_ptr);
	set_count(node, keep);
	if (!goes_right)
		insert_item(node, at, item);
}

/* A new root above the old one and the node that was split off from it. */
static void
grow_root(RoseMemtableShared *memtable, RoseArenaPtr root_ptr, const TreeItem *right)
{
	RoseMemNodeShared *root = node_at(root_ptr);
	TreeItem	left = get_item(node_at(memtable->tree), 0);

	left.child = memtable->tree;
	set_item(root, 0, &left);
	set_item(root, 1, right);
	root->count = 2;
	root->leftmost = true;
	rose_arena_link_publish(&memtable->tree, root_ptr);
}

void
rose_memtree_add(RoseMemtableShared *memtable, RoseMemTreePath *path,
				 const RoseMemTarget *target, RoseArenaPtr entry)
{
	TreeItem	item;

	item.prefix = target->prefix.word[0];
	item.second = target->prefix.word[1];
	item.entry = entry;
	item.child = 0;
	for (int level = 0; level < path->height; level++)
	{
		RoseMemNodeShared *node = node_at(path->node[level]);

		if (node->count < ROSE_MEMTREE_FANOUT)
		{
			insert_item(node, path->at[level], &item);
			return;
		}
		split_node(node, path->spare[level], path->at[level], &item);
		if (path->node[level] == memtable->last_leaf)
			rose_arena_link_publish(&memtable->last_leaf, path->spare[level]);
		item = get_item(node_at(path->spare[level]), 0);
		item.child = path->spare[level];
	}
	grow_root(memtable, path->spare[path->height], &item);
}
