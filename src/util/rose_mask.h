/*-------------------------------------------------------------------------
 *
 * rose_mask.h
 *	  Masks: a bit for each of some rows, in words of 64.
 *
 * Bit i % 64 of word i / 64 is that of row i.  The bits behind the last row are clear.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MASK_H
#define ROSE_MASK_H

#include "postgres.h"

#include "port/pg_bitutils.h"

#define ROSE_MASK_BITS		64
#define ROSE_MASK_WORDS(n)	(((n) + ROSE_MASK_BITS - 1) / ROSE_MASK_BITS)

static inline bool
rose_mask_has(const uint64 *mask, int i)
{
	return (mask[i / ROSE_MASK_BITS] >> (i % ROSE_MASK_BITS) & 1) != 0;
}

static inline void
rose_mask_clear(uint64 *mask, int n)
{
	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		mask[w] = 0;
}

static inline void
rose_mask_fill(uint64 *mask, int n)
{
	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		mask[w] = ~UINT64CONST(0);
	if (n % ROSE_MASK_BITS > 0)
		mask[n / ROSE_MASK_BITS] = (UINT64CONST(1) << (n % ROSE_MASK_BITS)) - 1;
}

static inline bool
rose_mask_is_empty(const uint64 *mask, int n)
{
	uint64		any = 0;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		any |= mask[w];
	return any == 0;
}

static inline int
rose_mask_count(const uint64 *mask, int n)
{
	int			count = 0;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		count += pg_popcount64(mask[w]);
	return count;
}

#endif							/* ROSE_MASK_H */
