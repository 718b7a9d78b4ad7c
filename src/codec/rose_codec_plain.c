/*-------------------------------------------------------------------------
 *
 * rose_codec_plain.c
 *	  Words as they are: an array of words of the column's width.
 *
 * What everything falls back on, and what a page starts with.
 *
 * Backend-local.  It is taken only if nothing else is smaller, or known yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_codec.h"

static bool
plain_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	plan->n = n;
	plan->size = n * col->desc.attlen;
	return true;
}

static bool
plain_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	plan->value_bits = col->desc.attlen * 8;
	plan->spare = PG_INT32_MAX;
	return plain_extend(col, plan, col->nvalues);
}

static bool
plain_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	return plain_follow(col, NULL, plan);
}

static char *
plain_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_words_store(out, col->words, plan->n, col->desc.attlen);
}

static const char *
plain_open(RoseSegment *seg)
{
	seg->patches.n = 0;
	if (seg->end - seg->start < (ptrdiff_t) seg->n * seg->desc->attlen)
		return "segment is cut off";
	return NULL;
}

static int64
plain_get(const RoseSegment *seg, int i)
{
	return rose_word_load(seg->start + (Size) i * seg->desc->attlen, seg->desc->attlen);
}

static void
plain_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			size = seg->desc->attlen;

	rose_words_load(values, seg->start + (Size) from * size, n, size);
}

static const char *
plain_check(RoseSegment *seg)
{
	return NULL;
}

const RoseCodec rose_codec_plain = {
	.id = ROSE_CODEC_PLAIN,
	.name = "plain",
	.suits = ROSE_SUITS_WORDS,
	.is_last_resort = true,
	.plan = plain_plan,
	.extend = plain_extend,
	.follow = plain_follow,
	.pack = plain_pack,
	.open = plain_open,
	.get = plain_get,
	.decode = plain_decode,
	.lower_bound = rose_codec_lower_bound,
	.check = plain_check,
};
