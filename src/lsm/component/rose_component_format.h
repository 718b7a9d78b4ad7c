/*-------------------------------------------------------------------------
 *
 * rose_component_format.h
 *	  The on-disk format of a component, but for the inside of multicolumn
 *	  pages.  For this folder only.
 *
 *	footer		a byte stream over one or more chained FOOTER pages; the
 *				manifest names the first.  If there is a single leaf, and room in its
 *				page, all of it is behind the rows there, and the manifest
 *				names the leaf.  RoseFooterDisk, then a directory of
 *				RoseFooterSectionDisk, then the sections.
 *	leaf		a multicolumn page: ROSE_SYSCOLS system columns, then user columns.
 *				Leaves are chained both ways in (key, sequence descending)
 *				order.
 *	inner		a multicolumn page: child block, ordinal of the first row below it,
 *				sequence and key of the separator.  Key columns that a
 *				separator does not need are NULL, which sorts first; the very
 *				first separator of a component is all NULL.
 *	Bloom		a block array of util/rose_bloom.h cut into pages; or several, for keys that follow each
 *				other, each of which begins on a page of its own.
 *	overflow	a byte stream over chained OVERFLOW pages that values share.
 *
 * Flags and reserved fields: RoseFooterDisk.flags and reserved,
 * RoseFooterSectionDisk.padding and reserved, RoseColumnGroupDisk.reserved and
 * RoseOverflowPointerDisk.padding are zero and free; ROSE_LEAF_* of leaves has 0x20 and
 * up free.
 *
 * Every page has PageHeaderData and RosePageHeaderDisk with the component's
 * id, so that a block that was reused by another component is noticed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPONENT_FORMAT_H
#define ROSE_COMPONENT_FORMAT_H

#include "postgres.h"

#include "util/rose_bloom.h"
#include "page/rose_page.h"

#define ROSE_FOOTER_MAGIC		0x46534f52	/* "ROSF" on a little-endian machine */
/*
 * 2: sequences may be ROSE_SEQ_OLDEST for "forgotten".  3: the footer has ROSE_SECTION_LAYOUT, hashed_keys
 * and hash_sample.
 * 4: a private run with rows of several transactions, and only such a run has this version.
 * 5: some leaves are narrow.
 * 6: the Bloom filter has several parts, which ROSE_SECTION_FILTER_PARTS lists.
 * 7: the footer is in the page of the only leaf.
 * A component has the oldest version that says what it has.  All else is as in version 1.
 */
#define ROSE_COMPONENT_VERSION	7
#define ROSE_COMPONENT_VERSION_FILTER_PARTS	6
#define ROSE_COMPONENT_VERSION_NARROW	5
#define ROSE_COMPONENT_VERSION_OWNERS	4
#define ROSE_COMPONENT_VERSION_ONE_OWNER	3
#define ROSE_COMPONENT_LAYOUT_VERSION	3	/* from here on it has these */
#define ROSE_COMPONENT_OLDEST_VERSION	1	/* that is read */

/* Page kinds of this layer; embedded on disk, next to RosePageKind. */
#define ROSE_PAGE_FOOTER		8
#define ROSE_PAGE_BLOOM			9
#define ROSE_PAGE_OVERFLOW		10

/* Where the data of a page that is not multicolumn begins, and how much it is. */
#define ROSE_PAGE_BODY \
	(MAXALIGN(SizeOfPageHeaderData) + sizeof(RosePageHeaderDisk))
#define ROSE_PAGE_BODY_SIZE		(BLCKSZ - ROSE_PAGE_BODY)

/* Blocks of a Bloom filter in a page whose content ends there (rose_page_end). */
static inline uint32
rose_bloom_blocks_of_page(int end)
{
	return (uint32) (end - (int) ROSE_PAGE_BODY) / ROSE_BLOOM_BLOCK_SIZE;
}

/* RosePageHeaderDisk.flags of a leaf: which rare system columns are in use. */
#define ROSE_LEAF_HAS_PRESENT	0x01
#define ROSE_LEAF_HAS_MOVED		0x02
#define ROSE_LEAF_HAS_OVERFLOW	0x04
#define ROSE_LEAF_HAS_WRITER	0x08	/* subxid, cid */
#define ROSE_LEAF_NARROW		0x10	/* one row; see below */

/* Columns of an inner page, then come the key's. */
#define ROSE_INNERCOL_CHILD		0	/* int8: block number */
#define ROSE_INNERCOL_ORDINAL	1	/* int8: of the first row below the child */
#define ROSE_INNERCOL_SEQ		2	/* int8: ROSE_SEPARATOR_ANY unless the key continues */
#define ROSE_INNERCOLS			3

/* Separator's sequence when it is not part of the comparison: sorts before all versions. */
#define ROSE_SEPARATOR_ANY		PG_INT64_MAX

/* Most levels of inner pages: a page has at least two children. */
#define ROSE_MAX_HEIGHT			32

/*
 * Where something in overflow pages is.
 *
 * Values of a row: this is the content of the bytea that stands for the value
 * in the leaf, and ROSE_SYSCOL_OVERFLOW is a bitmap of such columns.
 *
 * A whole row, because it does not fit a page in any other way: the bitmap in
 * ROSE_SYSCOL_OVERFLOW names all columns but the key that are not NULL, and
 * this follows it.  In the leaf these columns are NULL.  What is stored is the
 * row as a MinimalTuple.
 *
 * A row whose key leaves no room for the directory of all columns: it has a narrow leaf
 * for itself, which ends with the last column of the key.  ROSE_SYSCOL_OVERFLOW has no
 * bitmap, but this for the row, as above, and for a PARTIAL once more for what would be
 * in ROSE_SYSCOL_PRESENT, which is NULL.  All columns but the key's are read from the
 * row.
 */
typedef struct RoseOverflowPointerDisk
{
	uint32		block;			/* 0: page of its first byte */
	uint16		offset;			/* 4: first byte, from the start of the page */
	uint8		compression;	/* 6: ROSE_OVERFLOW_* */
	uint8		padding;		/* 7: zero */
	uint32		stored_bytes;	/* 8 */
	uint32		raw_bytes;		/* 12: payload, without varlena header */
} RoseOverflowPointerDisk;

StaticAssertDecl(sizeof(RoseOverflowPointerDisk) == 16, "on-disk size");

#define ROSE_OVERFLOW_PLAIN		0
#define ROSE_OVERFLOW_LZ4		1

typedef struct RoseFooterDisk
{
	uint32		magic;			/* 0: ROSE_FOOTER_MAGIC */
	uint16		version;		/* 4: ROSE_COMPONENT_VERSION, or an older one */
	uint16		header_bytes;	/* 6: sizeof(RoseFooterDisk) */
	uint32		component_id;	/* 8 */
	uint32		total_bytes;	/* 12: of the stream */
	uint16		natts;			/* 16: user columns when built */
	uint16		nkeys;			/* 18: 0 = hidden row id */
	uint16		nsyscols;		/* 20: ROSE_SYSCOLS when built */
	uint16		ngroups;		/* 22: column groups; 1 so far */
	uint16		nsections;		/* 24 */
	uint16		flags;			/* 26: zero */
	uint32		bloom_nblocks;	/* 28: of all parts; 0 = no filter */
	uint32		bloom_nprobes;	/* 32 */
	uint32		hashed_keys;	/* 36: bit i: the filter has key column i; version 3 */
	uint64		nrows;			/* 40: versions */
	uint64		ndistinct;		/* 48: keys */
	uint64		ntombstones;	/* 56 */
	uint64		npartials;		/* 64 */
	uint64		nwriters;		/* 72: rows with a subxid, and locks */
	uint64		raw_bytes;		/* 80 */
	uint64		min_xid;		/* 88 */
	uint64		max_xid;		/* 96 */
	uint64		min_seq;		/* 104 */
	uint64		max_seq;		/* 112 */
	uint64		overflow_pages; /* 120 */
	uint64		overflow_values;	/* 128 */
	uint64		bloom_pages;	/* 136 */
	uint64		hash_sample;	/* 144: what hashing makes of the key range; version 3 */
	uint64		reserved[3];	/* 152: zero */
} RoseFooterDisk;

StaticAssertDecl(sizeof(RoseFooterDisk) == 176, "on-disk size");
StaticAssertDecl(offsetof(RoseFooterDisk, nrows) == 40, "on-disk offset");
StaticAssertDecl(offsetof(RoseFooterDisk, hashed_keys) == 36, "on-disk offset");
StaticAssertDecl(offsetof(RoseFooterDisk, hash_sample) == 144, "on-disk offset");
StaticAssertDecl(offsetof(RoseFooterDisk, reserved) == 152, "on-disk offset");

/*
 * Longer footers are taken for damaged ones.  The longest part is the list of the Bloom
 * filter's extents: 8 bytes for 30,000 rows or more.  (Its parts: a key and 8 bytes for
 * two million.)
 */
#define ROSE_FOOTER_MAX_BYTES	(64 * 1024 * 1024)

/* Sections of the footer.  Embedded on disk: never renumber. */
typedef enum RoseFooterSection
{
	ROSE_SECTION_COLUMN_KINDS = 1,	/* one byte a leaf column */
	ROSE_SECTION_MIN_KEY = 2,	/* see rose_key_columns.c */
	ROSE_SECTION_MAX_KEY = 3,
	ROSE_SECTION_BLOOM_EXTENTS = 4, /* RoseExtentDisk[] */
	ROSE_SECTION_COLUMN_GROUPS = 5, /* RoseColumnGroupDisk[ngroups] */
	ROSE_SECTION_LAYOUT = 6,	/* RoseLayoutColumnDisk[natts] */
	ROSE_SECTION_OWNERS = 7,	/* uint64[]: full xids, ascending; if there are several */
	ROSE_SECTION_FILTER_PARTS = 8	/* if there are several: their number as uint64,
									 * RoseFilterPartDisk[], and the keys */
} RoseFooterSection;

#define ROSE_FOOTER_SECTIONS	8	/* at most */

typedef struct RoseFooterSectionDisk
{
	uint16		type;			/* 0: RoseFooterSection */
	uint16		padding;		/* 2: zero */
	uint32		offset;			/* 4: from the start of the stream, MAXALIGNed */
	uint32		length;			/* 8 */
	uint32		reserved;		/* 12: zero */
} RoseFooterSectionDisk;

StaticAssertDecl(sizeof(RoseFooterSectionDisk) == 16, "on-disk size");

/* A part of the Bloom filter: that of the keys up to its own, behind those of the part before. */
typedef struct RoseFilterPartDisk
{
	uint32		nblocks;		/* 0: of the bit array */
	uint32		key_bytes;		/* 4: of its greatest key; see rose_key_columns.c */
} RoseFilterPartDisk;

StaticAssertDecl(sizeof(RoseFilterPartDisk) == 8, "on-disk size");

/* A column group: one sequence of leaves and the tree above it. */
typedef struct RoseColumnGroupDisk
{
	uint32		root;			/* 0: block; a leaf if height is 0 */
	uint16		height;			/* 4: levels of inner pages */
	uint16		ncolumns;		/* 6: columns of a leaf */
	uint32		first_leaf;		/* 8 */
	uint32		last_leaf;		/* 12 */
	uint64		nleaves;		/* 16 */
	uint64		ninner;			/* 24 */
	uint64		reserved;		/* 32: zero */
} RoseColumnGroupDisk;

StaticAssertDecl(sizeof(RoseColumnGroupDisk) == 40, "on-disk size");
StaticAssertDecl(offsetof(RoseColumnGroupDisk, nleaves) == 16, "on-disk offset");

typedef struct RoseExtentDisk
{
	uint32		first;			/* 0: block */
	uint32		nblocks;		/* 4 */
} RoseExtentDisk;

StaticAssertDecl(sizeof(RoseExtentDisk) == 8, "on-disk size");

#endif							/* ROSE_COMPONENT_FORMAT_H */
