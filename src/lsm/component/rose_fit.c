/*-------------------------------------------------------------------------
 *
 * rose_fit.c
 *	  Which rows fit a leaf, and which of their values go to overflow pages.
 *
 * A row that takes more than a quarter of a page gives up its largest variable-length
 * values first, as long as they are worth the trip.  A row that still does not fit a
 * page, because it has many columns, goes to overflow pages as a whole, but for its key.
 * If even that leaves no room, because the page's directory has an entry for each column,
 * the row gets a narrow leaf.  So nothing but the key, and the columns that stand before
 * its end being so many, can make a row too large: rose_component_check_row_fits().  That
 * must not depend on anything that ADD COLUMN changes, for what was accepted before is
 * stored again by each merge.
 *
 * Pure functions of schema and values; no locks.  Writing the values is
 * rose_overflow.c's, placing rows rose_builder.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "lsm/component/rose_component_internal.h"

/*
 * A key of this size, plus this much for each column, fits for sure, whatever
 * the codecs do.
 */
#define FIT_COLUMN_OVERHEAD		16
#define FIT_EASY_LIMIT			(BLCKSZ - 512)

bool
rose_fit_is_key(const RoseSchema *schema, AttrNumber attno)
{
	for (int j = 0; j < schema->nkeys; j++)
		if (schema->keys[j].def.attno == attno)
			return true;
	return false;
}

int
rose_fit_largest(const RoseSchema *schema, const Datum *values, const bool *nulls,
				 Size min_size)
{
	Size		largest = min_size;
	int			result = -1;

	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		Size		size;

		if (nulls[attno - 1] || TupleDescAttr(schema->tupdesc, attno - 1)->attlen != -1)
			continue;
		size = VARSIZE_ANY(DatumGetPointer(values[attno - 1]));
		if (size <= largest || rose_fit_is_key(schema, attno))
			continue;
		largest = size;
		result = attno;
	}
	return result;
}

Size
rose_fit_row_size(const RoseSchema *schema, const Datum *values, const bool *nulls,
				  bool *oversized)
{
	Size		total = 0;

	*oversized = false;
	for (int i = 0; i < schema->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, i);
		Size		size;

		if (nulls[i])
			continue;
		size = att->attlen > 0 ? (Size) att->attlen :
			datumGetSize(values[i], att->attbyval, att->attlen);
		total += size;
		if (size > ROSE_ITEM_MAX_SIZE)
			*oversized = true;
	}
	return total;
}

void
rose_component_require_key(const RoseSchema *schema, const bool *nulls)
{
	for (int j = 0; j < schema->nkeys; j++)
	{
		AttrNumber	attno = schema->keys[j].def.attno;

		if (unlikely(nulls[attno - 1]) && !schema->keys[j].nullable)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in key column \"%s\"",
							NameStr(TupleDescAttr(schema->tupdesc, attno - 1)->attname))));
	}
}

/* *too_long: the first column that is, of *longest bytes; NULL: none. */
static Size
key_size_of(const RoseSchema *schema, const Datum *values, const bool *nulls,
			const RoseKeyColumn **too_long, Size *longest)
{
	Size		total = 0;

	*too_long = NULL;
	for (int j = 0; j < schema->nkeys; j++)
	{
		const RoseKeyColumn *column = &schema->keys[j];
		Size		size;

		if (column->nullable && nulls[column->def.attno - 1])
			continue;
		size = column->attlen > 0 ? (Size) column->attlen :
			datumGetSize(values[column->def.attno - 1], column->attbyval, column->attlen);
		total += size;
		if (size > ROSE_ITEM_MAX_SIZE && *too_long == NULL)
		{
			*too_long = column;
			*longest = size;
		}
	}
	return total;
}

/* Returns the key's size. */
static Size
check_key_fits(const RoseSchema *schema, const Datum *values, const bool *nulls)
{
	const RoseKeyColumn *too_long;
	Size		longest;
	Size		total = key_size_of(schema, values, nulls, &too_long, &longest);

	if (too_long != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key column \"%s\" is too long: %zu bytes, at most %d are possible",
						NameStr(TupleDescAttr(schema->tupdesc, too_long->def.attno - 1)->attname),
						longest, ROSE_ITEM_MAX_SIZE)));
	if (total > ROSE_KEY_MAX_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("primary key is too long: %zu bytes, at most %d are possible",
						total, (int) ROSE_KEY_MAX_SIZE)));
	return total;
}

int
rose_fit_narrow_columns(const RoseSchema *schema)
{
	int			ncols = ROSE_SYSCOLS;

	for (int j = 0; j < schema->nkeys; j++)
		ncols = Max(ncols, ROSE_SYSCOLS + schema->keys[j].def.attno);
	return ncols;
}

/*
 * Ask the page builder itself whether a narrow leaf has room for the key, with all system
 * columns in use and none of them cheap.
 */
static bool
try_narrow_row(const RoseSchema *schema, const Datum *values, const bool *value_nulls)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose row check",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int			ncols = rose_fit_narrow_columns(schema);
	RosePageBuilder *builder;
	Datum	   *row = palloc0(ncols * sizeof(Datum));
	bool	   *nulls = palloc0(ncols * sizeof(bool));
	Size		size = VARHDRSZ + 2 * sizeof(RoseOverflowPointerDisk);
	char	   *pointers = palloc0(size);
	bool		fits;

	builder = rose_page_builder_create(ncols,
									   rose_leaf_column_descs(schema, schema->natts, NULL, NULL, context),
									   context);
	for (int i = 0; i < (int) size; i++)
		pointers[i] = (char) (i * 37);	/* nothing that compresses */
	SET_VARSIZE(pointers, size);
	row[ROSE_SYSCOL_SEQ] = row[ROSE_SYSCOL_XID] = Int64GetDatum(PG_INT64_MAX);
	row[ROSE_SYSCOL_ROWID] = row[ROSE_SYSCOL_MOVED] = Int64GetDatum(PG_INT64_MAX);
	row[ROSE_SYSCOL_OP] = Int16GetDatum(ROSE_OP_LOCK);
	row[ROSE_SYSCOL_SUBXID] = row[ROSE_SYSCOL_CID] = Int32GetDatum(PG_INT32_MAX);
	row[ROSE_SYSCOL_OVERFLOW] = PointerGetDatum(pointers);
	nulls[ROSE_SYSCOL_PRESENT] = true;
	for (int i = ROSE_SYSCOLS; i < ncols; i++)
	{
		row[i] = values[i - ROSE_SYSCOLS];
		nulls[i] = value_nulls[i - ROSE_SYSCOLS] ||
			!rose_fit_is_key(schema, i - ROSE_SYSCOLS + 1);
	}
	fits = rose_page_builder_append(builder, row, nulls) == ROSE_APPEND_OK;

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return fits;
}

/* A page has room for a key of this size, in columns that are not too long. */
static bool
is_easy(const RoseSchema *schema, Size key_size)
{
	return key_size + (Size) rose_fit_narrow_columns(schema) * FIT_COLUMN_OVERHEAD <= FIT_EASY_LIMIT;
}

bool
rose_component_key_fits(const RoseSchema *schema, const Datum *values, const bool *nulls)
{
	const RoseKeyColumn *too_long;
	Size		longest;
	Size		key_size = key_size_of(schema, values, nulls, &too_long, &longest);

	return too_long == NULL && key_size <= ROSE_KEY_MAX_SIZE &&
		(is_easy(schema, key_size) || try_narrow_row(schema, values, nulls));
}

void
rose_component_check_row_fits(const RoseSchema *schema, const Datum *values,
							  const bool *nulls)
{
	Size		key_size;

	rose_component_require_key(schema, nulls);
	key_size = check_key_fits(schema, values, nulls);
	if (!is_easy(schema, key_size) && !try_narrow_row(schema, values, nulls))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("primary key is too long for a table of so many columns: %zu bytes",
						key_size),
				 errdetail("The columns of the key are among the first %d of the table.",
						   rose_fit_narrow_columns(schema) - ROSE_SYSCOLS),
				 errhint("Use a shorter key, or put its columns before others.")));
}
