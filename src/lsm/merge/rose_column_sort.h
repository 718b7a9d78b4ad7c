/*-------------------------------------------------------------------------
 *
 * rose_column_sort.h
 *	  Rows of different keys, in any order, come out in the order of a component, many at a
 *	  time and as columns.
 *
 * For who makes an index of rows that everybody sees.  Versions of one key are
 * rose_version_sort.h's.  For this folder and the rooms above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COLUMN_SORT_H
#define ROSE_COLUMN_SORT_H

#include "postgres.h"

#include "lsm/component/rose_component.h"

typedef struct RoseColumnSort RoseColumnSort;

/* So many rows come out at a time, at most. */
#define ROSE_COLUMN_SORT_ROWS	512

/* Raises an error if the row cannot be stored; ranks are not set. */
typedef void (*RoseColumnSortCheck) (const Datum *values, const bool *nulls, void *arg);

/*
 * The schema, of at most ROSE_BATCH_MAX_COLUMNS columns with a key among them, must live as
 * long.  Takes about so many bytes, and temporary files; memory in a child of the current
 * context.  check is called for rows with long values.
 */
extern RoseColumnSort *rose_column_sort_begin(const RoseSchema *schema, Size memory,
											  RoseColumnSortCheck check, void *check_arg);

/* From now on it has less memory. */
extern void rose_column_sort_set_memory(RoseColumnSort *sort, Size memory);

/*
 * n rows by column and row, as in a RoseRowBatch; copied.  Of ranks nothing is asked: the
 * key columns that they are of say what they are.
 */
extern void rose_column_sort_put(RoseColumnSort *sort, const Datum *const *values,
								 const bool *const *nulls, int n);

/* No more come; before the first next. */
extern void rose_column_sort_perform(RoseColumnSort *sort);

/*
 * The next rows, or NULL: valid until the next call.  Their numbers and writers are for
 * the caller to set, who may change the struct.
 */
extern RoseRowBatch *rose_column_sort_next(RoseColumnSort *sort);

extern void rose_column_sort_end(RoseColumnSort *sort);

#endif							/* ROSE_COLUMN_SORT_H */
