/*-------------------------------------------------------------------------
 *
 * rose_repl_truncate.c
 *	  Emptying tables, of whichever owners: because the upstream has truncated them, or
 *	  because they are to be copied again.
 *
 * Tables that reference each other have to be truncated in one go, whoever owns them.
 * Whether that may be done was decided before, by who made the subscription or asks for
 * the copy; so no privileges are looked at, and an owner who may not truncate his table,
 * or use its schema, is in nobody's way.  What the tables' owners have attached to them
 * runs as those owners, as ever (rose_rights.h).  One truncation has the rights of one
 * role, so tables with triggers of several owners are truncated one owner after the
 * other, each with the tables that foreign keys tie to them.
 *
 * Locking: the caller holds AccessExclusiveLock on the tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_repl.h"
#include "repl/rose_rights.h"

/* Does TRUNCATE fire a trigger of the table in this session? */
static bool
fires_trigger(Relation rel)
{
	const TriggerDesc *triggers = rel->trigdesc;
	bool		replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_TRUNCATE(trigger->tgtype) &&
			(trigger->tgenabled == TRIGGER_FIRES_ALWAYS ||
			 trigger->tgenabled == (replica ? TRIGGER_FIRES_ON_REPLICA : TRIGGER_FIRES_ON_ORIGIN)))
			return true;
	}
	return false;
}

/* One of these references the table. */
static bool
is_referenced_by(Oid relid, List *relids)
{
	List	   *referencing = heap_truncate_find_FKs(list_make1_oid(relid));

	return list_length(list_difference_oid(referencing, relids)) < list_length(referencing);
}

/* The tables among rels that reference the table, and those that it references, in turn. */
static List *
tied_tables(Relation rel, List *rels)
{
	List	   *tied = list_make1(rel);
	bool		grown = true;

	while (grown)
	{
		List	   *relids = NIL;
		List	   *referencing;
		ListCell   *lc;

		grown = false;
		foreach(lc, tied)
			relids = lappend_oid(relids, RelationGetRelid((Relation) lfirst(lc)));
		referencing = heap_truncate_find_FKs(relids);
		foreach(lc, rels)
		{
			Relation	other = lfirst(lc);
			Oid			relid = RelationGetRelid(other);

			if (list_member_oid(relids, relid))
				continue;
			if (list_member_oid(referencing, relid) || is_referenced_by(relid, relids))
			{
				tied = lappend(tied, other);
				grown = true;
			}
		}
	}
	return tied;
}

/* As this role, whose triggers are the only ones; invalid: there are none. */
static void
truncate_together(List *rels, Oid owner, bool logged)
{
	List	   *relids = NIL;
	List	   *relids_logged = NIL;
	RoseRights	rights;
	ListCell   *lc;

	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);

		relids = lappend_oid(relids, RelationGetRelid(rel));
		if (logged && RelationIsLogicallyLogged(rel))
			relids_logged = lappend_oid(relids_logged, RelationGetRelid(rel));
	}
	if (OidIsValid(owner))
		rose_rights_take(owner, &rights);
	rose_execute_truncate(rels, relids, relids_logged, false);
	if (OidIsValid(owner))
		rose_rights_give_back(&rights);
}

/* The owner of those that fire triggers, or invalid; *several: they have several owners. */
static Oid
owner_of_triggers(List *rels, bool *several)
{
	Oid			owner = InvalidOid;
	ListCell   *lc;

	*several = false;
	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);

		if (!fires_trigger(rel))
			continue;
		*several |= OidIsValid(owner) && owner != rel->rd_rel->relowner;
		owner = rel->rd_rel->relowner;
	}
	return owner;
}

/* It is not part of the truncation itself, which demands that one role owns all of the sequences. */
static void
restart_sequences(Relation rel)
{
	ListCell   *lc;

	foreach(lc, getOwnedSequences(RelationGetRelid(rel)))
	{
		LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
		ResetSequence(lfirst_oid(lc));
	}
}

void
rose_repl_truncate_tables(List *rels, bool restart_seqs, bool logged)
{
	List	   *left = list_copy(rels);
	bool		several;
	Oid			owner = owner_of_triggers(rels, &several);
	ListCell   *lc;

	if (!several && rels != NIL)
	{
		truncate_together(rels, owner, logged);
		left = NIL;
	}
	while (left != NIL)
	{
		List	   *group = tied_tables(linitial(left), left);

		owner = owner_of_triggers(group, &several);
		if (several)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot truncate tables together that have triggers of several owners"),
					 errdetail("Foreign keys tie them to table \"%s\".",
							   RelationGetRelationName((Relation) linitial(group))),
					 errhint("Give the tables one owner, or drop or disable their triggers on TRUNCATE.")));
		truncate_together(group, owner, logged);
		left = list_difference_ptr(left, group);
	}
	foreach(lc, rels)
	{
		if (restart_seqs)
			restart_sequences(lfirst(lc));
	}
}
