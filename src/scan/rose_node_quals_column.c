/*-------------------------------------------------------------------------
 *
 * rose_node_quals_column.c
 *	  The values of columns that comparisons look at, and which of them are left.
 *
 * A column is had in one of several ways, by what is cheapest for the rows that still need it:
 * - where these are few, their values are picked, and compared one after the other;
 * - numerics that the page has in a dictionary stay codes: its entries are compared, and rows follow theirs;
 * - else all values of the rows at hand are decoded, and compared many at a time.
 * What was had once is used by all comparisons with the column, as far as it has the rows that they need.
 *
 * What is made of columns (rose_node_kernel.h) is made of the rows that need it.
 *
 * Comparisons of a column that are joined (rose_node_quals.c) are one with the range that they have in common.
 *
 * Backend-local; no locks.  Which rows need a value, and what NULLs mean, is for rose_node_quals.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_quals_parts.h"

/* After so many more vectors with errors, as it seems, than without, what is made of columns is made row by row. */
#define MAX_FAILURES	8

/* Of so many rows less than one needs what codes say: rows are looked at one by one. */
#define FEW_CODES		4

static inline void
set_bit(uint64 *mask, int row, uint64 bit)
{
	mask[row / ROSE_MASK_BITS] |= bit << (row % ROSE_MASK_BITS);
}

/* ---- columns ---- */

static RoseNodeQualsColumn *
add(RoseNodeQuals *quals, const RoseNodeFilter *filter)
{
	RoseNodeQualsColumn *column;

	quals->columns = repalloc(quals->columns, (quals->ncolumns + 1) * sizeof(RoseNodeQualsColumn));
	column = &quals->columns[quals->ncolumns++];
	memset(column, 0, sizeof(RoseNodeQualsColumn));
	column->attno = filter->attno;
	column->length = filter->length;
	column->words = palloc0(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	column->picked = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
	column->expr = filter->expr;
	if (filter->expr == NULL)
		return column;
	column->kernel = filter->left == NUMERICOID ? rose_node_kernel_compile_decimal(&quals->kernels, filter->expr) :
		rose_node_kernel_compile(&quals->kernels, filter->expr);
	if (column->kernel == NULL)
		elog(ERROR, "condition of a Rose Scan is not made of columns");
	if (quals->chosen == NULL)
		quals->chosen = palloc(sizeof(RoseNodeRows));
	return column;
}

static void
take_as_numeric(RoseNodeQualsColumn *column)
{
	if (column->is_numeric)
		return;
	column->is_numeric = true;
	column->scales = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint8));
	column->codes = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
	column->entries = palloc(ROSE_NODE_DECIMAL_ENTRIES * sizeof(int64));
}

void
rose_node_quals_column_add_all(RoseNodeQuals *quals, RoseNodeFilter *filter)
{
	ListCell   *cell;
	int			i;

	foreach(cell, filter->args)
		rose_node_quals_column_add_all(quals, lfirst(cell));
	if (filter->attno == 0 && filter->expr == NULL)
		return;
	for (i = 0; i < quals->ncolumns; i++)
	{
		if (quals->columns[i].attno == filter->attno && equal(quals->columns[i].expr, filter->expr))
			break;
	}
	if (i == quals->ncolumns)
		(void) add(quals, filter);
	filter->column = i;
	if (filter->type == ROSE_FILTER_COMPARE && filter->kind == ROSE_WORDS_NUMERIC)
		take_as_numeric(&quals->columns[i]);
}

void
rose_node_quals_column_forget(RoseNodeQuals *quals)
{
	for (int i = 0; i < quals->ncolumns; i++)
	{
		quals->columns[i].loaded = false;
		quals->columns[i].npicked = 0;
		quals->columns[i].nentries = 0;
	}
}

/* n Datums are there, nulls says which are NULL (NULL: none is). */
static void
take_numerics(RoseNodeQuals *quals, RoseNodeQualsColumn *column, const bool *nulls, int n)
{
	memcpy(quals->values, column->words, n * sizeof(int64));
	column->is_decimal = rose_node_decimal_make(quals->values, nulls, n, column->words, column->scales, &column->decimals);
	if (!column->is_decimal)
		memcpy(column->words, quals->values, n * sizeof(int64));
}

/* Numerics in a dictionary, of which entries alone are made integers; false: they are to be had another way. */
static bool
load_coded(RoseNodeQuals *quals, RoseNodeQualsColumn *column)
{
	int			nentries;
	const Datum *entries = rose_batch_codes(quals->batch, column->attno, quals->first, quals->n, column->codes, &nentries);

	if (entries == NULL || nentries > ROSE_NODE_DECIMAL_ENTRIES ||
		!rose_node_decimal_make_distinct(entries, nentries, column->entries, column->scales, &column->decimals))
		return false;
	column->nentries = nentries;
	column->is_decimal = true;
	rose_mask_clear(column->nulls, quals->n);
	return true;
}

RoseNodeQualsColumn *
rose_node_quals_column_load(RoseNodeQuals *quals, int number)
{
	RoseNodeQualsColumn *column = &quals->columns[number];
	bool		any;

	if (column->loaded)
		return column;
	column->loaded = true;
	column->npicked = 0;
	if (column->is_numeric && load_coded(quals, column))
		return column;
	if (column->length >= 0)
		any = rose_batch_words(quals->batch, column->attno, quals->first, quals->n,
							   column->words, quals->nulls);
	else
		any = rose_batch_datums(quals->batch, column->attno, quals->first, quals->n,
								(Datum *) column->words, quals->nulls);
	if (column->is_numeric)
		take_numerics(quals, column, any ? quals->nulls : NULL, quals->n);
	if (any)
		rose_vec_mask_of_bools(quals->nulls, quals->n, column->nulls);
	else
		rose_mask_clear(column->nulls, quals->n);
	return column;
}

/* ---- few rows ---- */

/* The values of the rows that are needed alone, of which there are n. */
static void
pick(RoseNodeQuals *quals, RoseNodeQualsColumn *column, const uint64 *needed, int n)
{
	(void) rose_mask_list(needed, quals->n, 0, column->picked);
	for (int i = 0; i < n; i++)
		quals->rows[i] = (uint16) (quals->first + column->picked[i]);
	rose_batch_pick(quals->batch, column->attno, quals->rows, n, (Datum *) column->words, quals->nulls);
	if (column->length >= 0)
		rose_node_column_words_of_datums(column->words, n, column->length);
	else if (column->is_numeric)
		take_numerics(quals, column, quals->nulls, n);
	rose_mask_clear(column->nulls, quals->n);
	for (int i = 0; i < n; i++)
		set_bit(column->nulls, column->picked[i], quals->nulls[i] ? 1 : 0);
	memcpy(column->made, needed, ROSE_MASK_WORDS(quals->n) * sizeof(uint64));
	column->npicked = n;
}

static bool
covers(const uint64 *made, const uint64 *needed, int n)
{
	uint64		beyond = 0;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		beyond |= needed[w] & ~made[w];
	return beyond == 0;
}

/* A column that is one, of the rows that are needed at least. */
static RoseNodeQualsColumn *
load_needed(RoseNodeQuals *quals, int number, const uint64 *needed)
{
	RoseNodeQualsColumn *column = &quals->columns[number];
	int			n;

	if (column->loaded || (column->npicked > 0 && covers(column->made, needed, quals->n)))
		return column;
	n = rose_mask_count(needed, quals->n);
	if (column->npicked > 0 || !rose_node_column_is_picked(n, quals->n, column->length))
		return rose_node_quals_column_load(quals, number);
	pick(quals, column, needed, n);
	return column;
}

/* ---- what is made of columns ---- */

static void
choose_rows(RoseNodeQuals *quals, const uint64 *needed)
{
	RoseNodeRows *rows = quals->chosen;

	rows->batch = quals->batch;
	rows->first = quals->first;
	rows->n = rose_mask_count(needed, quals->n);
	rows->all = rows->n == quals->n;
	if (!rows->all)
		(void) rose_mask_list(needed, quals->n, quals->first, rows->rows);
	rose_node_kernels_start(&quals->kernels, rows);
}

/* Values that were made one after the other go to where those of a column are. */
static void
place_values(const RoseNodeQuals *quals, RoseNodeQualsColumn *column)
{
	const RoseNodeRows *rows = quals->chosen;
	const RoseNodeKernel *kernel = column->kernel;

	rose_mask_clear(column->nulls, quals->n);
	if (rows->all)
	{
		memcpy(column->words, kernel->values, quals->n * sizeof(int64));
		if (kernel->any_null)
			rose_vec_mask_of_bools(kernel->nulls, quals->n, column->nulls);
		return;
	}
	for (int i = 0; i < rows->n; i++)
	{
		int			row = rows->rows[i] - rows->first;

		column->words[row] = kernel->values[i];
		if (kernel->any_null && kernel->nulls[i])
			column->nulls[row / ROSE_MASK_BITS] |= UINT64CONST(1) << (row % ROSE_MASK_BITS);
	}
}

/* For the rows that are needed, of which there is one; false: that may fail. */
static bool
make_values(RoseNodeQuals *quals, RoseNodeQualsColumn *column, const uint64 *needed)
{
	RoseNodeKernel *kernel = column->kernel;

	if (column->loaded && covers(column->made, needed, quals->n))
		return true;
	if (kernel->failures >= MAX_FAILURES)
		return false;
	choose_rows(quals, needed);
	if (!rose_node_kernel_run(&quals->kernels, kernel))
	{
		kernel->failures++;
		return false;
	}
	kernel->failures -= kernel->failures > 0;
	place_values(quals, column);
	column->is_decimal = kernel->is_decimal;
	column->decimals = kernel->decimals;
	memcpy(column->made, needed, ROSE_MASK_WORDS(quals->n) * sizeof(uint64));
	column->loaded = true;
	return true;
}

/* ---- which are left ---- */

/* Its values for the rows that are needed; NULL: that may fail. */
static RoseNodeQualsColumn *
values_of(RoseNodeQuals *quals, const RoseNodeFilter *filter, const uint64 *needed)
{
	RoseNodeQualsColumn *column = &quals->columns[filter->column];

	if (column->expr == NULL)
		return load_needed(quals, filter->column, needed);
	return make_values(quals, column, needed) ? column : NULL;
}

static const RoseWordSet *
set_alone(RoseNodeFilter *filter, const RoseNodeQualsColumn *column)
{
	return filter->kind == ROSE_WORDS_NUMERIC ? rose_node_filter_numeric_set(filter, column->decimals.scale) : &filter->set;
}

/* With what the joined ones leave, each a range or nothing; room: for a range. */
static RoseWordSet
set_of(RoseNodeFilter *filter, const RoseNodeQualsColumn *column, RoseWordRange *room)
{
	RoseWordSet set = *set_alone(filter, column);
	ListCell   *cell;

	foreach(cell, filter->joined)
	{
		const RoseWordSet *other = set_alone(lfirst(cell), column);
		RoseWordRange both = {0, -1};

		Assert(set.nranges <= 1 && other->nranges <= 1);
		if (set.nranges > 0 && other->nranges > 0)
		{
			both.low = Max(set.ranges[0].low, other->ranges[0].low);
			both.high = Min(set.ranges[0].high, other->ranges[0].high);
		}
		*room = both;
		set.nranges = both.low <= both.high ? 1 : 0;
		set.ranges = room;
	}
	return set;
}

static bool
numeric_is_left(const RoseNodeFilter *filter, Datum value)
{
	ListCell   *cell;

	foreach(cell, filter->joined)
	{
		if (!rose_node_filter_numeric_has(lfirst(cell), value))
			return false;
	}
	return rose_node_filter_numeric_has(filter, value);
}

/* Numerics that are no integers. */
static void
select_numerics(RoseNodeQuals *quals, const RoseNodeFilter *filter, const RoseNodeQualsColumn *column, uint64 *yes)
{
	MemoryContext old = MemoryContextSwitchTo(quals->econtext->ecxt_per_tuple_memory);
	int			n = column->npicked > 0 ? column->npicked : quals->n;

	for (int i = 0; i < n; i++)
	{
		int			row = column->npicked > 0 ? column->picked[i] : i;

		if (!rose_mask_has(column->nulls, row) && numeric_is_left(filter, (Datum) column->words[i]))
			set_bit(yes, row, 1);
	}
	MemoryContextSwitchTo(old);
}

/* Rows are left whose entry is. */
static void
select_codes(const RoseNodeQuals *quals, const RoseNodeQualsColumn *column, const RoseWordSet *set, const uint64 *needed, uint64 *yes)
{
	uint64		entries[ROSE_MASK_WORDS(ROSE_NODE_DECIMAL_ENTRIES)];

	rose_vec_select(column->entries, column->nentries, set, entries);
	if (rose_mask_count(needed, quals->n) * FEW_CODES >= quals->n)
	{
		rose_vec_select_codes(column->codes, quals->n, entries, column->nentries, yes);
		return;
	}
	for (int w = 0; w < ROSE_MASK_WORDS(quals->n); w++)
	{
		const uint16 *codes = column->codes + w * ROSE_MASK_BITS;
		uint64		bits = 0;

		for (uint64 left = needed[w]; left != 0; left &= left - 1)
		{
			uint64		bit = left & -left;

			bits |= rose_mask_has(entries, codes[pg_rightmost_one_pos64(left)]) ? bit : 0;
		}
		yes[w] = bits;
	}
}

/* Words in the order of the column; floats' go to quals->values. */
static const int64 *
words_in_order(RoseNodeQuals *quals, const RoseNodeFilter *filter, const RoseNodeQualsColumn *column, int n)
{
	int64	   *mapped = (int64 *) quals->values;

	if (filter->kind != ROSE_WORDS_FLOAT4 && filter->kind != ROSE_WORDS_FLOAT8)
		return column->words;
	memcpy(mapped, column->words, n * sizeof(int64));
	if (filter->kind == ROSE_WORDS_FLOAT4)
		rose_vec_float4_words(mapped, n);
	else
		rose_vec_float8_words(mapped, n);
	return mapped;
}

const RoseNodeQualsColumn *
rose_node_quals_column_select(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, uint64 *yes)
{
	const RoseNodeQualsColumn *column = values_of(quals, filter, needed);
	uint64		some[ROSE_NODE_QUALS_WORDS];
	RoseWordRange range;
	RoseWordSet set;

	if (column == NULL)
		return NULL;
	if (filter->kind == ROSE_WORDS_NUMERIC && !column->is_decimal)
	{
		select_numerics(quals, filter, column, yes);
		return column;
	}
	set = set_of(filter, column, &range);
	if (column->nentries > 0)
		select_codes(quals, column, &set, needed, yes);
	else if (column->npicked == 0)
		rose_vec_select(words_in_order(quals, filter, column, quals->n), quals->n, &set, yes);
	else
	{
		rose_vec_select(words_in_order(quals, filter, column, column->npicked), column->npicked, &set, some);
		for (int i = 0; i < column->npicked; i++)
			set_bit(yes, column->picked[i], rose_mask_has(some, i) ? 1 : 0);
	}
	return column;
}
