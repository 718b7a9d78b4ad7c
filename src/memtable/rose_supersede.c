/*-------------------------------------------------------------------------
 *
 * rose_supersede.c
 *	  What a transaction supersedes of its own versions in C0, and of PARTIALs of others.
 *
 * Others see all that a transaction has written, or nothing.  It is the transaction
 * itself that sees its commands one by one.  So of the versions that it has written of a
 * key, each is of no use that a newer one stands for, whoever looks:
 *
 * - nobody has a snapshot that stands between the two, nor asks for the older one by its name (told_apart);
 * - the newer one cannot be rolled back without the older one (undone_apart);
 * - the newer one is whole, a row or a tombstone; or it is a PARTIAL that has all the columns of the older one, a
 *	 PARTIAL, too, and there is nothing whole between them: whoever puts the newer one together takes no value of the
 *	 older one, and finds the same below it, if there is anything.
 *
 * PARTIALs are read from the newest one down to what is whole.  So of those that earlier transactions have written
 * one after the other, the newest that every snapshot sees (everyone_sees) leaves older ones without use in the same
 * way, whatever becomes of the transaction that writes now.  Of whole rows the newest one is all that is
 * read, and the others wait for the spill.
 *
 * Neither is one that was rolled back.  Such a version is dead: it gets the hint of
 * aborted ones, so nobody finds it any more.
 *
 * Tombstones stay, and rows that came from another key: others may wait to learn what
 * became of a row (rose_gc.h).  But of several tombstones they ask for the oldest one,
 * which stands on the row that they know, and of the rest the newest one alone decides.
 *
 * The dead are taken out of the memtable at once, and their memory is used again
 * (rose_recycle.c).  What the tree cannot take out, the first entry of one of its leaves,
 * stays in the list, dead.
 *
 * Of entries that a spill has carried over from an older memtable the originals are there
 * still, alive.  A spill that fails and is repeated may carry them over again: each comes
 * behind the newer version that stands for it, and lives and goes with its transaction as
 * that does.
 *
 * Locking: the writing section in which the new version was linked.
 *
 * What this does not do: know snapshots; the caller has rules for that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_c0.h"
#include "memtable/rose_memtree.h"
#include "memtable/rose_recycle.h"
#include "memtable/rose_seqindex.h"

/*
 * Entries behind a new one that are looked at.  Usually there is the version before,
 * which the statement that has written the new one still looks at, and the one before
 * that, which goes.
 */
#define SUPERSEDE_LOOKS 12

/* A walk from a new version to older ones of its key. */
typedef struct SupersedeWalk
{
	RoseMemtableShared *memtable;
	const RoseOwnRules *rules;
	const RoseMemEntryShared *newest;
	const RoseMemEntryShared *above;	/* the next newer whole version that stays */
	const RoseMemEntryShared *settled;	/* the newest PARTIAL of others that everybody sees, or NULL */
	RoseArenaPtr tombstone;		/* one that may go if there is an older one, or 0 */
	int			ndead;			/* that were taken back */
	RoseArenaPtr dead[SUPERSEDE_LOOKS];
} SupersedeWalk;

static inline bool
is_dead(const RoseMemEntryShared *entry)
{
	return (entry->hints & ROSE_MEM_HINT_ABORTED) != 0 || (entry->flags & ROSE_ENTRY_TAKEN_BACK) != 0;
}

static void
kill(SupersedeWalk *walk, RoseArenaPtr ptr)
{
	RoseMemEntryShared *entry = rose_mementry_at(ptr);

	entry->flags |= ROSE_ENTRY_TAKEN_BACK;
	entry->hints |= ROSE_MEM_HINT_ABORTED;
	walk->memtable->nsuperseded++;
	walk->memtable->superseded += rose_mementry_piece_bytes(entry);
	walk->memtable->withdrawn += rose_mementry_piece_bytes(entry);
	walk->dead[walk->ndead++] = ptr;
}

/* Does a version stay, although there are newer ones?  REQUIRES: its transaction's own, not rolled back. */
static bool
stays(SupersedeWalk *walk, RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);
	const RoseMemEntryShared *above = walk->above;

	if (entry->op == ROSE_OP_TOMBSTONE && walk->tombstone != 0)
	{
		kill(walk, walk->tombstone);
		walk->tombstone = 0;
	}
	if ((entry->subxid != above->subxid && walk->rules->undone_apart(entry->cid, above->cid)) ||
		walk->rules->told_apart(entry->cid, above->cid) ||
		(entry->flags & ROSE_ENTRY_HAS_MOVED_TO) != 0)
		return true;
	if (entry->op == ROSE_OP_TOMBSTONE)
		walk->tombstone = ptr;
	return entry->op == ROSE_OP_TOMBSTONE;
}

/*
 * Has a PARTIAL all the columns of an older one?  Those that were added since it was written it has not, nor has any
 * bitmap bits for columns that were not there.
 */
static bool
has_columns_of(const RoseMemEntryShared *newer, const RoseMemEntryShared *older)
{
	const bits8 *has = rose_mementry_present(newer);
	const bits8 *asked = rose_mementry_present(older);

	for (int i = 0; i < older->present_bytes; i++)
		if ((asked[i] & ~(i < newer->present_bytes ? has[i] : 0)) != 0)
			return false;
	return true;
}

/*
 * The same for one of another transaction.  One that is older than what everybody sees was committed before that, or never
 * will be.
 */
static bool
look_at_other(SupersedeWalk *walk, RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);
	bool		hinted = (entry->hints & ROSE_MEM_HINT_COMMITTED) != 0;

	if (walk->newest->op != ROSE_OP_PARTIAL || entry->op != ROSE_OP_PARTIAL ||
		walk->rules->everyone_sees == NULL)
		return false;
	if (walk->settled != NULL)
	{
		if (has_columns_of(walk->settled, entry))
			kill(walk, ptr);
	}
	/* a subtransaction may have been rolled back */
	else if ((hinted || !TransactionIdIsValid(entry->subxid)) && walk->rules->everyone_sees(entry->xid, hinted))
		walk->settled = entry;
	return true;
}

/* Look at one more version; false: the rest is somebody else's, or of no concern. */
static bool
look_at(SupersedeWalk *walk, RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	if (!FullTransactionIdEquals(entry->xid, walk->newest->xid))
		return look_at_other(walk, ptr);
	if (TransactionIdIsValid(entry->subxid) && walk->rules->is_undone(entry->subxid))
		kill(walk, ptr);
	else if (walk->newest->op == ROSE_OP_PARTIAL && entry->op != ROSE_OP_PARTIAL)
		return false;			/* what is older than a whole version went with that */
	else if (walk->newest->op == ROSE_OP_PARTIAL && !has_columns_of(walk->newest, entry))
		return true;
	else if (!stays(walk, ptr))
		kill(walk, ptr);
	else if (entry->op != ROSE_OP_PARTIAL)
		walk->above = entry;
	return true;
}

/*
 * Take the dead out: first where they are looked for, then from the list.  An error in a
 * comparison leaves them where they are.
 */
static void
take_out(SupersedeWalk *walk, RoseMemTarget *target)
{
	RoseMemtableShared *memtable = walk->memtable;

	target->bound = ROSE_BEFORE_VERSION;
	for (int i = 0; i < walk->ndead; i++)
	{
		RoseArenaPtr ptr = walk->dead[i];

		target->seq = rose_mementry_at(ptr)->seq;
		if (!rose_memtree_remove(memtable, target, ptr))
			continue;
		rose_seqindex_remove(memtable, target->seq, ptr);
		rose_memlist_take_out(ptr);
		memtable->nentries--;
		memtable->nsuperseded--;
		rose_recycle_put(memtable, ROSE_PIECE_ENTRY, ptr);
	}
	rose_recycle_turn(memtable);
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
		(entry->op != ROSE_OP_PUT && entry->op != ROSE_OP_TOMBSTONE && entry->op != ROSE_OP_PARTIAL))
		return 0;
	walk.memtable = &c0->memtables[c0->active];
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema), ROSE_BEFORE_KEY, 0);
	for (int looks = 0; looks < SUPERSEDE_LOOKS; looks++)
	{
		const RoseMemEntryShared *older;

		ptr = rose_mementry_at(ptr)->next;
		older = ptr != 0 ? rose_mementry_at(ptr) : NULL;
		if (older == NULL || !rose_memlist_has_key(older, &target))
			break;
		if (!is_dead(older) && older->linked && older->op != ROSE_OP_LOCK &&
			!look_at(&walk, ptr))
			break;
	}
	if (walk.ndead > 0)
		take_out(&walk, &target);
	return walk.ndead;
}
