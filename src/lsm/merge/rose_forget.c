/*-------------------------------------------------------------------------
 *
 * rose_forget.c
 *	  What merges may forget.  See rose_forget.h.
 *
 * Pure; no locks.  What it is told, the generation since which inputs are settled and the
 * oldest pin, is found by rose_merge_bottom.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_settled.h"
#include "lsm/merge/rose_forget.h"

/*
 * The greatest xid there is on the sources, or the next one if what it wrote may be an
 * older version of a row: transactions can commit in another order than that of
 * their xids.
 */
static uint64
token_of(const RoseForgetInput *input)
{
	const RoseComponentEntryDisk *newest = input->sources[0];
	uint64		xid = newest->max_xid;
	bool		superseded = (newest->flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0;

	for (int i = 1; i < input->nsources; i++)
	{
		if (input->sources[i]->max_xid < xid)
			continue;
		xid = input->sources[i]->max_xid;
		superseded = true;
	}
	return superseded ? xid + 1 : xid;
}

uint64
rose_forget_xid(const RoseForgetInput *input)
{
	uint64		xid;

	if (!input->bottom || input->nsources == 0 || input->settled == ROSE_UNSETTLED ||
		input->oldest_pin <= input->settled)
		return 0;
	xid = token_of(input);
	if (xid >= input->horizon ||
		(input->pinned_xmin != 0 && xid >= input->pinned_xmin))
		return 0;
	return xid;
}
