/*-------------------------------------------------------------------------
 *
 * rose_node_first.c
 *	  Rows that may be among the first ones of a query that wants few.
 *
 * The query orders rows, and takes n of them (rose_node_first_plan.c).  A row that comes behind n others is none of these, whatever else rows are ordered by.
 * So it is left out, by its columns of the order alone: the others are not decoded.  What is given out is ordered and counted by core.
 *
 * Kept are what the columns of the n first rows so far have, in a heap, whose root is the last of them, the bound.  Rows equal to it are given out, since the
 * query may order by more than the columns here.  Of rows that are looked at together all are put into the heap before one is given out; so a table in the wrong order
 * costs n rows for each of these.  As long as fewer than n rows have come, nothing is left out.
 *
 * Order.  Integers, times, bool and floats are compared as words in which who comes first is smaller; equal values have equal words, so -0 has that of 0, and all NaNs one.
 * Other values are compared by their type's function for sorting, with the order's collation, which is what core's Sort would call.  A value by reference that stands where one
 * stood that was behind the bound (a dictionary's) is not compared again.
 *
 * What is asked of which rows.  Comparisons may call functions of users, so they come after all conditions.  Words are compared before
 * conditions that are checked many rows at a time, if those call functions: they cannot fail, and what they compare with was evaluated for the n rows that met them.
 * Who comes later in the scan may so be spared an error, not a row.
 *
 * The heap takes no more than work_mem; if that is too little, all rows are given out.  Memory is there as long as the scan has rows, for there may be many scans (partitions).
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sortsupport.h"
#include "utils/typcache.h"

#include "util/rose_mask.h"
#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_first.h"

/* Places of values that are remembered: a power of 2. */
#define MEMO_PLACES		256

typedef enum FirstKind
{
	FIRST_INTEGER,				/* words, as they are */
	FIRST_FLOAT4,				/* words, made of floats */
	FIRST_FLOAT8,
	FIRST_DATUM					/* Datums */
} FirstKind;

typedef struct FirstColumn
{
	AttrNumber	attno;
	FirstKind	kind;
	bool		descending;
	bool		nulls_first;
	int16		length;
	bool		by_value;
	Oid			operator;
	SortSupportData sort;		/* of Datums; set up before the first row */
	int64	   *values;			/* of the rows at hand, or more; NULL: no scan goes on */
	bool	   *nulls;
} FirstColumn;

typedef struct FirstValue
{
	int64		value;			/* word or Datum */
	bool		isnull;
} FirstValue;

struct RoseNodeFirst
{
	ExprState  *count;
	ExprState  *offset;			/* NULL: none */
	ExprContext *econtext;
	MemoryContext context;		/* of the heap */
	MemoryContext work;			/* reset for each call */
	int			limit;			/* n; 0: all rows are given out */
	int			n;				/* there are in the heap */
	FirstValue **heap;			/* each one value a column */
	int64		memo[MEMO_PLACES];
	int			ncolumns;
	FirstColumn columns[FLEXIBLE_ARRAY_MEMBER];
};

/* ---- begin ---- */

static FirstKind
kind_of(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case BOOLOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return FIRST_INTEGER;
		case FLOAT4OID:
			return FIRST_FLOAT4;
		case FLOAT8OID:
			return FIRST_FLOAT8;
		default:
			return FIRST_DATUM;
	}
}

static void
set_column(FirstColumn *column, const ListCell *from, TupleDesc desc)
{
	Oid			op = (Oid) lfirst_int(from + ROSE_FIRST_OPERATOR);
	const FormData_pg_attribute *attr;
	Oid			family;
	Oid			type;

	column->operator = op;
	column->attno = (AttrNumber) lfirst_int(from + ROSE_FIRST_ATTNO);
	attr = TupleDescAttr(desc, column->attno - 1);
	if (!rose_ordering_op(op, &family, &type, &column->descending))
		elog(ERROR, "operator %u is not a valid ordering operator", op);
	column->kind = FIRST_DATUM;
	if (attr->attbyval && family == lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf)
		column->kind = kind_of(type);
	column->nulls_first = lfirst_int(from + ROSE_FIRST_NULLS_FIRST) != 0;
	column->length = attr->attlen;
	column->by_value = attr->attbyval;
	column->sort.ssup_cxt = CurrentMemoryContext;
	column->sort.ssup_collation = (Oid) lfirst_int(from + ROSE_FIRST_COLLATION);
	column->sort.ssup_nulls_first = column->nulls_first;
}

RoseNodeFirst *
rose_node_first_create(List *columns, List *limit, ScanState *ss)
{
	int			ncolumns = list_length(columns) / ROSE_FIRST_PRIVATE;
	RoseNodeFirst *first = palloc0(offsetof(RoseNodeFirst, columns) + ncolumns * sizeof(FirstColumn));

	first->count = ExecInitExpr(linitial(limit), &ss->ps);
	if (lsecond(limit) != NULL)
		first->offset = ExecInitExpr(lsecond(limit), &ss->ps);
	first->econtext = ss->ps.ps_ExprContext;
	first->context = AllocSetContextCreate(CurrentMemoryContext, "rose first rows", ALLOCSET_DEFAULT_SIZES);
	first->work = AllocSetContextCreate(CurrentMemoryContext, "rose first rows' comparisons", ALLOCSET_SMALL_SIZES);
	first->ncolumns = ncolumns;
	for (int i = 0; i < ncolumns; i++)
		set_column(&first->columns[i], list_nth_cell(columns, i * ROSE_FIRST_PRIVATE),
				   RelationGetDescr(ss->ss_currentRelation));
	return first;
}

/* What core's node above has got; -1: no limit. */
static int64
number_of(RoseNodeFirst *first, ExprState *state, int64 otherwise)
{
	bool		isnull;
	Datum		value;

	if (state == NULL)
		return otherwise;
	value = ExecEvalExprSwitchContext(state, first->econtext, &isnull);
	return isnull ? otherwise : DatumGetInt64(value);
}

/* What is wrong with a collation core's Sort says at its first row, too.  Room is there as long as there are rows. */
static void
get_ready(FirstColumn *column)
{
	MemoryContext old = MemoryContextSwitchTo(column->sort.ssup_cxt);

	if (column->kind == FIRST_DATUM && column->sort.comparator == NULL)
		PrepareSortSupportFromOrderingOp(column->operator, &column->sort);
	column->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	column->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	MemoryContextSwitchTo(old);
}

void
rose_node_first_end(RoseNodeFirst *first)
{
	MemoryContextReset(first->context);
	first->n = first->limit = 0;
	for (int c = 0; c < first->ncolumns; c++)
	{
		FirstColumn *column = &first->columns[c];

		if (column->values == NULL)
			continue;
		pfree(column->values);
		pfree(column->nulls);
		column->values = NULL;
	}
}

void
rose_node_first_start(RoseNodeFirst *first)
{
	int64		count = number_of(first, first->count, -1);
	int64		offset = number_of(first, first->offset, 0);

	rose_node_first_end(first);
	/* core has refused negative ones */
	if (count > 0 && count <= ROSE_NODE_FIRST_MAX && offset >= 0 && offset <= ROSE_NODE_FIRST_MAX - count)
		first->limit = (int) (count + offset);
	if (first->limit == 0)
		return;
	first->heap = MemoryContextAlloc(first->context, first->limit * sizeof(FirstValue *));
	for (int c = 0; c < first->ncolumns; c++)
		get_ready(&first->columns[c]);
}

/* ---- columns ---- */

/* Words of values to words in which who comes first is smaller. */
static void
put_in_order(const FirstColumn *column, int64 *values, int n)
{
	if (column->kind == FIRST_FLOAT4)
		rose_vec_float4_words(values, n);
	else if (column->kind == FIRST_FLOAT8)
		rose_vec_float8_words(values, n);
	if (column->kind != FIRST_INTEGER)
	{
		/* -0 is equal to 0 */
		for (int i = 0; i < n; i++)
			values[i] = values[i] == -1 ? 0 : values[i];
	}
	if (column->descending)
	{
		for (int i = 0; i < n; i++)
			values[i] = ~values[i];
	}
}

/* One of each selected row. */
static void
load(FirstColumn *column, const RoseNodeRows *rows)
{
	bool		words = column->kind != FIRST_DATUM;

	(void) rose_node_column_words(rows, column->attno, words ? column->length : -1, column->values, column->nulls);
	if (words)
		put_in_order(column, column->values, rows->n);
}

/* ---- order ---- */

/* < 0: the left one comes first. */
static inline int
compare_values(FirstColumn *column, int64 left, bool left_null, int64 right, bool right_null)
{
	if (column->kind == FIRST_DATUM)
		return ApplySortComparator((Datum) left, left_null, (Datum) right, right_null, &column->sort);
	if (unlikely(left_null || right_null))
		return left_null == right_null ? 0 : left_null == column->nulls_first ? -1 : 1;
	return left < right ? -1 : left > right;
}

static int
compare_entries(RoseNodeFirst *first, const FirstValue *left, const FirstValue *right)
{
	int			order = 0;

	for (int c = 0; c < first->ncolumns && order == 0; c++)
		order = compare_values(&first->columns[c], left[c].value, left[c].isnull, right[c].value, right[c].isnull);
	return order;
}

/* The i-th of the rows at hand beside the bound. */
static int
compare_with_bound(RoseNodeFirst *first, int i)
{
	const FirstValue *bound = first->heap[0];
	int			order = 0;

	for (int c = 0; c < first->ncolumns && order == 0; c++)
	{
		FirstColumn *column = &first->columns[c];

		order = compare_values(column, column->values[i], column->nulls[i], bound[c].value, bound[c].isnull);
	}
	return order;
}

static inline bool
is_full(const RoseNodeFirst *first)
{
	return first->n == first->limit;
}

/* ---- the heap ---- */

static void
sift_up(RoseNodeFirst *first, int at)
{
	FirstValue *entry = first->heap[at];

	while (at > 0 && compare_entries(first, entry, first->heap[(at - 1) / 2]) > 0)
	{
		first->heap[at] = first->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	first->heap[at] = entry;
}

/* The root may be in the wrong place. */
static void
sift_down(RoseNodeFirst *first)
{
	FirstValue *entry = first->heap[0];
	int			at = 0;

	for (;;)
	{
		int			child = at * 2 + 1;

		if (child + 1 < first->n && compare_entries(first, first->heap[child + 1], first->heap[child]) > 0)
			child++;
		if (child >= first->n || compare_entries(first, first->heap[child], entry) <= 0)
			break;
		first->heap[at] = first->heap[child];
		at = child;
	}
	first->heap[at] = entry;
}

/* Is this an entry's own copy? */
static inline bool
is_copy(const FirstColumn *column, const FirstValue *value)
{
	return !column->by_value && !value->isnull;
}

static void
set_entry(RoseNodeFirst *first, FirstValue *entry, int i)
{
	MemoryContext old = MemoryContextSwitchTo(first->context);

	for (int c = 0; c < first->ncolumns; c++)
	{
		FirstColumn *column = &first->columns[c];

		entry[c].value = column->values[i];
		entry[c].isnull = column->nulls[i];
		if (is_copy(column, &entry[c]))
			entry[c].value = (int64) datumCopy((Datum) column->values[i], false, column->length);
	}
	MemoryContextSwitchTo(old);
}

static void
free_copies(RoseNodeFirst *first, FirstValue *entry)
{
	for (int c = 0; c < first->ncolumns; c++)
	{
		if (is_copy(&first->columns[c], &entry[c]))
			pfree(DatumGetPointer((Datum) entry[c].value));
	}
}

/* The i-th of the rows at hand is one. */
static void
put_row(RoseNodeFirst *first, int i)
{
	if (!is_full(first))
	{
		first->heap[first->n] = MemoryContextAlloc(first->context, first->ncolumns * sizeof(FirstValue));
		set_entry(first, first->heap[first->n], i);
		sift_up(first, first->n++);
	}
	else if (compare_with_bound(first, i) < 0)
	{
		free_copies(first, first->heap[0]);
		set_entry(first, first->heap[0], i);
		sift_down(first);
	}
}

/* ---- which rows are left ---- */

/* Is a value behind that of the bound, by the first column alone? */
static bool
is_behind(RoseNodeFirst *first, int i)
{
	FirstColumn *column = &first->columns[0];
	const FirstValue *bound = &first->heap[0][0];
	int64		value = column->values[i];
	int64	   *place = &first->memo[((uint64) value >> 3) % MEMO_PLACES];
	bool		memo = !column->by_value && !column->nulls[i];

	if (memo && *place == value)
		return true;
	if (compare_values(column, value, column->nulls[i], bound->value, bound->isnull) <= 0)
		return false;
	if (memo)
		*place = value;
	return true;
}

/* Keep those of the rows of which test is false; the columns before this one with them. */
static void
leave_out(RoseNodeFirst *first, RoseNodeRows *rows, int ncolumns, bool (*test) (RoseNodeFirst *first, int i))
{
	int			n = 0;

	for (int i = 0; i < rows->n; i++)
	{
		int			row = rose_node_rows_at(rows, i);

		if (test(first, i))
			continue;
		for (int c = 0; c < ncolumns; c++)
		{
			FirstColumn *column = &first->columns[c];

			column->values[n] = column->values[i];
			column->nulls[n] = column->nulls[i];
		}
		rows->rows[n++] = (uint16) row; /* not behind the one that was looked at */
	}
	rows->all = rows->all && n == rows->n;
	rows->n = n;
}

static bool
is_behind_all(RoseNodeFirst *first, int i)
{
	return compare_with_bound(first, i) > 0;
}

void
rose_node_first_keep(RoseNodeFirst *first, RoseNodeRows *rows)
{
	MemoryContext old;

	if (first->limit == 0 || rows->n == 0)
		return;
	old = MemoryContextSwitchTo(first->work);
	load(&first->columns[0], rows);
	memset(first->memo, 0, sizeof(first->memo));	/* other values stand there */
	if (is_full(first))
		leave_out(first, rows, 1, is_behind);
	for (int c = 1; c < first->ncolumns && rows->n > 0; c++)
		load(&first->columns[c], rows);
	for (int i = 0; i < rows->n; i++)
		put_row(first, i);
	if (is_full(first))
		leave_out(first, rows, 0, is_behind_all);
	MemoryContextSwitchTo(old);
	MemoryContextReset(first->work);
	if (MemoryContextMemAllocated(first->context, false) > work_mem * (Size) 1024)
		rose_node_first_end(first);
}

/* ---- before conditions ---- */

/* Which of the words, as they are ordered, are not behind the bound? */
static void
select_words(RoseNodeFirst *first, int n, uint64 *mask)
{
	FirstColumn *column = &first->columns[0];
	const FirstValue *bound = &first->heap[0][0];
	RoseWordRange range = {PG_INT64_MIN, bound->value};
	RoseWordSet set = {bound->isnull && column->nulls_first ? 0 : 1, &range};
	uint64		nulls[ROSE_MASK_WORDS(ROSE_NODE_VECTOR_ROWS)];

	if (bound->isnull)
		range.high = PG_INT64_MAX;
	rose_vec_select(column->values, n, &set, mask);
	rose_vec_mask_of_bools(column->nulls, n, nulls);
	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
	{
		if (column->nulls_first || bound->isnull)
			mask[w] |= nulls[w];
		else
			mask[w] &= ~nulls[w];
	}
}

int
rose_node_first_screen(RoseNodeFirst *first, RoseBatch *batch, int from, int n, uint64 *mask)
{
	FirstColumn *column = &first->columns[0];
	uint64		left[ROSE_MASK_WORDS(ROSE_NODE_VECTOR_ROWS)];
	int			before = rose_mask_count(mask, n);

	if (first->limit == 0 || !is_full(first) || column->kind == FIRST_DATUM)
		return 0;
	(void) rose_batch_words(batch, column->attno, from, n, column->values, column->nulls);
	put_in_order(column, column->values, n);
	select_words(first, n, left);
	for (int w = 0; w < ROSE_MASK_WORDS(n); w++)
		mask[w] &= left[w];
	return before - rose_mask_count(mask, n);
}
