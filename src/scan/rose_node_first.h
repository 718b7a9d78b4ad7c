/*-------------------------------------------------------------------------
 *
 * rose_node_first.h
 *	  Rows that may be among the first ones of a query that wants few.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_FIRST_H
#define ROSE_NODE_FIRST_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"

#include "scan/rose_node_column.h"

/* Of more than so many, all rows are given out. */
#define ROSE_NODE_FIRST_MAX		10000

/* A column by which rows are ordered, as so many integers of the plan. */
typedef enum RoseNodeFirstPrivate
{
	ROSE_FIRST_ATTNO,
	ROSE_FIRST_OPERATOR,		/* the one that is true if its left side comes first */
	ROSE_FIRST_COLLATION,
	ROSE_FIRST_NULLS_FIRST,
	ROSE_FIRST_PRIVATE
} RoseNodeFirstPrivate;

/* --- planning (rose_node_first_plan.c) --- */

/*
 * The first columns by which the query orders rows of this relation, of which it wants few: a list of ROSE_FIRST_PRIVATE integers
 * for each; NIL: there is none, or rows come from elsewhere, too, or go elsewhere than to the order.
 */
extern List *rose_node_first_columns(PlannerInfo *root, const RelOptInfo *rel);

/* The query's LIMIT and OFFSET (or NULL), to be evaluated. */
extern List *rose_node_first_limit(const PlannerInfo *root);

/* Of so many rows, how many are given out? */
extern double rose_node_first_estimate(const PlannerInfo *root, double rows);

/* --- execution (rose_node_first.c) --- */
typedef struct RoseNodeFirst RoseNodeFirst;

/* In the current context.  columns, limit: as the planner found them. */
extern RoseNodeFirst *rose_node_first_create(List *columns, List *limit, ScanState *ss);

/* Before the first row of each (re)scan. */
extern void rose_node_first_start(RoseNodeFirst *first);

/* After the last row: memory is freed, for there may be many such scans in a query.  Before that, all rows are given out from now on. */
extern void rose_node_first_end(RoseNodeFirst *first);

/*
 * Clear the bits of those rows of [from, from + n) that are not among the first for what is known already, if that is quickly seen, and calls no
 * function; returns how many bits were cleared.  Whether these rows meet any conditions does not matter.
 */
extern int	rose_node_first_screen(RoseNodeFirst *first, RoseBatch *batch, int from, int n, uint64 *mask);

/* These rows meet all conditions.  Keep those that may be among the first. */
extern void rose_node_first_keep(RoseNodeFirst *first, RoseNodeRows *rows);

#endif							/* ROSE_NODE_FIRST_H */
