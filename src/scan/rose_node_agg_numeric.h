/*-------------------------------------------------------------------------
 *
 * rose_node_agg_numeric.h
 *	  Sums of numerics.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_NUMERIC_H
#define ROSE_NODE_AGG_NUMERIC_H

#include "postgres.h"

#include "scan/rose_node_agg_memory.h"
#include "scan/rose_node_decimal.h"

/* What does not fit a sum, which is seldom. */
typedef struct RoseNodeNumericRest RoseNodeNumericRest;

/* All zeros: of no values. */
typedef struct RoseNodeNumericSum
{
	int64		n;				/* values */
	uint64		low;			/* of 128 bits, ... */
	int64		high;
	int16		fraction;		/* ... which count parts of 10000 to this power */
	int16		scale;			/* most digits behind the point that a value had ... */
	int64		nscale;			/* ... and how many had so many, or 0 */
	RoseNodeNumericRest *rest;	/* or NULL */
} RoseNodeNumericSum;

/* Take so many values, none of them NULL: each for one of sums, or, groups NULL, for the first one. */
extern void rose_node_numeric_take(RoseNodeNumericSum *sums, const uint32 *groups,
								   const int64 *values, int n, RoseNodeAggMemory *memory);

/* The same of integers, but for those of NULLs (nulls: NULL, there are none), which are 0; from: which of the decimals is the first one. */
extern void rose_node_numeric_take_decimals(RoseNodeNumericSum *sums, uint32 nsums, const uint32 *groups,
											const RoseNodeDecimals *decimals, int from, const int64 *values,
											const bool *nulls, int n, RoseNodeAggMemory *memory);

/* As core's serial functions write it; of no values it has none, and NULL is returned.  In the current context. */
extern Datum rose_node_numeric_emit(const RoseNodeNumericSum *sum, bool *isnull);

/* The same of one value among such integers, or of none, without a sum. */
extern Datum rose_node_numeric_single(const RoseNodeDecimals *decimals, int row, int64 value, bool none, bool *isnull);

/* The numeric that an integer counts parts of 10 to a power of; shown: digits behind the point, at least the power.  In the current context. */
extern Datum rose_node_numeric_of_integer(int64 integer, int scale, int shown);

/* Of all sums but this one, if it is not NULL, there are no values any more. */
extern void rose_node_numeric_forget(RoseNodeAggMemory *memory, RoseNodeNumericSum *kept);

#endif							/* ROSE_NODE_AGG_NUMERIC_H */
