/*-------------------------------------------------------------------------
 *
 * rose_unique_recheck.c
 *	  Values of unique indexes that are looked at without writing.  See
 *	  rose_unique_recheck.h.
 *
 * Core checks a deferrable constraint when the statement or the transaction ends, of rows
 * whose aminsert has said that another row may have their value.  What is compared then
 * are keys of entries, not TIDs: a version that was spilled meanwhile has another one.
 * Since then the row may have been changed in columns that the index does not have, with
 * no entry and no check of its own; so what it has become is looked at, as heap goes on to
 * the newest version on the page.
 *
 * Who looks late holds no partition.  His own entry was linked long ago: who comes after
 * that has met it, and is to check himself; two that meet each other wait for one another,
 * and one of them fails.
 *
 * Locking: none held; scans and lookups take theirs.  What is done before a row is written is
 * rose_unique_values.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/write/rose_unique_recheck.h"
#include "lsm/write/rose_unique_values.h"

static const RoseIndexTree *
find_index(RoseTree *table, Oid indexid)
{
	const RoseIndexTree *index = rose_index_set_tree(table, indexid);

	if (index == NULL)
		elog(ERROR, "index %u is none of table \"%s\"", indexid,
			 RelationGetRelationName(table->rel));
	return index;
}

/* Until no other row than that of the entry 'own' (may be NULL) has the value; false: that one is not there. */
static bool
wait_for_value(RoseTree *table, RoseTree *tree, const RoseIndexTree *index, const Datum *key,
			   const Datum *own)
{
	if (rose_unique_value_is_distinct(index, tree->schema, key))
		return true;
	for (;;)
	{
		TransactionId xwait;
		bool		found = false;
		RoseKeyState state;

		CHECK_FOR_INTERRUPTS();
		state = rose_unique_value_state(tree, index->nvalue, key, own, NULL, &xwait, &found);
		if (state == ROSE_KEY_FREE)
			return found;
		if (state == ROSE_KEY_LIVE)
			rose_duplicate_key_report_index(table->rel, index->indexid,
											rose_duplicate_describe(tree, index->nvalue, key));
		rose_unique_wait(tree, xwait);
	}
}

/* The row that the TID names, or what it has become for this transaction; NULL: it is gone. */
static const RoseRow *
newest_of_tid(RoseLookup *lookup, const ItemPointerData *tid)
{
	ItemPointerData newest = *tid;

	rose_lookup_latest_tid(lookup, SnapshotSelf, &newest);
	return rose_lookup_fetch_tid(lookup, &newest, SnapshotSelf);
}

void
rose_unique_recheck_row(RoseTree *table, Relation index, const ItemPointerData *tid)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose recheck",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const RoseIndexTree *described = find_index(table, RelationGetRelid(index));
	RoseTree   *tree = rose_tree_open(index);
	const RoseRow *row = newest_of_tid(rose_lookup_cached(table), tid);
	bool		own = true;

	if (row != NULL)
	{
		int			natts = table->schema->natts;
		Datum	   *values = palloc(natts * sizeof(Datum));
		bool	   *nulls = palloc(natts * sizeof(bool));
		Datum		key[INDEX_MAX_KEYS];
		Datum		kept[INDEX_MAX_KEYS];
		RoseEntry	entry;

		rose_row_deform(row, table->schema, 1, natts, values, nulls);
		rose_entry_of_row(&described->shape, index, ROSE_ENTRY_OF_OWNER, values, nulls,
						  row->version.rowid, &entry);
		rose_entry_key(tree->schema, &entry, key);
		rose_key_copy(tree->schema, kept, key, context);	/* the lookup is used by others */
		own = wait_for_value(table, tree, described, kept, kept);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!own)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("failed to re-find tuple within index \"%s\"",
						RelationGetRelationName(index)),
				 errtableconstraint(table->rel, RelationGetRelationName(index))));
}

/* As comparisons want it. */
static Datum
flat_value(const RoseKeyColumn *column, Datum value)
{
	return column->attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_PACKED(value)) : value;
}

void
rose_unique_recheck_value(RoseTree *table, Relation index, const Datum *values, const bool *nulls)
{
	const RoseIndexTree *described = find_index(table, RelationGetRelid(index));
	RoseTree   *tree = rose_tree_open(index);
	const RoseSchema *schema = tree->schema;
	Datum		key[INDEX_MAX_KEYS] = {0};

	for (int i = 0; i < described->nvalue; i++)
	{
		const RoseKeyColumn *column = &schema->keys[i];
		bool		rank = (column->def.flags & ROSE_KEY_RANK) != 0;

		/* a rank is that of the column behind it; indexed columns are an entry's first ones */
		int			place = schema->keys[rank ? i + 1 : i].def.attno - 1;

		if (rank)
			key[i] = Int16GetDatum(rose_key_rank(nulls[place],
												 (column->def.flags & ROSE_KEY_NULLS_FIRST) != 0));
		else if (!nulls[place])
			key[i] = flat_value(column, values[place]);
	}
	(void) wait_for_value(table, tree, described, key, NULL);
}

void
rose_unique_recheck_key(RoseTree *table, Relation index, const Datum *values,
						const bool *nulls)
{
	Datum		key[INDEX_MAX_KEYS];

	for (int i = 0; i < table->schema->nkeys; i++)
		key[i] = flat_value(&table->schema->keys[i], values[i]);
	for (;;)
	{
		TransactionId xwait;
		RoseKeyState state;

		CHECK_FOR_INTERRUPTS();
		state = rose_unique_key_state(table, key, &xwait);
		if (state == ROSE_KEY_FREE)
			return;
		if (state == ROSE_KEY_LIVE)
			rose_duplicate_key_report_entry(table->rel, index, (Datum *) values, (bool *) nulls);
		rose_unique_wait(table, xwait);
	}
}
