/*-------------------------------------------------------------------------
 *
 * rose_node_paths.c
 *	  Rose Scan: what the planner is told, and the plan that it gets.
 *
 * A Rose Scan reads a table, or ranges of its primary key, in the order of the key or in any.
 * What core knows of the key's index says which conditions are ranges (rose_index_paths.c); the others are
 * filters and residual conditions (rose_node_clauses.c).  The plain scans' paths stay: they are better for
 * few rows.
 *
 * Nearly all queries of some applications are lookups by key.  So the first thing to find out, in
 * less than a microsecond, is that a table is small, or that the key finds the few rows that are wanted.
 *
 * core's settings for plain scans hold: without enable_seqscan there is no Rose Scan of a whole
 * table, without enable_indexscan none of ranges.
 *
 * A SCROLL cursor over one table gets a plain scan, which turns: under the Material node that core would put above
 * ours, WHERE CURRENT OF does not find the row.
 *
 * Where the query wants the first rows of an order, paths in no order leave out those behind them (rose_node_first.c), so
 * they are cheaper than what gives out all rows.
 *
 * The plan says nothing about storage, so it stays good whatever is merged.  Backend-local; planning
 * takes locks before us.  Joins by key (parameterised paths) are left to index scans, backward
 * scans too.
 *
 * A table that is large enough also gets partial paths, of which several processes execute one
 * (rose_node_parallel.c): one in any order, and one in the key's if that is of use.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_class.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/relcache.h"

#include "lsm/tree/rose_relation.h"
#include "indexam/rose_index_paths.h"
#include "indexam/rose_indexam.h"
#include "scan/rose_node.h"
#include "scan/rose_node_first.h"
#include "scan/rose_node_scan.h"

/* So few rows are its index's, if the key finds them. */
#define FEW_ROWS		100

bool		rose_node_plans_scroll = false;

static Plan *scan_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *children);

static const CustomPathMethods scan_path_methods = {
	.CustomName = "Rose Scan",
	.PlanCustomPath = scan_plan,
};

/* ---- is it worth a look? ---- */

/* What the planner was told of the primary key's index; NULL: there is none. */
static IndexOptInfo *
key_of(RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (rose_primary_key_is_planned_as_key(index))
			return index;
	}
	return NULL;
}

/* Does the key's index find what is wanted, looking at few rows? */
static bool
is_lookup(RelOptInfo *rel, const IndexOptInfo *key)
{
	ListCell   *cell;

	if (rel->rows >= FEW_ROWS || key == NULL || rose_node_scan_min_rows == 0)
		return false;
	foreach(cell, rel->pathlist)
	{
		const IndexPath *path = lfirst(cell);

		if (IsA(path, ProjectionPath))
			path = (const IndexPath *) ((const ProjectionPath *) path)->subpath;
		if (IsA(path, IndexPath) && path->indexinfo == key && path->indexclauses != NIL &&
			linitial_node(IndexClause, path->indexclauses)->indexcol == 0 &&
			path->path.param_info == NULL && path->indexselectivity * rel->tuples < FEW_ROWS)
			return true;
	}
	return false;
}

/* Tables without indexes are not known by those. */
static bool
is_rose(const RelOptInfo *rel, const RangeTblEntry *rte)
{
	Relation	relation;
	bool		result;

	if (rel->indexlist != NIL)
		return rose_primary_key_is_planned(linitial_node(IndexOptInfo, rel->indexlist));
	/* those of TOAST tables' kind are not to be read (repl/rose_staging.c) */
	if (!RELKIND_HAS_TABLE_AM(rte->relkind) || rte->relkind == RELKIND_TOASTVALUE)
		return false;
	relation = RelationIdGetRelation(rte->relid);
	if (relation == NULL)
		return false;
	result = rose_relation_is_rose(relation);
	RelationClose(relation);
	return result;
}

/* ---- key ranges ---- */

/* The conditions (IndexClauses) that are ranges of the key; filters check the others faster than the scan would. */
static List *
find_key_clauses(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *key)
{
	List	   *most = NIL;
	ListCell   *cell;

	if (key == NULL || rel->baserestrictinfo == NIL || !enable_indexscan ||
		!bms_is_empty(rel->lateral_relids))
		return NIL;
	foreach(cell, rose_index_paths(root, rel, rel->baserestrictinfo, key))
	{
		List	   *clauses = ((IndexPath *) lfirst(cell))->indexclauses;

		if (list_length(clauses) > list_length(most))
			most = clauses;
	}
	return rose_index_leading_clauses(key, most);
}

/* ---- paths ---- */

static CustomPath *
make_scan_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *keys, List *pathkeys,
			   int workers)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = target;
	path->path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	path->path.parallel_safe = rel->consider_parallel;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_workers = workers;
	path->path.pathkeys = pathkeys;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make2(keys, NIL);
	path->methods = &scan_path_methods;
	rose_node_cost_scan(root, path, keys);
	return path;
}

bool
rose_node_scan_is_worth_a_look(RelOptInfo *rel, const RangeTblEntry *rte)
{
	return rose_node_scan_enabled && rel->tuples >= rose_node_scan_min_rows &&
		!is_lookup(rel, key_of(rel)) && is_rose(rel, rte);
}

/* Is a Rose Scan worth a look?  If so, *key is the table's key, if there is one, and *keys what it finds. */
static bool
is_candidate(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, IndexOptInfo **key,
			 List **keys)
{
	if (!rose_node_scan_is_worth_a_look(rel, rte) || IS_DUMMY_REL(rel))
		return false;
	*key = key_of(rel);
	*keys = find_key_clauses(root, rel, *key);
	return *keys != NIL || enable_seqscan;
}

CustomPath *
rose_node_scan_path(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
					PathTarget *target)
{
	IndexOptInfo *key;
	List	   *keys;

	if (rte->inh || rte->tablesample != NULL || !is_candidate(root, rel, rte, &key, &keys))
		return NULL;
	return make_scan_path(root, rel, target, keys, NIL, 0);
}

/* Does one process read it sooner than others are there?  Nearly all queries of some applications are such. */
static bool
is_small(const RelOptInfo *rel)
{
	ListCell   *cell;

	if (rel->rows >= FEW_ROWS)
		return false;
	foreach(cell, rel->pathlist)
	{
		const Path *path = lfirst(cell);

		if (path->param_info == NULL && path->total_cost < parallel_setup_cost)
			return true;
	}
	return false;
}

/* In no order, for whoever puts the rows in order: of the first by these columns, or, NIL, of all. */
static Path *
make_unordered_path(PlannerInfo *root, RelOptInfo *rel, List *keys, List *first, int workers)
{
	CustomPath *path = make_scan_path(root, rel, rel->reltarget, keys, NIL, workers);

	if (first != NIL)
	{
		lsecond(path->custom_private) = first;
		rose_node_cost_first(root, path);
	}
	return &path->path;
}

/* For several processes. */
static void
add_partial_paths(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, List *keys,
				  List *pathkeys, List *first)
{
	int			workers = is_small(rel) ? 0 : rose_node_parallel_workers(rel, rte);

	if (workers == 0)
		return;
	add_partial_path(rel, make_unordered_path(root, rel, keys, first, workers));
	if (pathkeys != NIL)
		add_partial_path(rel, &make_scan_path(root, rel, rel->reltarget, keys, pathkeys,
											  workers)->path);
}

CustomPath *
rose_node_scan_partial_path(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
							PathTarget *target)
{
	IndexOptInfo *key;
	List	   *keys;
	int			workers;

	if (rte->inh || rte->tablesample != NULL || !is_candidate(root, rel, rte, &key, &keys) ||
		is_small(rel))
		return NULL;
	workers = rose_node_parallel_workers(rel, rte);
	return workers > 0 ? make_scan_path(root, rel, target, keys, NIL, workers) : NULL;
}

CustomPath *
rose_node_scan_ordered_path(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
							PathTarget *target)
{
	IndexOptInfo *key;
	List	   *keys;

	if (rte->inh || rte->tablesample != NULL || !is_candidate(root, rel, rte, &key, &keys) ||
		key == NULL)
		return NULL;
	return make_scan_path(root, rel, target, keys,
						  build_index_pathkeys(root, key, ForwardScanDirection), 0);
}

/* May somebody ask a cursor where this scan is, after having turned it? */
static bool
is_scrolled(const PlannerInfo *root)
{
	const Query *parse = root->parse;

	return rose_node_plans_scroll && bms_membership(root->all_baserels) == BMS_SINGLETON &&
		!parse->hasAggs && parse->groupClause == NIL && parse->groupingSets == NIL;
}

void
rose_node_add_paths(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte)
{
	IndexOptInfo *key;
	List	   *keys;
	List	   *pathkeys = NIL;
	List	   *first = NIL;

	if (is_scrolled(root) || !is_candidate(root, rel, rte, &key, &keys))
		return;
	if (key != NULL && has_useful_pathkeys(root, rel))
		pathkeys = truncate_useless_pathkeys(root, rel,
											 build_index_pathkeys(root, key, ForwardScanDirection));
	/* in the key's order nothing need be put in order */
	if (rose_node_top_enabled && (pathkeys == NIL || !pathkeys_contained_in(root->sort_pathkeys, pathkeys)))
		first = rose_node_first_columns(root, rel);
	add_path(rel, make_unordered_path(root, rel, keys, first, 0));
	if (pathkeys != NIL)
		add_path(rel, &make_scan_path(root, rel, rel->reltarget, keys, pathkeys, 0)->path);
	add_partial_paths(root, rel, rte, keys, pathkeys, first);
}

/* ---- the plan ---- */

/* The conditions of ranges, in the form in which the index takes them: its column first. */
static List *
quals_of_keys(List *keys)
{
	List	   *quals = NIL;
	ListCell   *cell;

	foreach(cell, keys)
		quals = list_concat(quals,
							get_actual_clauses(lfirst_node(IndexClause, cell)->indexquals));
	return quals;
}

static Plan *
scan_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		  List *children)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *keys = linitial(path->custom_private);
	List	   *first = lsecond(path->custom_private);
	RoseNodeClauses split;

	rose_node_clauses_split(rel, clauses, keys, &split);
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(split.residual, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->custom_exprs = list_make3(copyObject(quals_of_keys(keys)),
									extract_actual_clauses(split.filters, false),
									first != NIL ? rose_node_first_limit(root) : NIL);
	scan->custom_private = list_concat(list_make1_int(path->path.pathkeys != NIL), first);
	scan->methods = &rose_node_scan_methods;
	return &scan->scan.plan;
}
