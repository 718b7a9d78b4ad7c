/*-------------------------------------------------------------------------
 *
 * rose_codec_frame.c
 *	  Words in a frame of reference: value = base + step * packed.
 *
 * This is the papers' PFOR with bit packing: values outside the frame are
 * patches.  The width is the one that makes frame and patches together
 * smallest.  A step above 1 is found when all values are a multiple of it away
 * from the smallest: whole seconds in a timestamp, cents in steps of five.
 *
 * A frame of width 0 without patches holds one value only and is written as
 * codec "constant", whose segment is that value as a zigzag varint.  Page
 * directories hold small constants themselves (rose_page_format.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_packed.h"
#include "util/rose_varint.h"

/* Values looked at to guess step and outliers. */
#define SAMPLE_SIZE		33

/* The largest step that all values are multiples of away from min. */
static uint64
find_step(const RoseColumnBuffer *col, int64 min)
{
	uint64		step = 0;
	int			i;

	for (i = 0; i < col->nvalues; i++)
	{
		uint64		offset = (uint64) rose_wrap_sub(col->words[i], min);

		if (step == 0 || offset % step != 0)
			step = rose_packed_gcd(offset, step);
		if (step == 1)
			break;
	}
	/* the step is stored as a signed number */
	return step == 0 || step > (uint64) PG_INT64_MAX ? 1 : step;
}

static void
count_widths(const RoseColumnBuffer *col, int64 base, RoseWidthHistogram *histogram)
{
	int			i;

	memset(histogram, 0, sizeof(*histogram));
	for (i = 0; i < col->nvalues; i++)
		histogram->count[rose_bits_needed((uint64) rose_wrap_sub(col->words[i], base))]++;
}

static int
compare_words(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * A base that leaves low outliers out of the frame, judged by the quartiles of
 * a sample.  False if there are none.  High outliers need no such care.
 */
static bool
base_above_outliers(const RoseColumnBuffer *col, int64 min, int64 *base)
{
	int64		sample[SAMPLE_SIZE];
	int64		threshold;
	uint64		spread;
	int			i;

	for (i = 0; i < SAMPLE_SIZE; i++)
		sample[i] = col->words[(Size) i * (col->nvalues - 1) / (SAMPLE_SIZE - 1)];
	qsort(sample, SAMPLE_SIZE, sizeof(int64), compare_words);

	spread = (uint64) rose_wrap_sub(sample[3 * SAMPLE_SIZE / 4], sample[SAMPLE_SIZE / 4]);
	spread = spread > PG_UINT64_MAX / 4 ? PG_UINT64_MAX : spread * 4;
	if ((uint64) rose_wrap_sub(sample[SAMPLE_SIZE / 4], min) <= spread)
		return false;
	threshold = rose_wrap_sub(sample[SAMPLE_SIZE / 4], (int64) spread);

	*base = sample[SAMPLE_SIZE / 4];
	for (i = 0; i < col->nvalues; i++)
	{
		if (col->words[i] >= threshold && col->words[i] < *base)
			*base = col->words[i];
	}
	return true;
}

static bool
frame_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	const RoseWordStats *stats = &request->stats;
	uint64		range = (uint64) rose_wrap_sub(stats->max, stats->min);
	RoseWidthHistogram histogram;
	int64		base;

	plan->base = plan->low = stats->min;
	plan->high = stats->max;
	plan->step = (int64) find_step(col, stats->min);
	plan->npatches = 0;
	plan->nodd = 0;
	plan->width = rose_bits_needed(range / (uint64) plan->step);
	if (plan->step == 1 && plan->width > 1)
	{
		count_widths(col, plan->base, &histogram);
		rose_packed_choose_width(plan, &histogram, 0, col->desc.attlen);
	}
	rose_packed_finish_plan(plan, plan->step == 1 ? 0 : ROSE_PACKED_STEP, col->desc.attlen);

	if (range > 1 && base_above_outliers(col, stats->min, &base))
	{
		RosePlan	other = *plan;

		other.base = base;
		other.step = 1;
		count_widths(col, other.base, &histogram);
		rose_packed_choose_width(&other, &histogram, 0, col->desc.attlen);
		rose_packed_finish_plan(&other, 0, col->desc.attlen);
		if (other.size < plan->size)
			*plan = other;
	}
	return true;
}

static inline int
frame_flags(const RosePlan *plan)
{
	return plan->step == 1 ? 0 : ROSE_PACKED_STEP;
}

/* The same multiples above and below the base count: the frame may be moved down. */
static void
frame_extend_steps(const RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseDivisor divisor;
	uint64		mask = rose_width_mask(plan->width);
	int			i;

	rose_divisor_init(&divisor, plan->step);
	for (i = plan->n; i < n; i++)
	{
		int64		value = col->words[i];
		bool		below = value < plan->base;
		uint64		offset = (uint64) value - (uint64) plan->base;
		uint64		packed = rose_divide(&divisor, below ? -offset : offset);

		plan->npatches += below || packed > mask || packed > divisor.limit;
		if (packed > divisor.limit)
		{
			plan->nodd++;
			continue;
		}
		plan->low = Min(plan->low, value);
		plan->high = Max(plan->high, value);
	}
}

static void
frame_extend_plain(const RoseColumnBuffer *col, RosePlan *plan, int n)
{
	uint64		mask = rose_width_mask(plan->width);
	int64		low = plan->low;
	int64		high = plan->high;
	int			i;

	for (i = plan->n; i < n; i++)
	{
		int64		value = col->words[i];

		low = Min(low, value);
		high = Max(high, value);
	}
	plan->low = low;
	plan->high = high;
	if (low >= plan->base && (uint64) rose_wrap_sub(high, plan->base) <= mask)
		return;
	for (i = plan->n; i < n; i++)
		plan->npatches += (uint64) rose_wrap_sub(col->words[i], plan->base) > mask;
}

static bool
frame_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	if (plan->step == 1)
		frame_extend_plain(col, plan, n);
	else
		frame_extend_steps(col, plan, n);
	plan->n = n;
	rose_packed_resize(plan, 0, col->desc.attlen);
	rose_packed_widen(plan, frame_flags(plan), (uint64) plan->step, 0, col->desc.attlen);
	return true;
}

/*
 * The values may lie in the old frame, may have moved on as those of a sorted
 * column do, or have another range altogether.
 */
static bool
frame_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	int64		min = col->words[0];
	int			i;

	rose_packed_restart_plan(plan, learned);
	rose_packed_finish_plan(plan, frame_flags(plan), col->desc.attlen);
	frame_extend(col, plan, col->nvalues);
	if (plan->npatches <= col->nvalues / 16)
		return true;

	for (i = 1; i < col->nvalues; i++)
		min = Min(min, col->words[i]);
	rose_packed_restart_plan(plan, learned);
	plan->base = min;
	rose_packed_finish_plan(plan, frame_flags(plan), col->desc.attlen);
	return frame_extend(col, plan, col->nvalues);
}

static char *
frame_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	RosePackScratch *scratch = col->scratch;
	const int64 *words = col->words;
	uint64		base = (uint64) plan->base;
	uint64		top = rose_width_mask(plan->width);
	int			i;

	if (plan->step == 1)
	{
		for (i = 0; i < plan->n; i++)
			scratch->packed[i] = (uint64) words[i] - base;
	}
	else
	{
		RoseDivisor divisor;

		rose_divisor_init(&divisor, plan->step);
		for (i = 0; i < plan->n; i++)
			scratch->packed[i] = rose_divide(&divisor, (uint64) words[i] - base);
		top = Min(top, divisor.limit);
	}
	return rose_packed_write(col, plan, frame_flags(plan), NULL, 0,
							 rose_packed_take_patches(col, plan, top), out);
}

static const char *
frame_open(RoseSegment *seg)
{
	return rose_packed_open(seg, 0);
}

static inline int64
frame_unpatched(const RosePackedWords *packed, int i)
{
	int64		offset = (int64) rose_bitpack_get(packed->bits, packed->width, i);

	return rose_wrap_add(packed->base, rose_wrap_mul(packed->step, offset));
}

static int64
frame_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return frame_unpatched(&seg->packed, i);
}

static void
frame_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	uint64		base = (uint64) seg->packed.base;
	uint64		step = (uint64) seg->packed.step;
	uint64	   *out = (uint64 *) values;
	int			i;

	rose_bitpack_read(seg->packed.bits, seg->packed.width, from, n, out);
	if (step == 1)
	{
		for (i = 0; i < n; i++)
			out[i] += base;
	}
	else
	{
		for (i = 0; i < n; i++)
			out[i] = base + step * out[i];
	}
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

static int
frame_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	if (seg->patches.n > 0)
		return rose_codec_lower_bound(seg, lo, hi, value);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (frame_unpatched(&seg->packed, mid) < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool
frame_bounds(const RoseSegment *seg, int64 *min, int64 *max)
{
	uint64		largest = rose_width_mask(seg->packed.width);
	uint64		room = (uint64) rose_wrap_sub(PG_INT64_MAX, seg->packed.base);

	/* values below the base may be stored as offsets that wrap */
	if (seg->packed.step < 1 || largest > room / (uint64) seg->packed.step)
		return false;
	*min = seg->packed.base;
	*max = rose_wrap_add(*min, rose_wrap_mul(seg->packed.step, (int64) largest));
	rose_patches_bounds(&seg->patches, min, max);
	return true;
}

const RoseCodec rose_codec_frame = {
	.id = ROSE_CODEC_FRAME,
	.name = "frame",
	.plan = frame_plan,
	.extend = frame_extend,
	.follow = frame_follow,
	.pack = frame_pack,
	.open = frame_open,
	.get = frame_get,
	.decode = frame_decode,
	.lower_bound = frame_lower_bound,
	.bounds = frame_bounds,
	.check = rose_packed_check,
};


/* ---- constant ---- */

static char *
constant_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_varint_write(out, rose_zigzag_encode(plan->base));
}

static const char *
constant_open(RoseSegment *seg)
{
	uint64		number;

	seg->patches.n = 0;
	if (rose_varint_read(seg->start, seg->end, &number) == NULL)
		return "segment is cut off";
	seg->packed.base = rose_zigzag_decode(number);
	return NULL;
}

static int64
constant_get(const RoseSegment *seg, int i)
{
	return seg->packed.base;
}

static void
constant_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			i;

	for (i = 0; i < n; i++)
		values[i] = seg->packed.base;
}

static int
constant_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	return seg->packed.base < value ? hi : lo;
}

static bool
constant_bounds(const RoseSegment *seg, int64 *min, int64 *max)
{
	*min = *max = seg->packed.base;
	return true;
}

static const char *
constant_check(RoseSegment *seg)
{
	return NULL;
}

const RoseCodec rose_codec_constant = {
	.id = ROSE_CODEC_CONSTANT,
	.name = "constant",
	.pack = constant_pack,
	.open = constant_open,
	.get = constant_get,
	.decode = constant_decode,
	.lower_bound = constant_lower_bound,
	.bounds = constant_bounds,
	.check = constant_check,
};
