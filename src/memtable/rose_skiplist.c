/*-------------------------------------------------------------------------
 *
 * rose_skiplist.c
 *	  The skip list of a memtable: one writer, lock-free readers.
 *
 * Entry in the arena, MAXALIGNed:
 *
 *	  RoseMemEntryShared | next[height] | moved_to | row | present bitmap
 *
 * where moved_to and row are MAXALIGNed and there only if flags say so.
 *
 * Locking: the writer holds write_lock, readers reclaim_lock shared.  The
 * writer fills an entry, its own links included, then a write barrier, then
 * the links that lead to it.  A reader follows a link, then a read barrier,
 * then looks at the entry.  So whoever finds an entry finds all of it.  Links
 * of other entries only ever change from one valid neighbour to a nearer one:
 * a reader that follows the old one misses the new entry, as if it had
 * come by a little earlier.
 *
 * An entry comes into the list hidden; 'linked' shows it (see
 * rose_c0_prepare).  Nobody ever takes an entry out.
 *
 * Comparisons look at the prefix first, which is in the entry, and at the row
 * only if prefixes are equal and that does not decide.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "memtable/rose_skiplist.h"
#include "port/atomics.h"

/* What a search compares entries with. */
typedef struct RoseSkipTarget
{
	const RoseSchema *schema;
	const Datum *key;
	int			ncols;
	uint64		prefix;
	RoseSkipBound bound;
	uint64		seq;
} RoseSkipTarget;

static inline RoseMemEntryShared *
entry_at(RoseArenaPtr ptr)
{
	return rose_arena_at(ptr);
}

static inline RoseArenaPtr
read_link(const RoseArenaPtr *link)
{
	RoseArenaPtr ptr = *(const volatile RoseArenaPtr *) link;

	pg_read_barrier();
	return ptr;
}

static inline Size
entry_header_size(int height)
{
	return MAXALIGN(offsetof(RoseMemEntryShared, next) + height * sizeof(RoseArenaPtr));
}

static inline char *
entry_moved_to(const RoseMemEntryShared *entry)
{
	return (char *) entry + entry_header_size(entry->height);
}

static inline MinimalTuple
entry_row(const RoseMemEntryShared *entry)
{
	char	   *data = entry_moved_to(entry);

	if (entry->flags & ROSE_ENTRY_HAS_MOVED_TO)
		data += MAXALIGN(sizeof(uint64));
	return (MinimalTuple) data;
}

static inline bits8 *
entry_present(const RoseMemEntryShared *entry)
{
	MinimalTuple row = entry_row(entry);

	if (entry->flags & ROSE_ENTRY_HAS_ROW)
		return (bits8 *) row + MAXALIGN(row->t_len);
	return (bits8 *) row;
}

/* Height 1 with probability 3/4, and so on. */
static int
random_height(void)
{
	uint64		bits = pg_prng_uint64(&pg_global_prng_state);
	int			height = 1;

	while (height < ROSE_SKIPLIST_MAX_HEIGHT && (bits & 3) == 0)
	{
		height++;
		bits >>= 2;
	}
	return height;
}

RoseArenaPtr
rose_skiplist_create(RoseMemtableShared *memtable)
{
	Size		size = entry_header_size(ROSE_SKIPLIST_MAX_HEIGHT);
	RoseArenaPtr ptr = rose_arena_alloc(memtable, size);

	if (ptr != 0)
	{
		memset(rose_arena_at(ptr), 0, size);
		entry_at(ptr)->height = ROSE_SKIPLIST_MAX_HEIGHT;
	}
	return ptr;
}

RoseArenaPtr
rose_skiplist_make_entry(RoseMemtableShared *memtable, const RoseSchema *schema,
						 const RoseVersion *version, const Datum *key,
						 MinimalTuple row)
{
	int			height = random_height();
	int			present_bytes = version->present == NULL ? 0 :
		ROSE_PRESENT_BYTES(schema->natts);
	uint64		prefix = rose_key_prefix(schema, key);
	Size		size = entry_header_size(height);
	RoseArenaPtr ptr;
	RoseMemEntryShared *entry;

	Assert(version->op >= ROSE_OP_PUT && version->op <= ROSE_OP_LOCK);
	Assert(row != NULL || schema->nkeys == 0);
	size += version->moved_to != 0 ? MAXALIGN(sizeof(uint64)) : 0;
	size += row != NULL ? MAXALIGN(row->t_len) : 0;
	size += present_bytes;

	ptr = rose_arena_alloc(memtable, size);
	if (ptr == 0)
		return 0;
	entry = entry_at(ptr);
	memset(entry, 0, entry_header_size(height));
	entry->prefix = prefix;
	entry->seq = version->seq;
	entry->xid = version->xid;
	entry->subxid = version->subxid;
	entry->cid = version->cid;
	entry->op = version->op;
	entry->lockmode = version->lockmode;
	entry->height = height;
	entry->present_bytes = present_bytes;
	if (schema->nkeys == 0)
	{
		Assert(DatumGetInt64(key[0]) == version->rowid);
		entry->flags |= ROSE_ENTRY_HAS_ROWID;
	}
	if (version->moved_to != 0)
	{
		entry->flags |= ROSE_ENTRY_HAS_MOVED_TO;
		memcpy(entry_moved_to(entry), &version->moved_to, sizeof(uint64));
	}
	if (row != NULL)
	{
		entry->flags |= ROSE_ENTRY_HAS_ROW;
		memcpy(entry_row(entry), row, row->t_len);
	}
	if (present_bytes > 0)
		memcpy(entry_present(entry), version->present, present_bytes);
	return ptr;
}

/* Compare the key of an entry with the target's first ncols columns. */
static int
compare_key(const RoseMemEntryShared *entry, const RoseSkipTarget *target)
{
	const RoseSchema *schema = target->schema;

	if (target->ncols == 0)
		return 0;
	if (entry->prefix != target->prefix)
		return entry->prefix < target->prefix ? -1 : 1;
	if (schema->nkeys == 0)
		return 0;
	for (int i = schema->prefix_injective ? 1 : 0; i < target->ncols; i++)
	{
		Datum		value = rose_key_column_of_tuple(schema, entry_row(entry), i);
		int			cmp = rose_key_compare_column(schema, i, value, target->key[i]);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

/* Is the entry on the near side of the target's bound? */
static bool
is_before(const RoseMemEntryShared *entry, const RoseSkipTarget *target)
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
 * Last entry before the bound; path (if not NULL) gets it for each level.
 * *beyond is the first entry that is not, or 0.  Readers must not go from one
 * to the other by themselves: a new entry, on either side of the bound, may
 * have come between them.
 */
static RoseArenaPtr
descend(RoseArenaPtr head, const RoseSkipTarget *target, RoseArenaPtr *path,
		RoseArenaPtr *beyond)
{
	RoseArenaPtr at = head;
	RoseArenaPtr next = 0;
	RoseArenaPtr known_beyond = 0;	/* saves a comparison on the next level */

	for (int level = ROSE_SKIPLIST_MAX_HEIGHT - 1; level >= 0; level--)
	{
		for (;;)
		{
			next = read_link(&entry_at(at)->next[level]);
			if (next == 0 || next == known_beyond)
				break;
			if (!is_before(entry_at(next), target))
			{
				known_beyond = next;
				break;
			}
			at = next;
		}
		if (path != NULL)
			path[level] = at;
	}
	*beyond = next;
	return at;
}

void
rose_skiplist_insert(RoseMemtableShared *memtable, const RoseSchema *schema,
					 const Datum *key, RoseArenaPtr ptr)
{
	RoseMemEntryShared *entry = entry_at(ptr);
	RoseArenaPtr path[ROSE_SKIPLIST_MAX_HEIGHT];
	RoseArenaPtr beyond;
	RoseSkipTarget target;

	target.schema = schema;
	target.key = key;
	target.ncols = rose_schema_key_width(schema);
	target.prefix = entry->prefix;
	target.bound = ROSE_BEFORE_VERSION;
	target.seq = entry->seq;
	(void) descend(memtable->head, &target, path, &beyond);

	entry->prev = path[0];
	for (int level = 0; level < entry->height; level++)
		entry->next[level] = entry_at(path[level])->next[level];

	/* all of the entry before the links to it */
	pg_write_barrier();
	for (int level = 0; level < entry->height; level++)
		*(volatile RoseArenaPtr *) &entry_at(path[level])->next[level] = ptr;
	if (entry->next[0] != 0)
		*(volatile RoseArenaPtr *) &entry_at(entry->next[0])->prev = ptr;
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

	if (entry->present_bytes == 0)
		return NULL;
	if (entry->present_bytes >= nbytes)
		return entry_present(entry);
	wider = palloc0(nbytes);
	memcpy(wider, entry_present(entry), entry->present_bytes);
	return wider;
}

void
rose_skiplist_get(const RoseSchema *schema, RoseArenaPtr ptr, RoseMemEntryRef *ref)
{
	const RoseMemEntryShared *entry = entry_at(ptr);
	RoseVersion *version = &ref->version;

	ref->ptr = ptr;
	ref->hints = entry->hints;
	ref->row = (entry->flags & ROSE_ENTRY_HAS_ROW) ? entry_row(entry) : NULL;
	version->seq = entry->seq;
	version->xid = entry->xid;
	version->subxid = entry->subxid;
	version->cid = entry->cid;
	version->op = entry->op;
	version->lockmode = entry->lockmode;
	version->rowid = (entry->flags & ROSE_ENTRY_HAS_ROWID) ?
		(int64) (entry->prefix ^ (UINT64CONST(1) << 63)) : 0;
	version->moved_to = 0;
	if (entry->flags & ROSE_ENTRY_HAS_MOVED_TO)
		memcpy(&version->moved_to, entry_moved_to(entry), sizeof(uint64));
	version->present = present_of_entry(entry, schema);
}

void
rose_skiplist_find(RoseArenaPtr head, const RoseSchema *schema, const Datum *key,
				   int ncols, RoseSkipBound bound, uint64 seq,
				   RoseArenaPtr *before, RoseArenaPtr *beyond)
{
	RoseSkipTarget target;

	target.schema = schema;
	target.key = key;
	target.ncols = ncols;
	target.prefix = ncols > 0 ? rose_key_prefix(schema, key) : 0;
	target.bound = bound;
	target.seq = seq;
	*before = descend(head, &target, NULL, beyond);
}

RoseArenaPtr
rose_skiplist_find_last(RoseArenaPtr head)
{
	RoseArenaPtr at = head;
	RoseArenaPtr next;

	for (int level = ROSE_SKIPLIST_MAX_HEIGHT - 1; level >= 0; level--)
	{
		while ((next = read_link(&entry_at(at)->next[level])) != 0)
			at = next;
	}
	return at;
}

RoseArenaPtr
rose_skiplist_after(RoseArenaPtr ptr)
{
	do
	{
		ptr = read_link(&entry_at(ptr)->next[0]);
	} while (ptr != 0 && !rose_skiplist_is_linked(ptr));
	return ptr;
}

RoseArenaPtr
rose_skiplist_before(RoseArenaPtr head, RoseArenaPtr ptr)
{
	do
	{
		if (ptr == head)
			return 0;
		ptr = read_link(&entry_at(ptr)->prev);
	} while (ptr != head && !rose_skiplist_is_linked(ptr));
	return ptr == head ? 0 : ptr;
}
