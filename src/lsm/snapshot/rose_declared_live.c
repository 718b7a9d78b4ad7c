/*-------------------------------------------------------------------------
 *
 * rose_declared_live.c
 *	  The snapshots of a READ COMMITTED transaction, declared to garbage collection.
 *
 * They come and go: each statement takes one, a cursor keeps one.  Nobody tells when one
 * is taken, so a list of them is right for a moment only.  Hence a slot has, beside the
 * list, the oldest transaction that was in progress at that moment ("cover"): what is
 * taken later sees all that had ended before.  The list and cover are renewed now and
 * then, at moments when it is known which snapshots there are: while a statement of the
 * client reads a rose table, and when a FETCH ends.
 *
 * Which there are.  All registered ones are nodes of core's heap, which can be walked
 * from any of them.  Those that are only active are not to be found.  But while a portal
 * of the client runs its query, and the query's snapshot is the topmost active one, that
 * is the only one: functions, triggers and procedures push their own above it, or run
 * queries of their own.  FETCH, EXECUTE and COPY of the client have none, or that of
 * their query, or read with it themselves.  Everywhere else nothing is renewed, and the
 * list and cover of before hold.
 *
 * Between two statements there are no active ones, and the registered ones are those of
 * the list, unless the session has begun to do something since (stale).  So if the
 * backend waits for its client and is not stale, what it takes next sees all that has
 * ended by now: see rose_declared_collect.c.
 *
 * Locking: the slot's.  Backend-local otherwise.
 *
 * What this does not do: list what functions, procedures and other commands have, which
 * is protected by cover, or by the xmin in the process array.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "executor/execdesc.h"
#include "lib/pairingheap.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/procarray.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_declared_internal.h"
#include "lsm/snapshot/rose_own_snapshots.h"

/* Not more often than this, but for a cursor that is there for the first time. */
#define REFRESH_MS		200

/* Looks at the clock are as dear as a few rows. */
#define PASSES_PER_LOOK	32

bool		rose_declared_armed = false;

static Snapshot current = NULL; /* armed: with which the client's query or COPY reads */
static NodeTag command = T_Invalid; /* the client's command that runs, if it may read itself */
static uint32 passes = 0;
static TimestampTz refreshed = 0;	/* in this transaction; 0 = not yet */

/* ---- which there are ---- */

/* Add a node of the heap, its siblings and what is below them; false if one cannot be added. */
static bool
add_nodes(RoseDeclaredSlotShared *slot, pairingheap_node *node)
{
	for (; node != NULL; node = node->next_sibling)
	{
		Snapshot	snapshot = pairingheap_container(SnapshotData, ph_node, node);
		RoseDeclaredContent *content = snapshot->snapshot_type == SNAPSHOT_MVCC ?
			rose_declared_content(snapshot) : NULL;
		bool		added = content != NULL && rose_declared_add(slot, content);

		if (content != NULL)
			pfree(content);
		if (!added || !add_nodes(slot, node->first_child))
			return false;
	}
	return true;
}

static pairingheap_node *
root_of(pairingheap_node *node)
{
	while (node->prev_or_parent != NULL)
		node = node->prev_or_parent;
	return node;
}

/*
 * List all snapshots that there are, in a slot of this process: the current one, and all
 * that are registered.  False: there are too many.
 */
static bool
list_snapshots(RoseDeclaredSlotShared *list)
{
	Snapshot	registered = RegisterSnapshot(current);
	bool		listed;

	list->nmembers = 0;
	listed = add_nodes(list, root_of(&registered->ph_node));
	UnregisterSnapshot(registered);
	return listed;
}

/* REQUIRES: armed, and nothing is active but the current snapshot, and what is equal to it. */
static void
refresh(void)
{
	Size		size = rose_declared_shared->slot_size;
	RoseDeclaredSlotShared *slot = rose_declared_my_slot();
	RoseDeclaredSlotShared *list;

	refreshed = GetCurrentTimestamp();
	if (slot == NULL)
		return;
	list = palloc0(size);
	if (list_snapshots(list))
	{
		list->live = true;
		list->database = MyDatabaseId;
		list->cover = GetOldestActiveTransactionId();
		list->valid = true;
		LWLockAcquire(&rose_declared_shared->lock, LW_SHARED);
		memcpy(slot, list, size);
		LWLockRelease(&rose_declared_shared->lock);
		ROSE_STOP_POINT("snapshots-listed");	/* no LWLock */
	}
	pfree(list);
}

/* ---- when ---- */

static bool
is_due(void)
{
	TimestampTz since = refreshed != 0 ? refreshed : GetCurrentTransactionStartTimestamp();

	return TimestampDifferenceExceeds(since, GetCurrentTimestamp(), REFRESH_MS);
}

void
rose_declared_pass(void)
{
	if (++passes % PASSES_PER_LOOK == 0 && GetActiveSnapshot() == current && is_due())
		refresh();
}

/* Does its transaction take a snapshot for each statement, and is this one of those that we can list? */
static bool
is_listable(Snapshot snapshot)
{
	return rose_declared_shared != NULL && XactIsoLevel <= XACT_READ_COMMITTED &&
		snapshot != NULL && IsMVCCSnapshot(snapshot);
}

/*
 * Is it the query that the client's command itself runs?  The command has a snapshot of
 * its own, which is not registered; but these take a copy of it for their query, or have
 * none.  Queries of functions that are called on the way have other destinations, or are
 * in no portal.
 */
static bool
is_of_command(const QueryDesc *query)
{
	CommandDest dest = query->dest->mydest;

	switch (command)
	{
		case T_FetchStmt:
			return ActivePortal->queryDesc == query;
		case T_ExecuteStmt:
			return ActivePortal->queryDesc == query && dest == DestTuplestore;
		case T_CopyStmt:
			return dest == DestCopyOut;
		default:
			return false;
	}
}

/* Is it a query of the client? */
static bool
is_of_client(const QueryDesc *query)
{
	RoseOwnPlace place = rose_own_snapshots_place();

	if (!is_listable(query->snapshot) || query->operation != CMD_SELECT)
		return false;
	if (IsParallelWorker())
		return place == ROSE_OWN_TOP;
	if (ActivePortal == NULL)
		return false;
	/* portals of functions have names, and no formats */
	if (place == ROSE_OWN_TOP)
		return ActivePortal->queryDesc == query &&
			(ActivePortal->name[0] == '\0' || ActivePortal->formats != NULL);
	return place == ROSE_OWN_IN_COMMAND && is_of_command(query);
}

void
rose_declared_run_begin(RoseDeclaredRun *run, QueryDesc *query)
{
	run->snapshot = current;
	run->armed = rose_declared_armed;
	run->fetch = command == T_FetchStmt;
	rose_declared_armed = is_of_client(query);
	current = query->snapshot;
}

void
rose_declared_run_end(const RoseDeclaredRun *run, bool stays)
{
	RoseDeclaredSlotShared *slot = rose_declared_my_slot();

	/* a cursor: its session may be idle for long */
	if ((stays || run->fetch) && rose_declared_armed && GetActiveSnapshot() == current &&
		(slot == NULL || !slot->valid || slot->stale || is_due()))
		refresh();
	current = run->snapshot;
	rose_declared_armed = run->armed;
	if (XactHasExportedSnapshots())
		rose_declared_note_start();
}

void
rose_declared_note_start(void)
{
	RoseDeclaredSlotShared *slot;

	if (refreshed == 0)
		return;
	slot = rose_declared_my_slot();
	if (slot != NULL && slot->live)
	{
		slot->stale = true;
		pg_write_barrier();		/* before it is seen to be idle again */
	}
}

static void
disarm(void)
{
	current = NULL;
	rose_declared_armed = false;
	command = T_Invalid;
}

/* COPY of a table reads it with the snapshot of the command. */
static bool
reads_itself(const Node *stmt)
{
	const CopyStmt *copy = (const CopyStmt *) stmt;

	return IsA(stmt, CopyStmt) && copy->relation != NULL && !copy->is_from;
}

void
rose_declared_note_command(bool of_client, const Node *stmt)
{
	if (!IsA(stmt, FetchStmt))
		rose_declared_note_start();
	command = T_Invalid;
	if (!of_client)
		return;
	disarm();					/* whatever it was when something failed */
	command = nodeTag(stmt);
	if (reads_itself(stmt) && ActivePortal != NULL && is_listable(ActivePortal->portalSnapshot))
	{
		current = ActivePortal->portalSnapshot;
		rose_declared_armed = true;
	}
}

void
rose_declared_end_command(bool of_client)
{
	command = T_Invalid;
	if (of_client)
		disarm();
}

void
rose_declared_live_end(void)
{
	disarm();
	refreshed = 0;
}

/* A query may have ended by an error, and which one runs now is not known. */
static void
on_subtransaction_event(SubXactEvent event, SubTransactionId subid, SubTransactionId parent,
						void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		disarm();
}

void
rose_declared_live_define_callbacks(void)
{
	RegisterSubXactCallback(on_subtransaction_event, NULL);
}
