/*-------------------------------------------------------------------------
 *
 * rose_row.h
 *	  A row as readers get it, from C0 or from a component.
 *
 * A row is a tuple of its own, or a slot of rows that stay in place as long as somebody
 * holds them (rose_rows.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROW_H
#define ROSE_ROW_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"

#include "util/rose_schema.h"
#include "util/rose_version.h"
#include "lsm/component/rose_rows.h"

typedef struct RoseRow
{
	RoseVersion version;
	const Datum *key;			/* key width Datums */
	MinimalTuple tuple;			/* the row, or NULL: it is in rows */
	RoseRows   *rows;			/* NULL for a tuple */
	int			slot;			/* row of rows */
	uint32		component;		/* component id, 0 = C0 */
	uint64		ordinal;		/* in the component */
} RoseRow;

/* Was this column written by the version?  Always true but for a PARTIAL. */
extern bool rose_row_is_present(const RoseRow *row, AttrNumber attno);

/* Values stay valid as long as the row does (rows held, tuple alive). */
extern Datum rose_row_getattr(const RoseRow *row, const RoseSchema *schema,
							  AttrNumber attno, bool *isnull);

/* Columns from..to (1-based, inclusive) into values[attno - 1]. */
extern void rose_row_deform(const RoseRow *row, const RoseSchema *schema,
							AttrNumber from, AttrNumber to,
							Datum *values, bool *nulls);

/* The first natts columns of a tuple. */
extern void rose_tuple_deform(MinimalTuple tuple, const RoseSchema *schema, int natts,
							  Datum *values, bool *nulls);

/* Is a column (from 0) at a fixed place in tuples without NULL, or the first one behind those that are? */
static inline bool
rose_tuple_may_fetch(const RoseSchema *schema, int column)
{
	return column <= schema->nfixed && !schema->tuple_columns[column].dropped;
}

/* Such a column of a tuple that has it, and no NULL. */
static inline Datum
rose_tuple_fetch(MinimalTuple tuple, const RoseSchema *schema, int column)
{
	const RoseTupleColumn *place = &schema->tuple_columns[column];
	const char *data = (const char *) tuple - MINIMAL_TUPLE_OFFSET + tuple->t_hoff;
	Size		offset = place->offset;

	if (column == schema->nfixed)
	{
		offset = column == 0 ? 0 : place[-1].offset + place[-1].attlen;
		/* a varlena with a short header is not aligned, and does not begin as padding does */
		if (place->attlen != -1 || !VARATT_NOT_PAD_BYTE(data + offset))
			offset = TYPEALIGN(place->align, offset);
	}
	return fetch_att(data + offset, place->attbyval, place->attlen);
}

#endif							/* ROSE_ROW_H */
