/*-------------------------------------------------------------------------
 *
 * rose_kernels.c
 *	  Loops over arrays of words.  See rose_kernels.h.
 *
 * The Makefile compiles this file with -O3.  Where compiler and C library can
 * do it, each loop is compiled twice and the better one is chosen when rose is
 * loaded; comparing 64-bit integers, above all, takes AVX2.
 *
 * Pure functions; no locks and no allocation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "util/rose_vectorized.h"
#include "codec/rose_kernels.h"

/* Values compared before it is asked whether one of them differed. */
#define STRIDE		32

/* Adding and subtracting ROUNDER rounds numbers up to MAX_INTEGER to an integer. */
#define MAX_INTEGER		2251799813685248.0	/* 2^51 */
#define ROUNDER			6755399441055744.0	/* 1.5 * 2^52 */

ROSE_VECTORIZED void
rose_kernel_bounds(const int64 *x, int n, int64 *low, int64 *high)
{
	int64		min = *low;
	int64		max = *high;
	int			i;

	for (i = 0; i < n; i++)
	{
		min = x[i] < min ? x[i] : min;
		max = x[i] > max ? x[i] : max;
	}
	*low = min;
	*high = max;
}

/* The least one is that whose negative is the greatest, without signs; that of zero is zero. */
ROSE_VECTORIZED void
rose_kernel_narrow_bounds(const uint64 *x, int n, uint32 *high, uint32 *low, int *nzeros)
{
	uint32		max = 0;
	uint32		max_negative = 0;
	uint32		zeros = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		uint32		value = (uint32) x[i];
		uint32		negative = -value;

		max = value > max ? value : max;
		max_negative = negative > max_negative ? negative : max_negative;
		zeros += value == 0;
	}
	*high = max;
	*low = -max_negative;
	*nzeros = (int) zeros;
}

ROSE_VECTORIZED int
rose_kernel_changes(const int64 *x, int n)
{
	int64		changes = 0;
	int			i;

	for (i = 1; i < n; i++)
		changes += x[i] != x[i - 1];
	return (int) changes;
}

ROSE_VECTORIZED int
rose_kernel_count_below(const int64 *x, int n, int64 value)
{
	int64		count = 0;
	int			i;

	for (i = 0; i < n; i++)
		count += x[i] < value;
	return (int) count;
}

ROSE_VECTORIZED int
rose_kernel_run_end(const int64 *x, int from, int n, int64 value)
{
	int			i = from;

	while (n - i >= STRIDE)
	{
		int64		differ = 0;
		int			k;

		for (k = 0; k < STRIDE; k++)
			differ |= x[i + k] ^ value;
		if (differ != 0)
			break;
		i += STRIDE;
	}
	while (i < n && x[i] == value)
		i++;
	return i;
}

ROSE_VECTORIZED void
rose_kernel_subtract(const int64 *x, int n, int64 base, uint64 *out)
{
	int			i;

	for (i = 0; i < n; i++)
		out[i] = (uint64) x[i] - (uint64) base;
}

ROSE_VECTORIZED void
rose_kernel_add_frame(uint64 *x, int n, uint64 base, uint64 step)
{
	int			i;

	if (step == 1)
	{
		for (i = 0; i < n; i++)
			x[i] += base;
	}
	else
	{
		for (i = 0; i < n; i++)
			x[i] = base + step * x[i];
	}
}

ROSE_VECTORIZED bool
rose_kernel_multiples(const int64 *x, int n, int64 base, const RoseDivisor *divisor)
{
	const RoseDivisor by = *divisor;
	int64		odd = 0;
	int			i;

	for (i = 0; i < n; i++)
		odd |= rose_divide(&by, (uint64) x[i] - (uint64) base) > by.limit;
	return odd == 0;
}

ROSE_VECTORIZED void
rose_kernel_divide(const int64 *x, int n, int64 base, const RoseDivisor *divisor, uint64 *out)
{
	const RoseDivisor by = *divisor;
	int			i;

	for (i = 0; i < n; i++)
		out[i] = rose_divide(&by, (uint64) x[i] - (uint64) base);
}

ROSE_VECTORIZED int
rose_kernel_count_outside(const int64 *x, int n, int64 base, uint64 top)
{
	int64		count = 0;
	int			i;

	for (i = 0; i < n; i++)
		count += (uint64) x[i] - (uint64) base > top;
	return (int) count;
}

ROSE_VECTORIZED int
rose_kernel_count_odd(const int64 *x, int n, int64 base, const RoseDivisor *divisor, uint64 limit)
{
	const RoseDivisor by = *divisor;
	int64		count = 0;
	int			i;

	for (i = 0; i < n; i++)
		count += rose_divide(&by, (uint64) x[i] - (uint64) base) > limit || x[i] < base;
	return (int) count;
}

/* What is not below the limit has the highest bit, or the distance to the last one that is has it. */
ROSE_VECTORIZED bool
rose_kernel_narrow_codes(const uint64 *x, int n, int limit, uint16 *out)
{
	const uint64 last = (uint64) limit - 1;
	uint64		beyond = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		beyond |= (last - x[i]) | x[i];
		out[i] = (uint16) x[i];
	}
	return beyond >> 63 == 0;
}

ROSE_VECTORIZED void
rose_kernel_extend_signs(const Datum *x, int n, int unused_bits, int64 *out)
{
	int			i;

	switch (unused_bits)
	{
		case 0:
			memcpy(out, x, n * sizeof(int64));
			break;
		case 32:
			for (i = 0; i < n; i++)
				out[i] = (int32) x[i];
			break;
		case 48:
			for (i = 0; i < n; i++)
				out[i] = (int16) x[i];
			break;
		default:
			for (i = 0; i < n; i++)
				out[i] = (int8) x[i];
			break;
	}
}

ROSE_VECTORIZED void
rose_kernel_distances(const int64 *x, int n, int64 slope, int fraction_bits, int first, int64 *out)
{
	uint64		product = (uint64) slope * (uint64) (int64) first;
	int			i;

	/* right shift of a negative number is arithmetic on all our compilers */
	for (i = 0; i < n; i++)
	{
		out[i] = (int64) ((uint64) x[i] - (uint64) ((int64) product >> fraction_bits));
		product += (uint64) slope;
	}
}

ROSE_VECTORIZED void
rose_kernel_differences(const int64 *x, int n, int64 *out)
{
	int			i;

	for (i = 0; i < n; i++)
		out[i] = (int64) ((uint64) x[i] - (uint64) x[i - 1]);
}

/*
 * The way to the integer may be off by one in the last digit, which is why the way back
 * is tried.  The integer is read off the sum with ROUNDER, whose last bit counts 1.
 */
ROSE_VECTORIZED void
rose_kernel_decimals(const double *x, int n, double power, int64 none, int64 *out)
{
	const double rounder = ROUNDER;
	int64		rounder_bits;
	int			i;

	memcpy(&rounder_bits, &rounder, sizeof(int64));
	for (i = 0; i < n; i++)
	{
		double		scaled = x[i] * power;
		double		sum = scaled + rounder;
		double		back = (sum - rounder) / power;
		int64		sum_bits;
		int64		back_bits;
		int64		bits;
		int64		right;

		memcpy(&sum_bits, &sum, sizeof(int64));
		memcpy(&back_bits, &back, sizeof(int64));
		memcpy(&bits, &x[i], sizeof(int64));
		/* false for NaN too */
		right = fabs(scaled) <= MAX_INTEGER;
		right &= back_bits == bits;
		out[i] = right ? sum_bits - rounder_bits : none;
	}
}

/*
 * An integer k of so many bits is a double once its bits are added to those of ROUNDER, whose last bit counts 1: that is ROUNDER + k, from which
 * ROUNDER is subtracted without rounding.  Most processors have no conversion of many such integers at once.
 */
ROSE_VECTORIZED bool
rose_kernel_from_decimals(int64 *x, int n, double power)
{
	const double rounder = ROUNDER;
	const uint64 half = UINT64CONST(1) << 51;
	int64		rounder_bits;
	uint64		beyond = 0;
	int			i;

	memcpy(&rounder_bits, &rounder, sizeof(int64));
	for (i = 0; i < n; i++)
		beyond |= ((uint64) x[i] + half) >> 52;
	if (beyond != 0)
		return false;
	for (i = 0; i < n; i++)
	{
		int64		bits = x[i] + rounder_bits;
		double		value;

		memcpy(&value, &bits, sizeof(double));
		value = (value - rounder) / power;
		memcpy(&x[i], &value, sizeof(int64));
	}
	return true;
}
