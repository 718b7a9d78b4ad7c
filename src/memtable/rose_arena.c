/*-------------------------------------------------------------------------
 *
 * rose_arena.c
 *	  The memory of all memtables: one area of main shared memory.
 *
 * The arena is an array of 4 kB pages.  Core's free page manager hands out
 * runs of them, under arena->lock.  A memtable owns a list of runs and
 * allocates from the newest one by moving a pointer forward, under its table's
 * write_lock, so that arena->lock is taken once a chunk only.  Nothing is
 * freed but a whole memtable.
 *
 *	  page 0: FreePageManager | page 1 ... : free pages and runs
 *	  run:	  RoseChunkShared | memory, bumped from low to high
 *
 * Chunks start at one page, so that thousands of small tables fit, and grow
 * with their memtable.  A big entry gets a run of its own, so that it does not
 * waste the rest of a chunk.  Page 0 is never handed out: no RoseArenaPtr is 0.
 *
 * Operating systems give memory to a page when it is first touched, so an
 * arena that was never full costs less than its size.
 *
 * A memtable of a temporary table has its runs from the arena of its process
 * (rose_local_arena.c); all else is the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/freepage.h"
#include "utils/guc.h"

#include "memtable/rose_arena.h"
#include "memtable/rose_pressure.h"

/* Chunks grow up to this many pages (256 kB). */
#define ROSE_CHUNK_MAX_PAGES	64

/* Larger pieces get a run of their own. */
#define ROSE_CHUNK_MAX_PIECE	((Size) 32 * 1024)

/* Offset of the free page manager in page 0; not 0, which relptrs may take for null. */
#define ROSE_FPM_OFFSET			64

StaticAssertDecl(ROSE_FPM_OFFSET + sizeof(FreePageManager) <= FPM_PAGE_SIZE,
				 "free page manager must fit its page");

typedef struct RoseArenaShared
{
	LWLock		lock;			/* the free page manager */
	int			write_tranche;	/* constant */
	int			arena_tranche;	/* constant */
	Size		npages;			/* constant; page 0 included */
	pg_atomic_uint64 used_pages;	/* changed under lock, read without */
	pg_atomic_uint64 last_memtable_id;	/* no lock */
} RoseArenaShared;

/* At the start of each run. */
typedef struct RoseChunkShared
{
	uint32		next;			/* page of the memtable's next older run, 0 = none */
	uint32		npages;
} RoseChunkShared;

StaticAssertDecl(sizeof(RoseChunkShared) == MAXALIGN(sizeof(RoseChunkShared)),
				 "what follows a chunk's header must be aligned");

char	   *rose_arena_base = NULL;
bool		rose_arena_use_reserve = false;

static RoseArenaShared *arena = NULL;
static Size refused_pages = 0;	/* what this process asked for last and did not get */
static int	memtable_size_kb = 256 * 1024;	/* rose.memtable_size */

void
rose_arena_define_settings(void)
{
	DefineCustomIntVariable("rose.memtable_size",
							"Sets the memory shared by the memtables of all rose tables.",
							"Larger memtables mean fewer and larger merges.",
							&memtable_size_kb,
							256 * 1024,
							1024,
							31 * 1024 * 1024,	/* what a RoseArenaPtr reaches */
							PGC_POSTMASTER,
							GUC_UNIT_KB,
							NULL, NULL, NULL);
}

static Size
arena_npages(void)
{
	return (Size) memtable_size_kb * 1024 / FPM_PAGE_SIZE;
}

Size
rose_arena_shmem_size(void)
{
	Size		size = mul_size(arena_npages(), FPM_PAGE_SIZE);

	size = add_size(size, FPM_PAGE_SIZE);	/* alignment of page 0 */
	return add_size(size, sizeof(RoseArenaShared));
}

static inline FreePageManager *
arena_free_pages(void)
{
	return (FreePageManager *) (rose_arena_base + ROSE_FPM_OFFSET);
}

/*
 * 'found' says that another process initialised all shared memory of rose
 * already, and this one only maps it.
 */
void
rose_arena_shmem_init(bool found)
{
	bool		exists;

	arena = ShmemInitStruct("rose arena", rose_arena_shmem_size(), &exists);
	Assert(exists == found);
	rose_arena_base = (char *) TYPEALIGN(FPM_PAGE_SIZE,
										 (char *) arena + sizeof(RoseArenaShared));
	if (!found)
	{
		arena->arena_tranche = LWLockNewTrancheId();
		arena->write_tranche = LWLockNewTrancheId();
		LWLockInitialize(&arena->lock, arena->arena_tranche);
		arena->npages = arena_npages();
		pg_atomic_init_u64(&arena->used_pages, 0);
		pg_atomic_init_u64(&arena->last_memtable_id, 0);
		FreePageManagerInitialize(arena_free_pages(), rose_arena_base);
		FreePageManagerPut(arena_free_pages(), 1, arena->npages - 1);
	}
	LWLockRegisterTranche(arena->arena_tranche, "RoseArena");
	LWLockRegisterTranche(arena->write_tranche, "RoseWrite");
}

int
rose_arena_write_tranche(void)
{
	return arena->write_tranche;
}

Size
rose_arena_total_bytes(void)
{
	return (arena->npages - 1) * FPM_PAGE_SIZE;
}

Size
rose_arena_used_bytes(void)
{
	return (Size) pg_atomic_read_u64(&arena->used_pages) * FPM_PAGE_SIZE;
}

uint64
rose_arena_new_memtable_id(void)
{
	return pg_atomic_add_fetch_u64(&arena->last_memtable_id, 1);
}

/* May this process have npages more?  REQUIRES: arena->lock. */
static bool
arena_may_use(Size npages)
{
	Size		limit = arena->npages - 1;

	if (!rose_arena_use_reserve)
		limit -= rose_pressure_part(limit, ROSE_SHARE_RESERVE);
	return pg_atomic_read_u64(&arena->used_pages) + npages <= limit;
}

bool
rose_arena_has_refused(void)
{
	Size		wanted = Max(refused_pages, 1);
	bool		has;

	LWLockAcquire(&arena->lock, LW_SHARED);
	has = arena_may_use(wanted) && fpm_largest(arena_free_pages()) >= wanted;
	LWLockRelease(&arena->lock);
	return has;
}

Size
rose_arena_refused_bytes(void)
{
	return Max(refused_pages, 1) * FPM_PAGE_SIZE;
}

/* The header of a run. */
static inline RoseChunkShared *
chunk_at(Size page)
{
	return rose_arena_at(page * (FPM_PAGE_SIZE / ROSE_ARENA_UNIT));
}

/* A run of the shared arena: its first page, or 0 if there is none. */
static Size
arena_get(Size npages)
{
	Size		page;
	bool		ok;

	LWLockAcquire(&arena->lock, LW_EXCLUSIVE);
	ok = arena_may_use(npages) && FreePageManagerGet(arena_free_pages(), npages, &page);
	if (ok)
		pg_atomic_fetch_add_u64(&arena->used_pages, npages);
	LWLockRelease(&arena->lock);
	if (!ok)
		refused_pages = npages;
	return ok ? page : 0;
}

/* Give the memtable another run; its first page, or 0 if there is none. */
static Size
arena_add_run(RoseMemtableShared *memtable, Size npages)
{
	Size		page = memtable->local ? rose_local_arena_get(npages) : arena_get(npages);
	RoseChunkShared *chunk;

	if (page == 0)
		return 0;
	chunk = chunk_at(page);
	chunk->next = memtable->chunk_first;
	chunk->npages = npages;
	memtable->chunk_first = page;
	memtable->nbytes += npages * FPM_PAGE_SIZE;
	return page;
}

/*
 * Open a new chunk with room for 'size' bytes.  When no run of the wanted
 * length is left, shorter ones do: they use up what is fragmented.
 */
static bool
arena_new_chunk(RoseMemtableShared *memtable, Size size)
{
	Size		least = fpm_size_to_pages(size + sizeof(RoseChunkShared));
	Size		npages = memtable->nbytes / FPM_PAGE_SIZE;
	Size		page;

	npages = Max(Min(npages, ROSE_CHUNK_MAX_PAGES), least);
	while ((page = arena_add_run(memtable, npages)) == 0)
	{
		if (npages == least)
			return false;
		npages = Max(npages / 2, least);
	}
	memtable->bump = page * FPM_PAGE_SIZE + sizeof(RoseChunkShared);
	memtable->bump_end = (page + npages) * FPM_PAGE_SIZE;
	return true;
}

RoseArenaPtr
rose_arena_alloc(RoseMemtableShared *memtable, Size size)
{
	uint64		start;

	size = MAXALIGN(size);
	if (size > memtable->bump_end - memtable->bump)
	{
		if (size > ROSE_CHUNK_MAX_PIECE)
		{
			Size		npages = fpm_size_to_pages(size + sizeof(RoseChunkShared));
			Size		page = arena_add_run(memtable, npages);

			if (page == 0)
				return 0;
			return (page * FPM_PAGE_SIZE + sizeof(RoseChunkShared)) / ROSE_ARENA_UNIT;
		}
		if (!arena_new_chunk(memtable, size))
			return 0;
	}
	start = memtable->bump;
	memtable->bump += size;
	return start / ROSE_ARENA_UNIT;
}

bool
rose_arena_undo(RoseMemtableShared *memtable, RoseArenaPtr ptr, Size size)
{
	if ((uint64) ptr * ROSE_ARENA_UNIT + MAXALIGN(size) != memtable->bump)
		return false;
	memtable->bump -= MAXALIGN(size);
	return true;
}

/* REQUIRES: arena->lock. */
static void
arena_put(Size page, Size npages)
{
	FreePageManagerPut(arena_free_pages(), page, npages);
	pg_atomic_fetch_sub_u64(&arena->used_pages, npages);
}

static void
release_runs(Size page, void (*put) (Size page, Size npages))
{
	while (page != 0)
	{
		Size		next = chunk_at(page)->next;
		Size		npages = chunk_at(page)->npages;

		put(page, npages);		/* writes its own bookkeeping into the run */
		page = next;
	}
}

void
rose_arena_release(RoseMemtableShared *memtable)
{
	if (memtable->local)
		release_runs(memtable->chunk_first, rose_local_arena_put);
	else
	{
		LWLockAcquire(&arena->lock, LW_EXCLUSIVE);
		release_runs(memtable->chunk_first, arena_put);
		LWLockRelease(&arena->lock);
	}
	memtable->chunk_first = 0;
	memtable->bump = 0;
	memtable->bump_end = 0;
	memtable->nbytes = 0;
}
