/*-------------------------------------------------------------------------
 *
 * rose_target_tables.c
 *	  Which local tables a subscription can write to, and what may be done with them then.
 *
 * A target is a rose table, or a partitioned table whose partitions are: those have the rows
 * (rose_route.c says which).  What is asked of a table is asked of each partition, too.  They
 * come and go, so that is asked again when one gets rows.
 *
 * A table of a subscription is known by its row in rose.subscription_rel; a partition has
 * none, its subscription is that of the table that it is a partition of.
 *
 * Locking: tables are open, or looked up in the caches.  A list of partitions is of the moment, unless
 * the partitioned table is locked against what adds and removes some.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "repl/rose_mapping.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_subrows.h"

/* ---------------------------------------------------------------------
 * Which they are
 */

List *
rose_target_tables_of(Oid relid)
{
	List	   *result = list_make1_oid(relid);
	ListCell   *lc;

	/* it grows on the way */
	foreach(lc, result)
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_PARTITIONED_TABLE)
			result = list_concat(result, find_inheritance_children(lfirst_oid(lc), NoLock));
	}
	return result;
}

bool
rose_target_tables_has_rows(Relation rel)
{
	return rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE;
}

/* ---------------------------------------------------------------------
 * Which fit
 */

void
rose_target_tables_require(Relation rel)
{
	const char *nspname = get_namespace_name(RelationGetNamespace(rel));

	if (rose_target_tables_has_rows(rel) &&
		(rel->rd_rel->relkind != RELKIND_RELATION ||
		 rel->rd_rel->relam != get_table_am_oid("rose", true)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate into \"%s.%s\", which is not a rose table",
						nspname, RelationGetRelationName(rel)),
				 errhint("Use ALTER TABLE ... SET ACCESS METHOD rose, or subscribe to it with CREATE SUBSCRIPTION.")));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate into \"%s.%s\", which is not a permanent table",
						nspname, RelationGetRelationName(rel)),
				 errdetail("It would be empty after a crash, and the upstream does not send its rows again."),
				 errhint("Use ALTER TABLE ... SET LOGGED.")));
	if (rose_target_tables_has_rows(rel))
		rose_feeding_require_indexes(rel);
}

/* One that somebody has locked is passed over. */
static void
require_partition(const RoseSubscription *sub, Oid relid)
{
	Relation	rel;

	rose_owner_require_relid(sub, relid);
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return;
	}
	rose_target_tables_require(rel);
	rose_owner_require_table(sub, rel, ACL_NO_RIGHTS);
	table_close(rel, AccessShareLock);
}

static void
require_all(const RoseSubscription *sub, Relation rel)
{
	ListCell   *lc;

	rose_target_tables_require(rel);
	rose_owner_require_table(sub, rel, ACL_NO_RIGHTS);
	if (rose_target_tables_has_rows(rel))
		return;
	for_each_from(lc, rose_target_tables_of(RelationGetRelid(rel)), 1)
		require_partition(sub, lfirst_oid(lc));
}

/* Before it is locked. */
static void
require_owner(const RangeVar *rv, Oid relid, Oid old_relid, void *sub)
{
	if (OidIsValid(relid) && relid != old_relid)
		rose_owner_require_relid(sub, relid);
}

Oid
rose_repl_target_table(const RoseSubscription *sub, const RoseUpstreamTable *remote)
{
	RoseUpstreamTable local = rose_mapping_target(sub->tables, remote);
	RangeVar   *rv = makeRangeVar(local.nspname, local.relname, -1);
	Oid			relid = RangeVarGetRelidExtended(rv, AccessShareLock, RVR_MISSING_OK, require_owner, (void *) sub);
	Relation	rel;

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" does not exist", rv->schemaname, rv->relname),
				 sub->tables == NULL ? 0 :
				 errdetail("It is to have the rows of the upstream's table \"%s.%s\".",
						   remote->nspname, remote->relname),
				 errhint("Create it with the upstream's columns and primary key, and USING rose.")));

	rel = table_open(relid, NoLock);
	require_all(sub, rel);
	table_close(rel, NoLock);
	return relid;
}

/* ---------------------------------------------------------------------
 * What may be done with them
 */

void
rose_repl_check_truncate(Oid relid)
{
	Oid			subid = rose_subscription_of_table(relid);

	if (OidIsValid(subid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot truncate table \"%s\" because a subscription feeds it",
						get_rel_name(relid)),
				 errhint("Truncate it on the upstream, or have it copied again with rose.alter_subscription(..., resync => ...).")));
}

void
rose_repl_check_alter(Oid relid, bool unlogged)
{
	Oid			subid = rose_subscription_of_table(relid);

	if (!OidIsValid(subid))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 unlogged ?
			 errmsg("cannot make table \"%s\" unlogged because a subscription feeds it",
					get_rel_name(relid)) :
			 errmsg("cannot change the access method of table \"%s\" because a subscription feeds it",
					get_rel_name(relid)),
			 errdetail("It is part of rose subscription \"%s\".", rose_subscription_name(subid)),
			 errhint("Take it out of the subscription's publications and call rose.alter_subscription with refresh => true, or drop the subscription.")));
}

void
rose_repl_check_refresh(Oid relid)
{
	if (rose_subrows_is_table(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot refresh a materialized view of rose"),
				 errdetail("It holds subscriptions or their state, which a refresh would delete."),
				 errhint("To delete a subscription, call rose.drop_subscription.")));
}
