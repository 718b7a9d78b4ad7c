/*-------------------------------------------------------------------------
 *
 * rose_store.h
 *	  The table's file: its limits, its shared state, the settings of the store.
 *
 * Layout of the main fork.  Block 0 is the metapage.  The rest is cut into regions, the
 * first few of one block, the others of ROSE_REGION_BLOCKS blocks; the metapage, for the
 * first, and region map pages at fixed places say for each region which component or tail
 * segment (an owner id) it belongs to.  A region is free if its owner is 0 or no longer
 * live; an owner is live if the manifest or the tail list names it, or shared memory
 * lists it as being built or as retired but still pinned.  So a build that dies with its
 * process or with the server leaves nothing behind that would have to be cleaned up.
 *
 * Locking.  alloc_lock: region map and the lists of owners in RoseStoreShared.
 * The manifest is protected by the metapage's buffer lock; it changes in one
 * generic WAL record.  Order: writing section of C0, alloc_lock, metapage buffer lock,
 * region map buffer lock.  No function here waits for a heavyweight lock.
 *
 * What is done with the file is in a header for each concept: rose_metapage.h,
 * rose_manifest.h, rose_region_owner.h, rose_block.h, rose_tail.h, rose_tail_replay.h,
 * rose_pin.h, rose_settled.h, rose_space.h, rose_store_check.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STORE_H
#define ROSE_STORE_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/lwlock.h"
#include "utils/rel.h"

#include "compat/rose_compat.h"
#include "util/rose_options.h"

#define ROSE_MAX_COMPONENTS 64
#define ROSE_MAX_TAILS		32
#define ROSE_TAILS_RESERVE	4	/* of these for spills, which carry versions over */
#define ROSE_TAILS_MANY		(ROSE_MAX_TAILS / 2)	/* so many, and a worker spills the table */
#define ROSE_MAX_RETIRED	128

/*
 * Owners that are being built at a time.  Merges of workers, which can be done later, may
 * not have all places.  How many others are built at a time is limited by the locks of
 * those who build them (rose_spill_private.c), so a session always finds a place.
 */
#define ROSE_MAX_BUILDING_KEPT		18
#define ROSE_MAX_BUILDING_OTHERS	14
#define ROSE_MAX_BUILDING	(ROSE_MAX_BUILDING_KEPT + ROSE_MAX_BUILDING_OTHERS)

/* An owner that is being built, and by which process (see rose_pin.c). */
typedef struct RoseBuildingShared
{
	uint32		id;				/* alloc_lock; 0 = free slot */
	int			slot;			/* alloc_lock: builder's backend slot */
	uint32		incarnation;	/* alloc_lock: and which user of that slot */
} RoseBuildingShared;

/* Owners that were replaced, and others between them; see rose_retired.c. */
typedef struct RoseRetiredShared
{
	uint32		first;			/* alloc_lock */
	uint32		last;			/* alloc_lock */
	uint64		generation;		/* alloc_lock: pins older or equal keep them */
} RoseRetiredShared;

/* What searches for free regions have seen; see rose_region_search.c. */
#define ROSE_ZONES			64
#define ROSE_ZONE_OWNERS	128

typedef struct RoseZoneOwnerShared
{
	uint32		entry;			/* alloc_lock: in the region maps */
	uint32		first;			/* alloc_lock: none of its regions that were passed lies before */
	uint64		zones;			/* alloc_lock: bit i: regions of it were passed in zone i */
} RoseZoneOwnerShared;

typedef struct RoseZonesShared
{
	uint32		shift;			/* alloc_lock: a zone has as many regions as 1 << shift map pages */
	uint32		passed[ROSE_ZONES]; /* alloc_lock: regions in use at its start */
	int			nowners;		/* alloc_lock */
	RoseZoneOwnerShared owners[ROSE_ZONE_OWNERS];	/* alloc_lock: of all that was passed */
} RoseZonesShared;

/* When a component was settled; see rose_settled.h. */
typedef struct RoseSettledShared
{
	uint32		id;				/* alloc_lock */
	uint64		generation;		/* alloc_lock; ROSE_UNSETTLED = not yet */
} RoseSettledShared;

/* Blocks at the tail log's disposal, next one first. */
#define ROSE_TAIL_EXTENTS	8
typedef struct RoseTailExtentShared
{
	BlockNumber next;			/* writing section of C0 */
	uint32		nblocks;		/* writing section of C0 */
} RoseTailExtentShared;

/* What a region may be used for; see "Unlogged components" in the README. */
#define ROSE_REGION_USES	3

typedef struct RoseStoreShared
{
	RelFileLocator locator;		/* constant */
	RoseOptionsShared options;	/* of the table; atomic */
	LWLock		alloc_lock;
	pg_atomic_uint64 manifest_version;	/* changed after each switch; no lock */
	pg_atomic_uint32 nruns;		/* live components of level 0 ... */
	pg_atomic_uint64 level_bytes[3];	/* ... and row bytes ... */
	pg_atomic_uint64 level_blocks[3];	/* ... and blocks of each level, as of the
										 * last switch; no lock */
	pg_atomic_uint64 logged_lsn;	/* end of the last WAL record with component
									 * pages; no lock, only grows */
	XLogRecPtr	truncate_lsn;	/* alloc_lock: end of the last truncation's WAL */
	bool		skipped_wal;	/* component pages were written without WAL because
								 * the file was new; alloc_lock to clear */
	RoseBuildingShared building[ROSE_MAX_BUILDING]; /* alloc_lock */
	int			nretired;		/* alloc_lock */
	RoseRetiredShared retired[ROSE_MAX_RETIRED];	/* alloc_lock: in the order of first */
	int			nsettled;		/* alloc_lock */
	RoseSettledShared settled[ROSE_MAX_COMPONENTS]; /* alloc_lock: those that came
													 * since the entry was made */
	uint32		alloc_hint;		/* region to look at first; alloc_lock */
	bool		maybe_free[ROSE_REGION_USES];	/* false: the last search found
												 * nothing and nothing was freed
												 * since; alloc_lock */

	RoseZonesShared zones;		/* alloc_lock */

	pg_atomic_uint32 ntails;	/* length of the tail list as of its last change; no lock */

	/* tail log insertion point; writing section of C0 */
	uint32		tail_segment;	/* 0: none open */
	uint32		tail_last;		/* newest segment in the tail list, open or not */
	bool		tail_busy;		/* an append is, or was when it failed, under way */
	uint64		tail_layout;	/* exact fingerprint of what the segment was told; 0 = nothing yet */
	BlockNumber tail_block;		/* page being filled, or InvalidBlockNumber */
	uint32		tail_pages;		/* pages of the segment in use so far */
	uint32		tail_room;		/* free bytes on tail_block */
	int			tail_nextents;
	RoseTailExtentShared tail_extents[ROSE_TAIL_EXTENTS];
} RoseStoreShared;

/*
 * init: a new registry entry, in the process that makes it; no I/O.  attach: once after
 * that, before the entry is used, under the registry's attach lock: reads the metapage.
 */
extern void rose_store_shared_init(RoseStoreShared *store, RelFileLocator locator);
extern void rose_store_attach(Relation rel, RoseStoreShared *store);

/* Row bytes and blocks of each level, as of the last switch. */
static inline void
rose_store_levels(RoseStoreShared *store, uint64 *bytes, uint64 *blocks)
{
	for (int level = 0; level < lengthof(store->level_bytes); level++)
	{
		bytes[level] = pg_atomic_read_u64(&store->level_bytes[level]);
		blocks[level] = pg_atomic_read_u64(&store->level_blocks[level]);
	}
}

/* Settings of this module: rose.wal_components. */
extern void rose_store_define_settings(void);
extern bool rose_wal_components;

#endif							/* ROSE_STORE_H */
