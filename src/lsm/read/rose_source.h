/*-------------------------------------------------------------------------
 *
 * rose_source.h
 *	  One sorted stream of versions that a scan merges: a memtable, a component,
 *	  or the pieces of C2 one after the other.
 *
 * A memtable is read in batches that are copied in reading sections of C0, so a scan
 * never keeps arena memory from being freed.  When the memtable is gone at the next batch
 * the source says so (ROSE_SOURCE_GONE) and the scan takes a new list of sources.
 *
 * A component whose keys all lie ahead is not read before the scan gets there.  Until
 * then its source is "waiting": it has a row without version, with the component's first
 * (last, backward) key or one before it, which is all that the scan needs to know.
 *
 * A source has rows in place, of which the present one is one.  Those "at hand" are
 * results of the scan as they are if no other source has their keys: whole rows, the
 * newest versions of their keys here, in the scan's range, and seen by its snapshot.
 *
 * Which source goes first, and what becomes of the rows, is the scan's business.
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SOURCE_H
#define ROSE_SOURCE_H

#include "postgres.h"

#include "access/sdir.h"
#include "storage/bufmgr.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/component/rose_component.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_key_range.h"
#include "lsm/read/rose_scan.h"

/* So many has a scan at most. */
#define ROSE_SOURCES_MAX	(ROSE_MAX_MEMTABLES + ROSE_MAX_COMPONENTS)

/* What the sources of a scan have in common; the scan's own, and must stay in place. */
typedef struct RoseReading
{
	RoseTree   *tree;
	RoseView   *view;			/* that the sources are of; held as long as they are open */
	RoseVisibility *vis;
	const RoseKeyRange *range;
	BufferAccessStrategy strategy;
	MemoryContext context;		/* where sources are made */
} RoseReading;

typedef enum RoseSourceState
{
	ROSE_SOURCE_ROW,			/* row is the current one */
	ROSE_SOURCE_END,			/* nothing more in this direction */
	ROSE_SOURCE_GONE			/* the memtable was freed */
} RoseSourceState;

typedef struct RoseSource RoseSource;

/* NULL where nothing needs to be done, or nothing can be had. */
typedef struct RoseSourceOps
{
	/*
	 * Go to the first row.  key/ncols: bound in the direction of the scan (0 columns =
	 * from the end).  forward: first version with prefix >= key (> if !inclusive);
	 * backward: last with <= (<).
	 */
	void		(*position) (RoseSource *source, ScanDirection direction,
							 const Datum *key, int ncols, bool inclusive);
	/* REQUIRES waiting: go to the row that it waits for. */
	void		(*wake) (RoseSource *source, ScanDirection direction);
	/* REQUIRES not waiting: on to the next row. */
	void		(*advance) (RoseSource *source, ScanDirection direction);
	/* Read the version of the present row. */
	void		(*need_version) (RoseSource *source);

	/*
	 * The rows at hand from the present one on, as a stretch; false: there are none.
	 * Only those before the rival's row, if there is one.  Backward, if there is no
	 * at_hand_backward: rows lie in the order of the scan then, too.
	 */
	bool		(*at_hand) (RoseSource *source, const RoseSource *rival, RoseStretch *stretch);
	/* The same backward, of rows that lie in ascending order: from 'next' down to 'end', one at a time by advance. */
	bool		(*at_hand_backward) (RoseSource *source, const RoseSource *rival,
									 RoseStretch *stretch);
	/*
	 * No other source has rows, and all of a stretch was taken up to the end of the rows:
	 * the next ones become the stretch, and the source goes to the first of them.  Often
	 * nothing but their number needs to be known.
	 */
	bool		(*next_rows) (RoseSource *source, RoseStretch *stretch);
	/*
	 * How many rows all of its versions are, in a range of all keys; false: that is not known without reading them.
	 * Wherever it is.
	 */
	bool		(*count) (RoseSource *source, uint64 *rows);
	/* Go to a slot of the rows at hand, as at_hand gives them. */
	const RoseRow *(*take) (RoseSource *source, int slot);
	/* On to a slot of the rows in place, or if that is behind the last one, to the next rows. */
	void		(*go_to) (RoseSource *source, int slot);
	void		(*close) (RoseSource *source);
} RoseSourceOps;

struct RoseSource
{
	const RoseSourceOps *ops;
	const RoseReading *reading;
	int			order;			/* among the scan's sources: newer ones first */
	RoseSourceState state;
	const RoseRow *row;			/* if state is ROW; see rose_source_need_version */
	uint64		prefix;			/* rose_key_prefix of row */
	bool		waiting;		/* see above */
	bool		committed;		/* only committed versions come from here */
	bool		seen;			/* only versions that the snapshot sees */
	bool		repeats;		/* one key may have several versions in the rows in place */
	const RoseComponentEntryDisk *entry;	/* of the component at hand; NULL: C0 */
};

/* REQUIRES a reading section; the source is not positioned.  filter: leave out what the snapshot does not see. */
extern RoseSource *rose_source_open_memtable(const RoseReading *reading, int slot, bool filter);

/*
 * The same of the only memtable of a view without components, whose rows come in the order
 * of their numbers, forward only, and are all at hand.  It is GONE, too, when it comes to a
 * version that is not a row by itself.  Which number comes next?  everyone: what older
 * transactions have committed everyone sees, as RoseMemArrivals says.
 */
extern RoseSource *rose_source_open_arrivals(const RoseReading *reading, int slot,
											 FullTransactionId everyone);
extern uint64 rose_source_next_arrival(const RoseSource *source);

/* The component at this place of the view's manifest. */
extern RoseSource *rose_source_open_component(const RoseReading *reading, int index);

/* All of C2. */
extern RoseSource *rose_source_open_pieces(const RoseReading *reading);

/*
 * Take a view as of now, which reading holds from then on, and open a source for each
 * memtable and component of it that may have keys of the range; returns their number,
 * ROSE_SOURCES_MAX at most.  They are in order and not positioned.  filter: as
 * rose_source_open_memtable.
 */
extern int	rose_sources_take(RoseReading *reading, bool filter, RoseSource **sources);

/* May the component have keys of the range? */
extern bool rose_source_component_overlaps(const RoseReading *reading, int index);

/* May C2 have some?  Asks filters alone: who reads a range goes to its place in C2 anyway. */
extern bool rose_source_pieces_overlap(const RoseReading *reading);

/* On to the next row; a waiting source only wakes up. */
static inline void
rose_source_advance(RoseSource *source, ScanDirection direction)
{
	if (unlikely(source->waiting))
		source->ops->wake(source, direction);
	else
		source->ops->advance(source, direction);
}

/* Call it before looking at the row's version. */
static inline void
rose_source_need_version(RoseSource *source)
{
	if (source->ops->need_version != NULL)
		source->ops->need_version(source);
}

/* Of sources that stand on versions of the same key: has a the newer one?  The order of memtables says nothing. */
static inline bool
rose_source_is_newer(const RoseSource *a, uint64 a_seq, const RoseSource *b, uint64 b_seq)
{
	if (a->entry == NULL && b->entry == NULL)
		return a_seq > b_seq;
	return a->order < b->order;
}

/* The source has moved: to this row, or to its end. */
static inline void
rose_source_set_row(RoseSource *source, const RoseRow *row)
{
	source->row = row;
	if (row == NULL)
	{
		source->state = ROSE_SOURCE_END;
		return;
	}
	source->state = ROSE_SOURCE_ROW;
	source->prefix = rose_key_prefix(source->reading->tree->schema, row->key);
}

#endif							/* ROSE_SOURCE_H */
