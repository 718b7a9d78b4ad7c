/*-------------------------------------------------------------------------
 *
 * test_regions.c
 *	  Unit test of src/store/rose_region_search.c: whatever is allocated, freed and cut off, a search
 *	  finds what a search through all map pages finds; and in a file of a terabyte it
 *	  reads few of them.  And of rose_store_format.h: each block of a file, of a table or of an
 *	  index, is in one region, or fixed.
 *
 * The file is an array of entries.  Map pages are counted when they are opened.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store_internal.h"
#include "unit_check.h"

#define MAX_GROUPS		9000
#define TERABYTE_GROUPS 8256	/* of 2032 regions of 64 kB */

static RoseMapDisk *maps;		/* MAX_GROUPS; of the first one, ROSE_SMALL_REGIONS entries are in use */
static uint32 nfile;			/* regions in the file */
static RoseZonesShared zones;
static RoseRegionSearch search;
static uint64 nopened;

static uint64 random_state;

static uint32
random_below(uint32 n)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % n;
}

/* ---- the file ---- */

static const uint32 *
open_map(void *arg, uint32 group)
{
	CHECK(arg == maps);
	nopened++;
	/* one that was never written */
	for (int i = 0; i < ROSE_MAP_REGIONS; i++)
		if (maps[group].entries[i] != 0)
			return maps[group].entries;
	return NULL;
}

static void
close_map(void *arg)
{
	CHECK(arg == maps);
}

static uint32 *
entry_of(uint32 region)
{
	uint32		group = rose_region_group(region);

	CHECK(group < MAX_GROUPS);
	return &maps[group].entries[region - rose_group_first(group)];
}

static void
new_file(void)
{
	memset(maps, 0, MAX_GROUPS * sizeof(RoseMapDisk));
	memset(&zones, 0, sizeof(zones));
	memset(&search, 0, sizeof(search));
	search.open_map = open_map;
	search.close_map = close_map;
	search.arg = maps;
	nfile = 0;
	nopened = 0;
}

/* ---- owners ---- */

/* Ids ascend, so the list stays in order. */
static void
add_owner(uint32 id)
{
	RoseLiveOwners *live = &search.live;

	CHECK(live->nlisted < ROSE_MAX_LISTED_OWNERS);
	CHECK(live->nlisted == 0 || live->listed[live->nlisted - 1] < id);
	live->listed[live->nlisted++] = id;
	live->last_entry = 0;
	live->last_live = false;
}

static void
end_owner(int place)
{
	RoseLiveOwners *live = &search.live;

	memmove(&live->listed[place], &live->listed[place + 1],
			(live->nlisted - place - 1) * sizeof(uint32));
	live->nlisted--;
	live->last_entry = 0;
	live->last_live = false;
}

static bool
is_live(uint32 entry)
{
	RoseLiveOwners *live = &search.live;

	for (int i = 0; i < live->nlisted; i++)
		if (live->listed[i] == ROSE_MAP_OWNER(entry))
			return true;
	for (int i = 0; i < live->nretired && (entry & ROSE_MAP_TAIL) == 0; i++)
		if (live->retired[i].first <= entry && entry <= live->retired[i].last)
			return true;
	return false;
}

/* ---- allocation, as rose_region.c does it ---- */

static bool
is_free(uint32 region)
{
	uint32		entry = *entry_of(region);

	if (entry != 0 && is_live(entry))
		return false;
	return search.only_tail ? (entry & ROSE_MAP_TAIL) != 0 :
		!search.not_tail || (entry & ROSE_MAP_TAIL) == 0;
}

/* What a search through everything would find; want: blocks. */
static bool
find_plainly(uint32 from, uint32 to, int want, uint32 *first, int *n)
{
	uint32		in_use = 0;		/* an entry */

	for (uint32 region = from; region < to; region++)
	{
		if (in_use != 0 && *entry_of(region) == in_use)
			continue;
		if (!is_free(region))
		{
			in_use = *entry_of(region);
			continue;
		}
		*first = region;
		for (*n = 1; rose_regions_blocks(region, *n) < (uint32) want && region + *n < to &&
			 rose_region_group(region + *n) == rose_region_group(region) && is_free(region + *n); (*n)++)
			;
		return true;
	}
	return false;
}

static bool
find(uint32 from, uint32 to, int want, bool compare, uint32 *first, int *n)
{
	uint32		expected_first;
	int			expected_n;
	bool		found = rose_region_find(&search, from, to, want, first, n);

	if (!compare)
		return found;
	CHECK(found == find_plainly(from, to, want, &expected_first, &expected_n));
	CHECK(!found || (*first == expected_first && *n == expected_n));
	return found;
}

static uint32
allocate(uint32 entry, uint32 hint, int want, bool at_end, bool compare, int *n)
{
	uint32		first;

	bool		found = false;

	rose_zones_forget_dead(&zones, &search.live);
	search.zones = &zones;
	for (int i = search.only_tail ? 0 : 1; i < 2 && !at_end && !found; i++)
	{
		search.only_tail = i == 0;
		found = find(hint, nfile, want, compare, &first, n) ||
			find(0, hint, want, compare, &first, n);
	}
	if (!found)
	{
		search.zones = NULL;
		search.only_tail = false;
		CHECK(find(nfile, rose_group_first(MAX_GROUPS), want, compare, &first, n));
		nfile = Max(nfile, first + *n);
	}
	for (int i = 0; i < *n; i++)
		*entry_of(first + i) = entry;
	rose_zones_note_used(&zones, first, *n, entry);
	return first;
}

/* ---- everything that happens, at random ---- */

/* The free end of the file goes. */
static void
cut_off(void)
{
	while (nfile > 0 && (*entry_of(nfile - 1) == 0 || !is_live(*entry_of(nfile - 1))))
		*entry_of(--nfile) = 0;
}

static void
change_owners(uint32 *next_id, int most)
{
	RoseLiveOwners *live = &search.live;

	if (random_below(12) == 0 && live->nlisted > most / 2)
		for (int n = random_below(live->nlisted / 2); n > 0; n--)
			end_owner(random_below(live->nlisted));
	if (random_below(3) == 0 && live->nlisted < most)
		add_owner((*next_id)++);
	/* readers come and go, for whom some stay, or live again */
	if (random_below(10) == 0)
	{
		live->nretired = random_below(2);
		live->retired[0].last = random_below(*next_id);
		live->retired[0].first = live->retired[0].last - random_below(live->retired[0].last + 1);
		live->last_entry = 0;
		live->last_live = false;
	}
}

static void
test_random(uint64 seed, int most_owners, int most_regions, int nsteps)
{
	uint32		next_id = 1;
	uint32		hint = 0;

	new_file();
	random_state = seed;
	for (int step = 0; step < nsteps; step++)
	{
		RoseLiveOwners *live = &search.live;
		uint32		id;
		uint32		first;
		int			n;

		change_owners(&next_id, most_owners);
		if (live->nlisted == 0)
			continue;
		id = live->listed[live->nlisted - 1 - random_below(Min(live->nlisted, 3))];
		if (random_below(4) == 0)
			hint = 0;
		search.not_tail = random_below(6) == 0;
		search.only_tail = !search.not_tail && random_below(6) == 0;
		first = allocate(id % 5 == 0 ? id | ROSE_MAP_TAIL : id, Min(hint, nfile),
						 1 + random_below(most_regions * ROSE_REGION_BLOCKS), random_below(20) == 0, true, &n);
		hint = first + n;
		if (random_below(5) == 0)
		{
			/* what was not needed of it */
			int			used = random_below(n);

			for (int i = used; i < n; i++)
				*entry_of(first + i) = 0;
			rose_zones_note_free(&zones, first + used, n - used);
		}
		if (random_below(40) == 0)
			cut_off();
		if (random_below(400) == 0)
			memset(&zones, 0, sizeof(zones));	/* a restart */
	}
	CHECK(most_regions < ROSE_MAP_REGIONS || zones.shift > 0);
}

/* ---- a terabyte ---- */

/* Regions from here on are this owner's, without a word to the zones. */
static void
give(uint32 *region, uint32 n, uint32 entry)
{
	for (uint32 i = 0; i < n; i++)
		*entry_of((*region)++) = entry;
}

/* How many map pages the next allocation of a component, of so many regions, reads. */
static uint64
pages_read(uint32 entry, int want)
{
	uint64		before = nopened;
	int			n;

	(void) allocate(entry, 0, want * ROSE_REGION_BLOCKS, false, false, &n);
	return nopened - before;
}

/*
 * Twenty pieces fill a file of a terabyte but for a few regions at its very end.  Small
 * runs come, each looking for free regions from the start, and go.
 */
static void
test_terabyte(void)
{
	uint32		region = 0;
	uint64		worst = 0;
	uint32		id;

	new_file();
	for (id = 1; id <= 20; id++)
	{
		add_owner(id);
		give(&region, TERABYTE_GROUPS / 20 * ROSE_MAP_REGIONS, id);
	}
	nfile = region + 16;
	add_owner(id);
	CHECK(pages_read(id, 16) >= TERABYTE_GROUPS / 20 * 20); /* after a restart, once */

	/* runs at the end */
	for (int i = 0; i < 1000; i++)
	{
		uint64		n;

		if (search.live.nlisted > 24)
			end_owner(20);
		add_owner(++id);
		n = pages_read(id, 16);
		worst = Max(worst, n);
	}
	printf("# a terabyte, runs at its end: at most " UINT64_FORMAT " map pages an allocation\n", worst);
	CHECK(worst <= 4);

	/* one piece is replaced, in the middle */
	end_owner(9);
	add_owner(++id);
	worst = 0;
	nopened = 0;
	for (int i = 0; i < 5000; i++)
	{
		uint64		n = pages_read(id, 32);

		worst = Max(worst, n);
	}
	printf("# a piece in its middle replaced: " UINT64_FORMAT " map pages in 5000 allocations, at most "
		   UINT64_FORMAT " in one\n", nopened, worst);
	CHECK(worst <= 130);
	CHECK(nopened <= 5000 + 130);
}

/* ---- blocks ---- */

/*
 * A file that grows block by block: what comes is fixed, or the next block of the region
 * at the end.
 */
static void
test_blocks(BlockNumber base)
{
	uint32		region = 0;
	uint32		in_region = 0;
	uint32		nfixed = 0;

	CHECK(rose_map_block(base, 0) == rose_meta_block(base));
	CHECK(rose_regions_in(base, 0) == 0 && rose_regions_touched(base, 0) == 0);
	for (BlockNumber block = 0; block < 3 * ROSE_MAP_GROUP + 1000; block++)
	{
		if (rose_block_is_fixed(base, block))
		{
			CHECK(in_region == 0);
			CHECK(block < base || block == rose_map_block(base, rose_region_group(region)));
			nfixed++;
		}
		else
		{
			CHECK(rose_block_region(base, block) == region);
			CHECK(rose_region_block(base, region) == block - in_region);
			if (++in_region == rose_regions_blocks(region, 1))
			{
				in_region = 0;
				region++;
			}
		}
		CHECK(rose_regions_in(base, block + 1) == region);
		CHECK(rose_regions_touched(base, block + 1) == region + (in_region > 0));
	}
	CHECK(nfixed == base + 5);
}

/* The largest file: nothing goes round. */
static void
test_last_block(BlockNumber base)
{
	uint32		nregions = rose_regions_in(base, MaxBlockNumber);
	BlockNumber end = rose_region_block(base, nregions - 1) + ROSE_REGION_BLOCKS;

	CHECK(end <= MaxBlockNumber && MaxBlockNumber - end <= ROSE_REGION_BLOCKS);
	CHECK(rose_block_region(base, end - 1) == nregions - 1);
}

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	maps = malloc(MAX_GROUPS * sizeof(RoseMapDisk));
	for (int seed = 1; seed <= 20; seed++)
	{
		test_random(seed, 12, 40, 2000);	/* a few groups */
		test_random(seed, 100, 20, 3000);
	}
	for (int seed = 1; seed <= 3; seed++)
		test_random(seed, 100, ROSE_MAP_REGIONS, 2000); /* zones become wider */
	printf("ok 1 - free regions are found\n");
	test_terabyte();
	printf("ok 2 - few map pages are read\n");
	test_blocks(ROSE_TABLE_BASE);
	test_blocks(ROSE_INDEX_BASE);
	test_last_block(ROSE_TABLE_BASE);
	test_last_block(ROSE_INDEX_BASE);
	printf("ok 3 - each block is fixed or in one region\n1..3\n");
	return 0;
}
