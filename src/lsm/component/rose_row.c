/*-------------------------------------------------------------------------
 *
 * rose_row.c
 *	  Columns of a row, be it a tuple of its own or one of rows in place.
 *
 * A tuple is taken apart here; rows in place know how to get at theirs (rose_rows.h).
 * Columns that were added to the table after a row was stored have their missing value,
 * dropped ones are NULL.
 *
 * Backend-local; nothing is kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc_details.h"

#include "lsm/component/rose_component_internal.h"

Datum
rose_row_missing_value(const RoseSchema *schema, AttrNumber attno, bool *isnull)
{
	TupleConstr *constr = schema->tupdesc->constr;

	if (constr != NULL && constr->missing != NULL && constr->missing[attno - 1].am_present)
	{
		*isnull = false;
		return constr->missing[attno - 1].am_value;
	}
	*isnull = true;
	return (Datum) 0;
}

Datum
rose_row_getattr(const RoseRow *row, const RoseSchema *schema, AttrNumber attno,
				 bool *isnull)
{
	HeapTupleData htup;

	Assert(attno >= 1 && attno <= schema->natts);
	if (row->tuple == NULL)
		return row->rows->ops->attr(row->rows, row->slot, attno, isnull);
	if (TupleDescAttr(schema->tupdesc, attno - 1)->attisdropped)
	{
		*isnull = true;
		return (Datum) 0;
	}
	if (attno > HeapTupleHeaderGetNatts(row->tuple))
		return rose_row_missing_value(schema, attno, isnull);
	rose_tuple_header(row->tuple, &htup);
	return fastgetattr(&htup, attno, schema->tupdesc, isnull);
}

/* The first columns of a tuple, if all of them are where they always are. */
static inline bool
deform_fixed(MinimalTuple tuple, const RoseSchema *schema, int natts, Datum *values, bool *nulls)
{
	const char *data = (const char *) tuple - MINIMAL_TUPLE_OFFSET + tuple->t_hoff;

	if (natts > schema->nfixed || (tuple->t_infomask & HEAP_HASNULL) != 0 ||
		natts > HeapTupleHeaderGetNatts(tuple))
		return false;
	for (int i = 0; i < natts; i++)
	{
		const RoseFixedColumn *column = &schema->fixed[i];

		values[i] = fetch_att(data + column->offset, column->attbyval, column->attlen);
		nulls[i] = false;
	}
	return true;
}

/* All columns of a tuple, without looking for each from the start. */
static void
deform_tuple(MinimalTuple tuple, const RoseSchema *schema, Datum *values, bool *nulls)
{
	HeapTupleData htup;

	rose_tuple_header(tuple, &htup);
	heap_deform_tuple(&htup, schema->tupdesc, values, nulls);
	for (int i = 0; i < schema->natts; i++)
		if (TupleDescAttr(schema->tupdesc, i)->attisdropped)
		{
			nulls[i] = true;
			values[i] = (Datum) 0;
		}
}

int
rose_tuple_deform(MinimalTuple tuple, const RoseSchema *schema, int natts,
				  Datum *values, bool *nulls)
{
	if (deform_fixed(tuple, schema, natts, values, nulls))
		return natts;
	deform_tuple(tuple, schema, values, nulls);
	return schema->natts;
}

void
rose_row_deform(const RoseRow *row, const RoseSchema *schema, AttrNumber from,
				AttrNumber to, Datum *values, bool *nulls)
{
	if (row->tuple == NULL)
		(void) rose_rows_attrs(row->rows, row->slot, from, to, values, nulls);
	else if (from == 1 && to == schema->natts)
		deform_tuple(row->tuple, schema, values, nulls);
	else
		for (AttrNumber attno = from; attno <= to; attno++)
			values[attno - 1] = rose_row_getattr(row, schema, attno, &nulls[attno - 1]);
}

bool
rose_row_is_present(const RoseRow *row, AttrNumber attno)
{
	int			natts;

	if (row->version.op != ROSE_OP_PARTIAL || row->version.present == NULL)
		return true;
	natts = row->tuple ? HeapTupleHeaderGetNatts(row->tuple) : row->rows->natts;
	return attno <= natts && rose_present_test(row->version.present, attno);
}
