/*-------------------------------------------------------------------------
 *
 * rose_count.h
 *	  How many rows a table has, known without reading them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COUNT_H
#define ROSE_COUNT_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "lsm/tree/rose_tree.h"

/*
 * How many rows the snapshot sees, if it sees all versions that are there, and these are of different keys;
 * false: somebody must read them.  The caller has taken predicate locks.
 */
extern bool rose_count_settled(RoseTree *tree, Snapshot snapshot, uint64 *rows);

#endif							/* ROSE_COUNT_H */
