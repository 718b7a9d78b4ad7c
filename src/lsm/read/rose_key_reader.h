/*-------------------------------------------------------------------------
 *
 * rose_key_reader.h
 *	  All versions of one key, newest first, from C0 and the components.
 *
 * Row locks, and versions of private runs that were rolled back, come in between in any
 * order; a version may come twice.
 *
 * The basis of point lookups, uniqueness checks and conflict checks.  It returns versions
 * whatever their writer's fate, locks included; the caller stops as soon as it knows
 * enough, so that normally only C0 and the Bloom filters are asked.
 *
 * Locking.  A reading section of C0 for one version at a time.  A memtable that is freed
 * between two versions is noticed and the search goes on in a view of that moment, below
 * the last sequence returned (see rose_key_reader_moved).  May be used under a
 * key-partition lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_READER_H
#define ROSE_KEY_READER_H

#include "store/rose_manifest.h"
#include "lsm/tree/rose_tree.h"

typedef struct RoseKeyReader RoseKeyReader;

/* Where C0 has a version. */
typedef struct RoseMemPlace
{
	uint64		memtable_id;	/* 0 = not in C0 */
	RoseArenaPtr entry;			/* to be used only while that memtable lives */
} RoseMemPlace;

/* For one transaction at most, unless it rests when that ends. */
extern RoseKeyReader *rose_key_reader_create(RoseTree *tree, MemoryContext parent);
extern void rose_key_reader_free(RoseKeyReader *reader);

/* See rose_lookup_rest.  REQUIRES: no component that it has read is about to go. */
extern bool rose_key_reader_rest(RoseKeyReader *reader);

/* The reader is used for keys that are likely to be there: queries, not insertions. */
extern void rose_key_reader_expect_hits(RoseKeyReader *reader);

/* key must stay in place until the last call of next; versions with a
 * sequence >= below are left out (PG_UINT64_MAX: none). */
extern void rose_key_reader_start(RoseKeyReader *reader, const Datum *key, uint64 below);

/*
 * Next older version or NULL.  The row is valid until the next call.
 * *committed: it comes from a component without uncommitted rows.
 */
extern const RoseRow *rose_key_reader_next(RoseKeyReader *reader, bool *committed);

/*
 * Are all versions that are still to come older than this one, which next() has just
 * returned?  Not if it is a row lock, or was rolled back and is still in its private run.
 */
extern bool rose_key_reader_in_order(const RoseKeyReader *reader, const RoseRow *row);

/*
 * Memory that next() looked at has been freed or used again since start.  The rows before and after
 * that are of different views: each is right by itself, but a merge may have folded what
 * lay between them into a newer one, which was passed.  Who puts rows together has to
 * start again.
 */
extern bool rose_key_reader_moved(const RoseKeyReader *reader);

/*
 * Components are to be looked into from this version on, even if next() finds it, and
 * older ones, in memory: while the memtable of a spill that was published is not freed
 * yet, a merge may have folded what is below a PARTIAL version into its copy there.
 */
extern void rose_key_reader_repeat_from(RoseKeyReader *reader, uint64 seq);

/* Asked for once it is started: who asks needs no versions up to this one, though some may come. */
extern void rose_key_reader_only_newer(RoseKeyReader *reader, uint64 seq);

/* From now on versions are passed over: next() returns row locks only. */
extern void rose_key_reader_locks_only(RoseKeyReader *reader);

/* Manifest entry of the row's component, NULL for C0. */
extern const RoseComponentEntryDisk *rose_key_reader_entry(const RoseKeyReader *reader);

/* The place of the row that next() returned last. */
extern RoseMemPlace rose_key_reader_place(const RoseKeyReader *reader);

/* Its cursor on a component, for who moves it between searches; the next one may move it. */
extern RoseComponentCursor *rose_key_reader_cursor(RoseKeyReader *reader,
												   const RoseComponentEntryDisk *entry,
												   RoseComponent *component);

/* Copy the C0 version with this sequence; false if no memtable has it. */
extern bool rose_key_reader_find_seq(RoseKeyReader *reader, uint64 seq, RoseRow *row);

#endif							/* ROSE_KEY_READER_H */
