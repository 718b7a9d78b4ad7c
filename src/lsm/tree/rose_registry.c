/*-------------------------------------------------------------------------
 *
 * rose_registry.c
 *	  The shared hash of tables in use, by the locator of their file.
 *
 * Entries have places.  The first rose.max_tables of them are in an array in main shared memory, taken
 * from its start on, so that those that nobody ever needs are memory that
 * nobody touches: with the default they would be 17 MB.  If there are more tables in use at a time, because
 * they have unwritten changes or transactions pin them, further places come in chunks of
 * dynamic shared memory.  Chunks are never given back: processes look at entries that are
 * gone to see that they are.  So max_tables limits what idle tables take, and nothing else.
 *
 * An entry stays until its file goes, or until there are more than max_tables; then those go that
 * have nothing in memory that their file does not have, and that no transaction pins.  Where a
 * transaction pins more files than a slot has room for, and so all, there is nothing to be had:
 * the next try comes when there are some more.
 *
 * Locking: one LWLock over the hash.  Backends take it once for each table
 * they meet, not once for each use: they remember entry and incarnation.
 * Pinning and eviction meet as follows.  A user publishes its pin, then (after a
 * full barrier) checks the incarnation.  Eviction clears the incarnation, then (after
 * a full barrier) looks for pins.  So at least one of them sees the other.
 *
 * Order: registry lock before the locks of a table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lsm/tree/rose_registry.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/dsa.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* Places in a chunk, and how many chunks there can be. */
#define ROSE_CHUNK_PLACES	64
#define ROSE_MAX_CHUNKS		16384

#define NO_PLACE			(-1)

/* Evict this share of all entries at a time, so that a search is not for one only. */
#define ROSE_EVICT_SHARE	16

typedef struct RoseRegistryShared
{
	LWLock		lock;			/* the hash */
	int			lock_tranche;	/* constant */
	int			memory_tranche; /* constant */
	uint32		nbuckets;		/* constant */
	uint64		last_incarnation;	/* lock, exclusive */
	int			nplaces;		/* that were ever used; lock */
	int			nentries;		/* lock, exclusive */
	int			free;			/* first free one of these places; lock, exclusive */
	int			evict_at;		/* no use to try with fewer entries; lock, exclusive */
	int			evict_from;		/* place to begin with; lock, exclusive */
	int			nchunks;		/* lock */
	dsa_pointer chunks[ROSE_MAX_CHUNKS];	/* set once; lock */
	int			buckets[FLEXIBLE_ARRAY_MEMBER]; /* first place in each; lock */
} RoseRegistryShared;

static RoseRegistryShared *registry = NULL;
static RoseTreeShared *registry_places = NULL; /* max_tables of them */
static void *registry_memory = NULL;	/* of the area that has the chunks */
static int	max_tables = 4096;	/* rose.max_tables */

/* This process's view of the chunks. */
static dsa_area *area = NULL;
static RoseTreeShared *chunk_at[ROSE_MAX_CHUNKS];

void
rose_registry_define_settings(void)
{
	DefineCustomIntVariable("rose.max_tables",
							"Sets for how many rose tables of all databases shared memory is kept.",
							"More can be used at a time; tables without unwritten changes that no transaction uses make room for others.",
							&max_tables,
							4096,
							16,
							1024 * 1024,
							PGC_POSTMASTER,
							0,
							NULL, NULL, NULL);
}

static uint32
bucket_count(void)
{
	return pg_nextpower2_32(Max(max_tables, 1024));
}

static Size
registry_size(void)
{
	return add_size(offsetof(RoseRegistryShared, buckets),
					mul_size(bucket_count(), sizeof(int)));
}

static Size
places_size(void)
{
	return mul_size(max_tables, sizeof(RoseTreeShared));
}

Size
rose_registry_shmem_size(void)
{
	return add_size(add_size(MAXALIGN(registry_size()), MAXALIGN(places_size())),
					MAXALIGN(dsa_minimum_size()));
}

static void
init_registry(void)
{
	registry->lock_tranche = LWLockNewTrancheId();
	registry->memory_tranche = LWLockNewTrancheId();
	registry->nbuckets = bucket_count();
	registry->last_incarnation = 0;
	registry->nplaces = registry->nentries = 0;
	registry->free = NO_PLACE;
	registry->evict_at = registry->evict_from = 0;
	registry->nchunks = 0;
	for (uint32 i = 0; i < registry->nbuckets; i++)
		registry->buckets[i] = NO_PLACE;
	LWLockInitialize(&registry->lock, registry->lock_tranche);
}

/* As rose_arena_shmem_init. */
void
rose_registry_shmem_init(bool found)
{
	bool		exists;

	registry = ShmemInitStruct("rose registry", registry_size(), &exists);
	if (!exists)
		init_registry();
	LWLockRegisterTranche(registry->lock_tranche, "RoseRegistry");
	LWLockRegisterTranche(registry->memory_tranche, "RoseRegistryMemory");

	registry_places = ShmemInitStruct("rose table entries", places_size(), &exists);
	registry_memory = ShmemInitStruct("rose table memory", dsa_minimum_size(), &exists);
	if (!exists)
	{
		dsa_area   *made = dsa_create_in_place(registry_memory, dsa_minimum_size(),
											   registry->memory_tranche, NULL);

		dsa_pin(made);			/* it stays when nobody is attached */
		dsa_detach(made);
	}
}

bool
rose_registry_available(void)
{
	return registry != NULL;
}

/* ---- places ---- */

/* For the life of the process. */
static dsa_area *
get_area(void)
{
	if (area == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		area = dsa_attach_in_place(registry_memory, NULL);
		dsa_pin_mapping(area);
		MemoryContextSwitchTo(old);
	}
	return area;
}

/* REQUIRES: lock. */
static RoseTreeShared *
place_at(int place)
{
	int			chunk = (place - max_tables) / ROSE_CHUNK_PLACES;

	if (place < max_tables)
		return &registry_places[place];
	if (chunk_at[chunk] == NULL)
		chunk_at[chunk] = dsa_get_address(get_area(), registry->chunks[chunk]);
	return &chunk_at[chunk][(place - max_tables) % ROSE_CHUNK_PLACES];
}

/* Processes of a server only: others have no dynamic shared memory.  REQUIRES: lock exclusive. */
static bool
add_chunk(void)
{
	dsa_pointer chunk;

	if (registry->nchunks == ROSE_MAX_CHUNKS || !IsUnderPostmaster)
		return false;
	chunk = dsa_allocate_extended(get_area(), ROSE_CHUNK_PLACES * sizeof(RoseTreeShared),
								  DSA_ALLOC_NO_OOM | DSA_ALLOC_ZERO);
	if (!DsaPointerIsValid(chunk))
		return false;
	registry->chunks[registry->nchunks++] = chunk;
	return true;
}

/* A free place, NO_PLACE if there is no memory for more.  REQUIRES: lock exclusive. */
static int
take_place(void)
{
	int			place = registry->free;

	if (place != NO_PLACE)
	{
		registry->free = place_at(place)->next;
		return place;
	}
	if (registry->nplaces == max_tables + registry->nchunks * ROSE_CHUNK_PLACES &&
		!add_chunk())
		return NO_PLACE;
	(void) place_at(registry->nplaces); /* which may fail */
	return registry->nplaces++;
}

void
rose_registry_reach_all(void)
{
	if (registry == NULL)
		return;
	LWLockAcquire(&registry->lock, LW_SHARED);
	for (int i = 0; i < registry->nchunks; i++)
		(void) place_at(max_tables + i * ROSE_CHUNK_PLACES);
	LWLockRelease(&registry->lock);
}

/* ---- the hash ---- */

static int *
bucket_of(RelFileLocator locator)
{
	uint32		hash = hash_bytes((const unsigned char *) &locator, sizeof(locator));

	return &registry->buckets[hash & (registry->nbuckets - 1)];
}

/* REQUIRES: lock. */
static RoseTreeShared *
find_entry(RelFileLocator locator)
{
	int			place = *bucket_of(locator);

	while (place != NO_PLACE)
	{
		RoseTreeShared *shared = place_at(place);

		if (RelFileLocatorEquals(shared->locator, locator))
			return shared;
		place = shared->next;
	}
	return NULL;
}

/* The next one of a walk over all, from *place = 0 on.  REQUIRES: lock. */
static RoseTreeShared *
next_entry(int *place)
{
	while (*place < registry->nplaces)
	{
		RoseTreeShared *shared = place_at((*place)++);

		if (pg_atomic_read_u64(&shared->incarnation) != 0)
			return shared;
	}
	return NULL;
}

/* A new entry.  REQUIRES: lock exclusive. */
static void
init_entry(RoseTreeShared *shared, RelFileLocator locator, Oid relid)
{
	shared->locator = locator;
	pg_atomic_init_u32(&shared->relid, relid);
	shared->recovered = false;
	shared->replay.begun = false;
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
static RoseTreeShared *
make_entry(RelFileLocator locator, Oid relid)
{
	int		   *bucket = bucket_of(locator);
	int			place = take_place();
	RoseTreeShared *shared;

	if (place == NO_PLACE)
		return NULL;
	shared = place_at(place);
	init_entry(shared, locator, relid);
	shared->next = *bucket;
	*bucket = place;
	registry->nentries++;
	return shared;
}

/* Take it out of its bucket; its place.  REQUIRES: lock exclusive. */
static int
unlink_entry(RoseTreeShared *shared)
{
	int		   *link = bucket_of(shared->locator);
	int			place;

	while (place_at(*link) != shared)
		link = &place_at(*link)->next;
	place = *link;
	*link = shared->next;
	return place;
}

/* Free what an entry holds and take it out.  REQUIRES: lock exclusive. */
static void
remove_entry(RoseTreeShared *shared)
{
	int			place;

	pg_atomic_write_u64(&shared->incarnation, 0);
	rose_c0_write_begin(&shared->c0);
	rose_c0_clear(&shared->c0);
	rose_c0_write_end(&shared->c0);
	rose_owner_forget(shared->locator);
	place = unlink_entry(shared);
	shared->next = registry->free;
	registry->free = place;
	registry->nentries--;
}

/* Could everything in this entry be made anew from the file? */
static bool
is_replaceable(const RoseTreeShared *shared)
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
try_evict(RoseTreeShared *shared)
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

/* Does a transaction pin every file? */
static bool
is_all_pinned(void)
{
	RelFileLocator none = {0};
	TransactionId xmin;

	return rose_pin_oldest(none, &xmin) != PG_UINT64_MAX;
}

/* Go down to a little less than max_tables, as far as possible.  REQUIRES: lock exclusive. */
static void
evict_some(void)
{
	int			share = Max(max_tables / ROSE_EVICT_SHARE, 1);
	int			nlooks = is_all_pinned() ? 0 : registry->nplaces;

	for (int i = 0; i < nlooks; i++)
	{
		RoseTreeShared *shared;

		if (registry->nentries <= max_tables - share)
			break;
		if (registry->evict_from >= registry->nplaces)
			registry->evict_from = 0;
		shared = place_at(registry->evict_from++);
		if (pg_atomic_read_u64(&shared->incarnation) != 0)
			(void) try_evict(shared);
	}
	registry->evict_at = registry->nentries + share;
}

/* REQUIRES: lock exclusive. */
static RoseTreeShared *
find_or_make_entry(RelFileLocator locator, Oid relid)
{
	RoseTreeShared *shared = find_entry(locator);

	if (shared != NULL)
		return shared;
	if (registry->nentries >= max_tables && registry->nentries >= registry->evict_at)
		evict_some();
	return make_entry(locator, relid);
}

RoseTreeShared *
rose_registry_enter(RelFileLocator locator, Oid relid, uint64 *incarnation)
{
	RoseTreeShared *shared;

	LWLockAcquire(&registry->lock, LW_SHARED);
	shared = find_entry(locator);
	if (shared == NULL)
	{
		LWLockRelease(&registry->lock);
		LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
		shared = find_or_make_entry(locator, relid);
		if (shared == NULL)
		{
			int			n = registry->nentries;

			LWLockRelease(&registry->lock);
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of shared memory for rose tables"),
					 errdetail("%d tables are being used, have changes in memory or are fed by a subscription.",
							   n),
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
	RoseTreeShared *shared;
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
	int			place = 0;
	RoseTreeShared *shared;

	if (registry == NULL)
		return;
	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	while ((shared = next_entry(&place)) != NULL)
	{
		if (rose_locator_db(shared->locator) == dbid)
			remove_entry(shared);
	}
	LWLockRelease(&registry->lock);
}

int
rose_registry_list(Oid dbid, RoseRegistryItem *items, int max)
{
	int			place = 0;
	RoseTreeShared *shared;
	int			n = 0;

	if (registry == NULL)
		return 0;
	LWLockAcquire(&registry->lock, LW_SHARED);
	while ((shared = next_entry(&place)) != NULL)
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
			items[n].other_order = shared->other_order;
		}
		n++;
	}
	LWLockRelease(&registry->lock);
	return n;
}

void
rose_registry_visit(Oid dbid, RoseRegistryVisitor visitor, void *arg)
{
	int			place = 0;
	RoseTreeShared *shared;

	LWLockAcquire(&registry->lock, LW_SHARED);
	while ((shared = next_entry(&place)) != NULL)
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

/* Numbers whose sum changes whenever an entry comes or goes, or a manifest is switched. */
static uint64
activity_of(RoseTreeShared *shared)
{
	uint64		state[2];

	state[0] = pg_atomic_read_u64(&shared->incarnation);
	state[1] = pg_atomic_read_u64(&shared->store.manifest_version);
	return hash_bytes_extended((const unsigned char *) state, sizeof(state), 0);
}

static void
note_oldest(TimestampTz *oldest, TimestampTz at)
{
	if (*oldest == 0 || at < *oldest)
		*oldest = at;
}

static void
add_to_database(RoseRegistryDatabase *item, RoseTreeShared *shared, uint64 large)
{
	TimestampTz first_write = rose_c0_first_write(&shared->c0);
	uint64		bytes = rose_c0_bytes(&shared->c0);

	item->activity += activity_of(shared);
	if (OidIsValid(shared->fed_by) || shared->other_order)
		return;
	item->ntails = Max(item->ntails, pg_atomic_read_u32(&shared->store.ntails));
	if (first_write == 0)
		return;
	item->c0_bytes += bytes;
	note_oldest(&item->first_write, first_write);
	if (bytes >= large)
		note_oldest(&item->first_large_write, first_write);
}

int
rose_registry_databases(RoseRegistryDatabase *items, int max, uint64 large)
{
	int			place = 0;
	RoseTreeShared *shared;
	int			n = 0;

	if (registry == NULL)
		return 0;
	LWLockAcquire(&registry->lock, LW_SHARED);
	while ((shared = next_entry(&place)) != NULL)
	{
		RoseRegistryDatabase *item = database_item(items, &n, max,
												   rose_locator_db(shared->locator));

		if (item != NULL)
			add_to_database(item, shared, large);
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
	int			place = 0;
	RoseTreeShared *shared;
	int			max;
	int			n = 0;
	int			ndropped = 0;

	if (registry == NULL)
		return 0;
	LWLockAcquire(&registry->lock, LW_SHARED);
	max = registry->nentries;
	LWLockRelease(&registry->lock);
	locators = palloc_extended(max * sizeof(RelFileLocator), MCXT_ALLOC_HUGE);
	incarnations = palloc_extended(max * sizeof(uint64), MCXT_ALLOC_HUGE);

	/* those that come meanwhile have files */
	LWLockAcquire(&registry->lock, LW_SHARED);
	while (n < max && (shared = next_entry(&place)) != NULL)
	{
		if (rose_locator_db(shared->locator) != dbid)
			continue;
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

	/* those that came while a transaction pinned everything */
	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	if (registry->nentries > max_tables)
		evict_some();
	LWLockRelease(&registry->lock);
	return ndropped;
}
