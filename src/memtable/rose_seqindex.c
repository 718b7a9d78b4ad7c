/*-------------------------------------------------------------------------
 *
 * rose_seqindex.c
 *	  A radix tree from sequence numbers to entries of one memtable.
 *
 * Six bits a level.  Each node says which range it covers: the sequence
 * numbers whose bits above its own are 'prefix'.  The root is only as high as
 * the sequences that are there need, and grows upwards when one comes from
 * outside its range, so a memtable full of neighbours has a low tree, and
 * entries carried over with much older sequences are found as well.
 *
 * Locking: one writer, under write_lock.  Nodes are filled before they are
 * published by one store of a RoseArenaPtr, after a write barrier; readers need no lock
 * but a reading section.  A node but the root goes when it is empty, and who is in it
 * still finds it empty until his section ends (rose_recycle.c).
 *
 * Readers mark in leaves what walks need not meet again.  Numbers are never given twice, so a
 * mark is good as long as the leaf is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_recycle.h"
#include "memtable/rose_seqindex.h"

#define ROSE_SEQ_BITS	6
#define ROSE_SEQ_FANOUT (1 << ROSE_SEQ_BITS)

StaticAssertDecl(ROSE_SEQ_FANOUT == ROSE_SEQINDEX_LEAF, "a walk takes a leaf");

typedef struct RoseSeqNodeShared
{
	uint64		prefix;			/* constant: seq >> (shift + ROSE_SEQ_BITS) */
	uint32		shift;			/* constant: 0 = children are entries */
	RoseArenaPtr chain;			/* of nodes that were taken out; write_lock */
	volatile uint64 hidden;		/* bit i: walks pass child i, an entry; a hint: anybody, no lock */
	RoseArenaPtr child[ROSE_SEQ_FANOUT];	/* write_lock, lock-free readers */
} RoseSeqNodeShared;

StaticAssertDecl(sizeof(RoseSeqNodeShared) == ROSE_SEQ_NODE_BYTES &&
				 offsetof(RoseSeqNodeShared, chain) == ROSE_SEQ_NODE_CHAIN,
				 "rose_recycle.c knows nodes by these");

/* As many levels as 64 bits have. */
#define ROSE_SEQ_MAX_LEVELS 11

/* The bits above a node with this shift. */
static inline uint64
prefix_of(uint64 seq, uint32 shift)
{
	return shift + ROSE_SEQ_BITS >= 64 ? 0 : seq >> (shift + ROSE_SEQ_BITS);
}

static inline int
child_of(uint64 seq, uint32 shift)
{
	return (seq >> shift) & (ROSE_SEQ_FANOUT - 1);
}

static RoseArenaPtr
make_node(RoseMemtableShared *memtable, uint64 prefix, uint32 shift)
{
	uint16		slack;			/* none: nodes have a size of their own */
	RoseArenaPtr ptr = rose_recycle_alloc(memtable, sizeof(RoseSeqNodeShared), &slack);
	RoseSeqNodeShared *node;

	if (ptr == 0)
		return 0;
	node = rose_arena_at(ptr);
	memset(node, 0, sizeof(RoseSeqNodeShared));
	node->prefix = prefix;
	node->shift = shift;
	return ptr;
}

/* Make sure that the root covers seq. */
static bool
grow_root(RoseMemtableShared *memtable, uint64 seq)
{
	if (memtable->seq_index == 0)
	{
		RoseArenaPtr leaf = make_node(memtable, prefix_of(seq, 0), 0);

		if (leaf == 0)
			return false;
		rose_arena_link_publish(&memtable->seq_index, leaf);
	}
	for (;;)
	{
		RoseSeqNodeShared *root = rose_arena_at(memtable->seq_index);
		uint32		shift = root->shift + ROSE_SEQ_BITS;
		RoseArenaPtr above;

		if (root->prefix == prefix_of(seq, root->shift))
			return true;
		above = make_node(memtable, root->prefix >> ROSE_SEQ_BITS, shift);
		if (above == 0)
			return false;
		((RoseSeqNodeShared *) rose_arena_at(above))->
			child[root->prefix & (ROSE_SEQ_FANOUT - 1)] = memtable->seq_index;
		rose_arena_link_publish(&memtable->seq_index, above);
	}
}

RoseArenaPtr *
rose_seqindex_reserve(RoseMemtableShared *memtable, uint64 seq)
{
	RoseSeqNodeShared *node;

	if (!grow_root(memtable, seq))
		return NULL;
	node = rose_arena_at(memtable->seq_index);
	while (node->shift > 0)
	{
		RoseArenaPtr *link = &node->child[child_of(seq, node->shift)];

		if (*link == 0)
		{
			uint32		shift = node->shift - ROSE_SEQ_BITS;
			RoseArenaPtr below = make_node(memtable, prefix_of(seq, shift), shift);

			if (below == 0)
				return NULL;
			rose_arena_link_publish(link, below);
		}
		node = rose_arena_at(*link);
	}
	return &node->child[child_of(seq, 0)];
}

void
rose_seqindex_store(RoseArenaPtr *slot, RoseArenaPtr entry)
{
	rose_arena_link_publish(slot, entry);
}

static bool
is_empty(const RoseSeqNodeShared *node)
{
	for (int i = 0; i < ROSE_SEQ_FANOUT; i++)
		if (node->child[i] != 0)
			return false;
	return true;
}

void
rose_seqindex_remove(RoseMemtableShared *memtable, uint64 seq, RoseArenaPtr entry)
{
	RoseArenaPtr *links[ROSE_SEQ_MAX_LEVELS + 1];	/* the root, and what leads down from it */
	int			n = 0;

	links[0] = &memtable->seq_index;
	for (uint32 shift = 1; shift > 0;)
	{
		RoseSeqNodeShared *node;

		if (*links[n] == 0)
			return;
		node = rose_arena_at(*links[n]);
		if (node->prefix != prefix_of(seq, node->shift))
			return;
		shift = node->shift;
		links[++n] = &node->child[child_of(seq, shift)];
	}
	if (*links[n] != entry)
		return;
	*(volatile RoseArenaPtr *) links[n] = 0;
	while (--n > 0 && is_empty(rose_arena_at(*links[n])))
	{
		RoseArenaPtr node = *links[n];

		*(volatile RoseArenaPtr *) links[n] = 0;
		rose_recycle_put(memtable, ROSE_PIECE_NODE, node);
	}
}

RoseArenaPtr
rose_seqindex_find(const RoseMemtableShared *memtable, uint64 seq)
{
	RoseArenaPtr ptr = rose_arena_link_read(&memtable->seq_index);
	const RoseSeqNodeShared *node;

	if (ptr == 0)
		return 0;
	node = rose_arena_at(ptr);
	if (node->prefix != prefix_of(seq, node->shift))
		return 0;
	for (;;)
	{
		ptr = rose_arena_link_read(&node->child[child_of(seq, node->shift)]);
		if (ptr == 0 || node->shift == 0)
			return ptr;
		node = rose_arena_at(ptr);
	}
}

/* The first number that a node covers. */
static inline uint64
first_of(const RoseSeqNodeShared *node)
{
	return node->shift + ROSE_SEQ_BITS >= 64 ? 0 : node->prefix << (node->shift + ROSE_SEQ_BITS);
}

/*
 * The leaf with the first number from *seq on that there may be an entry of, which *seq
 * becomes; 0 and *seq is behind the node, or 0 if nothing is: try again from there.
 */
static RoseArenaPtr
walk_down(RoseArenaPtr ptr, uint64 *seq)
{
	for (;;)
	{
		const RoseSeqNodeShared *node = rose_arena_at(ptr);
		uint64		first = first_of(node);
		RoseArenaPtr below = 0;
		int			i;

		for (i = child_of(*seq, node->shift); i < ROSE_SEQ_FANOUT; i++)
		{
			below = rose_arena_link_read(&node->child[i]);
			if (below != 0)
				break;
			*seq = first + ((uint64) (i + 1) << node->shift);
		}
		if (i == ROSE_SEQ_FANOUT)
			return 0;
		if (node->shift == 0)
			return ptr;
		ptr = below;
	}
}

/* The leaf with the first number from *seq on; 0: there is none. */
static RoseArenaPtr
walk_to_leaf(const RoseMemtableShared *memtable, uint64 *seq)
{
	do
	{
		RoseArenaPtr ptr = rose_arena_link_read(&memtable->seq_index);
		const RoseSeqNodeShared *node;

		if (ptr == 0)
			return 0;
		node = rose_arena_at(ptr);
		if (prefix_of(*seq, node->shift) > node->prefix)
			return 0;
		*seq = Max(*seq, first_of(node));
		ptr = walk_down(ptr, seq);
		if (ptr != 0)
			return ptr;
	} while (*seq != 0);		/* behind the greatest number that there can be */
	return 0;
}

int
rose_seqindex_walk(const RoseMemtableShared *memtable, uint64 *seq, RoseArenaPtr *leaf,
				   RoseArenaPtr *entries)
{
	const RoseSeqNodeShared *node;
	uint64		hidden;
	int			n = 0;

	*leaf = walk_to_leaf(memtable, seq);
	if (*leaf == 0)
		return 0;
	node = rose_arena_at(*leaf);
	hidden = node->hidden;
	for (int i = child_of(*seq, 0); i < ROSE_SEQ_FANOUT; i++)
	{
		entries[n] = rose_arena_link_read(&node->child[i]);
		n += entries[n] != 0 && (hidden >> i & 1) == 0;
	}
	*seq = first_of(node) + ROSE_SEQ_FANOUT;
	return n;
}

void
rose_seqindex_hide(RoseArenaPtr leaf, uint64 seq)
{
	RoseSeqNodeShared *node = rose_arena_at(leaf);

	Assert(node->shift == 0 && node->prefix == prefix_of(seq, 0));
	/* two who set a bit at once may lose one: it is set again */
	node->hidden |= UINT64CONST(1) << child_of(seq, 0);
}
