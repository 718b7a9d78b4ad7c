/*-------------------------------------------------------------------------
 *
 * rose_vec_agg.c
 *	  Loops over arrays of values that aggregates take: sums, extremes, bits.
 *
 * The Makefile compiles this file with -O3, and the loops twice; see rose_vectorized.h.
 *
 * Pure functions; no locks and no allocation.  What the values mean, and what an overflow is, is for who asks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_vectorized.h"
#include "vector/rose_vec_agg.h"

#define SIGN_BIT	(UINT64CONST(1) << 63)

ROSE_VECTORIZED int64
rose_vec_sum(const int64 *x, int n)
{
	uint64		sum = 0;

	for (int i = 0; i < n; i++)
		sum += (uint64) x[i];
	return (int64) sum;
}

/* What is shifted has no sign, since many processors cannot shift signs in many values at once. */
ROSE_VECTORIZED void
rose_vec_sum_parts(const int64 *x, int n, int64 *high, int64 *low)
{
	uint64		upper = 0;
	uint64		lower = 0;

	Assert(n <= ROSE_VEC_SUM_ROWS);
	for (int i = 0; i < n; i++)
	{
		uint64		shifted = (uint64) x[i] ^ SIGN_BIT; /* x + 2^63 */

		upper += shifted >> 32;
		lower += shifted & 0xFFFFFFFF;
	}
	*high = (int64) upper - ((int64) n << 31);
	*low = (int64) lower;
}

ROSE_VECTORIZED int64
rose_vec_min(const int64 *x, int n)
{
	int64		min = PG_INT64_MAX;

	for (int i = 0; i < n; i++)
		min = x[i] < min ? x[i] : min;
	return min;
}

ROSE_VECTORIZED int64
rose_vec_max(const int64 *x, int n)
{
	int64		max = PG_INT64_MIN;

	for (int i = 0; i < n; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

ROSE_VECTORIZED int64
rose_vec_and(const int64 *x, int n)
{
	int64		bits = -1;

	for (int i = 0; i < n; i++)
		bits &= x[i];
	return bits;
}

ROSE_VECTORIZED int64
rose_vec_or(const int64 *x, int n)
{
	int64		bits = 0;

	for (int i = 0; i < n; i++)
		bits |= x[i];
	return bits;
}

int
rose_vec_keep(int64 *x, const bool *nulls, int n)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		x[kept] = x[i];
		kept += !nulls[i];
	}
	return kept;
}

int
rose_vec_keep_rows(int64 *x, const bool *nulls, const uint16 *rows, int first, int n)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		int			at = rows[i] - first;

		x[kept] = x[at];
		kept += !nulls[at];
	}
	return kept;
}
