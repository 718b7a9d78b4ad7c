/*-------------------------------------------------------------------------
 *
 * rose_c0.c
 *	  A table's C0: its memtables' lives, and writing entries.
 *
 * The sorted list and the sequence index are in files of their own; this one
 * decides which memtable they work on.  It knows nothing of transactions:
 * which entries a snapshot sees, and when a memtable is frozen, spilled and
 * freed, is for upper layers to say.
 *
 * Locking: see rose_c0.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_c0.h"
#include "memtable/rose_memlist.h"
#include "memtable/rose_seqindex.h"

void
rose_c0_init(RoseC0Shared *c0, uint64 next_seq)
{
	LWLockInitialize(&c0->write_lock, rose_arena_write_tranche());
	c0->next_seq = next_seq;
	c0->elsewhere = 0;
	c0->age = 0;
	c0->active = -1;
	c0->unnumbered = false;
	c0->local = false;
	memset(c0->memtables, 0, sizeof(c0->memtables));
}

void
rose_c0_set_unnumbered(RoseC0Shared *c0)
{
	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	Assert(c0->unnumbered || !rose_c0_has_memtables(c0));
	c0->unnumbered = true;
}

void
rose_c0_set_local(RoseC0Shared *c0)
{
	Assert(!rose_c0_has_memtables(c0));
	c0->local = true;
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
	memtable->local = c0->local;
	memtable->first_seq = c0->next_seq;
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

	return rose_c0_prepare_near(c0, schema, version, key, row, &none, NULL,
								pending) == ROSE_MEM_PREPARED;
}

RoseMemPrepared
rose_c0_prepare_near(RoseC0Shared *c0, const RoseSchema *schema,
					 const RoseVersion *version, const Datum *key,
					 MinimalTuple row, const RoseMemSpot *hint,
					 const RoseC0Look *look, RoseMemPending *pending)
{
	int			slot = c0->active;
	RoseMemtableShared *memtable;
	RoseArenaPtr *seq_slot = NULL;
	RoseArenaPtr entry;
	RoseMemTarget target;
	RoseMemPrepared result;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	if (slot < 0)
		slot = create_memtable(c0, schema);
	if (slot < 0)
		return ROSE_MEM_NO_ROOM;
	memtable = &c0->memtables[slot];

	if (!c0->unnumbered &&
		(seq_slot = rose_seqindex_reserve(memtable, version->seq)) == NULL)
		return ROSE_MEM_NO_ROOM;
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema),
						ROSE_BEFORE_VERSION, version->seq);
	entry = rose_memlist_make_entry(memtable, schema, version, target.prefix.word[0], row);
	if (entry == 0)
		return ROSE_MEM_NO_ROOM;
	result = rose_memlist_insert(memtable, &target,
								 hint->memtable_id == memtable->id ? hint->leaf : 0, look,
								 entry);
	if (result != ROSE_MEM_PREPARED)
	{
		rose_memlist_discard(memtable, entry);
		return result;
	}
	if (seq_slot != NULL)
		rose_seqindex_store(seq_slot, entry);

	pending->entry = entry;
	pending->slot = slot;
	return ROSE_MEM_PREPARED;
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
	pg_write_barrier();			/* before the next number: see rose_c0_look */
	if (entry->seq >= c0->next_seq)
		c0->next_seq = entry->seq + 1;
}

/* ---- looks ---- */

/* All versions with smaller numbers are linked, and whoever looks from now on finds them. */
void
rose_c0_look(const RoseC0Shared *c0, RoseC0Look *look)
{
	look->since = rose_c0_next_sequence(c0);
	look->until = 0;
	pg_read_barrier();			/* the number before what is looked at */
}

bool
rose_c0_look_ends(const RoseC0Shared *c0, RoseC0Look *look)
{
	Assert(LWLockHeldByMeInMode((LWLock *) &c0->write_lock, LW_EXCLUSIVE));

	look->until = c0->next_seq;
	return look->since > c0->elsewhere;
}

/* It takes a number of its own, so that looks from now on begin behind it. */
void
rose_c0_note_elsewhere(RoseC0Shared *c0)
{
	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	pg_write_barrier();			/* what can be found now before the number */
	c0->elsewhere = c0->next_seq++;
}

/* Is one of the versions of an entry's key that stand before it of after the look? */
static bool
is_preceded_since(const RoseMemtableShared *memtable, const RoseSchema *schema, RoseArenaPtr ptr,
				  const RoseC0Look *look)
{
	while ((ptr = rose_memlist_newer(memtable, schema, ptr)) != 0)
		if (rose_mementry_at(ptr)->seq >= look->since)
			return true;
	return false;
}

uint64
rose_c0_reuse_lock(RoseC0Shared *c0, const RoseSchema *schema, uint64 memtable_id,
				   RoseArenaPtr ptr, RoseC0Look *look, const RoseVersion *version)
{
	RoseMemEntryShared *entry;
	RoseMemtableShared *memtable;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	if (c0->active < 0 || c0->memtables[c0->active].id != memtable_id)
		return 0;
	memtable = &c0->memtables[c0->active];
	if (!rose_c0_look_ends(c0, look) || is_preceded_since(memtable, schema, ptr, look))
		return 0;
	entry = rose_arena_at(ptr);
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

/* ---- lives ---- */

bool
rose_c0_may_freeze(const RoseC0Shared *c0)
{
	return c0->active >= 0 && c0->memtables[c0->active].nentries > 0 &&
		find_free_slot(c0) >= 0;
}

int
rose_c0_freeze(RoseC0Shared *c0)
{
	int			slot = c0->active;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));

	if (!rose_c0_may_freeze(c0))
		return -1;
	c0->memtables[slot].state = ROSE_MEMTABLE_FROZEN;
	c0->active = -1;
	rose_c0_note_elsewhere(c0);
	return slot;
}

void
rose_c0_set_tail_segment(RoseC0Shared *c0, uint32 segment)
{
	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	if (c0->active >= 0)
		c0->memtables[c0->active].tail_segment = segment;
}

/*
 * Sections that begin from now on do not find it.  One that finds the new age finds the
 * state that goes with it, and what the memtable's rows were published in before.  Two
 * memtables that leave must not do so at one age: a section that has found the one that
 * leaves last would lose it on the way.  REQUIRES: write_lock.
 */
static void
begin_leaving(RoseC0Shared *c0, RoseMemtableShared *memtable)
{
	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	memtable->left_at = c0->age + 1;
	pg_write_barrier();
	memtable->state = ROSE_MEMTABLE_LEAVING;
	pg_write_barrier();
	c0->age = memtable->left_at;
}

bool
rose_c0_has_memtables(const RoseC0Shared *c0)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (c0->memtables[slot].state != ROSE_MEMTABLE_FREE)
			return true;
	return false;
}

/*
 * REQUIRES: that nobody reads the C0; write_lock.  One that has nothing is cleared
 * without waiting: a function that compares keys may be the first to touch another table,
 * in the middle of a reading section of ours.
 */
void
rose_c0_clear(RoseC0Shared *c0)
{
	bool		any = false;

	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		if (c0->memtables[slot].state == ROSE_MEMTABLE_FREE)
			continue;
		begin_leaving(c0, &c0->memtables[slot]);
		any = true;
	}
	if (any)
		rose_readers_wait(c0->local);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		rose_arena_release(&c0->memtables[slot]);
	memset(c0->memtables, 0, sizeof(c0->memtables));	/* also makes them FREE */
	c0->active = -1;
}

/*
 * Readers may keep us waiting.  So we wait with nothing held that a writer wants: the
 * memtable is dead to readers first, and its slot is free for writers in the end.  Nobody
 * else touches one that is dead.
 */
void
rose_c0_retire(RoseC0Shared *c0, int slot)
{
	RoseMemtableShared *memtable = &c0->memtables[slot];

	Assert(memtable->state == ROSE_MEMTABLE_FROZEN || memtable->state == ROSE_MEMTABLE_LEAVING);

	if (memtable->state != ROSE_MEMTABLE_LEAVING)
	{
		LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
		begin_leaving(c0, memtable);
		LWLockRelease(&c0->write_lock);
	}
	rose_readers_wait(c0->local);
	memtable->state = ROSE_MEMTABLE_DEAD;
	memtable->id = 0;

	rose_arena_release(memtable);

	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	memset(memtable, 0, sizeof(RoseMemtableShared));	/* also makes it FREE */
	LWLockRelease(&c0->write_lock);
}

void
rose_c0_drop_unused(RoseC0Shared *c0)
{
	int			slot;

	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	slot = c0->active;
	if (slot >= 0 && c0->memtables[slot].nentries == 0)
	{
		begin_leaving(c0, &c0->memtables[slot]);
		c0->active = -1;
	}
	else
		slot = -1;
	LWLockRelease(&c0->write_lock);
	if (slot >= 0)
		rose_c0_retire(c0, slot);
}

void
rose_c0_set_pending(RoseC0Shared *c0, int slot, uint64 epoch)
{
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	c0->memtables[slot].pending_epoch = epoch;
	LWLockRelease(&c0->write_lock);
}

/* ---- frozen memtables ---- */

/* Does it wait for its spill? */
static inline bool
is_waiting(const RoseMemtableShared *memtable)
{
	return memtable->state == ROSE_MEMTABLE_FROZEN && memtable->pending_epoch == 0;
}

/* REQUIRES: write_lock. */
static int
find_oldest_frozen(const RoseC0Shared *c0)
{
	int			oldest = -1;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (is_waiting(&c0->memtables[slot]) &&
			(oldest < 0 || c0->memtables[slot].id < c0->memtables[oldest].id))
			oldest = slot;
	return oldest;
}

int
rose_c0_oldest_frozen(RoseC0Shared *c0)
{
	int			slot;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	slot = find_oldest_frozen(c0);
	LWLockRelease(&c0->write_lock);
	return slot;
}

int
rose_c0_oldest_frozen_for(RoseC0Shared *c0, uint64 epoch)
{
	int			slot;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	slot = find_oldest_frozen(c0);
	if (slot >= 0 && c0->memtables[slot].frozen_for != epoch)
		slot = -1;
	LWLockRelease(&c0->write_lock);
	return slot;
}

void
rose_c0_describe_frozen(RoseC0Shared *c0, int slot, RoseFrozenMemtable *frozen)
{
	LWLockAcquire(&c0->write_lock, LW_SHARED);
	frozen->tail_segment = c0->memtables[slot].tail_segment;
	frozen->frozen_for = c0->memtables[slot].frozen_for;
	frozen->next_seq = c0->next_seq;
	frozen->npending = 0;
	for (int i = 0; i < ROSE_MAX_MEMTABLES; i++)
		frozen->npending += c0->memtables[i].pending_epoch != 0;
	LWLockRelease(&c0->write_lock);
}

bool
rose_c0_freeze_for(RoseC0Shared *c0, uint64 epoch, uint64 *nbytes)
{
	bool		all;

	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
	{
		RoseMemtableShared *memtable = &c0->memtables[slot];

		if (!is_waiting(memtable))
			continue;
		memtable->frozen_for = epoch;
		*nbytes += memtable->nbytes;
	}
	all = c0->active < 0 || c0->memtables[c0->active].nentries == 0;
	LWLockRelease(&c0->write_lock);
	return all;
}

/* An epoch takes earlier ones with it, whose positions it is behind. */
static inline bool
is_covered(const RoseMemtableShared *memtable, uint64 epoch)
{
	return memtable->pending_epoch != 0 && memtable->pending_epoch <= epoch;
}

/* A segment may have rows of two memtables: the older one of an earlier epoch must not be left. */
uint32
rose_c0_covered_tail(RoseC0Shared *c0, uint64 epoch)
{
	uint32		upto = 0;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (is_covered(&c0->memtables[slot], epoch))
			upto = Max(upto, c0->memtables[slot].tail_segment);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (c0->memtables[slot].state == ROSE_MEMTABLE_FROZEN &&
			!is_covered(&c0->memtables[slot], epoch) &&
			c0->memtables[slot].tail_segment <= upto)
			upto = 0;
	LWLockRelease(&c0->write_lock);
	return upto;
}

void
rose_c0_retire_covered(RoseC0Shared *c0, uint64 epoch)
{
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (is_covered(&c0->memtables[slot], epoch))
			rose_c0_retire(c0, slot);
}

/* ---- questions ---- */

uint64
rose_c0_memtable_id(const RoseC0Shared *c0, int slot)
{
	if (!rose_c0_has_memtable(c0, slot))
		return 0;
	ROSE_STOP_POINT("memtable-looked"); /* in a reading section */
	pg_read_barrier();			/* state before what it publishes */
	return c0->memtables[slot].id;
}

/* The linked entry of this key and number, if the memtable has it. */
static bool
has_version(RoseC0Shared *c0, int slot, const RoseSchema *schema, const Datum *key, uint64 seq)
{
	RoseMemCursor cursor;
	RoseMemTarget target;

	rose_mem_cursor_open(&cursor, c0, schema, slot);
	if (!rose_mem_cursor_seek(&cursor, key, rose_schema_key_width(schema), seq))
		return false;
	rose_memlist_target(&target, schema, key, rose_schema_key_width(schema),
						ROSE_BEFORE_VERSION, seq);
	return rose_mementry_at(cursor.current)->seq == seq &&
		rose_memlist_has_key(rose_mementry_at(cursor.current), &target);
}

bool
rose_c0_has_elsewhere(RoseC0Shared *c0, int slot, const RoseSchema *schema, const Datum *key,
					  uint64 seq)
{
	for (int other = 0; other < ROSE_MAX_MEMTABLES; other++)
	{
		if (other == slot || !rose_c0_has_memtable(c0, other))
			continue;
		if (c0->unnumbered ? has_version(c0, other, schema, key, seq) :
			rose_memtable_find_seq(c0, other, seq) != 0)
			return true;
	}
	return false;
}

bool
rose_c0_has_frozen(RoseC0Shared *c0)
{
	bool		frozen = false;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		frozen |= c0->memtables[slot].state == ROSE_MEMTABLE_FROZEN;
	LWLockRelease(&c0->write_lock);
	return frozen;
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

/* Of one of the counts that each memtable has, given by its offset. */
static uint64
sum_of(const RoseC0Shared *c0, Size offset)
{
	uint64		sum = 0;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		sum += *(const uint64 *) ((const char *) &c0->memtables[slot] + offset);
	return sum;
}

uint64
rose_c0_bytes(const RoseC0Shared *c0)
{
	return sum_of(c0, offsetof(RoseMemtableShared, nbytes));
}

uint64
rose_c0_versions(const RoseC0Shared *c0)
{
	uint64		sum = 0;

	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		sum += rose_memtable_versions(&c0->memtables[slot]);
	return sum;
}

uint64
rose_c0_superseded_bytes(const RoseC0Shared *c0)
{
	return sum_of(c0, offsetof(RoseMemtableShared, superseded));
}

uint64
rose_c0_withdrawn_bytes(const RoseC0Shared *c0)
{
	return sum_of(c0, offsetof(RoseMemtableShared, withdrawn));
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

void
rose_c0_set_next_sequence(RoseC0Shared *c0, uint64 next_seq)
{
	Assert(LWLockHeldByMeInMode(&c0->write_lock, LW_EXCLUSIVE));
	c0->next_seq = next_seq;
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
	for (int slot = 0; slot < ROSE_MAX_MEMTABLES; slot++)
		if (memtables[slot].state == ROSE_MEMTABLE_LEAVING || memtables[slot].state == ROSE_MEMTABLE_DEAD)
			memset(&memtables[slot], 0, sizeof(RoseMemtableShared));
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
