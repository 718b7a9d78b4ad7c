/*-------------------------------------------------------------------------
 *
 * rose_copied.h
 *	  Files into which all rows of a table were copied anew.
 *
 * Such a file has taken the place of one with other rows, or with the same ones in the order of another key.  All that is
 * in it was written by one transaction, or later: who does not see that transaction would see an empty table, where his
 * snapshot has rows.  So the file says which one it was,
 * and a snapshot that does not see it may not read the file, nor those of the table's indexes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COPIED_H
#define ROSE_COPIED_H

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_tree.h"

/* The body of the function below: not to be called. */
extern void rose_copied_check(RoseTree *tree, const RoseVisibility *vis);

/* The tree is about to be read so.  Raises serialization_failure if it may not. */
static inline void
rose_copied_require(RoseTree *tree, const RoseVisibility *vis)
{
	if (unlikely(tree->shared->copied_by != 0) && vis->kind == ROSE_SNAPSHOT_MVCC)
		rose_copied_check(tree, vis);
}

/*
 * It is the current transaction.  REQUIRES: nobody else can open the file before it has committed, and it is of no temporary
 * table.  Of an unlogged one a crash leaves no rows, and no snapshot either: its init fork does not say it.
 */
extern void rose_copied_note(RoseTree *tree);

/* The file takes the place of this one, and has its versions; or it is of an index of the table, made of them. */
extern void rose_copied_carry(RoseTree *from, RoseTree *to);

#endif							/* ROSE_COPIED_H */
