/*-------------------------------------------------------------------------
 *
 * server_unit_inner.c
 *	  Inner pages over entries: whatever is looked for, they lead to the leaf that has it.
 *
 * Leaves are stretches of the sorted rows, of a few versions each; nothing is in them.
 * The pages that the builder writes stay in memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"


#include "server_unit.h"

#define LEAF_VERSIONS	3
#define KEY_VERSIONS	2		/* of each key, so that some go on in the next leaf */
#define MAX_PAGES		1024
#define FIRST_BLOCK		1000	/* of inner pages; leaves have their number */

/* ---- the builder's file ---- */

static char *pages[MAX_PAGES];
static int	npages;

BlockNumber
rose_blockwriter_reserve(RoseBlockWriter *writer)
{
	if (npages == MAX_PAGES)
		elog(ERROR, "too many inner pages");
	return FIRST_BLOCK + npages++;
}

void
rose_blockwriter_write(RoseBlockWriter *writer, BlockNumber block, const char *page)
{
	char	   *copy = palloc(BLCKSZ);

	memcpy(copy, page, BLCKSZ);
	pages[block - FIRST_BLOCK] = copy;
}

/* ---- versions ---- */

/* Version i of all: each row has KEY_VERSIONS, the newest first. */
static const Row *
row_of(const Tester *tester, int i)
{
	return tester->sorted[i / KEY_VERSIONS];
}

static uint64
seq_of(int i)
{
	return 100 - i % KEY_VERSIONS;
}

static RoseColumnGroupDisk
build(Tester *tester, int nversions)
{
	RoseColumnGroupDisk group = {0};
	RoseTreeBuilder *tree = rose_tree_builder_create(tester->schema, 0, NULL,
													 CurrentMemoryContext);
	char	   *scratch = palloc(ROSE_ITEM_MAX_SIZE);

	npages = 0;
	for (int i = 0; i < nversions; i += LEAF_VERSIONS)
	{
		RoseSeparator separator = {.ncols = 0, .seq = ROSE_SEPARATOR_ANY};

		if (i > 0)
			rose_separator_make(tester->schema, row_of(tester, i - 1)->key,
								row_of(tester, i)->key, seq_of(i), &separator, scratch);
		rose_tree_builder_add(tree, &separator, 1 + i / LEAF_VERSIONS, i);
	}
	rose_tree_builder_finish(tree, &group);
	return group;
}

/* ---- searches ---- */

typedef enum Direction
{
	LOWER,						/* the first version from (key, seq) on */
	UPPER						/* the last one with a prefix up to this */
} Direction;

/* The number of the leaf that the pages lead to, from 0. */
static int
descend(Tester *tester, const RoseColumnGroupDisk *group, Direction direction, const Datum *key,
		int ncols, uint64 seq)
{
	int			ninnercols;
	RoseColumnDesc *descs = rose_inner_column_descs(tester->schema, NULL, &ninnercols,
													CurrentMemoryContext);
	RosePageReader *reader = rose_page_reader_create(ninnercols, descs, CurrentMemoryContext);
	BlockNumber block = group->root;

	for (int depth = 0; depth < group->height; depth++)
	{
		int			slot;

		rose_page_reader_init(reader, pages[block - FIRST_BLOCK]);
		slot = direction == LOWER ?
			rose_inner_find_lower(reader, tester->schema, key, ncols, seq) :
			rose_inner_find_upper(reader, tester->schema, key, ncols);
		block = rose_inner_child(reader, slot);
		rose_page_reader_close(reader);
	}
	return (int) block - 1;
}

/*
 * The version that was looked for is in that leaf.  If it is the first or last one of a leaf,
 * the leaf may be the neighbour, since separators lie anywhere between two leaves.
 */
static void
check_found(Tester *tester, const RoseColumnGroupDisk *group, int nversions, Direction direction,
			const Row *row, int ncols, uint64 seq)
{
	int			width = tester->schema->nkeys;
	int			at = 0;
	int			leaf;
	bool		found;

	/* how many versions are before it (LOWER), or not behind it (UPPER) */
	for (; at < nversions; at++)
	{
		int			cmp = rose_key_compare(tester->schema, row_of(tester, at)->key, row->key, ncols);

		if (direction == UPPER ? cmp > 0 :
			cmp > 0 || (cmp == 0 && (ncols < width || seq_of(at) <= seq)))
			break;
	}
	leaf = descend(tester, group, direction, row->key, ncols, seq);
	if (direction == UPPER)
		found = leaf == Max(at - 1, 0) / LEAF_VERSIONS ||
			(at % LEAF_VERSIONS == 0 && leaf == at / LEAF_VERSIONS);
	else
		found = leaf == Min(at, nversions - 1) / LEAF_VERSIONS ||
			(at % LEAF_VERSIONS == 0 && leaf == at / LEAF_VERSIONS - 1);
	CHECK(found, "search by %d columns leads to leaf %d, but %s version is %d", NAME(tester),
		  ncols, leaf, direction == UPPER ? "the last" : "the first", at);
}

/* Every other row is in the leaves; all are looked for, and by all numbers of columns. */
void
check_inner_pages(Tester *tester)
{
	Row		   *all[MAX_ROWS];
	int			nrows = tester->nrows;
	int			nversions;
	RoseColumnGroupDisk group;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "inner pages",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	memcpy(all, tester->sorted, sizeof(all));
	for (int i = 0; 2 * i < nrows; i++)
		tester->sorted[i] = all[2 * i];
	nversions = (nrows + 1) / 2 * KEY_VERSIONS;
	group = build(tester, nversions);
	for (int i = 0; i < nrows; i++)
	{
		for (int ncols = 1; ncols <= tester->schema->nkeys; ncols++)
		{
			check_found(tester, &group, nversions, UPPER, all[i], ncols, 0);
			check_found(tester, &group, nversions, LOWER, all[i], ncols, PG_UINT64_MAX);
		}
		for (uint64 seq = 98; seq <= 101; seq++)
			check_found(tester, &group, nversions, LOWER, all[i], tester->schema->nkeys, seq);
	}
	memcpy(tester->sorted, all, sizeof(all));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
