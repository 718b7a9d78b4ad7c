/*-------------------------------------------------------------------------
 *
 * rose_batch.h
 *	  Rows of a table for who takes many of them, column by column.
 *
 * A batch is some rows that the snapshot sees: whole ones, and the newest of their keys.
 * Nobody above looks at versions.  Rows are named by numbers, 0 to nrows - 1; not all of
 * them need take part (include).  A batch is a leaf, a batch of a memtable's rows, rows
 * picked from several of both, or a few rows that were found one by one: who takes it
 * does not see the difference, but in time.
 *
 * A batch may be one of a leaf that was not read yet.  It is read when a value is asked
 * for, so who only counts reads none.
 *
 * How long things live: a batch, and what its values by reference point to, until the next call of
 * rose_batches_next, _rescan or _end.  Arrays are the caller's, and may be used again for
 * the next rows at once.
 *
 * MVCC snapshots only, and forward only.  Predicate locks of SERIALIZABLE transactions are taken here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BATCH_H
#define ROSE_BATCH_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_interval.h"
#include "lsm/read/rose_key_quals.h"

/* Row numbers fit uint16. */
#define ROSE_BATCH_MAX_ROWS	65535

/* The caller's; what is private is only there to have no call for a batch. */
typedef struct RoseBatch
{
	int			nrows;			/* > 0 */
	int			nincluded;		/* > 0 */
	const uint64 *include;		/* bit i % 64 of word i / 64: row i takes part; NULL: all do */

	/* private to rose_batch.c */
	struct RoseBatches *owner;
	RoseRows   *rows;			/* rows first ... of these; NULL: the owner's gathered ones */
	int			first;
	uint64		first_tid;
} RoseBatch;

typedef struct RoseBatchRequest
{
	const RoseKeyQuals *keys;	/* rows that meet these conditions; NULL: all rows */
	const Bitmapset *columns;	/* attribute numbers (from 1) of which many values will be asked for */
	bool		named;			/* rose_batch_tid will be asked for */
	bool		ordered;		/* rows in the order of keys.  False is for queries that only read: who locks or
								 * changes rows could wait for others who do so in another order */
	bool		bulk;			/* keep little of it in the buffer cache */
	RoseIntervals *intervals;	/* parallel: rows of those that this process gets, in order; NULL: all rows */
} RoseBatchRequest;

/* What was done so far, since begin. */
typedef struct RoseBatchCounts
{
	uint64		leaves;			/* batches that were leaves, or parts of one */
	uint64		unread_leaves;	/* ... of which no value was asked for */
	uint64		memory;			/* that were a memtable's rows */
	uint64		woven;			/* rows picked from several sources */
	uint64		single;			/* rows found one by one */
} RoseBatchCounts;

typedef struct RoseBatches RoseBatches;

/*
 * Memory in a child of the current context.  tree, request->keys (until the next rescan) and request->columns
 * must stay.
 */
extern RoseBatches *rose_batches_begin(RoseTree *tree, Snapshot snapshot, const RoseBatchRequest *request);

/* The next batch, which has a row at least; false: there is none, and will be none before a rescan. */
extern bool rose_batches_next(RoseBatches *batches, RoseBatch *batch);

/*
 * How many rows there are, if that is known without reading them: then there is no next batch.  Before the first one
 * is asked for; false: ask for them.
 */
extern bool rose_batches_count(RoseBatches *batches, uint64 *rows);

/* Start over, with these keys (NULL: all rows) and intervals (NULL: all rows). */
extern void rose_batches_rescan(RoseBatches *batches, const RoseKeyQuals *keys,
								RoseIntervals *intervals);
extern void rose_batches_end(RoseBatches *batches);
extern const RoseBatchCounts *rose_batches_counts(const RoseBatches *batches);

/*
 * A column (attribute number, from 1) of rows [first, first + n), whether they take part or not: values[i] and
 * nulls[i] are of row first + i.  The value of a NULL is 0.  Returns whether there is a NULL.  Dropped columns are NULL; columns
 * that were added since have what older rows have of them.
 */
extern bool rose_batch_datums(RoseBatch *batch, AttrNumber attno, int first, int n,
							  Datum *values, bool *nulls);

/*
 * The same of a column that is passed by value, as words: what is in the column's width
 * (attlen), with its sign.  So integers, dates, times, bool, "char" and money are in the
 * order of words; oids are not; floats are their bits.
 */
extern bool rose_batch_words(RoseBatch *batch, AttrNumber attno, int first, int n,
							 int64 *words, bool *nulls);

/*
 * A column that is passed by value as runs of rows with one value, if that is how it is stored and none is NULL: rows from
 * first + starts[k] on have values[k], neighbours perhaps the same; starts[0] is 0.  Returns how many runs there are; 0: it is not, or
 * there are more than max_runs.
 */
extern int	rose_batch_runs(RoseBatch *batch, AttrNumber attno, int first, int n, int max_runs,
							int64 *values, uint16 *starts);

/*
 * Least and greatest of a column of integers, or another one that has rose_batch_words' order, in rows [first, first + n), if that is known without having their values,
 * and none is NULL; false: it is not.
 */
extern bool rose_batch_extremes(RoseBatch *batch, AttrNumber attno, int first, int n, int64 *min, int64 *max);

/*
 * A column that is passed by reference as entries of a dictionary, if that is how it is stored, none is NULL, and there are no more entries than rows:
 * codes[i] is the number of row first + i's entry.  Returns the entries, of which there are *nentries, some of them perhaps of other rows; NULL: it is not.
 */
extern const Datum *rose_batch_codes(RoseBatch *batch, AttrNumber attno, int first, int n, uint16 *codes, int *nentries);

/* As rose_batch_datums, of some rows, in ascending order, when these are few: values[i] and nulls[i] are of row rows[i]. */
extern void rose_batch_pick(RoseBatch *batch, AttrNumber attno, const uint16 *rows, int n,
							Datum *values, bool *nulls);

/* Of one row. */
extern Datum rose_batch_value(RoseBatch *batch, AttrNumber attno, int row, bool *isnull);

/* The name of a row (rose_tid.h), if the request said so. */
extern void rose_batch_tid(RoseBatch *batch, int row, ItemPointer tid);

/* Its version, of which xid, subxid and cid are good. */
extern void rose_batch_version(RoseBatch *batch, int row, RoseVersion *version);

#endif							/* ROSE_BATCH_H */
