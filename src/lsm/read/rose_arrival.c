/*-------------------------------------------------------------------------
 *
 * rose_arrival.c
 *	  Reading all rows of a table that is in memory, in the order in which they came.
 *
 * The view must be one memtable, and no component: then the newest version of a key that
 * the snapshot sees is there, and if it is a row it is a result.  Entries are met by their
 * numbers, with the sequence index.  Each says whether one may be there that is newer
 * (ROSE_ENTRY_PRECEDED); only then the list is looked at.  A version that has a newer one which
 * every snapshot sees, now and later, is marked, and no scan by arrival meets it again.
 *
 * What is left out: a snapshot that sees whatever there is (only MVCC ones stay what they are, so that a
 * number parts what was given out from what was not); SERIALIZABLE transactions, which
 * have to hear of what they do not see; statements that use ctids; tables without key,
 * whose order is that of arrival anyway.
 *
 * When the memtable goes under the scan, or a version is met that does not stand for a
 * row by itself, a RoseScan finds the rest.  It sees the same version of each key, since
 * the snapshot is the same; and that has its number still, wherever it is now: nothing is
 * forgotten that was in memory after the transaction's pin (lsm/merge/README.md).  So rows with smaller
 * numbers than the next one here are those that were given out.
 *
 * Backend-local; the memtable is read in sections of C0, a batch at a time, and between
 * them nothing is kept of it but a number.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/predicate.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/read/rose_arrival.h"
#include "lsm/read/rose_source.h"
#include "lsm/read/rose_tid.h"

/* What is smaller is in the processor's caches, whatever the order. */
#define ARRIVAL_MIN_BYTES ((uint64) 8 * 1024 * 1024)

struct RoseArrival
{
	RoseVisibility vis;
	RoseKeyRange range;			/* all */
	RoseReading reading;
	RoseSource *source;
	bool		started;		/* the source was positioned */
	RoseStretch stretch;
};

/* The slot of a view's only memtable, if there is nothing else; or -1. */
static int
find_only_memtable(const RoseView *view)
{
	int			only = -1;

	if (view->manifest.ncomponents > 0)
		return -1;
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		if (view->memtables[slot] == 0)
			continue;
		if (only >= 0)
			return -1;
		only = slot;
	}
	return only;
}

static bool
is_worth_it(const RoseTree *tree)
{
	return tree->schema->nkeys > 0 &&
		(rose_c0_bytes(&tree->shared->c0) >= ARRIVAL_MIN_BYTES || ROSE_STOP_POINT_SKIPS("arrival-small"));
}

RoseArrival *
rose_arrival_begin(RoseTree *tree, Snapshot snapshot)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseArrival *arrival;
	MemoryContext context;
	FullTransactionId everyone;
	int			slot;

	if (!is_worth_it(tree) || snapshot->snapshot_type != SNAPSHOT_MVCC || rose_tid_exact ||
		CheckForSerializableConflictOutNeeded(tree->rel, snapshot))
		return NULL;

	context = AllocSetContextCreate(CurrentMemoryContext, "rose scan by arrival", ALLOCSET_DEFAULT_SIZES);
	arrival = MemoryContextAllocZero(context, sizeof(RoseArrival));
	rose_visibility_init(&arrival->vis, snapshot);
	rose_copied_require(tree, &arrival->vis);
	arrival->reading.tree = tree;
	arrival->reading.vis = &arrival->vis;
	arrival->reading.range = &arrival->range;
	arrival->reading.context = context;

	everyone = FullTransactionIdFromU64(rose_horizon_oldest(tree->rel));
	rose_c0_read_begin(c0);
	arrival->reading.view = rose_view_take(tree);
	slot = find_only_memtable(arrival->reading.view);
	if (slot >= 0)
		arrival->source = rose_source_open_arrivals(&arrival->reading, slot, everyone);
	rose_c0_read_end(c0);
	if (slot >= 0)
		return arrival;
	rose_arrival_end(arrival);
	return NULL;
}

RoseStretch *
rose_arrival_stretch(RoseArrival *arrival)
{
	return &arrival->stretch;
}

RoseArrivalState
rose_arrival_next(RoseArrival *arrival)
{
	RoseSource *source = arrival->source;
	int			next = arrival->stretch.next;

	Assert(!rose_stretch_has_row(&arrival->stretch));
	ROSE_STOP_POINT("arrival-batch");
	rose_snapshot_pass();
	memset(&arrival->stretch, 0, sizeof(RoseStretch));
	if (!arrival->started)
		source->ops->position(source, ForwardScanDirection, NULL, 0, true);
	else if (source->state == ROSE_SOURCE_ROW)
		source->ops->go_to(source, next);
	arrival->started = true;
	switch (source->state)
	{
		case ROSE_SOURCE_END:
			return ROSE_ARRIVAL_END;
		case ROSE_SOURCE_GONE:
			return ROSE_ARRIVAL_LEFT;
		case ROSE_SOURCE_ROW:
			break;
	}
	if (!source->ops->at_hand(source, NULL, &arrival->stretch))
		elog(ERROR, "rows of table \"%s\" are not at hand",
			 RelationGetRelationName(arrival->reading.tree->rel));
	return ROSE_ARRIVAL_ROWS;
}

uint64
rose_arrival_next_seq(const RoseArrival *arrival)
{
	return rose_source_next_arrival(arrival->source);
}

void
rose_arrival_end(RoseArrival *arrival)
{
	if (arrival->source != NULL)
		arrival->source->ops->close(arrival->source);
	rose_view_release(arrival->reading.view);
	MemoryContextDelete(arrival->reading.context);
}
