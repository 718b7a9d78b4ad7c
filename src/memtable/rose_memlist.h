/*-------------------------------------------------------------------------
 *
 * rose_memlist.h
 *	  Entries of a memtable and the sorted list that they form.  For this
 *	  folder only.
 *
 * Order: key ascending, sequence descending.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMLIST_H
#define ROSE_MEMLIST_H

#include "memtable/rose_mementry.h"

typedef enum RoseMemBound
{
	ROSE_BEFORE_KEY,			/* entries with a smaller key */
	ROSE_BEFORE_VERSION,		/* ... or the same and a higher sequence */
	ROSE_THROUGH_KEY			/* entries with a smaller key or the same */
} RoseMemBound;

/* A place in the order: what is on its near side is "before" it. */
typedef struct RoseMemTarget
{
	const RoseSchema *schema;
	const Datum *key;
	int			ncols;			/* of key that count; 0: all keys are the same */
	RoseKeyPrefix prefix;		/* of key, if ncols > 0 */
	RoseMemBound bound;
	uint64		seq;			/* for ROSE_BEFORE_VERSION */
} RoseMemTarget;

/* Fill in a target. */
extern void rose_memlist_target(RoseMemTarget *target, const RoseSchema *schema,
								const Datum *key, int ncols, RoseMemBound bound,
								uint64 seq);

/* Is the entry on the near side of the target's bound? */
extern bool rose_memlist_is_before(const RoseMemEntryShared *entry,
								   const RoseMemTarget *target);

/* List and tree of a new memtable; false = arena full.  REQUIRES: write_lock. */
extern bool rose_memlist_create(RoseMemtableShared *memtable, const RoseSchema *schema);

/*
 * A filled entry, not in the list yet; prefix is the first word of its key's.  0 = arena
 * full.  REQUIRES: write_lock.
 */
extern RoseArenaPtr rose_memlist_make_entry(RoseMemtableShared *memtable,
											const RoseSchema *schema,
											const RoseVersion *version,
											uint64 prefix, MinimalTuple row);

/*
 * Put an entry in its place: before all that is not before the target, which must be made
 * of its key and sequence.  near: a leaf of the tree where its place may be, or 0.  look:
 * NULL, or not if a version of the key has come since.  Readers skip it until it is
 * marked linked.  An error in a comparison leaves the list as it was; so does a result
 * other than PREPARED.  REQUIRES: write_lock.
 */
extern RoseMemPrepared rose_memlist_insert(RoseMemtableShared *memtable,
										   const RoseMemTarget *target, RoseArenaPtr near,
										   const RoseC0Look *look, RoseArenaPtr entry);

/* The parts of an entry. */
extern void rose_memlist_get(const RoseSchema *schema, RoseArenaPtr ptr,
							 RoseMemEntryRef *ref);

/* Those of n linked entries from *ptr on, or as many as there are; *ptr goes behind them. */
extern int	rose_memlist_take(const RoseSchema *schema, RoseArenaPtr *ptr, RoseMemAhead *ahead,
							  RoseMemEntryRef *refs, int n);

/* See rose_mem_cursor_take_plain. */
extern int	rose_memlist_take_plain(const RoseMemtableShared *memtable, const RoseSchema *schema,
									RoseArenaPtr *ptr, RoseMemAhead *ahead, bool forward,
									const RoseMemSeen *seen, const RoseMemColumns *columns,
									int from, int to, bool whole);

/* See rose_mem_cursor_take_arrivals. */
extern int	rose_memlist_take_arrivals(const RoseMemtableShared *memtable, const RoseSchema *schema,
									   RoseMemArrivals *at, const RoseMemSeen *seen,
									   const RoseMemColumns *columns, int from, int to);

/* The next newer version of an entry's key that is linked, or 0. */
extern RoseArenaPtr rose_memlist_newer(const RoseMemtableShared *memtable, const RoseSchema *schema,
									   RoseArenaPtr ptr);

/* --- positions; all REQUIRE a reading section --- */

/*
 * Last entry on the near side of a bound, or the head, and first entry on the far side,
 * or 0.  Either may be one that is not linked.  key: ncols columns; ncols = 0: all keys
 * are the same.
 */
extern void rose_memlist_find(const RoseMemtableShared *memtable,
							  const RoseSchema *schema,
							  const Datum *key, int ncols,
							  RoseMemBound bound, uint64 seq,
							  RoseArenaPtr *before, RoseArenaPtr *beyond);

/*
 * Does an entry, linked or not, have the target's key?  From an entry before the target,
 * or the head, on.
 */
extern bool rose_memlist_key_follows(RoseArenaPtr before, const RoseMemTarget *target);

/* Has this entry the target's key? */
extern bool rose_memlist_has_key(const RoseMemEntryShared *entry, const RoseMemTarget *target);

/*
 * Take an entry out of the list.  Who has found it before may still go on from it.
 * REQUIRES: write_lock, and that nobody finds it any more in another way.
 */
extern void rose_memlist_take_out(RoseArenaPtr ptr);

/* Give up a filled entry that did not come into the list.  REQUIRES: write_lock. */
extern void rose_memlist_discard(RoseMemtableShared *memtable, RoseArenaPtr ptr);

/* Last of all, linked or not; the head if there is none. */
extern RoseArenaPtr rose_memlist_find_last(const RoseMemtableShared *memtable);

/* The entry, or the first one behind it that is linked; 0 off the end. */
extern RoseArenaPtr rose_memlist_linked_from(RoseArenaPtr ptr);

/* Linked neighbours of an entry or of the head; 0 off the end. */
extern RoseArenaPtr rose_memlist_after(RoseArenaPtr ptr);
extern RoseArenaPtr rose_memlist_before(RoseArenaPtr head, RoseArenaPtr ptr);

static inline bool
rose_memlist_is_linked(RoseArenaPtr ptr)
{
	return rose_mementry_at(ptr)->linked != 0;
}

#endif							/* ROSE_MEMLIST_H */
