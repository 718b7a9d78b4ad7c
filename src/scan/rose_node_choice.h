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

/* Rows of a table from which on there is a choice: of fewer the wrong way costs little, and some thousand rows are asked before it is seen that it is. */
#define ROSE_CHOICE_MIN_ROWS	16384

/* May the same rows be read twice, and the same expressions be in two plans? */
extern bool rose_node_choice_is_safe(const RelOptInfo *input, const RelOptInfo *grouped,
									 const Node *having);

/*
 * vectors: core's Finalize Aggregate over a Rose Aggregate with groups, or over a Sort of it; rows: core's aggregate.  Both are of the same
 * target, and in the same order, if any.
 */
extern Path *rose_node_choice_path(Path *vectors, Path *rows);

extern const CustomScanMethods rose_node_choice_methods;

#endif							/* ROSE_NODE_CHOICE_H */
