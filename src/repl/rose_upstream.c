/*-------------------------------------------------------------------------
 *
 * rose_upstream.c
 *	  The connection to an upstream: queries, slots, the stream, feedback.
 *
 * Everything goes through core's libpqwalreceiver, which is loaded when the first
 * connection is made.  Its calls wait on the process latch and react to
 * interrupts.  Replication connections take SQL, too, until streaming starts.
 *
 * Nothing here knows of local tables, batches or epochs.
 *
 * State is of the process; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_conninfo.h"
#include "repl/rose_repl_internal.h"

/* The most columns that rose_upstream_row reads. */
#define ROSE_UPSTREAM_ROW_COLUMNS	16

/* Since then upstreams send transactions in progress. */
#define ROSE_STREAMING_VERSION		140000

static void
load_library(void)
{
	if (WalReceiverFunctions == NULL)
		load_file("libpqwalreceiver", false);
}

void
rose_upstream_check_conninfo(const RoseSubscription *sub)
{
	load_library();
	rose_conninfo_check(sub->conninfo, sub->limited, superuser());
}

/*
 * Values of type money as text, as we read them (util/rose_background_settings.c): the library sees to other types.  A
 * connection on which that fails is of no use to the caller, who has not got it.
 */
static void
set_formats(WalReceiverConn *conn)
{
	PG_TRY();
	{
		rose_upstream_command(conn, "SET lc_monetary = 'C'");
	}
	PG_CATCH();
	{
		walrcv_disconnect(conn);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * The connection lives until it is disconnected, whatever context is current.  Whose the subscription is may have changed since the
 * string was given: without a password in it, libpq might take one of the server's.
 */
WalReceiverConn *
rose_upstream_connect(const RoseSubscription *sub)
{
	WalReceiverConn *conn;
	MemoryContext old;
	char	   *err = NULL;

	load_library();
	rose_conninfo_check(sub->conninfo, sub->limited, true);
	old = MemoryContextSwitchTo(TopMemoryContext);
	conn = rose_walrcv_connect(sub->conninfo, sub->name, sub->limited, &err);
	MemoryContextSwitchTo(old);
	if (conn == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not connect to the upstream: %s", err)));
	set_formats(conn);
	return conn;
}

void
rose_upstream_disconnect(WalReceiverConn *conn)
{
	walrcv_disconnect(conn);
}

/* ---------------------------------------------------------------------
 * Queries
 */

WalRcvExecResult *
rose_upstream_query(WalReceiverConn *conn, const char *sql, int ncols, const Oid *types,
					const char *purpose)
{
	WalRcvExecResult *res = walrcv_exec(conn, sql, ncols, types);

	if (res->status != WALRCV_OK_TUPLES)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not %s: %s", purpose,
						res->err != NULL ? res->err : "unexpected result")));
	return res;
}

void
rose_upstream_malformed(const char *purpose)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("could not %s: the answer is not of the form that was asked for", purpose)));
}

/*
 * A column of type text; NULL for NULL.  Whatever answers need not be a PostgreSQL server, or one that means well: nobody
 * has looked at the text's encoding so far.
 */
char *
rose_upstream_text(TupleTableSlot *slot, int attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, attnum, &isnull);
	char	   *result;

	if (isnull)
		return NULL;
	result = TextDatumGetCString(value);
	(void) pg_verify_mbstr(GetDatabaseEncoding(), result, strlen(result), false);
	return result;
}

static char *
require_text(TupleTableSlot *slot, int attnum, const char *purpose)
{
	char	   *result = rose_upstream_text(slot, attnum);

	if (result == NULL)
		rose_upstream_malformed(purpose);
	return result;
}

List *
rose_upstream_strings(WalReceiverConn *conn, const char *sql, const char *purpose)
{
	Oid			types[1] = {TEXTOID};
	WalRcvExecResult *res = rose_upstream_query(conn, sql, 1, types, purpose);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	List	   *result = NIL;

	while (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
	{
		result = lappend(result, rose_upstream_text(slot, 1));
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
	return result;
}

bool
rose_upstream_row(WalReceiverConn *conn, const char *sql, int ncols, char **values,
				  const char *purpose)
{
	Oid			types[ROSE_UPSTREAM_ROW_COLUMNS];
	WalRcvExecResult *res;
	TupleTableSlot *slot;
	bool		found;

	Assert(ncols <= ROSE_UPSTREAM_ROW_COLUMNS);
	for (int i = 0; i < ROSE_UPSTREAM_ROW_COLUMNS; i++)
		types[i] = TEXTOID;
	res = rose_upstream_query(conn, sql, ncols, types, purpose);
	slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	found = tuplestore_gettupleslot(res->tuplestore, true, false, slot);
	for (int i = 0; found && i < ncols; i++)
		values[i] = rose_upstream_text(slot, i + 1);
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
	return found;
}

void
rose_upstream_command(WalReceiverConn *conn, const char *command)
{
	WalRcvExecResult *res = walrcv_exec(conn, command, 0, NULL);

	if (res->status != WALRCV_OK_COMMAND)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream rejected a command: %s",
						res->err != NULL ? res->err : "unexpected result"),
				 errdetail("The command was: %s", command)));
	walrcv_clear_result(res);
}

/* 'a', 'b', ...: the names as SQL literals. */
char *
rose_upstream_literals(List *strings)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, strings)
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "",
						 quote_literal_cstr(strVal(lfirst(lc))));
	return buf.data;
}

/* An upstream cannot send the changes of such a table.  Column lists came with 15. */
static void
check_column_lists(WalReceiverConn *conn, List *publications)
{
	List	   *found;

	if (walrcv_server_version(conn) < 150000)
		return;
	found = rose_upstream_strings(conn,
						  psprintf("SELECT t.schemaname OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) t.tablename"
								   " FROM pg_catalog.pg_publication_tables t WHERE t.pubname IN (%s)"
								   " GROUP BY t.schemaname, t.tablename"
								   " HAVING pg_catalog.count(DISTINCT t.attnames) OPERATOR(pg_catalog.>) 1"
								   " ORDER BY 1 LIMIT 1", rose_upstream_literals(publications)),
						  "read the column lists of the upstream's publications");
	if (found != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use different column lists for table \"%s\" in different publications",
						(char *) linitial(found)),
				 errhint("Give it the same list in all publications of the subscription.")));
}

void
rose_upstream_check_publications(WalReceiverConn *conn, List *publications)
{
	List	   *found;
	ListCell   *lc;

	found = rose_upstream_strings(conn,
						  psprintf("SELECT p.pubname::pg_catalog.text FROM pg_catalog.pg_publication p"
								   " WHERE p.pubname IN (%s)", rose_upstream_literals(publications)),
						  "read the upstream's publications");
	foreach(lc, publications)
	{
		char	   *name = strVal(lfirst(lc));
		ListCell   *lf;
		bool		exists = false;

		foreach(lf, found)
			exists |= lfirst(lf) != NULL && strcmp(lfirst(lf), name) == 0;
		if (!exists)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("publication \"%s\" does not exist on the upstream", name),
					 errhint("Create it there first, with CREATE PUBLICATION.")));
	}
	check_column_lists(conn, publications);
}

/* The view knows names only. */
#define PUBLISHED_TABLES \
	" FROM pg_catalog.pg_publication_tables t" \
	" JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname" \
	" JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename"

List *
rose_upstream_tables(WalReceiverConn *conn, List *publications)
{
	const char *purpose = "read the tables of the upstream's publications";
	Oid			types[3] = {TEXTOID, TEXTOID, OIDOID};
	WalRcvExecResult *res;
	TupleTableSlot *slot;
	List	   *result = NIL;

	res = rose_upstream_query(conn,
				psprintf("SELECT DISTINCT t.schemaname::pg_catalog.text, t.tablename::pg_catalog.text, c.oid"
						 PUBLISHED_TABLES " WHERE t.pubname IN (%s)"
						 " ORDER BY 1, 2", rose_upstream_literals(publications)),
				3, types, purpose);
	slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
	{
		bool		isnull;
		RoseUpstreamTable *table = palloc(sizeof(RoseUpstreamTable));

		table->nspname = require_text(slot, 1, purpose);
		table->relname = require_text(slot, 2, purpose);
		table->relid = DatumGetObjectId(slot_getattr(slot, 3, &isnull));
		if (isnull)
			rose_upstream_malformed(purpose);
		result = lappend(result, table);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
	return result;
}

bool
rose_upstream_find_table(WalReceiverConn *conn, List *publications,
						 const RoseUpstreamTable *known, RoseUpstreamTable *found)
{
	char	   *values[3];

	if (!rose_upstream_row(conn,
						   psprintf("SELECT t.schemaname::pg_catalog.text, t.tablename::pg_catalog.text, c.oid::pg_catalog.text"
									PUBLISHED_TABLES " WHERE t.pubname IN (%s)"
									" AND (c.oid = %u OR (t.schemaname = %s AND t.tablename = %s))"
									" ORDER BY c.oid = %u DESC LIMIT 1",
									rose_upstream_literals(publications), known->relid,
									quote_literal_cstr(known->nspname),
									quote_literal_cstr(known->relname), known->relid),
						   3, values, "find a published table"))
		return false;
	if (values[0] == NULL || values[1] == NULL || values[2] == NULL)
		rose_upstream_malformed("find a published table");
	found->nspname = values[0];
	found->relname = values[1];
	found->relid = (Oid) strtoul(values[2], NULL, 10);
	return true;
}

XLogRecPtr
rose_upstream_wal_end(WalReceiverConn *conn)
{
	Oid			types[1] = {LSNOID};
	WalRcvExecResult *res;
	XLogRecPtr	result = InvalidXLogRecPtr;
	TupleTableSlot *slot;

	res = walrcv_exec(conn,
					  "SELECT CASE WHEN pg_catalog.pg_is_in_recovery()"
					  " THEN pg_catalog.pg_last_wal_replay_lsn()"
					  " ELSE pg_catalog.pg_current_wal_lsn() END",
					  1, types);
	if (res->status == WALRCV_OK_TUPLES)
	{
		slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
		if (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
		{
			bool		isnull;
			Datum		value = slot_getattr(slot, 1, &isnull);

			if (!isnull)
				result = DatumGetLSN(value);
		}
		ExecDropSingleTupleTableSlot(slot);
	}
	walrcv_clear_result(res);
	return result;
}

/* ---------------------------------------------------------------------
 * Slots
 */

void
rose_upstream_create_slot(WalReceiverConn *conn, const char *slot, XLogRecPtr *lsn)
{
	(void) rose_walrcv_create_slot(conn, slot, false, CRS_NOEXPORT_SNAPSHOT, lsn);
}

/* A slot that is gone already is fine. */
void
rose_upstream_drop_slot(WalReceiverConn *conn, const char *slot)
{
	WalRcvExecResult *res;

	res = walrcv_exec(conn, psprintf("DROP_REPLICATION_SLOT %s WAIT", quote_identifier(slot)),
					  0, NULL);
	if (res->status != WALRCV_OK_COMMAND &&
		!(res->status == WALRCV_ERROR && res->sqlstate == ERRCODE_UNDEFINED_OBJECT))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not drop replication slot \"%s\" on the upstream: %s",
						slot, res->err != NULL ? res->err : "unexpected result")));
	walrcv_clear_result(res);
}

/* ---------------------------------------------------------------------
 * What is published
 */

/* "number name" each */
static void
parse_columns(List *rows, RoseUpstreamColumns *out)
{
	ListCell   *lc;

	out->n = 0;
	out->attnums = palloc(sizeof(int16) * Max(list_length(rows), 1));
	out->names = palloc(sizeof(char *) * Max(list_length(rows), 1));
	foreach(lc, rows)
	{
		char	   *name;

		if (lfirst(lc) == NULL)
			rose_upstream_malformed("read the columns of a table");
		out->attnums[out->n] = (int16) strtol(lfirst(lc), &name, 10);
		if (*name == '\0')
			rose_upstream_malformed("read the columns of a table");
		out->names[out->n++] = name + 1;
	}
}

#define COLUMN_WITH_NUMBER \
	"SELECT pg_catalog.concat(a.attnum::pg_catalog.text, ' ', a.attname::pg_catalog.text)" \
	" FROM pg_catalog.pg_attribute a"

bool
rose_upstream_key_is_deferrable(WalReceiverConn *conn, Oid relid, const int16 *attnums, int n)
{
	StringInfoData sql;
	List	   *found;

	initStringInfo(&sql);
	/* columns that INCLUDE adds came with 11 */
	appendStringInfo(&sql,
					 "SELECT pg_catalog.bool_or(i.indimmediate)::pg_catalog.text FROM pg_catalog.pg_index i"
					 " WHERE i.indrelid = %u AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL"
					 " AND (i.indkey::pg_catalog.int2[])[0:i.%s - 1] OPERATOR(pg_catalog.<@) '{",
					 relid, walrcv_server_version(conn) >= 110000 ? "indnkeyatts" : "indnatts");
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s%d", i > 0 ? "," : "", attnums[i]);
	appendStringInfoString(&sql, "}'::pg_catalog.int2[]");
	found = rose_upstream_strings(conn, sql.data, "read the keys of a table");
	return found != NIL && linitial(found) != NULL && strcmp(linitial(found), "false") == 0;
}

/*
 * Generated columns exist since 12 and can be published since 18, whose view of
 * publications has those that are.
 */
void
rose_upstream_published_columns(WalReceiverConn *conn, List *publications,
								const RoseUpstreamTable *table, RoseUpstreamColumns *out)
{
	int			version = walrcv_server_version(conn);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 COLUMN_WITH_NUMBER
					 " JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
					 " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
					 " WHERE n.nspname = %s AND c.relname = %s"
					 " AND a.attnum > 0 AND NOT a.attisdropped",
					 quote_literal_cstr(table->nspname), quote_literal_cstr(table->relname));
	if (version >= 120000 && version < 180000)
		appendStringInfoString(&sql, " AND a.attgenerated = ''");
	/* 15 brought column lists, and the view's column that shows them */
	if (version >= 150000)
		appendStringInfo(&sql,
						 " AND EXISTS (SELECT FROM pg_catalog.pg_publication_tables t"
						 " WHERE t.pubname IN (%s) AND t.schemaname = n.nspname"
						 " AND t.tablename = c.relname AND a.attname = ANY (t.attnames))",
						 rose_upstream_literals(publications));
	appendStringInfoString(&sql, " ORDER BY a.attnum");
	parse_columns(rose_upstream_strings(conn, sql.data, "read the columns of a published table"), out);
}

void
rose_upstream_published_kinds(WalReceiverConn *conn, List *publications, const RoseUpstreamTable *table,
							  RoseUpstreamKinds *out)
{
	char	   *values[3] = {NULL, NULL, NULL};

	(void) rose_upstream_row(conn,
							 psprintf("SELECT pg_catalog.bool_or(p.pubinsert)::pg_catalog.text, pg_catalog.bool_or(p.pubupdate)::pg_catalog.text,"
									  " pg_catalog.bool_or(p.pubdelete)::pg_catalog.text"
									  " FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_publication p ON p.pubname OPERATOR(pg_catalog.=) t.pubname"
									  " WHERE t.pubname IN (%s) AND t.schemaname = %s AND t.tablename = %s",
									  rose_upstream_literals(publications), quote_literal_cstr(table->nspname), quote_literal_cstr(table->relname)),
							 3, values, "ask which changes are published");
	out->inserts = values[0] != NULL && strcmp(values[0], "true") == 0;
	out->updates = values[1] != NULL && strcmp(values[1], "true") == 0;
	out->deletes = values[2] != NULL && strcmp(values[2], "true") == 0;
}

/* Of partitions, if it has some: statistics of the whole may be missing. */
void
rose_upstream_estimate(WalReceiverConn *conn, Oid relid, int64 *rows, int64 *bytes)
{
	char	   *values[2] = {NULL, NULL};
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT pg_catalog.sum(greatest(c.reltuples, 0))::pg_catalog.int8::pg_catalog.text,"
					 " pg_catalog.sum(pg_catalog.pg_table_size(c.oid))::pg_catalog.int8::pg_catalog.text"
					 " FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND (c.oid = %u", relid);
	if (walrcv_server_version(conn) >= 120000)
		appendStringInfo(&sql, " OR c.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(%u) t)", relid);
	appendStringInfoString(&sql, ")");
	(void) rose_upstream_row(conn, sql.data, 2, values, "read the size of a table");
	*rows = values[0] != NULL ? strtoll(values[0], NULL, 10) : 0;
	*bytes = values[1] != NULL ? strtoll(values[1], NULL, 10) : 0;
}

/* Of row security, COPY itself speaks (rose_upstream_prepare_copy). */
void
rose_upstream_require_select(WalReceiverConn *conn, const RoseUpstreamTable *table, List *columns)
{
	char	   *values[1];
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT (pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')"
					 " AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR (%s", columns == NIL ? "false" : "true");
	foreach(lc, columns)
		appendStringInfo(&sql, " AND pg_catalog.has_column_privilege(c.oid, %s, 'SELECT')",
						 quote_literal_cstr(lfirst(lc)));
	appendStringInfo(&sql, ")))::pg_catalog.text FROM pg_catalog.pg_class c WHERE c.oid = %u", table->relid);
	if (!rose_upstream_row(conn, sql.data, 1, values, "ask whether a table may be read") ||
		values[0] == NULL || strcmp(values[0], "true") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the subscription's role may not read table \"%s.%s\" on the upstream",
						table->nspname, table->relname),
				 errhint("GRANT it SELECT there, and USAGE of the schema.")));
}

/* ---------------------------------------------------------------------
 * The stream
 */

void
rose_upstream_start(WalReceiverConn *conn, const RoseSubscription *sub, XLogRecPtr start,
					bool binary)
{
	WalRcvStreamOptions options = {0};
	bool		streaming = sub->streaming && walrcv_server_version(conn) >= ROSE_STREAMING_VERSION;

	options.logical = true;
	options.slotname = sub->slot_name;
	options.startpoint = start;
	options.proto.logical.proto_version = sub->two_phase ? LOGICALREP_PROTO_TWOPHASE_VERSION_NUM :
		streaming ? LOGICALREP_PROTO_STREAM_VERSION_NUM : LOGICALREP_PROTO_VERSION_NUM;
	options.proto.logical.twophase = sub->two_phase;
	options.proto.logical.publication_names = sub->publications;
	options.proto.logical.binary = binary;
	rose_walrcv_set_streaming(&options, streaming);
	rose_walrcv_set_origin(&options, sub->no_origin);
	walrcv_startstreaming(conn, &options);
}

void
rose_upstream_feedback(WalReceiverConn *conn, XLogRecPtr received, XLogRecPtr flushed,
					   XLogRecPtr applied, bool reply_requested)
{
	static StringInfoData message = {0};

	if (message.data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		initStringInfo(&message);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(&message);
	pq_sendbyte(&message, 'r');
	pq_sendint64(&message, received);	/* written */
	pq_sendint64(&message, flushed);
	pq_sendint64(&message, applied);
	pq_sendint64(&message, GetCurrentTimestamp());
	pq_sendbyte(&message, reply_requested);
	walrcv_send(conn, message.data, message.len);
}
