/*-------------------------------------------------------------------------
 *
 * rose_altered.h
 *	  What the running transaction has done to a table's columns.
 *
 * A transaction sees its own ALTER TABLE, but it may be rolled back.  What it writes of other
 * transactions' rows (spills, merges) must be good for both ends, so it may neither leave out a
 * column that it has dropped nor fill in one that it has added; and while ALTER TABLE rewrites a
 * table, the descriptor is that of the new file, but C0 has rows of the old one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ALTERED_H
#define ROSE_ALTERED_H

#include "postgres.h"

#include "lsm/rose_table.h"

/*
 * Has this transaction changed the columns of a table that was there before?  Then nothing that others
 * have written can be merged.  Looks at the catalog only if the table is locked against all others.
 */
extern bool rose_altered_before_commit(RoseTable *table);

/*
 * The same, for a table that is not open yet; also true if nothing has come of it.  ALTER TABLE may be about to
 * rewrite the table.
 */
extern bool rose_altered_just_now(Relation rel);

/* By which schemas the table's C0 may be written. */
typedef struct RoseSpillSchemas
{
	const RoseSchema *committed;	/* rows of transactions that have committed */
	const RoseSchema *open;		/* rows of those in progress */
} RoseSpillSchemas;

/*
 * Find them; what is made is in context.  False: nothing may be written before the transaction, or the
 * rewrite that it is in, has ended.  *joinable: own private runs may be merged with each other.
 */
extern bool rose_altered_schemas(RoseTable *table, MemoryContext context,
								 RoseSpillSchemas *schemas, bool *joinable);

#endif							/* ROSE_ALTERED_H */
