/*-------------------------------------------------------------------------
 *
 * rose_resort.h
 *	  All that a table has, sorted anew: for one whose rows are in the order of
 *	  other versions of collations than the server has.
 *
 * Nothing here trusts the order of what is stored.  Components and tail log are read from
 * front to back, and core's tuplesort, within maintenance_work_mem, does the rest.
 *
 * The caller has the table to itself, and switches files when all is written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RESORT_H
#define ROSE_RESORT_H

#include "postgres.h"

#include "executor/tuptable.h"

#include "lsm/tree/rose_tree.h"

typedef struct RoseResort RoseResort;

/* Is the present order that of all components?  Reads them to the first place where it is not. */
extern bool rose_resort_is_needless(RoseTree *tree);

/*
 * Read and sort all committed versions.  REQUIRES: AccessExclusiveLock, so that none of
 * their transactions is in progress.  The table's file may be replaced afterwards.
 */
extern RoseResort *rose_resort_begin(RoseTree *tree, bool rows_only);
extern void rose_resort_end(RoseResort *resort);

/*
 * Two rows that were different have equal keys now; the slot's first columns are those of
 * the second one.  Raises an error.
 */
typedef void (*RoseResortDuplicate) (void *arg, TupleTableSlot *slot);

/*
 * Write them to the table's new and empty file: the versions as they are, so that
 * snapshots see what they saw.  Returns how many.  Not after rows_only.
 */
extern uint64 rose_resort_write(RoseResort *resort, RoseTree *tree,
								RoseResortDuplicate duplicate, void *arg);

/*
 * After rows_only: the next row that everybody sees, in the slot's first columns, or
 * false.  Keys that are written in different ways are different here.
 */
extern bool rose_resort_next_row(RoseResort *resort, Datum *values, bool *nulls);

#endif							/* ROSE_RESORT_H */
