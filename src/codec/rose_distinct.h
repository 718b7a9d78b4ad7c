/*-------------------------------------------------------------------------
 *
 * rose_distinct.h
 *	  The distinct values of a column buffer, as long as they are few.
 *
 * Values are looked at once, in order, each getting a code: the rank of its
 * first appearance.  When they turn out to be too many for a dictionary to pay, the set
 * gives up until it is reset; what it knew of the values seen stays usable.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DISTINCT_H
#define ROSE_DISTINCT_H

#include "codec/rose_codec.h"

/* A dictionary of more entries would hardly leave room for codes on a page. */
#define ROSE_DISTINCT_MAX	1024

extern RoseDistinct *rose_distinct_create(MemoryContext context);
extern void rose_distinct_reset(RoseDistinct *set);

/*
 * Look at values up to number n of the column.  False: it gave up, with the values before
 * rose_distinct_seen() looked at.
 */
extern bool rose_distinct_extend(RoseDistinct *set, const RoseColumnBuffer *col, int n);

/*
 * Look at values up to number n.  As long as there are no more than 'most' distinct ones:
 * how many values the set is certain to take; else how many it took until there were.
 */
extern int	rose_distinct_reach(RoseDistinct *set, const RoseColumnBuffer *col, int n, int most);

/* How many of values [from, to), all of them seen, were new. */
extern int	rose_distinct_new(const RoseDistinct *set, int from, int to);

/* Forget values n and later. */
extern void rose_distinct_truncate(RoseDistinct *set, const RoseColumnBuffer *col, int n);

extern int	rose_distinct_seen(const RoseDistinct *set);
extern int	rose_distinct_count(const RoseDistinct *set);

/* How many more distinct values, one after the other, it takes for certain. */
extern int	rose_distinct_room(const RoseDistinct *set);

/* The number of the first value that has this code. */
extern int	rose_distinct_first(const RoseDistinct *set, int code);

/* The codes of the values seen. */
extern const uint16 *rose_distinct_codes(const RoseDistinct *set);

#endif							/* ROSE_DISTINCT_H */
