/*-------------------------------------------------------------------------
 *
 * rose_local_room.h
 *	  Room for the rows of temporary tables: rose_make_room.h and rose_pace.h for those.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCAL_ROOM_H
#define ROSE_LOCAL_ROOM_H

#include "lsm/tree/rose_tree.h"

/* After each write.  No LWLock is held. */
extern void rose_local_room_keep_share(RoseTree *tree);

/* A write found no room: when this is back, try again.  As above. */
extern void rose_local_room_make(RoseTree *tree);

#endif							/* ROSE_LOCAL_ROOM_H */
