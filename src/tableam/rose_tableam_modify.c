/*-------------------------------------------------------------------------
 *
 * rose_tableam_modify.c
 *	  Writing: inserts, updates, deletes and row locks of the executor.
 *
 * A thin layer over lsm/write/rose_insert.h, rose_modify.h and rose_lock_row.h, which do the work.  Here:
 * who may write, the report of duplicate keys (heap leaves both to its indexes), what the
 * slot shows afterwards, and statistics.
 *
 * Each insert gives the opened primary key index rose's routine before the
 * executor inserts into it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/rel.h"

#include "compat/rose_compat.h"
#include "util/rose_foreign.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_predicate.h"
#include "lsm/write/rose_insert.h"
#include "lsm/write/rose_lock_row.h"
#include "lsm/write/rose_modify.h"
#include "lsm/write/rose_unique_recheck.h"
#include "indexam/rose_index_settings.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"

/* The command of the speculative insertion that is going on. */
static CommandId speculation_cid;

/* ALTER TABLE puts a table's rows into this one, which takes its place: once for each. */
static void
check_rewrite_into(Relation rel)
{
	static Oid	checked = InvalidOid;
	Relation	old;

	if (checked == RelationGetRelid(rel))
		return;
	old = relation_open(rel->rd_rel->relrewrite, NoLock);
	if (rose_relation_is_rose(old))
		rose_check_rewrite(old);
	relation_close(old, NoLock);
	checked = RelationGetRelid(rel);
}

/* The relations that this transaction was found to be allowed to write to were the last ones of this subtransaction. */
#define ADMITTED_RELATIONS	8

static struct
{
	LocalTransactionId lxid;
	SubTransactionId subid;		/* what it has locked stays locked as long as it goes on */
	uint64		admissions;
	int			n;
	Oid			relids[ADMITTED_RELATIONS];
}			admitted;

static void
require_admitted(Relation rel, Oid subid)
{
	if (admitted.lxid != rose_my_lxid() || admitted.subid != GetCurrentSubTransactionId() ||
		admitted.admissions != rose_feed_admissions || admitted.n == ADMITTED_RELATIONS)
		admitted.n = 0;
	admitted.lxid = rose_my_lxid();
	admitted.subid = GetCurrentSubTransactionId();
	admitted.admissions = rose_feed_admissions;
	for (int i = 0; i < admitted.n; i++)
		if (admitted.relids[i] == RelationGetRelid(rel))
			return;
	rose_feed_require_writable_hook(rel, subid);
	admitted.relids[admitted.n++] = RelationGetRelid(rel);
}

static RoseTree *
open_for_write(Relation rel)
{
	RoseTree   *tree;

	rose_foreign_refuse_change(RelationGetRelationName(rel));
	tree = rose_tree_open(rel);
	if (OidIsValid(rel->rd_rel->relrewrite))
		check_rewrite_into(rel);
	if (unlikely(OidIsValid(tree->shared->logged_by)) && !OidIsValid(tree->shared->fed_by))
		require_admitted(rel, tree->shared->logged_by);
	else if (OidIsValid(rose_tree_written_by(tree->shared)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write to table \"%s\" because a subscription feeds it",
						RelationGetRelationName(rel)),
				 errhint("Write on the upstream, or end the replication with rose.drop_subscription(). If the subscription belongs to the database that this one was copied from, call rose.detach().")));
	return tree;
}

/* A serialization failure says more than the duplicate that it leads to. */
static void
check_readers_of_duplicate(RoseTree *tree, const Datum *values)
{
	Datum		key[INDEX_MAX_KEYS];

	rose_key_from_values(tree->schema, values, 0, key);
	rose_predicate_written(tree, key);
}

static void
report_duplicate(RoseTree *tree, const Datum *values, const bool *nulls,
				 const RoseDuplicate *duplicate)
{
	if (OidIsValid(duplicate->indexid))
		rose_duplicate_key_report_index(tree->rel, duplicate->indexid, duplicate->description);
	check_readers_of_duplicate(tree, values);
	rose_duplicate_key_report_row(tree->rel, values, nulls);
}

/*
 * Index of whose entries the executor may know nothing: it is built or dropped beside
 * writers, and not in all lists of indexes that statements have.
 */
static bool
is_unknown_index(RoseTree *tree, Oid indexid)
{
	const RoseIndexTree *index = OidIsValid(indexid) ? rose_index_set_tree(tree, indexid) : NULL;

	return index != NULL && !index->valid;
}

/* ---- insert ---- */

/* Insert and wait, or fail. */
static void
insert_row(RoseTree *tree, TupleTableSlot *slot, CommandId cid)
{
	Relation	rel = tree->rel;
	RoseDuplicate duplicate;

	if (rose_insert(tree, slot->tts_values, slot->tts_isnull, cid, false, &slot->tts_tid,
					&duplicate) != ROSE_INSERT_OK)
		report_duplicate(tree, slot->tts_values, slot->tts_isnull, &duplicate);
	rose_slot_written(slot, tree, cid);
	pgstat_count_heap_insert(rel, 1);
}

void
rose_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				  struct BulkInsertStateData *bistate)
{
	RoseTree   *tree = open_for_write(rel);

	rose_primary_key_attach(rel);
	slot_getallattrs(slot);
	insert_row(tree, slot, cid);
}

/*
 * A duplicate key is reported when the executor inserts the index entry of that
 * row, so that COPY names its line.
 */
void
rose_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				  int options, struct BulkInsertStateData *bistate)
{
	RoseTree   *tree = open_for_write(rel);
	Datum	  **values = palloc(nslots * sizeof(Datum *));
	bool	  **nulls = palloc(nslots * sizeof(bool *));
	ItemPointer tids = palloc(nslots * sizeof(ItemPointerData));
	int			ndone = 0;
	RoseDuplicate duplicate;
	RoseInsertResult result;

	rose_primary_key_attach(rel);
	for (int i = 0; i < nslots; i++)
	{
		slot_getallattrs(slots[i]);
		values[i] = slots[i]->tts_values;
		nulls[i] = slots[i]->tts_isnull;
	}
	result = rose_insert_many(tree, values, nulls, nslots, cid, tids, &ndone, &duplicate);
	for (int i = 0; i < nslots; i++)
	{
		if (i < ndone)
			slots[i]->tts_tid = tids[i];
		else
			rose_tid_set_not_inserted(tree, duplicate.indexid, &slots[i]->tts_tid);
		rose_slot_written(slots[i], tree, cid);
	}
	if (result != ROSE_INSERT_OK)
	{
		if (unlikely(is_unknown_index(tree, duplicate.indexid)))
			report_duplicate(tree, values[ndone], nulls[ndone], &duplicate);
		check_readers_of_duplicate(tree, values[ndone]);
		rose_primary_key_set_duplicate(rel);
	}
	pgstat_count_heap_insert(rel, nslots);
	pfree(values);
	pfree(nulls);
	pfree(tids);
}

/* Until no other row has the new one's value in this index, or an error. */
static void
wait_for_value(Relation rel, Oid indexid, TupleTableSlot *slot)
{
	RoseTree   *tree = rose_tree_open(rel);
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	EState	   *estate;
	Relation	index;

	if (rose_index_set_tree(tree, indexid) == NULL)
		return;
	estate = CreateExecutorState();
	GetPerTupleExprContext(estate)->ecxt_scantuple = slot;
	index = index_open(indexid, RowExclusiveLock);
	FormIndexDatum(BuildIndexInfo(index), slot, estate, values, nulls);
	rose_unique_recheck_value(tree, index, values, nulls);
	index_close(index, NoLock);
	FreeExecutorState(estate);
}

/* True: there is a conflict with what the executor will look at, and nothing was written. */
static bool
insert_speculatively(RoseTree *tree, TupleTableSlot *slot, CommandId cid, RoseDuplicate *duplicate)
{
	while (rose_insert(tree, slot->tts_values, slot->tts_isnull, cid, true, &slot->tts_tid,
					   duplicate) != ROSE_INSERT_OK)
	{
		if (likely(!is_unknown_index(tree, duplicate->indexid)))
			return true;
		wait_for_value(tree->rel, duplicate->indexid, slot);
	}
	return false;
}

/* Core looks for the other row by what the session's settings make of the new one, if it does: it would find none, again and again. */
static void
check_arbiter(Oid indexid)
{
	Relation	index;

	if (!OidIsValid(indexid))
		return;
	index = index_open(indexid, NoLock);
	rose_index_settings_check_arbiter(index);
	index_close(index, NoLock);
}

/*
 * ON CONFLICT.  The key, and values of unique indexes, are checked and written in one step,
 * so there is no tentative row that others could wait for.  A conflict is reported by the
 * aminsert that follows, and the executor looks at the other row again.
 */
void
rose_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
							  int options, struct BulkInsertStateData *bistate,
							  uint32 token)
{
	RoseTree   *tree = open_for_write(rel);
	RoseDuplicate duplicate;

	rose_primary_key_attach(rel);
	slot_getallattrs(slot);
	speculation_cid = cid;
	if (insert_speculatively(tree, slot, cid, &duplicate))
	{
		check_arbiter(duplicate.indexid);
		rose_primary_key_set_conflict(rel, &duplicate.indexid);
		rose_tid_set_not_inserted(tree, duplicate.indexid, &slot->tts_tid);
		return;
	}
	rose_primary_key_set_conflict(rel, NULL);
	rose_slot_written(slot, tree, cid);
	pgstat_count_heap_insert(rel, 1);
}

/*
 * If the insertion met a conflict and core does not know, no arbiter was asked, because the
 * row is not to have an entry there: then it is an insertion as any other.
 */
void
rose_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token,
								bool succeeded)
{
	bool		failed = !rose_tid_is_inserted(&slot->tts_tid);

	rose_primary_key_set_conflict(rel, NULL);
	if (!succeeded && !failed)
		rose_insert_abort_speculative(rose_tree_open(rel), &slot->tts_tid, speculation_cid);
	else if (succeeded && failed)
		insert_row(rose_tree_open(rel), slot, speculation_cid);
}

/* ---- delete, update, lock ---- */

TM_Result
rose_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
				  Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
				  bool changing_part)
{
	RoseTree   *tree = open_for_write(rel);
	RoseChange	change = {*tid, cid, crosscheck, wait, tmfd};
	TM_Result	result = rose_delete(tree, &change, changing_part);

	if (result == TM_Ok)
		pgstat_count_heap_delete(rel);
	return result;
}

/*
 * The row that was locked last, by its command.  Who updates it then, as ON CONFLICT DO
 * UPDATE does, finds his own lock in the new row's xmax: statements ask RETURNING for xmax = 0
 * to tell rows that were inserted from those that were there.
 */
static struct
{
	Oid			relid;
	ItemPointerData tid;
	CommandId	cid;
	LocalTransactionId lxid;
}			last_locked;

static void
note_locked(Relation rel, const ItemPointerData *tid, CommandId cid)
{
	last_locked.relid = RelationGetRelid(rel);
	last_locked.tid = *tid;
	last_locked.cid = cid;
	last_locked.lxid = rose_my_lxid();
}

static bool
was_locked(Relation rel, const ItemPointerData *tid, CommandId cid)
{
	return last_locked.relid == RelationGetRelid(rel) &&
		ItemPointerEquals(&last_locked.tid, unconstify(ItemPointerData *, tid)) &&
		last_locked.cid == cid && last_locked.lxid == rose_my_lxid();
}

TM_Result
rose_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				  Snapshot snapshot, Snapshot crosscheck, bool wait,
				  TM_FailureData *tmfd, LockTupleMode *lockmode,
				  RoseUpdateIndexes *update_indexes)
{
	RoseTree   *tree = open_for_write(rel);
	RoseChange	change = {*otid, cid, crosscheck, wait, tmfd};
	RoseUpdated updated;
	TM_Result	result;

	/* entries are written, and uniqueness is checked, by rose_update */
	*update_indexes = ROSE_UPDATE_NO_INDEXES;
	slot_getallattrs(slot);
	result = rose_update(tree, &change, slot->tts_values, slot->tts_isnull, &updated);
	*lockmode = updated.lockmode;
	if (updated.duplicate)
		report_duplicate(tree, slot->tts_values, slot->tts_isnull, &updated.which);
	if (result == TM_Ok)
	{
		if (unlikely(updated.recheck))
		{
			rose_primary_key_attach(rel);
			*update_indexes = ROSE_UPDATE_ALL_INDEXES;
		}
		slot->tts_tid = updated.tid;
		rose_slot_written(slot, tree, cid);
		if (was_locked(rel, &change.tid, cid))
			rose_slot_replaces_locked(slot);
		rose_pgstat_count_update(rel);
	}
	return result;
}

/* A row lock is not a write to the table, so fed tables allow it. */
TM_Result
rose_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
				CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy,
				uint8 flags, TM_FailureData *tmfd)
{
	RoseTree   *tree;
	RoseLookup *lookup;
	const RoseRow *row;
	ItemPointerData newest;
	TM_Result	result;

	rose_foreign_refuse_change(RelationGetRelationName(rel));
	tree = rose_tree_open(rel);
	lookup = rose_lookup_cached(tree);
	tmfd->traversed = false;
	result = rose_lock_row(tree, lookup, tid, cid, mode, wait_policy, flags,
						   &row, &newest, tmfd);
	/* the caller goes on with the version that was locked, or looks why it was not */
	if (result == TM_Ok)
	{
		*tid = newest;
		note_locked(rel, tid, cid);
	}
	if (row)
		rose_slot_store_shared(slot, tree, row, &newest);
	return result;
}
