/*-------------------------------------------------------------------------
 *
 * rose_row_target.c
 *	  The version that an UPDATE, a DELETE or a row lock is about: finding it by its TID.
 *
 * Private to the backend, no locks.  What happened to its key since it was read is
 * rose_conflict.c's to say; waiting for others who hold the row is in rose_row_wait.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_row_target.h"

bool
rose_row_target_locate(RoseTree *tree, RoseLookup *lookup, const ItemPointerData *tid,
					   RoseEntryWriter *entries, RoseRowTarget *target)
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

void
rose_row_target_unknown(RoseTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("row identifier is not of this transaction for table \"%s\"",
					RelationGetRelationName(tree->rel)),
			 errdetail("The ctid of a row in a rose table is valid only in the transaction that read it.")));
}

void
rose_row_target_key_version(RoseTree *tree, const RoseRowTarget *target, RoseOp op,
							CommandId cid, RoseNewVersion *new)
{
	rose_new_version_stamp(&new->version, op, cid);
	new->version.rowid = rose_row_target_rowid(tree, target);
	memcpy(new->key, target->key, sizeof(new->key));
	new->row = rose_new_version_form_key_row(tree, target->key);
}
