/*-------------------------------------------------------------------------
 *
 * rose_recycle.c
 *	  Memory of what was taken out of a memtable, used again before the spill.
 *
 * A piece that is put here can be reached by nobody who begins to read now: it is in
 * neither the tree nor the index nor the list.  But readers in a section may be on it, or
 * come to it by links of others that were taken out after it was theirs.  So pieces go
 * through three states:
 *
 * open: taken out since the last turn;
 * waiting: a turn has come, and sections are looked at that were under way then, one
 *	reader after the other, and nobody waits for them;
 * free: all of these have ended.  Then nobody is on a piece, nor on one from which a link
 *	leads to it: what was taken out before it has waited before it, or with it.
 *
 * Between two sections a cursor keeps the address of an entry.  So the memtable counts
 * turns.  A cursor notes the count before it looks for its entry.  The entry was in the
 * list at some moment of that section; if it was taken out since, and the turn has come
 * for it, the count is another one, and the cursor looks for its place by the key
 * (rose_mem_cursor_stands).  If the turn comes after the cursor has compared, then its
 * new section is one of those that are waited for: the count changes before readers are
 * looked at.
 *
 * Free pieces are kept by their size: each size of up to EXACT units, and from there on
 * STEPS sizes for each power of two, which larger entries are rounded up to from then on
 * that the memtable has such pieces.  An entry that has more than it needs says by how
 * much (slack).
 *
 * Pieces of one memtable stay in it.  Frozen ones take and give nothing.
 *
 * Locking: write_lock; readers look at the turn and at whether there is a recycler.
 *
 * What this does not do: decide what goes (rose_supersede.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "memtable/rose_mementry.h"
#include "memtable/rose_recycle.h"
#include "memtable/rose_seqindex.h"

/* Sizes, in units.  What is larger than the last one is kept with it, and never found for its own size. */
#define EXACT_BITS		6
#define EXACT			(1 << EXACT_BITS)
#define STEP_BITS		3
#define STEPS			(1 << STEP_BITS)
#define POWERS			7
#define NSIZES			(EXACT + POWERS * STEPS)

/* A turn comes with so many bytes, or with a part of the memtable if that is more, but with this at most. */
#define TURN_MIN_BYTES	2048
#define TURN_PART		16
#define TURN_MAX_BYTES	(64 * 1024)

/* Pieces that were taken out. */
typedef struct RosePiecesShared
{
	RoseArenaPtr first[ROSE_PIECE_KINDS];	/* chained by what readers do not look at */
	uint32		bytes;
} RosePiecesShared;

/* A free piece. */
typedef struct RoseFreePieceShared
{
	RoseArenaPtr next;			/* of its class */
	uint32		units;
} RoseFreePieceShared;

/* All of it: write_lock. */
typedef struct RoseRecyclerShared
{
	RosePiecesShared open;
	RosePiecesShared waiting;
	int			next_reader;	/* those before were seen outside of the sections that are waited for */
	RoseArenaPtr free[NSIZES];	/* by size */
} RoseRecyclerShared;

/* The link of a piece to the next one that was taken out. */
static RoseArenaPtr *
chain_of(RosePieceKind kind, RoseArenaPtr ptr)
{
	if (kind == ROSE_PIECE_ENTRY)
		return &rose_mementry_at(ptr)->cid;
	return (RoseArenaPtr *) ((char *) rose_arena_at(ptr) + ROSE_SEQ_NODE_CHAIN);
}

static Size
bytes_of(RosePieceKind kind, RoseArenaPtr ptr)
{
	return kind == ROSE_PIECE_ENTRY ? rose_mementry_piece_bytes(rose_mementry_at(ptr)) : ROSE_SEQ_NODE_BYTES;
}

static inline RoseRecyclerShared *
recycler_of(const RoseMemtableShared *memtable)
{
	return rose_arena_at(memtable->recycler);
}

static bool
create(RoseMemtableShared *memtable)
{
	RoseArenaPtr ptr = rose_arena_alloc(memtable, sizeof(RoseRecyclerShared));

	if (ptr == 0)
		return false;
	memset(rose_arena_at(ptr), 0, sizeof(RoseRecyclerShared));
	rose_arena_link_publish(&memtable->recycler, ptr);
	return true;
}

/* ---- free pieces ---- */

/* The largest size that is not above this one. */
static int
size_below(Size units)
{
	int			power;

	if (units < EXACT)
		return units;
	power = pg_leftmost_one_pos32(Min(units, PG_UINT32_MAX));
	if (power >= EXACT_BITS + POWERS)
		return NSIZES - 1;
	return EXACT + (power - EXACT_BITS) * STEPS + ((units >> (power - STEP_BITS)) & (STEPS - 1));
}

static Size
units_of_size(int size)
{
	int			power = (size - EXACT) / STEPS + EXACT_BITS;

	if (size < EXACT)
		return size;
	return ((Size) STEPS + size % STEPS) << (power - STEP_BITS);
}

static void
add_free(RoseRecyclerShared *recycler, RoseArenaPtr ptr, Size bytes)
{
	RoseFreePieceShared *piece = rose_arena_at(ptr);
	RoseArenaPtr *list = &recycler->free[size_below(bytes / ROSE_ARENA_UNIT)];

	piece->units = bytes / ROSE_ARENA_UNIT;
	piece->next = *list;
	*list = ptr;
}

RoseArenaPtr
rose_recycle_take(RoseMemtableShared *memtable, Size bytes, uint16 *slack)
{
	Size		units = bytes / ROSE_ARENA_UNIT;
	int			size = size_below(units);
	RoseArenaPtr *list;
	RoseArenaPtr ptr;

	if (units_of_size(size) < units)
		size++;
	if (size >= NSIZES)
		return rose_arena_alloc(memtable, bytes);
	list = &recycler_of(memtable)->free[size];
	ptr = *list;
	if (ptr != 0)
	{
		const RoseFreePieceShared *piece = rose_arena_at(ptr);

		if (piece->units - units <= PG_UINT16_MAX)
		{
			*list = piece->next;
			*slack = piece->units - units;
			memtable->superseded -= (uint64) piece->units * ROSE_ARENA_UNIT;
			return ptr;
		}
	}
	*slack = units_of_size(size) - units;
	return rose_arena_alloc(memtable, units_of_size(size) * ROSE_ARENA_UNIT);
}

void
rose_recycle_unused(RoseMemtableShared *memtable, RoseArenaPtr ptr, Size size)
{
	if (rose_arena_undo(memtable, ptr, size))
		return;
	memtable->superseded += size;
	if (memtable->recycler != 0)
		add_free(recycler_of(memtable), ptr, size);
}

/* ---- turns ---- */

void
rose_recycle_put(RoseMemtableShared *memtable, RosePieceKind kind, RoseArenaPtr ptr)
{
	RosePiecesShared *open;

	if (memtable->recycler == 0 && !create(memtable))
		return;
	if (kind == ROSE_PIECE_NODE)
		memtable->superseded += ROSE_SEQ_NODE_BYTES;	/* entries are counted already */
	open = &recycler_of(memtable)->open;
	*chain_of(kind, ptr) = open->first[kind];
	open->first[kind] = ptr;
	open->bytes += bytes_of(kind, ptr);
}

static void
free_waiting(RoseRecyclerShared *recycler)
{
	for (RosePieceKind kind = 0; kind < ROSE_PIECE_KINDS; kind++)
	{
		RoseArenaPtr ptr = recycler->waiting.first[kind];

		while (ptr != 0)
		{
			RoseArenaPtr next = *chain_of(kind, ptr);

			add_free(recycler, ptr, bytes_of(kind, ptr));
			ptr = next;
		}
	}
	memset(&recycler->waiting, 0, sizeof(recycler->waiting));
}

void
rose_recycle_turn(RoseMemtableShared *memtable)
{
	RoseRecyclerShared *recycler;
	uint64		enough = Min(Max(memtable->nbytes / TURN_PART, TURN_MIN_BYTES), TURN_MAX_BYTES);

	if (memtable->recycler == 0)
		return;
	recycler = recycler_of(memtable);
	if (recycler->waiting.bytes == 0)
	{
		if (recycler->open.bytes < enough)
			return;
		recycler->waiting = recycler->open;
		memset(&recycler->open, 0, sizeof(recycler->open));
		recycler->next_reader = 0;
		pg_write_barrier();		/* all were taken out before cursors hear of it */
		memtable->turn++;
	}
	if (rose_readers_are_past(memtable->local, &recycler->next_reader))
		free_waiting(recycler);
}
