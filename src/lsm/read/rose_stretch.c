/*-------------------------------------------------------------------------
 *
 * rose_stretch.c
 *	  Stretches: rows of a leaf or of a batch that a scan passes on as they are.
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
 * The last two are asked of the component, and if that cannot tell, of the leaf.  A stretch
 * then goes to the end of the leaf, of the scan's range, or to the next key of
 * another source, whichever is first.  Of a key with several versions the first one met is
 * the newest, and the row; the stretch ends with it, and the scan skips the others.
 *
 * Where no other source has any rows left, and the component can tell, a stretch of all of a leaf is followed
 * by one of the next leaf, of which nothing but the number of rows needs to be known: who only counts
 * reads no leaves.
 *
 * Backward there are stretches of leaves with one version a key only, and they are
 * taken row by row: the source's cursor is at the row that was taken last.
 *
 * Forward, while a stretch is open the source's cursor stays at or behind the rows taken,
 * and the scan's group key is not kept: both are brought up to date when it is left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/read/rose_scan_internal.h"

#include "lsm/component/rose_component_internal.h"
#include "utils/memutils.h"

/* ---- what may be passed on ---- */

/* Are all rows of the component whole ones that the snapshot sees?  False: ask the leaf. */
static bool
component_is_settled(RoseScan *scan, const RoseSource *source)
{
	return source->committed &&
		source->entry.max_xid < U64FromFullTransactionId(scan->vis.xmin) &&
		(source->entry.flags & ROSE_COMPONENT_ONLY_PUTS) != 0;
}

/* Are all rows of the leaf whole ones that the snapshot sees? */
static bool
leaf_is_settled(RoseScan *scan, const RoseSource *source, RoseLeaf *leaf)
{
	if (source->entry.max_xid >= U64FromFullTransactionId(scan->vis.xmin) &&
		!rose_leaf_precedes(leaf, scan->vis.xmin))
		return false;
	return (source->entry.flags & ROSE_COMPONENT_ONLY_PUTS) != 0 ||
		rose_leaf_only_puts(leaf);
}

/*
 * What there is to know of the leaf under the source's cursor, once for all stretches
 * of it: the slot at which they end at the latest.
 */
static void
judge_leaf(RoseScan *scan, RoseSource *source, RoseLeaf *leaf)
{
	const RoseKeyRange *range = &scan->range;

	source->judged_block = leaf->block;
	source->settled_end = 0;
	if (!leaf_is_settled(scan, source, leaf))
		return;
	source->settled_end = range->nupper == 0 ? leaf->rows.nrows :
		rose_component_cursor_find(source->cursor, range->upper, range->nupper,
								   range->upper_inclusive);
}

/* The slot behind the first key that the leaf goes on with in [slot + 1, end). */
static int
find_repeated_key(RoseScan *scan, RoseLeaf *leaf, int slot, int end)
{
	Datum		keys[2][INDEX_MAX_KEYS];
	int			turn = 0;

	rose_leaf_set_window(leaf, slot, true);
	end = Min(end, leaf->rows.window_first + leaf->rows.window_rows);
	rose_leaf_get_key(leaf, slot, keys[turn]);
	while (++slot < end)
	{
		rose_leaf_get_key(leaf, slot, keys[!turn]);
		if (scan_compare_keys(scan, keys[0], keys[1]) == 0)
			break;
		turn = !turn;
	}
	return slot;
}

/* ---- life of a stretch ---- */

int
rose_stretch_leaf_end(RoseScan *scan, RoseSource *source, RoseLeaf **leaf, int *slot)
{
	*leaf = rose_component_cursor_leaf(source->cursor, slot);
	if (!source->committed)
		return 0;
	if (source->judged_block != (*leaf)->block)
		judge_leaf(scan, source, *leaf);
	return source->settled_end;
}

/* Of a component. */
static bool
begin_in_leaf(RoseScan *scan, RoseSource *source)
{
	RoseStretch *stretch = &scan->stretch;
	const RoseSource *rival = scan->rival;
	RoseLeaf   *leaf;
	int			slot;
	int			end = rose_stretch_leaf_end(scan, source, &leaf, &slot);

	if (slot >= end)
		return false;
	if (rival != NULL)
		end = Min(end, rose_component_cursor_find(source->cursor, rival->row->key,
												  rose_schema_key_width(scan->tree->schema),
												  false));
	if (slot >= end ||
		!rose_tid_first_number(scan->tree, &source->entry, &stretch->first_tid))
		return false;
	if ((source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0)
		end = find_repeated_key(scan, leaf, slot, end);

	stretch->rows = &leaf->rows;
	stretch->next = slot;
	stretch->end = end;
	stretch->first_tid += leaf->first_ordinal;
	return true;
}

/*
 * The batch has nothing but what the snapshot sees, and of each key only the newest version, if
 * that is a whole row.  More of the last one's may follow in the next batch.
 */
int
rose_stretch_batch_end(RoseScan *scan, RoseSource *source, int *row)
{
	const RoseKeyRange *range = &scan->range;
	RoseMemBatch *batch = source->batch;
	int			end = batch->rows.nrows;

	*row = source->next - 1;
	if (!source->filter)
		return 0;
	if (range->nupper > 0)
		end = rose_mem_batch_find(batch, *row, range->upper, range->nupper, NULL,
								  range->upper_inclusive);
	for (int i = *row; !batch->only_puts && i < end; i++)
		if (batch->refs[i].version.op != ROSE_OP_PUT)
			end = i;
	return end;
}

/* Of C0. */
static bool
begin_in_batch(RoseScan *scan, RoseSource *source)
{
	RoseStretch *stretch = &scan->stretch;
	const RoseSource *rival = scan->rival;
	RoseMemBatch *batch = source->batch;
	int			row;
	int			end = rose_stretch_batch_end(scan, source, &row);

	if (row >= end)
		return false;
	if (rival != NULL)
		end = Min(end, rose_mem_batch_find(batch, row, rival->row->key,
										   rose_schema_key_width(scan->tree->schema),
										   &rival->prefix, false));
	if (row >= end)
		return false;

	stretch->rows = &batch->rows;
	stretch->next = row;
	stretch->end = end;
	stretch->first_tid = rose_tid_memory_salt(scan->tree, batch->min_seq, batch->max_seq);
	return true;
}

bool
rose_stretch_begin(RoseScan *scan, RoseSource *source)
{
	Assert(!rose_stretch_is_open(&scan->stretch));
	if (scan->vis.kind != ROSE_SNAPSHOT_MVCC)
		return false;
	if (source->cursor != NULL ? !begin_in_leaf(scan, source) : !begin_in_batch(scan, source))
		return false;
	scan->stretch_source = source;
	scan->stretch_first = scan->stretch.next;
	return true;
}

bool
rose_stretch_next_leaf(RoseScan *scan)
{
	RoseStretch *stretch = &scan->stretch;
	RoseSource *source = scan->stretch_source;
	RoseLeaf   *leaf;
	uint64		first_tid;

	if (stretch->rows == NULL || source->cursor == NULL || stretch->end < stretch->rows->nrows ||
		scan->rival != NULL || scan->range.nupper > 0 || rose_weave_is_open(scan) ||
		(source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0 ||
		!component_is_settled(scan, source) ||
		!rose_tid_first_number(scan->tree, &source->entry, &first_tid))
		return false;
	leaf = rose_component_cursor_next_leaf(source->cursor);
	if (leaf == NULL)
		return false;
	stretch->rows = &leaf->rows;
	stretch->next = scan->stretch_first = 0;
	stretch->end = leaf->rows.nrows;
	stretch->first_tid = first_tid + leaf->first_ordinal;
	return true;
}

void
rose_stretch_forget(RoseScan *scan)
{
	rose_weave_forget(scan);
	scan->back_source = NULL;
	memset(&scan->stretch, 0, sizeof(scan->stretch));
	scan->stretch_source = NULL;
}

void
rose_stretch_set_group(RoseScan *scan)
{
	const RoseStretch *stretch = &scan->stretch;
	Datum		key[INDEX_MAX_KEYS];

	stretch->rows->ops->key(stretch->rows, stretch->next - 1, key);
	MemoryContextReset(scan->group_context);
	rose_key_copy(scan->tree->schema, scan->group_key, key, scan->group_context);
	scan->place = SCAN_AT_GROUP;
	scan->group_done = true;
	scan->group_left = rose_weave_is_open(scan) || scan->stretch_source->cursor == NULL ||
		(scan->stretch_source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0;
}

void
rose_stretch_leave(RoseScan *scan)
{
	RoseSource *source = scan->stretch_source;
	int			next = scan->stretch.next;

	if (rose_weave_is_open(scan))
	{
		rose_weave_leave(scan);
		return;
	}
	if (next > scan->stretch_first)
		rose_stretch_set_group(scan);
	rose_stretch_forget(scan);
	rose_source_goto(source, scan->tree, &scan->vis, next);
	if (source->state == ROSE_SOURCE_GONE)
		scan->positioned = false;
}

const RoseRow *
rose_stretch_next_row(RoseScan *scan)
{
	RoseStretch *stretch = &scan->stretch;
	RoseComponentCursor *cursor = scan->stretch_source->cursor;

	if (cursor == NULL)
		return rose_mem_batch_row(scan->stretch_source->batch, stretch->next++);
	(void) rose_component_cursor_goto(cursor, stretch->next++);
	return rose_component_cursor_keyed_row(cursor);
}

/* ---- backward ---- */

const RoseRow *
rose_stretch_begin_backward(RoseScan *scan, RoseSource *source)
{
	const RoseKeyRange *range = &scan->range;
	const RoseSource *rival = scan->rival;
	int			width = rose_schema_key_width(scan->tree->schema);
	RoseLeaf   *leaf;
	int			slot;
	int			first;

	Assert(scan->back_source == NULL);
	if (source->cursor == NULL || scan->vis.kind != ROSE_SNAPSHOT_MVCC ||
		(source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0 ||
		rose_stretch_leaf_end(scan, source, &leaf, &slot) <= slot)
		return NULL;
	first = rose_component_cursor_first_slot(source->cursor);
	if (rival != NULL)
		first = Max(first, rose_leaf_find(leaf, 0, rival->row->key, width, true));
	if (range->nlower > 0)
		first = Max(first, rose_leaf_find(leaf, 0, range->lower, range->nlower,
										  !range->lower_inclusive));
	if (first > slot || !rose_tid_first_number(scan->tree, &source->entry, &scan->back_tid))
		return NULL;

	scan->back_source = source;
	scan->back_end = first;
	scan->back_tid += leaf->first_ordinal;
	return rose_component_cursor_keyed_row(source->cursor);
}

const RoseRow *
rose_stretch_next_backward(RoseScan *scan)
{
	RoseComponentCursor *cursor = scan->back_source->cursor;
	int			slot;

	(void) rose_component_cursor_leaf(cursor, &slot);
	if (slot <= scan->back_end || !rose_component_cursor_prev(cursor))
		return NULL;
	return rose_component_cursor_keyed_row(cursor);
}

void
rose_stretch_leave_backward(RoseScan *scan)
{
	RoseSource *source = scan->back_source;

	MemoryContextReset(scan->group_context);
	rose_key_copy(scan->tree->schema, scan->group_key,
				  rose_component_cursor_keyed_row(source->cursor)->key, scan->group_context);
	scan->place = SCAN_AT_GROUP;
	scan->group_done = true;
	scan->back_source = NULL;
}

void
rose_stretch_tid_backward(RoseScan *scan, ItemPointer tid)
{
	int			slot;

	(void) rose_component_cursor_leaf(scan->back_source->cursor, &slot);
	rose_tid_from_number(scan->back_tid + slot, tid);
}
