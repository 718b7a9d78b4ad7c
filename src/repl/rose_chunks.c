/*-------------------------------------------------------------------------
 *
 * rose_chunks.c
 *	  Which pieces of a table's copy there are, in the catalog.
 *
 * A row in rose.subscription_copy for a table, and one in rose.subscription_piece for each piece.  A piece's row says that it is there in
 * the transaction that writes its rows (rose_copy_chunks.c), so the two never disagree.
 *
 * When the pieces have become the table's, their rows go, and the table's stays if the pieces are of several snapshots: until
 * the stream has passed the last one, the table's rows are of no one position.
 *
 * Locking: as for the rows of tables (README.md, "Who writes what").  Each piece's row is written by who copies it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/pg_lsn.h"

#include "repl/rose_chunks.h"
#include "repl/rose_repl.h"
#include "repl/rose_staging.h"
#include "repl/rose_subrows.h"

#define COPY_TABLE	"subscription_copy"
#define PIECE_TABLE "subscription_piece"

enum
{
	COPY_SUBID = 1, COPY_RELID, COPY_MADE, COPY_FIRST_LSN, COPY_EXACT_LSN, COPY_UPSTREAM, COPY_DEMANDS, COPY_BROKEN,
	COPY_NATTS = COPY_BROKEN
};

enum
{
	PIECE_SUBID = 1, PIECE_RELID, PIECE_NUMBER, PIECE_CONDITION, PIECE_LSN, PIECE_ROWS, PIECE_BYTES,
	PIECE_NATTS = PIECE_BYTES
};

bool
rose_chunks_can(void)
{
	RoseRowScan rs;

	if (!rose_subrows_begin(&rs, PIECE_TABLE, PIECE_NATTS))
		return false;
	rose_subrows_end(&rs);
	return true;
}

/* ---------------------------------------------------------------------
 * Reading
 */

/* What read makes of each row of a table; an invalid subid or relid: of any.  snapshot: NULL is that of now. */
static List *
read_rows(const char *table, int natts, Oid subid, Oid relid, Snapshot snapshot, void *(*read) (const RoseRowScan *rs))
{
	RoseRowScan rs;
	List	   *result = NIL;

	if (!rose_subrows_begin_as_of(&rs, table, natts, snapshot))
		return NIL;
	while (rose_subrows_next(&rs))
	{
		if ((!OidIsValid(subid) || DatumGetObjectId(rose_subrows_value(&rs, 1)) == subid) &&
			(!OidIsValid(relid) || DatumGetObjectId(rose_subrows_value(&rs, 2)) == relid))
			result = lappend(result, read(&rs));
	}
	rose_subrows_end(&rs);
	return result;
}

static void *
read_piece(const RoseRowScan *rs)
{
	RoseChunk  *chunk = palloc0(sizeof(RoseChunk));

	chunk->number = DatumGetInt32(rose_subrows_value(rs, PIECE_NUMBER));
	chunk->condition = TextDatumGetCString(rose_subrows_value(rs, PIECE_CONDITION));
	if (rose_subrows_isnull(rs, PIECE_LSN))
		return chunk;
	chunk->lsn = DatumGetLSN(rose_subrows_value(rs, PIECE_LSN));
	chunk->rows = DatumGetInt64(rose_subrows_value(rs, PIECE_ROWS));
	chunk->bytes = DatumGetInt64(rose_subrows_value(rs, PIECE_BYTES));
	return chunk;
}

static void *
read_copy(const RoseRowScan *rs)
{
	RoseChunks *result = palloc0(sizeof(RoseChunks));

	result->subid = DatumGetObjectId(rose_subrows_value(rs, COPY_SUBID));
	result->made = DatumGetObjectId(rose_subrows_value(rs, COPY_MADE));
	result->first_lsn = DatumGetLSN(rose_subrows_value(rs, COPY_FIRST_LSN));
	result->exact_lsn = DatumGetLSN(rose_subrows_value(rs, COPY_EXACT_LSN));
	result->upstream = TextDatumGetCString(rose_subrows_value(rs, COPY_UPSTREAM));
	result->demands = TextDatumGetCString(rose_subrows_value(rs, COPY_DEMANDS));
	return result;
}

/* What is known of the table by it. */
static void *
read_known(const RoseRowScan *rs)
{
	RoseSubscriptionTable *known = palloc0(sizeof(RoseSubscriptionTable));

	known->relid = DatumGetObjectId(rose_subrows_value(rs, COPY_RELID));
	known->broken = DatumGetBool(rose_subrows_value(rs, COPY_BROKEN));
	if (OidIsValid(DatumGetObjectId(rose_subrows_value(rs, COPY_MADE))))
		known->pieces_lsn = DatumGetLSN(rose_subrows_value(rs, COPY_FIRST_LSN));
	else
		known->exact_lsn = DatumGetLSN(rose_subrows_value(rs, COPY_EXACT_LSN));
	return known;
}

static List *
read_copies(Oid subid, Oid relid)
{
	return read_rows(COPY_TABLE, COPY_NATTS, subid, relid, NULL, read_copy);
}

static int
compare_numbers(const ListCell *a, const ListCell *b)
{
	return ((RoseChunk *) lfirst(a))->number - ((RoseChunk *) lfirst(b))->number;
}

RoseChunks *
rose_chunks_get(Oid subid, Oid relid)
{
	List	   *copies = read_copies(subid, relid);
	RoseChunks *result;

	if (copies == NIL)
		return NULL;
	result = llast(copies);
	result->chunks = read_rows(PIECE_TABLE, PIECE_NATTS, subid, relid, NULL, read_piece);
	list_sort(result->chunks, compare_numbers);
	return result;
}

static const RoseSubscriptionTable *
find_table(List *tables, Oid relid)
{
	static const RoseSubscriptionTable none = {0};
	ListCell   *lc;

	foreach(lc, tables)
	{
		const RoseSubscriptionTable *table = lfirst(lc);

		if (table->relid == relid)
			return table;
	}
	return &none;
}

void
rose_chunks_tell_tables(Oid subid, List *tables, Snapshot snapshot)
{
	List	   *known = tables != NIL ? read_rows(COPY_TABLE, COPY_NATTS, subid, InvalidOid, snapshot, read_known) : NIL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);
		const RoseSubscriptionTable *of_it = find_table(known, table->relid);

		table->broken = of_it->broken;
		table->pieces_lsn = of_it->pieces_lsn;
		table->exact_lsn = of_it->exact_lsn;
	}
}

/* ---------------------------------------------------------------------
 * Writing
 */

void
rose_chunks_note(Oid subid, Oid relid, const RoseChunks *chunks)
{
	RoseRowEdit row = {0};
	ListCell   *lc;

	rose_row_set(&row, COPY_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, COPY_RELID, ObjectIdGetDatum(relid));
	rose_row_set(&row, COPY_MADE, ObjectIdGetDatum(chunks->made));
	rose_row_set(&row, COPY_FIRST_LSN, LSNGetDatum(chunks->first_lsn));
	rose_row_set(&row, COPY_EXACT_LSN, LSNGetDatum(chunks->exact_lsn));
	rose_row_set_text(&row, COPY_UPSTREAM, chunks->upstream);
	rose_row_set_text(&row, COPY_DEMANDS, chunks->demands);
	rose_row_set(&row, COPY_BROKEN, BoolGetDatum(false));
	rose_subrows_insert(COPY_TABLE, &row);
	foreach(lc, chunks->chunks)
	{
		const RoseChunk *chunk = lfirst(lc);
		RoseRowEdit piece = {0};

		rose_row_set(&piece, PIECE_SUBID, ObjectIdGetDatum(subid));
		rose_row_set(&piece, PIECE_RELID, ObjectIdGetDatum(relid));
		rose_row_set(&piece, PIECE_NUMBER, Int32GetDatum(chunk->number));
		rose_row_set_text(&piece, PIECE_CONDITION, chunk->condition);
		rose_subrows_insert(PIECE_TABLE, &piece);
	}
}

void
rose_chunks_set_positions(Oid subid, Oid relid, XLogRecPtr first_lsn, XLogRecPtr exact_lsn)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, COPY_FIRST_LSN, LSNGetDatum(first_lsn));
	rose_row_set(&row, COPY_EXACT_LSN, LSNGetDatum(exact_lsn));
	rose_subrows_update(COPY_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

void
rose_chunks_set_done(Oid subid, Oid relid, const RoseChunk *chunk)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, PIECE_LSN, LSNGetDatum(chunk->lsn));
	rose_row_set(&row, PIECE_ROWS, Int64GetDatum((int64) chunk->rows));
	rose_row_set(&row, PIECE_BYTES, Int64GetDatum((int64) chunk->bytes));
	rose_subrows_update(PIECE_TABLE, (RoseRowKey) {.subid = subid,.relid = relid,.number = chunk->number}, &row);
}

void
rose_chunks_set_switched(Oid subid, Oid relid)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, COPY_MADE, ObjectIdGetDatum(InvalidOid));
	rose_subrows_update(COPY_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
	rose_subrows_delete(PIECE_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid));
}

void
rose_chunks_set_broken(Oid subid, Oid relid)
{
	RoseRowEdit row = {0};

	rose_row_set(&row, COPY_BROKEN, BoolGetDatum(true));
	rose_subrows_update(COPY_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
}

/* With the relations of those that have not become the table's. */
static void
forget(List *copies, Oid relid)
{
	ListCell   *lc;

	foreach(lc, copies)
	{
		const RoseChunks *copy = lfirst(lc);

		if (OidIsValid(copy->made))
			rose_staging_drop(copy->made);
		rose_subrows_delete(PIECE_TABLE, ROSE_SUBROWS_OF_TABLE(copy->subid, relid));
		rose_subrows_delete(COPY_TABLE, ROSE_SUBROWS_OF_TABLE(copy->subid, relid));
	}
}

void
rose_chunks_forget(Oid subid, Oid relid)
{
	forget(read_copies(subid, relid), relid);
}

void
rose_chunks_forget_table(Oid relid)
{
	forget(read_copies(InvalidOid, relid), relid);
}
