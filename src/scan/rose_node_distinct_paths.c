/*-------------------------------------------------------------------------
 *
 * rose_node_distinct_paths.c
 *	  Aggregates of distinct values over a Rose Aggregate: what the planner is told.
 *
 * Core has no parts of an aggregate with DISTINCT: it sorts the values of each group, and leaves out those that are there.  How often a value
 * comes is nothing to it.  So where all aggregates of a query are of one value, with DISTINCT or such that it makes no difference, it gets
 * groups by the query's keys and that value, without aggregates, in the place of rows, and does what it would do with these.  Beside
 * other aggregates the groups have partial states of these, and core computes something else of the same value (rose_node_distinct_mixed.c).
 *
 * It may get a group any number of times, but for none.  So nothing depends on what is equal to whom: a Rose Aggregate tells values apart by bytes, and
 * core puts together what is equal by the type's function.  Nor does anything on memory, or on how many groups there are: where groups are nearly
 * as many as rows, rows are passed on (rose_node_group_pass.c), which is what core would have got.
 *
 * If bytes tell what is equal, each group may come once, as rows of groups that do not fit into memory go to tapes (rose_node_group_spill.c): then core need
 * not sort values to find those that are distinct, and aggregates without DISTINCT say the same.  That is another plan, of a large table, which has the first
 * one to fall back on (rose_node_choice.c).
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_aggregate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

#include "compat/rose_compat_plan.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_choice.h"
#include "scan/rose_node_distinct.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_scan.h"

/* Rows of a group, on average, for it to be worth anything. */
#define MIN_ROWS_PER_GROUP	2

/* What a query is made of. */
typedef struct Parts
{
	PathTarget *target;			/* the columns by which it groups, then others that these determine */
	List	   *keys;			/* those columns */
	const Expr *argument;		/* of aggregates with DISTINCT; NULL: there was none yet */
	Oid			equality;		/* by which its values are told apart */
	List	   *others;			/* Aggrefs without */

	/* what core is to compute */
	RoseNodeMixed mixed;
	bool		failed;			/* nobody knows how */
	PathTarget *result;
	List	   *having;
} Parts;

/* ---- is it one of those queries? ---- */

/* Of equal values that look different it is not defined which one is left; of these it does not show. */
static bool
is_of_distinct(Oid function)
{
	switch (function)
	{
		case F_COUNT_ANY:
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
			return true;
		default:
			return false;
	}
}

/* Is it of the same value, and as good if this comes more often, or less? */
static bool
is_indifferent(const Parts *parts, const Aggref *aggref)
{
	const Node *column;

	if (aggref->aggfilter != NULL || list_length(aggref->args) != 1 ||
		!equal(linitial_node(TargetEntry, aggref->args)->expr, parts->argument))
		return false;
	switch (rose_node_agg_kind(aggref, &column))
	{
		case ROSE_AGG_MIN:
		case ROSE_AGG_MAX:
		case ROSE_AGG_AND:
		case ROSE_AGG_OR:
			return true;
		default:
			return false;
	}
}

/* One with DISTINCT: is it of the same value as the others? */
static bool
takes_distinct(Parts *parts, const Aggref *aggref)
{
	const Expr *argument;

	if (aggref->aggkind != AGGKIND_NORMAL || aggref->agglevelsup > 0 || aggref->aggvariadic ||
		aggref->aggfilter != NULL || aggref->aggorder != NIL || list_length(aggref->args) != 1)
		return false;
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	if (parts->argument != NULL && !equal(parts->argument, argument))
		return false;
	parts->argument = argument;
	parts->equality = linitial_node(SortGroupClause, aggref->aggdistinct)->eqop;
	return is_of_distinct(aggref->aggfnoid);
}

static bool
takes_aggregate(Parts *parts, Aggref *aggref)
{
	if (aggref->aggdistinct != NIL)
		return takes_distinct(parts, aggref);
	parts->others = list_append_unique(parts->others, aggref);
	return true;
}

/* Looks at an expression of which the result is made.  True: there is something that groups alone do not tell. */
static bool
find_strange(Node *node, Parts *parts)
{
	const Node *column;

	if (node == NULL || list_member(parts->keys, node))
		return false;
	if (IsA(node, Aggref))
		return !takes_aggregate(parts, castNode(Aggref, node));
	if (IsA(node, Var))
	{
		/* one that the keys determine */
		if (rose_node_group_key_kind(node, InvalidOid, &column) == ROSE_KEY_NONE || !IsA(column, Var))
			return true;
		add_new_column_to_pathtarget(parts->target, (Expr *) node);
		return false;
	}
	if (IsA(node, PlaceHolderVar) || IsA(node, GroupingFunc) || IsA(node, WindowFunc))
		return true;
	return expression_tree_walker(node, find_strange, parts);
}

/* False: Rose Aggregate cannot group by all of them. */
static bool
find_keys(PlannerInfo *root, const RelOptInfo *grouped, Parts *parts)
{
	int			i = 0;
	ListCell   *cell;

	foreach(cell, grouped->reltarget->exprs)
	{
		Expr	   *expr = lfirst(cell);
		const Node *column;
		Oid			equality;

		if (!rose_node_group_is_key(root, grouped->reltarget, i++, &equality))
			continue;
		if (rose_node_group_key_kind((Node *) expr, equality, &column) == ROSE_KEY_NONE)
			return false;
		add_column_to_pathtarget(parts->target, expr,
								 get_pathtarget_sortgroupref(grouped->reltarget, i - 1));
	}
	parts->keys = list_copy(parts->target->exprs);
	return true;
}

/* The same, with what core computes from groups in the place of aggregates. */
static Node *
replace(Node *node, Parts *parts)
{
	Expr	   *expr;

	if (node == NULL || list_member(parts->keys, node))
		return node;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, replace, parts);
	expr = rose_node_mixed_replace(&parts->mixed, castNode(Aggref, node));
	parts->failed |= expr == NULL;
	return (Node *) expr;
}

/* Beside those with DISTINCT there are aggregates to which it makes a difference how often a value comes; false: unknown ones. */
static bool
find_mixed(const RelOptInfo *grouped, Node *having, Parts *parts)
{
	PathTarget *result = create_empty_pathtarget();
	int			i = 0;
	ListCell   *cell;

	foreach(cell, grouped->reltarget->exprs)
		add_column_to_pathtarget(result, (Expr *) replace(lfirst(cell), parts),
								 get_pathtarget_sortgroupref(grouped->reltarget, i++));
	parts->having = (List *) replace(having, parts);
	parts->result = result;
	return !parts->failed;
}

/* Is the query one of these?  Then parts->target is what Rose Aggregate gives out, and result and having what core makes of it. */
static bool
find_parts(PlannerInfo *root, RelOptInfo *grouped, Node *having, Parts *parts)
{
	bool		is_mixed = false;
	const Node *column;
	ListCell   *cell;

	parts->target = create_empty_pathtarget();
	if (!find_keys(root, grouped, parts) ||
		find_strange((Node *) grouped->reltarget->exprs, parts) || find_strange(having, parts) ||
		!OidIsValid(parts->equality) ||
		rose_node_group_key_kind((const Node *) parts->argument, parts->equality, &column) == ROSE_KEY_NONE)
		return false;
	add_new_column_to_pathtarget(parts->target, unconstify(Expr *, parts->argument));
	foreach(cell, parts->others)
		is_mixed |= !is_indifferent(parts, lfirst_node(Aggref, cell));
	parts->result = grouped->reltarget;
	parts->having = (List *) having;
	return !is_mixed || find_mixed(grouped, having, parts);
}

/* ---- where each group comes once ---- */

/* The same, with each value taken as one that is distinct. */
static Node *
without_distinct(Node *node, void *nothing)
{
	Aggref	   *aggref;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, without_distinct, nothing);
	aggref = copyObject((Aggref *) node);
	if (aggref->aggdistinct != NIL)
		linitial_node(TargetEntry, aggref->args)->ressortgroupref = 0;
	aggref->aggdistinct = NIL;
	return (Node *) aggref;
}

static PathTarget *
target_without_distinct(PlannerInfo *root, const PathTarget *target)
{
	PathTarget *result = create_empty_pathtarget();
	int			i = 0;
	ListCell   *cell;

	foreach(cell, target->exprs)
		add_column_to_pathtarget(result, (Expr *) without_distinct(lfirst(cell), NULL),
								 get_pathtarget_sortgroupref(target, i++));
	return set_pathtarget_cost_width(root, result);
}

/* May it be tried that each comes once?  exprs: those of groups. */
static bool
may_be_whole(PlannerInfo *root, const RelOptInfo *input, const RelOptInfo *grouped, const Node *having, List *exprs)
{
	return rose_node_choice_is_wanted(input) && rose_node_choice_is_safe(input, grouped, having) &&
		rose_node_group_keys_are_exact(exprs) && grouping_is_hashable(rose_group_clause(root));
}

/* ---- paths ---- */

static PathTarget *
columns_of(PlannerInfo *root, const PathTarget *target)
{
	PathTarget *columns = create_empty_pathtarget();

	add_new_columns_to_pathtarget(columns, pull_var_clause((Node *) target->exprs,
														   PVC_RECURSE_AGGREGATES));
	return set_pathtarget_cost_width(root, columns);
}

static double
count_groups(PlannerInfo *root, const RelOptInfo *input, List *exprs)
{
	return exprs == NIL ? 1 : rose_node_group_estimate(root, exprs, input->rows);
}

/* What is common to the paths. */
typedef struct DistinctRequest
{
	PlannerInfo *root;
	RelOptInfo *input;
	RelOptInfo *grouped;
	Parts	   *parts;
	double		ngroups;		/* expected, with what is distinct ... */
	double		nresults;		/* ... and without */
} DistinctRequest;

/*
 * The groups of the scan's rows, by keys and what is distinct.  That some may go to tapes costs nothing: core says of its own plan that it costs nothing to
 * sort the rows of a group, which go to the disk just as well.
 */
static CustomPath *
groups_path(const DistinctRequest *request, CustomPath *scan)
{
	CustomPath *groups = rose_node_agg_path(request->root, request->grouped, request->parts->target, scan);

	groups->custom_private = list_make2_int(false, (int) Min(request->ngroups, INT_MAX));
	rose_node_cost_groups(request->root, groups, &scan->path, request->ngroups);
	return groups;
}

static Path *
core_path(const DistinctRequest *request, Path *path, PathTarget *target, AggStrategy strategy, List *having)
{
	PlannerInfo *root = request->root;
	AggClauseCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);
	return (Path *) create_agg_path(root, request->grouped, path, target,
									root->parse->groupClause != NIL ? strategy : AGG_PLAIN,
									AGGSPLIT_SIMPLE, rose_group_clause(root), having, &costs, request->nresults);
}

/* Core's aggregate of groups that may come any number of times. */
static Path *
parts_path(const DistinctRequest *request, CustomPath *scan)
{
	PlannerInfo *root = request->root;
	CustomPath *groups = groups_path(request, scan);
	Path	   *path = &groups->path;

	if (scan->path.parallel_workers > 0)
		path = rose_node_agg_gather_path(root, groups);
	/* by what the query groups; since 16 also by what is distinct, if that is to be sorted */
	if (root->group_pathkeys != NIL)
		path = (Path *) create_sort_path(root, request->grouped, path, root->group_pathkeys, -1.0);
	return core_path(request, path, request->parts->result, AGG_SORTED, request->parts->having);
}

/* Core's aggregate of groups that come once; else of the others. */
static Path *
whole_path(const DistinctRequest *request, CustomPath *scan)
{
	PathTarget *target = target_without_distinct(request->root, request->parts->result);
	List	   *having = (List *) without_distinct((Node *) request->parts->having, NULL);
	Path	   *whole = core_path(request, &groups_path(request, scan)->path, target, AGG_HASHED, having);

	return rose_node_choice_path(request->root, whole, parts_path(request, scan), ROSE_CHOICE_WHOLE);
}

static void
add_distinct(const DistinctRequest *request, Path *path)
{
	if (path->pathtarget != request->grouped->reltarget)
		path = &rose_node_distinct_path(path, request->grouped->reltarget)->path;
	add_path(request->grouped, path);
}

void
rose_node_distinct_add_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped, void *extra)
{
	const RangeTblEntry *rte = planner_rt_fetch(input->relid, root);
	Node	   *having = ((const GroupPathExtraData *) extra)->havingQual;
	Parts		parts = {0};
	DistinctRequest request = {root, input, grouped, &parts, 0, 0};
	PathTarget *columns;
	CustomPath *scan;
	bool		whole;

	if ((((const GroupPathExtraData *) extra)->flags & GROUPING_CAN_USE_SORT) == 0 ||
		!find_parts(root, grouped, having, &parts) || rose_node_group_is_row(input, parts.target->exprs))
		return;
	request.ngroups = count_groups(root, input, parts.target->exprs);
	request.nresults = count_groups(root, input, get_sortgrouplist_exprs(rose_group_clause(root), root->parse->targetList));
	whole = may_be_whole(root, input, grouped, having, parts.target->exprs);
	add_new_columns_to_pathtarget(parts.target, parts.mixed.partials);
	set_pathtarget_cost_width(root, parts.target);
	if ((!whole && request.ngroups * MIN_ROWS_PER_GROUP > input->rows) ||
		list_length(parts.target->exprs) > ROSE_VEC_GROUP_COLUMNS ||
		(!whole && !rose_node_group_fits_memory(parts.target, request.ngroups)))
		return;
	if (parts.result != grouped->reltarget)
		set_pathtarget_cost_width(root, parts.result);
	columns = columns_of(root, parts.target);
	scan = rose_node_scan_path(root, input, rte, columns);
	if (scan == NULL)
		return;
	add_distinct(&request, whole ? whole_path(&request, scan) : parts_path(&request, scan));
	scan = grouped->consider_parallel && request.ngroups * MIN_ROWS_PER_GROUP <= input->rows ?
		rose_node_scan_partial_path(root, input, rte, columns) : NULL;
	if (scan != NULL)
		add_distinct(&request, parts_path(&request, scan));
}
