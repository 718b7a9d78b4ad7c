/*-------------------------------------------------------------------------
 *
 * rose_spill_private.c
 *	  The private runs that a spill writes.
 *
 * A transaction may add columns in a subtransaction, go on writing and roll back to
 * before them; then it may add others, which get the same numbers.  A component says once
 * for all of its rows which columns it has.  So rows that are there with and without what
 * may be rolled back are not put together: each run has rows that have seen the same
 * changes.  Of one whose columns were taken back, all rows are aborted.
 *
 * Of two versions of a key that are not aborted, the newer one has at least as many
 * columns: runs with more columns stand in front.
 *
 * The number of such runs is limited, for there must be places for all components that
 * are built at a time (rose_store.h).
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store.h"
#include "lsm/merge/rose_spill_private.h"

/* Most runs of one spill. */
#define MOST_RUNS	8

/*
 * What is built at a time and not by a worker's merge.  Who has ROSE_LOCK_SPILL builds
 * these runs and one of committed rows, or one past memory; who has ROSE_LOCK_MERGE
 * exclusively, what a merge makes of open and of other rows; who is in a writing section
 * opens a tail segment; and one loads the table in bulk.  While a table is recovered,
 * rewritten or sorted anew nobody else builds anything.
 */
StaticAssertDecl(MOST_RUNS + 1 + 2 + 1 + 1 <= ROSE_MAX_BUILDING_OTHERS,
				 "a session may find no place for a component that it builds");

typedef struct PrivateRun
{
	int			natts;			/* -1: the only one */
	RoseComponentBuilder *builder;
} PrivateRun;

struct RoseSpillPrivate
{
	RoseTree   *tree;
	const RoseSpillSchemas *schemas;
	uint64		nversions;
	MemoryContext context;
	int			nruns;
	PrivateRun	runs[MOST_RUNS];	/* most columns first */
};

RoseSpillPrivate *
rose_spill_private_create(RoseTree *tree, const RoseSpillSchemas *schemas, uint64 nversions,
						  MemoryContext context)
{
	RoseSpillPrivate *private = MemoryContextAllocZero(context, sizeof(RoseSpillPrivate));

	private->tree = tree;
	private->schemas = schemas;
	private->nversions = nversions;
	private->context = context;
	return private;
}

static RoseComponentBuilder *
make_builder(RoseSpillPrivate *private, int natts)
{
	RoseTree   *tree = private->tree;
	const RoseSchema *schema = private->schemas->open;

	if (natts >= 0)
		schema = rose_altered_class_schema(private->schemas, natts, private->context);
	return rose_component_builder_create(tree->rel, &tree->shared->store, schema,
										 private->nversions, ROSE_BUILD_PRIVATE,
										 private->context);
}

static void
report_too_many(RoseSpillPrivate *private)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many subtransactions have added columns to table \"%s\"",
					RelationGetRelationName(private->tree->rel)),
			 errdetail("Rows in memory were written between changes of columns that may each be rolled back; at most %d such groups can be written to disk at a time.",
					   MOST_RUNS),
			 errhint("Release savepoints, or add the columns in one of them.")));
}

/* The run of rows with so many columns. */
static RoseComponentBuilder *
find_builder(RoseSpillPrivate *private, int natts)
{
	int			at = 0;

	while (at < private->nruns && private->runs[at].natts > natts)
		at++;
	if (at < private->nruns && private->runs[at].natts == natts)
		return private->runs[at].builder;
	if (private->nruns == MOST_RUNS)
		report_too_many(private);
	memmove(&private->runs[at + 1], &private->runs[at],
			(private->nruns - at) * sizeof(PrivateRun));
	private->runs[at].natts = natts;
	private->runs[at].builder = NULL;
	private->nruns++;
	private->runs[at].builder = make_builder(private, natts);
	return private->runs[at].builder;
}

void
rose_spill_private_add(RoseSpillPrivate *private, const RoseRow *row)
{
	int			natts = private->schemas->apart ?
		rose_altered_class(private->schemas, row->tuple) : -1;

	rose_component_builder_add(find_builder(private, natts), row);
}

int
rose_spill_private_finish(RoseSpillPrivate *private, RoseComponentEntryDisk *entries)
{
	for (int i = 0; i < private->nruns; i++)
		rose_component_builder_finish(private->runs[i].builder, &entries[i]);
	return private->nruns;
}

void
rose_spill_private_free(RoseSpillPrivate *private)
{
	for (int i = 0; i < private->nruns; i++)
		rose_component_builder_free(private->runs[i].builder);
}
