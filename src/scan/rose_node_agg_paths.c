/*-------------------------------------------------------------------------
 *
 * rose_node_agg_paths.c
 *	  Rose Aggregate: what the planner is told, and the plan that it gets.
 *
 * Offered are partial aggregates of a Rose Scan, under core's Finalize Aggregate, which does HAVING, final functions
 * and expressions over aggregates.  So it is of a query over one table, all of whose aggregates are known
 * (rose_node_agg_kinds.c), as is what it groups by (rose_node_group_kinds.c).  Queries with DISTINCT are another matter
 * (rose_node_distinct_paths.c).
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
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat/rose_compat_plan.h"
#include "scan/rose_node.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_distinct.h"
#include "scan/rose_node_expr.h"
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
	if (parse->groupClause == NIL && !parse->hasAggs)
		return false;
	if (parse->groupingSets != NIL || parse->hasTargetSRFs)
		return false;
	return bms_is_empty(input->lateral_relids) && !has_pseudoconstants(input);
}

/* ---- targets ---- */

/* What the query groups by goes to target; what else its result is made of, to others.  False: not all is known. */
static bool
add_group_keys(PlannerInfo *root, const RelOptInfo *grouped, PathTarget *target, List **others)
{
	int			i = 0;
	ListCell   *cell;

	foreach(cell, grouped->reltarget->exprs)
	{
		Expr	   *expr = lfirst(cell);
		const Node *key;
		Oid			equality;

		if (!rose_node_group_is_key(root, grouped->reltarget, i++, &equality))
		{
			*others = lappend(*others, expr);
			continue;
		}
		if (rose_node_group_key_kind((Node *) expr, equality, &key) == ROSE_KEY_NONE)
			return false;
		add_column_to_pathtarget(target, expr, get_pathtarget_sortgroupref(grouped->reltarget, i - 1));
	}
	return true;
}

/* Of texts: states of groups come in parts, in any order, and of texts that are equal, and differ, the last one counts. */
static bool
has_text_parts(const Aggref *aggref)
{
	return OidIsValid(aggref->inputcollid) && get_collation_isdeterministic(aggref->inputcollid);
}

/* Have what is aggregated be aggregated in part; false: not all of it is known. */
static bool
make_partial(PathTarget *target, bool has_groups)
{
	ListCell   *cell;

	foreach(cell, target->exprs)
	{
		const Node *node;
		RoseNodeAggKind kind;
		Aggref	   *partial;

		if (!IsA(lfirst(cell), Aggref))
		{
			/* what the query groups by, or a column that it determines */
			if (rose_node_group_key_kind(lfirst(cell), InvalidOid, &node) == ROSE_KEY_NONE)
				return false;
			continue;
		}
		kind = rose_node_agg_kind(lfirst_node(Aggref, cell), &node);
		if (kind == ROSE_AGG_NONE ||
			(has_groups && ROSE_AGG_IS_OF_TEXT(kind) && !has_text_parts(lfirst_node(Aggref, cell))))
			return false;
		partial = makeNode(Aggref);
		memcpy(partial, lfirst(cell), sizeof(Aggref));
		mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
		lfirst(cell) = partial;
	}
	return true;
}

/* What looks for the parts of expressions that are made below. */
typedef struct PartsContext
{
	List	   *keys;
	List	   *parts;
} PartsContext;

/*
 * Aggregates and columns, but not those of keys, which core finds in expressions, too.  What else there may be is known to nobody here.
 */
static bool
find_parts(Node *node, PartsContext *context)
{
	if (node == NULL || list_member(context->keys, node))
		return false;
	if (IsA(node, Aggref) || IsA(node, GroupingFunc) || IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		context->parts = list_append_unique(context->parts, node);
		return false;
	}
	return expression_tree_walker(node, find_parts, context);
}

static int
count_keys(const PathTarget *target)
{
	int			n = 0;
	ListCell   *cell;

	foreach(cell, target->exprs)
		n += IsA(lfirst(cell), Aggref) ? 0 : 1;
	return n;
}

/* The keys, and partial aggregates, of which the query's result is made; NULL: they are not all known. */
static PathTarget *
partial_target(PlannerInfo *root, const RelOptInfo *grouped, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	PartsContext context = {0};
	List	   *others = NIL;

	if (!add_group_keys(root, grouped, target, &others))
		return NULL;
	if (having != NULL)
		others = lappend(others, having);
	context.keys = list_copy(target->exprs);
	find_parts((Node *) others, &context);
	add_new_columns_to_pathtarget(target, context.parts);
	if (!make_partial(target, root->parse->groupClause != NIL) || target->exprs == NIL ||
		count_keys(target) > ROSE_VEC_GROUP_COLUMNS)
		return NULL;
	return set_pathtarget_cost_width(root, target);
}

static void
add_columns(PathTarget *target, const Node *expr)
{
	if (expr != NULL)
		add_new_columns_to_pathtarget(target, rose_node_expr_columns(expr));
}

/* The columns that they take. */
static PathTarget *
scan_target(PlannerInfo *root, const PathTarget *partial)
{
	PathTarget *target = create_empty_pathtarget();
	ListCell   *cell;

	foreach(cell, partial->exprs)
	{
		const Node *node;

		if (IsA(lfirst(cell), Aggref))
		{
			(void) rose_node_agg_kind(lfirst_node(Aggref, cell), &node);
			add_columns(target, (const Node *) lfirst_node(Aggref, cell)->aggfilter);
		}
		else
			(void) rose_node_group_key_kind(lfirst(cell), InvalidOid, &node);
		add_columns(target, node);
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
	if ((grouping->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
	{
		rose_node_distinct_add_paths(root, input, grouped, extra);
		return;
	}
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
