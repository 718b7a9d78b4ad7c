/*-------------------------------------------------------------------------
 *
 * rose_exact_statement.c
 *	  Which statements use ctids of rose tables.
 *
 * What a user writes as ctid is a variable in the query that the planner gets, whether it
 * comes from the statement, a view, a rule or a policy.  The planner adds more of them,
 * to name the rows that are to be changed or locked; nobody compares those, so they do
 * not count, and the query has to be looked at before it is planned.  Functions in SQL
 * that are called in FROM become part of the query only during planning: they are taken
 * for users of ctids.
 *
 * A plan may be kept and executed again, so the mark is in the plan: an item in the list
 * of what invalidates it, of a cache that does not exist.  Workers of a parallel plan do
 * not get it; but there is none for those that are marked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "nodes/primnodes.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "lsm/tree/rose_relation.h"
#include "tableam/rose_exact_statement.h"
#include "tableam/rose_tableam.h"

#define CTID_CACHE	(-7420)		/* no cache has a number below zero */

/* ---- the query ---- */

static bool
is_sql_function(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId;
	ReleaseSysCache(tuple);
	return result;
}

static bool
calls_sql_function(const RangeTblEntry *rte)
{
	ListCell   *cell;

	foreach(cell, rte->functions)
	{
		Node	   *call = lfirst_node(RangeTblFunction, cell)->funcexpr;

		if (IsA(call, FuncExpr) && is_sql_function(((FuncExpr *) call)->funcid))
			return true;
	}
	return false;
}

static bool
find_ctid(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varattno == SelfItemPointerAttributeNumber;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcid == F_CURRTID2)
				return true;
			break;
		case T_RangeTblEntry:
			return ((RangeTblEntry *) node)->rtekind == RTE_FUNCTION &&
				calls_sql_function((RangeTblEntry *) node);
		case T_Query:
			return query_tree_walker((Query *) node, find_ctid, context,
									 QTW_EXAMINE_RTES_BEFORE);
		default:
			break;
	}
	return expression_tree_walker(node, find_ctid, context);
}

/* ---- the plan ---- */

static bool
reads_rose(const PlannedStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);
		Relation	rel;
		bool		is_rose;

		if (rte->rtekind != RTE_RELATION || !RELKIND_HAS_TABLE_AM(rte->relkind))
			continue;
		rel = RelationIdGetRelation(rte->relid);
		if (rel == NULL)
			continue;
		is_rose = rose_relation_is_rose(rel);
		RelationClose(rel);
		if (is_rose)
			return true;
	}
	return false;
}

static void
mark(PlannedStmt *stmt)
{
	PlanInvalItem *item = makeNode(PlanInvalItem);

	item->cacheId = CTID_CACHE;
	stmt->invalItems = lappend(stmt->invalItems, item);
}

PlannedStmt *
rose_exact_statement_plan(planner_hook_type plan, Query *query, const char *source, int options,
						  ParamListInfo params)
{
	Query	   *again = NULL;
	PlannedStmt *stmt;

	if (likely(!find_ctid((Node *) query, NULL)))
		return plan(query, source, options, params);

	/* the planner leaves no query to plan once more, and knows all tables at its end only */
	if (options & CURSOR_OPT_PARALLEL_OK)
		again = copyObject(query);
	stmt = plan(query, source, options, params);
	if (!reads_rose(stmt))
		return stmt;
	if (stmt->parallelModeNeeded && again != NULL)
		stmt = plan(again, source, options & ~CURSOR_OPT_PARALLEL_OK, params);
	mark(stmt);
	return stmt;
}

bool
rose_exact_statement_is_marked(const PlannedStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->invalItems)
	{
		if (lfirst_node(PlanInvalItem, cell)->cacheId == CTID_CACHE)
			return true;
	}
	return false;
}
