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
	RoseSqlRow	row = {0};
	int			ntables;
	Size		table_bytes;

	rose_require_preload();
	rose_write_stats_get(&stats);
	rose_registry_memory(&ntables, &table_bytes);
	rose_sql_put_int8(&row, rose_arena_total_bytes());
	rose_sql_put_int8(&row, rose_arena_used_bytes());
	rose_sql_put_int8(&row, stats.delays);
	rose_sql_put(&row, Float8GetDatum(stats.delay_us / 1000.0), false);
	rose_sql_put_int8(&row, stats.own_spills);
	rose_sql_put(&row, Int32GetDatum(ntables), false);
	rose_sql_put_int8(&row, table_bytes);
	return rose_sql_return(fcinfo, &row);
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
