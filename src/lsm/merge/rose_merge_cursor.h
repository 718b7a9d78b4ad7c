/*-------------------------------------------------------------------------
 *
 * rose_merge_cursor.h
 *	  The versions of several components in (key, sequence descending) order.
 *
 * Forward only, and without regard to visibility: for merges.  Versions with equal key
 * and sequence come out once for each component.  Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_CURSOR_H
#define ROSE_MERGE_CURSOR_H

#include "lsm/component/rose_component.h"

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

/* The version that next() will return, or NULL. */
extern const RoseRow *rose_merge_cursor_peek(RoseMergeCursor *merge);

/* Most versions that are passed at a time. */
#define ROSE_MERGE_BATCH	256

/* What rose_merge_cursor_batch() has passed. */
typedef struct RoseMergeBatch
{
	int			npassed;		/* versions */
	const RoseRowBatch *rows;	/* those among them that are to be kept; see below */
	uint64		tokens;			/* greater than the xids of those left out that are greater than
								 * that of the version kept; 0 = none */
} RoseMergeBatch;

/*
 * Pass up to max versions together, from the one that peek() returns on: whole rows of
 * transactions before 'oldest', which every snapshot sees, so that the newest one of a
 * key is to be kept and the others are left out.  The first one must have another key
 * than what came before.  More versions of the last one's key may follow.  False: the
 * next version is not one of these, nothing was passed.
 *
 * The rows are valid until end_batch(), which must be called before anything else.
 */
extern bool rose_merge_cursor_batch(RoseMergeCursor *merge, FullTransactionId oldest, int max,
									RoseMergeBatch *batch);

/* Of the rows of the batch only these, by ascending numbers, are to be kept after all. */
extern void rose_merge_cursor_keep(RoseMergeCursor *merge, const int *kept, int n);
extern void rose_merge_cursor_end_batch(RoseMergeCursor *merge);

/*
 * Ordinal of the first version of a source that next() has not passed; the one
 * that it returned last is not passed yet.
 */
extern uint64 rose_merge_cursor_ordinal(const RoseMergeCursor *merge, int source);

#endif							/* ROSE_MERGE_CURSOR_H */
