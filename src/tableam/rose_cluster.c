/*-------------------------------------------------------------------------
 *
 * rose_cluster.c
 *	  By which indexes rose tables can be clustered: that of the primary key.
 *
 * A table that is marked to be clustered by another one would stop CLUSTER of the whole
 * database, so the mark is refused as well, and a table that has it does not become one
 * of ours.
 *
 * Takes the locks that reading catalogs takes; the commands hold those of the table.
 *
 * What this does not do: rewrite the table (rose_tableam_ddl.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "tableam/rose_tableam.h"

void
rose_cluster_check_index(Relation rel, Relation index)
{
	if (index != NULL && !index->rd_index->indisprimary)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot cluster rose table \"%s\" by index \"%s\"",
						RelationGetRelationName(rel), RelationGetRelationName(index)),
				 errhint("Rows are in the order of the primary key.")));
}

/* Is the index marked, as of this moment of the command?  The caches may not know yet. */
static bool
is_marked_now(Oid indexid)
{
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		marked;

	ScanKeyInit(&key, Anum_pg_index_indexrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(indexid));
	scan = systable_beginscan(pg_index, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	marked = HeapTupleIsValid(tuple) && ((Form_pg_index) GETSTRUCT(tuple))->indisclustered;
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	return marked;
}

void
rose_cluster_check_marked(Oid indexid)
{
	Relation	index = RelationIdGetRelation(indexid);
	Relation	rel;

	if (index == NULL)
		return;
	rel = RelationIdGetRelation(index->rd_index->indrelid);
	if (rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
		rose_relation_is_rose(rel) && is_marked_now(indexid))
		rose_cluster_check_index(rel, index);
	if (rel != NULL)
		RelationClose(rel);
	RelationClose(index);
}

void
rose_cluster_check_taken(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	ListCell   *cell;

	if (rel == NULL)
		return;
	foreach(cell, RelationGetIndexList(rel))
	{
		Oid			indexid = lfirst_oid(cell);

		if (get_index_isclustered(indexid) && indexid != rel->rd_pkindex)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot make table \"%s\" a rose table because it is to be clustered by index \"%s\"",
							RelationGetRelationName(rel), get_rel_name(indexid)),
					 errdetail("Rows of rose tables are stored in the order of the primary key."),
					 errhint("Use ALTER TABLE ... SET WITHOUT CLUSTER first.")));
	}
	relation_close(rel, AccessShareLock);
}
