/*-------------------------------------------------------------------------
 *
 * rose_source.h
 *	  One sorted stream of versions that a scan merges: a memtable, a component,
 *	  or the pieces of C2 one after the other.
 *
 * A memtable is read in batches that are copied in reading sections of C0, so a
 * scan never keeps arena memory from being freed.  When the memtable is gone
 * at the next batch the source says so (ROSE_SOURCE_GONE) and the scan takes a new list of
 * sources.
 *
 * A component whose keys all lie ahead is not read before the scan gets there.  Until then its
 * source is "waiting": it has a row without version, with the component's first (last,
 * backward) key or one before it, which is all that the scan needs to know.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SOURCE_H
#define ROSE_SOURCE_H

#include "lsm/read/rose_mem_batch.h"
#include "lsm/read/rose_scan.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"

typedef enum RoseSourceState
{
	ROSE_SOURCE_ROW,			/* row is the current one */
	ROSE_SOURCE_END,			/* nothing more in this direction */
	ROSE_SOURCE_GONE			/* the memtable was freed */
} RoseSourceState;

typedef struct RoseSource
{
	RoseSourceState state;
	const RoseRow *row;			/* if state is ROW; see rose_source_need_version */
	uint64		prefix;			/* rose_key_prefix of row */
	bool		committed;		/* only committed versions come from here */

	/* component, or the piece at hand */
	RoseComponentCursor *cursor;	/* NULL for a memtable */
	RoseComponentEntryDisk entry;
	bool		waiting;		/* see above */
	RoseRow		edge;			/* the row while it is waiting */
	BlockNumber judged_block;	/* leaf that settled_end is about */
	int			settled_end;	/* see rose_stretch.c */
	struct RosePieceChain *chain;	/* NULL: it is the only piece */

	/* memtable */
	RoseMemCursor mem;
	MemoryContext batch_parent;
	RoseMemBatch *batch;
	RoseMemBatch *spare;		/* the one before, which somebody kept; or NULL */
	int			next;			/* row of the batch to return next */
	bool		filter;			/* leave out what the snapshot does not see */
	bool		filled;			/* a batch before this one */
	bool		large;			/* rows of the last batch were large */
	bool		wanted;			/* whole rows of batches were asked for */
	int			asked;			/* else so many first columns at most */
} RoseSource;

/* REQUIRES a reading section; the source is not positioned. */
extern void rose_source_open_memtable(RoseSource *source, RoseTree *tree, int slot,
									  bool filter, MemoryContext context);
extern void rose_source_open_component(RoseSource *source, RoseView *view, int index,
									   BufferAccessStrategy strategy,
									   MemoryContext context);
/* All of C2.  The view is held as long as the source is open. */
extern void rose_source_open_pieces(RoseSource *source, RoseView *view,
									BufferAccessStrategy strategy,
									MemoryContext context);
extern void rose_source_close(RoseSource *source);
/* May the component have keys of this range? */
extern bool rose_source_component_overlaps(RoseView *view, int index,
										   const RoseKeyRange *range);

/*
 * Position.  key/ncols: bound in the direction of the scan (0 columns = from the end).  forward:
 * first version with prefix >= key (> if !inclusive); backward: last with <= (<).
 */
extern void rose_source_position(RoseSource *source, RoseTree *tree,
								 RoseVisibility *vis, ScanDirection direction,
								 const Datum *key, int ncols, bool inclusive);
/* REQUIRES waiting: put the cursor on the row. */
extern void rose_source_wake(RoseSource *source, RoseTree *tree, ScanDirection direction);
/* On to the next row; a waiting source only wakes up. */
extern void rose_source_advance(RoseSource *source, RoseTree *tree,
								RoseVisibility *vis, ScanDirection direction);

/* Call it before looking at the row's version. */
static inline void
rose_source_need_version(const RoseSource *source)
{
	if (source->cursor)
		(void) rose_component_cursor_row(source->cursor);
}

/*
 * Forward, on to a slot of its leaf or row of its batch, or if that is behind the last one, to the
 * first row of the next.
 */
extern void rose_source_goto(RoseSource *source, RoseTree *tree, RoseVisibility *vis, int slot);

#endif							/* ROSE_SOURCE_H */
