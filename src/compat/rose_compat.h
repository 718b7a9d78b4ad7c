/*-------------------------------------------------------------------------
 *
 * rose_compat.h
 *	  The only place that knows which PostgreSQL release it is built for.
 *
 * Everything else is written against the newest supported release; this file
 * gives older ones the newer names.  Each block says what changed and when.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_H
#define ROSE_COMPAT_H

#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "rose needs PostgreSQL 15 or newer"
#endif

/*
 * 16 renamed RelFileNode to RelFileLocator and its members (spcNode, dbNode,
 * relNode became spcOid, dbOid, relNumber).
 */
#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;
#define RelFileLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define InvalidRelFileNumber InvalidOid
#define rose_rel_locator(rel) ((rel)->rd_node)
#define rose_locator_spc(l) ((l).spcNode)
#define rose_locator_db(l) ((l).dbNode)
#define rose_locator_rel(l) ((l).relNode)
#define rose_smgr_locator(smgr) ((smgr)->smgr_rnode.node)
#else
#include "storage/relfilelocator.h"
#define rose_rel_locator(rel) ((rel)->rd_locator)
#define rose_locator_spc(l) ((l).spcOid)
#define rose_locator_db(l) ((l).dbOid)
#define rose_locator_rel(l) ((l).relNumber)
#define rose_smgr_locator(smgr) ((smgr)->smgr_rlocator.locator)
#endif

/*
 * 17 renamed InvalidBackendId, which smgropen() wants for relations that are
 * not temporary, to INVALID_PROC_NUMBER.
 */
#if PG_VERSION_NUM < 170000
#define rose_smgropen(locator) smgropen((locator), InvalidBackendId)
#else
#define rose_smgropen(locator) smgropen((locator), INVALID_PROC_NUMBER)
#endif

/* 18 dropped lc_collate_is_c() for a member of pg_locale_t. */
#if PG_VERSION_NUM < 180000
#define rose_collation_is_c(collation) lc_collate_is_c(collation)
#else
#define rose_collation_is_c(collation) \
	(pg_newlocale_from_collation(collation)->collate_is_c)
#endif

/* 16 renamed RelFileNodeSkippingWAL(). */
#if PG_VERSION_NUM < 160000
#define RelFileLocatorSkippingWAL(locator) RelFileNodeSkippingWAL(locator)
#endif

/*
 * Number of this process among MaxBackends, from 0.  17 replaced the 1-based
 * MyBackendId by MyProcNumber.
 */
#if PG_VERSION_NUM < 170000
#include "storage/backendid.h"
#define rose_my_backend_slot() ((int) MyBackendId - 1)
#else
#include "storage/procnumber.h"
#define rose_my_backend_slot() ((int) MyProcNumber)
#endif

/* 16 wants pages that do not go through shared buffers aligned for direct I/O. */
#if PG_VERSION_NUM < 160000
typedef PGAlignedBlock PGIOAlignedBlock;
#endif

/*
 * Add nblocks zero pages at block (the end) of a main fork.  16 brought
 * smgrzeroextend(), which does it in one system call.
 */
static inline void
rose_smgr_zero_extend(SMgrRelation smgr, BlockNumber block, int nblocks)
{
#if PG_VERSION_NUM >= 160000
	smgrzeroextend(smgr, MAIN_FORKNUM, block, nblocks, false);
#else
	PGAlignedBlock zero;

	memset(zero.data, 0, BLCKSZ);
	for (int i = 0; i < nblocks; i++)
		smgrextend(smgr, MAIN_FORKNUM, block + i, zero.data, false);
#endif
}

/* 17 moved a backend's local transaction id into PGPROC.vxid. */
#if PG_VERSION_NUM < 170000
#define rose_my_lxid() (MyProc->lxid)
#else
#define rose_my_lxid() (MyProc->vxid.lxid)
#endif

/*
 * The backend that the name of an exported snapshot begins with, as a slot like ours; and
 * the transaction that this slot's backend is in, invalid if none.  17 numbers backends
 * from 0.
 */
#if PG_VERSION_NUM < 170000
#include "storage/proc.h"
#include "storage/sinvaladt.h"
#define rose_slot_of_exporter(number) ((int) (number) - 1)
#define rose_slot_proc(slot) BackendIdGetProc((slot) + 1)
#else
#include "storage/proc.h"
#include "storage/procarray.h"
#define rose_slot_of_exporter(number) ((int) (number))
#define rose_slot_proc(slot) ProcNumberGetProc(slot)
#endif

static inline LocalTransactionId
rose_slot_lxid(int slot)
{
	volatile PGPROC *proc = rose_slot_proc(slot);

	if (proc == NULL)
		return InvalidLocalTransactionId;
#if PG_VERSION_NUM < 170000
	return proc->lxid;
#else
	return proc->vxid.lxid;
#endif
}

/* Does this transaction hold such a lock of the relation?  From 17 on also if it is a stronger one and that will do. */
static inline bool
rose_relation_oid_is_locked(Oid relid, LOCKMODE mode, bool or_stronger)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
#if PG_VERSION_NUM < 170000
	return LockHeldByMe(&tag, mode);
#else
	return LockHeldByMe(&tag, mode, or_stronger);
#endif
}

/* 18 made it a choice whether a deferrable key counts. */
static inline Oid
rose_primary_key_index(Relation rel)
{
#if PG_VERSION_NUM < 180000
	return RelationGetPrimaryKeyIndex(rel);
#else
	return RelationGetPrimaryKeyIndex(rel, true);
#endif
}

/* A column of a descriptor was filled in by hand; 18 keeps what reading a tuple needs in an array of its own. */
static inline void
rose_tupdesc_attribute_changed(TupleDesc tupdesc, int i)
{
#if PG_VERSION_NUM < 180000
	TupleDescAttr(tupdesc, i)->attcacheoff = -1;
#else
	populate_compact_attribute(tupdesc, i);
#endif
}

/* 18 wants it in front of a declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 18 lets minimal tuples have room in front of them. */
#if PG_VERSION_NUM < 180000
#define rose_form_minimal_tuple(tupdesc, values, nulls) \
	heap_form_minimal_tuple(tupdesc, values, nulls)
#define rose_copy_minimal_tuple(tuple) heap_copy_minimal_tuple(tuple)
#else
#define rose_form_minimal_tuple(tupdesc, values, nulls) \
	heap_form_minimal_tuple(tupdesc, values, nulls, 0)
#define rose_copy_minimal_tuple(tuple) heap_copy_minimal_tuple(tuple, 0)
#endif

/* 18 logs locks that NOWAIT did not get, if log_lock_failures is set. */
#if PG_VERSION_NUM < 180000
#define rose_try_lock_tuple(rel, tid, mode, nowait) \
	((void) (nowait), ConditionalLockTuple(rel, tid, mode))
#define rose_try_wait_for_xact(xid, nowait) \
	((void) (nowait), ConditionalXactLockTableWait(xid))
#else
#include "storage/lock.h"
#define rose_try_lock_tuple(rel, tid, mode, nowait) \
	ConditionalLockTuple(rel, tid, mode, (nowait) && log_lock_failures)
#define rose_try_wait_for_xact(xid, nowait) \
	ConditionalXactLockTableWait(xid, (nowait) && log_lock_failures)
#endif

/* 16 dropped vacuum_defer_cleanup_age. */
#if PG_VERSION_NUM < 160000
#include "storage/standby.h"
#define rose_cleanup_is_deferred() (vacuum_defer_cleanup_age > 0)
#else
#define rose_cleanup_is_deferred() false
#endif

/*
 * The ring of buffers of somebody who writes much.  16 counts I/O by process and ring
 * (pg_stat_io), does not expect bulk writes of autovacuum workers, and asserts that there
 * are none; but one that vacuums a table spills its memtable.  So it has vacuum's ring,
 * as large as that of bulk writes.
 */
static inline BufferAccessStrategy
rose_bulk_write_strategy(void)
{
#if PG_VERSION_NUM >= 160000
	if (MyBackendType == B_AUTOVAC_WORKER)
		return GetAccessStrategyWithSize(BAS_VACUUM, 16 * 1024);
#endif
	return GetAccessStrategy(BAS_BULKWRITE);
}

/* 17 lets extensions name their wait events. */
static inline uint32
rose_wait_event_pacing(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("RoseWritePacing");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif							/* ROSE_COMPAT_H */
