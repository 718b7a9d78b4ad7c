/*-------------------------------------------------------------------------
 *
 * rose_source.c
 *	  One sorted stream of versions that a scan merges.  See rose_source.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/read/rose_source.h"

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

/* Rows of a memtable with so many bytes are not put off, lest they be fetched by the hundred. */
#define LARGE_ROW	1024

void
rose_source_open_memtable(RoseSource *source, RoseTree *tree, int slot,
						  bool filter, MemoryContext context)
{
	memset(source, 0, sizeof(*source));
	rose_mem_cursor_open(&source->mem, &tree->shared->c0, tree->schema, slot);
	source->batch_parent = context;
	source->batch = rose_mem_batch_create(tree, context);
	source->filter = filter;
}

bool
rose_source_component_overlaps(RoseView *view, int index, const RoseKeyRange *range)
{
	const RoseSchema *schema = view->schema;
	const RoseComponentInfo *info;
	int			cmp;

	if (range->nlower == 0 && range->nupper == 0)
		return true;
	info = rose_component_info(rose_view_component(view, index));
	if (range->nlower > 0)
	{
		cmp = rose_key_compare(schema, info->max_key, range->lower, range->nlower);
		if (range->lower_inclusive ? cmp < 0 : cmp <= 0)
			return false;
	}
	if (range->nupper > 0)
	{
		cmp = rose_key_compare(schema, info->min_key, range->upper, range->nupper);
		if (range->upper_inclusive ? cmp > 0 : cmp >= 0)
			return false;
	}
	return true;
}

void
rose_source_open_component(RoseSource *source, RoseView *view, int index,
						   BufferAccessStrategy strategy, MemoryContext context)
{
	memset(source, 0, sizeof(*source));
	source->entry = *rose_view_entry(view, index);
	source->judged_block = InvalidBlockNumber;
	source->committed = (source->entry.flags & ROSE_COMPONENT_PRIVATE) == 0;
	source->cursor = rose_component_cursor_create(rose_view_component(view, index),
												  view->tree->rel, view->schema,
												  strategy, context);
	rose_component_cursor_set_first(source->cursor, source->entry.first_ordinal);
}

/* ---- several pieces ---- */

/* The pieces of C2, by their index in the manifest, and where in them the source is. */
typedef struct RosePieceChain
{
	RoseView   *view;			/* borrowed */
	RoseComponentCursor *cursors[ROSE_MAX_COMPONENTS];	/* made on demand */
	int			at;				/* piece at hand */
	BufferAccessStrategy strategy;
	MemoryContext context;
} RosePieceChain;

static bool
has_piece(const RosePieceChain *chain, int i)
{
	return i >= chain->view->first_piece && i < chain->view->manifest.ncomponents;
}

static void
set_piece(RoseSource *source, int i)
{
	RosePieceChain *chain = source->chain;
	RoseView   *view = chain->view;

	if (chain->cursors[i] == NULL)
	{
		chain->cursors[i] = rose_component_cursor_create(rose_view_component(view, i),
														 view->tree->rel, view->schema,
														 chain->strategy, chain->context);
		rose_component_cursor_set_first(chain->cursors[i], rose_view_entry(view, i)->first_ordinal);
	}
	chain->at = i;
	source->judged_block = InvalidBlockNumber;
	source->cursor = chain->cursors[i];
	source->entry = *rose_view_entry(view, i);
}

void
rose_source_open_pieces(RoseSource *source, RoseView *view,
						BufferAccessStrategy strategy, MemoryContext context)
{
	RosePieceChain *chain;

	if (view->manifest.ncomponents - view->first_piece == 1)
	{
		rose_source_open_component(source, view, view->first_piece, strategy, context);
		return;
	}
	memset(source, 0, sizeof(*source));
	chain = MemoryContextAllocZero(context, sizeof(RosePieceChain));
	chain->view = view;
	chain->strategy = strategy;
	chain->context = context;
	source->chain = chain;
	source->committed = true;
	set_piece(source, view->first_piece);
}

/* A scan that has gone from one piece to the next does not come back soon. */
static void
drop_piece_before(RosePieceChain *chain, ScanDirection direction)
{
	int			i = ScanDirectionIsForward(direction) ? chain->at - 1 : chain->at + 1;

	if (has_piece(chain, i) && chain->cursors[i] != NULL)
	{
		rose_component_cursor_free(chain->cursors[i]);
		chain->cursors[i] = NULL;
	}
}

/*
 * The first version of the next piece in this direction.  The cursor that is
 * left behind stays for one more piece, because the row it stands on was returned.
 */
static bool
next_piece(RoseSource *source, ScanDirection direction)
{
	RosePieceChain *chain = source->chain;
	bool		forward = ScanDirectionIsForward(direction);
	int			next = forward ? chain->at + 1 : chain->at - 1;

	if (!has_piece(chain, next))
		return false;
	drop_piece_before(chain, direction);
	set_piece(source, next);
	return forward ? rose_component_cursor_first(source->cursor) :
		rose_component_cursor_last(source->cursor);
}

void
rose_source_close(RoseSource *source)
{
	if (source->chain)
	{
		for (int i = 0; i < source->chain->view->manifest.ncomponents; i++)
			if (source->chain->cursors[i])
				rose_component_cursor_free(source->chain->cursors[i]);
	}
	else if (source->cursor)
		rose_component_cursor_free(source->cursor);
	rose_mem_batch_abandon(source->batch);
	rose_mem_batch_abandon(source->spare);
}

static void
source_set_row(RoseSource *source, RoseTree *tree, const RoseRow *row)
{
	source->row = row;
	if (row == NULL)
	{
		source->state = ROSE_SOURCE_END;
		return;
	}
	source->state = ROSE_SOURCE_ROW;
	source->prefix = rose_key_prefix(tree->schema, row->key);
}

/*
 * The key that a component's rows begin with in this direction, if a scan that starts at
 * the bound gets all of them; else NULL.
 */
static const Datum *
component_edge(const RoseSource *source, RoseTree *tree, ScanDirection direction,
			   const Datum *key, int ncols, bool inclusive)
{
	const RoseComponentInfo *info = rose_component_cursor_info(source->cursor);
	bool		forward = ScanDirectionIsForward(direction);
	const Datum *edge = forward ? info->min_key : info->max_key;
	int			cmp;

	if (ncols == 0)
		return edge;
	cmp = rose_key_compare(tree->schema, edge, key, ncols);
	if (cmp == 0)
		return inclusive ? edge : NULL;
	return (cmp > 0) == forward ? edge : NULL;
}

/*
 * A batch to fill.  Whoever keeps the present one, say a slot with its last row, has
 * usually let go of it by the time the next one is full, so two take turns.
 */
static void
start_batch(RoseSource *source, RoseTree *tree)
{
	RoseMemBatch *kept = source->batch;

	source->filled |= kept->rows.nrows > 0;
	source->large = kept->longest > LARGE_ROW;
	source->wanted |= kept->wanted;
	source->asked = Max(source->asked, kept->asked);
	if (kept->rows.refcount > 1)
	{
		source->batch = source->spare;
		source->spare = kept;
		if (source->batch != NULL && source->batch->rows.refcount > 1)
		{
			rose_mem_batch_abandon(source->batch);
			source->batch = NULL;
		}
		if (source->batch == NULL)
			source->batch = rose_mem_batch_create(tree, source->batch_parent);
		source->batch->limit = kept->limit;
	}
	rose_mem_batch_start(source->batch);
	source->next = 0;
}

/*
 * Columns of the next batch: what nobody asked for in those before is not likely to be wanted.
 */
static int
columns_to_fill(const RoseSource *source, RoseTree *tree, ScanDirection direction)
{
	if (!source->filter || !ScanDirectionIsForward(direction) || !source->filled ||
		source->large || source->wanted || source->asked > tree->schema->nfixed_byval)
		return ROSE_MEM_BATCH_ALL;
	return source->asked;
}

static void
source_next_of_batch(RoseSource *source, RoseTree *tree)
{
	RoseMemBatch *batch = source->batch;

	if (source->next >= batch->rows.nrows)
	{
		source->row = NULL;
		source->state = ROSE_SOURCE_END;
		return;
	}
	source->state = ROSE_SOURCE_ROW;
	source->prefix = batch->prefixes[source->next];
	source->row = rose_mem_batch_row(batch, source->next++);
}

/* Put a memtable's cursor where a scan begins.  REQUIRES a reading section. */
static bool
mem_position(RoseMemCursor *cursor, int width, ScanDirection direction,
			 const Datum *key, int ncols, bool inclusive)
{
	if (ScanDirectionIsForward(direction))
	{
		if (ncols == 0)
			return rose_mem_cursor_first(cursor);
		if (inclusive)
			return rose_mem_cursor_seek(cursor, key, ncols, PG_UINT64_MAX);
		if (ncols == width)
			return rose_mem_cursor_seek(cursor, key, ncols, 0);
		if (rose_mem_cursor_seek_last(cursor, key, ncols, true))
			return rose_mem_cursor_next(cursor);
		return rose_mem_cursor_first(cursor);
	}
	if (ncols == 0)
		return rose_mem_cursor_last(cursor);
	return rose_mem_cursor_seek_last(cursor, key, ncols, inclusive);
}

static bool
component_position(RoseComponentCursor *cursor, int width, ScanDirection direction,
				   const Datum *key, int ncols, bool inclusive)
{
	if (ScanDirectionIsForward(direction))
	{
		if (ncols == 0)
			return rose_component_cursor_first(cursor);
		if (inclusive)
			return rose_component_cursor_seek(cursor, key, ncols, PG_UINT64_MAX);
		if (ncols == width)
			return rose_component_cursor_seek(cursor, key, ncols, 0);
		if (rose_component_cursor_seek_last(cursor, key, ncols, true))
			return rose_component_cursor_next(cursor);
		return rose_component_cursor_first(cursor);
	}
	if (ncols == 0)
		return rose_component_cursor_last(cursor);
	return rose_component_cursor_seek_last(cursor, key, ncols, inclusive);
}

/* The same in a chain: in the first piece that has something there. */
static bool
chain_position(RoseSource *source, int width, ScanDirection direction,
			   const Datum *key, int ncols, bool inclusive)
{
	RoseView   *view = source->chain->view;
	int			last = view->manifest.ncomponents - 1;
	bool		forward = ScanDirectionIsForward(direction);
	int			i;

	if (ncols > 0)
		i = Min(rose_view_find_piece(view, key, ncols, forward != inclusive), last);
	else
		i = forward ? view->first_piece : last;
	for (; has_piece(source->chain, i); i += forward ? 1 : -1)
	{
		set_piece(source, i);
		if (component_position(source->cursor, width, direction, key, ncols, inclusive))
			return true;
	}
	return false;
}

void
rose_source_position(RoseSource *source, RoseTree *tree, RoseVisibility *vis,
					 ScanDirection direction, const Datum *key, int ncols,
					 bool inclusive)
{
	int			width = rose_schema_key_width(tree->schema);
	RoseC0Shared *c0 = &tree->shared->c0;
	bool		alive;

	if (source->cursor)
	{
		const Datum *edge = source->chain ? NULL :
			component_edge(source, tree, direction, key, ncols, inclusive);
		bool		found;

		source->waiting = edge != NULL;
		if (edge)
		{
			memset(&source->edge, 0, sizeof(source->edge));
			source->edge.key = edge;
			source_set_row(source, tree, &source->edge);
			return;
		}
		found = source->chain ?
			chain_position(source, width, direction, key, ncols, inclusive) :
			component_position(source->cursor, width, direction, key, ncols, inclusive);
		source_set_row(source, tree,
					   found ? rose_component_cursor_keyed_row(source->cursor) : NULL);
		return;
	}

	start_batch(source, tree);
	rose_c0_read_begin(c0);
	alive = rose_mem_cursor_alive(&source->mem);
	if (alive)
		rose_mem_batch_fill(source->batch, &source->mem, vis,
							ScanDirectionIsForward(direction), source->filter,
							columns_to_fill(source, tree, direction),
							mem_position(&source->mem, width, direction, key, ncols, inclusive));
	rose_c0_read_end(c0);
	if (!alive)
	{
		source->state = ROSE_SOURCE_GONE;
		source->row = NULL;
		return;
	}
	if (source->batch->rows.nrows == 0 && !source->batch->at_end)
		rose_source_advance(source, tree, vis, direction);
	else
		source_next_of_batch(source, tree);
}

/* The component's cursor has moved. */
static void
take_row(RoseSource *source, RoseTree *tree, ScanDirection direction, bool found)
{
	if (!found && source->chain)
		found = next_piece(source, direction);
	source_set_row(source, tree,
				   found ? rose_component_cursor_keyed_row(source->cursor) : NULL);
}

void
rose_source_wake(RoseSource *source, RoseTree *tree, ScanDirection direction)
{
	bool		found = ScanDirectionIsForward(direction) ?
		rose_component_cursor_first(source->cursor) :
		rose_component_cursor_last(source->cursor);

	Assert(source->waiting);
	source->waiting = false;
	source_set_row(source, tree,
				   found ? rose_component_cursor_keyed_row(source->cursor) : NULL);
}

void
rose_source_advance(RoseSource *source, RoseTree *tree, RoseVisibility *vis,
					ScanDirection direction)
{
	RoseC0Shared *c0 = &tree->shared->c0;

	if (source->waiting)
	{
		rose_source_wake(source, tree, direction);
		return;
	}
	if (source->cursor)
	{
		take_row(source, tree, direction, ScanDirectionIsForward(direction) ?
				 rose_component_cursor_next(source->cursor) :
				 rose_component_cursor_prev(source->cursor));
		return;
	}

	/* an entry-rich stretch that the snapshot does not see gives empty batches */
	while (source->next >= source->batch->rows.nrows && !source->batch->at_end)
	{
		bool		alive;

		CHECK_FOR_INTERRUPTS();
		start_batch(source, tree);
		rose_c0_read_begin(c0);
		alive = rose_mem_cursor_alive(&source->mem);
		if (alive)
			rose_mem_batch_fill(source->batch, &source->mem, vis,
								ScanDirectionIsForward(direction), source->filter,
							columns_to_fill(source, tree, direction),
								source->mem.current != 0);
		rose_c0_read_end(c0);
		if (!alive)
		{
			source->state = ROSE_SOURCE_GONE;
			source->row = NULL;
			return;
		}
	}
	source_next_of_batch(source, tree);
}

void
rose_source_goto(RoseSource *source, RoseTree *tree, RoseVisibility *vis, int slot)
{
	if (source->cursor)
	{
		take_row(source, tree, ForwardScanDirection,
				 rose_component_cursor_goto(source->cursor, slot));
		return;
	}
	source->next = slot;
	rose_source_advance(source, tree, vis, ForwardScanDirection);
}
