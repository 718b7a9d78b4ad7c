/*-------------------------------------------------------------------------
 *
 * rose_settled.c
 *	  Since when the versions of a component are nowhere else.
 *
 * A version comes to disk in a run while its memtable is still read, and a run
 * that was loaded in bulk before its transaction has committed.  A component is
 * settled when that is over: no memtable has its versions, and all of them are
 * committed.  The generation of that moment is noted here, in shared memory, beside
 * the component's id.  A transaction whose pin is newer has met those versions in
 * components only, and each snapshot that it took since sees them; with the xmin that
 * its pin keeps, each snapshot that it may use at all does.  Merges ask for this
 * before they forget sequence numbers.
 *
 * A component is not settled when it is added, unless the switch says so: a merge
 * passes on what it knows of its inputs.  It becomes settled by the next
 * rose_settled_all; spills, epochs and those who look after private runs call it
 * when they are done.  What is not listed was in the file when the registry entry
 * was made, when nobody had pinned it and no memtable was there.
 *
 * Private runs and pending ones are never settled as such.  An update that makes
 * one of them live or ordinary takes it off or puts it on the list anew, so that one
 * whose transaction was prepared before a restart does not pass for settled.
 *
 * Locking: alloc_lock.  What is forgotten is merge/rose_forget.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

static RoseSettledShared *
find_settled(RoseStoreShared *store, uint32 id)
{
	for (int i = 0; i < store->nsettled; i++)
	{
		if (store->settled[i].id == id)
			return &store->settled[i];
	}
	return NULL;
}

static void
note_settled(RoseStoreShared *store, uint32 id, uint64 generation)
{
	RoseSettledShared *settled = find_settled(store, id);

	if (settled == NULL)
	{
		Assert(store->nsettled < ROSE_MAX_COMPONENTS);
		settled = &store->settled[store->nsettled++];
		settled->id = id;
	}
	settled->generation = generation;
}

static void
forget_settled(RoseStoreShared *store, uint32 id)
{
	RoseSettledShared *settled = find_settled(store, id);

	if (settled != NULL)
		*settled = store->settled[--store->nsettled];
}

static bool
can_settle(const RoseComponentEntryDisk *entry)
{
	return entry->state == ROSE_COMPONENT_LIVE && !(entry->flags & ROSE_COMPONENT_PRIVATE);
}

void
rose_settled_edit(RoseStoreShared *store, const RoseMetaDisk *meta,
				  const RoseManifestEdit *edit)
{
	for (int i = 0; i < edit->nremove; i++)
		forget_settled(store, edit->remove[i]);
	for (int i = 0; i < meta->ncomponents; i++)
	{
		if (can_settle(&meta->components[i]))
			continue;
		for (int j = 0; j < edit->nupdate; j++)
		{
			if (edit->update[j].id == meta->components[i].id)
				note_settled(store, edit->update[j].id, ROSE_UNSETTLED);
		}
	}
	for (int i = 0; i < edit->nadd; i++)
		note_settled(store, edit->add[i].id,
					 can_settle(&edit->add[i]) ? edit->settled : ROSE_UNSETTLED);
}

uint64
rose_settled_since(RoseStoreShared *store, uint32 id)
{
	const RoseSettledShared *settled;
	uint64		generation = ROSE_SETTLED_BEFORE_ALL;

	LWLockAcquire(&store->alloc_lock, LW_SHARED);
	settled = find_settled(store, id);
	if (settled != NULL)
		generation = settled->generation;
	LWLockRelease(&store->alloc_lock);
	return generation;
}

void
rose_settled_read_manifest(Relation rel, RoseStoreShared *store, RoseManifest *manifest,
						   uint64 *settled)
{
	LWLockAcquire(&store->alloc_lock, LW_SHARED);
	rose_manifest_read(rel, manifest);
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseSettledShared *known = find_settled(store, manifest->components[i].id);

		settled[i] = known != NULL ? known->generation : ROSE_SETTLED_BEFORE_ALL;
	}
	LWLockRelease(&store->alloc_lock);
}

void
rose_settled_all(Relation rel, RoseStoreShared *store)
{
	uint64		generation;
	Buffer		buffer;
	const RoseMetaDisk *meta;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	generation = rose_pin_retire_generation();
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	meta = rose_meta_of(BufferGetPage(buffer));
	for (int i = 0; i < meta->ncomponents; i++)
	{
		RoseSettledShared *settled = find_settled(store, meta->components[i].id);

		if (settled != NULL && settled->generation == ROSE_UNSETTLED &&
			can_settle(&meta->components[i]))
			settled->generation = generation;
	}
	UnlockReleaseBuffer(buffer);
	LWLockRelease(&store->alloc_lock);
}
