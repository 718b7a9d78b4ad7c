/*-------------------------------------------------------------------------
 *
 * rose_private.h
 *	  Private runs: what became of their transactions, and what to do then.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PRIVATE_H
#define ROSE_PRIVATE_H

#include "lsm/rose_table.h"

typedef enum RosePrivateState
{
	ROSE_PRIVATE_OPEN,			/* in progress, or our own */
	ROSE_PRIVATE_COMMITTED,
	ROSE_PRIVATE_ABORTED
} RosePrivateState;

/* What became of the owner of a private run. */
extern RosePrivateState rose_private_state(const RoseComponentEntryDisk *entry);

/* May a merge take it?  Live, and without a transaction in progress. */
extern bool rose_component_mergeable(const RoseComponentEntryDisk *entry);

/*
 * Look after private runs: those of aborted transactions are dropped, those of
 * committed ones become ordinary if they can without being rewritten.  Takes
 * ROSE_LOCK_SPILL, does not wait for it.
 */
extern void rose_settle_private_runs(RoseTable *table);

/*
 * Join the private runs that the current transaction has made, if they are many, in this process:
 * for a writer whose table no worker can or will merge.
 */
extern void rose_join_own_runs(RoseTable *table);

#endif							/* ROSE_PRIVATE_H */
