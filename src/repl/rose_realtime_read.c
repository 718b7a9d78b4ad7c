/*-------------------------------------------------------------------------
 *
 * rose_realtime_read.c
 *	  Reading in real time: who reads asks the worker to commit what it has.
 *
 * Nothing that is not committed is seen ("Reading in real time" in README.md says why).  A
 * statement that reads a fed table asks for the end of the batch that is open, if there is
 * a whole upstream transaction in it, and waits for that; then its snapshot, which was
 * taken before we are called, is replaced by one of now.  That can be done if nobody else has
 * the snapshot: so a query of a STABLE function, which has its caller's, reads what that sees, if that is a query.  What
 * PL/pgSQL has taken for an expression of its own is replaced by the first query of the functions in it that reads such a
 * table, and no more: all of them see the same.
 *
 * Who feeds a table is asked of its file, which needs no tree, so partitions that a plan will
 * never read are not pinned.
 *
 * Locking: none while waiting, but for what the transaction has locked.  The server does not
 * see that we wait for the worker, so we look for deadlocks (rose_repl_locks.c).
 *
 * Not here: when a batch ends (rose_stream.c, rose_batch.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "store/rose_metapage.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_relation.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl_internal.h"

typedef enum RoseReadMode
{
	READ_CONSISTENT,
	READ_REALTIME
} RoseReadMode;

static const struct config_enum_entry read_modes[] = {
	{"consistent", READ_CONSISTENT, false},
	{"realtime", READ_REALTIME, false},
	{"snapshot", READ_CONSISTENT, true},	/* its first name */
	{NULL, 0, false}
};

static int	read_mode = READ_CONSISTENT;
static int	realtime_timeout = 10 * 1000;

void
rose_realtime_define_settings(void)
{
	DefineCustomEnumVariable("rose.read_mode",
							 "Sets what is seen of tables that a subscription feeds.",
							 "With realtime, a statement waits until all that has been received of the upstream's transactions, when it begins, is visible. That is possible in READ COMMITTED transactions only.",
							 &read_mode,
							 READ_CONSISTENT, read_modes,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("rose.realtime_timeout",
							"Sets how long a statement waits for that, if rose.read_mode is realtime.",
							"It fails then. Zero has it wait as long as it takes.",
							&realtime_timeout,
							10 * 1000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

/* ---------------------------------------------------------------------
 * Asking and waiting
 */

typedef struct Request
{
	Oid			subid;
	RoseRealtimeShared *shared; /* NULL: nothing is received for the subscription */
	char		name[NAMEDATALEN];
	uint64		batch;			/* that is to end */
} Request;

static void
raise_to(pg_atomic_uint64 *number, uint64 to)
{
	uint64		now = pg_atomic_read_u64(number);

	while (now < to && !pg_atomic_compare_exchange_u64(number, &now, to))
		;
}

/* What is not in a batch yet has not been received whole. */
static void
ask(Oid subid, Request *request)
{
	RoseReplSubShared *entry;

	request->subid = subid;
	request->shared = NULL;
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	entry = rose_repl_entry(MyDatabaseId, subid);
	if (entry != NULL)
	{
		request->shared = &entry->realtime;
		strlcpy(request->name, entry->name, NAMEDATALEN);
		request->batch = pg_atomic_read_u64(&request->shared->complete);
		pg_atomic_write_u64(&request->shared->asked_at, (uint64) GetCurrentTimestamp());
		if (pg_atomic_read_u64(&request->shared->ended) < request->batch)
		{
			raise_to(&request->shared->asked, request->batch);
			if (entry->latch != NULL)
				SetLatch(entry->latch);
		}
	}
	LWLockRelease(&rose_repl_shared->lock);
}

static void
fail_by_deadlock(const Request *request)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("cannot wait for the worker of rose subscription \"%s\", which waits for a lock that this transaction holds, or somebody who waits for it",
					request->name),
			 errhint("Read in real time in transactions that have locked no table of the subscription.")));
}

static void
fail_by_time(const Request *request)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not read in real time: rose subscription \"%s\" has received more than it has made visible",
					request->name),
			 errdetail("Its worker is in the middle of a transaction of the upstream, or waits for somebody."),
			 errhint("Increase rose.realtime_timeout, or set rose.read_mode to \"consistent\" to read what is visible.")));
}

/* Milliseconds until there is something to look at. */
static long
nap_ms(TimestampTz begun, TimestampTz looked, TimestampTz now)
{
	long		ms = TimestampDifferenceMilliseconds(now, TimestampTzPlusMilliseconds(looked, DeadlockTimeout));

	if (realtime_timeout > 0)
		ms = Min(ms, TimestampDifferenceMilliseconds(now, TimestampTzPlusMilliseconds(begun, realtime_timeout)));
	return ms + 1;
}

static bool
has_ended(const Request *request)
{
	return request->shared == NULL || pg_atomic_read_u64(&request->shared->ended) >= request->batch;
}

static void
wait_for(const Request *request, TimestampTz begun)
{
	TimestampTz looked = begun;

	if (has_ended(request))
		return;
	ConditionVariablePrepareToSleep(&request->shared->cv);
	while (!has_ended(request))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (realtime_timeout > 0 && TimestampDifferenceExceeds(begun, now, realtime_timeout))
			fail_by_time(request);
		if (TimestampDifferenceExceeds(looked, now, DeadlockTimeout))
		{
			looked = now;
			if (rose_repl_request_is_hopeless(request->subid))
				fail_by_deadlock(request);
		}
		(void) ConditionVariableTimedSleep(&request->shared->cv, nap_ms(begun, looked, now),
										   PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* All are asked before the first one is waited for. */
static void
wait_for_batches(const List *subids)
{
	TimestampTz begun = GetCurrentTimestamp();
	int			n = list_length(subids);
	Request    *requests = palloc(n * sizeof(Request));

	for (int i = 0; i < n; i++)
		ask(list_nth_oid(subids, i), &requests[i]);
	for (int i = 0; i < n; i++)
		wait_for(&requests[i], begun);
	pg_memory_barrier();		/* what has been committed is looked at after that */
	pfree(requests);
}

/* ---------------------------------------------------------------------
 * What is read
 */

static void
refuse_isolation(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot read table \"%s\" in real time in a transaction of isolation level %s",
					RelationGetRelationName(rel),
					XactIsoLevel == XACT_SERIALIZABLE ? "SERIALIZABLE" : "REPEATABLE READ"),
			 errdetail("All its statements see what was visible when the first one began."),
			 errhint("Set rose.read_mode to \"consistent\", or use READ COMMITTED.")));
}

/* Add who feeds the relation, if somebody does.  REQUIRES: a lock on it. */
static List *
add_feeder(List *subids, Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	RoseMetaInfo info;

	if (rel == NULL)
		return subids;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel) &&
		rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
	{
		rose_meta_read(rel, &info);
		if (OidIsValid(info.fed_by) || OidIsValid(info.logged_by))
		{
			if (IsolationUsesXactSnapshot())
				refuse_isolation(rel);
			subids = list_append_unique_oid(subids, OidIsValid(info.fed_by) ? info.fed_by : info.logged_by);
		}
	}
	RelationClose(rel);
	return subids;
}

static List *
feeders_of_query(const PlannedStmt *stmt)
{
	List	   *subids = NIL;
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && RELKIND_HAS_TABLE_AM(rte->relkind))
			subids = add_feeder(subids, rte->relid);
	}
	return subids;
}

/* ---------------------------------------------------------------------
 * Another snapshot
 */

/*
 * A snapshot that has replaced another one, and copies of it, are known by what only snapshots of kind DIRTY use otherwise.
 */
#define RENEWED		((uint32) 0x52454E57)

/*
 * Was the snapshot taken for this query, or for functions of which this is the first one to ask?  Those that other queries read with are registered twice for each; and a
 * command's own one, which may not be, is that of its portal.  EXECUTE and DECLARE CURSOR pass theirs on, and do not read
 * themselves; their portal may have it registered.
 */
static bool
is_of_query(const QueryDesc *query)
{
	Snapshot	snapshot = query->snapshot;

	if (snapshot->snapshot_type != SNAPSHOT_MVCC || !ActiveSnapshotSet() || snapshot != GetActiveSnapshot())
		return false;
	if (snapshot->active_count > 2 || snapshot->regd_count > snapshot->active_count ||
		snapshot->speculativeToken == RENEWED)
		return false;
	return (ActivePortal == NULL || ActivePortal->portalSnapshot != snapshot) &&
		rose_own_snapshots_may_replace(snapshot);
}

/* The topmost active snapshot becomes one of now; it sees of its own transaction what the old one saw. */
static void
renew_active(void)
{
	CommandId	command = GetActiveSnapshot()->curcid;

	PopActiveSnapshot();
	PushCopiedSnapshot(GetTransactionSnapshot());
	GetActiveSnapshot()->curcid = command;
	GetActiveSnapshot()->speculativeToken = RENEWED;
}

void
rose_realtime_start_query(QueryDesc *query, int eflags)
{
	List	   *subids;

	if (likely(read_mode == READ_CONSISTENT) || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 || IsParallelWorker() ||
		query->snapshot == NULL)
		return;
	/* the checks of foreign keys, one for each row that is written; the worker, for whom code of a table's owner reads */
	if (InNoForceRLSOperation() || rose_apply.shared != NULL)
		return;
	subids = feeders_of_query(query->plannedstmt);
	if (subids == NIL || !is_of_query(query))
		return;
	wait_for_batches(subids);
	UnregisterSnapshot(query->snapshot);
	renew_active();
	query->snapshot = RegisterSnapshot(GetActiveSnapshot());
}

/* The snapshot is the portal's, or, in a function, that of its statement. */
void
rose_realtime_start_command(const Node *stmt)
{
	const CopyStmt *copy = (const CopyStmt *) stmt;
	List	   *subids;
	Oid			relid;
	Snapshot	snapshot;
	bool		of_portal;

	if (likely(read_mode == READ_CONSISTENT) || !IsA(stmt, CopyStmt) || copy->relation == NULL || copy->is_from)
		return;
	relid = RangeVarGetRelid(copy->relation, AccessShareLock, true);
	subids = OidIsValid(relid) ? add_feeder(NIL, relid) : NIL;
	if (subids == NIL || !ActiveSnapshotSet())
		return;
	snapshot = GetActiveSnapshot();
	of_portal = ActivePortal != NULL && ActivePortal->portalSnapshot == snapshot;
	if (snapshot->regd_count != 0 || snapshot->active_count != 1 ||
		(of_portal && ActivePortal->createLevel != GetCurrentTransactionNestLevel()))
		return;
	wait_for_batches(subids);
	renew_active();
	if (of_portal)
		ActivePortal->portalSnapshot = GetActiveSnapshot();
}
