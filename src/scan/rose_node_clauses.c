/*-------------------------------------------------------------------------
 *
 * rose_node_clauses.c
 *	  Which condition of a Rose Scan is checked how.
 *
 * Key ranges select rows before anything is checked.  What is left of the conditions are filters,
 * which are checked for many rows at a time, and residual ones, which are checked row by row for
 * what the filters leave.
 *
 * So a filter is checked before residual conditions that core has put before it.  A row that one of these
 * hides must not become known by that: a condition of a higher security level overtakes only if it
 * is leakproof.  Nor does one overtake that evaluates what may fail, for rows that others would have left
 * out.  Nor is a volatile condition overtaken, since others may see how often it was asked.
 *
 * A filter that makes something of columns may fail for a row, and then it and all filters behind it are asked row by row, in this order
 * (rose_node_quals.c).  So it overtakes nothing.  Others, which cannot fail, come before it as they come before residual conditions.
 *
 * Backend-local; planning takes locks before us.  What filters can say is decided in rose_node_quals.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"

#include "scan/rose_node_quals.h"
#include "scan/rose_node_scan.h"

/* May a filter be checked before all of these? */
static bool
may_overtake(const RestrictInfo *rinfo, List *conditions)
{
	ListCell   *cell;

	foreach(cell, conditions)
	{
		RestrictInfo *before = lfirst_node(RestrictInfo, cell);

		if (rinfo->security_level > before->security_level && !rinfo->leakproof)
			return false;
		if (contain_volatile_functions((Node *) before))
			return false;
	}
	return true;
}

void
rose_node_clauses_split(RelOptInfo *rel, List *clauses, List *keys, RoseNodeClauses *split)
{
	List	   *last = NIL;		/* filters, from the first one that may fail for a row */
	ListCell   *cell;

	split->filters = split->residual = NIL;
	foreach(cell, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		Node	   *clause = (Node *) rinfo->clause;
		bool		computes;

		if (rinfo->pseudoconstant || is_redundant_with_indexclauses(rinfo, keys))
			continue;
		if (!rose_node_quals_takes(clause, rel->relid))
		{
			split->residual = lappend(split->residual, rinfo);
			continue;
		}
		computes = rose_node_quals_computes(clause, rel->relid);
		if (!computes && !rose_node_quals_evaluates(clause, rel->relid) &&
			may_overtake(rinfo, split->residual) && may_overtake(rinfo, last))
			split->filters = lappend(split->filters, rinfo);
		else if (split->residual != NIL)
			split->residual = lappend(split->residual, rinfo);
		else if (computes || last != NIL)
			last = lappend(last, rinfo);
		else
			split->filters = lappend(split->filters, rinfo);
	}
	split->filters = list_concat(split->filters, last);
}
