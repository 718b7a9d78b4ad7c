/*-------------------------------------------------------------------------
 *
 * server_trees.c
 *	  Trees of indexes, for tests: made, written to and read below SQL.
 *
 *	tree_make(table, name, attnums, options)
 *		Make an index in the catalog that is not ready for writes, so that no command writes
 *		to it, and a tree in its file.  options: indoption bits of each column (1 DESC, 2
 *		NULLS FIRST).
 *	tree_remake(index)
 *		Another file with an empty tree, as REINDEX would make it.
 *	tree_write(index, what, query)
 *		Write the entries of the table's rows that the query finds: 'put' or 'delete'.
 *		Returns how many.
 *	tree_entries(index)
 *		The entries that the command's snapshot sees, in the tree's order: the indexed columns
 *		and what is behind them, but ranks.
 *	tree_find(index, query)
 *		The same of the entries that have the indexed values of a row that the query finds,
 *		row by row, as a scan finds them that asks filters first.
 *	tree_lookup_many(table, query)
 *		Look up the keys that the query finds (columns in the key's order; of a table without key,
 *		row ids) together, twice, and one by one.  The second time it is known which columns are wanted.
 *		Returns what differs, and how many keys there were and rows were found together.
 *	tree_block_zero(index, what)
 *		'search' it as btree would; 'clear' and 'poison' it, as core's build and ours do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat/rose_compat_am.h"
#include "util/rose_index_def.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_entry.h"
#include "lsm/tree/rose_file_rows.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_lookup_many.h"
#include "lsm/read/rose_scan.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_write.h"
#include "lsm/rose_index_file.h"

PG_MODULE_MAGIC;

#define BATCH	64

PG_FUNCTION_INFO_V1(tree_make);
PG_FUNCTION_INFO_V1(tree_remake);
PG_FUNCTION_INFO_V1(tree_write);
PG_FUNCTION_INFO_V1(tree_entries);
PG_FUNCTION_INFO_V1(tree_find);
PG_FUNCTION_INFO_V1(tree_lookup_many);
PG_FUNCTION_INFO_V1(tree_block_zero);

/* ---- made ---- */

static int16 *
int2_array(ArrayType *array, int *n)
{
	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return (int16 *) ARR_DATA_PTR(array);
}

static void
make_tree(Relation heap, Relation index)
{
	RoseIndexDef def;

	rose_index_def_make(index, rose_tree_open(heap)->schema, &def);
	rose_index_file_create(index, &def, false);
}

static Oid
make_index(Relation heap, const char *name, int n, const int16 *attnums, int16 *options)
{
	IndexInfo  *info = makeIndexInfo(n, n, BTREE_AM_OID, NIL, NIL, false, false, false, true
#if PG_VERSION_NUM >= 160000
									 ,false
#endif
#if PG_VERSION_NUM >= 180000
									 ,false
#endif
		);
	Oid			collations[INDEX_MAX_KEYS];
	Oid			classes[INDEX_MAX_KEYS];
	List	   *names = NIL;

	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(heap), attnums[i] - 1);

		info->ii_IndexAttrNumbers[i] = attnums[i];
		collations[i] = att->attcollation;
		classes[i] = GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
		names = lappend(names, NameStr(att->attname));
	}
	return index_create(heap, name, InvalidOid, InvalidOid, InvalidOid, InvalidOid, info, names,
						BTREE_AM_OID, heap->rd_rel->reltablespace, collations, classes,
#if PG_VERSION_NUM >= 170000
						NULL,
#endif
						options,
#if PG_VERSION_NUM >= 170000
						NULL,
#endif
						(Datum) 0, INDEX_CREATE_SKIP_BUILD | INDEX_CREATE_CONCURRENT, 0, true,
						false, NULL);
}

/* The hook refuses secondary indexes. */
static Oid
make_unseen_index(Relation heap, const char *name, int n, const int16 *attnums, int16 *options)
{
	object_access_hook_type hook = object_access_hook;
	volatile Oid indexid;

	object_access_hook = NULL;
	PG_TRY();
	{
		indexid = make_index(heap, name, n, attnums, options);
	}
	PG_FINALLY();
	{
		object_access_hook = hook;
	}
	PG_END_TRY();
	return indexid;
}

Datum
tree_make(PG_FUNCTION_ARGS)
{
	Relation	heap = table_open(PG_GETARG_OID(0), ShareLock);
	int			n,
				noptions;
	const int16 *attnums = int2_array(PG_GETARG_ARRAYTYPE_P(2), &n);
	int16	   *options = int2_array(PG_GETARG_ARRAYTYPE_P(3), &noptions);
	Oid			indexid;
	Relation	index;

	if (n != noptions || n < 1 || n > INDEX_MAX_KEYS)
		elog(ERROR, "as many options as columns are needed");
	indexid = make_unseen_index(heap, text_to_cstring(PG_GETARG_TEXT_PP(1)), n, attnums, options);
	CommandCounterIncrement();
	index = index_open(indexid, AccessExclusiveLock);
	make_tree(heap, index);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_OID(indexid);
}

Datum
tree_remake(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Relation	heap = table_open(index->rd_index->indrelid, AccessShareLock);

	rose_set_new_file(index, index->rd_rel->relpersistence);
	CommandCounterIncrement();
	make_tree(heap, index);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_VOID();
}

/* ---- written ---- */

static void
make_shape(RoseTree *tree, RoseEntryShape *shape)
{
	RoseMetaInfo info;
	RoseIndexDef def;

	rose_meta_read(tree->rel, &info);
	rose_file_index_def(tree->rel, &info, &def);
	memset(shape, 0, sizeof(*shape));
	shape->ncolumns = def.meta.ncolumns;
	for (int i = 0; i < shape->ncolumns; i++)
	{
		RoseEntryColumn *column = &shape->columns[i];
		Form_pg_attribute att = TupleDescAttr(tree->schema->tupdesc, i);

		column->source = def.meta.columns[i].source;
		column->rank = def.meta.columns[i].role == ROSE_ENTRY_RANK;
		column->null_is_less = (def.meta.columns[i].flags & ROSE_ENTRY_NULLS_FIRST) != 0;
		column->byval = att->attbyval;
		column->len = att->attlen;
	}
}

static void
write_batch(RoseTree *tree, RoseNewVersion *versions, int n)
{
	while (n > 0 && rose_write_versions(tree, versions, n, NULL, ROSE_INDEXES_ANY, true) != ROSE_MEM_PREPARED)
		rose_make_room(tree);
}

static void
make_version(RoseTree *tree, const RoseEntryShape *shape, HeapTuple row, RoseOp op,
			 RoseNewVersion *version)
{
	TupleDesc	tupdesc = SPI_tuptable->tupdesc;
	Datum	   *values = palloc(tupdesc->natts * sizeof(Datum));
	bool	   *nulls = palloc(tupdesc->natts * sizeof(bool));
	RoseEntry	entry;

	heap_deform_tuple(row, tupdesc, values, nulls);
	rose_entry_of_row(shape, NULL, ROSE_ENTRY_OF_WRITER, values, nulls, 0, &entry);
	rose_new_version_stamp(&version->version, op, GetCurrentCommandId(true));
	version->row = rose_new_version_form_row(tree, entry.values, entry.nulls, version->key);
	if (op == ROSE_OP_TOMBSTONE)
		version->row = rose_new_version_form_key_row(tree, version->key);
}

Datum
tree_write(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), RowExclusiveLock);
	RoseTree   *tree = rose_tree_open(index);
	char	   *what = text_to_cstring(PG_GETARG_TEXT_PP(1));
	RoseOp		op = strcmp(what, "put") == 0 ? ROSE_OP_PUT : ROSE_OP_TOMBSTONE;
	RoseNewVersion versions[BATCH];
	RoseEntryShape shape;
	uint64		nrows;

	if (rose_schema_key_width(tree->schema) == 0)
		elog(ERROR, "no key");
	make_shape(tree, &shape);
	SPI_connect();
	if (SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(2)), true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the query is not one that finds rows");
	nrows = SPI_processed;
	for (uint64 i = 0; i < nrows; i += BATCH)
	{
		int			n = (int) Min(nrows - i, BATCH);

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < n; j++)
			make_version(tree, &shape, SPI_tuptable->vals[i + j], op, &versions[j]);
		write_batch(tree, versions, n);
	}
	SPI_finish();
	index_close(index, NoLock);
	PG_RETURN_INT64((int64) nrows);
}

/* ---- read ---- */

static Datum
entry_as_text(RoseTree *tree, const RoseEntryShape *shape, const RoseRow *row)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i < shape->ncolumns && !shape->columns[i].rank; i++)
	{
		Oid			function;
		bool		varlena;
		bool		isnull;
		Datum		value = rose_row_getattr(row, tree->schema, i + 1, &isnull);

		getTypeOutputInfo(TupleDescAttr(tree->schema->tupdesc, i)->atttypid, &function, &varlena);
		appendStringInfo(&out, "%s%s", i > 0 ? "|" : "",
						 isnull ? "-" : OidOutputFunctionCall(function, value));
	}
	return CStringGetTextDatum(out.data);
}

/* What a scan finds, as rows of a function's result. */
static void
return_entries(RoseTree *tree, const RoseEntryShape *shape, const RoseKeyRange *range, ReturnSetInfo *result)
{
	RoseScan   *scan = rose_scan_begin(tree, GetActiveSnapshot(), range, false);
	const RoseRow *row;

	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		Datum text = entry_as_text(tree, shape, row);
		bool		isnull = false;

		tuplestore_putvalues(result->setResult, result->setDesc, &text, &isnull);
	}
	rose_scan_end(scan);
}

Datum
tree_entries(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	RoseTree   *tree = rose_tree_open(index);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	RoseEntryShape shape;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	make_shape(tree, &shape);
	return_entries(tree, &shape, NULL, result);
	index_close(index, NoLock);
	return (Datum) 0;
}

/* Keys that begin with those columns of this one that its hash is made of. */
static void
range_like(const RoseSchema *schema, const Datum *key, RoseKeyRange *range)
{
	int			ncols = schema->hash_columns;

	if (ncols == 0)
		elog(ERROR, "the index has no column that hashes");
	memset(range, 0, sizeof(*range));
	memcpy(range->lower, key, ncols * sizeof(Datum));
	memcpy(range->upper, key, ncols * sizeof(Datum));
	range->nlower = range->nupper = range->nhashed = ncols;
	range->lower_inclusive = range->upper_inclusive = true;
	range->hash = rose_key_hash(schema, key);
}

Datum
tree_find(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	RoseTree   *tree = rose_tree_open(index);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	RoseEntryShape shape;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	make_shape(tree, &shape);
	SPI_connect();
	if (SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the query is not one that finds rows");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		RoseNewVersion version;
		RoseKeyRange range;

		make_version(tree, &shape, SPI_tuptable->vals[i], ROSE_OP_PUT, &version);
		range_like(tree->schema, version.key, &range);
		return_entries(tree, &shape, &range, result);
	}
	SPI_finish();
	index_close(index, NoLock);
	return (Datum) 0;
}

/* ---- many keys together ---- */

static void
key_of_result(const RoseSchema *schema, uint64 i, Datum *key)
{
	bool		isnull;

	for (int j = 0; j < rose_schema_key_width(schema); j++)
		key[j] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, j + 1, &isnull);
}

/* What is different in two rows of one key, or NULL.  The first one's columns are asked for from a place on. */
static const char *
row_difference(const RoseSchema *schema, const RoseRow *a, const RoseRow *b, AttrNumber from)
{
	bool		a_null;
	bool		b_null;

	if (a->version.seq != b->version.seq || a->version.op != b->version.op ||
		U64FromFullTransactionId(a->version.xid) != U64FromFullTransactionId(b->version.xid))
		return "version";
	for (int i = 0; i < schema->natts; i++)
	{
		AttrNumber	attno = (from + i) % schema->natts + 1;
		const RoseTupleColumn *column = &schema->tuple_columns[attno - 1];
		Datum		x = rose_row_getattr(a, schema, attno, &a_null);
		Datum		y = rose_row_getattr(b, schema, attno, &b_null);

		if (a_null != b_null || (!a_null && !datum_image_eq(x, y, column->attbyval, column->attlen)))
			return psprintf("column %d", attno);
	}
	return NULL;
}

/* Look at key i one by one, too: what is different, or NULL. */
static const char *
compare_lookups(RoseTree *tree, RoseLookupMany *many, int i, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	RoseLookup *lookup = rose_lookup_cached(tree);
	ItemPointerData tid;
	uint64		seq;
	const RoseRow *row = rose_lookup_many_row(many, i, &tid);
	const RoseRow *single;
	const char *difference;

	if (rose_key_compare(schema, rose_lookup_many_key(many, i), key,
						 rose_schema_key_width(schema)) != 0)
		return "key";
	if (row == NULL)
		return NULL;
	single = rose_lookup_get(lookup, GetActiveSnapshot(), key);
	if (single == NULL)
		return "a row that is not seen";
	difference = row_difference(schema, row, single, i % 3);
	seq = single->version.seq;
	/* names differ from place to place, but lead to the same version */
	single = rose_lookup_fetch_tid(lookup, &tid, SnapshotAny);
	if (difference == NULL && (single == NULL || single->version.seq != seq))
		return "TID";
	return difference;
}

Datum
tree_lookup_many(PG_FUNCTION_ARGS)
{
	Relation	table = table_open(PG_GETARG_OID(0), AccessShareLock);
	RoseTree   *tree = rose_tree_open(table);
	RoseLookupMany *many = rose_lookup_many_create(tree, CurrentMemoryContext);
	Datum		key[INDEX_MAX_KEYS];
	StringInfoData result;
	int			found = 0;
	int			n;

	initStringInfo(&result);
	SPI_connect();
	if (SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the query is not one that finds keys");
	n = (int) SPI_processed;
	for (int round = 0; round < 2; round++)
	{
		rose_lookup_many_begin(many, n);
		for (int i = 0; i < n; i++)
		{
			key_of_result(tree->schema, i, key);
			rose_lookup_many_add(many, key);
		}
		found = rose_lookup_many_run(many, GetActiveSnapshot());
		for (int i = 0; i < n; i++)
		{
			const char *difference;

			key_of_result(tree->schema, i, key);
			difference = compare_lookups(tree, many, i, key);
			if (difference != NULL)
				appendStringInfo(&result, "round %d, key %d: %s; ", round, i, difference);
		}
	}
	rose_lookup_many_free(many);
	SPI_finish();
	table_close(table, NoLock);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s%d %d", result.data, n, found)));
}

/* ---- block 0 ---- */

static void
search_as_btree(Relation heap, Relation index)
{
	IndexScanDesc scan = index_beginscan(heap, index, GetActiveSnapshot(),
#if PG_VERSION_NUM >= 180000
										 NULL,
#endif
										 0, 0);
	IndexAmRoutine *ours = index->rd_indam;

	/* by who has not come through the table */
	index->rd_indam = GetIndexAmRoutineByAmId(BTREE_AM_OID, false);
	index_rescan(scan, NULL, 0, NULL, 0);
	while (index_getnext_tid(scan, ForwardScanDirection) != NULL)
		elog(ERROR, "there is nothing to be found");
	index->rd_indam = ours;
	index_endscan(scan);
}

static void
clear_block_zero(Relation index)
{
	Buffer		buffer = ReadBuffer(index, BTREE_METAPAGE);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	_bt_initmetapage(BufferGetPage(buffer), P_NONE, 0, false);
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);
}

Datum
tree_block_zero(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Relation	heap = table_open(index->rd_index->indrelid, AccessShareLock);
	char	   *what = text_to_cstring(PG_GETARG_TEXT_PP(1));

	if (strcmp(what, "search") == 0)
		search_as_btree(heap, index);
	else if (strcmp(what, "clear") == 0)
		clear_block_zero(index);
	else
		rose_meta_poison(index);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_VOID();
}
