/*-------------------------------------------------------------------------
 *
 * rose_repl_truncate.c
 *	  Emptying tables, of whichever owners, because the upstream has truncated them.
 *
 * Whether that may be done was decided before, by who made the subscription; so no privileges
 * are looked at, and an owner who may not truncate his table, or use its schema, is in
 * nobody's way.  What the tables' owners have attached to them
 * runs as those owners, as ever (rose_rights.h).
 *
 * Nor are foreign keys looked at, as in all that is replicated.  PostgreSQL's TRUNCATE
 * refuses a table that others reference, whatever the session's role, so it cannot be used
 * here: the upstream may have truncated those as well, while they are no tables of the
 * subscription or wait for their copy.
 *
 * An empty file takes the place of the table's and of its indexes'.  That is undone if
 * the transaction aborts.
 *
 * Locking: the caller holds AccessExclusiveLock on the tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/table.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/rel.h"

#include "compat/rose_compat_am.h"
#include "compat/rose_compat_repl.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "repl/rose_repl_internal.h"
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

/* Those of one table, before or after it is emptied, as its owner. */
static void
fire_triggers(Relation rel, bool before)
{
	ResultRelInfo *info;
	EState	   *estate;
	RoseRights	rights;

	if (!fires_trigger(rel))
		return;
	rose_rights_take(rel->rd_rel->relowner, &rights);
	estate = CreateExecutorState();
	info = makeNode(ResultRelInfo);
	InitResultRelInfo(info, rel, 0, NULL, 0);
	estate->es_opened_result_relations = list_make1(info);
	if (before)
		ExecBSTruncateTriggers(estate, info);
	else
	{
		AfterTriggerBeginQuery();
		ExecASTruncateTriggers(estate, info);
		AfterTriggerEndQuery(estate);
	}
	FreeExecutorState(estate);
	rose_rights_give_back(&rights);
}

/* The file is the subscription's from the beginning, if the old one was and others may write to it: so they ask before. */
static void
set_new_files(Relation rel)
{
	Oid			toast_relid = rel->rd_rel->reltoastrelid;
	Oid			logged_by = InvalidOid;

	if (rose_relation_is_rose(rel))
		logged_by = rose_tree_open_any_order(rel)->shared->logged_by;
	CheckTableForSerializableConflictIn(rel);
	rose_set_new_file(rel, rel->rd_rel->relpersistence);
	if (OidIsValid(logged_by))
		rose_meta_set_fed_by(rel, InvalidOid, logged_by);
	if (OidIsValid(toast_relid))
	{
		Relation	toast = table_open(toast_relid, AccessExclusiveLock);

		rose_set_new_file(toast, toast->rd_rel->relpersistence);
		table_close(toast, NoLock);
	}
	rose_reindex_relation(RelationGetRelid(rel), REINDEX_REL_PROCESS_TOAST);
	pgstat_count_truncate(rel);
}

void
rose_repl_truncate_log(Relation rel)
{
	xl_heap_truncate xlrec = {.dbId = MyDatabaseId,.nrelids = 1};
	Oid			relid = RelationGetRelid(rel);

	if (!RelationIsLogicallyLogged(rel))
		return;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapTruncate);
	XLogRegisterData((char *) &relid, sizeof(Oid));
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(RM_HEAP_ID, XLOG_HEAP_TRUNCATE);
}

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
rose_repl_truncate_tables(List *rels, bool restart_seqs, void (*at) (Relation rel))
{
	ListCell   *lc;

	/* in the order of TRUNCATE: an error of a trigger comes before anything is done */
	foreach(lc, rels)
	{
		if (at != NULL)
			at(lfirst(lc));
		fire_triggers(lfirst(lc), true);
	}
	foreach(lc, rels)
	{
		if (at != NULL)
			at(lfirst(lc));
		if (rose_target_tables_has_rows(lfirst(lc)))
			set_new_files(lfirst(lc));
		if (restart_seqs)
			restart_sequences(lfirst(lc));
	}
	foreach(lc, rels)
	{
		if (at != NULL)
			at(lfirst(lc));
		fire_triggers(lfirst(lc), false);
	}
}
