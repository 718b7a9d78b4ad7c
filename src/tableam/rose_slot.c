/*-------------------------------------------------------------------------
 *
 * rose_slot.c
 *	  Tuple table slots for rows of rose tables.
 *
 * A rose slot is a virtual slot that may have a row behind it.  With a row,
 * tts_values is filled from it when columns are asked for; without one (the
 * executor stored values, or the row was materialized) it behaves as a
 * virtual slot does, and core's own functions do the work.
 *
 * A row that is one of rows in place (lsm/component/rose_rows.h) stays valid by a
 * reference to them.  One that is a tuple is copied into a buffer that belongs to the
 * slot.
 *
 * A statement that fails leaves its slots as they are, and their memory goes.  What a
 * scan has read goes with it; but the leaves of a cached lookup live as long as the
 * transaction.  So a slot that refers to one of them learns of the end of its memory by a
 * callback.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "compat/rose_compat_am.h"
#include "tableam/rose_slot.h"

/* Of so many columns it is worth asking which are read. */
#define COLUMNS_TO_CHOOSE	4

/* In the slot's memory, but not in the slot, which may be freed before: a callback stays. */
struct RoseSlotGuard
{
	MemoryContextCallback callback;
	RoseTupleSlot *slot;		/* NULL: it was released */
	LocalTransactionId lxid;	/* whose leaves it refers to */
};

static void
rose_slot_init(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rslot->has_row = false;
	rslot->in_stretch = false;
	rslot->version = ROSE_SLOT_NO_VERSION;
	rslot->buffer = NULL;
	rslot->buffer_size = 0;
	rslot->rows_are_shared = false;
	rslot->guard = NULL;
	rslot->plan = NULL;
	rslot->reader = NULL;
	rslot->wanted = NULL;
	rslot->skipped = false;
}

/* Let go of the row; decoded values that point into it become invalid. */
static void
rose_slot_drop_row(RoseTupleSlot *rslot)
{
	if (!rslot->has_row)
		return;
	rose_rows_release(rslot->row.rows);
	rslot->row.rows = NULL;
	rslot->row.tuple = NULL;
	rslot->has_row = false;
	rslot->in_stretch = false;
	rslot->rows_are_shared = false;
}

/* Read the version of a row of which only its place is known yet. */
static void
rose_slot_need_version(RoseTupleSlot *rslot)
{
	RoseRow    *row = &rslot->row;

	if (rslot->version != ROSE_SLOT_VERSION_IN_ROWS)
		return;
	row->rows->ops->version(row->rows, row->slot, &row->version);
	row->version.present = NULL;
	rslot->version = ROSE_SLOT_HAS_VERSION;
}

static void
rose_slot_clear(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rose_slot_drop_row(rslot);
	rslot->version = ROSE_SLOT_NO_VERSION;
	TTSOpsVirtual.clear(slot);
}

static void
rose_slot_release(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rose_slot_drop_row(rslot);
	if (rslot->buffer)
		pfree(rslot->buffer);
	rslot->buffer = NULL;
	rslot->buffer_size = 0;
	if (rslot->guard)
		rslot->guard->slot = NULL;
	rslot->guard = NULL;
}

/* The columns up to natts that are wanted; others are NULL. */
static void
take_wanted(RoseTupleSlot *rslot, const RoseWanted *wanted, int natts)
{
	TupleTableSlot *slot = &rslot->base.base;
	const RoseRow *row = &rslot->row;
	int			nvalid = slot->tts_nvalid;

	rslot->skipped = true;
	memset(slot->tts_values + nvalid, 0, (natts - nvalid) * sizeof(Datum));
	memset(slot->tts_isnull + nvalid, true, (natts - nvalid) * sizeof(bool));
	for (int i = 0; i < wanted->n && wanted->attnos[i] <= natts; i++)
		if (wanted->attnos[i] > nvalid)
			(void) rose_rows_attrs(row->rows, row->slot, wanted->attnos[i], wanted->attnos[i],
								   slot->tts_values, slot->tts_isnull);
	slot->tts_nvalid = natts;
}

/* Of rows in place. */
static void
take_columns(RoseTupleSlot *rslot, int natts)
{
	TupleTableSlot *slot = &rslot->base.base;
	const RoseRow *row = &rslot->row;
	const RoseWanted *wanted = NULL;

	if (rslot->in_stretch && unlikely(!rose_rows_in_window(row->rows, row->slot)))
		row->rows->ops->ahead(row->rows, row->slot);
	if (slot->tts_nvalid == 0)
		rslot->skipped = false;
	if (natts >= COLUMNS_TO_CHOOSE)
		wanted = rose_slot_wanted(rslot);
	if (wanted != NULL && natts <= wanted->last)
	{
		take_wanted(rslot, wanted, natts);
		return;
	}
	if (rslot->skipped)
		slot->tts_nvalid = 0;	/* somebody wants what the plan does not */
	rslot->skipped = false;
	slot->tts_nvalid = rose_rows_attrs(row->rows, row->slot, slot->tts_nvalid + 1, natts,
									   slot->tts_values, slot->tts_isnull);
}

static void
rose_slot_getsomeattrs(TupleTableSlot *slot, int natts)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;
	const RoseRow *row = &rslot->row;

	if (!rslot->has_row)
		elog(ERROR, "rose slot has no row to take columns from");

	if (row->tuple == NULL)
	{
		take_columns(rslot, natts);
		return;
	}
	rose_tuple_deform(row->tuple, rslot->schema, natts, slot->tts_values, slot->tts_isnull);
	slot->tts_nvalid = natts;
}

/* All columns, of a row that is kept or copied, those that were skipped, too. */
static void
take_all(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	if (rslot->has_row && rslot->skipped && rslot->row.tuple == NULL)
	{
		rslot->skipped = false;
		slot->tts_nvalid = 0;
		(void) rose_rows_attrs(rslot->row.rows, rslot->row.slot, 1,
							   slot->tts_tupleDescriptor->natts, slot->tts_values,
							   slot->tts_isnull);
		slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
		return;
	}
	slot_getallattrs(slot);
}

/*
 * The xid that wrote the row, in the 32 bits of the type xid.  Components keep
 * xids for ever, so one from before the last wraparound must not be taken for
 * a recent one.
 */
static TransactionId
rose_slot_xmin(const RoseVersion *version)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (TransactionIdIsValid(version->subxid))
		return version->subxid;
	if (next - U64FromFullTransactionId(version->xid) > PG_INT32_MAX)
		return FrozenTransactionId;
	return XidFromFullTransactionId(version->xid);
}

static Datum
rose_slot_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	rose_slot_need_version(rslot);
	if (rslot->version == ROSE_SLOT_NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot retrieve a system column in this context")));

	*isnull = false;
	switch (attnum)
	{
		case MinTransactionIdAttributeNumber:
			return TransactionIdGetDatum(rose_slot_xmin(&rslot->row.version));
		case MinCommandIdAttributeNumber:
		case MaxCommandIdAttributeNumber:
			return CommandIdGetDatum(rslot->row.version.cid);
		case MaxTransactionIdAttributeNumber:
			/* versions do not know what supersedes them, nor who has locked them */
			if (rslot->version == ROSE_SLOT_REPLACES_LOCKED)
				return TransactionIdGetDatum(rose_slot_xmin(&rslot->row.version));
			return TransactionIdGetDatum(InvalidTransactionId);
		default:
			elog(ERROR, "invalid system attribute number %d", attnum);
	}
	return (Datum) 0;
}

#ifdef ROSE_HAVE_SLOT_CURRENT_XACT
static bool
rose_slot_is_current_xact(TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin = rose_slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	return TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
}
#endif

static void
rose_slot_keep_tuple(RoseTupleSlot *rslot, MinimalTuple tuple)
{
	if (rslot->buffer_size < tuple->t_len)
	{
		Size		size = Max(tuple->t_len, 256);

		if (rslot->buffer)
			pfree(rslot->buffer);
		rslot->buffer = NULL;
		rslot->buffer_size = 0;
		rslot->buffer = MemoryContextAllocHuge(rslot->base.base.tts_mcxt, size);
		rslot->buffer_size = size;
	}
	memcpy(rslot->buffer, tuple, tuple->t_len);
	rslot->row.tuple = (MinimalTuple) rslot->buffer;
}

static void
rose_slot_materialize(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	if (rslot->has_row)
	{
		/* a copied tuple is the slot's own already */
		if (rslot->row.tuple != NULL)
			return;
		rose_slot_need_version(rslot);
		take_all(slot);
	}
	TTSOpsVirtual.materialize(slot);
	rose_slot_drop_row(rslot);
}

static void
rose_slot_copyslot(TupleTableSlot *dst, TupleTableSlot *src)
{
	RoseTupleSlot *rdst = (RoseTupleSlot *) dst;

	rose_slot_clear(dst);
	if (ROSE_SLOT_IS(src))
		take_all(src);
	TTSOpsVirtual.copyslot(dst, src);
	if (ROSE_SLOT_IS(src))
	{
		RoseTupleSlot *rsrc = (RoseTupleSlot *) src;

		rose_slot_need_version(rsrc);
		rdst->version = rsrc->version;
		rdst->row.version = rsrc->row.version;
		dst->tts_tid = src->tts_tid;
		dst->tts_tableOid = src->tts_tableOid;
	}
}

/*
 * All columns, for a copy.  Not in the caller's memory context: it may be one that cannot
 * free (since 17, tuplesort keeps its tuples in such a one), and fetching a large value
 * frees what it needed for a moment.
 */
static void
rose_slot_get_all(TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(slot->tts_mcxt);

	take_all(slot);
	MemoryContextSwitchTo(old);
}

static HeapTuple
rose_slot_copy_heap_tuple(TupleTableSlot *slot)
{
	HeapTuple	tuple;

	rose_slot_get_all(slot);
	tuple = TTSOpsVirtual.copy_heap_tuple(slot);
	tuple->t_self = slot->tts_tid;
	tuple->t_tableOid = slot->tts_tableOid;
	return tuple;
}

static MinimalTuple
rose_slot_copy_minimal_tuple(ROSE_COPY_MINIMAL_ARGS)
{
	rose_slot_get_all(slot);
	return rose_virtual_copy_minimal();
}

const TupleTableSlotOps rose_slot_ops = {
	.base_slot_size = sizeof(RoseTupleSlot),
	.init = rose_slot_init,
	.release = rose_slot_release,
	.clear = rose_slot_clear,
	.getsomeattrs = rose_slot_getsomeattrs,
	.getsysattr = rose_slot_getsysattr,
	ROSE_SLOT_IS_CURRENT_XACT(rose_slot_is_current_xact)
	.materialize = rose_slot_materialize,
	.copyslot = rose_slot_copyslot,

	/* a rose slot owns no tuple in heap's format */
	.get_heap_tuple = NULL,
	.get_minimal_tuple = NULL,

	.copy_heap_tuple = rose_slot_copy_heap_tuple,
	.copy_minimal_tuple = rose_slot_copy_minimal_tuple,
};

/* Is the slot made for rows of this table?  ALTER TABLE must not get here unprepared. */
static void
rose_slot_check(TupleTableSlot *slot, RoseTree *tree)
{
	Assert(ROSE_SLOT_IS(slot));
	if (unlikely(slot->tts_tupleDescriptor->natts != tree->schema->natts))
		elog(ERROR, "slot has %d columns, but rows of table \"%s\" have %d",
			 slot->tts_tupleDescriptor->natts, RelationGetRelationName(tree->rel),
			 tree->schema->natts);
}

void
rose_slot_store(TupleTableSlot *slot, RoseTree *tree, const RoseRow *row,
				const ItemPointerData *tid)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rose_slot_check(slot, tree);
	rose_slot_clear(slot);

	rslot->row = *row;
	rslot->row.key = NULL;
	rslot->row.version.present = NULL;
	rslot->schema = tree->schema;
	if (row->tuple)
	{
		rslot->row.rows = NULL;
		rose_slot_keep_tuple(rslot, row->tuple);
	}
	else
		rose_rows_hold(row->rows);
	rslot->has_row = true;
	rslot->version = row->version.op != 0 ? ROSE_SLOT_HAS_VERSION : ROSE_SLOT_VERSION_IN_ROWS;

	slot->tts_tid = *tid;
	slot->tts_tableOid = RelationGetRelid(tree->rel);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

void
rose_slot_clear_list(List *slots)
{
	ListCell   *cell;

	foreach(cell, slots)
	{
		TupleTableSlot *slot = lfirst_node(TupleTableSlot, cell);

		if (ROSE_SLOT_IS(slot))
			ExecClearTuple(slot);
	}
}

/* The slot's memory goes.  After the end of the transaction the leaves are gone, too. */
static void
guard_memory_goes(void *arg)
{
	RoseSlotGuard *guard = arg;

	if (guard->slot != NULL && guard->slot->rows_are_shared && guard->lxid == rose_my_lxid())
		rose_rows_release(guard->slot->row.rows);
}

static RoseSlotGuard *
make_guard(RoseTupleSlot *rslot)
{
	MemoryContext context = rslot->base.base.tts_mcxt;
	RoseSlotGuard *guard = MemoryContextAlloc(context, sizeof(RoseSlotGuard));

	guard->slot = rslot;
	guard->callback.func = guard_memory_goes;
	guard->callback.arg = guard;
	MemoryContextRegisterResetCallback(context, &guard->callback);
	return guard;
}

void
rose_slot_store_shared(TupleTableSlot *slot, RoseTree *tree, const RoseRow *row,
					   const ItemPointerData *tid)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rose_slot_store(slot, tree, row, tid);
	if (rslot->row.rows == NULL)
		return;
	if (rslot->guard == NULL)
		rslot->guard = make_guard(rslot);
	rslot->guard->lxid = rose_my_lxid();
	rslot->rows_are_shared = true;
}

void
rose_slot_open_stretch(TupleTableSlot *slot, RoseTree *tree, RoseStretch *stretch)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rose_slot_check(slot, tree);
	rose_slot_clear(slot);

	memset(&rslot->row, 0, sizeof(RoseRow));
	rslot->row.rows = stretch->rows;
	rose_rows_hold(stretch->rows);
	rslot->schema = tree->schema;
	rslot->has_row = true;
	rslot->in_stretch = true;

	slot->tts_tableOid = RelationGetRelid(tree->rel);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	rose_slot_next_of_stretch(slot, stretch);
}

void
rose_slot_switch_stretch(TupleTableSlot *slot, RoseStretch *stretch)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;
	RoseRows   *rows = rslot->row.rows;

	Assert(rslot->in_stretch);
	rslot->row.rows = stretch->rows;
	rose_rows_hold(stretch->rows);
	rose_rows_release(rows);
	rose_slot_next_of_stretch(slot, stretch);
}

void
rose_slot_open_values(TupleTableSlot *slot, RoseTree *tree)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	rose_slot_check(slot, tree);
	rose_slot_clear(slot);
	memset(slot->tts_values, 0, natts * sizeof(Datum));
	memset(slot->tts_isnull, true, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(tree->rel);
}

void
rose_slot_set_version(TupleTableSlot *slot, const RoseVersion *version)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rslot->row.version = *version;
	rslot->row.version.present = NULL;
	rslot->version = ROSE_SLOT_HAS_VERSION;
}

void
rose_slot_written(TupleTableSlot *slot, RoseTree *tree, CommandId cid)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	slot->tts_tableOid = RelationGetRelid(tree->rel);
	if (!ROSE_SLOT_IS(slot))
		return;
	/* its values may come from an older row; they stay, the version is new */
	memset(&rslot->row.version, 0, sizeof(RoseVersion));
	rslot->row.version.xid = GetTopFullTransactionId();
	rslot->row.version.subxid = GetCurrentTransactionId();
	rslot->row.version.cid = cid;
	rslot->row.version.op = ROSE_OP_PUT;
	rslot->version = ROSE_SLOT_HAS_VERSION;
}

void
rose_slot_replaces_locked(TupleTableSlot *slot)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	if (ROSE_SLOT_IS(slot))
		rslot->version = ROSE_SLOT_REPLACES_LOCKED;
}
