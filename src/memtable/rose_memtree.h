/*-------------------------------------------------------------------------
 *
 * rose_memtree.h
 *	  A B-tree over the sorted list of a memtable, to find places in it.  For
 *	  this folder only.
 *
 * Written under write_lock, read in reading sections; the list stays right without it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMTREE_H
#define ROSE_MEMTREE_H

#include "memtable/rose_memlist.h"

/* Half-full nodes of this many levels are more than an arena holds. */
#define ROSE_MEMTREE_MAX_LEVELS 10

/* Where an entry goes: made by locate, completed by reserve, used by add. */
typedef struct RoseMemTreePath
{
	int			height;
	RoseArenaPtr node[ROSE_MEMTREE_MAX_LEVELS]; /* [0] is the leaf */
	int			at[ROSE_MEMTREE_MAX_LEVELS];	/* index of the new item */
	RoseArenaPtr spare[ROSE_MEMTREE_MAX_LEVELS];	/* for what must be split */
} RoseMemTreePath;

/*
 * An empty tree; false = arena full.  wide: its items have both words of a prefix.
 * REQUIRES: write_lock.
 */
extern bool rose_memtree_create(RoseMemtableShared *memtable, bool wide);

/*
 * The entry before the target, by the tree, or the head; and the way to it.  Calls
 * comparisons, which may raise errors.  near: a leaf in which it may be, which saves the
 * search, or 0.  target->ncols must not be 0.  REQUIRES: write_lock.
 */
extern RoseArenaPtr rose_memtree_locate(const RoseMemtableShared *memtable,
										const RoseMemTarget *target,
										RoseArenaPtr near, RoseMemTreePath *path);

/* Get what add needs; false = arena full.  REQUIRES: write_lock. */
extern bool rose_memtree_reserve(RoseMemtableShared *memtable, RoseMemTreePath *path);

/*
 * Add an entry that is in the list already, where the target was located.  Cannot fail.
 * REQUIRES: write_lock.
 */
extern void rose_memtree_add(RoseMemtableShared *memtable, RoseMemTreePath *path,
							 const RoseMemTarget *target, RoseArenaPtr entry);

/*
 * An entry before the target, near it, or the head.  While a writer is at work it may not
 * be the last one before the target: go on by the list.  REQUIRES: a reading section.
 */
extern RoseArenaPtr rose_memtree_find(const RoseMemtableShared *memtable,
									  const RoseMemTarget *target);

/*
 * The same for many targets, waiting for memory once a level for all of them; and the
 * leaves that led there.  REQUIRES: a reading section.
 */
#define ROSE_MEMTREE_MANY 64	/* most targets at a time */
extern void rose_memtree_find_many(const RoseMemtableShared *memtable,
								   const RoseMemTarget *targets, int n,
								   RoseArenaPtr *found, RoseArenaPtr *leaves);

/*
 * For walks over the list: start before the first entry, or in the middle, at the first
 * entry that is not before the target, take a step with each entry, and those that come
 * next are fetched ahead.
 */
extern void rose_memtree_ahead_start(const RoseMemtableShared *memtable,
									 RoseMemAhead *ahead);
extern void rose_memtree_ahead_at(const RoseMemtableShared *memtable, RoseMemAhead *ahead,
								  bool forward, const RoseMemTarget *target);
extern void rose_memtree_ahead_due(RoseMemAhead *ahead);

static inline bool
rose_memtree_ahead_is_on(const RoseMemAhead *ahead, bool forward)
{
	return ahead->parent != 0 && ahead->forward == forward;
}

static inline void
rose_memtree_ahead_step(RoseMemAhead *ahead)
{
	if (ahead->parent != 0 && ++ahead->at >= ahead->due)
		rose_memtree_ahead_due(ahead);
}

/* An entry near the end of the list, or the head.  REQUIRES: a reading section. */
extern RoseArenaPtr rose_memtree_find_last(const RoseMemtableShared *memtable);

#endif							/* ROSE_MEMTREE_H */
