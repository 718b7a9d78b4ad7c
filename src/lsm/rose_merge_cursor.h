/*-------------------------------------------------------------------------
 *
 * rose_merge_cursor.h
 *	  The versions of several components in (key, sequence descending) order.
 *
 * Forward only, and without regard to visibility: for merges and spills.
 * Versions with equal key and sequence come out once for each component.
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_CURSOR_H
#define ROSE_MERGE_CURSOR_H

#include "lsm/rose_component.h"

typedef struct RoseMergeCursor RoseMergeCursor;

/* For nsources components, which are to be added, newest first. */
extern RoseMergeCursor *rose_merge_cursor_create(Relation rel, const RoseSchema *schema,
												 int nsources, BufferAccessStrategy strategy,
												 MemoryContext context);
/* Its versions from..to - 1, by ordinal. */
extern void rose_merge_cursor_add(RoseMergeCursor *merge, RoseComponent *component,
								  uint64 from, uint64 to);
extern void rose_merge_cursor_rebind(RoseMergeCursor *merge, Relation rel);

/* Next version, valid until the next call, or NULL. */
extern const RoseRow *rose_merge_cursor_next(RoseMergeCursor *merge);

/*
 * Ordinal of the first version of a source that next() has not passed; the one
 * that it returned last is not passed yet.
 */
extern uint64 rose_merge_cursor_ordinal(const RoseMergeCursor *merge, int source);

#endif							/* ROSE_MERGE_CURSOR_H */
