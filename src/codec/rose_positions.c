/*-------------------------------------------------------------------------
 *
 * rose_positions.c
 *	  Ascending positions among the values of a segment.  See rose_positions.h.
 *
 * Pure functions on the segment; no locks.  On a damaged page places may be wrong, but
 * searches end and stay inside.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_positions.h"

/*
 * Positions in a bucket, on average.  Somewhat more would take the least space, but
 * they are searched one after the other.
 */
#define WANTED_IN_BUCKET	6

/* Buckets with more than this are searched by halving first. */
#define MAX_SCANNED			8

int
rose_positions_shift(int nvalues, int n)
{
	int64		size = (int64) nvalues * WANTED_IN_BUCKET / Max(n, 1);
	int			shift = rose_bits_needed((uint64) size) - 1;

	return Max(ROSE_POSITIONS_MIN_SHIFT, Min(shift, ROSE_POSITIONS_MAX_SHIFT));
}

char *
rose_positions_write(char *out, uint64 *positions, int n, int nvalues, int shift)
{
	int			nbuckets = rose_positions_nbuckets(nvalues, shift);
	int			k = 0;
	int			bucket;

	for (bucket = 1; bucket < nbuckets; bucket++)
	{
		uint16		before;

		while (k < n && positions[k] < (uint64) bucket << shift)
			k++;
		before = (uint16) k;
		memcpy(out, &before, 2);
		out += 2;
	}
	for (k = 0; k < n; k++)
		positions[k] &= rose_width_mask(shift);
	rose_bitpack_write(out, shift, positions, n);
	return out + rose_bitpack_size(n, shift);
}

const char *
rose_positions_open(RosePositions *positions, const char *p, const char *end,
					int nvalues, int n, int shift, const char **next)
{
	if (shift < ROSE_POSITIONS_MIN_SHIFT || shift > ROSE_POSITIONS_MAX_SHIFT)
		return "size of a bucket of positions is out of range";
	if (end - p < rose_positions_size(nvalues, n, shift))
		return "positions are cut off";
	positions->n = n;
	positions->shift = shift;
	positions->nbuckets = rose_positions_nbuckets(nvalues, shift);
	positions->before = p;
	positions->places = p + 2 * (positions->nbuckets - 1);
	*next = p + rose_positions_size(nvalues, n, shift);
	return NULL;
}

int
rose_positions_rank(const RosePositions *positions, int i)
{
	int			bucket = i >> positions->shift;
	int			place = i & (int) rose_width_mask(positions->shift);
	int			lo = rose_positions_before(positions, bucket);
	int			hi = rose_positions_before(positions, bucket + 1);

	while (hi - lo > MAX_SCANNED)
	{
		int			mid = (lo + hi) / 2;

		if (rose_positions_place(positions, mid) < place)
			lo = mid + 1;
		else
			hi = mid;
	}
	while (lo < hi && rose_positions_place(positions, lo) < place)
		lo++;
	return lo;
}

int
rose_positions_bucket(const RosePositions *positions, int k)
{
	int			lo = 0;
	int			hi = positions->nbuckets - 1;

	/* the last one with no more than k before it */
	while (lo < hi)
	{
		int			mid = (lo + hi + 1) / 2;

		if (rose_positions_before(positions, mid) <= k)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

const char *
rose_positions_check(const RosePositions *positions, int nvalues)
{
	int			last = -1;
	int			bucket;
	int			k;

	for (bucket = 1; bucket < positions->nbuckets; bucket++)
	{
		uint16		before;

		memcpy(&before, positions->before + 2 * (bucket - 1), 2);
		if (before > positions->n || before < rose_positions_before(positions, bucket - 1))
			return "directory of positions does not ascend";
	}
	bucket = 0;
	for (k = 0; k < positions->n; k++)
	{
		int			position = rose_positions_next(positions, k, &bucket);

		if (position >= nvalues)
			return "position is out of range";
		if (position <= last)
			return "positions do not ascend";
		last = position;
	}
	return NULL;
}
