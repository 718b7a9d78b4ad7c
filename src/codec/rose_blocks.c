/*-------------------------------------------------------------------------
 *
 * rose_blocks.c
 *	  LZ4-compressed blocks.  See rose_blocks.h.
 *
 * Backend-local; memory grows in the column buffer's context.  When a block is closed,
 * and whether what is open goes into one block or two, is rose_codec_item_lz4.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <lz4.h>

#include "codec/rose_blocks.h"

struct RoseBlocks
{
	MemoryContext context;
	int			count;
	int			capacity;
	RoseBlock  *block;
	char	   *data;
	uint32		data_capacity;
	char	   *trial;
	uint32		trial_capacity;
};

RoseBlocks *
rose_blocks_create(MemoryContext context)
{
	RoseBlocks *blocks = MemoryContextAllocZero(context, sizeof(RoseBlocks));

	blocks->context = context;
	return blocks;
}

void
rose_blocks_reset(RoseBlocks *blocks)
{
	blocks->count = 0;
}

/* Make *buffer hold at least 'size' bytes, keeping its contents. */
static void
reserve(RoseBlocks *blocks, char **buffer, uint32 *capacity, uint32 size)
{
	if (size <= *capacity)
		return;
	size = Max(size, *capacity * 2);
	if (*buffer == NULL)
		*buffer = MemoryContextAlloc(blocks->context, size);
	else
		*buffer = repalloc(*buffer, size);
	*capacity = size;
}

uint32
rose_blocks_compress(const RoseColumnBuffer *col, uint32 from, uint32 to, char *out)
{
	int			raw_size = (int) (to - from);
	int			size;

	/* less room than the raw bytes need, so that equal sizes mean a copy */
	size = LZ4_compress_default(col->items + from, out, raw_size, raw_size - 1);
	if (size <= 0)
	{
		memcpy(out, col->items + from, raw_size);
		size = raw_size;
	}
	return (uint32) size;
}

static void
close_block(RoseBlocks *blocks, const RoseColumnBuffer *col, uint32 raw_end)
{
	uint32		from = rose_blocks_raw_end(blocks);
	uint32		at = rose_blocks_data_size(blocks);

	if (blocks->count == blocks->capacity)
	{
		blocks->capacity = Max(16, blocks->capacity * 2);
		if (blocks->block == NULL)
			blocks->block = MemoryContextAlloc(blocks->context,
											   blocks->capacity * sizeof(RoseBlock));
		else
			blocks->block = repalloc(blocks->block, blocks->capacity * sizeof(RoseBlock));
	}
	reserve(blocks, &blocks->data, &blocks->data_capacity, at + (raw_end - from));
	blocks->block[blocks->count].raw_end = raw_end;
	blocks->block[blocks->count].data_end =
		at + rose_blocks_compress(col, from, raw_end, blocks->data + at);
	blocks->count++;
}

void
rose_blocks_close(RoseBlocks *blocks, const RoseColumnBuffer *col)
{
	uint32		raw_size = col->nvalues == 0 ? 0 : col->ends[col->nvalues - 1];

	while (raw_size - rose_blocks_raw_end(blocks) >= ROSE_BLOCK_TARGET)
	{
		uint32		wanted = rose_blocks_raw_end(blocks) + ROSE_BLOCK_TARGET;
		int			lo = 0;
		int			hi = col->nvalues - 1;

		/* the first item that ends at or after the target */
		while (lo < hi)
		{
			int			mid = (lo + hi) / 2;

			if (col->ends[mid] < wanted)
				lo = mid + 1;
			else
				hi = mid;
		}
		close_block(blocks, col, col->ends[lo]);
	}
}

void
rose_blocks_truncate(RoseBlocks *blocks, uint32 raw_size, int max_count)
{
	while (blocks->count > 0 &&
		   (blocks->count > max_count || rose_blocks_raw_end(blocks) > raw_size))
		blocks->count--;
}

bool
rose_blocks_hopeless(const RoseBlocks *blocks)
{
	uint64		raw = rose_blocks_raw_end(blocks);

	return blocks->count > 0 && rose_blocks_data_size(blocks) > raw - raw / 8;
}

int
rose_blocks_count(const RoseBlocks *blocks)
{
	return blocks->count;
}

const RoseBlock *
rose_blocks_get(const RoseBlocks *blocks, int k)
{
	return &blocks->block[k];
}

uint32
rose_blocks_raw_end(const RoseBlocks *blocks)
{
	return blocks->count == 0 ? 0 : blocks->block[blocks->count - 1].raw_end;
}

uint32
rose_blocks_data_size(const RoseBlocks *blocks)
{
	return blocks->count == 0 ? 0 : blocks->block[blocks->count - 1].data_end;
}

const char *
rose_blocks_data(const RoseBlocks *blocks)
{
	return blocks->data;
}

char *
rose_blocks_trial(RoseBlocks *blocks, uint32 size)
{
	reserve(blocks, &blocks->trial, &blocks->trial_capacity, size);
	return blocks->trial;
}
