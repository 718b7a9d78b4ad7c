/*-------------------------------------------------------------------------
 *
 * rose_gc.c
 *	  Version garbage collection: which versions, PARTIALs and tombstones of a key a merge drops.
 *
 * The rules are in rose_gc.h; here is the filter that goes through the versions of one
 * key at a time, newest first.
 *
 * No locks: it looks at numbers only.
 *
 * What this does not do: know rows or components (rose_compactor.c, rose_merge_batch.c),
 * or whether an output is the bottom, below which there is nothing that a tombstone has
 * to hide (rose_merge_bottom.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_gc.h"

void
rose_gc_init(RoseGc *gc, const RoseHorizon *horizon, bool bottom)
{
	memset(gc, 0, sizeof(*gc));
	gc->horizon = horizon;
	gc->bottom = bottom;
}

RoseGcHeld
rose_gc_next_key(RoseGc *gc)
{
	RoseGcHeld	held = ROSE_GC_NOT_HELD;

	if (gc->holding)
		held = gc->bottom && gc->held_seen_by_all ? ROSE_GC_DROP_HELD : ROSE_GC_WRITE_HELD;
	else if (gc->aside)
		held = ROSE_GC_WRITE_HELD;
	gc->any = false;
	gc->complete = false;
	gc->holding = false;
	gc->aside = false;
	return held;
}

/*
 * Is there a SERIALIZABLE snapshot that does not see the version, and has to meet its
 * writer?  first: the first declared snapshot that sees it.
 */
static RoseSerial
is_conflict(const RoseGc *gc, uint64 xid, uint8 op, uint32 first)
{
	if (op != ROSE_OP_PUT || gc->horizon->first_serializable >= first)
		return ROSE_SERIAL_NO;
	return rose_serial_ask(xid);
}

/* A version of a group that has its row. */
static void
supersede(RoseGc *gc, uint64 xid, uint8 op, RoseSerial conflict, RoseGcDecision *decision)
{
	if (op == ROSE_OP_TOMBSTONE ? decision->seen_by_all :
		conflict == ROSE_SERIAL_NO || xid == gc->kept_xid)
		return;					/* dropped */
	if (op == ROSE_OP_PUT && conflict == ROSE_SERIAL_YES)
	{
		/* the one before it has overwritten this one, and sees it */
		decision->held = gc->aside ? ROSE_GC_SKIP_HELD : ROSE_GC_NOT_HELD;
		decision->action = ROSE_GC_ASIDE;
		gc->aside = true;
		return;
	}
	decision->held = gc->aside ? ROSE_GC_WRITE_HELD : ROSE_GC_NOT_HELD;
	decision->action = ROSE_GC_KEEP;
	gc->aside = false;
	gc->kept_xid = xid;
}

/* First version of a group, or the first after a PARTIAL that was written. */
static RoseGcAction
start_group(RoseGc *gc, bool seen_by_all, uint8 op)
{
	switch (op)
	{
		case ROSE_OP_PARTIAL:
			gc->holding = true;
			gc->held_seen_by_all = seen_by_all;
			return ROSE_GC_HOLD;
		case ROSE_OP_TOMBSTONE:
			gc->complete = true;
			return seen_by_all && gc->bottom ? ROSE_GC_DROP : ROSE_GC_KEEP;
		default:
			gc->complete = true;
			return ROSE_GC_KEEP;
	}
}

RoseGcDecision
rose_gc_next(RoseGc *gc, uint64 seq, FullTransactionId full_xid, uint8 op, bool named)
{
	RoseGcDecision decision = {.action = ROSE_GC_DROP};
	uint64		xid = U64FromFullTransactionId(full_xid);
	uint32		first;
	bool		settled;
	bool		seen_by_all;
	bool		same_group;
	RoseSerial	conflict;

	if (op == ROSE_OP_LOCK || (gc->any && seq == gc->last_seq))
		return decision;
	Assert(!gc->any || seq < gc->last_seq);
	settled = rose_horizon_settled(gc->horizon, xid, &first);
	if (gc->any)
	{
		/* who sees a version sees the older ones, too, whatever their xids are */
		settled = settled || gc->last_settled;
		first = Min(first, gc->last_first);
	}
	seen_by_all = decision.seen_by_all = settled && first == 0;
	same_group = gc->any && (seen_by_all || !named) &&
		(xid == gc->last_xid || (gc->last_settled && first == gc->last_first));
	conflict = is_conflict(gc, xid, op, first);
	if (gc->holding && conflict != ROSE_SERIAL_NO)
		same_group = false;		/* folded, it would lose its writer */
	gc->any = true;
	gc->last_seq = seq;
	gc->last_xid = xid;
	gc->last_settled = settled;
	gc->last_first = first;

	if (same_group && gc->complete)
	{
		supersede(gc, xid, op, conflict, &decision);
		return decision;
	}
	if (same_group && gc->holding && op != ROSE_OP_TOMBSTONE)
	{
		gc->complete = op == ROSE_OP_PUT;
		gc->holding = op != ROSE_OP_PUT;
		decision.action = op == ROSE_OP_PUT ? ROSE_GC_FOLD_LAST : ROSE_GC_FOLD;
		return decision;
	}

	if (gc->holding)
		decision.held = same_group ? ROSE_GC_DROP_HELD : ROSE_GC_WRITE_HELD;
	else if (gc->aside)
		decision.held = ROSE_GC_WRITE_HELD;
	gc->holding = false;
	gc->complete = false;
	gc->aside = false;
	gc->kept_xid = xid;
	decision.action = start_group(gc, seen_by_all, op);
	return decision;
}
