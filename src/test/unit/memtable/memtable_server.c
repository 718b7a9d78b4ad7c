/*-------------------------------------------------------------------------
 *
 * memtable_server.c
 *	  The server that is not there: the few functions that src/memtable wants from
 *	  one, faked, the free page manager included.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "common/pg_prng.h"
#include "compat/rose_compat.h"
#include "compat/rose_compat_unit.h"
#include "memtable/rose_arena.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/datum.h"
#include "utils/freepage.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include <sched.h>

#define FAKE_PAGES 4096			/* 16 MB */

static char shared_memory[(FAKE_PAGES + 2) * FPM_PAGE_SIZE + 4096];
static bool page_used[FAKE_PAGES + 1];
int			left_behind = 0x7f;

pg_prng_state pg_global_prng_state = {1, 2};
int			MaxBackends = FAKE_READERS;
int			num_temp_buffers = 1024;
MemoryContext CurrentMemoryContext = NULL;

uint64
pg_prng_uint64(pg_prng_state *state)
{
	state->s0 ^= state->s0 << 13;
	state->s0 ^= state->s0 >> 7;
	state->s0 ^= state->s0 << 17;
	return state->s0;
}

void
DefineCustomIntVariable(const char *name, const char *short_desc,
						const char *long_desc, int *variable, int boot, int min,
						int max, GucContext context, int flags,
						GucIntCheckHook check, GucIntAssignHook assign,
						GucShowHook show)
{
	*variable = FAKE_PAGES * (FPM_PAGE_SIZE / 1024);
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	static Size taken = 0;
	char	   *result = shared_memory + taken;

	taken += MAXALIGN(size);
	CHECK(taken <= sizeof(shared_memory));
	*found = false;
	return result;
}

int
LWLockNewTrancheId(void)
{
	static int	next = FAKE_TRANCHE_READERS - 2;	/* the arena has two of them first */

	return next++;
}

void
LWLockRegisterTranche(int tranche, const char *name)
{
}

/*
 * Locks of reading sections are real ones, the others are not: only the writer thread
 * allocates, so there is nothing to lock out.  Readers that are threads have no section of
 * the module, which knows one process, but take its locks themselves.
 */
static LWLock *readers_locks[FAKE_READERS];
static int	nreaders_locks = 0;

void
LWLockInitialize(LWLock *lock, int tranche)
{
	if (tranche == FAKE_TRANCHE_READERS)
	{
		CHECK(nreaders_locks < FAKE_READERS);
		readers_locks[nreaders_locks++] = lock;
		pg_atomic_init_u32(&lock->state, 0);
	}
}

static bool
is_readers_lock(const LWLock *lock)
{
	for (int i = 0; i < nreaders_locks; i++)
		if (readers_locks[i] == lock)
			return true;
	return false;
}

bool
LWLockConditionalAcquire(LWLock *lock, LWLockMode mode)
{
	uint32		is_free = 0;

	CHECK(is_readers_lock(lock));
	return pg_atomic_compare_exchange_u32(&lock->state, &is_free, 1);
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	while (is_readers_lock(lock) && !LWLockConditionalAcquire(lock, mode))
		sched_yield();
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	if (is_readers_lock(lock))
		pg_atomic_exchange_u32(&lock->state, 0);
}

bool
LWLockHeldByMe(LWLock *lock)
{
	return !is_readers_lock(lock) || pg_atomic_read_u32(&lock->state) != 0;
}

void
reader_enter(int reader)
{
	CHECK(LWLockAcquire(readers_locks[reader], LW_SHARED));
}

void
reader_leave(int reader)
{
	LWLockRelease(readers_locks[reader]);
}

/* The module is to look at the locks of all readers: it has met the last one of them. */
void
make_readers(void)
{
	RoseC0Shared any = {0};

	ROSE_UNIT_SET_BACKEND_SLOT(FAKE_READERS - 1);
	rose_readers_enter(&any);
	rose_readers_leave(&any);
}

bool
LWLockHeldByMeInMode(LWLock *lock, LWLockMode mode)
{
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 1;
}

void
FreePageManagerInitialize(FreePageManager *fpm, char *base)
{
	memset(page_used, true, sizeof(page_used));
}

/* As the real one keeps it for fpm_largest. */
static void
note_largest(FreePageManager *fpm)
{
	Size		run = 0;

	fpm->contiguous_pages = 0;
	for (Size page = 1; page < FAKE_PAGES; page++)
	{
		run = page_used[page] ? 0 : run + 1;
		fpm->contiguous_pages = Max(fpm->contiguous_pages, run);
	}
}

bool
FreePageManagerGet(FreePageManager *fpm, Size npages, Size *first_page)
{
	Size		run = 0;

	for (Size page = 1; page < FAKE_PAGES; page++)
	{
		run = page_used[page] ? 0 : run + 1;
		if (run == npages)
		{
			*first_page = page + 1 - npages;
			memset(&page_used[*first_page], true, npages);
			note_largest(fpm);
			return true;
		}
	}
	return false;
}

void
FreePageManagerPut(FreePageManager *fpm, Size first_page, Size npages)
{
	for (Size page = first_page; page < first_page + npages; page++)
	{
		CHECK(page_used[page]);
		page_used[page] = false;
		memset(rose_arena_base + page * FPM_PAGE_SIZE, left_behind, FPM_PAGE_SIZE);
	}
	note_largest(fpm);
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

void
pfree(void *pointer)
{
	free(pointer);
}

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	fprintf(stderr, "error raised at %s:%d\n", filename, lineno);
	abort();
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

/* never reached: the keys here are the first column, and no row is short */
Datum
nocachegetattr(HeapTuple tup, int attnum, TupleDesc att)
{
	abort();
}

Datum
getmissingattr(TupleDesc tupdesc, int attnum, bool *isnull)
{
	abort();
}

Datum
datumCopy(Datum value, bool typByVal, int typLen)
{
	abort();
}

uint64
hash_bytes_uint32_extended(uint32 k, uint64 seed)
{
	abort();
}

Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum arg1, Datum arg2)
{
	abort();
}
