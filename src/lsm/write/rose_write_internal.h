/*-------------------------------------------------------------------------
 *
 * rose_write_internal.h
 *	  What the files of the write path share; not for other folders.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_INTERNAL_H
#define ROSE_WRITE_INTERNAL_H

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/read/rose_key_reader.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_write.h"

/*
 * A version to be written.  rose_write_versions fills in seq and, in a table without key,
 * the row id of a new row; not before it is written, so that a retry takes new ones.
 */
typedef struct RoseNewVersion
{
	RoseVersion version;
	Datum		key[INDEX_MAX_KEYS];
	MinimalTuple row;
} RoseNewVersion;

/* ---- rose_write.c ---- */

/* A reader of the current transaction, made once. */
extern RoseKeyReader *rose_write_reader(RoseTree *tree);

/* Header of a new version of the current (sub)transaction. */
extern void rose_write_stamp(RoseVersion *version, RoseOp op, CommandId cid);

/*
 * Link versions into C0 and log them (log: to the tail; locks never are), or write them
 * past memory.  look: when the writer looked at the keys; NULL if they need no look,
 * because they are new row ids.
 *
 * Nothing is written if C0 has no room: let go of all locks, call rose_make_room and
 * start over.  Nor if somebody has written one of the keys since the look, or may have:
 * let go of all locks and look again.
 */
extern RoseMemPrepared rose_write_versions(RoseTree *tree, RoseNewVersion *versions, int n,
										   RoseC0Look *look, bool log);

/*
 * As many as can be, in their order; returns how many, and in *result why not the next
 * one.  No locks among them.  hints: where they go in C0, or NULL.
 */
extern int	rose_write_some_versions(RoseTree *tree, RoseNewVersion *versions,
									 const RoseMemSpot *hints, int n, RoseC0Look *look,
									 RoseMemPrepared *result);

/* A writer is about to look at keys that it wants to write. */
static inline void
rose_write_look(RoseTree *tree, RoseC0Look *look)
{
	rose_c0_look(&tree->shared->c0, look);
}

/*
 * Make the entry of an ended transaction's lock this one's.  False if it cannot be:
 * its memtable is not the active one any more.  REQUIRES the key's partition lock.
 */
extern bool rose_write_reuse_lock(RoseTree *tree, const RoseMemPlace *place,
								  RoseNewVersion *lock, bool log);

/* A row ready to be stored: external and compressed values detoasted, size
 * checked; allocated in the current context. */
extern MinimalTuple rose_write_form_row(RoseTree *tree, const Datum *values,
										const bool *nulls, Datum *key);

/* A row with the key columns only, for tombstones and locks. */
extern MinimalTuple rose_write_form_key_row(RoseTree *tree, const Datum *key);

/* Give a version its number, what follows from it, and in a table without key a new row its row id. */
extern void rose_write_number(RoseTree *tree, RoseNewVersion *v, uint64 seq);

typedef enum RoseKeyState
{
	ROSE_KEY_FREE,				/* no row has the key */
	ROSE_KEY_LIVE,				/* a committed or own row has it */
	ROSE_KEY_BUSY				/* depends on a transaction in progress */
} RoseKeyState;

/* What it says holds for a moment: see rose_write_look. */
extern RoseKeyState rose_write_key_state(RoseTree *tree, const Datum *key,
										 TransactionId *xwait);

/* Wait for the transaction that makes a key BUSY; errors meanwhile say what for.  No LWLock may be held. */
extern void rose_write_wait_for_key(RoseTree *tree, TransactionId xwait);

/* ---- rose_make_room.c ---- */

/* C0 had no room for what this process wanted to write: wait for some, or make it.  No LWLock may be held. */
extern void rose_make_room(RoseTree *tree);

/* It has written something. */
extern void rose_make_room_found(void);
extern void rose_make_room_end_transaction(void);

/*
 * After a write: spill the table if nobody else can, and it has more than its share.
 * worker: one comes when asked.
 */
extern void rose_make_room_keep_share(RoseTree *tree, bool worker);

/* ---- rose_direct.c ---- */

/*
 * The next write to the table goes past C0, to a private run.  False: it cannot.  Waits
 * for a spill of the table; no LWLock may be held.  The writer takes his locks and looks
 * at his keys again then.  worker: one merges the table.
 */
extern bool rose_direct_begin(RoseTree *tree, bool worker);

/* The table that this process is about to write to in this way, or NULL. */
extern RoseTree *rose_direct_tree;

/* Write all of them, or none: somebody has written, or may have written, one of the keys since the look. */
extern RoseMemPrepared rose_direct_write(RoseTree *tree, RoseNewVersion *versions, int n,
										 RoseC0Look *look);

/* Nothing more comes. */
extern void rose_direct_end(void);

/* ---- rose_conflict.c ---- */

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

/* TID of the version that a TM_Updated leads to. */
extern void rose_conflict_newest_tid(RoseTree *tree, const RoseConflict *conflict,
									 ItemPointer tid);
extern void rose_conflict_report(RoseTree *tree, const RoseConflict *conflict,
								 const ItemPointerData *tid, TM_FailureData *tmfd);

#endif							/* ROSE_WRITE_INTERNAL_H */
