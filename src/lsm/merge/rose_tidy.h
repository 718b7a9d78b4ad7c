/*-------------------------------------------------------------------------
 *
 * rose_tidy.h
 *	  Merges in the process that writes, where no worker does them.
 *
 * So that nobody leaves more runs behind than a table can bear.  No LWLock may be held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TIDY_H
#define ROSE_TIDY_H

#include "lsm/tree/rose_run_state.h"
#include "lsm/tree/rose_tree.h"

/*
 * Join private runs of transactions in progress, if they are many, in this process: for a
 * writer whose table no worker can or will merge.  worker: one would merge what is
 * committed; without one that is done here, too, when there are many components.  True if
 * something was joined, split or merged.
 */
extern bool rose_tidy_own_runs(RoseTree *tree, bool worker);

/*
 * Before a spill: do that if the manifest is so full that the spill would leave no room
 * for merges.  Not for a table that a subscription feeds, if a worker comes, as long as
 * there is room for one spill.  True if there is room, or something was done.  REQUIRES:
 * ROSE_LOCK_SPILL is not held.
 */
extern bool rose_tidy_full_manifest(RoseTree *tree);

#endif							/* ROSE_TIDY_H */
