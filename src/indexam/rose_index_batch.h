/*-------------------------------------------------------------------------
 *
 * rose_index_batch.h
 *	  Entries of an index whose rows are looked up together.
 *
 * For rose_index_scan.c, which takes the entries from the index's tree and gives them out
 * one by one, in their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_BATCH_H
#define ROSE_INDEX_BATCH_H

#include "postgres.h"

#include "access/sdir.h"

#include "lsm/read/rose_lookup_many.h"

typedef struct RoseIndexBatch
{
	/* for reading */
	ScanDirection direction;	/* in which its entries were taken */
	bool		last;			/* there are no entries behind it in the range */
	RoseRow		entry;			/* the one that was given out last: its key alone */
	const RoseWanted *wanted;	/* set by who knows: what is read of rows; or NULL */

	/* private to rose_index_batch.c */
	RoseTree   *index;
	RoseTree   *table;
	MemoryContext context;
	MemoryContext keys_context;
	RoseLookupMany *many;		/* NULL: not used yet */
	int			width;			/* of entries' keys */
	Datum	   *keys;
	int			max;			/* entries, of this one */
	int			n;
	int			next;
	int			size;			/* of the next one */
	bool		looked_up;
	int			singles;		/* so many entries come by themselves: rows are not where many are looked up at once */
} RoseIndexBatch;

/* context lives as long as the batch. */
extern void rose_index_batch_init(RoseIndexBatch *batch, RoseTree *index, RoseTree *table,
								  MemoryContext context);
extern void rose_index_batch_free(RoseIndexBatch *batch);

/* All entries were given out, and fetched: their rows may go. */
extern void rose_index_batch_end(RoseIndexBatch *batch);

/* Forget the entries.  size: of the next batch; 0: as it would have been. */
extern void rose_index_batch_drop(RoseIndexBatch *batch, int size);

/*
 * Begin a new one, and add entries until it is full.  False: one of a single entry, which
 * whoever takes it does not need a batch for.
 */
extern bool rose_index_batch_begin(RoseIndexBatch *batch, ScanDirection direction, bool may_be_single);
extern void rose_index_batch_add(RoseIndexBatch *batch, const Datum *key, const Datum *row_key);
extern bool rose_index_batch_is_full(const RoseIndexBatch *batch);

/* No more entries: look up their rows. */
extern void rose_index_batch_look_up(RoseIndexBatch *batch, Snapshot snapshot);

/* Are there entries that were not given out?  Then give the next one out. */
static inline bool
rose_index_batch_has_entry(const RoseIndexBatch *batch)
{
	return batch->next < batch->n;
}

/* Was an entry of it given out? */
static inline bool
rose_index_batch_is_open(const RoseIndexBatch *batch)
{
	return batch->next > 0;
}

extern const RoseRow *rose_index_batch_next(RoseIndexBatch *batch);

/* The row of that entry, and its TID; NULL: it is to be looked up by itself, by this key. */
extern const RoseRow *rose_index_batch_row(RoseIndexBatch *batch, ItemPointer tid);
extern const Datum *rose_index_batch_row_key(const RoseIndexBatch *batch);

#endif							/* ROSE_INDEX_BATCH_H */
