/*-------------------------------------------------------------------------
 *
 * rose_index_set.h
 *	  The secondary indexes of a table that its writers keep up.
 *
 * Backend-local; kept with the table's handle, and made anew when the catalog's entry of
 * the table has changed, as it does when an index comes or goes.  Index relations are not
 * kept open: who writes entries opens them (write/rose_entries.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_SET_H
#define ROSE_INDEX_SET_H

#include "postgres.h"

#include "lsm/tree/rose_entry.h"
#include "lsm/tree/rose_tree.h"

typedef struct RoseIndexTree
{
	Oid			indexid;
	RoseEntryShape shape;
	bool		valid;			/* false: it is being built or dropped beside writers, or that has failed; who
								 * runs statements may not have it open */
	bool		unique;			/* no two rows may have one value ... */
	bool		deferrable;		/* ... when the constraint is checked: a write only says that they may */
	bool		nulls_equal;	/* NULLS NOT DISTINCT */
	int			nvalue;			/* so many first columns of the tree's key are these and their ranks */
} RoseIndexTree;

typedef struct RoseIndexSet
{
	int			n;				/* in the order of their OIDs */
	AttrNumber	last_source;	/* no column of the table behind this one is read by any of them */
	Bitmapset  *depends;		/* columns of the table that are */
	int			nunique;		/* so many of them are unique */
	Bitmapset  *refers;			/* columns that foreign keys may refer to, beside the primary key */
	RoseIndexTree trees[FLEXIBLE_ARRAY_MEMBER];
} RoseIndexSet;

/*
 * NULL: the table has none.  Good until the end of the transaction.  The first time it
 * opens the indexes, with RowExclusiveLock, which is kept; no LWLock may be held.
 */
extern const RoseIndexSet *rose_index_set_find(RoseTree *tree);

static inline const RoseIndexSet *
rose_index_set(RoseTree *tree)
{
	return likely(tree->unindexed) ? NULL : rose_index_set_find(tree);
}

/*
 * Grows when writers have to keep up another index.  A set is good for who writes a row
 * if this is still what it was when the set was made (tree->index_generation); exact in a
 * writing section of the table's C0.
 */
static inline uint64
rose_index_generation(RoseTree *tree)
{
	uint64		generation = pg_atomic_read_u64(&tree->shared->index_generation);

	pg_read_barrier();			/* before files of indexes are looked at */
	return generation;
}

/* Of what has no entries, as row locks have none. */
#define ROSE_INDEXES_ANY	PG_UINT64_MAX

/* Are these still the indexes to be kept up?  REQUIRES: a writing section of the table's C0. */
static inline bool
rose_index_set_is_of(RoseTree *tree, uint64 generation)
{
	return likely(generation == pg_atomic_read_u64(&tree->shared->index_generation)) ||
		generation == ROSE_INDEXES_ANY;
}

/* As of now, for who is not told that it is outdated. */
static inline const RoseIndexSet *
rose_index_set_current(RoseTree *tree)
{
	if (tree->index_generation != rose_index_generation(tree))
		rose_tree_forget_indexes(tree);
	return rose_index_set(tree);
}

/*
 * The shape of the entries of an index, as its file says, and its expressions and predicate;
 * schema: of the index's tree; natts: columns of the table.  depends is made in the current
 * context.
 */
extern void rose_index_set_shape(Relation index, const RoseIndexMetaDisk *meta,
								 const RoseSchema *schema, int natts, RoseEntryShape *shape);

/* What the catalog, and the index's file, say of it; shape: it has that of its entries already. */
extern void rose_index_set_uniqueness(Relation index, const RoseIndexMetaDisk *meta,
									  RoseIndexTree *described);

/* This index of the table; NULL: it is not kept up.  As rose_index_set. */
extern const RoseIndexTree *rose_index_set_tree(RoseTree *tree, Oid indexid);

#endif							/* ROSE_INDEX_SET_H */
