/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  Measures multicolumn pages without a server.  Built and run by bench/pages,
 *	  whose head says what is measured and why.
 *
 * Prints CSV, one line a kind of data and number of columns.  MB are 10^6 bytes
 * of uncompressed values.  Times are processor time, so that other programs on
 * the machine disturb them less; each is the median of RUNS.  Whatever is
 * timed is also compared with the data it was made from: a difference ends the run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "codec/rose_codec.h"
#include "page/rose_page.h"
#include "page/rose_page_format.h"

#include "unit.h"
#include "unit_rows.h"
#include "random.h"

#define RUNS			5
#define BUILD_BATCH		256		/* rows that one call adds in columns */
#define DECODE_BATCH	1024	/* values that one call decodes */
#define PROBES			400		/* gets or searches of a round */
#define PROBE_ROUNDS	300
#define MAX_COLUMNS		100

/* ---- Random numbers; unit_rows.c uses them too ---- */

static uint64 seed = 42;

uint64
unit_random(void)
{
	return next_random();
}

uint64
unit_random_below(uint64 limit)
{
	return unit_random() % limit;
}

/* ---- Data ---- */

typedef enum Shape
{
	RANDOM,						/* all bits */
	BITS,						/* parameter bits, uniform */
	MIXED_BITS,					/* 9 to 16 bits, another number in each column */
	RUNS_OF,					/* any value, parameter times on average */
	SORTED_RUNS,				/* the same, ascending */
	SEQUENCE,
	GAPS,						/* ascending by up to parameter */
	SECONDS,					/* timestamps, some seconds apart */
	FEW,						/* parameter values, far apart */
	DECIMALS,					/* floats of two digits */
	TEXT						/* a UnitShape in parameter */
} Shape;

typedef struct Data
{
	const char *name;
	Shape		shape;
	int			parameter;
	int16		attlen;			/* 4 or 8, -1 for text */
} Data;

typedef struct Table
{
	int			ncols;
	int			nrows;
	RoseColumnDesc descs[MAX_COLUMNS];
	Datum	   *rows;			/* row after row */
	RoseColumnValues columns[MAX_COLUMNS];	/* the same, column after column */
	bool		nulls[MAX_COLUMNS];
	double		bytes;			/* of all values */
	bool		sorted;			/* the first column ascends */
	UnitColumn	text[MAX_COLUMNS];
} Table;

typedef struct Pages
{
	int			n;
	int			capacity;
	char	   *images;
	int		   *first_row;		/* n + 1 entries */
} Pages;

static bool
shape_is_sorted(const Data *data)
{
	return data->shape == SORTED_RUNS || data->shape == SEQUENCE || data->shape == GAPS ||
		data->shape == SECONDS || (data->shape == TEXT && data->parameter == SHAPE_TEXT_KEYS);
}

static int64
next_word(const Data *data, int column, int64 *last)
{
	uint64		random = unit_random();
	double		decimal;
	int64		word;

	switch (data->shape)
	{
		case BITS:
			return (int64) (random >> (64 - data->parameter));
		case MIXED_BITS:
			return (int64) (random >> (64 - (9 + column * 5 % 8)));
		case RUNS_OF:
			return *last = random % data->parameter == 0 ? (int64) unit_random() : *last;
		case SORTED_RUNS:
			return *last += random % data->parameter == 0 ? (int64) (random >> 48) : 0;
		case SEQUENCE:
			return *last += 1;
		case GAPS:
			return *last += (int64) ((random >> 8) % data->parameter);
		case SECONDS:
			return *last += (int64) (random % 5) * 1000000;
		case FEW:
			return (int64) ((random % data->parameter + 1) * UINT64CONST(0x9e3779b97f4a7c15));
		case DECIMALS:
			decimal = ((double) (random % 2000000) - 300000) / 100;
			memcpy(&word, &decimal, sizeof(word));
			return word;
		default:
			return (int64) random;
	}
}

/* What a column of the table is made of: ascending in front if there is a key. */
static const Data key_data = {"key", GAPS, 16, 4};

static void
table_fill_column(Table *table, int column, const Data *data)
{
	int64		last = 0;

	if (data->shape == TEXT)
	{
		UnitColumn *made = &table->text[column];

		unit_column_init(made, -1, false, TYPALIGN_INT, false, data->parameter, 0);
		unit_column_fill(made, table->nrows);
		table->descs[column] = made->desc;
	}
	else
		table->descs[column] = rose_column_desc(data->attlen, true,
												data->attlen == 8 ? TYPALIGN_DOUBLE : TYPALIGN_INT,
												data->shape == DECIMALS);
	for (int row = 0; row < table->nrows; row++)
	{
		Datum	   *value = &table->rows[(Size) row * table->ncols + column];

		if (data->shape == TEXT)
		{
			*value = table->text[column].values[row];
			table->bytes += VARSIZE_ANY(DatumGetPointer(*value));
			continue;
		}
		*value = (Datum) next_word(data, column, &last);
		if (data->attlen == 4)
			*value = Int32GetDatum((int32) *value);
		table->bytes += data->attlen;
	}
}

static void
table_fill(Table *table, const Data *data, int ncols, int nrows, bool with_key)
{
	memset(table, 0, sizeof(*table));
	random_state = seed;
	table->ncols = ncols;
	table->nrows = nrows;
	table->rows = malloc((Size) nrows * ncols * sizeof(Datum));
	table->sorted = with_key || shape_is_sorted(data);
	for (int c = 0; c < ncols; c++)
	{
		Datum	   *values = malloc(nrows * sizeof(Datum));

		table_fill_column(table, c, with_key && c == 0 ? &key_data : data);
		for (int row = 0; row < nrows; row++)
			values[row] = table->rows[(Size) row * ncols + c];
		table->columns[c].values = values;
	}
}

static void
table_free(Table *table)
{
	for (int c = 0; c < table->ncols; c++)
	{
		if (table->text[c].nrows > 0)
			unit_column_free(&table->text[c]);
		free((Datum *) table->columns[c].values);
	}
	free(table->rows);
}

static Datum
table_value(const Table *table, int row, int column)
{
	return table->rows[(Size) row * table->ncols + column];
}

static bool
values_equal(const RoseColumnDesc *desc, Datum a, Datum b)
{
	struct varlena *x = (struct varlena *) DatumGetPointer(a);
	struct varlena *y = (struct varlena *) DatumGetPointer(b);

	if (desc->attbyval)
		return a == b;
	return VARSIZE_ANY_EXHDR(x) == VARSIZE_ANY_EXHDR(y) &&
		memcmp(VARDATA_ANY(x), VARDATA_ANY(y), VARSIZE_ANY_EXHDR(x)) == 0;
}

static void
fail(const char *what, int row, int column)
{
	fprintf(stderr, "pages: %s gave a wrong answer for row %d, column %d\n", what, row, column);
	exit(1);
}

/* ---- Time ---- */

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

/* Median of RUNS times; *deviation is their standard deviation in per cent of the mean. */
static double
summarize(double *times, double *deviation)
{
	double		mean = 0;
	double		square = 0;

	for (int i = 0; i < RUNS; i++)
		mean += times[i] / RUNS;
	for (int i = 0; i < RUNS; i++)
		square += (times[i] - mean) * (times[i] - mean) / RUNS;
	*deviation = 100 * sqrt(square) / mean;
	qsort(times, RUNS, sizeof(double), compare_doubles);
	return times[RUNS / 2];
}

/* ---- What is measured ---- */

static void
pages_add(Pages *pages, RosePageBuilder *builder)
{
	int			nrows = rose_page_builder_nrows(builder);

	if (pages->n + 1 >= pages->capacity)
	{
		pages->capacity = Max(1024, pages->capacity * 2);
		pages->images = realloc(pages->images, (Size) pages->capacity * BLCKSZ);
		pages->first_row = realloc(pages->first_row, pages->capacity * sizeof(int));
		pages->first_row[0] = 0;
	}
	rose_page_builder_pack(builder, pages->images + (Size) pages->n * BLCKSZ);
	pages->first_row[pages->n + 1] = pages->first_row[pages->n] + nrows;
	pages->n++;
}

/* in_columns: the rows are given BUILD_BATCH at a time, in columns, as merges have them. */
static double
build(const Table *table, Pages *pages, bool in_columns)
{
	RosePageBuilder *builder = rose_page_builder_create(table->ncols, table->descs,
														TopMemoryContext);
	double		start = now();

	pages->n = 0;
	for (int row = 0; row < table->nrows && !in_columns; row++)
	{
		while (rose_page_builder_append(builder, table->rows + (Size) row * table->ncols,
										table->nulls) != ROSE_APPEND_OK)
			pages_add(pages, builder);
	}
	for (int row = 0; row < table->nrows && in_columns;)
	{
		RoseAppendResult result;

		row += rose_page_builder_append_columns(builder, table->columns, row,
												Min(BUILD_BATCH, table->nrows - row), &result);
		if (result != ROSE_APPEND_OK)
			pages_add(pages, builder);
	}
	pages_add(pages, builder);
	start = now() - start;
	rose_page_builder_free(builder);
	return start;
}

static double
decode(RosePageReader *reader, const Table *table, const Pages *pages)
{
	static Datum values[DECODE_BATCH];
	static bool nulls[DECODE_BATCH];
	double		start = now();

	for (int page = 0; page < pages->n; page++)
	{
		int			nrows = pages->first_row[page + 1] - pages->first_row[page];

		rose_page_reader_init(reader, pages->images + (Size) page * BLCKSZ);
		for (int c = 0; c < table->ncols; c++)
		{
			for (int from = 0; from < nrows; from += DECODE_BATCH)
				rose_page_decode(reader, c, from, Min(DECODE_BATCH, nrows - from), values, nulls);
		}
	}
	return now() - start;
}

static void
verify_decode(RosePageReader *reader, const Table *table, const Pages *pages)
{
	Datum	   *values = malloc(ROSE_PAGE_MAX_ROWS * sizeof(Datum));
	bool	   *nulls = malloc(ROSE_PAGE_MAX_ROWS * sizeof(bool));

	if (pages->first_row[pages->n] != table->nrows)
		fail("build", table->nrows, 0);
	for (int page = 0; page < pages->n; page++)
	{
		int			first = pages->first_row[page];
		int			nrows = pages->first_row[page + 1] - first;

		rose_page_reader_init(reader, pages->images + (Size) page * BLCKSZ);
		for (int c = 0; c < table->ncols; c++)
		{
			rose_page_decode(reader, c, 0, nrows, values, nulls);
			for (int i = 0; i < nrows; i++)
			{
				if (nulls[i] ||
					!values_equal(&table->descs[c], values[i], table_value(table, first + i, c)))
					fail("decode", first + i, c);
			}
		}
	}
	free(values);
	free(nulls);
}

static int
compare_texts(Datum a, Datum b, void *arg)
{
	struct varlena *x = (struct varlena *) DatumGetPointer(a);
	struct varlena *y = (struct varlena *) DatumGetPointer(b);
	int			xlen = VARSIZE_ANY_EXHDR(x);
	int			ylen = VARSIZE_ANY_EXHDR(y);
	int			order = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(xlen, ylen));

	return order != 0 ? order : xlen - ylen;
}

/*
 * Gets or searches in the first column, chosen before and checked after they are
 * timed, so that neither random numbers nor the data's cache misses count.
 */
typedef struct Probe
{
	int			page;
	int			nrows;			/* of the page */
	int			row;			/* of the table */
	int			slot;
	Datum		value;
	Datum		got;
	int			first;
	int			last;
} Probe;

static void
choose_probe(Probe *p, const Table *table, const Pages *pages, int page)
{
	int			first = pages->first_row[page];

	p->page = page;
	p->nrows = pages->first_row[page + 1] - first;
	p->slot = (int) unit_random_below(p->nrows);
	p->row = first + p->slot;
	p->value = table_value(table, p->row, 0);
}

static inline void
run_probe(RosePageReader *reader, Probe *p, RoseDatumCompare compare, bool search)
{
	bool		isnull;

	if (search)
		rose_page_search(reader, 0, 0, p->nrows, p->value, compare, NULL, &p->first, &p->last);
	else
		p->got = rose_page_get(reader, 0, p->slot, &isnull);
}

/* What a by-reference get points to is gone if another page was opened since. */
static void
check_probe(const Probe *p, const Table *table, bool search, bool cold)
{
	if (search && (p->slot < p->first || p->slot >= p->last))
		fail("search", p->row, 0);
	if (!search && (table->descs[0].attbyval || !cold) &&
		!values_equal(&table->descs[0], p->got, p->value))
		fail("get", p->row, 0);
}

/* Nanoseconds a probe; cold: each on another page, which has to be opened. */
static double
probe(RosePageReader *reader, const Table *table, const Pages *pages, bool search, bool cold)
{
	static Probe probes[PROBES];
	RoseDatumCompare compare = table->descs[0].attbyval ? NULL : compare_texts;
	double		time = 0;
	double		start;

	for (int round = 0; round < PROBE_ROUNDS; round++)
	{
		int			page = (int) unit_random_below(pages->n);

		for (int k = 0; k < PROBES; k++)
			choose_probe(&probes[k], table, pages, cold ? (int) unit_random_below(pages->n) : page);
		rose_page_reader_init(reader, pages->images + (Size) page * BLCKSZ);
		if (!cold)
			run_probe(reader, &probes[0], compare, search);
		start = now();
		for (int k = 0; k < PROBES; k++)
		{
			if (cold)
				rose_page_reader_init(reader, pages->images + (Size) probes[k].page * BLCKSZ);
			run_probe(reader, &probes[k], compare, search);
		}
		time += now() - start;
		for (int k = 0; k < PROBES; k++)
			check_probe(&probes[k], table, search, cold);
	}
	return time / PROBE_ROUNDS / PROBES * 1e9;
}

/* ---- The tree above the pages ---- */

/* A page of a level: the first key and row below it. */
typedef struct TreeEntry
{
	Datum		key;
	int			row;
} TreeEntry;

/*
 * Pages of the tree above the leaves.  An inner page is as in a component: child,
 * ordinal of its first row, sequence and first key column of the separator,
 * built by the same builder.
 */
static int
tree_pages(const Table *table, const Pages *pages)
{
	RoseColumnDesc descs[4];
	RosePageBuilder *builder;
	TreeEntry	   *nodes = malloc(pages->n * sizeof(TreeEntry));
	char	   *image = malloc(BLCKSZ);
	int			nnodes = pages->n;
	int			total = 0;
	int			block = 0;

	for (int c = 0; c < 3; c++)
		descs[c] = rose_column_desc(8, true, TYPALIGN_DOUBLE, false);
	descs[3] = table->descs[0];
	builder = rose_page_builder_create(4, descs, TopMemoryContext);
	for (int i = 0; i < nnodes; i++)
	{
		nodes[i].row = pages->first_row[i];
		nodes[i].key = table_value(table, nodes[i].row, 0);
	}
	while (nnodes > 1)
	{
		int			nabove = 0;

		for (int i = 0; i < nnodes; i++)
		{
			TreeEntry		node = nodes[i];
			Datum		values[4] = {Int64GetDatum(block + i), Int64GetDatum(node.row),
			Int64GetDatum(PG_INT64_MAX), node.key};
			bool		nulls[4] = {false, false, false, i == 0};

			if (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
			{
				rose_page_builder_pack(builder, image);
				rose_page_builder_append(builder, values, nulls);
			}
			if (rose_page_builder_nrows(builder) == 1)
				nodes[nabove++] = node;
		}
		rose_page_builder_pack(builder, image);
		block += nnodes;
		total += nabove;
		nnodes = nabove;
	}
	rose_page_builder_free(builder);
	free(image);
	free(nodes);
	return total;
}

/* The codec that the last column of the middle page has. */
static const char *
codec_name(const Table *table, const Pages *pages)
{
	const char *image = pages->images + (Size) (pages->n / 2) * BLCKSZ;
	const RoseDirectoryEntryDisk *directory =
	(const RoseDirectoryEntryDisk *) (image + ROSE_PAGE_DIRECTORY_OFFSET);
	const RoseCodec *codec = rose_codec_lookup(directory[table->ncols - 1].codec);

	return codec ? codec->name : "none";
}

/* ---- One line of the result ---- */

static void
measure(const char *experiment, const Data *data, int ncols, int nrows, bool with_key)
{
	static Pages pages;			/* kept, so that its memory has been touched */
	Table		table;
	RosePageReader *reader;
	double		build_times[RUNS];
	double		columns_times[RUNS];
	double		decode_times[RUNS];
	double		build_deviation;
	double		columns_deviation;
	double		decode_deviation;
	double		build_time;
	double		columns_time;
	double		decode_time;
	int			ntree = 0;

	table_fill(&table, data, ncols, nrows, with_key);
	reader = rose_page_reader_create(ncols, table.descs, TopMemoryContext);
	build(&table, &pages, false);
	verify_decode(reader, &table, &pages);
	for (int i = 0; i < RUNS; i++)
	{
		build_times[i] = build(&table, &pages, false);
		columns_times[i] = build(&table, &pages, true);
	}
	verify_decode(reader, &table, &pages);
	for (int i = 0; i < RUNS; i++)
		decode_times[i] = decode(reader, &table, &pages);
	build_time = summarize(build_times, &build_deviation);
	columns_time = summarize(columns_times, &columns_deviation);
	decode_time = summarize(decode_times, &decode_deviation);
	if (table.sorted)
		ntree = tree_pages(&table, &pages);

	printf("%s,%s,%d,%d,%.0f,%s,%d,", experiment, data->name, ncols, nrows, table.bytes,
		   codec_name(&table, &pages), pages.n);
	if (table.sorted)
		printf("%d,%.3f,%.3f", ntree, table.bytes / pages.n / BLCKSZ,
			   table.bytes / (pages.n + ntree) / BLCKSZ);
	else
		printf(",%.3f,", table.bytes / pages.n / BLCKSZ);
	printf(",%.0f,%.1f,%.0f,%.1f,%.0f,%.1f,%.1f,%.1f", table.bytes / build_time / 1e6, build_deviation,
		   table.bytes / columns_time / 1e6, columns_deviation,
		   table.bytes / decode_time / 1e6, decode_deviation,
		   probe(reader, &table, &pages, false, false),
		   probe(reader, &table, &pages, false, true));
	if (table.sorted)
		printf(",%.1f,%.1f\n", probe(reader, &table, &pages, true, false),
			   probe(reader, &table, &pages, true, true));
	else
		printf(",,\n");
	fflush(stdout);
	rose_page_reader_free(reader);
	table_free(&table);
}

/* The data of the paper's tables; see the head of bench/pages. */
static const Data pfor_columns = {"PFOR", MIXED_BITS, 0, 4};
static const Data rle_columns = {"RLE", RUNS_OF, 5, 4};

static const Data kinds[] = {
	{"PFOR int4", BITS, 8, 4},
	{"RLE int4", RUNS_OF, 100, 4},
	{"random int8", RANDOM, 0, 8},
	{"8 bits int8", BITS, 8, 8},
	{"13 bits int8", BITS, 13, 8},
	{"runs int8", RUNS_OF, 100, 8},
	{"sorted runs int8", SORTED_RUNS, 100, 8},
	{"sequence int8", SEQUENCE, 0, 8},
	{"gaps int8", GAPS, 200, 8},
	{"timestamps", SECONDS, 0, 8},
	{"few int8", FEW, 50, 8},
	{"decimals float8", DECIMALS, 0, 8},
	{"text prose", TEXT, SHAPE_TEXT_PROSE, -1},
	{"text keys", TEXT, SHAPE_TEXT_KEYS, -1},
	{"text few", TEXT, SHAPE_TEXT_FEW, -1},
};

int
main(int argc, char **argv)
{
	int			scale = argc > 1 ? atoi(argv[1]) : 1;

	if (argc > 2)
		seed = strtoul(argv[2], NULL, 10);

	printf("experiment,data,columns,rows,bytes,codec,pages,tree_pages,ratio,ratio_with_tree,"
		   "build_mb_s,build_dev_percent,build_columns_mb_s,build_columns_dev_percent,decode_mb_s,decode_dev_percent,"
		   "get_ns,get_new_page_ns,search_ns,search_new_page_ns\n");
	measure("table 1", &pfor_columns, 5, 200000 * scale, true);
	measure("table 1", &rle_columns, 5, 200000 * scale, true);
	measure("table 2", &pfor_columns, 100, 20000 * scale, true);
	measure("table 2", &rle_columns, 100, 20000 * scale, true);
	for (int k = 0; k < lengthof(kinds); k++)
	{
		measure("table 3", &kinds[k], 1, 200000 * scale, false);
		measure("table 3", &kinds[k], 10,
				(kinds[k].shape == TEXT ? 40000 : 200000) * scale, false);
	}
	return 0;
}
