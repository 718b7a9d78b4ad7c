/*-------------------------------------------------------------------------
 *
 * rose_batch.c
 *	  Rows of a table for who takes many of them, column by column.  See rose_batch.h.
 *
 * Which rows the snapshot sees is not asked here: a scan (rose_scan.h) says it, or, where
 * order is free and the table is in memory, a scan by arrival (rose_arrival.h).  What they
 * pass on as stretches is passed on as batches, without looking at its rows: a leaf, or the
 * rows of a memtable that were copied together.  Short stretches and single rows are
 * gathered (rose_gather.h), so that not each of them is a batch.
 *
 * A scan stays where it is while its caller works at a batch: what rows in place it has are
 * there until it is called again.  Gathered rows are held.
 *
 * Ranges of keys are scanned one after the other.  In a parallel query each interval that this process gets
 * has parts of some of them; both come in the order of keys, so they are gone through once.
 *
 * Backend-local.  Locks are those that scans take, and predicate locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "codec/rose_kernels.h"
#include "lsm/component/rose_leaf.h"
#include "lsm/read/rose_arrival.h"
#include "lsm/read/rose_batch.h"
#include "lsm/read/rose_count.h"
#include "lsm/read/rose_gather.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/read/rose_scan.h"

typedef enum BatchesPlace
{
	BATCHES_START,				/* no range was entered yet */
	BATCHES_IN_RANGE,
	BATCHES_END
} BatchesPlace;

struct RoseBatches
{
	RoseTree   *tree;
	Snapshot	snapshot;
	MemoryContext context;
	RoseBatchRequest request;
	const RoseKeyQuals *keys;	/* NULL: all rows */

	BatchesPlace place;
	uint64		next_range;		/* number of the range to look at next */
	RoseKeyRange range;			/* at hand */
	bool		in_interval;	/* parallel: there is one at hand */
	RoseKeyRange interval;
	uint64		first_range;	/* parallel: ranges before this one are done with */
	RoseScan   *scan;			/* NULL until it is needed */
	RoseArrival *arrival;		/* in place of it; or NULL */
	uint64		left_at;		/* of the scan, rows with smaller sequence numbers were given out; 0: none were */

	RoseGather *gather;
	uint64	   *include;		/* room for masks */
	RoseLeaf   *unread;			/* of the last batch, if it was not read when that was given out; or NULL */
	RoseBatchCounts counts;
};

/* ---- life ---- */

RoseBatches *
rose_batches_begin(RoseTree *tree, Snapshot snapshot, const RoseBatchRequest *request)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose batches",
												  ALLOCSET_DEFAULT_SIZES);
	RoseBatches *batches = MemoryContextAllocZero(context, sizeof(RoseBatches));

	Assert(IsMVCCSnapshot(snapshot));
	batches->tree = tree;
	batches->snapshot = snapshot;
	batches->context = context;
	batches->request = *request;
	batches->keys = request->keys;
	batches->gather = rose_gather_create(tree->schema, request->named, context);
	return batches;
}

static void
stop_arrival(RoseBatches *batches)
{
	if (batches->arrival != NULL)
		rose_arrival_end(batches->arrival);
	batches->arrival = NULL;
}

/* The batch at hand is not used any more. */
static void
let_go(RoseBatches *batches)
{
	rose_gather_reset(batches->gather);
	if (batches->unread != NULL && batches->unread->pending)
		batches->counts.unread_leaves++;
	batches->unread = NULL;
}

void
rose_batches_rescan(RoseBatches *batches, const RoseKeyQuals *keys, RoseIntervals *intervals)
{
	let_go(batches);
	stop_arrival(batches);
	batches->keys = keys;
	batches->request.intervals = intervals;
	batches->place = BATCHES_START;
	batches->next_range = batches->first_range = 0;
	batches->in_interval = false;
	batches->left_at = 0;
}

void
rose_batches_end(RoseBatches *batches)
{
	let_go(batches);
	stop_arrival(batches);
	if (batches->scan != NULL)
		rose_scan_end(batches->scan);
	MemoryContextDelete(batches->context);
}

const RoseBatchCounts *
rose_batches_counts(const RoseBatches *batches)
{
	return &batches->counts;
}

/* ---- ranges ---- */

static void
start_scan(RoseBatches *batches, const RoseKeyRange *range)
{
	MemoryContext old;

	if (batches->scan != NULL)
	{
		rose_scan_reset(batches->scan, range);
		return;
	}
	old = MemoryContextSwitchTo(batches->context);
	batches->scan = rose_scan_begin(batches->tree, batches->snapshot, range, batches->request.bulk);
	MemoryContextSwitchTo(old);
}

/* All rows. */
static void
enter_whole(RoseBatches *batches)
{
	MemoryContext old = MemoryContextSwitchTo(batches->context);

	PredicateLockRelation(batches->tree->rel, batches->snapshot);
	if (!batches->request.ordered)
		batches->arrival = rose_arrival_begin(batches->tree, batches->snapshot);
	MemoryContextSwitchTo(old);
	if (batches->arrival == NULL)
		start_scan(batches, NULL);
}

static uint64
count_ranges(const RoseBatches *batches)
{
	return batches->keys == NULL ? 1 : rose_key_quals_nranges(batches->keys);
}

static void
get_range(const RoseBatches *batches, uint64 number, RoseKeyRange *range)
{
	if (batches->keys != NULL)
		rose_key_quals_range(batches->keys, number, range);
	else
		memset(range, 0, sizeof(*range));
}

/* The range at hand, or a part of the whole table. */
static void
enter_range(RoseBatches *batches)
{
	if (batches->keys == NULL)
		PredicateLockRelation(batches->tree->rel, batches->snapshot);
	else
		rose_predicate_lock_range(batches->tree, &batches->range, batches->snapshot);
	start_scan(batches, &batches->range);
}

/* All of the next range. */
static bool
enter_next_range(RoseBatches *batches)
{
	if (batches->next_range >= count_ranges(batches))
		return false;
	if (batches->keys == NULL)
		enter_whole(batches);
	else
	{
		get_range(batches, batches->next_range, &batches->range);
		enter_range(batches);
	}
	batches->next_range++;
	return true;
}

/* The next part of a range that is in the interval at hand; false: there is none. */
static bool
enter_part(RoseBatches *batches)
{
	while (batches->next_range < count_ranges(batches))
	{
		get_range(batches, batches->next_range, &batches->range);
		switch (rose_interval_cut(batches->tree->schema, &batches->interval, &batches->range))
		{
			case ROSE_CUT_BEFORE:
				batches->first_range = ++batches->next_range;
				break;
			case ROSE_CUT_INSIDE:
				batches->first_range = batches->next_range++;	/* it may go on in the next interval */
				enter_range(batches);
				return true;
			case ROSE_CUT_BEHIND:
				return false;
		}
	}
	return false;
}

/* The same in this interval, or in the next one that this process gets. */
static bool
enter_next_part(RoseBatches *batches)
{
	for (;;)
	{
		if (batches->in_interval && enter_part(batches))
			return true;
		CHECK_FOR_INTERRUPTS();
		ROSE_STOP_POINT("batches-interval");
		batches->in_interval = batches->first_range < count_ranges(batches) &&
			rose_interval_next(batches->request.intervals, &batches->interval);
		if (!batches->in_interval)
			return false;
		batches->next_range = batches->first_range;
	}
}

/* Go to the next range; false: there is none. */
static bool
next_range(RoseBatches *batches)
{
	bool		found = false;

	CHECK_FOR_INTERRUPTS();
	if (batches->place != BATCHES_END)
		found = batches->request.intervals != NULL ? enter_next_part(batches) :
			enter_next_range(batches);
	batches->place = found ? BATCHES_IN_RANGE : BATCHES_END;
	return found;
}

/* ---- what a scan has next ---- */

/* All of a stretch as a batch. */
static void
give_stretch(RoseBatches *batches, RoseStretch *stretch, RoseBatch *batch)
{
	batch->nrows = stretch->end - stretch->next;
	batch->rows = stretch->rows;
	batch->first = stretch->next;
	batch->first_tid = stretch->first_tid;
	stretch->next = stretch->end;
	if (batch->rows->seqs != NULL)
		batches->counts.memory++;
	else
	{
		batches->counts.leaves++;
		batches->unread = ((RoseLeaf *) batch->rows)->pending ? (RoseLeaf *) batch->rows : NULL;
	}
}

/* What was gathered as a batch; false: nothing was. */
static bool
give_gathered(RoseBatches *batches, RoseBatch *batch)
{
	batch->nrows = rose_gather_count(batches->gather);
	batch->rows = NULL;
	return batch->nrows > 0;
}

/*
 * Is a stretch a batch by itself?  One that is all of its rows in place is, however short: they may
 * be those of a leaf that was not read yet, and holding it would have it read.
 */
static bool
is_long(const RoseStretch *stretch)
{
	int			n = stretch->end - stretch->next;

	return n >= ROSE_GATHER_LONG || n == stretch->rows->nrows;
}

static void
gather_stretch(RoseBatches *batches, RoseStretch *stretch)
{
	int			n = stretch->end - stretch->next;

	rose_gather_add_rows(batches->gather, stretch->rows, stretch->next, n, stretch->first_tid);
	stretch->next = stretch->end;
	batches->counts.woven += n;
}

static void
gather_row(RoseBatches *batches, const RoseRow *row)
{
	ItemPointerData tid;

	if (batches->request.named)
		rose_scan_tid(batches->scan, &tid);
	rose_gather_add_row(batches->gather, row, &tid);
	batches->counts.single++;
}

/* The next batch of a scan in the order of keys; false: the range is at its end. */
static bool
next_of_scan(RoseBatches *batches, RoseBatch *batch)
{
	RoseScan   *scan = batches->scan;
	RoseStretch *stretch = rose_scan_stretch(scan);

	while (!rose_gather_is_full(batches->gather))
	{
		if (!rose_stretch_has_row(stretch) && !rose_scan_next_piece(scan))
		{
			const RoseRow *row = rose_scan_next_stretch(scan, ForwardScanDirection);

			if (row != NULL)
			{
				gather_row(batches, row);
				continue;
			}
			if (!rose_stretch_has_row(stretch))
				break;
		}
		if (!is_long(stretch))
			gather_stretch(batches, stretch);
		else if (rose_gather_count(batches->gather) == 0)
		{
			give_stretch(batches, stretch, batch);
			return true;
		}
		else
			break;				/* it is there at the next call */
	}
	return give_gathered(batches, batch);
}

/* The same of what was not given out in the order of arrival. */
static bool
next_of_left(RoseBatches *batches, RoseBatch *batch)
{
	while (!rose_gather_is_full(batches->gather))
	{
		const RoseRow *row = rose_scan_next(batches->scan, ForwardScanDirection);

		if (row == NULL)
			break;
		if (row->version.seq >= batches->left_at)
			gather_row(batches, row);
	}
	return give_gathered(batches, batch);
}

static bool
next_of_arrivals(RoseBatches *batches, RoseBatch *batch)
{
	switch (rose_arrival_next(batches->arrival))
	{
		case ROSE_ARRIVAL_ROWS:
			give_stretch(batches, rose_arrival_stretch(batches->arrival), batch);
			return true;
		case ROSE_ARRIVAL_END:
			return false;
		case ROSE_ARRIVAL_LEFT:
			break;
	}
	batches->left_at = rose_arrival_next_seq(batches->arrival);
	stop_arrival(batches);
	start_scan(batches, NULL);
	return next_of_left(batches, batch);
}

/* The next batch of the range at hand. */
static bool
next_in_range(RoseBatches *batches, RoseBatch *batch)
{
	if (batches->place != BATCHES_IN_RANGE)
		return false;
	if (batches->arrival != NULL)
		return next_of_arrivals(batches, batch);
	return batches->left_at > 0 ? next_of_left(batches, batch) : next_of_scan(batches, batch);
}

/* ---- conditions that ranges do not say ---- */

static void
key_of_row(const RoseBatch *batch, int row, Datum *key)
{
	RoseRows   *rows = batch->rows;
	int			slot = batch->first + row;

	if (rows == NULL)
	{
		rose_gather_key(batch->owner->gather, row, key);
		return;
	}
	if (!rose_rows_in_window(rows, slot))
		rows->ops->ahead(rows, slot);
	rows->ops->key(rows, slot, key);
}

/* Leave out rows that do not meet them; false: none does. */
static bool
check_rows(RoseBatches *batches, RoseBatch *batch)
{
	Datum		key[INDEX_MAX_KEYS];

	if (batches->include == NULL)
		batches->include = MemoryContextAlloc(batches->context,
											  (ROSE_BATCH_MAX_ROWS + 63) / 64 * sizeof(uint64));
	memset(batches->include, 0, (batch->nrows + 63) / 64 * sizeof(uint64));
	batch->nincluded = 0;
	for (int i = 0; i < batch->nrows; i++)
	{
		key_of_row(batch, i, key);
		if (!rose_key_quals_match(batches->keys, key))
			continue;
		batches->include[i / 64] |= UINT64CONST(1) << (i % 64);
		batch->nincluded++;
	}
	if (batch->nincluded < batch->nrows)
		batch->include = batches->include;
	return batch->nincluded > 0;
}

/* ---- interface ---- */

bool
rose_batches_next(RoseBatches *batches, RoseBatch *batch)
{
	bool		check = batches->keys != NULL && rose_key_quals_has_checks(batches->keys);

	for (;;)
	{
		let_go(batches);
		ROSE_STOP_POINT("batches-next");
		if (!next_in_range(batches, batch))
		{
			if (!next_range(batches))
				return false;
			continue;
		}
		Assert(batch->nrows > 0 && batch->nrows <= ROSE_BATCH_MAX_ROWS);
		batch->owner = batches;
		batch->nincluded = batch->nrows;
		batch->include = NULL;
		if (!check || check_rows(batches, batch))
			return true;
	}
}

bool
rose_batches_count(RoseBatches *batches, uint64 *rows)
{
	MemoryContext old;
	bool		counted;

	Assert(batches->place == BATCHES_START);
	if (batches->keys != NULL || batches->request.intervals != NULL)
		return false;
	old = MemoryContextSwitchTo(batches->context);
	PredicateLockRelation(batches->tree->rel, batches->snapshot);
	counted = rose_count_settled(batches->tree, batches->snapshot, rows);
	MemoryContextSwitchTo(old);
	if (counted)
		batches->place = BATCHES_END;
	return counted;
}

static inline bool
has_null(const bool *nulls, int n)
{
	return memchr(nulls, true, n) != NULL;
}

bool
rose_batch_datums(RoseBatch *batch, AttrNumber attno, int first, int n, Datum *values, bool *nulls)
{
	RoseRows   *rows = batch->rows;
	const Bitmapset *also = batch->owner->request.columns;

	Assert(first >= 0 && n > 0 && first + n <= batch->nrows);
	if (rows != NULL)
		rows->ops->decode(rows, attno, batch->first + first, n, also, values, nulls);
	else
		rose_gather_decode(batch->owner->gather, attno, first, n, also, values, nulls);
	return has_null(nulls, n);
}

bool
rose_batch_words(RoseBatch *batch, AttrNumber attno, int first, int n, int64 *words, bool *nulls)
{
	const RoseTupleColumn *column = &batch->owner->tree->schema->tuple_columns[attno - 1];
	bool		result = rose_batch_datums(batch, attno, first, n, (Datum *) words, nulls);

	Assert(column->attbyval);
	if (column->attlen < (int) sizeof(int64))
		rose_kernel_extend_signs((const Datum *) words, n, 64 - 8 * column->attlen, words);
	return result;
}

int
rose_batch_runs(RoseBatch *batch, AttrNumber attno, int first, int n, int max_runs, int64 *values,
				uint16 *starts)
{
	RoseRows   *rows = batch->rows;

	Assert(first >= 0 && n > 0 && first + n <= batch->nrows);
	if (rows == NULL || rows->ops->runs == NULL)
		return 0;
	return rows->ops->runs(rows, attno, batch->first + first, n, max_runs, values, starts);
}

bool
rose_batch_extremes(RoseBatch *batch, AttrNumber attno, int first, int n, int64 *min, int64 *max)
{
	RoseRows   *rows = batch->rows;

	Assert(first >= 0 && n > 0 && first + n <= batch->nrows);
	if (rows == NULL || rows->ops->extremes == NULL)
		return false;
	return rows->ops->extremes(rows, attno, batch->first + first, n, min, max);
}

const Datum *
rose_batch_codes(RoseBatch *batch, AttrNumber attno, int first, int n, uint16 *codes, int *nentries)
{
	RoseRows   *rows = batch->rows;

	Assert(first >= 0 && n > 0 && first + n <= batch->nrows);
	if (rows == NULL || rows->ops->codes == NULL)
		return NULL;
	return rows->ops->codes(rows, attno, batch->first + first, n, codes, nentries);
}

void
rose_batch_pick(RoseBatch *batch, AttrNumber attno, const uint16 *rows, int n, Datum *values,
				bool *nulls)
{
	if (batch->rows != NULL)
		batch->rows->ops->pick(batch->rows, attno, batch->first, rows, n, values, nulls);
	else
		for (int i = 0; i < n; i++)
			values[i] = rose_gather_value(batch->owner->gather, attno, rows[i], &nulls[i]);
}

Datum
rose_batch_value(RoseBatch *batch, AttrNumber attno, int row, bool *isnull)
{
	Assert(row >= 0 && row < batch->nrows);
	if (batch->rows != NULL)
		return batch->rows->ops->attr(batch->rows, batch->first + row, attno, isnull);
	return rose_gather_value(batch->owner->gather, attno, row, isnull);
}

void
rose_batch_tid(RoseBatch *batch, int row, ItemPointer tid)
{
	RoseStretch stretch;

	Assert(row >= 0 && row < batch->nrows);
	if (batch->rows == NULL)
	{
		rose_gather_tid(batch->owner->gather, row, tid);
		return;
	}
	stretch.rows = batch->rows;
	stretch.first_tid = batch->first_tid;
	rose_stretch_tid(&stretch, batch->first + row, tid);
}

void
rose_batch_version(RoseBatch *batch, int row, RoseVersion *version)
{
	Assert(row >= 0 && row < batch->nrows);
	if (batch->rows != NULL)
		batch->rows->ops->version(batch->rows, batch->first + row, version);
	else
		rose_gather_version(batch->owner->gather, row, version);
}
