/*-------------------------------------------------------------------------
 *
 * rose_recover.c
 *	  What happens when a table is touched for the first time after a start of
 *	  the server.
 *
 * Pending runs are settled: the subscription's epoch was committed, then the run becomes
 * live; or it was not, then the run goes, and the stream brings its rows again.  The tail
 * log is replayed into C0, without what aborted.  The sequence goes on behind everything
 * that was ever seen.  A tail log in which all has aborted is dropped.
 *
 * Who comes first may be an ALTER TABLE that has changed the catalog already and is to
 * rewrite the rows.  So they are taken apart as the tail log says, and compared by the
 * metapage's key.
 *
 * Private runs whose owner aborted are left for merges, which drop them.
 *
 * Filling C0 is done in parts and can be interrupted; the next one who touches the table
 * goes on (rose_recover_c0.c).  Before the restart C0 may have used all of the arena, or
 * there was a larger one.  What does not fit goes to runs, past memory
 * (rose_recover_runs.c).  Only if the manifest has no room for those are spills of others
 * waited for.
 *
 * If components are sorted by other versions of collations than the server has, nothing
 * can be done with the table before REINDEX, which reads the tail log itself; so that is
 * left where it is, and takes no memory.
 *
 * Locking: ROSE_LOCK_RECOVER, a heavyweight lock, keeps others out, so whoever waits for
 * a recovery can be cancelled, too.  It does not keep the processes of one parallel query
 * from each other, since locks of one group do not conflict; so who has it also notes in
 * the entry that he is at work (claim).  An error leaves the entry as not recovered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/transam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "store/rose_tail.h"
#include "store/rose_tail_replay.h"
#include "lsm/tree/rose_adopt.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_file_rows.h"
#include "lsm/tree/rose_recover_internal.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_relation.h"

/* When neither arena nor manifest has room: how often and how long to wait for spills and merges of others. */
#define ROSE_RECOVER_TRIES		100
#define ROSE_RECOVER_WAIT_MS	100

/* How long to wait for a process of the same group before the next look. */
#define ROSE_GROUP_WAIT_MS		10

RoseEpochCommittedHook rose_epoch_committed_hook = NULL;

/* How the file is to be read: found before ROSE_LOCK_RECOVER is taken, because it takes looks into catalogs. */
typedef struct FileReading
{
	RoseSchema *schema;
	RoseMetaInfo meta;			/* only what it says of key and columns */
	bool		adopt;			/* the metapage is to be told that */
	bool		other_order;	/* components are sorted by other versions of collations */
	bool		again;			/* that was thought, and is not so */
} FileReading;

/* Pending runs, and whether their epoch is committed. */
typedef struct PendingVerdicts
{
	int			n;
	uint32		id[ROSE_MAX_COMPONENTS];
	bool		committed[ROSE_MAX_COMPONENTS];
} PendingVerdicts;

/*
 * Ask about pending runs, which may need a look into catalogs.  So this comes
 * before ROSE_LOCK_RECOVER is taken; no new pending run can come up until the table is
 * recovered.
 */
static void
judge_pending(RoseTree *tree, PendingVerdicts *verdicts)
{
	RoseManifest manifest;

	verdicts->n = 0;
	rose_manifest_read(tree->rel, &manifest);
	for (int i = 0; i < manifest.ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest.components[i];

		if (entry->state != ROSE_COMPONENT_PENDING)
			continue;
		if (rose_epoch_committed_hook == NULL)
			elog(ERROR, "nobody can tell whether epoch " UINT64_FORMAT " of subscription %u is committed",
				 entry->epoch, entry->subid);
		verdicts->id[verdicts->n] = entry->id;
		verdicts->committed[verdicts->n] =
			rose_epoch_committed_hook(entry->subid, entry->epoch);
		verdicts->n++;
	}
}

static bool
is_committed(const PendingVerdicts *verdicts, uint32 id)
{
	for (int i = 0; i < verdicts->n; i++)
	{
		if (verdicts->id[i] == id)
			return verdicts->committed[i];
	}
	elog(ERROR, "pending component %u appeared while its table was recovered", id);
	return false;
}

/* Make pending runs live or remove them.  REQUIRES: ROSE_LOCK_RECOVER. */
static void
settle_pending(RoseTree *tree, const RoseManifest *manifest,
			   const PendingVerdicts *verdicts)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		if (entry->state != ROSE_COMPONENT_PENDING)
			continue;
		if (is_committed(verdicts, entry->id))
			rose_edit_make_live(edit, entry);
		else
			rose_edit_remove(edit, entry->id);
	}
	if (rose_edit_has_components(edit))
		rose_manifest_apply(tree->rel, &tree->shared->store, edit);
	pfree(edit);
}

/* ---- tail log ---- */

/* Into C0, or else to runs.  retry: there was no room for either before. */
static bool
replay_tail(RoseTree *tree, const FileReading *reading, const RoseMetaInfo *meta,
			uint64 next_seq, bool retry)
{
	return rose_recover_c0(tree, reading->schema, meta, next_seq, retry, reading->again) ||
		rose_recover_runs(tree, reading->schema, meta, next_seq);
}

/* Nobody can use the tail log.  REQUIRES: ROSE_LOCK_RECOVER. */
static void
leave_tail(RoseTree *tree, const RoseMetaInfo *meta, uint64 next_seq)
{
	RoseC0Shared *c0 = &tree->shared->c0;

	rose_c0_write_begin(c0);
	rose_recover_feeding(tree->shared, meta);
	rose_c0_set_next_sequence(c0, next_seq);
	rose_c0_write_end(c0);
}

/* Before anything is written to it.  REQUIRES: ROSE_LOCK_RECOVER. */
static void
attach(RoseTree *tree)
{
	RoseC0Shared *c0 = &tree->shared->c0;

	rose_store_attach(tree->rel, &tree->shared->store);
	if (!rose_relation_is_index(tree->rel))
		return;
	rose_c0_write_begin(c0);
	rose_c0_set_unnumbered(c0);
	rose_c0_write_end(c0);
}

/* REQUIRES: ROSE_LOCK_RECOVER.  False if there is no room for what the tail log has. */
static bool
try_recover(RoseTree *tree, const FileReading *reading, const PendingVerdicts *verdicts,
			bool retry)
{
	RoseTreeShared *shared = tree->shared;
	RoseMetaInfo meta;
	RoseManifest manifest;
	uint64		next_seq;

	if (!reading->again)
		attach(tree);
	rose_meta_read(tree->rel, &meta);
	shared->copied_by = meta.copied_by;
	shared->incomplete = meta.of_index && (meta.index.flags & ROSE_INDEX_INCOMPLETE) != 0;
	rose_manifest_read(tree->rel, &manifest);
	next_seq = Max(meta.next_seq, ROSE_SEQ_FIRST);
	for (int i = 0; i < manifest.ncomponents; i++)
		next_seq = Max(next_seq, manifest.components[i].max_seq + 1);

	if (!reading->again)
		settle_pending(tree, &manifest, verdicts);
	ROSE_STOP_POINT("recover-settled"); /* no LWLock */
	if (reading->adopt)
		rose_meta_adopt(tree->rel, &reading->meta);
	if (reading->other_order)
		leave_tail(tree, &meta, next_seq);
	else if (!replay_tail(tree, reading, &meta, next_seq, retry))
		return false;
	ROSE_STOP_POINT("recover-replayed");	/* no LWLock */

	shared->hash_functions = reading->schema->hash_functions;
	pg_write_barrier();			/* what the tail log has before the table can be used */
	shared->other_order = reading->other_order;
	pg_write_barrier();
	shared->recovered = true;
	return true;
}

static void
report_no_room(RoseTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not load the unmerged changes of table \"%s\" into memory",
					RelationGetRelationName(tree->rel)),
			 errdetail("Memtables of other tables hold %zu of %zu kB, and the table has too many components for another one.",
					   rose_arena_used_bytes() / 1024, rose_arena_total_bytes() / 1024),
			 errhint("Try again when other tables were spilled, or increase rose.memtable_size and restart the server.")));
}

/* The first columns of a file are those that it was made with. */
static void
check_layout(RoseTree *tree, const RoseMetaInfo *meta, const RoseLayout *layout)
{
	if (meta->layout_natts > layout->natts ||
		(meta->layout_natts > 0 &&
		 rose_layout_physical(layout, meta->layout_natts) != meta->layout_physical))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file of table \"%s\" stores its columns in another way than the catalog says",
						RelationGetRelationName(tree->rel)),
				 errhint("Restore the catalog and the table's file from the same backup.")));
}

/*
 * How to take apart the rows of the tail log, or those that it begins with.  One of a
 * release that did not write it down is read by the catalog, as long as that is still the
 * one that it was written by.
 */
static RoseSchema *
schema_of_tail(RoseTree *tree, const RoseMetaInfo *meta, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		altered = rose_altered_just_now(tree->rel);
	bool		mine = tree->rel->rd_createSubid != InvalidSubTransactionId;
	bool		told;
	RoseLayout *layout = rose_tail_first_layout(tree->rel, &told);
	RoseSchema *schema;

	if (!told && altered)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot alter table \"%s\" before it has been read",
						RelationGetRelationName(tree->rel)),
				 errdetail("Its tail log has format version %u, which does not say how rows are stored; from version %u on it does.",
						   ROSE_TAIL_UNTOLD_VERSION, ROSE_TAIL_UNTOLD_VERSION + 1),
				 errhint("Read a row of the table, or call rose.spill() for it, in a transaction before.")));
	schema = rose_file_schema(tree->rel, layout && !meta->of_index ? rose_layout_tupdesc(layout) : NULL,
							  meta, context);
	/*
	 * Who has made the table may have altered it before it is opened. pg_upgrade makes
	 * tables whose descriptors it mends afterwards, and replaces their files.
	 */
	if (!altered && !mine && !IsBinaryUpgrade)
		check_layout(tree, meta, rose_layout_make(rose_file_descriptor(tree->rel, meta)));
	MemoryContextSwitchTo(old);
	return schema;
}

static void
take_facts(FileReading *reading, const RoseKeyFacts *now)
{
	uint32		hashed = reading->meta.facts.hashed;

	reading->meta.facts = *now;
	reading->meta.facts.hashed = hashed;
	reading->adopt = true;
}

/*
 * C0 is sorted anew.  Components are as they are; without any, the present versions are
 * the file's, unless keys that were different may be equal now.  An ALTER TABLE under way
 * may have changed what the key's columns are.
 */
static void
look_at_order(RoseTree *tree, FileReading *reading)
{
	TupleDesc	tupdesc;
	const RoseMetaInfo *meta = &reading->meta;
	RoseKeyFacts now;
	RoseManifest manifest;

	/* a file of this transaction has been told the present versions, and may have columns that were not there before */
	if (meta->nkeys == 0 ||
		rose_rel_new_file_subid(tree->rel) != InvalidSubTransactionId)
		return;
	tupdesc = rose_altered_descriptor_before(tree->rel);
	if (tupdesc == NULL)
		tupdesc = rose_file_descriptor(tree->rel, meta);
	rose_key_facts_make(tupdesc, meta->nkeys, meta->keys, &now);
	if (now.order == meta->facts.order)
		return;
	rose_manifest_read(tree->rel, &manifest);
	reading->other_order = manifest.ncomponents > 0 ||
		(meta->ntails > 0 &&
		 !rose_key_equality_is_fixed(tupdesc, meta->nkeys, meta->keys));
	if (!reading->other_order)
		take_facts(reading, &now);
}

static bool
is_recovered(const RoseTreeShared *shared, const FileReading *reading)
{
	return reading->again ? !shared->other_order : shared->recovered;
}

static void
wait_a_while(int ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Be the one who recovers the table; false if another process of this group is.  What a
 * process has left that ended at its work does not count.  REQUIRES: ROSE_LOCK_RECOVER.
 */
static bool
claim(RoseTreeShared *shared)
{
	uint64		holder = 0;
	uint32		incarnation;
	int			slot;

	rose_pin_whoami(&slot, &incarnation);
	while (!pg_atomic_compare_exchange_u64(&shared->replay.worker, &holder,
										   ((uint64) slot + 1) << 32 | incarnation))
	{
		if (holder != 0 && rose_pin_is_alive((int) (holder >> 32) - 1, (uint32) holder))
			return false;
	}
	return true;
}

/* try_recover by one process at a time.  REQUIRES: ROSE_LOCK_RECOVER. */
static bool
try_recover_alone(RoseTree *tree, const FileReading *reading, const PendingVerdicts *verdicts,
				  bool retry)
{
	volatile bool done = false;

	while (!claim(tree->shared))
		wait_a_while(ROSE_GROUP_WAIT_MS);
	PG_TRY();
	{
		done = is_recovered(tree->shared, reading) ||
			try_recover(tree, reading, verdicts, retry);
	}
	PG_FINALLY();
	{
		(void) pg_atomic_exchange_u64(&tree->shared->replay.worker, 0);
	}
	PG_END_TRY();
	return done;
}

/* Until it is done; what fits nowhere waits for spills and merges of others. */
static void
recover(RoseTree *tree, const FileReading *reading, const PendingVerdicts *verdicts)
{
	for (int i = 0; i < ROSE_RECOVER_TRIES; i++)
	{
		bool		done;

		LockPage(tree->rel, ROSE_LOCK_RECOVER, ExclusiveLock);
		done = try_recover_alone(tree, reading, verdicts, i > 0);
		UnlockPage(tree->rel, ROSE_LOCK_RECOVER, ExclusiveLock);
		if (done)
			return;
		wait_a_while(ROSE_RECOVER_WAIT_MS);
	}
	report_no_room(tree);
}

bool
rose_recovery_is_under_way(Relation rel)
{
	if (!ConditionalLockPage(rel, ROSE_LOCK_RECOVER, ExclusiveLock))
		return true;
	UnlockPage(rel, ROSE_LOCK_RECOVER, ExclusiveLock);
	return false;
}

void
rose_recover_table(RoseTree *tree)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose recovery",
												  ALLOCSET_SMALL_SIZES);
	FileReading reading = {0};
	PendingVerdicts verdicts;

	rose_meta_read(tree->rel, &reading.meta);
	reading.adopt = rose_adopt_plan(tree->rel, &reading.meta);
	look_at_order(tree, &reading);
	reading.schema = schema_of_tail(tree, &reading.meta, context);
	judge_pending(tree, &verdicts);
	ROSE_STOP_POINT("recover-judged");
	recover(tree, &reading, &verdicts);
	MemoryContextDelete(context);
}

void
rose_tree_note_order(RoseTree *tree)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose recovery",
												  ALLOCSET_SMALL_SIZES);
	FileReading reading = {0};
	PendingVerdicts verdicts = {0};
	RoseKeyFacts now;

	rose_meta_read(tree->rel, &reading.meta);
	rose_key_facts_make(rose_file_descriptor(tree->rel, &reading.meta), reading.meta.nkeys,
						reading.meta.keys, &now);
	take_facts(&reading, &now);
	reading.again = true;
	reading.schema = schema_of_tail(tree, &reading.meta, context);
	recover(tree, &reading, &verdicts);
	MemoryContextDelete(context);
}
