/*-------------------------------------------------------------------------
 *
 * rose_gc.c
 *	  Version garbage collection.  See rose_gc.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_gc.h"

void
rose_gc_init(RoseGc *gc, FullTransactionId horizon, bool bottom)
{
	memset(gc, 0, sizeof(*gc));
	gc->horizon = U64FromFullTransactionId(horizon);
	gc->bottom = bottom;
}

bool
rose_gc_next_key(RoseGc *gc)
{
	bool		flush = gc->holding;

	gc->any = false;
	gc->complete = false;
	gc->holding = false;
	gc->partial_above = false;
	return flush;
}

/* First version of a group, or the first after a PARTIAL that was written. */
static RoseGcAction
start_group(RoseGc *gc, bool old, uint8 op)
{
	switch (op)
	{
		case ROSE_OP_PARTIAL:
			gc->holding = true;
			return ROSE_GC_HOLD;
		case ROSE_OP_TOMBSTONE:
			gc->complete = true;
			/* a PARTIAL above must go on finding that there is no row */
			return old && gc->bottom && !gc->partial_above ? ROSE_GC_DROP : ROSE_GC_KEEP;
		default:
			gc->complete = true;
			return ROSE_GC_KEEP;
	}
}

RoseGcDecision
rose_gc_next(RoseGc *gc, uint64 seq, FullTransactionId full_xid, uint8 op)
{
	RoseGcDecision decision = {false, ROSE_GC_DROP};
	uint64		xid = U64FromFullTransactionId(full_xid);
	bool		old = xid < gc->horizon;
	bool		same_group = gc->any && ((old && gc->last_xid < gc->horizon) ||
										 xid == gc->last_xid);

	if (op == ROSE_OP_LOCK || (gc->any && seq == gc->last_seq))
		return decision;
	Assert(!gc->any || seq < gc->last_seq);
	gc->any = true;
	gc->last_seq = seq;
	gc->last_xid = xid;

	if (same_group && gc->complete)
	{
		if (op == ROSE_OP_TOMBSTONE && !old)
			decision.action = ROSE_GC_KEEP;
		return decision;
	}
	if (same_group && gc->holding && op != ROSE_OP_TOMBSTONE)
	{
		gc->complete = op == ROSE_OP_PUT;
		gc->holding = op != ROSE_OP_PUT;
		decision.action = op == ROSE_OP_PUT ? ROSE_GC_FOLD_LAST : ROSE_GC_FOLD;
		return decision;
	}

	decision.flush = gc->holding;
	gc->partial_above = gc->partial_above || gc->holding;
	gc->holding = false;
	gc->complete = false;
	decision.action = start_group(gc, old, op);
	return decision;
}
