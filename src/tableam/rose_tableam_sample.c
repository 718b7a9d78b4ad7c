/*-------------------------------------------------------------------------
 *
 * rose_tableam_sample.c
 *	  ANALYZE and TABLESAMPLE.
 *
 * Core samples tables by block number.  A block of a rose table holds no rows of its own
 * that could be counted (its keys may have newer versions anywhere), so block b of the n
 * blocks of the file stands for the b-th of n equal slices of the key space, cut by the
 * row ordinals of C2's pieces, or of another component if that has more rows.  The slices
 * partition the tree: every visible row is in exactly one of them, and reading one costs
 * about a page of each component.  Without a component there is one slice with all rows:
 * block 0 for TABLESAMPLE, whichever block is asked for first for ANALYZE.
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
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_view.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"

struct RoseSlices
{
	RoseTree   *tree;
	MemoryContext context;
	BlockNumber nslices;

	/* what is cut: components with ascending keys */
	int			nparts;			/* 0 = none */
	RoseComponentEntryDisk parts[ROSE_MAX_COMPONENTS];
	RoseComponent *components[ROSE_MAX_COMPONENTS];
	uint64		nrows;			/* versions in them */
	BufferAccessStrategy strategy;
	int			cursor_part;
	RoseComponentCursor *cursor;	/* on that part, or NULL */

	RoseScan   *scan;
	MemoryContext key_context;	/* bounds of the current slice */
	BlockNumber slice;			/* current one, or InvalidBlockNumber */
	uint64		row;			/* rows of the slice returned or passed over, 1-based */
	bool		exhausted;
	double		row_weight;		/* ANALYZE: live rows that one row counts as */
};

static void
slices_add_part(RoseSlices *slices, RoseView *view, int index)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(view, index);

	slices->parts[slices->nparts] = *entry;
	slices->components[slices->nparts++] = rose_view_component(view, index);
	slices->nrows += entry->nrows - entry->first_ordinal;
}

/* Choose what has most versions: C2, or a component of another level. */
static void
slices_choose_parts(RoseSlices *slices)
{
	RoseView   *view = rose_view_present(slices->tree);
	int			largest = -1;
	uint64		largest_rows = 0;
	uint64		c2_rows = 0;

	for (int i = 0; i < view->manifest.ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = rose_view_entry(view, i);
		uint64		nrows = entry->nrows - entry->first_ordinal;

		if (entry->state != ROSE_COMPONENT_LIVE)
			continue;
		if (entry->level == 2)
			c2_rows += nrows;
		else if (nrows > largest_rows)
		{
			largest = i;
			largest_rows = nrows;
		}
	}
	if (largest_rows > c2_rows)
		slices_add_part(slices, view, largest);
	else if (c2_rows > 0)
		for (int i = view->first_piece; i < view->manifest.ncomponents; i++)
			slices_add_part(slices, view, i);
}

/* The row with this number among all parts; false if it is not there. */
static bool
slices_seek_row(RoseSlices *slices, uint64 number)
{
	int			part = 0;

	while (part < slices->nparts &&
		   number >= slices->parts[part].nrows - slices->parts[part].first_ordinal)
	{
		number -= slices->parts[part].nrows - slices->parts[part].first_ordinal;
		part++;
	}
	if (part == slices->nparts)
		return false;
	if (slices->cursor == NULL || slices->cursor_part != part)
	{
		if (slices->cursor)
			rose_component_cursor_free(slices->cursor);
		slices->cursor =
			rose_component_cursor_create(slices->components[part], slices->tree->rel,
										 slices->tree->schema, slices->strategy,
										 slices->context);
		slices->cursor_part = part;
	}
	return rose_component_cursor_seek_ordinal(slices->cursor,
											  slices->parts[part].first_ordinal + number);
}

static RoseSlices *
slices_create(RoseTableScan *scan, Snapshot snapshot)
{
	MemoryContext context = AllocSetContextCreate(scan->context, "rose slices",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseSlices *slices = palloc0(sizeof(RoseSlices));

	slices->tree = scan->tree;
	slices->context = context;
	slices->nslices = RelationGetNumberOfBlocks(scan->base.rs_rd);
	slices->key_context = AllocSetContextCreate(context, "rose slice bounds",
												ALLOCSET_SMALL_SIZES);
	slices->slice = InvalidBlockNumber;
	slices->row_weight = 1;
	slices->strategy = GetAccessStrategy(BAS_BULKREAD);
	slices_choose_parts(slices);
	slices->scan = rose_scan_begin(scan->tree, snapshot, NULL, true);
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
		!slices_seek_row(slices, ordinal))
		return false;
	rose_key_copy(slices->tree->schema, key,
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
	int			width = rose_schema_key_width(slices->tree->schema);
	bool		has_lower;

	slices->slice = slice;
	slices->row = 0;
	slices->exhausted = true;
	memset(&range, 0, sizeof(range));
	MemoryContextReset(slices->key_context);

	if (slices->nparts == 0)
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
	row = rose_scan_next_keyed(slices->scan, ForwardScanDirection);
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

	if (slices->nparts > 0)
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

	/* scripts analyze all tables after an upgrade: no reason to fail */
	if (scan->tree->shared->other_order)
	{
		rose_tree_report_order(scan->tree, WARNING);
		return false;
	}
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
	rose_slot_store(slot, scan->tree, row, &tid);
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
		rose_slot_store(slot, scan->tree, row, &tid);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
}
