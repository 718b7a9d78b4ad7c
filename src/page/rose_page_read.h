/*-------------------------------------------------------------------------
 *
 * rose_page_read.h
 *	  The reader's inside, shared by reading and checking; for page/ only.
 *
 * Backend-local.  Upper layers know rose_page.h only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGE_READ_H
#define ROSE_PAGE_READ_H

#include "codec/rose_codec.h"
#include "page/rose_page_format.h"

typedef struct RoseColumnReader
{
	uint64		generation;		/* opened if it is the reader's */
	RoseNullMap nulls;
	RoseSegment segment;
} RoseColumnReader;

struct RosePageReader
{
	MemoryContext context;
	MemoryContext page_context; /* emptied with each page */
	bool		page_context_used;
	int			ncols;
	const RoseColumnDesc *descs;

	const char *image;			/* NULL: closed */
	const RoseDirectoryEntryDisk *directory;
	int			nrows;
	int			page_ncols;
	uint64		generation;		/* counts pages */
	RoseColumnReader *columns;
};

/*
 * Check the header and put the reader on the image.  Returns NULL, or
 * what is wrong, with *detail set if there is more to say.
 */
extern const char *rose_page_reader_attach(RosePageReader *reader, const char *image,
										   char **detail);

/* Parse a column.  Returns NULL, or what is wrong. */
extern const char *rose_page_reader_open_column(RosePageReader *reader, int col);

#endif							/* ROSE_PAGE_READ_H */
