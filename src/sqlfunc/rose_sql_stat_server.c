/*-------------------------------------------------------------------------
 *
 * rose_sql_stat_server.c
 *	  Functions behind the views rose.stat_memory, stat_worker and stat_snapshots.
 *
 * They only look, at shared state of the server.
 *
 * Locks of that state are held for moments, never while a row is put.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "util/rose_preload.h"
#include "memtable/rose_memtable.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/write/rose_write_stats.h"
#include "worker/rose_worker.h"
#include "sqlfunc/rose_sql_row.h"

PG_FUNCTION_INFO_V1(rose_memory);
PG_FUNCTION_INFO_V1(rose_workers_of_databases);
PG_FUNCTION_INFO_V1(rose_declared_snapshots);

/* ---- memory ---- */

Datum
rose_memory(PG_FUNCTION_ARGS)
{
	RoseWriteStats stats;
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {false};
	int			ntables;
	Size		table_bytes;

	rose_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rose_write_stats_get(&stats);
	rose_registry_memory(&ntables, &table_bytes);
	values[0] = Int64GetDatum(rose_arena_total_bytes());
	values[1] = Int64GetDatum(rose_arena_used_bytes());
	values[2] = Int64GetDatum(stats.delays);
	values[3] = Float8GetDatum(stats.delay_us / 1000.0);
	values[4] = Int64GetDatum(stats.own_spills);
	values[5] = Int32GetDatum(ntables);
	values[6] = Int64GetDatum(table_bytes);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ---- workers ---- */

static const char *
work_name(const RoseWorkerInfo *worker)
{
	if (worker->pid == 0)
		return "stopped";
	switch (worker->work)
	{
		case ROSE_WORK_NONE:
			return "idle";
		case ROSE_WORK_OPEN:
			return "opening";
		case ROSE_WORK_SPILL:
			return "spilling";
		case ROSE_WORK_MERGE:
			return "merging";
		case ROSE_WORK_REST:
			return "resting";
		case ROSE_WORK_TRUNCATE:
			return "truncating";
	}
	return NULL;
}

/* One row for each database that has, or lately had, a worker, and one for each helper that runs. */
Datum
rose_workers_of_databases(PG_FUNCTION_ARGS)
{
	RoseWorkerInfo *workers = palloc(sizeof(RoseWorkerInfo) * ROSE_WORKER_SLOTS);
	int			n;
	RoseSqlRow	row = {0};

	rose_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	n = rose_worker_list(workers);
	for (int i = 0; i < n; i++)
	{
		const RoseWorkerInfo *worker = &workers[i];

		rose_sql_put_oid(&row, worker->dbid);
		rose_sql_put(&row, Int32GetDatum(worker->helper), false);
		rose_sql_put_text(&row, work_name(worker));
		rose_sql_put(&row, Int32GetDatum(worker->pid), worker->pid == 0);
		rose_sql_put_time(&row, worker->started);
		rose_sql_put_oid(&row, worker->work_relid);
		rose_sql_put_int8(&row, worker->spills);
		rose_sql_put_int8(&row, worker->merges);
		rose_sql_put_error(&row, worker->error_time != 0 ? worker->error : NULL);
		rose_sql_put_time(&row, worker->error_time);
		rose_sql_put_oid(&row, worker->error_relid);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---- snapshots ---- */

Datum
rose_declared_snapshots(PG_FUNCTION_ARGS)
{
	RoseSqlRow	row = {0};
	int		   *pids;
	int			n;

	rose_require_preload();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	n = rose_declared_pids(&pids);
	for (int i = 0; i < n; i++)
	{
		rose_sql_put(&row, Int32GetDatum(pids[i]), false);
		rose_sql_emit(fcinfo, &row);
	}
	return (Datum) 0;
}
