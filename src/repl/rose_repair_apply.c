/*-------------------------------------------------------------------------
 *
 * rose_repair_apply.c
 *	  The worker writes the changes that a backend has found to be missing, at the position where it stands still.
 *
 * They come as messages of pgoutput, which the backend has formed (rose_repair.c), and are applied as if a
 * transaction had sent them that commits right there: so columns, partitions, indexes, rules and the owner's rights
 * are those of any change, and what comes later is newer.  They are a batch of their own, which
 * is committed before the worker goes on.  The position does not move.  An epoch makes them durable; after a
 * crash before it they are missing, as they were before.
 *
 * Whatever is wrong ends the worker, as an error that is nobody's: the stream goes on without them.
 *
 * Locking: rose_repl_shared->lock, for moments; tables as any batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "storage/dsm.h"

#include "util/rose_stop_point.h"
#include "repl/rose_repair.h"
#include "repl/rose_repl_internal.h"

/* The next message, in memory of its own: what reads it writes to it. */
static void
next_message(char **at, StringInfo s)
{
	int32		len;

	memcpy(&len, *at, sizeof(len));
	*at += sizeof(len);
	initStringInfo(s);
	appendBinaryStringInfo(s, *at, len);
	*at += len;
}

/* What the upstream would say of the table, if a change of it came now. */
static void
take_description(StringInfo s)
{
	LogicalRepRelation *remote;

	if (pq_getmsgbyte(s) != LOGICAL_REP_MSG_RELATION)
		elog(ERROR, "the changes do not begin with a description");
	remote = logicalrep_read_rel(s);
	rose_relmap_update(remote, ++rose_apply.descriptions);
}

static void
apply_changes(const RoseRepairChangesShared *changes, XLogRecPtr lsn)
{
	char	   *at = ROSE_REPAIR_CHANGES(changes);
	char	   *end = at + changes->len;
	StringInfoData s;

	next_message(&at, &s);
	take_description(&s);
	while (at < end)
	{
		next_message(&at, &s);
		if (!rose_apply_change_beside(&s, lsn))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot repair rows of the upstream's table with OID %u: its changes are not applied now, or its columns have changed",
							changes->remote_relid),
					 errhint("Try again when the stream has brought a change of the table.")));
	}
	ROSE_STOP_POINT("repair-applied");
	rose_batch_commit();
}

/* Its changes, and where they are to come, if the backend asks for that. */
static dsm_handle
asked_changes(RoseReplSubShared *shared, int *pid, XLogRecPtr *lsn)
{
	dsm_handle	handle = DSM_HANDLE_INVALID;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	if (shared->hold.state == ROSE_HOLD_REPAIRS)
	{
		handle = shared->hold.changes;
		*pid = shared->hold.pid;
		*lsn = shared->hold.lsn;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return handle;
}

/* Whoever asked may have gone. */
static void
answer(RoseReplSubShared *shared, int pid, RoseHoldState state)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (shared->hold.state == ROSE_HOLD_REPAIRS && shared->hold.pid == pid)
	{
		shared->hold.state = state;
		if (shared->hold.latch != NULL)
			SetLatch(shared->hold.latch);
	}
	LWLockRelease(&rose_repl_shared->lock);
}

static void
repair(RoseReplSubShared *shared)
{
	int			pid = 0;
	XLogRecPtr	lsn = InvalidXLogRecPtr;
	dsm_handle	handle = asked_changes(shared, &pid, &lsn);
	dsm_segment *segment;

	if (handle == DSM_HANDLE_INVALID)
		return;
	segment = dsm_attach(handle);
	if (segment == NULL)
		return;					/* he has gone */
	dsm_pin_mapping(segment);
	MemoryContextSwitchTo(rose_apply.message_context);
	apply_changes(dsm_segment_address(segment), lsn);
	answer(shared, pid, ROSE_HOLD_REPAIRED);
	dsm_detach(segment);
}

void
rose_repair_apply_register(void)
{
	rose_verify_hold_repair = repair;
}
