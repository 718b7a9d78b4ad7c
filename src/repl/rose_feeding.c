/*-------------------------------------------------------------------------
 *
 * rose_feeding.c
 *	  Tables become a subscription's, with their indexes, and are let go.
 *
 * Who feeds a tree, and in which way, is in its file (lsm/tree/rose_feed.h).  By epochs, from then on its memtables are
 * its subscription's to spill, and nothing of it is logged: so nothing may be written blindly to a tree that
 * does not know.  Each batch looks, of the table and each index, before it writes: an index
 * may have been made meanwhile, or a file may be a new one.
 *
 * Entries are written blindly, too (lsm/write/rose_blind_entries.h).  That is possible for indexes that
 * are not unique, and for none that is being built beside writers: it would lack what was written
 * by another way.
 *
 * Locking: a lock of the table that excludes other feeders, and AccessShareLock of its indexes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_spill.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

/* REINDEX CONCURRENTLY of the primary key has another index beside it for a while, which has no entries. */
static bool
is_unique_beside_key(Relation index)
{
	return index->rd_index->indisunique && !rose_tree_is_key_index(index);
}

static void
require_not_unique(Relation rel, Relation index)
{
	if (!is_unique_beside_key(index))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate into \"%s.%s\", which has unique index \"%s\" beside that of the primary key",
					get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel),
					RelationGetRelationName(index)),
			 errdetail("Replicated changes are written without a look at what is there."),
			 errhint("Drop it. An index that is not unique is possible.")));
}

/* It will be complete, or dropped. */
static bool
is_incomplete(Relation index)
{
	RoseMetaInfo info;

	if (!rose_relation_has_tree(index))
		return false;
	rose_meta_read(index, &info);
	return (info.index.flags & (ROSE_INDEX_INCOMPLETE | ROSE_INDEX_UNKEPT)) != 0;
}

/* A worker tries again. */
static void
require_complete(Relation rel, Relation index)
{
	if (!is_incomplete(index))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("cannot replicate into \"%s.%s\" while its index \"%s\" is built concurrently",
					get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel),
					RelationGetRelationName(index)),
			 errhint("If nobody builds it any more, drop it.")));
}

void
rose_feeding_require_indexes(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		require_not_unique(rel, index);
		require_complete(rel, index);
		index_close(index, NoLock);
	}
	list_free(indexes);
}

static bool
indexes_fit(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		fit = true;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		fit &= !is_unique_beside_key(index) && !is_incomplete(index);
		index_close(index, NoLock);
	}
	list_free(indexes);
	return fit;
}

/*
 * All that was applied is in a committed epoch, which may be left to be published.  What else is in memory or in pending runs,
 * is of batches that were given up after it, and no epoch would come any more for that.  A worker tries again.
 */
static void
end_epochs(RoseTree *tree)
{
	Oid			subid = tree->shared->fed_by;
	uint64		none = rose_apply.progress.epoch + 1;
	const RoseManifest *manifest;
	bool		published;

	if (!OidIsValid(subid))
		return;
	(void) rose_spill(tree, subid, none);
	rose_epoch_publish(tree, subid, none);
	published = !rose_c0_has_frozen(&tree->shared->c0); /* others' row locks may stay */
	manifest = rose_tree_manifest(tree);
	for (int i = 0; i < manifest->ncomponents; i++)
		published &= manifest->components[i].state != ROSE_COMPONENT_PENDING;
	if (!published)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" has changes of an epoch that is not published yet",
						RelationGetRelationName(tree->rel))));
}

/*
 * By epochs: local rows leave the memtable, whose recovery is ours from now on.  Logged: it is as that of local rows, and what
 * came by epochs before, has landed.
 */
static void
feed_tree(RoseTree *tree, Oid subid)
{
	bool		blame = rose_apply.blame.certain;

	rose_apply.blame.certain = false;
	if (rose_apply.sub->logged)
		end_epochs(tree);
	else
		rose_spill(tree, InvalidOid, 0);
	rose_apply.blame.certain = blame;
	rose_feed_begin(tree, subid, rose_apply.sub->logged);
}

/*
 * All indexes; false: one is in another order, and who writes to it says so.
 */
static bool
feed_indexes(Relation rel, Oid subid)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		fed = true;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (rose_relation_has_tree(index))
		{
			RoseTree   *tree = rose_tree_open_any_order(index);

			if (tree->shared->other_order)
				fed = false;
			else if (!rose_feed_is_recorded(tree, subid, rose_apply.sub->logged))
			{
				require_complete(rel, index);
				feed_tree(tree, subid);
			}
		}
		index_close(index, NoLock);
	}
	list_free(indexes);
	return fed;
}

static bool
is_of_other(Relation rel, Oid fed_by, Oid subid)
{
	return OidIsValid(fed_by) && fed_by != subid &&
		rose_subscription_of_table(RelationGetRelid(rel)) != subid;
}

void
rose_repl_feed(Relation rel, Oid subid)
{
	RoseTree   *table = rose_tree_open_any_order(rel);
	bool		recorded = rose_feed_is_recorded(table, subid, rose_apply.sub->logged);

	if (!recorded && is_of_other(rel, rose_feed_subscription(table), subid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" is fed by another subscription", RelationGetRelationName(rel))));

	/* Who writes to it says what is wrong with it; see there whose fault that is. */
	if (!recorded && table->shared->other_order)
		return;
	if (!recorded)
		rose_feeding_require_indexes(rel);

	/* indexes first: a crash must not leave a table that is fed, and an index that is not */
	if (feed_indexes(rel, subid) && !recorded)
		feed_tree(table, subid);
}

void
rose_feeding_try(Relation rel, Oid subid)
{
	RoseTree   *table = rose_tree_open_any_order(rel);

	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT || !indexes_fit(rel) ||
		!rose_owner_may_have(rose_apply.sub, RelationGetRelid(rel)) ||
		is_of_other(rel, rose_feed_subscription(table), subid))
		return;
	rose_repl_feed(rel, subid);
}

typedef void (*TreeCallback) (RoseTree *tree, Oid subid);

/* The table and its indexes, if it is (still) a rose table.  Locked until the transaction ends. */
static void
for_trees(Oid relid, TreeCallback callback, Oid subid)
{
	Relation	rel = try_relation_open(relid, ShareUpdateExclusiveLock);
	List	   *indexes;
	ListCell   *lc;

	if (rel == NULL)
		return;
	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		rel->rd_rel->relam != get_table_am_oid("rose", true))
	{
		relation_close(rel, NoLock);
		return;
	}
	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (rose_relation_has_tree(index))
			callback(rose_tree_open_any_order(index), subid);
		index_close(index, NoLock);
	}
	list_free(indexes);
	callback(rose_tree_open_any_order(rel), subid);
	relation_close(rel, NoLock);
}

static void
settle(RoseTree *tree, Oid subid)
{
	rose_epoch_publish_committed(tree);
}

void
rose_repl_settle(Oid relid)
{
	for_trees(relid, settle, InvalidOid);
}

static void
unfeed(RoseTree *tree, Oid subid)
{
	rose_epoch_publish_committed(tree);
	rose_feed_end(tree, subid);
}

void
rose_repl_unfeed(Oid relid, Oid subid)
{
	for_trees(relid, unfeed, subid);
}
