/*-------------------------------------------------------------------------
 *
 * rose_subrows.c
 *	  Reading and writing rows of the tables of subscriptions.
 *
 * The tables are materialized views that nobody refreshes, so that a publication of all
 * tables does not publish them (README.md, "Rights").  SQL does not write to them, and
 * need not: rows are changed as those of system catalogs are.  Thereby no operator or
 * function is ever looked up by its name, in whatever search_path a session has.
 *
 * Reads scan the (small) tables with a fresh snapshot: they serve workers, waiting
 * functions inside an old snapshot, and the recovery of a table inside any user's
 * transaction, who may have no privilege on these tables.  Nothing here checks
 * privileges.
 *
 * Locking: AccessShareLock while reading; RowExclusiveLock until the end of the
 * transaction for writing.  Two who change one row at once are kept apart by their
 * callers: the second would get an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/extension.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

#include "util/rose_release.h"
#include "lsm/tree/rose_feed.h"
#include "repl/rose_subrows.h"

/* ---- reading ---- */

/*
 * InvalidOid: the extension is not installed.  Without it, and if its schema was there
 * before it, a user's table may have the name, with columns of any type.
 */
Oid
rose_subrows_find(const char *table)
{
	Oid			nspid = get_namespace_oid("rose", true);
	Oid			relid = OidIsValid(nspid) ? get_relname_relid(table, nspid) : InvalidOid;

	return OidIsValid(relid) && rose_subrows_is_table(relid) ? relid : InvalidOid;
}

bool
rose_subrows_is_table(Oid relid)
{
	Oid			extension = getExtensionOfObject(RelationRelationId, relid);

	return OidIsValid(extension) && extension == get_extension_oid("rose", true);
}

/* What writes catalogs evaluates nothing: of an expression it would crash, and a predicate it would not see. */
void
rose_subrows_check_index(HeapTuple pg_index)
{
	Oid			relid = ((Form_pg_index) GETSTRUCT(pg_index))->indrelid;

	if ((heap_attisnull(pg_index, Anum_pg_index_indexprs, NULL) && heap_attisnull(pg_index, Anum_pg_index_indpred, NULL)) ||
		!rose_subrows_is_table(relid))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create an index with an expression or a WHERE clause on \"rose.%s\"", get_rel_name(relid)),
			 errdetail("Tables of the extension are written as system catalogs are.")));
}

static void
begin_scan(RoseRowScan *rs, Oid relid, LOCKMODE lockmode, Snapshot snapshot)
{
	rs->rel = table_open(relid, lockmode);
	rs->snapshot = RegisterSnapshot(snapshot != NULL ? snapshot : GetLatestSnapshot());
	rs->scan = table_beginscan(rs->rel, rs->snapshot, 0, NULL);
	rs->slot = table_slot_create(rs->rel, NULL);
}

static void
end_scan(RoseRowScan *rs, LOCKMODE lockmode)
{
	ExecDropSingleTupleTableSlot(rs->slot);
	table_endscan(rs->scan);
	UnregisterSnapshot(rs->snapshot);
	table_close(rs->rel, lockmode);
}

bool
rose_subrows_begin(RoseRowScan *rs, const char *table, int natts)
{
	return rose_subrows_begin_as_of(rs, table, natts, NULL);
}

bool
rose_subrows_begin_as_of(RoseRowScan *rs, const char *table, int natts, Snapshot snapshot)
{
	Oid			relid = rose_subrows_find(table);

	if (!OidIsValid(relid))
		return false;
	begin_scan(rs, relid, AccessShareLock, snapshot);
	if (RelationGetNumberOfAttributes(rs->rel) != natts)
		rose_release_mismatch(psprintf("\"rose.%s\" has %d columns, but this version of rose works with %d",
									   table, RelationGetNumberOfAttributes(rs->rel), natts));
	return true;
}

bool
rose_subrows_next(RoseRowScan *rs)
{
	if (!table_scan_getnextslot(rs->scan, ForwardScanDirection, rs->slot))
		return false;
	slot_getallattrs(rs->slot);
	return true;
}

void
rose_subrows_end(RoseRowScan *rs)
{
	end_scan(rs, AccessShareLock);
}

/* ---- writing ---- */

void
rose_row_set(RoseRowEdit *row, int attno, Datum value)
{
	Assert(attno <= ROSE_ROW_MAX_COLUMNS);
	row->values[attno - 1] = value;
	row->nulls[attno - 1] = false;
	row->set[attno - 1] = true;
}

void
rose_row_set_null(RoseRowEdit *row, int attno)
{
	rose_row_set(row, attno, (Datum) 0);
	row->nulls[attno - 1] = true;
}

void
rose_row_set_text(RoseRowEdit *row, int attno, const char *value)
{
	if (value == NULL)
		rose_row_set_null(row, attno);
	else
		rose_row_set(row, attno, CStringGetTextDatum(value));
}

void
rose_row_set_lsn(RoseRowEdit *row, int attno, XLogRecPtr lsn)
{
	rose_row_set(row, attno, LSNGetDatum(lsn));
	row->nulls[attno - 1] = XLogRecPtrIsInvalid(lsn);
}

static Oid
require_table(const char *table)
{
	Oid			relid = rose_subrows_find(table);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"rose.%s\" does not exist", table),
				 errhint("Has the extension been dropped meanwhile?")));
	return relid;
}

void
rose_subrows_insert(const char *table, RoseRowEdit *row)
{
	Relation	rel = table_open(require_table(table), RowExclusiveLock);
	TupleDesc	desc = RelationGetDescr(rel);
	bool		nulls[ROSE_ROW_MAX_COLUMNS];
	HeapTuple	tuple;

	Assert(desc->natts <= ROSE_ROW_MAX_COLUMNS);
	for (int i = 0; i < desc->natts; i++)
		nulls[i] = !row->set[i] || row->nulls[i];
	tuple = heap_form_tuple(desc, row->values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	rose_feed_admissions++;
}

static bool
row_matches(const RoseRowScan *rs, RoseRowKey key)
{
	if (DatumGetObjectId(rose_subrows_value(rs, 1)) != key.subid)
		return false;
	if (OidIsValid(key.relid) && DatumGetObjectId(rose_subrows_value(rs, 2)) != key.relid)
		return false;
	return key.number == 0 || DatumGetInt32(rose_subrows_value(rs, 3)) == key.number;
}

/* Change the rows of the key as 'row' says, or (NULL) delete them. */
static void
change_rows(const char *table, RoseRowKey key, RoseRowEdit *row)
{
	RoseRowScan rs;

	begin_scan(&rs, require_table(table), RowExclusiveLock, NULL);
	while (rose_subrows_next(&rs))
	{
		HeapTuple	old;
		HeapTuple	new;
		bool		free_old;

		if (!row_matches(&rs, key))
			continue;
		old = ExecFetchSlotHeapTuple(rs.slot, false, &free_old);
		if (row == NULL)
			CatalogTupleDelete(rs.rel, &old->t_self);
		else
		{
			new = heap_modify_tuple(old, RelationGetDescr(rs.rel), row->values, row->nulls,
									row->set);
			CatalogTupleUpdate(rs.rel, &old->t_self, new);
			heap_freetuple(new);
		}
		if (free_old)
			heap_freetuple(old);
	}
	end_scan(&rs, NoLock);
	CommandCounterIncrement();
	rose_feed_admissions++;
}

void
rose_subrows_update(const char *table, RoseRowKey key, RoseRowEdit *row)
{
	change_rows(table, key, row);
}

void
rose_subrows_delete(const char *table, RoseRowKey key)
{
	change_rows(table, key, NULL);
}

void
rose_subrows_lock(const char *table, Oid subid)
{
	LockDatabaseObject(require_table(table), subid, 0, AccessExclusiveLock);
}

void
rose_subrows_lock_writes(const char *table, Oid subid, LOCKMODE mode)
{
	Oid			relid = rose_subrows_find(table);

	if (OidIsValid(relid))
		LockDatabaseObject(relid, subid, 1, mode);
}

bool
rose_subrows_try_lock(const char *table, Oid subid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, require_table(table), subid, 0);
	return LockAcquire(&tag, AccessExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}
