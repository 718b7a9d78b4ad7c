/*-------------------------------------------------------------------------
 *
 * rose_filter_parts.c
 *	  The parts of an open component's Bloom filter, as its footer describes them.
 *
 * Most filters have one part.  Those of components with more than two million keys have
 * several (rose_filter_build.c), each for keys that follow each other; which one is to be
 * asked for a key, the greatest key of each tells.  Pages of a part are found through the
 * extents, from the one on in which it begins.
 *
 * The footer is not trusted here: whatever it says, nothing outside the filter's pages is
 * read.  Asking is rose_filter_ask.c's.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/component/rose_component_internal.h"

static uint32
pages_of(const RoseComponent *component, uint32 nblocks)
{
	uint32		per_page = component->bloom_per_page;

	return nblocks / per_page + (nblocks % per_page > 0);
}

/* Where the parts' pages begin; false: the extents have other pages than the parts. */
static bool
place_parts(RoseComponent *component)
{
	int			extent = 0;
	uint32		skip = 0;
	uint32		first_block = 0;

	for (int i = 0; i < component->nparts; i++)
	{
		RoseFilterPart *part = &component->parts[i];
		uint32		npages = pages_of(component, part->shape.nblocks);

		while (extent < component->nextents && skip >= component->extents[extent].nblocks)
		{
			skip = 0;
			extent++;
		}
		part->first_extent = extent;
		part->skip = skip;
		part->first_block = first_block;
		if (part->shape.nblocks == 0 || part->shape.nblocks > PG_UINT32_MAX - first_block)
			return false;
		first_block += part->shape.nblocks;
		while (npages > 0 && extent < component->nextents)
		{
			uint32		n = Min(npages, component->extents[extent].nblocks - skip);

			npages -= n;
			skip += n;
			if (skip < component->extents[extent].nblocks)
				break;
			skip = 0;
			extent++;
		}
		if (npages > 0)
			return false;
	}
	return first_block == component->footer.bloom_nblocks;
}

/* Several parts: their sizes, then their keys. */
static bool
read_section(RoseComponent *component, char *section, Size length)
{
	int			width = rose_schema_key_width(component->schema);
	const RoseFilterPartDisk *disk = (RoseFilterPartDisk *) (section + sizeof(uint64));
	uint64		nparts;
	Size		at;
	Datum	   *keys;

	if (length < sizeof(nparts))
		return false;
	memcpy(&nparts, section, sizeof(nparts));
	if (nparts < 2 || nparts > (length - sizeof(nparts)) / sizeof(RoseFilterPartDisk))
		return false;
	at = sizeof(nparts) + nparts * sizeof(RoseFilterPartDisk);
	component->nparts = (int) nparts;
	component->parts = MemoryContextAllocZero(component->context, nparts * sizeof(RoseFilterPart));
	keys = MemoryContextAlloc(component->context, nparts * width * sizeof(Datum));
	for (int i = 0; i < component->nparts; i++)
	{
		RoseFilterPart *part = &component->parts[i];

		if (disk[i].key_bytes > length - at || disk[i].key_bytes != MAXALIGN(disk[i].key_bytes))
			return false;
		part->shape.nblocks = disk[i].nblocks;
		part->last_key = keys + i * width;
		rose_key_read(component->schema, section + at, disk[i].key_bytes, part->last_key,
					  component->info.entry.id);
		at += disk[i].key_bytes;
	}
	return true;
}

bool
rose_filter_parts_load(RoseComponent *component, char *section, Size length)
{
	const RoseFooterDisk *footer = &component->footer;

	if (footer->bloom_nblocks == 0)
		return footer->bloom_pages == 0 && section == NULL;
	if (footer->bloom_nprobes < 1 || footer->bloom_nprobes > ROSE_BLOOM_MAX_PROBES)
		return false;
	if (section != NULL)
	{
		if (!read_section(component, section, length))
			return false;
	}
	else
	{
		component->nparts = 1;
		component->parts = MemoryContextAllocZero(component->context, sizeof(RoseFilterPart));
		component->parts[0].shape.nblocks = footer->bloom_nblocks;
	}
	for (int i = 0; i < component->nparts; i++)
		component->parts[i].shape.nprobes = (uint8) footer->bloom_nprobes;
	return place_parts(component);
}

const RoseFilterPart *
rose_filter_part_find(const RoseComponent *component, const Datum *key)
{
	return rose_filter_part_first(component, key, rose_schema_key_width(component->schema));
}

const RoseFilterPart *
rose_filter_part_first(const RoseComponent *component, const Datum *key, int ncols)
{
	int			low = 0;
	int			high = component->nparts - 1;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (rose_key_compare(component->schema, component->parts[middle].last_key, key, ncols) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return &component->parts[low];
}

const RoseFilterPart *
rose_filter_part_next(const RoseComponent *component, const RoseFilterPart *part,
					  const Datum *key, int ncols)
{
	if (part == &component->parts[component->nparts - 1] ||
		rose_key_compare(component->schema, part->last_key, key, ncols) > 0)
		return NULL;
	return part + 1;
}

BlockNumber
rose_filter_part_page(const RoseComponent *component, const RoseFilterPart *part, uint32 page)
{
	page += part->skip;
	for (int i = part->first_extent; i < component->nextents; i++)
	{
		if (page < component->extents[i].nblocks)
			return component->extents[i].first + page;
		page -= component->extents[i].nblocks;
	}
	elog(ERROR, "Bloom page out of range in component %u", component->info.entry.id);
}
