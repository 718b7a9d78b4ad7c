/*-------------------------------------------------------------------------
 *
 * rose_reindex.c
 *	  REINDEX CONCURRENTLY where there are rose tables.
 *
 * The index of a rose table's primary key has no entries of its own, so there is nothing to
 * build beside writers.  A table that is named is passed over with a warning, as core passes
 * over indexes that cannot be built concurrently: programs that go through a database's
 * tables one by one then reach all others.  Only if the rows have to be sorted anew, because
 * collations have changed, REINDEX has something to do, and then CONCURRENTLY is an error.
 *
 * Core does the tables of a schema, a database or a partitioned table in transactions of
 * their own, and cannot be told to pass over some.  So these are refused before the first
 * one, and not somewhere on the way.
 *
 * Takes the locks that reading catalogs takes, and AccessShareLock of tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "rose_reindex.h"

bool
rose_reindex_is_concurrent(const ReindexStmt *stmt)
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
is_rose(Relation rel)
{
	return RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);
}

/* Some rose table of a schema, or of the database. */
static Oid
rose_table_in(Oid nspid)
{
	Oid			amid = get_table_am_oid("rose", true);
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	Oid			found = InvalidOid;
	HeapTuple	tuple;

	while (!OidIsValid(found) && (tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (OidIsValid(amid) && form->relam == amid && form->relhasindex &&
			RELKIND_HAS_TABLE_AM(form->relkind) &&
			(!OidIsValid(nspid) || form->relnamespace == nspid))
			found = form->oid;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

static Oid
rose_partition_of(Oid relid)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = relation_open(lfirst_oid(cell), NoLock);
		bool		found = is_rose(rel) && rel->rd_rel->relhasindex;

		relation_close(rel, NoLock);
		if (found)
			return lfirst_oid(cell);
	}
	return InvalidOid;
}

static void
refuse_among_others(Oid relid)
{
	if (OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot reindex rose table \"%s\" concurrently, among others",
						get_rel_name(relid)),
				 errhint("Name tables one by one, as \"reindexdb --concurrently --jobs=2\" does: rose tables are skipped then.")));
}

static bool
skip_table(Relation rel)
{
	if (rose_tree_open_any_order(rel)->shared->other_order)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rose table \"%s\" cannot be sorted anew concurrently",
						RelationGetRelationName(rel)),
				 errhint("Leave CONCURRENTLY out.")));
	ereport(WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot reindex rose table \"%s\" concurrently, skipping",
					RelationGetRelationName(rel)),
			 errdetail("The index of its primary key has no entries of its own.")));
	return true;
}

static bool
skips_named(const ReindexStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	Relation	rel;
	bool		skip = false;

	if (OidIsValid(relid) && stmt->kind == REINDEX_OBJECT_INDEX)
		relid = IndexGetRelation(relid, true);
	rel = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;

	if (rel == NULL)
		return false;			/* core says so */
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		refuse_among_others(rose_partition_of(relid));
	else if (stmt->kind == REINDEX_OBJECT_TABLE && is_rose(rel) && rel->rd_rel->relhasindex)
		skip = skip_table(rel);
	relation_close(rel, AccessShareLock);
	return skip;
}

bool
rose_reindex_skips(const ReindexStmt *stmt)
{
	Oid			nspid;

	switch (stmt->kind)
	{
		case REINDEX_OBJECT_TABLE:
		case REINDEX_OBJECT_INDEX:
			return skips_named(stmt);
		case REINDEX_OBJECT_SCHEMA:
			nspid = get_namespace_oid(stmt->name, true);
			if (OidIsValid(nspid))
				refuse_among_others(rose_table_in(nspid));
			return false;
		case REINDEX_OBJECT_DATABASE:
			refuse_among_others(rose_table_in(InvalidOid));
			return false;
		default:
			return false;
	}
}
