/*-------------------------------------------------------------------------
 *
 * rose_conflict.h
 *	  Write-write conflicts: PostgreSQL's rules on versions instead of tuples.
 *
 * Says what stands in the way of a change; neither waits nor writes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONFLICT_H
#define ROSE_CONFLICT_H

#include "postgres.h"

#include "access/tableam.h"
#include "nodes/lockoptions.h"

#include "memtable/rose_memtable.h"
#include "store/rose_manifest.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_key_reader.h"

/* What stands between a version that was read and changing or locking it. */
typedef struct RoseConflict
{
	TM_Result	result;
	TransactionId xwait;		/* TM_BeingModified: whom to wait for */
	TransactionId xmax;			/* who superseded it first */
	CommandId	cmax;			/* own supersession only */
	uint64		moved_to;		/* see RoseVersion; TM_Updated: the row's new key */
	bool		locked;			/* own lock of at least this mode is there */
	bool		locker;			/* own lock of any mode is there */
	RoseVersion newest;			/* TM_Updated: header of the newest version ... */
	bool		newest_in_component;	/* ... and where it is */
	RoseComponentEntryDisk newest_entry;
	uint64		newest_ordinal;

	/* a lock above all versions whose transaction has ended: may be taken over */
	RoseMemPlace dead_lock;

	/* locks of others that do not conflict, for an update to carry along; in the caller's memory */
	int			nlocks;
	int			maxlocks;
	RoseVersion *locks;
} RoseConflict;

/*
 * Of locks, what it says holds as long as the key's partition lock is held, which is
 * REQUIRED; of other versions, for a moment: see rose_write_look.
 */
extern void rose_conflict_check(RoseTree *tree, const Datum *key, uint64 seq,
								LockTupleMode mode, CommandId cid,
								RoseConflict *conflict);

/*
 * For who writes above whatever is there: is a version or a lock of somebody else in the way?  OK or BeingModified, and locks
 * to carry along.  locked: own versions or locks are there.  It holds as above.
 */
extern void rose_conflict_check_blind(RoseTree *tree, const Datum *key, LockTupleMode mode, RoseConflict *conflict);

/* TID of the version that a TM_Updated leads to. */
extern void rose_conflict_newest_tid(RoseTree *tree, const RoseConflict *conflict,
									 ItemPointer tid);
extern void rose_conflict_report(RoseTree *tree, const RoseConflict *conflict,
								 const ItemPointerData *tid, TM_FailureData *tmfd);


#endif							/* ROSE_CONFLICT_H */
