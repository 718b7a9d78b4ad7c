/*-------------------------------------------------------------------------
 *
 * rose_sql_stat.c
 *	  Set-returning functions behind the views rose.stat_subscription,
 *	  stat_subscription_tables, stat_components, stat_space, stat_merge_progress,
 *	  stat_memory, stat_worker and stat_snapshots.
 *
 * They only look: at the shared state of the workers, and at the manifest and the
 * memtables of a table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lsm/rose_declared.h"
#include "lsm/rose_maintain.h"
#include "lsm/rose_pace.h"
#include "miscadmin.h"
#include "repl/rose_repl.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "util/rose_preload.h"
#include "utils/timestamp.h"
#include "worker/rose_worker.h"

PG_FUNCTION_INFO_V1(rose_subscription_progress);
PG_FUNCTION_INFO_V1(rose_subscription_table_counts);
PG_FUNCTION_INFO_V1(rose_components);
PG_FUNCTION_INFO_V1(rose_space);
PG_FUNCTION_INFO_V1(rose_merge_progress_of);
PG_FUNCTION_INFO_V1(rose_memory);
PG_FUNCTION_INFO_V1(rose_workers_of_databases);
PG_FUNCTION_INFO_V1(rose_declared_snapshots);

/* ---------------------------------------------------------------------
 * A row under construction: columns are put one after the other.
 */
#define STAT_MAX_COLUMNS	32

typedef struct StatRow
{
	int			n;
	Datum		values[STAT_MAX_COLUMNS];
	bool		nulls[STAT_MAX_COLUMNS];
} StatRow;

static void
put(StatRow *row, Datum value, bool isnull)
{
	Assert(row->n < STAT_MAX_COLUMNS);
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

static void
put_int8(StatRow *row, int64 value)
{
	put(row, Int64GetDatum(value), false);
}

static void
put_text(StatRow *row, const char *value)
{
	put(row, value != NULL ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

static void
put_lsn(StatRow *row, XLogRecPtr lsn)
{
	put(row, LSNGetDatum(lsn), XLogRecPtrIsInvalid(lsn));
}

static void
put_oid(StatRow *row, Oid oid)
{
	put(row, ObjectIdGetDatum(oid), !OidIsValid(oid));
}

static void
put_time(StatRow *row, TimestampTz time)
{
	put(row, TimestampTzGetDatum(time), time == 0);
}

static void
emit(FunctionCallInfo fcinfo, StatRow *row)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (row->n != rsinfo->setDesc->natts)
		elog(ERROR, "row of %d columns for a result of %d", row->n, rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
	row->n = 0;
}

/* ---------------------------------------------------------------------
 * Subscriptions
 */

static const char *
status_name(const RoseReplSnapshot *snapshot)
{
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
	}
	return NULL;
}

/* What the upstream has and we have not applied, in bytes of its WAL and in time. */
static void
put_lag(StatRow *row, const RoseReplSnapshot *snapshot)
{
	const RoseReplProgress *p = &snapshot->progress;
	XLogRecPtr	end = Max(p->upstream_lsn, p->received_lsn);
	TimestampTz base = Max(p->commit_time, p->fresh_time);
	bool		known = !XLogRecPtrIsInvalid(p->applied_lsn) && !XLogRecPtrIsInvalid(end);
	bool		behind = p->applied_lsn < end;

	put(row, Int64GetDatum(behind ? (int64) (end - p->applied_lsn) : 0), !known);
	if (snapshot->pid != 0 && known && !behind)
		put_int8(row, 0);
	else if (base == 0)
		put(row, (Datum) 0, true);
	else
	{
		/* the upstream's clock now, by its last message */
		TimestampTz now = p->upstream_time + (GetCurrentTimestamp() - p->heard_time);

		put_int8(row, Max(now - base, 0) / 1000);
	}
}

static void
put_progress(StatRow *row, const RoseReplSnapshot *snapshot)
{
	const RoseReplProgress *p = &snapshot->progress;

	put(row, ObjectIdGetDatum(snapshot->subid), false);
	put(row, Int32GetDatum(snapshot->pid), snapshot->pid == 0);
	put_text(row, status_name(snapshot));
	put_lsn(row, p->received_lsn);
	put_lsn(row, p->applied_lsn);
	put_lsn(row, p->durable_lsn);
	put_lsn(row, p->confirmed_lsn);
	put_lsn(row, p->upstream_lsn);
	put_lag(row, snapshot);
	put_int8(row, p->inserts);
	put_int8(row, p->updates);
	put_int8(row, p->deletes);
	put_int8(row, p->truncates);
	put_int8(row, p->old_row_reads);
	put_int8(row, p->skipped);
	put_int8(row, p->copied_rows);
	put_int8(row, p->received_bytes);
	put_int8(row, p->transactions);
	put_int8(row, p->batches);
	put_int8(row, p->epochs);
	put_int8(row, p->epoch);
	put_int8(row, p->spill_waits);
	put_int8(row, p->spill_wait_ms);
	put_time(row, p->commit_time);
	put_text(row, snapshot->last_error[0] != '\0' ? snapshot->last_error : NULL);
	put_time(row, snapshot->last_error_time);
}

Datum
rose_subscription_progress(PG_FUNCTION_ARGS)
{
	RoseReplSnapshot *snapshots = palloc0(sizeof(RoseReplSnapshot) * Max(rose_max_subscriptions, 1));
	int			n;
	StatRow		row = {0};

	InitMaterializedSRF(fcinfo, 0);
	n = rose_repl_list(snapshots, rose_max_subscriptions);
	for (int i = 0; i < n; i++)
	{
		put_progress(&row, &snapshots[i]);
		emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* subid, relid: one row, or none if nothing was counted. */
Datum
rose_subscription_table_counts(PG_FUNCTION_ARGS)
{
	RoseReplTableCounts counts;
	StatRow		row = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (rose_repl_table_counts(PG_GETARG_OID(0), PG_GETARG_OID(1), &counts))
	{
		put_int8(&row, counts.inserts);
		put_int8(&row, counts.updates);
		put_int8(&row, counts.deletes);
		put_int8(&row, counts.truncates);
		put_int8(&row, counts.partials);
		put_int8(&row, counts.copied);
		emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Components
 */

static Relation
open_rose_table(Oid relid)
{
	Relation	rel;

	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relid));
	rel = table_open(relid, AccessShareLock);
	if (rel->rd_rel->relam != get_table_am_oid("rose", true))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a rose table", RelationGetRelationName(rel))));
	return rel;
}

static void
emit_memtables(FunctionCallInfo fcinfo, RoseTable *table)
{
	RoseC0Shared *c0 = &table->shared->c0;
	RoseMemtableShared memtables[ROSE_MAX_MEMTABLES];
	StatRow		row = {0};

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	memcpy(memtables, c0->tables, sizeof(memtables));
	LWLockRelease(&c0->write_lock);

	for (int i = 0; i < ROSE_MAX_MEMTABLES; i++)
	{
		RoseMemtableShared *m = &memtables[i];

		if (m->state == ROSE_MEMTABLE_FREE)
			continue;
		put_text(&row, "memtable");
		put_int8(&row, (int64) m->id);
		put_text(&row, m->state == ROSE_MEMTABLE_ACTIVE ? "active" : "frozen");
		put_int8(&row, m->nentries);
		put(&row, (Datum) 0, true); /* tombstones: not counted in memory */
		put_int8(&row, 0);
		put_int8(&row, m->nbytes);
		put(&row, (Datum) 0, true);
		put(&row, (Datum) 0, true);
		put(&row, Int64GetDatum(m->min_seq), m->nentries == 0);
		put(&row, Int64GetDatum(m->max_seq), m->nentries == 0);
		put(&row, (Datum) 0, true);
		emit(fcinfo, &row);
	}
}

static const char *
component_kind(const RoseComponentEntryDisk *entry)
{
	if (entry->flags & ROSE_COMPONENT_PRIVATE)
		return "private run";
	switch (entry->level)
	{
		case 0:
			return "run";
		case 1:
			return "C1";
		default:
			return "C2";
	}
}

static void
emit_component(FunctionCallInfo fcinfo, const RoseComponentEntryDisk *entry)
{
	StatRow		row = {0};
	int64		bytes = (int64) entry->nblocks * BLCKSZ;
	bool		pending = entry->state == ROSE_COMPONENT_PENDING;

	put_text(&row, component_kind(entry));
	put_int8(&row, entry->id);
	put_text(&row, pending ? "pending" : "live");
	put_int8(&row, rose_component_rest(entry, entry->nrows));
	put_int8(&row, rose_component_rest(entry, entry->ntombstones));
	put_int8(&row, entry->nblocks);
	put_int8(&row, bytes);
	put_int8(&row, entry->raw_bytes);
	put(&row, Float8GetDatum(bytes > 0 ? (double) entry->raw_bytes / bytes : 0), bytes == 0);
	put_int8(&row, entry->min_seq);
	put_int8(&row, entry->max_seq);
	put(&row, Int64GetDatum(entry->epoch), !pending);
	emit(fcinfo, &row);
}

/* Newest first: the memtables, then the manifest. */
Datum
rose_components(PG_FUNCTION_ARGS)
{
	Relation	rel;
	RoseTable  *table;
	const RoseManifest *manifest;

	InitMaterializedSRF(fcinfo, 0);
	rel = open_rose_table(PG_GETARG_OID(0));
	table = rose_table_open(rel);
	emit_memtables(fcinfo, table);
	manifest = rose_table_manifest(table);
	for (int i = 0; i < manifest->ncomponents; i++)
		emit_component(fcinfo, &manifest->components[i]);
	table_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Space
 */

Datum
rose_space(PG_FUNCTION_ARGS)
{
	static const RoseSpaceUse columns[] = {ROSE_SPACE_C2, ROSE_SPACE_C1, ROSE_SPACE_RUNS,
		ROSE_SPACE_TAIL, ROSE_SPACE_BUILDING, ROSE_SPACE_RETIRED, ROSE_SPACE_FREE};
	Relation	rel;
	RoseTable  *table;
	RoseSpace	space;
	StatRow		row = {0};

	InitMaterializedSRF(fcinfo, 0);
	rel = open_rose_table(PG_GETARG_OID(0));
	table = rose_table_open(rel);
	rose_store_space(rel, &table->shared->store, &space);
	put_int8(&row, space.file_blocks * BLCKSZ);
	for (int i = 0; i < lengthof(columns); i++)
		put_int8(&row, space.blocks[columns[i]] * BLCKSZ);
	put_int8(&row, space.end_free * BLCKSZ);
	emit(fcinfo, &row);
	table_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Merges
 */

/* R as the picker derives it now. */
static double
current_ratio(RoseTable *table)
{
	RosePickInput input;
	bool		blocked[ROSE_MAX_COMPONENTS];

	rose_pick_input(table, &input, blocked);
	return rose_pick_merge(&input).ratio;
}

/* Uncompressed bytes of a table's components over the bytes that they take. */
static double
current_compression(RoseTable *table)
{
	const RoseManifest *manifest = rose_table_manifest(table);
	double		raw = 0;
	double		stored = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
	{
		raw += (double) manifest->components[i].raw_bytes;
		stored += (double) manifest->components[i].nblocks * BLCKSZ;
	}
	return stored > 0 ? raw / stored : 0;
}

static void
put_merge(StatRow *row, const RoseMergeBacklog *backlog, int into)
{
	bool		none = backlog->pid[into] == 0;

	put(row, Int32GetDatum(backlog->pid[into]), none);
	put(row, Int64GetDatum(backlog->done[into]), none);
	put(row, Int64GetDatum(backlog->total[into]), none);
}

/*
 * The counters, and the amplification: bytes that spills and merges have read and
 * written for each byte of rows that came from memory.  Merges of two levels
 * read and write each R times (Rose paper, section 2.2), so 4 R / compression is expected.
 */
static void
put_amplification(StatRow *row, RoseTable *table)
{
	RoseMergeStatsShared *stats = &table->shared->merge_stats;
	uint64		raw = pg_atomic_read_u64(&stats->came_raw_bytes);
	uint64		came = pg_atomic_read_u64(&stats->came_bytes);
	uint64		nread = pg_atomic_read_u64(&stats->read_bytes);
	uint64		written = pg_atomic_read_u64(&stats->written_bytes);
	double		ratio = current_ratio(table);
	double		compression = current_compression(table);

	put_int8(row, raw);
	put_int8(row, came);
	put_int8(row, nread);
	put_int8(row, written);
	put(row, Float8GetDatum(raw > 0 ? (double) (came + nread + written) / raw : 0), raw == 0);
	put(row, Float8GetDatum(ratio), false);
	put(row, Float8GetDatum(compression > 0 ? 4 * ratio / compression : 0), compression == 0);
}

Datum
rose_merge_progress_of(PG_FUNCTION_ARGS)
{
	Relation	rel;
	RoseTable  *table;
	RoseMergeBacklog backlog;
	StatRow		row = {0};

	InitMaterializedSRF(fcinfo, 0);
	rel = open_rose_table(PG_GETARG_OID(0));
	table = rose_table_open(rel);
	rose_merge_backlog(table->shared, &backlog);
	put(&row, Int32GetDatum(backlog.nruns), false);
	put_int8(&row, backlog.run_bytes);
	put_int8(&row, backlog.c1_bytes);
	put_int8(&row, backlog.c2_bytes);
	put_merge(&row, &backlog, 0);
	put_merge(&row, &backlog, 1);
	put_amplification(&row, table);
	emit(fcinfo, &row);
	table_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Memory
 */

Datum
rose_memory(PG_FUNCTION_ARGS)
{
	RosePaceStats stats;
	TupleDesc	desc;
	Datum		values[5];
	bool		nulls[5] = {false};

	rose_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rose_pace_get_stats(&stats);
	values[0] = Int64GetDatum(rose_arena_total_bytes());
	values[1] = Int64GetDatum(rose_arena_used_bytes());
	values[2] = Int64GetDatum(stats.delays);
	values[3] = Float8GetDatum(stats.delay_us / 1000.0);
	values[4] = Int64GetDatum(stats.own_spills);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ---------------------------------------------------------------------
 * Workers
 */

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
		case ROSE_WORK_TRUNCATE:
			return "truncating";
	}
	return NULL;
}

/* One row for each database that has, or lately had, a worker. */
Datum
rose_workers_of_databases(PG_FUNCTION_ARGS)
{
	RoseWorkerInfo *workers = palloc(sizeof(RoseWorkerInfo) * ROSE_WORKER_SLOTS);
	int			n;
	StatRow		row = {0};

	rose_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	n = rose_worker_list(workers);
	for (int i = 0; i < n; i++)
	{
		const RoseWorkerInfo *worker = &workers[i];

		put_oid(&row, worker->dbid);
		put_text(&row, work_name(worker));
		put(&row, Int32GetDatum(worker->pid), worker->pid == 0);
		put_time(&row, worker->started);
		put_oid(&row, worker->work_relid);
		put_int8(&row, worker->spills);
		put_int8(&row, worker->merges);
		put_text(&row, worker->error_time != 0 ? worker->error : NULL);
		put_time(&row, worker->error_time);
		put_oid(&row, worker->error_relid);
		emit(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------------------------------------------------------------------
 * Snapshots
 */

Datum
rose_declared_snapshots(PG_FUNCTION_ARGS)
{
	StatRow		row = {0};
	int		   *pids;
	int			n;

	rose_require_preload();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	n = rose_declared_pids(&pids);
	for (int i = 0; i < n; i++)
	{
		put(&row, Int32GetDatum(pids[i]), false);
		emit(fcinfo, &row);
	}
	return (Datum) 0;
}
