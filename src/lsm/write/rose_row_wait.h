/*-------------------------------------------------------------------------
 *
 * rose_row_wait.h
 *	  Waiting for a transaction that holds a row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROW_WAIT_H
#define ROSE_ROW_WAIT_H

#include "postgres.h"

#include "nodes/lockoptions.h"
#include "storage/lmgr.h"

#include "lsm/write/rose_conflict.h"
#include "lsm/write/rose_row_target.h"

/*
 * Wait for the transaction that a conflict names, in line unless we hold a lock.  An
 * error meanwhile says what was to be done with which row.  No LWLock may be held.
 */
extern void rose_row_wait(RoseTree *tree, RoseRowTarget *target, LockTupleMode mode,
						  const RoseConflict *conflict, XLTW_Oper what);

/*
 * The same for SELECT FOR ..., as the policy says: false = SKIP LOCKED will not wait; with
 * NOWAIT an error says so.
 */
extern bool rose_row_wait_by_policy(RoseTree *tree, RoseRowTarget *target, LockTupleMode mode,
									const RoseConflict *conflict, LockWaitPolicy policy);

/* Leave the line, if we are in it. */
extern void rose_row_wait_leave(RoseTree *tree, RoseRowTarget *target);

#endif							/* ROSE_ROW_WAIT_H */
