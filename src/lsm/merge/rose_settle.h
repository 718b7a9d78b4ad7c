/*-------------------------------------------------------------------------
 *
 * rose_settle.h
 *	  Private runs whose transactions have all ended.
 *
 * What became of them is rose_run_state.h's; this is what is done about it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SETTLE_H
#define ROSE_SETTLE_H

#include "lsm/tree/rose_tree.h"

/*
 * Look after private runs: those of aborted transactions are dropped, those of
 * committed ones become ordinary if they can without being rewritten.  Takes
 * ROSE_LOCK_SPILL, does not wait for it.
 */
extern void rose_settle_private_runs(RoseTree *tree);

/* Let this be done for a temporary table when a transaction first uses it.  _PG_init. */
extern void rose_settle_register(void);

#endif							/* ROSE_SETTLE_H */
