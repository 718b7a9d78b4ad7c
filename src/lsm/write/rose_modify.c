/*-------------------------------------------------------------------------
 *
 * rose_modify.c
 *	  UPDATE, DELETE and row locks by TID.
 *
 * Each finds the version that the TID names, then, under the key's partition lock, asks
 * rose_conflict.c what happened to the key since, and writes or waits and asks
 * again.  A row lock is a version of its own (ROSE_OP_LOCK) in C0.
 *
 * An UPDATE that changes the key is a tombstone and a put; the tombstone names
 * the put by its sequence number, so that whoever waits for the old row can follow it.
 *
 * Who waits queues up at a heavyweight tuple lock, named by the key's hash, as heap's
 * waiters do: first come, first served.  Transactions that hold a lock on the row already
 * do not queue, or two of them could wait for each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_conflict.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_entries.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_modify.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_unique.h"
#include "lsm/write/rose_write.h"

/* The version an operation is about. */
typedef struct TargetVersion
{
	ItemPointerData tid;		/* as the statement names it */
	uint64		seq;
	bool		own;			/* written by the current transaction ... */
	CommandId	cid;			/* ... in this command ... */
	bool		refer_change;	/* ... with another value of what foreign keys may refer to */
	Datum		key[INDEX_MAX_KEYS];
	int			partition;
	bool		followed;		/* it is what another version of the row became */
	bool		queued;			/* we hold the tuple lock ... */
	LOCKMODE	queue_mode;		/* ... in this mode */
	ItemPointerData queue_tid;	/* ... under this name */
} TargetVersion;

/* Find the TID's version; false if the TID names none.  entries: is told the row; or NULL. */
static bool
target_locate(RoseTree *tree, RoseLookup *lookup, const ItemPointerData *tid,
			  RoseEntryWriter *entries, TargetVersion *target)
{
	const RoseRow *row = rose_lookup_fetch_tid(lookup, tid, SnapshotAny);

	if (row == NULL)
		return false;
	target->tid = *tid;
	target->seq = row->version.seq;
	target->own = TransactionIdIsCurrentTransactionId(rose_version_writer(&row->version));
	target->cid = row->version.cid;
	target->refer_change = target->own && row->version.op == ROSE_OP_PUT &&
		row->version.lockmode == LockTupleExclusive;
	rose_key_copy(tree->schema, target->key, row->key, CurrentMemoryContext);
	if (unlikely(entries != NULL))
		rose_entries_note_old(entries, row);
	target->partition = rose_partition_of_key(tree, target->key);
	target->followed = false;
	target->queued = false;
	return true;
}

/* ---- waiting in line ---- */

static LOCKMODE
queue_lock_mode(LockTupleMode mode)
{
	switch (mode)
	{
		case LockTupleKeyShare:
			return AccessShareLock;
		case LockTupleShare:
			return RowShareLock;
		case LockTupleNoKeyExclusive:
			return ExclusiveLock;
		case LockTupleExclusive:
			return AccessExclusiveLock;
	}
	return AccessExclusiveLock;
}

/* Name of a key for the lock manager: keys whose hashes collide share a line. */
static void
queue_name(RoseTree *tree, const TargetVersion *target, ItemPointer tid)
{
	uint64		hash = tree->schema->nkeys == 0 ? (uint64) DatumGetInt64(target->key[0]) :
		rose_key_hash(tree->schema, target->key);

	ItemPointerSet(tid, (BlockNumber) (hash >> 16), (OffsetNumber) ((hash & 0x7FFF) + 1));
}

/* Get in line; false if that would mean to wait and policy says not to. */
static bool
queue_enter(RoseTree *tree, TargetVersion *target, LockTupleMode mode,
			LockWaitPolicy policy)
{
	if (target->queued)
		return true;
	target->queue_mode = queue_lock_mode(mode);
	queue_name(tree, target, &target->queue_tid);
	if (policy == LockWaitBlock)
		LockTuple(tree->rel, &target->queue_tid, target->queue_mode);
	else if (!rose_try_lock_tuple(tree->rel, &target->queue_tid, target->queue_mode,
								  policy == LockWaitError))
		return false;
	target->queued = true;
	return true;
}

static void
queue_leave(RoseTree *tree, TargetVersion *target)
{
	if (target->queued)
		UnlockTuple(tree->rel, &target->queue_tid, target->queue_mode);
	target->queued = false;
}

/*
 * Wait for the transaction that a conflict names, in line unless we hold a lock.  An
 * error meanwhile says what was to be done with which row.
 */
static void
wait_in_line(RoseTree *tree, TargetVersion *target, LockTupleMode mode,
			 const RoseConflict *conflict, XLTW_Oper what)
{
	if (!conflict->locker)
		(void) queue_enter(tree, target, mode, LockWaitBlock);
	XactLockTableWait(conflict->xwait, tree->rel, &target->tid, what);
}

static void
unknown_tid(RoseTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("row identifier is not of this transaction for table \"%s\"",
					RelationGetRelationName(tree->rel)),
			 errdetail("The ctid of a row in a rose table is valid only in the transaction that read it.")));
}

static bool
visible_to_crosscheck(RoseTree *tree, const ItemPointerData *tid, Snapshot crosscheck)
{
	return crosscheck == InvalidSnapshot ||
		rose_lookup_fetch_tid(rose_lookup_cached(tree), tid, crosscheck) != NULL;
}

/* The version's row id: in a table without key it is the key. */
static int64
target_rowid(RoseTree *tree, const TargetVersion *target)
{
	return tree->schema->nkeys == 0 ? DatumGetInt64(target->key[0]) : 0;
}

static void
make_key_version(RoseTree *tree, const TargetVersion *target, RoseOp op,
				 CommandId cid, RoseNewVersion *new)
{
	rose_new_version_stamp(&new->version, op, cid);
	new->version.rowid = target_rowid(tree, target);
	memcpy(new->key, target->key, sizeof(new->key));
	new->row = rose_new_version_form_key_row(tree, target->key);
}

/* ---- changes ---- */

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
plan_delete(RoseTree *tree, const TargetVersion *target, CommandId cid, bool changing_part,
			ChangePlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	make_key_version(tree, target, ROSE_OP_TOMBSTONE, cid, &plan->versions[0]);
	if (changing_part)
		plan->versions[0].version.moved_to = ROSE_MOVED_TO_PARTITION;
	plan->nversions = 1;
	plan->new_partition = target->partition;
	plan->mode = LockTupleExclusive;
	plan->what = XLTW_Delete;
}

static void
plan_update(RoseTree *tree, const TargetVersion *target, const Datum *values,
			const bool *nulls, CommandId cid, ChangePlan *plan)
{
	RoseNewVersion *put = &plan->versions[0];
	const RoseSchema *schema = tree->schema;

	memset(plan, 0, sizeof(*plan));
	rose_new_version_stamp(&put->version, ROSE_OP_PUT, cid);
	put->version.rowid = target_rowid(tree, target);
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
	make_key_version(tree, target, ROSE_OP_TOMBSTONE, cid, &plan->versions[0]);
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
plan_values(RoseTree *tree, const TargetVersion *target, RoseEntryWriter *entries, ChangePlan *plan)
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
lock_plan(const TargetVersion *target, const ChangePlan *plan)
{
	if (unlikely(plan->values != NULL))
		rose_unique_values_lock(plan->values);
	else
		lock_two_partitions(target->partition, plan->new_partition);
}

static void
unlock_plan(const TargetVersion *target, const ChangePlan *plan)
{
	if (unlikely(plan->values != NULL))
		rose_unique_values_unlock(plan->values);
	else
		unlock_two_partitions(target->partition, plan->new_partition);
}

/* Write what was planned, and repeat others' key-share locks above it. */
static RoseMemPrepared
write_plan(RoseTree *tree, const TargetVersion *target, const RoseConflict *conflict,
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
try_change(RoseTree *tree, const RoseEntries *entries, const TargetVersion *target,
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
reopen_entries(RoseTree *tree, const TargetVersion *target, RoseEntries *entries, ChangePlan *plan)
{
	const RoseRow *row;

	rose_entries_reopen(tree, entries);
	plan->values = NULL;
	if (entries->writer == NULL)
		return;
	row = rose_lookup_fetch_tid(rose_lookup_cached(tree), &target->tid, SnapshotAny);
	if (row == NULL)
		unknown_tid(tree);
	rose_entries_note_old(entries->writer, row);
	if (plan->what == XLTW_Update)
		plan_values(tree, target, entries->writer, plan);
}

/* Until it is done, or cannot be; *duplicate: because of what stands in *obstacle. */
static TM_Result
change_target(RoseTree *tree, const RoseChange *change, RoseEntries *entries,
			  TargetVersion *target, ChangePlan *plan, ChangeObstacle *obstacle, bool *duplicate)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!rose_entries_are_current(tree, entries))
			reopen_entries(tree, target, entries, plan);
		try_change(tree, entries, target, plan, change->cid, obstacle);
		if (obstacle->conflict.result == TM_BeingModified && change->wait)
			wait_in_line(tree, target, plan->mode, &obstacle->conflict, plan->what);
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
				   TargetVersion *target, ChangePlan *plan, ChangeObstacle *obstacle,
				   bool *duplicate)
{
	TM_Result	result;

	if (visible_to_crosscheck(tree, &change->tid, change->crosscheck))
	{
		result = change_target(tree, change, entries, target, plan, obstacle, duplicate);
		queue_leave(tree, target);
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
	TargetVersion target;
	ChangePlan	plan;
	ChangeObstacle obstacle;
	bool		duplicate = false;
	TM_Result	result;

	rose_entries_open(tree, &entries);
	if (!target_locate(tree, rose_lookup_cached(tree), &change->tid, entries.writer, &target))
		unknown_tid(tree);
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
	TargetVersion target;
	ChangePlan	plan;
	ChangeObstacle obstacle;
	TM_Result	result;

	memset(updated, 0, sizeof(*updated));
	rose_entries_open(tree, &entries);
	if (!target_locate(tree, rose_lookup_cached(tree), &change->tid, entries.writer, &target))
		unknown_tid(tree);
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

/* ---- row locks ---- */

/*
 * Wait for another transaction as the policy says; false = SKIP LOCKED will not.
 */
static bool
wait_by_policy(RoseTree *tree, TargetVersion *target, LockTupleMode mode,
			   const RoseConflict *conflict, LockWaitPolicy policy)
{
	if (policy == LockWaitBlock)
	{
		wait_in_line(tree, target, mode, conflict, XLTW_Lock);
		return true;
	}
	if ((conflict->locker || queue_enter(tree, target, mode, policy)) &&
		rose_try_wait_for_xact(conflict->xwait, policy == LockWaitError))
		return true;
	if (policy == LockWaitError)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on row in relation \"%s\"",
						RelationGetRelationName(tree->rel))));
	return false;
}

/*
 * Go from a superseded version to the newest one, or to what it became under another key,
 * which the conflict names.  The newest one of the same key may have been superseded,
 * spilled and dropped in this moment; then the target stays, and the next look finds what
 * came after it.
 */
static void
follow_to_newest(RoseTree *tree, RoseLookup *lookup, const RoseConflict *conflict,
				 ItemPointer tid, TargetVersion *target)
{
	ItemPointerData newest;

	queue_leave(tree, target);
	rose_conflict_newest_tid(tree, conflict, &newest);
	if (target_locate(tree, lookup, &newest, NULL, target))
	{
		target->followed = true;
		*tid = newest;
	}
	else if (conflict->moved_to != 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not follow a row of table \"%s\" to its new key",
						RelationGetRelationName(tree->rel)),
				 errhint("Try again.")));
}

/*
 * Who has written the row's newest version needs no lock on it, unless for more than an
 * update holds that keeps the key.  Others see the version before, and look at what is
 * above it.
 */
static bool
is_held_by_own_version(const TargetVersion *target, LockTupleMode mode)
{
	return target->own && mode <= LockTupleNoKeyExclusive;
}

static Datum
copy_column(RoseTree *tree, const RoseRow *row, AttrNumber attno, bool *isnull)
{
	const RoseTupleColumn *column = &tree->schema->tuple_columns[attno - 1];
	Datum		value = rose_row_getattr(row, tree->schema, attno, isnull);

	return *isnull ? (Datum) 0 : datumCopy(value, column->attbyval, column->attlen);
}

static bool
column_differs(RoseTree *tree, const RoseRow *row, AttrNumber attno, Datum value, bool isnull)
{
	const RoseTupleColumn *column = &tree->schema->tuple_columns[attno - 1];
	bool		is_null;
	Datum		is = rose_row_getattr(row, tree->schema, attno, &is_null);

	return is_null != isnull ||
		(!isnull && !datum_image_eq(is, value, column->attbyval, column->attlen));
}

/*
 * Has a row that was updated since another value in a column that foreign keys may refer
 * to?  If its newest version is not found any more: it may have.
 */
static bool
refer_changed(RoseTree *tree, const TargetVersion *target, const RoseConflict *conflict)
{
	const RoseIndexSet *set = rose_index_set(tree);
	RoseLookup *lookup = rose_lookup_cached(tree);
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber];
	ItemPointerData newest;
	const RoseRow *row = NULL;
	bool		changed = false;
	int			attno = -1;

	if (likely(set == NULL || set->refers == NULL))
		return false;
	rose_conflict_newest_tid(tree, conflict, &newest);
	row = rose_lookup_fetch_tid(lookup, &target->tid, SnapshotAny);
	if (row == NULL)
		return true;
	while ((attno = bms_next_member(set->refers, attno)) >= 0)
		values[attno - 1] = copy_column(tree, row, attno, &nulls[attno - 1]);
	row = rose_lookup_fetch_tid(lookup, &newest, SnapshotAny);
	if (row == NULL)
		return true;
	attno = -1;
	while (!changed && (attno = bms_next_member(set->refers, attno)) >= 0)
		changed = column_differs(tree, row, attno, values[attno - 1], nulls[attno - 1]);
	return changed;
}

/* One attempt under the partition lock; says what became of writing the lock, if that was needed. */
static RoseMemPrepared
try_lock(RoseTree *tree, const TargetVersion *target, CommandId cid,
		 LockTupleMode mode, RoseConflict *conflict)
{
	RoseNewVersion new;
	RoseC0Look	look;
	RoseMemPrepared written = ROSE_MEM_PREPARED;
	bool		log = rose_tree_logs_locks();

	make_key_version(tree, target, ROSE_OP_LOCK, cid, &new);
	new.version.lockmode = (uint8) mode;

	rose_partition_lock(target->partition);
	rose_write_look(tree, &look);
	rose_conflict_check(tree, target->key, target->seq, mode, cid, conflict);
	/* updates that kept the key do not concern who only wants to keep the key, as in heap */
	if (mode == LockTupleKeyShare && conflict->result == TM_Updated &&
		conflict->moved_to == 0 && !target->followed && !refer_changed(tree, target, conflict))
		conflict->result = TM_Ok;
	if (conflict->result == TM_Ok && !conflict->locked && !is_held_by_own_version(target, mode) &&
		!rose_write_reuse_lock(tree, &conflict->dead_lock, &new, log))
		written = rose_write_versions(tree, &new, 1, &look, ROSE_INDEXES_ANY, log);
	rose_partition_unlock(target->partition);
	return written;
}

/* Lock the target or what became of it; *tid follows. */
static TM_Result
lock_target(RoseTree *tree, RoseLookup *lookup, TargetVersion *target, ItemPointer tid,
			CommandId cid, LockTupleMode mode, LockWaitPolicy policy, bool follow,
			TM_FailureData *tmfd)
{
	for (;;)
	{
		RoseConflict conflict;
		RoseMemPrepared written;

		CHECK_FOR_INTERRUPTS();
		written = try_lock(tree, target, cid, mode, &conflict);
		if (written == ROSE_MEM_NO_ROOM)
			rose_make_room(tree);
		if (written != ROSE_MEM_PREPARED)
			continue;
		if (conflict.result == TM_Ok)
			return TM_Ok;
		if (conflict.result == TM_BeingModified)
		{
			if (!wait_by_policy(tree, target, mode, &conflict, policy))
				return TM_WouldBlock;
			continue;
		}

		rose_conflict_report(tree, &conflict, tid, tmfd);
		if (!follow || conflict.result == TM_SelfModified || conflict.result == TM_Invisible)
			return conflict.result;
		/* as heap says it when it finds the end of the chain elsewhere */
		if (conflict.moved_to == ROSE_MOVED_TO_PARTITION)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
		if (conflict.result != TM_Updated)
			return TM_Deleted;
		follow_to_newest(tree, lookup, &conflict, tid, target);
		tmfd->traversed = true;
	}
}

TM_Result
rose_lock_row(RoseTree *tree, RoseLookup *lookup, ItemPointer tid, CommandId cid,
			  LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
			  const RoseRow **row, ItemPointer newest_tid, TM_FailureData *tmfd)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "rose row lock",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	TargetVersion target;
	TM_Result	result;

	(void) rose_index_set(tree);	/* which columns others may refer to, before locks are taken */
	*newest_tid = *tid;
	tmfd->traversed = false;
	if (!target_locate(tree, lookup, tid, NULL, &target))
		unknown_tid(tree);
	if (target.own && target.cid >= cid)
		result = TM_Invisible;	/* of this very command: ON CONFLICT meets a row twice */
	else
		result = lock_target(tree, lookup, &target, newest_tid, cid, mode, wait_policy,
							 (flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0, tmfd);
	queue_leave(tree, &target);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	*row = NULL;
	if (result == TM_Ok || result == TM_WouldBlock || result == TM_Invisible)
		*row = rose_lookup_fetch_tid(lookup, newest_tid, SnapshotAny);
	/* the way there has led over names for our own use */
	if (*row != NULL && tmfd->traversed && rose_tid_exact)
		rose_lookup_tid(lookup, newest_tid);
	return result;
}
