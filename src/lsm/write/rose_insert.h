/*-------------------------------------------------------------------------
 *
 * rose_insert.h
 *	  Inserts with uniqueness, of one row and of many.
 *
 * A duplicate is an answer here; the error that a user sees is raised by whoever asked
 * (tree/rose_duplicate_key.h).  All may wait for other transactions and for room; no
 * LWLock may be held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INSERT_H
#define ROSE_INSERT_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "lsm/tree/rose_tree.h"
#include "lsm/write/rose_duplicate.h"

typedef enum RoseInsertResult
{
	ROSE_INSERT_OK,
	ROSE_INSERT_DUPLICATE,		/* a committed (or own) row with the key, or with the value of a unique
								 * index, is there; the new row may be, too, so the (sub)transaction
								 * has to fail */
	ROSE_INSERT_CONFLICT		/* speculative: someone else's, in progress or committed */
} RoseInsertResult;

/*
 * Insert a row (values/nulls of all columns; external and compressed values are detoasted
 * here).  Waits for transactions that hold the key, or a value of a unique index.  speculative:
 * does not wait, returns CONFLICT instead, and there is no new row.  On OK sets *tid, else
 * *duplicate, in the current context.
 */
extern RoseInsertResult rose_insert(RoseTree *tree, const Datum *values, const bool *nulls,
									CommandId cid, bool speculative, ItemPointer tid,
									RoseDuplicate *duplicate);

/* Many rows, in one go (COPY); stops at the first duplicate: *ndone rows are in. */
extern RoseInsertResult rose_insert_many(RoseTree *tree, Datum **values, bool **nulls,
										 int nrows, CommandId cid, ItemPointer tids, int *ndone,
										 RoseDuplicate *duplicate);

/* The subtransaction of this nesting level is aborted. */
extern void rose_insert_abort_subtransaction(int level);

/*
 * Speculative insertion failed: take the row with this TID out again, which was inserted by
 * command cid.  It goes in the same command, so no snapshot ever sees it.
 */
extern void rose_insert_abort_speculative(RoseTree *tree, ItemPointer tid, CommandId cid);


#endif							/* ROSE_INSERT_H */
