/*-------------------------------------------------------------------------
 *
 * rose_declared_collect.c
 *	  What garbage collection makes of declared snapshots: see rose_horizon.h; the argument is in
 *	  README.md, "Declared snapshots".
 *
 * Slots and process array are looked at together, with the slots locked against change.
 * First the oldest transaction in progress, then what each process has: so whatever is
 * taken after the first look sees all that the first look found to have ended.
 *
 * Snapshots of one server are taken one after the other, and each sees all that earlier
 * ones do.  So they stand in a row, and what a transaction's versions are to all of them
 * is one number: the first one that sees it.  Any number of them can be told apart.
 * Those that logical replication slots are made with come of the log, and may have no
 * place in the row: see is_nested().
 *
 * Locking: that of the slots, exclusively; within it core's locks of the process array,
 * of replication slots and of transaction ids.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "compat/rose_compat.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_declared_internal.h"
#include "lsm/snapshot/rose_serial.h"
#include "lsm/snapshot/rose_visibility.h"

/* What the process array tells of one process. */
typedef struct ProcessState
{
	bool		counts;			/* it may have snapshots that see rose tables */
	bool		idle;			/* it waits for its client */
	TransactionId xmin;
} ProcessState;

/* A snapshot of a slot. */
typedef struct Listed
{
	const RoseDeclaredMember *member;
	const TransactionId *xids;
	bool		serializable;
} Listed;

typedef struct Collection
{
	TransactionId oldest;		/* what every snapshot sees that is not listed, now and later */
	ProcessState *processes;
	int			nlisted;
	Listed	   *listed;
} Collection;

static void
note_older(TransactionId *oldest, TransactionId xid)
{
	if (TransactionIdIsValid(xid) && TransactionIdPrecedes(xid, *oldest))
		*oldest = xid;
}

/* ---- the process array ---- */

/* A walsender without database has what a standby tells it, where nobody reads rose tables. */
static bool
is_feedback(const PGPROC *proc)
{
	return (proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS) != 0 &&
		!OidIsValid(proc->databaseId);
}

static void
read_processes(Collection *collection)
{
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		ProcessState *state = &collection->processes[i];

		state->xmin = *(volatile TransactionId *) &proc->xmin;
		state->idle = *(volatile uint32 *) &proc->wait_event_info == WAIT_EVENT_CLIENT_READ;
		/* as core does; who has left the process array may have left an xmin in its entry */
		state->counts = TransactionIdIsValid(state->xmin) &&
			(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) == 0 &&
			proc->procLatch.owner_pid != 0 && !is_feedback(proc);
	}
	LWLockRelease(ProcArrayLock);
}

/*
 * A logical slot that is being made holds what its first snapshot needs.  A physical one
 * holds what queries on a standby need, and those do not read rose tables; nor do the
 * catalogs that decoding needs matter.
 */
static void
note_replication_slots(Collection *collection)
{
	if (max_replication_slots <= 0)
		return;
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		TransactionId xmin = InvalidTransactionId;

		SpinLockAcquire(&slot->mutex);
		if (slot->in_use && SlotIsLogical(slot))
			xmin = slot->effective_xmin;
		SpinLockRelease(&slot->mutex);
		note_older(&collection->oldest, xmin);
	}
	LWLockRelease(ReplicationSlotControlLock);
}

/* ---- the slots ---- */

/* Those of its snapshots that may still be there.  Other databases' do not see this one's tables. */
static void
list_members(Collection *collection, const RoseDeclaredSlotShared *slot, TransactionId xmin)
{
	if (slot->database != MyDatabaseId)
		return;
	for (int i = 0; i < slot->nmembers; i++)
	{
		const RoseDeclaredMember *member = &slot->members[i];

		if (TransactionIdPrecedes(member->xmin, xmin))
			continue;
		collection->listed[collection->nlisted].member = member;
		collection->listed[collection->nlisted].serializable = !slot->live && slot->serializable;
		collection->listed[collection->nlisted++].xids = &slot->xids[member->first];
	}
}

/*
 * One process: what it has declared is listed, and the rest bounds the oldest.  All
 * databases count: so reached says something for each of them.
 */
static void
note_process(Collection *collection, const ProcessState *state, const RoseDeclaredSlotShared *slot)
{
	if (slot == NULL || !slot->valid)
	{
		note_older(&collection->oldest, state->xmin);
		return;
	}
	if (!slot->live)
	{
		note_older(&collection->oldest, slot->other_xmin);
		if (TransactionIdPrecedes(state->xmin, slot->members[0].xmin))
			note_older(&collection->oldest, state->xmin);
		list_members(collection, slot, slot->members[0].xmin);
		return;
	}
	/* what it takes when it goes on sees all that has ended by now */
	if (state->idle && !slot->stale)
	{
		list_members(collection, slot, state->xmin);
		return;
	}
	if (!TransactionIdPrecedes(state->xmin, slot->cover))
	{
		note_older(&collection->oldest, state->xmin);
		return;					/* no snapshot of the list is left that needs to be there */
	}
	note_older(&collection->oldest, slot->cover);
	list_members(collection, slot, state->xmin);
}

static void
note_processes(Collection *collection)
{
	for (int i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const ProcessState *state = &collection->processes[i];
		const RoseDeclaredSlotShared *slot =
			i < rose_declared_shared->nslots ? rose_declared_slot(i) : NULL;

		/* one that has just left the process array may be declared still, and begin again before we are done */
		if (state->counts)
			note_process(collection, state, slot);
		else if (slot != NULL && slot->valid && !slot->live)
			list_members(collection, slot, slot->members[0].xmin);
	}
}

/* ---- the list ---- */

/* From the one that sees least to the one that sees most. */
static int
compare_listed(const void *a, const void *b)
{
	const RoseDeclaredMember *x = ((const Listed *) a)->member;
	const RoseDeclaredMember *y = ((const Listed *) b)->member;

	if (x->xmax != y->xmax)
		return TransactionIdPrecedes(x->xmax, y->xmax) ? -1 : 1;
	return x->nxip > y->nxip ? -1 : x->nxip < y->nxip;
}

static bool
is_among(TransactionId xid, const Listed *listed)
{
	return bsearch(&xid, listed->xids, listed->member->nxip, sizeof(TransactionId),
				   rose_declared_compare_xids) != NULL;
}

static bool
is_equal(const Listed *a, const Listed *b)
{
	return a->member->xmin == b->member->xmin && a->member->xmax == b->member->xmax &&
		a->member->nxip == b->member->nxip &&
		(a->member->nxip == 0 ||
		 memcmp(a->xids, b->xids, a->member->nxip * sizeof(TransactionId)) == 0);
}

/*
 * Does the later one see all that the earlier one sees?  It does if both come of the
 * process array.  To a snapshot that is made with a replication slot, transactions that
 * were rolled back are in progress, and they have ended in the order of their commit
 * records.
 */
static bool
is_nested(const Listed *earlier, const Listed *later)
{
	for (int i = 0; i < later->member->nxip; i++)
		if (TransactionIdPrecedes(later->xids[i], earlier->member->xmax) &&
			!is_among(later->xids[i], earlier))
			return false;
	return true;
}

/* Sort them and leave out equal ones.  One that has no place in the row is left to its xmin. */
static void
order_listed(Collection *collection)
{
	Listed	   *listed = collection->listed;
	int			n = 0;

	qsort(listed, collection->nlisted, sizeof(Listed), compare_listed);
	for (int i = 0; i < collection->nlisted; i++)
	{
		if (n > 0 && is_equal(&listed[n - 1], &listed[i]))
		{
			listed[n - 1].serializable |= listed[i].serializable;
			continue;
		}
		if (n > 0 && !is_nested(&listed[n - 1], &listed[i]))
		{
			note_older(&collection->oldest, listed[i].member->xmin);
			continue;
		}
		listed[n++] = listed[i];
	}
	collection->nlisted = n;
}

static uint64
widen(TransactionId xid)
{
	return U64FromFullTransactionId(rose_full_xid(xid));
}

static void
make_known(const Listed *listed, RoseKnownSnapshot *known)
{
	uint64	   *xip = palloc(Max(listed->member->nxip, 1) * sizeof(uint64));

	known->xmin = widen(listed->member->xmin);
	known->xmax = widen(listed->member->xmax);
	known->nxip = listed->member->nxip;
	for (int i = 0; i < known->nxip; i++)
		xip[i] = widen(listed->xids[i]);
	known->xip = xip;
	known->serializable = listed->serializable;
}

/* From the row into the horizon, in the current context. */
static void
make_list(const Collection *collection, RoseHorizon *horizon)
{
	int			n = collection->nlisted;

	horizon->nsnapshots = n;
	horizon->snapshots = palloc(Max(n, 1) * sizeof(RoseKnownSnapshot));
	for (int i = 0; i < n; i++)
		make_known(&collection->listed[i], &horizon->snapshots[i]);
	horizon->first_serializable = 0;
	while (horizon->first_serializable < n &&
		   !horizon->snapshots[horizon->first_serializable].serializable)
		horizon->first_serializable++;
}

/* ---- the horizon ---- */

/* With nothing declared we must not believe to be further than core does, unless for what counts there only. */
static void
check_against_core(Relation rel)
{
#ifdef USE_ASSERT_CHECKING
	TransactionId oldest = GetOldestActiveTransactionId();
	TransactionId slot_xmin;
	TransactionId slot_catalog_xmin;

	ProcArrayGetReplicationSlotXmin(&slot_xmin, &slot_catalog_xmin);
	note_older(&oldest, slot_xmin);
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];

		if ((proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) == 0 &&
			proc->procLatch.owner_pid != 0)
			note_older(&oldest, *(volatile TransactionId *) &proc->xmin);
	}
	LWLockRelease(ProcArrayLock);
	Assert(TransactionIdPrecedesOrEquals(oldest, GetOldestNonRemovableTransactionId(rel)));
#endif
}

static void
collect(Collection *collection)
{
	collection->processes = palloc(ProcGlobal->allProcCount * sizeof(ProcessState));
	collection->listed = palloc((Size) rose_declared_shared->nslots * ROSE_DECLARED_MEMBERS *
								sizeof(Listed));
	collection->nlisted = 0;
	collection->oldest = GetOldestActiveTransactionId();	/* before the rest */
	note_replication_slots(collection); /* who makes one has its snapshot's xmin before the slot lets go */
	read_processes(collection);
	note_processes(collection);
	order_listed(collection);
}

void
rose_declared_horizon(RoseHorizon *horizon, Relation rel, MemoryContext context)
{
	MemoryContext old;
	Collection	collection;
	uint64		undeclared;

	horizon->undeclared = horizon->oldest;
	if (rose_declared_shared == NULL || RelationUsesLocalBuffers(rel) ||
		RelationIsAccessibleInLogicalDecoding(rel) || rose_cleanup_is_deferred())
		return;
	rose_serial_begin();
	old = MemoryContextSwitchTo(context);
	LWLockAcquire(&rose_declared_shared->lock, LW_EXCLUSIVE);
	check_against_core(rel);
	collect(&collection);
	undeclared = widen(collection.oldest);
	if (undeclared > horizon->oldest)
	{
		horizon->undeclared = undeclared;
		make_list(&collection, horizon);
		rose_declared_shared->reached = Max(rose_declared_shared->reached, undeclared);
	}
	LWLockRelease(&rose_declared_shared->lock);
	pfree(collection.processes);
	pfree(collection.listed);
	MemoryContextSwitchTo(old);
}
