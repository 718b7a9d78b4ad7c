/*-------------------------------------------------------------------------
 *
 * rose_local_writes.c
 *	  Which tables of a subscription may be written to locally, and excluding those who do.
 *
 * With durability "local" a table that has its copy may be written to as any other; the worker waits for rows that
 * others hold (lsm/write/rose_blind_beside.c).  One that waits for its copy may not: the copy refuses a table with
 * rows, and loads its own into one component, which must find nobody's versions beside it.  The catalog says which is
 * which, and is asked with a lock that lasts until the writer's transaction ends.
 *
 * So what makes a table one that may not be written to has to wait for writers first, and commit before it lets go of
 * that: a resync has the table locked against them (ShareRowExclusiveLock), and its new rows come when nobody uses it.  For a change of durability
 * there is one lock of the subscription that writers to any of its tables share, until their transactions end: tables
 * that are locked one by one would be a deadlock with who writes to two of them.  Before its copy a table may have been nobody's, with writers
 * in progress: those the copy waits for when the table is the subscription's already.
 *
 * Locking: as said.
 *
 * What this does not do: the waiting of batches (rose_repl_locks.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_feed.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_subrows.h"

/* The row of the table, or of what it is a partition of. */
static const RoseSubscriptionTable *
find_row(Oid subid, Oid relid)
{
	List	   *tables = rose_subscription_tables(subid);
	const RoseSubscriptionTable *row = rose_subscription_find_table(tables, relid);
	ListCell   *lc;

	if (row != NULL || !get_rel_relispartition(relid))
		return row;
	foreach(lc, get_partition_ancestors(relid))
	{
		row = rose_subscription_find_table(tables, lfirst_oid(lc));
		if (row != NULL)
			break;
	}
	return row;
}

/* A paused one without a position was never copied. */
static bool
has_copy(const RoseSubscriptionTable *row)
{
	return rose_subscription_table_is_live(row) || strcmp(row->state, ROSE_REL_COPIED) == 0 ||
		(strcmp(row->state, ROSE_REL_PAUSED) == 0 && !XLogRecPtrIsInvalid(row->error_lsn));
}

static void
require_writable(Relation rel, Oid subid)
{
	const RoseSubscription *sub;
	const RoseSubscriptionTable *row;

	rose_subrows_lock_writes("subscription", subid, RowExclusiveLock);
	sub = rose_subscription_get(subid);
	row = sub != NULL ? find_row(subid, RelationGetRelid(rel)) : NULL;
	if (row == NULL || !sub->logged)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write to table \"%s\" because a subscription feeds it",
						RelationGetRelationName(rel)),
				 errhint("Write on the upstream, or end the replication with rose.drop_subscription(). If the subscription belongs to the database that this one was copied from, call rose.detach().")));
	if (!has_copy(row))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write to table \"%s\" before subscription \"%s\" has copied it",
						RelationGetRelationName(rel), sub->name),
				 errdetail("It is in state \"%s\".", row->state),
				 errhint("Wait for the copy with rose.wait_for_sync().")));
}

void
rose_local_writes_register(void)
{
	rose_feed_require_writable_hook = require_writable;
}

void
rose_local_writes_lock_out(Oid subid)
{
	rose_subrows_lock_writes("subscription", subid, ExclusiveLock);
}

void
rose_local_writes_await(Oid relid)
{
	rose_copy_places_lock(relid, ShareLock);
	UnlockRelationOid(relid, ShareLock);
}
