/*-------------------------------------------------------------------------
 *
 * rose_maintenance_functions.c
 *	  rose.spill(), rose.merge(), rose.check() and rose.detach().
 *
 * For the owner of the table.  They run in the calling session: what the
 * workers do in the background is done when the function returns.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "compat/rose_compat_am.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lsm/rose_face.h"
#include "lsm/rose_maintain.h"
#include "lsm/rose_pieces.h"
#include "miscadmin.h"
#include "repl/rose_repl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "util/rose_preload.h"

PG_FUNCTION_INFO_V1(rose_sql_spill);
PG_FUNCTION_INFO_V1(rose_sql_merge);
PG_FUNCTION_INFO_V1(rose_sql_check);
PG_FUNCTION_INFO_V1(rose_sql_detach);

/* How long a subscription may take to make its changes durable, in seconds. */
#define FEED_SPILL_TIMEOUT 600
/* The same if its changes may as well stay where they are. */
#define FEED_MERGE_TIMEOUT 60

/* Open a table of the caller's; error if it is not a rose table. */
static Relation
open_own_table(Oid relid, LOCKMODE lockmode)
{
	Relation	rel;

	rose_require_preload();
	rel = relation_open(relid, lockmode);
	if (!rose_user_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || !rose_relation_is_rose(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a rose table", RelationGetRelationName(rel)),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("Name its partitions, one by one.") : 0));
	return rel;
}

/*
 * Everything in C0 gets out of it.  A table that a subscription feeds is spilled by
 * that, because its data and its upstream position belong together.
 */
static void
spill_table(RoseTable *table)
{
	Oid			subid = table->shared->fed_by;

	if (OidIsValid(subid))
		rose_repl_spill(subid, FEED_SPILL_TIMEOUT);
	else
		(void) rose_spill(table, InvalidOid, 0);
}

Datum
rose_sql_spill(PG_FUNCTION_ARGS)
{
	Relation	rel = open_own_table(PG_GETARG_OID(0), AccessShareLock);

	spill_table(rose_table_open(rel));
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * The subscription's spill may be impossible just because merges are behind and the
 * table has too many components.  So what is on disk is merged without it.
 */
static void
spill_fed_table_if_possible(RoseTable *table)
{
	char	   *failure = rose_repl_try_spill(table->shared->fed_by, FEED_MERGE_TIMEOUT);

	if (failure != NULL)
		ereport(WARNING,
				(errmsg("merging only what is on disk of table \"%s\"",
						RelationGetRelationName(table->rel)),
				 errdetail("%s", failure)));
}

Datum
rose_sql_merge(PG_FUNCTION_ARGS)
{
	Relation	rel = open_own_table(PG_GETARG_OID(0), AccessShareLock);
	bool		alone = !rose_pin_is_held(rose_rel_locator(rel));
	RoseTable  *table = rose_table_open(rel);

	if (OidIsValid(table->shared->fed_by))
		spill_fed_table_if_possible(table);
	rose_merge_all(table, alone);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * A copy of a database, or of its tables' files, has tables that a subscription
 * feeds but not the subscription itself.  This makes them ordinary tables.
 */
Datum
rose_sql_detach(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel = open_own_table(relid, ShareUpdateExclusiveLock);
	Oid			subid = rose_subscription_of_table(relid);

	if (OidIsValid(subid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" belongs to rose subscription \"%s\"",
						RelationGetRelationName(rel), rose_subscription_get(subid)->name),
				 errhint("Drop the subscription, or take the table out of its publications and call rose.alter_subscription with refresh => true.")));
	rose_repl_unfeed(relid, InvalidOid);
	relation_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* ---- check ---- */

typedef struct CheckState
{
	ReturnSetInfo *result;
	uint64		nproblems;
} CheckState;

static void
report_problem(void *arg, BlockNumber block, const char *message)
{
	CheckState *state = arg;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	if (BlockNumberIsValid(block))
		values[0] = Int64GetDatum((int64) block);
	else
		nulls[0] = true;
	values[1] = CStringGetTextDatum(message);
	tuplestore_putvalues(state->result->setResult, state->result->setDesc, values, nulls);
	state->nproblems++;
}

static void
check_components(RoseTable *table, CheckState *state)
{
	const RoseManifest *manifest = rose_table_manifest(table);

	for (int i = 0; i < manifest->ncomponents; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rose_component_check(rose_table_component(table, i), table->rel, table->schema,
							 report_problem, state);
	}
	if (state->nproblems == 0)
		rose_pieces_check(table, report_problem, state);
}

/*
 * A row that a scan returned must come after the one before it, and a lookup by
 * its key, which asks the filters that the scan does not, must find it.
 */
static void
check_row(RoseTable *table, RoseLookup *lookup, const RoseRow *row, const Datum *last,
		  uint64 number, CheckState *state)
{
	const RoseSchema *schema = table->schema;
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
check_rows_forward(RoseTable *table, CheckState *state)
{
	RoseScan   *scan = rose_scan_begin(table, GetActiveSnapshot(), NULL, true);
	RoseLookup *lookup = rose_lookup_create(table);
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
		rose_key_copy(table->schema, keys[turn], row->key, contexts[turn]);
		check_row(table, lookup, row, last, nrows, state);
		last = keys[turn];
	}
	rose_lookup_free(lookup);
	rose_scan_end(scan);
	return nrows;
}

static uint64
count_rows_backward(RoseTable *table)
{
	RoseScan   *scan = rose_scan_begin(table, GetActiveSnapshot(), NULL, true);
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
	Relation	rel = open_own_table(PG_GETARG_OID(0), AccessShareLock);
	RoseTable  *table = rose_table_open(rel);

	InitMaterializedSRF(fcinfo, 0);
	state.result = (ReturnSetInfo *) fcinfo->resultinfo;

	rose_store_check(rel, &table->shared->store, report_problem, &state);
	check_components(table, &state);
	if (state.nproblems == 0)
	{
		uint64		forward = check_rows_forward(table, &state);
		uint64		backward = count_rows_backward(table);

		if (forward != backward)
			report_problem(&state, InvalidBlockNumber,
						   psprintf("a forward scan finds " UINT64_FORMAT
									" rows, a backward scan " UINT64_FORMAT,
									forward, backward));
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
