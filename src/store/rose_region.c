/*-------------------------------------------------------------------------
 *
 * rose_region.c
 *	  Regions: which are free, allocating and releasing them, extending the file.
 *
 * All changes of the region maps and every extension of the file happen under
 * alloc_lock; the relation extension lock, a heavyweight lock, is not needed.
 * Map changes are generic WAL.  The extension is not logged: after a crash the file may
 * end before regions that the map knows, so "is the region in the file" and "is
 * its owner live" are always asked separately.
 *
 * Allocation is next-fit from alloc_hint, and at the end of the file when nothing is
 * free.  Each component begins at the start of the file, so that what is free gathers at
 * the end, where VACUUM can cut it off.  A search that found nothing is not repeated
 * before something was freed (maybe_free), and none reads maps of which it is known that
 * everything in them is in use (rose_region_search.c).
 *
 * What a region may be used for depends on what WAL replay could still do to
 * it; see "Unlogged components" in the README.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* The file grows by at most this part of itself at a time. */
#define GROWTH_PART		128

/* ---- Map pages ---- */

static void
check_map(Relation rel, BlockNumber block, Page page)
{
	const RoseMapDisk *map = rose_map_of(page);

	if (map->magic != ROSE_MAP_MAGIC || map->version != ROSE_MAP_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation \"%s\" is not a valid rose region map page",
						block, RelationGetRelationName(rel)),
				 errdetail("Its magic number is %08X and its version %u; expected were %08X and %u.",
						   map->magic, map->version, ROSE_MAP_MAGIC, ROSE_MAP_VERSION)));
}

Buffer
rose_map_lock(Relation rel, uint32 group)
{
	BlockNumber block = rose_map_block(rose_file_base(rel), group);
	Buffer		buffer;

	if (group == 0)
		return rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	if (block >= rose_file_nblocks(rel))
		return InvalidBuffer;
	buffer = ReadBuffer(rel, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (PageIsNew(BufferGetPage(buffer)))
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	check_map(rel, block, BufferGetPage(buffer));
	return buffer;
}

/* A change of the map of one group. */
typedef struct MapEdit
{
	RoseMetaEdit meta;			/* of group 0 */
	Buffer		buffer;			/* of others; else invalid */
	GenericXLogState *xlog;
} MapEdit;

/* The entries, to be changed.  REQUIRES: the map page is in the file. */
static uint32 *
map_edit_begin(Relation rel, uint32 group, MapEdit *edit)
{
	BlockNumber block = rose_map_block(rose_file_base(rel), group);
	Page		page;
	RoseMapDisk *map;
	bool		new;

	edit->buffer = InvalidBuffer;
	if (group == 0)
		return rose_meta_edit_begin(rel, &edit->meta)->small_map;
	edit->buffer = ReadBuffer(rel, block);
	LockBuffer(edit->buffer, BUFFER_LOCK_EXCLUSIVE);
	new = PageIsNew(BufferGetPage(edit->buffer));
	edit->xlog = GenericXLogStart(rel);
	page = GenericXLogRegisterBuffer(edit->xlog, edit->buffer, new ? GENERIC_XLOG_FULL_IMAGE : 0);
	map = rose_map_of(page);
	if (new)
	{
		PageInit(page, BLCKSZ, rose_file_special(rel));
		map->magic = ROSE_MAP_MAGIC;
		map->version = ROSE_MAP_VERSION;
		((PageHeader) page)->pd_lower = ROSE_PAGE_CONTENT + sizeof(RoseMapDisk);
	}
	else
		check_map(rel, block, page);
	return map->entries;
}

static XLogRecPtr
map_edit_finish(MapEdit *edit)
{
	XLogRecPtr	lsn;

	if (!BufferIsValid(edit->buffer))
		return rose_meta_edit_finish(&edit->meta);
	lsn = GenericXLogFinish(edit->xlog);
	UnlockReleaseBuffer(edit->buffer);
	return lsn;
}

/* Set entries of regions of one group.  REQUIRES: the map page is in the file. */
static XLogRecPtr
set_entries(Relation rel, uint32 first, int nregions, uint32 entry)
{
	uint32		group = rose_region_group(first);
	MapEdit		edit;
	uint32	   *entries = map_edit_begin(rel, group, &edit) + (first - rose_group_first(group));

	Assert(first + nregions <= rose_group_first(group + 1));
	for (int i = 0; i < nregions; i++)
		entries[i] = entry;
	return map_edit_finish(&edit);
}

/* ---- Looking for free regions ---- */

/* Whose map pages a search reads. */
typedef struct MapReader
{
	Relation	rel;
	Buffer		buffer;
} MapReader;

static const uint32 *
open_map(void *arg, uint32 group)
{
	MapReader  *reader = arg;

	reader->buffer = rose_map_lock(reader->rel, group);
	if (!BufferIsValid(reader->buffer))
		return NULL;
	return rose_map_entries(BufferGetPage(reader->buffer), group);
}

static void
close_map(void *arg)
{
	UnlockReleaseBuffer(((MapReader *) arg)->buffer);
}

/* Next-fit among the regions that lie in the file. */
static bool
find_free(Relation rel, RoseStoreShared *store, RoseRegionSearch *search, int want,
		  uint32 *first, int *nregions)
{
	uint32		nfile = rose_regions_in(rose_file_base(rel), rose_file_nblocks(rel));
	uint32		hint = Min(store->alloc_hint, nfile);

	search->zones = &store->zones;
	return rose_region_find(search, hint, nfile, want, first, nregions) ||
		rose_region_find(search, 0, hint, want, first, nregions);
}

/*
 * At the end of the file.  Regions past the end may have live owners too, if a
 * crash cut off blocks that were allocated but not yet used.
 */
static void
find_at_end(Relation rel, RoseRegionSearch *search, int want, uint32 *first, int *nregions)
{
	uint32		from = rose_regions_in(rose_file_base(rel), rose_file_nblocks(rel));
	uint32		limit = rose_regions_in(rose_file_base(rel), MaxBlockNumber);

	search->zones = NULL;
	if (!rose_region_find(search, from, limit, want, first, nregions))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend relation \"%s\" beyond %u blocks",
						RelationGetRelationName(rel), MaxBlockNumber)));
}

/* Make the file reach to the end of a region; the pages are zero. */
static void
extend_over(Relation rel, uint32 region)
{
	BlockNumber nblocks = rose_file_nblocks(rel);
	BlockNumber end = rose_region_block(rose_file_base(rel), region) +
		rose_regions_blocks(region, 1);

	if (end > nblocks)
		rose_smgr_zero_extend(RelationGetSmgr(rel), nblocks, end - nblocks);
}

/* ---- Writing without WAL ---- */

static bool
logs_components(RoseStoreShared *store)
{
	int			option = rose_options_get(&store->options, ROSE_OPTION_WAL_COMPONENTS);

	return option == ROSE_OPTION_UNSET ? rose_wal_components : option != 0;
}

bool
rose_store_may_skip_wal(Relation rel, RoseStoreShared *store)
{
	bool		result;

	if (logs_components(store) || !RelationNeedsWAL(rel))
		return false;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	if (store->skipped_wal)
	{
		/* The transaction that made the file is over; core may have logged it. */
		store->truncate_lsn = GetXLogInsertRecPtr();
		rose_store_note_logged(store, store->truncate_lsn);
		store->skipped_wal = false;
	}
	result = GetRedoRecPtr() >= store->truncate_lsn;
	LWLockRelease(&store->alloc_lock);
	return result;
}

/* Could replay still put old page images into regions that were components'? */
static bool
may_reuse_unlogged(RoseStoreShared *store)
{
	return GetRedoRecPtr() >= pg_atomic_read_u64(&store->logged_lsn);
}

/* ---- Allocation ---- */

/*
 * Choose among what is in the file.  While components go without WAL, the tail log
 * prefers regions that only it may use.
 */
static bool
choose_free(Relation rel, RoseStoreShared *store, RoseRegionSearch *search,
			RoseRegionUse use, int want, uint32 *first, int *nregions)
{
	bool		found;

	if (!store->maybe_free[use])
		return false;
	if (use == ROSE_REGION_UNLOGGED && !may_reuse_unlogged(store))
		return false;

	if (use == ROSE_REGION_TAIL && !logs_components(store))
	{
		search->only_tail = true;
		found = find_free(rel, store, search, want, first, nregions);
		search->only_tail = false;
		if (found)
			return true;
	}
	found = find_free(rel, store, search, want, first, nregions);
	if (!found)
		store->maybe_free[use] = false;
	return found;
}

void
rose_region_search_from_start(RoseStoreShared *store)
{
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	store->alloc_hint = 0;
	LWLockRelease(&store->alloc_lock);
}

/*
 * How many blocks to take at the end of the file: what the caller wants, but
 * not much against what the file has.  He may need less.
 */
static int
limit_growth(Relation rel, int want)
{
	return Min(want, ROSE_REGION_BLOCKS + (int) (rose_file_nblocks(rel) / GROWTH_PART));
}

uint32
rose_region_alloc(Relation rel, RoseStoreShared *store, uint32 owner,
				  RoseRegionUse use, int want, bool at_end,
				  int *nregions, XLogRecPtr *lsn)
{
	MapReader	reader = {.rel = rel};
	RoseRegionSearch search = {.open_map = open_map, .close_map = close_map, .arg = &reader};
	uint32		entry = use == ROSE_REGION_TAIL ? owner | ROSE_MAP_TAIL : owner;
	uint32		first = 0;

	Assert(want > 0);
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	rose_region_owner_collect(rel, store, &search.live);
	rose_zones_forget_dead(&store->zones, &search.live);
	search.not_tail = use == ROSE_REGION_UNLOGGED;

	if (at_end)
		find_at_end(rel, &search, want, &first, nregions);
	else if (!choose_free(rel, store, &search, use, want, &first, nregions))
		find_at_end(rel, &search, limit_growth(rel, want), &first, nregions);

	extend_over(rel, first + *nregions - 1);
	*lsn = set_entries(rel, first, *nregions, entry);
	rose_zones_note_used(&store->zones, first, *nregions, entry);
	store->alloc_hint = first + *nregions;
	if (use == ROSE_REGION_LOGGED)
		rose_store_note_logged(store, *lsn);
	LWLockRelease(&store->alloc_lock);
	return first;
}

void
rose_region_release(Relation rel, RoseStoreShared *store, uint32 owner,
					uint32 first, int nregions)
{
	if (nregions <= 0)
		return;
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	set_entries(rel, first, nregions, 0);
	rose_region_owner_note_freed(store);
	rose_zones_note_free(&store->zones, first, nregions);
	store->alloc_hint = Min(store->alloc_hint, first);
	LWLockRelease(&store->alloc_lock);
}

/* Both owners may live or not: what is free then, the next search finds. */
void
rose_region_hand_over(Relation rel, RoseStoreShared *store, uint32 from, uint32 to,
					  const uint32 *regions, int n)
{
	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	for (int i = 0; i < n;)
	{
		uint32		group = rose_region_group(regions[i]);
		uint32		first = rose_group_first(group);
		MapEdit		edit;
		uint32	   *entries = map_edit_begin(rel, group, &edit);

		for (; i < n && rose_region_group(regions[i]) == group; i++)
		{
			if (entries[regions[i] - first] != from)
				continue;
			entries[regions[i] - first] = to;
			rose_zones_note_free(&store->zones, regions[i], 1);
		}
		(void) map_edit_finish(&edit);
	}
	rose_region_owner_note_freed(store);
	LWLockRelease(&store->alloc_lock);
}
