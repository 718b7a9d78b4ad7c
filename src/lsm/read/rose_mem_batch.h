/*-------------------------------------------------------------------------
 *
 * rose_mem_batch.h
 *	  Rows of a memtable, copied together in one reading section of C0.
 *
 * A batch has versions in the order of a scan, as rows that stay in place
 * (lsm/component/rose_rows.h).
 *
 * Who only counts rows needs nothing of them but their sequence numbers, which TIDs are
 * made of, and who sums up a column or two needs no others.  So a batch may be filled
 * with that alone: of columns that lie at the same place in all tuples the values are
 * taken, without the tuples.  The rest is fetched, of all rows, when somebody asks for
 * more of one.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEM_BATCH_H
#define ROSE_MEM_BATCH_H

#include "lsm/component/rose_row.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_tree.h"

#define ROSE_MEM_BATCH_ROWS		256 /* at most */

/* What batches are as rows (rose_mem_batch_rows.c). */
extern const RoseRowsOps rose_mem_batch_rows;

typedef struct RoseMemBatch
{
	RoseRows	rows;			/* the window is all of them */
	RoseTree   *tree;
	int			key_columns;	/* so many first columns have the key, and can be decoded; or 0 */
	int			limit;			/* rows to take at most; grows */
	bool		forward;		/* rows are in ascending order */
	bool		at_end;			/* the memtable has no more in this direction */
	bool		only_puts;		/* there are whole rows only */
	uint64		min_seq;		/* of the rows */
	uint64		max_seq;

	bool		wanted;			/* somebody asked for a row between the first and the last */
	int			asked;			/* ... or for so many of its first columns */

	/*
	 * If pending and places[i] is not 0, row i is not there yet, but for the first
	 * columns, which are decoded: see rose_mem_batch_need.
	 */
	bool		pending;
	int			columns;		/* so many are decoded */
	Datum	   *values;			/* room for a row's columns while they are */
	bool	   *nulls;
	RoseArenaPtr *places;
	RoseMemCursor mem;			/* where they are; its own place does not count */

	/* by row */
	uint64	   *seqs;
	uint64	   *prefixes;		/* rose_key_prefix */
	uint8	   *ops;
	void	  **images;			/* copies of entries (rose_memtable.h); not of what was found elsewhere */
	MinimalTuple *tuples;		/* copies, or while they are pending in the arena, where nobody may look */
	bool	   *made;			/* refs[i] is filled in */
	RoseRow    *refs;			/* row.key is NULL until rose_mem_batch_row was asked for it */
	Datum	   *keys;			/* key width Datums each */

	Size		longest;		/* bytes of the longest tuple that was copied */
	Size		longest_before; /* ... to the batch before; 0: none */
	char	   *data;			/* tuples and bitmaps ... */
	Size		used;
	Size		capacity;
	MemoryContext more;			/* ... and those for which it has no room */
	Size		more_bytes;
} RoseMemBatch;

extern RoseMemBatch *rose_mem_batch_create(RoseTree *tree, MemoryContext context);

/* Release by who made it, when its context goes: a tuple slot may keep it longer.  NULL is allowed. */
extern void rose_mem_batch_abandon(RoseMemBatch *batch);

/* If nobody else holds it, and it has become no larger than batches of a few rows are: make it as good as a new one; else false. */
extern bool rose_mem_batch_renew(RoseMemBatch *batch);

/* Empty it.  REQUIRES that nobody else holds it. */
extern void rose_mem_batch_start(RoseMemBatch *batch);

/*
 * Copy the next versions from the cursor on, which stands on the first one to take
 * (on_entry), and leave it on the first one not taken.  filter: only those that the
 * snapshot sees, and of a key only the newest, if that is a whole row or a tombstone; of
 * the last row's key there may be more in the next batch, older ones, or newer ones
 * backward.  Row locks are left out.  columns: if not ROSE_MEM_BATCH_ALL, rows may be
 * left pending but for so many first columns, which must be of fixed size and passed by
 * value; not the first and the last one.  REQUIRES a reading section.
 */
#define ROSE_MEM_BATCH_ALL		(-1)
extern void rose_mem_batch_fill(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
								bool forward, bool filter, int columns, bool on_entry);

/*
 * The same in the order of numbers, from *seq on, for a snapshot for which the cursor's
 * memtable is all that there is: rows that are the newest of their keys that it sees.
 * False: the next version is not a row by itself, and what it stands for has to be
 * found in another way.  *seq goes behind what was looked at.  everyone: as RoseMemArrivals.
 */
extern bool rose_mem_batch_fill_arrivals(RoseMemBatch *batch, RoseMemCursor *cursor,
										 RoseVisibility *vis, uint64 *seq,
										 FullTransactionId everyone, int columns);

/* For who fills one: room for batch->columns, and these of rows [from, to) (rose_mem_batch_columns.c). */
extern void rose_mem_batch_start_columns(RoseMemBatch *batch);
extern void rose_mem_batch_take_columns(RoseMemBatch *batch, int from, int to);

/* Fetch the rows that are pending.  REQUIRES that no lock is held. */
extern void rose_mem_batch_fetch(RoseMemBatch *batch);

/*
 * Decode a column of all whole rows, and, if that is to be done, others as well, into rows.columns.  REQUIRES that
 * no row is pending, and that the column was not decoded.
 */
extern void rose_mem_batch_decode(RoseMemBatch *batch, AttrNumber attno, const Bitmapset *also);

/* Fill in refs[i] of a row that is not pending. */
extern void rose_mem_batch_make(RoseMemBatch *batch, int i);

/* Call it before looking at refs[i]. */
static inline void
rose_mem_batch_need(RoseMemBatch *batch, int i)
{
	batch->wanted |= i > 0 && i < batch->rows.nrows - 1;
	if (unlikely(batch->pending && batch->places[i] != 0))
		rose_mem_batch_fetch(batch);
	if (!batch->made[i])
		rose_mem_batch_make(batch, i);
}

/* A row with its key. */
static inline const RoseRow *
rose_mem_batch_row(RoseMemBatch *batch, int i)
{
	RoseRow    *row = &batch->refs[i];

	rose_mem_batch_need(batch, i);
	if (row->key == NULL)
	{
		Datum	   *key = &batch->keys[i * rose_schema_key_width(batch->rows.schema)];

		rose_key_from_tuple(batch->rows.schema, row->tuple, row->version.rowid, key);
		row->key = key;
	}
	return row;
}

/* What find of RoseRowsOps says, in the order that the rows are in: backward, the first one <= (<) the key. */
extern int	rose_mem_batch_find(RoseMemBatch *batch, int i, const Datum *key, int ncols,
								const uint64 *prefix, bool after);

#endif							/* ROSE_MEM_BATCH_H */
