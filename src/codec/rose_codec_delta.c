/*-------------------------------------------------------------------------
 *
 * rose_codec_delta.c
 *	  Words as differences from their predecessor, with restart points.
 *
 * For values that grow unevenly: sorted keys, arrival times.  Every
 * RESTART_INTERVAL values an anchor holds the value itself, so that reading one
 * value adds up at most that many differences.
 *
 *		value i = anchor[i / 64] + the sum, over the values after the anchor
 *		up to i, of base + step * packed
 *
 * base is the smallest difference, step what all differences are multiples of
 * away from it: a million for timestamps of whole seconds.  The packed value at an anchor is 0 and unused.  A
 * value whose difference does not fit is a patch; the codec then goes on from
 * what it would have produced there, so that later values of the interval are
 * likely to be patches too, until the next anchor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "codec/rose_packed.h"

#define RESTART_INTERVAL	64

static inline int
anchor_count(int n)
{
	return (n + RESTART_INTERVAL - 1) / RESTART_INTERVAL;
}

/*
 * The packed form of value i, which follows plan->last; false if it is a patch.
 * Moves plan->last on.
 */
static inline bool
delta_step(RosePlan *plan, const RoseDivisor *divisor, uint64 mask, int64 value, int i,
		   uint64 *packed)
{
	*packed = 0;
	if (i % RESTART_INTERVAL == 0)
	{
		plan->last = value;
		return true;
	}
	plan->last = rose_wrap_add(plan->last, plan->base);
	*packed = rose_divide(divisor, (uint64) rose_wrap_sub(value, plan->last));
	if (*packed > mask || *packed > divisor->limit)
	{
		*packed = 0;
		return false;
	}
	plan->last = value;
	return true;
}

static inline int
delta_flags(const RosePlan *plan)
{
	return plan->step == 1 ? 0 : ROSE_PACKED_STEP;
}

/* Note the bounds of the differences in front of values [from, n), from > 0. */
static void
note_differences(const int64 *words, RosePlan *plan, int from, int n)
{
	int64		low = plan->low;
	int64		high = plan->high;
	int			noverflows = 0;
	int			i;

	for (i = from; i < n; i++)
	{
		int64		delta = rose_wrap_sub(words[i], words[i - 1]);

		/* a difference that overflows has the wrong sign */
		noverflows += (delta < 0) != (words[i] < words[i - 1]);
		low = Min(low, delta);
		high = Max(high, delta);
	}
	plan->low = low;
	plan->high = high;
	plan->nodd += noverflows;
}

/* How many of them are no multiple of the step away from the base? */
static int
count_odd(const int64 *words, const RosePlan *plan, int from, int n)
{
	RoseDivisor divisor;
	uint64		base = (uint64) plan->base;
	int			nodd = 0;
	int			i;

	rose_divisor_init(&divisor, plan->step);
	for (i = from; i < n; i++)
	{
		uint64		delta = (uint64) words[i] - (uint64) words[i - 1];
		uint64		distance = (int64) delta < plan->base ? base - delta : delta - base;

		nodd += rose_divide(&divisor, distance) > divisor.limit;
	}
	return nodd;
}

/*
 * Do the differences in front of values [from, n) all fit?  That of an anchor counts
 * too, which does no harm but for a wider frame.
 */
static bool
all_fit(const RoseColumnBuffer *col, RosePlan *plan, int from, int n)
{
	const int64 *words = col->words;

	note_differences(words, plan, Max(from, 1), n);
	if (plan->step != 1)
		plan->nodd += count_odd(words, plan, Max(from, 1), n);
	return from > 0 && plan->last == words[from - 1] && plan->nodd == 0 &&
		plan->low >= plan->base &&
		(uint64) rose_wrap_sub(plan->high, plan->base) / (uint64) plan->step <=
		rose_width_mask(plan->width);
}

static void
count_patches(const RoseColumnBuffer *col, RosePlan *plan, int from, int n)
{
	RoseDivisor divisor;
	uint64		mask = rose_width_mask(plan->width);
	uint64		packed;
	int			i;

	rose_divisor_init(&divisor, plan->step);
	for (i = from; i < n; i++)
		plan->npatches += !delta_step(plan, &divisor, mask, col->words[i], i, &packed);
}

/*
 * Once a difference was no multiple of the step or overflowed (nodd), the frame is
 * left as it is.
 */
static bool
delta_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	int			nanchors = anchor_count(n);

	if (all_fit(col, plan, plan->n, n))
		plan->last = col->words[n - 1];
	else
		count_patches(col, plan, plan->n, n);
	plan->n = n;
	rose_packed_resize(plan, nanchors, col->desc.attlen);
	if (plan->npatches > 0 && plan->nodd == 0)
	{
		rose_packed_widen(plan, delta_flags(plan), (uint64) plan->step, nanchors,
						  col->desc.attlen);
		if (plan->npatches == 0)
			plan->last = col->words[n - 1];
	}
	return true;
}

static bool
delta_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart_plan(plan, learned);
	rose_packed_finish_plan(plan, delta_flags(plan), col->desc.attlen);
	return delta_extend(col, plan, col->nvalues);
}

/* Fix the width and find what the values then take. */
static void
plan_width(RoseColumnBuffer *col, RosePlan *plan, int width)
{
	plan->width = width;
	plan->npatches = 0;
	plan->last = 0;
	rose_packed_finish_plan(plan, delta_flags(plan), col->desc.attlen);
	count_patches(col, plan, 0, col->nvalues);
	rose_packed_resize(plan, anchor_count(plan->n), col->desc.attlen);
}

/* The greatest step that all differences are multiples of away from the smallest. */
static uint64
find_step(const RoseColumnBuffer *col, int64 min_delta)
{
	uint64		step = 0;
	int			i;

	for (i = 1; i < col->nvalues && step != 1; i++)
	{
		uint64		offset = (uint64) (col->words[i] - col->words[i - 1]) - (uint64) min_delta;

		if (step == 0 || offset % step != 0)
			step = rose_packed_gcd(offset, step);
	}
	return step == 0 || step > (uint64) PG_INT64_MAX ? 1 : step;
}

/*
 * The width that all but a few differences fit.  A jump costs half an interval of
 * patches, so very few are allowed.
 */
static int
common_width(const RoseColumnBuffer *col, const RosePlan *plan)
{
	RoseWidthHistogram histogram;
	int			width = plan->width;
	int			nwider = 0;
	int			i;

	memset(&histogram, 0, sizeof(histogram));
	for (i = 1; i < col->nvalues; i++)
	{
		uint64		offset = (uint64) (col->words[i] - col->words[i - 1]) - (uint64) plan->base;

		histogram.count[rose_bits_needed(offset / (uint64) plan->step)]++;
	}
	for (; width > 0; width--)
	{
		nwider += histogram.count[width];
		if (nwider > col->nvalues / 256)
			break;
	}
	return width;
}

static bool
delta_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	const RoseWordStats *stats = &request->stats;
	RosePlan	narrow;
	uint64		range;
	int			width;

	/* not worth a pass unless it can beat what there is */
	if (col->nvalues < 4 || stats->nruns < 3 || !stats->deltas_fit ||
		anchor_count(col->nvalues) * col->desc.attlen >= request->best_size)
		return false;

	range = (uint64) rose_wrap_sub(stats->max_delta, stats->min_delta);
	plan->base = plan->low = stats->min_delta;
	plan->high = stats->max_delta;
	plan->nodd = 0;
	plan->step = (int64) find_step(col, plan->base);
	plan_width(col, plan, rose_bits_needed(range / (uint64) plan->step));

	width = common_width(col, plan);
	if (width < plan->width)
	{
		narrow = *plan;
		plan_width(col, &narrow, width);
		if (narrow.size < plan->size)
			*plan = narrow;
	}
	return true;
}

/* Packed values where none is a patch. */
static void
pack_all(const RoseColumnBuffer *col, const RosePlan *plan, const RoseDivisor *divisor)
{
	const int64 *words = col->words;
	uint64	   *packed = col->scratch->packed;
	uint64		base = (uint64) plan->base;
	int			i;

	if (plan->step == 1)
	{
		for (i = 1; i < plan->n; i++)
			packed[i] = (uint64) words[i] - (uint64) words[i - 1] - base;
	}
	else
	{
		for (i = 1; i < plan->n; i++)
			packed[i] = rose_divide(divisor, (uint64) words[i] - (uint64) words[i - 1] - base);
	}
	for (i = 0; i < plan->n; i += RESTART_INTERVAL)
		packed[i] = 0;
}

static char *
delta_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	RosePackScratch *scratch = col->scratch;
	RosePlan	state = *plan;
	RoseDivisor divisor;
	uint64		mask = rose_width_mask(plan->width);
	int			npatches = 0;
	int			i;

	for (i = 0; i < plan->n; i += RESTART_INTERVAL)
		scratch->words[i / RESTART_INTERVAL] = col->words[i];
	rose_divisor_init(&divisor, plan->step);
	if (plan->npatches == 0)
		pack_all(col, plan, &divisor);
	else
	{
		for (i = 0; i < plan->n; i++)
		{
			if (delta_step(&state, &divisor, mask, col->words[i], i, &scratch->packed[i]))
				continue;
			scratch->patches[npatches].position = i;
			scratch->patches[npatches++].value = col->words[i];
		}
	}
	return rose_packed_write(col, plan, delta_flags(plan), scratch->words, anchor_count(plan->n),
							 npatches, out);
}

static const char *
delta_open(RoseSegment *seg)
{
	return rose_packed_open(seg, anchor_count(seg->n));
}

static inline int64
anchor_at(const RoseSegment *seg, int k)
{
	int			size = seg->desc->attlen;

	return rose_word_load(seg->packed.anchors + (Size) k * size, size);
}

static inline int64
delta_unpatched(const RoseSegment *seg, int i)
{
	const RosePackedWords *packed = &seg->packed;
	int			after = i % RESTART_INTERVAL;
	uint64		sum = rose_bitpack_sum(packed->bits, packed->width, i - after + 1, after);

	return rose_wrap_add(anchor_at(seg, i / RESTART_INTERVAL),
						 rose_wrap_add(rose_wrap_mul(packed->base, after),
									   rose_wrap_mul(packed->step, (int64) sum)));
}

static int64
delta_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return delta_unpatched(seg, i);
}

static void
delta_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	const RosePackedWords *packed = &seg->packed;
	int64		last;
	int			i;

	if (n == 0)
		return;
	last = delta_unpatched(seg, from);
	rose_bitpack_read(packed->bits, packed->width, from, n, (uint64 *) values);
	values[0] = last;
	for (i = 1; i < n; i++)
	{
		if ((from + i) % RESTART_INTERVAL == 0)
			last = anchor_at(seg, (from + i) / RESTART_INTERVAL);
		else
			last = rose_wrap_add(last, rose_wrap_add(packed->base,
													 rose_wrap_mul(packed->step, values[i])));
		values[i] = last;
	}
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

/* Value i, given the one before it. */
static inline int64
delta_after(const RoseSegment *seg, int64 before, int i)
{
	const RosePackedWords *packed = &seg->packed;
	int64		offset;

	if (i % RESTART_INTERVAL == 0)
		return anchor_at(seg, i / RESTART_INTERVAL);
	offset = (int64) rose_bitpack_get(packed->bits, packed->width, i);
	return rose_wrap_add(before, rose_wrap_add(packed->base,
											   rose_wrap_mul(packed->step, offset)));
}

static int
delta_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	if (seg->patches.n > 0)
		return rose_codec_lower_bound(seg, lo, hi, value);

	/* narrow to one interval by the anchors that lie inside the range */
	while (hi - lo > 1)
	{
		int			first = lo / RESTART_INTERVAL + 1;
		int			last = (hi - 1) / RESTART_INTERVAL;
		int			mid = first + (last - first) / 2;

		if (first > last)
			break;
		if (anchor_at(seg, mid) < value)
			lo = mid * RESTART_INTERVAL;
		else
			hi = mid * RESTART_INTERVAL;
	}
	if (lo < hi)
	{
		int64		stored = delta_unpatched(seg, lo);

		while (stored < value && ++lo < hi)
			stored = delta_after(seg, stored, lo);
	}
	return lo;
}

const RoseCodec rose_codec_delta = {
	.id = ROSE_CODEC_DELTA,
	.name = "delta",
	.handicap = 2,
	.plan = delta_plan,
	.extend = delta_extend,
	.follow = delta_follow,
	.pack = delta_pack,
	.open = delta_open,
	.get = delta_get,
	.decode = delta_decode,
	.lower_bound = delta_lower_bound,
	.check = rose_packed_check,
};
