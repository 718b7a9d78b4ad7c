/*-------------------------------------------------------------------------
 *
 * server_unit_rows.c
 *	  The rows of an index's table as entries of its tree, and a twin of their order.
 *
 * The table may be a heap table.  The twin knows neither ranks nor turned columns: it
 * compares what the index says with the index's own functions, and then the primary key
 * or, without one, the order in which rows were read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/datum.h"
#include "utils/snapmgr.h"

#include "compat/rose_compat.h"

#include "server_unit.h"

/* ---- the twin ---- */

/* As nbtree compares, from index's catalog entries alone. */
int
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
int
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

static int
compare_rows(const void *a, const void *b, void *arg)
{
	return twin_compare(arg, *(Row *const *) a, *(Row *const *) b);
}

/* ---- the whole ---- */

Tester *
tester_open(Oid indexid)
{
	Tester	   *tester = palloc0(sizeof(Tester));
	Oid			primary;

	tester->index = index_open(indexid, AccessShareLock);
	tester->heap = table_open(tester->index->rd_index->indrelid, AccessShareLock);
	primary = rose_primary_key_index(tester->heap);
	if (OidIsValid(primary))
		tester->primary = index_open(primary, AccessShareLock);
	describe_base(tester);
	describe_index(tester);
	read_rows(tester);
	for (int i = 0; i < tester->nrows; i++)
		tester->sorted[i] = &tester->rows[i];
	qsort_arg(tester->sorted, tester->nrows, sizeof(Row *), compare_rows, tester);
	return tester;
}

void
tester_close(Tester *tester)
{
	if (tester->primary != NULL)
		index_close(tester->primary, AccessShareLock);
	table_close(tester->heap, AccessShareLock);
	index_close(tester->index, AccessShareLock);
}
