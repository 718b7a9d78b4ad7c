/*-------------------------------------------------------------------------
 *
 * rose_mem_batch.h
 *	  Rows of a memtable, copied together under one hold of the C0's reclaim_lock.
 *
 * A batch has versions in the order of a scan.  Rows point into it; who needs one longer
 * than the scan stays at the batch holds the batch, as one holds a leaf.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEM_BATCH_H
#define ROSE_MEM_BATCH_H

#include "lsm/rose_component.h"
#include "lsm/rose_visibility.h"

#define ROSE_MEM_BATCH_ROWS		256 /* at most */

typedef struct RoseMemBatch
{
	int			refcount;
	MemoryContext context;		/* owns all of it */
	const RoseSchema *schema;
	int			nrows;
	int			limit;			/* rows to take at most; grows */
	bool		at_end;			/* the memtable has no more in this direction */
	uint64		min_seq;		/* of the rows */
	uint64		max_seq;

	/* by row; row.key is NULL until rose_mem_batch_row was asked for it */
	RoseRow    *rows;
	uint64	   *prefixes;		/* rose_key_prefix */
	Datum	   *keys;			/* key width Datums each */

	char	   *data;			/* tuples and bitmaps ... */
	Size		used;
	Size		capacity;
	MemoryContext more;			/* ... and those for which it has no room */
	Size		more_bytes;
} RoseMemBatch;

extern RoseMemBatch *rose_mem_batch_create(const RoseSchema *schema, MemoryContext context);
extern void rose_mem_batch_hold(RoseMemBatch *batch);
extern void rose_mem_batch_release(RoseMemBatch *batch);	/* NULL is allowed */
/* The same for who made it, when its context goes: a tuple slot may keep it longer. */
extern void rose_mem_batch_abandon(RoseMemBatch *batch);

/* Empty it.  REQUIRES that nobody else holds it. */
extern void rose_mem_batch_start(RoseMemBatch *batch);
/*
 * Copy the next versions from the cursor on, which stands on the first one to take
 * (on_entry), and leave it on the first one not taken.  filter: only those that the snapshot
 * sees; forward and of a key only the newest, if that is a whole row or a tombstone.  Row locks are
 * left out.  REQUIRES reclaim_lock.
 */
extern void rose_mem_batch_fill(RoseMemBatch *batch, RoseMemCursor *cursor, RoseVisibility *vis,
								bool forward, bool filter, bool on_entry);

/* A row with its key. */
static inline const RoseRow *
rose_mem_batch_row(RoseMemBatch *batch, int i)
{
	RoseRow    *row = &batch->rows[i];

	if (row->key == NULL)
	{
		Datum	   *key = &batch->keys[i * rose_schema_key_width(batch->schema)];

		rose_key_from_tuple(batch->schema, row->tuple, row->version.rowid, key);
		row->key = key;
	}
	return row;
}

/*
 * First row of [i, nrows) whose first ncols key columns are >= key (after: > key), or nrows.  prefix:
 * rose_key_prefix of key if it is a whole one, else NULL.  Cheap if it is not far.
 */
extern int	rose_mem_batch_find(RoseMemBatch *batch, int i, const Datum *key, int ncols,
								const uint64 *prefix, bool after);

#endif							/* ROSE_MEM_BATCH_H */
