/*-------------------------------------------------------------------------
 *
 * rose_node_explain.c
 *	  What EXPLAIN says of a Rose Scan, and of a Rose Aggregate.
 *
 * Residual conditions are core's to show ("Filter").  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "nodes/makefuncs.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "compat/rose_compat_explain.h"
#include "scan/rose_node_scan.h"
#include "scan/rose_node_state.h"

static void
show_conditions(const char *label, List *conditions, CustomScanState *css, List *ancestors,
				ExplainState *es)
{
	List	   *context;

	if (conditions == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	ExplainPropertyText(label,
						deparse_expression((Node *) make_ands_explicit(conditions), context,
										   es->verbose, false),
						es);
}

static void
show_removed(const RoseNodeScan *scan, ExplainState *es)
{
	Instrumentation *instrument = scan->css.ss.ps.instrument;

	if (instrument == NULL || scan->filters == NULL)
		return;
	if (instrument->nfiltered2 > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat("Rows Removed by Vectorized Filter", NULL,
							 floor(instrument->nfiltered2 / Max(instrument->nloops, 1)), 0, es);
}

static void
show_columns(const RoseNodeScan *scan, ExplainState *es)
{
	TupleDesc	desc = RelationGetDescr(scan->css.ss.ss_currentRelation);
	int			there = 0;

	for (int i = 0; i < desc->natts; i++)
		there += !TupleDescAttr(desc, i)->attisdropped;
	ExplainPropertyText("Columns", psprintf("%d of %d", bms_num_members(scan->used), there), es);
}

/* What batches were: of all loops, and of all processes; nothing if the scan was never begun. */
static void
show_batches(const RoseNodeScan *scan, ExplainState *es)
{
	RoseNodeCounts all;
	const RoseBatchCounts *counts = &all.batches;

	if (scan->batches == NULL && scan->css.ss.ps.instrument->nloops == 0)
		return;
	rose_node_parallel_count(scan, &all);
	ExplainPropertyText("Batches",
						psprintf("leaves=" UINT64_FORMAT " (unread=" UINT64_FORMAT ")"
								 " memory=" UINT64_FORMAT " woven=" UINT64_FORMAT
								 " single=" UINT64_FORMAT,
								 counts->leaves, counts->unread_leaves, counts->memory,
								 counts->woven, counts->single), es);
}

void
rose_node_explain_scan(CustomScanState *css, List *ancestors, ExplainState *es)
{
	RoseNodeScan *scan = (RoseNodeScan *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);

	show_conditions("Key Range", list_nth(plan->custom_exprs, ROSE_NODE_KEYS), css, ancestors, es);
	show_conditions("Vectorized Filter", list_nth(plan->custom_exprs, ROSE_NODE_FILTERS), css,
					ancestors, es);
	if (es->analyze)
		show_removed(scan, es);
	if (es->verbose)
		show_columns(scan, es);
	if (es->analyze && es->verbose)
		show_batches(scan, es);
}

void
rose_node_explain_agg(CustomScanState *css, List *ancestors, ExplainState *es)
{
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, plan->custom_scan_tlist)
	{
		Aggref	   *aggref = copyObject(castNode(Aggref, lfirst_node(TargetEntry, cell)->expr));

		aggref->aggsplit = AGGSPLIT_SIMPLE; /* "PARTIAL" would be said of each */
		names = lappend(names, deparse_expression((Node *) aggref, context, es->verbose, false));
	}
	ExplainPropertyList("Vectorized Aggregates", names, es);
}
