/*-------------------------------------------------------------------------
 *
 * rose_spill_plan.h
 *	  What becomes of each version of a frozen memtable: written to the run,
 *	  carried over into the new memtable, written to a private run, or
 *	  forgotten. For rose_spill.c.
 *
 * The plan is made in one pass before anything is written, so that all of a
 * spill sees each transaction in one state.  Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPILL_PLAN_H
#define ROSE_SPILL_PLAN_H

#include "memtable/rose_c0.h"

typedef enum RoseSpillFate
{
	ROSE_SPILL_FORGET,			/* aborted, or a lock of an ended transaction */
	ROSE_SPILL_RUN,				/* committed */
	ROSE_SPILL_CARRY,			/* in progress: into the new memtable */
	ROSE_SPILL_PRIVATE			/* in progress and too large for that: to a private run */
} RoseSpillFate;

typedef struct RoseSpillPlan RoseSpillPlan;

/* A transaction in progress that has versions in the memtable. */
typedef struct RoseSpillOwner
{
	uint64		xid;			/* hash key: full top-level xid */
	Size		bytes;			/* of its versions */
	uint64		nversions;
	bool		private;		/* to the private run; false: carried over */
} RoseSpillOwner;

/*
 * Look through a frozen memtable, which nobody else may free meanwhile.
 * private_xid: this transaction's versions go to a private run; 0 = only what is
 * too large to be carried over; ROSE_SPILL_WHOLE = those of all transactions.
 */
#define ROSE_SPILL_WHOLE	PG_UINT64_MAX

extern RoseSpillPlan *rose_spill_plan_make(RoseC0Shared *c0, const RoseSchema *schema,
										   int slot, uint64 private_xid,
										   MemoryContext context);
extern RoseSpillFate rose_spill_plan_fate(RoseSpillPlan *plan, const RoseMemEntryRef *entry,
										  RoseSpillOwner **owner);

/* The new memtable had no room for this transaction: to a private run after all. */
extern void rose_spill_plan_make_private(RoseSpillPlan *plan, RoseSpillOwner *owner);

extern uint64 rose_spill_plan_committed(const RoseSpillPlan *plan); /* versions, at most */
extern uint64 rose_spill_plan_private(const RoseSpillPlan *plan);	/* versions */
extern bool rose_spill_plan_carries(const RoseSpillPlan *plan); /* any */

#endif							/* ROSE_SPILL_PLAN_H */
