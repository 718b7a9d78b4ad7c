/*-------------------------------------------------------------------------
 *
 * rose_packed.c
 *	  Two frames of reference: writing and reading segments.
 *
 * Format and terms are in rose_packed.h, how parameters come about in rose_packed_plan.c.
 *
 * Backend-local.  Opening a segment checks that all that is read of it lies inside; wrong
 * bits give wrong values, never an address.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

/* Values packed at a time; in any width that makes whole words. */
#define BLOCK_SIZE		1024

/* Wide values read together. */
#define WIDE_CHUNK		32

/* Values looked at together for their extremes, and what the narrow ones are no wider than. */
#define EXTREMES_CHUNK		256
#define MAX_EXTREMES_WIDTH	32

/* ---- Writing ---- */

static int
plan_flags(const RosePlan *plan)
{
	const RosePackedPlan *own = &plan->own.packed;

	return own->flags | (own->step != 1 ? ROSE_PACKED_STEP : 0) |
		(own->nwide > 0 ? ROSE_PACKED_WIDE : 0);
}

/*
 * Take those above 'top' out of scratch->packed: to the patches, or to scratch->wide
 * with their positions, as far as they are wide.
 */
static void
sort_out(const RoseColumnBuffer *col, const RosePlan *plan, const int64 *x,
		 const int64 *patch_values, int *nwide, int *npatches)
{
	const RosePackedPlan *own = &plan->own.packed;
	RosePackScratch *scratch = col->scratch;
	uint64		top = Min(rose_width_mask(own->width), own->divisor.limit);
	uint64		wide_top = Min(rose_width_mask(own->wide_width), own->divisor.limit);
	int			i;

	*nwide = *npatches = 0;
	for (i = 0; i < plan->n; i++)
	{
		uint64		wide;

		if (likely(scratch->packed[i] <= top))
			continue;
		scratch->packed[i] = 0;
		wide = rose_divide(&own->divisor, (uint64) x[i] - (uint64) own->wide_base);
		if (own->nwide > 0 && wide <= wide_top && !rose_packed_is_odd(plan, x[i]))
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
	const RosePackedPlan *own = &plan->own.packed;

	*out++ = (char) own->width;
	*out++ = (char) flags;
	out = rose_varint_write(out, rose_zigzag_encode(own->base));
	if (flags & ROSE_PACKED_STEP)
		out = rose_varint_write(out, (uint64) own->step);
	if (flags & ROSE_PACKED_SLOPE)
		out = rose_varint_write(out, rose_zigzag_encode(own->slope));
	if (flags & ROSE_PACKED_EXPONENT)
		*out++ = (char) own->exponent;
	if (flags & ROSE_PACKED_WIDE)
	{
		*out++ = (char) own->position_shift;
		*out++ = (char) own->wide_width;
		out = rose_varint_write(out, rose_zigzag_encode(own->wide_base));
		out = rose_varint_write(out, nwide);
	}
	return out;
}

static void
pack_narrow(const RosePlan *plan, const int64 *x, int n, uint64 *packed)
{
	const RosePackedPlan *own = &plan->own.packed;

	if (own->step == 1)
		rose_kernel_subtract(x, n, own->base, packed);
	else
		rose_kernel_divide(x, n, own->base, &own->divisor, packed);
}

/* The packed values, none of which is wide or a patch. */
static char *
write_inside(const RoseColumnBuffer *col, const RosePlan *plan, RosePackedFind find, char *out)
{
	const RosePackedPlan *own = &plan->own.packed;
	int			from;

	/* with no bits there is nothing to look at */
	for (from = 0; from < plan->n && own->width > 0; from += BLOCK_SIZE)
	{
		int			n = Min(plan->n - from, BLOCK_SIZE);
		const int64 *x = col->words + from;

		if (find != NULL)
		{
			find(col, plan, from, from + n, col->scratch->words);
			x = col->scratch->words;
		}
		pack_narrow(plan, x, n, col->scratch->packed);
		rose_bitpack_write(out, own->width, col->scratch->packed, n);
		out += rose_bitpack_size(n, own->width);
	}
	return out;
}

char *
rose_packed_write(const RoseColumnBuffer *col, const RosePlan *plan, RosePackedFind find,
				  bool patch_x, char *out)
{
	const RosePackedPlan *own = &plan->own.packed;
	RosePackScratch *scratch = col->scratch;
	const int64 *x = col->words;
	int			flags = plan_flags(plan);
	int			nwide = 0;
	int			npatches = 0;
	bool		inside = own->nwide == 0 && own->npatches == 0;

	if (!inside)
	{
		if (find != NULL)
		{
			find(col, plan, 0, plan->n, scratch->words);
			x = scratch->words;
		}
		pack_narrow(plan, x, plan->n, scratch->packed);
		sort_out(col, plan, x, patch_x ? x : col->words, &nwide, &npatches);
	}
	if (npatches > 0)
		flags |= ROSE_PACKED_PATCHED;
	if (nwide == 0)
		flags &= ~ROSE_PACKED_WIDE;
	out = write_header(plan, flags, nwide, out);
	if (own->anchors.interval > 0)
		out = rose_anchors_write(&own->anchors, col->words, plan->n, out);
	if (inside)
		return write_inside(col, plan, find, out);

	rose_bitpack_write(out, own->width, scratch->packed, plan->n);
	out += rose_bitpack_size(plan->n, own->width);
	if (nwide > 0)
		out = rose_positions_write(out, scratch->positions, nwide, plan->n, own->position_shift);
	rose_bitpack_write(out, own->wide_width, scratch->wide, nwide);
	out += rose_bitpack_size(nwide, own->wide_width);
	return rose_patches_write(out, scratch->patches, npatches, own->patch_size);
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

/* Put the wide ones among x[from .. from + n) to their places, which on a bad page may be anywhere, or come twice. */
static void
place_wide(const RosePackedWords *packed, int from, int n, int64 *x)
{
	const RosePositions *positions = &packed->positions;
	int			bucket = from >> positions->shift;
	int			next_bucket = rose_positions_before(positions, bucket + 1);
	int			k = rose_positions_rank(positions, from);
	int			end = rose_positions_rank(positions, from + n);

	while (k < end)
	{
		uint64		places[WIDE_CHUNK];
		uint64		values[WIDE_CHUNK];
		int			m = Min(end - k, WIDE_CHUNK);

		rose_bitpack_read(positions->places, positions->shift, k, m, places);
		rose_bitpack_read(packed->wide_bits, packed->wide_width, k, m, values);
		for (int i = 0; i < m; i++, k++)
		{
			int			at;

			while (next_bucket <= k && bucket + 1 < positions->nbuckets)
				next_bucket = rose_positions_before(positions, ++bucket + 1);
			at = (bucket << positions->shift) + (int) places[i] - from;
			if (likely(at >= 0 && at < n))
				x[at] = rose_wrap_add(packed->wide_base, rose_wrap_mul(packed->step, (int64) values[i]));
		}
	}
}

void
rose_packed_decode(const RosePackedWords *packed, int from, int n, int64 *x)
{
	uint64	   *out = (uint64 *) x;

	rose_bitpack_read(packed->bits, packed->width, from, n, out);
	rose_kernel_add_frame(out, n, (uint64) packed->base, (uint64) packed->step);
	if (packed->nwide > 0)
		place_wide(packed, from, n, x);
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
rose_packed_narrow_bounds(const RosePackedWords *packed, int64 *min, int64 *max)
{
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	return add_frame_bounds(packed->base, packed->step, packed->width, min, max);
}

/* Widen [*min, *max] by wide values [from, to). */
static void
add_wide_extremes(const RosePackedWords *packed, int from, int to, int64 *min, int64 *max)
{
	uint64		chunk[EXTREMES_CHUNK];

	for (; from < to; from += EXTREMES_CHUNK)
	{
		int			m = Min(to - from, EXTREMES_CHUNK);

		rose_bitpack_read(packed->wide_bits, packed->wide_width, from, m, chunk);
		rose_kernel_add_frame(chunk, m, (uint64) packed->wide_base, (uint64) packed->step);
		rose_kernel_bounds((const int64 *) chunk, m, min, max);
	}
}

/*
 * The same by those of x[from .. from + n) that are in the narrow frame, all but nothers, whose places are 0 in the packed values, as those of the
 * least ones may be: these are there if there are more zeros than others.
 */
static void
add_narrow_extremes(const RosePackedWords *packed, int from, int n, int nothers, int64 *min, int64 *max)
{
	uint64		chunk[EXTREMES_CHUNK];
	uint32		high = 0;
	uint32		low = 0;
	int			nzeros = 0;

	for (int done = 0; done < n; done += EXTREMES_CHUNK)
	{
		int			m = Min(n - done, EXTREMES_CHUNK);
		uint32		chunk_high;
		uint32		chunk_low;
		int			chunk_zeros;

		rose_bitpack_read(packed->bits, packed->width, from + done, m, chunk);
		rose_kernel_narrow_bounds(chunk, m, &chunk_high, &chunk_low, &chunk_zeros);
		high = Max(high, chunk_high);
		low = low == 0 || (chunk_low > 0 && chunk_low < low) ? chunk_low : low;
		nzeros += chunk_zeros;
	}
	if (nzeros > nothers)
		low = 0;
	*min = Min(*min, rose_wrap_add(packed->base, rose_wrap_mul(packed->step, low)));
	*max = Max(*max, rose_wrap_add(packed->base, rose_wrap_mul(packed->step, high)));
}

bool
rose_packed_extremes(const RosePackedWords *packed, const RosePatches *patches, int from, int n,
					 int64 *min, int64 *max)
{
	int			wide = 0;
	int			wide_end = 0;
	int			nothers;

	if (packed->width > MAX_EXTREMES_WIDTH || !rose_packed_bounds(packed, min, max))
		return false;
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	if (packed->nwide > 0)
	{
		wide = rose_positions_rank(&packed->positions, from);
		wide_end = Max(rose_positions_rank(&packed->positions, from + n), wide);
		add_wide_extremes(packed, wide, wide_end, min, max);
	}
	nothers = wide_end - wide;
	if (patches->n > 0)
		nothers += rose_patches_extremes(patches, from, n, min, max);
	if (nothers < n)
		add_narrow_extremes(packed, from, n, nothers, min, max);
	return *min <= *max;
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
