/*-------------------------------------------------------------------------
 *
 * rose_bulkload.c
 *	  Bulk load: rows in the order of their keys become one private run.
 *
 * Rows are sorted here, unless the caller has done that: to sort many rows twice costs as much
 * as to write them.
 *
 * The run is published at once, marked with the transaction that owns it: only that
 * transaction sees it until it commits, and nobody if it aborts.  Rows get sequence
 * numbers in their order (which cost next to nothing in a component); that is also the
 * row id of those without a key.
 *
 * Locking: sequence numbers are taken from C0, many at a time.  The caller has the
 * table to itself, or knows that no other row has these keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "store/rose_manifest.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/write/rose_bulkload.h"
#include "lsm/write/rose_new_run.h"
#include "lsm/write/rose_new_version.h"

#define NUMBER_CHUNK 4096		/* taken from the counter at a time if it is not known how many rows come */

struct RoseBulkLoad
{
	RoseTree   *tree;
	MemoryContext context;
	MemoryContext row_context;
	int			level;
	Oid			subid;
	uint64		epoch;
	RoseVersion stamp;			/* of every row */
	Tuplesortstate *sort;		/* NULL: rows come in order */
	TupleTableSlot *slot;
	RoseComponentBuilder *builder;
	uint64		nrows;
	uint64		number_next,	/* sequence numbers taken for it */
				number_end;

	/* of rows that are put together */
	int			capacity;		/* of each array */
	Datum	   *seqs;
	Datum	   *xids;
	Datum	   *subxids;
	Datum	   *cids;
};

static Tuplesortstate *
begin_sort(const RoseSchema *schema, int memory_kb)
{
	AttrNumber	attnos[INDEX_MAX_KEYS];
	Oid			operators[INDEX_MAX_KEYS];
	Oid			collations[INDEX_MAX_KEYS];
	bool		nulls_first[INDEX_MAX_KEYS];

	for (int i = 0; i < schema->nkeys; i++)
	{
		const RoseKeyColumnDisk *def = &schema->keys[i].def;

		attnos[i] = def->attno;
		operators[i] = rose_key_sort_operator(def);
		collations[i] = def->collation;
		nulls_first[i] = false;
	}
	return tuplesort_begin_heap(schema->tupdesc, schema->nkeys, attnos, operators,
								collations, nulls_first, memory_kb, NULL,
								TUPLESORT_NONE);
}

RoseBulkLoad *
rose_bulkload_begin(RoseTree *tree, CommandId cid, bool sorted, int level,
					Oid subid, uint64 epoch, int memory_kb)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose bulk load",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseBulkLoad *load = palloc0(sizeof(RoseBulkLoad));

	load->tree = tree;
	load->context = context;
	load->row_context = AllocSetContextCreate(context, "rose bulk load row",
											  ALLOCSET_DEFAULT_SIZES);
	load->level = level;
	load->subid = subid;
	load->epoch = epoch;
	rose_new_version_stamp(&load->stamp, ROSE_OP_PUT, cid);
	load->slot = MakeSingleTupleTableSlot(tree->schema->tupdesc, &TTSOpsMinimalTuple);
	if (tree->schema->nkeys > 0 && !sorted)
		load->sort = begin_sort(tree->schema, memory_kb);
	MemoryContextSwitchTo(old);
	return load;
}

static void
ensure_builder(RoseBulkLoad *load, uint64 expected_rows)
{
	if (load->builder == NULL)
		load->builder = rose_component_builder_create(load->tree->rel,
													  &load->tree->shared->store,
													  load->tree->schema, expected_rows,
													  ROSE_BUILD_PRIVATE, load->context);
}

static void
add_row(RoseBulkLoad *load, MinimalTuple tuple, const Datum *key, uint64 seq)
{
	RoseRow		row = {0};

	row.version = load->stamp;
	row.version.seq = seq;
	row.tuple = tuple;
	row.key = key;
	if (load->tree->schema->nkeys == 0)
		row.version.rowid = (int64) seq;
	rose_component_builder_add(load->builder, &row);
}

/* The next sequence number; chunk: so many rows may come. */
static uint64
next_number(RoseBulkLoad *load, uint64 chunk)
{
	if (load->number_next == load->number_end)
	{
		load->number_next = rose_c0_take_sequence(&load->tree->shared->c0, chunk);
		load->number_end = load->number_next + chunk;
	}
	return load->number_next++;
}

void
rose_bulkload_put(RoseBulkLoad *load, const Datum *values, const bool *nulls)
{
	MemoryContext old;
	MinimalTuple row;
	uint64		seq;
	Datum		key[INDEX_MAX_KEYS];

	MemoryContextReset(load->row_context);
	old = MemoryContextSwitchTo(load->row_context);
	row = rose_new_version_form_row(load->tree, values, nulls, key);
	load->nrows++;
	if (load->sort)
	{
		ExecStoreMinimalTuple(row, load->slot, false);
		tuplesort_puttupleslot(load->sort, load->slot);
		ExecClearTuple(load->slot);
	}
	else
	{
		/* without a key they come in the order of their ids; the filter is sized as it grows */
		MemoryContextSwitchTo(load->context);
		ensure_builder(load, 0);
		MemoryContextSwitchTo(load->row_context);
		seq = next_number(load, NUMBER_CHUNK);
		if (load->tree->schema->nkeys == 0)
			key[0] = Int64GetDatum((int64) seq);
		add_row(load, row, key, seq);
	}
	MemoryContextSwitchTo(old);
}

/* Room for the stamps of n rows, of which all but the numbers are the same for all. */
static void
make_stamps(RoseBulkLoad *load, int n)
{
	if (n <= load->capacity)
		return;
	load->capacity = n;
	load->seqs = palloc(n * sizeof(Datum));
	load->xids = palloc(n * sizeof(Datum));
	load->subxids = palloc(n * sizeof(Datum));
	load->cids = palloc(n * sizeof(Datum));
	for (int i = 0; i < n; i++)
	{
		load->xids[i] = Int64GetDatum((int64) U64FromFullTransactionId(load->stamp.xid));
		load->subxids[i] = Int32GetDatum((int32) load->stamp.subxid);
		load->cids[i] = Int32GetDatum((int32) load->stamp.cid);
	}
}

void
rose_bulkload_put_rows(RoseBulkLoad *load, RoseRowBatch *rows)
{
	MemoryContext old = MemoryContextSwitchTo(load->context);

	Assert(load->sort == NULL && load->tree->schema->nkeys > 0);
	ensure_builder(load, 0);
	make_stamps(load, rows->n);
	for (int i = 0; i < rows->n; i++)
		load->seqs[i] = Int64GetDatum((int64) next_number(load, NUMBER_CHUNK));
	rows->seq = load->seqs;
	rows->xid = load->xids;
	rows->subxid = TransactionIdIsValid(load->stamp.subxid) ? load->subxids : NULL;
	rows->cid = load->cids;
	rose_component_builder_add_batch(load->builder, rows);
	load->nrows += rows->n;
	MemoryContextSwitchTo(old);
}

/* Read the sorted rows back and build the run. */
static void
build_sorted(RoseBulkLoad *load)
{
	const RoseSchema *schema = load->tree->schema;
	Datum		last[INDEX_MAX_KEYS];
	MemoryContext key_contexts[2];
	int			turn = 0;
	bool		first = true;

	for (int i = 0; i < 2; i++)
		key_contexts[i] = AllocSetContextCreate(load->context, "rose bulk load key",
												ALLOCSET_SMALL_SIZES);
	tuplesort_performsort(load->sort);
	while (tuplesort_gettupleslot(load->sort, true, false, load->slot, NULL))
	{
		Datum		key[INDEX_MAX_KEYS];
		bool		should_free;
		MinimalTuple tuple = ExecFetchSlotMinimalTuple(load->slot, &should_free);

		CHECK_FOR_INTERRUPTS();
		rose_key_from_tuple(schema, tuple, 0, key);
		if (!first && rose_key_compare(schema, last, key, schema->nkeys) == 0)
			rose_duplicate_key_report_load(load->tree->rel);
		add_row(load, tuple, key, next_number(load, load->nrows));
		if (should_free)
			pfree(tuple);

		turn = 1 - turn;
		MemoryContextReset(key_contexts[turn]);
		rose_key_copy(schema, last, key, key_contexts[turn]);
		first = false;
	}
}

static void
publish(RoseBulkLoad *load)
{
	RoseNewRun	run;

	rose_new_run_finish(&run, load->tree, load->builder, load->number_end);
	/* beside others on level 2 it would have to be in its place among them */
	if (rose_tree_manifest(load->tree)->ncomponents == 0)
		run.entry->level = load->level;
	if (OidIsValid(load->subid))
	{
		run.entry->state = ROSE_COMPONENT_PENDING;
		run.entry->flags |= ROSE_COMPONENT_READ_PENDING;
		run.entry->subid = load->subid;
		run.entry->epoch = load->epoch;
	}
	rose_new_run_publish(&run);
	rose_new_run_note(&run);
	rose_component_builder_free(load->builder);
}

uint64
rose_bulkload_finish(RoseBulkLoad *load)
{
	MemoryContext old = MemoryContextSwitchTo(load->context);
	uint64		nrows = load->nrows;

	if (nrows > 0)
	{
		ensure_builder(load, nrows);
		if (load->sort)
			build_sorted(load);
		publish(load);
	}
	if (load->sort)
		tuplesort_end(load->sort);
	ExecDropSingleTupleTableSlot(load->slot);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(load->context);
	return nrows;
}
