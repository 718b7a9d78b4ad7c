/*-------------------------------------------------------------------------
 *
 * rose_repl_local.c
 *	  Short local transactions of the consumer's processes, beside batches.
 *
 * What a process of a subscription reads or writes in the catalog between two batches is a
 * transaction of its own, with a snapshot, and leaves the message context current.
 *
 * No locks but those of what is done in between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "repl/rose_repl_internal.h"

void
rose_repl_local_begin(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
rose_repl_local_commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
}
