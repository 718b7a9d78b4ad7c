/*-------------------------------------------------------------------------
 *
 * server_unit_quals.c
 *	  Conditions on an index as key ranges, held against asking each row.
 *
 *	test_index_quals(index, rounds, seed)
 *		Random conditions with values that are in the table: comparisons, also with other
 *		types, = ANY and < ANY, IS NULL and IS NOT NULL, row comparisons, NULL arguments.
 *		What is in the ranges and passes what is left to be checked must be the rows that
 *		meet the conditions, in the tree's order, each once.  Returns how many rows that
 *		were; raises an error with what is wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/skey.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "lsm/read/rose_key_quals.h"

#include "server_unit.h"

#define MAX_CONDITIONS	4
#define MAX_MEMBERS		4
#define MAX_ELEMENTS	5

static int
below(int n)
{
	return (int) (pg_prng_uint64(&pg_global_prng_state) % n);
}

/* ---- making conditions ---- */

/* The value of an index column (from 0) in some row of the table. */
static Datum
some_value(const Tester *tester, int column, bool *isnull)
{
	const Row  *row = &tester->rows[below(tester->nrows)];
	int			attno = tester->index->rd_index->indkey.values[column];

	*isnull = row->nulls[attno - 1];
	return row->values[attno - 1];
}

static Oid
column_type(const Tester *tester, int column)
{
	int			attno = tester->index->rd_index->indkey.values[column];

	return TupleDescAttr(RelationGetDescr(tester->heap), attno - 1)->atttypid;
}

/* A value of another type that can be compared with the column's; InvalidOid: none comes to mind. */
static Oid
other_type(const Tester *tester, int column, Datum *value)
{
	switch (tester->index->rd_opcintype[column])
	{
		case INT2OID:
		case INT4OID:
			*value = Int64GetDatum((int64) (below(20) - 8) << (below(4) == 0 ? 30 : 0));
			return INT8OID;
		case INT8OID:
			*value = Int32GetDatum(below(20) - 8);
			return INT4OID;
		case FLOAT4OID:
			*value = Float8GetDatum((below(20) - 8) / 3.0);
			return FLOAT8OID;
		case FLOAT8OID:
			*value = Float4GetDatum((float4) ((below(20) - 8) / 3.0));
			return FLOAT4OID;
		case TIMESTAMPTZOID:
			*value = DateADTGetDatum(7300 + below(12));
			return DATEOID;
		case DATEOID:
			*value = TimestampGetDatum((int64) (below(12) - 4) * USECS_PER_DAY + below(2));
			return TIMESTAMPOID;
		default:
			return InvalidOid;
	}
}

/* An argument and its type, that of the operator's right side. */
static Datum
argument(const Tester *tester, int column, Oid *subtype, int *flags)
{
	Datum		value = 0;
	bool		isnull;

	*subtype = below(4) == 0 ? other_type(tester, column, &value) : InvalidOid;
	if (OidIsValid(*subtype))
		return value;
	*subtype = tester->index->rd_opcintype[column];
	value = some_value(tester, column, &isnull);
	if (isnull)
		*flags |= SK_ISNULL;
	return value;
}

/* The function of an operator, or the three-way comparison if strategy is 0. */
static Oid
function_for(const Tester *tester, int column, Oid subtype, int strategy)
{
	Oid			opfamily = tester->index->rd_opfamily[column];
	Oid			type = tester->index->rd_opcintype[column];

	if (strategy == 0)
		return get_opfamily_proc(opfamily, type, subtype, BTORDER_PROC);
	return get_opcode(get_opfamily_member(opfamily, type, subtype, strategy));
}

static void
set_key(const Tester *tester, ScanKey key, int flags, int column, int strategy, Oid subtype,
		Oid function, Datum value)
{
	ScanKeyEntryInitialize(key, flags, column + 1, strategy, subtype,
						   tester->index->rd_indcollation[column], function, value);
}

static void
make_array(const Tester *tester, ScanKey key, int column)
{
	Oid			type = column_type(tester, column);
	Oid			subtype = tester->index->rd_opcintype[column];
	int			n = below(MAX_ELEMENTS + 1);
	int			strategy = below(2) == 0 ? BTEqualStrategyNumber : 1 + below(5);
	Datum		values[MAX_ELEMENTS];
	bool		nulls[MAX_ELEMENTS];
	int			dims[1] = {n};
	int			bounds[1] = {1};
	int16		len;
	bool		byval;
	char		align;
	ArrayType  *array;

	get_typlenbyvalalign(type, &len, &byval, &align);
	for (int i = 0; i < n; i++)
		values[i] = some_value(tester, column, &nulls[i]);
	array = n == 0 ? construct_empty_array(type) :
		construct_md_array(values, nulls, 1, dims, bounds, type, len, byval, align);
	set_key(tester, key, SK_SEARCHARRAY, column, strategy, subtype,
			function_for(tester, column, subtype, strategy), PointerGetDatum(array));
}

/* (column, others ...) < (values): the others are any columns, mostly those behind it. */
static void
make_row_comparison(const Tester *tester, ScanKey key, int column)
{
	static const int strategies[] = {BTLessStrategyNumber, BTLessEqualStrategyNumber,
	BTGreaterEqualStrategyNumber, BTGreaterStrategyNumber};
	int			strategy = strategies[below(4)];
	int			ncolumns = IndexRelationGetNumberOfKeyAttributes(tester->index);
	int			n = 2 + below(MAX_MEMBERS - 1);
	ScanKey		members = palloc(n * sizeof(ScanKeyData));
	int			at = column;

	for (int i = 0; i < n; i++)
	{
		int			flags = SK_ROW_MEMBER | (i == n - 1 ? SK_ROW_END : 0);
		Oid			subtype;
		Datum		value = argument(tester, at, &subtype, &flags);

		set_key(tester, &members[i], flags, at, strategy, subtype,
				function_for(tester, at, subtype, 0), value);
		at = below(4) == 0 ? below(ncolumns) : (at + 1) % ncolumns;
	}
	MemSet(key, 0, sizeof(ScanKeyData));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = column + 1;
	key->sk_strategy = strategy;
	key->sk_argument = PointerGetDatum(members);
}

static void
make_condition(const Tester *tester, ScanKey key, int column)
{
	Oid			type = column_type(tester, column);
	int			strategy = below(2) == 0 ? BTEqualStrategyNumber : 1 + below(5);
	int			flags = 0;
	Oid			subtype;
	Datum		value;

	switch (below(10))
	{
		case 0:
			set_key(tester, key, SK_ISNULL | SK_SEARCHNULL, column, InvalidStrategy, InvalidOid,
					InvalidOid, (Datum) 0);
			return;
		case 1:
			set_key(tester, key, SK_ISNULL | SK_SEARCHNOTNULL, column, InvalidStrategy,
					InvalidOid, InvalidOid, (Datum) 0);
			return;
		case 2:
		case 3:
			make_row_comparison(tester, key, column);
			return;
		case 4:
		case 5:
			if (!OidIsValid(get_element_type(type)))
			{
				make_array(tester, key, column);
				return;
			}
			break;
	}
	value = argument(tester, column, &subtype, &flags);
	set_key(tester, key, flags, column, strategy, subtype,
			function_for(tester, column, subtype, strategy), value);
}

/* Ascending by column, as the executor brings them; returns how many. */
static int
make_conditions(const Tester *tester, ScanKey keys)
{
	int			ncolumns = IndexRelationGetNumberOfKeyAttributes(tester->index);
	int			n = 0;

	for (int column = 0; column < ncolumns; column++)
		while (n < MAX_CONDITIONS && below(3) > 0)
			make_condition(tester, &keys[n++], column);
	return n;
}

/* ---- asking each row ---- */

static bool
call(const Tester *tester, ScanKey key, const Row *row, Datum value, Datum *result)
{
	int			attno = tester->index->rd_index->indkey.values[key->sk_attno - 1];

	if (row->nulls[attno - 1] || (key->sk_flags & SK_ISNULL))
		return false;
	*result = FunctionCall2Coll(&key->sk_func, key->sk_collation, row->values[attno - 1], value);
	return true;
}

static bool
meets_array(const Tester *tester, ScanKey key, const Row *row)
{
	ArrayIterator iterator = array_create_iterator(DatumGetArrayTypeP(key->sk_argument), 0, NULL);
	Datum		value;
	Datum		result;
	bool		isnull;

	while (array_iterate(iterator, &value, &isnull))
		if (!isnull && call(tester, key, row, value, &result) && DatumGetBool(result))
			return true;
	return false;
}

static bool
meets_row_comparison(const Tester *tester, ScanKey header, const Row *row)
{
	ScanKey		member = (ScanKey) DatumGetPointer(header->sk_argument);
	Datum		result;
	int			cmp;

	do
	{
		if (!call(tester, member, row, member->sk_argument, &result))
			return false;
		cmp = DatumGetInt32(result);
	} while (cmp == 0 && (member++->sk_flags & SK_ROW_END) == 0);
	return header->sk_strategy == BTLessStrategyNumber ? cmp < 0 :
		header->sk_strategy == BTLessEqualStrategyNumber ? cmp <= 0 :
		header->sk_strategy == BTGreaterStrategyNumber ? cmp > 0 : cmp >= 0;
}

static bool
meets(const Tester *tester, ScanKey key, const Row *row)
{
	int			attno = tester->index->rd_index->indkey.values[key->sk_attno - 1];
	Datum		result;

	if (key->sk_flags & SK_SEARCHNULL)
		return row->nulls[attno - 1];
	if (key->sk_flags & SK_SEARCHNOTNULL)
		return !row->nulls[attno - 1];
	if (key->sk_flags & SK_ROW_HEADER)
		return meets_row_comparison(tester, key, row);
	if (key->sk_flags & SK_SEARCHARRAY)
		return meets_array(tester, key, row);
	return call(tester, key, row, key->sk_argument, &result) && DatumGetBool(result);
}

/* ---- and the ranges ---- */

static bool
in_range(const Tester *tester, const RoseKeyRange *range, const Row *row)
{
	int			lower = rose_key_compare(tester->schema, row->key, range->lower, range->nlower);
	int			upper = rose_key_compare(tester->schema, row->key, range->upper, range->nupper);

	return (lower > 0 || (lower == 0 && range->lower_inclusive)) &&
		(upper < 0 || (upper == 0 && range->upper_inclusive));
}

/* One plain condition on the first column: no row is read in vain. */
static bool
is_tight(const Tester *tester, ScanKey keys, int nkeys)
{
	return nkeys == 1 && keys[0].sk_attno == 1 && (keys[0].sk_flags & SK_ROW_HEADER) == 0 &&
		(!OidIsValid(keys[0].sk_subtype) ||
		 keys[0].sk_subtype == tester->index->rd_opcintype[0]);
}

static void
check_conditions(Tester *tester, ScanKey keys, int nkeys, int round)
{
	RoseKeyQuals *quals = rose_key_quals_create(tester->schema, keys, nkeys);
	int			at = 0;			/* in the sorted rows: all before are as they should be */
	int			nread = 0;
	int			nfound = 0;

	for (uint64 r = 0; r < rose_key_quals_nranges(quals); r++)
	{
		RoseKeyRange range;

		rose_key_quals_range(quals, r, &range);
		for (int i = 0; i < tester->nrows; i++)
		{
			const Row  *row = tester->sorted[i];

			if (!in_range(tester, &range, row))
				continue;
			nread++;
			if (!rose_key_quals_match(quals, row->key))
				continue;
			nfound++;
			CHECK(i >= at, "round %d: row %d comes late or twice", NAME(tester), round, i);
			for (; at <= i; at++)
			{
				bool		wanted = true;

				for (int k = 0; k < nkeys; k++)
					wanted = wanted && meets(tester, &keys[k], tester->sorted[at]);
				CHECK(wanted == (at == i), "round %d: row %d is %s", NAME(tester), round, at,
					  wanted ? "missing" : "not wanted");
			}
		}
	}
	for (; at < tester->nrows; at++)
	{
		bool		wanted = true;

		for (int k = 0; k < nkeys; k++)
			wanted = wanted && meets(tester, &keys[k], tester->sorted[at]);
		CHECK(!wanted, "round %d: row %d is missing at the end", NAME(tester), round, at);
	}
	CHECK(!is_tight(tester, keys, nkeys) || nread == nfound, "round %d: %d rows are read for %d",
		  NAME(tester), round, nread, nfound);
	tester->ncompared += nfound;
}

PG_FUNCTION_INFO_V1(test_index_quals);

Datum
test_index_quals(PG_FUNCTION_ARGS)
{
	Tester	   *tester = tester_open(PG_GETARG_OID(0));
	int			rounds = PG_GETARG_INT32(1);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "round",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	pg_prng_seed(&pg_global_prng_state, PG_GETARG_INT32(2));
	for (int round = 0; round < rounds && tester->nrows > 0; round++)
	{
		ScanKeyData keys[MAX_CONDITIONS];

		CHECK_FOR_INTERRUPTS();
		check_conditions(tester, keys, make_conditions(tester, keys), round);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	tester_close(tester);
	PG_RETURN_INT64(tester->ncompared);
}
