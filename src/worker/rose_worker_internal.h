/*-------------------------------------------------------------------------
 *
 * rose_worker_internal.h
 *	  What launcher and workers share.
 *
 * rose_workers->lock protects all slots; each field says so.  What the rest of rose knows
 * is rose_worker.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WORKER_INTERNAL_H
#define ROSE_WORKER_INTERNAL_H

#include "storage/latch.h"
#include "storage/lwlock.h"

#include "worker/rose_worker.h"

/* Tables of a database on which a worker ended lately; those it got over are in its own memory. */
#define ROSE_WORKER_FAILURES	16

/* A worker that others wait for may go on for so long; one with merges to lose for longer. */
#define ROSE_WORKER_SLICE_MS	10000

typedef enum RoseWorkerState
{
	ROSE_WORKER_STOPPED = 0,
	ROSE_WORKER_STARTING,		/* registered, not seen yet */
	ROSE_WORKER_RUNNING
} RoseWorkerState;

typedef struct RoseWorkerFailure
{
	Oid			relid;
	TimestampTz until;			/* leave it alone until then */
} RoseWorkerFailure;

/*
 * A database with its first worker, or a helper, which has the fields of a process only:
 * state, info, latch, idle, merging, state_since.  Everything is protected by
 * RoseWorkerShared.lock.
 */
typedef struct RoseWorkerSlotShared
{
	RoseWorkerState state;
	RoseWorkerInfo info;		/* info.dbid 0: free slot */
	Latch	   *latch;			/* of the running worker */
	bool		idle;			/* it had nothing to do when it looked last */
	bool		merging;		/* it has merges under way */
	bool		visit;			/* look for rose tables in the catalog first */
	TimestampTz look_again;		/* something waits, and nothing will tell: start a
								 * worker then; 0 = no */
	int			preempted;		/* workers in a row that gave merges up for others */
	bool		spill_requested;
	bool		help_wanted;	/* there is more to do than its workers can; until a helper
								 * comes, or one of them has nothing to do */
	TimestampTz no_help_before; /* a helper had to give merges up for other databases, or failed */
	uint64		activity;		/* of the registry when a worker found nothing to do */
	TimestampTz state_since;
	TimestampTz not_before;		/* do not start a worker earlier */
	RoseWorkerFailure failures[ROSE_WORKER_FAILURES];
} RoseWorkerSlotShared;

typedef struct RoseWorkerShared
{
	LWLock		lock;			/* all that follows */
	int			tranche;		/* constant */
	Latch	   *launcher;		/* NULL: not running */
	bool		wanted;			/* a database waits for a worker, and all are taken */
	RoseWorkerSlotShared slots[ROSE_WORKER_SLOTS];
} RoseWorkerShared;

extern RoseWorkerShared *rose_workers;

extern int	rose_max_merge_workers; /* rose.max_merge_workers */

/*
 * C0's arena is so full that it should be spilled: ahead of the point where
 * writers have to wait.
 */
extern bool rose_worker_memory_short(void);

/* The slot of a database; make: take a free one, or the longest idle one's.  REQUIRES: lock. */
extern RoseWorkerSlotShared *rose_worker_slot(Oid dbid, bool make);

/* A slot for one more helper; NULL: there is none.  REQUIRES: lock exclusive. */
extern RoseWorkerSlotShared *rose_worker_make_helper_slot(Oid dbid);

/* Workers that run, or are about to, of all databases.  REQUIRES: lock. */
extern int	rose_worker_count(void);

/* The process of this slot has ended.  REQUIRES: lock exclusive. */
extern void rose_worker_stopped(RoseWorkerSlotShared *slot);

extern PGDLLEXPORT void rose_launcher_main(Datum arg);
extern PGDLLEXPORT void rose_maintainer_main(Datum arg);

#endif							/* ROSE_WORKER_INTERNAL_H */
