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

/* Components newest first; positioned before the first version. */
extern RoseMergeCursor *rose_merge_cursor_create(Relation rel, const RoseSchema *schema,
												 int ncomponents, RoseComponent **components,
												 BufferAccessStrategy strategy,
												 MemoryContext context);
extern void rose_merge_cursor_rebind(RoseMergeCursor *merge, Relation rel);

/* Next version, valid until the next call, or NULL; *source: index of its component. */
extern const RoseRow *rose_merge_cursor_next(RoseMergeCursor *merge, int *source);

#endif							/* ROSE_MERGE_CURSOR_H */
