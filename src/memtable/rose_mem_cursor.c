/*-------------------------------------------------------------------------
 *
 * rose_mem_cursor.c
 *	  Reading C0: cursors on one memtable, many keys at a time, entries by
 *	  sequence number.
 *
 * A cursor stands on an entry of the sorted list.  It knows its memtable by the
 * slot and by the id that the slot had when the cursor was opened, so it can
 * tell that the memtable was freed since.  By the memtable's turn it knows whether the
 * entry may have been taken out since (rose_recycle.c).  Entries that are not linked are
 * passed over.  What a snapshot sees of the rest is for upper layers.
 *
 * Locking: all within a reading section (rose_c0.h), or by who keeps the
 * memtable from being freed in another way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"

#include "memtable/rose_c0.h"
#include "memtable/rose_memahead.h"
#include "memtable/rose_memlist.h"
#include "memtable/rose_memtree.h"
#include "memtable/rose_seqindex.h"

/* ---- cursors ---- */

void
rose_mem_cursor_open(RoseMemCursor *cursor, RoseC0Shared *c0,
					 const RoseSchema *schema, int slot)
{
	cursor->c0 = c0;
	cursor->schema = schema;
	cursor->slot = slot;
	cursor->current = 0;
	cursor->ahead.parent = 0;
	cursor->ahead.row_bytes = 0;
	cursor->turn = 0;
	cursor->memtable_id = rose_c0_memtable_id(c0, slot);
}

/*
 * The state first: what may be read stays, with its id, until the section ends.  The other
 * way round, the memtable might go between the two looks, and another one come to its slot.
 */
bool
rose_mem_cursor_alive(const RoseMemCursor *cursor)
{
	return cursor->memtable_id != 0 &&
		rose_c0_memtable_id(cursor->c0, cursor->slot) == cursor->memtable_id;
}

static inline const RoseMemtableShared *
cursor_memtable(const RoseMemCursor *cursor)
{
	Assert(rose_mem_cursor_alive(cursor));
	return &cursor->c0->memtables[cursor->slot];
}

static inline uint32
current_turn(const RoseMemCursor *cursor)
{
	uint32		turn = *(const volatile uint32 *) &cursor_memtable(cursor)->turn;

	pg_read_barrier();			/* the turn before what is looked at */
	return turn;
}

bool
rose_mem_cursor_stands(const RoseMemCursor *cursor)
{
	return rose_mem_cursor_alive(cursor) &&
		(cursor->current == 0 || cursor->turn == current_turn(cursor));
}

bool
rose_mem_cursor_may_fall(const RoseMemCursor *cursor)
{
	return *(const volatile RoseArenaPtr *) &cursor_memtable(cursor)->recycler != 0;
}

/* Before a search from the beginning. */
static inline const RoseMemtableShared *
begin_search(RoseMemCursor *cursor)
{
	cursor->turn = current_turn(cursor);
	return cursor_memtable(cursor);
}

/* Stand on this entry, or the head, if it is linked, else on the one before. */
static bool
cursor_settle_back(RoseMemCursor *cursor, RoseArenaPtr ptr)
{
	RoseArenaPtr head = cursor_memtable(cursor)->head;

	if (ptr != head && rose_memlist_is_linked(ptr))
		cursor->current = ptr;
	else
		cursor->current = rose_memlist_before(head, ptr);
	return cursor->current != 0;
}

/* Stand on this entry, or 0, if it is linked, else on the one after. */
static bool
cursor_settle_on(RoseMemCursor *cursor, RoseArenaPtr ptr)
{
	cursor->current = rose_memlist_linked_from(ptr);
	return cursor->current != 0;
}

bool
rose_mem_cursor_seek(RoseMemCursor *cursor, const Datum *key, int ncols, uint64 seq)
{
	RoseMemBound bound = ncols < rose_schema_key_width(cursor->schema) ?
		ROSE_BEFORE_KEY : ROSE_BEFORE_VERSION;
	RoseArenaPtr before;
	RoseArenaPtr beyond;

	cursor->ahead.parent = 0;
	rose_memlist_find(begin_search(cursor), cursor->schema, key, ncols, bound, seq,
					  &before, &beyond);
	return cursor_settle_on(cursor, beyond);
}

bool
rose_mem_cursor_seek_last(RoseMemCursor *cursor, const Datum *key, int ncols,
						  bool inclusive)
{
	RoseMemBound bound = inclusive ? ROSE_THROUGH_KEY : ROSE_BEFORE_KEY;
	RoseArenaPtr before;
	RoseArenaPtr beyond;

	rose_memlist_find(begin_search(cursor), cursor->schema, key, ncols, bound, 0,
					  &before, &beyond);
	return cursor_settle_back(cursor, before);
}

bool
rose_mem_cursor_seek_image(RoseMemCursor *cursor, const void *image, bool forward)
{
	int			width = rose_schema_key_width(cursor->schema);
	RoseArenaPtr before;
	RoseArenaPtr beyond;
	RoseMemEntryRef entry;
	Datum		key[INDEX_MAX_KEYS];

	rose_memtable_image_get(cursor->schema, image, &entry);
	rose_key_from_tuple(cursor->schema, entry.row, entry.version.rowid, key);
	if (forward)
		return rose_mem_cursor_seek(cursor, key, width, entry.version.seq);
	cursor->ahead.parent = 0;
	rose_memlist_find(begin_search(cursor), cursor->schema, key, width, ROSE_BEFORE_VERSION,
					  entry.version.seq, &before, &beyond);
	if (beyond != 0 && rose_mementry_at(beyond)->seq == entry.version.seq)
	{
		RoseMemTarget target;

		rose_memlist_target(&target, cursor->schema, key, width, ROSE_BEFORE_KEY, 0);
		if (rose_memlist_has_key(rose_mementry_at(beyond), &target))
			before = beyond;
	}
	return cursor_settle_back(cursor, before);
}

bool
rose_mem_cursor_first(RoseMemCursor *cursor)
{
	rose_memahead_start(begin_search(cursor), &cursor->ahead);
	cursor->current = rose_memlist_after(cursor_memtable(cursor)->head);
	return cursor->current != 0;
}

/* The place of the entry under the cursor.  key: room for it. */
static void
target_of_current(const RoseMemCursor *cursor, RoseMemTarget *target, Datum *key)
{
	RoseMemEntryRef entry;

	rose_memlist_get(cursor->schema, cursor->current, &entry);
	rose_key_from_tuple(cursor->schema, entry.row, entry.version.rowid, key);
	rose_memlist_target(target, cursor->schema, key, rose_schema_key_width(cursor->schema),
						ROSE_BEFORE_VERSION, entry.version.seq);
}

void
rose_mem_cursor_walk(RoseMemCursor *cursor, bool forward, int row_bytes)
{
	Datum		key[INDEX_MAX_KEYS];
	RoseMemTarget target;

	cursor->ahead.row_bytes = row_bytes;
	if (cursor->current == 0 || rose_memahead_is_on(&cursor->ahead, forward))
		return;
	target_of_current(cursor, &target, key);
	rose_memahead_at(cursor_memtable(cursor), &cursor->ahead, forward, &target);
}

bool
rose_mem_cursor_last(RoseMemCursor *cursor)
{
	return cursor_settle_back(cursor, rose_memlist_find_last(begin_search(cursor)));
}

bool
rose_mem_cursor_next(RoseMemCursor *cursor)
{
	if (cursor->current != 0)
	{
		rose_memahead_step(&cursor->ahead);
		cursor->current = rose_memlist_after(cursor->current);
	}
	return cursor->current != 0;
}

bool
rose_mem_cursor_prev(RoseMemCursor *cursor)
{
	if (cursor->current != 0)
		cursor->current = rose_memlist_before(cursor_memtable(cursor)->head, cursor->current);
	return cursor->current != 0;
}

void
rose_mem_cursor_get(const RoseMemCursor *cursor, RoseMemEntryRef *entry)
{
	Assert(rose_mem_cursor_alive(cursor) && cursor->current != 0);
	rose_memlist_get(cursor->schema, cursor->current, entry);
}

int
rose_mem_cursor_take(RoseMemCursor *cursor, RoseMemEntryRef *entries, int n)
{
	Assert(rose_mem_cursor_alive(cursor));
	return rose_memlist_take(cursor->schema, &cursor->current, &cursor->ahead, entries, n);
}

void
rose_mem_cursor_return_to(RoseMemCursor *cursor, RoseArenaPtr entry)
{
	Assert(rose_mem_cursor_alive(cursor));
	cursor->current = entry;
}

int
rose_mem_cursor_take_plain(RoseMemCursor *cursor, bool forward, const RoseMemSeen *seen,
						   const RoseMemColumns *columns, int from, int to, bool whole)
{
	Assert(rose_mem_cursor_alive(cursor));
	return rose_memlist_take_plain(cursor_memtable(cursor), cursor->schema, &cursor->current,
								   &cursor->ahead, forward, seen, columns, from, to, whole);
}

int
rose_mem_cursor_take_arrivals(const RoseMemCursor *cursor, RoseMemArrivals *at,
							  const RoseMemSeen *seen, const RoseMemColumns *columns,
							  int from, int to)
{
	Assert(rose_mem_cursor_alive(cursor) && !cursor->c0->unnumbered);
	return rose_memlist_take_arrivals(cursor_memtable(cursor), cursor->schema, at, seen, columns, from, to);
}

void
rose_mem_cursor_hide_other(const RoseMemArrivals *at)
{
	rose_seqindex_hide(at->leaf, rose_mementry_at(at->other)->seq);
}

bool
rose_mem_cursor_newer(const RoseMemCursor *cursor, RoseMemEntryRef *entry)
{
	RoseArenaPtr ptr = rose_memlist_newer(cursor_memtable(cursor), cursor->schema, entry->ptr);

	if (ptr == 0)
		return false;
	rose_memlist_get(cursor->schema, ptr, entry);
	return true;
}

/* Do all entries come before this key?  Often so where keys only ever grow. */
static bool
ends_before(const RoseMemtableShared *memtable, const RoseSchema *schema, const Datum *key)
{
	RoseArenaPtr last = rose_memlist_find_last(memtable);
	RoseMemTarget target;

	if (last == memtable->head)
		return true;
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema),
						ROSE_BEFORE_KEY, 0);
	return rose_memlist_is_before(rose_mementry_at(last), &target);
}

static void
set_spot(RoseMemSpot *spot, const RoseMemtableShared *memtable, RoseArenaPtr leaf)
{
	spot->memtable_id = memtable->id;
	spot->leaf = leaf;
}

static void
probe_memtable(const RoseMemtableShared *memtable, const RoseSchema *schema,
			   const Datum *const *keys, int n, bool *found, RoseMemSpot *spots)
{
	RoseMemTarget targets[ROSE_MEMTREE_MANY];
	RoseArenaPtr before[ROSE_MEMTREE_MANY];
	RoseArenaPtr leaves[ROSE_MEMTREE_MANY];

	for (int from = 0; from < n; from += ROSE_MEMTREE_MANY)
	{
		int			part = Min(n - from, ROSE_MEMTREE_MANY);

		for (int i = 0; i < part; i++)
			rose_memlist_target(&targets[i], schema, keys[from + i],
								rose_schema_key_width(schema), ROSE_BEFORE_KEY, 0);
		rose_memtree_find_many(memtable, targets, part, before, leaves);
		for (int i = 0; i < part; i++)
		{
			if (rose_memlist_key_follows(before[i], &targets[i]))
				found[from + i] = true;
			if (spots != NULL)
				set_spot(&spots[from + i], memtable, leaves[i]);
		}
	}
}

void
rose_c0_probe(const RoseC0Shared *c0, const RoseSchema *schema, const Datum *const *keys,
			  int n, bool ascending, bool *found, RoseMemSpot *spots)
{
	if (spots != NULL)
		memset(spots, 0, n * sizeof(RoseMemSpot));
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		const RoseMemtableShared *memtable = &c0->memtables[slot];

		if (!rose_c0_has_memtable(c0, slot))
			continue;
		pg_read_barrier();		/* state before what it publishes */
		if (!ascending || !ends_before(memtable, schema, keys[0]))
			probe_memtable(memtable, schema, keys, n, found,
						   slot == c0->active ? spots : NULL);
	}
}

/* Smaller memtables are in the cache as it is. */
#define WARM_MIN_BYTES	((uint64) 4 * 1024 * 1024)

void
rose_c0_warm_active(const RoseC0Shared *c0, const RoseSchema *schema,
					const Datum *const *keys, int n, RoseMemSpot *spots)
{
	RoseMemTarget targets[ROSE_MEMTREE_MANY];
	RoseArenaPtr before[ROSE_MEMTREE_MANY];
	RoseArenaPtr leaves[ROSE_MEMTREE_MANY];

	memset(spots, 0, n * sizeof(RoseMemSpot));
	if (c0->active < 0 || c0->memtables[c0->active].nbytes < WARM_MIN_BYTES)
		return;
	for (int from = 0; from < n; from += ROSE_MEMTREE_MANY)
	{
		int			part = Min(n - from, ROSE_MEMTREE_MANY);

		for (int i = 0; i < part; i++)
			rose_memlist_target(&targets[i], schema, keys[from + i],
								rose_schema_key_width(schema), ROSE_BEFORE_VERSION,
								PG_UINT64_MAX);
		rose_memtree_find_many(&c0->memtables[c0->active], targets, part, before, leaves);
		for (int i = 0; i < part; i++)
			set_spot(&spots[from + i], &c0->memtables[c0->active], leaves[i]);
	}
}

/* ---- parts ---- */

#define MAX_PARTING_KEYS	256

int
rose_memtable_largest(const RoseC0Shared *c0, uint64 *versions)
{
	int			largest = -1;

	*versions = 0;
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		uint64		there = rose_c0_has_memtable(c0, slot) ?
			rose_memtable_versions(&c0->memtables[slot]) : 0;

		if (there <= *versions)
			continue;
		*versions = there;
		largest = slot;
	}
	return largest;
}

void
rose_memtable_part_keys(RoseC0Shared *c0, const RoseSchema *schema, int slot, int n,
						RoseMemTakeKey take, void *arg)
{
	RoseArenaPtr entries[MAX_PARTING_KEYS];
	int			nfound;

	if (!rose_c0_has_memtable(c0, slot))
		return;
	pg_read_barrier();			/* state before what it publishes */
	nfound = rose_memtree_part(&c0->memtables[slot], Min(n, MAX_PARTING_KEYS), entries);
	for (int i = 0; i < nfound; i++)
	{
		Datum		key[INDEX_MAX_KEYS];
		RoseMemEntryRef entry;

		rose_memlist_get(schema, entries[i], &entry);
		rose_key_from_tuple(schema, entry.row, entry.version.rowid, key);
		take(arg, key);
	}
}

/* ---- by sequence ---- */

RoseArenaPtr
rose_memtable_find_seq(RoseC0Shared *c0, int slot, uint64 seq)
{
	RoseMemtableShared *memtable = &c0->memtables[slot];
	RoseArenaPtr ptr;

	if (!rose_c0_has_memtable(c0, slot))
		return 0;
	pg_read_barrier();			/* state before what it publishes */
	ptr = rose_seqindex_find(memtable, seq);
	return ptr != 0 && rose_memlist_is_linked(ptr) ? ptr : 0;
}

void
rose_memtable_get(RoseC0Shared *c0, const RoseSchema *schema, RoseArenaPtr ptr,
				  RoseMemEntryRef *entry)
{
	rose_memlist_get(schema, ptr, entry);
}

uint64
rose_memtable_seq(RoseArenaPtr ptr)
{
	return rose_mementry_at(ptr)->seq;
}

void
rose_memtable_set_hint(RoseArenaPtr ptr, uint8 hint)
{
	RoseMemEntryShared *entry = rose_arena_at(ptr);

	/* two who set a bit at once may lose one: it is set again */
	entry->hints |= hint;
}
