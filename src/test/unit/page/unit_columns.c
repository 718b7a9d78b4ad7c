/*-------------------------------------------------------------------------
 *
 * unit_columns.c
 *	  Rows given to a page builder in columns make the same pages as one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "unit.h"
#include "unit_rows.h"

#define MAX_COLUMNS		14

static char page_by_row[BLCKSZ] __attribute__((aligned(8)));
static char page_in_columns[BLCKSZ] __attribute__((aligned(8)));

/* Where a column has no NULL, or nothing else, say so in a way that is chosen at random. */
static void
point_to(RoseColumnValues *values, const UnitColumn *column, int nrows)
{
	values->values = column->values;
	values->nulls = column->nulls;
	if (unit_random_below(2) == 0)
		return;
	if (memchr(column->nulls, true, nrows) == NULL)
		values->nulls = NULL;
	else if (memchr(column->nulls, false, nrows) == NULL)
		values->values = NULL;
}

static RoseAppendResult
append_row(RosePageBuilder *builder, const UnitColumn *columns, int ncols, int row)
{
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
	int			c;

	for (c = 0; c < ncols; c++)
	{
		values[c] = columns[c].values[row];
		nulls[c] = columns[c].nulls[row];
	}
	return rose_page_builder_append(builder, values, nulls);
}

/* Fill a page with rows from 'row' on; returns how many it took. */
static int
fill_by_row(RosePageBuilder *builder, const UnitColumn *columns, int ncols, int row, int nrows)
{
	int			from = row;

	while (row < nrows && append_row(builder, columns, ncols, row) == ROSE_APPEND_OK)
		row++;
	rose_page_builder_pack(builder, page_by_row);
	return row - from;
}

/* Fill a page by calls of all sizes, and now and then a single row in between. */
static int
fill_in_columns(RosePageBuilder *builder, const UnitColumn *columns, int ncols, int row, int nrows)
{
	RoseColumnValues values[MAX_COLUMNS];
	RoseAppendResult result = ROSE_APPEND_OK;
	int			most = 1 << unit_random_below(12);
	int			from = row;
	int			c;

	for (c = 0; c < ncols; c++)
		point_to(&values[c], &columns[c], nrows);
	while (row < nrows && result == ROSE_APPEND_OK)
	{
		int			n = 1 + (int) unit_random_below(Min(most, nrows - row));

		if (unit_random_below(8) == 0)
		{
			result = append_row(builder, columns, ncols, row);
			row += result == ROSE_APPEND_OK;
			continue;
		}
		row += rose_page_builder_append_columns(builder, values, row, n, &result);
	}
	rose_page_builder_pack(builder, page_in_columns);
	return row - from;
}

/* Pages one after the other, because each learns from those before. */
static bool
makes_same_pages(UnitColumn *columns, int ncols, int nrows)
{
	RoseColumnDesc descs[MAX_COLUMNS];
	RosePageBuilder *by_row;
	RosePageBuilder *in_columns;
	bool		good = true;
	int			row = 0;
	int			c;

	for (c = 0; c < ncols; c++)
	{
		unit_column_fill(&columns[c], nrows);
		descs[c] = columns[c].desc;
	}
	by_row = rose_page_builder_create(ncols, descs, TopMemoryContext);
	in_columns = rose_page_builder_create(ncols, descs, TopMemoryContext);
	while (row < nrows && good)
	{
		int			n = fill_by_row(by_row, columns, ncols, row, nrows);

		good = n > 0 && fill_in_columns(in_columns, columns, ncols, row, nrows) == n &&
			memcmp(page_by_row, page_in_columns, BLCKSZ) == 0;
		if (!good)
			unit_note("a page of %d rows from row %d of %d on differs", n, row, nrows);
		row += n;
	}
	rose_page_builder_free(by_row);
	rose_page_builder_free(in_columns);
	return good;
}

static void
test_single_columns(const UnitType *type)
{
	static const int null_percents[] = {0, 0, 30, 100};
	bool		good = true;
	int			shape;
	int			k;

	for (shape = type->first_shape; shape <= (int) type->last_shape; shape++)
	{
		for (k = 0; k < lengthof(null_percents); k++)
		{
			UnitColumn	column;

			unit_column_init(&column, type->attlen, type->byval, type->align, type->is_float,
							 shape, null_percents[k]);
			if (!makes_same_pages(&column, 1, type->byval ? 70000 >> k : 3000))
			{
				unit_note("%s, %s, %d %% NULL", type->name, unit_shape_name(shape),
						  null_percents[k]);
				good = false;
			}
			unit_column_free(&column);
		}
	}
	unit_ok(good, "columns: %s alone, all shapes", type->name);
}

static void
test_many_columns(void)
{
	UnitColumn	columns[MAX_COLUMNS];
	bool		good = true;
	bool		dense_good = true;
	int			round;
	int			c;

	for (round = 0; round < unit_rounds(150); round++)
	{
		int			ncols = 2 + (int) unit_random_below(MAX_COLUMNS - 1);

		unit_random_columns(columns, ncols);
		good &= makes_same_pages(columns, ncols, 4000);
		unit_free_columns(columns, ncols);

		unit_random_columns(columns, ncols);
		for (c = 0; c < ncols; c++)
			columns[c].null_percent = unit_random_below(4) == 0 ? 100 : 0;
		dense_good &= makes_same_pages(columns, ncols, 4000);
		unit_free_columns(columns, ncols);
	}
	unit_ok(good, "columns: random tables of 2 to %d columns", MAX_COLUMNS);
	unit_ok(dense_good, "columns: the same with columns that are NULL always or never");
}

/* A row that fits no page is told apart from a page that is full, and the builder goes on. */
static void
test_too_large(void)
{
	RoseColumnDesc descs[8];
	RoseColumnValues columns[8];
	Datum		small[3];
	Datum		large[3];
	char	   *bytes = malloc(ROSE_ITEM_MAX_SIZE);
	char		tiny[VARHDRSZ + 4];
	RosePageBuilder *builder;
	RoseAppendResult result;
	int			c;

	memset(tiny, 0, sizeof(tiny));
	SET_VARSIZE(tiny, sizeof(tiny));
	for (c = 0; c < ROSE_ITEM_MAX_SIZE; c++)
		bytes[c] = (char) unit_random();
	SET_VARSIZE(bytes, ROSE_ITEM_MAX_SIZE);
	for (c = 0; c < 3; c++)
		small[c] = large[c] = PointerGetDatum(tiny);
	large[2] = PointerGetDatum(bytes);
	for (c = 0; c < 8; c++)
	{
		descs[c] = rose_column_desc(-1, false, TYPALIGN_INT, false);
		columns[c].values = large;
		columns[c].nulls = NULL;
	}
	builder = rose_page_builder_create(8, descs, TopMemoryContext);
	unit_ok(rose_page_builder_append_columns(builder, columns, 0, 3, &result) == 2 &&
			result == ROSE_APPEND_FULL, "columns: a row that is too large ends the page");
	rose_page_builder_reset(builder);
	unit_ok(rose_page_builder_append_columns(builder, columns, 2, 1, &result) == 0 &&
			result == ROSE_APPEND_TOO_LARGE, "columns: alone it is told apart");
	for (c = 0; c < 8; c++)
		columns[c].values = small;
	unit_ok(rose_page_builder_append_columns(builder, columns, 0, 3, &result) == 3 &&
			result == ROSE_APPEND_OK && rose_page_builder_nrows(builder) == 3,
			"columns: the builder goes on after such a row");
	rose_page_builder_free(builder);
	free(bytes);
}

void
test_columns(void)
{
	int			k;

	for (k = 0; k < UNIT_NUM_TYPES; k++)
		test_single_columns(&unit_types[k]);
	test_many_columns();
	test_too_large();
}
