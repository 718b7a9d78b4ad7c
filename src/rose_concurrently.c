/*-------------------------------------------------------------------------
 *
 * rose_concurrently.c
 *	  CREATE INDEX, REINDEX and DROP INDEX CONCURRENTLY where there are rose tables.
 *
 * Core does these in several transactions.  What fails in a later one than the first leaves
 * an index that is not valid, so what can be known is found out before that: whether an index
 * can be built beside writers when its catalog entry is made, and whether all tables of
 * a schema or a database have their rows in order before the first of them.
 *
 * The index of a primary key has no entries of its own.  REINDEX CONCURRENTLY makes another
 * one, which has none either, and puts it in its place.  Only if the rows have to be sorted
 * anew, because collations have changed, there is something to do, and then CONCURRENTLY is an error.
 *
 * Takes the locks that reading catalogs takes, and AccessShareLock of tables.
 *
 * What this does not do: build anything (tableam/rose_index_ddl.c), or forget files that
 * are dropped (lsm/rose_index_file.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "lsm/rose_index_file.h"
#include "tableam/rose_tableam.h"
#include "rose_concurrently.h"

/* What is being done CONCURRENTLY. */
static bool creating = false;
static bool reindexing = false;

/* Such a command has begun and not ended: what functions run meanwhile is no concern of ours. */
static bool running = false;

/* ---- tables whose rows are not in order ---- */

static void
check_table(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		return;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel) &&
		rel->rd_rel->relhasindex)
		rose_index_ddl_check_order(rel);
	relation_close(rel, AccessShareLock);
}

/* Of a schema, or of the database. */
static void
check_tables_in(Oid nspid)
{
	Oid			amid = get_table_am_oid("rose", true);
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	List	   *found = NIL;
	HeapTuple	tuple;
	ListCell   *cell;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (OidIsValid(amid) && form->relam == amid && form->relhasindex &&
			RELKIND_HAS_TABLE_AM(form->relkind) &&
			(!OidIsValid(nspid) || form->relnamespace == nspid))
			found = lappend_oid(found, form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	foreach(cell, found)
		check_table(lfirst_oid(cell));
}

static void
check_named(const ReindexStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	List	   *relids;
	ListCell   *cell;

	if (OidIsValid(relid) && stmt->kind == REINDEX_OBJECT_INDEX)
		relid = IndexGetRelation(relid, true);
	if (!OidIsValid(relid))
		return;					/* core says so */
	relids = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ?
		find_all_inheritors(relid, AccessShareLock, NULL) : list_make1_oid(relid);
	foreach(cell, relids)
		check_table(lfirst_oid(cell));
}

static void
check_reindex(const ReindexStmt *stmt)
{
	Oid			nspid;

	switch (stmt->kind)
	{
		case REINDEX_OBJECT_TABLE:
		case REINDEX_OBJECT_INDEX:
			check_named(stmt);
			break;
		case REINDEX_OBJECT_SCHEMA:
			nspid = get_namespace_oid(stmt->name, true);
			if (OidIsValid(nspid))
				check_tables_in(nspid);
			break;
		case REINDEX_OBJECT_DATABASE:
			check_tables_in(InvalidOid);
			break;
		default:
			break;
	}
}

/* ---- what the hooks tell ---- */

static bool
is_concurrent_reindex(const ReindexStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->params)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "concurrently") == 0)
			return defGetBoolean(option);
	}
	return false;
}

static bool
is_concurrent_drop(const Node *stmt)
{
	return IsA(stmt, DropStmt) && ((const DropStmt *) stmt)->concurrent;
}

bool
rose_concurrently_enter(Node *stmt)
{
	if (running)
		return false;
	rose_index_file_forget_dropped();
	rose_index_ddl_forget_copies();
	creating = IsA(stmt, IndexStmt) && ((IndexStmt *) stmt)->concurrent;
	reindexing = IsA(stmt, ReindexStmt) && is_concurrent_reindex((ReindexStmt *) stmt);
	running = creating || reindexing || is_concurrent_drop(stmt);
	return running;
}

void
rose_concurrently_check(Node *stmt)
{
	if (reindexing && IsA(stmt, ReindexStmt) && !RecoveryInProgress())
		check_reindex((ReindexStmt *) stmt);
}

void
rose_concurrently_leave(bool entered)
{
	if (entered)
		running = false;
}

bool
rose_concurrently_is_reindex(void)
{
	return reindexing;
}

void
rose_concurrently_check_created(Relation heap, Relation index, HeapTuple pg_index)
{
	/* of a temporary table core makes them as without the word */
	if ((creating || reindexing) && heap->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		rose_index_ddl_check_beside(heap, index, pg_index, reindexing);
}
