/*-------------------------------------------------------------------------
 *
 * rose_recover_record.c
 *	  What becomes of a record of the tail log, and whether it fits the table.
 *
 * Both ways of recovery, into C0 and into runs, ask the same of each record: whether its
 * (sub)transaction has committed, is prepared, or died with the server; and whether
 * layout and key are the table's.  A transaction that was found to be open stays so for
 * the whole recovery.
 *
 * Locking: see rose_recover_internal.h.  Reading the log is store/rose_tail_replay.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "storage/procarray.h"
#include "utils/rel.h"

#include "lsm/tree/rose_recover_internal.h"

static RoseTailFate
fate_of_top(RoseTailFates *fates, TransactionId xid)
{
	if (fates->open != NIL && list_member_oid(fates->open, xid))
		return ROSE_TAIL_OPEN;
	if (TransactionIdIsInProgress(xid))
	{
		fates->open = lappend_oid(fates->open, xid);
		return ROSE_TAIL_OPEN;
	}
	return TransactionIdDidCommit(xid) ? ROSE_TAIL_COMMITTED : ROSE_TAIL_ABORTED;
}

static RoseTailFate
find_fate(RoseTailFates *fates, FullTransactionId full_xid, TransactionId subxid)
{
	RoseTailFate fate = fate_of_top(fates, XidFromFullTransactionId(full_xid));

	if (!TransactionIdIsValid(subxid))
		return fate;
	if (fate == ROSE_TAIL_OPEN && TransactionIdDidAbort(subxid))
		return ROSE_TAIL_ABORTED;
	if (fate == ROSE_TAIL_COMMITTED && !TransactionIdDidCommit(subxid))
		return ROSE_TAIL_ABORTED;
	return fate;
}

RoseTailFate
rose_recover_record_fate(RoseTailFates *fates, const RoseVersion *version)
{
	if (!fates->have_last ||
		!FullTransactionIdEquals(fates->last_xid, version->xid) ||
		fates->last_subxid != version->subxid)
	{
		fates->last_fate = find_fate(fates, version->xid, version->subxid);
		fates->last_xid = version->xid;
		fates->last_subxid = version->subxid;
		fates->have_last = true;
	}
	return fates->last_fate;
}

void
rose_recover_record_check_layout(Relation rel, const RoseMetaInfo *meta, const RoseLayout *layout)
{
	if (layout->natts < meta->layout_natts ||
		(meta->layout_natts > 0 &&
		 rose_layout_physical(layout, meta->layout_natts) != meta->layout_physical))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("tail log of relation \"%s\" contradicts the table's file",
						RelationGetRelationName(rel)),
				 errdetail("It stores the columns that the file was made with in another way.")));
}

void
rose_recover_record_check_key(Relation rel, const RoseMetaInfo *meta, const RoseTailRecord *record)
{
	if (meta->nkeys > 0 && record->row == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("tail log of relation \"%s\" has a record without a key",
						RelationGetRelationName(rel))));
}
