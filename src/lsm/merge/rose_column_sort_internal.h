/*-------------------------------------------------------------------------
 *
 * rose_column_sort_internal.h
 *	  The inside of a sort of columns, shared by rose_column_sort.c, which takes rows in and
 *	  sorts as many as fit memory, rose_column_run.c, which keeps sorted ones in files, and
 *	  rose_column_merge.c, which merges them.
 *
 * Rows are columns: values[a][i] and nulls[a][i] of column a (attribute number - 1) and row
 * i.  nulls[a] is NULL if no row lacks a value, and the value of a NULL is 0.  Columns that
 * are ranks are not kept: they are made when rows come out.
 *
 * Backend-local; only the three of them include it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COLUMN_SORT_INTERNAL_H
#define ROSE_COLUMN_SORT_INTERNAL_H

#include "storage/buffile.h"

#include "lsm/merge/rose_column_sort.h"

/* Rows that are read, merged and given out together, at most. */
#define ROSE_SORT_BLOCK		ROSE_COLUMN_SORT_ROWS

/* The order of keys: equal words need not mean equal keys, unless it is exact. */
typedef struct RoseSortOrder
{
	const RoseSchema *schema;
	bool		exact;
	bool	   *kept;			/* [natts]: the column is not a rank */
} RoseSortOrder;

typedef struct RoseSortWords
{
	uint64		word[2];
} RoseSortWords;

/* The key of a row: key width Datums. */
static inline void
rose_sort_key(const RoseSortOrder *order, Datum *const *values, bool *const *nulls, int64 i,
			  Datum *key)
{
	const RoseSchema *schema = order->schema;

	for (int j = 0; j < schema->nkeys; j++)
	{
		uint16		flags = schema->keys[j].def.flags;
		int			a = schema->keys[j].def.attno - 1;

		if ((flags & ROSE_KEY_RANK) != 0)
		{
			int			of = schema->keys[j + 1].def.attno - 1;

			key[j] = Int16GetDatum(rose_key_rank(nulls[of] != NULL && nulls[of][i],
												 (flags & ROSE_KEY_NULLS_FIRST) != 0));
		}
		else
			key[j] = values[a][i];
	}
}

static inline void
rose_sort_words(const RoseSortOrder *order, Datum *const *values, bool *const *nulls, int64 i,
				RoseSortWords *words)
{
	Datum		key[INDEX_MAX_KEYS];
	RoseKeyPrefix prefix;

	rose_sort_key(order, values, nulls, i, key);
	rose_key_prefix_make(order->schema, key, order->schema->nkeys, &prefix);
	words->word[0] = prefix.word[0];
	words->word[1] = prefix.word[1];
}

/* ---- sorted rows of one source, a block at a time ---- */

typedef struct RoseSortSource RoseSortSource;

/* Make the next block: sets n, values and nulls.  n is 0 at the end. */
typedef void (*RoseSortFill) (RoseSortSource *source);

struct RoseSortSource
{
	const RoseSortOrder *order;
	RoseSortFill fill;
	int			n;
	int			at;				/* the next row */
	RoseSortWords *words;		/* [ROSE_SORT_BLOCK] */
	Datum	  **values;			/* [natts][ROSE_SORT_BLOCK]; */
	bool	  **nulls;
	bool	  **null_store;		/* memory for them */
};

/* Set up what all sources have; *source is the first member of the maker's own. */
extern void rose_sort_source_init(RoseSortSource *source, const RoseSortOrder *order,
								  RoseSortFill fill);

/* The nulls of a column in the block, to be set. */
extern bool *rose_sort_source_nulls(RoseSortSource *source, int a);

/* ---- rows in a file ---- */

typedef struct RoseSortRun RoseSortRun;

extern RoseSortRun *rose_sort_run_create(const RoseSortOrder *order);

/* n rows, ROSE_SORT_BLOCK at most. */
extern void rose_sort_run_append(RoseSortRun *run, Datum *const *values, bool *const *nulls, int n);

/* No more come: it is read from its start. */
extern RoseSortSource *rose_sort_run_open(RoseSortRun *run);
extern void rose_sort_run_free(RoseSortRun *run);

/* ---- merging ---- */

typedef struct RoseSortMerge RoseSortMerge;

/* Memory in the current context. */
extern RoseSortMerge *rose_sort_merge_begin(const RoseSortOrder *order, RoseSortSource **sources,
											int nsources);

/* The next rows, valid until the next call; their number, ROSE_SORT_BLOCK at most, or 0. */
extern int	rose_sort_merge_next(RoseSortMerge *merge, Datum ***values, bool ***nulls);

#endif							/* ROSE_COLUMN_SORT_INTERNAL_H */
