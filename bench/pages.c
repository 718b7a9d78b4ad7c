/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  Measures multicolumn pages: compression ratio, build and decode speed,
 *	  point reads and searches.  Built and run by bench/pages.sh.
 *
 * Prints CSV.  MB are 10^6 bytes of uncompressed values.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "page/rose_page.h"

#include "unit.h"
#include "unit_rows.h"

/* Rows of a run: many pages, but still in memory several times over. */
#define MIN_ROWS		200000
#define NUM_PROBES		200000

/* unit_main.c is not linked here. */
static uint64 random_state = 42;

uint64
unit_random(void)
{
	uint64		z = (random_state += UINT64CONST(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64
unit_random_below(uint64 limit)
{
	return unit_random() % limit;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

typedef struct Pages
{
	int			n;
	char	   *images;
	int		   *nrows;
} Pages;

static double
build(UnitColumn *columns, int ncols, int nrows, Pages *pages)
{
	RoseColumnDesc descs[16];
	Datum		values[16];
	bool		nulls[16];
	RosePageBuilder *builder;
	double		start;
	int			row;
	int			c;

	for (c = 0; c < ncols; c++)
		descs[c] = columns[c].desc;
	builder = rose_page_builder_create(ncols, descs, TopMemoryContext);
	pages->n = 0;
	start = now();
	for (row = 0; row < nrows; row++)
	{
		for (c = 0; c < ncols; c++)
		{
			values[c] = columns[c].values[row];
			nulls[c] = columns[c].nulls[row];
		}
		while (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
		{
			pages->nrows[pages->n] = rose_page_builder_nrows(builder);
			rose_page_builder_pack(builder, pages->images + (Size) pages->n * BLCKSZ);
			pages->n++;
		}
	}
	pages->nrows[pages->n] = rose_page_builder_nrows(builder);
	rose_page_builder_pack(builder, pages->images + (Size) pages->n * BLCKSZ);
	pages->n++;
	start = now() - start;
	rose_page_builder_free(builder);
	return start;
}

static double
decode(RosePageReader *reader, int ncols, const Pages *pages)
{
	static Datum values[1024];
	static bool nulls[1024];
	double		start = now();
	int			page;
	int			c;
	int			from;

	for (page = 0; page < pages->n; page++)
	{
		rose_page_reader_init(reader, pages->images + (Size) page * BLCKSZ);
		for (c = 0; c < ncols; c++)
		{
			for (from = 0; from < pages->nrows[page]; from += 1024)
				rose_page_decode(reader, c, from, Min(1024, pages->nrows[page] - from),
								 values, nulls);
		}
	}
	return now() - start;
}

static double
probe(RosePageReader *reader, const UnitColumn *column, const Pages *pages, bool search)
{
	double		start = now();
	uint64		sum = 0;
	int			i;

	for (i = 0; i < NUM_PROBES; i++)
	{
		int			page = (int) unit_random_below(pages->n);
		int			n = pages->nrows[page];
		bool		isnull;
		int			first;
		int			last;

		/* a new page each time, as a lookup would have */
		rose_page_reader_init(reader, pages->images + (Size) page * BLCKSZ);
		if (search)
		{
			Datum		value = column->values[unit_random_below(column->nrows)];

			rose_page_search(reader, 0, 0, n, value,
							 column->desc.attbyval ? NULL : unit_column_compare,
							 (void *) column, &first, &last);
			sum += first;
		}
		else
			sum += rose_page_get(reader, 0, (int) unit_random_below(n), &isnull);
	}
	if (sum == 42)
		printf("#\n");
	return (now() - start) / NUM_PROBES * 1e9;
}

static void
measure(const char *name, const UnitType *type, UnitShape shape, int ncols)
{
	UnitColumn	columns[16];
	RoseColumnDesc descs[16];
	RosePageReader *reader;
	Pages		pages;
	double		bytes = 0;
	double		build_time;
	double		decode_time;
	int			nrows = MIN_ROWS;
	int			c;
	int			row;

	for (c = 0; c < ncols; c++)
	{
		unit_column_init(&columns[c], type->attlen, type->byval, type->align, type->is_float,
						 shape, 0);
		columns[c].parameter = 12;
		descs[c] = columns[c].desc;
		unit_column_fill(&columns[c], nrows);
		for (row = 0; row < nrows; row++)
			bytes += type->byval ? type->attlen : VARSIZE_ANY(DatumGetPointer(columns[c].values[row]));
	}
	pages.images = malloc((Size) (nrows / 4) * BLCKSZ);
	pages.nrows = malloc(nrows * sizeof(int));
	build(columns, ncols, nrows, &pages);
	build_time = build(columns, ncols, nrows, &pages);
	reader = rose_page_reader_create(ncols, descs, TopMemoryContext);
	decode(reader, ncols, &pages);
	decode_time = decode(reader, ncols, &pages);
	printf("%s,%d,%.2f,%.0f,%.0f,%.0f", name, ncols, bytes / ((double) pages.n * BLCKSZ),
		   bytes / build_time / 1e6, bytes / decode_time / 1e6,
		   probe(reader, &columns[0], &pages, false));
	if (columns[0].sorted)
		printf(",%.0f\n", probe(reader, &columns[0], &pages, true));
	else
		printf(",\n");
	fflush(stdout);
	rose_page_reader_free(reader);
	unit_free_columns(columns, ncols);
	free(pages.images);
	free(pages.nrows);
}

int
main(void)
{
	static const int column_counts[] = {1, 10};
	const UnitType *int8_type = &unit_types[UNIT_INT8];
	int			k;

	printf("data,columns,ratio,build MB/s,decode MB/s,get ns,search ns\n");
	for (k = 0; k < lengthof(column_counts); k++)
	{
		int			ncols = column_counts[k];

		measure("int8 random", int8_type, SHAPE_RANDOM, ncols);
		measure("int8 13 bits", int8_type, SHAPE_SMALL, ncols);
		measure("int8 sequence", int8_type, SHAPE_SEQUENCE, ncols);
		measure("int8 sorted", int8_type, SHAPE_SORTED, ncols);
		measure("int8 runs", int8_type, SHAPE_RUNS, ncols);
		measure("int8 few", int8_type, SHAPE_FEW, ncols);
		measure("timestamp seconds", int8_type, SHAPE_SECONDS, ncols);
		measure("float8 decimals", &unit_types[UNIT_FLOAT8], SHAPE_DECIMALS, ncols);
		measure("text prose", &unit_types[UNIT_TEXT], SHAPE_TEXT_PROSE, ncols);
		measure("text sorted keys", &unit_types[UNIT_TEXT], SHAPE_TEXT_KEYS, ncols);
		measure("text few", &unit_types[UNIT_TEXT], SHAPE_TEXT_FEW, ncols);
	}
	return 0;
}
