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
} MergeSource;

struct RoseMergeCursor
{
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
	source->prefix = rose_key_prefix(merge->schema, source->row->key);
	return true;
}

RoseMergeCursor *
rose_merge_cursor_create(Relation rel, const RoseSchema *schema, int ncomponents,
						 RoseComponent **components, BufferAccessStrategy strategy,
						 MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose merge cursor",
											  ALLOCSET_DEFAULT_SIZES);
	RoseMergeCursor *merge = MemoryContextAllocZero(own, sizeof(RoseMergeCursor));

	merge->schema = schema;
	merge->context = own;
	merge->exact = rose_key_prefix_exact(schema);
	merge->nsources = ncomponents;
	merge->sources = MemoryContextAllocZero(own, Max(ncomponents, 1) * sizeof(MergeSource));
	for (int i = 0; i < ncomponents; i++)
		merge->sources[i].cursor = rose_component_cursor_create(components[i], rel, schema,
																strategy, own);
	merge->tree = rose_losertree_create(ncomponents, compare_sources, merge, own);
	return merge;
}

void
rose_merge_cursor_rebind(RoseMergeCursor *merge, Relation rel)
{
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
rose_merge_cursor_next(RoseMergeCursor *merge, int *source)
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
	if (winner < 0)
		return NULL;
	*source = winner;
	return merge->sources[winner].row;
}
