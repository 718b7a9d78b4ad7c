/*-------------------------------------------------------------------------
 *
 * rose_sql_pause.c
 *	  What is done to pause and resume a table of a subscription, and to pass over a
 *	  transaction at which it has failed.
 *
 * A paused table has everything that was committed before error_lsn, and the worker keeps the
 * upstream's slot from going past that (rose_stream.c).  To resume it, the whole
 * subscription goes back to that position: the state row says so, and the rows of the
 * other tables say up to where they have everything (sync_lsn, as after a copy).  So the
 * stream repeats what the table lacks, and nothing else of it is applied.
 * All that a crash may leave is what the copy of a table leaves, too.
 *
 * Callers hold the subscription's row (rose_subscription_lock), have drained its worker, and
 * have read the subscription after that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/lsyscache.h"

#include "repl/rose_chunks.h"
#include "sqlfunc/rose_sql_subscription.h"

/*
 * As the worker is drained, the table has all that is before the state row's position,
 * and nothing after it, unless its copy is of later.  One that waits for its copy just waits for
 * longer, and one that is copied has what is before the copy's position.
 */
void
rose_sql_pause_table(const RoseSubscription *sub, Oid relid)
{
	RoseSubscriptionTable *table = rose_sql_require_table(sub, rose_subscription_tables(sub->subid), relid);

	if (rose_subscription_table_waits(table) || strcmp(table->state, ROSE_REL_COPIED) == 0)
	{
		bool		copied = !rose_subscription_table_waits(table);

		rose_subscription_set_table(sub->subid, relid, ROSE_REL_PAUSED,
									copied ? table->sync_lsn : InvalidXLogRecPtr, NULL, NULL,
									copied ? table->sync_lsn : InvalidXLogRecPtr);
		/* the upstream keeps nothing for what there is of it */
		if (!copied)
			rose_chunks_forget(sub->subid, relid);
		return;
	}
	if (!rose_subscription_table_is_live(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot pause table \"%s\" of rose subscription \"%s\", which is in state \"%s\"",
						get_rel_name(relid), sub->name, table->state)));
	if (XLogRecPtrIsInvalid(sub->durable_lsn))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot pause table \"%s\" before rose subscription \"%s\" has begun to stream",
						get_rel_name(relid), sub->name)));
	rose_subscription_set_table(sub->subid, relid, ROSE_REL_PAUSED, table->sync_lsn, NULL, NULL,
								sub->durable_lsn);
}

/* To what these tables lack, if others are further. */
static void
go_back(const RoseSubscription *sub, List *tables, List *resumed)
{
	XLogRecPtr	lsn = ((RoseSubscriptionTable *) linitial(resumed))->error_lsn;

	if (lsn > sub->durable_lsn)
		return;
	rose_rewind_to(sub, sub->epoch, sub->durable_lsn, tables, resumed, lsn);
	rose_repl_rewound_at_commit(sub->subid);
}

void
rose_sql_resume_table(const RoseSubscription *sub, Oid relid)
{
	List	   *tables = rose_subscription_tables(sub->subid);
	RoseSubscriptionTable *table = rose_sql_require_table(sub, tables, relid);

	if (strcmp(table->state, ROSE_REL_PAUSED) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" of rose subscription \"%s\" is not paused, but in state \"%s\"",
						get_rel_name(relid), sub->name, table->state),
				 strcmp(table->state, ROSE_REL_ERROR) == 0 ?
				 errhint("The upstream does not keep what it lacks.  Have it copied again with rose.alter_subscription(..., resync => ...).") : 0));
	if (XLogRecPtrIsInvalid(table->error_lsn))
	{
		/* it was never copied */
		rose_subscription_set_table(sub->subid, relid, ROSE_REL_INIT, InvalidXLogRecPtr, NULL, NULL,
									InvalidXLogRecPtr);
		return;
	}
	go_back(sub, tables, list_make1(table));
	rose_subscription_set_table(sub->subid, relid, ROSE_REL_READY, table->sync_lsn, NULL, NULL,
								InvalidXLogRecPtr);
}

/* Tables that have failed there and are to be passed over, or not after all. */
static bool
is_skipped(const RoseSubscriptionTable *table, XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return strcmp(table->state, ROSE_REL_SKIPPING) == 0;
	return table->error_lsn == lsn &&
		(strcmp(table->state, ROSE_REL_FAILED) == 0 || strcmp(table->state, ROSE_REL_PAUSED) == 0);
}

/*
 * Only changes of tables that have failed there: of others, nothing need be lost.  One that was paused
 * there is resumed with it.
 */
void
rose_sql_skip(const RoseSubscription *sub, XLogRecPtr lsn)
{
	List	   *tables = rose_subscription_tables(sub->subid);
	List	   *skipped = NIL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		if (is_skipped(lfirst(lc), lsn))
			skipped = lappend(skipped, lfirst(lc));
	}
	if (skipped == NIL && !XLogRecPtrIsInvalid(lsn))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no table of rose subscription \"%s\" has failed at %X/%X",
						sub->name, LSN_FORMAT_ARGS(lsn)),
				 errhint("The position must be the error_lsn of a table in state \"failed\" or \"paused\" in rose.stat_subscription_tables.")));
	if (!XLogRecPtrIsInvalid(lsn))
		go_back(sub, tables, skipped);
	foreach(lc, skipped)
		rose_subscription_set_state_of_table(sub->subid, ((RoseSubscriptionTable *) lfirst(lc))->relid,
											 XLogRecPtrIsInvalid(lsn) ? ROSE_REL_FAILED : ROSE_REL_SKIPPING);
}
