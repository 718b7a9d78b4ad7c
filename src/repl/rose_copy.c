/*-------------------------------------------------------------------------
 *
 * rose_copy.c
 *	  The initial copy of tables.
 *
 * All tables that wait for their copy are copied in one go: one connection, one
 * snapshot of the upstream (that of a temporary slot's consistent point S), one
 * local transaction, one epoch.  The rows are sorted and bulk-loaded into a
 * component a table, and then their entries into one an index.  So either all of it is there, at position S, or, whatever goes
 * wrong, nothing is left behind and the next try starts anew.
 *
 * The stream then goes on from where it was, and skips a table's changes up to its
 * sync_lsn = S.  If no table was there before, the subscription itself stands at S.
 *
 * Locking: the tables, as for any writing, until the local transaction ends.  Which
 * tables wait for a copy is in rose.subscription_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commands/copy.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "pgstat.h"
#include "replication/walreceiver.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "util/rose_stop_point.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "lsm/read/rose_scan.h"
#include "lsm/write/rose_blind_load.h"
#include "lsm/write/rose_bulkload.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_rights.h"

/* Rows between two reports of progress. */
#define ROSE_COPY_REPORT_ROWS	10000

/* The source that COPY reads from: it takes no argument along. */
static WalReceiverConn *source_conn = NULL;
static StringInfoData source_data;

static int
read_source(void *out, int minread, int maxread)
{
	int			nread = 0;

	while (nread < minread)
	{
		int			available = source_data.len - source_data.cursor;
		pgsocket	fd = PGINVALID_SOCKET;
		char	   *data;
		int			len;

		if (available > 0)
		{
			available = Min(available, maxread - nread);
			memcpy((char *) out + nread, source_data.data + source_data.cursor, available);
			source_data.cursor += available;
			nread += available;
			continue;
		}

		CHECK_FOR_INTERRUPTS();
		len = walrcv_receive(source_conn, &data, &fd);
		if (len < 0)
			break;				/* end of the copy */
		if (len == 0)
		{
			(void) WaitLatchOrSocket(MyLatch,
									 WL_SOCKET_READABLE | WL_LATCH_SET | WL_TIMEOUT |
									 WL_EXIT_ON_PM_DEATH,
									 fd, 1000L, WAIT_EVENT_LOGICAL_SYNC_DATA);
			ResetLatch(MyLatch);
			continue;
		}
		source_data.data = data;
		source_data.len = len;
		source_data.cursor = 0;
	}
	return nread;
}

/* May reading a row run code of the table's owner? */
static bool
rows_have_code(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && rose_rights_type_has_code(att->atttypid))
			return true;
	}
	return false;
}

static bool
next_row(CopyFromState cstate, Oid as_owner, ExprContext *econtext, Datum *values, bool *nulls)
{
	RoseRights	rights;
	bool		more;

	if (!OidIsValid(as_owner))
		return NextCopyFrom(cstate, econtext, values, nulls);
	rose_rights_take(as_owner, &rights);
	more = NextCopyFrom(cstate, econtext, values, nulls);
	rose_rights_give_back(&rights);
	return more;
}

/* The rows that COPY yields go into the load; returns their number. */
static uint64
load_rows(CopyFromState cstate, RoseBulkLoad *load, Relation rel)
{
	int			natts = RelationGetNumberOfAttributes(rel);
	Oid			as_owner = rows_have_code(rel) ? rel->rd_rel->relowner : InvalidOid;
	RoseRules  *rules = rose_rules_create(rel, CurrentMemoryContext);
	EState	   *estate = CreateExecutorState();
	ExprContext *econtext = GetPerTupleExprContext(estate);
	Datum	   *values = palloc(sizeof(Datum) * Max(natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(natts, 1));
	ErrorContextCallback callback = {error_context_stack, CopyFromErrorCallback, cstate};
	uint64		nrows = 0;

	error_context_stack = &callback;
	for (;;)
	{
		MemoryContext old;
		bool		more;

		ResetPerTupleExprContext(estate);
		old = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
		more = next_row(cstate, as_owner, econtext, values, nulls);
		if (more)
		{
			rose_rules_apply(rules, values, nulls);
			rose_bulkload_put(load, values, nulls);
		}
		MemoryContextSwitchTo(old);
		if (!more)
			break;
		rose_apply.progress.copied_rows++;
		if (++nrows % ROSE_COPY_REPORT_ROWS == 0)
			rose_repl_publish(rose_apply.shared, ROSE_REPL_COPYING, &rose_apply.progress);
	}
	error_context_stack = callback.previous;
	rose_rules_free(rules);
	FreeExecutorState(estate);
	return nrows;
}

static void
require_empty(RoseTree *table)
{
	RoseScan   *scan = rose_scan_begin(table, GetActiveSnapshot(), NULL, false);
	bool		empty = rose_scan_next(scan, ForwardScanDirection) == NULL;

	rose_scan_end(scan);
	if (!empty)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot copy into table \"%s\", which is not empty",
						RelationGetRelationName(table->rel)),
				 errhint("TRUNCATE it (the subscription must not feed it meanwhile) or subscribe with copy_data => false.")));
}

/* Level 2 takes a component only if nothing lies above it. */
static int
target_level(RoseTree *table)
{
	return rose_c0_was_empty(&table->shared->c0) && rose_tree_manifest(table)->ncomponents == 0 ? 2 : 0;
}

/* As the table's owner: defaults of columns that are not in the list may be evaluated. */
static CopyFromState
begin_copy(Relation rel, List *column_list)
{
	CopyFromState cstate;
	RoseRights	rights;

	rose_rights_take(rel->rd_rel->relowner, &rights);
	cstate = BeginCopyFrom(NULL, rel, NULL, NULL, false, read_source, column_list, NIL);
	rose_rights_give_back(&rights);
	return cstate;
}

/*
 * What the upstream's table is called now.  One that was made anew under the old name
 * takes its place: here, where all of it is copied, and nowhere else.
 */
static void
find_remote(WalReceiverConn *conn, RoseSubscriptionTable *table)
{
	Oid			subid = rose_apply.sub->subid;
	RoseUpstreamTable found;

	if (!rose_upstream_find_table(conn, rose_apply.sub->publications, &table->remote, &found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the upstream does not publish table \"%s.%s\" any more",
						table->remote.nspname, table->remote.relname),
				 errhint("Publish it, or call rose.alter_subscription with refresh => true.")));
	rose_subscription_set_remote(subid, table->relid, &found);
	if (found.relid != table->remote.relid)
		table->columns = NULL;	/* its numbers mean nothing there */
	table->remote = found;
}

static RoseSubscriptionTable *
require_listed(Relation rel)
{
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (table->relid == RelationGetRelid(rel))
			return table;
	}
	elog(ERROR, "table %u is not part of subscription %u", RelationGetRelid(rel), rose_apply.sub->subid);
}

/*
 * Which columns are copied (their names there and here), but for those that are computed
 * here.  As all rows come anew, columns may have changed in any way; those that are known
 * and still there stay together.
 */
static void
choose_columns(WalReceiverConn *conn, Relation rel, const RoseSubscriptionTable *table,
			   List **remote_names, List **local_names)
{
	RoseUpstreamColumns remote;
	RoseColumnMap *map;
	int16	   *local_of;
	int		   *remote_of = palloc(sizeof(int) * Max(RelationGetNumberOfAttributes(rel), 1));

	rose_upstream_published_columns(conn, rose_apply.sub->publications, &table->remote, &remote);
	local_of = palloc(sizeof(int16) * Max(remote.n, 1));
	rose_columns_match(rel, rose_columns_still_there(rel, table->columns, &remote), &remote, local_of);
	rose_columns_invert(rel, remote.n, local_of, remote_of);
	for (int i = 0; i < remote.n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), local_of[i] - 1);

		if (att->attgenerated)
			continue;
		*remote_names = lappend(*remote_names, remote.names[i]);
		*local_names = lappend(*local_names, makeString(pstrdup(NameStr(att->attname))));
	}
	map = rose_columns_form(NULL, &remote, local_of);
	rose_subscription_set_columns(rose_apply.sub->subid, RelationGetRelid(rel), map);
}

/* Of all rows of the table, which are there by now. */
static void
copy_entries(RoseBlindIndexes *indexes, uint64 epoch)
{
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	rose_blind_load_entries(indexes, GetActiveSnapshot(), rose_apply.sub->subid, epoch);
	PopActiveSnapshot();
	rose_blind_indexes_close(indexes);
}

/* Returns the number of rows. */
static uint64
copy_table(WalReceiverConn *conn, Relation rel, uint64 epoch)
{
	RoseTree   *table = rose_tree_open(rel);
	RoseSubscriptionTable *listed = require_listed(rel);
	uint64		nrows;
	List	   *remote_names = NIL;
	List	   *local_names = NIL;
	CopyFromState cstate;
	RoseBulkLoad *load;
	RoseBlindIndexes *indexes;

	require_empty(table);
	rose_feeding_require_indexes(rel);
	indexes = rose_blind_indexes_open(table, CurrentMemoryContext);
	find_remote(conn, listed);
	ROSE_STOP_POINT("copy-found");
	choose_columns(conn, rel, listed, &remote_names, &local_names);
	rose_upstream_start_copy(conn, rose_apply.sub->publications, &listed->remote, remote_names);

	source_conn = conn;
	memset(&source_data, 0, sizeof(source_data));
	cstate = begin_copy(rel, local_names);
	load = rose_bulkload_begin(table, GetCurrentCommandId(true), false,
							   target_level(table), rose_apply.sub->subid, epoch);
	nrows = load_rows(cstate, load, rel);
	rose_bulkload_finish(load);
	EndCopyFrom(cstate);
	if (indexes != NULL)
		copy_entries(indexes, epoch);
	rose_upstream_check_copied(conn, &listed->remote);
	return nrows;
}

/* ---------------------------------------------------------------------
 * All tables that wait
 */

/* Relids of the tables that wait; *others: there are tables that do not. */
static List *
waiting_tables(bool *others)
{
	List	   *result = NIL;
	ListCell   *lc;

	*others = false;
	foreach(lc, rose_subscription_tables(rose_apply.sub->subid))
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (strcmp(table->state, ROSE_REL_INIT) == 0 ||
			strcmp(table->state, ROSE_REL_COPYING) == 0)
		{
			MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

			result = lappend_oid(result, table->relid);
			MemoryContextSwitchTo(old);
		}
		else
			*others = true;
	}
	return result;
}

static void
mark_tables(List *relids, const char *state, XLogRecPtr sync_lsn)
{
	ListCell   *lc;

	foreach(lc, relids)
		rose_subscription_set_table(rose_apply.sub->subid, lfirst_oid(lc), state, sync_lsn,
									NULL, NULL, InvalidXLogRecPtr);
}

static void
begin_local(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit_local(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(rose_apply.message_context);
}

static void
copy_and_commit(WalReceiverConn *conn, List *relids, bool others)
{
	uint64		epoch = rose_apply.progress.epoch + 1;
	XLogRecPtr	durable_lsn = rose_apply.progress.durable_lsn;
	XLogRecPtr	sync_lsn;
	char		slot[NAMEDATALEN];
	RoseReplTableCounts *counts = MemoryContextAllocZero(TopMemoryContext,
														 sizeof(*counts) * list_length(relids));
	int			n = 0;
	ListCell   *lc;

	snprintf(slot, sizeof(slot), "rose_%u_sync_" UINT64_FORMAT, rose_apply.sub->subid,
			 GetSystemIdentifier());
	begin_local();
	rose_upstream_begin_copy(conn, slot, &sync_lsn);
	foreach(lc, relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), RowExclusiveLock);

		if (rel == NULL)
			continue;			/* dropped meanwhile: said at its first change */
		rose_apply.blame.copying = RelationGetRelid(rel);
		ereport(LOG,
				(errmsg("rose subscription \"%s\" copies table \"%s\"",
						rose_apply.sub->name, RelationGetRelationName(rel))));
		counts[n].relid = RelationGetRelid(rel);
		counts[n++].copied = copy_table(conn, rel, epoch);
		table_close(rel, NoLock);
		rose_apply.blame.copying = InvalidOid;
	}
	rose_upstream_command(conn, "COMMIT");

	if (!others)
		durable_lsn = sync_lsn;
	mark_tables(relids, ROSE_REL_READY, sync_lsn);
	rose_epoch_record(epoch, durable_lsn, &rose_apply.progress.last_commit);
	for (int i = 0; i < n; i++)
		rose_repl_stats_count(counts[i].relid, counts[i].copied, 0, 0);
	commit_local();
	rose_repl_stats_report(false);

	if (!others)
		rose_apply.progress.applied_lsn = durable_lsn;
	rose_epoch_publish_tables(epoch);
	rose_epoch_recorded(epoch, durable_lsn);
	while (n > 0)
		rose_repl_add_table_counts(rose_apply.sub->subid, &counts[--n]);
	pfree(counts);
}

void
rose_copy_tables(void)
{
	WalReceiverConn *conn;
	List	   *relids;
	bool		others;

	begin_local();
	relids = waiting_tables(&others);
	mark_tables(relids, ROSE_REL_COPYING, InvalidXLogRecPtr);
	commit_local();
	if (relids == NIL)
		return;

	/* The copy's epoch must not take anything along that was applied before. */
	rose_epoch_commit();
	rose_repl_publish(rose_apply.shared, ROSE_REPL_COPYING, &rose_apply.progress);

	conn = rose_upstream_connect(rose_apply.sub->conninfo, rose_apply.sub->name);
	(void) rose_upstream_identity_check(conn, false);
	copy_and_commit(conn, relids, others);
	rose_upstream_disconnect(conn);
	list_free(relids);
}
