/*-------------------------------------------------------------------------
 *
 * rose_declared.c
 *	  See rose_declared.h; the argument is in README.md, "Declared snapshots".
 *
 * One slot for each backend.  reached is the newest horizon for undeclared snapshots
 * that garbage collection has used beside declared ones: a snapshot that nobody
 * knew of is safe if its xmin is not before that.
 *
 * Locking.  A slot is written by its backend, holding the lock shared; whoever looks at
 * the slots of others, or sets reached, holds it exclusively.  So while slots and process
 * array are looked at together, no declaration comes or goes, and the transactions of
 * those that are there have not been followed by others in their backends.
 *
 * What this does not do: know snapshots of SERIALIZABLE transactions, which
 * must meet the writers of versions they do not see; of READ COMMITTED ones, which come and
 * go; of replication slots and prepared transactions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/snapshot/rose_declared.h"

#include "compat/rose_compat.h"
#include "lsm/snapshot/rose_visibility.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "util/rose_stop_point.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* What a snapshot says of top-level transactions. */
typedef struct SnapshotContent
{
	TransactionId xmin;
	TransactionId xmax;
	int			nxip;
	TransactionId xip[ROSE_DECLARED_XIDS];	/* in numerical order */
} SnapshotContent;

typedef struct DeclaredSlotShared	/* all of it: lock of DeclaredShared */
{
	bool		valid;
	Oid			database;
	TransactionId other_xmin;	/* of other snapshots in use, or invalid */
	SnapshotContent content;
} DeclaredSlotShared;

typedef struct DeclaredShared
{
	LWLock		lock;
	uint64		reached;		/* lock; full xid */
	int			nslots;			/* constant */
	DeclaredSlotShared slots[FLEXIBLE_ARRAY_MEMBER];
} DeclaredShared;

/* This transaction's snapshot. */
typedef enum DeclaredState
{
	NOT_LOOKED_AT,
	DECLARED,
	UNDECLARED,					/* cannot be: our xmin in the process array has to do */
	LOST						/* imported when its versions may have been gone */
} DeclaredState;

static DeclaredShared *declared = NULL;
static DeclaredSlotShared *my_slot = NULL;	/* if DECLARED */
static DeclaredState my_state = NOT_LOOKED_AT;

Size
rose_declared_shmem_size(void)
{
	return add_size(offsetof(DeclaredShared, slots),
					mul_size(MaxBackends, sizeof(DeclaredSlotShared)));
}

void
rose_declared_shmem_init(bool found)
{
	bool		mine;

	declared = ShmemInitStruct("rose declared snapshots", rose_declared_shmem_size(), &mine);
	if (!mine)
	{
		memset(declared, 0, rose_declared_shmem_size());
		LWLockInitialize(&declared->lock, LWLockNewTrancheId());
		declared->nslots = MaxBackends;
	}
	LWLockRegisterTranche(declared->lock.tranche, "RoseDeclared");
}

/* ---- declaring ---- */

static int
compare_xids(const void *a, const void *b)
{
	TransactionId x = *(const TransactionId *) a;
	TransactionId y = *(const TransactionId *) b;

	return x < y ? -1 : x > y;
}

/*
 * False if it does not fit.  Our own transaction counts as in progress, as it does in
 * what is exported of the snapshot.
 */
static bool
get_content(Snapshot snapshot, SnapshotContent *content)
{
	TransactionId own = GetTopTransactionIdIfAny();
	bool		add_own = TransactionIdIsValid(own) &&
		TransactionIdPrecedes(own, snapshot->xmax);
	int			n = snapshot->xcnt;

	if (snapshot->takenDuringRecovery || n + add_own > ROSE_DECLARED_XIDS)
		return false;
	memset(content, 0, sizeof(*content));
	content->xmin = snapshot->xmin;
	content->xmax = snapshot->xmax;
	if (n > 0)
		memcpy(content->xip, snapshot->xip, n * sizeof(TransactionId));
	if (add_own)
	{
		bool		there = false;

		for (int i = 0; i < n && !there; i++)
			there = content->xip[i] == own;
		if (!there)
			content->xip[n++] = own;
	}
	qsort(content->xip, n, sizeof(TransactionId), compare_xids);
	content->nxip = n;
	return true;
}

static bool
same_content(const SnapshotContent *a, const SnapshotContent *b)
{
	return a->xmin == b->xmin && a->xmax == b->xmax && a->nxip == b->nxip &&
		memcmp(a->xip, b->xip, a->nxip * sizeof(TransactionId)) == 0;
}

/* Did garbage collection not know of a snapshot with this xmin?  REQUIRES the lock. */
static bool
was_overlooked(TransactionId xmin)
{
	return U64FromFullTransactionId(rose_full_xid(xmin)) < declared->reached;
}

/* Does somebody else declare just this snapshot?  REQUIRES the lock, exclusively. */
static bool
is_declared(const SnapshotContent *content)
{
	for (int i = 0; i < declared->nslots; i++)
		if (declared->slots[i].valid && declared->slots[i].database == MyDatabaseId &&
			same_content(&declared->slots[i].content, content))
			return true;
	return false;
}

/*
 * Our snapshot was kept for us from the moment it was taken, by our xmin.  Not so one that was
 * imported: before, it was kept by the backend that exported it, which must have declared
 * it, or not have declared anything.
 */
static DeclaredState
declare(int index, Snapshot snapshot)
{
	SnapshotContent content;
	bool		fits = get_content(snapshot, &content);
	bool		safe;

	LWLockAcquire(&declared->lock, LW_SHARED);
	safe = !was_overlooked(snapshot->xmin);
	if (!safe)
	{
		LWLockRelease(&declared->lock);
		LWLockAcquire(&declared->lock, LW_EXCLUSIVE);
		safe = fits && is_declared(&content);
	}
	fits = fits && index < declared->nslots;
	if (safe && fits)
	{
		my_slot = &declared->slots[index];
		my_slot->database = MyDatabaseId;
		my_slot->other_xmin = InvalidTransactionId;
		my_slot->content = content;
		my_slot->valid = true;
	}
	LWLockRelease(&declared->lock);
	return !safe ? LOST : fits ? DECLARED : UNDECLARED;
}

void
rose_declared_begin(void)
{
	if (my_state != NOT_LOOKED_AT || !FirstSnapshotSet || HistoricSnapshotActive() ||
		declared == NULL)
		return;
	my_state = declare((int) (MyProc - ProcGlobal->allProcs), GetTransactionSnapshot());
}

/*
 * The end of a transaction, after its xmin was cleared: a declaration without
 * snapshot only keeps too much.
 */
static void
withdraw(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	if (my_slot)
	{
		LWLockAcquire(&declared->lock, LW_SHARED);
		my_slot->valid = false;
		LWLockRelease(&declared->lock);
	}
	my_slot = NULL;
	my_state = NOT_LOOKED_AT;
}

void
rose_declared_define_callbacks(void)
{
	RegisterXactCallback(withdraw, NULL);
}

/* ---- other snapshots ---- */

pg_noreturn static void
raise_lost(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access because old versions of rows are gone"),
			 errdetail("A merge did not know of the snapshot that is used."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * The transaction reads with another snapshot, such as the checks of foreign keys take.
 * Have it kept from now on, if it is not too late.
 */
static void
use_other(Snapshot snapshot)
{
	bool		overlooked;

	/* what covers an older one covers this one; it was not too late for that */
	if (TransactionIdIsValid(my_slot->other_xmin) &&
		TransactionIdPrecedesOrEquals(my_slot->other_xmin, snapshot->xmin))
		return;
	ROSE_STOP_POINT("snapshot-other");
	LWLockAcquire(&declared->lock, LW_SHARED);
	my_slot->other_xmin = snapshot->xmin;
	overlooked = was_overlooked(snapshot->xmin);
	LWLockRelease(&declared->lock);
	if (overlooked)
		raise_lost();
	ROSE_STOP_POINT("snapshot-noted");
}

/* Snapshots that are in use are copies of the transaction's; without entries, a copy has no array. */
static bool
is_own(Snapshot snapshot)
{
	Snapshot	own = GetTransactionSnapshot();

	return snapshot->xmin == own->xmin && snapshot->xmax == own->xmax &&
		snapshot->xcnt == own->xcnt &&
		(own->xcnt == 0 ||
		 memcmp(snapshot->xip, own->xip, own->xcnt * sizeof(TransactionId)) == 0);
}

void
rose_declared_check(Snapshot snapshot)
{
	rose_declared_begin();
	if (my_state == LOST)
		raise_lost();
	if (my_state == DECLARED && !is_own(snapshot))
		use_other(snapshot);
}

/* ---- garbage collection ---- */

static void
note_older(TransactionId *oldest, TransactionId xid)
{
	if (TransactionIdIsValid(xid) && TransactionIdPrecedes(xid, *oldest))
		*oldest = xid;
}

/*
 * The xmins of all snapshots that listed does not have.  All databases count: so reached says
 * something for each of them.  REQUIRES the lock, exclusively.
 */
static void
note_undeclared_xmins(const bool *listed, TransactionId *oldest)
{
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		TransactionId xmin = *(volatile TransactionId *) &proc->xmin;

		/* as core does; who has left the process array may have left an xmin in its entry */
		if ((proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) ||
			proc->procLatch.owner_pid == 0)
			continue;
		if (i < declared->nslots && listed[i])
		{
			const DeclaredSlotShared *slot = &declared->slots[i];

			note_older(oldest, slot->other_xmin);
			if (!TransactionIdPrecedes(xmin, slot->content.xmin))
				continue;
		}
		note_older(oldest, xmin);
	}
	LWLockRelease(ProcArrayLock);
}

/* What every snapshot sees that listed does not have, now and later. */
static TransactionId
undeclared_horizon(const bool *listed)
{
	TransactionId oldest = GetOldestActiveTransactionId();	/* before the rest */
	TransactionId slot_xmin;
	TransactionId slot_catalog_xmin;

	note_undeclared_xmins(listed, &oldest);
	ProcArrayGetReplicationSlotXmin(&slot_xmin, &slot_catalog_xmin);
	note_older(&oldest, slot_xmin);
	return oldest;
}

static void
make_known(const SnapshotContent *content, RoseKnownSnapshot *known)
{
	known->xmin = U64FromFullTransactionId(rose_full_xid(content->xmin));
	known->xmax = U64FromFullTransactionId(rose_full_xid(content->xmax));
	known->nxip = content->nxip;
	for (int i = 0; i < content->nxip; i++)
		known->xip[i] = U64FromFullTransactionId(rose_full_xid(content->xip[i]));
}

/* One that is the same, or -1. */
static int
find_same(const int *chosen, int n, const SnapshotContent *content)
{
	for (int i = 0; i < n; i++)
		if (same_content(&declared->slots[chosen[i]].content, content))
			return i;
	return -1;
}

/*
 * Choose the slots whose snapshots are told apart: if there are too many, the oldest ones.
 * Other databases' do not see this one's tables.  listed: which slots are
 * taken care of.  REQUIRES the lock, exclusively.
 */
static int
choose_slots(int *chosen, bool *listed)
{
	int			n = 0;

	for (int i = 0; i < declared->nslots; i++)
	{
		const DeclaredSlotShared *slot = &declared->slots[i];
		int			newest = 0;

		listed[i] = slot->valid;
		if (!slot->valid || slot->database != MyDatabaseId ||
			find_same(chosen, n, &slot->content) >= 0)
			continue;
		if (n < ROSE_DECLARED_SNAPSHOTS)
		{
			chosen[n++] = i;
			continue;
		}
		for (int k = 1; k < n; k++)
			if (TransactionIdFollows(declared->slots[chosen[k]].content.xmin,
									 declared->slots[chosen[newest]].content.xmin))
				newest = k;
		if (TransactionIdPrecedes(slot->content.xmin,
								  declared->slots[chosen[newest]].content.xmin))
			chosen[newest] = i;
	}
	/* those that were passed over, and their likes */
	for (int i = 0; n == ROSE_DECLARED_SNAPSHOTS && i < declared->nslots; i++)
		if (listed[i] && declared->slots[i].database == MyDatabaseId)
			listed[i] = find_same(chosen, n, &declared->slots[i].content) >= 0;
	return n;
}

/* With nothing declared we must not believe to be further than core does. */
static void
check_against_core(Relation rel)
{
#ifdef USE_ASSERT_CHECKING
	bool	   *none = palloc0(declared->nslots * sizeof(bool));
	TransactionId ours = undeclared_horizon(none);

	Assert(TransactionIdPrecedesOrEquals(ours, GetOldestNonRemovableTransactionId(rel)));
	pfree(none);
#endif
}

void
rose_declared_horizon(RoseHorizon *horizon, Relation rel, MemoryContext context)
{
	MemoryContext old;
	bool	   *listed;
	int			chosen[ROSE_DECLARED_SNAPSHOTS];
	int			n;

	horizon->undeclared = horizon->oldest;
	if (declared == NULL || RelationUsesLocalBuffers(rel) || rose_cleanup_is_deferred())
		return;
	old = MemoryContextSwitchTo(context);
	listed = palloc(declared->nslots * sizeof(bool));
	LWLockAcquire(&declared->lock, LW_EXCLUSIVE);
	check_against_core(rel);
	n = choose_slots(chosen, listed);
	if (n > 0)
	{
		uint64		undeclared =
			U64FromFullTransactionId(rose_full_xid(undeclared_horizon(listed)));

		if (undeclared > horizon->oldest)
		{
			horizon->undeclared = undeclared;
			horizon->nsnapshots = n;
			horizon->snapshots = palloc(n * sizeof(RoseKnownSnapshot));
			for (int i = 0; i < n; i++)
				make_known(&declared->slots[chosen[i]].content, &horizon->snapshots[i]);
			declared->reached = Max(declared->reached, undeclared);
		}
	}
	LWLockRelease(&declared->lock);
	pfree(listed);
	MemoryContextSwitchTo(old);
}

int
rose_declared_pids(int **pids)
{
	int			n = 0;

	*pids = palloc(declared->nslots * sizeof(int));
	LWLockAcquire(&declared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < declared->nslots; i++)
		if (declared->slots[i].valid)
			(*pids)[n++] = ProcGlobal->allProcs[i].pid;
	LWLockRelease(&declared->lock);
	return n;
}
