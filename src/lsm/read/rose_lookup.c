/*-------------------------------------------------------------------------
 *
 * rose_lookup.c
 *	  Point lookups: the newest visible version of a key, and the version that
 *	  a TID names.
 *
 * Results live until the next call with the same lookup.  Locking is the key
 * reader's.
 *
 * What the versions of a key are is the key reader's to find (rose_key_reader.c), whether
 * one is seen snapshot/rose_visibility.c's; here is which of them is the answer.
 * rose_lookup_cache.c keeps lookups for the next who needs one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "lsm/component/rose_partial.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/read/rose_key_reader.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_tid.h"

/* So often a key is read again that is spilled while it is read. */
#define LOOKUP_MAX_VIEWS	100

/* A lookup that rests has no more than this of a row or a key. */
#define RESTING_BYTES		((Size) 64 * 1024)

struct RoseLookup
{
	RoseTree   *tree;
	MemoryContext context;
	RoseKeyReader *reader;
	RosePartial partial;

	RoseRow		row;			/* the result ... */
	Snapshot	snapshot;		/* ... as this one sees it; borrowed */
	Datum		key[INDEX_MAX_KEYS];	/* its key, if it was completed here */
	bool		in_component;
	RoseComponentEntryDisk entry;	/* then its component */

	MemoryContext key_context;	/* key of a TID's version */
};

RoseLookup *
rose_lookup_create(RoseTree *tree)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose lookup",
												  ALLOCSET_DEFAULT_SIZES);
	RoseLookup *lookup = MemoryContextAllocZero(context, sizeof(RoseLookup));

	lookup->tree = tree;
	lookup->context = context;
	lookup->reader = rose_key_reader_create(tree, context);
	rose_key_reader_expect_hits(lookup->reader);
	rose_partial_init(&lookup->partial, tree->schema, context);
	lookup->key_context = AllocSetContextCreate(context, "rose lookup key",
												ALLOCSET_SMALL_SIZES);
	return lookup;
}

void
rose_lookup_free(RoseLookup *lookup)
{
	rose_key_reader_free(lookup->reader);
	MemoryContextDelete(lookup->context);
}

bool
rose_lookup_rest(RoseLookup *lookup)
{
	lookup->snapshot = NULL;
	lookup->partial.active = false;
	return rose_key_reader_rest(lookup->reader) &&
		lookup->key_context->mem_allocated <= RESTING_BYTES &&
		(lookup->partial.context == NULL ||
		 lookup->partial.context->mem_allocated <= RESTING_BYTES);
}

/* Remember where the result came from, for its TID. */
static void
lookup_note_origin(RoseLookup *lookup)
{
	const RoseComponentEntryDisk *entry = rose_key_reader_entry(lookup->reader);

	lookup->in_component = entry != NULL;
	if (entry)
		lookup->entry = *entry;
}

/*
 * A row that is put together of several versions must be of one view of the table.  True:
 * it is not, and has to be read again.
 */
static bool
lookup_is_torn(const RoseLookup *lookup)
{
	return lookup->partial.active && rose_key_reader_moved(lookup->reader);
}

/* REQUIRES: lookup_is_torn. */
static void
lookup_count_view(RoseLookup *lookup, int *nviews)
{
	CHECK_FOR_INTERRUPTS();
	if (++*nviews > LOOKUP_MAX_VIEWS)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not read a row of table \"%s\" because it was written to disk again and again meanwhile",
						RelationGetRelationName(lookup->tree->rel)),
				 errhint("Try again.")));
}

/*
 * Go down the versions of a key until the snapshot's row is known, or lookup_is_torn.
 * Serializable transactions report each version they may not see.
 */
static const RoseRow *
lookup_descend(RoseLookup *lookup, RoseVisibility *vis, bool serializable)
{
	const RoseRow *row;
	bool		committed;
	uint64		ordinal = 0;	/* of the PARTIAL that is completed */

	while ((row = rose_key_reader_next(lookup->reader, &committed)) != NULL)
	{
		if (lookup_is_torn(lookup))
			return NULL;
		if (!rose_version_visible(vis, &row->version, committed))
		{
			if (serializable && row->version.op != ROSE_OP_LOCK)
				CheckForSerializableConflictOut(lookup->tree->rel,
												XidFromFullTransactionId(row->version.xid),
												vis->snapshot);
			ROSE_STOP_POINT("lookup-unseen");
			continue;
		}
		if (row->version.op == ROSE_OP_TOMBSTONE)
			break;
		if (lookup->partial.active)
		{
			if (!rose_partial_add(&lookup->partial, row))
				continue;
			rose_partial_finish(&lookup->partial, &lookup->row, lookup->key);
			lookup->row.ordinal = ordinal;
			return &lookup->row;
		}
		lookup_note_origin(lookup);
		lookup->row = *row;
		if (row->version.op == ROSE_OP_PUT)
			return &lookup->row;
		ordinal = row->ordinal;
		rose_partial_start(&lookup->partial, row);
		rose_key_reader_repeat_from(lookup->reader, row->version.seq);
		ROSE_STOP_POINT("lookup-partial");
	}

	/* a PARTIAL with nothing below it is no row, unless something was below it a moment ago */
	return NULL;
}

static const RoseRow *
lookup_visible(RoseLookup *lookup, Snapshot snapshot, const Datum *key, uint64 below)
{
	bool		serializable = snapshot->snapshot_type == SNAPSHOT_MVCC &&
		CheckForSerializableConflictOutNeeded(lookup->tree->rel, snapshot);
	int			nviews = 0;

	rose_tid_prepare(lookup->tree);
	lookup->snapshot = snapshot;
	for (;;)
	{
		RoseVisibility vis;
		const RoseRow *row;

		rose_visibility_init(&vis, snapshot);
		rose_copied_require(lookup->tree, &vis);
		rose_visibility_next_key(&vis);
		lookup->partial.active = false;
		rose_key_reader_start(lookup->reader, key, below);
		row = lookup_descend(lookup, &vis, serializable);
		if (row != NULL || !lookup_is_torn(lookup))
			return row;
		lookup_count_view(lookup, &nviews);
	}
}

const RoseRow *
rose_lookup_get(RoseLookup *lookup, Snapshot snapshot, const Datum *key)
{
	return lookup_visible(lookup, snapshot, key, PG_UINT64_MAX);
}

void
rose_lookup_tid(RoseLookup *lookup, ItemPointer tid)
{
	rose_tid_name(lookup->tree, lookup->in_component ? &lookup->entry : NULL, &lookup->row,
				  lookup->snapshot, tid);
}

/* Bring the version that the TID names into lookup->row. */
static bool
lookup_locate(RoseLookup *lookup, const ItemPointerData *tid)
{
	RoseTree   *tree = lookup->tree;
	RoseTidTarget target;
	RoseComponentCursor *cursor;

	if (!rose_tid_resolve(tree, tid, &target))
		return false;
	if (target.component == NULL)
	{
		if (rose_key_reader_find_seq(lookup->reader, target.seq, &lookup->row))
		{
			lookup->in_component = false;
			return lookup->row.version.op != ROSE_OP_LOCK;
		}
		/* spilled since it was given out */
		if (!rose_tid_find_in_components(tree, target.seq, &target))
		{
			/* ... in this very moment, or carried over */
			if (!rose_key_reader_find_seq(lookup->reader, target.seq, &lookup->row))
				return false;
			lookup->in_component = false;
			return lookup->row.version.op != ROSE_OP_LOCK;
		}
	}

	cursor = rose_key_reader_cursor(lookup->reader, target.entry, target.component);
	if (!rose_component_cursor_seek_ordinal(cursor, target.ordinal))
		return false;
	lookup->row = *rose_component_cursor_row(cursor);
	lookup->in_component = true;
	lookup->entry = *target.entry;
	return true;
}

/* Go down from the PARTIAL version that is begun; false: lookup_is_torn. */
static bool
lookup_complete_descend(RoseLookup *lookup)
{
	const RoseRow *row;
	bool		committed;

	while ((row = rose_key_reader_next(lookup->reader, &committed)) != NULL)
	{
		if (lookup_is_torn(lookup))
			return false;
		if (row->version.op == ROSE_OP_LOCK ||
			(!committed && rose_version_status(&row->version) == ROSE_XID_ABORTED))
			continue;
		if (row->version.op == ROSE_OP_TOMBSTONE)
			break;
		if (rose_partial_add(&lookup->partial, row))
			return true;
	}
	if (!lookup_is_torn(lookup))
		rose_partial_missing_base(&lookup->partial);
	return false;
}

/*
 * Complete the PARTIAL version in lookup->row from what lies below it.  What an attempt
 * has taken is right and stays; but who comes next may not be the next.
 */
static void
lookup_complete(RoseLookup *lookup)
{
	Datum		key[INDEX_MAX_KEYS];
	uint64		seq = lookup->row.version.seq;
	uint64		ordinal = lookup->row.ordinal;
	int			nviews = 0;

	MemoryContextReset(lookup->key_context);
	rose_key_copy(lookup->tree->schema, key, lookup->row.key, lookup->key_context);
	rose_partial_start(&lookup->partial, &lookup->row);
	for (;;)
	{
		/* a merge may have made it complete since, under the same sequence number */
		rose_key_reader_start(lookup->reader, key, seq + 1);
		rose_key_reader_repeat_from(lookup->reader, seq);
		if (lookup_complete_descend(lookup))
			break;
		lookup_count_view(lookup, &nviews);
	}
	rose_partial_finish(&lookup->partial, &lookup->row, lookup->key);
	lookup->row.ordinal = ordinal;
}

/* The row of the version's key for the snapshot, if it is this version. */
static const RoseRow *
lookup_current(RoseLookup *lookup, const RoseVersion *held, bool committed,
			   const Datum *held_key, Snapshot snapshot)
{
	RoseVisibility vis;
	const RoseRow *current = rose_lookup_get(lookup, snapshot, held_key);

	if (current == NULL || !rose_version_is_held(&current->version, held))
		return NULL;
	if (current->version.seq == held->seq)
		return current;
	rose_visibility_init(&vis, snapshot);
	return rose_version_visible(&vis, held, committed) ? current : NULL;
}

const RoseRow *
rose_lookup_fetch_tid(RoseLookup *lookup, const ItemPointerData *tid, Snapshot snapshot)
{
	if (!lookup_locate(lookup, tid))
		return NULL;
	lookup->snapshot = snapshot;
	if (snapshot->snapshot_type != SNAPSHOT_ANY)
	{
		RoseVersion held = lookup->row.version;
		bool		committed = lookup->in_component &&
			!(lookup->entry.flags & ROSE_COMPONENT_PRIVATE);
		Datum		key[INDEX_MAX_KEYS];

		/* seen, and not superseded by another version that is seen */
		MemoryContextReset(lookup->key_context);
		rose_key_copy(lookup->tree->schema, key, lookup->row.key, lookup->key_context);
		return lookup_current(lookup, &held, committed, key, snapshot);
	}
	if (lookup->row.version.op == ROSE_OP_PARTIAL)
		lookup_complete(lookup);
	return &lookup->row;
}

/*
 * What became of the row whose version 'seq' of this key is known, as the snapshot
 * sees it: another version of the key, which *tid names then; or it moved to another
 * key, and *moved_to is the sequence number of the row there.
 */
static void
lookup_successor(RoseLookup *lookup, const Datum *key, uint64 seq, Snapshot snapshot,
				 ItemPointer tid, uint64 *moved_to)
{
	RoseVisibility vis;
	const RoseRow *row;
	bool		committed;
	bool		found = false;
	bool		ended = false;

	*moved_to = 0;
	rose_tid_prepare(lookup->tree);
	lookup->snapshot = snapshot;
	rose_visibility_init(&vis, snapshot);
	rose_copied_require(lookup->tree, &vis);
	rose_visibility_next_key(&vis);
	rose_key_reader_start(lookup->reader, key, PG_UINT64_MAX);
	while ((row = rose_key_reader_next(lookup->reader, &committed)) != NULL)
	{
		if (row->version.seq <= seq && rose_key_reader_in_order(lookup->reader, row))
			break;
		if (row->version.seq <= seq ||
			!rose_version_visible(&vis, &row->version, committed))
			continue;
		if (row->version.op == ROSE_OP_TOMBSTONE)
		{
			/* what is above it is another row; what is below it is no more */
			ended = true;
			found = false;
			*moved_to = row->version.moved_to;
		}
		else if (!found && !ended)
		{
			found = true;
			lookup_note_origin(lookup);
			lookup->row = *row;
		}
	}
	if (found)
		rose_lookup_tid(lookup, tid);
}

void
rose_lookup_latest_tid(RoseLookup *lookup, Snapshot snapshot, ItemPointer tid)
{
	uint64		moved_to;

	do
	{
		const RoseRow *row = rose_lookup_fetch_tid(lookup, tid, SnapshotAny);
		Datum		key[INDEX_MAX_KEYS];

		if (row == NULL)
			return;
		MemoryContextReset(lookup->key_context);
		rose_key_copy(lookup->tree->schema, key, row->key, lookup->key_context);
		lookup_successor(lookup, key, row->version.seq, snapshot, tid, &moved_to);
		if (moved_to == 0 || moved_to == ROSE_MOVED_TO_PARTITION)
			return;
		rose_tid_assign(lookup->tree, NULL, 0, moved_to, tid);
	} while (true);
}

bool
rose_tid_known(RoseTree *tree, ItemPointer tid)
{
	RoseTidTarget target;

	return rose_tid_resolve(tree, tid, &target);
}
