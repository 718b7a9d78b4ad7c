/*-------------------------------------------------------------------------
 *
 * rose_positions.h
 *	  Ascending positions among the values of a segment: where runs begin, or where
 *	  values stand that do not fit a frame.
 *
 * The n values are divided into buckets of 1 << shift.  A directory tells how many
 * positions lie before each bucket; of a position only its place in the bucket is
 * stored.  So it takes one look and a few comparisons to find the positions around
 * a value, and shift + 2 bits or so to store one.
 *
 *		uint16	before[nbuckets - 1]	of buckets 1, 2, ...
 *		bits	npositions places of shift bits
 *
 * Number and shift are the codec's to store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_POSITIONS_H
#define ROSE_POSITIONS_H

#include "postgres.h"

#include "util/rose_bitpack.h"

#define ROSE_POSITIONS_MIN_SHIFT	4
#define ROSE_POSITIONS_MAX_SHIFT	16

typedef struct RosePositions
{
	int			n;				/* positions */
	int			shift;
	int			nbuckets;
	const char *before;
	const char *places;
} RosePositions;

static inline int
rose_positions_nbuckets(int nvalues, int shift)
{
	return nvalues <= 0 ? 1 : ((nvalues - 1) >> shift) + 1;
}


/* ---- Building ---- */

/* The shift that suits n positions among so many values. */
extern int	rose_positions_shift(int nvalues, int n);

/*
 * Bytes taken.  A further position adds at most shift bits, a further value at most one,
 * and both together two bytes for what is rounded up.
 */
static inline int
rose_positions_size(int nvalues, int n, int shift)
{
	return 2 * (rose_positions_nbuckets(nvalues, shift) - 1) + (int) rose_bitpack_size(n, shift);
}

/* Write positions[0 .. n), which are overwritten; returns the position after them. */
extern char *rose_positions_write(char *out, uint64 *positions, int n, int nvalues, int shift);


/* ---- Reading ---- */

/*
 * Parse n positions, which must lie in [p, end); *next is what comes after
 * them.  Returns NULL, or what is wrong.
 */
extern const char *rose_positions_open(RosePositions *positions, const char *p, const char *end,
									   int nvalues, int n, int shift, const char **next);

/* How many positions are below value i, 0 <= i <= nvalues. */
extern int	rose_positions_rank(const RosePositions *positions, int i);

/* Some bucket at or before that of position k, to go on from. */
extern int	rose_positions_bucket(const RosePositions *positions, int k);

/* They ascend and are below nvalues.  Returns NULL, or what is wrong. */
extern const char *rose_positions_check(const RosePositions *positions, int nvalues);

/* Number of positions before a bucket. */
static inline int
rose_positions_before(const RosePositions *positions, int bucket)
{
	uint16		before;

	if (bucket <= 0)
		return 0;
	if (bucket >= positions->nbuckets)
		return positions->n;
	memcpy(&before, positions->before + 2 * (bucket - 1), 2);
	return Min(before, positions->n);
}

static inline int
rose_positions_place(const RosePositions *positions, int k)
{
	return (int) rose_bitpack_get(positions->places, positions->shift, k);
}

/*
 * Position k < n, from a bucket at or before its own, which is moved on to it.  On a bad
 * page it may be any number from 0 to a bucket beyond the values.
 */
static inline int
rose_positions_next(const RosePositions *positions, int k, int *bucket)
{
	while (*bucket + 1 < positions->nbuckets && rose_positions_before(positions, *bucket + 1) <= k)
		(*bucket)++;
	return (*bucket << positions->shift) + rose_positions_place(positions, k);
}

/* Is i one of the positions?  Then *k is its number. */
static inline bool
rose_positions_find(const RosePositions *positions, int i, int *k)
{
	*k = rose_positions_rank(positions, i);
	return *k < rose_positions_before(positions, (i >> positions->shift) + 1) &&
		rose_positions_place(positions, *k) == (i & (int) rose_width_mask(positions->shift));
}

#endif							/* ROSE_POSITIONS_H */
