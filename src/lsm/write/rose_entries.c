/*-------------------------------------------------------------------------
 *
 * rose_entries.c
 *	  Entries of secondary indexes, written with the rows that they are of.
 *
 * What a row's change writes to an index is said by tree/rose_entry.h; here it gets the
 * stamps of the row's version and is written, index by index, each in writing sections of
 * its own, after the row itself.
 *
 * Why one after the other is enough.  All of it is of one (sub)transaction, which is in
 * progress: nobody else sees the row or an entry of it before it commits, its own
 * snapshots do not before the command has ended, and whoever wants to change the row
 * waits for the transaction to end.  So versions of one row's entries are written in the
 * order of the row's versions, though numbers of several rows may come to an index in
 * another order than to the table.  An index without room is waited for, with no lock
 * held, until its entries are in; what was written before stays.  If that fails, or
 * anything else does, the (sub)transaction fails, and row and entries with it, in memory,
 * in tail logs and in runs: they have one stamp.  A crash in between leaves a transaction
 * that has not committed.
 *
 * Functions of users, which expressions of indexes may call, run here with no lock held,
 * when the row is written: an error that they raise fails the (sub)transaction likewise, unless it
 * is about what the row was.
 * Of a row whose columns that an index reads stay the same, nothing is computed.
 *
 * Unique indexes come first, with the values locked that the row is to have in them, since before
 * the row was written (rose_unique_values.h).  If one has no room, locks are let go of while it
 * is made, and the values are looked at again before the entries are linked: it is the
 * link of the entry that has to be under one lock with the look.
 * What they compute is computed before anything is locked; only entries that a new row
 * hides from the transaction's own snapshot are written later, for who they are is known
 * when it is written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "util/rose_stop_point.h"
#include "lsm/component/rose_component.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_write.h"
#include "lsm/write/rose_write_let_go.h"

/* Entries written in one section; fewer are not sorted. */
#define ENTRIES_BATCH	256
#define ENTRIES_SORT	4

/* The columns of a row that indexes read. */
typedef struct TableRow
{
	Datum	   *values;
	bool	   *nulls;
	int64		rowid;
} TableRow;

/* Of an index that evaluates: what the row noted has had there, and what the new one is to have. */
typedef struct ComputedEntries
{
	RoseEntry	old;
	RoseEntry	new;
} ComputedEntries;

struct RoseEntryWriter
{
	RoseTree   *table;
	const RoseIndexSet *set;
	TableRow   *old;			/* noted and not written yet, or NULL */
	ComputedEntries **computed; /* by index: of unique ones, before values are locked; NULL: not computed */
	bool		unique_written; /* of the versions at hand unique indexes have their entries */
	RoseTree  **trees;			/* the table, and then indexes as they are in the set */
	Relation   *indexes;
};

RoseEntryWriter *
rose_entries_open_set(RoseTree *table, const RoseIndexSet *set)
{
	RoseEntryWriter *writer = palloc0(sizeof(RoseEntryWriter));

	writer->table = table;
	writer->set = set;
	writer->trees = palloc((set->n + 1) * sizeof(RoseTree *));
	writer->indexes = palloc(set->n * sizeof(Relation));
	writer->computed = palloc0(set->n * sizeof(ComputedEntries *));
	writer->trees[0] = table;
	for (int i = 0; i < set->n; i++)
	{
		writer->indexes[i] = index_open(set->trees[i].indexid, RowExclusiveLock);
		writer->trees[i + 1] = rose_tree_open(writer->indexes[i]);
		rose_write_let_go(writer->trees[i + 1]);
	}
	return writer;
}

void
rose_entries_close(RoseEntryWriter *writer)
{
	for (int i = 0; i < writer->set->n; i++)
		index_close(writer->indexes[i], NoLock);
	pfree(writer->indexes);
	pfree(writer->computed);
	pfree(writer->trees);
	pfree(writer);
}

void
rose_entries_reopen(RoseTree *table, RoseEntries *entries)
{
	MemoryContext old = MemoryContextSwitchTo(entries->context);

	if (entries->writer != NULL)
		rose_entries_close(entries->writer);
	rose_tree_forget_indexes(table);
	rose_entries_open(table, entries);
	MemoryContextSwitchTo(old);
}

/* ---- rows ---- */

static void
make_room_for_row(const RoseEntryWriter *writer, TableRow *row)
{
	row->values = palloc(writer->set->last_source * sizeof(Datum));
	row->nulls = palloc(writer->set->last_source * sizeof(bool));
}

/* The values may go away with the row. */
static void
copy_row(const RoseEntryWriter *writer, const RoseRow *row, TableRow *copy)
{
	const RoseSchema *schema = writer->table->schema;
	int			i = -1;

	make_room_for_row(writer, copy);
	copy->rowid = row->version.rowid;
	if (writer->set->last_source > 0)
		rose_row_deform(row, schema, 1, writer->set->last_source, copy->values, copy->nulls);
	while ((i = bms_next_member(writer->set->depends, i)) >= 0)
	{
		const RoseTupleColumn *column = &schema->tuple_columns[i - 1];

		if (!copy->nulls[i - 1] && !column->attbyval)
			copy->values[i - 1] = datumCopy(copy->values[i - 1], false, column->attlen);
	}
}

void
rose_entries_note_old(RoseEntryWriter *writer, const RoseRow *row)
{
	TableRow   *old = palloc(sizeof(TableRow));

	copy_row(writer, row, old);
	writer->old = old;
}

/* The rows of versions; nothing of those that have none. */
static TableRow *
take_rows(const RoseEntryWriter *writer, const RoseNewVersion *versions, int n)
{
	TableRow   *rows = palloc0(n * sizeof(TableRow));

	for (int i = 0; i < n; i++)
	{
		if (versions[i].version.op != ROSE_OP_PUT)
			continue;
		make_room_for_row(writer, &rows[i]);
		rows[i].rowid = versions[i].version.rowid;
		rose_tuple_deform(versions[i].row, writer->table->schema, writer->set->last_source,
						  rows[i].values, rows[i].nulls);
	}
	return rows;
}

/*
 * Rows that new ones have hidden from the transaction's own snapshot, which sees them
 * still: somebody has deleted them since, so their keys were free; NULL: none.  In the table
 * the new version is the newest of its key for that snapshot, too.  In an index the old
 * entry has another key, and a tombstone that the snapshot does not see.
 */
static TableRow *
take_hidden_rows(const RoseEntryWriter *writer, const RoseNewVersion *versions, int n)
{
	SnapshotData snapshot;
	RoseLookup *lookup;
	TableRow   *rows;

	if (likely(!IsolationUsesXactSnapshot()) || writer->table->schema->nkeys == 0)
		return NULL;
	snapshot = *GetTransactionSnapshot();
	lookup = rose_lookup_create(writer->table);
	rows = palloc0(n * sizeof(TableRow));
	for (int i = writer->old != NULL ? 1 : 0; i < n; i++)
	{
		const RoseRow *row;

		if (versions[i].version.op != ROSE_OP_PUT)
			continue;
		snapshot.curcid = versions[i].version.cid;	/* before the new one */
		row = rose_lookup_get(lookup, &snapshot, versions[i].key);
		if (row != NULL)
			copy_row(writer, row, &rows[i]);
	}
	rose_lookup_free(lookup);
	return rows;
}

/* ---- values ---- */

static bool
has_row(const TableRow *row)
{
	return row != NULL && row->values != NULL;
}

/* Are the columns that entries are made of the same in both rows?  Then so are their entries. */
static bool
is_same_source(const RoseSchema *table, const RoseEntryShape *shape, const TableRow *old,
			   const TableRow *new)
{
	int			attno = -1;

	if (!has_row(old) || !has_row(new))
		return false;
	while ((attno = bms_next_member(shape->depends, attno)) >= 0)
	{
		const RoseTupleColumn *column = &table->tuple_columns[attno - 1];
		int			i = attno - 1;

		if (old->nulls[i] != new->nulls[i] ||
			(!old->nulls[i] &&
			 !datum_image_eq(old->values[i], new->values[i], column->attbyval, column->attlen)))
			return false;
	}
	return true;
}

static void
entry_of(const RoseEntryShape *shape, Relation index, RoseEntryUser user, const TableRow *row,
		 RoseEntry *entry)
{
	if (!has_row(row))
		rose_entry_of_none(entry);
	else
		rose_entry_of_row(shape, index, user, row->values, row->nulls, row->rowid, entry);
}

/*
 * The entry that a row had, which is deleted or, if there is a new one, changed.  What fails
 * for it has no entry: functions of users need not give what they gave, and rows that are
 * older than an index which is built beside writers may be what that fails on.
 */
static void
old_entry_of(const RoseIndexTree *described, Relation index, const TableRow *row,
			 const TableRow *new, RoseEntry *entry)
{
	RoseEntryUser user = ROSE_ENTRY_OF_OWNER;

	if (described->shape.validated || !described->valid)
		user = has_row(new) ? ROSE_ENTRY_OF_CHANGED : ROSE_ENTRY_OF_DELETED;
	entry_of(&described->shape, index, user, row, entry);
}

/*
 * Has the new entry a value that the old one has not?  A row that gets another key of the
 * table is a row of its own: of a deferrable index two rows may have one value; and who
 * looks at it meanwhile must not pass by the place of the new entry before it is there, and
 * meet the tombstone of the old one when that is committed.
 */
static bool
is_new_value(const RoseIndexTree *index, const RoseSchema *schema, const RoseEntry *old,
			 const RoseEntry *new, RoseUniqueValue *value)
{
	if (!new->exists)
		return false;
	rose_entry_key(schema, new, value->key);
	if (rose_unique_value_is_distinct(index, schema, value->key))
		return false;
	value->leaves = old->exists;
	if (!old->exists)
		return true;
	rose_entry_key(schema, old, value->left);
	return rose_key_compare(schema, value->key, value->left, schema->nkeys) != 0;
}

/*
 * The value that the row is to have in the i-th index, which is unique, and has not; false:
 * none.  No LWLock is held: what is computed is kept for when the entry is written.
 */
static bool
find_value(RoseEntryWriter *writer, int i, const TableRow *row, RoseUniqueValue *value)
{
	const RoseIndexTree *described = &writer->set->trees[i];
	const RoseEntryShape *shape = &described->shape;
	Relation	index = writer->indexes[i];
	RoseEntry	old;
	RoseEntry	new;

	writer->computed[i] = NULL;
	if (shape->evaluates && is_same_source(writer->table->schema, shape, writer->old, row))
		return false;
	old_entry_of(described, index, writer->old, row, &old);
	entry_of(shape, index, ROSE_ENTRY_OF_WRITER, row, &new);
	if (shape->evaluates)
	{
		writer->computed[i] = palloc(sizeof(ComputedEntries));
		writer->computed[i]->old = old;
		writer->computed[i]->new = new;
	}
	return is_new_value(described, writer->trees[i + 1]->schema, &old, &new, value);
}

RoseUniqueValues *
rose_entries_values(RoseEntryWriter *writer, const RoseNewVersion *put)
{
	const RoseIndexSet *set = writer->set;
	RoseUniqueValues *values;
	TableRow   *row;

	if (set->nunique == 0)
		return NULL;
	values = rose_unique_values_create(writer->table, set->nunique);
	row = take_rows(writer, put, 1);
	for (int i = 0; i < set->n; i++)
	{
		if (set->trees[i].unique &&
			!find_value(writer, i, row,
						rose_unique_values_add(values, writer->trees[i + 1], &set->trees[i])))
			values->nvalues--;
	}
	return values->nvalues > 0 ? values : NULL;
}

bool
rose_entries_have_unique(const RoseEntryWriter *writer)
{
	return writer->set->nunique > 0;
}

/* As heap compares them: what is equal, but not the same, is another value. */
bool
rose_entries_refer_change(RoseEntryWriter *writer, const RoseNewVersion *put)
{
	const RoseSchema *schema = writer->table->schema;
	const TableRow *old = writer->old;
	TableRow   *new;
	int			attno = -1;

	if (writer->set->refers == NULL || old == NULL)
		return false;
	new = take_rows(writer, put, 1);
	while ((attno = bms_next_member(writer->set->refers, attno)) >= 0)
	{
		const RoseTupleColumn *column = &schema->tuple_columns[attno - 1];

		if (old->nulls[attno - 1] != new->nulls[attno - 1] ||
			(!old->nulls[attno - 1] &&
			 !datum_image_eq(old->values[attno - 1], new->values[attno - 1], column->attbyval,
							 column->attlen)))
			return true;
	}
	return false;
}

/* ---- entries ---- */

/* Entries of one index on their way in. */
typedef struct EntryBatch
{
	const RoseSchema *table;
	const RoseIndexTree *described;
	const RoseEntryShape *shape;
	RoseTree   *index;
	int			n;
	int			max;
	RoseNewVersion *entries;
	const ComputedEntries *computed;	/* NULL: to be computed */

	/* of a unique index */
	RoseUniqueValues *values;	/* locked; or NULL */
	bool		wait;			/* for others who have taken a value meanwhile */
	RoseKeyState state;			/* not FREE: not locked any more, and nothing more is written ... */
	RoseUniqueValue *taken;		/* ... because of this one */
} EntryBatch;

static int
compare_entries(const void *a, const void *b, void *arg)
{
	const RoseNewVersion *x = a;
	const RoseNewVersion *y = b;
	const RoseSchema *schema = arg;

	return rose_key_compare(schema, x->key, y->key, schema->nkeys);
}

/* The values were let go of: are they still free? */
static void
lock_again(EntryBatch *batch)
{
	for (;;)
	{
		TransactionId xwait;

		CHECK_FOR_INTERRUPTS();
		rose_unique_values_lock(batch->values);
		batch->state = rose_unique_values_look(batch->values, &batch->taken, &xwait);
		if (batch->state == ROSE_KEY_FREE)
			return;
		rose_unique_values_unlock(batch->values);
		if (rose_unique_value_is_over(batch->taken))
			continue;
		if (batch->state == ROSE_KEY_LIVE || !batch->wait)
			return;
		rose_unique_wait(batch->taken->tree, xwait);
	}
}

/* Nothing was written, or not all. */
static void
make_room(EntryBatch *batch, RoseMemPrepared written)
{
	if (batch->values != NULL)
		rose_unique_values_unlock(batch->values);
	ROSE_STOP_POINT("entries-no-room"); /* no lock */
	if (written == ROSE_MEM_NO_ROOM)
		rose_make_room(batch->index);
	CHECK_FOR_INTERRUPTS();
	if (batch->values != NULL)
		lock_again(batch);
}

/* Until all are in. */
static void
write_batch(EntryBatch *batch)
{
	int			done = 0;

	if (batch->n >= ENTRIES_SORT)
		qsort_arg(batch->entries, batch->n, sizeof(RoseNewVersion), compare_entries,
				  batch->index->schema);
	ROSE_STOP_POINT("entries-write");	/* values of unique indexes may be locked; the row is written */
	while (done < batch->n && batch->state == ROSE_KEY_FREE)
	{
		RoseMemPrepared written;

		done += rose_write_entries(batch->index, batch->entries + done, batch->n - done, &written);
		if (done < batch->n)
			make_room(batch, written);
	}
	for (int i = 0; i < batch->n; i++)
		rose_predicate_written(batch->index, batch->entries[i].key);
	batch->n = 0;
}

/* As core says it of a btree. */
void
rose_entries_check_fits(RoseTree *index, const RoseEntry *entry)
{
	const RoseSchema *schema = index->schema;
	Size		total = 0;

	for (int i = 0; i < schema->nkeys; i++)
	{
		int			column = schema->keys[i].def.attno - 1;
		Size		size;

		if (entry->nulls[column])
			continue;
		size = datumGetSize(entry->values[column], schema->keys[i].attbyval, schema->keys[i].attlen);
		total += size;
		if (size > ROSE_ITEM_MAX_SIZE || total > ROSE_KEY_MAX_SIZE)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("index row size %zu exceeds maximum %zu for index \"%s\"",
							Max(size, total),
							(Size) (size > ROSE_ITEM_MAX_SIZE ? ROSE_ITEM_MAX_SIZE : ROSE_KEY_MAX_SIZE),
							RelationGetRelationName(index->rel)),
					 errdetail("A column may have %d bytes, and all of the index's key, with that of the table, %d.",
							   (int) ROSE_ITEM_MAX_SIZE, (int) ROSE_KEY_MAX_SIZE),
					 errhint("Consider an index on a hash of the value, kept in a generated column.")));
	}
}

/*
 * A version of an entry, with the stamps of its row's.  An old entry that is too long is not
 * there: the row is older than the index, whose build beside writers fails, or will.
 */
static void
add_entry(EntryBatch *batch, RoseOp op, const RoseVersion *row, RoseEntry *entry)
{
	RoseTree   *index = batch->index;
	RoseNewVersion *added;

	if (op == ROSE_OP_TOMBSTONE &&
		!rose_component_key_fits(index->schema, entry->values, entry->nulls))
		return;
	if (batch->n == batch->max)
		write_batch(batch);
	added = &batch->entries[batch->n++];
	memset(&added->version, 0, sizeof(RoseVersion));
	added->version.seq = row->seq;
	added->version.xid = row->xid;
	added->version.subxid = row->subxid;
	added->version.cid = row->cid;
	added->version.op = op;
	if (op == ROSE_OP_PUT)
	{
		rose_entries_check_fits(index, entry);
		added->row = rose_new_version_form_row(index, entry->values, entry->nulls, added->key);
		return;
	}
	rose_entry_key(index->schema, entry, added->key);
	added->row = rose_new_version_form_key_row(index, added->key);
	rose_key_from_tuple(index->schema, added->row, 0, added->key);
}

/* Take the entry of a row that a new one hides out of the index, unless the new one's replaces it. */
static void
add_hidden(EntryBatch *batch, const TableRow *hidden, const TableRow *new,
		   const RoseVersion *version)
{
	RoseEntry	hidden_entry;
	RoseEntry	new_entry;

	if (hidden->values == NULL)
		return;
	old_entry_of(batch->described, batch->index->rel, hidden, new, &hidden_entry);
	entry_of(batch->shape, batch->index->rel, ROSE_ENTRY_OF_WRITER, new, &new_entry);
	if (rose_entry_compare(batch->shape, batch->index->schema, &hidden_entry, &new_entry).tombstone)
		add_entry(batch, ROSE_OP_TOMBSTONE, version, &hidden_entry);
}

static void
entries_of_change(const EntryBatch *batch, const TableRow *old, const TableRow *new,
				  RoseEntry *old_entry, RoseEntry *new_entry)
{
	const ComputedEntries *computed = batch->computed;

	Assert(computed != NULL || !batch->shape->evaluates || batch->values == NULL);
	if (computed == NULL)
	{
		old_entry_of(batch->described, batch->index->rel, old, new, old_entry);
		entry_of(batch->shape, batch->index->rel, ROSE_ENTRY_OF_WRITER, new, new_entry);
		return;
	}
	rose_entry_of_none(old_entry);
	rose_entry_of_none(new_entry);
	if (has_row(old))
		*old_entry = computed->old;
	if (!has_row(new))
		return;
	*new_entry = computed->new;
	/* a row of a table without key has got its id when it was written */
	for (int i = 0; new_entry->exists && i < batch->shape->ncolumns; i++)
		if (batch->shape->columns[i].source == ROSE_ENTRY_ROWID)
			new_entry->values[i] = Int64GetDatum(new->rowid);
}

/* What the change of a row writes to an index. */
static void
add_change(EntryBatch *batch, const TableRow *old, const TableRow *new,
		   const RoseVersion *version)
{
	RoseEntry	old_entry;
	RoseEntry	new_entry;
	RoseEntryChange change;

	if (batch->shape->evaluates && is_same_source(batch->table, batch->shape, old, new))
		return;
	entries_of_change(batch, old, new, &old_entry, &new_entry);
	change = rose_entry_compare(batch->shape, batch->index->schema, &old_entry, &new_entry);
	if (change.tombstone)
		add_entry(batch, ROSE_OP_TOMBSTONE, version, &old_entry);
	if (change.put)
		add_entry(batch, ROSE_OP_PUT, version, &new_entry);
}

/* Write the entries of all unique indexes, or of all that have not got theirs yet. */
static void
write_indexes(RoseEntryWriter *writer, const RoseNewVersion *versions, int n, bool unique,
			  EntryBatch *batch)
{
	const RoseIndexSet *set = writer->set;
	TableRow   *rows = take_rows(writer, versions, n);
	TableRow   *hidden = take_hidden_rows(writer, versions, n);

	batch->table = writer->table->schema;
	batch->max = Min(2 * n, ENTRIES_BATCH);
	batch->entries = palloc(batch->max * sizeof(RoseNewVersion));
	for (int i = 0; i < set->n && batch->state == ROSE_KEY_FREE; i++)
	{
		const RoseIndexTree *index = &set->trees[i];
		bool		written = !unique && index->unique && writer->unique_written;
		bool		locked = unique && index->shape.evaluates;

		if ((unique && !index->unique) || (written && !index->shape.evaluates))
			continue;
		batch->index = writer->trees[i + 1];
		batch->described = index;
		batch->shape = &index->shape;
		batch->computed = writer->computed[i];
		for (int j = 0; j < n; j++)
		{
			if (unlikely(hidden != NULL) && !locked)
				add_hidden(batch, &hidden[j], &rows[j], &versions[j].version);
			if (!written)
				add_change(batch, j == 0 ? writer->old : NULL, &rows[j], &versions[j].version);
		}
		if (batch->n > 0)
			write_batch(batch);
	}
}

RoseKeyState
rose_entries_write_unique(RoseEntryWriter *writer, RoseUniqueValues *values,
						  const RoseNewVersion *versions, int n, bool wait,
						  RoseUniqueValue **taken)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose unique entries",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	EntryBatch	batch = {.values = values, .wait = wait, .state = ROSE_KEY_FREE};

	rose_unique_values_note_row(values, versions[n - 1].version.rowid);
	write_indexes(writer, versions, n, true, &batch);
	writer->unique_written = true;
	*taken = batch.taken;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return batch.state;
}

void
rose_entries_write(RoseEntryWriter *writer, const RoseNewVersion *versions, int n)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose entries",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	EntryBatch	batch = {.state = ROSE_KEY_FREE};

	write_indexes(writer, versions, n, false, &batch);
	writer->old = NULL;
	writer->unique_written = false;
	memset(writer->computed, 0, writer->set->n * sizeof(ComputedEntries *));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	rose_pace_writes_of(writer->trees, writer->set->n + 1, n);
}

void
rose_entries_finish(RoseEntryWriter *writer, const RoseNewVersion *versions, int n)
{
	if (n > 0)
		rose_entries_write(writer, versions, n);
	rose_entries_close(writer);
}
