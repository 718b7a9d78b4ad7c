/*-------------------------------------------------------------------------
 *
 * rose_declared.c
 *	  The snapshots of REPEATABLE READ and SERIALIZABLE transactions, declared to garbage
 *	  collection.  See rose_declared.h; the argument is in README.md, "Declared snapshots".
 *
 * reached is the newest horizon for undeclared snapshots that garbage collection has used
 * beside declared ones: a snapshot that nobody knew of is safe if its xmin is not before
 * that.
 *
 * Locking: see rose_declared_internal.h.
 *
 * What this does not do: know prepared transactions, which have no snapshot, nor what a
 * SERIALIZABLE transaction has to meet beside what it sees (rose_serial.c); for READ
 * COMMITTED see rose_declared_live.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

#include "compat/rose_compat.h"
#include "util/rose_stop_point.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_declared_internal.h"
#include "lsm/snapshot/rose_serial.h"
#include "lsm/snapshot/rose_visibility.h"

/*
 * Transactions in progress that the snapshots of a slot have room for: all that there can
 * be, if they are not thousands; then what all slots together have room for is bounded,
 * and who has more is protected by its xmin.
 */
#define LEAST_XIDS		64
#define ALL_XIDS		(8 * 1024 * 1024)

/* This transaction's snapshot. */
typedef enum DeclaredState
{
	NOT_LOOKED_AT,
	DECLARED,
	UNDECLARED,					/* cannot be: our xmin in the process array has to do */
	LOST						/* imported when its versions may have been gone */
} DeclaredState;

RoseDeclaredShared *rose_declared_shared = NULL;
static RoseDeclaredSlotShared *my_slot = NULL;	/* if DECLARED */
static DeclaredState my_state = NOT_LOOKED_AT;

static int
slot_nxids(void)
{
	int			most = MaxBackends + max_prepared_xacts;

	return Min(most, Max(LEAST_XIDS, ALL_XIDS / MaxBackends));
}

static Size
slot_size(void)
{
	return MAXALIGN(offsetof(RoseDeclaredSlotShared, xids) + slot_nxids() * sizeof(TransactionId));
}

Size
rose_declared_shmem_size(void)
{
	return add_size(offsetof(RoseDeclaredShared, slots), mul_size(MaxBackends, slot_size()));
}

void
rose_declared_shmem_init(bool found)
{
	bool		mine;

	rose_declared_shared = ShmemInitStruct("rose declared snapshots", rose_declared_shmem_size(),
										   &mine);
	if (!mine)
	{
		rose_declared_shared->reached = 0;
		rose_declared_shared->nslots = MaxBackends;
		rose_declared_shared->nxids = slot_nxids();
		rose_declared_shared->slot_size = slot_size();
		for (int i = 0; i < rose_declared_shared->nslots; i++)
			memset(rose_declared_slot(i), 0, offsetof(RoseDeclaredSlotShared, xids));
		LWLockInitialize(&rose_declared_shared->lock, LWLockNewTrancheId());
	}
	LWLockRegisterTranche(rose_declared_shared->lock.tranche, "RoseDeclared");
}

RoseDeclaredSlotShared *
rose_declared_my_slot(void)
{
	int			index;

	if (rose_declared_shared == NULL)
		return NULL;
	index = (int) (MyProc - ProcGlobal->allProcs);
	return index < rose_declared_shared->nslots ? rose_declared_slot(index) : NULL;
}

/* ---- declaring ---- */

int
rose_declared_compare_xids(const void *a, const void *b)
{
	TransactionId x = *(const TransactionId *) a;
	TransactionId y = *(const TransactionId *) b;

	return x < y ? -1 : x > y;
}

/* Our own transaction counts as in progress, as it does in what is exported of the snapshot. */
RoseDeclaredContent *
rose_declared_content(Snapshot snapshot)
{
	TransactionId own = GetTopTransactionIdIfAny();
	int			n = snapshot->xcnt;
	RoseDeclaredContent *content;

	if (snapshot->takenDuringRecovery)
		return NULL;
	content = palloc0(offsetof(RoseDeclaredContent, xip) + (n + 1) * sizeof(TransactionId));
	content->xmin = snapshot->xmin;
	content->xmax = snapshot->xmax;
	if (n > 0)
		memcpy(content->xip, snapshot->xip, n * sizeof(TransactionId));
	if (TransactionIdIsValid(own) && TransactionIdPrecedes(own, snapshot->xmax))
	{
		bool		there = false;

		for (int i = 0; i < n && !there; i++)
			there = content->xip[i] == own;
		if (!there)
			content->xip[n++] = own;
	}
	qsort(content->xip, n, sizeof(TransactionId), rose_declared_compare_xids);
	content->nxip = n;
	return content;
}

bool
rose_declared_add(RoseDeclaredSlotShared *slot, const RoseDeclaredContent *content)
{
	RoseDeclaredMember *member;
	int			first = 0;

	if (slot->nmembers > 0)
	{
		const RoseDeclaredMember *last = &slot->members[slot->nmembers - 1];

		first = last->first + last->nxip;
	}
	if (slot->nmembers == ROSE_DECLARED_MEMBERS ||
		first + content->nxip > rose_declared_shared->nxids)
		return false;
	member = &slot->members[slot->nmembers++];
	member->xmin = content->xmin;
	member->xmax = content->xmax;
	member->first = first;
	member->nxip = content->nxip;
	memcpy(&slot->xids[first], content->xip, content->nxip * sizeof(TransactionId));
	return true;
}

static bool
is_member(const RoseDeclaredSlotShared *slot, const RoseDeclaredContent *content)
{
	for (int i = 0; i < slot->nmembers; i++)
	{
		const RoseDeclaredMember *member = &slot->members[i];

		if (member->xmin == content->xmin && member->xmax == content->xmax &&
			member->nxip == content->nxip &&
			memcmp(&slot->xids[member->first], content->xip,
				   content->nxip * sizeof(TransactionId)) == 0)
			return true;
	}
	return false;
}

/* Did garbage collection not know of a snapshot with this xmin?  REQUIRES the lock. */
static bool
was_overlooked(TransactionId xmin)
{
	return U64FromFullTransactionId(rose_full_xid(xmin)) < rose_declared_shared->reached;
}

/*
 * Does its backend still have what is in the slot?  A READ COMMITTED transaction may have
 * let go of it, or ended, and then garbage collection looks at it no more.  REQUIRES the
 * lock, exclusively.
 */
static bool
is_held(int i, const RoseDeclaredContent *content)
{
	TransactionId xmin = *(volatile TransactionId *) &ProcGlobal->allProcs[i].xmin;

	return !rose_declared_slot(i)->live ||
		(TransactionIdIsValid(xmin) && TransactionIdPrecedesOrEquals(xmin, content->xmin));
}

/* Does somebody declare just this snapshot?  REQUIRES the lock, exclusively. */
static bool
is_declared(const RoseDeclaredContent *content, bool serializable)
{
	for (int i = 0; i < rose_declared_shared->nslots; i++)
	{
		const RoseDeclaredSlotShared *slot = rose_declared_slot(i);

		if (slot->valid && slot->database == MyDatabaseId && is_member(slot, content) &&
			slot->serializable >= serializable && is_held(i, content))
			return true;
	}
	return false;
}

/* With READ ONLY and DEFERRABLE, core has waited for a snapshot beside which nobody does harm. */
static bool
meets_writers(void)
{
	return XactIsoLevel == XACT_SERIALIZABLE && !(XactReadOnly && XactDeferrable);
}

/* REQUIRES the lock. */
static bool
fill_slot(RoseDeclaredSlotShared *slot, const RoseDeclaredContent *content)
{
	slot->nmembers = 0;
	if (!rose_declared_add(slot, content))
		return false;
	slot->live = slot->stale = false;
	slot->serializable = meets_writers();
	slot->database = MyDatabaseId;
	slot->other_xmin = InvalidTransactionId;
	slot->valid = true;
	return true;
}

/*
 * Our snapshot was kept for us from the moment it was taken, by our xmin.  Not so one
 * that was imported: before, it was kept by the backend that exported it, which must have
 * declared it, or not have declared anything.
 */
static DeclaredState
declare(RoseDeclaredSlotShared *slot, Snapshot snapshot)
{
	RoseDeclaredContent *content = rose_declared_content(snapshot);
	LWLock	   *lock = &rose_declared_shared->lock;
	DeclaredState state = UNDECLARED;
	bool		safe;

	LWLockAcquire(lock, LW_SHARED);
	safe = !was_overlooked(snapshot->xmin);
	if (!safe)
	{
		LWLockRelease(lock);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		safe = content != NULL && is_declared(content, meets_writers());
	}
	if (!safe)
		state = LOST;
	else if (slot != NULL && content != NULL && fill_slot(slot, content))
	{
		my_slot = slot;
		state = DECLARED;
	}
	LWLockRelease(lock);
	if (content != NULL)
		pfree(content);
	return state;
}

void
rose_declared_begin(void)
{
	if (my_state != NOT_LOOKED_AT || !FirstSnapshotSet || HistoricSnapshotActive() ||
		rose_declared_shared == NULL)
		return;
	rose_serial_begin();
	my_state = declare(rose_declared_my_slot(), GetTransactionSnapshot());
}

static void
withdraw_slot(void)
{
	RoseDeclaredSlotShared *slot = MyProc != NULL ? rose_declared_my_slot() : NULL;

	if (slot == NULL || !slot->valid)	/* which nobody else sets */
		return;
	LWLockAcquire(&rose_declared_shared->lock, LW_SHARED);
	slot->valid = false;
	LWLockRelease(&rose_declared_shared->lock);
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
	withdraw_slot();
	rose_declared_live_end();
	my_slot = NULL;
	my_state = NOT_LOOKED_AT;
}

void
rose_declared_define_callbacks(void)
{
	RegisterXactCallback(withdraw, NULL);
	rose_declared_live_define_callbacks();
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
	LWLockAcquire(&rose_declared_shared->lock, LW_SHARED);
	my_slot->other_xmin = snapshot->xmin;
	overlooked = was_overlooked(snapshot->xmin);
	LWLockRelease(&rose_declared_shared->lock);
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

/* ---- views ---- */

int
rose_declared_pids(int **pids)
{
	int			n = 0;

	*pids = palloc(rose_declared_shared->nslots * sizeof(int));
	LWLockAcquire(&rose_declared_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < rose_declared_shared->nslots; i++)
		if (rose_declared_slot(i)->valid)
			(*pids)[n++] = ProcGlobal->allProcs[i].pid;
	LWLockRelease(&rose_declared_shared->lock);
	return n;
}
