/*-------------------------------------------------------------------------
 *
 * rose_local_trees.h
 *	  The entries of temporary tables, and of their indexes: memory of this session.
 *
 * rose_registry.h has the functions that find and drop an entry, whosever it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCAL_TREES_H
#define ROSE_LOCAL_TREES_H

#include "lsm/tree/rose_tree.h"

/* ---- for rose_registry.c ---- */

extern RoseTreeShared *rose_local_trees_enter(RelFileLocator name, Oid relid,
											  uint64 *incarnation, pg_atomic_uint64 **life);
extern void rose_local_trees_drop(RelFileLocator name);
extern void rose_local_trees_note_options(RelFileLocator name);

/* ---- for others ---- */

/* The transaction is over, and no handle is bound to what was dropped.  Raises no error. */
extern void rose_local_trees_end_transaction(void);

/* Call back for each of them; the visitor does not make or drop any. */
extern void rose_local_trees_visit(void (*visitor) (RoseTreeShared *shared, void *arg), void *arg);

#endif							/* ROSE_LOCAL_TREES_H */
