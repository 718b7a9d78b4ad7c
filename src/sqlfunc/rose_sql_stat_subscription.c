/*-------------------------------------------------------------------------
 *
 * rose_sql_stat_subscription.c
 *	  Functions behind the views rose.stat_subscription, stat_subscription_tables and stat_copy_progress.
 *
 * They only look, at the shared state of the workers.
 *
 * Locks of that state are held for moments, never while a row is put.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "repl/rose_owner.h"
#include "repl/rose_repl.h"
#include "sqlfunc/rose_sql_row.h"

PG_FUNCTION_INFO_V1(rose_subscription_progress);
PG_FUNCTION_INFO_V1(rose_subscription_waits);
PG_FUNCTION_INFO_V1(rose_subscription_streams);
PG_FUNCTION_INFO_V1(rose_subscription_table_counts);
PG_FUNCTION_INFO_V1(rose_subscription_conflicts);
PG_FUNCTION_INFO_V1(rose_copy_progress);
PG_FUNCTION_INFO_V1(rose_copy_retry);

/* A worker that looks whether it still is blocked has not got anywhere yet. */
static const char *
status_name(const RoseReplSnapshot *snapshot)
{
	if (snapshot->blocked[0] != '\0')
		return "blocked";
	switch (snapshot->status)
	{
		case ROSE_REPL_STOPPED:
			return "stopped";
		case ROSE_REPL_STARTING:
			return "starting";
		case ROSE_REPL_COPYING:
			return "copying";
		case ROSE_REPL_STREAMING:
			return "streaming";
		case ROSE_REPL_ERROR:
			return "error";
		case ROSE_REPL_BLOCKED:
			return "blocked";
	}
	return NULL;
}

/*
 * A worker that runs asks for the end of the upstream's WAL once a second.  One that has
 * not heard of it for so long waits for something, or the upstream is away.
 */
#define ROSE_LAG_CERTAIN_MS		5000

/*
 * What the upstream has and we have not applied, in bytes of its WAL and in time.  That it
 * is nothing is said only if it is known: else the bytes are unknown, and time goes on.
 */
static void
put_lag(RoseSqlRow *row, const RoseReplSnapshot *snapshot)
{
	const RoseReplProgress *p = &snapshot->progress;
	XLogRecPtr	end = Max(p->upstream_lsn, p->received_lsn);
	TimestampTz base = Max(p->last_commit.time, p->fresh_time);
	TimestampTz now = GetCurrentTimestamp();
	bool		known = !XLogRecPtrIsInvalid(p->applied_lsn) && !XLogRecPtrIsInvalid(end);
	bool		behind = known && p->applied_lsn < end;
	bool		certain = known && snapshot->pid != 0 &&
		!TimestampDifferenceExceeds(Max(p->heard_time, p->asked_time), now, ROSE_LAG_CERTAIN_MS);

	rose_sql_put(row, Int64GetDatum(behind ? (int64) (end - p->applied_lsn) : 0),
				 !behind && !certain);
	if (certain && !behind)
		rose_sql_put_int8(row, 0);
	else if (base == 0)
		rose_sql_put(row, (Datum) 0, true);
	else
		/* the upstream's clock now, by its last message */
		rose_sql_put_int8(row, Max(p->upstream_time + (now - p->heard_time) - base, 0) / 1000);
}

static void
put_progress(RoseSqlRow *row, const RoseReplSnapshot *snapshot)
{
	const RoseReplProgress *p = &snapshot->progress;

	rose_sql_put(row, ObjectIdGetDatum(snapshot->subid), false);
	rose_sql_put(row, Int32GetDatum(snapshot->pid), snapshot->pid == 0);
	rose_sql_put_text(row, status_name(snapshot));
	rose_sql_put_lsn(row, p->received_lsn);
	rose_sql_put_lsn(row, p->applied_lsn);
	rose_sql_put_lsn(row, p->durable_lsn);
	rose_sql_put_lsn(row, p->confirmed_lsn);
	rose_sql_put_lsn(row, p->upstream_lsn);
	put_lag(row, snapshot);
	rose_sql_put_int8(row, p->inserts);
	rose_sql_put_int8(row, p->updates);
	rose_sql_put_int8(row, p->deletes);
	rose_sql_put_int8(row, p->truncates);
	rose_sql_put_int8(row, p->old_row_reads);
	rose_sql_put_int8(row, p->skipped);
	rose_sql_put_int8(row, p->copied_rows);
	rose_sql_put_int8(row, p->received_bytes);
	rose_sql_put_int8(row, p->transactions);
	rose_sql_put_int8(row, p->batches);
	rose_sql_put_int8(row, p->epochs);
	rose_sql_put_int8(row, p->epoch);
	rose_sql_put_int8(row, p->spill_waits);
	rose_sql_put_int8(row, p->spill_wait_ms);
	rose_sql_put_time(row, p->last_commit.time);
	rose_sql_put_text(row, rose_owner_may_see_error(snapshot) ?
					  snapshot->last_error : NULL);
	rose_sql_put_time(row, snapshot->last_error_time);
	rose_sql_put_text(row, snapshot->blocked[0] != '\0' ? snapshot->blocked : NULL);
}

Datum
rose_subscription_progress(PG_FUNCTION_ARGS)
{
	RoseReplSnapshot *snapshots = palloc0(sizeof(RoseReplSnapshot) * Max(rose_max_subscriptions, 1));
	int			n;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	n = rose_repl_list(snapshots, rose_max_subscriptions);
	for (int i = 0; i < n; i++)
	{
		put_progress(&row, &snapshots[i]);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* Subscriptions that wait for a table or an index that somebody has locked. */
Datum
rose_subscription_waits(PG_FUNCTION_ARGS)
{
	RoseReplSnapshot *snapshots = palloc0(sizeof(RoseReplSnapshot) * Max(rose_max_subscriptions, 1));
	int			n;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	n = rose_repl_list(snapshots, rose_max_subscriptions);
	for (int i = 0; i < n; i++)
	{
		if (!OidIsValid(snapshots[i].waiting))
			continue;
		rose_sql_put(&row, ObjectIdGetDatum(snapshots[i].subid), false);
		rose_sql_put(&row, ObjectIdGetDatum(snapshots[i].waiting), false);
		rose_sql_put_time(&row, snapshots[i].waiting_since);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* Transactions in progress, of which a worker that runs has something, and what it knows of earlier ones. */
Datum
rose_subscription_streams(PG_FUNCTION_ARGS)
{
	RoseReplSnapshot *snapshots = palloc0(sizeof(RoseReplSnapshot) * Max(rose_max_subscriptions, 1));
	int			n;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	n = rose_repl_list(snapshots, rose_max_subscriptions);
	for (int i = 0; i < n; i++)
	{
		bool		runs = snapshots[i].pid != 0;

		rose_sql_put(&row, ObjectIdGetDatum(snapshots[i].subid), false);
		rose_sql_put_int8(&row, runs ? snapshots[i].progress.streams : 0);
		rose_sql_put_int8(&row, runs ? snapshots[i].progress.stream_bytes : 0);
		rose_sql_put_int8(&row, snapshots[i].progress.streamed);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* subid, relid: one row, or none if nothing was counted. */
Datum
rose_subscription_table_counts(PG_FUNCTION_ARGS)
{
	RoseReplTableCounts counts;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (rose_repl_table_counts(PG_GETARG_OID(0), PG_GETARG_OID(1), &counts))
	{
		rose_sql_put_int8(&row, counts.inserts);
		rose_sql_put_int8(&row, counts.updates);
		rose_sql_put_int8(&row, counts.deletes);
		rose_sql_put_int8(&row, counts.truncates);
		rose_sql_put_int8(&row, counts.partials);
		rose_sql_put_int8(&row, counts.incomplete);
		rose_sql_put_int8(&row, counts.copied);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* Keys are values of rows: as the text of a table's last error. */
static bool
may_see_keys(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED &&
		(has_privs_of_role(GetUserId(), owner) || rose_sql_may_see_errors());
}

static void
put_conflict(RoseSqlRow *row, const RoseReplConflict *conflict, bool with_key)
{
	rose_sql_put_text(row, rose_conflict_name(conflict->kind));
	rose_sql_put_lsn(row, conflict->lsn);
	rose_sql_put_time(row, conflict->time);
	rose_sql_put_text(row, with_key && conflict->kind != ROSE_CONFLICT_NONE ? conflict->key : NULL);
}

/* subid, relid: one row, or none if nothing was counted. */
Datum
rose_subscription_conflicts(PG_FUNCTION_ARGS)
{
	RoseReplConflicts conflicts;
	RoseSqlRow	row = {0};
	Oid			relid = PG_GETARG_OID(1);

	InitMaterializedSRF(fcinfo, 0);
	if (rose_repl_table_conflicts(PG_GETARG_OID(0), relid, &conflicts))
	{
		bool		with_keys = may_see_keys(relid);

		for (int i = ROSE_CONFLICT_NONE + 1; i < ROSE_CONFLICT_KINDS; i++)
			rose_sql_put_int8(&row, conflicts.counts[i]);
		put_conflict(&row, &conflicts.first, with_keys);
		put_conflict(&row, &conflicts.last, with_keys);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

static const char *
phase_name(RoseCopyPhase phase)
{
	switch (phase)
	{
		case ROSE_COPY_CONNECTING:
			return "connecting";
		case ROSE_COPY_READING:
			return "reading";
		case ROSE_COPY_WRITING:
			return "writing";
		case ROSE_COPY_INDEXES:
			return "indexes";
		case ROSE_COPY_SWITCHING:
			return "switching";
	}
	return NULL;
}

/* What a copy that reads may have come to, at most: it has not ended. */
#define MOST_PERCENT_READ	99.9

/* Of the rows, as the upstream estimates them.  Negative: not known. */
static double
percent_read(const RoseReplCopy *copy)
{
	if (copy->phase > ROSE_COPY_READING && copy->pieces_done == copy->pieces)
		return 100;
	if (copy->phase == ROSE_COPY_CONNECTING || copy->expected_rows < 0)
		return -1;
	return Min(100.0 * copy->rows / Max(copy->expected_rows, 1), MOST_PERCENT_READ);
}

/* Until all is read. */
static void
put_time_left(RoseSqlRow *row, const RoseReplCopy *copy, double percent)
{
	Interval   *left = palloc0(sizeof(Interval));

	/* what was there before has taken no time of this one's */
	double		begun = copy->begun_rows > 0 ? Min(100.0 * copy->begun_rows / Max(copy->expected_rows, 1), percent) : 0;

	if (percent > begun)
		left->time = (GetCurrentTimestamp() - copy->reading_since) * ((100 - percent) / (percent - begun));
	rose_sql_put(row, IntervalPGetDatum(left), percent <= begun || percent >= 100);
}

Datum
rose_copy_progress(PG_FUNCTION_ARGS)
{
	int			max = Max(rose_max_subscriptions, 1) * ROSE_MAX_COPIES;
	RoseReplCopy *copies = palloc0(sizeof(RoseReplCopy) * max);
	int			n;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	n = rose_repl_list_copies(copies, max);
	for (int i = 0; i < n; i++)
	{
		double		percent = percent_read(&copies[i]);

		rose_sql_put(&row, ObjectIdGetDatum(copies[i].subid), false);
		rose_sql_put(&row, ObjectIdGetDatum(copies[i].relid), false);
		rose_sql_put(&row, Int32GetDatum(copies[i].pid), false);
		rose_sql_put_text(&row, phase_name(copies[i].phase));
		rose_sql_put_int8(&row, copies[i].rows);
		rose_sql_put_int8(&row, copies[i].bytes);
		rose_sql_put(&row, Float8GetDatum(percent), percent < 0);
		put_time_left(&row, &copies[i], percent);
		rose_sql_put_time(&row, copies[i].since);
		rose_sql_put(&row, Int32GetDatum(copies[i].pieces), copies[i].pieces == 0);
		rose_sql_put(&row, Int32GetDatum(copies[i].pieces_done), copies[i].pieces == 0);
		rose_sql_put(&row, Int32GetDatum(copies[i].workers), false);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* subid, relid: one row, or none if it has not failed. */
Datum
rose_copy_retry(PG_FUNCTION_ARGS)
{
	RoseReplRetry retry;
	RoseSqlRow	row = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (rose_repl_table_retry(PG_GETARG_OID(0), PG_GETARG_OID(1), &retry))
	{
		rose_sql_put(&row, Int32GetDatum(retry.failures), false);
		rose_sql_put_time(&row, retry.next);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}
