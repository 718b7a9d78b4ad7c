/*-------------------------------------------------------------------------
 *
 * rose_compat_am.h
 *	  Release differences of the interfaces of table and index access methods.
 *
 * Apart from rose_compat.h, because only the faces towards the executor, the
 * planner and DDL need these headers.
 *
 * No version is tested for anywhere else.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_AM_H
#define ROSE_COMPAT_AM_H

#include "postgres.h"

#include "access/stratnum.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_constraint.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat/rose_compat.h"

/*
 * Before 16 these headers declare function pointers without a prototype; so
 * whoever needs one includes this file before anything that might bring it.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#pragma GCC diagnostic pop

/* 18 took away the last parameter of ExecutorRun(). */
#if PG_VERSION_NUM < 180000
#define ROSE_RUN_ONCE_PARAM , bool once
#define ROSE_RUN_ONCE_ARG , once
#else
#define ROSE_RUN_ONCE_PARAM
#define ROSE_RUN_ONCE_ARG
#endif

/* 16 lets a custom scan say what slot it scans. */
#if PG_VERSION_NUM >= 160000
#define ROSE_HAVE_CUSTOM_SLOT_OPS
#endif

/* 16 renamed everything called relfilenode. */
#if PG_VERSION_NUM < 160000
#define ROSE_SET_NEW_FILE_CALLBACK relation_set_new_filenode
#define rose_set_new_file(rel, persistence) RelationSetNewRelfilenode(rel, persistence)
#define rose_rel_new_file_subid(rel) ((rel)->rd_newRelfilenodeSubid)
#else
#define ROSE_SET_NEW_FILE_CALLBACK relation_set_new_filelocator
#define rose_set_new_file(rel, persistence) RelationSetNewRelfilenumber(rel, persistence)
#define rose_rel_new_file_subid(rel) ((rel)->rd_newRelfilelocatorSubid)
#endif

/* 16 lets tuple_update say that only summarizing indexes need new entries. */
#if PG_VERSION_NUM < 160000
typedef bool RoseUpdateIndexes;
#define ROSE_UPDATE_NO_INDEXES false
#define ROSE_UPDATE_ALL_INDEXES true
#else
typedef TU_UpdateIndexes RoseUpdateIndexes;
#define ROSE_UPDATE_NO_INDEXES TU_None
#define ROSE_UPDATE_ALL_INDEXES TU_All
#endif

/* 16 counts updates that go to a new page. */
static inline void
rose_pgstat_count_update(Relation rel)
{
#if PG_VERSION_NUM < 160000
	pgstat_count_heap_update(rel, false);
#else
	pgstat_count_heap_update(rel, false, false);
#endif
}

/* 17 added a slot callback that tells whether the row is of this transaction. */
#if PG_VERSION_NUM < 170000
#define ROSE_SLOT_IS_CURRENT_XACT(callback)
#else
#define ROSE_HAVE_SLOT_CURRENT_XACT
#define ROSE_SLOT_IS_CURRENT_XACT(callback) .is_current_xact_tuple = callback,
#endif

/*
 * Since 17 the executor ends its scans while slots still have their last rows, which nobody
 * will read.  Before, it cleared the slots first.
 */
#if PG_VERSION_NUM >= 170000
#define ROSE_SCANS_END_UNDER_ROWS
#endif

/* 18 lets minimal tuples have room in front of them. */
#if PG_VERSION_NUM < 180000
#define ROSE_COPY_MINIMAL_ARGS TupleTableSlot *slot
#define rose_virtual_copy_minimal() TTSOpsVirtual.copy_minimal_tuple(slot)
#else
#define ROSE_COPY_MINIMAL_ARGS TupleTableSlot *slot, Size extra
#define rose_virtual_copy_minimal() TTSOpsVirtual.copy_minimal_tuple(slot, extra)
#endif

/*
 * 17 hands ANALYZE its blocks through a read stream.  Returns false at its end.  The
 * page itself is of no use to us.
 */
#if PG_VERSION_NUM < 170000
#define ROSE_ANALYZE_BLOCK_ARGS BlockNumber blockno, BufferAccessStrategy bstrategy
#define rose_analyze_block(block) ((void) bstrategy, *(block) = blockno, true)
#else
#include "storage/read_stream.h"
#define ROSE_ANALYZE_BLOCK_ARGS ReadStream *stream
#define rose_analyze_block(block) rose_analyze_stream_block(stream, block)
static inline bool
rose_analyze_stream_block(ReadStream *stream, BlockNumber *block)
{
	Buffer		buffer = read_stream_next_buffer(stream, NULL);

	if (!BufferIsValid(buffer))
		return false;
	*block = BufferGetBlockNumber(buffer);
	ReleaseBuffer(buffer);
	return true;
}
#endif

/* 18 replaced the bitmap callbacks by one; rose has neither. */

/* 18 stores the file instead of the relation's OID in a parallel scan. */
static inline void
rose_parallel_scan_set_rel(ParallelTableScanDesc pscan, Relation rel)
{
#if PG_VERSION_NUM < 180000
	pscan->phs_relid = RelationGetRelid(rel);
#else
	pscan->phs_locator = rel->rd_locator;
#endif
	pscan->phs_syncscan = false;
}

/* 18 counts all-frozen pages too. */
static inline void
rose_vac_update_relstats(Relation rel, BlockNumber pages, double tuples, bool hasindex,
						 TransactionId frozenxid, MultiXactId minmulti)
{
#if PG_VERSION_NUM < 180000
	vac_update_relstats(rel, pages, tuples, 0, hasindex, frozenxid, minmulti,
						NULL, NULL, false);
#else
	vac_update_relstats(rel, pages, tuples, 0, 0, hasindex, frozenxid, minmulti,
						NULL, NULL, false);
#endif
}

/* 17 wants to know the statement. */
static inline void
rose_reindex_index(Oid indexid, char persistence)
{
	ReindexParams params = {0};

#if PG_VERSION_NUM < 170000
	reindex_index(indexid, false, persistence, &params);
#else
	reindex_index(NULL, indexid, false, persistence, &params);
#endif
}

/* 18 reports how long the vacuum took. */
static inline void
rose_pgstat_report_vacuum(Relation rel, PgStat_Counter live, TimestampTz start)
{
#if PG_VERSION_NUM < 180000
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, live, 0);
#else
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, live, 0, start);
#endif
}

/* 17 renamed the test for autovacuum. */
static inline bool
rose_am_autovacuum(void)
{
#if PG_VERSION_NUM < 170000
	return IsAutoVacuumWorkerProcess();
#else
	return AmAutoVacuumWorkerProcess();
#endif
}

/* Core counts one at a time, and 16 renamed its counters. */
static inline void
rose_pgstat_count_heap_fetches(Relation rel, int n)
{
	if (!pgstat_should_count_relation(rel))
		return;
#if PG_VERSION_NUM < 160000
	rel->pgstat_info->t_counts.t_tuples_fetched += n;
#else
	rel->pgstat_info->counts.tuples_fetched += n;
#endif
}

/* 18 says in EXPLAIN ANALYZE how often an index was searched; the access method counts. */
static inline void
rose_count_index_search(IndexScanDesc scan)
{
#if PG_VERSION_NUM >= 180000
	if (scan->instrument != NULL)
		scan->instrument->nsearches++;
#endif
}

/* Of what does an operator order, and which way?  18 has a kind of comparison for btree's number. */
static inline bool
rose_ordering_op(Oid op, Oid *family, Oid *type, bool *descending)
{
#if PG_VERSION_NUM < 180000
	int16		strategy;

	if (!get_ordering_op_properties(op, family, type, &strategy))
		return false;
	*descending = strategy == BTGreaterStrategyNumber;
#else
	CompareType comparison;

	if (!get_ordering_op_properties(op, family, type, &comparison))
		return false;
	*descending = comparison == COMPARE_GT;
#endif
	return true;
}

/* 17 has constraints of this type for NOT NULL of domains, and 18 for that of columns. */
#define ROSE_CONSTRAINT_NOTNULL 'n'

/* The column of such a constraint of a table; 0 before 18, which has none. */
static inline AttrNumber
rose_constraint_notnull_column(HeapTuple constraint)
{
#if PG_VERSION_NUM < 180000
	return InvalidAttrNumber;
#else
	return extractNotNullColumn(constraint);
#endif
}

/* 16 replaced the ownership checks of each kind of object by one. */
static inline bool
rose_user_owns_relation(Oid relid, Oid userid)
{
#if PG_VERSION_NUM < 160000
	return pg_class_ownercheck(relid, userid);
#else
	return object_ownercheck(RelationRelationId, relid, userid);
#endif
}

/* 16 brought SQL/JSON constructors. */
static inline bool
rose_compat_is_json_constructor(const Node *node)
{
#if PG_VERSION_NUM >= 160000
	return IsA(node, JsonConstructorExpr);
#else
	return false;
#endif
}

#endif							/* ROSE_COMPAT_AM_H */
