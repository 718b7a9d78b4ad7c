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

/*
 * Columns from..to (counted from 0, without 'to') of a tuple that has them.  Those before
 * must be at their fixed places.
 */
static void
deform_onward(MinimalTuple tuple, const RoseSchema *schema, int from, int to,
			  Datum *values, bool *nulls)
{
	const char *data = (const char *) tuple - MINIMAL_TUPLE_OFFSET + tuple->t_hoff;
	const bits8 *bits = (tuple->t_infomask & HEAP_HASNULL) != 0 ? tuple->t_bits : NULL;
	const RoseTupleColumn *column = &schema->tuple_columns[from];
	Size		offset = from == 0 ? 0 : column[-1].offset + column[-1].attlen;

	for (int i = from; i < to; i++, column++)
	{
		nulls[i] = column->dropped;
		values[i] = (Datum) 0;
		if (bits != NULL && att_isnull(i, bits))
		{
			nulls[i] = true;
			continue;
		}
		/* a varlena with a short header is not aligned, and does not begin as padding does */
		if (column->attlen != -1 || !VARATT_NOT_PAD_BYTE(data + offset))
			offset = TYPEALIGN(column->align, offset);
		if (!column->dropped)
			values[i] = fetch_att(data + offset, column->attbyval, column->attlen);
		offset = att_addlength_pointer(offset, column->attlen, data + offset);
	}
}

void
rose_tuple_deform(MinimalTuple tuple, const RoseSchema *schema, int natts,
				  Datum *values, bool *nulls)
{
	const char *data = (const char *) tuple - MINIMAL_TUPLE_OFFSET + tuple->t_hoff;
	int			stored = Min(natts, HeapTupleHeaderGetNatts(tuple));
	int			fixed = (tuple->t_infomask & HEAP_HASNULL) != 0 ? 0 : Min(stored, schema->nfixed);

	for (int i = 0; i < fixed; i++)
	{
		const RoseTupleColumn *column = &schema->tuple_columns[i];

		values[i] = fetch_att(data + column->offset, column->attbyval, column->attlen);
		nulls[i] = false;
	}
	if (fixed < stored)
		deform_onward(tuple, schema, fixed, stored, values, nulls);
	for (int i = stored; i < natts; i++)
	{
		nulls[i] = true;
		values[i] = schema->tuple_columns[i].dropped ? (Datum) 0 :
			rose_row_missing_value(schema, i + 1, &nulls[i]);
	}
}

void
rose_row_deform(const RoseRow *row, const RoseSchema *schema, AttrNumber from,
				AttrNumber to, Datum *values, bool *nulls)
{
	if (row->tuple == NULL)
		(void) rose_rows_attrs(row->rows, row->slot, from, to, values, nulls);
	else if (from == 1)
		rose_tuple_deform(row->tuple, schema, to, values, nulls);
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
