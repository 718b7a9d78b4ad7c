/*-------------------------------------------------------------------------
 *
 * rose_region_search.c
 *	  Finding free regions in the region maps, without reading all of them.
 *
 * A region is free if its owner does not live, so nothing is written when regions become
 * free, and a map page does not say how many it has.  A file of a terabyte has 8,000 map
 * pages.  So that a search does not go through those in which everything is in use,
 * shared memory notes what earlier searches have seen:
 *
 * The file is cut into ROSE_ZONES zones of as many regions each, which a map page has, or
 * a multiple.  Of each zone it is known how many regions at its start were found in use,
 * without a gap (passed).  Of each owner that was met there it is known in which zones
 * that was, and at which region first.  Before a search, owners that have died since are
 * taken off the list, and what was passed in their zones shrinks: to nothing, or to their
 * first region where that lies in the zone.  So a search begins where something may be
 * free, wherever regions become free and whoever does it; events of dying, which nobody
 * sees if a process ends, are not needed.
 *
 * Errors are on the safe side.  All this is memory of one server: after a start it is
 * empty, and the first search reads what it needs again.  An owner for whom there is no
 * place in the list is never passed, so that what lies behind him in the zone is read
 * again and again, but not lost.  When the file outgrows the zones, they become twice as
 * wide.
 *
 * Pure functions: the caller holds alloc_lock and provides the map pages.  What is free
 * is taken by rose_region.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* ---- Who lives ---- */

static bool
ids_contain(const uint32 *ids, int n, uint32 id)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ids[low] == id;
}

bool
rose_entry_is_live(RoseLiveOwners *live, uint32 entry)
{
	uint32		id = ROSE_MAP_OWNER(entry);

	/* Neighbouring regions mostly have the same owner. */
	if (entry != live->last_entry)
	{
		live->last_live = ids_contain(live->listed, live->nlisted, id) ||
			((entry & ROSE_MAP_TAIL) == 0 &&
			 rose_ranges_contain(live->retired, live->nretired, id));
		live->last_entry = entry;
	}
	return live->last_live;
}

/* ---- Zones ---- */

static inline uint32
zone_regions(const RoseZonesShared *zones)
{
	return ROSE_MAP_REGIONS << zones->shift;
}

/* Zones twice as wide. */
static void
widen(RoseZonesShared *zones)
{
	uint32		width = zone_regions(zones);

	for (int i = 0; i < ROSE_ZONES / 2; i++)
	{
		uint32		left = zones->passed[2 * i];

		zones->passed[i] = left == width ? width + zones->passed[2 * i + 1] : left;
	}
	memset(&zones->passed[ROSE_ZONES / 2], 0, ROSE_ZONES / 2 * sizeof(uint32));
	for (int i = 0; i < zones->nowners; i++)
	{
		uint64		old = zones->owners[i].zones;
		uint64		new = 0;

		for (int zone = 0; zone < ROSE_ZONES; zone++)
			if (old & UINT64CONST(1) << zone)
				new |= UINT64CONST(1) << (zone / 2);
		zones->owners[i].zones = new;
	}
	zones->shift++;
}

static void
cover(RoseZonesShared *zones, uint32 nregions)
{
	while (nregions > (uint64) ROSE_ZONES * zone_regions(zones))
		widen(zones);
}

/* Nothing from this region on is known to be in use, as far as its zone goes. */
static void
shrink(RoseZonesShared *zones, uint32 region)
{
	uint32		zone = region / zone_regions(zones);

	zones->passed[zone] = Min(zones->passed[zone], region % zone_regions(zones));
}

void
rose_zones_forget_dead(RoseZonesShared *zones, RoseLiveOwners *live)
{
	int			n = 0;

	for (int i = 0; i < zones->nowners; i++)
	{
		const RoseZoneOwnerShared *owner = &zones->owners[i];
		uint32		first_zone = owner->first / zone_regions(zones);

		if (rose_entry_is_live(live, owner->entry))
		{
			zones->owners[n++] = *owner;
			continue;
		}
		for (uint32 zone = first_zone + 1; zone < ROSE_ZONES; zone++)
			if (owner->zones & UINT64CONST(1) << zone)
				zones->passed[zone] = 0;
		shrink(zones, owner->first);
	}
	zones->nowners = n;
}

/* The owner's place in the list; NULL: there is none left. */
static RoseZoneOwnerShared *
find_owner(RoseZonesShared *zones, uint32 entry, uint32 region)
{
	RoseZoneOwnerShared *owner;

	for (int i = 0; i < zones->nowners; i++)
		if (zones->owners[i].entry == entry)
			return &zones->owners[i];
	if (zones->nowners == ROSE_ZONE_OWNERS)
		return NULL;
	owner = &zones->owners[zones->nowners++];
	owner->entry = entry;
	owner->first = region;
	owner->zones = 0;
	return owner;
}

void
rose_zones_note_used(RoseZonesShared *zones, uint32 first, uint32 nregions, uint32 entry)
{
	uint32		region = first;
	uint32		end = first + nregions;
	RoseZoneOwnerShared *owner = NULL;

	cover(zones, end);
	while (region < end)
	{
		uint32		width = zone_regions(zones);
		uint32		zone = region / width;
		uint32		upto = Min(end, (zone + 1) * width);

		if (zone * width + zones->passed[zone] == region)
		{
			if (owner == NULL)
				owner = find_owner(zones, entry, region);
			if (owner == NULL)
				return;
			owner->first = Min(owner->first, region);
			owner->zones |= UINT64CONST(1) << zone;
			zones->passed[zone] = upto - zone * width;
		}
		region = upto;
	}
}

void
rose_zones_note_free(RoseZonesShared *zones, uint32 first, uint32 nregions)
{
	uint32		region = first;

	cover(zones, first + nregions);
	while (region < first + nregions)
	{
		shrink(zones, region);
		region = (region / zone_regions(zones) + 1) * zone_regions(zones);
	}
}

/* From here on, the first region that is not known to be in use. */
static uint32
skip_used(const RoseZonesShared *zones, uint32 region)
{
	uint32		width = zone_regions(zones);

	for (uint32 zone = region / width; zone < ROSE_ZONES; zone++)
	{
		uint32		passed = zone * width + zones->passed[zone];

		if (passed > region)
			region = passed;
		if (region < (zone + 1) * width)
			break;
	}
	return region;
}

/* ---- The search ---- */

static bool
is_usable(const RoseRegionSearch *search, uint32 entry)
{
	if (search->only_tail)
		return (entry & ROSE_MAP_TAIL) != 0;
	if (search->not_tail)
		return (entry & ROSE_MAP_TAIL) == 0;
	return true;
}

/* How many entries are like the first one? */
static uint32
count_alike(const uint32 *map, uint32 index, uint32 end)
{
	uint32		n = 1;

	if (map == NULL)
		return end - index;
	while (index + n < end && map[index + n] == map[index])
		n++;
	return n;
}

/*
 * The first run of usable regions in the map of a group, from *region on and before end,
 * cut to 'want' regions.  False: there is none, and *region is the end.
 */
static bool
find_in_map(RoseRegionSearch *search, const uint32 *map, uint32 *region, uint32 end,
			int want, uint32 *first, int *nregions)
{
	uint32		group_first = rose_group_first(rose_region_group(*region));
	int			run = 0;

	while (*region < end && run < want)
	{
		uint32		index = *region - group_first;
		uint32		entry = map ? map[index] : 0;
		uint32		n = count_alike(map, index, end - group_first);
		bool		live = entry != 0 && rose_entry_is_live(&search->live, entry);

		if (live && run == 0 && search->zones != NULL)
			rose_zones_note_used(search->zones, *region, n, entry);
		if (!live && is_usable(search, entry))
		{
			n = Min(n, (uint32) (want - run));
			run += n;
		}
		else if (run > 0)
			break;
		*region += n;
	}
	*first = *region - run;
	*nregions = run;
	return run > 0;
}

bool
rose_region_find(RoseRegionSearch *search, uint32 from, uint32 to, int want,
				 uint32 *first, int *nregions)
{
	uint32		region = from;

	if (search->zones != NULL)
		cover(search->zones, to);
	for (;;)
	{
		uint32		group;
		const uint32 *map;
		bool		found;

		if (search->zones != NULL)
			region = skip_used(search->zones, region);
		if (region >= to)
			return false;
		group = rose_region_group(region);
		map = search->open_map(search->arg, group);
		found = find_in_map(search, map, &region, Min(to, rose_group_first(group + 1)),
							rose_blocks_regions(group, want), first, nregions);
		if (map != NULL)
			search->close_map(search->arg);
		if (found)
			return true;
	}
}
