/*-------------------------------------------------------------------------
 *
 * rose_node_group_paths.c
 *	  Rose Aggregate with groups: what the planner is told.
 *
 * There are two ways.  Groups of a scan in any order are in a table until all rows are there.  Groups by the first columns of the
 * table's key, of a scan in its order, are given out in that order, one after the other, so that core's Finalize GroupAggregate needs
 * no sort.
 *
 * Neither is offered if there are too many groups: where grouping makes few rows fewer it costs more than it saves, as core's node puts them into a table once
 * more, and a table that is larger than memory may be is given out in parts, so that nothing is known of how many states there will be.  Estimates may be wrong by far.
 * So there is a second plan for groups of a large table, row by row, which is run instead if it turns out so (rose_node_choice.h).  Without
 * it rows are passed on, or groups are given out that have a row or two, which costs more than core's own plan.  In order it costs least,
 * so groups are made in order wherever they can be.  Where there is a choice, and core has no other idea of what is equal, groups
 * are finished without core's node, and rows of those that do not fit into memory go to tapes; so there may be any number of these.
 *
 * The first way is offered for several processes, too: each has groups of its own.
 *
 * Backend-local; planning takes locks before us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"

#include "compat/rose_compat_plan.h"
#include "scan/rose_node.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_choice.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_scan.h"
#include "scan/rose_node_top.h"

/* Rows of a group, on average, for it to be worth anything. */
#define MIN_ROWS_PER_GROUP	3

/* What a group takes in memory, beside its values by reference: its key, slots, and a state of an aggregate. */
#define GROUP_BYTES			40
#define AGG_BYTES			20

/* What is common to the paths. */
typedef struct GroupRequest
{
	PlannerInfo *root;
	RelOptInfo *input;
	RelOptInfo *grouped;
	GroupPathExtraData *extra;
	PathTarget *partial;
	double		ngroups;
	AggClauseCosts costs;
	AggClauseCosts whole_costs; /* of aggregates that are not in parts */
	bool		choice;			/* there is to be another plan */
	RoseNodeTopPlan top;		/* which groups the query wants */
	bool		whole;			/* and groups are finished without core's node */
} GroupRequest;

double
rose_node_group_expected_bytes(const PathTarget *target, double ngroups)
{
	return ngroups * (GROUP_BYTES + target->width + AGG_BYTES * list_length(target->exprs));
}

bool
rose_node_group_fits_memory(const PathTarget *target, double ngroups)
{
	return rose_node_group_expected_bytes(target, ngroups) <= get_hash_memory_limit();
}

/* Is this column of the table's one that the query groups by? */
static bool
is_grouped_by(List *exprs, AttrNumber attno)
{
	ListCell   *cell;

	foreach(cell, exprs)
	{
		const Node *key;

		if (rose_node_group_key_kind(lfirst(cell), InvalidOid, &key) != ROSE_KEY_NONE &&
			IsA(key, Var) && ((const Var *) key)->varattno == attno)
			return true;
	}
	return false;
}

bool
rose_node_group_is_row(const RelOptInfo *rel, List *exprs)
{
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		bool		all = index->unique && index->indpred == NIL;

		for (int i = 0; i < index->nkeycolumns && all; i++)
			all = is_grouped_by(exprs, (AttrNumber) index->indexkeys[i]);
		if (all)
			return true;
	}
	return false;
}

/* The part of the scan's order in which groups come; NIL: they do not come one after the other. */
static List *
order_of_groups(PlannerInfo *root, List *pathkeys)
{
	int			n = list_length(root->group_pathkeys);
	int			i = 0;
	ListCell   *cell;

	if (n == 0 || list_length(pathkeys) < n)
		return NIL;
	foreach(cell, pathkeys)
	{
		const PathKey *pathkey = lfirst_node(PathKey, cell);
		bool		found = false;
		ListCell   *other;

		if (i++ == n)
			break;
		foreach(other, root->group_pathkeys)
			found |= lfirst_node(PathKey, other)->pk_eclass == pathkey->pk_eclass;
		if (!found)
			return NIL;
	}
	return list_truncate(list_copy(pathkeys), n);
}

static Path *
group_path(GroupRequest *request, CustomPath *scan, List *pathkeys)
{
	CustomPath *path = rose_node_agg_path(request->root, request->grouped, request->partial, scan);

	path->path.pathkeys = pathkeys;
	path->custom_private = list_make2_int(pathkeys != NIL, (int) Min(request->ngroups, INT_MAX));
	rose_node_cost_groups(request->root, path, &scan->path, request->ngroups);
	if (request->whole && pathkeys == NIL)
		rose_node_cost_spill(path, &scan->path, rose_node_group_expected_bytes(request->partial, request->ngroups));
	return &path->path;
}

static Path *
core_path(GroupRequest *request, Path *path, AggStrategy strategy, AggSplit split, List *clause,
		  const AggClauseCosts *costs)
{
	return (Path *) create_agg_path(request->root, request->grouped, path, request->grouped->reltarget,
									strategy, split, clause,
									(List *) request->extra->havingQual, costs, request->ngroups);
}

/* There is nothing to sort by where all keys are constants, or made so by the query's conditions. */
static Path *
sorted_path(GroupRequest *request, Path *path)
{
	PlannerInfo *root = request->root;

	if (root->group_pathkeys == NIL)
		return path;
	return (Path *) create_sort_path(root, request->grouped, path, root->group_pathkeys, -1.0);
}

/* The same groups, row by row: in the order of the scan, or in any.  Rows have what core groups by, which may be nothing: then all are one group. */
static Path *
rows_path(GroupRequest *request, AggStrategy strategy, bool ordered)
{
	PlannerInfo *root = request->root;
	List	   *clause = rose_core_group_clause(root);
	RelOptInfo *input = request->input;
	const RangeTblEntry *rte = planner_rt_fetch(input->relid, root);
	CustomPath *scan = ordered ? rose_node_scan_ordered_path(root, input, rte, input->reltarget) :
		rose_node_scan_path(root, input, rte, input->reltarget);
	Path	   *path = &scan->path;

	if (clause == NIL)
		strategy = AGG_SORTED;
	if (strategy == AGG_SORTED && !ordered)
		path = sorted_path(request, path);
	return core_path(request, path, strategy, AGGSPLIT_SIMPLE, clause, &request->whole_costs);
}

/* Core's node, which is not run, would write its groups to the disk, too: that costs nothing. */
static void
cost_finished(GroupRequest *request, Path *path, const Path *groups)
{
	const PathTarget *target = request->grouped->reltarget;
	QualCost	having;

	if (!enable_hashagg || rose_node_group_fits_memory(request->partial, request->ngroups))
		return;
	cost_qual_eval(&having, (List *) request->extra->havingQual, request->root);
	path->startup_cost = groups->startup_cost + request->costs.finalCost.startup + having.startup + target->cost.startup;
	path->total_cost = path->startup_cost + groups->total_cost - groups->startup_cost +
		request->ngroups * (request->costs.finalCost.per_tuple + having.per_tuple) + path->rows * target->cost.per_tuple;
}

/* Core's node above, and the path that it makes of ours. */
static void
add_finalized(GroupRequest *request, Path *path, AggStrategy strategy, bool ordered)
{
	Path	   *final = core_path(request, path, strategy, AGGSPLIT_FINAL_DESERIAL,
								  rose_group_clause(request->root), &request->costs);

	if (request->choice)
	{
		bool		finish = request->whole && (strategy == AGG_HASHED || ordered);

		final = rose_node_choice_path(request->root, final, rows_path(request, strategy, ordered),
									  finish ? ROSE_CHOICE_FINISH : ROSE_CHOICE_PARTS);
		if (finish)
			rose_node_choice_set_top(final, &request->top);
		if (finish && !ordered)
			cost_finished(request, final, path);
	}
	add_path(request->grouped, final);
}

/* Core adds up parts of a group in the order in which they are given to it, and a sort has them in any. */
static bool
needs_order(const PathTarget *partial)
{
	ListCell   *cell;

	foreach(cell, partial->exprs)
	{
		const Node *argument;

		if (IsA(lfirst(cell), Aggref) &&
			ROSE_AGG_ADDS_FLOATS(rose_node_agg_kind(lfirst_node(Aggref, cell), &argument)))
			return true;
	}
	return false;
}

/* Who has a choice takes it for rows if it does not pay, so it is not begun where that is expected. */
static bool
is_expected_to_pay(const GroupRequest *request)
{
	bool		wide = false;
	ListCell   *cell;

	if (request->whole)
		return true;
	foreach(cell, request->partial->exprs)
	{
		const Node *argument;

		if (IsA(lfirst(cell), Aggref))
			wide |= ROSE_AGG_IS_WIDE(rose_node_agg_kind(lfirst_node(Aggref, cell), &argument));
	}
	return request->ngroups * ROSE_GROUP_ROWS_THAT_PAY(wide) <= request->input->rows;
}

/* Core may say so of a query whose keys are all constants, whatever they are. */
static bool
can_hash(const GroupRequest *request)
{
	return (request->extra->flags & GROUPING_CAN_USE_HASH) != 0 &&
		grouping_is_hashable(rose_group_clause(request->root));
}

/* Is each group given out once, whatever there is room for? */
static bool
may_spill(const GroupRequest *request)
{
	return request->whole && can_hash(request);
}

static void
add_hashed(GroupRequest *request, CustomPath *scan)
{
	Path	   *path = group_path(request, scan, NIL);
	bool		hash = can_hash(request);

	if (scan->path.parallel_workers > 0)
		path = rose_node_agg_gather_path(request->root, (CustomPath *) path);
	if (hash)
		add_finalized(request, path, AGG_HASHED, false);
	/* who has a choice sorts what comes of it: sorting all rows is no plan to fall back on where they can be hashed */
	if (request->choice && hash)
		return;
	if ((request->extra->flags & GROUPING_CAN_USE_SORT) && !needs_order(request->partial))
		add_finalized(request, sorted_path(request, path), AGG_SORTED, false);
}

/* False: groups do not come in order. */
static bool
add_ordered(GroupRequest *request, CustomPath *scan)
{
	List	   *pathkeys = order_of_groups(request->root, scan->path.pathkeys);

	if (pathkeys == NIL || (request->extra->flags & GROUPING_CAN_USE_SORT) == 0)
		return false;
	add_finalized(request, group_path(request, scan, pathkeys), AGG_SORTED, true);
	return true;
}

/* Is there to be a choice?  False: there should be, but cannot. */
static bool
find_choice(GroupRequest *request)
{
	if (!rose_node_choice_is_wanted(request->input))
		return true;
	request->choice = true;
	get_agg_clause_costs(request->root, AGGSPLIT_SIMPLE, &request->whole_costs);
	return rose_node_choice_is_safe(request->input, request->grouped, request->extra->havingQual);
}

/* By all of these it tells groups apart, also by what core does not group by since all values are equal: equal ones may differ. */
static List *
keys_of(const PathTarget *partial)
{
	List	   *keys = NIL;
	ListCell   *cell;

	foreach(cell, partial->exprs)
	{
		if (!IsA(lfirst(cell), Aggref))
			keys = lappend(keys, lfirst(cell));
	}
	return keys;
}

void
rose_node_group_add_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped, void *extra,
						  PathTarget *partial, PathTarget *scanned)
{
	const RangeTblEntry *rte = planner_rt_fetch(input->relid, root);
	List	   *exprs = get_sortgrouplist_exprs(rose_group_clause(root), root->parse->targetList);
	GroupRequest request = {.root = root, .input = input, .grouped = grouped, .extra = extra, .partial = partial};
	CustomPath *scan;
	CustomPath *ordered;

	request.ngroups = rose_node_group_estimate(root, exprs, input->rows);
	if (!find_choice(&request) || rose_node_group_is_row(input, exprs))
		return;
	request.whole = request.choice && rose_node_group_keys_are_exact(keys_of(partial));
	if (!request.whole && request.ngroups * MIN_ROWS_PER_GROUP > input->rows)
		return;
	scan = rose_node_scan_path(root, input, rte, scanned);
	if (scan == NULL || !rose_node_agg_states_agree())
		return;
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &request.costs);
	rose_node_top_find(root, grouped->reltarget, request.extra->havingQual, partial, &request.top);
	/* in order, whatever is estimated: a little dearer at worst, and by far cheaper if there are more groups than that */
	ordered = rose_node_scan_ordered_path(root, input, rte, scanned);
	if (!(ordered != NULL && add_ordered(&request, ordered)) &&
		(rose_node_group_fits_memory(partial, request.ngroups) || may_spill(&request)) &&
		(!request.choice || rose_node_aggregate_sample > 0 || is_expected_to_pay(&request)))
		add_hashed(&request, scan);
	request.choice = request.whole = false;
	if (request.ngroups * MIN_ROWS_PER_GROUP <= input->rows && grouped->consider_parallel &&
		rose_node_group_fits_memory(partial, request.ngroups))
	{
		scan = rose_node_scan_partial_path(root, input, rte, scanned);
		if (scan != NULL)
			add_hashed(&request, scan);
	}
}
