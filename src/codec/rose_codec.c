/*-------------------------------------------------------------------------
 *
 * rose_codec.c
 *	  The table of codecs, and the choice of one for a column.
 *
 * The chooser lets every codec that suits the column plan for all of its values
 * and takes the smallest, except that one which reads more slowly must be smaller by its
 * handicap.  Plans are cheap to refuse: a codec sees statistics of
 * the column and the best size so far before it looks at any value.  When
 * words stand in long runs only codecs that make use of it are asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_blocks.h"
#include "codec/rose_distinct.h"
#include "codec/rose_kernels.h"
#include "util/rose_varint.h"

/* Runs are long if this many values take part in one on average. */
#define LONG_RUN		16

/* By id.  Frozen: an id is never given to another codec. */
static const RoseCodec *const codecs[ROSE_NUM_CODECS] = {
	[ROSE_CODEC_CONSTANT] = &rose_codec_constant,
	[ROSE_CODEC_PLAIN] = &rose_codec_plain,
	[ROSE_CODEC_FRAME] = &rose_codec_frame,
	[ROSE_CODEC_LINEAR] = &rose_codec_linear,
	[ROSE_CODEC_DELTA] = &rose_codec_delta,
	[ROSE_CODEC_RLE] = &rose_codec_rle,
	[ROSE_CODEC_DICT] = &rose_codec_dict,
	[ROSE_CODEC_DECIMAL] = &rose_codec_decimal,
	[ROSE_CODEC_ITEM_PLAIN] = &rose_codec_item_plain,
	[ROSE_CODEC_ITEM_DICT] = &rose_codec_item_dict,
	[ROSE_CODEC_ITEM_LZ4] = &rose_codec_item_lz4,
	[ROSE_CODEC_ITEM_PREFIX] = &rose_codec_item_prefix,
	[ROSE_CODEC_ITEM_CHARS] = &rose_codec_item_chars,
};

/* In the order in which they are tried: cheap and likely first. */
static const RoseCodec *const word_candidates[] = {
	&rose_codec_plain,
	&rose_codec_frame,
	&rose_codec_linear,
	&rose_codec_rle,
	&rose_codec_decimal,
	&rose_codec_dict,
	&rose_codec_delta,
};

static const RoseCodec *const item_candidates[] = {
	&rose_codec_item_dict,
	&rose_codec_item_plain,
	&rose_codec_item_prefix,
	&rose_codec_item_chars,
	&rose_codec_item_lz4,
};

RoseColumnDesc
rose_column_desc(int16 attlen, bool attbyval, char attalign, bool is_float)
{
	RoseColumnDesc desc;

	desc.attlen = attlen;
	desc.attbyval = attbyval;
	desc.attalign = attalign;
	desc.long_headers = false;
	if (attbyval)
		desc.kind = is_float ? ROSE_COLUMN_FLOAT : ROSE_COLUMN_INT;
	else if (attlen == -1)
		desc.kind = ROSE_COLUMN_VARLEN;
	else if (attlen == -2)
		desc.kind = ROSE_COLUMN_CSTRING;
	else
		desc.kind = ROSE_COLUMN_FIXED;
	return desc;
}

const RoseCodec *
rose_codec_lookup(int id)
{
	return id > 0 && id < ROSE_NUM_CODECS ? codecs[id] : NULL;
}

bool
rose_codec_suits(const RoseCodec *codec, const RoseColumnDesc *desc)
{
	if (codec == &rose_codec_item_prefix || codec == &rose_codec_item_chars)
		return desc->kind == ROSE_COLUMN_VARLEN;
	if (codec->get_item != NULL)
		return !desc->attbyval;
	return desc->attbyval &&
		(codec != &rose_codec_decimal || desc->kind == ROSE_COLUMN_FLOAT);
}

void
rose_codec_plan_empty(const RoseColumnBuffer *col, RosePlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->spare = PG_INT32_MAX;
	plan->headroom = BLCKSZ;
	if (col->is_words)
	{
		plan->codec = &rose_codec_plain;
		plan->value_bits = col->desc.attlen * 8;
	}
	else
	{
		RosePlanRequest request = {.headroom = BLCKSZ};

		rose_codec_item_plain.plan((RoseColumnBuffer *) col, &request, plan);
		plan->codec = &rose_codec_item_plain;
	}
}

static void
gather_word_stats(const RoseColumnBuffer *col, RoseWordStats *stats)
{
	stats->min = stats->max = col->words[0];
	rose_kernel_bounds(col->words, col->nvalues, &stats->min, &stats->max);
	stats->nruns = 1 + rose_kernel_changes(col->words, col->nvalues);
}

bool
rose_codec_choose(RoseColumnBuffer *col, bool tight, int headroom, int negligible, RosePlan *best)
{
	const RoseCodec *const *candidates = col->is_words ? word_candidates : item_candidates;
	int			ncandidates = col->is_words ? lengthof(word_candidates) : lengthof(item_candidates);
	RosePlanRequest request;
	int			best_cost = PG_INT32_MAX;
	bool		long_runs = false;
	int			k;

	if (col->nvalues == 0)
	{
		rose_codec_plan_empty(col, best);
		return true;
	}
	memset(&request, 0, sizeof(request));
	request.tight = tight;
	request.headroom = headroom;
	request.best_size = PG_INT32_MAX;
	if (col->is_words)
	{
		gather_word_stats(col, &request.stats);
		long_runs = request.stats.nruns <= col->nvalues / LONG_RUN;
	}

	best->codec = NULL;
	for (k = 0; k < ncandidates; k++)
	{
		RosePlan	plan;
		int			cost;

		if (!rose_codec_suits(candidates[k], &col->desc))
			continue;
		if (long_runs && candidates[k] != &rose_codec_frame && candidates[k] != &rose_codec_rle)
			continue;
		memset(&plan, 0, sizeof(plan));
		plan.codec = candidates[k];
		plan.n = col->nvalues;
		if (!candidates[k]->plan(col, &request, &plan))
			continue;
		cost = plan.size + plan.size * candidates[k]->handicap / 16;
		if (cost < best_cost)
		{
			best_cost = cost;
			*best = plan;
			request.best_size = Min(request.best_size, plan.size);
		}
		/* nothing beats a constant, nor is there much to gain in so few bytes */
		if (col->is_words && candidates[k] != &rose_codec_plain &&
			(request.stats.nruns == 1 || best->size <= negligible))
			break;
	}
	return best->codec != NULL;
}

bool
rose_codec_follow(RoseColumnBuffer *col, const RosePlan *learned, bool tight, int headroom,
				  RosePlan *plan)
{
	RosePlanRequest request;

	memset(plan, 0, sizeof(*plan));
	plan->codec = learned->codec;
	plan->n = col->nvalues;
	if (learned->codec->follow != NULL)
		return learned->codec->follow(col, learned, plan);
	memset(&request, 0, sizeof(request));
	request.tight = tight;
	request.headroom = headroom;
	request.best_size = PG_INT32_MAX;
	return learned->codec->plan(col, &request, plan);
}

void
rose_column_buffer_restore(RoseColumnBuffer *col, int nvalues, const RosePlan *plan)
{
	uint32		raw_size;

	Assert(plan->n <= nvalues && nvalues <= col->nvalues);
	col->nvalues = nvalues;
	col->plan = *plan;
	rose_distinct_truncate(col->distinct, col, nvalues);
	if (col->is_words)
		return;
	raw_size = nvalues == 0 ? 0 : col->ends[nvalues - 1];
	rose_blocks_truncate(col->blocks, raw_size, plan->codec == &rose_codec_item_lz4 ?
						 rose_codec_item_lz4_closed_blocks(plan) : PG_INT32_MAX);
}

void
rose_column_buffer_reset(RoseColumnBuffer *col)
{
	col->nvalues = 0;
	rose_distinct_reset(col->distinct);
	if (!col->is_words)
		rose_blocks_reset(col->blocks);
	rose_codec_plan_empty(col, &col->plan);
}

void
rose_column_buffer_init(RoseColumnBuffer *col, const RoseColumnDesc *desc,
						RosePackScratch *scratch, MemoryContext context)
{
	memset(col, 0, sizeof(*col));
	col->desc = *desc;
	col->is_words = desc->attbyval;
	col->scratch = scratch;
	col->context = context;
	col->distinct = rose_distinct_create(context);
	if (!col->is_words)
		col->blocks = rose_blocks_create(context);
	rose_column_buffer_reset(col);
}

char *
rose_words_store(char *out, const int64 *words, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				rose_word_store(out + i, words[i], 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				rose_word_store(out + 2 * i, words[i], 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				rose_word_store(out + 4 * i, words[i], 4);
			break;
		default:
			memcpy(out, words, n * sizeof(int64));
			break;
	}
	return out + (Size) n * size;
}

void
rose_words_load(int64 *words, const char *p, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + i, 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 2 * i, 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 4 * i, 4);
			break;
		default:
			memcpy(words, p, n * sizeof(int64));
			break;
	}
}

int
rose_codec_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (seg->codec->get(seg, mid) < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void
rose_codec_corrupt(const RoseSegment *seg, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupt rose page: %s", problem),
			 errdetail("A column encoded with codec \"%s\" cannot be read.",
					   seg->codec != NULL ? seg->codec->name : "none")));
}

const char *
rose_codec_open_dictionary(RoseSegment *seg, const char **after)
{
	const char *p = seg->start;
	uint64		count;

	if (seg->end - p < 2)
		return "segment is cut off";
	seg->code_width = (uint8) *p++;
	if (seg->code_width > 16)
		return "bit width is out of range";
	if ((p = rose_varint_read(p, seg->end, &count)) == NULL)
		return "segment is cut off";
	if (count < 1 || count > ROSE_DISTINCT_MAX)
		return "number of dictionary entries is out of range";
	seg->nunits = (int) count;
	*after = p;
	return NULL;
}
