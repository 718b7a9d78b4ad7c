/*-------------------------------------------------------------------------
 *
 * rose_owner.c
 *	  Who may have subscriptions, and what those of others than superusers may do.
 *
 * The right to subscribe is USAGE on the foreign-data wrapper rose_subscription.  PostgreSQL 16 has a
 * predefined role for that.  An extension cannot make one that is as good: roles are of the
 * whole server, and extensions of a database.  Another database may have the extension, too, so DROP
 * EXTENSION could not drop the role, and CREATE EXTENSION would find one, of
 * whichever members; whoever may create roles could make it first, with himself in it; and pg_dump would
 * restore a database into a server without it.  The wrapper's privileges are the extension's: they are granted in
 * each database, are dumped with it, go with it, and keep a role that has them from being dropped.  Whoever
 * wants a role makes it, and grants it that.
 *
 * A subscription writes what its owner may write, as in PostgreSQL 16 with run_as_owner = false: into tables whose
 * owner he may become with SET ROLE, and only what that one may do there.  A table to whose
 * owner row security applies is refused, for who writes blindly cannot ask policies.  All that is asked whenever a table is opened
 * to be written to, so it does not matter what was granted when the subscription was made.  Superusers write to any
 * table, whatever privileges its owner has.
 *
 * What runs as the table's owner is rose_rights.c's to say.
 *
 * No locks: privileges are asked of the catalog, as of now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_owner.h"

/* ---------------------------------------------------------------------
 * The right to subscribe
 */

Oid
rose_owner_wrapper(void)
{
	Oid			wrapper = get_foreign_data_wrapper_oid(ROSE_OWNER_WRAPPER, true);
	Oid			extension;

	if (!OidIsValid(wrapper))
		return InvalidOid;
	extension = getExtensionOfObject(ForeignDataWrapperRelationId, wrapper);
	return OidIsValid(extension) && extension == get_extension_oid("rose", true) ? wrapper :
		InvalidOid;
}

bool
rose_owner_may_subscribe(Oid role)
{
	Oid			wrapper;

	if (superuser_arg(role))
		return true;
	wrapper = rose_owner_wrapper();
	return OidIsValid(wrapper) && SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) &&
		rose_may_use_wrapper(wrapper, role);
}

char *
rose_owner_problem(Oid owner, char **hint)
{
	char	   *name;

	if (rose_owner_may_subscribe(owner))
		return NULL;
	name = GetUserNameFromId(owner, true);
	if (name == NULL)
	{
		*hint = "Drop the subscription and create it again.";
		return psprintf("role %u, does not exist", owner);
	}
	*hint = psprintf("GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO %s, or make him a superuser with ALTER ROLE ... SUPERUSER.",
					 quote_identifier(name));
	return psprintf("\"%s\" is not a superuser, and may not use foreign-data wrapper \"rose_subscription\"", name);
}

void
rose_owner_require_subscriber(void)
{
	if (!rose_owner_may_subscribe(GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create rose subscriptions"),
				 errdetail("Only superusers, and roles with USAGE on the foreign-data wrapper \"rose_subscription\", may create them.")));
}

bool
rose_owner_is(Oid owner)
{
	return has_privs_of_role(GetUserId(), owner);
}

bool
rose_owner_may_see_error(const RoseReplSnapshot *snapshot)
{
	return snapshot->last_error[0] != '\0' &&
		(has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		 (OidIsValid(snapshot->last_error_owner) && rose_owner_is(snapshot->last_error_owner)));
}

void
rose_owner_require_to_drop(const RoseSubscription *sub)
{
	if (!rose_owner_is(sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of rose subscription \"%s\"", sub->name)));
}

void
rose_owner_require(const RoseSubscription *sub)
{
	char	   *hint;
	char	   *problem;

	rose_owner_require_to_drop(sub);
	if (superuser() || (problem = rose_owner_problem(sub->owner, &hint)) == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to change rose subscription \"%s\": its owner %s", sub->name, problem),
			 errhint("%s", hint)));
}

/* ---------------------------------------------------------------------
 * Tables
 */

static bool
may_become(const RoseSubscription *sub, Oid role)
{
	return !sub->limited || rose_can_set_role(sub->owner, role);
}

/* As the catalog has it; InvalidOid: there is no such table. */
static Oid
owner_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			result = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relowner : InvalidOid;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

bool
rose_owner_may_have(const RoseSubscription *sub, Oid relid)
{
	Oid			owner;

	if (!sub->limited)
		return true;
	owner = owner_of(relid);
	return !OidIsValid(owner) || may_become(sub, owner);
}

void
rose_owner_require_relid(const RoseSubscription *sub, Oid relid)
{
	if (rose_owner_may_have(sub, relid))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to replicate into table \"%s\"", get_rel_name(relid)),
			 errdetail("Role \"%s\", the owner of rose subscription \"%s\", cannot SET ROLE to \"%s\", the owner of the table.",
					   GetUserNameFromId(sub->owner, false), sub->name, GetUserNameFromId(owner_of(relid), false))));
}

void
rose_owner_require_relids(const RoseSubscription *sub, const List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		rose_owner_require_relid(sub, lfirst_oid(lc));
}

void
rose_owner_refuse(Relation rel, AclMode mode)
{
	const char *what = mode & ACL_INSERT ? "INSERT" : mode & ACL_UPDATE ? "UPDATE" :
		mode & ACL_DELETE ? "DELETE" : "TRUNCATE";

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to replicate into table \"%s\"", RelationGetRelationName(rel)),
			 errdetail("The owner of the table lacks the privilege %s on it.", what)));
}

static bool
owner_lacks(Relation rel, AclMode mode)
{
	return pg_class_aclcheck(RelationGetRelid(rel), rel->rd_rel->relowner, mode) != ACLCHECK_OK;
}

void
rose_owner_require_table(const RoseSubscription *sub, Relation rel, AclMode mode)
{
	if (likely(!sub->limited))
		return;
	rose_owner_require_relid(sub, RelationGetRelid(rel));
	if (check_enable_rls(RelationGetRelid(rel), rel->rd_rel->relowner, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate into table \"%s\", whose row security applies to its owner",
						RelationGetRelationName(rel)),
				 errhint("Use ALTER TABLE ... NO FORCE ROW LEVEL SECURITY, or give the subscription to a superuser.")));
	if (mode != ACL_NO_RIGHTS && owner_lacks(rel, mode))
		rose_owner_refuse(rel, mode);
}

AclMode
rose_owner_lacking(const RoseSubscription *sub, Relation rel)
{
	static const AclMode modes[] = {ACL_INSERT, ACL_UPDATE, ACL_DELETE};
	AclMode		result = ACL_NO_RIGHTS;

	for (int i = 0; sub->limited && i < lengthof(modes); i++)
	{
		if (owner_lacks(rel, modes[i]))
			result |= modes[i];
	}
	return result;
}
