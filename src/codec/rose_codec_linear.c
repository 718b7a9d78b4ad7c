/*-------------------------------------------------------------------------
 *
 * rose_codec_linear.c
 *	  Words along a straight line: value i = base + step * i + packed.
 *
 * For sequences, sorted keys and regular timestamps: a gapless sequence takes
 * no bits at all, and reading is as direct as from a frame.  The step is
 * in 65536ths, or whole if it is too large for that.  Values too far
 * from the line are patches.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "codec/rose_packed.h"

#define FRACTION_BITS	16

/*
 * The line at i.  Where the product wraps the line jumps, which costs space but
 * does no harm, since writer and reader agree.
 */
static inline int64
line_at(int64 base, int64 step, bool whole_step, int i)
{
	int64		rise = rose_wrap_mul(step, i);

	/* right shift of a negative number is arithmetic on all our compilers */
	return rose_wrap_add(base, whole_step ? rise : rise >> FRACTION_BITS);
}

/* plan->exponent says whether the step is whole */
static inline uint64
residual(const RosePlan *plan, int64 value, int i)
{
	return (uint64) rose_wrap_sub(value, line_at(plan->base, plan->step,
												 plan->exponent != 0, i));
}

static inline int
linear_flags(const RosePlan *plan)
{
	return ROSE_PACKED_STEP | (plan->exponent != 0 ? ROSE_PACKED_WHOLE_STEP : 0);
}

static bool
linear_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	int			n = col->nvalues;
	int64		rise;
	int64		min = PG_INT64_MAX;
	int64		max = PG_INT64_MIN;
	int			i;

	if (n < 3 || request->stats.nruns < 3 ||
		pg_sub_s64_overflow(col->words[n - 1], col->words[0], &rise) || rise == 0)
		return false;

	plan->exponent = rise > PG_INT64_MAX >> FRACTION_BITS ||
		rise < PG_INT64_MIN >> FRACTION_BITS;
	plan->step = plan->exponent != 0 ? rise / (n - 1) :
		rose_wrap_mul(rise, INT64CONST(1) << FRACTION_BITS) / (n - 1);
	plan->base = 0;
	for (i = 0; i < n; i++)
	{
		int64		offset = (int64) residual(plan, col->words[i], i);

		min = Min(min, offset);
		max = Max(max, offset);
	}
	plan->base = plan->low = min;
	plan->high = max;
	plan->width = rose_bits_needed((uint64) rose_wrap_sub(max, min));
	plan->npatches = 0;
	plan->nodd = 0;
	rose_packed_finish_plan(plan, linear_flags(plan), col->desc.attlen);
	return true;
}

/* low and high are those of the distances from the line through 0 */
static bool
linear_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	uint64		mask = rose_width_mask(plan->width);
	bool		whole = plan->exponent != 0;
	int64		low = plan->low;
	int64		high = plan->high;
	int			i;

	for (i = plan->n; i < n; i++)
	{
		int64		distance = rose_wrap_sub(col->words[i], line_at(0, plan->step, whole, i));

		low = Min(low, distance);
		high = Max(high, distance);
	}
	plan->low = low;
	plan->high = high;
	if (low < plan->base || (uint64) rose_wrap_sub(high, plan->base) > mask)
	{
		for (i = plan->n; i < n; i++)
			plan->npatches += residual(plan, col->words[i], i) > mask;
	}
	plan->n = n;
	rose_packed_resize(plan, 0, col->desc.attlen);
	rose_packed_widen(plan, linear_flags(plan), 1, 0, col->desc.attlen);
	return true;
}

/* The same slope, through the first value in the middle of the frame. */
static bool
linear_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart_plan(plan, learned);
	plan->base = rose_wrap_sub(col->words[0], (int64) (rose_width_mask(plan->width) / 2));
	rose_packed_finish_plan(plan, linear_flags(plan), col->desc.attlen);
	return linear_extend(col, plan, col->nvalues);
}

static char *
linear_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	uint64	   *packed = col->scratch->packed;
	uint64		mask = rose_width_mask(plan->width);
	bool		whole = plan->exponent != 0;
	int			i;

	for (i = 0; i < plan->n; i++)
		packed[i] = (uint64) col->words[i] - (uint64) line_at(plan->base, plan->step, whole, i);
	return rose_packed_write(col, plan, linear_flags(plan), NULL, 0,
							 rose_packed_take_patches(col, plan, mask), out);
}

static const char *
linear_open(RoseSegment *seg)
{
	return rose_packed_open(seg, 0);
}

static inline int64
linear_unpatched(const RosePackedWords *packed, int i)
{
	return rose_wrap_add(line_at(packed->base, packed->step, packed->whole_step, i),
						 (int64) rose_bitpack_get(packed->bits, packed->width, i));
}

static int64
linear_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return linear_unpatched(&seg->packed, i);
}

static void
linear_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	const RosePackedWords *packed = &seg->packed;
	int			i;

	rose_bitpack_read(packed->bits, packed->width, from, n, (uint64 *) values);
	for (i = 0; i < n; i++)
		values[i] = rose_wrap_add(values[i],
								  line_at(packed->base, packed->step,
										  packed->whole_step, from + i));
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

static int
linear_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	if (seg->patches.n > 0)
		return rose_codec_lower_bound(seg, lo, hi, value);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (linear_unpatched(&seg->packed, mid) < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const RoseCodec rose_codec_linear = {
	.id = ROSE_CODEC_LINEAR,
	.name = "linear",
	.plan = linear_plan,
	.extend = linear_extend,
	.follow = linear_follow,
	.pack = linear_pack,
	.open = linear_open,
	.get = linear_get,
	.decode = linear_decode,
	.lower_bound = linear_lower_bound,
	.check = rose_packed_check,
};
