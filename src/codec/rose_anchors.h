/*-------------------------------------------------------------------------
 *
 * rose_anchors.h
 *	  Anchors: every so many values of a column, as they are, among packed differences.
 *
 *		uint8	width		0 .. 64
 *		varint	base		zigzag
 *		varint	step
 *		bits	(anchor - base) / step, one for each 'interval' values begun
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ANCHORS_H
#define ROSE_ANCHORS_H

#include "postgres.h"

/* What the anchors so far have in common. */
typedef struct RoseAnchors
{
	int			interval;		/* values of an anchor, 0 without anchors */
	int64		low;
	int64		high;
	uint64		step;			/* all are a multiple of it away from the lowest; 0: one only */
} RoseAnchors;

/* How far ahead of a plan anchors were looked at; 'values' 0: not at all. */
typedef struct RoseAnchorsAhead
{
	RoseAnchors anchors;
	int			values;
	int			growth;			/* the most bytes they have added at any time */
} RoseAnchorsAhead;

/* Forget all but the interval. */
extern void rose_anchors_restart(RoseAnchors *anchors);

/* Follow words[from .. n). */
extern void rose_anchors_follow(RoseAnchors *anchors, const int64 *words, int from, int n);

/* Bytes taken among n values. */
extern int	rose_anchors_size(const RoseAnchors *anchors, int n);

/* The most bytes by which words[from .. n), which were not followed yet, raise the size at any time. */
extern int	rose_anchors_look_ahead(const RoseAnchors *anchors, RoseAnchorsAhead *ahead,
									const int64 *words, int from, int n);

/* Write those of words[0 .. n); returns the position after them. */
extern char *rose_anchors_write(const RoseAnchors *anchors, const int64 *words, int n, char *out);

/* So many values come before the next anchor, which may be of any width. */
static inline int
rose_anchors_before_next(const RoseAnchors *anchors, int n)
{
	return (anchors->interval - n % anchors->interval) % anchors->interval;
}

#endif							/* ROSE_ANCHORS_H */
