/*-------------------------------------------------------------------------
 *
 * rose_own_runs.h
 *	  Private runs: what became of their transactions, and what to do then.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OWN_RUNS_H
#define ROSE_OWN_RUNS_H

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_tree.h"

typedef enum RosePrivateState
{
	ROSE_PRIVATE_OPEN,			/* in progress, or our own; none has committed */
	ROSE_PRIVATE_PARTLY,		/* some are in progress, others have committed */
	ROSE_PRIVATE_COMMITTED,		/* some; none is in progress */
	ROSE_PRIVATE_ABORTED		/* all */
} RosePrivateState;

/* Its transactions by what became of them.  As of when it is asked for: OPEN holds for that moment. */
typedef struct RosePrivateOwners
{
	int			nopen;
	int			ncommitted;
	int			naborted;
} RosePrivateOwners;

/* An entry of the table's manifest at hand. */
extern RosePrivateState rose_private_state(RoseTable *table, const RoseComponentEntryDisk *entry);
extern RosePrivateState rose_private_owners(RoseTable *table, const RoseComponentEntryDisk *entry,
											RosePrivateOwners *owners);

/* What became of one of them. */
extern RoseXidStatus rose_private_owner_status(uint64 owner);

/* May a merge take it?  Live, and without a transaction in progress.  As above. */
extern bool rose_component_mergeable(RoseTable *table, const RoseComponentEntryDisk *entry);

/*
 * Look after private runs: those of aborted transactions are dropped, those of
 * committed ones become ordinary if they can without being rewritten.  Takes
 * ROSE_LOCK_SPILL, does not wait for it.
 */
extern void rose_settle_private_runs(RoseTable *table);

/*
 * Join private runs of transactions in progress, if they are many, in this process:
 * for a writer whose table no worker can or will merge.  worker: one would merge what is committed; without
 * one that is done here, too, when there are many components.
 */
extern void rose_tidy_own_runs(RoseTable *table, bool worker);

/*
 * Before a spill: do that if the manifest is so full that the spill would leave no room for merges.  Not for a table that
 * a subscription feeds, if a worker comes.  REQUIRES: ROSE_LOCK_SPILL is not held.
 */
extern void rose_tidy_full_manifest(RoseTable *table);

#endif							/* ROSE_OWN_RUNS_H */
