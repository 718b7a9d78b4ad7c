/*-------------------------------------------------------------------------
 *
 * rose_merge_cursor_internal.h
 *	  The inside of a merge cursor, shared by rose_merge_cursor.c, which goes row by
 *	  row, and rose_merge_batch.c, which takes many rows at a time.
 *
 * Backend-local; only the two of them include it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_CURSOR_INTERNAL_H
#define ROSE_MERGE_CURSOR_INTERNAL_H

#include "util/rose_losertree.h"
#include "lsm/component/rose_component.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/component/rose_leaf.h"
#include "lsm/merge/rose_merge_cursor.h"

typedef struct RoseMergeSource
{
	RoseComponentCursor *cursor;
	const RoseRow *row;			/* NULL: exhausted */
	uint64		prefix;			/* of its key */
	uint64		from;			/* ordinals */
	uint64		to;
} RoseMergeSource;

struct RoseMergeCursor
{
	Relation	rel;
	BufferAccessStrategy strategy;
	const RoseSchema *schema;
	MemoryContext context;
	bool		exact;			/* rose_key_prefix_exact */
	bool		started;
	bool		returned;		/* next() has returned the winner's row */
	int			nsources;
	RoseMergeSource *sources;
	RoseLoserTree *tree;
	struct RoseMergeBatcher *batcher;	/* NULL until asked for batches */
};

/* The source's cursor has moved, to a row or to the end; false: it is exhausted. */
extern bool rose_merge_take_row(RoseMergeCursor *merge, RoseMergeSource *source, bool has_row);

/* Go past the row that next() returned last, if it did; returns the next source or -1. */
extern int	rose_merge_advance(RoseMergeCursor *merge);

#endif							/* ROSE_MERGE_CURSOR_INTERNAL_H */
