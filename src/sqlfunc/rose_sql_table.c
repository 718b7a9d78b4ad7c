/*-------------------------------------------------------------------------
 *
 * rose_sql_table.c
 *	  Opening the rose table, or the index of one, that a function was given.
 *
 * Who does not own the table, or may not read it where that is enough, gets an error, and
 * so does a table that is none of rose's.  The lock is the caller's to let go of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "compat/rose_compat_am.h"
#include "util/rose_preload.h"
#include "util/rose_stop_point.h"
#include "lsm/tree/rose_relation.h"
#include "repl/rose_owner.h"
#include "sqlfunc/rose_sql_table.h"

static void
require(bool good, Relation rel)
{
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a rose table", RelationGetRelationName(rel)),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("Name its partitions, one by one.") : 0));
}

static Relation
open_table(Oid relid, LOCKMODE lockmode, bool may)
{
	Relation	rel;

	if (!may)
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	rel = relation_open(relid, lockmode);
	require(rose_relation_has_tree(rel), rel);
	return rel;
}

Relation
rose_sql_open_own(Oid relid, LOCKMODE lockmode)
{
	rose_require_preload();
	return open_table(relid, lockmode, rose_user_owns_relation(relid, GetUserId()));
}

/* Whoever owns its subscription can have all of it made durable anyway. */
static bool
owns_subscription_of(Oid relid)
{
	Oid			subid = rose_subscription_of_table(relid);
	const RoseSubscription *sub;

	if (!OidIsValid(subid))
		return false;
	ROSE_STOP_POINT("fed-by");
	sub = rose_subscription_get(subid);
	return sub != NULL && rose_owner_is(sub->owner);	/* nothing keeps it from being dropped */
}

Relation
rose_sql_open_own_or_fed(Oid relid, LOCKMODE lockmode)
{
	rose_require_preload();
	return open_table(relid, lockmode, rose_user_owns_relation(relid, GetUserId()) || owns_subscription_of(relid));
}

void
rose_sql_refuse_index(Relation rel)
{
	require(!rose_relation_is_index(rel), rel);
}

Relation
rose_sql_open_readable(Oid relid)
{
	Relation	rel;

	rose_require_preload();
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return NULL;
	/* privileges are those of the table */
	if (pg_class_aclcheck(rose_relation_is_index(rel) ? rel->rd_index->indrelid : relid,
						  GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, RelationGetRelationName(rel));
	if (rose_relation_is_secondary_index(rel) && !rose_relation_has_tree(rel))
	{
		relation_close(rel, AccessShareLock);
		return NULL;
	}
	require(rose_relation_has_tree(rel), rel);
	return rel;
}
