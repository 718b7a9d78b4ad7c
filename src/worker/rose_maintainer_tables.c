/*-------------------------------------------------------------------------
 *
 * rose_maintainer_tables.c
 *	  The tables that a maintenance worker looks after, and the short
 *	  transactions in which it touches them.
 *
 * Tables are known by oid and file, found again in each transaction, and let go of when
 * another file or another access method is there.  Locks are tried for, never waited for,
 * so that nobody queues behind a worker that waits.  What is to be done with a table is
 * decided in rose_maintainer.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat/rose_compat.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/merge/rose_picker.h"
#include "worker/rose_maintainer_internal.h"

RoseRegistryItem *rose_maintainer_items = NULL;
int			rose_maintainer_nitems = 0;

static HTAB *notes = NULL;
static Relation work_rel = NULL;	/* of the table at hand */
static bool was_locked;			/* the last one could not be opened for a lock */

void
rose_maintainer_list_tables(void)
{
	static int	size = 0;

	for (;;)
	{
		rose_maintainer_nitems = rose_registry_list(MyDatabaseId, rose_maintainer_items, size);
		if (rose_maintainer_nitems <= size)
			return;
		size = rose_maintainer_nitems * 2;
		if (rose_maintainer_items)
			pfree(rose_maintainer_items);
		rose_maintainer_items = MemoryContextAllocHuge(TopMemoryContext,
													   size * sizeof(RoseRegistryItem));
	}
}

RoseTableNote *
rose_maintainer_note(RelFileLocator locator)
{
	RoseTableNote *note;
	bool		found;

	if (notes == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(RelFileLocator);
		info.entrysize = sizeof(RoseTableNote);
		notes = hash_create("rose table notes", 128, &info, HASH_ELEM | HASH_BLOBS);
	}
	note = hash_search(notes, &locator, HASH_ENTER, &found);
	if (!found)
	{
		memset(note, 0, sizeof(*note));
		note->locator = locator;
		note->manifest_version = PG_UINT64_MAX; /* look at it */
	}
	return note;
}

/* ---- work on a table ---- */

static void
begin_transaction(RoseWorkerWork work, Oid relid)
{
	rose_maintainer_show_work(work, relid);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

/*
 * One whose rows are in another order than the present one is left as it is: only room at
 * the end of its file can be given back.  Who visits all tables after a start of the
 * server says so.
 */
static RoseTree *
open_table(Relation rel, RoseWorkerWork work)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);

	if (!tree->shared->other_order || work == ROSE_WORK_TRUNCATE)
		return tree;
	if (work == ROSE_WORK_OPEN)
		rose_tree_report_order(tree, WARNING);
	return NULL;
}

RoseTree *
rose_maintainer_begin(RoseWorkerWork work, Oid relid)
{
	begin_transaction(work, relid);
	was_locked = !ConditionalLockRelationOid(relid, AccessShareLock);
	if (was_locked)
		return NULL;
	work_rel = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ?
		try_relation_open(relid, NoLock) : NULL;
	if (work_rel != NULL && rose_relation_has_tree(work_rel))
	{
		/* a session recovers it, which may take long: there are other tables */
		was_locked = rose_recovery_is_under_way(work_rel);
		return was_locked ? NULL : open_table(work_rel, work);
	}
	if (work_rel != NULL)
		relation_close(work_rel, NoLock);
	work_rel = NULL;
	UnlockRelationOid(relid, AccessShareLock);
	return NULL;
}

bool
rose_maintainer_was_locked(void)
{
	return was_locked;
}

void
rose_maintainer_end(void)
{
	if (work_rel != NULL)
		relation_close(work_rel, AccessShareLock);
	work_rel = NULL;
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	rose_maintainer_show_work(ROSE_WORK_NONE, InvalidOid);
}

void
rose_maintainer_abort(void)
{
	work_rel = NULL;
	AbortOutOfAnyTransaction();
	/* that has released the session's locks, too, but only if there was a transaction */
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
	rose_maintainer_show_work(ROSE_WORK_NONE, InvalidOid);
}

/* Notes of tables that are not in the list any more. */
static void
drop_notes(void)
{
	HASH_SEQ_STATUS scan;
	RoseTableNote *note;

	if (notes == NULL)
		return;
	hash_seq_init(&scan, notes);
	while ((note = hash_seq_search(&scan)) != NULL)
		note->listed = false;
	for (int i = 0; i < rose_maintainer_nitems; i++)
		rose_maintainer_note(rose_maintainer_items[i].locator)->listed = true;
	hash_seq_init(&scan, notes);
	while ((note = hash_seq_search(&scan)) != NULL)
		if (!note->listed)
			(void) hash_search(notes, &note->locator, HASH_REMOVE, NULL);
}

void
rose_maintainer_sweep(void)
{
	begin_transaction(ROSE_WORK_NONE, InvalidOid);
	(void) rose_registry_sweep(MyDatabaseId);
	rose_maintainer_end();
	rose_maintainer_list_tables();
	drop_notes();
}

/* ---- all tables ---- */

/* Tables opened between two looks at what else there is to do. */
#define VISIT_AT_A_TIME		50

static List *unvisited = NIL;	/* of Oid; in the visit's context */
static List *locked = NIL;		/* those that were locked: again at visit_again */
static TimestampTz visit_again;
static MemoryContext visit_context = NULL;

void
rose_maintainer_begin_visit(void)
{
	Oid			am;

	visit_context = AllocSetContextCreate(TopMemoryContext, "rose visit",
										  ALLOCSET_DEFAULT_SIZES);
	StartTransactionCommand();
	am = get_table_am_oid("rose", true);
	if (OidIsValid(am))
	{
		Relation	rel = table_open(RelationRelationId, AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
		HeapTuple	tuple;

		while ((tuple = systable_getnext(scan)) != NULL)
		{
			Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);
			MemoryContext old = MemoryContextSwitchTo(visit_context);

			if (class->relam == am && RELKIND_HAS_TABLE_AM(class->relkind) &&
				class->relpersistence != RELPERSISTENCE_TEMP)
				unvisited = lappend_oid(unvisited, class->oid);
			MemoryContextSwitchTo(old);
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	CommitTransactionCommand();
}

/* The indexes of a table that are trees come behind it. */
static void
add_indexes(Relation rel)
{
	Oid			primary = rose_primary_key_index(rel);
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(rel))
	{
		MemoryContext old = MemoryContextSwitchTo(visit_context);

		if (lfirst_oid(cell) != primary)
			unvisited = lappend_oid(unvisited, lfirst_oid(cell));
		MemoryContextSwitchTo(old);
	}
}

/* It is taken from the list first: an error is not met twice. */
static void
visit_table(Oid relid)
{
	if (rose_maintainer_failed_lately(relid))
		return;
	(void) rose_maintainer_begin(ROSE_WORK_OPEN, relid);
	if (work_rel != NULL && !was_locked && !rose_relation_is_index(work_rel))
		add_indexes(work_rel);
	rose_maintainer_end();
	if (was_locked)
	{
		MemoryContext old = MemoryContextSwitchTo(visit_context);

		locked = lappend_oid(locked, relid);
		MemoryContextSwitchTo(old);
		visit_again = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS);
	}
}

bool
rose_maintainer_visit_step(void)
{
	if (visit_context == NULL)
		return false;
	if (!rose_maintainer_has_unvisited())
	{
		rose_maintainer_note_visited();
		MemoryContextDelete(visit_context);
		visit_context = NULL;
		return false;
	}
	if (unvisited == NIL && visit_again <= GetCurrentTimestamp())
	{
		unvisited = locked;
		locked = NIL;
	}
	if (unvisited == NIL)
		return false;
	for (int i = 0; i < VISIT_AT_A_TIME && unvisited != NIL; i++)
	{
		Oid			relid = llast_oid(unvisited);

		CHECK_FOR_INTERRUPTS();
		unvisited = list_delete_last(unvisited);
		visit_table(relid);
	}
	return true;
}

bool
rose_maintainer_has_unvisited(void)
{
	return unvisited != NIL || locked != NIL;
}

uint32
rose_maintainer_runs(const RoseRegistryItem *item)
{
	uint32		usual = Min(rose_maintainer_note(item->locator)->open_runs, ROSE_USUAL_PRIVATE_RUNS);

	return item->nruns - Min(item->nruns, usual);
}

/* Only tables of the list: a note may outlive its table. */
bool
rose_maintainer_waits_for_private(void)
{
	for (int i = 0; i < rose_maintainer_nitems; i++)
		if (rose_maintainer_note(rose_maintainer_items[i].locator)->open_private)
			return true;
	return false;
}
