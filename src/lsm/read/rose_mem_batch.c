/*-------------------------------------------------------------------------
 *
 * rose_mem_batch.c
 *	  Rows of a memtable, copied together in one reading section of C0.
 *
 * Entries are copied as they are, behind each other, into one piece of memory, which is
 * used again for the next batch and grows with what batches need.  Keys and versions are
 * taken from them only when somebody asks.  Most entries need no second look, and come as
 * parts in arrays (rose_mem_cursor_take_plain).  Columns as arrays are in rose_mem_batch_columns.c.
 *
 * Backend-local.  A batch is freed when its last holder lets go.  While its source lives
 * it belongs to the scan's memory, so that it goes with it after an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_mem_batch.h"
#include "lsm/read/rose_scan.h"

#define ROWS_FIRST		8
#define LIMIT_OF_WALK	64		/* who takes so many rows takes many more */
#define BYTES_FIRST		1024
#define BYTES_MAX		(64 * 1024)
#define KEPT_BYTES_MAX	(192 * 1024)	/* of one that is kept */
#define OLD_VERSIONS_MAX	8	/* passed one by one, before the rest is skipped */
#define VISIT_MAX		4096	/* entries looked at under one hold of the lock */
#define TAKE_MAX		32		/* entries taken from the memtable together */
#define TAKE_FEW		8		/* ... of which the first one is not plain, and others may be */

/* ---- life ---- */

/* How many first columns have the whole key, if all of these can be decoded; else 0. */
static int
count_key_columns(const RoseSchema *schema)
{
	int			n = 0;

	for (int i = 0; i < schema->nkeys; i++)
		n = Max(n, schema->keys[i].def.attno);
	return n <= schema->nfixed_byval ? n : 0;
}

RoseMemBatch *
rose_mem_batch_create(RoseTree *tree, MemoryContext context)
{
	const RoseSchema *schema = tree->schema;
	MemoryContext own = AllocSetContextCreate(context, "rose memtable batch",
											  ALLOCSET_DEFAULT_SIZES);
	RoseMemBatch *batch = MemoryContextAllocZero(own, sizeof(RoseMemBatch));
	int			width = rose_schema_key_width(schema);

	batch->rows.ops = &rose_mem_batch_rows;
	batch->rows.refcount = 1;
	batch->rows.context = own;
	batch->rows.schema = schema;
	batch->rows.plain = true;
	batch->rows.natts = schema->nfixed_byval;
	batch->rows.columns = MemoryContextAllocZero(own, schema->natts * sizeof(RoseRowsColumn));
	batch->tree = tree;
	batch->key_columns = count_key_columns(schema);
	batch->limit = ROWS_FIRST;
	batch->ops = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint8));
	batch->images = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(void *));
	batch->tuples = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(MinimalTuple));
	batch->made = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(bool));
	batch->refs = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(RoseRow));
	batch->seqs = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint64));
	batch->places = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(RoseArenaPtr));
	batch->prefixes = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * sizeof(uint64));
	batch->keys = MemoryContextAlloc(own, ROSE_MEM_BATCH_ROWS * width * sizeof(Datum));
	batch->rows.seqs = batch->seqs;
	batch->rows.prefixes = batch->prefixes;
	batch->capacity = BYTES_FIRST;
	batch->data = MemoryContextAlloc(own, batch->capacity);
	batch->more = AllocSetContextCreate(own, "rose memtable batch, large rows",
										ALLOCSET_SMALL_SIZES);
	return batch;
}

void
rose_mem_batch_abandon(RoseMemBatch *batch)
{
	if (batch == NULL)
		return;
	if (batch->rows.refcount > 1)
		rose_mem_batch_fetch(batch);
	rose_rows_abandon(&batch->rows);
}

bool
rose_mem_batch_renew(RoseMemBatch *batch)
{
	if (batch->rows.refcount > 1 || batch->more_bytes > 0 || batch->capacity > BYTES_FIRST ||
		batch->rows.context->mem_allocated > KEPT_BYTES_MAX)
		return false;
	rose_mem_batch_start(batch);
	batch->limit = ROWS_FIRST;
	batch->longest_before = 0;
	batch->columns = 0;
	return true;
}

/* ---- filling ---- */

void
rose_mem_batch_start(RoseMemBatch *batch)
{
	Assert(batch->rows.refcount == 1);
	if (batch->more_bytes > 0)
	{
		MemoryContextReset(batch->more);
		batch->more_bytes = 0;
		if (batch->capacity < BYTES_MAX)
		{
			pfree(batch->data);
			batch->capacity = Min(batch->capacity * 4, BYTES_MAX);
			batch->data = MemoryContextAlloc(batch->rows.context, batch->capacity);
		}
	}
	batch->rows.nrows = 0;
	batch->rows.window_rows = 0;
	batch->rows.stamp++;
	batch->used = 0;
	batch->longest = 0;
	batch->at_end = false;
	batch->only_puts = true;
	batch->wanted = false;
	batch->asked = 0;
	batch->pending = false;
	batch->min_seq = PG_UINT64_MAX;
	batch->max_seq = 0;
}

static void *
copy_bytes(RoseMemBatch *batch, const void *bytes, Size size)
{
	char	   *copy;

	if (size <= batch->capacity - batch->used)
	{
		copy = batch->data + batch->used;
		batch->used += Min(MAXALIGN(size), batch->capacity - batch->used);
	}
	else
	{
		copy = MemoryContextAllocHuge(batch->more, size);
		batch->more_bytes += size;
	}
	memcpy(copy, bytes, size);
	return copy;
}

/* Fill in refs[i], but for its tuple. */
static void
fill_ref(RoseMemBatch *batch, int i, const RoseVersion *version)
{
	RoseRow    *row = &batch->refs[i];

	row->version = *version;
	if (version->present)
		row->version.present = copy_bytes(batch, version->present,
										  ROSE_PRESENT_BYTES(batch->rows.schema->natts));
	row->key = NULL;
	row->tuple = batch->tuples[i];
	row->rows = NULL;
	row->slot = i;
	row->component = 0;
	row->ordinal = 0;
	batch->made[i] = true;
}

void
rose_mem_batch_make(RoseMemBatch *batch, int i)
{
	RoseMemEntryRef entry;

	rose_memtable_image_get(batch->rows.schema, batch->images[i], &entry);
	Assert(entry.version.seq == batch->seqs[i]);
	fill_ref(batch, i, &entry.version);
}

static void
note_tuple(RoseMemBatch *batch, int i, MinimalTuple tuple)
{
	batch->tuples[i] = tuple;
	if (tuple != NULL)
		batch->longest = Max(batch->longest, tuple->t_len);
	batch->places[i] = 0;
}

static void
version_is_gone(const RoseMemBatch *batch, int i)
{
	elog(ERROR, "version " UINT64_FORMAT " of table \"%s\" is gone",
		 batch->seqs[i], RelationGetRelationName(batch->tree->rel));
}

/*
 * Copy a row that was put off.  The snapshot sees it, so it was not taken out
 * (memtable/rose_recycle.c); if it was all the same, that shows.  REQUIRES a reading
 * section, and that the memtable is alive.
 */
static void
copy_pending(RoseMemBatch *batch, int i)
{
	const void *image;
	Size		size;

	if (batch->places[i] == 0)
		return;
	if (unlikely(rose_memtable_seq(batch->places[i]) != batch->seqs[i]))
		version_is_gone(batch, i);
	image = rose_memtable_image(batch->places[i], &size);
	batch->images[i] = copy_bytes(batch, image, size);
	note_tuple(batch, i, rose_memtable_image_row(batch->images[i]));
}

static void
copy_all_pending(RoseMemBatch *batch)
{
	for (int i = 0; i < batch->rows.nrows; i++)
		copy_pending(batch, i);
	batch->pending = false;
}

static void
add_entry(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	int			i = batch->rows.nrows++;

	batch->places[i] = entry->ptr;
	batch->prefixes[i] = entry->prefix;
	batch->seqs[i] = entry->version.seq;
	batch->ops[i] = entry->version.op;
	batch->tuples[i] = entry->row;
	batch->made[i] = false;
	if (entry->version.op != ROSE_OP_PUT)
	{
		batch->only_puts = false;
		copy_all_pending(batch);
		batch->columns = 0;
		batch->rows.stamp++;	/* what was decoded does not count */
	}
	if (batch->columns > 0)
		rose_mem_batch_take_columns(batch, i, i + 1);
	if (!batch->pending)
		copy_pending(batch, i);
}

/*
 * The same when the memtable was freed.  The version is in another memtable or in a
 * component then, because a snapshot that sees it is in use.
 */
static void
find_pending(RoseMemBatch *batch, int i)
{
	RoseTree   *tree = batch->tree;
	int			natts = batch->rows.schema->natts;
	uint64		seq = batch->seqs[i];
	MinimalTuple formed = NULL;
	MinimalTuple tuple;
	const RoseRow *row;
	ItemPointerData tid;

	if (batch->places[i] == 0)
		return;
	rose_tid_assign(tree, NULL, 0, seq, &tid);
	row = rose_lookup_fetch_tid(rose_lookup_cached(tree), &tid, SnapshotAny);
	if (row == NULL)
		version_is_gone(batch, i);
	if (row->tuple == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(batch->more);
		Datum	   *values = palloc(natts * sizeof(Datum));
		bool	   *nulls = palloc(natts * sizeof(bool));

		rose_row_deform(row, batch->rows.schema, 1, natts, values, nulls);
		formed = rose_form_minimal_tuple(batch->rows.schema->tupdesc, values, nulls);
		pfree(values);
		pfree(nulls);
		MemoryContextSwitchTo(old);
	}
	tuple = formed != NULL ? formed : row->tuple;
	note_tuple(batch, i, copy_bytes(batch, tuple, tuple->t_len));
	fill_ref(batch, i, &row->version);
	if (formed != NULL)
		pfree(formed);
}

void
rose_mem_batch_fetch(RoseMemBatch *batch)
{
	RoseC0Shared *c0 = batch->mem.c0;
	bool		alive;

	if (!batch->pending)
		return;
	rose_c0_read_begin(c0);
	alive = rose_mem_cursor_alive(&batch->mem);
	if (alive)
		copy_all_pending(batch);
	rose_c0_read_end(c0);
	for (int i = 0; !alive && i < batch->rows.nrows; i++)
		find_pending(batch, i);
	batch->pending = false;
}

/* Is the entry a version of the key of the batch's last row? */
static bool
is_of_last_key(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	const RoseSchema *schema = batch->rows.schema;
	int			last = batch->rows.nrows - 1;
	Datum		key[INDEX_MAX_KEYS];

	if (last < 0 || batch->prefixes[last] != entry->prefix)
		return false;
	copy_pending(batch, last);
	rose_key_from_tuple(schema, entry->row, entry->version.rowid, key);
	return rose_key_compare(schema, rose_mem_batch_row(batch, last)->key, key,
							rose_schema_key_width(schema)) == 0;
}

/*
 * Forward: does an entry say nothing, because the batch's last row is a newer version of
 * the same key, complete and seen by the snapshot, too?
 */
static bool
entry_is_old(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	return is_of_last_key(batch, entry) &&
		batch->ops[batch->rows.nrows - 1] != ROSE_OP_PARTIAL;
}

/* Backward: the batch's last rows say nothing if the entry is a newer version of their key, and complete. */
static void
drop_old_rows(RoseMemBatch *batch, const RoseMemEntryRef *entry)
{
	while (entry->version.op != ROSE_OP_PARTIAL && is_of_last_key(batch, entry))
		batch->rows.nrows--;
}

/*
 * Add what is wanted of n entries.  Returns how many were looked at: fewer if there is no
 * more room, or if the last row has so many old versions that it is better to skip them
 * (*skip).
 */
static int
add_entries(RoseMemBatch *batch, RoseVisibility *vis, const RoseMemEntryRef *entries, int n,
			bool filter, int *nold, bool *skip)
{
	int			i;

	for (i = 0; i < n && batch->used + batch->more_bytes < BYTES_MAX; i++)
	{
		const RoseMemEntryRef *entry = &entries[i];

		if (entry->version.op == ROSE_OP_LOCK ||
			(filter && !rose_entry_visible_again(vis, entry) && !rose_entry_visible(vis, entry)))
			continue;
		if (filter && !batch->forward)
			drop_old_rows(batch, entry);
		if (!filter || !batch->forward || !entry_is_old(batch, entry))
		{
			add_entry(batch, entry);
			*nold = 0;
		}
		else if (++*nold == OLD_VERSIONS_MAX)
		{
			*skip = true;
			return i + 1;
		}
	}
	return i;
}

/* Copy rows that were just added, or leave them to the next batch: false in *room. */
static void
copy_plain(RoseMemBatch *batch, RoseMemCursor *cursor, const RoseMemColumns *columns, int from,
		   bool *room)
{
	int			i = from;

	while (i < batch->rows.nrows)
	{
		i = rose_memtable_copy_images(columns, batch->images, i, batch->rows.nrows, batch->data,
									  batch->capacity, &batch->used, &batch->longest);
		if (i == batch->rows.nrows)
			return;
		if (batch->used + batch->more_bytes >= BYTES_MAX)
		{
			rose_mem_cursor_return_to(cursor, batch->places[i]);
			batch->rows.nrows = i;
			*room = false;
			return;
		}
		copy_pending(batch, i++);
	}
}

/* Slots from..to have plain rows. */
static void
keep_plain(RoseMemBatch *batch, RoseMemCursor *cursor, const RoseMemColumns *columns, int from, int to,
		   bool *room)
{
	memset(batch->ops + from, ROSE_OP_PUT, to - from);
	memset(batch->made + from, false, to - from);
	batch->rows.nrows = to;
	if (batch->columns > 0)
		rose_mem_batch_take_columns(batch, from, to);
	if (!batch->pending)
		copy_plain(batch, cursor, columns, from, room);
}

/*
 * Add the next entries, as long as they need no second look: nearly all of them, mostly.
 * Returns how many; false in *room: there is no more.
 */
static int
add_plain(RoseMemBatch *batch, RoseMemCursor *cursor, const RoseVisibility *vis, bool *room)
{
	const RoseMemColumns columns = {batch->places, batch->prefixes, batch->seqs, batch->tuples};
	const RoseMemSeen seen = {vis->xmin, vis->last_committed};
	int			from = batch->rows.nrows;
	int			to = batch->pending ? batch->limit : Min(from + TAKE_MAX, batch->limit);

	to = rose_mem_cursor_take_plain(cursor, batch->forward, &seen, &columns, from, to,
									from > 0 && batch->ops[from - 1] != ROSE_OP_PARTIAL);
	keep_plain(batch, cursor, &columns, from, to, room);
	return batch->rows.nrows - from;
}

/* The next entries, as many as will do; the cursor goes behind them. */
static int
take_entries(const RoseMemBatch *batch, RoseMemCursor *cursor, RoseMemEntryRef *entries, int n)
{
	if (batch->forward)
		return rose_mem_cursor_take(cursor, entries, Min(n, TAKE_MAX));
	rose_mem_cursor_get(cursor, entries);
	(void) rose_mem_cursor_prev(cursor);
	return 1;
}

/* How much of a row will be looked at?  Whole ones are taken to be as long as those before. */
static int
bytes_of_columns(const RoseMemBatch *batch, int columns)
{
	const RoseSchema *schema = batch->rows.schema;

	if (columns == ROSE_MEM_BATCH_ALL)
		return batch->longest_before > 0 ? Min(batch->longest_before, BLCKSZ) : BLCKSZ;
	if (columns == 0)
		return 0;
	return MAXALIGN(SizeofMinimalTupleHeader) + schema->tuple_columns[columns - 1].offset +
		schema->tuple_columns[columns - 1].attlen;
}

/*
 * Add some of the next entries, each of which is looked at by itself.  Returns how many
 * were; false in *room: there is no more.
 */
static int
add_others(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis, bool filter,
		   int *nold, bool *room)
{
	RoseMemEntryRef entries[TAKE_MAX];
	bool		skip = false;
	int			n = take_entries(batch, cursor, entries,
								 Min(batch->limit - batch->rows.nrows, filter ? TAKE_FEW : TAKE_MAX));
	int			done = add_entries(batch, vis, entries, n, filter, nold, &skip);

	if (skip)
	{
		/* a row that is updated again and again: on to the next key */
		copy_pending(batch, batch->rows.nrows - 1);
		(void) rose_mem_cursor_seek(cursor, rose_mem_batch_row(batch, batch->rows.nrows - 1)->key,
									rose_schema_key_width(batch->rows.schema), 0);
		*nold = 0;
	}
	else if (done < n)
	{
		rose_mem_cursor_return_to(cursor, entries[done].ptr);
		*room = false;
	}
	return n;
}

/* The rows are there: what is known of all of them. */
static void
note_rows(RoseMemBatch *batch)
{
	int			n = batch->rows.nrows;

	for (int i = 0; i < n; i++)
	{
		batch->min_seq = Min(batch->min_seq, batch->seqs[i]);
		batch->max_seq = Max(batch->max_seq, batch->seqs[i]);
	}
	if (n > 0)
	{
		copy_pending(batch, 0);
		copy_pending(batch, n - 1);
	}
	batch->rows.window_rows = n;
}

/* Before the first row. */
static void
start_rows(RoseMemBatch *batch, const RoseMemCursor *cursor, bool forward, int columns)
{
	batch->forward = forward;
	batch->pending = columns != ROSE_MEM_BATCH_ALL;
	batch->columns = Max(columns, 0);
	rose_mem_batch_start_columns(batch);
	batch->mem = *cursor;
}

void
rose_mem_batch_fill(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
					bool forward, bool filter, int columns, bool on_entry)
{
	bool		room = on_entry;
	int			visits = 0;
	int			nold = 0;

	start_rows(batch, cursor, forward, columns);
	if (on_entry && batch->limit >= LIMIT_OF_WALK)
		rose_mem_cursor_walk(cursor, forward, bytes_of_columns(batch, columns));
	while (room && cursor->current != 0 && batch->rows.nrows < batch->limit && visits < VISIT_MAX)
	{
		int			plain = filter ? add_plain(batch, cursor, vis, &room) : 0;

		visits += plain;
		if (plain == 0 && room)
			visits += add_others(batch, cursor, vis, filter, &nold, &room);
		else
			nold = 0;
	}
	note_rows(batch);
	batch->at_end = !on_entry || cursor->current == 0;
	batch->limit = Min(batch->limit * 2, ROSE_MEM_BATCH_ROWS);
}

/* ---- filling in the order of arrival ---- */

/* Does the snapshot see a newer version of the key of the entry that the walk is at? */
static bool
is_replaced(const RoseMemCursor *cursor, RoseVisibility *vis, const RoseMemArrivals *at,
			const RoseMemEntryRef *entry)
{
	RoseMemEntryRef newer = *entry;

	while (rose_mem_cursor_newer(cursor, &newer))
	{
		if (!rose_entry_visible(vis, &newer))
			continue;
		if (newer.version.op != ROSE_OP_PARTIAL &&
			FullTransactionIdPrecedes(newer.version.xid, at->everyone))
			rose_mem_cursor_hide_other(at);
		return true;
	}
	return false;
}

/* Add the walk's entry that is not plain, if it is a row; false: it takes more than that to know. */
static bool
add_arrival(RoseMemBatch *batch, const RoseMemCursor *cursor, RoseVisibility *vis,
			const RoseMemArrivals *at)
{
	RoseMemEntryRef entry;

	rose_memtable_get(cursor->c0, cursor->schema, at->other, &entry);
	if (!rose_entry_visible(vis, &entry))
		return true;
	if (entry.version.op == ROSE_OP_PARTIAL)
		return false;
	if (entry.version.op == ROSE_OP_PUT && !is_replaced(cursor, vis, at, &entry))
		add_entry(batch, &entry);
	return true;
}

bool
rose_mem_batch_fill_arrivals(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
							 uint64 *seq, FullTransactionId everyone, int columns)
{
	const RoseMemColumns parts = {batch->places, batch->prefixes, batch->seqs, batch->tuples};
	RoseMemArrivals at = {.seq = *seq, .everyone = everyone, .looks = VISIT_MAX};
	bool		room = true;
	bool		known = true;

	start_rows(batch, cursor, true, columns);
	at.row_bytes = bytes_of_columns(batch, columns);
	while (known && room && !at.at_end && at.looks > 0 && batch->rows.nrows < batch->limit)
	{
		const RoseMemSeen seen = {vis->xmin, vis->last_committed};
		int			from = batch->rows.nrows;
		int			to = batch->pending ? batch->limit : Min(from + TAKE_MAX, batch->limit);

		keep_plain(batch, cursor, &parts, from,
				   rose_mem_cursor_take_arrivals(cursor, &at, &seen, &parts, from, to), &room);
		if (!room)
			at.seq = batch->seqs[batch->rows.nrows];
		else if (at.other != 0)
		{
			room = batch->used + batch->more_bytes < BYTES_MAX;
			known = !room || add_arrival(batch, cursor, vis, &at);
			at.seq += room && known;
		}
	}
	*seq = at.seq;
	note_rows(batch);
	batch->at_end = room && known && at.at_end;
	batch->limit = Min(batch->limit * 2, ROSE_MEM_BATCH_ROWS);
	return known;
}

/* ---- searching ---- */

static bool
row_precedes(RoseMemBatch *batch, int i, const Datum *key, int ncols, const uint64 *prefix,
			 bool after)
{
	int			cmp;

	if (prefix != NULL && batch->prefixes[i] != *prefix)
		return (batch->prefixes[i] < *prefix) == batch->forward;
	cmp = rose_key_compare(batch->rows.schema, rose_mem_batch_row(batch, i)->key, key, ncols);
	if (!batch->forward)
		cmp = -cmp;
	return cmp < 0 || (after && cmp == 0);
}

/* First in steps that double, then by halves. */
int
rose_mem_batch_find(RoseMemBatch *batch, int i, const Datum *key, int ncols,
					const uint64 *prefix, bool after)
{
	int			lo = i;
	int			hi;
	int			step = 1;

	while (lo + step < batch->rows.nrows && row_precedes(batch, lo + step - 1, key, ncols, prefix, after))
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, batch->rows.nrows);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (row_precedes(batch, mid, key, ncols, prefix, after))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}
