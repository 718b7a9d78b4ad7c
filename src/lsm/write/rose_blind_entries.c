/*-------------------------------------------------------------------------
 *
 * rose_blind_entries.c
 *	  Entries of secondary indexes of what is written blindly.
 *
 * Who does not read the row that he replaces does not know its entry.  So the new entry is
 * always put, with the stamps of the row's version, and nothing is taken out: what a
 * row leaves behind in an index stays there, and is passed over by readers, who ask the row
 * (ROSE_INDEX_VALIDATED).  What must never be is a row without its entry.  It is not:
 *
 * - for each version of a row there is a PUT of its entry's key, of that version or an older
 *	 one, and no tombstone of that key between them.  Tombstones are there of local changes, from a time when the table was
 *	 no subscription's, or beside the stream; the versions of one row, and so their entries, come in one order.
 * - row and entry have one transaction, and go to memtables that are frozen for one epoch: a
 *	 boundary never comes between them.
 * - the table's numbers are above all that the index has ever had, after a crash, too, when
 *	 the table may have forgotten some: see rose_blind_indexes_open.
 *
 * A PARTIAL version has columns that were not sent, because they did not change.  If an
 * entry is made of such ones alone, and of the key, it is the one that is there.  If
 * it is made of both kinds, the row has to be completed before (rose_blind_needs_row).
 * A PARTIAL version with no row below is no row, and needs no entry.
 *
 * What is computed is computed when the row is formed: so an error is one of the change that it is of.
 *
 * Locking: writing sections of the indexes' C0, one after the other, after that of the table.
 *
 * What this does not do: take stale entries out (merge/rose_sift.h), or look whether values are unique.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/write/rose_blind_entries.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_write.h"

struct RoseBlindIndexes
{
	RoseTree   *table;
	const RoseIndexSet *set;
	MemoryContext context;		/* of what is needed for one row */
	Bitmapset  *key;			/* columns of the table's key */
	RoseTree  **trees;			/* the table, and then indexes as they are in the set */
	Relation   *indexes;
};

/*
 * The table's next number is that of its last durable version after a crash, and one that is
 * lost may have been durable in the index.
 */
static void
open_index(RoseBlindIndexes *indexes, int i)
{
	RoseTree   *tree;

	indexes->indexes[i] = index_open(indexes->set->trees[i].indexid, RowExclusiveLock);
	tree = rose_tree_open(indexes->indexes[i]);
	rose_c0_raise_sequence(&indexes->table->shared->c0,
						   rose_c0_next_sequence(&tree->shared->c0));
	indexes->trees[i + 1] = tree;
}

RoseBlindIndexes *
rose_blind_indexes_open(RoseTree *table, MemoryContext context)
{
	const RoseIndexSet *set = rose_index_set_current(table);
	RoseBlindIndexes *indexes;
	MemoryContext old;

	if (likely(set == NULL))
		return NULL;
	old = MemoryContextSwitchTo(context);
	indexes = palloc0(sizeof(RoseBlindIndexes));
	indexes->table = table;
	indexes->set = set;
	indexes->context = AllocSetContextCreate(context, "rose blind entries", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < table->schema->nkeys; i++)
		indexes->key = bms_add_member(indexes->key, table->schema->keys[i].def.attno);
	indexes->trees = palloc((set->n + 1) * sizeof(RoseTree *));
	indexes->indexes = palloc(set->n * sizeof(Relation));
	indexes->trees[0] = table;
	for (int i = 0; i < set->n; i++)
		open_index(indexes, i);
	MemoryContextSwitchTo(old);
	return indexes;
}

void
rose_blind_indexes_close(RoseBlindIndexes *indexes)
{
	for (int i = 0; i < indexes->set->n; i++)
		index_close(indexes->indexes[i], NoLock);
	MemoryContextDelete(indexes->context);
	bms_free(indexes->key);
	pfree(indexes->trees);
	pfree(indexes->indexes);
	pfree(indexes);
}

RoseTree   *const *
rose_blind_trees(const RoseBlindIndexes *indexes, int *n)
{
	*n = indexes->set->n + 1;
	return indexes->trees;
}

const RoseEntryShape *
rose_blind_shape(const RoseBlindIndexes *indexes, int i)
{
	return &indexes->set->trees[i].shape;
}

/* ---- forming ---- */

/* Which of the columns that an entry is made of were sent? */
typedef enum SentColumns
{
	SENT_ALL,
	SENT_KEY_ALONE,				/* and others are needed */
	SENT_SOME
} SentColumns;

static SentColumns
columns_sent(const RoseBlindIndexes *indexes, const RoseEntryShape *shape, const bits8 *present)
{
	bool		missing = false;
	bool		sent = false;
	int			attno = -1;

	while ((attno = bms_next_member(shape->depends, attno)) >= 0)
	{
		if (!rose_present_test(present, attno))
			missing = true;
		else if (!bms_is_member(attno, indexes->key))
			sent = true;
	}
	if (!missing)
		return SENT_ALL;
	return sent ? SENT_SOME : SENT_KEY_ALONE;
}

/*
 * A key that is equal to the old one need not look like it, and an index may tell them apart.
 */
bool
rose_blind_needs_row(const RoseBlindIndexes *indexes, const bits8 *present, bool key_is_same)
{
	for (int i = 0; indexes != NULL && i < indexes->set->n; i++)
	{
		SentColumns sent = columns_sent(indexes, &indexes->set->trees[i].shape, present);

		if (sent == SENT_SOME || (sent == SENT_KEY_ALONE && !key_is_same))
			return true;
	}
	return false;
}

static void
form_entry(RoseBlindIndexes *indexes, int i, const Datum *values, const bool *nulls,
		   RoseBlindEntry *out)
{
	RoseTree   *index = indexes->trees[i + 1];
	MemoryContext old = MemoryContextSwitchTo(indexes->context);
	RoseEntry	entry;

	rose_entry_of_row(&indexes->set->trees[i].shape, index->rel, ROSE_ENTRY_OF_OWNER, values,
					  nulls, 0, &entry);
	MemoryContextSwitchTo(old);
	if (entry.exists)
	{
		rose_entries_check_fits(index, &entry);
		out->key = palloc(index->schema->nkeys * sizeof(Datum));
		out->row = rose_new_version_form_row(index, entry.values, entry.nulls, out->key);
	}
	MemoryContextReset(indexes->context);
}

Size
rose_blind_form_entries(RoseBlindIndexes *indexes, const Datum *values, const bool *nulls,
						RoseBlindRow *row)
{
	Size		bytes = 0;

	row->entries = NULL;
	if (likely(indexes == NULL) || row->op == ROSE_OP_TOMBSTONE)
		return 0;
	row->entries = palloc0(indexes->set->n * sizeof(RoseBlindEntry));
	for (int i = 0; i < indexes->set->n; i++)
	{
		if (row->op == ROSE_OP_PUT ||
			columns_sent(indexes, &indexes->set->trees[i].shape, row->present) == SENT_ALL)
			form_entry(indexes, i, values, nulls, &row->entries[i]);
		if (row->entries[i].row != NULL)
			bytes += row->entries[i].row->t_len;
	}
	return bytes;
}

/* ---- writing ---- */

/* The row has got its id now: in a table without key, an entry is formed anew with it. */
static void
set_rowid(RoseTree *index, const RoseEntryShape *shape, int64 rowid, RoseNewVersion *entry)
{
	Datum		values[ROSE_ENTRY_COLUMNS];
	bool		nulls[ROSE_ENTRY_COLUMNS];

	rose_tuple_deform(entry->row, index->schema, shape->ncolumns, values, nulls);
	for (int i = 0; i < shape->ncolumns; i++)
		if (shape->columns[i].source == ROSE_ENTRY_ROWID)
			values[i] = Int64GetDatum(rowid);
	entry->row = rose_new_version_form_row(index, values, nulls, entry->key);
}

static int
compare_entries(const void *a, const void *b, void *arg)
{
	const RoseNewVersion *x = a;
	const RoseNewVersion *y = b;
	const RoseSchema *schema = arg;
	int			cmp = rose_key_compare(schema, x->key, y->key, schema->nkeys);

	if (cmp != 0)
		return cmp;
	return x->version.seq < y->version.seq ? -1 : x->version.seq > y->version.seq;
}

/* The entries of rows in one index, in the order of keys, and of numbers for each; returns how many. */
static int
collect(RoseBlindIndexes *indexes, int i, const RoseBlindRow *rows, const uint64 *seqs, int n,
		const RoseVersion *stamp, RoseNewVersion *entries)
{
	RoseTree   *index = indexes->trees[i + 1];
	int			nentries = 0;

	for (int j = 0; j < n; j++)
	{
		const RoseBlindEntry *from = rows[j].entries != NULL ? &rows[j].entries[i] : NULL;
		RoseNewVersion *entry = &entries[nentries];

		if (from == NULL || from->row == NULL)
			continue;
		entry->version = *stamp;
		entry->version.op = ROSE_OP_PUT;
		entry->version.present = NULL;
		entry->version.rowid = 0;
		entry->version.seq = seqs[j];
		entry->row = from->row;
		memcpy(entry->key, from->key, index->schema->nkeys * sizeof(Datum));
		if (indexes->table->schema->nkeys == 0)
			set_rowid(index, &indexes->set->trees[i].shape, (int64) seqs[j], entry);
		nentries++;
	}
	qsort_arg(entries, nentries, sizeof(RoseNewVersion), compare_entries, index->schema);
	return nentries;
}

void
rose_blind_write_entries(RoseBlindIndexes *indexes, const RoseBlindRow *rows, const uint64 *seqs,
						 int n, const RoseVersion *stamp, const RoseOwnRules *rules)
{
	MemoryContext old = MemoryContextSwitchTo(indexes->context);
	RoseNewVersion *entries = palloc(n * sizeof(RoseNewVersion));

	for (int i = 0; i < indexes->set->n; i++)
	{
		int			nentries = collect(indexes, i, rows, seqs, n, stamp, entries);
		int			done = 0;

		while ((done += rose_write_blind_entries(indexes->trees[i + 1], entries + done,
												 nentries - done, rules)) < nentries)
			rose_make_room(indexes->trees[i + 1]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(indexes->context);
}
