/*-------------------------------------------------------------------------
 *
 * rose_maintainer_merge.c
 *	  The merges of a maintenance worker: several of them take turns, step by
 *	  step.
 *
 * A merge that is worth it is left to another worker of the database for a while, if this
 * one has merges at hand and another one is idle or may be started: two tables that are
 * loaded at once are merged at once, and two merges of one table.  If nobody takes it, it
 * is begun here after all.  Which table is looked at first goes round, so that no table
 * waits for ever beside others that always have something to merge.
 *
 * A worker that has no merges helps with the pass of another one (rose_merge_help).  Who
 * has begun a large one asks for help as soon as merges of the table are behind, not
 * earlier: each process needs room in the file for what it builds.
 *
 * While merges are in time, the worker rests between their steps (rose_maintainer_rest.c).
 * One that is late, or that keeps somebody from the table, waits for no rest, nor do
 * others of the same worker.
 *
 * Locking: ROSE_LOCK_MERGE of each table, held by the session while a merge of it is
 * under way, and shared with other workers: claims tell them apart (rose_claims.h).  It
 * is never waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_backlog.h"
#include "lsm/merge/rose_settle.h"
#include "lsm/merge/rose_sift.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/write/rose_index_beside.h"
#include "worker/rose_maintainer_internal.h"

#define MERGE_STEP_MS			100 /* longest transaction of a merge, about, ... */
#define MERGE_STEP_CALM_MS		20	/* ... if it rests after it */

/* Merges that take turns, in all and of one table; and with those that wait for their tables' locks. */
#define MAX_MERGES				4
#define MAX_MERGES_OF_TABLE		2
#define MAX_MERGES_AND_WAITING	64

/*
 * A merge that reads so many blocks may be left to another worker, for so long; it is
 * looked after in such intervals.  The time is what a worker that is started needs, many
 * times over.
 */
#define LEAVE_MIN_BLOCKS		128
#define LEAVE_MS				2000
#define LEAVE_LOOK_MS			200

/* A pass over so many pieces is worth help. */
#define HELP_MIN_PIECES			4

typedef struct ActiveMerge
{
	RoseMerge  *merge;
	Oid			relid;
	TimestampTz wait_until;		/* nothing can be done before */
	bool		given_up;		/* only its end is left to be done */
	bool		is_large;		/* a pass that is worth help, and has not asked for it yet */
} ActiveMerge;

static ActiveMerge merges[MAX_MERGES_AND_WAITING];
static int	nmerges = 0;
static int	next_merge = 0;
static int	first_item = 0;		/* the table to look at first */
static bool resting = false;	/* nothing was done, for a rest */

static int
merges_of_table(RelFileLocator locator)
{
	int			n = 0;

	for (int i = 0; i < nmerges; i++)
		n += RelFileLocatorEquals(rose_merge_locator(merges[i].merge), locator);
	return n;
}

/* A locked table must not keep others from being merged. */
static bool
has_place(void)
{
	int			n = 0;

	for (int i = 0; i < nmerges; i++)
		n += merges[i].wait_until == 0;
	return n < MAX_MERGES && nmerges < MAX_MERGES_AND_WAITING;
}

/* Private runs whose transactions end without the manifest being switched. */
static void
note_open_private(RoseTree *tree, RoseTableNote *note)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);

	note->open_private = false;
	note->open_runs = 0;
	note->open_bytes = note->open_blocks = 0;
	for (int i = 0; i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];
		RosePrivateOwners owners;

		if ((entry->flags & ROSE_COMPONENT_PRIVATE) == 0)
			continue;
		(void) rose_private_owners(tree, entry, &owners);
		if (owners.nopen == 0)
			continue;
		note->open_private = true;
		note->open_runs++;
		note->open_bytes += entry->raw_bytes;
		note->open_blocks += entry->nblocks;
	}
}

/*
 * How late merges of a table are, as of the last look at it: with what transactions in
 * progress have written, merges can do nothing yet.  Their runs count if there are more
 * than usual, for they are joined.
 */
static RoseMergeUrgency
urgency_of(const RoseTableNote *note, RosePickSizes *sizes)
{
	sizes->bytes[0] -= Min(note->open_bytes, sizes->bytes[0]);
	sizes->blocks[0] -= Min(note->open_blocks, sizes->blocks[0]);
	sizes->nopen = note->open_runs;
	return rose_pick_urgency(sizes);
}

static uint64
blocks_of(const RoseManifest *manifest, const RosePickResult *pick)
{
	uint64		nblocks = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
		for (int j = 0; j < pick->ninputs; j++)
			if (manifest->components[i].id == pick->inputs[j])
				nblocks += manifest->components[i].nblocks;
	return nblocks;
}

/* Should another worker merge it? */
static bool
leave_to_others(RoseTree *tree, const RosePickResult *pick, RoseTableNote *note)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!rose_maintainer_merges_can_go_on() ||
		blocks_of(rose_tree_manifest(tree), pick) < LEAVE_MIN_BLOCKS)
		return false;
	if (note->left_since == 0)
		note->left_since = now;
	if (TimestampDifferenceExceeds(note->left_since, now, LEAVE_MS) ||
		!rose_maintainer_ask_for_help())
		return false;
	note->look_again = TimestampTzPlusMilliseconds(now, LEAVE_LOOK_MS);
	return true;
}

static ActiveMerge *
add_merge(RoseMerge *merge, Oid relid)
{
	ActiveMerge *active = &merges[nmerges++];

	memset(active, 0, sizeof(*active));
	active->merge = merge;
	active->relid = relid;
	if (nmerges == 1)
		rose_maintainer_note_merging(true);
	return active;
}

/* REQUIRES: the merge is not done. */
static void
ask_for_help_if_behind(ActiveMerge *active, RoseTree *tree)
{
	RosePickSizes sizes;

	rose_merge_sizes(tree->shared, &sizes);
	if (!active->is_large ||
		urgency_of(rose_maintainer_note(tree->shared->locator), &sizes) != ROSE_MERGES_BEHIND)
		return;
	active->is_large = false;
	rose_merge_open(active->merge, tree);
	(void) rose_maintainer_ask_for_help();
}

/*
 * Nothing is due that nobody is at.  Work on what others are at, if this worker has
 * nothing else; false if there is nothing to be done.  What dies with its process comes
 * to light by a look later on.
 */
static bool
help_others(RoseTree *tree, RoseTableNote *note, Oid relid, const RosePickResult *pick, bool busy)
{
	RoseMerge  *merge = NULL;

	if (!busy && rose_claims_count(&tree->shared->claims) == 0)
	{
		if (!note->open_private && !note->sift_later)
			pg_atomic_write_u64(&tree->shared->maintained_version, pick->version);
		return false;
	}
	note->look_again = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS);
	if (nmerges == 0)
		merge = rose_merge_help(tree);
	if (merge == NULL)
		return false;
	(void) add_merge(merge, relid);
	return true;
}

/* What is due, but for what merges under way read: that is not to be picked again, nor gone past.  Is there such? */
static bool
pick_merge(RoseTree *tree, RosePickResult *pick, RoseSiftDue due)
{
	uint64		version = rose_tree_manifest(tree)->version;
	RosePickInput input;
	RosePickFlags flags;
	bool		busy[ROSE_MAX_COMPONENTS];
	uint64		claims;

	rose_pick_input(tree, &input, &flags);
	claims = rose_claims_find(&tree->shared->claims, input.ncomponents, input.components, busy);
	input.busy = busy;
	input.stale = due == ROSE_SIFT_DUE;
	*pick = rose_pick_merge(&input);
	pick->version = version;
	pick->claims = claims;
	for (int i = 0; i < input.ncomponents; i++)
		if (busy[i])
			return true;
	return false;
}

/* Begin a merge of this table if one is due, or help with one; false if not. */
static bool
pick_and_begin(RoseTree *tree, RoseTableNote *note, Oid relid)
{
	RosePickResult pick;
	RoseMerge  *merge;
	ActiveMerge *active;
	RoseSiftDue due;
	uint64		nblocks;
	bool		busy;

	rose_settle_private_runs(tree);
	note_open_private(tree, note);
	due = rose_sift_is_due(tree, false);
	/* until a look says something else: its table is locked, or somebody else is at it, who may give up */
	note->sift_later = due != ROSE_SIFT_NOT_DUE;
	note->look_again = note->open_private || note->sift_later ?
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS) : 0;

	busy = pick_merge(tree, &pick, due);
	if (!pick.merge)
		return help_others(tree, note, relid, &pick, busy);
	note->look_again = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RECHECK_MS);
	ROSE_STOP_POINT("merge-picked");	/* it is not claimed yet */
	if (rose_merge_is_wanted_alone(tree))
	{
		note->left_since = 0;
		return false;
	}
	if (pick.kind == ROSE_PICK_MERGE &&
		rose_claims_count(&tree->shared->claims) >= MAX_MERGES_OF_TABLE)
		return false;
	if (leave_to_others(tree, &pick, note))
		return false;
	note->left_since = 0;
	nblocks = blocks_of(rose_tree_manifest(tree), &pick);
	merge = rose_merge_begin(tree, &pick, true);
	if (merge == NULL)
		return false;
	active = add_merge(merge, relid);
	active->is_large = pick.target_level == 2 && !pick.sift &&
		nblocks >= HELP_MIN_PIECES * rose_merge_piece_blocks(nblocks);
	ask_for_help_if_behind(active, tree);
	return true;
}

/* An index whose build beside writers has failed would have no C2. */
static void
give_up_failed_build(RoseTree *index)
{
	Oid			table = index->rel->rd_index->indrelid;

	if (!ConditionalLockRelationOid(table, ShareUpdateExclusiveLock))
		return;					/* it is being built, perhaps */
	rose_index_beside_give_up(index);
	UnlockRelationOid(table, ShareUpdateExclusiveLock);
}

static bool
look_at_table(const RoseRegistryItem *item)
{
	RoseTableNote *note = rose_maintainer_note(item->locator);
	RoseTree   *tree = rose_maintainer_begin(ROSE_WORK_MERGE, item->relid);
	bool		begun = false;

	if (tree != NULL)
	{
		note->manifest_version = item->manifest_version;
		note->incarnation = item->incarnation;
		if (unlikely(rose_tree_is_incomplete(tree)))
			give_up_failed_build(tree);
		begun = pick_and_begin(tree, note, item->relid);
	}
	rose_maintainer_end();
	return begun;
}

/* Is there a reason to look at this table? */
static bool
may_be_due(const RoseRegistryItem *item, TimestampTz now)
{
	const RoseTableNote *note = rose_maintainer_note(item->locator);

	if (note->manifest_version == item->manifest_version && note->incarnation == item->incarnation &&
		(note->look_again == 0 || note->look_again > now))
		return false;
	return merges_of_table(item->locator) < MAX_MERGES_OF_TABLE && !item->other_order &&
		!rose_maintainer_leaves_alone(item, ROSE_PAUSE_MERGES);
}

/*
 * Has a transaction ended whose private runs have counted as nothing that merges could
 * do?  What it has committed may make them late.
 */
static void
look_at_private_runs(const RoseRegistryItem *item, TimestampTz now)
{
	RoseTableNote *note = rose_maintainer_note(item->locator);
	RoseTree   *tree = rose_maintainer_begin(ROSE_WORK_MERGE, item->relid);

	note->look_again = TimestampTzPlusMilliseconds(now, RECHECK_MS);
	if (tree != NULL)
	{
		rose_settle_private_runs(tree);
		note_open_private(tree, note);
		if (!note->open_private)
			note->manifest_version = PG_UINT64_MAX; /* as soon as there is a place */
	}
	rose_maintainer_end();
}

/*
 * Tables that may have as many merges as they have, or for which there is no place: they
 * are looked at for no other merge, but for how late theirs are.
 */
static void
look_at_full_tables(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		full = !has_place();

	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		const RoseRegistryItem *item = &rose_maintainer_items[i];
		const RoseTableNote *note = rose_maintainer_note(item->locator);

		if (note->open_private && note->look_again <= now && !item->other_order &&
			(full || merges_of_table(item->locator) >= MAX_MERGES_OF_TABLE) &&
			!rose_maintainer_leaves_alone(item, ROSE_PAUSE_MERGES))
			look_at_private_runs(item, now);
	}
}

/* Look for a merge to begin; true if one was begun. */
static bool
find_merge(void)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < rose_maintainer_nitems && has_place(); i++)
	{
		int			item = (int) ((first_item + i) % rose_maintainer_nitems);

		if (may_be_due(&rose_maintainer_items[item], now) &&
			look_at_table(&rose_maintainer_items[item]))
		{
			first_item = item + 1;
			return true;
		}
	}
	return false;
}

static void
forget_merge(int index)
{
	RoseTableNote *note = rose_maintainer_note(rose_merge_locator(merges[index].merge));

	/* the outcome makes another merge due, or not: look again */
	note->manifest_version = PG_UINT64_MAX;
	note->freed = true;
	memmove(&merges[index], &merges[index + 1], (nmerges - index - 1) * sizeof(ActiveMerge));
	nmerges--;
	if (nmerges == 0)
		rose_maintainer_note_merging(false);
}

/* A table has fewer versions now: perhaps its indexes have entries that are of none. */
static void
look_at_indexes(RoseTree *tree)
{
	List	   *indexes;

	if (tree->rel->rd_rel->relkind == RELKIND_INDEX)
		return;
	indexes = RelationGetIndexList(tree->rel);
	for (int i = 0; i < rose_maintainer_nitems; i++)
		if (list_member_oid(indexes, rose_maintainer_items[i].relid))
			rose_maintainer_note(rose_maintainer_items[i].locator)->manifest_version = PG_UINT64_MAX;
	list_free(indexes);
}

/*
 * One step of one merge; false if it has to wait: its table is locked, or being spilled,
 * or others come first.
 */
static bool
step_merge(int index, bool calm)
{
	ActiveMerge *active = &merges[index];
	TimestampTz now = GetCurrentTimestamp();
	RoseMerge  *merge = active->merge;
	bool		given_up = active->given_up;
	RoseMergeProgress progress = ROSE_MERGE_DONE;
	bool		done = false;
	bool		locked = false;
	bool		in_turn = false;
	RoseTree   *tree;

	if (active->wait_until > now)
		return false;
	ROSE_STOP_POINT("merge-paused");	/* between two steps: no transaction */
	tree = rose_maintainer_begin(ROSE_WORK_MERGE, active->relid);
	active->wait_until = 0;
	if (tree != NULL)
	{
		if (!given_up)
		{
			rose_maintainer_cost_begin();
			progress = rose_merge_step(merge, tree, calm ? MERGE_STEP_CALM_MS : MERGE_STEP_MS);
			rose_maintainer_cost_end(calm);
		}
		done = progress == ROSE_MERGE_DONE;
		in_turn = progress == ROSE_MERGE_IN_TURN;
		locked = progress == ROSE_MERGE_LATER;
		if (done)
		{
			forget_merge(index);
			rose_merge_end(merge, tree);
			look_at_indexes(tree);
		}
		else
			ask_for_help_if_behind(active, tree);
	}
	else if (!rose_maintainer_was_locked())
	{
		/* nobody keeps us out, so it is gone, and its claims with it */
		forget_merge(index);
		rose_merge_end(merge, NULL);
	}
	else
	{
		/* who keeps us out may wait for the merge's lock: core would not see that as a deadlock */
		locked = true;
		active->given_up = given_up || rose_merge_give_way(merge);
	}
	if (locked)
		active->wait_until = TimestampTzPlusMilliseconds(now, NAP_MS);
	rose_maintainer_end();

	if (done && !given_up)
		rose_maintainer_count(false);
	return !locked && !in_turn;
}

static bool
is_late(const RoseRegistryItem *item)
{
	RosePickSizes sizes = {.c0_size = rose_pick_c0_size(false), .nruns = item->nruns};

	for (int level = 0; level < lengthof(sizes.bytes); level++)
	{
		sizes.bytes[level] = item->level_bytes[level];
		sizes.blocks[level] = item->level_blocks[level];
	}
	return urgency_of(rose_maintainer_note(item->locator), &sizes) != ROSE_MERGES_IN_TIME;
}

/*
 * Is one of the merges late, or is its table gone, or does it keep somebody from its
 * table, or a table whose merges are late from its turn?
 */
static bool
is_hurried(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		full = !has_place();
	int			nfound = 0;

	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		const RoseRegistryItem *item = &rose_maintainer_items[i];
		int			n = merges_of_table(item->locator);

		if ((n > 0 || (full && may_be_due(item, now))) && is_late(item))
			return true;
		nfound += n;
	}
	if (nfound < nmerges)
		return true;
	for (int i = 0; i < nmerges; i++)
		if (merges[i].given_up || rose_merge_has_waiters(merges[i].merge))
			return true;
	return false;
}

/* At a time when it could go on. */
static void
begin_rest(void)
{
	resting = rose_maintainer_merges_can_go_on() && rose_maintainer_rest_left() > 0;
	if (resting)
		ROSE_STOP_POINT("merge-rests"); /* no transaction */
}

bool
rose_maintainer_merge_step(bool may_begin, bool may_rest)
{
	bool		worked = may_begin && find_merge();
	bool		calm;

	resting = false;
	if (worked || nmerges == 0)
		return worked;
	if (may_begin)
		look_at_full_tables();
	calm = may_rest && !is_hurried();
	if (calm)
		begin_rest();
	for (int i = 0; i < nmerges && !worked && !resting; i++)
	{
		next_merge = (next_merge + 1) % nmerges;
		worked = step_merge(next_merge, calm);
	}
	return worked;
}

bool
rose_maintainer_is_resting(void)
{
	return resting;
}

bool
rose_maintainer_has_merges(void)
{
	return nmerges > 0;
}

bool
rose_maintainer_was_kept_out(void)
{
	for (int i = 0; i < rose_maintainer_nitems; i++)
	{
		const RoseRegistryItem *item = &rose_maintainer_items[i];
		const RoseTableNote *note = rose_maintainer_note(item->locator);

		if (!item->other_order &&
			(note->manifest_version != item->manifest_version ||
			 note->incarnation != item->incarnation || note->sift_later ||
			 rose_maintainer_leaves_alone(item, ROSE_PAUSE_MERGES)))
			return true;
	}
	return false;
}

bool
rose_maintainer_merges_can_go_on(void)
{
	for (int i = 0; i < nmerges; i++)
		if (merges[i].wait_until == 0 && !merges[i].given_up)
			return true;
	return false;
}

bool
rose_maintainer_give_merges_up(Oid relid)
{
	for (int i = 0; i < nmerges; i++)
	{
		if (OidIsValid(relid) && merges[i].relid != relid)
		{
			if (merges[i].given_up || rose_merge_lock_again(merges[i].merge))
				continue;
		}
		else if (merges[i].given_up)
			return false;
		else
			rose_merge_lost_lock(merges[i].merge);
		merges[i].given_up = true;
		merges[i].wait_until = 0;
	}
	return true;
}
