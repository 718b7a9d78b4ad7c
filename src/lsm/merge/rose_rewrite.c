/*-------------------------------------------------------------------------
 *
 * rose_rewrite.c
 *	  All versions of a table, component by component, into a new file.  See rose_rewrite.h.
 *
 * A version is deformed by the old file's schema, which knows the values of columns that
 * were added since it was stored, and is written by the new one's, from which columns
 * that were dropped are missing.  Runs that transactions which were rolled back have left
 * behind are not copied: they may have columns that never came to be.
 *
 * Locking: the caller has both files to itself.  What is merged before, and when the new
 * file counts as settled, is the caller's business.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_rewrite.h"

/* Add a version to the copy. */
static void
copy_version(RoseComponentBuilder *builder, const RoseRow *row, const RoseSchema *schema,
			 Datum *values, bool *nulls)
{
	rose_row_deform(row, schema, 1, schema->natts, values, nulls);
	for (int i = 0; row->version.op != ROSE_OP_PUT && i < schema->natts; i++)
	{
		if (row->version.present ? !rose_present_test(row->version.present, i + 1)
			: !rose_schema_is_key_column(schema, i + 1))
			nulls[i] = true;
	}
	rose_component_builder_add_values(builder, &row->version, values, nulls);
}

/* For pg_stat_progress_cluster. */
static void
count_copied(int64 nrows)
{
	const int	params[] = {PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN};
	const int64 values[] = {nrows, nrows};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

/* Its filter is as large as that of another component there. */
static int
options_of_level(int level)
{
	return level == 0 ? ROSE_BUILD_RUN : level == 1 ? ROSE_BUILD_C1 : 0;
}

/*
 * Copy a component, version by version; columns dropped since are left out.  The builder
 * is to be freed when the entry is published.  *nrows counts versions; new_entry has none
 * if all were aborted.
 */
static RoseComponentBuilder *
copy_component(RoseView *from, int index, RoseTree *to,
			   RoseComponentEntryDisk *new_entry, int64 *nrows)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(from, index);
	const RoseSchema *schema = from->schema;
	bool		private = (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
	int			options = private ? ROSE_BUILD_PRIVATE : options_of_level(entry->level);
	Datum	   *values = palloc(schema->natts * sizeof(Datum));
	bool	   *nulls = palloc(schema->natts * sizeof(bool));
	RoseComponentCursor *cursor;
	RoseComponentBuilder *builder;

	cursor = rose_component_cursor_create(rose_view_component(from, index),
										  from->tree->rel, schema,
										  GetAccessStrategy(BAS_BULKREAD),
										  CurrentMemoryContext);
	rose_component_cursor_set_first(cursor, entry->first_ordinal);
	builder = rose_component_builder_create(to->rel, &to->shared->store,
											to->schema, entry->nrows, options,
											CurrentMemoryContext);
	new_entry->nrows = 0;
	for (bool found = rose_component_cursor_first(cursor); found;
		 found = rose_component_cursor_next(cursor))
	{
		const RoseRow *row = rose_component_cursor_row(cursor);

		CHECK_FOR_INTERRUPTS();
		if (private && rose_version_status(&row->version) == ROSE_XID_ABORTED)
			continue;			/* it may have columns that were taken back */
		copy_version(builder, row, schema, values, nulls);
		count_copied(++*nrows);
		new_entry->nrows++;
	}
	rose_component_cursor_free(cursor);
	if (new_entry->nrows == 0)
		return builder;

	rose_component_builder_finish(builder, new_entry);
	new_entry->level = entry->level;
	new_entry->state = ROSE_COMPONENT_LIVE;
	/* what was left out before counts on */
	new_entry->max_xid = Max(new_entry->max_xid, entry->max_xid);
	return builder;
}

/* Left over by transactions that were rolled back: it may have columns that never came to be. */
static bool
is_left_over(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	return (entry->flags & ROSE_COMPONENT_PRIVATE) != 0 &&
		rose_private_state(tree, entry) == ROSE_PRIVATE_ABORTED;
}

/*
 * Newest first.  Each component is published when it is there: nobody else sees the new
 * file, and few can be under construction at a time.
 */
uint64
rose_rewrite(RoseTree *from, RoseTree *to)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose copy",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));
	RoseView   *view = rose_view_present(from);
	int64		nblocks = 0;
	int64		nrows = 0;
	uint32		last = 0;		/* that was published */

	edit->next_seq = rose_c0_next_sequence(&from->shared->c0);
	for (int i = 0; i < view->manifest.ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = rose_view_entry(view, i);
		RoseComponentBuilder *builder;

		if (is_left_over(from, entry))
			continue;
		builder = copy_component(view, i, to, &edit->add[0], &nrows);
		if (edit->add[0].nrows > 0)
		{
			edit->nadd = 1;
			edit->add_behind = last;
			rose_manifest_apply(to->rel, &to->shared->store, edit);
			last = edit->add[0].id;
		}
		rose_component_builder_free(builder);
		nblocks += entry->nblocks;
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, nblocks);
	}

	rose_c0_raise_sequence(&to->shared->c0, edit->next_seq);

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return (uint64) nrows;
}
