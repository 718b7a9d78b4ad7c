/*-------------------------------------------------------------------------
 *
 * rose_modify.c
 *	  UPDATE and DELETE by TID.
 *
 * Each finds the version that the TID names, then, under the key's partition lock, asks
 * rose_conflict.c what happened to the key since, and writes, or waits (rose_row_wait.c) and asks
 * again.
 *
 * An UPDATE that changes the key is a tombstone and a put; the tombstone names
 * the put by its sequence number, so that whoever waits for the old row can follow it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_conflict.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_modify.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_row_target.h"
#include "lsm/write/rose_row_wait.h"
#include "lsm/write/rose_unique.h"
#include "lsm/write/rose_write.h"

static bool
visible_to_crosscheck(RoseTree *tree, const ItemPointerData *tid, Snapshot crosscheck)
{
	return crosscheck == InvalidSnapshot ||
		rose_lookup_fetch_tid(rose_lookup_cached(tree), tid, crosscheck) != NULL;
}

/* What a change writes. */
typedef struct ChangePlan
{
	RoseNewVersion versions[2]; /* tombstone of the old key, unless the row stays there; the row, unless it goes */
	int			nversions;
	bool		moved;			/* to another key */
	int			new_partition;
	RoseUniqueValues *values;	/* of unique indexes that the row is to have, the key that it moves to among
								 * them; NULL: none of these */
	LockTupleMode mode;			/* in which the row is held until the end of the transaction */
	XLTW_Oper	what;			/* for the context of errors */
} ChangePlan;

static void
plan_delete(RoseTree *tree, const RoseRowTarget *target, CommandId cid, bool changing_part,
			ChangePlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	rose_row_target_key_version(tree, target, ROSE_OP_TOMBSTONE, cid, &plan->versions[0]);
	if (changing_part)
		plan->versions[0].version.moved_to = ROSE_MOVED_TO_PARTITION;
	plan->nversions = 1;
	plan->new_partition = target->partition;
	plan->mode = LockTupleExclusive;
	plan->what = XLTW_Delete;
}

static void
plan_update(RoseTree *tree, const RoseRowTarget *target, const Datum *values,
			const bool *nulls, CommandId cid, ChangePlan *plan)
{
	RoseNewVersion *put = &plan->versions[0];
	const RoseSchema *schema = tree->schema;

	memset(plan, 0, sizeof(*plan));
	rose_new_version_stamp(&put->version, ROSE_OP_PUT, cid);
	put->version.rowid = rose_row_target_rowid(tree, target);
	put->row = rose_new_version_form_row(tree, values, nulls, put->key);
	plan->nversions = 1;
	plan->mode = LockTupleNoKeyExclusive;
	plan->what = XLTW_Update;
	plan->new_partition = target->partition;
	if (schema->nkeys == 0)
	{
		put->key[0] = target->key[0];
		return;
	}
	if (rose_key_compare(schema, put->key, target->key, schema->nkeys) == 0)
		return;

	plan->moved = true;
	plan->mode = LockTupleExclusive;
	plan->versions[1] = plan->versions[0];
	plan->versions[1].version.moved_to = ROSE_MOVED_HERE;
	rose_row_target_key_version(tree, target, ROSE_OP_TOMBSTONE, cid, &plan->versions[0]);
	plan->versions[0].version.moved_to = 1; /* filled in when sequences are known */
	plan->nversions = 2;
	plan->new_partition = rose_partition_of_key(tree, plan->versions[1].key);
}

static void
lock_two_partitions(int a, int b)
{
	rose_partition_lock(Min(a, b));
	if (a != b)
		rose_partition_lock(Max(a, b));
}

static void
unlock_two_partitions(int a, int b)
{
	rose_partition_unlock(Max(a, b));
	if (a != b)
		rose_partition_unlock(Min(a, b));
}

/*
 * What the new row is the only one of, beside its key, and how much of a change it is for
 * those who refer to it.
 */
static void
plan_values(RoseTree *tree, const RoseRowTarget *target, RoseEntryWriter *entries, ChangePlan *plan)
{
	RoseNewVersion *put = &plan->versions[plan->nversions - 1];

	if (target->refer_change || rose_entries_refer_change(entries, put))
	{
		plan->mode = LockTupleExclusive;
		put->version.lockmode = LockTupleExclusive;
	}
	plan->values = rose_entries_values(entries, put);
	if (plan->values == NULL)
		return;
	if (plan->moved)
		rose_unique_values_add_key(plan->values, put->key);
	rose_unique_values_add_partition(plan->values, target->partition);
	rose_unique_values_settle(plan->values);
}

static void
lock_plan(const RoseRowTarget *target, const ChangePlan *plan)
{
	if (unlikely(plan->values != NULL))
		rose_unique_values_lock(plan->values);
	else
		lock_two_partitions(target->partition, plan->new_partition);
}

static void
unlock_plan(const RoseRowTarget *target, const ChangePlan *plan)
{
	if (unlikely(plan->values != NULL))
		rose_unique_values_unlock(plan->values);
	else
		unlock_two_partitions(target->partition, plan->new_partition);
}

/* Write what was planned, and repeat others' key-share locks above it. */
static RoseMemPrepared
write_plan(RoseTree *tree, const RoseRowTarget *target, const RoseConflict *conflict,
		   ChangePlan *plan, RoseC0Look *look, uint64 generation)
{
	Size		planned = plan->nversions * sizeof(RoseNewVersion);
	RoseNewVersion *versions;
	RoseMemPrepared written;

	if (conflict->nlocks == 0)
		return rose_write_versions(tree, plan->versions, plan->nversions, look, generation, true);

	versions = palloc(planned + conflict->nlocks * sizeof(RoseNewVersion));
	memcpy(versions, plan->versions, planned);
	for (int i = 0; i < conflict->nlocks; i++)
	{
		RoseNewVersion *lock = &versions[plan->nversions + i];

		lock->version = conflict->locks[i];
		memcpy(lock->key, target->key, sizeof(lock->key));
		lock->row = rose_new_version_form_key_row(tree, target->key);
	}
	written = rose_write_versions(tree, versions, plan->nversions + conflict->nlocks, look,
								  generation, true);
	memcpy(plan->versions, versions, planned);
	pfree(versions);
	return written;
}

/* What stands in the way of a change, if anything does. */
typedef struct ChangeObstacle
{
	RoseConflict conflict;		/* at the row that is changed */
	RoseKeyState value;			/* of the key that it moves to, and values of unique indexes: the first that
								 * is not FREE ... */
	RoseUniqueValue *taken;		/* ... which is this; NULL: the key */
	TransactionId value_xwait;	/* BUSY */
	RoseMemPrepared written;	/* if neither does */
} ChangeObstacle;

static RoseKeyState
look_at_values(RoseTree *tree, const ChangePlan *plan, ChangeObstacle *obstacle)
{
	if (unlikely(plan->values != NULL))
		return rose_unique_values_look(plan->values, &obstacle->taken, &obstacle->value_xwait);
	return plan->moved ? rose_unique_key_state(tree, plan->versions[1].key, &obstacle->value_xwait) :
		ROSE_KEY_FREE;
}

/* The row is written: its entries in unique indexes.  False: values of them are not locked any more. */
static bool
write_unique(RoseEntryWriter *entries, const ChangePlan *plan, ChangeObstacle *obstacle)
{
	ROSE_STOP_POINT("change-row-written");	/* under partition locks */
	obstacle->value = rose_entries_write_unique(entries, plan->values, plan->versions,
												plan->nversions, true, &obstacle->taken);
	return obstacle->value == ROSE_KEY_FREE;
}

/* One attempt under the partition locks. */
static void
try_change(RoseTree *tree, const RoseEntries *entries, const RoseRowTarget *target,
		   ChangePlan *plan, CommandId cid, ChangeObstacle *obstacle)
{
	RoseC0Look	look;

	obstacle->value = ROSE_KEY_FREE;
	obstacle->taken = NULL;
	obstacle->written = ROSE_MEM_CHANGED;
	lock_plan(target, plan);
	rose_write_look(tree, &look);
	rose_conflict_check(tree, target->key, target->seq, plan->mode, cid, &obstacle->conflict);
	if (obstacle->conflict.result == TM_Ok)
		obstacle->value = look_at_values(tree, plan, obstacle);
	ROSE_STOP_POINT("change-looked");	/* under partition locks */
	if (obstacle->conflict.result == TM_Ok && obstacle->value == ROSE_KEY_FREE)
		obstacle->written = write_plan(tree, target, &obstacle->conflict, plan, &look,
									   entries->generation);
	if (unlikely(plan->values != NULL) && obstacle->written == ROSE_MEM_PREPARED &&
		!write_unique(entries->writer, plan, obstacle))
		return;
	unlock_plan(target, plan);
}

/* Open other indexes, which need to be told the row; what is planned for them may be another thing. */
static void
reopen_entries(RoseTree *tree, const RoseRowTarget *target, RoseEntries *entries, ChangePlan *plan)
{
	const RoseRow *row;

	rose_entries_reopen(tree, entries);
	plan->values = NULL;
	if (entries->writer == NULL)
		return;
	row = rose_lookup_fetch_tid(rose_lookup_cached(tree), &target->tid, SnapshotAny);
	if (row == NULL)
		rose_row_target_unknown(tree);
	rose_entries_note_old(entries->writer, row);
	if (plan->what == XLTW_Update)
		plan_values(tree, target, entries->writer, plan);
}

/* Until it is done, or cannot be; *duplicate: because of what stands in *obstacle. */
static TM_Result
change_target(RoseTree *tree, const RoseChange *change, RoseEntries *entries,
			  RoseRowTarget *target, ChangePlan *plan, ChangeObstacle *obstacle, bool *duplicate)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!rose_entries_are_current(tree, entries))
			reopen_entries(tree, target, entries, plan);
		try_change(tree, entries, target, plan, change->cid, obstacle);
		if (obstacle->conflict.result == TM_BeingModified && change->wait)
			rose_row_wait(tree, target, plan->mode, &obstacle->conflict, plan->what);
		else if (obstacle->conflict.result != TM_Ok)
		{
			rose_conflict_report(tree, &obstacle->conflict, &change->tid, change->tmfd);
			return obstacle->conflict.result;
		}
		else if (obstacle->taken != NULL && obstacle->written != ROSE_MEM_PREPARED &&
				 rose_unique_value_is_over(obstacle->taken))
			continue;
		else if (obstacle->value == ROSE_KEY_BUSY)
			rose_unique_wait(obstacle->taken != NULL ? obstacle->taken->tree : tree,
							 obstacle->value_xwait);
		else if (obstacle->value == ROSE_KEY_LIVE)
		{
			*duplicate = true;
			return TM_Ok;
		}
		else if (obstacle->written == ROSE_MEM_PREPARED)
			return TM_Ok;
		else if (obstacle->written == ROSE_MEM_NO_ROOM)
			rose_make_room(tree);
	}
}

/* A foreign key's action may ask for a row that another snapshot sees, too. */
static TM_Result
change_seen_target(RoseTree *tree, const RoseChange *change, RoseEntries *entries,
				   RoseRowTarget *target, ChangePlan *plan, ChangeObstacle *obstacle,
				   bool *duplicate)
{
	TM_Result	result;

	if (visible_to_crosscheck(tree, &change->tid, change->crosscheck))
	{
		result = change_target(tree, change, entries, target, plan, obstacle, duplicate);
		rose_row_wait_leave(tree, target);
		return result;
	}
	change->tmfd->ctid = change->tid;
	change->tmfd->xmax = InvalidTransactionId;
	change->tmfd->cmax = InvalidCommandId;
	return TM_Updated;
}

/* The table has what was planned, if anything was written. */
static void
finish_change(RoseTree *tree, const RoseEntries *entries, const ChangePlan *plan, bool changed)
{
	if (unlikely(entries->writer != NULL))
		rose_entries_finish(entries->writer, plan->versions, changed ? plan->nversions : 0);
	else if (changed)
		rose_pace_writes(tree, 1);
	for (int i = 0; changed && i < plan->nversions; i++)
		rose_predicate_written(tree, plan->versions[i].key);
}

TM_Result
rose_delete(RoseTree *tree, const RoseChange *change, bool changing_part)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose delete",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	RoseEntries entries;
	RoseRowTarget target;
	ChangePlan	plan;
	ChangeObstacle obstacle;
	bool		duplicate = false;
	TM_Result	result;

	rose_entries_open(tree, &entries);
	if (!rose_row_target_locate(tree, rose_lookup_cached(tree), &change->tid, entries.writer, &target))
		rose_row_target_unknown(tree);
	plan_delete(tree, &target, change->cid, changing_part, &plan);
	result = change_seen_target(tree, change, &entries, &target, &plan, &obstacle, &duplicate);
	finish_change(tree, &entries, &plan, result == TM_Ok);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}

/* What became of an update: another row is in the way, or the new one has a name. */
static void
tell_updated(RoseTree *tree, const ChangePlan *plan, const ChangeObstacle *obstacle,
			 MemoryContext context, RoseUpdated *updated)
{
	if (!updated->duplicate)
	{
		rose_tid_assign(tree, NULL, 0, plan->versions[plan->nversions - 1].version.seq,
						&updated->tid);
		if (unlikely(plan->values != NULL))
			updated->recheck = rose_unique_values_note_duplicates(plan->values, &updated->tid);
	}
	else if (obstacle->taken != NULL)
		rose_unique_value_describe(obstacle->taken, context, &updated->which);
}

TM_Result
rose_update(RoseTree *tree, const RoseChange *change, const Datum *values, const bool *nulls,
			RoseUpdated *updated)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose update",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	RoseEntries entries;
	RoseRowTarget target;
	ChangePlan	plan;
	ChangeObstacle obstacle;
	TM_Result	result;

	memset(updated, 0, sizeof(*updated));
	rose_entries_open(tree, &entries);
	if (!rose_row_target_locate(tree, rose_lookup_cached(tree), &change->tid, entries.writer, &target))
		rose_row_target_unknown(tree);
	plan_update(tree, &target, values, nulls, change->cid, &plan);
	if (unlikely(entries.writer != NULL))
		plan_values(tree, &target, entries.writer, &plan);
	updated->lockmode = plan.mode;
	result = change_seen_target(tree, change, &entries, &target, &plan, &obstacle,
								&updated->duplicate);
	if (result == TM_Ok)
		tell_updated(tree, &plan, &obstacle, old, updated);
	finish_change(tree, &entries, &plan, result == TM_Ok && !updated->duplicate);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return result;
}
