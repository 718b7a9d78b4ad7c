/*-------------------------------------------------------------------------
 *
 * rose_interval.h
 *	  Intervals of a table's keys, which the processes of a parallel query take from one list.
 *
 * An interval has the keys from one bound on, up to but not including the next one.  The
 * first one has all keys below the first bound, the last one all others.  Bounds are keys
 * or first columns of keys, in strictly ascending order.
 *
 * They are about keys, and say nothing about where rows are: each process takes a view of
 * its own, and still each row that the snapshot sees is in one interval.
 *
 * Each interval is taken once, and who takes several takes them in the order of keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INTERVAL_H
#define ROSE_INTERVAL_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_key_range.h"

/* rose.interval_leaves */
extern void rose_interval_define_settings(void);

/* ---- choosing them: the process that begins ---- */

typedef struct RoseIntervalBounds
{
	uint32		n;
	StringInfoData bytes;
} RoseIntervalBounds;

/* For about equal parts of what is in the tree now; none if it is small.  Memory in the current context. */
extern void rose_interval_choose(RoseTree *tree, RoseIntervalBounds *bounds);

/* ---- sharing them ---- */

typedef struct RoseIntervalsShared RoseIntervalsShared;

extern Size rose_interval_shared_size(const RoseIntervalBounds *bounds);
extern void rose_interval_share(RoseIntervalsShared *shared, const RoseIntervalBounds *bounds);

/* All are to be taken once more.  Nobody may be taking any. */
extern void rose_interval_restart(RoseIntervalsShared *shared);

/* ---- taking them ---- */

typedef struct RoseIntervals RoseIntervals;

/* In the current context. */
extern RoseIntervals *rose_interval_attach(RoseIntervalsShared *shared, const RoseSchema *schema);

/* The shared memory goes: no more are taken. */
extern void rose_interval_detach(RoseIntervals *intervals);

/* False: all are taken.  The Datums live as long as intervals. */
extern bool rose_interval_next(RoseIntervals *intervals, RoseKeyRange *interval);

/* ---- ranges of keys in them ---- */

typedef enum RoseIntervalCut
{
	ROSE_CUT_BEFORE,			/* the range ends before the interval */
	ROSE_CUT_INSIDE,
	ROSE_CUT_BEHIND				/* it begins behind it */
} RoseIntervalCut;

/* INSIDE: the range is left with what it has in common with the interval. */
extern RoseIntervalCut rose_interval_cut(const RoseSchema *schema, const RoseKeyRange *interval,
										 RoseKeyRange *range);

#endif							/* ROSE_INTERVAL_H */
