/*-------------------------------------------------------------------------
 *
 * rose_tableam_sample.c
 *	  ANALYZE and TABLESAMPLE.
 *
 * Core samples tables by block number.  A block of a rose table holds no rows
 * of its own that could be counted (its keys may have newer versions anywhere),
 * so block b of the n blocks of the file stands for the b-th of n equal slices of
 * the key space, cut by the row ordinals of the largest component.  The slices partition the table: every
 * visible row is in exactly one of them, and reading one costs about a page
 * of each component.  Without a component there is one slice with all rows: block
 * 0 for TABLESAMPLE, whichever block is asked for first for ANALYZE.
 *
 * The TIDs that ANALYZE sees are the slice and a running number, so that the
 * correlation it computes is that of the key order, in which rows are stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/tsmapi.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

struct RoseSlices
{
	RoseTable  *table;
	MemoryContext context;
	BlockNumber nslices;
	uint64		nrows;			/* versions of the component that is cut; 0 = none */
	RoseComponentCursor *cursor;	/* on it */

	RoseScan   *scan;
	MemoryContext key_context;	/* bounds of the current slice */
	BlockNumber slice;			/* current one, or InvalidBlockNumber */
	uint64		row;			/* rows of the slice returned or passed over, 1-based */
	bool		exhausted;
	double		row_weight;		/* ANALYZE: live rows that one row counts as */
};

/* Put the cursor on the component with most versions. */
static void
slices_choose_component(RoseSlices *slices)
{
	const RoseManifest *manifest = rose_table_manifest(slices->table);
	int			largest = -1;

	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		if (entry->state == ROSE_COMPONENT_LIVE &&
			(largest < 0 || entry->nrows > manifest->components[largest].nrows))
			largest = i;
	}
	if (largest < 0)
		return;
	slices->nrows = manifest->components[largest].nrows;
	slices->cursor =
		rose_component_cursor_create(rose_table_component(slices->table, largest),
									 slices->table->rel, slices->table->schema,
									 GetAccessStrategy(BAS_BULKREAD), slices->context);
}

static RoseSlices *
slices_create(RoseTableScan *scan, Snapshot snapshot)
{
	MemoryContext context = AllocSetContextCreate(scan->context, "rose slices",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseSlices *slices = palloc0(sizeof(RoseSlices));

	slices->table = scan->table;
	slices->context = context;
	slices->nslices = RelationGetNumberOfBlocks(scan->base.rs_rd);
	slices->key_context = AllocSetContextCreate(context, "rose slice bounds",
												ALLOCSET_SMALL_SIZES);
	slices->slice = InvalidBlockNumber;
	slices->row_weight = 1;
	slices_choose_component(slices);
	slices->scan = rose_scan_begin(scan->table, snapshot, NULL, true);
	MemoryContextSwitchTo(old);
	return slices;
}

void
rose_slices_free(RoseSlices *slices)
{
	rose_scan_end(slices->scan);
	if (slices->cursor)
		rose_component_cursor_free(slices->cursor);
	MemoryContextDelete(slices->context);
}

/* Lower bound of a slice; false: there is none (first slice, or past the last). */
static bool
slices_bound(RoseSlices *slices, BlockNumber slice, Datum *key)
{
	uint64		ordinal;

	if (slice == 0 || slice >= slices->nslices)
		return false;
	ordinal = (uint64) ((double) slices->nrows * slice / slices->nslices);
	if (ordinal == 0 ||
		!rose_component_cursor_seek_ordinal(slices->cursor, ordinal))
		return false;
	rose_key_copy(slices->table->schema, key,
				  rose_component_cursor_row(slices->cursor)->key, slices->key_context);
	return true;
}

/*
 * Go to a slice; false: it is certainly empty.  Slices that begin at the same
 * ordinal are all empty but the last of them, because upper bounds are exclusive.
 */
static bool
slices_seek(RoseSlices *slices, BlockNumber slice)
{
	RoseKeyRange range;
	int			width = rose_schema_key_width(slices->table->schema);
	bool		has_lower;

	slices->slice = slice;
	slices->row = 0;
	slices->exhausted = true;
	memset(&range, 0, sizeof(range));
	MemoryContextReset(slices->key_context);

	if (slices->cursor == NULL)
	{
		if (slice != 0)
			return false;
	}
	else
	{
		has_lower = slices_bound(slices, slice, range.lower);
		if (slices_bound(slices, slice + 1, range.upper))
			range.nupper = width;
		else if (slice + 1 < slices->nslices)
			return false;		/* the next slice begins at the table's start too */
		if (has_lower)
			range.nlower = width;
		range.lower_inclusive = true;
	}
	slices->exhausted = false;
	rose_scan_reset(slices->scan, &range);
	return true;
}

/* Next row of the slice, or NULL. */
static const RoseRow *
slices_next(RoseSlices *slices)
{
	const RoseRow *row;

	if (slices->exhausted)
		return NULL;
	row = rose_scan_next(slices->scan, ForwardScanDirection);
	if (row == NULL)
		slices->exhausted = true;
	else
		slices->row++;
	return row;
}

/* ---- ANALYZE ---- */

/*
 * Without a component the first block has all the rows.  ANALYZE will multiply
 * their number by the share of blocks that it looked at, which is taken back
 * here as far as that share can be foreseen.
 */
static void
analyze_seek(RoseSlices *slices, BlockNumber block)
{
	bool		first = slices->slice == InvalidBlockNumber;

	if (slices->cursor)
		(void) slices_seek(slices, block);
	else if (first)
	{
		double		sampled = 300.0 * default_statistics_target;

		(void) slices_seek(slices, 0);
		slices->row_weight = Min(1.0, sampled / slices->nslices);
	}
}

bool
rose_analyze_next_block(TableScanDesc sscan, ROSE_ANALYZE_BLOCK_ARGS)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;
	BlockNumber block;

	if (!rose_analyze_block(&block))
		return false;
	if (scan->slices == NULL)
	{
		/* ANALYZE runs with a snapshot of its own, but gives the scan none */
		Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());

		sscan->rs_snapshot = snapshot;
		sscan->rs_flags |= SO_TEMP_SNAPSHOT;
		scan->slices = slices_create(scan, snapshot);
	}
	analyze_seek(scan->slices, block);
	return true;
}

bool
rose_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin,
						double *liverows, double *deadrows, TupleTableSlot *slot)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;
	RoseSlices *slices = scan->slices;
	const RoseRow *row = slices_next(slices);
	ItemPointerData tid;

	if (row == NULL)
	{
		ExecClearTuple(slot);
		return false;
	}
	*liverows += slices->row_weight;
	ItemPointerSet(&tid, slices->slice + (BlockNumber) (slices->row / PG_UINT16_MAX),
				   (OffsetNumber) (slices->row % PG_UINT16_MAX + 1));
	rose_slot_store(slot, scan->table, row, &tid);
	return true;
}

/* ---- TABLESAMPLE ---- */

/*
 * The sampling method decides by block and offset.  Offsets end at
 * MaxOffsetNumber, so that a slice with more rows counts as several blocks.
 */
bool
rose_sample_next_block(TableScanDesc sscan, SampleScanState *state)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	RoseSlices *slices = scan->slices;
	BlockNumber block;

	if (slices == NULL)
		slices = scan->slices = slices_create(scan, sscan->rs_snapshot);
	if (slices->slice != InvalidBlockNumber && !slices->exhausted)
	{
		slices->row = 0;		/* the rest of a long slice */
		return true;
	}

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (tsm->NextSampleBlock)
			block = tsm->NextSampleBlock(state, slices->nslices);
		else if (slices->slice == InvalidBlockNumber)
			block = 0;
		else
			block = slices->slice + 1;
		if (block >= slices->nslices)
			return false;
		if (slices_seek(slices, block))
			return true;
	}
}

bool
rose_sample_next_tuple(TableScanDesc sscan, SampleScanState *state, TupleTableSlot *slot)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	RoseSlices *slices = scan->slices;

	for (;;)
	{
		/* until the slice ends, pretend that it goes on */
		OffsetNumber max = slices->exhausted ? (OffsetNumber) slices->row : MaxOffsetNumber;
		OffsetNumber offset = tsm->NextSampleTuple(state, slices->slice, max);
		const RoseRow *row = NULL;
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		if (!OffsetNumberIsValid(offset))
		{
			/* pass over what was not wanted of this stretch */
			while (slices->row < MaxOffsetNumber && slices_next(slices))
				;
			ExecClearTuple(slot);
			return false;
		}
		while (slices->row < offset && (row = slices_next(slices)) != NULL)
			;
		if (row == NULL)
			continue;			/* the slice ended before it */
		rose_scan_tid(slices->scan, &tid);
		rose_slot_store(slot, scan->table, row, &tid);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
}
