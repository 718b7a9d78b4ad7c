/*-------------------------------------------------------------------------
 *
 * rose_maintainer_tables.c
 *	  The tables that a maintenance worker looks after, and the short
 *	  transactions in which it touches them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/rose_maintainer_internal.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "lsm/rose_face.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

Oid			rose_maintainer_relid = InvalidOid;
RoseRegistryItem *rose_maintainer_items = NULL;
int			rose_maintainer_nitems = 0;

static HTAB *notes = NULL;

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

/*
 * Open a table without waiting for a lock; NULL if that is not possible now,
 * or the relation does not have that file any more.
 */
Relation
rose_maintainer_open_table(Oid relid, RelFileLocator locator)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	rel = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ?
		try_relation_open(relid, NoLock) : NULL;
	if (rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
		rose_relation_is_rose(rel) &&
		RelFileLocatorEquals(rose_rel_locator(rel), locator))
		return rel;
	if (rel != NULL)
		relation_close(rel, NoLock);
	UnlockRelationOid(relid, AccessShareLock);
	return NULL;
}

void
rose_maintainer_begin_work(Oid relid)
{
	rose_maintainer_relid = relid;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
rose_maintainer_end_work(Relation rel)
{
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	rose_maintainer_relid = InvalidOid;
}

/* Open every rose table of the database, so that the registry knows it. */
void
rose_maintainer_visit_tables(void)
{
	List	   *relids = NIL;
	ListCell   *cell;
	Oid			am;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "rose visit",
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
			MemoryContext old = MemoryContextSwitchTo(context);

			if (class->relam == am && RELKIND_HAS_TABLE_AM(class->relkind) &&
				class->relpersistence != RELPERSISTENCE_TEMP)
				relids = lappend_oid(relids, class->oid);
			MemoryContextSwitchTo(old);
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	CommitTransactionCommand();

	foreach(cell, relids)
	{
		Relation	rel;

		CHECK_FOR_INTERRUPTS();
		if (rose_maintainer_failed_lately(lfirst_oid(cell)))
			continue;
		rose_maintainer_begin_work(lfirst_oid(cell));
		rel = try_relation_open(lfirst_oid(cell), AccessShareLock);
		if (rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
			rose_relation_is_rose(rel))
			(void) rose_table_open(rel);
		rose_maintainer_end_work(rel);
	}
	MemoryContextDelete(context);
	rose_maintainer_note_visited();
}

bool
rose_maintainer_waits_for_private(void)
{
	HASH_SEQ_STATUS scan;
	RoseTableNote *note;
	bool		waits = false;

	if (notes == NULL)
		return false;
	hash_seq_init(&scan, notes);
	while ((note = hash_seq_search(&scan)) != NULL)
		waits = waits || note->open_private;
	return waits;
}
