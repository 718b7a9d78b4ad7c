/*-------------------------------------------------------------------------
 *
 * rose_recycle.h
 *	  Memory of entries that were taken out of a memtable, and of the sequence
 *	  index's nodes.  For this folder only.
 *
 * All REQUIRE write_lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RECYCLE_H
#define ROSE_RECYCLE_H

#include "memtable/rose_arena.h"

typedef enum RosePieceKind
{
	ROSE_PIECE_ENTRY,
	ROSE_PIECE_NODE				/* of the sequence index */
} RosePieceKind;

#define ROSE_PIECE_KINDS	2

/*
 * What nobody finds any more who begins to read now; who has found it already may look at
 * it until his section ends.  Never fails: without memory for its own needs it leaves the
 * piece to the spill.
 */
extern void rose_recycle_put(RoseMemtableShared *memtable, RosePieceKind kind, RoseArenaPtr ptr);

/* What nobody has ever found. */
extern void rose_recycle_unused(RoseMemtableShared *memtable, RoseArenaPtr ptr, Size size);

/* After some were put: have those used again that no reader can look at any more. */
extern void rose_recycle_turn(RoseMemtableShared *memtable);

/* As alloc, in a memtable that has such pieces. */
extern RoseArenaPtr rose_recycle_take(RoseMemtableShared *memtable, Size bytes, uint16 *slack);

/* Memory, as that of rose_arena_alloc; *slack: units that it has beyond these bytes. */
static inline RoseArenaPtr
rose_recycle_alloc(RoseMemtableShared *memtable, Size bytes, uint16 *slack)
{
	*slack = 0;
	if (unlikely(memtable->recycler != 0))
		return rose_recycle_take(memtable, MAXALIGN(bytes), slack);
	return rose_arena_alloc(memtable, bytes);
}

#endif							/* ROSE_RECYCLE_H */
