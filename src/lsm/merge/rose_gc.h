/*-------------------------------------------------------------------------
 *
 * rose_gc.h
 *	  Which versions of a key must be kept: version garbage collection as a
 *	  pure filter.
 *
 * The versions of one key are shown to the filter newest first; it says of
 * each what to do.  It knows nothing of rows, files or locks, so it can be
 * tested alone.
 *
 * Two neighbouring versions belong together when no snapshot can tell them
 * apart: when the same snapshots are known to see them (rose_horizon.h), or when the
 * same transaction wrote both.  Xids need not fall as versions get older, for who comes
 * late may have begun early; but what was there when a version was written is seen by
 * whoever sees that one.  Of what belongs together one version is kept: the newest, or,
 * if that is a PARTIAL, the PARTIALs down to the first complete version folded
 * into one.
 *
 * Two kinds of versions are kept even if a newer one stands for them, as long as a
 * snapshot may see what was before, because somebody may wait to write that row.
 * Tombstones: they tell that it was deleted, or where it went, and not updated.  And what
 * a tombstone of another key says that the row became ("named"): who comes from there
 * looks for that very version, and goes on to the newest one from it.
 *
 * And SERIALIZABLE transactions have to meet a writer of what they do not see.  Of the
 * versions between two that are kept the oldest is kept, too, that a SERIALIZABLE
 * transaction has written, as long as there is a SERIALIZABLE snapshot that does not see
 * it ("SERIALIZABLE" in snapshot/README.md says why that one is enough).  It is held back
 * until it is known that there is no older one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_GC_H
#define ROSE_GC_H

#include "postgres.h"

#include "util/rose_version.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/snapshot/rose_serial.h"

typedef enum RoseGcAction
{
	ROSE_GC_DROP,				/* nobody needs it */
	ROSE_GC_KEEP,				/* write it as it is */
	ROSE_GC_HOLD,				/* a PARTIAL: hold it back, more may be folded in */
	ROSE_GC_ASIDE,				/* a PUT: hold it back, an older one may do in its place */
	ROSE_GC_FOLD,				/* fold into the one held back and go on */
	ROSE_GC_FOLD_LAST			/* fold, which makes it complete; write it as a PUT */
} RoseGcAction;

/*
 * What is held back, a PARTIAL when nothing can be folded in any more, or a PUT when it
 * is known what comes next.
 */
typedef enum RoseGcHeld
{
	ROSE_GC_NOT_HELD,			/* there is none */
	ROSE_GC_WRITE_HELD,			/* write it as it is */
	ROSE_GC_DROP_HELD,			/* a PARTIAL: it is no row */
	ROSE_GC_SKIP_HELD			/* a PUT: the version shown takes its place */
} RoseGcHeld;

typedef struct RoseGcDecision
{
	RoseGcHeld	held;			/* first, what to do with the one held back */
	bool		seen_by_all;	/* by every snapshot, now and later */
	RoseGcAction action;
} RoseGcDecision;

/* The fields are rose_gc.c's business. */
typedef struct RoseGc
{
	const RoseHorizon *horizon;
	bool		bottom;			/* nothing older than the input is left below */
	bool		any;			/* a version of this key was shown */
	uint64		last_seq;
	uint64		last_xid;
	bool		last_settled;	/* it or a newer one: see rose_horizon_settled() */
	uint32		last_first;		/* the first declared snapshot that sees it */
	bool		complete;		/* the group has its row: the rest is superseded */
	bool		holding;		/* a PARTIAL is held back */
	bool		held_seen_by_all;
	bool		aside;			/* a PUT is held back, of a group that has its row */
	uint64		kept_xid;		/* of the group's version that was kept last */
} RoseGc;

/* The horizon has to stay. */
extern void rose_gc_init(RoseGc *gc, const RoseHorizon *horizon, bool bottom);

/* A new key comes. */
extern RoseGcHeld rose_gc_next_key(RoseGc *gc);

/* The next older version of the key (a repeated sequence is dropped).  named: see above. */
extern RoseGcDecision rose_gc_next(RoseGc *gc, uint64 seq, FullTransactionId xid, uint8 op,
								   bool named);

/*
 * What a version leaves behind for which a newer one of its key stands.  It was a token
 * of the row if its xid is greater than that of the version that is kept, and must not
 * become one again (rose_forget.h): the least xid that was none, or 0.
 *
 * Who takes many rows at a time asks for this alone.  Of whole rows that every snapshot
 * sees, rose_gc_next() keeps the newest of each key, and all others are superseded by it.
 */
static inline uint64
rose_gc_superseded(uint64 kept_xid, uint64 xid)
{
	return xid > kept_xid ? xid + 1 : 0;
}

#endif							/* ROSE_GC_H */
