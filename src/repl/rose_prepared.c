/*-------------------------------------------------------------------------
 *
 * rose_prepared.c
 *	  What upstream transactions did that are prepared there, kept until they are committed.
 *
 * An upstream that is asked for two_phase sends a transaction when it is prepared, and COMMIT
 * PREPARED alone if that comes behind where the stream begins.  So its messages have to survive
 * whatever *durable* survives: they are rows of rose.subscription_prepared, in pieces that fit a
 * page, written by the batch in which PREPARE comes.  The first one says what it is.
 *
 * After COMMIT PREPARED they stay until *confirmed* has passed it, for until then the stream may
 * go back to between the two.  That is noted in the rows by the batch which applies them, so it is
 * as true as the batch; whoever goes back behind PREPARE gets, and keeps, all of it anew.
 *
 * A transaction of which nothing came may be one that has only locked rows: then the upstream
 * sends no PREPARE at all, or an empty one.  Or its slot has had another consumer, to whom it came.
 * So when a slot is taken over that is of this kind already, what is prepared then is noted, as
 * rows without pieces, and up to where the upstream's WAL is: a row of its own, of no transaction and number 0.
 *
 * Pieces are of type rose.secret: they have rows of all published tables.
 *
 * Locking: as for rows of tables (README.md, "Who writes what"); written by the worker only, or when there is none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat/rose_compat_varatt.h"
#include "util/rose_release.h"
#include "util/rose_stop_point.h"
#include "repl/rose_prepared.h"
#include "repl/rose_subrows.h"

#define TABLE_NAME	"subscription_prepared"

/* Of messages, in one row, which has to fit a page with what is said of the whole, and the header. */
#define PIECE_BYTES	7808
#define OTHER_BYTES	128

/* Rows of committed ones are looked for so often at most. */
#define LOOK_MS		1000

enum
{
	PREP_SUBID = 1, PREP_XID, PREP_NUMBER, PREP_GID, PREP_LSN, PREP_TIME, PREP_NBYTES, PREP_FINISHED_LSN, PREP_DATA,
	PREP_NATTS = PREP_DATA
};

StaticAssertDecl(PIECE_BYTES + GIDSIZE + OTHER_BYTES <= MaxHeapTupleSize, "a piece fits a page");

/* Rows of one transaction, by the index, in the order of their numbers. */
typedef struct PieceScan
{
	Relation	rel;
	Relation	index;
	Snapshot	snapshot;
	SysScanDesc scan;
} PieceScan;

/* One whose changes are applied, or were, in a batch that was given up: then they are again before that is confirmed. */
typedef struct Finished
{
	TransactionId xid;
	XLogRecPtr	lsn;			/* its end */
} Finished;

/* This worker's, and those that it has found when it began: so nobody has to read large ones that are prepared to find them. */
static Finished *finished = NULL;
static int	nfinished = 0;
static int	maxfinished = 0;
static bool found_finished;
static TimestampTz looked;

/* ---------------------------------------------------------------------
 * Rows
 */

/* NULL: the extension has no such table yet. */
static Relation
open_table(LOCKMODE mode)
{
	Oid			relid = rose_subrows_find(TABLE_NAME);
	Relation	rel = OidIsValid(relid) ? table_open(relid, mode) : NULL;

	if (rel != NULL && RelationGetNumberOfAttributes(rel) != PREP_NATTS)
		rose_release_mismatch(psprintf("\"rose.%s\" has %d columns, but this version of rose works with %d",
									   TABLE_NAME, RelationGetNumberOfAttributes(rel), PREP_NATTS));
	return rel;
}

static Relation
require_table(LOCKMODE mode)
{
	Relation	rel = open_table(mode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"rose.%s\" does not exist", TABLE_NAME),
				 errhint("Update the extension with ALTER EXTENSION rose UPDATE.")));
	return rel;
}

/* Has it rows of a transaction in the order of their numbers?  Those of other indexes are no less, see rose_subrows_check_index. */
static bool
is_of_pieces(Relation index)
{
	const FormData_pg_index *form = index->rd_index;

	return form->indisvalid && form->indisunique && form->indnkeyatts == 3 && form->indkey.values[0] == PREP_SUBID &&
		form->indkey.values[1] == PREP_XID && form->indkey.values[2] == PREP_NUMBER && (index->rd_indoption[2] & INDOPTION_DESC) == 0;
}

/* That of pieces: somebody may have made others, and a REINDEX of it another one. */
static Relation
open_index(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (is_of_pieces(index))
		{
			list_free(indexes);
			return index;
		}
		index_close(index, AccessShareLock);
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("\"rose.%s\" has no index of its rows", TABLE_NAME),
			 errhint("Make it again with CREATE UNIQUE INDEX %s_pkey ON rose.%s (subid, xid, number).", TABLE_NAME, TABLE_NAME)));
}

/* Those of the first nkeys of: subscription, xid, number. */
static void
begin_pieces(PieceScan *ps, LOCKMODE mode, Oid subid, TransactionId xid, int number, int nkeys)
{
	ScanKeyData keys[3];

	ps->rel = require_table(mode);
	ps->index = open_index(ps->rel);
	ps->snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyInit(&keys[0], PREP_SUBID, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(subid));
	ScanKeyInit(&keys[1], PREP_XID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum((int64) xid));
	ScanKeyInit(&keys[2], PREP_NUMBER, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(number));
	ps->scan = systable_beginscan_ordered(ps->rel, ps->index, ps->snapshot, nkeys, keys);
}

static HeapTuple
next_piece(PieceScan *ps)
{
	return systable_getnext_ordered(ps->scan, ForwardScanDirection);
}

/* Locks of rows that were written stay. */
static void
end_pieces(PieceScan *ps, LOCKMODE mode)
{
	systable_endscan_ordered(ps->scan);
	UnregisterSnapshot(ps->snapshot);
	index_close(ps->index, AccessShareLock);
	table_close(ps->rel, mode == AccessShareLock ? mode : NoLock);
}

static Datum
value_of(const PieceScan *ps, HeapTuple tuple, int attno, bool *isnull)
{
	return heap_getattr(tuple, attno, RelationGetDescr(ps->rel), isnull);
}

/* ---------------------------------------------------------------------
 * Keeping
 */

/*
 * Of a name that is longer in this database's encoding than in the upstream's, messages have so many bytes as core keeps,
 * which need not end with a character.
 */
static char *
whole_gid(const char *gid)
{
	int			len = strlen(gid);

	len = pg_mbcliplen(gid, len, Min(len, GIDSIZE - 1));
	(void) pg_verify_mbstr(GetDatabaseEncoding(), gid, len, false);
	return pnstrdup(gid, len);
}

/* The first one, from 1, has what is said of the whole. */
static void
insert_piece(Relation rel, Oid subid, const RosePrepared *prepared, int number, const char *data, int len)
{
	Datum		values[PREP_NATTS];
	bool		nulls[PREP_NATTS] = {0};
	bool		is_first = number <= 1;
	HeapTuple	tuple;

	values[PREP_SUBID - 1] = ObjectIdGetDatum(subid);
	values[PREP_XID - 1] = Int64GetDatum((int64) prepared->xid);
	values[PREP_NUMBER - 1] = Int32GetDatum(number);
	values[PREP_GID - 1] = CStringGetTextDatum(whole_gid(prepared->gid));
	values[PREP_LSN - 1] = LSNGetDatum(prepared->lsn);
	values[PREP_TIME - 1] = TimestampTzGetDatum(prepared->time);
	values[PREP_NBYTES - 1] = Int64GetDatum(prepared->nbytes);
	nulls[PREP_GID - 1] = nulls[PREP_TIME - 1] = nulls[PREP_NBYTES - 1] = !is_first;
	nulls[PREP_LSN - 1] = !is_first || XLogRecPtrIsInvalid(prepared->lsn);
	nulls[PREP_FINISHED_LSN - 1] = true;
	values[PREP_DATA - 1] = PointerGetDatum(cstring_to_text_with_len(data, len));
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
}

void
rose_prepared_keep(Oid subid, const RosePrepared *prepared, RosePreparedRead read, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose prepared transaction", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int64		left = prepared->nbytes;
	int			number = 0;
	Relation	rel;

	rose_prepared_forget(subid, prepared->xid);
	rel = require_table(RowExclusiveLock);
	do
	{
		int			len = Min(left, PIECE_BYTES);
		char	   *data = palloc(PIECE_BYTES);

		CHECK_FOR_INTERRUPTS();
		if (len > 0)
			read(data, len, arg);
		insert_piece(rel, subid, prepared, ++number, data, len);
		left -= len;
		MemoryContextReset(context);
	} while (left > 0);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	ROSE_STOP_POINT("prepared-kept");
}

/* ---------------------------------------------------------------------
 * Reading
 */

pg_noreturn static void
report_incomplete(TransactionId xid, const char *gid)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("rose.%s has not all pieces of prepared transaction \"%s\" (%u)", TABLE_NAME, gid, xid)));
}

/* Is it that transaction?  *nbytes: what its first piece says it has. */
static bool
is_of_gid(const PieceScan *ps, HeapTuple first, const char *gid, int64 *nbytes)
{
	bool		isnull;
	Datum		its_gid = value_of(ps, first, PREP_GID, &isnull);

	if (isnull || strcmp(TextDatumGetCString(its_gid), whole_gid(gid)) != 0)
		return false;
	*nbytes = DatumGetInt64(value_of(ps, first, PREP_NBYTES, &isnull));
	return true;
}

RosePreparedFound
rose_prepared_fetch(Oid subid, TransactionId xid, const char *gid, RosePreparedWrite write, void *arg)
{
	PieceScan	ps;
	HeapTuple	tuple;
	RosePreparedFound result = ROSE_PREPARED_NONE;
	int64		left = 0;
	int			number = 0;

	begin_pieces(&ps, AccessShareLock, subid, xid, 0, 2);
	while ((tuple = next_piece(&ps)) != NULL)
	{
		bool		isnull;
		struct varlena *data;

		CHECK_FOR_INTERRUPTS();
		if (++number == 1)
		{
			if (!is_of_gid(&ps, tuple, gid, &left))
				break;
			result = left < 0 ? ROSE_PREPARED_ELSEWHERE : ROSE_PREPARED_KEPT;
		}
		if (result == ROSE_PREPARED_ELSEWHERE)
			break;
		if (DatumGetInt32(value_of(&ps, tuple, PREP_NUMBER, &isnull)) != number)
			report_incomplete(xid, gid);
		data = (struct varlena *) DatumGetPointer(value_of(&ps, tuple, PREP_DATA, &isnull));
		if (isnull || VARSIZE_ANY_EXHDR(data) > left)
			report_incomplete(xid, gid);
		write(VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data), arg);
		left -= VARSIZE_ANY_EXHDR(data);
	}
	end_pieces(&ps, AccessShareLock);
	if (left > 0)
		report_incomplete(xid, gid);
	return result;
}

/* ---------------------------------------------------------------------
 * Slots that had another consumer
 */

bool
rose_prepared_has_taken_over(Oid subid, const char *slot, XLogRecPtr *lsn)
{
	PieceScan	ps;
	HeapTuple	tuple;
	bool		result = false;

	begin_pieces(&ps, AccessShareLock, subid, InvalidTransactionId, 0, 3);
	if ((tuple = next_piece(&ps)) != NULL)
	{
		bool		isnull;
		Datum		value;
		int64		unused;

		result = is_of_gid(&ps, tuple, slot, &unused);
		value = value_of(&ps, tuple, PREP_LSN, &isnull);
		*lsn = isnull ? InvalidXLogRecPtr : DatumGetLSN(value);
	}
	end_pieces(&ps, AccessShareLock);
	return result;
}

static bool
is_kept(Oid subid, TransactionId xid)
{
	PieceScan	ps;
	bool		result;

	begin_pieces(&ps, AccessShareLock, subid, xid, 1, 3);
	result = next_piece(&ps) != NULL;
	end_pieces(&ps, AccessShareLock);
	return result;
}

void
rose_prepared_take_over(Oid subid, const char *slot, XLogRecPtr lsn, List *elsewhere)
{
	RosePrepared the_slot = {.xid = InvalidTransactionId,.gid = slot,.lsn = lsn,.nbytes = -1};
	Relation	rel;
	ListCell   *lc;

	rose_prepared_forget(subid, InvalidTransactionId);
	rel = require_table(RowExclusiveLock);
	insert_piece(rel, subid, &the_slot, 0, "", 0);
	foreach(lc, elsewhere)
	{
		RosePrepared *prepared = lfirst(lc);

		if (!is_kept(subid, prepared->xid))
			insert_piece(rel, subid, prepared, 1, "", 0);
	}
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

List *
rose_prepared_elsewhere(Oid subid)
{
	RoseRowScan rs;
	List	   *result = NIL;

	if (!rose_subrows_begin(&rs, TABLE_NAME, PREP_NATTS))
		return NIL;
	while (rose_subrows_next(&rs))
		if (DatumGetObjectId(rose_subrows_value(&rs, PREP_SUBID)) == subid &&
			DatumGetInt32(rose_subrows_value(&rs, PREP_NUMBER)) == 1 &&
			DatumGetInt64(rose_subrows_value(&rs, PREP_NBYTES)) < 0 && rose_subrows_isnull(&rs, PREP_FINISHED_LSN))
			result = lappend_oid(result, (TransactionId) DatumGetInt64(rose_subrows_value(&rs, PREP_XID)));
	rose_subrows_end(&rs);
	return result;
}

/* ---------------------------------------------------------------------
 * The end of one
 */

static void
add_finished(TransactionId xid, XLogRecPtr lsn)
{
	if (nfinished == maxfinished)
	{
		maxfinished = Max(maxfinished * 2, 64);
		finished = finished == NULL ? MemoryContextAlloc(TopMemoryContext, sizeof(Finished) * maxfinished) :
			repalloc_huge(finished, sizeof(Finished) * maxfinished);
	}
	finished[nfinished].xid = xid;
	finished[nfinished++].lsn = lsn;
}

void
rose_prepared_finish(Oid subid, TransactionId xid, XLogRecPtr end_lsn)
{
	Datum		values[PREP_NATTS] = {0};
	bool		nulls[PREP_NATTS] = {0};
	bool		set[PREP_NATTS] = {0};
	PieceScan	ps;
	HeapTuple	tuple;

	values[PREP_FINISHED_LSN - 1] = LSNGetDatum(end_lsn);
	set[PREP_FINISHED_LSN - 1] = true;
	begin_pieces(&ps, RowExclusiveLock, subid, xid, 1, 3);
	if ((tuple = next_piece(&ps)) != NULL)
		CatalogTupleUpdate(ps.rel, &tuple->t_self, heap_modify_tuple(tuple, RelationGetDescr(ps.rel), values, nulls, set));
	end_pieces(&ps, RowExclusiveLock);
	CommandCounterIncrement();
	add_finished(xid, end_lsn);
	ROSE_STOP_POINT("prepared-finished");
}

static void
delete_pieces(Oid subid, TransactionId xid, int nkeys)
{
	PieceScan	ps;
	HeapTuple	tuple;

	begin_pieces(&ps, RowExclusiveLock, subid, xid, 0, nkeys);
	while ((tuple = next_piece(&ps)) != NULL)
		CatalogTupleDelete(ps.rel, &tuple->t_self);
	end_pieces(&ps, RowExclusiveLock);
	CommandCounterIncrement();
}

void
rose_prepared_forget(Oid subid, TransactionId xid)
{
	delete_pieces(subid, xid, 2);
}

void
rose_prepared_forget_all(Oid subid)
{
	if (OidIsValid(rose_subrows_find(TABLE_NAME)))
		delete_pieces(subid, InvalidTransactionId, 1);
}

/* Those that workers before this one have left. */
static void
find_finished(Oid subid)
{
	RoseRowScan rs;

	if (!rose_subrows_begin(&rs, TABLE_NAME, PREP_NATTS))
		return;
	while (rose_subrows_next(&rs))
		if (DatumGetObjectId(rose_subrows_value(&rs, PREP_SUBID)) == subid && !rose_subrows_isnull(&rs, PREP_FINISHED_LSN))
			add_finished((TransactionId) DatumGetInt64(rose_subrows_value(&rs, PREP_XID)),
						 DatumGetLSN(rose_subrows_value(&rs, PREP_FINISHED_LSN)));
	rose_subrows_end(&rs);
}

void
rose_prepared_take_up(void)
{
	nfinished = 0;
	found_finished = false;
	looked = 0;
}

bool
rose_prepared_may_be_confirmed(TimestampTz now)
{
	if ((found_finished && nfinished == 0) || !TimestampDifferenceExceeds(looked, now, LOOK_MS))
		return false;
	looked = now;
	return true;
}

void
rose_prepared_forget_confirmed(Oid subid, XLogRecPtr confirmed)
{
	int			nleft = 0;

	if (!found_finished)
		find_finished(subid);
	found_finished = true;
	for (int i = 0; i < nfinished; i++)
	{
		if (finished[i].lsn <= confirmed)
			rose_prepared_forget(subid, finished[i].xid);
		else
			finished[nleft++] = finished[i];
	}
	nfinished = nleft;
}
