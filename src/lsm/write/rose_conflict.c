/*-------------------------------------------------------------------------
 *
 * rose_conflict.c
 *	  Write-write conflicts: PostgreSQL's rules on versions instead of tuples.
 *
 * A version that a transaction has read and wants to change is stale if a newer one of
 * the same key was committed; it must wait if a newer one, or a lock entry, belongs to a
 * transaction in progress whose lock mode conflicts.  Updates that keep the key hold the
 * row as FOR NO KEY UPDATE, tombstones, and updates of what foreign keys may refer to, as FOR
 * UPDATE, as in heap.
 *
 * Locking: the caller holds the key's partition lock, so that row locks stay as they are
 * said to be here.  New versions of the key are not kept out by it: what is said of them
 * holds for a moment, and rose_write.c sees to it that it still does when it matters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_conflict.h"

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

/*
 * An update that has changed what foreign keys may refer to says so in memory and in the tail
 * log.  A private run does not tell which one that is.
 */
static LockTupleMode
version_lock_mode(const RoseTree *tree, const RoseVersion *version, bool in_component)
{
	bool		refers = tree->indexes != NULL && tree->indexes->refers != NULL;

	if (version->op == ROSE_OP_LOCK)
		return (LockTupleMode) version->lockmode;
	if (version->op == ROSE_OP_TOMBSTONE ||
		(unlikely(refers) && (in_component || version->lockmode == LockTupleExclusive)))
		return LockTupleExclusive;
	return LockTupleNoKeyExclusive;
}

/*
 * A committed version newer than the one that was read.  They come newest
 * first, so the last tombstone noted is the one that ended the row that was read.
 */
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
	/*
	 * What was inserted after a tombstone is not the same row any more.  A row
	 * that went to another partition is updated, not deleted, as in heap: who
	 * tries to follow it gets an error.
	 */
	if (row->version.op == ROSE_OP_TOMBSTONE)
	{
		conflict->moved_to = row->version.moved_to;
		conflict->result = conflict->moved_to == 0 ? TM_Deleted : TM_Updated;
	}
	conflict->xmax = XidFromFullTransactionId(row->version.xid);
}

/* Any number of transactions may hold a row's key, and none of them must make an update wait. */
static void
conflict_note_lock(RoseConflict *conflict, const RoseVersion *lock)
{
	if (conflict->nlocks == conflict->maxlocks)
	{
		conflict->maxlocks = Max(8, 2 * conflict->maxlocks);
		conflict->locks = conflict->locks == NULL ?
			palloc(conflict->maxlocks * sizeof(RoseVersion)) :
			repalloc(conflict->locks, conflict->maxlocks * sizeof(RoseVersion));
	}
	conflict->locks[conflict->nlocks++] = *lock;
}

/*
 * A lock or version in progress of somebody else.  A key-share lock goes along with an
 * update: the updater repeats it above its own version, so that whoever looks at that one
 * finds it.
 */
static void
conflict_note_in_progress(RoseConflict *conflict, const RoseVersion *version,
						  LockTupleMode mode, LockTupleMode held)
{
	if (!lock_modes_conflict(mode, held))
	{
		/* who wants a shared lock carries nothing */
		if (version->op == ROSE_OP_LOCK && mode > LockTupleShare)
			conflict_note_lock(conflict, version);
		return;
	}
	conflict->result = TM_BeingModified;
	conflict->xwait = rose_version_writer(version);
}

/* An own version or lock; true if it decides. */
static bool
conflict_note_own(RoseConflict *conflict, const RoseVersion *version,
				  LockTupleMode mode, CommandId cid)
{
	if (version->op == ROSE_OP_LOCK)
	{
		conflict->locker = true;
		if (version->lockmode >= mode)
			conflict->locked = true;
		return false;
	}
	conflict->result = version->cid >= cid ? TM_SelfModified : TM_Invisible;
	conflict->xmax = XidFromFullTransactionId(version->xid);
	conflict->cmax = version->cid;
	return true;
}

/*
 * Which command was the first that changed the row since: who meets the row again in that
 * command passes it over, whatever functions have done to it later.  But if somebody else
 * has changed it before us, it is the last one, as in heap, where who goes on from that
 * one's version looks at the end of the chain.  REQUIRES: the newest own version was noted, and the
 * reader is behind it.
 */
static void
conflict_note_first_own(RoseConflict *conflict, RoseKeyReader *reader, uint64 seq)
{
	const RoseRow *row;
	bool		committed;
	CommandId	first = conflict->cmax;

	while ((row = rose_key_reader_next(reader, &committed)) != NULL && row->version.seq > seq)
	{
		RoseXidStatus status = committed ? ROSE_XID_COMMITTED :
			rose_version_status(&row->version);

		if (row->version.op == ROSE_OP_LOCK || status == ROSE_XID_ABORTED)
			continue;
		if (status != ROSE_XID_OWN)
			return;
		first = row->version.cid;
	}
	conflict->cmax = first;
}

/*
 * A lock whose transaction has ended.  Each lock that is added must not make the
 * next check slower: remember one that can be taken over instead.
 */
static void
conflict_note_ended(RoseConflict *conflict, const RoseVersion *version,
					const RoseKeyReader *reader, bool above_all)
{
	if (version->op == ROSE_OP_LOCK && above_all && conflict->dead_lock.memtable_id == 0)
		conflict->dead_lock = rose_key_reader_place(reader);
}

void
rose_conflict_check(RoseTree *tree, const Datum *key, uint64 seq,
					LockTupleMode mode, CommandId cid, RoseConflict *conflict)
{
	RoseKeyReader *reader = rose_lookup_cached_reader(tree);
	const RoseRow *row;
	bool		committed;
	bool		above_all = true;

	memset(conflict, 0, sizeof(*conflict));
	conflict->result = TM_Ok;
	rose_key_reader_start(reader, key, PG_UINT64_MAX);
	rose_key_reader_only_newer(reader, seq);

	/* even if we must wait: whether we are a locker ourselves decides how */
	while ((row = rose_key_reader_next(reader, &committed)) != NULL)
	{
		RoseXidStatus status;

		if (row->version.seq <= seq)
		{
			/* what comes now is older, but for locks in private runs */
			if (rose_key_reader_in_order(reader, row))
				rose_key_reader_locks_only(reader);
			continue;
		}
		status = committed ? ROSE_XID_COMMITTED : rose_version_status(&row->version);
		if (row->version.op != ROSE_OP_LOCK)
			above_all = false;
		if (status == ROSE_XID_ABORTED || status == ROSE_XID_COMMITTED)
			conflict_note_ended(conflict, &row->version, reader, above_all);
		switch (status)
		{
			case ROSE_XID_ABORTED:
				break;
			case ROSE_XID_OWN:
				if (!conflict_note_own(conflict, &row->version, mode, cid))
					break;
				conflict_note_first_own(conflict, reader, seq);
				return;
			case ROSE_XID_IN_PROGRESS:
				if (conflict->result != TM_BeingModified)
					conflict_note_in_progress(conflict, &row->version, mode,
											  version_lock_mode(tree, &row->version,
																rose_key_reader_entry(reader) != NULL));
				break;
			case ROSE_XID_COMMITTED:
				if (row->version.op != ROSE_OP_LOCK &&
					conflict->result != TM_BeingModified)
					conflict_note_committed(conflict, row,
											rose_key_reader_entry(reader));
				break;
		}
	}
}

/* A run may have a lock, and what was repeated of it, any number of times. */
static bool
is_noted(const RoseConflict *conflict, const RoseVersion *lock)
{
	for (int i = 0; i < conflict->nlocks; i++)
		if (rose_version_writer(&conflict->locks[i]) == rose_version_writer(lock) &&
			conflict->locks[i].lockmode == lock->lockmode)
			return true;
	return false;
}

/*
 * What has ended is of no concern, whatever it has become; so of components only private runs are read.  Below a version
 * that is not aborted there is nothing in progress but locks, and these in private runs only.
 */
void
rose_conflict_check_blind(RoseTree *tree, const Datum *key, LockTupleMode mode, RoseConflict *conflict)
{
	RoseKeyReader *reader = rose_lookup_cached_reader(tree);
	const RoseRow *row;
	bool		committed;

	memset(conflict, 0, sizeof(*conflict));
	conflict->result = TM_Ok;
	rose_key_reader_start(reader, key, PG_UINT64_MAX);
	rose_key_reader_only_newer(reader, PG_UINT64_MAX);
	while (conflict->result == TM_Ok && (row = rose_key_reader_next(reader, &committed)) != NULL)
	{
		RoseXidStatus status = committed ? ROSE_XID_COMMITTED : rose_version_status(&row->version);
		bool		in_component = rose_key_reader_entry(reader) != NULL;

		if (status == ROSE_XID_ABORTED)
			continue;
		conflict->locked |= status == ROSE_XID_OWN;
		if (status == ROSE_XID_IN_PROGRESS)
		{
			if (!in_component || row->version.op != ROSE_OP_LOCK || !is_noted(conflict, &row->version))
				conflict_note_in_progress(conflict, &row->version, mode,
										  version_lock_mode(tree, &row->version, in_component));
		}
		else if (row->version.op != ROSE_OP_LOCK)
			rose_key_reader_locks_only(reader);
	}
}

void
rose_conflict_newest_tid(RoseTree *tree, const RoseConflict *conflict, ItemPointer tid)
{
	if (conflict->moved_to != 0)
		rose_tid_assign(tree, NULL, 0, conflict->moved_to, tid);
	else
		rose_tid_assign(tree,
						conflict->newest_in_component ? &conflict->newest_entry : NULL,
						conflict->newest_ordinal, conflict->newest.seq, tid);
}

void
rose_conflict_report(RoseTree *tree, const RoseConflict *conflict,
					 const ItemPointerData *tid, TM_FailureData *tmfd)
{
	tmfd->ctid = *tid;
	tmfd->xmax = conflict->xmax;
	tmfd->cmax = conflict->result == TM_SelfModified ? conflict->cmax : InvalidCommandId;
	if (conflict->result != TM_Updated)
		return;
	if (conflict->moved_to == ROSE_MOVED_TO_PARTITION)
		ItemPointerSetMovedPartitions(&tmfd->ctid);
	else
		rose_conflict_newest_tid(tree, conflict, &tmfd->ctid);
}
