/*-------------------------------------------------------------------------
 *
 * rose_key_reader.c
 *	  All versions of one key, newest first.  See rose_key_reader.h.
 *
 * Row locks come in between, and need not be in order: a key-share lock stays in C0 or in
 * its private run while others write newer versions of the key, and those may be spilled
 * and read after it.  So a lock says nothing about which versions were returned.
 *
 * Neither do rows of private runs.  One that was rolled back to a savepoint, or with all
 * of its transaction, is still there while others write newer versions of the key, and
 * those may lie behind it.  Whoever asks for the rows has to find out about their writers
 * anyway, and stops at one that is not aborted: that one is newer than what comes behind.
 *
 * Queries leave the oldest component's Bloom filter out as long as they keep finding what they
 * look for (rose_hits.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_store.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_hits.h"
#include "lsm/read/rose_key_reader.h"

/* What rests has rows of so many bytes, and cursors, at most. */
#define RESTING_BYTES		((Size) 64 * 1024)
#define RESTING_CURSORS		8

typedef struct CachedCursor
{
	uint32		component_id;
	RoseComponentCursor *cursor;
} CachedCursor;

typedef enum KeyReaderPhase
{
	KEY_READER_START,			/* memtables not positioned yet */
	KEY_READER_MEMORY,
	KEY_READER_DISK,
	KEY_READER_DONE
} KeyReaderPhase;

struct RoseKeyReader
{
	RoseTree   *tree;
	MemoryContext context;
	KeyReaderPhase phase;
	RoseView   *view;			/* that is being read, held; or NULL */
	const Datum *key;
	uint64		hash;			/* of key, once needed */
	bool		hashed;
	uint64		below;			/* versions returned so far are >= this; not locks, nor those of
								 * private runs */
	uint64		lock_below;		/* the same for locks, in the memory phase */
	uint64		above;			/* of other components than private runs, those are passed over that
								 * have nothing newer */
	bool		expect_hits;
	bool		locks_only;		/* versions are not wanted any more */

	/* memory phase */
	RoseMemCursor mem[ROSE_MAX_MEMTABLES];
	bool		moved;			/* they were positioned anew */
	uint64		disk_below;		/* 'below' when components come; 0 = as it is then */
	bool		mem_valid[ROSE_MAX_MEMTABLES];	/* has a version of the key */
	RoseMemPlace place;			/* of the current row */
	char	   *buffer;			/* copy of it */
	Size		buffer_size;
	Datum		row_key[INDEX_MAX_KEYS];

	/* disk phase */
	int			next_component;
	RoseComponentCursor *disk;	/* cursor on a version of the key, or NULL */
	int			disk_index;
	CachedCursor cursors[ROSE_MAX_COMPONENTS];
	int			ncursors;

	RoseRow		row;
};

RoseKeyReader *
rose_key_reader_create(RoseTree *tree, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose key reader",
												  ALLOCSET_DEFAULT_SIZES);
	RoseKeyReader *reader = MemoryContextAllocZero(context, sizeof(RoseKeyReader));

	reader->tree = tree;
	reader->context = context;
	reader->phase = KEY_READER_DONE;
	return reader;
}

void
rose_key_reader_free(RoseKeyReader *reader)
{
	if (reader->view != NULL)
		rose_view_release(reader->view);
	for (int i = 0; i < reader->ncursors; i++)
		rose_component_cursor_free(reader->cursors[i].cursor);
	MemoryContextDelete(reader->context);
}

bool
rose_key_reader_rest(RoseKeyReader *reader)
{
	bool		alone = reader->buffer_size <= RESTING_BYTES && reader->ncursors <= RESTING_CURSORS;

	if (reader->view != NULL)
		rose_view_release(reader->view);
	reader->view = NULL;
	reader->key = NULL;
	reader->disk = NULL;
	reader->phase = KEY_READER_DONE;
	for (int i = 0; i < reader->ncursors && alone; i++)
		alone = rose_component_cursor_may_rest(reader->cursors[i].cursor, RESTING_BYTES);
	return alone;
}

void
rose_key_reader_expect_hits(RoseKeyReader *reader)
{
	reader->expect_hits = true;
}

void
rose_key_reader_start(RoseKeyReader *reader, const Datum *key, uint64 below)
{
	reader->key = key;
	reader->hashed = false;
	reader->below = below;
	reader->lock_below = below;
	reader->above = 0;
	reader->locks_only = false;
	reader->moved = false;
	reader->disk_below = 0;
	memset(&reader->place, 0, sizeof(reader->place));
	reader->phase = KEY_READER_START;
	reader->disk = NULL;
	reader->next_component = 0;
}

bool
rose_key_reader_moved(const RoseKeyReader *reader)
{
	return reader->moved;
}

void
rose_key_reader_repeat_from(RoseKeyReader *reader, uint64 seq)
{
	reader->disk_below = seq + 1;
}

void
rose_key_reader_only_newer(RoseKeyReader *reader, uint64 seq)
{
	reader->above = seq;
}

void
rose_key_reader_locks_only(RoseKeyReader *reader)
{
	reader->locks_only = true;
}

RoseMemPlace
rose_key_reader_place(const RoseKeyReader *reader)
{
	return reader->place;
}

const RoseComponentEntryDisk *
rose_key_reader_entry(const RoseKeyReader *reader)
{
	return reader->disk ? rose_view_entry(reader->view, reader->disk_index) : NULL;
}

static bool
key_matches(RoseKeyReader *reader, const Datum *key)
{
	const RoseSchema *schema = reader->tree->schema;

	return rose_key_compare(schema, key, reader->key,
							rose_schema_key_width(schema)) == 0;
}

/* Copy an arena entry to private memory.  REQUIRES a reading section. */
static void
copy_entry(RoseKeyReader *reader, const RoseMemEntryRef *entry, RoseRow *row)
{
	const RoseSchema *schema = reader->tree->schema;
	Size		row_size = entry->row ? MAXALIGN(entry->row->t_len) : 0;
	Size		present_size = entry->version.present ?
		ROSE_PRESENT_BYTES(schema->natts) : 0;

	if (reader->buffer_size < row_size + present_size)
	{
		Size		size = Max(1024, (row_size + present_size) * 2);

		/* a cached lookup is used again after there was no memory for it */
		if (reader->buffer)
			pfree(reader->buffer);
		reader->buffer = NULL;
		reader->buffer_size = 0;
		reader->buffer = MemoryContextAllocHuge(reader->context, size);
		reader->buffer_size = size;
	}
	memset(row, 0, sizeof(*row));
	row->version = entry->version;
	if (entry->row)
	{
		memcpy(reader->buffer, entry->row, entry->row->t_len);
		row->tuple = (MinimalTuple) reader->buffer;
	}
	if (present_size)
	{
		memcpy(reader->buffer + row_size, entry->version.present, present_size);
		row->version.present = (bits8 *) (reader->buffer + row_size);
	}
	rose_key_from_tuple(schema, row->tuple, row->version.rowid, reader->row_key);
	row->key = reader->row_key;
}

/* Does the cursor stand on a version of the key?  REQUIRES a reading section. */
static bool
mem_cursor_on_key(RoseKeyReader *reader, RoseMemCursor *cursor)
{
	const RoseSchema *schema = reader->tree->schema;
	RoseMemEntryRef entry;
	Datum		key[INDEX_MAX_KEYS];

	rose_mem_cursor_get(cursor, &entry);
	rose_key_from_tuple(schema, entry.row, entry.version.rowid, key);
	return key_matches(reader, key);
}

/* Take a view as of now, and find the key in all of its memtables.  REQUIRES a reading section. */
static void
position_memory(RoseKeyReader *reader)
{
	RoseTree   *tree = reader->tree;
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseView   *before = reader->view;
	int			width = rose_schema_key_width(tree->schema);

	reader->view = rose_view_take(tree);
	if (before != NULL)
		rose_view_release(before);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		reader->mem_valid[slot] = false;
		if (reader->view->memtables[slot] == 0)
			continue;
		rose_mem_cursor_open(&reader->mem[slot], c0, tree->schema, slot);
		if (rose_mem_cursor_seek(&reader->mem[slot], reader->key, width,
								 reader->below == PG_UINT64_MAX ? PG_UINT64_MAX : reader->below - 1))
			reader->mem_valid[slot] = mem_cursor_on_key(reader, &reader->mem[slot]);
	}
	reader->phase = KEY_READER_MEMORY;
}

/* Has one of the view's memtables been freed, or the place in it been lost?  REQUIRES a reading section. */
static bool
lost_memtable(const RoseKeyReader *reader)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (reader->view->memtables[slot] != 0 &&
			!(reader->mem_valid[slot] ? rose_mem_cursor_stands(&reader->mem[slot]) :
			  rose_mem_cursor_alive(&reader->mem[slot])))
			return true;
	return false;
}

/* The memtable whose cursor stands on the newest version of the key, or -1.  REQUIRES a reading section. */
static int
newest_in_memory(const RoseKeyReader *reader, RoseMemEntryRef *best)
{
	int			best_slot = -1;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		RoseMemEntryRef entry;

		if (!reader->mem_valid[slot])
			continue;
		rose_mem_cursor_get(&reader->mem[slot], &entry);
		if (best_slot < 0 || entry.version.seq > best->version.seq)
		{
			*best = entry;
			best_slot = slot;
		}
	}
	return best_slot;
}

/* From here on the view's components are read: what has left a memtable since was in that when it was read. */
static void
begin_disk(RoseKeyReader *reader)
{
	memset(&reader->place, 0, sizeof(reader->place));
	reader->next_component = 0;
	reader->phase = KEY_READER_DISK;
	if (reader->disk_below != 0)
		reader->below = reader->disk_below;
}

/*
 * The newest version not returned yet among the view's memtables.  If one of them was
 * freed, or memory in it is used again, another view is taken.
 */
static const RoseRow *
next_from_memory(RoseKeyReader *reader)
{
	RoseC0Shared *c0 = &reader->tree->shared->c0;
	const RoseRow *result = NULL;

	rose_c0_read_begin(c0);
	if (reader->phase == KEY_READER_MEMORY && lost_memtable(reader))
	{
		reader->phase = KEY_READER_START;
		reader->moved = true;
	}
	if (reader->phase == KEY_READER_START)
		position_memory(reader);

	while (result == NULL)
	{
		RoseMemEntryRef best;
		uint64	   *below;
		int			slot = newest_in_memory(reader, &best);

		if (slot < 0 || reader->locks_only)
			break;				/* what is left in memory is older */
		/* a version carried over is in two memtables for a while; one that was
		 * killed was never there */
		below = best.version.op == ROSE_OP_LOCK ? &reader->lock_below : &reader->below;
		if (best.version.seq < *below && !(best.hints & ROSE_MEM_HINT_ABORTED))
		{
			copy_entry(reader, &best, &reader->row);
			reader->place.memtable_id = reader->mem[slot].memtable_id;
			reader->place.entry = best.ptr;
			*below = best.version.seq;
			result = &reader->row;
		}
		reader->mem_valid[slot] = rose_mem_cursor_next(&reader->mem[slot]) &&
			mem_cursor_on_key(reader, &reader->mem[slot]);
	}
	if (result == NULL)
		begin_disk(reader);
	rose_c0_read_end(c0);
	if (result == NULL)
		ROSE_STOP_POINT("lookup-listed");
	return result;
}

RoseComponentCursor *
rose_key_reader_cursor(RoseKeyReader *reader, const RoseComponentEntryDisk *entry,
					   RoseComponent *component)
{
	CachedCursor *slot;

	for (int i = 0; i < reader->ncursors; i++)
		if (reader->cursors[i].component_id == entry->id)
		{
			/* one that was kept from another file of that name */
			if (unlikely(!rose_component_cursor_is_of(reader->cursors[i].cursor, component)))
			{
				rose_component_cursor_free(reader->cursors[i].cursor);
				reader->cursors[i] = reader->cursors[--reader->ncursors];
				break;
			}
			/* a reader outlives statements, and the relcache entry may not */
			rose_component_cursor_rebind(reader->cursors[i].cursor, reader->tree->rel);
			rose_component_cursor_set_first(reader->cursors[i].cursor, entry->first_ordinal);
			return reader->cursors[i].cursor;
		}

	if (reader->ncursors == ROSE_MAX_COMPONENTS)
	{
		/* a reader used for long: the components it began with are gone */
		for (int i = 0; i < reader->ncursors; i++)
			rose_component_cursor_free(reader->cursors[i].cursor);
		reader->ncursors = 0;
	}
	slot = &reader->cursors[reader->ncursors];
	slot->cursor = rose_component_cursor_create(component, reader->tree->rel,
												reader->tree->schema, NULL,
												reader->context);
	rose_component_cursor_set_first(slot->cursor, entry->first_ordinal);
	slot->component_id = entry->id;
	reader->ncursors++;
	return slot->cursor;
}

/* Is the component that was taken last the oldest one that may have the key? */
static bool
is_oldest(const RoseKeyReader *reader)
{
	return reader->next_component >= reader->view->manifest.ncomponents;
}

/*
 * The next component to look into, -1 if there is none.  Of C2's pieces one
 * may have the key.
 */
static int
next_component(RoseKeyReader *reader)
{
	const RoseManifest *manifest = &reader->view->manifest;
	int			index = reader->next_component++;

	if (index >= manifest->ncomponents)
		return -1;
	if (manifest->components[index].level < 2 || index == manifest->ncomponents - 1)
		return index;
	reader->next_component = manifest->ncomponents;
	if (reader->above == PG_UINT64_MAX)
		return -1;				/* nothing there is newer, and the piece need not be found */
	index = rose_view_find_piece(reader->view, reader->key,
								 rose_schema_key_width(reader->tree->schema), false);
	return index < manifest->ncomponents ? index : -1;
}

/* May the component at disk_index have the key? */
static bool
may_contain(RoseKeyReader *reader, RoseComponent *component)
{
	RoseTree   *tree = reader->tree;

	if (!rose_component_in_range(component, reader->key))
		return false;
	if (is_oldest(reader) && reader->expect_hits && rose_hits_expected(tree))
		return true;
	if (!reader->hashed)
	{
		reader->hash = rose_key_hash(tree->schema, reader->key);
		reader->hashed = true;
	}
	if (rose_filter_ask(component, tree->rel, reader->key, reader->hash))
		return true;
	if (is_oldest(reader))
		rose_hits_note(tree, false);
	return false;
}

static bool
in_private_run(const RoseKeyReader *reader)
{
	const RoseComponentEntryDisk *entry = rose_key_reader_entry(reader);

	return entry != NULL && (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
}

static bool
may_have_locks(const RoseComponentEntryDisk *entry)
{
	return (entry->flags & (ROSE_COMPONENT_PRIVATE | ROSE_COMPONENT_NO_LOCKS)) == ROSE_COMPONENT_PRIVATE;
}

/*
 * Put a cursor into the next component that may have the key; *more: there is something
 * at its place or behind.  False if no component is left.
 */
static bool
enter_component(RoseKeyReader *reader, bool *more)
{
	int			width = rose_schema_key_width(reader->tree->schema);

	for (;;)
	{
		const RoseComponentEntryDisk *entry;
		RoseComponent *component;
		RoseComponentCursor *cursor;
		bool		private;

		reader->disk_index = next_component(reader);
		if (reader->disk_index < 0)
			return false;
		entry = rose_view_entry(reader->view, reader->disk_index);
		private = (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
		if (!rose_component_readable(entry) || (reader->locks_only && !may_have_locks(entry)) ||
			(!private && (entry->min_seq >= reader->below || entry->max_seq <= reader->above)))
			continue;
		component = rose_view_component(reader->view, reader->disk_index);
		if (!may_contain(reader, component))
			continue;
		cursor = rose_key_reader_cursor(reader, entry, component);
		if (rose_component_cursor_is_before(cursor, reader->key))
			continue;
		reader->disk = cursor;
		*more = rose_component_cursor_seek(cursor, reader->key, width,
										   private || reader->below == PG_UINT64_MAX ?
										   PG_UINT64_MAX : reader->below - 1);
		return true;
	}
}

static const RoseRow *
next_from_disk(RoseKeyReader *reader)
{
	for (;;)
	{
		const RoseRow *row;
		bool		first = reader->disk == NULL;
		bool		more;
		bool		found;

		if (!first && reader->locks_only && !may_have_locks(rose_key_reader_entry(reader)))
		{
			/* one transaction may have written the key a million times */
			reader->disk = NULL;
			continue;
		}
		if (!first)
			more = rose_component_cursor_next(reader->disk);
		else if (!enter_component(reader, &more))
		{
			reader->phase = KEY_READER_DONE;
			return NULL;
		}

		row = more ? rose_component_cursor_keyed_row(reader->disk) : NULL;
		found = row != NULL && key_matches(reader, row->key);
		if (first && is_oldest(reader))
			rose_hits_note(reader->tree, found);
		if (!found)
		{
			reader->disk = NULL;
			continue;
		}
		row = rose_component_cursor_row(reader->disk);
		if (row->version.op == ROSE_OP_LOCK)
			return row;
		if (row->version.seq >= reader->below)
			continue;			/* was in a memtable too */
		if (reader->locks_only)
			continue;
		if (!in_private_run(reader))
			reader->below = row->version.seq;
		return row;
	}
}

const RoseRow *
rose_key_reader_next(RoseKeyReader *reader, bool *committed)
{
	const RoseRow *row = NULL;

	*committed = false;
	if (reader->phase == KEY_READER_START || reader->phase == KEY_READER_MEMORY)
		row = next_from_memory(reader);
	if (row == NULL && reader->phase == KEY_READER_DISK)
	{
		row = next_from_disk(reader);
		if (row)
			*committed = !in_private_run(reader);
	}
	return row;
}

bool
rose_key_reader_in_order(const RoseKeyReader *reader, const RoseRow *row)
{
	return row->version.op != ROSE_OP_LOCK &&
		(!in_private_run(reader) || rose_version_status(&row->version) != ROSE_XID_ABORTED);
}

bool
rose_key_reader_find_seq(RoseKeyReader *reader, uint64 seq, RoseRow *row)
{
	RoseTree   *tree = reader->tree;
	RoseC0Shared *c0 = &tree->shared->c0;
	bool		found = false;

	rose_c0_read_begin(c0);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES && !found; slot++)
	{
		RoseArenaPtr ptr;
		RoseMemEntryRef entry;

		if (!rose_c0_has_memtable(c0, slot))
			continue;
		ptr = rose_memtable_find_seq(c0, slot, seq);
		if (ptr == 0)
			continue;
		rose_memtable_get(c0, tree->schema, ptr, &entry);
		copy_entry(reader, &entry, row);
		found = true;
	}
	rose_c0_read_end(c0);
	return found;
}
