/*-------------------------------------------------------------------------
 *
 * rose_write.c
 *	  Writing versions: the primitives that inserts, updates, deletes, row
 *	  locks and blind writes use.
 *
 * A writing section of C0 lasts only as long as it takes to see that what the writer
 * knows of the keys still holds (rose_c0_look), to give the sequence number, link and
 * log.  Versions are linked before they are logged: nobody trusts them before their
 * transaction commits, and it commits only after the log call has returned; an error in
 * between aborts it.
 *
 * Lock order: key-partition locks in ascending order, C0's writing section, what the
 * store takes.  Never waits for a transaction while it holds one of them.
 *
 * Entries of indexes are written in sections of the index's own, after the row that they
 * are of and with its number: see rose_entries.c.
 *
 * What rows look like is rose_new_version.c's, whether a key is free or in conflict
 * rose_unique.c's and rose_conflict.c's; who takes partition locks, and what happens when
 * there is no room, is for inserts, changes and blind writes to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_trigger.h"
#include "commands/trigger.h"

#include "store/rose_tail.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_run_state.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_write.h"

/*
 * Give the next sequence number and link.  If that cannot be, *v is as it was:
 * whoever tries again must not have a number that somebody else has taken meanwhile.
 * REQUIRES: a writing section.
 */
static RoseMemPrepared
link_version(RoseTree *tree, RoseNewVersion *v, const RoseMemSpot *hint,
			 const RoseC0Look *look, RoseArenaPtr *ptr)
{
	const RoseMemSpot none = {0};
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseVersion version = v->version;
	Datum		rowid = v->key[0];
	RoseMemPending pending;
	RoseMemPrepared prepared;

	rose_new_version_number(tree, v, rose_c0_next_sequence(c0));
	prepared = rose_c0_prepare_near(c0, tree->schema, &v->version, v->key, v->row,
									hint ? hint : &none, look, &pending);
	if (prepared != ROSE_MEM_PREPARED)
	{
		v->version = version;
		v->key[0] = rowid;
		return prepared;
	}
	rose_c0_link(c0, &pending);
	*ptr = pending.entry;
	return ROSE_MEM_PREPARED;
}

/* What nobody can recover, as the rows of a temporary table, has no tail log. */
static inline bool
is_logged(const RoseTree *tree)
{
	return !tree->local;
}

/* Room in the tail log; false if the table has to be spilled first.  REQUIRES: a writing section. */
static bool
reserve_log(RoseTree *tree, const RoseNewVersion *versions, int n)
{
	Size		bytes = n * sizeof(RoseTailRecord);

	for (int i = 0; i < n; i++)
	{
		bytes += versions[i].row ? versions[i].row->t_len : 0;
		bytes += versions[i].version.present ? ROSE_PRESENT_BYTES(tree->schema->natts) : 0;
	}
	return rose_tail_reserve(tree->rel, &tree->shared->store, tree->schema->layout, bytes, false);
}

static void
log_versions(RoseTree *tree, const RoseNewVersion *versions, int n)
{
	RoseTailRecord *records = palloc(n * sizeof(RoseTailRecord));
	int			nrecords = 0;

	for (int i = 0; i < n; i++)
	{
		if (versions[i].version.op == ROSE_OP_LOCK && !rose_tree_logs_locks())
			continue;
		records[nrecords].version = versions[i].version;
		records[nrecords++].row = versions[i].row;
	}
	if (nrecords > 0)
		rose_tail_append(tree->rel, &tree->shared->store, tree->schema->layout,
						 records, nrecords);
	pfree(records);
}

/* May these versions be linked, after that look?  REQUIRES: a writing section. */
static RoseMemPrepared
begin_linking(RoseTree *tree, const RoseNewVersion *versions, int n, RoseC0Look *look,
			  uint64 generation, bool log)
{
	if (!rose_index_set_is_of(tree, generation))
		return ROSE_MEM_CHANGED;
	if (look != NULL && !rose_c0_look_ends(&tree->shared->c0, look))
		return ROSE_MEM_CHANGED;
	return !log || reserve_log(tree, versions, n) ? ROSE_MEM_PREPARED : ROSE_MEM_NO_ROOM;
}

/* Who writes blindly is to know that there are others.  REQUIRES: a writing section, before anything is linked. */
static inline void
note_writer(RoseTree *tree, const RoseNewVersion *version)
{
	uint64		xid = U64FromFullTransactionId(version->version.xid);

	if (xid > tree->shared->newest_writer)
		tree->shared->newest_writer = xid;
}

/*
 * Link versions in their order until one cannot be; returns how many, and *result what
 * became of the next one.  linked: room for as many, or NULL.  REQUIRES: a writing
 * section.
 */
static int
link_some(RoseTree *tree, RoseNewVersion *versions, const RoseMemSpot *hints, int n,
		  const RoseC0Look *look, RoseArenaPtr *linked, RoseMemPrepared *result)
{
	int			done = 0;

	while (done < n)
	{
		RoseArenaPtr ptr;

		*result = link_version(tree, &versions[done], hints ? &hints[done] : NULL, look, &ptr);
		if (*result != ROSE_MEM_PREPARED)
			break;
		if (linked != NULL)
			linked[done] = ptr;
		done++;
	}
	return done;
}

/* Link and log up to n versions; returns how many. */
int
rose_write_some_versions(RoseTree *tree, RoseNewVersion *versions, const RoseMemSpot *hints,
						 int n, RoseC0Look *look, uint64 generation, RoseMemPrepared *result)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	int			done = 0;

	if (unlikely(rose_direct_tree == tree))
	{
		*result = rose_direct_write(tree, versions, n, look, generation, false);
		return *result == ROSE_MEM_PREPARED ? n : 0;
	}
	rose_c0_write_begin(c0);
	note_writer(tree, &versions[0]);
	*result = begin_linking(tree, versions, n, look, generation, is_logged(tree));
	if (*result == ROSE_MEM_PREPARED)
		done = link_some(tree, versions, hints, n, look, NULL, result);
	if (done > 0)
	{
		if (is_logged(tree))
			log_versions(tree, versions, done);
		rose_make_room_found();
	}
	rose_c0_write_end(c0);
	return done;
}

/*
 * May somebody ask for versions of this table by their names when they are superseded?
 * Triggers that fire after a row was changed do.  *later: even when the statement that
 * has changed it has ended.
 */
static bool
has_after_triggers(const TriggerDesc *triggers, bool *later)
{
	bool		found = false;

	*later = false;
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (!TRIGGER_FOR_ROW(trigger->tgtype) || !TRIGGER_FOR_AFTER(trigger->tgtype))
			continue;
		found = true;
		*later |= trigger->tgdeferrable;
	}
	return found;
}

/* What these versions, which are linked and logged, leave without use.  REQUIRES: a writing section. */
static inline void
supersede_older(RoseTree *tree, const RoseNewVersion *versions, const RoseArenaPtr *linked, int n)
{
	bool		later;
	bool		named = has_after_triggers(tree->rel->trigdesc, &later);

	for (int i = 0; !later && i < n; i++)
		(void) rose_c0_supersede(&tree->shared->c0, tree->schema, versions[i].key, linked[i],
								 rose_own_snapshots_rules(named));
}

/* Link and log all, or none: one that was linked already is killed before anyone can rely on it.  REQUIRES: a writing section. */
static RoseMemPrepared
write_all(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look, uint64 generation, bool log,
		  RoseArenaPtr *linked)
{
	RoseMemPrepared result = begin_linking(tree, versions, n, look, generation, log);
	int			done = 0;

	if (result == ROSE_MEM_PREPARED)
		done = link_some(tree, versions, NULL, n, look, linked, &result);
	if (result != ROSE_MEM_PREPARED)
	{
		for (int i = 0; i < done; i++)
			rose_memtable_set_hint(linked[i], ROSE_MEM_HINT_ABORTED);
		return result;
	}
	if (log)
		log_versions(tree, versions, n);
	rose_make_room_found();
	return ROSE_MEM_PREPARED;
}

/* All or nothing: a tombstone must not stand there without the row that it moved. */
RoseMemPrepared
rose_write_versions(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look,
					uint64 generation, bool log)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseArenaPtr few[4];
	RoseArenaPtr *linked = n <= lengthof(few) ? few : palloc(n * sizeof(RoseArenaPtr));
	RoseMemPrepared result;

	if (unlikely(rose_direct_tree == tree))
		return rose_direct_write(tree, versions, n, look, generation, false);
	rose_c0_write_begin(c0);
	note_writer(tree, &versions[0]);
	result = write_all(tree, versions, n, look, generation, log && is_logged(tree), linked);
	if (result == ROSE_MEM_PREPARED)
		supersede_older(tree, versions, linked, n);
	rose_c0_write_end(c0);
	return result;
}

/* ---- entries of indexes ---- */

/* REQUIRES: a writing section, so the memtable stays. */
static void
warm_entries(RoseTree *index, const RoseNewVersion *entries, int n, RoseMemSpot *spots)
{
	const Datum *keys[ROSE_WRITE_WARM];

	memset(spots, 0, n * sizeof(RoseMemSpot));
	if (n == 1)
		return;
	for (int i = 0; i < n; i++)
		keys[i] = entries[i].key;
	rose_c0_warm_active(&index->shared->c0, index->schema, keys, n, spots);
}

/* Link entries until there is no room; returns how many.  REQUIRES: a writing section. */
static int
link_entries(RoseTree *index, const RoseNewVersion *entries, int n, RoseArenaPtr *linked,
			 RoseMemPrepared *result)
{
	RoseC0Shared *c0 = &index->shared->c0;
	RoseMemSpot spots[ROSE_WRITE_WARM];

	for (int i = 0; i < n; i++)
	{
		RoseMemPending pending;

		if (i % ROSE_WRITE_WARM == 0)
			warm_entries(index, entries + i, Min(n - i, ROSE_WRITE_WARM), spots);
		*result = rose_c0_prepare_near(c0, index->schema, &entries[i].version, entries[i].key,
									   entries[i].row, &spots[i % ROSE_WRITE_WARM], NULL, &pending);
		if (*result != ROSE_MEM_PREPARED)
			return i;
		rose_c0_link(c0, &pending);
		linked[i] = pending.entry;
	}
	return n;
}

int
rose_write_entries(RoseTree *index, RoseNewVersion *entries, int n, RoseMemPrepared *result)
{
	RoseC0Shared *c0 = &index->shared->c0;
	RoseArenaPtr few[4];
	RoseArenaPtr *linked = n <= lengthof(few) ? few : palloc(n * sizeof(RoseArenaPtr));
	int			done = 0;

	if (unlikely(rose_direct_tree == index))
	{
		*result = rose_direct_write(index, entries, n, NULL, ROSE_INDEXES_ANY, true);
		return *result == ROSE_MEM_PREPARED ? n : 0;
	}
	rose_c0_write_begin(c0);
	*result = begin_linking(index, entries, n, NULL, ROSE_INDEXES_ANY, is_logged(index));
	if (*result == ROSE_MEM_PREPARED)
		done = link_entries(index, entries, n, linked, result);
	if (done > 0)
	{
		if (is_logged(index))
			log_versions(index, entries, done);
		supersede_older(index, entries, linked, done);
		rose_make_room_found();
	}
	rose_c0_write_end(c0);
	if (linked != few)
		pfree(linked);
	return done;
}

/* ---- blind writes ---- */

/* Those of a transaction have one stamp, so rules are the writer's. */
int
rose_write_blind_entries(RoseTree *index, RoseNewVersion *entries, int n, const RoseOwnRules *rules)
{
	RoseC0Shared *c0 = &index->shared->c0;
	RoseArenaPtr few[4];
	RoseArenaPtr *linked = n <= lengthof(few) ? few : palloc(n * sizeof(RoseArenaPtr));
	RoseMemPrepared result;
	bool		log;
	int			done = 0;

	if (unlikely(rose_direct_tree == index))
		return rose_direct_write(index, entries, n, NULL, ROSE_INDEXES_ANY, true) == ROSE_MEM_PREPARED ? n : 0;
	rose_c0_write_begin(c0);
	log = OidIsValid(index->shared->logged_by);
	if (!log || begin_linking(index, entries, n, NULL, ROSE_INDEXES_ANY, true) == ROSE_MEM_PREPARED)
		done = link_entries(index, entries, n, linked, &result);
	if (log && done > 0)
	{
		log_versions(index, entries, done);
		rose_make_room_found();
	}
	for (int i = 0; i < done; i++)
		(void) rose_c0_supersede(c0, index->schema, entries[i].key, linked[i], rules);
	rose_c0_write_end(c0);
	if (linked != few)
		pfree(linked);
	return done;
}

int
rose_write_blind_rows(RoseTree *tree, RoseNewVersion *rows, int n, uint64 ended, const RoseOwnRules *rules,
					  int *nagain, RoseMemPrepared *result)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseMemSpot spots[ROSE_WRITE_WARM] = {{0}};
	RoseArenaPtr linked[ROSE_WRITE_WARM];
	int			done = 0;

	Assert(n <= ROSE_WRITE_WARM);
	if (unlikely(rose_direct_tree == tree))
	{
		*result = rose_direct_write(tree, rows, n, NULL, ROSE_INDEXES_ANY, false);
		return *result == ROSE_MEM_PREPARED ? n : 0;
	}
	rose_c0_write_begin(c0);
	*result = tree->schema->nkeys > 0 && tree->shared->newest_writer >= ended ? ROSE_MEM_CHANGED :
		begin_linking(tree, rows, n, NULL, ROSE_INDEXES_ANY, true);
	if (*result == ROSE_MEM_PREPARED)
	{
		if (tree->schema->nkeys > 0)
			warm_entries(tree, rows, n, spots);
		done = link_some(tree, rows, spots, n, NULL, linked, result);
	}
	if (done > 0)
	{
		log_versions(tree, rows, done);
		rose_make_room_found();
	}
	for (int i = 0; i < done; i++)
		*nagain += rose_c0_supersede(c0, tree->schema, rows[i].key, linked[i], rules);
	rose_c0_write_end(c0);
	return done;
}

/* Not noted as anybody's but a blind writer's. */
RoseMemPrepared
rose_write_blind_beside(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look, const RoseOwnRules *rules)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseArenaPtr few[4];
	RoseArenaPtr *linked = n <= lengthof(few) ? few : palloc(n * sizeof(RoseArenaPtr));
	RoseMemPrepared result;

	if (unlikely(rose_direct_tree == tree))
		return rose_direct_write(tree, versions, n, look, ROSE_INDEXES_ANY, false);
	rose_c0_write_begin(c0);
	result = write_all(tree, versions, n, look, ROSE_INDEXES_ANY, true, linked);
	for (int i = 0; i < n && result == ROSE_MEM_PREPARED; i++)
		(void) rose_c0_supersede(c0, tree->schema, versions[i].key, linked[i], rules);
	rose_c0_write_end(c0);
	return result;
}

bool
rose_write_reuse_lock(RoseTree *tree, const RoseMemPlace *place, RoseNewVersion *lock,
					  RoseC0Look *look, bool log)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	uint64		seq = 0;

	if (place->memtable_id == 0)
		return false;
	log = log && is_logged(tree);
	rose_c0_write_begin(c0);
	note_writer(tree, lock);
	if (!log || reserve_log(tree, lock, 1))
		seq = rose_c0_reuse_lock(c0, tree->schema, place->memtable_id, place->entry, look, &lock->version);
	if (seq != 0)
	{
		lock->version.seq = seq;
		if (log)
			log_versions(tree, lock, 1);
	}
	rose_c0_write_end(c0);
	return seq != 0;
}
