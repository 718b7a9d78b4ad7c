/*-------------------------------------------------------------------------
 *
 * rose_upstream_copy.c
 *	  What a copy reads of an upstream's table: which rows, in which snapshot, and whether they were all of it.
 *
 * The snapshot is that of a slot, which waits for transactions that write, and these may wait for whoever has locked a
 * table: so the table is locked later.  What has happened between the two is looked for then: another table may have got
 * the name; and one that has got a new file (TRUNCATE, a rewrite by ALTER TABLE) looks empty to the snapshot, though it
 * was not.  The stream would never have the rows of a rewrite.  Nor would it have those of a table that has become a partition
 * since, which were written before that, and the snapshot sees only the older ones of them.
 *
 * Nothing here knows of local tables.
 *
 * State is of the connection; no locks here.  The upstream's tables are locked in AccessShareLock from
 * rose_upstream_lock_rows to the end of the upstream's transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_repl_internal.h"

#define TRANSACTION_TIMEOUT_VERSION	170000

void
rose_upstream_prepare_copy(WalReceiverConn *conn)
{
	/* rows that a policy hides are an error: the stream would have their changes */
	rose_upstream_command(conn, "SET row_security = off");
	rose_upstream_command(conn, "SET statement_timeout = 0");
	rose_upstream_command(conn, "SET idle_in_transaction_session_timeout = 0");
	if (walrcv_server_version(conn) >= TRANSACTION_TIMEOUT_VERSION)
		rose_upstream_command(conn, "SET transaction_timeout = 0");
}

/*
 * The transaction's snapshot is that of a temporary slot's consistent point: it
 * sees what committed before *lsn, and a stream from *lsn has the rest.  The slot
 * goes away with the connection.
 */
void
rose_upstream_begin_copy(WalReceiverConn *conn, const char *slot, XLogRecPtr *lsn)
{
	rose_upstream_prepare_copy(conn);
	rose_upstream_command(conn, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
	(void) rose_walrcv_create_slot(conn, slot, true, CRS_USE_SNAPSHOT, lsn);
}

/* The condition that a row must meet to be published, or NULL. */
static char *
row_filter(WalReceiverConn *conn, const char *pubs, const char *nspname, const char *relname)
{
	StringInfoData sql;
	List	   *filters;

	if (walrcv_server_version(conn) < 150000)
		return NULL;

	/* A row is published if any publication takes it; one without filter takes all. */
	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT CASE WHEN pg_catalog.bool_and(t.rowfilter IS NOT NULL)"
					 " THEN pg_catalog.string_agg('(' || t.rowfilter || ')', ' OR ') END"
					 " FROM pg_catalog.pg_publication_tables t"
					 " WHERE t.pubname IN (%s) AND t.schemaname = %s AND t.tablename = %s",
					 pubs, quote_literal_cstr(nspname), quote_literal_cstr(relname));
	filters = rose_upstream_strings(conn, sql.data, "read the row filters of a published table");
	return filters != NIL ? linitial(filters) : NULL;
}

/* Is it an ordinary table, which COPY reads by itself, without a query? */
static bool
is_plain_table(WalReceiverConn *conn, const char *nspname, const char *relname)
{
	List	   *kinds;

	kinds = rose_upstream_strings(conn,
						  psprintf("SELECT c.relkind::pg_catalog.text FROM pg_catalog.pg_class c"
								   " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
								   " WHERE n.nspname = %s AND c.relname = %s",
								   quote_literal_cstr(nspname), quote_literal_cstr(relname)),
						  "read the kind of a published table");
	if (kinds == NIL || linitial(kinds) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" does not exist on the upstream", nspname, relname)));
	return strcmp(linitial(kinds), "r") == 0;
}

static void
find_source(WalReceiverConn *conn, List *publications, const RoseUpstreamTable *table, RoseUpstreamRows *rows)
{
	rows->filter = row_filter(conn, rose_upstream_literals(publications), table->nspname, table->relname);
	rows->plain = is_plain_table(conn, table->nspname, table->relname);
	rows->relation = psprintf("%s%s", rows->plain ? "ONLY " : "", quote_qualified_identifier(table->nspname, table->relname));
}

/* condition: NULL, or a further one. */
static char *
from_clause(const RoseUpstreamRows *rows, const char *condition)
{
	StringInfoData result;

	initStringInfo(&result);
	appendStringInfoString(&result, rows->relation);
	if (rows->filter != NULL || condition != NULL)
		appendStringInfo(&result, " WHERE %s%s%s", rows->filter != NULL ? psprintf("(%s)", rows->filter) : "",
						 rows->filter != NULL && condition != NULL ? " AND " : "", condition != NULL ? condition : "");
	return result.data;
}

char *
rose_upstream_source(WalReceiverConn *conn, List *publications, const RoseUpstreamTable *table)
{
	RoseUpstreamRows rows;

	find_source(conn, publications, table, &rows);
	return from_clause(&rows, NULL);
}

pg_noreturn static void
cannot_start(const RoseUpstreamTable *table, const WalRcvExecResult *res)
{
	ereport(ERROR,
			(errcode(res->status == WALRCV_ERROR && res->sqlstate != 0 ? res->sqlstate :
					 ERRCODE_CONNECTION_FAILURE),
			 errmsg("could not start the copy of table \"%s.%s\": %s", table->nspname, table->relname,
					res->err != NULL ? res->err : "unexpected result")));
}

/*
 * How many rows these are, as the upstream's planner sees it: it knows of filters and partitions, and what has become of the
 * table since it was analyzed last.  -1: it does not say.  Whatever is read is locked from here on.
 */
static int64
plan(WalReceiverConn *conn, const RoseUpstreamTable *table, const char *from)
{
	Oid			types[1] = {TEXTOID};
	WalRcvExecResult *res = walrcv_exec(conn, psprintf("EXPLAIN SELECT FROM %s", from), 1, types);
	int64		result = -1;
	TupleTableSlot *slot;

	if (res->status != WALRCV_OK_TUPLES)
		cannot_start(table, res);
	slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	/* of the whole plan, in its first line */
	if (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
	{
		char	   *line = rose_upstream_text(slot, 1);
		char	   *at = line != NULL ? strstr(line, " rows=") : NULL;

		if (at != NULL)
			result = strtoll(at + strlen(" rows="), NULL, 10);
	}
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
	return result;
}

/*
 * Has what is locked got another file since the snapshot?  The query sees the catalog as it was then, the function as it is.
 * A partition that has gone since is no matter: nobody replicates its rows.
 */
static bool
has_new_file(WalReceiverConn *conn, Oid relid)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT true::pg_catalog.text FROM pg_catalog.pg_class c WHERE c.relkind = 'r'"
					 " AND c.relfilenode OPERATOR(pg_catalog.<>) pg_catalog.pg_relation_filenode(c.oid) AND (c.oid = %u", relid);
	if (walrcv_server_version(conn) >= 120000)
		appendStringInfo(&sql, " OR c.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(%u) t)", relid);
	appendStringInfoString(&sql, ") LIMIT 1");
	return rose_upstream_strings(conn, sql.data, "look at the file of a table") != NIL;
}

/* Has something become a partition of it since?  As above, the function sees what is, and pg_inherits what was. */
static bool
has_new_partition(WalReceiverConn *conn, Oid relid)
{
	if (walrcv_server_version(conn) < 120000)
		return false;
	return rose_upstream_strings(conn,
								 psprintf("SELECT true::pg_catalog.text FROM pg_catalog.pg_partition_tree(%u) t WHERE t.relid::pg_catalog.oid OPERATOR(pg_catalog.<>) %u"
										  " AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid OPERATOR(pg_catalog.=) t.relid::pg_catalog.oid"
										  " AND i.inhparent OPERATOR(pg_catalog.=) t.parentrelid::pg_catalog.oid) LIMIT 1", relid, relid),
								 "look at the partitions of a table") != NIL;
}

void
rose_upstream_lock_rows(WalReceiverConn *conn, List *publications, const RoseUpstreamTable *table, RoseUpstreamRows *rows)
{
	find_source(conn, publications, table, rows);
	rows->expected = plan(conn, table, from_clause(rows, NULL));
	if (has_new_file(conn, table->relid) || has_new_partition(conn, table->relid))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream's table \"%s.%s\" was emptied, or written anew, or got a partition, while its copy began",
						table->nspname, table->relname),
				 errdetail("The worker tries again.")));
}

void
rose_upstream_start_copy(WalReceiverConn *conn, const RoseUpstreamTable *table, const RoseUpstreamRows *rows,
						 List *columns, const char *condition)
{
	StringInfoData names;
	char	   *sql;
	WalRcvExecResult *res;
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, columns)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", quote_identifier(lfirst(lc)));

	/* COPY itself takes no generated columns, which 18 may have among these */
	if (rows->plain && rows->filter == NULL && condition == NULL && columns != NIL && walrcv_server_version(conn) < 180000)
		sql = psprintf("COPY %s (%s) TO STDOUT",
					   quote_qualified_identifier(table->nspname, table->relname), names.data);
	else
		sql = psprintf("COPY (SELECT %s FROM %s) TO STDOUT", names.data, from_clause(rows, condition));

	res = walrcv_exec(conn, sql, 0, NULL);
	if (res->status != WALRCV_OK_COPY_OUT)
		cannot_start(table, res);
	walrcv_clear_result(res);
}

/*
 * A query names the table and its columns, and its rows are those of whichever has the
 * names when it begins.  Since then, until the upstream's transaction ends, that table is
 * locked, so the names are still theirs.  Functions look at what is there now; the query
 * itself sees what was there at the transaction's snapshot.
 */
bool
rose_upstream_has_names(WalReceiverConn *conn, const RoseUpstreamTable *table)
{
	char	   *values[2] = {NULL, NULL};

	(void) rose_upstream_row(conn,
							 psprintf("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.text,"
									  " (SELECT pg_catalog.count(*)::pg_catalog.text FROM pg_catalog.pg_attribute a"
									  " WHERE a.attrelid = %u AND a.attnum > 0 AND NOT a.attisdropped AND a.attname::pg_catalog.text IS DISTINCT FROM"
									  " (SELECT i.object_names[3] FROM pg_catalog.pg_identify_object_as_address("
									  "'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, a.attrelid, a.attnum::pg_catalog.int4) i))",
									  quote_literal_cstr(quote_qualified_identifier(table->nspname,
																					table->relname)),
									  table->relid),
							 2, values, "look at the table that was read");
	return values[0] != NULL && (Oid) strtoul(values[0], NULL, 10) == table->relid &&
		values[1] != NULL && strcmp(values[1], "0") == 0;
}

void
rose_upstream_check_copied(WalReceiverConn *conn, const RoseUpstreamTable *table)
{
	if (!rose_upstream_has_names(conn, table))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream's table \"%s.%s\", or a column of it, was renamed or replaced while its copy began",
						table->nspname, table->relname),
				 errdetail("The worker tries again.")));
}
