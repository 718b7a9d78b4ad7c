/*-------------------------------------------------------------------------
 *
 * rose_sift_rows.c
 *	  The entries that the versions of a table have, for a merge of an index that sifts
 *	  (merge/rose_sift.h).
 *
 * The table is read key by key, in steps, each in a transaction of its own: a step goes on behind the
 * key at which the last one has ended.  Versions go down from memtables to runs and levels meanwhile, but
 * stay with their keys, and of each key all versions are of one view.
 *
 * Versions that were rolled back, or are in progress, have no part: their entries are not among what
 * the merge reads, or are not needed.  What computes an entry may fail: for a version that was
 * there before the index, and that nobody sees; or because there is too little memory, say, for one that has
 * an entry.  So nothing is sifted then.
 *
 * Locking: AccessShareLock of the table in each step.  If somebody has locked it, nothing is waited
 * for, and the merge goes on as others do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/merge/rose_sift.h"
#include "lsm/read/rose_version_walk.h"
#include "lsm/write/rose_sift_rows.h"

/* Keys, or leaves of them, between two looks at the clock. */
#define CLOCK_EVERY			256

typedef struct SiftRows
{
	RoseSift   *sift;
	RoseTree   *table;
	RoseTree   *index;
	RoseEntryShape shape;
	RoseVersionWalk *walk;
	FullTransactionId oldest;	/* everybody sees what was committed before */
	MemoryContext computed;		/* of one key */
	Datum	   *values;			/* of a row, by attribute number - 1 */
	bool	   *nulls;
} SiftRows;

/* Has it one? */
static bool
want_entry(const SiftRows *rows, const Datum *values, const bool *nulls)
{
	RoseEntry	entry;
	Datum		key[INDEX_MAX_KEYS];

	rose_entry_of_row(&rows->shape, rows->index->rel, ROSE_ENTRY_OF_DELETED, values, nulls, 0, &entry);
	if (entry.failed)
		rows->sift->progress = ROSE_SIFT_FAILED;
	if (!entry.exists)
		return false;
	rose_entry_key(rows->index->schema, &entry, key);
	rose_sift_want(rows->sift, key);
	return true;
}

/*
 * The newest one that everybody sees, and that no crash takes back: older ones are of no use to anybody.  What is not
 * in a component, or in one that waits for an epoch, may have to be applied again.
 */
static int
first_needed(const SiftRows *rows, const RoseWalkVersion *versions, int n)
{
	int			first = n - 1;

	while (first > 0 && !(versions[first].spilled && versions[first].status == ROSE_XID_COMMITTED &&
						  FullTransactionIdPrecedes(versions[first].version.xid, rows->oldest)))
		first--;
	return first;
}

/* Would versions older than this one be needed by nobody, if everybody saw it? */
static bool
is_kept_for_snapshots(const SiftRows *rows, const RoseWalkVersion *version)
{
	return version->spilled && version->status == ROSE_XID_COMMITTED && !FullTransactionIdPrecedes(version->version.xid, rows->oldest);
}

/* Of one row, oldest first. */
static void
want_versions(const SiftRows *rows, const RoseWalkVersion *versions, int n)
{
	MemoryContext old = MemoryContextSwitchTo(rows->computed);
	bool		any = false;
	uint64		nkept = 0;

	for (int i = first_needed(rows, versions, n); i < n; i++)
	{
		if (versions[i].version.op == ROSE_OP_PUT && want_entry(rows, versions[i].values, versions[i].nulls))
			any = true;
		if (i + 1 < n && is_kept_for_snapshots(rows, &versions[i + 1]))
			nkept++;
	}
	if (nkept > 0)
		rose_sift_want_for(rows->sift, nkept, versions[n - 1].version.xid);
	rows->sift->nrows += any;
	MemoryContextSwitchTo(old);
	MemoryContextReset(rows->computed);
}

/* Rows of a leaf, of the columns that entries are made of. */
static void
want_rows(const SiftRows *rows, const RoseWalkRows *found)
{
	const Datum *columns[MaxHeapAttributeNumber];
	const bool *nulls[MaxHeapAttributeNumber];
	int			at = found->from - found->leaf->rows.window_first;
	int			n = found->to - found->from;
	int			attno = -1;

	while ((attno = bms_next_member(rows->shape.depends, attno)) >= 0)
		columns[attno - 1] = rose_leaf_window_column(found->leaf, ROSE_SYSCOLS + attno - 1, &nulls[attno - 1]);
	for (int i = at; i < at + n; i++)
	{
		attno = -1;
		while ((attno = bms_next_member(rows->shape.depends, attno)) >= 0)
		{
			rows->values[attno - 1] = columns[attno - 1][i];
			rows->nulls[attno - 1] = nulls[attno - 1][i];
		}
		rows->sift->nrows += want_entry(rows, rows->values, rows->nulls);
	}
}

/* The next key, or many; false: there are none. */
static bool
read_next(const SiftRows *rows)
{
	const RoseWalkVersion *versions;
	RoseWalkRows found;
	int			n;

	/* what is computed is computed row by row */
	if (!rows->shape.evaluates && rose_version_walk_next_rows(rows->walk, &found))
	{
		want_rows(rows, &found);
		return true;
	}
	versions = rose_version_walk_next(rows->walk, &n);
	if (versions == NULL)
		return false;
	want_versions(rows, versions, n);
	return true;
}

/* False: the table has more keys. */
static bool
read_rows(const SiftRows *rows, int budget_ms)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	for (int nkeys = 1;; nkeys++)
	{
		instr_time	now;

		if (!read_next(rows))
			return true;
		if (rows->sift->progress == ROSE_SIFT_FAILED)
			return false;
		if (budget_ms != 0 && nkeys == rose_sift_keys)
			return false;
		if (budget_ms == 0 || nkeys % CLOCK_EVERY != 0)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if (INSTR_TIME_GET_MILLISEC(now) >= budget_ms)
			return false;
	}
}

/* Make ready to read on; false: that cannot be done. */
static bool
open_rows(SiftRows *rows)
{
	RoseSift   *sift = rows->sift;
	bool		locked;
	RoseTree   *table = rose_sift_open_table(rows->index, &locked);

	if (table == NULL)
		return false;
	rows->table = table;
	if (sift->wanted == NULL)
	{
		rose_sift_begin(sift, rows->index, table);
		rose_sift_expect(sift, rows->index, table);
	}
	else if (!RelFileLocatorEquals(sift->table, table->locator) || sift->incarnation != table->incarnation)
		return false;
	rose_index_set_shape(rows->index->rel, rose_tree_index_meta(rows->index), rows->index->schema,
						 table->schema->natts, &rows->shape);
	rows->computed = AllocSetContextCreate(CurrentMemoryContext, "rose sift row", ALLOCSET_SMALL_SIZES);
	rows->values = palloc0(table->schema->natts * sizeof(Datum));
	rows->nulls = palloc0(table->schema->natts * sizeof(bool));
	rows->walk = rose_version_walk_begin(table);
	rows->oldest = FullTransactionIdFromU64(rose_horizon_oldest(table->rel));
	rose_version_walk_expect_rows(rows->walk, rows->shape.last_source, rows->oldest);
	if (sift->at.valid)
		rose_version_walk_go_behind(rows->walk, sift->at.key);
	return true;
}

static void
sift_rows(RoseSift *sift, RoseTree *index, int budget_ms)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose sift", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	SiftRows	rows = {.sift = sift, .index = index};

	if (!open_rows(&rows))
		sift->progress = ROSE_SIFT_GIVEN_UP;
	else
	{
		if (read_rows(&rows, budget_ms))
			sift->progress = ROSE_SIFT_READY;
		else if (sift->progress == ROSE_SIFT_MORE)
			rose_key_buffer_set(&sift->at, rows.table->schema, rose_version_walk_last_key(rows.walk));
		rose_version_walk_end(rows.walk);
	}
	if (rows.table != NULL)
		rose_sift_close_table(rows.table);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
rose_sift_rows_register(void)
{
	rose_sift_hook = sift_rows;
}
