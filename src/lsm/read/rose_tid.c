/*-------------------------------------------------------------------------
 *
 * rose_tid.c
 *	  TIDs: names of versions, private to a transaction and to those that share its snapshot.
 *
 * Giving names that are good enough for the transaction itself, and finding what any name
 * stands for.  See rose_tid.h for the scheme, rose_tid_base.c for exact names.
 *
 * Backend-local.  The row of a TID is fetched by rose_lookup.c: what a version is, and
 * whether a snapshot sees it, is for who asks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_tid_internal.h"

/* Most transactions use so few tables, and need no hash of them. */
#define FEW_MAPS	8

static MemoryContext TidContext = NULL; /* stays, but is reset */
static RoseTidMap FewMaps[FEW_MAPS];
static int	NFewMaps = 0;
static HTAB *TidMaps = NULL;	/* of those for which there is no room there */
static RoseTidMap *LastMap = NULL;

static void
init_map(RoseTidMap *map)
{
	memset((char *) map + sizeof(map->locator), 0, sizeof(*map) - sizeof(map->locator));
	map->maxranges = 4;
	map->ranges = MemoryContextAlloc(TidContext, map->maxranges * sizeof(RoseTidRange *));
	map->salt = rose_tid_salt();
	/* anywhere in the first half of its quarter */
	map->next_block = ROSE_TID_OTHER_BLOCK +
		(BlockNumber) (map->salt % (ROSE_TID_OTHER_BLOCK / 2));
}

/* The tree's map, if it is one of few. */
static RoseTidMap *
find_few(const RoseTree *tree)
{
	for (int i = 0; i < NFewMaps; i++)
		if (RelFileLocatorEquals(FewMaps[i].locator, tree->locator))
			return &FewMaps[i];
	return NULL;
}

static RoseTidMap *
make_few(const RoseTree *tree)
{
	RoseTidMap *map = &FewMaps[NFewMaps];

	if (TidContext == NULL)
		TidContext = AllocSetContextCreate(TopMemoryContext, "rose TIDs",
										   ALLOCSET_DEFAULT_SIZES);
	map->locator = tree->locator;
	init_map(map);
	NFewMaps++;
	return map;
}

static RoseTidMap *
map_of_many(const RoseTree *tree, bool create)
{
	RoseTidMap *map;
	bool		found;

	if (TidMaps == NULL)
	{
		HASHCTL		ctl = {0};

		if (!create)
			return NULL;
		ctl.keysize = sizeof(RelFileLocator);
		ctl.entrysize = sizeof(RoseTidMap);
		ctl.hcxt = TidContext;
		TidMaps = hash_create("rose TID maps", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	map = hash_search(TidMaps, &tree->locator, create ? HASH_ENTER : HASH_FIND, &found);
	if (map == NULL)
		return NULL;
	if (!found)
		init_map(map);
	return map;
}

RoseTidMap *
rose_tid_map(RoseTree *tree, bool create)
{
	RoseTidMap *map;

	if (LastMap && RelFileLocatorEquals(LastMap->locator, tree->locator))
		return LastMap;
	map = find_few(tree);
	if (map == NULL && NFewMaps == FEW_MAPS)
		map = map_of_many(tree, create);
	else if (map == NULL && create)
		map = make_few(tree);
	if (map != NULL)
		LastMap = map;
	return map;
}

MemoryContext
rose_tid_context(void)
{
	Assert(TidContext != NULL);
	return TidContext;
}

void
rose_tid_reset_all(void)
{
	rose_tid_share_end();
	LastMap = NULL;
	TidMaps = NULL;
	NFewMaps = 0;
	if (TidContext != NULL)
		MemoryContextReset(TidContext);
}

void
rose_tid_raise_no_room(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many rows of a rose table are referenced in one transaction"),
			 errhint("Split the work into several transactions.")));
}

/* The range of a component, made if it is new to this transaction. */
static RoseTidRange *
tid_range_get(RoseTidMap *map, const RoseComponentEntryDisk *entry)
{
	RoseTidRange *range;

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
		map->ranges = repalloc(map->ranges, map->maxranges * sizeof(RoseTidRange *));
	}
	range = MemoryContextAllocZero(TidContext, sizeof(RoseTidRange));
	range->entry = *entry;
	range->first_block = map->next_block;
	range->nblocks = entry->nrows / ROSE_TID_PER_BLOCK + 1;
	if ((uint64) map->next_block + entry->nrows / ROSE_TID_PER_BLOCK + 1 >=
		ROSE_TID_MEMORY_BLOCK)
		rose_tid_raise_no_room();
	map->next_block += range->nblocks;
	map->last = map->nranges;
	map->ranges[map->nranges++] = range;
	return range;
}

/* Number of the component's row 0. */
static uint64
other_number(RoseTidMap *map, const RoseComponentEntryDisk *component)
{
	return (uint64) tid_range_get(map, component)->first_block * ROSE_TID_PER_BLOCK;
}

/* The oldest sequence number that can have a name: half of them are older than the newest. */
static uint64
oldest_nameable(RoseTree *tree)
{
	uint64		next = rose_c0_next_sequence(&tree->shared->c0);

	return next > ROSE_TID_SEQS / 2 ? next - ROSE_TID_SEQS / 2 : 0;
}

uint64
rose_tid_memory_salt(RoseTree *tree, uint64 min_seq, uint64 max_seq)
{
	RoseTidMap *map = rose_tid_map(tree, true);

	if ((!map->memory_used || min_seq < map->seq_min) && min_seq < oldest_nameable(tree))
		rose_tid_raise_no_room();
	map->seq_min = map->memory_used ? Min(map->seq_min, min_seq) : min_seq;
	map->seq_max = map->memory_used ? Max(map->seq_max, max_seq) : max_seq;
	map->memory_used = true;
	return map->salt;
}

bool
rose_tid_first_number(RoseTree *tree, const RoseComponentEntryDisk *component,
					  uint64 *number)
{
	if (unlikely(rose_tid_exact))
		return rose_tid_base_number(tree, component, number);
	*number = other_number(rose_tid_map(tree, true), component);
	return true;
}

void
rose_tid_assign(RoseTree *tree, const RoseComponentEntryDisk *component,
				uint64 ordinal, uint64 seq, ItemPointer tid)
{
	if (component == NULL)
	{
		rose_tid_from_seq(rose_tid_memory_salt(tree, seq, seq), seq, tid);
		return;
	}
	Assert(ordinal < component->nrows);
	rose_tid_from_number(other_number(rose_tid_map(tree, true), component) + ordinal, tid);
}

RoseComponent *
rose_tid_range_open(RoseTree *tree, RoseTidRange *range)
{
	/* the schema is remade when the table is altered; so is the component's handle then */
	if (range->component == NULL || range->schema != tree->schema)
	{
		range->component = rose_view_component_of(tree, &range->entry);
		range->schema = tree->schema;
	}
	return range->component;
}

/* The sequence number that a name stands for.  False: it is none of this transaction's. */
static bool
resolve_memory(RoseTree *tree, const RoseTidMap *map, uint64 number, uint64 *seq)
{
	uint64		oldest = oldest_nameable(tree);

	if (number >= ROSE_TID_MEMORY + ROSE_TID_SEQS)
		return false;
	*seq = oldest + ((number - map->salt - oldest) & ROSE_TID_SEQ_MASK);
	return map->shared ||
		(map->memory_used && *seq >= map->seq_min && *seq <= map->seq_max);
}

static RoseTidRange *
find_range(const RoseTidMap *map, BlockNumber block)
{
	if (block < ROSE_TID_OTHER_BLOCK)
		return rose_tid_base_range(map, block);
	for (int i = 0; i < map->nranges; i++)
	{
		RoseTidRange *range = map->ranges[i];

		if (block >= range->first_block && block - range->first_block < range->nblocks)
			return range;
	}
	return NULL;
}

bool
rose_tid_resolve(RoseTree *tree, const ItemPointerData *tid, RoseTidTarget *target)
{
	RoseTidMap *map;
	RoseTidRange *range;
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	uint64		number = (uint64) block * ROSE_TID_PER_BLOCK + offset - FirstOffsetNumber;

	rose_tid_prepare(tree);
	map = rose_tid_map(tree, false);
	memset(target, 0, sizeof(*target));
	if (map == NULL || offset < FirstOffsetNumber || offset > ROSE_TID_PER_BLOCK)
		return false;
	if (block >= ROSE_TID_MEMORY_BLOCK)
		return resolve_memory(tree, map, number, &target->seq);

	range = find_range(map, block);
	if (range == NULL)
		return false;
	target->ordinal = number - (uint64) range->first_block * ROSE_TID_PER_BLOCK;
	if (target->ordinal >= range->entry.nrows)
		return false;
	target->component = rose_tid_range_open(tree, range);
	target->entry = &range->entry;
	return true;
}

bool
rose_tid_names_places(RoseTree *tree)
{
	const RoseTidMap *map = rose_tid_map(tree, false);

	return map != NULL && (map->nranges > 0 || map->base != NULL);
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
tid_range_set_pairs(RoseTidRange *range, uint64 least, const TidSeqPair *pairs, uint64 npairs)
{
	TidSeqPair *copy = MemoryContextAllocHuge(TidContext, Max(npairs, 1) * sizeof(TidSeqPair));

	memcpy(copy, pairs, npairs * sizeof(TidSeqPair));
	qsort(copy, npairs, sizeof(TidSeqPair), tid_pair_compare);
	if (range->pairs)
		pfree(range->pairs);
	range->pairs = copy;
	range->npairs = npairs;
	range->pairs_min = least;
}

/*
 * Read the sequence numbers of a component and keep those from the least one on that this
 * transaction may have given out.  If that fails or is cancelled, the transaction may
 * go on, so the range has all of them or what it had.
 */
static void
tid_range_build_pairs(RoseTree *tree, RoseTidRange *range, uint64 least)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose sequence scan",
											   ALLOCSET_DEFAULT_SIZES);
	uint64		capacity = 1024;
	uint64		npairs = 0;
	TidSeqPair *pairs = MemoryContextAlloc(work, capacity * sizeof(TidSeqPair));
	RoseComponentCursor *cursor =
		rose_component_cursor_create(rose_tid_range_open(tree, range), tree->rel,
									 tree->schema, NULL, work);

	/* what had moved when the range was made is not kept for the transaction */
	rose_component_cursor_set_first(cursor, range->entry.first_ordinal);
	ROSE_STOP_POINT("tid-pairs");
	if (rose_component_cursor_first(cursor))
	{
		do
		{
			const RoseRow *row = rose_component_cursor_row(cursor);
			uint64		seq = row->version.seq;

			CHECK_FOR_INTERRUPTS();
			if (seq < least || seq == ROSE_SEQ_OLDEST)
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
	tid_range_set_pairs(range, least, pairs, npairs);
	MemoryContextDelete(work);
}

bool
rose_tid_find_in_components(RoseTree *tree, uint64 seq, RoseTidTarget *target)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	RoseTidMap *map = rose_tid_map(tree, true);

	if (seq == ROSE_SEQ_OLDEST)
		return false;			/* no number of its own: in files of old releases only */
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];
		RoseTidRange *range;
		TidSeqPair *pair;
		TidSeqPair	key = {seq, 0};

		if (seq < entry->min_seq || seq > entry->max_seq)
			continue;
		range = tid_range_get(map, entry);
		/* once from what was given out so far, so that it is not read for each of many */
		if (range->pairs == NULL)
			tid_range_build_pairs(tree, range,
								  map->memory_used ? Min(map->seq_min, seq) : seq);
		else if (seq < range->pairs_min)
			tid_range_build_pairs(tree, range, 0);
		pair = bsearch(&key, range->pairs, range->npairs, sizeof(TidSeqPair),
					   tid_pair_compare);
		if (pair == NULL)
			continue;
		target->component = rose_tid_range_open(tree, range);
		target->entry = &range->entry;
		target->ordinal = pair->ordinal;
		target->seq = seq;
		return true;
	}
	return false;
}
