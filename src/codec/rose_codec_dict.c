/*-------------------------------------------------------------------------
 *
 * rose_codec_dict.c
 *	  Words as codes of a dictionary in the page.
 *
 *		uint8	width			bits of a code
 *		varint	count
 *		word	entry[count]	ascending, so that codes sort as values do
 *		bits	n codes
 *
 * Backend-local.  Finding the distinct values, and giving up when they are many, is
 * rose_distinct.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_bitpack.h"
#include "util/rose_varint.h"
#include "codec/rose_distinct.h"
#include "codec/rose_kernels.h"

/* Bytes before the entries, with the count at its longest. */
#define DICT_HEADER_SIZE	(1 + 2)

/* Codes looked at together for their extremes. */
#define EXTREMES_CHUNK		256

/* Up to so many entries are put in order by comparing each with each, which needs no branches. */
#define MAX_COUNTED			128

StaticAssertDecl(ROSE_DISTINCT_MAX < (1 << 14), "a count takes two bytes at most");

static bool
dict_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseDictPlan *own = &plan->own.dict;

	/* reach() may have looked further */
	if (rose_distinct_seen(col->distinct) > n)
		rose_distinct_truncate(col->distinct, col, n);
	if (!rose_distinct_extend(col->distinct, col, n))
		return false;
	own->nentries = rose_distinct_count(col->distinct);
	if (own->nentries > (1 << own->width))
		return false;
	plan->n = n;
	plan->size = DICT_HEADER_SIZE + own->nentries * col->desc.attlen +
		(int) rose_bitpack_size(n, own->width);
	plan->spare = Min((1 << own->width) - own->nentries, rose_distinct_room(col->distinct));
	return true;
}

/* A value that is known takes a code, a new one makes an entry, too. */
static int
dict_reach(RoseColumnBuffer *col, const RosePlan *plan, RoseAnchorsAhead *ahead, int n, int *bits)
{
	*bits = 0;
	return rose_distinct_reach(col->distinct, col, n, 1 << plan->own.dict.width);
}

/* Cover all values, with codes of at least min_width bits. */
static bool
dict_start(RoseColumnBuffer *col, RosePlan *plan, bool tight, int min_width)
{
	RoseDictPlan *own = &plan->own.dict;
	int			count;

	if (!rose_distinct_extend(col->distinct, col, col->nvalues))
		return false;
	count = rose_distinct_count(col->distinct);

	/* unless the page is nearly full leave room for some new values */
	if (!tight)
		count = Min(count + count / 8 + 1, ROSE_DISTINCT_MAX);
	own->width = Max(min_width, rose_bits_needed(count - 1));
	plan->value_bits = own->width + col->desc.attlen * 8 + 8;
	plan->usual.kind = ROSE_USUAL_KNOWN;
	plan->usual.bits = own->width;
	plan->usual.unusual_bits = col->desc.attlen * 8;
	plan->usual.slack = 8;
	return dict_extend(col, plan, col->nvalues);
}

static bool
dict_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	if (request->stats.nruns < 2 ||
		(int) rose_bitpack_size(col->nvalues, 1) >= request->best_size)
		return false;
	return dict_start(col, plan, request->tight, 0);
}

/* There will be as many entries as on the page before. */
static bool
dict_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	return dict_start(col, plan, true, learned->own.dict.width);
}

/* The rank of an entry is the number of smaller ones. */
static void
rank_by_counting(const RoseColumnBuffer *col, int count, int64 *entries, uint16 *rank)
{
	int64		values[MAX_COUNTED];
	int			code;

	for (code = 0; code < count; code++)
		values[code] = col->words[rose_distinct_first(col->distinct, code)];
	for (code = 0; code < count; code++)
	{
		rank[code] = (uint16) rose_kernel_count_below(values, count, values[code]);
		entries[rank[code]] = values[code];
	}
}

/* Order the entries; rank[code] is where a code of the distinct set went. */
static void
sort_entries(const RoseColumnBuffer *col, int count, int64 *entries, uint16 *rank)
{
	int			order[ROSE_DISTINCT_MAX];
	int			code;
	int			k;

	if (count <= MAX_COUNTED)
	{
		rank_by_counting(col, count, entries, rank);
		return;
	}
	/* binary insertion: few entries, and mostly met in some order */
	for (code = 0; code < count; code++)
	{
		int64		value = col->words[rose_distinct_first(col->distinct, code)];
		int			lo = 0;
		int			hi = code;

		while (lo < hi)
		{
			int			mid = (lo + hi) / 2;

			if (entries[mid] < value)
				lo = mid + 1;
			else
				hi = mid;
		}
		memmove(&entries[lo + 1], &entries[lo], (code - lo) * sizeof(int64));
		memmove(&order[lo + 1], &order[lo], (code - lo) * sizeof(int));
		entries[lo] = value;
		order[lo] = code;
	}
	for (k = 0; k < count; k++)
		rank[order[k]] = (uint16) k;
}

static char *
dict_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	const RoseDictPlan *own = &plan->own.dict;
	int64		entries[ROSE_DISTINCT_MAX];
	uint16		rank[ROSE_DISTINCT_MAX];
	const uint16 *codes;
	int			count;
	int			i;

	rose_distinct_truncate(col->distinct, col, plan->n);
	codes = rose_distinct_codes(col->distinct);
	count = rose_distinct_count(col->distinct);
	sort_entries(col, count, entries, rank);

	*out++ = (char) own->width;
	out = rose_varint_write(out, count);
	for (i = 0; i < count; i++)
		out = rose_word_store(out, entries[i], col->desc.attlen);
	for (i = 0; i < plan->n; i++)
		col->scratch->packed[i] = rank[codes[i]];
	rose_bitpack_write(out, own->width, col->scratch->packed, plan->n);
	return out + rose_bitpack_size(plan->n, own->width);
}

static const char *
dict_open(RoseSegment *seg)
{
	const char *p;
	const char *problem = rose_codec_open_dictionary(seg, &p);

	seg->patches.n = 0;
	if (problem != NULL)
		return problem;
	if ((Size) (seg->end - p) < (Size) seg->nunits * seg->desc->attlen +
		rose_bitpack_size(seg->n, seg->code_width))
		return "segment is cut off";
	seg->values = p;
	seg->codes = p + (Size) seg->nunits * seg->desc->attlen;
	return NULL;
}

static inline int64
entry_at(const RoseSegment *seg, uint64 code)
{
	if (code >= (uint64) seg->nunits)
		rose_codec_corrupt(seg, "dictionary code is out of range");
	return rose_word_load(seg->values + code * seg->desc->attlen, seg->desc->attlen);
}

static int64
dict_get(const RoseSegment *seg, int i)
{
	return entry_at(seg, rose_bitpack_get(seg->codes, seg->code_width, i));
}

static void
dict_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			i;

	rose_bitpack_read(seg->codes, seg->code_width, from, n, (uint64 *) values);
	for (i = 0; i < n; i++)
		values[i] = entry_at(seg, (uint64) values[i]);
}

static bool
dict_bounds(const RoseSegment *seg, int64 *min, int64 *max)
{
	*min = entry_at(seg, 0);
	*max = entry_at(seg, seg->nunits - 1);
	return *min <= *max;
}

/* Codes sort as values do. */
static bool
dict_extremes(const RoseSegment *seg, int from, int n, int64 *min, int64 *max)
{
	uint64		codes[EXTREMES_CHUNK];
	uint32		high = 0;
	uint32		low = PG_UINT32_MAX;

	for (int done = 0; done < n; done += EXTREMES_CHUNK)
	{
		int			m = Min(n - done, EXTREMES_CHUNK);
		uint32		chunk_high;
		uint32		chunk_low;
		int			nzeros;

		rose_bitpack_read(seg->codes, seg->code_width, from + done, m, codes);
		rose_kernel_narrow_bounds(codes, m, &chunk_high, &chunk_low, &nzeros);
		high = Max(high, chunk_high);
		low = Min(low, nzeros > 0 ? 0 : chunk_low);
	}
	*min = entry_at(seg, low);
	*max = entry_at(seg, high);
	return true;
}

static const char *
dict_check(RoseSegment *seg)
{
	int			i;

	for (i = 1; i < seg->nunits; i++)
	{
		if (entry_at(seg, i - 1) >= entry_at(seg, i))
			return "dictionary does not ascend";
	}
	for (i = 0; i < seg->n; i++)
	{
		if (rose_bitpack_get(seg->codes, seg->code_width, i) >= (uint64) seg->nunits)
			return "dictionary code is out of range";
	}
	return NULL;
}

const RoseCodec rose_codec_dict = {
	.id = ROSE_CODEC_DICT,
	.name = "dict",
	.suits = ROSE_SUITS_WORDS,
	.handicap = 1,
	.plan = dict_plan,
	.extend = dict_extend,
	.reach = dict_reach,
	.follow = dict_follow,
	.pack = dict_pack,
	.open = dict_open,
	.get = dict_get,
	.decode = dict_decode,
	.lower_bound = rose_codec_lower_bound,
	.bounds = dict_bounds,
	.extremes = dict_extremes,
	.check = dict_check,
};
