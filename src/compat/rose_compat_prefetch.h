/*-------------------------------------------------------------------------
 *
 * rose_compat_prefetch.h
 *	  Asking the kernel for many blocks of a main fork at once.
 *
 * 17 gave smgrprefetch() a number of blocks.  Before, it asks for one block a call, which
 * a disk sees as requests of 8 kB; so there the file is opened a second time, only
 * to give advice about it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_PREFETCH_H
#define ROSE_COMPAT_PREFETCH_H

#include "common/relpath.h"
#include "storage/fd.h"

#include "compat/rose_compat.h"

#if PG_VERSION_NUM < 170000

typedef struct RosePrefetchFile
{
	File		file;			/* -1: not open */
	RelFileLocator locator;
	uint32		segment;
} RosePrefetchFile;

static inline void
rose_prefetch_init(RosePrefetchFile *prefetch)
{
	prefetch->file = -1;
}

static inline void
rose_prefetch_close(RosePrefetchFile *prefetch)
{
	if (prefetch->file >= 0)
		FileClose(prefetch->file);
	prefetch->file = -1;
}

static inline void
rose_prefetch_open(RosePrefetchFile *prefetch, SMgrRelation smgr, uint32 segment)
{
#if PG_VERSION_NUM < 160000
	char	   *path = relpath(smgr->smgr_rnode, MAIN_FORKNUM);
#else
	char	   *path = relpath(smgr->smgr_rlocator, MAIN_FORKNUM);
#endif
	char	   *name = segment == 0 ? pstrdup(path) : psprintf("%s.%u", path, segment);

	prefetch->file = PathNameOpenFile(name, O_RDONLY | PG_BINARY);
	prefetch->locator = rose_smgr_locator(smgr);
	prefetch->segment = segment;
	pfree(path);
	pfree(name);
}

/* The blocks must be of one segment of the file. */
static inline void
rose_prefetch_blocks(RosePrefetchFile *prefetch, SMgrRelation smgr, BlockNumber block, int nblocks)
{
	uint32		segment = block / RELSEG_SIZE;

	if (prefetch->file >= 0 &&
		(prefetch->segment != segment ||
		 !RelFileLocatorEquals(prefetch->locator, rose_smgr_locator(smgr))))
		rose_prefetch_close(prefetch);
	if (prefetch->file < 0)
		rose_prefetch_open(prefetch, smgr, segment);
	if (prefetch->file >= 0)
		(void) FilePrefetch(prefetch->file, (off_t) (block % RELSEG_SIZE) * BLCKSZ,
							nblocks * BLCKSZ, WAIT_EVENT_DATA_FILE_PREFETCH);
}

#else

typedef struct RosePrefetchFile
{
	int			unused;
} RosePrefetchFile;

static inline void
rose_prefetch_init(RosePrefetchFile *prefetch)
{
	prefetch->unused = 0;
}

static inline void
rose_prefetch_close(RosePrefetchFile *prefetch)
{
}

/*
 * smgrprefetch() fails where the file has no such segment.  A merge holds no lock between
 * its steps, so VACUUM may have shortened the file since its size was taken.
 */
static inline void
rose_prefetch_blocks(RosePrefetchFile *prefetch, SMgrRelation smgr, BlockNumber block, int nblocks)
{
	if (io_direct_flags & IO_DIRECT_DATA)
		return;					/* nothing goes through the kernel's cache */
	if (block < smgrnblocks(smgr, MAIN_FORKNUM))
		(void) smgrprefetch(smgr, MAIN_FORKNUM, block, nblocks);
}

#endif

#endif							/* ROSE_COMPAT_PREFETCH_H */
