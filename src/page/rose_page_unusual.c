/*-------------------------------------------------------------------------
 *
 * rose_page_unusual.c
 *	  How many of a column's words are unusual.  See rose_page_unusual.h.
 *
 * What decides, the words themselves, their differences or their distances from a line,
 * is computed for many words together and then compared.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_kernels.h"
#include "page/rose_page_unusual.h"

/* Words that are looked at together, from LOOK_TOGETHER on. */
#define LOOK_BLOCK				256
#define LOOK_TOGETHER			8

static int
count_known_unusual(RoseColumnBuffer *buffer, int from, int to)
{
	int			seen;

	(void) rose_distinct_extend(buffer->distinct, buffer, to);
	seen = Min(to, rose_distinct_seen(buffer->distinct));
	/* if it gave up the others count as new */
	return rose_distinct_new(buffer->distinct, from, seen) + to - Max(from, seen);
}

/* What decides whether values [from, from + n) are usual; uses 'space' if it is not the words. */
static const int64 *
find_deciding(const RoseColumnBuffer *buffer, int from, int n, int64 *space)
{
	const int64 *words = buffer->words + from;
	const RosePlan *plan = &buffer->plan;

	switch (plan->usual.kind)
	{
		case ROSE_USUAL_DIFFERENCE:
			rose_kernel_differences(words, n, space);
			return space;
		case ROSE_USUAL_DISTANCE:
			rose_kernel_distances(words, n, plan->usual.slope, plan->usual.fraction_bits,
								  from, space);
			return space;
		default:
			return words;
	}
}

int
rose_builder_count_unusual(BuilderColumn *column, int from, int to)
{
	const RosePlan *plan = &column->buffer.plan;
	int64		space[LOOK_BLOCK];
	int			count = 0;

	if (plan->usual.kind == ROSE_USUAL_KNOWN)
		return count_known_unusual(&column->buffer, from, to);
	if (to - from < LOOK_TOGETHER)
	{
		for (; from < to; from++)
			count += rose_builder_is_unusual(column, from);
		return count;
	}
	while (from < to)
	{
		int			n = Min(to - from, LOOK_BLOCK);
		const int64 *x = find_deciding(&column->buffer, from, n, space);

		if (plan->usual.step == 1)
			count += rose_kernel_count_outside(x, n, plan->usual.base, plan->usual.top);
		else
			count += rose_kernel_count_odd(x, n, plan->usual.base, &plan->usual.divisor,
										   Min(plan->usual.top, plan->usual.divisor.limit));
		from += n;
	}
	return count;
}
