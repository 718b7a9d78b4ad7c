/*-------------------------------------------------------------------------
 *
 * rose_write.h
 *	  Writing to a tree: inserts with uniqueness, updates, deletes and row
 *	  locks with PostgreSQL's conflict rules, and blind writes.
 *
 * A writer looks for versions that conflict, links into C0 if none has come since, and
 * logs to the tail.  Who writes one row holds the key's partition lock meanwhile (an
 * LWLock chosen by the key's hash).  It never waits for a transaction under an LWLock: it
 * lets go, waits for the xid, and looks again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_H
#define ROSE_WRITE_H

#include "postgres.h"

#include "access/tableam.h"
#include "nodes/lockoptions.h"

#include "lsm/read/rose_lookup.h"

typedef enum RoseInsertResult
{
	ROSE_INSERT_OK,
	ROSE_INSERT_DUPLICATE,		/* a committed (or own) row with the key is there */
	ROSE_INSERT_CONFLICT		/* speculative: someone else's, in progress or committed */
} RoseInsertResult;

/*
 * Insert a row (values/nulls of all columns; external and compressed values are detoasted
 * here).  Waits for transactions that hold the key.  speculative: does not wait, returns
 * CONFLICT instead.  On OK sets *tid.
 */
extern RoseInsertResult rose_insert(RoseTree *tree, const Datum *values, const bool *nulls,
									CommandId cid, bool speculative, ItemPointer tid);

/* Many rows, in one go (COPY); stops at the first duplicate: *ndone rows are in. */
extern RoseInsertResult rose_insert_many(RoseTree *tree, Datum **values, bool **nulls,
										 int nrows, CommandId cid,
										 ItemPointer tids, int *ndone);

/* A change of one row: what table_tuple_delete and _update are told, and where they say why it could not be. */
typedef struct RoseChange
{
	ItemPointerData tid;
	CommandId	cid;
	Snapshot	crosscheck;		/* that must see the row, too, or InvalidSnapshot */
	bool		wait;			/* for others who change the row */
	TM_FailureData *tmfd;
} RoseChange;

typedef struct RoseUpdated
{
	LockTupleMode lockmode;		/* in which the old row is held */
	bool		duplicate;		/* nothing was written, because a row has the new key already ... */
	ItemPointerData tid;		/* ... or on TM_Ok the new row */
} RoseUpdated;

/*
 * As table_tuple_delete, _update, _lock: same TM_Result and TM_FailureData rules.
 * changing_part: the row goes on in another partition.
 */
extern TM_Result rose_delete(RoseTree *tree, const RoseChange *change, bool changing_part);
extern TM_Result rose_update(RoseTree *tree, const RoseChange *change, const Datum *values,
							 const bool *nulls, RoseUpdated *updated);

/* On TM_Ok *row is the locked version (valid until the next call with lookup). */
extern TM_Result rose_lock_row(RoseTree *tree, RoseLookup *lookup, ItemPointer tid,
							   CommandId cid, LockTupleMode mode,
							   LockWaitPolicy wait_policy, uint8 flags,
							   const RoseRow **row, ItemPointer newest_tid,
							   TM_FailureData *tmfd);

/* The subtransaction of this nesting level is aborted. */
extern void rose_insert_abort_subtransaction(int level);

/* Speculative insertion failed: kill the own version with this TID. */
extern void rose_insert_abort_speculative(RoseTree *tree, ItemPointer tid);

/*
 * Blind writes, for replication: no conflict check, no tail log.  A row is formed, in the
 * current context, of values that may go away then: PUT has all columns, PARTIAL those
 * that present says (ROSE_PRESENT_BYTES(natts)), TOMBSTONE the key's.  Row-id tables take
 * PUT only.
 */
typedef struct RoseBlindRow
{
	RoseOp		op;
	MinimalTuple row;
	const bits8 *present;		/* PARTIAL only */
	Datum	   *key;			/* points into row */
} RoseBlindRow;

extern void rose_write_blind_form(RoseTree *tree, RoseOp op, const Datum *values,
								  const bool *nulls, const bits8 *present,
								  RoseBlindRow *out);

/* Write n of them, in this order.  Waits for room in C0 (may spill the table's own C0 in this process). */
extern void rose_write_blind(RoseTree *tree, const RoseBlindRow *rows, int n, CommandId cid);

/*
 * The replication worker says on whose behalf it writes: private runs that its
 * blind writes may cause are published PENDING for this epoch.  0, 0 = none.
 */
extern void rose_make_room_set_epoch(Oid subid, uint64 epoch);

/*
 * For it, when memory is full: wait for an epoch that is being written and will give
 * its memory back; false if there is none.
 */
typedef bool (*RoseWaitForEpochHook) (void);
extern RoseWaitForEpochHook rose_wait_for_epoch_hook;

extern void rose_write_end_transaction(void);	/* top-level end */
extern void rose_direct_abort(int level);	/* of a (sub)transaction of this level */

/*
 * Bulk load: rows in any order are sorted and become one private run owned by the current
 * transaction (visible to others when it commits).  check_unique: error on a duplicate
 * key among them.  level: 0 or 2 (table must be empty for 2).
 */
typedef struct RoseBulkLoad RoseBulkLoad;
extern RoseBulkLoad *rose_bulkload_begin(RoseTree *tree, CommandId cid, bool check_unique,
										 int level, Oid subid, uint64 epoch);
extern void rose_bulkload_put(RoseBulkLoad *load, const Datum *values, const bool *nulls);
extern uint64 rose_bulkload_finish(RoseBulkLoad *load); /* rows */

#endif							/* ROSE_WRITE_H */
