/*-------------------------------------------------------------------------
 *
 * rose_row_types.c
 *	  Row types whose values are keys: their columns stay what they are.
 *
 * Rows are compared and hashed column by column, and rows that are stored are not told when their
 * type gets another column or loses one.  Then they have another order than they lie
 * in, or another hash than filters know: what is there would not be found by its key, and merges
 * would fail.  So a command that adds or drops columns of a type, or of a table, is refused
 * if values of it are in a key of a rose table, in rows, arrays, ranges or domains of theirs, too.
 *
 * Takes AccessShareLock, for a moment, of relations that use the type.
 *
 * What this does not do: hear of types of attributes that are altered, which core refuses for
 * types that are in use, nor of columns of views.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "tableam/rose_tableam.h"

static void check_uses(Oid type, Oid altered);

/* ---- keys ---- */

static Oid
type_of_key(Relation table, Relation index, int i)
{
	AttrNumber	attno = index->rd_index->indkey.values[i];

	return TupleDescAttr(RelationGetDescr(attno > 0 ? table : index), attno > 0 ? attno - 1 : i)->atttypid;
}

static void
check_index(Relation table, Oid indexid, Oid type, Oid altered)
{
	Relation	index = relation_open(indexid, AccessShareLock);

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (type_of_key(table, index, i) == type)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot add or drop columns of type %s", format_type_be(altered)),
					 errdetail("Index \"%s\" of rose table \"%s\" is in the order of its values.",
							   RelationGetRelationName(index), RelationGetRelationName(table)),
					 errhint("Drop the index first, and make it again afterwards.")));
	relation_close(index, AccessShareLock);
}

static void
check_indexes(Relation table, Oid type, Oid altered)
{
	List	   *indexes;
	ListCell   *cell;

	if (!RELKIND_HAS_TABLE_AM(table->rd_rel->relkind) || !rose_relation_is_rose(table))
		return;
	indexes = RelationGetIndexList(table);
	foreach(cell, indexes)
		check_index(table, lfirst_oid(cell), type, altered);
	list_free(indexes);
}

/* ---- what uses a type ---- */

/*
 * What uses the rows of a relation.  An index on them depends on the table, not on its type.
 */
static void
check_rows(Relation rel, Oid altered)
{
	if (!OidIsValid(rel->rd_rel->reltype))
		return;
	check_indexes(rel, rel->rd_rel->reltype, altered);
	check_uses(rel->rd_rel->reltype, altered);
}

/* A column of it is of the type, or all of them are as the type has them (column: 0); or it is an index. */
static void
check_relation(Oid relid, int column, Oid type, Oid altered)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		return;
	if (rel->rd_rel->relkind == RELKIND_INDEX)
	{
		Relation	table = relation_open(rel->rd_index->indrelid, AccessShareLock);

		if (rose_relation_is_rose(table))
			check_index(table, relid, type, altered);
		relation_close(table, AccessShareLock);
	}
	else if (column > 0)
		check_indexes(rel, type, altered);
	if (rel->rd_rel->reltype != type)
		check_rows(rel, altered);
	relation_close(rel, AccessShareLock);
}

static void
check_uses(Oid type, Oid altered)
{
	Relation	pg_depend;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	check_stack_depth();
	pg_depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan(pg_depend, DependReferenceIndexId, true, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend use = (Form_pg_depend) GETSTRUCT(tuple);

		if (use->classid == TypeRelationId)
			check_uses(use->objid, altered);
		else if (use->classid == RelationRelationId)
			check_relation(use->objid, use->objsubid, type, altered);
	}
	systable_endscan(scan);
	table_close(pg_depend, AccessShareLock);
}

/* ---- the command ---- */

static bool
changes_columns(const AlterTableStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableType kind = lfirst_node(AlterTableCmd, cell)->subtype;

		if (kind == AT_AddColumn || kind == AT_DropColumn)
			return true;
	}
	return false;
}

void
rose_row_types_check_altered(const AlterTableStmt *stmt)
{
	Oid			relid;
	ListCell   *cell;

	if (!changes_columns(stmt))
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid))
		return;
	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), AccessShareLock);

		if (rel == NULL)
			continue;
		check_rows(rel, rel->rd_rel->reltype);
		relation_close(rel, AccessShareLock);
	}
}
