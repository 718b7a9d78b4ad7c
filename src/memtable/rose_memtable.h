/*-------------------------------------------------------------------------
 *
 * rose_memtable.h
 *	  Memtables: the arena that they live in, their entries, and reading them.
 *
 * Memtables live in one arena in main shared memory, shared by all tables of the
 * cluster; everything in it is addressed by RoseArenaPtr (offset in 8-byte units).  Those
 * of temporary tables live in memory of their session (rose_local_arena.h).
 * A memtable has a slot in the C0 of its tree (rose_c0.h), which is where entries are
 * written and memtables are frozen and freed.
 *
 * A memtable is born (FREE to ACTIVE) and frozen in a writing section alone, so a reader
 * may see a slot come to life; it dies when no reading section is under way, and writers
 * do not wait for that.  A reader that missed one being born misses only versions that
 * were written after it looked.  In a reading section readers walk the sorted list
 * without any further lock while a writer appends.
 *
 * README.md beside this file tells the rest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMTABLE_H
#define ROSE_MEMTABLE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "storage/lwlock.h"

#include "util/rose_schema.h"
#include "util/rose_version.h"

typedef uint32 RoseArenaPtr;	/* in units of 8 bytes; 0 = none; reaches 31 GB, and 1 GB of
								 * the process's own */

#define ROSE_MAX_MEMTABLES 4

typedef enum RoseMemtableState
{
	ROSE_MEMTABLE_FREE = 0,
	ROSE_MEMTABLE_ACTIVE,
	ROSE_MEMTABLE_FROZEN,
	ROSE_MEMTABLE_LEAVING,		/* sections that begin do not find it; those under way do */
	ROSE_MEMTABLE_DEAD			/* nobody reads it; its memory is being given back */
} RoseMemtableState;

typedef struct RoseMemtableShared
{
	/*
	 * Set under write_lock when the slot is FREE, then published by state;
	 * cleared when nobody reads it any more.
	 */
	uint64		id;				/* never reused within a server start; 0 = none */
	bool		local;			/* it is this process's own; constant while it lives */
	RoseMemtableState state;	/* to ACTIVE, FROZEN and FREE under write_lock, else by who
								 * retires it */
	uint64		left_at;		/* LEAVING: age of the C0 since then */
	uint32		turn;			/* grows before memory of entries that were taken out is used again;
								 * write_lock, lock-free readers */
	RoseArenaPtr recycler;		/* what knows that memory, 0 = none was taken out; write_lock,
								 * lock-free readers */
	RoseArenaPtr head;			/* before the first entry of the sorted list */
	RoseArenaPtr tree;			/* root of the tree over it; write_lock,
								 * lock-free readers */
	RoseArenaPtr last_leaf;		/* of the tree; write_lock, lock-free readers */

	RoseArenaPtr seq_index;		/* root of the sequence index, 0 if there is none; write_lock,
								 * lock-free readers */
	uint64		first_seq;		/* numbers from here on were given in its time; set at its birth */
	uint64		min_seq;		/* write_lock */
	uint64		max_seq;		/* write_lock */
	uint64		nentries;		/* write_lock */
	uint64		nbytes;			/* arena bytes held; write_lock */
	uint64		nsuperseded;	/* entries that rose_c0_supersede has taken back, and that are in the
								 * list still; write_lock */
	uint64		superseded;		/* of nbytes, what they take, and what was taken out and is not in use
								 * again; write_lock */
	uint64		withdrawn;		/* what all took that rose_c0_supersede has ever taken back; write_lock */
	TimestampTz first_write;	/* write_lock; 0 = empty */
	uint32		chunk_first;	/* newest page run owned, 0 = none; write_lock */
	uint64		bump;			/* allocation point, byte in arena; write_lock */
	uint64		bump_end;		/* end of the chunk it is in; write_lock */
	uint32		tail_segment;	/* newest segment of the tail log that makes it durable,
								 * 0 = none; write_lock */
	FullTransactionId oldest_xid;	/* oldest xid in it; write_lock */
	uint64		frozen_for;		/* epoch that it was frozen for, 0 = none; write_lock */
	uint64		pending_epoch;	/* epoch of the pending run that has its rows, 0 =
								 * none; write_lock */
} RoseMemtableShared;

/* Versions that its transactions have not taken back themselves.  Of a memtable that others write to: a hint. */
static inline uint64
rose_memtable_versions(const RoseMemtableShared *memtable)
{
	uint64		nsuperseded = memtable->nsuperseded;
	uint64		nentries = memtable->nentries;

	/* it may be given back between the two */
	return nentries > nsuperseded ? nentries - nsuperseded : 0;
}

/* See rose_c0.h. */
typedef struct RoseC0Shared RoseC0Shared;

/* The part of an entry that readers get: header copied, row in the arena. */
typedef struct RoseMemEntryRef
{
	RoseArenaPtr ptr;
	uint64		prefix;			/* rose_key_prefix of its key */
	RoseVersion version;		/* present points into the arena, or is
								 * palloc'd if the table has got columns since */
	MinimalTuple row;			/* in the arena; NULL for LOCK of a row-id table */
	uint8		hints;			/* ROSE_MEM_HINT_*, as last seen */
} RoseMemEntryRef;

/*
 * Hint bits.  They are what changes of a linked entry; and of a lock that is reused, all
 * does.
 */
#define ROSE_MEM_HINT_COMMITTED 0x01
#define ROSE_MEM_HINT_ABORTED	0x02	/* or taken back by its own transaction */

/* --- shared memory and settings (memtable/rose_arena.c) --- */
extern void rose_arena_define_settings(void);	/* rose.memtable_size */
extern Size rose_arena_shmem_size(void);
extern void rose_arena_shmem_init(bool found);	/* under AddinShmemInitLock */
extern Size rose_arena_total_bytes(void);
extern Size rose_arena_used_bytes(void);

/*
 * Is there room for what this process asked for last and did not get?  Enough in all is
 * not enough: it has to be in one piece.
 */
extern bool rose_arena_has_refused(void);
extern Size rose_arena_refused_bytes(void);

/*
 * A part of the arena is kept free for spills: set it around the writes of one (and
 * in a PG_FINALLY), so that versions can be carried over when the arena is full.
 */
extern bool rose_arena_use_reserve;

/*
 * --- reading (memtable/rose_mem_cursor.c).  All REQUIRE a reading section, or that the memtable cannot be freed
 * for another reason. ---
 */

/* Where a walk is, to fetch entries ahead of it; private to this module. */
typedef struct RoseMemAhead
{
	RoseArenaPtr parent;		/* of the leaf that the walk is in; 0: off */
	int			index;			/* of the leaf in it */
	bool		forward;
	RoseArenaPtr some;			/* the next leaf, if its entries are fetched a few at a time; or 0 */
	int			at;
	int			due;			/* 'at' at which there is something to do */
	int			count;			/* entries of the leaf */
	int			row_bytes;		/* of rows that will be looked at */
} RoseMemAhead;

typedef struct RoseMemCursor
{
	RoseC0Shared *c0;
	const RoseSchema *schema;
	int			slot;
	uint64		memtable_id;	/* slot's id when opened */
	uint32		turn;			/* the memtable's, before current was found */
	RoseArenaPtr current;		/* entry under the cursor, 0 = off either end */
	RoseMemAhead ahead;
} RoseMemCursor;

/* Bind a cursor to a memtable slot; position undefined until a seek. */
extern void rose_mem_cursor_open(RoseMemCursor *cursor, RoseC0Shared *c0,
								 const RoseSchema *schema, int slot);

/* False when the memtable was freed since open: do not touch the cursor. */
extern bool rose_mem_cursor_alive(const RoseMemCursor *cursor);

/*
 * In a later section than the one in which it was positioned: false also when the entry
 * under the cursor may have been taken out since.  Then it must be positioned anew.
 */
extern bool rose_mem_cursor_stands(const RoseMemCursor *cursor);

/* May stands become false of this cursor, while it is alive?  A hint: if not, nothing was taken out so far. */
extern bool rose_mem_cursor_may_fall(const RoseMemCursor *cursor);

/*
 * Put it where an entry was, of which image is a copy (rose_memtable_image): on that one,
 * or if it is not there any more, on the next one in this direction.
 */
extern bool rose_mem_cursor_seek_image(RoseMemCursor *cursor, const void *image, bool forward);

/* First entry >= (first ncols columns of key, seq descending from seq; seq is
 * ignored when ncols < key width). */
extern bool rose_mem_cursor_seek(RoseMemCursor *cursor, const Datum *key,
								 int ncols, uint64 seq);

/* Last entry whose first ncols key columns are <= key (or < if !inclusive). */
extern bool rose_mem_cursor_seek_last(RoseMemCursor *cursor, const Datum *key,
									  int ncols, bool inclusive);
extern bool rose_mem_cursor_first(RoseMemCursor *cursor);
extern bool rose_mem_cursor_last(RoseMemCursor *cursor);
extern bool rose_mem_cursor_next(RoseMemCursor *cursor);
extern bool rose_mem_cursor_prev(RoseMemCursor *cursor);

/*
 * A walk that began in the middle, by a seek, or with the last entry, has turned out to be
 * a long one: fetch ahead from here on, of each row so many bytes.  Walks from the first
 * entry do so anyway.  To be called now and then: it may end.
 */
extern void rose_mem_cursor_walk(RoseMemCursor *cursor, bool forward, int row_bytes);
extern void rose_mem_cursor_get(const RoseMemCursor *cursor, RoseMemEntryRef *entry);

/*
 * The entry under the cursor and those behind it, n at most; the cursor goes behind them.
 * Returns how many.  return_to: put it back on one of them.
 */
extern int	rose_mem_cursor_take(RoseMemCursor *cursor, RoseMemEntryRef *entries, int n);
extern void rose_mem_cursor_return_to(RoseMemCursor *cursor, RoseArenaPtr entry);

/* What is known to be seen: the writer has ended before xmin, or is this one. */
typedef struct RoseMemSeen
{
	FullTransactionId xmin;
	TransactionId writer;		/* or InvalidTransactionId */
} RoseMemSeen;

/* Parts of entries, each in an array of its own. */
typedef struct RoseMemColumns
{
	RoseArenaPtr *ptrs;
	uint64	   *prefixes;
	uint64	   *seqs;
	MinimalTuple *rows;			/* in the arena */
} RoseMemColumns;

/*
 * Of the entry under the cursor and those behind it, in this direction, those that need
 * no second look: whole rows, committed and seen, each with another prefix than the one
 * before it.  They are put into columns[from..to), where what is at from - 1 counts as the
 * one before.  Returns behind which slot they end; the cursor stands on the first entry
 * that is not taken.
 *
 * Where equal prefixes are equal keys, a key's older versions are passed over: forward
 * behind a row that was taken, a few; backward by having the newer one in its place.
 * whole: what is at from - 1 is a whole version that is seen, so it is such a row.
 */
extern int	rose_mem_cursor_take_plain(RoseMemCursor *cursor, bool forward, const RoseMemSeen *seen,
									   const RoseMemColumns *columns, int from, int to, bool whole);

/*
 * A walk over a memtable in the order of numbers, which is that in which its entries came,
 * mostly.  One is of a section: a later one begins with its seq alone.
 */
#define ROSE_MEM_ARRIVALS_MANY	64
typedef struct RoseMemArrivals
{
	uint64		seq;			/* the next number to look at */
	FullTransactionId everyone; /* what older ones have committed all snapshots see that there are, or
								 * will be; 0: not known */
	RoseArenaPtr other;			/* the entry that has this number, which is not plain; or 0 */
	bool		at_end;			/* there was none behind those taken */
	int			looks;			/* entries to look at, about; what is left of them */
	int			row_bytes;		/* of each row that will be looked at */

	/* private: entries that were found together */
	RoseArenaPtr leaf;			/* of the sequence index, that has them */
	uint64		behind;			/* the next number behind them */
	int			n;
	int			next;			/* to be looked at */
	RoseArenaPtr entries[ROSE_MEM_ARRIVALS_MANY];
} RoseMemArrivals;

/*
 * Of the entries from at->seq on, those that need no second look: whole rows, committed
 * and seen, of whose keys there is no newer version in this memtable.  They are put into
 * columns[from..to); returns behind which slot they end.  Passed over are locks, tombstones,
 * what was rolled back, and versions of whose keys there is a newer one, whole, committed and
 * seen.  What nobody will ever need of these is marked, and later walks do not meet it.
 * REQUIRES that the C0 is numbered.
 */
extern int	rose_mem_cursor_take_arrivals(const RoseMemCursor *cursor, RoseMemArrivals *at,
										  const RoseMemSeen *seen, const RoseMemColumns *columns,
										  int from, int to);

/* A newer version, which everyone sees, was found to stand for at->other: that is marked, too.  REQUIRES the same section. */
extern void rose_mem_cursor_hide_other(const RoseMemArrivals *at);

/* Replace an entry by the next newer one of its key, if there is any. */
extern bool rose_mem_cursor_newer(const RoseMemCursor *cursor, RoseMemEntryRef *entry);

/*
 * An image: the bytes of an entry, to be copied as they are (to a MAXALIGNed place).  What
 * is in it is asked of the copy: its row, or all parts, as cursor_get gives those of an
 * entry; its hints are those of then.
 */
extern const void *rose_memtable_image(RoseArenaPtr ptr, Size *bytes);
extern MinimalTuple rose_memtable_image_row(const void *image);
extern void rose_memtable_image_get(const RoseSchema *schema, const void *image,
									RoseMemEntryRef *entry);

/*
 * Images of columns[from..to), all of whole rows, behind each other into memory of this
 * size, of which *used is in use: as many as there is room for.  Returns behind which slot
 * they end.  Sets images[i], rows[i] of these to the copies, ptrs[i] to 0, and *longest to
 * the length of the longest row if that is longer.
 */
extern int	rose_memtable_copy_images(const RoseMemColumns *columns, void **images, int from, int to,
									  char *memory, Size size, Size *used, Size *longest);

/*
 * Where the active memtable would have had a key when it was looked for (rose_c0_probe).
 * However old, it does no harm: prepare sees whether it is still right, and then need not
 * search.
 */
typedef struct RoseMemSpot
{
	uint64		memtable_id;	/* 0: none */
	RoseArenaPtr leaf;
} RoseMemSpot;

/*
 * Which of these n whole keys may C0 have a version of?  Sets found[i] for them, also for
 * one that is hidden or taken back, and leaves the others.  Waits for memory once for
 * many keys.  ascending: the keys are in strictly ascending order.  Sets spots for
 * writing them, unless NULL.
 */
extern void rose_c0_probe(const RoseC0Shared *c0, const RoseSchema *schema,
						  const Datum *const *keys, int n, bool ascending, bool *found,
						  RoseMemSpot *spots);

/*
 * Bring what writes of these n whole keys will touch into the processor's cache.  Worth
 * its time for keys in random order: memory is waited for once for many of them.  Sets
 * spots for the writes.  REQUIRES: a writing section.
 */
extern void rose_c0_warm_active(const RoseC0Shared *c0, const RoseSchema *schema,
								const Datum *const *keys, int n, RoseMemSpot *spots);

/* The slot of the memtable with most versions, and about how many these are; -1: there are none. */
extern int	rose_memtable_largest(const RoseC0Shared *c0, uint64 *versions);

/*
 * Keys that part what is in a memtable into about equal parts, n of them at most: take is called
 * for each, in their order but for what a writer has just moved.  It may raise errors; the key is good until
 * it returns.  Not of a memtable that was freed.
 */
typedef void (*RoseMemTakeKey) (void *arg, const Datum *key);

extern void rose_memtable_part_keys(RoseC0Shared *c0, const RoseSchema *schema, int slot, int n,
									RoseMemTakeKey take, void *arg);

/* Entry with this sequence in a memtable, or 0; always 0 in a C0 that is unnumbered (rose_c0.h). */
extern RoseArenaPtr rose_memtable_find_seq(RoseC0Shared *c0, int slot, uint64 seq);
extern void rose_memtable_get(RoseC0Shared *c0, const RoseSchema *schema,
							  RoseArenaPtr ptr, RoseMemEntryRef *entry);
extern uint64 rose_memtable_seq(RoseArenaPtr ptr);
extern void rose_memtable_set_hint(RoseArenaPtr ptr, uint8 hint);

#endif							/* ROSE_MEMTABLE_H */
