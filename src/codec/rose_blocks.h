/*-------------------------------------------------------------------------
 *
 * rose_blocks.h
 *	  LZ4-compressed blocks of a column buffer's items, made while it fills.
 *
 * Each byte is compressed about once, and what a closed block takes is known for
 * certain, however the page goes on.  Blocks end between items.
 *
 * Backend-local.  The format of blocks in a segment is rose_codec_item_lz4.c's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLOCKS_H
#define ROSE_BLOCKS_H

#include "codec/rose_codec.h"

/* Raw bytes that make a block; it is closed at the next opportunity after. */
#define ROSE_BLOCK_TARGET	8192

/* A block that was closed. */
typedef struct RoseBlock
{
	uint32		raw_end;		/* where it ends in the items */
	uint32		data_end;		/* where it ends in the compressed data */
} RoseBlock;

extern RoseBlocks *rose_blocks_create(MemoryContext context);
extern void rose_blocks_reset(RoseBlocks *blocks);

/*
 * Compress items[from, to) to 'out', or copy them if they do not shrink.  Never
 * writes more than to - from bytes; returns how many.
 */
extern uint32 rose_blocks_compress(const RoseColumnBuffer *col, uint32 from, uint32 to, char *out);

/* Close blocks until less than ROSE_BLOCK_TARGET raw bytes are left. */
extern void rose_blocks_close(RoseBlocks *blocks, const RoseColumnBuffer *col);

/* Forget blocks that reach beyond raw_size, and all but the first max_count. */
extern void rose_blocks_truncate(RoseBlocks *blocks, uint32 raw_size, int max_count);

/* Compressing did not pay on this page so far. */
extern bool rose_blocks_hopeless(const RoseBlocks *blocks);

extern int	rose_blocks_count(const RoseBlocks *blocks);
extern const RoseBlock *rose_blocks_get(const RoseBlocks *blocks, int k);
extern uint32 rose_blocks_raw_end(const RoseBlocks *blocks);
extern uint32 rose_blocks_data_size(const RoseBlocks *blocks);
extern const char *rose_blocks_data(const RoseBlocks *blocks);

/* Room for one block that is being tried. */
extern char *rose_blocks_trial(RoseBlocks *blocks, uint32 size);

#endif							/* ROSE_BLOCKS_H */
