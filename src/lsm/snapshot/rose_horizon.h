/*-------------------------------------------------------------------------
 *
 * rose_horizon.h
 *	  What the snapshots of today and tomorrow see of committed transactions,
 *	  as far as that is known for certain.
 *
 * Two boundaries, which must not be mixed up:
 *
 *	- oldest: every snapshot sees what older transactions committed. Who wrote
 *	  such a version, and in what order, makes no difference to anybody.
 *	- undeclared: every snapshot does, but for those in the list.  Those say
 *	  exactly what they see (rose_declared.h), so one can tell whether any of them lies
 *	  between two versions.
 *
 * The first is at most as new as the second.  What was found out once holds for ever:
 * snapshots that are taken later see more, and those that end do no harm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_HORIZON_H
#define ROSE_HORIZON_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/relcache.h"

/* Transactions in progress that a declared snapshot may have. */
#define ROSE_DECLARED_XIDS		64

/* Declared snapshots that are told apart: bits of a mask. */
#define ROSE_DECLARED_SNAPSHOTS	64

/* Which committed transactions a snapshot sees.  Full top-level xids. */
typedef struct RoseKnownSnapshot
{
	uint64		xmin;			/* it sees all older ones, */
	uint64		xmax;			/* none from here on, */
	int			nxip;			/* and between them all but these */
	uint64		xip[ROSE_DECLARED_XIDS];
} RoseKnownSnapshot;

typedef struct RoseHorizon
{
	uint64		oldest;			/* full xids */
	uint64		undeclared;
	int			nsnapshots;
	RoseKnownSnapshot *snapshots;
} RoseHorizon;

static inline bool
rose_known_snapshot_sees(const RoseKnownSnapshot *snapshot, uint64 xid)
{
	if (xid < snapshot->xmin)
		return true;
	if (xid >= snapshot->xmax)
		return false;
	for (int i = 0; i < snapshot->nxip; i++)
		if (snapshot->xip[i] == xid)
			return false;
	return true;
}

/* The mask of all declared snapshots. */
static inline uint64
rose_horizon_all(const RoseHorizon *horizon)
{
	return horizon->nsnapshots == 0 ? 0 : PG_UINT64_MAX >> (64 - horizon->nsnapshots);
}

/*
 * Who sees what this transaction committed?  seen: which of the declared snapshots.  The
 * answer: do all undeclared ones?  False if that is not known.
 */
static inline bool
rose_horizon_settled(const RoseHorizon *horizon, uint64 xid, uint64 *seen)
{
	*seen = rose_horizon_all(horizon);
	if (xid < horizon->oldest)
		return true;
	for (int i = 0; i < horizon->nsnapshots; i++)
		if (!rose_known_snapshot_sees(&horizon->snapshots[i], xid))
			*seen &= ~(UINT64CONST(1) << i);
	return xid < horizon->undeclared;
}

/*
 * The table's horizon as of now; lives in the context.  Takes LWLocks: the one of
 * rose_declared.c, within it core's ProcArrayLock and XidGenLock.
 */
extern RoseHorizon *rose_horizon_get(Relation rel, MemoryContext context);

/* Its first boundary alone. */
extern uint64 rose_horizon_oldest(Relation rel);

#endif							/* ROSE_HORIZON_H */
