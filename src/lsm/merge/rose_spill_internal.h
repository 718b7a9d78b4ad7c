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

/*
 * ROSE_LOCK_SPILL, and room in the manifest.
 *
 * tidies: if there is none, components are merged before the spill, without the lock; so
 * it must not be held when that begins.  Otherwise who spills leaves the memtables where
 * they are.
 */
typedef struct RoseSpillTurn
{
	RoseTree   *tree;
	bool		tidies;
	bool		may_help;		/* tidying has made room, or has merged something */
} RoseSpillTurn;

typedef enum RoseSpillRoom
{
	ROSE_SPILL_ROOM,			/* for one memtable, or nothing can be done about it */
	ROSE_SPILL_NO_ROOM,
	ROSE_SPILL_LOOK_AGAIN		/* the lock was let go of: others may have spilled what there was */
} RoseSpillRoom;

extern void rose_spill_turn_begin(RoseSpillTurn *turn, RoseTree *tree, bool tidies);

/* Before each memtable. */
extern RoseSpillRoom rose_spill_turn_look(RoseSpillTurn *turn);
extern void rose_spill_turn_end(RoseSpillTurn *turn);

#endif							/* ROSE_SPILL_INTERNAL_H */
