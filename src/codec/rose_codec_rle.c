/*-------------------------------------------------------------------------
 *
 * rose_codec_rle.c
 *	  Words as runs of equal values.
 *
 *		uint8	width		bits of a packed run value
 *		uint8	flags		1: patched
 *		uint8	shift		of the positions
 *		varint	nruns
 *		varint	base		zigzag
 *		positions			where each run but the first begins (rose_positions.h)
 *		bits	nruns values of width bits, to be added to base
 *		patches				of run values, by the number of the run
 *
 * Backend-local.  Finding runs is rose_kernels.h's; a column of one value is a frame's
 * business (rose_codec_frame.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_bitpack.h"
#include "util/rose_varint.h"
#include "codec/rose_codec.h"
#include "codec/rose_kernels.h"
#include "codec/rose_positions.h"

#define RLE_PATCHED		0x01

/* Longer runs are worth the vector unit. */
#define SHORT_RUN		12

/* Values of a run that are filled in without looking at its length. */
#define FILLED_AT_ONCE	8

/* Runs that are unpacked at a time. */
#define RUNS_DECODED	64

/* The first i in [from, n) with words[i] != value, or n. */
static inline int
run_end(const int64 *words, int from, int n, int64 value)
{
	int			short_end = Min(n, from + SHORT_RUN);
	int			i = from;

	while (i < short_end && words[i] == value)
		i++;
	return i == short_end ? rose_kernel_run_end(words, i, n, value) : i;
}

static void
rle_resize(RosePlan *plan, int word_size)
{
	RoseRlePlan *own = &plan->own.rle;

	plan->size = own->header +
		rose_positions_size(plan->n, Max(own->nruns - 1, 0), own->position_shift) +
		(int) rose_bitpack_size(own->nruns, own->width) +
		rose_patches_size(own->npatches, word_size);
	plan->usual.unusual_bits = own->position_shift + own->width +
		rose_patch_further_bits(own->npatches, word_size);
}

/* Set what depends on base, width and shift. */
static void
rle_finish_plan(RosePlan *plan, int word_size)
{
	RoseRlePlan *own = &plan->own.rle;

	/* nruns may grow, so take its varint at its longest */
	own->header = 3 + 3 + rose_varint_size(rose_zigzag_encode(own->base));
	/* bytes more where bits are rounded up to whole bytes, and an entry of the directory */
	plan->value_bits = own->position_shift + own->width + rose_patch_bits(word_size) + 1 + 32;
	plan->spare = PG_INT32_MAX;
	plan->usual.step = 1;
	plan->usual.kind = ROSE_USUAL_DIFFERENCE;
	plan->usual.base = 0;
	plan->usual.top = 0;
	plan->usual.bits = 1;
	plan->usual.slack = 32;
	rle_resize(plan, word_size);
}

/* Make room for the values of all runs, low to high, if that takes less. */
static void
rle_widen(const RoseColumnBuffer *col, RosePlan *plan)
{
	RoseRlePlan *own = &plan->own.rle;
	RosePlan	wide = *plan;

	if (own->npatches == 0)
		return;
	wide.own.rle.base = own->low;
	wide.own.rle.width = rose_bits_needed((uint64) rose_wrap_sub(own->high, own->low));
	wide.own.rle.npatches = 0;
	rle_finish_plan(&wide, col->desc.attlen);
	if (wide.size <= plan->size)
		*plan = wide;
}

static bool
rle_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseRlePlan *own = &plan->own.rle;
	const int64 *words = col->words;
	uint64		mask = rose_width_mask(own->width);
	int			i = plan->n;

	for (;;)
	{
		int64		value;

		if (i > 0)
			i = run_end(words, i, n, words[i - 1]);
		if (i >= n)
			break;
		value = words[i++];
		own->nruns++;
		own->low = Min(own->low, value);
		own->high = Max(own->high, value);
		if ((uint64) rose_wrap_sub(value, own->base) > mask)
			own->npatches++;
	}
	plan->n = n;
	rle_resize(plan, col->desc.attlen);
	rle_widen(col, plan);
	return true;
}

/* Follow all values from the first one, under the base, width and shift that are set. */
static bool
rle_start(RoseColumnBuffer *col, RosePlan *plan)
{
	RoseRlePlan *own = &plan->own.rle;

	plan->n = 0;
	own->nruns = 0;
	own->npatches = 0;
	own->low = PG_INT64_MAX;
	own->high = PG_INT64_MIN;
	rle_finish_plan(plan, col->desc.attlen);
	return rle_extend(col, plan, col->nvalues);
}

static bool
rle_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseRlePlan *own = &plan->own.rle;
	const RoseWordStats *stats = &request->stats;

	/* a run takes some bits more than a value in a frame */
	if (stats->nruns < 2 || stats->nruns / 2 >= request->best_size ||
		stats->nruns > col->nvalues - col->nvalues / 4)
		return false;
	own->base = stats->min;
	own->width = rose_bits_needed((uint64) rose_wrap_sub(stats->max, stats->min));
	own->position_shift = rose_positions_shift(col->nvalues, stats->nruns);
	return rle_start(col, plan);
}

static bool
rle_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	RoseRlePlan *own = &plan->own.rle;

	own->base = learned->own.rle.base;
	own->width = learned->own.rle.width;
	own->position_shift = learned->own.rle.position_shift;
	return rle_start(col, plan);
}

static char *
rle_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	const RoseRlePlan *own = &plan->own.rle;
	RosePackScratch *scratch = col->scratch;
	uint64		mask = rose_width_mask(own->width);
	int			npatches = 0;
	int			nruns = 0;
	int			i = 0;

	while (i < plan->n)
	{
		int64		value = col->words[i];
		uint64		offset = (uint64) rose_wrap_sub(value, own->base);

		if (nruns > 0)
			scratch->positions[nruns - 1] = (uint64) i;
		scratch->packed[nruns] = offset;
		if (offset > mask)
		{
			scratch->packed[nruns] = 0;
			scratch->patches[npatches].position = nruns;
			scratch->patches[npatches++].value = value;
		}
		nruns++;
		i = run_end(col->words, i + 1, plan->n, value);
	}

	*out++ = (char) own->width;
	*out++ = (char) (npatches > 0 ? RLE_PATCHED : 0);
	*out++ = (char) own->position_shift;
	out = rose_varint_write(out, nruns);
	out = rose_varint_write(out, rose_zigzag_encode(own->base));
	out = rose_positions_write(out, scratch->positions, nruns - 1, plan->n, own->position_shift);
	rose_bitpack_write(out, own->width, scratch->packed, nruns);
	out += rose_bitpack_size(nruns, own->width);
	return rose_patches_write(out, scratch->patches, npatches, col->desc.attlen);
}

static const char *
rle_open(RoseSegment *seg)
{
	const char *p = seg->start;
	const char *problem;
	uint64		nruns;
	uint64		base;
	int			flags;
	int			shift;

	if (seg->end - p < 3)
		return "segment is cut off";
	seg->packed.width = (uint8) *p++;
	flags = (uint8) *p++;
	shift = (uint8) *p++;
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
	problem = rose_positions_open(&seg->packed.positions, p, seg->end, seg->n, seg->nunits - 1,
								  shift, &p);
	if (problem != NULL)
		return problem;
	if (seg->end - p < (ptrdiff_t) rose_bitpack_size(nruns, seg->packed.width))
		return "segment is cut off";
	seg->packed.bits = p;
	p += rose_bitpack_size(nruns, seg->packed.width);

	seg->patches.n = 0;
	if (flags & RLE_PATCHED)
		return rose_patches_open(&seg->patches, p, seg->end, seg->nunits, seg->desc->attlen);
	return NULL;
}

/* The run that value i belongs to. */
static inline int
find_run(const RoseSegment *seg, int i)
{
	return rose_positions_rank(&seg->packed.positions, i + 1);
}

static inline int64
run_value(const RoseSegment *seg, int run)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, run, &value))
		return value;
	return rose_wrap_add(seg->packed.base,
						 (int64) rose_bitpack_get(seg->packed.bits, seg->packed.width, run));
}

static int64
rle_get(const RoseSegment *seg, int i)
{
	return run_value(seg, find_run(seg, i));
}

/* The values of runs [run, run + n). */
static void
read_run_values(const RoseSegment *seg, int run, int n, int64 *values)
{
	int			k;

	rose_bitpack_read(seg->packed.bits, seg->packed.width, run, n, (uint64 *) values);
	for (k = 0; k < n; k++)
		values[k] = rose_wrap_add(values[k], seg->packed.base);
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, run, n, values);
}

/*
 * Fill values[i .. end), of n; returns where it ends, which is no less than i even on a
 * bad page.  Most runs are shorter than FILLED_AT_ONCE, which spares a branch for each
 * length; what is filled too much belongs to the runs that follow.
 */
static inline int
fill_run(int64 *values, int i, int end, int n, int64 value)
{
	if (n - i >= FILLED_AT_ONCE)
	{
		int			k;

		for (k = 0; k < FILLED_AT_ONCE; k++)
			values[i + k] = value;
		if (end - i <= FILLED_AT_ONCE)
			return Max(i, end);
		i += FILLED_AT_ONCE;
	}
	while (i < end)
		values[i++] = value;
	return i;
}

static void
rle_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	const RosePositions *positions = &seg->packed.positions;
	int64		run_values[RUNS_DECODED];
	uint64		places[RUNS_DECODED];
	int			bucket = from >> positions->shift;
	int			next_bucket = rose_positions_before(positions, bucket + 1);
	int			run = n > 0 ? find_run(seg, from) : 0;
	int			last = n > 0 ? find_run(seg, from + n - 1) : -1;
	int			i = 0;

	/* on a bad page the last run may lie before the first one */
	while (run < last)
	{
		int			m = Min(last - run, RUNS_DECODED);
		int			k;

		read_run_values(seg, run, m, run_values);
		rose_bitpack_read(positions->places, positions->shift, run, m, places);
		for (k = 0; k < m; k++, run++)
		{
			int			end;

			while (next_bucket <= run && bucket + 1 < positions->nbuckets)
				next_bucket = rose_positions_before(positions, ++bucket + 1);
			end = Min((bucket << positions->shift) + (int) places[k] - from, n);
			i = fill_run(values, i, end, n, run_values[k]);
		}
	}
	if (i < n)
	{
		int64		value = run_value(seg, run);

		while (i < n)
			values[i++] = value;
	}
}

/* On a bad page runs may be empty, or end before others: these are left out. */
static int
rle_runs(const RoseSegment *seg, int from, int n, int max_runs, int64 *values, uint16 *starts)
{
	const RosePositions *positions = &seg->packed.positions;
	int			run = find_run(seg, from);
	int			last = find_run(seg, from + n - 1);
	int			bucket = from >> positions->shift;
	int			nruns = 0;
	int			i = 0;

	if (last - run >= max_runs)
		return 0;
	while (run < last)
	{
		int			m = Min(last - run, RUNS_DECODED);
		int64		run_values[RUNS_DECODED];

		read_run_values(seg, run, m, run_values);
		for (int k = 0; k < m; k++, run++)
		{
			int			end = Min(rose_positions_next(positions, run, &bucket) - from, n);

			values[nruns] = run_values[k];
			starts[nruns] = (uint16) i;
			nruns += end > i;
			i = Max(i, end);
		}
	}
	if (i < n)
	{
		values[nruns] = run_value(seg, run);
		starts[nruns++] = (uint16) i;
	}
	return nruns;
}

/* Those of the runs. */
static bool
rle_extremes(const RoseSegment *seg, int from, int n, int64 *min, int64 *max)
{
	int64		run_values[RUNS_DECODED];
	int			run = find_run(seg, from);
	int			last = find_run(seg, from + n - 1);

	*min = *max = run_value(seg, last);
	while (run < last)
	{
		int			m = Min(last - run, RUNS_DECODED);

		read_run_values(seg, run, m, run_values);
		rose_kernel_bounds(run_values, m, min, max);
		run += m;
	}
	return true;
}

static int
rle_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	const RosePositions *positions = &seg->packed.positions;
	int			first;
	int			last;
	int			start = 0;

	if (lo >= hi)
		return lo;

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
	if (first > positions->n)
		return hi;
	if (first > 0)
	{
		int			bucket = rose_positions_bucket(positions, first - 1);

		start = rose_positions_next(positions, first - 1, &bucket);
	}
	return Max(lo, Min(hi, start));
}

static const char *
rle_check(RoseSegment *seg)
{
	const char *problem = rose_positions_check(&seg->packed.positions, seg->n);

	if (problem == NULL && seg->nunits > 1)
	{
		int			bucket = 0;

		if (rose_positions_next(&seg->packed.positions, 0, &bucket) == 0)
			problem = "first run is empty";
	}
	return problem != NULL ? problem : rose_patches_check(&seg->patches, seg->nunits);
}

const RoseCodec rose_codec_rle = {
	.id = ROSE_CODEC_RLE,
	.name = "rle",
	.suits = ROSE_SUITS_WORDS,
	.likes_runs = true,
	.plan = rle_plan,
	.extend = rle_extend,
	.follow = rle_follow,
	.pack = rle_pack,
	.open = rle_open,
	.get = rle_get,
	.decode = rle_decode,
	.runs = rle_runs,
	.extremes = rle_extremes,
	.lower_bound = rle_lower_bound,
	.check = rle_check,
};
