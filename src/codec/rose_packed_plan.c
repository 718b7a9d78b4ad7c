/*-------------------------------------------------------------------------
 *
 * rose_packed_plan.c
 *	  Two frames of reference: choosing their parameters, and following values.
 *
 * Format and terms are in rose_packed.h; what a plan promises is in rose_codec.h.
 *
 * Backend-local; the parameters are RosePackedPlan of rose_plan.h.  Writing a segment is
 * rose_packed.c's.
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
	RosePackedPlan *own = &plan->own.packed;

	plan->size = own->header + (int) rose_bitpack_size(plan->n, own->width) +
		rose_patches_size(own->npatches, own->patch_size);
	if (own->anchors.interval > 0)
	{
		plan->size += rose_anchors_size(&own->anchors, plan->n);
		plan->spare = rose_anchors_before_next(&own->anchors, plan->n);
	}
	plan->usual.unusual_bits = rose_patch_further_bits(own->npatches, own->patch_size);
	if (own->nwide > 0)
		plan->usual.unusual_bits = Max(plan->usual.unusual_bits, own->position_shift + own->wide_width);
	if (own->nwide > 0)
		plan->size += WIDE_HEADER + rose_varint_size(rose_zigzag_encode(own->wide_base)) +
			rose_positions_size(plan->n, own->nwide, own->position_shift) +
			(int) rose_bitpack_size(own->nwide, own->wide_width);
}

/* The parameters are set: what follows from them. */
static void
finish_parameters(RosePlan *plan)
{
	RosePackedPlan *own = &plan->own.packed;

	own->header = 2 + rose_varint_size(rose_zigzag_encode(own->base));
	if (own->step != 1)
		own->header += rose_varint_size((uint64) own->step);
	if (own->flags & ROSE_PACKED_SLOPE)
		own->header += rose_varint_size(rose_zigzag_encode(own->slope));
	if (own->flags & ROSE_PACKED_EXPONENT)
		own->header++;

	/* bytes more where packed values are rounded up to whole bytes */
	plan->value_bits = rose_patch_bits(own->patch_size);
	if (own->nwide > 0)
		plan->value_bits = Max(plan->value_bits, own->position_shift + own->wide_width + 16) +
			1 + 16;
	plan->value_bits += own->width + 8;
	plan->spare = PG_INT32_MAX;
	plan->usual.base = own->base;
	plan->usual.step = own->step;
	plan->usual.divisor = own->divisor;
	plan->usual.slope = own->slope;
	plan->usual.fraction_bits = rose_slope_fraction_bits(own->flags);
	plan->usual.top = rose_width_mask(own->width);
	plan->usual.bits = own->width;
	plan->usual.slack = 8;
	if (own->nwide > 0)
	{
		/* the directory of their positions grows with all values; two more are rounded up */
		plan->usual.bits++;
		plan->usual.slack += 16 + 2 * 8;
	}
	resize(plan);
}


/* ---- Choosing parameters ---- */

static void follow(RosePlan *plan, const int64 *x, int n);
static void widen(RosePlan *plan);

void
rose_packed_begin(RosePlan *plan, const RoseColumnBuffer *col, int patch_size)
{
	RosePackedPlan *own = &plan->own.packed;

	own->word_size = col->desc.attlen;
	own->patch_size = patch_size;
	own->step = 1;
	rose_divisor_init(&own->divisor, 1);
	plan->n = 0;
	own->low = own->wide_low = PG_INT64_MAX;
	own->high = own->wide_high = PG_INT64_MIN;
	rose_anchors_restart(&own->anchors);
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
	const RosePackedPlan *own = &plan->own.packed;
	int			count[65] = {0};
	int			wide_bits =
		rose_bits_needed((uint64) rose_wrap_sub(own->high, own->low) / (uint64) own->step);
	int			best = 64;
	int			nwider = 0;
	int			nsampled = 0;
	int			stride = n / WIDTH_SAMPLE_SIZE + 1;
	int			width;
	int			i;

	/* odd, because data has periods that are even more often than not */
	stride += stride % 2 == 0;
	for (i = 0; i < n; i += stride, nsampled++)
		count[rose_bits_needed(rose_divide(&own->divisor, (uint64) x[i] - (uint64) base))]++;
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
	state.own.packed.wide_width = 0;
	state.own.packed.nwide = state.own.packed.npatches = state.own.packed.nodd = 0;
	state.n = 0;
	finish_parameters(&state);
	follow(&state, x, n);
	widen(&state);
	*plan = state;
}

void
rose_packed_fit(RosePlan *plan, const int64 *x, int n, bool with_step)
{
	RosePackedPlan *own = &plan->own.packed;
	int64		low = PG_INT64_MAX;
	int64		high = PG_INT64_MIN;
	int64		base;
	int64		cost;
	int64		other_cost;
	int			i;

	if (own->flags & ROSE_PACKED_EXPONENT)
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
	own->low = low;
	own->high = high;
	own->base = low;
	own->step = with_step ? find_step(x, n, low) : 1;
	rose_divisor_init(&own->divisor, own->step);
	own->width = rose_bits_needed((uint64) rose_wrap_sub(high, low) / (uint64) own->step);
	if (own->width > 0)
	{
		own->width = choose_width(plan, x, n, low, &cost);
		if (base_above_outliers(x, n, low, &base))
		{
			int			width = choose_width(plan, x, n, base, &other_cost);

			if (other_cost < cost)
			{
				own->base = base;
				own->width = width;
			}
		}
	}
	fit_wide(plan, x, n);
}

void
rose_packed_restart(RosePlan *plan, const RosePlan *learned, int64 base)
{
	RosePackedPlan *own = &plan->own.packed;
	const RoseCodec *codec = plan->codec;

	*plan = *learned;
	plan->codec = codec;
	plan->n = 0;
	own->base = base;
	own->npatches = own->nodd = own->nwide = 0;
	own->low = own->wide_low = PG_INT64_MAX;
	own->high = own->wide_high = PG_INT64_MIN;
	rose_anchors_restart(&own->anchors);
	finish_parameters(plan);
}


/* ---- Following ---- */

/* What the frame does not hold. */
static void
follow_outside(RosePlan *plan, int64 x)
{
	RosePackedPlan *own = &plan->own.packed;

	if (rose_packed_is_odd(plan, x))
	{
		own->nodd++;
		own->npatches++;
		return;
	}
	own->low = Min(own->low, x);
	own->high = Max(own->high, x);
	own->wide_low = Min(own->wide_low, x);
	own->wide_high = Max(own->wide_high, x);
	/* the first ones are patches, until a second frame pays */
	if (own->nwide > 0 &&
		rose_divide(&own->divisor, (uint64) x - (uint64) own->wide_base) <=
		Min(rose_width_mask(own->wide_width), own->divisor.limit))
		own->nwide++;
	else
		own->npatches++;
}

static void
follow_each(RosePlan *plan, const int64 *x, int n)
{
	RosePackedPlan *own = &plan->own.packed;
	RoseDivisor divisor = own->divisor;
	uint64		base = (uint64) own->base;
	uint64		top = Min(rose_width_mask(own->width), divisor.limit);
	int64		low = own->low;
	int64		high = own->high;
	int			i;

	for (i = 0; i < n; i++)
	{
		/* below the base a quotient may be that of a wrapped offset */
		if (unlikely(rose_divide(&divisor, (uint64) x[i] - base) > top ||
					 (x[i] < own->base && own->step != 1)))
		{
			follow_outside(plan, x[i]);
			continue;
		}
		low = Min(low, x[i]);
		high = Max(high, x[i]);
	}
	own->low = Min(own->low, low);
	own->high = Max(own->high, high);
}

/* Do all lie in the frame?  Then that is all there is to know. */
static inline bool
all_inside(RosePlan *plan, const int64 *x, int n)
{
	RosePackedPlan *own = &plan->own.packed;
	int64		low = PG_INT64_MAX;
	int64		high = PG_INT64_MIN;

	rose_kernel_bounds(x, n, &low, &high);
	if (n > 0 && (low < own->base ||
				  (uint64) rose_wrap_sub(high, own->base) / (uint64) own->step >
				  rose_width_mask(own->width)))
		return false;
	if (own->step != 1 &&
		!rose_kernel_multiples(x, n, own->base, &own->divisor))
		return false;
	own->low = Min(own->low, low);
	own->high = Max(own->high, high);
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
	const RosePackedPlan *own = &plan->own.packed;

	*wide = *plan;
	wide->own.packed.base = own->low;
	wide->own.packed.width = rose_bits_needed((uint64) rose_wrap_sub(own->high, own->low) /
											  (uint64) own->step);
	wide->own.packed.nwide = 0;
	wide->own.packed.wide_width = 0;
	wide->own.packed.npatches = own->nodd;
	wide->own.packed.wide_low = PG_INT64_MAX;
	wide->own.packed.wide_high = PG_INT64_MIN;
	finish_parameters(wide);
}

/* A second frame for all that the first one does not hold. */
static void
widen_second(const RosePlan *plan, RosePlan *wide)
{
	const RosePackedPlan *own = &plan->own.packed;

	*wide = *plan;
	wide->own.packed.position_shift = rose_positions_shift(plan->n,
														   own->nwide + own->npatches - own->nodd);
	wide->own.packed.wide_base = own->wide_low;
	wide->own.packed.wide_width = rose_bits_needed((uint64) rose_wrap_sub(own->wide_high, own->wide_low) /
												   (uint64) own->step);
	wide->own.packed.nwide = own->nwide + own->npatches - own->nodd;
	wide->own.packed.npatches = own->nodd;
	finish_parameters(wide);
}

/* Give those outside the frame a better place, if there is one, and see what all take. */
static void
widen(RosePlan *plan)
{
	RosePlan	other;

	resize(plan);
	if (likely(plan->own.packed.npatches == plan->own.packed.nodd))
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

	if (plan->own.packed.anchors.interval > 0)
		rose_anchors_follow(&plan->own.packed.anchors, col->words, plan->n, n);
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
