/*-------------------------------------------------------------------------
 *
 * rose_index_build.h
 *	  The build of a secondary index: entries of all versions that its table has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_BUILD_H
#define ROSE_INDEX_BUILD_H

#include "postgres.h"

#include "lsm/tree/rose_entry.h"
#include "lsm/tree/rose_tree.h"

/*
 * Fill the new and empty tree of an index, whose entries have this shape.  Every snapshot
 * finds there what it would have found had the index been there always.  Returns how many
 * rows the newest of them have.  REQUIRES: a lock of the table against writers, and
 * that nobody else knows the index yet.
 *
 * A table that a subscription feeds has versions that a crash takes back, but not out of the
 * index.  So the index of such a one gets all entries that any snapshot wants, and every
 * snapshot sees them: whether one is its row's, only the row tells (ROSE_INDEX_VALIDATED).
 */
extern uint64 rose_index_build(RoseTree *table, RoseTree *index, const RoseEntryShape *shape);

/* Blocks that the entries are likely to take: as many as the rows that they are of. */
extern uint64 rose_index_build_blocks(RoseTree *table);

#endif							/* ROSE_INDEX_BUILD_H */
