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
 * with all its indexes or not at all, and never by queueing.  A table that somebody has
 * locked holds an epoch up only if it has rows that are to be written for it; whatever else is to be
 * done with it is done later.
 * When an epoch is due is rose_stream.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
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
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

/* While the upstream waits for one, epochs come no more often than this. */
#define ROSE_EPOCH_AWAITED_MS	1000

/* A table with more components gets no runs just because time has passed. */
#define ROSE_EPOCH_MANY_COMPONENTS	(ROSE_MAX_COMPONENTS * 2 / 3)

/* Tables that somebody has locked are published, and fed, later: another try after so long. */
#define ROSE_EPOCH_CATCH_UP_MS	1000

static List *unpublished = NIL; /* in TopMemoryContext */
static List *unfed = NIL;		/* in TopMemoryContext */
static TimestampTz caught_up = 0;

/* Partitions that were detached may have to be let go: those that an earlier worker left, for one. */
static bool strays_doubtful = true;
static TimestampTz strays_looked = 0;

static uint64 applied_before = 0;	/* bytes applied before the last epoch */

typedef void (*TableCallback) (RoseTree *table, uint64 epoch);

/* In the message context. */
static List *
list_by(List *(*list) (Oid subid))
{
	List	   *result;

	StartTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	result = list(rose_apply.sub->subid);
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return result;
}

/* The subscription's tables, and partitions of them. */
static List *
list_tables(void)
{
	return list_by(rose_partitions_tables);
}

/* All that it feeds: partitions that were detached, too. */
static List *
list_fed(void)
{
	return list_by(rose_partitions_with_strays);
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
 * A table and its indexes, locked for reading all together; *rel is NULL if it is not (any
 * more) a rose table.  Or none of them, and the one that somebody has locked is returned.
 *
 * REINDEX has an index locked when it finds that it needs the whole table (rose_rekey.c).
 * So whoever waited for the index with a lock of the table in hand would wait for one who
 * waits for him, and of one who does not queue, the server would not even know.
 */
static Oid
try_lock_with_indexes(Oid relid, Relation *rel, List **indexes)
{
	Oid			busy;

	*rel = NULL;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return relid;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
	{
		UnlockRelationOid(relid, AccessShareLock);
		return InvalidOid;
	}
	*rel = relation_open(relid, NoLock);
	if (!is_rose_table(*rel))
	{
		relation_close(*rel, AccessShareLock);
		*rel = NULL;
		return InvalidOid;
	}
	*indexes = RelationGetIndexList(*rel);
	busy = try_lock_indexes(*indexes);
	if (OidIsValid(busy))
	{
		list_free(*indexes);
		relation_close(*rel, AccessShareLock);
		*rel = NULL;
	}
	return busy;
}

/* Call back if it is (still) a rose table, and for its indexes; or return the one that somebody has locked. */
static Oid
visit_table(Oid relid, TableCallback callback, uint64 epoch)
{
	List	   *indexes;
	ListCell   *lc;
	Relation	rel;
	Oid			busy = try_lock_with_indexes(relid, &rel, &indexes);

	if (rel == NULL)
		return busy;
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
	return InvalidOid;
}

/* Tables that somebody has locked, and which relation of each that is. */
typedef struct LockedTables
{
	List	   *relids;
	List	   *busy;
} LockedTables;

/*
 * Every table, with its indexes, in a transaction of its own, so that locks and pins of many
 * tables are not held together; and the upstream hears from us in between.  Those that
 * somebody has locked are passed over.
 */
static LockedTables
visit_tables(const List *relids, TableCallback callback, uint64 epoch)
{
	LockedTables locked = {NIL, NIL};
	ListCell   *lc;

	foreach(lc, relids)
	{
		Oid			busy;

		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		busy = visit_table(lfirst_oid(lc), callback, epoch);
		PopActiveSnapshot();
		CommitTransactionCommand();
		MemoryContextSwitchTo(rose_apply.message_context);
		if (OidIsValid(busy))
		{
			locked.relids = lappend_oid(locked.relids, lfirst_oid(lc));
			locked.busy = lappend_oid(locked.busy, busy);
		}
		rose_apply_keep_alive();
		CHECK_FOR_INTERRUPTS();
	}
	return locked;
}

/* The relation whose lock keeps one of the needed ones, which may be indexes, from being visited. */
static Oid
find_busy(const LockedTables *locked, const List *needed)
{
	Oid			busy = InvalidOid;
	ListCell   *lc;

	StartTransactionCommand();
	foreach(lc, needed)
	{
		Oid			relid = lfirst_oid(lc);
		ListCell   *lt;

		if (get_rel_relkind(relid) == RELKIND_INDEX)
			relid = IndexGetRelation(relid, true);
		foreach(lt, locked->relids)
		{
			if (lfirst_oid(lt) == relid)
				busy = list_nth_oid(locked->busy, foreach_current_index(lt));
		}
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	/* who had opened a file last may be outdated */
	return OidIsValid(busy) ? busy : linitial_oid(locked->busy);
}

/*
 * Visit all tables.  Of those that somebody has locked only such are waited for in which
 * something is left to be done for this epoch: idle ones hold up nobody.  False: another process is to go on with
 * that.
 */
static bool
visit_as_needed(TableCallback callback, List *(*left) (uint64 epoch), uint64 epoch)
{
	LockedTables locked = visit_tables(list_fed(), callback, epoch);
	bool		waited = false;
	List	   *needed;

	while (locked.relids != NIL && (needed = left(epoch)) != NIL)
	{
		LockedTables before = locked;

		if (!rose_flight_wait_for_lock(find_busy(&locked, needed)))
			return false;
		waited = true;
		locked = visit_tables(before.relids, callback, epoch);
		list_free(before.relids);
		list_free(before.busy);
		list_free(needed);
	}
	if (waited)
		(void) rose_flight_wait_for_lock(InvalidOid);
	return true;
}

/* Visit these tables; *later: those that somebody has locked, to be visited when they are not. */
static void
visit_or_later(List **later, List *relids, TableCallback callback, uint64 epoch)
{
	LockedTables locked = visit_tables(relids, callback, epoch);
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	list_free(*later);
	*later = list_copy(locked.relids);
	MemoryContextSwitchTo(old);
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
	if (rose_relation_is_index(table->rel))
		return;
	if (table->rel->rd_rel->relispartition || !rose_owner_may_have(rose_apply.sub, RelationGetRelid(table->rel)))
		rose_feeding_try(table->rel, rose_apply.sub->subid);
	else
		rose_repl_feed(table->rel, rose_apply.sub->subid);
}

static void
recover_table(RoseTree *table, uint64 epoch)
{
	if (epoch > 0)
		publish_table(table, epoch);
	feed_table(table, epoch);
}

/*
 * Tables may have got new files (ALTER TABLE), which do not know who feeds them.  Before
 * one is written to that is seen to in any case.
 */
void
rose_epoch_feed_tables(void)
{
	visit_or_later(&unfed, list_tables(), feed_table, 0);
}

/* Does the open batch have rows of the table, or may it? */
static bool
is_locked_by_batch(Oid relid)
{
	return rose_relation_oid_is_locked(relid, RowExclusiveLock, true) ||
		rose_relation_oid_is_locked(relid, AccessExclusiveLock, false);
}

/* In the open batch: its rows become runs of this epoch, to be committed with it. */
void
rose_epoch_spill_batch(uint64 epoch)
{
	ListCell   *lc;

	Assert(rose_apply.batch.open);
	foreach(lc, rose_partitions_tables(rose_apply.sub->subid))
	{
		Oid			relid = lfirst_oid(lc);
		Oid			busy;

		if (!is_locked_by_batch(relid))
			continue;
		/* an index that was made meanwhile, if anything */
		while (OidIsValid(busy = visit_table(relid, spill_own_rows, epoch)))
			rose_repl_lock_table(busy, AccessShareLock);
	}
}

void
rose_epoch_publish_tables(uint64 epoch)
{
	visit_or_later(&unpublished, list_fed(), publish_table, epoch);
}

/*
 * Readers of a table that is not published use its memtables, so that may wait.  Its runs
 * are those of a committed epoch, whoever else comes to publish them: the next epoch, the
 * next worker, or recovery.
 */
void
rose_epoch_catch_up(TimestampTz now)
{
	uint64		epoch = rose_apply.progress.epoch;

	if (unpublished == NIL && unfed == NIL && !rose_apply.epochs.unpublished)
		return;
	if (!rose_apply.epochs.unpublished && !TimestampDifferenceExceeds(caught_up, now, ROSE_EPOCH_CATCH_UP_MS))
		return;
	caught_up = now;
	if (rose_apply.epochs.unpublished)
		rose_epoch_publish_tables(epoch);
	else if (unpublished != NIL)
		visit_or_later(&unpublished, unpublished, publish_table, epoch);
	rose_apply.epochs.unpublished = false;
	if (unfed != NIL)
		visit_or_later(&unfed, unfed, feed_table, 0);
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
	uint64		epoch = rose_apply.progress.epoch;

	if (rose_apply.sub->logged)
	{
		visit_or_later(&unfed, list_tables(), feed_table, 0);
		return;
	}
	visit_or_later(&unfed, list_tables(), recover_table, epoch);
	if (epoch > 0)
		(void) visit_tables(list_by(rose_partitions_strays), publish_table, epoch);
	if (epoch > 0 && unfed != NIL)
		visit_or_later(&unpublished, unfed, publish_table, epoch);
	rose_make_room_set_epoch(rose_apply.sub->subid, epoch + 1);
}

/*
 * Memory fills up: the batch should end and an epoch free what it can.  While one
 * is in flight, another has to wait.
 */
bool
rose_epoch_memory_is_due(void)
{
	return rose_apply.epochs.flight == 0 && !rose_apply.sub->logged &&
		rose_pressure_reached(ROSE_MARK_EPOCH) &&
		rose_apply.epochs.applied_bytes - applied_before >
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
	if (rose_apply.sub->logged)
		return rose_apply.epochs.dirty && rose_apply.epochs.awaited;
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
rose_epoch_note_row(XLogRecPtr lsn)
{
	rose_apply.epochs.row_lsn = rose_apply.epochs.recorded_lsn = lsn;
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
	rose_epoch_note_row(rose_apply.progress.durable_lsn);
}

/* The next epoch is this one plus one, and has what is applied from now on. */
static void
begin_next(uint64 epoch)
{
	rose_apply.epochs.dirty = false;
	rose_apply.epochs.awaited = false;
	rose_apply.epochs.last = GetCurrentTimestamp();
	applied_before = rose_apply.epochs.applied_bytes;
	rose_make_room_set_epoch(rose_apply.sub->subid, epoch + 1);
}

void
rose_epoch_landed(uint64 epoch, XLogRecPtr lsn)
{
	rose_apply.progress.epoch = epoch;
	rose_apply.progress.durable_lsn = lsn;
	rose_epoch_note_row(lsn);
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
	if (!rose_epoch_memory_is_due() && !rose_apply.sub->logged)
		(void) visit_tables(list_tables(), look_whether_crowded, 0);
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

/* Some table could not freeze all that it has; which one is not known. */
static List *
stuck_tables(uint64 epoch)
{
	uint64		nbytes;

	return rose_epoch_freeze(rose_apply.sub->subid, epoch, &nbytes) ? NIL :
		list_make1_oid(InvalidOid);
}

static List *
unspilled_tables(uint64 epoch)
{
	return rose_epoch_unspilled(rose_apply.sub->subid, epoch);
}

/* All that is applied is in the tail log: that takes the place of an epoch. */
static void
flush(void)
{
	rose_logged_flush();
	rose_apply.progress.durable_lsn = Max(rose_apply.progress.durable_lsn, rose_apply.progress.applied_lsn);
	rose_apply.epochs.awaited = false;
	rose_apply.epochs.last = GetCurrentTimestamp();
}

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
	if (rose_apply.sub->logged)
	{
		flush();
		return;
	}
	if (!rose_epoch_freeze(rose_apply.sub->subid, epoch, &frozen_bytes))
		(void) visit_as_needed(spill_stuck_table, stuck_tables, epoch);
	ROSE_STOP_POINT("epoch-frozen");
	begin_next(epoch);
	rose_flight_begin(epoch, lsn, may_be_beside &&
					  frozen_bytes >= (uint64) rose_background_spill_size * 1024, may_be_beside);
	(void) rose_flight_poll();
}

void
rose_epoch_begin(void)
{
	begin_epoch(true);
}

bool
rose_epoch_write(uint64 epoch, XLogRecPtr lsn, const RoseUpstreamCommit *last_commit, bool *published)
{
	if (!visit_as_needed(spill_table, unspilled_tables, epoch))
		return false;
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
	*published = unpublished == NIL;
	return true;
}

void
rose_epoch_commit(void)
{
	(void) rose_flight_wait();
	begin_epoch(false);
	Assert(rose_apply.epochs.flight == 0);
}

/* ---------------------------------------------------------------------
 * Partitions that were detached
 */

/* False: somebody has it locked. */
static bool
let_go(Oid relid)
{
	bool		locked;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	locked = ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock);
	if (locked)
	{
		rose_repl_unfeed(relid, rose_apply.sub->subid);
		ereport(LOG,
				(errmsg("rose subscription \"%s\" has let go of table \"%s\", which is no partition of its tables any more",
						rose_apply.sub->name, get_rel_name(relid))));
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
	return locked;
}

void
rose_epoch_doubt_strays(void)
{
	strays_doubtful = true;
	strays_looked = 0;
}

/* They may have rows that no epoch covers. */
void
rose_epoch_let_go(TimestampTz now)
{
	List	   *strays;
	ListCell   *lc;

	if (!strays_doubtful || !TimestampDifferenceExceeds(strays_looked, now, ROSE_EPOCH_CATCH_UP_MS))
		return;
	strays_looked = now;
	strays_doubtful = false;
	strays = list_by(rose_partitions_strays);
	if (strays == NIL)
		return;
	rose_epoch_commit();
	foreach(lc, strays)
		strays_doubtful |= !let_go(lfirst_oid(lc));
}
