/*-------------------------------------------------------------------------
 *
 * rose_compat_cost.h
 *	  What a scan of a btree costs that does not skip.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_COST_H
#define ROSE_COMPAT_COST_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/index_selfuncs.h"
#include "utils/selfuncs.h"

/*
 * btcostestimate, as it is up to 17.  Since 18 a btree is searched once for each value of a column without a condition, so that
 * conditions of columns behind it are ranges, too.  Trees of rose are not: what is not in front is looked at in each entry
 * of the ranges.  leading: those of the path's conditions that are ranges.
 */
static inline void
rose_btcostestimate(PlannerInfo *root, IndexPath *path, List *leading, double loop_count,
					Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
					double *correlation, double *pages)
{
#if PG_VERSION_NUM >= 180000
	IndexOptInfo *index = path->indexinfo;
	IndexPath	ranges = *path;
	List	   *others;
	List	   *quals;
	Cost		arguments;

	ranges.indexclauses = leading;
	btcostestimate(root, &ranges, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
	others = get_quals_from_indexclauses(list_difference_ptr(path->indexclauses, leading));
	if (others == NIL)
		return;
	arguments = index_other_operands_eval_cost(root, others);
	*startup_cost += arguments;
	*total_cost += arguments +
		*selectivity * index->tuples * cpu_operator_cost * list_length(others);
	quals = add_predicate_to_index_quals(index, get_quals_from_indexclauses(path->indexclauses));
	*selectivity = clauselist_selectivity(root, quals, index->rel->relid, JOIN_INNER, NULL);
#else
	btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
#endif
}

#endif							/* ROSE_COMPAT_COST_H */
