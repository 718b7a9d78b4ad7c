/*-------------------------------------------------------------------------
 *
 * rose_merge_cursor.c
 *	  K-way merge of component cursors.  See rose_merge_cursor.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_merge_cursor.h"

#include "lsm/rose_component_internal.h"
#include "util/rose_losertree.h"
#include "utils/memutils.h"

typedef struct MergeSource
{
	RoseComponentCursor *cursor;
	const RoseRow *row;			/* NULL: exhausted */
	uint64		prefix;			/* of its key */
	uint64		from;			/* ordinals */
	uint64		to;
} MergeSource;

struct RoseMergeCursor
{
	Relation	rel;
	BufferAccessStrategy strategy;
	const RoseSchema *schema;
	MemoryContext context;
	bool		exact;			/* rose_key_prefix_exact */
	bool		started;
	int			nsources;
	MergeSource *sources;
	RoseLoserTree *tree;
};

static int
compare_sources(int a, int b, void *arg)
{
	RoseMergeCursor *merge = arg;
	const MergeSource *x = &merge->sources[a];
	const MergeSource *y = &merge->sources[b];
	int			cmp = rose_key_compare_prefixed(merge->schema, merge->exact,
												x->prefix, x->row->key,
												y->prefix, y->row->key);

	if (cmp != 0)
		return cmp;
	if (x->row->version.seq != y->row->version.seq)
		return x->row->version.seq > y->row->version.seq ? -1 : 1;
	return 0;
}

/* The source's cursor has moved. */
static bool
take_row(RoseMergeCursor *merge, MergeSource *source, bool has_row)
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
	merge->sources = MemoryContextAllocZero(own, Max(nsources, 1) * sizeof(MergeSource));
	merge->tree = rose_losertree_create(nsources, compare_sources, merge, own);
	return merge;
}

void
rose_merge_cursor_add(RoseMergeCursor *merge, RoseComponent *component, uint64 from, uint64 to)
{
	MergeSource *source = &merge->sources[merge->nsources++];

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
		MergeSource *source = &merge->sources[i];

		if (!take_row(merge, source, rose_component_cursor_first(source->cursor)))
			rose_losertree_set_empty(merge->tree, i);
	}
	rose_losertree_build(merge->tree);
	merge->started = true;
}

const RoseRow *
rose_merge_cursor_next(RoseMergeCursor *merge)
{
	int			winner;

	if (!merge->started)
		start(merge);
	else if ((winner = rose_losertree_winner(merge->tree)) >= 0)
	{
		MergeSource *from = &merge->sources[winner];

		rose_losertree_advanced(merge->tree,
								take_row(merge, from,
										 rose_component_cursor_next(from->cursor)));
	}
	winner = rose_losertree_winner(merge->tree);
	return winner < 0 ? NULL : merge->sources[winner].row;
}

uint64
rose_merge_cursor_ordinal(const RoseMergeCursor *merge, int source)
{
	const MergeSource *from = &merge->sources[source];

	if (!merge->started)
		return from->from;
	return from->row != NULL ? from->row->ordinal : from->to;
}
