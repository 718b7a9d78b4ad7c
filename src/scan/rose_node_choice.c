/*-------------------------------------------------------------------------
 *
 * rose_node_choice.c
 *	  Rose Choice: groups by a Rose Aggregate, or row by row, as it turns out.
 *
 * Estimates of groups may be wrong by far, and partial states that are nearly as many as rows cost more than they save.  So this node has two
 * plans of the same result: core's Finalize Aggregate over a Rose Aggregate, and core's aggregate of the rows.  It begins with the first.
 * Before a Rose Aggregate gives out anything it may say that it is not worth it (rose_node_group_pass.c): it retreats, which looks above
 * as if there were no rows, and so nothing was given out here either.  Then the second plan is run instead, from the start.
 *
 * So conditions are asked twice of some rows: there is no choice, and no Rose Aggregate with groups of a large table, where they are volatile, or have
 * subplans, which may be.
 * Both plans have the query's expressions over aggregates, which therefore must have no subplans.
 *
 * Who has retreated does not try again when it is run again.  What the first plan has in memory stays until the end.
 *
 * Forward only; one process.  Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "nodes/extensible.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/ruleutils.h"

#include "compat/rose_compat_explain.h"
#include "scan/rose_node.h"
#include "scan/rose_node_choice.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_project.h"
#include "scan/rose_node_state.h"

typedef struct RoseNodeChoice
{
	CustomScanState css;		/* first */
	PlanState  *vectors;
	PlanState  *rows;
	RoseNodeGroup *group;		/* of vectors */
	bool		retreated;		/* it is by rows */
} RoseNodeChoice;

static Plan *choice_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						 List *clauses, List *children);

static const CustomPathMethods choice_path_methods = {
	.CustomName = "Rose Choice",
	.PlanCustomPath = choice_plan,
};

static const CustomExecMethods choice_exec_methods;

/* ---- planning ---- */

bool
rose_node_choice_is_safe(const RelOptInfo *input, const RelOptInfo *grouped, const Node *having)
{
	ListCell   *cell;

	foreach(cell, input->baserestrictinfo)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, cell)->clause;

		/* what is in a subplan is not looked at */
		if (contain_volatile_functions(clause) || contain_subplans(clause))
			return false;
	}
	/* columns of a plan are found by what they compute: two that are alike, and volatile, would be one */
	return !contain_volatile_functions((Node *) input->reltarget->exprs) &&
		!contain_volatile_functions((Node *) grouped->reltarget->exprs) &&
		!contain_subplans((Node *) grouped->reltarget->exprs) &&
		!contain_subplans(unconstify(Node *, having));
}

Path *
rose_node_choice_path(Path *vectors, Path *rows)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = vectors->parent;
	path->path.pathtarget = vectors->pathtarget;
	path->path.pathkeys = vectors->pathkeys;
	path->path.rows = vectors->rows;
	path->path.startup_cost = vectors->startup_cost;
	path->path.total_cost = vectors->total_cost;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(vectors, rows);
	path->methods = &choice_path_methods;
	return &path->path;
}

static Plan *
choice_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			List *children)
{
	CustomScan *choice = makeNode(CustomScan);

	choice->scan.plan.targetlist = tlist;
	choice->scan.scanrelid = 0;
	choice->flags = path->flags;
	choice->custom_plans = children;
	choice->custom_scan_tlist = copyObject(((Plan *) linitial(children))->targetlist);
	choice->methods = &rose_node_choice_methods;
	return &choice->scan.plan;
}

/* ---- execution ---- */

static Node *
choice_create(CustomScan *plan)
{
	RoseNodeChoice *choice = palloc0(sizeof(RoseNodeChoice));

	NodeSetTag(choice, T_CustomScanState);
	choice->css.methods = &choice_exec_methods;
	return (Node *) choice;
}

static void
choice_begin(CustomScanState *css, EState *estate, int eflags)
{
	RoseNodeChoice *choice = (RoseNodeChoice *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	PlanState  *below;

	choice->vectors = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	choice->rows = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	css->custom_ps = list_make2(choice->vectors, choice->rows);
	/* core's node that finishes, perhaps over one that sorts */
	below = outerPlanState(choice->vectors);
	if (!IsA(below, CustomScanState))
		below = outerPlanState(below);
	choice->group = (RoseNodeGroup *) castNode(CustomScanState, below);
	choice->group->may_retreat = true;
	rose_node_group_pass_reset(choice->group);
}

static TupleTableSlot *
choice_exec(CustomScanState *css)
{
	RoseNodeChoice *choice = (RoseNodeChoice *) css;
	TupleTableSlot *slot = NULL;

	if (!choice->retreated)
	{
		slot = ExecProcNode(choice->vectors);
		choice->retreated = TupIsNull(slot) && choice->group->retreated;
	}
	if (choice->retreated)
		slot = ExecProcNode(choice->rows);
	return rose_node_pass_on(&css->ss, slot);
}

static void
choice_rescan(CustomScanState *css)
{
	RoseNodeChoice *choice = (RoseNodeChoice *) css;
	PlanState  *child = choice->retreated ? choice->rows : choice->vectors;

	if (css->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(choice->vectors, css->ss.ps.chgParam);
		UpdateChangedParamSet(choice->rows, css->ss.ps.chgParam);
	}
	/* who has parameters that changed is told so when it is run */
	if (child->chgParam == NULL)
		ExecReScan(child);
}

static void
choice_end(CustomScanState *css)
{
	RoseNodeChoice *choice = (RoseNodeChoice *) css;

	ExecEndNode(choice->vectors);
	ExecEndNode(choice->rows);
}

static void
choice_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	if (es->analyze)
		ExplainPropertyText("Chosen", ((RoseNodeChoice *) css)->retreated ? "rows" : "vectors", es);
}

static const CustomExecMethods choice_exec_methods = {
	.CustomName = "Rose Choice",
	.BeginCustomScan = choice_begin,
	.ExecCustomScan = choice_exec,
	.EndCustomScan = choice_end,
	.ReScanCustomScan = choice_rescan,
	.ExplainCustomScan = choice_explain,
};

const CustomScanMethods rose_node_choice_methods = {
	.CustomName = "Rose Choice",
	.CreateCustomScanState = choice_create,
};
