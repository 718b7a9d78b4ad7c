/*-------------------------------------------------------------------------
 *
 * rose_sql_maintenance.c
 *	  rose.spill(), rose.merge() and rose.detach().
 *
 * For the owner of the table, and rose.spill() for that of its subscription, too.  Spills and merges take secondary indexes, which are trees
 * of their own, along, and can be had of one of those alone.  They run in the calling session: what the
 * workers do in the background is done when the function returns.
 *
 * Locks are those of spills and merges (lsm/merge).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"

#include "store/rose_file_name.h"
#include "store/rose_pin.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_spill.h"
#include "repl/rose_repl.h"
#include "sqlfunc/rose_sql_table.h"

PG_FUNCTION_INFO_V1(rose_sql_spill);
PG_FUNCTION_INFO_V1(rose_sql_merge);
PG_FUNCTION_INFO_V1(rose_sql_detach);

/* How long a subscription may take to make its changes durable, in seconds. */
#define FEED_SPILL_TIMEOUT 600
/* How long, if its changes may as well stay where they are. */
#define FEED_MERGE_TIMEOUT 60

/*
 * Everything in C0 gets out of it.  A table that a subscription feeds is spilled by
 * that, because its data and its upstream position belong together.
 */
static void
spill_table(RoseTree *tree)
{
	Oid			subid = tree->shared->fed_by;

	if (OidIsValid(subid))
	{
		rose_repl_spill(subid, FEED_SPILL_TIMEOUT);
		/* if somebody had it locked, or no worker runs */
		rose_epoch_publish_committed(tree);
	}
	else
		(void) rose_spill(tree, InvalidOid, 0);
}

/* The same for all secondary indexes of the table. */
static void
for_indexes(Relation rel, void (*work) (Relation index))
{
	ListCell   *cell;

	if (rose_relation_is_index(rel))
		return;
	foreach(cell, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (rose_relation_has_tree(index))
			work(index);
		index_close(index, AccessShareLock);
	}
}

static void
spill_relation(Relation rel)
{
	rose_registry_end_pauses(rose_file_name(rel));
	spill_table(rose_tree_open(rel));
}

Datum
rose_sql_spill(PG_FUNCTION_ARGS)
{
	Relation	rel = rose_sql_open_own_or_fed(PG_GETARG_OID(0), AccessShareLock);

	spill_relation(rel);
	for_indexes(rel, spill_relation);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * The subscription's spill may be impossible just because merges are behind and the
 * table has too many components.  So what is on disk is merged without it.
 */
static void
spill_fed_table_if_possible(RoseTree *tree)
{
	char	   *failure = rose_repl_try_spill(tree->shared->fed_by, FEED_MERGE_TIMEOUT);

	if (failure != NULL)
		ereport(WARNING,
				(errmsg("merging only what is on disk of table \"%s\"",
						RelationGetRelationName(tree->rel)),
				 errdetail("%s", failure)));
}

static void
merge_relation(Relation rel)
{
	bool		alone = !rose_pin_is_held(rose_file_name(rel));
	RoseTree   *tree = rose_tree_open(rel);

	rose_pause_end(tree->shared->pauses);
	if (OidIsValid(tree->shared->fed_by))
		spill_fed_table_if_possible(tree);
	rose_merge_all(tree, alone);
}

Datum
rose_sql_merge(PG_FUNCTION_ARGS)
{
	Relation	rel = rose_sql_open_own(PG_GETARG_OID(0), AccessShareLock);

	merge_relation(rel);
	for_indexes(rel, merge_relation);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/* One that was a partition of a subscription's table may have rows that no epoch covers yet. */
static void
spill_detached(RoseTree *tree)
{
	Oid			subid = rose_feed_subscription(tree);

	if (OidIsValid(subid) && rose_subscription_get(subid) != NULL)
		spill_table(tree);
}

/*
 * A copy of a database, or of its tables' files, has tables that a subscription
 * feeds but not the subscription itself.  This makes them ordinary tables.
 */
Datum
rose_sql_detach(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel = rose_sql_open_own(relid, ShareUpdateExclusiveLock);
	Oid			subid = rose_subscription_of_table(relid);

	rose_sql_refuse_index(rel);
	if (OidIsValid(subid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" belongs to rose subscription \"%s\"",
						RelationGetRelationName(rel), rose_subscription_name(subid)),
				 errhint("Drop the subscription, or take the table out of its publications and call rose.alter_subscription with refresh => true.")));
	spill_detached(rose_tree_open_any_order(rel));
	rose_repl_unfeed(relid, InvalidOid);
	relation_close(rel, NoLock);
	PG_RETURN_VOID();
}
