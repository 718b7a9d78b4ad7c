/*-------------------------------------------------------------------------
 *
 * rose_column_sort.c
 *	  Rows of different keys, in any order, come out in the order of a component, many at a
 *	  time and as columns.  See rose_column_sort.h.
 *
 * Rows gather in memory, column by column, and for each an item with the first 16 bytes of
 * its key as two numbers (rose_key_prefix_make).  When memory is full the items are sorted,
 * by numbers and only where those are equal by the keys themselves, and the rows go to a
 * run in a temporary file.  What is in memory at the end stays there.  Runs are merged when
 * rows come out, or before if they are so many that their blocks would not fit memory.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "lsm/merge/rose_column_items.h"
#include "lsm/merge/rose_column_sort_internal.h"

/* Rows that there is room for at least. */
#define FIRST_CAPACITY	4096

/* Values by reference lie in pieces of memory of this size. */
#define PIECE_BYTES		(64 * 1024)

/* A row with a value that is longer is asked whether it can be stored. */
#define SHORT_VALUE		256

/* So many runs are merged together, or as many more as there is memory for their blocks. */
#define MIN_FAN_IN		8
#define MAX_FAN_IN		256

/* The rows in memory. */
typedef struct Chunk
{
	Size		n;
	Size		capacity;
	Size		row_bytes;		/* of items and columns by value, a row */
	RoseSortItem *items;
	Datum	  **values;			/* [natts][capacity] */
	bool	  **nulls;
	MemoryContext pieces;
	char	   *piece;
	Size		piece_left;
	Size		piece_bytes;	/* of all of them */
} Chunk;

/* A run, and how many times its rows were merged. */
typedef struct SortedRun
{
	RoseSortRun *run;
	int			level;
} SortedRun;

struct RoseColumnSort
{
	MemoryContext context;
	RoseSortOrder order;
	Size		memory;
	RoseColumnSortCheck check;
	void	   *check_arg;
	Chunk		chunk;
	int			nruns;
	int			runs_capacity;
	SortedRun  *runs;			/* oldest rows first */
	int			fan_in;

	/* coming out */
	RoseSortMerge *merge;
	RoseRowBatch batch;
	Datum	   *ranks;			/* [natts][ROSE_SORT_BLOCK], of those that are */
};

/* The rows in memory as a source of a merge. */
typedef struct ChunkSource
{
	RoseSortSource base;
	const Chunk *chunk;
	Size		next;			/* item */
} ChunkSource;

/* ---- begin and end ---- */

static bool
is_exact(const RoseSchema *schema)
{
	int			bits = 0;

	for (int j = 0; j < schema->nkeys; j++)
	{
		if (schema->keys[j].prefix_bits == 0)
			return false;
		bits += schema->keys[j].prefix_bits;
	}
	return bits <= 8 * (int) sizeof(RoseSortWords);
}

static void
set_order(RoseColumnSort *sort, const RoseSchema *schema)
{
	RoseSortOrder *order = &sort->order;

	order->schema = schema;
	order->exact = is_exact(schema);
	order->kept = palloc(schema->natts * sizeof(bool));
	memset(order->kept, true, schema->natts * sizeof(bool));
	for (int j = 0; j < schema->nkeys; j++)
		if ((schema->keys[j].def.flags & ROSE_KEY_RANK) != 0)
			order->kept[schema->keys[j].def.attno - 1] = false;
}

static void
choose_fan_in(RoseColumnSort *sort)
{
	Size		row = sort->chunk.row_bytes + sizeof(RoseSortWords);

	/* a block as it was read, and as columns */
	sort->fan_in = (int) Min(sort->memory / (2 * row * ROSE_SORT_BLOCK), MAX_FAN_IN);
	sort->fan_in = Max(sort->fan_in, MIN_FAN_IN);
}

RoseColumnSort *
rose_column_sort_begin(const RoseSchema *schema, Size memory, RoseColumnSortCheck check,
					   void *check_arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose column sort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseColumnSort *sort = palloc0(sizeof(RoseColumnSort));
	Chunk	   *chunk = &sort->chunk;

	Assert(schema->nkeys > 0 && schema->natts <= ROSE_BATCH_MAX_COLUMNS);
	sort->context = context;
	sort->memory = memory;
	sort->check = check;
	sort->check_arg = check_arg;
	set_order(sort, schema);
	chunk->values = palloc0(schema->natts * sizeof(Datum *));
	chunk->nulls = palloc0(schema->natts * sizeof(bool *));
	chunk->pieces = AllocSetContextCreate(context, "rose column sort values", ALLOCSET_DEFAULT_SIZES);
	chunk->row_bytes = sizeof(RoseSortItem);
	for (int a = 0; a < schema->natts; a++)
		if (sort->order.kept[a])
			chunk->row_bytes += sizeof(Datum);
	choose_fan_in(sort);
	MemoryContextSwitchTo(old);
	return sort;
}

void
rose_column_sort_set_memory(RoseColumnSort *sort, Size memory)
{
	sort->memory = memory;
	choose_fan_in(sort);
}

void
rose_column_sort_end(RoseColumnSort *sort)
{
	for (int i = 0; i < sort->nruns; i++)
		rose_sort_run_free(sort->runs[i].run);
	MemoryContextDelete(sort->context);
}

/* ---- sorting what is in memory ---- */

static int
compare_closely(const RoseSortItem *a, const RoseSortItem *b, void *arg)
{
	RoseColumnSort *sort = arg;
	const RoseSchema *schema = sort->order.schema;
	Datum		x[INDEX_MAX_KEYS];
	Datum		y[INDEX_MAX_KEYS];

	rose_sort_key(&sort->order, sort->chunk.values, sort->chunk.nulls, a->row, x);
	rose_sort_key(&sort->order, sort->chunk.values, sort->chunk.nulls, b->row, y);
	return rose_key_compare(schema, x, y, schema->nkeys);
}

static void
fill_from_chunk(RoseSortSource *base)
{
	ChunkSource *source = (ChunkSource *) base;
	const Chunk *chunk = source->chunk;
	const RoseSortItem *items = chunk->items + source->next;
	int			n = (int) Min(chunk->n - source->next, ROSE_SORT_BLOCK);

	base->n = n;
	source->next += n;
	for (int a = 0; a < base->order->schema->natts; a++)
	{
		if (!base->order->kept[a])
			continue;
		for (int i = 0; i < n; i++)
			base->values[a][i] = chunk->values[a][items[i].row];
		base->nulls[a] = NULL;
		if (chunk->nulls[a] != NULL)
		{
			bool	   *nulls = rose_sort_source_nulls(base, a);

			for (int i = 0; i < n; i++)
				nulls[i] = chunk->nulls[a][items[i].row];
		}
	}
}

/* Memory in the current context. */
static RoseSortSource *
sort_chunk(RoseColumnSort *sort)
{
	RoseSortTies ties = {sort->order.exact ? NULL : compare_closely, sort};
	ChunkSource *source = palloc0(sizeof(ChunkSource));

	rose_sort_items(sort->chunk.items, sort->chunk.n, &ties);
	rose_sort_source_init(&source->base, &sort->order, fill_from_chunk);
	source->chunk = &sort->chunk;
	return &source->base;
}

/* ---- runs ---- */

static void
add_run(RoseColumnSort *sort, RoseSortRun *run, int level)
{
	if (sort->nruns == sort->runs_capacity)
	{
		sort->runs_capacity = Max(2 * sort->runs_capacity, 16);
		if (sort->runs == NULL)
			sort->runs = MemoryContextAlloc(sort->context, sort->runs_capacity * sizeof(SortedRun));
		else
			sort->runs = repalloc(sort->runs, sort->runs_capacity * sizeof(SortedRun));
	}
	sort->runs[sort->nruns++] = (SortedRun) {.run = run, .level = level};
}

/* What the sources have becomes a run. */
static RoseSortRun *
write_run(RoseColumnSort *sort, RoseSortSource **sources, int nsources)
{
	RoseSortMerge *merge = rose_sort_merge_begin(&sort->order, sources, nsources);
	MemoryContext old = MemoryContextSwitchTo(sort->context);
	RoseSortRun *run = rose_sort_run_create(&sort->order);
	Datum	  **values;
	bool	  **nulls;
	int			n;

	while ((n = rose_sort_merge_next(merge, &values, &nulls)) > 0)
		rose_sort_run_append(run, values, nulls, n);
	MemoryContextSwitchTo(old);
	return run;
}

/* The last n runs become one. */
static void
join_runs(RoseColumnSort *sort, int n)
{
	RoseSortSource **sources = palloc(n * sizeof(RoseSortSource *));
	SortedRun  *runs = sort->runs + sort->nruns - n;
	int			level = runs[0].level + 1;
	RoseSortRun *joined;

	for (int i = 0; i < n; i++)
		sources[i] = rose_sort_run_open(runs[i].run);
	joined = write_run(sort, sources, n);
	for (int i = 0; i < n; i++)
		rose_sort_run_free(runs[i].run);
	sort->nruns -= n;
	add_run(sort, joined, level);
}

/* Join runs of one level as long as there are as many as can be merged. */
static void
join_full_levels(RoseColumnSort *sort)
{
	int			n;

	do
	{
		n = 1;
		while (n < sort->nruns && n < sort->fan_in &&
			   sort->runs[sort->nruns - 1 - n].level == sort->runs[sort->nruns - 1].level)
			n++;
		if (n == sort->fan_in)
			join_runs(sort, n);
	} while (n == sort->fan_in);
}

static void
empty_chunk(Chunk *chunk, int natts)
{
	chunk->n = 0;
	chunk->piece_left = chunk->piece_bytes = 0;
	MemoryContextReset(chunk->pieces);
	for (int a = 0; a < natts; a++)
		if (chunk->nulls[a] != NULL)
			memset(chunk->nulls[a], false, chunk->capacity * sizeof(bool));
}

/* Everything that is in memory goes to a file. */
static void
flush_chunk(RoseColumnSort *sort)
{
	MemoryContext context = AllocSetContextCreate(sort->context, "rose column sort run",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseSortSource *source = sort_chunk(sort);

	add_run(sort, write_run(sort, &source, 1), 0);
	empty_chunk(&sort->chunk, sort->order.schema->natts);
	join_full_levels(sort);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---- in ---- */

static void *
grow_array(void *array, Size bytes, MemoryContext context)
{
	if (array != NULL)
		return repalloc_huge(array, bytes);
	return MemoryContextAllocHuge(context, bytes);
}

static void
grow_chunk(RoseColumnSort *sort, Size capacity)
{
	Chunk	   *chunk = &sort->chunk;

	chunk->items = grow_array(chunk->items, capacity * sizeof(RoseSortItem), sort->context);
	for (int a = 0; a < sort->order.schema->natts; a++)
	{
		if (!sort->order.kept[a])
			continue;
		chunk->values[a] = grow_array(chunk->values[a], capacity * sizeof(Datum), sort->context);
		if (chunk->nulls[a] != NULL)
		{
			chunk->nulls[a] = repalloc_huge(chunk->nulls[a], capacity * sizeof(bool));
			memset(chunk->nulls[a] + chunk->capacity, false, capacity - chunk->capacity);
		}
	}
	chunk->capacity = capacity;
}

/* There is room for n more rows, but for their values by reference. */
static void
make_room(RoseColumnSort *sort, int n)
{
	Chunk	   *chunk = &sort->chunk;
	Size		most;

	if (chunk->n > 0 &&
		((chunk->n + n) * chunk->row_bytes + chunk->piece_bytes > sort->memory ||
		 chunk->n + n > PG_UINT32_MAX))
		flush_chunk(sort);
	if (chunk->n + n <= chunk->capacity)
		return;
	/* as far as memory goes, so that growing does not take more than that */
	most = Max(sort->memory / chunk->row_bytes, chunk->n + n);
	grow_chunk(sort, Min(Max(2 * chunk->capacity, Max(chunk->n + n, FIRST_CAPACITY)), most));
}

static Datum
copy_value(Chunk *chunk, Datum value, Size size)
{
	Size		room = MAXALIGN(size);
	char	   *copy;

	if (room > PIECE_BYTES / 4)
	{
		copy = MemoryContextAllocHuge(chunk->pieces, room);
		chunk->piece_bytes += room;
	}
	else
	{
		if (room > chunk->piece_left)
		{
			chunk->piece = MemoryContextAlloc(chunk->pieces, PIECE_BYTES);
			chunk->piece_left = PIECE_BYTES;
			chunk->piece_bytes += PIECE_BYTES;
		}
		copy = chunk->piece;
		chunk->piece += room;
		chunk->piece_left -= room;
	}
	memcpy(copy, DatumGetPointer(value), size);
	return PointerGetDatum(copy);
}

/* Returns whether one of them is long. */
static bool
put_references(RoseColumnSort *sort, int a, const Datum *values, const bool *nulls, int n)
{
	Chunk	   *chunk = &sort->chunk;
	Datum	   *to = chunk->values[a] + chunk->n;
	int16		attlen = sort->order.schema->tuple_columns[a].attlen;
	Size		longest = 0;

	for (int i = 0; i < n; i++)
	{
		Size		size;

		to[i] = (Datum) 0;
		if (nulls != NULL && nulls[i])
			continue;
		size = datumGetSize(values[i], false, attlen);
		longest = Max(longest, size);
		to[i] = copy_value(chunk, values[i], size);
	}
	return longest > SHORT_VALUE;
}

static void
put_nulls(RoseColumnSort *sort, int a, const Datum *values, const bool *nulls, int n)
{
	Chunk	   *chunk = &sort->chunk;

	if (values != NULL && nulls == NULL)
		return;
	if (chunk->nulls[a] == NULL)
	{
		chunk->nulls[a] = MemoryContextAllocHuge(sort->context, chunk->capacity * sizeof(bool));
		memset(chunk->nulls[a], false, chunk->capacity * sizeof(bool));
		chunk->row_bytes += sizeof(bool);
	}
	if (values == NULL)
		memset(chunk->nulls[a] + chunk->n, true, n * sizeof(bool));
	else
		memcpy(chunk->nulls[a] + chunk->n, nulls, n * sizeof(bool));
}

/* Returns whether there is a long value. */
static bool
put_column(RoseColumnSort *sort, int a, const Datum *values, const bool *nulls, int n)
{
	Datum	   *to = sort->chunk.values[a] + sort->chunk.n;

	put_nulls(sort, a, values, nulls, n);
	if (values == NULL)
		memset(to, 0, n * sizeof(Datum));
	else if (!sort->order.schema->tuple_columns[a].attbyval)
		return put_references(sort, a, values, nulls, n);
	else
	{
		memcpy(to, values, n * sizeof(Datum));
		for (int i = 0; nulls != NULL && i < n; i++)
			if (nulls[i])
				to[i] = (Datum) 0;
	}
	return false;
}

/* Can the last n rows be stored? */
static void
check_rows(RoseColumnSort *sort, int n)
{
	const RoseSchema *schema = sort->order.schema;
	const Chunk *chunk = &sort->chunk;
	Datum	   *values = palloc0(schema->natts * sizeof(Datum));
	bool	   *nulls = palloc0(schema->natts * sizeof(bool));

	for (Size row = chunk->n; row < chunk->n + n; row++)
	{
		for (int a = 0; a < schema->natts; a++)
		{
			if (!sort->order.kept[a])
				continue;
			values[a] = chunk->values[a][row];
			nulls[a] = chunk->nulls[a] != NULL && chunk->nulls[a][row];
		}
		sort->check(values, nulls, sort->check_arg);
	}
	pfree(values);
	pfree(nulls);
}

void
rose_column_sort_put(RoseColumnSort *sort, const Datum *const *values, const bool *const *nulls,
					 int n)
{
	Chunk	   *chunk = &sort->chunk;
	bool		long_values = false;

	make_room(sort, n);
	for (int a = 0; a < sort->order.schema->natts; a++)
		if (sort->order.kept[a])
			long_values |= put_column(sort, a, values[a], nulls[a], n);
	if (long_values)
		check_rows(sort, n);
	for (Size row = chunk->n; row < chunk->n + n; row++)
	{
		RoseSortWords words;

		rose_sort_words(&sort->order, chunk->values, chunk->nulls, row, &words);
		memcpy(chunk->items[row].word, words.word, sizeof(words.word));
		chunk->items[row].row = (uint32) row;
	}
	chunk->n += n;
}

/* ---- out ---- */

static void
free_chunk(Chunk *chunk, int natts)
{
	pfree(chunk->items);
	for (int a = 0; a < natts; a++)
	{
		if (chunk->values[a] != NULL)
			pfree(chunk->values[a]);
		if (chunk->nulls[a] != NULL)
			pfree(chunk->nulls[a]);
	}
}

static void
open_merge(RoseColumnSort *sort)
{
	RoseSortSource **sources = palloc((sort->nruns + 1) * sizeof(RoseSortSource *));
	int			n = 0;

	for (; n < sort->nruns; n++)
		sources[n] = rose_sort_run_open(sort->runs[n].run);
	if (sort->chunk.n > 0)
		sources[n++] = sort_chunk(sort);
	sort->merge = rose_sort_merge_begin(&sort->order, sources, n);
}

void
rose_column_sort_perform(RoseColumnSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);
	int			natts = sort->order.schema->natts;

	/* runs have their blocks in memory then */
	if (sort->nruns > 0)
	{
		if (sort->chunk.n > 0)
			flush_chunk(sort);
		free_chunk(&sort->chunk, natts);
	}
	open_merge(sort);
	sort->batch.values = palloc0(natts * sizeof(Datum *));
	sort->batch.nulls = palloc0(natts * sizeof(bool *));
	sort->ranks = palloc((Size) natts * ROSE_SORT_BLOCK * sizeof(Datum));
	MemoryContextSwitchTo(old);
}

/* A column as a batch has it: no array of NULLs, or of none. */
static void
set_column(RoseColumnSort *sort, int a, const Datum *values, const bool *nulls)
{
	RoseRowBatch *batch = &sort->batch;

	batch->values[a] = values;
	batch->nulls[a] = nulls;
	if (nulls == NULL || memchr(nulls, true, batch->n) == NULL)
		batch->nulls[a] = NULL;
	else if (memchr(nulls, false, batch->n) == NULL)
		batch->values[a] = NULL, batch->nulls[a] = NULL;
}

static void
set_rank(RoseColumnSort *sort, const RoseKeyColumn *rank, const bool *nulls)
{
	int			a = rank->def.attno - 1;
	bool		first = (rank->def.flags & ROSE_KEY_NULLS_FIRST) != 0;
	Datum	   *values = sort->ranks + (Size) a * ROSE_SORT_BLOCK;

	for (int i = 0; i < sort->batch.n; i++)
		values[i] = Int16GetDatum(rose_key_rank(nulls != NULL && nulls[i], first));
	sort->batch.values[a] = values;
	sort->batch.nulls[a] = NULL;
}

RoseRowBatch *
rose_column_sort_next(RoseColumnSort *sort)
{
	const RoseSchema *schema = sort->order.schema;
	Datum	  **values;
	bool	  **nulls;

	sort->batch.n = rose_sort_merge_next(sort->merge, &values, &nulls);
	if (sort->batch.n == 0)
		return NULL;
	for (int a = 0; a < schema->natts; a++)
		if (sort->order.kept[a])
			set_column(sort, a, values[a], nulls[a]);
	for (int j = 0; j < schema->nkeys; j++)
		if ((schema->keys[j].def.flags & ROSE_KEY_RANK) != 0)
			set_rank(sort, &schema->keys[j], nulls[schema->keys[j + 1].def.attno - 1]);
	return &sort->batch;
}
