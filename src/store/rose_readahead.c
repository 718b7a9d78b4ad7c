/*-------------------------------------------------------------------------
 *
 * rose_readahead.c
 *	  Fetching blocks ahead of a reader that goes from block to block.
 *
 * The kernel reads ahead of a sequential reader by itself, and at less cost than if it is
 * told what to read.  But it knows files, not components.  Of scans and merges that read
 * several components of one file in turns it makes one reader, and guesses late or too
 * much: with a large read-ahead and little memory it read three times what was needed,
 * and dropped it before it was used.  Backward it does not guess at all.
 *
 * So the reader says what it will need.  What was asked for is in the page cache when it
 * is read, and the kernel's own guessing never starts.  A window is asked for whenever
 * half of the last one was used; windows begin small and double.
 *
 * What it does not do: look into shared buffers, or know where an extent ends.  At the
 * end of one, a window at most was asked for in vain.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/spccache.h"

#include "compat/rose_compat_prefetch.h"
#include "store/rose_readahead.h"
#include "store/rose_store_internal.h"

/* In blocks. */
#define WINDOW_FIRST	8
#define WINDOW_MAX		64

struct RoseReadahead
{
	RosePrefetchFile file;
	bool		enabled;
	bool		forward;
	int64		edge;			/* first block not asked for, in this direction */
	int64		asked;			/* blocks before it that were, without a gap */
	int64		file_blocks;	/* the file had when the present extent began */
	int			window;			/* to ask for next */
	MemoryContextCallback callback;
};

static void
close_file(void *arg)
{
	rose_prefetch_close(&((RoseReadahead *) arg)->file);
}

RoseReadahead *
rose_readahead_create(MemoryContext context)
{
	RoseReadahead *readahead = MemoryContextAllocZero(context, sizeof(RoseReadahead));

	rose_prefetch_init(&readahead->file);
	readahead->callback.func = close_file;
	readahead->callback.arg = readahead;
	MemoryContextRegisterResetCallback(context, &readahead->callback);
	return readahead;
}

/* The reader is at a place that it did not come to by counting up or down. */
static void
start_at(RoseReadahead *readahead, Relation rel, BlockNumber block, bool forward)
{
	readahead->enabled = get_tablespace_io_concurrency(rel->rd_rel->reltablespace) > 0;
	readahead->forward = forward;
	readahead->edge = block;
	readahead->asked = 0;
	readahead->file_blocks = rose_file_nblocks(rel);
	readahead->window = WINDOW_FIRST;
}

/* Blocks [first, end), of one segment. */
static void
ask_for(RoseReadahead *readahead, Relation rel, int64 first, int64 end)
{
	rose_prefetch_blocks(&readahead->file, RelationGetSmgr(rel), (BlockNumber) first,
						 (int) (end - first));
}

/* A window from the edge on, to the end of the edge's segment or of the file. */
static void
ask_for_window(RoseReadahead *readahead, Relation rel)
{
	int64		edge = readahead->edge;
	int64		segment = Max(edge, 0) / RELSEG_SIZE * RELSEG_SIZE;
	int64		to;

	if (readahead->forward)
	{
		to = Min(edge + readahead->window, segment + RELSEG_SIZE);
		to = Min(to, readahead->file_blocks);
		if (to <= edge)
			return;
		ask_for(readahead, rel, edge, to);
		readahead->asked += to - edge;
	}
	else
	{
		to = Max(edge - readahead->window, segment - 1);
		if (to >= edge)
			return;
		ask_for(readahead, rel, to + 1, edge + 1);
		readahead->asked += edge - to;
	}
	readahead->edge = to;
	readahead->window = Min(2 * readahead->window, WINDOW_MAX);
}

void
rose_readahead_step(RoseReadahead *readahead, Relation rel, BlockNumber block, bool forward)
{
	int64		ahead = forward ? readahead->edge - (int64) block :
		(int64) block - readahead->edge;

	if (readahead->window == 0 || readahead->forward != forward ||
		ahead < 0 || ahead > readahead->asked)
	{
		start_at(readahead, rel, block, forward);
		ahead = 0;
	}
	if (readahead->enabled && ahead <= readahead->window / 2)
		ask_for_window(readahead, rel);
}
