/*-------------------------------------------------------------------------
 *
 * rose_visibility.c
 *	  Which versions a snapshot sees.  See rose_visibility.h.
 *
 * No locks are taken here; the caller keeps the version's memory in place.
 *
 * What it finds out about an entry's writer stays with the entry as a hint.  What merges
 * may rely on is rose_horizon.h's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "compat/rose_compat_xid.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_visibility.h"

/* The one that is nearest to 'near', which it may be before or behind. */
static inline FullTransactionId
full_xid_near(TransactionId xid, FullTransactionId near)
{
	int32		distance = (int32) (xid - XidFromFullTransactionId(near));

	if (!TransactionIdIsNormal(xid))
		return FullTransactionIdFromEpochAndXid(0, xid);
	return FullTransactionIdFromU64(U64FromFullTransactionId(near) + (int64) distance);
}

FullTransactionId
rose_full_xid(TransactionId xid)
{
	return full_xid_near(xid, rose_xid_about_next());
}

/*
 * A snapshot from the time when this server was a standby.  Merges of the former primary
 * did not know of it, and have dropped what it may need; replay did not wait for it
 * either.
 */
pg_noinline static void
refuse_from_recovery(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access because the snapshot was taken before this server was promoted"),
			 errdetail("Merges on the former primary server may have removed versions of rows that it needs."),
			 errhint("The transaction might succeed if retried.")));
}

void
rose_visibility_init(RoseVisibility *vis, Snapshot snapshot)
{
	FullTransactionId near;

	vis->snapshot = snapshot;
	vis->last_committed = InvalidTransactionId;
	vis->xmin = vis->xmax = InvalidFullTransactionId;

	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			if (unlikely(snapshot->takenDuringRecovery))
				refuse_from_recovery();
			rose_snapshot_use(snapshot);
			vis->kind = ROSE_SNAPSHOT_MVCC;
			near = rose_xid_about_next();
			vis->xmin = full_xid_near(snapshot->xmin, near);
			vis->xmax = full_xid_near(snapshot->xmax, near);
			break;
		case SNAPSHOT_DIRTY:
			vis->kind = ROSE_SNAPSHOT_DIRTY;
			break;
		case SNAPSHOT_SELF:
		case SNAPSHOT_ANY:
		case SNAPSHOT_NON_VACUUMABLE:
			vis->kind = ROSE_SNAPSHOT_SELF;
			break;
		default:
			elog(ERROR, "unexpected snapshot type %d for a rose table",
				 (int) snapshot->snapshot_type);
	}
}

RoseXidStatus
rose_version_status(const RoseVersion *version)
{
	TransactionId writer = rose_version_writer(version);

	if (TransactionIdIsCurrentTransactionId(writer))
		return ROSE_XID_OWN;
	/* in this order: a commit marks the log before it leaves the proc array */
	if (TransactionIdIsInProgress(writer))
		return ROSE_XID_IN_PROGRESS;
	return TransactionIdDidCommit(writer) ? ROSE_XID_COMMITTED : ROSE_XID_ABORTED;
}

/* MVCC rules for a version whose writer may be in any state. */
static bool
version_visible_mvcc(RoseVisibility *vis, const RoseVersion *version)
{
	TransactionId writer = rose_version_writer(version);

	if (TransactionIdIsCurrentTransactionId(writer))
		return version->cid < vis->snapshot->curcid;
	if (XidInMVCCSnapshot(writer, vis->snapshot))
		return false;
	if (writer == vis->last_committed)
		return true;
	if (!TransactionIdDidCommit(writer))
		return false;
	vis->last_committed = writer;
	return true;
}

static bool
version_visible_dirty(RoseVisibility *vis, const RoseVersion *version)
{
	switch (rose_version_status(version))
	{
		case ROSE_XID_OWN:
		case ROSE_XID_COMMITTED:
			return true;
		case ROSE_XID_ABORTED:
			return false;
		case ROSE_XID_IN_PROGRESS:
			break;
	}
	/* a subtransaction may be rolled back long before the transaction ends */
	if (version->op == ROSE_OP_TOMBSTONE)
	{
		vis->snapshot->xmax = rose_version_writer(version);
		return false;
	}
	vis->snapshot->xmin = rose_version_writer(version);
	return true;
}

bool
rose_version_visible(RoseVisibility *vis, const RoseVersion *version, bool committed)
{
	if (version->op == ROSE_OP_LOCK)
		return false;

	switch (vis->kind)
	{
		case ROSE_SNAPSHOT_MVCC:
			if (!committed)
				return version_visible_mvcc(vis, version);
			if (FullTransactionIdPrecedes(version->xid, vis->xmin))
				return true;
			if (FullTransactionIdFollowsOrEquals(version->xid, vis->xmax))
				return false;
			return !XidInMVCCSnapshot(XidFromFullTransactionId(version->xid),
									  vis->snapshot);
		case ROSE_SNAPSHOT_SELF:
			if (committed)
				return true;
			switch (rose_version_status(version))
			{
				case ROSE_XID_OWN:
				case ROSE_XID_COMMITTED:
					return true;
				default:
					return false;
			}
		case ROSE_SNAPSHOT_DIRTY:
			return committed || version_visible_dirty(vis, version);
	}
	return false;				/* keep the compiler quiet */
}

bool
rose_entry_visible(RoseVisibility *vis, const RoseMemEntryRef *entry)
{
	bool		visible;

	if (entry->hints & ROSE_MEM_HINT_ABORTED)
		return false;
	if (entry->version.op == ROSE_OP_LOCK)
		return false;
	if (rose_entry_visible_again(vis, entry))
		return true;
	if ((entry->hints & ROSE_MEM_HINT_COMMITTED) && vis->kind == ROSE_SNAPSHOT_MVCC)
	{
		TransactionId writer = rose_version_writer(&entry->version);

		if (XidInMVCCSnapshot(writer, vis->snapshot))
			return false;
		vis->last_committed = writer;
		return true;
	}

	visible = rose_version_visible(vis, &entry->version, false);
	if (visible && vis->kind == ROSE_SNAPSHOT_MVCC &&
		!TransactionIdIsCurrentTransactionId(rose_version_writer(&entry->version)))
		rose_memtable_set_hint(entry->ptr, ROSE_MEM_HINT_COMMITTED);
	return visible;
}
