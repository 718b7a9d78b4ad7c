/*-------------------------------------------------------------------------
 *
 * rose_subscription.c
 *	  The subscriptions in the catalog: rose.subscription, subscription_rel and
 *	  subscription_state.
 *
 * How their rows are read and written is rose_subrows.c's business; here is what they
 * mean.
 *
 * Rows carry the database that they were made in: a database that was cloned
 * from a template with subscriptions ignores its copies of the rows, because the slots
 * belong to the original.
 *
 * Locking: rose_subscription_lock serialises changes of one subscription.  Workers learn
 * of changes by rose_repl_request.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_chunks.h"
#include "repl/rose_old_rows.h"
#include "repl/rose_prepared.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_subrows.h"

/* Columns; see rose--1.0.sql.  They cannot change without a script that makes the tables anew with their rows. */
enum
{
	SUB_SUBID = 1, SUB_NAME, SUB_DBID, SUB_OWNER, SUB_ENABLED, SUB_BINARY,
	SUB_SYNCHRONOUS_COMMIT, SUB_SLOT_NAME, SUB_PUBLICATIONS, SUB_CONNINFO,
	SUB_NATTS = SUB_CONNINFO
};
enum
{
	REL_SUBID = 1, REL_RELID, REL_STATE, REL_SYNC_LSN, REL_LAST_ERROR, REL_ERROR_LSN, REL_ERROR_CODE,
	REL_REMOTE_RELID, REL_REMOTE_SCHEMA, REL_REMOTE_NAME,
	REL_ATTNUMS, REL_REMOTE_ATTNUMS, REL_REMOTE_COLUMNS,
	REL_NATTS = REL_REMOTE_COLUMNS
};
enum
{
	OPT_SUBID = 1, OPT_ON_ERROR, OPT_STREAMING, OPT_TABLES, OPT_CONSTANTS, OPT_DURABILITY, OPT_ON_SCHEMA_CHANGE,
	OPT_ORIGIN, OPT_FAILOVER, OPT_COUNT_CONFLICTS, OPT_TWO_PHASE,
	OPT_NATTS = OPT_TWO_PHASE
};
enum
{
	NEW_SUBID = 1, NEW_REMOTE_RELID, NEW_REMOTE_SCHEMA, NEW_REMOTE_NAME, NEW_FIRST_LSN,
	NEW_NATTS = NEW_FIRST_LSN
};
enum
{
	STATE_SUBID = 1, STATE_EPOCH, STATE_DURABLE_LSN, STATE_SYSTEM_ID, STATE_TIMELINE,
	STATE_UPSTREAM_DBID, STATE_BLOCKED, STATE_COMMIT_LSN, STATE_COMMIT_XID, STATE_COMMIT_TIME,
	STATE_COMMIT_PUBLICATIONS,
	STATE_NATTS = STATE_COMMIT_PUBLICATIONS
};

/* A column of type text, or NULL. */
static char *
string_value(const RoseRowScan *cs, int attno)
{
	return rose_subrows_isnull(cs, attno) ? NULL : TextDatumGetCString(rose_subrows_value(cs, attno));
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

static void
read_commit(const RoseRowScan *cs, RoseUpstreamCommit *out)
{
	if (rose_subrows_isnull(cs, STATE_COMMIT_LSN))
		return;
	out->lsn = DatumGetLSN(rose_subrows_value(cs, STATE_COMMIT_LSN));
	out->xid = (TransactionId) DatumGetInt64(rose_subrows_value(cs, STATE_COMMIT_XID));
	out->time = DatumGetTimestampTz(rose_subrows_value(cs, STATE_COMMIT_TIME));
	out->publications = (uint32) DatumGetInt64(rose_subrows_value(cs, STATE_COMMIT_PUBLICATIONS));
}

/* The committed epoch and position, and whose they are. */
static bool
read_state(Oid subid, RoseSubscription *out)
{
	RoseRowScan cs;
	bool		found = false;

	if (!rose_subrows_begin(&cs, "subscription_state", STATE_NATTS))
		return false;
	while (rose_subrows_next(&cs))
	{
		if (DatumGetObjectId(rose_subrows_value(&cs, STATE_SUBID)) != subid)
			continue;
		out->epoch = (uint64) DatumGetInt64(rose_subrows_value(&cs, STATE_EPOCH));
		out->durable_lsn = out->row_lsn = DatumGetLSN(rose_subrows_value(&cs, STATE_DURABLE_LSN));
		out->system_id = string_value(&cs, STATE_SYSTEM_ID);
		if (!rose_subrows_isnull(&cs, STATE_TIMELINE))
			out->timeline = (TimeLineID) DatumGetInt64(rose_subrows_value(&cs, STATE_TIMELINE));
		if (!rose_subrows_isnull(&cs, STATE_UPSTREAM_DBID))
			out->upstream_dbid = DatumGetObjectId(rose_subrows_value(&cs, STATE_UPSTREAM_DBID));
		out->blocked = string_value(&cs, STATE_BLOCKED);
		read_commit(&cs, &out->last_commit);
		found = true;
	}
	rose_subrows_end(&cs);
	return found;
}

/* Options that have come with version 1.1; false: it has no row, or the extension is of before, and they are as by default. */
static bool
read_options(Oid subid, RoseSubscription *out)
{
	RoseRowScan cs;
	bool		found = false;

	out->pause_on_error = out->logged = out->no_origin = out->failover = out->two_phase = false;
	out->streaming = out->add_columns = true;
	out->tables = out->constants = NULL;
	out->count_conflicts = ROSE_COUNT_CONFLICTS_OFF;
	if (!rose_subrows_begin(&cs, "subscription_options", OPT_NATTS))
		return false;
	while (rose_subrows_next(&cs))
	{
		if (DatumGetObjectId(rose_subrows_value(&cs, OPT_SUBID)) != subid)
			continue;
		out->pause_on_error = strcmp(string_value(&cs, OPT_ON_ERROR), ROSE_ON_ERROR_PAUSE) == 0;
		out->streaming = DatumGetBool(rose_subrows_value(&cs, OPT_STREAMING));
		out->tables = string_value(&cs, OPT_TABLES);
		out->constants = string_value(&cs, OPT_CONSTANTS);
		out->logged = strcmp(string_value(&cs, OPT_DURABILITY), ROSE_DURABILITY_LOCAL) == 0;
		out->add_columns = strcmp(string_value(&cs, OPT_ON_SCHEMA_CHANGE), ROSE_ON_SCHEMA_CHANGE_ADD) == 0;
		out->no_origin = strcmp(string_value(&cs, OPT_ORIGIN), ROSE_ORIGIN_NONE) == 0;
		out->failover = DatumGetBool(rose_subrows_value(&cs, OPT_FAILOVER));
		out->count_conflicts = rose_count_conflicts_read(string_value(&cs, OPT_COUNT_CONFLICTS));
		out->two_phase = DatumGetBool(rose_subrows_value(&cs, OPT_TWO_PHASE));
		found = true;
	}
	rose_subrows_end(&cs);
	return found;
}

/* rose_epoch_committed_hook: a dropped subscription has committed nothing. */
bool
rose_subscription_epoch_committed(Oid subid, uint64 epoch)
{
	RoseSubscription state = {0};

	return read_state(subid, &state) && epoch <= state.epoch;
}

static RoseSubscription *
form_subscription(const RoseRowScan *cs)
{
	RoseSubscription *sub = palloc0(sizeof(RoseSubscription));

	sub->subid = DatumGetObjectId(rose_subrows_value(cs, SUB_SUBID));
	sub->name = pstrdup(NameStr(*DatumGetName(rose_subrows_value(cs, SUB_NAME))));
	sub->owner = DatumGetObjectId(rose_subrows_value(cs, SUB_OWNER));
	sub->limited = !superuser_arg(sub->owner);
	sub->enabled = DatumGetBool(rose_subrows_value(cs, SUB_ENABLED));
	sub->binary = DatumGetBool(rose_subrows_value(cs, SUB_BINARY));
	sub->synchronous_commit = TextDatumGetCString(rose_subrows_value(cs, SUB_SYNCHRONOUS_COMMIT));
	if (!rose_subrows_isnull(cs, SUB_SLOT_NAME))
		sub->slot_name = pstrdup(NameStr(*DatumGetName(rose_subrows_value(cs, SUB_SLOT_NAME))));
	sub->publications = text_array_to_strings(rose_subrows_value(cs, SUB_PUBLICATIONS));
	sub->conninfo = string_value(cs, SUB_CONNINFO);
	return sub;
}

List *
rose_subscription_list(void)
{
	RoseRowScan cs;
	List	   *result = NIL;
	ListCell   *lc;

	if (!rose_subrows_begin(&cs, "subscription", SUB_NATTS))
		return NIL;
	while (rose_subrows_next(&cs))
	{
		if (DatumGetObjectId(rose_subrows_value(&cs, SUB_DBID)) == MyDatabaseId)
			result = lappend(result, form_subscription(&cs));
	}
	rose_subrows_end(&cs);

	foreach(lc, result)
	{
		RoseSubscription *sub = lfirst(lc);

		if (!read_state(sub->subid, sub))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("rose subscription \"%s\" has no row in rose.subscription_state",
							sub->name)));
		(void) read_options(sub->subid, sub);
		if (sub->logged)
			sub->durable_lsn = Max(sub->durable_lsn, rose_origin_position(sub->subid, false));
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

const char *
rose_subscription_name(Oid subid)
{
	const RoseSubscription *sub = rose_subscription_get(subid);

	return sub != NULL ? sub->name : psprintf("%u", subid);
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

static Datum
attnums_to_array(const int16 *attnums, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = Int16GetDatum(attnums[i]);
	return PointerGetDatum(construct_array(elems, n, INT2OID, sizeof(int16), true, TYPALIGN_SHORT));
}

static int16 *
array_to_attnums(Datum array, int *n)
{
	Datum	   *elems;
	int16	   *result;

	deconstruct_array(DatumGetArrayTypeP(array), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
					  &elems, NULL, n);
	result = palloc(sizeof(int16) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		result[i] = DatumGetInt16(elems[i]);
	return result;
}

/* NULL: they are not known. */
static RoseColumnMap *
read_columns(const RoseRowScan *cs)
{
	RoseColumnMap *map;
	List	   *names;
	int			nremote;

	if (rose_subrows_isnull(cs, REL_ATTNUMS))
		return NULL;
	map = palloc0(sizeof(RoseColumnMap));
	map->attnums = array_to_attnums(rose_subrows_value(cs, REL_ATTNUMS), &map->n);
	map->remote_attnums = array_to_attnums(rose_subrows_value(cs, REL_REMOTE_ATTNUMS), &nremote);
	names = text_array_to_strings(rose_subrows_value(cs, REL_REMOTE_COLUMNS));
	if (nremote != map->n || list_length(names) != map->n)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("columns of a table in rose.subscription_rel do not fit each other")));
	map->remote_names = palloc(sizeof(char *) * Max(map->n, 1));
	for (int i = 0; i < map->n; i++)
		map->remote_names[i] = strVal(list_nth(names, i));
	return map;
}

List *
rose_subscription_tables(Oid subid)
{
	RoseRowScan cs;
	List	   *result = NIL;

	if (!rose_subrows_begin(&cs, "subscription_rel", REL_NATTS))
		return NIL;
	while (rose_subrows_next(&cs))
	{
		RoseSubscriptionTable *table;

		if (DatumGetObjectId(rose_subrows_value(&cs, REL_SUBID)) != subid)
			continue;
		table = palloc0(sizeof(RoseSubscriptionTable));
		table->relid = DatumGetObjectId(rose_subrows_value(&cs, REL_RELID));
		table->state = TextDatumGetCString(rose_subrows_value(&cs, REL_STATE));
		if (!rose_subrows_isnull(&cs, REL_SYNC_LSN))
			table->sync_lsn = DatumGetLSN(rose_subrows_value(&cs, REL_SYNC_LSN));
		if (!rose_subrows_isnull(&cs, REL_ERROR_LSN))
			table->error_lsn = DatumGetLSN(rose_subrows_value(&cs, REL_ERROR_LSN));
		table->remote.relid = DatumGetObjectId(rose_subrows_value(&cs, REL_REMOTE_RELID));
		table->remote.nspname = string_value(&cs, REL_REMOTE_SCHEMA);
		table->remote.relname = string_value(&cs, REL_REMOTE_NAME);
		table->columns = read_columns(&cs);
		result = lappend(result, table);
	}
	/* tables become exact, and inexact, with a change of their state */
	rose_chunks_tell_tables(subid, result, cs.snapshot);
	rose_subrows_end(&cs);
	return result;
}

RoseSubscriptionTable *
rose_subscription_find_table(List *tables, Oid relid)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (table->relid == relid)
			return table;
	}
	return NULL;
}

bool
rose_subscription_table_is_live(const RoseSubscriptionTable *table)
{
	return strcmp(table->state, ROSE_REL_READY) == 0 ||
		strcmp(table->state, ROSE_REL_FAILED) == 0 ||
		strcmp(table->state, ROSE_REL_SKIPPING) == 0;
}

bool
rose_subscription_table_waits(const RoseSubscriptionTable *table)
{
	return strcmp(table->state, ROSE_REL_INIT) == 0 ||
		strcmp(table->state, ROSE_REL_COPYING) == 0 ||
		(strcmp(table->state, ROSE_REL_ERROR) == 0 && XLogRecPtrIsInvalid(table->error_lsn));
}

/* retried: one whose copy has failed has not failed yet, for it is tried at once. */
static bool
has_failed(const RoseSubscriptionTable *table, bool retried)
{
	return strcmp(table->state, ROSE_REL_ERROR) == 0 &&
		!(retried && rose_subscription_table_waits(table));
}

bool
rose_subscription_synced(Oid subid, int *nerrors)
{
	/* before the rows are read, which say so when this does not any more */
	bool		retried = rose_repl_retries_copies(subid);
	List	   *tables = rose_subscription_tables(subid);
	ListCell   *lc;
	bool		synced = true;

	*nerrors = 0;
	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (has_failed(table, retried))
			(*nerrors)++;
		else if (!rose_subscription_table_is_live(table) && strcmp(table->state, ROSE_REL_PAUSED) != 0)
			synced = false;
	}
	list_free_deep(tables);
	return synced;
}

Oid
rose_subscription_of_table(Oid relid)
{
	List	   *relids = list_make1_oid(relid);

	if (get_rel_relispartition(relid))
		relids = list_concat(relids, get_partition_ancestors(relid));
	return rose_subscription_of_any(relids);
}

Oid
rose_subscription_of_any(const List *relids)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_list())
	{
		RoseSubscription *sub = lfirst(lc);
		ListCell   *lt;

		foreach(lt, rose_subscription_tables(sub->subid))
		{
			if (list_member_oid(relids, ((RoseSubscriptionTable *) lfirst(lt))->relid))
				return sub->subid;
		}
	}
	return InvalidOid;
}

/* ---------------------------------------------------------------------
 * Writing
 */

/* The columns that an ALTER can change. */
static void
set_changeable_columns(RoseRowEdit *row, const RoseSubscription *sub)
{
	rose_row_set(row, SUB_ENABLED, BoolGetDatum(sub->enabled));
	rose_row_set(row, SUB_BINARY, BoolGetDatum(sub->binary));
	rose_row_set(row, SUB_SYNCHRONOUS_COMMIT, CStringGetTextDatum(sub->synchronous_commit));
	if (sub->slot_name != NULL)
		rose_row_set(row, SUB_SLOT_NAME,
					 DirectFunctionCall1(namein, CStringGetDatum(sub->slot_name)));
	else
		rose_row_set_null(row, SUB_SLOT_NAME);
	rose_row_set(row, SUB_PUBLICATIONS, strings_to_text_array(sub->publications));
	rose_row_set_text(row, SUB_CONNINFO, sub->conninfo);
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* What it says otherwise than by default; nothing, if the extension is of before the options. */
static void
write_options(Oid subid, const RoseSubscription *sub)
{
	RoseRowEdit row = {0};
	RoseSubscription now = {0};
	bool		have = read_options(subid, &now);

	if (now.pause_on_error == sub->pause_on_error && now.streaming == sub->streaming &&
		now.add_columns == sub->add_columns && now.logged == sub->logged && now.no_origin == sub->no_origin &&
		now.failover == sub->failover && now.count_conflicts == sub->count_conflicts && now.two_phase == sub->two_phase &&
		same_text(now.tables, sub->tables) && same_text(now.constants, sub->constants))
		return;
	rose_row_set(&row, OPT_SUBID, ObjectIdGetDatum(subid));
	rose_row_set_text(&row, OPT_ON_ERROR, sub->pause_on_error ? ROSE_ON_ERROR_PAUSE : ROSE_ON_ERROR_STOP);
	rose_row_set(&row, OPT_STREAMING, BoolGetDatum(sub->streaming));
	rose_row_set_text(&row, OPT_TABLES, sub->tables);
	rose_row_set_text(&row, OPT_CONSTANTS, sub->constants);
	rose_row_set_text(&row, OPT_DURABILITY, sub->logged ? ROSE_DURABILITY_LOCAL : ROSE_DURABILITY_UPSTREAM);
	rose_row_set_text(&row, OPT_ON_SCHEMA_CHANGE, sub->add_columns ? ROSE_ON_SCHEMA_CHANGE_ADD : ROSE_ON_SCHEMA_CHANGE_STOP);
	rose_row_set_text(&row, OPT_ORIGIN, sub->no_origin ? ROSE_ORIGIN_NONE : ROSE_ORIGIN_ANY);
	rose_row_set(&row, OPT_FAILOVER, BoolGetDatum(sub->failover));
	rose_row_set_text(&row, OPT_COUNT_CONFLICTS, rose_count_conflicts_name(sub->count_conflicts));
	rose_row_set(&row, OPT_TWO_PHASE, BoolGetDatum(sub->two_phase));
	if (have)
		rose_subrows_update("subscription_options", ROSE_SUBROWS_OF(subid), &row);
	else
		rose_subrows_insert("subscription_options", &row);
}

/* An id that no subscription of this database has had. */
static Oid
new_subid(void)
{
	Oid			sequence = get_relname_relid("subscription_subid_seq",
											 get_namespace_oid("rose", false));

	return (Oid) nextval_internal(sequence, false);
}

Oid
rose_subscription_insert(const RoseSubscription *sub)
{
	RoseRowEdit row = {0};
	RoseRowEdit state = {0};
	Oid			subid = new_subid();

	rose_row_set(&row, SUB_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, SUB_NAME, DirectFunctionCall1(namein, CStringGetDatum(sub->name)));
	rose_row_set(&row, SUB_DBID, ObjectIdGetDatum(MyDatabaseId));
	rose_row_set(&row, SUB_OWNER, ObjectIdGetDatum(sub->owner));
	set_changeable_columns(&row, sub);
	rose_subrows_insert("subscription", &row);

	rose_row_set(&state, STATE_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&state, STATE_EPOCH, Int64GetDatum(0));
	rose_row_set(&state, STATE_DURABLE_LSN, LSNGetDatum(sub->durable_lsn));
	rose_subrows_insert("subscription_state", &state);
	write_options(subid, sub);
	if (sub->logged)
		rose_origin_create(subid);
	return subid;
}

void
rose_subscription_update(const RoseSubscription *sub)
{
	RoseRowEdit row = {0};

	set_changeable_columns(&row, sub);
	rose_subrows_update("subscription", ROSE_SUBROWS_OF(sub->subid), &row);
	write_options(sub->subid, sub);
}

void
rose_subscription_set_owner(Oid subid, Oid owner)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, SUB_OWNER, ObjectIdGetDatum(owner));
	rose_subrows_update("subscription", ROSE_SUBROWS_OF(subid), &row);
}

void
rose_subscription_delete(Oid subid)
{
	RoseSubscription options = {0};

	rose_subscription_forget_new(subid);
	rose_old_rows_forget(subid, InvalidOid);
	rose_chunks_forget(subid, InvalidOid);
	rose_seen_forget(subid, InvalidOid);
	rose_prepared_forget_all(subid);
	if (read_options(subid, &options))
		rose_subrows_delete("subscription_options", ROSE_SUBROWS_OF(subid));
	rose_subrows_delete("subscription_rel", ROSE_SUBROWS_OF(subid));
	rose_subrows_delete("subscription_state", ROSE_SUBROWS_OF(subid));
	rose_subrows_delete("subscription", ROSE_SUBROWS_OF(subid));
	if (options.logged)
		rose_origin_drop(subid);
}

void
rose_subscription_lock(Oid subid)
{
	rose_subrows_lock("subscription", subid);
}

bool
rose_subscription_try_lock(Oid subid)
{
	return rose_subrows_try_lock("subscription", subid);
}

void
rose_subscription_lock_identity(Oid subid)
{
	rose_subrows_lock("subscription_state", subid);
}

void
rose_subscription_lock_table(Oid relid)
{
	rose_subrows_lock("subscription_rel", relid);
}

static void
set_remote(RoseRowEdit *row, const RoseUpstreamTable *remote)
{
	rose_row_set(row, REL_REMOTE_RELID, ObjectIdGetDatum(remote->relid));
	rose_row_set(row, REL_REMOTE_SCHEMA, CStringGetTextDatum(remote->nspname));
	rose_row_set(row, REL_REMOTE_NAME, CStringGetTextDatum(remote->relname));
}

void
rose_subscription_add_table(Oid subid, Oid relid, const RoseUpstreamTable *remote,
							const char *state)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, REL_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, REL_RELID, ObjectIdGetDatum(relid));
	rose_row_set(&row, REL_STATE, CStringGetTextDatum(state));
	set_remote(&row, remote);
	rose_subrows_insert("subscription_rel", &row);
}

void
rose_subscription_set_remote(Oid subid, Oid relid, const RoseUpstreamTable *remote)
{
	RoseRowEdit row = {0};

	set_remote(&row, remote);
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

void
rose_subscription_set_columns(Oid subid, Oid relid, const RoseColumnMap *columns)
{
	RoseRowEdit row = {0};
	List	   *names = NIL;

	for (int i = 0; i < columns->n; i++)
		names = lappend(names, makeString(columns->remote_names[i]));
	rose_row_set(&row, REL_ATTNUMS, attnums_to_array(columns->attnums, columns->n));
	rose_row_set(&row, REL_REMOTE_ATTNUMS, attnums_to_array(columns->remote_attnums, columns->n));
	rose_row_set(&row, REL_REMOTE_COLUMNS, strings_to_text_array(names));
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

static bool
is_new(Oid subid, Oid remote_relid)
{
	RoseRowScan cs;
	bool		found = false;

	if (!rose_subrows_begin(&cs, "subscription_new", NEW_NATTS))
		return false;
	while (rose_subrows_next(&cs))
		found |= DatumGetObjectId(rose_subrows_value(&cs, NEW_SUBID)) == subid &&
			DatumGetObjectId(rose_subrows_value(&cs, NEW_REMOTE_RELID)) == remote_relid;
	rose_subrows_end(&cs);
	return found;
}

void
rose_subscription_note_new(Oid subid, const RoseUpstreamTable *remote, XLogRecPtr lsn)
{
	RoseRowEdit row = {0};

	if (is_new(subid, remote->relid))
		return;
	rose_row_set(&row, NEW_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, NEW_REMOTE_RELID, ObjectIdGetDatum(remote->relid));
	rose_row_set(&row, NEW_REMOTE_SCHEMA, CStringGetTextDatum(remote->nspname));
	rose_row_set(&row, NEW_REMOTE_NAME, CStringGetTextDatum(remote->relname));
	rose_row_set(&row, NEW_FIRST_LSN, LSNGetDatum(lsn));
	rose_subrows_insert("subscription_new", &row);
}

void
rose_subscription_forget_new(Oid subid)
{
	rose_subrows_delete("subscription_new", ROSE_SUBROWS_OF(subid));
}

void
rose_subscription_remove_table(Oid subid, Oid relid)
{
	rose_subrows_delete("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid));
	rose_old_rows_forget(subid, relid);
	rose_chunks_forget(subid, relid);
	rose_seen_forget(subid, relid);
}

void
rose_subscription_set_table(Oid subid, Oid relid, const char *state, XLogRecPtr sync_lsn,
							const char *error, const char *error_code, XLogRecPtr error_lsn)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, REL_STATE, CStringGetTextDatum(state));
	rose_row_set_lsn(&row, REL_SYNC_LSN, sync_lsn);
	rose_row_set_text(&row, REL_LAST_ERROR, error);
	rose_row_set_text(&row, REL_ERROR_CODE, error_code);
	rose_row_set_lsn(&row, REL_ERROR_LSN, error_lsn);
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

void
rose_subscription_set_state_of_table(Oid subid, Oid relid, const char *state)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, REL_STATE, CStringGetTextDatum(state));
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

void
rose_subscription_set_copying(Oid subid, Oid relid, XLogRecPtr lsn)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, REL_STATE, CStringGetTextDatum(ROSE_REL_COPYING));
	rose_row_set_lsn(&row, REL_SYNC_LSN, lsn);
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

void
rose_subscription_set_sync(Oid subid, Oid relid, XLogRecPtr sync_lsn)
{
	RoseRowEdit row = {0};

	rose_row_set_lsn(&row, REL_SYNC_LSN, sync_lsn);
	rose_subrows_update("subscription_rel", ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

static void
set_commit(RoseRowEdit *row, const RoseUpstreamCommit *commit)
{
	rose_row_set_lsn(row, STATE_COMMIT_LSN, commit->lsn);
	rose_row_set(row, STATE_COMMIT_XID, Int64GetDatum((int64) commit->xid));
	rose_row_set(row, STATE_COMMIT_TIME, TimestampTzGetDatum(commit->time));
	rose_row_set(row, STATE_COMMIT_PUBLICATIONS, Int64GetDatum((int64) commit->publications));
}

void
rose_subscription_set_state(Oid subid, uint64 epoch, XLogRecPtr durable_lsn,
							const RoseUpstreamCommit *last_commit)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, STATE_EPOCH, Int64GetDatum((int64) epoch));
	rose_row_set(&row, STATE_DURABLE_LSN, LSNGetDatum(durable_lsn));
	set_commit(&row, last_commit);
	rose_subrows_update("subscription_state", ROSE_SUBROWS_OF(subid), &row);
	ROSE_STOP_POINT("state-written");
}

void
rose_subscription_set_identity(Oid subid, const RoseUpstreamIdentity *identity)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, STATE_SYSTEM_ID, CStringGetTextDatum(identity->system_id));
	rose_row_set(&row, STATE_TIMELINE, Int64GetDatum((int64) identity->timeline));
	rose_row_set(&row, STATE_UPSTREAM_DBID, ObjectIdGetDatum(identity->dbid));
	rose_subrows_update("subscription_state", ROSE_SUBROWS_OF(subid), &row);
}

void
rose_subscription_set_blocked(Oid subid, const char *reason)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, STATE_BLOCKED, CStringGetTextDatum(reason));
	rose_subrows_update("subscription_state", ROSE_SUBROWS_OF(subid), &row);
}

void
rose_subscription_forget_upstream(Oid subid)
{
	RoseRowEdit row = {0};
	RoseUpstreamCommit none = {0};

	rose_row_set(&row, STATE_DURABLE_LSN, LSNGetDatum(InvalidXLogRecPtr));
	set_commit(&row, &none);
	rose_row_set_null(&row, STATE_SYSTEM_ID);
	rose_row_set_null(&row, STATE_TIMELINE);
	rose_row_set_null(&row, STATE_UPSTREAM_DBID);
	rose_row_set_null(&row, STATE_BLOCKED);
	rose_subrows_update("subscription_state", ROSE_SUBROWS_OF(subid), &row);
}
