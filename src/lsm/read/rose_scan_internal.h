/*-------------------------------------------------------------------------
 *
 * rose_scan_internal.h
 *	  The inside of a scan, for rose_scan.c, rose_source.c, rose_stretch.c and rose_weave.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SCAN_INTERNAL_H
#define ROSE_SCAN_INTERNAL_H

#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_scan.h"

#include "lsm/component/rose_partial.h"
#include "lsm/read/rose_source.h"
#include "lsm/snapshot/rose_visibility.h"

#define ROSE_SCAN_MAX_SOURCES (ROSE_MAX_MEMTABLES + ROSE_MAX_COMPONENTS)

typedef enum ScanPlace
{
	SCAN_START,					/* nothing returned yet: begins at either end */
	SCAN_BEFORE_FIRST,
	SCAN_AT_GROUP,				/* group_key is set, unless a stretch is open */
	SCAN_AFTER_LAST
} ScanPlace;

struct RoseScan
{
	RoseTree   *tree;
	RoseView   *view;			/* that the sources are of, held; or NULL */
	Snapshot	snapshot;
	RoseVisibility vis;
	RoseKeyRange range;
	bool		serializable;
	MemoryContext context;
	MemoryContext source_context;	/* sources; reset when they are taken anew */
	BufferAccessStrategy strategy;

	RoseSource *sources;
	int			nsources;
	const RoseSource *rival;	/* next to the best source found last; or NULL */
	bool		positioned;		/* sources stand where place and direction say */
	ScanDirection direction;
	ScanPlace	place;

	Datum		group_key[INDEX_MAX_KEYS];
	MemoryContext group_context;	/* its by-reference Datums */
	bool		group_done;		/* its row was returned */
	bool		group_left;		/* sources may still have versions of it */

	/* an open stretch (rows are set) is what the scan returns at present */
	RoseStretch stretch;
	RoseSource *stretch_source;
	int			stretch_first;	/* slot it began with */
	struct RoseWeave *weave;	/* that it is a piece of, if that is open; or NULL */

	/* the same backward: from the source's cursor down to a slot; source NULL: none */
	RoseSource *back_source;
	int			back_end;		/* the last of its slots */
	uint64		back_tid;		/* number of slot 0's TID */

	RosePartial partial;
	RoseLookup *lookup;			/* backward scans complete PARTIAL rows by it */

	RoseRow		row;			/* the result */
	Datum		row_key[INDEX_MAX_KEYS];
	MemoryContext row_context;	/* of the row kept by a backward scan */
	bool		row_from_lookup;
	bool		row_in_component;
	RoseComponentEntryDisk row_entry;	/* id 0: none yet */
};

static inline int
scan_compare_keys(RoseScan *scan, const Datum *a, const Datum *b)
{
	const RoseSchema *schema = scan->tree->schema;

	return rose_key_compare(schema, a, b, rose_schema_key_width(schema));
}

/* ---- stretches (rose_stretch.c) ---- */

/*
 * If the rows from this source's current one on, which scan_best_source has just found
 * to be the first of all, are results without more ado: open a stretch of them.
 */
extern bool rose_stretch_begin(RoseScan *scan, RoseSource *source);
/*
 * All of its rows were taken: if nothing but the next leaf can follow, it becomes the stretch.  Who calls
 * this takes a row next.
 */
extern bool rose_stretch_next_leaf(RoseScan *scan);
/* Close it, behind the rows that were taken: the scan is at the last of them. */
extern void rose_stretch_leave(RoseScan *scan);
/* Close it, whatever was taken; the sources are no longer of use. */
extern void rose_stretch_forget(RoseScan *scan);
/* What was taken of it is what the scan is at. */
extern void rose_stretch_set_group(RoseScan *scan);
/*
 * For sources on a row: where the rows end that are results without more ado, if no other source
 * has their keys; and the source's place.
 */
extern int	rose_stretch_leaf_end(RoseScan *scan, RoseSource *source, RoseLeaf **leaf, int *slot);
extern int	rose_stretch_batch_end(RoseScan *scan, RoseSource *source, int *row);
/* Take a row; there must be one. */
extern const RoseRow *rose_stretch_next_row(RoseScan *scan);

/*
 * Backward, one row at a time: begin returns the first row, NULL if there is no stretch; next the
 * next one, NULL if there is none left.  Who leaves it moves the source, or takes the sources anew.
 */
extern const RoseRow *rose_stretch_begin_backward(RoseScan *scan, RoseSource *source);
extern const RoseRow *rose_stretch_next_backward(RoseScan *scan);
extern void rose_stretch_leave_backward(RoseScan *scan);
extern void rose_stretch_tid_backward(RoseScan *scan, ItemPointer tid);

/* ---- weaves (rose_weave.c) ---- */

typedef struct RoseWeave RoseWeave;

/*
 * The same for stretches of all sources in turns.  source is the one that
 * scan_best_source has just found.  The first piece becomes the scan's stretch.
 */
extern bool rose_weave_begin(RoseScan *scan, RoseSource *source);
/* The next piece becomes the stretch; false: there is none. */
extern bool rose_weave_next(RoseScan *scan);
extern bool rose_weave_is_open(const RoseScan *scan);
/* As rose_stretch_leave, for the stretch and all other pieces. */
extern void rose_weave_leave(RoseScan *scan);
/* rose_stretch_forget calls it. */
extern void rose_weave_forget(RoseScan *scan);

#endif							/* ROSE_SCAN_INTERNAL_H */
