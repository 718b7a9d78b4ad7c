/*-------------------------------------------------------------------------
 *
 * test_picker.c
 *	  Unit test of src/lsm/merge/rose_picker.c: single decisions, and simulated
 *	  tables whose number of components, write amplification and room beyond
 *	  the live rows must stay bounded.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "lsm/merge/rose_picker.h"
#include "unit_check.h"

#define C0_SIZE		1000
#define HORIZON		100

static RoseComponentEntryDisk table[ROSE_MAX_COMPONENTS];
static bool blocked[ROSE_MAX_COMPONENTS];
static bool busy[ROSE_MAX_COMPONENTS];
static uint8 partly[ROSE_MAX_COMPONENTS];
static int	ncomponents;
static uint32 next_id = 1;

static RoseComponentEntryDisk *
add(int level, uint64 bytes)
{
	RoseComponentEntryDisk *entry = &table[ncomponents];

	CHECK(ncomponents < ROSE_MAX_COMPONENTS);
	memset(entry, 0, sizeof(*entry));
	busy[ncomponents] = false;
	partly[ncomponents] = ROSE_PICK_NOT_PARTLY;
	blocked[ncomponents++] = false;
	entry->id = next_id++;
	entry->level = level;
	entry->state = ROSE_COMPONENT_LIVE;
	entry->raw_bytes = bytes;
	entry->nrows = bytes;
	entry->max_xid = HORIZON - 1;
	return entry;
}

static void
clear(void)
{
	ncomponents = 0;
}

static bool stale = false;

static RosePickResult
ask(void)
{
	RosePickInput input = {0};

	input.c0_size = C0_SIZE;
	input.ncomponents = ncomponents;
	input.components = table;
	input.blocked = blocked;
	input.busy = busy;
	input.partly = partly;
	input.horizon = HORIZON;
	input.min_ratio = 3.0;
	input.stale = stale;
	return rose_pick_merge(&input);
}

static bool
picked(const RosePickResult *pick, int first, int last, int level)
{
	if (!pick->merge || pick->target_level != level || pick->ninputs != last - first + 1)
		return false;
	for (int i = 0; i < pick->ninputs; i++)
		if (pick->inputs[i] != table[first + i].id)
			return false;
	return true;
}

static void
test_decisions(void)
{
	RosePickResult pick;

	clear();
	CHECK(!ask().merge);
	add(0, 500);
	CHECK(!ask().merge);		/* one run is nothing to merge */
	add(0, 500);
	pick = ask();
	CHECK(picked(&pick, 0, 1, 1));	/* as large as C0: they become C1 */

	clear();
	add(0, 10);
	add(1, 2900);
	CHECK(!ask().merge);
	table[1].raw_bytes = 3100;
	pick = ask();
	CHECK(picked(&pick, 1, 1, 2));	/* C1 has outgrown R * C0 and becomes C2 */
	add(2, 100000);
	pick = ask();
	CHECK(!pick.merge);			/* with so much data, R is larger */
	CHECK(fabs(pick.ratio - sqrt(103.11)) < 0.01);
	table[1].raw_bytes = 12000;
	pick = ask();
	CHECK(picked(&pick, 1, 2, 2));

	/* all pieces of C2, and what is left of a C1 that a pass has begun with */
	clear();
	add(1, 40000)->first_ordinal = 30000;
	for (int i = 0; i < 5; i++)
		add(2, 20000);
	CHECK(!ask().merge);
	table[0].first_ordinal = 20000;
	pick = ask();
	CHECK(picked(&pick, 0, 5, 2));
	blocked[3] = true;			/* a pass needs them all */
	CHECK(!ask().merge);
	blocked[3] = false;

	clear();
	for (int i = 0; i < 4; i++)
		add(0, 10);
	add(1, 2000);
	pick = ask();
	CHECK(picked(&pick, 0, 3, 0));	/* a trickle does not rewrite C1 */
	table[3].raw_bytes = 200;
	table[4].raw_bytes = 800;
	pick = ask();
	CHECK(picked(&pick, 0, 4, 1));	/* worth a pass over C1 */
	table[3].raw_bytes = 500;
	pick = ask();
	CHECK(picked(&pick, 0, 2, 0));	/* wait for more like that; the small ones do not */
	for (int i = 0; i < 3; i++)
		table[i].raw_bytes = 100;
	CHECK(!ask().merge);
}

/* An index with many entries of no row: all of it, whatever its sizes are, but not past what has to stay in its place. */
static void
test_stale(void)
{
	RosePickResult pick;

	clear();
	add(0, 10);
	add(1, 100);
	add(2, 500);
	add(2, 500);
	pick = ask();
	CHECK(!pick.merge && !pick.sift);
	stale = true;
	pick = ask();
	CHECK(picked(&pick, 0, 3, 2) && pick.sift);
	blocked[0] = true;
	pick = ask();
	CHECK(picked(&pick, 1, 3, 2) && pick.sift);
	blocked[0] = false;
	busy[0] = true;
	pick = ask();
	CHECK(!pick.sift);
	busy[0] = false;
	blocked[1] = true;
	pick = ask();
	CHECK(!pick.merge);
	blocked[1] = false;
	busy[3] = true;
	pick = ask();
	CHECK(!pick.merge);
	clear();
	pick = ask();
	CHECK(!pick.merge);
	clear();
	add(2, 1000);
	pick = ask();
	CHECK(picked(&pick, 0, 0, 2) && pick.sift);
	stale = false;
}

static void
test_tombstones(void)
{
	RosePickResult pick;

	clear();
	add(0, 4000)->ntombstones = 2000;
	add(2, 3000);
	pick = ask();
	CHECK(picked(&pick, 0, 1, 2));
	table[0].max_xid = HORIZON; /* some snapshot needs what they hide */
	CHECK(!ask().merge);
	table[0].max_xid = HORIZON - 1;
	blocked[1] = true;			/* they would have to stay */
	CHECK(!ask().merge);
}

static void
test_private(void)
{
	RosePickResult pick;

	clear();
	for (int i = 0; i < 6; i++)
	{
		RoseComponentEntryDisk *entry = add(0, 100);

		entry->flags = ROSE_COMPONENT_PRIVATE;
		entry->owner_xid = 77;
		blocked[i] = true;
	}
	pick = ask();
	CHECK(picked(&pick, 0, 5, 0) && pick.kind == ROSE_PICK_JOIN);
	table[2].owner_xid = 78;	/* of another transaction */
	pick = ask();
	CHECK(picked(&pick, 0, 5, 0) && pick.kind == ROSE_PICK_JOIN);

	/* committed, but not convertible: rewritten alone */
	blocked[2] = false;
	pick = ask();
	CHECK(picked(&pick, 2, 2, 0) && pick.kind == ROSE_PICK_MERGE);

	/* none of a transaction's runs is left out between others: it may be newer than some of them */
	clear();
	for (int i = 0; i < 7; i++)
	{
		RoseComponentEntryDisk *entry = add(0, 100);

		entry->flags = ROSE_COMPONENT_PRIVATE;
		entry->owner_xid = 77;
		blocked[i] = true;
	}
	busy[3] = true;
	CHECK(!ask().merge);
	busy[3] = false;
	table[3].epoch = 1;
	CHECK(!ask().merge);
	table[3].epoch = 0;
	pick = ask();
	CHECK(picked(&pick, 0, 6, 0) && pick.kind == ROSE_PICK_JOIN);

	clear();
	add(0, 600)->state = ROSE_COMPONENT_PENDING;
	add(0, 600);
	add(0, 600)->state = ROSE_COMPONENT_PENDING;
	CHECK(!ask().merge);
}

static void
add_private(RosePickPartly part, uint64 bytes)
{
	RoseComponentEntryDisk *entry = add(0, bytes);

	entry->flags = ROSE_COMPONENT_PRIVATE | ROSE_COMPONENT_OWNERS;
	blocked[ncomponents - 1] = true;
	partly[ncomponents - 1] = part;
}

/* Joins of private runs take a fifth of the table, or C0 together, and large runs two at a time. */
static void
test_join_sizes(void)
{
	RosePickResult pick;

	clear();
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 8 - 1);
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 8);
	CHECK(!ask().merge);		/* one of them is small: there may be more soon */
	table[0].raw_bytes = C0_SIZE / 8;
	pick = ask();
	CHECK(picked(&pick, 0, 1, 0) && pick.kind == ROSE_PICK_JOIN);
	table[1].raw_bytes = C0_SIZE / 4 + 1;
	CHECK(!ask().merge);		/* of unlike size */

	/* together as large as C0, whatever the table has, ... */
	clear();
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 2);
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 2);
	pick = ask();
	CHECK(picked(&pick, 0, 1, 0));
	table[1].raw_bytes++;
	CHECK(!ask().merge);

	/* ... or a fifth of it: all of it counts, but for what has moved */
	table[0].raw_bytes = table[1].raw_bytes = 2 * C0_SIZE;
	CHECK(!ask().merge);
	add(1, 3 * C0_SIZE);
	add(2, 13 * C0_SIZE);
	pick = ask();
	CHECK(picked(&pick, 0, 1, 0));
	table[2].first_ordinal = 10;
	CHECK(!ask().merge);

	/* small ones between large ones go along, and do not keep them apart until the manifest fills up */
	clear();
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 3);
	add_private(ROSE_PICK_NOT_PARTLY, 1);
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 3);
	add_private(ROSE_PICK_NOT_PARTLY, 1);
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE / 3);
	pick = ask();
	CHECK(picked(&pick, 0, 3, 0));	/* all five are more than C0 */
	table[2].raw_bytes = table[4].raw_bytes = C0_SIZE / 8 - 1;
	CHECK(!ask().merge);		/* one large one: there may be more soon */

	/* what is older is joined when the newest one is not */
	clear();
	add_private(ROSE_PICK_NOT_PARTLY, 10);
	for (int i = 0; i < 10; i++)
		add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE);
	pick = ask();
	CHECK(picked(&pick, 1, 2, 0));
}

/*
 * One transaction fills a table, by runs of two sizes in turns: joins need little room beside it, its runs are few, and
 * rows are not written often.
 */
static void
simulate_large_transaction(uint64 run_bytes, uint64 other_bytes, int nruns, int max_runs,
						   double max_amplification)
{
	uint64		total = 0;
	uint64		written = 0;

	clear();
	for (int i = 0; i < nruns; i++)
	{
		RosePickResult pick;
		int			n = ncomponents;

		memmove(&table[1], &table[0], n * sizeof(table[0]));
		ncomponents = 0;
		add_private(ROSE_PICK_NOT_PARTLY, i % 2 == 0 ? run_bytes : other_bytes);
		ncomponents = n + 1;
		blocked[n] = true;
		total += table[0].raw_bytes;
		while ((pick = ask()).merge)
		{
			uint64		bytes = 0;

			CHECK(pick.kind == ROSE_PICK_JOIN && pick.ninputs >= 2);
			for (int j = 0, k = 0; j < ncomponents; j++)
			{
				bool		taken = k < pick.ninputs && table[j].id == pick.inputs[k];

				k += taken;
				bytes += taken ? table[j].raw_bytes : 0;
			}
			CHECK(bytes <= Max(total / 5, C0_SIZE));
			for (int j = 0; j < ncomponents; j++)
				if (table[j].id == pick.inputs[0])
				{
					table[j].raw_bytes = table[j].nrows = bytes;
					table[j].id = next_id++;
					ncomponents -= pick.ninputs - 1;
					memmove(&table[j + 1], &table[j + pick.ninputs],
							(ncomponents - j - 1) * sizeof(table[0]));
					break;
				}
			written += bytes;
		}
		CHECK(ncomponents <= max_runs);
	}
	CHECK(written <= max_amplification * total);
}

/* Joins that go on beside each other take a quarter of the table, or C0 each. */
static void
test_joins_together(void)
{
	RosePickResult pick;

	clear();
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE);
	add_private(ROSE_PICK_NOT_PARTLY, C0_SIZE);
	add_private(ROSE_PICK_NOT_PARTLY, 4 * C0_SIZE);
	add_private(ROSE_PICK_NOT_PARTLY, 4 * C0_SIZE);
	add(2, 30 * C0_SIZE);
	pick = ask();
	CHECK(picked(&pick, 0, 2, 0));
	busy[2] = busy[3] = true;	/* a fifth of it is being joined: there is room for a twentieth */
	pick = ask();
	CHECK(picked(&pick, 0, 1, 0));
	table[0].raw_bytes += 40;
	CHECK(!ask().merge);
	table[2].raw_bytes = 20 * C0_SIZE;	/* less than nothing is left */
	CHECK(!ask().merge);
	table[0].raw_bytes = table[1].raw_bytes = C0_SIZE / 2;
	pick = ask();
	CHECK(picked(&pick, 0, 1, 0));
	busy[2] = busy[3] = false;
}

/* ---- a large transaction, and several processes that join its runs ---- */

#define NJOINERS	3

/* What a process is joining. */
typedef struct Joiner
{
	RosePickResult pick;		/* merge = false: nothing */
	uint64		bytes;
	double		left;			/* bytes that come to the table until it is done */
} Joiner;

static bool
is_joined_by(const Joiner *joiner, uint32 id)
{
	for (int i = 0; joiner->pick.merge && i < joiner->pick.ninputs; i++)
		if (joiner->pick.inputs[i] == id)
			return true;
	return false;
}

static void
begin_joins(Joiner *joiners, double speed)
{
	for (int j = 0; j < NJOINERS; j++)
	{
		Joiner	   *joiner = &joiners[j];

		if (joiner->pick.merge)
			continue;
		for (int i = 0; i < ncomponents; i++)
		{
			blocked[i] = true;
			busy[i] = false;
			for (int k = 0; k < NJOINERS; k++)
				busy[i] |= is_joined_by(&joiners[k], table[i].id);
		}
		joiner->pick = ask();
		joiner->bytes = 0;
		for (int i = 0; i < ncomponents; i++)
			if (is_joined_by(joiner, table[i].id))
				joiner->bytes += table[i].raw_bytes;
		joiner->left = joiner->bytes / speed;
	}
}

/* The newest input becomes the output, and the others go. */
static void
end_join(Joiner *joiner)
{
	int			n = 0;

	for (int i = 0; i < ncomponents; i++)
	{
		if (is_joined_by(joiner, table[i].id) && table[i].id != joiner->pick.inputs[0])
			continue;
		table[n++] = table[i];
		if (table[n - 1].id == joiner->pick.inputs[0])
			table[n - 1].raw_bytes = table[n - 1].nrows = joiner->bytes;
	}
	ncomponents = n;
	joiner->pick.merge = false;
}

/*
 * While so many bytes come, joins go on, each of them speed times as fast as these come.
 * What is being made is room beside the table; returns the most that this was of it.
 */
static double
pass_time(Joiner *joiners, uint64 bytes, uint64 total, double speed)
{
	double		time = bytes;
	double		most = 0;

	while (time > 0)
	{
		double		step = time;
		uint64		building = 0;

		begin_joins(joiners, speed);
		for (int j = 0; j < NJOINERS; j++)
			if (joiners[j].pick.merge)
			{
				building += joiners[j].bytes;
				step = Min(step, joiners[j].left);
			}
		most = Max(most, (double) building / Max(total, 10 * C0_SIZE));
		time -= step;
		for (int j = 0; j < NJOINERS; j++)
			if (joiners[j].pick.merge && (joiners[j].left -= step) <= 0)
				end_join(&joiners[j]);
	}
	return most;
}

/* Runs do not pile up, and joins beside each other need no more room than one might. */
static void
simulate_joiners(uint64 run_bytes, int nruns, double speed, int max_runs, double max_room)
{
	Joiner		joiners[NJOINERS];
	uint64		total = 0;
	double		room = 0;
	int			most_runs = 0;

	memset(joiners, 0, sizeof(joiners));
	clear();
	for (int i = 0; i < nruns; i++)
	{
		int			n = ncomponents;

		memmove(&table[1], &table[0], n * sizeof(table[0]));
		ncomponents = 0;
		add_private(ROSE_PICK_NOT_PARTLY, run_bytes);
		ncomponents = n + 1;
		total += run_bytes;
		room = Max(room, pass_time(joiners, run_bytes, total, speed));
		most_runs = Max(most_runs, ncomponents);
	}
	printf("# joiners: " UINT64_FORMAT " bytes, %d runs, speed %.1f: %d runs at most, room %.2f\n", run_bytes, nruns, speed, most_runs, room);
	CHECK(most_runs <= max_runs);
	CHECK(room <= max_room);
	memset(busy, 0, sizeof(busy));
}

/* Of some of its transactions the rows are committed. */
static void
test_partly(void)
{
	RosePickResult pick;

	/* nothing goes past it, and it waits until half of them have ended */
	clear();
	for (int i = 0; i < 4; i++)
		add(0, C0_SIZE);
	add_private(ROSE_PICK_PARTLY, 100);
	for (int i = 0; i < 4; i++)
		add(0, C0_SIZE);
	CHECK(!ask().merge);
	partly[4] = ROSE_PICK_NOT_PARTLY;
	CHECK(ask().merge);
	partly[4] = ROSE_PICK_HALF;
	pick = ask();
	CHECK(picked(&pick, 4, 4, 0) && pick.kind == ROSE_PICK_SPLIT);
	busy[4] = true;
	CHECK(!ask().merge);

	/* alone it is in nobody's way */
	clear();
	add_private(ROSE_PICK_HALF, 100);
	CHECK(!ask().merge);

	/* nor are open ones joined past it, which may be of the same transactions */
	clear();
	for (int i = 0; i < 8; i++)
		add_private(i == 4 ? ROSE_PICK_PARTLY : ROSE_PICK_NOT_PARTLY, 100);
	CHECK(!ask().merge);
	partly[4] = ROSE_PICK_NOT_PARTLY;
	pick = ask();
	CHECK(picked(&pick, 0, 7, 0) && pick.kind == ROSE_PICK_JOIN);

	/* when the manifest fills up, a part is enough, and fewer are joined, of any size at last */
	clear();
	for (int i = 0; i < ROSE_MAX_COMPONENTS / 2; i++)
		add_private(i == 9 ? ROSE_PICK_PARTLY : ROSE_PICK_NOT_PARTLY, (uint64) 1 << (2 * Min(i, 20)));
	pick = ask();
	CHECK(pick.kind == ROSE_PICK_JOIN && pick.ninputs > 1);
	clear();
	for (int i = 0; i < ROSE_MAX_COMPONENTS * 3 / 4; i++)
		add_private(ROSE_PICK_NOT_PARTLY, i == 0 ? 1 : (uint64) 1000 * i);
	pick = ask();
	CHECK(picked(&pick, 0, ROSE_MAX_COMPONENTS * 3 / 4 - 1, 0));
}

/* A run behind C1, because it was busy when newer ones became C1. */
static void
test_run_behind_c1(void)
{
	RosePickResult pick;

	/* C2 would come to lie behind it */
	clear();
	add(1, 10 * C0_SIZE);
	add(0, 100);
	busy[1] = true;
	CHECK(!ask().merge);
	busy[1] = false;
	pick = ask();
	CHECK(picked(&pick, 0, 1, 2));

	/* with runs in front that fill C1, too */
	clear();
	for (int i = 0; i < 4; i++)
		add(0, C0_SIZE / 4);
	add(1, 3 * C0_SIZE - C0_SIZE / 2);
	add(0, 100);
	busy[5] = true;
	pick = ask();
	CHECK(!pick.merge || pick.target_level < 2);

	/* runs behind C1 alone */
	clear();
	add(1, C0_SIZE);
	add(0, C0_SIZE / 2);
	add(0, C0_SIZE / 2);
	pick = ask();
	CHECK(picked(&pick, 0, 2, 1));

	/* a dead row's tombstone in front of it */
	clear();
	add(1, 10000)->ntombstones = 5000;
	add(0, 10);
	pick = ask();
	CHECK(picked(&pick, 0, 1, 2));
}

/* Replace what was picked by its sum; returns the bytes written. */
static uint64
apply(const RosePickResult *pick)
{
	RoseComponentEntryDisk output = {0};
	int			n = 0;
	int			left = pick->ninputs;

	for (int i = 0; i < ncomponents; i++)
	{
		bool		input = false;

		for (int j = 0; j < pick->ninputs; j++)
			input = input || table[i].id == pick->inputs[j];
		if (!input)
		{
			table[n++] = table[i];
			continue;
		}
		output.raw_bytes += table[i].raw_bytes;
		if (--left == 0)
		{
			output.id = next_id++;
			output.level = pick->target_level;
			output.state = ROSE_COMPONENT_LIVE;
			output.nrows = output.raw_bytes;
			output.max_xid = HORIZON - 1;
			table[n++] = output;
		}
	}
	CHECK(left == 0);
	ncomponents = n;
	/* a single component only changes its level */
	return pick->ninputs > 1 ? output.raw_bytes : 0;
}

/* Insert only, in runs of this size. */
static void
simulate(uint64 run_bytes, int nruns, int max_components, double max_amplification)
{
	uint64		written = 0;

	clear();
	for (int i = 0; i < nruns; i++)
	{
		RosePickResult pick;
		int			rounds = 0;

		CHECK(ncomponents < ROSE_MAX_COMPONENTS);
		memmove(&table[1], &table[0], ncomponents * sizeof(table[0]));
		ncomponents++;
		{
			int			n = ncomponents;

			ncomponents = 0;
			add(0, run_bytes);
			ncomponents = n;
		}
		while ((pick = ask()).merge)
		{
			written += apply(&pick);
			CHECK(++rounds < 20);
		}
		CHECK(ncomponents <= max_components);
	}
	CHECK(written <= max_amplification * run_bytes * nruns);
}

/* ---- room and writes ---- */

/*
 * What tables cost over years, by the mean: components are sets of keys that were drawn
 * at random, so that the sizes of unions follow.  A row is a byte of raw size and a block
 * in C2; elsewhere it takes more.  Merges are done at once, in parts as passes and merges
 * into C1 are, and what was read is free when its part is published.
 */
typedef struct Costs
{
	uint64		nkeys;			/* that are written to; 0 = each row has a key of its own */
	uint64		given;			/* rows that came in runs */
	uint64		written;		/* blocks */
	double		peak;			/* blocks, over those that the live rows take in C2 */
} Costs;

/* Outputs of a pass and of a merge into C1 (rose_merge_pass.c, rose_merge_internal.h). */
#define PARTS_OF_C2		20
#define PARTS_OF_C1		6

static uint64
blocks_of(int level, uint64 nrows)
{
	return level == 2 ? nrows : nrows * 3 / 2;
}

static uint64
all_blocks(void)
{
	uint64		nblocks = 0;

	for (int i = 0; i < ncomponents; i++)
		nblocks += table[i].nblocks;
	return nblocks;
}

static uint64
rows_together(const Costs *costs, uint64 a, uint64 b)
{
	return costs->nkeys == 0 ? a + b : a + b - a * b / costs->nkeys;
}

/* Not of a table so small that it has hardly a C2. */
static void
note_room(Costs *costs, uint64 nblocks)
{
	uint64		live = costs->nkeys == 0 ? costs->given : costs->nkeys;

	if (live >= 15 * C0_SIZE)
		costs->peak = Max(costs->peak, (double) nblocks / live);
}

static void
add_run(Costs *costs, uint64 nrows)
{
	int			n = ncomponents;

	CHECK(ncomponents < ROSE_MAX_COMPONENTS);
	memmove(&table[1], &table[0], ncomponents * sizeof(table[0]));
	ncomponents = 0;
	add(0, nrows)->nblocks = blocks_of(0, nrows);
	ncomponents = n + 1;
	costs->given += nrows;
	note_room(costs, all_blocks());
}

/* What was picked becomes one, where the oldest of it was; alone it only changes its level. */
static void
merge_picked(const RosePickResult *pick, Costs *costs)
{
	RoseComponentEntryDisk output = {0};
	int			parts = pick->target_level == 2 ? PARTS_OF_C2 :
		pick->target_level == 1 ? PARTS_OF_C1 : 1;
	uint64		before = all_blocks();
	int			n = 0;

	for (int i = 0, next = 0; i < ncomponents; i++)
	{
		if (next == pick->ninputs || table[i].id != pick->inputs[next])
		{
			table[n++] = table[i];
			continue;
		}
		output.nrows = rows_together(costs, output.nrows, table[i].nrows);
		output.nblocks += table[i].nblocks;
		if (++next < pick->ninputs)
			continue;
		output.id = next_id++;
		output.level = pick->target_level;
		output.state = ROSE_COMPONENT_LIVE;
		output.raw_bytes = output.nrows;
		output.max_xid = HORIZON - 1;
		if (pick->ninputs > 1)
		{
			output.nblocks = blocks_of(output.level, output.nrows);
			costs->written += output.nblocks;
			note_room(costs, before + output.nblocks / parts);
		}
		table[n++] = output;
	}
	ncomponents = n;
}

static void
run_table(Costs *costs, uint64 run_rows, int nruns)
{
	for (int i = 0; i < nruns; i++)
	{
		RosePickResult pick;
		int			rounds = 0;

		add_run(costs, run_rows);
		while ((pick = ask()).merge)
		{
			merge_picked(&pick, costs);
			CHECK(++rounds < 20);
		}
	}
}

/* Keys drawn at random are written again and again, in a table of a size that makes R what is said. */
static void
simulate_updates(double ratio, uint64 run_rows, double max_peak, double max_written)
{
	Costs		costs = {.nkeys = (uint64) (ratio * ratio * C0_SIZE)};

	clear();
	add(2, costs.nkeys)->nblocks = blocks_of(2, costs.nkeys);
	run_table(&costs, run_rows, 4000);
	printf("# picker: updates, R %.1f, runs of %d: peak %.3f, written %.2f\n", ratio,
		   (int) run_rows, costs.peak, (double) costs.written / costs.given);
	CHECK(costs.peak <= max_peak);
	CHECK(costs.written <= max_written * costs.given);
}

/* Rows of keys of their own come to an empty table. */
static void
simulate_load(uint64 run_rows, int nruns, double max_peak, double max_written)
{
	Costs		costs = {0};

	clear();
	run_table(&costs, run_rows, nruns);
	printf("# picker: load of %d: peak %.3f, written %.2f\n", (int) costs.given, costs.peak,
		   (double) costs.written / costs.given);
	CHECK(costs.peak <= max_peak);
	CHECK(costs.written <= max_written * costs.given);
}

/* Where R is large, C1's share of C2's blocks counts, with the runs that come to it, which then go along. */
static void
test_blocks(void)
{
	RosePickResult pick;

	for (int large = 0; large <= 1; large++)
	{
		/* R is 3 or 5, and C1 far from R * C0 */
		clear();
		for (int i = 0; i < 2; i++)
			add(0, C0_SIZE)->nblocks = 100;
		add(1, C0_SIZE / 2)->nblocks = 800;
		add(1, C0_SIZE / 2)->nblocks = 900;
		add(2, large ? 22 * C0_SIZE : 6 * C0_SIZE)->nblocks = 12000;
		pick = ask();
		CHECK(picked(&pick, 0, 3, 1));
		table[3].nblocks = 1001;
		pick = ask();
		CHECK(large ? picked(&pick, 0, 4, 2) : picked(&pick, 0, 3, 1));

		/* C1 goes alone if the runs cannot */
		if (large)
		{
			add(2, 0);
			ncomponents--;
			memmove(&table[3], &table[2], 3 * sizeof(table[0]));
			ncomponents++;
			table[2].id = 1000;
			table[2].level = 0;
			table[2].state = ROSE_COMPONENT_PENDING;
			pick = ask();
			CHECK(picked(&pick, 3, 5, 2));
			memmove(&table[2], &table[3], 3 * sizeof(table[0]));
			ncomponents--;
		}

		/* no runs that would come to it */
		table[0].state = ROSE_COMPONENT_PENDING;
		CHECK(!ask().merge);
	}
}

/* Where R is small, runs that would make C1 full go along with it. */
static void
test_runs_fill(void)
{
	RosePickResult pick;

	clear();
	for (int i = 0; i < 5; i++)
		add(0, C0_SIZE / 5);
	add(1, 2 * C0_SIZE);
	add(2, 5 * C0_SIZE);
	pick = ask();
	CHECK(picked(&pick, 0, 5, 1));
	table[5].raw_bytes++;
	pick = ask();
	CHECK(picked(&pick, 0, 6, 2));
	table[6].raw_bytes = 14 * C0_SIZE;	/* R is above 4 */
	pick = ask();
	CHECK(picked(&pick, 0, 5, 1));
	table[6].raw_bytes = 5 * C0_SIZE;
	blocked[6] = true;			/* C2 cannot take them now */
	pick = ask();
	CHECK(picked(&pick, 0, 5, 1));
	blocked[6] = false;
	table[2].state = ROSE_COMPONENT_PENDING;	/* they cannot go past this one */
	table[5].raw_bytes = 5 * C0_SIZE / 2;
	CHECK(!ask().merge);
	table[5].raw_bytes = 3 * C0_SIZE + 1;
	pick = ask();
	CHECK(picked(&pick, 5, 6, 2));	/* but C1 can go alone */
}

/* What a merge may leave in its middle. */
static void
test_passing(void)
{
	RosePickResult pick;

	clear();
	for (int i = 0; i < 4; i++)
		add(0, C0_SIZE / 2);
	add(1, C0_SIZE);
	pick = ask();
	CHECK(picked(&pick, 0, 4, 1));

	/* versions of run 0 and 1 must not come to lie below those of run 2 */
	busy[2] = true;
	CHECK(!ask().merge);
	busy[2] = false;
	table[2].state = ROSE_COMPONENT_PENDING;
	CHECK(!ask().merge);

	/* nobody has written the keys of an open transaction since */
	table[2].state = ROSE_COMPONENT_LIVE;
	table[2].flags = ROSE_COMPONENT_PRIVATE;
	blocked[2] = true;
	pick = ask();
	CHECK(pick.merge && pick.ninputs == 4 && pick.inputs[2] == table[3].id);

	/* C1 on its way into C2: newer runs make a C1 of their own in front */
	clear();
	for (int i = 0; i < 4; i++)
		add(0, C0_SIZE);
	add(1, 100 * C0_SIZE);
	busy[4] = true;
	pick = ask();
	CHECK(picked(&pick, 0, 3, 1));
}

/* Sizes in parts of C0, and blocks. */
static RoseMergeUrgency
urgency(uint32 nruns, double above, double c2, uint64 above_blocks, uint64 c2_blocks)
{
	RosePickSizes sizes = {.c0_size = 1000, .nruns = nruns};

	sizes.bytes[0] = (uint64) (above * 250);
	sizes.bytes[1] = (uint64) (above * 750);
	sizes.bytes[2] = (uint64) (c2 * 1000);
	sizes.blocks[0] = above_blocks / 2;
	sizes.blocks[1] = above_blocks - sizes.blocks[0];
	sizes.blocks[2] = c2_blocks;
	return rose_pick_urgency(&sizes);
}

static RoseMergeUrgency
urgency_beside(uint32 nruns, uint32 nopen)
{
	RosePickSizes sizes = {.c0_size = 1000, .nruns = nruns, .nopen = nopen};

	return rose_pick_urgency(&sizes);
}

static void
test_urgency(void)
{
	/* a table that is not much larger than memory: by bytes, of which three times C0 make a pass due */
	CHECK(urgency(2, 3, 3, 900, 100) == ROSE_MERGES_IN_TIME);
	CHECK(urgency(2, 3.5, 2, 1, 100) == ROSE_MERGES_IN_TIME);
	CHECK(urgency(2, 3.7, 2, 1, 100) == ROSE_MERGES_LATE);
	CHECK(urgency(2, 4.6, 2, 1, 100) == ROSE_MERGES_BEHIND);
	CHECK(urgency(2, 5, 0, 1, 0) == ROSE_MERGES_BEHIND);
	/* a large one: by blocks, of which a sixth of C2's make a pass due */
	CHECK(urgency(2, 10, 90, 166, 1000) == ROSE_MERGES_IN_TIME);
	CHECK(urgency(2, 40, 60, 199, 1000) == ROSE_MERGES_IN_TIME);
	CHECK(urgency(2, 10, 90, 210, 1000) == ROSE_MERGES_LATE);
	CHECK(urgency(2, 10, 90, 260, 1000) == ROSE_MERGES_BEHIND);
	CHECK(urgency(2, 100, 0, 1000, 0) == ROSE_MERGES_BEHIND);
	/* runs, whatever their sizes */
	CHECK(urgency(ROSE_MAX_COMPONENTS / 6, 1, 90, 1, 1000) == ROSE_MERGES_IN_TIME);
	CHECK(urgency(ROSE_MAX_COMPONENTS / 6 + 1, 1, 90, 1, 1000) == ROSE_MERGES_BEHIND);
	/* but for as many private ones as are usual */
	CHECK(urgency_beside(ROSE_PICK_SLACK_RUNS + 5, 5) == ROSE_MERGES_IN_TIME);
	CHECK(urgency_beside(ROSE_PICK_SLACK_RUNS + 6, 5) == ROSE_MERGES_BEHIND);
	CHECK(urgency_beside(ROSE_PICK_SLACK_RUNS + 20, 20) == ROSE_MERGES_BEHIND);
}

int
main(void)
{
	memset(blocked, 0, sizeof(blocked));
	test_decisions();
	test_run_behind_c1();
	test_tombstones();
	test_stale();
	test_private();
	memset(blocked, 0, sizeof(blocked));
	test_partly();
	test_join_sizes();
	test_joins_together();
	simulate_joiners(C0_SIZE, 300, 1.5, 25, 0.26);
	simulate_joiners(C0_SIZE, 1000, 3.0, 22, 0.26);
	simulate_joiners(C0_SIZE / 4, 600, 3.0, 25, 0.26);
	simulate_large_transaction(C0_SIZE, C0_SIZE, 10, ROSE_USUAL_PRIVATE_RUNS, 1.2);
	simulate_large_transaction(C0_SIZE, C0_SIZE, 100, ROSE_USUAL_PRIVATE_RUNS, 3.6);
	simulate_large_transaction(C0_SIZE, C0_SIZE, 3000, ROSE_USUAL_PRIVATE_RUNS, 7.5);
	simulate_large_transaction(C0_SIZE / 4, C0_SIZE / 4, 1000, ROSE_USUAL_PRIVATE_RUNS, 6.0);
	simulate_large_transaction(C0_SIZE / 100, C0_SIZE / 100, 3000, ROSE_USUAL_PRIVATE_RUNS + 5, 7.0);
	simulate_large_transaction(C0_SIZE, C0_SIZE / 10, 1000, ROSE_USUAL_PRIVATE_RUNS + 5, 6.0);
	simulate_large_transaction(C0_SIZE / 3, C0_SIZE / 50, 1000, ROSE_USUAL_PRIVATE_RUNS, 6.0);
	memset(busy, 0, sizeof(busy));
	memset(blocked, 0, sizeof(blocked));
	test_passing();
	test_blocks();
	memset(busy, 0, sizeof(busy));
	memset(blocked, 0, sizeof(blocked));
	test_runs_fill();
	test_urgency();
	memset(busy, 0, sizeof(busy));
	memset(blocked, 0, sizeof(blocked));
	simulate(C0_SIZE, 2000, 6, 45); /* R = 45: about R / 2 for each of two levels */
	simulate(C0_SIZE / 2, 500, 6, 20);
	simulate(C0_SIZE / 100, 5000, 10, 16);
	simulate(1, 20000, 10, 16);
	simulate(C0_SIZE / 8, 80, 10, 3);	/* a load of ten times C0 */
	/* a few parts of a hundred above what the rules cost; worse ones need more room, or write more */
	simulate_updates(4.2, C0_SIZE / 4, 1.24, 10.0);
	simulate_updates(5.0, C0_SIZE / 4, 1.26, 10.2);
	simulate_updates(6.0, C0_SIZE / 4, 1.26, 10.5);
	simulate_updates(7.0, C0_SIZE / 4, 1.24, 12.2);
	simulate_updates(8.2, C0_SIZE / 4, 1.24, 14.0);
	simulate_updates(5.0, C0_SIZE / 16, 1.24, 14.0);
	simulate_updates(5.0, C0_SIZE, 1.30, 7.3);
	simulate_updates(8.2, C0_SIZE, 1.24, 11.0);
	simulate_load(C0_SIZE / 4, 400, 1.19, 11.8);
	simulate_load(C0_SIZE, 100, 1.19, 9.2);
	printf("# picker: all checks passed\n");
	return 0;
}
