/*-------------------------------------------------------------------------
 *
 * rose_backlog.h
 *	  What waits for merges, and how far those under way are.
 *
 * For whoever slows writers down.  Without locks or I/O.  Bytes are uncompressed row
 * bytes, as C0's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BACKLOG_H
#define ROSE_BACKLOG_H

#include "lsm/merge/rose_picker.h"

/*
 * Bytes of C0 that count as its size: half of the arena is the most that one busy
 * table can fill before a spill.
 */
extern uint64 rose_pick_c0_size(bool local);

typedef struct RoseMergeBacklog
{
	uint64		c0_size;		/* bytes a memtable may reach; see the picker */
	int			nruns;
	uint64		run_bytes;
	uint64		c1_bytes;
	uint64		c2_bytes;
	/* into C1 (or among runs), into C2: versions read, of about so many; 0 of 0: none */
	uint64		done[2];
	uint64		total[2];
	int			pid[2];			/* of the process that merges; 0: none */
} RoseMergeBacklog;
extern void rose_merge_backlog(RoseTreeShared *shared, RoseMergeBacklog *backlog);

/* From which follows whether merges of the table are in time. */
extern void rose_merge_sizes(RoseTreeShared *shared, RosePickSizes *sizes);

#endif							/* ROSE_BACKLOG_H */
