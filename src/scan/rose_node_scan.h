/*-------------------------------------------------------------------------
 *
 * rose_node_scan.h
 *	  Rose Scan: what its plan says, and how that becomes rows.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_SCAN_H
#define ROSE_NODE_SCAN_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* Rows that are decoded and checked together. */
#define ROSE_NODE_VECTOR_ROWS	2048

/* A table of fewer rows is not cheaper to read in batches. */
#define ROSE_NODE_SCAN_MIN_ROWS	200

/*
 * The plan.  scan.plan.qual: residual conditions, checked row by row.  custom_exprs is a list of
 * ROSE_NODE_EXPRS lists of conditions; none is in two of them.  All refer to the table's columns,
 * as those of a sequential scan do.  custom_private is a list of integers: of RoseNodePrivate, and of columns whose first rows are
 * wanted (rose_node_first.h).
 */
typedef enum RoseNodeExprs
{
	ROSE_NODE_KEYS,				/* key ranges, as an index scan's: column first */
	ROSE_NODE_FILTERS,			/* vectorised */
	ROSE_NODE_LIMIT,			/* no conditions: LIMIT and OFFSET, where only the first rows are wanted */
	ROSE_NODE_EXPRS
} RoseNodeExprs;

typedef enum RoseNodePrivate
{
	ROSE_NODE_ORDERED,			/* somebody relies on the order of keys */
	ROSE_NODE_PRIVATE
} RoseNodePrivate;

extern const CustomScanMethods rose_node_scan_methods;

/* --- which condition is checked how (rose_node_clauses.c) --- */
typedef struct RoseNodeClauses
{
	List	   *filters;		/* RestrictInfos */
	List	   *residual;
} RoseNodeClauses;

/* Conditions (RestrictInfos, in the order in which core would check them) that the keys (IndexClauses) do not enforce. */
extern void rose_node_clauses_split(RelOptInfo *rel, List *clauses, List *keys,
									RoseNodeClauses *split);

/* --- paths (rose_node_paths.c) --- */

/* Quick: may one of the following be offered?  Not of small tables, lookups by key, and tables that are not rose's. */
extern bool rose_node_scan_is_worth_a_look(RelOptInfo *rel, const RangeTblEntry *rte);

/* Of the plain table with this target, in no order; NULL: it is not one of rose's, or better read otherwise. */
extern CustomPath *rose_node_scan_path(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
									   PathTarget *target);

/* The same by several processes; NULL as well if one reads it alone. */
extern CustomPath *rose_node_scan_partial_path(PlannerInfo *root, RelOptInfo *rel,
											   const RangeTblEntry *rte, PathTarget *target);

/* The same in the order of its key; NULL as well if it has none. */
extern CustomPath *rose_node_scan_ordered_path(PlannerInfo *root, RelOptInfo *rel,
											   const RangeTblEntry *rte, PathTarget *target);

/* --- several processes (rose_node_parallel.c) --- */

/* So many workers beside the leader; 0: it reads the table alone. */
extern int	rose_node_parallel_workers(RelOptInfo *rel, const RangeTblEntry *rte);

/* --- costs (rose_node_cost.c) --- */

/*
 * Fill the path's rows and costs, of a scan of the ranges of keys (IndexClauses; NIL: of all).  REQUIRES: the path's
 * parallel_workers are set.
 */
extern void rose_node_cost_scan(PlannerInfo *root, CustomPath *path, List *keys);

/* Of a scan in no order: it gives out the first rows of the query's order (rose_node_first.h). */
extern void rose_node_cost_first(PlannerInfo *root, CustomPath *path);

/* Fill rows and costs of a path that takes the scan's rows for the aggregates of its target. */
extern void rose_node_cost_aggregate(PlannerInfo *root, CustomPath *path, const Path *scan);

/* The same of one that makes so many groups, by the columns of its target. */
extern void rose_node_cost_groups(PlannerInfo *root, CustomPath *path, const Path *scan,
								  double ngroups);

/* And of groups that take so many bytes: if that is more than they may take, rows are written, and read again. */
extern void rose_node_cost_spill(CustomPath *path, const Path *scan, double bytes);

#endif							/* ROSE_NODE_SCAN_H */
