/*-------------------------------------------------------------------------
 *
 * rose_rekey_columns.c
 *	  Rows of a table on their way to a file with another key, as columns.  See rose_rekey_columns.h.
 *
 * Rows are read many at a time (lsm/read/rose_batch.h), sorted by the new key as columns
 * (lsm/merge/rose_column_sort.h), and written as columns.  To take each of them apart, put it together for a
 * sort of tuples, and once more for the run, costs several times as much.
 *
 * Values are taken as they are stored: they are in no other form than one that can be stored again.  But a row with long
 * values may fit by its old key and not by its new one, so those are asked.
 *
 * Locking: that of rose_rekey.c, which has the table to itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/merge/rose_column_sort.h"
#include "lsm/read/rose_batch.h"
#include "lsm/write/rose_bulkload.h"
#include "tableam/rose_rekey_columns.h"
#include "tableam/rose_tableam.h"

/* Rows that are taken over together. */
#define CHUNK_ROWS		ROSE_COLUMN_SORT_ROWS

/* The sort has only rows with a long value checked.  Keys of so many columns without one fit. */
#define MAX_KEYS		8

struct RoseRekeyColumns
{
	MemoryContext context;
	RoseSchema *schema;			/* of the new file */
	RoseColumnSort *sort;
	Bitmapset  *attnos;			/* all that there are */
	Datum	   *values;			/* [natts][CHUNK_ROWS] */
	bool	   *nulls;
	const Datum **value_columns;	/* [natts] */
	const bool **null_columns;
};

void
rose_rekey_columns_report_null(Relation rel, AttrNumber attno)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("column \"%s\" of relation \"%s\" contains null values",
					NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname),
					RelationGetRelationName(rel)),
			 errtablecol(rel, attno)));
}

static void
check_fits(const Datum *values, const bool *nulls, void *arg)
{
	rose_component_check_row_fits(arg, values, nulls);
}

RoseRekeyColumns *
rose_rekey_columns_begin(Relation rel, int nkeys, const RoseKeyColumnDisk *keys)
{
	MemoryContext context;
	MemoryContext old;
	RoseRekeyColumns *columns;
	int			natts = RelationGetNumberOfAttributes(rel);

	if (nkeys == 0 || nkeys > MAX_KEYS || natts > ROSE_BATCH_MAX_COLUMNS ||
		!rose_scan_same_layout(RelationGetDescr(rel), rose_tree_open(rel)->schema->tupdesc))
		return NULL;
	context = AllocSetContextCreate(CurrentMemoryContext, "rose rekey columns", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	columns = palloc0(sizeof(RoseRekeyColumns));
	columns->context = context;
	columns->schema = rose_schema_create(RelationGetDescr(rel), nkeys, keys, ROSE_HASH_WHAT_CAN_BE, context);
	columns->sort = rose_column_sort_begin(columns->schema, (Size) maintenance_work_mem * 1024, check_fits,
										   columns->schema);
	columns->attnos = bms_add_range(NULL, 1, natts);
	columns->values = palloc((Size) natts * CHUNK_ROWS * sizeof(Datum));
	columns->nulls = palloc((Size) natts * CHUNK_ROWS * sizeof(bool));
	columns->value_columns = palloc(natts * sizeof(Datum *));
	columns->null_columns = palloc(natts * sizeof(bool *));
	MemoryContextSwitchTo(old);
	return columns;
}

void
rose_rekey_columns_end(RoseRekeyColumns *columns)
{
	rose_column_sort_end(columns->sort);
	MemoryContextDelete(columns->context);
}

/* ---- out of the old file ---- */

static void
put_rows(RoseRekeyColumns *columns, Relation rel, RoseBatch *batch, int first, int n)
{
	const RoseSchema *schema = columns->schema;

	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		int			a = attno - 1;
		Datum	   *values = columns->values + (Size) a * CHUNK_ROWS;
		bool	   *nulls = columns->nulls + (Size) a * CHUNK_ROWS;

		columns->value_columns[a] = NULL;
		columns->null_columns[a] = NULL;
		if (schema->tuple_columns[a].dropped)
			continue;
		columns->value_columns[a] = values;
		if (!rose_batch_datums(batch, attno, first, n, values, nulls))
			continue;
		if (rose_schema_is_key_column(schema, attno))
			rose_rekey_columns_report_null(rel, attno);
		columns->null_columns[a] = nulls;
	}
	rose_column_sort_put(columns->sort, columns->value_columns, columns->null_columns, n);
}

void
rose_rekey_columns_collect(RoseRekeyColumns *columns, Relation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	RoseBatchRequest request = {.columns = columns->attnos, .ordered = true, .bulk = true};
	RoseBatches *batches = rose_batches_begin(rose_tree_open(rel), snapshot, &request);
	RoseBatch	batch;

	while (rose_batches_next(batches, &batch))
	{
		Assert(batch.include == NULL);
		for (int first = 0; first < batch.nrows; first += CHUNK_ROWS)
		{
			CHECK_FOR_INTERRUPTS();
			put_rows(columns, rel, &batch, first, Min(CHUNK_ROWS, batch.nrows - first));
		}
	}
	rose_batches_end(batches);
	UnregisterSnapshot(snapshot);
	rose_column_sort_perform(columns->sort);
}

/* ---- into the new one ---- */

static void
report_twice(const RoseSchema *schema, Relation rel, Relation index, const RoseRowBatch *rows, int i)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);

	for (int a = 0; a < schema->natts; a++)
	{
		slot->tts_isnull[a] = rows->values[a] == NULL || (rows->nulls[a] != NULL && rows->nulls[a][i]);
		slot->tts_values[a] = slot->tts_isnull[a] ? (Datum) 0 : rows->values[a][i];
	}
	ExecStoreVirtualTuple(slot);
	rose_duplicate_key_report_build(rel, index, slot);
}

/* last: the key of the row before these. */
static void
check_distinct(const RoseSchema *schema, Relation rel, Relation index, const RoseRowBatch *rows,
			   RoseKeyBuffer *last)
{
	Datum		keys[2][INDEX_MAX_KEYS];
	const Datum *before = last->valid ? last->key : NULL;

	for (int i = 0; i < rows->n; i++)
	{
		Datum	   *key = keys[i % 2];

		rose_row_batch_key(schema, rows, i, key);
		if (before != NULL && rose_key_compare(schema, before, key, schema->nkeys) == 0)
			report_twice(schema, rel, index, rows, i);
		before = key;
	}
	rose_key_buffer_set(last, schema, before);
}

uint64
rose_rekey_columns_load(RoseRekeyColumns *columns, Relation rel, Relation index)
{
	RoseBulkLoad *load = rose_bulkload_begin(rose_tree_open(rel), GetCurrentCommandId(true), true, 0,
											 InvalidOid, 0, maintenance_work_mem);
	RoseKeyBuffer last;
	RoseRowBatch *rows;

	rose_key_buffer_init(&last, columns->context);
	while ((rows = rose_column_sort_next(columns->sort)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		check_distinct(columns->schema, rel, index, rows, &last);
		rose_bulkload_put_rows(load, rows);
	}
	return rose_bulkload_finish(load);
}
