/*-------------------------------------------------------------------------
 *
 * rose_page_unusual.h
 *	  Which words of a page being built are unusual; for page/ only.
 *
 * A plan says which words it expects: those take what each row takes, others may take
 * BuilderColumn.unusual_bits more.  Says so of one word, as rows come, or of many
 * together.  Sets no budget; that is rose_page_append.c's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGE_UNUSUAL_H
#define ROSE_PAGE_UNUSUAL_H

#include "codec/rose_distinct.h"
#include "page/rose_page_build.h"

/* Is value i unusual?  It is not the first of its column. */
static inline bool
rose_builder_is_unusual(BuilderColumn *column, int i)
{
	const RosePlan *plan = &column->buffer.plan;
	int64		x = column->buffer.words[i];
	uint64		offset;

	switch (plan->usual.kind)
	{
		case ROSE_USUAL_NONE:
			return false;
		case ROSE_USUAL_KNOWN:
			if (!rose_distinct_extend(column->buffer.distinct, &column->buffer, i + 1))
				return true;
			return rose_distinct_new(column->buffer.distinct, i, i + 1) > 0;
		case ROSE_USUAL_VALUE:
			break;
		case ROSE_USUAL_DIFFERENCE:
			x = rose_wrap_sub(x, column->buffer.words[i - 1]);
			break;
		case ROSE_USUAL_DISTANCE:
			x = rose_wrap_sub(x, rose_line_at(plan->usual.slope, plan->usual.fraction_bits, i));
			break;
	}
	offset = (uint64) rose_wrap_sub(x, plan->usual.base);
	if (plan->usual.step == 1)
		return offset > plan->usual.top;
	return x < plan->usual.base ||
		rose_divide(&plan->usual.divisor, offset) > Min(plan->usual.top, plan->usual.divisor.limit);
}

/* How many of values [from, to) are unusual?  The first of the column is not among them. */
extern int	rose_builder_count_unusual(BuilderColumn *column, int from, int to);

#endif							/* ROSE_PAGE_UNUSUAL_H */
