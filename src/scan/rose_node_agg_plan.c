/*-------------------------------------------------------------------------
 *
 * rose_node_agg_plan.c
 *	  Rose Aggregate: its paths as such, and the plan that becomes of them.
 *
 * Which are offered is for rose_node_agg_paths.c, and rose_node_group_paths.c.  Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "scan/rose_node_agg.h"

static Plan *agg_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *children);

static const CustomPathMethods agg_path_methods = {
	.CustomName = "Rose Aggregate",
	.PlanCustomPath = agg_plan,
};

CustomPath *
rose_node_agg_path(PlannerInfo *root, RelOptInfo *grouped, PathTarget *target, CustomPath *scan)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, grouped->relids);
	path->path.pathtarget = target;
	path->custom_paths = list_make1(scan);
	path->methods = &agg_path_methods;
	/* each process makes states of the rows that it reads */
	path->path.parallel_workers = scan->path.parallel_workers;
	path->path.parallel_safe = scan->path.parallel_workers > 0;
	return path;
}

Path *
rose_node_agg_gather_path(PlannerInfo *root, CustomPath *path)
{
	int			processes = path->path.parallel_workers + (parallel_leader_participation ? 1 : 0);
	double		rows = path->path.rows * processes;

	return (Path *) create_gather_path(root, path->path.parent, &path->path, path->path.pathtarget,
									   NULL, &rows);
}

static Plan *
agg_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		 List *children)
{
	CustomScan *agg = makeNode(CustomScan);

	agg->scan.plan.targetlist = tlist;
	agg->scan.scanrelid = 0;
	agg->flags = path->flags;
	agg->custom_plans = children;
	agg->custom_private = path->custom_private;
	agg->custom_scan_tlist = copyObject(tlist);
	agg->methods = &rose_node_agg_methods;
	return &agg->scan.plan;
}
