/*-------------------------------------------------------------------------
 *
 * rose_sql_stat_table.c
 *	  Functions behind the views rose.stat_components, stat_space and
 *	  stat_merge_progress: one table each.
 *
 * They only look, without waiting for locks, at the table's shared state, its manifest
 * and its region maps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "storage/lmgr.h"

#include "store/rose_manifest.h"
#include "store/rose_space.h"
#include "lsm/merge/rose_backlog.h"
#include "lsm/merge/rose_merge.h"
#include "sqlfunc/rose_sql_row.h"
#include "sqlfunc/rose_sql_table.h"

PG_FUNCTION_INFO_V1(rose_components);
PG_FUNCTION_INFO_V1(rose_space);
PG_FUNCTION_INFO_V1(rose_merge_progress_of);

/* What is not known at the moment is not waited for. */
static void
emit_unknown(FunctionCallInfo fcinfo)
{
	RoseSqlRow	row = {0};

	for (int i = 0; i < ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc->natts; i++)
		rose_sql_put(&row, (Datum) 0, true);
	rose_sql_emit(fcinfo, &row);
}

/* Another session's temporary table, or an index of one. */
static bool
is_of_other_session(Oid relid)
{
	Relation	rel = try_relation_open(relid, NoLock);
	bool		result = rel != NULL && RELATION_IS_OTHER_TEMP(rel);

	if (rel != NULL)
		relation_close(rel, NoLock);
	return result;
}

/*
 * Begin a result about the table that the function was given.  NULL if it is gone; or if
 * it cannot be read, because somebody has locked it, it is another session's temporary
 * table, or this is a standby: then a row of
 * nulls is the result.  Views of all tables must neither wait for one nor fail.
 */
static RoseTree *
begin_result(FunctionCallInfo fcinfo)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel;

	InitMaterializedSRF(fcinfo, 0);
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
	{
		emit_unknown(fcinfo);
		return NULL;
	}
	if (is_of_other_session(relid))
	{
		UnlockRelationOid(relid, AccessShareLock);
		emit_unknown(fcinfo);
		return NULL;
	}
	rel = rose_sql_open_readable(relid);
	UnlockRelationOid(relid, AccessShareLock);
	if (rel == NULL)
		return NULL;
	if (RecoveryInProgress())
	{
		emit_unknown(fcinfo);
		relation_close(rel, AccessShareLock);
		return NULL;
	}
	return rose_tree_open_any_order(rel);
}

static void
end_result(RoseTree *tree)
{
	relation_close(tree->rel, AccessShareLock);
}

/* ---- components ---- */

static int
compare_memtables(const void *a, const void *b)
{
	uint64		x = ((const RoseMemtableShared *) a)->id;
	uint64		y = ((const RoseMemtableShared *) b)->id;

	return x > y ? -1 : x < y;
}

static void
emit_memtables(FunctionCallInfo fcinfo, RoseTree *tree)
{
	RoseMemtableShared memtables[ROSE_MAX_MEMTABLES];
	RoseSqlRow	row = {0};

	rose_c0_describe(&tree->shared->c0, memtables);
	qsort(memtables, ROSE_MAX_MEMTABLES, sizeof(RoseMemtableShared), compare_memtables);

	for (int i = 0; i < ROSE_MAX_MEMTABLES; i++)
	{
		RoseMemtableShared *m = &memtables[i];

		if (m->state == ROSE_MEMTABLE_FREE)
			continue;
		rose_sql_put_text(&row, "memtable");
		rose_sql_put_int8(&row, (int64) m->id);
		rose_sql_put_text(&row, m->state == ROSE_MEMTABLE_ACTIVE ? "active" : "frozen");
		rose_sql_put_int8(&row, rose_memtable_versions(m));
		rose_sql_put(&row, (Datum) 0, true);	/* tombstones: not counted in memory */
		rose_sql_put_int8(&row, 0);
		rose_sql_put_int8(&row, m->nbytes);
		rose_sql_put(&row, (Datum) 0, true);
		rose_sql_put(&row, (Datum) 0, true);
		rose_sql_put(&row, Int64GetDatum(m->min_seq), m->nentries == 0);
		rose_sql_put(&row, Int64GetDatum(m->max_seq), m->nentries == 0);
		rose_sql_put(&row, (Datum) 0, true);
		rose_sql_emit(fcinfo, &row);
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
	RoseSqlRow	row = {0};
	int64		bytes = (int64) entry->nblocks * BLCKSZ;
	bool		pending = entry->state == ROSE_COMPONENT_PENDING;

	rose_sql_put_text(&row, component_kind(entry));
	rose_sql_put_int8(&row, entry->id);
	rose_sql_put_text(&row, pending ? "pending" : "live");
	rose_sql_put_int8(&row, rose_component_rest(entry, entry->nrows));
	rose_sql_put_int8(&row, rose_component_rest(entry, entry->ntombstones));
	rose_sql_put_int8(&row, entry->nblocks);
	rose_sql_put_int8(&row, bytes);
	rose_sql_put_int8(&row, entry->raw_bytes);
	rose_sql_put(&row, Float8GetDatum(bytes > 0 ? (double) entry->raw_bytes / bytes : 0), bytes == 0);
	rose_sql_put_int8(&row, entry->min_seq);
	rose_sql_put_int8(&row, entry->max_seq);
	rose_sql_put(&row, Int64GetDatum(entry->epoch), !pending);
	rose_sql_emit(fcinfo, &row);
}

/* Newest first: the memtables, then the manifest. */
Datum
rose_components(PG_FUNCTION_ARGS)
{
	RoseTree   *tree = begin_result(fcinfo);
	const RoseManifest *manifest;

	if (tree == NULL)
		return (Datum) 0;
	emit_memtables(fcinfo, tree);
	manifest = rose_tree_manifest(tree);
	for (int i = 0; i < manifest->ncomponents; i++)
		emit_component(fcinfo, &manifest->components[i]);
	end_result(tree);
	return (Datum) 0;
}

/* ---- space ---- */

Datum
rose_space(PG_FUNCTION_ARGS)
{
	static const RoseSpaceUse columns[] = {ROSE_SPACE_C2, ROSE_SPACE_C1, ROSE_SPACE_RUNS,
	ROSE_SPACE_TAIL, ROSE_SPACE_BUILDING, ROSE_SPACE_RETIRED, ROSE_SPACE_FREE};
	RoseTree   *tree = begin_result(fcinfo);
	RoseSpace	space;
	RoseSqlRow	row = {0};

	if (tree == NULL)
		return (Datum) 0;
	rose_space_measure(tree->rel, &tree->shared->store, &space);
	rose_sql_put_int8(&row, space.file_blocks * BLCKSZ);
	for (int i = 0; i < lengthof(columns); i++)
		rose_sql_put_int8(&row, space.blocks[columns[i]] * BLCKSZ);
	rose_sql_put_int8(&row, space.end_free * BLCKSZ);
	rose_sql_emit(fcinfo, &row);
	end_result(tree);
	return (Datum) 0;
}

/* ---- merges ---- */

/* R as the picker derives it now. */
static double
current_ratio(RoseTree *tree)
{
	RosePickInput input;
	RosePickFlags flags;

	rose_pick_input(tree, &input, &flags);
	return rose_pick_merge(&input).ratio;
}

/* Uncompressed bytes of a table's components over the bytes that they take. */
static double
current_compression(RoseTree *tree)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
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
put_merge(RoseSqlRow *row, const RoseMergeBacklog *backlog, int into)
{
	bool		none = backlog->pid[into] == 0;

	rose_sql_put(row, Int32GetDatum(backlog->pid[into]), none);
	rose_sql_put(row, Int64GetDatum(backlog->done[into]), none);
	rose_sql_put(row, Int64GetDatum(backlog->total[into]), none);
}

/*
 * The counters, and the amplification: bytes that spills and merges have read and written
 * for each byte of rows that came from memory.  Merges of two levels read and write each
 * R times (Rose paper, section 2.2), so 4 R / compression is expected.
 */
static void
put_amplification(RoseSqlRow *row, RoseTree *tree)
{
	RoseMergeStatsShared *stats = &tree->shared->merge_stats;
	uint64		raw = pg_atomic_read_u64(&stats->came_raw_bytes);
	uint64		came = pg_atomic_read_u64(&stats->came_bytes);
	uint64		nread = pg_atomic_read_u64(&stats->read_bytes);
	uint64		written = pg_atomic_read_u64(&stats->written_bytes);
	double		ratio = current_ratio(tree);
	double		compression = current_compression(tree);

	rose_sql_put_int8(row, raw);
	rose_sql_put_int8(row, came);
	rose_sql_put_int8(row, nread);
	rose_sql_put_int8(row, written);
	rose_sql_put(row, Float8GetDatum(raw > 0 ? (double) (came + nread + written) / raw : 0), raw == 0);
	rose_sql_put(row, Float8GetDatum(ratio), false);
	rose_sql_put(row, Float8GetDatum(compression > 0 ? 4 * ratio / compression : 0), compression == 0);
}

/* Until when workers leave the table alone, after how many failures in a row: the longest of its pauses. */
static void
put_pause(RoseSqlRow *row, RoseTree *tree)
{
	TimestampTz longest = 0;
	uint32		failures = 0;

	for (int i = 0; i < ROSE_PAUSE_KINDS; i++)
	{
		RosePauseShared *pause = &tree->shared->pauses[i];
		TimestampTz until = rose_pause_until(pause);

		if (until > longest)
			failures = pg_atomic_read_u32(&pause->failures);
		longest = Max(longest, until);
	}
	rose_sql_put_time(row, longest);
	rose_sql_put(row, Int32GetDatum((int32) failures), longest == 0);
}

Datum
rose_merge_progress_of(PG_FUNCTION_ARGS)
{
	RoseTree   *tree = begin_result(fcinfo);
	RoseMergeBacklog backlog;
	RoseSqlRow	row = {0};

	if (tree == NULL)
		return (Datum) 0;
	rose_merge_backlog(tree->shared, &backlog);
	rose_sql_put(&row, Int32GetDatum(backlog.nruns), false);
	rose_sql_put_int8(&row, backlog.run_bytes);
	rose_sql_put_int8(&row, backlog.c1_bytes);
	rose_sql_put_int8(&row, backlog.c2_bytes);
	put_merge(&row, &backlog, 0);
	put_merge(&row, &backlog, 1);
	put_amplification(&row, tree);
	rose_sql_put_int8(&row, pg_atomic_read_u64(&tree->shared->merge_stats.missing_rows));
	put_pause(&row, tree);
	rose_sql_emit(fcinfo, &row);
	end_result(tree);
	return (Datum) 0;
}
