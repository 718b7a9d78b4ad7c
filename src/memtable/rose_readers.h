/*-------------------------------------------------------------------------
 *
 * rose_readers.h
 *	  Reading sections: who reads memtables, and how to wait until nobody does
 *	  any more.  For this folder; others say rose_c0_read_begin.
 *
 * One lock a backend, so that readers write nothing that other readers write.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_READERS_H
#define ROSE_READERS_H

#include "memtable/rose_memtable.h"

extern Size rose_readers_shmem_size(void);
extern void rose_readers_shmem_init(bool found);

/* Begin and end a reading section of this C0.  An error ends it, too. */
extern void rose_readers_enter(const RoseC0Shared *c0);
extern void rose_readers_leave(const RoseC0Shared *c0);

/* Is this process in a section of the C0 that began before its age was this? */
extern bool rose_readers_began_before(const RoseC0Shared *c0, uint64 age);

/*
 * Wait until all sections have ended that are under way now.  REQUIRES: none is this
 * process's.  local: nobody else reads what is to be freed.
 */
extern void rose_readers_wait(bool local);

/*
 * The same without waiting: have all sections ended that were under way when *next was
 * 0?  If not, ask again later: *next says how many readers are known to have passed.
 */
extern bool rose_readers_are_past(bool local, int *next);

#endif							/* ROSE_READERS_H */
