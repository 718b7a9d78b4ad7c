/*-------------------------------------------------------------------------
 *
 * rose_epoch.c
 *	  Epochs: making what was applied durable, for all tables at one position.
 *
 * An epoch freezes the memtables of all tables of the subscription, writes them to runs
 * that carry its number, then commits, in an ordinary transaction and with a flush, the
 * row that says "epoch E stands for upstream position P", then publishes the runs.  All
 * but the freezing may be done beside the apply worker, by the spiller: see
 * rose_flight.c.  Runs of an epoch that has no committed row are discarded when a table
 * recovers, so that after a crash all tables stand at P, and the upstream, which was told
 * to keep everything after P, sends the rest again.
 *
 * The numbers go up by one.  Only the worker of the subscription begins epochs, and
 * never while a batch is open.
 *
 * Locking: tables as usual for who freezes and spills (lsm/merge/rose_epoch_runs.h), each
 * with all its indexes or not at all.
 * When an epoch is due is rose_stream.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/write/rose_make_room.h"
#include "repl/rose_repl_internal.h"

/* While the upstream waits for one, epochs come no more often than this. */
#define ROSE_EPOCH_AWAITED_MS	1000

/* A table with more components gets no runs just because time has passed. */
#define ROSE_EPOCH_MANY_COMPONENTS	(ROSE_MAX_COMPONENTS * 2 / 3)

static uint64 received_before = 0;	/* bytes received before the last epoch */

typedef void (*TableCallback) (RoseTree *table, uint64 epoch);

/* The subscription's tables, in the message context. */
static List *
list_tables(void)
{
	List	   *result = NIL;
	ListCell   *lc;
	MemoryContext old;

	StartTransactionCommand();
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		old = MemoryContextSwitchTo(rose_apply.message_context);
		result = lappend_oid(result, table->relid);
		MemoryContextSwitchTo(old);
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return result;
}

static bool
is_rose_table(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_rel->relam == get_table_am_oid("rose", false);
}

/* All of them, and InvalidOid; or none, and one that somebody else has locked. */
static Oid
try_lock_indexes(List *indexes)
{
	ListCell   *lc;

	foreach(lc, indexes)
	{
		if (ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			continue;
		for (int i = 0; i < foreach_current_index(lc); i++)
			UnlockRelationOid(list_nth_oid(indexes, i), AccessShareLock);
		return lfirst_oid(lc);
	}
	return InvalidOid;
}

/*
 * A table and its indexes, locked for reading all together; NULL if it is not (any more) a
 * rose table.
 *
 * REINDEX has an index locked when it finds that it needs the whole table (rose_rekey.c).
 * So whoever waited for the index with a lock of the table in hand would wait for one who
 * waits for him, and of a spiller, which never queues, the server would not even know.
 */
static Relation
lock_with_indexes(Oid relid, List **indexes)
{
	for (;;)
	{
		Relation	rel;
		Oid			busy;

		CHECK_FOR_INTERRUPTS();
		rose_flight_lock_relation(relid);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		{
			UnlockRelationOid(relid, AccessShareLock);
			return NULL;
		}
		rel = relation_open(relid, NoLock);
		if (!is_rose_table(rel))
		{
			relation_close(rel, AccessShareLock);
			return NULL;
		}
		*indexes = RelationGetIndexList(rel);
		busy = try_lock_indexes(*indexes);
		if (!OidIsValid(busy))
			return rel;
		list_free(*indexes);
		relation_close(rel, AccessShareLock);
		rose_flight_lock_relation(busy);
		UnlockRelationOid(busy, AccessShareLock);
	}
}

/* Call back if it is (still) a rose table, and for its indexes. */
static void
visit_table(Oid relid, TableCallback callback, uint64 epoch)
{
	List	   *indexes;
	ListCell   *lc;
	Relation	rel = lock_with_indexes(relid, &indexes);

	if (rel == NULL)
		return;
	callback(rose_tree_open_any_order(rel), epoch);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), NoLock);

		CHECK_FOR_INTERRUPTS();
		if (rose_relation_has_tree(index))
			callback(rose_tree_open_any_order(index), epoch);
		index_close(index, NoLock);
	}
	list_free(indexes);
	relation_close(rel, NoLock);
}

/*
 * Every table, with its indexes, in a transaction of its own, so that locks and pins of many
 * tables are not held together; and the upstream hears from us in between.
 */
static void
for_each_table(TableCallback callback, uint64 epoch)
{
	List	   *tables = list_tables();
	ListCell   *lc;

	foreach(lc, tables)
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		visit_table(lfirst_oid(lc), callback, epoch);
		PopActiveSnapshot();
		CommitTransactionCommand();
		MemoryContextSwitchTo(rose_apply.message_context);
		rose_apply_keep_alive();
	}
	list_free(tables);
}

/* One that has no slot for a new memtable, because spills have failed: all of it. */
static void
spill_stuck_table(RoseTree *table, uint64 epoch)
{
	rose_spill(table, rose_apply.sub->subid, epoch);
}

static void
spill_table(RoseTree *table, uint64 epoch)
{
	rose_epoch_spill(table, rose_apply.sub->subid, epoch);
}

static void
spill_own_rows(RoseTree *table, uint64 epoch)
{
	rose_spill_own(table, rose_apply.sub->subid, epoch);
}

static void
publish_table(RoseTree *table, uint64 epoch)
{
	rose_epoch_publish(table, rose_apply.sub->subid, epoch);
}

/* Its indexes go with the table. */
static void
feed_table(RoseTree *table, uint64 epoch)
{
	if (!rose_relation_is_index(table->rel))
		rose_repl_feed(table->rel, rose_apply.sub->subid);
}

static void
recover_table(RoseTree *table, uint64 epoch)
{
	if (epoch > 0)
		publish_table(table, epoch);
	feed_table(table, epoch);
}

/* Tables may have got new files (ALTER TABLE), which do not know who feeds them. */
void
rose_epoch_feed_tables(void)
{
	for_each_table(feed_table, 0);
}

/* In the open batch: its rows become runs of this epoch, to be committed with it. */
void
rose_epoch_spill_batch(uint64 epoch)
{
	ListCell   *lc;

	Assert(rose_apply.batch.open);
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
		visit_table(((RoseSubscriptionTable *) lfirst(lc))->relid, spill_own_rows, epoch);
}

void
rose_epoch_publish_tables(uint64 epoch)
{
	for_each_table(publish_table, epoch);
}

/*
 * A worker that ended after the commit of an epoch, while the server lived on, left runs
 * to be published.  Pending runs of the epoch that it had not committed stay: the next
 * attempt at that epoch has the same number, stands for a later position and takes them
 * along; private runs among them may be the only copy of rows that are visible.  After a
 * crash, the recovery of each table has done all this, and dropped the pending runs.
 */
void
rose_epoch_recover(void)
{
	for_each_table(recover_table, rose_apply.progress.epoch);
	rose_make_room_set_epoch(rose_apply.sub->subid, rose_apply.progress.epoch + 1);
}

/*
 * Memory fills up: the batch should end and an epoch free what it can.  While one
 * is in flight, another has to wait.
 */
bool
rose_epoch_memory_is_due(void)
{
	return rose_apply.epochs.flight == 0 &&
		rose_pressure_reached(ROSE_MARK_EPOCH) &&
		rose_apply.progress.received_bytes - received_before >
		rose_pressure_share(ROSE_SHARE_OWN_EPOCH);
}

/*
 * A server that shuts down waits until those who stream from it have confirmed all that they
 * got, and asks them again and again.  It must not wait for rose.spill_interval.
 */
void
rose_epoch_upstream_asks(TimestampTz now)
{
	if (rose_apply.epochs.dirty &&
		TimestampDifferenceExceeds(rose_apply.epochs.last, now, ROSE_EPOCH_AWAITED_MS))
		rose_apply.epochs.awaited = true;
}

bool
rose_epoch_is_due(TimestampTz now)
{
	return rose_apply.epochs.dirty && rose_apply.epochs.flight == 0 &&
		(rose_apply.epochs.awaited ||
		 TimestampDifferenceExceeds(rose_apply.epochs.last, now, rose_spill_interval) ||
		 rose_epoch_memory_is_due());
}

void
rose_epoch_record(uint64 epoch, XLogRecPtr lsn, const RoseUpstreamCommit *last_commit)
{
	rose_subscription_set_state(rose_apply.sub->subid, epoch, lsn, last_commit);
	ForceSyncCommit();
}

void
rose_epoch_record_idle(void)
{
	Assert(!rose_apply.batch.open && !rose_apply.epochs.dirty && rose_apply.epochs.flight == 0);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rose_epoch_record(rose_apply.progress.epoch, rose_apply.progress.durable_lsn,
					  &rose_apply.progress.last_commit);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	rose_apply.epochs.recorded_lsn = rose_apply.progress.durable_lsn;
}

/* The next epoch is this one plus one, and has what is applied from now on. */
static void
begin_next(uint64 epoch)
{
	rose_apply.epochs.dirty = false;
	rose_apply.epochs.awaited = false;
	rose_apply.epochs.last = GetCurrentTimestamp();
	received_before = rose_apply.progress.received_bytes;
	rose_make_room_set_epoch(rose_apply.sub->subid, epoch + 1);
}

void
rose_epoch_landed(uint64 epoch, XLogRecPtr lsn)
{
	rose_apply.progress.epoch = epoch;
	rose_apply.progress.durable_lsn = lsn;
	rose_apply.epochs.recorded_lsn = lsn;
	rose_apply.progress.epochs++;
	rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);
}

void
rose_epoch_recorded(uint64 epoch, XLogRecPtr lsn)
{
	begin_next(epoch);
	rose_epoch_landed(epoch, lsn);
}

/*
 * Tables with so many components that another run should wait for merges.  Memory that
 * fills up does not wait: then the spill succeeds or fails.
 */
static bool crowded;

static void
look_whether_crowded(RoseTree *table, uint64 epoch)
{
	if (rose_tree_manifest(table)->ncomponents >= ROSE_EPOCH_MANY_COMPONENTS)
		crowded = true;
}

/* For an epoch that is due by time: put it off if merges do not keep up. */
void
rose_epoch_begin_in_time(void)
{
	crowded = false;
	if (!rose_epoch_memory_is_due())
		for_each_table(look_whether_crowded, 0);
	if (!crowded)
		rose_epoch_begin();
	else
	{
		rose_apply.epochs.awaited = false;
		rose_apply.epochs.last = GetCurrentTimestamp();
	}
}

/* ---------------------------------------------------------------------
 * From boundary to landing
 */

/*
 * An error while memtables are frozen does no harm: they are part of the next
 * attempt at this epoch, whatever position that is for.
 */
static void
begin_epoch(bool may_be_beside)
{
	uint64		epoch = rose_apply.progress.epoch + 1;
	XLogRecPtr	lsn = rose_apply.progress.applied_lsn;
	uint64		frozen_bytes;

	Assert(!rose_apply.batch.open && rose_apply.epochs.flight == 0);
	if (!rose_apply.epochs.dirty)
		return;
	if (!rose_epoch_freeze(rose_apply.sub->subid, epoch, &frozen_bytes))
		for_each_table(spill_stuck_table, epoch);
	ROSE_STOP_POINT("epoch-frozen");
	begin_next(epoch);
	rose_flight_begin(epoch, lsn, may_be_beside &&
					  frozen_bytes >= (uint64) rose_background_spill_size * 1024);
	(void) rose_flight_poll();
}

void
rose_epoch_begin(void)
{
	begin_epoch(true);
}

void
rose_epoch_write(uint64 epoch, XLogRecPtr lsn, const RoseUpstreamCommit *last_commit)
{
	for_each_table(spill_table, epoch);
	ROSE_STOP_POINT("epoch-spilled");

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* who wrote it before may have got further than this */
	if (!rose_subscription_epoch_committed(rose_apply.sub->subid, epoch))
		rose_epoch_record(epoch, lsn, last_commit);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	ROSE_STOP_POINT("epoch-committed");

	rose_epoch_publish_tables(epoch);
}

void
rose_epoch_commit(void)
{
	(void) rose_flight_wait();
	begin_epoch(false);
	Assert(rose_apply.epochs.flight == 0);
}
