/*-------------------------------------------------------------------------
 *
 * rose_node_quals.h
 *	  Conditions that are checked for many rows at a time.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_QUALS_H
#define ROSE_NODE_QUALS_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"

#include "lsm/read/rose_batch.h"

/* Can this condition on the relation be a filter?  For the planner. */
extern bool rose_node_quals_takes(Node *clause, Index relid);

/* Of one that can: does it evaluate something that may fail, or run a subquery? */
extern bool rose_node_quals_evaluates(Node *clause, Index relid);

/* The same: does it call a function, for values of texts? */
extern bool rose_node_quals_calls(Node *clause, Index relid);

/* The same: does it make something of columns, which may fail for a row? */
extern bool rose_node_quals_computes(Node *clause, Index relid);

/* Filters of such conditions, in the current context; the values they compare with are evaluated in planstate. */
typedef struct RoseNodeQuals RoseNodeQuals;
extern RoseNodeQuals *rose_node_quals_create(List *clauses, PlanState *planstate);

/* Evaluate what columns are compared with; before the first row of each (re)scan. */
extern void rose_node_quals_start(RoseNodeQuals *quals);

/*
 * Clear the bits of those rows of [first, first + n) for which not all conditions are true; bit i of mask
 * is row first + i.  Returns how many are left.
 */
extern int	rose_node_quals_narrow(RoseNodeQuals *quals, RoseBatch *batch, int first, int n,
								   uint64 *mask);

/*
 * For one of the rows that are left there is, or may be, an error: these are not asked all conditions yet.  Ask the others of one of them,
 * which is the scan tuple of planstate's context, with columns that conditions look at.  In the context's memory for a tuple.
 */
extern bool rose_node_quals_is_open(const RoseNodeQuals *quals);
extern bool rose_node_quals_ask(RoseNodeQuals *quals);

#endif							/* ROSE_NODE_QUALS_H */
