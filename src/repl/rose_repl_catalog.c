/*-------------------------------------------------------------------------
 *
 * rose_repl_catalog.c
 *	  The subscriptions in the catalog: rose.subscription, subscription_rel and
 *	  subscription_state.
 *
 * Reads scan the (small) tables directly with a fresh snapshot: they serve
 * workers, waiting functions inside an old snapshot, and the recovery of a table
 * inside any user's transaction, who may have no privilege on these tables.
 * Writes go through SPI and need a snapshot and the privileges.
 *
 * Rows carry the database that they were made in: a database that was cloned
 * from a template with subscriptions ignores its copies of the rows, because the slots
 * belong to the original.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "repl/rose_repl_int.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

/* Columns; see rose--1.0.sql. */
enum
{
	SUB_SUBID = 1, SUB_NAME, SUB_DBID, SUB_OWNER, SUB_ENABLED, SUB_BINARY,
	SUB_SYNCHRONOUS_COMMIT, SUB_SLOT_NAME, SUB_PUBLICATIONS, SUB_CONNINFO,
	SUB_NATTS = SUB_CONNINFO
};
enum
{
	REL_SUBID = 1, REL_RELID, REL_STATE, REL_SYNC_LSN, REL_LAST_ERROR, REL_ERROR_LSN,
	REL_NATTS = REL_ERROR_LSN
};
enum
{
	STATE_SUBID = 1, STATE_EPOCH, STATE_DURABLE_LSN,
	STATE_NATTS = STATE_DURABLE_LSN
};

/* ---------------------------------------------------------------------
 * Scans
 */
typedef struct CatalogScan
{
	Relation	rel;
	Snapshot	snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;
} CatalogScan;

/* False: there is no such table, as the extension is not installed. */
static bool
scan_begin(CatalogScan *cs, const char *table)
{
	Oid			nspid = get_namespace_oid("rose", true);
	Oid			relid = OidIsValid(nspid) ? get_relname_relid(table, nspid) : InvalidOid;

	if (!OidIsValid(relid))
		return false;
	cs->rel = table_open(relid, AccessShareLock);
	cs->snapshot = RegisterSnapshot(GetLatestSnapshot());
	cs->scan = table_beginscan(cs->rel, cs->snapshot, 0, NULL);
	cs->slot = table_slot_create(cs->rel, NULL);
	return true;
}

static bool
scan_next(CatalogScan *cs)
{
	if (!table_scan_getnextslot(cs->scan, ForwardScanDirection, cs->slot))
		return false;
	slot_getallattrs(cs->slot);
	return true;
}

static void
scan_end(CatalogScan *cs)
{
	ExecDropSingleTupleTableSlot(cs->slot);
	table_endscan(cs->scan);
	UnregisterSnapshot(cs->snapshot);
	table_close(cs->rel, AccessShareLock);
}

static Datum
scan_value(const CatalogScan *cs, int attno)
{
	return cs->slot->tts_values[attno - 1];
}

static bool
scan_isnull(const CatalogScan *cs, int attno)
{
	return cs->slot->tts_isnull[attno - 1];
}

static List *
text_array_to_strings(Datum array)
{
	List	   *result = NIL;
	Datum	   *elems;
	int			nelems;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elems, NULL, &nelems);
	for (int i = 0; i < nelems; i++)
		result = lappend(result, makeString(TextDatumGetCString(elems[i])));
	return result;
}

static Datum
strings_to_text_array(List *strings)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(strings), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, strings)
		elems[n++] = CStringGetTextDatum(strVal(lfirst(lc)));
	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* ---------------------------------------------------------------------
 * Reading
 */

/* The committed epoch and position. */
static bool
read_state(Oid subid, uint64 *epoch, XLogRecPtr *durable_lsn)
{
	CatalogScan cs;
	bool		found = false;

	if (!scan_begin(&cs, "subscription_state"))
		return false;
	while (scan_next(&cs))
	{
		if (DatumGetObjectId(scan_value(&cs, STATE_SUBID)) != subid)
			continue;
		*epoch = (uint64) DatumGetInt64(scan_value(&cs, STATE_EPOCH));
		*durable_lsn = DatumGetLSN(scan_value(&cs, STATE_DURABLE_LSN));
		found = true;
	}
	scan_end(&cs);
	return found;
}

/* rose_epoch_committed_hook: a dropped subscription has committed nothing. */
bool
rose_subscription_epoch_committed(Oid subid, uint64 epoch)
{
	uint64		committed;
	XLogRecPtr	durable_lsn;

	return read_state(subid, &committed, &durable_lsn) && epoch <= committed;
}

static RoseSubscription *
form_subscription(const CatalogScan *cs)
{
	RoseSubscription *sub = palloc0(sizeof(RoseSubscription));

	sub->subid = DatumGetObjectId(scan_value(cs, SUB_SUBID));
	sub->name = pstrdup(NameStr(*DatumGetName(scan_value(cs, SUB_NAME))));
	sub->owner = DatumGetObjectId(scan_value(cs, SUB_OWNER));
	sub->enabled = DatumGetBool(scan_value(cs, SUB_ENABLED));
	sub->binary = DatumGetBool(scan_value(cs, SUB_BINARY));
	sub->synchronous_commit = TextDatumGetCString(scan_value(cs, SUB_SYNCHRONOUS_COMMIT));
	if (!scan_isnull(cs, SUB_SLOT_NAME))
		sub->slot_name = pstrdup(NameStr(*DatumGetName(scan_value(cs, SUB_SLOT_NAME))));
	sub->publications = text_array_to_strings(scan_value(cs, SUB_PUBLICATIONS));
	sub->conninfo = TextDatumGetCString(scan_value(cs, SUB_CONNINFO));
	return sub;
}

List *
rose_subscription_list(void)
{
	CatalogScan cs;
	List	   *result = NIL;
	ListCell   *lc;

	if (!scan_begin(&cs, "subscription"))
		return NIL;
	while (scan_next(&cs))
	{
		if (DatumGetObjectId(scan_value(&cs, SUB_DBID)) == MyDatabaseId)
			result = lappend(result, form_subscription(&cs));
	}
	scan_end(&cs);

	foreach(lc, result)
	{
		RoseSubscription *sub = lfirst(lc);

		if (!read_state(sub->subid, &sub->epoch, &sub->durable_lsn))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("rose subscription \"%s\" has no row in rose.subscription_state",
							sub->name)));
	}
	return result;
}

RoseSubscription *
rose_subscription_get(Oid subid)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_list())
	{
		RoseSubscription *sub = lfirst(lc);

		if (sub->subid == subid)
			return sub;
	}
	return NULL;
}

RoseSubscription *
rose_subscription_find(const char *name)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_list())
	{
		RoseSubscription *sub = lfirst(lc);

		if (strcmp(sub->name, name) == 0)
			return sub;
	}
	return NULL;
}

List *
rose_subscription_tables(Oid subid)
{
	CatalogScan cs;
	List	   *result = NIL;

	if (!scan_begin(&cs, "subscription_rel"))
		return NIL;
	while (scan_next(&cs))
	{
		RoseSubscriptionTable *table;

		if (DatumGetObjectId(scan_value(&cs, REL_SUBID)) != subid)
			continue;
		table = palloc0(sizeof(RoseSubscriptionTable));
		table->relid = DatumGetObjectId(scan_value(&cs, REL_RELID));
		table->state = TextDatumGetCString(scan_value(&cs, REL_STATE));
		if (!scan_isnull(&cs, REL_SYNC_LSN))
			table->sync_lsn = DatumGetLSN(scan_value(&cs, REL_SYNC_LSN));
		result = lappend(result, table);
	}
	scan_end(&cs);
	return result;
}

bool
rose_subscription_synced(Oid subid, int *nerrors)
{
	List	   *tables = rose_subscription_tables(subid);
	ListCell   *lc;
	bool		synced = true;

	*nerrors = 0;
	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_ERROR) == 0)
			(*nerrors)++;
		else if (strcmp(table->state, ROSE_REL_READY) != 0)
			synced = false;
	}
	list_free_deep(tables);
	return synced;
}

Oid
rose_subscription_of_table(Oid relid)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_list())
	{
		RoseSubscription *sub = lfirst(lc);
		ListCell   *lt;

		foreach(lt, rose_subscription_tables(sub->subid))
		{
			if (((RoseSubscriptionTable *) lfirst(lt))->relid == relid)
				return sub->subid;
		}
	}
	return InvalidOid;
}

/* ---------------------------------------------------------------------
 * Writing
 */

/* One statement; returns the first column of its first row, or 0. */
static Datum
execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	Datum		result = (Datum) 0;
	bool		isnull;
	int			rc;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	rc = SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);
	if (rc < 0)
		elog(ERROR, "SPI_execute_with_args failed: %s", SPI_result_code_string(rc));
	if (SPI_tuptable != NULL && SPI_processed > 0)
		result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	SPI_finish();
	return result;
}

/* The columns that an ALTER can change, as arguments $2 .. $7 of a statement. */
static void
changeable_columns(const RoseSubscription *sub, Oid *types, Datum *values, char *nulls)
{
	memset(nulls, ' ', 7);
	types[0] = OIDOID;
	values[0] = ObjectIdGetDatum(sub->subid);
	types[1] = BOOLOID;
	values[1] = BoolGetDatum(sub->enabled);
	types[2] = BOOLOID;
	values[2] = BoolGetDatum(sub->binary);
	types[3] = TEXTOID;
	values[3] = CStringGetTextDatum(sub->synchronous_commit);
	types[4] = NAMEOID;
	values[4] = (Datum) 0;
	if (sub->slot_name != NULL)
		values[4] = DirectFunctionCall1(namein, CStringGetDatum(sub->slot_name));
	else
		nulls[4] = 'n';
	types[5] = TEXTARRAYOID;
	values[5] = strings_to_text_array(sub->publications);
	types[6] = TEXTOID;
	values[6] = CStringGetTextDatum(sub->conninfo);
}

Oid
rose_subscription_insert(const RoseSubscription *sub)
{
	Oid			types[10];
	Datum		values[10];
	char		nulls[11] = "          ";
	Oid			subid;

	changeable_columns(sub, types, values, nulls);
	types[7] = NAMEOID;
	values[7] = DirectFunctionCall1(namein, CStringGetDatum(sub->name));
	types[8] = OIDOID;
	values[8] = ObjectIdGetDatum(MyDatabaseId);
	types[9] = OIDOID;
	values[9] = ObjectIdGetDatum(sub->owner);
	nulls[7] = nulls[8] = nulls[9] = ' ';

	/* $1, the id, is not known yet */
	subid = DatumGetObjectId(execute("INSERT INTO rose.subscription (enabled, binary_format, synchronous_commit,"
									 " slot_name, publications, conninfo, name, dbid, owner, subid)"
									 " VALUES ($2, $3, $4, $5, $6, $7, $8, $9, $10,"
									 " CASE WHEN $1 = 0 THEN pg_catalog.nextval('rose.subscription_subid_seq')::pg_catalog.oid END)"
									 " RETURNING subid",
									 10, types, values, nulls));

	types[1] = LSNOID;
	values[0] = ObjectIdGetDatum(subid);
	values[1] = LSNGetDatum(sub->durable_lsn);
	execute("INSERT INTO rose.subscription_state (subid, epoch, durable_lsn) VALUES ($1, 0, $2)",
			2, types, values, NULL);
	return subid;
}

void
rose_subscription_update(const RoseSubscription *sub)
{
	Oid			types[7];
	Datum		values[7];
	char		nulls[8] = "       ";

	changeable_columns(sub, types, values, nulls);
	execute("UPDATE rose.subscription SET enabled = $2, binary_format = $3, synchronous_commit = $4,"
			" slot_name = $5, publications = $6, conninfo = $7 WHERE subid = $1",
			7, types, values, nulls);
}

void
rose_subscription_delete(Oid subid)
{
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(subid)};

	execute("DELETE FROM rose.subscription_rel WHERE subid = $1", 1, types, values, NULL);
	execute("DELETE FROM rose.subscription_state WHERE subid = $1", 1, types, values, NULL);
	execute("DELETE FROM rose.subscription WHERE subid = $1", 1, types, values, NULL);
}

void
rose_subscription_lock(Oid subid)
{
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(subid)};

	execute("SELECT subid FROM rose.subscription WHERE subid = $1 FOR UPDATE",
			1, types, values, NULL);
}

void
rose_subscription_add_table(Oid subid, Oid relid, const char *state)
{
	Oid			types[3] = {OIDOID, REGCLASSOID, TEXTOID};
	Datum		values[3] = {ObjectIdGetDatum(subid), ObjectIdGetDatum(relid),
	CStringGetTextDatum(state)};

	execute("INSERT INTO rose.subscription_rel (subid, relid, state) VALUES ($1, $2, $3)",
			3, types, values, NULL);
}

void
rose_subscription_remove_table(Oid subid, Oid relid)
{
	Oid			types[2] = {OIDOID, REGCLASSOID};
	Datum		values[2] = {ObjectIdGetDatum(subid), ObjectIdGetDatum(relid)};

	execute("DELETE FROM rose.subscription_rel WHERE subid = $1 AND relid = $2",
			2, types, values, NULL);
}

void
rose_subscription_set_table(Oid subid, Oid relid, const char *state, XLogRecPtr sync_lsn,
							const char *error, XLogRecPtr error_lsn)
{
	Oid			types[6] = {OIDOID, REGCLASSOID, TEXTOID, LSNOID, TEXTOID, LSNOID};
	Datum		values[6];
	char		nulls[7] = "      ";

	values[0] = ObjectIdGetDatum(subid);
	values[1] = ObjectIdGetDatum(relid);
	values[2] = CStringGetTextDatum(state);
	values[3] = LSNGetDatum(sync_lsn);
	values[4] = error != NULL ? CStringGetTextDatum(error) : (Datum) 0;
	values[5] = LSNGetDatum(error_lsn);
	if (XLogRecPtrIsInvalid(sync_lsn))
		nulls[3] = 'n';
	if (error == NULL)
		nulls[4] = 'n';
	if (XLogRecPtrIsInvalid(error_lsn))
		nulls[5] = 'n';
	execute("UPDATE rose.subscription_rel SET state = $3, sync_lsn = $4, last_error = $5, error_lsn = $6"
			" WHERE subid = $1 AND relid = $2",
			6, types, values, nulls);
}

void
rose_subscription_set_state(Oid subid, uint64 epoch, XLogRecPtr durable_lsn)
{
	Oid			types[3] = {OIDOID, INT8OID, LSNOID};
	Datum		values[3];

	values[0] = ObjectIdGetDatum(subid);
	values[1] = Int64GetDatum((int64) epoch);
	values[2] = LSNGetDatum(durable_lsn);
	execute("UPDATE rose.subscription_state SET epoch = $2, durable_lsn = $3 WHERE subid = $1",
			3, types, values, NULL);
}
