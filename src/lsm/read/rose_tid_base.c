/*-------------------------------------------------------------------------
 *
 * rose_tid_base.c
 *	  Exact names: one version has one TID, wherever a transaction meets it.
 *
 * A version changes its place when it is spilled or merged, and it may lose its sequence
 * number when a merge forgets it.  The first statement of a transaction that uses ctids
 * of a table takes the list of components of that moment, the base, and then
 *
 *	- versions that were settled (src/store/rose_settled.c) before the transaction pinned
 *	  the table, and those that have no sequence number any more, are named by their
 *	  place in the base;
 *	- all others are named by their sequence number.
 *
 * The latter keep it, because merges forget nothing that was settled later than a pin
 * ("Forgotten versions" in the README); the former keep their place, because the pin
 * keeps the components of the base.  So the name can be found wherever the version is
 * met:
 *
 *	- in memory, or with a sequence number above those of the base: it is the number;
 *	- in a component of the base: see above;
 *	- elsewhere: the versions of its key in the base are looked through for the same sequence
 *	  number.  If it has been forgotten, it is the newest one that the snapshot sees there: the snapshot
 *	  sees what was forgotten, and if it saw a newer one, that would have been met.
 *
 * The base must be there before a statement looks at the table's sources: then no version
 * that is named by place is met in memory, even if the base is that of another
 * transaction (rose_tid_share.c).
 *
 * What this does not do: decide which statements are exact.  A parallel worker has a pin
 * and sources of its own, and cannot give exact names; the planner makes no parallel
 * plans that need them.
 *
 * Backend-local; components are kept by the transaction's pin.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "store/rose_store.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/read/rose_tid_internal.h"

bool		rose_tid_exact = false;

/* ---- the base ---- */

/* Blocks that the rows of its components take. */
static uint64
count_blocks(const RoseTidBase *base)
{
	uint64		nblocks = 0;

	for (int i = 0; i < base->n; i++)
		nblocks += base->components[i].entry.nrows / ROSE_TID_PER_BLOCK + 1;
	return nblocks;
}

/* What the transaction would choose. */
static void
take_base(RoseTree *tree, const RoseTidMap *map, RoseTidBase *base)
{
	RoseManifest manifest;
	uint64		settled[ROSE_MAX_COMPONENTS];
	uint64		nblocks;

	base->generation = rose_pin_generation(tree->locator);
	rose_settled_read_manifest(tree->rel, &tree->shared->store, &manifest, settled);
	base->newest_owner = manifest.newest_owner;
	base->n = manifest.ncomponents;
	for (int i = 0; i < base->n; i++)
	{
		base->components[i].entry = manifest.components[i];
		base->components[i].settled = settled[i] != ROSE_UNSETTLED &&
			settled[i] < base->generation;
	}
	nblocks = count_blocks(base);
	if (nblocks >= ROSE_TID_OTHER_BLOCK)
		rose_tid_raise_no_room();
	base->first_block = (BlockNumber) ((map->salt >> 32) % (ROSE_TID_OTHER_BLOCK - nblocks));
}

static void
use_base(RoseTidMap *map, RoseTidBase *base)
{
	RoseTidRange *ranges = palloc0(Max(base->n, 1) * sizeof(RoseTidRange));
	BlockNumber block = base->first_block;

	map->base_max_seq = 0;
	for (int i = 0; i < base->n; i++)
	{
		ranges[i].entry = base->components[i].entry;
		ranges[i].first_block = block;
		ranges[i].nblocks = ranges[i].entry.nrows / ROSE_TID_PER_BLOCK + 1;
		block += ranges[i].nblocks;
		if (base->components[i].settled)
			map->base_max_seq = Max(map->base_max_seq, ranges[i].entry.max_seq);
	}
	map->base_ranges = ranges;
	map->base = base;
}

void
rose_tid_prepare_exact(RoseTree *tree)
{
	RoseTidMap *map = rose_tid_map(tree, true);
	MemoryContext old;
	RoseTidBase *base;

	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use ctids of rose table \"%s\" in a parallel worker",
						RelationGetRelationName(tree->rel)),
				 errhint("Mark functions that use them PARALLEL RESTRICTED.")));
	if (map->base != NULL)
		return;
	old = MemoryContextSwitchTo(rose_tid_context());
	base = palloc0(sizeof(RoseTidBase));
	take_base(tree, map, base);
	ROSE_STOP_POINT("tid-base");
	map->shared = rose_tid_share_base(tree, base);
	use_base(map, base);
	MemoryContextSwitchTo(old);
}

RoseTidRange *
rose_tid_base_range(const RoseTidMap *map, BlockNumber block)
{
	for (int i = 0; map->base != NULL && i < map->base->n; i++)
	{
		RoseTidRange *range = &map->base_ranges[i];

		if (block >= range->first_block && block - range->first_block < range->nblocks)
			return range;
	}
	return NULL;
}

/* Index of a component in the base, or -1. */
static int
find_component(const RoseTidBase *base, uint32 id)
{
	for (int i = 0; i < base->n; i++)
		if (base->components[i].entry.id == id)
			return i;
	return -1;
}

bool
rose_tid_base_number(RoseTree *tree, const RoseComponentEntryDisk *component,
					 uint64 *number)
{
	RoseTidMap *map = rose_tid_map(tree, true);
	int			i;

	rose_tid_prepare_exact(tree);
	i = find_component(map->base, component->id);
	/* what was trimmed when the base was taken has its place in another component */
	if (i < 0 || !map->base->components[i].settled ||
		component->first_ordinal < map->base->components[i].entry.first_ordinal)
		return false;
	*number = (uint64) map->base_ranges[i].first_block * ROSE_TID_PER_BLOCK;
	return true;
}

/* ---- looking for a version in the base ---- */

typedef struct BaseSearch
{
	RoseTree   *tree;
	const Datum *key;
	uint64		hash;
	uint64		seq;			/* the version's, or ROSE_SEQ_OLDEST: by vis */
	RoseVisibility vis;
} BaseSearch;

static RoseComponentCursor *
cursor_of(RoseTree *tree, RoseTidRange *range)
{
	RoseComponent *component = rose_tid_range_open(tree, range);

	if (range->cursor_component != component)
	{
		if (range->cursor != NULL)
			rose_component_cursor_free(range->cursor);
		range->cursor = NULL;
		range->cursor = rose_component_cursor_create(component, tree->rel, tree->schema,
													 NULL, rose_tid_context());
		rose_component_cursor_set_first(range->cursor, range->entry.first_ordinal);
		range->cursor_component = component;
	}
	else
		rose_component_cursor_rebind(range->cursor, tree->rel);
	return range->cursor;
}

static bool
is_wanted(BaseSearch *search, const RoseVersion *version, bool committed)
{
	if (search->seq != ROSE_SEQ_OLDEST)
		return version->seq == search->seq;
	return version->op != ROSE_OP_LOCK &&
		rose_version_visible(&search->vis, version, committed);
}

/* The same in one of its components. */
static bool
search_component(BaseSearch *search, RoseTidRange *range, uint64 *ordinal)
{
	RoseTree   *tree = search->tree;
	const RoseSchema *schema = tree->schema;
	int			width = rose_schema_key_width(schema);
	bool		committed = (range->entry.flags & ROSE_COMPONENT_PRIVATE) == 0;
	RoseComponent *component = rose_tid_range_open(tree, range);
	RoseComponentCursor *cursor;

	if (!rose_component_in_range(component, search->key) ||
		!rose_filter_ask(component, tree->rel, search->key, search->hash))
		return false;
	cursor = cursor_of(tree, range);
	if (!rose_component_cursor_seek(cursor, search->key, width, PG_UINT64_MAX))
		return false;
	do
	{
		const RoseRow *row = rose_component_cursor_keyed_row(cursor);

		if (rose_key_compare(schema, row->key, search->key, width) != 0)
			return false;
		row = rose_component_cursor_row(cursor);
		if (is_wanted(search, &row->version, committed))
		{
			*ordinal = row->ordinal;
			return true;
		}
	} while (rose_component_cursor_next(cursor));
	return false;
}

/* May a version with this sequence number be named by its place there? */
static bool
may_be_placed(const RoseTidBase *base, int i, uint64 seq)
{
	const RoseComponentEntryDisk *entry = &base->components[i].entry;

	if (seq == ROSE_SEQ_OLDEST)
		return true;
	return base->components[i].settled && seq >= entry->min_seq && seq <= entry->max_seq;
}

/* The number of the version's place in the base; false: it is not there. */
static bool
find_place(RoseTree *tree, const RoseTidMap *map, const RoseRow *row, Snapshot snapshot,
		   uint64 *number)
{
	BaseSearch	search = {.tree = tree, .key = row->key, .seq = row->version.seq};

	search.hash = rose_key_hash(tree->schema, row->key);
	/* others than MVCC ones see the newest version; and DIRTY says of it what must stay so */
	if (search.seq == ROSE_SEQ_OLDEST)
		rose_visibility_init(&search.vis, IsMVCCSnapshot(snapshot) ? snapshot : SnapshotSelf);
	for (int i = 0; i < map->base->n; i++)
	{
		RoseTidRange *range = &map->base_ranges[i];
		uint64		ordinal;

		if (!may_be_placed(map->base, i, search.seq) ||
			!search_component(&search, range, &ordinal))
			continue;
		*number = (uint64) range->first_block * ROSE_TID_PER_BLOCK + ordinal;
		return true;
	}
	return false;
}

/* ---- names ---- */

/* The row's place, if it is in a component of the base and is named by it. */
static bool
place_at_hand(const RoseTidMap *map, const RoseComponentEntryDisk *component,
			  const RoseRow *row, uint64 *number, bool *by_seq)
{
	int			i = find_component(map->base, component->id);

	*by_seq = false;
	if (i < 0 || row->ordinal < map->base->components[i].entry.first_ordinal)
		return false;
	if (!map->base->components[i].settled && row->version.seq != ROSE_SEQ_OLDEST)
	{
		*by_seq = true;
		return false;
	}
	*number = (uint64) map->base_ranges[i].first_block * ROSE_TID_PER_BLOCK + row->ordinal;
	return true;
}

static void
name_exactly(RoseTree *tree, const RoseComponentEntryDisk *component,
			 const RoseRow *row, Snapshot snapshot, ItemPointer tid)
{
	RoseTidMap *map = rose_tid_map(tree, true);
	uint64		seq = row->version.seq;
	uint64		number;
	bool		by_seq;

	if (place_at_hand(map, component, row, &number, &by_seq))
	{
		rose_tid_from_number(number, tid);
		return;
	}
	if (!by_seq && (seq == ROSE_SEQ_OLDEST || seq <= map->base_max_seq))
	{
		if (find_place(tree, map, row, snapshot, &number))
		{
			rose_tid_from_number(number, tid);
			return;
		}
		if (seq == ROSE_SEQ_OLDEST)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not find the ctid of a row of table \"%s\"",
							RelationGetRelationName(tree->rel)),
					 errdetail("The row has no place among the components that this transaction names rows by."),
					 errhint("The transaction might succeed if retried.")));
	}
	rose_tid_from_seq(rose_tid_memory_salt(tree, seq, seq), seq, tid);
}

void
rose_tid_name(RoseTree *tree, const RoseComponentEntryDisk *component,
			  const RoseRow *row, Snapshot snapshot, ItemPointer tid)
{
	rose_tid_prepare(tree);
	if (unlikely(rose_tid_exact) && component != NULL)
		name_exactly(tree, component, row, snapshot, tid);
	else
		rose_tid_assign(tree, component, row->ordinal, row->version.seq, tid);
}
