/*-------------------------------------------------------------------------
 *
 * rose_count.c
 *	  How many rows a table has, known without reading them.  See rose_count.h.
 *
 * A table that was merged and not written since is one component, or the pieces of C2.  How many versions these have
 * is in the manifest; they are as many rows if all of them are whole ones that the snapshot sees, and none has
 * another one's key.  Memtables are asked for a first version that the snapshot could see: there must be none.
 * Anything else is for scans.
 *
 * Takes a view as scans do (rose_sources.c), and holds it until it returns.  Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/predicate.h"
#include "utils/memutils.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/read/rose_count.h"
#include "lsm/read/rose_source.h"

/* Does it give out no version? */
static bool
is_empty(RoseSource *memtable)
{
	memtable->ops->position(memtable, ForwardScanDirection, NULL, 0, true);
	return memtable->state == ROSE_SOURCE_END;
}

static bool
count_sources(RoseSource **sources, int nsources, uint64 *rows)
{
	bool		counted = false;

	*rows = 0;
	for (int i = 0; i < nsources; i++)
	{
		RoseSource *source = sources[i];

		if (source->entry == NULL)
		{
			if (!is_empty(source))
				return false;
			continue;
		}
		/* two could have versions of one key */
		if (counted || source->ops->count == NULL || !source->ops->count(source, rows))
			return false;
		counted = true;
	}
	return true;
}

bool
rose_count_settled(RoseTree *tree, Snapshot snapshot, uint64 *rows)
{
	RoseSource *sources[ROSE_SOURCES_MAX];
	RoseReading reading = {0};
	RoseKeyRange all = {0};
	RoseVisibility vis;
	int			nsources;
	bool		result;

	rose_visibility_init(&vis, snapshot);
	rose_copied_require(tree, &vis);
	if (vis.kind != ROSE_SNAPSHOT_MVCC || CheckForSerializableConflictOutNeeded(tree->rel, snapshot))
		return false;
	reading.tree = tree;
	reading.vis = &vis;
	reading.range = &all;
	reading.context = AllocSetContextCreate(CurrentMemoryContext, "rose count",
											ALLOCSET_DEFAULT_SIZES);
	nsources = rose_sources_take(&reading, true, sources);
	result = count_sources(sources, nsources, rows);
	for (int i = 0; i < nsources; i++)
		sources[i]->ops->close(sources[i]);
	rose_view_release(reading.view);
	MemoryContextDelete(reading.context);
	return result;
}
