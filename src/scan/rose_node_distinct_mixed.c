/*-------------------------------------------------------------------------
 *
 * rose_node_distinct_mixed.c
 *	  Aggregates of distinct values, beside others: what core is to compute from a Rose Aggregate's groups.
 *
 * Groups by a query's keys and the value that is to be distinct may come any number of times.  So the partial states of other aggregates are
 * put together by aggregates of these: numbers and sums are added up, of what is least the least is taken.  That is another
 * expression than the query's, with the same value.  Known are aggregates whose states are values: numbers, sums of int2 and int4, which are int8,
 * and averages of these, which are made of both; what is least or greatest, and bits.  Of floats there are none, as they
 * would be added up in another order.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_agg.h"
#include "scan/rose_node_distinct.h"

/* An aggregate of values that a Rose Aggregate gives out. */
static Expr *
aggregate_of(RoseNodeMixed *mixed, Oid function, Oid type, Oid state_type, Aggref *partial)
{
	Aggref	   *aggref = makeNode(Aggref);

	aggref->aggfnoid = function;
	aggref->aggtype = type;
	aggref->aggcollid = partial->aggcollid;
	aggref->inputcollid = partial->inputcollid;
	aggref->aggtranstype = state_type;
	aggref->aggargtypes = list_make1_oid(partial->aggtype);
	aggref->args = list_make1(makeTargetEntry((Expr *) partial, 1, NULL, false));
	aggref->aggkind = partial->aggkind;
	aggref->aggsplit = AGGSPLIT_SIMPLE;
	aggref->aggno = aggref->aggtransno = mixed->naggregates++;
	aggref->location = -1;
	return (Expr *) aggref;
}

/* What is made below: an aggregate's partial state. */
static Aggref *
partial_of(RoseNodeMixed *mixed, const Aggref *aggref, Oid function, Oid state_type)
{
	Aggref	   *partial = makeNode(Aggref);

	memcpy(partial, aggref, sizeof(Aggref));
	partial->aggfnoid = function;
	partial->aggtranstype = state_type;
	mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
	mixed->partials = list_append_unique(mixed->partials, partial);
	return partial;
}

/* The sum of numbers, which is numeric. */
static Expr *
sum_of(RoseNodeMixed *mixed, const Aggref *aggref, Oid function)
{
	Aggref	   *partial = partial_of(mixed, aggref, function, INT8OID);

	partial->aggcollid = partial->inputcollid = InvalidOid;
	return aggregate_of(mixed, F_SUM_INT8, NUMERICOID, INTERNALOID, partial);
}

static Expr *
call(Oid function, Oid type, List *args)
{
	return (Expr *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

static Expr *
int8_of(Expr *numeric)
{
	return call(F_INT8_NUMERIC, INT8OID, list_make1(numeric));
}

/* The number of rows; of no rows there is no state, and it is 0. */
static Expr *
number_of(RoseNodeMixed *mixed, const Aggref *aggref)
{
	CoalesceExpr *coalesce = makeNode(CoalesceExpr);

	coalesce->coalescetype = INT8OID;
	coalesce->args = list_make2(int8_of(sum_of(mixed, aggref, aggref->aggfnoid)),
								makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0),
										  false, FLOAT8PASSBYVAL));
	coalesce->location = -1;
	return (Expr *) coalesce;
}

/* As core divides them. */
static Expr *
average_of(RoseNodeMixed *mixed, const Aggref *aggref)
{
	Oid			function = aggref->aggfnoid == F_AVG_INT2 ? F_SUM_INT2 : F_SUM_INT4;

	return call(F_NUMERIC_DIV, NUMERICOID, list_make2(sum_of(mixed, aggref, function),
													  sum_of(mixed, aggref, F_COUNT_ANY)));
}

/* It is an aggregate of its own states. */
static Expr *
same_of(RoseNodeMixed *mixed, const Aggref *aggref)
{
	Aggref	   *partial = partial_of(mixed, aggref, aggref->aggfnoid, aggref->aggtranstype);

	return aggregate_of(mixed, aggref->aggfnoid, aggref->aggtype, aggref->aggtranstype, partial);
}

static bool
is_deterministic(Oid collation)
{
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

static Expr *
replacement_of(RoseNodeMixed *mixed, const Aggref *aggref, RoseNodeAggKind kind)
{
	switch (kind)
	{
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
			return number_of(mixed, aggref);
		case ROSE_AGG_SUM:
			return int8_of(sum_of(mixed, aggref, aggref->aggfnoid));
		case ROSE_AGG_AVG:
			return average_of(mixed, aggref);
		case ROSE_AGG_MIN:
		case ROSE_AGG_MAX:
		case ROSE_AGG_AND:
		case ROSE_AGG_OR:
			return same_of(mixed, aggref);
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			return is_deterministic(aggref->inputcollid) ? same_of(mixed, aggref) : NULL;
		default:
			return NULL;
	}
}

/* One with DISTINCT stays what it is. */
static Expr *
distinct_of(RoseNodeMixed *mixed, const Aggref *aggref)
{
	Aggref	   *copy = copyObject(unconstify(Aggref *, aggref));

	copy->aggno = copy->aggtransno = mixed->naggregates++;
	return (Expr *) copy;
}

Expr *
rose_node_mixed_replace(RoseNodeMixed *mixed, const Aggref *aggref)
{
	const Node *column;
	Expr	   *result;
	ListCell   *known;
	ListCell   *replaced;

	forboth(known, mixed->known, replaced, mixed->replaced)
	{
		if (equal(lfirst(known), aggref))
			return lfirst(replaced);
	}
	if (aggref->aggdistinct != NIL)
		result = distinct_of(mixed, aggref);
	else
		result = replacement_of(mixed, aggref, rose_node_agg_kind(aggref, &column));
	if (result == NULL)
		return NULL;
	mixed->known = lappend(mixed->known, unconstify(Aggref *, aggref));
	mixed->replaced = lappend(mixed->replaced, result);
	return result;
}
