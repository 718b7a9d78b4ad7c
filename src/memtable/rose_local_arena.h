/*-------------------------------------------------------------------------
 *
 * rose_local_arena.h
 *	  The arena of this process: memory for memtables of temporary tables.
 *
 * For rose_arena.h, and for those who see to it that there is room.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCAL_ARENA_H
#define ROSE_LOCAL_ARENA_H

#include "memtable/rose_memtable.h"

/* Addresses from here on, the last 32nd of all, are of the process's own arena. */
#define ROSE_LOCAL_ARENA_START	((RoseArenaPtr) 0xF8000000)

/* Where it begins; NULL: there is none at the moment. */
extern char *rose_local_arena_base;

/* As those of the shared arena: what there is, or would be, and what is in use. */
extern Size rose_local_arena_total_bytes(void);
extern Size rose_local_arena_used_bytes(void);

/* A run of pages, which are numbered as those of the shared arena; 0: there is none. */
extern Size rose_local_arena_get(Size npages);
extern void rose_local_arena_put(Size page, Size npages);

#endif							/* ROSE_LOCAL_ARENA_H */
