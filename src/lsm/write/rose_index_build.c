/*-------------------------------------------------------------------------
 *
 * rose_index_build.c
 *	  The build of a secondary index.  See rose_index_build.h.
 *
 * Goes through all versions that the table retains, and writes to the index what the writes
 * of these versions would have written there (rose_entry_history.h), with their stamps.
 * Entries come in the order of rows; they are sorted, and become C2 of the index.
 *
 * Of nearly all rows one version matters, and everybody sees it.  These are taken many at a
 * time from leaves, and sorted and written as columns; the others one by one.  Both come
 * together in the order of their keys, of which they have none in common.
 *
 * Versions of the transaction itself, which may be taken back, are sorted apart, into a
 * private run in front of the rest: they are newer than all others of their rows.
 *
 * Entries of a table that a subscription feeds have no stamps of their own: all are settled. A crash takes
 * versions of such a table away that no epoch has made durable, but not the new file: so
 * the versions that may come back have their entries, too.
 *
 * Of other versions that no snapshot sees any more nothing is computed: an expression may fail for a row
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

#include "access/nbtree.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/backend_progress.h"
#include "utils/memutils.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_entry_history.h"
#include "lsm/merge/rose_column_sort.h"
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
	bool		fed;			/* the table: entries have no stamps */
	FullTransactionId oldest;	/* all snapshots see what was committed before */
	MemoryContext computed;		/* what is computed for the versions of one key */
	RoseColumnSort *settled;	/* entries of rows whose only version matters, which all see */
	RoseVersionSort *sort;		/* of other committed versions; NULL: none so far */
	RoseVersionSort *own_sort;	/* of the transaction's own; NULL: none so far */
	uint64		nsettled;
	uint64		nversions;		/* in sort */
	uint64		nown;
	uint64		nrows;
	const RoseWalkVersion *versions;	/* of the key at hand */
	RoseEntryVersion *history;	/* theirs */
	int			capacity;		/* of history */
	bool		nulls[ROSE_ENTRY_COLUMNS];	/* of a tombstone */
} IndexBuild;

/* ---- what pg_stat_progress_create_index shows ---- */

/* Rows between two reports. */
#define PROGRESS_ROWS	10000

static uint64
rows_of_table(RoseTree *table)
{
	const RoseManifest *manifest = rose_tree_manifest(table);
	uint64		nrows = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
		nrows += manifest->components[i].nrows;
	return nrows;
}

static void
report_phase(int64 phase, uint64 nrows)
{
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_CREATEIDX_TUPLES_TOTAL, PROGRESS_CREATEIDX_TUPLES_DONE
	};
	const int64 values[] = {phase, (int64) nrows, 0};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

/* ---- in ---- */

static Size
memory_of_build(void)
{
	return (Size) maintenance_work_mem * 1024;
}

/* What is sorted by versions shares memory with what is sorted by columns. */
static RoseVersionSort *
begin_version_sort(IndexBuild *build)
{
	rose_column_sort_set_memory(build->settled, memory_of_build() / 4);
	return rose_version_sort_begin(build->index->schema, false, maintenance_work_mem / 3);
}

static RoseVersionSort *
sort_for(IndexBuild *build, RoseXidStatus status)
{
	if (status == ROSE_XID_COMMITTED)
	{
		if (build->sort == NULL)
			build->sort = begin_version_sort(build);
		build->nversions++;
		return build->sort;
	}
	if (build->own_sort == NULL)
		build->own_sort = begin_version_sort(build);
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

static bool
is_settled(const IndexBuild *build, const RoseWalkVersion *version)
{
	return version->status == ROSE_XID_COMMITTED &&
		FullTransactionIdPrecedes(version->version.xid, build->oldest);
}

/* The first version, oldest first, that some snapshot may see. */
static int
first_seen(const IndexBuild *build, const RoseWalkVersion *versions, int n)
{
	int			first = n - 1;

	while (first > 0 && !is_settled(build, &versions[first]))
		first--;
	return first;
}

/* The entry of a row that has no other version, and that everybody sees. */
static void
put_settled(IndexBuild *build, const RoseEntry *entry)
{
	const Datum *values[ROSE_ENTRY_COLUMNS];
	const bool *nulls[ROSE_ENTRY_COLUMNS];

	if (!entry->exists)
		return;
	for (int i = 0; i < build->shape->ncolumns; i++)
	{
		values[i] = entry->nulls[i] ? NULL : &entry->values[i];
		nulls[i] = NULL;
	}
	rose_column_sort_put(build->settled, values, nulls, 1);
	build->nsettled++;
}

static int
compare_entries(const void *a, const void *b, void *schema)
{
	Datum		x[INDEX_MAX_KEYS];
	Datum		y[INDEX_MAX_KEYS];

	rose_entry_key(schema, *(const RoseEntry *const *) a, x);
	rose_entry_key(schema, *(const RoseEntry *const *) b, y);
	return rose_key_compare(schema, x, y, ((const RoseSchema *) schema)->nkeys);
}

/* Each entry that any of the versions has, once: equal keys are of the same entry. */
static void
put_all_entries(IndexBuild *build, int n)
{
	const RoseEntry **entries = palloc(n * sizeof(RoseEntry *));
	RoseSchema *schema = build->index->schema;
	int			nentries = 0;

	for (int i = 0; i < n; i++)
		if (build->history[i].entry.exists)
			entries[nentries++] = &build->history[i].entry;
	qsort_arg(entries, nentries, sizeof(RoseEntry *), compare_entries, schema);
	for (int i = 0; i < nentries; i++)
		if (i == 0 || compare_entries(&entries[i - 1], &entries[i], schema) != 0)
			put_settled(build, entries[i]);
	pfree(entries);
}

/*
 * The same, or the newest one before it that a crash surely leaves.  Any between them may be what it leaves, as an
 * epoch may be on its way.
 */
static int
first_after_crash(const IndexBuild *build, const RoseWalkVersion *versions, int first)
{
	while (build->fed && first > 0 && !versions[first].spilled)
		first--;
	return first;
}

static void
replaced_context(void *arg)
{
	errcontext("computing the entry of a row that changes of the upstream have replaced or deleted, but not durably yet; that is not needed after rose.spill()");
}

/* The entry of a version that only a crash would bring back. */
static void
entry_of_replaced(const IndexBuild *build, const RoseWalkVersion *version, int64 rowid, RoseEntry *entry)
{
	ErrorContextCallback callback = {.previous = error_context_stack, .callback = replaced_context};

	error_context_stack = &callback;
	entry_of(build, version, rowid, entry);
	error_context_stack = callback.previous;
}

/* The versions of one key of the table, oldest first. */
static void
put_versions(IndexBuild *build, const RoseWalkVersion *versions, int n, int64 rowid)
{
	int			seen = first_seen(build, versions, n);
	int			first = first_after_crash(build, versions, seen);

	versions += first;
	n -= first;
	make_room_for_history(build, n);
	for (int i = 0; i < n; i++)
	{
		RoseEntryVersion *version = &build->history[i];

		version->own = versions[i].status != ROSE_XID_COMMITTED;
		version->seen = !version->own && is_seen(&versions[i]);
		if (first + i < seen)
			entry_of_replaced(build, &versions[i], rowid, &version->entry);
		else
			entry_of(build, &versions[i], rowid, &version->entry);
	}
	if (n == 1 && is_settled(build, &versions[0]))
		put_settled(build, &build->history[0].entry);
	else if (build->fed)
		put_all_entries(build, n);
	else
	{
		build->versions = versions;
		rose_entry_history_write(build->shape, build->index->schema, build->history, n,
								 write_entry, build);
	}
	build->nrows += build->history[n - 1].entry.exists;
	MemoryContextReset(build->computed);
}

/* A column of rows of a leaf's window; NULL if none of them has a value. */
static const Datum *
column_of_rows(const RoseWalkRows *rows, AttrNumber source, const bool **nulls)
{
	int			col = source == ROSE_ENTRY_ROWID ? ROSE_SYSCOL_ROWID : ROSE_SYSCOLS + source - 1;
	int			at = rows->from - rows->leaf->rows.window_first;
	int			n = rows->to - rows->from;
	const Datum *values = rose_leaf_window_column(rows->leaf, col, nulls) + at;

	*nulls += at;
	if (memchr(*nulls, true, n) == NULL)
		*nulls = NULL;
	else if (memchr(*nulls, false, n) == NULL)
		values = NULL;
	return values;
}

/* The entries of rows that everybody sees. */
static void
put_rows(IndexBuild *build, const RoseWalkRows *rows)
{
	const Datum *values[ROSE_ENTRY_COLUMNS];
	const bool *nulls[ROSE_ENTRY_COLUMNS];
	int			n = rows->to - rows->from;

	for (int i = 0; i < build->shape->ncolumns; i++)
	{
		values[i] = NULL;
		nulls[i] = NULL;
		if (!build->shape->columns[i].rank)
			values[i] = column_of_rows(rows, build->shape->columns[i].source, &nulls[i]);
	}
	rose_column_sort_put(build->settled, values, nulls, n);
	build->nsettled += n;
	build->nrows += n;
}

static void
collect(IndexBuild *build)
{
	RoseVersionWalk *walk = rose_version_walk_begin(build->table);
	bool		by_row_id = build->table->schema->nkeys == 0;
	uint64		reported = 0;

	rose_version_walk_expect_rows(walk, build->shape->last_source, build->oldest);
	for (;;)
	{
		const RoseWalkVersion *versions;
		RoseWalkRows rows;
		int			n;

		/* what is computed is computed row by row */
		if (!build->shape->evaluates && rose_version_walk_next_rows(walk, &rows))
			put_rows(build, &rows);
		else if ((versions = rose_version_walk_next(walk, &n)) != NULL)
			put_versions(build, versions, n,
						 by_row_id ? DatumGetInt64(rose_version_walk_key(walk)[0]) : 0);
		else
			break;
		if (build->nrows - reported >= PROGRESS_ROWS)
		{
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, build->nrows);
			reported = build->nrows;
		}
	}
	rose_version_walk_end(walk);
}

/* ---- out ---- */

uint64
rose_index_build_blocks(RoseTree *table)
{
	const RoseManifest *manifest = rose_tree_manifest(table);
	uint64		nblocks = rose_c0_bytes(&table->shared->c0) / BLCKSZ;

	for (int i = 0; i < manifest->ncomponents; i++)
		nblocks += manifest->components[i].nblocks;
	return nblocks;
}

/* Entries on their way to C2. */
typedef struct Output
{
	const IndexBuild *build;
	RoseSortedPieces *pieces;
	uint64		nwritten;
	uint64		reported;

	/* settled ones at hand */
	RoseRowBatch *rows;			/* NULL: none */
	int			at;
	Datum		seq[ROSE_COLUMN_SORT_ROWS];
	Datum		xid[ROSE_COLUMN_SORT_ROWS];
} Output;

static void
report_written(Output *output, int n)
{
	output->nwritten += n;
	if (output->nwritten - output->reported < PROGRESS_ROWS)
		return;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, output->nwritten);
	output->reported = output->nwritten;
}

/* Has it settled entries at hand? */
static bool
have_rows(Output *output)
{
	if (output->rows != NULL && output->at < output->rows->n)
		return true;
	output->rows = rose_column_sort_next(output->build->settled);
	output->at = 0;
	return output->rows != NULL;
}

/* The first of the settled entries at hand that comes behind a key; NULL: none does. */
static int
rows_before(const Output *output, const Datum *key)
{
	const RoseSchema *schema = output->build->index->schema;
	int			from = output->at;
	int			to = output->rows->n;

	while (key != NULL && from < to)
	{
		int			middle = (from + to) / 2;
		Datum		other[INDEX_MAX_KEYS];

		rose_row_batch_key(schema, output->rows, middle, other);
		if (rose_key_compare(schema, other, key, schema->nkeys) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return to;
}

/* Settled entries up to before this one of those at hand. */
static void
write_rows(Output *output, int end)
{
	const Datum *values[ROSE_ENTRY_COLUMNS];
	const bool *nulls[ROSE_ENTRY_COLUMNS];
	RoseRowBatch part = {.n = end - output->at};

	if (part.n == 0)
		return;
	for (int i = 0; i < output->build->shape->ncolumns; i++)
	{
		values[i] = output->rows->values[i];
		nulls[i] = output->rows->nulls[i];
		if (values[i] != NULL)
			values[i] += output->at;
		if (nulls[i] != NULL)
			nulls[i] += output->at;
	}
	part.values = values;
	part.nulls = nulls;
	part.seq = output->seq;
	part.xid = output->xid;
	rose_sorted_pieces_next_key(output->pieces);
	rose_sorted_pieces_add_batch(output->pieces, &part);
	output->at = end;
	report_written(output, part.n);
}

/* All settled entries that come before a key; NULL: all. */
static void
write_settled(Output *output, const Datum *key)
{
	while (have_rows(output))
	{
		write_rows(output, rows_before(output, key));
		if (output->at < output->rows->n)
			return;
	}
}

/* The others, and settled ones between them. */
static void
write_versions(Output *output)
{
	const IndexBuild *build = output->build;
	const RoseSchema *schema = build->index->schema;
	RoseKeyBuffer last;
	TupleTableSlot *slot;
	RoseVersion version;

	rose_key_buffer_init(&last, CurrentMemoryContext);
	rose_version_sort_perform(build->sort);
	while ((slot = rose_version_sort_next(build->sort, &version)) != NULL)
	{
		Datum		key[INDEX_MAX_KEYS];

		rose_key_from_values(schema, slot->tts_values, 0, key);
		if (!last.valid || rose_key_compare(schema, last.key, key, schema->nkeys) != 0)
		{
			write_settled(output, key);
			rose_sorted_pieces_next_key(output->pieces);
			rose_key_buffer_set(&last, schema, key);
		}
		rose_sorted_pieces_add(output->pieces, &version, slot->tts_values, slot->tts_isnull);
		report_written(output, 1);
	}
}

/*
 * Settled entries need no number of their own, and no writer: nobody can have met them
 * before, and all see them ("Forgotten versions" in lsm/merge/README.md).
 */
static void
write_pieces(IndexBuild *build, uint64 next_seq)
{
	Output	   *output = palloc0(sizeof(Output));
	uint64		xid = U64FromFullTransactionId(build->oldest) - 1;

	output->build = build;
	output->pieces = rose_sorted_pieces_begin(build->index, build->nsettled + build->nversions,
											  rose_index_build_blocks(build->table), next_seq, 0);
	for (int i = 0; i < ROSE_COLUMN_SORT_ROWS; i++)
	{
		output->seq[i] = Int64GetDatum((int64) ROSE_SEQ_OLDEST);
		output->xid[i] = Int64GetDatum((int64) xid);
	}
	report_phase(PROGRESS_BTREE_PHASE_PERFORMSORT_1, build->nsettled + build->nversions);
	rose_column_sort_perform(build->settled);
	report_phase(PROGRESS_BTREE_PHASE_LEAF_LOAD, build->nsettled + build->nversions);
	if (build->sort != NULL)
		write_versions(output);
	write_settled(output, NULL);
	rose_sorted_pieces_finish(output->pieces);
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

static void
check_settled(const Datum *values, const bool *nulls, void *arg)
{
	RoseTree   *index = arg;
	RoseEntry	entry;

	entry.exists = true;
	memcpy(entry.values, values, index->schema->natts * sizeof(Datum));
	memcpy(entry.nulls, nulls, index->schema->natts * sizeof(bool));
	rose_entries_check_fits(index, &entry);
}

uint64
rose_index_build(RoseTree *table, RoseTree *index, const RoseEntryShape *shape)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose index build",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	IndexBuild	build = {.table = table, .index = index, .shape = shape};
	uint64		next_seq;

	build.fed = OidIsValid(rose_tree_written_by(table->shared));
	build.computed = AllocSetContextCreate(context, "rose index build row", ALLOCSET_SMALL_SIZES);
	build.oldest = FullTransactionIdFromU64(rose_horizon_ended(table->rel));
	build.settled = rose_column_sort_begin(index->schema, memory_of_build(), check_settled, index);
	report_phase(PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN, rows_of_table(table));
	collect(&build);
	next_seq = rose_c0_next_sequence(&table->shared->c0);
	write_pieces(&build, next_seq);
	rose_column_sort_end(build.settled);
	if (build.sort != NULL)
		rose_version_sort_end(build.sort);
	if (build.own_sort != NULL)
	{
		write_own_run(&build, next_seq);
		rose_version_sort_end(build.own_sort);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return build.nrows;
}
