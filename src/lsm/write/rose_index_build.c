/*-------------------------------------------------------------------------
 *
 * rose_index_build.c
 *	  The build of a secondary index.  See rose_index_build.h.
 *
 * Goes through all versions that the table retains, and writes to the index what the writes
 * of these versions would have written there (rose_entry_history.h), with their stamps.
 * Entries come in the order of rows; they are sorted, and become C2 of the index.
 *
 * Versions of the transaction itself, which may be taken back, are sorted apart, into a
 * private run in front of the rest: they are newer than all others of their rows.
 *
 * Of versions that no snapshot sees any more nothing is computed: an expression may fail for a row
 * that somebody has deleted for that very reason.
 *
 * Locking: the caller's; sources of the walk and the manifest take theirs.
 *
 * What this does not do: decide which indexes are possible, or make the file
 * (tableam/rose_index_ddl.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_entry_history.h"
#include "lsm/merge/rose_sorted_pieces.h"
#include "lsm/merge/rose_version_sort.h"
#include "lsm/read/rose_version_walk.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_index_build.h"
#include "lsm/write/rose_new_run.h"

typedef struct IndexBuild
{
	RoseTree   *table;
	RoseTree   *index;
	const RoseEntryShape *shape;
	MemoryContext computed;		/* what is computed for the versions of one key */
	uint64		horizon;		/* every snapshot sees what older transactions committed */
	RoseVersionSort *sort;		/* of committed versions */
	RoseVersionSort *own_sort;	/* of the transaction's own; NULL: none so far */
	uint64		nversions;		/* in sort */
	uint64		nown;
	uint64		nrows;
	const RoseWalkVersion *versions;	/* of the key at hand */
	RoseEntryVersion *history;	/* theirs */
	int			capacity;		/* of history */
	bool		nulls[ROSE_ENTRY_COLUMNS];	/* of a tombstone */
} IndexBuild;

/* ---- in ---- */

static RoseVersionSort *
sort_for(IndexBuild *build, RoseXidStatus status)
{
	if (status == ROSE_XID_COMMITTED)
	{
		build->nversions++;
		return build->sort;
	}
	if (build->own_sort == NULL)
		build->own_sort = rose_version_sort_begin(build->index->schema, false);
	build->nown++;
	return build->own_sort;
}

/* What is stored of who wrote the row; of what is committed, not more than merges keep. */
static RoseVersion
stamp_of(const RoseWalkVersion *version, RoseOp op)
{
	RoseVersion stamp = version->version;

	stamp.op = op;
	stamp.moved_to = 0;
	stamp.rowid = 0;
	stamp.lockmode = 0;
	if (version->status == ROSE_XID_COMMITTED)
	{
		stamp.subxid = InvalidTransactionId;
		stamp.cid = 0;
	}
	return stamp;
}

static void
put_tombstone(IndexBuild *build, const RoseWalkVersion *version, const RoseEntry *entry)
{
	const RoseSchema *schema = build->index->schema;
	RoseVersion stamp = stamp_of(version, ROSE_OP_TOMBSTONE);

	memset(build->nulls, true, sizeof(build->nulls));
	for (int i = 0; i < schema->nkeys; i++)
	{
		int			column = schema->keys[i].def.attno - 1;

		build->nulls[column] = entry->nulls[column];
	}
	rose_version_sort_put(sort_for(build, version->status), &stamp, entry->values, build->nulls, 0);
}

static void
put_entry(IndexBuild *build, const RoseWalkVersion *version, const RoseEntry *entry)
{
	RoseVersion stamp = stamp_of(version, ROSE_OP_PUT);

	rose_entries_check_fits(build->index, entry);
	rose_version_sort_put(sort_for(build, version->status), &stamp, entry->values, entry->nulls, 0);
}

static void
write_entry(void *arg, int i, bool tombstone, const RoseEntry *entry)
{
	IndexBuild *build = arg;

	if (tombstone)
		put_tombstone(build, &build->versions[i], entry);
	else
		put_entry(build, &build->versions[i], entry);
}

/* Do all snapshots that the transaction has see the version? */
static bool
is_seen(const RoseWalkVersion *version)
{
	return TransactionIdIsValid(MyProc->xmin) &&
		TransactionIdPrecedes(XidFromFullTransactionId(version->version.xid), MyProc->xmin);
}

static void
make_room_for_history(IndexBuild *build, int n)
{
	if (n <= build->capacity)
		return;
	if (build->history != NULL)
		pfree(build->history);
	build->capacity = Max(2 * build->capacity, Max(n, 16));
	build->history = palloc_extended(build->capacity * sizeof(RoseEntryVersion), MCXT_ALLOC_HUGE);
}

/* The first version, oldest first, that some snapshot may see. */
static int
first_seen(const IndexBuild *build, const RoseWalkVersion *versions, int n)
{
	for (int i = n - 1; i > 0; i--)
		if (versions[i].status == ROSE_XID_COMMITTED &&
			U64FromFullTransactionId(versions[i].version.xid) < build->horizon)
			return i;
	return 0;
}

static void
entry_of(const IndexBuild *build, const RoseWalkVersion *version, int64 rowid, RoseEntry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(build->computed);

	if (version->version.op == ROSE_OP_PUT)
		rose_entry_of_row(build->shape, build->index->rel, ROSE_ENTRY_OF_OWNER, version->values,
						  version->nulls, rowid, entry);
	else
		rose_entry_of_none(entry);
	MemoryContextSwitchTo(old);
}

/* The versions of one key of the table, oldest first. */
static void
put_versions(IndexBuild *build, const RoseWalkVersion *versions, int n, int64 rowid)
{
	int			first = first_seen(build, versions, n);

	versions += first;
	n -= first;
	make_room_for_history(build, n);
	for (int i = 0; i < n; i++)
	{
		RoseEntryVersion *version = &build->history[i];

		version->own = versions[i].status != ROSE_XID_COMMITTED;
		version->seen = !version->own && is_seen(&versions[i]);
		entry_of(build, &versions[i], rowid, &version->entry);
	}
	build->versions = versions;
	rose_entry_history_write(build->shape, build->index->schema, build->history, n,
							 write_entry, build);
	build->nrows += build->history[n - 1].entry.exists;
	MemoryContextReset(build->computed);
}

static void
collect(IndexBuild *build)
{
	RoseVersionWalk *walk = rose_version_walk_begin(build->table);
	bool		by_row_id = build->table->schema->nkeys == 0;
	const RoseWalkVersion *versions;
	int			n;

	while ((versions = rose_version_walk_next(walk, &n)) != NULL)
		put_versions(build, versions, n,
					 by_row_id ? DatumGetInt64(rose_version_walk_key(walk)[0]) : 0);
	rose_version_walk_end(walk);
}

/* ---- out ---- */

/* Blocks that the entries are likely to take: as many as the rows that they are of. */
static uint64
blocks_of_table(RoseTree *table)
{
	const RoseManifest *manifest = rose_tree_manifest(table);
	uint64		nblocks = rose_c0_bytes(&table->shared->c0) / BLCKSZ;

	for (int i = 0; i < manifest->ncomponents; i++)
		nblocks += manifest->components[i].nblocks;
	return nblocks;
}

static void
write_pieces(IndexBuild *build, uint64 next_seq)
{
	const RoseSchema *schema = build->index->schema;
	RoseSortedPieces *pieces;
	RoseKeyBuffer last;
	TupleTableSlot *slot;
	RoseVersion version;

	pieces = rose_sorted_pieces_begin(build->index, build->nversions,
									  blocks_of_table(build->table), next_seq, 0);
	rose_key_buffer_init(&last, CurrentMemoryContext);
	rose_version_sort_perform(build->sort);
	while ((slot = rose_version_sort_next(build->sort, &version)) != NULL)
	{
		Datum		key[INDEX_MAX_KEYS];

		rose_key_from_values(schema, slot->tts_values, 0, key);
		if (!last.valid || rose_key_compare(schema, last.key, key, schema->nkeys) != 0)
		{
			rose_sorted_pieces_next_key(pieces);
			rose_key_buffer_set(&last, schema, key);
		}
		rose_sorted_pieces_add(pieces, &version, slot->tts_values, slot->tts_isnull);
	}
	rose_sorted_pieces_finish(pieces);
}

static void
write_own_run(IndexBuild *build, uint64 next_seq)
{
	RoseTree   *index = build->index;
	RoseComponentBuilder *builder;
	TupleTableSlot *slot;
	RoseVersion version;
	RoseNewRun	run;

	builder = rose_component_builder_create(index->rel, &index->shared->store, index->schema,
											build->nown, ROSE_BUILD_PRIVATE, CurrentMemoryContext);
	rose_version_sort_perform(build->own_sort);
	while ((slot = rose_version_sort_next(build->own_sort, &version)) != NULL)
		rose_component_builder_add_values(builder, &version, slot->tts_values, slot->tts_isnull);
	rose_new_run_finish(&run, index, builder, next_seq);
	rose_new_run_publish(&run);
	rose_new_run_note(&run);
	rose_component_builder_free(builder);
}

uint64
rose_index_build(RoseTree *table, RoseTree *index, const RoseEntryShape *shape)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose index build",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	IndexBuild	build = {.table = table, .index = index, .shape = shape};
	uint64		next_seq;

	build.computed = AllocSetContextCreate(context, "rose index build row", ALLOCSET_SMALL_SIZES);
	build.horizon = rose_horizon_oldest(table->rel);
	build.sort = rose_version_sort_begin(index->schema, false);
	collect(&build);
	next_seq = rose_c0_next_sequence(&table->shared->c0);
	write_pieces(&build, next_seq);
	if (build.own_sort != NULL)
	{
		write_own_run(&build, next_seq);
		rose_version_sort_end(build.own_sort);
	}
	rose_version_sort_end(build.sort);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return build.nrows;
}
