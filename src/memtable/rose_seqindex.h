/*-------------------------------------------------------------------------
 *
 * rose_seqindex.h
 *	  Sequence number to entry, within one memtable.  For this folder only.
 *
 * Written under write_lock, read in reading sections.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SEQINDEX_H
#define ROSE_SEQINDEX_H

#include "memtable/rose_arena.h"

/*
 * Make room for a sequence number: its slot, or NULL if the arena is full.  The caller
 * stores the entry there with rose_seqindex_store.  REQUIRES: write_lock exclusive.
 */
extern RoseArenaPtr *rose_seqindex_reserve(RoseMemtableShared *memtable, uint64 seq);
extern void rose_seqindex_store(RoseArenaPtr *slot, RoseArenaPtr entry);

/* Forget an entry, which has this number.  REQUIRES: write_lock exclusive. */
extern void rose_seqindex_remove(RoseMemtableShared *memtable, uint64 seq, RoseArenaPtr entry);

/* What a node takes, and where in it a node that was taken out has a link (rose_recycle.c). */
#define ROSE_SEQ_NODE_BYTES 280
#define ROSE_SEQ_NODE_CHAIN 12

/* The entry, or 0.  REQUIRES: a reading section. */
extern RoseArenaPtr rose_seqindex_find(const RoseMemtableShared *memtable, uint64 seq);

/*
 * Entries in the order of their numbers, from *seq on, but for those that are hidden: of
 * one leaf at most, so there may be none.  Returns how many; *seq goes behind them.  *leaf
 * becomes 0 if there are no more of any kind.  REQUIRES: a reading section.
 */
#define ROSE_SEQINDEX_LEAF ROSE_MEM_ARRIVALS_MANY	/* at most */
extern int	rose_seqindex_walk(const RoseMemtableShared *memtable, uint64 *seq,
							   RoseArenaPtr *leaf, RoseArenaPtr *entries);

/*
 * Walks need not meet the entry with this number, of a leaf that one has come to in this
 * section, ever again.  It is found by its number as ever.
 */
extern void rose_seqindex_hide(RoseArenaPtr leaf, uint64 seq);

#endif							/* ROSE_SEQINDEX_H */
