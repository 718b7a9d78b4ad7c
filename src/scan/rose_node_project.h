/*-------------------------------------------------------------------------
 *
 * rose_node_project.h
 *	  What a node gives out of a row that it has made, or was given from below.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_PROJECT_H
#define ROSE_NODE_PROJECT_H

#include "postgres.h"

#include "executor/executor.h"

/* The node's result of the row in the slot.  REQUIRES: its expressions' memory was reset for this row. */
static inline TupleTableSlot *
rose_node_project(ScanState *ss, TupleTableSlot *slot)
{
	if (ss->ps.ps_ProjInfo == NULL)
		return slot;
	ss->ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(ss->ps.ps_ProjInfo);
}

/* The same of a row that a plan below has given out, if it is one. */
static inline TupleTableSlot *
rose_node_pass_on(ScanState *ss, TupleTableSlot *slot)
{
	if (TupIsNull(slot))
		return NULL;
	ResetExprContext(ss->ps.ps_ExprContext);
	return rose_node_project(ss, slot);
}

#endif							/* ROSE_NODE_PROJECT_H */
