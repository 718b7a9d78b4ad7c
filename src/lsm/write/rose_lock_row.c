/*-------------------------------------------------------------------------
 *
 * rose_lock_row.c
 *	  Row locks by TID: SELECT FOR UPDATE and its weaker kin.
 *
 * As for a change (rose_modify.c), the version that the TID names is found, then, under the key's
 * partition lock, rose_conflict.c is asked what happened to the key since, and the lock is
 * written, or we wait and ask again.  A row lock is a version of its own (ROSE_OP_LOCK) in C0.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_conflict.h"
#include "lsm/write/rose_lock_row.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_row_target.h"
#include "lsm/write/rose_row_wait.h"
#include "lsm/write/rose_write.h"

/*
 * Go from a superseded version to the newest one, or to what it became under another key,
 * which the conflict names.  The newest one of the same key may have been superseded,
 * spilled and dropped in this moment; then the target stays, and the next look finds what
 * came after it.
 */
static void
follow_to_newest(RoseTree *tree, RoseLookup *lookup, const RoseConflict *conflict,
				 ItemPointer tid, RoseRowTarget *target)
{
	ItemPointerData newest;

	rose_row_wait_leave(tree, target);
	rose_conflict_newest_tid(tree, conflict, &newest);
	if (rose_row_target_locate(tree, lookup, &newest, NULL, target))
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
is_held_by_own_version(const RoseRowTarget *target, LockTupleMode mode)
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
refer_changed(RoseTree *tree, const RoseRowTarget *target, const RoseConflict *conflict)
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
try_lock(RoseTree *tree, const RoseRowTarget *target, CommandId cid,
		 LockTupleMode mode, RoseConflict *conflict)
{
	RoseNewVersion new;
	RoseC0Look	look;
	RoseMemPrepared written = ROSE_MEM_PREPARED;
	bool		log = rose_tree_logs_locks();

	rose_row_target_key_version(tree, target, ROSE_OP_LOCK, cid, &new);
	new.version.lockmode = (uint8) mode;

	rose_partition_lock(target->partition);
	rose_write_look(tree, &look);
	rose_conflict_check(tree, target->key, target->seq, mode, cid, conflict);
	/* updates that kept the key do not concern who only wants to keep the key, as in heap */
	if (mode == LockTupleKeyShare && conflict->result == TM_Updated &&
		conflict->moved_to == 0 && !target->followed && !refer_changed(tree, target, conflict))
		conflict->result = TM_Ok;
	ROSE_STOP_POINT("lock-looked"); /* under the partition lock */
	if (conflict->result == TM_Ok && !conflict->locked && !is_held_by_own_version(target, mode) &&
		!rose_write_reuse_lock(tree, &conflict->dead_lock, &new, &look, log))
		written = rose_write_versions(tree, &new, 1, &look, ROSE_INDEXES_ANY, log);
	rose_partition_unlock(target->partition);
	return written;
}

/* Lock the target or what became of it; *tid follows. */
static TM_Result
lock_target(RoseTree *tree, RoseLookup *lookup, RoseRowTarget *target, ItemPointer tid,
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
			if (!rose_row_wait_by_policy(tree, target, mode, &conflict, policy))
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
	RoseRowTarget target;
	TM_Result	result;

	(void) rose_index_set(tree);	/* which columns others may refer to, before locks are taken */
	*newest_tid = *tid;
	tmfd->traversed = false;
	if (!rose_row_target_locate(tree, lookup, tid, NULL, &target))
		rose_row_target_unknown(tree);
	if (target.own && target.cid >= cid)
		result = TM_Invisible;	/* of this very command: ON CONFLICT meets a row twice */
	else
		result = lock_target(tree, lookup, &target, newest_tid, cid, mode, wait_policy,
							 (flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0, tmfd);
	rose_row_wait_leave(tree, &target);
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
