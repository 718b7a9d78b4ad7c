/*-------------------------------------------------------------------------
 *
 * rose_codec_delta.c
 *	  Words as differences from their predecessor, with restart points.
 *
 * For values that grow unevenly: sorted keys, arrival times.  Every
 * RESTART_INTERVAL values an anchor holds the value itself, so that reading one
 * value adds up at most that many differences:
 *
 *		value i = anchor[i / 64] + the sum of x over the values after the anchor up to i
 *
 * x is packed as in rose_packed.h; that of an anchor is the base and unused.  A
 * patch is a difference too, of 8 bytes.  Differences are taken modulo 2^64, so
 * that none is too large.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

#define RESTART_INTERVAL	64

static inline int
anchor_count(int n)
{
	return (n + RESTART_INTERVAL - 1) / RESTART_INTERVAL;
}


/* ---- Building ---- */

/* Differences in front of values [from, n); 'filler' for anchors. */
static void
find_differences(const RoseColumnBuffer *col, int from, int n, int64 filler, int64 *x)
{
	const int64 *words = col->words;
	int			i;

	if (from == 0 && n > 0)
		x[0] = filler;
	i = Max(from, 1);
	if (i < n)
		rose_kernel_differences(words + i, n - i, x + (i - from));
	for (i = anchor_count(from) * RESTART_INTERVAL; i < n; i += RESTART_INTERVAL)
		x[i - from] = filler;
}

static bool
delta_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	int64	   *x = col->scratch->words;

	/* not worth a pass unless it can beat what there is */
	if (col->nvalues < 4 || request->stats.nruns < 3 ||
		anchor_count(col->nvalues) * col->desc.attlen >= request->best_size)
		return false;

	plan->interval = RESTART_INTERVAL;
	plan->usual = ROSE_USUAL_DIFFERENCE;
	rose_packed_begin(plan, col, sizeof(int64));
	find_differences(col, 0, col->nvalues, rose_wrap_sub(col->words[1], col->words[0]), x);
	rose_packed_fit(plan, x, col->nvalues, true);
	return true;
}

static bool
delta_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	find_differences(col, plan->n, n, plan->base, col->scratch->words);
	rose_packed_follow(plan, col->scratch->words, n);
	return true;
}

static bool
delta_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart(plan, learned, learned->base);
	return delta_extend(col, plan, col->nvalues);
}

static char *
delta_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	find_differences(col, 0, plan->n, plan->base, col->scratch->words);
	return rose_packed_write(col, plan, col->scratch->words, col->scratch->words, col->words, out);
}


/* ---- Reading ---- */

static const char *
delta_open(RoseSegment *seg)
{
	return rose_packed_open(seg, anchor_count(seg->n), sizeof(int64));
}

static inline int64
anchor_at(const RoseSegment *seg, int k)
{
	int			size = seg->desc->attlen;

	return rose_word_load(seg->packed.anchors + (Size) k * size, size);
}

/* Add what wide values and patches in [from, to) make of the sum of x. */
static int64
add_exceptions(const RoseSegment *seg, int from, int to, int64 sum)
{
	const RosePackedWords *packed = &seg->packed;
	int			k;

	/* their places in the packed values are 0 */
	for (k = rose_packed_first_wide(packed, from); k < packed->nwide; k++)
	{
		int			position = rose_packed_wide_position(packed, k);

		if (position < from || position >= to)
			break;
		sum = rose_wrap_add(sum, rose_wrap_sub(rose_packed_wide_value(packed, k), packed->base));
	}
	if (seg->patches.n > 0)
		sum = rose_wrap_add(sum, rose_patches_sum(&seg->patches, from, to, packed->base));
	return sum;
}

static int64
delta_get(const RoseSegment *seg, int i)
{
	const RosePackedWords *packed = &seg->packed;
	int			after = i % RESTART_INTERVAL;
	int			first = i - after + 1;
	uint64		sum = rose_bitpack_sum(packed->bits, packed->width, first, after);
	int64		value = rose_wrap_add(anchor_at(seg, i / RESTART_INTERVAL),
									  rose_wrap_add(rose_wrap_mul(packed->base, after),
													rose_wrap_mul(packed->step, (int64) sum)));

	if (packed->nwide > 0 || seg->patches.n > 0)
		value = add_exceptions(seg, first, i + 1, value);
	return value;
}

static void
delta_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			i = 0;

	if (n == 0)
		return;
	rose_packed_decode(&seg->packed, from, n, values);
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
	values[0] = delta_get(seg, from);
	while (i < n)
	{
		int			next = Min(n, ((from + i) / RESTART_INTERVAL + 1) * RESTART_INTERVAL - from);
		int64		last = values[i];

		for (i++; i < next; i++)
			values[i] = last = rose_wrap_add(last, values[i]);
		if (i < n)
			values[i] = anchor_at(seg, (from + i) / RESTART_INTERVAL);
	}
}

static int
delta_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	int64		values[RESTART_INTERVAL];
	int			i = 0;

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
	delta_decode(seg, lo, hi - lo, values);
	while (i < hi - lo && values[i] < value)
		i++;
	return lo + i;
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
