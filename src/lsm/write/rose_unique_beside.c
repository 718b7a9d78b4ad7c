/*-------------------------------------------------------------------------
 *
 * rose_unique_beside.c
 *	  Values that two rows have in a unique index which was built beside writers.  See
 *	  rose_unique_beside.h.
 *
 * While such an index is built, its tree has the entries of what was written since the
 * build began, and whoever writes a value looks for it there alone: of rows that were there
 * before he finds nothing.  So two rows may have one value when the build completes the
 * tree.
 *
 * From then on a look finds all.  Who has looked before that holds the partitions of
 * his values till he has linked his entries; when each partition was locked for a moment,
 * all of those have.  Then all entries are gone through as SnapshotDirty sees them, those in
 * progress included: what two rows can ever have, they have now.  Where that is so, the
 * transactions that it depends on are waited for, and the value is looked at again.
 *
 * A look is no moment: one row may leave the value behind it, and another one take it in
 * front of it.  So two rows that nobody is changing have to be found twice, one look
 * after the other.  In between both had the value, for a row that comes back to a value
 * finds the other one.
 *
 * Locking: partitions, one at a time; scans take theirs.  Nothing is held while it
 * waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "util/rose_stop_point.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_unique_pair.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_unique.h"
#include "lsm/write/rose_unique_beside.h"
#include "lsm/write/rose_unique_values.h"

/* Looks that have not seen the whole tree are over, and what follows from them is linked. */
static void
wait_for_looks(void)
{
	for (int i = 0; i < ROSE_PARTITIONS; i++)
	{
		rose_partition_lock(i);
		rose_partition_unlock(i);
	}
}

/*
 * The first value behind the one in *value, if that is valid, that two entries have; it goes
 * there.  False: there is none.
 */
static bool
next_pair(RoseTree *index, const RoseIndexTree *described, RoseKeyBuffer *value)
{
	const RoseSchema *schema = index->schema;
	RoseKeyRange behind = {0};
	SnapshotData snapshot;
	RoseScan   *scan;
	const RoseRow *entry;
	bool		found = false;

	if (value->valid)
	{
		behind.nlower = described->nvalue;
		memcpy(behind.lower, value->key, described->nvalue * sizeof(Datum));
	}
	InitDirtySnapshot(snapshot);
	scan = rose_scan_begin(index, &snapshot, value->valid ? &behind : NULL, true);
	value->valid = false;
	while (!found && (entry = rose_scan_next_keyed(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (rose_unique_value_is_distinct(described, schema, entry->key))
			continue;
		found = value->valid &&
			rose_key_compare(schema, value->key, entry->key, described->nvalue) == 0;
		if (!found)
			rose_key_buffer_set(value, schema, entry->key);
	}
	rose_scan_end(scan);
	return found;
}

/* How many rows have the value?  *xwait: a transaction that it depends on. */
static int
count_rows(RoseTree *index, const RoseIndexTree *described, const Datum *key,
		   TransactionId *xwait)
{
	SnapshotData snapshot;
	RoseKeyRange range;
	RoseScan   *scan;
	int			n = 0;

	*xwait = InvalidTransactionId;
	InitDirtySnapshot(snapshot);
	rose_unique_value_range(index->schema, described->nvalue, key, &range);
	scan = rose_scan_begin(index, &snapshot, &range, false);
	while (rose_scan_next_keyed(scan, ForwardScanDirection) != NULL)
	{
		/* if that is of the row before, it is waited for just as well */
		if (TransactionIdIsValid(snapshot.xmin))
			*xwait = snapshot.xmin;
		else if (TransactionIdIsValid(snapshot.xmax))
			*xwait = snapshot.xmax;
		n++;
	}
	rose_scan_end(scan);
	return n;
}

/* When it depends on nobody any more. */
static bool
have_two_rows(RoseTree *index, const RoseIndexTree *described, const Datum *key)
{
	int			found = 0;

	while (found < 2)
	{
		TransactionId xwait;

		CHECK_FOR_INTERRUPTS();
		if (count_rows(index, described, key, &xwait) < 2)
			return false;
		if (TransactionIdIsValid(xwait))
		{
			found = 0;
			rose_unique_wait(index, xwait);
		}
		else
			found++;
	}
	return true;
}

bool
rose_unique_beside_find(RoseTree *index, const RoseIndexTree *described, Datum *values, bool *nulls)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "rose unique beside writers",
												  ALLOCSET_DEFAULT_SIZES);
	RoseKeyBuffer value;
	bool		found = false;

	MemoryContextSwitchTo(context);
	rose_key_buffer_init(&value, context);
	wait_for_looks();
	ROSE_STOP_POINT("unique-beside-waited");	/* no LWLock */
	while (!found && next_pair(index, described, &value))
		found = have_two_rows(index, described, value.key);
	if (found)
		rose_unique_pair_take(described, index->schema, value.key, caller, values, nulls);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return found;
}
