/*-------------------------------------------------------------------------
 *
 * rose_arena.h
 *	  Allocation from the arena, for the other files of this folder only.
 *
 * Memory belongs to a memtable and is given back with all of it.  Addresses
 * are RoseArenaPtr, valid in every process, but for those of the process's own arena;
 * rose_arena_at turns one into a pointer of this process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ARENA_H
#define ROSE_ARENA_H

#include "port/atomics.h"

#include "memtable/rose_c0.h"
#include "memtable/rose_local_arena.h"

#define ROSE_ARENA_UNIT 8

/* Where page 0 of the arena is mapped in this process. */
extern char *rose_arena_base;

/* What it leads to need not be there. */
static inline char *
rose_arena_address(RoseArenaPtr ptr)
{
	if (unlikely(ptr >= ROSE_LOCAL_ARENA_START))
		return rose_local_arena_base + (Size) (ptr - ROSE_LOCAL_ARENA_START) * ROSE_ARENA_UNIT;
	return rose_arena_base + (Size) ptr * ROSE_ARENA_UNIT;
}

static inline void *
rose_arena_at(RoseArenaPtr ptr)
{
	Assert(ptr != 0);
	return rose_arena_address(ptr);
}

/*
 * Memory for a memtable, MAXALIGNed, not zeroed; 0 when the arena is full.
 * REQUIRES: write_lock of the memtable's C0, exclusive.
 */
extern RoseArenaPtr rose_arena_alloc(RoseMemtableShared *memtable, Size size);

/* Undo an allocation, if it was the memtable's last one; else false.  REQUIRES: as alloc. */
extern bool rose_arena_undo(RoseMemtableShared *memtable, RoseArenaPtr ptr, Size size);

/* Give back all memory of a memtable.  REQUIRES: that nobody
 * reads or writes it any more. */
extern void rose_arena_release(RoseMemtableShared *memtable);

/* A memtable id that was never used before. */
extern uint64 rose_arena_new_memtable_id(void);

/* Tranches for the locks of a RoseC0Shared. */
extern int	rose_arena_write_tranche(void);

/* Follow a link that a writer may change meanwhile: what it leads to is complete. */
static inline RoseArenaPtr
rose_arena_link_read(const RoseArenaPtr *link)
{
	RoseArenaPtr ptr = *(const volatile RoseArenaPtr *) link;

	pg_read_barrier();
	return ptr;
}

/* Everything written so far before the link. */
static inline void
rose_arena_link_publish(RoseArenaPtr *link, RoseArenaPtr ptr)
{
	pg_write_barrier();
	*(volatile RoseArenaPtr *) link = ptr;
}

/* Start to bring a piece of the arena into the processor's cache. */
static inline void
rose_arena_prefetch(RoseArenaPtr ptr)
{
#if defined(__GNUC__)
	__builtin_prefetch(rose_arena_address(ptr));

	/* a function that did nothing but fetch ahead would do nothing in GCC's eyes, and its calls would go */
	__asm__ __volatile__("");
#endif
}

#endif							/* ROSE_ARENA_H */
