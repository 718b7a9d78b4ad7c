/*-------------------------------------------------------------------------
 *
 * rose_conflict.c
 *	  Write-write conflicts: PostgreSQL's rules on versions instead of tuples.
 *
 * A version that a transaction has read and wants to change is stale if a
 * newer one of the same key was committed; it must wait if a newer one, or a lock
 * entry, belongs to a transaction in progress whose lock mode conflicts.  Updates that keep the key
 * hold the row as FOR NO KEY UPDATE, tombstones as FOR UPDATE, as in heap.
 *
 * Locking: the key's partition lock keeps new versions of the key out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_write_internal.h"

#include "lsm/rose_tid.h"

/* Row lock conflicts, as in the manual's table. */
static bool
lock_modes_conflict(LockTupleMode a, LockTupleMode b)
{
	switch (Max(a, b))
	{
		case LockTupleExclusive:
			return true;
		case LockTupleNoKeyExclusive:
			return Min(a, b) != LockTupleKeyShare;
		default:
			return false;		/* shared modes */
	}
}

static LockTupleMode
version_lock_mode(const RoseVersion *version)
{
	if (version->op == ROSE_OP_LOCK)
		return (LockTupleMode) version->lockmode;
	return version->op == ROSE_OP_TOMBSTONE ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/* A committed version newer than the one that was read. */
static void
conflict_note_committed(RoseConflict *conflict, const RoseRow *row,
						const RoseComponentEntryDisk *entry)
{
	if (conflict->result == TM_Ok)
	{
		conflict->result = TM_Updated;
		conflict->newest = row->version;
		conflict->newest.present = NULL;
		conflict->newest_in_component = entry != NULL;
		if (entry)
			conflict->newest_entry = *entry;
		conflict->newest_ordinal = row->ordinal;
	}
	/* inserted again after it was deleted: not the same row any more */
	if (row->version.op == ROSE_OP_TOMBSTONE)
	{
		conflict->result = TM_Deleted;
		conflict->moved_to = row->version.moved_to;
	}
	conflict->xmax = XidFromFullTransactionId(row->version.xid);
}

/* An own version or lock; true if it decides. */
static bool
conflict_note_own(RoseConflict *conflict, const RoseVersion *version,
				  LockTupleMode mode, CommandId cid)
{
	if (version->op == ROSE_OP_LOCK)
	{
		if (version->lockmode >= mode)
			conflict->locked = true;
		return false;
	}
	conflict->result = version->cid >= cid ? TM_SelfModified : TM_Invisible;
	conflict->xmax = XidFromFullTransactionId(version->xid);
	conflict->cmax = version->cid;
	return true;
}

void
rose_conflict_check(RoseTable *table, const Datum *key, uint64 seq,
					LockTupleMode mode, CommandId cid, RoseConflict *conflict)
{
	RoseKeyReader *reader = rose_write_reader(table);
	const RoseRow *row;
	bool		committed;

	memset(conflict, 0, sizeof(*conflict));
	conflict->result = TM_Ok;
	rose_key_reader_start(reader, key, PG_UINT64_MAX);

	while ((row = rose_key_reader_next(reader, &committed)) != NULL &&
		   row->version.seq > seq)
	{
		RoseXidStatus status = committed ? ROSE_XID_COMMITTED :
			rose_version_status(&row->version);

		switch (status)
		{
			case ROSE_XID_ABORTED:
				break;
			case ROSE_XID_OWN:
				if (conflict_note_own(conflict, &row->version, mode, cid))
					return;
				break;
			case ROSE_XID_IN_PROGRESS:
				if (lock_modes_conflict(mode, version_lock_mode(&row->version)))
				{
					conflict->result = TM_BeingModified;
					conflict->xwait = rose_version_writer(&row->version);
					return;
				}
				break;
			case ROSE_XID_COMMITTED:
				if (row->version.op != ROSE_OP_LOCK)
					conflict_note_committed(conflict, row,
											rose_key_reader_entry(reader));
				break;
		}
	}
}

/* A row whose key was changed is not deleted: it lives on under its new key. */
TM_Result
rose_conflict_result(const RoseConflict *conflict)
{
	if (conflict->result == TM_Deleted && conflict->moved_to != 0)
		return TM_Updated;
	return conflict->result;
}

void
rose_conflict_report(RoseTable *table, const RoseConflict *conflict,
					 const ItemPointerData *tid, TM_FailureData *tmfd)
{
	tmfd->ctid = *tid;
	tmfd->xmax = conflict->xmax;
	tmfd->cmax = conflict->result == TM_SelfModified ? conflict->cmax : InvalidCommandId;
	if (conflict->result == TM_Updated)
		rose_tid_assign(table,
						conflict->newest_in_component ? &conflict->newest_entry : NULL,
						conflict->newest_ordinal, conflict->newest.seq, &tmfd->ctid);
	else if (conflict->result == TM_Deleted && conflict->moved_to != 0)
		rose_tid_assign(table, NULL, 0, conflict->moved_to, &tmfd->ctid);
}
