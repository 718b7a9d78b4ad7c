/*-------------------------------------------------------------------------
 *
 * rose_merge_cursor.c
 *	  K-way merge of component cursors.  See rose_merge_cursor.h.
 *
 * A loser tree over the sources' cursors.  A source ends at an ordinal that the stride
 * has told.  Backend-local; no locks beyond those for reading pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/merge/rose_merge_cursor_internal.h"

static int
compare_sources(int a, int b, void *arg)
{
	RoseMergeCursor *merge = arg;
	const RoseMergeSource *x = &merge->sources[a];
	const RoseMergeSource *y = &merge->sources[b];
	int			cmp = rose_key_compare_prefixed(merge->schema, merge->exact,
												x->prefix, x->row->key,
												y->prefix, y->row->key);

	if (cmp != 0)
		return cmp;
	if (x->row->version.seq != y->row->version.seq)
		return x->row->version.seq > y->row->version.seq ? -1 : 1;
	return 0;
}

bool
rose_merge_take_row(RoseMergeCursor *merge, RoseMergeSource *source, bool has_row)
{
	source->row = NULL;
	if (!has_row)
		return false;
	source->row = rose_component_cursor_row(source->cursor);
	if (source->row->ordinal >= source->to)
	{
		source->row = NULL;
		return false;
	}
	source->prefix = rose_key_prefix(merge->schema, source->row->key);
	return true;
}

RoseMergeCursor *
rose_merge_cursor_create(Relation rel, const RoseSchema *schema, int nsources,
						 BufferAccessStrategy strategy, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose merge cursor",
											  ALLOCSET_DEFAULT_SIZES);
	RoseMergeCursor *merge = MemoryContextAllocZero(own, sizeof(RoseMergeCursor));

	merge->rel = rel;
	merge->schema = schema;
	merge->strategy = strategy;
	merge->context = own;
	merge->exact = rose_key_prefix_exact(schema);
	merge->sources = MemoryContextAllocZero(own, Max(nsources, 1) * sizeof(RoseMergeSource));
	merge->tree = rose_losertree_create(nsources, compare_sources, merge, own);
	return merge;
}

void
rose_merge_cursor_add(RoseMergeCursor *merge, RoseComponent *component, uint64 from, uint64 to)
{
	RoseMergeSource *source = &merge->sources[merge->nsources++];

	Assert(!merge->started && from < to);
	source->cursor = rose_component_cursor_create(component, merge->rel, merge->schema,
												  merge->strategy, merge->context);
	rose_component_cursor_set_first(source->cursor, from);
	source->from = from;
	source->to = to;
}

void
rose_merge_cursor_rebind(RoseMergeCursor *merge, Relation rel)
{
	merge->rel = rel;
	for (int i = 0; i < merge->nsources; i++)
		rose_component_cursor_rebind(merge->sources[i].cursor, rel);
}

static void
start(RoseMergeCursor *merge)
{
	for (int i = 0; i < merge->nsources; i++)
	{
		RoseMergeSource *source = &merge->sources[i];

		if (!rose_merge_take_row(merge, source, rose_component_cursor_first(source->cursor)))
			rose_losertree_set_empty(merge->tree, i);
	}
	rose_losertree_build(merge->tree);
	merge->started = true;
}

int
rose_merge_advance(RoseMergeCursor *merge)
{
	if (!merge->started)
		start(merge);
	else if (merge->returned)
	{
		RoseMergeSource *from = &merge->sources[rose_losertree_winner(merge->tree)];

		rose_losertree_advanced(merge->tree,
								rose_merge_take_row(merge, from,
													rose_component_cursor_next(from->cursor)));
	}
	merge->returned = false;
	return rose_losertree_winner(merge->tree);
}

const RoseRow *
rose_merge_cursor_next(RoseMergeCursor *merge)
{
	int			winner = rose_merge_advance(merge);

	if (winner < 0)
		return NULL;
	merge->returned = true;
	return merge->sources[winner].row;
}

uint64
rose_merge_cursor_ordinal(const RoseMergeCursor *merge, int source)
{
	const RoseMergeSource *from = &merge->sources[source];

	if (!merge->started)
		return from->from;
	return from->row != NULL ? from->row->ordinal : from->to;
}
