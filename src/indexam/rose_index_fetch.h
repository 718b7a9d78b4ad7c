/*-------------------------------------------------------------------------
 *
 * rose_index_fetch.h
 *	  The indexes of a table, as the table access method knows them.
 *
 * They are two halves of one thing: the primary key's index has no storage, so a scan of
 * it is a scan of the table; and entries of other indexes are written by the table.  The
 * table's side is above the index's: it is told the row or the entry that the scan stands
 * on by RoseIndexFetch, and tells of what aminsert is to find.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_FETCH_H
#define ROSE_INDEX_FETCH_H

#include "postgres.h"

#include "access/relscan.h"
#include "access/tableam.h"

#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_wanted.h"

/*
 * The table side of an index scan; scan->xs_heapfetch of the executor's scan.
 * The index side keeps its state here, because ambeginscan runs before the
 * swap and makes a plain btree scan.
 */
typedef struct RoseIndexScan RoseIndexScan;

typedef struct RoseIndexFetch
{
	IndexFetchTableData base;
	RoseTree   *tree;			/* the table's */
	MemoryContext context;		/* lives as long as the scan */

	/* set by the index side */
	RoseIndexScan *scan;		/* NULL until the first rescan */
	const RoseRow *row;			/* row under the scan, or NULL */
	bool		of_entry;		/* it is the entry of a secondary index: see rose_index_entry_row */
	bool		row_is_shared;	/* it belongs to a cached lookup: good for one fetch */
	bool		key_only;		/* the scan gives index entries: nobody wants more of the row */
	bool		unsure;			/* ... but whether the entry is the row's, only the row tells */
	ItemPointerData tid;		/* its TID; of an entry one that names nothing, until its row is fetched */

	/* set by the table side: in which slot rows are put, and which columns are read of that; NULL: not known */
	TupleTableSlot *slot;
	const RoseWanted *(*wanted) (TupleTableSlot *slot);
} RoseIndexFetch;

/* Give the opened indexes of this rose table rose's routine. */
extern void rose_primary_key_attach(Relation heap);

/* btbuild was called for this index of a rose table. */
extern void rose_primary_key_built(Relation index);

/*
 * Under the scan is an entry: the table's row that it stands for, as the snapshot sees it,
 * and its TID, which is that of the fetch from now on; NULL: there is none, or it has another
 * entry.  *shared: the row is a cached lookup's; else it is good until the scan goes on.
 */
extern const RoseRow *rose_index_entry_row(RoseIndexFetch *fetch, Snapshot snapshot, ItemPointer tid,
										   bool *shared);

/*
 * The next aminserts report the conflict that a speculative insertion met, in this unique
 * index (InvalidOid: the primary key's); NULL: it met none, or has come to its end.
 */
extern void rose_primary_key_set_conflict(Relation heap, const Oid *indexid);

/*
 * The aminsert for the first row that was not inserted raises the error of a duplicate
 * key: rows behind it were not written, and it may have been in part.  At the latest, the
 * commit does, unless that is rolled back.
 */
extern void rose_primary_key_set_duplicate(Relation heap);

/*
 * The TID that such rows have: core wants some valid one to hand to aminsert.  It tells which
 * unique index is to raise the error (InvalidOid: the primary key's).
 */
extern void rose_tid_set_not_inserted(RoseTree *table, Oid indexid, ItemPointer tid);

static inline bool
rose_tid_is_inserted(const ItemPointerData *tid)
{
	return ItemPointerGetBlockNumberNoCheck(tid) != MaxBlockNumber;
}

/* Frees fetch->scan. */
extern void rose_index_scan_free(RoseIndexScan *scan);

#endif							/* ROSE_INDEX_FETCH_H */
