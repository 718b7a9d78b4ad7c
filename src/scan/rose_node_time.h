/*-------------------------------------------------------------------------
 *
 * rose_node_time.h
 *	  Functions that take a part of times: what they do not tell apart.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_TIME_H
#define ROSE_NODE_TIME_H

#include "postgres.h"

#include "nodes/primnodes.h"

typedef struct RoseNodeTimeUnit
{
	int			code;			/* core's */
	double		parts;			/* values that the part of a time has, about; 0: many */
	double		usecs;			/* length, about; 0: times are not truncated to it */
	int64		grain;			/* microseconds, beginning at midnight, within which the part is one; 0: none */
	int64		period;			/* ... after which it comes again; 0: it does not */
} RoseNodeTimeUnit;

/* The unit of extract, date_part or date_trunc that a constant names; NULL: none that is known. */
extern const RoseNodeTimeUnit *rose_node_time_unit(const Node *name);

/* Times without a zone that an expression of one column of them does not tell apart. */
typedef struct RoseNodeTimeGrain
{
	int64		grain;			/* those with one floor(time modulo period / grain); 0: it may tell all apart */
	int64		period;			/* 0: there is none */
} RoseNodeTimeGrain;

extern RoseNodeTimeGrain rose_node_time_grain(const Node *expr);

/* What stands for a time that is not infinite. */
static inline int64
rose_node_time_place(RoseNodeTimeGrain grain, int64 time)
{
	int64		place;

	if (grain.period > 0)
	{
		time %= grain.period;
		if (time < 0)
			time += grain.period;
	}
	place = time / grain.grain;
	return place - (time < 0 && place * grain.grain != time ? 1 : 0);
}

#endif							/* ROSE_NODE_TIME_H */
