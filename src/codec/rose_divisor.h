/*-------------------------------------------------------------------------
 *
 * rose_divisor.h
 *	  Division by the step of a frame, of which nearly all dividends are multiples.
 *
 * It multiplies by the inverse modulo 2^64, which maps multiples to their quotients and
 * all other numbers beyond the largest quotient there is.
 *
 * Pure; a divisor is copied with what it belongs to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DIVISOR_H
#define ROSE_DIVISOR_H

#include "postgres.h"

#include "port/pg_bitutils.h"

typedef struct RoseDivisor
{
	uint64		inverse;		/* of the odd part */
	int			shift;			/* of the even part */
	uint64		limit;			/* largest quotient there is */
} RoseDivisor;

/* step >= 1 */
static inline void
rose_divisor_init(RoseDivisor *divisor, int64 step)
{
	uint64		odd = (uint64) step;
	uint64		inverse;
	int			k;

	Assert(step >= 1);
	divisor->shift = pg_rightmost_one_pos64(odd);
	divisor->limit = PG_UINT64_MAX / odd;
	odd >>= divisor->shift;
	/* right in the low 3 bits; each round of Newton's method doubles that */
	inverse = odd;
	for (k = 0; k < 5; k++)
		inverse *= 2 - odd * inverse;
	divisor->inverse = inverse;
}

/* The quotient if 'offset' is a multiple, else more than divisor->limit. */
static inline uint64
rose_divide(const RoseDivisor *divisor, uint64 offset)
{
	uint64		product = offset * divisor->inverse;

	/* a shift by 64 would be undefined */
	return product >> divisor->shift | product << 1 << (63 - divisor->shift);
}

/* 'b' may be 0.  Least work if b divides a. */
static inline uint64
rose_greatest_common_divisor(uint64 a, uint64 b)
{
	while (b != 0)
	{
		uint64		rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

#endif							/* ROSE_DIVISOR_H */
