/*-------------------------------------------------------------------------
 *
 * rose_tableam_ddl.c
 *	  Files: made, emptied, moved and rewritten.
 *
 * A new file gets a metapage with a key.  A file that replaces another one of
 * the same table (TRUNCATE) keeps its key; a file that is made to give the
 * table another key is told so by rose_next_file_set_key; any other has none
 * until the primary key's index is built (rose_rekey.c).
 *
 * CLUSTER and VACUUM FULL copy versions, not rows: sequence numbers and xids
 * stay, so that older snapshots see what they saw.
 *
 * All of this runs under AccessExclusiveLock.  The registry entry of a file goes
 * when the file goes, at the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/relation.h"
#include "access/tupmacs.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/rose_foreign.h"
#include "store/rose_file_name.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_adopt.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_empty.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_resort.h"
#include "lsm/merge/rose_rewrite.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/rose_transaction.h"
#include "indexam/rose_indexam.h"
#include "tableam/rose_tableam.h"

/* ---- new files ---- */

typedef struct NextFileKey
{
	Oid			relid;			/* InvalidOid: nothing is set */
	int			nkeys;
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
} NextFileKey;

static NextFileKey next_file;

void
rose_next_file_set_key(Oid relid, int nkeys, const RoseKeyColumnDisk *keys)
{
	next_file.relid = relid;
	next_file.nkeys = nkeys;
	if (nkeys > 0)
		memcpy(next_file.keys, keys, nkeys * sizeof(RoseKeyColumnDisk));
}

void
rose_next_file_forget_key(void)
{
	next_file.relid = InvalidOid;
}

/* What the metapage of a new file says. */
static void
describe_file(Relation rel, const RelFileLocator *locator, RoseMetaInfo *info)
{
	RoseLayout *layout = rose_layout_make(RelationGetDescr(rel));

	memset(info, 0, sizeof(*info));
	if (OidIsValid(next_file.relid) && next_file.relid == RelationGetRelid(rel))
	{
		info->nkeys = next_file.nkeys;
		memcpy(info->keys, next_file.keys, sizeof(info->keys));
	}
	else if (!RelFileLocatorEquals(rose_rel_locator(rel), *locator))
	{
		rose_meta_read(rel, info);	/* it replaces this one */
		(void) rose_adopt_plan(rel, info);
	}
	rose_key_facts_make(RelationGetDescr(rel), info->nkeys, info->keys, &info->facts);
	info->layout_natts = layout->natts;
	info->layout_physical = layout->physical;
	pfree(layout);
}

void
rose_set_new_file_callback(Relation rel, const RelFileLocator *locator, char persistence,
						   TransactionId *freeze_xid, MultiXactId *minmulti)
{
	SMgrRelation smgr;
	RoseMetaInfo info;

	rose_foreign_refuse_change(RelationGetRelationName(rel));
	describe_file(rel, locator, &info);

	*freeze_xid = RecentXmin;
	*minmulti = GetOldestMultiXactId();

	smgr = RelationCreateStorage(*locator, persistence, true);
	rose_meta_create(smgr, MAIN_FORKNUM, persistence, &info);
	if (persistence == RELPERSISTENCE_UNLOGGED)
	{
		smgrcreate(smgr, INIT_FORKNUM, false);
		log_smgrcreate(locator, INIT_FORKNUM);
		rose_meta_create(smgr, INIT_FORKNUM, persistence, &info);
	}
	smgrclose(smgr);

	rose_transaction_file_created(rose_file_name_of(*locator, persistence));
	if (!RelFileLocatorEquals(rose_rel_locator(rel), *locator))
		rose_transaction_file_dropped(rose_file_name(rel));
}

/*
 * Core would be content with a truncation that cannot be rolled back, because
 * the table was made in this transaction; a new file is simpler and safe.
 *
 * But ON COMMIT DELETE ROWS does it at the end of each transaction, which must not change
 * catalogs for that.  Indexes are emptied next, and built in place.
 */
void
rose_nontransactional_truncate(Relation rel)
{
	if (RelationUsesLocalBuffers(rel))
	{
		rose_foreign_refuse_change(RelationGetRelationName(rel));
		rose_primary_key_attach(rel);
		rose_empty_local(rose_tree_open_any_order(rel));
		return;
	}
	rose_set_new_file(rel, rel->rd_rel->relpersistence);
}

/* ---- moving and rewriting ---- */

bool
rose_rows_are_durable(Relation rel)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);
	const RoseManifest *manifest;
	bool		durable;

	if (!OidIsValid(tree->shared->fed_by))
		return true;
	/* whoever waited for this lock may have kept the table from being published */
	rose_epoch_publish_committed(tree);
	durable = rose_c0_is_empty(&tree->shared->c0);
	manifest = rose_tree_manifest(tree);
	for (int i = 0; i < manifest->ncomponents; i++)
		durable &= manifest->components[i].state != ROSE_COMPONENT_PENDING;
	return durable;
}

/*
 * The rows of a new file are durable with its transaction, those that a subscription
 * writes with their epoch.  Were rows that no epoch covers rewritten, the table
 * would be ahead of its subscription after a crash, and the stream would repeat
 * what it has: inserts twice, if there is no primary key.  The caller's exclusive lock
 * keeps the answer true.
 */
void
rose_check_rewrite(Relation old)
{
	if (!rose_rows_are_durable(old))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot rewrite table \"%s\" while a subscription has changes in it that are not yet durable",
						RelationGetRelationName(old)),
				 errhint(ROSE_SPILL_FIRST)));
}

/*
 * Get everything out of C0, so that the file is the whole table.  What the
 * current transaction wrote goes to private runs.
 */
static RoseTree *
empty_c0(Relation rel, const char *command)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);

	if (OidIsValid(tree->shared->fed_by))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot run %s on table \"%s\" because a subscription feeds it",
						command, RelationGetRelationName(rel)),
				 errhint("End the replication with rose.drop_subscription() first.")));
	/* twice, for one that failed halfway before */
	for (int i = 0; i < 2 && !rose_c0_is_empty(&tree->shared->c0); i++)
		(void) rose_spill_own(tree, InvalidOid, 0);
	if (!rose_c0_is_empty(&tree->shared->c0))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run %s on rose table \"%s\" in a transaction that changed it",
						command, RelationGetRelationName(rel)),
				 errhint("Commit the changes first.")));
	return tree;
}

/*
 * A table that a subscription feeds is as read-only with its new file as with the old one, from the first moment on: its worker
 * may look at it later, or not be there.  Indexes are built after this, and go by the table.
 */
static void
carry_feed(Relation old_rel, Relation new_rel)
{
	RoseTree   *old_table = rose_tree_open_any_order(old_rel);
	Oid			subid = rose_feed_subscription(old_table);
	bool		logged = OidIsValid(old_table->shared->logged_by);

	if (!OidIsValid(subid))
		return;
	/* by epochs C0 is the subscription's, whose rows are durable in another way */
	rose_feed_begin(logged ? rose_tree_open(new_rel) : empty_c0(new_rel, "ALTER TABLE"), subid, logged);
}

/* ALTER TABLE has all rows in a file that takes the place of an old one. */
void
rose_finish_bulk_insert(Relation rel, int options)
{
	Relation	old;

	if (!OidIsValid(rel->rd_rel->relrewrite))
		return;
	old = relation_open(rel->rd_rel->relrewrite, NoLock);
	if (rose_relation_is_rose(old))
		carry_feed(old, rel);
	relation_close(old, NoLock);
}

/* ALTER TABLE ... SET TABLESPACE: the same blocks in another file. */
void
rose_copy_data(Relation rel, const RelFileLocator *locator)
{
	SMgrRelation dst;

	rose_foreign_refuse_change(RelationGetRelationName(rel));
	(void) empty_c0(rel, "ALTER TABLE SET TABLESPACE");
	FlushRelationBuffers(rel);

	dst = RelationCreateStorage(*locator, rel->rd_rel->relpersistence, true);
	RelationCopyStorage(RelationGetSmgr(rel), dst, MAIN_FORKNUM,
						rel->rd_rel->relpersistence);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
	{
		smgrcreate(dst, INIT_FORKNUM, false);
		log_smgrcreate(locator, INIT_FORKNUM);
		RelationCopyStorage(RelationGetSmgr(rel), dst, INIT_FORKNUM,
							rel->rd_rel->relpersistence);
	}
	rose_transaction_file_created(rose_file_name_of(*locator, rel->rd_rel->relpersistence));
	rose_transaction_file_dropped(rose_file_name(rel));
	RelationDropStorage(rel);
	smgrclose(dst);
}

static double
resort_components(RoseTree *old_table, RoseTree *new_table)
{
	RoseResort *resort = rose_resort_begin(old_table, false);
	double		nrows = (double) rose_resort_write(resort, new_table,
												   rose_duplicate_key_report_equal,
												   old_table->rel);

	rose_resort_end(resort);
	return nrows;
}

static int64
total_blocks(const RoseManifest *manifest)
{
	int64		total = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
		total += manifest->components[i].nblocks;
	return total;
}

/*
 * Tables may be marked to be clustered by any index, as heap's are: a dump says so, and
 * CLUSTER of the whole database goes on.  But the order of the rows is the tree's.
 */
static void
tell_order(Relation rel, Relation index)
{
	if (index == NULL || index->rd_index->indisprimary)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("rows of rose table \"%s\" are not put in the order of index \"%s\"",
					RelationGetRelationName(rel), RelationGetRelationName(index)),
			 errdetail("They are stored in the order of the primary key, or without one in that of insertion.")));
}

/*
 * CLUSTER and VACUUM FULL.  Rows are in key order anyway, so what is left to do is to
 * merge all components and to write the result to a file without gaps.  If they are in
 * the order of other versions of collations, they are sorted instead, as REINDEX does.
 *
 * If the transaction has altered the table, the old file, which a rollback brings back,
 * is left as it is: its versions are copied without being merged.
 *
 * The merge forgets what it can of the old file, whose pins know who has met its rows
 * where.  The versions of the new one are settled from now on: they are in no memtable,
 * whoever has a TID of the old file cannot use it here, and our own pin is older.
 */
void
rose_copy_for_cluster(Relation old_rel, Relation new_rel, Relation index, bool use_sort,
					  TransactionId oldest_xmin, TransactionId *xid_cutoff,
					  MultiXactId *multi_cutoff, double *num_tuples,
					  double *tups_vacuumed, double *tups_recently_dead)
{
	bool		alone = !rose_pin_is_held(rose_file_name(old_rel));
	RoseTree   *old_table;
	RoseTree   *new_table;
	RoseMetaInfo info;

	tell_order(old_rel, index);
	old_table = empty_c0(old_rel, "CLUSTER or VACUUM FULL");
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	if (!old_table->shared->other_order && !rose_altered_before_commit(old_table))
		rose_merge_all(old_table, alone);
	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS,
								 total_blocks(rose_tree_manifest(old_table)));
	rose_meta_read(old_rel, &info);
	if (info.nkeys > 0)
	{
		rose_key_facts_make(RelationGetDescr(new_rel), info.nkeys, info.keys, &info.facts);
		rose_meta_set_key(new_rel, info.nkeys, info.keys, &info.facts);
		rose_tree_invalidate(rose_file_name(new_rel));
	}
	new_table = rose_tree_open(new_rel);
	if (old_table->shared->other_order)
		*num_tuples = resort_components(old_table, new_table);
	else
		*num_tuples = (double) rose_rewrite(old_table, new_table);
	rose_settled_all(new_rel, &new_table->shared->store);
	rose_copied_carry(old_table, new_table);
	carry_feed(old_rel, new_rel);
	*tups_vacuumed = 0;
	*tups_recently_dead = 0;
}

/* ---- TOAST ---- */

static bool toast_wanted = false;

bool
rose_toast_wanted(bool on)
{
	bool		old = toast_wanted;

	toast_wanted = on;
	return old;
}

/* Large values go to overflow pages of the table's own components. */
bool
rose_needs_toast_table(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);

	if (!toast_wanted)
		return false;
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (!att->attisdropped && att->attlen == -1 && att->attstorage != TYPSTORAGE_PLAIN)
			return true;
	}
	return false;
}

Oid
rose_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}
