/*-------------------------------------------------------------------------
 *
 * rose_visibility.h
 *	  Which versions a snapshot sees, and what became of the transaction that
 *	  wrote one.
 *
 * A component other than a private run holds committed versions only, with
 * top-level 64-bit xids: there a snapshot is asked by xid alone and the commit
 * log never.  Versions in C0 and in private runs are judged as heap judges a
 * tuple's xmin: own writes by command id, others by snapshot and commit log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VISIBILITY_H
#define ROSE_VISIBILITY_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/snapshot.h"

#include "util/rose_version.h"
#include "memtable/rose_memtable.h"

/* How rows are chosen; SnapshotAny and NonVacuumable read as SELF does. */
typedef enum RoseSnapshotKind
{
	ROSE_SNAPSHOT_MVCC,
	ROSE_SNAPSHOT_SELF,
	ROSE_SNAPSHOT_DIRTY
} RoseSnapshotKind;

/* A snapshot prepared for many questions; cheap to make. */
typedef struct RoseVisibility
{
	Snapshot	snapshot;
	RoseSnapshotKind kind;
	FullTransactionId xmin;		/* MVCC: all older ones have ended */
	FullTransactionId xmax;		/* MVCC: this and later ones are not seen */
	TransactionId last_committed;	/* writer that was found to be seen last */
} RoseVisibility;

typedef enum RoseXidStatus
{
	ROSE_XID_COMMITTED,
	ROSE_XID_ABORTED,
	ROSE_XID_OWN,				/* the current transaction, not rolled back */
	ROSE_XID_IN_PROGRESS		/* somebody else */
} RoseXidStatus;

/* The (sub)transaction that wrote a version. */
static inline TransactionId
rose_version_writer(const RoseVersion *version)
{
	return TransactionIdIsValid(version->subxid) ? version->subxid :
		XidFromFullTransactionId(version->xid);
}

/* 64-bit form of a 32-bit xid that is within 2^31 of the next one. */
extern FullTransactionId rose_full_xid(TransactionId xid);

/* Raises serialization_failure if the snapshot may not be used any more (rose_declared.h). */
extern void rose_visibility_init(RoseVisibility *vis, Snapshot snapshot);

/* Status of a version's writer as of now. */
extern RoseXidStatus rose_version_status(const RoseVersion *version);

/*
 * Does the snapshot see this version as written (superseded or not)?  committed: the
 * version comes from a component that holds only committed ones.  For DIRTY, an
 * in-progress writer's xid is put into the snapshot's xmin (a PUT: seen) or xmax (a
 * TOMBSTONE: not seen, so that the older version shows).
 */
extern bool rose_version_visible(RoseVisibility *vis, const RoseVersion *version,
								 bool committed);

/*
 * Does the snapshot see this entry of C0 as written?  Uses and sets its hint bits.
 * REQUIRES a reading section of C0.
 */
extern bool rose_entry_visible(RoseVisibility *vis, const RoseMemEntryRef *entry);

/* Quickly: is it seen because its writer is that of the entry before?  Not for locks. */
static inline bool
rose_entry_visible_again(const RoseVisibility *vis, const RoseMemEntryRef *entry)
{
	return (entry->hints & ROSE_MEM_HINT_COMMITTED) != 0 &&
		TransactionIdIsValid(vis->last_committed) &&
		rose_version_writer(&entry->version) == vis->last_committed;
}

/* DIRTY reports on one row at a time: call before each key. */
static inline void
rose_visibility_next_key(RoseVisibility *vis)
{
	if (vis->kind == ROSE_SNAPSHOT_DIRTY)
	{
		vis->snapshot->xmin = vis->snapshot->xmax = InvalidTransactionId;
		vis->snapshot->speculativeToken = 0;
	}
}

#endif							/* ROSE_VISIBILITY_H */
