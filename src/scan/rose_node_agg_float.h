/*-------------------------------------------------------------------------
 *
 * rose_node_agg_float.h
 *	  What a float does to the state of an aggregate, as core's functions do it, to the bit.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_FLOAT_H
#define ROSE_NODE_AGG_FLOAT_H

#include "postgres.h"

#include <math.h>

#include "utils/float.h"

static inline float8
rose_node_float8_of(int64 word)
{
	float8		value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

static inline float4
rose_node_float4_of(int64 word)
{
	int32		bits = (int32) word;
	float4		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Each float4 is a float8 as well, which compares as it does. */
static inline float8
rose_node_float_of(int64 word, bool is_float4)
{
	return is_float4 ? (float8) rose_node_float4_of(word) : rose_node_float8_of(word);
}

/* The greater or the smaller one; of equal values, as 0 and -0 are, the one that came last. */
static inline float8
rose_node_float_extreme(bool max, float8 best, float8 value)
{
	return (max ? float8_gt(best, value) : float8_lt(best, value)) ? best : value;
}

/* One step of Youngs and Cramer; before: values taken before this one. */
static inline void
rose_node_float_accumulate(float8 *sum, float8 *squares, float8 value, int64 before)
{
	float8		old_sum = *sum;
	float8		count = (float8) before + 1.0;
	float8		difference;

	*sum += value;
	if (before == 0)
	{
		if (isnan(value) || isinf(value))
			*squares = get_float8_nan();
		return;
	}
	difference = value * count - *sum;
	*squares += difference * difference / (count * (float8) before);
	if (unlikely(isinf(*sum) || isinf(*squares)))
	{
		if (!isinf(old_sum) && !isinf(value))
			float_overflow_error();
		*squares = get_float8_nan();
	}
}

/*
 * The same for averages, of which the squares show only in that they may overflow, and then it is an error.  Those of values and sums up to these
 * are no more than 1e260 each: all rows that there may be together do not change whether a sum of squares near 1e308 overflows.  So they are left out.
 */
#define ROSE_NODE_FLOAT_TAME_VALUE	1e120
#define ROSE_NODE_FLOAT_TAME_SUM	1e130

static inline void
rose_node_float_average(float8 *sum, float8 *squares, float8 value, int64 before)
{
	if (likely(fabs(value) <= ROSE_NODE_FLOAT_TAME_VALUE && fabs(*sum) <= ROSE_NODE_FLOAT_TAME_SUM))
		*sum += value;
	else
		rose_node_float_accumulate(sum, squares, value, before);
}

#endif							/* ROSE_NODE_AGG_FLOAT_H */
