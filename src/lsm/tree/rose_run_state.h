/*-------------------------------------------------------------------------
 *
 * rose_run_state.h
 *	  What became of the transactions that own a private run.
 *
 * Callers have the table open, and an entry of its manifest at hand.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RUN_STATE_H
#define ROSE_RUN_STATE_H

#include "store/rose_manifest.h"
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
extern RosePrivateState rose_private_state(RoseTree *tree, const RoseComponentEntryDisk *entry);
extern RosePrivateState rose_private_owners(RoseTree *tree, const RoseComponentEntryDisk *entry,
											RosePrivateOwners *owners);

extern bool rose_manifest_has_private_runs(const RoseManifest *manifest);

/* What became of one of them. */
extern RoseXidStatus rose_private_owner_status(uint64 owner);

/* May a merge take it?  Live, and without a transaction in progress.  As above. */
extern bool rose_component_mergeable(RoseTree *tree, const RoseComponentEntryDisk *entry);

/* Are row locks to be logged?  Only prepared transactions can have them after a crash. */
extern bool rose_tree_logs_locks(void);

#endif							/* ROSE_RUN_STATE_H */
