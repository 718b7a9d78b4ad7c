/*-------------------------------------------------------------------------
 *
 * rose_recover_runs.c
 *	  A tail log that does not fit memory, into runs.
 *
 * Other tables may hold the arena, or it is smaller than before the restart.  Then the
 * tail log does not go to C0: its versions are sorted by (key, sequence descending) with
 * work memory and temporary files, those that have committed are written to a run, and
 * those of prepared transactions, with their row locks, to a private one.  One switch of
 * the manifest publishes both and drops the tail log, as a spill does.  So there is
 * always a way to recover a table, an error or a crash leaves the tail log as it was, and
 * nothing is in C0 afterwards.
 *
 * It cannot be done memtable by memtable: what a spill has carried over stands in the
 * tail log behind newer versions of its key.  Of one sort this is no matter.
 *
 * The runs have the columns that the catalog had before the running transaction, which
 * may be an ALTER TABLE: so short rows get what columns have that were added after them.
 *
 * No flush of WAL comes before the switch: what has committed was read back from WAL, or
 * is a prepared transaction, whose commit does not return before it is flushed.
 *
 * Locking: none but ROSE_LOCK_RECOVER while reading, sorting and writing, all of which
 * can be interrupted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_settled.h"
#include "store/rose_store.h"
#include "store/rose_tail.h"
#include "store/rose_tail_replay.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_file_rows.h"
#include "lsm/tree/rose_recover_internal.h"

/* The runs, by rank in the sort. */
typedef enum TailRun
{
	RUN_COMMITTED,
	RUN_OPEN,
	RUN_COUNT
} TailRun;

/* Columns of the sorter's rows: run, key columns, sequence, and the rest of the version in one. */
#define SORT_RUN			0
#define SORT_KEY			1
#define sort_seq(schema)	(SORT_KEY + rose_schema_key_width(schema))
#define sort_rest(schema)	(sort_seq(schema) + 1)
#define sort_width(schema)	(sort_rest(schema) + 1)
#define SORT_MAX_WIDTH		(INDEX_MAX_KEYS + 3)

/* What a version has beside its key and its sequence; the bitmap of columns and the row follow. */
typedef struct VersionRest
{
	FullTransactionId xid;
	int64		rowid;
	uint64		moved_to;
	TransactionId subxid;
	CommandId	cid;
	uint32		present_bytes;
	uint32		row_bytes;
	uint8		op;
	uint8		lockmode;
} VersionRest;

typedef struct TailRuns
{
	RoseTree   *tree;
	const RoseMetaInfo *meta;
	RoseSchema *schema;			/* by which runs are built */
	RoseSchema	reading;		/* the same key, and the descriptor of the rows at hand */
	RoseTailFates fates;
	Tuplesortstate *sort;
	TupleTableSlot *in;
	TupleTableSlot *out;
	uint64		nversions[RUN_COUNT];
	uint64		max_seq;
	RoseComponentBuilder *builder[RUN_COUNT];
	MemoryContext context;
	MemoryContext row_context;	/* reset for each version */
} TailRuns;

/* ---- the sort ---- */

static TupleDesc
make_descriptor(const RoseSchema *schema)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(sort_width(schema));

	TupleDescInitEntry(tupdesc, SORT_RUN + 1, "run", INT4OID, -1, 0);
	if (schema->nkeys == 0)
		TupleDescInitEntry(tupdesc, SORT_KEY + 1, "rowid", INT8OID, -1, 0);
	for (int i = 0; i < schema->nkeys; i++)
		TupleDescCopyEntry(tupdesc, SORT_KEY + i + 1, schema->tupdesc, schema->keys[i].def.attno);
	TupleDescInitEntry(tupdesc, sort_seq(schema) + 1, "seq", INT8OID, -1, 0);
	TupleDescInitEntry(tupdesc, sort_rest(schema) + 1, "rest", BYTEAOID, -1, 0);
	return tupdesc;
}

static void
begin_sort(TailRuns *runs)
{
	const RoseSchema *schema = runs->schema;
	int			width = sort_rest(schema);	/* nobody sorts by the rest */
	TupleDesc	tupdesc = make_descriptor(schema);
	AttrNumber	attnos[SORT_MAX_WIDTH];
	Oid			operators[SORT_MAX_WIDTH];
	Oid			collations[SORT_MAX_WIDTH] = {0};
	bool		nulls_first[SORT_MAX_WIDTH] = {0};

	for (int i = 0; i < width; i++)
		attnos[i] = i + 1;
	operators[SORT_RUN] = Int4LessOperator;
	operators[SORT_KEY] = Int8LessOperator; /* if it is a row id */
	for (int i = 0; i < schema->nkeys; i++)
	{
		const RoseKeyColumnDisk *def = &schema->keys[i].def;

		operators[SORT_KEY + i] = rose_key_sort_operator(def);
		collations[SORT_KEY + i] = def->collation;
	}
	operators[sort_seq(schema)] = rose_key_operator(INTEGER_BTREE_FAM_OID, INT8OID,
													BTGreaterStrategyNumber);
	runs->in = MakeSingleTupleTableSlot(tupdesc, &TTSOpsVirtual);
	runs->out = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
	runs->sort = tuplesort_begin_heap(tupdesc, width, attnos, operators, collations, nulls_first,
									  maintenance_work_mem, NULL, TUPLESORT_NONE);
}

/* ---- in ---- */

/* RoseTailLayoutCallback; see rose_recover_c0.c. */
static void
take_layout(void *arg, const RoseLayout *layout)
{
	TailRuns   *runs = arg;

	rose_recover_record_check_layout(runs->tree->rel, runs->meta, layout);
	runs->reading.tupdesc = rose_layout_tupdesc(layout);
	runs->reading.natts = layout->natts;
}

static bytea *
pack_rest(const TailRuns *runs, const RoseTailRecord *record)
{
	const RoseVersion *version = &record->version;
	VersionRest rest = {0};
	bytea	   *result;
	char	   *to;

	rest.xid = version->xid;
	rest.rowid = version->rowid;
	rest.moved_to = version->moved_to;
	rest.subxid = version->subxid;
	rest.cid = version->cid;
	rest.op = version->op;
	rest.lockmode = version->lockmode;
	rest.present_bytes = version->present ? ROSE_PRESENT_BYTES(runs->reading.natts) : 0;
	rest.row_bytes = record->row ? record->row->t_len : 0;
	result = palloc(VARHDRSZ + sizeof(rest) + rest.present_bytes + rest.row_bytes);
	SET_VARSIZE(result, VARHDRSZ + sizeof(rest) + rest.present_bytes + rest.row_bytes);
	to = VARDATA(result);
	memcpy(to, &rest, sizeof(rest));
	if (version->present)
		memcpy(to + sizeof(rest), version->present, rest.present_bytes);
	if (record->row)
		memcpy(to + sizeof(rest) + rest.present_bytes, record->row, rest.row_bytes);
	return result;
}

static void
put_record(TailRuns *runs, TailRun run, const RoseTailRecord *record)
{
	const RoseSchema *schema = runs->schema;
	TupleTableSlot *slot = runs->in;
	MemoryContext old;

	MemoryContextReset(runs->row_context);
	old = MemoryContextSwitchTo(runs->row_context);
	ExecClearTuple(slot);
	memset(slot->tts_isnull, 0, sort_width(schema) * sizeof(bool));
	slot->tts_values[SORT_RUN] = Int32GetDatum(run);
	rose_key_from_tuple(&runs->reading, record->row, record->version.rowid,
						&slot->tts_values[SORT_KEY]);
	for (int i = 0; i < schema->nkeys; i++)
		slot->tts_isnull[SORT_KEY + i] = rose_key_is_null(schema, &slot->tts_values[SORT_KEY], i);
	slot->tts_values[sort_seq(schema)] = Int64GetDatum((int64) record->version.seq);
	slot->tts_values[sort_rest(schema)] = PointerGetDatum(pack_rest(runs, record));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(runs->sort, slot);
	runs->nversions[run]++;
	MemoryContextSwitchTo(old);
}

static void
read_tail(TailRuns *runs)
{
	Relation	rel = runs->tree->rel;
	RoseTailReader *reader = rose_tail_reader_create(rel, runs->reading.natts, take_layout, runs,
													 runs->context);
	RoseTailRecord record;

	while (rose_tail_reader_next(reader, &record))
	{
		RoseTailFate fate = rose_recover_record_fate(&runs->fates, &record.version);

		CHECK_FOR_INTERRUPTS();
		runs->max_seq = Max(runs->max_seq, record.version.seq);
		if (!rose_recover_record_is_needed(fate, &record.version))
			continue;
		rose_recover_record_check_key(rel, runs->meta, &record);
		put_record(runs, fate == ROSE_TAIL_OPEN ? RUN_OPEN : RUN_COMMITTED, &record);
	}
	rose_tail_reader_free(reader);
	tuplesort_performsort(runs->sort);
}

/* ---- out ---- */

/* A bitmap as wide as the table is now. */
static const bits8 *
widen_present(const RoseSchema *schema, const char *from, Size nbytes)
{
	bits8	   *present = palloc0(Max(nbytes, (Size) ROSE_PRESENT_BYTES(schema->natts)));

	memcpy(present, from, nbytes);
	return present;
}

/* What was packed, with the key and sequence that stand beside it in the slot. */
static void
unpack_row(const TailRuns *runs, RoseRow *row)
{
	const RoseSchema *schema = runs->schema;
	Datum	   *values = runs->out->tts_values;
	bytea	   *packed = DatumGetByteaPP(values[sort_rest(schema)]);
	const char *from = VARDATA_ANY(packed);
	VersionRest rest;

	memset(row, 0, sizeof(*row));
	memcpy(&rest, from, sizeof(rest));
	row->version.seq = (uint64) DatumGetInt64(values[sort_seq(schema)]);
	row->version.xid = rest.xid;
	row->version.rowid = rest.rowid;
	row->version.moved_to = rest.moved_to;
	row->version.subxid = rest.subxid;
	row->version.cid = rest.cid;
	row->version.op = rest.op;
	row->version.lockmode = rest.lockmode;
	from += sizeof(rest);
	if (rest.present_bytes > 0)
		row->version.present = widen_present(schema, from, rest.present_bytes);
	from += rest.present_bytes;
	if (rest.row_bytes > 0)
	{
		row->tuple = palloc(rest.row_bytes);	/* aligned */
		memcpy(row->tuple, from, rest.row_bytes);
	}
	row->key = &values[SORT_KEY];
}

static RoseComponentBuilder *
find_builder(TailRuns *runs, TailRun run)
{
	if (runs->builder[run] == NULL)
		runs->builder[run] =
			rose_component_builder_create(runs->tree->rel, &runs->tree->shared->store,
										  runs->schema, runs->nversions[run],
										  run == RUN_OPEN ? ROSE_BUILD_PRIVATE : ROSE_BUILD_RUN,
										  runs->context);
	return runs->builder[run];
}

static void
write_runs(TailRuns *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->row_context);

	for (;;)
	{
		TailRun		run;
		RoseRow		row;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(runs->row_context);
		if (!tuplesort_gettupleslot(runs->sort, true, false, runs->out, NULL))
			break;
		slot_getallattrs(runs->out);
		run = (TailRun) DatumGetInt32(runs->out->tts_values[SORT_RUN]);
		unpack_row(runs, &row);
		if (run == RUN_COMMITTED)
		{
			row.version.subxid = InvalidTransactionId;
			row.version.cid = 0;
		}
		rose_component_builder_add(find_builder(runs, run), &row);
	}
	MemoryContextSwitchTo(old);
}

/* The run of prepared transactions first: nobody has written newer versions of their keys. */
static void
finish_runs(TailRuns *runs, RoseManifestEdit *edit)
{
	for (int run = RUN_COUNT - 1; run >= 0; run--)
	{
		RoseComponentEntryDisk built;
		RoseComponentEntryDisk *entry;

		if (runs->builder[run] == NULL)
			continue;
		rose_component_builder_finish(runs->builder[run], &built);
		entry = rose_edit_add(edit, &built);
		entry->level = 0;
		entry->state = ROSE_COMPONENT_LIVE;
		rose_merge_stats_came(&runs->tree->shared->merge_stats, entry);
	}
}

static void
publish(TailRuns *runs, uint64 next_seq)
{
	RoseTree   *tree = runs->tree;
	RoseStoreShared *store = &tree->shared->store;
	RoseManifestEdit *edit = MemoryContextAllocZero(runs->context, sizeof(RoseManifestEdit));

	finish_runs(runs, edit);
	edit->drop_tails_upto = rose_tail_close_segment(store);
	edit->next_seq = Max(next_seq, runs->max_seq + 1);
	ROSE_STOP_POINT("recover-sorted");	/* no LWLock */
	rose_manifest_apply(tree->rel, store, edit);
	rose_recover_feeding(tree->shared, runs->meta);
	rose_c0_raise_sequence(&tree->shared->c0, edit->next_seq);
	rose_settled_all(tree->rel, store);
	for (int run = 0; run < RUN_COUNT; run++)
		if (runs->builder[run] != NULL)
			rose_component_builder_free(runs->builder[run]);
}

static void
begin(TailRuns *runs, RoseTree *tree, const RoseSchema *schema, const RoseMetaInfo *meta)
{
	TupleDesc	tupdesc = rose_altered_descriptor_before(tree->rel);

	runs->tree = tree;
	runs->meta = meta;
	runs->context = CurrentMemoryContext;
	runs->row_context = AllocSetContextCreate(runs->context, "rose recovery row",
											  ALLOCSET_DEFAULT_SIZES);
	runs->schema = rose_file_schema(tree->rel, tupdesc, meta, runs->context);
	rose_schema_assign(&runs->reading, schema);
	begin_sort(runs);
}

bool
rose_recover_runs(RoseTree *tree, const RoseSchema *schema, const RoseMetaInfo *meta,
				  uint64 next_seq)
{
	MemoryContext context;
	MemoryContext old;
	RoseManifest *manifest;
	TailRuns	runs = {0};
	bool		room;

	context = AllocSetContextCreate(CurrentMemoryContext, "rose recovery of runs",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	manifest = palloc(sizeof(RoseManifest));
	rose_manifest_read(tree->rel, manifest);
	room = manifest->ncomponents + RUN_COUNT <= ROSE_MAX_COMPONENTS;
	if (room)
	{
		begin(&runs, tree, schema, meta);
		read_tail(&runs);
		write_runs(&runs);
		publish(&runs, next_seq);
		tuplesort_end(runs.sort);
		ExecDropSingleTupleTableSlot(runs.in);
		ExecDropSingleTupleTableSlot(runs.out);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return room;
}
