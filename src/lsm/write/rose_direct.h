/*-------------------------------------------------------------------------
 *
 * rose_direct.h
 *	  Writing past C0: the last resort of a writer who finds no room in memory.
 *
 * Between rose_direct_begin and rose_direct_end a transaction holds ROSE_LOCK_SPILL of
 * the table; rose_write.c sends what it is told to write here meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DIRECT_H
#define ROSE_DIRECT_H

#include "postgres.h"

#include "lsm/write/rose_new_version.h"

/*
 * The next write to the table goes past C0, to a private run.  False: it cannot.  Waits
 * for a spill of the table; no LWLock may be held.  The writer takes his locks and looks
 * at his keys again then.  worker: one merges the table.
 */
extern bool rose_direct_begin(RoseTree *tree, bool worker);

/* The table that this process is about to write to in this way, or NULL. */
extern RoseTree *rose_direct_tree;

/*
 * Write all of them, or none: somebody has written, or may have written, one of the keys
 * since the look, or other indexes are to be kept up than those of this generation.
 * numbered: they have their numbers already.
 */
extern RoseMemPrepared rose_direct_write(RoseTree *tree, RoseNewVersion *versions, int n,
										 RoseC0Look *look, uint64 generation, bool numbered);

/* Nothing more comes. */
extern void rose_direct_end(void);

/* The (sub)transaction of this nesting level has failed. */
extern void rose_direct_abort(int level);

#endif							/* ROSE_DIRECT_H */
