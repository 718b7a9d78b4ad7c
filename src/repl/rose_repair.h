/*-------------------------------------------------------------------------
 *
 * rose_repair.h
 *	  The changes that a backend has the worker write, as they lie in shared memory.
 *
 * Written by rose_repair.c, read by rose_repair_apply.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPAIR_H
#define ROSE_REPAIR_H

#include "postgres.h"

#include "storage/dsm.h"

#include "repl/rose_repl_internal.h"

/* Followed by so many bytes: messages of pgoutput, the first one a Relation, each with its length (int32) before it. */
typedef struct RoseRepairChangesShared
{
	Oid			remote_relid;	/* of the upstream's table */
	Size		len;
} RoseRepairChangesShared;

#define ROSE_REPAIR_CHANGES(changes) \
	((char *) (changes) + MAXALIGN(sizeof(RoseRepairChangesShared)))

/*
 * Between wait and end (rose_verify_position.c): the worker writes these changes and commits them before it goes on.  False: it
 * does not stand still there any more, and has not.  Error if it has failed.
 */
extern bool rose_verify_position_repair(const RoseSubscription *sub, TimestampTz deadline, dsm_handle changes);

/* The worker's side of that: done when it has stood still (rose_verify_hold.c).  Nothing if it is not asked for. */
extern void (*rose_verify_hold_repair) (RoseReplSubShared *shared);

/* When the library is loaded. */
extern void rose_repair_apply_register(void);

#endif							/* ROSE_REPAIR_H */
