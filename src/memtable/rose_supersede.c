/*-------------------------------------------------------------------------
 *
 * rose_supersede.c
 *	  What a transaction supersedes of its own versions in C0.
 *
 * Others see all that a transaction has written, or nothing.  It is the transaction
 * itself that sees its commands one by one.  So of the versions that it has written of a
 * key, each is of no use that a newer one stands for, whoever looks:
 *
 * - nobody has a snapshot that stands between the two, nor asks for the older one by its name (told_apart);
 * - the newer one cannot be rolled back without the older one (undone_apart);
 * - the newer one is whole: a row, or a tombstone.
 *
 * Neither is one that was rolled back.  Such a version is dead: it gets the hint of
 * aborted ones, so nobody finds it any more.
 *
 * Tombstones stay, and rows that came from another key: others may wait to learn what
 * became of a row (rose_gc.h).  But of several tombstones they ask for the oldest one,
 * which stands on the row that they know, and of the rest the newest one alone decides.
 *
 * Rows of the dead.  They stay in the list, where a reader would walk over a million of
 * them.  So the first one of a row of them knows the last one (hint SKIP), and the last
 * one the first (hint BACK), and readers go from one end to the other (rose_memlist.c).
 * What nobody wants to know of the dead any more makes room for that: the command id,
 * which means something to their own transaction alone, and that is who writes here.
 * Nothing ever comes in between two of the dead, as long as both have got their numbers
 * in this memtable's time: a new version of the key has a greater number than both, and
 * one that is carried over from an older memtable a smaller one.  Those that were carried
 * over themselves are in no row.
 *
 * Pointers are only ever set anew to an entry that is further away, within one row of the
 * dead.  So whoever reads an old one is led right, too.
 *
 * Locking: the writing section in which the new version was linked.
 *
 * What this does not do: give memory back, which is for the spill of the memtable.  It
 * knows no snapshots either; the caller has rules for that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"

#include "memtable/rose_c0.h"
#include "memtable/rose_memlist.h"

/*
 * Entries behind a new one that are looked at; a row of the dead counts for two.  Usually
 * there is the version before, which the statement that has written the new one still
 * looks at, and the one before that, which goes.
 */
#define SUPERSEDE_LOOKS 12

/* A walk from a new version to older ones of its key. */
typedef struct SupersedeWalk
{
	RoseMemtableShared *memtable;
	const RoseOwnRules *rules;
	const RoseMemEntryShared *newest;
	const RoseMemEntryShared *above;	/* the next newer whole version that stays */
	RoseMemEntryShared *tombstone;	/* one that may go if there is an older one, or NULL */
	RoseArenaPtr dead_first;	/* the row of the dead that is being walked over, or 0 */
	RoseArenaPtr dead_last;
	int			taken_back;
} SupersedeWalk;

static inline bool
is_dead(const RoseMemEntryShared *entry)
{
	return (entry->hints & ROSE_MEM_HINT_ABORTED) != 0;
}

static void
kill(SupersedeWalk *walk, RoseMemEntryShared *entry)
{
	entry->hints |= ROSE_MEM_HINT_ABORTED;
	walk->memtable->nsuperseded++;
	walk->memtable->superseded += rose_memlist_entry_bytes(entry);
	walk->taken_back++;
}

/* Have an end of a row of the dead point to the other one. */
static void
point(RoseMemEntryShared *end, RoseArenaPtr other, uint8 hint)
{
	end->cid = other;
	pg_write_barrier();
	end->hints |= hint;
}

static void
end_dead(SupersedeWalk *walk)
{
	if (walk->dead_first != walk->dead_last)
	{
		point(rose_mementry_at(walk->dead_first), walk->dead_last, ROSE_MEM_HINT_SKIP);
		point(rose_mementry_at(walk->dead_last), walk->dead_first, ROSE_MEM_HINT_BACK);
	}
	walk->dead_first = walk->dead_last = 0;
}

/* One more dead entry, and the rest of its row; returns where that ends. */
static RoseArenaPtr
pass_dead(SupersedeWalk *walk, RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	if (entry->seq < walk->memtable->first_seq)
	{
		end_dead(walk);
		return ptr;
	}
	if (walk->dead_first == 0)
		walk->dead_first = ptr;
	walk->dead_last = (entry->hints & ROSE_MEM_HINT_SKIP) != 0 ? entry->cid : ptr;
	return walk->dead_last;
}

/* Does a version stay, although there are newer ones?  REQUIRES: its transaction's own, not rolled back. */
static bool
stays(SupersedeWalk *walk, RoseMemEntryShared *entry)
{
	const RoseMemEntryShared *above = walk->above;

	if (entry->op == ROSE_OP_TOMBSTONE && walk->tombstone != NULL)
	{
		kill(walk, walk->tombstone);
		walk->tombstone = NULL;
	}
	if ((entry->subxid != above->subxid && walk->rules->undone_apart(entry->cid, above->cid)) ||
		walk->rules->told_apart(entry->cid, above->cid) ||
		(entry->flags & ROSE_ENTRY_HAS_MOVED_TO) != 0)
		return true;
	if (entry->op == ROSE_OP_TOMBSTONE)
		walk->tombstone = entry;
	return entry->op == ROSE_OP_TOMBSTONE;
}

/* Look at one more version; false: the rest is somebody else's. */
static bool
look_at(SupersedeWalk *walk, RoseMemEntryShared *entry)
{
	if (!FullTransactionIdEquals(entry->xid, walk->newest->xid))
		return false;
	if (TransactionIdIsValid(entry->subxid) && walk->rules->is_undone(entry->subxid))
		kill(walk, entry);
	else if (!stays(walk, entry))
		kill(walk, entry);
	else if (entry->op != ROSE_OP_PARTIAL)
		walk->above = entry;
	return true;
}

int
rose_c0_supersede(RoseC0Shared *c0, const RoseSchema *schema, const Datum *key,
				  RoseArenaPtr newest, const RoseOwnRules *rules)
{
	const RoseMemEntryShared *entry = rose_mementry_at(newest);
	SupersedeWalk walk = {.rules = rules, .newest = entry, .above = entry};
	RoseArenaPtr ptr = newest;
	RoseMemTarget target;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	if (entry->next == 0 || rose_mementry_at(entry->next)->prefix != entry->prefix ||
		(entry->op != ROSE_OP_PUT && entry->op != ROSE_OP_TOMBSTONE))
		return 0;
	walk.memtable = &c0->memtables[c0->active];
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema), ROSE_BEFORE_KEY, 0);
	for (int looks = 0; looks < SUPERSEDE_LOOKS; looks++)
	{
		RoseMemEntryShared *older;

		ptr = rose_mementry_at(ptr)->next;
		older = ptr != 0 ? rose_mementry_at(ptr) : NULL;
		if (older == NULL || !rose_memlist_has_key(older, &target))
			break;
		if (!is_dead(older) && older->linked && older->op != ROSE_OP_LOCK &&
			!look_at(&walk, older))
			break;
		if (is_dead(older))
			ptr = pass_dead(&walk, ptr);
		else
			end_dead(&walk);
	}
	end_dead(&walk);
	return walk.taken_back;
}
