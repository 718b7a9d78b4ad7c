/*-------------------------------------------------------------------------
 *
 * rose_logged.c
 *	  Durability "local", the worker's part: what is flushed is durable.
 *
 * The position is in the commit records of batches, by the subscription's origin (rose_origin.c), so rows and position
 * are durable together, and there are no epochs.  The state row is written now and then, as with epochs
 * while nothing happens.  The position is the later one of both: each stands for a prefix of local WAL.
 *
 * Commits need not be flushed as they are made (synchronous_commit).  Their positions, the upstream's and
 * ours, are listed until they are, by whoever: what is confirmed upstream is what is flushed.
 *
 * State of the apply worker; no locks.
 *
 * What this does not do: decide when a batch ends, or what is told to the upstream (rose_stream.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"

#include "repl/rose_repl_internal.h"

/* Commits that are not known to be flushed.  With more, the last ones are taken together. */
#define LOGGED_COMMITS	128

typedef struct LoggedCommit
{
	XLogRecPtr	remote;			/* everything upstream before this ... */
	XLogRecPtr	local;			/* ... is durable when this is flushed */
} LoggedCommit;

static LoggedCommit commits[LOGGED_COMMITS];	/* a ring, oldest first */
static int	first_commit = 0;
static int	ncommits = 0;

XLogRecPtr
rose_logged_take_up(void)
{
	Oid			subid = rose_apply.sub->subid;
	XLogRecPtr	position = InvalidXLogRecPtr;

	StartTransactionCommand();
	rose_apply.origin_missing = !rose_origin_exists(subid);
	if (!rose_apply.origin_missing)
	{
		rose_origin_take(subid);
		position = rose_origin_position(subid, true);
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return position;
}

static LoggedCommit *
last_commit(void)
{
	return &commits[(first_commit + ncommits - 1) % LOGGED_COMMITS];
}

void
rose_logged_commit(XLogRecPtr lsn, TimestampTz time, bool wrote)
{
	rose_origin_commit(lsn, time);
	if (!wrote)
		return;
	if (ncommits < LOGGED_COMMITS)
		ncommits++;
	last_commit()->remote = lsn;
	last_commit()->local = XactLastCommitEnd;
}

void
rose_logged_look(void)
{
	XLogRecPtr	flushed;
	XLogRecPtr	durable = InvalidXLogRecPtr;

	if (ncommits == 0)
		return;
	flushed = GetFlushRecPtr(NULL);
	for (; ncommits > 0 && commits[first_commit].local <= flushed; ncommits--)
	{
		durable = commits[first_commit].remote;
		first_commit = (first_commit + 1) % LOGGED_COMMITS;
	}
	rose_apply.epochs.dirty = ncommits > 0;
	rose_apply.progress.durable_lsn = Max(rose_apply.progress.durable_lsn, durable);
	rose_apply.epochs.recorded_lsn = Max(rose_apply.epochs.recorded_lsn, durable);
}

void
rose_logged_flush(void)
{
	if (ncommits > 0)
		XLogFlush(last_commit()->local);
	rose_logged_look();
}
