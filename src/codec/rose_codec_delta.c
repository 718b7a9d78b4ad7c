/*-------------------------------------------------------------------------
 *
 * rose_codec_delta.c
 *	  Words as differences from their predecessor, with anchors.
 *
 * For values that grow unevenly: sorted keys, arrival times.  The value itself is there
 * for every 64th, the anchors.  From the nearest one a value is at most 32 differences
 * away, forwards or backwards, but for the last values of the page:
 *
 *		value i = anchor[k] + the sum of x over the values after 64 * k up to i
 *				= anchor[k + 1] - the sum of x over the values after i up to 64 * (k + 1)
 *
 * x is packed as in rose_packed.h; that of the first value is the base and unused.  A
 * patch is a difference too, of 8 bytes.  Differences are taken modulo 2^64, so
 * that none is too large.
 *
 * Backend-local.  Anchors are made and measured in rose_anchors.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

#define ANCHOR_INTERVAL		64

/* Of values that begin anew more often all are looked at for the extremes. */
#define MAX_CUTS			16

static inline int
anchor_count(int n)
{
	return (n + ANCHOR_INTERVAL - 1) / ANCHOR_INTERVAL;
}


/* ---- Building ---- */

/* Differences in front of values [from, n); the base for the first of all. */
static void
find_differences(const RoseColumnBuffer *col, const RosePlan *plan, int from, int n, int64 *x)
{
	int			first = Max(from, 1);

	if (from == 0 && n > 0)
		x[0] = plan->own.packed.base;
	if (first < n)
		rose_kernel_differences(col->words + first, n - first, x + (first - from));
}

static bool
delta_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RosePackedPlan *own = &plan->own.packed;
	int64	   *x = col->scratch->words;

	/* not worth a pass unless it can beat what there is */
	if (col->nvalues < 4 || request->stats.nruns < 3)
		return false;

	own->anchors.interval = ANCHOR_INTERVAL;
	plan->usual.kind = ROSE_USUAL_DIFFERENCE;
	rose_packed_begin(plan, col, sizeof(int64));
	rose_anchors_follow(&own->anchors, col->words, 0, col->nvalues);
	own->base = rose_wrap_sub(col->words[1], col->words[0]);
	find_differences(col, plan, 0, col->nvalues, x);
	rose_packed_fit(plan, x, col->nvalues, true);
	return true;
}

static bool
delta_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	rose_packed_extend(col, plan, find_differences, n);
	return true;
}

static int
delta_reach(RoseColumnBuffer *col, const RosePlan *plan, RoseAnchorsAhead *ahead, int n, int *bits)
{
	*bits = 8 * rose_anchors_look_ahead(&plan->own.packed.anchors, ahead, col->words, plan->n, n);
	return n + rose_anchors_before_next(&plan->own.packed.anchors, n);
}

static bool
delta_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart(plan, learned, learned->own.packed.base);
	return delta_extend(col, plan, col->nvalues);
}

static char *
delta_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_packed_write(col, plan, find_differences, true, out);
}


/* ---- Reading ---- */

static const char *
delta_open(RoseSegment *seg)
{
	return rose_packed_open(seg, anchor_count(seg->n), sizeof(int64));
}

/* The sum of x over values [from, to), which are not the first. */
static inline int64
sum_differences(const RoseSegment *seg, int from, int to)
{
	const RosePackedWords *packed = &seg->packed;
	uint64		narrow = rose_bitpack_sum(packed->bits, packed->width, from, to - from);
	int64		sum = rose_wrap_add(rose_wrap_mul(packed->base, to - from),
									rose_wrap_mul(packed->step, (int64) narrow));

	/* the places of wide values and patches in the packed values are 0 */
	if (packed->nwide > 0)
		sum = rose_wrap_add(sum, rose_packed_sum_wide(packed, from, to));
	if (seg->patches.n > 0)
		sum = rose_wrap_add(sum, rose_patches_sum(&seg->patches, from, to, packed->base));
	return sum;
}

static int64
delta_get(const RoseSegment *seg, int i)
{
	int			anchor = i / ANCHOR_INTERVAL;
	int			place = anchor * ANCHOR_INTERVAL;
	int			next = place + ANCHOR_INTERVAL;

	if (i - place <= ANCHOR_INTERVAL / 2 || next >= seg->n)
		return rose_wrap_add(rose_packed_anchor(&seg->packed, anchor),
							 sum_differences(seg, place + 1, i + 1));
	return rose_wrap_sub(rose_packed_anchor(&seg->packed, anchor + 1),
						 sum_differences(seg, i + 1, next + 1));
}

static void
delta_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int64		last;
	int			i;

	if (n == 0)
		return;
	rose_packed_decode(&seg->packed, from, n, values);
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
	values[0] = last = delta_get(seg, from);
	for (i = 1; i < n; i++)
		values[i] = last = rose_wrap_add(last, values[i]);
}

/*
 * Where values begin anew: at differences that are not in the frame, among values (from, from + n).  Returns how many there are, or a number
 * above MAX_CUTS.
 */
static int
find_cuts(const RoseSegment *seg, int from, int n, int *cuts)
{
	const RosePositions *positions = &seg->packed.positions;
	int			ncuts = 0;

	if (seg->packed.nwide > 0)
	{
		int			bucket = (from + 1) >> positions->shift;

		for (int k = rose_positions_rank(positions, from + 1); k < seg->packed.nwide; k++)
		{
			int			position = rose_positions_next(positions, k, &bucket);

			if (position >= from + n)
				break;
			if (ncuts == MAX_CUTS)
				return MAX_CUTS + 1;
			cuts[ncuts++] = position;
		}
	}
	if (seg->patches.n > 0)
		ncuts += rose_patches_among(&seg->patches, from + 1, n - 1, cuts + ncuts, MAX_CUTS - ncuts);
	return ncuts;
}

static int
compare_cuts(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/*
 * Between cuts no difference is below 0, so values do not fall, unless they wrap: so the extremes are at the ends.
 */
static bool
delta_extremes(const RoseSegment *seg, int from, int n, int64 *min, int64 *max)
{
	int			cuts[MAX_CUTS + 1];
	int			ncuts;
	int64		least;
	int64		rise;
	int			at = from;

	if (!rose_packed_narrow_bounds(&seg->packed, &least, &rise) || least < 0)
		return false;
	ncuts = find_cuts(seg, from, n, cuts);
	if (ncuts > MAX_CUTS || (ncuts + 1) * ANCHOR_INTERVAL > n)
		return false;
	qsort(cuts, ncuts, sizeof(int), compare_cuts);
	cuts[ncuts] = from + n;
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	for (int i = 0; i <= ncuts; i++)
	{
		int64		first;
		int64		end;

		/* on a bad page cuts may be anywhere */
		if (cuts[i] <= at || cuts[i] > from + n)
			continue;
		first = delta_get(seg, at);
		if (__builtin_mul_overflow(rise, cuts[i] - at, &end) || __builtin_add_overflow(first, end, &end))
			return false;
		*min = Min(*min, first);
		*max = Max(*max, delta_get(seg, cuts[i] - 1));
		at = cuts[i];
	}
	return true;
}

static int
delta_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	int64		values[ANCHOR_INTERVAL];
	int			i = 0;

	/* narrow to one interval by the anchors that lie inside the range */
	while (hi - lo > 1)
	{
		int			first = lo / ANCHOR_INTERVAL + 1;
		int			last = (hi - 1) / ANCHOR_INTERVAL;
		int			mid = first + (last - first) / 2;

		if (first > last)
			break;
		if (rose_packed_anchor(&seg->packed, mid) < value)
			lo = mid * ANCHOR_INTERVAL;
		else
			hi = mid * ANCHOR_INTERVAL;
	}
	delta_decode(seg, lo, hi - lo, values);
	while (i < hi - lo && values[i] < value)
		i++;
	return lo + i;
}

const RoseCodec rose_codec_delta = {
	.id = ROSE_CODEC_DELTA,
	.name = "delta",
	.suits = ROSE_SUITS_WORDS,
	.handicap = 2,
	.plan = delta_plan,
	.extend = delta_extend,
	.reach = delta_reach,
	.follow = delta_follow,
	.pack = delta_pack,
	.open = delta_open,
	.get = delta_get,
	.decode = delta_decode,
	.lower_bound = delta_lower_bound,
	.extremes = delta_extremes,
	.check = rose_packed_check,
};
