/*-------------------------------------------------------------------------
 *
 * rose_store_format.h
 *	  On-disk format of what the store writes itself, and where it stands.
 *
 *	block 0					metapage, with the region map of group 0
 *	block 1 .. 64			regions 0 .. 63, one block each
 *	block 65				region map page of group 1
 *	block 66 ..				regions 64 .. 64 + ROSE_MAP_REGIONS - 1, 8 blocks each
 *	block 65 + 16257		region map page of group 2
 *	...
 *
 * In the file of an index all of this comes one block later, behind btree's metapage ("Files
 * of indexes" in README.md).
 *
 * The small regions of group 0 are for tables of a few rows: what these need is a few
 * blocks, and regions of 8 would be mostly empty.
 *
 * All pages have a standard page header whose pd_lower is the end of the data:
 * generic WAL and full-page images leave out what lies between pd_lower and
 * pd_upper.  A page that is all zero is a valid, empty region map page.
 *
 * Flags and reserved fields, all of them; what is not named is zero and free.
 *
 *	RoseMetaDisk.flags			none in use
 *	RoseMetaDisk.reserved0, reserved, reserved2
 *								none in use
 *	RoseIndexMetaDisk			see util/rose_index_def.h
 *	RoseMetaDisk.tails, keys	ROSE_MAX_TAILS and INDEX_MAX_KEYS places; behind the count: zero
 *	RoseComponentEntryDisk.flags
 *		0x0001					ROSE_COMPONENT_PRIVATE
 *		0x0002					ROSE_COMPONENT_READ_PENDING
 *		0x0004					ROSE_COMPONENT_UNIQUE_KEYS
 *		0x0008					ROSE_COMPONENT_ONLY_PUTS
 *		0x0010					REPAIR, kept for indexes
 *		0x0020					ROSE_COMPONENT_OWNERS
 *		0x0040					ROSE_COMPONENT_NO_LOCKS
 *		0x0080					ROSE_COMPONENT_SHRINKS
 *		0x0100 and up			free
 *	RoseMapDisk.reserved		not in use
 *	RoseTailPageDisk.flags, reserved
 *								not in use
 *	RoseTailRecordDisk.flags	ROSE_TAIL_*; 0x80 is free
 *	RoseTailLayoutDisk.padding	not in use
 *	RoseLayoutColumnDisk.flags	ROSE_LAYOUT_* (util/rose_layout.h); 0x04 and up are free
 *	RoseKeyColumnDisk.flags		ROSE_KEY_* (util/rose_schema.h); zero in files of tables
 *	RoseFooterDisk.flags, padding, reserved
 *								see lsm/component/rose_component_format.h
 *
 * Private to the store.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STORE_FORMAT_H
#define ROSE_STORE_FORMAT_H

#include "storage/bufpage.h"

#include "page/rose_page.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_store.h"
#include "store/rose_tail_replay.h"

#define ROSE_META_MAGIC		0x45534F52	/* "ROSE" */
/* 3: regions of one block at the start of the file; 4: footers in leaves */
#define ROSE_META_VERSION	4
#define ROSE_REGION_BLOCKS	8

#define ROSE_PAGE_CONTENT	MAXALIGN(SizeOfPageHeaderData)	/* offset */

#define ROSE_SMALL_REGIONS	64	/* regions of one block, at the start of the file */

/* ---- Metapage: follows the page header ---- */

typedef struct RoseMetaDisk
{
	uint32		magic;			/* 0: ROSE_META_MAGIC */
	uint32		version;		/* 4: ROSE_META_VERSION */
	uint64		manifest_version;	/* 8: counts switches, from 1 */
	uint64		next_seq;		/* 16: floor of the next sequence number */
	uint32		next_owner;		/* 24: next owner id, from 1 */
	Oid			fed_by;			/* 28: subscription that feeds the table by epochs, or 0 */
	uint16		nkeys;			/* 32: 0 = keyed by row id */
	uint16		ncomponents;	/* 34 */
	uint16		ntails;			/* 36 */
	uint16		region_blocks;	/* 38: ROSE_REGION_BLOCKS */
	uint32		map_regions;	/* 40: ROSE_MAP_REGIONS */
	uint32		flags;			/* 44: zero */
	uint64		system_identifier;	/* 48: cluster whose OIDs keys[] has */
	uint64		layout_physical;	/* 56: fingerprint of the first layout_natts columns */
	uint16		layout_natts;	/* 64: columns when the file was made; 0 = not known */
	uint16		small_regions;	/* 66: ROSE_SMALL_REGIONS */
	uint32		hashed_keys;	/* 68: bit i: keys[i] goes into hashes of keys */
	uint64		key_order;		/* 72: fingerprint of versions of collations */
	Oid			logged_by;		/* 80: subscription that feeds it through the tail log, or 0 */
	uint32		reserved0;		/* 84: zero */
	uint64		copied_by;		/* 88: transaction that has put a new copy of all rows into the file, or 0 */
	uint64		reserved[4];	/* 96: zero */
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS]; /* 128 */
	RoseTailSegmentDisk tails[ROSE_MAX_TAILS];	/* 640: oldest first */
	char		collation_versions[ROSE_VERSIONS_SIZE]; /* 896: of key_order, for people */
	uint64		reserved2[16];	/* 960: zero */
	RoseComponentEntryDisk components[ROSE_MAX_COMPONENTS]; /* 1088: newest first */
	uint32		small_map[ROSE_SMALL_REGIONS];	/* 7232: as RoseMapDisk.entries, of group 0 */
} RoseMetaDisk;

StaticAssertDecl(offsetof(RoseMetaDisk, manifest_version) == 8, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, next_seq) == 16, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, next_owner) == 24, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, fed_by) == 28, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, nkeys) == 32, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, ncomponents) == 34, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, ntails) == 36, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, region_blocks) == 38, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, map_regions) == 40, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, flags) == 44, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, system_identifier) == 48, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, small_regions) == 66, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, hashed_keys) == 68, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, logged_by) == 80, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, copied_by) == 88, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, reserved) == 96, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, keys) == 128, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, tails) == 640, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, collation_versions) == 896, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, reserved2) == 960, "on-disk offset");
StaticAssertDecl(ROSE_VERSIONS_SIZE == 64, "on-disk array");
StaticAssertDecl(offsetof(RoseMetaDisk, components) == 1088, "on-disk offset");
StaticAssertDecl(offsetof(RoseMetaDisk, small_map) == 7232, "on-disk offset");
StaticAssertDecl(sizeof(RoseMetaDisk) == 7488, "on-disk size");
StaticAssertDecl(sizeof(RoseMetaDisk) <= BLCKSZ - ROSE_PAGE_CONTENT, "metapage fits a page");
StaticAssertDecl(INDEX_MAX_KEYS == 32, "on-disk array");
StaticAssertDecl(sizeof(RoseTailSegmentDisk) == 8, "on-disk size");
StaticAssertDecl(offsetof(RoseComponentEntryDisk, subid) == 12, "on-disk offset");
StaticAssertDecl(offsetof(RoseComponentEntryDisk, nrows) == 32, "on-disk offset");
StaticAssertDecl(offsetof(RoseComponentEntryDisk, first_ordinal) == 88, "on-disk offset");

static inline RoseMetaDisk *
rose_meta_of(Page page)
{
	return (RoseMetaDisk *) ((char *) page + ROSE_PAGE_CONTENT);
}

/* In the file of an index: what its entries are, behind all that; magic 0: not the file of an index. */
#define ROSE_META_INDEX		(ROSE_PAGE_CONTENT + sizeof(RoseMetaDisk))

StaticAssertDecl(ROSE_META_INDEX + sizeof(RoseIndexMetaDisk) <= BLCKSZ - ROSE_FOREIGN_SPECIAL,
				 "metapage of an index fits a page");

static inline RoseIndexMetaDisk *
rose_index_meta_of(Page page)
{
	return (RoseIndexMetaDisk *) ((char *) page + ROSE_META_INDEX);
}

/* ---- Region map page ---- */

#define ROSE_MAP_MAGIC		0x4D534F52	/* "ROSM" */
#define ROSE_MAP_VERSION	1
#define ROSE_MAP_REGIONS	2032	/* regions a map page describes */
#define ROSE_MAP_GROUP		(1 + ROSE_MAP_REGIONS * ROSE_REGION_BLOCKS) /* blocks */

/*
 * An entry is the owner's id, with the top bit set if it is a tail segment; 0 = nobody's.
 */
#define ROSE_MAP_TAIL		0x80000000U
#define ROSE_MAP_OWNER(entry) ((entry) & ~ROSE_MAP_TAIL)
#define ROSE_MAX_OWNER		0x7FFFFFFFU

typedef struct RoseMapDisk
{
	uint32		magic;			/* 0: ROSE_MAP_MAGIC */
	uint32		version;		/* 4: ROSE_MAP_VERSION */
	uint64		reserved;		/* 8: zero */
	uint32		entries[ROSE_MAP_REGIONS];	/* 16 */
} RoseMapDisk;

StaticAssertDecl(offsetof(RoseMapDisk, entries) == 16, "on-disk offset");
StaticAssertDecl(sizeof(RoseMapDisk) == 16 + 4 * ROSE_MAP_REGIONS, "on-disk size");
StaticAssertDecl(sizeof(RoseMapDisk) <= BLCKSZ - ROSE_FOREIGN_SPECIAL - ROSE_PAGE_CONTENT,
				 "map fits a page");

static inline RoseMapDisk *
rose_map_of(Page page)
{
	return (RoseMapDisk *) ((char *) page + ROSE_PAGE_CONTENT);
}

/* ---- Where regions and their maps stand ---- */

static inline uint32
rose_region_group(uint32 region)
{
	return region < ROSE_SMALL_REGIONS ? 0 : 1 + (region - ROSE_SMALL_REGIONS) / ROSE_MAP_REGIONS;
}

/* First region of a group; the one before is the last one of the group before. */
static inline uint32
rose_group_first(uint32 group)
{
	return group == 0 ? 0 : ROSE_SMALL_REGIONS + (group - 1) * ROSE_MAP_REGIONS;
}

/* Blocks that each region of a group has. */
static inline uint32
rose_group_unit(uint32 group)
{
	return group == 0 ? 1 : ROSE_REGION_BLOCKS;
}

/* Blocks of neighbouring regions of one group. */
static inline uint32
rose_regions_blocks(uint32 first, uint32 nregions)
{
	return nregions * rose_group_unit(rose_region_group(first));
}

/* How many regions of a group so many blocks are, rounded up. */
static inline uint32
rose_blocks_regions(uint32 group, uint32 nblocks)
{
	return (nblocks + rose_group_unit(group) - 1) / rose_group_unit(group);
}

/*
 * Blocks that come before ours: none in the file of a table; in that of an index, block 0
 * is btree's metapage.  Block numbers are those of the file everywhere, so what turns
 * them into regions and back has to be told.
 */
#define ROSE_TABLE_BASE		((BlockNumber) 0)
#define ROSE_INDEX_BASE		((BlockNumber) 1)

static inline BlockNumber
rose_meta_block(BlockNumber base)
{
	return base;
}

/* The page that has the map of a group: the metapage, or one of its own. */
static inline BlockNumber
rose_map_block(BlockNumber base, uint32 group)
{
	return base + (group == 0 ? 0 : 1 + ROSE_SMALL_REGIONS + (group - 1) * ROSE_MAP_GROUP);
}

/* Its entries; rose_group_first has the first one. */
static inline uint32 *
rose_map_entries(Page page, uint32 group)
{
	return group == 0 ? rose_meta_of(page)->small_map : rose_map_of(page)->entries;
}

static inline BlockNumber
rose_region_block(BlockNumber base, uint32 region)
{
	uint32		group = rose_region_group(region);

	return rose_map_block(base, group) + 1 +
		(region - rose_group_first(group)) * rose_group_unit(group);
}

/* Is it a block that never belongs to a region? */
static inline bool
rose_block_is_fixed(BlockNumber base, BlockNumber block)
{
	return block <= base ||
		(block - base > ROSE_SMALL_REGIONS &&
		 (block - base - 1 - ROSE_SMALL_REGIONS) % ROSE_MAP_GROUP == 0);
}

/* The region of a block that is not fixed. */
static inline uint32
rose_block_region(BlockNumber base, BlockNumber block)
{
	uint32		after;

	Assert(!rose_block_is_fixed(base, block));
	block -= base;
	if (block <= ROSE_SMALL_REGIONS)
		return block - 1;
	after = block - 1 - ROSE_SMALL_REGIONS;
	return ROSE_SMALL_REGIONS + after / ROSE_MAP_GROUP * ROSE_MAP_REGIONS +
		(after % ROSE_MAP_GROUP - 1) / ROSE_REGION_BLOCKS;
}

/* Number of regions that lie in a file of nblocks entirely. */
static inline uint32
rose_regions_in(BlockNumber base, BlockNumber nblocks)
{
	uint32		after,
				rest;

	if (nblocks <= base + 1)
		return 0;
	nblocks -= base;
	if (nblocks <= 1 + ROSE_SMALL_REGIONS)
		return nblocks - 1;
	after = nblocks - 1 - ROSE_SMALL_REGIONS;
	rest = after % ROSE_MAP_GROUP;
	return ROSE_SMALL_REGIONS + after / ROSE_MAP_GROUP * ROSE_MAP_REGIONS +
		(rest > 0 ? (rest - 1) / ROSE_REGION_BLOCKS : 0);
}

/* The same, and the last one that it has only in part. */
static inline uint32
rose_regions_touched(BlockNumber base, BlockNumber nblocks)
{
	return nblocks <= base + 1 + ROSE_SMALL_REGIONS ? rose_regions_in(base, nblocks) :
		rose_regions_in(base, nblocks + ROSE_REGION_BLOCKS - 1);
}

/* ---- Tail log page and record ---- */

#define ROSE_TAIL_MAGIC		0x54534F52	/* "ROST" */
#define ROSE_TAIL_VERSION	4
/*
 * 3: without ROSE_TAIL_OP_PACKED.  2: without ROSE_TAIL_OP_LAYOUT either, so the rows are as the catalog says.  All
 * else is as in version 4.
 */
#define ROSE_TAIL_OLDEST_VERSION	ROSE_TAIL_UNTOLD_VERSION	/* that is read */

/*
 * The pages of a segment, chained by next, hold one stream of bytes: records,
 * one directly after the other and unaligned.  A page's share of it goes from
 * ROSE_TAIL_CONTENT to pd_lower, on a full page to its end (rose_file_page_end).
 */
typedef struct RoseTailPageDisk
{
	uint32		magic;			/* 0: ROSE_TAIL_MAGIC */
	uint16		version;		/* 4: ROSE_TAIL_VERSION */
	uint16		flags;			/* 6: zero */
	uint32		segment;		/* 8: owner id */
	uint32		page_number;	/* 12: in the segment, from 0 */
	BlockNumber next;			/* 16: InvalidBlockNumber on the last one */
	uint32		reserved;		/* 20: zero */
} RoseTailPageDisk;

StaticAssertDecl(offsetof(RoseTailPageDisk, segment) == 8, "on-disk offset");
StaticAssertDecl(offsetof(RoseTailPageDisk, next) == 16, "on-disk offset");
StaticAssertDecl(sizeof(RoseTailPageDisk) == 24, "on-disk size");

#define ROSE_TAIL_CONTENT	(ROSE_PAGE_CONTENT + sizeof(RoseTailPageDisk))

static inline RoseTailPageDisk *
rose_tail_page_of(Page page)
{
	return (RoseTailPageDisk *) ((char *) page + ROSE_PAGE_CONTENT);
}

#define ROSE_TAIL_LOCKMODE		0x03	/* LockTupleMode of a ROSE_OP_LOCK */
#define ROSE_TAIL_HAS_ROWID		0x04	/* int64 rowid follows */
#define ROSE_TAIL_HAS_MOVED		0x08	/* uint64 moved_to follows */
#define ROSE_TAIL_HAS_ROW		0x10	/* a MinimalTuple follows from t_infomask2 on, to the end */
#define ROSE_TAIL_HAS_PRESENT	0x20	/* presence bitmap follows */
#define ROSE_TAIL_FOLLOWS		0x40	/* of the record before: cid, subxid and xid, and the next seq */

/*
 * Followed by rowid, moved_to, presence bitmap, row: those that flags names.  A record
 * that FOLLOWS has only the first ROSE_TAIL_SHORT_HEADER bytes of this.
 */
typedef struct RoseTailRecordDisk
{
	uint32		length;			/* 0: of the whole record */
	uint8		op;				/* 4: RoseOp */
	uint8		flags;			/* 5: ROSE_TAIL_* */
	uint16		present_bytes;	/* 6 */
	/* from here on not if it FOLLOWS */
	uint32		cid;			/* 8 */
	uint32		subxid;			/* 12 */
	uint64		seq;			/* 16 */
	uint64		xid;			/* 24: full xid */
} RoseTailRecordDisk;

StaticAssertDecl(offsetof(RoseTailRecordDisk, cid) == 8, "on-disk offset");
StaticAssertDecl(offsetof(RoseTailRecordDisk, seq) == 16, "on-disk offset");
StaticAssertDecl(offsetof(RoseTailRecordDisk, xid) == 24, "on-disk offset");
StaticAssertDecl(sizeof(RoseTailRecordDisk) == 32, "on-disk size");

/*
 * A record of this op says how the columns of rows behind it lie, to the next such record
 * or the end of the segment.  Its header has no flags; RoseTailLayoutDisk and the columns
 * follow.
 */
#define ROSE_TAIL_OP_LAYOUT		0xFF

typedef struct RoseTailLayoutDisk
{
	uint64		physical;		/* 0: fingerprint of the columns */
	uint16		natts;			/* 8 */
	uint16		padding[3];		/* 10: zero */
	/* 16: RoseLayoutColumnDisk[natts] */
} RoseTailLayoutDisk;

StaticAssertDecl(sizeof(RoseTailLayoutDisk) == 16, "on-disk size");
StaticAssertDecl(offsetof(RoseTailLayoutDisk, natts) == 8, "on-disk offset");

#define ROSE_TAIL_SHORT_HEADER	offsetof(RoseTailRecordDisk, cid)

/*
 * A record of this op holds records of versions, as they would stand without it.  Its
 * header has ROSE_TAIL_SHORT_HEADER bytes and no flags; RoseTailPackedDisk and what LZ4
 * made of the records follow.  If stride is not 0, each of them has so many bytes, and
 * they were transposed before: the first byte of each, the second of each, and so on.
 */
#define ROSE_TAIL_OP_PACKED		0xFE

typedef struct RoseTailPackedDisk
{
	uint32		raw_bytes;		/* 0: of the records, at most ROSE_TAIL_PACK_MAX */
	uint32		stride;			/* 4 */
} RoseTailPackedDisk;

StaticAssertDecl(sizeof(RoseTailPackedDisk) == 8, "on-disk size");
StaticAssertDecl(offsetof(RoseTailPackedDisk, stride) == 4, "on-disk offset");

/* Most bytes of records that are packed together. */
#define ROSE_TAIL_PACK_MAX		((Size) 64 * 1024)

static inline Size
rose_tail_header_size(uint8 flags)
{
	return (flags & ROSE_TAIL_FOLLOWS) ? ROSE_TAIL_SHORT_HEADER : sizeof(RoseTailRecordDisk);
}

/* What is left out of rows: their length, which the record's tells, and padding. */
#define ROSE_TAIL_ROW_SKIP		10

StaticAssertDecl(offsetof(MinimalTupleData, t_infomask2) == ROSE_TAIL_ROW_SKIP, "on-disk size");

#endif							/* ROSE_STORE_FORMAT_H */
