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
 * Sums of floats.  Core adds up the states of a group in their order.  A state of one row is its value, so that is what a plain plan
 * does, if no state but a group's first one is of several rows.  So who adds up floats gives out the table once at most, and then passes on all that is left.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "scan/rose_node_group.h"
#include "scan/rose_node_state.h"

/* Rows after which it is asked whether grouping is worth it. */
#define SAMPLE_ROWS		8192

/* It is not with fewer rows of a group, on average ... */
#define POOR_ROWS		1.5

/* ... or if there are so many times the groups that there is room for: then a full table has 1.4 rows of each. */
#define MUCH_ROOM		2

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
	}
}

void
rose_node_group_pass_reset(RoseNodeGroup *group)
{
	group->judged = false;
	group->rows_since = group->rows_seen = 0;
	group->passing = 0;
	group->passed = group->passed_end = 0;
}

/* ---- is it worth it? ---- */

bool
rose_node_group_pass_judge(RoseNodeGroup *group)
{
	double		rows = (double) group->rows_since;
	double		seen = (double) group->rows_seen;
	double		all = Max(group->scan->css.ss.ps.plan->plan_rows, seen * PASSED_FACTOR);
	double		groups;

	if (group->judged || group->rows_since < SAMPLE_ROWS || group->ordered)
		return false;
	group->judged = true;
	groups = rows * rows / (2 * (rows - group->table.groups.ngroups + 1));
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

		slot->tts_values[agg->target] = rose_node_agg_single(agg->kind, agg->type, value, none,
															 agg->room,
															 &slot->tts_isnull[agg->target]);
	}
	ExecStoreVirtualTuple(slot);
}
