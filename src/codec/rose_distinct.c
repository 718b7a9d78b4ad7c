/*-------------------------------------------------------------------------
 *
 * rose_distinct.c
 *	  The distinct values of a column buffer.  See rose_distinct.h.
 *
 * An open hash table with linear probing, over codes.  The only deletion is of what was
 * inserted last, which never breaks a probe sequence.
 *
 * Backend-local; memory grows in the column buffer's context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "codec/rose_distinct.h"
#include "codec/rose_items.h"

#define NUM_SLOTS		(ROSE_DISTINCT_MAX * 2)
#define EMPTY_SLOT		0

/* Values to look at before judging whether there are too many distinct ones. */
#define PATIENCE		128

struct RoseDistinct
{
	bool		gave_up;
	int			nseen;
	int			count;
	int			codes_capacity;
	uint16	   *codes;			/* [nseen] */
	int			first[ROSE_DISTINCT_MAX];
	uint32		hash[ROSE_DISTINCT_MAX];
	int64		words[ROSE_DISTINCT_MAX];	/* the distinct ones */
	uint16		slots[NUM_SLOTS];	/* code + 1, or EMPTY_SLOT */
	MemoryContext context;
};

RoseDistinct *
rose_distinct_create(MemoryContext context)
{
	RoseDistinct *set = MemoryContextAlloc(context, sizeof(RoseDistinct));

	/* the large arrays need no values before there are codes */
	set->gave_up = false;
	set->nseen = 0;
	set->count = 0;
	set->codes_capacity = 0;
	set->codes = NULL;
	memset(set->slots, 0, sizeof(set->slots));
	set->context = context;
	return set;
}

void
rose_distinct_reset(RoseDistinct *set)
{
	if (set->count > 0)
		memset(set->slots, 0, sizeof(set->slots));
	set->gave_up = false;
	set->nseen = 0;
	set->count = 0;
}

static inline const char *
item_at(const RoseColumnBuffer *col, int i, uint32 *size)
{
	uint32		start = i == 0 ? 0 : col->ends[i - 1];
	uint32		skip = rose_item_padding(&col->desc, col->items + start);

	*size = col->ends[i] - start - skip;
	return col->items + start + skip;
}

static inline uint32
hash_word(int64 word)
{
	return (uint32) (((uint64) word * UINT64CONST(0x9e3779b97f4a7c15)) >> 32);
}

static inline uint32
hash_item(const RoseColumnBuffer *col, int i)
{
	uint32		size;
	const char *item = item_at(col, i, &size);

	return hash_bytes((const unsigned char *) item, (int) size);
}

static inline bool
items_equal(const RoseColumnBuffer *col, int a, int b)
{
	const char *item_a;
	const char *item_b;
	uint32		size_a;
	uint32		size_b;

	item_a = item_at(col, a, &size_a);
	item_b = item_at(col, b, &size_b);
	return size_a == size_b && memcmp(item_a, item_b, size_a) == 0;
}

/* The slot that holds the value's code, or the empty one where it belongs. */
static int
find_slot(const RoseDistinct *set, const RoseColumnBuffer *col, int i, uint32 hash)
{
	int			slot = hash % NUM_SLOTS;

	while (set->slots[slot] != EMPTY_SLOT)
	{
		int			code = set->slots[slot] - 1;

		if (set->hash[code] == hash && items_equal(col, set->first[code], i))
			break;
		slot = (slot + 1) % NUM_SLOTS;
	}
	return slot;
}

static void
reserve_codes(RoseDistinct *set, int n)
{
	if (n <= set->codes_capacity)
		return;
	n = Max(n, Max(256, set->codes_capacity * 2));
	if (set->codes == NULL)
		set->codes = MemoryContextAlloc(set->context, n * sizeof(uint16));
	else
		set->codes = repalloc(set->codes, n * sizeof(uint16));
	set->codes_capacity = n;
}

/* Value i has a code of its own; false if there are too many of those. */
static bool
add_code(RoseDistinct *set, int i, uint32 hash, int slot)
{
	if (set->count == ROSE_DISTINCT_MAX || (i >= PATIENCE && set->count > i - i / 4))
	{
		set->gave_up = true;
		return false;
	}
	set->first[set->count] = i;
	set->hash[set->count] = hash;
	set->slots[slot] = (uint16) ++set->count;
	return true;
}

static void
extend_words(RoseDistinct *set, const int64 *words, int n)
{
	const uint16 *slots = set->slots;
	const int64 *values = set->words;
	uint16	   *codes = set->codes;
	int			i = set->nseen;

	for (; i < n && !set->gave_up; i++)
	{
		int64		word = words[i];
		uint32		hash = hash_word(word);
		int			slot = hash % NUM_SLOTS;

		while (slots[slot] != EMPTY_SLOT && values[slots[slot] - 1] != word)
			slot = (slot + 1) % NUM_SLOTS;
		if (unlikely(slots[slot] == EMPTY_SLOT))
		{
			if (!add_code(set, i, hash, slot))
				break;
			set->words[set->count - 1] = word;
		}
		codes[i] = slots[slot] - 1;
	}
	set->nseen = i;
}

bool
rose_distinct_extend(RoseDistinct *set, const RoseColumnBuffer *col, int n)
{
	reserve_codes(set, n);
	if (col->is_words)
	{
		extend_words(set, col->words, n);
		return set->nseen >= n;
	}
	while (set->nseen < n && !set->gave_up)
	{
		int			i = set->nseen;
		uint32		hash = hash_item(col, i);
		int			slot = find_slot(set, col, i, hash);

		if (set->slots[slot] == EMPTY_SLOT && !add_code(set, i, hash, slot))
			break;
		set->codes[i] = set->slots[slot] - 1;
		set->nseen++;
	}
	return set->nseen >= n;
}

int
rose_distinct_reach(RoseDistinct *set, const RoseColumnBuffer *col, int n, int most)
{
	bool		all = rose_distinct_extend(set, col, n);

	if (set->count > most)
		return set->first[most];
	if (!all)
		return set->nseen;
	return n + Min(most - set->count, rose_distinct_room(set));
}

int
rose_distinct_new(const RoseDistinct *set, int from, int to)
{
	int			code = set->count;
	int			count = 0;

	while (code > 0 && set->first[code - 1] >= to)
		code--;
	for (; code > 0 && set->first[code - 1] >= from; code--)
		count++;
	return count;
}

void
rose_distinct_truncate(RoseDistinct *set, const RoseColumnBuffer *col, int n)
{
	while (set->count > 0 && set->first[set->count - 1] >= n)
	{
		int			code = set->count - 1;
		int			slot = set->hash[code] % NUM_SLOTS;

		while (set->slots[slot] != code + 1)
			slot = (slot + 1) % NUM_SLOTS;
		set->slots[slot] = EMPTY_SLOT;
		set->count--;
	}
	/* if it was one of the forgotten values that was too much, there is hope again */
	if (n <= set->nseen)
		set->gave_up = false;
	set->nseen = Min(set->nseen, n);
}

int
rose_distinct_seen(const RoseDistinct *set)
{
	return set->nseen;
}

int
rose_distinct_count(const RoseDistinct *set)
{
	return set->count;
}

/* k more distinct values must keep count + k <= 3/4 (nseen + k). */
int
rose_distinct_room(const RoseDistinct *set)
{
	int			room = 3 * set->nseen - 4 * set->count - 4;

	if (set->gave_up)
		return 0;
	return Max(0, Min(room, ROSE_DISTINCT_MAX - set->count));
}

int
rose_distinct_first(const RoseDistinct *set, int code)
{
	return set->first[code];
}

const uint16 *
rose_distinct_codes(const RoseDistinct *set)
{
	return set->codes;
}
