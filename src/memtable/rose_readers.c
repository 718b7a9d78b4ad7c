/*-------------------------------------------------------------------------
 *
 * rose_readers.c
 *	  Reading sections.
 *
 * Each backend has a lock of its own, in a cache line of its own, and holds it shared in
 * its sections, whichever tree it reads.  So readers write nothing that other readers
 * write.  Who waits for readers takes each lock once, exclusively, one after the other,
 * and holds none of them for longer: it waits for those that were in a section when it
 * came, and nobody waits for it.
 *
 * A memtable that is about to be freed must not disappear in the middle of a section,
 * which has found it before.  So a C0 has an age, which grows when a memtable leaves, and
 * the memtable notes which.  A section has the age that it began with, and still finds
 * what has left at a later one.
 *
 * Who cannot wait asks instead, reader by reader, and goes on another time where one is in
 * a section (rose_readers_are_past).
 *
 * Sections of two trees, or of one, may be nested: a comparison function of a user's may
 * read tables.  The lock is taken with the first and let go with the last of them.
 *
 * Locking: as above.  Nobody who waits here may hold what a reader in his section waits
 * for: a buffer's lock, or the registry's, which a comparison function wants when it is the
 * first to touch a table.
 *
 * What this does not do: keep writers out, or memtables from being born.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"

#include "compat/rose_compat.h"
#include "memtable/rose_c0.h"
#include "memtable/rose_readers.h"

/* Sections in one another. */
#define READERS_MAX_DEPTH	8

typedef struct RoseReadersShared
{
	int			tranche;		/* constant */
	int			nlocks;			/* constant */
	pg_atomic_uint32 nused;		/* of the locks, the first so many were ever taken; only grows */
	LWLockPadded locks[FLEXIBLE_ARRAY_MEMBER];	/* by backend */
} RoseReadersShared;

static RoseReadersShared *readers = NULL;
static LWLock *my_lock = NULL;

/* Sections of this process.  After an error there are more than there should be, which the lock tells. */
static struct
{
	const RoseC0Shared *c0;
	uint64		age;
}			sections[READERS_MAX_DEPTH];
static int	depth = 0;

/* The array begins where a cache line does. */
Size
rose_readers_shmem_size(void)
{
	return add_size(add_size(offsetof(RoseReadersShared, locks), PG_CACHE_LINE_SIZE),
					mul_size(MaxBackends, sizeof(LWLockPadded)));
}

static inline LWLock *
lock_of(int i)
{
	LWLockPadded *locks = (LWLockPadded *) CACHELINEALIGN(readers->locks);

	return &locks[i].lock;
}

void
rose_readers_shmem_init(bool found)
{
	bool		exists;

	readers = ShmemInitStruct("rose readers", rose_readers_shmem_size(), &exists);
	if (!exists)
	{
		readers->tranche = LWLockNewTrancheId();
		readers->nlocks = MaxBackends;
		pg_atomic_init_u32(&readers->nused, 0);
		for (int i = 0; i < readers->nlocks; i++)
			LWLockInitialize(lock_of(i), readers->tranche);
	}
	LWLockRegisterTranche(readers->tranche, "RoseReaders");
}

static LWLock *
find_my_lock(void)
{
	int			index = rose_my_backend_slot();
	uint32		nused;

	if (index < 0 || index >= readers->nlocks)
		elog(ERROR, "process has no backend slot");
	/* before the first section: who does not see it yet has done what that section must see */
	nused = pg_atomic_read_u32(&readers->nused);
	while (nused <= (uint32) index && !pg_atomic_compare_exchange_u32(&readers->nused, &nused, index + 1))
		;
	return lock_of(index);
}

void
rose_readers_enter(const RoseC0Shared *c0)
{
	if (unlikely(my_lock == NULL))
		my_lock = find_my_lock();
	if (unlikely(depth > 0) && !LWLockHeldByMe(my_lock))
		depth = 0;				/* an error has ended them */
	if (depth == READERS_MAX_DEPTH)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("too many rose tables are read in one another"),
				 errhint("Functions that compare keys should not read tables.")));
	if (depth == 0)
		LWLockAcquire(my_lock, LW_SHARED);
	sections[depth].c0 = c0;
	sections[depth++].age = *(const volatile uint64 *) &c0->age;
	pg_read_barrier();			/* the age before what is looked at */
}

void
rose_readers_leave(const RoseC0Shared *c0)
{
	Assert(depth > 0 && sections[depth - 1].c0 == c0);

	if (--depth == 0)
		LWLockRelease(my_lock);
}

bool
rose_readers_began_before(const RoseC0Shared *c0, uint64 age)
{
	if (my_lock == NULL || depth == 0 || !LWLockHeldByMe(my_lock))
		return false;
	for (int i = depth - 1; i >= 0; i--)
		if (sections[i].c0 == c0)
			return sections[i].age < age;
	return false;
}

void
rose_readers_wait(bool local)
{
	if (my_lock != NULL && LWLockHeldByMe(my_lock))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot free memory of a rose table in a function that compares keys of another one"),
				 errhint("Try again, or read the table before the statement that compares keys.")));
	if (local)
		return;
	pg_memory_barrier();		/* what new sections must see before a look at old ones */
	for (int i = 0; i < readers->nlocks; i++)
	{
		LWLockAcquire(lock_of(i), LW_EXCLUSIVE);
		LWLockRelease(lock_of(i));
	}
}

bool
rose_readers_are_past(bool local, int *next)
{
	if (my_lock != NULL && LWLockHeldByMe(my_lock))
		return false;
	if (local)
		return true;
	if (*next == 0)
		pg_memory_barrier();	/* what new sections must see before a look at old ones */
	for (; *next < (int) pg_atomic_read_u32(&readers->nused); (*next)++)
	{
		if (!LWLockConditionalAcquire(lock_of(*next), LW_EXCLUSIVE))
			return false;
		LWLockRelease(lock_of(*next));
	}
	return true;
}
