/*-------------------------------------------------------------------------
 *
 * rose_scan.h
 *	  Reading a tree: ordered scans over C0 and all components, resolved by
 *	  visibility.
 *
 * A scan returns for each key the newest version that its snapshot sees,
 * skipping tombstones and completing PARTIAL versions.  A scan whose memtable
 * was spilled and freed under it takes the new list of sources and goes on
 * behind the last key it returned.
 *
 * Snapshots: MVCC (incl. historic not), SnapshotSelf, SnapshotDirty, SnapshotAny
 * (all versions but locks, as heap) and NonVacuumable (as Any that is not dead).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SCAN_H
#define ROSE_SCAN_H

#include "postgres.h"

#include "access/sdir.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_key_range.h"
#include "lsm/read/rose_tid.h"

typedef struct RoseScan RoseScan;

/* range may be NULL (whole table).  Memory in a child of the current context. */
extern RoseScan *rose_scan_begin(RoseTree *tree, Snapshot snapshot,
								 const RoseKeyRange *range, bool bulk);

/* Start over, with another range (NULL = whole table). */
extern void rose_scan_reset(RoseScan *scan, const RoseKeyRange *range);

/* Next row in direction, or NULL.  Changing direction behaves as for an index scan:
 * backward from a row returns the one before it. Valid until the next call. */
extern const RoseRow *rose_scan_next(RoseScan *scan, ScanDirection direction);

/* The same for those who do not need row->version: if its op is 0, it was not read. */
extern const RoseRow *rose_scan_next_keyed(RoseScan *scan, ScanDirection direction);

/* TID of the row just returned. */
extern void rose_scan_tid(RoseScan *scan, ItemPointer tid);
extern void rose_scan_end(RoseScan *scan);

/*
 * A stretch: some rows in place that are the next results of a scan, as they are, and lie
 * in its order.
 * Whoever wants many rows takes them from here, by raising 'next', instead of calling
 * rose_scan_next for each; the two may be mixed.
 *
 * The rows stay what they are as long as some are left; who needs one longer holds them.
 */
typedef struct RoseStretch
{
	RoseRows   *rows;			/* NULL: no stretch is open */
	int			next;			/* slot of the next row */
	int			end;
	bool		last;			/* what its source has behind it is not in the range */
	uint64		first_tid;		/* number of slot 0's TID, or, if rows have sequence numbers at hand, the
								 * salt of TIDs that are made of those (rose_tid.h) */
} RoseStretch;

static inline bool
rose_stretch_has_row(const RoseStretch *stretch)
{
	return stretch->next < stretch->end;
}

static inline bool
rose_stretch_is_open(const RoseStretch *stretch)
{
	return stretch->rows != NULL;
}

static inline void
rose_stretch_tid(const RoseStretch *stretch, int slot, ItemPointer tid)
{
	const uint64 *seqs = stretch->rows->seqs;

	if (seqs == NULL)
		rose_tid_from_number(stretch->first_tid + (uint64) slot, tid);
	else
		rose_tid_from_seq(stretch->first_tid, seqs[slot], tid);
}

/* Where the scan keeps its stretch. */
extern RoseStretch *rose_scan_stretch(RoseScan *scan);

/*
 * When the stretch has no row left: if others are ready, the stretch has rows again
 * (true).
 */
extern bool rose_scan_next_piece(RoseScan *scan);

/*
 * If that is not so: the next row, as rose_scan_next returns it; or NULL, and the stretch
 * has rows, or the scan is at its end.  Who turns takes a row by rose_scan_next first.
 */
extern const RoseRow *rose_scan_next_stretch(RoseScan *scan, ScanDirection direction);

#endif							/* ROSE_SCAN_H */
