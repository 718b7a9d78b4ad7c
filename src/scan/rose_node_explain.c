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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
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

/* As core shows the keys of a Sort. */
static void
show_order(StringInfo to, const ListCell *from, CustomScanState *css, List *context, bool verbose)
{
	Index		relid = ((Scan *) css->ss.ps.plan)->scanrelid;
	AttrNumber	attno = (AttrNumber) lfirst_int(from + ROSE_FIRST_ATTNO);
	const FormData_pg_attribute *attr = TupleDescAttr(RelationGetDescr(css->ss.ss_currentRelation), attno - 1);
	Oid			op = (Oid) lfirst_int(from + ROSE_FIRST_OPERATOR);
	Oid			collation = (Oid) lfirst_int(from + ROSE_FIRST_COLLATION);
	bool		nulls_first = lfirst_int(from + ROSE_FIRST_NULLS_FIRST) != 0;
	Oid			family;
	Oid			type;
	bool		descending;

	if (!rose_ordering_op(op, &family, &type, &descending))
		elog(ERROR, "operator %u is not a valid ordering operator", op);
	appendStringInfo(to, "%s%s", to->len > 0 ? ", " : "",
					 deparse_expression((Node *) makeVar(relid, attno, attr->atttypid, attr->atttypmod, attr->attcollation, 0),
										context, verbose, false));
	if (OidIsValid(collation) && collation != get_typcollation(attr->atttypid))
		appendStringInfo(to, " COLLATE %s", quote_identifier(get_collation_name(collation)));
	if (descending)
		appendStringInfoString(to, " DESC");
	if (nulls_first != descending)
		appendStringInfo(to, " NULLS %s", nulls_first ? "FIRST" : "LAST");
}

/* Of which order the first rows are given out, and how many were not. */
static void
show_first(const RoseNodeScan *scan, CustomScanState *css, List *ancestors, ExplainState *es)
{
	List	   *columns = list_copy_tail(castNode(CustomScan, css->ss.ps.plan)->custom_private, ROSE_NODE_PRIVATE);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	StringInfoData keys;
	RoseNodeCounts all;

	if (columns == NIL)
		return;
	initStringInfo(&keys);
	for (int i = 0; i < list_length(columns); i += ROSE_FIRST_PRIVATE)
		show_order(&keys, list_nth_cell(columns, i), css, context, es->verbose);
	ExplainPropertyText("Top Key", keys.data, es);
	if (!es->analyze || css->ss.ps.instrument == NULL)
		return;
	rose_node_parallel_count(scan, &all);
	if (all.behind > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat("Rows Removed by Top", NULL,
							 floor(all.behind / Max(css->ss.ps.instrument->nloops, 1)), 0, es);
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
	show_first(scan, css, ancestors, es);
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
