/*-------------------------------------------------------------------------
 *
 * rose_primary_key.c
 *	  Indexes: btrees in the catalog; in storage the primary key's is virtual, and others
 *	  are trees of their own.
 *
 * Why.  Rows of a rose table are stored in the order of the primary key, so the
 * key needs no index of its own, and the entries of other indexes are rows of LSM trees.
 * But core accepts only btrees in many places:
 * foreign keys, ON CONFLICT (up to 17), ALTER COLUMN TYPE, ATTACH PARTITION,
 * logical replication.  So the catalog has an ordinary btree, and rose gives the
 * *opened* index (its relcache entry) another IndexAmRoutine.
 *
 * When.  Core goes through the table access method just before it touches an
 * index: table_index_fetch_begin() in every index scan, between ambeginscan and
 * amrescan, and tuple_insert, multi_insert and tuple_insert_speculative before
 * the executor inserts index entries.  There rose_primary_key_attach() is called, for
 * all indexes of the table.
 * The routine belongs to the relcache entry and goes when that is rebuilt, which is after an
 * invalidation of some relation; so it is done again when there was one.
 *
 * What.  Only functions that are reached after one of those points are replaced:
 *
 *	  aminsert		stores nothing.  Entries were written with the row, and uniqueness
 *					was checked then; a conflict that speculative or multiple insertions
 *					met, and what a deferrable constraint has to look at again, is reported
 *					here, where core expects it
 *	  amrescan, amgettuple, ammarkpos, amrestrpos
 *					scan the table, or the index's tree (rose_index_scan.c).  ambeginscan and
 *					amendscan stay those of btree, because the first runs before
 *					the swap; what it makes is not used
 *	  ambuild		as below; a first build still calls btbuild itself
 *
 * An index outlives its table's access method (ALTER TABLE SET ACCESS METHOD),
 * so each replaced function looks at the heap and calls the original if that is not rose.
 *
 * The file.  A build goes through btbuild, which our table feeds no rows
 * (rose_rekey.c), and so leaves a valid metapage, which the planner reads.  An
 * empty btree would silently find nothing for whoever got past the swap.  So it is
 * *poisoned*: its root becomes the block behind the end of the file, which cannot be read.  So the
 * key of a small table costs a page, the metapage.  A rebuild through the swapped ambuild
 * is poisoned at once; otherwise at the next swap in the same transaction, and at the
 * latest before it commits.  Where an index has a tree of its own, its file's first block
 * is btree's metapage, which is poisoned by its own means (store/rose_metapage.h).
 *
 * The planner.  rose_primary_key_plan(), called from get_relation_info_hook, replaces
 * costs and switches off what needs storage: bitmap scans (the table has no bitmap
 * callbacks either) and parallel scans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "access/amapi.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "compat/rose_compat_cost.h"
#include "util/rose_stop_point.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/write/rose_duplicate.h"
#include "lsm/write/rose_unique_recheck.h"
#include "indexam/rose_index_paths.h"
#include "indexam/rose_indexam.h"

/* btree's own routine, and ours, which differs as said above; made at first use */
static IndexAmRoutine btree_routine;
static IndexAmRoutine rose_routine;
static bool routines_made = false;

/*
 * Table whose speculative insertion met a conflict, or InvalidOid; in which index
 * (InvalidOid: the primary key's); nesting level of the (sub)transaction that met it.
 */
static Oid	conflict_in = InvalidOid;
static Oid	conflict_index;
static int	conflict_level;

/* Table with a row with a duplicate key that was not reported yet. */
static Oid	duplicate_in = InvalidOid;
static int	duplicate_level;

/* Indexes built by this transaction that are not poisoned yet; in TopTransactionContext. */
static List *to_poison = NIL;

/* ---- poison ---- */

/* Is what goes into this fork of the index WAL-logged?  An init fork always is. */
static bool
fork_needs_wal(Relation index, ForkNumber fork)
{
	return fork == INIT_FORKNUM || RelationNeedsWAL(index);
}

static void
poison_fork(Relation index, ForkNumber fork)
{
	Buffer		buffer = ReadBufferExtended(index, fork, BTREE_METAPAGE, RBM_NORMAL, NULL);
	BTMetaPageData *meta = BTPageGetMeta(BufferGetPage(buffer));
	BlockNumber end = RelationGetNumberOfBlocksInFork(index, fork);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	if (meta->btm_root != P_NONE)
	{
		UnlockReleaseBuffer(buffer);	/* done already */
		return;
	}

	START_CRIT_SECTION();
	meta->btm_root = meta->btm_fastroot = end;
	MarkBufferDirty(buffer);
	if (fork_needs_wal(index, fork))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

/*
 * Point the root of an index that was just built at a block that the file does not have.
 * Who reads it meets an error, also with zero_damaged_pages: btree refuses a page of
 * zeroes.  Nobody extends the file: who would insert has to read the root first.  The
 * init fork of an unlogged index takes its place after a crash.
 */
static void
poison(Relation index)
{
	if (rose_meta_is_of_index(index))
	{
		rose_meta_poison(index);
		return;
	}
	poison_fork(index, MAIN_FORKNUM);
	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
		smgrexists(RelationGetSmgr(index), INIT_FORKNUM))
		poison_fork(index, INIT_FORKNUM);
}

static void
poison_pending(void)
{
	while (to_poison != NIL)
	{
		Oid			indexid = linitial_oid(to_poison);
		Relation	index;

		to_poison = list_delete_first(to_poison);
		index = RelationIdGetRelation(indexid);
		if (index == NULL)
			continue;			/* dropped, or rolled back with its making */
		if (index->rd_rel->relkind == RELKIND_INDEX &&
			RelationGetNumberOfBlocks(index) > 0)
			poison(index);
		RelationClose(index);
	}
}

void
rose_primary_key_built(Relation index)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	to_poison = list_append_unique_oid(to_poison, RelationGetRelid(index));
	MemoryContextSwitchTo(old);
}

/* ---- end of transactions ---- */

static void
forget_state(void)
{
	to_poison = NIL;
	conflict_in = InvalidOid;
	duplicate_in = InvalidOid;
}

static void
primary_key_on_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (OidIsValid(duplicate_in))
				rose_duplicate_key_report_late(duplicate_in);
			poison_pending();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			forget_state();
			break;
		default:
			break;
	}
}

/* What a failed statement met and did not come to report is rolled back with it. */
static void
primary_key_on_subtransaction_event(SubXactEvent event, SubTransactionId mine,
									SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		conflict_level = Min(conflict_level, level - 1);
		duplicate_level = Min(duplicate_level, level - 1);
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		if (conflict_level >= level)
			conflict_in = InvalidOid;
		if (duplicate_level >= level)
			duplicate_in = InvalidOid;
	}
}

void
rose_primary_key_define_callbacks(void)
{
	RegisterXactCallback(primary_key_on_transaction_event, NULL);
	RegisterSubXactCallback(primary_key_on_subtransaction_event, NULL);
}

/* ---- replaced functions ---- */

static IndexBuildResult *
primary_key_build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = btree_routine.ambuild(heap, index, info);

	if (rose_relation_is_rose(heap))
	{
		poison(index);
		to_poison = list_delete_oid(to_poison, RelationGetRelid(index));
	}
	return result;
}

void
rose_primary_key_set_conflict(Relation heap, const Oid *indexid)
{
	conflict_in = indexid != NULL ? RelationGetRelid(heap) : InvalidOid;
	conflict_index = indexid != NULL ? *indexid : InvalidOid;
	conflict_level = GetCurrentTransactionNestLevel();
}

void
rose_primary_key_set_duplicate(Relation heap)
{
	duplicate_in = RelationGetRelid(heap);
	duplicate_level = GetCurrentTransactionNestLevel();
}

/* Place of a unique index among those of its table: in TIDs of rows that were not inserted. */
static OffsetNumber
place_of_index(RoseTree *table, Oid indexid)
{
	const RoseIndexTree *index = rose_index_set_tree(table, indexid);

	return index == NULL ? FirstOffsetNumber :	/* the primary key's */
		FirstOffsetNumber + 1 + (index - rose_index_set(table)->trees);
}

void
rose_tid_set_not_inserted(RoseTree *table, Oid indexid, ItemPointer tid)
{
	ItemPointerSet(tid, MaxBlockNumber, place_of_index(table, indexid));
}

/*
 * A speculative insertion has met a conflict, and nothing was written.  An arbiter says so, and core looks
 * at the other row.  Any other index waits until it is known whether there is another row,
 * and raises the error, as it would if it had the new row's entry; then core tries again.
 */
static bool
answer_conflict(Relation index, Datum *values, bool *isnull, Relation heap, IndexUniqueCheck check)
{
	Oid			met = rose_tree_is_key_index(index) ? InvalidOid : RelationGetRelid(index);
	Oid			conflict = conflict_index;

	if (check == UNIQUE_CHECK_PARTIAL)
		return false;
	if (check != UNIQUE_CHECK_YES || met != conflict)
		return true;
	if (OidIsValid(met))
		rose_unique_recheck_value(rose_tree_open(heap), index, values, isnull);
	else
		rose_unique_recheck_key(rose_tree_open(heap), index, values, isnull);
	return true;
}

static bool
primary_key_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
				   Relation heap, IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	if (!rose_relation_is_rose(heap))
		return btree_routine.aminsert(index, values, isnull, tid, heap, check, unchanged,
									  info);
	if (check == UNIQUE_CHECK_EXISTING)
	{
		rose_unique_recheck_row(rose_tree_open(heap), index, tid);
		return true;
	}
	/* index expressions may call what inserts rows, too */
	if (conflict_in == RelationGetRelid(heap) && !rose_tid_is_inserted(tid))
		return answer_conflict(index, values, isnull, heap, check);
	/* a trigger's condition that ran in between may have inserted, and failed, itself: ask the row */
	if (unlikely(!rose_tid_is_inserted(tid)))
	{
		if (place_of_index(rose_tree_open(heap), RelationGetRelid(index)) !=
			ItemPointerGetOffsetNumber(tid))
			return true;
		duplicate_in = InvalidOid;
		rose_duplicate_key_report_entry(heap, index, values, isnull);
	}
	return check != UNIQUE_CHECK_PARTIAL || !rose_duplicate_take(RelationGetRelid(index), tid);
}

static bool
scans_rose(IndexScanDesc scan)
{
	return scan->heapRelation != NULL && rose_relation_is_rose(scan->heapRelation);
}

static void
primary_key_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
				   int norderbys)
{
	if (scans_rose(scan))
		rose_index_rescan(scan, keys, nkeys, orderbys, norderbys);
	else
		btree_routine.amrescan(scan, keys, nkeys, orderbys, norderbys);
}

static bool
primary_key_gettuple(IndexScanDesc scan, ScanDirection direction)
{
	return scans_rose(scan) ? rose_index_gettuple(scan, direction)
		: btree_routine.amgettuple(scan, direction);
}

static void
primary_key_markpos(IndexScanDesc scan)
{
	if (scans_rose(scan))
		rose_index_markpos(scan);
	else
		btree_routine.ammarkpos(scan);
}

static void
primary_key_restrpos(IndexScanDesc scan)
{
	if (scans_rose(scan))
		rose_index_restrpos(scan);
	else
		btree_routine.amrestrpos(scan);
}

/* ---- the swap ---- */

static void
make_routines(const IndexAmRoutine *btree)
{
	btree_routine = *btree;
	rose_routine = *btree;
	rose_routine.ambuild = primary_key_build;
	rose_routine.aminsert = primary_key_insert;
	rose_routine.amrescan = primary_key_rescan;
	rose_routine.amgettuple = primary_key_gettuple;
	rose_routine.ammarkpos = primary_key_markpos;
	rose_routine.amrestrpos = primary_key_restrpos;
	routines_made = true;
}

static void
attach_index(Oid indexid)
{
	Relation	index = RelationIdGetRelation(indexid);

	if (index == NULL)
		elog(ERROR, "could not open index %u", indexid);
	if (index->rd_indam != &rose_routine)
	{
		if (index->rd_rel->relam != BTREE_AM_OID)
			elog(ERROR, "index %u of a rose table is not a btree", indexid);
		if (!routines_made)
			make_routines(index->rd_indam);
		index->rd_indam = &rose_routine;
	}
	RelationClose(index);
}

/* The relcache's own list may be made anew while we open them. */
static void
attach_secondary_indexes(Relation heap, Oid primary)
{
	List	   *indexes = RelationGetIndexList(heap);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		if (lfirst_oid(cell) != primary)
			attach_index(lfirst_oid(cell));
	}
	list_free(indexes);
}

/*
 * Indexes that DROP INDEX or REINDEX CONCURRENTLY has taken off the list since a statement
 * that is going on has opened them: core still writes to them.  It holds their locks, so
 * they cannot go.
 */
static void
attach_dead_indexes(Relation heap)
{
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	List	   *dead = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	ListCell   *cell;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(heap)));
	scan = systable_beginscan(pg_index, IndexIndrelidIndexId, true, NULL, 1, &key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);

		if (!form->indislive && rose_relation_oid_is_locked(form->indexrelid, RowExclusiveLock, true))
			dead = lappend_oid(dead, form->indexrelid);
	}
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	foreach(cell, dead)
		attach_index(lfirst_oid(cell));
	list_free(dead);
}

/* If the list may be another one than at the last look. */
static void
attach_dropped_indexes(RoseTree *tree, Relation heap)
{
	uint64		stamp = tree->invalidations;

	if (likely(tree->attached == stamp))
		return;
	attach_dead_indexes(heap);
	tree->attached = stamp;
}

static void
attach_indexes(RoseTree *tree, Relation heap)
{
	Oid			indexid = rose_primary_key_index(heap);

	if (OidIsValid(indexid))
		attach_index(indexid);
	/* rose_primary_key_index has seen to the list */
	if (unlikely(list_length(heap->rd_indexlist) > (OidIsValid(indexid) ? 1 : 0)))
		attach_secondary_indexes(heap, indexid);
	attach_dropped_indexes(tree, heap);
}

/* The routines stay as long as this process has heard of no relation that was changed, nor the table's list of indexes. */
void
rose_primary_key_attach(Relation heap)
{
	RoseTree   *tree;
	uint64		changes;

	if (ROSE_STOP_POINT_SKIPS("index-attached"))
		return;
	if (unlikely(to_poison != NIL))
		poison_pending();
	tree = rose_tree_open_any_order(heap);
	changes = rose_tree_relcache_changes();
	if (likely(tree->attached_at == changes))
		return;
	attach_indexes(tree, heap);
	tree->attached_at = changes;
}

/* ---- the planner ---- */

/* Inner pages of a component, and the page reads of a descent, are a small part of it. */
#define PAGES_PER_INNER_PAGE 200

/*
 * What cost_index will add for pages of rows that are not there.  It takes the
 * same share of the table's pages as of its rows, so a lookup in a table of few rows,
 * whose pages are a minimum rather than measured, would read them all; but n rows
 * lie in at most n pages.  Repeated scans are charged for each page once.
 */
static Cost
charge_for_absent_pages(const RelOptInfo *rel, Selectivity selectivity, double loop_count)
{
	double		pages = ceil(selectivity * rel->pages);
	double		rows = Max(ceil(selectivity * rel->tuples), 1);

	return loop_count > 1 ? 0 : Max(pages - rows, 0) * seq_page_cost;
}

/*
 * What an index-only scan reads: rows, as all scans of the key do, of which cost_index
 * knows nothing, since it takes every index to have entries of its own.
 */
static Cost
charge_for_rows(struct PlannerInfo *root, const IndexOptInfo *info, Selectivity selectivity,
				double loop_count)
{
	const RelOptInfo *rel = info->rel;
	double		rows = Max(ceil(selectivity * rel->tuples), 1);
	double		pages = Min(ceil(selectivity * rel->pages), rows);
	double		random_cost;
	double		seq_cost;

	get_tablespace_page_costs(rel->reltablespace, &random_cost, &seq_cost);
	if (loop_count > 1)
		return index_pages_fetched(pages * loop_count, rel->pages, info->pages, root) *
			random_cost / loop_count;
	return pages > 0 ? random_cost + (pages - 1) * seq_cost : 0;
}

/* What core charges for a scan of a btree with these conditions. */
static void
cost_of_btree(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
			  Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
			  double *correlation, double *pages)
{
	rose_btcostestimate(root, path,
						rose_index_leading_clauses(path->indexinfo, path->indexclauses),
						loop_count, startup_cost, total_cost, selectivity, correlation, pages);
}

/*
 * Conditions that are not ranges are checked on each row of those that are: rows that do not meet
 * them are read and looked at as a scan of the table does it.  cost_index charges for the pages of
 * those that do, and cost_of_btree for each row of the ranges its conditions, and an entry.
 */
static Cost
charge_for_passed_rows(struct PlannerInfo *root, const IndexPath *path, Selectivity selectivity,
					   double loop_count)
{
	const RelOptInfo *rel = path->indexinfo->rel;
	List	   *leading;
	List	   *conditions = NIL;
	Selectivity passed;
	double		seq_page;
	ListCell   *cell;

	if (path->indexclauses == NIL || llast_node(IndexClause, path->indexclauses)->indexcol == 0)
		return 0;
	leading = rose_index_leading_clauses(path->indexinfo, path->indexclauses);
	if (list_length(leading) == list_length(path->indexclauses))
		return 0;
	foreach(cell, leading)
		conditions = list_append_unique_ptr(conditions, lfirst_node(IndexClause, cell)->rinfo);
	passed = clauselist_selectivity(root, conditions, rel->relid, JOIN_INNER, NULL) - selectivity;
	if (passed <= 0)
		return 0;
	get_tablespace_page_costs(rel->reltablespace, NULL, &seq_page);
	/* repeated scans find most pages in memory: cost_index says it of those that it knows of, too */
	return (loop_count > 1 ? 0 : passed * rel->pages * seq_page) +
		passed * rel->tuples * (cpu_tuple_cost - cpu_index_tuple_cost);
}

/*
 * Rows are in the index's order and come with it: what cost_of_btree charges for
 * descent and conditions is kept, the heap is perfectly correlated, and index
 * entries do not cost anything besides their rows.
 */
static void
primary_key_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
				 Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
				 double *correlation, double *pages)
{
	double		entries;

	cost_of_btree(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				  pages);
	entries = *selectivity * path->indexinfo->tuples * cpu_index_tuple_cost;
	*total_cost = Max(*startup_cost, *total_cost - entries);
	*total_cost += charge_for_passed_rows(root, path, *selectivity, loop_count);
	if (path->path.pathtype == T_IndexOnlyScan)
		*total_cost += charge_for_rows(root, path->indexinfo, *selectivity, loop_count);
	else						/* may be less than startup_cost now: the sum with the pages' charge is not */
		*total_cost -= charge_for_absent_pages(path->indexinfo->rel, *selectivity, loop_count);
	*correlation = 1.0;
}

/* An entry costs a row's lookup, when its row is fetched: so many tuples' processing. */
#define LOOKUP_COST		20

/*
 * Keys of many rows are sorted before they are looked up (rose_index_batch.c).  Of the way from the
 * order of the table to that of the index, so much is left.
 */
#define UNSORTED_PART	(1.0 / 3)

/*
 * Entries are read as rows of a table are, and each row is looked up by its key: what
 * cost_index adds for pages of the table is kept, and the processor's part comes here.
 */
static void
secondary_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
			   Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
			   double *correlation, double *pages)
{
	cost_of_btree(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				  pages);
	if (path->path.pathtype != T_IndexOnlyScan)
		*total_cost += *selectivity * path->indexinfo->rel->tuples * LOOKUP_COST * cpu_tuple_cost;
	*correlation = 1 - (1 - fabs(*correlation)) * UNSORTED_PART;
}

/*
 * Where an entry is believed only if its row agrees, the row is looked up twice, and the
 * index's functions are called, which is not for a parallel worker unless they say so.
 */
static void
validated_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
			   Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
			   double *correlation, double *pages)
{
	const IndexOptInfo *info = path->indexinfo;

	secondary_cost(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
	*total_cost += *selectivity * info->rel->tuples * LOOKUP_COST * cpu_tuple_cost;
	if (!is_parallel_safe(root, (Node *) info->indexprs) ||
		!is_parallel_safe(root, (Node *) info->indpred))
		path->path.parallel_safe = false;
}

static bool
is_validated(const IndexOptInfo *info)
{
	Relation	index = index_open(info->indexoid, NoLock);
	uint16		flags = 0;

	/* a pin for each index of each table that a transaction plans to read would be many */
	if (rose_tree_is_known_index(index) || rose_meta_is_of_index(index))
		(void) rose_meta_index_flags(index, &flags);
	index_close(index, NoLock);
	return (flags & ROSE_INDEX_VALIDATED) != 0;
}

bool
rose_primary_key_is_planned(const IndexOptInfo *info)
{
	return info->amcostestimate == primary_key_cost || info->amcostestimate == secondary_cost ||
		info->amcostestimate == validated_cost;
}

bool
rose_primary_key_is_planned_as_key(const IndexOptInfo *info)
{
	return info->amcostestimate == primary_key_cost;
}

/* Bytes of an entry in memory beside the values, and of an expression's value. */
#define ENTRY_OVERHEAD		16
#define EXPRESSION_WIDTH	16

static int
column_width(Relation heap, AttrNumber attno)
{
	Form_pg_attribute att;
	int			width;

	if (attno <= 0)
		return EXPRESSION_WIDTH;
	att = TupleDescAttr(RelationGetDescr(heap), attno - 1);
	width = get_attavgwidth(RelationGetRelid(heap), attno);
	return width > 0 ? width : get_typavgwidth(att->atttypid, att->atttypmod);
}

/*
 * Pages that the entries take, if they are not compressed at all.  The file may have many
 * more: its tail log, and what merges have left free.
 */
static double
pages_of_entries(Relation heap, const IndexOptInfo *info)
{
	Bitmapset  *key = RelationGetIndexAttrBitmap(heap, INDEX_ATTR_BITMAP_PRIMARY_KEY);
	double		width = ENTRY_OVERHEAD;
	int			column = -1;

	for (int i = 0; i < info->ncolumns; i++)
		width += column_width(heap, info->indexkeys[i]);
	while ((column = bms_next_member(key, column)) >= 0)
		width += column_width(heap, column + FirstLowInvalidHeapAttributeNumber);
	bms_free(key);
	return ceil(info->tuples * width / BLCKSZ);
}

static void
plan_secondary(Relation heap, IndexOptInfo *info)
{
	RelOptInfo *rel = info->rel;

	if (info->indpred == NIL)
		info->tuples = rel->tuples;
	info->pages = Max(1, Min(info->pages, pages_of_entries(heap, info)));
	info->amcanparallel = false;
	info->amhasgetbitmap = false;
	info->amcostestimate = secondary_cost;
	if (is_validated(info))
	{
		memset(info->canreturn, false, info->ncolumns * sizeof(bool));
		info->amcostestimate = validated_cost;
	}
}

void
rose_primary_key_plan(Relation heap, IndexOptInfo *info, bool primary)
{
	RelOptInfo *rel = info->rel;

	if (!primary)
	{
		plan_secondary(heap, info);
		return;
	}
	/* INCLUDE: the row has its columns in any case, of any size */
	for (int i = info->nkeycolumns; i < info->ncolumns; i++)
		info->canreturn[i] = false;
	info->pages = Max(1, rel->pages / PAGES_PER_INNER_PAGE);
	info->tuples = rel->tuples;
	info->tree_height = Min(2, info->pages > 1 ? 1 + info->pages / PAGES_PER_INNER_PAGE : 0);
	info->amcanparallel = false;
	info->amhasgetbitmap = false;
	info->amcostestimate = primary_key_cost;
}
