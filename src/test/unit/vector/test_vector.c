/*-------------------------------------------------------------------------
 *
 * test_vector.c
 *	  Sets of words and loops over arrays, against one value at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "unit_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/rose_mask.h"
#include "util/rose_wordset.h"
#include "vector/rose_vec_agg.h"
#include "vector/rose_vec_kernels.h"

#include "vector_unit.h"

#define MAX_ROWS	130
#define MAX_RANGES	12

static uint64 seed = 1;

static uint64
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Small ones, which meet often, and the ends. */
static int64
draw_word(void)
{
	switch (draw() % 8)
	{
		case 0:
			return PG_INT64_MIN + (int64) (draw() % 3);
		case 1:
			return PG_INT64_MAX - (int64) (draw() % 3);
		case 2:
			return (int64) draw();
		default:
			return (int64) (draw() % 60) - 30;
	}
}

static bool
in_ranges(const RoseWordRange *ranges, int n, int64 word)
{
	for (int i = 0; i < n; i++)
	{
		if (ranges[i].low <= word && word <= ranges[i].high)
			return true;
	}
	return false;
}

static int
draw_ranges(RoseWordRange *ranges)
{
	int			n = (int) (draw() % (MAX_RANGES + 1));

	for (int i = 0; i < n; i++)
	{
		int64		a = draw_word();
		int64		b = draw() % 2 == 0 ? a : draw_word();

		ranges[i].low = Min(a, b);
		ranges[i].high = Max(a, b);
	}
	return n;
}

static void
check_set(const RoseWordSet *set)
{
	for (int i = 0; i < set->nranges; i++)
	{
		CHECK(set->ranges[i].low <= set->ranges[i].high);
		CHECK(i == 0 || set->ranges[i - 1].high < set->ranges[i].low - 1);
	}
}

static void
test_sets(void)
{
	for (int round = 0; round < 20000; round++)
	{
		RoseWordRange given[MAX_RANGES];
		RoseWordRange ranges[MAX_RANGES];
		RoseWordRange others[MAX_RANGES + 1];
		int64		x[MAX_ROWS + 3];
		uint64		mask[ROSE_MASK_WORDS(MAX_ROWS)];
		RoseWordSet set;
		RoseWordSet rest;
		int			ngiven = draw_ranges(given);
		int			n = round % (MAX_ROWS + 1);
		int			offset = (int) (draw() % 4);
		int			count = 0;

		memcpy(ranges, given, sizeof(given));
		rose_wordset_make(&set, ranges, ngiven);
		rose_wordset_complement(&set, others, &rest);
		check_set(&set);
		check_set(&rest);
		for (int i = 0; i < n; i++)
			x[offset + i] = draw_word();
		rose_vec_select(x + offset, n, &set, mask);
		for (int i = 0; i < n; i++)
		{
			bool		in = in_ranges(given, ngiven, x[offset + i]);

			CHECK_AT(rose_wordset_has(&set, x[offset + i]) == in, " round %d\n", round);
			CHECK_AT(rose_wordset_has(&rest, x[offset + i]) != in, " round %d\n", round);
			CHECK_AT(rose_mask_has(mask, i) == in, " round %d\n", round);
			count += in;
		}
		CHECK(rose_mask_count(mask, n) == count);	/* none behind the last row */
		CHECK(rose_mask_is_empty(mask, n) == (count == 0));
	}
}

static void
test_masks(void)
{
	for (int n = 0; n <= MAX_ROWS; n++)
	{
		bool		bools[MAX_ROWS];
		uint64		mask[ROSE_MASK_WORDS(MAX_ROWS)];

		for (int i = 0; i < n; i++)
			bools[i] = draw() % 2 == 0;
		rose_vec_mask_of_bools(bools, n, mask);
		for (int i = 0; i < n; i++)
			CHECK(rose_mask_has(mask, i) == bools[i]);
		rose_mask_fill(mask, n);
		CHECK(rose_mask_count(mask, n) == n);
		rose_mask_clear(mask, n);
		CHECK(rose_mask_is_empty(mask, n));
	}
}

/* Rows whose entry of a dictionary is selected. */
static void
test_codes(void)
{
	for (int n = 0; n <= MAX_ROWS; n++)
	{
		int			nentries = 1 + (int) (draw() % (n % 7 == 0 ? ROSE_VEC_MAX_ENTRIES : 20));
		uint64		entries[ROSE_MASK_WORDS(ROSE_VEC_MAX_ENTRIES)];
		bool		selected[ROSE_VEC_MAX_ENTRIES];
		uint16		codes[MAX_ROWS];
		uint64		mask[ROSE_MASK_WORDS(MAX_ROWS)];
		int			count = 0;

		for (int i = 0; i < nentries; i++)
			selected[i] = draw() % 3 == 0;
		rose_vec_mask_of_bools(selected, nentries, entries);
		for (int i = 0; i < n; i++)
			codes[i] = (uint16) (draw() % nentries);
		rose_vec_select_codes(codes, n, entries, nentries, mask);
		for (int i = 0; i < n; i++)
		{
			CHECK_AT(rose_mask_has(mask, i) == selected[codes[i]], " %d rows\n", n);
			count += selected[codes[i]];
		}
		CHECK(rose_mask_count(mask, n) == count);
	}
}

/* Parts of a mask, and of rows that all take part, and the rows' numbers. */
static void
test_parts(void)
{
	bool		bools[MAX_ROWS];
	uint64		all[ROSE_MASK_WORDS(MAX_ROWS)];

	for (int i = 0; i < MAX_ROWS; i++)
		bools[i] = draw() % 3 == 0;
	for (int nrows = 1; nrows <= MAX_ROWS; nrows++)
	{
		rose_vec_mask_of_bools(bools, nrows, all);
		for (int first = 0; first < nrows; first++)
		{
			int			n = 1 + (int) (draw() % (uint64) (nrows - first));
			uint64		part[ROSE_MASK_WORDS(MAX_ROWS)];
			uint16		rows[MAX_ROWS];
			int			count = rose_mask_part(all, nrows, first, n, part);
			int			seen = 0;

			CHECK(rose_mask_list(part, n, first, rows) == count);
			for (int i = 0; i < n; i++)
			{
				CHECK(rose_mask_has(part, i) == bools[first + i]);
				if (bools[first + i])
					CHECK(rows[seen++] == first + i);
			}
			CHECK(seen == count);
			CHECK(rose_mask_part(NULL, nrows, first, n, part) == n);
			CHECK(rose_mask_count(part, n) == n);
		}
	}
}

/* PostgreSQL's order. */
static int
compare_floats(double a, double b)
{
	if (isnan(a))
		return isnan(b) ? 0 : 1;
	if (isnan(b))
		return -1;
	return a < b ? -1 : a > b;
}

static const double floats[] = {-INFINITY, -1e300, -1.5, -1e-310, -0.0, 0.0, 1e-310, 1.0, 1.5, 1e300,
INFINITY, NAN, -NAN, 0.1, -0.1};

static void
test_floats(void)
{
	int			n = lengthof(floats);
	int64		words[lengthof(floats)];
	int64		halves[lengthof(floats)];

	for (int i = 0; i < n; i++)
	{
		float		narrow = (float) floats[i];
		int32		bits;

		memcpy(&words[i], &floats[i], sizeof(double));
		memcpy(&bits, &narrow, sizeof(float));
		halves[i] = bits;
	}
	rose_vec_float8_words(words, n);
	rose_vec_float4_words(halves, n);
	for (int i = 0; i < n; i++)
	{
		CHECK(words[i] == rose_vec_float8_word(floats[i]));
		CHECK(halves[i] == rose_vec_float8_word((double) (float) floats[i]));
		for (int j = 0; j < n; j++)
		{
			int			order = compare_floats(floats[i], floats[j]);

			if (floats[i] == 0 && floats[j] == 0)
				continue;
			CHECK_AT((order < 0) == (words[i] < words[j]), " %d %d\n", i, j);
			CHECK_AT((order == 0) == (words[i] == words[j]), " %d %d\n", i, j);
		}
	}
	CHECK(rose_vec_float8_word(-0.0) == -1 && rose_vec_float8_word(0.0) == 0);
}

/* Each loop against one value at a time, of every length and from every place. */
static void
check_aggregates(const int64 *x, int n)
{
	uint64		sum = 0;
	int128		wide = 0;
	int64		min = PG_INT64_MAX;
	int64		max = PG_INT64_MIN;
	int64		all = -1;
	int64		any = 0;
	int64		high;
	int64		low;

	for (int i = 0; i < n; i++)
	{
		sum += (uint64) x[i];
		wide += x[i];
		min = Min(min, x[i]);
		max = Max(max, x[i]);
		all &= x[i];
		any |= x[i];
	}
	rose_vec_sum_parts(x, n, &high, &low);
	CHECK_AT(rose_vec_sum(x, n) == (int64) sum, " %d\n", n);
	CHECK_AT((int128) high * (INT64CONST(1) << 32) + low == wide, " %d\n", n);
	CHECK_AT(rose_vec_min(x, n) == min && rose_vec_max(x, n) == max, " %d\n", n);
	CHECK_AT(rose_vec_and(x, n) == all && rose_vec_or(x, n) == any, " %d\n", n);
}

static void
check_kept(const int64 *x, int n)
{
	int64		kept[MAX_ROWS];
	int64		picked[MAX_ROWS];
	bool		nulls[MAX_ROWS];
	uint16		rows[MAX_ROWS];
	int			nrows = 0;
	int			at = 0;

	for (int i = 0; i < n; i++)
	{
		nulls[i] = draw() % 3 == 0;
		if (draw() % 2 == 0)
			rows[nrows++] = (uint16) (i + 40);
	}
	memcpy(kept, x, n * sizeof(int64));
	memcpy(picked, x, n * sizeof(int64));
	CHECK(rose_vec_keep_rows(picked, nulls, rows, 40, nrows) <= nrows);
	for (int i = 0; i < nrows; i++)
	{
		if (!nulls[rows[i] - 40])
			CHECK_AT(picked[at++] == x[rows[i] - 40], " %d\n", i);
	}
	nrows = rose_vec_keep(kept, nulls, n);
	at = 0;
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			CHECK_AT(kept[at++] == x[i], " %d\n", i);
	}
	CHECK_AT(at == nrows, " %d %d\n", at, nrows);
}

static void
test_aggregates(void)
{
	int64		x[MAX_ROWS];

	for (int round = 0; round < 200; round++)
	{
		int			n = (int) (draw() % MAX_ROWS);
		int			first = n > 0 ? (int) (draw() % n) : 0;

		for (int i = 0; i < n; i++)
			x[i] = draw_word();
		check_aggregates(x + first, n - first);
		check_kept(x, n);
	}
	for (int i = 0; i < MAX_ROWS; i++)
		x[i] = i % 2 == 0 ? PG_INT64_MAX : PG_INT64_MIN;
	check_aggregates(x, MAX_ROWS);
	for (int i = 0; i < MAX_ROWS; i++)
		x[i] = PG_INT64_MIN;
	check_aggregates(x, MAX_ROWS);
}

int
main(void)
{
	test_sets();
	test_masks();
	test_codes();
	test_parts();
	test_floats();
	test_aggregates();
	test_expr();
	test_groups();
	return 0;
}
