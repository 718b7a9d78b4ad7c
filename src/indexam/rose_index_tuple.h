/*-------------------------------------------------------------------------
 *
 * rose_index_tuple.h
 *	  Rows under a scan of an index as index tuples, for index-only scans.
 *
 * For rose_index_scan.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_TUPLE_H
#define ROSE_INDEX_TUPLE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/itup.h"
#include "access/relscan.h"
#include "access/tupmacs.h"

#include "lsm/component/rose_row.h"

/* Private to rose_index_tuple.c, but for what is inline here. */
typedef struct RoseIndexTuples
{
	MemoryContext context;
	MemoryContext tuple_context;	/* xs_itup, xs_hitup; NULL: there was none */
	TupleDesc	large_desc;		/* of xs_hitup; NULL: there was none */
	int			natts;
	const AttrNumber *sources;	/* columns of rows that the index's columns are */
	AttrNumber	last_source;
	Datum	   *values;			/* by such columns ... */
	bool	   *nulls;

	/* if tuples differ in nothing but values */
	IndexTuple	image;			/* xs_itup; or NULL */
	uint16		offsets[INDEX_MAX_KEYS];	/* of the columns in it */
	uint16		lengths[INDEX_MAX_KEYS];
} RoseIndexTuples;

/* sources[i]: the column, from 1, of rows of this many columns, that column i of the index is; it and context stay. */
extern void rose_index_tuples_init(RoseIndexTuples *tuples, int natts, const AttrNumber *sources,
								   int row_natts, MemoryContext context);

/* Have the scan give out a tuple of these values, until the next one. */
extern void rose_index_tuples_give(RoseIndexTuples *tuples, IndexScanDesc iscan, const Datum *values,
								   const bool *nulls, bool any_null);

/* The same of a row, whose columns are those of the sources. */
extern void rose_index_tuples_give_row(RoseIndexTuples *tuples, IndexScanDesc iscan, const RoseRow *row,
									   const RoseSchema *schema);

static inline void
rose_index_tuples_put(RoseIndexTuples *tuples, int i, Datum value)
{
	store_att_byval((char *) tuples->image + tuples->offsets[i], value, tuples->lengths[i]);
}

/*
 * The same of a row in place, if its columns are decoded, and no more than values differ from
 * the tuple before; false: not done.
 */
static inline bool
rose_index_tuples_give_decoded(RoseIndexTuples *tuples, IndexScanDesc iscan, const RoseRows *rows, int slot)
{
	int			at = slot - rows->window_first;

	if (unlikely(tuples->image == NULL || !rows->plain || tuples->last_source > rows->natts ||
				 !rose_rows_in_window(rows, slot)))
		return false;
	for (int i = 0; i < tuples->natts; i++)
	{
		const RoseRowsColumn *column = &rows->columns[tuples->sources[i] - 1];

		if (unlikely(column->stamp != rows->stamp || column->nulls[at]))
			return false;
		rose_index_tuples_put(tuples, i, column->values[at]);
	}
	iscan->xs_itup = tuples->image;
	return true;
}

#endif							/* ROSE_INDEX_TUPLE_H */
