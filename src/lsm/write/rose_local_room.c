/*-------------------------------------------------------------------------
 *
 * rose_local_room.c
 *	  Room for the rows of temporary tables: who spills what, and when.
 *
 * Their memtables share the arena of their session (memtable/rose_local_arena.c).  No
 * worker can spill them, and nobody but the session waits for room.  So who writes spills
 * what he writes to as it gets large, and merges it at once if that is due: nobody is
 * slowed down, and nothing is left for later.  While memory is not needed, rows stay
 * there, however old.
 *
 *	- a table with half of the arena is spilled
 *	- when the arena is nearly full, the largest tables are, however small, until half of it
 *	  is free: who finds nothing to spill looks again at each row, at all tables.  But not
 *	  one that this session is using at the moment, other than to write this row
 *	- a table of which most is what its transaction has superseded is spilled, as others are
 *	- a row that finds no room even so (there is none in one piece, or what takes the memory
 *	  is in use) goes past memory (rose_direct.c)
 *
 * What the running transaction has written goes to private runs: nothing is carried over.
 *
 * Locking: no LWLock is held by callers; spills take what they need.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "memtable/rose_local_arena.h"
#include "memtable/rose_pressure.h"
#include "lsm/tree/rose_local_trees.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_local_room.h"

/* Parts of the arena. */
#define SHARE_OF_TABLE		ROSE_SHARE_C0	/* a table with so much is spilled */
#define MARK_FULL			ROSE_MARK_LOCKED_NOTHING	/* from here on others are, ... */
#define MARK_ENOUGH			ROSE_MARK_LOCKED_LESS	/* ... down to this ... */
#define SHARE_WORTH_SPILL	ROSE_SHARE_WORTH_SPILL	/* that which is written to, if it has so much */

/* A temporary table, or an index of one. */
typedef struct Candidate
{
	RelFileLocator name;
	Oid			relid;
	uint64		bytes;
} Candidate;

typedef struct Candidates
{
	Candidate  *items;
	int			n;
	int			size;
} Candidates;

static Size
part(int share)
{
	return rose_pressure_part(rose_local_arena_total_bytes(), share);
}

static bool
spill(RoseTree *tree)
{
	if (!rose_spill_own(tree, InvalidOid, 0))
		return false;
	rose_tidy_own_runs(tree, false);
	return true;
}

/* ---- other tables ---- */

static void
collect(RoseTreeShared *shared, void *arg)
{
	Candidates *candidates = arg;
	Candidate  *item;
	uint64		bytes = rose_c0_bytes(&shared->c0);

	if (bytes == 0)
		return;
	if (candidates->n == candidates->size)
	{
		candidates->size *= 2;
		candidates->items = repalloc_huge(candidates->items, candidates->size * sizeof(Candidate));
	}
	item = &candidates->items[candidates->n++];
	item->name = shared->locator;
	item->relid = pg_atomic_read_u32(&shared->relid);
	item->bytes = bytes;
}

static int
compare_bytes(const void *a, const void *b)
{
	const Candidate *x = a;
	const Candidate *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static bool
spill_other(const Candidate *item)
{
	Relation	rel = rose_tree_relation_at_rest(item->relid, item->name);
	bool		spilled;

	if (rel == NULL)
		return false;
	spilled = spill(rose_tree_open(rel));
	relation_close(rel, AccessShareLock);
	return spilled;
}

/* The largest first, until there is room. */
static bool
spill_others(const RoseTree *tree)
{
	Candidates	candidates = {.size = 16};
	bool		spilled = false;

	candidates.items = palloc(candidates.size * sizeof(Candidate));
	rose_local_trees_visit(collect, &candidates);
	qsort(candidates.items, candidates.n, sizeof(Candidate), compare_bytes);
	for (int i = 0; i < candidates.n && rose_local_arena_used_bytes() > part(MARK_ENOUGH); i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!RelFileLocatorEquals(candidates.items[i].name, tree->locator) &&
			spill_other(&candidates.items[i]))
			spilled = true;
	}
	pfree(candidates.items);
	return spilled;
}

/* ---- when ---- */

static bool
is_mostly_superseded(const RoseC0Shared *c0, uint64 bytes)
{
	uint64		superseded = rose_c0_superseded_bytes(c0);

	return superseded >= bytes / 2 && superseded >= part(ROSE_SHARE_SUPERSEDED);
}

void
rose_local_room_keep_share(RoseTree *tree)
{
	const RoseC0Shared *c0 = &tree->shared->c0;
	uint64		bytes = rose_c0_bytes(c0);

	if (bytes >= part(SHARE_OF_TABLE) || is_mostly_superseded(c0, bytes))
		(void) spill(tree);
	if (rose_local_arena_used_bytes() < part(MARK_FULL))
		return;
	(void) spill_others(tree);
	if (rose_local_arena_used_bytes() > part(MARK_ENOUGH) && rose_c0_bytes(c0) >= part(SHARE_WORTH_SPILL))
		(void) spill(tree);
}

void
rose_local_room_make(RoseTree *tree)
{
	bool		worth = rose_c0_bytes(&tree->shared->c0) >= part(SHARE_WORTH_SPILL);

	CHECK_FOR_INTERRUPTS();
	if (spill_others(tree) || (worth && spill(tree)) || rose_direct_begin(tree, false))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("no room for rows of temporary table \"%s\" in memory",
					RelationGetRelationName(tree->rel)),
			 errdetail("%zu of %zu bytes are in use by rows that cannot be written to disk now.",
					   rose_local_arena_used_bytes(), rose_local_arena_total_bytes()),
			 errhint("Increase temp_buffers.")));
}
