/*-------------------------------------------------------------------------
 *
 * rose_row_target.h
 *	  The version that an UPDATE, a DELETE or a row lock is about.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROW_TARGET_H
#define ROSE_ROW_TARGET_H

#include "postgres.h"

#include "storage/lock.h"

#include "compat/rose_compat.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_new_version.h"

typedef struct RoseRowTarget
{
	ItemPointerData tid;		/* as the statement names it */
	uint64		seq;
	bool		own;			/* written by the current transaction ... */
	CommandId	cid;			/* ... in this command ... */
	bool		refer_change;	/* ... with another value of what foreign keys may refer to */
	Datum		key[INDEX_MAX_KEYS];
	int			partition;
	bool		followed;		/* it is what another version of the row became */
	bool		queued;			/* we hold the tuple lock ... */
	LOCKMODE	queue_mode;		/* ... in this mode */
	ItemPointerData queue_tid;	/* ... under this name */
} RoseRowTarget;

/*
 * Find the TID's version, copying its key into the current memory context; false if the TID names none.
 * entries: is told the row; or NULL.
 */
extern bool rose_row_target_locate(RoseTree *tree, RoseLookup *lookup, const ItemPointerData *tid,
								   RoseEntryWriter *entries, RoseRowTarget *target);

/* The error of a TID that names no version. */
pg_noreturn extern void rose_row_target_unknown(RoseTree *tree);

/* The version's row id: in a table without key it is the key. */
static inline int64
rose_row_target_rowid(RoseTree *tree, const RoseRowTarget *target)
{
	return tree->schema->nkeys == 0 ? DatumGetInt64(target->key[0]) : 0;
}

/* A new version of the target's key that has no columns but those of the key. */
extern void rose_row_target_key_version(RoseTree *tree, const RoseRowTarget *target, RoseOp op,
										CommandId cid, RoseNewVersion *new);

#endif							/* ROSE_ROW_TARGET_H */
