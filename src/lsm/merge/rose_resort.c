/*-------------------------------------------------------------------------
 *
 * rose_resort.c
 *	  All that a table has, sorted anew.  See rose_resort.h.
 *
 * One sort for everything: the numbers of a key's versions fall from newer components to
 * older ones, so (key, sequence descending) is the right order for all of them together.
 * What comes out is C2, in pieces.  Versions of private runs and of the tail log are
 * judged as they are read; what has aborted, and row locks, are left out.  Nothing else
 * is: merges know better what nobody needs.
 *
 * A column of text has its bytes for equality, so only the order may have changed.  Not
 * so where a collation is not deterministic, and for types of extensions: keys that were
 * different may be equal now.  Whether the versions of such a key are one row, written in
 * different ways, or several ones is nowhere written down; so as soon as one way of
 * writing it has a row beside another, they are taken for several.
 *
 * No locks of its own.  Writes nothing before rose_resort_write.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_tail.h"
#include "store/rose_tail_replay.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_resort.h"
#include "lsm/merge/rose_sorted_pieces.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/merge/rose_tree_check.h"
#include "lsm/merge/rose_version_sort.h"

struct RoseResort
{
	MemoryContext context;
	MemoryContext row_context;
	RoseSchema *schema;			/* of the table as it was */
	bool		rows_only;
	bool		bytes_decide;	/* equal keys have equal bytes */
	RoseVersionSort *sort;
	Datum	   *values;			/* of the version that is put into it */
	bool	   *nulls;
	TupleTableSlot *out;		/* the version that has come out of it ... */
	RoseVersion version;		/* ... which this is; present points into it */
	uint64		nversions;
	uint64		nblocks;		/* of the components that were read */
	uint64		next_seq;
	uint64		max_xid;		/* of their manifest entries */

	/* what became of a transaction, for the last one */
	FullTransactionId judged_xid;
	TransactionId judged_subxid;
	bool		judged_committed;

	int			tail_natts;		/* columns of the tail log's rows at hand */

	/* rows_only: the row at hand */
	RoseKeyBuffer key;
	bool		decided;		/* it is known, or there is none */
	MemoryContext fold_context;
	Datum	   *fold_values;
	bool	   *fold_nulls;
	bits8	   *have;
};

/* ---- is it needed? ---- */

/* RoseProblemCallback */
static void
count_problem(void *arg, BlockNumber block, const char *message)
{
	++*(uint64 *) arg;
}

static bool
equality_is_fixed(const RoseSchema *schema)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];

	for (int i = 0; i < schema->nkeys; i++)
		keys[i] = schema->keys[i].def;
	return rose_key_equality_is_fixed(schema->tupdesc, schema->nkeys, keys);
}

bool
rose_resort_is_needless(RoseTree *tree)
{
	RoseView   *view = rose_view_present(tree);
	uint64		nproblems = 0;

	if (!equality_is_fixed(tree->schema))
		return false;
	for (int i = 0; i < view->manifest.ncomponents && nproblems == 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rose_component_check(rose_view_component(view, i), tree->rel, tree->schema,
							 rose_view_entry(view, i)->first_ordinal, count_problem, &nproblems);
	}
	if (nproblems == 0)
		rose_tree_check_pieces(tree, count_problem, &nproblems);
	return nproblems == 0;
}

/* ---- in ---- */

static int64
hash_spelling(const RoseSchema *schema, const Datum *values, const bool *nulls)
{
	uint64		hash = 0;

	for (int i = 0; i < schema->nkeys; i++)
	{
		AttrNumber	attno = schema->keys[i].def.attno;

		if (!nulls[attno - 1])
			hash = hash * 31 + datum_image_hash(values[attno - 1], schema->keys[i].attbyval,
												schema->keys[i].attlen);
	}
	return (int64) hash;
}

/* A bitmap of as many columns as the table has now; in the current context. */
static const bits8 *
widen_present(const RoseSchema *schema, const bits8 *present, int natts)
{
	bits8	   *result = palloc0(ROSE_PRESENT_BYTES(schema->natts));

	for (AttrNumber attno = 1; attno <= Min(natts, schema->natts); attno++)
		if (rose_present_test(present, attno))
			rose_present_set(result, attno);
	return result;
}

/* natts: columns of the version's presence bitmap. */
static void
put_version(RoseResort *resort, const RoseRow *row, int natts)
{
	const RoseSchema *schema = resort->schema;
	RoseVersion version = row->version;
	MemoryContext old;

	MemoryContextReset(resort->row_context);
	old = MemoryContextSwitchTo(resort->row_context);
	rose_row_deform(row, schema, 1, schema->natts, resort->values, resort->nulls);
	for (AttrNumber attno = 1; version.op != ROSE_OP_PUT && attno <= schema->natts; attno++)
	{
		if (version.present ? attno > natts || !rose_present_test(version.present, attno)
			: !rose_schema_is_key_column(schema, attno))
			resort->nulls[attno - 1] = true;
	}
	if (version.present)
		version.present = widen_present(schema, version.present, natts);
	version.subxid = InvalidTransactionId;
	version.cid = 0;
	rose_version_sort_put(resort->sort, &version, resort->values, resort->nulls,
						  resort->rows_only ? hash_spelling(schema, resort->values, resort->nulls) : 0);
	MemoryContextSwitchTo(old);
	resort->nversions++;
	resort->next_seq = Max(resort->next_seq, version.seq + 1);
}

/* Is it one that counts?  Of a private run, or of the tail log. */
static bool
is_committed(RoseResort *resort, const RoseVersion *version)
{
	if (version->op == ROSE_OP_LOCK)
		return false;
	if (FullTransactionIdEquals(version->xid, resort->judged_xid) &&
		version->subxid == resort->judged_subxid)
		return resort->judged_committed;
	switch (rose_version_status(version))
	{
		case ROSE_XID_COMMITTED:
			resort->judged_committed = true;
			break;
		case ROSE_XID_ABORTED:
			resort->judged_committed = false;
			break;
		case ROSE_XID_OWN:
		case ROSE_XID_IN_PROGRESS:
			elog(ERROR, "transaction " UINT64_FORMAT " has rows of the table and is in progress",
				 U64FromFullTransactionId(version->xid));
	}
	resort->judged_xid = version->xid;
	resort->judged_subxid = version->subxid;
	return resort->judged_committed;
}

static void
read_component(RoseResort *resort, RoseView *view, int index)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(view, index);
	bool		private_run = (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
	RoseComponentCursor *cursor;

	resort->nblocks += entry->nblocks;
	resort->next_seq = Max(resort->next_seq, entry->max_seq + 1);
	/* what was left out before counts on */
	resort->max_xid = Max(resort->max_xid, entry->max_xid);
	/* it may have columns that never came to be */
	if (private_run && rose_private_state(view->tree, entry) == ROSE_PRIVATE_ABORTED)
		return;
	cursor = rose_component_cursor_create(rose_view_component(view, index), view->tree->rel,
										  resort->schema, GetAccessStrategy(BAS_BULKREAD),
										  resort->context);
	rose_component_cursor_set_first(cursor, entry->first_ordinal);
	for (bool found = rose_component_cursor_first(cursor); found;
		 found = rose_component_cursor_next(cursor))
	{
		const RoseRow *row = rose_component_cursor_row(cursor);

		CHECK_FOR_INTERRUPTS();
		if (!private_run || is_committed(resort, &row->version))
			put_version(resort, row, resort->schema->natts);
	}
	rose_component_cursor_free(cursor);
}

static void
read_record(RoseResort *resort, const RoseTailRecord *record)
{
	RoseRow		row = {0};

	CHECK_FOR_INTERRUPTS();
	resort->next_seq = Max(resort->next_seq, record->version.seq + 1);
	if (!is_committed(resort, &record->version))
		return;
	row.version = record->version;
	row.tuple = record->row;
	put_version(resort, &row, resort->tail_natts);
}

/* RoseTailLayoutCallback */
static void
note_tail_layout(void *arg, const RoseLayout *layout)
{
	RoseResort *resort = arg;

	resort->tail_natts = layout->natts;
}

static void
read_tail(RoseResort *resort, Relation rel)
{
	RoseTailReader *reader;
	RoseTailRecord record;

	resort->tail_natts = resort->schema->natts;
	reader = rose_tail_reader_create(rel, resort->tail_natts, note_tail_layout, resort,
									 resort->context);
	while (rose_tail_reader_next(reader, &record))
		read_record(resort, &record);
	rose_tail_reader_free(reader);
}

RoseResort *
rose_resort_begin(RoseTree *tree, bool rows_only)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose resort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseView   *view = rose_view_present(tree);
	RoseResort *resort = palloc0(sizeof(RoseResort));
	RoseMetaInfo meta;

	resort->context = context;
	resort->fold_context = AllocSetContextCreate(context, "rose resort partial row",
												 ALLOCSET_SMALL_SIZES);
	resort->row_context = AllocSetContextCreate(context, "rose resort row",
												ALLOCSET_DEFAULT_SIZES);
	resort->schema = rose_schema_copy(tree->schema, context);
	resort->rows_only = rows_only;
	resort->bytes_decide = equality_is_fixed(resort->schema);
	rose_key_buffer_init(&resort->key, context);
	rose_meta_read(tree->rel, &meta);
	resort->next_seq = Max(meta.next_seq, ROSE_SEQ_FIRST);
	resort->sort = rose_version_sort_begin(resort->schema, rows_only, maintenance_work_mem);
	resort->values = palloc(resort->schema->natts * sizeof(Datum));
	resort->nulls = palloc(resort->schema->natts * sizeof(bool));
	for (int i = 0; i < view->manifest.ncomponents; i++)
		read_component(resort, view, i);
	read_tail(resort, tree->rel);
	rose_version_sort_perform(resort->sort);
	ROSE_STOP_POINT("resort-sorted");
	MemoryContextSwitchTo(old);
	return resort;
}

void
rose_resort_end(RoseResort *resort)
{
	rose_version_sort_end(resort->sort);
	MemoryContextDelete(resort->context);
}

/* ---- out ---- */

/* The next version in out and version; its key. */
static bool
next_version(RoseResort *resort, Datum *key)
{
	resort->out = rose_version_sort_next(resort->sort, &resort->version);
	if (resort->out == NULL)
		return false;
	rose_key_from_values(resort->schema, resort->out->tts_values, 0, key);
	return true;
}

static bool
same_key(const RoseSchema *schema, const Datum *a, const Datum *b)
{
	return rose_key_compare(schema, a, b, schema->nkeys) == 0;
}

static bool
same_spelling(const RoseSchema *schema, const Datum *a, const Datum *b)
{
	for (int i = 0; i < schema->nkeys; i++)
		if (!datum_image_eq(a[i], b[i], schema->keys[i].attbyval, schema->keys[i].attlen))
			return false;
	return true;
}

/* The new file's pieces, one after the other. */
typedef struct ResortOutput
{
	RoseResort *resort;
	RoseSortedPieces *pieces;
	RoseKeyBuffer key;
	uint64		seq;			/* of the last version */

	/* ways in which the key at hand is written */
	MemoryContext spelling_context;
	List	   *spellings;		/* of Datum arrays */
} ResortOutput;

/*
 * Is the version of a row beside another one with an equal key?  It is the first of a way
 * of writing the key, not the newest one of the key, and no tombstone.
 */
static bool
is_duplicate(ResortOutput *output, const Datum *key)
{
	const RoseSchema *schema = output->resort->schema;
	MemoryContext old;
	ListCell   *lc;
	Datum	   *spelling;

	foreach(lc, output->spellings)
	{
		if (same_spelling(schema, lfirst(lc), key))
			return false;
	}
	if (output->spellings != NIL && output->resort->version.op != ROSE_OP_TOMBSTONE)
		return true;
	old = MemoryContextSwitchTo(output->spelling_context);
	spelling = palloc(schema->nkeys * sizeof(Datum));
	rose_key_copy(schema, spelling, key, output->spelling_context);
	output->spellings = lappend(output->spellings, spelling);
	MemoryContextSwitchTo(old);
	return false;
}

static void
begin_key(ResortOutput *output, const Datum *key)
{
	rose_key_buffer_set(&output->key, output->resort->schema, key);
	output->spellings = NIL;
	MemoryContextReset(output->spelling_context);
	rose_sorted_pieces_next_key(output->pieces);
}

static ResortOutput *
begin_output(RoseResort *resort, RoseTree *tree)
{
	ResortOutput *output = palloc0(sizeof(ResortOutput));

	output->resort = resort;
	output->spelling_context = AllocSetContextCreate(resort->context, "rose resort spellings",
													 ALLOCSET_SMALL_SIZES);
	output->pieces = rose_sorted_pieces_begin(tree, resort->nversions, resort->nblocks,
											  resort->next_seq, resort->max_xid);
	rose_key_buffer_init(&output->key, resort->context);
	return output;
}

uint64
rose_resort_write(RoseResort *resort, RoseTree *tree, RoseResortDuplicate duplicate, void *arg)
{
	MemoryContext old = MemoryContextSwitchTo(resort->context);
	ResortOutput *output = begin_output(resort, tree);
	uint64		nrows = 0;
	Datum		key[INDEX_MAX_KEYS];

	Assert(!resort->rows_only);
	while (next_version(resort, key))
	{
		bool		again = output->key.valid &&
			same_key(resort->schema, output->key.key, key);

		/* a spill or a merge that was cut short has left it twice */
		if (again && resort->version.seq == output->seq && output->seq != ROSE_SEQ_OLDEST)
			continue;
		if (!again)
			begin_key(output, key);
		if (!resort->bytes_decide && is_duplicate(output, key))
			duplicate(arg, resort->out);
		rose_sorted_pieces_add(output->pieces, &resort->version, resort->out->tts_values,
							   resort->out->tts_isnull);
		output->seq = resort->version.seq;
		nrows++;
	}
	rose_sorted_pieces_finish(output->pieces);
	MemoryContextSwitchTo(old);
	return nrows;
}

/* ---- rows ---- */

static void
begin_fold(RoseResort *resort)
{
	int			natts = resort->schema->natts;

	MemoryContextReset(resort->fold_context);
	resort->fold_values = MemoryContextAllocZero(resort->fold_context, natts * sizeof(Datum));
	resort->fold_nulls = MemoryContextAllocZero(resort->fold_context, natts * sizeof(bool));
	resort->have = MemoryContextAllocZero(resort->fold_context, ROSE_PRESENT_BYTES(natts));
}

/* Take the columns that the version has and nobody newer gave. */
static void
fold_version(RoseResort *resort)
{
	const RoseSchema *schema = resort->schema;
	MemoryContext old = MemoryContextSwitchTo(resort->fold_context);

	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, attno - 1);

		if (rose_present_test(resort->have, attno) ||
			(resort->version.present && !rose_present_test(resort->version.present, attno)))
			continue;
		resort->fold_nulls[attno - 1] = resort->out->tts_isnull[attno - 1];
		if (!resort->fold_nulls[attno - 1])
			resort->fold_values[attno - 1] = datumCopy(resort->out->tts_values[attno - 1],
													   att->attbyval, att->attlen);
		rose_present_set(resort->have, attno);
	}
	MemoryContextSwitchTo(old);
}

/* Is the row whole with this version?  Its values then. */
static bool
take_version(RoseResort *resort, bool first, Datum *values, bool *nulls)
{
	Size		natts = resort->schema->natts;
	bool		whole = resort->version.op == ROSE_OP_PUT;

	resort->decided = resort->version.op != ROSE_OP_PARTIAL;
	if (resort->version.op == ROSE_OP_TOMBSTONE)
		return false;
	if (first && whole)
	{
		memcpy(values, resort->out->tts_values, natts * sizeof(Datum));
		memcpy(nulls, resort->out->tts_isnull, natts * sizeof(bool));
		return true;
	}
	if (first)
		begin_fold(resort);
	fold_version(resort);
	if (whole)
	{
		memcpy(values, resort->fold_values, natts * sizeof(Datum));
		memcpy(nulls, resort->fold_nulls, natts * sizeof(bool));
	}
	return whole;
}

bool
rose_resort_next_row(RoseResort *resort, Datum *values, bool *nulls)
{
	Datum		key[INDEX_MAX_KEYS];

	Assert(resort->rows_only);
	while (next_version(resort, key))
	{
		bool		first = !resort->key.valid ||
			!same_key(resort->schema, resort->key.key, key) ||
			!same_spelling(resort->schema, resort->key.key, key);

		if (!first && resort->decided)
			continue;
		if (first)
			rose_key_buffer_set(&resort->key, resort->schema, key);
		if (take_version(resort, first, values, nulls))
			return true;
	}
	return false;
}
