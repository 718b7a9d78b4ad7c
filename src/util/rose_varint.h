/*-------------------------------------------------------------------------
 *
 * rose_varint.h
 *	  Variable-length integers: seven bits a byte, low bits first, the high bit
 *	  of a byte says that another one follows.
 *
 * Signed values are zigzag-mapped, so that small magnitudes stay short.
 * Readers are given the end of the input and never read past it.
 *
 * Pure; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VARINT_H
#define ROSE_VARINT_H

#include "postgres.h"

#define ROSE_VARINT_MAX_SIZE	10	/* bytes of the largest uint64 */

static inline int
rose_varint_size(uint64 value)
{
	int			size = 1;

	while (value >= 0x80)
	{
		value >>= 7;
		size++;
	}
	return size;
}

/* Write value at 'out'; returns the position after it. */
static inline char *
rose_varint_write(char *out, uint64 value)
{
	while (value >= 0x80)
	{
		*out++ = (char) (value | 0x80);
		value >>= 7;
	}
	*out++ = (char) value;
	return out;
}

/* Read into *value; returns the position after it, or NULL if it is malformed. */
static inline const char *
rose_varint_read(const char *in, const char *end, uint64 *value)
{
	uint64		result = 0;
	int			shift;

	for (shift = 0; shift < 64 && in < end; shift += 7)
	{
		uint8		byte = (uint8) *in++;

		result |= (uint64) (byte & 0x7f) << shift;
		if (byte < 0x80)
		{
			*value = result;
			return in;
		}
	}
	return NULL;
}

static inline uint64
rose_zigzag_encode(int64 value)
{
	return ((uint64) value << 1) ^ (uint64) (value < 0 ? -1 : 0);
}

static inline int64
rose_zigzag_decode(uint64 value)
{
	return (int64) ((value >> 1) ^ (~(value & 1) + 1));
}

#endif							/* ROSE_VARINT_H */
