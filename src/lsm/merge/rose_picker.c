/*-------------------------------------------------------------------------
 *
 * rose_picker.c
 *	  Which components of a table to merge next: a pure function of their
 *	  sizes.
 *
 * A table's components, newest first: runs (level 0), C1, C2.  Sizes are
 * uncompressed row bytes, so that they compare with C0.
 *
 * R, the ratio between neighbouring levels, is the square root of all data
 * over C0: with three levels, that makes both merges equally dear.  In order:
 *
 * 1. Tombstones.  When those that every snapshot sees are a large part of all
 * versions, everything is merged into C2, where they go.
 * 2. Entries that no row has.  An index with many of them is merged into C2 as a whole, without them (rose_sift.h).
 * 3. C1 into C2 when C1 has outgrown R * C0 (or, when there is no C2, C1
 * becomes it).  Already when C1 and the runs that it would have to take soon have
 * together outgrown R * C0 or, where R is large, a sixth of C2's blocks, and then the
 * runs go along: C1 would be rewritten to take them, only to be rewritten at once.  The
 * sixth bounds the room that rows take which C2 has as well.
 * 4. Runs into C1 when together they are worth a pass over it: as large as C0,
 * or too many, or, if they are small, a quarter of C1.
 * 5. Small runs, as idle tables' timed spills make, among themselves, each
 * level of size at a time, so that a trickle of writes does not rewrite C1.
 *
 * C2 has several pieces, which a merge into it takes along as far as it needs
 * to (rose_merge_pass.c); here they count as one.
 *
 * An index that is built beside writers gets its oldest component last.  It has no C2
 * before, and C1 goes on growing.
 *
 * Components that may not be merged now (pending, private runs of transactions in
 * progress) are passed over.  Before all that come private runs: those of transactions in
 * progress are joined when they are many, so that their number stays bounded, but no more
 * in one go than a third of the table: that much room a join takes beside what it reads,
 * and a single INSERT may be most of the table.  One of which a good part has ended is
 * split, when it is in the way of others, for nothing goes
 * past what is committed.  At last those that are over but could not become ordinary as
 * they are, are rewritten.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "lsm/merge/rose_picker.h"

/* Merge at the latest when a table has this many runs. */
#define PICK_MAX_RUNS			8
/* Runs that are small are merged when there are this many ... */
#define PICK_MIN_SMALL_RUNS		4
/* ... among themselves if each is smaller than this part of C0 */
#define PICK_SMALL_PART			16
/* ... and into a C1 that is at most this many times as large if together they are smaller
 * than this part of C0. */
#define PICK_SMALL_C1			4
#define PICK_SMALL_TOGETHER		4
/* From this R on C1 and the runs take no more than this part of C2's blocks. */
#define PICK_LARGE_RATIO		4.0
#define PICK_C1_PART			6
/* C1 and the runs are so many times what makes a pass due: merges are late, or behind. */
#define PICK_LATE				1.2
#define PICK_BEHIND				1.5
/* Tombstones above this part of all versions cause a merge. */
#define PICK_TOMBSTONE_PART		0.25
#define PICK_MIN_TOMBSTONES		1000
/* Join private runs of transactions in progress when there are this many of like size, ... */
#define PICK_PRIVATE_RUNS		6
/* ... or two among them that are each at least this part of C0; */
#define PICK_PRIVATE_LARGE		8
/* and at most this part of the table in one go, and this one in all that go on, or as much as C0. */
#define PICK_PRIVATE_PART		5
#define PICK_PRIVATE_TOGETHER	4
/* The manifest fills up: fewer will do, ... */
#define PICK_CROWDED			(ROSE_MAX_COMPONENTS / 2)
/* ... and any sizes. */
#define PICK_VERY_CROWDED		(ROSE_MAX_COMPONENTS * 3 / 4)

typedef struct PickState
{
	const RosePickInput *input;
	double		ratio;
	int			nruns;			/* mergeable ones */
	int			newest_run;		/* manifest indexes, -1 = none */
	int			oldest_run;
	int			c1_newest;		/* level 1, mergeable */
	int			c1_oldest;
	int			c2_newest;		/* level 2 */
	int			c2_oldest;
	uint64		run_bytes;
	uint64		run_blocks;
	uint64		c1_bytes;
	uint64		c1_blocks;
	uint64		c2_bytes;
	uint64		c2_blocks;
	uint64		nrows;
	uint64		old_tombstones; /* in components that are older than the horizon */
	bool		any_blocked;
	bool		c2_blocked;
} PickState;

static bool
is_mergeable(const RosePickInput *input, int i)
{
	return input->components[i].state == ROSE_COMPONENT_LIVE &&
		!(input->blocked != NULL && input->blocked[i]) &&
		!(input->busy != NULL && input->busy[i]);
}

/* Does a private run have committed rows beside those of transactions in progress? */
static bool
is_partly(const RosePickInput *input, int i)
{
	return input->partly != NULL && input->partly[i] != ROSE_PICK_NOT_PARTLY;
}

/*
 * May a merge go past component i, so that newer versions come to lie below it?  Only
 * past a run whose transaction is in progress or aborted: nobody else has written the
 * keys of its versions since, but of those that are aborted, which take part in no order.
 */
static bool
is_passable(const RosePickInput *input, int i)
{
	return input->components[i].state == ROSE_COMPONENT_LIVE &&
		(input->components[i].flags & ROSE_COMPONENT_PRIVATE) &&
		input->blocked != NULL && input->blocked[i] && !is_partly(input, i) &&
		!(input->busy != NULL && input->busy[i]);
}

static void
note_level(int i, uint64 bytes, int *newest, int *oldest, uint64 *total)
{
	if (*newest < 0)
		*newest = i;
	*oldest = i;
	*total += bytes;
}

static void
survey(PickState *state, const RosePickInput *input)
{
	uint64		total;

	memset(state, 0, sizeof(*state));
	state->input = input;
	state->newest_run = state->oldest_run = -1;
	state->c1_newest = state->c1_oldest = -1;
	state->c2_newest = state->c2_oldest = -1;
	for (int i = 0; i < input->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &input->components[i];
		uint64		bytes = rose_component_rest(entry, entry->raw_bytes);

		if (!is_mergeable(input, i))
		{
			state->any_blocked = true;
			state->c2_blocked = state->c2_blocked || entry->level == 2;
			continue;
		}
		state->nrows += rose_component_rest(entry, entry->nrows);
		if (entry->max_xid < input->horizon)
			state->old_tombstones += rose_component_rest(entry, entry->ntombstones);
		if (entry->level == 0)
		{
			state->nruns++;
			state->run_blocks += rose_component_rest(entry, entry->nblocks);
			note_level(i, bytes, &state->newest_run, &state->oldest_run,
					   &state->run_bytes);
		}
		else if (entry->level == 1)
		{
			state->c1_blocks += rose_component_rest(entry, entry->nblocks);
			note_level(i, bytes, &state->c1_newest, &state->c1_oldest,
					   &state->c1_bytes);
		}
		else
		{
			state->c2_blocks += rose_component_rest(entry, entry->nblocks);
			note_level(i, bytes, &state->c2_newest, &state->c2_oldest,
					   &state->c2_bytes);
		}
	}
	total = state->run_bytes + state->c1_bytes + state->c2_bytes;
	state->ratio = Max(input->min_ratio, sqrt((double) total / Max(input->c0_size, 1)));
}

/*
 * All of first..last that may be merged; nothing if there is one among them
 * that must not be gone past.
 */
static RosePickResult
pick(const PickState *state, int first, int last, int target_level)
{
	RosePickResult result = {.merge = true, .target_level = target_level, .ratio = state->ratio};

	for (int i = first; i <= last; i++)
	{
		if (is_mergeable(state->input, i))
			result.inputs[result.ninputs++] = state->input->components[i].id;
		else if (!is_passable(state->input, i))
			result.merge = false;
	}
	return result;
}

static int
newest_of(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

static int
newest_of_all(const PickState *state)
{
	return newest_of(newest_of(state->newest_run, state->c1_newest), state->c2_newest);
}

/*
 * The oldest component, whatever it is.  A merge into C2 reaches down to it: its output
 * goes behind all of lower levels, and a run may have come to lie behind C1, because it
 * was busy when newer ones were merged.
 */
static int
oldest_of_all(const PickState *state)
{
	return state->input->ncomponents - 1;
}

/*
 * A committed private run that could not become an ordinary one as it is:
 * rewrite it alone, so that its rows need not be judged one by one, nor the
 * commit log be kept for it.
 */
static bool
pick_private_run(const PickState *state, RosePickResult *result)
{
	for (int i = 0; i < state->input->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &state->input->components[i];

		if (!is_mergeable(state->input, i) || !(entry->flags & ROSE_COMPONENT_PRIVATE))
			continue;
		*result = pick(state, i, i, entry->level);
		return true;
	}
	return false;
}

static bool
pick_tombstones(const PickState *state, RosePickResult *result)
{
	/* what is passed over may lie below the tombstones, which then stay */
	if (state->any_blocked || state->input->incomplete ||
		state->old_tombstones < PICK_MIN_TOMBSTONES ||
		state->old_tombstones < PICK_TOMBSTONE_PART * state->nrows)
		return false;
	*result = pick(state, newest_of_all(state), oldest_of_all(state), 2);
	return result->merge;
}

/* An index without what its rows have left behind. */
static bool
pick_stale(const PickState *state, RosePickResult *result)
{
	const RosePickInput *input = state->input;

	if (!input->stale || state->c2_blocked || input->incomplete || newest_of_all(state) < 0)
		return false;
	/* without what another merge has it would miss most of them, and be in vain */
	for (int i = 0; i < input->ncomponents; i++)
		if (input->busy != NULL && input->busy[i])
			return false;
	*result = pick(state, newest_of_all(state), oldest_of_all(state), 2);
	result->sift = true;
	return result->merge;
}

/* As large as C0 together, or too many, or small and a quarter of C1? */
static bool
are_runs_worth_merging(const PickState *state)
{
	uint64		c0_size = state->input->c0_size;

	if (state->nruns < 2)
		return false;
	return state->run_bytes >= c0_size || state->nruns >= PICK_MAX_RUNS ||
		(state->nruns >= PICK_MIN_SMALL_RUNS &&
		 state->run_bytes < c0_size / PICK_SMALL_TOGETHER &&
		 state->run_bytes >= state->c1_bytes / PICK_SMALL_C1);
}

/* Will C1 have to take the runs soon? */
static bool
are_runs_many(const PickState *state)
{
	return are_runs_worth_merging(state) || state->nruns >= PICK_MIN_SMALL_RUNS;
}

/* Where R is large: do C1 and the runs take too large a part of C2's blocks? */
static bool
is_c1_part_exceeded(const PickState *state)
{
	return state->c2_newest >= 0 && state->ratio >= PICK_LARGE_RATIO &&
		(state->c1_blocks + state->run_blocks) * PICK_C1_PART > state->c2_blocks;
}

static bool
is_c1_full(const PickState *state)
{
	return state->c1_bytes > state->ratio * state->input->c0_size ||
		(are_runs_many(state) && is_c1_part_exceeded(state));
}

/* Would the runs that C1 has to take soon make it full? */
static bool
do_runs_fill_c1(const PickState *state)
{
	if (!are_runs_many(state))
		return false;
	return is_c1_part_exceeded(state) ||
		(state->ratio < PICK_LARGE_RATIO &&
		 state->c1_bytes + state->run_bytes > state->ratio * state->input->c0_size);
}

static bool
pick_c1_into_c2(const PickState *state, RosePickResult *result)
{
	int			oldest = oldest_of_all(state);

	if (state->c1_newest < 0 || state->c2_blocked || state->input->incomplete)
		return false;
	if (do_runs_fill_c1(state))
	{
		*result = pick(state, newest_of(state->newest_run, state->c1_newest), oldest, 2);
		if (result->merge)
			return true;
	}
	if (!is_c1_full(state))
		return false;
	*result = pick(state, state->c1_newest, oldest, 2);
	return result->merge;
}

static bool
pick_runs_into_c1(const PickState *state, RosePickResult *result)
{
	if (!are_runs_worth_merging(state))
		return false;
	*result = pick(state, newest_of(state->newest_run, state->c1_newest),
				   Max(state->oldest_run, state->c1_oldest), 1);
	return result->merge;
}

/* The newest small runs, as far as each next one is at most twice what was taken. */
static bool
pick_small_runs(const PickState *state, RosePickResult *result)
{
	uint64		taken = 0;
	int			ntaken = 0;
	int			last = -1;

	if (state->nruns < PICK_MIN_SMALL_RUNS)
		return false;
	for (int i = state->newest_run; i <= state->oldest_run; i++)
	{
		uint64		bytes = state->input->components[i].raw_bytes;

		if (!is_mergeable(state->input, i))
			continue;
		if (state->input->components[i].level != 0)
			break;
		if (bytes >= state->input->c0_size / PICK_SMALL_PART ||
			(ntaken > 0 && bytes > 2 * taken))
			break;
		taken += bytes;
		ntaken++;
		last = i;
	}
	if (ntaken < 2)
		return false;
	*result = pick(state, state->newest_run, last, 0);
	return result->merge;
}

/* A private run of a transaction in progress. */
static bool
is_open_private(const RosePickInput *input, int i)
{
	return input->blocked != NULL && input->blocked[i] &&
		(input->components[i].flags & ROSE_COMPONENT_PRIVATE) && !is_partly(input, i) &&
		input->components[i].level == 0;
}

/*
 * Row bytes that one more join of private runs may take: a part of the table, and with
 * those under way no more than a somewhat larger part, for each needs room for what it
 * makes beside what it reads.  The difference is for small joins beside a large one, which
 * may take long.
 */
static uint64
most_to_join(const RosePickInput *input)
{
	uint64		total = 0;
	uint64		joining = 0;

	for (int i = 0; i < input->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &input->components[i];
		uint64		bytes = rose_component_rest(entry, entry->raw_bytes);

		total += bytes;
		if (input->busy != NULL && input->busy[i] && (entry->flags & ROSE_COMPONENT_PRIVATE))
			joining += bytes;
	}
	joining = Min(joining, total / PICK_PRIVATE_TOGETHER);
	return Max(Min(total / PICK_PRIVATE_PART, total / PICK_PRIVATE_TOGETHER - joining),
			   input->c0_size);
}

static bool
is_large_private(const RosePickInput *input, uint64 bytes)
{
	return bytes >= Max(input->c0_size / PICK_PRIVATE_LARGE, 1);
}

/*
 * So many private runs are worth a join, if so many of them are large.  Small ones between
 * these change nothing: with them, what one join may take is full before there are many.
 */
static int
least_to_join(const RosePickInput *input, int nlarge)
{
	return input->ncomponents >= PICK_CROWDED || nlarge >= 2 ? 2 : PICK_PRIVATE_RUNS;
}

/*
 * The private runs of transactions in progress from run i on, newest first, as far as
 * each next one is at most twice what was taken (so each row is rewritten a logarithmic
 * number of times), and all together not more than most.  None is left out that may have
 * versions of the same transactions: they may be of the same keys.
 */
static bool
pick_private_runs(const RosePickInput *input, int i, uint64 most, RosePickResult *result)
{
	const RoseComponentEntryDisk *newest = &input->components[i];
	bool		any_size = input->ncomponents >= PICK_VERY_CROWDED;
	uint64		taken = 0;
	int			nlarge = 0;

	result->ninputs = 0;
	result->natts = -1;
	for (int j = i; j < input->ncomponents; j++)
	{
		const RoseComponentEntryDisk *entry = &input->components[j];
		int			natts = input->natts == NULL ? -1 : input->natts[j];

		if (!is_open_private(input, j))
		{
			if ((entry->flags & ROSE_COMPONENT_OWNERS) != 0)
				break;
			continue;
		}
		if (entry->state != newest->state || entry->epoch != newest->epoch ||
			(input->busy != NULL && input->busy[j]) ||
			(result->natts >= 0 && natts >= 0 && natts != result->natts) ||
			(result->ninputs > 0 && !any_size &&
			 (entry->raw_bytes > 2 * taken || taken + entry->raw_bytes > most)))
			break;
		result->natts = Max(result->natts, natts);
		taken += entry->raw_bytes;
		nlarge += is_large_private(input, entry->raw_bytes);
		result->inputs[result->ninputs++] = entry->id;
	}
	if (result->ninputs < least_to_join(input, nlarge))
		return false;
	result->merge = true;
	result->target_level = 0;
	result->kind = ROSE_PICK_JOIN;
	return true;
}

/*
 * A private run of which some transactions have committed: take these out if others wait.
 * With half of them at a time, a row is rewritten a few times at most.
 */
static bool
pick_split(const RosePickInput *input, RosePickResult *result)
{
	int			nruns = 0;

	for (int i = 0; i < input->ncomponents; i++)
		nruns += input->components[i].level == 0;
	if (nruns < PICK_MIN_SMALL_RUNS)
		return false;
	for (int i = 0; i < input->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &input->components[i];

		if (!is_partly(input, i) || entry->level != 0 || entry->state != ROSE_COMPONENT_LIVE ||
			(input->busy != NULL && input->busy[i]) ||
			(input->partly[i] != ROSE_PICK_HALF && input->ncomponents < PICK_CROWDED))
			continue;
		result->merge = true;
		result->target_level = 0;
		result->kind = ROSE_PICK_SPLIT;
		result->ninputs = 1;
		result->inputs[0] = entry->id;
		return true;
	}
	return false;
}

RosePickResult
rose_pick_merge(const RosePickInput *input)
{
	PickState	state;
	RosePickResult result = {0};
	uint64		most = most_to_join(input);

	survey(&state, input);
	result.ratio = state.ratio;
	for (int i = 0; i < input->ncomponents; i++)
		if (is_open_private(input, i) && pick_private_runs(input, i, most, &result))
			return result;
	result.ninputs = 0;
	if (pick_split(input, &result) ||
		pick_tombstones(&state, &result) ||
		pick_stale(&state, &result) ||
		pick_c1_into_c2(&state, &result) ||
		pick_runs_into_c1(&state, &result) ||
		pick_small_runs(&state, &result) ||
		pick_private_run(&state, &result))
		return result;
	return result;
}

/* By what makes a pass due: see pick_c1_into_c2. */
RoseMergeUrgency
rose_pick_urgency(const RosePickSizes *sizes)
{
	double		c0_size = Max(sizes->c0_size, 1);
	double		bytes = (double) (sizes->bytes[0] + sizes->bytes[1]);
	double		ratio = Max(ROSE_PICK_MIN_RATIO, sqrt((bytes + sizes->bytes[2]) / c0_size));
	double		above = bytes;
	double		due = ratio * c0_size;
	uint32		nruns = sizes->nruns - Min(Min(sizes->nopen, ROSE_USUAL_PRIVATE_RUNS), sizes->nruns);

	if (ratio >= PICK_LARGE_RATIO)
	{
		above = (double) (sizes->blocks[0] + sizes->blocks[1]);
		due = (double) sizes->blocks[2] / PICK_C1_PART;
	}
	if (nruns > ROSE_PICK_SLACK_RUNS || above > PICK_BEHIND * due)
		return ROSE_MERGES_BEHIND;
	return above > PICK_LATE * due ? ROSE_MERGES_LATE : ROSE_MERGES_IN_TIME;
}
