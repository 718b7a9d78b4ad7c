/*-------------------------------------------------------------------------
 *
 * rose_codec_linear.c
 *	  Words along a straight line: value i = slope * i + x (rose_packed.h).
 *
 * For sequences, sorted keys and regular timestamps: a gapless sequence takes no bits at
 * all, and reading is as direct as from a frame.  The slope is in 65536ths, or whole if
 * it is too large for that.
 *
 * Backend-local.  Choosing base, step and widths of x is rose_packed_plan.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

#define FRACTION_BITS	ROSE_SLOPE_FRACTION_BITS

/* Among so many values and more, a search begins where the line passes ... */
#define GUESS_MIN		8
/* ... unless they lie farther from it than that part of them. */
#define GUESS_FEW		16

static inline int64
line_at(int64 slope, bool whole_slope, int i)
{
	return rose_line_at(slope, whole_slope ? 0 : FRACTION_BITS, i);
}

/* Distances of values [from, n) from the line. */
static void
find_distances(const RoseColumnBuffer *col, const RosePlan *plan, int from, int n, int64 *x)
{
	rose_kernel_distances(col->words + from, n - from, plan->own.packed.slope,
						  rose_slope_fraction_bits(plan->own.packed.flags), from, x);
}

static bool
linear_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RosePackedPlan *own = &plan->own.packed;
	int64	   *x = col->scratch->words;
	int			n = col->nvalues;
	int64		rise;

	if (n < 3 || request->stats.nruns < 3 ||
		pg_sub_s64_overflow(col->words[n - 1], col->words[0], &rise) || rise == 0)
		return false;

	plan->usual.kind = ROSE_USUAL_DISTANCE;
	own->flags = ROSE_PACKED_SLOPE;
	own->slope = rose_wrap_mul(rise, INT64CONST(1) << FRACTION_BITS) / (n - 1);
	if (rise > PG_INT64_MAX >> FRACTION_BITS || rise < PG_INT64_MIN >> FRACTION_BITS)
	{
		own->flags |= ROSE_PACKED_WHOLE_SLOPE;
		own->slope = rise / (n - 1);
	}
	rose_packed_begin(plan, col, col->desc.attlen);
	find_distances(col, plan, 0, n, x);
	rose_packed_fit(plan, x, n, false);
	return true;
}

static bool
linear_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	rose_packed_extend(col, plan, find_distances, n);
	return true;
}

/* Keep the slope that was learned, but lead it through the first value in the middle of the frame. */
static bool
linear_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart(plan, learned,
						rose_wrap_sub(col->words[0],
									  (int64) (rose_width_mask(learned->own.packed.width) / 2)));
	return linear_extend(col, plan, col->nvalues);
}

static char *
linear_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_packed_write(col, plan, find_distances, false, out);
}

static const char *
linear_open(RoseSegment *seg)
{
	return rose_packed_open(seg, 0, seg->desc->attlen);
}

static inline int64
add_line(const RosePackedWords *packed, int64 x, int i)
{
	return rose_wrap_add(x, line_at(packed->slope, packed->whole_slope, i));
}

static int64
linear_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return add_line(&seg->packed, rose_packed_get(&seg->packed, i), i);
}

static void
linear_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			i;

	rose_packed_decode(&seg->packed, from, n, values);
	for (i = 0; i < n; i++)
		values[i] = add_line(&seg->packed, values[i], from + i);
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

static inline bool
is_below(const RosePackedWords *packed, int i, int64 value)
{
	return add_line(packed, rose_packed_narrow(packed, i), i) < value;
}

/*
 * Where in [lo, hi) the line passes the value, about; -1 if that says little, because values lie
 * far from the line.  Nothing but a guess, so it does not matter what is rounded or wraps.
 */
static int
guess_place(const RosePackedWords *packed, int lo, int hi, int64 value)
{
	double		slope = (double) packed->slope / (packed->whole_slope ? 1 : 1 << FRACTION_BITS);
	double		half_width = 0.5 * (double) packed->step * (double) rose_width_mask(packed->width);
	double		place = ((double) rose_wrap_sub(value, packed->base) - half_width) / slope;

	if (!(half_width * GUESS_FEW <= slope * (hi - lo)))
		return -1;
	return !(place > lo) ? lo : place >= hi ? hi - 1 : (int) place;
}

/* Narrow [lo, hi) around a place, in steps that double. */
static void
gallop(const RosePackedWords *packed, int place, int64 value, int *lo, int *hi)
{
	if (is_below(packed, place, value))
	{
		*lo = place + 1;
		for (int step = 1; *lo + step < *hi; step *= 2)
		{
			if (!is_below(packed, *lo + step - 1, value))
			{
				*hi = *lo + step - 1;
				return;
			}
			*lo += step;
		}
		return;
	}
	*hi = place;
	for (int step = 1; *hi - step > *lo; step *= 2)
	{
		if (is_below(packed, *hi - step, value))
		{
			*lo = *hi - step + 1;
			return;
		}
		*hi -= step;
	}
}

static int
linear_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	const RosePackedWords *packed = &seg->packed;

	if (seg->patches.n > 0 || packed->nwide > 0)
		return rose_codec_lower_bound(seg, lo, hi, value);
	if (hi - lo >= GUESS_MIN)
	{
		int			place = guess_place(packed, lo, hi, value);

		if (place >= 0)
			gallop(packed, place, value, &lo, &hi);
	}
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (is_below(packed, mid, value))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const RoseCodec rose_codec_linear = {
	.id = ROSE_CODEC_LINEAR,
	.name = "linear",
	.suits = ROSE_SUITS_WORDS,
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
