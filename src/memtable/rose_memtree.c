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
 * are linked to the right.  A node that is full is split, and its upper items go to a new
 * node at its right.  So what a node or a separator covers only ever gets narrower, at its
 * right end.
 *
 * Items are taken out of leaves, but never the first one of a leaf that has another one
 * at its left: separators above name that entry.  So nodes stay, and none gets empty.
 *
 * Locking: the writer holds write_lock, readers are in a reading section.  Readers may
 * see a node while its items are shifted or split off, and items whose prefix is of one
 * entry and whose pointer is of its neighbour.  They rely on this only: each slot below
 * a count that they have read holds pointers to a complete entry and a complete node of the
 * level below; an entry that has been taken out since stays complete until their section
 * ends.  So a reader may be led too far to the left, where links to the right and in the
 * end the list help, or too far to the right, which it notices when it looks at the entry
 * that it found, and starts over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_memnode.h"

/* What is put into a node. */
typedef struct TreeItem
{
	uint64		prefix;
	uint64		second;			/* if the node is wide */
	RoseArenaPtr entry;
	RoseArenaPtr child;			/* if it is an inner node */
} TreeItem;

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

int
rose_memtree_items_before(const RoseMemNodeShared *node, int from, int n,
						  const RoseMemTarget *target)
{
	return items_before(node, from, n, target);
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

/* Nodes of a level, from its leftmost one on. */
static int
count_nodes(RoseArenaPtr ptr)
{
	int			n = 0;

	for (; ptr != 0; ptr = rose_arena_link_read(&node_at(ptr)->right))
		n++;
	return n;
}

/* Nodes of one level have about the same number of entries below them. */
int
rose_memtree_part(const RoseMemtableShared *memtable, int n, RoseArenaPtr *entries)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->tree);
	int			nnodes = count_nodes(ptr);
	int			nfound = 0;
	int64		last_part = 0;

	while (nnodes <= n && node_at(ptr)->level > 0)
	{
		(void) node_count(node_at(ptr));	/* then its items */
		ptr = rose_arena_link_read(&node_at(ptr)->child[0]);
		nnodes = count_nodes(ptr);
	}
	for (int i = 0; ptr != 0 && nfound < n; i++)
	{
		RoseMemNodeShared *node = node_at(ptr);
		int64		part = (int64) i * (n + 1) / nnodes;

		/* what the first part begins with parts nothing */
		if (part > last_part && node_count(node) > 0)
			entries[nfound++] = rose_arena_link_read(&node->entry[0]);
		last_part = part;
		ptr = rose_arena_link_read(&node->right);
	}
	return nfound;
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

/* ---- changing ---- */

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

static void
remove_item(RoseMemNodeShared *node, int at)
{
	int			count = node->count;

	for (int i = at; i < count - 1; i++)
	{
		TreeItem	moved = get_item(node, i + 1);

		set_item(node, i, &moved);
	}
	set_count(node, count - 1);
}

bool
rose_memtree_remove(RoseMemtableShared *memtable, const RoseMemTarget *target,
					RoseArenaPtr entry)
{
	RoseMemNodeShared *node = node_at(memtable->tree);
	int			nbefore;

	for (;;)
	{
		nbefore = items_before(node, node->level > 0 ? 1 : 0, node->count, target);
		if (node->level == 0)
			break;
		node = node_at(node->child[nbefore - 1]);
	}
	if (nbefore == node->count || node->entry[nbefore] != entry)
		return false;			/* what the next leaf begins with is not before the target */
	Assert(nbefore > 0 || node->leftmost);
	remove_item(node, nbefore);
	return true;
}

/*
 * Does an item that goes behind all others leave the node full?  So where keys only ever
 * grow.  Not if what follows has its prefix, as where a key that follows is updated again
 * and again: each version would get a node.
 */
static inline bool
leaves_full(const RoseMemNodeShared *node, int at, const TreeItem *item)
{
	return at == ROSE_MEMTREE_FANOUT &&
		(node->right == 0 || node_at(node->right)->prefix[0] != item->prefix);
}

/*
 * Move the upper half of a full node to a new one at its right, and put the item
 * into the one where it belongs.
 */
static void
split_node(RoseMemNodeShared *node, RoseArenaPtr right_ptr, int at, const TreeItem *item)
{
	RoseMemNodeShared *right = node_at(right_ptr);
	int			keep = leaves_full(node, at, item) ? at : ROSE_MEMTREE_FANOUT / 2;
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
