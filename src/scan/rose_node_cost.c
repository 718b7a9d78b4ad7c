/*-------------------------------------------------------------------------
 *
 * rose_node_cost.c
 *	  What a Rose Scan costs, and a Rose Aggregate of it, in the planner's units.
 *
 * It reads the pages of its key ranges in order.  A row that a filter looks at, and one that is
 * given out, are cheap beside what core charges for a tuple; a residual condition costs what it
 * costs elsewhere.  A charge at the start keeps small tables, and scans that end after a few rows,
 * with the plain scan, which has less to set up.
 *
 * Settings that core has for plain scans count: enable_seqscan and enable_indexscan say whether there is a
 * path (rose_node_paths.c), so they are not asked here.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include <math.h>

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/spccache.h"

#include "scan/rose_node_first.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_group_tapes.h"
#include "scan/rose_node_quals.h"
#include "scan/rose_node_scan.h"

/* To begin with, and for each range of keys beside the descent: what tuples' processing saves in some hundred rows. */
#define STARTUP_COST		2.0

/* Of seq_page_cost: what is not reading a page but making values of it. */
#define DECODE_PART			0.5

/* Of cpu_operator_cost: a filter's look at a row. */
#define FILTER_PART			0.02

/* Of what core charges for it: a filter that makes something of columns. */
#define COMPUTED_PART		0.1

/* Of what core charges for it: a filter that calls a function, once for values that come again. */
#define FUNCTION_PART		0.5

/* Of cpu_tuple_cost: a row that is given out. */
#define ROW_PART			0.3

/* Of cpu_operator_cost: an aggregate's look at a row. */
#define AGGREGATE_PART		0.03

/* The same: seeing that a row is behind others. */
#define FIRST_PART			0.1

/* Of cpu_operator_cost: finding a row's group. */
#define GROUP_PART			0.1

/* The same: giving out a group. */
#define GROUPS_PART			2

/* Of cpu_tuple_cost: a row of a group that there is no room for, written and read again. */
#define SPILL_PART			1.0

/* Pages of a temporary file: so much of them is not read in order, as core has it of sorts. */
#define SPILL_RANDOM_PART	0.25

/* Beside its columns, such a row has so many bytes. */
#define SPILL_HEAD			8

/* Of the memory for groups one page in so many is a partition's. */
#define SPILL_PARTITIONS	8

/* Who keeps rows in order takes what is in memory in an order that memory is slower in. */
#define ORDER_FACTOR		1.02

/* Part of the table's rows that conditions (RestrictInfos) select. */
static Selectivity
selectivity_of(PlannerInfo *root, RelOptInfo *rel, List *conditions)
{
	return clauselist_selectivity(root, conditions, rel->relid, JOIN_INNER, NULL);
}

static List *
conditions_of_keys(List *keys)
{
	List	   *conditions = NIL;
	ListCell   *cell;

	foreach(cell, keys)
		conditions = list_append_unique_ptr(conditions, lfirst_node(IndexClause, cell)->rinfo);
	return conditions;
}

/* Finding the first row of the range. */
static Cost
descent_cost(double tuples)
{
	return tuples > 1 ? ceil(log2(tuples)) * cpu_operator_cost : 0;
}

/* Processes that share the work of a partial path; the leader has less time for it the more workers it serves. */
static double
count_processes(const Path *path)
{
	double		leader = 1.0 - 0.3 * path->parallel_workers;

	if (path->parallel_workers == 0)
		return 1;
	return path->parallel_workers + (parallel_leader_participation ? Max(leader, 0) : 0);
}

/* A row's, of conditions (RestrictInfos) that are filters. */
static Cost
cost_of_filters(PlannerInfo *root, const RelOptInfo *rel, List *filters)
{
	Cost		cost = 0;
	ListCell   *cell;

	foreach(cell, filters)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		Node	   *clause = (Node *) rinfo->clause;
		QualCost	whole;

		cost_qual_eval_node(&whole, clause, root);
		if (rose_node_quals_calls(clause, rel->relid))
			cost += whole.per_tuple * FUNCTION_PART;
		else if (rose_node_quals_computes(clause, rel->relid))
			cost += whole.per_tuple * COMPUTED_PART;
		else
			cost += FILTER_PART * cpu_operator_cost;
	}
	return cost;
}

void
rose_node_cost_scan(PlannerInfo *root, CustomPath *path, List *keys)
{
	RelOptInfo *rel = path->path.parent;
	ParamPathInfo *param = path->path.param_info;
	List	   *conditions = conditions_of_keys(keys);
	Selectivity key = selectivity_of(root, rel, conditions);
	double		rows = clamp_row_est(rel->tuples * key);
	RoseNodeClauses split;
	QualCost	residual;
	double		processes = count_processes(&path->path);
	double		seq_page;
	Cost		pages;
	Cost		run;

	path->path.rows = param ? param->ppi_rows : rel->rows;
	get_tablespace_page_costs(rel->reltablespace, NULL, &seq_page);
	pages = ceil(rel->pages * key) * seq_page;
	run = pages * DECODE_PART;

	rose_node_clauses_split(rel, rel->baserestrictinfo, keys, &split);
	run += rows * cost_of_filters(root, rel, split.filters);

	conditions = list_concat(conditions, split.filters);
	rows = Max(clamp_row_est(rel->tuples * selectivity_of(root, rel, conditions)),
			   path->path.rows);
	if (param != NULL)
		split.residual = list_concat(split.residual, param->ppi_clauses);
	cost_qual_eval(&residual, split.residual, root);
	run += rows * (residual.per_tuple + ROW_PART * cpu_tuple_cost);
	run += path->path.pathtarget->cost.per_tuple * path->path.rows;

	path->path.startup_cost = STARTUP_COST + residual.startup + path->path.pathtarget->cost.startup;
	if (keys != NIL)
		path->path.startup_cost += descent_cost(rel->tuples);

	/* several processes read no faster from the disk, and core makes no difference for what is in memory */
	path->path.rows = clamp_row_est(path->path.rows / processes);
	run = run / processes + pages * (1 - DECODE_PART);
	if (path->path.pathkeys != NIL)
		run *= ORDER_FACTOR;
	path->path.total_cost = path->path.startup_cost + run;
}

/* Of rows that are not among the first nothing is made but the columns by which that is seen, and the first of these is compared. */
void
rose_node_cost_first(PlannerInfo *root, CustomPath *path)
{
	double		rows = rose_node_first_estimate(root, path->path.rows);
	Cost		row = ROW_PART * cpu_tuple_cost + path->path.pathtarget->cost.per_tuple;
	Cost		looks = path->path.rows * FIRST_PART * cpu_operator_cost;

	path->path.total_cost += looks - (path->path.rows - rows) * row;
	path->path.total_cost = Max(path->path.total_cost, path->path.startup_cost);
	path->path.rows = rows;
}

static Cost
cost_of(PlannerInfo *root, Node *expr)
{
	QualCost	cost;

	cost_qual_eval_node(&cost, expr, root);
	return cost.per_tuple;
}

/* What keys, aggregates' arguments and their FILTERs cost a row, as core's would. */
static Cost
cost_of_expressions(PlannerInfo *root, const PathTarget *target)
{
	Cost		cost = 0;
	ListCell   *cell;

	foreach(cell, target->exprs)
	{
		const Aggref *aggref = lfirst(cell);

		if (!IsA(aggref, Aggref))
			cost += cost_of(root, lfirst(cell));
		else
			cost += cost_of(root, (Node *) aggref->args) + cost_of(root, (Node *) aggref->aggfilter);
	}
	return cost;
}

/* Rows are not given out one by one, which the scan's costs have. */
void
rose_node_cost_aggregate(PlannerInfo *root, CustomPath *path, const Path *scan)
{
	int			naggregates = list_length(path->path.pathtarget->exprs);
	Cost		run = scan->total_cost - scan->startup_cost;

	run -= scan->rows * ROW_PART * cpu_tuple_cost;
	run += scan->rows * naggregates * AGGREGATE_PART * cpu_operator_cost;
	run += scan->rows * cost_of_expressions(root, path->path.pathtarget);
	path->path.rows = 1;
	path->path.startup_cost = path->path.total_cost = scan->startup_cost + Max(run, 0);
}

/*
 * The same with groups: each row's is found, and each is given out.  Where they come in order, some are made before the first
 * is given out; who wants few of them is told so.
 */
void
rose_node_cost_groups(PlannerInfo *root, CustomPath *path, const Path *scan, double ngroups)
{
	rose_node_cost_aggregate(root, path, scan);
	path->path.rows = ngroups;
	path->path.total_cost += scan->rows * GROUP_PART * cpu_operator_cost;
	if (path->path.pathkeys == NIL)
		path->path.startup_cost = path->path.total_cost;
	else
		path->path.startup_cost = scan->startup_cost + (path->path.total_cost - scan->startup_cost) *
			Min(1, ROSE_GROUP_ORDERED_GROUPS / Max(ngroups, 1));
	path->path.total_cost += ngroups * (cpu_tuple_cost + GROUPS_PART * cpu_operator_cost);
}

/* How often a row is written, on average. */
static double
count_writes(double bytes)
{
	double		limit = get_hash_memory_limit();
	double		partitions = Min(Max(limit / SPILL_PARTITIONS / BLCKSZ, ROSE_TAPES_MIN_PARTITIONS), ROSE_TAPES_MAX_PARTITIONS);
	double		levels = ceil(log(bytes / limit) / log(partitions));

	return bytes <= limit ? 0 : Max(levels, 1) - limit / bytes;
}

void
rose_node_cost_spill(CustomPath *path, const Path *scan, double bytes)
{
	double		rows = scan->rows * count_writes(bytes);
	double		pages = rows * (SPILL_HEAD + scan->pathtarget->width) / BLCKSZ;
	Cost		once = pages * (seq_page_cost * (1 - SPILL_RANDOM_PART) + random_page_cost * SPILL_RANDOM_PART) +
		rows * SPILL_PART * cpu_tuple_cost / 2;

	path->path.startup_cost += once;
	path->path.total_cost += 2 * once;
}
