/*-------------------------------------------------------------------------
 *
 * rose_index_quals.c
 *	  Scan keys of an index scan as key ranges and remaining conditions.
 *
 * Leading columns with an equality (col = x, col = ANY (array)) form the
 * prefix; the column behind it may bring a lower and an upper bound, from
 * comparisons or from a row comparison.  Arrays are sorted and freed of
 * duplicates, so that the ranges, one for each combination of elements, come in key
 * order and do not overlap.  What is not expressed by the ranges is checked
 * on each row.
 *
 * Bounds need values of the key column's type.  An operator of another right-hand type
 * (an int4 column compared with an int8) is used if the value can be rounded to the
 * column's type by a monotone function that leaves representable values alone: then col
 * >= v implies col >= round(v), and the condition stays as a check.  Otherwise it is a
 * check only.  Key columns are never NULL.
 *
 * Backend-local; no locks.  Reading the ranges is rose_index_scan.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/skey.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "indexam/rose_indexam.h"

/* A condition to be checked on each row. */
typedef struct RowCheck
{
	ScanKey		key;
	int			column;			/* key column */
	int			nelems;			/* = ANY (elems); -1: not an array */
	Datum	   *elems;
} RowCheck;

typedef struct PrefixColumn
{
	int			nvalues;
	Datum	   *values;			/* ascending, no duplicates */
} PrefixColumn;

/* One end of the ranges, behind the prefix. */
typedef struct RangeEnd
{
	int			ncols;			/* 0: unbounded */
	Datum		values[INDEX_MAX_KEYS];
	bool		inclusive;
} RangeEnd;

struct RoseIndexQuals
{
	const RoseSchema *schema;
	uint64		nranges;
	int			nprefix;
	PrefixColumn prefix[INDEX_MAX_KEYS];
	RangeEnd	lower;
	RangeEnd	upper;
	int			nchecks;
	RowCheck   *checks;
};

/* ---- values of other types ---- */

typedef enum Rounding
{
	ROUND_EXACT,				/* the same value in the column's type */
	ROUND_NEAR,					/* a neighbour; the condition must be checked too */
	ROUND_BELOW,				/* less than every value of the column's type */
	ROUND_ABOVE,				/* greater than every value */
	ROUND_IMPOSSIBLE			/* unknown combination of types */
} Rounding;

static bool
get_integer(Oid type, Datum value, int64 *result)
{
	switch (type)
	{
		case INT2OID:
			*result = DatumGetInt16(value);
			return true;
		case INT4OID:
			*result = DatumGetInt32(value);
			return true;
		case INT8OID:
			*result = DatumGetInt64(value);
			return true;
		default:
			return false;
	}
}

static Rounding
round_integer(Oid type, int64 value, Datum *result)
{
	int64		min = type == INT2OID ? PG_INT16_MIN : type == INT4OID ? PG_INT32_MIN : PG_INT64_MIN;
	int64		max = type == INT2OID ? PG_INT16_MAX : type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;

	if (value < min)
		return ROUND_BELOW;
	if (value > max)
		return ROUND_ABOVE;
	switch (type)
	{
		case INT2OID:
			*result = Int16GetDatum((int16) value);
			return ROUND_EXACT;
		case INT4OID:
			*result = Int32GetDatum((int32) value);
			return ROUND_EXACT;
		case INT8OID:
			*result = Int64GetDatum(value);
			return ROUND_EXACT;
		default:
			return ROUND_IMPOSSIBLE;
	}
}

static Rounding
round_to_float4(float8 value, Datum *result)
{
	float4		rounded;

	if (!isnan(value) && !isinf(value) && fabs(value) > FLT_MAX)
		rounded = value > 0 ? get_float4_infinity() : -get_float4_infinity();
	else
		rounded = (float4) value;
	*result = Float4GetDatum(rounded);
	return isnan(value) || (float8) rounded == value ? ROUND_EXACT : ROUND_NEAR;
}

/*
 * Operators between these types convert the earlier one in the same way before
 * they compare.  Values out of the column's range are left to them.
 */
static Rounding
round_to_timestamp(Oid type, Oid subtype, Datum value, Datum *result)
{
	int			overflow = 0;

	if (type == TIMESTAMPOID && subtype == DATEOID)
		*result = TimestampGetDatum(date2timestamp_opt_overflow(DatumGetDateADT(value),
																&overflow));
	else if (type == TIMESTAMPTZOID && subtype == DATEOID)
		*result = TimestampTzGetDatum(date2timestamptz_opt_overflow(DatumGetDateADT(value),
																	&overflow));
	else if (type == TIMESTAMPTZOID && subtype == TIMESTAMPOID)
		*result = TimestampTzGetDatum(timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value),
																		 &overflow));
	else
		return ROUND_IMPOSSIBLE;
	return overflow == 0 ? ROUND_EXACT : ROUND_IMPOSSIBLE;
}

/* subtype: of the value; InvalidOid = the column's. */
static Rounding
round_value(const RoseKeyColumn *column, Oid subtype, Datum value, Datum *result)
{
	Oid			type = column->def.opcintype;
	int64		integer;

	if (!OidIsValid(subtype) || subtype == type)
	{
		*result = value;
		return ROUND_EXACT;
	}
	if (get_integer(subtype, value, &integer))
		return round_integer(type, integer, result);
	if (type == FLOAT8OID && subtype == FLOAT4OID)
	{
		*result = Float8GetDatum((float8) DatumGetFloat4(value));
		return ROUND_EXACT;
	}
	if (type == FLOAT4OID && subtype == FLOAT8OID)
		return round_to_float4(DatumGetFloat8(value), result);
	return round_to_timestamp(type, subtype, value, result);
}

/* ---- building ---- */

typedef struct Builder
{
	RoseIndexQuals *quals;
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

static SortSupport
column_order(const RoseSchema *schema, int column)
{
	return (SortSupport) &schema->keys[column].ssup;
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
	RoseIndexQuals *quals = builder->quals;
	ScanKey		key = &builder->keys[index];
	PrefixColumn *prefix = &quals->prefix[quals->nprefix];
	SortSupport ssup = column_order(quals->schema, column);
	Datum	   *elems;
	Oid			type;
	int			n = array_elements(key, &elems, &type);
	bool		exact = true;
	int			count = 0;

	if (OidIsValid(key->sk_subtype))
		type = key->sk_subtype;
	for (int i = 0; i < n; i++)
	{
		Rounding	rounding = round_value(&quals->schema->keys[column], type, elems[i],
										   &elems[count]);

		if (rounding == ROUND_IMPOSSIBLE)
			return false;
		if (rounding == ROUND_NEAR)
			exact = false;
		if (rounding == ROUND_EXACT || rounding == ROUND_NEAR)
			count++;
	}
	if (count == 0)
		builder->impossible = true;
	qsort_arg(elems, count, sizeof(Datum), compare_for_qsort, ssup);
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
	RoseIndexQuals *quals = builder->quals;
	ScanKey		key = &builder->keys[index];
	PrefixColumn *prefix = &quals->prefix[quals->nprefix];
	Datum	   *value = palloc(sizeof(Datum));
	Rounding	rounding = round_value(&quals->schema->keys[column], key->sk_subtype,
									   key->sk_argument, value);

	if (rounding == ROUND_IMPOSSIBLE)
		return false;
	if (rounding == ROUND_BELOW || rounding == ROUND_ABOVE)
		builder->impossible = true;
	prefix->nvalues = 1;
	prefix->values = value;
	builder->used[index] = rounding == ROUND_EXACT;
	return true;
}

static bool
is_on_column(const Builder *builder, int index, int column)
{
	const ScanKeyData *key = &builder->keys[index];

	return key->sk_attno == column + 1 && !builder->used[index];
}

/* Take the column into the prefix, if it has an equality. */
static bool
add_prefix(Builder *builder, int column)
{
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < builder->nkeys; i++)
		{
			ScanKey		key = &builder->keys[i];
			bool		array = (key->sk_flags & SK_SEARCHARRAY) != 0;

			if (!is_on_column(builder, i, column) ||
				(key->sk_flags & SK_ROW_HEADER) ||
				key->sk_strategy != BTEqualStrategyNumber ||
				array != (pass == 1))
				continue;
			if (array ? add_array_prefix(builder, column, i)
				: add_value_prefix(builder, column, i))
			{
				builder->quals->nprefix++;
				return true;
			}
		}
	}
	return false;
}

static bool
is_lower(StrategyNumber strategy)
{
	return strategy == BTGreaterStrategyNumber || strategy == BTGreaterEqualStrategyNumber;
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
						 column_order(builder->quals->schema, column));
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
	bool		lower = is_lower(key->sk_strategy);
	RangeEnd	end = {.ncols = 1};
	Rounding	rounding = round_value(&builder->quals->schema->keys[column],
									   key->sk_subtype, key->sk_argument, &end.values[0]);

	switch (rounding)
	{
		case ROUND_EXACT:
			end.inclusive = is_inclusive(key->sk_strategy);
			break;
		case ROUND_NEAR:
			end.inclusive = true;
			break;
		case ROUND_BELOW:
		case ROUND_ABOVE:
			if (lower == (rounding == ROUND_ABOVE))
				builder->impossible = true;
			builder->used[index] = true;	/* true of all rows, or of none */
			return;
		case ROUND_IMPOSSIBLE:
			return;
	}
	tighten(builder, column, lower, &end);
	builder->used[index] = rounding == ROUND_EXACT;
}

/*
 * col < ANY (array) and the like: the element that lets most through says it
 * all.  Arrays of other types are left to the check.
 */
static void
add_array_comparison(Builder *builder, int column, int index)
{
	ScanKey		key = &builder->keys[index];
	const RoseSchema *schema = builder->quals->schema;
	bool		lower = is_lower(key->sk_strategy);
	RangeEnd	end = {.ncols = 1, .inclusive = is_inclusive(key->sk_strategy)};
	Datum	   *elems;
	Oid			type;
	int			n = array_elements(key, &elems, &type);

	if (OidIsValid(key->sk_subtype) && key->sk_subtype != schema->keys[column].def.opcintype)
		return;
	if (n == 0)
	{
		builder->impossible = true;
		return;
	}
	end.values[0] = elems[0];
	for (int i = 1; i < n; i++)
	{
		int			cmp = compare_values(&elems[i], &end.values[0], column_order(schema, column));

		if (lower ? cmp < 0 : cmp > 0)
			end.values[0] = elems[i];
	}
	tighten(builder, column, lower, &end);
	builder->used[index] = true;
}

/*
 * (col, next col, ...) < (value, value, ...) and the like, as far as the columns
 * follow each other in the key.  Always checked, too.
 */
static void
add_row_comparison(Builder *builder, int column, int index)
{
	ScanKey		header = &builder->keys[index];
	ScanKey		member = (ScanKey) DatumGetPointer(header->sk_argument);
	RangeEnd	end = {0};

	for (;; member++)
	{
		int			at = column + end.ncols;

		if (member->sk_attno != at + 1 || (member->sk_flags & SK_ISNULL) ||
			round_value(&builder->quals->schema->keys[at], member->sk_subtype,
						member->sk_argument, &end.values[end.ncols]) != ROUND_EXACT)
		{
			end.inclusive = true;
			break;
		}
		end.ncols++;
		if (member->sk_flags & SK_ROW_END)
		{
			end.inclusive = is_inclusive(header->sk_strategy);
			break;
		}
		if (at + 1 >= builder->quals->schema->nkeys)
		{
			end.inclusive = true;
			break;
		}
	}
	if (end.ncols > 0)
		tighten(builder, column, is_lower(header->sk_strategy), &end);
}

/* Bounds on the column behind the prefix. */
static void
add_bounds(Builder *builder, int column)
{
	for (int i = 0; i < builder->nkeys; i++)
	{
		ScanKey		key = &builder->keys[i];

		if (!is_on_column(builder, i, column) ||
			key->sk_strategy == BTEqualStrategyNumber)
			continue;
		if (key->sk_flags & SK_SEARCHARRAY)
			add_array_comparison(builder, column, i);
		else if (key->sk_flags & SK_ROW_HEADER)
			add_row_comparison(builder, column, i);
		else
			add_comparison(builder, column, i);
	}
}

/* NULLs: no row has one in its key, and comparing with one is never true. */
static void
settle_nulls(Builder *builder)
{
	for (int i = 0; i < builder->nkeys; i++)
	{
		ScanKey		key = &builder->keys[i];

		if (key->sk_flags & SK_ROW_HEADER)
		{
			ScanKey		first = (ScanKey) DatumGetPointer(key->sk_argument);

			if (first->sk_flags & SK_ISNULL)
				builder->impossible = true;
		}
		else if (key->sk_flags & SK_SEARCHNOTNULL)
			builder->used[i] = true;
		else if (key->sk_flags & (SK_SEARCHNULL | SK_ISNULL))
			builder->impossible = true;
	}
}

static void
add_checks(Builder *builder)
{
	RoseIndexQuals *quals = builder->quals;

	quals->checks = palloc(Max(1, builder->nkeys) * sizeof(RowCheck));
	for (int i = 0; i < builder->nkeys; i++)
	{
		RowCheck   *check = &quals->checks[quals->nchecks];
		Oid			type;

		if (builder->used[i])
			continue;
		check->key = &builder->keys[i];
		check->column = builder->keys[i].sk_attno - 1;
		check->nelems = -1;
		if (builder->keys[i].sk_flags & SK_SEARCHARRAY)
			check->nelems = array_elements(check->key, &check->elems, &type);
		quals->nchecks++;
	}
}

RoseIndexQuals *
rose_index_quals_create(const RoseSchema *schema, ScanKey keys, int nkeys)
{
	RoseIndexQuals *quals = palloc0(sizeof(RoseIndexQuals));
	Builder		builder = {quals, keys, nkeys};
	int			column = 0;

	quals->schema = schema;
	builder.used = palloc0(Max(1, nkeys) * sizeof(bool));
	settle_nulls(&builder);
	if (builder.impossible)
		return quals;			/* no ranges */

	while (column < schema->nkeys && add_prefix(&builder, column))
		column++;
	if (column < schema->nkeys)
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
rose_index_quals_name_keys(const RoseIndexQuals *quals)
{
	return quals->nprefix == quals->schema->nkeys;
}

uint64
rose_index_quals_nranges(const RoseIndexQuals *quals)
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

void
rose_index_quals_range(const RoseIndexQuals *quals, uint64 i, RoseKeyRange *range)
{
	Assert(i < quals->nranges);
	for (int column = quals->nprefix - 1; column >= 0; column--)
	{
		const PrefixColumn *prefix = &quals->prefix[column];

		range->lower[column] = range->upper[column] = prefix->values[i % prefix->nvalues];
		i /= prefix->nvalues;
	}
	append_end(&quals->lower, quals->nprefix, &range->nlower, range->lower,
			   &range->lower_inclusive);
	append_end(&quals->upper, quals->nprefix, &range->nupper, range->upper,
			   &range->upper_inclusive);
}

static bool
call_operator(ScanKey key, Datum value, Datum argument)
{
	return DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, argument));
}

/* The members' functions are three-way comparisons; the first difference decides. */
static bool
row_comparison_holds(ScanKey header, const Datum *key)
{
	ScanKey		member = (ScanKey) DatumGetPointer(header->sk_argument);
	int32		cmp;

	for (;; member++)
	{
		if (member->sk_flags & SK_ISNULL)
			return false;
		cmp = DatumGetInt32(FunctionCall2Coll(&member->sk_func, member->sk_collation,
											  key[member->sk_attno - 1],
											  member->sk_argument));
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
check_holds(const RowCheck *check, const Datum *key)
{
	if (check->key->sk_flags & SK_ROW_HEADER)
		return row_comparison_holds(check->key, key);
	if (check->nelems < 0)
		return call_operator(check->key, key[check->column], check->key->sk_argument);
	for (int i = 0; i < check->nelems; i++)
		if (call_operator(check->key, key[check->column], check->elems[i]))
			return true;
	return false;
}

bool
rose_index_quals_match(const RoseIndexQuals *quals, const Datum *key)
{
	for (int i = 0; i < quals->nchecks; i++)
		if (!check_holds(&quals->checks[i], key))
			return false;
	return true;
}
