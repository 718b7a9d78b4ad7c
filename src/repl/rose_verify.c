/*-------------------------------------------------------------------------
 *
 * rose_verify.c
 *	  A subscription's tables are compared with the upstream's, as both were at one position.
 *
 * 1 On a connection of its own: is it the upstream that the rows came from?  What is published of each table, under
 * which names.
 * 2 A transaction there that locks these tables as any query does: so none of them is emptied or altered until it
 * ends, and no TRUNCATE comes here that would wait for us.
 * 3 The worker stands still, the upstream makes a temporary slot, and the transaction has the snapshot of the slot's
 * position; the slot is dropped at once.  The worker goes on to that position, and stands still
 * until the tables are locked here and a snapshot was taken (rose_verify_position.c).
 * 4 Table after table is compared (rose_verify_table.c), while the worker goes on.
 *
 * A slot is made when all transactions have ended that were writing upstream when its making began; so
 * that is begun only when those end quickly, and given up if it takes long, for the worker waits.
 *
 * Nothing is left behind on the upstream, whatever happens: the slot is temporary, and the connection ends with us.
 *
 * Locking: the tables in AccessShareLock, until the transaction ends.  What is done about differences is not said here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "replication/walreceiver.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat/rose_compat_repl.h"
#include "util/rose_stop_point.h"
#include "repl/rose_columns.h"
#include "repl/rose_constants.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_verify.h"

/* Since then there is hashtextextended(). */
#define ROSE_VERIFY_VERSION		110000

/* A slot is made when those who write upstream end within so many looks, with so many waits of 10 ms between two; */
#define ROSE_VERIFY_QUICK_LOOKS		7
#define ROSE_VERIFY_WAITS_PER_LOOK	3
/* and its making is given up if one of them takes longer. */
#define ROSE_VERIFY_SLOT_WAIT_MS	500

/* What of the system's identifier has room in a slot's name: 16 digits. */
#define SLOT_NAME_SYSTEMS		UINT64CONST(10000000000000000)

/* ---------------------------------------------------------------------
 * The upstream
 */

static void
check_upstream(const RoseVerify *verify)
{
	RoseUpstreamIdentity identity;
	int			version = walrcv_server_version(verify->conn);

	if (version < ROSE_VERIFY_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compare tables with an upstream of version %d", version / 10000),
				 errdetail("That takes PostgreSQL 11 or later there.")));
	rose_upstream_identity_ask(verify->conn, &identity);
	if (!rose_upstream_identity_is_known(verify->sub, &identity) ||
		(verify->sub->timeline != 0 && identity.timeline != verify->sub->timeline))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the upstream that rose subscription \"%s\" leads to is another one than its rows came from",
						verify->sub->name),
				 errhint("See rose.stat_subscription.")));
}

/* ---------------------------------------------------------------------
 * What is compared
 */

/* Why a table is not compared, by its state, or NULL. */
static char *
problem_of_state(const RoseSubscriptionTable *listed)
{
	if (rose_subscription_table_is_live(listed))
		return NULL;
	if (strcmp(listed->state, ROSE_REL_PAUSED) == 0)
		return "not compared: it is paused";
	if (strcmp(listed->state, ROSE_REL_COPIED) == 0)
		return "not compared: it is copied, and the stream has not gone back to take it in";
	if (rose_subscription_table_waits(listed))
		return "not compared: it is being copied, or waits for that";
	return "not compared: it is in error";
}

/* Why they do not fit, or NULL.  Nothing is done there that an error would leave undone. */
static char *
match_columns(Relation rel, const RoseColumnMap *map, const RoseUpstreamColumns *remote, int16 *local_of)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile problem = NULL;

	PG_TRY();
	{
		rose_columns_match(rel, map, remote, local_of);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		problem = psprintf("not compared: %s", CopyErrorData()->message);
		FlushErrorState();
	}
	PG_END_TRY();
	return problem;
}

/* Why its rows may not be read, or locked, on the upstream, or NULL.  Nothing is done there that an error would leave undone. */
static char *
problem_of_rights(RoseVerify *verify, const RoseUpstreamTable *remote)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile problem = NULL;

	PG_TRY();
	{
		rose_upstream_require_select(verify->conn, remote, NIL);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE)
			PG_RE_THROW();
		FlushErrorState();
		problem = psprintf("not compared: %s", edata->message);
	}
	PG_END_TRY();
	return problem;
}

/*
 * Why its rows may not be shown to whoever has the subscription's owner's rights, or NULL.  They are read as the table's owner,
 * without row security.
 */
static char *
problem_of_owner(const RoseVerify *verify, Relation rel)
{
	if (!rose_owner_may_have(verify->sub, RelationGetRelid(rel)))
		return "not compared: the subscription's owner cannot SET ROLE to the table's owner";
	if (verify->sub->limited &&
		check_enable_rls(RelationGetRelid(rel), rel->rd_rel->relowner, true) == RLS_ENABLED)
		return "not compared: row security applies to the table's owner";
	return NULL;
}

static void
add_name(StringInfo list, const char *name)
{
	appendStringInfo(list, "%s%s", list->len > 0 ? ", " : "", quote_identifier(name));
}

static int
constants_in_key(const RoseConstants *constants, const Bitmapset *key)
{
	int			n = 0;

	for (int i = 0; i < constants->n; i++)
		n += bms_is_member(constants->columns[i].attnum - FirstLowInvalidHeapAttributeNumber, key);
	return n;
}

/*
 * The columns that both sides have, by the pairs of the subscription, those of the key apart, too.  What is computed
 * here is left out, and what only we have.
 */
static void
form_columns(RoseVerifyTable *table, Relation rel, const RoseColumnMap *map, const RoseUpstreamColumns *remote,
			 const RoseConstants *constants)
{
	Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);
	int16	   *local_of = palloc(sizeof(int16) * Max(remote->n, 1));
	int			nkeys = 0;
	StringInfoData names[4];

	for (int i = 0; i < lengthof(names); i++)
		initStringInfo(&names[i]);
	table->upstream.key = table->here.key = NULL;
	table->ncompared = table->nkeys = 0;
	table->compared = palloc(sizeof(int) * Max(remote->n, 1));
	table->keys = palloc(sizeof(int) * Max(remote->n, 1));
	table->key_types = palloc(sizeof(Oid) * Max(remote->n, 1));
	table->key_attnums = palloc(sizeof(AttrNumber) * Max(remote->n, 1));
	table->problem = match_columns(rel, map, remote, local_of);
	if (table->problem != NULL)
		return;
	for (int i = 0; i < remote->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), local_of[i] - 1);
		bool		in_key = bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, key);

		if (att->attgenerated)
			continue;
		add_name(&names[0], remote->names[i]);
		add_name(&names[1], NameStr(att->attname));
		table->compared[table->ncompared++] = i;
		if (!in_key)
			continue;
		table->key_types[nkeys] = att->atttypid;
		table->key_attnums[nkeys] = att->attnum;
		table->keys[nkeys++] = table->ncompared - 1;
		add_name(&names[2], remote->names[i]);
		add_name(&names[3], NameStr(att->attname));
	}
	table->upstream.row = psprintf("ROW(%s)::pg_catalog.text", names[0].data);
	table->here.row = psprintf("ROW(%s)::pg_catalog.text", names[1].data);
	if (nkeys == 0 || nkeys + constants_in_key(constants, key) < bms_num_members(key))
		return;
	table->nkeys = nkeys;
	table->upstream.key = psprintf("ROW(%s)::pg_catalog.text", names[2].data);
	table->here.key = psprintf("ROW(%s)::pg_catalog.text", names[3].data);
}

/* Names of here, which hold as long as the table is locked. */
static void
form_here(RoseVerify *verify, RoseVerifyTable *table, Relation rel, const RoseColumnMap *map)
{
	RoseConstants *constants = rose_constants_create(rel, verify->sub->constants);

	table->nspname = get_namespace_name(RelationGetNamespace(rel));
	table->relname = pstrdup(RelationGetRelationName(rel));
	table->owner = rel->rd_rel->relowner;
	form_columns(table, rel, map, &table->columns, constants);
	table->here.source = psprintf("%s%s", rose_target_tables_has_rows(rel) ? "ONLY " : "",
								  quote_qualified_identifier(table->nspname, table->relname));
	table->here.source = rose_constants_source(constants, rel, table->here.source);
}

/* What is published of it, and where that is here.  The table is open, and not locked any longer than that. */
static void
form_sides(RoseVerify *verify, RoseVerifyTable *table, Relation rel, const RoseColumnMap *map)
{
	List	   *publications = verify->sub->publications;
	RoseUpstreamTable found;
	int64		bytes;

	if (!rose_upstream_find_table(verify->conn, publications, &table->remote, &found) ||
		found.relid != table->remote.relid)
	{
		table->problem = "not compared: the upstream does not publish it any more";
		return;
	}
	table->remote = found;
	table->problem = problem_of_rights(verify, &found);
	if (table->problem != NULL)
		return;
	rose_upstream_published_columns(verify->conn, publications, &found, &table->columns);
	form_here(verify, table, rel, map);
	table->upstream.source = rose_upstream_source(verify->conn, publications, &found);
	rose_upstream_estimate(verify->conn, found.relid, &table->expected_rows, &bytes);
	table->expected_rows = Max(table->expected_rows, (int64) Max(rel->rd_rel->reltuples, 0));
}

static RoseVerifyTable *
form_table(RoseVerify *verify, const RoseSubscriptionTable *listed)
{
	RoseVerifyTable *table = palloc0(sizeof(RoseVerifyTable));
	Relation	rel = try_relation_open(listed->relid, AccessShareLock);

	table->relid = listed->relid;
	table->remote = listed->remote;
	table->nspname = listed->remote.nspname;
	table->relname = listed->remote.relname;
	table->problem = problem_of_state(listed);
	if (rel == NULL)
	{
		table->problem = "not compared: it does not exist here any more";
		return table;
	}
	table->nspname = get_namespace_name(RelationGetNamespace(rel));
	table->relname = pstrdup(RelationGetRelationName(rel));
	table->owner = rel->rd_rel->relowner;
	if (table->problem == NULL)
		table->problem = problem_of_owner(verify, rel);
	if (table->problem == NULL)
		form_sides(verify, table, rel, listed->columns);
	/* not longer: the worker may need it to get to where we wait for it */
	relation_close(rel, AccessShareLock);
	return table;
}

/* Tables that the upstream publishes, and the subscription does not have. */
static void
report_new(RoseVerify *verify, List *listed)
{
	ListCell   *lc;
	ListCell   *lt;

	foreach(lc, rose_upstream_tables(verify->conn, verify->sub->publications))
	{
		RoseUpstreamTable *remote = lfirst(lc);
		RoseVerifyTable table = {.nspname = remote->nspname, .relname = remote->relname};
		bool		known = false;

		foreach(lt, listed)
			known |= ((RoseSubscriptionTable *) lfirst(lt))->remote.relid == remote->relid;
		if (!known)
			rose_verify_table_report(verify, &table, NULL, -1, -1,
									 "not compared: the upstream publishes it, and the subscription does not have it");
	}
}

static void
look_at_tables(RoseVerify *verify)
{
	List	   *listed = rose_subscription_tables(verify->sub->subid);
	ListCell   *lc;

	verify->tables = NIL;
	if (verify->options->relids == NIL)
	{
		foreach(lc, listed)
			verify->tables = lappend(verify->tables, form_table(verify, lfirst(lc)));
		return;
	}
	foreach(lc, verify->options->relids)
	{
		RoseSubscriptionTable *one = rose_subscription_find_table(listed, lfirst_oid(lc));

		if (one == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("table \"%s\" is not part of rose subscription \"%s\"",
							get_rel_name(lfirst_oid(lc)), verify->sub->name)));
		verify->tables = lappend(verify->tables, form_table(verify, one));
	}
}

static bool
has_tables_to_compare(const RoseVerify *verify)
{
	ListCell   *lc;

	foreach(lc, verify->tables)
	{
		if (((RoseVerifyTable *) lfirst(lc))->problem == NULL)
			return true;
	}
	return false;
}

/* ---------------------------------------------------------------------
 * The position
 */

#define WRITERS \
	"pg_catalog.pg_locks l WHERE l.locktype OPERATOR(pg_catalog.=) 'transactionid'" \
	" AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND l.granted"

/* Those who are writing on the upstream: their transaction ids, as the elements of an array. */
static char *
ask_writers(RoseVerify *verify)
{
	char	   *values[1] = {NULL};

	(void) rose_upstream_row(verify->conn,
							 "SELECT pg_catalog.string_agg(l.transactionid::pg_catalog.text, ',') FROM " WRITERS,
							 1, values, "ask who writes on the upstream");
	return values[0] != NULL ? values[0] : pstrdup("");
}

/* What is to be said of one of them who has not ended yet; NULL: all have. */
static char *
ask_left(RoseVerify *verify, const char *writers)
{
	char	   *values[2];

	if (!rose_upstream_row(verify->conn,
						   psprintf("SELECT l.transactionid::pg_catalog.text, (SELECT p.gid FROM pg_catalog.pg_prepared_xacts p"
									" WHERE p.transaction OPERATOR(pg_catalog.=) l.transactionid) FROM " WRITERS
									" AND l.transactionid::pg_catalog.text OPERATOR(pg_catalog.=) ANY ('{%s}') LIMIT 1", writers),
						   2, values, "ask who writes on the upstream"))
		return NULL;
	if (values[1] != NULL)
		return psprintf("Transaction %s of the upstream was prepared, as \"%s\", and is neither committed nor rolled back.",
						values[0], values[1]);
	return psprintf("Transaction %s of the upstream has been writing for longer than that.", values[0]);
}

/*
 * Until all who were writing upstream at one look have ended some looks later.  A slot is made when those have ended that
 * write when its making begins.
 */
static void
wait_until_quick(RoseVerify *verify)
{
	char	   *left = NULL;

	do
	{
		char	   *writers = ask_writers(verify);

		for (int i = 0; i < ROSE_VERIFY_QUICK_LOOKS && (left = ask_left(verify, writers)) != NULL; i++)
		{
			for (int j = 0; j < ROSE_VERIFY_WAITS_PER_LOOK; j++)
				rose_verify_position_nap(verify->sub, verify->deadline, "take a snapshot of the upstream", left);
		}
	} while (left != NULL);
}

/* With all tables locked there, so that none is altered or emptied before the transaction ends. */
static void
begin_upstream(RoseVerify *verify)
{
	StringInfoData tables;
	ListCell   *lc;
	int64		left = Max((verify->deadline - GetCurrentTimestamp()) / 1000, 1);

	initStringInfo(&tables);
	foreach(lc, verify->tables)
	{
		RoseVerifyTable *table = lfirst(lc);

		if (table->problem == NULL)
			appendStringInfo(&tables, "%s%s", tables.len > 0 ? ", " : "",
							 quote_qualified_identifier(table->remote.nspname, table->remote.relname));
	}
	rose_upstream_command(verify->conn, psprintf("SET lock_timeout = %d", (int) Min(left, INT_MAX)));
	rose_upstream_command(verify->conn, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
	rose_upstream_command(verify->conn, psprintf("LOCK TABLE %s IN ACCESS SHARE MODE", tables.data));
	rose_upstream_command(verify->conn, psprintf("SET LOCAL lock_timeout = %d", ROSE_VERIFY_SLOT_WAIT_MS));
}

/* Of this server's system, database and subscription, and of this try. */
static char *
slot_name(const RoseVerify *verify)
{
	return psprintf("rose_verify_%u_%u_" UINT64_FORMAT "_%x", MyDatabaseId, verify->sub->subid,
					GetSystemIdentifier() % SLOT_NAME_SYSTEMS, (uint32) GetCurrentTimestamp());
}

/*
 * The upstream's transaction gets the snapshot of a slot's position.  False: somebody has begun to write there meanwhile, and
 * takes long.  What else is wrong comes at once.
 */
static bool
take_upstream_snapshot(RoseVerify *verify, const char *slot)
{
	MemoryContext context = CurrentMemoryContext;
	TimestampTz begun = GetCurrentTimestamp();
	volatile bool taken = true;

	PG_TRY();
	{
		(void) rose_walrcv_create_slot(verify->conn, slot, true, CRS_USE_SNAPSHOT, &verify->lsn);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_PROTOCOL_VIOLATION ||
			!TimestampDifferenceExceeds(begun, GetCurrentTimestamp(), ROSE_VERIFY_SLOT_WAIT_MS))
			PG_RE_THROW();
		FlushErrorState();
		FreeErrorData(edata);
		taken = false;
	}
	PG_END_TRY();
	return taken;
}

/* With its partitions, if it has some. */
static bool
lock_table_here(RoseVerifyTable *table)
{
	ListCell   *lc;

	if (!ConditionalLockRelationOid(table->relid, AccessShareLock))
		return false;
	table->locked = list_make1_oid(table->relid);
	foreach(lc, find_all_inheritors(table->relid, NoLock, NULL))
	{
		if (lfirst_oid(lc) == table->relid)
			continue;
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			return false;
		table->locked = lappend_oid(table->locked, lfirst_oid(lc));
	}
	return true;
}

/* Those that somebody has locked are not waited for: the worker stands still.  False: one is. */
static bool
lock_here(RoseVerify *verify)
{
	ListCell   *lc;

	foreach(lc, verify->tables)
	{
		RoseVerifyTable *table = lfirst(lc);

		if (table->problem == NULL && !lock_table_here(table))
			return false;
	}
	return true;
}

/* It was not locked since it was looked at, and is now. */
static void
look_at_names_again(RoseVerify *verify, RoseVerifyTable *table, const RoseColumnMap *map)
{
	Relation	rel = try_relation_open(table->relid, NoLock);

	if (rel == NULL)
	{
		table->problem = "not compared: it does not exist here any more";
		return;
	}
	table->problem = problem_of_owner(verify, rel);
	if (table->problem == NULL)
		form_here(verify, table, rel, map);
	relation_close(rel, NoLock);
}

/* States may have changed since they were looked at, and a table may be further than the stream. */
static void
look_again(RoseVerify *verify)
{
	List	   *listed = rose_subscription_tables(verify->sub->subid);
	ListCell   *lc;

	foreach(lc, verify->tables)
	{
		RoseVerifyTable *table = lfirst(lc);
		RoseSubscriptionTable *now = rose_subscription_find_table(listed, table->relid);

		if (table->problem != NULL)
			continue;
		if (now == NULL || now->remote.relid != table->remote.relid)
			table->problem = "not compared: it is not part of the subscription any more";
		else
			table->problem = problem_of_state(now);
		if (table->problem == NULL && now->sync_lsn > verify->lsn)
			table->problem = "not compared: it is further than the stream, which has gone back for another table";
		if (table->problem == NULL && now->exact_lsn > verify->lsn)
			table->problem = "not compared: it was copied in pieces, and the stream is not past all of them yet";
		if (table->problem == NULL)
			look_at_names_again(verify, table, now->columns);
	}
}

/* One try; false: begin anew. */
static bool
try_position(RoseVerify *verify)
{
	const RoseSubscription *sub = verify->sub;
	char	   *slot = slot_name(verify);
	int64		stood_us;

	rose_verify_position_begin(sub, verify->deadline);
	if (!take_upstream_snapshot(verify, slot) || !rose_verify_position_go(sub, verify->lsn))
		return false;
	rose_upstream_command(verify->conn, "SET LOCAL lock_timeout = 0");
	rose_upstream_drop_slot(verify->conn, slot);
	if (!rose_verify_position_wait(sub, verify->deadline) || !lock_here(verify))
		return false;
	verify->snapshot = RegisterSnapshot(GetLatestSnapshot());
	look_again(verify);
	if ((verify->at_position == NULL || verify->at_position(verify)) &&
		rose_verify_position_end(sub->subid, &stood_us))
	{
		ereport(DEBUG1,
				(errmsg_internal("the worker of rose subscription \"%s\" has stood still for %.3f ms at %X/%X",
								 sub->name, stood_us / 1000.0, LSN_FORMAT_ARGS(verify->lsn))));
		return true;
	}
	UnregisterSnapshot(verify->snapshot);
	verify->snapshot = NULL;
	return false;
}

static void
end_hold(int code, Datum subid)
{
	(void) rose_verify_position_end(DatumGetObjectId(subid), NULL);
}

static void
unlock_here(const RoseVerify *verify)
{
	ListCell   *lc;
	ListCell   *ll;

	foreach(lc, verify->tables)
	{
		foreach(ll, ((RoseVerifyTable *) lfirst(lc))->locked)
			UnlockRelationOid(lfirst_oid(ll), AccessShareLock);
	}
}

/* ---------------------------------------------------------------------
 * All of it
 */

static void
connect_upstream(RoseVerify *verify)
{
	if (verify->conn != NULL)
		rose_upstream_disconnect(verify->conn);
	verify->conn = NULL;
	verify->conn = rose_upstream_connect(verify->sub);
	check_upstream(verify);
	rose_verify_query_set_up(verify);
	look_at_tables(verify);
}

/* Until both snapshots are there. */
static void
reach_position(RoseVerify *verify)
{
	Oid			subid = verify->sub->subid;
	volatile bool reached = false;

	for (;;)
	{
		wait_until_quick(verify);
		begin_upstream(verify);
		PG_ENSURE_ERROR_CLEANUP(end_hold, ObjectIdGetDatum(subid));
		{
			reached = try_position(verify);
		}
		PG_END_ENSURE_ERROR_CLEANUP(end_hold, ObjectIdGetDatum(subid));
		if (reached)
			break;
		end_hold(0, ObjectIdGetDatum(subid));
		unlock_here(verify);
		rose_verify_position_nap(verify->sub, verify->deadline, "take a snapshot of the upstream and one of the replica at its position",
						 "Somebody has locked a table, transactions on the upstream take long, or the worker has ended meanwhile.");
		connect_upstream(verify);
	}
}

/*
 * An error is of this table alone, here and on the upstream, unless it is one that has nothing to do with it (the connection
 * is gone, somebody cancels).
 */
static void
compare_table(RoseVerify *verify, const RoseVerifyTable *table)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile failed = NULL;

	rose_upstream_command(verify->conn, "SAVEPOINT before_table");
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		rose_verify_table_compare(verify, table);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		failed = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (failed == NULL)
		return;
	if (rose_table_error_may_pass(failed->sqlerrcode))
		ReThrowError(failed);
	rose_upstream_command(verify->conn, "ROLLBACK TO SAVEPOINT before_table");
	rose_verify_table_report(verify, table, NULL, -1, -1, psprintf("not compared: %s", failed->message));
}

static void
compare_tables(RoseVerify *verify)
{
	ListCell   *lc;

	foreach(lc, verify->tables)
	{
		RoseVerifyTable *table = lfirst(lc);

		/* it is locked there by now */
		if (table->problem == NULL && !rose_upstream_has_names(verify->conn, &table->remote))
			table->problem = "not compared: the upstream's table, or a column of it, was renamed or replaced meanwhile";
		if (table->problem == NULL)
			compare_table(verify, table);
		else
			rose_verify_table_report(verify, table, NULL, -1, -1, table->problem);
	}
}

void
rose_verify_run(RoseVerify *verify, const RoseSubscription *sub, const RoseVerifyOptions *options)
{
	int			guc_level = NewGUCNestLevel();

	verify->sub = sub;
	verify->options = options;
	PG_TRY();
	{
		connect_upstream(verify);
		verify->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), options->timeout_s * INT64CONST(1000));
		if (has_tables_to_compare(verify))
			reach_position(verify);
		ROSE_STOP_POINT("verify-taken");
		if (verify->at_position == NULL)
			compare_tables(verify);
		if (options->relids == NIL)
			report_new(verify, rose_subscription_tables(sub->subid));
	}
	PG_FINALLY();
	{
		if (verify->conn != NULL)
			rose_upstream_disconnect(verify->conn);
	}
	PG_END_TRY();
	if (verify->snapshot != NULL)
		UnregisterSnapshot(verify->snapshot);
	AtEOXact_GUC(false, guc_level);
}

void
rose_verify_subscription(const RoseSubscription *sub, const RoseVerifyOptions *options)
{
	rose_verify_run(palloc0(sizeof(RoseVerify)), sub, options);
}
