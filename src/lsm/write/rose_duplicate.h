/*-------------------------------------------------------------------------
 *
 * rose_duplicate.h
 *	  Which value two rows would have: what a write answers, and what is left for later.
 *
 * What a write finds out about deferrable constraints is asked for when core inserts the
 * row's index entries, right after it: it is noted here in between.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DUPLICATE_H
#define ROSE_DUPLICATE_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "lsm/tree/rose_tree.h"

/* The answer of a write that another row is in the way of. */
typedef struct RoseDuplicate
{
	Oid			indexid;		/* InvalidOid: of the primary key */
	char	   *description;	/* of the value; NULL: the user may not see it, or it is of the primary key */
} RoseDuplicate;

/* The value that the first nvalue columns of a key of this index's tree are, for people; NULL: the user may not see it. */
extern char *rose_duplicate_describe(RoseTree *tree, int nvalue, const Datum *key);

/* Another row may have the value that the row of this TID has in a deferrable index. */
extern void rose_duplicate_note(Oid indexid, const ItemPointerData *tid);

/* Was that noted?  It is forgotten then. */
extern bool rose_duplicate_take(Oid indexid, const ItemPointerData *tid);

#endif							/* ROSE_DUPLICATE_H */
