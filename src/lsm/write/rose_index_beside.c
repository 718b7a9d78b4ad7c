/*-------------------------------------------------------------------------
 *
 * rose_index_beside.c
 *	  The build of a secondary index beside writers.  See rose_index_beside.h.
 *
 * To begin is a cut between two versions of the table: a flag of the index's file and the
 * table's index_generation change in a writing section of its C0, in which each version
 * gets its number.  Who writes one there sees whether it goes by the indexes of that
 * generation.
 *
 * What was there before the cut comes last, and is the oldest component.  So until then
 * the tree has no C2, and nothing in it is at the bottom (RoseTreeShared.incomplete): no
 * tombstone goes, and no number is forgotten.  If the build fails, that ends when somebody
 * who merges or vacuums finds that nobody is building it; what is there of its oldest component
 * then is that.
 *
 * Locking: a writing section of the table's C0, and in it the index's metapage; sources of
 * the scan and the manifest take theirs.
 *
 * What this does not do: wait for anybody, which is core's part, make the file
 * (tableam/rose_index_ddl.c), or find values that writers have made two of
 * (rose_unique_beside.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_metapage.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/component/rose_row.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/merge/rose_sorted_pieces.h"
#include "lsm/merge/rose_version_sort.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_unique_pair.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_index_beside.h"
#include "lsm/write/rose_index_build.h"
#include "lsm/write/rose_unique_values.h"

void
rose_index_beside_begin(RoseTree *table, RoseTree *index)
{
	RoseC0Shared *c0 = &table->shared->c0;

	ROSE_STOP_POINT("index-beside-made");	/* no LWLock */
	rose_c0_write_begin(c0);
	rose_meta_clear_index_flag(index->rel, ROSE_INDEX_UNKEPT);
	pg_write_barrier();			/* who sees the new generation sees the flag */
	pg_atomic_fetch_add_u64(&table->shared->index_generation, 1);
	rose_c0_write_end(c0);
	ROSE_STOP_POINT("index-beside-begun");	/* no LWLock */
}

/* ---- entries of the rows that a snapshot sees ---- */

/*
 * Such an entry is the oldest version of its key, and everybody who will read the index
 * sees it: a forgotten version.  Its transaction is any that ended before all that the
 * snapshot may not see.
 */
static RoseVersion
stamp_of_all(Snapshot snapshot)
{
	TransactionId xid = snapshot->xmin;
	RoseVersion stamp = {.op = ROSE_OP_PUT, .seq = ROSE_SEQ_OLDEST};

	TransactionIdRetreat(xid);
	stamp.xid = rose_full_xid(xid);
	return stamp;
}

/* Returns how many rows there are.  sort: NULL if nobody wants their entries. */
static uint64
collect(RoseTree *table, RoseTree *index, const RoseEntryShape *shape, Snapshot snapshot,
		RoseVersionSort *sort)
{
	RoseScan   *scan = rose_scan_begin(table, snapshot, NULL, true);
	bool		by_row_id = table->schema->nkeys == 0;
	Datum	   *values = palloc(Max(shape->last_source, 1) * sizeof(Datum));
	bool	   *nulls = palloc(Max(shape->last_source, 1) * sizeof(bool));
	RoseVersion stamp = stamp_of_all(snapshot);
	MemoryContext computed = AllocSetContextCreate(CurrentMemoryContext, "rose index entry",
												   ALLOCSET_DEFAULT_SIZES);
	uint64		nrows = 0;
	const RoseRow *row;

	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		RoseEntry	entry;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(computed);
		old = MemoryContextSwitchTo(computed);
		if (shape->last_source > 0)
			rose_row_deform(row, table->schema, 1, shape->last_source, values, nulls);
		rose_entry_of_row(shape, index->rel, ROSE_ENTRY_OF_OWNER, values, nulls,
						  by_row_id ? DatumGetInt64(row->key[0]) : 0, &entry);
		MemoryContextSwitchTo(old);
		if (!entry.exists)
			continue;
		rose_entries_check_fits(index, &entry);
		rose_component_check_row_fits(index->schema, entry.values, entry.nulls);
		if (sort != NULL)
			rose_version_sort_put(sort, &stamp, entry.values, entry.nulls, 0);
		nrows++;
	}
	rose_scan_end(scan);
	return nrows;
}

/* ---- rows that cannot have an entry ---- */

static bool
may_refuse_rows(const RoseSchema *schema, const RoseEntryShape *shape)
{
	if (shape->evaluates)
		return true;
	for (int i = 0; i < schema->nkeys; i++)
		if (schema->keys[i].attlen < 0)
			return true;
	return false;
}

void
rose_index_beside_check(RoseTree *table, RoseTree *index, const RoseEntryShape *shape,
						Snapshot snapshot)
{
	MemoryContext context;
	MemoryContext old;

	if (!may_refuse_rows(index->schema, shape))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "rose rows beside writers",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	(void) collect(table, index, shape, snapshot, NULL);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---- values that two rows have ---- */

/* Entries come in the order of their values. */
static bool
find_pair(RoseTree *index, const RoseIndexTree *described, RoseVersionSort *sort,
		  MemoryContext context, Datum *values, bool *nulls)
{
	const RoseSchema *schema = index->schema;
	RoseKeyBuffer last;
	TupleTableSlot *slot;
	RoseVersion version;

	rose_key_buffer_init(&last, CurrentMemoryContext);
	rose_version_sort_perform(sort);
	while ((slot = rose_version_sort_next(sort, &version)) != NULL)
	{
		Datum		key[INDEX_MAX_KEYS];

		CHECK_FOR_INTERRUPTS();
		rose_key_from_values(schema, slot->tts_values, 0, key);
		if (rose_unique_value_is_distinct(described, schema, key))
			continue;
		if (last.valid && rose_key_compare(schema, last.key, key, described->nvalue) == 0)
		{
			rose_unique_pair_take(described, schema, key, context, values, nulls);
			return true;
		}
		rose_key_buffer_set(&last, schema, key);
	}
	return false;
}

bool
rose_index_beside_find_pair(RoseTree *table, RoseTree *index, const RoseIndexTree *described,
							Snapshot snapshot, Datum *values, bool *nulls)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "rose values beside writers",
												  ALLOCSET_DEFAULT_SIZES);
	RoseVersionSort *sort;
	bool		found;

	MemoryContextSwitchTo(context);
	sort = rose_version_sort_begin(index->schema, false, maintenance_work_mem);
	(void) collect(table, index, &described->shape, snapshot, sort);
	found = find_pair(index, described, sort, caller, values, nulls);
	rose_version_sort_end(sort);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return found;
}

/* ---- out ---- */

/* Each entry has another key. */
static void
write_below(RoseTree *table, RoseTree *index, RoseVersionSort *sort, uint64 nrows)
{
	RoseSortedPieces *pieces = rose_sorted_pieces_begin_below(index, nrows, rose_index_build_blocks(table));
	TupleTableSlot *slot;
	RoseVersion version;

	rose_version_sort_perform(sort);
	while ((slot = rose_version_sort_next(sort, &version)) != NULL)
	{
		rose_sorted_pieces_next_key(pieces);
		rose_sorted_pieces_add(pieces, &version, slot->tts_values, slot->tts_isnull);
	}
	rose_sorted_pieces_finish(pieces);
}

static void
note_complete(RoseTree *index)
{
	rose_meta_clear_index_flag(index->rel, ROSE_INDEX_INCOMPLETE);
	pg_write_barrier();			/* who sees that it is complete sees its C2 in the manifest */
	index->shared->incomplete = false;
}

uint64
rose_index_beside_complete(RoseTree *table, RoseTree *index, const RoseEntryShape *shape,
						   Snapshot snapshot)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose index beside writers",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseVersionSort *sort = rose_version_sort_begin(index->schema, false, maintenance_work_mem);
	uint64		nrows;

	Assert(index->shared->incomplete);
	ROSE_STOP_POINT("index-beside-snapshot");	/* no LWLock */
	nrows = collect(table, index, shape, snapshot, sort);
	ROSE_STOP_POINT("index-beside-read");	/* no LWLock */
	write_below(table, index, sort, nrows);
	rose_version_sort_end(sort);
	note_complete(index);
	ROSE_STOP_POINT("index-beside-complete");	/* no LWLock */
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return nrows;
}

void
rose_index_beside_give_up(RoseTree *index)
{
	if (index->shared->incomplete)
		note_complete(index);
}
