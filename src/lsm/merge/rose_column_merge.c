/*-------------------------------------------------------------------------
 *
 * rose_column_merge.c
 *	  Sources of sorted rows are merged, as columns.  See rose_column_sort_internal.h.
 *
 * Words of keys are merged first, which says what row comes from where; then each column
 * is gathered.  What comes out at a time ends where a source has to make its next block,
 * since its rows are used in place.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "util/rose_losertree.h"
#include "lsm/merge/rose_column_sort_internal.h"

struct RoseSortMerge
{
	const RoseSortOrder *order;
	RoseSortSource **sources;	/* that have rows */
	int			nsources;
	int		   *node;
	bool		started;

	int			n;				/* row i comes from ... */
	uint16		from[ROSE_SORT_BLOCK];	/* ... this source ... */
	uint16		slot[ROSE_SORT_BLOCK];	/* ... and row of it */
	Datum	  **values;
	bool	  **nulls;
	bool	  **null_store;
};

/* ---- sources ---- */

void
rose_sort_source_init(RoseSortSource *source, const RoseSortOrder *order, RoseSortFill fill)
{
	int			natts = order->schema->natts;

	source->order = order;
	source->fill = fill;
	source->n = source->at = 0;
	source->words = palloc(ROSE_SORT_BLOCK * sizeof(RoseSortWords));
	source->values = palloc0(natts * sizeof(Datum *));
	source->nulls = palloc0(natts * sizeof(bool *));
	source->null_store = palloc0(natts * sizeof(bool *));
	for (int a = 0; a < natts; a++)
		if (order->kept[a])
			source->values[a] = palloc(ROSE_SORT_BLOCK * sizeof(Datum));
}

bool *
rose_sort_source_nulls(RoseSortSource *source, int a)
{
	if (source->null_store[a] == NULL)
		source->null_store[a] = MemoryContextAlloc(GetMemoryChunkContext(source->null_store),
												   ROSE_SORT_BLOCK * sizeof(bool));
	source->nulls[a] = source->null_store[a];
	return source->nulls[a];
}

/* Put the next block in place, and its words if there are others to be compared with. */
static void
next_block(RoseSortSource *source, bool alone)
{
	CHECK_FOR_INTERRUPTS();
	source->at = 0;
	source->fill(source);
	for (int i = 0; !alone && i < source->n; i++)
		rose_sort_words(source->order, source->values, source->nulls, i, &source->words[i]);
}

/* ---- which row comes next ---- */

static bool
precedes_closely(const RoseSortMerge *merge, const RoseSortSource *x, const RoseSortSource *y)
{
	Datum		a[INDEX_MAX_KEYS];
	Datum		b[INDEX_MAX_KEYS];

	rose_sort_key(merge->order, x->values, x->nulls, x->at, a);
	rose_sort_key(merge->order, y->values, y->nulls, y->at, b);
	return rose_key_compare(merge->order->schema, a, b, merge->order->schema->nkeys) < 0;
}

static inline bool
precedes(int a, int b, const void *arg)
{
	const RoseSortMerge *merge = arg;
	const RoseSortSource *x = merge->sources[a];
	const RoseSortSource *y = merge->sources[b];
	const RoseSortWords *v = &x->words[x->at];
	const RoseSortWords *w = &y->words[y->at];

	if (v->word[0] != w->word[0])
		return v->word[0] < w->word[0];
	if (v->word[1] != w->word[1])
		return v->word[1] < w->word[1];
	return !merge->order->exact && precedes_closely(merge, x, y);
}

/* All sources have a row then, those that have none any more are left out. */
static void
refill(RoseSortMerge *merge)
{
	int			n = 0;

	for (int s = 0; s < merge->nsources; s++)
	{
		RoseSortSource *source = merge->sources[s];

		if (source->at == source->n)
			next_block(source, merge->nsources == 1);
		if (source->n > 0)
			merge->sources[n++] = source;
	}
	merge->nsources = n;
}

static void
plan_rows(RoseSortMerge *merge)
{
	merge->n = 0;
	rose_matches_play(merge->node, merge->nsources, precedes, merge);
	while (merge->n < ROSE_SORT_BLOCK)
	{
		int			winner = merge->node[0];
		RoseSortSource *source = merge->sources[winner];

		merge->from[merge->n] = (uint16) winner;
		merge->slot[merge->n++] = (uint16) source->at;
		if (++source->at == source->n)
			return;
		rose_matches_replay(merge->node, merge->nsources, precedes, merge);
	}
}

/* ---- gathering ---- */

static void
gather_nulls(RoseSortMerge *merge, int a)
{
	bool		any = false;

	for (int s = 0; s < merge->nsources; s++)
		any |= merge->sources[s]->nulls[a] != NULL;
	merge->nulls[a] = NULL;
	if (!any)
		return;
	if (merge->null_store[a] == NULL)
		merge->null_store[a] = MemoryContextAlloc(GetMemoryChunkContext(merge),
												  ROSE_SORT_BLOCK * sizeof(bool));
	merge->nulls[a] = merge->null_store[a];
	for (int i = 0; i < merge->n; i++)
	{
		const bool *nulls = merge->sources[merge->from[i]]->nulls[a];

		merge->nulls[a][i] = nulls != NULL && nulls[merge->slot[i]];
	}
}

static void
gather_column(RoseSortMerge *merge, int a)
{
	Datum	   *values = merge->values[a];

	for (int i = 0; i < merge->n; i++)
		values[i] = merge->sources[merge->from[i]]->values[a][merge->slot[i]];
	gather_nulls(merge, a);
}

RoseSortMerge *
rose_sort_merge_begin(const RoseSortOrder *order, RoseSortSource **sources, int nsources)
{
	RoseSortMerge *merge = palloc0(sizeof(RoseSortMerge));
	int			natts = order->schema->natts;

	Assert(nsources <= PG_UINT16_MAX);
	merge->order = order;
	merge->sources = sources;
	merge->nsources = nsources;
	merge->node = palloc(Max(nsources, 1) * sizeof(int));
	merge->values = palloc0(natts * sizeof(Datum *));
	merge->nulls = palloc0(natts * sizeof(bool *));
	merge->null_store = palloc0(natts * sizeof(bool *));
	for (int a = 0; a < natts; a++)
		if (order->kept[a])
			merge->values[a] = palloc(ROSE_SORT_BLOCK * sizeof(Datum));
	return merge;
}

int
rose_sort_merge_next(RoseSortMerge *merge, Datum ***values, bool ***nulls)
{
	refill(merge);
	if (merge->nsources == 0)
		return 0;
	if (merge->nsources == 1)
	{
		/* as they are; what was given out of this block before is at its start */
		RoseSortSource *source = merge->sources[0];

		if (source->at == 0)
		{
			source->at = source->n;
			*values = source->values;
			*nulls = source->nulls;
			return source->n;
		}
	}
	plan_rows(merge);
	for (int a = 0; a < merge->order->schema->natts; a++)
		if (merge->order->kept[a])
			gather_column(merge, a);
	*values = merge->values;
	*nulls = merge->nulls;
	return merge->n;
}
