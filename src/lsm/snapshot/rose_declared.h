/*-------------------------------------------------------------------------
 *
 * rose_declared.h
 *	  Snapshots of REPEATABLE READ transactions, declared to garbage collection.
 *
 * The process array tells how far back a backend's snapshots go, not where they
 * end.  A REPEATABLE READ transaction reads with one snapshot all its life, so its
 * backend writes that down in shared memory. Merges then drop versions that
 * lie between it and the present.  Everybody else is undeclared: whatever is newer than
 * his xmin is kept.
 *
 * A snapshot other than the declared one, with which such a transaction reads, is noticed
 * when it reads a rose table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DECLARED_H
#define ROSE_DECLARED_H

#include "postgres.h"

#include "access/xact.h"
#include "lsm/snapshot/rose_horizon.h"
#include "utils/snapshot.h"

extern Size rose_declared_shmem_size(void);
extern void rose_declared_shmem_init(bool found);
extern void rose_declared_define_callbacks(void);

/* The bodies of the functions below: not to be called. */
extern void rose_declared_begin(void);
extern void rose_declared_check(Snapshot snapshot);

/*
 * Declare the transaction's snapshot if it is of that kind and was taken; the sooner, the
 * less is kept for it. Cheap when done before.
 */
static inline void
rose_snapshot_declare(void)
{
	if (unlikely(XactIsoLevel == XACT_REPEATABLE_READ))
		rose_declared_begin();
}

/*
 * A rose table is about to be read with this MVCC snapshot.  Raises
 * serialization_failure if what it sees may be gone.
 */
static inline void
rose_snapshot_use(Snapshot snapshot)
{
	if (unlikely(XactIsoLevel == XACT_REPEATABLE_READ))
		rose_declared_check(snapshot);
}

/*
 * Complete the table's horizon, of which oldest is set.  The snapshots are allocated in the
 * context.  Takes LWLocks: an own one, then ProcArrayLock and XidGenLock.
 */
extern void rose_declared_horizon(RoseHorizon *horizon, Relation rel, MemoryContext context);

/* Process ids of the backends that have declared a snapshot; how many. *pids is palloc'd. */
extern int	rose_declared_pids(int **pids);

#endif							/* ROSE_DECLARED_H */
