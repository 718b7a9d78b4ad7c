/*-------------------------------------------------------------------------
 *
 * rose_node_top.h
 *	  Groups that may be among the first ones of a query that wants few.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_TOP_H
#define ROSE_NODE_TOP_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/pathnodes.h"

/* What the planner finds. */
typedef struct RoseNodeTopPlan
{
	int			limit;			/* so many groups are wanted; 0: all, as far as is known */
	bool		descending;
	int			column;			/* of the partial target: the number by which they are ordered first */
} RoseNodeTopPlan;

/* target: of the query's groups.  partial: of their states. */
extern void rose_node_top_find(PlannerInfo *root, const PathTarget *target, const Node *having, const PathTarget *partial,
							   RoseNodeTopPlan *plan);

/* The best numbers so far. */
typedef struct RoseNodeTop
{
	bool		descending;
	int			limit;
	int			n;
	int64		heap[FLEXIBLE_ARRAY_MEMBER];	/* the worst of them first */
} RoseNodeTop;

/* In the current context. */
extern RoseNodeTop *rose_node_top_create(int limit, bool descending);

/* There is a group with this number, which is not negative.  False: it is behind so many others that nobody wants it. */
extern bool rose_node_top_wants(RoseNodeTop *top, int64 number);

#endif							/* ROSE_NODE_TOP_H */
