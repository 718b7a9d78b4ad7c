/*-------------------------------------------------------------------------
 *
 * rose_node_group_explain.c
 *	  What EXPLAIN says of a Rose Aggregate with groups.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "utils/ruleutils.h"

#include "compat/rose_compat_explain.h"
#include "scan/rose_node_group.h"

static const char *const strategy_names[ROSE_GROUP_STRATEGIES] = {
	[ROSE_GROUP_ONE] = "one",
	[ROSE_GROUP_RUNS] = "runs",
	[ROSE_GROUP_DENSE] = "dense",
	[ROSE_GROUP_HASHED] = "hashed",
	[ROSE_GROUP_PASSED] = "passed",
};

/* How vectors found their groups, of all loops. */
static void
show_strategies(const RoseNodeGroup *group, ExplainState *es)
{
	StringInfoData said;

	initStringInfo(&said);
	for (int i = 0; i < ROSE_GROUP_STRATEGIES; i++)
		appendStringInfo(&said, "%s%s=" UINT64_FORMAT, i > 0 ? " " : "", strategy_names[i],
						 group->strategies[i]);
	ExplainPropertyText("Groups", said.data, es);
}

static void
show_memory(const RoseNodeGroup *group, ExplainState *es)
{
	ExplainPropertyUInteger("Flushes", NULL, group->flushes, es);
	ExplainPropertyUInteger("Group Memory", "kB", (group->table.peak + 1023) / 1024, es);
	if (rose_node_group_spill_batches(group) == 0)
		return;
	ExplainPropertyUInteger("Batches", NULL, rose_node_group_spill_batches(group), es);
	ExplainPropertyUInteger("Disk Usage", "kB", rose_node_group_spill_disk(group) / 1024, es);
}

void
rose_node_group_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	const RoseNodeGroup *group = (const RoseNodeGroup *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	List	   *aggs = NIL;
	List	   *keys = NIL;
	ListCell   *cell;

	foreach(cell, plan->custom_scan_tlist)
	{
		Node	   *expr = copyObject((Node *) lfirst_node(TargetEntry, cell)->expr);
		List	  **list = IsA(expr, Aggref) ? &aggs : &keys;

		if (IsA(expr, Aggref))
			((Aggref *) expr)->aggsplit = AGGSPLIT_SIMPLE;	/* "PARTIAL" would be said of each */
		*list = lappend(*list, deparse_expression(expr, context, es->verbose, false));
	}
	ExplainPropertyList(group->ordered ? "Ordered Group Key" : "Group Key", keys, es);
	if (aggs != NIL)
		ExplainPropertyList("Vectorized Aggregates", aggs, es);
	/* of several processes, what the workers did is not told */
	if (!es->analyze || ((Plan *) linitial(plan->custom_plans))->parallel_aware)
		return;
	show_strategies(group, es);
	show_memory(group, es);
}
