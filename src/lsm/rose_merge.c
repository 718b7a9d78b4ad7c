/*-------------------------------------------------------------------------
 *
 * rose_merge.c
 *	  Merges: several components become one.
 *
 * A merge reads its inputs through a merge cursor and writes one component. It
 * may run for hours, so it is cut into steps, each in a transaction of its
 * own; between two steps it holds no table lock, no snapshot and no pin.  What
 * keeps it going:
 *
 *	- a lock on ROSE_LOCK_MERGE, held by the session: one process merges a table
 *	- its inputs stay in the manifest, since only merges take live components
 *	out; each step checks
 *	- the owner of its output is listed as being built until it is published
 *	- all its memory, schema included, is its own
 *
 * DROP, TRUNCATE and ALTER do not wait for it: the next step finds another
 * file or another registry entry and gives up.
 *
 * Two kinds.  The ordinary merge drops versions that nobody can see and takes
 * only committed versions.  The other joins private runs of one transaction in
 * progress, row by row, so that a transaction of any size makes few runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_maintain.h"

#include "access/transam.h"
#include "lsm/rose_compactor.h"
#include "lsm/rose_horizon.h"
#include "lsm/rose_merge_cursor.h"
#include "lsm/rose_private.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "util/rose_stop_point.h"
#include "utils/memutils.h"

/* Versions between two looks at the clock. */
#define CLOCK_EVERY			256

struct RoseMerge
{
	MemoryContext context;
	RelFileLocator locator;
	uint64		incarnation;	/* of the table's registry entry */
	LOCKTAG		lock;
	bool		keep;			/* lives across transactions: session lock */
	RoseSchema *schema;
	uint64		owner_xid;		/* joins private runs of this transaction */
	int			target_level;
	int			ninputs;
	RoseComponentEntryDisk inputs[ROSE_MAX_COMPONENTS];
	RoseComponent *components[ROSE_MAX_COMPONENTS];
	BufferAccessStrategy strategy;
	RoseMergeCursor *cursor;

	/* one of them */
	RoseCompactor *compactor;
	RoseComponentBuilder *builder;

	/* last subtransaction asked about */
	TransactionId last_subxid;
	bool		last_committed;

	uint64		nread;
	uint64		total;
	bool		finished;		/* output is complete */
	bool		has_output;
	RoseComponentEntryDisk output;
};

/* ---- lock ---- */

static bool
lock_merges(Relation rel, bool keep, LOCKTAG *tag)
{
	SET_LOCKTAG_PAGE(*tag, rel->rd_lockInfo.lockRelId.dbId,
					 rel->rd_lockInfo.lockRelId.relId, ROSE_LOCK_MERGE);
	return LockAcquire(tag, ExclusiveLock, keep, keep) != LOCKACQUIRE_NOT_AVAIL;
}

static void
unlock_merges(const LOCKTAG *tag, bool keep)
{
	LockRelease(tag, ExclusiveLock, keep);
}

/* ---- begin ---- */

static const RoseComponentEntryDisk *
find_entry(const RoseManifest *manifest, uint32 id)
{
	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].id == id)
			return &manifest->components[i];
	return NULL;
}

/* The inputs' entries; 0 if one of them is not what it was when it was picked. */
static int
collect_inputs(const RoseManifest *manifest, const RosePickResult *pick,
			   RoseComponentEntryDisk *inputs)
{
	for (int i = 0; i < pick->ninputs; i++)
	{
		const RoseComponentEntryDisk *entry = find_entry(manifest, pick->inputs[i]);

		if (entry == NULL)
			return 0;
		if (pick->owner_xid == 0 ? !rose_component_mergeable(entry) :
			!(entry->flags & ROSE_COMPONENT_PRIVATE) || entry->owner_xid != pick->owner_xid)
			return 0;
		inputs[i] = *entry;
	}
	return pick->ninputs;
}

/* Is everything from the newest input on an input? */
static bool
is_bottom(const RoseManifest *manifest, int ninputs, const RoseComponentEntryDisk *inputs)
{
	int			n = manifest->ncomponents;

	for (int i = 0; i < ninputs; i++)
		if (manifest->components[n - ninputs + i].id != inputs[i].id)
			return false;
	return true;
}

/* A single component that only changes its level need not be rewritten. */
static bool
try_move(RoseTable *table, const RosePickResult *pick, const RoseComponentEntryDisk *input)
{
	RoseManifestEdit *edit;

	if (input->level == pick->target_level || (input->flags & ROSE_COMPONENT_PRIVATE) ||
		input->ntombstones > 0)
		return false;
	edit = palloc0(sizeof(RoseManifestEdit));
	edit->update[0] = *input;
	edit->update[0].level = pick->target_level;
	edit->nupdate = 1;
	rose_manifest_apply(table->rel, &table->shared->store, edit);
	pfree(edit);
	return true;
}

/* Nothing would be different after it. */
static bool
is_pointless(const RosePickResult *pick, int ninputs, const RoseComponentEntryDisk *inputs)
{
	if (ninputs == 0)
		return true;
	if (pick->owner_xid != 0)
		return ninputs < 2;
	return ninputs == 1 && inputs[0].level == pick->target_level &&
		inputs[0].ntombstones == 0 && (inputs[0].flags & ROSE_COMPONENT_UNIQUE_KEYS) &&
		!(inputs[0].flags & ROSE_COMPONENT_PRIVATE);
}

static void
open_output(RoseMerge *merge, RoseTable *table, bool bottom)
{
	RoseStoreShared *store = &table->shared->store;
	int			options = merge->keep ? ROSE_BUILD_KEEP : 0;

	if (merge->owner_xid != 0)
		merge->builder = rose_component_builder_create(table->rel, store, merge->schema,
													   merge->total,
													   options | ROSE_BUILD_PRIVATE,
													   merge->context);
	else
		merge->compactor = rose_compactor_create(table->rel, store, merge->schema,
												 merge->total, options,
												 rose_horizon(table->rel), bottom,
												 merge->context);
}

static RoseMerge *
make_merge(RoseTable *table, const RosePickResult *pick, bool keep)
{
	MemoryContext context = AllocSetContextCreate(keep ? TopMemoryContext : CurrentMemoryContext,
												  "rose merge", ALLOCSET_DEFAULT_SIZES);
	RoseMerge  *merge = MemoryContextAllocZero(context, sizeof(RoseMerge));

	merge->context = context;
	merge->locator = table->locator;
	merge->incarnation = table->incarnation;
	merge->keep = keep;
	merge->owner_xid = pick->owner_xid;
	merge->target_level = pick->target_level;
	return merge;
}

static void
open_inputs(RoseMerge *merge, RoseTable *table)
{
	MemoryContext old = MemoryContextSwitchTo(merge->context);

	merge->schema = rose_table_copy_schema(table, merge->context);
	merge->strategy = GetAccessStrategy(BAS_BULKREAD);
	for (int i = 0; i < merge->ninputs; i++)
	{
		merge->components[i] = rose_component_open(table->rel, merge->schema,
												   &merge->inputs[i], merge->context);
		merge->total += merge->inputs[i].nrows;
	}
	merge->cursor = rose_merge_cursor_create(table->rel, merge->schema, merge->ninputs,
											 merge->components, merge->strategy,
											 merge->context);
	MemoryContextSwitchTo(old);
}

RoseMerge *
rose_merge_begin(RoseTable *table, const RosePickResult *pick, bool keep)
{
	RoseMerge  *merge;
	const RoseManifest *manifest;
	LOCKTAG		lock;

	if (!lock_merges(table->rel, keep, &lock))
		return NULL;
	merge = make_merge(table, pick, keep);
	merge->lock = lock;
	manifest = rose_table_manifest(table);
	merge->ninputs = collect_inputs(manifest, pick, merge->inputs);
	if (is_pointless(pick, merge->ninputs, merge->inputs) ||
		(merge->ninputs == 1 && try_move(table, pick, &merge->inputs[0])))
	{
		unlock_merges(&lock, keep);
		MemoryContextDelete(merge->context);
		return NULL;
	}
	open_inputs(merge, table);
	open_output(merge, table, is_bottom(manifest, merge->ninputs, merge->inputs));
	ROSE_STOP_POINT("merge-begun");
	return merge;
}

/* ---- rows ---- */

static bool
subxid_committed(RoseMerge *merge, TransactionId subxid)
{
	if (subxid != merge->last_subxid)
	{
		merge->last_committed = TransactionIdDidCommit(subxid);
		merge->last_subxid = subxid;
	}
	return merge->last_committed;
}

/* One version; false at the end. */
static bool
merge_one(RoseMerge *merge)
{
	int			source;
	const RoseRow *row = rose_merge_cursor_next(merge->cursor, &source);

	if (row == NULL)
		return false;
	merge->nread++;
	if (merge->builder)
		rose_component_builder_add(merge->builder, row);
	else if (!TransactionIdIsValid(row->version.subxid) ||
			 subxid_committed(merge, row->version.subxid))
		rose_compactor_add(merge->compactor, row);
	return true;
}

/* True when all versions are read. */
static bool
merge_rows(RoseMerge *merge, int budget_ms)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	for (;;)
	{
		instr_time	now;

		for (int i = 0; i < CLOCK_EVERY; i++)
			if (!merge_one(merge))
				return true;
		CHECK_FOR_INTERRUPTS();
		if (budget_ms == 0)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if (INSTR_TIME_GET_MILLISEC(now) >= budget_ms)
			return false;
	}
}

/* ---- publishing ---- */

/* Do all inputs still stand in the manifest as they did? */
static bool
inputs_unchanged(const RoseMerge *merge, const RoseManifest *manifest)
{
	for (int i = 0; i < merge->ninputs; i++)
	{
		const RoseComponentEntryDisk *entry = find_entry(manifest, merge->inputs[i].id);

		if (entry == NULL || entry->state != merge->inputs[i].state ||
			entry->epoch != merge->inputs[i].epoch)
			return false;
	}
	return true;
}

static void
remove_inputs(const RoseMerge *merge, RoseManifestEdit *edit)
{
	for (int i = 0; i < merge->ninputs; i++)
		edit->remove[edit->nremove++] = merge->inputs[i].id;
}

static void
publish_merged(RoseMerge *merge, RoseTable *table)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	remove_inputs(merge, edit);
	if (merge->has_output)
	{
		edit->add[0] = merge->output;
		edit->add[0].level = merge->target_level;
		edit->add[0].state = ROSE_COMPONENT_LIVE;
		edit->nadd = 1;
	}
	rose_manifest_apply(table->rel, &table->shared->store, edit);
	pfree(edit);
}

/*
 * The joined private run must come before all runs that may have an older
 * version of one of its keys, and after those that may have a newer one.  As
 * long as its transaction is in progress there is none of the latter, and
 * without ROSE_LOCK_SPILL none can appear.  So it goes in front of all, and
 * then its inputs go; in between, readers find the same versions twice.
 */
static void
publish_joined(RoseMerge *merge, RoseTable *table)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));
	RoseManifest *manifest = palloc(sizeof(RoseManifest));

	LockPage(table->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	rose_manifest_read(table->rel, manifest);
	if (inputs_unchanged(merge, manifest) &&
		rose_private_state(&merge->inputs[0]) == ROSE_PRIVATE_OPEN)
	{
		const RoseComponentEntryDisk *input = &merge->inputs[0];
		RoseComponentEntryDisk *output = &edit->add[0];

		*output = merge->output;
		output->level = 0;
		output->state = input->state;
		output->flags |= input->flags & ROSE_COMPONENT_READ_PENDING;
		output->subid = input->subid;
		output->epoch = input->epoch;
		output->owner_xid = merge->owner_xid;
		edit->nadd = 1;
		rose_manifest_apply(table->rel, &table->shared->store, edit);

		ROSE_STOP_POINT("merge-joined");
		edit->nadd = 0;
		remove_inputs(merge, edit);
		rose_manifest_apply(table->rel, &table->shared->store, edit);
	}
	UnlockPage(table->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	pfree(manifest);
	pfree(edit);
}

static void
finish_output(RoseMerge *merge)
{
	if (merge->builder)
	{
		rose_component_builder_finish(merge->builder, &merge->output);
		merge->has_output = true;
	}
	else
		merge->has_output = rose_compactor_finish(merge->compactor, &merge->output);
	merge->finished = true;
}

/* ---- steps ---- */

static bool
is_same_file(const RoseMerge *merge, const RoseTable *table)
{
	return RelFileLocatorEquals(table->locator, merge->locator) &&
		table->incarnation == merge->incarnation;
}

static void
rebind(RoseMerge *merge, RoseTable *table)
{
	rose_merge_cursor_rebind(merge->cursor, table->rel);
	if (merge->builder)
		rose_component_builder_rebind(merge->builder, table->rel);
	if (merge->compactor)
		rose_compactor_rebind(merge->compactor, table->rel);
}

RoseMergeProgress
rose_merge_step(RoseMerge *merge, RoseTable *table, int budget_ms)
{
	if (!is_same_file(merge, table) ||
		!inputs_unchanged(merge, rose_table_manifest(table)))
		return ROSE_MERGE_DONE;

	if (!merge->finished)
	{
		rebind(merge, table);
		if (!merge_rows(merge, budget_ms))
			return ROSE_MERGE_MORE;
		ROSE_STOP_POINT("merge-read");
		finish_output(merge);
		ROSE_STOP_POINT("merge-built");
	}
	if (!rose_store_can_retire(&table->shared->store, merge->ninputs))
		return ROSE_MERGE_WAIT;
	if (merge->owner_xid != 0)
		publish_joined(merge, table);
	else
		publish_merged(merge, table);
	ROSE_STOP_POINT("merge-published");
	pg_atomic_fetch_add_u64(&table->shared->merges, 1);
	return ROSE_MERGE_DONE;
}

void
rose_merge_end(RoseMerge *merge, RoseTable *table)
{
	/* the shared state that lists the output may be gone */
	if (table == NULL || !is_same_file(merge, table))
		rose_owner_forget(merge->locator);
	if (merge->builder)
		rose_component_builder_free(merge->builder);
	if (merge->compactor)
		rose_compactor_free(merge->compactor);
	unlock_merges(&merge->lock, merge->keep);
	MemoryContextDelete(merge->context);
}

void
rose_merge_progress(const RoseMerge *merge, uint64 *done, uint64 *total)
{
	*done = merge->nread;
	*total = merge->total;
}

RelFileLocator
rose_merge_locator(const RoseMerge *merge)
{
	return merge->locator;
}

int
rose_merge_target_level(const RoseMerge *merge)
{
	return merge->target_level;
}

bool
rose_merge_has_input(const RoseMerge *merge, uint32 component_id)
{
	for (int i = 0; i < merge->ninputs; i++)
		if (merge->inputs[i].id == component_id)
			return true;
	return false;
}

/* ---- all at once ---- */

/*
 * All that may be merged.  Past a transaction's private run newer versions may
 * go, because they are not of its keys; past a pending run they may not.
 */
static void
pick_everything(RoseTable *table, RosePickResult *pick)
{
	const RoseManifest *manifest = rose_table_manifest(table);

	memset(pick, 0, sizeof(*pick));
	pick->merge = true;
	pick->target_level = 2;
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		if (rose_component_mergeable(entry))
			pick->inputs[pick->ninputs++] = entry->id;
		else if (entry->state != ROSE_COMPONENT_LIVE)
			pick->ninputs = 0;
	}
}

/*
 * A worker that merges the table ends first, or gives way to us: the lock is
 * waited for before anything is picked.
 */

void
rose_merge_all(RoseTable *table)
{
	RosePickResult *pick = palloc(sizeof(RosePickResult));
	RoseMerge  *merge;
	RoseMergeProgress progress = ROSE_MERGE_DONE;
	LOCKTAG		lock;

	(void) rose_spill(table, InvalidOid, 0);
	lock_merges(table->rel, false, &lock);
	rose_settle_private_runs(table);
	pick_everything(table, pick);
	merge = rose_merge_begin(table, pick, false);
	if (merge != NULL)
	{
		progress = rose_merge_step(merge, table, 0);
		rose_merge_end(merge, table);
	}
	unlock_merges(&lock, false);
	pfree(pick);
	if (progress == ROSE_MERGE_WAIT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("could not replace components of table \"%s\" because too many are still being read",
						RelationGetRelationName(table->rel)),
				 errhint("End long-running transactions that use the table, then try again.")));
}
