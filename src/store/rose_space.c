/*-------------------------------------------------------------------------
 *
 * rose_space.c
 *	  What the file's regions are used for, and giving back its end.
 *
 * Who looks takes alloc_lock for the list of owners only and reads the maps
 * after that: regions allocated meanwhile are counted as free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/storage.h"
#include "storage/lmgr.h"

#include "util/rose_stop_point.h"
#include "store/rose_space.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* The owners of one moment and what for. */
typedef struct OwnerUse
{
	uint32		id;
	RoseSpaceUse use;
} OwnerUse;

typedef struct OwnerUses
{
	int			n;
	OwnerUse	owners[ROSE_MAX_LISTED_OWNERS]; /* ascending by id */
	int			nretired;
	RoseOwnerRange retired[ROSE_MAX_RETIRED];	/* what these have not, and no tail
												 * segments */
} OwnerUses;

static void
add_owner(OwnerUses *uses, uint32 id, RoseSpaceUse use)
{
	if (id == 0)
		return;
	Assert(uses->n < lengthof(uses->owners));
	uses->owners[uses->n].id = id;
	uses->owners[uses->n++].use = use;
}

static int
compare_owners(const void *a, const void *b)
{
	uint32		x = ((const OwnerUse *) a)->id;
	uint32		y = ((const OwnerUse *) b)->id;

	return x < y ? -1 : x > y;
}

/* REQUIRES: alloc_lock exclusive. */
static void
collect_uses(Relation rel, RoseStoreShared *store, OwnerUses *uses)
{
	static const RoseSpaceUse of_level[] = {ROSE_SPACE_RUNS, ROSE_SPACE_C1, ROSE_SPACE_C2};
	Buffer		buffer;
	const RoseMetaDisk *meta;

	uses->n = 0;
	rose_region_owner_purge(store);
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	meta = rose_meta_of(BufferGetPage(buffer));
	for (int i = 0; i < meta->ncomponents; i++)
		add_owner(uses, meta->components[i].id, of_level[Min(meta->components[i].level, 2)]);
	for (int i = 0; i < meta->ntails; i++)
		add_owner(uses, meta->tails[i].id, ROSE_SPACE_TAIL);
	UnlockReleaseBuffer(buffer);
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
		add_owner(uses, store->building[i].id, ROSE_SPACE_BUILDING);
	uses->nretired = rose_retired_ranges(store->retired, store->nretired, uses->retired);
	qsort(uses->owners, uses->n, sizeof(OwnerUse), compare_owners);
}

static RoseSpaceUse
use_of(const OwnerUses *uses, uint32 entry)
{
	OwnerUse	key = {.id = ROSE_MAP_OWNER(entry)};
	const OwnerUse *found = bsearch(&key, uses->owners, uses->n, sizeof(OwnerUse),
									compare_owners);

	if (found != NULL)
		return found->use;
	if ((entry & ROSE_MAP_TAIL) == 0 &&
		rose_ranges_contain(uses->retired, uses->nretired, key.id))
		return ROSE_SPACE_RETIRED;
	return ROSE_SPACE_FREE;
}

/* Count blocks by use. */
static void
count_regions(Relation rel, const OwnerUses *uses, uint32 nregions, uint64 *counts)
{
	uint32		last_entry = 0;
	RoseSpaceUse last_use = ROSE_SPACE_FREE;

	for (uint32 region = 0; region < nregions;)
	{
		uint32		group = rose_region_group(region);
		uint32		first = rose_group_first(group);
		uint32		end = Min(nregions, rose_group_first(group + 1));
		Buffer		buffer = rose_map_lock(rel, group);
		const uint32 *entries = BufferIsValid(buffer) ?
			rose_map_entries(BufferGetPage(buffer), group) : NULL;

		for (; region < end; region++)
		{
			uint32		entry = entries ? entries[region - first] : 0;

			if (entry != last_entry)
			{
				last_entry = entry;
				last_use = entry != 0 ? use_of(uses, entry) : ROSE_SPACE_FREE;
			}
			counts[last_use] += rose_group_unit(group);
		}
		if (entries)
			UnlockReleaseBuffer(buffer);
	}
}

/* The end of the last region in use, looked for from the end of the file: that reads few maps. */
static uint32
find_live_end(Relation rel, const OwnerUses *uses, uint32 nregions)
{
	uint32		end = nregions;

	while (end > 0)
	{
		uint32		group = rose_region_group(end - 1);
		uint32		first = rose_group_first(group);
		Buffer		buffer = rose_map_lock(rel, group);
		const uint32 *entries;

		if (!BufferIsValid(buffer))
		{
			end = first;
			continue;
		}
		entries = rose_map_entries(BufferGetPage(buffer), group);
		while (end > first && (entries[end - 1 - first] == 0 ||
							   use_of(uses, entries[end - 1 - first]) == ROSE_SPACE_FREE))
			end--;
		UnlockReleaseBuffer(buffer);
		if (end > first)
			break;
	}
	return end;
}

/* First block behind the region in front of which the file is in use. */
static BlockNumber
end_block(Relation rel, uint32 live_end)
{
	BlockNumber base = rose_file_base(rel);

	return live_end > 0 ?
		rose_region_block(base, live_end - 1) + rose_regions_blocks(live_end - 1, 1) :
		rose_meta_block(base) + 1;
}

void
rose_space_measure(Relation rel, RoseStoreShared *store, RoseSpace *space)
{
	OwnerUses  *uses = palloc(sizeof(OwnerUses));
	uint64		of_regions = 0;
	uint32		nregions;

	memset(space, 0, sizeof(*space));
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	collect_uses(rel, store, uses);
	LWLockRelease(&store->alloc_lock);

	space->file_blocks = rose_file_nblocks(rel);
	nregions = rose_regions_touched(rose_file_base(rel), space->file_blocks);
	count_regions(rel, uses, nregions, space->blocks);
	for (int use = 0; use < ROSE_SPACE_USES; use++)
		of_regions += space->blocks[use];
	space->blocks[ROSE_SPACE_FIXED] = space->file_blocks - Min(of_regions, space->file_blocks);
	space->end_free = space->file_blocks -
		Min(space->file_blocks, end_block(rel, find_live_end(rel, uses, nregions)));
	pfree(uses);
}

/*
 * Truncation is replayed without regard to what was written after it, so
 * truncate_lsn keeps components from going without WAL until a checkpoint.
 * REQUIRES AccessExclusiveLock.
 */
static void
truncate_file(Relation rel, RoseStoreShared *store)
{
	OwnerUses  *uses = palloc(sizeof(OwnerUses));
	BlockNumber nblocks = rose_file_nblocks(rel);
	uint32		live_end;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	collect_uses(rel, store, uses);
	live_end = find_live_end(rel, uses, rose_regions_touched(rose_file_base(rel), nblocks));
	LWLockRelease(&store->alloc_lock);
	pfree(uses);
	if (end_block(rel, live_end) >= nblocks)
		return;

	ROSE_STOP_POINT("space-locked");
	RelationTruncate(rel, end_block(rel, live_end));

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	store->truncate_lsn = GetXLogInsertRecPtr();
	store->alloc_hint = Min(store->alloc_hint, live_end);
	LWLockRelease(&store->alloc_lock);
	ROSE_STOP_POINT("space-truncated");
}

void
rose_space_give_back(Relation rel, RoseStoreShared *store, uint64 least)
{
	OwnerUses  *uses = palloc(sizeof(OwnerUses));
	BlockNumber nblocks,
				end;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	collect_uses(rel, store, uses);
	LWLockRelease(&store->alloc_lock);
	nblocks = rose_file_nblocks(rel);
	end = end_block(rel, find_live_end(rel, uses, rose_regions_touched(rose_file_base(rel), nblocks)));
	pfree(uses);
	if (nblocks < end + Max(least, 1) ||
		!ConditionalLockRelation(rel, AccessExclusiveLock))
		return;
	truncate_file(rel, store);
	UnlockRelation(rel, AccessExclusiveLock);
}

/* WAL knows nothing of the file, so nothing has to be remembered for replay. */
void
rose_space_cut_all(Relation rel, RoseStoreShared *store)
{
	BlockNumber end = end_block(rel, 0);

	Assert(RelationUsesLocalBuffers(rel));
	if (rose_file_nblocks(rel) <= end)
		return;
	RelationTruncate(rel, end);
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	store->alloc_hint = 0;
	LWLockRelease(&store->alloc_lock);
}
