/*-------------------------------------------------------------------------
 *
 * rose_wordset.c
 *	  Sets of signed 64-bit words, as ranges.  See rose_wordset.h.
 *
 * Pure functions; no locks and no allocation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_wordset.h"

static int
compare_lows(const void *a, const void *b)
{
	int64		left = ((const RoseWordRange *) a)->low;
	int64		right = ((const RoseWordRange *) b)->low;

	return left < right ? -1 : left > right;
}

void
rose_wordset_make(RoseWordSet *set, RoseWordRange *ranges, int nranges)
{
	int			n = 0;

	qsort(ranges, nranges, sizeof(RoseWordRange), compare_lows);
	for (int i = 0; i < nranges; i++)
	{
		RoseWordRange *last = n > 0 ? &ranges[n - 1] : NULL;

		Assert(ranges[i].low <= ranges[i].high);
		if (last != NULL &&
			(last->high == PG_INT64_MAX || ranges[i].low <= last->high + 1))
			last->high = Max(last->high, ranges[i].high);
		else
			ranges[n++] = ranges[i];
	}
	set->nranges = n;
	set->ranges = ranges;
}

void
rose_wordset_complement(const RoseWordSet *set, RoseWordRange *ranges, RoseWordSet *result)
{
	int64		low = PG_INT64_MIN;
	bool		more = true;
	int			n = 0;

	for (int i = 0; i < set->nranges; i++)
	{
		const RoseWordRange *range = &set->ranges[i];

		if (range->low > low)
			ranges[n++] = (RoseWordRange) {low, range->low - 1};
		more = range->high < PG_INT64_MAX;
		if (more)
			low = range->high + 1;
	}
	if (more)
		ranges[n++] = (RoseWordRange) {low, PG_INT64_MAX};
	result->nranges = n;
	result->ranges = ranges;
}

bool
rose_wordset_has(const RoseWordSet *set, int64 word)
{
	int			from = 0;
	int			to = set->nranges;

	/* the last range that does not begin behind the word is in [from - 1, to) */
	while (from < to)
	{
		int			middle = from + (to - from) / 2;

		if (set->ranges[middle].low <= word)
			from = middle + 1;
		else
			to = middle;
	}
	return from > 0 && word <= set->ranges[from - 1].high;
}
