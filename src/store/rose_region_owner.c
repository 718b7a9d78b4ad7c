/*-------------------------------------------------------------------------
 *
 * rose_region_owner.c
 *	  Owners of regions: ids, who builds one, which of them live.
 *
 * An owner id names a component or a tail segment and is never used twice in a
 * file.  It is reserved in the metapage first, in a WAL record that precedes
 * all others about the owner.  Until the manifest or the tail list names it, it
 * lives only through its place in RoseStoreShared.building: shared memory, so a
 * crash gives all of them up at once.  There are places for all that sessions can build
 * at a time, beside those for merges of workers (rose_store.h): nobody waits for one.
 *
 * A process also keeps a list of its own owners, to take them off the shared list at the
 * end of a (sub)transaction.  It names the file beside the pointer: the shared state may
 * be gone before the process knows (rose_region_owner_forget).  During an abort the
 * transaction still holds its table locks, so that the state of its own tables is still
 * there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "store/rose_pin.h"
#include "store/rose_region_owner.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* An owner that this process builds. */
typedef struct RoseOwnOwner
{
	RelFileLocator locator;
	RoseStoreShared *store;
	uint32		id;
	bool		keep;			/* across transactions */
	SubTransactionId subid;		/* of its birth, unless keep */
} RoseOwnOwner;

static RoseOwnOwner *own_owners = NULL; /* in TopMemoryContext */
static int	own_count = 0;
static int	own_size = 0;

/* ---- Which owners live ---- */

bool
rose_region_owner_is_building(const RoseStoreShared *store, uint32 id)
{
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (store->building[i].id == id)
			return true;
	}
	return false;
}

void
rose_region_owner_note_freed(RoseStoreShared *store)
{
	for (int i = 0; i < ROSE_REGION_USES; i++)
		store->maybe_free[i] = true;
}

void
rose_region_owner_purge_retired(RoseStoreShared *store)
{
	uint32		upto[ROSE_MAX_RETIRED];
	bool		freed;

	if (store->nretired == 0)
		return;
	rose_pin_find_needed(store->locator, store->retired, store->nretired, upto);
	store->nretired = rose_retired_keep(store->retired, store->nretired, upto, &freed);
	if (freed)
		rose_region_owner_note_freed(store);
}

/* Forget owners whose builder is gone. */
static void
purge_building(RoseStoreShared *store)
{
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		RoseBuildingShared *building = &store->building[i];

		if (building->id != 0 &&
			!rose_pin_is_alive(building->slot, building->incarnation))
		{
			building->id = 0;
			rose_region_owner_note_freed(store);
		}
	}
}

void
rose_region_owner_purge(RoseStoreShared *store)
{
	rose_region_owner_purge_retired(store);
	purge_building(store);
}

static int
compare_ids(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

void
rose_region_owner_collect(Relation rel, RoseStoreShared *store, RoseLiveOwners *live)
{
	Buffer		buffer;
	const RoseMetaDisk *meta;
	int			n = 0;

	rose_region_owner_purge(store);
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	meta = rose_meta_of(BufferGetPage(buffer));
	for (int i = 0; i < meta->ncomponents; i++)
		live->listed[n++] = meta->components[i].id;
	for (int i = 0; i < meta->ntails; i++)
		live->listed[n++] = meta->tails[i].id;
	UnlockReleaseBuffer(buffer);

	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (store->building[i].id != 0)
			live->listed[n++] = store->building[i].id;
	}

	qsort(live->listed, n, sizeof(uint32), compare_ids);
	live->nlisted = n;
	live->nretired = rose_retired_ranges(store->retired, store->nretired, live->retired);
	live->last_entry = 0;
	live->last_live = false;
}

/* ---- This process's owners ---- */

/* REQUIRES: the table still exists, or rose_region_owner_forget was not due yet. */
static void
unlist(const RoseOwnOwner *own)
{
	RoseStoreShared *store = own->store;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (store->building[i].id == own->id &&
			RelFileLocatorEquals(store->locator, own->locator))
		{
			store->building[i].id = 0;
			rose_region_owner_note_freed(store);
		}
	}
	LWLockRelease(&store->alloc_lock);
}

/* ids of own_owners to give up at the end of a (sub)transaction */
static void
release_owners(SubTransactionId subid)
{
	int			n = 0;

	for (int i = 0; i < own_count; i++)
	{
		RoseOwnOwner *own = &own_owners[i];

		if (!own->keep &&
			(subid == InvalidSubTransactionId || own->subid == subid))
			unlist(own);
		else
			own_owners[n++] = *own;
	}
	own_count = n;
}

static void
end_of_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			release_owners(InvalidSubTransactionId);
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

static void
end_of_subtransaction(SubXactEvent event, SubTransactionId subid,
					  SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		release_owners(subid);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = 0; i < own_count; i++)
		{
			if (!own_owners[i].keep && own_owners[i].subid == subid)
				own_owners[i].subid = parent;
		}
	}
}

/* Room for one more; everything that can fail. */
static void
prepare_own_list(void)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		registered = true;
	}
	if (own_owners == NULL)
	{
		own_owners = MemoryContextAlloc(TopMemoryContext, 8 * sizeof(RoseOwnOwner));
		own_size = 8;
	}
	else if (own_count == own_size)
	{
		own_owners = repalloc(own_owners, 2 * own_size * sizeof(RoseOwnOwner));
		own_size *= 2;
	}
}

/* The first of so many. */
static uint32
reserve_ids(Relation rel, int n)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta = rose_meta_edit_begin(rel, &edit);
	uint32		id = meta->next_owner;

	if (id > ROSE_MAX_OWNER - (n - 1))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has used up its component ids",
						RelationGetRelationName(rel)),
				 errhint("Rewrite the table with VACUUM FULL.")));
	meta->next_owner += n;
	rose_meta_edit_finish(&edit);
	return id;
}

/*
 * A place that is free, for merges that are kept not among those of others.  REQUIRES:
 * alloc_lock exclusive.
 */
static RoseBuildingShared *
find_place(Relation rel, RoseStoreShared *store, bool keep)
{
	for (int i = keep ? ROSE_MAX_BUILDING_OTHERS : 0; i < ROSE_MAX_BUILDING; i++)
	{
		if (store->building[i].id == 0)
			return &store->building[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many components of table \"%s\" are being built",
					RelationGetRelationName(rel)),
			 errdetail("At most %d can be built at the same time, %d of them by merges of maintenance workers.",
					   ROSE_MAX_BUILDING, ROSE_MAX_BUILDING_KEPT),
			 errhint("Try again later; maintenance workers do so by themselves.")));
	return NULL;				/* keep the compiler quiet */
}

uint32
rose_region_owner_begin(Relation rel, RoseStoreShared *store, int nids, bool keep)
{
	RoseOwnOwner own;
	RoseBuildingShared *building;
	int			slot;
	uint32		incarnation;

	prepare_own_list();
	rose_pin_whoami(&slot, &incarnation);

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	purge_building(store);
	building = find_place(rel, store, keep);

	own.id = reserve_ids(rel, nids);
	building->id = own.id;
	building->slot = slot;
	building->incarnation = incarnation;
	LWLockRelease(&store->alloc_lock);

	own.locator = store->locator;
	own.store = store;
	own.keep = keep;
	own.subid = keep ? InvalidSubTransactionId : GetCurrentSubTransactionId();
	own_owners[own_count++] = own;
	return own.id;
}

void
rose_region_owner_end(RoseStoreShared *store, uint32 owner)
{
	for (int i = 0; i < own_count; i++)
	{
		RoseOwnOwner own = own_owners[i];

		if (own.store == store && own.id == owner)
		{
			own_owners[i] = own_owners[--own_count];
			unlist(&own);
			return;
		}
	}
}

void
rose_region_owner_forget(RelFileLocator locator)
{
	int			n = 0;

	for (int i = 0; i < own_count; i++)
	{
		if (!RelFileLocatorEquals(own_owners[i].locator, locator))
			own_owners[n++] = own_owners[i];
	}
	own_count = n;
}
