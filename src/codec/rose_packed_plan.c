/*-------------------------------------------------------------------------
 *
 * rose_packed_plan.c
 *	  Two frames of reference: choosing their parameters, and following values.
 *
 * Format and terms are in rose_packed.h; what a plan promises is in rose_codec.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

/* Values looked at to guess outliers. */
#define SAMPLE_SIZE		33

/* Bits that a position takes besides its place in the bucket, on average. */
#define POSITION_EXTRA_BITS	3

/* Values looked at to choose a width, at least; all if they are not twice as many. */
#define WIDTH_SAMPLE_SIZE	1024

/* position_shift, wide_width and a count of 65535 at most */
#define WIDE_HEADER		(1 + 1 + 3)

/* Values followed at a time, so that they stay in the processor's nearest cache. */
#define BLOCK_SIZE		1024

/* ---- Size ---- */

static inline void
resize(RosePlan *plan)
{
	plan->size = plan->header + (int) rose_bitpack_size(plan->n, plan->width) +
		rose_patches_size(plan->npatches, plan->patch_size);
	if (plan->anchors.interval > 0)
	{
		plan->size += rose_anchors_size(&plan->anchors, plan->n);
		plan->spare = rose_anchors_before_next(&plan->anchors, plan->n);
	}
	plan->unusual_bits = rose_patch_further_bits(plan->npatches, plan->patch_size);
	if (plan->nwide > 0)
		plan->unusual_bits = Max(plan->unusual_bits, plan->position_shift + plan->wide_width);
	if (plan->nwide > 0)
		plan->size += WIDE_HEADER + rose_varint_size(rose_zigzag_encode(plan->wide_base)) +
			rose_positions_size(plan->n, plan->nwide, plan->position_shift) +
			(int) rose_bitpack_size(plan->nwide, plan->wide_width);
}

/* The parameters are set: what follows from them. */
static void
finish_parameters(RosePlan *plan)
{
	plan->header = 2 + rose_varint_size(rose_zigzag_encode(plan->base));
	if (plan->step != 1)
		plan->header += rose_varint_size((uint64) plan->step);
	if (plan->flags & ROSE_PACKED_SLOPE)
		plan->header += rose_varint_size(rose_zigzag_encode(plan->slope));
	if (plan->flags & ROSE_PACKED_EXPONENT)
		plan->header++;

	/* bytes more where packed values are rounded up to whole bytes */
	plan->value_bits = rose_patch_bits(plan->patch_size);
	if (plan->nwide > 0)
		plan->value_bits = Max(plan->value_bits, plan->position_shift + plan->wide_width + 16) +
			1 + 16;
	plan->value_bits += plan->width + 8;
	plan->spare = PG_INT32_MAX;
	plan->usual_base = plan->base;
	plan->usual_top = rose_width_mask(plan->width);
	plan->usual_bits = plan->width;
	plan->usual_slack = 8;
	if (plan->nwide > 0)
	{
		/* the directory of their positions grows with all values; two more are rounded up */
		plan->usual_bits++;
		plan->usual_slack += 16 + 2 * 8;
	}
	resize(plan);
}


/* ---- Choosing parameters ---- */

static void follow(RosePlan *plan, const int64 *x, int n);
static void widen(RosePlan *plan);

void
rose_packed_begin(RosePlan *plan, const RoseColumnBuffer *col, int patch_size)
{
	plan->word_size = col->desc.attlen;
	plan->patch_size = patch_size;
	plan->step = 1;
	rose_divisor_init(&plan->divisor, 1);
	plan->n = 0;
	plan->low = plan->wide_low = PG_INT64_MAX;
	plan->high = plan->wide_high = PG_INT64_MIN;
	rose_anchors_restart(&plan->anchors);
}

/* The largest step that all are multiples of away from the lowest. */
static int64
find_step(const int64 *x, int n, int64 low)
{
	RoseDivisor divisor = {0};
	uint64		step = 0;
	int			i;

	for (i = 0; i < n && step != 1; i++)
	{
		uint64		offset = (uint64) x[i] - (uint64) low;

		if (offset == 0 || (divisor.limit > 0 && rose_divide(&divisor, offset) <= divisor.limit))
			continue;
		step = rose_greatest_common_divisor(offset, step);
		if (step <= (uint64) PG_INT64_MAX)
			rose_divisor_init(&divisor, (int64) step);
	}
	/* the step is a signed number */
	return step == 0 || step > (uint64) PG_INT64_MAX ? 1 : (int64) step;
}

/*
 * A base that leaves low outliers out of the frame, judged by the quartiles of
 * a sample.  False if there are none.  High outliers need no such care.
 */
static bool
base_above_outliers(const int64 *x, int n, int64 low, int64 *base)
{
	int64		sample[SAMPLE_SIZE];
	int64		threshold;
	uint64		spread;
	int			i;
	int			k;

	for (i = 0; i < SAMPLE_SIZE; i++)
	{
		int64		value = x[(Size) i * (n - 1) / (SAMPLE_SIZE - 1)];

		for (k = i; k > 0 && sample[k - 1] > value; k--)
			sample[k] = sample[k - 1];
		sample[k] = value;
	}
	if (sample[SAMPLE_SIZE / 4] == ROSE_PACKED_NOT_DECIMAL)
		return false;

	spread = (uint64) rose_wrap_sub(sample[3 * SAMPLE_SIZE / 4], sample[SAMPLE_SIZE / 4]);
	spread = spread > PG_UINT64_MAX / 4 ? PG_UINT64_MAX : spread * 4;
	if ((uint64) rose_wrap_sub(sample[SAMPLE_SIZE / 4], low) <= spread)
		return false;
	threshold = rose_wrap_sub(sample[SAMPLE_SIZE / 4], (int64) spread);

	*base = sample[SAMPLE_SIZE / 4];
	for (i = 0; i < n; i++)
	{
		if (x[i] >= threshold && x[i] < *base)
			*base = x[i];
	}
	return true;
}

/*
 * The width that is cheapest for this base when all wider ones are wide, by a sample if
 * there are many values; what it costs in bits goes to *cost.
 */
static int
choose_width(const RosePlan *plan, const int64 *x, int n, int64 base, int64 *cost)
{
	int			count[65] = {0};
	int			wide_bits =
		rose_bits_needed((uint64) rose_wrap_sub(plan->high, plan->low) / (uint64) plan->step);
	int			best = 64;
	int			nwider = 0;
	int			nsampled = 0;
	int			stride = n / WIDTH_SAMPLE_SIZE + 1;
	int			width;
	int			i;

	/* odd, because data has periods that are even more often than not */
	stride += stride % 2 == 0;
	for (i = 0; i < n; i += stride, nsampled++)
		count[rose_bits_needed(rose_divide(&plan->divisor, (uint64) x[i] - (uint64) base))]++;
	*cost = PG_INT64_MAX;
	for (width = 64; width >= 0; width--)
	{
		int64		bits = (int64) nsampled * width;

		if (nwider > 0)
			bits += (int64) nwider *
				(wide_bits + rose_positions_shift(nsampled, nwider) + POSITION_EXTRA_BITS);
		/* on a tie take the wider: fewer exceptions read faster */
		if (bits < *cost)
		{
			*cost = bits;
			best = width;
		}
		nwider += count[width];
	}
	return best;
}

/* Base and width are set: give the wide ones a frame that holds all of them, and count. */
static void
fit_wide(RosePlan *plan, const int64 *x, int n)
{
	RosePlan	state = *plan;

	/* without a second frame all of them become patches, which tells their bounds */
	state.wide_width = 0;
	state.nwide = state.npatches = state.nodd = 0;
	state.n = 0;
	finish_parameters(&state);
	follow(&state, x, n);
	widen(&state);
	*plan = state;
}

void
rose_packed_fit(RosePlan *plan, const int64 *x, int n, bool with_step)
{
	int64		low = PG_INT64_MAX;
	int64		high = PG_INT64_MIN;
	int64		base;
	int64		cost;
	int64		other_cost;
	int			i;

	if (plan->flags & ROSE_PACKED_EXPONENT)
	{
		for (i = 0; i < n; i++)
		{
			if (x[i] == ROSE_PACKED_NOT_DECIMAL)
				continue;
			low = Min(low, x[i]);
			high = Max(high, x[i]);
		}
	}
	else
		rose_kernel_bounds(x, n, &low, &high);
	if (low > high)
		low = high = 0;
	plan->low = low;
	plan->high = high;
	plan->base = low;
	plan->step = with_step ? find_step(x, n, low) : 1;
	rose_divisor_init(&plan->divisor, plan->step);
	plan->width = rose_bits_needed((uint64) rose_wrap_sub(high, low) / (uint64) plan->step);
	if (plan->width > 0)
	{
		plan->width = choose_width(plan, x, n, low, &cost);
		if (base_above_outliers(x, n, low, &base))
		{
			int			width = choose_width(plan, x, n, base, &other_cost);

			if (other_cost < cost)
			{
				plan->base = base;
				plan->width = width;
			}
		}
	}
	fit_wide(plan, x, n);
}

void
rose_packed_restart(RosePlan *plan, const RosePlan *learned, int64 base)
{
	const RoseCodec *codec = plan->codec;

	*plan = *learned;
	plan->codec = codec;
	plan->n = 0;
	plan->base = base;
	plan->npatches = plan->nodd = plan->nwide = 0;
	plan->low = plan->wide_low = PG_INT64_MAX;
	plan->high = plan->wide_high = PG_INT64_MIN;
	rose_anchors_restart(&plan->anchors);
	finish_parameters(plan);
}


/* ---- Following ---- */

/* What the frame does not hold. */
static void
follow_outside(RosePlan *plan, int64 x)
{
	if (rose_packed_is_odd(plan, x))
	{
		plan->nodd++;
		plan->npatches++;
		return;
	}
	plan->low = Min(plan->low, x);
	plan->high = Max(plan->high, x);
	plan->wide_low = Min(plan->wide_low, x);
	plan->wide_high = Max(plan->wide_high, x);
	/* the first ones are patches, until a second frame pays */
	if (plan->nwide > 0 &&
		rose_divide(&plan->divisor, (uint64) x - (uint64) plan->wide_base) <=
		Min(rose_width_mask(plan->wide_width), plan->divisor.limit))
		plan->nwide++;
	else
		plan->npatches++;
}

static void
follow_each(RosePlan *plan, const int64 *x, int n)
{
	RoseDivisor divisor = plan->divisor;
	uint64		base = (uint64) plan->base;
	uint64		top = Min(rose_width_mask(plan->width), divisor.limit);
	int64		low = plan->low;
	int64		high = plan->high;
	int			i;

	for (i = 0; i < n; i++)
	{
		/* below the base a quotient may be that of a wrapped offset */
		if (unlikely(rose_divide(&divisor, (uint64) x[i] - base) > top ||
					 (x[i] < plan->base && plan->step != 1)))
		{
			follow_outside(plan, x[i]);
			continue;
		}
		low = Min(low, x[i]);
		high = Max(high, x[i]);
	}
	plan->low = Min(plan->low, low);
	plan->high = Max(plan->high, high);
}

/* Do all lie in the frame?  Then that is all there is to know. */
static inline bool
all_inside(RosePlan *plan, const int64 *x, int n)
{
	int64		low = PG_INT64_MAX;
	int64		high = PG_INT64_MIN;

	rose_kernel_bounds(x, n, &low, &high);
	if (n > 0 && (low < plan->base ||
				  (uint64) rose_wrap_sub(high, plan->base) / (uint64) plan->step >
				  rose_width_mask(plan->width)))
		return false;
	if (plan->step != 1 &&
		!rose_kernel_multiples(x, n, plan->base, &plan->divisor))
		return false;
	plan->low = Min(plan->low, low);
	plan->high = Max(plan->high, high);
	return true;
}

/* Follow x[plan->n .. plan->n + n), of which x points to the first; the size comes later. */
static void
follow(RosePlan *plan, const int64 *x, int n)
{
	while (n > 0)
	{
		int			m = Min(n, BLOCK_SIZE);

		if (!all_inside(plan, x, m))
			follow_each(plan, x, m);
		plan->n += m;
		x += m;
		n -= m;
	}
}

/* One frame for all values. */
static void
widen_frame(const RosePlan *plan, RosePlan *wide)
{
	*wide = *plan;
	wide->base = plan->low;
	wide->width = rose_bits_needed((uint64) rose_wrap_sub(plan->high, plan->low) /
								   (uint64) plan->step);
	wide->nwide = 0;
	wide->wide_width = 0;
	wide->npatches = plan->nodd;
	wide->wide_low = PG_INT64_MAX;
	wide->wide_high = PG_INT64_MIN;
	finish_parameters(wide);
}

/* A second frame for all that the first one does not hold. */
static void
widen_second(const RosePlan *plan, RosePlan *wide)
{
	*wide = *plan;
	wide->position_shift = rose_positions_shift(plan->n,
												plan->nwide + plan->npatches - plan->nodd);
	wide->wide_base = plan->wide_low;
	wide->wide_width = rose_bits_needed((uint64) rose_wrap_sub(plan->wide_high, plan->wide_low) /
										(uint64) plan->step);
	wide->nwide = plan->nwide + plan->npatches - plan->nodd;
	wide->npatches = plan->nodd;
	finish_parameters(wide);
}

/* Give those outside the frame a better place, if there is one, and see what all take. */
static void
widen(RosePlan *plan)
{
	RosePlan	other;

	resize(plan);
	if (likely(plan->npatches == plan->nodd))
		return;
	widen_frame(plan, &other);
	if (other.size > plan->size)
		widen_second(plan, &other);
	else
	{
		RosePlan	second;

		widen_second(plan, &second);
		if (second.size < other.size)
			other = second;
	}
	if (other.size <= plan->size)
		*plan = other;
}

void
rose_packed_extend(const RoseColumnBuffer *col, RosePlan *plan, RosePackedFind find, int n)
{
	int64	   *x = col->scratch->words;

	if (plan->anchors.interval > 0)
		rose_anchors_follow(&plan->anchors, col->words, plan->n, n);
	if (find == NULL)
		follow(plan, col->words + plan->n, n - plan->n);
	while (plan->n < n)
	{
		int			from = plan->n;
		int			to = Min(n, from + BLOCK_SIZE);

		find(col, plan, from, to, x);
		follow(plan, x, to - from);
	}
	widen(plan);
}
