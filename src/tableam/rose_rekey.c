/*-------------------------------------------------------------------------
 *
 * rose_rekey.c
 *	  The physical key follows the primary key.
 *
 * Rows are stored in the order of a key that the metapage names; the catalog's
 * primary key must be that key, and a table without one is keyed by row ids.  Three events
 * can part them:
 *
 *	  - The primary key's index is built.  Core calls index_build_range_scan,
 *		which feeds the btree no rows but looks at the key.  If it is another one,
 *		an empty file of this very subtransaction gets the key; otherwise the
 *		table gets a new file, into which all rows are sorted.
 *		REINDEX does the same, and finds the same key; only if a file of other versions of collations is in
 *		the wrong order, it gets a new file as well.  REINDEX CONCURRENTLY puts another index in the place
 *		of the primary key's; that is virtual as well, and has no effect on the file.
 *	  - The primary key is dropped, perhaps only for a moment (ALTER COLUMN
 *		TYPE drops and makes it again).  The object access hook notes the table,
 *		and at the end of the command those that still have no primary key are
 *		rewritten in the order of row ids.
 *	  - A unique index becomes the primary key (ADD PRIMARY KEY USING INDEX).  Core
 *		builds nothing then, so at the end of the command that index is, which is the first event
 *		again; until then nobody may use it.
 *
 * Entries of secondary indexes have the key of their row.  At the end of a command that has
 * given a table another key, these indexes are built anew; until then nobody may use
 * them.
 *
 * What is left for the end of a command is noted in rose_rekey_notes.c.
 *
 * All are transactional, because a new file is.  Rows that the transaction's
 * latest snapshot does not see are not copied, as in other rewrites of ALTER TABLE.
 * But those are known to show an empty table to snapshots of before, and a heap table that gets another
 * primary key is not rewritten: so such snapshots may not read the new file (rose_copied.h).
 *
 * Locking.  A new file needs AccessExclusiveLock.  Whoever makes or drops a primary key
 * holds it, but for the partitions of a table that gets one: these are locked against
 * writers only, and the lock is raised here.  And it changes the table's row in pg_class,
 * of which whoever makes a primary key of a heap table changes no more than what core
 * overwrites in place: see rose_class_row.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"

#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_adopt.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_resort.h"
#include "lsm/write/rose_bulkload.h"
#include "tableam/rose_rekey_columns.h"
#include "tableam/rose_rekey_notes.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"

/* ---- key definitions ---- */

static bool
has_key(Relation rel, int nkeys, const RoseKeyColumnDisk *keys)
{
	RoseMetaInfo info;

	(void) rose_tree_open_any_order(rel);	/* brings the metapage up to this cluster */
	rose_meta_read(rel, &info);
	return info.nkeys == nkeys &&
		memcmp(info.keys, keys, nkeys * sizeof(RoseKeyColumnDisk)) == 0;
}

static bool
is_empty(RoseTree *tree)
{
	return !tree->shared->other_order && rose_tree_manifest(tree)->ncomponents == 0 &&
		rose_c0_is_empty(&tree->shared->c0);
}

/* Would rolling back what made the file roll back a change of the metapage too? */
static bool
file_is_of_this_subtransaction(Relation rel)
{
	SubTransactionId mine = GetCurrentSubTransactionId();

	return rel->rd_createSubid == mine || rose_rel_new_file_subid(rel) == mine;
}

/*
 * Does REINDEX have something to do?  It holds a lock that lets others read.
 */
static bool
is_outdated(Relation rel)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);

	if (tree->schema->hash_functions == tree->shared->hash_functions)
		return false;
	LockRelation(rel, AccessExclusiveLock);
	return true;
}

/*
 * pg_upgrade makes empty tables, and gives them the old cluster's files afterwards.  It
 * allows no new file but those that it has named.
 */
static bool
may_set_key_in_place(Relation rel)
{
	return (IsBinaryUpgrade || file_is_of_this_subtransaction(rel)) &&
		is_empty(rose_tree_open_any_order(rel));
}

/*
 * Indexes may be there already: pg_upgrade to 18 makes them and the primary key in the order of
 * their names.  Their files come from the old cluster, too, with that key.
 */
static void
set_key_in_place(Relation rel, int nkeys, const RoseKeyColumnDisk *keys)
{
	RoseKeyFacts facts;
	RoseTree   *tree;

	rose_key_facts_make(RelationGetDescr(rel), nkeys, keys, &facts);
	TransferPredicateLocksToHeapRelation(rel);
	rose_meta_set_key(rel, nkeys, keys, &facts);
	rose_tree_invalidate(rose_file_name(rel));
	tree = rose_tree_open(rel);
	tree->shared->hash_functions = tree->schema->hash_functions;
	if (!IsBinaryUpgrade)
		rose_rekey_note(ROSE_REKEY_REKEYED, RelationGetRelid(rel));
}

/* ---- rows in the order of the new key ---- */

/* Rows on their way from the old file to the new one; spills to temporary files. */
typedef struct RowSorter
{
	Tuplesortstate *sort;		/* by key ... */
	Tuplestorestate *store;		/* ... or, without one, as they come */
	TupleTableSlot *slot;		/* rows come out here */
} RowSorter;

static void
sorter_begin(RowSorter *sorter, TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys)
{
	AttrNumber	attnos[INDEX_MAX_KEYS];
	Oid			operators[INDEX_MAX_KEYS];
	Oid			collations[INDEX_MAX_KEYS];
	bool		nulls_first[INDEX_MAX_KEYS];

	sorter->sort = NULL;
	sorter->store = NULL;
	sorter->slot = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
	if (nkeys == 0)
	{
		sorter->store = tuplestore_begin_heap(false, false, maintenance_work_mem);
		return;
	}
	for (int i = 0; i < nkeys; i++)
	{
		attnos[i] = keys[i].attno;
		operators[i] = get_opfamily_member(keys[i].opfamily, keys[i].opcintype,
										   keys[i].opcintype, BTLessStrategyNumber);
		if (!OidIsValid(operators[i]))
			elog(ERROR, "operator family %u has no less-than operator for type %u",
				 keys[i].opfamily, keys[i].opcintype);
		collations[i] = keys[i].collation;
		nulls_first[i] = false;
	}
	sorter->sort = tuplesort_begin_heap(tupdesc, nkeys, attnos, operators, collations,
										nulls_first, maintenance_work_mem, NULL,
										TUPLESORT_NONE);
}

static void
sorter_put(RowSorter *sorter, TupleTableSlot *slot)
{
	if (sorter->sort)
		tuplesort_puttupleslot(sorter->sort, slot);
	else
		tuplestore_puttupleslot(sorter->store, slot);
}

static bool
sorter_next(RowSorter *sorter)
{
	if (sorter->sort)
		return tuplesort_gettupleslot(sorter->sort, true, false, sorter->slot, NULL);
	return tuplestore_gettupleslot(sorter->store, true, false, sorter->slot);
}

static void
sorter_end(RowSorter *sorter)
{
	ExecDropSingleTupleTableSlot(sorter->slot);
	if (sorter->sort)
		tuplesort_end(sorter->sort);
	else
		tuplestore_end(sorter->store);
}

/* ---- errors of the new key ---- */

/* Core checks NOT NULL only after the index is built. */
static void
check_key_not_null(Relation rel, TupleTableSlot *slot, int nkeys,
				   const RoseKeyColumnDisk *keys)
{
	for (int i = 0; i < nkeys; i++)
	{
		bool		isnull;

		(void) slot_getattr(slot, keys[i].attno, &isnull);
		if (isnull)
			rose_rekey_columns_report_null(rel, keys[i].attno);
	}
}

/* ---- rewriting ---- */

/*
 * Give the sorter the rows of a table that cannot be read in the order of its keys.  Keys
 * that are equal by now, but were not, are those of different rows.
 */
static void
collect_unsorted_rows(Relation rel, RowSorter *sorter, int nkeys, const RoseKeyColumnDisk *keys)
{
	RoseResort *resort = rose_resort_begin(rose_tree_open_any_order(rel), true);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);

	while (rose_resort_next_row(resort, slot->tts_values, slot->tts_isnull))
	{
		ExecStoreVirtualTuple(slot);
		check_key_not_null(rel, slot, nkeys, keys);
		sorter_put(sorter, slot);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	rose_resort_end(resort);
}

/* Put all rows of the table into the sorter. */
static void
collect_rows(Relation rel, RowSorter *sorter, int nkeys, const RoseKeyColumnDisk *keys)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		check_key_not_null(rel, slot, nkeys, keys);
		sorter_put(sorter, slot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
}

/* Are the key columns of two rows equal?  With the schema of the new file. */
static bool
same_key(const RoseSchema *schema, TupleTableSlot *slot, const Datum *last, Datum *key)
{
	slot_getallattrs(slot);
	rose_key_from_values(schema, slot->tts_values, 0, key);
	return last != NULL && rose_key_compare(schema, last, key, schema->nkeys) == 0;
}

/* Load the sorted rows into the new file; returns how many. */
static uint64
load_rows(Relation rel, Relation index, RowSorter *sorter)
{
	RoseTree   *tree = rose_tree_open(rel);
	RoseBulkLoad *load = rose_bulkload_begin(tree, GetCurrentCommandId(true), true, 0,
											 InvalidOid, 0, maintenance_work_mem);
	Datum		keys[2][INDEX_MAX_KEYS];
	MemoryContext contexts[2];
	Datum	   *last = NULL;
	int			turn = 0;

	for (int i = 0; i < 2; i++)
		contexts[i] = AllocSetContextCreate(CurrentMemoryContext, "rose rekey",
											ALLOCSET_SMALL_SIZES);
	while (sorter_next(sorter))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(sorter->slot);
		if (index)
		{
			Datum		key[INDEX_MAX_KEYS];

			if (same_key(tree->schema, sorter->slot, last, key))
				rose_duplicate_key_report_build(rel, index, sorter->slot);
			turn = 1 - turn;
			MemoryContextReset(contexts[turn]);
			rose_key_copy(tree->schema, keys[turn], key, contexts[turn]);
			last = keys[turn];
		}
		rose_bulkload_put(load, sorter->slot->tts_values, sorter->slot->tts_isnull);
	}
	for (int i = 0; i < 2; i++)
		MemoryContextDelete(contexts[i]);
	return rose_bulkload_finish(load);
}

/*
 * Writers are locked out already: what they have is in the table.  Readers that go on
 * from the partition to the partitioned table, which is locked, end in a deadlock, as
 * they do with other ALTER TABLE.
 */
static void
lock_for_new_file(Relation rel)
{
	if (!CheckRelationLockedByMe(rel, ShareLock, true))
		elog(ERROR, "cannot change the key of \"%s\" without a lock",
			 RelationGetRelationName(rel));
	LockRelationOid(RelationGetRelid(rel), AccessExclusiveLock);
	rose_class_row_lock(rel);
}

/* What SERIALIZABLE transactions have locked by the old key becomes locks of the table. */
static void
make_file_with_key(Relation rel, int nkeys, const RoseKeyColumnDisk *keys, const RoseMetaInfo *old)
{
	TransferPredicateLocksToHeapRelation(rel);
	rose_next_file_set_key(RelationGetRelid(rel), nkeys, keys);
	PG_TRY();
	{
		rose_set_new_file(rel, rel->rd_rel->relpersistence);
	}
	PG_FINALLY();
	{
		rose_next_file_forget_key();
	}
	PG_END_TRY();
	if (OidIsValid(old->fed_by) || OidIsValid(old->logged_by))
		rose_meta_set_fed_by(rel, old->fed_by, old->logged_by);
}

/*
 * The same for rows that become this transaction's.  Who does not see it saw rows, or none that anybody
 * remembers.  A temporary table is read by its session alone, whose snapshots see what it has done.
 */
static void
make_file_for_rows(Relation rel, int nkeys, const RoseKeyColumnDisk *keys, const RoseMetaInfo *old)
{
	bool		had_rows = !is_empty(rose_tree_open_any_order(rel));

	make_file_with_key(rel, nkeys, keys, old);
	if (had_rows && rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		rose_copied_note(rose_tree_open(rel));
	rose_rekey_note(ROSE_REKEY_REKEYED, RelationGetRelid(rel));
}

/* The rows go one by one.  See below. */
static uint64
rewrite_rows(Relation rel, Relation index, int nkeys, const RoseKeyColumnDisk *keys, const RoseMetaInfo *old)
{
	RowSorter	sorter;
	uint64		nrows;

	sorter_begin(&sorter, CreateTupleDescCopy(RelationGetDescr(rel)), nkeys, keys);
	if (rose_tree_open_any_order(rel)->shared->other_order)
		collect_unsorted_rows(rel, &sorter, nkeys, keys);
	else
		collect_rows(rel, &sorter, nkeys, keys);
	if (sorter.sort)
		tuplesort_performsort(sorter.sort);
	make_file_for_rows(rel, nkeys, keys, old);
	nrows = load_rows(rel, index, &sorter);
	sorter_end(&sorter);
	return nrows;
}

/*
 * Give the table a new file with this key and all its rows.  index: the primary
 * key's, for messages; NULL if the new key is the row id.  The old file cannot
 * be read through the relation once the new one is there, so the rows wait in
 * the sorter.
 */
static uint64
rewrite_with_key(Relation rel, Relation index, int nkeys, const RoseKeyColumnDisk *keys)
{
	RoseMetaInfo old_info;
	RoseRekeyColumns *columns = NULL;
	uint64		nrows;

	lock_for_new_file(rel);
	rose_check_rewrite(rel);
	rose_meta_read(rel, &old_info);
	if (!rose_tree_open_any_order(rel)->shared->other_order)
		columns = rose_rekey_columns_begin(rel, nkeys, keys);
	if (columns == NULL)
		return rewrite_rows(rel, index, nkeys, keys, &old_info);
	rose_rekey_columns_collect(columns, rel);
	make_file_for_rows(rel, nkeys, keys, &old_info);
	nrows = rose_rekey_columns_load(columns, rel, index);
	rose_rekey_columns_end(columns);
	return nrows;
}

/* ---- rows in another order of the same key ---- */

/*
 * REINDEX of a table whose rows are sorted by other versions of collations.  They may
 * well order these rows alike: then the file is theirs, which is found under the lock
 * that lets others read.  If not, all versions are sorted into a new file; they stay what
 * they are, so that older snapshots see what they saw.
 */
static uint64
settle_order(Relation rel, Relation index, int nkeys, const RoseKeyColumnDisk *keys)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);
	RoseResort *resort;
	RoseMetaInfo info;
	uint64		nrows;

	if (rose_resort_is_needless(tree))
	{
		rose_tree_note_order(tree);
		return (uint64) rose_table_estimate_rows(tree);
	}
	ROSE_STOP_POINT("resort-needed");
	lock_for_new_file(rel);
	rose_check_rewrite(rel);
	rose_meta_read(rel, &info);
	resort = rose_resort_begin(rose_tree_open_any_order(rel), false);
	make_file_with_key(rel, nkeys, keys, &info);
	nrows = rose_resort_write(resort, rose_tree_open(rel), rose_duplicate_key_report_equal, rel);
	rose_resort_end(resort);
	ROSE_STOP_POINT("resort-written");
	return nrows;
}

/* ---- the primary key's index is built ---- */

static void
check_index_supported(Relation rel, Relation index, TableScanDesc scan)
{
	if (scan != NULL)
		elog(ERROR, "parallel build of an index of rose table \"%s\"",
			 RelationGetRelationName(rel));
	if (!index->rd_index->indisprimary)
		return;
	/* 18 has keys WITHOUT OVERLAPS, which are of type gist */
	if (index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("primary key of rose table \"%s\" cannot be WITHOUT OVERLAPS",
						RelationGetRelationName(rel)),
				 errdetail("Rows are stored in the key's order, as btrees have it.")));
	if (!index->rd_index->indimmediate)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("primary key of rose table \"%s\" cannot be deferrable",
						RelationGetRelationName(rel))));
}

/*
 * Feeds the btree nothing, and returns the number of rows for pg_class.
 */
double
rose_index_build_range_scan(Relation rel, Relation index, IndexInfo *info, bool allow_sync,
							bool anyvisible, bool progress, BlockNumber start_blockno,
							BlockNumber numblocks, IndexBuildCallback callback,
							void *callback_state, TableScanDesc scan)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	int			nkeys;

	check_index_supported(rel, index, scan);
	rose_primary_key_built(index);
	if (info->ii_Concurrent && rose_index_ddl_is_copied_key(RelationGetRelid(index)))
	{
		rose_index_ddl_check_order(rel);
		return rose_table_estimate_rows(rose_tree_open(rel));
	}
	if (!index->rd_index->indisprimary)
		return rose_index_ddl_build(rel, index, info);

	nkeys = rose_adopt_index_key(index, keys);
	if (has_key(rel, nkeys, keys) && rose_tree_open_any_order(rel)->shared->other_order)
		return (double) settle_order(rel, index, nkeys, keys);
	if (has_key(rel, nkeys, keys) && !is_outdated(rel))
		return rose_table_estimate_rows(rose_tree_open(rel));
	if (may_set_key_in_place(rel))
	{
		set_key_in_place(rel, nkeys, keys);
		return 0;
	}
	return (double) rewrite_with_key(rel, index, nkeys, keys);
}

/* ---- the primary key is dropped ---- */

void
rose_rekey_note_dropped(Oid relid)
{
	rose_rekey_note(ROSE_REKEY_DROPPED, relid);
}

/* Does the table have the key that its primary key, or the lack of one, asks for? */
static bool
has_right_key(Relation rel)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	int			nkeys = 0;
	Oid			indexid = rose_primary_key_index(rel);

	if (OidIsValid(indexid))
	{
		Relation	index = index_open(indexid, AccessShareLock);

		nkeys = rose_adopt_index_key(index, keys);
		index_close(index, AccessShareLock);
	}
	return has_key(rel, nkeys, keys);
}

/*
 * Key the table by row ids, unless it has a primary key again.  That one was
 * built, or took over the storage of an index with the same key.
 */
static void
settle_dropped_key(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessExclusiveLock);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel) &&
		!has_right_key(rel))
	{
		if (OidIsValid(rose_primary_key_index(rel)))
			elog(ERROR, "primary key of rose table \"%s\" is not its physical key",
				 RelationGetRelationName(rel));
		(void) rewrite_with_key(rel, NULL, 0, NULL);
	}
	relation_close(rel, NoLock);
}

/* ---- an index becomes the primary key ---- */

/* Core settles nothing: what the command says is enough to look at the table when it is done. */
static void
note_adopted_keys(const AlterTableStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);
		const Constraint *constraint = (const Constraint *) cmd->def;
		Oid			relid;

		if (cmd->subtype != AT_AddConstraint || constraint == NULL || !IsA(constraint, Constraint) ||
			constraint->contype != CONSTR_PRIMARY || constraint->indexname == NULL)
			continue;
		relid = RangeVarGetRelid(stmt->relation, NoLock, true);
		if (OidIsValid(relid))
			rose_rekey_note(ROSE_REKEY_ADOPTED, relid);
	}
}

/* Has the primary key's index entries, of when it was another one? */
static bool
has_entries_still(Oid indexid)
{
	Relation	index = index_open(indexid, AccessShareLock);
	bool		result = index->rd_index->indisprimary && rose_meta_is_of_index(index);

	index_close(index, AccessShareLock);
	return result;
}

/* The command may have failed, in a subtransaction: then there is nothing to do. */
static void
settle_adopted_key(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	List	   *indexes = NIL;
	ListCell   *cell;
	char		persistence;

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel))
		indexes = RelationGetIndexList(rel);
	persistence = rel->rd_rel->relpersistence;
	relation_close(rel, NoLock);
	foreach(cell, indexes)
	{
		if (has_entries_still(lfirst_oid(cell)))
			rose_reindex_index(lfirst_oid(cell), persistence);
	}
}

/* ---- the end of a command ---- */

bool
rose_rekey_is_pending(Oid relid, Oid indexid, bool primary)
{
	if (primary)
		return rose_rekey_is_noted(ROSE_REKEY_ADOPTED, relid) && has_entries_still(indexid);
	return rose_rekey_is_noted(ROSE_REKEY_REKEYED, relid);
}

/* Build the secondary indexes of a table anew; it may be gone. */
static void
reindex_rekeyed(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessExclusiveLock);
	List	   *indexes;
	ListCell   *cell;
	Oid			primary;
	char		persistence;

	if (rel == NULL)
		return;
	indexes = RelationGetIndexList(rel);
	primary = rose_primary_key_index(rel);
	persistence = rel->rd_rel->relpersistence;
	if (!rose_relation_is_rose(rel))
		indexes = NIL;
	relation_close(rel, NoLock);
	foreach(cell, indexes)
	{
		if (lfirst_oid(cell) == primary)
			continue;
		rose_reindex_index(lfirst_oid(cell), persistence);
		CommandCounterIncrement();
	}
}

/* What the command that is being run has noted, or everything. */
static void
settle_pending(bool all)
{
	Oid			relid;

	if (likely(!rose_rekey_has_notes()))
		return;
	CommandCounterIncrement();
	while (OidIsValid(relid = rose_rekey_next_note(ROSE_REKEY_ADOPTED, all)))
	{
		settle_adopted_key(relid);
		CommandCounterIncrement();
		rose_rekey_remove_note(ROSE_REKEY_ADOPTED, relid);
	}
	while (OidIsValid(relid = rose_rekey_next_note(ROSE_REKEY_DROPPED, all)))
	{
		rose_rekey_remove_note(ROSE_REKEY_DROPPED, relid);
		settle_dropped_key(relid);
	}
	CommandCounterIncrement();
	while (OidIsValid(relid = rose_rekey_next_note(ROSE_REKEY_REKEYED, all)))
	{
		rose_rekey_remove_note(ROSE_REKEY_REKEYED, relid);
		reindex_rekeyed(relid);
	}
}

void
rose_rekey_begin_command(Node *stmt)
{
	if (IsA(stmt, AlterTableStmt))
		note_adopted_keys((AlterTableStmt *) stmt);
}

void
rose_rekey_end_command(void)
{
	settle_pending(false);
}

static void
rekey_on_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			settle_pending(true);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			rose_rekey_forget_notes();
			break;
		default:
			break;
	}
}

void
rose_rekey_define_callbacks(void)
{
	RegisterXactCallback(rekey_on_transaction_event, NULL);
	rose_rekey_notes_define_callbacks();
}
