/*-------------------------------------------------------------------------
 *
 * rose_index_file.h
 *	  Files of indexes: made, and handed over.
 *
 * Core makes the file of an index, without blocks, and drops it; no access method is asked.
 * Who builds an index makes the tree in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_FILE_H
#define ROSE_INDEX_FILE_H

#include "postgres.h"

#include "utils/rel.h"

#include "util/rose_index_def.h"

/*
 * Make an empty tree in the file of this index, which has no blocks: core has just made
 * it, or has emptied it in the transaction that made it.  In the init fork, too, if it is
 * unlogged.  From then on rose_tree_open opens it.  REQUIRES: AccessExclusiveLock.
 *
 * Block 0 is poisoned.  Core's build writes it anew when rows have been gathered; so call
 * rose_meta_poison after that, at the latest before the transaction commits.
 *
 * beside: the transaction did not make the file, and others write to the table, though not
 * to the index yet (rose_index_beside_begin).  REQUIRES: RowExclusiveLock.
 */
extern void rose_index_file_create(Relation index, const RoseIndexDef *def, bool beside);

/* An index of a rose table is being dropped. */
extern void rose_index_file_dropped(Relation index);

/*
 * By DROP INDEX CONCURRENTLY, which tells so in the first of its transactions: it is dropped
 * by the last one, which calls note_dropped.  forget_dropped: before another command.
 */
extern void rose_index_file_dropped_late(Relation index);
extern void rose_index_file_note_dropped(void);
extern void rose_index_file_forget_dropped(void);

/*
 * An index was made.  If it has the file of one that is dropped by the same command (ALTER
 * TABLE that need not build it anew), that file stays.
 */
extern void rose_index_file_taken_over(Relation index);

#endif							/* ROSE_INDEX_FILE_H */
