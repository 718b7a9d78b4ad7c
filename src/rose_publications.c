/*-------------------------------------------------------------------------
 *
 * rose_publications.c
 *	  Commands that would publish rose tables.
 *
 * Logical decoding knows nothing of rose's log: a subscriber would get a table's rows of
 * now, and no change of them.  A table that is named is refused.  Publications that take
 * tables unnamed, of schemas, of partitioned tables or all, are made with a warning.
 *
 * A table that comes to be in such a publication later, because it is made, attached to a
 * partitioned table or moved to a schema, gets a warning of its own.
 *
 * Takes the locks that reading catalogs takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "tableam/rose_tableam.h"
#include "rose_publications.h"

#define NOT_DECODED "Changes of rose tables are not decoded, so subscribers would not get them."

/* name: the table, or NULL for all that there are. */
static void
warn(const char *name)
{
	ereport(WARNING,
			(name != NULL ? errmsg("rose table \"%s\" is not published", name) :
			 errmsg("rose tables are not published"),
			 errdetail(NOT_DECODED),
			 errhint("Publish a heap table, and subscribe to it with a rose table.")));
}

/* Warn if there is a rose table, in this schema if one is given. */
static void
warn_of_tables_in(Oid nspid)
{
	Oid			amid = get_table_am_oid("rose", true);
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	if (!OidIsValid(amid))
		return;
	rel = table_open(RelationRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (!found && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		found = form->relam == amid && form->relkind == RELKIND_RELATION &&
			form->relpersistence == RELPERSISTENCE_PERMANENT &&
			(!OidIsValid(nspid) || form->relnamespace == nspid);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	if (found)
		warn(NULL);
}

static bool
is_rose(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		result;

	if (rel == NULL)
		return false;
	result = RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);
	relation_close(rel, AccessShareLock);
	return result;
}

static void
check_named(Oid relid)
{
	ListCell   *lc;

	if (is_rose(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot add relation \"%s\" to publication", get_rel_name(relid)),
				 errdetail(NOT_DECODED),
				 errhint("Publish a heap table, and subscribe to it with a rose table.")));
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		if (is_rose(lfirst_oid(lc)))
		{
			warn(get_rel_name(lfirst_oid(lc)));
			return;
		}
	}
}

static void
check_objects(List *objects)
{
	ListCell   *lc;

	foreach(lc, objects)
	{
		PublicationObjSpec *object = lfirst_node(PublicationObjSpec, lc);
		Oid			oid;

		/* what does not exist is reported by core */
		switch (object->pubobjtype)
		{
			case PUBLICATIONOBJ_TABLE:
				oid = RangeVarGetRelid(object->pubtable->relation, NoLock, true);
				if (OidIsValid(oid))
					check_named(oid);
				break;
			case PUBLICATIONOBJ_TABLES_IN_SCHEMA:
				oid = get_namespace_oid(object->name, true);
				if (OidIsValid(oid))
					warn_of_tables_in(oid);
				break;
			case PUBLICATIONOBJ_TABLES_IN_CUR_SCHEMA:
				{
					List	   *path = fetch_search_path(false);

					if (path != NIL)
						warn_of_tables_in(linitial_oid(path));
					break;
				}
			default:
				break;
		}
	}
}

void
rose_publications_check_command(Node *stmt)
{
	if (IsA(stmt, CreatePublicationStmt))
	{
		if (((CreatePublicationStmt *) stmt)->for_all_tables)
			warn_of_tables_in(InvalidOid);
		check_objects(((CreatePublicationStmt *) stmt)->pubobjects);
	}
	else if (IsA(stmt, AlterPublicationStmt) && ((AlterPublicationStmt *) stmt)->action != AP_DropObjects)
		check_objects(((AlterPublicationStmt *) stmt)->pubobjects);
}

/* Some publication has the table, or a table that it is a partition of, unnamed. */
static bool
is_published_unnamed(Oid relid)
{
	ListCell   *lc;

	if (GetAllTablesPublications() != NIL ||
		GetSchemaPublications(get_rel_namespace(relid)) != NIL)
		return true;
	if (!get_rel_relispartition(relid))
		return false;
	foreach(lc, get_partition_ancestors(relid))
	{
		if (GetRelationPublications(lfirst_oid(lc)) != NIL ||
			GetSchemaPublications(get_rel_namespace(lfirst_oid(lc))) != NIL)
			return true;
	}
	return false;
}

void
rose_publications_check_table(Oid relid)
{
	List	   *publications = GetRelationPublications(relid);

	if (publications != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot make table \"%s\" a rose table because publication \"%s\" has it",
						get_rel_name(relid), get_publication_name(linitial_oid(publications), false)),
				 errdetail(NOT_DECODED),
				 errhint("Take it out with ALTER PUBLICATION ... DROP TABLE first.")));
	if (is_published_unnamed(relid))
		warn(get_rel_name(relid));
}

RangeVar *
rose_publications_table_of(Node *stmt)
{
	ListCell   *cell;

	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return copyObject(((CreateStmt *) stmt)->relation);
		case T_CreateTableAsStmt:
			return copyObject(((CreateTableAsStmt *) stmt)->into->rel);
		case T_AlterObjectSchemaStmt:
			if (((AlterObjectSchemaStmt *) stmt)->objectType != OBJECT_TABLE)
				return NULL;
			return makeRangeVar(pstrdup(((AlterObjectSchemaStmt *) stmt)->newschema),
								pstrdup(((AlterObjectSchemaStmt *) stmt)->relation->relname), -1);
		case T_AlterTableStmt:
			foreach(cell, ((AlterTableStmt *) stmt)->cmds)
			{
				AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

				if (cmd->subtype == AT_AttachPartition)
					return copyObject(((PartitionCmd *) cmd->def)->name);
			}
			return NULL;
		default:
			return NULL;
	}
}

/*
 * The table of this name.  A command may put it where its user may create tables, but not
 * look them up: that needs USAGE of the schema.
 */
static Oid
find_member(const RangeVar *table)
{
	if (table->schemaname == NULL || strcmp(table->schemaname, "pg_temp") == 0)
		return RangeVarGetRelid(table, NoLock, true);
	return get_relname_relid(table->relname, get_namespace_oid(table->schemaname, true));
}

/* Its partitions are in what it is in; one is told of. */
void
rose_publications_check_member(const RangeVar *table)
{
	Oid			relid = find_member(table);
	ListCell   *lc;

	if (!OidIsValid(relid))
		return;
	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		if (is_rose(lfirst_oid(lc)) &&
			get_rel_persistence(lfirst_oid(lc)) == RELPERSISTENCE_PERMANENT &&
			get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION &&
			is_published_unnamed(lfirst_oid(lc)))
		{
			warn(get_rel_name(lfirst_oid(lc)));
			return;
		}
	}
}
