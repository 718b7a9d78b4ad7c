/*-------------------------------------------------------------------------
 *
 * rose_node_top.c
 *	  Groups that may be among the first ones of a query that wants few.
 *
 * ORDER BY count(*) DESC LIMIT 10: a group that has fewer rows than ten others is not among the first ten, whatever else they are ordered by.  So it need
 * not be given out to core's Sort, which would copy it first.  Groups with as many rows as the last of the ten are given out.
 *
 * Which groups there are must not show but in the result: so there is no HAVING, which might fail for one, nor anything but keys and aggregates in the target.
 * Known are numbers of rows, which are never NULL.
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_agg.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_top.h"

/* More than so many are sorted by core. */
#define MAX_LIMIT		10000

/* ---- planning ---- */

/* Of LIMIT or OFFSET; -1: it is not known, or large. */
static int
number_of(const Node *node, int otherwise)
{
	const Const *constant = (const Const *) node;
	int64		value;

	if (node == NULL || (IsA(node, Const) && constant->constisnull))
		return otherwise;
	if (!IsA(node, Const) || constant->consttype != INT8OID)
		return -1;
	value = DatumGetInt64(constant->constvalue);
	return value >= 0 && value <= MAX_LIMIT ? (int) value : -1;
}

static int
limit_of(const Query *parse)
{
	int			count = number_of(parse->limitCount, -1);
	int			offset = number_of(parse->limitOffset, 0);

	if (count <= 0 || offset < 0 || parse->limitOption != LIMIT_OPTION_COUNT || parse->distinctClause != NIL || parse->hasWindowFuncs ||
		parse->hasTargetSRFs || parse->setOperations != NULL || parse->rowMarks != NIL || parse->sortClause == NIL)
		return 0;
	return count + offset;
}

/* The number of rows by which results are ordered first; NULL: it is none. */
static const Aggref *
first_order(PlannerInfo *root, bool *descending)
{
	SortGroupClause *clause = linitial_node(SortGroupClause, root->parse->sortClause);
	const Aggref *aggref = (const Aggref *) get_sortgroupclause_expr(clause, root->processed_tlist);
	const Node *argument;
	Oid			comparison = get_opcode(clause->sortop);
	RoseNodeAggKind kind;

	if (!IsA(aggref, Aggref) || (comparison != F_INT8LT && comparison != F_INT8GT))
		return NULL;
	*descending = comparison == F_INT8GT;
	kind = rose_node_agg_kind(aggref, &argument);
	return kind == ROSE_AGG_ROWS || kind == ROSE_AGG_COUNT ? aggref : NULL;
}

/* Nothing but keys and aggregates? */
static bool
is_plain(PlannerInfo *root, const PathTarget *target)
{
	int			i = 0;
	ListCell   *cell;

	foreach(cell, target->exprs)
	{
		Oid			equality;

		if (!rose_node_group_is_key(root, target, i++, &equality) && !IsA(lfirst(cell), Aggref) && !IsA(lfirst(cell), Var))
			return false;
	}
	return true;
}

void
rose_node_top_find(PlannerInfo *root, const PathTarget *target, const Node *having, const PathTarget *partial,
				   RoseNodeTopPlan *plan)
{
	int			limit = having == NULL ? limit_of(root->parse) : 0;
	const Aggref *order = limit > 0 ? first_order(root, &plan->descending) : NULL;
	ListCell   *cell;

	plan->limit = 0;
	if (order == NULL || !is_plain(root, target))
		return;
	foreach(cell, partial->exprs)
	{
		if (IsA(lfirst(cell), Aggref) && lfirst_node(Aggref, cell)->aggno == order->aggno)
		{
			plan->limit = limit;
			plan->column = foreach_current_index(cell);
			return;
		}
	}
}

/* ---- execution ---- */

RoseNodeTop *
rose_node_top_create(int limit, bool descending)
{
	RoseNodeTop *top = palloc0(offsetof(RoseNodeTop, heap) + limit * sizeof(int64));

	top->limit = limit;
	top->descending = descending;
	return top;
}

static void
sift_up(RoseNodeTop *top, int at)
{
	int64		value = top->heap[at];

	while (at > 0 && top->heap[(at - 1) / 2] > value)
	{
		top->heap[at] = top->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	top->heap[at] = value;
}

/* Puts a value in the place of the first. */
static void
replace_first(RoseNodeTop *top, int64 value)
{
	int			at = 0;

	for (;;)
	{
		int			child = at * 2 + 1;

		if (child + 1 < top->n && top->heap[child + 1] < top->heap[child])
			child++;
		if (child >= top->n || top->heap[child] >= value)
			break;
		top->heap[at] = top->heap[child];
		at = child;
	}
	top->heap[at] = value;
}

bool
rose_node_top_wants(RoseNodeTop *top, int64 number)
{
	int64		value = top->descending ? number : -number;

	if (top->n < top->limit)
	{
		top->heap[top->n] = value;
		sift_up(top, top->n++);
		return true;
	}
	if (value > top->heap[0])
		replace_first(top, value);
	else if (value < top->heap[0])
		return false;
	return true;
}
