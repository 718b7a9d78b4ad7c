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
 * Take out an entry, which is the target.  False, and nothing is done, if a leaf but the first one begins
 * with it.  REQUIRES: write_lock.
 */
extern bool rose_memtree_remove(RoseMemtableShared *memtable, const RoseMemTarget *target,
								RoseArenaPtr entry);

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

/* An entry near the end of the list, or the head.  REQUIRES: a reading section. */
extern RoseArenaPtr rose_memtree_find_last(const RoseMemtableShared *memtable);

/*
 * Up to n entries that part the list into about equal parts, in its order, but for what a
 * writer has just moved.  Returns how many.  REQUIRES: a reading section.
 */
extern int	rose_memtree_part(const RoseMemtableShared *memtable, int n, RoseArenaPtr *entries);

#endif							/* ROSE_MEMTREE_H */
