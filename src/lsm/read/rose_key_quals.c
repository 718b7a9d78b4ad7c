/*-------------------------------------------------------------------------
 *
 * rose_key_quals.c
 *	  Scan keys of an index scan as key ranges and remaining conditions.
 *
 * Leading columns with an equality (col = x, col = ANY (array)) form the
 * prefix; the column behind it may bring a lower and an upper bound, from
 * comparisons or from a row comparison.  Arrays are sorted and freed of
 * duplicates, so that the ranges, one for each combination of elements, come in key
 * order and do not overlap.  What is not expressed by the ranges is checked
 * on each row.
 *
 * Bounds need values of the key column's type.  Those of another type are rounded to it
 * (rose_key_round.h): col >= v implies col >= round(v), and the condition stays as a check.
 * Where that is not possible it is a check only.
 *
 * An index column that may be NULL has its rank in the key before it (rose_index_def.h).  A
 * condition that no NULL meets fixes the rank, so that bounds are ends of ranges on both
 * sides; IS NULL fixes it too, and the value with it.  In a column that descends in the
 * key, a condition that bounds values from above is the lower end of ranges.
 *
 * Backend-local; no locks.  Reading the ranges is rose_index_scan.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/skey.h"
#include "access/stratnum.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "util/rose_index_def.h"
#include "lsm/read/rose_key_quals.h"
#include "lsm/read/rose_key_round.h"

/* A condition to be checked on each row. */
typedef struct RowCheck
{
	ScanKey		key;
	int			at;				/* key column */
	int			nelems;			/* = ANY (elems); -1: not an array */
	Datum	   *elems;
} RowCheck;

typedef struct PrefixColumn
{
	int			nvalues;
	Datum	   *values;			/* in the key's order, no duplicates; NULL: value alone */
	Datum		value;
} PrefixColumn;

/* One end of the ranges, behind the prefix. */
typedef struct RangeEnd
{
	int			ncols;			/* 0: unbounded */
	Datum		values[INDEX_MAX_KEYS];
	bool		inclusive;
} RangeEnd;

struct RoseKeyQuals
{
	const RoseSchema *schema;
	int			ncolumns;		/* of the index that are in the key */
	uint8		at[INDEX_MAX_KEYS]; /* key column of each */
	uint64		nranges;
	int			nprefix;
	PrefixColumn prefix[INDEX_MAX_KEYS];
	RangeEnd	lower;
	RangeEnd	upper;
	int			nchecks;
	RowCheck   *checks;
};

/* ---- building ---- */

typedef struct Builder
{
	RoseKeyQuals *quals;
	ScanKey		keys;
	int			nkeys;
	bool	   *used;			/* expressed by the ranges: needs no check */
	bool		impossible;		/* no row can match */
} Builder;

static int
compare_values(const Datum *a, const Datum *b, SortSupport ssup)
{
	return ApplySortComparator(*a, false, *b, false, ssup);
}

static int
compare_for_qsort(const void *a, const void *b, void *arg)
{
	return compare_values(a, b, arg);
}

/* In what follows, a column is one of the index, from 0. */
static const RoseKeyColumn *
key_column(const RoseKeyQuals *quals, int column)
{
	return &quals->schema->keys[quals->at[column]];
}

/* The key's order, which may be the other way round than that of the values. */
static SortSupport
column_order(const RoseKeyQuals *quals, int column)
{
	return unconstify(SortSupportData *, &key_column(quals, column)->ssup);
}

static bool
is_descending(const RoseKeyQuals *quals, int column)
{
	return (key_column(quals, column)->def.flags & ROSE_KEY_DESCENDING) != 0;
}

/* The next key column has this value in all ranges. */
static void
push_value(RoseKeyQuals *quals, Datum value)
{
	PrefixColumn *prefix = &quals->prefix[quals->nprefix++];

	prefix->nvalues = 1;
	prefix->value = value;
}

/* Rows in which the column is NULL, or is not, alone.  A column without rank never is. */
static void
push_rank(RoseKeyQuals *quals, int column, bool isnull)
{
	const RoseKeyColumn *key = key_column(quals, column);

	if (!key->nullable)
		return;
	Assert(quals->nprefix + 1 == quals->at[column]);
	push_value(quals, Int16GetDatum(rose_key_rank(isnull,
												  (key[-1].def.flags & ROSE_KEY_NULLS_FIRST) != 0)));
}

static int
array_elements(ScanKey key, Datum **elems, Oid *type)
{
	ArrayType  *array = DatumGetArrayTypeP(key->sk_argument);
	int16		len;
	bool		byval;
	char		align;
	bool	   *nulls;
	int			n;
	int			count = 0;

	*type = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(*type, &len, &byval, &align);
	deconstruct_array(array, *type, len, byval, align, elems, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			(*elems)[count++] = (*elems)[i];
	return count;
}

/* col = ANY (array) as a prefix column; false: only as a check. */
static bool
add_array_prefix(Builder *builder, int column, int index)
{
	RoseKeyQuals *quals = builder->quals;
	ScanKey		key = &builder->keys[index];
	PrefixColumn *prefix;
	SortSupport ssup = column_order(quals, column);
	Datum	   *elems;
	Oid			type;
	int			n = array_elements(key, &elems, &type);
	bool		exact = true;
	int			count = 0;

	if (OidIsValid(key->sk_subtype))
		type = key->sk_subtype;
	for (int i = 0; i < n; i++)
	{
		RoseRounding rounding = rose_round_value(key_column(quals, column), type, elems[i],
												 &elems[count]);

		if (rounding == ROSE_ROUND_IMPOSSIBLE)
			return false;
		if (rounding == ROSE_ROUND_NEAR)
			exact = false;
		if (rounding == ROSE_ROUND_EXACT || rounding == ROSE_ROUND_NEAR)
			count++;
	}
	if (count == 0)
		builder->impossible = true;
	qsort_arg(elems, count, sizeof(Datum), compare_for_qsort, ssup);
	push_rank(quals, column, false);
	prefix = &quals->prefix[quals->nprefix++];
	prefix->values = elems;
	prefix->nvalues = 0;
	for (int i = 0; i < count; i++)
		if (i == 0 || compare_values(&elems[prefix->nvalues - 1], &elems[i], ssup) != 0)
			elems[prefix->nvalues++] = elems[i];
	builder->used[index] = exact;
	return true;
}

/* col = value as a prefix column; false: only as a check. */
static bool
add_value_prefix(Builder *builder, int column, int index)
{
	RoseKeyQuals *quals = builder->quals;
	ScanKey		key = &builder->keys[index];
	Datum		value = 0;
	RoseRounding rounding = rose_round_value(key_column(quals, column), key->sk_subtype,
											 key->sk_argument, &value);

	if (rounding == ROSE_ROUND_IMPOSSIBLE)
		return false;
	if (rounding == ROSE_ROUND_BELOW || rounding == ROSE_ROUND_ABOVE)
		builder->impossible = true;
	push_rank(quals, column, false);
	push_value(quals, value);
	builder->used[index] = rounding == ROSE_ROUND_EXACT;
	return true;
}

static bool
is_on_column(const Builder *builder, int index, int column)
{
	const ScanKeyData *key = &builder->keys[index];

	return key->sk_attno == column + 1 && !builder->used[index];
}

/* col IS NULL. */
static bool
add_null_prefix(Builder *builder, int column)
{
	for (int i = 0; i < builder->nkeys; i++)
	{
		if (!is_on_column(builder, i, column) || !(builder->keys[i].sk_flags & SK_SEARCHNULL))
			continue;
		push_rank(builder->quals, column, true);
		push_value(builder->quals, (Datum) 0);
		builder->used[i] = true;
		return true;
	}
	return false;
}

/* Take the column into the prefix, if it has an equality. */
static bool
add_prefix(Builder *builder, int column)
{
	if (add_null_prefix(builder, column))
		return true;
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < builder->nkeys; i++)
		{
			ScanKey		key = &builder->keys[i];
			bool		array = (key->sk_flags & SK_SEARCHARRAY) != 0;

			if (!is_on_column(builder, i, column) ||
				(key->sk_flags & (SK_ROW_HEADER | SK_SEARCHNOTNULL)) ||
				key->sk_strategy != BTEqualStrategyNumber ||
				array != (pass == 1))
				continue;
			if (array ? add_array_prefix(builder, column, i)
				: add_value_prefix(builder, column, i))
				return true;
		}
	}
	return false;
}

/* Does the condition bound values from below? */
static bool
is_greater(StrategyNumber strategy)
{
	return strategy == BTGreaterStrategyNumber || strategy == BTGreaterEqualStrategyNumber;
}

/* Is it the lower end of ranges? */
static bool
is_lower(const Builder *builder, int column, StrategyNumber strategy)
{
	return is_greater(strategy) != is_descending(builder->quals, column);
}

static bool
is_inclusive(StrategyNumber strategy)
{
	return strategy == BTGreaterEqualStrategyNumber || strategy == BTLessEqualStrategyNumber;
}

/* Replace an end of the ranges if the new one is tighter in its first column. */
static void
tighten(Builder *builder, int column, bool lower, const RangeEnd *new_end)
{
	RangeEnd   *end = lower ? &builder->quals->lower : &builder->quals->upper;
	int			cmp;

	if (end->ncols == 0)
	{
		*end = *new_end;
		return;
	}
	cmp = compare_values(&new_end->values[0], &end->values[0],
						 column_order(builder->quals, column));
	if (!lower)
		cmp = -cmp;
	/*
	 * With equal first columns, one that leaves these out altogether is tightest, one
	 * that takes them all is loosest.  Of two that take some, either will do: row
	 * comparisons are checked on each row, too.
	 */
	if (cmp > 0 ||
		(cmp == 0 && ((new_end->ncols == 1 && !new_end->inclusive) ||
					  (end->ncols == 1 && end->inclusive))))
		*end = *new_end;
}

/* col < value and the like. */
static void
add_comparison(Builder *builder, int column, int index)
{
	ScanKey		key = &builder->keys[index];
	RangeEnd	end = {.ncols = 1};
	RoseRounding rounding = rose_round_value(key_column(builder->quals, column),
											 key->sk_subtype, key->sk_argument, &end.values[0]);

	switch (rounding)
	{
		case ROSE_ROUND_EXACT:
			end.inclusive = is_inclusive(key->sk_strategy);
			break;
		case ROSE_ROUND_NEAR:
			end.inclusive = true;
			break;
		case ROSE_ROUND_BELOW:
		case ROSE_ROUND_ABOVE:
			if (is_greater(key->sk_strategy) == (rounding == ROSE_ROUND_ABOVE))
				builder->impossible = true;
			builder->used[index] = true;	/* true of all values, or of none */
			return;
		case ROSE_ROUND_IMPOSSIBLE:
			return;
	}
	tighten(builder, column, is_lower(builder, column, key->sk_strategy), &end);
	builder->used[index] = rounding == ROSE_ROUND_EXACT;
}

/*
 * col < ANY (array) and the like: the element that lets most through says it
 * all.  Arrays of other types are left to the check.
 */
static void
add_array_comparison(Builder *builder, int column, int index)
{
	ScanKey		key = &builder->keys[index];
	const RoseKeyQuals *quals = builder->quals;
	bool		lower = is_lower(builder, column, key->sk_strategy);
	RangeEnd	end = {.ncols = 1, .inclusive = is_inclusive(key->sk_strategy)};
	Datum	   *elems;
	Oid			type;
	int			n = array_elements(key, &elems, &type);

	if (OidIsValid(key->sk_subtype) && key->sk_subtype != key_column(quals, column)->def.opcintype)
		return;
	if (n == 0)
	{
		builder->impossible = true;
		return;
	}
	end.values[0] = elems[0];
	for (int i = 1; i < n; i++)
	{
		int			cmp = compare_values(&elems[i], &end.values[0], column_order(quals, column));

		if (lower ? cmp < 0 : cmp > 0)
			end.values[0] = elems[i];
	}
	tighten(builder, column, lower, &end);
	builder->used[index] = true;
}

/* The next member of a row comparison as more of a range's end; false: it ends before. */
static bool
extend_end(const RoseKeyQuals *quals, int column, ScanKey member, RangeEnd *end)
{
	Datum	   *value;

	if (column >= quals->ncolumns || member->sk_attno != column + 1 ||
		(member->sk_flags & SK_ISNULL))
		return false;
	value = &end->values[end->ncols];
	if (end->ncols > 0 && key_column(quals, column)->nullable)
		*value++ = Int16GetDatum(rose_key_rank(false, false));
	if (rose_round_value(key_column(quals, column), member->sk_subtype, member->sk_argument,
						 value) != ROSE_ROUND_EXACT)
		return false;
	end->ncols = (int) (value + 1 - end->values);
	return true;
}

/*
 * (col, next col, ...) < (value, value, ...) and the like, as far as the columns
 * follow each other in the key, in one direction.  Always checked, too: NULLs of further
 * columns may be among the rows.
 */
static void
add_row_comparison(Builder *builder, int column, int index)
{
	RoseKeyQuals *quals = builder->quals;
	ScanKey		header = &builder->keys[index];
	ScanKey		member = (ScanKey) DatumGetPointer(header->sk_argument);
	RangeEnd	end = {0};

	end.inclusive = true;
	for (int at = column;; at++, member++)
	{
		if (at >= quals->ncolumns || is_descending(quals, at) != is_descending(quals, column) ||
			!extend_end(quals, at, member, &end))
			break;
		if (member->sk_flags & SK_ROW_END)
		{
			end.inclusive = is_inclusive(header->sk_strategy);
			break;
		}
	}
	if (end.ncols > 0)
		tighten(builder, column, is_lower(builder, column, header->sk_strategy), &end);
}

/* No condition but IS NULL is met by NULLs, which has been taken care of. */
static bool
excludes_nulls(const Builder *builder, int column)
{
	for (int i = 0; i < builder->nkeys; i++)
		if (is_on_column(builder, i, column))
			return true;
	return false;
}

/* Bounds on the column behind the prefix. */
static void
add_bounds(Builder *builder, int column)
{
	if (!excludes_nulls(builder, column))
		return;
	push_rank(builder->quals, column, false);
	for (int i = 0; i < builder->nkeys; i++)
	{
		ScanKey		key = &builder->keys[i];

		if (!is_on_column(builder, i, column))
			continue;
		if (key->sk_flags & SK_SEARCHNOTNULL)
		{
			builder->used[i] = true;
			continue;
		}
		if (key->sk_strategy == BTEqualStrategyNumber)
			continue;
		if (key->sk_flags & SK_SEARCHARRAY)
			add_array_comparison(builder, column, i);
		else if (key->sk_flags & SK_ROW_HEADER)
			add_row_comparison(builder, column, i);
		else
			add_comparison(builder, column, i);
	}
}

/* Comparing with a NULL is never true; and what is said of NULLs in columns that have none. */
static void
settle_nulls(Builder *builder)
{
	for (int i = 0; i < builder->nkeys; i++)
	{
		ScanKey		key = &builder->keys[i];
		bool		nullable = key_column(builder->quals, key->sk_attno - 1)->nullable;

		if (key->sk_flags & SK_ROW_HEADER)
		{
			ScanKey		first = (ScanKey) DatumGetPointer(key->sk_argument);

			if (first->sk_flags & SK_ISNULL)
				builder->impossible = true;
		}
		else if (key->sk_flags & SK_SEARCHNOTNULL)
			builder->used[i] = !nullable;
		else if (key->sk_flags & SK_SEARCHNULL)
			builder->impossible |= !nullable;
		else if (key->sk_flags & SK_ISNULL)
			builder->impossible = true;
	}
}

static void
add_checks(Builder *builder)
{
	RoseKeyQuals *quals = builder->quals;

	quals->checks = palloc(Max(1, builder->nkeys) * sizeof(RowCheck));
	for (int i = 0; i < builder->nkeys; i++)
	{
		RowCheck   *check = &quals->checks[quals->nchecks];
		Oid			type;

		if (builder->used[i])
			continue;
		check->key = &builder->keys[i];
		check->at = quals->at[builder->keys[i].sk_attno - 1];
		check->nelems = -1;
		if (builder->keys[i].sk_flags & SK_SEARCHARRAY)
			check->nelems = array_elements(check->key, &check->elems, &type);
		quals->nchecks++;
	}
}

/* Ranks are no columns of the index; the columns of the table's key behind those of the index are harmless. */
static void
find_columns(RoseKeyQuals *quals)
{
	for (int i = 0; i < quals->schema->nkeys; i++)
		if ((quals->schema->keys[i].def.flags & ROSE_KEY_RANK) == 0)
			quals->at[quals->ncolumns++] = (uint8) i;
}

RoseKeyQuals *
rose_key_quals_create(const RoseSchema *schema, ScanKey keys, int nkeys)
{
	RoseKeyQuals *quals = palloc0(sizeof(RoseKeyQuals));
	Builder		builder = {quals, keys, nkeys};
	int			column = 0;

	quals->schema = schema;
	find_columns(quals);
	builder.used = palloc0(Max(1, nkeys) * sizeof(bool));
	settle_nulls(&builder);
	if (builder.impossible)
		return quals;			/* no ranges */

	while (column < quals->ncolumns && add_prefix(&builder, column))
		column++;
	if (column < quals->ncolumns)
		add_bounds(&builder, column);
	if (builder.impossible)
		return quals;
	add_checks(&builder);

	quals->nranges = 1;
	for (int i = 0; i < quals->nprefix; i++)
		quals->nranges *= quals->prefix[i].nvalues;
	return quals;
}

/* ---- using ---- */

bool
rose_key_quals_name_keys(const RoseKeyQuals *quals)
{
	return quals->nprefix == quals->schema->nkeys;
}

uint64
rose_key_quals_nranges(const RoseKeyQuals *quals)
{
	return quals->nranges;
}

static void
append_end(const RangeEnd *end, int nprefix, int *ncols, Datum *values, bool *inclusive)
{
	memcpy(values + nprefix, end->values, end->ncols * sizeof(Datum));
	*ncols = nprefix + end->ncols;
	*inclusive = end->ncols > 0 ? end->inclusive : true;
}

/*
 * Whole keys have one, too: lookups do not need it, but not all whole keys are looked up (what ON CONFLICT asks
 * for is not, for it sees rows that are not committed).
 */
static void
set_hash(const RoseKeyQuals *quals, RoseKeyRange *range)
{
	const RoseSchema *schema = quals->schema;

	range->nhashed = 0;
	if (schema->hash_columns > 0 && quals->nprefix >= schema->hash_columns)
	{
		range->nhashed = schema->hash_columns;
		range->hash = rose_key_hash(schema, range->lower);
	}
}

void
rose_key_quals_range(const RoseKeyQuals *quals, uint64 i, RoseKeyRange *range)
{
	Assert(i < quals->nranges);
	for (int column = quals->nprefix - 1; column >= 0; column--)
	{
		const PrefixColumn *prefix = &quals->prefix[column];

		if (prefix->values == NULL)
		{
			range->lower[column] = range->upper[column] = prefix->value;
			continue;
		}
		range->lower[column] = range->upper[column] = prefix->values[i % prefix->nvalues];
		i /= prefix->nvalues;
	}
	append_end(&quals->lower, quals->nprefix, &range->nlower, range->lower,
			   &range->lower_inclusive);
	append_end(&quals->upper, quals->nprefix, &range->nupper, range->upper,
			   &range->upper_inclusive);
	set_hash(quals, range);
}

static bool
call_operator(ScanKey key, Datum value, Datum argument)
{
	return DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, argument));
}

/* The members' functions are three-way comparisons; the first difference decides. */
static bool
row_comparison_holds(const RoseKeyQuals *quals, ScanKey header, const Datum *key)
{
	ScanKey		member = (ScanKey) DatumGetPointer(header->sk_argument);
	int32		cmp;

	for (;; member++)
	{
		int			at = quals->at[member->sk_attno - 1];

		if ((member->sk_flags & SK_ISNULL) || rose_key_is_null(quals->schema, key, at))
			return false;
		cmp = DatumGetInt32(FunctionCall2Coll(&member->sk_func, member->sk_collation,
											  key[at], member->sk_argument));
		if (cmp != 0 || (member->sk_flags & SK_ROW_END))
			break;
	}
	switch (header->sk_strategy)
	{
		case BTLessStrategyNumber:
			return cmp < 0;
		case BTLessEqualStrategyNumber:
			return cmp <= 0;
		case BTGreaterEqualStrategyNumber:
			return cmp >= 0;
		case BTGreaterStrategyNumber:
			return cmp > 0;
		default:
			elog(ERROR, "unexpected strategy %d of a row comparison", header->sk_strategy);
	}
	return false;
}

static bool
check_holds(const RoseKeyQuals *quals, const RowCheck *check, const Datum *key)
{
	bool		isnull = rose_key_is_null(quals->schema, key, check->at);

	if (check->key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL))
		return isnull == ((check->key->sk_flags & SK_SEARCHNULL) != 0);
	if (isnull)
		return false;
	if (check->key->sk_flags & SK_ROW_HEADER)
		return row_comparison_holds(quals, check->key, key);
	if (check->nelems < 0)
		return call_operator(check->key, key[check->at], check->key->sk_argument);
	for (int i = 0; i < check->nelems; i++)
		if (call_operator(check->key, key[check->at], check->elems[i]))
			return true;
	return false;
}

bool
rose_key_quals_has_checks(const RoseKeyQuals *quals)
{
	return quals->nchecks > 0;
}

bool
rose_key_quals_match(const RoseKeyQuals *quals, const Datum *key)
{
	for (int i = 0; i < quals->nchecks; i++)
		if (!check_holds(quals, &quals->checks[i], key))
			return false;
	return true;
}
