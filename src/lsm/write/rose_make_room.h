/*-------------------------------------------------------------------------
 *
 * rose_make_room.h
 *	  Room in C0: who spills what when memory is short.
 *
 * Called by those who write, after a write and when a write has found no room.  No LWLock
 * may be held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MAKE_ROOM_H
#define ROSE_MAKE_ROOM_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

/*
 * The replication worker says on whose behalf it writes: private runs that its
 * blind writes may cause are published PENDING for this epoch.  0, 0 = none.
 */
extern void rose_make_room_set_epoch(Oid subid, uint64 epoch);

/*
 * For it, when memory is full: wait for an epoch that is being written and will give
 * its memory back; false if there is none.
 */
typedef bool (*RoseWaitForEpochHook) (void);
extern RoseWaitForEpochHook rose_wait_for_epoch_hook;

/* C0 had no room for what this process wanted to write: wait for some, or make it.  No LWLock may be held. */
extern void rose_make_room(RoseTree *tree);

/* It has written something. */
extern void rose_make_room_found(void);
extern void rose_make_room_end_transaction(void);

/*
 * After a write: spill the table if nobody else can, and it has more than its share.
 * worker: one comes when asked.
 */
extern void rose_make_room_keep_share(RoseTree *tree, bool worker);


#endif							/* ROSE_MAKE_ROOM_H */
