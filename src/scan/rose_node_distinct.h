/*-------------------------------------------------------------------------
 *
 * rose_node_distinct.h
 *	  Aggregates of distinct values over a Rose Aggregate.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_DISTINCT_H
#define ROSE_NODE_DISTINCT_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* --- paths (rose_node_distinct_paths.c) --- */

/* Offer paths of a query that has aggregates with DISTINCT, all of one value.  extra: a GroupPathExtraData. */
extern void rose_node_distinct_add_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
										 void *extra);

/* --- what is computed in the place of aggregates (rose_node_distinct_mixed.c) --- */
typedef struct RoseNodeMixed
{
	int			naggregates;	/* of core's node */
	List	   *partials;		/* Aggrefs that a Rose Aggregate is to give out */
	List	   *known;			/* Aggrefs of the query, ... */
	List	   *replaced;		/* ... and what each became */
} RoseNodeMixed;

/* What core computes from groups in the place of an aggregate; NULL: nothing has the same value. */
extern Expr *rose_node_mixed_replace(RoseNodeMixed *mixed, const Aggref *aggref);

/* --- Rose Distinct (rose_node_distinct.c) --- */

/* What the path below computes stands for what is in the same place of target. */
extern CustomPath *rose_node_distinct_path(Path *below, PathTarget *target);

extern const CustomScanMethods rose_node_distinct_methods;

#endif							/* ROSE_NODE_DISTINCT_H */
