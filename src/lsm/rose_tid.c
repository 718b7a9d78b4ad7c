/*-------------------------------------------------------------------------
 *
 * rose_tid.c
 *	  TIDs: names of versions, private to a backend and a transaction.
 *
 * All state is backend-local, in a memory context that is deleted at the end
 * of the top-level transaction.  See rose_tid.h for the scheme.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_tid.h"

#include "miscadmin.h"
#include "util/rose_stop_point.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct TidSeqPair
{
	uint64		seq;
	uint64		ordinal;
} TidSeqPair;

/* A component met in this transaction. */
typedef struct TidRange
{
	RoseComponentEntryDisk entry;
	BlockNumber first_block;	/* of nblocks; both 0 if no TID was given */
	BlockNumber nblocks;
	RoseComponent *component;	/* own handle, opened on demand */
	const RoseSchema *schema;	/* that it was opened with */
	TidSeqPair *pairs;			/* sorted by seq, built on demand */
	uint64		npairs;
	uint64		pairs_min,		/* the sequence numbers it covers */
				pairs_max;
} TidRange;

typedef struct TidMap
{
	RelFileLocator locator;		/* hash key */
	int			nranges;
	int			maxranges;
	TidRange  **ranges;			/* those with blocks, by first_block */
	int			last;			/* range used last */
	BlockNumber next_block;
	uint64		seq_base;		/* sequence number of the first memory TID; 0 = none yet */
	uint64		seq_min,		/* memory TIDs given so far */
				seq_max;
} TidMap;

static MemoryContext TidContext = NULL;
static HTAB *TidMaps = NULL;
static TidMap *LastMap = NULL;

static TidMap *
tid_map_get(RoseTable *table, bool create)
{
	TidMap	   *map;
	bool		found;

	if (LastMap && RelFileLocatorEquals(LastMap->locator, table->locator))
		return LastMap;
	if (TidMaps == NULL)
	{
		HASHCTL		ctl = {0};

		if (!create)
			return NULL;
		TidContext = AllocSetContextCreate(TopMemoryContext, "rose TIDs",
										   ALLOCSET_SMALL_SIZES);
		ctl.keysize = sizeof(RelFileLocator);
		ctl.entrysize = sizeof(TidMap);
		ctl.hcxt = TidContext;
		TidMaps = hash_create("rose TID maps", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	map = hash_search(TidMaps, &table->locator, create ? HASH_ENTER : HASH_FIND, &found);
	if (map == NULL)
		return NULL;
	if (!found)
	{
		map->nranges = 0;
		map->maxranges = 8;
		map->ranges = MemoryContextAlloc(TidContext,
										 map->maxranges * sizeof(TidRange *));
		map->last = 0;
		map->next_block = 0;
		map->seq_base = map->seq_min = map->seq_max = 0;
	}
	LastMap = map;
	return map;
}

void
rose_tid_reset_all(void)
{
	if (TidContext == NULL)
		return;
	MemoryContextDelete(TidContext);
	TidContext = NULL;
	TidMaps = NULL;
	LastMap = NULL;
}

/* The range of a component, made if it is new to this transaction. */
static TidRange *
tid_range_get(TidMap *map, const RoseComponentEntryDisk *entry)
{
	TidRange   *range;

	if (map->nranges > 0 && map->ranges[map->last]->entry.id == entry->id)
		return map->ranges[map->last];
	for (int i = 0; i < map->nranges; i++)
	{
		if (map->ranges[i]->entry.id == entry->id)
		{
			map->last = i;
			return map->ranges[i];
		}
	}

	if (map->nranges == map->maxranges)
	{
		map->maxranges *= 2;
		map->ranges = repalloc(map->ranges, map->maxranges * sizeof(TidRange *));
	}
	range = MemoryContextAllocZero(TidContext, sizeof(TidRange));
	range->entry = *entry;
	range->first_block = map->next_block;
	range->nblocks = entry->nrows / ROSE_TID_PER_BLOCK + 1;
	if ((uint64) map->next_block + entry->nrows / ROSE_TID_PER_BLOCK + 1 >=
		ROSE_TID_MEMORY_BLOCK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many rows of a rose table are referenced in one transaction"),
				 errhint("Split the work into several transactions.")));
	map->next_block += range->nblocks;
	map->last = map->nranges;
	map->ranges[map->nranges++] = range;
	return range;
}

uint64
rose_tid_first_number(RoseTable *table, const RoseComponentEntryDisk *component)
{
	TidRange   *range = tid_range_get(tid_map_get(table, true), component);

	return (uint64) range->first_block * ROSE_TID_PER_BLOCK;
}

/* A C0 version with this sequence number is to get a TID. */
static void
note_memory_tid(TidMap *map, uint64 seq)
{
	const uint64 half = (uint64) (ROSE_TID_MEMORY_BLOCK / 2) * ROSE_TID_PER_BLOCK;

	if (map->seq_base == 0)
	{
		map->seq_base = seq > half ? seq - half : 1;
		map->seq_min = map->seq_max = seq;
	}
	if (seq < map->seq_base || seq - map->seq_base >= 2 * half - ROSE_TID_PER_BLOCK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many rows of a rose table are referenced in one transaction"),
				 errhint("Split the work into several transactions.")));
	map->seq_min = Min(map->seq_min, seq);
	map->seq_max = Max(map->seq_max, seq);
}

uint64
rose_tid_memory_number(RoseTable *table, uint64 min_seq, uint64 max_seq)
{
	TidMap	   *map = tid_map_get(table, true);

	note_memory_tid(map, min_seq);
	note_memory_tid(map, max_seq);
	return (uint64) ROSE_TID_MEMORY_BLOCK * ROSE_TID_PER_BLOCK - map->seq_base;
}

void
rose_tid_assign(RoseTable *table, const RoseComponentEntryDisk *component,
				uint64 ordinal, uint64 seq, ItemPointer tid)
{
	TidMap	   *map;

	if (component == NULL)
	{
		rose_tid_from_number(rose_tid_memory_number(table, seq, seq) + seq, tid);
		return;
	}
	map = tid_map_get(table, true);
	Assert(ordinal < component->nrows);
	rose_tid_from_number((uint64) tid_range_get(map, component)->first_block *
						 ROSE_TID_PER_BLOCK + ordinal, tid);
}

static RoseComponent *
tid_range_open(RoseTable *table, TidRange *range)
{
	/* the schema is remade when the table is altered; so is the handle then */
	if (range->component == NULL || range->schema != table->schema)
	{
		range->component = rose_component_open(table->rel, table->schema,
											   &range->entry, TidContext);
		range->schema = table->schema;
	}
	return range->component;
}

bool
rose_tid_resolve(RoseTable *table, const ItemPointerData *tid, RoseTidTarget *target)
{
	TidMap	   *map = tid_map_get(table, false);
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	memset(target, 0, sizeof(*target));
	if (map == NULL || offset < FirstOffsetNumber || offset > ROSE_TID_PER_BLOCK)
		return false;

	if (block >= ROSE_TID_MEMORY_BLOCK)
	{
		if (map->seq_base == 0)
			return false;
		target->seq = map->seq_base +
			(uint64) (block - ROSE_TID_MEMORY_BLOCK) * ROSE_TID_PER_BLOCK +
			(offset - FirstOffsetNumber);
		return target->seq >= map->seq_min && target->seq <= map->seq_max;
	}

	for (int i = 0; i < map->nranges; i++)
	{
		TidRange   *range = map->ranges[i];
		uint64		ordinal;

		if (block < range->first_block || block >= range->first_block + range->nblocks)
			continue;
		ordinal = (uint64) (block - range->first_block) * ROSE_TID_PER_BLOCK +
			(offset - FirstOffsetNumber);
		if (ordinal >= range->entry.nrows)
			return false;
		target->component = tid_range_open(table, range);
		target->entry = &range->entry;
		target->ordinal = ordinal;
		return true;
	}
	return false;
}

static int
tid_pair_compare(const void *a, const void *b)
{
	uint64		x = ((const TidSeqPair *) a)->seq;
	uint64		y = ((const TidSeqPair *) b)->seq;

	return x < y ? -1 : (x > y ? 1 : 0);
}

/* Give the range these in place of what it had. */
static void
tid_range_set_pairs(TidRange *range, const TidMap *map, const TidSeqPair *pairs, uint64 npairs)
{
	TidSeqPair *copy = MemoryContextAllocHuge(TidContext, Max(npairs, 1) * sizeof(TidSeqPair));

	memcpy(copy, pairs, npairs * sizeof(TidSeqPair));
	qsort(copy, npairs, sizeof(TidSeqPair), tid_pair_compare);
	if (range->pairs)
		pfree(range->pairs);
	range->pairs = copy;
	range->npairs = npairs;
	range->pairs_min = map->seq_min;
	range->pairs_max = map->seq_max;
}

/*
 * Read the sequence numbers of a component and keep those that this
 * transaction may have given out as memory TIDs.  If that fails or is cancelled, the transaction may
 * go on, so the range has all of them or what it had.
 */
static void
tid_range_build_pairs(RoseTable *table, TidMap *map, TidRange *range)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose sequence scan",
											   ALLOCSET_DEFAULT_SIZES);
	uint64		capacity = 1024;
	uint64		npairs = 0;
	TidSeqPair *pairs = MemoryContextAlloc(work, capacity * sizeof(TidSeqPair));
	RoseComponentCursor *cursor =
		rose_component_cursor_create(tid_range_open(table, range), table->rel,
									 table->schema, NULL, work);

	ROSE_STOP_POINT("tid-pairs");
	if (rose_component_cursor_first(cursor))
	{
		do
		{
			const RoseRow *row = rose_component_cursor_row(cursor);
			uint64		seq = row->version.seq;

			CHECK_FOR_INTERRUPTS();
			if (seq < map->seq_min || seq > map->seq_max)
				continue;
			if (npairs == capacity)
			{
				capacity *= 2;
				pairs = repalloc_huge(pairs, capacity * sizeof(TidSeqPair));
			}
			pairs[npairs].seq = seq;
			pairs[npairs++].ordinal = row->ordinal;
		} while (rose_component_cursor_next(cursor));
	}
	rose_component_cursor_free(cursor);
	tid_range_set_pairs(range, map, pairs, npairs);
	MemoryContextDelete(work);
}

bool
rose_tid_find_in_components(RoseTable *table, uint64 seq, RoseTidTarget *target)
{
	const RoseManifest *manifest = rose_table_manifest(table);
	TidMap	   *map = tid_map_get(table, true);

	if (seq == ROSE_SEQ_OLDEST)
		return false;			/* no number of its own: in files of old releases only */
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];
		TidRange   *range;
		TidSeqPair *pair;
		TidSeqPair	key = {seq, 0};

		if (seq < entry->min_seq || seq > entry->max_seq)
			continue;
		range = tid_range_get(map, entry);
		if (range->pairs == NULL || seq < range->pairs_min || seq > range->pairs_max)
		{
			map->seq_min = map->seq_min ? Min(map->seq_min, seq) : seq;
			map->seq_max = Max(map->seq_max, seq);
			tid_range_build_pairs(table, map, range);
		}
		pair = bsearch(&key, range->pairs, range->npairs, sizeof(TidSeqPair),
					   tid_pair_compare);
		if (pair == NULL)
			continue;
		target->component = tid_range_open(table, range);
		target->entry = &range->entry;
		target->ordinal = pair->ordinal;
		target->seq = seq;
		return true;
	}
	return false;
}
