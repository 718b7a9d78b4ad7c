/*-------------------------------------------------------------------------
 *
 * rose_declared_internal.h
 *	  Shared between the files of declared snapshots: the slots.
 *
 * rose_declared.c declares the snapshot of a REPEATABLE READ or SERIALIZABLE transaction,
 * rose_declared_live.c those that a READ COMMITTED one has, and rose_declared_collect.c
 * looks at all of them.
 *
 * One slot for each backend.  Locking: a slot is written by its backend, holding the lock
 * shared; whoever looks at the slots of others, or sets reached, holds it exclusively.
 * So while slots and process array are looked at together, no declaration comes or goes,
 * and the transactions of those that are there have not been followed by others in their
 * backends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DECLARED_INTERNAL_H
#define ROSE_DECLARED_INTERNAL_H

#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/snapshot.h"

/* Snapshots that a slot has room for; as many transactions in progress as fit together. */
#define ROSE_DECLARED_MEMBERS	8

/* What a snapshot says of top-level transactions. */
typedef struct RoseDeclaredContent
{
	TransactionId xmin;
	TransactionId xmax;
	int			nxip;
	TransactionId xip[FLEXIBLE_ARRAY_MEMBER];	/* in numerical order */
} RoseDeclaredContent;

typedef struct RoseDeclaredMember
{
	TransactionId xmin;
	TransactionId xmax;
	int			first;			/* of the slot's xids */
	int			nxip;
} RoseDeclaredMember;

typedef struct RoseDeclaredSlotShared	/* all of it, but stale: lock of RoseDeclaredShared */
{
	bool		valid;
	bool		live;			/* of a READ COMMITTED transaction: its snapshots come and go */
	volatile bool stale;		/* live: it may have snapshots by now that were there when cover was found; the
								 * backend, no lock */
	Oid			database;
	bool		serializable;	/* not live: it has to meet who wrote what it does not see */
	TransactionId other_xmin;	/* not live: of other snapshots in use, or invalid */
	TransactionId cover;		/* live: who is not among the members sees all before this */
	int			nmembers;
	RoseDeclaredMember members[ROSE_DECLARED_MEMBERS];
	TransactionId xids[FLEXIBLE_ARRAY_MEMBER];
} RoseDeclaredSlotShared;

typedef struct RoseDeclaredShared
{
	LWLock		lock;
	uint64		reached;		/* lock; full xid: the newest horizon for undeclared snapshots that was used
								 * beside declared ones */
	int			nslots;			/* constant */
	int			nxids;			/* constant: of a slot */
	Size		slot_size;		/* constant */
	char		slots[FLEXIBLE_ARRAY_MEMBER];
} RoseDeclaredShared;

extern RoseDeclaredShared *rose_declared_shared;	/* NULL: not preloaded */

static inline RoseDeclaredSlotShared *
rose_declared_slot(int i)
{
	return (RoseDeclaredSlotShared *) (rose_declared_shared->slots +
									   i * rose_declared_shared->slot_size);
}

/* This backend's, or NULL. */
extern RoseDeclaredSlotShared *rose_declared_my_slot(void);

/* The content in the current context; NULL: it cannot be declared. */
extern RoseDeclaredContent *rose_declared_content(Snapshot snapshot);

/* The order of a content's xip, for qsort() and bsearch(). */
extern int	rose_declared_compare_xids(const void *a, const void *b);

/* Add a snapshot; false if there is no room.  REQUIRES the lock. */
extern bool rose_declared_add(RoseDeclaredSlotShared *slot, const RoseDeclaredContent *content);

/* The transaction has ended. */
extern void rose_declared_live_end(void);

#endif							/* ROSE_DECLARED_INTERNAL_H */
