/*-------------------------------------------------------------------------
 *
 * rose_local_arena.c
 *	  The arena of this process: memory for memtables of temporary tables.
 *
 * Nobody else reads a temporary table, and no worker can spill one.  So what a session
 * has written to its temporary tables, and perhaps leaves there for hours, takes nothing
 * of the arena that all sessions share, and goes with the process, however that ends.
 *
 * It is laid out as the shared one (rose_arena.c): pages of 4 kB, of which the first has
 * core's free page manager.  Its addresses are those at the end of what a RoseArenaPtr
 * can say, so that one is told from the other by the address alone.  It is as large as
 * temp_buffers, which is what temporary tables of heap may take; made when the first
 * memtable needs memory, and given back with the last one.  What was never touched the
 * operating system does not count.
 *
 * Of this process: no locks.  When it is full, and who spills what then, is for the
 * levels above (lsm/write/rose_local_room.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/freepage.h"
#include "utils/guc.h"

#include "memtable/rose_local_arena.h"

/* Offset of the free page manager in page 0; not 0, which relptrs may take for null. */
#define FPM_OFFSET		64

/* Number of its first page, and how many there may be. */
#define PAGE_UNITS		(FPM_PAGE_SIZE / 8)
#define FIRST_PAGE		(ROSE_LOCAL_ARENA_START / PAGE_UNITS)
#define MAX_PAGES		((PG_UINT32_MAX - ROSE_LOCAL_ARENA_START) / PAGE_UNITS)

/* As the least shared one: 1 MB. */
#define MIN_PAGES		256

StaticAssertDecl(FPM_OFFSET + sizeof(FreePageManager) <= FPM_PAGE_SIZE,
				 "free page manager must fit its page");

char	   *rose_local_arena_base = NULL;

static Size npages_there = 0;	/* page 0 included */
static Size npages_used = 0;

static inline FreePageManager *
free_pages(void)
{
	return (FreePageManager *) (rose_local_arena_base + FPM_OFFSET);
}

/* temp_buffers does not change once temporary tables have been used. */
static Size
pages_wanted(void)
{
	Size		npages = (Size) num_temp_buffers * (BLCKSZ / FPM_PAGE_SIZE);

	return Min(Max(npages, MIN_PAGES), MAX_PAGES);
}

Size
rose_local_arena_total_bytes(void)
{
	Size		npages = npages_there > 0 ? npages_there : pages_wanted();

	return (npages - 1) * FPM_PAGE_SIZE;
}

Size
rose_local_arena_used_bytes(void)
{
	return npages_used * FPM_PAGE_SIZE;
}

/* Not of a memory context: those of debugging builds write to all that they give and take. */
static bool
create_arena(void)
{
	Size		npages = pages_wanted();

	rose_local_arena_base = malloc(npages * FPM_PAGE_SIZE);
	if (rose_local_arena_base == NULL)
		return false;
	npages_there = npages;
	npages_used = 0;
	FreePageManagerInitialize(free_pages(), rose_local_arena_base);
	FreePageManagerPut(free_pages(), 1, npages - 1);
	return true;
}

static void
free_arena(void)
{
	free(rose_local_arena_base);
	rose_local_arena_base = NULL;
	npages_there = 0;
}

Size
rose_local_arena_get(Size npages)
{
	Size		page;

	if (rose_local_arena_base == NULL && !create_arena())
		return 0;
	if (!FreePageManagerGet(free_pages(), npages, &page))
	{
		if (npages_used == 0)
			free_arena();
		return 0;
	}
	npages_used += npages;
	return FIRST_PAGE + page;
}

void
rose_local_arena_put(Size page, Size npages)
{
	Assert(page > FIRST_PAGE && npages_used >= npages);
	FreePageManagerPut(free_pages(), page - FIRST_PAGE, npages);
	npages_used -= npages;
	if (npages_used == 0)
		free_arena();
}
