/*-------------------------------------------------------------------------
 *
 * rose_unique_pair.h
 *	  Have two rows one value in an index?
 *
 * For the build of a unique index, and for checks of one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UNIQUE_PAIR_H
#define ROSE_UNIQUE_PAIR_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "lsm/tree/rose_index_set.h"

/*
 * Goes through all entries that the snapshot sees.  The first value that two of them have goes
 * to values and nulls, by the index's columns, good in the current context; false: there is
 * none.
 */
extern bool rose_unique_pair_find(RoseTree *tree, const RoseIndexTree *index, Snapshot snapshot,
								  Datum *values, bool *nulls);

/* The value of an entry with this key, by the index's columns, in that context. */
extern void rose_unique_pair_take(const RoseIndexTree *index, const RoseSchema *schema,
								  const Datum *key, MemoryContext context, Datum *values,
								  bool *nulls);

#endif							/* ROSE_UNIQUE_PAIR_H */
