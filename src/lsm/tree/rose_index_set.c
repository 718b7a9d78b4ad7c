/*-------------------------------------------------------------------------
 *
 * rose_index_set.c
 *	  The secondary indexes of a table that its writers keep up.
 *
 * What an index's entries are made of is read from its file, and from the catalog which columns
 * of the table its expressions and predicate read.  The set is made in a
 * context of its own.  rose_tree.c lets go of it when the table may have other indexes, and
 * keeps it to the end of the transaction: a write that is under way may still use it.
 *
 * A set follows from the table's relcache entry, and from the files of its indexes.  An
 * index that comes or goes invalidates the first, and no command makes or drops one of a
 * table that somebody else writes to, but CONCURRENTLY.  Then an index is known to all
 * before its file is made, and from which version on writers keep it up is one moment for
 * all of them: index_generation changes, and whoever links a row sees whether it goes by
 * a set of that generation (write/rose_index_beside.h).  When such an index is dropped,
 * it is of no use to anybody long before it goes: some writers may keep it up, others not.
 *
 * Backend-local.  Does not write entries: see write/rose_entries.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_index.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "util/rose_index_expr.h"
#include "util/rose_options.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_index_set.h"

/* What expressions and predicate read. */
static void
add_depends(Relation index, int natts, RoseEntryShape *shape)
{
	RoseIndexExpr expr;
	Bitmapset  *depends;
	int			attno = -1;

	shape->evaluates = rose_index_expr_is_any(index);
	if (!shape->evaluates)
		return;
	rose_index_expr_read(index, &expr);
	depends = rose_index_expr_depends(&expr, natts);
	while ((attno = bms_next_member(depends, attno)) >= 0)
		shape->last_source = Max(shape->last_source, attno);
	shape->depends = bms_join(shape->depends, depends);
}

void
rose_index_set_shape(Relation index, const RoseIndexMetaDisk *meta, const RoseSchema *schema,
					 int natts, RoseEntryShape *shape)
{
	memset(shape, 0, sizeof(*shape));
	shape->ncolumns = meta->ncolumns;
	shape->validated = (meta->flags & ROSE_INDEX_VALIDATED) != 0;
	for (int i = 0; i < meta->ncolumns; i++)
	{
		const RoseEntryColumnDisk *from = &meta->columns[i];
		const RoseTupleColumn *column = &schema->tuple_columns[i];

		shape->columns[i].source = from->source;
		shape->columns[i].rank = from->role == ROSE_ENTRY_RANK;
		shape->columns[i].null_is_less = (from->flags & ROSE_ENTRY_NULLS_FIRST) != 0;
		shape->columns[i].byval = column->attbyval;
		shape->columns[i].len = column->attlen;
		shape->last_source = Max(shape->last_source, from->source);
		if (from->source > 0)
			shape->depends = bms_add_member(shape->depends, from->source);
	}
	add_depends(index, natts, shape);
}

/* Does the index need entries?  The primary key's is the table itself; another may not be made yet. */
static bool
is_kept_up(Relation index, RoseMetaInfo *info)
{
	if (!index->rd_index->indislive || index->rd_index->indisprimary ||
		!rose_meta_is_of_index(index))
		return false;
	rose_meta_read(index, info);
	return (info->index.flags & ROSE_INDEX_UNKEPT) == 0;
}

static bool
has_attribute(Relation index, AttrNumber attno)
{
	return !heap_attisnull(index->rd_indextuple, attno, NULL);
}

void
rose_index_set_uniqueness(Relation index, const RoseIndexMetaDisk *meta, RoseIndexTree *described)
{
	described->unique = index->rd_index->indisunique;
	described->deferrable = !index->rd_index->indimmediate;
	described->nulls_equal = index->rd_index->indnullsnotdistinct;
	described->nvalue = meta->nhash;
}

/* Foreign keys may refer to what is plainly unique. */
static void
add_refers(Relation index, RoseIndexSet *set)
{
	if (!index->rd_index->indisunique || has_attribute(index, Anum_pg_index_indexprs) ||
		has_attribute(index, Anum_pg_index_indpred))
		return;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		set->refers = bms_add_member(set->refers, index->rd_index->indkey.values[i]);
}

/* Add an index to the set, if it is one that needs entries. */
static void
add_index(RoseTree *tree, Oid indexid, RoseIndexSet *set)
{
	Relation	index = index_open(indexid, RowExclusiveLock);
	RoseIndexTree *added = &set->trees[set->n];
	RoseMetaInfo info;

	if (is_kept_up(index, &info))
	{
		RoseTree   *entries = rose_tree_open_any_order(index);

		/* another cluster's file has become this one's with that */
		rose_meta_read(index, &info);
		added->indexid = indexid;
		added->valid = index->rd_index->indisvalid;
		rose_index_set_shape(index, &info.index, entries->schema, tree->schema->natts, &added->shape);
		/* who hears that the table was altered hears nothing of the index */
		rose_options_publish(&entries->shared->store.options, RelationGetRelid(tree->rel));
		set->last_source = Max(set->last_source, added->shape.last_source);
		set->depends = bms_add_members(set->depends, added->shape.depends);
		rose_index_set_uniqueness(index, &info.index, added);
		set->nunique += added->unique;
		add_refers(index, set);
		set->n++;
	}
	index_close(index, NoLock);
}

static RoseIndexSet *
make_set(RoseTree *tree, List *indexes)
{
	RoseIndexSet *set = palloc0(offsetof(RoseIndexSet, trees) +
								list_length(indexes) * sizeof(RoseIndexTree));
	ListCell   *lc;

	foreach(lc, indexes)
		add_index(tree, lfirst_oid(lc), set);
	return set;
}

const RoseIndexSet *
rose_index_set_find(RoseTree *tree)
{
	MemoryContext context;
	MemoryContext old;
	RoseIndexSet *set;

	if (tree->unindexed || tree->indexes != NULL)
		return tree->indexes;
	tree->index_generation = rose_index_generation(tree);
	context = AllocSetContextCreate(CurrentMemoryContext, "rose index set",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	set = make_set(tree, RelationGetIndexList(tree->rel));
	MemoryContextSwitchTo(old);
	if (set->n == 0)
	{
		MemoryContextDelete(context);
		tree->unindexed = true;
		return NULL;
	}
	MemoryContextSetParent(context, tree->context);
	tree->grown = true;
	tree->indexes = set;
	return set;
}

const RoseIndexTree *
rose_index_set_tree(RoseTree *tree, Oid indexid)
{
	const RoseIndexSet *set = rose_index_set(tree);

	for (int i = 0; set != NULL && i < set->n; i++)
		if (set->trees[i].indexid == indexid)
			return &set->trees[i];
	return NULL;
}
