/*-------------------------------------------------------------------------
 *
 * rose_node_agg_paths.c
 *	  Rose Aggregate: what the planner is told, and the plan that it gets.
 *
 * Offered are partial aggregates of a Rose Scan, under core's Finalize Aggregate, which does HAVING, final functions
 * and expressions over aggregates.  So it is of a query over one table, all of whose aggregates are known
 * (rose_node_agg_kinds.c) and of columns.  There are no groups yet.
 *
 * The scan is a path of its own: by now core has changed what those of the table give out.
 *
 * Backend-local; planning takes locks before us.  Not parallel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

#include "scan/rose_node.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_scan.h"

static Plan *agg_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *children);

static const CustomPathMethods agg_path_methods = {
	.CustomName = "Rose Aggregate",
	.PlanCustomPath = agg_plan,
};

/* ---- is it worth a look? ---- */

static bool
has_pseudoconstants(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

static bool
is_candidate(PlannerInfo *root, const RelOptInfo *input, const GroupPathExtraData *extra)
{
	const Query *parse = root->parse;

	if (!rose_node_aggregate_enabled || !rose_node_scan_enabled)
		return false;
	if (input->reloptkind != RELOPT_BASEREL || input->rtekind != RTE_RELATION ||
		extra->patype == PARTITIONWISE_AGGREGATE_PARTIAL)
		return false;
	if (!parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL ||
		parse->hasTargetSRFs || (extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return false;
	return bms_is_empty(input->lateral_relids) && !has_pseudoconstants(input);
}

/* ---- targets ---- */

/* The partial aggregates of which the query's are made; NULL: they are not all known. */
static PathTarget *
partial_target(PlannerInfo *root, const RelOptInfo *grouped, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	List	   *exprs = list_copy(grouped->reltarget->exprs);
	ListCell   *cell;

	if (having != NULL)
		exprs = lappend(exprs, having);
	add_new_columns_to_pathtarget(target,
								  pull_var_clause((Node *) exprs,
												  PVC_INCLUDE_AGGREGATES |
												  PVC_RECURSE_WINDOWFUNCS |
												  PVC_INCLUDE_PLACEHOLDERS));
	foreach(cell, target->exprs)
	{
		const Var  *column;
		Aggref	   *partial;

		if (!IsA(lfirst(cell), Aggref) ||
			rose_node_agg_kind(lfirst_node(Aggref, cell), &column) == ROSE_AGG_NONE)
			return NULL;
		partial = makeNode(Aggref);
		memcpy(partial, lfirst(cell), sizeof(Aggref));
		mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
		lfirst(cell) = partial;
	}
	return target->exprs == NIL ? NULL : set_pathtarget_cost_width(root, target);
}

/* The columns that they take. */
static PathTarget *
scan_target(PlannerInfo *root, const PathTarget *partial)
{
	PathTarget *target = create_empty_pathtarget();
	ListCell   *cell;

	foreach(cell, partial->exprs)
	{
		const Var  *column;

		(void) rose_node_agg_kind(lfirst_node(Aggref, cell), &column);
		if (column != NULL)
			add_new_column_to_pathtarget(target, (Expr *) unconstify(Var *, column));
	}
	return set_pathtarget_cost_width(root, target);
}

/* ---- paths ---- */

static void
add_paths(PlannerInfo *root, RelOptInfo *grouped, PathTarget *target, CustomPath *scan,
		  Node *having)
{
	CustomPath *path = makeNode(CustomPath);
	AggClauseCosts costs;

	path->path.pathtype = T_CustomScan;
	path->path.parent = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, grouped->relids);
	path->path.pathtarget = target;
	path->custom_paths = list_make1(scan);
	path->methods = &agg_path_methods;
	rose_node_cost_aggregate(path, &scan->path, list_length(target->exprs));

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	add_path(grouped, (Path *) create_agg_path(root, grouped, &path->path, grouped->reltarget,
											   AGG_PLAIN, AGGSPLIT_FINAL_DESERIAL, NIL,
											   (List *) having, &costs, 1));
}

void
rose_node_add_aggregate_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
							  void *extra)
{
	GroupPathExtraData *grouping = extra;
	PathTarget *target;
	CustomPath *scan;

	if (!is_candidate(root, input, grouping))
		return;
	target = partial_target(root, grouped, grouping->havingQual);
	if (target == NULL)
		return;
	scan = rose_node_scan_path(root, input, planner_rt_fetch(input->relid, root),
							   scan_target(root, target));
	if (scan == NULL || !rose_node_agg_states_agree())
		return;
	add_paths(root, grouped, target, scan, grouping->havingQual);
}

/* ---- the plan ---- */

static Plan *
agg_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		 List *children)
{
	CustomScan *agg = makeNode(CustomScan);

	agg->scan.plan.targetlist = tlist;
	agg->scan.scanrelid = 0;
	agg->flags = path->flags;
	agg->custom_plans = children;
	agg->custom_scan_tlist = copyObject(tlist);
	agg->methods = &rose_node_agg_methods;
	return &agg->scan.plan;
}
