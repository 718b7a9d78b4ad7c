/*-------------------------------------------------------------------------
 *
 * server_unit_keys.c
 *	  Keys of index trees, held against what the index itself says.
 *
 *	test_index_keys(index)
 *		The rows of the index's table, which may be a heap table, as entries: each pair of
 *		them is compared as keys of a tree and, by a twin that knows neither ranks nor
 *		turned columns, as the index orders them; ties by the primary key.  What prefixes,
 *		hashes and copies say must agree with that.  Entries are put into pages in key
 *		order, and searched there.  Returns how many comparisons were made; raises an
 *		error with what is wrong.
 *
 * Linked with rose's own objects, so nothing of the library under test is exported for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat/rose_compat.h"
#include "util/rose_index_def.h"
#include "lsm/component/rose_component_internal.h"

PG_MODULE_MAGIC;

#define MAX_ROWS	200

typedef struct Row
{
	Datum	   *values;			/* of the table */
	bool	   *nulls;
	int64		rowid;
	MinimalTuple entry;
	Datum		key[INDEX_MAX_KEYS];
	RoseKeyPrefix prefix;
	uint64		hash;
} Row;

typedef struct Tester
{
	Relation	heap;
	Relation	index;
	Relation	primary;		/* or NULL */
	RoseSchema *base;
	RoseIndexDef def;
	RoseSchema *schema;
	int			nrows;
	Row			rows[MAX_ROWS];
	int64		ncompared;
} Tester;

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			elog(ERROR, "index %s: " __VA_ARGS__); \
	} while (0)

#define NAME(tester)	RelationGetRelationName((tester)->index)

/* ---- the twin ---- */

/* As nbtree compares, from index's catalog entries alone. */
static int
twin_columns(Relation index, int ncolumns, const Row *a, const Row *b)
{
	for (int i = 0; i < ncolumns; i++)
	{
		int			column = index->rd_index->indkey.values[i] - 1;
		int			cmp;

		if (a->nulls[column] || b->nulls[column])
		{
			cmp = (int) a->nulls[column] - (int) b->nulls[column];
			if (index->rd_indoption[i] & INDOPTION_NULLS_FIRST)
				cmp = -cmp;
		}
		else
		{
			cmp = DatumGetInt32(FunctionCall2Coll(index_getprocinfo(index, i + 1, BTORDER_PROC),
												  index->rd_indcollation[i],
												  a->values[column], b->values[column]));
			cmp = (cmp > 0) - (cmp < 0);
			if (index->rd_indoption[i] & INDOPTION_DESC)
				cmp = -cmp;
		}
		if (cmp != 0)
			return cmp;
	}
	return 0;
}

/* The index's order, then that of the table's rows, as the tree stores it. */
static int
twin_compare(const Tester *tester, const Row *a, const Row *b)
{
	int			cmp = twin_columns(tester->index,
								   IndexRelationGetNumberOfKeyAttributes(tester->index), a, b);

	if (tester->index->rd_indoption[0] & INDOPTION_DESC)
		cmp = -cmp;
	if (cmp != 0)
		return cmp;
	if (tester->primary == NULL)
		return (a->rowid > b->rowid) - (a->rowid < b->rowid);
	return twin_columns(tester->primary,
						IndexRelationGetNumberOfKeyAttributes(tester->primary), a, b);
}

/* ---- rows and their entries ---- */

static void
form_entry(Tester *tester, Row *row)
{
	const RoseIndexMetaDisk *meta = &tester->def.meta;
	Datum		values[ROSE_ENTRY_COLUMNS];
	bool		nulls[ROSE_ENTRY_COLUMNS];
	Datum		from_values[INDEX_MAX_KEYS];

	for (int i = 0; i < meta->ncolumns; i++)
	{
		const RoseEntryColumnDisk *column = &meta->columns[i];
		bool		isnull = column->source > 0 && row->nulls[column->source - 1];

		nulls[i] = isnull && column->role != ROSE_ENTRY_RANK;
		if (column->role == ROSE_ENTRY_RANK)
			values[i] = Int16GetDatum(rose_key_rank(isnull,
													(column->flags & ROSE_ENTRY_NULLS_FIRST) != 0));
		else if (column->source == ROSE_ENTRY_ROWID)
			values[i] = Int64GetDatum(row->rowid);
		else
			values[i] = isnull ? (Datum) 0x7f7f7f7f : row->values[column->source - 1];
	}
	row->entry = rose_form_minimal_tuple(tester->schema->tupdesc, values, nulls);
	rose_key_from_tuple(tester->schema, row->entry, 0, row->key);
	rose_key_from_values(tester->schema, values, 0, from_values);
	for (int i = 0; i < tester->schema->nkeys; i++)
		CHECK(!rose_key_is_null(tester->schema, row->key, i) ||
			  (row->key[i] == 0 && from_values[i] == 0), "null in key column %d", NAME(tester), i);
	CHECK(rose_key_compare(tester->schema, row->key, from_values, tester->schema->nkeys) == 0,
		  "key of values", NAME(tester));
	rose_key_prefix_make(tester->schema, row->key, tester->schema->nkeys, &row->prefix);
	CHECK(rose_key_prefix(tester->schema, row->key) == row->prefix.word[0], "prefix",
		  NAME(tester));
	row->hash = rose_key_hash(tester->schema, row->key);
}

static void
read_rows(Tester *tester)
{
	TupleTableSlot *slot = table_slot_create(tester->heap, NULL);
	TableScanDesc scan = table_beginscan(tester->heap, GetActiveSnapshot(), 0, NULL);
	int			natts = slot->tts_tupleDescriptor->natts;

	while (tester->nrows < MAX_ROWS && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Row		   *row = &tester->rows[tester->nrows];

		slot_getallattrs(slot);
		row->values = palloc0(natts * sizeof(Datum));
		row->nulls = palloc(natts * sizeof(bool));
		memcpy(row->nulls, slot->tts_isnull, natts * sizeof(bool));
		for (int i = 0; i < natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(slot->tts_tupleDescriptor, i);

			if (row->nulls[i])
				continue;
			row->values[i] = att->attlen == -1 ?
				PointerGetDatum(PG_DETOAST_DATUM_COPY(slot->tts_values[i])) :
				datumCopy(slot->tts_values[i], att->attbyval, att->attlen);
		}
		row->rowid = tester->nrows++;
		form_entry(tester, row);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

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

static int
compare_rows(const void *a, const void *b, void *arg)
{
	return twin_compare(arg, *(Row *const *) a, *(Row *const *) b);
}

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

	for (int i = 0; i < tester->nrows; i++)
		sorted[i] = &tester->rows[i];
	qsort_arg(sorted, tester->nrows, sizeof(Row *), compare_rows, tester);
	for (int i = 0; i < tester->nrows; i += 2)
	{
		if (!fill_page(tester, builder, sorted[i]))
			break;
		sorted[n++] = sorted[i];
	}
	rose_page_builder_pack(builder, page);
	rose_page_reader_init(reader, page);
	for (int i = 0; i < tester->nrows; i++)
		for (int width = 1; width <= schema->nkeys; width++)
			if ((schema->keys[width - 1].def.flags & ROSE_KEY_RANK) == 0)
				check_search(tester, reader, sorted, n, &tester->rows[i], width);
}

/* ---- the function ---- */

static void
describe_base(Tester *tester)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS] = {{0}};
	Relation	primary = tester->primary;
	int			nkeys = primary == NULL ? 0 : IndexRelationGetNumberOfKeyAttributes(primary);

	for (int i = 0; i < nkeys; i++)
	{
		keys[i].attno = primary->rd_index->indkey.values[i];
		keys[i].collation = primary->rd_indcollation[i];
		keys[i].opfamily = primary->rd_opfamily[i];
		keys[i].opcintype = primary->rd_opcintype[i];
	}
	tester->base = rose_schema_create(RelationGetDescr(tester->heap), nkeys, keys,
									  ROSE_HASH_WHAT_CAN_BE, CurrentMemoryContext);
}

static void
describe_index(Tester *tester)
{
	RoseKeyFacts facts;

	rose_index_def_make(tester->index, tester->base, &tester->def);
	CHECK(rose_index_def_is_sane(&tester->def), "definition", NAME(tester));
	rose_index_def_facts(&tester->def, &facts);
	CHECK((facts.hashed >> tester->def.meta.nhash) == 0, "hashed columns", NAME(tester));
	tester->schema = rose_schema_of_index(&tester->def, facts.hashed, CurrentMemoryContext);
	for (int i = 0; i < IndexRelationGetNumberOfAttributes(tester->index); i++)
		CHECK(rose_index_def_carrier(&tester->def.meta,
									 tester->index->rd_index->indkey.values[i]) >= 0,
			  "column %d is not there", NAME(tester), i + 1);
	for (int i = 0; i < tester->base->nkeys; i++)
		CHECK(rose_index_def_carrier(&tester->def.meta, tester->base->keys[i].def.attno) >= 0,
			  "key column %d is not there", NAME(tester), i + 1);
}

PG_FUNCTION_INFO_V1(test_index_keys);

Datum
test_index_keys(PG_FUNCTION_ARGS)
{
	Tester	   *tester = palloc0(sizeof(Tester));
	Oid			primary;

	tester->index = index_open(PG_GETARG_OID(0), AccessShareLock);
	tester->heap = table_open(tester->index->rd_index->indrelid, AccessShareLock);
	primary = RelationGetPrimaryKeyIndex(tester->heap);
	if (OidIsValid(primary))
		tester->primary = index_open(primary, AccessShareLock);
	describe_base(tester);
	describe_index(tester);
	read_rows(tester);
	for (int i = 0; i < tester->nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < tester->nrows; j++)
			check_pair(tester, &tester->rows[i], &tester->rows[j]);
		check_bytes(tester, &tester->rows[i]);
	}
	check_hashes(tester);
	check_leaf(tester);
	if (tester->primary != NULL)
		index_close(tester->primary, AccessShareLock);
	table_close(tester->heap, AccessShareLock);
	index_close(tester->index, AccessShareLock);
	PG_RETURN_INT64(tester->ncompared);
}
