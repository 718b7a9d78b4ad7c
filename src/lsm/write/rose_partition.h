/*-------------------------------------------------------------------------
 *
 * rose_partition.h
 *	  Key-partition locks: those who change one row each take turns at its key.
 *
 * Partitions are locked in ascending order, before C0's locks.  A key of a unique index's
 * tree has that of its value: all entries of one value have the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PARTITION_H
#define ROSE_PARTITION_H

#include "storage/lwlock.h"

#include "lsm/tree/rose_tree.h"

extern Size rose_partition_shmem_size(void);	/* key-partition locks */
extern void rose_partition_shmem_init(bool found);

#define ROSE_PARTITIONS 1024	/* a cache line each */

/* One of the key-partition locks; partitions are locked in ascending order. */
extern int	rose_partition_of_key(RoseTree *tree, const Datum *key);

/* An error if keys are hashed by other functions than when the table was first touched. */
extern void rose_partition_require_hash(RoseTree *tree);
extern void rose_partition_lock(int partition);
extern void rose_partition_unlock(int partition);

/* Bring them in order, each once; returns how many they are. */
extern int	rose_partition_sort(int *partitions, int n);

#endif							/* ROSE_PARTITION_H */
