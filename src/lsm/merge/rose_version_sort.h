/*-------------------------------------------------------------------------
 *
 * rose_version_sort.h
 *	  Versions in any order become versions in the order of a component: by key, newest first.
 *
 * For who writes a tree from what is not in its order.  For this folder and the rooms above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VERSION_SORT_H
#define ROSE_VERSION_SORT_H

#include "postgres.h"

#include "executor/tuptable.h"

#include "util/rose_schema.h"
#include "util/rose_version.h"

typedef struct RoseVersionSort RoseVersionSort;

/*
 * The schema must live as long.  tied: versions of a key come by a number that put is
 * told, and only then by their sequence.  Memory in a child of the current context, kilobytes
 * of it for rows, and temporary files.
 */
extern RoseVersionSort *rose_version_sort_begin(const RoseSchema *schema, bool tied,
												int kilobytes);

/*
 * All columns as they are to be stored: NULL where the operation has none.
 * version->present has ROSE_PRESENT_BYTES(natts).  Copies everything.
 */
extern void rose_version_sort_put(RoseVersionSort *sort, const RoseVersion *version,
								  const Datum *values, const bool *nulls, int64 tie);

/* No more come; before the first next. */
extern void rose_version_sort_perform(RoseVersionSort *sort);

/*
 * The next version, whose columns are the slot's first ones, or NULL.  Valid until the
 * next call.  lockmode and rowid are not kept.
 */
extern TupleTableSlot *rose_version_sort_next(RoseVersionSort *sort, RoseVersion *version);

extern void rose_version_sort_end(RoseVersionSort *sort);

#endif							/* ROSE_VERSION_SORT_H */
