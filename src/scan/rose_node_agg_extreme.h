/*-------------------------------------------------------------------------
 *
 * rose_node_agg_extreme.h
 *	  Least and greatest numerics.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_EXTREME_H
#define ROSE_NODE_AGG_EXTREME_H

#include "postgres.h"

#include "scan/rose_node_agg_memory.h"
#include "scan/rose_node_decimal.h"

/* All zeros: of no values. */
typedef struct RoseNodeNumericExtreme
{
	int64		n;				/* values */
	struct varlena *best;		/* a copy, if it is no integer; there may be an old one else */
	int64		word;			/* an integer ... */
	int16		scale;			/* ... that counts parts of 10 to this power ... */
	int16		shown;			/* ... and shows so many digits behind the point */
	bool		is_integer;
} RoseNodeNumericExtreme;

/*
 * Take so many values, none of them NULL: each for one of extremes, or, groups NULL, for the first one.  What is detoasted is left in the current
 * context.
 */
extern void rose_node_extreme_take(RoseNodeNumericExtreme *extremes, bool max, const uint32 *groups, const int64 *values, int n,
								   RoseNodeAggMemory *memory);

/* The same of integers, but for those of NULLs (nulls: NULL, there are none); from: which of the decimals is the first one. */
extern void rose_node_extreme_take_decimals(RoseNodeNumericExtreme *extremes, bool max, const uint32 *groups,
											const RoseNodeDecimals *decimals, int from, const int64 *values,
											const bool *nulls, int n, RoseNodeAggMemory *memory);

/* The numeric, of at least one value, in the current context. */
extern Datum rose_node_extreme_emit(const RoseNodeNumericExtreme *extreme);

/* Of all but this one, if it is not NULL, there are no values any more. */
extern void rose_node_extreme_forget(RoseNodeAggMemory *memory, RoseNodeNumericExtreme *kept);

#endif							/* ROSE_NODE_AGG_EXTREME_H */
