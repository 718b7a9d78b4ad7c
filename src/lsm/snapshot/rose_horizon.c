/*-------------------------------------------------------------------------
 *
 * rose_horizon.c
 *	  The horizon of a table, made of core's oldest xmin and of declared snapshots.  See rose_horizon.h.
 *
 * Locking: what core's functions and rose_declared_horizon take.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/procarray.h"
#include "utils/rel.h"

#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/snapshot/rose_visibility.h"

uint64
rose_horizon_oldest(Relation rel)
{
	return U64FromFullTransactionId(rose_full_xid(GetOldestNonRemovableTransactionId(rel)));
}

RoseHorizon *
rose_horizon_get(Relation rel, MemoryContext context)
{
	RoseHorizon *horizon = MemoryContextAllocZero(context, sizeof(RoseHorizon));

	horizon->oldest = rose_horizon_oldest(rel);
	rose_declared_horizon(horizon, rel, context);
	return horizon;
}
