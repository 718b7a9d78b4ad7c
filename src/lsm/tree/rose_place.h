/*-------------------------------------------------------------------------
 *
 * rose_place.h
 *	  Places for the shared entries of tables.  Between rose_place.c and
 *	  rose_registry.c; not for other files.
 *
 * All functions but those for the start REQUIRE the registry's lock; those that change
 * what is taken, exclusive.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PLACE_H
#define ROSE_PLACE_H

#include "lsm/tree/rose_tree.h"

#define ROSE_NO_PLACE	(-1)

/* base: so many places have memory from the start. */
extern Size rose_place_shmem_size(int base);
extern void rose_place_shmem_init(int base);	/* under AddinShmemInitLock */

/* The lowest free place, ROSE_NO_PLACE if there is no memory for more.  Give it back. */
extern int	rose_place_take(void);
extern void rose_place_release(int place);

/* All taken places are below this one. */
extern int	rose_place_end(void);

/* The memory of a taken place.  May have to map it. */
extern RoseTreeShared *rose_place_entry(int place);

/*
 * What tells whose place it is: the incarnation of the entry that has it, 0 = nobody's.
 * Never goes away, and can be read without lock.
 */
extern pg_atomic_uint64 *rose_place_life(int place);

/* Map all memory there is, which may fail; then rose_place_entry does not fail any more. */
extern void rose_place_reach_all(void);

/* Give memory back that nobody has used since the last call. */
extern void rose_place_give_back(void);

/* Bytes of the memory that there is for entries. */
extern Size rose_place_bytes(void);

#endif							/* ROSE_PLACE_H */
