/*-------------------------------------------------------------------------
 *
 * rose_sql_row.c
 *	  A row of a result under construction.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"

#include "util/rose_release.h"
#include "sqlfunc/rose_sql_row.h"

void
rose_sql_put(RoseSqlRow *row, Datum value, bool isnull)
{
	Assert(row->n < ROSE_SQL_MAX_COLUMNS);
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

void
rose_sql_put_int8(RoseSqlRow *row, int64 value)
{
	rose_sql_put(row, Int64GetDatum(value), false);
}

void
rose_sql_put_text(RoseSqlRow *row, const char *value)
{
	rose_sql_put(row, value != NULL ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

void
rose_sql_put_lsn(RoseSqlRow *row, XLogRecPtr lsn)
{
	rose_sql_put(row, LSNGetDatum(lsn), XLogRecPtrIsInvalid(lsn));
}

void
rose_sql_put_oid(RoseSqlRow *row, Oid oid)
{
	rose_sql_put(row, ObjectIdGetDatum(oid), !OidIsValid(oid));
}

void
rose_sql_put_time(RoseSqlRow *row, TimestampTz time)
{
	rose_sql_put(row, TimestampTzGetDatum(time), time == 0);
}

bool
rose_sql_may_see_errors(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

void
rose_sql_put_error(RoseSqlRow *row, const char *message)
{
	rose_sql_put_text(row, rose_sql_may_see_errors() ? message : NULL);
}

/* The columns that the function declares: an extension that was not updated yet has fewer. */
static void
check_columns(const RoseSqlRow *row, TupleDesc desc)
{
	if (unlikely(row->n < desc->natts))
		rose_release_mismatch(psprintf("a function of rose is declared with %d columns, but this version of rose knows %d",
									   desc->natts, row->n));
}

void
rose_sql_emit(FunctionCallInfo fcinfo, RoseSqlRow *row)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	check_columns(row, rsinfo->setDesc);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
	row->n = 0;
}

Datum
rose_sql_return(FunctionCallInfo fcinfo, RoseSqlRow *row)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_columns(row, desc);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row->values, row->nulls));
}
