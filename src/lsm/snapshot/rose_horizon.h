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
 *	  between two versions.  There can be any number of them: they stand in a row, the oldest first.
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

/* Which committed transactions a snapshot sees.  Full top-level xids. */
typedef struct RoseKnownSnapshot
{
	uint64		xmin;			/* it sees all older ones, */
	uint64		xmax;			/* none from here on, */
	int			nxip;			/* and between them all but these */
	const uint64 *xip;			/* in no order */
	bool		serializable;	/* it has to meet who wrote what it does not see */
} RoseKnownSnapshot;

typedef struct RoseHorizon
{
	uint64		oldest;			/* full xids */
	uint64		undeclared;
	int			nsnapshots;
	RoseKnownSnapshot *snapshots;	/* each sees all that the one before it sees */
	uint32		first_serializable; /* of them; nsnapshots if there is none */
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

/* The first of the declared snapshots that sees this transaction, as do those behind it; their number if none does. */
static inline uint32
rose_horizon_first(const RoseHorizon *horizon, uint64 xid)
{
	uint32		from = 0;
	uint32		to = horizon->nsnapshots;

	while (from < to)
	{
		uint32		middle = (from + to) / 2;

		if (rose_known_snapshot_sees(&horizon->snapshots[middle], xid))
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/*
 * Who sees what this transaction committed?  first: the declared snapshots from this one
 * on, so 0 is all of them.  The answer: do all undeclared ones?  False if that is not
 * known.
 */
static inline bool
rose_horizon_settled(const RoseHorizon *horizon, uint64 xid, uint32 *first)
{
	*first = 0;
	if (xid < horizon->oldest)
		return true;
	*first = rose_horizon_first(horizon, xid);
	return xid < horizon->undeclared;
}

/*
 * The table's horizon as of now; lives in the context.  Takes LWLocks: the one of
 * rose_declared.c, within it core's ProcArrayLock and XidGenLock.
 */
extern RoseHorizon *rose_horizon_get(Relation rel, MemoryContext context);

/* Its first boundary alone. */
extern uint64 rose_horizon_oldest(Relation rel);

/*
 * What is older has ended, whoever's it was, and so it is for every snapshot that reads the table: for who stores an id
 * that is not the writer's.  The first boundary does not say that.  It is about what this database's transactions have
 * committed, for a temporary table what this session's have; behind it others may run, and snapshots see nothing of a
 * transaction that was running when they were taken.
 */
extern uint64 rose_horizon_ended(Relation rel);

/* The oldest transaction that has not ended, of whatever database, prepared or this one; the next one, if there is none. */
extern uint64 rose_horizon_running(void);

#endif							/* ROSE_HORIZON_H */
