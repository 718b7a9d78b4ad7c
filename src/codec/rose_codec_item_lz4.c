/*-------------------------------------------------------------------------
 *
 * rose_codec_item_lz4.c
 *	  Items in LZ4-compressed blocks.
 *
 *		varint	nblocks
 *		item index
 *		nblocks of { uint32 raw_end, uint32 data_end }
 *		the blocks' data; a block that did not shrink is there as it is
 *
 * Reading a value unpacks the block it lies in, once, into memory of the reader.
 * An item never straddles blocks.
 *
 * A plan's size counts closed blocks as they are, the open one as compressed when
 * the plan was made plus the raw bytes that came since.  If, at the end, the open
 * block as a whole takes more than that, it is written as two.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <lz4.h>

#include "util/rose_varint.h"
#include "codec/rose_blocks.h"
#include "codec/rose_items.h"

/* Compressing fewer raw bytes than this does not pay. */
#define MIN_RAW_SIZE		512

/* Readers unpack up to this much for a page. */
#define MAX_RAW_SIZE		(512 * 1024)

#define BLOCK_ENTRY_SIZE	8

/* What is not in a closed block is written as one or two. */
#define MAX_OPEN_BLOCKS		2

static bool
item_lz4_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseItemLz4Plan *own = &plan->own.item_lz4;
	uint32		raw_size = n == 0 ? 0 : col->ends[n - 1];

	if (raw_size > MAX_RAW_SIZE || raw_size - (uint32) n > rose_width_mask(own->width))
		return false;
	plan->n = n;
	plan->size = own->header + (int) rose_bitpack_size(n, own->width) +
		(int) (rose_blocks_data_size(col->blocks) + own->open_bytes) +
		(int) (raw_size - (uint32) own->measured);
	return true;
}

static bool
item_lz4_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseItemLz4Plan *own = &plan->own.item_lz4;
	int			n = col->nvalues;
	uint32		raw_size = n == 0 ? 0 : col->ends[n - 1];
	uint32		tail;

	if (raw_size < MIN_RAW_SIZE || raw_size > MAX_RAW_SIZE / 2 ||
		raw_size / 16 > (uint32) request->best_size ||
		rose_blocks_hopeless(col->blocks))
		return false;

	rose_blocks_close(col->blocks, col);
	tail = rose_blocks_raw_end(col->blocks);
	own->open_bytes = 0;
	if (raw_size > tail)
		own->open_bytes = rose_blocks_compress(col, tail, raw_size,
											   rose_blocks_trial(col->blocks, raw_size - tail));
	own->measured = raw_size;
	own->nblocks = rose_blocks_count(col->blocks) + MAX_OPEN_BLOCKS;
	own->width = rose_bits_needed(raw_size - (uint32) n + (uint32) request->headroom);
	plan->headroom = request->headroom;
	plan->spare = PG_INT32_MAX;
	own->header = 3 + ROSE_ITEM_INDEX_HEADER + own->nblocks * BLOCK_ENTRY_SIZE;
	plan->value_bits = own->width + 8;
	return item_lz4_extend(col, plan, n);
}

/*
 * Choose how the open block [from, to) is written: as a whole, or split where the plan
 * measured it.  Leaves the data in the trial buffer; returns the number of blocks.
 */
static int
pack_open_block(RoseColumnBuffer *col, const RosePlan *plan, uint32 from, uint32 to,
				RoseBlock *block)
{
	char	   *data = rose_blocks_trial(col->blocks, to - from);
	uint32		split = (uint32) plan->own.item_lz4.measured;
	uint32		size;

	if (from == to)
		return 0;
	size = rose_blocks_compress(col, from, to, data);
	block[0].raw_end = to;
	block[0].data_end = size;
	if (split <= from || split >= to || size <= plan->own.item_lz4.open_bytes + (to - split))
		return 1;

	size = rose_blocks_compress(col, from, split, data);
	block[0].raw_end = split;
	block[0].data_end = size;
	block[1].raw_end = to;
	block[1].data_end = size + rose_blocks_compress(col, split, to, data + size);
	return 2;
}

static char *
write_block_entry(char *out, uint32 raw_end, uint32 data_end)
{
	memcpy(out, &raw_end, 4);
	memcpy(out + 4, &data_end, 4);
	return out + BLOCK_ENTRY_SIZE;
}

static char *
item_lz4_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	RoseBlocks *blocks = col->blocks;
	uint32		closed_size = rose_blocks_data_size(blocks);
	uint32		open_size = 0;
	RoseBlock	open[MAX_OPEN_BLOCKS];
	int			nopen;
	int			nclosed = rose_blocks_count(blocks);
	int			k;

	nopen = pack_open_block(col, plan, rose_blocks_raw_end(blocks),
							col->ends[plan->n - 1], open);
	out = rose_varint_write(out, nclosed + nopen);
	out = rose_item_index_write(out, col->scratch, col->ends, plan->n);
	for (k = 0; k < nclosed; k++)
		out = write_block_entry(out, rose_blocks_get(blocks, k)->raw_end,
								rose_blocks_get(blocks, k)->data_end);
	for (k = 0; k < nopen; k++)
	{
		open_size = open[k].data_end;
		out = write_block_entry(out, open[k].raw_end, closed_size + open_size);
	}
	if (closed_size > 0)
		memcpy(out, rose_blocks_data(blocks), closed_size);
	out += closed_size;
	if (open_size > 0)
		memcpy(out, rose_blocks_trial(blocks, 0), open_size);
	return out + open_size;
}

static int
item_lz4_closed_blocks(const RosePlan *plan)
{
	return plan->own.item_lz4.nblocks - MAX_OPEN_BLOCKS;
}

static const char *
item_lz4_open(RoseSegment *seg)
{
	const char *p = seg->start;
	const char *problem;
	uint64		nblocks;

	if ((p = rose_varint_read(p, seg->end, &nblocks)) == NULL)
		return "segment is cut off";
	if (nblocks < 1 || nblocks > BLCKSZ / BLOCK_ENTRY_SIZE)
		return "number of blocks is out of range";
	problem = rose_item_index_open(&seg->index, seg->n, MAX_RAW_SIZE, p, seg->end, &p);
	if (problem != NULL)
		return problem;
	if ((Size) (seg->end - p) < nblocks * BLOCK_ENTRY_SIZE)
		return "segment is cut off";
	seg->nunits = (int) nblocks;
	seg->block_table = p;
	seg->raw = p + nblocks * BLOCK_ENTRY_SIZE;
	seg->unpacked = NULL;
	seg->block_done = NULL;
	return NULL;
}

static void
block_ends(const RoseSegment *seg, int k, uint32 *raw_end, uint32 *data_end)
{
	*raw_end = *data_end = 0;
	if (k >= 0)
	{
		memcpy(raw_end, seg->block_table + k * BLOCK_ENTRY_SIZE, 4);
		memcpy(data_end, seg->block_table + k * BLOCK_ENTRY_SIZE + 4, 4);
	}
}

/* Unpack block k into its place.  Returns NULL, or what is wrong. */
static const char *
unpack_block(RoseSegment *seg, int k)
{
	uint32		raw_start;
	uint32		raw_end;
	uint32		start;
	uint32		end;

	block_ends(seg, k - 1, &raw_start, &start);
	block_ends(seg, k, &raw_end, &end);
	if (raw_start >= raw_end || raw_end > seg->index.raw_size ||
		start >= end || end > (uint32) (seg->end - seg->raw))
		return "compressed block is out of range";

	if (seg->unpacked == NULL)
	{
		seg->block_done = MemoryContextAllocZero(seg->context, seg->nunits * sizeof(bool));
		seg->unpacked = MemoryContextAlloc(seg->context, seg->index.raw_size);
	}
	if (end - start == raw_end - raw_start)
		memcpy(seg->unpacked + raw_start, seg->raw + start, end - start);
	else if (LZ4_decompress_safe(seg->raw + start, seg->unpacked + raw_start,
								 (int) (end - start), (int) (raw_end - raw_start)) !=
			 (int) (raw_end - raw_start))
		return "compressed block is damaged";
	seg->block_done[k] = true;
	return NULL;
}

static const char *
item_lz4_get(RoseSegment *seg, int i, uint32 *size)
{
	int			lo = 0;
	int			hi = seg->nunits - 1;
	uint32		start;
	uint32		end;
	uint32		raw_start;
	uint32		raw_end;
	uint32		data_end;

	rose_item_index_get(seg, &seg->index, (uint32) i, &start, &end);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		block_ends(seg, mid, &raw_end, &data_end);
		if (raw_end <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	block_ends(seg, lo - 1, &raw_start, &data_end);
	block_ends(seg, lo, &raw_end, &data_end);
	if (start < raw_start || end > raw_end)
		rose_codec_corrupt(seg, "item is not within a block");
	if (seg->block_done == NULL || !seg->block_done[lo])
	{
		const char *problem = unpack_block(seg, lo);

		if (problem != NULL)
			rose_codec_corrupt(seg, problem);
	}
	*size = end - start;
	return seg->unpacked + start;
}

/* Is there a block that ends here? */
static const char *
check_block_bounds(RoseSegment *seg)
{
	uint32		raw_end = 0;
	uint32		data_end;
	uint32		start;
	uint32		end;
	int			k = -1;
	uint32		i;

	for (i = 0; i < seg->index.nitems; i++)
	{
		rose_item_index_get(seg, &seg->index, i, &start, &end);
		if (start >= raw_end)
			block_ends(seg, ++k, &raw_end, &data_end);
		if (end > raw_end)
			return "item is not within a block";
	}
	return raw_end == seg->index.raw_size ? NULL : "blocks do not cover all items";
}

static const char *
item_lz4_check(RoseSegment *seg)
{
	const char *problem = rose_item_index_check(&seg->index);
	uint32		raw_end;
	uint32		data_end;
	int			k;

	for (k = 0; k < seg->nunits && problem == NULL; k++)
		problem = unpack_block(seg, k);
	if (problem != NULL)
		return problem;
	block_ends(seg, seg->nunits - 1, &raw_end, &data_end);
	if (raw_end != seg->index.raw_size)
		return "blocks do not cover all items";
	return check_block_bounds(seg);
}

const RoseCodec rose_codec_item_lz4 = {
	.id = ROSE_CODEC_ITEM_LZ4,
	.name = "item_lz4",
	.suits = ROSE_SUITS_ITEMS,
	.closed_blocks = item_lz4_closed_blocks,
	.handicap = 2,
	.plan = item_lz4_plan,
	.extend = item_lz4_extend,
	.pack = item_lz4_pack,
	.open = item_lz4_open,
	.get_item = item_lz4_get,
	.check = item_lz4_check,
};
