/*-------------------------------------------------------------------------
 *
 * rose_node_distinct.c
 *	  Rose Distinct: a result that was computed otherwise than the query says.
 *
 * Of distinct values, beside aggregates that count rows, core's aggregate below computes the query's expressions from partial states, as
 * other expressions (rose_node_distinct_paths.c).  Nodes above look for the query's own ones in what is below them: so this
 * one has these, and passes on what came of it.
 *
 * Forward only.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "nodes/extensible.h"
#include "optimizer/tlist.h"

#include "compat/rose_compat_plan.h"
#include "scan/rose_node_distinct.h"
#include "scan/rose_node_project.h"

static Plan *distinct_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						   List *clauses, List *children);

static const CustomPathMethods distinct_path_methods = {
	.CustomName = "Rose Distinct",
	.PlanCustomPath = distinct_plan,
};

static const CustomExecMethods distinct_exec_methods;

CustomPath *
rose_node_distinct_path(Path *below, PathTarget *target)
{
	CustomPath *path = makeNode(CustomPath);

	Assert(list_length(below->pathtarget->exprs) == list_length(target->exprs));
	path->path.pathtype = T_CustomScan;
	path->path.parent = below->parent;
	path->path.pathtarget = target;
	path->path.pathkeys = below->pathkeys;
	path->path.rows = below->rows;
	path->path.startup_cost = below->startup_cost;
	path->path.total_cost = below->total_cost;
	rose_path_add_disabled(&path->path, below);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(below);
	path->methods = &distinct_path_methods;
	return path;
}

static Plan *
distinct_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			  List *children)
{
	CustomScan *distinct = makeNode(CustomScan);

	distinct->scan.plan.targetlist = tlist;
	distinct->scan.scanrelid = 0;
	distinct->flags = path->flags;
	distinct->custom_plans = children;
	distinct->custom_scan_tlist = copyObject(make_tlist_from_pathtarget(path->path.pathtarget));
	distinct->methods = &rose_node_distinct_methods;
	return &distinct->scan.plan;
}

/* ---- execution ---- */

static Node *
distinct_create(CustomScan *plan)
{
	CustomScanState *css = makeNode(CustomScanState);

	css->methods = &distinct_exec_methods;
	return (Node *) css;
}

static void
distinct_begin(CustomScanState *css, EState *estate, int eflags)
{
	const CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);

	css->custom_ps = list_make1(ExecInitNode(linitial(plan->custom_plans), estate, eflags));
}

static TupleTableSlot *
distinct_exec(CustomScanState *css)
{
	return rose_node_pass_on(&css->ss, ExecProcNode(linitial(css->custom_ps)));
}

static void
distinct_rescan(CustomScanState *css)
{
	PlanState  *child = linitial(css->custom_ps);

	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child, css->ss.ps.chgParam);
	/* who has parameters that changed is told so when it is run */
	if (child->chgParam == NULL)
		ExecReScan(child);
}

static void
distinct_end(CustomScanState *css)
{
	ExecEndNode(linitial(css->custom_ps));
}

static const CustomExecMethods distinct_exec_methods = {
	.CustomName = "Rose Distinct",
	.BeginCustomScan = distinct_begin,
	.ExecCustomScan = distinct_exec,
	.EndCustomScan = distinct_end,
	.ReScanCustomScan = distinct_rescan,
};

const CustomScanMethods rose_node_distinct_methods = {
	.CustomName = "Rose Distinct",
	.CreateCustomScanState = distinct_create,
};
