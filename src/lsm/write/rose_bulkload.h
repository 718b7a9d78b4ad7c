/*-------------------------------------------------------------------------
 *
 * rose_bulkload.h
 *	  Bulk load: rows become one private run without passing through memory.
 *
 * For initial copies and rewrites.  Uniqueness is checked among the rows of one load
 * only: the caller has the table to itself, or knows that no other row has these keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BULKLOAD_H
#define ROSE_BULKLOAD_H

#include "postgres.h"

#include "lsm/component/rose_component.h"
#include "lsm/tree/rose_tree.h"

/*
 * Bulk load: rows become one private run owned by the current transaction (visible to
 * others when it commits).  sorted: they come in the order of their keys, of which no two
 * are equal; else they are sorted, and equal keys are an error.  level: 0 or 2 (table must
 * be empty for 2).  memory_kb: for sorting.
 */
typedef struct RoseBulkLoad RoseBulkLoad;
extern RoseBulkLoad *rose_bulkload_begin(RoseTree *tree, CommandId cid, bool sorted,
										 int level, Oid subid, uint64 epoch, int memory_kb);
extern void rose_bulkload_put(RoseBulkLoad *load, const Datum *values, const bool *nulls);

/*
 * Many rows of a table with a key, in its order: of a load that said so, and of values as they are stored, which were
 * seen to fit.  Sets their numbers and writers.
 */
extern void rose_bulkload_put_rows(RoseBulkLoad *load, RoseRowBatch *rows);
extern uint64 rose_bulkload_finish(RoseBulkLoad *load); /* rows */

#endif							/* ROSE_BULKLOAD_H */
