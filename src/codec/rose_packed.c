/*-------------------------------------------------------------------------
 *
 * rose_packed.c
 *	  Two frames of reference.  Format and terms are in rose_packed.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"
#include "util/rose_varint.h"

/* Values looked at to guess outliers. */
#define SAMPLE_SIZE		33

/* Bits that a position takes besides its place in the bucket, on average. */
#define POSITION_EXTRA_BITS	3

/* Values looked at to choose a width, at least; all if they are not twice as many. */
#define WIDTH_SAMPLE_SIZE	1024

/* position_shift, wide_width and a count of 65535 at most */
#define WIDE_HEADER		(1 + 1 + 3)

void
rose_divisor_init(RoseDivisor *divisor, int64 step)
{
	uint64		odd = (uint64) step;
	uint64		inverse;
	int			k;

	Assert(step >= 1);
	divisor->shift = pg_rightmost_one_pos64(odd);
	divisor->limit = PG_UINT64_MAX / odd;
	odd >>= divisor->shift;
	/* right in the low 3 bits; each round of Newton's method doubles that */
	inverse = odd;
	for (k = 0; k < 5; k++)
		inverse *= 2 - odd * inverse;
	divisor->inverse = inverse;
}

static uint64
greatest_common_divisor(uint64 a, uint64 b)
{
	while (b != 0)
	{
		uint64		rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline bool
is_odd(const RosePlan *plan, const RoseDivisor *divisor, int64 x)
{
	uint64		distance = x < plan->base ? (uint64) plan->base - (uint64) x :
		(uint64) x - (uint64) plan->base;

	if (plan->flags & ROSE_PACKED_EXPONENT)
		return x == ROSE_PACKED_NOT_DECIMAL;
	return plan->step != 1 && rose_divide(divisor, distance) > divisor->limit;
}


/* ---- Size ---- */

static int
plan_flags(const RosePlan *plan)
{
	return plan->flags | (plan->step != 1 ? ROSE_PACKED_STEP : 0) |
		(plan->nwide > 0 ? ROSE_PACKED_WIDE : 0);
}

static int
anchor_count(const RosePlan *plan)
{
	return (plan->n + plan->interval - 1) / plan->interval;
}

static int64
anchor_step(const RosePlan *plan)
{
	/* the step is a signed number */
	return plan->anchor_step == 0 || plan->anchor_step > (uint64) PG_INT64_MAX ? 1 :
		(int64) plan->anchor_step;
}

static int
anchor_width(const RosePlan *plan)
{
	if (plan->anchor_low > plan->anchor_high)
		return 0;
	return rose_bits_needed((uint64) rose_wrap_sub(plan->anchor_high, plan->anchor_low) /
							(uint64) anchor_step(plan));
}

/* Anchors that are still to come may be of any width, so those cannot be foreseen. */
static void
resize_anchors(RosePlan *plan)
{
	plan->size += 1 + rose_varint_size(rose_zigzag_encode(plan->anchor_low)) +
		rose_varint_size((uint64) anchor_step(plan)) +
		(int) rose_bitpack_size(anchor_count(plan), anchor_width(plan));
	plan->spare = (plan->interval - plan->n % plan->interval) % plan->interval;
}

static inline void
resize(RosePlan *plan)
{
	plan->size = plan->header + (int) rose_bitpack_size(plan->n, plan->width) +
		rose_patches_size(plan->npatches, plan->patch_size);
	if (plan->interval > 0)
		resize_anchors(plan);
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
		/* the directory of their positions grows with all values */
		plan->usual_bits++;
		plan->usual_slack += 16;
	}
	resize(plan);
}


/* ---- Choosing parameters ---- */

void
rose_packed_begin(RosePlan *plan, const RoseColumnBuffer *col, int patch_size)
{
	plan->word_size = col->desc.attlen;
	plan->patch_size = patch_size;
	plan->step = 1;
	plan->n = 0;
	plan->low = plan->wide_low = plan->anchor_low = PG_INT64_MAX;
	plan->high = plan->wide_high = plan->anchor_high = PG_INT64_MIN;
	plan->anchor_step = 0;
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
		step = greatest_common_divisor(offset, step);
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
 * The width that is cheapest for this base when all wider ones are wide, by
 * a sample if there are many values; what it costs in bits goes to *cost.
 */
static int
choose_width(const RosePlan *plan, const int64 *x, int n, int64 base, int64 *cost)
{
	RoseDivisor divisor;
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
	rose_divisor_init(&divisor, plan->step);
	for (i = 0; i < n; i += stride, nsampled++)
		count[rose_bits_needed(rose_divide(&divisor, (uint64) x[i] - (uint64) base))]++;
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
	rose_packed_follow(&state, x, n);
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
	plan->low = plan->wide_low = plan->anchor_low = PG_INT64_MAX;
	plan->high = plan->wide_high = plan->anchor_high = PG_INT64_MIN;
	plan->anchor_step = 0;
	finish_parameters(plan);
}


/* ---- Following ---- */

/* What the frame does not hold. */
static void
follow_outside(RosePlan *plan, const RoseDivisor *divisor, int64 x)
{
	if (is_odd(plan, divisor, x))
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
		rose_divide(divisor, (uint64) x - (uint64) plan->wide_base) <=
		Min(rose_width_mask(plan->wide_width), divisor->limit))
		plan->nwide++;
	else
		plan->npatches++;
}

static void
follow_each(RosePlan *plan, const int64 *x, int n)
{
	RoseDivisor divisor;
	uint64		base = (uint64) plan->base;
	uint64		top;
	int64		low = plan->low;
	int64		high = plan->high;
	int			i;

	rose_divisor_init(&divisor, plan->step);
	top = Min(rose_width_mask(plan->width), divisor.limit);
	for (i = 0; i < n; i++)
	{
		/* below the base a quotient may be that of a wrapped offset */
		if (unlikely(rose_divide(&divisor, (uint64) x[i] - base) > top ||
					 (x[i] < plan->base && plan->step != 1)))
		{
			follow_outside(plan, &divisor, x[i]);
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
	if (plan->step != 1)
	{
		RoseDivisor divisor;

		rose_divisor_init(&divisor, plan->step);
		if (!rose_kernel_multiples(x, n, plan->base, divisor.inverse, divisor.shift,
								   divisor.limit))
			return false;
	}
	plan->low = Min(plan->low, low);
	plan->high = Max(plan->high, high);
	return true;
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

void
rose_packed_follow_anchors(RosePlan *plan, const int64 *words, int n)
{
	int			i = (plan->n + plan->interval - 1) / plan->interval * plan->interval;

	for (; i < n; i += plan->interval)
	{
		int64		first = words[0];
		int64		word = words[i];

		if (word != first)
			plan->anchor_step = greatest_common_divisor(plan->anchor_step, word < first ?
														(uint64) first - (uint64) word :
														(uint64) word - (uint64) first);
		plan->anchor_low = Min(plan->anchor_low, word);
		plan->anchor_high = Max(plan->anchor_high, word);
	}
}

void
rose_packed_follow(RosePlan *plan, const int64 *x, int n)
{
	RosePlan	other;

	if (!all_inside(plan, x, n - plan->n))
		follow_each(plan, x, n - plan->n);
	plan->n = n;
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


/* ---- Writing ---- */

/*
 * Take those above 'top' out of scratch->packed: to the patches, and to the second half of
 * scratch->words with their positions in the first, as far as they are wide.
 */
static void
sort_out(const RoseColumnBuffer *col, const RosePlan *plan, const RoseDivisor *divisor,
		 const int64 *x, const int64 *patch_values, int *nwide, int *npatches)
{
	RosePackScratch *scratch = col->scratch;
	uint64		top = Min(rose_width_mask(plan->width), divisor->limit);
	uint64		wide_top = Min(rose_width_mask(plan->wide_width), divisor->limit);
	int			i;

	*nwide = *npatches = 0;
	if (plan->nwide == 0 && plan->npatches == 0)
		return;
	for (i = 0; i < plan->n; i++)
	{
		uint64		wide;

		if (likely(scratch->packed[i] <= top))
			continue;
		scratch->packed[i] = 0;
		wide = rose_divide(divisor, (uint64) x[i] - (uint64) plan->wide_base);
		if (plan->nwide > 0 && wide <= wide_top &&
			!is_odd(plan, divisor, x[i]))
		{
			scratch->positions[*nwide] = (uint64) i;
			scratch->wide[(*nwide)++] = wide;
		}
		else
		{
			scratch->patches[*npatches].position = i;
			scratch->patches[(*npatches)++].value = patch_values[i];
		}
	}
}

static char *
write_header(const RosePlan *plan, int flags, int nwide, char *out)
{
	*out++ = (char) plan->width;
	*out++ = (char) flags;
	out = rose_varint_write(out, rose_zigzag_encode(plan->base));
	if (flags & ROSE_PACKED_STEP)
		out = rose_varint_write(out, (uint64) plan->step);
	if (flags & ROSE_PACKED_SLOPE)
		out = rose_varint_write(out, rose_zigzag_encode(plan->slope));
	if (flags & ROSE_PACKED_EXPONENT)
		*out++ = (char) plan->exponent;
	if (flags & ROSE_PACKED_WIDE)
	{
		*out++ = (char) plan->position_shift;
		*out++ = (char) plan->wide_width;
		out = rose_varint_write(out, rose_zigzag_encode(plan->wide_base));
		out = rose_varint_write(out, nwide);
	}
	return out;
}

static void
pack_narrow(const RosePlan *plan, const RoseDivisor *divisor, const int64 *x, uint64 *packed)
{
	if (plan->step == 1)
		rose_kernel_subtract(x, plan->n, plan->base, packed);
	else
		rose_kernel_divide(x, plan->n, plan->base, divisor->inverse, divisor->shift, packed);
}

static char *
write_anchors(const RosePlan *plan, const int64 *anchors, char *out)
{
	uint64		block[64];
	RoseDivisor divisor;
	int			width = anchor_width(plan);
	int			n = anchor_count(plan);
	int			from;
	int			k;

	rose_divisor_init(&divisor, anchor_step(plan));
	*out++ = (char) width;
	out = rose_varint_write(out, rose_zigzag_encode(plan->anchor_low));
	out = rose_varint_write(out, (uint64) anchor_step(plan));
	/* a full block makes whole bytes in any width */
	for (from = 0; from < n; from += lengthof(block))
	{
		int			size = Min(lengthof(block), n - from);

		for (k = 0; k < size; k++)
			block[k] = rose_divide(&divisor, (uint64) anchors[(from + k) * plan->interval] -
								   (uint64) plan->anchor_low);
		rose_bitpack_write(out, width, block, size);
		out += rose_bitpack_size(size, width);
	}
	return out;
}

char *
rose_packed_write(const RoseColumnBuffer *col, const RosePlan *plan, const int64 *x,
				  const int64 *patch_values, const int64 *anchors, char *out)
{
	RosePackScratch *scratch = col->scratch;
	RoseDivisor divisor;
	int			flags = plan_flags(plan);
	int			nwide;
	int			npatches;

	rose_divisor_init(&divisor, plan->step);
	pack_narrow(plan, &divisor, x, scratch->packed);
	sort_out(col, plan, &divisor, x, patch_values, &nwide, &npatches);
	if (npatches > 0)
		flags |= ROSE_PACKED_PATCHED;
	if (nwide == 0)
		flags &= ~ROSE_PACKED_WIDE;
	out = write_header(plan, flags, nwide, out);
	if (plan->interval > 0)
		out = write_anchors(plan, anchors, out);

	rose_bitpack_write(out, plan->width, scratch->packed, plan->n);
	out += rose_bitpack_size(plan->n, plan->width);
	if (nwide > 0)
		out = rose_positions_write(out, scratch->positions, nwide, plan->n, plan->position_shift);
	rose_bitpack_write(out, plan->wide_width, scratch->wide, nwide);
	out += rose_bitpack_size(nwide, plan->wide_width);
	return rose_patches_write(out, scratch->patches, npatches, plan->patch_size);
}


/* ---- Reading ---- */

/* The parameters that flags announce; returns what follows them, or NULL. */
static const char *
read_parameters(RosePackedWords *packed, int flags, const char *p, const char *end,
				uint64 *nwide)
{
	uint64		number;

	if ((p = rose_varint_read(p, end, &number)) == NULL)
		return NULL;
	packed->base = rose_zigzag_decode(number);
	packed->step = 1;
	packed->slope = 0;
	packed->whole_slope = (flags & ROSE_PACKED_WHOLE_SLOPE) != 0;
	packed->exponent = 0;
	packed->positions.shift = ROSE_POSITIONS_MIN_SHIFT;
	packed->wide_width = 0;
	*nwide = 0;
	if (flags & ROSE_PACKED_STEP)
	{
		if ((p = rose_varint_read(p, end, &number)) == NULL)
			return NULL;
		packed->step = (int64) number;
	}
	if (flags & ROSE_PACKED_SLOPE)
	{
		if ((p = rose_varint_read(p, end, &number)) == NULL)
			return NULL;
		packed->slope = rose_zigzag_decode(number);
	}
	if (flags & ROSE_PACKED_EXPONENT)
	{
		if (p >= end)
			return NULL;
		packed->exponent = (uint8) *p++;
	}
	if (flags & ROSE_PACKED_WIDE)
	{
		if (end - p < 2)
			return NULL;
		packed->positions.shift = (uint8) *p++;
		packed->wide_width = (uint8) *p++;
		if ((p = rose_varint_read(p, end, &number)) == NULL)
			return NULL;
		packed->wide_base = rose_zigzag_decode(number);
		p = rose_varint_read(p, end, nwide);
	}
	return p;
}

static const char *
read_anchors(RosePackedWords *packed, int n, const char *p, const char *end)
{
	uint64		base;
	uint64		step;

	if (p >= end)
		return NULL;
	packed->anchor_width = (uint8) *p++;
	if (packed->anchor_width > 64 ||
		(p = rose_varint_read(p, end, &base)) == NULL ||
		(p = rose_varint_read(p, end, &step)) == NULL ||
		(Size) (end - p) < rose_bitpack_size(n, packed->anchor_width))
		return NULL;
	packed->anchor_base = rose_zigzag_decode(base);
	packed->anchor_step = (int64) step;
	packed->anchors = p;
	return p + rose_bitpack_size(n, packed->anchor_width);
}

const char *
rose_packed_open(RoseSegment *seg, int nanchors, int patch_size)
{
	RosePackedWords *packed = &seg->packed;
	const char *p = seg->start;
	const char *problem;
	uint64		nwide;
	int			flags;

	if (seg->end - p < 2)
		return "segment is cut off";
	packed->width = (uint8) *p++;
	flags = (uint8) *p++;
	if (flags & ~ROSE_PACKED_ALL_FLAGS)
		return "segment has unknown flags";
	if ((p = read_parameters(packed, flags, p, seg->end, &nwide)) == NULL)
		return "segment is cut off";
	if (packed->width > 64 || packed->wide_width > 64)
		return "bit width is out of range";
	if (nwide > (uint64) seg->n)
		return "more wide values than values";
	packed->nwide = (int) nwide;

	if (nanchors > 0 && (p = read_anchors(packed, nanchors, p, seg->end)) == NULL)
		return "anchors are cut off";
	if ((Size) (seg->end - p) < rose_bitpack_size(seg->n, packed->width))
		return "segment is cut off";
	packed->bits = p;
	p += rose_bitpack_size(seg->n, packed->width);
	if (nwide > 0)
	{
		problem = rose_positions_open(&packed->positions, p, seg->end, seg->n, packed->nwide,
									  packed->positions.shift, &p);
		if (problem != NULL)
			return problem;
	}
	if ((Size) (seg->end - p) < rose_bitpack_size(nwide, packed->wide_width))
		return "segment is cut off";
	packed->wide_bits = p;
	p += rose_bitpack_size(nwide, packed->wide_width);

	seg->patches.n = 0;
	if (flags & ROSE_PACKED_PATCHED)
		return rose_patches_open(&seg->patches, p, seg->end, seg->n, patch_size);
	return NULL;
}

int64
rose_packed_sum_wide(const RosePackedWords *packed, int from, int to)
{
	int			bucket = from >> packed->positions.shift;
	int64		sum = 0;
	int			k;

	for (k = rose_positions_rank(&packed->positions, from); k < packed->nwide; k++)
	{
		if (rose_positions_next(&packed->positions, k, &bucket) >= to)
			break;
		sum = rose_wrap_add(sum, rose_wrap_sub(rose_packed_wide_value(packed, k), packed->base));
	}
	return sum;
}

void
rose_packed_decode(const RosePackedWords *packed, int from, int n, int64 *x)
{
	uint64		base = (uint64) packed->base;
	uint64		step = (uint64) packed->step;
	uint64	   *out = (uint64 *) x;
	int			bucket;
	int			i;
	int			k;

	rose_bitpack_read(packed->bits, packed->width, from, n, out);
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
	if (packed->nwide == 0)
		return;
	bucket = from >> packed->positions.shift;
	for (k = rose_positions_rank(&packed->positions, from); k < packed->nwide; k++)
	{
		int			position = rose_positions_next(&packed->positions, k, &bucket);

		/* positions of a bad page need not ascend */
		if (position < from || position - from >= n)
			break;
		x[position - from] = rose_packed_wide_value(packed, k);
	}
}

/* Widen [*min, *max] by a frame; false if it may wrap. */
static bool
add_frame_bounds(int64 base, int64 step, int width, int64 *min, int64 *max)
{
	uint64		largest = rose_width_mask(width);
	uint64		room = (uint64) rose_wrap_sub(PG_INT64_MAX, base);

	if (step < 1 || largest > room / (uint64) step)
		return false;
	*min = Min(*min, base);
	*max = Max(*max, rose_wrap_add(base, rose_wrap_mul(step, (int64) largest)));
	return true;
}

bool
rose_packed_bounds(const RosePackedWords *packed, int64 *min, int64 *max)
{
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	return add_frame_bounds(packed->base, packed->step, packed->width, min, max) &&
		(packed->nwide == 0 ||
		 add_frame_bounds(packed->wide_base, packed->step, packed->wide_width, min, max));
}

const char *
rose_packed_check(RoseSegment *seg)
{
	const char *problem = NULL;

	if (seg->packed.nwide > 0)
		problem = rose_positions_check(&seg->packed.positions, seg->n);
	return problem != NULL ? problem : rose_patches_check(&seg->patches, seg->n);
}
