/*-------------------------------------------------------------------------
 *
 * rose_altered.h
 *	  What the running transaction has done to a table's columns.
 *
 * A transaction sees its own ALTER TABLE, but it may be rolled back.  What it writes of
 * other transactions' rows (spills, merges) must be good for both ends, so it may neither
 * leave out a column that it has dropped nor fill in one that it has added; and while
 * ALTER TABLE rewrites a table, the descriptor is that of the new file, but C0 has rows
 * of the old one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ALTERED_H
#define ROSE_ALTERED_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

/*
 * Has this transaction changed the columns of a table that was there before?  Then
 * nothing that others have written can be merged.  Looks at the catalog only if the table
 * is locked against all others.
 */
extern bool rose_altered_before_commit(RoseTree *tree);

/*
 * The same, for a table that is not open yet; also true if nothing has come of it.  ALTER
 * TABLE may be about to rewrite the table.
 */
extern bool rose_altered_just_now(Relation rel);

/* The descriptor of before, in the current context; NULL: that is the present one. */
extern TupleDesc rose_altered_descriptor_before(Relation rel);

/*
 * By which schemas the table's C0 may be written.
 *
 * apart: some change of columns may be rolled back without the whole transaction.  Then
 * rows of the transaction go to runs by what becomes of them together: a row that is
 * there after a rollback has columns only that are there, too.  None of them gets a value
 * for a column that it may lose before the row, nor loses one that it may get back.
 */
typedef struct RoseSpillSchemas
{
	const RoseSchema *committed;	/* rows of transactions that have committed */
	const RoseSchema *open;		/* rows of those in progress, in memory */
	bool		apart;
	TupleDesc	whole;			/* if apart: columns as open has them, but those whose drop may be undone */
	int			least_natts;	/* ... with which rows were written at least */
	int16	   *upto;			/* ... by number of columns of a row: with so many it is stored */
} RoseSpillSchemas;

/*
 * Find them; what is made is in context.  False: the table is just being rewritten, and
 * the catalog is ahead of the file: nothing may be written.
 */
extern bool rose_altered_schemas(RoseTree *tree, MemoryContext context,
								 RoseSpillSchemas *schemas);

/* If apart: with how many columns a row is stored that has none, or so many. */
extern int	rose_altered_class(const RoseSpillSchemas *schemas, MinimalTuple row);

/* ... and the schema of these columns, in context. */
extern RoseSchema *rose_altered_class_schema(const RoseSpillSchemas *schemas, int natts,
											 MemoryContext context);

#endif							/* ROSE_ALTERED_H */
