/*-------------------------------------------------------------------------
 *
 * rose_upstream_slot.c
 *	  Slots that standbys of the upstream take along (failover).
 *
 * An upstream can do so since 17 (rose_upstream_options.c).  The commands go as text: core's library here has no
 * parameter for it before 17, and is not needed for more.  Making a slot, and changing it,
 * does not roll back.
 *
 * Needs no locks here.  Upstream, a slot that is changed must be nobody's: the caller has
 * drained the subscription's worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"

#include "repl/rose_repl_internal.h"

void
rose_upstream_make_slot(WalReceiverConn *conn, const RoseSubscription *sub, XLogRecPtr *lsn)
{
	const char *purpose = "create the replication slot";
	char	   *values[4];

	if (!sub->failover)
	{
		rose_upstream_create_slot(conn, sub->slot_name, lsn);
		return;
	}
	rose_upstream_require_failover(conn, sub);
	/* its name, where it is consistent, no snapshot, the plugin */
	if (!rose_upstream_row(conn,
						   psprintf("CREATE_REPLICATION_SLOT \"%s\" LOGICAL pgoutput (FAILOVER, SNAPSHOT 'nothing')", sub->slot_name),
						   4, values, purpose) || values[1] == NULL)
		rose_upstream_malformed(purpose);
	*lsn = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(values[1])));
}

void
rose_upstream_set_failover(WalReceiverConn *conn, const RoseSubscription *sub)
{
	RoseUpstreamSlot slot;

	rose_upstream_require_failover(conn, sub);
	if (!rose_upstream_find_slot(conn, sub->slot_name, &slot) || slot.failover == sub->failover)
		return;
	rose_upstream_command(conn, psprintf("ALTER_REPLICATION_SLOT \"%s\" (FAILOVER %s)", sub->slot_name, sub->failover ? "true" : "false"));
}
