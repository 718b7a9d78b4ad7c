/*-------------------------------------------------------------------------
 *
 * rose_retired.c
 *	  The list of replaced components that a transaction may still read.
 *
 * Readers must not stop merges: a query of hours beside them may keep any number of
 * components.  But the list is in shared memory and has a fixed number of places.  So a
 * place holds a range of owner ids, and the generation of the latest switch that retired
 * one of them.  A range has one id at first.  When all places are taken, two neighbours
 * become one, with everything between them and the newer generation.  Of a range, that is
 * kept which a transaction can have met that has a pin of its generation or an older one:
 * nothing is freed early, some things late.  What a component sheds has one id, which is
 * retired again with each trim: its place has the newest generation then.
 *
 * What lies between two neighbours: owners that live anyway (in the manifest, or being
 * built), ones that other places hold, and, kept in vain, components without readers and
 * given-up builds whose regions were not used again.  No tail segments, though many ids
 * are theirs: they are never retired, and the region map tells them from components.
 *
 * Neighbours are chosen by the number of ids from one to the other times the difference
 * of their generations, so that neither needs a unit.  Both grow with time.  The second
 * factor keeps ranges short in time: else readers that overlap, none of them very old,
 * could together keep one for ever.
 *
 * Pure functions on arrays.  Locking is the caller's (alloc_lock).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* What it costs to make one of two neighbours. */
static double
cost_of_joining(const RoseRetiredShared *a, const RoseRetiredShared *b)
{
	double		ids = b->first > a->last ? (double) b->first - a->last : 1;
	double		generations = a->generation > b->generation ?
		(double) (a->generation - b->generation) : (double) (b->generation - a->generation);

	return ids * (generations + 1);
}

/* Make one of the two neighbours for which it costs least.  REQUIRES: n >= 2. */
static int
join_cheapest(RoseRetiredShared *retired, int n)
{
	int			best = 0;
	double		best_cost = cost_of_joining(&retired[0], &retired[1]);

	for (int i = 1; i < n - 1; i++)
	{
		double		cost = cost_of_joining(&retired[i], &retired[i + 1]);

		if (cost < best_cost)
		{
			best = i;
			best_cost = cost;
		}
	}
	retired[best].last = Max(retired[best].last, retired[best + 1].last);
	retired[best].generation = Max(retired[best].generation, retired[best + 1].generation);
	memmove(&retired[best + 1], &retired[best + 2],
			(n - best - 2) * sizeof(RoseRetiredShared));
	return n - 1;
}

int
rose_retired_note(RoseRetiredShared *retired, int n, uint32 id, uint64 generation)
{
	int			at;

	for (at = 0; at < n && retired[at].first <= id; at++)
	{
		if (retired[at].first == id && retired[at].last == id)
		{
			retired[at].generation = Max(retired[at].generation, generation);
			return n;
		}
	}
	if (n == ROSE_MAX_RETIRED)
		n = join_cheapest(retired, n);
	for (at = n; at > 0 && retired[at - 1].first > id; at--)
		retired[at] = retired[at - 1];
	retired[at].first = retired[at].last = id;
	retired[at].generation = generation;
	return n + 1;
}

int
rose_retired_keep(RoseRetiredShared *retired, int n, const uint32 *upto, bool *freed)
{
	int			nkept = 0;

	*freed = false;
	for (int i = 0; i < n; i++)
	{
		*freed = *freed || retired[i].last > upto[i];
		if (retired[i].first > upto[i])
			continue;
		retired[nkept] = retired[i];
		retired[nkept].last = Min(retired[i].last, upto[i]);
		nkept++;
	}
	return nkept;
}

/* An id may lie in the range of others: it was live when they became neighbours. */
int
rose_retired_ranges(const RoseRetiredShared *retired, int n, RoseOwnerRange *ranges)
{
	int			nranges = 0;

	for (int i = 0; i < n; i++)
	{
		if (nranges > 0 && retired[i].first <= ranges[nranges - 1].last)
		{
			ranges[nranges - 1].last = Max(ranges[nranges - 1].last, retired[i].last);
			continue;
		}
		ranges[nranges].first = retired[i].first;
		ranges[nranges++].last = retired[i].last;
	}
	return nranges;
}

bool
rose_ranges_contain(const RoseOwnerRange *ranges, int n, uint32 id)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (ranges[middle].last < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ranges[low].first <= id;
}
