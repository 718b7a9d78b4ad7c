/*-------------------------------------------------------------------------
 *
 * rose_codec_frame.c
 *	  Words in a frame of reference: value = base + step * packed.
 *
 * This is the papers' PFOR with bit packing: what lies outside the frame has a second one
 * or is a patch (rose_packed.h).  A step above 1 is found when all values are a multiple
 * of it away from the smallest: whole seconds in a timestamp, cents in steps of five.
 *
 * A frame of width 0 without patches holds one value only and is written as
 * codec "constant", whose segment is that value as a zigzag varint.  Page
 * directories hold small constants themselves (rose_page_format.h).
 *
 * Backend-local.  Choosing base, step and widths is rose_packed_plan.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

static bool
frame_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	plan->usual.kind = ROSE_USUAL_VALUE;
	rose_packed_begin(plan, col, col->desc.attlen);
	rose_packed_fit(plan, col->words, col->nvalues, true);
	return true;
}

static bool
frame_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	rose_packed_extend(col, plan, NULL, n);
	return true;
}

/*
 * The values may lie in the old frame, or have moved on as those of a sorted
 * column do.
 */
static bool
frame_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	RosePlan	moved = *plan;
	int64		min = PG_INT64_MAX;
	int64		max = PG_INT64_MIN;

	rose_packed_restart(plan, learned, learned->own.packed.base);
	rose_packed_extend(col, plan, NULL, col->nvalues);
	if (plan->own.packed.npatches + plan->own.packed.nwide <= col->nvalues / 16)
		return true;

	rose_kernel_bounds(col->words, col->nvalues, &min, &max);
	rose_packed_restart(&moved, learned, min);
	rose_packed_extend(col, &moved, NULL, col->nvalues);
	if (moved.size < plan->size)
		*plan = moved;
	return true;
}

static bool
frame_is_constant(const RosePlan *plan, int64 *value)
{
	const RosePackedPlan *packed = &plan->own.packed;

	*value = packed->base;
	return packed->width == 0 && packed->npatches == 0 && packed->nwide == 0;
}

static char *
frame_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_packed_write(col, plan, NULL, false, out);
}

static const char *
frame_open(RoseSegment *seg)
{
	return rose_packed_open(seg, 0, seg->desc->attlen);
}

static int64
frame_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return rose_packed_get(&seg->packed, i);
}

static void
frame_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	rose_packed_decode(&seg->packed, from, n, values);
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

static int
frame_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	if (seg->patches.n > 0 || seg->packed.nwide > 0)
		return rose_codec_lower_bound(seg, lo, hi, value);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (rose_packed_narrow(&seg->packed, mid) < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool
frame_bounds(const RoseSegment *seg, int64 *min, int64 *max)
{
	if (!rose_packed_bounds(&seg->packed, min, max))
		return false;
	rose_patches_bounds(&seg->patches, min, max);
	return true;
}

static bool
frame_extremes(const RoseSegment *seg, int from, int n, int64 *min, int64 *max)
{
	return rose_packed_extremes(&seg->packed, &seg->patches, from, n, min, max);
}

const RoseCodec rose_codec_frame = {
	.id = ROSE_CODEC_FRAME,
	.name = "frame",
	.suits = ROSE_SUITS_WORDS,
	.likes_runs = true,
	.is_constant = frame_is_constant,
	.plan = frame_plan,
	.extend = frame_extend,
	.follow = frame_follow,
	.pack = frame_pack,
	.open = frame_open,
	.get = frame_get,
	.decode = frame_decode,
	.lower_bound = frame_lower_bound,
	.bounds = frame_bounds,
	.extremes = frame_extremes,
	.check = rose_packed_check,
};


/* ---- constant ---- */

static char *
constant_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_varint_write(out, rose_zigzag_encode(plan->own.packed.base));
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
constant_runs(const RoseSegment *seg, int from, int n, int max_runs, int64 *values, uint16 *starts)
{
	values[0] = seg->packed.base;
	starts[0] = 0;
	return 1;
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

static bool
constant_extremes(const RoseSegment *seg, int from, int n, int64 *min, int64 *max)
{
	return constant_bounds(seg, min, max);
}

static const char *
constant_check(RoseSegment *seg)
{
	return NULL;
}

const RoseCodec rose_codec_constant = {
	.id = ROSE_CODEC_CONSTANT,
	.name = "constant",
	.suits = ROSE_SUITS_WORDS,
	.pack = constant_pack,
	.open = constant_open,
	.get = constant_get,
	.decode = constant_decode,
	.runs = constant_runs,
	.lower_bound = constant_lower_bound,
	.bounds = constant_bounds,
	.extremes = constant_extremes,
	.check = constant_check,
};
