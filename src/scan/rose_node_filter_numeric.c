/*-------------------------------------------------------------------------
 *
 * rose_node_filter_numeric.c
 *	  What numeric columns are compared with.
 *
 * Where a column's values are integers (rose_node_decimal.h), those that a comparison leaves are a set of words, which depends on what the integers
 * count; it is kept until they count something else.  Other values are compared one by one by core's function, which never fails.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/stratnum.h"
#include "utils/fmgrprotos.h"

#include "scan/rose_node_decimal.h"
#include "scan/rose_node_filter.h"

/* The integers that the comparison leaves; false: none. */
static bool
range_of(int strategy, Datum constant, int scale, RoseWordRange *range)
{
	bool		exact;
	int64		floor = rose_node_decimal_floor(constant, scale, &exact);

	*range = (RoseWordRange) {PG_INT64_MIN, PG_INT64_MAX};
	switch (strategy)
	{
		case BTLessStrategyNumber:
			range->high = exact ? floor - 1 : floor;
			return true;
		case BTLessEqualStrategyNumber:
			range->high = floor;
			return true;
		case BTEqualStrategyNumber:
			range->low = range->high = floor;
			return exact;
		case BTGreaterEqualStrategyNumber:
			range->low = exact ? floor : floor + 1;
			return true;
		default:
			range->low = floor + 1;
			return true;
	}
}

const RoseWordSet *
rose_node_filter_numeric_set(RoseNodeFilter *filter, int scale)
{
	int			n = 0;

	if (filter->scale == scale)
		return &filter->set;
	for (int i = 0; i < filter->nconstants; i++)
	{
		if (range_of(filter->strategy, filter->constants[i], scale, &filter->ranges[n]))
			n++;
	}
	rose_wordset_make(&filter->set, filter->ranges, n);
	filter->scale = scale;
	return &filter->set;
}

static inline bool
is_left(int strategy, int cmp)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return cmp < 0;
		case BTLessEqualStrategyNumber:
			return cmp <= 0;
		case BTEqualStrategyNumber:
			return cmp == 0;
		case BTGreaterEqualStrategyNumber:
			return cmp >= 0;
		default:
			return cmp > 0;
	}
}

bool
rose_node_filter_numeric_has(const RoseNodeFilter *filter, Datum value)
{
	for (int i = 0; i < filter->nconstants; i++)
	{
		if (is_left(filter->strategy, DatumGetInt32(DirectFunctionCall2(numeric_cmp, value, filter->constants[i]))))
			return true;
	}
	return false;
}
