/*-------------------------------------------------------------------------
 *
 * rose_copy.c
 *	  The copy of one table.
 *
 * Its rows are read in a snapshot of the upstream, that of a temporary slot's consistent
 * point, sorted, and bulk-loaded into a component, and then their entries into one an
 * index.  All that is of one local transaction, and as durable as its commit: so
 * either all of it is there, or, whatever goes wrong, nothing is left behind.
 *
 * COPY takes the upstream's table and its columns by name; once it has the rows, and with
 * them a lock on whichever table had the name, the names must still be those of the
 * table's oid and the columns' numbers.
 *
 * Rows of a partitioned table are sorted and loaded for each partition by itself, all in the one
 * transaction.
 *
 * Locking: the table, as for any writing, until the local transaction ends; the caller has it.
 * Which process does this, and when, is not said here (rose_copy_worker.c, rose_copies.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
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
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_scan.h"
#include "lsm/write/rose_blind_load.h"
#include "lsm/write/rose_bulkload.h"
#include "repl/rose_constants.h"
#include "repl/rose_old_rows.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_replace.h"
#include "repl/rose_rights.h"

/* Rows, or bytes, between two reports of progress. */
#define ROSE_COPY_REPORT_ROWS	256
#define ROSE_COPY_REPORT_BYTES	(64 * 1024)

/* The source that COPY reads from: it takes no argument along. */
static WalReceiverConn *source_conn = NULL;
static StringInfoData source_data;
static uint64 source_bytes = 0; /* read so far */

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
			rose_apply.copies.breathe();
			continue;
		}
		source_data.data = data;
		source_data.len = len;
		source_bytes += len;
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

/* ---------------------------------------------------------------------
 * What takes the rows: the table, or partitions of it
 */

/* Sorting needs that much in any case. */
#define ROSE_COPY_MIN_MEMORY_KB	64

typedef struct CopyTarget
{
	const RoseRoutePart *part;	/* NULL: it is the table itself */
	Oid			relid;
	RoseReplacement *replacement;	/* NULL: the rows go into the table, or the relation made for pieces */
	RoseTree   *table;			/* where they go */
	RoseRules  *rules;
	RoseBlindIndexes *indexes;	/* or NULL: it has none */
	RoseBulkLoad *load;
	Datum	   *values;			/* a row in its own columns; NULL: they are the table's */
	bool	   *nulls;
} CopyTarget;

typedef struct CopyTargets
{
	MemoryContext context;
	int			memory_kb;		/* for each */
	bool		replace;		/* old rows make room for the new ones, at the end */
	Relation	made;			/* takes a piece; or NULL */
	RoseRoute  *route;			/* NULL: the table is not partitioned, and the only one */
	List	   *tables;			/* OIDs: the table, and its partitions when it began */
	List	   *all;			/* CopyTarget */
} CopyTargets;

/* Level 2 takes a component only if nothing lies above it. */
static int
target_level(RoseTree *table)
{
	return rose_c0_was_empty(&table->shared->c0) && rose_tree_manifest(table)->ncomponents == 0 ? 2 : 0;
}

/*
 * Nobody else writes to a table that is fed; one that is not yet will be, and is copied
 * then.  To one in another order nobody writes at all.
 */
static void
require_recorded(Relation rel)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);

	if (!tree->shared->other_order && !rose_feed_is_recorded(tree, rose_apply.sub->subid, rose_apply.sub->logged))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" is not the subscription's to write to yet",
						RelationGetRelationName(rel)),
				 errdetail("Somebody had it locked, or it has got a new file.  It will be tried again.")));
}

static void
require_fed(Relation rel)
{
	require_recorded(rel);
	/* who has begun to write to it when it was nobody's; from now on nobody begins */
	if (rose_apply.sub->logged && !rose_tree_open_any_order(rel)->shared->other_order)
		rose_local_writes_await(RelationGetRelid(rel));
}

static CopyTarget *
open_target(CopyTargets *targets, Relation rel, const RoseRoutePart *part)
{
	MemoryContext old = MemoryContextSwitchTo(targets->context);
	CopyTarget *target = palloc0(sizeof(CopyTarget));

	rose_target_tables_require(rel);
	rose_owner_require_table(rose_apply.sub, rel, ACL_INSERT);
	if (targets->replace)
		rose_owner_require_table(rose_apply.sub, rel, ACL_TRUNCATE);
	target->part = part;
	target->relid = RelationGetRelid(rel);
	if (targets->replace)
		target->replacement = rose_replace_begin(rel);
	target->table = rose_tree_open(targets->replace ? target->replacement->made : targets->made != NULL ? targets->made : rel);
	if (!targets->replace && targets->made == NULL)
		require_fed(rel);
	target->rules = rose_rules_create(rel, CurrentMemoryContext);
	if (part != NULL && part->in_bounds)
		rose_rules_trust_bounds(target->rules);
	/* those of the old rows are built anew */
	if (!targets->replace && targets->made == NULL)
		target->indexes = rose_blind_indexes_open(target->table, CurrentMemoryContext);
	/* pieces come in any order, several at a time */
	target->load = rose_bulkload_begin(target->table, GetCurrentCommandId(true), false,
									   targets->made != NULL ? 0 : target_level(target->table), InvalidOid, 0,
									   targets->memory_kb);
	if (part != NULL && part->from != NULL)
	{
		target->values = palloc(sizeof(Datum) * Max(part->natts, 1));
		target->nulls = palloc(sizeof(bool) * Max(part->natts, 1));
	}
	targets->all = lappend(targets->all, target);
	MemoryContextSwitchTo(old);
	return target;
}

static void
lock_partition(Oid relid)
{
	rose_copy_places_lock(relid, RowExclusiveLock);
	if (rose_subscription_find_table(rose_subscription_tables(rose_apply.sub->subid), relid) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot copy into partition \"%s\", which has the rows of another table of the upstream",
						get_rel_name(relid))));
}

/* All of them, for those that get no rows are emptied. */
static void
lock_partitions(const List *tables)
{
	ListCell   *lc;

	for_each_from(lc, tables, 1)
		lock_partition(lfirst_oid(lc));
}

static void
begin_targets(CopyTargets *targets, Relation rel, bool replace, Relation made)
{
	memset(targets, 0, sizeof(*targets));
	targets->context = CurrentMemoryContext;
	targets->replace = replace;
	targets->made = made;
	targets->tables = rose_target_tables_of(RelationGetRelid(rel));
	targets->memory_kb = Max(maintenance_work_mem / list_length(targets->tables), ROSE_COPY_MIN_MEMORY_KB);
	if (replace)
		lock_partitions(targets->tables);
	if (rose_target_tables_has_rows(rel))
		(void) open_target(targets, rel, NULL);
	else
		targets->route = rose_route_create(rel, lock_partition, targets->context);
}

static CopyTarget *
find_target(CopyTargets *targets, const Datum *values, const bool *nulls)
{
	RoseRoutePart *part;

	if (targets->route == NULL)
		return linitial(targets->all);
	part = rose_route_find(targets->route, values, nulls, NULL, NULL);
	if (part->owner == NULL)
		part->owner = open_target(targets, part->rel, part);
	return part->owner;
}

static void
put_row(CopyTargets *targets, Datum *values, bool *nulls)
{
	CopyTarget *target = find_target(targets, values, nulls);

	if (target->values != NULL)
	{
		rose_route_convert(target->part, values, nulls, target->values, target->nulls);
		values = target->values;
		nulls = target->nulls;
	}
	rose_rules_apply(target->rules, values, nulls);
	rose_bulkload_put(target->load, values, nulls);
}

/* The sorted rows are written. */
static void
finish_loads(CopyTargets *targets)
{
	ListCell   *lc;

	foreach(lc, targets->all)
	{
		CopyTarget *target = lfirst(lc);

		rose_repl_stats_keep(target->relid, rose_bulkload_finish(target->load), 0, 0);
		rose_rules_free(target->rules);
	}
}

/* Of all rows of a table, which are there by now. */
static void
copy_entries(RoseBlindIndexes *indexes)
{
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	rose_blind_load_entries(indexes, GetActiveSnapshot());
	PopActiveSnapshot();
	rose_blind_indexes_close(indexes);
}

static void
end_targets(CopyTargets *targets, uint64 nrows)
{
	ListCell   *lc;

	foreach(lc, targets->all)
	{
		CopyTarget *target = lfirst(lc);

		if (target->indexes == NULL)
			continue;
		rose_copy_places_tell(ROSE_COPY_INDEXES, nrows, source_bytes);
		copy_entries(target->indexes);
	}
	if (targets->route != NULL)
		rose_route_free(targets->route);
}

static bool
is_target(const CopyTargets *targets, Oid relid)
{
	ListCell   *lc;

	foreach(lc, targets->all)
	{
		if (((CopyTarget *) lfirst(lc))->relid == relid)
			return true;
	}
	return false;
}

/* What gets no rows is replaced by nothing. */
static List *
replace_others(const CopyTargets *targets)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, targets->tables)
	{
		Relation	rel;

		if (is_target(targets, lfirst_oid(lc)))
			continue;
		rel = relation_open(lfirst_oid(lc), NoLock);
		if (rose_target_tables_has_rows(rel))
		{
			rose_target_tables_require(rel);
			rose_owner_require_table(rose_apply.sub, rel, ACL_TRUNCATE);
			result = lappend(result, rose_replace_begin(rel));
		}
		relation_close(rel, NoLock);
	}
	return result;
}

/* The upstream is not needed any more, and may have to be waited for as long as the table is in use. */
static void
switch_targets(const CopyTargets *targets, uint64 nrows)
{
	List	   *replacements = replace_others(targets);
	ListCell   *lc;

	foreach(lc, targets->all)
		replacements = lappend(replacements, ((CopyTarget *) lfirst(lc))->replacement);
	rose_copy_places_tell(ROSE_COPY_SWITCHING, nrows, source_bytes);
	ROSE_STOP_POINT("replace-ready");
	rose_replace_lock(linitial_oid(targets->tables), targets->tables);
	foreach(lc, replacements)
		rose_replace_switch(lfirst(lc));
	rose_old_rows_forget(rose_apply.sub->subid, linitial_oid(targets->tables));
	ROSE_STOP_POINT("replace-switched");
}

/* How far it is; and whether it should go on. */
static void
report_reading(uint64 nrows)
{
	rose_copy_places_tell(ROSE_COPY_READING, nrows, source_bytes);
	ROSE_STOP_POINT("copy-reading");
	rose_apply.copies.breathe();
}

/* The rows that COPY yields go into the loads; returns their number. */
static uint64
load_rows(CopyFromState cstate, CopyTargets *targets, Relation rel, bool have_code)
{
	int			natts = RelationGetNumberOfAttributes(rel);
	Oid			as_owner = have_code ? rel->rd_rel->relowner : InvalidOid;
	EState	   *estate = CreateExecutorState();
	ExprContext *econtext = GetPerTupleExprContext(estate);
	Datum	   *values = palloc(sizeof(Datum) * Max(natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(natts, 1));
	ErrorContextCallback callback = {error_context_stack, CopyFromErrorCallback, cstate};
	uint64		nrows = 0;
	uint64		reported = 0;
	RoseConstants *constants = rose_constants_create(rel, rose_apply.sub->constants);

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
			rose_constants_fill(constants, values, nulls);
			put_row(targets, values, nulls);
		}
		MemoryContextSwitchTo(old);
		if (!more)
			break;
		if (++nrows % ROSE_COPY_REPORT_ROWS == 0 || source_bytes - reported > ROSE_COPY_REPORT_BYTES)
		{
			report_reading(nrows);
			reported = source_bytes;
		}
	}
	error_context_stack = callback.previous;
	FreeExecutorState(estate);
	return nrows;
}

/* As it is by now, when it is locked. */
static void
require_empty(Relation rel)
{
	RoseScan   *scan;
	bool		empty;

	PushActiveSnapshot(GetLatestSnapshot());
	scan = rose_scan_begin(rose_tree_open(rel), GetActiveSnapshot(), NULL, false);
	empty = rose_scan_next(scan, ForwardScanDirection) == NULL;
	rose_scan_end(scan);
	PopActiveSnapshot();
	if (!empty)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot copy into table \"%s\", which is not empty",
						RelationGetRelationName(rel)),
				 errhint("TRUNCATE it (the subscription must not feed it meanwhile) or subscribe with copy_data => false.")));
}

/* The table, or its partitions.  Unless they are waited for, those that somebody has locked are passed over. */
static void
require_of_all(Relation rel, bool wait, void (*require) (Relation table))
{
	ListCell   *lc;

	foreach(lc, rose_target_tables_of(RelationGetRelid(rel)))
	{
		Relation	table;

		rose_owner_require_relid(rose_apply.sub, lfirst_oid(lc));
		if (wait)
			rose_copy_places_lock(lfirst_oid(lc), AccessShareLock);
		else if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			continue;
		table = try_relation_open(lfirst_oid(lc), NoLock);
		if (table == NULL)
			continue;
		rose_target_tables_require(table);
		rose_owner_require_table(rose_apply.sub, table, ACL_INSERT);
		if (rose_target_tables_has_rows(table) && require != NULL)
			require(table);
		relation_close(table, NoLock);
	}
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
find_remote(WalReceiverConn *conn, RoseSubscriptionTable *table, bool note)
{
	Oid			subid = rose_apply.sub->subid;
	RoseUpstreamTable found;

	if (!rose_upstream_find_table(conn, rose_apply.sub->publications, &table->remote, &found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the upstream does not publish table \"%s.%s\" any more",
						table->remote.nspname, table->remote.relname),
				 errhint("Publish it, or call rose.alter_subscription with refresh => true.")));
	if (note)
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
choose_columns(WalReceiverConn *conn, Relation rel, const RoseSubscriptionTable *table, bool note,
			   List **remote_names, List **local_names)
{
	RoseUpstreamColumns remote;
	RoseUpstreamColumns now;
	RoseUpstreamSeen seen;
	Bitmapset  *generated;
	RoseColumnMap *map;
	int16	   *local_of;
	int		   *remote_of = palloc(sizeof(int) * Max(RelationGetNumberOfAttributes(rel), 1));

	rose_upstream_published_columns(conn, rose_apply.sub->publications, &table->remote, &remote);
	local_of = palloc(sizeof(int16) * Max(remote.n, 1));
	rose_columns_match(rel, rose_columns_still_there(rel, table->columns, &remote), &remote, local_of);
	rose_columns_invert(rel, remote.n, local_of, rose_constants_create(rel, rose_apply.sub->constants)->attnums, remote_of);
	for (int i = 0; i < remote.n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), local_of[i] - 1);

		if (att->attgenerated)
			continue;
		*remote_names = lappend(*remote_names, remote.names[i]);
		*local_names = lappend(*local_names, makeString(pstrdup(NameStr(att->attname))));
	}
	if (!note)
		return;
	map = rose_columns_form(NULL, &remote, local_of);
	rose_subscription_set_columns(rose_apply.sub->subid, RelationGetRelid(rel), map);
	rose_upstream_look(conn, rose_apply.sub->publications, table->remote.relid, &now, &generated, &seen);
	rose_seen_set(rose_apply.sub->subid, RelationGetRelid(rel), &seen);
}

static bool
has_old_rows(Relation rel)
{
	return rose_old_rows_are_there(rose_apply.sub->subid, RelationGetRelid(rel), NULL);
}

/* Everything that can be wrong before there are rows; the columns that are to be copied.  note: in the catalog, too. */
static RoseSubscriptionTable *
prepare(WalReceiverConn *conn, Relation rel, bool wait, bool note, List **remote_names, List **local_names)
{
	RoseSubscriptionTable *listed = require_listed(rel);

	require_of_all(rel, wait, has_old_rows(rel) ? NULL : require_empty);
	find_remote(conn, listed, note);
	choose_columns(conn, rel, listed, note, remote_names, local_names);
	rose_upstream_require_select(conn, &listed->remote, *remote_names);
	return listed;
}

/* One that somebody has locked is not waited for: who copies it looks again. */
void
rose_copy_check(WalReceiverConn *conn, Oid relid)
{
	Relation	rel;
	List	   *remote_names = NIL;
	List	   *local_names = NIL;

	rose_owner_require_relid(rose_apply.sub, relid);
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table with OID %u does not exist any more", relid),
				 errhint("Create it again, or take it out of the publication; then call rose.alter_subscription with refresh => true.")));
	(void) prepare(conn, rel, false, true, &remote_names, &local_names);
	relation_close(rel, NoLock);
}

static uint64
load_table(WalReceiverConn *conn, Relation rel, CopyTargets *targets, List *local_names)
{
	CopyFromState cstate;
	uint64		nrows;

	source_conn = conn;
	source_bytes = 0;
	memset(&source_data, 0, sizeof(source_data));
	cstate = begin_copy(rel, local_names);
	nrows = load_rows(cstate, targets, rel, rows_have_code(rel) || rose_defaults_of_others(rel, local_names));
	rose_copy_places_tell(ROSE_COPY_WRITING, nrows, source_bytes);
	finish_loads(targets);
	EndCopyFrom(cstate);
	return nrows;
}

void
rose_copy_begin(WalReceiverConn *conn, Relation rel, RoseCopyJob *job, bool note)
{
	memset(job, 0, sizeof(*job));
	rose_repl_stats_forget_kept();
	job->replace = has_old_rows(rel);
	/* who helps finds it locked by who leads, who has waited */
	require_of_all(rel, true, note ? require_fed : require_recorded);
	job->listed = prepare(conn, rel, true, note, &job->remote_names, &job->local_names);
	ROSE_STOP_POINT("copy-found");
	rose_upstream_lock_rows(conn, rose_apply.sub->publications, &job->listed->remote, &job->rows);
	rose_copy_places_expect(job->rows.expected);
}

uint64
rose_copy_table(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job)
{
	CopyTargets targets;
	uint64		nrows;

	rose_upstream_start_copy(conn, &job->listed->remote, &job->rows, job->remote_names, NULL);
	begin_targets(&targets, rel, job->replace, NULL);
	nrows = load_table(conn, rel, &targets, job->local_names);
	end_targets(&targets, nrows);
	rose_upstream_check_copied(conn, &job->listed->remote);
	rose_upstream_command(conn, "COMMIT");
	if (job->replace)
		switch_targets(&targets, nrows);
	return nrows;
}

uint64
rose_copy_piece(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, Relation made, const char *condition, uint64 *bytes)
{
	CopyTargets targets;
	uint64		nrows;

	if (job->replace)
		rose_owner_require_table(rose_apply.sub, rel, ACL_TRUNCATE);
	rose_upstream_start_copy(conn, &job->listed->remote, &job->rows, job->remote_names, condition);
	begin_targets(&targets, rel, false, made);
	nrows = load_table(conn, rel, &targets, job->local_names);
	rose_upstream_check_copied(conn, &job->listed->remote);
	*bytes = source_bytes;
	return nrows;
}

void
rose_copy_switch(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, Relation made)
{
	RoseReplacement replacement = {RelationGetRelid(rel), RelationGetRelid(made), made};
	RoseUpstreamRows rows;

	/* one that has got a partition was read without it, and with it */
	rose_upstream_lock_rows(conn, rose_apply.sub->publications, &job->listed->remote, &rows);
	rose_upstream_check_copied(conn, &job->listed->remote);
	rose_upstream_command(conn, "COMMIT");
	rose_copy_places_tell(ROSE_COPY_SWITCHING, 0, 0);
	ROSE_STOP_POINT("replace-ready");
	rose_replace_lock(replacement.relid, list_make1_oid(replacement.relid));
	require_of_all(rel, true, job->replace ? NULL : require_empty);
	if (job->replace)
		rose_owner_require_table(rose_apply.sub, rel, ACL_TRUNCATE);
	rose_replace_switch(&replacement);
	rose_old_rows_forget(rose_apply.sub->subid, replacement.relid);
	ROSE_STOP_POINT("replace-switched");
}
