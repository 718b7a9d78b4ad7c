/*-------------------------------------------------------------------------
 *
 * server_unit_keys.c
 *	  Keys of index trees, held against what the index itself says.
 *
 *	test_index_keys(index)
 *		Each pair of rows of the index's table is compared as keys of a tree and by the
 *		twin.  What prefixes, hashes and copies say must agree with that.  Entries are put
 *		into leaves and inner pages in key order, and searched there.  Returns how many
 *		comparisons were made; raises an error with what is wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "server_unit.h"

PG_MODULE_MAGIC;

/* ---- pairs ---- */

static void
check_prefixes(Tester *tester, const Row *a, const Row *b, int cmp)
{
	const RoseSchema *schema = tester->schema;
	const RoseKeyPrefix *x = &a->prefix;
	const RoseKeyPrefix *y = &b->prefix;

	if (x->word[0] != y->word[0])
		CHECK((x->word[0] < y->word[0] ? -1 : 1) == cmp, "first word", NAME(tester));
	else if (x->word[1] != y->word[1])
		CHECK((x->word[1] < y->word[1] ? -1 : 1) == cmp, "second word", NAME(tester));
	if (x->word[0] == y->word[0])
	{
		CHECK(rose_key_compare(schema, a->key, b->key, schema->prefix_columns) == 0,
			  "%d prefix columns", NAME(tester), schema->prefix_columns);
		CHECK(schema->prefix_wide || x->word[1] == y->word[1], "narrow", NAME(tester));
		CHECK(!rose_key_prefix_exact(schema) || cmp == 0, "exact", NAME(tester));
	}
}

/* Of b only the first columns are known. */
static void
check_partial(Tester *tester, const Row *a, const Row *b, int ncols)
{
	RoseKeyPrefix y;
	uint64		first;
	uint64		second;
	int			cmp = rose_key_compare(tester->schema, a->key, b->key, ncols);

	rose_key_prefix_make(tester->schema, b->key, ncols, &y);
	first = a->prefix.word[0] & y.mask[0];
	second = a->prefix.word[1] & y.mask[1];
	if (first != y.word[0])
		CHECK((first < y.word[0]) == (cmp < 0) && cmp != 0, "first word of %d columns",
			  NAME(tester), ncols);
	else if (second != y.word[1])
		CHECK((second < y.word[1]) == (cmp < 0) && cmp != 0, "second word of %d columns",
			  NAME(tester), ncols);
}

static void
check_pair(Tester *tester, const Row *a, const Row *b)
{
	const RoseSchema *schema = tester->schema;
	int			twin = twin_compare(tester, a, b);
	int			cmp = rose_key_compare(schema, a->key, b->key, schema->nkeys);
	bool		equal_keys;

	cmp = (cmp > 0) - (cmp < 0);
	tester->ncompared++;
	CHECK(cmp == twin, "rows %d and %d: %d, but %d", NAME(tester), (int) a->rowid,
		  (int) b->rowid, cmp, twin);
	for (int ncols = 1; ncols < schema->nkeys; ncols++)
	{
		int			part = rose_key_compare(schema, a->key, b->key, ncols);

		CHECK(part == 0 || (part > 0) - (part < 0) == twin, "first %d columns", NAME(tester), ncols);
		check_partial(tester, a, b, ncols);
	}
	equal_keys = twin_columns(tester->index, IndexRelationGetNumberOfKeyAttributes(tester->index),
							  a, b) == 0;
	CHECK((rose_key_compare(schema, a->key, b->key, tester->def.meta.nhash) == 0) == equal_keys,
		  "hashed columns", NAME(tester));
	CHECK(!equal_keys || a->hash == b->hash, "equal values, other hash", NAME(tester));
	check_prefixes(tester, a, b, cmp);
}

/* Different values should mostly have different hashes, or a filter is of no use. */
static void
check_hashes(Tester *tester)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(tester->index);
	int			same = 0;
	int			other = 0;
	const Datum *columns[INDEX_MAX_KEYS];
	uint64	   *hashes = palloc(tester->nrows * sizeof(uint64));

	for (int j = 0; j < tester->schema->nkeys; j++)
	{
		Datum	   *column = palloc(tester->nrows * sizeof(Datum));

		for (int i = 0; i < tester->nrows; i++)
			column[i] = tester->rows[i].key[j];
		columns[j] = column;
	}
	if (!tester->schema->hashable)
		return;
	rose_key_hash_many(tester->schema, columns, tester->nrows, hashes);
	for (int i = 0; i < tester->nrows; i++)
	{
		CHECK(hashes[i] == tester->rows[i].hash, "hash of many", NAME(tester));
		for (int j = 0; j < i; j++)
			if (twin_columns(tester->index, nkeys, &tester->rows[i], &tester->rows[j]) != 0)
			{
				other++;
				same += hashes[i] == hashes[j];
			}
	}
	for (int i = 0; i < tester->def.meta.nhash; i++)
		if (!tester->schema->keys[i].hashable)
			return;
	/* core's hash of bigint is of 32 bits */
	CHECK(same * 10 <= other, "%d of %d pairs of other values have one hash", NAME(tester), same,
		  other);
}

/* ---- keys as bytes ---- */

static void
check_bytes(Tester *tester, const Row *row)
{
	const RoseSchema *schema = tester->schema;
	StringInfoData out;
	Datum		copy[INDEX_MAX_KEYS];
	RoseKeyBuffer buffer;

	initStringInfo(&out);
	rose_key_write(schema, row->key, &out);
	memset(copy, 0x7f, sizeof(copy));
	rose_key_read(schema, out.data, out.len, copy, 0);
	CHECK(rose_key_compare(schema, row->key, copy, schema->nkeys) == 0, "written and read",
		  NAME(tester));
	memset(copy, 0x7f, sizeof(copy));
	rose_key_copy(schema, copy, row->key, CurrentMemoryContext);
	CHECK(rose_key_compare(schema, row->key, copy, schema->nkeys) == 0, "copied", NAME(tester));
	rose_key_buffer_init(&buffer, CurrentMemoryContext);
	rose_key_buffer_set(&buffer, schema, row->key);
	CHECK(rose_key_compare(schema, row->key, buffer.key, schema->nkeys) == 0, "in a buffer",
		  NAME(tester));
	for (int i = 0; i < schema->nkeys; i++)
		CHECK(!rose_key_is_null(schema, row->key, i) || (copy[i] == 0 && buffer.key[i] == 0),
			  "null in column %d", NAME(tester), i);
}

/* ---- pages ---- */

/* Where a search of the page with the first columns of a row's key must end. */
static void
check_search(Tester *tester, RosePageReader *reader, Row **sorted, int n, const Row *row, int ncols)
{
	const RoseSchema *schema = tester->schema;
	int			first = 0;
	int			after;
	int			lo = 0;
	int			hi = n;
	bool		found;

	while (first < n && rose_key_compare(schema, sorted[first]->key, row->key, ncols) < 0)
		first++;
	after = first;
	while (after < n && rose_key_compare(schema, sorted[after]->key, row->key, ncols) == 0)
		after++;
	found = rose_page_narrow(reader, schema, false, row->key, ncols, &lo, &hi);
	CHECK(found == (after > first) && lo == first && (!found || hi == after),
		  "search by %d columns: %d to %d, but %d to %d", NAME(tester), ncols, lo, hi, first, after);
}

static bool
fill_page(Tester *tester, RosePageBuilder *builder, const Row *row)
{
	Datum		values[ROSE_SYSCOLS + ROSE_ENTRY_COLUMNS] = {0};
	bool		nulls[ROSE_SYSCOLS + ROSE_ENTRY_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	for (int i = 0; i < tester->schema->natts; i++)
	{
		HeapTupleData htup;

		rose_tuple_header(row->entry, &htup);
		values[ROSE_SYSCOLS + i] = heap_getattr(&htup, i + 1, tester->schema->tupdesc,
												&nulls[ROSE_SYSCOLS + i]);
	}
	return rose_page_builder_append(builder, values, nulls) == ROSE_APPEND_OK;
}

/* The rows of one leaf, every other one, so that keys that are not there are looked for too. */
static void
check_leaf(Tester *tester)
{
	const RoseSchema *schema = tester->schema;
	int			ncols = ROSE_SYSCOLS + schema->natts;
	RoseColumnDesc *descs = rose_leaf_column_descs(schema, schema->natts, NULL, NULL,
												   CurrentMemoryContext);
	RosePageBuilder *builder = rose_page_builder_create(ncols, descs, CurrentMemoryContext);
	RosePageReader *reader = rose_page_reader_create(ncols, descs, CurrentMemoryContext);
	char	   *page = palloc_extended(BLCKSZ, MCXT_ALLOC_ZERO);
	Row		  **sorted = palloc(tester->nrows * sizeof(Row *));
	int			n = 0;

	for (int i = 0; i < tester->nrows; i += 2)
	{
		if (!fill_page(tester, builder, tester->sorted[i]))
			break;
		sorted[n++] = tester->sorted[i];
	}
	rose_page_builder_pack(builder, page);
	rose_page_reader_init(reader, page);
	for (int i = 0; i < tester->nrows; i++)
		for (int width = 1; width <= schema->nkeys; width++)
			if ((schema->keys[width - 1].def.flags & ROSE_KEY_RANK) == 0)
				check_search(tester, reader, sorted, n, &tester->rows[i], width);
}

/* ---- the function ---- */

PG_FUNCTION_INFO_V1(test_index_keys);

Datum
test_index_keys(PG_FUNCTION_ARGS)
{
	Tester	   *tester = tester_open(PG_GETARG_OID(0));

	for (int i = 0; i < tester->nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < tester->nrows; j++)
			check_pair(tester, &tester->rows[i], &tester->rows[j]);
		check_bytes(tester, &tester->rows[i]);
	}
	check_hashes(tester);
	check_leaf(tester);
	check_inner_pages(tester);
	tester_close(tester);
	PG_RETURN_INT64(tester->ncompared);
}
