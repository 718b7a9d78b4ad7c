/*-------------------------------------------------------------------------
 *
 * rose_node_first_plan.c
 *	  Which queries want few rows of a table, and by what these are the first.
 *
 * SELECT ... FROM one table WHERE ... ORDER BY columns LIMIT n: all rows of the table that meet the conditions go to core's Sort, and nothing else does.
 * So a scan may leave out those that come behind n others (rose_node_first.c): whoever orders the others, and however, gets the same answer.  That holds for
 * OFFSET, and for WITH TIES, since what is left out is behind the others, not equal to them.  It holds for each partition, and each arm of a UNION ALL that was
 * pulled up, and for each process of a parallel query.
 *
 * Not where rows are locked: others may have changed them, so that more are wanted; nor where functions in the target make rows of a row, where groups
 * or windows are in between, or of a join.
 *
 * LIMIT and OFFSET are evaluated when the scan begins, after core has done so.  So they are constants and parameters from outside, which are the same in all
 * rescans, and cannot fail.
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_first.h"

/* More columns are not looked at: rows that are equal in so many are given out. */
#define MAX_COLUMNS		8

/* Core's guess of what part of the rows is wanted, if that is not known. */
#define UNKNOWN_PART	0.1

/* ---- limits ---- */

/* Is this LIMIT or OFFSET known at the start, the same for all rescans? */
static bool
is_known(const Node *node)
{
	if (node != NULL && IsA(node, FuncExpr))
	{
		const FuncExpr *call = (const FuncExpr *) node;

		if (call->funcid != F_INT8_INT4 && call->funcid != F_INT8_INT2)
			return false;
		node = linitial(call->args);
	}
	if (node == NULL || IsA(node, Const))
		return true;
	return IsA(node, Param) && ((const Param *) node)->paramkind == PARAM_EXTERN;
}

/* As far as it is known now; 0 for NULL. */
static double
constant_of(const Node *node)
{
	const Const *constant = (const Const *) node;

	if (node == NULL || !IsA(node, Const) || constant->constisnull)
		return 0;
	return (double) DatumGetInt64(constant->constvalue);
}

static bool
is_limit_small(const Query *parse)
{
	const Node *count = parse->limitCount;

	if (count == NULL || !is_known(count) || !is_known(parse->limitOffset))
		return false;
	if (IsA(count, Const) && ((const Const *) count)->constisnull)
		return false;
	return constant_of(count) + constant_of(parse->limitOffset) <= ROSE_NODE_FIRST_MAX;
}

List *
rose_node_first_limit(const PlannerInfo *root)
{
	return list_make2(copyObject(root->parse->limitCount), copyObject(root->parse->limitOffset));
}

double
rose_node_first_estimate(const PlannerInfo *root, double rows)
{
	double		wanted = root->limit_tuples > 0 ? root->limit_tuples : rows * UNKNOWN_PART;

	/* of rows in no order, the i-th one is among the first n of those before it with a probability of n / i */
	return rows > wanted ? Min(rows, ceil(wanted * (1 + log(rows / wanted)))) : rows;
}

/* ---- the query ---- */

/* Is each row of the one table a row of the result, before LIMIT? */
static bool
is_of_one_table(const PlannerInfo *root)
{
	const Query *parse = root->parse;

	return parse->commandType == CMD_SELECT && parse->sortClause != NIL && root->sort_pathkeys != NIL &&
		!parse->hasAggs && parse->groupClause == NIL && parse->groupingSets == NIL && parse->havingQual == NULL &&
		parse->distinctClause == NIL && !parse->hasWindowFuncs && !parse->hasTargetSRFs &&
		parse->setOperations == NULL && parse->rowMarks == NIL && root->rowMarks == NIL &&
		bms_membership(root->all_baserels) == BMS_SINGLETON;
}

/* The query's expression as the relation has it: it may be a partition. */
static Node *
translate(PlannerInfo *root, const RelOptInfo *rel, Node *expr)
{
	AppendRelInfo *info;

	if (bms_is_member(rel->relid, root->all_baserels))
		return expr;
	info = root->append_rel_array != NULL ? root->append_rel_array[rel->relid] : NULL;
	if (info == NULL)
		return NULL;
	expr = translate(root, find_base_rel(root, info->parent_relid), expr);
	return expr == NULL ? NULL : adjust_appendrel_attrs(root, expr, 1, &info);
}

/* The column of the relation by which this clause orders, if it is one: its number and the rest; else NIL. */
static List *
column_of(PlannerInfo *root, const RelOptInfo *rel, SortGroupClause *clause)
{
	Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);
	Node	   *own = translate(root, rel, expr);
	Oid			family;
	Oid			type;
	bool		descending;
	Var		   *var;

	/* the same type, so that the operator is one of its values */
	if (own == NULL || exprType(own) != exprType(expr) ||
		!rose_ordering_op(clause->sortop, &family, &type, &descending))
		return NIL;
	while (IsA(own, RelabelType))
		own = (Node *) ((RelabelType *) own)->arg;
	var = (Var *) own;
	if (!IsA(var, Var) || var->varno != rel->relid || var->varlevelsup != 0 || var->varattno <= 0)
		return NIL;
	return list_make4_int(var->varattno, (int) clause->sortop, (int) exprCollation(expr), clause->nulls_first);
}

/* Such an expression is made of each row before it is sorted, and one that is left out would be missing. */
static bool
orders_by_volatile(PlannerInfo *root)
{
	ListCell   *cell;

	foreach(cell, root->parse->sortClause)
	{
		if (contain_volatile_functions(get_sortgroupclause_expr(lfirst_node(SortGroupClause, cell), root->processed_tlist)))
			return true;
	}
	return false;
}

List *
rose_node_first_columns(PlannerInfo *root, const RelOptInfo *rel)
{
	List	   *columns = NIL;
	ListCell   *cell;

	if (!is_of_one_table(root) || !is_limit_small(root->parse) || orders_by_volatile(root))
		return NIL;
	foreach(cell, root->parse->sortClause)
	{
		List	   *column = column_of(root, rel, lfirst_node(SortGroupClause, cell));

		if (column == NIL || foreach_current_index(cell) >= MAX_COLUMNS)
			break;
		columns = list_concat(columns, column);
	}
	return columns;
}
