/*-------------------------------------------------------------------------
 *
 * rose_unique_beside.h
 *	  Values that two rows have in a unique index which was built beside writers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UNIQUE_BESIDE_H
#define ROSE_UNIQUE_BESIDE_H

#include "postgres.h"

#include "lsm/tree/rose_index_set.h"

/*
 * The first value that two rows have, or have had while this went on, as rose_unique_pair_find tells
 * it.  False: there is none, and none will be, for whoever writes one from now on sees all.
 * Waits for transactions in progress that it depends on.  REQUIRES: the index is complete
 * (rose_index_beside.h); no LWLock is held.
 */
extern bool rose_unique_beside_find(RoseTree *index, const RoseIndexTree *described,
									Datum *values, bool *nulls);

#endif							/* ROSE_UNIQUE_BESIDE_H */
