/*-------------------------------------------------------------------------
 *
 * rose_spill_internal.h
 *	  What the files that spill share.
 *
 * Not for others, who call rose_spill.h or rose_epoch_runs.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPILL_INTERNAL_H
#define ROSE_SPILL_INTERNAL_H

#include "lsm/tree/rose_altered.h"
#include "lsm/merge/rose_spill.h"

/* Spill this frozen memtable.  REQUIRES: ROSE_LOCK_SPILL. */
extern void rose_spill_memtable(RoseTree *tree, const RoseSpillSchemas *schemas, int slot, Oid subid, uint64 epoch,
								uint64 private_xid);

/*
 * Freeze the active memtable; false if it is empty or all slots are taken.
 * All segments there are make this memtable, or older ones, durable.
 */
extern bool rose_spill_freeze_active(RoseTreeShared *shared);

#endif							/* ROSE_SPILL_INTERNAL_H */
