/*-------------------------------------------------------------------------
 *
 * rose_index_paths.c
 *	  Which index scans would there be, if the conditions on a table were others?
 *
 * Core is asked, with copies of the table's and its indexes' planner structs, since these say
 * what conditions there are.  So whatever core knows of operators, arrays, row comparisons and
 * prefixes of LIKE is known here, too; and of conditions that must not be asked before others
 * (security barriers).
 *
 * Backend-local; planning takes locks before us.  What such a scan is for is its planner's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/stratnum.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"

#include "indexam/rose_index_paths.h"

/* Its rows come whole, whatever the query wants of them. */
static IndexOptInfo *
index_with(const IndexOptInfo *index, RelOptInfo *rel, List *conditions)
{
	IndexOptInfo *copy = palloc(sizeof(IndexOptInfo));

	*copy = *index;
	copy->rel = rel;
	copy->indrestrictinfo = conditions;
	copy->canreturn = palloc0(index->ncolumns * sizeof(bool));
	return copy;
}

/* The table as if it had these conditions only. */
static RelOptInfo *
table_with(PlannerInfo *root, RelOptInfo *rel, List *conditions, const IndexOptInfo *only)
{
	RelOptInfo *copy = palloc(sizeof(RelOptInfo));
	ListCell   *cell;

	*copy = *rel;
	copy->baserestrictinfo = conditions;
	copy->joininfo = NIL;
	copy->has_eclass_joins = false;
	copy->consider_parallel = false;
	copy->pathlist = copy->partial_pathlist = NIL;
	copy->rows = clamp_row_est(rel->tuples *
							   clauselist_selectivity(root, conditions, 0, JOIN_INNER, NULL));
	copy->indexlist = NIL;
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (only == NULL || index == only)
			copy->indexlist = lappend(copy->indexlist, index_with(index, copy, conditions));
	}
	return copy;
}

List *
rose_index_paths(PlannerInfo *root, RelOptInfo *rel, List *conditions, const IndexOptInfo *only)
{
	RelOptInfo *table = table_with(root, rel, conditions, only);
	List	   *paths = NIL;
	ListCell   *cell;

	create_index_paths(root, table);
	foreach(cell, table->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (IsA(path, IndexPath) && path->pathtype == T_IndexScan &&
			path->param_info == NULL && ((IndexPath *) path)->indexclauses != NIL)
			paths = lappend(paths, path);
	}
	return paths;
}

/* ---- ranges ---- */

/* Does the condition fix its column, so that ranges may go on with the next one? */
static bool
fixes_column(const IndexOptInfo *index, const IndexClause *clause)
{
	RestrictInfo *rinfo = linitial_node(RestrictInfo, clause->indexquals);
	Node	   *qual = (Node *) rinfo->clause;
	Oid			op;

	if (IsA(qual, OpExpr))
		op = ((OpExpr *) qual)->opno;
	else if (IsA(qual, ScalarArrayOpExpr))
		op = ((ScalarArrayOpExpr *) qual)->opno;
	else
		return false;
	return get_op_opfamily_strategy(op, index->opfamily[clause->indexcol]) == BTEqualStrategyNumber;
}

List *
rose_index_leading_clauses(const IndexOptInfo *index, List *clauses)
{
	List	   *leading = NIL;
	int			column = 0;
	bool		fixed = false;
	ListCell   *cell;

	/* they come in the order of columns */
	foreach(cell, clauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol > column)
		{
			if (!fixed || clause->indexcol > column + 1)
				break;
			column = clause->indexcol;
			fixed = false;
		}
		leading = lappend(leading, clause);
		fixed |= fixes_column(index, clause);
	}
	return leading;
}
