/*-------------------------------------------------------------------------
 *
 * rose_apply.c
 *	  From pgoutput's messages to blind writes.
 *
 * INSERT and UPDATE become a PUT, DELETE a TOMBSTONE, a change of the key both.  An
 * UPDATE that leaves a large value untouched does not carry it and becomes a PARTIAL
 * version; so does an INSERT that a row filter made of such an UPDATE, and an UPDATE of a table with
 * columns that the upstream has not, which are left as they are.  Nothing is read,
 * but in three cases: the key changes and a value that is not sent has to move along;
 * an expression of the table (rose_rules.h) looks at a value that was not sent; and an
 * index has such a column beside one that was sent.
 *
 * TRUNCATE is rose_truncated.c's.  How a row is read and written is rose_apply_row.c's, which partition of a table takes it
 * rose_target.c's.
 *
 * Errors name the table, the message, the key and the upstream's commit position
 * (rose_apply_error_context).
 *
 * Locking: tables are locked once a batch (rose_relmap.c).  When a batch ends is not
 * decided here (rose_stream.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "datatype/timestamp.h"
#include "libpq/pqformat.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "repl/rose_apply_row.h"
#include "repl/rose_owner.h"
#include "repl/rose_prepared.h"
#include "repl/rose_repl_internal.h"

/* Within a transaction, look every so many changes whether memory is short. */
#define ROSE_APPLY_CHECK_MEMORY		256

/* ---------------------------------------------------------------------
 * What is at hand, for error messages
 */

static RoseWireChange change;	/* at hand */
static RoseWireTuple *key_tuple = NULL; /* of it */
static const RoseReplTarget *key_target = NULL; /* whose key it is, or NULL: it is not known yet */

void
rose_apply_error_context(void *arg)
{
	StringInfoData key;

	if (rose_apply.blame.writing)
	{
		errcontext("writing changes of table \"%s.%s\"%s before the transaction committed at %X/%X, or of it",
				   rose_apply.blame.rel->remote.nspname, rose_apply.blame.rel->remote.relname,
				   rose_apply.blame.rel->called_here,
				   LSN_FORMAT_ARGS(rose_apply.remote.commit_lsn));
		return;
	}
	if (rose_apply.blame.command == 0)
	{
		rose_streamed_error_context();
		return;
	}
	if (rose_apply.blame.rel == NULL)
	{
		errcontext("applying upstream message \"%c\" of the transaction committed at %X/%X",
				   rose_apply.blame.command, LSN_FORMAT_ARGS(rose_apply.remote.commit_lsn));
		return;
	}
	initStringInfo(&key);
	if (key_tuple != NULL && key_target != NULL && key_target->table != NULL)
		rose_apply_row_describe_key(key_target, key_tuple, &key);
	errcontext("applying upstream message \"%c\" for table \"%s.%s\"%s%s%s%s of the transaction committed at %X/%X",
			   rose_apply.blame.command, rose_apply.blame.rel->remote.nspname, rose_apply.blame.rel->remote.relname,
			   rose_apply.blame.rel->called_here,
			   key.len > 0 ? ", key (" : "", key.data, key.len > 0 ? ")," : "",
			   LSN_FORMAT_ARGS(rose_apply.remote.commit_lsn));
	pfree(key.data);
}

/* ---------------------------------------------------------------------
 * Cutting the batch
 */

/* Other transactions, in this batch or not yet in an epoch, come before this one. */
bool
rose_apply_can_be_cut(void)
{
	/* what is logged is durable with its batch, and memory is for others to free */
	if (rose_apply.sub->logged)
		return false;
	return rose_apply.epochs.dirty || rose_apply.epochs.flight != 0 ||
		(rose_apply.batch.open && rose_apply.batch.first != rose_apply.remote.commit_lsn);
}

/*
 * A large transaction goes to private runs when memory is full, but only an
 * epoch frees what earlier ones hold: the one in flight, or one that the batch is cut for
 * before this transaction, which then has all the memory.
 */
static bool
memory_is_short(void)
{
	if (rose_apply.remote.changes == 0 ||
		rose_apply.remote.changes % ROSE_APPLY_CHECK_MEMORY != 0 ||
		!rose_pressure_reached(ROSE_MARK_APPLY_CUT))
		return false;
	return (!rose_flight_wait() || rose_pressure_reached(ROSE_MARK_APPLY_CUT)) &&
		rose_apply_can_be_cut();
}

/* ---------------------------------------------------------------------
 * Changes
 */

/* The table of a change, or NULL if it is to be skipped. */
static RoseReplRel *
begin_change(LogicalRepRelId remoteid)
{
	RoseReplRel *entry;

	if (unlikely(rose_apply.remote.passing))
		return NULL;
	rose_batch_ensure();
	entry = rose_relmap_open(remoteid, rose_apply.remote.commit_lsn);
	if (entry == NULL)
	{
		rose_apply.progress.skipped++;
		return NULL;
	}
	rose_apply.blame.rel = entry;
	if (rose_apply.format.binary && !entry->binary_fits)
	{
		rose_apply.format.text_needed = true;	/* read it again, as text */
		return NULL;
	}
	rose_apply.remote.changes++;
	rose_apply.blame.certain = true;	/* until the end of the change */
	key_target = entry->route == NULL ? &entry->target : NULL;
	return entry;
}

/* A change that names an old row needs to know it. */
static void
require_identity(RoseReplTarget *target, const char *verb)
{
	if (unlikely(!target->identity_known))
		rose_relmap_learn_identity(target);
	rose_relmap_require_identity(target, verb);
}

/* What the table's owner may not do is not done for him either, unless for a superuser. */
static inline void
require_privilege(const RoseReplTarget *target, AclMode mode)
{
	if (unlikely(target->lacking & mode))
		rose_owner_refuse(target->rel, mode);
}

static void
apply_insert(void)
{
	RoseReplRel *entry;
	RoseReplTarget *target;

	entry = begin_change(change.relid);
	if (entry == NULL)
		return;
	key_tuple = &change.new;
	if (likely(!rose_apply_row_read(entry, &change.new, entry->values, entry->nulls, NULL)))
	{
		if (unlikely(entry->defaults != NULL))
			rose_defaults_fill(entry->defaults, entry->values, entry->nulls);
		key_target = target = rose_target_of_new(entry, false, NULL);
		require_privilege(target, ACL_INSERT);
		rose_apply_row_write(target);
	}
	else
	{
		const char *verb = "an INSERT without its unchanged large values";

		(void) rose_apply_row_read(entry, &change.new, entry->values, entry->nulls, entry->present);
		key_target = target = rose_target_of_new(entry, true, verb);
		require_privilege(target, ACL_INSERT);
		require_identity(target, verb);
		rose_apply_row_write_incomplete(target, false);
		entry->counts.incomplete++;
	}
	rose_apply.progress.inserts++;
	entry->counts.inserts++;
	target->inserts++;
}

/* Has the new row another key than the old one, or another place? */
static bool
has_moved(const RoseReplTarget *target, const RoseReplTarget *old_target, Datum *old_key)
{
	const RoseSchema *schema = target->table->schema;
	Datum		new_key[INDEX_MAX_KEYS];

	rose_component_require_key(old_target->table->schema, old_target->old_nulls);
	rose_component_require_key(schema, target->nulls);
	rose_key_from_values(old_target->table->schema, old_target->old_values, 0, old_key);
	rose_key_from_values(schema, target->values, 0, new_key);
	return target != old_target || rose_key_compare(schema, old_key, new_key, schema->nkeys) != 0;
}

/* The old row's place, in whose columns it is taken then. */
static RoseReplTarget *
target_of_old(RoseReplRel *entry, const char *verb)
{
	RoseReplTarget *target = rose_target_of_old(entry, verb);

	require_identity(target, verb);
	rose_target_take_old(target);
	return target;
}

/* Core counts a row that moves from one partition to another as deleted and inserted. */
static void
count_update(RoseReplTarget *target, RoseReplTarget *old_target)
{
	rose_apply.progress.updates++;
	target->of->counts.updates++;
	if (target == old_target)
		target->updates++;
	else
	{
		old_target->deletes++;
		target->inserts++;
	}
}

static void
apply_update(void)
{
	const char *verb = "an UPDATE";
	Datum		old_key[INDEX_MAX_KEYS];
	bool		unchanged;
	RoseReplRel *entry;
	RoseReplTarget *target;
	RoseReplTarget *old_target;

	rose_apply.remote.moved = false;
	entry = begin_change(change.relid);
	if (entry == NULL)
		return;
	key_tuple = change.has_old ? &change.old : &change.new;
	if (entry->route == NULL)
		require_identity(&entry->target, verb);

	unchanged = rose_apply_row_read(entry, &change.new, entry->values, entry->nulls, entry->present);
	if (change.has_old)
	{
		rose_apply_row_read(entry, &change.old, entry->old_values, entry->old_nulls, NULL);
		if (unchanged)
			unchanged = rose_apply_row_complete_from_old(entry, &change.old);
	}
	key_target = target = old_target = rose_target_of_new(entry, unchanged, verb);
	require_privilege(target, ACL_UPDATE);
	require_identity(target, verb);
	if (change.has_old)
	{
		old_target = target_of_old(entry, verb);
		require_privilege(old_target, ACL_UPDATE);
		rose_target_take_new(target, false);
	}
	if (change.has_old && has_moved(target, old_target, old_key))
	{
		rose_apply.remote.moved = true;
		if (unchanged)
			unchanged = !rose_apply_row_complete_from_table(old_target, old_key);
		rose_apply_row_write_tombstone(old_target);
	}
	/* the upstream sends the old key if that is another one, or was large */
	if (unchanged)
		rose_apply_row_write_incomplete(target, !change.has_old);
	else
		rose_apply_row_write(target);
	count_update(target, old_target);
}

static void
apply_delete(void)
{
	const char *verb = "a DELETE";
	RoseReplRel *entry;
	RoseReplTarget *target;

	entry = begin_change(change.relid);
	if (entry == NULL)
		return;
	key_tuple = &change.old;
	if (entry->route == NULL)
		require_identity(&entry->target, verb);
	rose_apply_row_read(entry, &change.old, entry->old_values, entry->old_nulls, NULL);
	key_target = target = target_of_old(entry, verb);
	require_privilege(target, ACL_DELETE);
	rose_apply_row_write_tombstone(target);
	rose_apply.progress.deletes++;
	entry->counts.deletes++;
	target->deletes++;
}

static void
apply_change(void)
{
	switch (rose_apply.blame.command)
	{
		case LOGICAL_REP_MSG_INSERT:
			apply_insert();
			break;
		case LOGICAL_REP_MSG_UPDATE:
			apply_update();
			break;
		default:
			apply_delete();
			break;
	}
}

/* ---------------------------------------------------------------------
 * Transactions
 */

/*
 * All that comes before the transaction that commits here becomes durable: as transactions
 * are sent in the order of their commits, that is all before its commit record.
 */
static void
cut_before(XLogRecPtr lsn)
{
	RoseReplProgress *progress = &rose_apply.progress;

	rose_batch_commit();
	rose_epoch_commit();
	rose_apply.batch.reached_lsn = Max(rose_apply.batch.reached_lsn, lsn);
	progress->applied_lsn = Max(progress->applied_lsn, lsn);
	progress->durable_lsn = Max(progress->durable_lsn, progress->applied_lsn);
	if (progress->durable_lsn > rose_apply.epochs.recorded_lsn)
		rose_epoch_record_idle();
	rose_repl_publish(rose_apply.shared, rose_apply.status, progress);
}

/* Whoever looks at the subscriptions sees it, and could see none of them if it were none that has a text. */
static void
require_time(TimestampTz time)
{
	if (!IS_VALID_TIMESTAMP(time))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream sent a transaction whose time of commit is out of range")));
}

static void
begin_remote(XLogRecPtr commit_lsn, TransactionId xid, TimestampTz time)
{
	require_time(time);
	while (rose_verify_hold_is_due(rose_apply.shared, commit_lsn))
	{
		rose_batch_commit();
		rose_verify_hold_stand(rose_apply.shared, rose_apply.keep_alive);
	}
	rose_apply.remote.open = true;
	rose_apply.remote.commit_lsn = commit_lsn;
	rose_apply.remote.commit.lsn = commit_lsn;
	rose_apply.remote.commit.xid = xid;
	rose_apply.remote.commit.time = time;
	rose_apply.remote.commit.publications = rose_apply.start.publications;
	rose_upstream_identity_check_commit(&rose_apply.remote.commit);
	rose_apply.remote.passing = commit_lsn < rose_apply.start.lsn;
	rose_apply.remote.is_sent = false;
	rose_apply.remote.durable_at_once = false;
	rose_apply.remote.changes = 0;

	if (commit_lsn == rose_apply.epochs.solo_lsn)
	{
		cut_before(commit_lsn);
		rose_apply.epochs.solo_lsn = InvalidXLogRecPtr;
	}
}

static void
apply_begin(StringInfo s)
{
	LogicalRepBeginData begin;

	logicalrep_read_begin(s, &begin);
	begin_remote(begin.final_lsn, begin.xid, begin.committime);
	rose_apply.remote.is_sent = true;
}

/* It was sent before; its changes come now, one by one (rose_apply_replay). */
static void
apply_stream_commit(StringInfo s)
{
	LogicalRepCommitData commit;
	TransactionId xid = logicalrep_read_stream_commit(s, &commit);

	begin_remote(commit.commit_lsn, xid, commit.committime);
	rose_streamed_begin_replay(xid, &commit);
	if (!rose_apply.remote.passing && rose_apply_can_be_cut() && rose_streamed_should_be_alone())
		cut_before(commit.commit_lsn);
}

/*
 * A transaction that truncated, or from which on columns are others, or of which something
 * is passed over, takes its position along in the local commit, which makes the empty
 * files, and what is known of tables, durable; so its rows have to be in runs by then.
 */
static void
commit_at_once(XLogRecPtr end_lsn)
{
	uint64		epoch = rose_apply.progress.epoch + 1;

	Assert(rose_apply.epochs.flight == 0);
	rose_gather_write();
	rose_relmap_end_passed();
	if (rose_apply.sub->logged)
	{
		/* as any commit */
		rose_batch_commit();
		return;
	}
	if (rose_apply.remote.changes > 0)
		rose_epoch_spill_batch(epoch);
	rose_epoch_record(epoch, end_lsn, &rose_apply.batch.reached);
	rose_batch_commit();
	if (rose_apply.remote.changes > 0)
		rose_epoch_publish_tables(epoch);
	rose_epoch_recorded(epoch, end_lsn);
}

static void
end_remote(XLogRecPtr end_lsn)
{
	rose_apply.remote.open = false;
	if (rose_apply.remote.passing)
		return;
	rose_apply.batch.reached_lsn = end_lsn;
	if (rose_apply.remote.is_sent)
		rose_apply.batch.reached = rose_apply.remote.commit;
	rose_apply.progress.transactions++;
	if (!rose_apply.batch.open)
	{
		rose_apply.progress.applied_lsn = end_lsn;
		rose_apply.progress.last_commit = rose_apply.batch.reached;
	}
	else if (rose_apply.remote.durable_at_once)
		commit_at_once(end_lsn);
}

static void
apply_commit(StringInfo s)
{
	LogicalRepCommitData commit;

	logicalrep_read_commit(s, &commit);
	if (commit.commit_lsn != rose_apply.remote.commit_lsn)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream sent a commit at %X/%X in the transaction that commits at %X/%X",
						LSN_FORMAT_ARGS(commit.commit_lsn),
						LSN_FORMAT_ARGS(rose_apply.remote.commit_lsn))));
	end_remote(commit.end_lsn);
}

/* ---------------------------------------------------------------------
 * Transactions that are sent when they are prepared
 */

static void
hear_description(StringInfo description)
{
	LogicalRepRelation *remote = logicalrep_read_rel(description);

	rose_description_check(remote);
	rose_gather_write();
	rose_relmap_learn(remote, pq_getmsgint64(description));
}

/*
 * Nothing of it is applied, but it is kept with the batch.  One that was prepared before the
 * upstream was asked for this comes at COMMIT PREPARED, and is of a position behind us.
 */
static void
apply_prepare(StringInfo s)
{
	LogicalRepPreparedTxnData prepare;
	bool		whole = rose_apply.blame.command == LOGICAL_REP_MSG_PREPARE;

	if (whole)
		logicalrep_read_prepare(s, &prepare);
	else
		logicalrep_read_stream_prepare(s, &prepare);
	require_time(prepare.prepare_time);
	/* of another history, it would take the place of what is kept */
	rose_upstream_identity_check_end(prepare.prepare_lsn);
	rose_apply.remote.commit_lsn = prepare.prepare_lsn;
	rose_batch_ensure();
	/* of one that has only locked rows, 18 sends nothing but that; and releases before it nothing at all */
	rose_streamed_keep_prepared(&prepare, whole, hear_description);
	rose_apply.batch.reached_lsn = Max(rose_apply.batch.reached_lsn, prepare.end_lsn);
}

/*
 * What somebody else has got, who has had the slot before, does not come again.  It is no matter if
 * no table would have taken it: copies that are made meanwhile have all of it.
 */
static void
require_nothing_missed(const LogicalRepCommitPreparedTxnData *commit)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		const RoseSubscriptionTable *table = lfirst(lc);

		if (!rose_subscription_table_waits(table) && table->sync_lsn <= commit->commit_lsn)
			rose_repl_block(ROSE_BLOCKED_SLOT_TWO_PHASE,
							psprintf("the upstream has committed prepared transaction \"%s\" at %X/%X, which came to another consumer of replication slot \"%s\"",
									 commit->gid, LSN_FORMAT_ARGS(commit->commit_lsn), rose_apply.sub->slot_name),
							"Have all tables copied again with rose.alter_subscription(..., accept => 'resync').");
	}
}

/* Nothing is kept of it: it is empty, or nobody will send it. */
static void
pass_prepared(const LogicalRepCommitPreparedTxnData *commit, bool elsewhere)
{
	if (elsewhere || commit->commit_lsn < rose_apply.start.elsewhere_lsn)
		require_nothing_missed(commit);
	if (elsewhere)
		rose_prepared_forget(rose_apply.sub->subid, commit->xid);
	end_remote(commit->end_lsn);
}

/* What is kept of it comes now, as if it was streamed (rose_apply_replay). */
static void
apply_commit_prepared(StringInfo s)
{
	LogicalRepCommitPreparedTxnData commit;
	RosePreparedFound found;

	logicalrep_read_commit_prepared(s, &commit);
	begin_remote(commit.commit_lsn, commit.xid, commit.commit_time);
	rose_apply.remote.is_sent = true;
	rose_batch_ensure();
	if (rose_apply.remote.passing)
	{
		/* it has been applied, but may have been kept anew just now */
		rose_streamed_end_prepared(commit.xid);
		rose_prepared_finish(rose_apply.sub->subid, commit.xid, commit.end_lsn);
		end_remote(commit.end_lsn);
		return;
	}
	found = rose_streamed_begin_prepared(&commit);
	if (found != ROSE_PREPARED_KEPT)
		pass_prepared(&commit, found == ROSE_PREPARED_ELSEWHERE);
	else if (rose_apply_can_be_cut() && rose_streamed_should_be_alone())
		cut_before(commit.commit_lsn);
}

/* It may be one that was never kept: then there is nothing of it. */
static void
apply_rollback_prepared(StringInfo s)
{
	LogicalRepRollbackPreparedTxnData rollback;

	logicalrep_read_rollback_prepared(s, &rollback);
	rose_upstream_identity_check_end(rollback.rollback_end_lsn);
	rose_apply.remote.commit_lsn = rollback.rollback_end_lsn;
	rose_batch_ensure();
	rose_streamed_end_prepared(rollback.xid);
	rose_prepared_forget(rose_apply.sub->subid, rollback.xid);
	rose_apply.batch.reached_lsn = Max(rose_apply.batch.reached_lsn, rollback.rollback_end_lsn);
}

/* ---------------------------------------------------------------------
 * Descriptions
 */

/* Before its first value: the upstream itself fails if it has no binary format for that. */
static void
look_at_format(const LogicalRepRelation *remote)
{
	if (rose_apply.format.binary && rose_description_needs_text(remote))
		rose_apply.format.text_needed = true;
}

static void
apply_relation(StringInfo s)
{
	LogicalRepRelation *remote = logicalrep_read_rel(s);
	bool		replayed = rose_streamed_is_replayed();
	uint64		heard = replayed ? pq_getmsgint64(s) : ++rose_apply.descriptions;

	/* which may have come to another process */
	if (rose_streamed_is_prepared())
		heard = 0;
	/* as an upstream that takes it for known */
	if (!replayed && ROSE_STOP_POINT_SKIPS("description-sent"))
		return;
	rose_description_check(remote);
	look_at_format(remote);
	rose_gather_write();
	rose_relmap_update(remote, heard);
}

/* False: the message is of another kind. */
static bool
apply_transaction_message(StringInfo s)
{
	switch (rose_apply.blame.command)
	{
		case LOGICAL_REP_MSG_BEGIN:
			apply_begin(s);
			return true;
		case LOGICAL_REP_MSG_COMMIT:
			apply_commit(s);
			return true;
		case LOGICAL_REP_MSG_STREAM_COMMIT:
			apply_stream_commit(s);
			return true;
		case LOGICAL_REP_MSG_PREPARE:
		case LOGICAL_REP_MSG_STREAM_PREPARE:
			apply_prepare(s);
			return true;
		case LOGICAL_REP_MSG_COMMIT_PREPARED:
			apply_commit_prepared(s);
			return true;
		case LOGICAL_REP_MSG_ROLLBACK_PREPARED:
			apply_rollback_prepared(s);
			return true;
		default:
			return false;
	}
}

RoseApplyResult
rose_apply_message(StringInfo s)
{
	RoseApplyResult result = ROSE_APPLY_GO_ON;
	StringInfoData description;

	if (rose_streamed_take(s, &description, rose_relmap_description))
	{
		if (description.data != NULL)
			look_at_format(logicalrep_read_rel(&description));
		return rose_apply.format.binary && rose_apply.format.text_needed ? ROSE_APPLY_RESTART : ROSE_APPLY_GO_ON;
	}
	if (rose_apply.remote.open && memory_is_short())
		return ROSE_APPLY_RESTART;
	rose_apply.epochs.applied_bytes += s->len;
	rose_apply.blame.command = pq_getmsgbyte(s);
	rose_apply.blame.rel = NULL;
	rose_apply.blame.certain = false;
	key_tuple = NULL;
	key_target = NULL;
	switch (rose_apply.blame.command)
	{
		case LOGICAL_REP_MSG_INSERT:
		case LOGICAL_REP_MSG_UPDATE:
		case LOGICAL_REP_MSG_DELETE:
			rose_wire_read_change(rose_apply.blame.command, s->data + s->cursor, s->len - s->cursor,
								  &change);
			apply_change();
			break;
		case LOGICAL_REP_MSG_TRUNCATE:
			result = rose_truncated_apply(s);
			break;
		case LOGICAL_REP_MSG_RELATION:
			apply_relation(s);
			break;
		case LOGICAL_REP_MSG_TYPE:
		case LOGICAL_REP_MSG_ORIGIN:
		case LOGICAL_REP_MSG_MESSAGE:
			break;				/* of no use here */
		default:
			if (!apply_transaction_message(s))
				ereport(ERROR,
						(errcode(ERRCODE_PROTOCOL_VIOLATION),
						 errmsg("unexpected logical replication message type \"%c\"",
								rose_apply.blame.command)));
	}
	if (rose_apply.remote.cut_needed || (rose_apply.format.binary && rose_apply.format.text_needed))
		result = ROSE_APPLY_RESTART;
	rose_apply.remote.cut_needed = false;
	rose_apply.blame.command = 0;
	rose_apply.blame.rel = NULL;
	rose_apply.blame.certain = false;
	key_tuple = NULL;
	key_target = NULL;
	return result;
}

/* Values come as text, whatever the format of the stream. */
bool
rose_apply_change_beside(StringInfo s, XLogRecPtr lsn)
{
	bool		binary = rose_apply.format.binary;
	RoseApplyBlame before = rose_apply.blame;
	uint64		applied;

	Assert(!rose_apply.remote.open);
	rose_apply.remote.changes = 0;
	rose_apply.remote.commit_lsn = lsn;
	rose_apply.remote.passing = rose_apply.remote.durable_at_once = rose_apply.remote.cut_needed = false;
	rose_apply.format.binary = false;
	rose_apply.blame.rel = NULL;
	rose_apply.blame.certain = false;
	rose_apply.blame.beside = true;
	rose_apply.blame.command = pq_getmsgbyte(s);
	rose_wire_read_change(rose_apply.blame.command, s->data + s->cursor, s->len - s->cursor, &change);
	apply_change();
	applied = rose_apply.remote.changes;
	rose_apply.blame = before;
	rose_apply.format.binary = binary;
	key_tuple = NULL;
	key_target = NULL;
	return applied == 1 && !rose_apply.remote.durable_at_once && !rose_apply.remote.cut_needed;
}

/* What was kept of the transaction at hand has been applied. */
static void
note_finished(void)
{
	rose_batch_ensure();
	rose_prepared_finish(rose_apply.sub->subid, rose_apply.remote.commit.xid, rose_streamed_end_lsn());
}

RoseApplyResult
rose_apply_replay(void)
{
	StringInfoData s;

	if (rose_streamed_next(&s))
	{
		rose_apply.remote.is_sent |= s.data[0] != LOGICAL_REP_MSG_RELATION;
		return rose_apply_message(&s);
	}

	rose_apply.blame.command = LOGICAL_REP_MSG_STREAM_COMMIT;
	rose_relmap_end_replay();
	if (rose_streamed_is_prepared())
		note_finished();
	end_remote(rose_streamed_end_replay());
	rose_apply.blame.command = 0;
	return ROSE_APPLY_GO_ON;
}
