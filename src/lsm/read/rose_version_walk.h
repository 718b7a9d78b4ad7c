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

#include "lsm/component/rose_leaf.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_tree.h"

/* What a key was from this version on, till the next one. */
typedef struct RoseWalkVersion
{
	RoseVersion version;		/* op is PUT, or TOMBSTONE: no row; present is NULL */
	RoseXidStatus status;		/* COMMITTED or OWN */
	bool		spilled;		/* a component that waits for no epoch has it */
	const Datum *values;		/* of all wanted columns, if it is a PUT */
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

/*
 * Of rows only the first natts columns are wanted from now on; and rows that everybody sees
 * who does not see older ones, since they are of transactions before 'oldest', may be passed
 * by as they are.
 */
extern void rose_version_walk_expect_rows(RoseVersionWalk *walk, int natts,
										  FullTransactionId oldest);

/* Rows of a leaf. */
typedef struct RoseWalkRows
{
	RoseLeaf   *leaf;			/* their columns are those of its window */
	int			from;			/* slots: from this one ... */
	int			to;				/* ... to before this one */
} RoseWalkRows;

/*
 * If the next keys have such rows, which other versions that are retained do not matter
 * to: passes some of them.  Valid until the next call of this or of next.  False: ask
 * next, and try again.  REQUIRES rose_version_walk_expect_rows.
 */
extern bool rose_version_walk_next_rows(RoseVersionWalk *walk, RoseWalkRows *rows);

/* The key of what next has returned: key width Datums. */
extern const Datum *rose_version_walk_key(const RoseVersionWalk *walk);

/*
 * To go on in another walk, of another transaction even: the last key that was passed or returned, if there
 * was any; and, before anything else is asked of it, what is behind such a key is what the walk is of.
 */
extern const Datum *rose_version_walk_last_key(RoseVersionWalk *walk);
extern void rose_version_walk_go_behind(RoseVersionWalk *walk, const Datum *key);

extern void rose_version_walk_end(RoseVersionWalk *walk);

#endif							/* ROSE_VERSION_WALK_H */
