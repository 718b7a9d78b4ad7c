/*-------------------------------------------------------------------------
 *
 * rose_write.c
 *	  Writing versions: the primitives that inserts, updates, deletes, row
 *	  locks and blind writes use.
 *
 * The C0's write_lock is held only to give the sequence number, link and log.
 * Versions are linked before they are logged: nobody trusts them before their
 * transaction commits, and it commits only after the log call has returned;
 * an error in between aborts it.
 *
 * Lock order: key-partition locks in ascending order, C0 write_lock, what the store
 * takes.  Never waits for a transaction while it holds one of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_write_internal.h"

#include "access/detoast.h"
#include "access/relation.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "lsm/rose_private.h"
#include "lsm/rose_spill.h"
#include "lsm/rose_tid.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "util/rose_stop_point.h"
#include "utils/datum.h"
#include "utils/memutils.h"

typedef struct RosePartitionsShared
{
	int			tranche;		/* constant */
	LWLockPadded locks[ROSE_WRITE_PARTITIONS];
} RosePartitionsShared;

static LWLockPadded *PartitionLocks = NULL;

/* On whose behalf the replication worker writes. */
static Oid	WriteSubid = InvalidOid;
static uint64 WriteEpoch = 0;

RoseWaitForEpochHook rose_wait_for_epoch_hook = NULL;

/* The transaction's reader of the table written last. */
static struct
{
	LocalTransactionId lxid;
	RoseTable  *table;
	RoseSchema *schema;
	RoseKeyReader *reader;
}			WriteCache;

/* How long this process has waited for room when it spilled last, if it has written nothing since. */
static int	VainWaits = 0;

/* ---- shared memory ---- */

Size
rose_write_shmem_size(void)
{
	return sizeof(RosePartitionsShared);
}

void
rose_write_shmem_init(bool found)
{
	RosePartitionsShared *area;
	bool		have;

	area = ShmemInitStruct("rose key partitions", sizeof(*area), &have);
	if (!have)
	{
		area->tranche = LWLockNewTrancheId();
		for (int i = 0; i < ROSE_WRITE_PARTITIONS; i++)
			LWLockInitialize(&area->locks[i].lock, area->tranche);
	}
	LWLockRegisterTranche(area->tranche, "RoseKeyPartition");
	PartitionLocks = area->locks;
}

int
rose_write_partition_of_hash(RoseTable *table, uint64 hash)
{
	uint32		h = hash_combine((uint32) rose_locator_rel(table->locator),
								 (uint32) rose_locator_db(table->locator));

	if (table->schema->nkeys > 0 && table->schema->hashable)
		h = hash_combine(h, (uint32) hash);
	return murmurhash32(h) % ROSE_WRITE_PARTITIONS;
}

int
rose_write_partition(RoseTable *table, const Datum *key)
{
	return rose_write_partition_of_hash(table, rose_key_hash(table->schema, key));
}

void
rose_write_lock_partition(int partition)
{
	LWLockAcquire(&PartitionLocks[partition].lock, LW_EXCLUSIVE);
}

void
rose_write_unlock_partition(int partition)
{
	LWLockRelease(&PartitionLocks[partition].lock);
}

/* ---- transaction state ---- */

void
rose_write_set_epoch(Oid subid, uint64 epoch)
{
	WriteSubid = subid;
	WriteEpoch = epoch;
}

void
rose_write_end_transaction(void)
{
	memset(&WriteCache, 0, sizeof(WriteCache));
	VainWaits = 0;
	rose_lookup_forget_cached();
}

static void
write_cache_validate(RoseTable *table)
{
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.table == table &&
		WriteCache.schema == table->schema)
		return;
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.reader)
		rose_key_reader_free(WriteCache.reader);
	memset(&WriteCache, 0, sizeof(WriteCache));
	WriteCache.lxid = rose_my_lxid();
	WriteCache.table = table;
	WriteCache.schema = table->schema;
}

RoseKeyReader *
rose_write_reader(RoseTable *table)
{
	write_cache_validate(table);
	if (WriteCache.reader == NULL)
		WriteCache.reader = rose_key_reader_create(table, TopTransactionContext);
	return WriteCache.reader;
}

void
rose_write_stamp(RoseVersion *version, RoseOp op, CommandId cid)
{
	FullTransactionId top = GetTopFullTransactionId();
	TransactionId current = GetCurrentTransactionId();

	memset(version, 0, sizeof(*version));
	version->xid = top;
	if (current != XidFromFullTransactionId(top))
		version->subxid = current;
	version->cid = cid;
	version->op = op;
}

/* ---- rows ---- */

/* Row locks die with the server, but for those of prepared transactions. */
bool
rose_write_logs_locks(void)
{
	return max_prepared_xacts > 0;
}

MinimalTuple
rose_write_form_row(RoseTable *table, const Datum *values, const bool *nulls, Datum *key)
{
	const RoseSchema *schema = table->schema;
	Datum	   *flat = palloc(schema->natts * sizeof(Datum));
	MinimalTuple row;

	for (int i = 0; i < schema->natts; i++)
	{
		flat[i] = values[i];
		if (!nulls[i] && TupleDescAttr(schema->tupdesc, i)->attlen == -1 &&
			(VARATT_IS_EXTERNAL(DatumGetPointer(values[i])) ||
			 VARATT_IS_COMPRESSED(DatumGetPointer(values[i]))))
			flat[i] = PointerGetDatum(detoast_attr((struct varlena *) DatumGetPointer(values[i])));
	}
	rose_component_check_row_fits(schema, flat, nulls);
	row = rose_form_minimal_tuple(schema->tupdesc, flat, (bool *) nulls);
	if (row->t_len > rose_arena_total_bytes() / 4)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of %zu bytes is too large for the shared memory of rose tables",
						(Size) row->t_len),
				 errhint("Increase rose.memtable_size to at least four times that size.")));
	if (schema->nkeys > 0)
		rose_key_from_tuple(schema, row, 0, key);
	return row;
}

MinimalTuple
rose_write_form_key_row(RoseTable *table, const Datum *key)
{
	const RoseSchema *schema = table->schema;
	Datum	   *values = palloc0(schema->natts * sizeof(Datum));
	bool	   *nulls = palloc(schema->natts * sizeof(bool));

	memset(nulls, true, schema->natts * sizeof(bool));
	for (int i = 0; i < schema->nkeys; i++)
	{
		int			column = schema->keys[i].def.attno - 1;

		values[column] = key[i];
		nulls[column] = false;
	}
	return rose_form_minimal_tuple(schema->tupdesc, values, nulls);
}

/* ---- linking ---- */

/*
 * Give the next sequence number and link; false if there is no room.  Then *v is as it was:
 * whoever tries again must not have a number that somebody else has taken meanwhile.
 * REQUIRES write_lock.
 */
static bool
link_version(RoseTable *table, RoseNewVersion *v, const RoseMemHint *hint, RoseArenaPtr *ptr)
{
	const RoseMemHint none = {0};
	RoseC0Shared *c0 = &table->shared->c0;
	RoseVersion version = v->version;
	const Datum *key = v->key;
	Datum		rowid;
	RoseMemPending pending;

	version.seq = c0->next_seq;
	/* the row under its new key comes next */
	if (version.op == ROSE_OP_TOMBSTONE && version.moved_to != 0 &&
		version.moved_to != ROSE_MOVED_TO_PARTITION)
		version.moved_to = c0->next_seq + 1;
	if (table->schema->nkeys == 0)
	{
		if (version.rowid == 0)
			version.rowid = (int64) version.seq;
		rowid = Int64GetDatum(version.rowid);
		key = &rowid;
	}
	if (!rose_c0_prepare_near(c0, table->schema, &version, key, v->row,
							  hint ? hint : &none, &pending))
		return false;
	rose_c0_link(c0, &pending);
	c0->next_seq++;
	v->version = version;
	v->key[0] = key[0];
	*ptr = pending.entry;
	return true;
}

/* Room in the tail log; false if the table has to be spilled first.  REQUIRES write_lock. */
static bool
reserve_log(RoseTable *table, const RoseNewVersion *versions, int n)
{
	Size		bytes = n * sizeof(RoseTailRecord);

	for (int i = 0; i < n; i++)
		bytes += versions[i].row ? versions[i].row->t_len : 0;
	return rose_tail_reserve(table->rel, &table->shared->store, bytes, false);
}

static void
log_versions(RoseTable *table, const RoseNewVersion *versions, int n)
{
	RoseTailRecord *records = palloc(n * sizeof(RoseTailRecord));
	int			nrecords = 0;

	for (int i = 0; i < n; i++)
	{
		if (versions[i].version.op == ROSE_OP_LOCK && !rose_write_logs_locks())
			continue;
		records[nrecords].version = versions[i].version;
		records[nrecords++].row = versions[i].row;
	}
	if (nrecords > 0)
		rose_tail_append(table->rel, &table->shared->store, table->schema->natts,
						 records, nrecords);
	pfree(records);
}

/*
 * Link and log up to n versions; returns how many.  Fewer than n: no room for
 * the next one.
 */
int
rose_write_some_versions(RoseTable *table, RoseNewVersion *versions,
						 const RoseMemHint *hints, int n)
{
	RoseC0Shared *c0 = &table->shared->c0;
	RoseArenaPtr ptr;
	int			done = 0;

	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	if (!reserve_log(table, versions, n))
		n = 0;
	while (done < n &&
		   link_version(table, &versions[done], hints ? &hints[done] : NULL, &ptr))
		done++;
	if (done > 0)
	{
		log_versions(table, versions, done);
		VainWaits = 0;
	}
	LWLockRelease(&c0->write_lock);
	return done;
}

/*
 * All or nothing: a tombstone must not stand there without the row that it
 * moved.  One that was linked already is killed before anyone can rely on it.
 */
bool
rose_write_versions(RoseTable *table, RoseNewVersion *versions, int n, bool log)
{
	RoseC0Shared *c0 = &table->shared->c0;
	RoseArenaPtr linked[ROSE_WRITE_MAX_VERSIONS];
	int			done = 0;

	Assert(n <= lengthof(linked));
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	if (log && !reserve_log(table, versions, n))
	{
		LWLockRelease(&c0->write_lock);
		return false;
	}
	while (done < n && link_version(table, &versions[done], NULL, &linked[done]))
		done++;
	if (done < n)
	{
		for (int i = 0; i < done; i++)
			rose_memtable_set_hint(linked[i], ROSE_MEM_HINT_ABORTED);
	}
	else
	{
		if (log)
			log_versions(table, versions, n);
		VainWaits = 0;
	}
	LWLockRelease(&c0->write_lock);
	return done == n;
}

bool
rose_write_reuse_lock(RoseTable *table, const RoseMemPlace *place, RoseNewVersion *lock,
					  bool log)
{
	RoseC0Shared *c0 = &table->shared->c0;
	bool		reused;

	if (place->memtable_id == 0)
		return false;
	LWLockAcquire(&c0->write_lock, LW_EXCLUSIVE);
	reused = (!log || reserve_log(table, lock, 1)) && c0->active >= 0 &&
		c0->tables[c0->active].id == place->memtable_id;
	if (reused)
	{
		lock->version.seq = rose_memtable_reuse_lock(c0, place->entry, &lock->version);
		if (log)
			log_versions(table, lock, 1);
	}
	LWLockRelease(&c0->write_lock);
	return reused;
}

/* ---- uniqueness ---- */

RoseKeyState
rose_write_key_state(RoseTable *table, const Datum *key, TransactionId *xwait)
{
	RoseKeyReader *reader = rose_write_reader(table);
	const RoseRow *row;
	bool		committed;

	rose_key_reader_start(reader, key, PG_UINT64_MAX);
	while ((row = rose_key_reader_next(reader, &committed)) != NULL)
	{
		RoseXidStatus status;

		if (row->version.op == ROSE_OP_LOCK)
			continue;
		status = committed ? ROSE_XID_COMMITTED : rose_version_status(&row->version);
		if (status == ROSE_XID_ABORTED)
			continue;
		if (status == ROSE_XID_IN_PROGRESS)
		{
			*xwait = rose_version_writer(&row->version);
			return ROSE_KEY_BUSY;
		}
		return row->version.op == ROSE_OP_TOMBSTONE ? ROSE_KEY_FREE : ROSE_KEY_LIVE;
	}
	return ROSE_KEY_FREE;
}

/* ---- room in C0 ---- */

/*
 * Spill this table's C0 in this process: for one that is fed by this process, which nobody
 * else may spill, or if no worker comes.
 */
static bool
spill_here(RoseTable *table, bool worker)
{
	/* a worker merges meanwhile; without one, say what is wrong */
	if (worker && !OidIsValid(WriteSubid) && !rose_spill_has_room(table))
		return false;
	if (!rose_spill(table, WriteSubid, WriteEpoch))
		return false;
	if (!OidIsValid(WriteSubid))
		rose_pace_count_own_spill();
	if (!worker && !OidIsValid(WriteSubid))
		rose_join_own_runs(table);
	return true;
}

static int
compare_c0_bytes(const void *a, const void *b)
{
	const RoseRegistryItem *x = a;
	const RoseRegistryItem *y = b;

	return x->c0_bytes > y->c0_bytes ? -1 : x->c0_bytes < y->c0_bytes;
}

/* Spill another table's C0, if this transaction has locked it against everybody. */
static bool
spill_if_locked(const RoseRegistryItem *item)
{
	Relation	rel;
	RoseTable  *table;
	bool		spilled = false;

	if (!ConditionalLockRelationOid(item->relid, AccessShareLock))
		return false;
	rel = try_relation_open(item->relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(item->relid, AccessShareLock);
		return false;
	}
	if (RelFileLocatorEquals(rose_rel_locator(rel), item->locator) &&
		CheckRelationLockedByMe(rel, AccessExclusiveLock, true))
	{
		table = rose_table_open(rel);
		spilled = rose_spill(table, InvalidOid, 0);
		if (spilled)
			rose_join_own_runs(table);
	}
	relation_close(rel, AccessShareLock);
	if (spilled)
		rose_pace_count_own_spill();
	return spilled;
}

/*
 * A transaction that restores or loads many tables it has made or locked fills memory
 * with what no worker may touch: spill the largest of them.  Little ones are not worth it,
 * for they would be carried over.
 */
static bool
spill_locked_table(Oid dbid)
{
	Size		worth = rose_arena_total_bytes() / 128;
	int			n = rose_registry_list(dbid, NULL, 0);
	RoseRegistryItem *items = palloc(Max(n, 1) * sizeof(RoseRegistryItem));
	bool		spilled = false;

	n = Min(n, rose_registry_list(dbid, items, n));
	qsort(items, n, sizeof(RoseRegistryItem), compare_c0_bytes);
	for (int i = 0; i < n && !spilled && items[i].c0_bytes >= worth; i++)
		if (!OidIsValid(items[i].fed_by))
			spilled = spill_if_locked(&items[i]);
	pfree(items);
	return spilled;
}

/* Is it worth trying again? */
static bool
has_room(RoseTable *table)
{
	RoseC0Shared *c0 = &table->shared->c0;
	bool		has_segment;

	LWLockAcquire(&c0->write_lock, LW_SHARED);
	has_segment = rose_tail_has_segment(&table->shared->store);
	LWLockRelease(&c0->write_lock);
	return has_segment && rose_arena_used_bytes() < rose_arena_total_bytes() / 16 * 15;
}

static void
report_no_room(RoseTable *table)
{
	if (pg_atomic_read_u32(&table->shared->store.ntails) >= ROSE_MAX_TAILS - ROSE_TAILS_RESERVE)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has too many tail log segments",
						RelationGetRelationName(table->rel)),
				 errdetail("Its memtables could not be spilled in time."),
				 errhint("Look in the server log for what keeps them from being spilled, or call rose.spill() for the table.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("no room in the shared memory of rose tables"),
			 errdetail("%zu of %zu bytes are in use by versions that could not be spilled in time.",
					   rose_arena_used_bytes(), rose_arena_total_bytes()),
			 errhint("Increase rose.memtable_size, or write less in one transaction.")));
}

static void
nap(void)
{
	const int	wait_ms = 2;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 wait_ms, rose_wait_event_pacing());
	ResetLatch(MyLatch);
}

/*
 * C0's arena is full, or C0 has no memtable left to write to, or the table too many tail
 * segments: have the worker spill what is largest, or this table for its segments, and wait for
 * that, long enough for the spill of a large C0 on a busy disk.  Now and then try our own, in
 * case nobody else comes.  No worker comes to a table that we have locked against everybody.
 *
 * A spill may free nothing, because it carries a few rows over.  So we come back at once after
 * one only if something was written since the one before; else we go on waiting.
 */
void
rose_write_make_room(RoseTable *table)
{
	const int	max_waits = 30000;
	const int	own_turn = 500;
	const int	ask_every = 10;
	bool		locked = CheckRelationLockedByMe(table->rel, AccessExclusiveLock, true);
	bool		worker = true;
	int			first = VainWaits;

	ROSE_STOP_POINT("write-no-room");	/* no lock */
	if (OidIsValid(WriteSubid))
	{
		if ((rose_wait_for_epoch_hook && rose_wait_for_epoch_hook()) ||
			spill_here(table, false))
			return;
	}
	for (int waits = first; waits < max_waits; waits++)
	{
		CHECK_FOR_INTERRUPTS();
		if (waits > 0)
			nap();
		if (waits == first || waits % ask_every == 0)
			worker = rose_request_spill_hook != NULL &&
				rose_request_spill_hook(rose_locator_db(table->locator)) && !locked;
		if ((!worker || waits % own_turn == own_turn - 1) &&
			(spill_here(table, worker) ||
			 spill_locked_table(rose_locator_db(table->locator))))
		{
			if (!OidIsValid(WriteSubid))
				VainWaits = waits + 1;
			return;
		}
		if (waits > first && has_room(table))
			return;
	}
	VainWaits = 0;
	report_no_room(table);
}
