/*-------------------------------------------------------------------------
 *
 * server_batches.c
 *	  Batches of a table's rows against what a scan returns.
 *
 *	tree_batches(table, ordered, seed)
 *		Read the table by a scan, and by batches, with the command's snapshot, and compare all
 *		rows: their columns, asked for in all ways and in random parts, names and versions.  seed decides on
 *		these, and which columns are announced.  Returns what differs first, or '', and how many rows, batches, and rows
 *		by kind of batch there were.
 *
 *	tree_batches_of_keys(table, ordered, seed)
 *		The same of rows that meet random conditions on the primary key: of each row of the scan these
 *		conditions are asked.
 *
 *	tree_batches_in_parts(table, of_keys, seed)
 *		The same by several readers who take intervals of keys from one list (rose_interval.h), as the processes of
 *		a parallel query do, in random turns; each must get its rows in the order of keys.  Returns what differs
 *		first, or '', and how many rows and intervals there were.
 *
 *	tree_interval_cuts(table, seed)
 *		Random ranges, of whole keys and of first columns, that are cut by random intervals: which of the table's keys
 *		are in what is left?  Returns what is wrong, or '', and how many keys were in both.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "lsm/read/rose_batch.h"
#include "lsm/read/rose_interval.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_scan.h"
#include "lsm/tree/rose_relation.h"

#define MAX_CONDITIONS	4
#define MAX_ELEMENTS	5
#define MAX_READERS		4
#define CUTS			300
#define KEYS_OF_CUT		40

PG_FUNCTION_INFO_V1(tree_batches);
PG_FUNCTION_INFO_V1(tree_batches_of_keys);
PG_FUNCTION_INFO_V1(tree_batches_in_parts);
PG_FUNCTION_INFO_V1(tree_interval_cuts);

/* A row, copied. */
typedef struct Row
{
	Datum	   *key;
	Datum	   *values;
	bool	   *nulls;
	RoseVersion version;
	ItemPointerData tid;
	bool		met;
} Row;

typedef struct Comparer
{
	RoseTree   *tree;
	bool		ordered;
	pg_prng_state random;
	Row		   *rows;
	int			nrows;
	int			next;
	int			nbatches;
	StringInfo	said;
	Datum	   *values;
	bool	   *nulls;
	int			nkeys;
	ScanKeyData keys[MAX_CONDITIONS];	/* conditions of the rows that are wanted */
	uint64		left_out;		/* rows that did not take part */
	int		   *last;			/* in parts: the row that the reader at hand had last; else NULL */
} Comparer;

static int
below(Comparer *comparer, int n)
{
	return (int) (pg_prng_uint64(&comparer->random) % n);
}

/* ---- what a scan returns ---- */

static void
copy_row(Comparer *comparer, const RoseRow *row, Row *copy)
{
	const RoseSchema *schema = comparer->tree->schema;

	copy->key = palloc(rose_schema_key_width(schema) * sizeof(Datum));
	copy->values = palloc(schema->natts * sizeof(Datum));
	copy->nulls = palloc(schema->natts * sizeof(bool));
	rose_key_copy(schema, copy->key, row->key, CurrentMemoryContext);
	rose_row_deform(row, schema, 1, schema->natts, copy->values, copy->nulls);
	for (int i = 0; i < schema->natts; i++)
		if (!copy->nulls[i])
			copy->values[i] = datumCopy(copy->values[i], schema->tuple_columns[i].attbyval,
										schema->tuple_columns[i].attlen);
	copy->version = row->version;
	copy->met = false;
}

static void
read_by_scan(Comparer *comparer)
{
	RoseScan   *scan = rose_scan_begin(comparer->tree, GetActiveSnapshot(), NULL, false);
	const RoseRow *row;
	int			capacity = 1024;

	comparer->rows = MemoryContextAllocHuge(CurrentMemoryContext, capacity * sizeof(Row));
	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		if (comparer->nrows == capacity)
		{
			capacity *= 2;
			comparer->rows = repalloc_huge(comparer->rows, capacity * sizeof(Row));
		}
		copy_row(comparer, row, &comparer->rows[comparer->nrows]);
		rose_scan_tid(scan, &comparer->rows[comparer->nrows++].tid);
	}
	rose_scan_end(scan);
}

/* ---- conditions on the key ---- */

/* The value of a key column (from 0) in some row. */
static Datum
some_value(Comparer *comparer, int column)
{
	const Row  *row = &comparer->rows[below(comparer, comparer->nrows)];

	return row->values[comparer->tree->schema->keys[column].def.attno - 1];
}

static Datum
some_array(Comparer *comparer, Oid type, int column)
{
	int			n = below(comparer, MAX_ELEMENTS + 1);
	Datum		values[MAX_ELEMENTS];
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(type, &len, &byval, &align);
	for (int i = 0; i < n; i++)
		values[i] = some_value(comparer, column);
	return PointerGetDatum(construct_array(values, n, type, len, byval, align));
}

static void
make_condition(Comparer *comparer, Relation index, int column)
{
	bool		is_array = below(comparer, 4) == 0;
	int			strategy = is_array || below(comparer, 3) == 0 ? BTEqualStrategyNumber :
		1 + below(comparer, BTMaxStrategyNumber);
	Oid			type = index->rd_opcintype[column];
	Oid			op = get_opfamily_member(index->rd_opfamily[column], type, type, strategy);

	ScanKeyEntryInitialize(&comparer->keys[comparer->nkeys++], is_array ? SK_SEARCHARRAY : 0, column + 1,
						   strategy, type, index->rd_indcollation[column], get_opcode(op),
						   is_array ? some_array(comparer, type, column) :
						   some_value(comparer, column));
}

static void
make_conditions(Comparer *comparer, Relation table)
{
	Relation	index = index_open(rose_primary_key_index(table), AccessShareLock);

	for (int column = 0; column < comparer->tree->schema->nkeys && comparer->nrows > 0; column++)
		while (comparer->nkeys < MAX_CONDITIONS && below(comparer, 2) == 0)
			make_condition(comparer, index, column);
	index_close(index, NoLock);
}

static bool
meets(const Comparer *comparer, const Row *row)
{
	for (int k = 0; k < comparer->nkeys; k++)
	{
		ScanKey		key = (ScanKey) &comparer->keys[k];
		Datum		value = row->values[comparer->tree->schema->keys[key->sk_attno - 1].def.attno - 1];
		bool		found = false;

		if (key->sk_flags & SK_SEARCHARRAY)
		{
			ArrayIterator iterator = array_create_iterator(DatumGetArrayTypeP(key->sk_argument), 0, NULL);
			Datum		element;
			bool		isnull;

			while (!found && array_iterate(iterator, &element, &isnull))
				found = DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, element));
		}
		else
			found = DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, key->sk_argument));
		if (!found)
			return false;
	}
	return true;
}

/* Keep the rows that meet them. */
static void
keep_wanted(Comparer *comparer)
{
	int			n = 0;

	for (int i = 0; i < comparer->nrows; i++)
		if (meets(comparer, &comparer->rows[i]))
			comparer->rows[n++] = comparer->rows[i];
	comparer->nrows = n;
}

/* ---- comparing ---- */

static bool
takes_part(const RoseBatch *batch, int row)
{
	return batch->include == NULL || (batch->include[row / 64] >> (row % 64) & 1) != 0;
}

/* The row of this key; in order, the next one. */
static Row *
find_row(Comparer *comparer, const Datum *key)
{
	const RoseSchema *schema = comparer->tree->schema;
	int			lo = comparer->ordered ? comparer->next++ : 0;
	int			hi = comparer->ordered ? lo : comparer->nrows - 1;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (rose_key_compare(schema, comparer->rows[mid].key, key, rose_schema_key_width(schema)) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo >= comparer->nrows || comparer->rows[lo].met ||
		rose_key_compare(schema, comparer->rows[lo].key, key, rose_schema_key_width(schema)) != 0)
		return NULL;
	if (comparer->last != NULL)
	{
		if (lo <= *comparer->last)
			return NULL;
		*comparer->last = lo;
	}
	comparer->rows[lo].met = true;
	return &comparer->rows[lo];
}

static void
say(Comparer *comparer, const char *what, int row, int attno)
{
	if (comparer->said->len == 0)
		appendStringInfo(comparer->said, "batch %d, row %d, column %d: %s; ", comparer->nbatches, row,
						 attno, what);
}

static void
compare_value(Comparer *comparer, const Row *expected, int row, AttrNumber attno, Datum value,
			  bool isnull, const char *how)
{
	const RoseTupleColumn *column = &comparer->tree->schema->tuple_columns[attno - 1];

	if (isnull != expected->nulls[attno - 1])
		say(comparer, how, row, attno);
	else if (isnull ? value != 0 :
			 !datum_image_eq(value, expected->values[attno - 1], column->attbyval, column->attlen))
		say(comparer, how, row, attno);
}

static void
compare_word(Comparer *comparer, const Row *expected, int row, AttrNumber attno, int64 word,
			 bool isnull)
{
	Datum		value = expected->values[attno - 1];
	int64		expected_word = 0;

	switch (comparer->tree->schema->tuple_columns[attno - 1].attlen)
	{
		case 1:
			expected_word = (int8) value;
			break;
		case 2:
			expected_word = (int16) value;
			break;
		case 4:
			expected_word = (int32) value;
			break;
		case 8:
			expected_word = (int64) value;
			break;
	}
	if (isnull != expected->nulls[attno - 1] || word != (isnull ? 0 : expected_word))
		say(comparer, "word", row, attno);
}

/* A column of all rows of a batch, in random parts. */
static void
compare_column(Comparer *comparer, RoseBatch *batch, Row **expected, AttrNumber attno)
{
	bool		byval = comparer->tree->schema->tuple_columns[attno - 1].attbyval;
	int			first = 0;

	while (first < batch->nrows)
	{
		int			limit = below(comparer, 3) == 0 ? 10 : 3000;
		int			n = 1 + below(comparer, Min(batch->nrows - first, limit));
		bool		words = byval && below(comparer, 2) == 0;
		bool		any = false;
		bool		said;

		if (below(comparer, 8) == 0)
			first = below(comparer, batch->nrows - n + 1);
		if (words)
			said = rose_batch_words(batch, attno, first, n, (int64 *) comparer->values, comparer->nulls);
		else
			said = rose_batch_datums(batch, attno, first, n, comparer->values, comparer->nulls);
		for (int i = 0; i < n; i++)
		{
			any |= comparer->nulls[i];
			if (expected[first + i] == NULL)
				continue;
			if (words)
				compare_word(comparer, expected[first + i], first + i, attno,
							 (int64) comparer->values[i], comparer->nulls[i]);
			else
				compare_value(comparer, expected[first + i], first + i, attno, comparer->values[i],
							  comparer->nulls[i], "value");
		}
		if (any != said)
			say(comparer, "a NULL, or none", first, attno);
		first += n;
	}
}

static void
compare_some(Comparer *comparer, RoseBatch *batch, Row **expected, AttrNumber attno)
{
	uint16	   *rows = palloc(batch->nrows * sizeof(uint16));
	int			n = 0;
	int			step = 1 + below(comparer, 50);

	for (int i = below(comparer, step); i < batch->nrows; i += 1 + below(comparer, step))
		rows[n++] = (uint16) i;
	if (n > 0)
		rose_batch_pick(batch, attno, rows, n, comparer->values, comparer->nulls);
	for (int i = 0; i < n; i++)
	{
		Datum		value;
		bool		isnull;

		if (expected[rows[i]] == NULL)
			continue;
		compare_value(comparer, expected[rows[i]], rows[i], attno, comparer->values[i],
					  comparer->nulls[i], "picked value");
		if (below(comparer, 4) != 0)
			continue;
		value = rose_batch_value(batch, attno, rows[i], &isnull);
		compare_value(comparer, expected[rows[i]], rows[i], attno, isnull ? 0 : value, isnull,
					  "single value");
	}
	pfree(rows);
}

/* What a row's name leads to is the row. */
static void
compare_name(Comparer *comparer, RoseBatch *batch, const Row *expected, int i)
{
	const RoseSchema *schema = comparer->tree->schema;
	const RoseRow *row;
	ItemPointerData tid;
	RoseVersion version = {0};

	/* meanwhile a spill may have left out the cid, and a merge have forgotten who wrote it */
	rose_batch_version(batch, i, &version);
	if (version.seq != ROSE_SEQ_OLDEST &&
		(!FullTransactionIdEquals(version.xid, expected->version.xid) ||
		 (version.subxid != 0 && version.subxid != expected->version.subxid) ||
		 (version.cid != 0 && version.cid != expected->version.cid)))
		say(comparer, "version", i, 0);
	rose_batch_tid(batch, i, &tid);
	row = rose_lookup_fetch_tid(rose_lookup_cached(comparer->tree), &tid, GetActiveSnapshot());
	if (row == NULL || row->key == NULL ||
		rose_key_compare(schema, row->key, expected->key, rose_schema_key_width(schema)) != 0)
		say(comparer, "name", i, 0);
}

/* The number of a row of a table without key: by its name, or, if all rows come in order, that of the next one. */
static Datum
row_number(Comparer *comparer, RoseBatch *batch, int i)
{
	const RoseRow *row;
	ItemPointerData tid;

	if (comparer->ordered)
		return comparer->next < comparer->nrows ? comparer->rows[comparer->next].key[0] : 0;
	rose_batch_tid(batch, i, &tid);
	row = rose_lookup_fetch_tid(rose_lookup_cached(comparer->tree), &tid, GetActiveSnapshot());
	return row != NULL && row->key != NULL ? row->key[0] : 0;
}

/* Which rows of the scan are those of the batch? */
static Row **
find_rows(Comparer *comparer, RoseBatch *batch)
{
	const RoseSchema *schema = comparer->tree->schema;
	Row		  **expected = palloc(batch->nrows * sizeof(Row *));

	for (int i = 0; i < batch->nrows; i++)
	{
		Datum		key[INDEX_MAX_KEYS];
		bool		isnull;

		if (!takes_part(batch, i))
		{
			expected[i] = NULL;
			comparer->left_out++;
			continue;
		}
		for (int j = 0; j < schema->nkeys; j++)
			key[j] = rose_batch_value(batch, schema->keys[j].def.attno, i, &isnull);
		if (schema->nkeys == 0)
			key[0] = row_number(comparer, batch, i);
		expected[i] = find_row(comparer, key);
		if (expected[i] == NULL)
			say(comparer, "not a row that is expected here", i, 0);
	}
	return expected;
}

static void
compare_batch(Comparer *comparer, RoseBatch *batch)
{
	const RoseSchema *schema = comparer->tree->schema;
	bool		values_first = below(comparer, 2) == 0;
	Row		  **expected;

	if (!values_first)
		for (AttrNumber attno = 1; attno <= schema->natts; attno++)
			(void) rose_batch_datums(batch, attno, 0, batch->nrows, comparer->values, comparer->nulls);
	expected = find_rows(comparer, batch);
	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		if (below(comparer, 4) > 0)
			compare_column(comparer, batch, expected, attno);
		if (below(comparer, 2) > 0)
			compare_some(comparer, batch, expected, attno);
	}
	for (int i = 0; i < batch->nrows; i += 1 + below(comparer, 20))
		if (expected[i] != NULL)
			compare_name(comparer, batch, expected[i], i);
	pfree(expected);
}

/* ---- readings ---- */

static void
make_request(Comparer *comparer, RoseBatchRequest *request)
{
	Bitmapset  *columns = NULL;

	memset(request, 0, sizeof(*request));
	for (AttrNumber attno = 1; attno <= comparer->tree->schema->natts; attno++)
		if (below(comparer, 2) == 0)
			columns = bms_add_member(columns, attno);
	request->ordered = comparer->ordered;
	request->named = true;
	request->columns = columns;
	if (comparer->nkeys > 0)
		request->keys = rose_key_quals_create(comparer->tree->schema, comparer->keys, comparer->nkeys);
}

/* Compare the next batch; false: there is none. */
static bool
read_batch(Comparer *comparer, RoseBatches *batches, int *nrows)
{
	RoseBatch	batch;
	int			included = 0;

	if (!rose_batches_next(batches, &batch))
		return false;
	comparer->nbatches++;
	*nrows += batch.nincluded;
	for (int i = 0; i < batch.nrows; i++)
		included += takes_part(&batch, i);
	if (included != batch.nincluded || (comparer->nkeys == 0 && included != batch.nrows))
		say(comparer, "other rows take part than it says", 0, 0);
	if (below(comparer, 10) != 0)
		compare_batch(comparer, &batch);
	else if (comparer->ordered)
		comparer->next += batch.nincluded;
	return true;
}

static void
say_number(Comparer *comparer, int nrows)
{
	if (nrows != comparer->nrows)
		appendStringInfo(comparer->said, "%d rows instead of %d; ", nrows, comparer->nrows);
}

static void
read_by_batches(Comparer *comparer, StringInfo result)
{
	RoseBatchRequest request;
	RoseBatches *batches;
	int			nrows = 0;

	make_request(comparer, &request);
	batches = rose_batches_begin(comparer->tree, GetActiveSnapshot(), &request);
	while (read_batch(comparer, batches, &nrows))
		continue;
	say_number(comparer, nrows);
	appendStringInfo(result, "%d " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT,
					 nrows, rose_batches_counts(batches)->leaves, rose_batches_counts(batches)->unread_leaves,
					 rose_batches_counts(batches)->memory, rose_batches_counts(batches)->woven,
					 rose_batches_counts(batches)->single);
	rose_batches_end(batches);
}

/* Several readers, in turns. */
static void
read_in_parts(Comparer *comparer, RoseIntervalsShared *shared, int *nrows)
{
	RoseBatchRequest request;
	RoseBatches *readers[MAX_READERS];
	int			last[MAX_READERS];
	int			n = 1 + below(comparer, MAX_READERS);
	int			left = n;

	make_request(comparer, &request);
	for (int i = 0; i < n; i++)
	{
		request.intervals = rose_interval_attach(shared, comparer->tree->schema);
		readers[i] = rose_batches_begin(comparer->tree, GetActiveSnapshot(), &request);
		last[i] = -1;
	}
	while (left > 0)
	{
		int			i = below(comparer, left);

		comparer->last = &last[i];
		if (read_batch(comparer, readers[i], nrows))
			continue;
		rose_batches_end(readers[i]);
		left--;
		readers[i] = readers[left];
		last[i] = last[left];
	}
}

/* Twice, for who begins anew gets the same. */
static void
read_by_parts(Comparer *comparer, StringInfo result)
{
	RoseIntervalBounds bounds;
	RoseIntervalsShared *shared;
	int			nrows = 0;

	rose_interval_choose(comparer->tree, &bounds);
	shared = palloc(rose_interval_shared_size(&bounds));
	rose_interval_share(shared, &bounds);
	for (int turn = 0; turn < 2; turn++)
	{
		nrows = 0;
		for (int i = 0; i < comparer->nrows; i++)
			comparer->rows[i].met = false;
		read_in_parts(comparer, shared, &nrows);
		say_number(comparer, nrows);
		rose_interval_restart(shared);
	}
	appendStringInfo(result, "%d %u", nrows, bounds.n + 1);
}

/* ---- ranges in intervals ---- */

static const Datum *
some_key(Comparer *comparer)
{
	return comparer->rows[below(comparer, comparer->nrows)].key;
}

/* First columns of some key, or none. */
static int
some_bound(Comparer *comparer, Datum *bound)
{
	int			width = rose_schema_key_width(comparer->tree->schema);

	memcpy(bound, some_key(comparer), width * sizeof(Datum));
	return below(comparer, width + 1);
}

static bool
is_before(const RoseSchema *schema, const RoseKeyRange *range, const Datum *key)
{
	int			cmp = rose_key_compare(schema, key, range->lower, range->nlower);

	return range->nlower > 0 && (range->lower_inclusive ? cmp < 0 : cmp <= 0);
}

static bool
is_behind(const RoseSchema *schema, const RoseKeyRange *range, const Datum *key)
{
	int			cmp = rose_key_compare(schema, key, range->upper, range->nupper);

	return range->nupper > 0 && (range->upper_inclusive ? cmp > 0 : cmp >= 0);
}

static bool
is_inside(const RoseSchema *schema, const RoseKeyRange *range, const Datum *key)
{
	return !is_before(schema, range, key) && !is_behind(schema, range, key);
}

static void
some_range(Comparer *comparer, RoseKeyRange *range, bool is_interval)
{
	memset(range, 0, sizeof(*range));
	range->nlower = some_bound(comparer, range->lower);
	range->nupper = some_bound(comparer, range->upper);
	range->lower_inclusive = is_interval || below(comparer, 2) == 0;
	range->upper_inclusive = !is_interval && below(comparer, 2) == 0;
}

/* Returns how many of some keys are in both. */
static int
check_cut(Comparer *comparer)
{
	const RoseSchema *schema = comparer->tree->schema;
	RoseKeyRange range;
	RoseKeyRange interval;
	RoseKeyRange left;
	RoseIntervalCut cut;
	int			n = 0;

	some_range(comparer, &range, false);
	some_range(comparer, &interval, true);
	left = range;
	cut = rose_interval_cut(schema, &interval, &left);
	for (int i = 0; i < KEYS_OF_CUT; i++)
	{
		const Datum *key = some_key(comparer);
		bool		in_range = is_inside(schema, &range, key);
		bool		both = in_range && is_inside(schema, &interval, key);

		n += both;
		if (both != (cut == ROSE_CUT_INSIDE && is_inside(schema, &left, key)))
			say(comparer, "a key that is in both, or what is left, and not in the other", i, cut);
		if (in_range && cut == ROSE_CUT_BEFORE && !is_before(schema, &interval, key))
			say(comparer, "a key that is not before the interval", i, cut);
		if (in_range && cut == ROSE_CUT_BEHIND && !is_behind(schema, &interval, key))
			say(comparer, "a key that is not behind the interval", i, cut);
	}
	return n;
}

Datum
tree_interval_cuts(PG_FUNCTION_ARGS)
{
	Relation	table = table_open(PG_GETARG_OID(0), AccessShareLock);
	Comparer	comparer = {.tree = rose_tree_open(table)};
	int			n = 0;

	comparer.said = makeStringInfo();
	pg_prng_seed(&comparer.random, PG_GETARG_INT32(1));
	read_by_scan(&comparer);
	for (int i = 0; i < CUTS && comparer.nrows > 0; i++)
		n += check_cut(&comparer);
	appendStringInfo(comparer.said, "%d", n);
	table_close(table, NoLock);
	return PointerGetDatum(cstring_to_text(comparer.said->data));
}

/* ---- face ---- */

static Datum
compare_all(FunctionCallInfo fcinfo, bool of_keys, bool in_parts)
{
	Relation	table = table_open(PG_GETARG_OID(0), AccessShareLock);
	Comparer	comparer = {.tree = rose_tree_open(table)};
	StringInfo	result = makeStringInfo();

	comparer.ordered = !in_parts && (PG_GETARG_BOOL(1) || comparer.tree->schema->nkeys == 0);
	comparer.said = makeStringInfo();
	comparer.values = palloc(ROSE_BATCH_MAX_ROWS * sizeof(Datum));
	comparer.nulls = palloc(ROSE_BATCH_MAX_ROWS * sizeof(bool));
	pg_prng_seed(&comparer.random, PG_GETARG_INT32(2));
	read_by_scan(&comparer);
	if (of_keys)
	{
		make_conditions(&comparer, table);
		keep_wanted(&comparer);
	}
	if (in_parts)
		read_by_parts(&comparer, result);
	else
		read_by_batches(&comparer, result);
	appendStringInfo(comparer.said, "%s", result->data);
	if (of_keys && !in_parts)
		appendStringInfo(comparer.said, " " UINT64_FORMAT, comparer.left_out);
	table_close(table, NoLock);
	return PointerGetDatum(cstring_to_text(comparer.said->data));
}

Datum
tree_batches(PG_FUNCTION_ARGS)
{
	return compare_all(fcinfo, false, false);
}

Datum
tree_batches_of_keys(PG_FUNCTION_ARGS)
{
	return compare_all(fcinfo, true, false);
}

Datum
tree_batches_in_parts(PG_FUNCTION_ARGS)
{
	return compare_all(fcinfo, PG_GETARG_BOOL(1), true);
}
