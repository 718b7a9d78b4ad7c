/*-------------------------------------------------------------------------
 *
 * rose_node_agg_kinds.c
 *	  Which aggregates a Rose Aggregate knows.
 *
 * They are known by the functions' OIDs, never by names, which anybody may give to functions.  What is not here is
 * core's to aggregate, row by row: with DISTINCT or ORDER BY, of other types.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_agg.h"
#include "scan/rose_node_expr.h"

typedef struct KnownAggregate
{
	Oid			function;
	RoseNodeAggKind kind;
} KnownAggregate;

static const KnownAggregate known[] = {
	{F_COUNT_, ROSE_AGG_ROWS},
	{F_COUNT_ANY, ROSE_AGG_COUNT},
	{F_SUM_INT2, ROSE_AGG_SUM},
	{F_SUM_INT4, ROSE_AGG_SUM},
	{F_AVG_INT2, ROSE_AGG_AVG},
	{F_AVG_INT4, ROSE_AGG_AVG},
#ifdef HAVE_INT128
	{F_SUM_INT8, ROSE_AGG_SUM_WIDE},
	{F_AVG_INT8, ROSE_AGG_SUM_WIDE},
	{F_SUM_NUMERIC, ROSE_AGG_SUM_NUMERIC},
	{F_AVG_NUMERIC, ROSE_AGG_SUM_NUMERIC},
	{F_MIN_NUMERIC, ROSE_AGG_MIN_NUMERIC},
	{F_MAX_NUMERIC, ROSE_AGG_MAX_NUMERIC},
#endif
	{F_SUM_FLOAT4, ROSE_AGG_SUM_FLOAT4},
	{F_SUM_FLOAT8, ROSE_AGG_SUM_FLOAT8},
	{F_AVG_FLOAT4, ROSE_AGG_ACCUM_FLOAT4},
	{F_AVG_FLOAT8, ROSE_AGG_ACCUM_FLOAT8},
	{F_MIN_INT2, ROSE_AGG_MIN},
	{F_MIN_INT4, ROSE_AGG_MIN},
	{F_MIN_INT8, ROSE_AGG_MIN},
	{F_MIN_OID, ROSE_AGG_MIN},
	{F_MIN_DATE, ROSE_AGG_MIN},
	{F_MIN_TIME, ROSE_AGG_MIN},
	{F_MIN_TIMESTAMP, ROSE_AGG_MIN},
	{F_MIN_TIMESTAMPTZ, ROSE_AGG_MIN},
	{F_MIN_MONEY, ROSE_AGG_MIN},
	{F_MAX_INT2, ROSE_AGG_MAX},
	{F_MAX_INT4, ROSE_AGG_MAX},
	{F_MAX_INT8, ROSE_AGG_MAX},
	{F_MAX_OID, ROSE_AGG_MAX},
	{F_MAX_DATE, ROSE_AGG_MAX},
	{F_MAX_TIME, ROSE_AGG_MAX},
	{F_MAX_TIMESTAMP, ROSE_AGG_MAX},
	{F_MAX_TIMESTAMPTZ, ROSE_AGG_MAX},
	{F_MAX_MONEY, ROSE_AGG_MAX},
	{F_MIN_FLOAT4, ROSE_AGG_MIN_FLOAT4},
	{F_MIN_FLOAT8, ROSE_AGG_MIN_FLOAT8},
	{F_MAX_FLOAT4, ROSE_AGG_MAX_FLOAT4},
	{F_MAX_FLOAT8, ROSE_AGG_MAX_FLOAT8},
	{F_BOOL_AND, ROSE_AGG_AND},
	{F_EVERY, ROSE_AGG_AND},
	{F_BOOL_OR, ROSE_AGG_OR},
	{F_BIT_AND_INT2, ROSE_AGG_AND},
	{F_BIT_AND_INT4, ROSE_AGG_AND},
	{F_BIT_AND_INT8, ROSE_AGG_AND},
	{F_BIT_OR_INT2, ROSE_AGG_OR},
	{F_BIT_OR_INT4, ROSE_AGG_OR},
	{F_BIT_OR_INT8, ROSE_AGG_OR},
	{F_MIN_TEXT, ROSE_AGG_MIN_TEXT},
	{F_MAX_TEXT, ROSE_AGG_MAX_TEXT},
};

static RoseNodeAggKind
kind_of_function(Oid function)
{
	for (int i = 0; i < lengthof(known); i++)
	{
		if (known[i].function == function)
			return known[i].kind;
	}
	return ROSE_AGG_NONE;
}

/* One that counts rows: all, or some. */
static RoseNodeAggKind
kind_of_rows(const Aggref *aggref)
{
	return aggref->aggfilter == NULL ? ROSE_AGG_ROWS : ROSE_AGG_COUNT;
}

RoseNodeAggKind
rose_node_agg_kind(const Aggref *aggref, const Node **argument)
{
	RoseNodeAggKind kind = kind_of_function(aggref->aggfnoid);
	const Node *expr;

	*argument = NULL;
	if (aggref->aggkind != AGGKIND_NORMAL || aggref->aggvariadic || aggref->agglevelsup > 0 ||
		aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		(aggref->aggfilter != NULL && !rose_node_expr_takes((const Node *) aggref->aggfilter)))
		return ROSE_AGG_NONE;
	if (kind == ROSE_AGG_ROWS)
		return kind_of_rows(aggref);
	if (kind == ROSE_AGG_NONE)
		return kind;
	expr = (const Node *) linitial_node(TargetEntry, aggref->args)->expr;
	if (kind == ROSE_AGG_COUNT && IsA(expr, Const) && !((const Const *) expr)->constisnull)
		return kind_of_rows(aggref);
	*argument = (const Node *) rose_node_expr_column(expr);
	if (*argument == NULL && rose_node_expr_takes(expr))
		*argument = expr;
	if (*argument == NULL)
		return ROSE_AGG_NONE;
	if (kind != ROSE_AGG_COUNT && !ROSE_AGG_IS_BY_REFERENCE(kind) && !get_typbyval(exprType(*argument)))
		return ROSE_AGG_NONE;
	return kind;
}

bool
rose_node_agg_takes_decimals(RoseNodeAggKind kind, const Node *argument)
{
	return ROSE_AGG_IS_OF_NUMERIC(kind) ||
		(kind == ROSE_AGG_COUNT && argument != NULL && !IsA(argument, Var) && exprType(argument) == NUMERICOID);
}
