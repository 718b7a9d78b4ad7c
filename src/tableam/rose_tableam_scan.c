/*-------------------------------------------------------------------------
 *
 * rose_tableam_scan.c
 *	  Reading: sequential scans, rows by TID, and the table side of index scans.
 *
 * A thin layer over lsm/read/rose_scan.h.  Scans come in key order, but for those of queries that only
 * read and never turn, of tables that are in memory (lsm/read/rose_arrival.h).  One process
 * scans for all in a parallel scan: the first that asks.  (The planner is told
 * to make parallel scans of rose tables by scan/rose_node_parallel.c alone; this keeps others correct.)
 *
 * Locks are those that scans and lookups take; none is held between two calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "access/xact.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"

typedef struct RoseParallelScanShared
{
	ParallelTableScanDescData base;
	pg_atomic_uint32 claimed;	/* a process scans; no lock */
} RoseParallelScanShared;

Snapshot	rose_scan_any_order = NULL;

/* ---- scans ---- */

TableScanDesc
rose_scan_begin_callback(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *keys,
						 ParallelTableScanDesc pscan, uint32 flags)
{
	RoseTableScan *scan = palloc0(sizeof(RoseTableScan));

	/* of a copy that is not whole yet: its rows are nobody's (repl/rose_staging.c) */
	if (rel->rd_rel->relkind == RELKIND_TOASTVALUE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot read \"%s\", which has the rows of a copy that is not whole yet", RelationGetRelationName(rel))));
	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	if (nkeys > 0)
	{
		scan->base.rs_key = palloc(sizeof(ScanKeyData) * nkeys);
		if (keys)
			memcpy(scan->base.rs_key, keys, sizeof(ScanKeyData) * nkeys);
	}
	scan->context = CurrentMemoryContext;
	scan->any_order = (flags & SO_TYPE_SEQSCAN) != 0 && snapshot == rose_scan_any_order &&
		snapshot != NULL && pscan == NULL && nkeys == 0;
	scan->tree = (flags & SO_TYPE_ANALYZE) ? rose_tree_open_any_order(rel) : rose_tree_open(rel);

	/* who looks for a ctid may have it from another transaction, with its snapshot, and have read nothing yet */
	if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN | SO_TYPE_TIDSCAN))
		PredicateLockRelation(rel, snapshot);
	if (flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(rel);
	return &scan->base;
}

bool
rose_scan_same_layout(TupleDesc a, TupleDesc b)
{
	if (a->natts != b->natts)
		return false;
	for (int i = 0; i < a->natts; i++)
	{
		Form_pg_attribute x = TupleDescAttr(a, i);
		Form_pg_attribute y = TupleDescAttr(b, i);

		if (x->attisdropped != y->attisdropped || x->atttypid != y->atttypid)
			return false;
	}
	return true;
}

/* Would the scan push too much else out of the cache?  The limit is heap's. */
static bool
scan_is_bulk(const RoseTableScan *scan)
{
	return (scan->base.rs_flags & SO_ALLOW_STRAT) != 0 &&
		RelationGetNumberOfBlocks(scan->base.rs_rd) > NBuffers / 4;
}

/*
 * First row of a sequential scan.  ALTER TABLE reads the old file by the old
 * descriptor, which only its slot has, while the catalog says otherwise already.
 */
static void
scan_start(RoseTableScan *scan, TupleTableSlot *slot)
{
	Relation	rel = scan->base.rs_rd;
	MemoryContext old = MemoryContextSwitchTo(scan->context);

	if (!rose_scan_same_layout(slot->tts_tupleDescriptor, scan->tree->schema->tupdesc))
	{
		scan->tree = rose_tree_open_as(rel, slot->tts_tupleDescriptor, scan->context);
		scan->own_table = true;
	}
	else if (scan->any_order)
		scan->arrival = rose_arrival_begin(scan->tree, scan->base.rs_snapshot);
	if (scan->arrival != NULL)
		scan->stretch = rose_arrival_stretch(scan->arrival);
	else
		scan->scan = rose_scan_begin(scan->tree, scan->base.rs_snapshot, NULL, scan_is_bulk(scan));
	if (scan->arrival == NULL && scan->base.rs_nkeys == 0)
		scan->stretch = rose_scan_stretch(scan->scan);
	MemoryContextSwitchTo(old);
}

/* Back to where scan_start begins. */
static void
scan_stop(RoseTableScan *scan)
{
	if (scan->scan)
		rose_scan_end(scan->scan);
	if (scan->arrival)
		rose_arrival_end(scan->arrival);
	scan->scan = NULL;
	scan->arrival = NULL;
	scan->stretch = NULL;
	scan->left_at = 0;
}

void
rose_scan_end_callback(TableScanDesc sscan)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;

	scan_stop(scan);
	if (scan->slices)
		rose_slices_free(scan->slices);
	if (scan->own_table)
		rose_tree_close_as(scan->tree);
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (sscan->rs_key)
		pfree(sscan->rs_key);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(scan);
}

void
rose_scan_rescan(TableScanDesc sscan, struct ScanKeyData *keys, bool set_params,
				 bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;

	if (keys && sscan->rs_nkeys > 0)
		memcpy(sscan->rs_key, keys, sizeof(ScanKeyData) * sscan->rs_nkeys);
	if (scan->arrival != NULL || scan->left_at > 0)
		scan_stop(scan);
	else if (scan->scan)
		rose_scan_reset(scan->scan, NULL);
	if (sscan->rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(sscan->rs_rd);
	if (scan->slices)
		rose_slices_free(scan->slices);
	scan->slices = NULL;
	scan->asked = false;
}

/* In a parallel scan: is this the process that scans? */
static bool
scan_is_granted(RoseTableScan *scan)
{
	RoseParallelScanShared *shared = (RoseParallelScanShared *) scan->base.rs_parallel;

	if (shared == NULL)
		return true;
	if (!scan->asked)
	{
		uint32		unclaimed = 0;

		scan->asked = true;
		scan->granted = pg_atomic_compare_exchange_u32(&shared->claimed, &unclaimed, 1);
	}
	return scan->granted;
}

/* The scan keys that internal callers of table scans may give; the executor gives none. */
static bool
scan_keys_match(const RoseTableScan *scan, const RoseRow *row)
{
	for (int i = 0; i < scan->base.rs_nkeys; i++)
	{
		ScanKey		key = &scan->base.rs_key[i];
		bool		isnull;
		Datum		value;

		if (key->sk_flags & SK_ISNULL)
			return false;
		value = rose_row_getattr(row, scan->tree->schema, key->sk_attno, &isnull);
		if (isnull ||
			!DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
											value, key->sk_argument)))
			return false;
	}
	return true;
}

/* The next row that was not given out in the order of arrival. */
static const RoseRow *
scan_next_left(RoseTableScan *scan, ScanDirection direction)
{
	const RoseRow *row;

	do
		row = rose_scan_next(scan->scan, direction);
	while (row != NULL && row->version.seq < scan->left_at);
	return row;
}

/* The next row, not from a stretch. */
static bool
scan_store_row(RoseTableScan *scan, const RoseRow *row, TupleTableSlot *slot)
{
	ItemPointerData tid;

	if (row == NULL)
	{
		ExecClearTuple(slot);
		return false;
	}
	pgstat_count_heap_getnext(scan->base.rs_rd);
	rose_scan_tid(scan->scan, &tid);
	rose_slot_store(slot, scan->tree, row, &tid);
	return true;
}

static bool
scan_next_row(RoseTableScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	const RoseRow *row = NULL;

	if (scan_is_granted(scan))
	{
		do
			row = scan->left_at > 0 ? scan_next_left(scan, direction) :
				rose_scan_next_keyed(scan->scan, direction);
		while (row && !scan_keys_match(scan, row));
	}
	return scan_store_row(scan, row, slot);
}

/* The next row of a scan that takes rows from stretches, when its stretch has no row left. */
static bool
scan_next_stretch(RoseTableScan *scan, TupleTableSlot *slot)
{
	const RoseRow *row = NULL;

	if (scan_is_granted(scan))
	{
		/* its leaf can be used for the next page, if the slot does not keep it */
		ExecClearTuple(slot);
		row = rose_scan_next_stretch(scan->scan, ForwardScanDirection);
		if (rose_stretch_has_row(scan->stretch))
		{
			pgstat_count_heap_getnext(scan->base.rs_rd);
			rose_slot_open_stretch(slot, scan->tree, scan->stretch);
			return true;
		}
	}
	return scan_store_row(scan, row, slot);
}

/* The same in the order of arrival: true, or there is none, or the scan is one in the order of keys from here on. */
static bool
scan_next_arrivals(RoseTableScan *scan, TupleTableSlot *slot)
{
	MemoryContext old;

	ExecClearTuple(slot);
	switch (rose_arrival_next(scan->arrival))
	{
		case ROSE_ARRIVAL_ROWS:
			pgstat_count_heap_getnext(scan->base.rs_rd);
			rose_slot_open_stretch(slot, scan->tree, scan->stretch);
			return true;
		case ROSE_ARRIVAL_END:
			return false;
		case ROSE_ARRIVAL_LEFT:
			break;
	}
	scan->left_at = rose_arrival_next_seq(scan->arrival);
	rose_arrival_end(scan->arrival);
	scan->arrival = NULL;
	scan->stretch = NULL;
	old = MemoryContextSwitchTo(scan->context);
	scan->scan = rose_scan_begin(scan->tree, scan->base.rs_snapshot, NULL, scan_is_bulk(scan));
	MemoryContextSwitchTo(old);
	return false;
}

/* The next row if the stretch has none, or the slot is not on it; kept apart, to keep what is done for each row short. */
static pg_noinline bool
scan_getnextslot_slowly(RoseTableScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	if (scan->scan == NULL && scan->arrival == NULL)
		scan_start(scan, slot);
	if (scan->any_order && ScanDirectionIsBackward(direction))
		elog(ERROR, "scan of \"%s\" turns, which its query was not to do",
			 RelationGetRelationName(scan->base.rs_rd));
	if (scan->arrival != NULL && !rose_stretch_has_row(scan->stretch))
	{
		if (scan_next_arrivals(scan, slot))
			return true;
		if (scan->arrival != NULL)
			return false;
	}
	if (scan->stretch == NULL || !ScanDirectionIsForward(direction))
	{
		/* who turns leaves the stretch, which may be a backward one, by taking a row by itself */
		scan->stretch = ScanDirectionIsForward(direction) && scan->base.rs_nkeys == 0 && scan->left_at == 0 ?
			rose_scan_stretch(scan->scan) : NULL;
		return scan_next_row(scan, direction, slot);
	}
	if (!rose_stretch_has_row(scan->stretch) && !rose_scan_next_piece(scan->scan))
		return scan_next_stretch(scan, slot);

	pgstat_count_heap_getnext(scan->base.rs_rd);
	if (rose_slot_on_stretch(slot, scan->stretch))
		rose_slot_next_of_stretch(slot, scan->stretch);
	else if (rose_slot_in_stretch(slot, scan->tree))
		rose_slot_switch_stretch(slot, scan->stretch);
	else
		rose_slot_open_stretch(slot, scan->tree, scan->stretch);
	return true;
}

bool
rose_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;
	RoseStretch *stretch = scan->stretch;

	if (unlikely(stretch == NULL || !ScanDirectionIsForward(direction) ||
				 !rose_stretch_has_row(stretch) || !rose_slot_on_stretch(slot, stretch)))
		return scan_getnextslot_slowly(scan, direction, slot);
	pgstat_count_heap_getnext(sscan->rs_rd);
	rose_slot_next_of_stretch(slot, stretch);
	return true;
}

/* ---- parallel scans ---- */

Size
rose_parallelscan_estimate(Relation rel)
{
	return sizeof(RoseParallelScanShared);
}

Size
rose_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	RoseParallelScanShared *shared = (RoseParallelScanShared *) pscan;

	rose_parallel_scan_set_rel(pscan, rel);
	pg_atomic_init_u32(&shared->claimed, 0);
	return sizeof(RoseParallelScanShared);
}

void
rose_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan)
{
	RoseParallelScanShared *shared = (RoseParallelScanShared *) pscan;

	pg_atomic_write_u32(&shared->claimed, 0);
}

/* ---- the table side of index scans ---- */

static const RoseWanted *
wanted_of_slot(TupleTableSlot *slot)
{
	return rose_slot_wanted((RoseTupleSlot *) slot);
}

IndexFetchTableData *
rose_index_fetch_begin(Relation rel)
{
	RoseIndexFetch *fetch = palloc0(sizeof(RoseIndexFetch));

	rose_primary_key_attach(rel);
	fetch->base.rel = rel;
	fetch->tree = rose_tree_open(rel);
	fetch->context = CurrentMemoryContext;
	fetch->wanted = wanted_of_slot;
	return &fetch->base;
}

void
rose_index_fetch_reset(IndexFetchTableData *data)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) data;

	fetch->row = NULL;
}

void
rose_index_fetch_end(IndexFetchTableData *data)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) data;

	if (fetch->scan)
		rose_index_scan_free(fetch->scan);
	pfree(fetch);
}

/*
 * May somebody ask which row this is of, by its TID?  WHERE CURRENT OF does, of a scan that
 * returns entries alone, too; but the portal that runs must have a name for that, which those of EXECUTE
 * tell nobody.
 */
static inline bool
may_be_current_of(void)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible;
}

/* Who wants nothing but the entry under the scan, which tells exactly what the snapshot sees, has it. */
static inline bool
entry_is_enough(const RoseIndexFetch *fetch, const ItemPointerData *tid)
{
	return fetch->key_only && fetch->of_entry && !fetch->unsure && fetch->row != NULL &&
		ItemPointerGetBlockNumberNoCheck(tid) == ItemPointerGetBlockNumberNoCheck(&fetch->tid) &&
		ItemPointerGetOffsetNumberNoCheck(tid) == ItemPointerGetOffsetNumberNoCheck(&fetch->tid) &&
		!may_be_current_of();
}

/* The row of the entry under the scan of a secondary index, if the entry is not enough. */
static bool
fetch_of_entry(RoseIndexFetch *fetch, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	bool		shared;
	const RoseRow *row = rose_index_entry_row(fetch, snapshot, tid, &shared);

	if (row == NULL)
		return false;
	if (fetch->key_only)
		ExecClearTuple(slot);
	else if (!shared)
		rose_slot_store(slot, fetch->tree, row, tid);
	else
		rose_slot_store_shared(slot, fetch->tree, row, tid);
	return true;
}

/*
 * The version that a TID names.  Who has it from a trigger's event, for a deferred check,
 * wants what the transaction has made of that row since, as heap gives it from the same
 * page: an update that changes no column of the index is not checked by itself.
 */
static const RoseRow *
fetch_by_tid(RoseIndexFetch *fetch, const ItemPointerData *tid, Snapshot snapshot)
{
	RoseLookup *lookup = rose_lookup_cached(fetch->tree);
	const RoseRow *row = rose_lookup_fetch_tid(lookup, tid, snapshot);
	ItemPointerData newest = *tid;

	if (row != NULL || snapshot->snapshot_type != SNAPSHOT_SELF)
		return row;
	rose_lookup_latest_tid(lookup, snapshot, &newest);
	return rose_lookup_fetch_tid(lookup, &newest, snapshot);
}

/*
 * Nearly always the TID is that of the row under the index scan, which is at hand and
 * known to be visible.  That is all that an index-only scan asks for: it clears the slot
 * at once.
 */
static pg_noinline bool
fetch_row(RoseIndexFetch *fetch, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	const RoseRow *row = fetch->row;
	bool		shared = fetch->row_is_shared;

	fetch->slot = rose_slot_is_of_plan(slot) ? slot : NULL;
	if (row == NULL || !ItemPointerEquals(tid, &fetch->tid))
	{
		fetch->of_entry = false;
		row = fetch_by_tid(fetch, tid, snapshot);
		shared = true;
	}
	if (row == NULL)
		return false;
	if (fetch->of_entry)
		return fetch_of_entry(fetch, tid, snapshot, slot);
	if (fetch->key_only)
		ExecClearTuple(slot);
	else if (shared)
		rose_slot_store_shared(slot, fetch->tree, row, tid);
	else
		rose_slot_store(slot, fetch->tree, row, tid);
	if (fetch->row_is_shared)
		fetch->row = NULL;
	return true;
}

bool
rose_index_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot,
					   TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	RoseIndexFetch *fetch = (RoseIndexFetch *) data;

	*call_again = false;
	if (all_dead)
		*all_dead = false;
	if (!entry_is_enough(fetch, tid))
		return fetch_row(fetch, tid, snapshot, slot);
	if (!TTS_EMPTY(slot))
		ExecClearTuple(slot);
	return true;
}

/* ---- rows by TID ---- */

bool
rose_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	RoseTree   *tree = rose_tree_open(rel);
	const RoseRow *row = rose_lookup_fetch_tid(rose_lookup_cached(tree), tid, snapshot);
	ItemPointerData copy;

	if (row == NULL)
		return false;
	copy = *tid;				/* may be the slot's own */
	rose_slot_store_shared(slot, tree, row, &copy);
	return true;
}

bool
rose_tid_valid(TableScanDesc sscan, ItemPointer tid)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;

	return ItemPointerIsValid(tid) && rose_tid_known(scan->tree, tid);
}

/* The newest version of the row that the scan sees; for WHERE CURRENT OF. */
void
rose_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	RoseTableScan *scan = (RoseTableScan *) sscan;

	rose_lookup_latest_tid(rose_lookup_cached(scan->tree), sscan->rs_snapshot, tid);
}

bool
rose_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	RoseLookup *lookup = rose_lookup_cached(rose_tree_open(rel));

	return rose_lookup_fetch_tid(lookup, &slot->tts_tid, snapshot) != NULL;
}

/* Called by index access methods that store TIDs; rose has none. */
TransactionId
rose_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rose table \"%s\" cannot have indexes that store tuple identifiers",
					RelationGetRelationName(rel))));
	return InvalidTransactionId;	/* keep compiler quiet */
}
