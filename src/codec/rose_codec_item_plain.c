/*-------------------------------------------------------------------------
 *
 * rose_codec_item_plain.c
 *	  Items as they are: an index, and the raw area (rose_items.h).
 *
 *		item index
 *		zero bytes up to the alignment of the items, counted from the page's start
 *		raw area
 *
 * Values are read in place.
 *
 * Backend-local.  What every column of items falls back on, and what a page starts with.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_items.h"

static bool
item_plain_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseItemPlainPlan *own = &plan->own.item_plain;
	uint32		raw_size = n == 0 ? 0 : col->ends[n - 1];
	int			i;

	if (own->stride > 1)
	{
		for (i = plan->n; i < n; i++)
		{
			if (col->ends[i] - rose_item_start(col, i) < (uint32) own->stride)
				return false;
		}
	}
	if (raw_size - (uint64) n * (uint64) own->stride > rose_width_mask(own->width))
		return false;
	plan->n = n;
	plan->size = own->header + (int) rose_bitpack_size(n, own->width) + (int) raw_size;
	return true;
}

static bool
item_plain_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseItemPlainPlan *own = &plan->own.item_plain;
	int			n = col->nvalues;
	uint32		raw_size = n == 0 ? 0 : col->ends[n - 1];

	if (raw_size > BLCKSZ)
		return false;

	/* a single byte, or what all items have, is always safe to count on */
	plan->spare = PG_INT32_MAX;
	own->stride = 1;
	if (col->desc.kind == ROSE_COLUMN_FIXED)
		own->stride = TYPEALIGN(rose_item_alignment(&col->desc), col->desc.attlen);
	else if (request->tight)
	{
		own->stride = rose_items_min_size(col, n);
		plan->spare = 0;
	}
	own->width = rose_bits_needed(raw_size - (uint64) n * (uint64) own->stride +
								  (plan->spare > 0 ? request->headroom : 0));
	if (col->desc.kind == ROSE_COLUMN_FIXED)
		own->width = 0;
	plan->headroom = request->headroom;
	own->header = ROSE_ITEM_INDEX_HEADER + (int) rose_item_alignment(&col->desc) - 1;
	plan->value_bits = own->width + 8;
	return item_plain_extend(col, plan, n);
}

static char *
item_plain_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	uint32		raw_size = plan->n == 0 ? 0 : col->ends[plan->n - 1];
	char	   *raw;

	out = rose_item_index_write(out, col->scratch, col->ends, plan->n);
	raw = page + TYPEALIGN(rose_item_alignment(&col->desc), out - page);
	memset(out, 0, raw - out);
	memcpy(raw, col->items, raw_size);
	return raw + raw_size;
}

static const char *
item_plain_open(RoseSegment *seg)
{
	const char *p;
	const char *problem;

	problem = rose_item_index_open(&seg->index, seg->n, BLCKSZ, seg->start, seg->end, &p);
	if (problem != NULL)
		return problem;
	seg->raw = seg->image + TYPEALIGN(rose_item_alignment(seg->desc), p - seg->image);
	if (seg->end - seg->raw < (ptrdiff_t) seg->index.raw_size)
		return "items are cut off";
	return NULL;
}

static const char *
item_plain_get(RoseSegment *seg, int i, uint32 *size)
{
	uint32		start;
	uint32		end;

	rose_item_index_get(seg, &seg->index, (uint32) i, &start, &end);
	*size = end - start;
	return seg->raw + start;
}

static void
item_plain_decode(RoseSegment *seg, int from, int n, Datum *values)
{
	rose_item_index_decode(seg, &seg->index, from, n, values);
}

static const char *
item_plain_check(RoseSegment *seg)
{
	return rose_item_index_check(&seg->index);
}

const RoseCodec rose_codec_item_plain = {
	.id = ROSE_CODEC_ITEM_PLAIN,
	.name = "item_plain",
	.suits = ROSE_SUITS_ITEMS,
	.plan = item_plain_plan,
	.extend = item_plain_extend,
	.pack = item_plain_pack,
	.open = item_plain_open,
	.get_item = item_plain_get,
	.decode_items = item_plain_decode,
	.check = item_plain_check,
};
