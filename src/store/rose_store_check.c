/*-------------------------------------------------------------------------
 *
 * rose_store_check.c
 *	  Structural checks of metapage, region maps and tail log, for rose.check.
 *
 * Works on a copy of the metapage while others go on.  The caller's pin keeps
 * the regions of every component in the copy; a tail segment may be dropped
 * meanwhile, so a problem of one counts only if the list still has it.
 *
 * Takes the metapage's lock and those of map pages, for moments each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "store/rose_file_name.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_store.h"
#include "store/rose_store_check.h"
#include "store/rose_store_internal.h"

typedef struct StoreCheck
{
	Relation	rel;
	BlockNumber meta_block;
	RoseProblemCallback report;
	void	   *arg;
	RoseMetaDisk meta;			/* copy */
	uint32		nregions;		/* in the file */
	uint64		component_blocks[ROSE_MAX_COMPONENTS];	/* of regions found in the maps */
} StoreCheck;

static void problem(StoreCheck *check, BlockNumber block, const char *fmt,...) pg_attribute_printf(3, 4);

static void
problem(StoreCheck *check, BlockNumber block, const char *fmt,...)
{
	char		message[256];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	check->report(check->arg, block, message);
}

/* Map entry of a region; 0 if nobody's. */
static uint32
map_entry(Relation rel, uint32 region)
{
	uint32		group = rose_region_group(region);
	Buffer		buffer = rose_map_lock(rel, group);
	uint32		entry = 0;

	if (BufferIsValid(buffer))
	{
		entry = rose_map_entries(BufferGetPage(buffer), group)[region - rose_group_first(group)];
		UnlockReleaseBuffer(buffer);
	}
	return entry;
}

static void
check_components(StoreCheck *check)
{
	const RoseMetaDisk *meta = &check->meta;
	BlockNumber base = rose_file_base(check->rel);

	for (int i = 0; i < meta->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &meta->components[i];

		if (entry->id == 0 || entry->id >= meta->next_owner)
			problem(check, check->meta_block, "component id %u was never given out", entry->id);
		for (int j = 0; j < i; j++)
		{
			if (meta->components[j].id == entry->id)
				problem(check, check->meta_block, "component %u is listed twice", entry->id);
		}
		if (entry->state != ROSE_COMPONENT_LIVE && entry->state != ROSE_COMPONENT_PENDING)
			problem(check, check->meta_block, "component %u has unknown state %u",
					entry->id, entry->state);
		if (entry->level > 2)
			problem(check, check->meta_block, "component %u has unknown level %u",
					entry->id, entry->level);
		if (i > 0 && entry->level < 2 && meta->components[i - 1].level == 2)
			problem(check, check->meta_block, "component %u of level %u comes after one of level 2",
					entry->id, entry->level);
		if (entry->first_ordinal >= entry->nrows)
			problem(check, check->meta_block, "component %u has no versions left", entry->id);
		if (entry->min_seq > entry->max_seq)
			problem(check, check->meta_block, "component %u has a lowest sequence above its highest",
					entry->id);
		if (rose_block_is_fixed(base, entry->footer_block) ||
			map_entry(check->rel, rose_block_region(base, entry->footer_block)) != entry->id)
			problem(check, check->meta_block, "footer of component %u is in block %u, which does not belong to it",
					entry->id, entry->footer_block);
	}
}

/* Ids in the maps, and the number of blocks of each component. */
static void
check_maps(StoreCheck *check)
{
	for (uint32 region = 0; region < check->nregions;)
	{
		uint32		group = rose_region_group(region);
		uint32		end = Min(check->nregions, rose_group_first(group + 1));
		PGAlignedBlock copy;
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = rose_map_lock(check->rel, group);
		memset(copy.data, 0, BLCKSZ);
		if (BufferIsValid(buffer))
		{
			memcpy(copy.data, BufferGetPage(buffer), BLCKSZ);
			UnlockReleaseBuffer(buffer);
		}
		for (; region < end; region++)
		{
			uint32		entry = rose_map_entries(copy.data, group)[region - rose_group_first(group)];

			for (int i = 0; i < check->meta.ncomponents; i++)
			{
				if (entry == check->meta.components[i].id)
					check->component_blocks[i] += rose_group_unit(group);
			}
		}
	}
	for (int i = 0; i < check->meta.ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &check->meta.components[i];
		uint64		blocks = check->component_blocks[i];

		/* what it has shed is not its own any more; does it lack more than that? its pages tell */
		if (blocks < entry->nblocks &&
			((entry->flags & ROSE_COMPONENT_SHRINKS) == 0 || entry->first_ordinal == 0))
			problem(check, check->meta_block, "component %u has " UINT64_FORMAT " blocks, but regions with only " UINT64_FORMAT,
					entry->id, entry->nblocks, blocks);
	}
}

static bool
tail_is_listed(StoreCheck *check, uint32 id)
{
	RoseMetaInfo info;

	rose_meta_read(check->rel, &info);
	for (int i = 0; i < info.ntails; i++)
	{
		if (info.tails[i].id == id)
			return true;
	}
	return false;
}

/* Follow the chain of a segment: each of its pages must be in a region of it. */
static void
check_tail(StoreCheck *check, const RoseTailSegmentDisk *tail, PGAlignedBlock *page)
{
	BlockNumber base = rose_file_base(check->rel);
	BlockNumber block = tail->first_block;
	uint32		number = 0;

	if (tail->id == 0 || tail->id >= check->meta.next_owner)
		problem(check, check->meta_block, "tail segment id %u was never given out", tail->id);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (rose_block_is_fixed(base, block) ||
			map_entry(check->rel, rose_block_region(base, block)) != (tail->id | ROSE_MAP_TAIL))
		{
			if (tail_is_listed(check, tail->id))
				problem(check, block, "page %u of tail segment %u does not belong to it",
						number, tail->id);
			return;
		}
		if (!rose_tail_read_page(check->rel, tail->id, number, block, NULL, page))
			return;
		block = rose_tail_page_of(page->data)->next;
		number++;
	} while (block != InvalidBlockNumber);
}

bool
rose_store_check_owner(Relation rel, uint32 id, uint64 first_ordinal, BlockNumber block)
{
	uint32		entry = map_entry(rel, rose_block_region(rose_file_base(rel), block));
	Buffer		buffer;
	const RoseMetaDisk *meta;
	bool		since = true;

	if (entry == id)
		return true;
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	meta = rose_meta_of(BufferGetPage(buffer));
	for (int i = 0; i < meta->ncomponents; i++)
		if (meta->components[i].id == id)
			since = meta->components[i].first_ordinal > first_ordinal;
	UnlockReleaseBuffer(buffer);
	return since && entry == rose_component_shed_owner(id);
}

void
rose_store_check(Relation rel, RoseStoreShared *store,
				 RoseProblemCallback report, void *arg)
{
	StoreCheck *check = palloc0(sizeof(StoreCheck));
	PGAlignedBlock *page = palloc(sizeof(PGAlignedBlock));
	Buffer		buffer;

	Assert(RelFileLocatorEquals(store->locator, rose_file_name(rel)));
	check->rel = rel;
	check->meta_block = rose_meta_block(rose_file_base(rel));
	check->report = report;
	check->arg = arg;
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	check->meta = *rose_meta_of(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);

	/* A last region that the file has only in part counts too. */
	check->nregions = rose_regions_touched(rose_file_base(rel), rose_file_nblocks(rel));

	check_components(check);
	check_maps(check);
	for (int i = 0; i < check->meta.ntails; i++)
		check_tail(check, &check->meta.tails[i], page);
	pfree(page);
	pfree(check);
}
