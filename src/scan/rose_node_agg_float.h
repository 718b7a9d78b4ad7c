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

#endif							/* ROSE_NODE_AGG_FLOAT_H */
