/*-------------------------------------------------------------------------
 *
 * rose_component_fit.c
 *	  Which rows fit a leaf, and which of their values go to overflow pages.
 *
 * A row that takes more than a quarter of a page gives up its largest
 * variable-length values first, down to ROSE_OVERFLOW_WORTHWHILE; a row of many
 * columns that still does not fit gives up smaller ones.  Key columns never overflow.
 * rose_component_check_row_fits() applies the same rules in advance, so what it lets pass can be
 * stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_component_internal.h"

#include "utils/datum.h"
#include "utils/memutils.h"

/*
 * A row whose values, plus this much for each column, are below the limit fits
 * for sure, whatever the codecs do.
 */
#define FIT_COLUMN_OVERHEAD		40
#define FIT_EASY_LIMIT			(BLCKSZ / 2)

static bool
is_key_column(const RoseSchema *schema, AttrNumber attno)
{
	for (int j = 0; j < schema->nkeys; j++)
		if (schema->keys[j].def.attno == attno)
			return true;
	return false;
}

int
rose_fit_largest(const RoseSchema *schema, int natts, const Datum *values,
				 const bool *nulls, const bits8 *moved, Size min_size)
{
	Size		largest = min_size;
	int			result = -1;

	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		Size		size;

		if (nulls[attno - 1] || TupleDescAttr(schema->tupdesc, attno - 1)->attlen != -1)
			continue;
		if (moved != NULL && rose_present_test(moved, attno))
			continue;
		size = VARSIZE_ANY(DatumGetPointer(values[attno - 1]));
		if (size <= largest || is_key_column(schema, attno))
			continue;
		largest = size;
		result = attno;
	}
	return result;
}

Size
rose_fit_row_size(const RoseSchema *schema, int natts, const Datum *values,
				  const bool *nulls)
{
	Size		total = 0;

	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, i);

		if (!nulls[i])
			total += datumGetSize(values[i], att->attbyval, att->attlen);
	}
	return total;
}

void
rose_fit_error(const RoseSchema *schema)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("row is too big for a rose table"),
			 errdetail("Key columns and values of fixed length must fit a page of %d bytes together with %d bytes for each longer value.",
					   BLCKSZ, (int) ROSE_OVERFLOW_REF_SIZE),
			 errhint("Use fewer columns, or move wide ones into a composite or json column.")));
}

static void
check_key_fits(const RoseSchema *schema, const Datum *values)
{
	Size		total = 0;

	for (int j = 0; j < schema->nkeys; j++)
	{
		const RoseKeyColumn *column = &schema->keys[j];
		Size		size = datumGetSize(values[column->def.attno - 1], column->attbyval,
										column->attlen);

		total += size;
		if (!column->attbyval && size > ROSE_ITEM_MAX_SIZE)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("key column \"%s\" is too long: %zu bytes, at most %d are possible",
							NameStr(TupleDescAttr(schema->tupdesc, column->def.attno - 1)->attname),
							size, ROSE_ITEM_MAX_SIZE)));
	}
	if (total > ROSE_KEY_MAX_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("primary key is too long: %zu bytes, at most %d are possible",
						total, (int) ROSE_KEY_MAX_SIZE)));
}

/*
 * Ask the page builder itself, with everything in overflow that may be and all
 * system columns in use.
 */
static bool
try_row(const RoseSchema *schema, const Datum *values, const bool *nulls)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose row check",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int			natts = schema->natts;
	int			ncols = ROSE_SYSCOLS + natts;
	RoseColumnDesc *descs = rose_leaf_column_descs(schema, natts, NULL, context);
	RosePageBuilder *builder = rose_page_builder_create(ncols, descs, context);
	Datum	   *row = palloc0(ncols * sizeof(Datum));
	bool	   *row_nulls = palloc0(ncols * sizeof(bool));
	char	   *bitmap = palloc0(VARHDRSZ + ROSE_PRESENT_BYTES(natts));
	char	   *ref = palloc0(ROSE_OVERFLOW_REF_SIZE);
	bool		fits;

	SET_VARSIZE(bitmap, VARHDRSZ + ROSE_PRESENT_BYTES(natts));
	SET_VARSIZE(ref, ROSE_OVERFLOW_REF_SIZE);
	row[ROSE_SYSCOL_PRESENT] = PointerGetDatum(bitmap);
	row[ROSE_SYSCOL_OVERFLOW] = PointerGetDatum(bitmap);
	for (int i = 0; i < natts; i++)
	{
		row[ROSE_SYSCOLS + i] = values[i];
		row_nulls[ROSE_SYSCOLS + i] = nulls[i];
		if (!nulls[i] && TupleDescAttr(schema->tupdesc, i)->attlen == -1 &&
			!is_key_column(schema, i + 1) &&
			VARSIZE_ANY(DatumGetPointer(values[i])) > ROSE_OVERFLOW_REF_SIZE)
			row[ROSE_SYSCOLS + i] = PointerGetDatum(ref);
	}
	fits = rose_page_builder_append(builder, row, row_nulls) == ROSE_APPEND_OK;

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return fits;
}

void
rose_component_check_row_fits(const RoseSchema *schema, const Datum *values,
							  const bool *nulls)
{
	Size		total = (Size) (ROSE_SYSCOLS + schema->natts) * FIT_COLUMN_OVERHEAD;

	check_key_fits(schema, values);
	for (int i = 0; i < schema->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, i);
		Size		size;

		if (nulls[i])
			continue;
		size = datumGetSize(values[i], att->attbyval, att->attlen);
		if (att->attlen != -1 && !att->attbyval && size > ROSE_ITEM_MAX_SIZE)
			rose_fit_error(schema);
		if (att->attlen == -1 && size > ROSE_OVERFLOW_REF_SIZE &&
			!is_key_column(schema, i + 1))
			size = ROSE_OVERFLOW_REF_SIZE;
		total += size;
	}
	if (total > FIT_EASY_LIMIT && !try_row(schema, values, nulls))
		rose_fit_error(schema);
}
