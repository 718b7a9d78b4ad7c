/*-------------------------------------------------------------------------
 *
 * rose_sources.c
 *	  The sources of a view: its memtables and the components that may have keys of a range.
 *
 * Takes the view and opens its memtables in one reading section of C0, so that a spill is
 * seen either as the memtable or as its run.  Nothing is read and no lock is held when it
 * returns.
 *
 * In which order rows of the sources are taken, and what becomes of them, is for those who
 * read (rose_scan.c, rose_version_walk.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "lsm/read/rose_source.h"

typedef struct SourceList
{
	RoseSource **sources;
	int			n;
} SourceList;

static void
add_source(SourceList *list, RoseSource *source)
{
	source->order = list->n;
	list->sources[list->n++] = source;
}

static void
open_memtables(const RoseReading *reading, bool filter, SourceList *list)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (reading->view->memtables[slot] != 0)
			add_source(list, rose_source_open_memtable(reading, slot, filter));
}

static void
open_components(const RoseReading *reading, SourceList *list)
{
	const RoseManifest *manifest = &reading->view->manifest;
	int			first_piece = reading->view->first_piece;
	int			npieces = manifest->ncomponents - first_piece;

	if (npieces == 1 && !rose_component_readable(&manifest->components[manifest->ncomponents - 1]))
		npieces = 0;			/* a bulk load into an empty table, not finished */
	for (int i = 0; i < first_piece; i++)
		if (rose_component_readable(&manifest->components[i]) &&
			rose_source_component_overlaps(reading, i))
			add_source(list, rose_source_open_component(reading, i));
	if (npieces > 0 && rose_source_pieces_overlap(reading))
		add_source(list, rose_source_open_pieces(reading));
}

int
rose_sources_take(RoseReading *reading, bool filter, RoseSource **sources)
{
	RoseC0Shared *c0 = &reading->tree->shared->c0;
	SourceList	list = {sources, 0};

	Assert(reading->view == NULL);
	rose_c0_read_begin(c0);
	reading->view = rose_view_take(reading->tree);
	open_memtables(reading, filter, &list);
	rose_c0_read_end(c0);
	ROSE_STOP_POINT("scan-listed");
	open_components(reading, &list);
	return list.n;
}
