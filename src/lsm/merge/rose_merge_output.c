/*-------------------------------------------------------------------------
 *
 * rose_merge_output.c
 *	  The output of a merge under construction: from the cursor over its sources to a compactor
 *	  or a builder.
 *
 * Rows that everybody sees go many at a time, by columns; others one by one.  A join and a split tell rows
 * of transactions in progress from the others.  An output may be filled in several steps; between two of
 * them nothing is held but what RoseMerge has.  When it is published is rose_merge.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_merge_internal.h"

#include "lsm/snapshot/rose_horizon.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "util/rose_gentle.h"

/* Versions between two looks at the clock. */
#define CLOCK_EVERY			256

/* After a batch of fewer versions than that, or none, so many are taken one by one. */
#define ROWS_OF_GOOD_BATCH	4
#define ROWS_WITHOUT_BATCH	32

/* ---- begin and end ---- */

/*
 * Outputs of a merge into C1 end where an old part of C1 ends if they can: it
 * is freed then.  The last part is no use: it ends where everything does.
 */
static int
find_old_part(const RoseMerge *merge)
{
	int			first = -1;

	for (int i = 0; i < merge->nsources && !merge->pass; i++)
	{
		const RoseMergeInput *source = merge->sources[i];

		if (source->entry.level != merge->target_level || source->from == source->to)
			continue;
		if (first >= 0)
			return first;
		first = i;
	}
	return -1;
}

static void
open_compactor(RoseMerge *merge, RoseTree *tree)
{
	const RoseComponentEntryDisk *sources[ROSE_MERGE_MAX_SOURCES];
	int			options = (merge->keep ? ROSE_BUILD_KEEP : 0) |
		(merge->target_level < 2 ? ROSE_BUILD_UPPER : 0);
	bool		bottom = merge->kind == ROSE_PICK_MERGE &&
		rose_merge_at_bottom(merge, rose_tree_manifest(tree));
	uint64		forget_xid;

	for (int i = 0; i < merge->nsources; i++)
		sources[i] = &merge->sources[i]->entry;
	forget_xid = rose_merge_may_forget(tree, sources, merge->nsources, bottom, &merge->settled);
	merge->compactor = rose_compactor_create(tree->rel, &tree->shared->store, merge->schema,
											 merge->expected_rows, options,
											 rose_horizon_get(tree->rel, merge->stride_context),
											 bottom, merge->stride_context);
	if (forget_xid != 0)
		rose_compactor_forget(merge->compactor, FullTransactionIdFromU64(forget_xid));
}

bool
rose_merge_output_is_open(const RoseMerge *merge)
{
	return merge->builder != NULL || merge->compactor != NULL;
}

void
rose_merge_output_open(RoseMerge *merge, RoseTree *tree)
{
	int			options = ROSE_BUILD_PRIVATE | ROSE_BUILD_UPPER |
		(merge->keep ? ROSE_BUILD_KEEP : 0);

	if (merge->kind != ROSE_PICK_MERGE)
		merge->builder = rose_component_builder_create(tree->rel, &tree->shared->store,
													   merge->schema, merge->expected_rows,
													   options, merge->stride_context);
	if (merge->kind != ROSE_PICK_JOIN)
		open_compactor(merge, tree);
	merge->nopen = 0;
	merge->old_part = find_old_part(merge);
	merge->complete = false;
	merge->output_read = 0;
}

void
rose_merge_output_finish(RoseMerge *merge)
{
	merge->has_output = merge->has_open = false;
	if (merge->compactor)
		merge->has_output = rose_compactor_finish(merge->compactor, &merge->output);
	if (merge->builder && merge->nopen > 0)
	{
		bool		joined = merge->kind == ROSE_PICK_JOIN;

		rose_component_builder_finish(merge->builder,
									  joined ? &merge->output : &merge->open_output);
		merge->has_output = merge->has_output || joined;
		merge->has_open = !joined;
	}
	/* what the sources had left out counts on */
	for (int i = 0; i < merge->nsources; i++)
		merge->output.max_xid = Max(merge->output.max_xid, merge->sources[i]->entry.max_xid);
	merge->complete = true;
}

uint64
rose_merge_output_blocks_read(const RoseMerge *merge)
{
	return merge->stride_rows == 0 ? 0 :
		(uint64) ((double) merge->stride_blocks * merge->output_read / merge->stride_rows);
}

void
rose_merge_output_free(RoseMerge *merge)
{
	if (merge->builder)
		rose_component_builder_free(merge->builder);
	if (merge->compactor)
		rose_compactor_free(merge->compactor);
	merge->builder = NULL;
	merge->compactor = NULL;
}

/* ---- rows ---- */

/* May the output end here, but for the key?  Not with next to nothing left for another. */
static bool
is_output_full(const RoseMerge *merge)
{
	if (merge->pass)
		return merge->output_read >= merge->cut_rows;
	if (merge->output_read < merge->least_rows ||
		merge->total - merge->nread < merge->least_rows / 2)
		return false;
	return merge->output_read >= merge->cut_rows ||
		(merge->old_part >= 0 &&
		 rose_merge_cursor_ordinal(merge->cursor, merge->old_part) ==
		 merge->sources[merge->old_part]->to);
}

/* A join keeps what was committed since it began with the rest. */
static void
add_row(RoseMerge *merge, const RoseRow *row)
{
	RoseMergeFate fate = rose_merge_judge(merge->judge, row);

	if (fate == ROSE_FATE_ABORTED)
		return;
	if (fate == ROSE_FATE_OPEN || merge->compactor == NULL)
	{
		Assert(merge->builder != NULL);
		rose_component_builder_add(merge->builder, row);
		merge->nopen++;
	}
	else
		rose_compactor_add(merge->compactor, row);
}

/* One version; false at the end of the output. */
static bool
merge_one(RoseMerge *merge)
{
	const RoseRow *row = merge->row;

	if (row == NULL)
		row = rose_merge_cursor_next(merge->cursor);
	merge->row = NULL;
	if (row == NULL)
	{
		merge->exhausted = true;
		return false;
	}
	if (is_output_full(merge) &&
		rose_compactor_is_new_key(merge->compactor, row))
	{
		merge->row = row;
		return false;
	}
	merge->nread++;
	merge->output_read++;
	add_row(merge, row);
	return true;
}

/*
 * Many versions at once, if the next ones are such that this can be done; false if not.  After
 * some vain attempts the next ones come later.
 */
static bool
merge_batch(RoseMerge *merge)
{
	RoseMergeBatch batch;
	const RoseRow *row;
	uint64		max = ROSE_MERGE_BATCH;

	if (merge->no_batches > 0)
	{
		merge->no_batches--;
		return false;
	}
	if (merge->kind != ROSE_PICK_MERGE || merge->row != NULL || is_output_full(merge))
		return false;
	row = rose_merge_cursor_peek(merge->cursor);
	if (row == NULL || !rose_compactor_is_new_key(merge->compactor, row))
		return false;
	if (merge->cut_rows > merge->output_read)
		max = Min(max, merge->cut_rows - merge->output_read);
	if (!rose_merge_cursor_batch(merge->cursor, rose_compactor_oldest(merge->compactor),
								 (int) max, &batch))
	{
		merge->no_batches = ROWS_WITHOUT_BATCH;
		return false;
	}
	rose_compactor_add_batch(merge->compactor, batch.rows, batch.tokens);
	rose_merge_cursor_end_batch(merge->cursor);
	merge->nread += batch.npassed;
	merge->output_read += batch.npassed;
	rose_gentle_many(batch.npassed);
	if (batch.npassed < ROWS_OF_GOOD_BATCH)
		merge->no_batches = ROWS_WITHOUT_BATCH;
	return true;
}

bool
rose_merge_output_fill(RoseMerge *merge, int budget_ms)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	for (;;)
	{
		instr_time	now;

		for (int i = 0; i < CLOCK_EVERY; i++)
		{
			if (merge_batch(merge))
				break;
			if (!merge_one(merge))
				return true;
			rose_gentle_row();
		}
		CHECK_FOR_INTERRUPTS();
		if (budget_ms == 0)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if (INSTR_TIME_GET_MILLISEC(now) >= budget_ms)
			return false;
	}
}
