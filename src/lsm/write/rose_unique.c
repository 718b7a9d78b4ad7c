/*-------------------------------------------------------------------------
 *
 * rose_unique.c
 *	  Has a row this key already?
 *
 * The newest version of the key that counts says so: locks and what is aborted do not.
 * One of a transaction in progress says that it depends on that one; whoever asked lets
 * go of his locks, waits, and asks again.
 *
 * No LWLock is taken.  The answer is true of the moment of the question; that it still is
 * when a row is written is seen to by rose_write.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/write/rose_unique.h"

/* Does what is below a PARTIAL make it a row?  Only a table that a subscription has fed has any. */
static bool
has_row(RoseTree *tree, const Datum *key)
{
	RoseLookup *lookup = rose_lookup_create(tree);
	bool		result = rose_lookup_get(lookup, SnapshotSelf, key) != NULL;

	rose_lookup_free(lookup);
	return result;
}

RoseKeyState
rose_unique_key_state(RoseTree *tree, const Datum *key, TransactionId *xwait)
{
	RoseKeyReader *reader = rose_lookup_cached_reader(tree);
	const RoseRow *row;
	bool		committed;

	rose_key_reader_start(reader, key, PG_UINT64_MAX);
	while ((row = rose_key_reader_next(reader, &committed)) != NULL)
	{
		RoseXidStatus status;

		if (row->version.op == ROSE_OP_LOCK)
			continue;
		status = committed ? ROSE_XID_COMMITTED : rose_version_status(&row->version);
		if (status == ROSE_XID_ABORTED)
			continue;
		if (status == ROSE_XID_IN_PROGRESS)
		{
			*xwait = rose_version_writer(&row->version);
			return ROSE_KEY_BUSY;
		}
		if (row->version.op == ROSE_OP_PARTIAL)
			return has_row(tree, key) ? ROSE_KEY_LIVE : ROSE_KEY_FREE;
		return row->version.op == ROSE_OP_TOMBSTONE ? ROSE_KEY_FREE : ROSE_KEY_LIVE;
	}
	return ROSE_KEY_FREE;
}

/* Heap's index names the entry that it was to make; here the new row has no name yet. */
static void
describe_wait_for_key(void *arg)
{
	errcontext("while inserting tuple in relation \"%s\"", RelationGetRelationName((Relation) arg));
}

void
rose_unique_wait(RoseTree *tree, TransactionId xwait)
{
	ErrorContextCallback callback;

	callback.callback = describe_wait_for_key;
	callback.arg = tree->rel;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	XactLockTableWait(xwait, tree->rel, NULL, XLTW_None);
	error_context_stack = callback.previous;
}
