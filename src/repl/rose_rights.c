/*-------------------------------------------------------------------------
 *
 * rose_rights.c
 *	  Running a user's code with the rights of the table's owner.
 *
 * A worker is a superuser.  What a table's owner has attached to it must not be: the
 * checks of a domain, CHECK constraints, generated columns, partition bounds, triggers.
 * It runs as the owner, in a security-restricted operation, and the settings that it
 * changes end with it.
 *
 * If it raises an error, the end of the transaction brings the rights of before back.
 *
 * No locks.  What is run there is for callers to choose; nothing of the upstream's is
 * ever run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "repl/rose_rights.h"

/*
 * Built-in types have built-in code.  An enum's is built in, too.  All others may be, or
 * contain, a domain or come with an extension.
 */
bool
rose_rights_type_has_code(Oid type)
{
	return type >= FirstGenbkiObjectId && get_typtype(type) != TYPTYPE_ENUM;
}

void
rose_rights_take(Oid owner, RoseRights *before)
{
	GetUserIdAndSecContext(&before->user, &before->security_context);
	SetUserIdAndSecContext(owner, before->security_context | SECURITY_RESTRICTED_OPERATION);
	before->guc_level = NewGUCNestLevel();
}

void
rose_rights_give_back(const RoseRights *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->security_context);
}
