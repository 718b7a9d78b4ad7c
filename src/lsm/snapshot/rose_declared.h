/*-------------------------------------------------------------------------
 *
 * rose_declared.h
 *	  Snapshots, declared to garbage collection.
 *
 * The process array tells how far back a backend's snapshots go, not where they end.  So
 * backends write down in shared memory what their snapshots see, and merges drop versions
 * that lie between them, or between them and the present.  Whatever is not declared is
 * undeclared: what is newer than the backend's xmin is kept.
 *
 * A REPEATABLE READ or SERIALIZABLE transaction reads with one snapshot all its life,
 * which is declared before it is first used; another one, with which such a transaction
 * reads, is noticed when it reads a rose table.  A READ COMMITTED transaction lists its
 * snapshots now and then (rose_declared_live.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DECLARED_H
#define ROSE_DECLARED_H

#include "postgres.h"

#include "access/xact.h"
#include "executor/execdesc.h"
#include "utils/snapshot.h"

#include "lsm/snapshot/rose_horizon.h"

extern Size rose_declared_shmem_size(void);
extern void rose_declared_shmem_init(bool found);
extern void rose_declared_define_callbacks(void);
extern void rose_declared_live_define_callbacks(void);	/* called by the one before */

/* The bodies of the functions below: not to be called. */
extern void rose_declared_begin(void);
extern void rose_declared_check(Snapshot snapshot);
extern void rose_declared_pass(void);
extern bool rose_declared_armed;

/*
 * Declare the transaction's snapshot if it is of that kind and was taken; the sooner, the
 * less is kept for it. Cheap when done before.
 */
static inline void
rose_snapshot_declare(void)
{
	if (unlikely(XactIsoLevel >= XACT_REPEATABLE_READ))
		rose_declared_begin();
}

/*
 * A rose table is about to be read with this MVCC snapshot.  Raises
 * serialization_failure if what it sees may be gone.
 */
static inline void
rose_snapshot_use(Snapshot snapshot)
{
	if (unlikely(XactIsoLevel >= XACT_REPEATABLE_READ))
		rose_declared_check(snapshot);
	else if (rose_declared_armed)
		rose_declared_pass();
}

/* A rose table is being read, for a while: time to list anew what snapshots there are?  Call once for many rows. */
static inline void
rose_snapshot_pass(void)
{
	if (rose_declared_armed)
		rose_declared_pass();
}

/*
 * What the hooks of queries and commands tell: around each run of a query (stays: it may
 * be gone on with later); each beginning of a query or of a function's use; beginning and
 * end of each command (of_client: not of a function).
 */
typedef struct RoseDeclaredRun
{
	Snapshot	snapshot;		/* of what runs around it */
	bool		armed;
	bool		fetch;			/* it is a FETCH of the client */
} RoseDeclaredRun;

extern void rose_declared_run_begin(RoseDeclaredRun *run, QueryDesc *query);
extern void rose_declared_run_end(const RoseDeclaredRun *run, bool stays);
extern void rose_declared_note_start(void);
extern void rose_declared_note_command(bool of_client, const Node *stmt);
extern void rose_declared_end_command(bool of_client);

/*
 * Complete the table's horizon, of which oldest is set.  The snapshots are allocated in
 * the context.  Takes LWLocks: an own one, then ProcArrayLock, ReplicationSlotControlLock
 * and XidGenLock.
 */
extern void rose_declared_horizon(RoseHorizon *horizon, Relation rel, MemoryContext context);

/* Process ids of the backends that have declared a snapshot; how many. *pids is palloc'd. */
extern int	rose_declared_pids(int **pids);

#endif							/* ROSE_DECLARED_H */
