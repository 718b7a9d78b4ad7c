/*-------------------------------------------------------------------------
 *
 * rose_mementry.h
 *	  An entry of a memtable: how it lies in the arena.  For this folder only.
 *
 * MAXALIGNed:
 *
 *	  RoseMemEntryShared | moved_to | row | present bitmap
 *
 * where moved_to and row are MAXALIGNed and there only if flags say so.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMENTRY_H
#define ROSE_MEMENTRY_H

#include "memtable/rose_arena.h"

/* What follows the fixed part of an entry, in this order. */
#define ROSE_ENTRY_HAS_MOVED_TO 0x01	/* uint64 */
#define ROSE_ENTRY_HAS_ROW		0x02	/* MinimalTuple */
#define ROSE_ENTRY_HAS_ROWID	0x04	/* nothing: prefix is made from it */

/*
 * Comes later, and stays for good: when an entry came before it in the list that has the same prefix, and so
 * may be a newer version of its key.  write_lock, lock-free readers.  It is set before the
 * other one is shown.
 */
#define ROSE_ENTRY_PRECEDED		0x08

/*
 * Comes later, too: when it was taken back (rose_supersede.c).  Readers look at the hint; of one that was committed, somebody who sets
 * another hint at the same moment may undo that, which does no harm.  write_lock.
 */
#define ROSE_ENTRY_TAKEN_BACK	0x10

/*
 * An entry.  All but the fields marked otherwise are constant while the entry
 * is in the list, and as long as somebody may still look at it after that.
 */
typedef struct RoseMemEntryShared
{
	uint64		prefix;			/* 0: first word of the key's prefix */
	uint64		seq;			/* 8 */
	FullTransactionId xid;		/* 16 */
	TransactionId subxid;		/* 24 */
	CommandId	cid;			/* 28; of one that was taken out: a link (rose_recycle.c); write_lock */
	uint8		op;				/* 32: RoseOp */
	uint8		lockmode;		/* 33 */
	volatile uint8 flags;		/* 34: ROSE_ENTRY_HAS_*, and ROSE_ENTRY_PRECEDED */
	uint8		present_bytes;	/* 35: of the bitmap at the end, 0 = none */
	volatile uint8 linked;		/* 36: shown to readers; write_lock */
	volatile uint8 hints;		/* 37: ROSE_MEM_HINT_*; anybody, no lock */
	uint16		slack;			/* 38: units behind it that are its own; write_lock */
	RoseArenaPtr prev;			/* 40: predecessor or the head; write_lock,
								 * lock-free readers */
	RoseArenaPtr next;			/* 44: successor, 0 = none; write_lock,
								 * lock-free readers */
} RoseMemEntryShared;

StaticAssertDecl(sizeof(RoseMemEntryShared) == 48, "entries should stay small");

static inline RoseMemEntryShared *
rose_mementry_at(RoseArenaPtr ptr)
{
	return rose_arena_at(ptr);
}

/* Parts of an entry. */
static inline char *
rose_mementry_moved_to(const RoseMemEntryShared *entry)
{
	return (char *) entry + MAXALIGN(sizeof(RoseMemEntryShared));
}

static inline MinimalTuple
rose_mementry_row(const RoseMemEntryShared *entry)
{
	char	   *data = rose_mementry_moved_to(entry);

	if (entry->flags & ROSE_ENTRY_HAS_MOVED_TO)
		data += MAXALIGN(sizeof(uint64));
	return (MinimalTuple) data;
}

static inline bits8 *
rose_mementry_present(const RoseMemEntryShared *entry)
{
	MinimalTuple row = rose_mementry_row(entry);

	if (entry->flags & ROSE_ENTRY_HAS_ROW)
		return (bits8 *) row + MAXALIGN(row->t_len);
	return (bits8 *) row;
}

/* What an entry's parts take. */
static inline Size
rose_mementry_bytes(const RoseMemEntryShared *entry)
{
	return (char *) rose_mementry_present(entry) - (const char *) entry + entry->present_bytes;
}

/* What it takes in the arena, all of it. */
static inline Size
rose_mementry_piece_bytes(const RoseMemEntryShared *entry)
{
	return MAXALIGN(rose_mementry_bytes(entry)) + (Size) entry->slack * ROSE_ARENA_UNIT;
}

#endif							/* ROSE_MEMENTRY_H */
