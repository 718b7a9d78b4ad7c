/*-------------------------------------------------------------------------
 *
 * rose_altered.c
 *	  What the running transaction has done to a table's columns.
 *
 * Only who holds AccessExclusiveLock can have changed columns.  He finds in pg_attribute the rows that
 * were committed before, which he has replaced, beside his own: nobody removes them as
 * long as he runs.  From them the descriptor of before is made.
 *
 * Rows of the transaction itself may be of either, or of something between.  The store knows the
 * layout of what was logged last, which every earlier one in the same file is a part of.
 *
 * Holds no locks of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_altered.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc_details.h"
#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* What pg_attribute says of a table. */
typedef struct Columns
{
	int			ncommitted;
	HeapTuple	committed[MaxTupleAttributeNumber];	/* by attnum - 1; copies */
	TransactionId made_by;		/* xmin of the table's first rows; invalid if frozen */
	bool		changed;		/* some row is this transaction's */
	bool		undoable;		/* and may be rolled back without all of it */
} Columns;

/* Was this row there, and valid, before the running transaction began to change it? */
static bool
was_committed(const HeapTupleHeader header)
{
	TransactionId xmax;

	if (!HeapTupleHeaderXminFrozen(header) &&
		!TransactionIdDidCommit(HeapTupleHeaderGetRawXmin(header)))
		return false;
	if ((header->t_infomask & HEAP_XMAX_INVALID) != 0 ||
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		return true;
	xmax = HeapTupleHeaderGetUpdateXid(header);
	return !TransactionIdIsValid(xmax) || !TransactionIdDidCommit(xmax);
}

/* Is it a row that this transaction has made, and not taken back? */
static bool
is_own(const HeapTupleHeader header)
{
	return !HeapTupleHeaderXminFrozen(header) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(header));
}

static void
look_at(Columns *columns, HeapTuple tuple)
{
	AttrNumber	attnum = ((Form_pg_attribute) GETSTRUCT(tuple))->attnum;

	/* rows of system columns come first, and are never changed */
	if (attnum == SelfItemPointerAttributeNumber)
		columns->made_by = HeapTupleHeaderGetRawXmin(tuple->t_data);
	if (attnum < 1)
		return;
	if (is_own(tuple->t_data))
	{
		TransactionId xmin = HeapTupleHeaderGetRawXmin(tuple->t_data);

		columns->changed = true;
		columns->undoable |= GetCurrentTransactionNestLevel() > 1 &&
			!TransactionIdEquals(xmin, GetTopTransactionIdIfAny()) &&
			!TransactionIdEquals(xmin, columns->made_by);
	}
	else if (was_committed(tuple->t_data))
	{
		if (columns->committed[attnum - 1] == NULL)
			columns->ncommitted++;
		columns->committed[attnum - 1] = heap_copytuple(tuple);
	}
}

static Columns *
read_columns(Oid relid)
{
	Columns    *columns = palloc0(sizeof(Columns));
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, SnapshotAny, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		look_at(columns, tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return columns;
}

/* ---- the descriptor of before ---- */

/* What a column has in rows that were stored before it was added. */
static void
set_missing_value(AttrMissing *missing, HeapTuple tuple, TupleDesc catalog)
{
	Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
	int			one = 1;
	bool		isnull;
	Datum		array = heap_getattr(tuple, Anum_pg_attribute_attmissingval, catalog, &isnull);
	Datum		value;

	if (isnull)
		return;
	value = array_get_element(array, 1, &one, -1, att->attlen, att->attbyval, att->attalign,
							  &isnull);
	missing->am_present = true;
	missing->am_value = datumCopy(value, att->attbyval, att->attlen);
}

static TupleDesc
make_descriptor(const Columns *columns)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(columns->ncommitted);
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	TupleConstr *constr = palloc0(sizeof(TupleConstr));

	constr->missing = palloc0(Max(columns->ncommitted, 1) * sizeof(AttrMissing));
	for (int i = 0; i < columns->ncommitted; i++)
	{
		HeapTuple	tuple = columns->committed[i];

		if (tuple == NULL)
			elog(ERROR, "column %d has no row in pg_attribute", i + 1);
		memcpy(TupleDescAttr(tupdesc, i), GETSTRUCT(tuple), ATTRIBUTE_FIXED_PART_SIZE);
		rose_tupdesc_attribute_changed(tupdesc, i);
		if (TupleDescAttr(tupdesc, i)->atthasmissing)
			set_missing_value(&constr->missing[i], tuple, RelationGetDescr(catalog));
	}
	tupdesc->constr = constr;
	table_close(catalog, AccessShareLock);
	return tupdesc;
}

/* Would rows be taken apart alike by both, those too that were stored before columns were added? */
static bool
is_same(const RoseSchema *a, const RoseSchema *b)
{
	if (a->natts != b->natts || a->layout->exact != b->layout->exact)
		return false;
	for (int i = 0; i < a->natts; i++)
		if (TupleDescAttr(a->tupdesc, i)->atthasmissing !=
			TupleDescAttr(b->tupdesc, i)->atthasmissing)
			return false;
	return true;
}

/*
 * The layout of before by which others' rows are stored, or NULL if that is the present one.
 * *undoable: what is new may be rolled back without the whole transaction.
 */
static RoseSchema *
schema_of_before(RoseTable *table, MemoryContext context, bool *undoable)
{
	const RoseSchema *schema = table->schema;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose altered columns",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	RoseSchema *before = NULL;
	Columns    *columns = read_columns(RelationGetRelid(table->rel));

	*undoable = columns->undoable;
	for (int i = 0; i < schema->nkeys; i++)
		keys[i] = schema->keys[i].def;
	if (columns->changed && columns->ncommitted > 0)
		before = rose_schema_create(make_descriptor(columns), schema->nkeys, keys,
									schema->hashed, context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	if (before != NULL && is_same(before, schema))
	{
		rose_schema_free(before);
		before = NULL;
	}
	return before;
}

static bool
is_locked_by_me(Relation rel)
{
	return CheckRelationLockedByMe(rel, AccessExclusiveLock, true);
}

static bool
is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId;
}

bool
rose_altered_before_commit(RoseTable *table)
{
	RoseSchema *before;
	bool		undoable;

	if (is_new(table->rel) || !is_locked_by_me(table->rel))
		return false;
	before = schema_of_before(table, CurrentMemoryContext, &undoable);
	if (before == NULL)
		return false;
	rose_schema_free(before);
	return true;
}

bool
rose_altered_just_now(Relation rel)
{
	MemoryContext work;
	MemoryContext old;
	bool		changed;

	if (is_new(rel) || !is_locked_by_me(rel))
		return false;
	work = AllocSetContextCreate(CurrentMemoryContext, "rose altered columns",
								 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	changed = read_columns(RelationGetRelid(rel))->changed;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return changed;
}

bool
rose_altered_schemas(RoseTable *table, MemoryContext context, RoseSpillSchemas *schemas,
					 bool *joinable)
{
	const RoseStoreShared *store = &table->shared->store;
	RoseSchema *before;
	bool		undoable;

	schemas->committed = schemas->open = table->schema;
	*joinable = true;
	if (!is_locked_by_me(table->rel))
		return true;

	before = schema_of_before(table, context, &undoable);
	if (is_new(table->rel))
		return rose_tail_continues_exactly(store, table->schema->layout) && !undoable;
	if (before == NULL)
		return true;
	schemas->committed = before;
	if (rose_tail_continues(store, table->schema->layout) &&
		rose_layout_same_types(table->schema->layout, before->layout))
		return !undoable;
	schemas->open = before;
	*joinable = false;
	return rose_tail_continues(store, before->layout);
}
