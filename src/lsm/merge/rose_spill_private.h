/*-------------------------------------------------------------------------
 *
 * rose_spill_private.h
 *	  The private runs that a spill writes: one for all transactions in progress, or
 *	  several if columns that the spilling transaction has changed may be rolled back in part.
 *	  For rose_spill.c.  Backend-local.
 *
 * They are published with the run of the spill, in one switch (rose_spill.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPILL_PRIVATE_H
#define ROSE_SPILL_PRIVATE_H

#include "store/rose_manifest.h"
#include "lsm/tree/rose_altered.h"

typedef struct RoseSpillPrivate RoseSpillPrivate;

/* nversions: how many there will be. */
extern RoseSpillPrivate *rose_spill_private_create(RoseTree *tree,
												   const RoseSpillSchemas *schemas,
												   uint64 nversions, MemoryContext context);

/* Versions in order; row->tuple is that of memory. */
extern void rose_spill_private_add(RoseSpillPrivate *private, const RoseRow *row);

/* Entries of what was written, newest first; returns how many. */
extern int	rose_spill_private_finish(RoseSpillPrivate *private, RoseComponentEntryDisk *entries);

/* After publishing, or giving up. */
extern void rose_spill_private_free(RoseSpillPrivate *private);

#endif							/* ROSE_SPILL_PRIVATE_H */
