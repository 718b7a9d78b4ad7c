/*-------------------------------------------------------------------------
 *
 * rose_node_expr_kinds.c
 *	  Which expressions a Rose Aggregate takes in the place of columns.
 *
 * Those whose value a row's columns say: no volatile ones, and none with subplans, system columns or whole rows.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "scan/rose_node_expr.h"

const Var *
rose_node_expr_column(const Node *expr)
{
	const Var  *var;

	while (IsA(expr, RelabelType))
		expr = (const Node *) ((const RelabelType *) expr)->arg;
	var = (const Var *) expr;
	if (!IsA(var, Var) || var->varlevelsup > 0 || var->varattno <= 0)
		return NULL;
	return var;
}

/* What a row alone does not say, or says only as a whole. */
static bool
is_strange(Node *node, void *nothing)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((const Var *) node)->varlevelsup > 0 || ((const Var *) node)->varattno <= 0;
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_SubLink:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_PlaceHolderVar:
		case T_CurrentOfExpr:
			return true;
		default:
			return expression_tree_walker(node, is_strange, nothing);
	}
}

bool
rose_node_expr_takes(const Node *expr)
{
	Node	   *node = unconstify(Node *, expr);

	return !is_strange(node, NULL) && !contain_volatile_functions(node) && !expression_returns_set(node);
}

List *
rose_node_expr_columns(const Node *expr)
{
	return pull_var_clause(unconstify(Node *, expr), 0);
}
