/*-------------------------------------------------------------------------
 *
 * rose_sql_wait.c
 *	  SQL functions that wait until a subscription has copied its tables, or has applied a position.
 *
 * Anybody who may call functions of the extension's schema may wait.  What a subscription is at is
 * looked at again and again, in shared memory and in its tables' rows.
 *
 * Locking: none while it waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogdefs.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "repl/rose_owner.h"
#include "sqlfunc/rose_sql_row.h"
#include "sqlfunc/rose_sql_subscription.h"

PG_FUNCTION_INFO_V1(rose_wait_for_sync);
PG_FUNCTION_INFO_V1(rose_wait_for_lsn);

/* Somebody who waits. */
typedef struct Wait
{
	RoseSubscription *sub;
	TimestampTz deadline;
	MemoryContext look;			/* what one look allocates; reset before the next, for some wait for days */
	MemoryContext outer;
} Wait;

/* From here on the current context is that of looks.  Arguments: the name is the first one. */
static void
begin_wait(FunctionCallInfo fcinfo, int timeout, Wait *wait)
{
	rose_sql_require_arg(fcinfo, timeout, "the timeout");
	wait->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												 PG_GETARG_INT32(timeout) * INT64CONST(1000));
	rose_sql_require_arg(fcinfo, 0, "the name");
	wait->sub = rose_sql_find_subscription(rose_sql_text_arg(fcinfo, 0, NULL));
	wait->look = AllocSetContextCreate(CurrentMemoryContext, "rose wait for subscription",
									   ALLOCSET_DEFAULT_SIZES);
	wait->outer = MemoryContextSwitchTo(wait->look);
}

/* Before the next look: sleep; error after the deadline, with the worker's last error. */
static void
wait_or_time_out(const Wait *wait, long ms, const char *what)
{
	const RoseSubscription *sub = wait->sub;
	RoseReplSnapshot snapshot;
	char	   *waits;
	int			rc;

	rc = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
				   PG_WAIT_EXTENSION);
	if (rc & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (GetCurrentTimestamp() <= wait->deadline)
	{
		MemoryContextReset(wait->look);
		return;
	}
	if (!rose_repl_get(sub->subid, &snapshot))
		memset(&snapshot, 0, sizeof(snapshot));
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("timed out while waiting for rose subscription \"%s\" to %s", sub->name, what),
			 (waits = rose_repl_describe_wait(sub->subid)) != NULL ? errdetail_internal("%s", waits) :
			 rose_owner_may_see_error(&snapshot) ?
			 errdetail("Its last error was: %s", snapshot.last_error) : 0));
}

/*
 * The copies are of different positions.  Is the stream past all of them, so that the tables are of one?  One that does
 * not run will not get there.
 */
static bool
is_past_copies(const RoseSubscription *sub)
{
	RoseSubscription *now = rose_subscription_get(sub->subid);
	/* before the position, which goes back before a table that was copied is there */
	List	   *tables = rose_subscription_tables(sub->subid);
	RoseReplSnapshot snapshot;
	ListCell   *lc;

	/* or it has been dropped */
	if (now == NULL || !now->enabled || !rose_repl_get(sub->subid, &snapshot) ||
		(snapshot.blocked[0] != '\0' && !snapshot.looks_again))
		return true;
	foreach(lc, tables)
	{
		RoseSubscriptionTable *tree = lfirst(lc);

		if (rose_subscription_table_is_live(tree) && Max(tree->sync_lsn, tree->exact_lsn) > snapshot.progress.applied_lsn)
			return false;
	}
	return true;
}

Datum
rose_wait_for_sync(PG_FUNCTION_ARGS)
{
	Wait		wait;
	int			nerrors;

	begin_wait(fcinfo, 1, &wait);
	while (!rose_subscription_synced(wait.sub->subid, &nerrors) || !is_past_copies(wait.sub))
	{
		if (nerrors > 0)
			break;
		wait_or_time_out(&wait, 20, "copy its tables");
	}
	MemoryContextSwitchTo(wait.outer);
	if (nerrors > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%d table(s) of rose subscription \"%s\" could not be copied, or have to be copied again",
						nerrors, wait.sub->name),
				 errhint("See last_error in rose.stat_subscription_tables.")));
	PG_RETURN_VOID();
}

/*
 * Positions of an upstream that is not the one that was applied mean nothing.  One that stopped
 * at an error of a table is at the position that it says, and does not go on by itself.  While a worker looks again
 * whether that is so, it is waited for.
 */
static void
require_not_blocked(const RoseSubscription *sub, const RoseReplSnapshot *snapshot, XLogRecPtr lsn)
{
	if (snapshot->blocked[0] == '\0' || snapshot->looks_again ||
		(strcmp(snapshot->blocked, ROSE_BLOCKED_TABLE_ERROR) == 0 && snapshot->progress.applied_lsn >= lsn))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rose subscription \"%s\" is blocked: %s", sub->name, snapshot->blocked),
			 errhint("See last_error in rose.stat_subscription, which says what to do.")));
}

/* Do the tables (InvalidOid: all) have what was committed before the position, and no more than some later one, if the stream has applied so much? */
static bool
tables_have(const RoseSubscription *sub, Oid relid, XLogRecPtr lsn, XLogRecPtr applied)
{
	List	   *tables = rose_subscription_tables(sub->subid);
	ListCell   *lc;
	bool		result = true;

	if (OidIsValid(relid))
		tables = list_make1(rose_sql_require_table(sub, tables, relid));
	foreach(lc, tables)
	{
		RoseSubscriptionTable *tree = lfirst(lc);

		if (rose_subscription_table_is_live(tree))
		{
			result &= tree->exact_lsn <= applied;
			continue;
		}
		if (strcmp(tree->state, ROSE_REL_ERROR) != 0 && strcmp(tree->state, ROSE_REL_PAUSED) != 0)
			result = false;		/* waits for its copy */
		else if (tree->error_lsn < Max(lsn, tree->exact_lsn))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s.%s\" of rose subscription \"%s\" is paused, or in error, before %X/%X",
							tree->remote.nspname, tree->remote.relname, sub->name,
							LSN_FORMAT_ARGS(lsn)),
					 errhint("See last_error in rose.stat_subscription_tables.  To wait for another table, give it as the last argument.")));
	}
	return result;
}

/* A worker that starts, or was blocked for its upstream, has not looked yet whose positions these are. */
static bool
is_applied(const RoseReplSnapshot *snapshot, XLogRecPtr lsn)
{
	bool		known = snapshot->blocked[0] == '\0' || strcmp(snapshot->blocked, ROSE_BLOCKED_TABLE_ERROR) == 0;

	return known && snapshot->status != ROSE_REPL_STARTING && snapshot->progress.applied_lsn >= lsn;
}

Datum
rose_wait_for_lsn(PG_FUNCTION_ARGS)
{
	Wait		wait;
	RoseReplSnapshot snapshot;
	Oid			relid = PG_ARGISNULL(3) ? InvalidOid : PG_GETARG_OID(3);
	XLogRecPtr	lsn;

	rose_sql_require_arg(fcinfo, 1, "the position");
	lsn = PG_GETARG_LSN(1);
	begin_wait(fcinfo, 2, &wait);
	for (;;)
	{
		bool		known = rose_repl_get(wait.sub->subid, &snapshot);

		if (known)
			require_not_blocked(wait.sub, &snapshot, lsn);
		if (known && is_applied(&snapshot, lsn) && tables_have(wait.sub, relid, lsn, snapshot.progress.applied_lsn))
		{
			/* for tables that were copied, the stream goes back before they are there */
			if (rose_repl_get(wait.sub->subid, &snapshot) && is_applied(&snapshot, lsn) &&
				tables_have(wait.sub, relid, lsn, snapshot.progress.applied_lsn))
				break;
		}
		wait_or_time_out(&wait, 5, psprintf("apply %X/%X", LSN_FORMAT_ARGS(lsn)));
	}
	MemoryContextSwitchTo(wait.outer);
	PG_RETURN_VOID();
}
