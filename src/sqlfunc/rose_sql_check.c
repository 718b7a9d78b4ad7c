/*-------------------------------------------------------------------------
 *
 * rose_sql_check.c
 *	  rose.check().
 *
 * For the owner of the table.  What it looks at is a moment's picture of the file, which
 * the transaction's pin keeps, and one snapshot's rows.
 *
 * Takes AccessShareLock on the table, and on its secondary indexes, which are trees of
 * their own and must have the entries of its rows (rose_check_index.c); nothing is
 * repaired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "util/rose_index_def.h"
#include "store/rose_store_check.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_tree_check.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_version_walk.h"
#include "sqlfunc/rose_check_index.h"
#include "sqlfunc/rose_sql_row.h"
#include "sqlfunc/rose_sql_table.h"

PG_FUNCTION_INFO_V1(rose_sql_check);

typedef struct CheckState
{
	FunctionCallInfo fcinfo;	/* whose result problems go to */
	uint64		nproblems;
	uint64		version;		/* of the tree's manifest when it was begun with */
} CheckState;

static void
report_problem(void *arg, BlockNumber block, const char *message)
{
	CheckState *state = arg;
	RoseSqlRow	row = {0};

	rose_sql_put(&row, Int64GetDatum((int64) block), !BlockNumberIsValid(block));
	rose_sql_put_text(&row, message);
	rose_sql_emit(state->fcinfo, &row);
	state->nproblems++;
}

/*
 * Two ways to the same entries disagree.  That is no problem if a merge may have left out meanwhile what is of no row
 * (lsm/merge/rose_sift.h): what the snapshot sees of such an index is not what it saw before.
 */
static void
report_difference(RoseTree *tree, CheckState *state, const char *message)
{
	if (tree->rel->rd_rel->relkind == RELKIND_INDEX &&
		(rose_tree_index_meta(tree)->flags & ROSE_INDEX_VALIDATED) != 0 &&
		rose_tree_manifest(tree)->version != state->version)
		return;
	report_problem(state, InvalidBlockNumber, message);
}

static void
check_components(RoseTree *tree, CheckState *state)
{
	RoseView   *view = rose_view_present(tree);

	for (int i = 0; i < view->manifest.ncomponents; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rose_component_check(rose_view_component(view, i), tree->rel, tree->schema,
							 rose_view_entry(view, i)->first_ordinal, report_problem, state);
	}
	if (state->nproblems == 0)
		rose_tree_check(tree, report_problem, state);
}

/*
 * A row that a scan returned must come after the one before it, and a lookup by
 * its key, which asks the filters that the scan does not, must find it.
 */
static void
check_row(RoseTree *tree, RoseLookup *lookup, const RoseRow *row, const Datum *last,
		  uint64 number, CheckState *state)
{
	const RoseSchema *schema = tree->schema;
	const RoseRow *found;

	if (last && rose_key_compare(schema, last, row->key, rose_schema_key_width(schema)) >= 0)
		report_problem(state, InvalidBlockNumber,
					   psprintf("row " UINT64_FORMAT " of a scan is not in key order", number));
	found = rose_lookup_get(lookup, GetActiveSnapshot(), row->key);
	if (found == NULL)
		report_difference(tree, state,
						  psprintf("row " UINT64_FORMAT " of a scan is not found by its key", number));
	else if (!rose_version_is_held(&found->version, &row->version))
		report_difference(tree, state,
						  psprintf("row " UINT64_FORMAT " of a scan has sequence " UINT64_FORMAT
								   ", but its key finds sequence " UINT64_FORMAT,
								   number, row->version.seq, found->version.seq));
}

/* Scan the table and look each row up; returns the number of rows. */
static uint64
check_rows_forward(RoseTree *tree, CheckState *state)
{
	RoseScan   *scan = rose_scan_begin(tree, GetActiveSnapshot(), NULL, true);
	RoseLookup *lookup = rose_lookup_create(tree);
	MemoryContext contexts[2];
	Datum		keys[2][INDEX_MAX_KEYS];
	const Datum *last = NULL;
	const RoseRow *row;
	uint64		nrows = 0;

	for (int i = 0; i < 2; i++)
		contexts[i] = AllocSetContextCreate(CurrentMemoryContext, "rose check key",
											ALLOCSET_SMALL_SIZES);
	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		int			turn = nrows++ % 2;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(contexts[turn]);
		rose_key_copy(tree->schema, keys[turn], row->key, contexts[turn]);
		check_row(tree, lookup, row, last, nrows, state);
		last = keys[turn];
	}
	rose_lookup_free(lookup);
	rose_scan_end(scan);
	return nrows;
}

/* The newest of a key's versions that the snapshot sees, or NULL. */
static const RoseWalkVersion *
newest_visible(RoseVisibility *vis, const RoseWalkVersion *versions, int n)
{
	while (--n >= 0)
		if (rose_version_visible(vis, &versions[n].version,
								 versions[n].status == ROSE_XID_COMMITTED))
			return &versions[n];
	return NULL;
}

/* Is the version of this key the row that the scan found? */
static bool
is_same_row(const RoseSchema *schema, const Datum *key, const RoseWalkVersion *version,
			const RoseRow *row)
{
	if (row == NULL || rose_key_compare(schema, key, row->key, rose_schema_key_width(schema)) != 0 ||
		!(rose_version_is_held(&version->version, &row->version) ||
		  rose_version_is_held(&row->version, &version->version)))
		return false;
	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, attno - 1);
		bool		isnull;
		Datum		value = rose_row_getattr(row, schema, attno, &isnull);

		if (isnull != version->nulls[attno - 1] ||
			(!isnull && !datum_image_eq(value, version->values[attno - 1], att->attbyval, att->attlen)))
			return false;
	}
	return true;
}

/*
 * Secondary indexes are made of all versions that there are.  Of those, what the snapshot
 * sees must be what a scan returns.
 */
static void
check_versions(RoseTree *tree, CheckState *state)
{
	RoseVersionWalk *walk = rose_version_walk_begin(tree);
	RoseScan   *scan = rose_scan_begin(tree, GetActiveSnapshot(), NULL, true);
	const RoseWalkVersion *versions;
	RoseVisibility vis;
	uint64		nrows = 0;
	int			n;

	rose_visibility_init(&vis, GetActiveSnapshot());
	while ((versions = rose_version_walk_next(walk, &n)) != NULL)
	{
		const RoseWalkVersion *newest = newest_visible(&vis, versions, n);

		if (newest == NULL || newest->version.op == ROSE_OP_TOMBSTONE)
			continue;
		nrows++;
		if (!is_same_row(tree->schema, rose_version_walk_key(walk), newest,
						 rose_scan_next(scan, ForwardScanDirection)))
			break;
	}
	if (versions != NULL || rose_scan_next(scan, ForwardScanDirection) != NULL)
		report_difference(tree, state,
						  psprintf("the versions of all keys and a scan differ at row " UINT64_FORMAT, nrows));
	rose_scan_end(scan);
	rose_version_walk_end(walk);
}

static uint64
count_rows_backward(RoseTree *tree)
{
	RoseScan   *scan = rose_scan_begin(tree, GetActiveSnapshot(), NULL, true);
	uint64		nrows = 0;

	while (rose_scan_next(scan, BackwardScanDirection) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		nrows++;
	}
	rose_scan_end(scan);
	return nrows;
}

/*
 * A tree by itself.  Structure first: if that is damaged, reading rows would only raise
 * errors.  False: nothing more can be said of it.
 */
static bool
check_tree(RoseTree *tree, CheckState *state)
{
	uint64		nproblems = state->nproblems;
	uint64		forward;
	uint64		backward;

	state->version = rose_tree_manifest(tree)->version;
	rose_store_check(tree->rel, &tree->shared->store, report_problem, state);
	check_components(tree, state);
	if (tree->shared->other_order)
		report_problem(state, InvalidBlockNumber,
					   "rows are sorted by other versions of collations than the server has: use REINDEX TABLE");
	if (state->nproblems > nproblems)
		return false;
	forward = check_rows_forward(tree, state);
	backward = count_rows_backward(tree);
	if (forward != backward)
		report_difference(tree, state,
						  psprintf("a forward scan finds " UINT64_FORMAT
								   " rows, a backward scan " UINT64_FORMAT,
								   forward, backward));
	check_versions(tree, state);
	return true;
}

/* A secondary index as a tree, and against its table if it may be read. */
static void
check_index(RoseTree *table, Relation index, CheckState *state)
{
	RoseTree   *tree = rose_tree_open_any_order(index);

	if (check_tree(tree, state) && !table->shared->other_order && index->rd_index->indisvalid)
		rose_check_index(table, tree, report_problem, state);
}

static void
check_indexes(RoseTree *table, CheckState *state)
{
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(table->rel))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (rose_relation_has_tree(index))
			check_index(table, index, state);
		index_close(index, NoLock);
	}
}

Datum
rose_sql_check(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	CheckState	state = {0};
	Relation	heap = NULL;
	Relation	rel;

	/* its table is locked first, as everywhere */
	if (get_rel_relkind(relid) == RELKIND_INDEX)
		heap = relation_open(IndexGetRelation(relid, false), AccessShareLock);
	rel = rose_sql_open_own(relid, AccessShareLock);
	InitMaterializedSRF(fcinfo, 0);
	state.fcinfo = fcinfo;

	if (heap != NULL)
	{
		check_index(rose_tree_open_any_order(heap), rel, &state);
		relation_close(heap, AccessShareLock);
	}
	else
	{
		RoseTree   *tree = rose_tree_open_any_order(rel);

		if (check_tree(tree, &state))
			check_indexes(tree, &state);
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
