/*-------------------------------------------------------------------------
 *
 * rose_skiplist.h
 *	  Entries of a memtable and the skip list that orders them.  For this
 *	  folder only.
 *
 * Order: key ascending, sequence descending.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SKIPLIST_H
#define ROSE_SKIPLIST_H

#include "memtable/rose_arena.h"

#define ROSE_SKIPLIST_MAX_HEIGHT 16

/* What follows the links of an entry, in this order. */
#define ROSE_ENTRY_HAS_MOVED_TO 0x01	/* uint64 */
#define ROSE_ENTRY_HAS_ROW		0x02	/* MinimalTuple */
#define ROSE_ENTRY_HAS_ROWID	0x04	/* nothing: prefix is made from it */

/*
 * An entry.  All but the fields marked otherwise are constant once the entry
 * is in the list.
 */
typedef struct RoseMemEntryShared
{
	uint64		prefix;			/* 0: rose_key_prefix of the key */
	uint64		seq;			/* 8 */
	FullTransactionId xid;		/* 16 */
	TransactionId subxid;		/* 24 */
	CommandId	cid;			/* 28 */
	uint8		op;				/* 32: RoseOp */
	uint8		lockmode;		/* 33 */
	uint8		height;			/* 34: number of links */
	uint8		flags;			/* 35: ROSE_ENTRY_HAS_* */
	uint8		present_bytes;	/* 36: of the bitmap at the end, 0 = none */
	volatile uint8 linked;		/* 37: shown to readers; write_lock */
	volatile uint8 hints;		/* 38: RoseMemHint; anybody, no lock */
	uint8		padding;		/* 39 */
	RoseArenaPtr prev;			/* 40: level 0 predecessor or the head;
								 * write_lock, lock-free readers */
	RoseArenaPtr next[FLEXIBLE_ARRAY_MEMBER];	/* 44: write_lock, lock-free
												 * readers */
} RoseMemEntryShared;

StaticAssertDecl(offsetof(RoseMemEntryShared, next) == 44, "entries should stay small");

/* The head: an entry without content.  0 = arena full.  REQUIRES: write_lock. */
extern RoseArenaPtr rose_skiplist_create(RoseMemtableShared *memtable);

/* A filled entry, not in the list yet.  0 = arena full.  REQUIRES: write_lock. */
extern RoseArenaPtr rose_skiplist_make_entry(RoseMemtableShared *memtable,
											 const RoseSchema *schema,
											 const RoseVersion *version,
											 const Datum *key, MinimalTuple row);

/*
 * Put an entry in its place.  Readers skip it until it is marked linked.  An
 * error in a comparison leaves the list as it was.  REQUIRES: write_lock.
 */
extern void rose_skiplist_insert(RoseMemtableShared *memtable,
								 const RoseSchema *schema,
								 const Datum *key, RoseArenaPtr entry);

/* The parts of an entry. */
extern void rose_skiplist_get(const RoseSchema *schema, RoseArenaPtr ptr,
							  RoseMemEntryRef *ref);

/* --- positions; all REQUIRE reclaim_lock --- */

typedef enum RoseSkipBound
{
	ROSE_BEFORE_KEY,			/* entries with a smaller key */
	ROSE_BEFORE_VERSION,		/* ... or the same and a higher sequence */
	ROSE_THROUGH_KEY			/* entries with a smaller key or the same */
} RoseSkipBound;

/*
 * Last entry on the near side of a bound, or the head, and first entry on the
 * far side, or 0.  Either may be one that is not linked.
 * key: ncols columns; ncols = 0: all keys are the same.
 */
extern void rose_skiplist_find(RoseArenaPtr head, const RoseSchema *schema,
							   const Datum *key, int ncols,
							   RoseSkipBound bound, uint64 seq,
							   RoseArenaPtr *before, RoseArenaPtr *beyond);

/* Last of all, linked or not; the head if there is none. */
extern RoseArenaPtr rose_skiplist_find_last(RoseArenaPtr head);

/* Linked neighbours of an entry or of the head; 0 off the end. */
extern RoseArenaPtr rose_skiplist_after(RoseArenaPtr ptr);
extern RoseArenaPtr rose_skiplist_before(RoseArenaPtr head, RoseArenaPtr ptr);

static inline bool
rose_skiplist_is_linked(RoseArenaPtr ptr)
{
	return ((const RoseMemEntryShared *) rose_arena_at(ptr))->linked != 0;
}

#endif							/* ROSE_SKIPLIST_H */
