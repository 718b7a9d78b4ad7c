/*-------------------------------------------------------------------------
 *
 * rose_index_scan.c
 *	  Scans of indexes: ordered scans of the table, or of a secondary index's entries.
 *
 * The primary key's index is the table itself.  A secondary index is a tree of its own,
 * whose rows are entries.  They are exact: what a snapshot sees of them are the entries of
 * the rows that it sees.  So a scan that wants nothing else looks at no row; for others
 * the row is looked up by the table's key, which each entry has: when it is fetched, or
 * before, together with those of the next entries (rose_index_batch.c).  Where
 * functions of users make the entries, only the row tells whether one is right
 * (rose_index_validate.c).
 *
 * The scan's conditions become key ranges (rose_key_quals.c), which are scanned
 * one after the other in either direction.  If the conditions name whole keys, these are
 * looked up instead: a lookup asks Bloom filters and stops at the newest row.
 * The row found stays in the RoseIndexFetch, where the fetch of the heap row that
 * follows picks it up.
 *
 * Of a long range rows come from stretches.  If entries are all that is wanted, most are given out without
 * a look at anything but their columns (index_scan_next_of_stretch).
 *
 * Like a btree scan, one that ran off an end starts anew when it is called
 * again, at the end that its direction begins at.
 *
 * Backend-local.  Locks are those that scans and lookups take; which rows a snapshot sees
 * is theirs to say, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/rose_index_def.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/read/rose_key_quals.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_predicate.h"
#include "indexam/rose_index_batch.h"
#include "indexam/rose_index_settings.h"
#include "indexam/rose_index_tuple.h"
#include "indexam/rose_indexam.h"

struct RoseIndexScan
{
	MemoryContext context;
	MemoryContext quals_context;	/* quals */
	MemoryContext mark_context; /* mark_key */
	RoseTree   *tree;			/* that is scanned: the table's, or a secondary index's */
	bool		of_entries;		/* the latter; then: */
	bool		turned;			/* its entries are stored the other way round */
	AttrNumber	sources[INDEX_MAX_KEYS];	/* columns of the tree that the index's columns are ... */
	AttrNumber	row_key[INDEX_MAX_KEYS];	/* ... and in entries, those of the table's key, ... */
	int			row_key_at[INDEX_MAX_KEYS]; /* ... which are these of the entry's key; or -1 */
	RoseIndexValidator *validator;	/* NULL: entries are exact */
	IndexScanDesc wants_entry;	/* with a validator: whose xs_itup is to be that of the row; or NULL */
	uint32		nreturned;		/* entries, for TIDs that name nothing */
	bool		batched;		/* rows of entries are looked up together ... */
	RoseIndexBatch batch;		/* ... in this; not open: scan stands on the entry that was given out */

	RoseKeyQuals *quals;		/* NULL: to be made at the next gettuple */
	RoseScan   *scan;			/* NULL until the first gettuple */
	RoseKeyRange range;			/* being scanned ... */
	bool		cut;			/* ... but for what is before the place where the scan turned */
	uint64		range_number;
	int			taken;			/* rows in one direction, to so many as say that the range is long */
	ScanDirection taken_direction;
	RoseRow		row;			/* the row, if it is one of a stretch */
	Datum		key[INDEX_MAX_KEYS];	/* its key ... */
	bool		key_is_read;	/* ... if that was read */
	bool		active;			/* scan is somewhere in a range */
	bool		point;			/* ranges are single keys, to be looked up */
	bool		point_done;		/* this one was */

	RoseIndexTuples tuples;		/* in which entries are given out, one of which is wanted */
	RoseStretch *rush;			/* see index_scan_next_of_stretch; NULL: not now */
	ScanDirection rush_direction;	/* of the calls */

	bool		marked;			/* else the mark is before the start */
	uint64		mark_range;
	Datum		mark_key[INDEX_MAX_KEYS];
	ScanDirection mark_direction;
	ScanDirection direction;	/* of the last call */
};

/* After so many rows of a range, many more are expected. */
#define ROWS_OF_LONG_RANGE	4

/* TIDs in the highest quarter of blocks are nobody's (lsm/read/rose_tid.h), but for the last of all. */
#define NO_ROW_BLOCK	((BlockNumber) 0xC0000000)
#define NO_ROW_BLOCKS	0x3FFF0000

/* ---- begin, end ---- */

/* Which column of keys this one of rows is; -1: it is none. */
static int
key_column_of(const RoseSchema *schema, AttrNumber attno)
{
	for (int j = 0; j < schema->nkeys; j++)
		if (schema->keys[j].def.attno == attno)
			return j;
	return -1;
}

/* The index is a tree: what its entries' columns are. */
static void
index_scan_open_entries(RoseIndexScan *scan, Relation index, const RoseSchema *schema)
{
	const RoseIndexMetaDisk *meta;
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	scan->tree = rose_tree_open(index);
	meta = rose_tree_index_meta(scan->tree);
	if (meta->base_key_crc != rose_index_def_base_crc(schema))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" must be rebuilt, because its table has another key than when it was built",
						RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
	scan->of_entries = true;
	scan->turned = (meta->flags & ROSE_INDEX_TURNED) != 0;
	for (int i = 0; i < IndexRelationGetNumberOfAttributes(index); i++)
		scan->sources[i] = i < nkeys ? i + 1 :
			rose_index_def_carrier(meta, index->rd_index->indkey.values[i]) + 1;
	scan->row_key[0] = rose_index_def_carrier(meta, ROSE_ENTRY_ROWID) + 1;
	for (int i = 0; i < schema->nkeys; i++)
		scan->row_key[i] = rose_index_def_carrier(meta, schema->keys[i].def.attno) + 1;
	for (int i = 0; i < rose_schema_key_width(schema); i++)
		scan->row_key_at[i] = key_column_of(scan->tree->schema, scan->row_key[i]);
	if (unlikely((meta->flags & ROSE_INDEX_VALIDATED) != 0))
	{
		MemoryContext old = MemoryContextSwitchTo(scan->context);

		scan->validator = rose_index_validator_create(index, schema);
		MemoryContextSwitchTo(old);
	}
}

/*
 * May rows be looked up before they are fetched?  Not if nobody fetches them; nor if what is read must be
 * noted, which is to be what was asked for.
 */
static bool
index_scan_is_batched(IndexScanDesc iscan, const RoseIndexFetch *fetch)
{
	const RoseIndexScan *scan = fetch->scan;

	return scan->of_entries && !iscan->xs_want_itup && IsMVCCSnapshot(iscan->xs_snapshot) &&
		!rose_predicate_is_needed(fetch->tree, iscan->xs_snapshot);
}

static RoseIndexScan *
index_scan_create(Relation index, RoseIndexFetch *fetch)
{
	MemoryContext context = AllocSetContextCreate(fetch->context, "rose index scan",
												  ALLOCSET_SMALL_SIZES);
	RoseIndexScan *scan = MemoryContextAllocZero(context, sizeof(RoseIndexScan));

	scan->context = context;
	scan->quals_context = AllocSetContextCreate(context, "rose index scan conditions",
												ALLOCSET_SMALL_SIZES);
	scan->tree = fetch->tree;
	if (!rose_tree_is_key_index(index))
		index_scan_open_entries(scan, index, fetch->tree->schema);
	else
		for (int i = 0; i < scan->tree->schema->nkeys; i++)
			scan->sources[i] = scan->tree->schema->keys[i].def.attno;
	rose_index_batch_init(&scan->batch, scan->tree, fetch->tree, context);
	rose_index_tuples_init(&scan->tuples, IndexRelationGetNumberOfAttributes(index), scan->sources,
						   scan->of_entries ? scan->tree->schema->natts : 0, context);
	return scan;
}

void
rose_index_scan_free(RoseIndexScan *scan)
{
	if (scan->scan)
		rose_scan_end(scan->scan);
	rose_index_batch_free(&scan->batch);
	MemoryContextDelete(scan->context);
}

void
rose_index_rescan(IndexScanDesc iscan, ScanKey keys, int nkeys, ScanKey orderbys,
				  int norderbys)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) iscan->xs_heapfetch;

	if (keys && iscan->numberOfKeys > 0)
		memmove(iscan->keyData, keys, iscan->numberOfKeys * sizeof(ScanKeyData));
	if (iscan->xs_snapshot->snapshot_type == SNAPSHOT_DIRTY)
		rose_index_settings_check_arbiter(iscan->indexRelation);
	if (fetch->scan == NULL)
		fetch->scan = index_scan_create(iscan->indexRelation, fetch);
	fetch->row = NULL;
	fetch->scan->quals = NULL;
	fetch->scan->active = false;
	fetch->scan->rush = NULL;
	fetch->scan->marked = false;
	rose_index_batch_drop(&fetch->scan->batch, 1);
	MemoryContextReset(fetch->scan->quals_context);
}

/* First call after a rescan. */
static void
index_scan_prepare(IndexScanDesc iscan, RoseIndexFetch *fetch)
{
	RoseIndexScan *scan = fetch->scan;
	MemoryContext old = MemoryContextSwitchTo(scan->quals_context);

	if (iscan->parallel_scan)
		elog(ERROR, "parallel scan of an index of a rose table");
	scan->quals = rose_key_quals_create(scan->tree->schema, iscan->keyData,
										iscan->numberOfKeys);
	MemoryContextSwitchTo(old);

	/* other snapshots may see several versions of a key */
	scan->point = IsMVCCSnapshot(iscan->xs_snapshot) && !scan->of_entries &&
		rose_key_quals_name_keys(scan->quals);
	scan->batched = index_scan_is_batched(iscan, fetch);
	pgstat_count_index_scan(iscan->indexRelation);
}

/* Start scanning a range, from the end that the direction begins at. */
static void
index_scan_enter_range(IndexScanDesc iscan, RoseIndexFetch *fetch, uint64 number)
{
	RoseIndexScan *scan = fetch->scan;

	scan->range_number = number;
	rose_key_quals_range(scan->quals, number, &scan->range);
	scan->active = true;
	scan->taken = 0;
	scan->cut = false;
	rose_index_batch_drop(&scan->batch, 0);
	rose_count_index_search(iscan);
	if (scan->point)
	{
		rose_predicate_lock_key(scan->tree, scan->range.lower, iscan->xs_snapshot);
		scan->point_done = false;
		return;
	}
	rose_predicate_lock_range(scan->tree, &scan->range, iscan->xs_snapshot);
	if (scan->scan)
		rose_scan_reset(scan->scan, &scan->range);
	else
	{
		MemoryContext old = MemoryContextSwitchTo(scan->context);

		scan->scan = rose_scan_begin(scan->tree, iscan->xs_snapshot, &scan->range, false);
		MemoryContextSwitchTo(old);
	}
}

/* Have the range's scan go on behind a row of it, whatever it has passed. */
static void
index_scan_go_behind(RoseIndexScan *scan, const Datum *key, ScanDirection direction)
{
	int			width = rose_schema_key_width(scan->tree->schema);

	rose_key_quals_range(scan->quals, scan->range_number, &scan->range);
	if (ScanDirectionIsForward(direction))
	{
		memcpy(scan->range.lower, key, width * sizeof(Datum));
		scan->range.nlower = width;
		scan->range.lower_inclusive = false;
	}
	else
	{
		memcpy(scan->range.upper, key, width * sizeof(Datum));
		scan->range.nupper = width;
		scan->range.upper_inclusive = false;
	}
	rose_scan_reset(scan->scan, &scan->range);
}

/*
 * The next row of a long range; of rows at hand nothing but the key is touched.  REQUIRES: the row before was taken in
 * this direction.
 */
static const RoseRow *
index_scan_take_of_many(RoseIndexScan *scan)
{
	RoseStretch *stretch = rose_scan_stretch(scan->scan);
	RoseRows   *rows;
	int			slot;

	if (!rose_stretch_has_row(stretch) && !rose_scan_next_piece(scan->scan))
	{
		const RoseRow *row = rose_scan_next_stretch(scan->scan, scan->direction);

		if (row || !rose_stretch_has_row(stretch))
			return row;
	}
	rows = stretch->rows;
	slot = stretch->next++;
	if (!rose_rows_in_window(rows, slot))
		rows->ops->ahead(rows, slot);
	rows->ops->key(rows, slot, scan->key);
	scan->key_is_read = true;
	scan->row.key = scan->key;
	scan->row.rows = rows;
	scan->row.slot = slot;
	return &scan->row;
}

/*
 * Name the row of the range: what came from a stretch by its place, if it is one of the table; an entry by what names
 * nothing.
 */
static inline void
index_scan_name(RoseIndexFetch *fetch, const RoseRow *row)
{
	RoseIndexScan *scan = fetch->scan;

	/* blocks count up, so that the planner soon gives up to look for an end */
	if (scan->of_entries)
	{
		ItemPointerSet(&fetch->tid, NO_ROW_BLOCK + scan->nreturned, FirstOffsetNumber);
		if (unlikely(++scan->nreturned == NO_ROW_BLOCKS))
			scan->nreturned = 0;
	}
	else if (row == &scan->row)
		rose_stretch_tid(rose_scan_stretch(scan->scan), row->slot, &fetch->tid);
	else
		rose_scan_tid(scan->scan, &fetch->tid);
}

/* The next row of the range by itself, or of a stretch once the range has turned out to be a long one. */
static const RoseRow *
index_scan_take(RoseIndexScan *scan)
{
	/* who turns leaves the stretch by taking a row in the other way */
	if (scan->direction != scan->taken_direction)
		scan->taken = 0;
	scan->taken_direction = scan->direction;
	if (scan->taken >= ROWS_OF_LONG_RANGE)
		return index_scan_take_of_many(scan);
	scan->taken++;
	return rose_scan_next_keyed(scan->scan, scan->direction);
}

/* The key of an entry's row, if it is read from the entry. */
static void
index_scan_read_row_key(const RoseIndexScan *scan, const RoseRow *entry, int width, Datum *row_key)
{
	bool		isnull;

	for (int i = 0; i < width; i++)
		row_key[i] = scan->row_key_at[i] >= 0 ? entry->key[scan->row_key_at[i]] :
			rose_row_getattr(entry, scan->tree->schema, scan->row_key[i], &isnull);
}

/*
 * Take the entries of a batch of n from the range, and look up their rows.  Of a few entries each is taken by itself; so is
 * the first one, since the range may have turned.
 */
static void
index_scan_fill_batch(RoseIndexScan *scan, const RoseSchema *table, Snapshot snapshot)
{
	RoseIndexBatch *batch = &scan->batch;
	int			width = rose_schema_key_width(table);
	int			taken = 0;

	while (!batch->last && !rose_index_batch_is_full(batch))
	{
		const RoseRow *row = taken++ < ROWS_OF_LONG_RANGE ?
			rose_scan_next_keyed(scan->scan, scan->direction) : index_scan_take_of_many(scan);
		Datum		row_key[INDEX_MAX_KEYS];

		batch->last = row == NULL;
		if (row == NULL || !rose_key_quals_match(scan->quals, row->key))
			continue;
		index_scan_read_row_key(scan, row, width, row_key);
		rose_index_batch_add(batch, row->key, row_key);
	}
	rose_index_batch_look_up(batch, snapshot);
}

/* The next entry of the range, or NULL; one of a batch meets all conditions. */
static const RoseRow *
index_scan_next_entry(RoseIndexFetch *fetch, Snapshot snapshot)
{
	RoseIndexScan *scan = fetch->scan;
	RoseIndexBatch *batch = &scan->batch;

	if (rose_index_batch_is_open(batch) && batch->direction != scan->direction)
	{
		/* the range's scan is past the entries that were given out; from here on it cannot turn by itself */
		index_scan_go_behind(scan, batch->entry.key, scan->direction);
		rose_index_batch_drop(batch, 2);
		scan->cut = true;
	}
	if (!rose_index_batch_has_entry(batch))
	{
		if (batch->last)
			return NULL;
		if (!rose_index_batch_begin(batch, scan->direction, !scan->cut))
			return rose_scan_next_keyed(scan->scan, scan->direction);
		/* who makes an entry of the row reads other columns of it */
		if (scan->validator == NULL && fetch->slot != NULL)
			batch->wanted = fetch->wanted(fetch->slot);
		index_scan_fill_batch(scan, fetch->tree->schema, snapshot);
	}
	return rose_index_batch_has_entry(batch) ? rose_index_batch_next(batch) : NULL;
}

/* The next row of the range, or NULL; fetch->tid names it.  That of a point meets all conditions. */
static const RoseRow *
index_scan_next_row(IndexScanDesc iscan, RoseIndexFetch *fetch)
{
	RoseIndexScan *scan = fetch->scan;
	RoseLookup *lookup;
	const RoseRow *row;

	if (!scan->point)
	{
		row = scan->batched ? index_scan_next_entry(fetch, iscan->xs_snapshot) : index_scan_take(scan);
		if (row)
			index_scan_name(fetch, row);
		return row;
	}
	if (scan->point_done)
		return NULL;
	scan->point_done = true;

	/* what the lookup returns is not kept, and an operator may look up rows itself: ask it before */
	if (!rose_key_quals_match(scan->quals, scan->range.lower))
		return NULL;
	lookup = rose_lookup_cached(fetch->tree);
	row = rose_lookup_get(lookup, iscan->xs_snapshot, scan->range.lower);
	if (row)
		rose_lookup_tid(lookup, &fetch->tid);
	return row;
}

/* Go on to the next range in this direction; false: there is none. */
static bool
index_scan_next_range(IndexScanDesc iscan, RoseIndexFetch *fetch, bool forward)
{
	RoseIndexScan *scan = fetch->scan;
	uint64		nranges = rose_key_quals_nranges(scan->quals);
	uint64		next;

	if (nranges == 0)
		return false;
	if (!scan->active)
		next = forward ? 0 : nranges - 1;
	else if (forward ? scan->range_number + 1 >= nranges : scan->range_number == 0)
	{
		scan->active = false;
		rose_index_batch_end(&scan->batch);
		return false;
	}
	else
		next = forward ? scan->range_number + 1 : scan->range_number - 1;
	index_scan_enter_range(iscan, fetch, next);
	return true;
}

/* ---- index entries, for index-only scans ---- */

/* The row under the scan as an index entry. */
static void
index_scan_give_entry(IndexScanDesc iscan, RoseIndexScan *scan, const RoseRow *row)
{
	bool		nulls[INDEX_MAX_KEYS] = {false};
	int			natts = iscan->xs_itupdesc->natts;

	if (scan->of_entries)
	{
		rose_index_tuples_give_row(&scan->tuples, iscan, row, scan->tree->schema);
		return;
	}
	/* INCLUDE columns are the row's: nobody wants them of the entry (rose_primary_key_plan) */
	for (int i = scan->tree->schema->nkeys; i < natts; i++)
		nulls[i] = true;
	rose_index_tuples_give(&scan->tuples, iscan, row->key, nulls, natts > scan->tree->schema->nkeys);
}

/*
 * After a row of a stretch was given out: may what comes next of it be given out by index_scan_next_of_stretch?  It may if
 * nothing but its columns need to be looked at.
 */
static bool
index_scan_may_rush(IndexScanDesc iscan, const RoseIndexScan *scan)
{
	return iscan->xs_want_itup && scan->validator == NULL && !scan->point &&
		!rose_key_quals_has_checks(scan->quals) &&
		(scan->of_entries || iscan->xs_itupdesc->natts == scan->tree->schema->nkeys);
}

/*
 * The next entry of the stretch that is being given out, in the same direction as before: done for each entry of a long
 * range, so it is as short as can be.  False: not done, and nothing has changed.
 */
static inline bool
index_scan_next_of_stretch(IndexScanDesc iscan, RoseIndexFetch *fetch)
{
	RoseIndexScan *scan = fetch->scan;
	RoseStretch *stretch = scan->rush;
	int			slot;

	if (!rose_stretch_has_row(stretch) && !rose_scan_next_piece(scan->scan))
		return false;
	slot = stretch->next;
	if (!rose_index_tuples_give_decoded(&scan->tuples, iscan, stretch->rows, slot))
		return false;
	stretch->next++;
	scan->row.rows = stretch->rows;
	scan->row.slot = slot;
	scan->key_is_read = false;
	index_scan_name(fetch, &scan->row);
	fetch->row = &scan->row;
	fetch->of_entry = scan->of_entries;
	iscan->xs_heaptid = fetch->tid;
	return true;
}

/* ---- rows of entries ---- */

/* Whoever reads the entry has that which is made of the row. */
static void
replace_entry(IndexScanDesc iscan, RoseIndexScan *scan, const RoseEntry *entry)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	bool		any_null = false;

	for (int i = 0; i < iscan->xs_itupdesc->natts; i++)
	{
		values[i] = entry->values[scan->sources[i] - 1];
		nulls[i] = entry->nulls[scan->sources[i] - 1];
		any_null |= nulls[i];
	}
	rose_index_tuples_give(&scan->tuples, iscan, values, nulls, any_null);
}

/* The row of this key; a function that the validator has called may have looked up others. */
static const RoseRow *
entry_row_validated(RoseIndexFetch *fetch, Snapshot snapshot, const Datum *key)
{
	RoseIndexScan *scan = fetch->scan;
	const RoseRow *row = rose_lookup_get(rose_lookup_cached(fetch->tree), snapshot, key);
	const RoseEntry *entry = NULL;

	if (row != NULL)
		entry = rose_index_validator_agrees(scan->validator, row, fetch->row->key);
	if (entry == NULL)
		return NULL;
	if (scan->wants_entry != NULL)
		replace_entry(scan->wants_entry, scan, entry);
	if (!rose_index_validator_calls(scan->validator))
		return row;
	return rose_lookup_get(rose_lookup_cached(fetch->tree), snapshot, key);
}

/*
 * Is this the row's entry?  An MVCC snapshot sees what belongs together.  Others see the
 * present, and the row may have been changed since its entry was read.  While somebody
 * changes it, whoever asks is to wait for him.
 */
static bool
is_entry_of(RoseIndexFetch *fetch, const RoseRow *entry, const RoseRow *row, Snapshot snapshot)
{
	RoseTree   *index = fetch->scan->tree;
	const RoseIndexTree *described;
	Datum	   *values;
	bool	   *nulls;
	RoseEntry	expected;
	Datum		key[INDEX_MAX_KEYS];
	bool		same;

	if (likely(IsMVCCSnapshot(snapshot)) ||
		(snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		 (TransactionIdIsValid(snapshot->xmin) || TransactionIdIsValid(snapshot->xmax))))
		return true;
	described = rose_index_set_tree(fetch->tree, RelationGetRelid(index->rel));
	if (described == NULL || described->shape.validated)
		return true;
	values = palloc(fetch->tree->schema->natts * sizeof(Datum));
	nulls = palloc(fetch->tree->schema->natts * sizeof(bool));
	rose_row_deform(row, fetch->tree->schema, 1, fetch->tree->schema->natts, values, nulls);
	rose_entry_of_row(&described->shape, index->rel, ROSE_ENTRY_OF_OWNER, values, nulls,
					  row->version.rowid, &expected);
	if (expected.exists)
		rose_entry_key(index->schema, &expected, key);
	same = expected.exists &&
		rose_key_compare(index->schema, key, entry->key, index->schema->nkeys) == 0;
	pfree(values);
	pfree(nulls);
	return same;
}

const RoseRow *
rose_index_entry_row(RoseIndexFetch *fetch, Snapshot snapshot, ItemPointer tid, bool *shared)
{
	RoseIndexScan *scan = fetch->scan;
	bool		of_batch = fetch->row == &scan->batch.entry;
	Datum		key[INDEX_MAX_KEYS];
	const RoseRow *row;
	bool		isnull;

	*shared = false;
	if (of_batch && (row = rose_index_batch_row(&scan->batch, tid)) != NULL)
	{
		if (scan->validator != NULL &&
			rose_index_validator_agrees(scan->validator, row, fetch->row->key) == NULL)
			return NULL;
		fetch->tid = *tid;
		return row;
	}
	*shared = true;
	for (int i = 0; i < rose_schema_key_width(fetch->tree->schema); i++)
		key[i] = of_batch ? rose_index_batch_row_key(&scan->batch)[i] :
			rose_row_getattr(fetch->row, scan->tree->schema, scan->row_key[i], &isnull);
	rose_predicate_lock_key(fetch->tree, key, snapshot);
	if (unlikely(scan->validator != NULL))
		row = entry_row_validated(fetch, snapshot, key);
	else
		row = rose_lookup_get(rose_lookup_cached(fetch->tree), snapshot, key);
	if (row == NULL || !is_entry_of(fetch, fetch->row, row, snapshot))
		return NULL;
	rose_lookup_tid(rose_lookup_cached(fetch->tree), &fetch->tid);
	*tid = fetch->tid;
	return row;
}

/* ---- the next one ---- */

/* If it is not one that index_scan_next_of_stretch gives out; kept apart, to keep that short. */
static pg_noinline bool
index_scan_next(IndexScanDesc iscan, RoseIndexFetch *fetch, ScanDirection direction)
{
	RoseIndexScan *scan = fetch->scan;
	bool		forward = !ScanDirectionIsBackward(direction);
	const RoseRow *row;

	scan->rush = NULL;
	fetch->row = NULL;
	fetch->of_entry = scan->of_entries;
	fetch->key_only = iscan->xs_want_itup;
	fetch->unsure = scan->validator != NULL;
	scan->wants_entry = iscan->xs_want_itup ? iscan : NULL;
	iscan->xs_recheck = false;
	if (scan->quals == NULL)
		index_scan_prepare(iscan, fetch);
	forward = forward != scan->turned;
	scan->direction = forward ? ForwardScanDirection : BackwardScanDirection;

	if (!scan->active && !index_scan_next_range(iscan, fetch, forward))
		return false;
	for (;;)
	{
		row = index_scan_next_row(iscan, fetch);
		if (row && (scan->point || row == &scan->batch.entry ||
					rose_key_quals_match(scan->quals, row->key)))
			break;
		if (row == NULL && !index_scan_next_range(iscan, fetch, forward))
			return false;
	}

	fetch->row = row;
	fetch->row_is_shared = scan->point;
	iscan->xs_heaptid = fetch->tid;
	if (iscan->xs_want_itup)
		index_scan_give_entry(iscan, scan, row);
	if (row == &scan->row && index_scan_may_rush(iscan, scan))
	{
		scan->rush = rose_scan_stretch(scan->scan);
		scan->rush_direction = direction;
	}
	return true;
}

bool
rose_index_gettuple(IndexScanDesc iscan, ScanDirection direction)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) iscan->xs_heapfetch;
	const RoseIndexScan *scan = fetch->scan;

	if (likely(scan->rush != NULL) && direction == scan->rush_direction &&
		index_scan_next_of_stretch(iscan, fetch))
		return true;
	return index_scan_next(iscan, fetch, direction);
}

/* ---- mark and restore ---- */

void
rose_index_markpos(IndexScanDesc iscan)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) iscan->xs_heapfetch;
	RoseIndexScan *scan = fetch->scan;

	if (scan->active && fetch->row == NULL && !scan->point)
		return;					/* restored just now: the mark is where we are */
	scan->marked = scan->active;
	if (!scan->marked)
		return;
	scan->mark_range = scan->range_number;
	if (scan->point)
		return;
	if (scan->mark_context == NULL)
		scan->mark_context = AllocSetContextCreate(scan->context, "rose index scan mark",
												   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(scan->mark_context);
	if (fetch->row == &scan->row && !scan->key_is_read)
		scan->row.rows->ops->key(scan->row.rows, scan->row.slot, scan->key);
	rose_key_copy(scan->tree->schema, scan->mark_key, fetch->row->key, scan->mark_context);
	scan->mark_direction = scan->direction;
}

/*
 * Scan the rest of the marked range, beginning with the marked row, and step over
 * that.  Rows before it cannot be reached any more, which nobody asks for:
 * plans that restore do not turn around.
 */
void
rose_index_restrpos(IndexScanDesc iscan)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) iscan->xs_heapfetch;
	RoseIndexScan *scan = fetch->scan;

	fetch->row = NULL;
	scan->active = false;
	scan->rush = NULL;
	rose_index_batch_drop(&scan->batch, 1);
	if (!scan->marked)
		return;

	scan->range_number = scan->mark_range;
	if (scan->point)
	{
		rose_key_quals_range(scan->quals, scan->mark_range, &scan->range);
		scan->point_done = true;
		scan->active = true;
		return;
	}
	index_scan_go_behind(scan, scan->mark_key, scan->mark_direction);
	scan->active = true;
}
