/*-------------------------------------------------------------------------
 *
 * rose_c0.h
 *	  C0: the memory-resident component of a tree, which takes all writes.
 *
 * A tree's C0 is a RoseC0Shared: one active memtable and up to ROSE_MAX_MEMTABLES - 1
 * frozen ones that wait for their spill.  It is closed: only this folder takes its locks
 * or looks into its fields (src/test/test_house.pl sees to that).  What is one step for
 * others is a function here; what takes several is done in a section.
 *
 * Writing section (write_lock, exclusive).  One at a time for a tree: giving sequence
 * numbers, writing entries, freezing, and where the tail log goes on (rose_store.h).
 *
 * Reading section (rose_readers.h).  Any number, beside a writing one; as long as it
 * lasts, no memory of this C0 goes away.  Not longer than for a batch of rows.
 *
 * Sections are not nested.  In neither of them may anybody wait for a heavyweight lock,
 * and in a reading section there is no I/O, except that the source list of a scan is
 * taken while the metapage is read.  An error ends them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_C0_H
#define ROSE_C0_H

#include "memtable/rose_memtable.h"
#include "memtable/rose_readers.h"

struct RoseC0Shared
{
	LWLock		write_lock;
	uint64		next_seq;		/* write_lock */
	uint64		elsewhere;		/* who looked at a key before this number may have missed a
								 * version that is not in the active memtable; write_lock */
	uint64		age;			/* grows when a memtable leaves; by who retires it, read with no lock */
	int			active;			/* slot of the active memtable or -1; write_lock */
	bool		unnumbered;		/* see rose_c0_set_unnumbered; write_lock */
	bool		local;			/* see rose_c0_set_local; constant */
	RoseMemtableShared memtables[ROSE_MAX_MEMTABLES];
};

extern void rose_c0_init(RoseC0Shared *c0, uint64 next_seq);	/* new entry */

/*
 * Two keys of this tree may have versions of one number, and nobody asks for a version by
 * its number alone: so none is found by that (rose_memtable_find_seq), and there is no
 * sequence index.  REQUIRES: a writing section, and that there is no memtable, or that it
 * was said before.
 */
extern void rose_c0_set_unnumbered(RoseC0Shared *c0);

/*
 * It is in this process's own memory, and so are its memtables: nobody else reads or
 * writes it.  REQUIRES: nothing was written yet.
 */
extern void rose_c0_set_local(RoseC0Shared *c0);

/* --- sections --- */

static inline void
rose_c0_write_begin(RoseC0Shared *c0)
{
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
}

static inline void
rose_c0_write_end(RoseC0Shared *c0)
{
	LWLockRelease(&c0->write_lock);
}

static inline void
rose_c0_read_begin(RoseC0Shared *c0)
{
	rose_readers_enter(c0);
}

static inline void
rose_c0_read_end(RoseC0Shared *c0)
{
	rose_readers_leave(c0);
}

/* --- sequence numbers --- */

/*
 * take: the first of n numbers that are the caller's now.  raise: later ones are not
 * below this.  Both are a section of their own.
 */
extern uint64 rose_c0_take_sequence(RoseC0Shared *c0, uint64 n);
extern void rose_c0_raise_sequence(RoseC0Shared *c0, uint64 next_seq);

/* The number that the next version gets.  Exact in a writing section, else a hint. */
static inline uint64
rose_c0_next_sequence(const RoseC0Shared *c0)
{
	return *(const volatile uint64 *) &c0->next_seq;
}

/* REQUIRES: a writing section. */
extern void rose_c0_set_next_sequence(RoseC0Shared *c0, uint64 next_seq);

/* --- writing --- */

/*
 * Write one version into the active memtable (made if there is none).
 * REQUIRES: a writing section, from prepare to link.  version->seq must be
 * set: a new version has rose_c0_next_sequence(), which link uses up.
 *
 * Two steps, so that nothing can fail after the write was logged.  prepare fills the
 * entry and puts it in its place, hidden from readers; it returns false if there is no
 * room (arena full, or all slots hold memtables that wait for their spill), and then no
 * reader will ever notice.  link shows the entry to readers; it neither allocates nor
 * compares nor fails, so it is fit for a critical section.  Any number of entries may be
 * prepared, then linked in any order.  An entry that is prepared and never linked (an
 * error came between) stays hidden and costs its memory until the spill.
 *
 * key: the key's Datums (schema key width).  row: the row's MinimalTuple (for
 * a TOMBSTONE/LOCK all but the key columns NULL); copied.  NULL only for a row-id table.
 */
typedef struct RoseMemPending
{
	RoseArenaPtr entry;
	int			slot;
} RoseMemPending;
extern bool rose_c0_prepare(RoseC0Shared *c0, const RoseSchema *schema,
							const RoseVersion *version, const Datum *key,
							MinimalTuple row, RoseMemPending *pending);
extern void rose_c0_link(RoseC0Shared *c0, RoseMemPending *pending);

/*
 * What a writer has found out about a key, by looking at it in no section, must still
 * hold when it writes.  It notes the moment before it looks, and the write asks whether a
 * version of the key has come since.
 *
 * look_ends REQUIRES a writing section.  False: the question cannot be answered any more,
 * so look again.  True: then prepare_near answers it for each key, until the section
 * ends.
 */
typedef struct RoseC0Look
{
	uint64		since;			/* versions with smaller numbers were there */
	uint64		until;			/* those from this one on are the writer's own */
} RoseC0Look;
extern void rose_c0_look(const RoseC0Shared *c0, RoseC0Look *look);
extern bool rose_c0_look_ends(const RoseC0Shared *c0, RoseC0Look *look);

/* Versions that were never linked here can be found by now, in a component.  REQUIRES: a writing section. */
extern void rose_c0_note_elsewhere(RoseC0Shared *c0);

typedef enum RoseMemPrepared
{
	ROSE_MEM_PREPARED,
	ROSE_MEM_NO_ROOM,			/* arena full, or all slots wait for their spill */
	ROSE_MEM_CHANGED			/* a version of the key has come since the look */
} RoseMemPrepared;

/* hint: see rose_c0_probe.  look: NULL, whatever has come. */
extern RoseMemPrepared rose_c0_prepare_near(RoseC0Shared *c0, const RoseSchema *schema,
											const RoseVersion *version, const Datum *key,
											MinimalTuple row, const RoseMemSpot *hint,
											const RoseC0Look *look, RoseMemPending *pending);

/*
 * Give a LOCK entry, whose transaction has ended, to another transaction, if its memtable
 * is still the active one, and no version of its key has come since the look; returns its
 * sequence, else 0.  REQUIRES: a writing section, and that nobody looks at who holds the
 * locks of this key meanwhile.
 */
extern uint64 rose_c0_reuse_lock(RoseC0Shared *c0, const RoseSchema *schema, uint64 memtable_id,
								 RoseArenaPtr ptr, RoseC0Look *look, const RoseVersion *version);

/*
 * What a transaction says of its own commands and subtransactions, earlier <= later.
 *
 * told_apart: may anybody want what the earlier command wrote, and not what the later one
 * did?  undone_apart: can the later one still be rolled back without the earlier one?
 * is_undone: was this subtransaction rolled back?  everyone_sees: and of other transactions,
 * has this one committed (hinted: yes), and does every snapshot see it that there is or will be?  False if
 * that is not known; NULL: do not ask.  They are asked in the middle of a change: none may fail, or do I/O.
 */
typedef struct RoseOwnRules
{
	bool		(*told_apart) (CommandId earlier, CommandId later);
	bool		(*undone_apart) (CommandId earlier, CommandId later);
	bool		(*is_undone) (TransactionId subxid);
	bool		(*everyone_sees) (FullTransactionId xid, bool hinted);
} RoseOwnRules;

/*
 * A version was linked in this section, and logged.  Take back those of its key that it
 * leaves without use (memtable/rose_supersede.c); the next spill leaves them.  Returns
 * how many.
 */
extern int	rose_c0_supersede(RoseC0Shared *c0, const RoseSchema *schema, const Datum *key,
							  RoseArenaPtr newest, const RoseOwnRules *rules);

/* --- lives of memtables --- */

/*
 * These REQUIRE a writing section.
 *
 * set_tail_segment: segments of the tail log up to this one make the active memtable
 * durable.  freeze: the active memtable's slot, or -1 if it is empty or no slot is free
 * for a new one (may_freeze asks before); the next prepare makes the new one.  clear:
 * free everything, of a C0 that nobody reads.
 */
extern void rose_c0_set_tail_segment(RoseC0Shared *c0, uint32 segment);
extern bool rose_c0_may_freeze(const RoseC0Shared *c0);
extern int	rose_c0_freeze(RoseC0Shared *c0);
extern void rose_c0_clear(RoseC0Shared *c0);

/* What a spill has to know of a frozen memtable, as of one moment. */
typedef struct RoseFrozenMemtable
{
	uint32		tail_segment;	/* 0: it was not logged */
	uint64		frozen_for;		/* epoch, 0 = none */
	uint64		next_seq;		/* of the whole C0 */
	int			npending;		/* memtables of the whole C0 whose rows are in pending runs */
} RoseFrozenMemtable;

/*
 * These are sections of their own.  Who calls them sees to it that nobody else retires
 * frozen memtables.  Retiring waits for reading sections to end, and nobody waits for
 * that: neither readers nor writers.
 *
 * drop_unused: retire an active memtable that a write had no room in after all.
 * oldest_frozen: slot of the oldest frozen memtable whose rows are in no pending run, or
 * -1; oldest_frozen_for: if it was frozen for this epoch.  describe_frozen: see there.
 * retire: give it back, since its rows are where readers will find them.  set_pending:
 * its rows are in a pending run of this epoch.
 */
extern int	rose_c0_oldest_frozen(RoseC0Shared *c0);
extern int	rose_c0_oldest_frozen_for(RoseC0Shared *c0, uint64 epoch);
extern void rose_c0_describe_frozen(RoseC0Shared *c0, int slot, RoseFrozenMemtable *frozen);
extern void rose_c0_drop_unused(RoseC0Shared *c0);
extern void rose_c0_retire(RoseC0Shared *c0, int slot);
extern void rose_c0_set_pending(RoseC0Shared *c0, int slot, uint64 epoch);

/*
 * Epochs, each with those before it.  freeze_for: what is frozen and in no pending run is
 * for this epoch; *nbytes grows by what it holds; false if rows are in an active memtable
 * still.  retire_covered: the memtables whose pending runs are of it.  covered_tail: tail
 * segments up to this one nobody needs without those; 0: none.
 */
extern bool rose_c0_freeze_for(RoseC0Shared *c0, uint64 epoch, uint64 *nbytes);
extern uint32 rose_c0_covered_tail(RoseC0Shared *c0, uint64 epoch);
extern void rose_c0_retire_covered(RoseC0Shared *c0, uint64 epoch);

/* --- questions --- */

/* Does this slot have a memtable that may be read, and which?  REQUIRES: a reading section; else a hint. */
static inline bool
rose_c0_has_memtable(const RoseC0Shared *c0, int slot)
{
	RoseMemtableState state = *(const volatile RoseMemtableState *) &c0->memtables[slot].state;

	return state == ROSE_MEMTABLE_ACTIVE || state == ROSE_MEMTABLE_FROZEN ||
		(unlikely(state == ROSE_MEMTABLE_LEAVING) &&
		 rose_readers_began_before(c0, c0->memtables[slot].left_at));
}

extern uint64 rose_c0_memtable_id(const RoseC0Shared *c0, int slot);	/* 0: none */

/* Arena bytes of a memtable that is frozen. */
static inline uint64
rose_c0_frozen_bytes(const RoseC0Shared *c0, int slot)
{
	return c0->memtables[slot].nbytes;
}

/*
 * Has another memtable than this one the version of this (whole) key and number?
 * REQUIRES: a writing section, and that nobody retires memtables.
 */
extern bool rose_c0_has_elsewhere(RoseC0Shared *c0, int slot, const RoseSchema *schema,
								  const Datum *key, uint64 seq);

/* Exact in a writing section, else hints.  An empty one may have a memtable without rows. */
extern bool rose_c0_is_empty(const RoseC0Shared *c0);
extern bool rose_c0_has_memtables(const RoseC0Shared *c0);
extern uint64 rose_c0_bytes(const RoseC0Shared *c0);
extern uint64 rose_c0_versions(const RoseC0Shared *c0); /* see rose_memtable_versions */
extern uint64 rose_c0_superseded_bytes(const RoseC0Shared *c0); /* that memory is not in use */
extern uint64 rose_c0_withdrawn_bytes(const RoseC0Shared *c0);	/* about as many has the tail log of these */
extern TimestampTz rose_c0_first_write(const RoseC0Shared *c0); /* 0 = empty */

/*
 * Sections of their own.  has_frozen: is there a memtable that waits for its spill, or for its epoch?  was_empty: as is_empty, exact.  oldest_xid: of a version in any
 * memtable; invalid if there is none.  describe: copies of the headers, as of one moment.
 */
extern bool rose_c0_has_frozen(RoseC0Shared *c0);
extern bool rose_c0_was_empty(RoseC0Shared *c0);
extern FullTransactionId rose_c0_oldest_xid(RoseC0Shared *c0);
extern void rose_c0_describe(RoseC0Shared *c0, RoseMemtableShared memtables[ROSE_MAX_MEMTABLES]);

#endif							/* ROSE_C0_H */
