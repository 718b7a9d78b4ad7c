/*-------------------------------------------------------------------------
 *
 * rose_tidy.c
 *	  Merges in the process that writes, where no worker does them, or can.
 *
 * A table that its transaction has locked, or has just made, is out of the worker's reach,
 * and a temporary one always.  Its private runs would pile up: so who has spilled joins
 * them, and splits those of which some transactions have committed.  Without a worker, or
 * with so many components that a spill would leave no room in the manifest, he merges
 * what is committed, too.
 *
 * What is merged is the picker's decision (rose_picker.c).  What becomes of a private run
 * when its transactions have ended is in rose_settle.c.
 *
 * Locking: ROSE_LOCK_SPILL while entries are changed; ROSE_LOCK_MERGE while runs are
 * joined.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_picker.h"
#include "lsm/merge/rose_settle.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"

/* So many components: merges cannot be left to others. */
#define MANY_COMPONENTS		(ROSE_MAX_COMPONENTS / 2)

/* What a spill makes of a memtable: one of committed rows, and a private one. */
#define SPILL_RUNS			2

/* ---- without a worker ---- */

/*
 * Which private runs may be put together, if changes of columns may be rolled back in
 * part.  Of those whose columns were taken back nothing is left.
 */
static const int16 *
columns_of_runs(RoseTree *tree, const RosePickInput *input, int16 *natts)
{
	for (int i = 0; i < input->ncomponents; i++)
	{
		natts[i] = -1;
		if (input->components[i].flags & ROSE_COMPONENT_PRIVATE)
		{
			const RoseComponentInfo *info =
				rose_component_info(rose_view_component_of(tree, &input->components[i]));

			natts[i] = info->keys_only ? -1 : (int16) info->natts;
		}
	}
	return natts;
}

/*
 * False: there is nothing to join, nor to split; nor to merge, where that is our
 * business, too, because no worker comes and there are many components.
 */
static bool
tidy_runs(RoseTree *tree, bool worker, const RoseSpillSchemas *schemas, MemoryContext context)
{
	int16		natts[ROSE_MAX_COMPONENTS];
	RosePickInput input;
	RosePickFlags flags;
	RosePickResult pick;
	RoseMerge  *merge;

	rose_pick_input(tree, &input, &flags);
	if (schemas->apart)
		input.natts = columns_of_runs(tree, &input, natts);
	pick = rose_pick_merge(&input);
	if (!pick.merge ||
		(pick.kind == ROSE_PICK_MERGE &&
		 (worker || (input.ncomponents < MANY_COMPONENTS && !tree->local))) ||
		(pick.kind != ROSE_PICK_JOIN && rose_altered_before_commit(tree)))
		return false;
	if (schemas->apart && pick.kind == ROSE_PICK_JOIN && pick.natts >= 0)
		pick.schema = rose_altered_class_schema(schemas, pick.natts, context);
	merge = rose_merge_begin(tree, &pick, false);
	if (merge == NULL)
		return false;
	(void) rose_merge_step(merge, tree, 0);
	rose_merge_end(merge, tree);
	return true;
}

/*
 * A worker that was merging the table when we locked it cannot go on, and keeps the lock.
 * It gives way when somebody waits for that, and loses what it has; so wait only if it is
 * time.
 */
bool
rose_tidy_own_runs(RoseTree *tree, bool worker)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	bool		many = tree->local || manifest->ncomponents >= MANY_COMPONENTS;
	MemoryContext context;
	RoseSpillSchemas schemas;
	bool		done = false;

	if (!rose_manifest_has_private_runs(manifest) && (worker || !many))
		return false;
	if (!ConditionalLockPage(tree->rel, ROSE_LOCK_MERGE, ExclusiveLock))
	{
		if (!many)
			return false;
		LockPage(tree->rel, ROSE_LOCK_MERGE, ExclusiveLock);
	}
	rose_claims_drop(&tree->shared->claims);
	context = AllocSetContextCreate(CurrentMemoryContext, "rose tidy schemas",
									ALLOCSET_SMALL_SIZES);
	if (rose_altered_schemas(tree, context, &schemas))
	{
		if (many)
			rose_settle_private_runs(tree);
		while (tidy_runs(tree, worker, &schemas, context))
		{
			CHECK_FOR_INTERRUPTS();
			done = true;
		}
	}
	MemoryContextDelete(context);
	UnlockPage(tree->rel, ROSE_LOCK_MERGE, ExclusiveLock);
	return done;
}

/* To wait for the merges of a table that a worker looks after would keep a subscription's stream waiting. */
bool
rose_tidy_full_manifest(RoseTree *tree)
{
	if (rose_spill_has_room(tree))
		return true;
	if (OidIsValid(tree->shared->fed_by) && rose_request_spill_hook != NULL &&
		rose_tree_manifest(tree)->ncomponents <= ROSE_MAX_COMPONENTS - SPILL_RUNS &&
		rose_request_spill_hook(rose_locator_db(tree->locator)))
		return false;
	return rose_tidy_own_runs(tree, false) || rose_spill_has_room(tree);
}
