/*-------------------------------------------------------------------------
 *
 * rose_sql_row.h
 *	  A row of a result under construction: columns are put one after the other.
 *
 * What a function returns has the columns that its declaration names.  New ones are put
 * behind those that there were: where the extension has not been updated yet, they are
 * left out.  (A function without OUT parameters, or with one, cannot get more.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SQL_ROW_H
#define ROSE_SQL_ROW_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/timestamp.h"

#define ROSE_SQL_MAX_COLUMNS	32

/* All zero at the start. */
typedef struct RoseSqlRow
{
	int			n;
	Datum		values[ROSE_SQL_MAX_COLUMNS];
	bool		nulls[ROSE_SQL_MAX_COLUMNS];
} RoseSqlRow;

extern void rose_sql_put(RoseSqlRow *row, Datum value, bool isnull);
extern void rose_sql_put_int8(RoseSqlRow *row, int64 value);

/* These are null if there is no string, position, object or time. */
extern void rose_sql_put_text(RoseSqlRow *row, const char *value);
extern void rose_sql_put_lsn(RoseSqlRow *row, XLogRecPtr lsn);
extern void rose_sql_put_oid(RoseSqlRow *row, Oid oid);
extern void rose_sql_put_time(RoseSqlRow *row, TimestampTz time);

/*
 * Messages of errors that others met may have values of rows: they are for superusers and
 * members of pg_read_all_stats.  put_error is put_text, but null to others.
 */
extern bool rose_sql_may_see_errors(void);
extern void rose_sql_put_error(RoseSqlRow *row, const char *message);

/*
 * The row is complete: into the result with it, and begin the next one.  For set-returning
 * functions that have called InitMaterializedSRF.
 */
extern void rose_sql_emit(FunctionCallInfo fcinfo, RoseSqlRow *row);

/* The row is complete, and all that the function returns. */
extern Datum rose_sql_return(FunctionCallInfo fcinfo, RoseSqlRow *row);

#endif							/* ROSE_SQL_ROW_H */
