/*-------------------------------------------------------------------------
 *
 * rose_page_format.h
 *	  The on-disk format of a multicolumn page, for page/ only.
 *
 *		PageHeaderData			24 bytes
 *		RosePageHeaderDisk		40 bytes (rose_page.h)
 *		directory				ncols x RoseDirectoryEntryDisk
 *		segments				in column order, without gaps
 *		zero bytes				from pd_lower to pd_upper
 *		special space			what rose_page_add_extra has put there; most pages have none
 *
 * A page of an index's file has ROSE_FOREIGN_SPECIAL bytes of zero as its special space,
 * and what rose_page_add_extra has put there before them, from pd_upper on.
 *
 * A segment is the column's null map (rose_nullmap.h), then its codec's data.  It ends
 * where the next column's begins, the last one at pd_lower.  At least ROSE_PAGE_SLOP
 * bytes from there on stay zero, because readers load whole words: those of an empty
 * special space are as good as any.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGE_FORMAT_H
#define ROSE_PAGE_FORMAT_H

#include "util/rose_bitpack.h"
#include "codec/rose_nullmap.h"
#include "page/rose_page.h"

typedef struct RoseDirectoryEntryDisk
{
	uint16		offset;			/* 0: of the segment from the page's start; for
								 * ROSE_DIR_INLINE the constant, as int16; 0 if none */
	uint8		codec;			/* 2: RoseCodecId */
	uint8		flags;			/* 3: ROSE_NULL_FORM_MASK, ROSE_DIR_INLINE */
} RoseDirectoryEntryDisk;

StaticAssertDecl(sizeof(RoseDirectoryEntryDisk) == 4, "on-disk size");

/* The column is constant without NULLs, and 'offset' is its value. */
#define ROSE_DIR_INLINE		0x08
#define ROSE_DIR_ALL_FLAGS	(ROSE_NULL_FORM_MASK | ROSE_DIR_INLINE)

#define ROSE_PAGE_SLOP		ROSE_BITPACK_SLOP

StaticAssertDecl(ROSE_FOREIGN_SPECIAL <= ROSE_PAGE_SLOP, "a page has as many rows with it as without");

/* Up to where nothing but zero comes behind the data, in a page whose header is sane. */
static inline int
rose_page_zero_end(const PageHeaderData *standard)
{
	return standard->pd_upper == BLCKSZ - ROSE_FOREIGN_SPECIAL &&
		standard->pd_special == BLCKSZ - ROSE_FOREIGN_SPECIAL ? BLCKSZ : standard->pd_upper;
}

#define ROSE_PAGE_DIRECTORY_OFFSET \
	(MAXALIGN(SizeOfPageHeaderData) + sizeof(RosePageHeaderDisk))

/* Where the segments of a page of ncols columns begin. */
#define ROSE_PAGE_DATA_OFFSET(ncols) \
	(ROSE_PAGE_DIRECTORY_OFFSET + (ncols) * sizeof(RoseDirectoryEntryDisk))

#endif							/* ROSE_PAGE_FORMAT_H */
