/*-------------------------------------------------------------------------
 *
 * rose_index_tuple.c
 *	  Rows under a scan of an index as index tuples.  See rose_index_tuple.h.
 *
 * The executor wants a tuple for each entry.  Where all columns are passed by value and none is
 * NULL, tuples look alike but for the values: these are written into one that is kept.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "indexam/rose_index_tuple.h"

/* Columns of so many bytes are more than an index tuple can have, with its header. */
#define LARGE_ENTRY_BYTES	8000

void
rose_index_tuples_init(RoseIndexTuples *tuples, int natts, const AttrNumber *sources, int row_natts,
					   MemoryContext context)
{
	memset(tuples, 0, sizeof(*tuples));
	tuples->context = context;
	tuples->natts = natts;
	tuples->sources = sources;
	for (int i = 0; i < natts; i++)
		tuples->last_source = Max(tuples->last_source, sources[i]);
	tuples->values = MemoryContextAlloc(context, row_natts * (sizeof(Datum) + sizeof(bool)));
	tuples->nulls = (bool *) (tuples->values + row_natts);
}

/* If all without NULL look alike but for their values: keep this one, and where these are in it. */
static void
keep_image(RoseIndexTuples *tuples, IndexScanDesc iscan)
{
	TupleDesc	desc = iscan->xs_itupdesc;
	Size		offset = IndexInfoFindDataOffset(iscan->xs_itup->t_info);

	if (IndexTupleHasNulls(iscan->xs_itup))
		return;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attbyval)
			return;
		offset = att_align_nominal(offset, att->attalign);
		tuples->offsets[i] = offset;
		tuples->lengths[i] = att->attlen;
		offset += att->attlen;
	}
	tuples->image = MemoryContextAlloc(tuples->context, IndexTupleSize(iscan->xs_itup));
	memcpy(tuples->image, iscan->xs_itup, IndexTupleSize(iscan->xs_itup));
}

/* Columns as people have them; in index tuples, names are strings. */
static TupleDesc
large_descriptor(RoseIndexTuples *tuples, IndexScanDesc iscan)
{
	if (tuples->large_desc == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(tuples->context);

		tuples->large_desc = CreateTupleDescCopy(iscan->xs_itupdesc);
		for (int i = 0; i < tuples->large_desc->natts; i++)
			if (TupleDescAttr(tuples->large_desc, i)->atttypid == CSTRINGOID)
				TupleDescInitEntry(tuples->large_desc, i + 1, NULL, NAMEOID, -1, 0);
		MemoryContextSwitchTo(old);
	}
	return tuples->large_desc;
}

/*
 * INCLUDE columns may be of any size, index tuples may not.  The executor takes a heap tuple
 * as well; the planner, which looks for the ends of an index, wants no more than the key.
 */
static void
form_large(RoseIndexTuples *tuples, IndexScanDesc iscan, const Datum *values, const bool *nulls)
{
	bool		key_nulls[INDEX_MAX_KEYS];

	memset(key_nulls, true, sizeof(key_nulls));
	memcpy(key_nulls, nulls,
		   IndexRelationGetNumberOfKeyAttributes(iscan->indexRelation) * sizeof(bool));
	iscan->xs_itup = index_form_tuple(iscan->xs_itupdesc, (Datum *) values, key_nulls);
	iscan->xs_hitupdesc = large_descriptor(tuples, iscan);
	iscan->xs_hitup = heap_form_tuple(iscan->xs_hitupdesc, (Datum *) values, (bool *) nulls);
}

static void
form_tuple(RoseIndexTuples *tuples, IndexScanDesc iscan, const Datum *values, const bool *nulls)
{
	MemoryContext old;
	bool		large = heap_compute_data_size(iscan->xs_itupdesc, (Datum *) values,
											   (bool *) nulls) > LARGE_ENTRY_BYTES;

	if (tuples->tuple_context == NULL)
		tuples->tuple_context = AllocSetContextCreate(tuples->context, "rose index tuple",
													  ALLOCSET_SMALL_SIZES);
	MemoryContextReset(tuples->tuple_context);
	old = MemoryContextSwitchTo(tuples->tuple_context);
	iscan->xs_hitup = NULL;
	if (unlikely(large))
		form_large(tuples, iscan, values, nulls);
	else
		iscan->xs_itup = index_form_tuple(iscan->xs_itupdesc, (Datum *) values, (bool *) nulls);
	MemoryContextSwitchTo(old);
	if (tuples->image == NULL && !large)
		keep_image(tuples, iscan);
}

void
rose_index_tuples_give(RoseIndexTuples *tuples, IndexScanDesc iscan, const Datum *values,
					   const bool *nulls, bool any_null)
{
	if (unlikely(tuples->image == NULL || any_null))
	{
		form_tuple(tuples, iscan, values, nulls);
		return;
	}
	for (int i = 0; i < tuples->natts; i++)
		rose_index_tuples_put(tuples, i, values[i]);
	iscan->xs_itup = tuples->image;
}

void
rose_index_tuples_give_row(RoseIndexTuples *tuples, IndexScanDesc iscan, const RoseRow *row,
						   const RoseSchema *schema)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	bool		any_null = false;

	rose_row_deform(row, schema, 1, tuples->last_source, tuples->values, tuples->nulls);
	for (int i = 0; i < tuples->natts; i++)
	{
		values[i] = tuples->values[tuples->sources[i] - 1];
		nulls[i] = tuples->nulls[tuples->sources[i] - 1];
		any_null |= nulls[i];
	}
	rose_index_tuples_give(tuples, iscan, values, nulls, any_null);
}
