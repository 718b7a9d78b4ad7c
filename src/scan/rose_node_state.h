/*-------------------------------------------------------------------------
 *
 * rose_node_state.h
 *	  A Rose Scan that is being executed.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_STATE_H
#define ROSE_NODE_STATE_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/parallel.h"
#include "nodes/execnodes.h"
#include "storage/shm_toc.h"

#include "lsm/read/rose_batch.h"
#include "lsm/read/rose_interval.h"
#include "scan/rose_node_column.h"
#include "scan/rose_node_first.h"
#include "scan/rose_node_keys.h"
#include "scan/rose_node_quals.h"

/* What EXPLAIN shows. */
typedef struct RoseNodeCounts
{
	RoseBatchCounts batches;
	uint64		behind;			/* rows that are not among the first */
} RoseNodeCounts;

typedef struct RoseNodeScan
{
	CustomScanState css;		/* first */

	/* what is read */
	RoseTree   *tree;			/* NULL before the first row */
	RoseNodeKeys *keys;			/* NULL: all of the table */
	RoseNodeQuals *filters;		/* NULL: there are none */
	Bitmapset  *used;			/* attribute numbers, from 1 */
	Bitmapset  *many;			/* those of them that are asked for of many rows */
	bool		ordered;		/* by key */
	RoseNodeFirst *first;		/* rows that are wanted; NULL: all that are selected */
	bool		screens;		/* they are looked for before filters select, too */
	uint64		behind;			/* rows that were left out for that */
	ExprState  *checks;			/* of keys and filters, for another version of a row; in EvalPlanQual only */

	/* what is made of it */
	RoseNodeColumns *open;		/* what filters need that are asked of rows one by one */
	RoseNodeColumns *early;		/* what residual conditions need */
	RoseNodeColumns *late;		/* what else the result needs */
	bool		direct;			/* late columns are the result, and there are no residual conditions */
	bool		wants_tid;
	bool		wants_version;	/* xmin and the like */

	/* where it is */
	bool		ready;			/* it began, or began anew */
	RoseBatches *batches;		/* NULL before the first row */
	RoseBatch	batch;
	int			at;				/* rows of the batch before this one have been looked at */
	int			step;			/* rows to look at next, at most ... */
	int			max_step;		/* ... and ever */
	RoseNodeRows rows;			/* selected ... */
	int			taken;			/* ... of which so many were given out */
	bool		is_open;		/* some filters are to be asked of each of them */

	/* a parallel query (rose_node_parallel.c); NULL: this process reads all */
	struct RoseNodeParallelShared *shared;	/* NULL also when it has ended */
	RoseIntervals *intervals;	/* those of shared, NULL before the first row */
	RoseIntervalBounds *bounds; /* of the leader, before they are shared */
	RoseNodeCounts others;		/* what other processes have done, when they have ended */
} RoseNodeScan;

/*
 * The next rows that keys and conditions select: in scan->rows, at least one; false: there are none.
 * For who takes rows together, and no single ones.
 */
extern bool rose_node_scan_next_passing(RoseNodeScan *scan);

/* How many rows there are, if all are selected and they need not be read for that.  Before any rows. */
extern bool rose_node_scan_count(RoseNodeScan *scan, uint64 *rows);

/* --- several processes (rose_node_parallel.c) --- */

/* Callbacks of the executor. */
extern Size rose_node_parallel_estimate(CustomScanState *css, ParallelContext *context);
extern void rose_node_parallel_share(CustomScanState *css, ParallelContext *context, void *shared);
extern void rose_node_parallel_restart(CustomScanState *css, ParallelContext *context, void *shared);
extern void rose_node_parallel_join(CustomScanState *css, shm_toc *toc, void *shared);
extern void rose_node_parallel_leave(CustomScanState *css);

/* The intervals to read, in the current context; NULL: all.  REQUIRES: the tree is open. */
extern RoseIntervals *rose_node_parallel_intervals(RoseNodeScan *scan);

/* What was done so far, by this process and those that have ended. */
extern void rose_node_parallel_count(const RoseNodeScan *scan, RoseNodeCounts *counts);

/* What EXPLAIN says of it (rose_node_explain.c). */
extern void rose_node_explain_scan(CustomScanState *css, List *ancestors, struct ExplainState *es);
extern void rose_node_explain_agg(CustomScanState *css, List *ancestors, struct ExplainState *es);

#endif							/* ROSE_NODE_STATE_H */
