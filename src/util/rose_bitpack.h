/*-------------------------------------------------------------------------
 *
 * rose_bitpack.h
 *	  Arrays of unsigned integers of 0 to 64 bits each, packed without gaps.
 *
 * Value i occupies bits [i * width, (i + 1) * width) of a little-endian bit
 * stream.  The stream is not aligned.
 *
 * Reading loads whole words: up to ROSE_BITPACK_SLOP bytes after the last byte
 * of the stream are read, though they never influence the result.  Whoever
 * stores a stream makes sure that those bytes can be read; multicolumn pages
 * leave that many bytes free at their end.  Writing touches the bytes of the stream only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BITPACK_H
#define ROSE_BITPACK_H

#include "postgres.h"

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

#define ROSE_BITPACK_SLOP	16

/* Bytes taken by n values. */
static inline Size
rose_bitpack_size(Size n, int width)
{
	return (n * width + 7) / 8;
}

/* Bits needed to represent value; 0 for 0. */
static inline int
rose_bits_needed(uint64 value)
{
	return value == 0 ? 0 : pg_leftmost_one_pos64(value) + 1;
}

static inline uint64
rose_width_mask(int width)
{
	return width >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << width) - 1;
}

static inline uint64
rose_load_le64(const char *p)
{
	uint64		word;

	memcpy(&word, p, sizeof(word));
#ifdef WORDS_BIGENDIAN
	word = pg_bswap64(word);
#endif
	return word;
}

/* Value i of a stream. */
static inline uint64
rose_bitpack_get(const char *bits, int width, Size i)
{
	Size		bit = i * width;
	const char *p = bits + (bit >> 3);
	int			shift = bit & 7;
	uint64		word = rose_load_le64(p) >> shift;

	/* A value of more than 57 bits may reach into a ninth byte. */
	if (shift + width > 64)
		word |= (uint64) (uint8) p[8] << (64 - shift);
	return word & rose_width_mask(width);
}

/*
 * Write values[0 .. n) as a stream of n values.  Each must fit in width bits.
 * Writes exactly rose_bitpack_size(n, width) bytes.
 */
extern void rose_bitpack_write(char *out, int width, const uint64 *values, Size n);

/* Read values [from, from + n) of a stream. */
extern void rose_bitpack_read(const char *bits, int width, Size from, Size n, uint64 *values);

/* Sum of values [from, from + n) of a stream, modulo 2^64. */
extern uint64 rose_bitpack_sum(const char *bits, int width, Size from, Size n);

#endif							/* ROSE_BITPACK_H */
