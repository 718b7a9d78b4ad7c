/*-------------------------------------------------------------------------
 *
 * rose_objects_hook.c
 *	  The hook on objects: what is made, altered, dropped and truncated.
 *
 * Files that are dropped with their table; primary keys that are dropped; indexes that are made; TRUNCATE of a table that a
 * subscription feeds; options of tables; foreign servers that are subscriptions; constraints, and partitions that
 * come and go; what functions a query calls.
 *
 * Policy and mechanism are elsewhere: here is only who is called when.  Locks: those that the command has taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_index.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store/rose_file_name.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/rose_index_file.h"
#include "lsm/rose_transaction.h"
#include "repl/rose_repl.h"
#include "repl/rose_subrows.h"
#include "repl/rose_subscription_server.h"
#include "tableam/rose_table_options.h"
#include "tableam/rose_tableam.h"
#include "rose_concurrently.h"
#include "rose_constraint_ddl.h"
#include "rose_objects_hook.h"
#include "rose_partition_ddl.h"

static object_access_hook_type prev_object_access_hook = NULL;

/* ---- dropped objects ---- */

/* The relation, if it is a rose table and still there; else NULL. */
static Relation
open_rose_table(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL || (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel)))
		return rel;
	RelationClose(rel);
	return NULL;
}

static void
note_dropped_index(Relation index, bool concurrently)
{
	Relation	heap;

	if (rose_relation_is_secondary_index(index))
	{
		if (concurrently)
			rose_index_file_dropped_late(index);
		else
			rose_index_file_dropped(index);
	}
	if (!index->rd_index->indisprimary)
		return;
	heap = open_rose_table(index->rd_index->indrelid);
	if (heap == NULL)
		return;
	rose_rekey_note_dropped(RelationGetRelid(heap));
	RelationClose(heap);
}

static void
note_dropped_relation(Oid relid, const ObjectAccessDrop *drop)
{
	bool		concurrently = drop != NULL &&
		(drop->dropflags & PERFORM_DELETION_CONCURRENTLY) != 0;
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return;
	/* what another session has of its temporary tables is in its own memory */
	if (RELATION_IS_OTHER_TEMP(rel))
	{
		RelationClose(rel);
		return;
	}
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		note_dropped_index(rel, concurrently);
	else if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel))
		rose_transaction_file_dropped(rose_file_name(rel));
	RelationClose(rel);
}

/* ---- TRUNCATE, which replication workers do without asking ---- */

static void
check_truncate(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		is_rose;

	if (rel == NULL)
		return;
	is_rose = RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);
	RelationClose(rel);
	if (is_rose)
		rose_repl_check_truncate(relid);
}

/* ---- made indexes ---- */

/* An index of a rose table; pg_index: its row there. */
static void
check_created_index_of(Relation heap, Relation index, HeapTuple pg_index, bool internal)
{
	rose_index_file_taken_over(index);
	if (!rose_concurrently_is_reindex())
		rose_index_ddl_check_created(heap, index, internal);
	rose_concurrently_check_created(heap, index, pg_index);
}

/* The catalog rows are not visible to others, nor in the caches, yet. */
static void
check_created_index(Oid indexid, bool internal)
{
	Relation	pg_index;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	HeapTuple	copy;
	Relation	heap;
	Relation	index;

	pg_index = table_open(IndexRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_index_indexrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(indexid));
	scan = systable_beginscan(pg_index, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	copy = HeapTupleIsValid(tuple) ? heap_copytuple(tuple) : NULL;
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	if (copy == NULL || ((Form_pg_index) GETSTRUCT(copy))->indisprimary)
		return;					/* not an index, or a primary key's */
	rose_subrows_check_index(copy);

	heap = open_rose_table(((Form_pg_index) GETSTRUCT(copy))->indrelid);
	if (heap == NULL)
		return;
	index = RelationIdGetRelation(indexid);
	check_created_index_of(heap, index, copy, internal);
	RelationClose(index);
	RelationClose(heap);
}

/* What workers have failed on may have been changed.  Those that lock it out wait for the end of the transaction. */
static void
note_altered_relation(Oid relid)
{
	Relation	rel;

	if (relid < FirstNormalObjectId || !RELKIND_HAS_TABLE_AM(get_rel_relkind(relid)))
		return;
	rel = open_rose_table(relid);
	if (rel == NULL)
		return;
	rose_registry_end_pauses(rose_file_name(rel));
	RelationClose(rel);
}

static void
rose_object_access(ObjectAccessType access, Oid classid, Oid objectid, int subid, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classid, objectid, subid, arg);
	if (access == OAT_FUNCTION_EXECUTE)
	{
		rose_declared_note_start();
		return;
	}
	rose_constraint_ddl_note(access, classid, objectid, subid);
	rose_partition_ddl_note(access, classid, objectid, arg);
	if (classid == ForeignServerRelationId && subid == 0)
		rose_subscription_server_note(access, objectid);
	if (classid != RelationRelationId)
		return;
	if (access == OAT_POST_ALTER)
		note_altered_relation(objectid);
	if (subid != 0)
		return;
	if (access == OAT_DROP)
		note_dropped_relation(objectid, arg);
	else if (access == OAT_POST_CREATE)
	{
		check_created_index(objectid,
							arg != NULL && ((ObjectAccessPostCreate *) arg)->is_internal);
		rose_table_options_note_created(objectid);
	}
	else if (access == OAT_POST_ALTER)
	{
		rose_index_ddl_check_moved(objectid);
		rose_table_options_note_altered(objectid);
	}
	else if (access == OAT_TRUNCATE)
		check_truncate(objectid);
}

void
rose_objects_hook_install(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = rose_object_access;
}
