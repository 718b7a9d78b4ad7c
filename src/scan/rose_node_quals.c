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
 * Comparisons of one column with constants, which cannot fail, are joined: the first one leaves what all of them leave.
 *
 * Which conditions may be checked before others is for rose_node_clauses.c.  How values of columns are had is for rose_node_quals_column.c.
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

#include "scan/rose_node_quals_parts.h"

/* Of so many rows less than one needs a text: these are picked. */
#define PICK_BELOW		32

/* What a filter says of rows: neither is false. */
typedef struct Answer
{
	uint64		yes[ROSE_NODE_QUALS_WORDS];
	uint64		unknown[ROSE_NODE_QUALS_WORDS];
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

/* ---- answers ---- */

static void answer(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed,
				   Answer *result);

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

/* May a row be left by the comparisons that are joined to this one?  They cannot fail. */
static bool
start_joined(RoseNodeQuals *quals, RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->joined)
	{
		RoseNodeFilter *other = lfirst(cell);

		if (!other->ready)
			rose_node_filter_evaluate(other, quals->econtext, quals->context);
		if (other->outcome != ROSE_FILTER_SET)
			return false;
	}
	return true;
}

static void
answer_compare(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	const RoseNodeQualsColumn *column;

	if (!is_ready(quals, filter, needed))
		return;
	if (filter->outcome == ROSE_FILTER_NEVER)
		return;
	if (filter->outcome == ROSE_FILTER_UNKNOWN)
	{
		rose_mask_fill(result->unknown, quals->n);
		return;
	}
	if (!start_joined(quals, filter))
		return;
	column = rose_node_quals_column_select(quals, filter, needed, result->yes);
	if (column == NULL)
	{
		quals->failed = true;
		return;
	}
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
	const RoseNodeQualsColumn *column = NULL;
	int			left = 0;

	if (!pick)
		column = rose_node_quals_column_load(quals, filter->column);
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
	const RoseNodeQualsColumn *column = rose_node_quals_column_load(quals, filter->column);

	memcpy(result->yes, column->nulls, ROSE_MASK_WORDS(quals->n) * sizeof(uint64));
}

/* AND and OR: each argument is asked for the rows that those before it leave open. */
static void
answer_list(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed, Answer *result)
{
	bool		is_and = filter->type == ROSE_FILTER_AND;
	int			words = ROSE_MASK_WORDS(quals->n);
	uint64		open[ROSE_NODE_QUALS_WORDS];
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

/* A comparison of a column with one value, which cannot fail: it leaves a range, or nothing. */
static bool
is_range(const RoseNodeFilter *filter)
{
	return filter->type == ROSE_FILTER_COMPARE && filter->expr == NULL && !filter->is_array && !filter->evaluates;
}

/* Is the filter one of those before it, with less of its range?  None of them may fail. */
static bool
join(RoseNodeQuals *quals, RoseNodeFilter *filter)
{
	for (int f = 0; f < quals->nfilters && is_range(filter); f++)
	{
		RoseNodeFilter *before = quals->filters[f];

		if (is_range(before) && before->column == filter->column && before->kind == filter->kind)
		{
			before->joined = lappend(before->joined, filter);
			return true;
		}
	}
	return false;
}

static void
add_filter(RoseNodeQuals *quals, Node *clause, PlanState *planstate)
{
	RoseNodeFilter *filter = rose_node_filter_compile(clause, ((Scan *) planstate->plan)->scanrelid, planstate);
	int			at = quals->nfilters;
	bool		asks = at > 0 && quals->asked[at - 1] != NULL;

	if (filter == NULL)
		elog(ERROR, "condition of a Rose Scan cannot be a filter");
	rose_node_quals_column_add_all(quals, filter);
	asks |= computes(filter) || evaluates(filter);
	if (!asks && join(quals, filter))
		return;
	quals->filters[at] = filter;
	if (asks)
		quals->asked[at] = ExecInitQual(list_make1(clause), planstate);
	quals->nfilters++;
}

RoseNodeQuals *
rose_node_quals_create(List *clauses, PlanState *planstate)
{
	RoseNodeQuals *quals = palloc0(sizeof(RoseNodeQuals));
	ListCell   *cell;

	quals->econtext = planstate->ps_ExprContext;
	quals->context = AllocSetContextCreate(CurrentMemoryContext, "rose scan filters",
										   ALLOCSET_SMALL_SIZES);
	quals->columns = palloc(sizeof(RoseNodeQualsColumn));
	quals->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(Datum));
	quals->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	quals->rows = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
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
	rose_node_quals_column_forget(quals);
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
