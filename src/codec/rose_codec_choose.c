/*-------------------------------------------------------------------------
 *
 * rose_codec_choose.c
 *	  Which codec a column of a page gets.
 *
 * Every codec that suits the column plans for all of its values, and the smallest plan is
 * taken, except that a codec which reads more slowly must be smaller by its handicap.
 * Plans are cheap to refuse: a codec sees statistics of the column and the best size so
 * far before it looks at any value.  When words stand in long runs only codecs that make
 * use of it are asked.
 *
 * With little effort codecs that are slow to write are asked only if no other one can
 * have the values.  With much effort the smallest plan is taken, however slowly it reads.
 *
 * When a page is like the one before, the codec that did well there is followed, and
 * nothing is chosen.  Who asks for a choice, and when, is page/rose_page_plan.c's.
 *
 * No locks; everything is private to a backend.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_codec.h"
#include "codec/rose_kernels.h"

/* Runs are long if this many values take part in one on average. */
#define LONG_RUN		16

/* Codecs with more handicap than that are slow to write, too. */
#define CHEAP_HANDICAP	1

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

/* Ask candidates, but those with more handicap than that. */
static bool
choose_among(RoseColumnBuffer *col, RosePlanRequest *request, int max_handicap,
			 int negligible, RoseEffort effort, RosePlan *best)
{
	const RoseCodec *const *candidates = col->is_words ? word_candidates : item_candidates;
	int			ncandidates = col->is_words ? lengthof(word_candidates) : lengthof(item_candidates);
	bool		long_runs = col->is_words && request->stats.nruns <= col->nvalues / LONG_RUN;
	int			best_cost = PG_INT32_MAX;

	best->codec = NULL;
	for (int k = 0; k < ncandidates; k++)
	{
		RosePlan	plan;
		int			cost;

		if (!rose_codec_suits(candidates[k], &col->desc) ||
			candidates[k]->handicap > max_handicap)
			continue;
		if (long_runs && !candidates[k]->likes_runs)
			continue;
		memset(&plan, 0, sizeof(plan));
		plan.codec = candidates[k];
		plan.n = col->nvalues;
		if (!candidates[k]->plan(col, request, &plan))
			continue;
		cost = plan.size;
		if (effort != ROSE_EFFORT_HIGH)
			cost += plan.size * candidates[k]->handicap / 16;
		if (cost < best_cost)
		{
			best_cost = cost;
			*best = plan;
			request->best_size = Min(request->best_size, plan.size);
		}
		/* nothing beats a constant, nor is there much to gain in so few bytes */
		if (col->is_words && !candidates[k]->is_last_resort &&
			(request->stats.nruns == 1 || best->size <= negligible))
			break;
	}
	return best->codec != NULL;
}

bool
rose_codec_choose(RoseColumnBuffer *col, bool tight, int headroom, int negligible,
				  RoseEffort effort, RosePlan *best)
{
	RosePlanRequest request;

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
		gather_word_stats(col, &request.stats);

	if (effort == ROSE_EFFORT_LOW &&
		choose_among(col, &request, CHEAP_HANDICAP, negligible, effort, best))
		return true;
	return choose_among(col, &request, PG_INT32_MAX, negligible, effort, best);
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

const RoseCodec *
rose_codec_to_write(const RosePlan *plan, int64 *value)
{
	if (plan->codec->is_constant != NULL && plan->codec->is_constant(plan, value))
		return &rose_codec_constant;
	return plan->codec;
}
