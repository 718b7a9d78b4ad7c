/*-------------------------------------------------------------------------
 *
 * rose_component_shed.c
 *	  Which regions of a component nobody needs who leaves out its first versions?
 *
 * Its leaves are found in the inner pages above them, none of them is read.  A builder
 * reserves blocks as it goes (rose_builder.c): when it takes a block for a leaf, all
 * leaves before have theirs, and an inner page gets its block when all its children are
 * known, and the leaf behind them.  So what was reserved before the first leaf that is
 * needed are leaves and inner pages that are not, and pages of the Bloom filter, which are
 * needed as long as the component: these are kept.  Overflow pages, which neighbouring rows
 * share, would be another such kind; components that have some do not shrink
 * (ROSE_COMPONENT_SHRINKS).
 *
 * Inner pages that lie in small regions by themselves, and regions that have filter pages,
 * too, stay until the component goes.
 *
 * Reads only, without locks, as cursors do.  What is done with the regions is
 * store/rose_shed.c's and who trims decides when.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_shed.h"
#include "lsm/component/rose_component_internal.h"

typedef struct ShedWalk
{
	const RoseComponent *component;
	Relation	rel;
	uint64		from;
	uint64		to;
	RoseShed   *shed;
	BlockNumber needed;			/* the leaf that has row 'to' */
} ShedWalk;

/*
 * The leaves below an inner page, from the one with row 'from' on.  to_is_here: it is on
 * the way to the one with row 'to', at which the walk ends; if not, all is before that.
 */
static void
walk_inner(ShedWalk *walk, int depth, BlockNumber block, bool to_is_here)
{
	const RoseComponent *component = walk->component;
	char	   *image = palloc(BLCKSZ);
	RosePageReader *reader = rose_page_reader_create(component->ninnercols, component->inner_descs,
													 CurrentMemoryContext);
	int			first;
	int			last;

	CHECK_FOR_INTERRUPTS();
	rose_component_read_inner(component, walk->rel, block, image, reader);
	first = rose_inner_find_ordinal(reader, walk->from);
	last = rose_inner_find_ordinal(reader, walk->to);
	for (int slot = first; slot <= last; slot++)
	{
		BlockNumber child = rose_inner_child(reader, slot);
		bool		has_to = to_is_here && slot == last;

		if (depth + 1 < component->group.height)
			walk_inner(walk, depth + 1, child, has_to);
		else if (has_to)
			walk->needed = child;
		else
			rose_shed_add(walk->shed, child);
	}
	rose_page_reader_free(reader);
	pfree(image);
}

RoseShed *
rose_component_find_shed(const RoseComponent *component, Relation rel, uint64 from, uint64 to)
{
	ShedWalk	walk = {.component = component, .rel = rel, .from = from, .to = to};

	Assert(from <= to && to < component->footer.nrows);
	walk.shed = rose_shed_begin(rel, component->info.entry.id);
	if (component->group.height == 0)
		return walk.shed;
	walk.needed = InvalidBlockNumber;
	walk_inner(&walk, 0, component->group.root, true);
	rose_shed_finish(walk.shed);
	rose_shed_keep(walk.shed, walk.needed, 1);
	for (int i = 0; i < component->nextents; i++)
		rose_shed_keep(walk.shed, component->extents[i].first, component->extents[i].nblocks);
	return walk.shed;
}
