/*-------------------------------------------------------------------------
 *
 * rose_source_memtable.c
 *	  A memtable as a source of a scan.  See rose_source.h.
 *
 * Rows come in batches (rose_mem_batch.c), which grow.  From what is asked of a batch's
 * rows the source learns what to copy for the next one.
 *
 * Locking: a reading section of C0 while a batch is filled.  What is kept in between is
 * the memtable's id, by which a memtable that was freed is noticed, and the cursor.  Where
 * entries go from a memtable (rose_recycle.c), so may the one under the cursor: then there
 * is a copy of it, by which its place is found again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_mem_batch.h"
#include "lsm/read/rose_source.h"

/* Rows of a memtable with so many bytes are not put off, lest they be fetched by the hundred. */
#define LARGE_ROW	1024

/* After so many batches of which less was asked, what was asked before does not count any more. */
#define FORGET_AFTER	3

#define WHOLE_ROWS	PG_INT32_MAX

typedef struct MemtableSource
{
	RoseSource	base;
	RoseMemCursor mem;
	RoseMemBatch *batch;
	RoseMemBatch *spare;		/* the one before, which somebody kept; or NULL */
	ScanDirection direction;
	bool		by_arrival;		/* rows come in the order of their numbers ... */
	bool		unknown;		/* ... and the next one is not to be had so */
	uint64		next_seq;		/* ... from this one on */
	FullTransactionId everyone; /* see RoseMemArrivals */
	char	   *place;			/* copy of the entry under the cursor, if there is one */
	Size		place_size;		/* bytes there is room for */
	bool		has_place;
	int			next;			/* row of the batch to return next */
	bool		filled;			/* a batch before this one */
	bool		large;			/* rows of the last batch were large */
	int			asked;			/* so many first columns of rows were asked for of late, or WHOLE_ROWS */
	int			asked_less;		/* batches since then of which fewer were asked */
} MemtableSource;

/* ---- batches ---- */

/*
 * Learn from the batch at hand how many columns are wanted.  One row in many may need
 * more than others: an aggregate copies the whole of the first one that it gets.
 */
static void
learn_columns(MemtableSource *source)
{
	const RoseMemBatch *batch = source->batch;
	int			asked = batch->wanted ? WHOLE_ROWS : Max(batch->asked, batch->columns);

	if (asked < source->asked && ++source->asked_less < FORGET_AFTER)
		return;
	source->asked = asked;
	source->asked_less = 0;
}

/*
 * A batch to fill.  Whoever keeps the present one, say a slot with its last row, has
 * usually let go of it by the time the next one is full, so two take turns.
 */
static void
start_batch(MemtableSource *source)
{
	RoseMemBatch *kept = source->batch;
	Size		longest;

	source->filled |= kept->rows.nrows > 0;
	longest = kept->longest;
	source->large = longest > LARGE_ROW;
	learn_columns(source);
	if (kept->rows.refcount > 1)
	{
		source->batch = source->spare;
		source->spare = kept;
		if (source->batch != NULL && source->batch->rows.refcount > 1)
		{
			rose_mem_batch_abandon(source->batch);
			source->batch = NULL;
		}
		if (source->batch == NULL)
			source->batch = rose_mem_batch_create(source->base.reading->tree,
												  source->base.reading->context);
		source->batch->limit = kept->limit;
	}
	rose_mem_batch_start(source->batch);
	source->batch->longest_before = longest;
	source->next = 0;
}

/*
 * Columns of the next batch: what nobody asked for in those before is not likely to be
 * wanted.  Rows may be left where they are only if nobody takes them out: only an MVCC
 * snapshot never sees what others may still supersede.
 */
static int
columns_to_fill(const MemtableSource *source)
{
	if (!source->base.seen || !source->filled || source->large ||
		source->base.reading->vis->kind != ROSE_SNAPSHOT_MVCC ||
		source->asked > source->base.reading->tree->schema->nfixed_byval)
		return ROSE_MEM_BATCH_ALL;
	return source->asked;
}

/* What position is told; NULL: go on where the cursor is. */
typedef struct MemtableBound
{
	const Datum *key;
	int			ncols;
	bool		inclusive;
} MemtableBound;

/* What to find the place of the cursor by, in the next section.  REQUIRES a reading section. */
static void
keep_place(MemtableSource *source)
{
	const void *image;
	Size		size;

	source->has_place = source->mem.current != 0 && rose_mem_cursor_may_fall(&source->mem);
	if (!source->has_place)
		return;
	image = rose_memtable_image(source->mem.current, &size);
	if (size > source->place_size)
	{
		if (source->place != NULL)
			pfree(source->place);
		source->place = NULL;
		source->place_size = 0;
		source->place = MemoryContextAllocHuge(source->base.reading->context, size * 2);
		source->place_size = size * 2;
	}
	memcpy(source->place, image, size);
}

/*
 * May the cursor go on where it is?  False: its place is lost, as that of a memtable that
 * is gone.  REQUIRES a reading section.
 */
static bool
find_place(MemtableSource *source, bool forward)
{
	if (rose_mem_cursor_stands(&source->mem))
		return true;
	if (!source->has_place)
		return false;
	(void) rose_mem_cursor_seek_image(&source->mem, source->place, forward);
	return true;
}

/* Put the cursor where a scan begins.  REQUIRES a reading section. */
static bool
place_cursor(MemtableSource *source, ScanDirection direction, const MemtableBound *bound)
{
	RoseMemCursor *cursor = &source->mem;
	int			ncols;

	if (bound == NULL)
		return cursor->current != 0;
	ncols = bound->ncols;
	if (!ScanDirectionIsForward(direction))
		return ncols == 0 ? rose_mem_cursor_last(cursor) :
			rose_mem_cursor_seek_last(cursor, bound->key, ncols, bound->inclusive);
	if (ncols == 0)
		return rose_mem_cursor_first(cursor);
	if (bound->inclusive)
		return rose_mem_cursor_seek(cursor, bound->key, ncols, PG_UINT64_MAX);
	if (ncols == rose_schema_key_width(cursor->schema))
		return rose_mem_cursor_seek(cursor, bound->key, ncols, 0);
	if (rose_mem_cursor_seek_last(cursor, bound->key, ncols, true))
		return rose_mem_cursor_next(cursor);
	return rose_mem_cursor_first(cursor);
}

/* The next batch; false: the memtable is gone, or as good as that, or does not say what the next row is. */
static bool
fill_batch(MemtableSource *source, ScanDirection direction, const MemtableBound *bound)
{
	RoseC0Shared *c0 = source->mem.c0;
	bool		forward = ScanDirectionIsForward(direction);
	bool		alive;

	CHECK_FOR_INTERRUPTS();
	start_batch(source);
	rose_c0_read_begin(c0);
	alive = rose_mem_cursor_alive(&source->mem) && !source->unknown &&
		(bound != NULL || source->by_arrival || find_place(source, forward));
	if (alive && source->by_arrival)
		source->unknown = !rose_mem_batch_fill_arrivals(source->batch, &source->mem,
														source->base.reading->vis, &source->next_seq,
														source->everyone, columns_to_fill(source));
	else if (alive)
	{
		rose_mem_batch_fill(source->batch, &source->mem, source->base.reading->vis, forward,
							source->base.seen, columns_to_fill(source),
							place_cursor(source, direction, bound));
		keep_place(source);
	}
	rose_c0_read_end(c0);
	if (!alive)
	{
		source->base.state = ROSE_SOURCE_GONE;
		source->base.row = NULL;
	}
	return alive;
}

/* ---- rows ---- */

static void
next_of_batch(MemtableSource *source)
{
	RoseMemBatch *batch = source->batch;

	if (source->next >= batch->rows.nrows)
	{
		source->base.row = NULL;
		source->base.state = ROSE_SOURCE_END;
		return;
	}
	source->base.state = ROSE_SOURCE_ROW;
	source->base.prefix = batch->prefixes[source->next];
	source->base.row = rose_mem_batch_row(batch, source->next++);
}

static void
memtable_advance(RoseSource *base, ScanDirection direction)
{
	MemtableSource *source = (MemtableSource *) base;

	/* many entries in a row that the snapshot does not see give empty batches */
	while (source->next >= source->batch->rows.nrows && !source->batch->at_end)
		if (!fill_batch(source, direction, NULL))
			return;
	next_of_batch(source);
}

static void
memtable_position(RoseSource *base, ScanDirection direction, const Datum *key, int ncols,
				  bool inclusive)
{
	MemtableBound bound = {key, ncols, inclusive};

	((MemtableSource *) base)->direction = direction;
	if (fill_batch((MemtableSource *) base, direction, &bound))
		memtable_advance(base, direction);
}

static const RoseRow *
memtable_take(RoseSource *base, int slot)
{
	return rose_mem_batch_row(((MemtableSource *) base)->batch, slot);
}

static void
memtable_go_to(RoseSource *base, int slot)
{
	((MemtableSource *) base)->next = slot;
	memtable_advance(base, ((MemtableSource *) base)->direction);
}

/*
 * Where whole rows of the batch end that are the newest of their keys, from a slot on.  Of
 * the last row's key more may follow in the next batch: older ones, or newer ones backward.
 */
static int
end_of_whole_rows(const RoseMemBatch *batch, int first)
{
	int			end = batch->rows.nrows;

	if (!batch->forward && !batch->at_end)
		end--;
	if (batch->only_puts)
		return end;
	for (int i = first; i < end; i++)
		if (batch->ops[i] != ROSE_OP_PUT ||
			(!batch->forward && i + 1 < batch->rows.nrows && batch->ops[i + 1] == ROSE_OP_PARTIAL))
			return i;
	return end;
}

/*
 * The batch has nothing but what the snapshot sees, and of each key only the newest
 * version, if that is a whole row or a tombstone.  Its rows lie in the order of the scan,
 * which may be a backward one.
 */
static bool
memtable_at_hand(RoseSource *base, const RoseSource *rival, RoseStretch *stretch)
{
	MemtableSource *source = (MemtableSource *) base;
	const RoseKeyRange *range = base->reading->range;
	RoseMemBatch *batch = source->batch;
	const Datum *bound = batch->forward ? range->upper : range->lower;
	int			ncols = batch->forward ? range->nupper : range->nlower;
	bool		inclusive = batch->forward ? range->upper_inclusive : range->lower_inclusive;
	int			first = source->next - 1;
	int			nrows = batch->rows.nrows;
	int			range_end = nrows;
	int			end;

	if (!base->seen)
		return false;
	end = end_of_whole_rows(batch, first);
	/* mostly the last row, which is there, is in the range: no other is looked at */
	if (ncols > 0 && rose_mem_batch_find(batch, nrows - 1, bound, ncols, NULL, inclusive) < nrows)
		range_end = rose_mem_batch_find(batch, first, bound, ncols, NULL, inclusive);
	end = Min(end, range_end);
	if (rival != NULL && first < end)
		end = Min(end, rose_mem_batch_find(batch, first, rival->row->key,
										   rose_schema_key_width(batch->rows.schema),
										   &rival->prefix, false));
	if (first >= end)
		return false;
	stretch->rows = &batch->rows;
	stretch->next = first;
	stretch->end = end;
	stretch->last = range_end < nrows && end == range_end;
	stretch->first_tid = rose_tid_memory_salt(base->reading->tree, batch->min_seq, batch->max_seq);
	return true;
}

/* Of a range there may be so few rows that to make a batch for them is a good part of it. */
static bool
reads_range(const RoseReading *reading)
{
	return reading->range != NULL && reading->range->nlower + reading->range->nupper > 0;
}

static void
memtable_close(RoseSource *base)
{
	MemtableSource *source = (MemtableSource *) base;

	if (reads_range(base->reading) && rose_mem_batch_renew(source->batch))
		rose_lookup_cache_give_rows(base->reading->tree, &source->batch->rows);
	else
		rose_mem_batch_abandon(source->batch);
	rose_mem_batch_abandon(source->spare);
}

static const RoseSourceOps memtable_ops = {
	.position = memtable_position,
	.advance = memtable_advance,
	.at_hand = memtable_at_hand,
	.take = memtable_take,
	.go_to = memtable_go_to,
	.close = memtable_close
};

RoseSource *
rose_source_open_memtable(const RoseReading *reading, int slot, bool filter)
{
	RoseTree   *tree = reading->tree;
	MemtableSource *source = MemoryContextAllocZero(reading->context, sizeof(MemtableSource));

	source->base.ops = &memtable_ops;
	source->base.reading = reading;
	source->base.seen = filter;
	rose_mem_cursor_open(&source->mem, &tree->shared->c0, tree->schema, slot);
	if (reads_range(reading))
		source->batch = (RoseMemBatch *) rose_lookup_cache_take_rows(tree, reading->context);
	if (source->batch == NULL)
		source->batch = rose_mem_batch_create(tree, reading->context);
	return &source->base;
}

RoseSource *
rose_source_open_arrivals(const RoseReading *reading, int slot, FullTransactionId everyone)
{
	MemtableSource *source = (MemtableSource *) rose_source_open_memtable(reading, slot, true);

	source->by_arrival = true;
	source->everyone = everyone;
	return &source->base;
}

uint64
rose_source_next_arrival(const RoseSource *source)
{
	Assert(((const MemtableSource *) source)->by_arrival);
	return ((const MemtableSource *) source)->next_seq;
}
