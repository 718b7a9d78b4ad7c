/*-------------------------------------------------------------------------
 *
 * rose_node_agg_text.h
 *	  Least and greatest texts.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_TEXT_H
#define ROSE_NODE_AGG_TEXT_H

#include "postgres.h"

#include "scan/rose_node_agg_memory.h"

/* By which texts are compared. */
typedef struct RoseNodeTextOrder
{
	Oid			collation;
	bool		bytewise;		/* it is the order of their bytes */
	bool		max;			/* the greatest is looked for */
} RoseNodeTextOrder;

/* All zeros: of no values. */
typedef struct RoseNodeTextExtreme
{
	int64		n;				/* values */
	struct varlena *best;		/* a copy; or NULL */
	Size		room;			/* bytes there is room for */
} RoseNodeTextExtreme;

extern void rose_node_text_set_order(RoseNodeTextOrder *order, Oid collation, bool max);

/*
 * Take so many values, none of them NULL: each for one of extremes, or, groups NULL, for the first one.  What is detoasted is left
 * in the current context.
 */
extern void rose_node_text_take(RoseNodeTextExtreme *extremes, const uint32 *groups,
								const int64 *values, int n, const RoseNodeTextOrder *order,
								RoseNodeAggMemory *memory);

/* Of all but this one, if it is not NULL, there are no values any more. */
extern void rose_node_text_forget(RoseNodeAggMemory *memory, RoseNodeTextExtreme *kept);

#endif							/* ROSE_NODE_AGG_TEXT_H */
