/*-------------------------------------------------------------------------
 *
 * rose_origin.c
 *	  The replication origin of a subscription with durability "local".
 *
 * Core keeps for it the position that its last commit record says, over crashes and on
 * standbys.  Its name has the numbers of database and subscription, for origins are the cluster's.
 *
 * Locking: one process has an origin at a time, the worker from its start to its end.  What others do
 * to it REQUIRES that it has let go.
 *
 * What this does not do: know the state row, with which the position goes together (rose_logged.c, rose_rewind.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_replication_origin.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_repl_internal.h"

static RepOriginId ours = InvalidRepOriginId;	/* that this process has, or none */

char *
rose_origin_name(Oid subid)
{
	return psprintf("rose_%u_%u", MyDatabaseId, subid);
}

static RepOriginId
find(Oid subid)
{
	/* without places in memory it says nothing */
	return rose_max_origins() == 0 ? InvalidRepOriginId : replorigin_by_name(rose_origin_name(subid), true);
}

void
rose_origin_create(Oid subid)
{
	if (rose_max_origins() == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a subscription with durability \"local\" needs a replication origin, for which there is no place"),
				 errhint("Increase %s and restart the server.", rose_max_origins_name())));
	(void) replorigin_create(rose_origin_name(subid));
}

void
rose_origin_drop(Oid subid)
{
	replorigin_drop_by_name(rose_origin_name(subid), true, false);
}

bool
rose_origin_exists(Oid subid)
{
	return find(subid) != InvalidRepOriginId;
}

XLogRecPtr
rose_origin_position(Oid subid, bool flush)
{
	RepOriginId origin = find(subid);

	return origin == InvalidRepOriginId ? InvalidXLogRecPtr : replorigin_get_progress(origin, flush);
}

static void
take(RepOriginId origin)
{
	rose_replorigin_session_setup(origin);
	ours = origin;
}

void
rose_origin_let_go(void)
{
	if (ours == InvalidRepOriginId)
		return;
	ours = InvalidRepOriginId;
	replorigin_session_reset();
}

/* Before others hear that the process is gone. */
static void
exit_process(int code, Datum arg)
{
	rose_origin_let_go();
}

void
rose_origin_take(Oid subid)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(exit_process, (Datum) 0);
	registered = true;
	take(find(subid));
}

/* Not while a process has it: core's function asks for that. */
void
rose_origin_clear(Oid subid)
{
	RepOriginId origin = find(subid);
	bool		taken = origin == ours;

	LockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
	if (taken)
		rose_origin_let_go();
	replorigin_advance(origin, InvalidXLogRecPtr, InvalidXLogRecPtr, true, true);
	if (taken)
		take(origin);
	UnlockRelationOid(ReplicationOriginRelationId, RowExclusiveLock);
}

/* Whatever else the process commits, as rows of rose.subscription_rel, says no position: not even if this fails. */
void
rose_origin_commit(XLogRecPtr lsn, TimestampTz time)
{
	replorigin_session_origin = ours;
	replorigin_session_origin_lsn = lsn;
	replorigin_session_origin_timestamp = time;
	PG_TRY();
	{
		CommitTransactionCommand();
	}
	PG_FINALLY();
	{
		replorigin_session_origin = InvalidRepOriginId;
		replorigin_session_origin_lsn = InvalidXLogRecPtr;
		replorigin_session_origin_timestamp = 0;
	}
	PG_END_TRY();
}
