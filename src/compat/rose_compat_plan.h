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

/* 16 leaves columns that are known to be equal or constant out of the list that plans group by. */
#if PG_VERSION_NUM < 160000
#define rose_group_clause(root) ((root)->parse->groupClause)
#else
#define rose_group_clause(root) ((root)->processed_groupClause)
#endif

#endif							/* ROSE_COMPAT_PLAN_H */
