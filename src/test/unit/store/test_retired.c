/*-------------------------------------------------------------------------
 *
 * test_retired.c
 *	  Unit test of src/store/rose_retired.c: whatever components are replaced under
 *	  whatever readers, the list keeps all that an exact list of any length would
 *	  keep, and not much more.
 *
 * Tables are simulated whose runs are merged into level 1 and that into level 2, whose
 * components live long.  Ids are also used up by tail segments and by builds that
 * are given up.  Readers overlap each other; most of them look at the manifest again
 * and again, which keeps everything that was replaced since they began.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store_internal.h"
#include "unit_check.h"

#define MAX_IDS		200000
#define MAX_READERS	8
#define RUNS		8			/* merged at a time */
#define PARTS		4			/* of level 1, replaced by a merge into level 2, ... */
#define PIECES		20			/* ... with as many pieces of it */

typedef struct Reader
{
	bool		active;
	uint64		generation;
	uint32		seen_upto;
	int			until;
} Reader;

static RoseRetiredShared list[ROSE_MAX_RETIRED];
static int	nlist;

/* The exact one: of each id since when it is retired, 0 = it is not, or not any more. */
static uint64 exact[MAX_IDS];
static bool is_dead[MAX_IDS];	/* a component that is retired or was */
static uint32 next_id;
static uint64 generation;
static Reader readers[MAX_READERS];

static uint64 random_state;

static uint32
random_below(uint32 n)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % n;
}

/* What somebody may need of what was retired then. */
static uint32
needed_upto(uint64 retired)
{
	uint32		upto = 0;

	for (int i = 0; i < MAX_READERS; i++)
		if (readers[i].active && readers[i].generation <= retired)
			upto = Max(upto, readers[i].seen_upto);
	return upto;
}

static void
purge(void)
{
	uint32		upto[ROSE_MAX_RETIRED];
	int			n;
	bool		freed;

	for (int i = 0; i < nlist; i++)
		upto[i] = needed_upto(list[i].generation);
	n = rose_retired_keep(list, nlist, upto, &freed);
	CHECK(n <= nlist && (freed || n == nlist));
	nlist = n;
	for (uint32 id = 1; id < next_id; id++)
		if (exact[id] != 0 && id > needed_upto(exact[id]))
			exact[id] = 0;
}

static void
retire(uint32 id)
{
	nlist = rose_retired_note(list, nlist, id, generation);
	exact[id] = generation;
	is_dead[id] = true;
	CHECK(nlist > 0 && nlist <= ROSE_MAX_RETIRED);
}

/* All that must be kept is; how many components are kept, and how many in vain. */
static void
compare(int *kept, int *in_vain)
{
	RoseOwnerRange ranges[ROSE_MAX_RETIRED];
	int			nranges = rose_retired_ranges(list, nlist, ranges);

	for (int i = 0; i < nranges; i++)
	{
		CHECK(ranges[i].first <= ranges[i].last);
		CHECK(i == 0 || ranges[i - 1].last < ranges[i].first);
	}
	for (int i = 1; i < nlist; i++)
		CHECK(list[i - 1].first <= list[i].first);
	*kept = *in_vain = 0;
	for (uint32 id = 1; id < next_id; id++)
	{
		bool		found = rose_ranges_contain(ranges, nranges, id);

		CHECK(exact[id] == 0 || found);
		*kept += exact[id] != 0;
		*in_vain += is_dead[id] && exact[id] == 0 && found;
	}
	CHECK(!rose_ranges_contain(ranges, nranges, next_id));
	CHECK(!rose_ranges_contain(ranges, nranges, 0));
}

static uint32
new_id(void)
{
	next_id += random_below(3); /* tail segments */
	CHECK(next_id < MAX_IDS);
	return next_id++;
}

/* A spill, and the merges that it makes due. */
static void
spill(void)
{
	static uint32 runs[RUNS],
				parts[PARTS],
				pieces[PIECES];
	static int	nruns,
				nparts,
				at_piece;

	if (next_id == 1)
	{
		nruns = nparts = at_piece = 0;
		for (int i = 0; i < PIECES; i++)
			pieces[i] = new_id();
	}
	generation += 1 + random_below(5);	/* other tables */
	runs[nruns++] = new_id();
	if (nruns < RUNS)
		return;
	if (nparts == PARTS)
	{
		/* a pass, piece by piece */
		for (int i = 0; i < PIECES; i++, generation++)
		{
			retire(pieces[i]);
			pieces[i] = new_id();
		}
		while (nparts > 0)
			retire(parts[--nparts]);
	}
	if (random_below(10) == 0)
		is_dead[new_id()] = true;	/* given up */
	parts[nparts++] = new_id();
	while (nruns > 0)
		retire(runs[--nruns]);
}

/* There are always some, which overlap; duration 0: none. */
static void
change_readers(int now, int duration)
{
	for (int i = 0; i < MAX_READERS; i++)
	{
		Reader	   *reader = &readers[i];

		if (reader->active && now >= reader->until)
			reader->active = false;
	}
	if (duration > 0 && now % (duration / 2) == 0)
		for (int i = 0; i < MAX_READERS; i++)
		{
			Reader	   *reader = &readers[i];

			if (reader->active)
				continue;
			reader->active = true;
			reader->generation = generation;
			reader->seen_upto = random_below(4) > 0 ? PG_UINT32_MAX : next_id - 1;
			reader->until = now + duration / 2 + random_below(duration);
			break;
		}
}

/* What is kept in vain, as a part of what has to be kept. */
static double
simulate(int nspills, int duration, uint64 seed)
{
	double		sum_kept = 0;
	double		sum_in_vain = 0;
	int			kept,
				in_vain;

	memset(readers, 0, sizeof(readers));
	memset(exact, 0, sizeof(exact));
	memset(is_dead, 0, sizeof(is_dead));
	nlist = 0;
	next_id = 1;
	generation = 2;
	random_state = seed;
	for (int now = 0; now < nspills; now++)
	{
		change_readers(now, duration);
		spill();
		if (now % 16 > 0)
			continue;
		purge();
		compare(&kept, &in_vain);
		sum_kept += kept;
		sum_in_vain += in_vain;
	}
	memset(readers, 0, sizeof(readers));
	purge();
	CHECK(nlist == 0);
	return sum_in_vain / Max(sum_kept, 1);
}

/* Fewer than the list has places: it is exact. */
static void
test_exact(void)
{
	nlist = 0;
	for (uint32 id = ROSE_MAX_RETIRED; id > 0; id--)
		nlist = rose_retired_note(list, nlist, id * 10, 1000 - id);
	CHECK(nlist == ROSE_MAX_RETIRED);
	for (int i = 0; i < nlist; i++)
		CHECK(list[i].first == 10 * (i + 1) && list[i].last == list[i].first &&
			  list[i].generation == 999 - i);
}

/* What lies next to each other, in ids and in time, becomes one. */
static void
test_neighbours(void)
{
	nlist = 0;
	for (uint32 id = 1; id <= ROSE_MAX_RETIRED; id++)
		nlist = rose_retired_note(list, nlist, id * 10 - (id == 50 ? 8 : 0), 7 * id);
	nlist = rose_retired_note(list, nlist, 5000, 5000);
	CHECK(nlist == ROSE_MAX_RETIRED);
	CHECK(list[48].first == 490 && list[48].last == 492 && list[48].generation == 350);
	CHECK(list[49].first == 510);

	/* one that lay between the two */
	nlist = rose_retired_note(list, nlist - 1, 491, 6000);
	CHECK(list[48].first == 490 && list[48].last == 492 && list[48].generation == 350);
	CHECK(list[49].first == 491 && list[49].last == 491 && list[49].generation == 6000);
}

/* What a component sheds is retired with each trim, and has one place. */
static void
test_again(void)
{
	uint32		upto[3] = {100, 0, 100};
	bool		freed;

	nlist = 0;
	for (int i = 0; i < 3; i++)
		nlist = rose_retired_note(list, nlist, 10 * (i + 1), 5);
	nlist = rose_retired_note(list, nlist, 20, 9);
	CHECK(nlist == 3 && list[1].first == 20 && list[1].last == 20 && list[1].generation == 9);
	CHECK(list[0].generation == 5 && list[2].generation == 5);
	nlist = rose_retired_keep(list, nlist, upto, &freed);
	CHECK(nlist == 2 && freed);
	nlist = rose_retired_note(list, nlist, 20, 11);
	CHECK(nlist == 3 && list[1].first == 20 && list[1].generation == 11);
}

int
main(int argc, char **argv)
{
	static const int durations[] = {0, 50, 500, 2000};

	test_exact();
	test_neighbours();
	test_again();
	for (int i = 0; i < lengthof(durations); i++)
	{
		double		worst = 0;

		for (int seed = 1; seed <= 3; seed++)
			worst = Max(worst, simulate(5000, durations[i], seed));
		printf("# readers of %d spills: %.3f kept in vain\n", durations[i], worst);
		CHECK(worst < 0.1);
	}
	printf("ok 1 - what readers may still read\n1..1\n");
	return 0;
}
