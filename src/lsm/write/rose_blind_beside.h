/*-------------------------------------------------------------------------
 *
 * rose_blind_beside.h
 *	  Blind writes beside others who write to the table.
 *
 * For this folder, but for what waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLIND_BESIDE_H
#define ROSE_BLIND_BESIDE_H

#include "postgres.h"

#include "memtable/rose_c0.h"
#include "lsm/write/rose_blind.h"

/*
 * Wait for a transaction that holds the row of this one's key, as XactLockTableWait.  No LWLock is held.  Set by who has
 * something to do meanwhile; NULL: nobody has.
 */
typedef void (*RoseBlindWaitHook) (RoseTree *tree, const RoseBlindRow *row, TransactionId xwait);
extern RoseBlindWaitHook rose_blind_wait_hook;

/* All transactions before this one have ended. */
extern uint64 rose_blind_ended(void);

/* May others who go on have written to the table, or locked rows of it?  For a moment. */
extern bool rose_blind_has_others(RoseTree *tree);

/*
 * Write rows in their order, each when nobody else holds its key, until there is no room; returns how many.  seqs: as
 * link_rows; below: as rose_blind_write.  REQUIRES: the tree has a key, and is logged.
 */
extern int	rose_blind_write_beside(RoseTree *tree, const RoseVersion *stamp, const RoseBlindRow *rows, int n,
									uint64 *seqs, uint8 *below, const RoseOwnRules *rules);

#endif							/* ROSE_BLIND_BESIDE_H */
