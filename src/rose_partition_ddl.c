/*-------------------------------------------------------------------------
 *
 * rose_partition_ddl.c
 *	  Commands by which partitions come and go.
 *
 * They are durable at once, while what a subscription has written is not before an epoch covers it.  If a crash
 * takes back what the command rested on, nothing puts it right: the stream repeats the changes and sends them to
 * where rows belong by then.  So they are refused while there are such changes in
 *
 * - the default partition beside a new one: a row that was deleted there would be there again, and in the new one's range;
 * - a partition that is detached: rows that it had would be missing for good;
 * - a table that is attached: rows that it had might be out of its bounds.
 *
 * A table that one subscription has is not attached to one that another one has: both would write to it.
 *
 * Looked at when the command has been run, and has these tables locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "repl/rose_repl.h"
#include "tableam/rose_tableam.h"
#include "rose_partition_ddl.h"

static void
note_subcommand(const AlterTableStmt *stmt, const AlterTableCmd *cmd, RosePartitionCommand *command)
{
	switch (cmd->subtype)
	{
		case AT_AttachPartition:
			command->parent = copyObject(stmt->relation);
			command->attached = copyObject(castNode(PartitionCmd, cmd->def)->name);
			break;
		case AT_DetachPartition:
		case AT_DetachPartitionFinalize:
			command->detached = copyObject(castNode(PartitionCmd, cmd->def)->name);
			break;
		default:
			break;
	}
}

RosePartitionCommand
rose_partition_ddl_of(Node *stmt)
{
	RosePartitionCommand command = {NULL, NULL, NULL};
	ListCell   *lc;

	if (IsA(stmt, CreateStmt) && ((CreateStmt *) stmt)->partbound != NULL)
		command.parent = copyObject(linitial_node(RangeVar, ((CreateStmt *) stmt)->inhRelations));
	else if (IsA(stmt, AlterTableStmt))
		foreach(lc, ((AlterTableStmt *) stmt)->cmds)
			note_subcommand((AlterTableStmt *) stmt, lfirst_node(AlterTableCmd, lc), &command);
	return command;
}

/* A table of this table or tree of partitions whose changes are not durable, or NULL. */
static const char *
find_not_durable(Oid relid)
{
	const char *found = NULL;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), NoLock);

		if (rel == NULL)
			continue;
		if (rel->rd_rel->relkind == RELKIND_RELATION && rose_relation_is_rose(rel) && !rose_rows_are_durable(rel))
			found = pstrdup(RelationGetRelationName(rel));
		relation_close(rel, NoLock);
		if (found != NULL)
			break;
	}
	return found;
}

static void
require_durable(Oid relid, const char *what)
{
	const char *name = find_not_durable(relid);

	if (name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s while a subscription has changes in table \"%s\" that are not yet durable",
						what, name),
				 errhint(ROSE_SPILL_FIRST)));
}

static void
check_parent(const RangeVar *parent)
{
	Oid			relid = RangeVarGetRelid(parent, NoLock, true);

	if (OidIsValid(relid) && OidIsValid(relid = get_default_partition_oid(relid)))
		require_durable(relid, "add a partition beside the default one");
}

/* A table has one subscription, and a partition that of the tables that it is one of. */
static void
check_attached(const RangeVar *attached)
{
	Oid			relid = RangeVarGetRelid(attached, NoLock, true);
	Oid			own;
	Oid			other;

	/* RangeVarGetRelid may find another one of the name by now */
	if (!OidIsValid(relid) || !get_rel_relispartition(relid))
		return;
	require_durable(relid, "attach a table");
	own = rose_subscription_of_any(find_all_inheritors(relid, NoLock, NULL));
	other = rose_subscription_of_any(get_partition_ancestors(relid));
	if (!OidIsValid(own) || !OidIsValid(other) || own == other)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot attach table \"%s\", which one subscription feeds, to a table that another one feeds",
					get_rel_name(relid)),
			 errhint("Take one of them out of its publication and call rose.alter_subscription with refresh => true, or drop the subscription.")));
}

static void
check_detached(const RangeVar *detached)
{
	Oid			relid = RangeVarGetRelid(detached, NoLock, true);

	if (OidIsValid(relid))
		require_durable(relid, "detach a partition");
}

void
rose_partition_ddl_check(const RosePartitionCommand *command)
{
	if (command->parent != NULL)
		check_parent(command->parent);
	if (command->attached != NULL)
		check_attached(command->attached);
	if (command->detached != NULL)
		check_detached(command->detached);
}
