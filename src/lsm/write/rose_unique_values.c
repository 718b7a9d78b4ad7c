/*-------------------------------------------------------------------------
 *
 * rose_unique_values.c
 *	  Values of unique indexes that a row is to have.  See rose_unique_values.h.
 *
 * Of one value at most one row is live, counting what is committed and what is in
 * progress.  The value's state is read from the index alone: its entries with that value,
 * newest versions first; one that a transaction in progress has put or taken out is BUSY,
 * one that is there LIVE.
 *
 * Why no two rows get the same value.  Whoever links an entry of it holds the value's
 * partition from the look to the link.  So of two, one links first, and the other one,
 * who looks later, finds that entry: what was linked is in a source that a reader has at
 * any time.  It is committed or in progress, and the other one reports, or lets go of all
 * locks, waits, and looks again.  Or a tombstone is above it: of another one in progress,
 * then he waits; committed, then the first row has left the value and would have to
 * look for it again; or the other one's own, then whatever rolls that back rolls back what
 * is written after it.  Equal values have equal hashes, and so one partition.
 *
 * That a row leaves a value may be seen a moment late: between its row and its tombstone.
 * Then the value counts as taken, as it would if the look had come before the change.
 *
 * Locking: rose_partition.h, before C0's sections.  Nobody waits for a transaction or for
 * room while it holds one.
 *
 * Not here: which values a change of a row is about (rose_entries.c), and who raises the
 * error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_index.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat/rose_compat.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/read/rose_scan.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_unique_values.h"

/* Partitions beside those of the values: of the row that is changed, and of the key that it gets. */
#define OTHER_PARTITIONS	2

/* ---- lists ---- */

RoseUniqueValues *
rose_unique_values_create(RoseTree *table, int max)
{
	RoseUniqueValues *values = palloc0(sizeof(RoseUniqueValues));

	values->table = table;
	values->values = palloc((max + 1) * sizeof(RoseUniqueValue));
	values->partitions = palloc((max + 1 + OTHER_PARTITIONS) * sizeof(int));
	return values;
}

RoseUniqueValue *
rose_unique_values_add(RoseUniqueValues *values, RoseTree *tree, const RoseIndexTree *index)
{
	RoseUniqueValue *value = &values->values[values->nvalues++];

	memset(value, 0, sizeof(*value));
	value->tree = tree;
	value->index = index;
	value->indexid = index != NULL ? index->indexid : rose_primary_key_index(tree->rel);
	return value;
}

void
rose_unique_values_add_key(RoseUniqueValues *values, const Datum *key)
{
	RoseUniqueValue *value = rose_unique_values_add(values, values->table, NULL);

	memcpy(value->key, key, values->table->schema->nkeys * sizeof(Datum));
}

void
rose_unique_values_add_partition(RoseUniqueValues *values, int partition)
{
	values->partitions[values->npartitions++] = partition;
}

static bool
is_valid(const RoseUniqueValue *value)
{
	return value->index == NULL || value->index->valid;
}

/*
 * Indexes that are not valid come last: where REINDEX CONCURRENTLY has two with one definition, it
 * is the valid one that ON CONFLICT knows.
 */
static int
compare_values(const void *a, const void *b)
{
	const RoseUniqueValue *x = a;
	const RoseUniqueValue *y = b;

	if (is_valid(x) != is_valid(y))
		return is_valid(x) ? -1 : 1;
	return x->indexid < y->indexid ? -1 : x->indexid > y->indexid;
}

void
rose_unique_values_settle(RoseUniqueValues *values)
{
	qsort(values->values, values->nvalues, sizeof(RoseUniqueValue), compare_values);
	for (int i = 0; i < values->nvalues; i++)
		rose_unique_values_add_partition(values,
										 rose_partition_of_key(values->values[i].tree,
															   values->values[i].key));
	values->npartitions = rose_partition_sort(values->partitions, values->npartitions);
}

void
rose_unique_values_lock(const RoseUniqueValues *values)
{
	for (int i = 0; i < values->npartitions; i++)
		rose_partition_lock(values->partitions[i]);
}

void
rose_unique_values_unlock(const RoseUniqueValues *values)
{
	for (int i = values->npartitions - 1; i >= 0; i--)
		rose_partition_unlock(values->partitions[i]);
}

void
rose_unique_values_note_row(RoseUniqueValues *values, int64 rowid)
{
	values->row_written = true;
	for (int i = 0; i < values->nvalues; i++)
	{
		RoseUniqueValue *value = &values->values[i];

		/* the row id is the last column of the tree's key */
		if (value->index != NULL && values->table->schema->nkeys == 0)
			value->key[value->tree->schema->nkeys - 1] = Int64GetDatum(rowid);
	}
}

/* ---- looks ---- */

bool
rose_unique_value_is_distinct(const RoseIndexTree *index, const RoseSchema *schema,
							  const Datum *key)
{
	if (index->nulls_equal)
		return false;
	for (int i = 0; i < index->nvalue; i++)
		if (rose_key_is_null(schema, key, i))
			return true;
	return false;
}

void
rose_unique_value_range(const RoseSchema *schema, int nvalue, const Datum *key,
						RoseKeyRange *range)
{
	memset(range, 0, sizeof(*range));
	range->nlower = range->nupper = nvalue;
	range->lower_inclusive = range->upper_inclusive = true;
	memcpy(range->lower, key, nvalue * sizeof(Datum));
	memcpy(range->upper, key, nvalue * sizeof(Datum));
	if (schema->hash_columns > 0 && schema->hash_columns <= nvalue)
	{
		range->nhashed = schema->hash_columns;
		range->hash = rose_key_hash(schema, key);
	}
}

static bool
is_entry(const RoseSchema *schema, const RoseRow *entry, const Datum *key)
{
	return key != NULL && rose_key_compare(schema, entry->key, key, schema->nkeys) == 0;
}

RoseKeyState
rose_unique_value_state(RoseTree *index, int nvalue, const Datum *key, const Datum *own,
						const Datum *left, TransactionId *xwait, bool *found)
{
	const RoseSchema *schema = index->schema;
	RoseKeyState state = ROSE_KEY_FREE;
	SnapshotData snapshot;
	RoseKeyRange range;
	RoseScan   *scan;
	const RoseRow *entry;

	InitDirtySnapshot(snapshot);
	rose_unique_value_range(schema, nvalue, key, &range);
	scan = rose_scan_begin(index, &snapshot, &range, false);
	while (state == ROSE_KEY_FREE &&
		   (entry = rose_scan_next_keyed(scan, ForwardScanDirection)) != NULL)
	{
		bool		is_own = is_entry(schema, entry, own);

		if (is_own && found != NULL)
			*found = true;
		if (is_own || is_entry(schema, entry, left))
			continue;
		*xwait = TransactionIdIsValid(snapshot.xmin) ? snapshot.xmin : snapshot.xmax;
		state = TransactionIdIsValid(*xwait) ? ROSE_KEY_BUSY : ROSE_KEY_LIVE;
	}
	rose_scan_end(scan);
	return state;
}

static RoseKeyState
look_at(const RoseUniqueValues *values, const RoseUniqueValue *value, TransactionId *xwait)
{
	if (value->index != NULL)
		return rose_unique_value_state(value->tree, value->index->nvalue, value->key,
									   values->row_written ? value->key : NULL,
									   value->leaves ? value->left : NULL, xwait, NULL);
	return values->row_written ? ROSE_KEY_FREE :
		rose_unique_key_state(value->tree, value->key, xwait);
}

RoseKeyState
rose_unique_values_look(RoseUniqueValues *values, RoseUniqueValue **taken, TransactionId *xwait)
{
	for (int i = 0; i < values->nvalues; i++)
	{
		RoseUniqueValue *value = &values->values[i];
		RoseKeyState state = value->over ? ROSE_KEY_FREE : look_at(values, value, xwait);

		if (value->index != NULL && value->index->deferrable)
			value->duplicate = state != ROSE_KEY_FREE;
		else if (state != ROSE_KEY_FREE)
		{
			*taken = value;
			return state;
		}
	}
	return ROSE_KEY_FREE;
}

bool
rose_unique_value_is_over(RoseUniqueValue *value)
{
	HeapTuple	tuple;

	if (value->index == NULL)
		return false;
	AcceptInvalidationMessages();
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(value->indexid));
	value->over = !HeapTupleIsValid(tuple) ||
		!((Form_pg_index) GETSTRUCT(tuple))->indislive;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return value->over;
}

/* ---- what becomes of it ---- */

void
rose_unique_value_describe(const RoseUniqueValue *value, MemoryContext context,
						   RoseDuplicate *duplicate)
{
	MemoryContext old;

	duplicate->indexid = InvalidOid;
	duplicate->description = NULL;
	if (value->index == NULL)
		return;
	duplicate->indexid = value->indexid;
	/* a serialization failure says more than the duplicate that it leads to */
	rose_predicate_written(value->tree, value->key);
	old = MemoryContextSwitchTo(context);
	duplicate->description = rose_duplicate_describe(value->tree, value->index->nvalue, value->key);
	MemoryContextSwitchTo(old);
}

bool
rose_unique_values_note_duplicates(const RoseUniqueValues *values, const ItemPointerData *tid)
{
	bool		any = false;

	for (int i = 0; i < values->nvalues; i++)
		if (values->values[i].duplicate)
		{
			rose_duplicate_note(values->values[i].indexid, tid);
			any = true;
		}
	return any;
}
