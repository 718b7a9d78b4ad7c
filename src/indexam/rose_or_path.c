/*-------------------------------------------------------------------------
 *
 * rose_or_path.c
 *	  Conditions joined by OR: what the planner is told.
 *
 * Core answers "a = 1 OR b = 2" by a bitmap of TIDs, out of two indexes.  A rose table has
 * no bitmaps, since to know a row's TID is to have looked it up.  So one scan does it that
 * reads each arm's rows through an index, and leaves out those that an arm before has
 * given already (rose_or_scan.c).
 *
 * For each arm core is asked which index scans there are, as if the table had that
 * condition in place of the whole (rose_index_paths.c).  The cheapest ones are children of the scan.
 *
 * Backend-local; planning takes locks before us.  Conditions of joins, and arms
 * that are not on the table alone, are left to core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"

#include "compat/rose_compat_plan.h"
#include "indexam/rose_index_paths.h"
#include "indexam/rose_indexam.h"
#include "indexam/rose_or.h"

static Plan *or_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					 List *clauses, List *children);

static const CustomPathMethods or_path_methods = {
	.CustomName = "Rose Or Scan",
	.PlanCustomPath = or_plan,
};

/* ---- one arm ---- */

/* The conditions of an arm of OR: itself, or those that it joins by AND. */
static List *
conditions_of_arm(Node *arm)
{
	if (is_andclause(arm))
		return list_copy(((BoolExpr *) arm)->args);
	return list_make1(arm);
}

/* Conditions of the table that hold beside this one, row by row. */
static List *
other_conditions(RelOptInfo *rel, RestrictInfo *without)
{
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo != without && !rinfo->pseudoconstant)
			others = lappend(others, rinfo);
	}
	return others;
}

/* The cheapest index scan for an arm, or NULL. */
static Path *
path_of_arm(PlannerInfo *root, RelOptInfo *rel, Node *arm, List *others)
{
	List	   *paths = rose_index_paths(root, rel, list_concat(conditions_of_arm(arm), others), NULL);
	Path	   *best = NULL;
	ListCell   *cell;

	foreach(cell, paths)
	{
		Path	   *path = lfirst(cell);

		if (best == NULL || path->total_cost < best->total_cost)
			best = path;
	}
	return best;
}

/* ---- the scan ---- */

/* What the children cost, and for each row the arms before; then what is selected. */
static void
cost_or(CustomPath *path, RelOptInfo *rel)
{
	Cost		total = 0;
	double		rows = 0;
	ListCell   *cell;

	foreach(cell, path->custom_paths)
	{
		Path	   *child = lfirst(cell);

		total += child->total_cost +
			child->rows * cpu_operator_cost * (double) foreach_current_index(cell);
		rows += child->rows;
		rose_path_add_disabled(&path->path, child);
	}
	path->path.rows = rel->rows;
	path->path.startup_cost = ((Path *) linitial(path->custom_paths))->startup_cost +
		path->path.pathtarget->cost.startup;
	path->path.total_cost = path->path.pathtarget->cost.startup + total + rows * cpu_operator_cost +
		path->path.pathtarget->cost.per_tuple * rel->rows;
}

static void
add_path_for(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo)
{
	CustomPath *path = makeNode(CustomPath);
	List	   *others = other_conditions(rel, rinfo);
	ListCell   *cell;

	foreach(cell, ((BoolExpr *) rinfo->orclause)->args)
	{
		Path	   *child = path_of_arm(root, rel, lfirst(cell), others);

		if (child == NULL)
			return;
		path->custom_paths = lappend(path->custom_paths, child);
	}
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make1(rinfo);
	path->methods = &or_path_methods;
	cost_or(path, rel);
	add_path(rel, &path->path);
}

/*
 * An arm is evaluated for rows that another one has found, once more than core would.  These
 * rows have met all other conditions, so who may see only some does not hear of others.
 */
static bool
may_repeat(RestrictInfo *rinfo)
{
	return !contain_volatile_functions((Node *) rinfo->clause);
}

/* A subquery in them would have several places. */
static bool
has_subplans(RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
		if (contain_subplans((Node *) lfirst_node(RestrictInfo, cell)->clause))
		return true;
	return false;
}

void
rose_or_add_paths(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *cell;

	if (rel->indexlist == NIL || !rose_primary_key_is_planned(linitial_node(IndexOptInfo, rel->indexlist)) ||
		!bms_is_empty(rel->lateral_relids) || IS_DUMMY_REL(rel))
		return;
	foreach(cell, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->orclause != NULL && may_repeat(rinfo) && !has_subplans(rel))
			add_path_for(root, rel, rinfo);
	}
}

static Plan *
or_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		List *children)
{
	CustomScan *scan = makeNode(CustomScan);
	RestrictInfo *rinfo = linitial_node(RestrictInfo, path->custom_private);
	ListCell   *cell;

	/* we take the row that they are at, not what they make of it */
	foreach(cell, children)
		((Plan *) lfirst(cell))->targetlist = NIL;
	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->custom_plans = children;
	scan->custom_exprs = list_make2(copyObject(((BoolExpr *) rinfo->clause)->args),
									copyObject(extract_actual_clauses(clauses, false)));
	scan->methods = &rose_or_scan_methods;
	return &scan->scan.plan;
}
