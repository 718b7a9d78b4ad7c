/*-------------------------------------------------------------------------
 *
 * rose_shed.c
 *	  Regions of a component that only its trimmed versions had.  See rose_shed.h.
 *
 * A region is named by any of its blocks, and goes as a whole.  That is right because a
 * writer gives out all blocks of a region before any of the next one
 * (rose_blockwriter_reserve): if a region has a leaf that is read no more, and not the
 * first leaf that is needed, all that it has was reserved before that one.  What of it is
 * needed nevertheless, the caller has to keep.
 *
 * Pure functions but for the last one, which takes alloc_lock.  What this does not do:
 * know what is on pages (lsm/component/rose_component_shed.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_manifest.h"
#include "store/rose_shed.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

RoseShed *
rose_shed_begin(Relation rel, uint32 component)
{
	RoseShed   *shed = palloc0(sizeof(RoseShed));

	shed->base = rose_file_base(rel);
	shed->component = component;
	shed->size = 64;
	shed->regions = palloc(shed->size * sizeof(uint32));
	return shed;
}

void
rose_shed_add(RoseShed *shed, BlockNumber block)
{
	uint32		region = rose_block_region(shed->base, block);

	if (shed->n > 0 && shed->regions[shed->n - 1] == region)
		return;
	if (shed->n == shed->size)
	{
		shed->size *= 2;
		shed->regions = repalloc_huge(shed->regions, shed->size * sizeof(uint32));
	}
	shed->regions[shed->n++] = region;
}

static int
compare_regions(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

void
rose_shed_finish(RoseShed *shed)
{
	int			n = 0;

	qsort(shed->regions, shed->n, sizeof(uint32), compare_regions);
	for (int i = 0; i < shed->n; i++)
		if (n == 0 || shed->regions[i] != shed->regions[n - 1])
			shed->regions[n++] = shed->regions[i];
	shed->n = n;
}

/* Index of the first region that is not less. */
static int
lower_bound(const RoseShed *shed, uint32 region)
{
	int			low = 0;
	int			high = shed->n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (shed->regions[middle] < region)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* REQUIRES: the first block and the last one are of regions. */
void
rose_shed_keep(RoseShed *shed, BlockNumber first, uint32 nblocks)
{
	int			from;
	int			to;

	if (nblocks == 0)
		return;
	from = lower_bound(shed, rose_block_region(shed->base, first));
	to = lower_bound(shed, rose_block_region(shed->base, first + nblocks - 1) + 1);
	memmove(&shed->regions[from], &shed->regions[to], (shed->n - to) * sizeof(uint32));
	shed->n -= to - from;
}

void
rose_shed_hand_over(Relation rel, RoseStoreShared *store, const RoseShed *shed)
{
	if (shed->n > 0)
		rose_region_hand_over(rel, store, shed->component,
							  rose_component_shed_owner(shed->component), shed->regions, shed->n);
}
