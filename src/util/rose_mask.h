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

/* The first row of a mask that is not empty. */
static inline int
rose_mask_first(const uint64 *mask)
{
	int			w = 0;

	while (mask[w] == 0)
		w++;
	return w * ROSE_MASK_BITS + pg_rightmost_one_pos64(mask[w]);
}

static inline int
rose_mask_count(const uint64 *mask, int n)
{
	int			count = 0;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		count += pg_popcount64(mask[w]);
	return count;
}

/*
 * Rows [first, first + n) of another mask, or of rows that all take part (NULL), as rows [0, n); nrows
 * is how many rows the other one has.  Returns how many take part.
 */
static inline int
rose_mask_part(const uint64 *from, int nrows, int first, int n, uint64 *mask)
{
	int			shift = first % ROSE_MASK_BITS;
	int			last = (nrows - 1) / ROSE_MASK_BITS;

	if (from == NULL)
	{
		rose_mask_fill(mask, n);
		return n;
	}
	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
	{
		int			at = first / ROSE_MASK_BITS + w;

		mask[w] = from[at] >> shift;
		if (shift > 0 && at < last)
			mask[w] |= from[at + 1] << (ROSE_MASK_BITS - shift);
	}
	if (n % ROSE_MASK_BITS > 0)
		mask[n / ROSE_MASK_BITS] &= (UINT64CONST(1) << (n % ROSE_MASK_BITS)) - 1;
	return rose_mask_count(mask, n);
}

/* The numbers of the rows in a mask, each plus first; returns how many. */
static inline int
rose_mask_list(const uint64 *mask, int n, int first, uint16 *rows)
{
	uint16	   *next = rows;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
	{
		for (uint64 left = mask[w]; left != 0; left &= left - 1)
			*next++ = (uint16) (first + w * ROSE_MASK_BITS + pg_rightmost_one_pos64(left));
	}
	return (int) (next - rows);
}

#endif							/* ROSE_MASK_H */
