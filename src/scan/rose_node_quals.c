/*-------------------------------------------------------------------------
 *
 * rose_node_quals.c
 *	  Conditions that are checked for many rows at a time.
 *
 * A condition is a tree of filters.  Each tells for some rows, as masks, for which of them it is true and for
 * which it is NULL.  A comparison becomes a set of words (util/rose_wordset.h) in the order of the column; those of
 * types whose order is not that of words are taken for equality only.
 *
 * What is evaluated.  What a column is compared with is evaluated once a (re)scan, and not before a row has come to
 * where an expression of core's would evaluate it: it may fail, or be a subquery.  So each filter gets the
 * rows that still need it, and does nothing if there are none; and the first row that is left must be one of them, or nobody may come
 * to any, since the consumer may want the first rows of a vector only.  Comparisons of words cannot fail, nor can the
 * functions of texts that are called here (rose_node_filter_text.c).
 *
 * What is made of columns (rose_node_kernel.h), to be compared, is made of the rows that need it, and may fail: there is, or may be, an error
 * in one of them.  Nobody may want that row, so no error is raised here.  The rows that are left are said to be open then: who gives
 * them out asks of each the condition that failed and those behind it, as expressions of core's, in order.  What fails often is not tried any more.
 *
 * Which conditions may be checked before others is for rose_node_clauses.c.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "util/rose_mask.h"
#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_decimal.h"
#include "scan/rose_node_filter.h"
#include "scan/rose_node_kernel.h"
#include "scan/rose_node_quals.h"
#include "scan/rose_node_scan.h"

#define MASK_WORDS		ROSE_MASK_WORDS(ROSE_NODE_VECTOR_ROWS)

/* Of so many rows less than one needs a text: these are picked. */
#define PICK_BELOW		32

/* After so many more vectors with errors, as it seems, than without, what is made of columns is made row by row. */
#define MAX_FAILURES	8

/* A column of the rows at hand. */
typedef struct FilterColumn
{
	AttrNumber	attno;
	const Node *expr;			/* no column, but what is made of some ... */
	RoseNodeKernel *kernel;		/* ... by this ... */
	uint64		made[MASK_WORDS];	/* ... for these rows, if it is loaded */
	bool		loaded;
	bool		by_value;
	bool		is_numeric;		/* words are integers (decimals) or, if there is one that is none, Datums */
	bool		is_decimal;
	RoseNodeDecimals decimals;
	uint8	   *scales;			/* room for theirs */
	int64	   *words;			/* by reference: Datums */
	uint64		nulls[MASK_WORDS];
} FilterColumn;

struct RoseNodeQuals
{
	int			nfilters;
	RoseNodeFilter **filters;	/* all must be true */
	ExprState **asked;			/* the same as expressions, from the first one on that may fail; before it NULL */
	int			open;			/* from this one on filters are to be asked of each row that is left */
	ExprContext *econtext;
	MemoryContext context;		/* of the sets */
	int			ncolumns;
	FilterColumn *columns;
	Datum	   *values;			/* scratch, a vector long */
	bool	   *nulls;
	uint16	   *rows;			/* the same, of texts */
	uint16	   *codes;			/* of numerics */
	bool	   *keep;
	RoseNodeKernels kernels;
	RoseNodeRows *chosen;		/* of which something is made; NULL: there is nothing to make */

	/* rows at hand */
	RoseBatch  *batch;
	int			first;
	int			n;
	int			lead;			/* the first of them that is left: somebody has come to it */
	bool		failed;			/* so answers of the condition at hand are nothing */
};

/* What a filter says of rows: neither is false. */
typedef struct Answer
{
	uint64		yes[MASK_WORDS];
	uint64		unknown[MASK_WORDS];
} Answer;

/* What is asked of a filter. */
typedef bool (*Question) (const RoseNodeFilter *filter);

/* Of a condition that is one; false: it is none.  Nothing is left of it in memory: planners ask of each partition, more than once. */
static bool
ask(Node *clause, Index relid, Question question)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose scan condition", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const RoseNodeFilter *filter = rose_node_filter_compile(clause, relid, NULL);
	bool		result = filter != NULL && question(filter);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return result;
}

static bool
is_any(const RoseNodeFilter *filter)
{
	return true;
}

static bool
evaluates(const RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->args)
	{
		if (evaluates(lfirst(cell)))
			return true;
	}
	return filter->evaluates;
}

static bool
calls(const RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->args)
	{
		if (calls(lfirst(cell)))
			return true;
	}
	return filter->type == ROSE_FILTER_TEXT;
}

static bool
computes(const RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->args)
	{
		if (computes(lfirst(cell)))
			return true;
	}
	return filter->expr != NULL;
}

bool
rose_node_quals_takes(Node *clause, Index relid)
{
	return ask(clause, relid, is_any);
}

bool
rose_node_quals_evaluates(Node *clause, Index relid)
{
	return ask(clause, relid, evaluates);
}

bool
rose_node_quals_computes(Node *clause, Index relid)
{
	return ask(clause, relid, computes);
}

bool
rose_node_quals_calls(Node *clause, Index relid)
{
	return ask(clause, relid, calls);
}

/* ---- columns ---- */

static void
add_column(RoseNodeQuals *quals, const RoseNodeFilter *filter)
{
	FilterColumn *column;

	quals->columns = repalloc(quals->columns, (quals->ncolumns + 1) * sizeof(FilterColumn));
	column = &quals->columns[quals->ncolumns++];
	memset(column, 0, sizeof(FilterColumn));
	column->attno = filter->attno;
	column->by_value = filter->by_value;
	column->words = palloc0(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	column->expr = filter->expr;
	if (filter->expr == NULL)
		return;
	column->kernel = filter->left == NUMERICOID ? rose_node_kernel_compile_decimal(&quals->kernels, filter->expr) :
		rose_node_kernel_compile(&quals->kernels, filter->expr);
	if (column->kernel == NULL)
		elog(ERROR, "condition of a Rose Scan is not made of columns");
	if (quals->chosen == NULL)
		quals->chosen = palloc(sizeof(RoseNodeRows));
}

static void
add_columns(RoseNodeQuals *quals, RoseNodeFilter *filter)
{
	ListCell   *cell;
	int			i;

	foreach(cell, filter->args)
		add_columns(quals, lfirst(cell));
	if (filter->attno == 0 && filter->expr == NULL)
		return;
	for (i = 0; i < quals->ncolumns; i++)
	{
		if (quals->columns[i].attno == filter->attno && equal(quals->columns[i].expr, filter->expr))
			break;
	}
	if (i == quals->ncolumns)
		add_column(quals, filter);
	filter->column = i;
	if (filter->type == ROSE_FILTER_COMPARE && filter->kind == ROSE_WORDS_NUMERIC && !quals->columns[i].is_numeric)
	{
		quals->columns[i].is_numeric = true;
		quals->columns[i].scales = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint8));
	}
}

/* The column's Datums are there. */
static void
take_numerics(RoseNodeQuals *quals, FilterColumn *column, const bool *nulls)
{
	memcpy(quals->values, column->words, quals->n * sizeof(int64));
	column->is_decimal = rose_node_decimal_make(quals->values, nulls, quals->n, column->words, column->scales, &column->decimals);
	if (!column->is_decimal)
		memcpy(column->words, quals->values, quals->n * sizeof(int64));
}

/* Of numerics in a dictionary entries alone are made integers; false: it is to be done another way. */
static bool
load_coded(RoseNodeQuals *quals, FilterColumn *column)
{
	int			nentries;
	const Datum *entries = rose_batch_codes(quals->batch, column->attno, quals->first, quals->n, quals->codes, &nentries);

	if (entries == NULL ||
		!rose_node_decimal_make_coded(entries, nentries, quals->codes, quals->n, column->words, column->scales, &column->decimals))
		return false;
	column->is_decimal = true;
	rose_mask_clear(column->nulls, quals->n);
	column->loaded = true;
	return true;
}

static FilterColumn *
load_column(RoseNodeQuals *quals, int number)
{
	FilterColumn *column = &quals->columns[number];
	bool		any;

	if (column->loaded || (column->is_numeric && load_coded(quals, column)))
		return column;
	if (column->by_value)
		any = rose_batch_words(quals->batch, column->attno, quals->first, quals->n,
							   column->words, quals->nulls);
	else
		any = rose_batch_datums(quals->batch, column->attno, quals->first, quals->n,
								(Datum *) column->words, quals->nulls);
	if (column->is_numeric)
		take_numerics(quals, column, any ? quals->nulls : NULL);
	if (any)
		rose_vec_mask_of_bools(quals->nulls, quals->n, column->nulls);
	else
		rose_mask_clear(column->nulls, quals->n);
	column->loaded = true;
	return column;
}

/* ---- what is made of columns ---- */

static bool
covers(const uint64 *made, const uint64 *needed, int n)
{
	uint64		beyond = 0;

	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		beyond |= needed[w] & ~made[w];
	return beyond == 0;
}

static void
choose_rows(RoseNodeQuals *quals, const uint64 *needed)
{
	RoseNodeRows *rows = quals->chosen;

	rows->batch = quals->batch;
	rows->first = quals->first;
	rows->n = rose_mask_count(needed, quals->n);
	rows->all = rows->n == quals->n;
	if (!rows->all)
		(void) rose_mask_list(needed, quals->n, quals->first, rows->rows);
	rose_node_kernels_start(&quals->kernels, rows);
}

/* Values that were made one after the other go to where those of a column are. */
static void
place_values(const RoseNodeQuals *quals, FilterColumn *column)
{
	const RoseNodeRows *rows = quals->chosen;
	const RoseNodeKernel *kernel = column->kernel;

	rose_mask_clear(column->nulls, quals->n);
	if (rows->all)
	{
		memcpy(column->words, kernel->values, quals->n * sizeof(int64));
		if (kernel->any_null)
			rose_vec_mask_of_bools(kernel->nulls, quals->n, column->nulls);
		return;
	}
	for (int i = 0; i < rows->n; i++)
	{
		int			row = rows->rows[i] - rows->first;

		column->words[row] = kernel->values[i];
		if (kernel->any_null && kernel->nulls[i])
			column->nulls[row / ROSE_MASK_BITS] |= UINT64CONST(1) << (row % ROSE_MASK_BITS);
	}
}

/* For the rows that are needed, of which there is one; false: that may fail. */
static bool
make_values(RoseNodeQuals *quals, FilterColumn *column, const uint64 *needed)
{
	RoseNodeKernel *kernel = column->kernel;

	if (column->loaded && covers(column->made, needed, quals->n))
		return true;
	if (kernel->failures >= MAX_FAILURES)
		return false;
	choose_rows(quals, needed);
	if (!rose_node_kernel_run(&quals->kernels, kernel))
	{
		kernel->failures++;
		return false;
	}
	kernel->failures -= kernel->failures > 0;
	place_values(quals, column);
	column->is_decimal = kernel->is_decimal;
	column->decimals = kernel->decimals;
	memcpy(column->made, needed, ROSE_MASK_WORDS(quals->n) * sizeof(uint64));
	column->loaded = true;
	return true;
}

/* ---- answers ---- */

static void answer(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed,
				   Answer *result);

/* Its values for the rows that are needed; NULL: that may fail. */
static FilterColumn *
values_of(RoseNodeQuals *quals, const RoseNodeFilter *filter, const uint64 *needed)
{
	FilterColumn *column = &quals->columns[filter->column];

	if (column->expr == NULL)
		return load_column(quals, filter->column);
	return make_values(quals, column, needed) ? column : NULL;
}

/* Of rows that are not NULL. */
static void
answer_numeric(RoseNodeQuals *quals, RoseNodeFilter *filter, const FilterColumn *column, uint64 *yes)
{
	ExprContext *econtext = quals->econtext;
	MemoryContext old;

	if (column->is_decimal)
	{
		rose_vec_select(column->words, quals->n, rose_node_filter_numeric_set(filter, column->decimals.scale), yes);
		return;
	}
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < quals->n; i++)
	{
		uint64		bit = UINT64CONST(1) << i % 64;

		if ((column->nulls[i / 64] & bit) == 0 && rose_node_filter_numeric_has(filter, (Datum) column->words[i]))
			yes[i / 64] |= bit;
	}
	MemoryContextSwitchTo(old);
}

/* What it compares with is known; false: that may fail, and only rows need it that perhaps nobody comes to. */
static bool
is_ready(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed)
{
	if (!filter->ready && filter->evaluates && !rose_mask_has(needed, quals->lead))
		quals->failed = true;
	else if (!filter->ready)
		rose_node_filter_evaluate(filter, quals->econtext, quals->context);
	return filter->ready;
}

static void
answer_compare(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	FilterColumn *column;
	const int64 *words;

	if (!is_ready(quals, filter, needed))
		return;
	if (filter->outcome == ROSE_FILTER_NEVER)
		return;
	if (filter->outcome == ROSE_FILTER_UNKNOWN)
	{
		rose_mask_fill(result->unknown, quals->n);
		return;
	}
	column = values_of(quals, filter, needed);
	if (column == NULL)
	{
		quals->failed = true;
		return;
	}
	words = column->words;
	if (filter->kind == ROSE_WORDS_FLOAT4 || filter->kind == ROSE_WORDS_FLOAT8)
	{
		int64	   *mapped = (int64 *) quals->values;

		memcpy(mapped, words, quals->n * sizeof(int64));
		if (filter->kind == ROSE_WORDS_FLOAT4)
			rose_vec_float4_words(mapped, quals->n);
		else
			rose_vec_float8_words(mapped, quals->n);
		words = mapped;
	}
	if (filter->kind == ROSE_WORDS_NUMERIC)
		answer_numeric(quals, filter, column, result->yes);
	else
		rose_vec_select(words, quals->n, &filter->set, result->yes);
	for (int w = 0; w < ROSE_MASK_WORDS(quals->n); w++)
	{
		result->yes[w] &= ~column->nulls[w];
		result->unknown[w] = column->nulls[w];
	}
	if (filter->else_unknown)
	{
		rose_mask_fill(result->unknown, quals->n);
		for (int w = 0; w < ROSE_MASK_WORDS(quals->n); w++)
			result->unknown[w] &= ~result->yes[w];
	}
}

/* Values of these rows, by their numbers in the vector; those that have none are left out.  Returns how many are left. */
static int
texts_of(RoseNodeQuals *quals, RoseNodeFilter *filter, uint16 *rows, int n, Answer *result)
{
	bool		pick = n * PICK_BELOW < quals->n && !quals->columns[filter->column].loaded;
	const FilterColumn *column = NULL;
	int			left = 0;

	if (!pick)
		column = load_column(quals, filter->column);
	else
	{
		for (int i = 0; i < n; i++)
			rows[i] += quals->first;
		rose_batch_pick(quals->batch, filter->attno, rows, n, quals->values, quals->nulls);
		for (int i = 0; i < n; i++)
			rows[i] -= quals->first;
	}
	for (int i = 0; i < n; i++)
	{
		int			row = rows[i];

		if (pick ? quals->nulls[i] : rose_mask_has(column->nulls, row))
		{
			result->unknown[row / ROSE_MASK_BITS] |= UINT64CONST(1) << (row % ROSE_MASK_BITS);
			continue;
		}
		quals->values[left] = pick ? quals->values[i] : (Datum) column->words[row];
		rows[left++] = (uint16) row;
	}
	return left;
}

static void
answer_text(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	int			n;

	if (!is_ready(quals, filter, needed))
		return;
	if (filter->outcome == ROSE_FILTER_UNKNOWN)
	{
		rose_mask_fill(result->unknown, quals->n);
		return;
	}
	n = rose_mask_list(needed, quals->n, 0, quals->rows);
	n = texts_of(quals, filter, quals->rows, n, result);
	rose_node_filter_text_ask(filter->text, quals->values, n, quals->keep);
	for (int i = 0; i < n; i++)
		result->yes[quals->rows[i] / ROSE_MASK_BITS] |=
			(uint64) quals->keep[i] << (quals->rows[i] % ROSE_MASK_BITS);
}

static void
answer_null(RoseNodeQuals *quals, RoseNodeFilter *filter, Answer *result)
{
	FilterColumn *column = load_column(quals, filter->column);

	memcpy(result->yes, column->nulls, ROSE_MASK_WORDS(quals->n) * sizeof(uint64));
}

/* AND and OR: each argument is asked for the rows that those before it leave open. */
static void
answer_list(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	bool		is_and = filter->type == ROSE_FILTER_AND;
	int			words = ROSE_MASK_WORDS(quals->n);
	uint64		open[MASK_WORDS];
	ListCell   *cell;

	memcpy(open, needed, words * sizeof(uint64));
	if (is_and)
		memcpy(result->yes, needed, words * sizeof(uint64));
	foreach(cell, filter->args)
	{
		Answer		part;

		if (rose_mask_is_empty(open, quals->n))
			break;
		answer(quals, lfirst(cell), open, &part);
		if (quals->failed)
			return;
		for (int w = 0; w < words; w++)
		{
			if (is_and)
			{
				/* what is not open is false already */
				open[w] &= part.yes[w] | part.unknown[w];
				result->unknown[w] = (result->unknown[w] | part.unknown[w]) & open[w];
				result->yes[w] = open[w] & ~result->unknown[w];
			}
			else
			{
				result->yes[w] |= part.yes[w] & open[w];
				open[w] &= ~part.yes[w];
				result->unknown[w] = (result->unknown[w] | part.unknown[w]) & open[w];
			}
		}
	}
}

/* NOT, and IS TRUE and the like, of one argument. */
static void
answer_one(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	Answer		part;

	answer(quals, linitial(filter->args), needed, &part);
	for (int w = 0; w < ROSE_MASK_WORDS(quals->n); w++)
	{
		uint64		no = needed[w] & ~part.yes[w] & ~part.unknown[w];

		switch (filter->type)
		{
			case ROSE_FILTER_NOT:
				result->yes[w] = no;
				result->unknown[w] = part.unknown[w];
				break;
			case ROSE_FILTER_IS_TRUE:
				result->yes[w] = part.yes[w];
				break;
			case ROSE_FILTER_IS_FALSE:
				result->yes[w] = no;
				break;
			default:
				result->yes[w] = part.unknown[w];
				break;
		}
	}
}

/* Of the rows that are needed; of others nothing is said. */
static void
answer(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	rose_mask_clear(result->yes, quals->n);
	rose_mask_clear(result->unknown, quals->n);
	switch (filter->type)
	{
		case ROSE_FILTER_COMPARE:
			answer_compare(quals, filter, needed, result);
			break;
		case ROSE_FILTER_TEXT:
			answer_text(quals, filter, needed, result);
			break;
		case ROSE_FILTER_IS_NULL:
			answer_null(quals, filter, result);
			break;
		case ROSE_FILTER_AND:
		case ROSE_FILTER_OR:
			answer_list(quals, filter, needed, result);
			break;
		default:
			answer_one(quals, filter, needed, result);
			break;
	}
}

/* ---- interface ---- */

static void
add_filter(RoseNodeQuals *quals, Node *clause, PlanState *planstate)
{
	RoseNodeFilter *filter = rose_node_filter_compile(clause, ((Scan *) planstate->plan)->scanrelid, planstate);
	int			at = quals->nfilters++;

	if (filter == NULL)
		elog(ERROR, "condition of a Rose Scan cannot be a filter");
	add_columns(quals, filter);
	quals->filters[at] = filter;
	if (computes(filter) || evaluates(filter) || (at > 0 && quals->asked[at - 1] != NULL))
		quals->asked[at] = ExecInitQual(list_make1(clause), planstate);
}

RoseNodeQuals *
rose_node_quals_create(List *clauses, PlanState *planstate)
{
	RoseNodeQuals *quals = palloc0(sizeof(RoseNodeQuals));
	ListCell   *cell;

	quals->econtext = planstate->ps_ExprContext;
	quals->context = AllocSetContextCreate(CurrentMemoryContext, "rose scan filters",
										   ALLOCSET_SMALL_SIZES);
	quals->columns = palloc(sizeof(FilterColumn));
	quals->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(Datum));
	quals->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	quals->rows = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
	quals->codes = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
	quals->keep = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	quals->filters = palloc(list_length(clauses) * sizeof(RoseNodeFilter *));
	quals->asked = palloc0(list_length(clauses) * sizeof(ExprState *));
	foreach(cell, clauses)
		add_filter(quals, lfirst(cell), planstate);
	return quals;
}

void
rose_node_quals_start(RoseNodeQuals *quals)
{
	for (int f = 0; f < quals->nfilters; f++)
		rose_node_filter_reset(quals->filters[f]);
	MemoryContextReset(quals->context);
}

/* There are other rows: what was known of values that stood somewhere is nothing now. */
static void
forget_texts(RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->args)
		forget_texts(lfirst(cell));
	if (filter->text != NULL)
		rose_node_filter_text_renew(filter->text);
}

int
rose_node_quals_narrow(RoseNodeQuals *quals, RoseBatch *batch, int first, int n, uint64 *mask)
{
	quals->batch = batch;
	quals->first = first;
	quals->n = n;
	for (int i = 0; i < quals->ncolumns; i++)
		quals->columns[i].loaded = false;
	quals->failed = false;
	quals->open = quals->nfilters;
	for (int f = 0; f < quals->nfilters; f++)
	{
		Answer		result;

		if (rose_mask_is_empty(mask, n))
			break;
		quals->lead = rose_mask_first(mask);
		forget_texts(quals->filters[f]);
		answer(quals, quals->filters[f], mask, &result);
		if (quals->failed)
		{
			quals->open = f;
			break;
		}
		for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
			mask[w] &= result.yes[w];
	}
	return rose_mask_count(mask, n);
}

bool
rose_node_quals_is_open(const RoseNodeQuals *quals)
{
	return quals->open < quals->nfilters;
}

bool
rose_node_quals_ask(RoseNodeQuals *quals)
{
	for (int f = quals->open; f < quals->nfilters; f++)
	{
		if (!ExecQual(quals->asked[f], quals->econtext))
			return false;
	}
	return true;
}
