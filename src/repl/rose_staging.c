/*-------------------------------------------------------------------------
 *
 * rose_staging.c
 *	  The relation that has the rows of a copy until all are there.
 *
 * A copy that is made in pieces, each a transaction of its own, needs a place for them that outlives a crash and shows them
 * to nobody.  That is a file of the table's access method, with the table's columns and key, of a relation in the schema of
 * TOAST tables, where nobody else makes objects or looks at them, so that nobody can have his own depend on it.  Its kind is that of TOAST tables: those belong to no publication, to no dump, and to no type, and nobody writes to them by SQL.
 * Reading it is refused by the access method.  It goes with its table (pg_depend), and with the switch at the end, which
 * gives the table its file (rose_replace.c).
 *
 * The rows were checked by what the table demanded when they were read.  So what it demands is described, and the
 * description compared before more rows come and before they become the table's.
 *
 * Locking: RowExclusiveLock on the relation to write rows, AccessExclusiveLock to switch or drop it, each until the transaction
 * ends; always after the table's.
 *
 * What this does not do: say which rows are in it (rose_chunks.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "util/rose_key_facts.h"
#include "store/rose_file_name.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "repl/rose_rights.h"
#include "repl/rose_staging.h"

bool
rose_staging_fits(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	/* bounds are those of others, too; and a table without key cannot tell the rows of two snapshots apart */
	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relispartition || rose_tree_open_any_order(rel)->schema->nkeys == 0)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		/* a domain's constraints may change without the table */
		if (!TupleDescAttr(desc, i)->attisdropped && rose_rights_type_has_code(TupleDescAttr(desc, i)->atttypid))
			return false;
	}
	return true;
}

/* It is empty, and keyed by row ids so far. */
void
rose_staging_take_key(Relation rel, Relation made)
{
	RoseMetaInfo info;

	(void) rose_tree_open_any_order(rel);	/* brings the metapage up to this cluster */
	rose_meta_read(rel, &info);
	if (info.nkeys == 0)
		return;
	rose_key_facts_make(RelationGetDescr(made), info.nkeys, info.keys, &info.facts);
	rose_meta_set_key(made, info.nkeys, info.keys, &info.facts);
	rose_tree_invalidate(rose_file_name(made));
}

static Datum
options_of(Relation rel)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel)));
	bool		isnull;
	Datum		value = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);

	value = isnull ? (Datum) 0 : PointerGetDatum(DatumGetByteaPCopy(value));
	ReleaseSysCache(tuple);
	return value;
}

/* One that nobody knows any more: that of the database that this one was made from. */
static void
drop_unknown(const char *name)
{
	Oid			relid = get_relname_relid(name, PG_TOAST_NAMESPACE);

	if (OidIsValid(relid))
		rose_staging_drop(relid);
}

Oid
rose_staging_create(Relation rel)
{
	char	   *name = psprintf("copy_of_%u", RelationGetRelid(rel));
	ObjectAddress made;
	ObjectAddress table;
	Relation	made_rel;

	drop_unknown(name);
	ObjectAddressSet(table, RelationRelationId, RelationGetRelid(rel));
	ObjectAddressSet(made, RelationRelationId,
					 heap_create_with_catalog(name, PG_TOAST_NAMESPACE, rel->rd_rel->reltablespace, InvalidOid, InvalidOid, InvalidOid,
											  rel->rd_rel->relowner, rel->rd_rel->relam,
											  CreateTupleDescCopy(RelationGetDescr(rel)), NIL, RELKIND_TOASTVALUE,
											  rel->rd_rel->relpersistence, false, false, ONCOMMIT_NOOP, options_of(rel),
											  false, true, true, InvalidOid, NULL));
	CommandCounterIncrement();
	recordDependencyOn(&made, &table, DEPENDENCY_AUTO);
	made_rel = relation_open(made.objectId, AccessExclusiveLock);
	rose_staging_take_key(rel, made_rel);
	relation_close(made_rel, NoLock);
	CommandCounterIncrement();
	return made.objectId;
}

Relation
rose_staging_open(Oid made, LOCKMODE mode)
{
	Relation	rel = try_relation_open(made, mode);

	if (rel != NULL && rel->rd_rel->relkind == RELKIND_TOASTVALUE && rose_relation_is_rose(rel))
		return rel;
	if (rel != NULL)
		relation_close(rel, mode);
	return NULL;
}

void
rose_staging_drop(Oid made)
{
	Relation	rel = rose_staging_open(made, AccessExclusiveLock);
	ObjectAddress object;

	if (rel == NULL)
		return;
	relation_close(rel, NoLock);
	ObjectAddressSet(object, RelationRelationId, made);
	performDeletion(&object, DROP_CASCADE, PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY);
}

void
rose_staging_drop_dependents(Oid made)
{
	ObjectAddress object;

	ObjectAddressSet(object, RelationRelationId, made);
	performDeletion(&object, DROP_CASCADE,
					PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY | PERFORM_DELETION_SKIP_ORIGINAL);
}

static void
describe_columns(StringInfo out, TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		appendStringInfo(out, "%u:%d:%u:%d:%d:%d;", att->atttypid, att->atttypmod, att->attcollation,
						 att->attnotnull, att->attisdropped, att->attgenerated);
	}
	for (int i = 0; desc->constr != NULL && i < desc->constr->num_defval; i++)
		appendStringInfo(out, "%d=%s;", desc->constr->defval[i].adnum, desc->constr->defval[i].adbin);
	for (int i = 0; desc->constr != NULL && i < desc->constr->num_check; i++)
		appendStringInfo(out, "%s=%s;", desc->constr->check[i].ccname, desc->constr->check[i].ccbin);
}

char *
rose_staging_describe(Relation rel)
{
	StringInfoData described;
	RoseMetaInfo info;
	uint64		key;

	(void) rose_tree_open_any_order(rel);	/* brings the metapage up to this cluster */
	rose_meta_read(rel, &info);
	key = hash_bytes_extended((unsigned char *) info.keys, info.nkeys * sizeof(info.keys[0]), 0);
	initStringInfo(&described);
	/* the owner, too: nothing keeps the one that the relation was made for */
	appendStringInfo(&described, "%u:%u:%u:%c:%d:" UINT64_FORMAT ";", rel->rd_rel->relowner, rel->rd_rel->reltablespace,
					 rel->rd_rel->relam, rel->rd_rel->relpersistence, info.nkeys, key);
	describe_columns(&described, RelationGetDescr(rel));
	return psprintf("%016llx%016llx",
					(unsigned long long) hash_bytes_extended((unsigned char *) described.data, described.len, 1),
					(unsigned long long) hash_bytes_extended((unsigned char *) described.data, described.len, 2));
}
