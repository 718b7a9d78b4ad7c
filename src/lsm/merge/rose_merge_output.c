/*-------------------------------------------------------------------------
 *
 * rose_merge_output.c
 *	  The output of a merge under construction: from the cursor over its sources to a compactor
 *	  or a builder.
 *
 * Rows that everybody sees go many at a time, by columns; others one by one.  A join and
 * a split tell rows of transactions in progress from the others.  An output may be filled
 * in several steps; between two of them nothing is held but what RoseMerge has.  When it
 * is published is rose_merge.c's.
 *
 * Backend-local.  Which versions are garbage is rose_gc.c's to say, and what becomes of
 * rows of private runs rose_private_judge.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"

#include "util/rose_gentle.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/merge/rose_merge_internal.h"

/* Versions between two looks at the clock. */
#define CLOCK_EVERY			256

/* After a batch of fewer versions than that, or none, so many are taken one by one. */
#define ROWS_OF_GOOD_BATCH	4
#define ROWS_WITHOUT_BATCH	32

/* ---- begin and end ---- */

static void
open_compactor(RoseMerge *merge, RoseTree *tree)
{
	const RoseComponentEntryDisk *sources[ROSE_MERGE_MAX_SOURCES];
	int			options = (merge->keep ? ROSE_BUILD_KEEP : 0) |
		(merge->target_level == 0 ? ROSE_BUILD_RUN : merge->target_level == 1 ? ROSE_BUILD_C1 : 0);
	bool		bottom = !merge->kind->keeps_open &&
		rose_merge_at_bottom(merge, tree);
	uint64		forget_xid;

	for (int i = 0; i < merge->stride.nsources; i++)
		sources[i] = &merge->stride.sources[i]->entry;
	forget_xid = rose_merge_may_forget(tree, sources, merge->stride.nsources, bottom, &merge->out.settled);
	merge->out.compactor = rose_compactor_create(tree->rel, &tree->shared->store, merge->schema,
												 merge->stride.expected_rows, options,
												 rose_horizon_get(tree->rel, merge->stride.context),
												 bottom, merge->stride.context);
	if (forget_xid != 0)
		rose_compactor_forget(merge->out.compactor, FullTransactionIdFromU64(forget_xid));
}

bool
rose_merge_output_is_open(const RoseMerge *merge)
{
	return merge->out.builder != NULL || merge->out.compactor != NULL;
}

void
rose_merge_output_open(RoseMerge *merge, RoseTree *tree)
{
	int			options = ROSE_BUILD_PRIVATE | (merge->keep ? ROSE_BUILD_KEEP : 0);

	if (merge->kind->keeps_open)
		merge->out.builder = rose_component_builder_create(tree->rel, &tree->shared->store,
														   merge->schema, merge->stride.expected_rows,
														   options, merge->stride.context);
	if (merge->kind->compacts)
		open_compactor(merge, tree);
	merge->out.nopen = 0;
	merge->out.complete = false;
	merge->out.nread = 0;
	if (merge->kind->begin_output)
		merge->kind->begin_output(merge);
}

void
rose_merge_output_finish(RoseMerge *merge)
{
	merge->out.has_merged = merge->out.has_open = false;
	if (merge->out.compactor)
		merge->out.has_merged = rose_compactor_finish(merge->out.compactor, &merge->out.merged);
	if (merge->out.builder && merge->out.nopen > 0)
	{
		bool		joined = !merge->kind->compacts;

		rose_component_builder_finish(merge->out.builder,
									  joined ? &merge->out.merged : &merge->out.open);
		merge->out.has_merged = merge->out.has_merged || joined;
		merge->out.has_open = !joined;
	}
	/* what the sources had left out counts on */
	for (int i = 0; i < merge->stride.nsources; i++)
		merge->out.merged.max_xid = Max(merge->out.merged.max_xid, merge->stride.sources[i]->entry.max_xid);
	merge->out.complete = true;
}

uint64
rose_merge_output_blocks_read(const RoseMerge *merge)
{
	return merge->stride.nrows == 0 ? 0 :
		(uint64) ((double) merge->stride.nblocks * merge->out.nread / merge->stride.nrows);
}

void
rose_merge_output_free(RoseMerge *merge)
{
	if (merge->out.builder)
		rose_component_builder_free(merge->out.builder);
	if (merge->out.compactor)
		rose_compactor_free(merge->out.compactor);
	merge->out.builder = NULL;
	merge->out.compactor = NULL;
}

/* ---- rows ---- */

static bool
is_output_full(const RoseMerge *merge)
{
	return merge->kind->output_full != NULL && merge->kind->output_full(merge);
}

/*
 * Is it an entry that nobody wants?  Whoever is SERIALIZABLE and does not see its writer has to meet
 * him, although the version has gone.  In batches there are only such as everybody sees.
 */
static bool
is_left_out(RoseMerge *merge, const RoseRow *row)
{
	if (merge->sift == NULL || row->version.op != ROSE_OP_PUT || rose_sift_is_wanted(merge->sift, row->key))
		return false;
	if (FullTransactionIdPrecedes(row->version.xid, rose_compactor_oldest(merge->out.compactor)))
		return true;
	rose_sift_keep(merge->sift, row->version.xid);
	return false;
}

/* A join keeps what was committed since it began with the rest. */
static void
add_row(RoseMerge *merge, const RoseRow *row)
{
	RoseMergeFate fate = rose_private_judge_row(merge->judge, row);

	if (fate == ROSE_FATE_ABORTED)
	{
		if (merge->out.compactor != NULL)
			rose_compactor_pass_over(merge->out.compactor, row->key);
		return;
	}
	if (fate == ROSE_FATE_OPEN || merge->out.compactor == NULL)
	{
		Assert(merge->out.builder != NULL);
		rose_component_builder_add(merge->out.builder, row);
		merge->out.nopen++;
	}
	else if (is_left_out(merge, row))
		rose_compactor_pass_over(merge->out.compactor, row->key);
	else
		rose_compactor_add(merge->out.compactor, row);
}

/* What is wanted of a batch; older versions of its last key may follow. */
static void
add_sifted(RoseMerge *merge, const RoseMergeBatch *batch)
{
	const RoseRowBatch *rows = batch->rows;
	int			last = rows->n - 1;
	int			kept[ROSE_MERGE_BATCH];
	int			n = 0;
	Datum		key[INDEX_MAX_KEYS];
	bool		wanted = false;

	for (int i = 0; i <= last; i++)
	{
		rose_row_batch_key(merge->schema, rows, i, key);
		wanted = rose_sift_is_wanted(merge->sift, key);
		if (wanted)
			kept[n++] = i;
	}
	if (n <= last)
		rose_merge_cursor_keep(merge->stride.cursor, kept, n);
	if (n > 0)
		rose_compactor_add_batch(merge->out.compactor, rows, batch->tokens);
	if (!wanted)
		rose_compactor_pass_over(merge->out.compactor, key);
}

/* One version; false at the end of the output. */
static bool
merge_one(RoseMerge *merge)
{
	const RoseRow *row = merge->stride.row;

	if (row == NULL)
		row = rose_merge_cursor_next(merge->stride.cursor);
	merge->stride.row = NULL;
	if (row == NULL)
	{
		merge->stride.exhausted = true;
		return false;
	}
	if (is_output_full(merge) &&
		rose_compactor_is_new_key(merge->out.compactor, row->key))
	{
		merge->stride.row = row;
		return false;
	}
	merge->nread++;
	merge->out.nread++;
	add_row(merge, row);
	return true;
}

/*
 * Many versions at once, if the next ones are such that this can be done; false if not.
 * After some vain attempts the next ones come later.
 */
static bool
merge_batch(RoseMerge *merge)
{
	RoseMergeBatch batch;
	const RoseRow *row;
	uint64		max = ROSE_MERGE_BATCH;

	if (merge->stride.no_batches > 0)
	{
		merge->stride.no_batches--;
		return false;
	}
	if (merge->kind->keeps_open || merge->stride.row != NULL || is_output_full(merge))
		return false;
	row = rose_merge_cursor_peek(merge->stride.cursor);
	if (row == NULL || !rose_compactor_is_new_key(merge->out.compactor, row->key))
		return false;
	if (merge->stride.cut_rows > merge->out.nread)
		max = Min(max, merge->stride.cut_rows - merge->out.nread);
	if (!rose_merge_cursor_batch(merge->stride.cursor, rose_compactor_oldest(merge->out.compactor),
								 (int) max, &batch))
	{
		merge->stride.no_batches = ROWS_WITHOUT_BATCH;
		return false;
	}
	if (merge->sift != NULL)
		add_sifted(merge, &batch);
	else
		rose_compactor_add_batch(merge->out.compactor, batch.rows, batch.tokens);
	rose_merge_cursor_end_batch(merge->stride.cursor);
	merge->nread += batch.npassed;
	merge->out.nread += batch.npassed;
	rose_gentle_many(batch.npassed);
	if (batch.npassed < ROWS_OF_GOOD_BATCH)
		merge->stride.no_batches = ROWS_WITHOUT_BATCH;
	return true;
}

/*
 * A worker needs no pin for its claimed sources.  Private runs are others' business, too:
 * who finds that their transactions have ended may drop them.
 */
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
		if (merge->judge == NULL)
			rose_pin_move_on(merge->locator);
		if (budget_ms == 0)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if (INSTR_TIME_GET_MILLISEC(now) >= budget_ms)
			return false;
	}
}
