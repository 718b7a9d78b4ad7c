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

void
rose_rewind_to(Oid subid, uint64 epoch, XLogRecPtr durable, List *tables, List *lacking, XLogRecPtr lsn)
{
	RoseUpstreamCommit none = {0};
	ListCell   *lc;

	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		/* what waits for its copy gets a position then, and what is copied has it */
		if (list_member_ptr(lacking, table) || rose_subscription_table_waits(table) ||
			strcmp(table->state, ROSE_REL_COPIED) == 0)
			continue;
		rose_subscription_set_sync(subid, table->relid, has_until(table, durable));
	}
	rose_subscription_set_state(subid, epoch, lsn, &none);
}
