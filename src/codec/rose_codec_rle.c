/*-------------------------------------------------------------------------
 *
 * rose_codec_rle.c
 *	  Words as runs of equal values.
 *
 *		uint8	width		bits of a packed run value
 *		uint8	flags		1: patched
 *		varint	nruns
 *		varint	base		zigzag
 *		uint16	end[nruns]	number of the first value after each run
 *		bits	nruns values of width bits, to be added to base
 *		patches
 *
 * Reading searches the run ends, so it takes O(log runs).  A value that does not fit
 * the width is a patch and goes on the run that it interrupts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_codec.h"
#include "codec/rose_kernels.h"
#include "util/rose_bitpack.h"
#include "util/rose_varint.h"

#define RLE_PATCHED		0x01

static inline int
run_end(const RoseSegment *seg, int run)
{
	uint16		end;

	memcpy(&end, seg->run_ends + 2 * (Size) run, 2);
	return end;
}

static inline int64
run_value(const RoseSegment *seg, int run)
{
	return rose_wrap_add(seg->packed.base,
						 (int64) rose_bitpack_get(seg->packed.bits, seg->packed.width, run));
}

static void
rle_resize(RosePlan *plan, int word_size)
{
	plan->size = plan->header + 2 * plan->nunits +
		(int) rose_bitpack_size(plan->nunits, plan->width) +
		rose_patches_size(plan->npatches, word_size);
}

/* Set what depends on base and width. */
static void
rle_finish_plan(RosePlan *plan, int word_size)
{
	/* nruns may grow, so take its varint at its longest */
	plan->header = 2 + 3 + rose_varint_size(rose_zigzag_encode(plan->base));
	plan->value_bits = Max(16 + plan->width, rose_patch_bits(word_size)) + 8;
	plan->spare = PG_INT32_MAX;
	rle_resize(plan, word_size);
}

/* Make room for all values, low to high, in plan->unit_bytes runs, if that takes less. */
static void
rle_widen(const RoseColumnBuffer *col, RosePlan *plan)
{
	RosePlan	wide = *plan;

	if (plan->npatches == 0)
		return;
	wide.base = plan->low;
	wide.width = rose_bits_needed((uint64) rose_wrap_sub(plan->high, plan->low));
	wide.npatches = 0;
	wide.nunits = (int) plan->unit_bytes;
	wide.last = col->words[plan->n - 1];
	rle_finish_plan(&wide, col->desc.attlen);
	if (wide.size <= plan->size)
		*plan = wide;
}

/* plan->unit_bytes counts the runs that there would be without patches */
static bool
rle_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	const int64 *words = col->words;
	uint64		mask = rose_width_mask(plan->width);
	int			i;

	for (i = plan->n; i < n; i++)
	{
		int64		value = words[i];

		if (i > 0 && value == words[i - 1] && value == plan->last && plan->nunits > 0)
		{
			i = rose_kernel_run_end(words, i + 1, n, value) - 1;
			continue;
		}
		plan->unit_bytes += i == 0 || value != words[i - 1];
		plan->low = Min(plan->low, value);
		plan->high = Max(plan->high, value);
		if (plan->nunits > 0 && value == plan->last)
			continue;
		if ((uint64) rose_wrap_sub(value, plan->base) > mask)
		{
			plan->npatches++;
			continue;
		}
		plan->nunits++;
		plan->last = value;
	}
	plan->n = n;
	rle_resize(plan, col->desc.attlen);
	rle_widen(col, plan);
	return true;
}

/* Follow all values from the first one, under the base and width that are set. */
static bool
rle_start(RoseColumnBuffer *col, RosePlan *plan)
{
	plan->n = 0;
	plan->nunits = 0;
	plan->unit_bytes = 0;
	plan->npatches = 0;
	plan->low = PG_INT64_MAX;
	plan->high = PG_INT64_MIN;
	rle_finish_plan(plan, col->desc.attlen);
	return rle_extend(col, plan, col->nvalues);
}

static bool
rle_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	const RoseWordStats *stats = &request->stats;

	if (stats->nruns < 2 || stats->nruns * 2 >= request->best_size)
		return false;
	plan->base = stats->min;
	plan->width = rose_bits_needed((uint64) rose_wrap_sub(stats->max, stats->min));
	return rle_start(col, plan);
}

static bool
rle_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	plan->base = learned->base;
	plan->width = learned->width;
	return rle_start(col, plan);
}

static char *
rle_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	RosePackScratch *scratch = col->scratch;
	uint64		mask = rose_width_mask(plan->width);
	int			npatches = 0;
	int			nruns = 0;
	int			i;

	/* run ends go to scratch->words, run values to scratch->packed */
	for (i = 0; i < plan->n; i++)
	{
		uint64		offset = (uint64) rose_wrap_sub(col->words[i], plan->base);

		if (offset > mask)
		{
			scratch->patches[npatches].position = i;
			scratch->patches[npatches++].value = col->words[i];
		}
		else if (nruns == 0 || scratch->packed[nruns - 1] != offset)
			scratch->packed[nruns++] = offset;
		if (nruns > 0)
		{
			if (offset <= mask)
				i = rose_kernel_run_end(col->words, i + 1, plan->n, col->words[i]) - 1;
			scratch->words[nruns - 1] = i + 1;
		}
	}

	*out++ = (char) plan->width;
	*out++ = (char) (npatches > 0 ? RLE_PATCHED : 0);
	out = rose_varint_write(out, nruns);
	out = rose_varint_write(out, rose_zigzag_encode(plan->base));
	for (i = 0; i < nruns; i++)
		out = rose_word_store(out, scratch->words[i], 2);
	rose_bitpack_write(out, plan->width, scratch->packed, nruns);
	out += rose_bitpack_size(nruns, plan->width);
	return rose_patches_write(out, scratch->patches, npatches, col->desc.attlen);
}

static const char *
rle_open(RoseSegment *seg)
{
	const char *p = seg->start;
	uint64		nruns;
	uint64		base;
	int			flags;

	if (seg->end - p < 2)
		return "segment is cut off";
	seg->packed.width = (uint8) *p++;
	flags = (uint8) *p++;
	if (seg->packed.width > 64)
		return "bit width is out of range";
	if (flags & ~RLE_PATCHED)
		return "segment has unknown flags";
	if ((p = rose_varint_read(p, seg->end, &nruns)) == NULL ||
		(p = rose_varint_read(p, seg->end, &base)) == NULL)
		return "segment is cut off";
	if (nruns < 1 || nruns > (uint64) seg->n)
		return "number of runs is out of range";
	seg->nunits = (int) nruns;
	seg->packed.base = rose_zigzag_decode(base);
	if (seg->end - p < (ptrdiff_t) (2 * nruns + rose_bitpack_size(nruns, seg->packed.width)))
		return "segment is cut off";
	seg->run_ends = p;
	seg->packed.bits = p + 2 * nruns;
	p = seg->packed.bits + rose_bitpack_size(nruns, seg->packed.width);

	seg->patches.n = 0;
	if (flags & RLE_PATCHED)
		return rose_patches_open(&seg->patches, p, seg->end, seg->n, seg->desc->attlen);
	return NULL;
}

/* The run that value i belongs to; some run, at least, on a bad page. */
static int
find_run(const RoseSegment *seg, int i)
{
	int			lo = 0;
	int			hi = seg->nunits - 1;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (run_end(seg, mid) <= i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int64
rle_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return run_value(seg, find_run(seg, i));
}

static void
rle_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			run = n > 0 ? find_run(seg, from) : 0;
	int			i = 0;

	while (i < n)
	{
		int64		value = run_value(seg, run);
		int			end = run < seg->nunits - 1 ? Min(run_end(seg, run) - from, n) : n;

		while (i < end)
			values[i++] = value;
		if (run < seg->nunits - 1)
			run++;
	}
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

static int
rle_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	int			first;
	int			last;
	int			start;

	if (seg->patches.n > 0 || lo >= hi)
		return rose_codec_lower_bound(seg, lo, hi, value);

	/* the first run in reach whose value is >= value */
	first = find_run(seg, lo);
	last = find_run(seg, hi - 1) + 1;
	while (first < last)
	{
		int			mid = (first + last) / 2;

		if (run_value(seg, mid) < value)
			first = mid + 1;
		else
			last = mid;
	}
	start = first == 0 ? 0 : run_end(seg, first - 1);
	return Max(lo, Min(hi, start));
}

static const char *
rle_check(RoseSegment *seg)
{
	int			run;

	for (run = 0; run < seg->nunits; run++)
	{
		if (run_end(seg, run) <= (run == 0 ? 0 : run_end(seg, run - 1)))
			return "runs do not ascend";
	}
	if (run_end(seg, seg->nunits - 1) != seg->n)
		return "runs do not cover all values";
	return rose_patches_check(&seg->patches, seg->n);
}

const RoseCodec rose_codec_rle = {
	.id = ROSE_CODEC_RLE,
	.name = "rle",
	.plan = rle_plan,
	.extend = rle_extend,
	.follow = rle_follow,
	.pack = rle_pack,
	.open = rle_open,
	.get = rle_get,
	.decode = rle_decode,
	.lower_bound = rle_lower_bound,
	.check = rle_check,
};
