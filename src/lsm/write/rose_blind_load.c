/*-------------------------------------------------------------------------
 *
 * rose_blind_load.c
 *	  Entries of rows that a subscription has loaded in bulk.  See rose_blind_load.h.
 *
 * The table is read once for each index.  Entries have the stamps of their rows and are
 * sorted into a run, which is the transaction's own, as that of the rows is: so both
 * are there, or neither, whatever happens.
 *
 * Locking: the caller has the table to itself; the manifest takes its locks.
 *
 * What this does not do: load the rows (rose_bulkload.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "lsm/tree/rose_index_set.h"
#include "lsm/merge/rose_version_sort.h"
#include "lsm/read/rose_scan.h"
#include "lsm/write/rose_blind_load.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_new_run.h"

typedef struct EntryLoad
{
	RoseTree   *table;
	RoseTree   *index;
	const RoseEntryShape *shape;
	MemoryContext computed;		/* what is needed for one row */
	RoseVersionSort *sort;
	uint64		nentries;
	uint64		next_seq;		/* above those of all rows */
} EntryLoad;

static void
load_row(EntryLoad *load, const RoseRow *row, Datum *values, bool *nulls)
{
	MemoryContext old = MemoryContextSwitchTo(load->computed);
	RoseVersion version = row->version;
	int64		rowid = load->table->schema->nkeys == 0 ? DatumGetInt64(row->key[0]) : 0;
	RoseEntry	entry;

	rose_row_deform(row, load->table->schema, 1, load->shape->last_source, values, nulls);
	rose_entry_of_row(load->shape, load->index->rel, ROSE_ENTRY_OF_OWNER, values, nulls, rowid,
					  &entry);
	load->next_seq = Max(load->next_seq, version.seq + 1);
	if (entry.exists)
	{
		rose_entries_check_fits(load->index, &entry);
		version.op = ROSE_OP_PUT;
		version.rowid = 0;
		version.moved_to = 0;
		version.present = NULL;
		rose_version_sort_put(load->sort, &version, entry.values, entry.nulls, 0);
		load->nentries++;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(load->computed);
}

static void
load_rows(EntryLoad *load, Snapshot snapshot)
{
	RoseScan   *scan = rose_scan_begin(load->table, snapshot, NULL, true);
	Datum	   *values = palloc(load->table->schema->natts * sizeof(Datum));
	bool	   *nulls = palloc(load->table->schema->natts * sizeof(bool));
	const RoseRow *row;

	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		load_row(load, row, values, nulls);
	}
	rose_scan_end(scan);
}

static void
publish(EntryLoad *load, RoseComponentBuilder *builder)
{
	bool		alone = rose_c0_was_empty(&load->index->shared->c0) &&
		rose_tree_manifest(load->index)->ncomponents == 0;
	RoseNewRun	run;

	rose_c0_raise_sequence(&load->index->shared->c0, load->next_seq);
	rose_new_run_finish(&run, load->index, builder, load->next_seq);
	run.entry->level = alone ? 2 : 0;
	rose_new_run_publish(&run);
	rose_new_run_note(&run);
}

static void
write_run(EntryLoad *load)
{
	RoseTree   *index = load->index;
	RoseComponentBuilder *builder;
	TupleTableSlot *slot;
	RoseVersion version;

	builder = rose_component_builder_create(index->rel, &index->shared->store, index->schema,
											load->nentries, ROSE_BUILD_PRIVATE,
											CurrentMemoryContext);
	rose_version_sort_perform(load->sort);
	while ((slot = rose_version_sort_next(load->sort, &version)) != NULL)
		rose_component_builder_add_values(builder, &version, slot->tts_values, slot->tts_isnull);
	publish(load, builder);
	rose_component_builder_free(builder);
}

static void
load_index(EntryLoad *load, Snapshot snapshot)
{
	load->computed = AllocSetContextCreate(CurrentMemoryContext, "rose blind load row",
										   ALLOCSET_SMALL_SIZES);
	load->sort = rose_version_sort_begin(load->index->schema, false, maintenance_work_mem);
	load_rows(load, snapshot);
	if (load->nentries > 0)
		write_run(load);
	rose_version_sort_end(load->sort);
}

void
rose_blind_load_entries(RoseBlindIndexes *indexes, Snapshot snapshot)
{
	int			ntrees;
	RoseTree   *const *trees = rose_blind_trees(indexes, &ntrees);

	for (int i = 1; i < ntrees; i++)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose blind load",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(context);
		EntryLoad	load = {.table = trees[0], .index = trees[i]};

		load.shape = rose_blind_shape(indexes, i - 1);
		load_index(&load, snapshot);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
	}
}
