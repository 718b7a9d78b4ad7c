/*-------------------------------------------------------------------------
 *
 * rose_pace.h
 *	  Slowing writers smoothly, before they would have to stop.
 *
 * Wakes the worker that spills, and waits; takes no lock.  What is done when there is no
 * room at all is rose_make_room.h's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PACE_H
#define ROSE_PACE_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

extern Size rose_pace_shmem_size(void);
extern void rose_pace_shmem_init(bool found);

/*
 * After writing n versions to the tree: wakes the worker that spills, in time; waits for
 * a while if memory or merges fall behind.  Reacts to interrupts.  Call it with no LWLock
 * held.
 */
extern void rose_pace_writes(RoseTree *tree, int n);

/* The delay of one version in microseconds, from how full things are: a pure function. */
extern double rose_pace_delay_us(Size used, Size total, int nruns);

/* Since the server started. */
typedef struct RosePaceStats
{
	uint64		delays;			/* waits of writers ... */
	uint64		delay_us;		/* ... and their time in all */
	uint64		own_spills;		/* of writers who could not wait for the worker */
} RosePaceStats;

extern void rose_pace_count_own_spill(void);
extern void rose_pace_get_stats(RosePaceStats *stats);

#endif							/* ROSE_PACE_H */
