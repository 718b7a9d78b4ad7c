/*-------------------------------------------------------------------------
 *
 * rose_verify_query.c
 *	  The same queries, asked of the upstream and here, for comparing tables.
 *
 * Values are compared as text, so whatever decides how a value is written is set to the same on both
 * sides.  Queries name all functions and operators with their schema, and nothing is found in any
 * other one.
 *
 * Here they run as the table's owner, in a security-restricted operation: what he has attached to his table, an
 * immutable function in an index for one, may be run by the planner.  Row security is not
 * applied: a row that it hides is there.
 *
 * The upstream's queries run in its transaction's snapshot, ours in the one that is given.  Both
 * can be cancelled at any time.  No locks of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "repl/rose_repl_internal.h"
#include "repl/rose_rights.h"
#include "repl/rose_verify.h"

/* The shortest text that tells a float from its neighbours came with this release; before, 15 digits are all that both can write. */
#define ROSE_SHORTEST_FLOATS_VERSION	120000

/* How values are written, and what may be looked up. */
static const struct
{
	const char *name;
	const char *value;
}			settings[] =

{
	{"search_path", "pg_catalog"},
	{"DateStyle", "ISO, MDY"},
	{"IntervalStyle", "postgres"},
	{"TimeZone", "UTC"},
	{"bytea_output", "hex"},
	{"lc_monetary", "C"},
	{"quote_all_identifiers", "off"},
	{"row_security", "off"},
};

/* What else the upstream's administrator may have set for the role, and would end a long query; and one that ends a query of somebody who has gone. */
static const struct
{
	const char *name;
	const char *value;
	int			version;		/* that has brought it */
}			upstream_settings[] =

{
	{"statement_timeout", "0", 0},
	{"idle_in_transaction_session_timeout", "0", 0},
	{"idle_session_timeout", "0", 140000},
	{"transaction_timeout", "0", 170000},
	{"client_connection_check_interval", "10s", 140000},
	{"default_transaction_deferrable", "off", 0},
};

bool
rose_verify_query_is_exact(const RoseVerify *verify)
{
	return walrcv_server_version(verify->conn) >= ROSE_SHORTEST_FLOATS_VERSION;
}

static const char *
float_digits(const RoseVerify *verify)
{
	return rose_verify_query_is_exact(verify) ? "1" : "0";
}

static void
add_setting(StringInfo sql, const char *name, const char *value)
{
	appendStringInfo(sql, "%s pg_catalog.set_config(%s, %s, false)", sql->len == 0 ? "SELECT" : ",",
					 quote_literal_cstr(name), quote_literal_cstr(value));
}

static void
set_up_upstream(RoseVerify *verify)
{
	int			version = walrcv_server_version(verify->conn);
	Oid			types[lengthof(settings) + lengthof(upstream_settings) + 1];
	int			n = 0;
	StringInfoData sql;
	WalRcvExecResult *res;

	initStringInfo(&sql);
	for (int i = 0; i < lengthof(settings); i++, n++)
		add_setting(&sql, settings[i].name, settings[i].value);
	for (int i = 0; i < lengthof(upstream_settings); i++)
	{
		if (version < upstream_settings[i].version)
			continue;
		add_setting(&sql, upstream_settings[i].name, upstream_settings[i].value);
		n++;
	}
	add_setting(&sql, "extra_float_digits", float_digits(verify));
	n++;
	for (int i = 0; i < n; i++)
		types[i] = TEXTOID;
	res = walrcv_exec(verify->conn, sql.data, n, types);
	if (res->status != WALRCV_OK_TUPLES)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not set up the comparison on the upstream: %s",
						res->err != NULL ? res->err : "unexpected result")));
	walrcv_clear_result(res);
}

void
rose_verify_query_write_exactly(RoseVerify *verify, bool exactly)
{
	StringInfoData sql;

	initStringInfo(&sql);
	add_setting(&sql, "extra_float_digits", exactly ? "3" : float_digits(verify));
	(void) rose_upstream_strings(verify->conn, sql.data, "have floats written with all of their digits");
}

/* They last until the caller's nest level of settings ends. */
static void
set_here(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Hashes are of bytes.  So if the databases have two encodings, both sides
 * hash UTF-8.
 */
void
rose_verify_query_set_up(RoseVerify *verify)
{
	char	   *values[1];

	set_up_upstream(verify);
	for (int i = 0; i < lengthof(settings); i++)
		set_here(settings[i].name, settings[i].value);
	set_here("extra_float_digits", float_digits(verify));
	set_here("rose.read_mode", "consistent");	/* the position is known, and so is the snapshot */
	if (!rose_upstream_row(verify->conn, "SELECT pg_catalog.getdatabaseencoding()::pg_catalog.text", 1, values,
						   "ask for the upstream's encoding") || values[0] == NULL)
		elog(ERROR, "the upstream has no encoding");
	verify->other_encoding = pg_char_to_encoding(values[0]) != GetDatabaseEncoding();
}

/* ---------------------------------------------------------------------
 * Queries
 */

/* libpq has the whole result in memory, so it must be of bounded size. */
void
rose_verify_query_upstream(RoseVerify *verify, const char *sql, int ncols, RoseVerifyRow row, void *arg)
{
	Oid			types[ROSE_VERIFY_COLUMNS] = {TEXTOID, TEXTOID, TEXTOID};
	char	   *values[ROSE_VERIFY_COLUMNS];
	WalRcvExecResult *res = walrcv_exec(verify->conn, sql, ncols, types);
	TupleTableSlot *slot;

	if (res->status != WALRCV_OK_TUPLES)
		ereport(ERROR,
				(errcode(res->status == WALRCV_ERROR && res->sqlstate != 0 ? res->sqlstate : ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not compare a table on the upstream: %s", res->err != NULL ? res->err : "unexpected result"),
				 errcontext("upstream query: %s", sql)));
	slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
	{
		for (int i = 0; i < ncols; i++)
			values[i] = rose_upstream_text(slot, i + 1);
		row(arg, values);
		ExecClearTuple(slot);
		CHECK_FOR_INTERRUPTS();
	}
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
}

static void
take_rights(Oid owner, RoseRights *before)
{
	Oid			user;
	int			context;

	rose_rights_take(owner, before);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(user, context | SECURITY_NOFORCE_RLS);
}

void
rose_verify_query_here(RoseVerify *verify, Oid owner, const char *sql, int ncols, RoseVerifyRow row, void *arg)
{
	char	   *values[ROSE_VERIFY_COLUMNS];
	MemoryContext context = CurrentMemoryContext;
	RoseRights	before;
	SPIPlanPtr	plan;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	take_rights(owner, &before);
	plan = SPI_prepare_cursor(sql, 0, NULL, CURSOR_OPT_PARALLEL_OK);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, verify->snapshot, InvalidSnapshot, true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not compare a table here: %s", SPI_result_code_string(SPI_result));
	rose_rights_give_back(&before);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		MemoryContext spi = MemoryContextSwitchTo(context);

		for (int j = 0; j < ncols; j++)
			values[j] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, j + 1);
		row(arg, values);
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
}
