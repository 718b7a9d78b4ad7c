/*-------------------------------------------------------------------------
 *
 * rose_compat_plan.h
 *	  Releases of PostgreSQL whose planner differs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_PLAN_H
#define ROSE_COMPAT_PLAN_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* 16 leaves columns that are known to be equal or constant out of the list that plans group by; nothing is left if all are constant. */
#if PG_VERSION_NUM < 160000
#define rose_core_group_clause(root) ((root)->parse->groupClause)
#else
#define rose_core_group_clause(root) ((root)->processed_groupClause)
#endif

/* What a Rose Aggregate groups by: a query with GROUP BY always by something, so that there is no group where there is no row. */
#define rose_group_clause(root) \
	(rose_core_group_clause(root) != NIL ? rose_core_group_clause(root) : (root)->parse->groupClause)

/* 18 counts nodes that settings are against, and no longer adds to their costs: of a path that is made of another one, it must be said. */
static inline void
rose_path_add_disabled(Path *path, const Path *below)
{
#if PG_VERSION_NUM >= 180000
	path->disabled_nodes += below->disabled_nodes;
#endif
}

#endif							/* ROSE_COMPAT_PLAN_H */
