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

/*
 * After writing n versions to the tree: wakes the worker that spills, in time; waits for
 * a while if memory or merges fall behind.  Reacts to interrupts.  Call it with no LWLock
 * held.
 */
extern void rose_pace_writes(RoseTree *tree, int n);

/* The same for rows that were written to several trees, a table and its indexes: for whichever is worst off. */
extern void rose_pace_writes_of(RoseTree *const *trees, int ntrees, int n);

/* The delay of one version in microseconds, from how full things are: a pure function. */
extern double rose_pace_delay_us(Size used, Size total, int nruns);

#endif							/* ROSE_PACE_H */
