/*-------------------------------------------------------------------------
 *
 * rose_scan.c
 *	  Ordered scans: C0 and all components merged and resolved by visibility.
 *
 * The sources (memtables and components) are those of one view, so that a spill is seen
 * either as the memtable or as its run.  They are merged by (key, sequence descending);
 * the few sources there are make a linear search for the smallest cheaper than a tree.
 *
 * A scan remembers the key it is at ("group": all versions of one key).  That
 * is all it needs to go on after its sources were replaced, which happens when
 * a memtable it read was spilled and freed, and after a change of direction.
 *
 * Forward, versions come newest first and the group is left as soon as its row
 * is known; what remains of it is skipped at the next call, because the row
 * returned must stay in place until then.  Backward, versions come oldest first and
 * the newest visible one of the group is kept.
 *
 * Where only one component has rows, and a leaf of it shows nothing but whole rows
 * that everybody sees, there is nothing to reconcile; see rose_stretch.c.  Where
 * several have such rows in turns, see rose_weave.c.
 *
 * Backend-local.  Memtables are read in sections of C0, by their sources; pages as
 * cursors do.  Predicate locks of SERIALIZABLE transactions are taken by whoever scans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/component/rose_partial.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/read/rose_key_reader.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_output.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_tid.h"

typedef enum ScanPlace
{
	SCAN_START,					/* nothing returned yet: begins at either end */
	SCAN_BEFORE_FIRST,
	SCAN_AT_GROUP,				/* group_key is set, unless a stretch is open */
	SCAN_AFTER_LAST
} ScanPlace;

struct RoseScan
{
	RoseTree   *tree;
	Snapshot	snapshot;
	RoseVisibility vis;
	RoseKeyRange range;
	bool		serializable;
	MemoryContext context;
	RoseReading reading;		/* what sources need; its context is reset when they are taken anew */

	RoseSource **sources;
	int			nsources;
	const RoseSource *rival;	/* next to the best source found last; or NULL */
	bool		positioned;		/* sources stand where place and direction say */
	ScanDirection direction;
	ScanPlace	place;

	Datum		group_key[INDEX_MAX_KEYS];
	MemoryContext group_context;	/* its by-reference Datums */
	bool		group_done;		/* its row was returned */
	bool		group_left;		/* sources may still have versions of it */

	RoseOutput	output;			/* stretches: what the scan returns at present, if one is open */

	RosePartial partial;
	RoseLookup *lookup;			/* backward scans complete PARTIAL rows by it */

	RoseRow		row;			/* the result */
	Datum		row_key[INDEX_MAX_KEYS];
	MemoryContext row_context;	/* of the row kept by a backward scan; NULL: there was none */
	bool		row_from_lookup;
	bool		row_in_component;
	RoseComponentEntryDisk row_entry;	/* id 0: none yet */
};

static inline int
scan_compare_keys(RoseScan *scan, const Datum *a, const Datum *b)
{
	const RoseSchema *schema = scan->tree->schema;

	return rose_key_compare(schema, a, b, rose_schema_key_width(schema));
}

/* ---- begin, end ---- */

static void
scan_copy_range(RoseScan *scan, const RoseKeyRange *range)
{
	if (range)
		scan->range = *range;
	else
		memset(&scan->range, 0, sizeof(scan->range));
}

RoseScan *
rose_scan_begin(RoseTree *tree, Snapshot snapshot, const RoseKeyRange *range, bool bulk)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose scan",
												  ALLOCSET_DEFAULT_SIZES);
	RoseScan   *scan = MemoryContextAllocZero(context, sizeof(RoseScan));

	scan->tree = tree;
	scan->snapshot = snapshot;
	scan->context = context;
	scan->reading.tree = tree;
	scan->reading.vis = &scan->vis;
	scan->reading.range = &scan->range;
	scan->reading.context = AllocSetContextCreate(context, "rose scan sources",
												  ALLOCSET_DEFAULT_SIZES);
	scan->output.reading = &scan->reading;
	scan->output.context = context;
	scan->group_context = AllocSetContextCreate(context, "rose scan key",
												ALLOCSET_SMALL_SIZES);
	if (bulk)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		scan->reading.strategy = GetAccessStrategy(BAS_BULKREAD);
		MemoryContextSwitchTo(old);
	}
	rose_partial_init(&scan->partial, tree->schema, context);
	rose_scan_reset(scan, range);
	return scan;
}

static void
scan_release_row(RoseScan *scan)
{
	if (!scan->row_from_lookup)
		rose_rows_release(scan->row.rows);
	scan->row.rows = NULL;
}

static void
scan_close_sources(RoseScan *scan)
{
	/* a weave's rows would be fetched, to outlive their sources */
	rose_stretch_forget(&scan->output);
	scan_release_row(scan);
	for (int i = 0; i < scan->nsources; i++)
		scan->sources[i]->ops->close(scan->sources[i]);
	scan->nsources = 0;
	if (scan->reading.view != NULL)
		rose_view_release(scan->reading.view);
	scan->reading.view = NULL;
	scan->sources = NULL;
	MemoryContextReset(scan->reading.context);
	scan->positioned = false;
}

/*
 * At an end.  The sources are not needed any more, but when the direction changes, and
 * then they are taken anew.  A query over many partitions has all of its scans until it
 * ends.
 */
static void
scan_leave(RoseScan *scan, ScanPlace place)
{
	scan_close_sources(scan);
	scan->place = place;
}

void
rose_scan_reset(RoseScan *scan, const RoseKeyRange *range)
{
	scan_close_sources(scan);
	scan_copy_range(scan, range);
	scan->place = SCAN_START;
	scan->direction = ForwardScanDirection;
	scan->group_done = false;
}

void
rose_scan_end(RoseScan *scan)
{
	scan_close_sources(scan);
	if (scan->lookup)
		rose_lookup_free(scan->lookup);
	if (scan->reading.strategy)
		FreeAccessStrategy(scan->reading.strategy);
	MemoryContextDelete(scan->context);
}

/* ---- sources ---- */

/*
 * Take a view as of now, and its sources.
 */
static void
scan_take_sources(RoseScan *scan)
{
	RoseReading *reading = &scan->reading;
	bool		filter = scan->vis.kind == ROSE_SNAPSHOT_MVCC && !scan->serializable;

	rose_tid_prepare(scan->tree);
	scan_close_sources(scan);
	scan->sources = MemoryContextAlloc(reading->context, ROSE_SOURCES_MAX * sizeof(RoseSource *));
	scan->nsources = rose_sources_take(reading, filter, scan->sources);
}

/*
 * Place all sources for the next row in this direction: behind the group, or on
 * it if its row was not returned yet.  False if a memtable is gone already.
 */
static bool
scan_position_sources(RoseScan *scan, ScanDirection direction)
{
	const RoseKeyRange *range = &scan->range;
	bool		forward = ScanDirectionIsForward(direction);
	const Datum *key = forward ? range->lower : range->upper;
	int			ncols = forward ? range->nlower : range->nupper;
	bool		inclusive = forward ? range->lower_inclusive : range->upper_inclusive;

	if (scan->place == SCAN_AT_GROUP)
	{
		key = scan->group_key;
		ncols = rose_schema_key_width(scan->tree->schema);
		inclusive = !scan->group_done;
	}
	for (int i = 0; i < scan->nsources; i++)
	{
		RoseSource *source = scan->sources[i];

		source->ops->position(source, direction, key, ncols, inclusive);
		if (source->state == ROSE_SOURCE_GONE)
			return false;
	}
	return true;
}

static void
scan_position(RoseScan *scan, ScanDirection direction)
{
	/* a command of the same transaction may have moved the snapshot's curcid */
	rose_visibility_init(&scan->vis, scan->snapshot);
	rose_copied_require(scan->tree, &scan->vis);
	scan->serializable = scan->vis.kind == ROSE_SNAPSHOT_MVCC &&
		CheckForSerializableConflictOutNeeded(scan->tree->rel, scan->snapshot);

	do
	{
		CHECK_FOR_INTERRUPTS();
		scan_take_sources(scan);
	} while (!scan_position_sources(scan, direction));
	scan->direction = direction;
	scan->positioned = true;
}

/*
 * Does source a come before b in this direction?  Equal keys: newest first,
 * respectively oldest first.
 */
static inline bool
source_precedes(RoseScan *scan, const RoseSource *a, const RoseSource *b, bool forward)
{
	int			cmp;

	if (a->prefix != b->prefix)
		return (a->prefix < b->prefix) == forward;
	cmp = scan_compare_keys(scan, a->row->key, b->row->key);
	if (cmp != 0)
		return (cmp < 0) == forward;
	return rose_source_is_newer(a, a->row->version.seq, b, b->row->version.seq) == forward;
}

/* The source whose row comes first, or NULL; scan->rival is the one whose row comes next. */
static RoseSource *
scan_best_source(RoseScan *scan, bool forward)
{
	for (;;)
	{
		RoseSource *best = NULL;
		RoseSource *second = NULL;

		for (int i = 0; i < scan->nsources; i++)
		{
			RoseSource *source = scan->sources[i];

			if (source->state != ROSE_SOURCE_ROW)
				continue;
			if (best == NULL || source_precedes(scan, source, best, forward))
			{
				second = best;
				best = source;
			}
			else if (second == NULL || source_precedes(scan, source, second, forward))
				second = source;
		}
		scan->rival = second;
		if (best == NULL || likely(!best->waiting))
			return best;
		best->ops->wake(best, scan->direction);
	}
}

/* False: the source's memtable is gone and the scan must be positioned anew. */
static bool
scan_advance(RoseScan *scan, RoseSource *source)
{
	rose_source_advance(source, scan->direction);
	if (source->state != ROSE_SOURCE_GONE)
		return true;
	scan->positioned = false;
	return false;
}

/* ---- groups ---- */

static bool
scan_in_group(RoseScan *scan, const RoseSource *source)
{
	return scan_compare_keys(scan, source->row->key, scan->group_key) == 0;
}

static void
scan_begin_group(RoseScan *scan, const Datum *key)
{
	const RoseSchema *schema = scan->tree->schema;

	MemoryContextReset(scan->group_context);
	rose_key_copy(schema, scan->group_key, key, scan->group_context);
	scan->place = SCAN_AT_GROUP;
	scan->group_done = false;
	scan->group_left = true;
	scan->partial.active = false;
	rose_visibility_next_key(&scan->vis);
}

/* Is the key beyond the far end of the range? */
static bool
scan_out_of_range(RoseScan *scan, const Datum *key, bool forward)
{
	const RoseKeyRange *range = &scan->range;
	int			cmp;

	if (forward)
	{
		if (range->nupper == 0)
			return false;
		cmp = rose_key_compare(scan->tree->schema, key, range->upper, range->nupper);
		return range->upper_inclusive ? cmp > 0 : cmp >= 0;
	}
	if (range->nlower == 0)
		return false;
	cmp = rose_key_compare(scan->tree->schema, key, range->lower, range->nlower);
	return range->lower_inclusive ? cmp < 0 : cmp <= 0;
}

/* Is the source's version seen?  Tells serializable transactions what is not. */
static bool
scan_sees(RoseScan *scan, const RoseSource *source)
{
	const RoseVersion *version = &source->row->version;

	if (source->seen)
		return true;
	if (source->committed && scan->vis.kind == ROSE_SNAPSHOT_MVCC &&
		source->entry->max_xid < U64FromFullTransactionId(scan->vis.xmin))
		return true;
	if (rose_version_visible(&scan->vis, version, source->committed))
		return true;
	if (scan->serializable && version->op != ROSE_OP_LOCK)
		CheckForSerializableConflictOut(scan->tree->rel,
										XidFromFullTransactionId(version->xid),
										scan->snapshot);
	return false;
}

/* Make the source's row the result; hold keeps it when the source moves on. */
static void
scan_take_row(RoseScan *scan, const RoseSource *source, bool hold)
{
	const RoseSchema *schema = scan->tree->schema;

	scan_release_row(scan);
	scan->row = *source->row;
	scan->row_from_lookup = false;
	scan->row_in_component = source->entry != NULL;
	if (scan->row_in_component && scan->row_entry.id != source->entry->id)
		scan->row_entry = *source->entry;
	rose_rows_hold(scan->row.rows);
	if (!hold)
		return;

	if (scan->row_context == NULL)
		scan->row_context = AllocSetContextCreate(scan->context, "rose scan row",
												  ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(scan->row_context);
	if (scan->row.tuple)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->row_context);

		scan->row.tuple = rose_copy_minimal_tuple(scan->row.tuple);
		MemoryContextSwitchTo(old);
	}
	rose_key_copy(schema, scan->row_key, source->row->key, scan->row_context);
	scan->row.key = scan->row_key;
}

/* ---- forward ---- */

/*
 * Go through the group's versions, newest first.  Returns the row, or NULL: the key
 * has none for this snapshot, or (positioned is false) the sources must be taken anew.
 */
static const RoseRow *
scan_resolve_forward(RoseScan *scan, RoseSource *source)
{
	uint64		last_seq = 0;

	for (;;)
	{
		const RoseRow *row = source->row;

		rose_source_need_version(source);
		/*
		 * The same version can be in two sources while it moves between them; a merge may
		 * have folded into the copy of a PARTIAL one what was below it.
		 */
		if ((row->version.seq != last_seq || scan->partial.active) && scan_sees(scan, source))
		{
			last_seq = row->version.seq;
			if (row->version.op == ROSE_OP_TOMBSTONE)
				break;
			if (scan->partial.active)
			{
				if (rose_partial_add(&scan->partial, row))
				{
					uint64		ordinal = scan->row.ordinal;

					scan_release_row(scan);
					rose_partial_finish(&scan->partial, &scan->row, scan->row_key);
					scan->row.ordinal = ordinal;
					scan->group_done = true;
					return &scan->row;
				}
			}
			else
			{
				scan_take_row(scan, source, false);
				if (row->version.op == ROSE_OP_PUT)
				{
					scan->group_done = true;
					return &scan->row;
				}
				rose_partial_start(&scan->partial, row);
			}
		}
		else
			last_seq = row->version.seq;

		if (!scan_advance(scan, source))
			return NULL;
		source = scan_best_source(scan, true);
		if (source == NULL || !scan_in_group(scan, source))
			break;
	}
	scan->partial.active = false;	/* with nothing below it, it is no row */
	scan->group_done = true;
	return NULL;
}

/* Skip what the last call left of its group.  False: reposition. */
static bool
scan_skip_group(RoseScan *scan)
{
	for (int i = 0; i < scan->nsources; i++)
	{
		RoseSource *source = scan->sources[i];

		while (source->state == ROSE_SOURCE_ROW && scan_in_group(scan, source))
			if (!scan_advance(scan, source))
				return false;
	}
	return true;
}

/* Close the stretch: the scan is at the last row that was taken of it. */
static void
scan_leave_stretch(RoseScan *scan)
{
	RoseLeft	left = rose_stretch_leave(&scan->output, scan->group_key, scan->group_context);

	if (left.taken)
	{
		scan->place = SCAN_AT_GROUP;
		scan->group_done = true;
		scan->group_left = left.repeats;
	}
	if (!left.placed)
		scan->positioned = false;
}

/* The same backward.  Returns the source that it was of, which is still at that row. */
static RoseSource *
scan_leave_backward(RoseScan *scan)
{
	scan->place = SCAN_AT_GROUP;
	scan->group_done = true;
	return rose_stretch_leave_backward(&scan->output, scan->group_key, scan->group_context);
}

/* Open a stretch that begins with the best source's row, or a weave if many rows will be taken. */
static bool
scan_begin_stretch(RoseScan *scan, RoseSource *best, bool many)
{
	if (scan->vis.kind != ROSE_SNAPSHOT_MVCC)
		return false;
	return (many && rose_weave_begin(&scan->output, scan->sources, scan->nsources, best, scan->rival)) ||
		rose_stretch_begin(&scan->output, best, scan->rival);
}

/*
 * The next row.  If it begins a stretch: NULL and *in_stretch.  many: the caller will
 * take all rows of stretches.
 */
static const RoseRow *
scan_next_forward(RoseScan *scan, bool many, bool *in_stretch)
{
	rose_snapshot_pass();
	*in_stretch = rose_weave_next(&scan->output) || (many && rose_stretch_go_on(&scan->output));
	if (*in_stretch)
		return NULL;
	if (rose_stretch_is_open(&scan->output.stretch))
	{
		if (rose_stretch_is_last(&scan->output))
		{
			scan_leave(scan, SCAN_AFTER_LAST);
			return NULL;
		}
		scan_leave_stretch(scan);
	}

	for (;;)
	{
		RoseSource *source;
		const RoseRow *row;

		if (!scan->positioned)
			scan_position(scan, ForwardScanDirection);
		else if (scan->place == SCAN_AT_GROUP && scan->group_done &&
				 scan->group_left && !scan_skip_group(scan))
			continue;

		source = scan_best_source(scan, true);
		if (source == NULL || scan_out_of_range(scan, source->row->key, true))
		{
			scan_leave(scan, SCAN_AFTER_LAST);
			return NULL;
		}
		if (scan_begin_stretch(scan, source, many))
		{
			*in_stretch = true;
			return NULL;
		}
		scan_begin_group(scan, source->row->key);
		row = scan_resolve_forward(scan, source);
		if (row)
			return row;
	}
}

/* ---- backward ---- */

/* A PARTIAL row, or one that DIRTY reports on, is best resolved newest first. */
static const RoseRow *
scan_resolve_by_lookup(RoseScan *scan)
{
	const RoseRow *row;

	if (scan->lookup == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->context);

		scan->lookup = rose_lookup_create(scan->tree);
		MemoryContextSwitchTo(old);
	}
	scan_release_row(scan);
	row = rose_lookup_get(scan->lookup, scan->snapshot, scan->group_key);
	if (row == NULL)
		return NULL;
	scan->row = *row;
	scan->row_from_lookup = true;
	return &scan->row;
}

/*
 * Go through the group's versions, oldest first, keeping the newest that is
 * seen.  Results as scan_resolve_forward.
 */
static const RoseRow *
scan_resolve_backward(RoseScan *scan, RoseSource *source)
{
	bool		found = false;

	for (;;)
	{
		rose_source_need_version(source);
		if (scan_sees(scan, source) &&
			(!found || source->row->version.seq > scan->row.version.seq))
		{
			scan_take_row(scan, source, true);
			found = true;
		}
		if (!scan_advance(scan, source))
			return NULL;
		source = scan_best_source(scan, false);
		if (source == NULL || !scan_in_group(scan, source))
			break;
	}
	scan->group_done = true;
	if (scan->vis.kind == ROSE_SNAPSHOT_DIRTY)
		return scan_resolve_by_lookup(scan);
	if (!found || scan->row.version.op == ROSE_OP_TOMBSTONE)
		return NULL;
	if (scan->row.version.op == ROSE_OP_PARTIAL)
		return scan_resolve_by_lookup(scan);
	return &scan->row;
}

/* The next row.  If it begins a stretch to count up in: NULL and *in_stretch. */
static const RoseRow *
scan_next_backward(RoseScan *scan, bool *in_stretch)
{
	*in_stretch = false;
	if (rose_stretch_is_open(&scan->output.stretch))
		scan_leave_stretch(scan);
	if (scan->output.back_source != NULL)
	{
		const RoseRow *row = rose_stretch_next_backward(&scan->output);

		if (row != NULL)
			return row;
		(void) scan_advance(scan, scan_leave_backward(scan));
	}
	for (;;)
	{
		RoseSource *source;
		const RoseRow *row;

		if (!scan->positioned)
			scan_position(scan, BackwardScanDirection);
		source = scan_best_source(scan, false);
		if (source == NULL || scan_out_of_range(scan, source->row->key, false))
		{
			scan_leave(scan, SCAN_BEFORE_FIRST);
			return NULL;
		}
		row = rose_stretch_begin_backward(&scan->output, source, scan->rival);
		if (row)
			return row;
		if (source->ops->at_hand_backward == NULL && scan_begin_stretch(scan, source, false))
		{
			ROSE_STOP_POINT("scan-back-stretch");
			*in_stretch = true;
			return NULL;
		}
		scan_begin_group(scan, source->row->key);
		row = scan_resolve_backward(scan, source);
		if (row)
			return row;
	}
}

/* ---- interface ---- */

/* At an end, only the other direction gives rows.  Not known before a stretch was left. */
static bool
scan_at_end(const RoseScan *scan, bool forward)
{
	return scan->place == (forward ? SCAN_AFTER_LAST : SCAN_BEFORE_FIRST);
}

/* Leave a stretch, and the sources, if the direction changes. */
static void
scan_turn(RoseScan *scan, bool forward)
{
	if (!scan->positioned || ScanDirectionIsForward(scan->direction) == forward)
		return;
	if (rose_stretch_is_open(&scan->output.stretch))
		scan_leave_stretch(scan);
	if (scan->output.back_source != NULL)
		(void) scan_leave_backward(scan);
	scan->positioned = false;
}

const RoseRow *
rose_scan_next_keyed(RoseScan *scan, ScanDirection direction)
{
	bool		forward = !ScanDirectionIsBackward(direction);
	const RoseRow *row;
	bool		in_stretch;

	scan_turn(scan, forward);
	if (scan_at_end(scan, forward))
		return NULL;
	if (rose_stretch_has_row(&scan->output.stretch))
		return rose_stretch_next_row(&scan->output);
	row = forward ? scan_next_forward(scan, false, &in_stretch) :
		scan_next_backward(scan, &in_stretch);
	return in_stretch ? rose_stretch_next_row(&scan->output) : row;
}

const RoseRow *
rose_scan_next(RoseScan *scan, ScanDirection direction)
{
	const RoseRow *row = rose_scan_next_keyed(scan, direction);

	if (row != NULL && rose_stretch_is_open(&scan->output.stretch))
		rose_source_need_version(scan->output.source);
	else if (row != NULL && scan->output.back_source != NULL)
		rose_source_need_version(scan->output.back_source);
	return row;
}

RoseStretch *
rose_scan_stretch(RoseScan *scan)
{
	return &scan->output.stretch;
}

bool
rose_scan_next_piece(RoseScan *scan)
{
	return rose_weave_next(&scan->output);
}

const RoseRow *
rose_scan_next_stretch(RoseScan *scan, ScanDirection direction)
{
	bool		forward = !ScanDirectionIsBackward(direction);
	bool		in_stretch;

	Assert(!rose_stretch_has_row(&scan->output.stretch));
	scan_turn(scan, forward);
	if (scan_at_end(scan, forward))
		return NULL;
	return forward ? scan_next_forward(scan, true, &in_stretch) :
		scan_next_backward(scan, &in_stretch);
}

void
rose_scan_tid(RoseScan *scan, ItemPointer tid)
{
	if (rose_stretch_is_open(&scan->output.stretch))
		rose_stretch_tid(&scan->output.stretch, scan->output.stretch.next - 1, tid);
	else if (scan->output.back_source != NULL)
		rose_stretch_tid(&scan->output.back, scan->output.back.next, tid);
	else if (scan->row_from_lookup)
		rose_lookup_tid(scan->lookup, tid);
	else
		rose_tid_name(scan->tree, scan->row_in_component ? &scan->row_entry : NULL,
					  &scan->row, scan->snapshot, tid);
}
