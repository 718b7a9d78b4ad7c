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
 * Groups that are known to be told apart as core tells them apart are given out whole: if they do not all fit into memory, rows go to tapes (rose_node_group_spill.c).  Then there is
 * nothing to put together, and they are finished here (rose_node_finish.c); core's Finalize Aggregate is not run.  So it is worth grouping also where groups
 * have few rows, or where there are many, and a Rose Aggregate does not retreat from these.
 *
 * The first plan may also be one that is good for whole groups alone: of distinct values core counts as many as there are groups, if none comes twice
 * (rose_node_distinct_paths.c).
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
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "utils/ruleutils.h"

#include "compat/rose_compat_explain.h"
#include "compat/rose_compat_plan.h"
#include "scan/rose_node.h"
#include "scan/rose_node_choice.h"
#include "scan/rose_node_finish.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_project.h"
#include "scan/rose_node_state.h"
#include "scan/rose_node_top.h"

/* Groups for which core's hash tables have room at the start where they are probably not needed. */
#define FEW_GROUPS		1024

/* custom_private */
typedef enum RoseNodeChoicePrivate
{
	ROSE_CHOICE_KIND,			/* RoseNodeChoiceKind */
	ROSE_CHOICE_LIMIT,			/* of rose_node_top.h; 0: all groups are wanted */
	ROSE_CHOICE_DESCENDING,
	ROSE_CHOICE_COLUMN,
	ROSE_CHOICE_PRIVATE
} RoseNodeChoicePrivate;

/* Who makes results of what the Rose Aggregate gives out. */
typedef enum RoseNodeFinisher
{
	ROSE_FINISH_UNKNOWN,
	ROSE_FINISH_HERE,
	ROSE_FINISH_CORE
} RoseNodeFinisher;

typedef struct RoseNodeChoice
{
	CustomScanState css;		/* first */
	PlanState  *vectors;
	PlanState  *rows;
	RoseNodeGroup *group;		/* of vectors */
	bool		retreated;		/* it is by rows */
	RoseNodeFinish *finish;		/* or NULL: groups may come in parts, or be equal */
	RoseNodeFinisher finisher;
	RoseNodeTop *top;			/* which of the groups that are finished here are wanted; NULL: all */
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
rose_node_choice_is_wanted(const RelOptInfo *input)
{
	if (rose_node_aggregate_sample < 0)
		return input->tuples >= ROSE_CHOICE_MIN_ROWS;
	return rose_node_aggregate_sample > 0;
}

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

/* Where there is no table of core's, it costs nothing. */
static Cost
cost_of_table(PlannerInfo *root, const AggPath *agg)
{
	AggClauseCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	return agg->subpath->rows *
		(cpu_tuple_cost + costs.transCost.per_tuple + list_length(agg->groupClause) * cpu_operator_cost);
}

Path *
rose_node_choice_path(PlannerInfo *root, Path *vectors, Path *rows, RoseNodeChoiceKind kind)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = vectors->parent;
	path->path.pathtarget = vectors->pathtarget;
	path->path.pathkeys = vectors->pathkeys;
	path->path.rows = vectors->rows;
	path->path.startup_cost = vectors->startup_cost;
	path->path.total_cost = vectors->total_cost;
	rose_path_add_disabled(&path->path, vectors);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(vectors, rows);
	path->custom_private = list_make4_int(kind, 0, 0, 0);
	path->methods = &choice_path_methods;
	if (kind == ROSE_CHOICE_FINISH)
	{
		const AggPath *agg = castNode(AggPath, vectors);
		Cost		saved = Min(cost_of_table(root, agg), vectors->total_cost - agg->subpath->total_cost);

		path->path.total_cost -= saved;
		path->path.startup_cost = Max(path->path.startup_cost - saved, agg->subpath->startup_cost);
	}
	return &path->path;
}

void
rose_node_choice_set_top(Path *choice, const RoseNodeTopPlan *top)
{
	List	   *list = castNode(CustomPath, choice)->custom_private;

	lfirst_int(list_nth_cell(list, ROSE_CHOICE_LIMIT)) = top->limit;
	lfirst_int(list_nth_cell(list, ROSE_CHOICE_DESCENDING)) = top->descending;
	lfirst_int(list_nth_cell(list, ROSE_CHOICE_COLUMN)) = top->column;
}

static Plan *
choice_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			List *children)
{
	CustomScan *choice = makeNode(CustomScan);
	ListCell   *cell;

	foreach(cell, children)
	{
		Agg		   *agg = lfirst(cell);

		if (list_nth_int(path->custom_private, ROSE_CHOICE_KIND) == ROSE_CHOICE_FINISH && IsA(agg, Agg))
			agg->numGroups = Min(agg->numGroups, FEW_GROUPS);
	}
	choice->scan.plan.targetlist = tlist;
	choice->scan.scanrelid = 0;
	choice->flags = path->flags;
	choice->custom_plans = children;
	choice->custom_private = path->custom_private;
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
	int			kind;

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
	kind = list_nth_int(plan->custom_private, ROSE_CHOICE_KIND);
	choice->group->must_be_whole = choice->group->whole_pays = kind == ROSE_CHOICE_WHOLE;
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	if (kind == ROSE_CHOICE_FINISH)
	{
		choice->finish = rose_node_finish_create(&css->ss.ps, choice->vectors);
		choice->group->whole_pays = choice->finish != NULL;
	}
	if (choice->group->whole_pays)
		rose_node_group_spill_init(choice->group);
	if (kind != ROSE_CHOICE_FINISH)
		return;
	choice->group->top_target = list_nth_int(plan->custom_private, ROSE_CHOICE_COLUMN);
	if (choice->finish != NULL && list_nth_int(plan->custom_private, ROSE_CHOICE_LIMIT) > 0)
		choice->top = rose_node_top_create(list_nth_int(plan->custom_private, ROSE_CHOICE_LIMIT),
										   list_nth_int(plan->custom_private, ROSE_CHOICE_DESCENDING) != 0);
}

static bool
is_plain(const RoseNodeChoice *choice)
{
	return castNode(Agg, choice->vectors->plan)->aggstrategy == AGG_PLAIN;
}

/* Groups are made, as far as they fit; if each is whole, they are finished here. */
static void
find_finisher(RoseNodeChoice *choice)
{
	PlanState  *group = &choice->group->css.ss.ps;

	/* what has parameters that changed is told so now */
	if (choice->vectors->chgParam != NULL)
		ExecReScan(choice->vectors);
	if (group->chgParam != NULL)
		ExecReScan(group);
	choice->finisher = ROSE_FINISH_CORE;
	choice->group->top = NULL;
	if (choice->finish != NULL && rose_node_group_are_whole(choice->group))
	{
		choice->finisher = ROSE_FINISH_HERE;
		choice->group->top = choice->top;
		if (choice->top != NULL)
			choice->top->n = 0;
	}
	/* an aggregate without keys would make a row of nothing, and perhaps fail */
	else if (choice->group->must_be_whole && is_plain(choice))
		(void) rose_node_group_are_whole(choice->group);
}

static TupleTableSlot *
next_by_vectors(RoseNodeChoice *choice)
{
	if (choice->finisher == ROSE_FINISH_UNKNOWN)
		find_finisher(choice);
	if (choice->group->retreated)
		return NULL;
	if (choice->finisher == ROSE_FINISH_HERE)
		return rose_node_finish_next(choice->finish);
	return ExecProcNode(choice->vectors);
}

static TupleTableSlot *
choice_exec(CustomScanState *css)
{
	RoseNodeChoice *choice = (RoseNodeChoice *) css;
	TupleTableSlot *slot = NULL;

	if (!choice->retreated)
	{
		slot = next_by_vectors(choice);
		/* then it gave out nothing, and what core has made of that is nothing */
		choice->retreated = choice->group->retreated;
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
	if (choice->retreated)
		return;
	if (choice->group->must_be_whole && is_plain(choice))
		choice->finisher = ROSE_FINISH_UNKNOWN;
	/* core's node, if it was run, may keep what it has, so it is run again; else it knows nothing of the node below */
	if (choice->finisher != ROSE_FINISH_HERE)
		return;
	choice->finisher = ROSE_FINISH_UNKNOWN;
	if (choice->group->css.ss.ps.chgParam == NULL)
		ExecReScan(&choice->group->css.ss.ps);
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
	const RoseNodeChoice *choice = (RoseNodeChoice *) css;

	if (!es->analyze)
		return;
	ExplainPropertyText("Chosen", choice->retreated ? "rows" : "vectors", es);
	if (choice->finish != NULL && choice->finisher != ROSE_FINISH_UNKNOWN && !choice->retreated)
		ExplainPropertyText("Finalized", choice->finisher == ROSE_FINISH_HERE ? "here" : "below", es);
	if (choice->group->skipped > 0)
		ExplainPropertyUInteger("Groups Not Among the First", NULL, choice->group->skipped, es);
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
