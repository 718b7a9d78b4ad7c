/*-------------------------------------------------------------------------
 *
 * unit_pages.c
 *	  Tests of src/page and, through it, of src/codec.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "codec/rose_codec.h"
#include "page/rose_page_format.h"

#include "unit.h"
#include "unit_rows.h"

/* How often each codec was written. */
static int	codec_uses[ROSE_NUM_CODECS];
static int	runs_seen;
static int	codes_seen;
static int	extremes_seen;

static char page_space[BLCKSZ] __attribute__((aligned(8)));

static void
count_codecs(const char *page, int ncols)
{
	const RoseDirectoryEntryDisk *directory =
		(const RoseDirectoryEntryDisk *) (page + ROSE_PAGE_DIRECTORY_OFFSET);
	int			c;

	for (c = 0; c < ncols; c++)
		codec_uses[directory[c].codec]++;
}

static void
note_problem(void *arg, int col, const char *message)
{
	unit_note("column %d: %s", col, message);
}

static bool
verify_get(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	int			step = nrows > 3000 ? 7 : 1;
	int			row;

	for (row = 0; row < nrows; row += step)
	{
		bool		isnull;
		Datum		value = rose_page_get(reader, c, row, &isnull);

		if (isnull != column->nulls[row] ||
			(!isnull && !unit_column_equal(column, value, column->values[row])))
		{
			unit_note("get: column %d (%s) row %d of %d is wrong", c,
					  unit_shape_name(column->shape), row, nrows);
			return false;
		}
	}
	return true;
}

static bool
verify_decode(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	Datum	   *values = malloc(Max(nrows, 1) * sizeof(Datum));
	bool	   *nulls = malloc(Max(nrows, 1) * sizeof(bool));
	bool		good = true;
	int			round;

	for (round = 0; round < 4 && good; round++)
	{
		int			from = round == 0 ? 0 : (int) unit_random_below(nrows);
		int			n = round == 0 ? nrows : (int) unit_random_below(nrows - from + 1);
		int			i;

		rose_page_decode(reader, c, from, n, values, nulls);
		for (i = 0; i < n && good; i++)
			good = nulls[i] == column->nulls[from + i] &&
				(nulls[i] || unit_column_equal(column, values[i], column->values[from + i]));
		if (!good)
			unit_note("decode: column %d (%s) row %d of %d is wrong", c,
					  unit_shape_name(column->shape), from + i - 1, nrows);
	}
	free(values);
	free(nulls);
	return good;
}

static bool
is_by_value(const RoseColumnDesc *desc)
{
	return desc->kind == ROSE_COLUMN_INT || desc->kind == ROSE_COLUMN_FLOAT;
}

/* Where a page has runs, they are the column's. */
static bool
verify_runs(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	int64	   *values = malloc(nrows * sizeof(int64));
	uint16	   *starts = malloc(nrows * sizeof(uint16));
	bool		good = true;

	for (int round = 0; round < 4 && good; round++)
	{
		int			from = (int) unit_random_below(nrows);
		int			n = 1 + (int) unit_random_below(nrows - from);
		int			nruns = rose_page_runs(reader, c, from, n, n, values, starts);
		int			run = 0;

		runs_seen += nruns > 1;
		good = nruns == 0 || starts[0] == 0;
		for (int i = 0; i < n && nruns > 0 && good; i++)
		{
			run += run + 1 < nruns && starts[run + 1] == i;
			good = !column->nulls[from + i] &&
				unit_column_equal(column, (Datum) values[run], column->values[from + i]);
		}
		good &= run == Max(nruns - 1, 0);
		if (nruns > 1 && rose_page_runs(reader, c, from, n, nruns - 1, values, starts) != 0)
			good = false;
		if (!good)
			unit_note("runs: column %d (%s) rows %d of %d are wrong", c,
					  unit_shape_name(column->shape), from, nrows);
	}
	free(values);
	free(starts);
	return good;
}

/* The least and the greatest value of some rows. */
static bool
verify_extremes(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	bool		good = true;

	for (int round = 0; round < 6 && good; round++)
	{
		int			from = (int) unit_random_below(nrows);
		int			n = 1 + (int) unit_random_below(round < 3 ? nrows - from : Min(nrows - from, 300));
		int64		least = PG_INT64_MAX;
		int64		greatest = PG_INT64_MIN;
		int64		min;
		int64		max;
		bool		any_null = false;

		for (int i = from; i < from + n; i++)
		{
			any_null |= column->nulls[i];
			least = Min(least, (int64) column->values[i]);
			greatest = Max(greatest, (int64) column->values[i]);
		}
		if (rose_page_extremes(reader, c, from, n, &min, &max))
		{
			extremes_seen++;
			good = !any_null && min == least && max == greatest;
		}
		else
			good = column->null_percent > 0 || column->desc.kind != ROSE_COLUMN_INT;
		if (!good)
			unit_note("extremes: column %d (%s) rows %d to %d of %d are wrong", c,
					  unit_shape_name(column->shape), from, from + n, nrows);
	}
	return good;
}

/* Where a page has a dictionary, its codes are the column's. */
static bool
verify_codes(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	uint16	   *codes = malloc(nrows * sizeof(uint16));
	bool		good = true;

	for (int round = 0; round < 4 && good; round++)
	{
		int			from = (int) unit_random_below(nrows);
		int			n = 1 + (int) unit_random_below(nrows - from);
		int			nentries = 0;
		const Datum *entries = rose_page_codes(reader, c, from, n, codes, &nentries);

		codes_seen += entries != NULL;
		good = entries == NULL || (nentries > 0 && nentries <= n);
		for (int i = 0; i < n && entries != NULL && good; i++)
			good = codes[i] < nentries && !column->nulls[from + i] &&
				unit_column_equal(column, entries[codes[i]], column->values[from + i]);
		if (!good)
			unit_note("codes: column %d (%s) rows %d of %d are wrong", c,
					  unit_shape_name(column->shape), from, nrows);
	}
	free(codes);
	return good;
}

/* Slots as lookups of many keys have them: scattered, close together, and both in turns. */
static bool
verify_gather(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	Datum	   *values = malloc(nrows * sizeof(Datum));
	bool	   *nulls = malloc(nrows * sizeof(bool));
	int		   *slots = malloc(nrows * sizeof(int));
	bool		good = true;
	int			round;

	for (round = 0; round < 6 && good; round++)
	{
		int			n = 0;
		int			step = 2;
		int			slot;
		int			i;

		for (slot = (int) unit_random_below(nrows); slot < nrows && n < nrows; slot += (int) unit_random_below(step))
		{
			slots[n++] = slot;
			if (unit_random_below(20) == 0)
				step = 2 + (int) unit_random_below(round < 3 ? 5 : 400);
		}
		rose_page_gather(reader, c, slots, n, values, nulls);
		for (i = 0; i < n && good; i++)
			good = nulls[i] == column->nulls[slots[i]] &&
				(nulls[i] || unit_column_equal(column, values[i], column->values[slots[i]]));
		if (!good)
			unit_note("gather: column %d (%s) row %d of %d is wrong", c,
					  unit_shape_name(column->shape), slots[i - 1], nrows);
	}
	free(values);
	free(nulls);
	free(slots);
	return good;
}

/* Compare a search with a linear scan. */
static bool
verify_search_once(RosePageReader *reader, UnitColumn *column, int c, int lo, int hi, Datum value)
{
	int			expected_first = lo;
	int			expected_last;
	int			first;
	int			last;

	while (expected_first < hi &&
		   unit_column_compare(column->values[expected_first], value, column) < 0)
		expected_first++;
	expected_last = expected_first;
	while (expected_last < hi && unit_column_equal(column, column->values[expected_last], value))
		expected_last++;

	rose_page_search(reader, c, lo, hi, value, unit_column_compare, column, &first, &last);
	if (first != expected_first || last != expected_last)
		return false;
	if (column->desc.kind != ROSE_COLUMN_INT)
		return true;
	rose_page_search(reader, c, lo, hi, value, NULL, NULL, &first, &last);
	return first == expected_first && last == expected_last;
}

static bool
verify_search(RosePageReader *reader, UnitColumn *column, int c, int nrows)
{
	int			round;

	for (round = 0; round < 40 && nrows > 0; round++)
	{
		int			lo = round < 20 ? 0 : (int) unit_random_below(nrows + 1);
		int			hi = round < 20 ? nrows : lo + (int) unit_random_below(nrows - lo + 1);
		Datum		value = column->values[unit_random_below(nrows)];

		if (column->desc.attbyval && round % 4 == 1)
			value = (Datum) ((int64) value + (round % 8 == 1 ? 1 : -1));
		if (column->desc.attbyval && round % 10 == 9)
			value = (Datum) (round == 9 ? PG_INT64_MAX : PG_INT64_MIN);
		if (!verify_search_once(reader, column, c, lo, hi, value))
		{
			unit_note("search: column %d (%s) in %d .. %d of %d is wrong", c,
					  unit_shape_name(column->shape), lo, hi, nrows);
			return false;
		}
	}
	return true;
}

static bool
verify_minmax(RosePageReader *reader, const UnitColumn *column, int c, int nrows)
{
	int64		min;
	int64		max;
	int			row;

	if (!rose_page_minmax(reader, c, &min, &max))
		return true;
	for (row = 0; row < nrows; row++)
	{
		if (!column->nulls[row] &&
			((int64) column->values[row] < min || (int64) column->values[row] > max))
		{
			unit_note("minmax: column %d (%s) is too narrow", c, unit_shape_name(column->shape));
			return false;
		}
	}
	return true;
}

static bool
verify_page(RosePageReader *reader, UnitColumn *columns, int ncols, const char *page, int nrows)
{
	RoseColumnDesc descs[ROSE_PAGE_MAX_COLUMNS];
	const PageHeaderData *header = (const PageHeaderData *) page;
	int			c;

	rose_page_reader_init(reader, page);
	if (rose_page_reader_nrows(reader) != nrows || rose_page_reader_ncols(reader) != ncols ||
		(header->pd_upper != header->pd_special && rose_page_end(page) == BLCKSZ))
	{
		unit_note("header: %d rows, expected %d", rose_page_reader_nrows(reader), nrows);
		return false;
	}
	for (c = 0; c < ncols; c++)
	{
		descs[c] = columns[c].desc;
		if (nrows > 0 &&
			!(verify_get(reader, &columns[c], c, nrows) &&
			  verify_decode(reader, &columns[c], c, nrows) &&
			  verify_gather(reader, &columns[c], c, nrows) &&
			  (is_by_value(&descs[c]) ? verify_runs : verify_codes) (reader, &columns[c], c, nrows) &&
			  verify_extremes(reader, &columns[c], c, nrows) &&
			  (!columns[c].sorted || verify_search(reader, &columns[c], c, nrows)) &&
			  verify_minmax(reader, &columns[c], c, nrows)))
			return false;
	}
	return rose_page_check(page, ncols, descs, note_problem, NULL) == 0;
}

/* As the store writes it to the file of an index, however full the page is. */
static bool
verify_special_space(RosePageReader *reader, UnitColumn *columns, int ncols, int nrows)
{
	PageHeader	standard = (PageHeader) page_space;
	int			found;
	bool		good;

	standard->pd_upper = standard->pd_special = BLCKSZ - ROSE_FOREIGN_SPECIAL;
	good = standard->pd_lower <= standard->pd_upper && rose_page_end(page_space) == standard->pd_upper &&
		rose_page_extra(page_space, &found) == NULL &&
		verify_page(reader, columns, ncols, page_space, nrows);
	standard->pd_upper = standard->pd_special = BLCKSZ;
	return good;
}

/* With something behind the rows, if there is room, the page is as good. */
static bool
verify_extra(RosePageReader *reader, UnitColumn *columns, int ncols, int nrows)
{
	static char extra[BLCKSZ];
	int			free = BLCKSZ - ((PageHeader) page_space)->pd_lower;
	int			size = (int) unit_random_below(BLCKSZ / 2) + ROSE_FOREIGN_SPECIAL + 1;
	int			end = BLCKSZ - (int) unit_random_below(2) * ROSE_FOREIGN_SPECIAL;
	int			found = 0;
	const char *data;

	if (rose_page_extra(page_space, &found) != NULL)
		return false;
	for (int i = 0; i < size; i++)
		extra[i] = (char) unit_random();
	if (!rose_page_add_extra(page_space, extra, size, end))
		return size + 16 + BLCKSZ - end + MAXIMUM_ALIGNOF > free && rose_page_extra(page_space, &found) == NULL;
	data = rose_page_extra(page_space, &found);
	return size < free && found == (int) MAXALIGN(size) && memcmp(data, extra, size) == 0 &&
		verify_page(reader, columns, ncols, page_space, nrows);
}

/*
 * Fill 'npages' pages of these columns and verify each.  Adds the bytes used, of all but
 * the last page of few rows, to *used.
 */
static bool
round_trip(UnitColumn *columns, int ncols, int npages, int max_rows, int *total_rows)
{
	RoseColumnDesc descs[ROSE_PAGE_MAX_COLUMNS];
	RosePageBuilder *builder;
	RosePageReader *reader;
	bool		good = true;
	int			page;
	int			c;

	for (c = 0; c < ncols; c++)
		descs[c] = columns[c].desc;
	builder = rose_page_builder_create(ncols, descs, TopMemoryContext);
	reader = rose_page_reader_create(ncols, descs, TopMemoryContext);
	*total_rows = 0;
	for (page = 0; page < npages && good; page++)
	{
		int			nrows = unit_fill_page(builder, columns, ncols, max_rows);
		int			bound = rose_page_builder_size(builder);

		good = rose_page_builder_nrows(builder) == nrows &&
			rose_page_builder_pack(builder, page_space) == nrows &&
			((PageHeader) page_space)->pd_lower <= bound && bound <= BLCKSZ &&
			verify_page(reader, columns, ncols, page_space, nrows) &&
			verify_special_space(reader, columns, ncols, nrows) &&
			verify_extra(reader, columns, ncols, nrows);
		count_codecs(page_space, ncols);
		for (c = 0; c < ncols; c++)
			unit_column_drop(&columns[c], nrows);
		*total_rows += nrows;
	}
	rose_page_builder_free(builder);
	rose_page_reader_free(reader);
	return good;
}

/* Every shape of a type, alone on its pages. */
static void
test_single_columns(const UnitType *type)
{
	static const int null_percents[] = {0, 2, 50, 97, 100};
	bool		good = true;
	int			shape;
	int			k;

	for (shape = type->first_shape; shape <= (int) type->last_shape; shape++)
	{
		for (k = 0; k < lengthof(null_percents); k++)
		{
			UnitColumn	column;
			int			total;

			unit_column_init(&column, type->attlen, type->byval, type->align, type->is_float,
							 shape, null_percents[k]);
			if (!round_trip(&column, 1, shape == SHAPE_MOODS ? 12 : 2, k == 0 ? 20000 : 5000,
							&total) || total == 0)
			{
				unit_note("%s, %s, %d %% NULL", type->name, unit_shape_name(shape),
						  null_percents[k]);
				good = false;
			}
			unit_column_free(&column);
		}
	}
	unit_ok(good, "pages: %s alone, all shapes, with and without NULLs", type->name);
}

static void
test_many_columns(void)
{
	static UnitColumn columns[320];
	bool		good = true;
	bool		few_rows_good = true;
	int			total;
	int			round;

	for (round = 0; round < unit_rounds(150); round++)
	{
		int			ncols = 2 + (int) unit_random_below(12);

		unit_random_columns(columns, ncols);
		good &= round_trip(columns, ncols, 2, 8000, &total);
		unit_free_columns(columns, ncols);

		unit_random_columns(columns, ncols);
		few_rows_good &= round_trip(columns, ncols, 5, (int) unit_random_below(4), &total);
		unit_free_columns(columns, ncols);
	}
	unit_ok(good, "pages: random tables of 2 to 13 columns");
	unit_ok(few_rows_good, "pages: pages of no or few rows");

	good = true;
	for (round = 0; round < 4; round++)
	{
		unit_random_columns(columns, 320);
		for (total = 0; total < 320; total++)
		{
			if (columns[total].desc.kind >= ROSE_COLUMN_VARLEN)
				columns[total].shape = SHAPE_TEXT_EMPTY;
		}
		good &= round_trip(columns, 320, 3, 8000, &total) && total > 0;
		unit_free_columns(columns, 320);
	}
	unit_ok(good, "pages: tables of 320 columns");
}

/* Rows on the first page of a table whose first columns have this shape; the others are constant. */
static int
rows_of_columns(const UnitType *type, UnitShape shape, int nshaped, int ncols)
{
	UnitColumn *columns = malloc(ncols * sizeof(UnitColumn));
	int			total;
	int			c;

	for (c = 0; c < ncols; c++)
		unit_column_init(&columns[c], type->attlen, type->byval, type->align, type->is_float,
						 c < nshaped ? shape : SHAPE_CONSTANT, 0);
	if (!round_trip(columns, ncols, 1, 1000000, &total))
		total = -1;
	unit_free_columns(columns, ncols);
	free(columns);
	return total;
}

/* Rows that fit on a page of which one column is shaped. */
static int
rows_on_page(const UnitType *type, UnitShape shape, int ncols)
{
	return rows_of_columns(type, shape, 1, ncols);
}

static void
test_fill(void)
{
	int			rows;

	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_RANDOM, 1);
	unit_ok(rows >= 1000, "fill: %d random int8 on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_CONSTANT, 300);
	unit_ok(rows >= 3000, "fill: %d rows of 300 constant columns on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_SEQUENCE, 5);
	unit_ok(rows >= 65000, "fill: %d rows of a sequence on a page", rows);
	rows = rows_of_columns(&unit_types[UNIT_INT8], SHAPE_SEQUENCE, 240, 240);
	unit_ok(rows >= 4000, "fill: %d rows of 240 sequences on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_SECONDS, 1);
	unit_ok(rows >= 12000, "fill: %d sorted timestamps of whole seconds on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_OUTLIERS, 1);
	unit_ok(rows >= 30000, "fill: %d rows with 1 %% of outliers on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_LOW_OUTLIERS, 1);
	unit_ok(rows >= 4500, "fill: %d rows of 10 bits with low outliers on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_SOMETIMES, 1);
	unit_ok(rows >= 30000, "fill: %d rows of one value with 10 %% of others on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_INT8], SHAPE_UNEVEN, 1);
	unit_ok(rows >= 18000, "fill: %d rows that grow by one step with 10 %% of others on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_FLOAT8], SHAPE_DECIMALS, 1);
	unit_ok(rows >= 2900, "fill: %d decimal float8 on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_TEXT], SHAPE_TEXT_FIXED, 1);
	unit_ok(rows >= 240, "fill: %d random texts of 32 bytes on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_TEXT], SHAPE_TEXT_KEYS, 1);
	unit_ok(rows >= 1100, "fill: %d sorted text keys of 21 bytes on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_TEXT], SHAPE_TEXT_PROSE, 1);
	unit_ok(rows >= 110, "fill: %d texts of 120 bytes on a page", rows);
	rows = rows_on_page(&unit_types[UNIT_TEXT], SHAPE_TEXT_EMPTY, 1);
	unit_ok(rows >= 60000, "fill: %d empty texts on a page", rows);
}

/* A page that grew to its end must be nearly full. */
static void
test_fill_ratio(void)
{
	UnitColumn	columns[8];
	RoseColumnDesc descs[8];
	double		worst = 1;
	double		sum = 0;
	int			round;
	int			c;

	for (round = 0; round < 60; round++)
	{
		RosePageBuilder *builder;
		double		ratio;

		unit_random_columns(columns, 8);
		/* the page must end for want of space, not of rows */
		unit_column_free(&columns[0]);
		unit_column_init(&columns[0], 4, true, TYPALIGN_INT, false, SHAPE_RANDOM, 0);
		for (c = 0; c < 8; c++)
			descs[c] = columns[c].desc;
		builder = rose_page_builder_create(8, descs, TopMemoryContext);
		unit_fill_page(builder, columns, 8, 100000);
		rose_page_builder_pack(builder, page_space);
		ratio = ((PageHeader) page_space)->pd_lower / (double) BLCKSZ;
		worst = Min(worst, ratio);
		sum += ratio;
		rose_page_builder_free(builder);
		unit_free_columns(columns, 8);
	}
	unit_ok(sum / round > 0.95, "fill: pages are %.1f %% full on average", 100 * sum / round);
	unit_ok(worst > 0.70, "fill: the emptiest of %d is %.1f %% full", round, 100 * worst);
}

static void
test_limits(void)
{
	RoseColumnDesc descs[8];
	Datum		values[8];
	bool		nulls[8] = {false};
	RosePageBuilder *builder;
	char	   *bytes = malloc(ROSE_ITEM_MAX_SIZE + 100);
	volatile bool failed;
	RoseAppendResult result;
	int			c;

	for (c = 0; c < 8; c++)
		descs[c] = rose_column_desc(-1, false, TYPALIGN_INT, false);
	builder = rose_page_builder_create(8, descs, TopMemoryContext);

	for (c = 0; c < ROSE_ITEM_MAX_SIZE + 100; c++)
		bytes[c] = (char) unit_random();
	SET_VARSIZE(bytes, ROSE_ITEM_MAX_SIZE);
	for (c = 0; c < 8; c++)
		values[c] = PointerGetDatum(bytes);
	result = rose_page_builder_append(builder, values, nulls);
	unit_ok(result == ROSE_APPEND_TOO_LARGE && rose_page_builder_nrows(builder) == 0,
			"limits: a row that fits no page is told apart");
	for (c = 1; c < 8; c++)
		nulls[c] = true;
	result = rose_page_builder_append(builder, values, nulls);
	unit_ok(result == ROSE_APPEND_OK && rose_page_builder_nrows(builder) == 1,
			"limits: the builder goes on after such a row");

	SET_VARSIZE(bytes, ROSE_ITEM_MAX_SIZE + 1);
	UNIT_CATCH(failed, rose_page_builder_append(builder, values, nulls));
	unit_ok(failed && unit_error_code == ERRCODE_PROGRAM_LIMIT_EXCEEDED,
			"limits: too large a value is an error");
	rose_page_builder_free(builder);
	free(bytes);
}

/* A row may have as many columns as a table, most of them NULL. */
static void
test_wide_rows(void)
{
	static RoseColumnDesc descs[ROSE_PAGE_MAX_COLUMNS];
	static Datum values[ROSE_PAGE_MAX_COLUMNS];
	static bool nulls[ROSE_PAGE_MAX_COLUMNS];
	char		item[VARHDRSZ + 4];
	RosePageBuilder *builder;
	RosePageReader *reader;
	bool		good = true;
	int			nrows;
	int			c;

	SET_VARSIZE(item, sizeof(item));
	memcpy(item + VARHDRSZ, "rose", 4);
	for (c = 0; c < ROSE_PAGE_MAX_COLUMNS; c++)
	{
		descs[c] = rose_column_desc(-1, false, TYPALIGN_INT, false);
		values[c] = PointerGetDatum(item);
		nulls[c] = c >= 20;
	}
	builder = rose_page_builder_create(ROSE_PAGE_MAX_COLUMNS, descs, TopMemoryContext);
	for (nrows = 0; nrows < 120; nrows++)
	{
		/* in the second half the values are in other columns */
		for (c = 0; nrows == 60 && c < ROSE_PAGE_MAX_COLUMNS; c++)
			nulls[c] = c < 1600 || c >= 1610;
		if (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
			break;
	}
	unit_ok(nrows == 120, "limits: %d rows of %d columns, most of them NULL", nrows,
			ROSE_PAGE_MAX_COLUMNS);
	rose_page_builder_pack(builder, page_space);
	rose_page_builder_free(builder);

	reader = rose_page_reader_create(ROSE_PAGE_MAX_COLUMNS, descs, TopMemoryContext);
	rose_page_reader_init(reader, page_space);
	for (c = 0; c < ROSE_PAGE_MAX_COLUMNS; c++)
	{
		bool		first_null;
		bool		last_null;

		rose_page_get(reader, c, 0, &first_null);
		rose_page_get(reader, c, nrows - 1, &last_null);
		good &= first_null == (c >= 20) && last_null == nulls[c];
	}
	unit_ok(good && rose_page_check(page_space, ROSE_PAGE_MAX_COLUMNS, descs, note_problem, NULL) == 0,
			"limits: such a page can be read");
	rose_page_reader_free(reader);
}

/* The work that plans take must not grow with the square of a page's rows. */
static void
test_repeated_items(void)
{
	RoseColumnDesc descs[2];
	Datum		values[2];
	bool		nulls[2] = {false, false};
	char		item[VARHDRSZ + 84];
	RosePageBuilder *builder;
	clock_t		start = clock();
	double		seconds;
	int			nrows = 0;

	SET_VARSIZE(item, sizeof(item));
	memset(item + VARHDRSZ, ' ', 84);
	descs[0] = rose_column_desc(8, true, TYPALIGN_DOUBLE, false);
	descs[1] = rose_column_desc(-1, false, TYPALIGN_INT, false);
	builder = rose_page_builder_create(2, descs, TopMemoryContext);
	for (;;)
	{
		values[0] = Int64GetDatum(nrows);
		values[1] = PointerGetDatum(item);
		if (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
			break;
		nrows++;
	}
	seconds = (double) (clock() - start) / CLOCKS_PER_SEC;
	unit_ok(nrows > 60000, "fill: %d equal texts of 84 bytes on a page", nrows);
	unit_ok(seconds < 1.0 || unit_is_slow(), "fill: it takes less than a second (%.3f s)", seconds);
	rose_page_builder_free(builder);

	/* what is buffered for a page is bounded, however well it packs */
	builder = rose_page_builder_create(2, descs, TopMemoryContext);
	values[1] = PointerGetDatum(malloc(2000));
	memset(DatumGetPointer(values[1]), 'x', 2000);
	SET_VARSIZE(DatumGetPointer(values[1]), 2000);
	for (nrows = 0; nrows < 60000; nrows++)
	{
		if (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
			break;
	}
	unit_ok(nrows > 1000 && nrows < 10000, "limits: %d equal texts of 2,000 bytes on a page", nrows);
	rose_page_builder_free(builder);
	free(DatumGetPointer(values[1]));
}

/* Rows go on being refused once a page is full, and the page stays good. */
static void
test_append_after_full(void)
{
	UnitColumn	columns[3];
	RoseColumnDesc descs[3];
	RosePageBuilder *builder;
	RosePageReader *reader;
	bool		good = true;
	int			round;
	int			c;

	for (round = 0; round < 30; round++)
	{
		int			nrows = 0;
		int			nfull = 0;

		unit_random_columns(columns, 3);
		for (c = 0; c < 3; c++)
			descs[c] = columns[c].desc;
		builder = rose_page_builder_create(3, descs, TopMemoryContext);
		reader = rose_page_reader_create(3, descs, TopMemoryContext);
		while (nfull < 40 && nrows < 6000)
		{
			Datum		values[3];
			bool		nulls[3];

			for (c = 0; c < 3; c++)
			{
				unit_column_fill(&columns[c], nrows + 1);
				values[c] = columns[c].values[nrows];
				nulls[c] = columns[c].nulls[nrows];
			}
			if (rose_page_builder_append(builder, values, nulls) == ROSE_APPEND_OK)
			{
				nrows++;
				continue;
			}
			/* try another row in its place */
			nfull++;
			for (c = 0; c < 3; c++)
			{
				if (!columns[c].desc.attbyval && !columns[c].nulls[nrows])
					free(DatumGetPointer(columns[c].values[nrows]));
				columns[c].nrows--;
			}
		}
		rose_page_builder_pack(builder, page_space);
		good &= verify_page(reader, columns, 3, page_space, nrows);
		rose_page_builder_free(builder);
		rose_page_reader_free(reader);
		unit_free_columns(columns, 3);
	}
	unit_ok(good, "pages: a row may be tried again and again on a full page");
}

static void
test_header_errors(void)
{
	RoseColumnDesc desc = rose_column_desc(8, true, TYPALIGN_DOUBLE, false);
	RosePageBuilder *builder = rose_page_builder_create(1, &desc, TopMemoryContext);
	RosePageReader *reader = rose_page_reader_create(1, &desc, TopMemoryContext);
	volatile bool failed;

	rose_page_builder_pack(builder, page_space);
	rose_page_reader_init(reader, page_space);
	unit_ok(rose_page_reader_nrows(reader) == 0, "header: an empty page can be read");

	rose_page_header(page_space)->version++;
	UNIT_CATCH(failed, rose_page_reader_init(reader, page_space));
	unit_ok(failed && unit_error_code == ERRCODE_DATA_CORRUPTED,
			"header: a page of another version is refused: %s", unit_error_message());

	rose_page_header(page_space)->version--;
	unit_ok(rose_page_add_extra(page_space, "something behind the rows", 26, BLCKSZ) && rose_page_check(page_space, 1, &desc, note_problem, NULL) == 0,
			"header: something behind the rows");
	((PageHeader) page_space)->pd_upper -= 8;
	UNIT_CATCH(failed, rose_page_reader_init(reader, page_space));
	unit_ok(failed && unit_error_code == ERRCODE_DATA_CORRUPTED,
			"header: a hole before it is refused: %s", unit_error_message());
	((PageHeader) page_space)->pd_lower = ((PageHeader) page_space)->pd_upper = ((PageHeader) page_space)->pd_special;
	UNIT_CATCH(failed, rose_page_reader_init(reader, page_space));
	unit_ok(failed && unit_error_code == ERRCODE_DATA_CORRUPTED,
			"header: data that goes up to it are refused: %s", unit_error_message());
	((PageHeader) page_space)->pd_special = BLCKSZ + 8;
	UNIT_CATCH(failed, rose_page_reader_init(reader, page_space));
	unit_ok(failed && unit_error_code == ERRCODE_DATA_CORRUPTED,
			"header: a page that ends before it is refused: %s", unit_error_message());

	memset(page_space, 0, BLCKSZ);
	UNIT_CATCH(failed, rose_page_reader_init(reader, page_space));
	unit_ok(failed && unit_error_code == ERRCODE_DATA_CORRUPTED,
			"header: a zero page is refused: %s", unit_error_message());
	unit_ok(rose_page_check(page_space, 1, &desc, note_problem, NULL) == 1,
			"header: check reports a zero page");
	rose_page_builder_free(builder);
	rose_page_reader_free(reader);
}

static void
test_codec_coverage(void)
{
	int			id;

	unit_ok(runs_seen > 20, "runs were found %d times", runs_seen);
	unit_ok(codes_seen > 20, "codes were found %d times", codes_seen);
	unit_ok(extremes_seen > 100, "extremes were found %d times", extremes_seen);
	for (id = 1; id < ROSE_NUM_CODECS; id++)
	{
		const RoseCodec *codec = rose_codec_lookup(id);

		if (codec != NULL)
			unit_ok(codec_uses[id] > 0 && codec->id == id, "codec %d (%s) was chosen %d times",
					id, codec->name, codec_uses[id]);
	}
}

void
test_pages(void)
{
	int			k;

	for (k = 0; k < UNIT_NUM_TYPES; k++)
		test_single_columns(&unit_types[k]);
	test_many_columns();
	test_append_after_full();
	test_fill();
	test_fill_ratio();
	test_limits();
	test_wide_rows();
	test_repeated_items();
	test_header_errors();
	test_codec_coverage();
}
