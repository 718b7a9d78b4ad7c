/*-------------------------------------------------------------------------
 *
 * rose_replace.c
 *	  All rows of a table are replaced, by one switch.
 *
 * The new rows go to a file of their own, while everybody reads the old one.  It belongs to a relation that is made for it, as
 * by ALTER TABLE, and that nobody else ever sees: it is dropped by the transaction that makes it.  When all rows
 * are there, the two relations change their files, and indexes are built of the new one; that is committed with whatever
 * else the transaction says of the table.
 *
 * For the switch nobody else may use the table.  Who waits for that in the lock's queue keeps readers waiting behind him; so
 * there are tries, of a tenth of a second or two, and pauses between them, which grow.  In the queue it must be, at times: a table
 * that is read all the time is never free when one looks, and who waits for our own lock (ALTER TABLE) would stand before
 * us for ever.
 *
 * The file says which transaction has made it, so that snapshots of before get an error, and no empty table (lsm/tree/rose_copied.h).
 *
 * Locking: RowExclusiveLock of the table from before the rows are read, AccessExclusiveLock from rose_replace_lock on, both until the
 * transaction ends.
 *
 * What this does not do: triggers of TRUNCATE, foreign keys.  To neither has anything happened that they are for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "commands/cluster.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "repl/rose_lock_slice.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_replace.h"
#include "repl/rose_staging.h"

/* In the queue for so long at a time, and then not for so long, which doubles. */
#define TRY_MS			100
#define FIRST_PAUSE_MS	100
#define MAX_PAUSE_MS	5000
/* While we wait, the upstream hears from us this often. */
#define BREATHE_MS		200
/* The worker does nothing else meanwhile. */
#define MAX_WAIT_HERE_MS	60000

/* ---------------------------------------------------------------------
 * The new file
 */

RoseReplacement *
rose_replace_begin(Relation rel)
{
	RoseReplacement *result = palloc0(sizeof(RoseReplacement));

	result->relid = RelationGetRelid(rel);
	result->made_relid = make_new_heap(result->relid, rel->rd_rel->reltablespace, rel->rd_rel->relam,
									   rel->rd_rel->relpersistence, RowExclusiveLock);
	result->made = table_open(result->made_relid, AccessExclusiveLock);
	rose_staging_take_key(rel, result->made);
	return result;
}

/* ---------------------------------------------------------------------
 * Waiting
 */

static void
unlock_first(List *relids, int n)
{
	while (n-- > 0)
		UnlockRelationOid(list_nth_oid(relids, n), AccessExclusiveLock);
}

/* All of them at once, or none, and then one that is in use. */
static Oid
try_all(List *relids)
{
	for (int i = 0; i < list_length(relids); i++)
	{
		if (ConditionalLockRelationOid(list_nth_oid(relids, i), AccessExclusiveLock))
			continue;
		unlock_first(relids, i);
		return list_nth_oid(relids, i);
	}
	return InvalidOid;
}

/* The one that was in use from the queue, and then all, with that once more. */
static Oid
try_in_queue(List *relids, Oid busy)
{
	RoseLockSlice slice = {.relid = busy,.mode = AccessExclusiveLock,.ms = TRY_MS,.patient = true};
	Oid			next;

	if (!rose_lock_slice_wait(&slice))
		return busy;
	next = try_all(relids);
	UnlockRelationOid(busy, AccessExclusiveLock);
	return next;
}

static void
pause_between(long ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);

	do
	{
		rose_apply.copies.breathe();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(ms, BREATHE_MS), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	} while (GetCurrentTimestamp() < until);
}

static void
wait_for_all(List *relids)
{
	TimestampTz begun = GetCurrentTimestamp();
	Oid			busy = try_all(relids);
	long		pause = FIRST_PAUSE_MS;

	while (OidIsValid(busy))
	{
		ROSE_STOP_POINT("replace-waits");
		if (rose_apply.copies.here && TimestampDifferenceExceeds(begun, GetCurrentTimestamp(), MAX_WAIT_HERE_MS))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("table \"%s\" is in use, so its new rows cannot take the place of the old ones",
							get_rel_name(busy)),
					 errdetail("It will be tried again.")));
		pause_between(pause);
		pause = Min(2 * pause, MAX_PAUSE_MS);
		busy = try_in_queue(relids, busy);
	}
}

void
rose_replace_lock(Oid relid, List *expected)
{
	wait_for_all(expected);
	if (!equal(rose_target_tables_of(relid), expected))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" has other partitions than when its copy began", get_rel_name(relid)),
				 errdetail("It will be tried again.")));
}

/* ---------------------------------------------------------------------
 * The switch
 */

/* It is the subscription's from the first moment on, and indexes go by it. */
static void
describe(RoseReplacement *replacement)
{
	RoseTree   *tree = rose_tree_open(replacement->made);

	Assert(rose_c0_is_empty(&tree->shared->c0));
	rose_copied_note(tree);
	rose_feed_begin(tree, rose_apply.sub->subid, rose_apply.sub->logged);
}

void
rose_replace_switch(RoseReplacement *replacement)
{
	Relation	rel = table_open(replacement->relid, NoLock);
	TransactionId frozen = replacement->made->rd_rel->relfrozenxid;
	MultiXactId minmulti = replacement->made->rd_rel->relminmxid;
	char		persistence = rel->rd_rel->relpersistence;

	describe(replacement);
	table_close(replacement->made, NoLock);
	replacement->made = NULL;
	TransferPredicateLocksToHeapRelation(rel);
	rose_repl_truncate_log(rel);
	pgstat_count_truncate(rel);
	table_close(rel, NoLock);

	finish_heap_swap(replacement->relid, replacement->made_relid, false, false, false, true,
					 frozen, minmulti, persistence);
}
