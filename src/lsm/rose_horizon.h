/*-------------------------------------------------------------------------
 *
 * rose_horizon.h
 *	  The oldest transaction that some snapshot may not see yet.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_HORIZON_H
#define ROSE_HORIZON_H

#include "lsm/rose_visibility.h"
#include "storage/procarray.h"
#include "utils/rel.h"

/* Every snapshot sees what transactions before this one committed. */
static inline FullTransactionId
rose_horizon(Relation rel)
{
	return rose_full_xid(GetOldestNonRemovableTransactionId(rel));
}

#endif							/* ROSE_HORIZON_H */
