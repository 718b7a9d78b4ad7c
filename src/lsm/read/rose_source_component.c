/*-------------------------------------------------------------------------
 *
 * rose_source_component.c
 *	  Components as sources of a scan: one by itself, or the pieces of C2 one after the other.
 *	  See rose_source.h.
 *
 * Most of a table is at rest in one large component, or in several that do not
 * overlap, and what is newer has few keys.  Between two of those keys the rows of
 * the large component need no reconciliation (Rose paper, section 3.3), provided that
 *
 *	- they come from a component of committed versions,
 *	- the leaf has whole rows only, and
 *	- the snapshot sees all transactions that wrote them, because they are older than
 *	  any that was running when it was taken.
 *
 * The last two are asked of the component, and if that cannot tell, of the leaf, once for
 * each leaf.  So much of it is at hand then.
 *
 * Backend-local; what is read is read by cursors (lsm/component/rose_cursor.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/component/rose_leaf.h"
#include "lsm/read/rose_hits.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_source.h"

/* The pieces of C2, by their index in the manifest, and where in them the source is. */
typedef struct RosePieceChain
{
	RoseComponentCursor *cursors[ROSE_MAX_COMPONENTS];	/* made on demand */
	int			at;				/* piece at hand */
} RosePieceChain;

typedef struct ComponentSource
{
	RoseSource	base;
	RoseComponentCursor *cursor;	/* of the component, or the piece at hand */
	RoseComponentEntryDisk entry;	/* of the same */
	RoseRow		edge;			/* the row while it is waiting */
	BlockNumber judged_block;	/* leaf that settled_end is about */
	int			settled_end;	/* its first row that is not at hand ... */
	bool		range_ends;		/* ... as it is behind the range */
	RosePieceChain *chain;		/* NULL: it is the only piece */
	bool		of_pieces;		/* it has all of C2 */
} ComponentSource;

/* ---- opening ---- */

/* Do its keys, from the first to the last, touch the range? */
static bool
is_in_range(const RoseReading *reading, int index)
{
	const RoseKeyRange *range = reading->range;
	const RoseSchema *schema = reading->view->schema;
	const RoseComponentInfo *info;
	int			cmp;

	if (range->nlower == 0 && range->nupper == 0)
		return true;
	info = rose_component_info(rose_view_component(reading->view, index));
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

/* Asks its filter, if all keys of the range have one hash. */
static bool
may_have_hash(const RoseReading *reading, int index)
{
	const RoseKeyRange *range = reading->range;

	return range->nhashed == 0 ||
		rose_filter_ask_prefix(rose_view_component(reading->view, index), reading->view->tree->rel,
							   range->lower, range->nhashed, range->hash);
}

bool
rose_source_component_overlaps(const RoseReading *reading, int index)
{
	return is_in_range(reading, index) && may_have_hash(reading, index);
}

bool
rose_source_pieces_overlap(const RoseReading *reading)
{
	const RoseKeyRange *range = reading->range;
	RoseView   *view = reading->view;
	int			i;

	if (range->nhashed == 0 || rose_hits_expected(view->tree))
		return true;
	i = rose_view_find_piece(view, range->lower, range->nlower, !range->lower_inclusive);
	for (; i < view->manifest.ncomponents && is_in_range(reading, i); i++)
		if (may_have_hash(reading, i))
			return true;
	rose_hits_note(view->tree, false);
	return false;
}

static ComponentSource *
make_source(const RoseReading *reading, const RoseSourceOps *ops)
{
	ComponentSource *source = MemoryContextAllocZero(reading->context, sizeof(ComponentSource));

	source->base.ops = ops;
	source->base.reading = reading;
	source->base.entry = &source->entry;
	return source;
}

/* The component that the source reads now. */
static void
set_component(ComponentSource *source, RoseComponentCursor *cursor,
			  const RoseComponentEntryDisk *entry)
{
	source->cursor = cursor;
	source->entry = *entry;
	source->judged_block = InvalidBlockNumber;
	source->base.committed = (entry->flags & ROSE_COMPONENT_PRIVATE) == 0;
	source->base.repeats = (entry->flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0;
}

/* Are rows of a range read, which may be so few that to make cursors for them is a good part of it? */
static bool
reads_range(const RoseReading *reading)
{
	return reading->range->nlower + reading->range->nupper > 0 && reading->strategy == NULL;
}

/* On a component of the view. */
static RoseComponentCursor *
make_cursor(const RoseReading *reading, int index)
{
	RoseView   *view = reading->view;
	RoseComponent *component = rose_view_component(view, index);
	RoseComponentCursor *cursor = NULL;

	if (reads_range(reading) && view->schema == view->tree->schema)
		cursor = rose_lookup_cache_take_cursor(view->tree, component, reading->context);
	if (cursor == NULL)
		cursor = rose_component_cursor_create(component, view->tree->rel, view->schema,
											  reading->strategy, reading->context);
	rose_component_cursor_set_first(cursor, rose_view_entry(view, index)->first_ordinal);
	return cursor;
}

static void
leave_cursor(const RoseReading *reading, RoseComponentCursor *cursor)
{
	if (reads_range(reading))
		rose_lookup_cache_give_cursor(reading->tree, cursor);
	else
		rose_component_cursor_free(cursor);
}

static bool
has_piece(const RoseView *view, int i)
{
	return i >= view->first_piece && i < view->manifest.ncomponents;
}

static void
set_piece(ComponentSource *source, int i)
{
	const RoseReading *reading = source->base.reading;
	RosePieceChain *chain = source->chain;

	if (chain->cursors[i] == NULL)
		chain->cursors[i] = make_cursor(reading, i);
	chain->at = i;
	set_component(source, chain->cursors[i], rose_view_entry(reading->view, i));
}

/* ---- positions ---- */

/*
 * The key that a component's rows begin with in this direction, if a scan that starts at
 * the bound gets all of them; else NULL.
 */
static const Datum *
component_edge(const ComponentSource *source, ScanDirection direction,
			   const Datum *key, int ncols, bool inclusive)
{
	const RoseComponentInfo *info = rose_component_cursor_info(source->cursor);
	bool		forward = ScanDirectionIsForward(direction);
	const Datum *edge = forward ? info->min_key : info->max_key;
	int			cmp;

	if (ncols == 0)
		return edge;
	cmp = rose_key_compare(source->base.reading->tree->schema, edge, key, ncols);
	if (cmp == 0)
		return inclusive ? edge : NULL;
	return (cmp > 0) == forward ? edge : NULL;
}

/* Put the cursor where a scan begins; false: there is no row. */
static bool
place_cursor(ComponentSource *source, ScanDirection direction, const Datum *key, int ncols,
			 bool inclusive)
{
	RoseComponentCursor *cursor = source->cursor;

	if (!ScanDirectionIsForward(direction))
		return ncols == 0 ? rose_component_cursor_last(cursor) :
			rose_component_cursor_seek_last(cursor, key, ncols, inclusive);
	if (ncols == 0)
		return rose_component_cursor_first(cursor);
	if (inclusive)
		return rose_component_cursor_seek(cursor, key, ncols, PG_UINT64_MAX);
	if (ncols == rose_schema_key_width(source->base.reading->tree->schema))
		return rose_component_cursor_seek(cursor, key, ncols, 0);
	if (rose_component_cursor_seek_last(cursor, key, ncols, true))
		return rose_component_cursor_next(cursor);
	return rose_component_cursor_first(cursor);
}

/* The cursor has moved. */
static void
take_cursor_row(ComponentSource *source, bool found)
{
	rose_source_set_row(&source->base,
						found ? rose_component_cursor_keyed_row(source->cursor) : NULL);
}

/*
 * Positioned in C2, for whose filter nobody may have been asked (rose_hits.h): has it keys of the range, as far as all of
 * these have one hash?
 */
static void
note_hit(const ComponentSource *source)
{
	const RoseReading *reading = source->base.reading;
	const RoseKeyRange *range = reading->range;

	if (source->of_pieces && range->nhashed > 0)
		rose_hits_note(reading->tree, source->base.state == ROSE_SOURCE_ROW &&
					   rose_key_compare(reading->tree->schema, source->base.row->key, range->lower,
										range->nhashed) == 0);
}

static void
component_position(RoseSource *base, ScanDirection direction, const Datum *key, int ncols,
				   bool inclusive)
{
	ComponentSource *source = (ComponentSource *) base;
	const Datum *edge = component_edge(source, direction, key, ncols, inclusive);

	base->waiting = edge != NULL;
	if (!base->waiting)
	{
		take_cursor_row(source, place_cursor(source, direction, key, ncols, inclusive));
		note_hit(source);
		return;
	}
	memset(&source->edge, 0, sizeof(source->edge));
	source->edge.key = edge;
	rose_source_set_row(base, &source->edge);
}

static void
component_wake(RoseSource *base, ScanDirection direction)
{
	ComponentSource *source = (ComponentSource *) base;

	Assert(base->waiting);
	base->waiting = false;
	take_cursor_row(source, place_cursor(source, direction, NULL, 0, true));
}

static bool
step_cursor(ComponentSource *source, ScanDirection direction)
{
	return ScanDirectionIsForward(direction) ? rose_component_cursor_next(source->cursor) :
		rose_component_cursor_prev(source->cursor);
}

static void
component_advance(RoseSource *base, ScanDirection direction)
{
	ComponentSource *source = (ComponentSource *) base;

	take_cursor_row(source, step_cursor(source, direction));
}

static void
component_need_version(RoseSource *base)
{
	(void) rose_component_cursor_row(((ComponentSource *) base)->cursor);
}

static const RoseRow *
component_take(RoseSource *base, int slot)
{
	RoseComponentCursor *cursor = ((ComponentSource *) base)->cursor;

	(void) rose_component_cursor_goto(cursor, slot);
	return rose_component_cursor_keyed_row(cursor);
}

static void
component_go_to(RoseSource *base, int slot)
{
	ComponentSource *source = (ComponentSource *) base;

	take_cursor_row(source, rose_component_cursor_goto(source->cursor, slot));
}

static void
component_close(RoseSource *base)
{
	leave_cursor(base->reading, ((ComponentSource *) base)->cursor);
}

/* ---- rows at hand ---- */

/* Are all rows of the component whole ones that the snapshot sees?  False: ask the leaf. */
static bool
component_is_settled(const ComponentSource *source)
{
	return source->base.committed &&
		source->entry.max_xid < U64FromFullTransactionId(source->base.reading->vis->xmin) &&
		(source->entry.flags & ROSE_COMPONENT_ONLY_PUTS) != 0;
}

/* Are all rows of the leaf whole ones that the snapshot sees? */
static bool
leaf_is_settled(const ComponentSource *source, RoseLeaf *leaf)
{
	FullTransactionId xmin = source->base.reading->vis->xmin;

	if (source->entry.max_xid >= U64FromFullTransactionId(xmin) &&
		!rose_leaf_precedes(leaf, xmin))
		return false;
	return (source->entry.flags & ROSE_COMPONENT_ONLY_PUTS) != 0 ||
		rose_leaf_only_puts(leaf);
}

/*
 * What there is to know of the leaf under the cursor, once for as long as it is that:
 * where its rows at hand end at the latest.
 */
static void
judge_leaf(ComponentSource *source, RoseLeaf *leaf)
{
	const RoseKeyRange *range = source->base.reading->range;

	source->judged_block = leaf->block;
	source->settled_end = 0;
	source->range_ends = false;
	if (!leaf_is_settled(source, leaf))
		return;
	source->settled_end = range->nupper == 0 ? leaf->rows.nrows :
		rose_component_cursor_find(source->cursor, range->upper, range->nupper,
								   range->upper_inclusive);
	source->range_ends = source->settled_end < leaf->rows.nrows;
}

/* The slot behind the first key that the leaf goes on with in [slot + 1, end). */
static int
find_repeated_key(RoseLeaf *leaf, int slot, int end)
{
	const RoseSchema *schema = leaf->rows.schema;
	Datum		keys[2][INDEX_MAX_KEYS];
	int			turn = 0;

	rose_leaf_set_window(leaf, slot, true);
	end = Min(end, leaf->rows.window_first + leaf->rows.window_rows);
	rose_leaf_get_key(leaf, slot, keys[turn]);
	while (++slot < end)
	{
		rose_leaf_get_key(leaf, slot, keys[!turn]);
		if (rose_key_compare(schema, keys[0], keys[1], rose_schema_key_width(schema)) == 0)
			break;
		turn = !turn;
	}
	return slot;
}

/* The leaf under the cursor, the row that it is on, and the end of those at hand; false: there are none. */
static bool
settled_rows(ComponentSource *source, RoseLeaf **leaf, int *slot, int *end)
{
	*leaf = rose_component_cursor_leaf(source->cursor, slot);
	if (!source->base.committed)
		return false;
	if (source->judged_block != (*leaf)->block)
		judge_leaf(source, *leaf);
	*end = source->settled_end;
	return *slot < *end;
}

/* A stretch of slots of a leaf; false: its rows must be named one by one. */
static bool
set_stretch(const ComponentSource *source, RoseLeaf *leaf, int next, int end, RoseStretch *stretch)
{
	if (!rose_tid_first_number(source->base.reading->tree, &source->entry, &stretch->first_tid))
		return false;
	stretch->first_tid += leaf->first_ordinal;
	stretch->rows = &leaf->rows;
	stretch->next = next;
	stretch->end = end;
	stretch->last = false;
	return true;
}

/* Of a key with several versions the first one met is the newest, and the row; what is at hand ends with it. */
static bool
component_at_hand(RoseSource *base, const RoseSource *rival, RoseStretch *stretch)
{
	ComponentSource *source = (ComponentSource *) base;
	RoseLeaf   *leaf;
	int			slot;
	int			end;

	if (!settled_rows(source, &leaf, &slot, &end))
		return false;
	if (rival != NULL)
		end = Min(end, rose_leaf_find(leaf, slot, rival->row->key,
									  rose_schema_key_width(leaf->rows.schema), false));
	if (slot >= end)
		return false;
	if (base->repeats)
		end = find_repeated_key(leaf, slot, end);
	if (!set_stretch(source, leaf, slot, end, stretch))
		return false;
	stretch->last = source->range_ends && end == source->settled_end;
	return true;
}

static bool
component_at_hand_backward(RoseSource *base, const RoseSource *rival, RoseStretch *stretch)
{
	ComponentSource *source = (ComponentSource *) base;
	const RoseKeyRange *range = base->reading->range;
	RoseLeaf   *leaf;
	int			slot;
	int			end;
	int			first;

	if (base->repeats || !settled_rows(source, &leaf, &slot, &end))
		return false;
	first = rose_component_cursor_first_slot(source->cursor);
	if (rival != NULL)
		first = Max(first, rose_leaf_find(leaf, 0, rival->row->key,
										  rose_schema_key_width(leaf->rows.schema), true));
	if (range->nlower > 0)
		first = Max(first, rose_leaf_find(leaf, 0, range->lower, range->nlower,
										  !range->lower_inclusive));
	return first <= slot && set_stretch(source, leaf, slot, first, stretch);
}

static bool
component_next_rows(RoseSource *base, RoseStretch *stretch)
{
	ComponentSource *source = (ComponentSource *) base;
	uint64		first_tid;
	RoseLeaf   *leaf;

	if (base->reading->range->nupper > 0 || base->repeats || !component_is_settled(source) ||
		!rose_tid_first_number(base->reading->tree, &source->entry, &first_tid))
		return false;
	leaf = rose_component_cursor_next_leaf(source->cursor);
	return leaf != NULL && set_stretch(source, leaf, 0, leaf->rows.nrows, stretch);
}

static bool
component_count(RoseSource *base, uint64 *rows)
{
	ComponentSource *source = (ComponentSource *) base;

	if (base->repeats || !component_is_settled(source))
		return false;
	*rows = source->entry.nrows - source->entry.first_ordinal;
	return true;
}

static const RoseSourceOps component_ops = {
	.position = component_position,
	.wake = component_wake,
	.advance = component_advance,
	.need_version = component_need_version,
	.at_hand = component_at_hand,
	.at_hand_backward = component_at_hand_backward,
	.next_rows = component_next_rows,
	.count = component_count,
	.take = component_take,
	.go_to = component_go_to,
	.close = component_close
};

RoseSource *
rose_source_open_component(const RoseReading *reading, int index)
{
	ComponentSource *source = make_source(reading, &component_ops);

	set_component(source, make_cursor(reading, index), rose_view_entry(reading->view, index));
	return &source->base;
}

/* ---- several pieces ---- */

/* A scan that has gone from one piece to the next does not come back soon. */
static void
drop_piece_before(ComponentSource *source, ScanDirection direction)
{
	RosePieceChain *chain = source->chain;
	int			i = ScanDirectionIsForward(direction) ? chain->at - 1 : chain->at + 1;

	if (has_piece(source->base.reading->view, i) && chain->cursors[i] != NULL)
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
next_piece(ComponentSource *source, ScanDirection direction)
{
	int			at = source->chain->at;
	int			next = ScanDirectionIsForward(direction) ? at + 1 : at - 1;

	if (!has_piece(source->base.reading->view, next))
		return false;
	drop_piece_before(source, direction);
	set_piece(source, next);
	return place_cursor(source, direction, NULL, 0, true);
}

/* In the first piece that has something there. */
static bool
place_in_chain(ComponentSource *source, ScanDirection direction, const Datum *key, int ncols,
			   bool inclusive)
{
	RoseView   *view = source->base.reading->view;
	int			last = view->manifest.ncomponents - 1;
	bool		forward = ScanDirectionIsForward(direction);
	int			i;

	if (ncols > 0)
		i = Min(rose_view_find_piece(view, key, ncols, forward != inclusive), last);
	else
		i = forward ? view->first_piece : last;
	for (; has_piece(view, i); i += forward ? 1 : -1)
	{
		set_piece(source, i);
		if (place_cursor(source, direction, key, ncols, inclusive))
			return true;
	}
	return false;
}

static void
chain_position(RoseSource *base, ScanDirection direction, const Datum *key, int ncols,
			   bool inclusive)
{
	ComponentSource *source = (ComponentSource *) base;

	take_cursor_row(source, place_in_chain(source, direction, key, ncols, inclusive));
	note_hit(source);
}

static void
chain_advance(RoseSource *base, ScanDirection direction)
{
	ComponentSource *source = (ComponentSource *) base;

	take_cursor_row(source, step_cursor(source, direction) || next_piece(source, direction));
}

static void
chain_go_to(RoseSource *base, int slot)
{
	ComponentSource *source = (ComponentSource *) base;

	take_cursor_row(source, rose_component_cursor_goto(source->cursor, slot) ||
					next_piece(source, ForwardScanDirection));
}

static void
chain_close(RoseSource *base)
{
	RosePieceChain *chain = ((ComponentSource *) base)->chain;

	for (int i = 0; i < ROSE_MAX_COMPONENTS; i++)
		if (chain->cursors[i] != NULL)
			leave_cursor(base->reading, chain->cursors[i]);
}

/* Pieces do not overlap, but a key that had versions in two of them would be two rows. */
static bool
chain_count(RoseSource *base, uint64 *rows)
{
	ComponentSource *source = (ComponentSource *) base;
	RoseView   *view = base->reading->view;
	const Datum *before = NULL;

	*rows = 0;
	for (int i = view->first_piece; has_piece(view, i); i++)
	{
		const RoseComponentInfo *info = rose_component_info(rose_view_component(view, i));
		uint64		in_piece;

		set_piece(source, i);
		if (!component_count(base, &in_piece))
			return false;
		if (before != NULL && info->min_key != NULL &&
			rose_key_compare(view->schema, before, info->min_key,
							 rose_schema_key_width(view->schema)) >= 0)
			return false;
		before = info->max_key;
		*rows += in_piece;
	}
	return true;
}

static const RoseSourceOps chain_ops = {
	.position = chain_position,
	.advance = chain_advance,
	.need_version = component_need_version,
	.at_hand = component_at_hand,
	.at_hand_backward = component_at_hand_backward,
	.next_rows = component_next_rows,
	.count = chain_count,
	.take = component_take,
	.go_to = chain_go_to,
	.close = chain_close
};

RoseSource *
rose_source_open_pieces(const RoseReading *reading)
{
	RoseView   *view = reading->view;
	ComponentSource *source;

	if (view->manifest.ncomponents - view->first_piece == 1)
	{
		RoseSource *only = rose_source_open_component(reading, view->first_piece);

		((ComponentSource *) only)->of_pieces = true;
		return only;
	}
	source = make_source(reading, &chain_ops);
	source->of_pieces = true;
	source->chain = MemoryContextAllocZero(reading->context, sizeof(RosePieceChain));
	set_piece(source, view->first_piece);
	return &source->base;
}
