/*-------------------------------------------------------------------------
 *
 * rose_cursor.c
 *	  A cursor over the versions of one component, in both directions.
 *
 * Inner pages are copied when a seek passes them and kept, one a level, so
 * that the next seek nearby reads only the leaf.  The leaf is a private copy
 * (RoseLeaf) that a row's user may hold beyond the cursor's next move.
 *
 * Backend-local; buffer locks are taken inside rose_block_read only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_readahead.h"
#include "lsm/component/rose_component_internal.h"

/* So many leaves in a row that were not in shared buffers, and the next ones are read ahead ... */
#define MISSES_BEFORE_READAHEAD	2
#define MISSES_MAX				8
/* ... as long as others read from the disk, too, every so many leaves. */
#define LEAVES_UNDISTURBED		64

/* So many searches for keys in a component, and more are expected. */
#define SEARCHES_BEFORE_ARRAY	8

/* An inner page that the last seek went through. */
typedef struct CursorFrame
{
	BlockNumber block;			/* InvalidBlockNumber: nothing read */
	char	   *image;
	RosePageReader *reader;
} CursorFrame;

/* What is known of the current row. */
typedef enum CursorRowState
{
	CURSOR_NO_ROW,
	CURSOR_KEYED_ROW,			/* all but its version */
	CURSOR_FULL_ROW
} CursorRowState;

struct RoseComponentCursor
{
	RoseComponent *component;
	Relation	rel;
	const RoseSchema *schema;
	BufferAccessStrategy strategy;
	MemoryContext context;
	MemoryContext leaf_parent;
	CursorFrame frames[ROSE_MAX_HEIGHT];	/* by depth; 0, the root, is the component's */
	RoseInnerPlace places[ROSE_MAX_HEIGHT]; /* that leaves were gone through to, by depth */
	RoseLeaf   *leaf;			/* NULL until needed */
	RoseLeaf   *spare;			/* the one before, which somebody kept; or NULL */
	uint64		first_ordinal;	/* see rose_component_cursor_set_first */
	RoseKeyBuffer *first_key;	/* key at first_ordinal; NULL until asked for */
	int			slot;			/* -1: not on a row */
	int			moves;			/* next and prev since the last seek */
	int			misses;			/* neighbours not in shared buffers, less those that were */
	int			disturbed;		/* leaves for which it matters that others read, too */
	bool		borrows;		/* leaves are looked at where they are: see rose_component_cursor_borrow */
	int			stride;			/* slots between the last two keys looked for there */
	bool		last_key_known; /* of that leaf: */
	Datum		last_key[INDEX_MAX_KEYS];
	RoseReadahead *readahead;	/* NULL until it pays */
	CursorRowState row_state;
	RoseRow		row;
	Datum		key[INDEX_MAX_KEYS];
};

RoseComponentCursor *
rose_component_cursor_create(RoseComponent *component, Relation rel,
							 const RoseSchema *schema, BufferAccessStrategy strategy,
							 MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose component cursor",
											  ALLOCSET_SMALL_SIZES);
	RoseComponentCursor *cursor = MemoryContextAllocZero(own, sizeof(RoseComponentCursor));

	cursor->component = component;
	cursor->rel = rel;
	cursor->schema = schema;
	cursor->strategy = strategy;
	cursor->context = own;
	cursor->leaf_parent = context;
	cursor->slot = -1;
	for (int i = 0; i < ROSE_MAX_HEIGHT; i++)
		cursor->frames[i].block = InvalidBlockNumber;
	return cursor;
}

void
rose_component_cursor_free(RoseComponentCursor *cursor)
{
	rose_leaf_abandon(cursor->leaf);
	rose_leaf_abandon(cursor->spare);
	MemoryContextDelete(cursor->context);
}

/* Of a leaf: it changes hands with its cursor.  Whoever else has it must not find that it is still to be read. */
static void
pass_on_leaf(RoseLeaf *leaf, MemoryContext context)
{
	if (leaf == NULL)
		return;
	if (leaf->rows.refcount > 1)
		rose_leaf_need(leaf);
	MemoryContextSetParent(leaf->rows.context, context);
	rose_leaf_reset_window(leaf);
	leaf->read = ROSE_LEAF_NOT_READ;
}

void
rose_component_cursor_pass_on(RoseComponentCursor *cursor, MemoryContext context)
{
	Assert(rose_component_cursor_may_be_kept(cursor, cursor->schema));
	pass_on_leaf(cursor->leaf, context);
	pass_on_leaf(cursor->spare, context);
	MemoryContextSetParent(cursor->context, context);
	cursor->leaf_parent = context;
	cursor->slot = -1;
	cursor->row_state = CURSOR_NO_ROW;
	cursor->moves = cursor->misses = cursor->disturbed = 0;
}

bool
rose_component_cursor_may_be_kept(const RoseComponentCursor *cursor, const RoseSchema *schema)
{
	return cursor->schema == schema && cursor->strategy == NULL && cursor->readahead == NULL &&
		!cursor->borrows;
}

static bool
leaf_may_rest(const RoseLeaf *leaf, Size bytes)
{
	return leaf == NULL ||
		(leaf->rows.refcount == 1 && leaf->extra_context->mem_allocated <= bytes);
}

bool
rose_component_cursor_may_rest(const RoseComponentCursor *cursor, Size bytes)
{
	return leaf_may_rest(cursor->leaf, bytes) && leaf_may_rest(cursor->spare, bytes);
}

bool
rose_component_cursor_is_of(const RoseComponentCursor *cursor, const RoseComponent *component)
{
	return cursor->component == component;
}

const RoseComponentInfo *
rose_component_cursor_info(const RoseComponentCursor *cursor)
{
	return &cursor->component->info;
}

void
rose_component_cursor_rebind(RoseComponentCursor *cursor, Relation rel)
{
	cursor->rel = rel;
	if (cursor->leaf)
		cursor->leaf->rel = rel;
	if (cursor->spare)
		cursor->spare->rel = rel;
}

void
rose_component_cursor_set_first(RoseComponentCursor *cursor, uint64 first_ordinal)
{
	if (cursor->first_ordinal != first_ordinal && cursor->first_key != NULL)
		cursor->first_key->valid = false;
	cursor->first_ordinal = first_ordinal;
}

bool
rose_component_cursor_is_before(RoseComponentCursor *cursor, const Datum *key)
{
	if (cursor->first_ordinal == 0)
		return false;
	if (cursor->first_key == NULL)
	{
		cursor->first_key = MemoryContextAllocZero(cursor->context, sizeof(RoseKeyBuffer));
		rose_key_buffer_init(cursor->first_key, cursor->context);
	}
	if (!cursor->first_key->valid)
	{
		if (!rose_component_cursor_first(cursor))
			return true;
		rose_key_buffer_set(cursor->first_key, cursor->schema,
							rose_component_cursor_row(cursor)->key);
	}
	return rose_key_compare(cursor->schema, key, cursor->first_key->key,
							rose_schema_key_width(cursor->schema)) < 0;
}

/* ---- the way down ---- */

static void
read_inner(RoseComponentCursor *cursor, BlockNumber block, char *image, RosePageReader *reader)
{
	rose_component_read_inner(cursor->component, cursor->rel, block, image, reader);
}

static RosePageReader *
root_reader(RoseComponentCursor *cursor)
{
	RoseComponent *component = cursor->component;

	if (component->root_image == NULL)
	{
		char	   *image = MemoryContextAlloc(component->context, BLCKSZ);
		RosePageReader *reader = rose_page_reader_create_small(component->ninnercols,
															   component->inner_descs,
															   component->context);

		read_inner(cursor, component->group.root, image, reader);
		component->root_reader = reader;
		component->root_image = image;
	}
	return component->root_reader;
}

static RosePageReader *
inner_reader(RoseComponentCursor *cursor, int depth, BlockNumber block)
{
	CursorFrame *frame = &cursor->frames[depth];

	if (depth == 0)
		return root_reader(cursor);
	if (frame->block == block)
		return frame->reader;
	if (frame->image == NULL)
	{
		frame->image = MemoryContextAlloc(cursor->context, BLCKSZ);
		frame->reader = rose_page_reader_create(cursor->component->ninnercols,
												cursor->component->inner_descs,
												cursor->context);
	}
	frame->block = InvalidBlockNumber;
	read_inner(cursor, block, frame->image, frame->reader);
	frame->block = block;
	return frame->reader;
}

/*
 * A leaf to load a page into.  Whoever keeps the present one, say a slot with its last
 * row, has usually let go of it by the time the next page was read, so two take turns.
 */
static RoseLeaf *
free_leaf(RoseComponentCursor *cursor)
{
	RoseLeaf   *kept = cursor->leaf;

	if (kept != NULL && kept->rows.refcount == 1)
		return kept;
	cursor->leaf = cursor->spare;
	cursor->spare = kept;
	if (cursor->leaf != NULL && cursor->leaf->rows.refcount > 1)
	{
		rose_leaf_abandon(cursor->leaf);
		cursor->leaf = NULL;
	}
	if (cursor->leaf == NULL)
		cursor->leaf = rose_leaf_create(cursor->component, cursor->rel, cursor->schema,
										cursor->leaf_parent);
	if (kept != NULL)
		cursor->leaf->window_size = kept->window_size;
	return cursor->leaf;
}

static void
load_leaf(RoseComponentCursor *cursor, BlockNumber block)
{
	cursor->row_state = CURSOR_NO_ROW;
	if (cursor->borrows && (cursor->leaf == NULL || cursor->leaf->block != block))
	{
		cursor->last_key_known = false;
		rose_leaf_borrow(free_leaf(cursor), block);
	}
	else if (cursor->leaf == NULL || cursor->leaf->block != block)
		rose_leaf_load(free_leaf(cursor), block, cursor->strategy);
	else
		rose_leaf_need(cursor->leaf);
}

/* The cursor that read a leaf from the disk last; may be gone. */
static const RoseComponentCursor *last_reader;

/*
 * A neighbour of the leaf at hand is about to be read.
 *
 * The kernel reads ahead well for one who reads blocks in ascending order.  If cursors
 * take turns, as in a scan over a component and newer runs or in a merge, or go backward,
 * we tell it what to read.
 */
static void
read_ahead(RoseComponentCursor *cursor, BlockNumber block, bool forward)
{
	if (cursor->misses < MISSES_BEFORE_READAHEAD || (cursor->disturbed == 0 && forward))
		return;
	if (cursor->readahead == NULL)
		cursor->readahead = rose_readahead_create(cursor->context);
	rose_readahead_step(cursor->readahead, cursor->rel, block, forward);
}

/* Learn from where the leaf at hand was found. */
static void
note_read(RoseComponentCursor *cursor)
{
	RoseLeafRead read = cursor->leaf->read;

	cursor->leaf->read = ROSE_LEAF_NOT_READ;
	if (read == ROSE_LEAF_NOT_READ)
		return;
	cursor->disturbed = Max(cursor->disturbed - 1, 0);
	if (read == ROSE_LEAF_CACHED)
	{
		cursor->misses = Max(cursor->misses - 1, 0);
		return;
	}
	cursor->misses = Min(cursor->misses + 1, MISSES_MAX);
	if (last_reader != cursor)
		cursor->disturbed = LEAVES_UNDISTURBED;
	last_reader = cursor;
}

static void
load_neighbour(RoseComponentCursor *cursor, BlockNumber block, bool forward)
{
	read_ahead(cursor, block, forward);
	load_leaf(cursor, block);
	note_read(cursor);
}

/* What a descent looks for. */
typedef struct SeekTarget
{
	enum
	{
		SEEK_LOWER, SEEK_UPPER, SEEK_ORDINAL
	}			kind;
	const Datum *key;
	int			ncols;
	uint64		seq;
	uint64		ordinal;
} SeekTarget;

/* A search begins. */
static void
begin_search(RoseComponentCursor *cursor)
{
	cursor->slot = -1;
	cursor->moves = 0;
	if (cursor->leaf)
		rose_leaf_reset_window(cursor->leaf);
}

/*
 * The slot to go down at, not before the first row that is not left out: pages that have
 * only rows before it may be others' by now.
 */
static int
skip_left_out(const RoseComponentCursor *cursor, RosePageReader *reader, int slot)
{
	return cursor->first_ordinal == 0 ? slot :
		Max(slot, rose_inner_find_ordinal(reader, cursor->first_ordinal));
}

/* The root as arrays, if it is searched often, and for what these are for. */
static const RoseInnerArray *
root_array(RoseComponentCursor *cursor, const SeekTarget *target)
{
	RoseComponent *component = cursor->component;

	if (component->group.height == 0 || cursor->first_ordinal > 0 || target->kind != SEEK_LOWER ||
		target->ncols != 1 || rose_schema_key_width(cursor->schema) != 1)
		return NULL;
	if (component->root_searches < SEARCHES_BEFORE_ARRAY &&
		++component->root_searches == SEARCHES_BEFORE_ARRAY)
		component->root_array = rose_inner_array_make(root_reader(cursor), cursor->schema,
													  component->context);
	return component->root_array;
}

/* Load the leaf in which the target is or would be; but for SEEK_ORDINAL, none of which all rows are left out. */
static void
descend(RoseComponentCursor *cursor, const SeekTarget *target)
{
	BlockNumber block = cursor->component->group.root;
	const RoseInnerArray *array = root_array(cursor, target);

	begin_search(cursor);
	if (array != NULL)
		block = array->children[rose_inner_array_find(array, cursor->schema, target->key[0])];
	for (int depth = array != NULL ? 1 : 0; depth < cursor->component->group.height; depth++)
	{
		RosePageReader *reader = inner_reader(cursor, depth, block);
		int			slot = 0;

		switch (target->kind)
		{
			case SEEK_LOWER:
				slot = skip_left_out(cursor, reader,
									 rose_inner_find_lower(reader, cursor->schema, target->key,
														   target->ncols, target->seq));
				break;
			case SEEK_UPPER:
				slot = skip_left_out(cursor, reader,
									 rose_inner_find_upper(reader, cursor->schema, target->key,
														   target->ncols));
				break;
			case SEEK_ORDINAL:
				slot = rose_inner_find_ordinal(reader, target->ordinal);
				break;
		}
		block = rose_inner_child(reader, slot);
	}
	load_leaf(cursor, block);
}

/* ---- positions ---- */

/*
 * Stand on a slot of the loaded leaf, or on its neighbour's if it is out of range.  A
 * neighbour of which all rows are left out is not read.
 */
static bool
settle(RoseComponentCursor *cursor, int slot)
{
	RoseLeaf   *leaf = cursor->leaf;
	BlockNumber neighbour;

	cursor->row_state = CURSOR_NO_ROW;
	rose_leaf_need(leaf);
	if (slot >= 0 && slot < leaf->rows.nrows)
	{
		cursor->slot = slot;
		return true;
	}
	neighbour = slot < 0 ? leaf->prev : leaf->next;
	cursor->slot = -1;
	if (neighbour == InvalidBlockNumber ||
		(slot < 0 && leaf->first_ordinal <= cursor->first_ordinal))
		return false;
	load_neighbour(cursor, neighbour, slot >= 0);
	cursor->slot = slot < 0 ? cursor->leaf->rows.nrows - 1 : 0;
	return true;
}

/* The cursor stands on a row that is left out. */
static bool
is_left_out(const RoseComponentCursor *cursor)
{
	return cursor->leaf->first_ordinal + cursor->slot < cursor->first_ordinal;
}

/* After a move towards the start. */
static bool
stop_before_first(RoseComponentCursor *cursor, bool found)
{
	if (!found || !is_left_out(cursor))
		return found;
	cursor->slot = -1;
	return false;
}

bool
rose_component_cursor_first(RoseComponentCursor *cursor)
{
	if (cursor->first_ordinal > 0)
		return rose_component_cursor_seek_ordinal(cursor, cursor->first_ordinal);
	cursor->slot = -1;
	load_leaf(cursor, cursor->component->group.first_leaf);
	return settle(cursor, 0);
}

bool
rose_component_cursor_last(RoseComponentCursor *cursor)
{
	cursor->slot = -1;
	load_leaf(cursor, cursor->component->group.last_leaf);
	return stop_before_first(cursor, settle(cursor, cursor->leaf->rows.nrows - 1));
}

bool
rose_component_cursor_seek(RoseComponentCursor *cursor, const Datum *key, int ncols,
						   uint64 seq)
{
	SeekTarget	target = {.kind = SEEK_LOWER, .key = key, .ncols = ncols, .seq = seq};
	int			lo = 0;
	int			hi;

	if (ncols == 0)
		return rose_component_cursor_first(cursor);
	descend(cursor, &target);
	hi = cursor->leaf->rows.nrows;
	if (rose_page_narrow(cursor->leaf->reader, cursor->schema, false, key, ncols, &lo, &hi) &&
		ncols == rose_schema_key_width(cursor->schema))
		lo = rose_page_search_seq(cursor->leaf->reader, ROSE_SYSCOL_SEQ, lo, hi, seq);
	if (!settle(cursor, lo))
		return false;
	return is_left_out(cursor) ? rose_component_cursor_first(cursor) : true;
}

/* The leaf at hand is one that the descent to this key or to one before it has led to. */
static bool
is_in_leaf(RoseComponentCursor *cursor, const Datum *key)
{
	if (cursor->leaf == NULL || cursor->leaf->block == InvalidBlockNumber || cursor->first_ordinal > 0)
		return false;
	if (!cursor->last_key_known)
		rose_leaf_get_key(cursor->leaf, cursor->leaf->rows.nrows - 1, cursor->last_key);
	cursor->last_key_known = true;
	return rose_key_compare(cursor->schema, key, cursor->last_key,
							rose_schema_key_width(cursor->schema)) <= 0;
}

/* Is the key in slots from..hi of the leaf?  *slot: where, or where it would be. */
static bool
find_between(RoseComponentCursor *cursor, const Datum *key, int from, int hi, int *slot)
{
	*slot = from;
	return rose_page_narrow(cursor->leaf->reader, cursor->schema, false, key,
							rose_schema_key_width(cursor->schema), slot, &hi);
}

bool
rose_component_cursor_find_here(RoseComponentCursor *cursor, const Datum *key, bool *found)
{
	int			from = Max(cursor->slot, 0);
	int			hi;
	int			slot;

	if (!is_in_leaf(cursor, key))
		return false;
	/* not much farther away than the one before was */
	hi = Min(from + 2 * cursor->stride + 2, cursor->leaf->rows.nrows);
	*found = find_between(cursor, key, from, hi, &slot);
	if (!*found && slot == hi)
		*found = find_between(cursor, key, hi, cursor->leaf->rows.nrows, &slot);
	Assert(slot < cursor->leaf->rows.nrows);
	cursor->stride = slot - from;
	cursor->slot = slot;
	cursor->row_state = CURSOR_NO_ROW;
	return true;
}

bool
rose_component_cursor_seek_key(RoseComponentCursor *cursor, const Datum *key)
{
	int			width = rose_schema_key_width(cursor->schema);
	SeekTarget	target = {.kind = SEEK_LOWER, .key = key, .ncols = width, .seq = PG_UINT64_MAX};
	bool		found;
	int			slot;

	descend(cursor, &target);
	cursor->stride = cursor->leaf->rows.nrows / 2;
	found = find_between(cursor, key, 0, cursor->leaf->rows.nrows, &slot);
	if (!settle(cursor, slot))
		return false;
	if (found && !is_left_out(cursor))
		return true;
	if (is_left_out(cursor) && !rose_component_cursor_first(cursor))
		return false;
	return rose_key_compare(cursor->schema, rose_component_cursor_keyed_row(cursor)->key, key,
							width) == 0;
}

void
rose_component_cursor_borrow(RoseComponentCursor *cursor)
{
	cursor->borrows = true;
}

void
rose_component_cursor_give_back(RoseComponentCursor *cursor)
{
	Assert(cursor->borrows);
	cursor->slot = -1;
	cursor->row_state = CURSOR_NO_ROW;
	cursor->last_key_known = false;
	if (cursor->leaf != NULL)
		rose_leaf_give_back(cursor->leaf);
}

bool
rose_component_cursor_seek_last(RoseComponentCursor *cursor, const Datum *key,
								int ncols, bool inclusive)
{
	SeekTarget	target = {.kind = inclusive ? SEEK_UPPER : SEEK_LOWER,
	.key = key, .ncols = ncols, .seq = PG_UINT64_MAX};
	int			lo = 0;
	int			hi;
	bool		found;

	if (ncols == 0)
		return rose_component_cursor_last(cursor);
	descend(cursor, &target);
	hi = cursor->leaf->rows.nrows;
	found = rose_page_narrow(cursor->leaf->reader, cursor->schema, false, key, ncols, &lo, &hi);
	return stop_before_first(cursor, settle(cursor, found && inclusive ? hi - 1 : lo - 1));
}

/* Is it a row of the leaf at hand? */
static bool
has_ordinal(const RoseComponentCursor *cursor, uint64 ordinal)
{
	const RoseLeaf *leaf = cursor->leaf;

	return leaf != NULL && leaf->block != InvalidBlockNumber && !leaf->pending &&
		ordinal - leaf->first_ordinal < (uint64) leaf->rows.nrows;
}

bool
rose_component_cursor_seek_ordinal(RoseComponentCursor *cursor, uint64 ordinal)
{
	SeekTarget	target = {.kind = SEEK_ORDINAL, .ordinal = ordinal};

	cursor->slot = -1;
	if (ordinal >= cursor->component->footer.nrows)
		return false;
	if (has_ordinal(cursor, ordinal))
		begin_search(cursor);
	else
		descend(cursor, &target);
	if (ordinal < cursor->leaf->first_ordinal ||
		ordinal - cursor->leaf->first_ordinal >= cursor->leaf->rows.nrows)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row " UINT64_FORMAT " of component %u is not in the leaf at block %u",
						ordinal, cursor->component->info.entry.id, cursor->leaf->block)));
	return settle(cursor, (int) (ordinal - cursor->leaf->first_ordinal));
}

/* A cursor that moves on and on decodes many rows at a time; a lookup does not. */
#define MOVES_BEFORE_WINDOW	2

bool
rose_component_cursor_next(RoseComponentCursor *cursor)
{
	if (cursor->slot < 0 || !settle(cursor, cursor->slot + 1))
		return false;
	if (cursor->moves++ >= MOVES_BEFORE_WINDOW)
		rose_leaf_set_window(cursor->leaf, cursor->slot, true);
	return true;
}

bool
rose_component_cursor_prev(RoseComponentCursor *cursor)
{
	if (cursor->slot < 0 || !stop_before_first(cursor, settle(cursor, cursor->slot - 1)))
		return false;
	if (cursor->moves++ >= MOVES_BEFORE_WINDOW)
		rose_leaf_set_window(cursor->leaf, cursor->slot, false);
	return true;
}

RoseLeaf *
rose_component_cursor_leaf(const RoseComponentCursor *cursor, int *slot)
{
	Assert(cursor->slot >= 0);
	*slot = cursor->slot;
	return cursor->leaf;
}

bool
rose_component_cursor_goto(RoseComponentCursor *cursor, int slot)
{
	Assert(cursor->slot >= 0 && slot >= cursor->slot);
	if (slot == cursor->slot)
		return true;
	cursor->moves += slot - cursor->slot;
	if (!settle(cursor, slot))
		return false;
	if (cursor->moves > MOVES_BEFORE_WINDOW)
		rose_leaf_set_window(cursor->leaf, cursor->slot, true);
	return true;
}

/* The leaf that begins with this row, and the row behind its last one. */
static BlockNumber
find_leaf(RoseComponentCursor *cursor, uint64 ordinal, uint64 *end)
{
	BlockNumber block = cursor->component->group.root;
	uint64		first = 0;

	*end = cursor->component->footer.nrows;
	for (int depth = 0; depth < cursor->component->group.height; depth++)
	{
		RosePageReader *reader = inner_reader(cursor, depth, block);
		RoseInnerPlace *place = &cursor->places[depth];

		rose_inner_move(reader, block, ordinal, *end, place);
		first = place->first;
		*end = place->end;
		block = rose_inner_child(reader, place->slot);
	}
	if (first != ordinal || *end <= first || *end - first > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("no leaf of component %u begins with row " UINT64_FORMAT,
						cursor->component->info.entry.id, ordinal)));
	return block;
}

int
rose_component_cursor_bound(RoseComponentCursor *cursor, uint64 ordinal, Datum *key)
{
	BlockNumber block = cursor->component->group.root;
	RosePageReader *reader = NULL;
	int			slot = 0;
	int			ncols = 0;
	bool		isnull;

	for (int depth = 0; depth < cursor->component->group.height; depth++)
	{
		reader = inner_reader(cursor, depth, block);
		slot = rose_inner_find_ordinal(reader, ordinal);
		block = rose_inner_child(reader, slot);
	}
	while (reader != NULL && ncols < rose_schema_key_width(cursor->schema))
	{
		key[ncols] = rose_page_get(reader, ROSE_INNERCOLS + ncols, slot, &isnull);
		if (isnull)
			break;
		ncols++;
	}
	return ncols;
}

RoseLeaf *
rose_component_cursor_next_leaf(RoseComponentCursor *cursor)
{
	const RoseLeaf *leaf = cursor->leaf;
	uint64		first = leaf->first_ordinal + leaf->rows.nrows;
	BlockNumber block;
	uint64		end;

	Assert(cursor->slot >= 0);
	if (first >= cursor->component->footer.nrows)
		return NULL;
	CHECK_FOR_INTERRUPTS();
	block = find_leaf(cursor, first, &end);
	if (!leaf->pending)
	{
		/* its values were wanted, so the next one's will be */
		note_read(cursor);
		read_ahead(cursor, block, true);
	}
	cursor->row_state = CURSOR_NO_ROW;
	cursor->moves += leaf->rows.nrows;
	rose_leaf_expect(free_leaf(cursor), block, first, (int) (end - first), cursor->strategy);
	cursor->slot = 0;
	return cursor->leaf;
}

int
rose_component_cursor_first_slot(const RoseComponentCursor *cursor)
{
	uint64		first = cursor->leaf->first_ordinal;

	return cursor->first_ordinal > first ? (int) (cursor->first_ordinal - first) : 0;
}

int
rose_component_cursor_find(RoseComponentCursor *cursor, const Datum *key, int ncols, bool after)
{
	Assert(cursor->slot >= 0);
	return rose_leaf_find(cursor->leaf, cursor->slot, key, ncols, after);
}

const RoseRow *
rose_component_cursor_keyed_row(RoseComponentCursor *cursor)
{
	Assert(cursor->slot >= 0);
	if (cursor->row_state == CURSOR_NO_ROW)
	{
		rose_leaf_get_keyed_row(cursor->leaf, cursor->slot, &cursor->row, cursor->key);
		cursor->row_state = CURSOR_KEYED_ROW;
	}
	return &cursor->row;
}

const RoseRow *
rose_component_cursor_row(RoseComponentCursor *cursor)
{
	(void) rose_component_cursor_keyed_row(cursor);
	if (cursor->row_state == CURSOR_KEYED_ROW)
	{
		rose_leaf_get_version(cursor->leaf, cursor->slot, &cursor->row.version);
		cursor->row_state = CURSOR_FULL_ROW;
	}
	return &cursor->row;
}
