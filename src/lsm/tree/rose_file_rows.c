/*-------------------------------------------------------------------------
 *
 * rose_file_rows.c
 *	  What the rows of a tree's file look like.  See rose_file_rows.h.
 *
 * Looks up catalogs, so no LWLock may be held.  What an ALTER TABLE under way has done to
 * a table's columns is rose_altered.c's; nothing changes those of an index's file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_file_rows.h"

void
rose_file_index_def(Relation rel, const RoseMetaInfo *meta, RoseIndexDef *def)
{
	Assert(meta->of_index);
	def->meta = meta->index;
	def->nkeys = meta->nkeys;
	memcpy(def->keys, meta->keys, sizeof(def->keys));
	if (!rose_index_def_is_sane(def))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("metapage of index \"%s\" says what entries cannot be",
						RelationGetRelationName(rel)),
				 errdetail("It has %u columns and %d key columns.", def->meta.ncolumns, def->nkeys),
				 errhint("Please REINDEX it.")));
}

TupleDesc
rose_file_descriptor(Relation rel, const RoseMetaInfo *meta)
{
	RoseIndexDef def;

	if (!meta->of_index)
		return RelationGetDescr(rel);
	rose_file_index_def(rel, meta, &def);
	return rose_index_def_tupdesc(&def);
}

RoseSchema *
rose_file_schema(Relation rel, TupleDesc tupdesc, const RoseMetaInfo *meta, MemoryContext context)
{
	Assert(tupdesc == NULL || !meta->of_index);
	if (tupdesc == NULL)
		tupdesc = rose_file_descriptor(rel, meta);
	return rose_schema_create(tupdesc, meta->nkeys, meta->keys, meta->facts.hashed, context);
}
