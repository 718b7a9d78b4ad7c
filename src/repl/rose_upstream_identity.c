/*-------------------------------------------------------------------------
 *
 * rose_upstream_identity.c
 *	  Whose changes these are: the upstream's identity, its timeline and WAL, and
 *	  the position of the slot.
 *
 * A server streams from wherever it is told to, even from behind the end of its
 * WAL, and begins at the slot's own position if that is later.  So after a failover to
 * a standby that lagged, a restore on either side, a slot that was made anew or a
 * connection string that leads elsewhere, changes would be missing and nobody
 * would know.  Only this side can notice: it compares what it finds on each connection
 * with what the state row says, before it reads anything.
 *
 * What does not fit blocks the subscription: an error with a reason, nothing is read
 * or confirmed, and the worker looks again later.  All of these reasons but one can be
 * seen again at any time.  That the upstream was behind cannot, once it has written
 * on: so that is kept in the state row until the tables are copied anew.
 *
 * The checks rest on the invariant that the slot's confirmed position is never
 * beyond durable_lsn of the committed state row (rose_stream.c).
 *
 * Nothing here changes the upstream.  The state row is written only where it had
 * nothing to compare with, or the timeline goes on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "nodes/value.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

#include "repl/rose_repl_internal.h"

#define HINT_ACCEPT \
	"If this is the upstream from now on, have all tables copied again with rose.alter_subscription(..., accept => 'resync')."
#define HINT_CONNINFO \
	"Put the connection string right with rose.alter_subscription(..., conninfo => ...).  " HINT_ACCEPT
#define HINT_RESYNC \
	"Have all tables copied again with rose.alter_subscription(..., accept => 'resync')."

/* ---------------------------------------------------------------------
 * Asking the upstream
 */

static XLogRecPtr
parse_lsn(const char *lsn)
{
	return DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(lsn)));
}

void
rose_upstream_identity_ask(WalReceiverConn *conn, RoseUpstreamIdentity *out)
{
	char	   *values[4];
	const char *purpose = "ask the upstream who it is";

	if (!rose_upstream_row(conn, "IDENTIFY_SYSTEM", 4, values, purpose) ||
		values[0] == NULL || values[1] == NULL || values[2] == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("could not %s: no answer", purpose)));
	strlcpy(out->system_id, values[0], sizeof(out->system_id));
	out->timeline = (TimeLineID) strtoul(values[1], NULL, 10);
	out->wal_end = parse_lsn(values[2]);

	if (!rose_upstream_row(conn,
						   "SELECT d.oid::pg_catalog.text, pg_catalog.pg_is_in_recovery()::pg_catalog.text"
						   " FROM pg_catalog.pg_database d"
						   " WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()",
						   2, values, purpose) || values[0] == NULL || values[1] == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("could not %s: no answer", purpose)));
	out->dbid = (Oid) strtoul(values[0], NULL, 10);
	out->in_recovery = strcmp(values[1], "true") == 0;
}

bool
rose_upstream_identity_is_known(const RoseSubscription *sub, const RoseUpstreamIdentity *identity)
{
	return sub->system_id == NULL ||
		(strcmp(sub->system_id, identity->system_id) == 0 && sub->upstream_dbid == identity->dbid);
}

/* False: there is no such slot. */
bool
rose_upstream_find_slot(WalReceiverConn *conn, const char *slot, RoseUpstreamSlot *out)
{
	int			version = walrcv_server_version(conn);
	const char *lost;
	char	   *values[4];

	/* 13 brought wal_status, 16 and 17 slots that a standby invalidates, 17 those that standbys have, too; pgoutput knows two_phase since 15 */
	if (version >= 170000)
		lost = "s.wal_status OPERATOR(pg_catalog.=) 'lost' OR s.invalidation_reason IS NOT NULL";
	else if (version >= 160000)
		lost = "s.wal_status OPERATOR(pg_catalog.=) 'lost' OR coalesce(s.conflicting, false)";
	else if (version >= 130000)
		lost = "s.wal_status OPERATOR(pg_catalog.=) 'lost'";
	else
		lost = "false";
	if (!rose_upstream_row(conn,
						   psprintf("SELECT (s.plugin IS NOT DISTINCT FROM 'pgoutput'"
									" AND s.database IS NOT DISTINCT FROM pg_catalog.current_database()"
									" AND NOT (%s))::pg_catalog.text, s.confirmed_flush_lsn::pg_catalog.text,"
									" (%s)::pg_catalog.text, (%s)::pg_catalog.text"
									" FROM pg_catalog.pg_replication_slots s"
									" WHERE s.slot_name OPERATOR(pg_catalog.=) %s",
									lost, version >= 150000 ? "s.two_phase" : "false", version >= 170000 ? "s.failover" : "false", quote_literal_cstr(slot)),
						   4, values, "look at the replication slot"))
		return false;
	out->usable = values[0] != NULL && strcmp(values[0], "true") == 0 && values[1] != NULL;
	out->confirmed_lsn = values[1] != NULL ? parse_lsn(values[1]) : InvalidXLogRecPtr;
	out->two_phase = values[2] != NULL && strcmp(values[2], "true") == 0;
	out->failover = values[3] != NULL && strcmp(values[3], "true") == 0;
	return true;
}

void
rose_upstream_refuse_two_phase(WalReceiverConn *conn, const RoseSubscription *sub)
{
	RoseUpstreamSlot slot;

	if (!sub->two_phase && rose_upstream_find_slot(conn, sub->slot_name, &slot) && slot.two_phase)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication slot \"%s\" was made with two_phase", sub->slot_name),
				 errdetail("The upstream sends transactions of such a slot when they are prepared, whatever a subscription asks for."),
				 errhint("Give the subscription two_phase => true, or use a slot without.  Then prepared transactions come when they are committed.")));
}

/* Where the upstream's history left a timeline; invalid: it was never on it. */
static XLogRecPtr
end_of_timeline(WalReceiverConn *conn, TimeLineID upstream, TimeLineID timeline)
{
	char	   *values[2];
	char	   *line;

	if (!rose_upstream_row(conn, psprintf("TIMELINE_HISTORY %u", upstream), 2, values,
						   "read the upstream's timeline history") || values[1] == NULL)
		return InvalidXLogRecPtr;
	for (line = strtok(values[1], "\n"); line != NULL; line = strtok(NULL, "\n"))
	{
		TimeLineID	parent;
		uint32		hi;
		uint32		lo;

		if (sscanf(line, "%u\t%X/%X", &parent, &hi, &lo) == 3 && parent == timeline)
			return ((XLogRecPtr) hi) << 32 | lo;
	}
	return InvalidXLogRecPtr;
}

/* ---------------------------------------------------------------------
 * Checks of the worker.  handle_error() (rose_repl_worker.c) reports the reason.
 */

void
rose_repl_block(const char *reason, const char *why, const char *hint)
{
	rose_apply.blocked = reason;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rose subscription \"%s\" is blocked: %s", rose_apply.sub->name, why),
			 errhint("%s", hint)));
}

static void
check_system(const RoseUpstreamIdentity *identity)
{
	const RoseSubscription *sub = rose_apply.sub;

	if (!rose_upstream_identity_is_known(sub, identity))
		rose_repl_block(ROSE_BLOCKED_OTHER_UPSTREAM,
						psprintf("the upstream is system %s, database %u, but its changes came from system %s, database %u",
								 identity->system_id, identity->dbid, sub->system_id, sub->upstream_dbid),
						HINT_CONNINFO);
	if (sub->blocked != NULL)
		rose_repl_block(ROSE_BLOCKED_BEHIND,
						"the upstream was behind what was applied here, so it is not what it was before",
						HINT_RESYNC);
}

/*
 * Tables may be further than the stream: those that are copied, and all that the stream has gone back for.  What they
 * have must be of this history, too.  REQUIRES: a transaction.
 */
static XLogRecPtr
furthest(void)
{
	XLogRecPtr	result = rose_apply.progress.applied_lsn;
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		/* what waits for its copy has no rows, and what is in error gets others */
		if (!rose_subscription_table_waits(table) && strcmp(table->state, ROSE_REL_ERROR) != 0)
			result = Max(result, Max(table->sync_lsn, table->exact_lsn));
	}
	return result;
}

static void
check_timeline(WalReceiverConn *conn, const RoseUpstreamIdentity *identity)
{
	const RoseSubscription *sub = rose_apply.sub;
	XLogRecPtr	applied = furthest();
	XLogRecPtr	end;

	if (sub->timeline == 0 || identity->timeline == sub->timeline)
		return;
	if (identity->timeline < sub->timeline)
		rose_repl_block(ROSE_BLOCKED_OLD_TIMELINE,
						psprintf("the upstream is on timeline %u, but its changes came from timeline %u",
								 identity->timeline, sub->timeline),
						HINT_CONNINFO);
	end = end_of_timeline(conn, identity->timeline, sub->timeline);
	if (end < applied)
		rose_repl_block(ROSE_BLOCKED_DIVERGED,
						psprintf("the upstream left timeline %u at %X/%X, but changes up to %X/%X of it were applied here",
								 sub->timeline, LSN_FORMAT_ARGS(end), LSN_FORMAT_ARGS(applied)),
						HINT_CONNINFO);
}

static void
check_wal_end(const RoseUpstreamIdentity *identity)
{
	XLogRecPtr	applied = furthest();

	if (identity->wal_end >= applied)
		return;
	if (identity->in_recovery)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream, a standby, has WAL up to %X/%X only, but changes up to %X/%X were applied here",
						LSN_FORMAT_ARGS(identity->wal_end), LSN_FORMAT_ARGS(applied)),
				 errdetail("The worker tries again later.")));
	rose_repl_block(ROSE_BLOCKED_BEHIND,
					psprintf("the upstream's WAL ends at %X/%X, but changes up to %X/%X were applied here",
							 LSN_FORMAT_ARGS(identity->wal_end), LSN_FORMAT_ARGS(applied)),
					HINT_RESYNC);
}

/* ---------------------------------------------------------------------
 * The last transaction that was applied
 */

/* Which transactions are sent: one that is not, because something else is asked for, proves nothing. */
static uint32
hash_publications(const RoseSubscription *sub)
{
	uint32		hash = 0;
	ListCell   *lc;

	foreach(lc, sub->publications)
	{
		const char *name = strVal(lfirst(lc));

		hash = hash_combine(hash, hash_bytes((const unsigned char *) name, strlen(name)));
	}
	return sub->no_origin ? hash_combine(hash, 1) : hash;
}

/*
 * A slot that stands behind it has been told of it: so it is in the history of this
 * upstream, whose files are of later.  One that stands before it can be asked to send it
 * again.  Then it must be what comes first, or it is not in this history.
 */
static void
expect_last_commit(const RoseUpstreamSlot *slot)
{
	const RoseUpstreamCommit *last = &rose_apply.progress.last_commit;

	rose_apply.start.lsn = rose_apply.progress.applied_lsn;
	rose_apply.start.publications = hash_publications(rose_apply.sub);
	memset(&rose_apply.start.expected, 0, sizeof(RoseUpstreamCommit));
	if (!XLogRecPtrIsInvalid(last->lsn) && last->lsn >= slot->confirmed_lsn &&
		last->publications == rose_apply.start.publications)
		rose_apply.start.expected = *last;
}

static void
block_rewritten(void)
{
	rose_repl_block(ROSE_BLOCKED_REWRITTEN,
					psprintf("the upstream does not have transaction %u, which committed at %X/%X and was applied here",
							 rose_apply.start.expected.xid, LSN_FORMAT_ARGS(rose_apply.start.expected.lsn)),
					HINT_CONNINFO);
}

void
rose_upstream_identity_check_commit(const RoseUpstreamCommit *commit)
{
	const RoseUpstreamCommit *expected = &rose_apply.start.expected;

	if (XLogRecPtrIsInvalid(expected->lsn))
		return;
	if (commit->lsn != expected->lsn || commit->xid != expected->xid ||
		commit->time != expected->time)
		block_rewritten();
	rose_apply.start.expected.lsn = InvalidXLogRecPtr;
}

void
rose_upstream_identity_check_end(XLogRecPtr end)
{
	if (!XLogRecPtrIsInvalid(rose_apply.start.expected.lsn) && end > rose_apply.start.expected.lsn)
		block_rewritten();
}

/* ---------------------------------------------------------------------
 * The slot
 */

/* Tables may have been copied before: what has come between that and the slot, nobody would send. */
static void
require_not_past_copies(const RoseUpstreamSlot *slot)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		const RoseSubscriptionTable *table = lfirst(lc);

		if (!rose_subscription_table_is_live(table) && strcmp(table->state, ROSE_REL_COPIED) != 0)
			continue;
		if (!XLogRecPtrIsInvalid(table->sync_lsn) && table->sync_lsn < slot->confirmed_lsn)
			rose_repl_block(ROSE_BLOCKED_SLOT_AHEAD,
							psprintf("replication slot \"%s\" stands at %X/%X, but table \"%s.%s\" has been copied before, up to %X/%X only",
									 rose_apply.sub->slot_name, LSN_FORMAT_ARGS(slot->confirmed_lsn),
									 table->remote.nspname, table->remote.relname, LSN_FORMAT_ARGS(table->sync_lsn)),
							"Have the table copied again with rose.alter_subscription(..., resync => ...).");
	}
}

/* A slot that was made by hand, before anything was applied: where it stands is where we start. */
static void
take_over_slot(const RoseUpstreamSlot *slot)
{
	require_not_past_copies(slot);
	ereport(LOG,
			(errmsg("rose subscription \"%s\" starts where replication slot \"%s\" stands, at %X/%X",
					rose_apply.sub->name, rose_apply.sub->slot_name,
					LSN_FORMAT_ARGS(slot->confirmed_lsn))));
	rose_epoch_record(rose_apply.progress.epoch, slot->confirmed_lsn,
					  &rose_apply.progress.last_commit);
	rose_epoch_note_row(slot->confirmed_lsn);
	rose_apply.progress.durable_lsn = slot->confirmed_lsn;
	rose_apply.progress.applied_lsn = Max(rose_apply.progress.applied_lsn, slot->confirmed_lsn);
}

static void
check_slot(WalReceiverConn *conn)
{
	const char *name = rose_apply.sub->slot_name;
	RoseUpstreamSlot slot;

	if (!rose_upstream_find_slot(conn, name, &slot))
		rose_repl_block(ROSE_BLOCKED_SLOT_MISSING,
						psprintf("the upstream has no replication slot \"%s\"", name), HINT_RESYNC);
	if (!slot.usable)
		rose_repl_block(ROSE_BLOCKED_SLOT_LOST,
						psprintf("replication slot \"%s\" is not of pgoutput and this database, or has lost its WAL", name),
						HINT_RESYNC);
	if (slot.two_phase && !rose_apply.sub->two_phase)
		rose_repl_block(ROSE_BLOCKED_SLOT_TWO_PHASE,
						psprintf("replication slot \"%s\" was made with two_phase, so the upstream sends transactions before it is known whether they commit", name),
						"Take them so, with rose.alter_subscription(..., two_phase => true); or have all tables copied again with accept => 'resync', which makes a slot without two_phase.");
	if (XLogRecPtrIsInvalid(rose_apply.epochs.recorded_lsn))
		take_over_slot(&slot);
	else if (slot.confirmed_lsn > rose_apply.epochs.recorded_lsn)
		rose_repl_block(ROSE_BLOCKED_SLOT_AHEAD,
						psprintf("replication slot \"%s\" stands at %X/%X, but what came before that is durable here up to %X/%X only",
								 name, LSN_FORMAT_ARGS(slot.confirmed_lsn),
								 LSN_FORMAT_ARGS(rose_apply.epochs.recorded_lsn)),
						HINT_RESYNC);
	if (!XLogRecPtrIsInvalid(rose_apply.stops.held_lsn) && slot.confirmed_lsn > rose_apply.stops.held_lsn)
		rose_table_error_lose(slot.confirmed_lsn,
							  "the upstream's replication slot was moved past the position at which it was paused; have it copied again with rose.alter_subscription(..., resync => ...)");
	expect_last_commit(&slot);
}

/*
 * A copy that commits asks who the upstream is, and what it is taken for here may change at that moment: so either it
 * sees the change, or who makes the change sees what the copy has (furthest).  Until the transaction ends.
 */
static void
lock_identity(void)
{
	rose_subscription_lock_identity(rose_apply.sub->subid);
}

/* What was not known before, or has gone on, is known from now on. */
static void
remember(const RoseUpstreamIdentity *identity)
{
	RoseSubscription *sub = rose_apply.sub;

	if (sub->system_id != NULL && sub->timeline == identity->timeline)
		return;
	if (sub->system_id != NULL)
		ereport(LOG,
				(errmsg("rose subscription \"%s\" follows the upstream to timeline %u",
						sub->name, identity->timeline)));
	rose_subscription_set_identity(sub->subid, identity);
	ForceSyncCommit();
	if (sub->system_id == NULL)
		sub->system_id = MemoryContextStrdup(TopMemoryContext, identity->system_id);
	sub->upstream_dbid = identity->dbid;
	sub->timeline = identity->timeline;
}

XLogRecPtr
rose_upstream_identity_check(WalReceiverConn *conn, bool with_slot)
{
	RoseUpstreamIdentity identity;

	Assert(!rose_apply.batch.open);
	/* nobody else writes the state row meanwhile */
	(void) rose_flight_wait();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rose_upstream_identity_ask(conn, &identity);
	if (rose_apply.sub->system_id == NULL || identity.timeline != rose_apply.sub->timeline)
		lock_identity();
	check_system(&identity);
	check_timeline(conn, &identity);
	check_wal_end(&identity);
	if (with_slot)
		check_slot(conn);
	remember(&identity);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return identity.wal_end;
}

static void
require_same(const RoseSubscription *sub, const RoseUpstreamIdentity *identity)
{
	if (sub == NULL || !rose_upstream_identity_is_known(sub, identity) || identity->timeline != sub->timeline)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the connection leads to another server than the stream comes from")));
}

/* For the connection that only tells the end of WAL: of another server's it would mean nothing. */
void
rose_upstream_identity_check_monitor(WalReceiverConn *conn)
{
	RoseUpstreamIdentity identity;

	rose_upstream_identity_ask(conn, &identity);
	require_same(rose_apply.sub, &identity);
}

/*
 * For a copy that is about to commit.  It may have taken for hours, and an old primary goes on while the
 * stream has followed its successor: rows of after they parted are of no upstream of ours.
 */
void
rose_upstream_identity_check_copied(WalReceiverConn *conn)
{
	RoseUpstreamIdentity identity;

	rose_upstream_identity_ask(conn, &identity);
	lock_identity();
	require_same(rose_subscription_get(rose_apply.sub->subid), &identity);
}

/* ---------------------------------------------------------------------
 * What a slot has sent to somebody else
 */

/* What is prepared in the upstream's database just now, as a list of RosePrepared. */
static List *
list_prepared(WalReceiverConn *conn)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rose_upstream_strings(conn,
									  "SELECT p.transaction::pg_catalog.text OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) p.gid"
									  " FROM pg_catalog.pg_prepared_xacts p"
									  " WHERE p.database OPERATOR(pg_catalog.=) pg_catalog.current_database()",
									  "ask which transactions are prepared"))
	{
		RosePrepared *prepared = palloc0(sizeof(RosePrepared));
		char	   *gid = NULL;

		/* the view may be anybody's */
		if (lfirst(lc) != NULL)
			prepared->xid = (TransactionId) strtoul(lfirst(lc), &gid, 10);
		if (gid == NULL || *gid != ' ')
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("unexpected answer of the upstream to the question which transactions are prepared")));
		prepared->gid = gid + 1;
		prepared->time = GetCurrentTimestamp();
		prepared->nbytes = -1;
		result = lappend(result, prepared);
	}
	return result;
}

void
rose_upstream_note_prepared(WalReceiverConn *conn, const RoseSubscription *sub)
{
	rose_prepared_take_over(sub->subid, sub->slot_name, InvalidXLogRecPtr, list_prepared(conn));
}

/*
 * Those that were noted, and have ended since.  The stream may begin behind that, and not say so.  An upstream that is not proved to
 * be the true one yet is asked another time; and a standby shows nothing that is prepared.
 */
static void
finish_ended(WalReceiverConn *conn, Oid subid)
{
	List	   *noted = rose_prepared_elsewhere(subid);
	List	   *now;
	RoseUpstreamIdentity identity;
	XLogRecPtr	wal_end;
	ListCell   *lc;

	if (noted == NIL || !XLogRecPtrIsInvalid(rose_apply.start.expected.lsn))
		return;
	rose_upstream_identity_ask(conn, &identity);
	if (identity.in_recovery)
		return;
	now = list_prepared(conn);
	wal_end = rose_upstream_wal_end(conn);	/* after the look: it is behind the end of what is not there any more */
	foreach(lc, now)
		noted = list_delete_oid(noted, ((RosePrepared *) lfirst(lc))->xid);
	foreach(lc, noted)
		if (!XLogRecPtrIsInvalid(wal_end))
			rose_prepared_finish(subid, lfirst_oid(lc), wal_end);
}

XLogRecPtr
rose_upstream_take_over_prepared(WalReceiverConn *conn, const RoseSubscription *sub)
{
	RoseUpstreamSlot slot;
	XLogRecPtr	lsn = InvalidXLogRecPtr;
	List	   *elsewhere = NIL;

	if (rose_prepared_has_taken_over(sub->subid, sub->slot_name, &lsn))
	{
		finish_ended(conn, sub->subid);
		return lsn;
	}
	if (rose_upstream_find_slot(conn, sub->slot_name, &slot) && slot.two_phase)
	{
		/* what is committed in between is before the position, and what is prepared comes */
		elsewhere = list_prepared(conn);
		lsn = rose_upstream_wal_end(conn);
		if (XLogRecPtrIsInvalid(lsn))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("could not ask the upstream for the end of its WAL")));
	}
	rose_prepared_take_over(sub->subid, sub->slot_name, lsn, elsewhere);
	ForceSyncCommit();
	return lsn;
}
