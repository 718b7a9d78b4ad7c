/*-------------------------------------------------------------------------
 *
 * rose_version_walk.h
 *	  All versions that a tree has, key by key, as whole rows.
 *
 * Snapshots play no part: whatever C0 and the components retain is returned, so who keeps
 * something that is made of the rows (a secondary index) can make it as it would have come
 * to be by the writes themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VERSION_WALK_H
#define ROSE_VERSION_WALK_H

#include "postgres.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_tree.h"

/* What a key was from this version on, till the next one. */
typedef struct RoseWalkVersion
{
	RoseVersion version;		/* op is PUT, or TOMBSTONE: no row; present is NULL */
	RoseXidStatus status;		/* COMMITTED or OWN */
	const Datum *values;		/* of all columns, if it is a PUT */
	const bool *nulls;
} RoseWalkVersion;

typedef struct RoseVersionWalk RoseVersionWalk;

/*
 * Versions of transactions that were rolled back or are in progress elsewhere are left
 * out, and so are row locks.  Who has to have all of them holds a lock against writers.
 * Memory in a child of the current context.
 */
extern RoseVersionWalk *rose_version_walk_begin(RoseTree *tree);

/*
 * The versions of the next key that has any, oldest first, or NULL at the end; *n: how
 * many.  Columns of a PARTIAL version that it does not have are those of the version
 * before; where that has no row, it has none either.  Valid until the next call.
 */
extern const RoseWalkVersion *rose_version_walk_next(RoseVersionWalk *walk, int *n);

/* Their key: key width Datums. */
extern const Datum *rose_version_walk_key(const RoseVersionWalk *walk);

extern void rose_version_walk_end(RoseVersionWalk *walk);

#endif							/* ROSE_VERSION_WALK_H */
