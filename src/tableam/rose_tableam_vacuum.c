/*-------------------------------------------------------------------------
 *
 * rose_tableam_vacuum.c
 *	  VACUUM and the planner's idea of a table's size.
 *
 * Merges remove dead versions in the background, so VACUUM has little to do: it
 * spills C0, which is what lets relfrozenxid advance (components need no commit
 * log), gives free space at the end of the file back, and brings pg_class up to date.
 *
 * Runs under VACUUM's lock of the table; merges and spills take theirs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "storage/procarray.h"
#include "utils/backend_progress.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "store/rose_manifest.h"
#include "store/rose_space.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_settle.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/write/rose_index_beside.h"
#include "tableam/rose_tableam.h"

/*
 * A table is taken to have at least so many pages, as heap takes one that was never
 * vacuumed.  Rows of a small table that is written to have many versions soon, and a
 * prepared plan outlives the moment when there are few: it had better look rows up by
 * key.
 */
#define ESTIMATE_MIN_PAGES		10

/* Truncate if that gives back so many blocks, or this share of the file. */
#define TRUNCATE_MIN_BLOCKS		1000
#define TRUNCATE_MIN_FRACTION	16

/* ---- size ---- */

/* Versions by where they are, and the pages that hold them. */
typedef struct TableSize
{
	double		component_rows;
	double		c0_rows;
	double		pages;
} TableSize;

/*
 * Rows are counted from the manifest and C0: no I/O beyond the metapage.  Versions that
 * replace others are counted twice; as a level is several times smaller than the next
 * one, that is a small part.  Of a row that one transaction writes again and again, what
 * it has superseded itself is not counted.
 */
static void
measure_table(RoseTree *tree, TableSize *size)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	const RoseC0Shared *c0 = &tree->shared->c0;
	double		largest = 0;
	double		pieces = 0;

	memset(size, 0, sizeof(*size));
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];
		double		rest = (double) rose_component_rest(entry, entry->nrows);
		double		tombstones = (double) rose_component_rest(entry, entry->ntombstones);

		size->component_rows += rest - 2 * tombstones;
		size->pages += (double) entry->nblocks;
		if (entry->level == 2)
			pieces += rest - tombstones;
		largest = Max(largest, rest - tombstones);
	}
	/* tombstones of rows that are gone already count for nothing */
	size->component_rows = Max(size->component_rows, Max(largest, pieces) / 2);

	size->c0_rows += (double) rose_c0_versions(c0);
	size->pages += (double) rose_c0_bytes(c0) / BLCKSZ;
}

double
rose_table_estimate_rows(RoseTree *tree)
{
	TableSize	size;

	measure_table(tree, &size);
	return rint(size.component_rows + size.c0_rows);
}

/* What heap has in a page beside the rows, and beside the values of a row. */
#define HEAP_PAGE_ROOM		(BLCKSZ - SizeOfPageHeaderData)
#define HEAP_ROW_OVERHEAD	(MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))

/*
 * Rows that a table is taken to have which nobody has analyzed yet, and which has hardly
 * any: as many as heap says, so that the plans are those.  It is likely to get more soon.
 */
static double
rows_of_new_table(Relation rel, int32 *attr_widths)
{
	double		width = get_rel_data_width(rel, attr_widths) + HEAP_ROW_OVERHEAD;

	return ESTIMATE_MIN_PAGES * floor(HEAP_PAGE_ROOM / width);
}

void
rose_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
				   double *tuples, double *allvisfrac)
{
	TableSize	size;
	double		known = rel->rd_rel->reltuples;

	measure_table(rose_tree_open_any_order(rel), &size);

	/* if ANALYZE found fewer rows in a file of this size, believe it */
	if (known > 0 && rel->rd_rel->relpages > 0)
	{
		double		grown = (double) RelationGetNumberOfBlocks(rel) / rel->rd_rel->relpages;

		size.component_rows = Min(size.component_rows, known * Max(grown, 1.0));
	}
	*pages = (BlockNumber) Min(Max(ceil(size.pages), ESTIMATE_MIN_PAGES),
							   (double) MaxBlockNumber);
	*tuples = rint(size.component_rows + size.c0_rows);
	if (known < 0 && size.pages < ESTIMATE_MIN_PAGES && !rel->rd_rel->relhassubclass)
		*tuples = Max(*tuples, rows_of_new_table(rel, attr_widths));
	*allvisfrac = 1;			/* entries of indexes are exact: who wants nothing else reads no row */
}

/* ---- VACUUM ---- */

/*
 * The oldest xid that a tree still asks the commit log about: in C0 and in private
 * runs, and in a tail log that nobody has read: that has none before the table's
 * relfrozenxid.  horizon was taken before the spill, so that what is written since is
 * newer.
 */
static TransactionId
oldest_xid_of_tree(RoseTree *tree, TransactionId horizon, TransactionId relfrozenxid)
{
	FullTransactionId oldest = rose_c0_oldest_xid(&tree->shared->c0);
	const RoseManifest *manifest;
	TransactionId xid;

	if (tree->shared->other_order)
		return relfrozenxid;
	manifest = rose_tree_manifest(tree);
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		FullTransactionId owner = FullTransactionIdFromU64(manifest->components[i].owner_xid);

		if ((manifest->components[i].flags & ROSE_COMPONENT_PRIVATE) &&
			(!FullTransactionIdIsValid(oldest) || FullTransactionIdPrecedes(owner, oldest)))
			oldest = owner;
	}

	if (!FullTransactionIdIsValid(oldest))
		return horizon;
	xid = XidFromFullTransactionId(oldest);
	return TransactionIdPrecedes(xid, horizon) ? xid : horizon;
}

/* The same for a table and its indexes, whose entries have the xids of its rows. */
static TransactionId
oldest_needed_xid(RoseTree *tree, TransactionId horizon)
{
	TransactionId relfrozenxid = tree->rel->rd_rel->relfrozenxid;
	TransactionId oldest = oldest_xid_of_tree(tree, horizon, relfrozenxid);
	const RoseIndexSet *set = rose_index_set_current(tree);

	for (int i = 0; set != NULL && i < set->n; i++)
	{
		Relation	index = index_open(set->trees[i].indexid, RowExclusiveLock);

		oldest = oldest_xid_of_tree(rose_tree_open_any_order(index), oldest, relfrozenxid);
		index_close(index, NoLock);
	}
	return oldest;
}

/* What VACUUM VERBOSE and the log of autovacuum say. */
static void
report_vacuum(Relation rel, const VacuumParams *params, TimestampTz start,
			  BlockNumber old_pages, double rows)
{
	bool		verbose = (params->options & VACOPT_VERBOSE) != 0;
	BlockNumber pages = RelationGetNumberOfBlocks(rel);

	if (!verbose &&
		(!rose_am_autovacuum() || params->log_min_duration < 0 ||
		 !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), params->log_min_duration)))
		return;
	ereport(verbose ? INFO : LOG,
			(errmsg("finished vacuuming rose table \"%s.%s\": %u pages given back, %u remain, about %.0f rows",
					get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel),
					old_pages > pages ? old_pages - pages : 0, pages, rows)));
}

/* A table that a subscription feeds is spilled by that, together with its position. */
static void
spill_for_vacuum(RoseTree *tree)
{
	if (tree->shared->other_order)
	{
		rose_tree_report_order(tree, WARNING);
		return;
	}
	if (!OidIsValid(tree->shared->fed_by))
		(void) rose_spill_if_room(tree);
	rose_settle_private_runs(tree);
}

static void
enter_phase(int phase)
{
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, phase);
}

static void
give_back_space(Relation rel, RoseTree *tree)
{
	rose_space_give_back(rel, &tree->shared->store,
						 Min(TRUNCATE_MIN_BLOCKS,
							 RelationGetNumberOfBlocks(rel) / TRUNCATE_MIN_FRACTION));
}

/* Secondary indexes, which are trees of their own. */
static void
vacuum_indexes(Relation rel, bool truncate)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), RowExclusiveLock);

		if (rose_relation_has_tree(index))
		{
			RoseTree   *tree = rose_tree_open_any_order(index);

			rose_index_beside_give_up(tree);	/* VACUUM has the table's lock for builds */
			spill_for_vacuum(tree);
			if (truncate)
				give_back_space(index, tree);
			rose_vac_update_relstats(index, RelationGetNumberOfBlocks(index),
									 rose_table_estimate_rows(tree), false,
									 InvalidTransactionId, InvalidMultiXactId);
		}
		index_close(index, NoLock);
	}
	list_free(indexes);
}

void
rose_vacuum(Relation rel, VacuumParams *params, BufferAccessStrategy bstrategy)
{
	TransactionId horizon = GetOldestNonRemovableTransactionId(rel);
	MultiXactId minmulti = GetOldestMultiXactId();
	TimestampTz start = GetCurrentTimestamp();
	RoseTree   *tree = rose_tree_open_any_order(rel);
	BlockNumber old_pages = RelationGetNumberOfBlocks(rel);
	double		rows;

	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, old_pages);
	enter_phase(PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	spill_for_vacuum(tree);
	enter_phase(PROGRESS_VACUUM_PHASE_TRUNCATE);
	if (params->truncate != VACOPTVALUE_DISABLED)
		give_back_space(rel, tree);
	vacuum_indexes(rel, params->truncate != VACOPTVALUE_DISABLED);

	enter_phase(PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	rows = rose_table_estimate_rows(tree);
	rose_vac_update_relstats(rel, RelationGetNumberOfBlocks(rel), rows,
							 rel->rd_rel->relhasindex,
							 oldest_needed_xid(tree, horizon), minmulti);
	rose_pgstat_report_vacuum(rel, (PgStat_Counter) rows, start);
	report_vacuum(rel, params, start, old_pages, rows);
	pgstat_progress_end_command();
}
