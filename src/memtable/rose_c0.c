/*-------------------------------------------------------------------------
 *
 * rose_c0.c
 *	  A table's C0: its memtables' lives, writing entries, cursors.
 *
 * The sorted list and the sequence index are in files of their own; this one
 * decides which memtable they work on.  It knows nothing of transactions:
 * which entries a snapshot sees, and when a memtable is frozen, spilled and
 * freed, is for upper layers to say.
 *
 * Locking: see rose_memtable.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_memlist.h"
#include "memtable/rose_memtable.h"
#include "memtable/rose_memtree.h"
#include "memtable/rose_seqindex.h"
#include "port/atomics.h"
#include "utils/timestamp.h"

void
rose_c0_init(RoseC0Shared *c0, uint64 next_seq)
{
	LWLockInitialize(&c0->write_lock, rose_arena_write_tranche());
	LWLockInitialize(&c0->reclaim_lock, rose_arena_reclaim_tranche());
	c0->next_seq = next_seq;
	c0->active = -1;
	memset(c0->memtables, 0, sizeof(c0->memtables));
}

static int
find_free_slot(const RoseC0Shared *c0)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		if (c0->memtables[slot].state == ROSE_MEMTABLE_FREE)
			return slot;
	}
	return -1;
}

/* Bring a memtable to life; -1 if there is no slot or no memory. */
static int
create_memtable(RoseC0Shared *c0, const RoseSchema *schema)
{
	int			slot = find_free_slot(c0);
	RoseMemtableShared *memtable;

	if (slot < 0)
		return -1;
	memtable = &c0->memtables[slot];
	memset(memtable, 0, sizeof(RoseMemtableShared));
	memtable->oldest_xid = InvalidFullTransactionId;
	if (!rose_memlist_create(memtable, schema))
	{
		rose_arena_release(memtable);
		memset(memtable, 0, sizeof(RoseMemtableShared));
		return -1;
	}
	memtable->id = rose_arena_new_memtable_id();

	/* readers look at the state first */
	pg_write_barrier();
	memtable->state = ROSE_MEMTABLE_ACTIVE;
	c0->active = slot;
	return slot;
}

bool
rose_c0_prepare(RoseC0Shared *c0, const RoseSchema *schema,
				const RoseVersion *version, const Datum *key,
				MinimalTuple row, RoseMemPending *pending)
{
	const RoseMemSpot none = {0};

	return rose_c0_prepare_near(c0, schema, version, key, row, &none, pending);
}

bool
rose_c0_prepare_near(RoseC0Shared *c0, const RoseSchema *schema,
					 const RoseVersion *version, const Datum *key,
					 MinimalTuple row, const RoseMemSpot *hint,
					 RoseMemPending *pending)
{
	int			slot = c0->active;
	RoseMemtableShared *memtable;
	RoseArenaPtr *seq_slot;
	RoseArenaPtr entry;
	RoseMemTarget target;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	if (slot < 0)
		slot = create_memtable(c0, schema);
	if (slot < 0)
		return false;
	memtable = &c0->memtables[slot];

	seq_slot = rose_seqindex_reserve(memtable, version->seq);
	if (seq_slot == NULL)
		return false;
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema),
						ROSE_BEFORE_VERSION, version->seq);
	entry = rose_memlist_make_entry(memtable, schema, version, target.prefix.word[0], row);
	if (entry == 0 ||
		!rose_memlist_insert(memtable, &target,
							 hint->memtable_id == memtable->id ? hint->leaf : 0, entry))
		return false;
	rose_seqindex_store(seq_slot, entry);

	pending->entry = entry;
	pending->slot = slot;
	return true;
}

void
rose_c0_link(RoseC0Shared *c0, RoseMemPending *pending)
{
	RoseMemtableShared *memtable = &c0->memtables[pending->slot];
	RoseMemEntryShared *entry = rose_arena_at(pending->entry);

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	Assert(memtable->state == ROSE_MEMTABLE_ACTIVE);
	Assert(!entry->linked);

	if (memtable->nentries == 0)
	{
		memtable->min_seq = entry->seq;
		memtable->max_seq = entry->seq;
		memtable->oldest_xid = entry->xid;
		memtable->first_write = GetCurrentTimestamp();
	}
	else
	{
		memtable->min_seq = Min(memtable->min_seq, entry->seq);
		memtable->max_seq = Max(memtable->max_seq, entry->seq);
		if (FullTransactionIdPrecedes(entry->xid, memtable->oldest_xid))
			memtable->oldest_xid = entry->xid;
	}
	memtable->nentries++;
	entry->linked = 1;
}

uint64
rose_memtable_reuse_lock(RoseC0Shared *c0, RoseArenaPtr ptr, const RoseVersion *version)
{
	RoseMemtableShared *memtable = &c0->memtables[c0->active];
	RoseMemEntryShared *entry = rose_arena_at(ptr);

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	Assert(entry->op == ROSE_OP_LOCK && entry->linked);

	entry->xid = version->xid;
	entry->subxid = version->subxid;
	entry->cid = version->cid;
	entry->lockmode = version->lockmode;
	entry->hints = 0;
	if (FullTransactionIdPrecedes(entry->xid, memtable->oldest_xid))
		memtable->oldest_xid = entry->xid;
	return entry->seq;
}

int
rose_c0_freeze(RoseC0Shared *c0)
{
	int			slot = c0->active;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	if (slot < 0 || c0->memtables[slot].nentries == 0 || find_free_slot(c0) < 0)
		return -1;
	c0->memtables[slot].state = ROSE_MEMTABLE_FROZEN;
	c0->active = -1;
	return slot;
}

void
rose_c0_free_memtable(RoseC0Shared *c0, int slot)
{
	RoseMemtableShared *memtable = &c0->memtables[slot];

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	Assert(LWLockHeldByMeInMode(&c0->reclaim_lock, LW_EXCLUSIVE));

	rose_arena_release(memtable);
	memset(memtable, 0, sizeof(RoseMemtableShared));	/* also makes it FREE */
	if (c0->active == slot)
		c0->active = -1;
}

void
rose_c0_free_all(RoseC0Shared *c0)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		rose_c0_free_memtable(c0, slot);
}

bool
rose_c0_is_empty(const RoseC0Shared *c0)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		if (c0->memtables[slot].nentries > 0)
			return false;
	}
	return true;
}

uint64
rose_c0_bytes(const RoseC0Shared *c0)
{
	uint64		bytes = 0;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		bytes += c0->memtables[slot].nbytes;
	return bytes;
}

TimestampTz
rose_c0_first_write(const RoseC0Shared *c0)
{
	TimestampTz first = 0;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		TimestampTz at = c0->memtables[slot].first_write;

		if (at != 0 && (first == 0 || at < first))
			first = at;
	}
	return first;
}

/* ---- cursors ---- */

void
rose_mem_cursor_open(RoseMemCursor *cursor, RoseC0Shared *c0,
					 const RoseSchema *schema, int slot)
{
	RoseMemtableShared *memtable = &c0->memtables[slot];

	cursor->c0 = c0;
	cursor->schema = schema;
	cursor->slot = slot;
	cursor->current = 0;
	cursor->ahead.leaf = 0;
	cursor->ahead.row_bytes = 0;
	if (*(volatile RoseMemtableState *) &memtable->state == ROSE_MEMTABLE_FREE)
	{
		cursor->memtable_id = 0;
		return;
	}
	pg_read_barrier();			/* state before what it publishes */
	cursor->memtable_id = memtable->id;
}

bool
rose_mem_cursor_alive(const RoseMemCursor *cursor)
{
	return cursor->memtable_id != 0 &&
		cursor->c0->memtables[cursor->slot].id == cursor->memtable_id;
}

static inline const RoseMemtableShared *
cursor_memtable(const RoseMemCursor *cursor)
{
	Assert(rose_mem_cursor_alive(cursor));
	return &cursor->c0->memtables[cursor->slot];
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
	if (ptr == 0 || rose_memlist_is_linked(ptr))
		cursor->current = ptr;
	else
		cursor->current = rose_memlist_after(ptr);
	return cursor->current != 0;
}

bool
rose_mem_cursor_seek(RoseMemCursor *cursor, const Datum *key, int ncols, uint64 seq)
{
	RoseMemBound bound = ncols < rose_schema_key_width(cursor->schema) ?
		ROSE_BEFORE_KEY : ROSE_BEFORE_VERSION;
	RoseArenaPtr before;
	RoseArenaPtr beyond;

	cursor->ahead.leaf = 0;
	rose_memlist_find(cursor_memtable(cursor), cursor->schema, key, ncols, bound, seq,
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

	rose_memlist_find(cursor_memtable(cursor), cursor->schema, key, ncols, bound, 0,
					  &before, &beyond);
	return cursor_settle_back(cursor, before);
}

bool
rose_mem_cursor_first(RoseMemCursor *cursor)
{
	rose_memtree_ahead_start(cursor_memtable(cursor), &cursor->ahead);
	cursor->current = rose_memlist_after(cursor_memtable(cursor)->head);
	return cursor->current != 0;
}

bool
rose_mem_cursor_last(RoseMemCursor *cursor)
{
	return cursor_settle_back(cursor, rose_memlist_find_last(cursor_memtable(cursor)));
}

bool
rose_mem_cursor_next(RoseMemCursor *cursor)
{
	if (cursor->current != 0)
	{
		rose_memtree_ahead_step(&cursor->ahead);
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
rose_mem_cursor_take(RoseMemCursor *cursor, RoseMemEntryRef *entries, int n, int row_bytes)
{
	Assert(rose_mem_cursor_alive(cursor));
	cursor->ahead.row_bytes = row_bytes;
	return rose_memlist_take(cursor->schema, &cursor->current, &cursor->ahead, entries, n);
}

void
rose_mem_cursor_return_to(RoseMemCursor *cursor, const RoseMemEntryRef *entry)
{
	Assert(rose_mem_cursor_alive(cursor));
	cursor->current = entry->ptr;
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
probe_memtable(const RoseMemtableShared *memtable, const RoseSchema *schema,
			   const Datum *const *keys, int n, bool *found, RoseMemSpot *hints)
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
			if (hints != NULL)
				hints[from + i] = (RoseMemSpot) {memtable->id, leaves[i]};
		}
	}
}

void
rose_c0_probe(const RoseC0Shared *c0, const RoseSchema *schema, const Datum *const *keys,
			  int n, bool ascending, bool *found, RoseMemSpot *hints)
{
	memset(hints, 0, n * sizeof(RoseMemSpot));
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		const RoseMemtableShared *memtable = &c0->memtables[slot];

		if (*(volatile const RoseMemtableState *) &memtable->state == ROSE_MEMTABLE_FREE)
			continue;
		pg_read_barrier();		/* state before what it publishes */
		if (!ascending || !ends_before(memtable, schema, keys[0]))
			probe_memtable(memtable, schema, keys, n, found,
						   slot == c0->active ? hints : NULL);
	}
}

/* Smaller memtables are in the cache as it is. */
#define WARM_MIN_BYTES	((uint64) 4 * 1024 * 1024)

void
rose_c0_warm_active(const RoseC0Shared *c0, const RoseSchema *schema,
					const Datum *const *keys, int n, RoseMemSpot *hints)
{
	RoseMemTarget targets[ROSE_MEMTREE_MANY];
	RoseArenaPtr before[ROSE_MEMTREE_MANY];
	RoseArenaPtr leaves[ROSE_MEMTREE_MANY];

	memset(hints, 0, n * sizeof(RoseMemSpot));
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
			hints[from + i] = (RoseMemSpot) {c0->memtables[c0->active].id, leaves[i]};
	}
}

/* ---- by sequence ---- */

RoseArenaPtr
rose_memtable_find_seq(RoseC0Shared *c0, int slot, uint64 seq)
{
	RoseMemtableShared *memtable = &c0->memtables[slot];
	RoseArenaPtr ptr;

	if (*(volatile RoseMemtableState *) &memtable->state == ROSE_MEMTABLE_FREE)
		return 0;
	pg_read_barrier();
	ptr = rose_seqindex_find(memtable, seq);
	return ptr != 0 && rose_memlist_is_linked(ptr) ? ptr : 0;
}

void
rose_memtable_get(RoseC0Shared *c0, const RoseSchema *schema, RoseArenaPtr ptr,
				  RoseMemEntryRef *entry)
{
	rose_memlist_get(schema, ptr, entry);
}

void
rose_memtable_set_hint(RoseArenaPtr ptr, uint8 hint)
{
	RoseMemEntryShared *entry = rose_arena_at(ptr);

	/* two who set a bit at once may lose one: it is set again */
	entry->hints |= hint;
}

/* ---- what others ask of C0 as a whole ---- */

uint64
rose_c0_take_sequence(RoseC0Shared *c0, uint64 n)
{
	uint64		first;

	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	first = c0->next_seq;
	c0->next_seq += n;
	LWLockRelease(&c0->write_lock);
	return first;
}

void
rose_c0_raise_sequence(RoseC0Shared *c0, uint64 next_seq)
{
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	c0->next_seq = Max(c0->next_seq, next_seq);
	LWLockRelease(&c0->write_lock);
}

FullTransactionId
rose_c0_oldest_xid(RoseC0Shared *c0)
{
	FullTransactionId oldest = InvalidFullTransactionId;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		FullTransactionId mine = c0->memtables[slot].oldest_xid;

		if (c0->memtables[slot].state != ROSE_MEMTABLE_FREE &&
			FullTransactionIdIsValid(mine) &&
			(!FullTransactionIdIsValid(oldest) || FullTransactionIdPrecedes(mine, oldest)))
			oldest = mine;
	}
	LWLockRelease(&c0->write_lock);
	return oldest;
}

void
rose_c0_describe(RoseC0Shared *c0, RoseMemtableShared memtables[ROSE_MAX_MEMTABLES])
{
	LWLockAcquire(&c0->write_lock, LW_SHARED);
	memcpy(memtables, c0->memtables, sizeof(c0->memtables));
	LWLockRelease(&c0->write_lock);
}

bool
rose_c0_was_empty(RoseC0Shared *c0)
{
	bool		empty;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	empty = rose_c0_is_empty(c0);
	LWLockRelease(&c0->write_lock);
	return empty;
}
