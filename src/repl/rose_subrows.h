/*-------------------------------------------------------------------------
 *
 * rose_subrows.h
 *	  Reading and writing rows of the tables of subscriptions.
 *
 * What the rows mean is rose_subscription.c's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SUBROWS_H
#define ROSE_SUBROWS_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tableam.h"
#include "access/xlogdefs.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/* Does the relation belong to the extension? */
extern bool rose_subrows_is_table(Oid relid);

/* Somebody makes an index on a relation, pg_index being its row there: an error if rows of the extension's could not be written with it any more. */
extern void rose_subrows_check_index(HeapTuple pg_index);

/* ---- reading ---- */

/* rose.<table>; InvalidOid: the extension is not installed, or of before it. */
extern Oid	rose_subrows_find(const char *table);

typedef struct RoseRowScan
{
	Relation	rel;
	Snapshot	snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;
} RoseRowScan;

/*
 * All rows of rose.<table>, which has so many columns; false: there is no such table, as
 * the extension is not installed.
 */
extern bool rose_subrows_begin(RoseRowScan *rs, const char *table, int natts);

/* Those that a snapshot sees, for who reads several tables that must agree.  NULL: of now, as the other one. */
extern bool rose_subrows_begin_as_of(RoseRowScan *rs, const char *table, int natts, Snapshot snapshot);
extern bool rose_subrows_next(RoseRowScan *rs);
extern void rose_subrows_end(RoseRowScan *rs);

/* Columns count from 1. */
static inline Datum
rose_subrows_value(const RoseRowScan *rs, int attno)
{
	return rs->slot->tts_values[attno - 1];
}

static inline bool
rose_subrows_isnull(const RoseRowScan *rs, int attno)
{
	return rs->slot->tts_isnull[attno - 1];
}

/* ---- writing ---- */

/* The most columns that one of the tables has. */
#define ROSE_ROW_MAX_COLUMNS	24

/* A row to insert, with NULL where nothing is set, or what an update sets.  Begin with zeros. */
typedef struct RoseRowEdit
{
	Datum		values[ROSE_ROW_MAX_COLUMNS];
	bool		nulls[ROSE_ROW_MAX_COLUMNS];
	bool		set[ROSE_ROW_MAX_COLUMNS];
} RoseRowEdit;

extern void rose_row_set(RoseRowEdit *row, int attno, Datum value);
extern void rose_row_set_null(RoseRowEdit *row, int attno);
extern void rose_row_set_text(RoseRowEdit *row, int attno, const char *value);	/* NULL: NULL */
extern void rose_row_set_lsn(RoseRowEdit *row, int attno, XLogRecPtr lsn);	/* invalid: NULL */

/* Which rows: the first column of all tables is a subscription's id, the second of some a table's, the third of one a number. */
typedef struct RoseRowKey
{
	Oid			subid;
	Oid			relid;			/* invalid: any */
	int			number;			/* 0: any */
} RoseRowKey;

#define ROSE_SUBROWS_OF(s)				((RoseRowKey) {.subid = (s), .relid = InvalidOid})
#define ROSE_SUBROWS_OF_TABLE(s, r)	((RoseRowKey) {.subid = (s), .relid = (r)})

/* Each needs a transaction; what they did is visible to the commands that follow. */
extern void rose_subrows_insert(const char *table, RoseRowEdit *row);
extern void rose_subrows_update(const char *table, RoseRowKey key, RoseRowEdit *row);
extern void rose_subrows_delete(const char *table, RoseRowKey key);

/* Another lock than the next one, in this mode; none if there is no such table. */
extern void rose_subrows_lock_writes(const char *table, Oid subid, LOCKMODE mode);

/* Until the transaction ends, nobody else has this lock for a row with that id, which need not exist. */
extern void rose_subrows_lock(const char *table, Oid subid);
extern bool rose_subrows_try_lock(const char *table, Oid subid);	/* false: somebody has it */

#endif							/* ROSE_SUBROWS_H */
