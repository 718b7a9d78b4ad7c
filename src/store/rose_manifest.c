/*-------------------------------------------------------------------------
 *
 * rose_manifest.c
 *	  The manifest: read, and switched atomically.
 *
 * The manifest is an array in the metapage, newest component first.  A switch
 * is one WAL record.  It happens under alloc_lock, so that a removed component
 * goes from the manifest to the list of retired owners without a moment in
 * which the allocator would take its regions for free.
 *
 * A switch and a reader meet as follows.  The reader publishes its pin, then looks at
 * manifest_version or the metapage.  The switch changes the metapage, then
 * manifest_version, then takes the generation of what it retires.  Full barriers in
 * between make sure that either the reader sees the new manifest, or the next purge sees
 * the reader's pin with a generation that is not newer than the retired component's.
 *
 * What a component sheds by a trim is retired in the same way, under an owner id of its
 * own, and has no regions yet: they go to it after the switch (rose_shed.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

void
rose_manifest_read(Relation rel, RoseManifest *manifest)
{
	RelFileLocator locator = rose_file_name(rel);
	Buffer		buffer;
	const RoseMetaDisk *meta;

	rose_pin_begin_look(locator);
	buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	meta = rose_meta_of(BufferGetPage(buffer));
	manifest->newest_owner = meta->next_owner - 1;
	manifest->version = meta->manifest_version;
	manifest->ncomponents = meta->ncomponents;
	memcpy(manifest->components, meta->components,
		   meta->ncomponents * sizeof(RoseComponentEntryDisk));
	UnlockReleaseBuffer(buffer);
	rose_pin_end_look(locator, manifest->newest_owner);
}

static int
find_component(const RoseMetaDisk *meta, uint32 id)
{
	for (int i = 0; i < meta->ncomponents; i++)
	{
		if (meta->components[i].id == id)
			return i;
	}
	return -1;
}

/* ---- filling in an edit ---- */

void
rose_edit_remove(RoseManifestEdit *edit, uint32 id)
{
	Assert(edit->nremove < ROSE_MAX_COMPONENTS);
	edit->remove[edit->nremove++] = id;
}

RoseComponentEntryDisk *
rose_edit_add(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry)
{
	Assert(edit->nadd < ROSE_MAX_COMPONENTS);
	edit->add[edit->nadd] = *entry;
	return &edit->add[edit->nadd++];
}

void
rose_edit_trim(RoseManifestEdit *edit, uint32 id, uint64 first_ordinal)
{
	Assert(edit->ntrim < ROSE_MAX_COMPONENTS);
	edit->trim[edit->ntrim].id = id;
	edit->trim[edit->ntrim++].first_ordinal = first_ordinal;
}

RoseComponentEntryDisk *
rose_edit_update(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry)
{
	Assert(edit->nupdate < ROSE_MAX_COMPONENTS);
	edit->update[edit->nupdate] = *entry;
	return &edit->update[edit->nupdate++];
}

void
rose_edit_make_live(RoseManifestEdit *edit, const RoseComponentEntryDisk *pending)
{
	RoseComponentEntryDisk *live = rose_edit_update(edit, pending);

	live->state = ROSE_COMPONENT_LIVE;
	live->flags &= ~ROSE_COMPONENT_READ_PENDING;
	live->subid = InvalidOid;
	live->epoch = 0;
}

bool
rose_edit_has_components(const RoseManifestEdit *edit)
{
	return edit->nremove + edit->nadd + edit->ntrim + edit->nupdate > 0;
}

/* ---- applying it ---- */

static bool
is_trimmed(const RoseManifestEdit *edit, uint32 id)
{
	for (int i = 0; i < edit->ntrim; i++)
	{
		if (edit->trim[i].id == id)
			return true;
	}
	return false;
}

static bool
is_removed(const RoseManifestEdit *edit, uint32 id)
{
	for (int i = 0; i < edit->nremove; i++)
	{
		if (edit->remove[i] == id)
			return true;
	}
	return false;
}

/* Does it say behind which component the new ones go? */
static bool
names_place(const RoseManifestEdit *edit)
{
	return edit->add_behind != 0 && edit->add_behind != ROSE_ADD_BY_LEVEL &&
		edit->add_behind != ROSE_ADD_AT_NEWEST;
}

/* The error that the caller could not have excluded; all others are its mistakes. */
static void
check_room(Relation rel, const RoseMetaDisk *meta, const RoseManifestEdit *edit)
{
	if (meta->ncomponents - edit->nremove + edit->nadd > ROSE_MAX_COMPONENTS)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" cannot have more than %d components",
						RelationGetRelationName(rel), ROSE_MAX_COMPONENTS),
				 errhint("Wait for merges to catch up, or merge the table by hand.")));
}

static void
check_edit(Relation rel, const RoseStoreShared *store, const RoseMetaDisk *meta,
		   const RoseManifestEdit *edit)
{
	for (int i = 0; i < edit->nremove; i++)
	{
		if (find_component(meta, edit->remove[i]) < 0)
			elog(ERROR, "component %u of \"%s\" to remove is not in the manifest",
				 edit->remove[i], RelationGetRelationName(rel));
		for (int j = 0; j < i; j++)
		{
			if (edit->remove[j] == edit->remove[i])
				elog(ERROR, "component %u is to be removed twice", edit->remove[i]);
		}
	}
	for (int i = 0; i < edit->nupdate; i++)
	{
		if (find_component(meta, edit->update[i].id) < 0)
			elog(ERROR, "component %u of \"%s\" to update is not in the manifest",
				 edit->update[i].id, RelationGetRelationName(rel));
	}
	for (int i = 0; i < edit->ntrim; i++)
	{
		int			at = find_component(meta, edit->trim[i].id);

		if (at < 0 || edit->trim[i].first_ordinal < meta->components[at].first_ordinal ||
			edit->trim[i].first_ordinal >= meta->components[at].nrows)
			elog(ERROR, "component %u of \"%s\" cannot be trimmed to version " UINT64_FORMAT,
				 edit->trim[i].id, RelationGetRelationName(rel),
				 edit->trim[i].first_ordinal);
	}
	if (names_place(edit) &&
		(find_component(meta, edit->add_behind) < 0 || is_removed(edit, edit->add_behind)))
		elog(ERROR, "component %u of \"%s\" to add others behind is not in the manifest",
			 edit->add_behind, RelationGetRelationName(rel));
	for (int i = 0; i < edit->nadd; i++)
	{
		uint32		id = edit->add[i].id;

		if (id == 0 || id >= meta->next_owner || find_component(meta, id) >= 0 ||
			!rose_region_owner_is_building(store, id))
			elog(ERROR, "component %u of \"%s\" to add was not being built",
				 id, RelationGetRelationName(rel));
	}
	check_room(rel, meta, edit);
}

/* Old index in front of which the added entries go. */
static int
insert_position(const RoseMetaDisk *meta, const RoseManifestEdit *edit)
{
	int			position = 0;

	if (names_place(edit))
		position = find_component(meta, edit->add_behind) + 1;
	else if (edit->add_behind == ROSE_ADD_AT_NEWEST)
	{
		while (position < meta->ncomponents && !is_removed(edit, meta->components[position].id))
			position++;
	}
	else if (edit->nremove + edit->ntrim > 0 && edit->add_behind == 0)
	{
		for (int i = 0; i < meta->ncomponents; i++)
		{
			if (is_removed(edit, meta->components[i].id) ||
				is_trimmed(edit, meta->components[i].id))
				position = i;
		}
	}
	else if (edit->nadd > 0)
	{
		while (position < meta->ncomponents &&
			   meta->components[position].level < edit->add[0].level)
			position++;
	}
	return position;
}

static void
edit_components(RoseMetaDisk *meta, const RoseManifestEdit *edit)
{
	RoseComponentEntryDisk old[ROSE_MAX_COMPONENTS];
	int			nold = meta->ncomponents;
	int			position = insert_position(meta, edit);
	int			n = 0;

	for (int i = 0; i < edit->nupdate; i++)
	{
		RoseComponentEntryDisk *entry = &meta->components[find_component(meta, edit->update[i].id)];
		uint64		first_ordinal = entry->first_ordinal;

		*entry = edit->update[i];
		entry->first_ordinal = first_ordinal;
	}
	for (int i = 0; i < edit->ntrim; i++)
		meta->components[find_component(meta, edit->trim[i].id)].first_ordinal =
			edit->trim[i].first_ordinal;

	memcpy(old, meta->components, nold * sizeof(RoseComponentEntryDisk));
	memset(meta->components, 0, sizeof(meta->components));
	for (int i = 0; i <= nold; i++)
	{
		if (i == position)
		{
			for (int j = 0; j < edit->nadd; j++)
				meta->components[n++] = edit->add[j];
		}
		if (i < nold && !is_removed(edit, old[i].id))
			meta->components[n++] = old[i];
	}
	meta->ncomponents = n;
}

static void
edit_tails(RoseMetaDisk *meta, const RoseManifestEdit *edit)
{
	int			n = 0;

	for (int i = 0; i < meta->ntails; i++)
	{
		bool		drop = meta->tails[i].id <= edit->drop_tails_upto;

		for (int j = 0; j < edit->ndrop_tails; j++)
			drop = drop || meta->tails[i].id == edit->drop_tails[j];
		if (!drop)
			meta->tails[n++] = meta->tails[i];
	}
	memset(&meta->tails[n], 0, (ROSE_MAX_TAILS - n) * sizeof(RoseTailSegmentDisk));
	meta->ntails = n;
}

void
rose_manifest_note_levels(RoseStoreShared *store, int ncomponents,
						  const RoseComponentEntryDisk *components)
{
	uint32		nruns = 0;
	uint64		bytes[3] = {0, 0, 0};
	uint64		blocks[3] = {0, 0, 0};

	for (int i = 0; i < ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &components[i];
		int			level = Min(entry->level, 2);

		nruns += entry->level == 0 && entry->state == ROSE_COMPONENT_LIVE;
		bytes[level] += rose_component_rest(entry, entry->raw_bytes);
		blocks[level] += rose_component_rest(entry, entry->nblocks);
	}
	pg_atomic_write_u32(&store->nruns, nruns);
	for (int level = 0; level < lengthof(bytes); level++)
	{
		pg_atomic_write_u64(&store->level_bytes[level], bytes[level]);
		pg_atomic_write_u64(&store->level_blocks[level], blocks[level]);
	}
}

/* Owners of which readers need something that those of the new manifest do not.  REQUIRES: it is not edited yet. */
static int
find_replaced(const RoseMetaDisk *meta, const RoseManifestEdit *edit, uint32 *ids)
{
	int			n = edit->nremove;

	memcpy(ids, edit->remove, n * sizeof(uint32));
	for (int i = 0; i < edit->ntrim; i++)
	{
		const RoseComponentEntryDisk *entry = &meta->components[find_component(meta, edit->trim[i].id)];

		if ((entry->flags & ROSE_COMPONENT_SHRINKS) != 0 &&
			entry->first_ordinal < edit->trim[i].first_ordinal)
			ids[n++] = rose_component_shed_owner(entry->id);
	}
	return n;
}

/* After the switch: no error can be raised here. */
static void
retire(RoseStoreShared *store, const uint32 *ids, int n)
{
	uint64		generation = rose_pin_retire_generation();

	for (int i = 0; i < n; i++)
		store->nretired = rose_retired_note(store->retired, store->nretired, ids[i], generation);
}

void
rose_manifest_apply(Relation rel, RoseStoreShared *store, const RoseManifestEdit *edit)
{
	RoseMetaEdit change;
	RoseMetaDisk *meta;
	uint64		version;
	bool		drops_tails;
	uint32		replaced[2 * ROSE_MAX_COMPONENTS];
	int			nreplaced;

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	rose_region_owner_purge_retired(store);
	meta = rose_meta_edit_begin(rel, &change);
	check_edit(rel, store, meta, edit);
	nreplaced = find_replaced(meta, edit, replaced);

	rose_settled_edit(store, meta, edit);
	edit_components(meta, edit);
	drops_tails = edit->ndrop_tails > 0 || edit->drop_tails_upto > 0;
	if (drops_tails)
	{
		edit_tails(meta, edit);
		pg_atomic_write_u32(&store->ntails, meta->ntails);
	}
	meta->next_seq = Max(meta->next_seq, edit->next_seq);
	version = ++meta->manifest_version;
	rose_manifest_note_levels(store, meta->ncomponents, meta->components);
	rose_meta_edit_finish(&change);
	ROSE_STOP_POINT("manifest-switched");	/* under alloc_lock */

	pg_atomic_write_u64(&store->manifest_version, version);
	if (nreplaced > 0)
		retire(store, replaced, nreplaced);
	if (drops_tails)
		rose_region_owner_note_freed(store);
	LWLockRelease(&store->alloc_lock);
}
