/*-------------------------------------------------------------------------
 *
 * rose_sql_verify.c
 *	  rose.verify: what differs between the tables of a subscription and the upstream's; rose.repair: rows become as they are there.
 *
 * A row for each difference, and for each table that could not be compared; none says that all is
 * equal.  How that is found out is repl/rose_verify.c's, and how rows are repaired repl/rose_repair.c's.
 *
 * For those who may change the subscription.  No locks of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "repl/rose_owner.h"
#include "repl/rose_verify.h"
#include "sqlfunc/rose_sql_row.h"

PG_FUNCTION_INFO_V1(rose_verify);
PG_FUNCTION_INFO_V1(rose_repair);

enum
{
	VERIFY_NAME, VERIFY_RELATIONS, VERIFY_TIMEOUT, VERIFY_MAX_KEYS
};

enum
{
	REPAIR_NAME, REPAIR_RELATION, REPAIR_KEYS, REPAIR_TIMEOUT, REPAIR_MAX_KEYS
};

/* Rows of so many keys are read while the worker stands still. */
#define REPAIR_MOST_KEYS	10000

static void
require_args(FunctionCallInfo fcinfo, int timeout, int max_keys)
{
	if (PG_ARGISNULL(VERIFY_NAME) || PG_ARGISNULL(timeout) || PG_ARGISNULL(max_keys))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the subscription, the timeout and the number of keys must not be null")));
	if (PG_GETARG_INT32(timeout) < 0 || PG_GETARG_INT32(max_keys) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the timeout and the number of keys must not be negative")));
}

/* A transaction that has a snapshot for all its life would not see the rows of the position. */
static void
require_transaction(const char *function)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s must be called in a READ COMMITTED transaction", function)));
}

static List *
relations_arg(FunctionCallInfo fcinfo)
{
	List	   *result = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(VERIFY_RELATIONS))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(VERIFY_RELATIONS), REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("relations must not be null")));
		result = list_append_unique_oid(result, DatumGetObjectId(elems[i]));
	}
	if (result == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must be at least one relation"),
				 errhint("Leave the argument out to compare all tables.")));
	return result;
}

static RoseSubscription *
require_subscription(const char *name)
{
	RoseSubscription *sub = rose_subscription_find(name);

	if (sub == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("rose subscription \"%s\" does not exist", name)));
	rose_owner_require(sub);
	if (!sub->enabled || sub->conninfo == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rose subscription \"%s\" is not enabled", name),
				 errdetail("Its worker is needed to reach a position that the upstream was at.")));
	return sub;
}

static void
put_count(RoseSqlRow *row, int64 count)
{
	rose_sql_put(row, Int64GetDatum(count), count < 0);
}

static void
put_problem(void *arg, const RoseVerifyProblem *problem)
{
	RoseSqlRow	row = {0};

	rose_sql_put_text(&row, problem->nspname);
	rose_sql_put_text(&row, problem->relname);
	rose_sql_put_text(&row, problem->key);
	put_count(&row, problem->upstream_rows);
	put_count(&row, problem->replica_rows);
	rose_sql_put_text(&row, problem->problem);
	rose_sql_emit(arg, &row);
}

Datum
rose_verify(PG_FUNCTION_ARGS)
{
	RoseVerifyOptions options = {.report = put_problem, .arg = fcinfo};

	require_transaction("rose.verify");
	require_args(fcinfo, VERIFY_TIMEOUT, VERIFY_MAX_KEYS);
	InitMaterializedSRF(fcinfo, 0);
	options.relids = relations_arg(fcinfo);
	options.timeout_s = PG_GETARG_INT32(VERIFY_TIMEOUT);
	options.max_keys = PG_GETARG_INT32(VERIFY_MAX_KEYS);
	rose_verify_subscription(require_subscription(text_to_cstring(PG_GETARG_TEXT_PP(VERIFY_NAME))), &options);
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Repair
 */

static List *
keys_arg(FunctionCallInfo fcinfo)
{
	List	   *result = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(REPAIR_KEYS))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(REPAIR_KEYS), TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		/* rose.verify has rows without a key, too, which speak of many */
		if (!nulls[i])
			result = lappend(result, TextDatumGetCString(elems[i]));
	}
	return result;
}

static Datum
keys_array(List *keys)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(keys), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, keys)
		elems[n++] = CStringGetTextDatum(lfirst(lc));
	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum
rose_repair(PG_FUNCTION_ARGS)
{
	RoseSqlRow	row = {0};
	RoseRepairResult result = {0};
	List	   *keys;

	require_transaction("rose.repair");
	require_args(fcinfo, REPAIR_TIMEOUT, REPAIR_MAX_KEYS);
	if (PG_ARGISNULL(REPAIR_RELATION))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation must not be null")));
	keys = keys_arg(fcinfo);
	if (list_length(keys) > REPAIR_MOST_KEYS || PG_GETARG_INT32(REPAIR_MAX_KEYS) > REPAIR_MOST_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot repair more than %d rows at a time", REPAIR_MOST_KEYS),
				 errhint("Have the table copied again with rose.alter_subscription(..., resync => ...).")));
	if (keys != NIL || PG_ARGISNULL(REPAIR_KEYS))
		rose_repair_table(require_subscription(text_to_cstring(PG_GETARG_TEXT_PP(REPAIR_NAME))),
						  PG_GETARG_OID(REPAIR_RELATION), keys, PG_GETARG_INT32(REPAIR_TIMEOUT),
						  PG_GETARG_INT32(REPAIR_MAX_KEYS), &result);
	rose_sql_put_int8(&row, result.inserted);
	rose_sql_put_int8(&row, result.updated);
	rose_sql_put_int8(&row, result.deleted);
	rose_sql_put(&row, keys_array(result.keys), false);
	rose_sql_put(&row, BoolGetDatum(!result.more), false);
	return rose_sql_return(fcinfo, &row);
}
