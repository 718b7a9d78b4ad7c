/*-------------------------------------------------------------------------
 *
 * rose_merge_stats.h
 *	  How far the merges of a table are, and what they have read and written:
 *	  figures in shared memory that cost a reader nothing.
 *
 * For whoever paces writers by the progress of merges, and for views.  All
 * fields are atomic, there is no lock, so that figures of one moment need not fit
 * together.  Counters begin when the table is first touched after a start of the server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_STATS_H
#define ROSE_MERGE_STATS_H

#include "postgres.h"

#include "port/atomics.h"

#include "store/rose_manifest.h"


/* Merges of a table at a time that are shown: one into C1, or of runs, and one into C2, and short ones beside them. */
#define ROSE_TREE_MERGES	4

/* A merge under way.  Written by the process that began it, but for helped. */
typedef struct RoseMergeSlotShared
{
	pg_atomic_uint32 pid;		/* 0: free.  A process that died leaves its pid behind */
	pg_atomic_uint32 level;		/* it goes into this level */
	pg_atomic_uint64 helped;	/* versions read by other processes for it ... */
	pg_atomic_uint64 done;		/* ... and in all, as of its last step ... */
	pg_atomic_uint64 total;		/* ... of about so many */
} RoseMergeSlotShared;

typedef struct RoseMergeStatsShared
{
	RoseMergeSlotShared slots[ROSE_TREE_MERGES];
	pg_atomic_uint64 came_raw_bytes;	/* runs from C0 and bulk loads: uncompressed ... */
	pg_atomic_uint64 came_bytes;	/* ... and as pages written */
	pg_atomic_uint64 read_bytes;	/* pages that merges have read ... */
	pg_atomic_uint64 written_bytes; /* ... and written */
	pg_atomic_uint64 missing_rows;	/* PARTIALs left out that were no row */
} RoseMergeStatsShared;

extern void rose_merge_stats_init(RoseMergeStatsShared *stats);

/* A run was published that does not come from a merge. */
extern void rose_merge_stats_came(RoseMergeStatsShared *stats,
								  const RoseComponentEntryDisk *entry);
extern void rose_merge_stats_merged(RoseMergeStatsShared *stats,
									uint64 blocks_read, uint64 blocks_written);

/* Spills and merges have left out so many PARTIALs. */
extern void rose_merge_stats_missing(RoseMergeStatsShared *stats, uint64 n);

/* Show a merge; returns its slot, or -1 if there are more than expected. */
extern int	rose_merge_stats_begin(RoseMergeStatsShared *stats, int level);
extern void rose_merge_stats_progress(RoseMergeStatsShared *stats, int slot,
									  uint64 done, uint64 total);
extern void rose_merge_stats_end(RoseMergeStatsShared *stats, int slot);

/* This process has read so many versions for the pass of another one. */
extern void rose_merge_stats_helped(RoseMergeStatsShared *stats, uint64 n);

#endif							/* ROSE_MERGE_STATS_H */
