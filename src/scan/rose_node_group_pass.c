/*-------------------------------------------------------------------------
 *
 * rose_node_group_pass.c
 *	  Rows that a Rose Aggregate does not group, as grouping would not make them fewer.
 *
 * Each is passed on as a state of its own, made of its columns' values: that costs little more than core's node over the scan's rows.
 *
 * When.  Some thousand rows are grouped.  How many of them came to a group that was there tells about how many groups there are in all: of n
 * rows in random order that are of d groups, n * n / 2d pairs are of one.  If these are nearly as many as rows, or far more than there is
 * room for, rows are passed on for a while, and then it is tried anew; the more rows there have been, the longer the while.  The same
 * if a table that became full had few rows of each group.
 *
 * Where there is another plan (rose_node_choice.c), it is asked earlier, and once more later, whether that one had better be run.  Rows that were
 * read until then are read again, so it is asked only while they are a small part of all.
 *
 * Sums of floats.  Core adds up the states of a group in their order.  A state of one row is its value, so that is what a plain plan
 * does, if no state but a group's first one is of several rows.  So who adds up floats gives out the table once at most, and then passes on all that is left.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "scan/rose_node.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_state.h"

/* Rows after which it is asked whether grouping is worth it. */
#define SAMPLE_ROWS		8192

/* It is not with fewer rows of a group, on average ... */
#define POOR_ROWS		1.5

/* ... or if there are so many times the groups that there is room for: then a full table has 1.4 rows of each. */
#define MUCH_ROOM		2

/* If another plan can be run, it is asked after this part of the rows, ... */
#define SAMPLE_PART		32

/* ... but not after fewer rows, or more, and again after twice as many ... */
#define MIN_SAMPLE		1024
#define MAX_SAMPLE		65536

/* ... until there was this part of them, which would be read for nothing. */
#define LATE_PART		8

/* So many times as many groups as were expected are more than that, ... */
#define EXCEEDED		2

/* ... and so many rows of a group are what is expected with some right. */
#define BELIEVED		16

/* For each row that there has been so many are passed on ... */
#define PASSED_FACTOR	4

/* ... but not more. */
#define MAX_PASSED		(1 << 20)

void
rose_node_group_pass_init(RoseNodeGroup *group)
{
	for (int a = 0; a < group->table.naggs; a++)
	{
		RoseNodeGroupAgg *agg = &group->table.aggs[a];

		agg->room = rose_node_agg_room(agg->kind);
		group->in_one_part |= ROSE_AGG_ADDS_FLOATS(agg->kind);
		group->wide |= ROSE_AGG_IS_WIDE(agg->kind);
	}
}

/* ---- another plan ---- */

static double
planned_rows(const RoseNodeGroup *group)
{
	return group->scan->css.ss.ps.plan->plan_rows;
}

static uint64
first_sample(const RoseNodeGroup *group)
{
	if (rose_node_aggregate_sample > 0)
		return rose_node_aggregate_sample;
	return (uint64) Min(Max(planned_rows(group) / SAMPLE_PART, MIN_SAMPLE), MAX_SAMPLE);
}

/* Of rows in random order. */
static double
extrapolate(const RoseNodeGroup *group)
{
	double		rows = (double) group->rows_since;

	return rows * rows / (2 * (rows - group->table.groups.ngroups + 1));
}

double
rose_node_group_pass_extrapolate(const RoseNodeGroup *group)
{
	return Min(extrapolate(group), Max(planned_rows(group), (double) group->rows_seen * PASSED_FACTOR));
}

/* Is each of so many given out once, where that is enough? */
static bool
are_whole(const RoseNodeGroup *group, double groups)
{
	if (group->spill != NULL)
		return true;
	return group->whole_pays && groups <= rose_node_group_table_most(&group->table);
}

/* Rows of a group from which on it pays, whoever reads the states. */
static double
rows_that_pay(const RoseNodeGroup *group)
{
	if (group->ordered)
		return group->wide ? 4 : 1.5;
	return ROSE_GROUP_ROWS_THAT_PAY(group->wide);
}

/*
 * Are there too many groups?  Rows may come in an order in which groups are far apart, each with its next row behind many others', so that
 * the first rows say there are as many groups as rows: what is expected is believed, if it says that it pays well, until it is exceeded.
 */
static bool
is_refuted(const RoseNodeGroup *group, double all)
{
	double		there = group->table.groups.ngroups;
	double		groups = Min(extrapolate(group), all);

	if (are_whole(group, groups))
		return false;
	if (there < group->expected * EXCEEDED && group->expected * BELIEVED < all)
		return false;
	return groups * rows_that_pay(group) > all ||
		groups > rose_node_group_table_most(&group->table) * (group->wide ? 1 : MUCH_ROOM);
}

/* Is it too much to be read for nothing?  Few rows are not: there may be far more of them than were expected. */
static bool
is_late(double rows, double all)
{
	return rows > SAMPLE_ROWS && rows * LATE_PART > all;
}

/* Are there enough of those that come in order? */
static bool
gives_out(const RoseNodeGroup *group)
{
	return group->ordered && group->table.groups.ngroups > ROSE_GROUP_ORDERED_GROUPS;
}

static bool
ordered_retreats(RoseNodeGroup *group, bool full)
{
	if (!full && !gives_out(group))
		return false;
	group->sample = 0;
	if (group->whole_pays)
		return false;
	return group->rows_seen < group->table.groups.ngroups * rows_that_pay(group);
}

bool
rose_node_group_pass_retreats(RoseNodeGroup *group, bool full)
{
	double		seen = (double) group->rows_seen;
	double		all = Max(planned_rows(group), seen * PASSED_FACTOR);

	if (group->sample == 0)
		return false;
	if (group->ordered && rose_node_aggregate_sample < 0)
		return ordered_retreats(group, full);
	if (!full && group->rows_seen < group->sample && !gives_out(group))
		return false;
	if (rose_node_aggregate_sample > 0)
	{
		group->sample = 0;
		return seen >= rose_node_aggregate_sample;
	}
	group->sample = full || is_late(seen * 2, all) ? 0 : group->rows_seen * 2;
	return !is_late(seen, all) && is_refuted(group, all);
}

void
rose_node_group_pass_reset(RoseNodeGroup *group)
{
	group->judged = false;
	group->rows_since = group->rows_seen = 0;
	group->passing = 0;
	group->passed = group->passed_end = 0;
	group->retreated = false;
	group->sample = group->may_retreat ? first_sample(group) : 0;
}

/* ---- is it worth it? ---- */

bool
rose_node_group_pass_judge(RoseNodeGroup *group)
{
	double		all = Max(planned_rows(group), (double) group->rows_seen * PASSED_FACTOR);
	double		groups;

	if (group->judged || group->rows_since < SAMPLE_ROWS || group->ordered || group->must_be_whole || group->spill != NULL ||
		group->sample > 0)
		return false;
	group->judged = true;
	groups = Min(extrapolate(group), all);
	if (are_whole(group, groups))
		return false;
	return groups * POOR_ROWS > all || groups > rose_node_group_table_most(&group->table) * MUCH_ROOM;
}

void
rose_node_group_pass_choose(RoseNodeGroup *group, bool judged)
{
	bool		poor = (double) group->rows_since < group->table.groups.ngroups * POOR_ROWS;

	group->judged = false;
	group->rows_since = 0;
	if (group->ordered)
		return;
	if (group->in_one_part)
		group->passing = PG_UINT64_MAX;
	else if (judged || poor)
		group->passing = Min(group->rows_seen * PASSED_FACTOR, MAX_PASSED);
}

/* ---- rows ---- */

void
rose_node_group_pass_rows(RoseNodeGroup *group)
{
	int			n = group->nrows - group->taken;

	for (int c = 0; c < group->columns.ncolumns; c++)
		rose_node_group_columns_load(&group->columns, c);
	group->passed = group->taken;
	group->passed_end = group->taken = group->nrows;
	group->rows_seen += n;
	if (!group->in_one_part)
		group->passing -= Min(group->passing, (uint64) n);
	group->strategies[ROSE_GROUP_PASSED]++;
}

static bool
is_null(const RoseNodeGroupColumn *column, int row)
{
	return column->any_null && column->nulls[row];
}

void
rose_node_group_pass_emit(RoseNodeGroup *group, TupleTableSlot *slot)
{
	const RoseNodeGroupTable *table = &group->table;
	const RoseNodeGroupColumn *columns = group->columns.columns;
	int			row = group->passed++;
	MemoryContext memory = group->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(memory);

	for (int k = 0; k < table->nkeys; k++)
	{
		const RoseNodeGroupKey *key = &table->keys[k];
		const RoseNodeGroupColumn *column = &columns[key->column];

		slot->tts_isnull[key->target] = is_null(column, row);
		slot->tts_values[key->target] = (Datum) column->values[row];
	}
	for (int a = 0; a < table->naggs; a++)
	{
		const RoseNodeGroupAgg *agg = &table->aggs[a];
		bool		none = agg->column >= 0 && is_null(&columns[agg->column], row);
		int64		value = agg->column >= 0 ? columns[agg->column].values[row] : 0;

		if (ROSE_AGG_IS_OF_NUMERIC(agg->kind) && columns[agg->column].decimals != NULL)
		{
			slot->tts_values[agg->target] = rose_node_agg_single_decimal(agg->kind, columns[agg->column].decimals, row, value, none,
																		 &slot->tts_isnull[agg->target]);
			continue;
		}
		slot->tts_values[agg->target] = rose_node_agg_single(agg->kind, agg->type, value, none,
															 agg->room,
															 &slot->tts_isnull[agg->target]);
	}
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}
