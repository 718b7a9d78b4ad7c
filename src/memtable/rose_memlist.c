/*-------------------------------------------------------------------------
 *
 * rose_memlist.c
 *	  The entries of a memtable and the sorted list that they form: one writer,
 *	  lock-free readers.
 *
 * Locking: the writer holds write_lock, readers are in a reading section.  The writer
 * fills an entry, its own links included, then a write barrier, then the links that lead
 * to it.  A reader follows a link, then a read barrier, then looks at the entry.  So
 * whoever finds an entry finds all of it.  Links of other entries change from
 * one valid neighbour to a nearer one: a reader that follows the old one misses the new
 * entry, as if it had come by a little earlier.
 *
 * An entry comes into the list hidden; 'linked' shows it (see
 * rose_c0_prepare).  One that is dead may be taken out: its neighbours' links change to
 * each other then, and its own stay as they are.  A reader that is on it goes on by them,
 * to what was its neighbour then, and so on, until it meets one that is in the list.  On
 * the way it misses only what has come since it was taken out, which is after the
 * reader's section began.  Its memory is used again when no such section is left
 * (rose_recycle.c).
 *
 * Places are found with the tree (rose_memtree.c), which is told of an entry after
 * the list.
 *
 * Comparisons look at the prefix first, which is in the entry, and at the row
 * only if prefixes are equal and that does not decide.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable/rose_memahead.h"
#include "memtable/rose_memtree.h"
#include "memtable/rose_recycle.h"
#include "memtable/rose_seqindex.h"

/* The prefix of a row id is the row id with this turned over. */
#define ROWID_SIGN_BIT	(UINT64CONST(1) << 63)

bool
rose_memlist_create(RoseMemtableShared *memtable, const RoseSchema *schema)
{
	RoseArenaPtr head = rose_arena_alloc(memtable, sizeof(RoseMemEntryShared));

	if (head == 0)
		return false;
	memset(rose_mementry_at(head), 0, sizeof(RoseMemEntryShared));
	memtable->head = head;
	return rose_memtree_create(memtable, schema->prefix_wide);
}

RoseArenaPtr
rose_memlist_make_entry(RoseMemtableShared *memtable, const RoseSchema *schema,
						const RoseVersion *version, uint64 prefix,
						MinimalTuple row)
{
	int			present_bytes = version->present == NULL ? 0 :
		ROSE_PRESENT_BYTES(schema->natts);
	Size		size = MAXALIGN(sizeof(RoseMemEntryShared));
	RoseArenaPtr ptr;
	RoseMemEntryShared *entry;
	uint16		slack;

	Assert(version->op >= ROSE_OP_PUT && version->op <= ROSE_OP_LOCK);
	Assert(row != NULL || schema->nkeys == 0);
	size += version->moved_to != 0 ? MAXALIGN(sizeof(uint64)) : 0;
	size += row != NULL ? MAXALIGN(row->t_len) : 0;
	size += present_bytes;

	ptr = rose_recycle_alloc(memtable, size, &slack);
	if (ptr == 0)
		return 0;
	entry = rose_mementry_at(ptr);
	memset(entry, 0, MAXALIGN(sizeof(RoseMemEntryShared)));
	entry->slack = slack;
	entry->prefix = prefix;
	entry->seq = version->seq;
	entry->xid = version->xid;
	entry->subxid = version->subxid;
	entry->cid = version->cid;
	entry->op = version->op;
	entry->lockmode = version->lockmode;
	entry->present_bytes = present_bytes;
	if (schema->nkeys == 0)
	{
		Assert(prefix == ((uint64) version->rowid ^ ROWID_SIGN_BIT));
		entry->flags |= ROSE_ENTRY_HAS_ROWID;
	}
	if (version->moved_to != 0)
	{
		entry->flags |= ROSE_ENTRY_HAS_MOVED_TO;
		memcpy(rose_mementry_moved_to(entry), &version->moved_to, sizeof(uint64));
	}
	if (row != NULL)
	{
		entry->flags |= ROSE_ENTRY_HAS_ROW;
		memcpy(rose_mementry_row(entry), row, row->t_len);
	}
	if (present_bytes > 0)
		memcpy(rose_mementry_present(entry), version->present, present_bytes);
	return ptr;
}

void
rose_memlist_target(RoseMemTarget *target, const RoseSchema *schema, const Datum *key,
					int ncols, RoseMemBound bound, uint64 seq)
{
	target->schema = schema;
	target->key = key;
	target->ncols = ncols;
	if (ncols > 0)
		rose_key_prefix_make(schema, key, ncols, &target->prefix);
	target->bound = bound;
	target->seq = seq;
}

/* Compare the key of an entry with the target's first ncols columns. */
static int
compare_key(const RoseMemEntryShared *entry, const RoseMemTarget *target)
{
	const RoseSchema *schema = target->schema;

	uint64		prefix = entry->prefix & target->prefix.mask[0];

	if (target->ncols == 0)
		return 0;
	if (prefix != target->prefix.word[0])
		return prefix < target->prefix.word[0] ? -1 : 1;
	if (schema->nkeys == 0)
		return 0;
	for (int i = schema->prefix_columns; i < target->ncols; i++)
	{
		Datum		value = rose_key_column_of_tuple(schema, rose_mementry_row(entry), i);
		int			cmp = rose_key_compare_column(schema, i, value, target->key[i]);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

bool
rose_memlist_has_key(const RoseMemEntryShared *entry, const RoseMemTarget *target)
{
	return compare_key(entry, target) == 0;
}

bool
rose_memlist_is_before(const RoseMemEntryShared *entry, const RoseMemTarget *target)
{
	int			cmp = compare_key(entry, target);

	if (cmp != 0)
		return cmp < 0;
	switch (target->bound)
	{
		case ROSE_BEFORE_KEY:
			return false;
		case ROSE_BEFORE_VERSION:
			return entry->seq > target->seq;
		case ROSE_THROUGH_KEY:
			return true;
	}
	return false;
}

/*
 * Has a version of the target's key come since the look, but for the writer's own?  The
 * newest one comes first behind the place of a new one.
 */
static bool
has_come_since(const RoseMemEntryShared *before, const RoseMemTarget *target,
			   const RoseC0Look *look)
{
	for (RoseArenaPtr ptr = before->next; ptr != 0; ptr = rose_mementry_at(ptr)->next)
	{
		const RoseMemEntryShared *entry = rose_mementry_at(ptr);

		if (compare_key(entry, target) != 0)
			return false;
		if (entry->linked && entry->seq < look->until)
			return entry->seq >= look->since;
	}
	return false;
}

/*
 * Is there an entry, and of this key?  That it has the prefix is not enough: the first columns of
 * a key may fill that.
 */
static inline bool
is_of_key(const RoseMemtableShared *memtable, RoseArenaPtr ptr, const RoseMemTarget *target,
		  uint64 prefix)
{
	return ptr != 0 && ptr != memtable->head && rose_mementry_at(ptr)->prefix == prefix &&
		compare_key(rose_mementry_at(ptr), target) == 0;
}

RoseMemPrepared
rose_memlist_insert(RoseMemtableShared *memtable, const RoseMemTarget *target,
					RoseArenaPtr near, const RoseC0Look *look, RoseArenaPtr ptr)
{
	RoseMemEntryShared *entry = rose_mementry_at(ptr);
	RoseMemEntryShared *before;
	RoseMemTreePath path;

	Assert(target->bound == ROSE_BEFORE_VERSION && target->seq == entry->seq);
	entry->prev = rose_memtree_locate(memtable, target, near, &path);
	before = rose_mementry_at(entry->prev);
	if (look != NULL && has_come_since(before, target, look))
		return ROSE_MEM_CHANGED;
	if (!rose_memtree_reserve(memtable, &path))
		return ROSE_MEM_NO_ROOM;
	entry->next = before->next;
	if (is_of_key(memtable, entry->prev, target, entry->prefix))
		entry->flags |= ROSE_ENTRY_PRECEDED;
	if (is_of_key(memtable, entry->next, target, entry->prefix))
		rose_mementry_at(entry->next)->flags |= ROSE_ENTRY_PRECEDED;

	/* all of the entry before the links to it */
	rose_arena_link_publish(&before->next, ptr);
	if (entry->next != 0)
		rose_arena_link_publish(&rose_mementry_at(entry->next)->prev, ptr);
	rose_memtree_add(memtable, &path, target, ptr);
	return ROSE_MEM_PREPARED;
}

void
rose_memlist_take_out(RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	rose_arena_link_publish(&rose_mementry_at(entry->prev)->next, entry->next);
	if (entry->next != 0)
		rose_arena_link_publish(&rose_mementry_at(entry->next)->prev, entry->prev);
}

void
rose_memlist_discard(RoseMemtableShared *memtable, RoseArenaPtr ptr)
{
	rose_recycle_unused(memtable, ptr, rose_mementry_piece_bytes(rose_mementry_at(ptr)));
}

/*
 * A bitmap that was stored when the table had fewer columns says nothing of
 * the new ones, which means that they are not present.
 */
static const bits8 *
present_of_entry(const RoseMemEntryShared *entry, const RoseSchema *schema)
{
	int			nbytes = ROSE_PRESENT_BYTES(schema->natts);
	bits8	   *wider;

	if (entry->present_bytes >= nbytes)
		return rose_mementry_present(entry);
	wider = palloc0(nbytes);
	memcpy(wider, rose_mementry_present(entry), entry->present_bytes);
	return wider;
}

/* The parts of an entry, or of a copy of one. */
static inline void
get_parts(const RoseSchema *schema, const RoseMemEntryShared *entry, RoseMemEntryRef *ref)
{
	RoseVersion *version = &ref->version;

	ref->prefix = entry->prefix;
	ref->hints = entry->hints;
	ref->row = (entry->flags & ROSE_ENTRY_HAS_ROW) ? rose_mementry_row(entry) : NULL;
	version->seq = entry->seq;
	version->xid = entry->xid;
	version->subxid = entry->subxid;
	version->cid = entry->cid;
	version->op = entry->op;
	version->lockmode = entry->lockmode;
	version->rowid = (entry->flags & ROSE_ENTRY_HAS_ROWID) ?
		(int64) (entry->prefix ^ ROWID_SIGN_BIT) : 0;
	version->moved_to = 0;
	if (entry->flags & ROSE_ENTRY_HAS_MOVED_TO)
		memcpy(&version->moved_to, rose_mementry_moved_to(entry), sizeof(uint64));
	version->present = entry->present_bytes == 0 ? NULL : present_of_entry(entry, schema);
}

static inline void
get_entry(const RoseSchema *schema, RoseArenaPtr ptr, RoseMemEntryRef *ref)
{
	ref->ptr = ptr;
	get_parts(schema, rose_mementry_at(ptr), ref);
}

void
rose_memlist_get(const RoseSchema *schema, RoseArenaPtr ptr, RoseMemEntryRef *ref)
{
	get_entry(schema, ptr, ref);
}

void
rose_memlist_find(const RoseMemtableShared *memtable, const RoseSchema *schema,
				  const Datum *key, int ncols, RoseMemBound bound, uint64 seq,
				  RoseArenaPtr *before, RoseArenaPtr *beyond)
{
	RoseMemTarget target;
	RoseArenaPtr at;
	RoseArenaPtr next;

	rose_memlist_target(&target, schema, key, ncols, bound, seq);
	if (ncols > 0)
		at = rose_memtree_find(memtable, &target);
	else if (bound == ROSE_THROUGH_KEY)
		at = rose_memtree_find_last(memtable);
	else
		at = memtable->head;

	/*
	 * Never go from one side of the bound to the other by a link read later: a
	 * new entry, on either side, may have come between them.
	 */
	while ((next = rose_arena_link_read(&rose_mementry_at(at)->next)) != 0 &&
		   rose_memlist_is_before(rose_mementry_at(next), &target))
		at = next;
	*before = at;
	*beyond = next;
}

bool
rose_memlist_key_follows(RoseArenaPtr before, const RoseMemTarget *target)
{
	RoseArenaPtr at = before;

	while ((at = rose_arena_link_read(&rose_mementry_at(at)->next)) != 0)
	{
		int			cmp = compare_key(rose_mementry_at(at), target);

		if (cmp >= 0)
			return cmp == 0;
	}
	return false;
}

RoseArenaPtr
rose_memlist_find_last(const RoseMemtableShared *memtable)
{
	RoseArenaPtr at = rose_memtree_find_last(memtable);
	RoseArenaPtr next;

	while ((next = rose_arena_link_read(&rose_mementry_at(at)->next)) != 0)
		at = next;
	return at;
}

/*
 * An entry that is passed over may be linked the next moment, and what it supersedes, which
 * is right behind it, taken out.  So where the way goes on from it is read before the look
 * whether it is linked: then all that it supersedes is still on that way.
 */
RoseArenaPtr
rose_memlist_linked_from(RoseArenaPtr ptr)
{
	while (ptr != 0)
	{
		RoseArenaPtr next = rose_arena_link_read(&rose_mementry_at(ptr)->next);

		if (rose_memlist_is_linked(ptr))
			break;
		ptr = next;
	}
	return ptr;
}

RoseArenaPtr
rose_memlist_after(RoseArenaPtr ptr)
{
	ptr = rose_memlist_linked_from(rose_arena_link_read(&rose_mementry_at(ptr)->next));
	if (ptr != 0)
		rose_arena_prefetch(rose_mementry_at(ptr)->next);
	return ptr;
}

int
rose_memlist_take(const RoseSchema *schema, RoseArenaPtr *ptr, RoseMemAhead *ahead,
				  RoseMemEntryRef *refs, int n)
{
	int			taken = 0;

	while (*ptr != 0 && taken < n)
	{
		get_entry(schema, *ptr, &refs[taken++]);
		rose_memahead_step(ahead);
		*ptr = rose_memlist_after(*ptr);
	}
	return taken;
}

/* ---- newer versions ---- */

/* Have two entries one key?  REQUIRES that their prefixes are equal. */
static bool
have_same_key(const RoseSchema *schema, const RoseMemEntryShared *entry, const RoseMemEntryShared *other)
{
	Datum		key[INDEX_MAX_KEYS];
	RoseMemTarget target;

	if (rose_key_prefix_exact(schema))
		return true;
	rose_key_from_tuple(schema, rose_mementry_row(entry), 0, key);
	rose_memlist_target(&target, schema, key, schema->nkeys, ROSE_BEFORE_KEY, 0);
	return rose_memlist_has_key(other, &target);
}

RoseArenaPtr
rose_memlist_newer(const RoseMemtableShared *memtable, const RoseSchema *schema, RoseArenaPtr ptr)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	/* most have none, and then nothing else is touched */
	if ((entry->flags & ROSE_ENTRY_PRECEDED) == 0)
		return 0;
	ptr = rose_memlist_before(memtable->head, ptr);
	if (ptr == 0 || rose_mementry_at(ptr)->prefix != entry->prefix ||
		!have_same_key(schema, entry, rose_mementry_at(ptr)))
		return 0;
	return ptr;
}

/* ---- many entries at a time ---- */

/* A version that was committed, and is seen for sure. */
static inline bool
is_seen(const RoseMemEntryShared *entry, const RoseMemSeen *seen)
{
	const uint8 known = ROSE_MEM_HINT_COMMITTED | ROSE_MEM_HINT_ABORTED;

	if ((entry->hints & known) != ROSE_MEM_HINT_COMMITTED)
		return false;
	if (FullTransactionIdPrecedes(entry->xid, seen->xmin))
		return true;
	return TransactionIdIsValid(seen->writer) &&
		seen->writer == (TransactionIdIsValid(entry->subxid) ? entry->subxid :
						 XidFromFullTransactionId(entry->xid));
}

static inline bool
is_plain(const RoseMemEntryShared *entry, const RoseMemSeen *seen)
{
	return entry->op == ROSE_OP_PUT && is_seen(entry, seen);
}

/* The linked neighbour of an entry that is not dead. */
static inline RoseArenaPtr
plain_neighbour(const RoseMemtableShared *memtable, const RoseMemEntryShared *entry,
				RoseArenaPtr ptr, bool forward)
{
	RoseArenaPtr next = rose_arena_link_read(forward ? &entry->next : &entry->prev);

	if (unlikely(next == 0 || !rose_memlist_is_linked(next)))
		return forward ? rose_memlist_after(ptr) : rose_memlist_before(memtable->head, ptr);
	return next;
}

/* So many older versions of a key are passed over together; whoever meets more may look for the next key. */
#define OLD_TOGETHER 8

/*
 * The first entry that is not an older version of the key of one that was taken, or of
 * which there are many.  Whether they are seen, and what they are, makes no difference.
 */
static RoseArenaPtr
pass_old(const RoseMemtableShared *memtable, RoseArenaPtr at, RoseMemAhead *ahead, uint64 prefix)
{
	for (int n = 0; at != 0 && n < OLD_TOGETHER; n++)
	{
		if (rose_mementry_at(at)->prefix != prefix)
			break;
		rose_memahead_step(ahead);
		at = rose_memlist_after(at);
	}
	return at;
}

int
rose_memlist_take_plain(const RoseMemtableShared *memtable, const RoseSchema *schema, RoseArenaPtr *ptr,
						RoseMemAhead *ahead, bool forward, const RoseMemSeen *seen,
						const RoseMemColumns *columns, int from, int to, bool whole)
{
	const bool	exact = rose_key_prefix_exact(schema);
	RoseArenaPtr at = *ptr;
	int			i = from;

	while (at != 0)
	{
		RoseMemEntryShared *entry = rose_mementry_at(at);

		if (i > 0 && entry->prefix == columns->prefixes[i - 1])
		{
			if (!exact)
				break;
			if (forward && (i > from || whole))
			{
				at = pass_old(memtable, at, ahead, entry->prefix);
				if (at != 0 && rose_mementry_at(at)->prefix == entry->prefix)
					break;
				continue;
			}
			if (forward || i == from || !is_plain(entry, seen))
				break;
			i--;				/* it is the newer one */
		}
		if (i == to || !is_plain(entry, seen))
			break;
		columns->ptrs[i] = at;
		columns->prefixes[i] = entry->prefix;
		columns->seqs[i] = entry->seq;
		columns->rows[i++] = rose_mementry_row(entry);
		rose_memahead_step(ahead);
		at = plain_neighbour(memtable, entry, at, forward);
	}
	*ptr = at;
	return i;
}

/* ---- in the order of arrival ---- */

/* Entries that follow each other in memory are fetched so many ahead. */
#define ARRIVALS_AHEAD 12

/* ... and what has come before them in the list so many. */
#define NEWER_AHEAD 6

static inline void
fetch_arrival(RoseArenaPtr ptr, int row_bytes)
{
	int			end = (MAXALIGN(sizeof(RoseMemEntryShared)) + row_bytes - 1) / ROSE_ARENA_UNIT;

	for (int at = 0; at <= end; at += 64 / ROSE_ARENA_UNIT)
		rose_arena_prefetch(ptr + at);
}

/* What will be looked at when the walk comes to the entries that follow this one. */
static inline void
fetch_arrivals(const RoseMemArrivals *at, int k)
{
	if (k + ARRIVALS_AHEAD < at->n)
		fetch_arrival(at->entries[k + ARRIVALS_AHEAD], at->row_bytes);
	if (k + NEWER_AHEAD < at->n)
	{
		const RoseMemEntryShared *entry = rose_mementry_at(at->entries[k + NEWER_AHEAD]);

		if (entry->flags & ROSE_ENTRY_PRECEDED)
			rose_arena_prefetch(entry->prev);
	}
}

/* Have the entries of the next leaf at hand; false: there is none. */
static bool
next_arrivals(const RoseMemtableShared *memtable, RoseMemArrivals *at)
{
	at->behind = at->seq;
	at->next = 0;
	at->n = rose_seqindex_walk(memtable, &at->behind, &at->leaf, at->entries);
	at->at_end = at->leaf == 0;
	at->looks -= 1 + at->n;
	return !at->at_end;
}

typedef enum NewerVersion
{
	NEWER_NONE,					/* there is none */
	NEWER_SEEN,					/* there is one that stands for the key, and is seen */
	NEWER_SEEN_BY_ALL,
	NEWER_UNKNOWN				/* there is one; it takes a second look to know what it says */
} NewerVersion;

/* Is there a newer version of the key of an entry that was preceded?  Dead ones and locks are none. */
static NewerVersion
look_for_newer(const RoseMemtableShared *memtable, const RoseSchema *schema, RoseArenaPtr ptr,
			   const RoseMemSeen *seen, FullTransactionId everyone)
{
	while ((ptr = rose_memlist_newer(memtable, schema, ptr)) != 0)
	{
		const RoseMemEntryShared *newer = rose_mementry_at(ptr);

		if (newer->op == ROSE_OP_LOCK || (newer->hints & ROSE_MEM_HINT_ABORTED) != 0)
			continue;
		if (newer->op == ROSE_OP_PARTIAL || !is_seen(newer, seen))
			return NEWER_UNKNOWN;
		return FullTransactionIdPrecedes(newer->xid, everyone) ? NEWER_SEEN_BY_ALL : NEWER_SEEN;
	}
	return NEWER_NONE;
}

typedef enum ArrivalKind
{
	ARRIVAL_PLAIN,
	ARRIVAL_PASSED,
	ARRIVAL_HIDDEN,				/* passed over, by later walks too, whoever walks */
	ARRIVAL_OTHER
} ArrivalKind;

/*
 * What is an entry to the walk?  A tombstone stands for no row, whoever sees it, nor does
 * what was rolled back; and for none either, whoever looks, what a newer version stands for that all see.
 */
static inline ArrivalKind
kind_of_arrival(const RoseMemtableShared *memtable, const RoseSchema *schema, RoseArenaPtr ptr,
				const RoseMemSeen *seen, FullTransactionId everyone)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	if (!entry->linked || entry->op == ROSE_OP_LOCK)
		return ARRIVAL_PASSED;
	if (entry->op == ROSE_OP_TOMBSTONE || (entry->hints & ROSE_MEM_HINT_ABORTED) != 0)
		return ARRIVAL_HIDDEN;
	if (entry->flags & ROSE_ENTRY_PRECEDED)
		switch (look_for_newer(memtable, schema, ptr, seen, everyone))
		{
			case NEWER_NONE:
				break;
			case NEWER_SEEN:
				return ARRIVAL_PASSED;
			case NEWER_SEEN_BY_ALL:
				return ARRIVAL_HIDDEN;
			case NEWER_UNKNOWN:
				return ARRIVAL_OTHER;
		}
	return is_plain(entry, seen) ? ARRIVAL_PLAIN : ARRIVAL_OTHER;
}

int
rose_memlist_take_arrivals(const RoseMemtableShared *memtable, const RoseSchema *schema,
						   RoseMemArrivals *at, const RoseMemSeen *seen, const RoseMemColumns *columns,
						   int from, int to)
{
	int			i = from;

	at->other = 0;
	while (i < to && (at->next < at->n || (at->looks > 0 && next_arrivals(memtable, at))))
	{
		while (i < to && at->next < at->n)
		{
			RoseArenaPtr ptr = at->entries[at->next];
			const RoseMemEntryShared *entry = rose_mementry_at(ptr);

			fetch_arrivals(at, at->next++);
			switch (kind_of_arrival(memtable, schema, ptr, seen, at->everyone))
			{
				case ARRIVAL_PLAIN:
					columns->ptrs[i] = ptr;
					columns->prefixes[i] = entry->prefix;
					columns->seqs[i] = entry->seq;
					columns->rows[i++] = rose_mementry_row(entry);
					break;
				case ARRIVAL_PASSED:
					break;
				case ARRIVAL_HIDDEN:
					rose_seqindex_hide(at->leaf, entry->seq);
					break;
				case ARRIVAL_OTHER:
					at->seq = entry->seq;
					at->other = ptr;
					return i;
			}
		}
		at->seq = at->next < at->n ? rose_mementry_at(at->entries[at->next])->seq : at->behind;
	}
	return i;
}

/* ---- copies of entries ---- */

const void *
rose_memtable_image(RoseArenaPtr ptr, Size *bytes)
{
	const RoseMemEntryShared *entry = rose_mementry_at(ptr);

	*bytes = rose_mementry_bytes(entry);
	return entry;
}

int
rose_memtable_copy_images(const RoseMemColumns *columns, void **images, int from, int to,
						  char *memory, Size size, Size *used, Size *longest)
{
	Size		at = *used;
	int			i;

	for (i = from; i < to; i++)
	{
		const char *entry = rose_arena_at(columns->ptrs[i]);
		const MinimalTuple row = columns->rows[i];
		Size		offset = (const char *) row - entry;
		Size		bytes = MAXALIGN(offset + row->t_len);

		if (bytes > size - at)
			break;
		memcpy(memory + at, entry, bytes);
		images[i] = memory + at;
		columns->rows[i] = (MinimalTuple) (memory + at + offset);
		columns->ptrs[i] = 0;
		*longest = Max(*longest, row->t_len);
		at += bytes;
	}
	*used = at;
	return i;
}

MinimalTuple
rose_memtable_image_row(const void *image)
{
	const RoseMemEntryShared *entry = image;

	return (entry->flags & ROSE_ENTRY_HAS_ROW) ? rose_mementry_row(entry) : NULL;
}

void
rose_memtable_image_get(const RoseSchema *schema, const void *image, RoseMemEntryRef *entry)
{
	entry->ptr = 0;
	get_parts(schema, image, entry);
}

RoseArenaPtr
rose_memlist_before(RoseArenaPtr head, RoseArenaPtr ptr)
{
	do
	{
		if (ptr == head)
			return 0;
		ptr = rose_arena_link_read(&rose_mementry_at(ptr)->prev);
	} while (ptr != head && !rose_memlist_is_linked(ptr));
	return ptr == head ? 0 : ptr;
}
