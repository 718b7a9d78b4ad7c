/*-------------------------------------------------------------------------
 *
 * rose_leaf.h
 *	  Private copies of leaves: rows of a component that stay in place.
 *
 * What can be done with any rows in place is in rose_rows.h.  This is what leaves have
 * beside that: windows of rows that are decoded together, and what is known of all rows
 * of a leaf.  For merges and scans, which get leaves from a cursor
 * (rose_component_cursor_leaf) and look at rows, block and first_ordinal only; the other
 * fields belong to this folder.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LEAF_H
#define ROSE_LEAF_H

#include "postgres.h"

#include "storage/block.h"
#include "storage/bufmgr.h"

#include "page/rose_page.h"
#include "lsm/component/rose_component.h"
#include "lsm/component/rose_rows.h"

/* Rows of a leaf that are decoded together, at most. */
#define ROSE_LEAF_WINDOW	512

/* Where a leaf was found when it was read. */
typedef enum RoseLeafRead
{
	ROSE_LEAF_NOT_READ,
	ROSE_LEAF_CACHED,			/* in shared buffers */
	ROSE_LEAF_MISSED
} RoseLeafRead;

struct RoseLeaf
{
	RoseRows	rows;			/* natts: user columns of the component */
	Relation	rel;			/* for overflow pages; borrowed */
	uint32		component_id;
	RosePageReader *reader;
	char	   *image;			/* the copy; of one that only borrows: NULL */
	Buffer		borrowed;		/* that the page is read in instead, pinned; or InvalidBuffer */
	BlockNumber block;			/* InvalidBlockNumber: nothing loaded */
	bool		pending;		/* block, first_ordinal and nrows are known; the rest
								 * is read when it is needed, with strategy */
	BufferAccessStrategy strategy;
	RoseLeafRead read;			/* private to the cursor, which looks at it once */
	BlockNumber prev;
	BlockNumber next;
	uint64		first_ordinal;
	uint8		flags;			/* ROSE_LEAF_HAS_* */
	int			window_size;	/* of the next window; grows */
	RoseRowsColumn *columns;	/* of the page; rows.columns is a part of it */

	/* values fetched from overflow pages, and bitmaps that had to be widened */
	MemoryContext extra_context;
	struct RoseOverflowValue *overflow_values;
};

extern RoseLeaf *rose_leaf_create(RoseComponent *component, Relation rel,
								  const RoseSchema *schema, MemoryContext context);

/* Release by who made it, when its context goes: a tuple slot may keep it longer.  NULL is allowed. */
extern void rose_leaf_abandon(RoseLeaf *leaf);
extern void rose_leaf_load(RoseLeaf *leaf, BlockNumber block, BufferAccessStrategy strategy);

/*
 * The same for a look of a moment, at the page in its buffer: until rose_leaf_give_back,
 * in the same call of who looks, and nobody holds the leaf meanwhile.
 */
extern void rose_leaf_borrow(RoseLeaf *leaf, BlockNumber block);
extern void rose_leaf_give_back(RoseLeaf *leaf);

/*
 * The same as rose_leaf_load without reading it: that is done when somebody asks for a value.  Who takes
 * values from a leaf, in rose_leaf.c, calls rose_leaf_need first; likewise who looks at
 * prev, next, flags or the reader.
 */
extern void rose_leaf_expect(RoseLeaf *leaf, BlockNumber block, uint64 first_ordinal, int nrows,
							 BufferAccessStrategy strategy);
extern void rose_leaf_read_pending(RoseLeaf *leaf);

static inline void
rose_leaf_need(RoseLeaf *leaf)
{
	if (unlikely(leaf->pending))
		rose_leaf_read_pending(leaf);
}

/*
 * Have rows around slot decoded together from now on, towards the end (forward) or the
 * start: whoever asks for columns of one of them will ask for those of most.
 */
extern void rose_leaf_set_window(RoseLeaf *leaf, int slot, bool forward);

/* No window any more; the next one will be small. */
extern void rose_leaf_reset_window(RoseLeaf *leaf);

/* Fill row for a slot; key gets the key's Datums. */
extern void rose_leaf_get_row(RoseLeaf *leaf, int slot, RoseRow *row, Datum *key);

/* All but row->version, which rose_leaf_get_version reads. */
extern void rose_leaf_get_keyed_row(RoseLeaf *leaf, int slot, RoseRow *row, Datum *key);

/*
 * A column of the window, decoded: values and nulls by slot - window_first.  Valid as
 * long as that is the window.  As they are in the page: not for leaves with overflow
 * values or a dropped column.
 */
extern const Datum *rose_leaf_window_column(RoseLeaf *leaf, int col, const bool **nulls);
extern void rose_leaf_get_version(RoseLeaf *leaf, int slot, RoseVersion *version);

/*
 * A column of the slots, which ascend, into values[i] and nulls[i]; values by reference live as long as the
 * page stays.  Only of a leaf that rose_leaf_is_self_contained.
 */
extern void rose_leaf_gather(RoseLeaf *leaf, AttrNumber attno, const int *slots, int n,
							 Datum *values, bool *nulls);

/*
 * Were all rows of the leaf written by one transaction with the same operation, as far as is known without looking at
 * them?  Then what their versions have in common: all but seq and rowid.  Only of a leaf that rose_leaf_is_self_contained.
 */
extern bool rose_leaf_common_version(RoseLeaf *leaf, RoseVersion *version);

/* Of such a leaf: the sequence numbers of the slots, which ascend. */
extern void rose_leaf_gather_seq(RoseLeaf *leaf, const int *slots, int n, Datum *seqs, bool *nulls);

/* The key of a slot. */
extern void rose_leaf_get_key(RoseLeaf *leaf, int slot, Datum *key);

/*
 * First slot of [slot, nrows) whose first ncols key columns are >= key (after: > key), or
 * nrows.  Cheap if it is not far.
 */
extern int	rose_leaf_find(RoseLeaf *leaf, int slot, const Datum *key, int ncols, bool after);

/* Has it all values of its rows, none in overflow pages?  It must have been read. */
extern bool rose_leaf_is_self_contained(const RoseLeaf *leaf);

/* Is every row of the leaf a whole one?  False may mean that it is not known. */
extern bool rose_leaf_only_puts(RoseLeaf *leaf);

/* Were all of them written by transactions before xmin?  As above. */
extern bool rose_leaf_precedes(RoseLeaf *leaf, FullTransactionId xmin);

#endif							/* ROSE_LEAF_H */
