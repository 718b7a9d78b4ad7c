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
 * A segment is the column's null map (rose_nullmap.h), then its codec's data.  It ends
 * where the next column's begins, the last one at pd_lower.  At least ROSE_PAGE_SLOP
 * bytes from there on stay zero, because readers load whole words.
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

#define ROSE_PAGE_DIRECTORY_OFFSET \
	(MAXALIGN(SizeOfPageHeaderData) + sizeof(RosePageHeaderDisk))

/* Where the segments of a page of ncols columns begin. */
#define ROSE_PAGE_DATA_OFFSET(ncols) \
	(ROSE_PAGE_DIRECTORY_OFFSET + (ncols) * sizeof(RoseDirectoryEntryDisk))

#endif							/* ROSE_PAGE_FORMAT_H */
