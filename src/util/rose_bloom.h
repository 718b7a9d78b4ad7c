/*-------------------------------------------------------------------------
 *
 * rose_bloom.h
 *	  Blocked Bloom filter with a layout that can be stored page by page.
 *
 * A filter is an array of 64-byte blocks.  All bits of a key fall into one
 * block, so that a lookup touches one cache line and, on disk, one page.  The
 * filter itself has no header: the owner stores nblocks and nprobes with it.
 *
 * Typical use on disk: store as many blocks in each page as it holds; to probe, compute
 * rose_bloom_block(), read that page, and call rose_bloom_block_test().  In memory the
 * whole-array functions do the same.
 *
 * The caller brings a well-mixed 64-bit hash of the key.  The use of its bits is part of
 * the on-disk format.  There are no locks and no allocation here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLOOM_H
#define ROSE_BLOOM_H

#include "postgres.h"

#include "storage/bufpage.h"

#define ROSE_BLOOM_BLOCK_SIZE	64	/* bytes */
#define ROSE_BLOOM_MAX_PROBES	16

/* Size and probe count of a filter. */
typedef struct RoseBloomShape
{
	uint32		nblocks;		/* at least 1 */
	uint8		nprobes;		/* bits set for a key; 1 .. 16 */
} RoseBloomShape;

/*
 * The shape for nkeys keys at bits_per_key (10 gives about 1.2 % false
 * positives, 14 about 0.3 %; values outside 2 .. 32 are clamped).
 */
extern RoseBloomShape rose_bloom_shape(uint64 nkeys, double bits_per_key);

/* Bytes of the whole array. */
static inline Size
rose_bloom_bytes(const RoseBloomShape *shape)
{
	return (Size) shape->nblocks * ROSE_BLOOM_BLOCK_SIZE;
}

/* The block (0 .. nblocks - 1) that holds all bits of a hash. */
extern uint32 rose_bloom_block(const RoseBloomShape *shape, uint64 hash);

/* Set, and test, the bits of a hash in its block (ROSE_BLOOM_BLOCK_SIZE bytes). */
extern void rose_bloom_block_add(char *block, int nprobes, uint64 hash);
extern bool rose_bloom_block_test(const char *block, int nprobes, uint64 hash);

/* Set, and test, the bits of a hash in a whole filter in memory, zeroed at first. */
extern void rose_bloom_add(char *bits, const RoseBloomShape *shape, uint64 hash);
extern bool rose_bloom_test(const char *bits, const RoseBloomShape *shape, uint64 hash);

/*
 * Combine the hashes of the columns of a key, in order: h = 0, then once for each
 * column; finish with rose_bloom_hash_finish().  Part of the on-disk format.
 */
extern uint64 rose_bloom_hash_combine(uint64 h, uint64 column_hash);
extern uint64 rose_bloom_hash_finish(uint64 h);

#endif							/* ROSE_BLOOM_H */
