/*-------------------------------------------------------------------------
 *
 * rose_relation.c
 *	  Is this a rose table, or an index of one that has a tree of its own?  See
 *	  rose_relation.h.
 *
 * An index does not say of what kind its table is, so the table's relcache entry is looked
 * at, without a lock on the table: nobody can drop a table, or give it another access
 * method, without a lock on its indexes that conflicts with any other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_am.h"
#include "utils/relcache.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_relation.h"

const TableAmRoutine *rose_relation_routine = NULL;

bool
rose_relation_is_secondary_index(Relation rel)
{
	Relation	heap;
	bool		result;

	if (rel->rd_rel->relkind != RELKIND_INDEX || rel->rd_rel->relam != BTREE_AM_OID ||
		rel->rd_index->indisprimary)
		return false;
	heap = RelationIdGetRelation(rel->rd_index->indrelid);
	if (heap == NULL)
		return false;
	result = RELKIND_HAS_TABLE_AM(heap->rd_rel->relkind) && rose_relation_is_rose(heap);
	RelationClose(heap);
	return result;
}

bool
rose_relation_has_tree(Relation rel)
{
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		return rose_relation_is_rose(rel);
	return rose_relation_is_secondary_index(rel) && rose_meta_is_of_index(rel);
}
