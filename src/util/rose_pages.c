/*-------------------------------------------------------------------------
 *
 * rose_pages.c
 *	  Giving pages of shared memory back to the operating system.
 *
 * A segment of dynamic shared memory goes when the last process unmaps it, and sessions
 * that do nothing keep theirs.  So memory is given back from within a segment, page by
 * page, for all processes at once.
 *
 * Shared memory is memory of a file system, which may be full when a page is needed
 * again, and then whoever touches it is killed by a signal.  PostgreSQL reserves all of a
 * segment when it makes it, for that reason.  So pages are given back only where they can
 * be asked for again, with an answer (Linux since 5.14), and that is tried before.
 *
 * No locks: who calls sees to it that nobody uses the pages.  Which memory that is, and
 * when it is not needed, is not known here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifndef WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "util/rose_pages.h"

#if defined(MADV_REMOVE) && defined(MADV_POPULATE_WRITE)

/* The whole pages of a piece of memory; false: there are none. */
static bool
find_pages(void *start, Size size, char **first, Size *nbytes, Size *page)
{
	long		page_size = sysconf(_SC_PAGESIZE);
	char	   *end = (char *) TYPEALIGN_DOWN(page_size, (char *) start + size);

	*first = (char *) TYPEALIGN(page_size, start);
	*nbytes = end > *first ? end - *first : 0;
	*page = page_size;
	return *nbytes > 0;
}

bool
rose_pages_give_back(void *start, Size size)
{
	char	   *first;
	Size		nbytes;
	Size		page;

	return find_pages(start, size, &first, &nbytes, &page) &&
		madvise(first, page, MADV_POPULATE_WRITE) == 0 &&
		madvise(first, nbytes, MADV_REMOVE) == 0;
}

bool
rose_pages_take(void *start, Size size)
{
	char	   *first;
	Size		nbytes;
	Size		page;

	return !find_pages(start, size, &first, &nbytes, &page) ||
		madvise(first, nbytes, MADV_POPULATE_WRITE) == 0;
}

#else

bool
rose_pages_give_back(void *start, Size size)
{
	return false;
}

bool
rose_pages_take(void *start, Size size)
{
	return true;
}

#endif
