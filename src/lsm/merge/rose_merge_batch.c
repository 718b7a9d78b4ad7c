/*-------------------------------------------------------------------------
 *
 * rose_merge_batch.c
 *	  Many versions at a time from a merge cursor, as columns.
 *
 * Nearly all that merges read are whole rows that everybody sees.  Of these a merge keeps
 * the newest one of each key, whoever wrote it, and need not look at the versions one by
 * one.  So leaves that have only such rows ("plain" ones) are decoded by columns, keys
 * are turned into two words a row, the words of all sources are merged, and what comes
 * out is gathered, column by column.  A batch ends where a source has to decode more, at
 * a row of a leaf that is not plain, or when it is full.
 *
 * A key's words are those of its prefix (rose_key_prefix_make).  If all key columns are
 * integers of 16 bytes together, they say all about it; else keys of equal words are
 * compared.
 *
 * Backend-local; no locks.  Rows that need a decision are left to the row by row way of
 * rose_merge_output.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_gc.h"
#include "lsm/merge/rose_merge_cursor_internal.h"

/* A key as two numbers. */
typedef struct KeyWords
{
	uint64		word[2];
} KeyWords;

/* What rows have beside their columns. */
typedef enum SystemColumn
{
	SYSTEM_SEQ,
	SYSTEM_XID,
	SYSTEM_ROWID,				/* of tables without key */
	SYSTEM_COLUMNS
} SystemColumn;

/* A source's window: rows of its leaf that are decoded together. */
typedef struct BatchSource
{
	RoseMergeSource *source;
	RoseLeaf   *leaf;			/* that words and columns were made for ... */
	uint32		stamp;			/* ... and its window */
	bool		plain;
	int			at;				/* row of the window ... */
	int			end;			/* ... up to this one */
	int			start;			/* where 'at' was when the batch began */
	KeyWords   *words;			/* [ROSE_LEAF_WINDOW] */
	const Datum *system[SYSTEM_COLUMNS];
	const Datum **values;		/* [natts]; NULL: no row of the window has one */
	const bool **nulls;			/* [natts]; NULL: each row has one, or none */
} BatchSource;

typedef struct RoseMergeBatcher
{
	bool		exact;			/* equal words are equal keys */
	int			nsources;		/* that are not exhausted */
	BatchSource *sources;		/* the first nsources take part */
	KeyWords   *heads;			/* of the next row of each that takes part */
	int		   *node;			/* matches between them; see rose_losertree.h */

	/* the plan: row i of the batch */
	int			n;
	uint8		from[ROSE_MERGE_BATCH]; /* source ... */
	uint16		slot[ROSE_MERGE_BATCH]; /* ... and row of its window */

	/* what is gathered */
	RoseRowBatch rows;
	Datum	   *columns;		/* [natts + SYSTEM_COLUMNS][ROSE_MERGE_BATCH] */
	bool	   *column_nulls;	/* [natts][ROSE_MERGE_BATCH] */
} RoseMergeBatcher;

StaticAssertDecl(ROSE_MAX_COMPONENTS <= PG_UINT8_MAX, "sources are numbered in a byte");
StaticAssertDecl(ROSE_LEAF_WINDOW <= PG_UINT16_MAX, "rows of a window are numbered in two");

/* ---- words of keys ---- */

static bool
words_are_exact(const RoseSchema *schema)
{
	int			width = 0;

	for (int j = 0; j < schema->nkeys; j++)
	{
		if (!schema->keys[j].int_order)
			return false;
		width += schema->keys[j].prefix_bits / 8;
	}
	return width <= (int) sizeof(KeyWords);
}

/* Put a key column of integers into the words of n rows, 'before' bits of which are taken. */
static void
put_integers(const RoseKeyColumn *column, int before, const Datum *values, int n,
			 KeyWords *words)
{
	int			bits = column->prefix_bits;
	uint64		sign = UINT64CONST(1) << (bits - 1);
	uint64		mask = sign | (sign - 1);
	int			w = before / 64;
	int			room = 64 - before % 64;

	if (bits <= room)
	{
		for (int i = 0; i < n; i++)
			words[i].word[w] |= (((uint64) values[i] & mask) ^ sign) << (room - bits);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		uint64		value = ((uint64) values[i] & mask) ^ sign;

		words[i].word[w] |= value >> (bits - room);
		words[i].word[w + 1] |= value << (64 - (bits - room));
	}
}

static void
key_words(const RoseSchema *schema, const Datum *key, KeyWords *words)
{
	RoseKeyPrefix prefix;

	rose_key_prefix_make(schema, key, rose_schema_key_width(schema), &prefix);
	words->word[0] = prefix.word[0];
	words->word[1] = prefix.word[1];
}

/* A key column of the window; 0 where it is NULL. */
static const Datum *
key_column(const RoseMergeCursor *merge, const BatchSource *input, int j)
{
	const RoseSchema *schema = merge->schema;
	const Datum *values;
	const bool *nulls;

	if (schema->nkeys == 0)
		return input->system[SYSTEM_ROWID];
	values = input->values[schema->keys[j].def.attno - 1];
	if (unlikely(values == NULL))	/* all of them are NULL */
		values = rose_leaf_window_column(input->leaf,
										 ROSE_SYSCOLS + schema->keys[j].def.attno - 1, &nulls);
	return values;
}

static void
window_key(const RoseMergeCursor *merge, const BatchSource *input, int at, Datum *key)
{
	for (int j = 0; j < rose_schema_key_width(merge->schema); j++)
		key[j] = key_column(merge, input, j)[at];
}

/* The words of rows [from, n) of the window. */
static void
make_words(const RoseMergeCursor *merge, BatchSource *input, int from, int n)
{
	const RoseSchema *schema = merge->schema;
	int			before = 0;

	if (schema->nkeys == 0 || !merge->batcher->exact)
	{
		Datum		key[INDEX_MAX_KEYS];

		for (int i = from; i < n; i++)
		{
			window_key(merge, input, i, key);
			key_words(schema, key, &input->words[i]);
		}
		return;
	}
	memset(input->words + from, 0, (n - from) * sizeof(KeyWords));
	for (int j = 0; j < schema->nkeys; j++)
	{
		put_integers(&schema->keys[j], before, key_column(merge, input, j) + from, n - from,
					 input->words + from);
		before += schema->keys[j].prefix_bits;
	}
}

/* ---- windows ---- */

/*
 * Has the leaf only whole rows that all snapshots see, with all columns of today?  A
 * private run that became an ordinary one still has command ids, which are not kept.
 */
static bool
leaf_is_plain(const RoseMergeCursor *merge, const BatchSource *input, RoseLeaf *leaf,
			  FullTransactionId oldest)
{
	const RoseComponentInfo *info = rose_component_cursor_info(input->source->cursor);

	if (!rose_leaf_is_self_contained(leaf) || info->nwriters != 0 ||
		(info->entry.flags & ROSE_COMPONENT_OWNERS) != 0)	/* some may have aborted */
		return false;
	return leaf->rows.natts == merge->schema->natts && rose_leaf_only_puts(leaf) &&
		rose_leaf_precedes(leaf, oldest);
}

/* NULL if the column has no value in the window; *nulls: NULL unless some rows lack one. */
static const Datum *
window_values(RoseLeaf *leaf, int col, const bool **nulls)
{
	const Datum *values = rose_leaf_window_column(leaf, col, nulls);
	int			n = leaf->rows.window_rows;

	if (memchr(*nulls, true, n) == NULL)
		*nulls = NULL;
	else if (memchr(*nulls, false, n) == NULL)
	{
		*nulls = NULL;
		return NULL;
	}
	return values;
}

static void
decode_window(const RoseMergeCursor *merge, BatchSource *input, RoseLeaf *leaf)
{
	const RoseSchema *schema = merge->schema;
	const bool *nulls;

	input->system[SYSTEM_SEQ] = rose_leaf_window_column(leaf, ROSE_SYSCOL_SEQ, &nulls);
	input->system[SYSTEM_XID] = rose_leaf_window_column(leaf, ROSE_SYSCOL_XID, &nulls);
	if (schema->nkeys == 0)
		input->system[SYSTEM_ROWID] = rose_leaf_window_column(leaf, ROSE_SYSCOL_ROWID, &nulls);
	for (int a = 0; a < schema->natts; a++)
	{
		input->values[a] = NULL;
		input->nulls[a] = NULL;
		if (!TupleDescAttr(schema->tupdesc, a)->attisdropped)
			input->values[a] = window_values(leaf, ROSE_SYSCOLS + a, &input->nulls[a]);
	}
}

/* See what the source has at hand. */
static void
open_window(const RoseMergeCursor *merge, BatchSource *input, FullTransactionId oldest)
{
	int			slot;
	RoseLeaf   *leaf = rose_component_cursor_leaf(input->source->cursor, &slot);
	uint64		left = input->source->to - leaf->first_ordinal;

	rose_leaf_set_window(leaf, slot, true);
	if (input->leaf != leaf || input->stamp != leaf->rows.stamp)
	{
		input->leaf = leaf;
		input->stamp = leaf->rows.stamp;
		input->plain = leaf_is_plain(merge, input, leaf, oldest);
		if (input->plain)
		{
			decode_window(merge, input, leaf);
			make_words(merge, input, slot - leaf->rows.window_first, leaf->rows.window_rows);
		}
	}
	input->at = input->start = slot - leaf->rows.window_first;
	input->end = (int) Min((uint64) (leaf->rows.window_first + leaf->rows.window_rows), left) -
		leaf->rows.window_first;
}

/* ---- the plan ---- */

static void
current_key(const RoseMergeCursor *merge, const BatchSource *input, Datum *key)
{
	if (input->plain)
		window_key(merge, input, input->at, key);
	else
		memcpy(key, input->source->row->key,
			   rose_schema_key_width(merge->schema) * sizeof(Datum));
}

static uint64
current_seq(const BatchSource *input)
{
	return input->plain ? (uint64) DatumGetInt64(input->system[SYSTEM_SEQ][input->at]) :
		input->source->row->version.seq;
}

/* Which of two sources with the same words comes first? */
static bool
precedes_closely(const RoseMergeCursor *merge, int a, int b)
{
	const BatchSource *x = &merge->batcher->sources[a];
	const BatchSource *y = &merge->batcher->sources[b];
	Datum		xkey[INDEX_MAX_KEYS];
	Datum		ykey[INDEX_MAX_KEYS];
	int			cmp = 0;

	if (!merge->batcher->exact)
	{
		current_key(merge, x, xkey);
		current_key(merge, y, ykey);
		cmp = rose_key_compare(merge->schema, xkey, ykey, rose_schema_key_width(merge->schema));
	}
	if (cmp != 0)
		return cmp < 0;
	if (current_seq(x) != current_seq(y))
		return current_seq(x) > current_seq(y);
	return a < b;
}

static inline bool
precedes(int a, int b, const void *arg)
{
	const RoseMergeCursor *merge = arg;
	const KeyWords *x = &merge->batcher->heads[a];
	const KeyWords *y = &merge->batcher->heads[b];

	if (x->word[0] != y->word[0])
		return x->word[0] < y->word[0];
	if (x->word[1] != y->word[1])
		return x->word[1] < y->word[1];
	return precedes_closely(merge, a, b);
}

/* Has the winner's row the key of the batch's last one? */
static bool
repeats_last(const RoseMergeCursor *merge, const BatchSource *input)
{
	const RoseMergeBatcher *batcher = merge->batcher;
	const BatchSource *last;
	int			at;
	const KeyWords *x;
	const KeyWords *y = &input->words[input->at];
	Datum		xkey[INDEX_MAX_KEYS];
	Datum		ykey[INDEX_MAX_KEYS];

	if (batcher->n == 0)
		return false;
	last = &batcher->sources[batcher->from[batcher->n - 1]];
	at = batcher->slot[batcher->n - 1];
	x = &last->words[at];
	if (x->word[0] != y->word[0] || x->word[1] != y->word[1])
		return false;
	if (batcher->exact)
		return true;
	window_key(merge, last, at, xkey);
	window_key(merge, input, input->at, ykey);
	return rose_key_compare(merge->schema, xkey, ykey, rose_schema_key_width(merge->schema)) == 0;
}

/* An older version of the last row. */
static void
leave_out(const RoseMergeBatcher *batcher, const BatchSource *input, RoseMergeBatch *batch)
{
	const BatchSource *last = &batcher->sources[batcher->from[batcher->n - 1]];
	uint64		kept = (uint64) DatumGetInt64(last->system[SYSTEM_XID][batcher->slot[batcher->n - 1]]);
	uint64		xid = (uint64) DatumGetInt64(input->system[SYSTEM_XID][input->at]);

	batch->tokens = Max(batch->tokens, rose_gc_superseded(kept, xid));
}

/* Choose the batch's rows, at most max versions. */
static void
plan_rows(RoseMergeCursor *merge, int max, RoseMergeBatch *batch)
{
	RoseMergeBatcher *batcher = merge->batcher;

	rose_matches_play(batcher->node, batcher->nsources, precedes, merge);
	while (batch->npassed < max)
	{
		int			winner = batcher->node[0];
		BatchSource *input = &batcher->sources[winner];

		if (!input->plain)
			return;
		if (repeats_last(merge, input))
			leave_out(batcher, input, batch);
		else
		{
			batcher->from[batcher->n] = (uint8) winner;
			batcher->slot[batcher->n++] = (uint16) input->at;
		}
		batch->npassed++;
		if (++input->at == input->end)
			return;
		batcher->heads[winner] = input->words[input->at];
		rose_matches_replay(batcher->node, batcher->nsources, precedes, merge);
	}
}

/* ---- gathering ---- */

static void
gather(const RoseMergeBatcher *batcher, const Datum *const *bases, Datum *values)
{
	for (int i = 0; i < batcher->n; i++)
		values[i] = bases[batcher->from[i]][batcher->slot[i]];
}

static void
gather_system(RoseMergeBatcher *batcher, SystemColumn column, Datum *values)
{
	const Datum *bases[ROSE_MAX_COMPONENTS] = {NULL};

	for (int s = 0; s < batcher->nsources; s++)
		if (batcher->sources[s].plain)
			bases[s] = batcher->sources[s].system[column];
	gather(batcher, bases, values);
}

/* A column in which some rows lack a value. */
static void
gather_sparse(RoseMergeBatcher *batcher, int a, Datum *values, bool *nulls)
{
	for (int i = 0; i < batcher->n; i++)
	{
		const BatchSource *input = &batcher->sources[batcher->from[i]];
		int			slot = batcher->slot[i];

		nulls[i] = input->values[a] == NULL ||
			(input->nulls[a] != NULL && input->nulls[a][slot]);
		values[i] = nulls[i] ? (Datum) 0 : input->values[a][slot];
	}
	batcher->rows.values[a] = values;
	batcher->rows.nulls[a] = nulls;
}

static void
gather_column(RoseMergeBatcher *batcher, int a)
{
	const Datum *bases[ROSE_MAX_COMPONENTS] = {NULL};
	Datum	   *values = batcher->columns + (Size) a * ROSE_MERGE_BATCH;
	bool		any = false;
	bool		all = true;

	for (int s = 0; s < batcher->nsources; s++)
	{
		const BatchSource *input = &batcher->sources[s];

		if (!input->plain || input->at == input->start)
			continue;			/* it has no row in the batch */
		bases[s] = input->values[a];
		any |= bases[s] != NULL;
		all &= bases[s] != NULL && input->nulls[a] == NULL;
	}
	batcher->rows.values[a] = NULL;
	batcher->rows.nulls[a] = NULL;
	if (any && !all)
		gather_sparse(batcher, a, values,
					  batcher->column_nulls + (Size) a * ROSE_MERGE_BATCH);
	else if (any)
	{
		gather(batcher, bases, values);
		batcher->rows.values[a] = values;
	}
}

static void
gather_rows(const RoseMergeCursor *merge, RoseMergeBatch *batch)
{
	RoseMergeBatcher *batcher = merge->batcher;
	Datum	   *system = batcher->columns + (Size) merge->schema->natts * ROSE_MERGE_BATCH;

	gather_system(batcher, SYSTEM_SEQ, system);
	batcher->rows.seq = system;
	gather_system(batcher, SYSTEM_XID, system + ROSE_MERGE_BATCH);
	batcher->rows.xid = system + ROSE_MERGE_BATCH;
	if (merge->schema->nkeys == 0)
	{
		gather_system(batcher, SYSTEM_ROWID, system + 2 * ROSE_MERGE_BATCH);
		batcher->rows.rowid = system + 2 * ROSE_MERGE_BATCH;
	}
	for (int a = 0; a < merge->schema->natts; a++)
		gather_column(batcher, a);
	batcher->rows.n = batcher->n;
	batch->rows = &batcher->rows;
}

/* ---- batches ---- */

static void
create_batcher(RoseMergeCursor *merge)
{
	MemoryContext old = MemoryContextSwitchTo(merge->context);
	RoseMergeBatcher *batcher = palloc0(sizeof(RoseMergeBatcher));
	int			natts = Max(merge->schema->natts, 1);

	batcher->exact = words_are_exact(merge->schema);
	batcher->sources = palloc0(merge->nsources * sizeof(BatchSource));
	batcher->heads = palloc0(merge->nsources * sizeof(KeyWords));
	batcher->node = palloc0(merge->nsources * sizeof(int));
	batcher->columns = palloc((natts + SYSTEM_COLUMNS) * ROSE_MERGE_BATCH * sizeof(Datum));
	batcher->column_nulls = palloc(natts * ROSE_MERGE_BATCH * sizeof(bool));
	batcher->rows.values = palloc0(natts * sizeof(Datum *));
	batcher->rows.nulls = palloc0(natts * sizeof(bool *));
	for (int s = 0; s < merge->nsources; s++)
	{
		BatchSource *input = &batcher->sources[s];

		input->source = &merge->sources[s];
		input->words = palloc(ROSE_LEAF_WINDOW * sizeof(KeyWords));
		input->values = palloc0(natts * sizeof(Datum *));
		input->nulls = palloc0(natts * sizeof(bool *));
	}
	batcher->nsources = merge->nsources;
	merge->batcher = batcher;
	MemoryContextSwitchTo(old);
}

/* Only sources that have rows take part; the others stay behind. */
static void
drop_exhausted(RoseMergeBatcher *batcher)
{
	int			n = 0;

	for (int s = 0; s < batcher->nsources; s++)
	{
		BatchSource input = batcher->sources[s];

		if (input.source->row == NULL)
			continue;
		batcher->sources[s] = batcher->sources[n];
		batcher->sources[n++] = input;
	}
	batcher->nsources = n;
}

static void
read_head(RoseMergeCursor *merge, int s)
{
	BatchSource *input = &merge->batcher->sources[s];

	if (input->plain)
		merge->batcher->heads[s] = input->words[input->at];
	else
		key_words(merge->schema, input->source->row->key, &merge->batcher->heads[s]);
}

const RoseRow *
rose_merge_cursor_peek(RoseMergeCursor *merge)
{
	int			winner = rose_merge_advance(merge);

	return winner < 0 ? NULL : merge->sources[winner].row;
}

bool
rose_merge_cursor_batch(RoseMergeCursor *merge, FullTransactionId oldest, int max,
						RoseMergeBatch *batch)
{
	RoseMergeBatcher *batcher;

	memset(batch, 0, sizeof(*batch));
	if (merge->schema->natts > ROSE_BATCH_MAX_COLUMNS || rose_merge_advance(merge) < 0)
		return false;
	if (merge->batcher == NULL)
		create_batcher(merge);
	batcher = merge->batcher;
	drop_exhausted(batcher);
	batcher->n = 0;
	for (int s = 0; s < batcher->nsources; s++)
	{
		open_window(merge, &batcher->sources[s], oldest);
		read_head(merge, s);
	}
	plan_rows(merge, Min(max, ROSE_MERGE_BATCH), batch);
	if (batcher->n == 0)
		return false;
	gather_rows(merge, batch);
	return true;
}

static void
keep_values(Datum *values, bool *nulls, const int *kept, int n)
{
	for (int i = 0; i < n; i++)
		values[i] = values[kept[i]];
	for (int i = 0; nulls != NULL && i < n; i++)
		nulls[i] = nulls[kept[i]];
}

void
rose_merge_cursor_keep(RoseMergeCursor *merge, const int *kept, int n)
{
	RoseMergeBatcher *batcher = merge->batcher;
	int			natts = merge->schema->natts;

	for (int a = 0; a < natts + SYSTEM_COLUMNS; a++)
	{
		bool		has_nulls = a < natts && batcher->rows.nulls[a] != NULL;

		if ((a < natts && batcher->rows.values[a] == NULL) ||
			(a == natts + SYSTEM_ROWID && batcher->rows.rowid == NULL))
			continue;
		keep_values(batcher->columns + (Size) a * ROSE_MERGE_BATCH,
					has_nulls ? batcher->column_nulls + (Size) a * ROSE_MERGE_BATCH : NULL, kept, n);
	}
	batcher->rows.n = n;
}

void
rose_merge_cursor_end_batch(RoseMergeCursor *merge)
{
	RoseMergeBatcher *batcher = merge->batcher;

	for (int s = 0; s < batcher->nsources; s++)
	{
		BatchSource *input = &batcher->sources[s];
		RoseMergeSource *source = input->source;
		bool		has_row;

		if (!input->plain || input->at == input->start)
			continue;
		has_row = rose_component_cursor_goto(source->cursor,
											 input->leaf->rows.window_first + input->at);
		if (!rose_merge_take_row(merge, source, has_row))
			rose_losertree_set_empty(merge->tree, (int) (source - merge->sources));
	}
	rose_losertree_build(merge->tree);
}
