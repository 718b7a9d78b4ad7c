/*-------------------------------------------------------------------------
 *
 * rose_arrival.h
 *	  Reading all rows of a table that is in memory, in the order in which they came.
 *
 * Rows of a memtable lie in that order.  A scan in the order of keys waits for
 * memory at each row that was not written in that order; this one reads
 * along.  It is for who takes all rows, in whatever order, and forward.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ARRIVAL_H
#define ROSE_ARRIVAL_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "lsm/read/rose_scan.h"

typedef struct RoseArrival RoseArrival;

typedef enum RoseArrivalState
{
	ROSE_ARRIVAL_ROWS,			/* the stretch has some */
	ROSE_ARRIVAL_END,
	ROSE_ARRIVAL_LEFT			/* the rest is to be had by a RoseScan only, see rose_arrival_next_seq */
} RoseArrivalState;

/*
 * NULL: use a RoseScan.  That is so unless the table is one memtable and nothing else, large
 * enough for the order to matter.  Memory in a child of the current context.
 */
extern RoseArrival *rose_arrival_begin(RoseTree *tree, Snapshot snapshot);

/* Its rows, as rose_scan_stretch says. */
extern RoseStretch *rose_arrival_stretch(RoseArrival *arrival);

/* When the stretch has no row left. */
extern RoseArrivalState rose_arrival_next(RoseArrival *arrival);

/*
 * Left: of what a scan with the same snapshot finds, rows whose versions have smaller
 * numbers were given out, and the others were not.
 */
extern uint64 rose_arrival_next_seq(const RoseArrival *arrival);
extern void rose_arrival_end(RoseArrival *arrival);

#endif							/* ROSE_ARRIVAL_H */
