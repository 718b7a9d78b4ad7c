/*-------------------------------------------------------------------------
 *
 * rose_node_agg_paths.c
 *	  Rose Aggregate: what the planner is told, and the plan that it gets.
 *
 * Offered are partial aggregates of a Rose Scan, under core's Finalize Aggregate, which does HAVING, final functions
 * and expressions over aggregates.  So it is of a query over one table, all of whose aggregates are known
 * (rose_node_agg_kinds.c) and of columns, as are those that it groups by (rose_node_group_kinds.c).
 *
 * The scan is a path of its own: by now core has changed what those of the table give out.
 *
 * Several processes may make states, each of the rows that it reads, which core finishes as well.
 *
 * Backend-local; planning takes locks before us.
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

#include "compat/rose_compat_plan.h"
#include "scan/rose_node.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_scan.h"

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
	if (parse->groupClause != NIL ? rose_group_clause(root) == NIL : !parse->hasAggs)
		return false;
	if (parse->groupingSets != NIL || parse->hasTargetSRFs ||
		(extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return false;
	return bms_is_empty(input->lateral_relids) && !has_pseudoconstants(input);
}

/* ---- targets ---- */

/* Is it one of the query's GROUP BY, and if so, told apart by which operator? */
static bool
is_group_key(PlannerInfo *root, const PathTarget *target, int i, Oid *equality)
{
	Index		reference = get_pathtarget_sortgroupref(target, i);
	SortGroupClause *clause;

	if (reference == 0)
		return false;
	clause = get_sortgroupref_clause_noerr(reference, rose_group_clause(root));
	if (clause == NULL)
		return false;
	*equality = clause->eqop;
	return true;
}

/* The columns by which the query groups go to target; what else its result is made of, to others.  False: not all are known. */
static bool
add_group_keys(PlannerInfo *root, const RelOptInfo *grouped, PathTarget *target, List **others)
{
	int			i = 0;
	ListCell   *cell;

	foreach(cell, grouped->reltarget->exprs)
	{
		Expr	   *expr = lfirst(cell);
		const Var  *column;
		Oid			equality;

		if (!is_group_key(root, grouped->reltarget, i++, &equality))
		{
			*others = lappend(*others, expr);
			continue;
		}
		if (rose_node_group_key_kind((Node *) expr, equality, &column) == ROSE_KEY_NONE)
			return false;
		add_column_to_pathtarget(target, expr, get_pathtarget_sortgroupref(grouped->reltarget, i - 1));
	}
	return true;
}

/* Have what is aggregated be aggregated in part; false: not all of it is known.  Of texts there are no states by group. */
static bool
make_partial(PathTarget *target, bool has_groups)
{
	ListCell   *cell;

	foreach(cell, target->exprs)
	{
		const Var  *column;
		RoseNodeAggKind kind;
		Aggref	   *partial;

		if (!IsA(lfirst(cell), Aggref))
		{
			/* a column by which the query groups, or one that it determines */
			if (rose_node_group_key_kind(lfirst(cell), InvalidOid, &column) == ROSE_KEY_NONE)
				return false;
			continue;
		}
		kind = rose_node_agg_kind(lfirst_node(Aggref, cell), &column);
		if (kind == ROSE_AGG_NONE || (has_groups && ROSE_AGG_IS_OF_TEXT(kind)))
			return false;
		partial = makeNode(Aggref);
		memcpy(partial, lfirst(cell), sizeof(Aggref));
		mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
		lfirst(cell) = partial;
	}
	return true;
}

/* The keys, and partial aggregates, of which the query's result is made; NULL: they are not all known. */
static PathTarget *
partial_target(PlannerInfo *root, const RelOptInfo *grouped, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	List	   *others = NIL;

	if (!add_group_keys(root, grouped, target, &others))
		return NULL;
	if (having != NULL)
		others = lappend(others, having);
	add_new_columns_to_pathtarget(target,
								  pull_var_clause((Node *) others,
												  PVC_INCLUDE_AGGREGATES |
												  PVC_RECURSE_WINDOWFUNCS |
												  PVC_INCLUDE_PLACEHOLDERS));
	if (!make_partial(target, root->parse->groupClause != NIL) || target->exprs == NIL ||
		list_length(target->exprs) > ROSE_VEC_GROUP_COLUMNS)
		return NULL;
	return set_pathtarget_cost_width(root, target);
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

		if (IsA(lfirst(cell), Aggref))
		{
			(void) rose_node_agg_kind(lfirst_node(Aggref, cell), &column);
			add_new_columns_to_pathtarget(target,
										  rose_node_agg_filter_columns(lfirst_node(Aggref, cell)->aggfilter));
		}
		else
			(void) rose_node_group_key_kind(lfirst(cell), InvalidOid, &column);
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
	CustomPath *path = rose_node_agg_path(root, grouped, target, scan);
	Path	   *states = &path->path;
	AggClauseCosts costs;

	rose_node_cost_aggregate(root, path, &scan->path);
	if (scan->path.parallel_workers > 0)
		states = rose_node_agg_gather_path(root, path);

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	add_path(grouped, (Path *) create_agg_path(root, grouped, states, grouped->reltarget,
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

	/* most tables of most queries get no Rose Scan, which is sooner known than what is aggregated */
	if (!is_candidate(root, input, grouping) ||
		!rose_node_scan_is_worth_a_look(input, planner_rt_fetch(input->relid, root)))
		return;
	target = partial_target(root, grouped, grouping->havingQual);
	if (target == NULL)
		return;
	if (root->parse->groupClause != NIL)
	{
		rose_node_group_add_paths(root, input, grouped, extra, target, scan_target(root, target));
		return;
	}
	scan = rose_node_scan_path(root, input, planner_rt_fetch(input->relid, root),
							   scan_target(root, target));
	if (scan == NULL || !rose_node_agg_states_agree())
		return;
	add_paths(root, grouped, target, scan, grouping->havingQual);
	/* rows alone are counted without reading them, by one process, if the table is at rest */
	if (!grouped->consider_parallel ||
		(scan->path.pathtarget->exprs == NIL && input->baserestrictinfo == NIL))
		return;
	scan = rose_node_scan_partial_path(root, input, planner_rt_fetch(input->relid, root),
									   scan_target(root, target));
	if (scan != NULL)
		add_paths(root, grouped, target, scan, grouping->havingQual);
}
