/*-------------------------------------------------------------------------
 *
 * rose_exact_statement.h
 *	  Which statements use ctids of rose tables.
 *
 * Such statements are exact (lsm/read/rose_tid.h), which costs time where versions have
 * moved since the transaction began, and are not planned in parallel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_EXACT_STATEMENT_H
#define ROSE_EXACT_STATEMENT_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"

/*
 * Plan a query by whoever is called so; the plan is marked if it uses ctids of rose
 * tables.
 */
extern PlannedStmt *rose_exact_statement_plan(planner_hook_type plan, Query *query, const char *text,
											  int options, ParamListInfo params);
extern bool rose_exact_statement_is_marked(const PlannedStmt *stmt);

#endif							/* ROSE_EXACT_STATEMENT_H */
