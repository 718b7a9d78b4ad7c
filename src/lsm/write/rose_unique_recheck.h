/*-------------------------------------------------------------------------
 *
 * rose_unique_recheck.h
 *	  Values of unique indexes that are looked at without writing: by deferrable
 *	  constraints, and for ON CONFLICT.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UNIQUE_RECHECK_H
#define ROSE_UNIQUE_RECHECK_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "lsm/tree/rose_tree.h"

/*
 * A deferrable constraint is checked: has another row the value that the row of this TID, or
 * what it has become, has in this index?  Waits for transactions that it depends on, and
 * raises the error.  No LWLock may be held.
 */
extern void rose_unique_recheck_row(RoseTree *table, Relation index, const ItemPointerData *tid);

/*
 * Wait until it is decided whether a row has this value; values, nulls: of the index's
 * columns.  Raises the error, if one has.  Not of the primary key.
 */
extern void rose_unique_recheck_value(RoseTree *table, Relation index, const Datum *values,
									  const bool *nulls);

/* The same of the primary key. */
extern void rose_unique_recheck_key(RoseTree *table, Relation index, const Datum *values,
									const bool *nulls);

#endif							/* ROSE_UNIQUE_RECHECK_H */
