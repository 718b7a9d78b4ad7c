/*-------------------------------------------------------------------------
 *
 * rose_node_choice.h
 *	  Rose Choice: two plans of the same groups, one of which is run.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_CHOICE_H
#define ROSE_NODE_CHOICE_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "scan/rose_node_top.h"

/* Rows of a table from which on there is a choice: of fewer the wrong way costs little, and some thousand rows are asked before it is seen that it is. */
#define ROSE_CHOICE_MIN_ROWS	16384

/* May the same rows be read twice, and the same expressions be in two plans? */
extern bool rose_node_choice_is_safe(const RelOptInfo *input, const RelOptInfo *grouped,
									 const Node *having);

/* What the first plan is to do with groups. */
typedef enum RoseNodeChoiceKind
{
	ROSE_CHOICE_PARTS,			/* put together, whatever comes */
	ROSE_CHOICE_FINISH,			/* the same, but each is given out once, and is what core takes for one: they need not be put together */
	ROSE_CHOICE_WHOLE			/* it is good for such groups alone */
} RoseNodeChoiceKind;

/* Is there to be a choice for groups of this table? */
extern bool rose_node_choice_is_wanted(const RelOptInfo *input);

/*
 * vectors: core's Finalize Aggregate over a Rose Aggregate with groups, or (PARTS) over a Sort of it; WHOLE: an aggregate of groups.  rows: core's
 * aggregate, or what else makes the same.  Both have the same columns, and are in the same order, if any.
 */
extern Path *rose_node_choice_path(PlannerInfo *root, Path *vectors, Path *rows, RoseNodeChoiceKind kind);

/* Of such a path (FINISH): what is not among the first so many is left out, if it can be; the query orders and limits what it gets. */
extern void rose_node_choice_set_top(Path *choice, const RoseNodeTopPlan *top);

extern const CustomScanMethods rose_node_choice_methods;

#endif							/* ROSE_NODE_CHOICE_H */
