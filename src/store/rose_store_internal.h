/*-------------------------------------------------------------------------
 *
 * rose_store_internal.h
 *	  What the files of the store share with each other only.
 *
 * Each section names the file that has the functions, and what they require.  On-disk
 * structs are in rose_store_format.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STORE_INTERNAL_H
#define ROSE_STORE_INTERNAL_H

#include "access/generic_xlog.h"
#include "catalog/pg_class.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "store/rose_store_format.h"

/* Blocks of the main fork, whatever the table AM says of its size. */
#define rose_file_nblocks(rel) smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM)

/* What the functions of rose_store_format.h have to be told of a relation's file. */
static inline BlockNumber
rose_file_base(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX ? ROSE_INDEX_BASE : ROSE_TABLE_BASE;
}

/* The special space that its pages have; where what is ours on them ends. */
static inline int
rose_file_special(Relation rel)
{
	return rose_file_base(rel) == ROSE_INDEX_BASE ? ROSE_FOREIGN_SPECIAL : 0;
}

static inline int
rose_file_page_end(Relation rel)
{
	return BLCKSZ - rose_file_special(rel);
}

/* ---- rose_store.c ---- */

/* Raise logged_lsn. */
extern void rose_store_note_logged(RoseStoreShared *store, XLogRecPtr lsn);

/* ---- rose_metapage.c ---- */

/* Read, lock (BUFFER_LOCK_*) and check the metapage. */
extern Buffer rose_meta_lock(Relation rel, int lockmode);

/*
 * A change of the metapage of the main fork: begin() locks it and returns a copy to
 * modify; finish() makes the change in one WAL record, whose end it returns (0 if none),
 * and unlocks.  An error in between changes nothing.
 */
typedef struct RoseMetaEdit
{
	Buffer		buffer;
	GenericXLogState *xlog;
} RoseMetaEdit;

extern RoseMetaDisk *rose_meta_edit_begin(Relation rel, RoseMetaEdit *edit);
extern XLogRecPtr rose_meta_edit_finish(RoseMetaEdit *edit);

/* ---- rose_manifest.c ---- */

/* Note the sizes of levels.  REQUIRES: alloc_lock. */
extern void rose_manifest_note_levels(RoseStoreShared *store, int ncomponents,
									  const RoseComponentEntryDisk *components);

/* ---- rose_settled.c ---- */

/* Before this edit of the manifest.  REQUIRES: alloc_lock exclusive. */
extern void rose_settled_edit(RoseStoreShared *store, const RoseMetaDisk *meta,
							  const RoseManifestEdit *edit);

/* ---- rose_retired.c ---- */

typedef struct RoseOwnerRange
{
	uint32		first;
	uint32		last;
} RoseOwnerRange;

/*
 * Note one more in a list, which is in the order of first, or once more one that has a
 * place for itself.  Returns their number, which is never more than ROSE_MAX_RETIRED;
 * cannot fail.
 */
extern int	rose_retired_note(RoseRetiredShared *retired, int n, uint32 id,
							  uint64 generation);

/*
 * Leave of each place what readers may still have: no id above upto, which has one for
 * each place, 0 = none.  Returns the new number; *freed: something went.
 */
extern int	rose_retired_keep(RoseRetiredShared *retired, int n, const uint32 *upto,
							  bool *freed);

/* The list as disjoint ranges, ascending; not more than n.  And a search in them. */
extern int	rose_retired_ranges(const RoseRetiredShared *retired, int n,
								RoseOwnerRange *ranges);
extern bool rose_ranges_contain(const RoseOwnerRange *ranges, int n, uint32 id);

/* ---- rose_region_owner.c ---- */

/* Owners of the manifest, of the tail list and under construction. */
#define ROSE_MAX_LISTED_OWNERS	(ROSE_MAX_COMPONENTS + ROSE_MAX_TAILS + ROSE_MAX_BUILDING)

/* The owners that live at one moment. */
typedef struct RoseLiveOwners
{
	int			nlisted;
	uint32		listed[ROSE_MAX_LISTED_OWNERS]; /* ascending */
	int			nretired;
	RoseOwnerRange retired[ROSE_MAX_RETIRED];	/* ascending, of components only */
	uint32		last_entry;		/* cache of the last answer */
	bool		last_live;
} RoseLiveOwners;

/* REQUIRES: alloc_lock exclusive (purges what is dead).  Reads the metapage. */
extern void rose_region_owner_collect(Relation rel, RoseStoreShared *store, RoseLiveOwners *live);

/* REQUIRES: alloc_lock. */
extern bool rose_region_owner_is_building(const RoseStoreShared *store, uint32 id);

/*
 * REQUIRES: alloc_lock exclusive.  Forget retired owners without pins; and those whose
 * builder is gone, too.
 */
extern void rose_region_owner_purge_retired(RoseStoreShared *store);
extern void rose_region_owner_purge(RoseStoreShared *store);
extern void rose_region_owner_note_freed(RoseStoreShared *store);

/* ---- rose_region_search.c ---- */

/* Has the region with this entry in the map a live owner? */
extern bool rose_entry_is_live(RoseLiveOwners *live, uint32 entry);

/* A search for free regions.  REQUIRES: alloc_lock exclusive. */
typedef struct RoseRegionSearch
{
	RoseLiveOwners live;
	RoseZonesShared *zones;		/* NULL: neither used nor changed */
	bool		only_tail;		/* regions that were a tail segment's last */
	bool		not_tail;		/* none of these */

	/* The map of a group, NULL if all its entries are 0; close is called for those that are not NULL. */
	const uint32 *(*open_map) (void *arg, uint32 group);
	void		(*close_map) (void *arg);
	void	   *arg;
} RoseRegionSearch;

/*
 * The first run of usable regions in [from, to), cut to one group and to 'want' blocks,
 * rounded up to whole regions; false if there is none.
 */
extern bool rose_region_find(RoseRegionSearch *search, uint32 from, uint32 to, int want,
							 uint32 *first, int *nregions);

/* Before anything is looked for or allocated: who has died since. */
extern void rose_zones_forget_dead(RoseZonesShared *zones, RoseLiveOwners *live);

/* These regions have this entry, whose owner lives.  And: these are free, whoever's they were. */
extern void rose_zones_note_used(RoseZonesShared *zones, uint32 first, uint32 nregions,
								 uint32 entry);
extern void rose_zones_note_free(RoseZonesShared *zones, uint32 first, uint32 nregions);

/* ---- rose_region.c ---- */

typedef enum RoseRegionUse
{
	ROSE_REGION_LOGGED = 0,		/* component pages with WAL, or no crash safety asked */
	ROSE_REGION_UNLOGGED = 1,	/* component pages without WAL on a permanent table */
	ROSE_REGION_TAIL = 2		/* tail log */
} RoseRegionUse;

/*
 * Allocate contiguous regions, with 'want' blocks at most, rounded up to whole regions;
 * at least one region,
 * *nregions of them.
 * at_end: at the end of the file, where there are all of them unless a map page
 * comes in between.  *lsn is the end of the WAL record that did it (0 if none).
 * Takes alloc_lock.
 */
extern uint32 rose_region_alloc(Relation rel, RoseStoreShared *store, uint32 owner,
								RoseRegionUse use, int want, bool at_end,
								int *nregions, XLogRecPtr *lsn);

/* The next allocation takes the first free regions of the file. */
extern void rose_region_search_from_start(RoseStoreShared *store);

/* Give back regions of this owner that were not used.  Takes alloc_lock. */
extern void rose_region_release(Relation rel, RoseStoreShared *store, uint32 owner,
								uint32 first, int nregions);

/*
 * Those of these regions, n in ascending order, that are one owner's become another one's.
 * Takes alloc_lock.
 */
extern void rose_region_hand_over(Relation rel, RoseStoreShared *store, uint32 from, uint32 to,
								  const uint32 *regions, int n);

/*
 * The page with the map of a group (rose_map_entries), share-locked; InvalidBuffer if it
 * is past the end or was never written, which means that all its entries are 0.
 */
extern Buffer rose_map_lock(Relation rel, uint32 group);

/* May component pages of this table be written without WAL just now? */
extern bool rose_store_may_skip_wal(Relation rel, RoseStoreShared *store);

/* ---- rose_block.c ---- */

#define ROSE_BLOCK_BATCH	16

typedef enum RoseBlockMode
{
	ROSE_BLOCK_LOGGED,			/* full-page images */
	ROSE_BLOCK_BUFFERED,		/* dirty buffers only */
	ROSE_BLOCK_FORCED			/* written to the operating system at once */
} RoseBlockMode;

/*
 * Write up to ROSE_BLOCK_BATCH whole pages through shared buffers.  Their old
 * content is not read.  FORCED: the pages get 'lsn', and WAL up to there is
 * flushed before them.  Returns the end of the WAL record, or 0.
 */
extern XLogRecPtr rose_block_write_batch(Relation rel, int n, const BlockNumber *blocks,
										 const PGAlignedBlock *pages, RoseBlockMode mode,
										 XLogRecPtr lsn, BufferAccessStrategy strategy);

/* ---- rose_pin.c ---- */

/* Newest owner that a transaction may have met: any. */
#define ROSE_PIN_ALL	PG_UINT32_MAX

/* Tranche of alloc_lock. */
extern int	rose_pin_lock_tranche(void);

/* ---- rose_tail_pack.c ---- */

/*
 * Pack nbytes of records, at most ROSE_TAIL_PACK_MAX: RoseTailPackedDisk and what goes
 * with it are put to out.  Returns how many bytes that is, or 0 if not enough would be
 * saved.  scratch and out have room for nbytes.  stride: the length of each record, 0 if
 * they differ.
 */
extern Size rose_tail_pack(const char *records, Size nbytes, Size stride, char *scratch, char *out);

/*
 * The records again, head->raw_bytes of them; false if this is not what pack made.
 * scratch and out have room for ROSE_TAIL_PACK_MAX.
 */
extern bool rose_tail_unpack(const RoseTailPackedDisk *head, const char *packed, Size size,
							 char *scratch, char *out);

/* ---- rose_tail_replay.c ---- */

/*
 * Read one page of a segment into page; false if the block does not hold page
 * number page_number of that segment, which is then the segment's end.
 */
extern bool rose_tail_read_page(Relation rel, uint32 segment, uint32 page_number,
								BlockNumber block, BufferAccessStrategy strategy,
								PGAlignedBlock *page);

#endif							/* ROSE_STORE_INTERNAL_H */
