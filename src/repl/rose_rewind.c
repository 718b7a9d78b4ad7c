/*-------------------------------------------------------------------------
 *
 * rose_rewind.c
 *	  A subscription goes back to an earlier position of the upstream, for tables that lack what is
 *	  between.
 *
 * The state row says where it goes back to, and the rows of the other tables up to where
 * they have everything (sync_lsn, as after a copy).  So the stream repeats what
 * the ones lack, and nothing else of it is applied.  That is the state of a subscription whose
 * other tables were copied just now: nothing that a crash may leave is of another kind.
 *
 * No locks but those of the rows.  Callers see to it that nothing is applied meanwhile:
 * backends have the worker drained, and the worker has neither batch nor epoch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/pg_list.h"

#include "repl/rose_repl_internal.h"

/* What a table has already: everything before this position.  durable: where the stream was. */
static XLogRecPtr
has_until(const RoseSubscriptionTable *table, XLogRecPtr durable)
{
	XLogRecPtr	lsn = rose_subscription_table_is_live(table) ? durable : table->error_lsn;

	return Max(lsn, table->sync_lsn);
}

/*
 * What is done to the origin is done at once, and cannot be taken back: so the row must say the same, in case the
 * transaction aborts.  It does, but for moments after a start of the server.
 */
void
rose_rewind_require_recorded(const RoseSubscription *sub)
{
	if (!sub->logged)
		return;
	if (rose_origin_position(sub->subid, false) > rose_subscription_get(sub->subid)->row_lsn)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the position of rose subscription \"%s\" has not been recorded yet", sub->name),
				 errdetail("Its worker does that once after a start of the server."),
				 errhint("Try again; rose.max_subscriptions must leave room for the worker.")));
}

static void
require_origin(const RoseSubscription *sub)
{
	if (!rose_origin_exists(sub->subid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no replication origin \"%s\", which would say what rose subscription \"%s\" has applied",
						rose_origin_name(sub->subid), sub->name),
				 errhint("Have all tables copied again with rose.alter_subscription(..., accept => 'resync') first.")));
}

void
rose_rewind_origin(const RoseSubscription *sub)
{
	if (!sub->logged)
		return;
	if (!rose_origin_exists(sub->subid))
	{
		/* somebody has dropped it, or pg_upgrade did not take it along */
		rose_origin_create(sub->subid);
		return;
	}
	rose_rewind_require_recorded(sub);
	rose_origin_clear(sub->subid);
}

void
rose_rewind_end_origin(const RoseSubscription *sub)
{
	require_origin(sub);
	rose_rewind_require_recorded(sub);
	rose_origin_drop(sub->subid);
}

void
rose_rewind_to(const RoseSubscription *sub, uint64 epoch, XLogRecPtr durable, List *tables, List *lacking,
			   XLogRecPtr lsn)
{
	RoseUpstreamCommit none = {0};
	ListCell   *lc;

	if (sub->logged)
		require_origin(sub);	/* else the row may be behind what the other tables have */
	rose_rewind_origin(sub);
	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		/* what waits for its copy gets a position then, and what is copied has it */
		if (list_member_ptr(lacking, table) || rose_subscription_table_waits(table) ||
			strcmp(table->state, ROSE_REL_COPIED) == 0)
			continue;
		rose_subscription_set_sync(sub->subid, table->relid, has_until(table, durable));
	}
	rose_subscription_set_state(sub->subid, epoch, lsn, &none);
}
