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
#include "vector/rose_vec_kernels.h"

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

int
main(void)
{
	test_sets();
	test_masks();
	test_parts();
	test_floats();
	return 0;
}
