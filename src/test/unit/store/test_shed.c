/*-------------------------------------------------------------------------
 *
 * test_shed.c
 *	  Unit test of src/store/rose_shed.c: of components that are written as a builder writes
 *	  them, and trimmed again and again, no region goes that has a page which is needed, and
 *	  all go of which no page is, but for those without a leaf.
 *
 * A component is a list of blocks in the order in which they were reserved: extents of
 * neighbouring regions anywhere in the file, small regions too; leaves, inner pages each of
 * which is needed as long as a leaf below it is, and comes behind the leaf behind those,
 * and pages of the Bloom filter in runs, which are needed for good.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_shed.h"
#include "store/rose_store_internal.h"
#include "unit_check.h"

#define MAX_BLOCKS	4000
#define MAX_REGION	20000		/* several map groups */

typedef enum Kind
{
	LEAF, INNER, BLOOM, UNUSED
} Kind;

typedef struct TestBlock
{
	BlockNumber block;
	Kind		kind;
	int			leaf;			/* its number; of an inner page: that of the last leaf below it */
} TestBlock;

static TestBlock blocks[MAX_BLOCKS];
static int	nblocks;
static int	nleaves;
static bool taken[MAX_REGION];
static bool shed_before[MAX_REGION];
static FormData_pg_class form;
static RelationData relation = {.rd_rel = &form};
static int	handed_over;

static uint64 random_state;

static uint32
random_below(uint32 n)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % n;
}

/* ---- what the server has ---- */

void *
palloc(Size size)
{
	return malloc(size);
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

void *
repalloc_huge(void *pointer, Size size)
{
	return realloc(pointer, size);
}

void
rose_region_hand_over(Relation rel, RoseStoreShared *store, uint32 from, uint32 to,
					  const uint32 *regions, int n)
{
	CHECK(rel == &relation && store == NULL && from == 17 && to == 18 && n > 0 && regions != NULL);
	handed_over += n;
}

/* ---- a component ---- */

static uint32
region_of(const TestBlock *block)
{
	return rose_block_region(rose_file_base(&relation), block->block);
}

/* Regions of one group that are free, in the places where an allocator might find them. */
static void
take_extent(uint32 *first, int *n)
{
	int			want = 1 + random_below(6);

	do
		*first = random_below(5) == 0 ? random_below(ROSE_SMALL_REGIONS) : random_below(MAX_REGION - 10);
	while (taken[*first]);
	for (*n = 0; *n < want && !taken[*first + *n] &&
		 rose_region_group(*first + *n) == rose_region_group(*first); (*n)++)
		taken[*first + *n] = true;
}

static void
reserve_all(int want)
{
	nblocks = 0;
	memset(taken, 0, sizeof(taken));
	while (nblocks < want)
	{
		uint32		first;
		int			n;
		BlockNumber block;

		take_extent(&first, &n);
		block = rose_region_block(rose_file_base(&relation), first);
		for (uint32 i = 0; i < rose_regions_blocks(first, n) && nblocks < MAX_BLOCKS; i++)
		{
			blocks[nblocks].kind = UNUSED;
			blocks[nblocks++].block = block + i;
		}
	}
}

static void
fill_blocks(int want)
{
	int			since_inner = 0;

	nleaves = 0;
	for (int i = 0; i < want; i++)
	{
		int			run = random_below(60) == 0 ? 1 + random_below(20) : 0;

		for (; run > 0 && i < want; run--, i++)
			blocks[i].kind = BLOOM;
		if (i >= want)
			break;
		if (since_inner > 4 + (int) random_below(20))
		{
			blocks[i].kind = INNER;
			blocks[i].leaf = nleaves - 3;
			since_inner = 0;
			continue;
		}
		blocks[i].kind = LEAF;
		blocks[i].leaf = nleaves++;
		since_inner++;
	}
}

/* ---- trims ---- */

static bool
is_needed(const TestBlock *block, int first_leaf)
{
	return block->kind == BLOOM || block->kind == UNUSED || block->leaf >= first_leaf;
}

/* What a trim from one leaf to another one sheds. */
static RoseShed *
shed_between(int from, int to)
{
	RoseShed   *shed = rose_shed_begin(&relation, 17);
	BlockNumber needed = InvalidBlockNumber;

	for (int i = 0; i < nblocks; i++)
	{
		if (blocks[i].kind == LEAF && blocks[i].leaf >= from && blocks[i].leaf < to)
			rose_shed_add(shed, blocks[i].block);
		if (blocks[i].kind == LEAF && blocks[i].leaf == to)
			needed = blocks[i].block;
	}
	rose_shed_finish(shed);
	rose_shed_keep(shed, needed, 1);
	for (int i = 0; i < nblocks; i++)
	{
		int			n = 1;

		if (blocks[i].kind != BLOOM)
			continue;
		while (i + n < nblocks && blocks[i + n].kind == BLOOM && blocks[i + n].block == blocks[i].block + n)
			n++;
		rose_shed_keep(shed, blocks[i].block, n);
		i += n - 1;
	}
	rose_shed_keep(shed, 1, 0);
	return shed;
}

static bool
contains(const RoseShed *shed, uint32 region)
{
	for (int i = 0; i < shed->n; i++)
		if (shed->regions[i] == region)
			return true;
	return false;
}

static void
check_shed(const RoseShed *shed)
{
	for (int i = 0; i < shed->n; i++)
	{
		CHECK(i == 0 || shed->regions[i - 1] < shed->regions[i]);
		CHECK(!shed_before[shed->regions[i]]);
		shed_before[shed->regions[i]] = true;
	}
	handed_over = 0;
	rose_shed_hand_over(&relation, NULL, shed);
	CHECK(handed_over == shed->n);
}

/* Of all that is shed so far no block is needed; and what has a leaf and nothing that is needed is shed. */
static void
check_all(int first_leaf)
{
	for (int i = 0; i < nblocks;)
	{
		uint32		region = region_of(&blocks[i]);
		bool		needed = false;
		bool		has_leaf = false;

		for (; i < nblocks && region_of(&blocks[i]) == region; i++)
		{
			needed = needed || is_needed(&blocks[i], first_leaf);
			has_leaf = has_leaf || blocks[i].kind == LEAF;
		}
		CHECK_AT(!(needed && shed_before[region]), " region %u, leaf %d\n", region, first_leaf);
		CHECK_AT(needed || !has_leaf || shed_before[region], " region %u, leaf %d\n", region, first_leaf);
	}
}

static void
test_component(uint64 seed, char relkind)
{
	int			from = 0;
	int			want;
	int			nshed = 0;

	random_state = seed;
	form.relkind = relkind;
	want = 20 + random_below(MAX_BLOCKS - 100);
	reserve_all(want);
	fill_blocks(Min(want, nblocks));
	memset(shed_before, 0, sizeof(shed_before));
	while (from < nleaves - 1)
	{
		int			step = (int) random_below(2 + nleaves / (1 + random_below(20)));
		int			to = Min(nleaves - 1, from + step);
		RoseShed   *shed = shed_between(from, to);

		CHECK(!contains(shed, MAX_REGION));
		check_shed(shed);
		check_all(to);
		nshed += shed->n;
		from = to;
	}
	CHECK(want < 500 || nshed > want / ROSE_REGION_BLOCKS / 4);
}

int
main(int argc, char **argv)
{
	for (int seed = 1; seed <= 60; seed++)
	{
		test_component(seed, RELKIND_RELATION);
		test_component(seed, RELKIND_INDEX);
	}
	printf("ok 1 - what components shed\n1..1\n");
	return 0;
}
