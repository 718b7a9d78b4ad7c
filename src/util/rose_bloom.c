/*-------------------------------------------------------------------------
 *
 * rose_bloom.c
 *	  Blocked Bloom filter.  See rose_bloom.h for layout and use.
 *
 * The upper half of the hash chooses the block; probes inside the block are
 * taken nine bits at a time from a remix of the whole hash, so that keys of one
 * block do not share their probe pattern.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "util/rose_bloom.h"

#define BITS_PER_BLOCK		(ROSE_BLOOM_BLOCK_SIZE * 8)
#define BITS_PER_PROBE		9
#define PROBES_PER_MIX		7	/* nine-bit fields in 64 bits */

StaticAssertDecl((1 << BITS_PER_PROBE) == BITS_PER_BLOCK, "a probe addresses a block's bits");

/* The finalizer of MurmurHash3: a bijection that mixes all bits. */
static inline uint64
mix64(uint64 x)
{
	x ^= x >> 33;
	x *= UINT64CONST(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64CONST(0xc4ceb9fe1a85ec53);
	x ^= x >> 33;
	return x;
}

RoseBloomShape
rose_bloom_shape(uint64 nkeys, double bits_per_key)
{
	RoseBloomShape shape;
	double		nblocks;
	int			nprobes;

	bits_per_key = Max(2.0, Min(32.0, bits_per_key));
	nblocks = ceil((double) nkeys * bits_per_key / BITS_PER_BLOCK);
	shape.nblocks = (uint32) Max(1.0, Min(nblocks, (double) PG_UINT32_MAX));

	/* ln 2 * bits a key is best for a flat filter; blocks want slightly fewer */
	nprobes = (int) (bits_per_key * 0.65);
	shape.nprobes = (uint8) Max(1, Min(ROSE_BLOOM_MAX_PROBES, nprobes));
	return shape;
}

uint32
rose_bloom_block(const RoseBloomShape *shape, uint64 hash)
{
	return (uint32) (((hash >> 32) * (uint64) shape->nblocks) >> 32);
}

/* The bit in its block that probe i is about; they are asked for in order. */
static inline uint32
next_probe(uint64 *probes, uint64 hash, int i)
{
	uint32		bit;

	if (i > 0 && i % PROBES_PER_MIX == 0)
		*probes = mix64(hash + (uint64) i);
	bit = *probes & (BITS_PER_BLOCK - 1);
	*probes >>= BITS_PER_PROBE;
	return bit;
}

void
rose_bloom_block_add(char *block, int nprobes, uint64 hash)
{
	uint64		probes = mix64(hash);
	int			i;

	for (i = 0; i < nprobes; i++)
	{
		uint32		bit = next_probe(&probes, hash, i);

		block[bit >> 3] |= (char) (1 << (bit & 7));
	}
}

bool
rose_bloom_block_test(const char *block, int nprobes, uint64 hash)
{
	uint64		probes = mix64(hash);
	int			i;

	for (i = 0; i < nprobes; i++)
	{
		uint32		bit = next_probe(&probes, hash, i);

		if ((block[bit >> 3] & (1 << (bit & 7))) == 0)
			return false;
	}
	return true;
}

void
rose_bloom_add(char *bits, const RoseBloomShape *shape, uint64 hash)
{
	Size		offset = (Size) rose_bloom_block(shape, hash) * ROSE_BLOOM_BLOCK_SIZE;

	rose_bloom_block_add(bits + offset, shape->nprobes, hash);
}

bool
rose_bloom_test(const char *bits, const RoseBloomShape *shape, uint64 hash)
{
	Size		offset = (Size) rose_bloom_block(shape, hash) * ROSE_BLOOM_BLOCK_SIZE;

	return rose_bloom_block_test(bits + offset, shape->nprobes, hash);
}

uint64
rose_bloom_hash_combine(uint64 h, uint64 column_hash)
{
	return mix64(h + UINT64CONST(0x9e3779b97f4a7c15)) ^ column_hash;
}

uint64
rose_bloom_hash_finish(uint64 h)
{
	return mix64(h);
}
