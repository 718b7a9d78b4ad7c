/*-------------------------------------------------------------------------
 *
 * rose_index_beside.h
 *	  The build of a secondary index beside writers: CREATE INDEX CONCURRENTLY.
 *
 * Two steps, each in a transaction of its own; what is between them, before and behind is
 * core's.  See "Built beside writers" in README.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_BESIDE_H
#define ROSE_INDEX_BESIDE_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "lsm/tree/rose_entry.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_tree.h"

/*
 * From this moment on writers keep up the index, whose tree is empty and was made so that
 * they do not yet: the entries of all versions that get their numbers later are written,
 * and of none that has one.  REQUIRES: all who may write to the table know the index.
 */
extern void rose_index_beside_begin(RoseTree *table, RoseTree *index);

/*
 * Before that, of a unique index: the first value that two rows have which this snapshot sees, as
 * rose_unique_pair_find tells it; false: there is none.
 */
extern bool rose_index_beside_find_pair(RoseTree *table, RoseTree *index,
										const RoseIndexTree *described, Snapshot snapshot,
										Datum *values, bool *nulls);

/* And of others: raises an error if a row that it sees cannot have an entry. */
extern void rose_index_beside_check(RoseTree *table, RoseTree *index, const RoseEntryShape *shape,
									Snapshot snapshot);

/*
 * Put the entries of the rows that this snapshot sees under all that writers have written,
 * and the index is complete: for this snapshot, and those that are taken later.  Returns
 * how many there are.  REQUIRES: who wrote to the table when it began has ended before the
 * snapshot was taken, and nobody reads the index before.
 */
extern uint64 rose_index_beside_complete(RoseTree *table, RoseTree *index,
										 const RoseEntryShape *shape, Snapshot snapshot);

/*
 * A build that has failed leaves a tree that would wait for its oldest component for ever: there
 * will be none.  REQUIRES: nobody builds the index, as a ShareUpdateExclusiveLock on the table
 * says.
 */
extern void rose_index_beside_give_up(RoseTree *index);

#endif							/* ROSE_INDEX_BESIDE_H */
