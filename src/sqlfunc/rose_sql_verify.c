/*-------------------------------------------------------------------------
 *
 * rose_sql_verify.c
 *	  rose.verify: what differs between the tables of a subscription and the upstream's.
 *
 * A row for each difference, and for each table that could not be compared; none says that all is
 * equal.  How that is found out is repl/rose_verify.c's.
 *
 * For superusers, as all that has to do with subscriptions.  No locks of its own.
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

#include "repl/rose_verify.h"
#include "sqlfunc/rose_sql_row.h"

PG_FUNCTION_INFO_V1(rose_verify);

enum
{
	VERIFY_NAME, VERIFY_RELATIONS, VERIFY_TIMEOUT, VERIFY_MAX_KEYS
};

static void
require_args(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(VERIFY_NAME) || PG_ARGISNULL(VERIFY_TIMEOUT) || PG_ARGISNULL(VERIFY_MAX_KEYS))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the subscription, the timeout and the number of keys must not be null")));
	if (PG_GETARG_INT32(VERIFY_TIMEOUT) < 0 || PG_GETARG_INT32(VERIFY_MAX_KEYS) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the timeout and the number of keys must not be negative")));
}

/* A transaction that has a snapshot for all its life would not see the rows of the position. */
static void
require_transaction(void)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to verify subscriptions")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("rose.verify must be called in a READ COMMITTED transaction")));
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

	require_transaction();
	require_args(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	options.relids = relations_arg(fcinfo);
	options.timeout_s = PG_GETARG_INT32(VERIFY_TIMEOUT);
	options.max_keys = PG_GETARG_INT32(VERIFY_MAX_KEYS);
	rose_verify_subscription(require_subscription(text_to_cstring(PG_GETARG_TEXT_PP(VERIFY_NAME))), &options);
	return (Datum) 0;
}
