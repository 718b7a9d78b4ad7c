/*-------------------------------------------------------------------------
 *
 * rose_node_finish.h
 *	  Groups of a Rose Aggregate that are whole: their results, without core's Finalize Aggregate.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_FINISH_H
#define ROSE_NODE_FINISH_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"

typedef struct RoseNodeFinish RoseNodeFinish;

/*
 * In the current context: what the node agg, core's Finalize Aggregate, makes of each row that the node below it gives out, if no two of these are of one
 * group.  NULL: that is not known here.  parent: the node that gives it out.
 */
extern RoseNodeFinish *rose_node_finish_create(PlanState *parent, PlanState *agg);

/* The next one, good until the one after it; NULL: there is none. */
extern TupleTableSlot *rose_node_finish_next(RoseNodeFinish *finish);

#endif							/* ROSE_NODE_FINISH_H */
