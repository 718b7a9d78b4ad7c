/*-------------------------------------------------------------------------
 *
 * rose_node_group_intern.c
 *	  Numbers for byte strings, from 0 in the order in which they came.
 *
 * So keys of groups that are passed by reference are compared and hashed as words are.  Several byte strings may have one
 * number, when they mean the same; each number has one value, which stands for all of them.
 *
 * Bytes and values are copied to memory of the table's own.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "scan/rose_node_group_intern.h"

#define FIRST_SLOTS		64

/* Blocks of memory are so small, for who bounds it: there is no more of it than is said, but for one of them. */
#define FIRST_BLOCK		1024
#define MAX_BLOCK		(32 * 1024)

typedef struct InternSlot
{
	const char *bytes;			/* NULL: empty */
	Size		length;
	uint32		hash;
	uint32		number;
} InternSlot;

struct RoseNodeIntern
{
	MemoryContext context;		/* of all below */
	uint32		nslots;			/* a power of 2; 0: nothing is there */
	uint32		nused;
	InternSlot *slots;
	uint32		nvalues;
	uint32		values_capacity;
	Datum	   *values;
	Size		memory;
};

RoseNodeIntern *
rose_node_intern_create(void)
{
	RoseNodeIntern *intern = palloc0(sizeof(RoseNodeIntern));

	intern->context = AllocSetContextCreate(CurrentMemoryContext, "rose group keys", 0, FIRST_BLOCK, MAX_BLOCK);
	return intern;
}

void
rose_node_intern_reset(RoseNodeIntern *intern)
{
	MemoryContext context = intern->context;

	MemoryContextReset(context);
	memset(intern, 0, sizeof(*intern));
	intern->context = context;
}

Size
rose_node_intern_memory(const RoseNodeIntern *intern)
{
	return intern->memory;
}

Size
rose_node_intern_needs(const RoseNodeIntern *intern)
{
	Size		needs = intern->memory;

	if (intern->nused >= intern->nslots / 2)
		needs += Max(intern->nslots, FIRST_SLOTS) * sizeof(InternSlot);
	if (intern->nvalues >= intern->values_capacity)
		needs += Max(intern->values_capacity, FIRST_SLOTS) * sizeof(Datum);
	return needs;
}

Datum
rose_node_intern_value(const RoseNodeIntern *intern, uint32 number)
{
	Assert(number < intern->nvalues);
	return intern->values[number];
}

/* ---- slots ---- */

static inline uint32
hash_of(const char *bytes, Size length)
{
	return hash_bytes((const unsigned char *) bytes, (int) length);
}

/* The slot of these bytes, or the one where they belong. */
static InternSlot *
find_slot(const RoseNodeIntern *intern, const char *bytes, Size length, uint32 hash)
{
	uint32		mask = intern->nslots - 1;
	uint32		at = hash & mask;

	for (;;)
	{
		InternSlot *slot = &intern->slots[at];

		if (slot->bytes == NULL ||
			(slot->hash == hash && slot->length == length &&
			 memcmp(slot->bytes, bytes, length) == 0))
			return slot;
		at = (at + 1) & mask;
	}
}

/* Twice as many slots. */
static void
grow_slots(RoseNodeIntern *intern)
{
	uint32		nslots = Max(intern->nslots * 2, FIRST_SLOTS);
	InternSlot *slots = MemoryContextAllocExtended(intern->context, nslots * sizeof(InternSlot),
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (uint32 i = 0; i < intern->nslots; i++)
	{
		const InternSlot *slot = &intern->slots[i];
		uint32		at = slot->hash & (nslots - 1);

		if (slot->bytes == NULL)
			continue;
		while (slots[at].bytes != NULL)
			at = (at + 1) & (nslots - 1);
		slots[at] = *slot;
	}
	if (intern->slots != NULL)
		pfree(intern->slots);
	intern->memory += (nslots - intern->nslots) * sizeof(InternSlot);
	intern->slots = slots;
	intern->nslots = nslots;
}

/* bytes stay where they are. */
static void
add_slot(RoseNodeIntern *intern, const char *bytes, Size length, uint32 number)
{
	uint32		hash = hash_of(bytes, length);
	InternSlot *slot;

	if (intern->nused >= intern->nslots / 2)
		grow_slots(intern);
	slot = find_slot(intern, bytes, length, hash);
	Assert(slot->bytes == NULL);
	slot->bytes = bytes;
	slot->length = length;
	slot->hash = hash;
	slot->number = number;
	intern->nused++;
}

bool
rose_node_intern_find(const RoseNodeIntern *intern, const char *bytes, Size length, uint32 *number)
{
	const InternSlot *slot;

	if (intern->nused == 0)
		return false;
	slot = find_slot(intern, bytes, length, hash_of(bytes, length));
	if (slot->bytes == NULL)
		return false;
	*number = slot->number;
	return true;
}

/* ---- values ---- */

static char *
copy_bytes(RoseNodeIntern *intern, const char *bytes, Size length)
{
	/* one more, so that nothing is somewhere, too */
	char	   *copy = MemoryContextAllocHuge(intern->context, length + 1);

	memcpy(copy, bytes, length);
	intern->memory += GetMemoryChunkSpace(copy);
	return copy;
}

static void
make_room_for_value(RoseNodeIntern *intern)
{
	uint32		capacity = Max(intern->values_capacity * 2, FIRST_SLOTS);

	if (intern->nvalues < intern->values_capacity)
		return;
	if (intern->values == NULL)
		intern->values = MemoryContextAlloc(intern->context, capacity * sizeof(Datum));
	else
		intern->values = repalloc_huge(intern->values, capacity * sizeof(Datum));
	intern->memory += (capacity - intern->values_capacity) * sizeof(Datum);
	intern->values_capacity = capacity;
}

uint32
rose_node_intern_add(RoseNodeIntern *intern, const char *bytes, Size length, Datum value,
					 int typlen)
{
	Size		size = datumGetSize(value, false, typlen);
	uint32		number = intern->nvalues;
	const char *from = DatumGetPointer(value);
	bool		within = bytes >= from && bytes + length <= from + size;
	char	   *copy;

	make_room_for_value(intern);
	copy = copy_bytes(intern, from, size);
	intern->values[number] = PointerGetDatum(copy);
	intern->nvalues++;
	add_slot(intern, within ? copy + (bytes - from) : copy_bytes(intern, bytes, length), length,
			 number);
	return number;
}

void
rose_node_intern_add_alias(RoseNodeIntern *intern, const char *bytes, Size length, uint32 number)
{
	add_slot(intern, copy_bytes(intern, bytes, length), length, number);
}
