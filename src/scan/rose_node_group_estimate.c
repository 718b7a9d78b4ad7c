/*-------------------------------------------------------------------------
 *
 * rose_node_group_estimate.c
 *	  How many groups a Rose Aggregate is expected to make.
 *
 * Core takes an expression to have as many values as its columns, so that hours of a year's times would be as many groups as there are times,
 * and no Rose Aggregate would be offered.  Some expressions have few values whatever their columns have: parts of times, times that are
 * truncated, remainders, lengths, constants that CASE chooses among.  For these there is a bound here; who has more groups all the
 * same is run by the other plan (rose_node_choice.c).
 *
 * Functions are known by their OIDs, never by names.
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/timestamp.h"

#include "scan/rose_node_group.h"
#include "scan/rose_node_time.h"

/* Texts whose lengths are spread have so many of them, by their average bytes. */
#define LENGTHS_PER_BYTE	4

/* What the bound of an expression is when there is none. */
#define UNBOUNDED			0.0

static double bound_of(PlannerInfo *root, Node *expr);

/* ---- times ---- */

/* Of a histogram, but for both ends, where single values may be far away, or infinite. */
static double
span_of_histogram(const AttStatsSlot *slot)
{
	int			n = slot->nvalues;
	int			cut = n > 4 ? 1 : 0;

	if (n < 2)
		return 0;
	return ((double) DatumGetInt64(slot->values[n - 1 - cut]) - (double) DatumGetInt64(slot->values[cut])) *
		(n - 1) / (n - 1 - 2 * cut);
}

/* Within which time most times of the column are, in microseconds; 0: not known. */
static double
span_of(PlannerInfo *root, Node *times)
{
	VariableStatData statistics;
	AttStatsSlot slot;
	double		span = 0;

	if (exprType(times) != TIMESTAMPOID && exprType(times) != TIMESTAMPTZOID)
		return 0;
	examine_variable(root, times, 0, &statistics);
	if (HeapTupleIsValid(statistics.statsTuple) &&
		get_attstatsslot(&slot, statistics.statsTuple, STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES))
	{
		span = span_of_histogram(&slot);
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(statistics);
	return span;
}

static double
bound_of_truncated(PlannerInfo *root, Node *times, double usecs)
{
	double		span = usecs > 0 ? span_of(root, times) : 0;

	return span > 0 ? span / usecs + 2 : UNBOUNDED;
}

/* ---- others ---- */

static double
bound_of_length(PlannerInfo *root, Node *of)
{
	VariableStatData statistics;
	double		bound = UNBOUNDED;

	examine_variable(root, of, 0, &statistics);
	if (HeapTupleIsValid(statistics.statsTuple))
		bound = LENGTHS_PER_BYTE * ((Form_pg_statistic) GETSTRUCT(statistics.statsTuple))->stawidth + 2;
	ReleaseVariableStats(statistics);
	return bound;
}

static double
bound_of_remainder(Node *divisor)
{
	const Const *constant = (const Const *) divisor;

	if (!IsA(divisor, Const) || constant->constisnull)
		return UNBOUNDED;
	switch (constant->consttype)
	{
		case INT2OID:
			return fabs((double) DatumGetInt16(constant->constvalue));
		case INT4OID:
			return fabs((double) DatumGetInt32(constant->constvalue));
		case INT8OID:
			return fabs((double) DatumGetInt64(constant->constvalue));
		default:
			return UNBOUNDED;
	}
}

/* One that chooses among what is bounded. */
static double
bound_of_case(PlannerInfo *root, const CaseExpr *expr)
{
	double		sum = expr->defresult != NULL ? bound_of(root, (Node *) expr->defresult) : 1;
	ListCell   *cell;

	foreach(cell, expr->args)
	{
		double		bound = bound_of(root, (Node *) lfirst_node(CaseWhen, cell)->result);

		if (sum == UNBOUNDED || bound == UNBOUNDED)
			return UNBOUNDED;
		sum += bound;
	}
	return sum;
}

/* A function of nothing but constants and one other expression has no more values than this one. */
static double
bound_of_arguments(PlannerInfo *root, List *args)
{
	Node	   *only = NULL;
	ListCell   *cell;

	foreach(cell, args)
	{
		if (IsA(lfirst(cell), Const))
			continue;
		if (only != NULL)
			return UNBOUNDED;
		only = lfirst(cell);
	}
	return only != NULL ? bound_of(root, only) : 1;
}

static double
bound_of_function(PlannerInfo *root, Oid function, List *args)
{
	const RoseNodeTimeUnit *unit;
	double		bound = UNBOUNDED;

	switch (function)
	{
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIME:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_DATE_PART_TEXT_DATE:
		case F_DATE_PART_TEXT_TIME:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
			unit = rose_node_time_unit(linitial(args));
			bound = unit != NULL ? unit->parts : UNBOUNDED;
			break;
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
			unit = rose_node_time_unit(linitial(args));
			bound = bound_of_truncated(root, lsecond(args), unit != NULL ? unit->usecs : 0);
			break;
		case F_DATE_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
			bound = bound_of_truncated(root, linitial(args), USECS_PER_DAY);
			break;
		case F_LENGTH_TEXT:
		case F_CHAR_LENGTH_TEXT:
		case F_CHARACTER_LENGTH_TEXT:
		case F_OCTET_LENGTH_TEXT:
			bound = bound_of_length(root, linitial(args));
			break;
		case F_INT2MOD:
		case F_INT4MOD:
		case F_INT8MOD:
		case F_MOD_INT2_INT2:
		case F_MOD_INT4_INT4:
		case F_MOD_INT8_INT8:
			bound = bound_of_remainder(lsecond(args));
			break;
	}
	return bound != UNBOUNDED ? bound : bound_of_arguments(root, args);
}

/* Values that it can have, about; UNBOUNDED: as many as its columns. */
static double
bound_of(PlannerInfo *root, Node *expr)
{
	switch (nodeTag(expr))
	{
		case T_Const:
			return 1;
		case T_FuncExpr:
			return bound_of_function(root, ((FuncExpr *) expr)->funcid, ((FuncExpr *) expr)->args);
		case T_OpExpr:
			return bound_of_function(root, get_opcode(((OpExpr *) expr)->opno), ((OpExpr *) expr)->args);
		case T_RelabelType:
			return bound_of(root, (Node *) ((RelabelType *) expr)->arg);
		case T_CoerceViaIO:
			return bound_of(root, (Node *) ((CoerceViaIO *) expr)->arg);
		case T_CoerceToDomain:
			return bound_of(root, (Node *) ((CoerceToDomain *) expr)->arg);
		case T_CaseExpr:
			return bound_of_case(root, (CaseExpr *) expr);
		default:
			return UNBOUNDED;
	}
}

double
rose_node_group_estimate(PlannerInfo *root, List *exprs, double rows)
{
	double		all = estimate_num_groups(root, exprs, rows, NULL, NULL);
	double		bounded = 1;
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, exprs)
	{
		double		bound = bound_of(root, lfirst(cell));

		if (bound == UNBOUNDED)
			others = lappend(others, lfirst(cell));
		else
			bounded *= Max(bound, 1);
	}
	if (list_length(others) == list_length(exprs))
		return all;
	if (others != NIL)
		bounded *= estimate_num_groups(root, others, rows, NULL, NULL);
	return Min(all, Max(bounded, 1));
}
