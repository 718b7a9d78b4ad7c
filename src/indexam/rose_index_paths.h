/*-------------------------------------------------------------------------
 *
 * rose_index_paths.h
 *	  Which index scans would there be, if the conditions on a table were others?
 *
 * For scans of our own that read by an index, or by the key, what core would use an index for.
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_PATHS_H
#define ROSE_INDEX_PATHS_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/pathnodes.h"

/*
 * Paths (IndexPath) of scans of the table by conditions alone: not for joins, and not merely in the
 * index's order.  Each has conditions that the index takes.  conditions: RestrictInfos,
 * all that there are on the table; only: by no other index, or NULL.
 */
extern List *rose_index_paths(PlannerInfo *root, RelOptInfo *rel, List *conditions,
							  const IndexOptInfo *only);

/*
 * Of conditions (IndexClauses, in the order of columns) those that end up as ranges: of the first columns, up to
 * one that is not fixed by a value.  The others are checked on each row of the ranges.
 */
extern List *rose_index_leading_clauses(const IndexOptInfo *index, List *clauses);

#endif							/* ROSE_INDEX_PATHS_H */
