/*-------------------------------------------------------------------------
 *
 * rose_readahead.h
 *	  Fetching blocks ahead of a reader that goes from block to block.
 *
 * Backend-local; a hint to the kernel, never a promise.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_READAHEAD_H
#define ROSE_READAHEAD_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

typedef struct RoseReadahead RoseReadahead;

/* Lives as long as the context. */
extern RoseReadahead *rose_readahead_create(MemoryContext context);

/*
 * The reader is about to read this block, and expects to need those behind it (forward)
 * or before it next.  Only worth it when blocks are not in shared buffers.  Does nothing
 * if effective_io_concurrency is 0.
 */
extern void rose_readahead_step(RoseReadahead *readahead, Relation rel, BlockNumber block,
								bool forward);

#endif							/* ROSE_READAHEAD_H */
