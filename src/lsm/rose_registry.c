/*-------------------------------------------------------------------------
 *
 * rose_registry.c
 *	  The shared hash of tables in use, by the locator of their file.
 *
 * It has a fixed number of places for entries (rose.max_tables).  They are in an array beside the
 * hash, taken from its start on, so that those that nobody ever needs are memory that
 * nobody touches: with the default they would be 17 MB.  An entry stays until its
 * file goes, or until another table needs the place; then one goes that has
 * nothing in memory that its file does not have, and that no transaction pins.
 *
 * Locking: one LWLock over the hash.  Backends take it once for each table
 * they meet, not once for each use: they remember entry and incarnation.
 * Pinning and eviction meet as follows.  A user publishes its pin, then (after a
 * full barrier) checks the incarnation.  Eviction clears the incarnation, then (after
 * a full barrier) looks for pins.  So at least one of them sees the other.
 *
 * Order: registry lock before the locks of a table.  attach_lock is taken
 * without the registry lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_registry.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/hsearch.h"

/* Evict this share of all entries at a time, so that a search is not for one only. */
#define ROSE_EVICT_SHARE	16

typedef struct RoseRegistryShared
{
	LWLock		lock;			/* the hash */
	int			lock_tranche;	/* constant */
	int			attach_tranche; /* constant */
	uint64		last_incarnation;	/* lock, exclusive */
	int			nplaces;		/* that were ever used; lock, exclusive */
	int			nfree;			/* of those; lock, exclusive */
	int			free[FLEXIBLE_ARRAY_MEMBER];	/* lock, exclusive */
} RoseRegistryShared;

/* What is in the hash. */
typedef struct RegistryKey
{
	RelFileLocator locator;		/* hash key */
	RoseTableShared *entry;
} RegistryKey;

static RoseRegistryShared *registry = NULL;
static RoseTableShared *registry_places = NULL;	/* max_tables of them */
static HTAB *registry_hash = NULL;
static int	max_tables = 4096;	/* rose.max_tables */

void
rose_registry_define_settings(void)
{
	DefineCustomIntVariable("rose.max_tables",
							"Sets how many rose tables of all databases can be in use at a time.",
							"Tables without unwritten changes that no transaction uses make room for others.",
							&max_tables,
							4096,
							16,
							1024 * 1024,
							PGC_POSTMASTER,
							0,
							NULL, NULL, NULL);
}

static Size
registry_size(void)
{
	return add_size(offsetof(RoseRegistryShared, free), mul_size(max_tables, sizeof(int)));
}

static Size
places_size(void)
{
	return mul_size(max_tables, sizeof(RoseTableShared));
}

Size
rose_registry_shmem_size(void)
{
	return add_size(add_size(MAXALIGN(registry_size()), MAXALIGN(places_size())),
					hash_estimate_size(max_tables, sizeof(RegistryKey)));
}

/* As rose_arena_shmem_init. */
void
rose_registry_shmem_init(bool found)
{
	HASHCTL		info = {0};
	bool		exists;

	registry = ShmemInitStruct("rose registry", registry_size(), &exists);
	if (!exists)
	{
		registry->lock_tranche = LWLockNewTrancheId();
		registry->attach_tranche = LWLockNewTrancheId();
		registry->last_incarnation = 0;
		registry->nplaces = registry->nfree = 0;
		LWLockInitialize(&registry->lock, registry->lock_tranche);
	}
	LWLockRegisterTranche(registry->lock_tranche, "RoseRegistry");
	LWLockRegisterTranche(registry->attach_tranche, "RoseAttach");

	registry_places = ShmemInitStruct("rose table entries", places_size(), &exists);
	info.keysize = sizeof(RelFileLocator);
	info.entrysize = sizeof(RegistryKey);
	registry_hash = ShmemInitHash("rose tables", max_tables, max_tables, &info,
								  HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

bool
rose_registry_available(void)
{
	return registry != NULL;
}

/* REQUIRES: lock. */
static RoseTableShared *
find_entry(RelFileLocator locator)
{
	RegistryKey *key = hash_search(registry_hash, &locator, HASH_FIND, NULL);

	return key != NULL ? key->entry : NULL;
}

/* The next one of a walk over all.  REQUIRES: lock. */
static RoseTableShared *
next_entry(HASH_SEQ_STATUS *status)
{
	RegistryKey *key = hash_seq_search(status);

	return key != NULL ? key->entry : NULL;
}

/* A new entry.  REQUIRES: lock exclusive. */
static void
init_entry(RoseTableShared *shared, RelFileLocator locator, Oid relid)
{
	shared->locator = locator;
	pg_atomic_init_u32(&shared->relid, relid);
	LWLockInitialize(&shared->attach_lock, registry->attach_tranche);
	shared->recovered = false;
	shared->fed_by = InvalidOid;
	rose_c0_init(&shared->c0, 1);
	rose_store_shared_init(&shared->store, shared->locator);
	pg_atomic_init_u64(&shared->bloom_probes, 0);
	pg_atomic_init_u64(&shared->bloom_passes, 0);
	pg_atomic_init_u64(&shared->merges, 0);
	pg_atomic_init_u64(&shared->spills, 0);
	rose_merge_stats_init(&shared->merge_stats);
	pg_atomic_init_u64(&shared->incarnation, ++registry->last_incarnation);
}

/* Make an entry for a file that has none; NULL: no place is free.  REQUIRES: lock exclusive. */
static RoseTableShared *
make_entry(RelFileLocator locator, Oid relid)
{
	RegistryKey *key;
	bool		found;

	if (registry->nfree == 0 && registry->nplaces == max_tables)
		return NULL;
	key = hash_search(registry_hash, &locator, HASH_ENTER_NULL, &found);
	if (key == NULL)
		return NULL;
	Assert(!found);
	key->entry = &registry_places[registry->nfree > 0 ? registry->free[--registry->nfree] :
								  registry->nplaces++];
	init_entry(key->entry, locator, relid);
	return key->entry;
}

/* Free what an entry holds and take it out.  REQUIRES: lock exclusive. */
static void
remove_entry(RoseTableShared *shared)
{
	RoseC0Shared *c0 = &shared->c0;

	pg_atomic_write_u64(&shared->incarnation, 0);
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	LWLockAcquire(&c0->reclaim_lock, LW_EXCLUSIVE);
	rose_c0_free_all(c0);
	LWLockRelease(&c0->reclaim_lock);
	LWLockRelease(&c0->write_lock);
	rose_owner_forget(shared->locator);
	(void) hash_search(registry_hash, &shared->locator, HASH_REMOVE, NULL);
	registry->free[registry->nfree++] = shared - registry_places;
}

/* Could everything in this entry be made anew from the file? */
static bool
is_replaceable(const RoseTableShared *shared)
{
	/*
	 * Pending runs of a table that a subscription feeds would be taken for
	 * those of before a crash.
	 */
	if (OidIsValid(shared->fed_by) || shared->store.tail_segment != 0 ||
		!rose_c0_is_empty(&shared->c0))
		return false;
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (shared->store.building[i].id != 0)
			return false;
	}
	return true;
}

/* REQUIRES: lock exclusive. */
static bool
try_evict(RoseTableShared *shared)
{
	uint64		incarnation = pg_atomic_read_u64(&shared->incarnation);
	TransactionId xmin;

	if (!is_replaceable(shared))
		return false;			/* the cheap test first */

	pg_atomic_write_u64(&shared->incarnation, 0);
	pg_memory_barrier();
	if (rose_pin_oldest(shared->locator, &xmin) != PG_UINT64_MAX || !is_replaceable(shared))
	{
		pg_atomic_write_u64(&shared->incarnation, incarnation);
		return false;
	}
	remove_entry(shared);
	return true;
}

/* REQUIRES: lock exclusive. */
static void
evict_some(void)
{
	int			wanted = Max(max_tables / ROSE_EVICT_SHARE, 1);
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;

	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		if (try_evict(shared) && --wanted == 0)
		{
			hash_seq_term(&status);
			break;
		}
	}
}

RoseTableShared *
rose_registry_enter(RelFileLocator locator, Oid relid, uint64 *incarnation)
{
	RoseTableShared *shared;

	LWLockAcquire(&registry->lock, LW_SHARED);
	shared = find_entry(locator);
	if (shared == NULL)
	{
		LWLockRelease(&registry->lock);
		LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
		shared = find_entry(locator);
		if (shared == NULL)
			shared = make_entry(locator, relid);
		if (shared == NULL)
		{
			evict_some();
			shared = make_entry(locator, relid);
		}
		if (shared == NULL)
		{
			LWLockRelease(&registry->lock);
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many rose tables are in use"),
					 errdetail("All %d places for tables are taken by tables that are being used, have changes in memory or are fed by a subscription.",
							   max_tables),
					 errhint("You might need to increase rose.max_tables.")));
		}
	}
	*incarnation = pg_atomic_read_u64(&shared->incarnation);
	LWLockRelease(&registry->lock);
	return shared;
}

/* Drop an entry; incarnation 0: whichever it is. */
static bool
drop_entry(RelFileLocator locator, uint64 incarnation)
{
	RoseTableShared *shared;
	bool		drop;

	if (registry == NULL)
		return false;
	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	shared = find_entry(locator);
	drop = shared != NULL &&
		(incarnation == 0 || rose_registry_is_current(shared, incarnation));
	if (drop)
		remove_entry(shared);
	LWLockRelease(&registry->lock);
	return drop;
}

void
rose_registry_drop(RelFileLocator locator)
{
	(void) drop_entry(locator, 0);
}

void
rose_registry_drop_database(Oid dbid)
{
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;

	if (registry == NULL)
		return;
	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		if (rose_locator_db(shared->locator) == dbid)
			remove_entry(shared);
	}
	LWLockRelease(&registry->lock);
}

int
rose_registry_list(Oid dbid, RoseRegistryItem *items, int max)
{
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;
	int			n = 0;

	if (registry == NULL)
		return 0;
	LWLockAcquire(&registry->lock, LW_SHARED);
	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		if (rose_locator_db(shared->locator) != dbid)
			continue;
		if (n < max)
		{
			items[n].locator = shared->locator;
			items[n].relid = pg_atomic_read_u32(&shared->relid);
			items[n].c0_bytes = rose_c0_bytes(&shared->c0);
			items[n].first_write = rose_c0_first_write(&shared->c0);
			items[n].fed_by = shared->fed_by;
			items[n].nruns = pg_atomic_read_u32(&shared->store.nruns);
			items[n].ntails = pg_atomic_read_u32(&shared->store.ntails);
			items[n].manifest_version = pg_atomic_read_u64(&shared->store.manifest_version);
		}
		n++;
	}
	LWLockRelease(&registry->lock);
	return n;
}

void
rose_registry_visit(Oid dbid, RoseRegistryVisitor visitor, void *arg)
{
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;

	LWLockAcquire(&registry->lock, LW_SHARED);
	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		if (rose_locator_db(shared->locator) == dbid)
			visitor(shared, arg);
	}
	LWLockRelease(&registry->lock);
}

/* The item of a database, added if need be; NULL if there is no room. */
static RoseRegistryDatabase *
database_item(RoseRegistryDatabase *items, int *n, int max, Oid dbid)
{
	for (int i = 0; i < *n; i++)
	{
		if (items[i].dbid == dbid)
			return &items[i];
	}
	if (*n == max)
		return NULL;
	memset(&items[*n], 0, sizeof(RoseRegistryDatabase));
	items[*n].dbid = dbid;
	return &items[(*n)++];
}

int
rose_registry_databases(RoseRegistryDatabase *items, int max)
{
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;
	int			n = 0;

	if (registry == NULL)
		return 0;
	LWLockAcquire(&registry->lock, LW_SHARED);
	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		RoseRegistryDatabase *item = database_item(items, &n, max,
												   rose_locator_db(shared->locator));
		TimestampTz first_write = rose_c0_first_write(&shared->c0);

		if (item == NULL)
			continue;
		item->activity += pg_atomic_read_u64(&shared->incarnation) +
			pg_atomic_read_u64(&shared->store.manifest_version);
		if (OidIsValid(shared->fed_by))
			continue;
		item->ntails = Max(item->ntails, pg_atomic_read_u32(&shared->store.ntails));
		if (first_write == 0)
			continue;
		item->c0_bytes += rose_c0_bytes(&shared->c0);
		if (item->first_write == 0 || first_write < item->first_write)
			item->first_write = first_write;
	}
	LWLockRelease(&registry->lock);
	return n;
}

/*
 * Is there no file, or one that was emptied on its way to be unlinked?  A rose
 * file has at least its metapage.
 */
static bool
file_is_gone(RelFileLocator locator)
{
	SMgrRelation smgr = rose_smgropen(locator);
	bool		gone;

	gone = !smgrexists(smgr, MAIN_FORKNUM) || smgrnblocks(smgr, MAIN_FORKNUM) == 0;
	smgrclose(smgr);
	return gone;
}

int
rose_registry_sweep(Oid dbid)
{
	RelFileLocator *locators;
	uint64	   *incarnations;
	HASH_SEQ_STATUS status;
	RoseTableShared *shared;
	int			n = 0;
	int			ndropped = 0;

	if (registry == NULL)
		return 0;
	locators = palloc(max_tables * sizeof(RelFileLocator));
	incarnations = palloc(max_tables * sizeof(uint64));

	LWLockAcquire(&registry->lock, LW_SHARED);
	hash_seq_init(&status, registry_hash);
	while ((shared = next_entry(&status)) != NULL)
	{
		if (rose_locator_db(shared->locator) != dbid)
			continue;
		Assert(n < max_tables);
		locators[n] = shared->locator;
		incarnations[n++] = pg_atomic_read_u64(&shared->incarnation);
	}
	LWLockRelease(&registry->lock);

	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (file_is_gone(locators[i]) && drop_entry(locators[i], incarnations[i]))
			ndropped++;
	}
	pfree(locators);
	pfree(incarnations);
	return ndropped;
}
