/*-------------------------------------------------------------------------
 *
 * rose_store.h
 *	  The table's file: metapage, regions, block I/O, manifest, tail log, pins.
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
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STORE_H
#define ROSE_STORE_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "utils/rel.h"

#include "compat/rose_compat.h"
#include "util/rose_key_facts.h"
#include "util/rose_schema.h"
#include "util/rose_version.h"

#define ROSE_META_MAGIC		0x45534F52	/* "ROSE" */
#define ROSE_META_VERSION	3	/* 3: regions of one block at the start of the file */
#define ROSE_META_BLOCK		0
#define ROSE_REGION_BLOCKS	8
#define ROSE_MAX_COMPONENTS 64
#define ROSE_MAX_TAILS		32
#define ROSE_TAILS_RESERVE	4	/* of these for spills, which carry versions over */
#define ROSE_TAILS_MANY		(ROSE_MAX_TAILS / 2)	/* so many, and a worker spills the table */
#define ROSE_MAX_BUILDING	16
#define ROSE_MAX_RETIRED	128

/* ---------------------------------------------------------------------
 * Manifest entry: one component.  Embedded on disk.
 */
typedef enum RoseComponentState
{
	ROSE_COMPONENT_LIVE = 1,

	/*
	 * A subscription's run whose epoch has no committed position yet: readers
	 * use the frozen memtable instead; after a crash promoted or discarded.
	 */
	ROSE_COMPONENT_PENDING = 2
} RoseComponentState;

/* Private: rows of transactions that may be in progress or aborted. */
#define ROSE_COMPONENT_PRIVATE		0x0001
/* PENDING but readable now, because no memtable holds its rows */
#define ROSE_COMPONENT_READ_PENDING 0x0002
/* no two versions of one key in it */
#define ROSE_COMPONENT_UNIQUE_KEYS	0x0004
/* no tombstone and no PARTIAL in it */
#define ROSE_COMPONENT_ONLY_PUTS	0x0008
/* private: rows of several transactions, which its footer lists; owner_xid is the oldest one */
#define ROSE_COMPONENT_OWNERS		0x0020

typedef struct RoseComponentEntryDisk
{
	uint32		id;				/* 0: owner id of its regions, never reused */
	uint8		level;			/* 4: 0 run, 1 C1, 2 C2 */
	uint8		state;			/* 5: RoseComponentState */
	uint16		flags;			/* 6: ROSE_COMPONENT_* */
	uint32		footer_block;	/* 8: everything else is found from there */
	Oid			subid;			/* 12: subscription of a PENDING entry, else 0 */
	uint64		epoch;			/* 16: its epoch, else 0 */
	uint64		owner_xid;		/* 24: full xid of a private run, else 0 */
	uint64		nrows;			/* 32: versions */
	uint64		min_seq;		/* 40 */
	uint64		max_seq;		/* 48 */
	uint64		nblocks;		/* 56: blocks in use, for the picker and views */
	uint64		ntombstones;	/* 64 */
	uint64		raw_bytes;		/* 72: uncompressed row bytes */
	uint64		max_xid;		/* 80: no greater full xid is in it, nor (but for
								 * components of version 1) was it the token of
								 * an older version that was left out */
	uint64		first_ordinal;	/* 88: versions before this one have moved to
								 * components of level 2; 0 = none */
} RoseComponentEntryDisk;

StaticAssertDecl(sizeof(RoseComponentEntryDisk) == 96, "on-disk size");

/* Of a quantity that is spread evenly over the versions, what has not moved. */
static inline uint64
rose_component_rest(const RoseComponentEntryDisk *entry, uint64 whole)
{
	if (entry->first_ordinal == 0)
		return whole;
	return (uint64) ((double) whole * (entry->nrows - entry->first_ordinal) / entry->nrows);
}

/* Backend copy of the manifest, newest component first. */
typedef struct RoseManifest
{
	uint64		version;		/* counts switches of this file */
	uint32		newest_owner;	/* no component has a greater id yet */
	int			ncomponents;
	RoseComponentEntryDisk components[ROSE_MAX_COMPONENTS];
} RoseManifest;

typedef struct RoseTailSegmentDisk
{
	uint32		id;				/* 0: owner id */
	uint32		first_block;	/* 4 */
} RoseTailSegmentDisk;

/* The rest of the metapage that callers may know. */
typedef struct RoseMetaInfo
{
	uint64		system_identifier;	/* cluster whose OIDs keys has */
	int			nkeys;
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	RoseKeyFacts facts;
	int			layout_natts;	/* columns when the file was made; 0 = not known */
	uint64		layout_physical;	/* and their fingerprint */
	Oid			fed_by;			/* subscription that feeds it, or 0 */
	uint64		next_seq;		/* floor for the sequence after a restart */
	int			ntails;
	RoseTailSegmentDisk tails[ROSE_MAX_TAILS];
} RoseMetaInfo;

/* ---------------------------------------------------------------------
 * Shared state of one table's file, embedded in its registry entry.
 */

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

/* See "Settled components". */
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
	LWLock		alloc_lock;
	pg_atomic_uint64 manifest_version;	/* changed after each switch; no lock */
	pg_atomic_uint32 nruns;		/* live components of level 0 ... */
	pg_atomic_uint64 level_bytes[3];	/* ... and row bytes of each level, as of
										 * the last switch; no lock */
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

/* ---------------------------------------------------------------------
 * Metapage and manifest (store/rose_metapage.c, store/rose_manifest.c)
 */

/*
 * Make the metapage of a new, empty fork.  Unlogged tables need it in their
 * main and in their init fork (create that with smgrcreate and log_smgrcreate
 * first).  WAL-logged and synced as the persistence asks.  Also for a file that
 * was truncated to nothing; its registry entry must have been dropped.
 */
extern void rose_meta_create(SMgrRelation smgr, ForkNumber fork, char persistence,
							 const RoseMetaInfo *info);
extern void rose_meta_read(Relation rel, RoseMetaInfo *info);

/* Only on a file without components and tail segments; both forks if unlogged. */
extern void rose_meta_set_key(Relation rel, int nkeys, const RoseKeyColumnDisk *keys,
							  const RoseKeyFacts *facts);

/* The file is one of this cluster, and of this release, from now on: what info says of key and layout. */
extern void rose_meta_adopt(Relation rel, const RoseMetaInfo *info);
extern void rose_meta_set_fed_by(Relation rel, Oid subid);

extern void rose_manifest_read(Relation rel, RoseManifest *manifest);

/*
 * One atomic change of the manifest.
 *
 * Added entries, whose owners must be listed as being built, keep their order.
 * They go behind the component that add_behind names.  If it names none, they
 * go where the removed and trimmed ones stand (the place of the oldest of them); if
 * there is none, by level: in front of the newest component of the same or a higher
 * one, that is in front of all for a run.  Removed components are retired:
 * their regions become reusable when no pin is left.
 *
 * An update leaves first_ordinal as it is; that is changed by a trim, which
 * says that the component's versions before first_ordinal are found elsewhere
 * from now on.
 *
 * A failed check (an id to remove is not there, too many components) raises an error
 * and changes nothing.  Clear the struct before filling it.
 */
#define ROSE_ADD_BY_LEVEL	PG_UINT32_MAX	/* add_behind: by level, whatever is removed */

typedef struct RoseManifestTrim
{
	uint32		id;
	uint64		first_ordinal;	/* not less than before, less than nrows */
} RoseManifestTrim;

typedef struct RoseManifestEdit
{
	int			nremove;
	uint32		remove[ROSE_MAX_COMPONENTS];
	int			nadd;
	RoseComponentEntryDisk add[ROSE_MAX_COMPONENTS];
	uint32		add_behind;		/* id, ROSE_ADD_BY_LEVEL, or 0 */
	uint64		settled;		/* what is added is settled since; 0 = not yet */
	int			ntrim;
	RoseManifestTrim trim[ROSE_MAX_COMPONENTS];
	int			nupdate;		/* entries replaced in place, by id */
	RoseComponentEntryDisk update[ROSE_MAX_COMPONENTS];
	int			ndrop_tails;	/* segments that leave the tail list, by id ... */
	uint32		drop_tails[ROSE_MAX_TAILS];
	uint32		drop_tails_upto;	/* ... and all up to this id; 0 = none */
	uint64		next_seq;		/* raise the floor to this; 0 = leave */
} RoseManifestEdit;

/*
 * Fill in an edit.  Entries are copied; what is returned is the copy, to be changed
 * further.  Those that are added stand in the order in which they come.
 */
extern void rose_edit_remove(RoseManifestEdit *edit, uint32 id);
extern RoseComponentEntryDisk *rose_edit_add(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry);
extern void rose_edit_trim(RoseManifestEdit *edit, uint32 id, uint64 first_ordinal);
extern RoseComponentEntryDisk *rose_edit_update(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry);

/* The epoch of this pending component is committed. */
extern void rose_edit_make_live(RoseManifestEdit *edit, const RoseComponentEntryDisk *pending);

/* Does it change components? */
extern bool rose_edit_has_components(const RoseManifestEdit *edit);

extern void rose_manifest_apply(Relation rel, RoseStoreShared *store,
								const RoseManifestEdit *edit);

/* ---------------------------------------------------------------------
 * Owners and block I/O (store/rose_region_owner.c, store/rose_region.c,
 * store/rose_block.c)
 */

/*
 * Reserve a new owner id and list it as being built.  It stays listed until
 * rose_region_owner_end, the end of the process or, unless keep is set (merges), the
 * abort of the (sub)transaction or the end of the top-level one.
 */
extern uint32 rose_region_owner_begin(Relation rel, RoseStoreShared *store, bool keep);

/* It is in the manifest now, or it is given up.  Does nothing if it is not listed. */
extern void rose_region_owner_end(RoseStoreShared *store, uint32 owner);

/*
 * This process must not touch the shared state of that file any more: it is
 * gone, or about to go.  The registry calls it when it drops an entry, a merge
 * when it finds that its table has another file now.  rose_region_owner_end for owners
 * of the file does nothing afterwards.
 */
extern void rose_region_owner_forget(RelFileLocator locator);

typedef struct RoseBlockWriter RoseBlockWriter;

/*
 * Writes pages of one owner into regions allocated as it goes, contiguous where
 * possible, through a bulk-write ring.
 *
 * reserve() gives the block number the next page will get, before its content
 * is known (sibling links); pages may be written in any order within what was
 * reserved, and again before finish().  Each page starts with a page header
 * (pd_lower behind the data) and a RosePageHeaderDisk (page/rose_page.h) with
 * magic and component_id = owner; anything else is an error.
 *
 * finish() writes what is still in memory and gives unused regions back; then
 * everything is redo-able, or on disk (rose.wal_components = off), and can be
 * published.  A writer that is not finished is simply freed with its context.
 */
extern RoseBlockWriter *rose_blockwriter_create(Relation rel, RoseStoreShared *store,
												uint32 owner, MemoryContext context);
extern BlockNumber rose_blockwriter_reserve(RoseBlockWriter *writer);
extern void rose_blockwriter_write(RoseBlockWriter *writer, BlockNumber block,
								   const char *page);

/* Blocks reserved so far. */
extern uint64 rose_blockwriter_nblocks(const RoseBlockWriter *writer);
extern void rose_blockwriter_finish(RoseBlockWriter *writer);

/* The relation was closed and opened again between two steps of a merge. */
extern void rose_blockwriter_rebind(RoseBlockWriter *writer, Relation rel);

/*
 * Copy a page into dst (BLCKSZ, MAXALIGNed) and check that it is a component
 * page.  strategy may be NULL.  _owned also checks that the page belongs to
 * that component, so that a page that is missing or was reused (possible on a
 * standby only) is an error: prefer it wherever the component is known.
 */
extern void rose_block_read(Relation rel, BlockNumber block, char *dst,
							BufferAccessStrategy strategy);
extern void rose_block_read_owned(Relation rel, BlockNumber block, uint32 owner,
								  char *dst, BufferAccessStrategy strategy);

/*
 * The same without a copy: the page's buffer, locked for reading.  For a look of a
 * moment; UnlockReleaseBuffer it.
 */
extern Buffer rose_block_lock_owned(Relation rel, BlockNumber block, uint32 owner);

/* What the blocks of a file are used for (store/rose_space.c). */
typedef enum RoseSpaceUse
{
	ROSE_SPACE_FREE = 0,
	ROSE_SPACE_RUNS,			/* level 0, private and pending ones included */
	ROSE_SPACE_C1,
	ROSE_SPACE_C2,
	ROSE_SPACE_TAIL,			/* tail log */
	ROSE_SPACE_BUILDING,		/* outputs of merges and spills under way */
	ROSE_SPACE_RETIRED,			/* replaced, but a transaction may still read it */
	ROSE_SPACE_FIXED			/* metapage and region maps */
} RoseSpaceUse;
#define ROSE_SPACE_USES		(ROSE_SPACE_FIXED + 1)

typedef struct RoseSpace
{
	uint64		blocks[ROSE_SPACE_USES];	/* whole regions, but for FIXED */
	uint64		file_blocks;
	uint64		end_free;		/* blocks behind the last one in use */
} RoseSpace;

/* Reads the region maps; a moment's picture. */
extern void rose_store_space(Relation rel, RoseStoreShared *store, RoseSpace *space);

/*
 * Give free blocks at the end of the file back to the file system, if there are at least
 * so many and nobody else uses the table at the moment.  The caller has the table locked
 * in some mode.
 */
extern void rose_store_give_back(Relation rel, RoseStoreShared *store, uint64 least);

/*
 * Structural problems of metapage, maps and tails; for rose.check.  The caller
 * holds a pin, or what a merge replaces meanwhile is reported.
 */
typedef void (*RoseProblemCallback) (void *arg, BlockNumber block, const char *message);
extern void rose_store_check(Relation rel, RoseStoreShared *store,
							 RoseProblemCallback report, void *arg);

/* ---------------------------------------------------------------------
 * Pins (store/rose_pin.c): a transaction that reads a table publishes, before it
 * reads the manifest (or trusts a cached copy because manifest_version is
 * unchanged), the generation it started at.  What is retired later stays until
 * it ends.
 */
extern Size rose_pin_shmem_size(void);
extern void rose_pin_shmem_init(bool found);	/* under AddinShmemInitLock */

/* This process's backend slot and which user of it this process is. */
extern void rose_pin_whoami(int *slot, uint32 *incarnation);

/* Is that process still there? */
extern bool rose_pin_is_alive(int slot, uint32 incarnation);

extern void rose_pin_acquire(RelFileLocator locator);	/* idempotent in a transaction */
extern void rose_pin_release_all(void); /* end of the top-level transaction */

/*
 * Has the transaction pinned the file?  renew: it has, but needs nothing any
 * more of what it has seen there.
 */
extern bool rose_pin_is_held(RelFileLocator locator);
extern void rose_pin_renew(RelFileLocator locator);

/*
 * Around each look at a manifest, which rose_manifest_read does; and when a copy
 * from an earlier transaction is still good.  newest: see RoseManifest.newest_owner.
 */
extern void rose_pin_begin_look(RelFileLocator locator);
extern void rose_pin_end_look(RelFileLocator locator, uint32 newest);
extern void rose_pin_use_cached(RelFileLocator locator, uint32 newest);

/* For each of n places, the greatest owner id that a transaction may still need of it; 0 = none. */
extern void rose_pin_find_needed(RelFileLocator locator, const RoseRetiredShared *retired,
								 int n, uint32 *upto);

/*
 * The generation at which this transaction's pin on the file protects what it has seen.
 * backdate: let it be an older one, at which somebody else has a pin still, and who that
 * is must be asked again afterwards; newest is the newest owner id that is to be kept.
 */
extern uint64 rose_pin_generation(RelFileLocator locator);
extern void rose_pin_backdate(RelFileLocator locator, uint64 generation, uint32 newest);

/*
 * Let another backend's slot keep what is retired from this generation on, of all files,
 * until that transaction of it has ended; it must be asked afterwards whether it had not
 * ended already.  Until then the caller's pin protects the same.
 */
extern void rose_pin_lend(int slot, LocalTransactionId lxid, uint64 generation);

/* New generation, for what was just retired.  Full memory barrier. */
extern uint64 rose_pin_retire_generation(void);

/*
 * The oldest generation of a pin on the file, PG_UINT64_MAX = none; and the oldest xmin
 * that one of their transactions had when it took its pin, invalid = none.
 */
extern uint64 rose_pin_oldest(RelFileLocator locator, TransactionId *xmin);

/* ---------------------------------------------------------------------
 * Settled components (store/rose_settled.c): in no memtable any more, and
 * committed, since this generation.  A transaction whose pin is newer has not met their
 * versions anywhere else.
 */
#define ROSE_UNSETTLED			((uint64) 0)
#define ROSE_SETTLED_BEFORE_ALL ((uint64) 1)	/* no pin is that old */

/* The generation, or ROSE_UNSETTLED. */
extern uint64 rose_store_settled(RoseStoreShared *store, uint32 id);

/* The manifest, and that of each of its components. */
extern void rose_manifest_read_settled(Relation rel, RoseStoreShared *store,
									   RoseManifest *manifest, uint64 *settled);

/*
 * No memtable has a version that is in a live component: they are settled from now on,
 * but for private runs.  REQUIRES: ROSE_LOCK_SPILL, so that it stays so meanwhile.
 */
extern void rose_store_settle(Relation rel, RoseStoreShared *store);

/* ---------------------------------------------------------------------
 * Tail log (store/rose_tail.c, store/rose_tail_replay.c): local writes,
 * WAL-logged, so that C0 can be rebuilt.
 *
 * All but has_segment REQUIRE a writing section of C0 (rose_c0.h).
 */
typedef struct RoseTailRecord
{
	RoseVersion version;		/* present may be NULL */
	MinimalTuple row;			/* may be NULL */
} RoseTailRecord;

/* Bytes that a record takes in the log, at most. */
extern Size rose_tail_record_size(int natts, const RoseTailRecord *record);

/*
 * Make room (a segment if none is open, regions), so that the next append of up
 * to nbytes cannot fail for want of disk.  May do I/O and raise errors; call
 * before anything irrevocable.
 *
 * False: a segment is needed, and the list of them is too long.  Writers then have the
 * table spilled; for_spill: the last few are for the spill.
 */
extern bool rose_tail_reserve(Relation rel, RoseStoreShared *store, const RoseLayout *layout,
							  Size nbytes, bool for_spill);

/* Would a writer get a segment just now?  Exact in a writing section of C0. */
extern bool rose_tail_has_segment(RoseStoreShared *store);

/*
 * Append records, whose rows have this layout, or an earlier one that it goes on from;
 * room for them must be reserved.  After an error (I/O only) some of them may be in the
 * log; their (sub)transaction aborts, so that replay's reader discards them.
 */
extern void rose_tail_append(Relation rel, RoseStoreShared *store, const RoseLayout *layout,
							 const RoseTailRecord *records, int nrecords);

/*
 * Close the open segment (a memtable was frozen); the next append opens a new
 * one.  Returns the newest segment there is, for drop_tails_upto of the edit
 * that publishes the memtable's run; 0 = the tail list is empty.
 */
extern uint32 rose_tail_close_segment(RoseStoreShared *store);

/*
 * Nothing is in C0, so nobody needs what is in the tail log: drop all segments.
 * Transactions that aborted leave such ones.  next_seq: C0's.
 */
extern void rose_tail_drop_all(Relation rel, RoseStoreShared *store, uint64 next_seq);

/*
 * Reads all segments in the tail list, oldest first.  Each segment ends at its last
 * complete record.  Records come in the order in which they were appended and are valid
 * until the next one; version.present has ROSE_PRESENT_BYTES(natts) bytes, natts those of
 * the layout at hand, also for older and shorter rows.
 *
 * layout() is called before records of another layout come, with one that is valid as
 * long as the reader.  Not for records of segments of version 2, in which nothing says
 * it: they have natts columns.
 *
 * tell: the position between two records; go: on from there, also with another reader and
 * in another process, as long as the tail list is the same.  layout() is called for what
 * the records there have.
 */
typedef void (*RoseTailLayoutCallback) (void *arg, const RoseLayout *layout);

typedef struct RoseTailPosition
{
	uint32		segment;
	BlockNumber block;			/* page, and where on it; InvalidBlockNumber: the first one */
	uint32		page_number;
	uint32		offset;
	struct
	{
		uint8		op;
		CommandId	cid;
		TransactionId subxid;
		uint64		seq;
		FullTransactionId xid;
	}			before;			/* of the record before it; op 0: there is none */
	bool		told;			/* the segment has said a layout ... */
	BlockNumber layout_block;	/* ... there */
	uint32		layout_page_number;
	uint32		layout_offset;
} RoseTailPosition;

typedef struct RoseTailReader RoseTailReader;

extern RoseTailReader *rose_tail_reader_create(Relation rel, int natts,
											   RoseTailLayoutCallback layout, void *arg,
											   MemoryContext parent);
extern bool rose_tail_reader_next(RoseTailReader *reader, RoseTailRecord *record);
extern void rose_tail_reader_tell(const RoseTailReader *reader, RoseTailPosition *position);
extern void rose_tail_reader_go(RoseTailReader *reader, const RoseTailPosition *position);
extern void rose_tail_reader_free(RoseTailReader *reader);

#define ROSE_TAIL_UNTOLD_VERSION	2	/* and older: does not say it */

/*
 * The layout that the tail log begins with, or NULL if it has no records.  *told: false
 * if there are records that do not say it.  No lock is needed.
 */
extern RoseLayout *rose_tail_first_layout(Relation rel, bool *told);

/* Settings of this module: rose.wal_components. */
extern void rose_store_define_settings(void);
extern bool rose_wal_components;

#endif							/* ROSE_STORE_H */
