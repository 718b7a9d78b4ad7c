/*-------------------------------------------------------------------------
 *
 * rose_inner.c
 *	  Inner pages of a component: built bottom-up, searched top-down.
 *
 * An inner page has one row a child: the child's block, the ordinal of the
 * first version below it, and a separator, which is a lower bound of what is
 * below it and greater than everything below its left neighbour.  Separators
 * are as short as the comparator allows: trailing key columns that do not
 * decide are NULL (minus infinity), and text that is compared bytewise is cut
 * after the first byte that decides.  The sequence takes part only where
 * versions of one key go on from one leaf to the next.  A column that is NULL in keys, by
 * its rank, is NULL in separators and says nothing there.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/pg_locale.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component_internal.h"

/* ---- separators ---- */

/* May a value of this key column be cut at any byte without changing its order? */
static bool
key_column_is_bytewise(const RoseKeyColumn *column)
{
	if (column->def.flags & ROSE_KEY_DESCENDING)
		return false;			/* a shorter value would be behind */
	switch (column->def.opcintype)
	{
		case BYTEAOID:
			return true;
		case TEXTOID:
			return OidIsValid(column->def.collation) &&
				rose_collation_is_c(column->def.collation);
		default:
			return false;
	}
}

/*
 * Shortest prefix of 'first' that is greater than 'last', made in scratch
 * (ROSE_ITEM_MAX_SIZE bytes); 'first' itself if cutting saves nothing.
 */
static Datum
cut_varlena(Datum last, Datum first, char *scratch)
{
	struct varlena *a = (struct varlena *) DatumGetPointer(last);
	struct varlena *b = (struct varlena *) DatumGetPointer(first);
	int			alen = VARSIZE_ANY_EXHDR(a);
	int			blen = VARSIZE_ANY_EXHDR(b);
	int			common = 0;

	while (common < alen && common < blen &&
		   VARDATA_ANY(a)[common] == VARDATA_ANY(b)[common])
		common++;
	if (common + 1 >= blen || VARHDRSZ + common + 1 > ROSE_ITEM_MAX_SIZE)
		return first;
	SET_VARSIZE(scratch, VARHDRSZ + common + 1);
	memcpy(VARDATA(scratch), VARDATA_ANY(b), common + 1);
	return PointerGetDatum(scratch);
}

void
rose_separator_make(const RoseSchema *schema, const Datum *last, const Datum *first,
					uint64 first_seq, RoseSeparator *separator, char *scratch)
{
	int			width = rose_schema_key_width(schema);
	int			ncols = 1;

	while (ncols < width && rose_key_compare(schema, last, first, ncols) == 0)
		ncols++;

	separator->ncols = ncols;
	memcpy(separator->key, first, ncols * sizeof(Datum));
	if (ncols == width && rose_key_compare(schema, last, first, width) == 0)
	{
		separator->seq = (int64) first_seq;
		return;
	}
	separator->seq = ROSE_SEPARATOR_ANY;
	if (schema->nkeys > 0 && key_column_is_bytewise(&schema->keys[ncols - 1]))
		separator->key[ncols - 1] = cut_varlena(last[ncols - 1], first[ncols - 1], scratch);
}

/* ---- building ---- */

typedef struct RoseTreeLevel
{
	RosePageBuilder *pages;
	int			nrows;			/* on the current page */
	RoseKeyBuffer first_key;	/* separator of the current page's first child ... */
	int			first_ncols;
	int64		first_seq;
	uint64		first_ordinal;
} RoseTreeLevel;

struct RoseTreeBuilder
{
	const RoseSchema *schema;
	MemoryContext context;
	uint32		component_id;
	RoseBlockWriter *writer;
	int			ncols;
	RoseColumnDesc *descs;
	int			height;
	RoseTreeLevel levels[ROSE_MAX_HEIGHT];
	BlockNumber last_block;		/* page or leaf written or added last */
	uint64		nleaves;
	uint64		ninner;
	char	   *page;
};

RoseTreeBuilder *
rose_tree_builder_create(const RoseSchema *schema, uint32 component_id,
						 RoseBlockWriter *writer, MemoryContext context)
{
	RoseTreeBuilder *tree = MemoryContextAllocZero(context, sizeof(RoseTreeBuilder));

	tree->schema = schema;
	tree->context = context;
	tree->component_id = component_id;
	tree->writer = writer;
	tree->descs = rose_inner_column_descs(schema, NULL, &tree->ncols, context);
	tree->page = MemoryContextAllocZero(context, BLCKSZ);
	return tree;
}

static void tree_add(RoseTreeBuilder *tree, int level, const RoseSeparator *separator,
					 BlockNumber child, uint64 ordinal);

/* Write the current page of a level; returns its block. */
static BlockNumber
tree_write_page(RoseTreeBuilder *tree, int level)
{
	RoseTreeLevel *lvl = &tree->levels[level];
	RosePageHeaderDisk *header;
	BlockNumber block = rose_blockwriter_reserve(tree->writer);

	rose_page_builder_pack(lvl->pages, tree->page);
	header = rose_page_header(tree->page);
	header->kind = ROSE_PAGE_INNER;
	header->component_id = tree->component_id;
	header->level = level + 1;
	header->first_ordinal = lvl->first_ordinal;
	rose_blockwriter_write(tree->writer, block, tree->page);
	tree->ninner++;
	lvl->nrows = 0;
	return block;
}

/* Write the current page of a level and enter it into the level above. */
static void
tree_flush_page(RoseTreeBuilder *tree, int level)
{
	RoseTreeLevel *lvl = &tree->levels[level];
	RoseSeparator separator;

	separator.ncols = lvl->first_ncols;
	separator.seq = lvl->first_seq;
	memcpy(separator.key, lvl->first_key.key, separator.ncols * sizeof(Datum));
	tree_add(tree, level + 1, &separator, tree_write_page(tree, level), lvl->first_ordinal);
}

static void
tree_remember_first(RoseTreeBuilder *tree, RoseTreeLevel *lvl, const RoseSeparator *separator,
					uint64 ordinal)
{
	lvl->first_ncols = separator->ncols;
	lvl->first_seq = separator->seq;
	lvl->first_ordinal = ordinal;
	rose_key_buffer_set_prefix(&lvl->first_key, tree->schema, separator->key,
							   separator->ncols);
}

static void
tree_add(RoseTreeBuilder *tree, int level, const RoseSeparator *separator,
		 BlockNumber child, uint64 ordinal)
{
	RoseTreeLevel *lvl = &tree->levels[level];
	Datum		values[ROSE_INNERCOLS + INDEX_MAX_KEYS];
	bool		nulls[ROSE_INNERCOLS + INDEX_MAX_KEYS];

	if (level >= ROSE_MAX_HEIGHT)
		elog(ERROR, "component %u has too many levels", tree->component_id);
	if (level >= tree->height)
	{
		tree->height = level + 1;
		lvl->pages = rose_page_builder_create(tree->ncols, tree->descs, tree->context);
		rose_key_buffer_init(&lvl->first_key, tree->context);
	}

	values[ROSE_INNERCOL_CHILD] = Int64GetDatum((int64) child);
	values[ROSE_INNERCOL_ORDINAL] = Int64GetDatum((int64) ordinal);
	values[ROSE_INNERCOL_SEQ] = Int64GetDatum(separator->seq);
	memset(nulls, false, sizeof(nulls));
	for (int j = 0; j < tree->ncols - ROSE_INNERCOLS; j++)
	{
		bool		there = j < separator->ncols &&
			!rose_key_is_null(tree->schema, separator->key, j);

		nulls[ROSE_INNERCOLS + j] = !there;
		values[ROSE_INNERCOLS + j] = there ? separator->key[j] : (Datum) 0;
	}

	for (int attempt = 0;; attempt++)
	{
		RoseAppendResult result = rose_page_builder_append(lvl->pages, values, nulls);

		if (result == ROSE_APPEND_OK)
			break;
		if (result == ROSE_APPEND_TOO_LARGE || attempt > 0 || lvl->nrows < 2)
			elog(ERROR, "separator of component %u does not fit an inner page",
				 tree->component_id);
		tree_flush_page(tree, level);
	}
	if (lvl->nrows++ == 0)
		tree_remember_first(tree, lvl, separator, ordinal);
}

void
rose_tree_builder_add(RoseTreeBuilder *tree, const RoseSeparator *separator,
					  BlockNumber child, uint64 ordinal)
{
	tree->nleaves++;
	tree->last_block = child;
	/* a single leaf is the root itself */
	tree_add(tree, 0, separator, child, ordinal);
}

void
rose_tree_builder_finish(RoseTreeBuilder *tree, RoseColumnGroupDisk *group)
{
	group->nleaves = tree->nleaves;
	if (tree->nleaves <= 1)
	{
		group->root = tree->last_block;
		group->height = 0;
		group->ninner = 0;
		return;
	}
	/* flushing a level may add one above; the topmost has a single page */
	for (int level = 0; level < tree->height - 1; level++)
		tree_flush_page(tree, level);
	group->root = tree_write_page(tree, tree->height - 1);
	group->height = tree->height;
	group->ninner = tree->ninner;
}

/* ---- searching ---- */

BlockNumber
rose_inner_child(RosePageReader *reader, int slot)
{
	bool		isnull;
	int64		child = DatumGetInt64(rose_page_get(reader, ROSE_INNERCOL_CHILD, slot, &isnull));

	if (isnull || child <= 0 || child > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("bad child pointer in an inner page of component %u",
						rose_page_reader_header(reader)->component_id)));
	return (BlockNumber) child;
}

/* Of the first row below the child. */
uint64
rose_inner_ordinal(RosePageReader *reader, int slot)
{
	bool		isnull;
	int64		ordinal = DatumGetInt64(rose_page_get(reader, ROSE_INNERCOL_ORDINAL, slot, &isnull));

	if (isnull || ordinal < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("bad row number in an inner page of component %u",
						rose_page_reader_header(reader)->component_id)));
	return (uint64) ordinal;
}

int
rose_inner_find_lower(RosePageReader *reader, const RoseSchema *schema,
					  const Datum *key, int ncols, uint64 seq)
{
	int			lo = 0;
	int			hi = rose_page_reader_nrows(reader);
	bool		isnull;
	int			slot;

	if (!rose_page_narrow(reader, schema, true, key, ncols, &lo, &hi))
		return Max(lo - 1, 0);

	/* all of [lo, hi) have this prefix, and with it what its rank says is NULL */
	while (ncols > 0 && ncols < rose_schema_key_width(schema) &&
		   rose_key_is_null(schema, key, ncols))
	{
		ncols++;
		seq = PG_UINT64_MAX;
	}
	if (ncols < rose_schema_key_width(schema))
	{
		(void) rose_page_get(reader, ROSE_INNERCOLS + ncols, lo, &isnull);
		return isnull ? lo : Max(lo - 1, 0);
	}

	/* last separator whose sequence is not below seq */
	seq = Min(seq, (uint64) PG_INT64_MAX);
	slot = rose_page_search_seq(reader, ROSE_INNERCOL_SEQ, lo, hi, seq);
	if (slot < hi &&
		(uint64) DatumGetInt64(rose_page_get(reader, ROSE_INNERCOL_SEQ, slot, &isnull)) == seq)
		return slot;
	return Max(slot - 1, 0);
}

int
rose_inner_find_upper(RosePageReader *reader, const RoseSchema *schema,
					  const Datum *key, int ncols)
{
	int			lo = 0;
	int			hi = rose_page_reader_nrows(reader);

	if (!rose_page_narrow(reader, schema, true, key, ncols, &lo, &hi))
		return Max(lo - 1, 0);
	return hi - 1;
}

int
rose_inner_find_ordinal(RosePageReader *reader, uint64 ordinal)
{
	int			first;
	int			last;

	rose_page_search(reader, ROSE_INNERCOL_ORDINAL, 0, rose_page_reader_nrows(reader),
					 Int64GetDatum((int64) ordinal), NULL, NULL, &first, &last);
	return first < last ? first : Max(first - 1, 0);
}

void
rose_inner_move(RosePageReader *reader, BlockNumber block, uint64 ordinal, uint64 end, RoseInnerPlace *place)
{
	int			last = rose_page_reader_nrows(reader) - 1;

	if (place->block == block && ordinal >= place->first && ordinal < place->end)
		return;
	if (place->block == block && ordinal == place->end && place->slot < last)
	{
		place->slot++;
		place->first = place->end;
	}
	else
	{
		place->block = block;
		place->slot = rose_inner_find_ordinal(reader, ordinal);
		place->first = rose_inner_ordinal(reader, place->slot);
	}
	place->end = place->slot < last ? rose_inner_ordinal(reader, place->slot + 1) : end;
}

/* ---- an inner page as arrays ---- */

RoseInnerArray *
rose_inner_array_make(RosePageReader *reader, const RoseSchema *schema, MemoryContext context)
{
	int			n = rose_page_reader_nrows(reader);
	RoseInnerArray *array;
	bool		isnull;

	if (rose_schema_key_width(schema) != 1 || (schema->nkeys > 0 && !schema->keys[0].int_order))
		return NULL;
	for (int i = 0; i < n; i++)
	{
		int64		seq = DatumGetInt64(rose_page_get(reader, ROSE_INNERCOL_SEQ, i, &isnull));

		if (isnull || seq != ROSE_SEPARATOR_ANY)
			return NULL;
		(void) rose_page_get(reader, ROSE_INNERCOLS, i, &isnull);
		if (isnull && i > 0)
			return NULL;
	}
	array = MemoryContextAlloc(context, sizeof(RoseInnerArray));
	array->n = n;
	array->separators = MemoryContextAlloc(context, n * sizeof(int64));
	array->children = MemoryContextAlloc(context, n * sizeof(BlockNumber));
	for (int i = 0; i < n; i++)
	{
		Datum		separator = rose_page_get(reader, ROSE_INNERCOLS, i, &isnull);

		if (isnull)
			array->separators[i] = PG_INT64_MIN;
		else
			array->separators[i] = schema->nkeys > 0 ? rose_key_int(&schema->keys[0], separator) :
				DatumGetInt64(separator);
		array->children[i] = rose_inner_child(reader, i);
	}
	return array;
}
