/*-------------------------------------------------------------------------
 *
 * rose_sql_subscription_tables.c
 *	  The tables of a subscription: which they are, and having them copied again.
 *
 * A table of the upstream is known by its oid.  Its name finds a local table once, when
 * it joins the subscription; where the oids of before mean nothing (another upstream is
 * accepted), the names that it had find it again.
 *
 * Callers hold the subscription's row (rose_subscription_lock) and, but for new
 * subscriptions, have drained its worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "repl/rose_constants.h"
#include "repl/rose_mapping.h"
#include "repl/rose_old_rows.h"
#include "repl/rose_owner.h"
#include "sqlfunc/rose_sql_subscription.h"

/* Its partitions have its rows, and so must have no other's. */
static void
require_free_partition(Oid relid, Oid table)
{
	Oid			other;

	rose_subscription_lock_table(relid);
	other = rose_subscription_of_table(relid);
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("partition \"%s\" of table \"%s\" belongs to rose subscription \"%s\"",
						get_rel_name(relid), get_rel_name(table), rose_subscription_name(other))));
}

static void
require_free(const RoseSubscription *sub, Oid relid, const RoseUpstreamTable *remote)
{
	Oid			other;
	ListCell   *lc;

	rose_subscription_lock_table(relid);
	other = rose_subscription_of_table(relid);
	if (other == sub->subid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" has the rows of another table of the upstream than \"%s.%s\"",
						get_rel_name(relid), remote->nspname, remote->relname),
				 get_rel_relispartition(relid) ?
				 errdetail("It, or a table that it is a partition of, belongs to the subscription.") :
				 sub->tables != NULL ?
				 errdetail("By the names that the subscription's option \"tables\" gives, or gave, two tables of the upstream go to one here.") :
				 errdetail("The other table had this name before, and was renamed."),
				 sub->tables != NULL ?
				 errhint("Give each a table of its own with rose.alter_subscription(..., tables => ...).") :
				 errhint("Rename the table here as well, and create one for the other.")));
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" belongs to another rose subscription, \"%s\"",
						get_rel_name(relid), rose_subscription_name(other))));
	for_each_from(lc, rose_target_tables_of(relid), 1)
		require_free_partition(lfirst_oid(lc), relid);
}

static void
add_table(const RoseSubscription *sub, const RoseUpstreamTable *remote, bool copy_data)
{
	Oid			relid = rose_repl_target_table(sub, remote);

	require_free(sub, relid, remote);
	rose_subscription_add_table(sub->subid, relid, remote,
								copy_data ? ROSE_REL_INIT : ROSE_REL_READY);
}

void
rose_sql_add_tables(struct WalReceiverConn *conn, const RoseSubscription *sub, bool copy_data)
{
	ListCell   *lc;
	List	   *tables = rose_upstream_tables(conn, sub->publications);

	foreach(lc, tables)
		add_table(sub, lfirst(lc), copy_data);
	if (tables == NIL)
		ereport(WARNING,
				(errmsg("the publications have no tables yet"),
				 errhint("When they do, call rose.alter_subscription with refresh => true.")));
}

RoseSubscriptionTable *
rose_sql_require_table(const RoseSubscription *sub, List *tables, Oid relid)
{
	RoseSubscriptionTable *tree = rose_subscription_find_table(tables, relid);

	if (tree == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" is not part of rose subscription \"%s\"",
						get_rel_name(relid), sub->name)));
	return tree;
}

static bool
list_has_remote(List *published, Oid relid)
{
	ListCell   *lc;

	foreach(lc, published)
	{
		if (((RoseUpstreamTable *) lfirst(lc))->relid == relid)
			return true;
	}
	return false;
}

/*
 * The subscription's table for one of the upstream's, or NULL.  One that was made anew
 * under the name of one that is not published any more has it, too: its first change will
 * say that it is another one.
 */
static RoseSubscriptionTable *
find_table_of(List *tables, const RoseUpstreamTable *remote, List *published)
{
	RoseSubscriptionTable *namesake = NULL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		RoseSubscriptionTable *tree = lfirst(lc);

		if (get_rel_name(tree->relid) == NULL)
			continue;			/* dropped here */
		if (tree->remote.relid == remote->relid)
			return tree;
		if (strcmp(tree->remote.nspname, remote->nspname) == 0 &&
			strcmp(tree->remote.relname, remote->relname) == 0 &&
			!list_has_remote(published, tree->remote.relid))
			namesake = tree;
	}
	return namesake;
}

static void
unfeed_at_commit(const RoseSubscription *sub, List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		rose_repl_unfeed_at_commit(lfirst_oid(lc), sub->subid);
}

/*
 * Does the mapping name another table than before for one of the subscription's, and than it has?  If it says the same as
 * before, the table stays where it is, whatever that is called by now.
 */
static bool
is_mapped_elsewhere(const RoseSubscription *sub, const char *mapped_before, const RoseSubscriptionTable *tree,
					const RoseUpstreamTable *remote)
{
	RoseUpstreamTable before = rose_mapping_target(mapped_before, remote);
	RoseUpstreamTable now = rose_mapping_target(sub->tables, remote);

	if (strcmp(before.nspname, now.nspname) == 0 && strcmp(before.relname, now.relname) == 0)
		return false;
	return rose_repl_target_table(sub, remote) != tree->relid;
}

void
rose_sql_refresh_tables(struct WalReceiverConn *conn, const RoseSubscription *sub, const char *mapped_before,
						bool copy_data)
{
	List	   *have = rose_subscription_tables(sub->subid);
	List	   *keep = NIL;
	List	   *add = NIL;
	List	   *published = rose_upstream_tables(conn, sub->publications);
	ListCell   *lc;

	foreach(lc, published)
	{
		RoseSubscriptionTable *tree = find_table_of(have, lfirst(lc), published);

		if (tree != NULL && !is_mapped_elsewhere(sub, mapped_before, tree, lfirst(lc)))
			keep = lappend_oid(keep, tree->relid);
		else
			add = lappend(add, lfirst(lc));
	}
	foreach(lc, have)
	{
		Oid			relid = ((RoseSubscriptionTable *) lfirst(lc))->relid;

		if (list_member_oid(keep, relid))
			continue;
		rose_subscription_remove_table(sub->subid, relid);
		unfeed_at_commit(sub, rose_target_tables_of(relid));
	}
	foreach(lc, add)
		add_table(sub, lfirst(lc), copy_data);
	rose_subscription_forget_new(sub->subid);
}

void
rose_sql_await_tables(List *relids, LOCKMODE mode)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		ListCell   *lt;

		foreach(lt, rose_target_tables_of(lfirst_oid(lc)))
		{
			LockRelationOid(lfirst_oid(lt), mode);
			UnlockRelationOid(lfirst_oid(lt), mode);
		}
	}
}

/*
 * Those who have begun to write to it end before this does, and from the commit on nobody begins; others may read.
 * Its rows are seen to be the subscription's: for all of them will go when the copy is there.  If the subscription is a
 * superuser's, what the table's owner may do does not matter.
 */
static void
require_replaceable(const RoseSubscription *sub, Oid relid)
{
	List	   *rels = NIL;
	ListCell   *lc;

	rose_owner_require_relid(sub, relid);
	LockRelationOid(relid, ShareRowExclusiveLock);
	foreach(lc, rose_target_tables_of(relid))
	{
		Relation	rel;

		rose_owner_require_relid(sub, lfirst_oid(lc));
		rel = table_open(lfirst_oid(lc), ShareRowExclusiveLock);
		rose_owner_require_table(sub, rel, ACL_TRUNCATE);
		rels = lappend(rels, rel);
	}
	rose_constants_require_own(rels, sub->constants, NULL, NULL);
	foreach(lc, rels)
		table_close(lfirst(lc), NoLock);
}

/* What it has been given, whether that is one position or not. */
static XLogRecPtr
position_of_changes(const RoseSubscription *sub, const RoseSubscriptionTable *tree)
{
	if (rose_subscription_table_waits(tree))
		return InvalidXLogRecPtr;
	if (strcmp(tree->state, ROSE_REL_PAUSED) == 0 || strcmp(tree->state, ROSE_REL_ERROR) == 0)
		return tree->error_lsn;
	if (strcmp(tree->state, ROSE_REL_COPIED) == 0)
		return tree->sync_lsn;
	return Max(sub->durable_lsn, tree->sync_lsn);
}

/* Of which position are the rows that it has, if the stream ends here?  Invalid: of none, or it is not known. */
static XLogRecPtr
position_of_rows(const RoseSubscription *sub, const RoseSubscriptionTable *tree)
{
	XLogRecPtr	lsn;

	if (rose_old_rows_are_there(sub->subid, tree->relid, &lsn))
		return lsn;				/* they are older ones still */
	lsn = position_of_changes(sub, tree);
	return lsn < tree->exact_lsn ? InvalidXLogRecPtr : lsn;
}

/* Its rows stay until it has been copied.  sub as it is now, with its worker drained. */
static void
copy_again(const RoseSubscription *sub, const RoseSubscriptionTable *tree, const RoseUpstreamTable *remote)
{
	XLogRecPtr	lsn = position_of_rows(sub, tree);

	rose_subscription_remove_table(sub->subid, tree->relid);
	rose_subscription_add_table(sub->subid, tree->relid, remote, ROSE_REL_INIT);
	rose_old_rows_note(sub->subid, tree->relid, lsn);
}

void
rose_sql_resync_table(const RoseSubscription *sub, Oid relid)
{
	RoseSubscriptionTable *tree = rose_sql_require_table(sub, rose_subscription_tables(sub->subid), relid);

	require_replaceable(sub, relid);
	copy_again(sub, tree, &tree->remote);
	if (tree->columns != NULL)
		rose_subscription_set_columns(sub->subid, relid, tree->columns);
}

/*
 * The upstream's tables now: on another system, the oids of before mean nothing, the names do.  What it has not, is the
 * subscription's no more.
 */
static void
adopt_tables(struct WalReceiverConn *conn, const RoseSubscription *sub, List *have)
{
	ListCell   *lc;

	foreach(lc, have)
		((RoseSubscriptionTable *) lfirst(lc))->remote.relid = InvalidOid;
	foreach(lc, rose_upstream_tables(conn, sub->publications))
	{
		RoseUpstreamTable *remote = lfirst(lc);
		RoseSubscriptionTable *tree = find_table_of(have, remote, NIL);

		if (tree == NULL)
		{
			add_table(sub, remote, true);
			continue;
		}
		copy_again(sub, tree, remote);
		have = list_delete_ptr(have, tree);
	}
	foreach(lc, have)
	{
		Oid			relid = ((RoseSubscriptionTable *) lfirst(lc))->relid;

		rose_subscription_remove_table(sub->subid, relid);
		unfeed_at_commit(sub, rose_target_tables_of(relid));
	}
	rose_subscription_forget_new(sub->subid);
}

void
rose_sql_accept_tables(struct WalReceiverConn *conn, const RoseSubscription *sub)
{
	List	   *have = rose_subscription_tables(sub->subid);
	ListCell   *lc;

	foreach(lc, have)
	{
		Oid			relid = ((RoseSubscriptionTable *) lfirst(lc))->relid;

		if (get_rel_name(relid) != NULL)
			require_replaceable(sub, relid);
	}
	rose_rewind_origin(sub);
	rose_subscription_forget_upstream(sub->subid);
	adopt_tables(conn, sub, have);
}
