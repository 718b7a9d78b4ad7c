/*-------------------------------------------------------------------------
 *
 * rose_registry.c
 *	  The shared hash of tables in use, by the locator of their file.
 *
 * Entries have places (rose_place.c), and need memory only while they are there.  What
 * keeps an entry is that there is something in it that the file does not have, as
 * unwritten rows, or that a transaction pins the file, or that maintenance is not done
 * with it.  Others go when nobody has used them for rose.idle_table_timeout: the launcher
 * calls rose_registry_forget_idle now and then.  With more than rose.max_tables entries,
 * those go at once that nobody pins.
 *
 * Where a transaction pins more files than a slot has room for, and so all, there is
 * nothing to be had: the next try comes when there are some more, and in any case after a
 * while.
 *
 * Those of temporary tables are their session's own (rose_local_trees.c).
 *
 * Locking: one LWLock over the hash.  Backends take it once for each table
 * they meet, not once for each use: they remember entry and incarnation.
 * Pinning and eviction meet as follows.  A user publishes its pin, then (after a
 * full barrier) checks the incarnation.  Eviction clears the incarnation, then (after
 * a full barrier) looks for pins.  So at least one of them sees the other.
 *
 * Order: registry lock before the locks of a table.  But a function that compares keys
 * may be the first to touch a table, and wants this lock in a reading section of another
 * one.  So nobody waits for reading sections while he has it: an entry with memtables is
 * taken out first, its memory is freed when the lock is let go, and then its place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "util/rose_foreign.h"
#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "store/rose_pin.h"
#include "store/rose_region_owner.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_local_trees.h"
#include "lsm/tree/rose_place.h"
#include "lsm/tree/rose_registry.h"

#define NBUCKETS			32768	/* a power of 2 */

/* Evict this share of all entries at a time, so that a search is not for one only. */
#define ROSE_EVICT_SHARE	16

/* Entries looked at under one hold of the lock, when idle ones are looked for. */
#define ROSE_IDLE_AT_A_TIME		256

typedef struct RoseRegistryShared
{
	LWLock		lock;			/* the hash */
	int			lock_tranche;	/* constant */
	uint64		last_incarnation;	/* lock, exclusive */
	int			nentries;		/* lock, exclusive */
	int			evict_at;		/* no use to try with fewer entries; lock, exclusive */
	int			evict_from;		/* place to begin with; lock, exclusive */
	int			buckets[NBUCKETS];	/* first place in each; lock */
} RoseRegistryShared;

static RoseRegistryShared *registry = NULL;

/* Entries that this process has taken out and whose memtables are to be freed, linked by next. */
static RoseTreeShared *leaving = NULL;

static int	max_tables = 4096;	/* rose.max_tables */
int			rose_idle_table_timeout = 60 * 1000;	/* rose.idle_table_timeout */

void
rose_registry_define_settings(void)
{
	DefineCustomIntVariable("rose.max_tables",
							"Sets for how many rose tables of all databases, and indexes of them, shared memory may be kept at a time.",
							"More can be used; then tables without unwritten changes that no transaction uses make room for others.",
							&max_tables,
							4096,
							16,
							1024 * 1024,
							PGC_POSTMASTER,
							0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.idle_table_timeout",
							"Sets after how long shared memory of rose tables that nobody uses is freed.",
							"Only that of tables without unwritten changes.",
							&rose_idle_table_timeout,
							60 * 1000,
							10,
							24 * 3600 * 1000,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
}

/* Places that have memory from the start: in a single-user server, where no more can come, all. */
static int
base_places(void)
{
	return IsPostmasterEnvironment ? 1 : max_tables;
}

Size
rose_registry_shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(RoseRegistryShared)), rose_place_shmem_size(base_places()));
}

static void
init_registry(void)
{
	registry->lock_tranche = LWLockNewTrancheId();
	registry->last_incarnation = 0;
	registry->nentries = 0;
	registry->evict_at = registry->evict_from = 0;
	for (int i = 0; i < NBUCKETS; i++)
		registry->buckets[i] = ROSE_NO_PLACE;
	LWLockInitialize(&registry->lock, registry->lock_tranche);
}

/* As rose_arena_shmem_init. */
void
rose_registry_shmem_init(bool found)
{
	bool		exists;

	registry = ShmemInitStruct("rose registry", sizeof(RoseRegistryShared), &exists);
	if (!exists)
		init_registry();
	LWLockRegisterTranche(registry->lock_tranche, "RoseRegistry");
	rose_place_shmem_init(base_places());
}

bool
rose_registry_available(void)
{
	return registry != NULL;
}

void
rose_registry_reach_all(void)
{
	if (registry == NULL)
		return;
	LWLockAcquire(&registry->lock, LW_SHARED);
	rose_place_reach_all();
	LWLockRelease(&registry->lock);
}

/* ---- the hash ---- */

static int *
bucket_of(RelFileLocator locator)
{
	uint32		hash = hash_bytes((const unsigned char *) &locator, sizeof(locator));

	return &registry->buckets[hash & (NBUCKETS - 1)];
}

/* REQUIRES: lock. */
static RoseTreeShared *
find_entry(RelFileLocator locator)
{
	int			place = *bucket_of(locator);

	while (place != ROSE_NO_PLACE)
	{
		RoseTreeShared *shared = rose_place_entry(place);

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
	while (*place < rose_place_end())
	{
		int			here = (*place)++;

		if (pg_atomic_read_u64(rose_place_life(here)) != 0)
			return rose_place_entry(here);
	}
	return NULL;
}

/* A new entry.  REQUIRES: lock exclusive. */
static void
init_entry(RoseTreeShared *shared, int place, RelFileLocator locator, Oid relid)
{
	shared->place = place;
	shared->incarnation = ++registry->last_incarnation;
	rose_registry_entry_init(shared, locator, relid, registry->lock_tranche);
	pg_write_barrier();			/* all of it before it comes to life */
	pg_atomic_write_u64(rose_place_life(place), shared->incarnation);
}

/* Make an entry for a file that has none; NULL: no place is free.  REQUIRES: lock exclusive. */
static RoseTreeShared *
make_entry(RelFileLocator locator, Oid relid)
{
	int		   *bucket = bucket_of(locator);
	int			place = rose_place_take();
	RoseTreeShared *shared;

	if (place == ROSE_NO_PLACE)
		return NULL;
	shared = rose_place_entry(place);
	init_entry(shared, place, locator, relid);
	shared->next = *bucket;
	*bucket = place;
	registry->nentries++;
	return shared;
}

/* Take it out of its bucket.  REQUIRES: lock exclusive. */
static void
unlink_entry(RoseTreeShared *shared)
{
	int		   *link = bucket_of(shared->locator);

	while (*link != shared->place)
		link = &rose_place_entry(*link)->next;
	*link = shared->next;
}

/*
 * Take an entry out; free_leaving is to follow.  REQUIRES: lock exclusive, and that this
 * process reaches all entries of the bucket: what may fail here would leave half of it.
 */
static void
remove_entry(RoseTreeShared *shared)
{
	pg_atomic_write_u64(rose_place_life(shared->place), 0);
	rose_region_owner_forget(shared->locator);
	unlink_entry(shared);
	registry->nentries--;
	if (rose_c0_has_memtables(&shared->c0))
	{
		shared->next = leaving ? leaving->place : ROSE_NO_PLACE;
		leaving = shared;
	}
	else
		rose_place_release(shared->place);
}

/*
 * Free what the entries hold that were taken out; in a function that compares keys, which
 * may be in a section, later.  REQUIRES: no LWLock.
 */
static void
free_leaving(void)
{
	while (leaving != NULL && rose_foreign_depth() == 0)
	{
		RoseTreeShared *shared = leaving;

		rose_c0_write_begin(&shared->c0);
		rose_c0_clear(&shared->c0);
		rose_c0_write_end(&shared->c0);

		LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
		leaving = shared->next == ROSE_NO_PLACE ? NULL : rose_place_entry(shared->next);
		rose_place_release(shared->place);
		LWLockRelease(&registry->lock);
	}
}

/* Could everything in this entry be made anew from the file? */
static bool
is_replaceable(const RoseTreeShared *shared)
{
	/*
	 * Pending runs of a table that a subscription feeds would be taken for
	 * those of before a crash.  And by the entries it is found when it is no partition any more (rose_feed_list).
	 */
	if (OidIsValid(shared->fed_by) || OidIsValid(shared->logged_by) || shared->store.tail_segment != 0 ||
		!rose_c0_is_empty(&shared->c0))
		return false;
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (shared->store.building[i].id != 0)
			return false;
	}
	return !rose_claims_are_any(&shared->claims);
}

/* REQUIRES: as remove_entry. */
static bool
try_evict(RoseTreeShared *shared)
{
	pg_atomic_uint64 *life = rose_place_life(shared->place);
	TransactionId xmin;

	if (!is_replaceable(shared))
		return false;			/* the cheap test first */
	if (rose_foreign_depth() > 0 && rose_c0_has_memtables(&shared->c0))
		return false;			/* we may be in a section */

	pg_atomic_write_u64(life, 0);
	pg_memory_barrier();
	if (rose_pin_oldest(shared->locator, &xmin) != PG_UINT64_MAX || !is_replaceable(shared))
	{
		pg_atomic_write_u64(life, shared->incarnation);
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
	int			nlooks = is_all_pinned() ? 0 : rose_place_end();

	rose_place_reach_all();
	for (int i = 0; i < nlooks; i++)
	{
		int			place;

		if (registry->nentries <= max_tables - share)
			break;
		if (registry->evict_from >= rose_place_end())
			registry->evict_from = 0;
		place = registry->evict_from++;
		if (pg_atomic_read_u64(rose_place_life(place)) != 0)
			(void) try_evict(rose_place_entry(place));
	}
	registry->evict_at = registry->nentries + share;
}

/*
 * Was it not used since this was asked last, and is maintenance done with it?  Readers
 * would not miss what a worker may still have to do, but nobody else would come back to
 * it.
 */
static bool
is_idle(RoseTreeShared *shared, bool maintained)
{
	if (pg_atomic_exchange_u32(&shared->in_use, 0) != 0)
		return false;
	return !maintained || pg_atomic_read_u64(&shared->maintained_version) ==
		pg_atomic_read_u64(&shared->store.manifest_version);
}

/*
 * Numbers whose sum changes whenever an entry comes or goes, a manifest is switched, or
 * workers begin or cease to leave a table alone.
 */
static uint64
activity_of(RoseTreeShared *shared)
{
	uint64		state[2 + ROSE_PAUSE_KINDS];

	state[0] = shared->incarnation;
	state[1] = pg_atomic_read_u64(&shared->store.manifest_version);
	for (int i = 0; i < ROSE_PAUSE_KINDS; i++)
		state[2 + i] = pg_atomic_read_u64(&shared->pauses[i].until);
	return hash_bytes_extended((const unsigned char *) state, sizeof(state), 0);
}

bool
rose_registry_forget_idle(int *place, bool maintained, RoseRegistryForgotten forgotten)
{
	struct
	{
		Oid			dbid;
		uint64		activity;
	}			gone[ROSE_IDLE_AT_A_TIME];
	int			ngone = 0;
	int			end;
	bool		more;

	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	rose_place_reach_all();
	end = Min(*place + ROSE_IDLE_AT_A_TIME, rose_place_end());
	for (; *place < end; (*place)++)
	{
		RoseTreeShared *shared;

		if (pg_atomic_read_u64(rose_place_life(*place)) == 0)
			continue;
		shared = rose_place_entry(*place);
		gone[ngone].dbid = rose_locator_db(shared->locator);
		gone[ngone].activity = activity_of(shared);
		if (is_idle(shared, maintained) && try_evict(shared))
			ngone++;
	}
	more = *place < rose_place_end();
	if (!more)
		rose_place_give_back();
	LWLockRelease(&registry->lock);
	free_leaving();
	for (int i = 0; i < ngone; i++)
		forgotten(gone[i].dbid, gone[i].activity);
	return more;
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
rose_registry_enter(RelFileLocator locator, Oid relid, uint64 *incarnation,
					pg_atomic_uint64 **life)
{
	RoseTreeShared *shared;

	if (rose_file_is_local(locator))
		return rose_local_trees_enter(locator, relid, incarnation, life);
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
			free_leaving();
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of shared memory for rose tables"),
					 errdetail("%d tables are being used, have changes in memory or are fed by a subscription.",
							   n),
					 IsUnderPostmaster ?
					 errhint("Let transactions that use many tables end, or give the server more dynamic shared memory.") :
					 errhint("You might need to increase rose.max_tables.")));
		}
	}
	*incarnation = shared->incarnation;
	*life = rose_place_life(shared->place);
	LWLockRelease(&registry->lock);
	free_leaving();
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
	ROSE_STOP_POINT("registry-dropping");	/* under the registry's lock */
	shared = find_entry(locator);
	drop = shared != NULL &&
		(incarnation == 0 || shared->incarnation == incarnation);
	if (drop)
		remove_entry(shared);
	LWLockRelease(&registry->lock);
	free_leaving();
	return drop;
}

/*
 * A transaction that ends must not fail any more; but to look at an entry, or at others
 * in its bucket, may mean to map memory that has come since the file was noted, and that
 * can fail, before anything was changed.  False if it does.
 */
static bool
try_at_end(void (*work) (RelFileLocator locator), RelFileLocator locator)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoffs = InterruptHoldoffCount;
	static bool done;			/* static: PG_TRY must not clobber it */

	done = true;
	PG_TRY();
	{
		work(locator);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		InterruptHoldoffCount = holdoffs;
		LWLockReleaseAll();		/* that of the registry */
		done = false;
	}
	PG_END_TRY();
	return done;
}

static void
drop_any_entry(RelFileLocator locator)
{
	(void) drop_entry(locator, 0);
}

/* What cannot be dropped stays until the next sweep. */
void
rose_registry_drop(RelFileLocator locator)
{
	if (rose_file_is_local(locator))
		rose_local_trees_drop(locator);
	else if (!try_at_end(drop_any_entry, locator))
		ereport(LOG,
				(errmsg("shared memory of a rose table that is gone could not be freed yet"),
				 errdetail("No memory of this process could be found to look at it.")));
}

static void
mark_options_stale(RelFileLocator locator)
{
	RoseTreeShared *shared;

	LWLockAcquire(&registry->lock, LW_SHARED);
	shared = find_entry(locator);
	if (shared != NULL)
		pg_atomic_write_u32(&shared->store.options.stale, 1);
	LWLockRelease(&registry->lock);
}

void
rose_registry_note_options(RelFileLocator locator)
{
	if (rose_file_is_local(locator))
		rose_local_trees_note_options(locator);
	else if (registry != NULL && !try_at_end(mark_options_stale, locator))
		ereport(LOG,
				(errmsg("changed options of a rose table could not be told to others yet"),
				 errdetail("No memory of this process could be found to look at it.")));
}

void
rose_registry_drop_database(Oid dbid)
{
	int			place = 0;
	RoseTreeShared *shared;

	if (registry == NULL)
		return;
	LWLockAcquire(&registry->lock, LW_EXCLUSIVE);
	rose_place_reach_all();
	while ((shared = next_entry(&place)) != NULL)
	{
		if (rose_locator_db(shared->locator) == dbid)
			remove_entry(shared);
	}
	LWLockRelease(&registry->lock);
	free_leaving();
}

void
rose_registry_memory(int *ntables, Size *nbytes)
{
	LWLockAcquire(&registry->lock, LW_SHARED);
	*ntables = registry->nentries;
	*nbytes = rose_place_bytes();
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
			items[n].spill_interval = rose_options_get(&shared->store.options,
													   ROSE_OPTION_SPILL_INTERVAL);
			items[n].options_stale = pg_atomic_read_u32(&shared->store.options.stale) != 0;
			items[n].fed_by = shared->fed_by;
			items[n].nruns = pg_atomic_read_u32(&shared->store.nruns);
			rose_store_levels(&shared->store, items[n].level_bytes, items[n].level_blocks);
			items[n].ntails = pg_atomic_read_u32(&shared->store.ntails);
			items[n].manifest_version = pg_atomic_read_u64(&shared->store.manifest_version);
			items[n].incarnation = shared->incarnation;
			items[n].other_order = shared->other_order;
			for (int i = 0; i < ROSE_PAUSE_KINDS; i++)
				items[n].paused_until[i] = rose_pause_until(&shared->pauses[i]);
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

void
rose_registry_end_pauses(RelFileLocator locator)
{
	RoseTreeShared *shared;

	if (registry == NULL || rose_file_is_local(locator))
		return;
	LWLockAcquire(&registry->lock, LW_SHARED);
	shared = find_entry(locator);
	if (shared != NULL)
		rose_pause_end(shared->pauses);
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
	int			interval = rose_options_get(&shared->store.options, ROSE_OPTION_SPILL_INTERVAL);

	item->activity += activity_of(shared);
	if (OidIsValid(shared->fed_by) || shared->other_order)
		return;
	item->ntails = Max(item->ntails, pg_atomic_read_u32(&shared->store.ntails));
	if (first_write == 0)
		return;
	item->c0_bytes += bytes;
	item->options_stale |= pg_atomic_read_u32(&shared->store.options.stale) != 0;
	note_oldest(&item->first_write, first_write);
	if (interval != ROSE_OPTION_UNSET)
		note_oldest(&item->due_at, TimestampTzPlusMilliseconds(first_write, interval));
	else
	{
		note_oldest(&item->first_common_write, first_write);
		if (bytes >= large)
			note_oldest(&item->first_large_write, first_write);
	}
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
		incarnations[n++] = shared->incarnation;
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
	free_leaving();
	return ndropped;
}
