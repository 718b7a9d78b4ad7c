/*-------------------------------------------------------------------------
 *
 * rose_version_sort.c
 *	  Versions in any order become versions in the order of a component.  See
 *	  rose_version_sort.h.
 *
 * Core's tuplesort does the work.  A version is a row of the tree's columns and a few
 * behind them, which have what is else known of it; what is mostly 0 is NULL there, and
 * takes no room.
 *
 * Not for trees that are keyed by row ids, whose rows are in order as they come.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "lsm/merge/rose_version_sort.h"

/* Columns of the sorter's rows behind the tree's own. */
typedef enum SortColumn
{
	SORT_SEQ,
	SORT_XID,
	SORT_OP,
	SORT_SUBXID,				/* NULL: 0, and so on */
	SORT_CID,
	SORT_MOVED,
	SORT_PRESENT,
	SORT_TIE,					/* NULL unless tied */
	SORT_COLUMNS
} SortColumn;

struct RoseVersionSort
{
	MemoryContext context;
	MemoryContext row_context;
	const RoseSchema *schema;
	bool		tied;
	Tuplesortstate *sort;
	TupleTableSlot *in;
	TupleTableSlot *out;
};

static AttrNumber
sort_attno(const RoseSchema *schema, SortColumn column)
{
	return schema->natts + column + 1;
}

static TupleDesc
make_descriptor(const RoseSchema *schema)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(schema->natts + SORT_COLUMNS);

	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
		TupleDescCopyEntry(tupdesc, attno, schema->tupdesc, attno);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_SEQ), "seq", INT8OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_XID), "xid", INT8OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_OP), "op", INT4OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_SUBXID), "subxid", INT4OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_CID), "cid", INT4OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_MOVED), "moved", INT8OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_PRESENT), "present", BYTEAOID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_attno(schema, SORT_TIE), "tie", INT8OID, -1, 0);
	return tupdesc;
}

static Tuplesortstate *
begin_tuplesort(const RoseSchema *schema, bool tied, TupleDesc tupdesc, int kilobytes)
{
	AttrNumber	attnos[INDEX_MAX_KEYS + 2];
	Oid			operators[INDEX_MAX_KEYS + 2];
	Oid			collations[INDEX_MAX_KEYS + 2] = {0};
	bool		nulls_first[INDEX_MAX_KEYS + 2] = {0};
	int			n = 0;

	for (; n < schema->nkeys; n++)
	{
		const RoseKeyColumnDisk *def = &schema->keys[n].def;

		attnos[n] = def->attno;
		operators[n] = rose_key_sort_operator(def);
		collations[n] = def->collation;
	}
	if (tied)
	{
		attnos[n] = sort_attno(schema, SORT_TIE);
		operators[n++] = rose_key_operator(INTEGER_BTREE_FAM_OID, INT8OID, BTLessStrategyNumber);
	}
	attnos[n] = sort_attno(schema, SORT_SEQ);
	operators[n++] = rose_key_operator(INTEGER_BTREE_FAM_OID, INT8OID, BTGreaterStrategyNumber);
	return tuplesort_begin_heap(tupdesc, n, attnos, operators, collations, nulls_first,
								Max(kilobytes, 64), NULL, TUPLESORT_NONE);
}

RoseVersionSort *
rose_version_sort_begin(const RoseSchema *schema, bool tied, int kilobytes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose version sort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseVersionSort *sort = palloc0(sizeof(RoseVersionSort));
	TupleDesc	tupdesc = make_descriptor(schema);

	Assert(schema->nkeys > 0);
	sort->context = context;
	sort->row_context = AllocSetContextCreate(context, "rose version sort row",
											  ALLOCSET_DEFAULT_SIZES);
	sort->schema = schema;
	sort->tied = tied;
	sort->in = MakeSingleTupleTableSlot(tupdesc, &TTSOpsVirtual);
	sort->out = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
	sort->sort = begin_tuplesort(schema, tied, tupdesc, kilobytes);
	MemoryContextSwitchTo(old);
	return sort;
}

void
rose_version_sort_end(RoseVersionSort *sort)
{
	tuplesort_end(sort->sort);
	ExecDropSingleTupleTableSlot(sort->in);
	ExecDropSingleTupleTableSlot(sort->out);
	MemoryContextDelete(sort->context);
}

/* ---- in ---- */

static Datum
make_present(const RoseSchema *schema, const bits8 *present)
{
	Size		size = ROSE_PRESENT_BYTES(schema->natts);
	bytea	   *result = palloc(VARHDRSZ + size);

	SET_VARSIZE(result, VARHDRSZ + size);
	memcpy(VARDATA(result), present, size);
	return PointerGetDatum(result);
}

void
rose_version_sort_put(RoseVersionSort *sort, const RoseVersion *version,
					  const Datum *values, const bool *nulls, int64 tie)
{
	int			natts = sort->schema->natts;
	TupleTableSlot *slot = sort->in;
	Datum	   *system = slot->tts_values + natts;
	bool	   *absent = slot->tts_isnull + natts;
	MemoryContext old;

	MemoryContextReset(sort->row_context);
	old = MemoryContextSwitchTo(sort->row_context);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, nulls, natts * sizeof(bool));
	memset(absent, 0, SORT_COLUMNS * sizeof(bool));
	system[SORT_SEQ] = Int64GetDatum((int64) version->seq);
	system[SORT_XID] = Int64GetDatum((int64) U64FromFullTransactionId(version->xid));
	system[SORT_OP] = Int32GetDatum(version->op);
	system[SORT_SUBXID] = Int32GetDatum((int32) version->subxid);
	absent[SORT_SUBXID] = version->subxid == InvalidTransactionId;
	system[SORT_CID] = Int32GetDatum((int32) version->cid);
	absent[SORT_CID] = version->cid == 0;
	system[SORT_MOVED] = Int64GetDatum((int64) version->moved_to);
	absent[SORT_MOVED] = version->moved_to == 0;
	absent[SORT_PRESENT] = version->present == NULL;
	if (version->present != NULL)
		system[SORT_PRESENT] = make_present(sort->schema, version->present);
	system[SORT_TIE] = Int64GetDatum(tie);
	absent[SORT_TIE] = !sort->tied;
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sort->sort, slot);
	MemoryContextSwitchTo(old);
}

void
rose_version_sort_perform(RoseVersionSort *sort)
{
	tuplesort_performsort(sort->sort);
}

/* ---- out ---- */

TupleTableSlot *
rose_version_sort_next(RoseVersionSort *sort, RoseVersion *version)
{
	TupleTableSlot *slot = sort->out;
	Datum	   *system = slot->tts_values + sort->schema->natts;
	bool	   *absent = slot->tts_isnull + sort->schema->natts;

	CHECK_FOR_INTERRUPTS();
	if (!tuplesort_gettupleslot(sort->sort, true, false, slot, NULL))
		return NULL;
	slot_getallattrs(slot);
	memset(version, 0, sizeof(*version));
	version->seq = (uint64) DatumGetInt64(system[SORT_SEQ]);
	version->xid = FullTransactionIdFromU64((uint64) DatumGetInt64(system[SORT_XID]));
	version->op = (uint8) DatumGetInt32(system[SORT_OP]);
	if (!absent[SORT_SUBXID])
		version->subxid = (TransactionId) DatumGetInt32(system[SORT_SUBXID]);
	if (!absent[SORT_CID])
		version->cid = (CommandId) DatumGetInt32(system[SORT_CID]);
	if (!absent[SORT_MOVED])
		version->moved_to = (uint64) DatumGetInt64(system[SORT_MOVED]);
	if (!absent[SORT_PRESENT])
		version->present = (bits8 *) VARDATA_ANY(DatumGetPointer(system[SORT_PRESENT]));
	return slot;
}
