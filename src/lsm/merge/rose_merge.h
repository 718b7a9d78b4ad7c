/*-------------------------------------------------------------------------
 *
 * rose_merge.h
 *	  Merges: runs and C1 to C1, C1 to C2.
 *
 * A merge holds the table's ROSE_LOCK_MERGE, as a session lock from its first step to its
 * last, and takes ROSE_LOCK_SPILL for moments, which a merge that is kept does not wait
 * for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_H
#define ROSE_MERGE_H

#include "postgres.h"

#include "store/rose_manifest.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_picker.h"

typedef struct RoseMerge RoseMerge;

/*
 * Start the merge that was picked; level 2 is a pass over C2's pieces.  NULL if the lock
 * is taken, the manifest has changed, or there is nothing (left) to do.
 *
 * keep: it lives across transactions, in a child of TopMemoryContext, under a
 * session lock; the caller opens the table anew for each step.  One process
 * may have several merges of a table with different inputs.  Otherwise it ends
 * with the transaction, and waits for the lock.
 */
extern RoseMerge *rose_merge_begin(RoseTree *tree, const RosePickResult *pick, bool keep);

/* From now on other processes may work on this pass, which is kept. */
extern void rose_merge_open(RoseMerge *merge, RoseTree *tree);

/*
 * Work on the pass that another process has begun and opened, as one that is kept.  NULL
 * if there is none, or nothing that is not taken yet.
 */
extern RoseMerge *rose_merge_help(RoseTree *tree);

/* After an error in one of these (keep), and the abort of its transaction, with which its lock has gone. */
extern void rose_merge_begin_failed(void);

typedef enum RoseMergeProgress
{
	ROSE_MERGE_MORE,			/* call again */
	ROSE_MERGE_LATER,			/* only if kept: call again, but not at once; a spill is in the way */
	ROSE_MERGE_IN_TURN,			/* only if kept: call again when the latch is set; other processes come
								 * first with their parts of the pass */
	ROSE_MERGE_DONE				/* published (or given up because the table changed); free it */
} RoseMergeProgress;

/* Merge for at most budget_ms (0 = to the end). */
extern RoseMergeProgress rose_merge_step(RoseMerge *merge, RoseTree *tree, int budget_ms);

/*
 * End it and free it, done or not.  tree: as opened now, or NULL if it is gone.  After an
 * error in a step it can only be ended, once the transaction is aborted: by this, or by
 * the end of the process, with which locks and blocks are given up, too.
 */
extern void rose_merge_end(RoseMerge *merge, RoseTree *tree);

/*
 * An abort of a transaction releases locks of the session, too, those of all merges.  One
 * that will only be ended does without; one that is to go on takes its lock again, at
 * once.  False: another process has it already, and the merge can only be ended.
 */
extern void rose_merge_lost_lock(RoseMerge *merge);
extern bool rose_merge_lock_again(RoseMerge *merge);

/*
 * Its table is locked, so that it cannot go on: if somebody waits for its lock, and has
 * for long, it lets go of that, and can only be ended.  False: not yet.
 */
extern bool rose_merge_give_way(RoseMerge *merge);

/* Does somebody wait for its lock? */
extern bool rose_merge_has_waiters(const RoseMerge *merge);

/*
 * Does somebody merge the table for himself, or wait to?  Then no merge is begun that
 * would be kept: not by a process, either, that has one, and with it the lock.
 */
extern bool rose_merge_is_wanted_alone(RoseTree *tree);

extern RelFileLocator rose_merge_locator(const RoseMerge *merge);

/*
 * Everything (spill first) into C2, now, in this process.  alone: the
 * transaction had not looked at the table before, so that what the merge replaces
 * need not be kept for it.
 */
extern void rose_merge_all(RoseTree *tree, bool alone);

/* The size that pieces of C2 aim at, if there is so much in all. */
extern uint64 rose_merge_piece_blocks(uint64 nblocks);
extern void rose_merge_define_settings(void);	/* rose.debug_piece_size */

#endif							/* ROSE_MERGE_H */
