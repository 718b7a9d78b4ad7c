/*-------------------------------------------------------------------------
 *
 * rose_node_parallel.c
 *	  Rose Scan by several processes.
 *
 * The processes of a parallel query take intervals of the table's keys from one list
 * (lsm/read/rose_interval.h), each the next one when it has read one, until there is none.
 * So rows of a process are in the order of keys, and all processes end at about the same time.
 *
 * The leader chooses the intervals when it is about to start workers.  What it chooses depends on
 * where rows are just then, and the answer does not.  They are not chosen anew when the scan begins anew.
 *
 * Snapshot, transaction and parameters come to workers by core; which rows are the transaction's own is asked
 * there as it is asked in the leader.  TIDs are names that a backend gives, so statements that use
 * them are not parallel (tableam/rose_exact_statement.c), nor are those that change or lock rows.
 *
 * How many processes is core's rule, by the size that the table would have without compression: reading it
 * takes that much time.
 *
 * Locks are those of lsm/read.  The counters in shared memory are added to by workers when they end,
 * atomically, and read by the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "access/htup_details.h"
#include "access/parallel.h"
#include "optimizer/cost.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "port/atomics.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#include "scan/rose_node_scan.h"
#include "scan/rose_node_state.h"

#define NCOUNTS		(sizeof(RoseNodeCounts) / sizeof(uint64))

StaticAssertDecl(sizeof(RoseNodeCounts) % sizeof(uint64) == 0, "counts are of uint64");

typedef struct RoseNodeParallelShared
{
	pg_atomic_uint64 counts[NCOUNTS];	/* of workers that have ended, as RoseNodeCounts */
	/* a RoseIntervalsShared, MAXALIGNed */
} RoseNodeParallelShared;

static RoseIntervalsShared *
intervals_of(RoseNodeParallelShared *shared)
{
	return (RoseIntervalsShared *) ((char *) shared + MAXALIGN(sizeof(RoseNodeParallelShared)));
}

/* ---- the leader ---- */

Size
rose_node_parallel_estimate(CustomScanState *css, ParallelContext *context)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;
	MemoryContext old = MemoryContextSwitchTo(css->ss.ps.state->es_query_cxt);

	if (scan->tree == NULL)
		scan->tree = rose_tree_open(css->ss.ss_currentRelation);
	scan->bounds = palloc(sizeof(RoseIntervalBounds));
	rose_interval_choose(scan->tree, scan->bounds);
	MemoryContextSwitchTo(old);
	return MAXALIGN(sizeof(RoseNodeParallelShared)) + rose_interval_shared_size(scan->bounds);
}

/* The list is this one from now on, whatever was there before. */
static void
enter(RoseNodeScan *scan, RoseNodeParallelShared *shared)
{
	scan->shared = shared;
	scan->intervals = NULL;
}

void
rose_node_parallel_share(CustomScanState *css, ParallelContext *context, void *memory)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;
	RoseNodeParallelShared *shared = memory;

	for (int i = 0; i < NCOUNTS; i++)
		pg_atomic_init_u64(&shared->counts[i], 0);
	rose_interval_share(intervals_of(shared), scan->bounds);
	pfree(scan->bounds->bytes.data);
	pfree(scan->bounds);
	scan->bounds = NULL;
	enter(scan, shared);
}

void
rose_node_parallel_restart(CustomScanState *css, ParallelContext *context, void *memory)
{
	rose_interval_restart(intervals_of(memory));
}

/* ---- workers ---- */

void
rose_node_parallel_join(CustomScanState *css, shm_toc *toc, void *memory)
{
	enter((RoseNodeScan *) css, memory);
}

/* ---- both ---- */

RoseIntervals *
rose_node_parallel_intervals(RoseNodeScan *scan)
{
	if (scan->intervals == NULL && scan->shared != NULL)
		scan->intervals = rose_interval_attach(intervals_of(scan->shared), scan->tree->schema);
	return scan->intervals;
}

static void
count_own(const RoseNodeScan *scan, RoseNodeCounts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (scan->batches != NULL)
		counts->batches = *rose_batches_counts(scan->batches);
	counts->behind = scan->behind;
}

void
rose_node_parallel_count(const RoseNodeScan *scan, RoseNodeCounts *counts)
{
	const uint64 *others = (const uint64 *) &scan->others;
	uint64	   *sums = (uint64 *) counts;

	count_own(scan, counts);
	for (int i = 0; i < NCOUNTS; i++)
		sums[i] += others[i];
}

/* No more rows are wanted, and the shared memory may go. */
void
rose_node_parallel_leave(CustomScanState *css)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;
	RoseNodeParallelShared *shared = scan->shared;
	RoseNodeCounts own;

	if (shared == NULL)
		return;
	if (scan->intervals != NULL)
		rose_interval_detach(scan->intervals);
	scan->shared = NULL;
	count_own(scan, &own);
	for (int i = 0; i < NCOUNTS; i++)
	{
		if (IsParallelWorker())
			pg_atomic_fetch_add_u64(&shared->counts[i], (int64) ((uint64 *) &own)[i]);
		else
			((uint64 *) &scan->others)[i] += pg_atomic_read_u64(&shared->counts[i]);
	}
}

/* ---- the planner ---- */

/* Pages that the table would have without compression. */
static double
plain_pages(const RelOptInfo *rel, const RangeTblEntry *rte)
{
	Size		width = get_relation_data_width(rte->relid, rel->attr_widths - rel->min_attr);

	width += MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);
	return ceil(rel->tuples * width / (BLCKSZ - SizeOfPageHeaderData));
}

/* The table's option parallel_workers; -1: it has none. */
static int
wanted_workers(const RangeTblEntry *rte)
{
	Relation	relation = RelationIdGetRelation(rte->relid);
	int			workers = -1;

	if (relation != NULL)
	{
		workers = RelationGetParallelWorkers(relation, -1);
		RelationClose(relation);
	}
	return workers;
}

int
rose_node_parallel_workers(RelOptInfo *rel, const RangeTblEntry *rte)
{
	int			before = rel->rel_parallel_workers;
	int			workers;

	if (!rel->consider_parallel || max_parallel_workers_per_gather == 0 ||
		!bms_is_empty(rel->lateral_relids))
		return 0;
	/* core is told that plain scans have none */
	rel->rel_parallel_workers = wanted_workers(rte);
	workers = compute_parallel_worker(rel, plain_pages(rel, rte), -1,
									  max_parallel_workers_per_gather);
	rel->rel_parallel_workers = before;
	return workers;
}
