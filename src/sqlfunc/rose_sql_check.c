/*-------------------------------------------------------------------------
 *
 * rose_sql_check.c
 *	  rose.check().
 *
 * For the owner of the table.  What it looks at is a moment's picture of the file, which
 * the transaction's pin keeps, and one snapshot's rows.
 *
 * Takes AccessShareLock on the table; nothing is repaired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store/rose_store_check.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_tree_check.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_scan.h"
#include "sqlfunc/rose_sql_row.h"
#include "sqlfunc/rose_sql_table.h"

PG_FUNCTION_INFO_V1(rose_sql_check);

typedef struct CheckState
{
	FunctionCallInfo fcinfo;	/* whose result problems go to */
	uint64		nproblems;
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

static void
check_components(RoseTree *tree, CheckState *state)
{
	RoseView   *view = rose_view_present(tree);

	for (int i = 0; i < view->manifest.ncomponents; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rose_component_check(rose_view_component(view, i), tree->rel, tree->schema,
							 report_problem, state);
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
		report_problem(state, InvalidBlockNumber,
					   psprintf("row " UINT64_FORMAT " of a scan is not found by its key", number));
	else if (!rose_version_is_held(&found->version, &row->version))
		report_problem(state, InvalidBlockNumber,
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
 * Structure first: if that is damaged, reading rows would only raise errors.
 */
Datum
rose_sql_check(PG_FUNCTION_ARGS)
{
	CheckState	state = {0};
	Relation	rel = rose_sql_open_own(PG_GETARG_OID(0), AccessShareLock);
	RoseTree   *tree = rose_tree_open_any_order(rel);

	InitMaterializedSRF(fcinfo, 0);
	state.fcinfo = fcinfo;

	rose_store_check(rel, &tree->shared->store, report_problem, &state);
	check_components(tree, &state);
	if (tree->shared->other_order)
		report_problem(&state, InvalidBlockNumber,
					   "rows are sorted by other versions of collations than the server has: use REINDEX TABLE");
	if (state.nproblems == 0)
	{
		uint64		forward = check_rows_forward(tree, &state);
		uint64		backward = count_rows_backward(tree);

		if (forward != backward)
			report_problem(&state, InvalidBlockNumber,
						   psprintf("a forward scan finds " UINT64_FORMAT
									" rows, a backward scan " UINT64_FORMAT,
									forward, backward));
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
